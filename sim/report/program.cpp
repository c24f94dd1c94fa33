#include "ddlsim/report/program.h"

#include <fmt/core.h>

namespace ddlsim::report {

std::string with_program(const std::string& json, const std::optional<std::string>& data) {
  constexpr std::string_view kSchema = "{\n  \"schema\": ";
  constexpr std::string_view kProgram = "  \"program\": {\n";
  constexpr std::string_view kEnd = "\n  },\n";
  if (!json.starts_with(kSchema)) return json;
  const std::size_t line = json.find('\n', kSchema.size());
  if (line == std::string::npos) return json;
  std::string_view rest = std::string_view(json).substr(line + 1);
  if (rest.starts_with(kProgram)) rest.remove_prefix(rest.find(kEnd) + kEnd.size());
  const std::string of = data ? "\"" + *data + "\"" : "null";
  return fmt::format("{}{}    \"version\": \"{}\",\n    \"data\": {}{}{}", json.substr(0, line + 1), kProgram,
                     DDLSIM_VERSION, of, kEnd, rest);
}

}  // namespace ddlsim::report
