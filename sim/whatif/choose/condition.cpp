#include "choose/condition.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "ddlsim/support/names.h"
#include "ddlsim/support/plural.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/ratio.h"

namespace ddlsim::whatif {
namespace {

constexpr auto kRelations = std::to_array<std::pair<std::string_view, Relation>>({
    {">=", Relation::kAtLeast},
    {"<=", Relation::kAtMost},
    {"≥", Relation::kAtLeast},
    {"≤", Relation::kAtMost},
    {"==", Relation::kEqual},
    {"=", Relation::kEqual},
});

constexpr std::string_view kHowToWrite =
    "as \"scaling_efficiency >= 90 %\", \"step_time <= 200 ms\", \"cost <= 500 $\"";

std::string_view without_blanks(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

tl::unexpected<Error> no_condition(std::string what) {
  std::vector<std::string> metrics;
  for (const auto& [name, metric] : kMetrics) metrics.emplace_back(name);
  metrics.pop_back();  // the other word for exposed communication
  return fail(ErrorCode::kParse, std::move(what), {},
              {"write METRIC >= VALUE, <= or =, " + std::string(kHowToWrite), "metrics: " + join(metrics)});
}

/// "600 images/s", "2e6 tokens/s", "40 /s": what is counted is of the job, and said for the reader.
Expected<double> parse_throughput(std::string_view text, bool& tokens) {
  const std::size_t end = std::min(text.find_first_of(" /abcdfghijklmnopqrstuvwxyz"), text.size());
  const auto number = parse_number(text.substr(0, end));
  const std::string_view unit = without_blanks(text.substr(end));
  constexpr auto kUnits =
      std::to_array<std::string_view>({"samples/s", "images/s", "sequences/s", "tokens/s", "examples/s", "/s"});
  const bool known = std::find(kUnits.begin(), kUnits.end(), unit) != kUnits.end();
  if (!number || !known) {
    return fail(ErrorCode::kParse, fmt::format("'{}' is not a throughput", text.substr(0, 60)), {},
                {"write a number of samples, images, sequences or tokens per second, as '4000 images/s'"});
  }
  if (*number <= 0) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("'{}' is not a throughput: it must be above zero", text.substr(0, 60)));
  }
  tokens = unit == "tokens/s";
  return *number;
}

Expected<double> parse_exposed(std::string_view text, bool& of_step) {
  of_step = text.ends_with('%');
  if (of_step) {
    if (without_blanks(text.substr(0, text.size() - 1)) == "0") return 0.0;
    return parse_fraction(text);
  }
  return parse_time(text, Range::kNonNegative).map([](Time t) { return t.in(seconds); });
}

Expected<double> parse_target(std::string_view text, Condition& condition) {
  switch (condition.metric) {
    case Metric::kStepTime:
    case Metric::kTimeToTrain: return parse_time(text).map([](Time t) { return t.in(seconds); });
    case Metric::kThroughput: return parse_throughput(text, condition.tokens);
    case Metric::kScalingEfficiency:
    case Metric::kGoodput:
    case Metric::kMfu: return parse_fraction(text);
    case Metric::kDeviceMemory:
    case Metric::kMemory: return parse_data_size(text).map([](DataSize s) { return s.in(bytes); });
    case Metric::kCost: return parse_quantity<dimension::kMoney>(text).map([](Money m) { return m.in(dollars); });
    case Metric::kEnergy: return parse_quantity<dimension::kEnergy>(text).map([](Energy e) { return e.in(joules); });
    case Metric::kCarbon: return parse_quantity<dimension::kMass>(text).map([](Mass m) { return m.in(grams); });
    case Metric::kExposedCommunication: return parse_exposed(text, condition.of_step);
  }
  return 0.0;
}

std::string_view relation_word(Relation relation) {
  switch (relation) {
    case Relation::kAtLeast: return ">=";
    case Relation::kAtMost: return "<=";
    case Relation::kEqual: return "=";
  }
  return "=";
}

}  // namespace

