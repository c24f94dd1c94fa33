#include "ddlsim/calib/fit.h"

#include <algorithm>
#include <utility>

#include "ddlsim/calib/robust.h"
#include "ddlsim/calib/sweep_fit.h"

namespace ddlsim::calib {

Expected<hardware::GpuProfile> fit_profile(std::span<const KernelMeasurement> rows, const hardware::Gpu& gpu,
                                           const FitOptions& options) {
  hardware::GpuProfile profile;
  profile.id = options.id.empty() ? gpu.id : options.id;
  profile.gpu = gpu.id;
  profile.date = options.date;
  auto sweeps = fit_sweeps(rows, hardware::device_spec(gpu, Precision::kFp32), {options.measured});
  if (!sweeps) return tl::unexpected<Error>(sweeps.error());
  profile.sweeps = std::move(*sweeps);
  // Products and convolutions: here, as the sweeps above.
  std::vector<double> launches;
  for (const KernelMeasurement& row : rows) {
    if (!row.left_out && std::holds_alternative<TimedLaunch>(row.what)) launches.push_back(row.time.in(seconds));
  }
  if (!launches.empty()) profile.launch_interval = seconds(median(std::move(launches)));
  if (profile.sweeps.empty() && profile.products.empty() && profile.convolutions.empty() && !profile.launch_interval) {
    return fail(ErrorCode::kInfeasible, "no row that a curve can use", {},
                {"ops with curves: sweep, product, convolution, launch (bench/calibrate/README.md)"});
  }
  return profile;
}

}  // namespace ddlsim::calib
