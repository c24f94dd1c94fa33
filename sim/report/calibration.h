// The curves of a profile, whatever their family.
#pragma once

#include <string>
#include <vector>

#include "ddlsim/hardware/gpu_profile.h"

namespace ddlsim::report {

struct CurveSummary {
  struct Parameter {
    std::string name;
    std::string value;
    double relative_error = 0;  // 0: not known
  };
  std::string name;
  const hardware::CurveReport* report = nullptr;  // of the profile
  std::vector<Parameter> parameters;
};

[[nodiscard]] std::vector<CurveSummary> curves_of(const hardware::GpuProfile& profile);

}  // namespace ddlsim::report
