// A job of the shipped catalogue by its settings, predicted.
#pragma once

#include <vector>

#include "catalog.h"
#include "ddlsim/whatif/predict.h"

namespace ddlsim::test {

inline answer::Prediction asked(const std::vector<whatif::Override>& settings) {
  return whatif::predict(whatif::resolve(catalog(), settings).value()).value();
}

}  // namespace ddlsim::test
