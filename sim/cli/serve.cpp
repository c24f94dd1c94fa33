// `ddlsim serve` is a program of its own, ddlsim-serve: what it is linked with (cpp-httplib and, under it, OpenSSL)
// takes longer to load than most answers of the others take.
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "program.h"
#include "serve_flags.h"

namespace ddlsim::cli {

int run_serve(const std::vector<std::string>& arguments) {
  CLI::App app;
  ServeFlags flags;
  flags.read(app, arguments);
  std::error_code status;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", status);
  const std::string program = self.parent_path() / "ddlsim-serve";
  std::vector<std::string> words{program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  if (!status) ::execv(program.c_str(), pointers.data());
  const std::string why = status ? status.message() : std::strerror(errno);
  return print(Error{ErrorCode::kIo,
                     fmt::format("{}: {}", program, why),
                     {},
                     {"it is built where cpp-httplib is installed (Debian: libcpp-httplib-dev)"},
                     {}});
}

}  // namespace ddlsim::cli
