// Synergy's rates by cores and memory (test/data/loader/synergy_cpu_sensitivity.csv and models/jobs/synergy.yaml; Mohan
// et al., OSDI 2022), relative to 3 cores, as a demand for shares of a server.
#pragma once

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ddlsim/cost/loader_shares.h"

namespace ddlsim::test {

inline cost::LoaderDemand synergy_job(const std::string& model, bool fair = true) {
  static constexpr std::array<std::int64_t, 9> kCores{1, 2, 3, 4, 5, 6, 9, 12, 24};
  static const std::map<std::string, std::array<double, 9>> kRates{
      {"alexnet", {.3, .66, 1, 1.25, 1.53, 1.75, 2, 2.94, 2.94}},
      {"shufflenet", {.3, .66, 1, 1.25, 1.53, 1.75, 2, 2.89, 2.89}},
      {"res18", {.37, .72, 1, 1.3, 1.53, 1.75, 2.4, 2.4, 2.4}},
      {"mobilenet", {.37, .72, 1, 1.3, 1.49, 1.55, 1.55, 1.55, 1.55}},
      {"res50", {.4, .74, 1, 1.15, 1.15, 1.15, 1.15, 1.15, 1.15}},
      {"m5", {.3, .66, 1, 1.2, 1.4, 2.5, 2.5, 2.5, 2.5}},
      {"gnmt", {1, 1, 1, 1, 1, 1, 1, 1, 1}},
  };
  // What a size of memory, in GB, lets a model reach at most; others reach all with 62.5. The smallest size is a 24th
  // of the server's; vision and speech have 0.1 there.
  static constexpr double kSmallest = 500.0 / 24;
  static const std::map<std::string, std::vector<std::pair<double, double>>> kMost{
      {"alexnet", {{kSmallest, .1}, {62.5, 2}, {125, 9}}},
      {"shufflenet", {{kSmallest, .1}, {62.5, 2}, {125, 9}}},
      {"m5", {{kSmallest, .1}, {62.5, 1.5}, {125, 2}, {187.5, 9}}},
  };
  const bool language = model == "gnmt" || model == "lstm" || model == "transformer";
  const auto& rates = kRates.at(language ? "gnmt" : model);
  const auto most = kMost.find(model);
  std::vector<std::pair<double, double>> levels{{kSmallest, language ? 9 : .1}};
  if (!language) levels.emplace_back(62.5, 9);
  if (most != kMost.end()) levels = most->second;
  cost::LoaderDemand demand;
  for (const auto& [memory, limit] : levels) {
    for (std::size_t i = 0; i < kCores.size(); ++i) {
      demand.options.push_back({kCores[i], gigabytes(memory), per_second(std::min(rates[i], limit))});
    }
  }
  demand.options = cost::useful_options(std::move(demand.options));
  if (fair) demand.least = per_second(1);
  return demand;
}

}  // namespace ddlsim::test
