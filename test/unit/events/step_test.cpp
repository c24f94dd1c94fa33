#include "ddlsim/events/step.h"

#include <catch2/catch.hpp>
#include <utility>

#include "ddlsim/cost/nccl.h"
#include "unit/step/setting.h"

using namespace ddlsim;
using namespace ddlsim::events;
using ddlsim::test::gradient;
using ddlsim::test::Kind;
using ddlsim::test::one_per_tensor;
using ddlsim::test::scheduled;
using ddlsim::test::Setting;
using ddlsim::test::Simulated;
using ddlsim::test::simulated;
using ddlsim::test::two_layers;

namespace {

/// Two GPUs on two nodes.
cost::CollectiveModel two_nodes(Bandwidth network) { return test::two_gpus(2, network); }

/// What the test changes of one job of nominal GPUs.
struct Others {
  int jobs = 1;
  Time offset{};
  std::vector<Kind> kinds{{1, 1}};
};

double ms(Setting s, const std::vector<plan::Row>& rows, const Others& others = {}) {
  s.kinds = others.kinds;
  return simulated(Simulated(two_layers(), rows, s), others.jobs, others.offset).value().step.in(milliseconds);
}

const std::vector<Kind> kOneSlow{{1, 1}, {1.5, 1}};

/// Both fidelities' step, which must be one.
double both(const Setting& s, const std::vector<plan::Row>& rows) {
  const double by_recurrence = scheduled(two_layers(), rows, s).step.in(milliseconds);
  const double by_events = simulated(Simulated(two_layers(), rows, s)).value().step.in(milliseconds);
  CHECK(by_events == Approx(by_recurrence).epsilon(1e-9).margin(1e-8));
  return by_events;
}

/// Servers of two nodes on a network of 10 GB/s.
cost::PsFabric two_servers() {
  return {.workers = 2,
          .workers_per_node = 1,
          .servers = 2,
          .pcie = gigabytes_per_second(40),
          .node_network = gigabytes_per_second(10),
          .server_network = gigabytes_per_second(10),
          .server_memory = gigabytes_per_second(100),
          .latency = microseconds(20)};
}

}  // namespace

TEST_CASE("event step: gradients leave as soon as they are ready", "[unit][events]") {
  Setting s;
  s.fabric = two_nodes(gigabytes_per_second(1));
  // The example of the header: rings 7..12..17.
  CHECK(ms(s, one_per_tensor()) == Approx(17));
  // Backward until 10.5 and 13.5, rings 10.5..15.5..20.5.
  CHECK(ms(s, one_per_tensor(), {.kinds = kOneSlow}) == Approx(20.5));
  // The port is full as it is: rings of 10 ms, 7..17..27. Three jobs: 7..22..37.
  CHECK(ms(s, one_per_tensor(), {.jobs = 2}) == Approx(27));
  CHECK(ms(s, one_per_tensor(), {.jobs = 3}) == Approx(37));
  s.overlap = plan::Overlap::kNone;
  CHECK(ms(s, one_per_tensor()) == Approx(19));
  CHECK(ms(s, one_per_tensor(), {.jobs = 2}) == Approx(29));
}

TEST_CASE("event step: jobs share what they fill, and only while they meet", "[unit][events]") {
  Setting s;
  const std::vector<plan::Row> last{gradient(megabytes(10), 0)};
  s.fabric = two_nodes(gigabytes_per_second(1));
  // Backward until 9, the ring until 14. Together: 10 ms of ring. 7 ms apart: 9..14, 16..21, 23..28, 30..35, never
  // both.
  CHECK(ms(s, last) == Approx(14));
  CHECK(ms(s, last, {.jobs = 2}) == Approx(19));
  CHECK(ms(s, last, {.jobs = 2, .offset = milliseconds(7)}) == Approx(14));
  // A whole step apart is together: what came before has ended.
  CHECK(ms(s, last, {.jobs = 2, .offset = milliseconds(14)}) == Approx(19));
  // 10 MB in 5 ms are 2 GB/s: a port of 100 Gb/s or more has room for two.
  s.fabric = two_nodes(gigabytes_per_second(20));
  CHECK(ms(s, last, {.jobs = 2}) == Approx(14));
}

