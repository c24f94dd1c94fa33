// Traces of the PyTorch profiler: what of a step is compute, copy, collective and idle; and the model made of it.
#include "ddlsim/importers/kineto_file.h"

#include <zlib.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "catalog.h"
#include "ddlsim/io/model_file.h"
#include "unit/importers/trace_text.h"

namespace {

using namespace ddlsim;
using namespace ddlsim::importers;
using namespace ddlsim::io;
using namespace ddlsim::test;
using Catch::Matchers::Contains;

const std::string kAllReduceName = "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)";

MeasuredStep read_text_of(const TraceText& trace, const KinetoOptions& options = {}) {
  const TraceFile file(trace.text(), "made.json");
  auto step = read_kineto(std::vector{file.path()}, options);
  if (!step) FAIL(to_string(step.error()));
  return std::move(*step);
}

std::string error_of(const std::string& text, const KinetoOptions& options = {}) {
  const TraceFile file(text, "made.json");
  const auto step = read_kineto(std::vector{file.path()}, options);
  return step ? std::string() : to_string(step.error());
}

double us(Time time) { return time.in(microseconds); }

/// The example of the header: kernels 0-10 and 5-15 on two streams, an all-reduce 12-20, in a step of 25.
TraceText example() {
  return {{step_event(0, 100, 25), launch_event(100, 1, 1), launch_event(102, 1, 2), launch_event(106, 1, 3),
           kernel_event("sgemm", 100, 10, 7, 1), kernel_event("relu", 105, 10, 8, 2),
           kernel_event(kAllReduceName, 112, 8, 9, 3)}};
}

}  // namespace

TEST_CASE("kineto: the example of the header") {
  const MeasuredStep step = read_text_of(example());
  const TracedStep& typical = step.rank().typical;
  CHECK(us(typical.duration) == Approx(25));
  CHECK(us(typical.split.compute) == Approx(15));
  CHECK(us(typical.split.collectives) == Approx(5));  // 15 to 20
  CHECK(us(typical.split.idle) == Approx(5));
  CHECK(us(typical.split.collectives_beside) == Approx(3));
  CHECK(typical.split.copies == Time::zero());
  CHECK(us(typical.launch_interval) == Approx(2));  // gaps 2 and 4, the lower of two
  CHECK(step.rank().gpu == "Tesla V100-SXM2-16GB");
  REQUIRE(typical.kernels.size() == 3);
  CHECK(us(typical.kernels[0].alone) == Approx(10));
  CHECK(us(typical.kernels[1].alone) == Approx(5));
}

