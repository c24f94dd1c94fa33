// Where the values of a data file come from.
#pragma once

#include <string>
#include <vector>

namespace ddlsim {

/// `text` names the datasheet, paper or measurement behind the value of `key`.
struct Source {
  std::string key;
  std::string text;
};

using Sources = std::vector<Source>;

}  // namespace ddlsim
