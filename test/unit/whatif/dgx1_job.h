// ResNet-50 on DGX-1s over 25 Gb/s: what most questions are asked of.
#pragma once

#include <vector>

#include "ddlsim/whatif/scenario.h"

namespace ddlsim::test {

inline std::vector<whatif::Override> dgx1_job(const std::vector<whatif::Override>& more = {}) {
  std::vector<whatif::Override> settings{
      {"model", "resnet50", {}}, {"node", "dgx1-v100", {}}, {"network", "25 Gb/s", {}}};
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

}  // namespace ddlsim::test
