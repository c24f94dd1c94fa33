// Plans that do not fold, by events: the same steps as in test/unit/step/slots_test.cpp, and what their groups share.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "ddlsim/cost/nccl.h"
#include "ddlsim/events/step.h"
#include "ddlsim/plan/lower.h"
#include "unit/step/setting.h"

using namespace ddlsim;
using namespace ddlsim::events;
using ddlsim::test::alike_layers;
using ddlsim::test::by_hand;
using ddlsim::test::Simulated;
using ddlsim::test::simulated;
using plan::Moment;
using plan::PipelineSchedule;
using plan::Row;
using plan::RowKind;
using primitives::CollectiveOp;

namespace {

constexpr Time kF = milliseconds(1);
constexpr Time kB = milliseconds(2);

plan::Job job_of(std::size_t layers, std::int64_t gpus) {
  plan::Job job;
  job.model = alike_layers(layers);
  job.cluster.gpus_per_node = job.cluster.node.gpus = gpus;
  return job;
}

plan::Job pipeline(PipelineSchedule schedule, std::int64_t stages, std::int64_t micro_batches) {
  plan::Job job = job_of(static_cast<std::size_t>(stages), stages);
  job.parallel.pipeline = stages;
  job.parallel.schedule = schedule;
  job.strategy.accumulation = micro_batches;
  return job;
}

test::Once sends(Time time) {
  return [time](const Row& row) { return row.op == CollectiveOp::kSendRecv ? time : Time::zero(); };
}

/// The step by events, in ms, after checking that it is the recurrence's.
double ms(const cost::PricedStep& step) {
  const Simulated one(step);
  const double by_events = simulated(one).value().step.in(milliseconds);
  CHECK(by_events == Approx(one.alone().step.in(milliseconds)).epsilon(1e-9).margin(1e-8));
  return by_events;
}

double ms(const plan::Job& job, const test::Once& once) { return ms(by_hand(plan::lower(job).value(), kF, kB, once)); }

constexpr auto k1f1b = PipelineSchedule::kOneForwardOneBackward;
constexpr auto kGpipe = PipelineSchedule::kGpipe;

/// Four GPUs of 10 GB/s behind an NVSwitch, on PCIe of 2 MB/s.
hardware::Cluster four_gpus() {
  hardware::Cluster cluster;
  cluster.gpus_per_node = 4;
  hardware::Node& node = cluster.node;
  node.gpus = 4;
  node.gpu_interconnect = hardware::Interconnect::kNvlink;
  node.nvlink.emplace();
  node.nvlink->bandwidth = gigabytes_per_second(10);
  node.pcie.bandwidth = node.host_link.bandwidth = gigabytes_per_second(0.002);
  node.network.bandwidth = gigabytes_per_second(1);
  return cluster;
}

/// Two layers on two tensor ranks and two data ranks. Gradients of the second layer are summed over the data group
/// from 4 ms on; after backward of the first, at 6 ms, the tensor group sums in the way of the update. 10 MB take 5 ms
/// by themselves, which is all that two GPUs reach on their NVLinks.
cost::PricedStep two_groups() {
  plan::Job job = job_of(2, 4);
  job.parallel.zero = 1;  // a plan of any split, for its class
  plan::StepPlan plan = plan::lower(job).value();
  plan.grid.along = {2, 1, 1, 2, 1};
  plan.groups = {
      {.along = plan::Axis::kData, .ranks = 2, .nodes = 1, .siblings = 2},
      {.along = plan::Axis::kTensor, .role = plan::GroupRole::kTensor, .ranks = 2, .nodes = 1, .siblings = 2}};
  plan.rows = {test::gradient(megabytes(10), 1),
               {.size = megabytes(10), .ready = {Moment::kBackward, 0}, .in_the_way = true, .group = 1}};
  cost::PricedStep step = by_hand(std::move(plan), kF, kB, [](const Row&) { return milliseconds(5); });
  cost::CollectiveLibrary library;
  library.intra_efficiency = 0.2;
  const auto model = test::two_gpus(1, gigabytes_per_second(10), library);
  step.groups = {model, model};
  return step;
}

double shared(const cost::PricedStep& step, const hardware::Cluster& cluster) {
  const Simulated one(step);
  SimulatedJob job = one.job();
  job.cluster = &cluster;
  return simulate({&job, 1}).value().step.in(milliseconds);
}

}  // namespace