TEST_CASE("event step: the CPU issues kernels one by one", "[unit][events]") {
  Setting s;
  s.launch_interval = milliseconds(4);
  // Four kernels issued at 4, 8, 12, 16; the last takes 2 ms. Twice as slow a GPU: 4, 8+4, 12+8, 20+4.
  CHECK(ms(s, {}) == Approx(18));
  CHECK(ms(s, {}, {.kinds = {{2, 1}}}) == Approx(24));
  // Two kernels in every layer: issued at 8, 16, 24, 32; the last layer's last kernel takes 1 ms.
  workload::Model model = two_layers();
  for (workload::Layer& layer : model.layers) layer.forward_kernels = layer.backward_kernels = 2;
  CHECK(simulated(Simulated(model, {}, s)).value().step.in(milliseconds) == Approx(33));
}

TEST_CASE("event step: what is needed first goes first", "[unit][events]") {
  Setting s;
  s.fabric = two_nodes(gigabytes_per_second(1));
  s.priority = true;
  // From backward: the second layer is back at 4, the first at 6; rings 4..9..14. Forward: first 14..15, second ..17.
  CHECK(ms(s, one_per_tensor()) == Approx(17));
  // Slower: back at 6 and 9, rings 6..11..16, forward 16..17.5..20.5.
  CHECK(ms(s, one_per_tensor(), {.kinds = kOneSlow}) == Approx(20.5));
}

TEST_CASE("event step: pieces pass the servers' stations one behind the other", "[unit][events]") {
  Setting s;
  s.fabric = cost::PsFabric{.workers = 2,
                            .workers_per_node = 2,
                            .local = true,
                            .pcie = gigabytes_per_second(10),
                            .server_memory = gigabytes_per_second(20)};
  // Out 1 ms, the sum of two 2 * 3 * 10 MB / (20 GB/s) = 3 ms, in 1 ms. Four pieces: 5 + 3 * 3 = 14 ms after 9.
  const std::vector<plan::Row> four{gradient(megabytes(10), 0, 4)};
  CHECK(ms(s, four) == Approx(23));
  // The servers wait for the slower one, whose backward ends at 13.5.
  CHECK(ms(s, four, {.kinds = kOneSlow}) == Approx(27.5));
  // Pulled at the start: forward waits for 4 pieces of 1 ms, then 3; backward 6; push 1 + 4 * 3.
  s.pull_at_start = true;
  CHECK(ms(s, four) == Approx(4 + 3 + 6 + 13));
}

TEST_CASE("event step: whoever waits for weights beside a slower GPU is not behind it", "[unit][events]") {
  // Kernels are issued every 5 ms. Weights of the second layer are there at 20; its forward ends at 20.75 on the slow
  // GPU, whose CPU leads by 9 + 0.75 - 5; its backward there at 20.75 + 5 - 4.75 + 1.5 = 22.5, and 1 + 20 x 3 ms later
  // all is pushed. The other GPU's forward ends at 20.5: its CPU, led by itself, would lead by 1.5 only.
  const Setting s{.layers = {{{milliseconds(6), Time::zero()}, {milliseconds(1), Time::zero()}},
                             {{milliseconds(0.5), Time::zero()}, {milliseconds(1), Time::zero()}}},
                  .launch_interval = milliseconds(5),
                  .fabric = cost::PsFabric{.workers = 2,
                                           .workers_per_node = 2,
                                           .local = true,
                                           .pcie = gigabytes_per_second(10),
                                           .server_memory = gigabytes_per_second(20)},
                  .pull_at_start = true,
                  .kinds = kOneSlow};
  CHECK(both(s, {gradient(megabytes(10), 1, 20)}) == Approx(83.5));
}

