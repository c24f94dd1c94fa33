// Laws of a measured step, on random traces; and of the model made of it.
#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "catalog.h"
#include "ddlsim/importers/kineto_file.h"
#include "ddlsim/io/model_file.h"
#include "ddlsim/whatif/predict.h"
#include "overrides.h"
#include "unit/importers/trace_text.h"

using namespace ddlsim;
using namespace ddlsim::importers;
using namespace ddlsim::io;
using namespace ddlsim::test;
using ddlsim::test::overrides;

namespace {

int number(int lowest, int highest) { return *rc::gen::inRange(lowest, highest + 1); }

/// Work of every kind on a few streams, its times any multiple of a quarter of a microsecond.
TraceText random_trace() {
  TraceText trace;
  trace.events.push_back(step_event(3, 0, 500));
  trace.events.push_back(span_event("cpu_op", "autograd::engine::evaluate_function: x", 100, 150, 2));
  const int count = number(1, 25);
  for (int i = 0; i < count; ++i) {
    trace.events.push_back(launch_event(number(0, 1990) / 4.0, number(1, 2), i));
    const double start = number(0, 2000) / 4.0;
    const double duration = number(0, 200) / 4.0;
    switch (number(0, 3)) {
      case 0: trace.events.push_back(kernel_event("volta_sgemm", start, duration, number(1, 3), i)); break;
      case 1: trace.events.push_back(kernel_event("relu", start, duration, number(1, 3), i)); break;
      case 2:
        trace.events.push_back(gpu_event("gpu_memcpy", "Memcpy DtoD", start, duration, 4, i, R"(, "bytes": 8)"));
        break;
      default:
        trace.events.push_back(kernel_event("ncclKernel_AllReduce_RING_LL_Sum_float(x)", start, duration, 5, i,
                                            R"(, "In msg nelems": 16)"));
    }
  }
  return trace;
}

MeasuredStep measured(const TraceText& trace) {
  const TraceFile file(trace.text(), "made.json");
  return read_kineto(std::vector{file.path()}).value();
}

}  // namespace

TEST_CASE("law: the parts of a step are what the GPU did, once") {
  CHECK(rc::check("parts", [] {
    const TraceText trace = random_trace();
    const TracedStep step = measured(trace).rank().typical;
    const StepSplit& split = step.split;
    // The busy time anew, quarter by quarter.
    std::vector<int> busy(4000, 0);
    Time alone;
    Time compute;
    for (const TracedKernel& kernel : step.kernels) {
      const auto from = static_cast<std::size_t>(kernel.start.in(microseconds)*4.0 + 0.5);
      const auto length = static_cast<std::size_t>(kernel.duration.in(microseconds)*4.0 + 0.5);
      for (std::size_t i = from; i < from + length; ++i) busy[i] |= kernel.work == GpuWork::kCompute ? 2 : 1;
      RC_ASSERT(kernel.alone <= kernel.duration + nanoseconds(0.001));
      RC_ASSERT(kernel.alone >= Time::zero());
      alone += kernel.alone;
      if (kernel.work == GpuWork::kCompute) compute += kernel.alone;
    }
    const auto any = static_cast<double>(std::count_if(busy.begin(), busy.end(), [](int b) { return b > 0; })) / 4.0;
    const auto computing =
        static_cast<double>(std::count_if(busy.begin(), busy.end(), [](int b) { return b > 1; })) / 4.0;
    RC_ASSERT(std::abs(alone.in(microseconds)-any) < 1e-3);
    RC_ASSERT(std::abs(split.compute.in(microseconds)-computing) < 1e-3);
    RC_ASSERT(std::abs((split.compute - compute).in(microseconds)) < 1e-3);
    const Time sum = split.compute + split.copies + split.collectives + split.idle;
    RC_ASSERT(std::abs((sum - max(step.duration, alone)).in(microseconds)) < 1e-3);
  }));
}

TEST_CASE("law: a measured model reads back the same, and one GPU replays its kernels") {
  CHECK(rc::check("replay", [] {
    const auto description =
        describe(measured(random_trace()), catalog().gpu("v100-sxm2-16gb").value(), {.id = "m", .batch = 8});
    if (!description) return;  // all of it took no time, or is a message
    const auto text = write_model(*description).value();
    auto model = read_model(parse_yaml(text, "m.yaml").value()).value();
    const auto built = build_model(*description).value();
    Time sum;
    RC_ASSERT(model.layers.size() == built.layers.size());
    for (std::size_t i = 0; i < model.layers.size(); ++i) {
      const workload::Layer& layer = model.layers[i];
      RC_ASSERT(layer.measured->forward == built.layers[i].measured->forward);
      RC_ASSERT(layer.measured->backward == built.layers[i].measured->backward);
      RC_ASSERT(layer.parameters == built.layers[i].parameters);
      sum += layer.measured->forward + layer.measured->backward;
    }
    const std::vector<whatif::Override> settings =
        overrides("model resnet50; node dgx1-v100; gpus_per_node 1; efficiency.compute 0.3");
    whatif::Scenario scenario = whatif::resolve(catalog(), settings).value();
    model.measured->update = true;  // gradients alone would be an update of their own
    scenario.model = std::make_shared<const workload::Model>(model);
    scenario.batch = model.batch;
    scenario.launch_interval = Time::zero();
    const auto prediction = whatif::predict(scenario).value();
    const answer::Breakdown& parts = prediction.breakdown;
    RC_ASSERT(std::abs((parts.compute + parts.memory - sum).in(microseconds)) < 1e-6 * sum.in(microseconds) + 1e-6);
    // More of what bounds kernels is never slower.
    scenario.cluster.node.gpu.memory_bandwidth = scenario.cluster.node.gpu.memory_bandwidth * 2.0;
    RC_ASSERT(whatif::predict(scenario).value().step_time <= prediction.step_time + nanoseconds(0.001));
  }));
}
