// The view of a goodput by itself; as report/views.h.
#pragma once

#include <string>

#include "ddlsim/answer/prediction.h"
#include "ddlsim/report/format.h"

namespace ddlsim::report {

/// Requires prediction.goodput. JSON: `ddlsim/goodput/1`. No pictures.
[[nodiscard]] std::string render_goodput(const answer::Prediction& prediction, const std::string& title, Format format);

}  // namespace ddlsim::report
