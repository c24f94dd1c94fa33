#include "ddlsim/plan/messages.h"

#include <algorithm>
#include <cmath>

namespace ddlsim::plan {
namespace {

constexpr DataSize kFirstBucket = mebibytes(1);

/// Calls `visit(bytes, layer)` for every gradient tensor in the order backward makes them.
template <typename Visit>
void for_each_gradient(const workload::Model& model, const Strategy& strategy, std::int64_t batch, Visit visit) {
  const DataSize element = gradient_size(strategy.gradients);
  for (std::size_t i = model.layers.size(); i-- > 0;) {
    const workload::Layer& layer = model.layers[i];
    for (auto tensor = layer.parameters.rbegin(); tensor != layer.parameters.rend(); ++tensor) {
      const double whole = static_cast<double>(*tensor);
      const double touched = static_cast<double>(layer.sparse_elements) * static_cast<double>(batch);
      visit(element * (layer.sparse_gradient ? std::min(whole, touched) : whole), i);
    }
  }
}

}  // namespace

std::vector<Message> buckets(const workload::Model& model, const Strategy& strategy, std::int64_t batch) {
  std::vector<Message> messages;
  messages.reserve(static_cast<std::size_t>(model.totals.gradient_tensors));
  DataSize filled;
  std::size_t last = 0;
  for_each_gradient(model, strategy, batch, [&](DataSize size, std::size_t layer) {
    filled += size;
    last = layer;
    const DataSize limit = messages.empty() ? min(kFirstBucket, strategy.bucket) : strategy.bucket;
    if (filled < limit) return;
    messages.push_back({filled, 1, layer});
    filled = DataSize::zero();
  });
  if (filled > DataSize::zero()) messages.push_back({filled, 1, last});
  return messages;
}

std::vector<Message> pieces(const workload::Model& model, const Strategy& strategy, std::int64_t batch) {
  std::vector<Message> messages;
  messages.reserve(static_cast<std::size_t>(model.totals.gradient_tensors));
  for_each_gradient(model, strategy, batch, [&](DataSize size, std::size_t layer) {
    if (size == DataSize::zero()) return;
    // Equal pieces, so that a tensor's total is exact and the closed form can fold them.
    const double count = std::ceil(size / strategy.partition);
    messages.push_back({size / count, static_cast<std::int64_t>(std::min(count, 1e15)), layer});
  });
  return messages;
}

}  // namespace ddlsim::plan