TEST_CASE("split step: stages wait for each other's tasks", "[unit][events]") {
  // Worked in slots_test.cpp: (m + p - 1)(F + B); half a millisecond of sends in every round, or at its ends; sends
  // that queue.
  CHECK(ms(pipeline(k1f1b, 2, 4), sends(Time::zero())) == Approx(15));
  CHECK(ms(pipeline(kGpipe, 2, 4), sends(Time::zero())) == Approx(15));
  CHECK(ms(pipeline(k1f1b, 2, 4), sends(milliseconds(0.5))) == Approx(17));
  CHECK(ms(pipeline(kGpipe, 2, 4), sends(milliseconds(0.5))) == Approx(16));
  CHECK(ms(pipeline(kGpipe, 2, 4), sends(milliseconds(3))) == Approx(30));
}

TEST_CASE("split step: rows hold up what needs them, and nothing else", "[unit][events]") {
  // Worked in slots_test.cpp as well: zero 3 one layer ahead, without overlap, and in two passes; zero 1.
  plan::Job job = job_of(4, 4);
  job.parallel.zero = 3;
  const auto once = [](const Row& row) {
    return row.op == CollectiveOp::kAllGather ? milliseconds(1.5) : milliseconds(1);
  };
  const auto updated = [&](const plan::Job& of) {
    cost::PricedStep step = by_hand(plan::lower(of).value(), kF, kB, once);
    step.classes[0].update = milliseconds(0.5);
    return ms(step);
  };
  CHECK(updated(job) == Approx(16.5));
  job.overlap = plan::Overlap::kNone;
  CHECK(updated(job) == Approx(27));
  job.strategy.accumulation = std::int64_t{2};
  CHECK(updated(job) == Approx(53.5));
  job = job_of(2, 2);
  job.parallel.zero = 1;
  job.strategy.grouping = plan::Grouping::kPerTensor;
  job.strategy.accumulation = std::int64_t{2};
  // Two scatters, the last 12..13, update ..13.5, two gathers ..16.5.
  CHECK(updated(job) == Approx(16.5));
  // Stages gather before their first input is there.
  job = job_of(2, 4);
  job.parallel.pipeline = 2;
  job.parallel.overlap_gather = true;
  for (const int zero : {1, 3}) {
    job.parallel.zero = zero;
    CHECK(ms(job, [&](const Row& row) { return row.op == CollectiveOp::kSendRecv ? Time::zero() : once(row); }) ==
          Approx(8.5));
  }
}

TEST_CASE("split step: copies to the host, the host, and copies back", "[unit][events]") {
  plan::Job job = job_of(2, 1);
  job.parallel.offload_optimizer = true;
  CHECK(ms(job, [](const Row& row) {
          if (row.kind == RowKind::kCopy) return milliseconds(3);
          return row.kind == RowKind::kHost ? milliseconds(5) : milliseconds(4);
        }) == Approx(19));
  // Kernels issued every 4 ms end at 5, 9, 14, 18.
  cost::PricedStep step = by_hand(plan::lower(job).value(), kF, kB, [](const Row&) { return Time::zero(); });
  step.launch_interval = milliseconds(4);
  CHECK(ms(step) == Approx(18));
}

TEST_CASE("split step: encoding, input, waiting", "[unit][events]") {
  cost::PricedStep step = by_hand(plan::lower(pipeline(k1f1b, 2, 4)).value(), kF, kB, sends(Time::zero()));
  step.input = milliseconds(5);  // of one pass
  CHECK(ms(step) == Approx(20));
  step.input = Time::zero();
  step.wait_for_slowest = 0.1;  // of the 12 ms that a stage computes in four passes: 1.2 ms / sqrt(4)
  CHECK(ms(step) == Approx(15.6));
  // Every send is encoded in 0.25 ms: both stages' passes are so much longer, (4 + 1)(1.25 + 2.25) - 0.5: the last
  // stage sends no activations, the first no gradients.
  step.wait_for_slowest = 0;
  for (cost::PricedRow& row : step.rows) row.encoding = milliseconds(0.25);
  ms(step);
}