TEST_CASE("kineto: where a kernel was launched says what it is for") {
  TraceText trace = example();
  trace.events = {step_event(0, 0, 100),
                  span_event("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 20, 10, 2),
                  span_event("user_annotation", "Optimizer.step#AdamW.step", 40, 10, 1),
                  launch_event(5, 1, 1),
                  launch_event(25, 2, 2),
                  launch_event(26, 1, 3),  // at the same time on another thread
                  launch_event(45, 1, 4),
                  kernel_event("a", 6, 1, 7, 1),
                  kernel_event("b", 26, 1, 7, 2),
                  kernel_event("c", 28, 1, 7, 3),
                  kernel_event("d", 46, 1, 7, 4)};
  const MeasuredStep step = read_text_of(trace);
  const std::vector<TracedKernel>& kernels = step.rank().typical.kernels;
  REQUIRE(kernels.size() == 4);
  CHECK(kernels[0].phase == StepPhase::kForward);
  CHECK(kernels[1].phase == StepPhase::kBackward);
  CHECK(kernels[2].phase == StepPhase::kForward);
  CHECK(kernels[3].phase == StepPhase::kUpdate);
  CHECK(step.rank().optimizer == "AdamW");
}

TEST_CASE("kineto: collectives, by their kernels' args, by what is around the launch, by their names") {
  TraceText trace = example();
  trace.events = {step_event(0, 0, 100),
                  launch_event(5, 1, 1),
                  launch_event(15, 1, 2),
                  launch_event(25, 1, 3),
                  span_event("user_annotation", "nccl:all_to_all", 14, 3, 1,
                             R"("Input Dims": [[4, 256], []], "Input type": ["float", ""])"),
                  kernel_event("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(x)", 6, 4, 7, 1,
                               R"(, "Collective name": "_reduce_scatter_base", "In msg nelems": 4096, "Group size": 8,)"
                               R"( "dtype": "BFloat16")"),
                  kernel_event("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", 16, 4, 7, 2),
                  kernel_event(kAllReduceName, 26, 4, 7, 3)};
  const MeasuredStep step = read_text_of(trace);
  const std::vector<TracedKernel>& kernels = step.rank().typical.kernels;
  REQUIRE(kernels.size() == 3);
  const TracedCollective& scatter = kernels[0].collective.value();
  CHECK(scatter.op == primitives::CollectiveOp::kReduceScatter);
  CHECK(scatter.elements == 4096);
  CHECK(scatter.group == 8);
  CHECK(scatter.type == "BFloat16");
  const TracedCollective& all_to_all = kernels[1].collective.value();
  CHECK(all_to_all.op == primitives::CollectiveOp::kAllToAll);
  CHECK(all_to_all.elements == 1024);
  CHECK(all_to_all.type == "float");
  const TracedCollective& sum = kernels[2].collective.value();
  CHECK(sum.op == primitives::CollectiveOp::kAllReduce);
  CHECK(sum.type == "float");
  CHECK_FALSE(sum.elements);
}

TEST_CASE("kineto: kernels by their names") {
  CHECK(bound_of_kernel("volta_sgemm_128x64_nn") == workload::Bound::kCompute);
  CHECK(bound_of_kernel("void cutlass::Kernel<cutlass_80_tensorop_s1688>") == workload::Bound::kCompute);
  CHECK(bound_of_kernel("void cudnn::winograd_nonfused::winogradForwardData4x4") == workload::Bound::kCompute);
  CHECK(bound_of_kernel("Cijk_Ailk_Bljk_SB_MT32x32x8") == workload::Bound::kCompute);
  CHECK(bound_of_kernel("void at::native::vectorized_elementwise_kernel<4, conv>") == workload::Bound::kMemory);
  CHECK(bound_of_kernel("void at::native::batch_norm_transform_input_kernel") == workload::Bound::kMemory);
  CHECK_FALSE(collective_of_kernel("volta_sgemm_128x64_nn"));
  CHECK(collective_of_kernel("ncclAllReduceRingLLKernel_sum_f32(ncclColl)")->op ==
        primitives::CollectiveOp::kAllReduce);
  CHECK(collective_of_kernel("ncclAllReduceRingLLKernel_sum_f32(ncclColl)")->type == "f32");
  CHECK(collective_of_kernel("ncclDevKernel_AllGather_RING_LL(x)")->op == primitives::CollectiveOp::kAllGather);
  CHECK(collective_of_kernel("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(x)")->type == "int8_t");
  CHECK_FALSE(collective_of_kernel("ncclDevKernel_Generic(x)")->op);
}

TEST_CASE("kineto: medians, the first of three steps left out") {
  TraceText trace = example();
  trace.events.clear();
  // Steps of 90, 30 and 20 us with a kernel of 50, 8 and 4: the lower of the last two.
  const std::vector<std::pair<double, double>> steps{{90, 50}, {30, 8}, {20, 4}};
  double start = 0;
  for (int i = 0; i < 3; ++i) {
    const auto& [step, kernel] = steps[static_cast<std::size_t>(i)];
    trace.events.push_back(step_event(i, start, step));
    trace.events.push_back(launch_event(start + 1, 1, i));
    trace.events.push_back(kernel_event("sgemm", start + 2, kernel, 7, i));
    start += 100;
  }
  const MeasuredStep step = read_text_of(trace);
  CHECK(step.rank().steps.size() == 3);
  CHECK(us(step.rank().typical.duration) == Approx(20));
  CHECK(us(step.rank().typical.kernels.front().duration) == Approx(4));
  CHECK(step.rank().typical.name == "ProfilerStep#2");
}

TEST_CASE("kineto: a collective needs what it took on the rank that came last") {
  TraceText early = example();
  TraceText late = example();
  late.rank = 1;
  late.events.back() = kernel_event(kAllReduceName, 117, 3, 9, 3);
  const TraceFile first(early.text(), "a.json");
  const TraceFile second(late.text(), "b.json");
  const auto step = read_kineto(std::vector{second.path(), first.path()});
  REQUIRE(step);
  REQUIRE(step->ranks.size() == 2);
  CHECK(step->ranks[0].rank == 0);
  CHECK(us(step->ranks[0].typical.split.collectives_waiting) == Approx(5));  // 8 - 3
  CHECK(step->ranks[1].typical.split.collectives_waiting == Time::zero());
  CHECK_THAT(step->notes.front(), Contains("2 ranks"));
}

TEST_CASE("kineto: ranks of different jobs") {
  const TraceFile first(example().text(), "a.json");
  const auto with = [&](auto change) {
    TraceText other = example();
    other.rank = 1;
    change(other);
    const TraceFile second(other.text(), "b.json");
    const auto step = read_kineto(std::vector{first.path(), second.path()});
    return step ? std::string() : to_string(step.error());
  };
  CHECK(with([](TraceText&) {}).empty());
  CHECK_THAT(with([](TraceText& t) { t.rank = 0; }), Contains("a second trace of rank 0"));
  CHECK_THAT(with([](TraceText& t) { t.world = 4; }), Contains("a job of 4 ranks") && Contains("is of 2"));
  CHECK_THAT(with([](TraceText& t) { t.rank = 2; }), Contains("rank 2 of 2"));
}

TEST_CASE("kineto: without step markers, the whole trace if asked") {
  TraceText trace = example();
  trace.events.erase(trace.events.begin());
  CHECK_THAT(error_of(trace.text()), Contains("no step markers") && Contains("--whole"));
  const MeasuredStep step = read_text_of(trace, {.whole = true});
  CHECK(us(step.rank().typical.duration) == Approx(20));  // the first launch at 100, the all-reduce done at 120
}

TEST_CASE("kineto: times of nanoseconds beside a clock of 10^15 microseconds") {
  TraceText trace = example();
  trace.events = {R"({"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": "main",)"
                  R"( "ts": 1694128201426674.125, "dur": 9.5})",
                  R"({"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1694128201426675.25,)"
                  R"( "dur": 1.001, "args": {"stream": 7}})"};
  const MeasuredStep step = read_text_of(trace);
  CHECK(us(step.rank().typical.duration) == Approx(9.5).epsilon(1e-12));
  CHECK(us(step.rank().typical.split.compute) == Approx(1.001).epsilon(1e-9));
}

