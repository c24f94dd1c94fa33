#include "standard_input.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "ddlsim/support/error.h"
#include "program.h"

namespace ddlsim::cli {
namespace {

constexpr std::string_view kName = "<stdin>";
constexpr std::size_t kMostOfOption = std::size_t{64} << 20;
constexpr std::size_t kMostOfArgument = std::size_t{1} << 30;

constexpr auto kFileOptions = std::to_array<std::string_view>(
    {"-f", "--scenario", "--grid", "--model", "--node", "--gpu", "--dataset", "--measured", "--table", "--nccl-xml",
     "--nvidia-smi", "--epochs-by-batch", "--prices", "--measured-stalls"});
constexpr auto kFileSettings = std::to_array<std::string_view>(
    {"model", "node", "gpu", "collective.table", "measured.runs", "input.dataset", "input.storage"});
constexpr auto kFileCommands =
    std::to_array<std::string_view>({"ddlsim validate", "ddlsim loader", "ddlsim import", "ddlsim calibrate"});

template <std::size_t N>
bool among(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Where it is kept; empty: nobody has asked for it.
std::string& kept_at() {
  static std::string path;
  return path;
}

[[noreturn]] void give_up(const std::string& what, std::vector<std::string> notes = {}) {
  throw Error{ErrorCode::kIo, what, {std::string(kName), 0, 0}, std::move(notes), {}};
}

/// A file without a name, open for reading and writing.
int nameless_file() {
  std::error_code status;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(status);
  std::string name = ((status ? std::filesystem::path("/tmp") : folder) / "ddlsim-stdin-XXXXXX").string();
  const int file = ::mkostemp(name.data(), O_CLOEXEC);
  if (file < 0) give_up(fmt::format("no room for it in {}: {}", folder.string(), std::strerror(errno)));
  ::unlink(name.c_str());
  return file;
}

void write_all(int file, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t written = ::write(file, data, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) give_up(fmt::format("could not be kept: {}", std::strerror(errno)));
    data += written;
    size -= static_cast<std::size_t>(written);
  }
}

/// All of it, once.
std::string keep(std::size_t most) {
  if (!kept_at().empty()) {
    throw UsageError{"- stands twice, but standard input is read once", "name a file in one place"};
  }
  const int file = nameless_file();
  std::vector<char> piece(std::size_t{1} << 16);
  for (std::size_t all = 0;;) {
    const ssize_t got = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) give_up(fmt::format("could not be read: {}", std::strerror(errno)));
    if (got == 0) break;
    all += static_cast<std::size_t>(got);
    if (all > most) give_up(fmt::format("larger than {} MiB", most >> 20U));
    write_all(file, piece.data(), static_cast<std::size_t>(got));
  }
  // The descriptor stays open as long as the program: it is all that holds the file.
  kept_at() = fmt::format("/proc/self/fd/{}", file);
  return kept_at();
}

/// The option whose value stands at `index`; empty: the argument is positional.
std::string option_before(const CLI::App& app, const std::vector<std::string>& arguments, std::size_t index) {
  if (index == 0 || !arguments[index - 1].starts_with('-') || arguments[index - 1] == "-") return {};
  const CLI::Option* option = app.get_option_no_throw(arguments[index - 1]);
  const bool takes_value = option != nullptr && option->get_items_expected_max() > 0;
  return takes_value ? arguments[index - 1] : std::string();
}

bool reads_arguments(const CLI::App& app) {
  return std::any_of(kFileCommands.begin(), kFileCommands.end(),
                     [&](std::string_view command) { return app.get_name().starts_with(command); });
}

}  // namespace

void take_standard_input(const CLI::App& app, std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string& argument = arguments[i];
    const std::string option = option_before(app, arguments, i);
    const std::size_t equals = argument.rfind('=');
    const bool last = equals != std::string::npos && argument.substr(equals + 1) == "-";
    if (argument == "-") {
      if (option.empty() && reads_arguments(app)) argument = keep(kMostOfArgument);
      if (among(kFileOptions, option)) argument = keep(kMostOfOption);
    } else if (last && option == "--set") {
      if (among(kFileSettings, std::string_view(argument).substr(0, equals))) {
        argument = argument.substr(0, equals + 1) + keep(kMostOfOption);
      }
    } else if (last && option.empty() && among(kFileOptions, std::string_view(argument).substr(0, equals))) {
      argument = argument.substr(0, equals + 1) + keep(kMostOfOption);
    }
  }
}

bool is_standard_input(const std::string& path) { return !path.empty() && path == kept_at(); }

std::string with_standard_input_named(std::string text) {
  const std::string& path = kept_at();
  if (path.empty()) return text;
  for (std::size_t at = text.find(path); at != std::string::npos; at = text.find(path, at + kName.size())) {
    text.replace(at, path.size(), kName);
  }
  return text;
}

}  // namespace ddlsim::cli
