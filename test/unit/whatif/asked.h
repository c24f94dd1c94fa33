// A job of the shipped catalogue by its settings, predicted.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "catalog.h"
#include "ddlsim/whatif/predict.h"
#include "overrides.h"

namespace ddlsim::test {

inline answer::Prediction asked(const std::vector<whatif::Override>& settings) {
  return whatif::predict(whatif::resolve(catalog(), settings).value()).value();
}

/// Why a job is refused: its settings, or what they come to.
inline std::string refused(const std::vector<whatif::Override>& settings) {
  const auto prediction = whatif::resolve(catalog(), settings).and_then([](const whatif::Scenario& scenario) {
    return whatif::predict(scenario);
  });
  REQUIRE_FALSE(prediction);
  return to_string(prediction.error());
}

/// Of settings in words (overrides.h).
template <typename... T>
answer::Prediction asked(fmt::format_string<T...> words, T&&... values) {
  return asked(overrides(words, std::forward<T>(values)...));
}

}  // namespace ddlsim::test
