#include "single_kernel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "ddlsim/cost/attention_time.h"
#include "ddlsim/cost/convolution_time.h"
#include "ddlsim/cost/gemm_time.h"
#include "ddlsim/cost/memory_bound_time.h"

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

constexpr double kNoArithmetic = std::numeric_limits<double>::infinity();

/// A curve of another GPU or precision, constants of other GPUs' gradients: as an octave outside the fitted ranges.
constexpr double kBorrowedOctaves = 1;

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

/// The same products in the other format of 16 bits, as another run measured them; null: none did.
const hardware::GemmCurve* other_run(const hardware::GpuProfile& profile, const hardware::GemmCurve& one) {
  const auto twin = std::find_if(profile.gemms.begin(), profile.gemms.end(), [&](const hardware::GemmCurve& other) {
    return other.precision != one.precision && one_speed(other.precision, one.precision) &&
           other.batched == one.batched && other.grouped == one.grouped;
  });
  return twin == profile.gemms.end() ? nullptr : &*twin;
}

/// What a kernel of tensor cores can load at once of a product's operands and results.
struct Loads {
  bool unaligned = false;           // rows along a size do not begin at multiples of 16 bytes
  std::int64_t numbers = kAligned;  // at once, along the worst of them: 4, 2 or 1 where any is unaligned
};

/// Rows of a layer's input lie one after another; of attention's products m counts queries or keys, whose numbers lie
/// along another size.
Loads loads_of(const primitives::Gemm& gemm, bool narrow) {
  const bool rows_are_m = gemm.batch_scales != primitives::BatchScales::kK;
  const bool rows_are_k = gemm.batch_scales == primitives::BatchScales::kK;
  Loads loads;
  const auto along = [&](std::int64_t size) {
    if (size % (narrow ? kAligned : kAligned / 2) == 0) return;
    loads.unaligned = true;
    const std::int64_t together = size % 4 == 0 ? 4 : size % 2 == 0 ? 2 : 1;
    loads.numbers = std::min(loads.numbers, narrow ? together : 1);
  };
  if (!rows_are_m) along(gemm.m);
  along(gemm.n);
  if (!rows_are_k) along(gemm.k);
  return loads;
}

/// Memory's time over arithmetic's as a curve has them: its time where the other takes none. Convolutions reach shares
/// of a datasheet's rates that differ by three times.
template <typename TimeOn>
double ratio_by(const hardware::DeviceSpec& spec, TimeOn time_on) {
  hardware::DeviceSpec moves = spec;
  moves.peak = ComputeRate::infinity();
  hardware::DeviceSpec computes = spec;
  computes.memory = Bandwidth::infinity();
  return time_ratio(time_on(moves), time_on(computes));
}

}  // namespace

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

std::unique_ptr<const KernelTimes> KernelTimes::in_bf16() const {
  DeviceRates rates = assumed_;
  if (rates.bf16 > ComputeRate{}) rates.compute = rates.bf16;
  return std::unique_ptr<const KernelTimes>(new KernelTimes(calibration_, batch_, Precision::kBf16, rates));
}

KernelTime KernelTimes::roofline(Work work, DataSize size) const {
  const Time compute = work / assumed_.compute;
  const Time memory = size / assumed_.memory;
  return {.time = max(compute, memory), .ratio = time_ratio(memory, compute), .executed = work};
}

Time KernelTimes::unaligned(const primitives::Gemm& gemm, Work work) const {
  const hardware::GpuGeneration generation = calibration_.gpu.nccl_tuning.value_or(hardware::GpuGeneration::kPascal);
  const bool half = runs_on_half_units(calibration_.gpu, precision_);
  const bool wide = precision_ == Precision::kTf32 && generation >= hardware::GpuGeneration::kHopper;
  const bool none = (!half && !wide) || generation < hardware::GpuGeneration::kVolta;
  if (none || calibration_.fuses_pointwise) return Time::zero();
  const Loads loads = loads_of(gemm, half);
  if (!loads.unaligned) return Time::zero();
  const auto plain = calibration_.gpu.peak.at(Precision::kFp32);
  if (generation == hardware::GpuGeneration::kVolta && plain) return work / *plain;
  if (generation >= hardware::GpuGeneration::kHopper && plain) {
    constexpr std::int64_t kMost = 2;
    return work / (*plain * (kPerNumberLoaded * static_cast<double>(std::min(loads.numbers, kMost))));
  }
  if (gemm.batch_scales == primitives::BatchScales::kBatchCount && plain) {
    const bool halfway = precision_ == Precision::kFp16 && loads.numbers == kAligned / 2;
    return work / (*plain * (halfway ? kHalfAlignedBatch : kUnalignedBatch));
  }
  return work / (spec_.peak * kAlignedShare) * kUnalignedCost;
}

