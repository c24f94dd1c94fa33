// The lines of a goodput in a table of predictions. Private to the room.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ddlsim/answer/goodput.h"
#include "json.h"

namespace ddlsim::report {

struct GoodputLine {
  std::string_view name;
  std::string (*text)(const answer::Goodput&);  // empty: it says nothing
};

[[nodiscard]] std::span<const GoodputLine> goodput_lines();

[[nodiscard]] Json to_json(const answer::Goodput& goodput);

/// "94.1 %"; of a goodput near one with digits enough to tell two apart.
[[nodiscard]] std::string goodput_text(double share);

}  // namespace ddlsim::report
