#include "sweep_answer.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ddlsim/report/sweep.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/own_runs.h"
#include "ddlsim/whatif/scenario.h"
#include "program.h"
#include "sweep_files.h"
#include "sweep_run.h"
#include "terminal.h"

namespace ddlsim::cli {
namespace {

/// Rows and how many of them have an answer.
struct Tally {
  std::int64_t rows = 0;
  std::int64_t answered = 0;
  std::string first_reason;

  /// The last cell is the reason.
  void add(std::span<const io::Cell> row) {
    ++rows;
    const auto* why = std::get_if<std::string>(&row.back());
    if (why == nullptr) ++answered;
    if (why != nullptr && first_reason.empty()) first_reason = *why;
  }
  /// The exit status; says why where nothing has an answer. A part of a grid may be empty.
  [[nodiscard]] int status(const whatif::Shard& part) const {
    if (rows == 0 && part.of > 1) {
      std::fputs("note: the conditions leave no point of this part\n", stderr);
      return kDone;
    }
    if (rows == 0) {
      return print(Error{ErrorCode::kInfeasible, "the conditions leave no point", {}, {}, {}});
    }
    if (answered == 0) {
      return print(Error{ErrorCode::kInfeasible, "no point has an answer", {}, {"the first: " + first_reason}, {}});
    }
    return kDone;
  }
};

/// Of which job measured runs are taken to be, where that is not what every point is.
void say_runs(const SweepQuestion& question) {
  const auto& base = question.grid.base();
  const bool stated =
      std::any_of(base.begin(), base.end(), [](const auto& s) { return s.path.starts_with("measured."); });
  if (!stated || question.grid.paths().empty()) return;
  const auto job = whatif::resolve(question.catalog, base);
  if (!job) return;  // every point says why
  std::string text =
      fmt::format("note: measured runs are of the job without what varies: {}\n", whatif::describe(*job));
  for (const std::string& learnt : job->own_runs->learnt()) text += fmt::format("note: {}\n", learnt);
  std::fputs(text.c_str(), stderr);
}

/// Rows come from here and from other ranks; those know what rank 0 had already (nothing but `after`, or that it
/// stops).
class Answers {
 public:
  Answers(const SweepQuestion& question, Ranks* ranks) : question_(question), ranks_(ranks) {}
  /// Whatever happened on rank 0 before there were answers, the others must not wait for them.
  ~Answers() {
    if (ranks_ != nullptr && ranks_->number() == 0 && !begun_) (void)ranks_->share("");
  }
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  Expected<void> to(const TakeCellRows& take, std::optional<std::int64_t> after) {
    whatif::SweepOptions options = question_.options;
    options.after = after;
    begun_ = true;
    if (ranks_ != nullptr) (void)ranks_->share(after ? std::to_string(*after) : "all");
    return run_sweep_over(ranks_, question_.catalog, question_.grid, options, take, lost_);
  }
  /// On a rank that writes nothing. Returns the exit status.
  int help() {
    const std::string after = ranks_->share("");
    if (after.empty()) return kDone;  // rank 0 has said why
    whatif::SweepOptions options = question_.options;
    if (after != "all") options.after = std::stoll(after);
    const auto done = run_sweep_over(ranks_, question_.catalog, question_.grid, options, {}, lost_);
    return done ? kDone : print(done.error());
  }
  [[nodiscard]] bool lost() const { return lost_; }

 private:
  const SweepQuestion& question_;
  Ranks* ranks_;
  bool begun_ = false;
  bool lost_ = false;
};

int into_database(const SweepQuestion& question, Answers& answers) {
  const std::string& path = question.out;
  // A file at its limit is an error to report, not a signal to die of.
  std::signal(SIGXFSZ, SIG_IGN);
  auto store = io::ResultStore::open(path, question.run);
  if (!store) return print(store.error());
  const std::int64_t before = store->run().rows;
  if (store->run().finished) {
    std::fputs(fmt::format("note: {} has all its {} rows\n", path, to_text(before)).c_str(), stderr);
    return kDone;
  }
  std::optional<std::int64_t> after;
  if (before > 0) {
    after = store->last_point();
    std::fputs(fmt::format("note: {} has {} rows; going on after point {}\n", path, to_text(before), after.value_or(-1))
                   .c_str(),
               stderr);
  }
  ProgressLine line("points");
  Tally tally;
  const auto take = [&](const CellRows& rows, const whatif::SweepProgress& progress) -> Expected<void> {
    for (const auto& row : rows) {
      tally.add(row);
      if (auto added = store->add(row); !added) return added;
    }
    line(progress.done, progress.left);
    return store->commit_when_due();
  };
  auto done = answers.to(take, after);
  if (done) done = store->finish();
  if (!done) return print(done.error());
  return before > 0 ? kDone : tally.status(question.options.shard);
}

int into_lines(const SweepQuestion& question, Answers& answers) {
  const report::Format format = question.format;
  const auto& columns = question.run.columns;
  const bool table = format == report::Format::kText || format == report::Format::kMd;
  auto sink = LineSink::open(question.out);
  if (!sink) return print(sink.error());
  ProgressLine line("points");
  Tally tally;
  CellRows kept;
  Expected<void> done = sink->write(report::sweep_head(columns, format));
  const auto take = [&](CellRows&& rows, const whatif::SweepProgress& progress) -> Expected<void> {
    std::string text;
    for (auto& row : rows) {
      tally.add(row);
      if (table) {
        kept.push_back(std::move(row));
      } else {
        text += with_program(report::sweep_line(columns, row, format), DDLSIM_VERSION, question.run.data_hash);
      }
    }
    line(progress.done, progress.left);
    return text.empty() ? Expected<void>() : sink->write(text);
  };
  if (done) done = answers.to(take, {});
  if (done && table) done = sink->write(report::sweep_table(columns, kept, format));
  if (done) done = sink->close();
  if (!done) return sink->failed() ? kNoAnswer : print(done.error());
  return tally.status(question.options.shard);
}

}  // namespace

int answer_sweep(const SweepQuestion& question, UseMpi use) {
  const auto ranks = Ranks::join(use);
  if (ranks != nullptr) {
    const io::ResultRun& run = question.run;
    const auto alike = agree(*ranks, {{"program", run.program},
                                      {"data", "data " + run.data_hash},
                                      {"grid", "grid " + run.grid_hash},
                                      {"detail", run.detail},
                                      {"part", fmt::format("part {}/{}", run.shard, run.shards)}});
    if (!alike) return ranks->number() == 0 ? print(alike.error()) : kNoAnswer;
  }
  Answers answers(question, ranks.get());
  const bool helps = ranks != nullptr && ranks->number() > 0;
  if (!helps) say_runs(question);
  const int status = helps                       ? answers.help()
                     : is_database(question.out) ? into_database(question, answers)
                                                 : into_lines(question, answers);
  if (answers.lost()) ranks->leave_without_the_lost(status);
  return status;
}

}  // namespace ddlsim::cli
