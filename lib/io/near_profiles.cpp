#include "near_profiles.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ddlsim/hardware/lent_profile.h"
#include "ddlsim/io/catalog.h"
#include "ddlsim/io/yaml.h"
#include "ddlsim/support/portable_math.h"

namespace ddlsim::io {
namespace {

constexpr double kFarthest = 1.585;  // octaves: three times
constexpr double kOfAnother = 10;    // octaves: behind all of its own architecture

/// Octaves between two datasheets in fp32 rate or memory bandwidth, whichever is more.
double distance(const hardware::Gpu& a, const hardware::Gpu& b) {
  return std::max(std::abs(portable_log2(a.peak.fp32 / b.peak.fp32)),
                  std::abs(portable_log2(a.memory_bandwidth / b.memory_bandwidth)));
}

/// The same with tensor cores' peaks: chips with the same memory and FP32 rate may be of other steppings (GB200 is a
/// B200, B300 is not).
double distance_in_all(const hardware::Gpu& a, const hardware::Gpu& b) {
  double octaves = distance(a, b);
  for (const auto& [word, precision] : kPrecisions) {
    const auto one = a.peak.at(precision);
    const auto other = b.peak.at(precision);
    if (one && other) octaves = std::max(octaves, std::abs(portable_log2(*one / *other)));
  }
  return octaves;
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

std::string said_in_head(const std::filesystem::path& path, std::string_view key) {
  const auto text = read_file(path);
  if (!text) return {};
  const auto head = parse_yaml(head_of(*text), path.string());
  if (!head || head->kind != NodeKind::kMap) return {};
  const auto said =
      std::find_if(head->entries.begin(), head->entries.end(), [&](const Entry& entry) { return entry.key == key; });
  return said == head->entries.end() ? std::string() : said->value.text;
}

Expected<std::vector<hardware::MeasuredProfile>> Catalog::profiles_near(const hardware::Gpu& gpu) const {
  hardware::Gpu sheet = gpu;
  if (knows(Kind::kGpus, gpu.id)) {
    auto known = datasheet(gpu.id);
    if (!known) return tl::unexpected<Error>(known.error());
    sheet = std::move(*known);
  }
  std::vector<std::pair<double, hardware::MeasuredProfile>> near;  // by octaves between datasheets; -1: its own
  for (const std::string& id : ids(Kind::kCalibrations)) {
    const auto measured_on = gpu_of_profile(id);
    if (!measured_on) return tl::unexpected<Error>(measured_on.error());
    // Another architecture shows in the first lines of its datasheet.
    const auto sheet_path = find(Kind::kGpus, *measured_on);
    if (!sheet_path) return tl::unexpected<Error>(sheet_path.error());
    const std::string architecture = said_in_head(*sheet_path, "architecture");
    const auto runs = [&](const std::string& other) {
      return other == sheet.architecture || other == sheet.kernels_of;
    };
    if (!architecture.empty() && !runs(architecture)) continue;
    const auto other = datasheet(*measured_on);
    if (!other) return tl::unexpected<Error>(other.error());
    const bool own = other->id == sheet.id;
    if (!own && (!runs(other->architecture) || distance(sheet, *other) >= kFarthest)) continue;
    const double octaves = own ? -1 : distance_in_all(sheet, *other);
    auto read = profile(id);
    if (!read) return tl::unexpected<Error>(read.error());
    auto answers = own ? std::move(*read) : hardware::lent(std::move(*read), *other, sheet);
    const double further = other->architecture == sheet.architecture ? 0 : kOfAnother;
    hardware::MeasuredProfile one{std::move(answers), other->peak, other->memory_bandwidth, other->sm_count};
    one.own = hardware::is_of_chip(one, sheet);
    near.push_back({octaves + further, std::move(one)});
  }
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<hardware::MeasuredProfile> profiles;
  profiles.reserve(near.size());
  for (auto& [octaves, one] : near) profiles.push_back(std::move(one));
  return profiles;
}

}  // namespace ddlsim::io
