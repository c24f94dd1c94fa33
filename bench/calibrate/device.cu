#include "device.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <chrono>
#include <csignal>

namespace ddlsim::measure {
namespace {

volatile std::sig_atomic_t g_stopped = 0;  // a signal handler can reach nothing else

constexpr double kSampleSeconds = 400e-6;  // events tell 0.5 us; a thousandth of that
constexpr unsigned long long kGateNanoseconds = 200000000;

__global__ void gate_kernel(volatile int* gate, int ticket) {
  const unsigned long long start = nanoseconds();
  while (gate[0] < ticket) {
    if (nanoseconds() - start > kGateNanoseconds) {
      gate[1] = ticket;
      __threadfence_system();
      return;
    }
  }
}

__device__ float uniform_at(std::uint64_t i) {
  std::uint64_t z = (i + 1) * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return static_cast<float>(z >> 40) * 0x1p-23F - 1.0F;
}

template <typename T>
__global__ void fill_kernel(T* data, std::int64_t count) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    data[i] = static_cast<T>(uniform_at(static_cast<std::uint64_t>(i)));
  }
}

template <typename T>
void fill_ring(const Ring& ring, cudaStream_t stream) {
  fill_kernel<T><<<4096, kThreads, 0, stream>>>(reinterpret_cast<T*>(ring.base()),
                                                ring.size() / static_cast<std::int64_t>(sizeof(T)));
  check_launch("fill");
}

}  // namespace

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  const std::string text =
      std::string(what) + ": " + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")";
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();  // this one does not stick
    throw Unavailable(text);
  }
  throw GpuError(text);
}

bool stopped() { return g_stopped != 0; }

void stop_on_signals() {
  const auto stop = [](int number) {
    g_stopped = 1;
    std::signal(number, SIG_DFL);  // the second time it is meant
  };
  std::signal(SIGINT, stop);
  std::signal(SIGTERM, stop);
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Measured sample_host(const std::function<double()>& once, const StopRule& rule) {
  Measured measured;
  measured.gated = false;
  once();
  std::vector<double> samples;
  const double start = seconds_now();
  while (!enough(samples, seconds_now() - start, rule)) {
    if (stopped()) throw Stopped();
    samples.push_back(once());
  }
  measured.time = summarise(samples);
  measured.stable = measured.time.half_interval < rule.half_interval;
  return measured;
}

void divide(Measured& measured, double count) {
  measured.time.median /= count;
  measured.time.mad /= count;
  measured.time.min /= count;
}

void Ring::open(std::int64_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, static_cast<std::size_t>(bytes)), "cudaMalloc");
  base_ = static_cast<char*>(memory);
  size_ = bytes;
}

void Ring::close() {
  if (base_ != nullptr) (void)cudaFree(base_);
  base_ = nullptr;
}

char* Ring::take(std::int64_t bytes, bool cold) {
  const std::int64_t whole = (bytes + 511) / 512 * 512;
  if (whole > size_) throw Unavailable("needs " + std::to_string(whole >> 20) + " MB of the GPU's memory");
  if (!cold) return base_;
  if (at_ + whole > size_) at_ = 0;
  char* memory = base_ + at_;
  at_ += whole;
  return memory;
}

Gpu::Gpu(int device) {
  int count = 0;
  check(cudaGetDeviceCount(&count), "no GPU that CUDA can use");
  if (device >= count)
    throw GpuError("--device " + std::to_string(device) + ": there are " + std::to_string(count) + " GPUs");
  check(cudaSetDevice(device), "cudaSetDevice");
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  facts.name = properties.name;
  facts.capability = properties.major * 10 + properties.minor;
  facts.gpus = count;
  facts.multiprocessors = properties.multiProcessorCount;
  facts.l2 = properties.l2CacheSize;
  facts.memory = static_cast<std::int64_t>(properties.totalGlobalMem);
  int clock = 0;  // kHz
  int memory_clock = 0;
  int width = 0;  // bits
  if (cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, device) != cudaSuccess) clock = 0;
  if (cudaDeviceGetAttribute(&memory_clock, cudaDevAttrMemoryClockRate, device) != cudaSuccess) memory_clock = 0;
  if (cudaDeviceGetAttribute(&width, cudaDevAttrGlobalMemoryBusWidth, device) != cudaSuccess) width = 0;
  (void)cudaGetLastError();
  if (clock > 0) facts.clock = clock * 1e3;
  if (memory_clock > 0 && width > 0) facts.bandwidth = 2e3 * memory_clock * (width / 8.0);
}

void Gpu::open(const std::string& folders) {
  libraries = folders;
  char bus[64] = "";
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetPCIBusId(bus, sizeof bus, device), "cudaDeviceGetPCIBusId");
  try {
    monitor.open(bus, folders);
  } catch (const std::runtime_error&) {
    monitor = Monitor();  // an NVML without what is asked of it: clocks stay unknown
  }
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  check(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking), "cudaStreamCreate");
  check(cudaEventCreate(&begin_), "cudaEventCreate");
  check(cudaEventCreate(&end_), "cudaEventCreate");
  check(cudaHostAlloc(reinterpret_cast<void**>(&gate_), 2 * sizeof(int), cudaHostAllocMapped), "cudaHostAlloc");
  gate_[0] = gate_[1] = 0;
  check(cudaHostGetDevicePointer(reinterpret_cast<void**>(&gate_on_device_), gate_, 0), "cudaHostGetDevicePointer");
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  const auto share = static_cast<std::int64_t>(static_cast<double>(free) * 0.08);
  const std::int64_t most = std::int64_t{1} << 30;
  inputs.open(std::min(share * 5, 6 * most) / 4096 * 4096);
  outputs.open(std::min(share * 3, 4 * most) / 4096 * 4096);
  check(cudaMemsetAsync(outputs.base(), 0, static_cast<std::size_t>(outputs.size()), stream), "cudaMemset");
}

