// A GPU of round rates, and the calibration of tests of kernels' times.
#pragma once

#include "ddlsim/cost/kernel_time.h"
#include "ddlsim/workload/model.h"

namespace ddlsim::cost {

inline hardware::Gpu gpu() {
  hardware::Gpu gpu;
  gpu.sm_count = 10;
  gpu.peak.fp32 = teraflops_per_second(10);
  gpu.peak.set(Precision::kFp16, teraflops_per_second(40));
  gpu.peak.set(Precision::kBf16, teraflops_per_second(40));
  gpu.memory_bandwidth = gigabytes_per_second(100);
  return gpu;
}

/// Element-wise kernels reach the datasheet's bandwidth and err from 0.9 to 1.2.
inline hardware::GpuProfile profile() {
  hardware::GpuProfile profile;
  hardware::MemoryBoundCurve curve;
  curve.slope_changes = {{0, 1}};
  curve.report.interval = {0.9, 1.2};
  curve.report.fitted_ranges = {{"bytes", 1e3, 1e9}};
  profile.memory_bound.push_back(curve);
  return profile;
}

inline Calibration calibration(const hardware::GpuProfile& profile) {
  return {.profiles = {{&profile, false}},
          .gpu = gpu(),
          .assumed = {teraflops_per_second(7), gigabytes_per_second(70)},
          .assumed_interval = {0.5, 2}};
}

inline workload::Model model_of(const workload::Op& op, const workload::Shape& in) {
  workload::Model model;
  model.layers.push_back(workload::layer_of(op, in, "layer").value().layer);
  model.totals = workload::total(model.layers).value();
  return model;
}

inline hardware::GemmCurve products_in(Precision precision, double efficiency = 0.8) {
  hardware::GemmCurve curve;
  curve.precision = precision;
  curve.tiles = {{.efficiency = efficiency}};
  return curve;
}

}  // namespace ddlsim::cost
