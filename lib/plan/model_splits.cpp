// A model split over ranks: tensors, states, and the host's memory.
#include <algorithm>
#include <string>

#include "ddlsim/workload/shard.h"
#include "splits.h"

namespace ddlsim::plan {
namespace {

using primitives::CollectiveOp;

DataSize parameters_of(const workload::Layer& layer, Precision precision) {
  double elements = 0;
  for (const std::int64_t tensor : layer.parameters) elements += static_cast<double>(tensor);
  return gradient_size(precision) * elements;
}

}  // namespace

Expected<TensorSplit> split_tensors(const Job& job, const workload::Model& model) {
  auto shards = workload::shard(model.layers, job.parallel.tensor);
  if (!shards) return tl::unexpected<Error>(shards.error());
  const DataSize element = activation_size(job.precision);
  const auto batch = static_cast<double>(job.batch);
  std::vector<workload::Layer> layers;
  TensorSplit split;
  const auto sum = [&](std::int64_t elements, Point after) {
    if (elements == 0) return;
    split.rows.push_back({.size = element * (static_cast<double>(elements) * batch),
                          .ready = after,
                          .needed = after,
                          .in_the_way = true,
                          .every_pass = true});
  };
  for (workload::Shard& part : *shards) {
    sum(part.summed_forward, {Moment::kForward, layers.size()});
    sum(part.summed_backward, {Moment::kBackward, layers.size()});
    layers.push_back(std::move(part.layer));
  }
  split.layers = std::make_shared<const std::vector<workload::Layer>>(std::move(layers));
  return split;
}

std::vector<Row> sharded_rows(const Job& job, const StepPlan& plan, std::size_t rank_class, const Chunk& chunk) {
  const auto ranks = static_cast<double>(plan.groups.front().ranks);
  const bool weights_too = job.parallel.zero >= 3;
  std::vector<std::size_t> owning;  // layers that have parameters
  for (std::size_t i = 0; i < chunk.count; ++i) {
    if (!chunk[i].parameters.empty()) owning.push_back(i);
  }
  std::vector<Row> rows;
  const auto row = [&](CollectiveOp op, std::size_t layer, Point ready, Point needed, bool every_pass) {
    const DataSize share = parameters_of(chunk[layer], job.strategy.gradients) / ranks;
    rows.push_back({.op = op,
                    .size = share,
                    .ready = ready,
                    .needed = needed,
                    .rank_class = rank_class,
                    .needed_by = rank_class,
                    .every_pass = every_pass});
  };
  const auto ahead = static_cast<std::size_t>(std::max<std::int64_t>(job.parallel.prefetch, 0));
  for (std::size_t n = 0; weights_too && n < owning.size(); ++n) {
    // A layer's weights are asked for when the one `ahead` owners before it starts.
    const Point start = n < ahead + 1 ? Point{Moment::kBegin, 0} : Point{Moment::kForward, owning[n - ahead - 1]};
    row(CollectiveOp::kAllGather, owning[n], start, {Moment::kForward, owning[n]}, true);
  }
  for (std::size_t n = owning.size(); weights_too && n-- > 0;) {
    const std::size_t after = n + ahead + 1;
    const Point start =
        after < owning.size() ? Point{Moment::kBackward, owning[after]} : Point{Moment::kForward, chunk.count - 1};
    row(CollectiveOp::kAllGather, owning[n], start, {Moment::kBackward, owning[n]}, true);
  }
  // Gradients that are kept whole are summed once a step; those that are shared, in every pass.
  for (std::size_t n = owning.size(); n-- > 0;) {
    row(CollectiveOp::kReduceScatter, owning[n], {Moment::kBackward, owning[n]}, {Moment::kUpdate, 0},
        job.parallel.zero >= 2);
  }
  // What each rank has updated of the weights goes to the others, before the next step.
  for (std::size_t n = 0; !weights_too && n < owning.size(); ++n) {
    row(CollectiveOp::kAllGather, owning[n], {Moment::kUpdate, 0}, {}, false);
    rows.back().in_the_way = true;
  }
  return rows;
}

std::vector<Row> offload_rows(const Job& job, const StepPlan& plan, std::size_t rank_class) {
  const Chunk& chunk = plan.classes[rank_class].chunk;
  const double share = job.parallel.zero > 0 ? 1.0 / static_cast<double>(plan.groups.front().ranks) : 1.0;
  DataSize all;
  std::vector<Row> rows;
  const auto add = [&](RowKind kind, DataSize size, Point ready, Point needed, bool in_the_way) {
    rows.push_back({.kind = kind,
                    .size = size,
                    .ready = ready,
                    .needed = needed,
                    .in_the_way = in_the_way,
                    .rank_class = rank_class,
                    .needed_by = rank_class});
  };
  for (std::size_t i = chunk.count; i-- > 0;) {
    const DataSize gradient = parameters_of(chunk[i], Precision::kFp32) * share;
    if (gradient == DataSize::zero()) continue;
    add(RowKind::kCopy, gradient, {Moment::kBackward, i}, {Moment::kUpdate, 0}, false);
    all += gradient;
  }
  add(RowKind::kHost, plan.classes[rank_class].updated, {Moment::kUpdate, 0}, {}, true);
  add(RowKind::kCopyBack, all, {Moment::kUpdate, 0}, {}, true);
  return rows;
}

}  // namespace ddlsim::plan
