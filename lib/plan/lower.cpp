#include "ddlsim/plan/lower.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "ddlsim/plan/lowerer.h"
#include "ddlsim/plan/messages.h"
#include "ddlsim/plan/software.h"
#include "memo.h"
#include "splits.h"
#include "update.h"

namespace ddlsim::plan {
namespace {

/// A stage of layers each, or kinds of GPUs with all of them.
Expected<void> add_classes(const Job& job, const std::shared_ptr<const std::vector<workload::Layer>>& layers,
                           Lowered how, StepPlan& plan, Memo& memo) {
  if (job.parallel.pipeline > 1) return add_stages(job, layers, how, plan, memo);
  const std::int64_t gpus = job.cluster.gpus();
  const std::size_t count = layers->size();
  const std::int64_t slow = job.straggler > 1 ? std::min(job.stragglers.get(), gpus) : 0;
  if (slow < gpus) plan.classes.push_back({.role = "replica", .ranks = gpus - slow, .chunk = {layers, 0, count}});
  if (slow > 0) {
    plan.classes.push_back(
        {.role = "slower replica", .ranks = slow, .slowness = job.straggler, .chunk = {layers, 0, count}});
  }
  return {};
}

/// Megatron's buffer of fp32 gradients, of every parameter: cleared (4), searched for what is no number (4), scaled by
/// 1 / ranks (8; NVIDIA/Megatron-LM core/distributed/param_and_grad_buffer.py).
constexpr DataSize kMainGradientBuffer = bytes(16);
/// The norm of those that a rank updates, and their scaling to it (core/optimizer/clip_grads.py).
constexpr DataSize kClipping = bytes(12);

}  // namespace

DataSize updated_by(const Job& job, const StepPlan& plan, const SplitModel& split, const Chunk& chunk) {
  const workload::Model& model = *plan.model;
  double elements = 0;
  double held = 0;  // on the rank, of which it may update a share
  const std::int64_t samples = job.batch * job.strategy.accumulation;
  if (!splits_model(job.parallel)) {
    elements = static_cast<double>(model.totals.dense_parameters) +
               table_share(model, job.strategy, job.cluster.gpus(), samples).touched;
  } else {
    const bool shared = job.parallel.zero >= 1;
    const double of_all = shared ? static_cast<double>(sharing_ranks(plan, false)) : 1.0;
    const double of_experts = shared ? static_cast<double>(sharing_ranks(plan, true)) : 1.0;
    for (std::size_t i = 0; i < chunk.count; ++i) {
      const double ranks = split.is(split.experts, chunk.first + i) ? of_experts : of_all;
      for (const std::int64_t tensor : chunk[i].parameters) {
        const double made = chunk[i].sparse_gradient
                                ? workload::touched_elements({tensor, chunk[i].sparse_elements}, samples)
                                : static_cast<double>(tensor);
        held += made / (job.parallel.zero >= 2 ? ranks : 1.0);
        elements += made / ranks;
      }
    }
  }
  if (!job.parallel.states) return bytes(4) * elements * accesses_of_update(job);
  // Gradient in, weight out, and in and out what is updated in full precision.
  const StateSizes sizes = state_sizes(*job.parallel.states, model.optimizer);
  const DataSize updated = sizes.weight + sizes.master * 2.0;
  const DataSize read = sizes.master == DataSize::zero() ? sizes.weight : DataSize::zero();
  const States states = *job.parallel.states;
  const bool main_gradients = (states == States::kMixed || states == States::kFp8 || states == States::kFp8Primary) &&
                              !job.parallel.offload_optimizer;  // the host has its own
  const DataSize buffers = main_gradients ? kMainGradientBuffer * held + kClipping * elements : DataSize::zero();
  const double more = static_cast<double>(accesses_of_update(job)) / update_accesses(model.optimizer);
  return (sizes.gradient + updated + read + sizes.optimizer * 2.0) * (elements * more) + buffers;
}

namespace {

void append(std::vector<Row>& rows, std::vector<Row> more) {
  if (rows.capacity() == 0) {
    rows = std::move(more);
    return;
  }
  for (Row& row : more) {
    if (row.after != kNoRow) row.after += rows.size();
  }
  rows.insert(rows.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

/// Without overlap nothing is hidden: gradients wait for backward, and kernels for all that is sent.
void stop_for(std::vector<Row>& rows, std::size_t last_layer) {
  for (Row& row : rows) {
    if (row.needed.at == Moment::kUpdate) row.ready = {Moment::kBackward, last_layer};
    row.in_the_way = true;
  }
}

/// The rows of a whole model by the layer that they are needed for.
class RowsByLayer {
 public:
  RowsByLayer(const std::vector<Row>& rows, std::size_t layers) : rows_(rows), first_(layers + 1), order_(rows.size()) {
    for (const Row& row : rows) ++first_[row.needed.layer + 1];
    for (std::size_t i = 0; i < layers; ++i) first_[i + 1] += first_[i];
    std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
    for (std::size_t r = 0; r < rows.size(); ++r) order_[next[rows[r].needed.layer]++] = r;
  }

  /// What the ranks of a class send around the layers of a part, in the model's order of rows.
  [[nodiscard]] std::vector<Row> within(const Chunk& chunk, std::size_t rank_class) const {
    const auto at = [&](std::size_t layer) { return order_.begin() + static_cast<std::ptrdiff_t>(first_[layer]); };
    std::vector<std::size_t> chosen(at(chunk.first), at(chunk.first + chunk.count));
    std::sort(chosen.begin(), chosen.end());
    std::vector<Row> rows;
    rows.reserve(chosen.size());
    for (const std::size_t r : chosen) {
      Row& row = rows.emplace_back(rows_[r]);
      // What a stage's first or last layer gathers is gathered where the stage starts.
      const bool inside = row.ready.layer >= chunk.first && row.ready.layer < chunk.first + chunk.count;
      if (!inside) row.ready.layer = row.needed.layer;
      row.ready.layer -= chunk.first;
      row.needed.layer -= chunk.first;
      row.rank_class = row.needed_by = rank_class;
    }
    return rows;
  }

 private:
  const std::vector<Row>& rows_;
  std::vector<std::size_t> first_;  // by layer: of `order_`
  std::vector<std::size_t> order_;
};

/// From points of a part's layers to those of its class.
std::vector<Row> shifted(std::vector<Row> rows, std::size_t by) {
  for (Row& row : rows) {
    for (Point* point : {&row.ready, &row.needed}) {
      const bool of_layer = point->at == Moment::kForward || point->at == Moment::kBackward;
      if (of_layer || point->at == Moment::kBegin) point->layer += by;
    }
  }
  return rows;
}

/// What a class has besides what stages send each other. `stopping`: rows that a stage stands still for.
void add_rows_of(const Job& job, const SplitModel& split, const RowsByLayer& sent, std::size_t c, StepPlan& plan,
                 std::vector<Row>& stopping, Memo& memo) {
  RankClass& one = plan.classes[c];
  const bool among_layers = plan.model->measured && plan.model->measured->update;
  const bool at_servers = plan.servers && plan.servers->update;
  one.updates_on_gpu = !among_layers && !at_servers && !job.parallel.offload_optimizer;
  const auto parts = part_chunks(one, split);
  std::vector<Row> exchanged;
  std::vector<Row> others;
  for (const PartChunk& part : parts) {
    const DataSize updated = updated_by(job, plan, split, part.chunk);
    one.updated += updated;
    one.update_launches += launches_of_update(job, part.chunk);
    append(exchanged, shifted(job.parallel.zero > 0 ? sharded_rows(job, plan, split, c, part.chunk)
                                                    : gradients_of(job, plan, split, c, part.chunk, memo.messages),
                              part.first));
    const auto add = [&](std::vector<Row> rows) { append(others, shifted(std::move(rows), part.first)); };
    if (job.parallel.offload_optimizer) add(offload_rows(job, plan, split, c, part.chunk, updated));
    if (job.parallel.offload_activations) add(activation_rows(job, plan, split, c, part.chunk, memo));
    add(rows_of_norms(job, plan, split, c, part.chunk));
    add(sent.within(part.chunk, c));
  }
  const bool stops = plan.exchange.overlap == Overlap::kNone && !plan.folds;
  if (stops) stop_for(exchanged, one.parts.empty() ? 0 : one.parts[last_part(pipeline_of(job), c)].first);
  append(stops && !one.parts.empty() ? stopping : plan.rows, std::move(exchanged));
  append(plan.rows, std::move(others));
}

DataSize size_of(std::span<const Row> rows) {
  DataSize sum;
  for (const Row& row : rows) sum += row.size * static_cast<double>(row.count);
  return sum;
}

/// Servers that update send whole weights back, however small gradients came; those that only sum, sums as small.
double pulled_for_pushed(const Job& job, const StepPlan& plan) {
  const bool whole = plan.servers->update && job.strategy.compression != Compression::kNone;
  const DataSize pushed = size_of(plan.rows);
  if (!whole || pushed == DataSize::zero()) return 1;
  Strategy uncompressed = as_sent(job);
  uncompressed.compression = Compression::kNone;
  const Chunk& chunk = plan.classes.front().chunk;
  return size_of(messages(chunk, uncompressed, job.batch * job.strategy.accumulation)) / pushed;
}

void add_rows(const Job& job, const SplitModel& split, StepPlan& plan, Memo& memo) {
  exchange_by(job, plan);
  const bool stages = job.parallel.pipeline > 1;
  const RowsByLayer sent(split.rows, split.layers->size());
  plan.rows.reserve(split.rows.size() + plan.classes.size() * 4);
  std::vector<Row> stopping;
  for (std::size_t c = 0; c < plan.classes.size(); ++c) {
    // GPUs of two speeds send the same gradients.
    if (c > 0 && !stages) break;
    add_rows_of(job, split, sent, c, plan, stopping, memo);
  }
  if (stages) append(plan.rows, boundary_rows(job, plan));
  // A stage's last activation gradient leaves before it stands still for its weights' sums: its neighbours go on.
  append(plan.rows, std::move(stopping));
  if (stages) append(plan.rows, rows_of_tied(job, plan));
  if (plan.servers) plan.servers->pulled = pulled_for_pushed(job, plan);
  for (std::size_t c = 1; c < plan.classes.size() && !stages; ++c) {
    plan.classes[c].updated = plan.classes[0].updated;
    plan.classes[c].update_launches = plan.classes[0].update_launches;
    plan.classes[c].updates_on_gpu = plan.classes[0].updates_on_gpu;
  }
}

/// Around layers alone.
void add_sent(const Job& job, const SplitModel& split, StepPlan& plan) {
  exchange_by(job, plan);
  const RowsByLayer sent(split.rows, split.layers->size());
  for (std::size_t c = 0; c < plan.classes.size(); ++c) {
    if (c > 0 && job.parallel.pipeline == 1) break;
    for (const PartChunk& part : part_chunks(plan.classes[c], split)) {
      append(plan.rows, shifted(sent.within(part.chunk, c), part.first));
    }
  }
}

/// The model as its kernels run, and the job's own, for as long as the memo lives.
Expected<std::shared_ptr<const workload::Model>> model_in(const Job& job, Memo& memo) {
  auto& [given, run] = memo.models[{job.model.get(), fusion_as_run(job), spreads_tables(job)}];
  if (given == nullptr) {
    auto made = model_as_run(job);
    if (!made) return made;
    given = job.model;
    run = std::move(*made);
  }
  return run;
}

Expected<StepPlan> lowered(const Job& job, Memo& memo, Lowered how) {
  if (auto sound = check_splits(job); !sound) return tl::unexpected<Error>(sound.error());
  if (auto sound = check_input(job); !sound) return tl::unexpected<Error>(sound.error());
  auto model = model_in(job, memo);
  if (!model) return tl::unexpected<Error>(model.error());
  StepPlan plan;
  plan.model = std::move(*model);
  if (!plan.model->has_layers()) {
    return fail(ErrorCode::kUnsupported,
                plan.model->id + " is known by the features of a whole step: it has no layers");
  }
  plan.micro_batches = job.strategy.accumulation;
  plan.schedule = job.parallel.schedule;
  plan.folds = folds(job);
  plan.input =
      plan.model->input_per_sample * (static_cast<double>(job.batch) / static_cast<double>(job.parallel.context));
  // Before the groups: degrees that no layer takes stand badly on servers too.
  auto split = split_model(job, plan, memo);
  if (!split) return tl::unexpected<Error>(split.error());
  if (auto grouped = add_groups(job, plan); !grouped) return tl::unexpected<Error>(grouped.error());
  if (job.strategy.kind == StrategyKind::kDataParallel) return lower_data_parallel(job, *split, std::move(plan), memo);
  if (auto classed = add_classes(job, split->layers, how, plan, memo); !classed) {
    return tl::unexpected<Error>(classed.error());
  }
  if (has_passes(how)) split->rows = rows_sent(job, plan, *split);
  if (has_exchange(how)) add_rows(job, *split, plan, memo);
  if (how == Lowered::kPasses) add_sent(job, *split, plan);
  if (has_memory(how)) add_memory(job, *split, plan, memo);
  return plan;
}

}  // namespace

double expert_load(const Parallel& parallel) {
  const double load = parallel.expert > 1 ? parallel.expert_imbalance : 1.0;
  return parallel.expert_capacity > 0 ? std::min(load, parallel.expert_capacity) : load;
}

double expert_share(const Parallel& parallel) {
  return parallel.expert_capacity > 0 ? std::min(1.0, parallel.expert_capacity) : 1.0;
}

namespace {

/// Beside formats of states.
bool has_whole_replicas(const Parallel& parallel) {
  return parallel.tensor == 1 && parallel.context == 1 && parallel.expert == 1 && parallel.pipeline == 1 &&
         parallel.zero == 0 && !parallel.offload_optimizer && !parallel.offload_activations;
}

}  // namespace

bool takes_ranks(const Parallel& parallel) {
  return !has_whole_replicas(parallel) || parallel.states.value_or(States::kFp32) != States::kFp32;
}

bool folds(const Job& job) {
  if (spreads_tables(job)) return false;
  if (!takes_ranks(job.parallel)) return true;
  // What only a step that folds can carry, whatever the formats.
  const bool exchange = sends_to_servers(job.strategy, job.cluster.nodes) || job.strategy.priority ||
                        grouping_of(job.strategy) == Grouping::kFusion;
  const bool folded = (exchange && job.cluster.gpus() > 1) || job.overlap == Overlap::kIdeal || job.straggler > 1;
  return folded && has_whole_replicas(job.parallel);
}

bool splits_model(const Parallel& parallel) {
  return takes_ranks(parallel) || parallel.recompute != Recompute::kNone || parallel.lora_rank > 0;
}

bool spreads_tables(const Job& job) { return job.strategy.kind == StrategyKind::kPearl && job.cluster.gpus() > 1; }

DataSize accumulated_per_parameter(const Job& job) {
  if (job.strategy.accumulation == 1) return DataSize::zero();
  const Parallel& parallel = job.parallel;
  // As many as sum a gradient (groups.cpp): DualPipe's stages stand on two ranks each.
  const std::int64_t all =
      replicas_of(job) * parallel.context * (parallel.pipeline > 1 ? directions_of(parallel.schedule) : 1);
  const std::int64_t shards = parallel.shard_ranks > 0 ? parallel.shard_ranks : all;
  const bool shared = parallel.zero >= 2 && !keeps_gradients_whole(parallel, job.strategy.accumulation);
  const double share = shared ? 1 / static_cast<double>(shards) : 1.0;
  switch (job.parallel.states.value_or(States::kFp32)) {
    case States::kFp32: return bytes(12) * share;
    case States::kMixed:
    case States::kFp8:
    case States::kFp8Primary: return bytes(3) * share;
    case States::kMixedSixteen:
    case States::kPureSixteen:
    case States::kAdam8bit: return bytes(6) * share;
  }
  return bytes(12) * share;
}

Expected<std::shared_ptr<const workload::Model>> model_as_run(const Job& job) {
  workload::Fusion fusion = fusion_as_run(job);
  fusion.tables = spreads_tables(job);
  if (fusion == workload::Fusion{}) return job.model;
  auto fused = workload::fused(*job.model, fusion);
  if (!fused) return tl::unexpected<Error>(fused.error());
  return std::make_shared<const workload::Model>(std::move(*fused));
}

Expected<StepPlan> lower(const Job& job) {
  Memo memo;
  return lowered(job, memo, Lowered::kWhole);
}

Lowerer::Lowerer() : memo_(std::make_unique<Memo>()) {}
Lowerer::~Lowerer() = default;
Lowerer::Lowerer(Lowerer&&) noexcept = default;
Lowerer& Lowerer::operator=(Lowerer&&) noexcept = default;

Expected<StepPlan> Lowerer::lower(const Job& job) { return lowered(job, *memo_, Lowered::kWhole); }

Expected<StepPlan> Lowerer::timed(const Job& job) { return lowered(job, *memo_, Lowered::kTimed); }

std::size_t Lowerer::kept() const {
  return memo_->models.size() + memo_->shards.size() + memo_->cuts.size() + memo_->starts.size() +
         memo_->in_flight.size() + memo_->kept.size();
}

Expected<HeldLayers> Lowerer::held(const Job& job) {
  const auto plan = lowered(job, *memo_, Lowered::kOutline);
  if (!plan) return tl::unexpected<Error>(plan.error());
  const auto split = split_model(job, *plan, *memo_);
  if (!split) return tl::unexpected<Error>(split.error());
  return held_layers(job, *split, *plan, *memo_);
}

namespace {

/// The layers alone.
Expected<SplitModel> split_of(const Job& job, Memo& memo) {
  if (auto sound = check_splits(job); !sound) return tl::unexpected<Error>(sound.error());
  StepPlan plan;
  auto model = model_in(job, memo);
  if (!model) return tl::unexpected<Error>(model.error());
  plan.model = std::move(*model);
  return split_model(job, plan, memo);
}

}  // namespace

Expected<StageStarts> Lowerer::starts(const Job& job) {
  const auto split = split_of(job, *memo_);
  if (!split) return tl::unexpected<Error>(split.error());
  return stage_starts(job, split->layers, *memo_);
}

Expected<LayerLoads> Lowerer::loads(const Job& job) {
  const auto split = split_of(job, *memo_);
  if (!split) return tl::unexpected<Error>(split.error());
  return loads_on(job, *split->layers);
}

Expected<StepPlan> Lowerer::outline(const Job& job) { return lowered(job, *memo_, Lowered::kOutline); }

Expected<StepPlan> Lowerer::passes(const Job& job) { return lowered(job, *memo_, Lowered::kPasses); }

Expected<StepPlan> Lowerer::exchange(const Job& job) { return lowered(job, *memo_, Lowered::kExchange); }

StrategyKind default_strategy(const workload::Model& model) {
  using workload::Architecture;
  if (model.architecture == Architecture::k1wng || model.architecture == Architecture::kPsWorker) {
    return StrategyKind::kPs;
  }
  return model.architecture == Architecture::kPearl ? StrategyKind::kPearl : StrategyKind::kAllReduce;
}

std::string_view word_for(const Strategy& strategy) { return name_of(kStrategies, strategy.kind); }

bool has_servers(const Strategy& strategy) { return strategy.kind == StrategyKind::kPs; }

}  // namespace ddlsim::plan
