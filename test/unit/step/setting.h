// Priced steps made by hand, for tests of the step's two fidelities: no catalogue, no price model in between.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ddlsim/cost/layer_time.h"
#include "ddlsim/cost/price.h"
#include "ddlsim/events/step.h"
#include "ddlsim/hardware/collective_table.h"
#include "ddlsim/plan/messages.h"
#include "ddlsim/step/phases.h"
#include "ddlsim/step/schedule.h"

namespace ddlsim::test {

/// Two layers of 1 and 2 ms forward, twice that backward, at 1 TFLOP/s; one 10 MB gradient each.
inline workload::Model two_layers() {
  workload::Model model;
  for (const double gflop : {1.0, 2.0}) {
    workload::Layer layer;
    layer.name = gflop < 1.5 ? "first" : "second";
    layer.forward_work = gigaflops(gflop);
    layer.backward_work = gigaflops(2 * gflop);
    layer.parameters = {2'500'000};
    model.layers.push_back(layer);
  }
  model.totals = workload::total(model.layers).value();
  return model;
}

/// So many alike layers without an operator.
inline std::shared_ptr<const workload::Model> alike_layers(std::size_t count) {
  workload::Model model;
  for (std::size_t i = 0; i < count; ++i) {
    workload::Layer layer;
    layer.name = "layer " + std::to_string(i);
    layer.parameters = {1000};
    layer.output_elements = 1000;
    model.layers.push_back(layer);
  }
  model.totals = workload::total(model.layers).value();
  return std::make_shared<const workload::Model>(std::move(model));
}

/// A gradient that is ready after backward of a layer, in `count` pieces.
inline plan::Row gradient(DataSize size, std::size_t layer, std::int64_t count = 1) {
  return {
      .size = size, .count = count, .ready = {plan::Moment::kBackward, layer}, .needed = {plan::Moment::kUpdate, 0}};
}

inline std::vector<plan::Row> one_per_tensor() { return {gradient(megabytes(10), 1), gradient(megabytes(10), 0)}; }

/// Two GPUs, on as many nodes: a table says that 10 MB take 5 ms, and twice as much twice as long.
inline cost::CollectiveModel two_gpus(std::int64_t nodes = 1, Bandwidth network = gigabytes_per_second(10),
                                      const cost::CollectiveLibrary& library = {}) {
  const cost::Communicator two{.gpus = 2,
                               .nodes = nodes,
                               .intra = gigabytes_per_second(10),
                               .inter = network,
                               .pcie = gigabytes_per_second(10),
                               .memory = gigabytes_per_second(1000)};
  primitives::CollectiveMeasurement small{.op = primitives::CollectiveOp::kAllReduce, .gpus = 2, .nodes = nodes};
  primitives::CollectiveMeasurement large = small;
  small.size = bytes(10);
  small.time = nanoseconds(5);
  large.size = gigabytes(1);
  large.time = milliseconds(500);
  auto table = hardware::CollectiveTable::create(std::array{small, large});
  return cost::CollectiveModel::create(two, library, std::make_shared<const hardware::CollectiveTable>(*table)).value();
}

/// What carries gradients: nothing (one GPU), collectives, or servers.
using Fabric = std::variant<std::monostate, cost::CollectiveModel, cost::PsFabric>;

/// One kind of GPU of a job: so many times as slow, so many of them.
struct Kind {
  double slowness = 1;
  std::int64_t ranks = 1;
};

/// What a step is made of, in the fewest words.
struct Setting {
  cost::DeviceRates device{.compute = teraflops_per_second(1), .memory = terabytes_per_second(1)};
  std::vector<cost::LayerTimes> layers{};  // of the model's; empty: each by its roofline on `device`
  Time launch_interval{};
  Fabric fabric{};
  plan::Overlap overlap = plan::Overlap::kBackward;
  std::optional<plan::FusionRule> fusion{};
  bool priority = false;
  bool pull_at_start = false;
  plan::Consistency consistency = plan::Consistency::kSync;
  std::int64_t staleness = 0;
  std::int64_t accumulation = 1;
  double held = 0;  // share of the GPU's multiprocessors that a running collective holds
  double wait = 0;  // for the slowest GPU, as a share of one pass
  Time update{};
  Time input{};
  DataSize pulled{};
  std::vector<Kind> kinds{{1, 1}};
};

inline std::vector<cost::LayerTimes> times_of(const workload::Model& model, const Setting& setting) {
  if (!setting.layers.empty()) return setting.layers;
  std::vector<cost::LayerTimes> times;
  for (const workload::Layer& layer : model.layers) {
    times.push_back({cost::layer_time(layer, cost::Pass::kForward, 1, bytes(4), setting.device),
                     cost::layer_time(layer, cost::Pass::kBackward, 1, bytes(4), setting.device)});
  }
  return times;
}

inline cost::PricedClass priced_class(const workload::Model& model, const Setting& setting) {
  cost::PricedClass priced;
  priced.update = setting.update;
  const std::vector<cost::LayerTimes> times = times_of(model, setting);
  const auto add = [&](const cost::LayerTime& time, int kernels, std::vector<cost::PricedLayer>& to) {
    priced.compute += time.compute;
    priced.memory += time.memory;
    to.push_back(cost::PricedLayer::of(time.total(), kernels));
  };
  std::vector<cost::PricedLayer> forward;
  std::vector<cost::PricedLayer> backward;
  for (std::size_t i = 0; i < times.size(); ++i) add(times[i].forward, model.layers[i].forward_kernels, forward);
  for (std::size_t i = times.size(); i-- > 0;) add(times[i].backward, model.layers[i].backward_kernels, backward);
  priced.forward = std::move(forward);
  priced.backward = std::move(backward);
  return priced;
}

/// The plan and its prices: a class for every kind of GPU.
inline cost::PricedStep priced(const workload::Model& model, const std::vector<plan::Row>& rows,
                               const Setting& setting) {
  auto plan = std::make_shared<plan::StepPlan>();
  plan->model = std::make_shared<const workload::Model>(model);
  plan->groups.emplace_back();
  plan->rows = rows;
  plan->exchange = {.overlap = setting.overlap,
                    .fusion = setting.fusion,
                    .priority = setting.priority,
                    .pull_at_start = setting.pull_at_start,
                    .consistency = setting.consistency,
                    .staleness = setting.staleness};
  plan->micro_batches = setting.accumulation;
  cost::PricedStep step;
  step.launch_interval = setting.launch_interval;
  step.sm_share = setting.held;
  step.wait_for_slowest = step.jitter_of_slowest = setting.wait;
  step.input = setting.input;
  step.pulled = setting.pulled;
  step.rates.device = setting.device;
  for (const Kind& kind : setting.kinds) {
    plan->classes.push_back(
        {.role = "replica", .ranks = kind.ranks, .slowness = kind.slowness, .chunk = plan::chunk_of(plan->model)});
    step.classes.push_back(priced_class(model, setting));
  }
  step.groups.emplace_back();
  if (const auto* collectives = std::get_if<cost::CollectiveModel>(&setting.fabric)) step.groups.front() = *collectives;
  if (const auto* servers = std::get_if<cost::PsFabric>(&setting.fabric)) step.servers = *servers;
  for (const plan::Row& row : rows) {
    cost::PricedRow one{.encoding = row.encoded / setting.device.memory};
    if (step.groups.front() && !setting.fusion) one.once = step.groups.front()->cost(row.op, row.size).time;
    step.rows.push_back(one);
  }
  step.plan = std::move(plan);
  return step;
}

/// A coordinator wakes at every whole cycle.
inline answer::Timeline scheduled(const workload::Model& model, const std::vector<plan::Row>& rows,
                                  const Setting& setting, answer::Detail detail = answer::Detail::kParts) {
  const cost::PricedStep step = priced(model, rows, setting);
  return step::wakes_in_cycles(step) ? step::schedule_at(step, 1, detail) : step::schedule(step, detail).value();
}

/// What a row costs by itself.
using Once = std::function<Time(const plan::Row&)>;

/// A plan with prices by hand: every layer of a class takes the same. `weights` is a part of `backward`.
inline cost::PricedStep by_hand(plan::StepPlan plan, Time forward, Time backward, const Once& once,
                                Time weights = Time::zero()) {
  cost::PricedStep step;
  for (const plan::RankClass& one : plan.classes) {
    const auto count = static_cast<double>(one.chunk.count);
    cost::PricedClass priced;
    priced.forward = std::vector(one.chunk.count, cost::PricedLayer::of(forward, 1));
    priced.backward = std::vector(one.chunk.count, cost::PricedLayer::of(backward, 1));
    priced.backward_input = std::vector(one.chunk.count, cost::PricedLayer::of(backward - weights, 1));
    priced.backward_weights = std::vector(one.chunk.count, cost::PricedLayer::of(weights, 1));
    priced.compute = (forward + backward) * count;
    step.classes.push_back(std::move(priced));
  }
  for (const plan::Row& row : plan.rows) step.rows.push_back({.once = once(row)});
  step.groups.resize(plan.groups.size());
  step.plan = std::make_shared<const plan::StepPlan>(std::move(plan));
  return step;
}

/// A job's priced step and its schedule on nominal GPUs, which events::simulate asks for.
class Simulated {
 public:
  Simulated(const workload::Model& model, const std::vector<plan::Row>& rows, Setting setting)
      : step_(priced(model, rows, setting)) {
    setting.kinds = {{1, 1}};
    alone_ = scheduled(model, rows, setting, answer::Detail::kWork);
  }
  explicit Simulated(cost::PricedStep step)
      : step_(std::move(step)), alone_(step::schedule(step_, answer::Detail::kWork).value()) {}

  [[nodiscard]] events::SimulatedJob job(Time offset = Time::zero(), std::size_t servers = 0) const {
    return {.step = &step_, .alone = &alone_, .offset = offset, .servers = servers};
  }
  [[nodiscard]] const answer::Timeline& alone() const { return alone_; }
  [[nodiscard]] const cost::PricedStep& step() const { return step_; }

 private:
  cost::PricedStep step_;
  answer::Timeline alone_;
};

/// So many alike jobs, each so much later than the one before.
inline Expected<events::EventStep> simulated(const Simulated& one, int jobs = 1, Time offset = Time::zero(),
                                             const events::EventOptions& options = {}) {
  std::vector<events::SimulatedJob> list;
  for (int i = 0; i < jobs; ++i) list.push_back(one.job(offset * static_cast<double>(i)));
  return events::simulate(list, options);
}

}  // namespace ddlsim::test
