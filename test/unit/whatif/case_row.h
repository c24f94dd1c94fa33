// A published row to start from, and what the program makes of it.
#pragma once

#include <string>
#include <vector>

#include "cases/case_scenario.h"
#include "catalog.h"

namespace ddlsim::test {

/// ResNet-50 by data parallelism on two servers of eight V100.
inline io::Case row() {
  io::Case one;
  one.id = "a";
  one.model = "ResNet-50 v1.5";
  one.framework = "PyTorch";
  one.precision = "FP32";
  one.gpu = "V100-SXM2-16GB";
  one.gpus_per_node = 8;
  one.nodes = 2;
  one.total_gpus = 16;
  one.architecture = "ddp";
  return one;
}

/// The last value of a setting, or nothing.
inline std::string last_of(const Expected<std::vector<whatif::Override>>& settings, const std::string& path) {
  if (!settings) return "error: " + settings.error().message;
  std::string value;
  for (const whatif::Override& setting : *settings) {
    if (setting.path == path) value = setting.value;
  }
  return value;
}
inline std::string said(const io::Case& one, const std::string& path) {
  return last_of(whatif::CaseReader(catalog()).settings_of(one, one.gpus_per_node), path);
}

}  // namespace ddlsim::test