TEST_CASE("kineto: events that cannot be") {
  const auto with = [](const std::string& event) {
    TraceText trace = example();
    trace.events.push_back(event);
    return error_of(trace.text());
  };
  CHECK_THAT(with(kernel_event("k", 1, -1, 7, 9)), Contains("'k' has a negative duration") && Contains("at byte"));
  CHECK_THAT(with(R"({"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1e999})"), Contains("1e999"));
  CHECK_THAT(with(R"({"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": NaN})"), Contains("at byte"));
  CHECK_THAT(with(R"({"ph": "X", "cat": "kernel", "name": "k", "ts": 99999999999999999999, "dur": 1})"),
             Contains("'ts' of the event 'k'"));
  CHECK_THAT(with(R"({"ph": "X", "cat": "kernel", "name": "k", "ts": 1})"), Contains("has no duration"));
  CHECK(with(R"({"ph": "i", "name": "Iteration Start", "ts": "soon"})").empty());
}

TEST_CASE("kineto: gzip is unpacked, also in several members") {
  const auto pack = [](const std::string& text) {
    std::string out(text.size() + 200, '\0');
    z_stream stream{};
    REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    std::string in = text;
    stream.next_in = reinterpret_cast<Bytef*>(in.data());
    stream.avail_in = static_cast<uInt>(in.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
    out.resize(stream.total_out);
    deflateEnd(&stream);
    return out;
  };
  const std::string text = example().text();
  for (const std::string& packed : {pack(text), pack(text.substr(0, 99)) + pack(text.substr(99))}) {
    const TraceFile file(packed, "made.json.gz");
    const auto step = read_kineto(std::vector{file.path()});
    REQUIRE(step);
    CHECK(us(step->rank().typical.duration) == Approx(25));
  }
  CHECK_THAT(error_of(pack(text).substr(0, 150)), Contains("cut short"));
}

namespace {

/// Forward a, backward b and c with an all-reduce of 300 between them and one of 50 after, then the update.
TraceText training() {
  TraceText trace;
  trace.events = {
      step_event(0, 0, 1000),
      launch_event(10, 1, 1),
      span_event("cpu_op", "autograd::engine::evaluate_function: x", 100, 500, 2),
      launch_event(110, 2, 2),
      span_event("user_annotation", "nccl:all_reduce", 200, 50, 2, R"("Input Dims": [[300]], "Input type": ["float"])"),
      launch_event(210, 2, 3),
      launch_event(310, 2, 4),
      span_event("user_annotation", "nccl:all_reduce", 400, 50, 2, R"("Input Dims": [[50]], "Input type": ["float"])"),
      launch_event(410, 2, 5),
      span_event("user_annotation", "Optimizer.step#SGD.step", 700, 50, 1),
      launch_event(710, 1, 6),
      gpu_event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 1, 4, 20, 7, R"(, "bytes": 640)"),
      kernel_event("void at::relu_kernel<float>(int)", 20, 100, 7, 1),
      kernel_event("volta_sgemm_nn", 120, 60.5, 7, 2),
      kernel_event(kAllReduceName, 220, 30, 9, 3),
      kernel_event("volta_sgemm_nt", 320, 40, 7, 4),
      kernel_event(kAllReduceName, 420, 30, 9, 5),
      kernel_event("multi_tensor_apply_kernel", 720, 10, 7, 6)};
  return trace;
}

}  // namespace

