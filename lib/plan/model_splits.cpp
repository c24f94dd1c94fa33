// A model split over ranks: tensors, rows, experts, stages, and the host's memory.
#include <algorithm>
#include <string>
#include <variant>

#include "ddlsim/plan/lower.h"
#include "ddlsim/plan/messages.h"
#include "ddlsim/plan/software.h"
#include "ddlsim/workload/fusion.h"
#include "ddlsim/workload/passes.h"
#include "ddlsim/workload/shard.h"
#include "memo.h"
#include "splits.h"

namespace ddlsim::plan {
namespace {

using primitives::CollectiveOp;

workload::Cut cut_of(const Job& job) {
  const Parallel& parallel = job.parallel;
  return {.tensor = parallel.tensor,
          .sequence = parallel.sequence,
          .overlap = parallel.overlap_tensor,
          .context = parallel.context,
          .ulysses = parallel.context_by == ContextBy::kUlysses,
          .expert = parallel.expert,
          .whole_experts = has_whole_experts(parallel),
          .expert_load = expert_load(parallel)};
}

GroupRole role_of(workload::Ranks among) {
  switch (among) {
    case workload::Ranks::kTensor: return GroupRole::kTensor;
    case workload::Ranks::kContext: return GroupRole::kContext;
    case workload::Ranks::kExpert: return GroupRole::kExperts;
  }
  return GroupRole::kTensor;
}

/// Of a layer's kernels in a pass, what their arithmetic or, without any, their memory asks.
double weight_of(const workload::Layer& layer, bool forward) {
  const Work work = forward ? layer.forward_work : layer.backward_work;
  if (work > Work::zero()) return work.in(flops);
  return static_cast<double>(forward ? layer.forward_elements : layer.backward_elements);
}

/// Of any batch, and whatever ranks stand where.
class Splitting {
 public:
  Splitting(const Job& job, std::shared_ptr<const workload::Model> model) : job_(job), model_(std::move(model)) {}

  Expected<SplitModel> run(Memo& memo) {
    const Parallel& parallel = job_.parallel;
    const workload::Cut cut = cut_of(job_);
    const bool shares = cut.tensor > 1 || cut.context > 1 || cut.expert > 1 || cut.expert_load != 1;
    const bool copies = parallel.pipeline > 1 && has_tied();
    const bool changes = shares || copies || parallel.lora_rank > 0;
    split_.layers = chunk_of(model_).layers;
    split_.blocks = blocks_in(job_.model, memo).blocks;
    std::vector<workload::Layer> layers;
    if (shares) {
      if (auto done = share(cut, memo, layers); !done) return tl::unexpected<Error>(done.error());
    } else if (changes) {
      layers = job_.model->layers;
    }
    if (copies) copy_tied(layers);
    if (parallel.lora_rank > 0) {
      if (auto done = workload::adapt(layers, adapters_of(job_)); !done) return tl::unexpected<Error>(done.error());
    }
    // What is cut is fused afterwards; nothing joins a kernel whose output is sent first.
    if (const workload::Fusion fusion = fusion_as_run(job_); changes && fusion != workload::Fusion{}) {
      layers = workload::fused(std::move(layers), fusion, closed_);
    }
    if (parallel.recompute != Recompute::kNone) {
      if (!changes) layers = *split_.layers;
      if (auto done = recompute(layers); !done) return tl::unexpected<Error>(done.error());
    }
    if (spreads_tables(job_)) {
      layers = model_->layers;
      spread(layers);
    }
    if (!layers.empty()) split_.layers = std::make_shared<const std::vector<workload::Layer>>(std::move(layers));
    split_.sent = std::make_shared<const std::vector<SentRow>>(std::move(sent_));
    return std::move(split_);
  }

