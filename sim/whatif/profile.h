// Temporary home of the choice of profiles.
#pragma once

#include <vector>

#include "ddlsim/io/catalog.h"
#include "ddlsim/support/error.h"

namespace ddlsim::whatif {

[[nodiscard]] Expected<std::vector<hardware::MeasuredProfile>> near_profiles(const hardware::Gpu& asked,
                                                                             const io::Catalog& catalog);

}  // namespace ddlsim::whatif
