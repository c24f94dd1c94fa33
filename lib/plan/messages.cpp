#include "ddlsim/plan/messages.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ddlsim::plan {
namespace {

/// One message per gradient tensor, in the order backward makes them.
std::vector<Message> per_tensor(const workload::Model& model, const Strategy& strategy, std::int64_t batch) {
  const DataSize element = gradient_size(strategy.gradients);
  std::vector<Message> messages;
  messages.reserve(static_cast<std::size_t>(model.totals.gradient_tensors));
  for (std::size_t i = model.layers.size(); i-- > 0;) {
    const workload::Layer& layer = model.layers[i];
    for (auto tensor = layer.parameters.rbegin(); tensor != layer.parameters.rend(); ++tensor) {
      const double sent = layer.sparse_gradient ? workload::touched_elements({*tensor, layer.sparse_elements}, batch)
                                                : static_cast<double>(*tensor);
      if (sent > 0) messages.push_back({.size = element * sent, .after = i, .gathered = layer.sparse_gradient});
    }
  }
  return messages;
}

std::vector<Message> buckets(const std::vector<Message>& tensors, DataSize first_bucket, DataSize bucket) {
  std::vector<Message> messages;
  Message filling;
  bool first = true;
  for (const Message& tensor : tensors) {
    if (tensor.gathered) {
      messages.push_back(tensor);
      continue;
    }
    filling.size += tensor.size;
    filling.after = tensor.after;
    if (filling.size < (first ? min(first_bucket, bucket) : bucket)) continue;
    messages.push_back(filling);
    filling = {};
    first = false;
  }
  if (filling.size == DataSize::zero()) return messages;
  // The last bucket was ready with the tensor that went into it last, before any later gather.
  const auto later =
      std::find_if(messages.begin(), messages.end(), [&](const Message& m) { return m.after < filling.after; });
  messages.insert(later, filling);
  return messages;
}

/// Equal pieces, so that a tensor's total is exact and the closed form can fold them.
void cut(std::vector<Message>& tensors, DataSize partition) {
  for (Message& tensor : tensors) {
    const double count = std::ceil(tensor.size / partition);
    tensor.size = tensor.size / count;
    tensor.count = static_cast<std::int64_t>(count);
  }
}

/// Names the server of every tensor.
void place(std::vector<Message>& tensors, Placement placement, std::int64_t servers) {
  if (placement == Placement::kEven || servers <= 1) return;
  const auto count = static_cast<std::int64_t>(tensors.size());
  if (placement == Placement::kRoundRobin) {
    // The first tensor of the model is the last that backward makes.
    for (std::int64_t i = 0; i < count; ++i) tensors[static_cast<std::size_t>(count - 1 - i)].server = i % servers;
    return;
  }
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return tensors[a].size > tensors[b].size; });
  std::vector<DataSize> load(static_cast<std::size_t>(std::min(servers, count)));
  for (const std::size_t i : order) {
    const auto lightest = std::min_element(load.begin(), load.end());
    tensors[i].server = lightest - load.begin();
    *lightest += tensors[i].size;
  }
}

void compress(Message& message, const Strategy& strategy) {
  if (message.gathered || strategy.compression == Compression::kNone) return;
  constexpr double kSelectPasses = 3;  // histogram, threshold, compaction of a radix select
  constexpr double kIndexBytes = 4;
  const DataSize element = gradient_size(strategy.gradients);
  const double elements = message.size / element;
  const DataSize whole = message.size;
  switch (strategy.compression) {
    case Compression::kNone: return;
    case Compression::kTopK:
      message.size = (element + bytes(kIndexBytes)) * (elements * strategy.density);
      message.gathered = true;
      message.coded += whole * kSelectPasses;
      message.coded_per_gpu = message.size * 2.0;
      return;
    case Compression::kSign:
      message.size = bytes(elements / 8.0);
      message.gathered = true;
      message.coded += whole;
      message.coded_per_gpu = message.size * 2.0;
      return;
    case Compression::kPowerSgd: {
      const double side = std::sqrt(elements);
      const auto rank = static_cast<double>(strategy.rank);
      if (2.0 * rank >= side) return;  // a vector or a small matrix is sent whole
      message.size = element * (side * rank);
      message.count = 2;
      message.coding = flops(6.0 * elements * rank);
      message.coded += whole * 3.0;
      return;
    }
  }
}

}  // namespace

std::vector<Message> messages(const workload::Model& model, const Strategy& strategy, std::int64_t batch) {
  std::vector<Message> made = per_tensor(model, strategy, batch);
  // Pieces of one size are spread over the servers by themselves.
  const bool whole = grouping_of(strategy) != Grouping::kPartitions;
  if (strategy.kind == StrategyKind::kPs && whole) place(made, strategy.placement, strategy.servers);
  // Matrices are compressed one by one, before they share a message.
  const bool alone = strategy.compression == Compression::kPowerSgd;
  if (alone) {
    for (Message& message : made) compress(message, strategy);
    return made;
  }
  switch (grouping_of(strategy)) {
    case Grouping::kBuckets: made = buckets(made, strategy.first_bucket, strategy.bucket); break;
    case Grouping::kFlat:
      made = buckets(made, DataSize::infinity(), DataSize::infinity());
      for (Message& message : made) message.after = 0;
      break;
    case Grouping::kPartitions: cut(made, strategy.partition); break;
    case Grouping::kFusion:
    case Grouping::kPerTensor: break;
  }
  const bool copied = strategy.kind == StrategyKind::kAllReduce &&
                      (grouping_of(strategy) == Grouping::kBuckets || grouping_of(strategy) == Grouping::kFlat);
  for (Message& message : made) {
    // Gradients are copied into the bucket and, summed, back: two reads, two writes.
    if (copied && !message.gathered) message.coded = message.size * 4.0;
    compress(message, strategy);
  }
  return made;
}

}  // namespace ddlsim::plan