Gpu::~Gpu() {
  inputs.close();
  outputs.close();
  if (gate_ != nullptr) (void)cudaFreeHost(gate_);
  if (begin_ != nullptr) (void)cudaEventDestroy(begin_);
  if (end_ != nullptr) (void)cudaEventDestroy(end_);
  if (stream != nullptr) (void)cudaStreamDestroy(stream);
  if (second != nullptr) (void)cudaStreamDestroy(second);
}

void Gpu::fill(const std::string& precision) {
  if (precision == "fp16") {
    fill_ring<__half>(inputs, stream);
  } else if (precision == "bf16") {
    fill_ring<__nv_bfloat16>(inputs, stream);
  } else {
    fill_ring<float>(inputs, stream);
  }
  check(cudaStreamSynchronize(stream), "fill");
}

void Gpu::warm(double seconds) {
  const double end = seconds_now() + seconds;
  const auto bytes = static_cast<std::size_t>(std::min<std::int64_t>(outputs.size(), 512 << 20));
  while (seconds_now() < end && !stopped()) {
    for (int i = 0; i < 8; ++i) {
      check(cudaMemcpyAsync(outputs.base(), inputs.base(), bytes, cudaMemcpyDeviceToDevice, stream), "warm-up");
    }
    check(cudaStreamSynchronize(stream), "warm-up");
  }
}

void Gpu::close_gate(cudaStream_t on) {
  gate_kernel<<<1, 1, 0, on>>>(gate_on_device_, ++ticket_);
  check_launch("gate");
}

bool Gpu::open_gate() {
  __atomic_store_n(gate_, ticket_, __ATOMIC_RELEASE);
  return __atomic_load_n(gate_ + 1, __ATOMIC_ACQUIRE) != ticket_;
}

double Gpu::sample(const Launch& launch, int repeats, bool gated, bool& valid) {
  struct Release {  // whatever is thrown between, nothing stays behind a closed gate
    Gpu& gpu;
    ~Release() { gpu.open_gate(); }
  };
  {
    const Release release{*this};
    if (gated) close_gate(stream);
    check(cudaEventRecord(begin_, stream), "cudaEventRecord");
    for (int i = 0; i < repeats; ++i) launch(stream);
    check(cudaEventRecord(end_, stream), "cudaEventRecord");
  }
  check(cudaEventSynchronize(end_), "what was timed");
  valid = !gated || __atomic_load_n(gate_ + 1, __ATOMIC_ACQUIRE) != ticket_;
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
  return milliseconds * 1e-3 / repeats;
}

double Gpu::estimate(const Launch& launch) {
  bool valid = true;
  sample(launch, 1, false, valid);  // first calls load modules, choose algorithms
  const double once = sample(launch, 1, false, valid);
  return once > 2e-3 ? once : sample(launch, 8, gates_, valid);
}

void Gpu::read_state(Measured& measured) {
  // NVML can be slow; then an old reading serves for a while.
  const double before = seconds_now();
  if (state_time_ < 0 || state_cost_ < 2e-3 || before - state_time_ > 0.25) {
    state_ = monitor.read();
    state_time_ = seconds_now();
    state_cost_ = state_time_ - before;
  }
  measured.state = state_;
  measured.throttled = state_.throttled();
}

Measured Gpu::time_host(const std::function<double()>& once, const StopRule& rule) {
  Measured measured = sample_host(once, rule);
  read_state(measured);
  return measured;
}

Measured Gpu::time(const Launch& launch, const StopRule& rule, int most_repeats) {
  Measured measured;
  measured.gated = gates_;
  const double guess = std::max(estimate(launch), 1e-7);
  measured.repeats =
      static_cast<int>(std::clamp(std::ceil(kSampleSeconds / guess), 1.0, static_cast<double>(most_repeats)));
  for (int attempt = 0; attempt < 3; ++attempt) {
    std::vector<double> samples;
    int rejected = 0;
    const double start = seconds_now();
    while (!enough(samples, seconds_now() - start, rule)) {
      if (stopped()) throw Stopped();
      bool valid = true;
      const double value = sample(launch, measured.repeats, measured.gated, valid);
      if (valid && value > 0) {
        samples.push_back(value);
      } else if (++rejected == 3) {
        // A launch that waits for the GPU can never pass a gate.
        measured.gated = false;
      } else if (rejected > 100) {
        throw Unavailable("no sample is valid");
      }
    }
    measured.time = summarise(samples);
    measured.stable = measured.time.half_interval < rule.half_interval;
    gates_lost_ = measured.gated ? 0 : gates_lost_ + 1;
    if (gates_lost_ >= 5) gates_ = false;  // this machine does not show the GPU what the host writes
    read_state(measured);
    if (!measured.throttled) break;
    const double rest = seconds_now() + 0.05;
    while (seconds_now() < rest) {
    }  // the GPU recovers; a sleep would let the CPU's clocks fall
  }
  return measured;
}

}  // namespace ddlsim::measure
