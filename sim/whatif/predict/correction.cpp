#include "predict/correction.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "ddlsim/support/lower_case.h"
#include "ddlsim/whatif/own_runs.h"
#include "ddlsim/whatif/predict.h"
#include "predict/change_spread.h"

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
  if (!plan::splits_model(parallel)) return {};
  return {parallel.tensor,
          parallel.context,
          parallel.expert,
          plan::has_whole_experts(parallel) ? 1 : 0,
          parallel.pipeline,
          parallel.sequence ? 1 : 0,
          static_cast<std::int64_t>(parallel.schedule),
          parallel.virtual_stages,
          parallel.zero,
          static_cast<std::int64_t>(parallel.recompute),
          parallel.recompute_every,
          parallel.offload_optimizer || parallel.offload_activations ? 1 : 0,
          scenario.batch};
}

calib::RunPoint configuration_of(const Scenario& scenario) {
  const bool split = plan::splits_model(scenario.parallel);
  return {.gpus_per_server = scenario.cluster.gpus_per_node,
          .servers = scenario.cluster.nodes,
          .batch = static_cast<double>(scenario.batch),
          .split = split_of(scenario),
          .software = split ? software_in(scenario.framework) : 0};
}

double fixed_share(const Question& question) {
  const auto laid = lay_out(question, {}, answer::Detail::kParts);
  if (!laid || !question.plan) return 0;
  const answer::Breakdown& parts = laid->line.parts;
  const Time busy = parts.compute + parts.memory + parts.launch;
  const plan::Chunk& layers = question.plan->classes.front().chunk;
  double kernels = 0;
  for (std::size_t i = 0; i < layers.count; ++i) kernels += layers[i].forward_kernels + layers[i].backward_kernels;
  const auto passes = static_cast<double>(question.scenario.strategy.accumulation.get());
  const Time issued = plan::launch_interval_of(question.scenario) * (kernels * passes);
  return busy > Time::zero() ? std::clamp(issued / busy, 0.0, 1.0) : 0.0;
}

calib::RunPoint point_of(const Question& question, Time step) {
  const Scenario& scenario = question.scenario;
  calib::RunPoint point = configuration_of(scenario);
  point.fixed = fixed_share(question);
  Scenario slower = scenario;
  slower.gpu_time_factor.set(scenario.gpu_time_factor * kSlowerGpu);
  const Question again{slower, question.fidelity, question.plan, question.kinds, question.layers};
  if (const auto laid = lay_out(again, {}, answer::Detail::kTime)) {
    point.communication = share_beside_gpu(step, laid->line.step);
  }
  return point;
}

Time corrected_step(const Question& question, Time step) {
  if (!question.scenario.own_runs) return step;
  return step * std::exp(question.scenario.own_runs->posterior().at(point_of(question, step)).residual);
}

void correct(const Question& question, const std::pair<Time, Time>& unmeasured, answer::Prediction& prediction) {
  const OwnRuns& runs = *question.scenario.own_runs;
  const calib::RunPoint point = point_of(question, prediction.step_time);
  const calib::RunEstimate found = runs.posterior().at(point);
  const double factor = std::exp(found.residual);
  const double deviation = std::hypot(found.deviation, runs.scatter());
  const calib::RunPoint one_gpu{
      .batch = point.batch, .fixed = point.fixed, .split = point.split, .software = point.software};
  const double alone = std::exp(runs.posterior().at(one_gpu).residual);
  // How far off the step may be without any run: ln(end / step).
  const double open_below = std::log(unmeasured.first / prediction.step_time);
  const double open_above = std::log(unmeasured.second / prediction.step_time);
  scale(prediction, factor);
  prediction.scaling_efficiency *= alone;
  const RunQuantiles quantiles = !runs.ran_split_as(point) ? kOtherSplit
                                 : point.servers > 1       ? kAcrossServers
                                                           : kWithinServer;
  // Besides, of other kinds than what ran.
  const double kinds =
      kTwoSided * std::sqrt(variance_of_kinds(runs.smallest(), question.scenario, 1 - point.communication));
  double below = -std::hypot(quantiles.low * deviation, kinds);
  double above = std::hypot(quantiles.high * deviation, kinds);
  // Far from what ran, a run of the same split leaves no more open than none does. One of another split may: what it
  // moves is the middle.
  if (runs.gpu_time_factor() == 1 && runs.ran_split_as(point)) {
    below = std::max(below, std::min(open_below, 0.0));
    above = std::min(above, std::max(open_above, 0.0));
  }
  prediction.interval_90 = {prediction.step_time * std::exp(below), prediction.step_time * std::exp(above)};
  prediction.provenance = runs.covers(point) ? Provenance::kInterpolated : Provenance::kExtrapolated;
  std::vector<std::string> notes = runs.learnt();
  notes.push_back(
      fmt::format("so this step is {:.3g} times the model's at that GPU speed, known to {:.0f} % (one "
                  "standard deviation)",
                  factor, 100 * std::hypot(deviation, kinds / kTwoSided)));
  prediction.notes.insert(prediction.notes.begin(), notes.begin(), notes.end());
}

void scale(answer::Prediction& prediction, double factor) {
  prediction.step_time = prediction.step_time * factor;
  answer::Breakdown& parts = prediction.breakdown;
  for (Time* part : {&parts.compute, &parts.memory, &parts.launch, &parts.communication, &parts.communication_exposed,
                     &parts.input_exposed, &parts.bubble, &parts.other, &parts.host_update}) {
    *part = *part * factor;
  }
  for (answer::Segment& segment : prediction.critical_path) segment.time = segment.time * factor;
  if (prediction.bounds) prediction.bounds = {prediction.bounds->first * factor, prediction.bounds->second * factor};
  prediction.throughput_samples_per_second /= factor;
  prediction.scaling_efficiency /= factor;
  prediction.mfu /= factor;
  prediction.hfu /= factor;
}

}  // namespace ddlsim::whatif
