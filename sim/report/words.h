// Words that several views have in common.
#pragma once

#include <string>

#include "ddlsim/answer/prediction.h"

namespace ddlsim::report {

/// A link in words: GPUs of other makers than NVIDIA have no NVLink.
[[nodiscard]] inline std::string link_text(const std::string& link, const answer::Prediction& p) {
  return link == "nvlink" && p.gpu_links != "NVLink" ? p.gpu_links : link;
}
/// What bounds a step, likewise.
[[nodiscard]] inline std::string bottleneck_text(const answer::Prediction& p) { return link_text(p.bottleneck, p); }

}  // namespace ddlsim::report
