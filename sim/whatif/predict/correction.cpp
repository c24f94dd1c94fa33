#include "predict/correction.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "ddlsim/plan/order.h"
#include "ddlsim/step/input_wait.h"
#include "ddlsim/support/lower_case.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/own_runs.h"
#include "predict/bottleneck.h"
#include "predict/change_spread.h"
#include "predict/interval.h"

namespace ddlsim::whatif {
namespace {

/// A number for a framework by the letters of its name and its release: 26.04.01 is 26.04.
std::int64_t software_in(std::string_view framework) {
  constexpr std::uint64_t kBase = 131;
  std::uint64_t number = 0;
  int dots = 0;
  for (const char c : framework) {
    const auto lower = static_cast<unsigned char>(lower_letter(c));
    if (c == '.') ++dots;
    if (std::islower(lower) != 0 || (std::isdigit(lower) != 0 && dots < 2)) number = number * kBase + lower;
  }
  return static_cast<std::int64_t>(number);
}

}  // namespace

double share_beside_gpu(Time step, Time slower) {
  return std::clamp(1 - std::log(slower / step) / std::log(kSlowerGpu), 0.0, 1.0);
}

calib::RunSplit split_of(const Scenario& scenario) {
  const plan::Parallel& parallel = scenario.parallel;
  calib::RunSplit split{.zero = parallel.zero};
  if (parallel.tensor * parallel.context * parallel.expert * parallel.pipeline > 1) {
    split.ranks = {parallel.tensor,   parallel.context,
                   parallel.expert,   plan::has_whole_experts(parallel) ? 1 : 0,
                   parallel.pipeline, parallel.sequence ? 1 : 0};
    if (parallel.pipeline > 1) {
      split.ranks[6] = static_cast<std::int64_t>(parallel.schedule);
      split.ranks[7] = parallel.virtual_stages;
    }
  }
  if (parallel.recompute != plan::Recompute::kNone) {
    split.kept = {static_cast<std::int64_t>(parallel.recompute), parallel.recompute_every, parallel.recompute_first};
  }
  split.kept[3] =
      (parallel.offload_optimizer || parallel.offload_activations ? 1 : 0) + (parallel.offload_weights ? 1 : 0);
  split.kept[4] = parallel.lora_rank > 0 ? 1 : 0;
  return split;
}

calib::RunPoint configuration_of(const Scenario& scenario) {
  return {.gpus_per_server = scenario.cluster.gpus_per_node,
          .servers = scenario.cluster.nodes,
          .batch = static_cast<double>(scenario.batch),
          .split = split_of(scenario),
          .software = plan::takes_ranks(scenario.parallel) ? software_in(scenario.framework) : 0};
}

double fixed_share(const Question& question, const answer::Breakdown& parts) {
  if (!question.plan) return 0;
  const Time busy = parts.compute + parts.memory + parts.launch;
  // Of a framework that takes long for a kernel the prediction has that already: no more is uncertain of its passes.
  const Stated<Time>& interval = question.scenario.launch_interval;
  const bool known = interval.origin() == Origin::kFramework && interval > plan::kDefaultLaunchInterval;
  const Time issuing = issuing_of(question) * (known ? plan::kDefaultLaunchInterval / interval.get() : 1.0);
  return busy > Time::zero() ? std::clamp(issuing / busy, 0.0, 1.0) : 0.0;
}

double fixed_share(const Question& question) {
  const auto laid = lay_out(question, {}, answer::Detail::kParts);
  return laid ? fixed_share(question, laid->line.parts) : 0.0;
}

namespace {

Time waiting_beside(const Laid& laid, Time busy) {
  const plan::StepPlan& plan = *laid.step->plan;
  const std::int64_t passes = plan.folds ? plan.micro_batches : plan::passes_of(plan::pipeline_of(plan));
  return step::input_wait(*laid.step, laid.line.host_link, busy, static_cast<double>(passes)).exposed;
}

}  // namespace

bool loads_apart(const OwnRuns& runs, const Laid& laid) {
  return laid.step && laid.step->loader && !runs.waited_for_input();
}

Time spoken_of(const Laid& laid, bool apart) {
  return apart ? laid.line.step - laid.line.parts.input_exposed : laid.line.step;
}

// Beside what the line says, which may be of several steps.
Time step_beside_loader(const Laid& laid, Time busy) {
  const Time more = waiting_beside(laid, busy) - waiting_beside(laid, spoken_of(laid, true));
  return busy + max(laid.line.parts.input_exposed + more, Time::zero());
}

calib::RunPoint point_of(const Question& question, const Laid& laid, bool apart) {
  const Scenario& scenario = question.scenario;
  calib::RunPoint point = configuration_of(scenario);
  const answer::Breakdown& parts = laid.line.parts;
  const bool told = parts.compute + parts.memory + parts.launch > Time::zero();
  point.fixed = told ? fixed_share(question, parts) : fixed_share(question);
  point.passes_per_second =
      static_cast<double>(scenario.strategy.accumulation.get()) / spoken_of(laid, apart).in(seconds);
  Scenario slower = scenario;
  slower.gpu_time_factor.set(scenario.gpu_time_factor * kSlowerGpu);
  const Question again{slower, question.fidelity, question.plan, question.kinds, question.layers};
  if (const auto other = lay_out(again, {}, answer::Detail::kTime)) {
    point.communication = share_beside_gpu(spoken_of(laid, apart), spoken_of(*other, apart));
  }
  return point;
}

Time corrected_step(const Question& question, const Laid& laid) {
  if (!question.scenario.own_runs) return laid.line.step;
  const OwnRuns& runs = *question.scenario.own_runs;
  const bool apart = loads_apart(runs, laid);
  const Time spoken = spoken_of(laid, apart) * std::exp(runs.posterior().residual_at(point_of(question, laid, apart)));
  return apart ? step_beside_loader(laid, spoken) : spoken;
}

RunCorrection correction_of(const Question& question, const Laid& laid) {
  const OwnRuns& runs = *question.scenario.own_runs;
  RunCorrection found;
  found.apart = loads_apart(runs, laid);
  found.point = point_of(question, laid, found.apart);
  const calib::RunEstimate estimate = runs.posterior().at(found.point);
  found.factor = std::exp(estimate.residual);
  found.deviation = std::hypot(estimate.deviation, runs.scatter());
  found.parts = std::exp(estimate.kept);
  found.by_links = question.gpus() > 1 && runs.by_links(question.scenario.cluster.nodes > 1);
  const Time spoken = spoken_of(laid, found.apart);
  found.step = spoken * found.factor;
  if (found.apart) {
    found.step = step_beside_loader(laid, spoken * found.factor);
    found.input = found.step - spoken * found.factor;
  }
  const Time more = spoken * (found.factor - found.parts);
  if (more >= Time::zero()) {
    (found.by_links ? found.sent : found.unexplained) = more;
    return found;
  }
  const Time exposed = laid.line.parts.communication_exposed;
  if (!found.by_links || exposed >= spoken) {
    found.parts = found.factor;
  } else if (exposed * found.parts + more >= Time::zero()) {
    found.sent = more;
  } else {  // none is left
    found.parts = found.factor * (spoken / (spoken - exposed));
    found.sent = Time::zero() - exposed * found.parts;
  }
  return found;
}

namespace {

/// As step/schedule.h names it.
constexpr std::string_view kWaitingForInput = "waiting for input";

/// The parts of a step, as they add up to it.
void correct_parts(const RunCorrection& found, answer::Prediction& prediction) {
  answer::Breakdown& parts = prediction.breakdown;
  const Time waited = parts.input_exposed;
  for (Time* part : {&parts.compute, &parts.memory, &parts.launch, &parts.communication, &parts.communication_exposed,
                     &parts.input_exposed, &parts.bubble, &parts.other, &parts.host_update}) {
    *part = *part * found.parts;
  }
  if (found.apart) parts.input_exposed = found.input;
  parts.communication_exposed = max(parts.communication_exposed + found.sent, Time::zero());
  parts.communication = max(parts.communication + found.sent, parts.communication_exposed);
  parts.unexplained = found.unexplained;
  parts.other += found.unexplained;
  // What is sent in less time than the model's is taken from no segment by itself.
  const bool less = found.sent < Time::zero();
  const double longer = less ? found.factor : found.parts;
  bool told = !found.apart;
  for (answer::Segment& one : prediction.critical_path) {
    const bool input = !told && one.name == kWaitingForInput;
    one.time = input ? found.input + (one.time - waited) * longer : one.time * longer;
    told = told || input;
  }
  if (!told && found.input > Time::zero()) {
    prediction.critical_path.push_back({std::string(kWaitingForInput), found.input});
  }
  if (found.sent > Time::zero()) prediction.critical_path.push_back({"communication beyond the model's", found.sent});
  if (found.unexplained > Time::zero()) {
    prediction.critical_path.push_back({"measured, unexplained", found.unexplained});
  }
}

/// What runs took beyond the model bounds the step where less of it gains more than any resource does.
void correct_bottleneck(const RunCorrection& found, Time gain, answer::Prediction& prediction) {
  const Time excess = max(found.sent, found.unexplained);
  if (gain_of_faster(excess) <= gain * found.parts) return;
  prediction.bottleneck = "unexplained";
  if (!found.by_links) return;
  const answer::LinkTraffic* busiest = nullptr;
  for (const answer::LinkTraffic& one : prediction.traffic) {
    if (busiest == nullptr || one.time > busiest->time) busiest = &one;
  }
  const bool pcie = busiest != nullptr && busiest->link.starts_with("pcie");
  prediction.bottleneck = found.point.servers > 1 ? "network" : pcie ? "pcie" : "nvlink";
}

/// The ends of ln(step) around what is expected.
std::pair<double, double> ends_of(const Question& question, const RunCorrection& found, Time model,
                                  const std::pair<Time, Time>& unmeasured) {
  const OwnRuns& runs = *question.scenario.own_runs;
  const calib::RunPoint& point = found.point;
  // Besides, of other kinds than what ran.
  const double kinds =
      kTwoSided * std::sqrt(variance_of_kinds(runs.smallest(), question.scenario, 1 - point.communication));
  const RunQuantiles quantiles = kinds == 0 && runs.ran_itself(point, model) ? kRanItself
                                 : !runs.ran_split_as(point)                 ? kOtherSplit
                                 : point.servers > 1                         ? kAcrossServers
                                                                             : kWithinServer;
  // A run of one GPU does not know how fast others are reached over the host's memory.
  const bool unknown_box = runs.smallest().cluster.gpus_per_node == 1 && !runs.ran_itself(point, model);
  const auto [fast, slow] = unknown_box ? staged_steps(question, model) : std::pair(model, model);
  const double below = -std::hypot(quantiles.low * found.deviation, kinds, std::log(fast / model));
  const double above = std::hypot(quantiles.high * found.deviation, kinds, std::log(slow / model));
  // Far from what ran, a run of the same split leaves no more open than none does. One of another split may: what it
  // moves is the middle.
  const bool no_wider = runs.ran_split_as(point);
  const double least = std::min(std::log(unmeasured.first / model), 0.0);
  const double most = std::max(std::log(unmeasured.second / model), 0.0);
  const std::pair<double, double> ends =
      no_wider ? std::pair(std::max(below, least), std::min(above, most)) : std::pair(below, above);
  if (!(found.apart && found.input > Time::zero())) return ends;
  // Of the loader that the step waits for runs say nothing; were it faster, the rest of the step would be left.
  const double rest = std::log((found.step - found.input) / found.step);
  return {std::min(ends.first, std::max(least, rest + ends.first)), std::max(ends.second, most)};
}

}  // namespace

void correct(const Question& question, const answer::Timeline& line, const RunCorrection& found, Time gain,
             const std::pair<Time, Time>& unmeasured, answer::Prediction& prediction) {
  const OwnRuns& runs = *question.scenario.own_runs;
  const double longer = found.step / line.step;
  const calib::RunPoint& point = found.point;
  const calib::RunPoint one_gpu{
      .batch = point.batch, .fixed = point.fixed, .split = point.split, .software = point.software};
  prediction.step_time = found.step;
  correct_parts(found, prediction);
  correct_bottleneck(found, gain, prediction);
  if (prediction.bounds) prediction.bounds = {prediction.bounds->first * longer, prediction.bounds->second * longer};
  prediction.throughput_samples_per_second /= longer;
  prediction.scaling_efficiency *= std::exp(runs.posterior().residual_at(one_gpu)) / longer;
  prediction.mfu /= longer;
  prediction.hfu /= longer;
  const auto [below, above] = ends_of(question, found, line.step, unmeasured);
  prediction.interval_90 = {prediction.step_time * std::exp(below), prediction.step_time * std::exp(above)};
  prediction.provenance = runs.covers(point) ? Provenance::kInterpolated : Provenance::kExtrapolated;
}

void add_correction_notes(const Question& question, Time model, answer::Prediction& prediction) {
  const Time step = prediction.step_time;
  std::vector<std::string> notes = question.scenario.own_runs->learnt();
  notes.push_back(
      fmt::format("so this step is {:.3g} times the model's at that GPU speed, known to -{} % and +{} % "
                  "(90 %)",
                  step / model, significant(100 * (1 - prediction.interval_90.first / step), 2),
                  significant(100 * (prediction.interval_90.second / step - 1), 2)));
  prediction.notes.insert(prediction.notes.begin(), notes.begin(), notes.end());
}

}  // namespace ddlsim::whatif
