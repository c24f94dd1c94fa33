// A GEMM or a triad while other blocks hold multiprocessors, as a collective's do, or while a copy takes bandwidth.
//
// A holding block asks for all the shared memory that a block may have, so that nothing else fits beside it, and waits
// for the host; it gives up after 4 s.
#include <map>

#include "benches.h"

namespace ddlsim::measure {
namespace {

constexpr int kMostHeld = 64;
constexpr unsigned long long kHoldNanoseconds = 4000000000ULL;
constexpr std::size_t kCopy = std::size_t{256} << 20;

/// control[0]: tickets that may go, control[1]: the last that gave up, control[2 + block]: the ticket that has come.
__global__ void hold_kernel(volatile int* control, int ticket) {
  extern __shared__ char all[];
  if (threadIdx.x != 0) return;
  all[0] = 0;
  control[2 + blockIdx.x] = ticket;
  __threadfence_system();
  const unsigned long long start = nanoseconds();
  while (control[0] < ticket) {
    if (nanoseconds() - start > kHoldNanoseconds) {
      control[1] = ticket;
      __threadfence_system();
      return;
    }
  }
}

class Overlap {
 public:
  Overlap(Gpu& gpu, std::shared_ptr<Cublas> cublas) : gpu_(gpu), cublas_(std::move(cublas)) {
    shared_ = static_cast<int>(gpu.properties.sharedMemPerBlockOptin);
    check(cudaFuncSetAttribute(hold_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_), "shared memory");
    constexpr std::size_t kBytes = (2 + kMostHeld) * sizeof(int);
    check(cudaHostAlloc(reinterpret_cast<void**>(&control_), kBytes, cudaHostAllocMapped), "cudaHostAlloc");
    for (int i = 0; i < 2 + kMostHeld; ++i) control_[i] = 0;
    check(cudaHostGetDevicePointer(reinterpret_cast<void**>(&on_device_), control_, 0), "cudaHostGetDevicePointer");
    hold(1);  // loads the kernel
    release();
  }
  ~Overlap() {
    __atomic_store_n(control_, ticket_, __ATOMIC_RELEASE);
    (void)cudaStreamSynchronize(gpu_.second);
    (void)cudaFreeHost(control_);
    if (host_ != nullptr) (void)cudaFreeHost(host_);
  }
  Overlap(const Overlap&) = delete;
  Overlap& operator=(const Overlap&) = delete;

  Measured measure(const Point& point) {
    const Launch launch = launch_of(point);
    const std::string what = point.what;
    // Alone first: that loads the kernels too, which could not be loaded beside one that waits.
    if (alone_.find(what) == alone_.end()) alone_[what] = gpu_.time(launch);
    Measured measured = alone_[what];
    if (point.extra) {
      measured = beside_copy(point, launch);
    } else if (point.taken > 0) {
      hold(static_cast<int>(point.taken));
      try {
        measured = gpu_.time(launch, StopRule(), 32);
      } catch (...) {
        release();
        throw;
      }
      if (!release()) throw Unavailable("the holding blocks gave up");
    }
    measured.slowdown = measured.time.median / alone_[what].time.median;
    return measured;
  }

 private:
  Launch launch_of(const Point& point) {
    if (point.kind != "gemm") return triad_launch(gpu_, point.bytes);
    if (cublas_ == nullptr) throw Unavailable("cuBLAS was not found");
    Point gemm = point;
    gemm.op = "gemm";
    return gemm_launch(gpu_, cublas_, gemm);
  }

  /// Returns when all have come.
  void hold(int blocks) {
    ++ticket_;
    hold_kernel<<<static_cast<unsigned>(blocks), 32, static_cast<std::size_t>(shared_), gpu_.second>>>(on_device_,
                                                                                                       ticket_);
    check_launch("holding blocks");
    const double deadline = seconds_now() + 1;
    for (int i = 0; i < blocks; ++i) {
      while (__atomic_load_n(control_ + 2 + i, __ATOMIC_ACQUIRE) != ticket_) {
        if (seconds_now() < deadline) continue;
        release();
        throw Unavailable("the holding blocks do not start");
      }
    }
  }

  /// False: they gave up before.
  bool release() {
    __atomic_store_n(control_, ticket_, __ATOMIC_RELEASE);
    check(cudaStreamSynchronize(gpu_.second), "holding blocks");
    return __atomic_load_n(control_ + 1, __ATOMIC_ACQUIRE) != ticket_;
  }

  Measured beside_copy(const Point& point, const Launch& launch) {
    if (host_ == nullptr)
      check(cudaHostAlloc(reinterpret_cast<void**>(&host_), kCopy, cudaHostAllocDefault), "cudaHostAlloc");
    // Apart from what the triad reads and writes.
    char* device = gpu_.outputs.base() + gpu_.outputs.size() / 2 / 512 * 512;
    if (gpu_.outputs.size() / 2 < static_cast<std::int64_t>(kCopy)) throw Unavailable("too little memory");
    const Launch both = [&](cudaStream_t stream) {
      if (cudaStreamQuery(gpu_.second) == cudaSuccess) {
        const int count = point.kind == "d2d" ? 16 : 1;  // some milliseconds of copying
        for (int i = 0; i < count; ++i) {
          const char* from = point.kind == "h2d" ? host_ : point.kind == "d2h" ? device : gpu_.inputs.base();
          char* to = point.kind == "d2h" ? host_ : device;
          check(cudaMemcpyAsync(to, from, kCopy, cudaMemcpyDefault, gpu_.second), "copy beside");
        }
      }
      (void)cudaGetLastError();  // "not ready" is an answer
      launch(stream);
    };
    const Measured measured = gpu_.time(both, StopRule(), 8);
    check(cudaStreamSynchronize(gpu_.second), "copy beside");
    return measured;
  }

  Gpu& gpu_;
  std::shared_ptr<Cublas> cublas_;
  std::map<std::string, Measured> alone_;
  int* control_ = nullptr;
  int* on_device_ = nullptr;
  char* host_ = nullptr;
  int shared_ = 0;
  int ticket_ = 0;
};

}  // namespace

Bench make_overlap(Gpu& gpu, std::shared_ptr<Cublas> cublas) {
  auto overlap = std::make_shared<Overlap>(gpu, std::move(cublas));
  return [overlap](const Point& point) { return overlap->measure(point); };
}

}  // namespace ddlsim::measure
