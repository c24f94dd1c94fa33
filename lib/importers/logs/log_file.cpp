#include "ddlsim/importers/log_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <istream>
#include <sstream>
#include <string_view>
#include <utility>

#include "ddlsim/io/table_file.h"
#include "ddlsim/support/quantity_io.h"
#include "kineto/kineto_text.h"
#include "launch/megatron_schedule.h"
#include "log_mlperf.h"
#include "log_ramp.h"
#include "log_text.h"

namespace ddlsim::importers {
namespace {

constexpr std::string_view kMegatronStep = "elapsed time per iteration (ms):";
constexpr std::string_view kMegatronSeconds = "elapsed time per iteration (s):";  // BigScience's Megatron-DeepSpeed
constexpr std::string_view kNemoStep = "train_step_timing in s";
constexpr std::string_view kMllog = ":::MLLOG";
constexpr std::string_view kTrainerRate = "train_steps_per_second";
// Of Megatron's arguments those that cut a rank's layers in parts; it prints them all, None where nobody said them.
constexpr std::string_view kVirtualLayers = " num_layers_per_virtual_pipeline_stage ..";
constexpr std::string_view kVirtualStages = " num_virtual_stages_per_pipeline_rank ..";
constexpr std::string_view kVirtualSize = " virtual_pipeline_model_parallel_size ..";

/// What follows a key in quotes, as in Python's or JSON's dictionaries, and its colon.
std::optional<std::string_view> after_quoted(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  if (at == std::string_view::npos || at == 0 || (line[at - 1] != '\'' && line[at - 1] != '"')) return std::nullopt;
  const std::string_view rest = line.substr(at + key.size());
  if (rest.size() < 2 || rest[0] != line[at - 1] || rest[1] != ':') return std::nullopt;
  return rest.substr(std::min(rest.find_first_not_of(" \"':"), rest.size()));
}

/// What follows a key that begins a line, and "=": "  train_loss   =   1.2".
std::optional<std::string_view> assigned(std::string_view line, std::string_view key) {
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  if (!line.starts_with(key)) return std::nullopt;
  line.remove_prefix(key.size());
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  if (!line.starts_with('=')) return std::nullopt;
  return line.substr(std::min(line.find_first_not_of(" ="), line.size()));
}

/// Every name of a list and its number: "['dp_shard', 'tp'], [4, 8]".
std::vector<std::pair<std::string_view, double>> named_numbers(std::string_view lists) {
  std::vector<std::pair<std::string_view, double>> all;
  const std::size_t middle = lists.find("], [");
  if (middle == std::string_view::npos) return all;
  std::string_view names = lists.substr(0, middle);
  std::string_view numbers = lists.substr(middle + 4);
  numbers = numbers.substr(0, numbers.find(']'));
  while (!numbers.empty()) {
    const std::size_t end = std::min(numbers.find(','), numbers.size());
    const double value = number(numbers.substr(0, end)).value_or(0);
    const std::size_t open = std::min(names.find('\''), names.size());
    const std::size_t close = std::min(names.find('\'', open + 1), names.size());
    all.emplace_back(names.substr(open, close - open), value);
    names.remove_prefix(std::min(close + 1, names.size()));
    numbers.remove_prefix(std::min(end + 1, numbers.size()));
    numbers.remove_prefix(std::min(numbers.find_first_not_of(' '), numbers.size()));
  }
  for (auto& [name, value] : all) name.remove_prefix(std::min<std::size_t>(1, name.size()));
  return all;
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
      // Bars of progress write one line over and over, each after a carriage return.
      for (std::string_view rest = line; !rest.empty();) {
        const std::size_t end = std::min(rest.find('\r'), rest.size());
        std::string part(rest.substr(0, end));
        drop_colours(part);
        if (auto read = read_line(part); !read) return tl::unexpected<Error>(read.error());
        rest.remove_prefix(std::min(end + 1, rest.size()));
      }
    }
    if (const std::string ramp = ramp_.note(); !ramp.empty()) log_.notes.push_back(ramp);
    if (log_.steps.empty()) {
      std::vector<std::string> notes = std::move(log_.notes);
      notes.emplace_back(
          "known: Megatron-LM's 'elapsed time per iteration (ms)' or (s), NeMo's 'train_step_timing in s', "
          "torchtitan's "
          "'step: N loss: ...' with times of day, MLPerf's ':::MLLOG' with tracked_stats, blocks or epochs, Hugging "
          "Face Trainer's 'train_steps_per_second'");
      return fail(ErrorCode::kParse, "no step in this log", {file_, number_, 1}, std::move(notes));
    }
    settle_arguments();
    return std::move(log_);
  }

