#include "ddlsim/whatif/validate.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "cases/case_degrees.h"
#include "cases/case_metric.h"
#include "cases/case_network.h"
#include "cases/case_open.h"
#include "cases/case_scenario.h"
#include "cases/case_software.h"
#include "cases/case_summary.h"
#include "cases/case_words.h"
#include "cases/language_case.h"
#include "ddlsim/calib/scaling_laws.h"
#include "ddlsim/support/names.h"
#include "ddlsim/whatif/collective.h"
#include "ddlsim/whatif/own_runs.h"
#include "ddlsim/whatif/predict.h"
#include "ddlsim/whatif/predictor.h"

namespace ddlsim::whatif {
namespace {

using answer::CaseReading;
using answer::CaseResult;
using answer::ValidationSet;
using io::Case;
using io::CaseMetric;

/// What a group shares: the server its cases run on, and what is given of it.
struct Group {
  std::int64_t widest = 1;
  std::vector<const Case*> cases;
  std::vector<const Case*> given;
  bool asked = true;
  std::shared_ptr<const OwnRuns> runs;  // what the given cases say; null: nothing is given
  std::string failure;                  // why nothing could be learnt from them
};

std::string first_line(const Error& error) {
  std::string text = error.message;
  for (const std::string& note : error.notes) text += "; " + note;
  return text.substr(0, 300);
}

class Validator {
 public:
  Validator(const io::Catalog& catalog, const ValidateOptions& options, const ValidateProgress& tell)
      : catalog_(catalog), anchor_(options.anchor), reader_(catalog, options.stated), tell_(tell) {}

  ValidationSet validate(const CaseSet& cases) {
    ValidationSet set;
    set.name = cases.name;
    set.rows = static_cast<std::int64_t>(cases.cases.size());
    find_groups(cases.cases);
    for (const Case& one : cases.cases) {
      if (tell_) tell_(done_);
      ++done_;
      const Group& group = groups_.at(one.group);
      if (!group.asked) {
        ++set.not_asked;
        continue;
      }
      if (group.failure.empty() && std::find(group.given.begin(), group.given.end(), &one) != group.given.end()) {
        ++set.anchors;
        continue;
      }
      auto result = predict_case(one, group);
      if (result) {
        set.cases.push_back(std::move(result->result));
      } else {
        set.unsupported.push_back({.id = one.id,
                                   .why = first_line(result.error()),
                                   .group = one.group,
                                   .metric = std::string(name_of(io::kCaseMetrics, one.metric)),
                                   .measured = one.value,
                                   .after = set.cases.size(),
                                   .collective = is_collective(one)});
      }
    }
    summarise(set);
    return set;
  }

  Expected<CaseReading> read(const CaseSet& cases, const Case& one) {
    find_groups(cases.cases);
    const Group& group = groups_.at(one.group);
    const bool given = std::find(group.given.begin(), group.given.end(), &one) != group.given.end();
    if (given || !group.asked) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("row '{}': with --anchor {} it is {}", one.id, name_of(kAnchors, anchor_),
                              given ? "given, not predicted" : "not asked about"),
                  one.where, {"--anchor none predicts every row"});
    }
    auto reading = predict_case(one, group);
    if (!reading) return tl::unexpected<Error>(reading.error());
    std::vector<Override> settings;
    if (is_collective(one)) {
      settings = reader_.collective_of(one, group.widest).value().settings;
    } else if (const auto read = reader_.scenario_of(one, group.widest, &settings); !read) {
      return tl::unexpected<Error>(read.error());
    }
    for (std::size_t i = 0; i < settings.size(); ++i) {
      const auto again = [&](const Override& later) { return later.path == settings[i].path; };
      const auto after = settings.begin() + static_cast<std::ptrdiff_t>(i) + 1;
      if (std::any_of(after, settings.end(), again)) continue;  // the last one counts
      reading->settings.emplace_back(settings[i].path, settings[i].value);
    }
    return reading;
  }

 private:
  void find_groups(const std::vector<Case>& cases) {
    groups_.clear();
    for (const Case& one : cases) {
      Group& group = groups_[one.group];
      group.widest = std::max(group.widest, one.gpus_per_node);
      group.cases.push_back(&one);
    }
    if (anchor_ == Anchor::kNone) return;
    for (auto& [name, group] : groups_) {
      if (is_collective(*group.cases.front())) continue;  // given or not, by formulas
      group.given = given_of(group.cases);
      group.asked = !group.given.empty();
      if (group.asked) learn(group);
    }
  }

