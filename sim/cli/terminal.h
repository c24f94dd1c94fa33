// What only a terminal gets: colour, and a line of progress. Never a file or a pipe.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ddlsim/support/units.h"

namespace ddlsim::cli {

/// Whether this descriptor is a terminal that shows colour: not with NO_COLOR (no-color.org) or TERM=dumb.
[[nodiscard]] bool has_colour(int descriptor);

/// Headings of a help text, bold.
[[nodiscard]] std::string with_headings(std::string_view help);
/// The numbers of an answer's first lines, up to the first empty one, bold.
[[nodiscard]] std::string with_numbers(std::string_view answer);
/// "error:" where it stands at the start of a line or after a place, bold and red.
[[nodiscard]] std::string with_errors(std::string_view text);

/// A line on standard error while work lasts over a second, when that is a terminal: how much is done, how fast, how
/// long it still takes. It goes away with its owner.
class ProgressLine {
 public:
  /// `what`: the things that are counted, "points".
  explicit ProgressLine(std::string_view what);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// So many since the start; nothing left: nobody knows.
  void operator()(std::int64_t done, std::optional<std::int64_t> left);
  /// Nobody knows how many there are, but it takes no longer than this.
  void at_most(Time left);

 private:
  [[nodiscard]] bool due();

  using Clock = std::chrono::steady_clock;

  std::string what_;
  bool terminal_;
  bool shown_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
};

}  // namespace ddlsim::cli
