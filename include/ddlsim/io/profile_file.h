// Reads and writes hardware/calibration/*.yaml (schema: hardware/README.md): a GPU's profile.
//
// Numbers are written with six significant digits, times in microseconds; shares have no unit. Reading what was written
// and writing it again gives the same text, which a property test holds. Refused, with file:line:column: unknown and
// missing keys, missing units, numbers that are not finite or out of range, slope changes or curves out of order, two
// curves for one thing.
//
// Fitted by calib/fit.h, found by io/catalog.h, used by cost/kernel_time.h.
#pragma once

#include <string>

#include "ddlsim/hardware/gpu_profile.h"
#include "ddlsim/io/yaml.h"
#include "ddlsim/support/error.h"

namespace ddlsim::io {

[[nodiscard]] Expected<hardware::GpuProfile> read_profile(const Node& document);

[[nodiscard]] std::string write_profile(const hardware::GpuProfile& profile);

}  // namespace ddlsim::io