TEST_CASE("kineto: a measured step becomes a model file that reads back the same") {
  const MeasuredStep step = read_text_of(training());
  const hardware::Gpu gpu = catalog().gpu("v100-sxm2-16gb").value();
  const auto description = describe(step, gpu, {.id = "mine", .batch = 64});
  REQUIRE(description);
  const auto text = write_model(*description);
  REQUIRE(text);
  INFO(*text);
  CHECK_THAT(*text,
             Contains("- measured: {name: \"multi_tensor_apply_kernel\", forward: 10 us}\n"
                      "  - measured: {name: \"relu_kernel\", forward: 100 us}\n"
                      "  - measured: {name: \"volta_sgemm_nt\", backward: 40 us, bound: compute, gradients: [50]}\n"
                      "  - measured: {name: \"volta_sgemm_nn\", backward: 60.5 us, bound: compute, "
                      "gradients: [300]}\n"));
  // The GPU is idle for over a tenth: 1000 us over four kernels.
  CHECK_THAT(*text, Contains("measured_on: {gpu: \"v100-sxm2-16gb\", precision: fp32, peak: 15.7 TFLOP/s, "
                             "memory_bandwidth: 900 GB/s, launch_interval: 250 us, update: true}"));
  CHECK_THAT(*text, Contains("bytes: 10 B"));  // 640 / 64
  const auto read = parse_yaml(*text, "mine.yaml").and_then([](const Node& node) { return read_model(node); });
  if (!read) FAIL(to_string(read.error()));
  const auto built = build_model(*description);
  REQUIRE(built);
  REQUIRE(read->layers.size() == built->layers.size());
  for (std::size_t i = 0; i < read->layers.size(); ++i) {
    CHECK(read->layers[i].measured->forward == built->layers[i].measured->forward);
    CHECK(read->layers[i].measured->backward == built->layers[i].measured->backward);
    CHECK(read->layers[i].measured->bound == built->layers[i].measured->bound);
    CHECK(read->layers[i].parameters == built->layers[i].parameters);
    CHECK(read->layers[i].backward_kernels == built->layers[i].backward_kernels);
  }
  CHECK(read->measured->launch_interval == built->measured->launch_interval);
  CHECK(read->measured->peak == built->measured->peak);
  CHECK(read->measured->memory == built->measured->memory);
  CHECK(read->totals.dense_parameters == 350);
}