TEST_CASE("event step: asynchronous workers do not wait", "[unit][events]") {
  // Steps of 9 and 18 ms: 3 steps in 18 ms by two workers, 12 ms for one each.
  Setting s{.consistency = plan::Consistency::kAsync, .kinds = {{1, 1}, {2, 1}}};
  const EventStep both = simulated(Simulated(two_layers(), {}, s)).value();
  CHECK(both.step.in(milliseconds) == Approx(12));
  CHECK(both.slowest.in(milliseconds) == Approx(18));
  // Three fast ones: 3 / 9 + 1 / 18 = 7 / 18.
  CHECK(ms(s, {}, {.kinds = {{1, 3}, {2, 1}}}) == Approx(4.0 * 18 / 7));
}

TEST_CASE("event step: input is copied meanwhile, and earlier passes send nothing", "[unit][events]") {
  Setting s;
  s.input = milliseconds(12);
  CHECK(ms(s, {}) == Approx(12));
  s.accumulation = 2;
  CHECK(both(s, {}) == Approx(24));  // twice the input, more than 9 + 9
  s.update = milliseconds(8);
  CHECK(ms(s, {}) == Approx(26));  // 9 + 9 + 8, more than 24 of input
}

TEST_CASE("event step: tasks are named after layers when asked", "[unit][events]") {
  const EventStep named = simulated(Simulated(two_layers(), {}, {}), 1, {}, {.named = true}).value();
  const std::vector<std::string> names{"start", "forward first", "forward second", "backward second", "backward first"};
  for (std::uint32_t i = 0; i < names.size(); ++i) CHECK(named.program.name(TaskId{i}) == names[i]);
  CHECK(named.program.streams()[1].name == "job 1, GPUs/gpu");
}

TEST_CASE("event step: what is no schedule is refused", "[unit][events]") {
  const auto code = [](const Setting& s, int jobs = 1, Time offset = Time::zero()) {
    return simulated(Simulated(two_layers(), one_per_tensor(), s), jobs, offset).error().code;
  };
  Setting s;
  CHECK(code(s, 0) == ErrorCode::kInvalidArgument);
  CHECK(code(s, 1001) == ErrorCode::kInvalidArgument);
  CHECK(code({.kinds = {{0, 1}}}) == ErrorCode::kInvalidArgument);
  CHECK(code({.kinds = {{1, 0}}}) == ErrorCode::kInvalidArgument);
  CHECK(code(s, 2, milliseconds(-1)) == ErrorCode::kInvalidArgument);
  CHECK(code({.consistency = plan::Consistency::kAsync}, 2) == ErrorCode::kUnsupported);
  s.overlap = plan::Overlap::kIdeal;
  CHECK(code(s) == ErrorCode::kUnsupported);
  s.overlap = plan::Overlap::kBackward;
  s.fabric = cost::PsFabric{};
  s.priority = s.pull_at_start = true;
  CHECK(code(s) == ErrorCode::kUnsupported);
}

TEST_CASE("event step: undisturbed, it is the schedule's", "[unit][events]") {
  const std::vector<plan::Row> pieces{gradient(megabytes(2), 1, 5), gradient(megabytes(2), 0, 5)};
  std::vector<plan::Row> encoded = one_per_tensor();
  for (plan::Row& row : encoded) row.encoded = gigabytes(0.3);
  const Setting collectives{.launch_interval = milliseconds(1.7),
                            .fabric = two_nodes(gigabytes_per_second(1)),
                            .accumulation = 3,
                            .wait = 0.01,
                            .update = milliseconds(0.4),
                            .input = milliseconds(2)};
  Setting s = collectives;
  CHECK(both(s, one_per_tensor()) > 17);
  both(s, encoded);
  s.held = 0.4;  // collectives slow kernels
  both(s, encoded);
  s.held = 0;
  s.kinds = kOneSlow;
  both(s, encoded);
  s.overlap = plan::Overlap::kNone;
  both(s, encoded);
  s = collectives;
  s.fusion = {milliseconds(1.3), megabytes(15)};
  both(s, one_per_tensor());
  s = collectives;
  s.priority = true;
  both(s, pieces);
  for (const bool pull_at_start : {false, true}) {
    for (const plan::Overlap overlap : {plan::Overlap::kBackward, plan::Overlap::kNone}) {
      s = collectives;
      s.fabric = two_servers();
      s.pull_at_start = pull_at_start;
      s.overlap = overlap;
      both(s, pieces);
      std::vector<plan::Row> placed = one_per_tensor();
      placed[0].server = 0;
      placed[1].server = 1;
      both(s, placed);
    }
  }
  s.overlap = plan::Overlap::kBackward;
  s.pull_at_start = false;
  s.kinds = kOneSlow;
  both(s, pieces);
}