 private:
  [[nodiscard]] static bool is_tied(const workload::Layer& layer) {
    const auto* linear = layer.op ? std::get_if<workload::Linear>(&*layer.op) : nullptr;
    return linear != nullptr && linear->tied;
  }
  [[nodiscard]] bool has_tied() const {
    return std::any_of(job_.model->layers.begin(), job_.model->layers.end(), is_tied);
  }
  /// A head whose weights are a table's stands on another stage, with a copy of its own.
  static void copy_tied(std::vector<workload::Layer>& layers) {
    const bool frozen = std::any_of(layers.begin(), layers.end(), [](const workload::Layer& layer) {
      return layer.op && std::holds_alternative<workload::Embedding>(*layer.op) && layer.frozen_elements > 0;
    });
    for (workload::Layer& layer : layers) {
      if (!is_tied(layer)) continue;
      const std::int64_t weights = layer.in.back() * std::get<workload::Linear>(*layer.op).out;
      if (frozen) {
        layer.frozen_elements += weights;
      } else {
        layer.parameters.insert(layer.parameters.begin(), weights);
      }
    }
  }

  Expected<void> share(const workload::Cut& cut, Memo& memo, std::vector<workload::Layer>& layers) {
    const std::pair key{job_.model.get(), cut};
    auto found = memo.shards.find(key);
    if (found == memo.shards.end()) found = memo.shards.emplace(key, workload::shard(job_.model->layers, cut)).first;
    const Expected<std::vector<workload::Shard>>& shards = found->second;
    if (!shards) return tl::unexpected<Error>(shards.error());
    layers.reserve(shards->size());
    for (const workload::Shard& one : *shards) {
      const std::size_t i = layers.size();
      bool after = false;
      first_sent_.push_back(sent_.size());
      for (const workload::Sent& sent : one.sent) {
        add(sent, i, shards->size());
        after = after || (sent.forward && !sent.before);
      }
      closed_.push_back(after);
      if (cut.expert > 1 || cut.whole_experts) split_.experts.push_back(one.experts);
      if (cut.sequence) split_.on_rows.push_back(one.on_rows);
      layers.push_back(one.layer);
    }
    first_sent_.push_back(sent_.size());
    return {};
  }

  /// What ranks send around layer `i` of `count`.
  void add(const workload::Sent& sent, std::size_t i, std::size_t count) {
    if (sent.elements == 0) return;
    const Point at{sent.forward ? Moment::kForward : Moment::kBackward, i};
    Point ready = at;
    if (sent.before && sent.forward && i > 0) ready.layer = i - 1;
    if (sent.before && !sent.forward && i + 1 < count) ready.layer = i + 1;
    sent_.push_back({.role = role_of(sent.among),
                     .op = sent.op,
                     .elements = sent.elements,
                     .fp32 = sent.fp32,
                     .count = sent.count,
                     .ready = ready,
                     .needed = at,
                     .beside = sent.beside,
                     .routing = sent.routing});
  }

  /// Every rank keeps a share of each large table. What a rank looks up for all samples comes to whose samples they are
  /// before the model joins it, and the gradients go back.
  void spread(std::vector<workload::Layer>& layers) {
    const std::int64_t ranks = job_.cluster.gpus();
    std::int64_t elements = 0;  // of the tables so far, per sample
    for (std::size_t i = 0; i < layers.size(); ++i) {
      workload::Layer& layer = layers[i];
      if (!layer.sparse_gradient) continue;
      if (spreads(job_.strategy, layer.parameters.front())) {
        layer.parameters.front() = (layer.parameters.front() + ranks - 1) / ranks;
        elements += layer.output_elements;
      } else {
        layer.sparse_gradient = false;
      }
      const bool last = i + 1 == layers.size() || !job_.model->layers[i + 1].sparse_gradient;
      if (last) send_rows(std::exchange(elements, 0), i);
    }
  }

  /// Of the tables that end with layer `i`.
  void send_rows(std::int64_t elements, std::size_t i) {
    if (elements == 0) return;
    const auto& all = job_.model->layers;
    const auto joins = [](const workload::Layer& layer) {
      return layer.op && std::holds_alternative<workload::Concat>(*layer.op);
    };
    std::size_t join = i + 1;
    while (join < all.size() && !joins(all[join])) ++join;
    if (join == all.size()) join = std::min(i + 1, all.size() - 1);
    const SentRow row{
        .role = GroupRole::kGradients, .op = CollectiveOp::kAllToAll, .elements = elements, .in_the_way = join == i};
    sent_.push_back(row);
    sent_.back().ready = {Moment::kForward, i};
    sent_.back().needed = {Moment::kForward, join};
    sent_.push_back(row);
    sent_.back().ready = {Moment::kBackward, join};
    sent_.back().needed = {Moment::kBackward, i};
  }