KernelTime KernelTimes::of(const primitives::Gemm& gemm) const {
  hardware::GemmSize size{static_cast<double>(gemm.batch_count), static_cast<double>(gemm.m),
                          static_cast<double>(gemm.n), static_cast<double>(gemm.k)};
  (gemm.batch_scales == primitives::BatchScales::kBatchCount ? size.batch_count
   : gemm.batch_scales == primitives::BatchScales::kM        ? size.m
                                                             : size.k) *= batch_;
  const Work work = flops(2 * size.batch_count * size.m * size.n * size.k);
  const DataSize touched = element_ * (size.batch_count * (size.m * size.k + size.k * size.n + size.m * size.n));
  const hardware::GemmCurve* twin = nullptr;
  const auto curve_of = [&](bool grouped) {
    return curve([&](const hardware::GpuProfile& profile, Precision precision) {
      const auto* one = gemm_curve(profile.gemms, precision, size.batch_count, grouped);
      if (grouped && one != nullptr && !one->grouped) one = nullptr;
      twin = one != nullptr ? other_run(profile, *one) : nullptr;
      return one;
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
  if (twin != nullptr) {
    const Time again = gemm_time(*twin, spec_, size, element_) * twin->report.of_all_runs();
    time = time * std::sqrt(again / time);
  }
  const Time least = unaligned(gemm, work);
  if (least > time) octaves += kBorrowedOctaves;
  return {max(time, least), time_ratio(touched / spec_.memory, max(work / spec_.peak, least)), &found->report,
          octaves + outside(found->report, size), work};
}

KernelTime KernelTimes::of(const primitives::ConvolutionShape& shape) const {
  if (as_bf16_ != nullptr) return as_bf16_->of(shape);
  KernelTime kernel = convolution(shape);
  const auto count = [&](std::int64_t channels, const auto& size) {
    return static_cast<double>(channels) * static_cast<double>(size[0]) * static_cast<double>(size[1]) * batch_;
  };
  const double sides = count(shape.in, shape.input) + count(shape.out, shape.output);
  if (shape.groups > 1 && shape.groups == shape.in) {
    const std::int64_t taps = shape.kernel[0] * shape.kernel[1];
    kernel.time = max(kernel.time, least_depthwise_time(images_, taps, sides, numbers()));
    return kernel;
  }
  if (!calibration_.spares_turning || kernel.report == nullptr) return kernel;
  const KernelTime turns = memory_bound(primitives::MemoryBoundKind::kElementwise, 0, element_ * (2 * sides));
  kernel.time = max(kernel.time - turns.time, roofline(kernel.executed, element_ * sides).time);
  return kernel;
}

hardware::DeviceSpec KernelTimes::measured_spec(const ProfileInUse& use) const {
  hardware::DeviceSpec spec = spec_;
  if (!use.measured_at) return spec;
  spec.peak = use.measured_at->peak.at(multiplied_in(calibration_.gpu, precision_)).value_or(ComputeRate{});
  spec.memory = use.measured_at->memory;
  return spec;
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
  const auto time_on = [&, curve = found](const hardware::DeviceSpec& spec) {
    return convolution_time(*curve, spec, shape, batch_, element_);
  };
  const double bound =
      found == nullptr ? time_ratio(touched / spec_.memory, work / spec_.peak) : ratio_by(spec_, time_on);
  for (const ProfileInUse& use : calibration_.profiles) {
    if (use.borrowed && !use.measured_at) continue;
    const hardware::DeviceSpec spec = measured_spec(use);
    const auto table = measured_convolution(use.profile->measured_convolutions, found, spec, precision_, shape, batch_);
    if (!table) continue;
    if (found == nullptr) return {table->time, bound, &table_report(), use.borrowed ? kBorrowedOctaves : 0, work};
    const ConvolutionChoice here = convolution_choice(*found, spec_, shape, batch_, element_);
    // The GPU's own measurement at other rates moves as its curve does.
    const double faster = use.measured_at ? here.time / convolution_time(*found, spec, shape, batch_, element_) : 1.0;
    return {table->time * faster, bound, &found->report, use.borrowed ? kBorrowedOctaves : 0, work * here.arithmetic};
  }
  if (found == nullptr) return roofline(work, touched);
  const double unseen =
      shape.pass != primitives::ConvolutionPass::kForward && found->gradient_rows == 0 ? kBorrowedOctaves : 0;
  const ConvolutionChoice choice = convolution_choice(*found, spec_, shape, batch_, element_);
  return {choice.time * found->report.of_all_runs(), bound, &found->report,
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
  if (is_single(precision) && (found == nullptr || !is_single(found->precision))) {
    const DeviceRates& rates = assumed_;
    const Time compute = work / (calibration_.gpu.peak.fp32 * kSingleAttention);
    const Time memory = moved / rates.memory;
    return {.time = max(compute, memory), .ratio = time_ratio(memory, compute), .executed = work};
  }
  if (found == nullptr) return as_bf16_ != nullptr ? as_bf16_->roofline(work, moved) : roofline(work, moved);
  const KernelSlowdown slower = kernel_slowdown(calibration_.attention, attention_generation(calibration_.gpu),
                                                attention.shape.pass, head_width(attention.shape))
                                    .value_or(KernelSlowdown{});
  const double unseen = found->pass == attention.shape.pass ? 0 : kBorrowedOctaves;
  // A ring's step, and the last of several chunks, has other FLOPs than its shape's.
  const double share = attention.work / attention_work(attention.shape, 1);
  const hardware::DeviceSpec spec = hardware::device_spec(calibration_.gpu, precision);
  const Time time =
      attention_time(*found, spec, attention.shape, batch_, element_, slower) * found->report.of_all_runs();
  return {time * share, time_ratio(moved / spec.memory, work / spec.peak), &found->report,
          octaves + unseen + outside(found->report, attention.shape, batch_), work};
}

KernelTime KernelTimes::of(const primitives::MemoryBoundKernel& kernel) const {
  double elements = static_cast<double>(kernel.elements) * batch_ + static_cast<double>(kernel.weights);
  const bool narrow = !is_single(precision_);
  if (narrow && !calibration_.fuses_pointwise) elements *= kernel.widening;
  KernelTime time = memory_bound(kernel.kind, kernel.row, element_ * elements);
  if (kernel.channels == 0) return time;
  if (kernel.kind == primitives::MemoryBoundKind::kPool) {
    if (!has_pool_) time.time = max(time.time, least_pooling_time(images_, elements));
  } else if (!has_batch_norm_) {
    time.time = batch_norm_time(images_, time.time, elements, kernel.channels, numbers());
  }
  return time;
}

bool KernelTimes::has_curve(primitives::MemoryBoundKind kind) const {
  const auto of_kind = [&](const hardware::MemoryBoundCurve& curve) { return curve.kind == kind; };
  return std::any_of(calibration_.profiles.begin(), calibration_.profiles.end(), [&](const ProfileInUse& use) {
    return std::any_of(use.profile->memory_bound.begin(), use.profile->memory_bound.end(), of_kind);
  });
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
  if (!chosen) return {.time = roofline(Work::zero(), traffic).time, .ratio = kNoArithmetic, .wait = chain};
  const hardware::CurveReport& report = chosen->curve->report;
  const double outside = doublings_outside(report, "bytes", traffic.in(bytes)) +
                         (row > 0 ? doublings_outside(report, "row", static_cast<double>(row)) : 0);
  const Time time = memory_bound_time(*chosen->curve, spec_, {traffic, rows_of(traffic, row, element_), row});
  return {time * report.of_all_runs(),
          kNoArithmetic,
          &report,
          (borrowed ? kBorrowedOctaves : 0) + (chosen->stand_in ? kBorrowedOctaves : 0) + outside,
          Work::zero(),
          chain};
}

}  // namespace ddlsim::cost
