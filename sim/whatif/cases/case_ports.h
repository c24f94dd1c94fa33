// Ports and rates in one part of a network's words, in lower case. Private to the room.
//
// What each spelling means stands in case_network.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ddlsim::whatif {

struct NetworkPorts {
  std::int64_t count = 1;
  double gigabits = 0;   // per second and port; 0: nobody says
  bool counted = false;  // the text says how many
  bool per_gpu = false;  // one for every GPU
};

/// A number in a text, and where it stands.
struct Number {
  double value = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
};

[[nodiscard]] inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
[[nodiscard]] inline bool is_lower(char c) { return c >= 'a' && c <= 'z'; }

/// The number that ends at `end`, spaces aside; nothing where there is none.
[[nodiscard]] std::optional<Number> number_before(std::string_view text, std::size_t end);

/// The first rate with a unit: its gigabits, and where its number begins.
[[nodiscard]] std::optional<Number> rate_in(std::string_view text);

/// A generation of links that is named: its rate, "HDR100" and "NDR400" their own, and where its name stands.
[[nodiscard]] std::optional<Number> generation_in(std::string_view text);

/// The ports of one network; a rate of 0 where none is said.
[[nodiscard]] NetworkPorts ports_in(std::string_view text);

}  // namespace ddlsim::whatif
