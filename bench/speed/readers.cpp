// Speed of what turns other programs' files into ours: a profiler's trace, an ONNX graph, a table of measured kernels.
// The files are made here when a bench starts, in the folder for temporary ones.
#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "ddlsim/calib/convolution_fit.h"
#include "ddlsim/calib/fit.h"
#include "ddlsim/calib/gemm_fit.h"
#include "ddlsim/cost/memory_bound_time.h"
#include "ddlsim/importers/kineto_file.h"
#include "ddlsim/importers/onnx_file.h"
#include "ddlsim/io/catalog.h"
#include "unit/importers/onnx_bytes.h"

namespace {

using namespace ddlsim;
using namespace ddlsim::test;

/// One kernel as torch.profiler writes it: the operator, its launch and the kernel, with the arguments of each.
void write_kernel(std::string& out, int number, double cpu, double gpu, bool backward) {
  constexpr std::array kNames{"aten::convolution", "aten::batch_norm", "aten::relu_", "aten::add_"};
  constexpr std::array kKernels{
      "void cudnn::winograd_nonfused::winogradForwardFilter4x4<float, float>(Params)",
      "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>(cudnnTensorStruct, float const*)",
      "void at::native::vectorized_elementwise_kernel<4, at::native::launch_clamp_scalar(at::TensorIteratorBase&)>",
      "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array>"};
  const auto kind = static_cast<std::size_t>(number) % kNames.size();
  const std::string name =
      backward ? fmt::format("autograd::engine::evaluate_function: {}Backward0", kNames[kind]) : kNames[kind];
  out += fmt::format(
      R"({{"ph": "X", "cat": "cpu_op", "name": "{}", "pid": 411, "tid": {}, "ts": {:.3f}, "dur": 5.500,)"
      R"( "args": {{"External id": {}, "Record function id": 0, "Ev Idx": {}, "Sequence number": {},)"
      R"( "Input Dims": [[64, 256, 56, 56], [256, 256, 3, 3], []], "Input type": ["float", "float", ""]}}}},)"
      "\n",
      name, backward ? 412 : 411, cpu, number, number, number);
  out += fmt::format(
      R"({{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 411, "tid": {}, "ts": {:.3f},)"
      R"( "dur": 3.250, "args": {{"External id": {}, "cbid": 211, "correlation": {}}}}},)"
      "\n",
      backward ? 412 : 411, cpu + 1, number, number);
  out += fmt::format(
      R"({{"ph": "X", "cat": "kernel", "name": "{}", "pid": 0, "tid": 7, "ts": {:.3f}, "dur": 6.000,)"
      R"( "args": {{"External id": {}, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": {},)"
      R"( "registers per thread": 32, "shared memory": 0, "blocks per SM": 19.6, "warps per SM": 78.4,)"
      R"( "grid": [1568, 1, 1], "block": [128, 1, 1], "est. achieved occupancy %": 100}}}},)"
      "\n",
      kKernels[kind], gpu, number, number);
}

/// Ten steps of `kernels` each, half of them backward.
std::string trace_text(int kernels) {
  std::string out =
      R"({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "Tesla V100-SXM2-16GB"}], "traceEvents": [)"
      "\n";
  double now = 1e6;
  int number = 1;
  for (int step = 0; step < 10; ++step) {
    const double start = now;
    for (int i = 0; i < kernels; ++i, now += 8) write_kernel(out, number++, now, now + 4, i >= kernels / 2);
    out += fmt::format(R"({{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{}", "pid": 411, "tid": 411,)"
                       R"( "ts": {:.3f}, "dur": {:.3f}, "args": {{}}}},)"
                       "\n",
                       step + 1, start - 1, now - start + 2);
    now += 50;
  }
  return out + R"({"ph": "M", "name": "process_name", "pid": 411, "args": {"name": "python"}}]})";
}

