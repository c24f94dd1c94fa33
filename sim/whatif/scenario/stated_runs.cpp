#include "scenario/stated_runs.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "ddlsim/plan/parallel.h"
#include "ddlsim/support/names.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/own_runs.h"
#include "scenario/settings.h"

namespace ddlsim::whatif {
namespace {

constexpr std::string_view kStep = "measured.step";
constexpr std::string_view kRuns = "measured.runs";
constexpr std::string_view kSteps = "measured.steps";
constexpr std::string_view kGpu = "measured.gpu";
constexpr std::string_view kPrecision = "measured.precision";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t end = std::min(text.find(at, from), text.size());
    parts.push_back(trimmed(text.substr(from, end - from)));
    from = end + 1;
  }
  return parts;
}

constexpr std::string_view kGlobalBatch = "global_batch";
constexpr std::string_view kPasses = "passes";
constexpr std::string_view kPassesPath = "strategy.accumulation";

/// "parallel.tensor 4, parallel.zero 1, passes 16, global_batch 128"
Expected<void> parse_split(std::string_view text, io::RunRow& run) {
  for (const std::string_view one : split(text, ',')) {
    const auto words = split(one, ' ');
    if (words.size() == 2 && (words[0] == kGlobalBatch || words[0] == kPasses)) {
      const auto count = parse_count(words[1], {1, std::int64_t{1} << 40});
      if (!count) return tl::unexpected<Error>(count.error());
      (words[0] == kPasses ? run.passes : run.global_batch) = *count;
      continue;
    }
    const bool known = std::find(io::kRunSplit.begin(), io::kRunSplit.end(), words[0]) != io::kRunSplit.end();
    if (words.size() != 2 || !known) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("'{}' says nothing of a split", one.substr(0, 60)), {},
                  {"write a setting and its value, as parallel.tensor 4"});
    }
    run.split.emplace_back(words[0], words[1]);
  }
  return {};
}

/// "2x8@64 = 251 ms", "2x8@64 (parallel.tensor 4, parallel.zero 1) = 251 ms"
Expected<io::RunRow> parse_run(std::string_view text) {
  const auto wrong = [&] {
    return fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is no run", text.substr(0, 60)), {},
                {"write nodes x GPUs per node [@ batch] [(split)] = step, as 2x8@64 = 251 ms or 2x8@4 "
                 "(parallel.tensor 4) = 1.3 s"});
  };
  auto sides = split(text, '=');
  if (sides.size() != 2) return wrong();
  io::RunRow run;
  if (const std::size_t open = sides[0].find('('); open != std::string_view::npos) {
    if (sides[0].back() != ')') return wrong();
    auto parsed = parse_split(sides[0].substr(open + 1, sides[0].size() - open - 2), run);
    if (!parsed) return tl::unexpected<Error>(parsed.error());
    sides[0] = trimmed(sides[0].substr(0, open));
  }
  const auto where = split(sides[0], '@');
  const auto counts = split(where[0], 'x');
  if (where.size() > 2 || counts.size() != 2) return wrong();
  const auto nodes = parse_count(counts[0], {1, hardware::kMaxNodes});
  if (!nodes) return tl::unexpected<Error>(nodes.error());
  const auto gpus = parse_count(counts[1], {1, hardware::kMaxGpusPerNode});
  if (!gpus) return tl::unexpected<Error>(gpus.error());
  run.gpus = *nodes * *gpus;
  run.nodes = *nodes;
  if (where.size() == 2) {
    const auto batch = parse_count(where[1], {1, std::int64_t{1} << 32});
    if (!batch) return tl::unexpected<Error>(batch.error());
    run.batch = *batch;
  }
  const auto step = parse_time(sides[1]);
  if (!step) return tl::unexpected<Error>(step.error());
  run.step = *step;
  return run;
}

/// Rows of the file and of the words.
Expected<std::vector<io::RunRow>> rows_of(std::span<const Override> stated) {
  std::vector<io::RunRow> rows;
  if (const Override* file = last_of(stated, kRuns)) {
    auto loaded = io::load_runs(file->value);
    if (!loaded) return at(loaded.error(), *file);
    rows = std::move(*loaded);
  }
  if (const Override* words = last_of(stated, kSteps)) {
    for (const std::string_view text : split(words->value, ';')) {
      if (text.empty()) continue;
      auto run = parse_run(text);
      if (!run) return at(run.error(), *words);
      run->where = words->where;
      rows.push_back(std::move(*run));
    }
  }
  return rows;
}

