// When a case's software was released. Private to the room.
#pragma once

#include <optional>

#include "ddlsim/io/case_file.h"

namespace ddlsim::whatif {

/// A year with its months as a fraction, of what is said first: a container of NVIDIA ("22.10-py3"), a date, a year or
/// a release in the framework's name, a round of MLPerf. Nothing where nobody says any.
[[nodiscard]] std::optional<double> software_year_of(const io::Case& one);

}  // namespace ddlsim::whatif
