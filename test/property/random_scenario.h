// Ingredients of random scenarios.
#pragma once

#include <rapidcheck.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>

#include "catalog.h"

namespace ddlsim::test {

/// A model of the catalog, read once.
inline std::shared_ptr<const workload::Model> model(const std::string& id) {
  static std::map<std::string, std::shared_ptr<const workload::Model>> cache;
  auto& entry = cache[id];
  if (!entry) entry = catalog().model(id).value();
  return entry;
}

/// A factor between a hundredth and a hundred.
inline double log_uniform() { return std::exp(*rc::gen::inRange(-4600, 4600) / 1000.0); }

}  // namespace ddlsim::test
