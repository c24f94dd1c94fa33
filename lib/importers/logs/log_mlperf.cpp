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
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 60);
  if (!count && !split) return fail(ErrorCode::kParse, fmt::format("{}: {} is no number of samples", key, text), here);
  if (!count) line.note = fmt::format("{}: {} is no count", key, text);
  if (key == kBatch) batch_ = static_cast<double>(*count);
  if (key == kSamples) samples_ = static_cast<double>(*count);
  if (count && key != kSamples) line.key = key;
  line.count = count;
  return line;
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
  if (key == "drop_last" && value.is_boolean()) drops_last_ = value.get<bool>();
  if (key == "tracked_stats" && value.is_object()) {
    double step = number_at(value, "train_step_time").value_or(0);
    const double rate = number_at(value, "throughput").value_or(0);
    if (step <= 0 && rate > 0 && batch_ > 0) step = batch_ / rate;
    return step > 0 ? step_by(By::kStatistics, seconds(step)) : line;
  }
  const Json metadata = json.value("metadata", Json());
  const double when = json.contains("time_ms") && json["time_ms"].is_number() ? json["time_ms"].get<double>() : 0;
  const Mark mark{when, number_at(metadata, "samples_count"), number_at(metadata, "epoch_num")};
  constexpr std::array<std::string_view, 2> kIntervals{"epoch", "block"};
  for (std::size_t i = 0; i < kIntervals.size(); ++i) {
    if (!key.starts_with(kIntervals[i])) continue;
    std::optional<Mark>& start = open_[i];
    if (key.ends_with("_start") && when > 0) start = mark;
    if (!key.ends_with("_stop") || !start) continue;
    line = by_interval(i == 0 ? By::kEpochs : By::kBlocks, *start, mark, kIntervals[i]);
    start.reset();
  }
  return line;
}

}  // namespace ddlsim::importers