TEST_CASE("split step: two groups of one GPU share its NVLink", "[unit][events]") {
  // Alone: data 4..9, tensor 6..11. Together: data alone until 6, then both at half their pace; data has 3 ms left,
  // ..12; tensor then 2 ms, ..14.
  const cost::PricedStep step = two_groups();
  CHECK(ms(step) == Approx(11));
  CHECK(shared(step, four_gpus()) == Approx(14));
  // Links from GPU to GPU: each group has one of its own.
  hardware::Cluster mesh = four_gpus();
  mesh.node.gpu_interconnect = hardware::Interconnect::kNvlinkMesh;
  mesh.node.nvlink_mesh =
      hardware::NvlinkMesh::create(
          {.gpus = 4, .links_per_gpu = 3, .pairs = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}}})
          .value();
  CHECK(shared(step, mesh) == Approx(11));
}

TEST_CASE("split step: input and updated weights share the host's link", "[unit][events]") {
  // As above, weights come back 15..19. Input for 16 ms is alone until 15, then both have half: input ..17, weights
  // with 3 ms left ..20.
  plan::Job job = job_of(2, 1);
  job.parallel.offload_optimizer = true;
  plan::StepPlan plan = plan::lower(job).value();
  plan.input = kilobytes(32);
  cost::PricedStep step = by_hand(std::move(plan), kF, kB, [](const Row& row) {
    if (row.kind == RowKind::kCopy) return milliseconds(3);
    return row.kind == RowKind::kHost ? milliseconds(5) : milliseconds(4);
  });
  step.input = milliseconds(16);
  step.rates.host_link = gigabytes_per_second(0.002);
  CHECK(ms(step) == Approx(19));
  CHECK(shared(step, four_gpus()) == Approx(20));
  // Twice the width, and nothing is in the way of anything.
  hardware::Cluster wide = four_gpus();
  wide.node.pcie.bandwidth = wide.node.host_link.bandwidth = gigabytes_per_second(0.004);
  step.rates.host_link = gigabytes_per_second(0.004);
  CHECK(shared(step, wide) == Approx(19));
}

TEST_CASE("split step: jobs on GPUs of their own meet on a NIC, and not on two rails", "[unit][events]") {
  // Two GPUs on two servers each: backward until 9, the ring until 14; together on one NIC until 19.
  const Simulated one(test::two_layers(), {test::gradient(megabytes(10), 0)},
                      {.fabric = test::two_gpus(2, gigabytes_per_second(1))});
  hardware::Cluster cluster = four_gpus();
  const auto steps = [&](std::int64_t ports) {
    cluster.node.network_ports = cluster.node.pcie_uplinks = ports;
    cluster.node.pcie.bandwidth = cluster.node.host_link.bandwidth = gigabytes_per_second(100);
    SimulatedJob first = one.job();
    first.cluster = &cluster;
    SimulatedJob second = first;
    second.first_gpu = 3;
    return simulate(std::vector{first, second}).value().steps[1].in(milliseconds);
  };
  CHECK(steps(1) == Approx(19));
  CHECK(steps(2) == Approx(14));
}