  /// Of a group's cases; empty: the question does not arise.
  [[nodiscard]] std::vector<const Case*> given_of(const std::vector<const Case*>& cases) const {
    const auto fewer = [](const Case* a, const Case* b) { return a->total_gpus < b->total_gpus; };
    const auto [least, most] = std::minmax_element(cases.begin(), cases.end(), fewer);
    if (anchor_ == Anchor::kFirst) return {*least};
    std::vector<const Case*> given;
    std::set<std::int64_t> sizes;
    for (const Case* one : cases) {
      const bool is_given = anchor_ == Anchor::kNode ? one->nodes == 1 : one->total_gpus < (*most)->total_gpus;
      if (!is_given) continue;
      given.push_back(one);
      sizes.insert(one->total_gpus);
    }
    const bool enough = anchor_ == Anchor::kNode ? given.size() < cases.size() : sizes.size() > 1;
    return enough ? given : std::vector<const Case*>{};
  }

  Expected<Scenario> scenario_of(const Case& one, const Group& group) const {
    return reader_.scenario_of(one, group.widest);
  }

  /// The step that a case measured.
  Expected<OwnRun> run_of(const Case& one, const Group& group) const {
    auto scenario = scenario_of(one, group);
    if (!scenario) return tl::unexpected<Error>(scenario.error());
    const auto prediction = whatif::predict(*scenario);
    if (!prediction) return tl::unexpected<Error>(prediction.error());
    const auto value = metric_of(one, *scenario, *prediction, prediction->step_time);
    if (!value) return tl::unexpected<Error>(value.error());
    const double ratio = is_rate(one.metric) ? *value / one.value : one.value / *value;
    return OwnRun{std::move(*scenario), prediction->step_time * ratio, one.where};
  }

  void learn(Group& group) const {
    std::vector<OwnRun> runs;
    for (const Case* one : group.given) {
      auto run = run_of(*one, group);
      if (!run) {
        group.failure = first_line(run.error());
        return;
      }
      runs.push_back(std::move(*run));
    }
    auto learnt = OwnRuns::learn(runs);
    if (learnt) {
      group.runs = std::move(*learnt);
    } else {
      group.failure = first_line(learnt.error());
    }
  }

  static bool is_collective(const Case& one) { return architecture_family(one) == "collective"; }

  Expected<CaseReading> predict_collective(const Case& one, std::int64_t widest) const {
    const auto question = reader_.collective_of(one, widest);
    if (!question) return tl::unexpected<Error>(question.error());
    const auto scenario = resolve_cluster(catalog_, question->settings);
    if (!scenario) return tl::unexpected<Error>(scenario.error());
    const cost::Communicator communicator = cost::communicator_of(*scenario);
    const cost::CollectiveLibrary library = cost::collective_library_of(*scenario);
    const auto model = cost::CollectiveModel::create(communicator, library);
    if (!model) return tl::unexpected<Error>(model.error());
    const auto cost_by = [&](const cost::CollectiveModel& by) {
      cost::CollectiveCost sum{.provenance = Provenance::kMeasured};
      for (const CollectiveCalls& calls : question->calls) {
        const cost::CollectiveCost once = by.cost(calls.op, calls.size);
        sum.time += once.time * static_cast<double>(calls.times);
        sum.provenance = weaker(sum.provenance, once.provenance);
      }
      return sum;
    };
    const cost::CollectiveCost cost = cost_by(*model);
    // The same where nothing about the transport is assumed.
    const auto rdma =
        cost::CollectiveModel::create(cost::driven_by(communicator, cost::NetworkTransport::kRoce), library);
    const Time soonest = rdma ? min(cost.time, cost_by(*rdma).time) : cost.time;
    const auto value_of = [&](Time time) {
      if (one.metric == CaseMetric::kLatencyMicroseconds) return time.in(microseconds);
      return (question->size / time)
          .in(gigabytes_per_second)*primitives::bus_bandwidth_factor(question->op(), scenario->cluster.gpus());
    };
    const double value = value_of(cost.time);
    const CollectiveEnds ends = communicator.nodes > 1 ? kCollectiveAcrossServers : kCollectiveWithinServer;
    const double slow = value_of(cost.time * ends.high);
    const double fast = value_of(soonest * ends.low);
    CaseResult result{.id = one.id,
                      .group = one.group,
                      .metric = std::string(name_of(io::kCaseMetrics, one.metric)),
                      .rate = is_rate(one.metric),
                      .measured = one.value,
                      .predicted = value,
                      .error = value / one.value - 1.0,
                      .interval_90 = {std::min(slow, fast), std::max(slow, fast)},
                      .provenance = cost.provenance,
                      .collective = true};
    return CaseReading{std::move(result), one.model, {}, std::nullopt};
  }

