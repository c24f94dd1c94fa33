#include "ddlsim/io/table_file.h"

#include <fmt/core.h>

#include <cerrno>
#include <system_error>

namespace ddlsim::io {

Expected<std::ifstream> open_table(const std::filesystem::path& path) {
  std::error_code status;
  const auto refused = [&](std::string why, std::vector<std::string> notes = {}) {
    return fail(ErrorCode::kIo, fmt::format("cannot read '{}': {}", path.string(), why), {}, std::move(notes));
  };
  if (std::filesystem::is_directory(path, status)) {
    return refused("a folder, not a file", {fmt::format("name the files in it: {}", (path / "*.csv").string())});
  }
  errno = 0;
  std::ifstream stream(path);
  if (!stream) return refused(errno == 0 ? "it could not be opened" : std::generic_category().message(errno));
  return stream;
}

}  // namespace ddlsim::io
