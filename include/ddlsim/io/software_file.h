// Reads and writes hardware/software/*.yaml: what frameworks take on top of kernels (hardware/software.h).
//
//   software: steps
//   made_by: "..."
//   rows: 812                                # that were learnt from
//   sources: 31
//   newest: 2021.9                           # software from that year on counts as new
//   left_out: {mean: 0.21, median: 0.14}     # errors of sources that were left out
//   effects:
//     half: {effect: 0.08, low: -0.02, high: 0.15}
//   ends:
//     one-gpu: {low: 0.8, high: 1.5, rows: 120, sources: 14}
#pragma once

#include <string>

#include "ddlsim/hardware/software.h"
#include "ddlsim/io/yaml.h"
#include "ddlsim/support/error.h"

namespace ddlsim::io {

[[nodiscard]] Expected<hardware::SoftwareProfile> read_software(const Node& document);

[[nodiscard]] std::string software_text(const hardware::SoftwareProfile& profile);

}  // namespace ddlsim::io
