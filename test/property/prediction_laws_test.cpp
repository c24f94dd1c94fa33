// Laws that hold for every prediction, on random scenarios of the catalog.
#include <fmt/core.h>
#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <memory>
#include <variant>
#include <vector>

#include "catalog.h"
#include "ddlsim/hardware/gpu_profile.h"
#include "ddlsim/whatif/predict.h"
#include "property/random_scenario.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using ddlsim::test::log_uniform;
using ddlsim::test::model;
using namespace ddlsim::whatif;

namespace {

const hardware::Node& node(const std::string& id) {
  static std::map<std::string, hardware::Node> cache;
  const auto found = cache.find(id);
  return found != cache.end() ? found->second : cache.emplace(id, catalog().node(id).value()).first->second;
}

/// All models but the largest: cut into small partitions, they would take the test's whole time.
const std::vector<std::string>& models_of_moderate_size() {
  static const std::vector<std::string> ids = [] {
    constexpr std::int64_t kMostParameters = 2'000'000'000;
    std::vector<std::string> moderate;
    for (const std::string& id : catalog().ids(io::Kind::kModels)) {
      if (model(id)->parameters() <= kMostParameters) moderate.push_back(id);
    }
    return moderate;
  }();
  return ids;
}

Scenario random_scenario() {
  Scenario s;
  s.model = model(*rc::gen::elementOf(models_of_moderate_size()));
  s.cluster.node = node(*rc::gen::elementOf(catalog().ids(io::Kind::kNodes)));
  s.cluster.nodes = *rc::gen::element<std::int64_t>(1, 1, 2, 3, 4, 17, 128, 100'000);
  s.cluster.gpus_per_node = *rc::gen::inRange<std::int64_t>(1, s.cluster.node.gpus + 1);
  s.cluster.node.network.bandwidth = gigabits_per_second(25) * log_uniform();
  s.cluster.node.pcie.bandwidth = s.cluster.node.pcie.bandwidth * log_uniform();
  s.cluster.node.host_link.bandwidth = s.cluster.node.host_link.bandwidth * log_uniform();
  s.cluster.node.gpu.peak.fp32 = s.cluster.node.gpu.peak.fp32 * log_uniform();
  s.cluster.node.gpu.memory_bandwidth = s.cluster.node.gpu.memory_bandwidth * log_uniform();
  s.strategy.kind =
      *rc::gen::element(plan::StrategyKind::kPs, plan::StrategyKind::kAllReduce, plan::StrategyKind::kPearl);
  s.strategy.servers = *rc::gen::element<std::int64_t>(0, 1, 3, 1000);
  s.strategy.bucket = mebibytes(25) * log_uniform();
  s.strategy.accumulation = *rc::gen::element<std::int64_t>(1, 1, 1, 4);
  s.strategy.local_aggregation = *rc::gen::arbitrary<bool>();
  s.strategy.pull_at_start = *rc::gen::arbitrary<bool>();
  s.strategy.grouping = *rc::gen::element<std::optional<plan::Grouping>>(
      std::nullopt, plan::Grouping::kBuckets, plan::Grouping::kPerTensor, plan::Grouping::kFlat,
      plan::Grouping::kPartitions);
  s.strategy.partition = megabytes(4) * log_uniform();
  s.batch = *rc::gen::inRange<std::int64_t>(1, 200);
  s.launch_interval = microseconds(6) * log_uniform();
  // PEARL has layers to spread where a model has tables; totals serve all others.
  const bool pearl = s.strategy.kind == plan::StrategyKind::kPearl;
  if (pearl) s.fidelity = answer::Fidelity::kAggregate;
  const bool layers = s.model->has_layers() && !pearl;
  if (layers && *rc::gen::arbitrary<bool>()) s.fidelity = answer::Fidelity::kAggregate;
  const bool analytic = layers && !s.fidelity;
  s.overlap = analytic ? *rc::gen::element(plan::Overlap::kNone, plan::Overlap::kBackward, plan::Overlap::kIdeal)
                       : *rc::gen::element(plan::Overlap::kNone, plan::Overlap::kIdeal);
  return s;
}

Time step_of(const Scenario& s) { return predict(s).value().step_time; }

/// What a shrunk counterexample needs beside rapidcheck's numbers.
std::string words(const Scenario& s) {
  return describe(s) + ", " + std::string(name_of(plan::kGroupings, plan::grouping_of(s.strategy))) +
         (s.strategy.pull_at_start ? ", pulled at start" : "") +
         (s.strategy.local_aggregation ? ", summed inside" : "");
}

/// a <= b but for rounding.
bool at_most(Time a, Time b) { return a.in(seconds) <= b.in(seconds) * (1 + 1e-12); }

/// How long a server's GPUs take to bring the largest tensor's gradients to their host.
Time largest_crossing(const Scenario& s) {
  std::int64_t parameters = 0;
  for (const workload::Layer& layer : s.model->layers) {
    for (const std::int64_t tensor : layer.parameters) parameters = std::max(parameters, tensor);
  }
  const hardware::Node& node = s.cluster.node;
  const Bandwidth rate = min(node.pcie.bandwidth, node.host_link.bandwidth) * s.efficiency.pcie;
  return bytes(4) * static_cast<double>(parameters * s.cluster.gpus_per_node) / rate;
}

/// Several GPUs, layer by layer: which kernels meet which collective shifts, and with it what they take from each other
/// (a scheduling anomaly, Graham 1969). Of a server's pushes and pulls, in the order in which they are ready, others
/// come before the largest, and no longer fill the network while it comes from its GPU. Without these the law is exact.
double slack(const Scenario& s) {
  const auto p = predict(s).value();
  const bool schedules = p.fidelity == answer::Fidelity::kAnalytic && s.cluster.gpus() > 1;
  if (!schedules) return 0;
  const bool served = s.strategy.kind == plan::StrategyKind::kPs;
  return 2e-3 + (served ? largest_crossing(s) / p.step_time : 0);
}

/// Calls `speed_up(scenario, factor)` and checks that nothing got slower.
template <typename SpeedUp>
void check_monotone(const std::string& name, SpeedUp speed_up) {
  CHECK(rc::check(name, [&] {
    const Scenario slow = random_scenario();
    Scenario fast = slow;
    speed_up(fast, 1.0 + std::abs(log_uniform()));
    RC_LOG(words(slow));
    RC_LOG(fmt::format("{} -> {}", step_of(slow).in(seconds), step_of(fast).in(seconds)));
    RC_ASSERT(at_most(step_of(fast), step_of(slow) * (1 + slack(slow))));
  }));
}

}  // namespace

TEST_CASE("law: a faster part is never slower", "[property]") {
  check_monotone("network", [](Scenario& s, double k) {
    s.cluster.node.network.bandwidth = s.cluster.node.network.bandwidth * k;
  });
  check_monotone("nvlink", [](Scenario& s, double k) {
    if (s.cluster.node.nvlink) s.cluster.node.nvlink->bandwidth = s.cluster.node.nvlink->bandwidth * k;
  });
  check_monotone("pcie", [](Scenario& s, double k) {
    s.cluster.node.pcie.bandwidth = s.cluster.node.pcie.bandwidth * k;
    s.cluster.node.host_link.bandwidth = s.cluster.node.host_link.bandwidth * k;
  });
  check_monotone("peak",
                 [](Scenario& s, double k) { s.cluster.node.gpu.peak.fp32 = s.cluster.node.gpu.peak.fp32 * k; });
  check_monotone("memory", [](Scenario& s, double k) {
    s.cluster.node.gpu.memory_bandwidth = s.cluster.node.gpu.memory_bandwidth * k;
  });
  check_monotone("launches", [](Scenario& s, double k) { s.launch_interval = s.launch_interval / k; });
  check_monotone("latency", [](Scenario& s, double k) {
    s.cluster.node.network.latency = s.cluster.node.network.latency / k;
    s.cluster.node.pcie.latency = s.cluster.node.pcie.latency / k;
  });
  check_monotone("server memory", [](Scenario& s, double k) { s.server_memory = plan::host_memory_rate(s) * k; });
  check_monotone("jitter", [](Scenario& s, double k) { s.jitter = s.jitter / k; });
  check_monotone("servers", [](Scenario& s, double) { s.strategy.servers = s.strategy.servers * 2; });
}

TEST_CASE("law: one GPU communicates nothing", "[property]") {
  CHECK(rc::check("one GPU", [] {
    Scenario s = random_scenario();
    s.cluster.nodes = 1;
    s.cluster.gpus_per_node = 1;
    const auto p = predict(s).value();
    RC_ASSERT(p.breakdown.communication == Time::zero());
    RC_ASSERT(p.breakdown.communication_exposed == Time::zero());
    RC_ASSERT(p.scaling_efficiency == 1.0);
  }));
}

namespace {

/// Collectives that somebody measured on the scenario's GPUs; libraries' formulas have times of their own.
std::shared_ptr<const hardware::CollectiveTable> measured_collectives(const Scenario& s, double faster) {
  std::vector<primitives::CollectiveMeasurement> points;
  for (const auto op : {primitives::CollectiveOp::kAllReduce, primitives::CollectiveOp::kAllGather}) {
    for (const double size : {1e3, 1e6, 1e9}) {
      points.push_back({.op = op,
                        .gpus = s.cluster.gpus(),
                        .nodes = s.cluster.nodes,
                        .size = bytes(size),
                        .time = (microseconds(50) + bytes(size) / gigabytes_per_second(5)) / faster});
    }
  }
  return std::make_shared<const hardware::CollectiveTable>(hardware::CollectiveTable::create(points).value());
}

/// A profile of a GPU that does everything in half the time.
hardware::MeasuredProfile twice_as_fast(const hardware::MeasuredProfile& one) {
  auto fast = std::make_shared<hardware::GpuProfile>(*one.profile);
  const auto halve = [](hardware::GemmCurve& curve) {
    curve.split_k_launch = curve.split_k_launch / 2.0;
    curve.slowdown_half_time = curve.slowdown_half_time / 2.0;
  };
  for (hardware::GemmCurve& curve : fast->gemms) halve(curve);
  for (hardware::ConvolutionCurve& curve : fast->convolutions) {
    halve(curve.implicit_gemm);
    curve.winograd_nonfused.extra_launches = curve.winograd_nonfused.extra_launches / 2.0;
  }
  for (hardware::MeasuredConvolution& row : fast->measured_convolutions) row.time = row.time / 2.0;
  for (hardware::MemoryBoundCurve& curve : fast->memory_bound) curve.time_per_row = curve.time_per_row / 2.0;
  hardware::MeasuredProfile made{fast, one.peak, one.memory_bandwidth * 2.0, one.sm_count, one.own};
  for (const Precision precision : {Precision::kFp32, Precision::kTf32, Precision::kFp16, Precision::kBf16}) {
    if (const auto peak = made.peak.at(precision)) made.peak.set(precision, *peak * 2.0);
  }
  return made;
}

bool is_recurrent(const workload::Model& m) {
  return std::any_of(m.layers.begin(), m.layers.end(), [](const workload::Layer& layer) {
    return layer.op && std::holds_alternative<workload::Lstm>(*layer.op);
  });
}

}  // namespace

TEST_CASE("law: twice every rate and half every fixed time is half the time", "[property]") {
  CHECK(rc::check("scaling", [] {
    Scenario slow = random_scenario();
    // A recurrent layer's chain of kernels has a time of its own (cost/kernel_time.h), which graphs spare.
    if (is_recurrent(*slow.model)) slow.cuda_graphs = true;
    slow.efficiency.network = 0.7;  // TCP, which servers are reached by, moves no more over a faster port
    slow.efficiency.pcie = 0.7;
    slow.cluster.node.gpu.peer_to_peer = true;  // where GPUs meet in the host's memory its own rate bounds them
    Scenario fast = slow;
    slow.collective_table = measured_collectives(slow, 1);
    fast.collective_table = measured_collectives(slow, 2);
    fast.strategy.cycle = slow.strategy.cycle / 2.0;
    std::vector<hardware::MeasuredProfile> profiles;
    for (const auto& one : slow.cluster.node.gpu.profiles.get()) profiles.push_back(twice_as_fast(one));
    fast.cluster.node.gpu.profiles.set(std::move(profiles));
    fast.server_memory = plan::host_memory_rate(fast) * 2.0;
    hardware::Node& node = fast.cluster.node;
    for (hardware::Link* link : {&node.network, &node.pcie, &node.host_link}) {
      link->bandwidth = link->bandwidth * 2.0;
      link->latency = link->latency / 2.0;
    }
    if (node.nvlink) {
      node.nvlink->bandwidth = node.nvlink->bandwidth * 2.0;
      node.nvlink->latency = node.nvlink->latency / 2.0;
    }
    node.gpu.peak.fp32 = node.gpu.peak.fp32 * 2.0;
    node.gpu.memory_bandwidth = node.gpu.memory_bandwidth * 2.0;
    node.gpu.tdp = node.gpu.tdp * 2.0;  // of as many joules in half the time
    if (node.gpu.draw) node.gpu.draw->idle = node.gpu.draw->idle * 2.0;
    fast.launch_interval = fast.launch_interval / 2.0;
    workload::Model model = *slow.model;
    for (workload::Layer& layer : model.layers) layer.host = layer.host / 2.0;
    fast.model = std::make_shared<const workload::Model>(std::move(model));
    RC_LOG(words(slow));
    RC_ASSERT(std::abs(step_of(fast) * 2.0 / step_of(slow) - 1) < 1e-9);
  }));
}

TEST_CASE("law: the parts add up to the step, and so does the critical path", "[property]") {
  CHECK(rc::check("sums", [] {
    const auto p = predict(random_scenario()).value();
    RC_ASSERT(std::abs(p.breakdown.step() / p.step_time - 1.0) < 1e-9);
    Time path;
    for (const answer::Segment& segment : p.critical_path) path += segment.time;
    RC_ASSERT(std::abs(path / p.step_time - 1.0) < 1e-9);
    RC_ASSERT(p.breakdown.communication_exposed <= p.breakdown.communication * (1 + 1e-9));
    RC_ASSERT(p.interval_90.first <= p.step_time);
    RC_ASSERT(p.step_time <= p.interval_90.second);
  }));
}

TEST_CASE("law: overlap lies between its bounds", "[property]") {
  CHECK(rc::check("overlap", [] {
    Scenario s = random_scenario();
    const bool layers = s.model->has_layers() && s.strategy.kind != plan::StrategyKind::kPearl;
    if (layers) s.fidelity.reset();
    s.overlap = plan::Overlap::kNone;
    RC_LOG(words(s));
    const Time none = step_of(s);
    s.overlap = plan::Overlap::kIdeal;
    const Time ideal = step_of(s);
    RC_ASSERT(at_most(ideal, none));
    if (!layers) return;
    s.overlap = plan::Overlap::kBackward;
    RC_ASSERT(at_most(step_of(s), none));
    RC_ASSERT(at_most(ideal, step_of(s)));
  }));
}

TEST_CASE("law: no GPU exceeds its peak", "[property]") {
  CHECK(rc::check("MFU", [] {
    Scenario s = random_scenario();
    RC_LOG(words(s));
    const auto p = predict(s).value();
    RC_ASSERT(p.mfu > 0);
    // By Winograd a GPU does the model's FLOPs with fewer of its own: those that are executed count.
    RC_ASSERT(p.hfu <= 1);
    s.cluster.node.gpu.profiles = std::vector<hardware::MeasuredProfile>{};
    RC_ASSERT(predict(s).value().mfu <= 0.7 + 1e-9);  // the assumed efficiency
  }));
}
