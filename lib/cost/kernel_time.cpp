#include "ddlsim/cost/kernel_time.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>

#include "ddlsim/cost/attention_time.h"
#include "ddlsim/cost/convolution_time.h"
#include "ddlsim/cost/gemm_time.h"
#include "ddlsim/cost/memory_bound_time.h"
#include "ddlsim/support/portable_math.h"

namespace ddlsim::cost {
namespace {

/// A table without a curve: nothing was held out.
const hardware::CurveReport& table_report() {
  static const hardware::CurveReport report = [] {
    hardware::CurveReport made;
    made.interval = {0.9, 1.1};
    return made;
  }();
  return report;
}

/// A curve of another GPU or precision, constants of other GPUs' gradients: as an octave outside the fitted ranges.
constexpr double kBorrowedOctaves = 1;

/// A kernel's time, what it is bound by, and what the time rests on.
struct KernelTime {
  Time time{};
  bool compute = true;
  const hardware::CurveReport* report = nullptr;  // null: assumed
  double outside = 0;                             // octaves, borrowed curves included
  Work executed{};
  Time wait{};  // after it, of the GPU: no kernel of the chain is ready
};

class KernelTimes {
 public:
  KernelTimes(const Calibration& calibration, double batch, Precision precision)
      : calibration_(calibration),
        batch_(batch),
        element_(activation_size(precision)),
        spec_(hardware::device_spec(calibration.gpu, multiplied_in(calibration.gpu, precision))),
        precision_(precision) {
    if (precision == Precision::kTf32) {
      as_fp32_ = std::make_unique<const KernelTimes>(calibration, batch, Precision::kFp32);
    }
  }

  /// The fastest algorithm: TF32 lets libraries take tensor cores, and does not forbid FP32's kernels.
  template <typename Shape>
  KernelTime operator()(const Shape& shape) const {
    KernelTime time = of(shape);
    if (as_fp32_ == nullptr) return time;
    const KernelTime plain = as_fp32_->of(shape);
    return plain.report != nullptr && plain.time < time.time ? plain : time;
  }
  [[nodiscard]] KernelTime memory_bound(primitives::MemoryBoundKind kind, std::int64_t row, DataSize traffic) const;

 private:
  [[nodiscard]] KernelTime of(const primitives::Gemm& gemm) const;
  [[nodiscard]] KernelTime of(const primitives::ConvolutionShape& shape) const;
  [[nodiscard]] KernelTime of(const primitives::MemoryBoundKernel& kernel) const;
  [[nodiscard]] KernelTime of(const primitives::FusedAttention& attention) const;
  template <typename Find>
  auto curve(Find find) const {
    return curve(find, precision_);
  }
  template <typename Find>
  auto curve(Find find, Precision wanted) const;
  [[nodiscard]] KernelTime roofline(Work work, DataSize size) const;
  [[nodiscard]] KernelTime convolution(const primitives::ConvolutionShape& shape) const;
  /// What a product takes whose sizes do not fit the tensor cores' loads; `aligned` where they do.
  [[nodiscard]] Time unaligned(const primitives::Gemm& gemm, Time aligned, Work work) const;
  [[nodiscard]] bool compute_bound(Work work, DataSize size) const { return work / spec_.peak > size / spec_.memory; }

