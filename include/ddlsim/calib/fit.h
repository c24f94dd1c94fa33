// A GPU's profile from measured kernels: each family of curves by its own fit, one after the other.
//
//   gemms            calib/gemm_fit.h
//   convolutions     calib/convolution_fit.h
//   memory_bound     calib/memory_bound_fit.h
//   attention        calib/attention_fit.h
//   launch_interval  the median of the launch rows
// A convolution that was measured stands in the profile as it was measured, too.
//
// Rows come from io/kernel_file.h, the profile goes to io/profile_file.h; calib/check.h compares it with other rows.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ddlsim/hardware/gpu.h"
#include "ddlsim/hardware/gpu_profile.h"
#include "ddlsim/primitives/kernel.h"
#include "ddlsim/support/error.h"

namespace ddlsim::calib {

struct FitOptions {
  std::string id;        // of the profile; the GPU's where empty
  std::string date;      // of the fit
  std::string measured;  // where the rows come from
};

/// Rows that were left out (throttled, cold) are passed over. Fails without a row that a curve can use.
[[nodiscard]] Expected<hardware::GpuProfile> fit_profile(std::span<const primitives::KernelMeasurement> rows,
                                                         const hardware::Gpu& gpu, const FitOptions& options = {});

}  // namespace ddlsim::calib
