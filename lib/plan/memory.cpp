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

MemoryFootprint memory_of_stage(std::span<const workload::Layer> layers, const Holding& holding, std::int64_t batch,
                                Precision precision) {
  double parameters = 0;
  double saved = 0;
  MemoryFootprint footprint;
  for (const workload::Layer& layer : layers) {
    for (const std::int64_t elements : layer.parameters) parameters += static_cast<double>(elements);
    saved += static_cast<double>(layer.saved_elements);
    footprint.complete = footprint.complete && !layer.measured;
  }
  const DataSize fp32 = bytes(4);
  const double share = 1.0 / static_cast<double>(holding.data_ranks);
  footprint.weights = fp32 * (parameters * (holding.zero >= 3 ? share : 1.0));
  footprint.gradients = fp32 * (parameters * (holding.zero >= 2 ? share : 1.0));
  const double states = parameters * state_values(holding.optimizer) * (holding.zero >= 1 ? share : 1.0);
  if (!holding.offloaded) footprint.optimizer_state = fp32 * states;
  footprint.activations =
      activation_size(precision) * (saved * static_cast<double>(batch) * static_cast<double>(holding.in_flight));
  return footprint;
}

}  // namespace ddlsim::plan
