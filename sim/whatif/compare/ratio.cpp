#include "ddlsim/whatif/ratio.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <optional>
#include <tuple>

#include "ddlsim/calib/run_posterior.h"
#include "ddlsim/whatif/own_runs.h"
#include "ddlsim/whatif/predict.h"
#include "predict/change_spread.h"
#include "predict/correction.h"

namespace ddlsim::whatif {
namespace {

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

/// As whole replicas have other software around theirs (DDP) than ranks that share states (FSDP, Megatron).
calib::RunPoint kernels_at(const RatioSide& side) {
  calib::RunPoint point = point_of(side);
  if (plan::takes_ranks(side.scenario->parallel)) return point;
  point.split.ranks = {1};
  point.software = 0;
  return point;
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

/// Whether ranks run the same kernels in both, more or less often, or with adapters: what they share and send may
/// differ.
bool keeps_kernels(const Scenario& a, const Scenario& b) {
  plan::Parallel same = a.parallel;
  same.recompute = b.parallel.recompute;
  same.recompute_every = b.parallel.recompute_every;
  same.recompute_first = b.parallel.recompute_first;
  same.recompute_stops = b.parallel.recompute_stops;
  same.zero = b.parallel.zero;
  same.shard_ranks = b.parallel.shard_ranks;
  same.prefetch = b.parallel.prefetch;
  same.reshard = b.parallel.reshard;
  same.no_sync = b.parallel.no_sync;
  same.overlap_gather = b.parallel.overlap_gather;
  same.lora_rank = b.parallel.lora_rank;
  same.lora_products = b.parallel.lora_products;
  same.frozen_bits = b.parallel.frozen_bits;
  same.offload_optimizer = b.parallel.offload_optimizer;
  same.offload_weights = b.parallel.offload_weights;
  same.offload_activations = b.parallel.offload_activations;
  same.gated_fp8 = b.parallel.gated_fp8;
  const bool alike = plan::takes_ranks(a.parallel) == plan::takes_ranks(b.parallel);
  return alike && same == b.parallel && a.batch == b.batch && a.framework == b.framework;
}

/// Of two sides that keep their kernels (the header has the equations).
double variance_around_kernels(const RatioSide& baseline, const RatioSide& alternative, double log_speedup) {
  const plan::Parallel& a = baseline.scenario->parallel;
  const plan::Parallel& b = alternative.scenario->parallel;
  double sum = 0;
  const auto again = [](const plan::Parallel& one) {
    return std::tuple{one.recompute, one.recompute_every, one.recompute_first, one.recompute_stops};
  };
  if (again(a) != again(b)) {
    sum += square(of_gpu_time(*baseline.scenario) * log_speedup);
  }
  const auto offloaded = [](const plan::Parallel& one) {
    return std::array{one.offload_optimizer, one.offload_weights, one.offload_activations};
  };
  if (offloaded(a) != offloaded(b)) {
    sum += square(std::numbers::ln2 / kTwoSided * log_speedup);
  }
  if (a.zero != b.zero || a.shard_ranks != b.shard_ranks) {
    sum += square(calib::RunPrior{}.communication * (baseline.sent - alternative.sent));
  }
  return sum;
}

/// Whether neither the job nor its servers differ, but for the network's rate and how the model is split.
bool alike_beside_splits(const Scenario& a, const Scenario& b) {
  const hardware::Cluster& before = a.cluster;
  const hardware::Cluster& after = b.cluster;
  const auto transport_of = [](const hardware::Cluster& cluster) {
    return cluster.node.network.transport->value_or(cost::assumed_transport(cluster.node));
  };
  return before.node.id == after.node.id && before.node.gpu.id == after.node.gpu.id && before.nodes == after.nodes &&
         before.gpus_per_node == after.gpus_per_node && same_model(a, b) && a.precision == b.precision &&
         a.batch == b.batch && a.strategy.kind == b.strategy.kind && transport_of(before) == transport_of(after);
}

/// Whether the alternative differs by what is computed again alone, and that is less.
bool computes_less_again(const Scenario& a, const Scenario& b) {
  plan::Parallel same = a.parallel;
  same.recompute = b.parallel.recompute;
  return same == b.parallel && a.parallel.recompute > b.parallel.recompute && alike_beside_splits(a, b) &&
         a.cluster.node.network_ports == b.cluster.node.network_ports &&
         a.cluster.node.network_bandwidth() == b.cluster.node.network_bandwidth();
}

/// Whether the alternative differs by a network of more bandwidth alone: nothing that is open can make it slower.
bool only_widens_network(const Scenario& a, const Scenario& b) {
  const hardware::Node& before = a.cluster.node;
  const hardware::Node& after = b.cluster.node;
  return alike_beside_splits(a, b) && a.parallel == b.parallel && before.network.latency >= after.network.latency &&
         before.network_ports <= after.network_ports && before.network.bandwidth <= after.network.bandwidth;
}

}  // namespace

RatioEstimate ratio_of(const RatioSide& baseline, const RatioSide& alternative, double speedup) {
  const Scenario& a = *baseline.scenario;
  const Scenario& b = *alternative.scenario;
  const bool kept = keeps_kernels(a, b);
  calib::RunPoint before = kernels_at(baseline);
  const calib::RunPoint after = kernels_at(alternative);
  if (kept) {
    before.split = after.split;
    before.software = after.software;
  }
  const double log_speedup = std::log(speedup);
  const double shifted = baseline.communication - alternative.communication;
  const double kinds = variance_of_kinds(a, b, 1 - std::min(baseline.communication, alternative.communication));
  double deviation = std::sqrt(square(calib::deviation_between(before, after)) + square(shifted * of_gpu_time(a)) +
                               kinds + (kept ? variance_around_kernels(baseline, alternative, log_speedup) : 0.0));
  // What only one side was corrected by does not cancel.
  if (a.own_runs != b.own_runs) deviation = std::hypot(deviation, of_gpu_time(a));
  if (const auto left = kinds == 0 ? left_by_runs(baseline, alternative) : std::nullopt) {
    deviation = std::min(deviation, *left);
  }
  if (deviation == 0) return {{speedup, speedup}, log_speedup > kRoundedAway ? 1.0 : 0.0};
  const double reach = std::exp(kTwoSided * deviation);
  if (speedup >= 1 && (only_widens_network(a, b) || (kinds == 0 && computes_less_again(a, b)))) {
    return {{std::max(speedup / reach, 1.0), speedup * reach}, log_speedup > kRoundedAway ? 1.0 : 0.0};
  }
  if (speedup <= 1 && kinds == 0 && computes_less_again(b, a)) {
    return {{speedup / reach, std::min(speedup * reach, 1.0)}, 0.0};
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
