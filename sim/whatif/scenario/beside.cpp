#include "scenario/beside.h"

#include <algorithm>
#include <array>

#include "ddlsim/io/catalog.h"

namespace ddlsim::whatif {
namespace {

enum class NamedAs {
  kNoName,
  kThingOrFile,
  kFileAlways
};  // never a file, a thing of the catalogue or its file, always a file

NamedAs what_is_named(std::string_view setting) {
  constexpr auto kThings = std::to_array<std::string_view>(
      {"model", "node", "gpu", "network", "gpu.calibration", "input.dataset", "input.storage", "failures"});
  constexpr auto kFiles = std::to_array<std::string_view>({"collective.table", "measured.runs"});
  if (setting.starts_with("other_jobs.")) {
    // other_jobs.0.model
    const std::size_t dot = setting.find('.', std::string_view("other_jobs.").size());
    setting = dot == std::string_view::npos ? std::string_view() : setting.substr(dot + 1);
  }
  if (std::find(kFiles.begin(), kFiles.end(), setting) != kFiles.end()) return NamedAs::kFileAlways;
  return std::find(kThings.begin(), kThings.end(), setting) != kThings.end() ? NamedAs::kThingOrFile : NamedAs::kNoName;
}

}  // namespace

std::string found_beside(const std::filesystem::path& file, std::string_view setting, const std::string& value) {
  const NamedAs names = what_is_named(setting);
  const bool may = names == NamedAs::kFileAlways || (names == NamedAs::kThingOrFile && io::is_path(value));
  return may && !value.empty() ? io::found_beside(file, value) : value;
}

}  // namespace ddlsim::whatif
