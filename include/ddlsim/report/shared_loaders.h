// Views of jobs that share loaders.
#pragma once

#include <string>

#include "ddlsim/answer/shared_loaders.h"
#include "ddlsim/report/format.h"
#include "ddlsim/report/trace.h"
#include "ddlsim/support/error.h"

namespace ddlsim::report {

/// Policies side by side, and when the first jobs ran. CSV: a row for each job under each policy. JSON:
/// `ddlsim/loader/1`.
[[nodiscard]] std::string render(const answer::SharedLoaders& loaders, Format format);

/// Every job under every policy: in line, at its rates, its loader's restarts. Errors: kUnsupported for more than the
/// 106 days that picoseconds count.
[[nodiscard]] Expected<Trace> trace_of(const answer::SharedLoaders& loaders);

}  // namespace ddlsim::report
