#include "ddlsim/step/schedule.h"

#include <catch2/catch.hpp>

#include "unit/step/setting.h"

using namespace ddlsim;
using ddlsim::test::gradient;
using ddlsim::test::one_per_tensor;
using ddlsim::test::priced;
using ddlsim::test::scheduled;
using ddlsim::test::Setting;
using ddlsim::test::two_gpus;
using ddlsim::test::two_layers;

namespace {

double ms(Time time) { return time.in(milliseconds); }

}  // namespace

TEST_CASE("step: one GPU computes and updates", "[unit][step]") {
  Setting s;
  s.update = milliseconds(0.5);
  const answer::Timeline line = scheduled(two_layers(), {}, s);
  CHECK(ms(line.forward) == Approx(3));
  CHECK(ms(line.backward) == Approx(6));
  CHECK(ms(line.step) == Approx(9.5));
  CHECK(line.parts.communication == Time::zero());
}

TEST_CASE("step: gradients leave as soon as they are ready", "[unit][step]") {
  Setting s{.fabric = two_gpus()};
  const answer::Timeline line = scheduled(two_layers(), one_per_tensor(), s);
  // Forward 3; layer 2 back at 7, its 5 ms of ring until 12; layer 1 back at 9, its ring 12..17.
  CHECK(ms(line.parts.communication) == Approx(10));
  CHECK(ms(line.parts.communication_exposed) == Approx(8));
  CHECK(ms(line.step) == Approx(17));
}

TEST_CASE("step: without overlap everything waits for backward", "[unit][step]") {
  Setting s{.fabric = two_gpus()};
  s.overlap = plan::Overlap::kNone;
  CHECK(ms(scheduled(two_layers(), one_per_tensor(), s).step) == Approx(19));
  s.overlap = plan::Overlap::kIdeal;
  CHECK(ms(scheduled(two_layers(), one_per_tensor(), s).step) == Approx(10));  // the longer of 9 and 10
}

TEST_CASE("step: a schedule says when messages were ready and what was sent", "[unit][step]") {
  Setting s{.fabric = two_gpus(), .overlap = plan::Overlap::kNone};
  std::vector<plan::Row> rows = one_per_tensor();
  for (plan::Row& row : rows) row.encoded = gigabytes(1);  // 1 ms
  // Without overlap all are encoded after both layers, before the first is sent.
  const answer::Timeline line = scheduled(two_layers(), rows, s, answer::Detail::kWork);
  REQUIRE(line.ready.size() == 2);
  CHECK(line.ready[0].layers == 2);
  CHECK(ms(line.ready[0].encoding) == Approx(2));
  CHECK(line.ready[1].encoding == Time::zero());
  REQUIRE(line.sent.size() == 2);
  CHECK(ms(line.sent[1].alone) == Approx(5));
  CHECK(scheduled(two_layers(), rows, s).ready.empty());  // nobody asked
  CHECK(scheduled(two_layers(), {}, s, answer::Detail::kWork).ready.empty());
  s.overlap = plan::Overlap::kBackward;
  const answer::Timeline beside = scheduled(two_layers(), rows, s, answer::Detail::kWork);
  REQUIRE(beside.ready.size() == 2);
  CHECK(beside.ready[0].layers == 1);
  CHECK(ms(beside.ready[1].encoding) == Approx(1));
}

TEST_CASE("step: a slow CPU starves the GPU", "[unit][step]") {
  Setting s;
  s.launch_interval = milliseconds(4);
  // Four kernels (two layers, one kernel each way), issued at 4, 8, 12, 16; the last takes 2 ms.
  const answer::Timeline line = scheduled(two_layers(), {}, s);
  CHECK(ms(line.step) == Approx(18));
  CHECK(ms(line.parts.launch) == Approx(9));
}

TEST_CASE("step: input that takes longer than the step is exposed", "[unit][step]") {
  Setting s;
  s.input = milliseconds(12);
  const answer::Timeline line = scheduled(two_layers(), {}, s);
  CHECK(ms(line.parts.input_exposed) == Approx(3));
  CHECK(ms(line.step) == Approx(12));
}

TEST_CASE("step: pulled weights and input share the host link", "[unit][step]") {
  Setting s;
  s.fabric = cost::PsFabric{.workers = 2,
                            .workers_per_node = 2,
                            .local = true,
                            .pcie = gigabytes_per_second(10),
                            .server_memory = gigabytes_per_second(1000)};
  s.input = milliseconds(12);
  s.pulled = megabytes(20);  // 2 ms
  // Messages alone end long before: 9 ms of backward, then a copy out and in.
  CHECK(ms(scheduled(two_layers(), one_per_tensor(), s).step) == Approx(14));
}

