#include "predict/interval.h"

#include "ddlsim/cost/price.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/whatif/predict.h"
#include "predict/notes.h"

namespace ddlsim::whatif {

using hardware::QuestionKind;

QuestionKind kind_of(const Question& question) {
  const Scenario& scenario = question.scenario;
  const bool apart = question.gpus() > 1 && scenario.cluster.nodes > 1;
  if (plan::has_servers(scenario.strategy) && apart) return QuestionKind::kServersOfWeights;
  if (scenario.cluster.node.gpu.profiles->empty()) return QuestionKind::kUnmeasuredGpu;
  if (plan::splits_model(scenario.parallel)) return QuestionKind::kSplitModel;
  if (question.gpus() == 1) return QuestionKind::kOneGpu;
  if (scenario.cluster.nodes == 1) return QuestionKind::kOneServer;
  return assumes_transport(question) ? QuestionKind::kAssumedNetwork : QuestionKind::kServers;
}

namespace {

/// Null: the software was not learnt, or has no part in this.
const hardware::SoftwareEnds* learnt_ends(const Question& question) {
  const Scenario& scenario = question.scenario;
  if (scenario.software == nullptr || !question.plan || scenario.model->measured) return nullptr;
  return scenario.software->ends_of(kind_of(question));
}

std::pair<Time, Time> interval_as_asked(const Question& question, const answer::Timeline& line) {
  const bool measured = question.scenario.gpu_time_measured;
  if (const auto* ends = learnt_ends(question); ends != nullptr && !measured) {
    return {line.step * ends->low, line.step * ends->high};
  }
  if (!measured && question.calibrated() == nullptr) return {line.step * kInterval90Low, line.step * kInterval90High};
  const Time exposed = line.parts.communication_exposed + line.parts.host_update;
  std::pair<Time, Time> interval{line.step * kMeasuredInterval90Low - exposed * 0.5,
                                 line.step * kMeasuredInterval90High + exposed};
  if (measured) return interval;
  // What the curves err by, on top of what a step of known kernels does.
  const cost::CalibratedTimes& times = *question.calibrated();
  const Time kernels = times.measured + times.extrapolated + times.assumed;
  const Time busy = line.parts.compute + line.parts.memory;
  const double lowest = kernels > Time::zero() ? times.low / kernels : 1;
  const double highest = kernels > Time::zero() ? times.high / kernels : 1;
  const Time longest = max(interval.second, line.step * kInterval90High);
  return {max(interval.first - busy * (1 - lowest), line.step * kInterval90Low),
          min(interval.second + busy * (highest - 1), longest)};
}

void widen_by_host(const Question& question, const answer::Timeline& line, std::pair<Time, Time>& interval) {
  if (!may_wait_for_launches(question, line.step)) return;
  // Hosts differ as much under whatever framework.
  const auto step_with = [&](Time usual) {
    cost::Variation host;
    host.launch = plan::kDefaultLaunchInterval / usual;
    const auto laid = lay_out(question, host, answer::Detail::kParts);
    return laid ? laid->line.step : line.step;
  };
  interval.first = min(interval.first, step_with(plan::kShortLaunchInterval));
  interval.second = max(interval.second, step_with(plan::kLongLaunchInterval));
}

/// Where nobody says what drives the network, it reaches from what RDMA would give to what TCP does: where TCP is
/// assumed to RDMA's own end, where RDMA is, the likelier by far, to TCP's step.
void widen_by_transport(const Question& question, std::pair<Time, Time>& interval) {
  if (!assumes_transport(question)) return;
  using hardware::NetworkTransport;
  const bool by_tcp = cost::assumed_transport(question.scenario.cluster.node) == NetworkTransport::kTcp;
  cost::Variation other;
  other.open_network = by_tcp ? NetworkTransport::kRoce : NetworkTransport::kTcp;
  const auto otherwise = lay_out(question, other, answer::Detail::kParts);
  if (!otherwise) return;
  if (by_tcp) {
    interval.first = min(interval.first, interval_as_asked(question, otherwise->line).first);
  } else {
    interval.second = max(interval.second, otherwise->line.step);
  }
}

void widen_by_host_memory(const Question& question, const answer::Timeline& line, std::pair<Time, Time>& interval) {
  const auto [fast, slow] = staged_steps(question, line.step);
  const auto as_fast = interval_as_asked(question, line).first * (fast / line.step);
  interval = {min(interval.first, as_fast), max(interval.second, slow)};
}

}  // namespace

std::pair<Time, Time> staged_steps(const Question& question, Time step) {
  const Scenario& scenario = question.scenario;
  const hardware::PeerPath peers = scenario.cluster.node.peers(scenario.cluster.gpus_per_node);
  const bool met = question.plan && question.gpus() > 1 && scenario.cluster.nodes == 1 && peers.through_host;
  if (!met || scenario.collective.intra_efficiency) return {step, step};
  const auto step_at = [&](double staging) {
    cost::Variation box;
    box.staging = staging;
    const auto laid = lay_out(question, box, answer::Detail::kParts);
    return laid ? laid->line.step : step;
  };
  return {min(step, step_at(3)), max(step, step_at(0.5))};
}

bool may_wait_for_launches(const Question& question, Time step) {
  const Scenario& scenario = question.scenario;
  const Origin origin = scenario.launch_interval.origin();
  const bool open = (origin == Origin::kDefault || origin == Origin::kFramework) && !scenario.cuda_graphs;
  if (!open || scenario.gpu_time_measured || scenario.model->measured || !question.plan) return false;
  constexpr double kNear = 0.8;  // of the step: casts and pieces of layers are launched as well
  const double slower = plan::kLongLaunchInterval / plan::kDefaultLaunchInterval;
  return issuing_of(question) * slower > step * kNear;
}

std::pair<double, double> whole_step_ends(const Question& question) {
  const auto* ends = learnt_ends(question);
  return ends != nullptr ? std::pair{ends->low, ends->high} : std::pair{kInterval90Low, kInterval90High};
}

std::pair<Time, Time> interval_of(const Question& question, const answer::Timeline& line) {
  std::pair<Time, Time> interval = interval_as_asked(question, line);
  widen_by_transport(question, interval);
  widen_by_host_memory(question, line, interval);
  widen_by_host(question, line, interval);
  return interval;
}

std::pair<Time, Time> interval_without_runs(const Question& question, const answer::Timeline& line) {
  Scenario unmeasured = question.scenario;
  unmeasured.gpu_time_measured = false;
  unmeasured.own_runs = nullptr;
  return interval_of({unmeasured, question.fidelity, question.plan, question.kinds, question.layers}, line);
}

}  // namespace ddlsim::whatif