void import_kineto(benchmark::State& state) {
  const OnnxFile file(trace_text(6500), "trace.json");
  const std::vector<std::filesystem::path> paths{file.path()};
  const auto size = std::filesystem::file_size(file.path());
  if (size < 50'000'000) state.SkipWithError("the trace is smaller than 50 MB");
  for (auto _ : state) {
    const auto step = importers::read_kineto(paths);
    if (!step || step->rank().typical.kernels.size() != 6500) {
      state.SkipWithError(step ? "kernels are missing" : to_string(step.error()).c_str());
      break;
    }
  }
  state.SetLabel(fmt::format("{} MB", size / 1'000'000));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(import_kineto)
    ->Name("Kineto import, trace of 64 MB, 65,000 kernels")
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

/// ResNet-50 v1.5 as exporters write it, weights (of zeros) and all: 102 MB.
class ResNet50 {
 public:
  ResNet50() {
    graph_.inputs.push_back(value_info("x", {-1, 3, 224, 224}));
    std::string at = relu(convolution("x", {3, 64, 7, 2}));
    at = add("MaxPool", {at}, {ints("kernel_shape", {3, 3}), ints("strides", {2, 2}), ints("pads", {1, 1, 1, 1})});
    std::int64_t in = 64;
    constexpr std::array<int, 4> kBlocks{3, 4, 6, 3};
    for (std::size_t stage = 0; stage < kBlocks.size(); ++stage) {
      const std::int64_t width = std::int64_t{64} << stage;
      for (int block = 0; block < kBlocks[stage]; ++block) {
        const std::int64_t stride = stage > 0 && block == 0 ? 2 : 1;
        std::string branch = relu(convolution(at, {in, width, 1, 1}));
        branch = relu(convolution(branch, {width, width, 3, stride}));
        branch = convolution(branch, {width, 4 * width, 1, 1});
        const std::string shortcut = block == 0 ? convolution(at, {in, 4 * width, 1, stride}) : at;
        at = relu(add("Add", {branch, shortcut}));
        in = 4 * width;
      }
    }
    at = add("Flatten", {add("GlobalAveragePool", {at})});
    static_cast<void>(add("Gemm", {at, tensor({1000, in}), tensor({1000})}, {integer("transB", 1)}));
  }
  [[nodiscard]] std::string bytes() const { return model_of(graph_); }

 private:
  std::string add(const std::string& op, const Names& inputs, const Names& attributes = {}) {
    std::string out = "t" + std::to_string(++names_);
    graph_.nodes.push_back(node(op, inputs, {out}, attributes));
    return out;
  }
  std::string relu(const std::string& in) { return add("Relu", {in}); }
  std::string tensor(const Sizes& dims) {
    std::string name = "w" + std::to_string(++names_);
    std::size_t bytes = 4;
    for (const std::int64_t size : dims) bytes *= static_cast<std::size_t>(size);
    graph_.initializers.push_back(weight(name, dims) + field(9, std::string(bytes, '\0')));  // raw_data
    return name;
  }
  struct Convolution {
    std::int64_t in = 1;  // channels
    std::int64_t out = 1;
    std::int64_t kernel = 1;
    std::int64_t stride = 1;
  };
  std::string convolution(const std::string& x, const Convolution& what) {
    const std::int64_t side = what.kernel;
    const std::int64_t pad = side / 2;
    const std::string out = add("Conv", {x, tensor({what.out, what.in, side, side})},
                                {ints("kernel_shape", {side, side}), ints("strides", {what.stride, what.stride}),
                                 ints("pads", {pad, pad, pad, pad})});
    const Sizes channels{what.out};
    return add("BatchNormalization", {out, tensor(channels), tensor(channels), tensor(channels), tensor(channels)});
  }

  OnnxGraph graph_;
  int names_ = 0;
};

void import_onnx(benchmark::State& state) {
  const OnnxFile file(ResNet50().bytes(), "resnet50.onnx");
  for (auto _ : state) {
    const auto imported = importers::import_onnx(file.path(), {});
    if (!imported || imported->model.parameters() != 25'557'032) {
      state.SkipWithError(imported ? "not ResNet-50's parameters" : to_string(imported.error()).c_str());
      break;
    }
  }
  state.SetLabel(fmt::format("{} MB", std::filesystem::file_size(file.path()) / 1'000'000));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(import_onnx)->Name("ONNX import, ResNet-50 with weights")->UseRealTime()->Unit(benchmark::kMillisecond);

/// Rows that a shipped profile's own curves would give, 3 % either way: of GEMMs, convolutions and kernels bound by
/// memory.
class Rows {
 public:
  Rows(const hardware::GpuProfile& profile, const hardware::Gpu& gpu) {
    for (int i = 0; i < 16'000; ++i) gemm(profile.gemms.front(), gpu);
    for (int i = 0; i < 4'000; ++i) convolution(profile.convolutions.front(), gpu);
    for (int i = 0; i < 10'000; ++i)
      memory_bound(profile.memory_bound[static_cast<std::size_t>(i) % profile.memory_bound.size()], gpu);
  }
  std::vector<primitives::KernelMeasurement> take() { return std::move(rows_); }

 private:
  std::int64_t octaves(double least, double most) {
    return std::llround(std::exp2(std::uniform_real_distribution(std::log2(least), std::log2(most))(random_)));
  }
  void add(const decltype(primitives::KernelMeasurement::what)& what, Precision precision, Time time,
           std::string series = {}) {
    time = time * std::uniform_real_distribution(0.97, 1.03)(random_);
    rows_.push_back({what, precision, time, std::move(series), static_cast<int>(rows_.size()) + 2, false});
  }
  void gemm(const hardware::GemmCurve& curve, const hardware::Gpu& gpu) {
    const primitives::Gemm what{1, octaves(16, 8192), octaves(16, 8192), octaves(16, 8192),
                                primitives::BatchScales::kM};
    const hardware::GemmSize size{1, static_cast<double>(what.m), static_cast<double>(what.n),
                                  static_cast<double>(what.k)};
    add(what, curve.precision, calib::as_measured(curve, hardware::device_spec(gpu, curve.precision), size));
  }
  void convolution(const hardware::ConvolutionCurve& curve, const hardware::Gpu& gpu) {
    const std::int64_t side = octaves(7, 112);
    const std::int64_t kernel = random_() % 2 == 0 ? 1 : 3;
    const auto pass = primitives::kConvolutionPasses[random_() % primitives::kConvolutionPasses.size()].second;
    const primitives::ConvolutionShape shape{.pass = pass,
                                             .in = octaves(16, 1024),
                                             .out = octaves(16, 1024),
                                             .input = {side, side},
                                             .output = {side, side},
                                             .kernel = {kernel, kernel}};
    const std::int64_t batch = octaves(1, 128);
    const Time time = calib::as_measured(curve, hardware::device_spec(gpu, curve.precision), {shape, batch, {}, {}});
    add(primitives::TimedConvolution{shape, batch}, curve.precision, time);
  }
  void memory_bound(const hardware::MemoryBoundCurve& curve, const hardware::Gpu& gpu) {
    const std::int64_t row = curve.kind == primitives::MemoryBoundKind::kElementwise ? 0
                             : curve.row_from > 0                                    ? octaves(1100, 8192)
                                                                                     : octaves(32, 1000);
    const DataSize traffic = bytes(static_cast<double>(octaves(1e5, 1e9)));
    const Time kernel = cost::memory_bound_time(curve, hardware::device_spec(gpu, Precision::kFp32),
                                                {traffic, cost::rows_of(traffic, row, bytes(4))});
    const hardware::MeasuringOverhead& overhead = curve.overheads.front();
    add(primitives::TimedMemoryBound{curve.kind, traffic, row}, Precision::kFp32, cost::measured_time(overhead, kernel),
        overhead.series);
  }

  std::mt19937_64 random_{4};
  std::vector<primitives::KernelMeasurement> rows_;
};

void fit(benchmark::State& state) {
  const io::Catalog catalog = io::Catalog::open(DDLSIM_SOURCE_DATA).value();
  const auto profile = catalog.profile("p100-pcie-16gb").value();
  const hardware::Gpu gpu = catalog.gpu(profile->gpu).value();
  const std::vector<primitives::KernelMeasurement> rows = Rows(*profile, gpu).take();
  double error = 0;
  for (auto _ : state) {
    const auto fitted = calib::fit_profile(rows, gpu);
    if (!fitted) {
      state.SkipWithError(to_string(fitted.error()).c_str());
      break;
    }
    error = fitted->gemms.front().report.mean;
  }
  state.SetLabel(fmt::format("{} rows, GEMMs {:.1f} % off where held out", rows.size(), 100 * error));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(fit)->Name("fit of a GPU's profile to 30,000 rows")->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
