// A measured step, as text for a person or as JSON.
#pragma once

#include <string>

#include "ddlsim/importers/kineto_file.h"

namespace ddlsim::report {

/// A few lines: the step, what it was spent on, and what the ranks differ in.
[[nodiscard]] std::string text_of(const importers::MeasuredStep& measured);

/// `{"schema": "ddlsim/measured-step/1", "step_time_s", "split_s": {...}, "ranks": [...], "kernels": [...], ...}`.
[[nodiscard]] std::string json_of(const importers::MeasuredStep& measured);

}  // namespace ddlsim::report