 private:
  [[nodiscard]] SourceLocation here() const { return {file_, number_, 1}; }

  /// The first line of a step decides; but programs that count every step say more than MLPerf's lines among theirs.
  bool is(LogFormat format) {
    const bool among = known_ && log_.format == LogFormat::kMlperf && format != LogFormat::kTrainer;
    if (among && format != LogFormat::kMlperf) {
      log_.steps.clear();
      known_ = false;
    }
    if (!known_) log_.format = format;
    known_ = true;
    return log_.format == format;
  }

  Expected<void> read_line(std::string_view line) {
    if (line.find(kMllog) != std::string_view::npos) return read_mllog(line.substr(line.find(kMllog) + kMllog.size()));
    if (auto said = read_job(line); !said) return said;
    if (auto said = read_mesh(line); !said) return said;
    if (auto said = read_batches(line); !said) return said;
    if (const auto text = after(line, kMegatronStep)) return read_megatron(line, *text, milliseconds(1));
    if (const auto text = after(line, kMegatronSeconds)) return read_megatron(line, *text, seconds(1));
    if (const auto text = after(line, kNemoStep)) {
      return is(LogFormat::kNemo) ? read_nemo(line, *text) : several("programs");
    }
    if (const auto text = after_quoted(line, kTrainerRate)) return read_trainer(*text);
    if (const auto text = assigned(line, kTrainerRate)) return read_trainer(*text);
    const auto step = after(line, " step:");
    if (step && line.find("loss:") != std::string_view::npos) return read_torchtitan(line, *step);
    return {};
  }

  void note(std::string_view what) { log_.notes.push_back(fmt::format("line {}: {}", number_, what)); }

  [[nodiscard]] tl::unexpected<Error> several(const std::string& what) const { return of_several(what, here()); }

  /// World size, replicas and batches.
  Expected<void> read_job(std::string_view line) {
    struct Count {
      std::string_view key;
      std::optional<std::int64_t>& target;
      std::string_view what;
    };
    const Count counts[] = {
        {"world size:", log_.gpus, "world size"},
        {"processes registered. Starting with ", log_.gpus, "world size"},
        {" world_size ..", log_.gpus, "world size"},
        {"data-parallel size:", log_.replicas, "data-parallel size"},
        {"data-parallel-size:", log_.replicas, "data-parallel size"},
        {" data_parallel_size ..", log_.replicas, "data-parallel size"},
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
    };
    for (const auto& [key, target, what] : counts) {
      const auto text = after(line, key);
      const auto value = text ? whole(*text) : std::nullopt;
      if (!value) continue;
      if (auto kept = keep(what, target, *value); !kept) return kept;
    }
    read_words(line);
    ramp_.read_arguments(line);
    return read_global_batch(line);
  }