/// Under any name of the model and the precision.
Expected<void> check_same(const io::Catalog& catalog, const io::RunRow& row, const Scenario& scenario,
                          const Override* model) {
  // NOLINTNEXTLINE(bugprone-easily-swappable-parameters): in the order of the sentence
  const auto another = [&](std::string_view what, std::string_view run, std::string_view job) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("a run of another {}: '{}', but the job's is '{}'", what, run.substr(0, 60), job),
                row.where);
  };
  if (!row.model.empty() && (model == nullptr || row.model != model->value) && row.model != scenario.model->id) {
    const auto known = catalog.model(row.model);
    if (!known || (*known)->id != scenario.model->id) return another("model", row.model, scenario.model->id);
  }
  if (row.precision.empty()) return {};
  const auto ran = parse_choice(kPrecisions, row.precision, "precision");
  if (ran && *ran == scenario.precision) return {};
  return another("precision", row.precision, name_of(kPrecisions, scenario.precision));
}

/// What the runs are said to be of, where the job has become another since.
Expected<void> check_job(const io::Catalog& catalog, std::span<const Override> stated, const Scenario& scenario) {
  const auto another = [](const Override& of, std::string_view what, std::string_view job) -> Expected<void> {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the measured runs are of another {}: '{}', but the job's is '{}'", what,
                            of.value.substr(0, 60), job),
                of.where,
                {fmt::format("ask for it as an alternative of the job that ran: what-if ... --vs --{} {}", what, job)});
  };
  if (const Override* of = last_of(stated, kGpu)) {
    const auto gpu = catalog.gpu(of->value);
    if (!gpu) return at(gpu.error(), *of);
    if (gpu->id != scenario.cluster.node.gpu.id) return another(*of, "gpu", scenario.cluster.node.gpu.id);
  }
  if (const Override* of = last_of(stated, kPrecision)) {
    const auto precision = parse_choice(kPrecisions, of->value, kPrecision);
    if (!precision) return at(precision.error(), *of);
    if (*precision != scenario.precision) return another(*of, "precision", name_of(kPrecisions, scenario.precision));
  }
  return {};
}

void drop_passes(std::vector<Override>& settings) {
  std::erase_if(settings, [](const Override& s) { return s.path == kGlobalBatch || s.path == kPassesPath; });
}

/// The job's settings with what the run had instead.
Expected<Scenario> scenario_of(const io::RunRow& row, std::span<const Override> job, const Resolver& resolve) {
  std::vector<Override> settings(job.begin(), job.end());
  const auto state = [&](std::string_view path, std::int64_t value) {
    settings.push_back({std::string(path), fmt::format("{}", value), row.where});
  };
  state("nodes", row.nodes);
  state("gpus_per_node", row.gpus / row.nodes);
  if (row.batch) state("batch", *row.batch);
  for (const auto& [path, value] : row.split) settings.push_back({path, value, row.where});
  std::erase_if(settings, [](const Override& s) { return s.path == "parallel.data"; });
  // What the run says of a step's samples stands for both of what the job says of them. With a batch alone a step is
  // one pass of it; where the model is split it has the job's samples, as plans of one job have.
  std::vector<Override> own = settings;
  drop_passes(own);
  const bool says = row.passes || row.global_batch;
  if (says) settings = own;
  if (row.global_batch) state(kGlobalBatch, *row.global_batch);
  if (row.passes) state(kPassesPath, *row.passes);
  if (row.batch && !says) {
    auto one_pass = resolve(own);
    if (one_pass && !plan::splits_model(one_pass->parallel)) return one_pass;
  }
  auto scenario = resolve(settings);
  if (!scenario) scenario.error().notes.push_back("in a measured run");
  return scenario;
}

}  // namespace

namespace {

bool is_of_runs(const Override& stated) { return stated.path.starts_with("measured."); }

}  // namespace

bool states_runs(std::span<const Override> stated) { return std::any_of(stated.begin(), stated.end(), is_of_runs); }

