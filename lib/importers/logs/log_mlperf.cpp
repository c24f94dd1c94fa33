#include "log_mlperf.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "log_text.h"

namespace ddlsim::importers {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kBatch = "global_batch_size";
constexpr std::string_view kSamples = "train_samples";
/// How the model was split; some programs log it.
constexpr std::array<std::string_view, 5> kSplit{"micro_batch_size", "tensor_parallelism", "pipeline_parallelism",
                                                 "context_parallelism", "expert_parallelism"};

/// What the lines of a run count; the first two have a start and a stop.
constexpr std::array<std::string_view, 3> kLaps{"epoch", "block", "step"};
constexpr std::size_t kStepLap = 2;

/// A number, or one in quotes, as some loggers write it.
std::optional<double> number_in(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  const bool plain = !text.empty() && text.find_first_not_of("0123456789.eE+-") == std::string::npos;
  return plain ? number(text) : std::nullopt;
}

std::optional<double> number_at(const Json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return !object.is_object() || found == object.end() ? std::nullopt : number_in(*found);
}

std::string in_short(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 60);
}

}  // namespace

MlperfLine MlperfLog::step_by(By by, Time step) {
  MlperfLine line;
  if (by < by_) return line;
  line.step = step;
  line.instead = by > by_;
  by_ = by;
  return line;
}

std::optional<double> MlperfLog::samples_between(By by, const Mark& start, const Mark& stop) const {
  if (start.samples && stop.samples) return *stop.samples - *start.samples;
  // Blocks without a count are of several epochs, or of a part of one.
  if (by != By::kEpochs || (stop.samples && *stop.samples > 0)) return std::nullopt;
  const double epochs = start.epoch && stop.epoch ? *stop.epoch - *start.epoch : 0;
  if (epochs == 0) return samples_;
  return epochs > 0 && epochs <= 1 ? std::optional(samples_ * epochs) : std::nullopt;
}

MlperfLine MlperfLog::by_interval(By by, const Mark& start, const Mark& stop, std::string_view name) {
  MlperfLine line;
  const double took = stop.when - start.when;
  if (took <= 0) line.note = fmt::format("{0}_stop is no later than its {0}_start: the {0} is left out", name);
  if (took <= 0 || batch_ <= 0 || by < by_) return line;
  const auto samples = samples_between(by, start, stop);
  if (!samples && by == By::kEpochs) {
    line.note = "of how many samples this epoch is its ends do not say: it is left out";
  }
  if (!samples || *samples <= 0) return line;
  // A part of a batch is a step too, unless it is left out.
  const double batches = *samples / batch_;
  const double steps = drops_last_ ? std::floor(batches) : std::ceil(batches);
  return steps < 1 ? line : step_by(by, milliseconds(took / steps));
}

Expected<MlperfLine> MlperfLog::count_of(const std::string& key, const nlohmann::json& value, bool split,
                                         const SourceLocation& here) {
  MlperfLine line;
  if (value.is_null()) return line;  // says nothing
  const auto read = number_in(value);
  const auto count = read ? whole(*read) : std::nullopt;
  const std::string text = in_short(value);
  if (!count && !split) return fail(ErrorCode::kParse, fmt::format("{}: {} is no number of samples", key, text), here);
  if (!count) line.note = fmt::format("{}: {} is no count", key, text);
  if (key == kBatch) batch_ = static_cast<double>(*count);
  if (key == kSamples) samples_ = static_cast<double>(*count);
  if (count && key != kSamples) line.key = key;
  line.count = count;
  return line;
}

