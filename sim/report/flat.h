// CSV for programs: SI units, a row for each prediction.
#pragma once

#include "ddlsim/answer/prediction.h"
#include "table.h"

namespace ddlsim::report {

/// Its columns; new ones come last.
[[nodiscard]] Table flat_table();

void add_flat(Table& table, const answer::Alternative& one);

}  // namespace ddlsim::report
