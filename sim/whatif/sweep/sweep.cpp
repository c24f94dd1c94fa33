#include "ddlsim/whatif/sweep.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ddlsim/whatif/clock.h"
#include "ddlsim/whatif/predictor.h"
#include "predict/prediction.h"
#include "scenario/stated_runs.h"
#include "sweep/ordered_work.h"

namespace ddlsim::whatif {
namespace {

using answer::SweepAnswer;
using answer::SweepDetail;
using answer::SweepRow;

/// An error on one line, the choices too.
std::string reason_of(const Error& error) {
  std::string text = error.message;
  for (const std::string& note : error.notes) text += "; " + note;
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return text;
}

SweepAnswer sweep_answer(answer::Prediction prediction) {
  return {.gpus = prediction.gpus,
          .step = prediction.step_time,
          .throughput_samples_per_second = prediction.throughput_samples_per_second,
          .full = answer::SweepPrediction{
              .fidelity = prediction.fidelity,
              .scaling_efficiency = prediction.scaling_efficiency,
              .bottleneck = std::move(prediction.bottleneck),
              .interval_90 = prediction.interval_90,
              .breakdown = prediction.breakdown,
              .memory_per_gpu = prediction.memory_per_gpu,
              .fits = prediction.fits,
              .mfu = prediction.mfu,
              .price = prediction.price,
              .training = prediction.training,
              .goodput = prediction.goodput ? std::optional(prediction.goodput->share) : std::nullopt,
              .provenance = prediction.provenance}};
}

/// Samples of a step, of a scenario that has an answer; the aggregate fidelity knows one pass.
double samples_of(const Scenario& scenario) {
  const bool layers = scenario.model->has_layers();
  const auto simplest = layers ? answer::Fidelity::kAnalytic : answer::Fidelity::kAggregate;
  const bool one_pass = scenario.fidelity.value_or(simplest) == answer::Fidelity::kAggregate;
  const std::int64_t passes = one_pass ? 1 : scenario.strategy.accumulation.get();
  return static_cast<double>(plan::replicas_of(scenario)) * static_cast<double>(scenario.batch * passes);
}

/// Answers points, one after another.
class Answerer {
 public:
  Answerer(const io::Catalog& catalog, const Grid& grid, SweepDetail detail)
      : catalog_(catalog.for_one_question()), grid_(grid), detail_(detail) {}

  /// Adds the row of a point, unless a condition leaves it out.
  void add(std::int64_t number, std::vector<SweepRow>& rows) {
    if (!grid_.settle(number, point_)) return;
    SweepRow& row = rows.emplace_back();
    row.point = number;
    row.values.reserve(grid_.paths().size());
    for (std::size_t i = point_.settings.size() - grid_.paths().size(); i < point_.settings.size(); ++i) {
      row.values.push_back(point_.settings[i].value);
    }
    auto answer = ask();
    if (answer) {
      row.answer = std::move(*answer);
    } else {
      row.why = reason_of(answer.error());
    }
  }

 private:
  Expected<SweepAnswer> ask() {
    const auto scenario = resolved();
    if (!scenario) return tl::unexpected<Error>(scenario.error());
    if (detail_ == SweepDetail::kFull) return predictor_.predict(*scenario).map(sweep_answer);
    const auto step = predictor_.step_time(*scenario);
    if (!step) return tl::unexpected<Error>(step.error());
    return SweepAnswer{.gpus = scenario->cluster.gpus(),
                       .step = *step,
                       .throughput_samples_per_second = samples_of(*scenario) / step->in(seconds),
                       .full = {}};
  }

  /// Runs that the base states are of the job without what varies.
  Expected<Scenario> resolved() {
    if (!states_runs(grid_.base())) return resolve(catalog_, point_.settings);
    if (!job_) {
      job_ = resolve(catalog_, grid_.base());
      if (!*job_) {
        Error& error = job_->error();
        error.message = "measured runs are of the job without what varies, which is none: " + error.message;
        error.notes.clear();
      }
    }
    if (!*job_) return tl::unexpected<Error>(job_->error());
    const std::span<const Override> all = point_.settings;
    return changed(catalog_, grid_.base(), **job_, all.subspan(all.size() - grid_.paths().size()));
  }

  const io::Catalog catalog_;
  const Grid& grid_;
  const SweepDetail detail_;
  std::optional<Expected<Scenario>> job_;  // that the base's runs are of, once somebody asks
  Predictor predictor_;
  GridPoint point_;
};

/// The positions of a sweep, cut into pieces of work.
class Pieces {
 public:
  Pieces(const Grid& grid, Shard shard, std::optional<std::int64_t> after) {
    const std::int64_t from = after ? grid.position_after(*after) : 0;
    for (Stretch stretch : stretches_of(grid, shard)) {
      stretch.first = std::max(stretch.first, from);
      if (stretch.first >= stretch.last) continue;
      starts_.push_back(positions_);
      stretches_.push_back(stretch);
      positions_ += stretch.last - stretch.first;
    }
  }

  [[nodiscard]] std::int64_t positions() const { return positions_; }
  /// The grid's position of one that is left, counted from 0.
  [[nodiscard]] std::int64_t position(std::int64_t left) const {
    const auto after = std::upper_bound(starts_.begin(), starts_.end(), left);
    const auto i = static_cast<std::size_t>(after - starts_.begin()) - 1;
    return stretches_[i].first + left - starts_[i];
  }

