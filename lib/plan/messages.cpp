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
      const double sent = layer.sparse_gradient ? workload::touched_elements({*tensor, layer.sparse_elements}, batch)
                                                : static_cast<double>(*tensor);
      visit(element * sent, i);
    }
  }
}

}  // namespace

std::vector<Message> buckets(const workload::Model& model, const Strategy& strategy, std::int64_t batch) {
  std::vector<Message> messages;
  messages.reserve(static_cast<std::size_t>(model.totals.gradient_tensors));
  DataSize filled;
  std::size_t last = 0;
  bool first = true;
  for_each_gradient(model, strategy, batch, [&](DataSize size, std::size_t layer) {
    if (model.layers[layer].sparse_gradient) {
      messages.push_back({.size = size, .after = layer, .gathered = true});
      return;
    }
    filled += size;
    last = layer;
    if (filled < (first ? min(kFirstBucket, strategy.bucket) : strategy.bucket)) return;
    messages.push_back({.size = filled, .after = layer});
    filled = DataSize::zero();
    first = false;
  });
  if (filled == DataSize::zero()) return messages;
  // The last bucket was ready with the tensor that went into it last, before any later gather.
  const auto later = std::find_if(messages.begin(), messages.end(), [&](const Message& m) { return m.after < last; });
  messages.insert(later, {.size = filled, .after = last});
  return messages;
}

std::vector<Message> pieces(const workload::Model& model, const Strategy& strategy, std::int64_t batch) {
  std::vector<Message> messages;
  messages.reserve(static_cast<std::size_t>(model.totals.gradient_tensors));
  for_each_gradient(model, strategy, batch, [&](DataSize size, std::size_t layer) {
    if (size == DataSize::zero()) return;
    // Equal pieces, so that a tensor's total is exact and the closed form can fold them.
    const double count = std::ceil(size / strategy.partition);
    messages.push_back({.size = size / count, .count = static_cast<std::int64_t>(count), .after = layer});
  });
  return messages;
}

}  // namespace ddlsim::plan
