// A line on stderr while a sweep lasts, when stderr is a terminal.
#pragma once

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>

#include "ddlsim/support/quantity_io.h"

namespace ddlsim::cli {

class SweepLine {
 public:
  SweepLine() = default;
  SweepLine(const SweepLine&) = delete;
  SweepLine& operator=(const SweepLine&) = delete;
  ~SweepLine() {
    if (shown_) std::fputs("\r\033[K", stderr);
  }

  /// Points that are done since the start, and left.
  void operator()(std::int64_t done, std::int64_t left) {
    const auto now = Clock::now();
    if (!terminal_ || now - last_ < std::chrono::seconds(1)) return;
    last_ = now;
    shown_ = true;
    const double rate = static_cast<double>(done) / std::chrono::duration<double>(now - start_).count();
    const std::string rest = rate > 0 ? to_text(seconds(static_cast<double>(left) / rate)) : "?";
    std::fputs(fmt::format("\r\033[K{} of {} points, {} points/s, {} left", to_text(done), to_text(done + left),
                           to_text(static_cast<std::int64_t>(rate)), rest)
                   .c_str(),
               stderr);
  }

 private:
  using Clock = std::chrono::steady_clock;

  bool terminal_ = ::isatty(STDERR_FILENO) != 0;
  bool shown_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
};

}  // namespace ddlsim::cli