TEST_CASE("step: messages that are ready out of order are sent all the same", "[unit][step]") {
  Setting s{.fabric = two_gpus()};
  std::vector<plan::Row> messages = one_per_tensor();
  std::swap(messages[0], messages[1]);
  // The first waits for layer 1 (9 ms), the second follows: 9 + 5 + 5.
  CHECK(ms(scheduled(two_layers(), messages, s).step) == Approx(19));
}

TEST_CASE("step: a running collective slows the kernels beside it", "[unit][step]") {
  Setting s{.fabric = two_gpus()};
  s.held = 0.5;
  // Layer 2 is back at 7 and its 5 ms run until 12; layer 1's 2 ms of backward take 4, until 11.
  const answer::Timeline line = scheduled(two_layers(), one_per_tensor(), s);
  CHECK(ms(line.contention) == Approx(2));
  CHECK(ms(line.parts.communication_exposed) == Approx(6));
  CHECK(ms(line.step) == Approx(17));
}

TEST_CASE("step: what collectives send through the GPU's memory slows the kernels beside them", "[unit][step]") {
  const auto contention = [&](DataSize sent) {
    cost::PricedStep step = ddlsim::test::priced(two_layers(), one_per_tensor(), {.fabric = two_gpus()});
    for (cost::PricedRow& row : step.rows) {
      row.once = milliseconds(5);
      row.sent = sent;
    }
    step.memory_per_wire_byte = nanoseconds(0.25);
    return ms(step::schedule(step, answer::Detail::kParts).value().contention);
  };
  CHECK(contention({}) == 0);
  // 10 MB: 2.5 of 5 ms, as if half of the GPU were held.
  CHECK(contention(megabytes(10)) == Approx(2));
  // 16 MB: 4 of 5 ms. 5 ms at a fifth do 1 of 2 ms, the other is alone.
  CHECK(contention(megabytes(16)) == Approx(4));
}

TEST_CASE("step: only the last of several passes sends", "[unit][step]") {
  Setting s{.fabric = two_gpus()};
  s.accumulation = 3;
  s.update = milliseconds(1);
  // Two passes of 9 ms, then the step of one pass, 17 ms, and one update.
  const answer::Timeline line = scheduled(two_layers(), one_per_tensor(), s);
  CHECK(ms(line.step) == Approx(36));
  CHECK(ms(line.parts.compute) == Approx(27));
}

TEST_CASE("step: a coordinator fuses what is ready when it wakes", "[unit][step]") {
  Setting s{.fabric = two_gpus()};
  s.device.memory = Bandwidth::infinity();  // copies into the buffer cost nothing
  s.fusion = {milliseconds(10), megabytes(64)};
  // Ready at 7 and 9; both wait for the wake at 10 and go as one: 20 MB, 10 ms.
  CHECK(ms(scheduled(two_layers(), one_per_tensor(), s).step) == Approx(20));
  s.fusion->cycle = milliseconds(8);  // the first goes at 8, the second at 16: 8..13, 16..21
  CHECK(ms(scheduled(two_layers(), one_per_tensor(), s).step) == Approx(21));
  s.fusion = {milliseconds(10), megabytes(15)};  // too small for both
  CHECK(ms(scheduled(two_layers(), one_per_tensor(), s).step) == Approx(20));
}

TEST_CASE("step: when a coordinator wakes is chance, and the step the mean over it", "[unit][step]") {
  Setting s{.fabric = two_gpus()};
  s.device.memory = Bandwidth::infinity();
  s.fusion = {milliseconds(4), megabytes(64)};
  // Ready at 7 and 9. Awake at 7 to 9 the first goes by itself, 5 + 5 ms from then on; awake at 9 to 11 both go at
  // once, in 10: 17 to 19 and 19 to 21 ms.
  const cost::PricedStep step = test::priced(two_layers(), one_per_tensor(), s);
  CHECK(ms(step::schedule_at(step, 0.8).step) == Approx(17.2));
  CHECK(ms(step::schedule_at(step, 0.3).step) == Approx(19.2));
  const answer::Timeline line = step::schedule(step, answer::Detail::kWork).value();
  CHECK(ms(line.step) == Approx(19));
  CHECK(ms(line.parts.step()) == Approx(19));
  CHECK(ms(step::step_time(step).value()) == Approx(19));
  double path = 0;
  for (const answer::Segment& segment : line.critical_path) path += ms(segment.time);
  CHECK(path == Approx(19));

  CHECK(line.sent.size() <= 2);  // of one phase
}