  Expected<void> recompute(std::vector<workload::Layer>& layers) {
    const bool per_op = job_.parallel.recompute == Recompute::kPerOp;
    const bool stage = job_.parallel.recompute == Recompute::kStage;
    const bool whole = per_op || stage || job_.parallel.recompute == Recompute::kFull;
    const std::int64_t every = per_op ? 1 : job_.parallel.recompute_every;
    const std::int64_t first = per_op ? 1 : job_.parallel.recompute_first;
    std::vector<bool> again(layers.size(), stage);
    std::vector<bool> spared(layers.size());
    std::int64_t number = 0;
    for (const workload::Block& block : split_.blocks) {
      if (!block.body || !whole || stage || number++ % every >= first) continue;
      const std::size_t end = block.first + block.count;
      const std::vector<bool> kept = per_op ? kept_per_op(layers_of(block), job_.precision) : std::vector<bool>{};
      for (std::size_t i = block.first; i < end; ++i) again[i] = !per_op || !kept[i - block.first];
      if (!job_.parallel.recompute_stops) continue;
      for (std::size_t i = needed_end(block); i < end; ++i) spared[i] = true;
    }
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (!whole) again[i] = workload::is_attention(job_.model->layers[i]);
      if (again[i] && layers[i].measured) {
        return fail(ErrorCode::kUnsupported,
                    "layer '" + layers[i].name + "' cannot be computed again: only its time is known", {},
                    {"measured layers take parallel.recompute none"});
      }
      // Frozen layers before the first adapter have no backward that would need it.
      if (layers[i].backward.empty() && layers[i].backward_work == Work::zero()) again[i] = false;
      if (again[i] && !spared[i]) compute_again(layers[i], i);
    }
    if (std::find(again.begin(), again.end(), true) == again.end()) {
      return fail(ErrorCode::kUnsupported,
                  job_.model->id + (whole ? " has no layer to compute again" : " has no attention to compute again"),
                  {}, {"use parallel.recompute none"});
    }
    return {};
  }

  [[nodiscard]] std::span<const workload::Layer> layers_of(const workload::Block& block) const {
    return std::span(job_.model->layers).subspan(block.first, block.count);
  }

  /// Where a block's outputs begin that no gradient needs: a last product, and the sum that takes it.
  [[nodiscard]] std::size_t needed_end(const workload::Block& block) const {
    const auto& layers = job_.model->layers;
    std::size_t end = block.first + block.count;
    while (end > block.first && workload::is_residual(layers[end - 1])) --end;
    const bool product =
        end > block.first && layers[end - 1].op && std::holds_alternative<workload::Linear>(*layers[end - 1].op);
    return product ? end - 1 : block.first + block.count;
  }

  /// The layer's forward kernels, and what its ranks send around them, in its backward.
  void compute_again(workload::Layer& layer, std::size_t i) {
    const double forward = weight_of(layer, true);
    const double backward = weight_of(layer, false);
    workload::recompute(layer);
    const double both = std::max(forward + backward, 1.0);
    if (first_sent_.empty()) return;
    for (std::size_t r = first_sent_[i]; r < first_sent_[i + 1]; ++r) {
      SentRow& row = sent_[r];
      if (row.needed.at == Moment::kBackward) {
        row.beside *= backward / both;
        continue;
      }
      // Checkpointing per operator keeps what was scattered.
      if (job_.parallel.recompute == Recompute::kPerOp && row.op == CollectiveOp::kReduceScatter) continue;
      SentRow again = row;
      again.ready = again.needed = {Moment::kBackward, i};
      again.beside *= forward / both;
      sent_.push_back(again);
    }
  }

  const Job& job_;
  std::shared_ptr<const workload::Model> model_;  // as it runs
  SplitModel split_;
  std::vector<SentRow> sent_;
  std::vector<std::size_t> first_sent_;  // by layer, and their number; empty: nothing is sent
  std::vector<bool> closed_;             // layers whose output is sent
};

}  // namespace

