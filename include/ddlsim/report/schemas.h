// The JSON Schemas of the answers (sim/report/schemas), as cmake/DdlsimSchemas.cmake builds them in.
#pragma once

#include <span>
#include <string_view>

namespace ddlsim::report {

struct Schema {
  std::string_view name;  // "predict" of ddlsim/predict/1
  std::string_view text;  // "$ref": "prediction.json" is the one called "prediction"
};

/// Sorted by name. "prediction" and others that are parts are among them.
[[nodiscard]] std::span<const Schema> schemas();

}  // namespace ddlsim::report