TEST_CASE("step: priority lets the next forward pass start before everything is back", "[unit][step]") {
  Setting s{.fabric = two_gpus()};
  s.priority = true;
  // Layer 2's gradient is ready at 7 and sent until 12; layer 1's, ready at 9, goes next, until 17. Layer 1 of the next
  // forward waits until 17 and is done at 18, layer 2 at 20: a step of 20 - 9 + 6 = 17 ms. By priority nothing is won
  // with two messages; cut in five, layer 1 waits for 2 ms at most.
  CHECK(ms(scheduled(two_layers(), one_per_tensor(), s).step) == Approx(17));
  const std::vector<plan::Row> pieces{gradient(megabytes(2), 1, 5), gradient(megabytes(2), 0, 5)};
  // 1 ms each: two of layer 2 by 9, then layer 1's five by 14, then three more by 17. Forward: layer 1 14..15, layer 2
  // from 17 to 19: 19 - 9 + 6 = 16 ms.
  CHECK(ms(scheduled(two_layers(), pieces, s).step) == Approx(16));
}

TEST_CASE("step: weights pulled at the start make forward wait layer by layer", "[unit][step]") {
  Setting s;
  cost::PsFabric servers{.workers = 2,
                         .workers_per_node = 1,
                         .servers = 2,
                         .pcie = Bandwidth::infinity(),
                         .node_network = gigabytes_per_second(10),
                         .server_network = gigabytes_per_second(10),
                         .server_memory = Bandwidth::infinity()};
  s.fabric = servers;
  s.pull_at_start = true;
  // One way, 10 MB take 1 ms to leave the worker and 1 ms to arrive. Pushes: layer 2's ready at 7 is in at 9, layer 1's
  // ready at 9 at 11: 2 ms exposed. Pulls in model order: layer 1 is there after 2 ms, layer 2 after 3; forward runs
  // 2..3, then layer 2 3..5: 2 ms exposed.
  const answer::Timeline line = scheduled(two_layers(), one_per_tensor(), s);
  CHECK(ms(line.parts.communication_exposed) == Approx(4));
  CHECK(ms(line.step) == Approx(13));
}

TEST_CASE("step: encoding takes GPU time before a message may go", "[unit][step]") {
  Setting s{.fabric = two_gpus()};
  std::vector<plan::Row> messages = one_per_tensor();
  for (plan::Row& m : messages) m.encoded = gigabytes(1);  // 1 ms at 1 TB/s
  // Layer 2: back at 7, coded at 8, sent 8..13; layer 1: back at 10, coded at 11, sent 13..18.
  const answer::Timeline line = scheduled(two_layers(), messages, s);
  CHECK(ms(line.copying) == Approx(2));
  CHECK(ms(line.step) == Approx(18));
}

TEST_CASE("step: a synchronous step waits for the slowest GPU", "[unit][step]") {
  Setting s{.fabric = two_gpus()};
  s.wait = 0.1;  // of 9 ms
  CHECK(ms(scheduled(two_layers(), one_per_tensor(), s).waiting) == Approx(0.9));
  CHECK(ms(scheduled(two_layers(), one_per_tensor(), s).step) == Approx(17.9));
}

TEST_CASE("step: layer times that somebody measured win over the roofline", "[unit][step]") {
  Setting s;
  // Forward 1 + 4, backward 5 + 2, of which 4 bound by memory.
  s.layers = {{{milliseconds(1), Time::zero()}, {milliseconds(2), Time::zero()}},
              {{Time::zero(), milliseconds(4)}, {milliseconds(5), Time::zero()}}};
  const answer::Timeline line = scheduled(two_layers(), {}, s);
  CHECK(line.forward.in(milliseconds) == Approx(5));
  CHECK(line.backward.in(milliseconds) == Approx(7));
  CHECK(line.parts.compute.in(milliseconds) == Approx(8));
  CHECK(line.parts.memory.in(milliseconds) == Approx(4));
}

TEST_CASE("step: what the GPU waits for the host is no kernel's time", "[unit][step]") {
  Setting s;
  s.layers = {{{milliseconds(1), Time::zero(), milliseconds(3)}, {milliseconds(2), Time::zero()}},
              {{Time::zero(), milliseconds(4)}, {milliseconds(5), Time::zero()}}};
  const answer::Timeline line = scheduled(two_layers(), {}, s);
  CHECK(ms(line.forward) == Approx(1 + 3 + 4));
  CHECK(ms(line.parts.compute) == Approx(8));
  CHECK(ms(line.parts.memory) == Approx(4));
  CHECK(ms(line.parts.launch) == Approx(3));
}

