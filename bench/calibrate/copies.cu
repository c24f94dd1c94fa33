// Copies between host and device, one way and both, from pinned and from pageable memory; between GPUs.
#include <cstring>

#include "benches.h"

namespace ddlsim::measure {
namespace {

constexpr std::size_t kMost = std::size_t{512} << 20;

struct Buffers {
  Gpu& gpu;
  char* pinned_in = nullptr;
  char* pinned_out = nullptr;
  std::vector<char> pageable;
  char* peer = nullptr;
  int peer_device = -1;
  int device = 0;
  cudaEvent_t fork = nullptr;
  cudaEvent_t join = nullptr;

  explicit Buffers(Gpu& of) : gpu(of), pageable(kMost, 1) {
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaHostAlloc(reinterpret_cast<void**>(&pinned_in), kMost, cudaHostAllocDefault), "cudaHostAlloc");
    check(cudaHostAlloc(reinterpret_cast<void**>(&pinned_out), kMost, cudaHostAllocDefault), "cudaHostAlloc");
    std::memset(pinned_in, 1, kMost);
    std::memset(pinned_out, 2, kMost);
    check(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming), "cudaEventCreate");
    check(cudaEventCreateWithFlags(&join, cudaEventDisableTiming), "cudaEventCreate");
    if (gpu.facts.gpus > 1) open_peer();
  }
  ~Buffers() {
    if (pinned_in != nullptr) (void)cudaFreeHost(pinned_in);
    if (pinned_out != nullptr) (void)cudaFreeHost(pinned_out);
    if (fork != nullptr) (void)cudaEventDestroy(fork);
    if (join != nullptr) (void)cudaEventDestroy(join);
    if (peer != nullptr) (void)cudaFree(peer);
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

 private:
  void open_peer() {
    peer_device = (device + 1) % gpu.facts.gpus;
    check(cudaSetDevice(peer_device), "cudaSetDevice");
    check(cudaMalloc(reinterpret_cast<void**>(&peer), kMost), "cudaMalloc");
    check(cudaSetDevice(device), "cudaSetDevice");
    int can = 0;
    check(cudaDeviceCanAccessPeer(&can, device, peer_device), "cudaDeviceCanAccessPeer");
    // Without access the copy goes through the host, as it would in training.
    if (can != 0 && cudaDeviceEnablePeerAccess(peer_device, 0) != cudaSuccess) (void)cudaGetLastError();
  }
};

Launch one_way(const std::shared_ptr<Buffers>& buffers, const Point& point) {
  return [buffers, point](cudaStream_t stream) {
    const auto bytes = static_cast<std::size_t>(point.bytes);
    Gpu& gpu = buffers->gpu;
    if (point.kind == "h2d") {
      check(cudaMemcpyAsync(gpu.outputs.base(), buffers->pinned_in, bytes, cudaMemcpyHostToDevice, stream), "h2d");
    } else if (point.kind == "d2h") {
      check(cudaMemcpyAsync(buffers->pinned_out, gpu.inputs.base(), bytes, cudaMemcpyDeviceToHost, stream), "d2h");
    } else if (point.kind == "d2d") {
      check(cudaMemcpyAsync(gpu.outputs.base(), gpu.inputs.base(), bytes, cudaMemcpyDeviceToDevice, stream), "d2d");
    } else {
      check(cudaMemcpyPeerAsync(buffers->peer, buffers->peer_device, gpu.inputs.base(), buffers->device, bytes, stream),
            "p2p");
    }
  };
}

Launch both_ways(const std::shared_ptr<Buffers>& buffers, std::int64_t size) {
  return [buffers, size](cudaStream_t stream) {
    const auto bytes = static_cast<std::size_t>(size);
    Gpu& gpu = buffers->gpu;
    check(cudaEventRecord(buffers->fork, stream), "fork");
    check(cudaStreamWaitEvent(gpu.second, buffers->fork, 0), "fork");
    check(cudaMemcpyAsync(gpu.outputs.base(), buffers->pinned_in, bytes, cudaMemcpyHostToDevice, gpu.second), "h2d");
    check(cudaMemcpyAsync(buffers->pinned_out, gpu.inputs.base(), bytes, cudaMemcpyDeviceToHost, stream), "d2h");
    check(cudaEventRecord(buffers->join, gpu.second), "join");
    check(cudaStreamWaitEvent(stream, buffers->join, 0), "join");
  };
}

/// The host takes part in copying pageable memory, so its clock times it.
Measured pageable(Buffers& buffers, const Point& point) {
  Gpu& gpu = buffers.gpu;
  return gpu.time_host([&] {
    const auto bytes = static_cast<std::size_t>(point.bytes);
    const double start = seconds_now();
    if (point.kind == "h2d") {
      check(cudaMemcpyAsync(gpu.outputs.base(), buffers.pageable.data(), bytes, cudaMemcpyHostToDevice, gpu.stream),
            "h2d");
    } else {
      check(cudaMemcpyAsync(buffers.pageable.data(), gpu.inputs.base(), bytes, cudaMemcpyDeviceToHost, gpu.stream),
            "d2h");
    }
    check(cudaStreamSynchronize(gpu.stream), "pageable copy");
    return seconds_now() - start;
  });
}

}  // namespace

Bench make_copies(Gpu& gpu) {
  auto buffers = std::make_shared<Buffers>(gpu);
  return [&gpu, buffers](const Point& point) {
    if (point.bytes > gpu.inputs.size() || point.bytes > gpu.outputs.size()) throw Unavailable("too little memory");
    if (point.what == "pageable") return pageable(*buffers, point);
    // Few at a time: a copy engine's queue is short.
    return gpu.time(point.kind == "both" ? both_ways(buffers, point.bytes) : one_way(buffers, point), {}, 32);
  };
}

}  // namespace ddlsim::measure