TEST_CASE("split step: a pipeline's sends and a whole model's gradients share the servers they meet on",
          "[unit][events]") {
  // Two stages on two servers, one pass: F 0..1 | send | F | B | send | B 2 ms. Sends of 10 MB fill a port for 5 ms:
  // stage 0 F ..1, send ..6; stage 1 F ..7, B ..9, send ..14; stage 0 B ..16.
  plan::Job job = pipeline(k1f1b, 2, 1);
  job.cluster.gpus_per_node = job.cluster.node.gpus = 1;
  job.cluster.nodes = 2;
  plan::StepPlan plan = plan::lower(job).value();
  for (Row& row : plan.rows) row.size = megabytes(10);
  cost::PricedStep step = by_hand(std::move(plan), kF, kB, sends(milliseconds(5)));
  cost::CollectiveLibrary all_of_it;
  all_of_it.inter_efficiency = 1.0;
  const auto ring = test::two_gpus(2, gigabytes_per_second(2), all_of_it);
  step.groups[1] = ring;
  const Simulated stages(step);
  REQUIRE(stages.alone().step.in(milliseconds) == Approx(16));
  // A whole model on the same two servers, whose ring runs 9..16, in and out of both. The gradients of stage 1 leave
  // 9..14 alone, over the port that the ring leaves by: 5 ms of theirs and 5 of the ring's take 10, ..19; the ring's
  // last 2 ms are alone, ..21; stage 0 ends at 21. The latency of a send, some 20 us of its 5 ms, is not shared.
  const Simulated whole(test::two_layers(), {test::gradient(megabytes(14), 0)}, {.fabric = ring});
  REQUIRE(whole.alone().step.in(milliseconds) == Approx(16));
  const EventStep run = simulate(std::vector{stages.job(), whole.job()}).value();
  CHECK(run.steps[0].in(milliseconds) == Approx(21).margin(0.02));
  CHECK(run.steps[1].in(milliseconds) == Approx(21).margin(0.02));
  const EventStep apart = simulate(std::vector{stages.job(), whole.job(Time::zero(), 1)}).value();
  CHECK(apart.steps[0].in(milliseconds) == Approx(16));
  CHECK(apart.steps[1].in(milliseconds) == Approx(16));
}

TEST_CASE("split step: two groups of two ranks a server meet on the leaf's uplink", "[unit][events]") {
  // Two layers on four ranks of two servers: backward until 6, the ring until 11. Two such jobs on servers of their
  // own, on an uplink with room for the two servers of one job: rings 6..16; with room for four servers: 11 each.
  plan::Job job = job_of(2, 2);
  job.cluster.nodes = 2;
  job.parallel.zero = 1;
  plan::StepPlan plan = plan::lower(job).value();
  REQUIRE(plan.classes.front().ranks == 4);
  plan.rows = {test::gradient(megabytes(10), 0)};
  cost::PricedStep step = by_hand(std::move(plan), kF, kB, [](const Row&) { return milliseconds(5); });
  const cost::CollectiveModel two = test::two_gpus(2, gigabytes_per_second(1));
  cost::Communicator four = two.communicator();
  four.gpus = 4;
  const auto ring = cost::CollectiveModel::create(four, two.library()).value();
  step.groups.assign(step.groups.size(), ring);
  const Simulated one(step);
  REQUIRE(one.alone().step.in(milliseconds) == Approx(11));
  const Bandwidth rate = cost::effective_rates(ring.communicator(), ring.library()).inter;
  const auto together = [&](double servers) {
    const std::vector<SimulatedJob> jobs{one.job(), one.job(Time::zero(), 1)};
    return simulate(jobs, {.uplink = rate * servers}).value().step.in(milliseconds);
  };
  CHECK(together(2) == Approx(16).epsilon(0.01));
  CHECK(together(4) == Approx(11).epsilon(0.01));
}

TEST_CASE("split step: a trace tells stages, groups and micro-batches", "[unit][events]") {
  const Simulated one(by_hand(plan::lower(pipeline(k1f1b, 2, 2)).value(), kF, kB, sends(milliseconds(1))));
  const EventStep named = simulated(one, 1, {}, {.named = true}).value();
  std::vector<std::string> streams;
  for (const Stream& stream : named.program.streams()) streams.push_back(stream.name);
  CHECK(streams == std::vector<std::string>{"job 1, stage 0/cpu", "job 1, stage 0/gpu", "job 1, stage 1/cpu",
                                            "job 1, stage 1/gpu", "job 1, stage 0/sends to stage 1",
                                            "job 1, stage 1/sends to stage 0"});
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < named.program.tasks(); ++i) names.push_back(named.program.name(TaskId{i}));
  const auto has = [&](const std::string& name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  CHECK(has("forward layer 0, micro-batch 1"));
  CHECK(has("backward layer 1, micro-batch 0"));
  CHECK(has("send layer 0, micro-batch 1"));
  CHECK(simulated(one).value().program.name(TaskId{1}) == "forward");
}