Expected<void> MlperfLog::keep_job(const std::string& key, const nlohmann::json& value, const SourceLocation& here) {
  if (key == "submission_benchmark" && value.is_string()) {
    const std::string name = in_short(value);
    if (!benchmark_.empty() && name != benchmark_) {
      return of_several(fmt::format("jobs: the benchmark changes from {} to {}", benchmark_, name), here);
    }
    benchmark_ = name;
  }
  if (ended_ && (key == "init_start" || key == "run_start")) {
    return of_several("jobs: another starts behind run_stop", here);
  }
  if (key == "run_start" && trains_) again_ = here;
  runs_ = runs_ || key == "run_start";
  ended_ = ended_ || key == "run_stop";
  return {};
}

/// `which`: of kLaps. Ranks may log the same start one after the other.
Expected<void> MlperfLog::go_on(std::size_t which, const Mark& next, bool stops) {
  std::optional<Reached>& reached = reached_[which];
  const auto number = [&](const Mark& mark) {
    return next.samples && (!reached || reached->mark.samples) ? mark.samples : mark.epoch;
  };
  const auto before = reached ? number(reached->mark) : std::nullopt;
  const auto now = number(next);
  const bool known = before && now;
  if (again_ && known && !stops) {
    if (*now < *before || (*now == *before && reached->beyond)) {
      return of_several(fmt::format("jobs: its {}s begin again", kLaps[which]), *again_);
    }
    again_.reset();
  }
  // Numbered by its start alone, or at both ends.
  reached = {next, (stops && known && *now == *before) || which == kStepLap};
  trains_ = runs_;
  return {};
}

Expected<MlperfLine> MlperfLog::one_job(Expected<MlperfLine> line) const {
  if (!line || !line->step || !again_) return line;
  return of_several("jobs: a run starts twice, and nothing says that the second goes on where the first was", *again_);
}

Expected<MlperfLine> MlperfLog::read(std::string_view text, const SourceLocation& here) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object() || !json.contains("key")) {
    return fail(ErrorCode::kParse, ":::MLLOG without a JSON object after it", here);
  }
  MlperfLine line;
  const std::string key = json["key"].is_string() ? json["key"].get<std::string>() : "";
  const Json value = json.value("value", Json());
  const bool split = std::find(kSplit.begin(), kSplit.end(), key) != kSplit.end();
  if (key == kBatch || key == kSamples || split) return count_of(key, value, split, here);
  if (auto kept = keep_job(key, value, here); !kept) return tl::unexpected<Error>(kept.error());
  const Json metadata = json.value("metadata", Json());
  if (key == "drop_last" && value.is_boolean()) drops_last_ = value.get<bool>();
  if (key == "tracked_stats" && value.is_object()) {
    double step = number_at(value, "train_step_time").value_or(0);
    const double rate = number_at(value, "throughput").value_or(0);
    if (step <= 0 && rate > 0 && batch_ > 0) step = batch_ / rate;
    const auto number = number_at(metadata, "step");
    const Mark mark{0, number_at(metadata, "samples_count"), number ? number : number_at(metadata, "epoch_num")};
    if (auto on = go_on(kStepLap, mark, false); !on) return tl::unexpected<Error>(on.error());
    return one_job(step > 0 ? step_by(By::kStatistics, seconds(step)) : line);
  }
  const double when = json.contains("time_ms") && json["time_ms"].is_number() ? json["time_ms"].get<double>() : 0;
  const Mark mark{when, number_at(metadata, "samples_count"), number_at(metadata, "epoch_num")};
  for (std::size_t i = 0; i < open_.size(); ++i) {
    if (!key.starts_with(kLaps[i])) continue;
    std::optional<Mark>& start = open_[i];
    const bool stops = key.ends_with("_stop");
    if (stops || key.ends_with("_start")) {
      if (auto on = go_on(i, mark, stops); !on) return tl::unexpected<Error>(on.error());
    }
    if (key.ends_with("_start") && when > 0) start = mark;
    if (!stops || !start) continue;
    line = by_interval(i == 0 ? By::kEpochs : By::kBlocks, *start, mark, kLaps[i]);
    start.reset();
  }
  return one_job(line);
}

}  // namespace ddlsim::importers
