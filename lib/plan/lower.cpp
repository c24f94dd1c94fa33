#include "ddlsim/plan/lower.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ddlsim/plan/messages.h"
#include "splits.h"

namespace ddlsim::plan {
namespace {

/// What whole models' exchange of gradients has, and a split model's does not: refused, for ignored it would be cheap.
Expected<void> check_exchange(const Job& job) {
  const auto refuse = [](std::string what, std::string note) {
    return fail(ErrorCode::kUnsupported, std::move(what), {}, {std::move(note)});
  };
  const bool shared = job.cluster.gpus() > job.parallel.tensor * job.parallel.pipeline;
  const bool sharded = job.parallel.zero > 0;
  if (job.overlap == Overlap::kIdeal) {
    return refuse("ideal overlap is a bound of whole models: of a split one it is no schedule",
                  "use overlap backward or none");
  }
  if (!shared) return {};
  if (job.strategy.priority) return refuse("gradients of a split model by priority", "use strategy.priority no");
  if (!sharded && grouping_of(job.strategy) == Grouping::kFusion) {
    return refuse("gradients of a split model fused by a coordinator's cycles", "use strategy.grouping buckets");
  }
  if (sharded && job.strategy.compression != Compression::kNone) {
    return refuse("compressed gradients that are reduce-scattered", "use strategy.compression none, or zero 0");
  }
  return {};
}

/// Settings that have no lowering yet: refused, for ignored they would be wrong.
Expected<void> check_known(const Parallel& parallel) {
  const Parallel plain;
  const auto unknown = [](std::string_view what) {
    return fail(ErrorCode::kUnsupported, std::string(what) + " has no lowering");
  };
  if (parallel.context != 1) return unknown("context parallelism");
  if (parallel.expert != 1) return unknown("expert parallelism");
  if (parallel.order != plain.order) return unknown("another order of axes");
  if (parallel.sequence) return unknown("sequence parallelism");
  if (parallel.schedule != PipelineSchedule::kGpipe && parallel.schedule != PipelineSchedule::kOneForwardOneBackward) {
    return unknown("schedule " + std::string(name_of(kPipelineSchedules, parallel.schedule)));
  }
  if (parallel.virtual_stages != 1) return unknown("a rank of several stages");
  if (parallel.shard_ranks != 0) return unknown("sharding within a part of the replicas");
  if (!parallel.reshard) return unknown("keeping gathered weights");
  if (parallel.recompute != Recompute::kNone) return unknown("recomputation");
  if (parallel.offload_activations) return unknown("offload of activations");
  if (parallel.overlap_tensor) return unknown("overlap inside tensor groups");
  if (!parallel.overlap_p2p) return unknown("stages that wait while they send");
  if (parallel.states) return unknown("another format of states");
  if (parallel.lora_rank != 0) return unknown("LoRA");
  return {};
}

Expected<void> check_splits(const Job& job) {
  const Parallel& parallel = job.parallel;
  if (auto known = check_known(parallel); !known) return known;
  const auto bad = [](std::string what, std::string note) {
    return fail(ErrorCode::kInvalidArgument, std::move(what), {}, {std::move(note)});
  };
  if (parallel.tensor < 1 || parallel.pipeline < 1) return bad("a degree below one", "valid: 1 and more");
  if (parallel.zero < 0 || parallel.zero > 3) {
    return bad("zero " + std::to_string(parallel.zero), "valid: 0, 1, 2, 3");
  }
  if (!splits_model(parallel)) return {};
  if (job.strategy.kind != StrategyKind::kAllReduce) {
    return fail(ErrorCode::kUnsupported, "parameter servers hold whole models: no part of one can be split", {},
                {"use strategy allreduce"});
  }
  if (auto exchange = check_exchange(job); !exchange) return exchange;
  if (job.straggler > 1) return fail(ErrorCode::kUnsupported, "a split model on GPUs of two speeds");
  const std::int64_t gpus = job.cluster.gpus();
  if (gpus % parallel.tensor != 0 || gpus / parallel.tensor % parallel.pipeline != 0) {
    return bad(std::to_string(gpus) + " GPUs are not a multiple of tensor " + std::to_string(parallel.tensor) +
                   " times pipeline " + std::to_string(parallel.pipeline),
               "the data-parallel degree is what the others leave");
  }
  return {};
}

Expected<void> add_groups(const Job& job, StepPlan& plan) {
  plan.grid.gpus_per_node = job.cluster.gpus_per_node;
  const auto along = [&](Axis axis) -> std::int64_t& { return plan.grid.along[static_cast<std::size_t>(axis)]; };
  along(Axis::kTensor) = job.parallel.tensor;
  along(Axis::kPipeline) = job.parallel.pipeline;
  along(Axis::kData) = job.cluster.gpus() / job.parallel.tensor / job.parallel.pipeline;
  for (const Axis axis : {Axis::kData, Axis::kTensor, Axis::kPipeline}) {
    if (axis != Axis::kData && plan.grid.at(axis) == 1) continue;
    auto group = group_along(plan.grid, axis);
    if (!group) return tl::unexpected<Error>(group.error());
    // Neighbouring stages talk in pairs.
    if (axis == Axis::kPipeline) {
      group->ranks = 2;
      group->nodes = std::min<std::int64_t>(group->nodes, 2);
    }
    plan.groups.push_back(*group);
  }
  return {};
}

/// A stage of layers each, or kinds of GPUs with all of them.
Expected<void> add_classes(const Job& job, const std::shared_ptr<const std::vector<workload::Layer>>& layers,
                           StepPlan& plan) {
  const std::int64_t gpus = job.cluster.gpus();
  const std::size_t count = layers->size();
  if (job.parallel.pipeline > 1) {
    const auto starts = stage_starts(job, count);
    if (!starts) return tl::unexpected<Error>(starts.error());
    for (std::size_t s = 0; s < starts->size(); ++s) {
      const std::size_t end = s + 1 < starts->size() ? (*starts)[s + 1] : count;
      plan.classes.push_back({.role = "stage " + std::to_string(s),
                              .ranks = gpus / job.parallel.pipeline,
                              .stage = static_cast<std::int64_t>(s),
                              .chunk = {layers, (*starts)[s], end - (*starts)[s]}});
    }
    return {};
  }
  const std::int64_t slow = job.straggler > 1 ? std::min(job.stragglers.get(), gpus) : 0;
  if (slow < gpus) plan.classes.push_back({.role = "replica", .ranks = gpus - slow, .chunk = {layers, 0, count}});
  if (slow > 0) {
    plan.classes.push_back(
        {.role = "slower replica", .ranks = slow, .slowness = job.straggler, .chunk = {layers, 0, count}});
  }
  return {};
}

/// What the optimizer reads and writes where one rank of a class updates its weights.
DataSize updated_by(const Job& job, const StepPlan& plan, const Chunk& chunk) {
  const workload::Model& model = *plan.model;
  double elements = 0;
  if (!splits_model(job.parallel)) {
    elements = workload::gradient_elements(model, job.batch * job.strategy.accumulation);
  } else {
    for (std::size_t i = 0; i < chunk.count; ++i) {
      for (const std::int64_t tensor : chunk[i].parameters) elements += static_cast<double>(tensor);
    }
    if (job.parallel.zero >= 1) elements /= static_cast<double>(plan.groups.front().ranks);
  }
  return bytes(4) * elements * update_accesses(model.optimizer);
}

void append(std::vector<Row>& rows, std::vector<Row> more) {
  rows.insert(rows.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

/// The gradients of a class, and its weights where they are shared.
std::vector<Row> exchanged(const Job& job, const StepPlan& plan, std::size_t rank_class) {
  std::vector<Row> rows =
      job.parallel.zero > 0 ? sharded_rows(job, plan, rank_class) : gradients_of(job, plan, rank_class);
  if (plan.exchange.overlap != Overlap::kNone || !splits_model(job.parallel)) return rows;
  // Nothing hidden: gradients wait for backward, and kernels for all that is sent.
  for (Row& row : rows) {
    if (row.needed.at == Moment::kUpdate) row.ready = {Moment::kBackward, 0};
    row.in_the_way = true;
  }
  return rows;
}

void add_rows(const Job& job, const std::vector<Row>& tensor_rows, StepPlan& plan) {
  exchange_by(job, plan);
  const bool stages = job.parallel.pipeline > 1;
  const bool among_layers = plan.model->measured && plan.model->measured->update;
  for (std::size_t c = 0; c < plan.classes.size(); ++c) {
    RankClass& one = plan.classes[c];
    // GPUs of two speeds send the same gradients.
    if (c > 0 && !stages) break;
    one.updated = updated_by(job, plan, one.chunk);
    one.updates_on_gpu = !among_layers && !plan.servers && !job.parallel.offload_optimizer;
    append(plan.rows, exchanged(job, plan, c));
    if (job.parallel.offload_optimizer) append(plan.rows, offload_rows(job, plan, c));
    for (Row row : tensor_rows) {
      if (row.ready.layer < one.chunk.first || row.ready.layer >= one.chunk.first + one.chunk.count) continue;
      row.ready.layer -= one.chunk.first;
      row.needed = row.ready;
      row.rank_class = row.needed_by = c;
      row.group = 1;  // beside the data group
      plan.rows.push_back(row);
    }
  }
  if (stages) append(plan.rows, boundary_rows(job, plan));
  for (std::size_t c = 1; c < plan.classes.size() && !stages; ++c) {
    plan.classes[c].updated = plan.classes[0].updated;
    plan.classes[c].updates_on_gpu = plan.classes[0].updates_on_gpu;
  }
}

}  // namespace

bool splits_model(const Parallel& parallel) {
  return parallel.tensor > 1 || parallel.context > 1 || parallel.expert > 1 || parallel.pipeline > 1 ||
         parallel.zero > 0 || parallel.offload_optimizer || parallel.offload_activations ||
         parallel.recompute != Recompute::kNone || parallel.states.has_value() || parallel.lora_rank > 0;
}

std::int64_t Grid::ranks() const {
  std::int64_t all = 1;
  for (const std::int64_t ranks : along) all *= ranks;
  return all;
}

Expected<RankGroup> group_along(const Grid& grid, Axis axis) {
  std::int64_t inner = 1;
  for (std::size_t i = 0; i < static_cast<std::size_t>(axis); ++i) inner *= grid.along[i];
  const std::int64_t ranks = grid.at(axis);
  // Ranks `inner` apart: so many of them fit into one server.
  const std::int64_t fitting = std::max<std::int64_t>(1, grid.gpus_per_node / inner);
  const std::int64_t per_node = std::min(ranks, fitting);
  const auto fits = [&](std::int64_t span) { return grid.gpus_per_node % span == 0 || span % grid.gpus_per_node == 0; };
  if (!fits(inner) || !fits(inner * ranks)) {
    return fail(ErrorCode::kInvalidArgument,
                "a group of " + std::to_string(ranks) + " ranks, " + std::to_string(inner) +
                    " apart, does not stand alike on servers of " + std::to_string(grid.gpus_per_node) + " GPUs",
                {}, {"choose degrees that divide the GPUs of a server, or are multiples of them"});
  }
  return RankGroup{.along = axis,
                   .ranks = ranks,
                   .nodes = ranks / per_node,
                   .siblings = std::max<std::int64_t>(1, grid.gpus_per_node / per_node)};
}

Expected<std::shared_ptr<const workload::Model>> model_as_run(const Job& job) {
  if (!job.fusion.pointwise && !job.fusion.attention) return job.model;
  auto fused = workload::fused(*job.model, job.fusion);
  if (!fused) return tl::unexpected<Error>(fused.error());
  return std::make_shared<const workload::Model>(std::move(*fused));
}

Expected<StepPlan> lower(const Job& job) {
  if (auto sound = check_splits(job); !sound) return tl::unexpected<Error>(sound.error());
  if (totals_only(job.strategy)) {
    return fail(ErrorCode::kUnsupported, "the PEARL strategy is known by closed forms alone", {},
                {"use fidelity aggregate"});
  }
  auto model = model_as_run(job);
  if (!model) return tl::unexpected<Error>(model.error());
  StepPlan plan;
  plan.model = std::move(*model);
  if (!plan.model->has_layers()) {
    return fail(ErrorCode::kUnsupported,
                plan.model->id + " is known by the features of a whole step: it has no layers");
  }
  plan.micro_batches = job.strategy.accumulation;
  plan.schedule = job.parallel.schedule;
  plan.input = plan.model->input_per_sample * static_cast<double>(job.batch);
  if (auto grouped = add_groups(job, plan); !grouped) return tl::unexpected<Error>(grouped.error());
  TensorSplit tensors{chunk_of(plan.model).layers, {}};
  if (job.parallel.tensor > 1) {
    auto split = split_tensors(job, *plan.model);
    if (!split) return tl::unexpected<Error>(split.error());
    tensors = std::move(*split);
  }
  if (auto classed = add_classes(job, tensors.layers, plan); !classed) return tl::unexpected<Error>(classed.error());
  add_rows(job, tensors.rows, plan);
  add_memory(job, plan);
  plan.folds = !splits_model(job.parallel);
  return plan;
}

StrategyKind default_strategy(const workload::Model& model) {
  using workload::Architecture;
  if (model.architecture == Architecture::k1wng || model.architecture == Architecture::kPsWorker) {
    return StrategyKind::kPs;
  }
  return model.architecture == Architecture::kPearl ? StrategyKind::kPearl : StrategyKind::kAllReduce;
}

std::string_view word_for(const Strategy& strategy) { return name_of(kStrategies, strategy.kind); }

bool has_servers(const Strategy& strategy) { return strategy.kind == StrategyKind::kPs; }

bool totals_only(const Strategy& strategy) { return strategy.kind == StrategyKind::kPearl; }

}  // namespace ddlsim::plan
