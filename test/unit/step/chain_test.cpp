// From a job to its step: lowered, priced and laid out, on hardware of round numbers.
#include <array>
#include <catch2/catch.hpp>
#include <memory>

#include "ddlsim/plan/lower.h"
#include "unit/step/setting.h"

using namespace ddlsim;
using primitives::CollectiveOp;

namespace {

/// A GPU of 1 TFLOP/s whose memory takes next to no time, 10 GB/s to its host, no profile.
hardware::Cluster cluster(std::int64_t gpus) {
  hardware::Cluster cluster;
  hardware::Node& node = cluster.node;
  node.gpu.peak.fp32 = teraflops_per_second(1);
  node.gpu.memory_bandwidth = gigabytes_per_second(1e9);
  node.gpus = cluster.gpus_per_node = gpus;
  node.pcie.bandwidth = node.host_link.bandwidth = gigabytes_per_second(10);
  node.pcie_uplinks = gpus;
  node.network.bandwidth = gigabytes_per_second(1);
  return cluster;
}

/// Every byte of a collective among so many GPUs takes a nanosecond.
std::shared_ptr<const hardware::CollectiveTable> nanosecond_a_byte(std::int64_t gpus) {
  std::vector<primitives::CollectiveMeasurement> points;
  for (const CollectiveOp op :
       {CollectiveOp::kAllReduce, CollectiveOp::kAllGather, CollectiveOp::kReduceScatter, CollectiveOp::kSendRecv}) {
    for (const double size : {1.0, 1e9}) {
      points.push_back({.op = op, .gpus = gpus, .nodes = 1, .size = bytes(size), .time = nanoseconds(size)});
    }
  }
  return std::make_shared<const hardware::CollectiveTable>(hardware::CollectiveTable::create(points).value());
}

plan::Job job_of(workload::Model model, std::int64_t gpus) {
  model.totals = workload::total(model.layers).value();
  plan::Job job;
  job.model = std::make_shared<const workload::Model>(std::move(model));
  job.cluster = cluster(gpus);
  job.efficiency = plan::Efficiency::uniform(1);
  job.launch_interval = Time::zero();
  job.jitter = 0.0;
  job.server_memory = gigabytes_per_second(20);
  return job;
}

answer::Timeline laid(const plan::Job& job) {
  auto plan = std::make_shared<const plan::StepPlan>(plan::lower(job).value());
  const cost::LayerPrices prices = cost::price_layers(job, *plan, {1, 1}).value();
  return step::schedule(cost::price(job, plan, prices).value(), answer::Detail::kWork).value();
}

/// A block of a transformer of 512, 8 heads, 32 rows; two products of an MLP of 2048.
workload::Model block() {
  using namespace workload;
  workload::Model model;
  const auto add = [&](const Op& op, const Shape& in) {
    model.layers.push_back(layer_of(op, in, "layer").value().layer);
  };
  add(LayerNorm{}, {32, 512});
  add(Linear{.out = 1536}, {32, 512});
  add(Attention{.heads = 8}, {32, 512});
  add(Linear{.out = 512}, {32, 512});
  add(Combine{}, {32, 512});
  add(Linear{.out = 2048}, {32, 512});
  add(Pointwise{.reads = Reads::kOutput}, {32, 2048});
  add(Linear{.out = 512}, {32, 2048});
  return model;
}

/// Three layers as a profiler saw them: 1, 2 and 3 ms, backward twice that, 4 kB of gradients each.
workload::Model traced() {
  workload::Model model;
  for (const double ms : {1.0, 2.0, 3.0}) {
    const workload::Measured kernels{
        .time = {milliseconds(ms), milliseconds(2 * ms), workload::Bound::kCompute}, .kernels = 2, .gradients = {1000}};
    model.layers.push_back(workload::layer_of(kernels, {250'000}, "kernels").value().layer);
  }
  model.measured = workload::MeasuredOn{.gpu = "this",
                                        .peak = teraflops_per_second(1),
                                        .memory = gigabytes_per_second(1e9),
                                        .launch_interval = std::nullopt,
                                        .update = true};
  return model;
}

}  // namespace

TEST_CASE("chain: a block cut in two computes half and sums four times", "[unit][step]") {
  plan::Job job = job_of(block(), 1);
  job.batch = 4;
  const answer::Timeline alone = laid(job);
  // Forward: 2 * 128 * (512 * 1536 + 512 * 512 + 2 * 512 * 2048) and 4 samples of 4 * 32 * 32 * 512 of attention.
  const double flop = 2.0 * 128 * (512 * 1536 + 512 * 512 + 2 * 512 * 2048) + 4.0 * 4 * 32 * 32 * 512;
  CHECK(alone.parts.compute.in(microseconds) == Approx(3 * flop / 1e6));
  job.cluster = cluster(2);
  job.collective_table = nanosecond_a_byte(2);
  job.parallel.tensor = 2;
  const answer::Timeline two = laid(job);
  CHECK(two.parts.compute.in(microseconds) == Approx(3 * flop / 1e6 / 2));
  // 4 samples of 32 x 512 elements of 4 bytes, a nanosecond each; two of the four sums run beside the products of
  // weights' gradients, of 512 x 768 and 512 x 1024.
  const double hidden = 2.0 * 128 * 512 * (768 + 1024) / 1e6;
  CHECK(two.parts.communication.in(microseconds) == Approx(4 * 4.0 * 32 * 512 * 4 / 1e3));
  CHECK(two.parts.communication_exposed.in(microseconds) == Approx(4 * 4.0 * 32 * 512 * 4 / 1e3 - hidden));
  CHECK(two.step.in(microseconds) ==
        Approx((two.parts.compute + two.parts.memory + two.parts.communication_exposed).in(microseconds)));
}

TEST_CASE("chain: gathers and scatters are priced by what all ranks hold", "[unit][step]") {
  // A product of 512 x 512: 33.6 us each way at 64 rows... and 1 MiB of weights, gathered once (backward begins with
  // them), scattered once.
  workload::Model model;
  model.layers.push_back(
      workload::layer_of(workload::Linear{.out = 512, .bias = false}, {64, 512}, "product").value().layer);
  plan::Job job = job_of(std::move(model), 4);
  job.collective_table = nanosecond_a_byte(4);
  job.parallel.zero = 3;
  const answer::Timeline line = laid(job);
  const double kernels = 3 * 2.0 * 64 * 512 * 512 / 1e6;
  const double whole = 4.0 * 512 * 512 / 1e3;  // us
  CHECK(line.parts.compute.in(microseconds) == Approx(kernels));
  CHECK(line.parts.communication.in(microseconds) == Approx(2 * whole));
  CHECK(line.parts.communication_exposed.in(microseconds) == Approx(2 * whole));  // one layer: nothing to hide behind
}

TEST_CASE("chain: an offloaded optimizer over PCIe and the host's memory", "[unit][step]") {
  // 1 MiB of gradients at 10 GB/s out and back; the host moves five times as much (momentum) at 20 GB/s.
  workload::Model model;
  model.layers.push_back(
      workload::layer_of(workload::Linear{.out = 512, .bias = false}, {64, 512}, "product").value().layer);
  plan::Job job = job_of(std::move(model), 1);
  job.parallel.offload_optimizer = true;
  const double size = 4.0 * 512 * 512;
  const answer::Timeline line = laid(job);
  CHECK(line.parts.communication_exposed.in(microseconds) == Approx(size * 2 / 10e3));
  CHECK(line.parts.host_update.in(microseconds) == Approx(size * 5 / 20e3));
  CHECK(line.update == Time::zero());
}

TEST_CASE("chain: measured kernels keep their times, whole or in stages", "[unit][step]") {
  plan::Job job = job_of(traced(), 1);
  const answer::Timeline whole = laid(job);
  CHECK(whole.step.in(milliseconds) == Approx(18));
  CHECK(whole.update == Time::zero());  // among the layers
  // Stages {1, 2} and {3} take 3 ms forward and 6 backward each: (2 + 1) * 9 ms, and 4 sends of 1 MB take 1 ms each.
  // 1F1B: stage 0 F0 ..3, F1 ..6; stage 1 F0 4..7, B0 ..13, F1 ..16, B1 ..22; stage 0 B0 14..20, B1 23..29.
  job = job_of(traced(), 2);
  job.collective_table = nanosecond_a_byte(2);
  job.parallel.pipeline = 2;
  job.parallel.cuts = {2};
  job.strategy.accumulation = std::int64_t{2};
  const answer::Timeline two = laid(job);
  CHECK(two.step.in(milliseconds) == Approx(29));
  CHECK(two.parts.bubble.in(milliseconds) == Approx(27 - 18));  // without sends
  CHECK(two.parts.communication_exposed.in(milliseconds) == Approx(29 - 27));
}

TEST_CASE("chain: launches that block stand between all kernels", "[unit][step]") {
  plan::Job job = job_of(block(), 1);
  double kernels = 0;
  for (const workload::Layer& layer : job.model->layers) kernels += layer.forward_kernels + layer.backward_kernels;
  const Time free = laid(job).step;
  job.launch_interval = microseconds(1);
  job.launch_blocking = true;
  const answer::Timeline blocked = laid(job);
  CHECK(blocked.step.in(microseconds) == Approx(free.in(microseconds) + kernels));
  CHECK(blocked.parts.launch.in(microseconds) == Approx(kernels));
  // Kernels that are launched together have one wait, that of none.
  job.cuda_graphs = true;
  CHECK(laid(job).step.in(microseconds) == Approx(free.in(microseconds)));
  // What replicas send hides behind nothing.
  job = job_of(block(), 2);
  job.collective_table = nanosecond_a_byte(2);
  job.launch_interval = microseconds(1);
  job.overlap = plan::Overlap::kNone;
  const Time apart = laid(job).parts.communication_exposed;
  job.overlap.reset();
  CHECK(laid(job).parts.communication_exposed < apart);
  job.launch_blocking = true;
  CHECK(laid(job).parts.communication_exposed.in(microseconds) == Approx(apart.in(microseconds)));
}

TEST_CASE("chain: a tensor rank's part and its stage compose", "[unit][step]") {
  // Four GPUs, tensor 2, stages of layers 0..3 and 4..7, no data ranks: sums inside a stage, sends between them.
  plan::Job job = job_of(block(), 4);
  job.collective_table = nanosecond_a_byte(2);
  job.parallel.tensor = 2;
  job.parallel.pipeline = 2;
  const answer::Timeline line = laid(job);
  const double first = 2.0 * 32 * (512 * 1536 + 512 * 512) / 2e6 + 4.0 * 32 * 32 * 512 / 2e6;  // us
  const double second = 2.0 * 32 * 2 * 512 * 2048 / 2e6;
  const double sum = 32 * 512 * 4 / 1e3;
  // One micro-batch: forward, backward of both in turn; four sums and two sends of as much (either tensor rank sends
  // all), less what runs beside the gradients of weights of 512 x 768 and 512 x 1024.
  const double hidden = 2.0 * 32 * 512 * (768 + 1024) / 1e6;
  CHECK(line.step.in(microseconds) ==
        Approx(3 * (first + second) + 6 * sum - hidden).epsilon(1e-4));  // memory takes 1e-5 of it
  job.parallel.scatter_gather = true;
  CHECK(laid(job).step.in(microseconds) == Approx(3 * (first + second) + 5 * sum - hidden).epsilon(1e-4));
}