  const Calibration& calibration_;
  double batch_;
  DataSize element_;
  hardware::DeviceSpec spec_;
  Precision precision_;
  std::unique_ptr<const KernelTimes> as_fp32_;  // of TF32
};

/// Precisions whose curves serve a precision's kernels, the best first. fp16 and bf16 are one speed on tensor cores: a
/// near GPU's curve of one says more of the other than a farther GPU's own.
std::span<const Precision> served_by(Precision precision, const hardware::Gpu& gpu) {
  static constexpr std::array kFp16{Precision::kFp16, Precision::kBf16};
  static constexpr std::array kBf16{Precision::kBf16, Precision::kFp16};
  static constexpr std::array kAsFp32{Precision::kFp32};
  static constexpr std::array kTf32{Precision::kTf32, Precision::kBf16, Precision::kFp16};
  static constexpr std::array kFp8{Precision::kFp8};
  static constexpr std::array kFp4{Precision::kFp4, Precision::kFp8};
  switch (precision) {
    case Precision::kFp32: return kAsFp32;
    case Precision::kTf32: return kTf32;
    case Precision::kFp8: return kFp8;
    case Precision::kFp4: return kFp4;
    case Precision::kBf16: return kBf16;
    case Precision::kFp16: break;
  }
  if (multiplies_as_fp32(gpu, precision)) return kAsFp32;
  return kFp16;
}

/// Whether a curve says as much of one precision as of the other.
bool one_speed(Precision a, Precision b) {
  const auto half = [](Precision one) { return one == Precision::kFp16 || one == Precision::kBf16; };
  return a == b || (half(a) && half(b));
}

/// The curve for a precision, as `find` gives it of the nearest profile that has one, and how far it is from a
/// measurement of it; null: none.
template <typename Find>
auto KernelTimes::curve(Find find, Precision wanted) const {
  using Curve = decltype(find(*calibration_.profiles.front().profile, wanted));
  for (const ProfileInUse& use : calibration_.profiles) {
    for (const Precision precision : served_by(wanted, calibration_.gpu)) {
      const Curve found = find(*use.profile, precision);
      if (found == nullptr) continue;
      return std::pair<Curve, double>{
          found, (use.borrowed ? kBorrowedOctaves : 0) + (one_speed(precision, wanted) ? 0 : kBorrowedOctaves)};
    }
  }
  return std::pair<Curve, double>{nullptr, 0};
}

KernelTime KernelTimes::roofline(Work work, DataSize size) const {
  const Time compute = work / calibration_.assumed.compute;
  const Time memory = size / calibration_.assumed.memory;
  return {.time = max(compute, memory), .compute = compute > memory, .executed = work};
}

/// Sizes along which the operands or the result of a product lie in memory, and that are no multiple of 8: rows of
/// numbers of 16 bits then do not begin at 16 bytes. Rows of a layer's input lie one after another; of attention's
/// products m counts queries or keys, whose numbers lie along another size.
int unaligned_sizes(const primitives::Gemm& gemm) {
  const bool rows_are_m = gemm.batch_scales != primitives::BatchScales::kK;
  const bool rows_are_k = gemm.batch_scales == primitives::BatchScales::kK;
  int count = 0;
  if (gemm.m % kAligned != 0 && !rows_are_m) ++count;
  if (gemm.n % kAligned != 0) ++count;
  if (gemm.k % kAligned != 0 && !rows_are_k) ++count;
  return count;
}

Time KernelTimes::unaligned(const primitives::Gemm& gemm, Time aligned, Work work) const {
  const hardware::GpuGeneration generation = calibration_.gpu.nccl_tuning.value_or(hardware::GpuGeneration::kPascal);
  const bool half = runs_on_half_units(calibration_.gpu, precision_);
  if (!half || generation < hardware::GpuGeneration::kVolta) return aligned;
  const int count = unaligned_sizes(gemm);
  if (count == 0) return aligned;
  const auto plain = calibration_.gpu.peak.at(Precision::kFp32);
  if (generation == hardware::GpuGeneration::kVolta && plain) return max(aligned, work / *plain);
  Time computing = work / (spec_.peak * kAlignedShare);
  for (int i = 0; i < count; ++i) computing = computing * kUnalignedCost;
  return max(aligned, computing);
}

KernelTime KernelTimes::of(const primitives::Gemm& gemm) const {
  hardware::GemmSize size{static_cast<double>(gemm.batch_count), static_cast<double>(gemm.m),
                          static_cast<double>(gemm.n), static_cast<double>(gemm.k)};
  (gemm.batch_scales == primitives::BatchScales::kBatchCount ? size.batch_count
   : gemm.batch_scales == primitives::BatchScales::kM        ? size.m
                                                             : size.k) *= batch_;
  const Work work = flops(2 * size.batch_count * size.m * size.n * size.k);
  const DataSize touched = element_ * (size.batch_count * (size.m * size.k + size.k * size.n + size.m * size.n));
  const auto curve_of = [&](bool grouped) {
    return curve([&](const hardware::GpuProfile& profile, Precision precision) {
      const auto* const one = gemm_curve(profile.gemms, precision, size.batch_count, grouped);
      return grouped && one != nullptr && !one->grouped ? nullptr : one;
    });
  };
  auto [found, octaves] = curve_of(gemm.grouped);
  if (found == nullptr && gemm.grouped) std::tie(found, octaves) = curve_of(false);
  if (found == nullptr) return roofline(work, touched);
  const bool as_fp8 = precision_ == Precision::kFp4 && found->precision == Precision::kFp8;
  Time time = as_fp8 ? fp4_gemm_time(*found, hardware::device_spec(calibration_.gpu, Precision::kFp8), spec_.peak, size,
                                     element_)
                     : gemm_time(*found, spec_, size, element_);
  time = time * found->report.of_all_runs();
  const Time taken = unaligned(gemm, time, work);
  if (taken > time) octaves += kBorrowedOctaves;
  return {taken, compute_bound(work, touched), &found->report, octaves + outside(found->report, size), work};
}

KernelTime KernelTimes::of(const primitives::ConvolutionShape& shape) const {
  KernelTime kernel = convolution(shape);
  const bool depthwise = shape.groups > 1 && shape.groups == shape.in;
  if (!calibration_.spares_turning || kernel.report == nullptr || depthwise) return kernel;
  const auto count = [&](std::int64_t channels, const auto& size) {
    return static_cast<double>(channels) * static_cast<double>(size[0]) * static_cast<double>(size[1]) * batch_;
  };
  const double sides = count(shape.in, shape.input) + count(shape.out, shape.output);
  const KernelTime turns = memory_bound(primitives::MemoryBoundKind::kElementwise, 0, element_ * (2 * sides));
  kernel.time = max(kernel.time - turns.time, roofline(kernel.executed, element_ * sides).time);
  return kernel;
}

KernelTime KernelTimes::convolution(const primitives::ConvolutionShape& shape) const {
  const auto count = [](std::int64_t a, std::int64_t b) { return static_cast<double>(a) * static_cast<double>(b); };
  const double weights = count(shape.in / shape.groups, shape.out) * count(shape.kernel[0], shape.kernel[1]);
  const double output = count(shape.output[0], shape.output[1]) * batch_;
  const double input = count(shape.input[0], shape.input[1]) * batch_;
  const Work work = flops(2 * weights * output);
  const DataSize touched =
      element_ * (weights + output * static_cast<double>(shape.out) + input * static_cast<double>(shape.in));
  const auto [found, octaves] =
      curve([](const hardware::GpuProfile& profile, Precision precision) -> const hardware::ConvolutionCurve* {
        const auto of = std::find_if(profile.convolutions.begin(), profile.convolutions.end(),
                                     [&](const auto& one) { return one.precision == precision; });
        return of == profile.convolutions.end() ? nullptr : &*of;
      });
  const bool compute = compute_bound(work, touched);
  for (const ProfileInUse& use : calibration_.profiles) {
    if (use.borrowed && !use.measured_at) continue;
    const hardware::DeviceSpec& spec = use.measured_at ? *use.measured_at : spec_;
    const auto table = measured_convolution(use.profile->measured_convolutions, found, spec, precision_, shape, batch_);
    if (!table) continue;
    if (found == nullptr) return {table->time, compute, &table_report(), use.borrowed ? kBorrowedOctaves : 0, work};
    const ConvolutionChoice here = convolution_choice(*found, spec_, shape, batch_, element_);
    // The GPU's own measurement at other rates moves as its curve does.
    const double faster =
        use.measured_at ? here.time / convolution_time(*found, *use.measured_at, shape, batch_, element_) : 1.0;
    return {table->time * faster, compute, &found->report, use.borrowed ? kBorrowedOctaves : 0, work * here.arithmetic};
  }
  if (found == nullptr) return roofline(work, touched);
  const double unseen =
      shape.pass != primitives::ConvolutionPass::kForward && found->gradient_rows == 0 ? kBorrowedOctaves : 0;
  const ConvolutionChoice choice = convolution_choice(*found, spec_, shape, batch_, element_);
  return {choice.time * found->report.of_all_runs(), compute, &found->report,
          octaves + unseen + outside(found->report, implicit_gemm(shape, batch_)), work * choice.arithmetic};
}

KernelTime KernelTimes::of(const primitives::FusedAttention& attention) const {
  const Work work = attention.work * batch_;
  const DataSize moved = element_ * (static_cast<double>(attention.elements) * batch_);
  // Training in fp8 and fp4 keeps attention in bf16 (Transformer Engine's recipes: fp8_dpa is false by default).
  const Precision precision = is_cast(precision_) ? Precision::kBf16 : precision_;
  const auto curve_of = [&](primitives::AttentionPass pass) {
    return curve([&](const hardware::GpuProfile& profile,
                     Precision candidate) { return attention_curve(profile.attention, candidate, pass); },
                 precision);
  };
  auto [found, octaves] = curve_of(attention.shape.pass);
  if (found == nullptr) std::tie(found, octaves) = curve_of(primitives::AttentionPass::kForward);
  if (found == nullptr) return roofline(work, moved);
  const auto generation = calibration_.gpu.nccl_tuning.value_or(hardware::GpuGeneration::kAmpere);
  const double slower = kernel_slowdown(calibration_.attention, generation, attention.shape.pass).value_or(1);
  const double unseen = found->pass == attention.shape.pass ? 0 : kBorrowedOctaves;
  // A ring's step, and the last of several chunks, has other FLOPs than its shape's.
  const double share = attention.work / attention_work(attention.shape, 1);
  const hardware::DeviceSpec spec = hardware::device_spec(calibration_.gpu, precision);
  const Time time = attention_time(*found, spec, attention.shape, batch_, element_) * found->report.of_all_runs();
  return {time * (share * slower), compute_bound(work, moved), &found->report,
          octaves + unseen + outside(found->report, attention.shape, batch_), work};
}

KernelTime KernelTimes::of(const primitives::MemoryBoundKernel& kernel) const {
  double elements = static_cast<double>(kernel.elements) * batch_ + static_cast<double>(kernel.weights);
  const bool narrow = precision_ != Precision::kFp32 && precision_ != Precision::kTf32;
  if (narrow && !calibration_.fuses_pointwise) elements *= kernel.widening;
  return memory_bound(kernel.kind, kernel.row, element_ * elements);
}

KernelTime KernelTimes::memory_bound(primitives::MemoryBoundKind kind, std::int64_t row, DataSize traffic) const {
  std::optional<ChosenMemoryBound> chosen;
  bool borrowed = false;
  for (const ProfileInUse& use : calibration_.profiles) {
    const auto found = choose_memory_bound(*use.profile, kind, row);
    if (!found || (chosen && found->stand_in)) continue;
    chosen = found;
    borrowed = use.borrowed;
    if (!chosen->stand_in) break;
  }
  const Time chain = kind == primitives::MemoryBoundKind::kRecurrent && !(chosen && !chosen->stand_in)
                         ? calibration_.recurrent_chain
                         : Time::zero();
  if (!chosen) return {.time = roofline(Work::zero(), traffic).time, .compute = false, .wait = chain};
  const hardware::CurveReport& report = chosen->curve->report;
  const double outside = doublings_outside(report, "bytes", traffic.in(bytes)) +
                         (row > 0 ? doublings_outside(report, "row", static_cast<double>(row)) : 0);
  const Time time = memory_bound_time(*chosen->curve, spec_, {traffic, rows_of(traffic, row, element_), row});
  return {time * report.of_all_runs(),
          false,
          &report,
          (borrowed ? kBorrowedOctaves : 0) + (chosen->stand_in ? kBorrowedOctaves : 0) + outside,
          Work::zero(),
          chain};
}

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
      : time_(time), ends_(calibration.assumed_interval), times_(times) {
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
    return kernel.compute ? LayerTime{time, Time::zero(), wait} : LayerTime{Time::zero(), time, wait};
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
    if (const DataSize moved = accumulated_by(layer, beside.accumulated); moved > DataSize::zero()) {
      const Time adding = sum.add(time.memory_bound(primitives::MemoryBoundKind::kElementwise, 0, moved)).total();
      backward.memory += adding;
      weights.memory += adding;
    }
    times.layers.push_back({forward, backward, weights});
  }
  times.update = sum.add(time.memory_bound(primitives::MemoryBoundKind::kUpdate, 0, beside.updated)).total();
  return times;
}

}  // namespace ddlsim::cost
