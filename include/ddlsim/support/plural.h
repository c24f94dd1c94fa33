// What is counted, in words: samples have names such as "image" or "utterance of 12 s".
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddlsim {

/// "images", "utterances of 12 s"; with `per` behind the noun: "images/s", "utterances/s of 12 s".
[[nodiscard]] inline std::string plural(std::string_view thing, std::string_view per = "") {
  const std::size_t noun = std::min(thing.find(" of "), thing.size());
  return std::string(thing.substr(0, noun)) + "s" + std::string(per) + std::string(thing.substr(noun));
}

/// The thing where there is one of it, else its plural.
[[nodiscard]] inline std::string in_number(std::int64_t count, std::string_view thing) {
  return count == 1 ? std::string(thing) : plural(thing);
}

}  // namespace ddlsim