Expected<Condition> parse_condition(std::string_view text) {
  const std::string shown(text.substr(0, 60));
  const std::size_t at = text.find_first_of("<>=\xE2");
  if (at == std::string_view::npos) return no_condition(fmt::format("'{}' is not a condition: no >=, <= or =", shown));
  const std::string_view rest = text.substr(at);
  const auto relation =
      std::find_if(kRelations.begin(), kRelations.end(), [&](const auto& r) { return rest.starts_with(r.first); });
  if (relation == kRelations.end()) {
    return no_condition(fmt::format("'{}' is not a condition: write >= or <= for > or <", shown));
  }
  if (rest.substr(relation->first.size()).find_first_of("<>=\xE2") != std::string_view::npos) {
    return no_condition(fmt::format("'{}' is not a condition: find takes one", shown));
  }
  const std::string_view name = without_blanks(text.substr(0, at));
  const std::string_view value = without_blanks(rest.substr(relation->first.size()));
  if (name.empty()) return no_condition(fmt::format("'{}' is not a condition: the metric is missing", shown));
  if (value.empty()) return no_condition(fmt::format("'{}' is not a condition: the value is missing", shown));
  const auto metric = parse_choice(kMetrics, name, "metric");
  if (!metric) return tl::unexpected<Error>(metric.error());
  Condition condition{.metric = *metric, .relation = relation->second};
  const auto target = parse_target(value, condition);
  if (!target) {
    Error error = target.error();
    error.message = fmt::format("{}: {}", name_of(kMetrics, *metric), error.message);
    return tl::unexpected<Error>(std::move(error));
  }
  condition.target = *target;
  if (condition.relation == Relation::kAtLeast && condition.target == 0) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is always true", shown));
  }
  return condition;
}

std::string words_of(const Condition& condition) {
  std::string name(name_of(kMetrics, condition.metric));
  std::replace(name.begin(), name.end(), '_', ' ');
  if (condition.metric == Metric::kMfu) name = "MFU";
  return fmt::format("{} {} {}", name, relation_word(condition.relation),
                     measured_text(condition, condition.target, "sample"));
}

Expected<double> measure(const Condition& condition, const answer::Prediction& p) {
  const auto lacking = [&](std::string what, std::string note) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}", name_of(kMetrics, condition.metric), what), {},
                {std::move(note)});
  };
  switch (condition.metric) {
    case Metric::kStepTime: return p.step_time.in(seconds);
    case Metric::kThroughput:
      if (!condition.tokens) return p.throughput_samples_per_second;
      if (const auto tokens = p.tokens_per_second()) return *tokens;
      return lacking(fmt::format("{} counts {}, not tokens", p.model, plural(p.sample)), "write samples/s");
    case Metric::kScalingEfficiency: return p.scaling_efficiency;
    case Metric::kMfu: return p.mfu;
    case Metric::kGoodput:
      if (p.goodput) return p.goodput->share;
      return lacking("nobody says how often something fails", "add --failures llama3-405b, or --mtbf-gpu '80000 h'");
    case Metric::kMemory: return p.memory_per_gpu.in(bytes);
    case Metric::kDeviceMemory: return p.memory.all().in(bytes);
    case Metric::kExposedCommunication: {
      const Time exposed = p.breakdown.communication_exposed;
      return condition.of_step ? exposed / p.step_time : exposed.in(seconds);
    }
    case Metric::kCost:
    case Metric::kEnergy:
    case Metric::kCarbon:
    case Metric::kTimeToTrain: break;
  }
  if (!p.training) return lacking("nobody says how long the run is", "add --samples and --epochs, or --steps");
  if (condition.metric == Metric::kTimeToTrain) return p.training->time().in(seconds);
  if (condition.metric == Metric::kEnergy) return p.training->energy.in(joules);
  if (condition.metric == Metric::kCarbon) {
    if (p.training->carbon) return p.training->carbon->in(grams);
    return lacking("nobody says what CO2 the electricity makes", "add --carbon '400 g/kWh'");
  }
  if (!p.training->cost) return lacking("nobody says what a server costs", "add --price '12 $/h'");
  return p.training->cost->in(dollars);
}

