// A job of the shipped catalogue by its settings, predicted.
#pragma once

#include <utility>
#include <vector>

#include "catalog.h"
#include "ddlsim/whatif/predict.h"
#include "overrides.h"

namespace ddlsim::test {

inline answer::Prediction asked(const std::vector<whatif::Override>& settings) {
  return whatif::predict(whatif::resolve(catalog(), settings).value()).value();
}

/// Of settings in words (overrides.h).
template <typename... T>
answer::Prediction asked(fmt::format_string<T...> words, T&&... values) {
  return asked(overrides(words, std::forward<T>(values)...));
}

}  // namespace ddlsim::test
