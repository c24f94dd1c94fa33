// How often parts of a cluster fail: mean times between failures of one GPU, one server, one switch.
//
// Files in hardware/failures (schema: hardware/README.md) hold what was published of real runs. Failures of parts are
// taken to be independent and without memory, so that rates add up: n parts of mean time M fail n / M times a second.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ddlsim/support/source.h"
#include "ddlsim/support/units.h"

namespace ddlsim::hardware {

struct FailureRates {
  std::string id;
  std::string name;
  std::optional<Time> gpu{};          // mean time between failures of one; nothing: counted elsewhere, or nobody says
  std::optional<Time> node{};         // of what a server has besides, its software among it
  std::optional<Time> network{};      // of one switch, its cables among it
  std::int64_t nodes_per_switch = 1;  // servers that one switch joins
  Sources sources{};
  std::string notes{};
};

}  // namespace ddlsim::hardware
