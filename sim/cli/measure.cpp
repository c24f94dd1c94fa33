// `ddlsim calibrate measure`: builds the measuring program (bench/calibrate) with nvcc, once, and runs it.
#include <dlfcn.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "describe.h"
#include "output.h"
#include "program.h"

namespace ddlsim::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMeasureExamples = R"(
The program is built once, into ~/.cache/ddlsim.

Examples:
  ddlsim calibrate measure --out h200.jsonl
  ddlsim calibrate fit h200.jsonl --gpu h200-sxm5-141gb -o hardware/calibration/h200-sxm5-141gb.yaml)";

struct MeasureFlags {
  std::string nvcc;
  std::string architecture;
  std::string data;
  bool list = false;
  std::vector<std::string> others;
};

/// Throws what asks for an explanation. The flags themselves are read by hand: most are the measuring program's.
void explain_measure(const std::vector<std::string>& arguments) {
  CLI::App app("Time this machine's GPU, for `ddlsim calibrate fit`.", "ddlsim calibrate measure");
  app.footer(std::string(kMeasureExamples));
  constexpr const char* kProgram = "Of the measuring program";
  constexpr const char* kBenches = "launches|streams|rows|gemms|convolutions|copies|collectives|overlap|host,...";
  std::string text;
  bool set = false;
  struct Value {
    const char* name;
    const char* what;
    const char* type;
    const char* group;
  };
  const auto value = [&](const Value& one) {
    return app.add_option(one.name, text, one.what)->type_name(one.type)->group(one.group);
  };
  value({"--nvcc", "the CUDA compiler", "FILE", "Options"})->default_str("$CUDACXX, $CUDA_HOME, PATH, /usr/local/cuda");
  value({"--arch", "the GPU's architecture, as sm_90", "NAME", "Options"})->default_str("this machine's GPU");
  value({"--data", "folder that holds bench/calibrate", "DIR", "Options"});
  value({"--out", "rows, JSON lines; what the fit does not read goes to FILE.extra.jsonl", "FILE", kProgram})
      ->default_str("measurement.jsonl");
  value({"--resume", "go on where this file ends (same GPU and driver)", "FILE", kProgram});
  value({"--only", "these benchmarks alone", kBenches, kProgram})->default_str("all");
  value({"--budget", "seconds, after about which it stops", "NUMBER", kProgram})->default_str("480; 60 with --quick");
  value({"--device", "which GPU", "N", kProgram})->default_str("0");
  value({"--seed", "of the points' order and choice", "N", kProgram})->default_str("1");
  value({"--libraries", "folders, joined by ':', where libcublas, libcudnn, libnccl are looked for first", "DIR",
         kProgram});
  app.add_flag("--quick", set, "fewer points, about a minute")->group(kProgram);
  app.add_flag("--list", set, "print the plan; needs no GPU")->group(kProgram);
  app.add_flag("--force", set, "overwrite the file")->group(kProgram);
  parse(app, arguments);
}

MeasureFlags read_measure_flags(const std::vector<std::string>& arguments) {
  MeasureFlags flags;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& whole = arguments[i];
    const std::size_t equals = std::min(whole.find('='), whole.size());
    const std::string flag = whole.substr(0, equals);
    std::string* own = flag == "--nvcc" ? &flags.nvcc : nullptr;
    if (flag == "--arch") own = &flags.architecture;
    if (flag == "--data") own = &flags.data;
    if (whole == "--help" || whole == "-h" || whole == kDescribe) explain_measure({whole});
    if (own == nullptr) {
      flags.list = flags.list || whole == "--list";
      flags.others.push_back(whole);
      continue;
    }
    const bool inside = equals < whole.size();
    if (!inside) ++i;
    *own = inside ? whole.substr(equals + 1) : i < arguments.size() ? arguments[i] : "";
    if (own->empty()) throw UsageError{flag + " needs a value", "ddlsim calibrate measure --help"};
  }
  const bool plain = std::all_of(flags.architecture.begin(), flags.architecture.end(),
                                 [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
  if (!plain) {
    throw UsageError{"--arch '" + flags.architecture.substr(0, 60) + "' is no architecture", "as --arch sm_90"};
  }
  return flags;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool runnable(const fs::path& path) {
  std::error_code status;
  return fs::is_regular_file(path, status) && ::access(path.c_str(), X_OK) == 0;
}

/// Empty if there is none.
fs::path find_nvcc(const std::string& wanted) {
  if (!wanted.empty()) return runnable(wanted) ? fs::path(wanted) : fs::path();
  std::vector<fs::path> places{variable("CUDACXX")};
  for (const char* home : {"CUDA_HOME", "CUDA_PATH"}) {
    if (!variable(home).empty()) places.push_back(fs::path(variable(home)) / "bin" / "nvcc");
  }
  std::istringstream folders(variable("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (!folder.empty()) places.push_back(fs::path(folder) / "nvcc");
  }
  places.emplace_back("/usr/local/cuda/bin/nvcc");
  const auto found = std::find_if(places.begin(), places.end(), runnable);
  return found == places.end() ? fs::path() : *found;
}

/// "sm_90", asked of the driver; empty without a GPU.
std::string gpu_architecture() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return {};
  const auto init = reinterpret_cast<int (*)(unsigned)>(::dlsym(driver, "cuInit"));
  const auto attribute = reinterpret_cast<int (*)(int*, int, int)>(::dlsym(driver, "cuDeviceGetAttribute"));
  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR of cuda.h
  int major = 0;
  int minor = 0;
  const bool known = init != nullptr && attribute != nullptr && init(0) == 0 && attribute(&major, 75, 0) == 0 &&
                     attribute(&minor, 76, 0) == 0;
  return known ? fmt::format("sm_{}{}", major, minor) : "";
}

struct Sources {
  fs::path folder;
  std::vector<fs::path> units;  // .cu, in order
  std::uint64_t hash = 14695981039346656037U;
};

void add_to_hash(std::uint64_t& hash, const std::string& text) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;  // FNV-1a
}

Expected<Sources> find_sources(const fs::path& root) {
  Sources sources;
  sources.folder = root / "bench" / "calibrate";
  std::error_code status;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(sources.folder, status)) {
    const fs::path extension = entry.path().extension();
    if (extension == ".cu" || extension == ".h") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    std::ifstream stream(file, std::ios::binary);
    std::stringstream text;
    text << stream.rdbuf();
    add_to_hash(sources.hash, file.filename().string() + text.str());
    if (file.extension() == ".cu") sources.units.push_back(file);
  }
  if (!sources.units.empty()) return sources;
  return fail(ErrorCode::kIo, "the measuring program's sources (.cu) are not there", {sources.folder.string(), 0, 0});
}

