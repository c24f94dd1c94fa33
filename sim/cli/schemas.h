// The JSON Schemas of the answers (sim/report/schemas), built into the program by CMakeLists.txt.
#pragma once

#include <span>
#include <string_view>

namespace ddlsim::cli {

struct Schema {
  std::string_view name;  // "predict" of ddlsim/predict/1
  std::string_view text;
};

/// Sorted by name. "prediction" and others that are parts are among them.
[[nodiscard]] std::span<const Schema> schemas();

}  // namespace ddlsim::cli
