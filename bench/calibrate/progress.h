// How far it is, on stderr: a bar on a terminal, a line a block elsewhere. Host only.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

namespace ddlsim::measure {

inline std::string minutes(double seconds) {
  char text[32];
  const int whole = static_cast<int>(std::lround(std::max(seconds, 0.0)));
  std::snprintf(text, sizeof text, "%d:%02d", whole / 60, whole % 60);
  return text;
}

class Progress {
 public:
  explicit Progress(std::size_t points) : points_(points), terminal_(::isatty(STDERR_FILENO) == 1) {}

  /// `left` in seconds. Points that need no measuring count too.
  void show(const std::string& block, std::size_t done, double elapsed, double left) {
    if (!terminal_ || (elapsed - shown_ < 0.1 && done != points_)) return;
    shown_ = elapsed;
    const std::size_t bar = points_ == 0 ? 0 : 24 * done / points_;
    std::fprintf(stderr, "\r[%s%s] %zu/%zu  %-20s %s left \033[K", std::string(bar, '#').c_str(),
                 std::string(24 - bar, '.').c_str(), done, points_, block.c_str(), minutes(left).c_str());
    std::fflush(stderr);
    open_ = true;
  }
  /// Below the bar.
  void say(const std::string& text) {
    if (open_) std::fputc('\n', stderr);
    open_ = false;
    std::fprintf(stderr, "%s\n", text.c_str());
    std::fflush(stderr);
  }

 private:
  std::size_t points_;
  bool terminal_;
  bool open_ = false;
  double shown_ = -1;
};

}  // namespace ddlsim::measure