TEST_CASE("split step: what cannot stand on the servers is refused", "[unit][events]") {
  const cost::PricedStep step = two_groups();
  const Simulated one(step);
  const hardware::Cluster cluster = four_gpus();
  SimulatedJob job = one.job();
  job.cluster = &cluster;
  job.first_gpu = 1;
  const auto refused = simulate({&job, 1});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message == "4 GPUs from number 1 on of servers of 4");
  CHECK(refused.error().notes == std::vector<std::string>{"valid: a first GPU from 0 to 0"});
  job.first_gpu = 0;
  CHECK(simulate(std::vector{job, one.job()}).error().code == ErrorCode::kInvalidArgument);
  cost::PricedStep slow = step;
  plan::StepPlan plan = *slow.plan;
  plan.classes.front().slowness = 2;
  slow.plan = std::make_shared<const plan::StepPlan>(plan);
  job.step = &slow;
  CHECK(simulate({&job, 1}).error().code == ErrorCode::kUnsupported);
}

TEST_CASE("split step: every schedule whose ranks end together takes what the recurrence says", "[unit][events]") {
  using enum PipelineSchedule;
  for (const PipelineSchedule schedule :
       {kNone, kGpipe, kOneForwardOneBackward, kInterleaved, kZeroBubbleH1, kDualPipe}) {
    plan::Job job = pipeline(schedule, 4, 8);
    job.model = job_of(8, 4).model;
    if (schedule == kInterleaved) job.parallel.virtual_stages = 2;
    for (const bool beside : {true, false}) {
      job.parallel.overlap_p2p = beside;
      const Simulated one(by_hand(plan::lower(job).value(), milliseconds(1), milliseconds(2.2),
                                  sends(milliseconds(0.3)), milliseconds(0.9)));
      INFO(name_of(plan::kPipelineSchedules, schedule));
      CHECK(simulated(one).value().step.in(milliseconds) == Approx(one.alone().step.in(milliseconds)).epsilon(1e-9));
    }
  }
}

TEST_CASE("split step: without overlap stages sum their gradients side by side", "[unit][events]") {
  using enum PipelineSchedule;
  // Four stages of two replicas, 8 micro-batches, F 1 ms, B 2 ms: stage 0 ends last, and sums for 5 ms then. The others
  // have sent their last activation gradient before they summed theirs.
  const auto once = [](const Row& row) { return row.op == CollectiveOp::kAllReduce ? milliseconds(5) : Time::zero(); };
  for (const PipelineSchedule schedule : {kGpipe, kOneForwardOneBackward, kInterleaved}) {
    INFO(name_of(plan::kPipelineSchedules, schedule));
    plan::Job job = pipeline(schedule, 4, 8);
    const std::int64_t parts = schedule == kInterleaved ? 2 : 1;
    job.model = job_of(static_cast<std::size_t>(4 * parts), 8).model;
    job.cluster.gpus_per_node = job.cluster.node.gpus = 8;
    job.parallel.virtual_stages = parts;
    job.overlap = plan::Overlap::kNone;
    const auto each = static_cast<double>(parts);
    for (const bool beside : {true, false}) {
      job.parallel.overlap_p2p = beside;
      // A part's gradients are a message of their own.
      CHECK(ms(by_hand(plan::lower(job).value(), kF / each, kB / each, once)) ==
            Approx((8 + 3 / each) * 3 + 5 * each).epsilon(1e-9));
    }
  }
}

