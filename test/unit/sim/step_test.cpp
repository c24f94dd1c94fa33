#include "ddlsim/sim/step.h"

#include <catch2/catch.hpp>

using namespace ddlsim;
using namespace ddlsim::sim;

namespace {

/// Two layers of 1 and 2 ms forward, twice that backward, at 1 TFLOP/s; one 10 MB gradient each.
workload::Model two_layers() {
  workload::Model model;
  for (const double gflop : {1.0, 2.0}) {
    workload::Layer layer;
    layer.forward_work = gigaflops(gflop);
    layer.backward_work = gigaflops(2 * gflop);
    layer.parameters = {2'500'000};
    model.layers.push_back(layer);
  }
  model.totals = workload::total(model.layers).value();
  return model;
}

StepSetting setting() {
  StepSetting s;
  s.device = {.compute = teraflops_per_second(1), .memory = terabytes_per_second(1)};
  s.activation = bytes(4);
  return s;
}

/// Two GPUs: a ring moves each byte once, so 10 MB at 2 GB/s takes 5 ms.
cost::Ring two_gpus() {
  return {.gpus = 2, .nodes = 1, .intra = gigabytes_per_second(2), .inter = gigabytes_per_second(2)};
}

std::vector<plan::Message> one_per_tensor() {
  return {{.size = megabytes(10), .count = 1, .after = 1}, {.size = megabytes(10), .count = 1, .after = 0}};
}

double ms(Time time) { return time.in(milliseconds); }

}  // namespace

TEST_CASE("step: one GPU computes and updates", "[unit][sim]") {
  StepSetting s = setting();
  s.update = milliseconds(0.5);
  const StepTimeline line = run_step(two_layers(), {}, s);
  CHECK(ms(line.forward) == Approx(3));
  CHECK(ms(line.backward) == Approx(6));
  CHECK(ms(line.step) == Approx(9.5));
  CHECK(line.communication == Time::zero());
}

TEST_CASE("step: gradients leave as soon as they are ready", "[unit][sim]") {
  StepSetting s = setting();
  s.fabric = two_gpus();
  const StepTimeline line = run_step(two_layers(), one_per_tensor(), s);
  // Forward 3; layer 2 back at 7, its 5 ms of ring until 12; layer 1 back at 9, its ring 12..17.
  CHECK(ms(line.communication) == Approx(10));
  CHECK(ms(line.communication_exposed) == Approx(8));
  CHECK(ms(line.step) == Approx(17));
}

TEST_CASE("step: without overlap everything waits for backward", "[unit][sim]") {
  StepSetting s = setting();
  s.fabric = two_gpus();
  s.overlap = plan::Overlap::kNone;
  CHECK(ms(run_step(two_layers(), one_per_tensor(), s).step) == Approx(19));
  s.overlap = plan::Overlap::kIdeal;
  CHECK(ms(run_step(two_layers(), one_per_tensor(), s).step) == Approx(10));  // the longer of 9 and 10
}

TEST_CASE("step: a slow CPU starves the GPU", "[unit][sim]") {
  StepSetting s = setting();
  s.launch_interval = milliseconds(4);
  // Four kernels (two layers, one kernel each way), issued at 4, 8, 12, 16; the last takes 2 ms.
  const StepTimeline line = run_step(two_layers(), {}, s);
  CHECK(ms(line.step) == Approx(18));
  CHECK(ms(line.launch) == Approx(9));
}

TEST_CASE("step: input that takes longer than the step is exposed", "[unit][sim]") {
  StepSetting s = setting();
  s.input = milliseconds(12);
  const StepTimeline line = run_step(two_layers(), {}, s);
  CHECK(ms(line.input_exposed) == Approx(3));
  CHECK(ms(line.step) == Approx(12));
}

TEST_CASE("step: pulled weights and input share the host link", "[unit][sim]") {
  StepSetting s = setting();
  s.fabric = cost::PsFabric{.workers = 2, .workers_per_node = 2, .local = true, .pcie = gigabytes_per_second(10)};
  s.input = milliseconds(12);
  s.pulled = megabytes(20);  // 2 ms
  // Messages alone end long before: 9 ms of backward, then a copy out and in.
  CHECK(ms(run_step(two_layers(), one_per_tensor(), s).step) == Approx(14));
}

TEST_CASE("step: messages that are ready out of order are sent all the same", "[unit][sim]") {
  StepSetting s = setting();
  s.fabric = two_gpus();
  std::vector<plan::Message> messages = one_per_tensor();
  std::swap(messages[0], messages[1]);
  // The first waits for layer 1 (9 ms), the second follows: 9 + 5 + 5.
  CHECK(ms(run_step(two_layers(), messages, s).step) == Approx(19));
}
