#include "ddlsim/importers/log_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <istream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "ddlsim/io/table_file.h"
#include "ddlsim/support/quantity_io.h"
#include "megatron_schedule.h"

namespace ddlsim::importers {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kMegatronStep = "elapsed time per iteration (ms):";
constexpr std::string_view kNemoStep = "train_step_timing in s";
constexpr std::string_view kMllog = ":::MLLOG";
constexpr std::string_view kTrainerRate = "train_steps_per_second";
// Of Megatron's arguments those that cut a rank's layers in parts; it prints them all, None where nobody said them.
constexpr std::string_view kVirtualLayers = " num_layers_per_virtual_pipeline_stage ..";
constexpr std::string_view kVirtualStages = " num_virtual_stages_per_pipeline_rank ..";
constexpr std::string_view kVirtualSize = " virtual_pipeline_model_parallel_size ..";

/// What follows a key, without spaces, dots (of Megatron's list of arguments), colon and equals sign.
std::optional<std::string_view> after(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = line.substr(at + key.size());
  const std::size_t first = rest.find_first_not_of(" .:=");
  if (first == std::string_view::npos) return std::string_view{};
  return rest.substr(first);
}

/// What follows a key in quotes, as in Python's or JSON's dictionaries, and its colon.
std::optional<std::string_view> after_quoted(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  if (at == std::string_view::npos || at == 0 || (line[at - 1] != '\'' && line[at - 1] != '"')) return std::nullopt;
  const std::string_view rest = line.substr(at + key.size());
  if (rest.size() < 2 || rest[0] != line[at - 1] || rest[1] != ':') return std::nullopt;
  return rest.substr(std::min(rest.find_first_not_of(" \"':"), rest.size()));
}

/// A number with thousands separators, as far as it goes.
std::optional<double> number(std::string_view text) {
  std::string digits;
  for (const char c : text) {
    if (c == ',') continue;
    if (std::string_view("0123456789.eE+-").find(c) == std::string_view::npos) break;
    digits += c;
  }
  double value = 0;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (status != std::errc{} || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// Of what a list's end has: "4, 8]".
double product(std::string_view list) {
  double all = 1;
  list = list.substr(0, list.find(']'));
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    all *= number(list.substr(0, end)).value_or(0);
    list.remove_prefix(std::min(end + 1, list.size()));
    list.remove_prefix(std::min(list.find_first_not_of(' '), list.size()));
  }
  return all;
}

/// A count: a whole number of at least one, and no more than the largest of other files (1e15).
std::optional<std::int64_t> whole(double value) {
  if (!(value >= 1) || value > 1e15 || std::floor(value) != value) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

std::optional<std::int64_t> whole(std::string_view text) {
  const auto value = number(text);
  return value ? whole(*value) : std::nullopt;
}

/// A number, or one in quotes, as some loggers write it.
std::optional<double> number_in(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  const bool plain = !text.empty() && text.find_first_not_of("0123456789.eE+-") == std::string::npos;
  return plain ? number(text) : std::nullopt;
}

/// What a step may take: no GPU launches a kernel in a nanosecond, and no step lasts a month.
bool is_step(Time step) { return step >= microseconds(1e-3) && step <= seconds(30 * 86400); }

/// "2025-03-12 11:10:21,511" anywhere before the step, as seconds of its day and the day's number.
std::optional<Time> stamp(std::string_view line) {
  for (std::size_t i = 0; i + 23 <= line.size(); ++i) {
    const std::string_view text = line.substr(i, 23);
    const bool dashes = text[4] == '-' && text[7] == '-' && text[10] == ' ';
    if (!dashes || text[13] != ':' || text[16] != ':' || text[19] != ',') continue;
    const auto part = [&](std::size_t from, std::size_t size) { return number(text.substr(from, size)).value_or(0); };
    // Days of a calendar that starts in March, so that the leap day is the last (Hinnant, "chrono-compatible
    // low-level date algorithms").
    const double month = part(5, 2);
    const double year = part(0, 4) - (month <= 2 ? 1 : 0);
    const double day_of_year = std::floor((153 * (month + (month > 2 ? -3 : 9)) + 2) / 5) + part(8, 2) - 1;
    const double days =
        year * 365 + std::floor(year / 4) - std::floor(year / 100) + std::floor(year / 400) + day_of_year;
    return seconds(days * 86400 + part(11, 2) * 3600 + part(14, 2) * 60 + part(17, 2) + part(20, 3) / 1000);
  }
  return std::nullopt;
}

/// Colours of a terminal, as torchtitan prints them into its logs: ESC [ numbers letter.
void drop_colours(std::string& line) {
  for (std::size_t at = line.find("\x1b["); at != std::string::npos; at = line.find("\x1b[", at)) {
    const std::size_t end = line.find_first_not_of("0123456789;", at + 2);
    line.erase(at, end == std::string::npos ? end : end + 1 - at);
  }
}

class LogReader {
 public:
  explicit LogReader(std::string file) : file_(std::move(file)) {}

  Expected<TrainingLog> read(std::istream& stream) {
    std::string line;
    while (std::getline(stream, line)) {
      ++number_;
      drop_colours(line);
      if (auto read = read_line(line); !read) return tl::unexpected<Error>(read.error());
    }
    if (log_.steps.empty()) {
      return fail(ErrorCode::kParse, "no step in this log", {file_, number_, 1},
                  {"known: Megatron-LM's 'elapsed time per iteration (ms)', NeMo's 'train_step_timing in s', "
                   "torchtitan's 'step: N loss: ...' with times of day, MLPerf's ':::MLLOG' with tracked_stats or "
                   "epochs, Hugging Face Trainer's 'train_steps_per_second'"});
    }
    settle_arguments();
    return std::move(log_);
  }

 private:
  [[nodiscard]] SourceLocation here() const { return {file_, number_, 1}; }

  /// The first line of a step decides.
  bool is(LogFormat format) {
    if (!known_) log_.format = format;
    known_ = true;
    return log_.format == format;
  }

  Expected<void> read_line(std::string_view line) {
    if (line.find(kMllog) != std::string_view::npos) return read_mllog(line.substr(line.find(kMllog) + kMllog.size()));
    if (auto said = read_job(line); !said) return said;
    if (auto said = read_mesh(line); !said) return said;
    if (const auto text = after(line, kMegatronStep)) {
      if (!is(LogFormat::kMegatron)) return several("programs");
      const auto iteration = after(line, " iteration ");
      const auto step = iteration ? whole(*iteration) : std::nullopt;
      if (step && iteration_ && *step <= *iteration_) return several("jobs: its iterations begin again");
      if (step) iteration_ = step;
      return add_step(*text, milliseconds(1));
    }
    if (const auto text = after(line, kNemoStep)) {
      return is(LogFormat::kNemo) ? add_step(*text, seconds(1)) : several("programs");
    }
    if (const auto text = after_quoted(line, kTrainerRate)) return read_trainer(*text);
    const auto step = after(line, " step:");
    if (step && line.find("loss:") != std::string_view::npos) return read_torchtitan(line, *step);
    return {};
  }

  void note(std::string_view what) { log_.notes.push_back(fmt::format("line {}: {}", number_, what)); }

  [[nodiscard]] tl::unexpected<Error> several(std::string_view what) const {
    return fail(ErrorCode::kInvalidArgument, fmt::format("the log is of several {}", what), here(),
                {"one log, one job: cut it where the next begins"});
  }

  /// World size, replicas and batches.
  Expected<void> read_job(std::string_view line) {
    struct Count {
      std::string_view key;
      std::optional<std::int64_t>& target;
      std::string_view what;
    };
    const Count counts[] = {
        {"world size:", log_.gpus, "world size"},
        {" world_size ..", log_.gpus, "world size"},
        {"data-parallel size:", log_.replicas, "data-parallel size"},
        {"tensor-model-parallel size:", log_.tensor, "tensor-parallel size"},
        {" tensor_model_parallel_size ..", log_.tensor, "tensor-parallel size"},
        {"pipeline-model-parallel size:", log_.pipeline, "pipeline's size"},
        {" pipeline_model_parallel_size ..", log_.pipeline, "pipeline's size"},
        {"context-parallel size:", log_.context, "context-parallel size"},
        {" context_parallel_size ..", log_.context, "context-parallel size"},
        {" expert_model_parallel_size ..", log_.expert, "expert-parallel size"},
        {" expert_tensor_parallel_size ..", log_.expert_tensor, "experts' tensor-parallel size"},
        {" micro_batch_size ..", log_.batch, "micro-batch"},
        {" num_layers ..", layers_, "number of layers"},
        {kVirtualLayers, part_, "virtual stage's layers"},
        {kVirtualStages, chunks_, "number of virtual stages"},
        {kVirtualSize, chunks_, "number of virtual stages"},
        {"global batch size:", log_.global_batch, "global batch"},
        {"global_batch_size:", log_.global_batch, "global batch"},
    };
    for (const auto& [key, target, what] : counts) {
      const auto text = after(line, key);
      const auto value = text ? whole(*text) : std::nullopt;
      if (!value) continue;
      if (auto kept = keep(what, target, *value); !kept) return kept;
    }
    read_words(line);
    return {};
  }

  /// What a log says twice is the same.
  Expected<void> keep(std::string_view what, std::optional<std::int64_t>& target, std::int64_t value) {
    if (target && *target != value) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("the log is of several jobs: the {} changes from {} to {}", what, *target, value), here(),
                  {"one log, one job: cut it where it changes"});
    }
    target = value;
    return {};
  }

  /// torchtitan's "device mesh with ['dp_shard', 'tp'], [4, 8]", or "device mesh with parallelism: pp=1, dp_shard=4,
  /// ..., tp=8, ep=1", whose experts' ranks are among the others.
  Expected<void> read_mesh(std::string_view line) {
    const auto text = after(line, "device mesh with ");
    if (!text) return {};
    double gpus = 1;
    if (text->starts_with("parallelism")) {
      for (const std::string_view ranks : {" pp=", " dp_replicate=", " dp_shard=", " cp=", " tp="}) {
        gpus *= number(after(*text, ranks).value_or("1")).value_or(0);
      }
    } else {
      const std::size_t names = text->find("], [");
      if (names == std::string_view::npos) return {};
      gpus = product(text->substr(names + 4));
    }
    const auto count = whole(gpus);
    return count ? keep("world size", log_.gpus, *count) : Expected<void>{};
  }

  /// Hugging Face's Trainer at its end: steps of the whole run per second, to three decimals.
  Expected<void> read_trainer(std::string_view text) {
    if (!is(LogFormat::kTrainer)) return {};  // its steps say more
    constexpr double kRounded = 0.5e-3;
    const double rate = number(text).value_or(0);
    if (rate <= 0) return fail(ErrorCode::kParse, fmt::format("{}: no rate above zero", kTrainerRate), here());
    const Time step = seconds(1 / rate);
    if (!log_.steps.empty()) return step == log_.steps.front() ? Expected<void>{} : several("jobs: it trains twice");
    if (kRounded / rate > 0.01) {
      note(fmt::format("{} is rounded: the step is known to {:.0f} %", kTrainerRate, 100 * kRounded / rate));
    }
    return keep_step(step);
  }

  /// Megatron's arguments that are no counts: "sequence_parallel .... True".
  void read_words(std::string_view line) {
    const auto word = [&](std::string_view key) -> std::optional<std::string_view> {
      const auto text = after(line, key);
      return text ? std::optional(text->substr(0, text->find_first_of(" \t\r"))) : std::nullopt;
    };
    const auto keep_word = [&](std::string_view key, std::optional<bool>& target) {
      if (const auto said = word(key)) target = *said == "True";
    };
    keep_word(" sequence_parallel ..", log_.sequence);
    keep_word(" use_distributed_optimizer ..", log_.shards);
    keep_word(" account_for_embedding_in_pipeline_split ..", counts_embedding_);
    keep_word(" account_for_loss_in_pipeline_split ..", counts_loss_);
    for (const std::string_view key : {kVirtualLayers, kVirtualStages, kVirtualSize}) {
      lists_chunks_ = lists_chunks_ || word(key).has_value();
    }
    keep_word(" bf16 ..", bf16_);
    keep_word(" fp16 ..", fp16_);
    if (const auto said = word(" fp8 ..")) fp8_ = *said != "None" && *said != "False";
    if (const auto said = word(" recompute_granularity ..")) log_.recompute = *said == "None" ? "none" : *said;
  }

  void settle_arguments() {
    // Megatron prints the tensor-parallel size where nobody said another.
    if (log_.expert_tensor == log_.tensor.value_or(1)) log_.expert_tensor.reset();
    if (fp8_ || bf16_ || fp16_) {
      log_.precision = fp8_.value_or(false)    ? "fp8"
                       : bf16_.value_or(false) ? "bf16"
                       : fp16_.value_or(false) ? "fp16"
                                               : "fp32";
    }
    // One that says neither of the 16-bit formats says nothing.
    if (log_.precision == "fp32" && !(bf16_ && fp16_)) log_.precision.clear();
    MegatronParts parts{.stages = log_.pipeline.value_or(1), .of_a_rank = chunks_, .layers_of_one = part_};
    if (layers_) {
      parts.layers = *layers_ + (counts_embedding_.value_or(false) ? 1 : 0) + (counts_loss_.value_or(false) ? 1 : 0);
    }
    const std::int64_t chunks = lists_chunks_ ? megatron_chunks(parts).value_or(0) : 0;
    if (chunks == 0) return;  // the log does not say
    log_.schedule = megatron_schedule(parts.stages, chunks);
    if (chunks > 1) log_.virtual_stages = chunks;
  }

  Expected<void> add_step(std::string_view text, Time unit) {
    const auto value = number(text);
    if (!value || !is_step(unit * *value)) {
      return fail(ErrorCode::kParse, fmt::format("'{}' is no step time", text.substr(0, 20)), here());
    }
    log_.steps.push_back(unit * *value);
    return {};
  }

  Expected<void> read_torchtitan(std::string_view line, std::string_view text) {
    const auto step = whole(text);
    const auto time = stamp(line);
    if (!step || !time) return {};
    if (!is(LogFormat::kTorchtitan)) return several("programs");
    if (last_ && last_->first == *step) return {};  // another rank's
    if (last_ && *step < last_->first) return several("jobs: its steps begin again");
    const bool back = last_ && *time < last_->second;
    if (back) note("the clock goes back: the time before and after this line is left out");
    if (last_ && *time > last_->second && !went_back_) {
      const auto steps = static_cast<double>(*step - last_->first);
      // Stamps are whole milliseconds; their difference has rounding besides.
      log_.steps.push_back(milliseconds(std::round((*time - last_->second).in(milliseconds))) / steps);
    }
    went_back_ = back;
    last_ = {*step, *time};
    return {};
  }

  Expected<void> read_mllog(std::string_view text) {
    const Json json = Json::parse(text, nullptr, false);
    if (json.is_discarded() || !json.is_object() || !json.contains("key")) {
      return fail(ErrorCode::kParse, ":::MLLOG without a JSON object after it", here());
    }
    const std::string key = json["key"].is_string() ? json["key"].get<std::string>() : "";
    const Json value = json.value("value", Json());
    if (key == "global_batch_size" || key == "train_samples") return keep_count(key, value);
    if (key == "drop_last" && value.is_boolean()) drops_last_ = value.get<bool>();
    if (key == "tracked_stats" && value.is_object()) return read_stats(value);
    const double when = json.contains("time_ms") && json["time_ms"].is_number() ? json["time_ms"].get<double>() : 0;
    if (key == "epoch_start") epoch_ = when;
    if (key == "epoch_stop" && epoch_ > 0 && !by_stats_) return read_epoch(when);
    return {};
  }

  /// Samples of a step or of an epoch; null says nothing.
  Expected<void> keep_count(const std::string& key, const Json& value) {
    if (value.is_null()) return {};
    const auto read = number_in(value);
    const auto count = read ? whole(*read) : std::nullopt;
    if (!count) {
      return fail(ErrorCode::kParse, fmt::format("{}: {} is no number of samples", key, value.dump().substr(0, 60)),
                  here());
    }
    if (key == "train_samples") {
      samples_ = static_cast<double>(*count);
      return {};
    }
    if (log_.global_batch && *log_.global_batch != *count) return several("jobs: the global batch changes");
    log_.global_batch = *count;
    return {};
  }

  Expected<void> read_stats(const Json& value) {
    const auto said = [&](const char* name) { return value.contains(name) ? number_in(value[name]).value_or(0) : 0; };
    double step = said("train_step_time");
    if (step <= 0 && said("throughput") > 0 && log_.global_batch) {
      step = static_cast<double>(*log_.global_batch) / said("throughput");
    }
    if (step <= 0) return {};
    if (!is(LogFormat::kMlperf)) return several("programs");
    if (!by_stats_) log_.steps.clear();  // epochs say less
    by_stats_ = true;
    return keep_step(seconds(step));
  }

  Expected<void> read_epoch(double stop) {
    const double took = stop - epoch_;
    epoch_ = 0;
    if (took <= 0) note("epoch_stop is no later than its epoch_start: the epoch is left out");
    if (samples_ <= 0 || !log_.global_batch || took <= 0) return {};
    if (!is(LogFormat::kMlperf)) return several("programs");
    // A part of a batch is a step too, unless it is left out.
    const double batches = samples_ / static_cast<double>(*log_.global_batch);
    const double steps = drops_last_ ? std::floor(batches) : std::ceil(batches);
    if (steps < 1) return {};
    return keep_step(milliseconds(took / steps));
  }

  Expected<void> keep_step(Time step) {
    if (!is_step(step)) return fail(ErrorCode::kParse, fmt::format("{} is no step time", to_text(step)), here());
    log_.steps.push_back(step);
    return {};
  }

  std::string file_;
  int number_ = 0;
  bool known_ = false;
  bool by_stats_ = false;
  bool drops_last_ = false;
  double samples_ = 0;                                 // of an epoch
  double epoch_ = 0;                                   // when it began, in ms
  bool went_back_ = false;                             // torchtitan's clock, at its last step
  std::optional<std::int64_t> iteration_;              // Megatron's
  std::optional<std::pair<std::int64_t, Time>> last_;  // torchtitan's step, and when
  std::optional<std::int64_t> layers_;  // of the model, and of a virtual stage: Megatron's arguments, as the next
  std::optional<std::int64_t> part_;
  std::optional<std::int64_t> chunks_;  // of a rank
  bool lists_chunks_ = false;
  std::optional<bool> counts_embedding_;
  std::optional<bool> counts_loss_;
  std::optional<bool> bf16_;
  std::optional<bool> fp16_;
  std::optional<bool> fp8_;
  TrainingLog log_;
};

/// By linear interpolation between ranks, after the warm-up.
Time quantile(const TrainingLog& log, double share) {
  std::vector<Time> steps(log.steps.begin() + static_cast<std::ptrdiff_t>(log.warm_up()), log.steps.end());
  std::sort(steps.begin(), steps.end());
  const double rank = share * static_cast<double>(steps.size() - 1);
  const auto below = static_cast<std::size_t>(rank);
  const Time above = steps[std::min(below + 1, steps.size() - 1)];
  return steps[below] + (above - steps[below]) * (rank - static_cast<double>(below));
}

}  // namespace

std::size_t TrainingLog::warm_up() const {
  if (steps.size() <= 2) return steps.size() == 2 ? 1 : 0;
  return std::max<std::size_t>(2, steps.size() / 10);
}

Time TrainingLog::step() const { return quantile(*this, 0.5); }

std::pair<Time, Time> TrainingLog::spread() const { return {quantile(*this, 0.05), quantile(*this, 0.95)}; }

Expected<TrainingLog> read_log(std::istream& stream, const std::string& file) { return LogReader(file).read(stream); }

Expected<TrainingLog> load_log(const std::filesystem::path& path) {
  auto stream = io::open_table(path);
  if (!stream) return tl::unexpected<Error>(stream.error());
  return read_log(*stream, path.string());
}

}  // namespace ddlsim::importers
