// Runs the program as a user would, and says what came of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sanitized.h"

namespace ddlsim::test {

/// Of the program; the tests themselves are never optimised.
#if defined(DDLSIM_PROGRAM_OPTIMISED)
inline constexpr bool kOptimised = !kSanitized;
#else
inline constexpr bool kOptimised = false;
#endif

/// What the program promises for bad input. A build that is not optimised, or that watches itself, may take longer.
inline constexpr double kMostSeconds = kOptimised ? 2.0 : 30.0;
inline constexpr std::int64_t kMostBytes = std::int64_t{kSanitized ? 2048 : 512} << 20;

// What the program's exit status says.
inline constexpr int kDone = 0;
inline constexpr int kNoAnswer = 1;
inline constexpr int kWrongUsage = 2;

struct Outcome {
  int status = 0;  // exit status; 128 + the signal's number when a signal ended it
  std::string out;
  std::string err;  // of both, the first 4 MiB
  double seconds = 0;
  double cpu_seconds = 0;  // what a busy machine cannot stretch
  std::int64_t peak_bytes = 0;
};

using Words = std::vector<std::string>;

/// One command line after another.
[[nodiscard]] Words plus(Words words, const Words& more);

/// Fills `chunk` with the next piece of standard input; false at its end.
using Feed = std::function<bool(std::string& chunk)>;

/// Runs the program with the data of the source tree. It is killed after `seconds`, five times as many in a build that
/// watches itself, and may take 4 GiB of memory.
[[nodiscard]] Outcome run_program(const Words& arguments, double seconds = 20, const Feed& feed = {});

/// Runs `script` by sh in `folder`, with the program's path as $DDLSIM.
[[nodiscard]] Outcome run_shell(const std::string& script, const std::filesystem::path& folder, double seconds = 20);

/// Starts the program with its output thrown away, sends `signal` once `ready` says so, and returns its status as
/// Outcome has it; -1 when it was never ready in 20 s.
[[nodiscard]] int interrupt_program(const Words& arguments, int signal, const std::function<bool()>& ready);

/// A folder that goes away with its owner.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Writes a file of `head`, then `times` times `part`, then `tail`; returns its path.
  [[nodiscard]] std::string file(const std::string& name, std::string_view head, std::string_view part = {},
                                 std::int64_t times = 0, std::string_view tail = {}) const;
  /// The names in the folder, sorted.
  [[nodiscard]] Words names() const;

 private:
  std::filesystem::path path_;
};

/// Runs the program and checks that it fails with `status`, in time, with all of `says` on stderr and nothing on
/// stdout.
void refused(int status, const Words& arguments, const Words& says);

/// Runs `ddlsim import FORMAT FILE more...` and checks that it fails with `status`, in time, with a word on stderr
/// only; returns that word.
std::string refused_import(const std::string& format, const std::string& file, const Words& more, int status);

}  // namespace ddlsim::test
