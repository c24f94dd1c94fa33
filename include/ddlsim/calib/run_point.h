// Where a measured run of a job stands among its configurations.
//
// Used by calib/run_posterior.h and calib/run_shape.h.
#pragma once

#include <array>
#include <compare>
#include <cstdint>

namespace ddlsim::calib {

/// Numbers that tell one way of splitting a model from another; 0s: it is whole, and all of it is kept by every rank.
struct RunSplit {
  std::array<std::int64_t, 8> ranks{};  // degrees, and in which order stages work
  std::int64_t zero = 0;                // what data-parallel ranks share
  std::array<std::int64_t, 5> kept{};   // what is computed again, lies on the host or is frozen

  [[nodiscard]] auto operator<=>(const RunSplit&) const = default;
};

struct RunPoint {
  std::int64_t gpus_per_server = 1;
  std::int64_t servers = 1;
  double batch = 1;              // samples per GPU and pass
  double communication = 0;      // share of the step that is no GPU time: 1 - d ln P / d ln(GPU time)
  double fixed = 0;              // share of the GPU time that launching its kernels takes, whatever the samples
  double passes_per_second = 0;  // by the model, uncorrected; 0: nobody says
  RunSplit split{};
  std::int64_t software = 0;  // that runs it: equal where the same does

  [[nodiscard]] bool operator==(const RunPoint&) const = default;
};

/// Fewer GPUs, then a smaller batch, then fewer servers, then the split and the software that sort first: no order of a
/// file decides.
[[nodiscard]] bool smaller(const RunPoint& a, const RunPoint& b);

struct MeasuredRun {
  RunPoint point;
  double residual = 0;  // ln(measured / predicted)
};

}  // namespace ddlsim::calib