TEST_CASE("split step: ranks that do not end together go on by themselves", "[unit][events]") {
  using enum PipelineSchedule;
  // Equal stages, forward, input and weights 1 ms each, nothing to send: 8 micro-batches take 8 x 3 ms, no bubble.
  for (const PipelineSchedule schedule : {kZeroBubbleH2, kZeroBubbleV}) {
    INFO(name_of(plan::kPipelineSchedules, schedule));
    plan::Job job = pipeline(schedule, 4, 8);
    const bool two_parts = schedule == kZeroBubbleV;
    job.model = job_of(two_parts ? 8 : 4, 4).model;
    const Time pass = milliseconds(two_parts ? 0.5 : 1);
    const auto step = [&](Time send) {
      const Simulated one(by_hand(plan::lower(job).value(), pass, pass * 2.0, sends(send), pass));
      return std::pair{simulated(one).value().step.in(milliseconds), one.alone().step.in(milliseconds)};
    };
    const auto [by_events, by_recurrence] = step(Time::zero());
    CHECK(by_events == Approx(24).epsilon(1e-9));
    CHECK(by_recurrence == Approx(24).epsilon(1e-9));
    // With sends the recurrence's is what a step lasts at most: neighbours that are ahead have sent before.
    const auto [sent_by_events, sent_by_recurrence] = step(milliseconds(0.3));
    CHECK(sent_by_events <= sent_by_recurrence * (1 + 1e-9));
    CHECK(sent_by_events >= 24 * (1 - 1e-9));
    // Of two replicas: all ranks gather what they updated before their input comes, 5 ms for each part; the last one of
    // zbv needs both at once.
    job.cluster.gpus_per_node = job.cluster.node.gpus = 8;
    job.parallel.zero = 1;
    job.parallel.overlap_gather = true;
    const auto once = [](const Row& row) { return milliseconds(row.gathered() ? 5 : 0); };
    CHECK(ms(by_hand(plan::lower(job).value(), pass, pass * 2.0, once, pass)) == Approx(two_parts ? 34 : 29));
  }
}

TEST_CASE("split step: ranks that go on by themselves decode their input and wait for it too", "[unit][events]") {
  using enum PipelineSchedule;
  // Of each of 8 passes: 3 ms of kernels, 0.25 of decoding, 0.5 of copies from memory that is not pinned.
  for (const PipelineSchedule schedule : {kZeroBubbleH2, kPipeDream, kPipeDream2Bw}) {
    INFO(name_of(plan::kPipelineSchedules, schedule));
    cost::PricedStep step = by_hand(plan::lower(pipeline(schedule, 4, 8)).value(), kF, kB, sends(Time::zero()), kF);
    step.decoding = milliseconds(0.25);
    CHECK(ms(step) == Approx(8 * 3.25));
    step.input = milliseconds(0.5);
    step.pinned = false;
    CHECK(ms(step) == Approx(8 * 3.75));
  }
}

TEST_CASE("split step: pipelines that never empty go at the pace of their slowest rank, circle or channel",
          "[unit][events]") {
  using enum PipelineSchedule;
  // Worked in pipelines_test.cpp. A rank's F + B = 3; neighbours that wait for each other's sends share 3 + 3 + 1 for
  // two micro-batches; a circle of three or five turns in whole steps of 30.
  CHECK(ms(pipeline(kPipeDream, 2, 4), sends(Time::zero())) == Approx(12));
  CHECK(ms(pipeline(kPipeDream, 2, 4), sends(milliseconds(0.5))) == Approx(14));
  for (const std::int64_t p : {2, 3, 5}) {
    for (const PipelineSchedule schedule : {kPipeDream, kPipeDream2Bw}) {
      INFO(name_of(plan::kPipelineSchedules, schedule) << " " << p);
      ms(pipeline(schedule, p, 30), sends(milliseconds(0.5)));
    }
  }
  // Fewer micro-batches in a step than ranks: four steps' passes are under way at once.
  CHECK(ms(pipeline(kPipeDream, 4, 1), sends(Time::zero())) == Approx(3));
  // Sums of two replicas' gradients beside kernels: with every micro-batch, or once a step.
  const auto summed = [](PipelineSchedule schedule, Time sum, Time update) {
    plan::Job job = pipeline(schedule, 2, 4);
    job.cluster.gpus_per_node = job.cluster.node.gpus = 4;
    cost::PricedStep step = by_hand(plan::lower(job).value(), kF, kB, [&](const Row& row) {
      return row.op == CollectiveOp::kAllReduce ? sum : Time::zero();
    });
    for (cost::PricedClass& one : step.classes) one.update = update;
    return ms(step);
  };
  CHECK(summed(kPipeDream, milliseconds(2), Time::zero()) == Approx(12));
  CHECK(summed(kPipeDream, milliseconds(4), Time::zero()) == Approx(16));
  CHECK(summed(kPipeDream2Bw, milliseconds(4), Time::zero()) == Approx(12));
  CHECK(summed(kPipeDream2Bw, milliseconds(15), Time::zero()) == Approx(15));
  // A CPU that issues a kernel every 4 ms, two for each micro-batch.
  cost::PricedStep issued = by_hand(plan::lower(pipeline(kPipeDream, 2, 4)).value(), kF, kB, sends(Time::zero()));
  issued.launch_interval = milliseconds(4);
  CHECK(ms(issued) == Approx(4 * 8));
  // Weights are updated after every micro-batch, or once: 4 x (3 + 0.25), 4 x 3 + 0.25.
  CHECK(summed(kPipeDream, Time::zero(), milliseconds(0.25)) == Approx(13));
  CHECK(summed(kPipeDream2Bw, Time::zero(), milliseconds(0.25)) == Approx(12.25));
}

