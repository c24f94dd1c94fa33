// The GPU's side of timing: memory to work on, a stream, a gate, samples.
//
// A sample is `repeats` launches in a row between two events, by `repeats`. A gate (a kernel that waits for the host)
// stands before them until all are enqueued, so that a sample holds no CPU time; it opens by itself after 0.2 s, and
// the sample is thrown away. Cold: every launch takes memory that was last touched several L2's of data ago.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

#include "monitor.h"
#include "point.h"
#include "statistics.h"

namespace ddlsim::measure {

struct GpuError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// This point cannot be had here (no algorithm, too little memory); the next one can.
struct Unavailable : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct Stopped {};

void check(cudaError_t status, const char* what);
inline void check_launch(const char* what) { check(cudaGetLastError(), what); }

/// Of a block of the kernels here.
inline constexpr int kThreads = 256;

/// Somebody pressed Ctrl-C, or asked for the end.
[[nodiscard]] bool stopped();
void stop_on_signals();

double seconds_now();

/// One launch of what is timed.
using Launch = std::function<void(cudaStream_t)>;

struct Measured {
  Summary time;  // seconds
  int repeats = 1;
  bool gated = true;
  bool throttled = false;
  bool stable = true;
  State state;
  double slowdown = 0;  // overlap
};

/// For what the host's clock times: `once` measures it once, in seconds.
Measured sample_host(const std::function<double()>& once, const StopRule& rule = {});
/// A time of `count` things becomes one of each.
void divide(Measured& measured, double count);

/// Memory that is handed out round and round, so that what comes next is what was touched longest ago.
class Ring {
 public:
  void open(std::int64_t bytes);
  void close();
  /// Cold: the next `bytes`; else always the first. Throws Unavailable where there are not as many.
  char* take(std::int64_t bytes, bool cold);
  [[nodiscard]] char* base() const { return base_; }
  [[nodiscard]] std::int64_t size() const { return size_; }

 private:
  char* base_ = nullptr;
  std::int64_t size_ = 0;
  std::int64_t at_ = 0;
};

class Gpu {
 public:
  explicit Gpu(int device);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  /// Takes the memory to work on: at most 6 GB for what is read, 4 GB for what is written.
  void open(const std::string& libraries);
  /// Uniform in [-1, 1): zeros would run faster than data do.
  void fill(const std::string& precision);
  /// Keeps the GPU busy, so that its clocks are up.
  void warm(double seconds);
  Measured time(const Launch& launch, const StopRule& rule = {}, int most_repeats = 256);
  /// sample_host, and the GPU's state after it.
  Measured time_host(const std::function<double()>& once, const StopRule& rule = {});
  /// Holds back what comes next in `stream` until `open_gate`. False there: the gate opened by itself.
  void close_gate(cudaStream_t stream);
  bool open_gate();

  cudaStream_t stream = nullptr;
  cudaStream_t second = nullptr;
  Ring inputs;
  Ring outputs;
  Monitor monitor;
  Device facts;
  cudaDeviceProp properties{};
  std::string libraries;

 private:
  double estimate(const Launch& launch);
  double sample(const Launch& launch, int repeats, bool gated, bool& valid);
  void read_state(Measured& measured);
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
  int* gate_ = nullptr;  // [0] tickets that may pass, [1] the last that did not wait to the end
  int* gate_on_device_ = nullptr;
  int ticket_ = 0;
  State state_;
  double state_time_ = -1;
  double state_cost_ = 0;
  bool gates_ = true;
  int gates_lost_ = 0;  // points in a row
};

__device__ inline unsigned long long nanoseconds() {
  unsigned long long now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

}  // namespace ddlsim::measure