TEST_CASE("event step: earlier passes wait for the CPU as well", "[unit][events]") {
  // Two kernels in every layer, issued every 4 ms: 8 of them a pass. The last of 32 ends at 32 and a half of backward
  // of the first layer, 33; two such passes, 66.
  workload::Model model = two_layers();
  for (workload::Layer& layer : model.layers) layer.forward_kernels = layer.backward_kernels = 2;
  const Setting s{.launch_interval = milliseconds(4), .accumulation = 2};
  CHECK(simulated(Simulated(model, {}, s)).value().step.in(milliseconds) == Approx(66));
  CHECK(scheduled(model, {}, s).step.in(milliseconds) == Approx(66));
}

TEST_CASE("event step: a stale worker's own loop, and measured layers", "[unit][events]") {
  Setting s{.fabric = two_servers(), .consistency = plan::Consistency::kAsync};
  both(s, one_per_tensor());
  // Forward 1 + 4, backward 5 + 2: 12 ms, and a ring of 5 after each backward: 5 + 5, 10..15, 12..20.
  s = {.layers = {{{milliseconds(1), Time::zero()}, {milliseconds(2), Time::zero()}},
                  {{Time::zero(), milliseconds(4)}, {milliseconds(5), Time::zero()}}},
       .fabric = two_nodes(gigabytes_per_second(1))};
  CHECK(both(s, one_per_tensor()) == Approx(20));
}

TEST_CASE("event step: two unlike jobs on one leaf's uplink, or on one server's port", "[unit][events]") {
  // Both last 19 ms alone: one computes 14 and sends for 5, the other computes 9 and sends for 10. Together: the second
  // alone from 9 to 14, then both at half their pace: 5 ms are left of either, 14..24.
  const cost::CollectiveModel ring = two_nodes(gigabytes_per_second(1));
  Setting slow{.fabric = ring};
  slow.layers = {{{milliseconds(4), Time::zero()}, {milliseconds(2), Time::zero()}},
                 {{milliseconds(4), Time::zero()}, {milliseconds(4), Time::zero()}}};
  const Simulated late(two_layers(), {gradient(megabytes(10), 0)}, slow);
  const Simulated early(two_layers(), {gradient(megabytes(20), 0)}, {.fabric = ring});
  REQUIRE(late.alone().step.in(milliseconds) == Approx(19));
  REQUIRE(early.alone().step.in(milliseconds) == Approx(19));
  const auto steps = [&](std::size_t servers_of_early, const EventOptions& options) {
    const std::vector<SimulatedJob> jobs{late.job(), early.job(Time::zero(), servers_of_early)};
    const EventStep run = simulate(jobs, options).value();
    CHECK(run.step == run.steps[0]);  // the jobs like the first
    return std::pair{run.steps[0].in(milliseconds), run.steps[1].in(milliseconds)};
  };
  const SimulatedJob early_alone = early.job();
  const Bandwidth rate = cost::effective_rates(ring.communicator(), ring.library()).inter;
  const auto check = [&](const std::pair<double, double>& both, double expected) {
    CHECK(both.first == Approx(expected));
    CHECK(both.second == Approx(expected));
  };
  check(steps(0, {}), 24);  // the port that both fill
  check(steps(1, {}), 19);  // servers of their own, and a leaf that never fills
  // Each job's two nodes cross the uplink: it has room for one job, or for both.
  check(steps(1, {.uplink = rate * 2.0}), 24);
  check(steps(1, {.uplink = rate * 4.0}), 19);
  // On the same servers and an uplink for one: no worse than either.
  check(steps(0, {.uplink = rate * 2.0}), 24);
  // A job alone crosses it as well: 9 + 10, or at half its pace 9 + 20.
  const auto alone = [&](Bandwidth uplink) {
    return simulate({&early_alone, 1}, {.uplink = uplink}).value().step.in(milliseconds);
  };
  CHECK(alone(rate * 2.0) == Approx(19));
  CHECK(alone(rate) == Approx(29));
}

