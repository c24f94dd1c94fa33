#include "ddlsim/plan/messages.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ddlsim::plan {
namespace {

/// A gradient tensor.
struct Tensor {
  DataSize size{};
  std::size_t layer = 0;
  std::int64_t server = -1;
  bool gathered = false;
  std::int64_t rows = 0;  // of the matrix that PowerSGD makes of it: its first size; 1: a vector, 0: not known
};

/// The first size of a layer's weight, where its operator says it.
std::int64_t first_size(const workload::Op& op) {
  if (const auto* convolution = std::get_if<workload::Convolution>(&op)) return convolution->out;
  if (const auto* linear = std::get_if<workload::Linear>(&op)) return linear->out;
  if (const auto* table = std::get_if<workload::Embedding>(&op)) return table->rows;
  if (const auto* lstm = std::get_if<workload::Lstm>(&op)) return 4 * lstm->hidden;
  return 0;
}

/// Its weights are vectors, one value for each channel.
bool is_norm(const workload::Op& op) {
  return std::holds_alternative<workload::BatchNorm>(op) || std::holds_alternative<workload::LayerNorm>(op) ||
         std::holds_alternative<workload::RmsNorm>(op);
}

/// As torch views a tensor: its first size by the rest.
std::int64_t rows_of(const workload::Layer& layer, std::int64_t elements) {
  if (layer.op && is_norm(*layer.op)) return 1;
  const std::int64_t first = layer.op ? first_size(*layer.op) : 0;
  if (first > 0 && elements % first == 0) return elements == first ? 1 : first;
  return 0;
}

bool selected(const Selection& selection, std::size_t layer) {
  if (selection.which == Which::kAll) return true;
  const bool chosen = layer < selection.chosen->size() && (*selection.chosen)[layer];
  return chosen == (selection.which == Which::kChosen);
}

/// In the order backward makes them.
std::vector<Tensor> tensors_of(const Chunk& chunk, const Strategy& strategy, std::int64_t batch,
                               const Selection& selection) {
  const DataSize element = gradient_size(strategy.gradients);
  const bool matrices = strategy.compression == Compression::kPowerSgd;
  std::vector<Tensor> tensors;
  tensors.reserve(2 * chunk.count);
  for (std::size_t i = chunk.count; i-- > 0;) {
    if (!selected(selection, chunk.first + i)) continue;
    const workload::Layer& layer = chunk[i];
    // Whose rows stand on one GPU each has nothing to sum.
    if (layer.sparse_gradient && strategy.kind == StrategyKind::kPearl) continue;
    const bool sparse = layer.sparse_gradient && !selection.whole_tables;
    for (auto tensor = layer.parameters.rbegin(); tensor != layer.parameters.rend(); ++tensor) {
      const double sent =
          sparse ? workload::touched_elements({*tensor, layer.sparse_elements}, batch) : static_cast<double>(*tensor);
      if (sent > 0) tensors.push_back({element * sent, i, -1, sparse, matrices ? rows_of(layer, *tensor) : 0});
    }
  }
  return tensors;
}

Row row_of(const Tensor& tensor) {
  Row row{.size = tensor.size, .ready = {Moment::kBackward, tensor.layer}, .server = tensor.server};
  if (tensor.gathered) row.op = primitives::CollectiveOp::kAllGather;
  return row;
}

std::vector<Row> one_by_one(const std::vector<Tensor>& tensors) {
  std::vector<Row> rows;
  rows.reserve(tensors.size());
  for (const Tensor& tensor : tensors) rows.push_back(row_of(tensor));
  return rows;
}

struct BucketSizes {
  DataSize first{};
  DataSize others{};
};

std::vector<Row> buckets(const std::vector<Tensor>& tensors, const BucketSizes& sizes) {
  std::vector<Row> messages;
  Tensor filling;
  DataSize full = min(sizes.first, sizes.others);
  for (const Tensor& tensor : tensors) {
    if (tensor.gathered) {
      messages.push_back(row_of(tensor));
      continue;
    }
    filling.size += tensor.size;
    filling.layer = tensor.layer;
    if (filling.size < full) continue;
    messages.push_back(row_of(filling));
    filling = {};
    full = sizes.others;
  }
  if (filling.size == DataSize::zero()) return messages;
  // The last bucket was ready with the tensor that went into it last, before any later gather.
  const auto later =
      std::find_if(messages.begin(), messages.end(), [&](const Row& m) { return m.ready.layer < filling.layer; });
  messages.insert(later, row_of(filling));
  return messages;
}

/// Equal pieces, so that a tensor's total is exact and the closed form can fold them.
void cut(std::vector<Row>& tensors, DataSize partition) {
  for (Row& tensor : tensors) {
    const double count = std::ceil(tensor.size / partition);
    tensor.size = tensor.size / count;
    tensor.count = static_cast<std::int64_t>(count);
  }
}

/// Variables of a layer that take a turn and have no gradient: the moving mean and variance.
std::int64_t kept_beside(const workload::Layer& layer) {
  return layer.op && std::holds_alternative<workload::BatchNorm>(*layer.op) ? 2 : 0;
}

/// Names the server of every tensor.
void place(std::vector<Tensor>& tensors, const Chunk& chunk, Placement placement, std::int64_t servers) {
  if (placement == Placement::kEven || servers <= 1) return;
  const auto count = static_cast<std::int64_t>(tensors.size());
  if (placement == Placement::kRoundRobin) {
    // The first tensor of the model is the last that backward makes.
    std::int64_t turn = 0;
    for (auto i = static_cast<std::size_t>(count); i-- > 0;) {
      tensors[i].server = turn++ % servers;
      const bool last = i == 0 || tensors[i - 1].layer != tensors[i].layer;
      if (last) turn += kept_beside(chunk[tensors[i].layer]);
    }
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

/// What a bucket of PowerSGD sends: the factors of its matrices, all P in one message and all Q in another, and what it
/// leaves whole in a third.
struct LowRank {
  DataSize factors{};
  DataSize whole{};
  DataSize taken{};  // of gradients
  Work encoding{};
  DataSize encoded{};
  std::int64_t matrices = 0;
  std::size_t layer = 0;

  void add(const Tensor& tensor, DataSize element, double rank) {
    const double elements = tensor.size / element;
    const double m = tensor.rows > 0 ? static_cast<double>(tensor.rows) : std::sqrt(elements);
    const double k = elements / m;
    taken += tensor.size;
    layer = tensor.layer;
    if (2.0 * (m + k) * rank >= m * k) {  // torch's min_compression_rate
      whole += tensor.size;
      return;
    }
    factors += element * ((m + k) * rank);
    encoding += flops(6.0 * elements * rank);
    encoded += tensor.size * 3.0;
    ++matrices;
  }

  [[nodiscard]] Row row() const {
    const std::int64_t messages = (factors > DataSize::zero() ? 2 : 0) + (whole > DataSize::zero() ? 1 : 0);
    Row row = row_of(Tensor{.size = (factors + whole) / static_cast<double>(messages), .layer = layer});
    row.count = messages;
    row.encoding = encoding;
    row.encoded = encoded;
    row.orthogonalized = matrices;
    return row;
  }
};

/// Gradients that share no message are buckets of one.
std::vector<Row> low_rank(const std::vector<Tensor>& tensors, const Strategy& strategy, const BucketSizes& sizes) {
  const DataSize element = gradient_size(strategy.gradients);
  const auto rank = static_cast<double>(strategy.rank);
  std::vector<Row> rows;
  LowRank filling;
  DataSize full = min(sizes.first, sizes.others);
  for (const Tensor& tensor : tensors) {
    if (tensor.gathered) {
      rows.push_back(row_of(tensor));
      continue;
    }
    filling.add(tensor, element, rank);
    if (filling.taken < full) continue;
    rows.push_back(filling.row());
    filling = {};
    full = sizes.others;
  }
  if (filling.taken > DataSize::zero()) rows.push_back(filling.row());
  return rows;
}

BucketSizes bucket_sizes(const Strategy& strategy) {
  switch (grouping_of(strategy)) {
    case Grouping::kBuckets: return {strategy.first_bucket, strategy.bucket};
    case Grouping::kFlat: return {DataSize::infinity(), DataSize::infinity()};
    case Grouping::kFusion:
    case Grouping::kPerTensor:
    case Grouping::kPartitions: break;
  }
  return {};
}

void compress(Row& message, const Strategy& strategy) {
  if (message.gathered() || strategy.compression == Compression::kNone) return;
  constexpr double kSelectPasses = 3;  // histogram, threshold, compaction of a radix select
  constexpr double kIndexBytes = 4;
  const DataSize element = gradient_size(strategy.gradients);
  const double elements = message.size / element;
  const DataSize whole = message.size;
  switch (strategy.compression) {
    case Compression::kNone: return;
    case Compression::kTopK:
      message.size = (element + bytes(kIndexBytes)) * (elements * strategy.density);
      message.op = primitives::CollectiveOp::kAllGather;
      message.encoded += whole * kSelectPasses;
      message.encoded_per_rank = message.size * 2.0;
      return;
    case Compression::kSign:
      message.size = bytes(elements / 8.0);
      message.op = primitives::CollectiveOp::kAllGather;
      message.encoded += whole;
      message.encoded_per_rank = message.size * 2.0;
      return;
    case Compression::kPowerSgd: return;  // low_rank
  }
}

}  // namespace

std::vector<Row> messages(const Chunk& chunk, const Strategy& strategy, std::int64_t batch,
                          const Selection& selection) {
  const Grouping grouping = grouping_of(strategy);
  std::vector<Tensor> tensors = tensors_of(chunk, strategy, batch, selection);
  // Pieces of one size are spread over the servers by themselves.
  const bool whole = grouping != Grouping::kPartitions;
  if (strategy.kind == StrategyKind::kPs && whole) place(tensors, chunk, strategy.placement, strategy.servers);
  if (strategy.compression == Compression::kPowerSgd) {
    std::vector<Row> made = low_rank(tensors, strategy, bucket_sizes(strategy));
    if (grouping == Grouping::kFlat) {
      for (Row& message : made) message.ready.layer = 0;
    }
    return made;
  }
  std::vector<Row> made;
  switch (grouping) {
    case Grouping::kBuckets: made = buckets(tensors, {strategy.first_bucket, strategy.bucket}); break;
    case Grouping::kFlat:
      made = buckets(tensors, {DataSize::infinity(), DataSize::infinity()});
      for (Row& message : made) message.ready.layer = 0;
      break;
    case Grouping::kPartitions:
      made = one_by_one(tensors);
      cut(made, strategy.partition);
      break;
    case Grouping::kFusion:
    case Grouping::kPerTensor: made = one_by_one(tensors); break;
  }
  const bool copied = sums_gradients(strategy.kind) &&
                      (grouping_of(strategy) == Grouping::kBuckets || grouping_of(strategy) == Grouping::kFlat);
  for (Row& message : made) {
    // Gradients are copied into the bucket and, summed, back: two reads, two writes.
    if (copied && !message.gathered()) message.encoded = message.size * 4.0;
    compress(message, strategy);
  }
  return made;
}

const std::vector<Row>& KeptMessages::of(const Chunk& chunk, const Strategy& strategy, std::int64_t batch) {
  const auto known = std::find_if(kept_.begin(), kept_.end(), [&](const Asked& one) {
    return one.chunk.layers == chunk.layers && one.chunk.first == chunk.first && one.chunk.count == chunk.count &&
           one.batch == batch && one.strategy == strategy;
  });
  if (known != kept_.end()) return known->rows;
  if (kept_.size() == kKept) kept_.pop_back();
  kept_.push_front({chunk, strategy, batch, messages(chunk, strategy, batch)});
  return kept_.front().rows;
}

Chunk chunk_of(std::shared_ptr<const workload::Model> model) {
  const std::size_t count = model->layers.size();
  const auto* layers = &model->layers;
  return {std::shared_ptr<const std::vector<workload::Layer>>(std::move(model), layers), 0, count};
}

FusionQueue::Fused FusionQueue::take(Time now) {
  Fused fused{.row = waiting_[next_++].row};
  Row& row = fused.row;
  row.size = row.size * static_cast<double>(row.count);
  row.count = 1;
  while (next_ < waiting_.size() && waiting_[next_].ready <= now) {
    const Row& next = waiting_[next_].row;
    const DataSize more = next.size * static_cast<double>(next.count);
    if (row.size + more > rule_.buffer) break;
    row.size += more;
    row.ready = next.ready;
    fused.alone = false;
    ++next_;
  }
  const Waiting& last = waiting_[next_ - 1];
  fused.last = last.number;
  fused.wait = now - last.ready;
  return fused;
}

}  // namespace ddlsim::plan