  /// Of Megatron's iterations it may grow.
  Expected<void> read_global_batch(std::string_view line) {
    const bool iterates = after(line, kMegatronStep) || after(line, kMegatronSeconds);
    for (const std::string_view key : {"global batch size:", "global_batch_size:"}) {
      const auto text = after(line, key);
      const auto value = text ? whole(*text) : std::nullopt;
      if (!value) continue;
      if (iterates && log_.global_batch && ramp_.grows(line, {*log_.global_batch, *value}, log_.steps.size())) {
        log_.steps.clear();
        log_.global_batch = value;
      } else if (auto kept = keep("global batch", log_.global_batch, *value); !kept) {
        return kept;
      }
    }
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
  /// ..., tp=8, ep=1", whose experts' ranks are among the others. What a mesh does not name is not split.
  Expected<void> read_mesh(std::string_view line) {
    const auto text = after(line, "device mesh with ");
    if (!text) return {};
    std::vector<std::pair<std::string_view, double>> ranks;
    const bool all = text->starts_with("parallelism");
    if (all) {
      for (const std::string_view name : {"pp", "dp_replicate", "dp_shard", "cp", "tp"}) {
        ranks.emplace_back(name, number(after(*text, fmt::format(" {}=", name)).value_or("1")).value_or(0));
      }
    } else {
      if (text->find("], [") == std::string_view::npos) return {};
      ranks = named_numbers(*text);
    }
    const auto of = [&](std::string_view prefix) {
      double product = 1;
      for (const auto& [name, value] : ranks) product *= name.starts_with(prefix) ? value : 1;
      return whole(product);
    };
    struct Count {
      std::optional<std::int64_t> value;
      std::optional<std::int64_t>& target;
      std::string_view what;
    };
    const auto experts = all ? whole(after(*text, " ep=").value_or("")) : std::nullopt;
    const bool cut = experts.value_or(1) > 1;
    const Count counts[] = {
        {of(""), log_.gpus, "world size"},
        {of("dp"), log_.replicas, "data-parallel size"},
        {of("tp"), log_.tensor, "tensor-parallel size"},
        {of("pp"), log_.pipeline, "pipeline's size"},
        {of("cp"), log_.context, "context-parallel size"},
        {experts, log_.expert, "expert-parallel size"},
        {cut ? whole(after(*text, " etp=").value_or("")) : std::nullopt, log_.expert_tensor,
         "experts' tensor-parallel size"},
    };
    if (!counts[0].value) return {};
    for (const auto& [value, target, what] : counts) {
      if (!value) continue;
      if (auto kept = keep(what, target, *value); !kept) return kept;
    }
    return {};
  }

  /// torchtitan's "with local batch size 8, global batch size 64, ...": of a replica and pass, unless it has stages,
  /// which cut it in micro-batches that no line counts.
  Expected<void> read_batches(std::string_view line) {
    const auto local = after(line, "local batch size ");
    const auto global = after(line, " global batch size ");
    if (!local || !global) return {};
    if (const auto value = whole(*global)) {
      if (auto kept = keep("global batch", log_.global_batch, *value); !kept) return kept;
    }
    const auto value = whole(*local);
    return value && log_.pipeline.value_or(1) == 1 ? keep("micro-batch", log_.batch, *value) : Expected<void>{};
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

  Expected<void> read_megatron(std::string_view line, std::string_view text, Time unit) {
    if (!is(LogFormat::kMegatron)) return several("programs");
    const auto iteration = after(line, " iteration ");
    const auto step = iteration ? whole(*iteration) : std::nullopt;
    if (step && iteration_ && *step <= *iteration_) return several("jobs: its iterations begin again");
    if (step) iteration_ = step;
    return ramp_.is_even(line) ? add_step(text, unit) : Expected<void>{};
  }

  Expected<void> read_nemo(std::string_view line, std::string_view text) {
    const auto said = after(line, "global_step");
    const auto step = said ? whole(*said) : std::nullopt;
    if (step && iteration_ && *step < *iteration_) return several("jobs: its steps begin again");
    if (step && step == iteration_) return {};  // a bar that is drawn again
    if (step) iteration_ = step;
    return add_step(text, seconds(1));
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
    const auto line = mlperf_.read(text, here());
    if (!line) return tl::unexpected<Error>(line.error());
    if (!line->note.empty()) note(line->note);
    if (line->count) {
      struct Count {
        std::string_view key;
        std::optional<std::int64_t>& target;
        std::string_view what;
      };
      const Count counts[] = {{"global_batch_size", log_.global_batch, "global batch"},
                              {"micro_batch_size", log_.batch, "micro-batch"},
                              {"tensor_parallelism", log_.tensor, "tensor-parallel size"},
                              {"pipeline_parallelism", log_.pipeline, "pipeline's size"},
                              {"context_parallelism", log_.context, "context-parallel size"},
                              {"expert_parallelism", log_.expert, "expert-parallel size"}};
      for (const auto& [key, target, what] : counts) {
        if (key == line->key) return keep(what, target, *line->count);
      }
    }
    if (!line->step) return {};
    if (!is(LogFormat::kMlperf)) return {};  // its steps say more
    if (line->instead) log_.steps.clear();
    return keep_step(*line->step);
  }

  Expected<void> keep_step(Time step) {
    if (!is_step(step)) return fail(ErrorCode::kParse, fmt::format("{} is no step time", to_text(step)), here());
    log_.steps.push_back(step);
    return {};
  }

  std::string file_;
  int number_ = 0;
  bool known_ = false;
  MlperfLog mlperf_;
  BatchRamp ramp_;
  bool went_back_ = false;                             // torchtitan's clock, at its last step
  std::optional<std::int64_t> iteration_;              // Megatron's, NeMo's
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
  if (stream->peek() != 0x1f) return read_log(*stream, path.string());
  auto text = kineto::read_text(path, 0);  // gzip
  if (!text) return tl::unexpected<Error>(text.error());
  std::istringstream unpacked(std::move(*text));
  return read_log(unpacked, path.string());
}

}  // namespace ddlsim::importers