  Expected<CaseReading> predict_case(const Case& one, const Group& group) const {
    if (is_collective(one)) return predict_collective(one, group.widest);
    if (!group.failure.empty()) return fail(ErrorCode::kUnsupported, group.failure);
    auto scenario = scenario_of(one, group);
    if (!scenario) return tl::unexpected<Error>(scenario.error());
    if (group.runs) *scenario = corrected(std::move(*scenario), group.runs);
    const auto prediction = whatif::predict(*scenario);
    if (!prediction) return tl::unexpected<Error>(prediction.error());
    const auto value = metric_of(one, *scenario, *prediction, prediction->step_time);
    if (!value) return tl::unexpected<Error>(value.error());
    std::vector<std::string> open;
    const auto ends = interval_over_what_is_open(one, group, *scenario, *prediction, open);
    auto slow = metric_of(one, *scenario, *prediction, ends.second);
    auto fast = metric_of(one, *scenario, *prediction, ends.first);
    if (slow && fast && one.precision.empty()) {
      const bool wide = is_single(scenario->precision);
      const bool faster = wide || is_submission(one);  // of a submission that is mixed: in 4 bits
      const auto other = end_in(one, group, wide ? "fp16" : faster ? "fp4" : "fp32", faster);
      if (other) slow = slowest(one, *slow, *other);
      if (other) fast = fastest(one, *fast, *other);
    }
    CaseResult result{.id = one.id,
                      .group = one.group,
                      .metric = std::string(name_of(io::kCaseMetrics, one.metric)),
                      .rate = is_rate(one.metric),
                      .measured = one.value,
                      .predicted = *value,
                      .error = *value / one.value - 1.0,
                      .interval_90 = {std::min(*slow, *fast), std::max(*slow, *fast)},
                      .provenance = leaves_open(one) ? Provenance::kAssumed : prediction->provenance,
                      .perfect = std::nullopt};
    if (group.runs) add_scaling_laws(one, group, result);
    result.job = one.said("job").value_or("");
    // A forward pass alone keeps nothing, and the answer is a training step's.
    result.fits = one.metric == io::CaseMetric::kForwardMilliseconds || prediction->fits.value_or(true);
    const bool counted = prediction->memory.capacity > DataSize::zero();
    if (counted) result.memory_times = prediction->memory.all() / prediction->memory.capacity;
    result.open = std::move(open);
    result.unread = unread_words(one);
    if (one.nodes > 1 && !names_network(catalog_, one)) {
      result.unread.push_back(fmt::format("inter_network '{}' names no network that is known: the server's is taken",
                                          one.inter_network.substr(0, 60)));
    }
    result.memory_error = memory_error_of(one, prediction->memory);
    return CaseReading{std::move(result), describe(*scenario), {}, *prediction};
  }

  /// The interval of a prediction, stretched over conditions that the case leaves open (case_open.h). `open`: which.
  std::pair<Time, Time> interval_over_what_is_open(const Case& one, const Group& group, const Scenario& scenario,
                                                   const answer::Prediction& prediction,
                                                   std::vector<std::string>& open) const {
    constexpr double kTooLittle = 1.005;  // of a step
    std::pair<Time, Time> ends = prediction.interval_90;
    const auto is_across = [](const Case* given) { return given->nodes > 1; };
    const bool across = std::any_of(group.given.begin(), group.given.end(), is_across);
    for (const OpenCondition& condition : open_conditions(catalog_, one, scenario)) {
      if (group.runs && (!condition.of_network || across)) continue;  // measured
      double fastest = 1;
      double slowest = 1;
      for (const Case& other : condition.otherwise) {
        auto otherwise = scenario_of(other, group);
        if (!otherwise) continue;
        if (group.runs) *otherwise = corrected(std::move(*otherwise), group.runs);
        const auto step = Predictor().step_time(*otherwise);
        if (!step) continue;
        fastest = std::min(fastest, *step / prediction.step_time);
        slowest = std::max(slowest, *step / prediction.step_time);
      }
      if (slowest / fastest < kTooLittle && !condition.always_said) continue;
      ends = {ends.first * fastest, ends.second * slowest};
      open.push_back(fmt::format("nobody states {}: the interval spans {:.2f} to {:.2f} times the step ({})",
                                 condition.what, fastest, slowest, condition.stated_by));
    }
    return ends;
  }

