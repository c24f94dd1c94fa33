// The time of one layer on one GPU: a roofline with an efficiency.
//
//   t = max( FLOPs * batch / (peak * e_compute),  bytes / (B_mem * e_memory) )
//   bytes = (activation elements * batch + weight elements) * activation size
// Weights that a kernel of its own rewrites before their use (QLoRA's dequantisation) take their memory time on top.
//
// A measured layer takes its measured time (cost/wave_scaling.h), the CPU's work on samples its time for each of them.
// Between the kernels of a recurrent layer's steps go by what cost/kernel_time.h says (LayerPrices; assumed to hold for
// GPUs that nobody measured, AMD's among them: the kernels wait for each other there too).
// An operator without FLOPs takes its memory time. The part that is larger says what the layer is bound by. Where
// software takes more on top of the other part (factors f_c of arithmetic, f_m of memory: hardware/software.h), that
// one adds what it takes more: with t_c and t_m the two (of measured convolutions by their curve, else by the
// datasheet), a time T with software is
//   bound by arithmetic   T (f_c + max(f_m - f_c, 0) t_m / t_c)
//   bound by memory       T (f_m + max(f_c - f_m, 0) t_c / t_m)
// which no rate makes longer; a change of factors where t_c = t_m did. The addition is the other part's, so that either
// part is what its rate would take away.
// Where a step is of 8 or 4 bits, convolutions and attention have bf16's peak and what it sustains.
// Source: Williams et al., "Roofline", CACM 2009. Limits: no tile or wave quantisation, no cache, no fusion, one
// efficiency for every operator. A GPU that somebody measured has cost/kernel_time.h.
//
// Worked example: 4.096 MFLOP at batch 64 on 15.7 TFLOP/s and 70 %: 262 MFLOP / 10.99 TFLOP/s = 23.9 us.
//
// Layers are made by workload/op.h; a step of them by step/schedule.h.
#pragma once

#include <limits>

#include "ddlsim/cost/wave_scaling.h"
#include "ddlsim/support/units.h"
#include "ddlsim/workload/op.h"

namespace ddlsim::cost {

/// What a GPU reaches, efficiency included.
struct DeviceRates {
  ComputeRate compute{};
  Bandwidth memory{};
  WaveScaling measured{};  // of measured layers
  ComputeRate bf16{};      // of what training in fp8 and fp4 leaves in bf16; zero where nobody says

  friend bool operator==(const DeviceRates&, const DeviceRates&) = default;
};

enum class Pass { kForward, kBackward };

/// What software takes more on one part than on the other, as a share of the dearer factor: of memory where arithmetic
/// bounds, of arithmetic where memory does. One of them is 0.
struct Surcharge {
  double memory = 0;      // 1 - f_c / f_m
  double arithmetic = 0;  // 1 - f_m / f_c

  friend bool operator==(const Surcharge&, const Surcharge&) = default;
};

/// What a layer is bound by, before software's factors. By the roofline exactly one of the two is not zero, but for a
/// surcharge; a layer of several kernels may have both.
struct LayerTime {
  Time compute{};
  Time memory{};
  Time host{};  // the GPU waits for the CPU, or between the kernels of a recurrent layer's steps
  [[nodiscard]] constexpr Time kernels() const { return compute + memory; }
  [[nodiscard]] constexpr Time total() const { return kernels() + host; }
};

struct LayerTimes {
  LayerTime forward{};
  LayerTime backward{};
  LayerTime weights{};  // the part of backward that schedules which split it may put off
  Time accumulation{};  // of backward's memory: adding gradients to earlier passes'
};

/// Whether a kernel of backward sums over samples: a weights' gradient. Nothing in a micro-batch waits for it.
[[nodiscard]] bool is_weights_gradient(const primitives::Kernel& kernel);

/// What of a layer's backward is weights' gradients: its share of the FLOPs, and how many kernels. A layer that has
/// weights and lists no kernels: half, one of two products. What is no product (a norm's weights) stays with the rest.
struct WeightsShare {
  double work = 0;
  int kernels = 0;
};
[[nodiscard]] WeightsShare weights_share(const workload::Layer& layer);

[[nodiscard]] inline Work layer_work(const workload::Layer& layer, Pass pass, double batch) {
  return (pass == Pass::kForward ? layer.forward_work : layer.backward_work) * batch;
}

/// What it reads and writes. `activation` is the size of one element.
[[nodiscard]] inline DataSize layer_traffic(const workload::Layer& layer, Pass pass, double batch,
                                            DataSize activation) {
  const bool forward = pass == Pass::kForward;
  const auto elements = static_cast<double>(forward ? layer.forward_elements : layer.backward_elements);
  const auto weights = static_cast<double>(forward ? layer.forward_weight_elements : layer.backward_weight_elements);
  return activation * (elements * batch + weights);
}

/// Memory's time over arithmetic's; infinity where there is none of that.
[[nodiscard]] constexpr double time_ratio(Time memory, Time compute) {
  return compute > Time::zero() ? memory / compute : std::numeric_limits<double>::infinity();
}

/// A kernel's time by what bounds it, with the other part's surcharge. `ratio` as of `time_ratio`, by the datasheet.
[[nodiscard]] constexpr LayerTime bounded(Time time, double ratio, const Surcharge& surcharge) {
  if (ratio >= 1) return {time * (surcharge.arithmetic / ratio), time};
  return {time, time * (surcharge.memory * ratio)};
}

[[nodiscard]] inline LayerTime layer_time(const workload::Layer& layer, Pass pass, double batch, DataSize activation,
                                          const DeviceRates& device, const Surcharge& surcharge = {}) {
  const bool forward = pass == Pass::kForward;
  if (layer.measured) {
    const workload::MeasuredTime& timed = *layer.measured;
    const Time time = wave_scaled(forward ? timed.forward : timed.backward, timed.bound, device.measured);
    return timed.bound == workload::Bound::kMemory ? LayerTime{Time::zero(), time} : LayerTime{time, Time::zero()};
  }
  if (forward && layer.host > Time::zero()) return {Time::zero(), Time::zero(), layer.host * batch};
  const Time compute = layer_work(layer, pass, batch) / device.compute;
  const auto rewritten = static_cast<double>(forward ? layer.forward_rewritten : layer.backward_rewritten);
  const Time apart = activation * rewritten / device.memory;
  const Time memory = layer_traffic(layer, pass, batch, activation) / device.memory - apart;
  LayerTime time = bounded(max(compute, memory), time_ratio(memory, compute), surcharge);
  time.memory += apart;
  return time;
}

}  // namespace ddlsim::cost
