#include "ddlsim/cost/kernel_time.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <variant>

#include "ddlsim/support/portable_math.h"
#include "single_kernel.h"

namespace ddlsim::cost {
namespace {

/// A kernel's time with its 90 % ends, as factors.
struct Timed {
  KernelTime kernel;
  double low = 1;
  double high = 1;
};

/// The ends of kernels' times: those of their curve, wider the farther outside of what it was fitted to they are.
class Ends {
 public:
  explicit Ends(std::pair<double, double> assumed) : assumed_(assumed) {}

  Timed of(const KernelTime& kernel) {
    if (kernel.report == nullptr) return {kernel, assumed_.first, assumed_.second};
    const auto [low, high] = interval_of(*kernel.report);
    if (kernel.outside == 0) return {kernel, low, high};
    // An interval's logarithm doubles per octave; no wider than what is assumed when nothing is known.
    const double wider = portable_exp2(std::min(kernel.outside, 8.0));
    const Logarithms& logarithms = logarithms_of(*kernel.report);
    const auto widened = [&](double end, double logarithm, double widest) {
      const double power = portable_exp2(wider * logarithm);
      return end < 1 ? std::max(power, std::min(widest, end)) : std::min(power, std::max(widest, end));
    };
    return {kernel, widened(low, logarithms.low, assumed_.first), widened(high, logarithms.high, assumed_.second)};
  }

 private:
  struct Logarithms {
    const hardware::CurveReport* report = nullptr;
    double low = 0;
    double high = 0;
  };

  const Logarithms& logarithms_of(const hardware::CurveReport& report) {
    for (const Logarithms& one : known_) {
      if (one.report == &report) return one;
    }
    const auto [low, high] = interval_of(report);
    return known_.emplace_back(Logarithms{&report, portable_log2(low), portable_log2(high)});
  }

  /// Of measured over predicted time, whichever run it is.
  static std::pair<double, double> interval_of(const hardware::CurveReport& report) {
    const double both = report.of_all_runs();
    return {report.interval.first * std::min(both, 1 / both), report.interval.second * std::max(both, 1 / both)};
  }

  std::pair<double, double> assumed_;
  std::vector<Logarithms> known_;  // one per curve
};

/// Something of a shape's sizes that few others have.
struct HashOf {
  static std::uint64_t mixed(std::initializer_list<std::int64_t> sizes) {
    std::uint64_t hash = 0;
    for (const std::int64_t size : sizes) hash = (hash ^ static_cast<std::uint64_t>(size)) * 0x9E3779B97F4A7C15U;
    return hash;
  }
  std::uint64_t operator()(const primitives::Gemm& p) const { return mixed({p.m, p.n, p.k}); }
  std::uint64_t operator()(const primitives::ConvolutionShape& c) const {
    return mixed({c.in, c.out, c.input[0], c.kernel[0] * 8 + c.stride[0], static_cast<int>(c.pass)});
  }
  std::uint64_t operator()(const primitives::MemoryBoundKernel& w) const {
    return mixed({w.elements, static_cast<int>(w.kind), w.weights});
  }
  std::uint64_t operator()(const primitives::FusedAttention& a) const {
    return mixed({a.elements, static_cast<int>(a.shape.pass)});
  }
};

/// Of the arrays in a defaulted comparison GCC makes calls, and this is asked for every kernel.
bool same(const primitives::ConvolutionShape& a, const primitives::ConvolutionShape& b) {
  static_assert(sizeof(a) == 14 * sizeof(std::int64_t), "compare the new field too");
  const auto equal = [](const auto& x, const auto& y) { return x[0] == y[0] && x[1] == y[1]; };
  return a.pass == b.pass && a.in == b.in && a.out == b.out && a.groups == b.groups && equal(a.input, b.input) &&
         equal(a.output, b.output) && equal(a.kernel, b.kernel) && equal(a.stride, b.stride) &&
         equal(a.dilation, b.dilation);
}

using Shape = decltype(primitives::Kernel::shape);

bool same(const Shape& a, const Shape& b) {
  const auto* one = std::get_if<primitives::ConvolutionShape>(&a);
  const auto* other = std::get_if<primitives::ConvolutionShape>(&b);
  return one != nullptr && other != nullptr ? same(*one, *other) : a == b;
}

/// Times kernels, each shape once, and adds them up. Keeps where it saw a shape: kernels must outlive it.
class Sum {
 public:
  Sum(const KernelTimes& time, const Calibration& calibration, CalibratedTimes& times)
      : time_(time), ends_(calibration.assumed_interval), surcharge_(calibration.surcharge), times_(times) {
    known_.reserve(kMostKnown);
  }

  LayerTime add(const primitives::Kernel& kernel) { return add(timed(kernel), static_cast<double>(kernel.times)); }

  LayerTime add(const Timed& timed, double count) {
    const KernelTime& kernel = timed.kernel;
    const Time time = kernel.time * count;
    const Time wait = kernel.wait * count;
    times_.low += (time + wait) * timed.low;
    times_.high += (time + wait) * timed.high;
    times_.executed += kernel.executed * count;
    const bool assumed = kernel.report == nullptr;
    (assumed ? times_.assumed : kernel.outside > 0 ? times_.extrapolated : times_.measured) += time + wait;
    LayerTime bound = bounded(time, kernel.ratio, surcharge_);
    bound.host = wait;
    return bound;
  }

