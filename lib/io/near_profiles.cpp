#include "near_profiles.h"

#include <algorithm>
#include <cmath>

#include "ddlsim/io/catalog.h"
#include "ddlsim/io/yaml.h"
#include "ddlsim/support/portable_math.h"

namespace ddlsim::io {
namespace {

constexpr double kFarthest = 1.585;  // octaves: three times

/// Octaves between two datasheets in fp32 rate or memory bandwidth, whichever is more.
double distance(const hardware::Gpu& a, const hardware::Gpu& b) {
  return std::max(std::abs(portable_log2(a.peak.fp32 / b.peak.fp32)),
                  std::abs(portable_log2(a.memory_bandwidth / b.memory_bandwidth)));
}

/// The lines of a map before its first value of several lines.
std::string_view head_of(std::string_view text) {
  for (std::size_t line = 0; line < text.size();) {
    const std::size_t end = std::min(text.find('\n', line), text.size());
    if (end > line && text[end - 1] == ':') return text.substr(0, line);
    line = end + 1;
  }
  return text;
}

}  // namespace

std::string gpu_in_head(const std::filesystem::path& path) {
  const auto text = read_file(path);
  if (!text) return {};
  const auto head = parse_yaml(head_of(*text), path.string());
  if (!head || head->kind != NodeKind::kMap) return {};
  const auto gpu =
      std::find_if(head->entries.begin(), head->entries.end(), [](const Entry& entry) { return entry.key == "gpu"; });
  return gpu == head->entries.end() ? std::string() : gpu->value.text;
}

Expected<std::vector<NearProfile>> Catalog::profiles_near(const hardware::Gpu& gpu) const {
  hardware::Gpu datasheet = gpu;
  if (knows(Kind::kGpus, gpu.id)) {
    auto known = this->gpu(gpu.id);
    if (!known) return tl::unexpected<Error>(known.error());
    datasheet = std::move(*known);
  }
  std::vector<NearProfile> near;
  for (const std::string& id : ids(Kind::kCalibrations)) {
    const auto measured_on = gpu_of_profile(id);
    if (!measured_on) return tl::unexpected<Error>(measured_on.error());
    auto other = this->gpu(*measured_on);
    if (!other) return tl::unexpected<Error>(other.error());
    const bool own = other->id == datasheet.id;
    const double far = own ? -1 : distance(datasheet, *other);
    if (!own && (other->architecture != datasheet.architecture || far >= kFarthest)) continue;
    auto read = profile(id);
    if (!read) return tl::unexpected<Error>(read.error());
    near.push_back({std::move(*read), std::move(*other), far});
  }
  std::stable_sort(near.begin(), near.end(),
                   [](const NearProfile& a, const NearProfile& b) { return a.octaves < b.octaves; });
  return near;
}

}  // namespace ddlsim::io