std::vector<Override> without_runs(std::span<const Override> stated) {
  std::vector<Override> others(stated.begin(), stated.end());
  std::erase_if(others, is_of_runs);
  return others;
}

bool leaves_split_open(std::span<const Override> stated) {
  const auto rows = rows_of(stated);
  return rows && std::any_of(rows->begin(), rows->end(), [](const io::RunRow& row) { return row.split.empty(); });
}

Expected<Scenario> changed(const io::Catalog& catalog, std::span<const Override> job, const Scenario& as_stated,
                           std::span<const Override> change) {
  const bool own = states_runs(change);
  std::vector<Override> all = without_runs(job);
  all.insert(all.end(), change.begin(), change.end());
  auto scenario = resolve(catalog, all);
  if (!scenario || own || !as_stated.own_runs) return scenario;
  return corrected(std::move(*scenario), as_stated.own_runs);
}

Expected<Scenario> with_stated_runs(const io::Catalog& catalog, Scenario scenario, std::span<const Override> stated,
                                    const Resolver& resolve) {
  if (auto same = check_job(catalog, stated, scenario); !same) return tl::unexpected<Error>(same.error());
  const auto rows = rows_of(stated);
  if (!rows) return tl::unexpected<Error>(rows.error());
  const std::vector<Override> job = without_runs(stated);
  std::vector<OwnRun> runs;
  if (const Override* step = last_of(stated, kStep)) {
    const auto time = parse_time(step->value);
    if (!time) return at(time.error(), *step);
    runs.push_back({scenario, *time, step->where});
  }
  for (const io::RunRow& row : *rows) {
    if (auto same = check_same(catalog, row, scenario, last_of(stated, "model")); !same) {
      return tl::unexpected<Error>(same.error());
    }
    auto ran = scenario_of(row, job, resolve);
    if (!ran) return tl::unexpected<Error>(ran.error());
    runs.push_back({std::move(*ran), row.step, row.where});
  }
  // Who measures steps does so for minutes, however long the job is that they speak for.
  for (OwnRun& run : runs) run.scenario.cluster.node.burst_network();
  if (auto possible = check_runs(runs); !possible) return tl::unexpected<Error>(possible.error());
  auto learnt = OwnRuns::learn(runs);
  if (!learnt) return tl::unexpected<Error>(learnt.error());
  return corrected(std::move(scenario), std::move(*learnt));
}

Expected<std::string> in_words(const io::Catalog& catalog, std::span<const io::RunRow> runs,
                               std::span<const Override> job) {
  const std::vector<Override> others = without_runs(job);
  std::string text;
  for (const io::RunRow& run : runs) {
    const auto ran = scenario_of(run, others, [&](std::span<const Override> one) { return resolve(catalog, one); });
    if (!ran) return tl::unexpected<Error>(ran.error());
    std::vector<std::string> more;
    for (const auto& [path, value] : run.split) more.push_back(fmt::format("{} {}", path, value));
    const std::int64_t passes = ran->strategy.accumulation;
    if (passes > 1 || plan::splits_model(ran->parallel)) more.push_back(fmt::format("{} {}", kPasses, passes));
    text += fmt::format("{}{}x{}@{}{} = {}", text.empty() ? "" : "; ", run.nodes, run.gpus / run.nodes, ran->batch,
                        more.empty() ? "" : fmt::format(" ({})", join(more)), to_exact_text(run.step));
  }
  return text;
}

Expected<Scenario> resolve_beside_runs(const io::Catalog& catalog, std::span<const Override> stated,
                                       std::span<const Override> of_runs) {
  auto scenario = resolve(catalog, without_runs(stated));
  if (!scenario || !states_runs(stated)) return scenario;
  std::vector<Override> job(stated.begin(), stated.end());
  job.insert(job.end(), of_runs.begin(), of_runs.end());
  auto ran = last_of(job, kStep) == nullptr ? scenario : resolve(catalog, without_runs(job));
  if (!ran) return ran;
  ran = with_stated_runs(catalog, std::move(*ran), job,
                         [&](std::span<const Override> run) { return resolve(catalog, run); });
  if (!ran) return ran;
  return corrected(std::move(*scenario), ran->own_runs);
}

}  // namespace ddlsim::whatif
