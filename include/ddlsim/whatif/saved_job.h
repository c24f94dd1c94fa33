// A job as a scenario file, complete: what was stated, and beside it every value that mattered and where it came from.
//
// Lines that are read back are the settings as they were stated, the last of each path, files by their whole paths: the
// same program with the same data makes the same job of them, and so the same prediction, bit for bit. What nobody
// stated stands behind '#' with its resolved value and its provenance: to be read, and to be stated by who wants to pin
// it. Were it stated already, a what-if on the saved job would keep the old network's latency for the new network, and
// an assumption would look like something that somebody knows.
//
// Limits: files that settings name (a model of one's own, measured runs) are named, not copied; the head has the
// fingerprint of the data that the program comes with, not of those.
#pragma once

#include <span>
#include <string>

#include "ddlsim/support/error.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

/// 'path: "value"', a file by its whole path: a scenario file looks for others beside itself first.
[[nodiscard]] std::string saved_setting(const Override& setting);

/// `scenario` is what `stated` resolves to. `head` is a line for a reader: which program, with which data. Errors:
/// those of predict.
[[nodiscard]] Expected<std::string> saved_job(const Scenario& scenario, std::span<const Override> stated,
                                              std::string_view head);

}  // namespace ddlsim::whatif