 private:
  std::vector<Stretch> stretches_;
  std::vector<std::int64_t> starts_;  // how many positions come before
  std::int64_t positions_ = 0;
};

struct Piece {
  std::vector<SweepRow> rows;
  std::int64_t positions = 0;
};

/// Few enough that a piece takes a fraction of a second, whatever its points are.
std::int64_t piece_length(const Grid& grid) {
  constexpr double kPiece = 64;  // predictions
  GridPoint point;
  double most = 1;
  const std::int64_t stride = std::max<std::int64_t>(1, grid.size() / 256);
  for (std::int64_t at = 0; at < grid.size(); at += stride) {
    grid.settle(grid.number_at(at), point);
    most = std::max(most, estimated_cost(point));
  }
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(kPiece / most));
}

}  // namespace

struct SweepPieces::State {
  const io::Catalog& catalog;
  const Grid& grid;
  SweepDetail detail;
  Pieces all;
  std::int64_t length;
  bool apart;  // threads read the files themselves, which takes one as long as thousands of points
};

SweepPieces::SweepPieces(const io::Catalog& catalog, const Grid& grid, const SweepOptions& options)
    : state_(new State{catalog, grid, options.detail, Pieces(grid, options.shard, options.after), piece_length(grid),
                       false}) {
  constexpr std::int64_t kManyPoints = 10'000;
  state_->apart = options.threads > 1 && positions() / options.threads >= kManyPoints;
}
SweepPieces::~SweepPieces() = default;

std::int64_t SweepPieces::positions() const { return state_->all.positions(); }
std::int64_t SweepPieces::count() const { return (positions() + state_->length - 1) / state_->length; }
std::int64_t SweepPieces::positions_in(std::int64_t piece) const {
  return std::min(state_->length, positions() - piece * state_->length);
}
SweepPieces::Worker SweepPieces::worker() const {
  const State& state = *state_;
  const auto answerer =
      std::make_shared<Answerer>(state.apart ? state.catalog.apart() : state.catalog, state.grid, state.detail);
  return [this, answerer](std::int64_t piece) {
    std::vector<SweepRow> rows;
    const std::int64_t first = piece * state_->length;
    const std::int64_t last = first + positions_in(piece);
    rows.reserve(static_cast<std::size_t>(last - first));
    for (std::int64_t i = first; i < last; ++i) answerer->add(state_->grid.number_at(state_->all.position(i)), rows);
    return rows;
  };
}

std::int64_t positions_of(const Grid& grid, Shard shard, std::optional<std::int64_t> after) {
  return Pieces(grid, shard, after).positions();
}

Expected<void> sweep(const io::Catalog& catalog, const Grid& grid, const SweepOptions& options, const TakeRows& take) {
  const SweepPieces pieces(catalog, grid, options);
  const int threads = static_cast<int>(std::min<std::int64_t>(std::max(options.threads, 1), pieces.count()));
  Expected<void> outcome;
  SweepProgress progress{.done = 0, .left = pieces.positions()};
  const auto make_worker = [&] {
    return [&, worker = pieces.worker()](std::int64_t piece) {
      return Piece{.rows = worker(piece), .positions = pieces.positions_in(piece)};
    };
  };
  const auto hand = [&](const Piece& piece) {
    progress.done += piece.positions;
    progress.left -= piece.positions;
    outcome = take(piece.rows, progress);
    return outcome.has_value();
  };
  OrderedWork<Piece> work(pieces.count(), threads);
  const auto wait = [&] { return (outcome = take({}, progress)).has_value(); };
  if (!work.run(make_worker, hand, wait)) return outcome;
  return {};
}

std::optional<Time> estimated_time(const io::Catalog& catalog, const Grid& grid, const SweepOptions& options) {
  constexpr std::int64_t kMostAsked = 2000;
  constexpr std::int64_t kRun = 20;  // neighbours, which share prices as they do in a sweep
  const Pieces all(grid, options.shard, options.after);
  const std::int64_t asked = std::min(all.positions(), kMostAsked);
  if (asked == 0) return Time::zero();
  Answerer answerer(catalog, grid, options.detail);
  std::vector<SweepRow> rows;
  answerer.add(grid.number_at(all.position(0)), rows);  // reads files
  rows.clear();
  const Time start = steady_time();
  std::int64_t done = 0;
  const std::int64_t stride = std::max<std::int64_t>(kRun, all.positions() / std::max<std::int64_t>(1, asked / kRun));
  for (std::int64_t first = 0; first < all.positions() && steady_time() - start < seconds(0.5); first += stride) {
    for (std::int64_t i = first; i < std::min(first + kRun, all.positions()); ++i, ++done) {
      answerer.add(grid.number_at(all.position(i)), rows);
    }
  }
  const bool any = std::any_of(rows.begin(), rows.end(), [](const SweepRow& row) { return row.answer.has_value(); });
  if (!any) return std::nullopt;
  const Time each = (steady_time() - start) / static_cast<double>(done);
  return each * (static_cast<double>(all.positions()) / std::max(1, options.threads));
}

}  // namespace ddlsim::whatif
