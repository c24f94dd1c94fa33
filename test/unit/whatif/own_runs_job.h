// A job with runs of its own, as the tests of own runs ask it.
#pragma once

#include <string>
#include <vector>

#include "catalog.h"
#include "ddlsim/whatif/predict.h"
#include "overrides.h"

namespace ddlsim::test::own_runs {

inline std::vector<whatif::Override> job(std::vector<whatif::Override> more = {}) {
  return joined(overrides("model resnet50; node dgx1-v100; nodes 4; network 25 Gb/s; batch 64"), more);
}

inline answer::Prediction predicted(const std::vector<whatif::Override>& settings) {
  return whatif::predict(whatif::resolve(catalog(), settings).value()).value();
}

inline std::string refused(const std::vector<whatif::Override>& more) {
  const auto scenario = whatif::resolve(catalog(), job(more));
  return scenario ? "" : scenario.error().message;
}

inline bool says(const answer::Prediction& p, const std::string& text) {
  for (const std::string& note : p.notes) {
    if (note.find(text) != std::string::npos) return true;
  }
  return false;
}

}  // namespace ddlsim::test::own_runs
