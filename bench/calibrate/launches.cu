// What a launch costs: the GPU between two kernels, the CPU for one call, a graph instead of calls.
#include "benches.h"

namespace ddlsim::measure {
namespace {

constexpr int kInARow = 2000;
constexpr int kBehindGate = 400;  // fewer than the driver holds before a launch waits (about 1000)
constexpr int kGraphKernels = 200;

__global__ void empty_kernel() {}

void launch_empty(cudaStream_t stream) {
  empty_kernel<<<1, 32, 0, stream>>>();
  check_launch("empty kernel");
}

struct Graph {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  explicit Graph(cudaStream_t stream) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    for (int i = 0; i < kGraphKernels; ++i) launch_empty(stream);
    check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    check(cudaGraphInstantiateWithFlags(&exec, graph, 0), "cudaGraphInstantiate");
    check(cudaGraphUpload(exec, stream), "cudaGraphUpload");
    check(cudaStreamSynchronize(stream), "cudaGraphUpload");
  }
  ~Graph() {
    if (exec != nullptr) (void)cudaGraphExecDestroy(exec);
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
};

/// The CPU's time for each of `count` calls while the GPU waits.
Measured cpu_cost(Gpu& gpu, const Launch& launch, int count) {
  launch(gpu.stream);
  return gpu.time_host([&] {
    check(cudaStreamSynchronize(gpu.stream), "launches");
    gpu.close_gate(gpu.stream);
    const double start = seconds_now();
    for (int i = 0; i < count; ++i) launch(gpu.stream);
    const double seconds = seconds_now() - start;
    gpu.open_gate();
    check(cudaStreamSynchronize(gpu.stream), "launches");
    return seconds / count;
  });
}

/// From the first of many launches in a row to the last, whichever of CPU and GPU is slower.
Measured in_a_row(Gpu& gpu) {
  return gpu.time_host([&] {
    const double start = seconds_now();
    for (int i = 0; i < kInARow; ++i) launch_empty(gpu.stream);
    check(cudaStreamSynchronize(gpu.stream), "launches");
    return (seconds_now() - start) / kInARow;
  });
}

Measured with_graph(Gpu& gpu, bool cpu) {
  auto graph = std::make_shared<Graph>(gpu.stream);
  const Launch replay = [graph](cudaStream_t stream) {
    check(cudaGraphLaunch(graph->exec, stream), "cudaGraphLaunch");
  };
  if (cpu) return cpu_cost(gpu, replay, 4);  // of a whole graph
  Measured measured = gpu.time(replay, {}, 4);
  divide(measured, kGraphKernels);
  return measured;
}

}  // namespace

Bench make_launches(Gpu& gpu, std::shared_ptr<Cublas> cublas) {
  return [&gpu, cublas](const Point& point) -> Measured {
    if (point.what == "launch") return in_a_row(gpu);
    if (point.what == "event") return gpu.time([](cudaStream_t) {}, {}, 1);
    if (point.what == "gated") return gpu.time(launch_empty);
    if (point.what == "cpu") return cpu_cost(gpu, launch_empty, kBehindGate);
    if (point.what == "graph" || point.what == "graph-cpu") return with_graph(gpu, point.what == "graph-cpu");
    if (point.what == "round-trip") {
      return gpu.time_host([&gpu] {
        const double start = seconds_now();
        launch_empty(gpu.stream);
        check(cudaStreamSynchronize(gpu.stream), "round trip");
        return seconds_now() - start;
      });
    }
    if (cublas == nullptr) throw Unavailable("cuBLAS was not found");
    Point small;
    small.op = "gemm";
    small.precision = "fp32";
    small.m = small.n = small.k = 128;
    return cpu_cost(gpu, gemm_launch(gpu, cublas, small), kBehindGate / 2);
  };
}

}  // namespace ddlsim::measure
