// Settings out of a map that was read already: what a scenario file holds, wherever it stands.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ddlsim/io/yaml.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

/// As load_scenario: nested keys join with dots, places stay with their settings. `what` names the map in errors ("a
/// job"). Errors: no map, a list where one value belongs, an unknown setting.
[[nodiscard]] Expected<std::vector<Override>> settings_in(const io::Node& map, std::string_view what);

/// The path of a key in the map at `path` ("": a job's own). In a job, flags' names are those of their settings: "tp",
/// unless a map stands there; those of splits stand in its `parallel` too (setting_at).
[[nodiscard]] std::string path_within(const std::string& path, const std::string& key, bool is_map);

}  // namespace ddlsim::whatif
