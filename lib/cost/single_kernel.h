// The time of one kernel by what was measured (cost/kernel_time.h has the rules), before it is summed over layers.
#pragma once

#include <cstdint>
#include <memory>

#include "ddlsim/cost/image_kernels.h"
#include "ddlsim/cost/kernel_time.h"
#include "ddlsim/hardware/gpu.h"
#include "ddlsim/hardware/gpu_profile.h"
#include "ddlsim/primitives/kernel.h"
#include "ddlsim/support/precision.h"
#include "ddlsim/support/units.h"

namespace ddlsim::cost {

/// A kernel's time, what it is bound by, and what the time rests on.
struct KernelTime {
  Time time{};
  double ratio = 0;                               // memory's time over arithmetic's
  const hardware::CurveReport* report = nullptr;  // null: assumed
  double outside = 0;                             // octaves, borrowed curves included
  Work executed{};
  Time wait{};  // after it, of the GPU: no kernel of the chain is ready
};

/// Of one calibration, batch and precision; the calibration must outlive it.
class KernelTimes {
 public:
  KernelTimes(const Calibration& calibration, double batch, Precision precision)
      : KernelTimes(calibration, batch, precision, calibration.assumed) {}

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
  KernelTimes(const Calibration& calibration, double batch, Precision precision, const DeviceRates& assumed)
      : calibration_(calibration),
        batch_(batch),
        element_(activation_size(precision)),
        spec_(hardware::device_spec(calibration.gpu, multiplied_in(calibration.gpu, precision))),
        images_(image_device(calibration.gpu)),
        has_batch_norm_(has_curve(primitives::MemoryBoundKind::kBatchNorm)),
        has_pool_(has_curve(primitives::MemoryBoundKind::kPool)),
        precision_(precision),
        assumed_(assumed) {
    if (precision == Precision::kTf32) {
      as_fp32_ = std::make_unique<const KernelTimes>(calibration, batch, Precision::kFp32);
    }
    if (is_cast(precision)) as_bf16_ = in_bf16();
  }

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
  [[nodiscard]] std::unique_ptr<const KernelTimes> in_bf16() const;
  [[nodiscard]] KernelTime roofline(Work work, DataSize size) const;
  /// The GPU as its profile was measured on it.
  [[nodiscard]] hardware::DeviceSpec measured_spec(const ProfileInUse& use) const;
  [[nodiscard]] KernelTime convolution(const primitives::ConvolutionShape& shape) const;
  /// Whether a profile measured kernels of the kind, layouts and all.
  [[nodiscard]] bool has_curve(primitives::MemoryBoundKind kind) const;
  [[nodiscard]] ImageNumbers numbers() const { return {calibration_.channels_first, precision_}; }
  /// What arithmetic takes of a product whose sizes do not fit the tensor cores' loads; zero where they do.
  [[nodiscard]] Time unaligned(const primitives::Gemm& gemm, Work work) const;

  const Calibration& calibration_;
  double batch_;
  DataSize element_;
  hardware::DeviceSpec spec_;
  ImageDevice images_;
  bool has_batch_norm_;  // a curve of it
  bool has_pool_;
  Precision precision_;
  DeviceRates assumed_;                         // where no curve is
  std::unique_ptr<const KernelTimes> as_fp32_;  // of TF32
  std::unique_ptr<const KernelTimes> as_bf16_;  // of fp8 and fp4, which libraries have for products alone
};

}  // namespace ddlsim::cost
