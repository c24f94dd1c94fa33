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

bool changed(const Scenario& scenario) {
  return std::any_of(scenario.stated.begin(), scenario.stated.end(), [](const std::string& path) {
    return path.starts_with("gpu.peak.") || path == "gpu.memory_bandwidth";
  });
}

/// A profile and how far its GPU is from the one in question.
struct Candidate {
  ChosenProfile chosen;
  double far = 0;
};

Expected<std::vector<Candidate>> near_profiles(const hardware::Gpu& gpu, const io::Catalog& catalog) {
  std::vector<Candidate> near;
  for (const std::string& id : catalog.ids(io::Kind::kCalibrations)) {
    auto profile = catalog.profile(id);
    if (!profile) return tl::unexpected<Error>(profile.error());
    const auto other = catalog.gpu((*profile)->gpu);
    if (!other) return tl::unexpected<Error>(other.error());
    const bool own = other->id == gpu.id;
    const double far = own ? -1 : distance(gpu, *other);
    if (own || (other->architecture == gpu.architecture && far < kFarthest)) {
      near.push_back({{std::move(*profile), !own}, far});
    }
  }
  std::stable_sort(near.begin(), near.end(), [](const Candidate& a, const Candidate& b) { return a.far < b.far; });
  return near;
}

}  // namespace

Expected<void> set_profiles(Scenario& scenario, const io::Catalog& catalog) {
  const hardware::Gpu& gpu = scenario.cluster.node.gpu;
  if (scenario.calibration == "none" || !scenario.model->has_layers() || scenario.model->measured) return {};
  if (scenario.calibration != "auto") {
    auto named = catalog.profile(scenario.calibration);
    if (!named) return tl::unexpected<Error>(named.error());
    const bool borrowed = (*named)->gpu != gpu.id || changed(scenario);
    scenario.profiles.push_back({std::move(*named), borrowed});
    return {};
  }
  if (is_stated(scenario, "efficiency") || is_stated(scenario, "efficiency.compute") ||
      is_stated(scenario, "efficiency.memory")) {
    return {};
  }
  auto near = near_profiles(gpu, catalog);
  if (!near) return tl::unexpected<Error>(near.error());
  for (Candidate& candidate : *near) {
    candidate.chosen.borrowed = candidate.chosen.borrowed || changed(scenario);
    scenario.profiles.push_back(std::move(candidate.chosen));
  }
  return {};
}

}  // namespace ddlsim::whatif
