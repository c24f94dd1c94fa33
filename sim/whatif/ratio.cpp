#include "ddlsim/whatif/ratio.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "change_spread.h"
#include "correction.h"
#include "ddlsim/calib/run_posterior.h"
#include "ddlsim/whatif/own_runs.h"
#include "ddlsim/whatif/predict.h"

namespace ddlsim::whatif {
namespace {

constexpr double kNoNoise = 1e-6;      // of a baseline that counts as measured
constexpr double kRoundedAway = 1e-9;  // of a speedup, that rounding makes

double square(double x) { return x * x; }

/// Phi.
double normal_below(double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); }

calib::RunPoint point_of(const RatioSide& side) {
  calib::RunPoint point = configuration_of(*side.scenario);
  point.communication = std::clamp(side.communication, 0.0, 1.0);
  return point;
}

double of_gpu_time(const Scenario& scenario) {
  const auto* ends = scenario.software ? scenario.software->ends_of(hardware::QuestionKind::kOneGpu) : nullptr;
  const double low = ends != nullptr ? ends->low : kInterval90Low;
  const double high = ends != nullptr ? ends->high : kInterval90High;
  return std::log(high / low) / (2 * kTwoSided);
}

/// What measured runs of both sides leave open; nothing where one has none.
std::optional<double> left_by_runs(const RatioSide& baseline, const RatioSide& alternative) {
  const auto& runs = baseline.scenario->own_runs;
  if (!runs || runs != alternative.scenario->own_runs) return std::nullopt;
  const double before = runs->posterior().at(point_of(baseline)).deviation;
  const double after = runs->posterior().at(point_of(alternative)).deviation;
  return std::hypot(before, after);
}

/// Whether a step of both is the same work, be it the catalogue's model or a file read again.
bool same_model(const Scenario& a, const Scenario& b) {
  if (a.model == b.model) return true;
  if (a.model->id != b.model->id || a.model->layers.size() != b.model->layers.size()) return false;
  const auto before = workload::features_at(*a.model, a.batch, a.precision);
  const auto after = workload::features_at(*b.model, b.batch, b.precision);
  return before.flops == after.flops && before.memory_access == after.memory_access && before.input == after.input &&
         before.weight_traffic == after.weight_traffic;
}

/// Whether the alternative differs by a network of more bandwidth alone: nothing that is open can make it slower.
bool only_widens_network(const Scenario& a, const Scenario& b) {
  const hardware::Cluster& before = a.cluster;
  const hardware::Cluster& after = b.cluster;
  const auto transport_of = [](const hardware::Cluster& cluster) {
    return cluster.node.network.transport->value_or(cost::assumed_transport(cluster.node));
  };
  return before.node.id == after.node.id && before.node.gpu.id == after.node.gpu.id && before.nodes == after.nodes &&
         before.gpus_per_node == after.gpus_per_node && same_model(a, b) && a.precision == b.precision &&
         a.batch == b.batch && a.strategy.kind == b.strategy.kind && a.parallel == b.parallel &&
         transport_of(before) == transport_of(after) && before.node.network.latency >= after.node.network.latency &&
         before.node.network_ports <= after.node.network_ports &&
         before.node.network.bandwidth <= after.node.network.bandwidth;
}

}  // namespace

RatioEstimate ratio_of(const RatioSide& baseline, const RatioSide& alternative, double speedup) {
  const Scenario& a = *baseline.scenario;
  const Scenario& b = *alternative.scenario;
  const double shifted = baseline.communication - alternative.communication;
  const double kinds = variance_of_kinds(a, b, 1 - std::min(baseline.communication, alternative.communication));
  double deviation = std::sqrt(square(calib::deviation_between(point_of(baseline), point_of(alternative))) +
                               square(shifted * of_gpu_time(a)) + kinds);
  // What only one side was corrected by does not cancel.
  if (a.own_runs != b.own_runs) deviation = std::hypot(deviation, of_gpu_time(a));
  if (const auto left = kinds == 0 ? left_by_runs(baseline, alternative) : std::nullopt) {
    deviation = std::min(deviation, *left);
  }
  const double log_speedup = std::log(speedup);
  if (deviation == 0) return {{speedup, speedup}, log_speedup > kRoundedAway ? 1.0 : 0.0};
  const double reach = std::exp(kTwoSided * deviation);
  if (speedup >= 1 && only_widens_network(a, b)) {
    return {{std::max(speedup / reach, 1.0), speedup * reach}, log_speedup > kRoundedAway ? 1.0 : 0.0};
  }
  return {{speedup / reach, speedup * reach}, normal_below(log_speedup / deviation)};
}

double bound_with(double sure, double expected, std::pair<double, double> interval_90) {
  double low = -40;  // ln(bound / expected)
  double high = 40;
  for (int i = 0; i < 80; ++i) {
    const double middle = (low + high) / 2;
    (probability_below(expected * std::exp(middle), expected, interval_90) < sure ? low : high) = middle;
  }
  return expected * std::exp((low + high) / 2);
}

double probability_below(double limit, double expected, std::pair<double, double> interval_90) {
  if (!(expected > 0) || !(limit > 0)) return limit >= expected ? 1 : 0;
  const double distance = std::log(limit / expected);
  const double half = distance >= 0 ? std::log(interval_90.second / expected) : std::log(expected / interval_90.first);
  if (!(half > 0)) return distance >= 0 ? 1 : 0;
  return normal_below(kTwoSided * distance / half);
}

}  // namespace ddlsim::whatif
