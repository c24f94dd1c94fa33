#include "profile.h"

#include <algorithm>
#include <string_view>

namespace ddlsim::whatif {
namespace {

bool is_stated(const Scenario& scenario, std::string_view path) {
  return std::find(scenario.stated.begin(), scenario.stated.end(), path) != scenario.stated.end();
}

bool changed(const Scenario& scenario) {
  return std::any_of(scenario.stated.begin(), scenario.stated.end(), [](const std::string& path) {
    return path.starts_with("gpu.peak.") || path == "gpu.memory_bandwidth";
  });
}

}  // namespace

Expected<void> set_profiles(Scenario& scenario, const io::Catalog& catalog) {
  const hardware::Gpu& gpu = scenario.cluster.node.gpu;
  if (scenario.calibration == "none" || !scenario.model->has_layers() || scenario.model->measured) return {};
  if (scenario.calibration != "auto") {
    auto named = catalog.profile(scenario.calibration);
    if (!named) return tl::unexpected<Error>(named.error());
    const bool lent = (*named)->gpu != gpu.id || changed(scenario);
    scenario.profiles.push_back({std::move(*named), lent});
    return {};
  }
  if (is_stated(scenario, "efficiency") || is_stated(scenario, "efficiency.compute") ||
      is_stated(scenario, "efficiency.memory")) {
    return {};
  }
  auto near = catalog.profiles_near(gpu);
  if (!near) return tl::unexpected<Error>(near.error());
  for (io::NearProfile& one : *near) {
    const bool lent = one.gpu.id != gpu.id || changed(scenario);
    scenario.profiles.push_back({std::move(one.profile), lent});
  }
  return {};
}

}  // namespace ddlsim::whatif
