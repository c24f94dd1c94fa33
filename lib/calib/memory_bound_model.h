// The model of one curve and its fit, shared by the steps of fit_memory_bound.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ddlsim/hardware/gpu_profile.h"

namespace ddlsim::calib {

struct MemoryBoundPoint {
  double traffic = 0;  // bytes
  double rows = 0;
  std::int64_t row = 0;  // elements of one
  double time = 0;       // seconds
  std::size_t series = 0;
  int fold = 0;
};

/// What may vary.
struct MemoryBoundSystem {
  hardware::DeviceSpec spec;
  std::vector<double> knots{0, 0.5, 1, 2, 8};  // of the L2
  std::vector<std::int64_t> lengths;           // of rows, from which on kernels may take another factor
  bool time_per_row = false;
  std::size_t series = 1;

  [[nodiscard]] MemoryBoundSystem without(std::size_t knot) const;
  [[nodiscard]] MemoryBoundSystem with(std::int64_t length) const;
  [[nodiscard]] MemoryBoundSystem simplest() const;
};

struct MemoryBoundModel {
  std::vector<double> slopes;   // from a knot to the next, of 1 / bandwidth
  std::vector<double> factors;  // by lengths; the first, of rows shorter than all, is 1
  double time_per_row = 0;      // seconds, of one multiprocessor
  std::vector<double> overheads;
  std::vector<double> floors;
  std::vector<double> errors;  // of slopes, time_per_row if it is there, overheads

  [[nodiscard]] double kernel(const MemoryBoundSystem& system, const MemoryBoundPoint& point) const;
  [[nodiscard]] double measured(const MemoryBoundSystem& system, const MemoryBoundPoint& point) const;
};

/// Requires points.
[[nodiscard]] MemoryBoundModel fit_model(const MemoryBoundSystem& system, std::span<const MemoryBoundPoint> points);

}  // namespace ddlsim::calib
