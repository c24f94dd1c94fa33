#include "profile.h"

#include <algorithm>
#include <string_view>

#include "ddlsim/support/portable_math.h"

namespace ddlsim::whatif {
namespace {

/// Octaves between two datasheets in fp32 rate and memory bandwidth together.
double distance(const hardware::Gpu& a, const hardware::Gpu& b) {
  const auto octaves = [](double ratio) {
    const double log = portable_log2(ratio);
    return log < 0 ? -log : log;
  };
  return std::max(octaves(a.peak.fp32 / b.peak.fp32), octaves(a.memory_bandwidth / b.memory_bandwidth));
}

constexpr double kFarthest = 1.585;  // octaves: three times

bool is_stated(const Scenario& scenario, std::string_view path) {
  return std::find(scenario.stated.begin(), scenario.stated.end(), path) != scenario.stated.end();
}

using ProfilePointer = std::shared_ptr<const hardware::GpuProfile>;

/// Nothing when no profile is near.
Expected<ProfilePointer> nearest_profile(const hardware::Gpu& gpu, const io::Catalog& catalog) {
  ProfilePointer best;
  double least = kFarthest;
  for (const std::string& id : catalog.ids(io::Kind::kCalibrations)) {
    auto profile = catalog.profile(id);
    if (!profile) return tl::unexpected<Error>(profile.error());
    if ((*profile)->gpu == gpu.id) return *profile;
    const auto other = catalog.gpu((*profile)->gpu);
    if (!other) return tl::unexpected<Error>(other.error());
    if (other->architecture != gpu.architecture) continue;
    if (const double far = distance(gpu, *other); far < least) {
      least = far;
      best = *profile;
    }
  }
  return best;
}

}  // namespace

Expected<void> set_profile(Scenario& scenario, const io::Catalog& catalog) {
  const hardware::Gpu& gpu = scenario.cluster.node.gpu;
  if (scenario.calibration == "none" || !scenario.model->has_layers() || scenario.model->measured) return {};
  const bool automatic = scenario.calibration == "auto";
  const bool stated = is_stated(scenario, "efficiency") || is_stated(scenario, "efficiency.compute") ||
                      is_stated(scenario, "efficiency.memory");
  if (automatic && stated) return {};
  auto found = automatic ? nearest_profile(gpu, catalog) : catalog.profile(scenario.calibration);
  if (!found) return tl::unexpected<Error>(found.error());
  scenario.profile = std::move(*found);
  scenario.profile_lent =
      scenario.profile && (scenario.profile->gpu != gpu.id ||
                           std::any_of(scenario.stated.begin(), scenario.stated.end(), [](const std::string& path) {
                             return path.starts_with("gpu.peak.") || path == "gpu.memory_bandwidth";
                           }));
  return {};
}

}  // namespace ddlsim::whatif
