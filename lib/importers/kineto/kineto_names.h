// Names and times of kernels, as models of traces have them.
#pragma once

#include <cmath>
#include <string>
#include <string_view>

#include "ddlsim/support/units.h"

namespace ddlsim::importers::kineto {

/// "ampere_sgemm_128x64_nn", without arguments, template arguments and namespaces.
[[nodiscard]] std::string short_name(std::string_view name);

/// Exact when written in microseconds.
[[nodiscard]] inline Time whole_nanoseconds(Time time) {
  return microseconds(std::round(time.in(nanoseconds)) / 1000.0);
}

}  // namespace ddlsim::importers::kineto