TEST_CASE("split step: exchanges of experts run beside the kernels of DualPipe's other direction", "[unit][events]") {
  // pipelines_test.cpp's plan: two ranks, four micro-batches, 0.5 ms of all-to-all after either pass of every layer.
  const auto exchanged = [](std::size_t layers_of_stage, Time exchange) {
    plan::Job job = pipeline(PipelineSchedule::kDualPipe, 2, 4);
    job.model = job_of(2 * layers_of_stage, 2).model;
    plan::StepPlan plan = plan::lower(job).value();
    plan.groups.push_back({.along = plan::Axis::kExpert, .role = plan::GroupRole::kExperts, .ranks = 2});
    for (std::size_t c = 0; c < 2; ++c) {
      for (std::size_t i = 0; i < plan.classes[c].chunk.count; ++i) {
        for (const Moment at : {Moment::kForward, Moment::kBackward}) {
          plan.rows.insert(plan.rows.begin(), {.op = CollectiveOp::kAllToAll,
                                               .ready = {at, i},
                                               .needed = {at, i},
                                               .in_the_way = true,
                                               .rank_class = c,
                                               .needed_by = c,
                                               .group = plan.groups.size() - 1,
                                               .every_pass = true});
        }
      }
    }
    const auto once = [&](const Row& row) { return row.op == CollectiveOp::kAllToAll ? exchange : Time::zero(); };
    const Simulated one(by_hand(std::move(plan), kF, kB, once, milliseconds(1)));
    return std::pair{simulated(one).value().step.in(milliseconds), one.alone().step.in(milliseconds)};
  };
  // Rank 0: F0 F2 F1 B2 | F3 B0 | B3 I1 W1, 12 ms of kernels and 8 exchanges. Of the pair F3's runs beside B0's kernel;
  // B0's follows it, and nothing of F3 is left beside it, where the closed form knows totals and hides both.
  const auto [by_events, by_totals] = exchanged(1, milliseconds(0.5));
  CHECK(by_events == Approx(12 + 8 * 0.5 - 0.5));
  CHECK(by_totals == Approx(12 + 8 * 0.5 - 2 * 0.5));
  CHECK(exchanged(1, Time::zero()).first == Approx(12));
  // Two layers a stage: F 0..1, its exchange ..1.5; B 1..3, its exchange ..3.5; F 3..4, ..4.5; B 4..6, ..6.5: three of
  // the pair's four are hidden.
  const auto [of_two, totals_of_two] = exchanged(2, milliseconds(0.5));
  CHECK(of_two == Approx(24 + 16 * 0.5 - 3 * 0.5));
  CHECK(totals_of_two == Approx(24 + 16 * 0.5 - 4 * 0.5));
}
