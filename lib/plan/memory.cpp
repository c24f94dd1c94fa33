#include "ddlsim/plan/memory.h"

namespace ddlsim::plan {

MemoryFootprint memory_footprint(const workload::Model& model, const Strategy& strategy, std::int64_t gpus,
                                 std::int64_t batch, Precision precision) {
  const bool alone = gpus == 1;
  const bool servers = strategy.kind == StrategyKind::kPs && !alone;
  const double share = strategy.kind == StrategyKind::kPearl ? 1.0 / static_cast<double>(gpus) : servers ? 0.0 : 1.0;
  MemoryFootprint footprint;
  if (model.features) {
    footprint.weights = model.features->dense_weights + model.features->embedding_weights * share;
    footprint.complete = false;
    return footprint;
  }
  const workload::Totals& totals = model.totals;
  const DataSize fp32 = bytes(4);
  const double dense = static_cast<double>(totals.dense_parameters);
  const double sparse = static_cast<double>(totals.sparse_parameters) * share;
  const double touched = workload::sparse_gradient_elements(model, batch);
  footprint.weights = fp32 * (dense + sparse);
  footprint.gradients = fp32 * (dense + touched);
  if (!servers) footprint.optimizer_state = fp32 * ((dense + sparse) * state_values(model.optimizer));
  footprint.activations =
      activation_size(precision) * (static_cast<double>(totals.saved_elements) * static_cast<double>(batch));
  footprint.complete = !model.measured;
  return footprint;
}

}  // namespace ddlsim::plan
