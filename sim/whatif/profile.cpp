#include "profile.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ddlsim/hardware/gpu_profile.h"
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

}  // namespace

Expected<std::vector<hardware::MeasuredProfile>> near_profiles(const hardware::Gpu& asked, const io::Catalog& catalog) {
  auto known = catalog.gpu(asked.id);
  const hardware::Gpu& gpu = known ? *known : asked;
  std::vector<std::pair<double, hardware::MeasuredProfile>> near;
  for (const std::string& id : catalog.ids(io::Kind::kCalibrations)) {
    auto profile = catalog.profile(id);
    if (!profile) return tl::unexpected<Error>(profile.error());
    const auto other = catalog.gpu((*profile)->gpu);
    if (!other) return tl::unexpected<Error>(other.error());
    const bool own = other->id == gpu.id;
    const double octaves = own ? -1 : distance(gpu, *other);
    if (own || (other->architecture == gpu.architecture && octaves < kFarthest)) {
      near.push_back({octaves, {std::move(*profile), other->peak, other->memory_bandwidth}});
    }
  }
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<hardware::MeasuredProfile> profiles;
  for (auto& one : near) profiles.push_back(std::move(one.second));
  return profiles;
}

}  // namespace ddlsim::whatif