TEST_CASE("step: workers that wait for nobody are bound by the busiest server", "[unit][step]") {
  // One worker at a time meets a server of 2.5 GB/s that all four share: 10 MB leave in 1 ms, arrive in 4, are served
  // in 4 and fetched in 1. Layer 2's, ready at 7: 8, 12, 16, 17; layer 1's, ready at 9: 10, 16, 20, 21.
  cost::PsFabric servers{.workers = 4,
                         .workers_per_node = 1,
                         .pcie = Bandwidth::infinity(),
                         .node_network = gigabytes_per_second(10),
                         .server_network = gigabytes_per_second(2.5),
                         .server_memory = Bandwidth::infinity()};
  Setting s{.fabric = servers, .consistency = plan::Consistency::kAsync};
  cost::PricedStep step = test::priced(two_layers(), one_per_tensor(), s);
  step.servers_seen_by_one = servers;
  step.servers_seen_by_one->senders = 1;
  // The four send 80 MB a step, which the server takes in 32 ms: no worker can be faster.
  const answer::Timeline line = step::schedule(step).value();
  CHECK(ms(line.step) == Approx(32));
  CHECK(ms(line.parts.communication_exposed) == Approx(12 + 11));
  // Alone with a faster server its own loop counts: 21 ms.
  step.servers->server_network = gigabytes_per_second(20);
  CHECK(ms(step::schedule(step)->step) == Approx(21));
  // Who may be one step ahead waits for the slowest every other step: half of 10 % of 9 ms.
  s.consistency = plan::Consistency::kStale;
  s.staleness = 1;
  s.wait = 0.1;
  step = test::priced(two_layers(), one_per_tensor(), s);
  step.servers_seen_by_one = servers;
  step.servers_seen_by_one->senders = 1;
  step.wait_for_slowest = 0;  // not every step
  CHECK(ms(step::schedule(step)->step) == Approx(32.45));
  // All wait for all: 16 ms to receive what four send at once. 7 + 1, 24, 40 and 9 + 1, 40, 56, fetched at 57.
  s.consistency = plan::Consistency::kSync;
  s.wait = 0;
  CHECK(ms(scheduled(two_layers(), one_per_tensor(), s).step) == Approx(57));
}

TEST_CASE("step: a library that blocks the coordinator delays its next wake", "[unit][step]") {
  // Ready at 7, 9, and, after 2 ms of encoding, 11. NCCL's coordinator wakes at 8, 10 and 12 and finds one each time:
  // 8..13, 13..18, 18..23.
  Setting s{.fabric = two_gpus(), .fusion = plan::FusionRule{milliseconds(2), megabytes(64)}};
  std::vector<plan::Row> rows{gradient(megabytes(10), 1), gradient(megabytes(10), 0), gradient(megabytes(10), 0)};
  rows[2].encoded = gigabytes(2);
  CHECK(ms(scheduled(two_layers(), rows, s).step) == Approx(23));
  // MPI's is busy until 13 and finds two then: 10 ms, and copying 20 MB in and out of the buffer at 1 TB/s.
  cost::CollectiveLibrary mpi;
  mpi.kind = cost::CollectiveLibraryKind::kMpi;
  s.fabric = two_gpus(1, gigabytes_per_second(10), mpi);
  CHECK(ms(scheduled(two_layers(), rows, s).step) == Approx(23.08));
}

TEST_CASE("step: synchronous GPUs of two kinds go at the slower's pace", "[unit][step]") {
  // 1.5 times as slow: forward 4.5, layer 2 back at 10.5, 1.5 ms of encoding, its ring 12..17; layer 1 back at 15 and
  // encoded at 16.5, its ring 17..22; the update 0.75.
  Setting s{.fabric = two_gpus(), .update = milliseconds(0.5), .kinds = {{1, 1}, {1.5, 1}}};
  std::vector<plan::Row> rows = one_per_tensor();
  for (plan::Row& row : rows) row.encoded = gigabytes(1);  // 1 ms
  CHECK(ms(scheduled(two_layers(), rows, s).step) == Approx(22.75));
  s.wait = 0.1;  // of the 9 ms of the others
  CHECK(ms(scheduled(two_layers(), rows, s).step) == Approx(22.75 + 0.9));
}

TEST_CASE("step: a slow CPU issues to slower GPUs as to the others", "[unit][step]") {
  // Kernels issued at 4, 8, 12, 16 ms take 1.5, 3, 6 and 3: the third waits for the CPU, the fourth for the third.
  const Setting s{.launch_interval = milliseconds(4), .kinds = {{1, 1}, {1.5, 1}}};
  CHECK(ms(scheduled(two_layers(), {}, s).step) == Approx(21));
}
