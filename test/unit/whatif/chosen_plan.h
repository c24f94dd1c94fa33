// What `ddlsim plan` answers, without a clock.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "catalog.h"
#include "ddlsim/whatif/plan_search.h"

namespace ddlsim::test {

inline Time no_time() { return Time::zero(); }

inline answer::PlanChoice chosen(const std::vector<whatif::Override>& settings,
                                 const whatif::PlanOptions& options = {}) {
  const auto choice = whatif::search_plans(catalog(), settings, options, no_time);
  if (!choice) FAIL(to_string(choice.error()));
  return *choice;
}

/// Of a setting that the plan names; empty: it names no such one.
inline std::string value_of(const answer::PlanSettings& plan, std::string_view path) {
  for (const auto& [one, value] : plan) {
    if (one == path) return value;
  }
  return {};
}

inline std::string refused_plan(const std::vector<whatif::Override>& settings,
                                const whatif::PlanOptions& options = {}) {
  const auto choice = whatif::search_plans(catalog(), settings, options, no_time);
  REQUIRE_FALSE(choice);
  return to_string(choice.error());
}

}  // namespace ddlsim::test