struct Compilation {
  std::string nvcc;
  std::string architecture;
  std::string out;
};

std::vector<std::string> compiler_command(const Compilation& how, const Sources& sources) {
  std::vector<std::string> command{how.nvcc, "-O3", "-std=c++17", "-arch=" + how.architecture,
                                   "-t",     "0",   "-o",         how.out};
  for (const fs::path& unit : sources.units) command.push_back(unit.string());
  return command;
}

/// Where there is no GPU or no compiler: how to measure on the machine that has them.
int elsewhere(const std::string& what, const Sources& sources, const std::string& architecture) {
  const std::string target = architecture.empty() ? "sm_90" : architecture;
  const std::string text = fmt::format(
      "error: {}\n  copy {} to the GPU's machine; there, in that folder, with CUDA alone (sm_90: its architecture):\n"
      "    nvcc -O3 -std=c++17 -arch={} -t 0 -o measure *.cu && ./measure --out gpu.jsonl\n",
      what, sources.folder.string(), target);
  std::fputs(text.c_str(), stderr);
  return kNoAnswer;
}

/// The program's exit status; 128 and its signal if it was killed. Ctrl-C is for the program, which keeps its rows.
Expected<int> run_program(std::vector<std::string> command) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigdefault(&attributes, &interrupt);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  const auto before = std::signal(SIGINT, SIG_IGN);
  pid_t child = 0;
  const int problem = ::posix_spawn(&child, command.front().c_str(), nullptr, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  int status = 0;
  while (problem == 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  std::signal(SIGINT, before);
  if (problem != 0) return fail(ErrorCode::kIo, std::strerror(problem), {command.front(), 0, 0});
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

fs::path cache_folder() {
  const std::string cache = variable("XDG_CACHE_HOME");
  if (!cache.empty()) return fs::path(cache) / "ddlsim";
  const std::string home = variable("HOME");
  return home.empty() ? fs::temp_directory_path() / fmt::format("ddlsim-{}", ::getuid())
                      : fs::path(home) / ".cache" / "ddlsim";
}

/// The built program; it is built under another name first, so that what stands there is whole.
Expected<std::string> build(const std::string& nvcc, const std::string& architecture, const Sources& sources) {
  std::uint64_t hash = sources.hash;
  add_to_hash(hash, nvcc + '\n' + architecture);
  const fs::path program = cache_folder() / fmt::format("measure-{}-{:016x}", architecture, hash);
  if (runnable(program)) return program.string();
  std::error_code status;
  fs::create_directories(program.parent_path(), status);
  if (status) return fail(ErrorCode::kIo, "could not be made", {program.parent_path().string(), 0, 0});
  std::fputs(fmt::format("building the measuring program for {} (a minute or two) ...\n", architecture).c_str(),
             stderr);
  auto partial = PartialFile::beside(program.string());
  if (!partial) return tl::unexpected(partial.error());
  ::close(partial->take_descriptor());  // a program that somebody may write to does not run
  const auto built = run_program(compiler_command({nvcc, architecture, partial->path()}, sources));
  if (!built) return tl::unexpected(built.error());
  if (*built == 0) {
    const auto renamed = partial->rename_to(program.string());
    return renamed ? Expected<std::string>(program.string()) : tl::unexpected(renamed.error());
  }
  return fail(ErrorCode::kIo, fmt::format("the measuring program could not be built (status {})", *built),
              {nvcc, 0, 0});
}

}  // namespace

int run_measure(const std::vector<std::string>& arguments) {
  const MeasureFlags flags = read_measure_flags(arguments);
  const auto catalog = open_catalog(flags.data);
  if (!catalog) return print(catalog.error());
  const auto sources = find_sources(catalog->root());
  if (!sources) return print(sources.error());
  const std::string found = gpu_architecture();
  const std::string architecture = flags.architecture.empty() ? found : flags.architecture;
  const fs::path nvcc = find_nvcc(flags.nvcc);
  if (nvcc.empty()) {
    const std::string where = flags.nvcc.empty() ? "is not on this machine (--nvcc PATH)" : "is not " + flags.nvcc;
    return elsewhere("CUDA's compiler, nvcc, " + where, *sources, architecture);
  }
  if (found.empty() && !flags.list) {
    return elsewhere("no GPU that CUDA can use on this machine", *sources, architecture);
  }
  const auto program = build(nvcc.string(), architecture.empty() ? "sm_90" : architecture, *sources);
  if (!program) return print(program.error());
  std::vector<std::string> command{*program};
  command.insert(command.end(), flags.others.begin(), flags.others.end());
  const auto status = run_program(command);
  return status ? *status : print(status.error());
}

}  // namespace ddlsim::cli