  LayerTime add(const KernelTime& kernel) { return add(ends_.of(kernel), 1); }

 private:
  static constexpr std::size_t kPlaces = 1024;
  static constexpr std::size_t kMostKnown = kPlaces / 4;  // then all is forgotten

  const Timed& timed(const primitives::Kernel& kernel) {
    std::size_t place = std::visit(HashOf{}, kernel.shape) / (~std::uint64_t{0} / kPlaces + 1);
    for (; places_[place] != 0; place = (place + 1) % kPlaces) {
      const auto& [shape, timed] = known_[places_[place] - 1U];
      if (same(*shape, kernel.shape)) return timed;
    }
    if (known_.size() == kMostKnown) {
      known_.clear();
      places_.fill(0);
    }
    known_.emplace_back(&kernel.shape, ends_.of(std::visit(time_, kernel.shape)));
    places_[place] = static_cast<std::uint16_t>(known_.size());
    return known_.back().second;
  }

  const KernelTimes& time_;
  Ends ends_;
  Surcharge surcharge_;
  CalibratedTimes& times_;
  std::vector<std::pair<const Shape*, Timed>> known_;
  std::array<std::uint16_t, kPlaces> places_{};  // of each hash, or the next free one, as a place in `known_` from 1
};

bool is_input_gradient(const primitives::Kernel& kernel) {
  const auto* shape = std::get_if<primitives::ConvolutionShape>(&kernel.shape);
  return shape != nullptr && shape->pass == primitives::ConvolutionPass::kInputGradient;
}

double work_of(const primitives::Kernel& kernel) {
  const auto product = [](std::initializer_list<std::int64_t> factors) {
    double all = 2;
    for (const std::int64_t factor : factors) all *= static_cast<double>(factor);
    return all;
  };
  double work = 0;
  if (const auto* gemm = std::get_if<primitives::Gemm>(&kernel.shape)) {
    work = product({gemm->batch_count, gemm->m, gemm->n, gemm->k});
  } else if (const auto* shape = std::get_if<primitives::ConvolutionShape>(&kernel.shape)) {
    work = product({shape->in / shape->groups, shape->out, shape->kernel[0], shape->kernel[1], shape->output[0],
                    shape->output[1]});
  }
  return work * static_cast<double>(kernel.times);
}

}  // namespace

bool is_weights_gradient(const primitives::Kernel& kernel) {
  if (const auto* gemm = std::get_if<primitives::Gemm>(&kernel.shape)) {
    return gemm->batch_scales == primitives::BatchScales::kK;
  }
  const auto* shape = std::get_if<primitives::ConvolutionShape>(&kernel.shape);
  return shape != nullptr && shape->pass == primitives::ConvolutionPass::kWeightGradient;
}

WeightsShare weights_share(const workload::Layer& layer) {
  const double all = layer.backward_work.in(flops);
  if (layer.measured || layer.parameters.empty() || !(all > 0)) return {};
  if (layer.backward.empty()) return {.work = 0.5, .kernels = 1};
  WeightsShare share;
  for (const primitives::Kernel& kernel : layer.backward) {
    if (!is_weights_gradient(kernel)) continue;
    share.work += work_of(kernel) / all;
    share.kernels += static_cast<int>(kernel.times);
  }
  share.work = std::min(share.work, 1.0);
  return share;
}

DataSize accumulated_by(const workload::Layer& layer, DataSize per_parameter) {
  if (per_parameter == DataSize::zero() || layer.sparse_gradient || layer.measured) return DataSize::zero();
  double elements = 0;
  for (const std::int64_t tensor : layer.parameters) elements += static_cast<double>(tensor);
  return per_parameter * elements;
}

CalibratedTimes calibrated_times(std::span<const workload::Layer> layers, const Calibration& calibration, double batch,
                                 Precision precision, const MovedBeside& beside, std::optional<std::size_t> input) {
  const KernelTimes time(calibration, batch, precision);
  CalibratedTimes times;
  times.layers.reserve(layers.size());
  Sum sum(time, calibration, times);
  LayerTime weights;
  const auto pass = [&](const std::vector<primitives::Kernel>& kernels, bool first) {
    LayerTime whole;
    weights = {};
    for (const primitives::Kernel& kernel : kernels) {
      if (first && is_input_gradient(kernel)) continue;  // nobody asks for the gradient of the model's input
      const LayerTime part = sum.add(kernel);
      whole.compute += part.compute;
      whole.memory += part.memory;
      whole.host += part.host;
      if (!is_weights_gradient(kernel)) continue;
      weights.compute += part.compute;
      weights.memory += part.memory;
    }
    return whole;
  };
  for (const workload::Layer& layer : layers) {
    LayerTime forward = pass(layer.forward, false);
    forward.host += layer.host * batch;
    LayerTime backward = pass(layer.backward, input == times.layers.size());
    Time adding;
    if (const DataSize moved = accumulated_by(layer, beside.accumulated); moved > DataSize::zero()) {
      adding = sum.add(time.memory_bound(primitives::MemoryBoundKind::kElementwise, 0, moved)).total();
      backward.memory += adding;
      weights.memory += adding;
    }
    times.layers.push_back({forward, backward, weights, adding});
  }
  times.update = sum.add(time.memory_bound(primitives::MemoryBoundKind::kUpdate, 0, beside.updated)).total();
  return times;
}

}  // namespace ddlsim::cost