Expected<SplitModel> split_model(const Job& job, const StepPlan& plan, Memo& memo) {
  const Parallel& parallel = job.parallel;
  const CutKey key{.model = job.model.get(),
                   .fusion = fusion_as_run(job),
                   .ranks = cut_of(job),
                   .copies = parallel.pipeline > 1,
                   .recompute = parallel.recompute,
                   .recompute_every = parallel.recompute_every,
                   .recompute_first = parallel.recompute_first,
                   .recompute_stops = parallel.recompute_stops,
                   .scaled_products = is_cast(job.precision),
                   .adapters = adapters_of(job),
                   .tables_among = spreads_tables(job) ? job.cluster.gpus() : 1,
                   .spread_from = job.strategy.spread_from};
  auto found = memo.cuts.find(key);
  if (found == memo.cuts.end()) found = memo.cuts.emplace(key, Splitting(job, plan.model).run(memo)).first;
  return found->second;
}

namespace {

/// Of the copies that an all-to-all sends, what is sent. A group over several servers waits for the network between
/// them, which a row crosses once per server, and not for the NVLinks that bring it from there to the ranks.
double share_of_copies(const Job& job, const SentRow& sent, const RankGroup& group) {
  if (sent.routing.experts == 0 || job.parallel.expert_dispatch == ExpertDispatch::kCopies) return 1;
  workload::Routing routing = sent.routing;
  std::int64_t places = group.nodes > 1 ? group.nodes : group.ranks;
  if (const std::int64_t most = job.parallel.expert_servers; most > 0 && group.nodes > most) {
    // Servers are chosen first, experts among those on them.
    routing.experts = routing.experts / places * most;
    places = most;
  }
  return workload::places_of_a_row(routing, places) / static_cast<double>(routing.active);
}

}  // namespace

std::vector<Row> rows_sent(const Job& job, const StepPlan& plan, const SplitModel& split) {
  std::vector<Row> rows;
  rows.reserve(split.sent->size());
  for (const SentRow& sent : *split.sent) {
    const auto group = group_of(plan, sent.role);
    if (!group) continue;
    const DataSize element = sent.fp32 ? bytes(4) : activation_size(job.precision);
    const bool shares = sent.op == CollectiveOp::kAllGather || sent.op == CollectiveOp::kReduceScatter ||
                        sent.op == CollectiveOp::kAllToAll;
    const double ranks = shares ? static_cast<double>(plan.groups[*group].ranks) : 1.0;
    const double elements = static_cast<double>(sent.elements) * share_of_copies(job, sent, plan.groups[*group]);
    rows.push_back({.op = sent.op,
                    .size = element * (elements * static_cast<double>(job.batch) / ranks),
                    .count = sent.count,
                    .ready = sent.ready,
                    .needed = sent.needed,
                    .in_the_way = sent.in_the_way,
                    .beside = sent.beside,
                    .group = *group,
                    .every_pass = true});
  }
  return rows;
}

std::vector<Row> rows_of_tied(const Job& job, const StepPlan& plan) {
  // Where a V ends, or DualPipe's other direction, table and head are on one rank.
  const Pipeline pipeline = pipeline_of(plan);
  const Place last = place_of(pipeline, positions_of(pipeline) - 1);
  const bool both = pipeline.schedule == PipelineSchedule::kDualPipe;
  if (last.stage == 0 || both) return {};
  double elements = 0;
  const RankClass& holder = plan.classes[last.stage];
  const Part& part = holder.parts[last.part];
  for (std::size_t i = part.first; i < part.first + part.count; ++i) {
    const workload::Layer& head = holder.chunk[i];
    const auto* linear = head.op ? std::get_if<workload::Linear>(&*head.op) : nullptr;
    if (linear != nullptr && linear->tied && !head.parameters.empty()) {
      elements = static_cast<double>(head.parameters.front());
    }
  }
  if (elements == 0) return {};
  std::vector<Row> rows;
  for (const std::size_t stage : {std::size_t{0}, last.stage}) {
    rows.push_back({.size = gradient_size(as_sent(job).gradients) * elements,
                    .ready = {Moment::kBackward, 0},
                    .needed = {Moment::kUpdate, 0},
                    .in_the_way = true,
                    .rank_class = stage,
                    .needed_by = stage,
                    .group = boundary_group(plan, 0, static_cast<std::int64_t>(last.stage))});
  }
  return rows;
}

