// A profile's measured convolutions: the rows of a kernel table (io/kernel_file.h) as one block of text, for yaml-cpp
// reads it in a fifth of the time that as many maps take.
#pragma once

#include <string>
#include <vector>

#include "ddlsim/hardware/gpu_profile.h"
#include "ddlsim/io/yaml.h"

namespace ddlsim::io {

/// Faults are added to `errors` with the file's line.
[[nodiscard]] std::vector<hardware::MeasuredConvolution> read_convolution_table(const Node& node,
                                                                                std::vector<Error>& errors);

/// Header and rows, two spaces in.
[[nodiscard]] std::string convolution_table_text(const std::vector<hardware::MeasuredConvolution>& rows);

}  // namespace ddlsim::io