TEST_CASE("event step: collectives and parameter servers on the same servers, or on one leaf", "[unit][events]") {
  // A ring of 20 MB that fills a port of 2 GB/s: 9..19, in and out. Beside it a worker that sends 10 MB, 5 ms, and
  // fetches them, 5 ms, from servers that take no time: 9..14..19. On the same servers: the ring shares the way out
  // until 19, when 10 MB of either are through, then the way in: ..29.
  cost::CollectiveLibrary all_of_it;
  all_of_it.inter_efficiency = 1.0;
  const cost::CollectiveModel ring = test::two_gpus(2, gigabytes_per_second(2), all_of_it);
  const Simulated rings(two_layers(), {gradient(megabytes(20), 0)}, {.fabric = ring});
  const cost::PsFabric fast{.workers = 2,
                            .workers_per_node = 1,
                            .pcie = Bandwidth::infinity(),
                            .node_network = gigabytes_per_second(2),
                            .server_network = Bandwidth::infinity(),
                            .server_memory = Bandwidth::infinity()};
  const Simulated pushes(two_layers(), {gradient(megabytes(10), 0)}, {.fabric = fast});
  REQUIRE(rings.alone().step.in(milliseconds) == Approx(19));
  REQUIRE(pushes.alone().step.in(milliseconds) == Approx(19));
  const auto check = [&](std::size_t servers, const EventOptions& options, double expected) {
    const EventStep run = simulate(std::vector{rings.job(), pushes.job(Time::zero(), servers)}, options).value();
    CHECK(run.steps[0].in(milliseconds) == Approx(expected));
    CHECK(run.steps[1].in(milliseconds) == Approx(expected));
  };
  check(0, {}, 29);
  check(1, {}, 19);
  // Servers of their own under a leaf of 4 GB/s, which the two nodes of the ring fill by themselves: 2 x + x = 4, so
  // that 10 MB take 7.5 ms each way: 9..16.5..24, and the ring's 20 MB as long. Of 6 GB/s it has room for all.
  check(1, {.uplink = gigabytes_per_second(4)}, 24);
  check(1, {.uplink = gigabytes_per_second(6)}, 19);
}

TEST_CASE("event step: a short job takes several steps beside a long one", "[unit][events]") {
  // Alone 19 ms, and 9.5: without anything to share both keep their pace.
  const Simulated lengthy(two_layers(), {gradient(megabytes(20), 0)}, {.fabric = two_nodes(gigabytes_per_second(1))});
  Setting quick{.fabric = two_nodes(gigabytes_per_second(1))};
  quick.layers = {{{milliseconds(1), Time::zero()}, {milliseconds(1), Time::zero()}},
                  {{milliseconds(1), Time::zero()}, {milliseconds(1.5), Time::zero()}}};
  const Simulated brief(two_layers(), {gradient(megabytes(10), 0)}, quick);
  REQUIRE(brief.alone().step.in(milliseconds) == Approx(9.5));
  const std::vector<SimulatedJob> apart{lengthy.job(), brief.job(Time::zero(), 1)};
  const EventStep run = simulate(apart).value();
  CHECK(run.steps[0].in(milliseconds) == Approx(19));
  CHECK(run.steps[1].in(milliseconds) == Approx(9.5));
}