std::vector<Row> rows_of_norms(const Job& job, const StepPlan& plan, const SplitModel& split, std::size_t rank_class,
                               const Chunk& chunk) {
  const auto group = group_of(plan, GroupRole::kTensor);
  double elements = 0;
  for (std::size_t i = 0; i < chunk.count; ++i) {
    if (!split.is(split.on_rows, chunk.first + i)) continue;
    for (const std::int64_t tensor : chunk[i].parameters) elements += static_cast<double>(tensor);
  }
  if (!group || elements == 0) return {};
  return {{.size = gradient_size(as_sent(job).gradients) * elements,
           .ready = {Moment::kBackward, 0},
           .needed = {Moment::kUpdate, 0},
           .in_the_way = true,
           .rank_class = rank_class,
           .needed_by = rank_class,
           .group = *group}};
}

std::vector<Row> offload_rows(const Job& job, const StepPlan& plan, const SplitModel& split, std::size_t rank_class,
                              const Chunk& chunk, DataSize updated) {
  const States states = job.parallel.states.value_or(States::kFp32);
  const StateSizes sizes = state_sizes(states, plan.model->optimizer);
  const DataSize weight = states == States::kFp32 ? bytes(4) : bytes(2);  // as they are computed with
  const bool leave = leave_for_host(job.parallel);
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
    double elements = 0;
    for (const std::int64_t tensor : chunk[i].parameters) elements += static_cast<double>(tensor);
    if (elements == 0) continue;
    const bool experts = split.is(split.experts, chunk.first + i);
    const double ranks = job.parallel.zero > 0 ? static_cast<double>(sharing_ranks(plan, experts)) : 1.0;
    add(RowKind::kCopy, sizes.gradient * (elements / ranks), {Moment::kBackward, i}, {Moment::kUpdate, 0}, false);
    rows.back().every_pass = leave;
    all += weight * (elements / ranks);
  }
  add(RowKind::kHost, updated, {Moment::kUpdate, 0}, {}, true);
  if (!job.parallel.offload_weights) add(RowKind::kCopyBack, all, {Moment::kUpdate, 0}, {}, true);
  return rows;
}

std::vector<Row> activation_rows(const Job& job, const StepPlan& plan, const SplitModel& split, std::size_t rank_class,
                                 const Chunk& chunk, Memo& memo) {
  const std::vector<DataSize>& kept_by_layer = kept_by(job, plan, memo).kept;
  const std::size_t end = chunk.first + chunk.count;
  std::vector<Row> rows;
  std::vector<std::size_t> starts;  // of blocks within the chunk, and its end
  for (const workload::Block& block : split.blocks) {
    if (block.first < end && block.first + block.count > chunk.first) {
      starts.push_back(std::max(block.first, chunk.first) - chunk.first);
    }
  }
  starts.push_back(chunk.count);
  // The last block is needed at once.
  for (std::size_t n = 0; n + 2 < starts.size(); ++n) {
    DataSize size;
    for (std::size_t i = starts[n]; i < starts[n + 1]; ++i) size += kept_by_layer[chunk.first + i];
    if (size == DataSize::zero()) continue;
    const std::size_t last = starts[n + 1] - 1;
    rows.push_back({.kind = RowKind::kCopy,
                    .size = size,
                    .ready = {Moment::kForward, last},
                    .rank_class = rank_class,
                    .needed_by = rank_class,
                    .every_pass = true});
    // Asked for one block ahead.
    const Point ask =
        n + 3 < starts.size() ? Point{Moment::kBackward, starts[n + 2]} : Point{Moment::kForward, chunk.count - 1};
    rows.push_back({.kind = RowKind::kCopyBack,
                    .size = size,
                    .ready = ask,
                    .needed = {Moment::kBackward, last},
                    .after = rows.size() - 1,
                    .rank_class = rank_class,
                    .needed_by = rank_class,
                    .every_pass = true});
  }
  return rows;
}

}  // namespace ddlsim::plan