std::string measured_text(const Condition& condition, double value, const std::string& sample) {
  switch (condition.metric) {
    case Metric::kStepTime:
    case Metric::kTimeToTrain: return to_text(seconds(value));
    case Metric::kThroughput:
      return fmt::format("{} {}", significant(value), plural(condition.tokens ? "token" : sample, "/s"));
    case Metric::kScalingEfficiency:
    case Metric::kGoodput:
    case Metric::kMfu: return fmt::format("{} %", significant(100 * value));
    case Metric::kDeviceMemory:
    case Metric::kMemory: return to_text(bytes(value));
    case Metric::kCost: return to_text(dollars(value));
    case Metric::kEnergy: return to_text(joules(value));
    case Metric::kCarbon: return to_text(grams(value));
    case Metric::kExposedCommunication:
      return condition.of_step ? fmt::format("{} % of the step", significant(100 * value)) : to_text(seconds(value));
  }
  return "";
}

namespace {

/// How the metric goes with the step: 1 in proportion, -1 inversely; nothing: in no such way.
std::optional<double> power_of_step(const Condition& condition) {
  if (condition.relation == Relation::kEqual) return std::nullopt;
  switch (condition.metric) {
    case Metric::kStepTime:
    case Metric::kTimeToTrain:
    case Metric::kCost: return 1.0;
    case Metric::kThroughput:
    case Metric::kMfu: return -1.0;
    case Metric::kScalingEfficiency:
    case Metric::kGoodput:
    case Metric::kMemory:
    case Metric::kDeviceMemory:
    case Metric::kEnergy:  // of kernels, not of the step
    case Metric::kCarbon:
    case Metric::kExposedCommunication: break;
  }
  return std::nullopt;
}

/// Of the metric's value the share that goes with the step. What a run takes once, or as often whatever its steps take
/// (start-up, evaluation, checkpoints that it stands still for), does not; where something fails, what that costs goes
/// with what is worked.
double share_by_step(const Condition& condition, const answer::Prediction& prediction) {
  const bool of_run = condition.metric == Metric::kTimeToTrain || condition.metric == Metric::kCost;
  if (!of_run || !prediction.training) return 1;
  const answer::Training& run = *prediction.training;
  Time by_steps = run.stepping;
  if (prediction.goodput) {
    by_steps += (run.checkpoints + run.failures) * (run.stepping / (run.stepping + run.evaluation));
  }
  return std::min(by_steps / run.time(), 1.0);
}

/// Of the step.
std::pair<double, double> relative_interval(const answer::Prediction& prediction) {
  return {prediction.interval_90.first / prediction.step_time, prediction.interval_90.second / prediction.step_time};
}

/// A condition that a short step meets, as every one of the metrics above that people ask for.
bool wants_short_steps(const Condition& condition, double power) {
  return (condition.relation == Relation::kAtMost) == (power > 0);
}

}  // namespace

Expected<double> parse_sure(std::string_view text) {
  auto share = parse_fraction(text);
  if (!share) return share;
  if (*share > 0 && *share < 1) return share;
  return fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is nothing to be sure with", text), {},
              {"as 90%, above 0 and below 100 %"});
}

Expected<double> measure(const Condition& condition, const answer::Prediction& prediction, double sure) {
  const auto power = power_of_step(condition);
  if (!power) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("how sure '{}' is, is not known", words_of(condition)), {},
                {"it is of step_time, throughput, time_to_train, cost and mfu, with >= or <="});
  }
  auto expected = measure(condition, prediction);
  if (!expected) return expected;
  const double below = wants_short_steps(condition, *power) ? sure : 1 - sure;
  const double share = share_by_step(condition, prediction);
  return *expected * (1 - share + share * std::pow(bound_with(below, 1, relative_interval(prediction)), *power));
}

std::optional<double> probability_of(const Condition& condition, const answer::Prediction& prediction) {
  const auto power = power_of_step(condition);
  if (!power) return std::nullopt;
  const auto expected = measure(condition, prediction);
  if (!expected || !(*expected > 0) || !(condition.target > 0)) return std::nullopt;
  const double share = share_by_step(condition, prediction);
  const double moved = (condition.target / *expected - (1 - share)) / share;
  const double limit = moved > 0 ? std::pow(moved, *power) : 0.0;  // of the step, over the expected one
  const double below = limit > 0 ? probability_below(limit, 1, relative_interval(prediction)) : 0.0;
  return wants_short_steps(condition, *power) ? below : 1 - below;
}

}  // namespace ddlsim::whatif
