#include "ddlsim/hardware/gpu.h"

#include <algorithm>

#include "ddlsim/hardware/gpu_profile.h"

namespace ddlsim::hardware {
namespace {

constexpr double kWithoutTensorCores = 2.01;  // times fp32, datasheets' rounding included

}  // namespace

std::optional<ComputeRate> PeakRates::at(Precision precision) const {
  switch (precision) {
    case Precision::kFp32: return fp32;
    case Precision::kTf32: return tf32;
    case Precision::kFp16: return fp16;
    case Precision::kBf16: return bf16;
    case Precision::kFp8: return fp8;
    case Precision::kFp4: return fp4;
  }
  return std::nullopt;
}

void PeakRates::set(Precision precision, ComputeRate rate) {
  switch (precision) {
    case Precision::kFp32: fp32 = rate; return;
    case Precision::kTf32: tf32 = rate; return;
    case Precision::kFp16: fp16 = rate; return;
    case Precision::kBf16: bf16 = rate; return;
    case Precision::kFp8: fp8 = rate; return;
    case Precision::kFp4: fp4 = rate; return;
  }
}

std::optional<double> SustainedShares::at(Precision precision) const {
  for (const auto& [one, share] : shares_) {
    if (one == precision) return share;
  }
  return std::nullopt;
}

void SustainedShares::set(Precision precision, double share) { shares_.emplace_back(precision, share); }

std::optional<EnergyPerFlop> PowerDraw::at(Precision precision) const {
  const auto stated = [&](Precision asked) -> std::optional<EnergyPerFlop> {
    for (const auto& [one, energy] : arithmetic) {
      if (one == asked) return energy;
    }
    return std::nullopt;
  };
  if (const auto own = stated(precision)) return own;
  switch (precision) {
    case Precision::kFp16: return stated(Precision::kBf16);
    case Precision::kBf16: return stated(Precision::kFp16);
    case Precision::kFp4: return stated(Precision::kFp8);
    case Precision::kFp32:
    case Precision::kTf32:
    case Precision::kFp8: return std::nullopt;
  }
  return std::nullopt;
}

bool multiplies_as_fp32(const Gpu& gpu, Precision precision) {
  if (precision == Precision::kFp32) return true;
  if (precision != Precision::kFp16 || !gpu.nccl_tuning) return false;
  if (*gpu.nccl_tuning == GpuGeneration::kPascal) return true;
  if (gpu.half_units) return !*gpu.half_units;
  const bool turing = *gpu.nccl_tuning == GpuGeneration::kVolta && gpu.architecture == "Turing";
  return turing && gpu.peak.fp16 && *gpu.peak.fp16 <= gpu.peak.fp32 * kWithoutTensorCores;
}

std::optional<double> sustained_share(const Gpu& gpu, Precision precision) {
  const auto own = gpu.sustained.at(precision);
  const bool tf32 = precision == Precision::kTf32;
  const bool half = precision == Precision::kFp16 || precision == Precision::kBf16;
  if (!(half && gpu.peak.fp16 == gpu.peak.bf16) && !(tf32 && !own)) return own;
  const auto fp16 = gpu.sustained.at(Precision::kFp16);
  const auto bf16 = gpu.sustained.at(Precision::kBf16);
  return fp16 && bf16 ? std::max(*fp16, *bf16) : fp16 ? fp16 : bf16;
}

DeviceSpec device_spec(const Gpu& gpu, Precision precision) {
  return {static_cast<double>(gpu.sm_count), gpu.peak.at(precision).value_or(ComputeRate{}), gpu.memory_bandwidth,
          gpu.l2.value_or(DataSize{})};
}

}  // namespace ddlsim::hardware
