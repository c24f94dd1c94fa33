#include "ddlsim/whatif/grid_settings.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace ddlsim::whatif {

Expected<void> add_setting(const Override& setting, GridParts& parts) {
  // Prices of named servers are one value.
  if (setting.path == "price" && setting.value.find('=') != std::string::npos) {
    parts.base.push_back(setting);
    return {};
  }
  const auto values = values_of(setting.value);
  if (!values) {
    Error error = values.error();
    error.message = fmt::format("{}: {}", setting.path, error.message);
    return tl::unexpected<Error>(std::move(error));
  }
  if (values->size() == 1) {
    parts.base.push_back({setting.path, values->front(), {}});
    return {};
  }
  Axis axis{.paths = {setting.path}, .steps = {}, .where = {}};
  for (const std::string& value : *values) axis.steps.push_back({value});
  parts.axes.push_back(std::move(axis));
  return {};
}

void take_over(GridParts typed, GridParts& parts) {
  const auto replace = [&](const std::string& path) {
    std::erase_if(parts.base, [&](const Override& one) { return one.path == path; });
    std::erase_if(parts.axes, [&](const Axis& one) { return one.paths == std::vector{path}; });
  };
  for (const Override& one : typed.base) replace(one.path);
  for (const Axis& axis : typed.axes) replace(axis.paths.front());
  std::move(typed.base.begin(), typed.base.end(), std::back_inserter(parts.base));
  std::move(typed.axes.begin(), typed.axes.end(), std::back_inserter(parts.axes));
}

void keep_last(std::vector<Override>& base) {
  std::vector<Override> kept;
  for (Override& one : base) {
    std::erase_if(kept, [&](const Override& before) { return before.path == one.path; });
    kept.push_back(std::move(one));
  }
  base = std::move(kept);
}

std::vector<std::string> all_values(const Grid& grid, std::string_view path) {
  std::vector<std::string> values;
  for (const Override& one : grid.base()) {
    if (one.path == path) values.push_back(one.value);
  }
  for (const Axis& axis : grid.axes()) {
    for (std::size_t i = 0; i < axis.paths.size(); ++i) {
      if (axis.paths[i] != path) continue;
      for (const auto& step : axis.steps) values.push_back(step[i]);
    }
  }
  return values;
}

Expected<void> check_names(const Grid& grid, const io::Catalog& catalog) {
  const auto named = [](std::string_view path, Error error) {
    if (error.where.file.empty()) error.message = fmt::format("{}: {}", path, error.message);
    return tl::unexpected<Error>(std::move(error));
  };
  for (const std::string& name : all_values(grid, "model")) {
    if (auto known = catalog.find(io::Kind::kModels, name); !known) return named("model", known.error());
  }
  for (const std::string& name : all_values(grid, "node")) {
    if (auto known = catalog.node(name); !known) return named("node", known.error());
  }
  for (const std::string& name : all_values(grid, "gpu")) {
    if (auto known = catalog.find(io::Kind::kGpus, name); !known) return named("gpu", known.error());
  }
  return {};
}

}  // namespace ddlsim::whatif
