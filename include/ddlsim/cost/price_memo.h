// Prices of layers for many jobs that have a model and a GPU in common.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "ddlsim/cost/price.h"

namespace ddlsim::cost {

/// Times of layers by the list they stand in, the micro-batch and what adding up gradients moves, for jobs that differ
/// in their splits, micro-batch, passes and servers alone, and whose lists one plan::Lowerer made that outlives this.
struct PriceMemo {
  using Key = std::tuple<const std::vector<workload::Layer>*, std::int64_t, double>;
  std::map<Key, std::vector<LayerTimes>> layers;
};

/// The same with what was priced before. What it rests on (`calibrated`) is left empty.
[[nodiscard]] Expected<LayerPrices> price_layers(const plan::Job& job, const plan::StepPlan& plan, PriceMemo& memo);

}  // namespace ddlsim::cost
