// The time of one layer on one GPU: a roofline with an efficiency.
//
//   t = max( FLOPs * batch / (peak * e_compute),  bytes / (B_mem * e_memory) )
//   bytes = (activation elements * batch + weight elements) * activation size
// Weights that a kernel of its own rewrites before their use (QLoRA's dequantisation) take their memory time on top.
//
// A measured layer takes its measured time (cost/wave_scaling.h), the CPU's work on samples its time for each of them.
// Between the kernels of a recurrent layer's steps go by what cost/kernel_time.h says (LayerPrices; assumed to hold for
// GPUs that nobody measured, AMD's among them: the kernels wait for each other there too).
// An operator without FLOPs takes its memory time. The part that is larger says what the layer is bound by, and where
// software takes more on top of one kind of kernel than of the other (hardware/software.h), how a time T is split in
// two. With t_c and t_m what arithmetic and memory take by the datasheet:
//   arithmetic dearer    of memory  T max(1 - t_c / t_m, 0)     what memory takes beyond arithmetic
//   memory dearer        of memory  T min(t_m / t_c, 1)         arithmetic has what it takes beyond memory
// so that no step gets longer where a rate rises, which a change of factors where t_c = t_m made it.
// Source: Williams et al., "Roofline", CACM 2009. Limits: no tile or wave quantisation, no cache, no fusion, one
// efficiency for every operator. A GPU that somebody measured has cost/kernel_time.h.
//
// Worked example: 4.096 MFLOP at batch 64 on 15.7 TFLOP/s and 70 %: 262 MFLOP / 10.99 TFLOP/s = 23.9 us.
//
// Layers are made by workload/op.h; a step of them by step/schedule.h.
#pragma once

#include <cstdint>
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

  friend bool operator==(const DeviceRates&, const DeviceRates&) = default;
};

enum class Pass { kForward, kBackward };

/// What software takes more on top of.
enum class Dearer : std::uint8_t { kNeither, kArithmetic, kMemory };

/// Of a kernel's time, what counts as memory's. `ratio`: memory's time by the datasheet over arithmetic's, infinity
/// where there is none of that.
[[nodiscard]] constexpr double memory_share(double ratio, Dearer dearer) {
  const bool bound = ratio >= 1;
  if (dearer == Dearer::kArithmetic) return bound ? 1 - 1 / ratio : 0;
  if (dearer == Dearer::kMemory) return bound ? 1 : ratio;
  return bound ? 1 : 0;
}

/// What a layer is bound by. By the roofline exactly one of the two is not zero; a layer of several kernels may have
/// both.
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

[[nodiscard]] constexpr double time_ratio(Time memory, Time compute) {
  return compute > Time::zero() ? memory / compute : std::numeric_limits<double>::infinity();
}

[[nodiscard]] inline LayerTime layer_time(const workload::Layer& layer, Pass pass, double batch, DataSize activation,
                                          const DeviceRates& device, Dearer dearer = Dearer::kNeither) {
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
  const double share = memory_share(time_ratio(memory, compute), dearer);
  const Time all = max(compute, memory);
  return {all * (1 - share), all * share + apart};
}

}  // namespace ddlsim::cost