TEST_CASE("kineto: without collectives the accumulated parameters are the gradients") {
  TraceText trace = training();
  std::erase_if(trace.events, [](const std::string& event) { return event.find("nccl") != std::string::npos; });
  for (const auto& [start, dims] : {std::pair{150, "[[20, 5]]"}, std::pair{330, "[[7]]"}}) {
    trace.events.push_back(
        span_event("cpu_op", "torch::autograd::AccumulateGrad", start, 1, 2, fmt::format(R"("Input Dims": {})", dims)));
  }
  const auto description = describe(read_text_of(trace), catalog().gpu("v100-sxm2-16gb").value(), {.id = "m"});
  REQUIRE(description);
  const auto text = write_model(*description);
  REQUIRE(text);
  CHECK_THAT(*text, Contains("volta_sgemm_nt\", backward: 40 us, bound: compute, gradients: [7]") &&
                        Contains("volta_sgemm_nn\", backward: 60.5 us, bound: compute, gradients: [100]"));
  CHECK_THAT(description->notes, Contains("2 tensors that autograd accumulated"));
}

TEST_CASE("kineto: other collectives keep the time they took") {
  TraceText trace = training();
  for (std::string& event : trace.events) {
    if (event.find("\"Input Dims\": [[50]]") != std::string::npos)
      event.replace(event.find("all_reduce"), 10, "all_gather");
  }
  const auto description = describe(read_text_of(trace), catalog().gpu("v100-sxm2-16gb").value(), {.id = "m"});
  REQUIRE(description);
  const auto text = write_model(*description);
  REQUIRE(text);
  CHECK_THAT(*text, Contains("backward: 30 us, bound: fixed"));
  CHECK_THAT(description->notes, Contains("collectives that are no gradients take 30 us"));
}

TEST_CASE("kineto: a DLRM on eight V100s") {
  const std::filesystem::path packed =
      std::filesystem::path(DDLSIM_SOURCE_DATA) / "../shared/data/samples/kineto/dlrm_kineto.tar.gz";
  if (!std::filesystem::exists(packed)) {
    WARN("the sample traces are not here: skipped");
    return;
  }
  const TraceFile folder("", "empty");
  REQUIRE(std::system(("tar xzf " + packed.string() + " -C " + folder.folder().string()).c_str()) == 0);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder.folder() / "dlrm_kineto")) {
    files.push_back(entry.path());
  }
  const auto step = read_kineto(files);
  if (!step) FAIL(to_string(step.error()));
  REQUIRE(step->ranks.size() == 8);
  for (const TracedRank& rank : step->ranks) {
    const TracedStep& typical = rank.typical;
    CHECK(rank.gpu == "Tesla V100-SXM2-32GB");
    CHECK(rank.optimizer == "Adagrad");
    const StepSplit& split = typical.split;
    CHECK((split.compute + split.copies + split.collectives + split.idle).in(seconds) ==
          Approx(typical.duration.in(seconds)));
    CHECK(typical.gradients.size() == 16);
    const auto reduced = std::count_if(typical.kernels.begin(), typical.kernels.end(), [](const TracedKernel& kernel) {
      return kernel.collective && kernel.collective->op == primitives::CollectiveOp::kAllReduce &&
             kernel.phase == StepPhase::kBackward && kernel.collective->elements;
    });
    CHECK(reduced == 3);
  }
  CHECK(us(step->ranks[0].typical.duration) == Approx(14455));  // its ProfilerStep#10
  const auto description = describe(*step, catalog().gpu("v100-sxm2-32gb").value(), {.id = "dlrm"});
  REQUIRE(description);
  const auto model = build_model(*description);
  REQUIRE(model);
  CHECK(model->parameters() == 394'241 + 112 + 226'960);
}
