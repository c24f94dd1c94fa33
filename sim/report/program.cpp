#include "ddlsim/report/program.h"

#include <fmt/core.h>

namespace ddlsim::report {

std::string with_program(const std::string& json, std::string_view version, const std::optional<std::string>& data) {
  constexpr std::string_view kSchema = "{\n  \"schema\": ";
  if (!json.starts_with(kSchema)) return json;
  const std::size_t line = json.find('\n', kSchema.size());
  if (line == std::string::npos) return json;
  const std::string of = data ? "\"" + *data + "\"" : "null";
  return fmt::format("{}  \"program\": {{\n    \"version\": \"{}\",\n    \"data\": {}\n  }},\n{}",
                     json.substr(0, line + 1), version, of, json.substr(line + 1));
}

}  // namespace ddlsim::report