  /// The end of the interval in another precision: nobody says which one a case had.
  Expected<double> end_in(const Case& one, const Group& group, const char* precision, bool fast) const {
    Case other = one;
    other.precision = precision;
    auto scenario = scenario_of(other, group);
    if (!scenario) return tl::unexpected<Error>(scenario.error());
    if (group.runs) *scenario = corrected(std::move(*scenario), group.runs);
    const auto prediction = whatif::predict(*scenario);
    if (!prediction) return tl::unexpected<Error>(prediction.error());
    return metric_of(one, *scenario, *prediction,
                     fast ? prediction->interval_90.first : prediction->interval_90.second);
  }

  static double slowest(const Case& one, double a, double b) {
    return is_rate(one.metric) ? std::min(a, b) : std::max(a, b);
  }
  static double fastest(const Case& one, double a, double b) {
    return is_rate(one.metric) ? std::max(a, b) : std::min(a, b);
  }

  /// Sources report what PyTorch allocated, or what the driver counts, which is more.
  static std::optional<double> memory_error_of(const Case& one, const answer::MemoryLedger& memory) {
    const auto measured = count_of(one, "memory_bytes_per_gpu");
    if (!measured || *measured == 0) return std::nullopt;
    const bool allocated = one.said("memory_is").value_or("").find("allocated") != std::string::npos;
    const DataSize predicted = allocated ? memory.tensors() : memory.all();
    return predicted.in(bytes) / static_cast<double>(*measured) - 1.0;
  }

  /// A case's time on one GPU's share of the work: a step, or the GPUs over a rate of all of them.
  static calib::ScalingPoint scaling_point(const Case& one) {
    const auto gpus = static_cast<double>(one.total_gpus);
    if (!is_rate(one.metric)) return {gpus, milliseconds(one.value)};
    return {gpus, seconds((one.metric == CaseMetric::kTflopsPerGpu ? 1.0 : gpus) / one.value)};
  }

  static void add_scaling_laws(const Case& one, const Group& group, CaseResult& result) {
    std::vector<calib::ScalingPoint> points;
    for (const Case* given : group.given) {
      if (given->metric == one.metric) points.push_back(scaling_point(*given));
    }
    if (points.empty()) return;
    const auto gpus = static_cast<double>(one.total_gpus);
    const Time here = scaling_point(one).step;
    // The same work: what takes so many times as long is so many times a time, or a part of a rate.
    const auto value = [&](Time step) {
      return is_rate(one.metric) ? one.value * (here / step) : step.in(milliseconds);
    };
    result.perfect = value(calib::perfect_scaling(points));
    result.amdahl = value(calib::amdahl_scaling(points, gpus));
    result.power_law = value(calib::power_law_scaling(points, gpus));
  }

  const io::Catalog& catalog_;
  Anchor anchor_;
  CaseReader reader_;
  const ValidateProgress& tell_;
  std::int64_t done_ = 0;
  std::map<std::string, Group> groups_;
};

}  // namespace

Expected<answer::Validation> validate(const io::Catalog& catalog, std::span<const CaseSet> sets,
                                      const ValidateOptions& options, const ValidateProgress& tell) {
  if (auto known = check_paths(options.stated); !known) return tl::unexpected<Error>(known.error());
  Validator validator(catalog, options, tell);
  answer::Validation validation;
  validation.anchor = name_of(kAnchors, options.anchor);
  validation.all.name = "all";
  for (const CaseSet& cases : sets) {
    ValidationSet set = validator.validate(cases);
    ValidationSet& all = validation.all;
    all.rows += set.rows;
    all.anchors += set.anchors;
    all.not_asked += set.not_asked;
    for (answer::UnsupportedCase one : set.unsupported) {
      one.after += all.cases.size();
      all.unsupported.push_back(std::move(one));
    }
    all.cases.insert(all.cases.end(), set.cases.begin(), set.cases.end());
    validation.sets.push_back(std::move(set));
  }
  summarise(validation.all);
  validation.kinds = kinds_of(validation.all);
  return validation;
}

Expected<answer::CaseReading> read_case(const io::Catalog& catalog, std::span<const CaseSet> sets, std::string_view id,
                                        const ValidateOptions& options) {
  if (auto known = check_paths(options.stated); !known) return tl::unexpected<Error>(known.error());
  const ValidateProgress quiet;
  std::vector<std::string> ids;
  for (const CaseSet& cases : sets) {
    for (const Case& one : cases.cases) {
      if (one.id == id) return Validator(catalog, options, quiet).read(cases, one);
      ids.push_back(one.id);
    }
  }
  return fail(ErrorCode::kNotFound, fmt::format("no row has the id '{}'", id), {}, {suggestion(id, ids)});
}

}  // namespace ddlsim::whatif
