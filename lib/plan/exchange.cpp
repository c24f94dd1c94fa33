// Gradients among data-parallel replicas: all-reduced, or by parameter servers.
#include "ddlsim/plan/messages.h"
#include "splits.h"

namespace ddlsim::plan {
namespace {

/// The strategy with its servers counted.
Strategy with_servers(const Job& job) {
  Strategy strategy = as_sent(job);
  if (strategy.servers == 0) strategy.servers.set(job.cluster.nodes);
  if (job.cluster.nodes == 1) strategy.servers.set(1);
  return strategy;
}

Point needed_by(const Exchange& exchange, std::size_t layer) {
  if (exchange.consistency == Consistency::kAsync) return {};
  const bool in_forward = exchange.priority || exchange.pull_at_start;
  return in_forward ? Point{Moment::kForward, layer} : Point{Moment::kUpdate, 0};
}

}  // namespace

void exchange_by(const Job& job, StepPlan& plan) {
  const Strategy& strategy = job.strategy;
  Exchange& exchange = plan.exchange;
  exchange.overlap = overlap_of(job).value_or(Overlap::kBackward);
  if (plan.groups.front().ranks == 1) return;
  exchange.priority = strategy.priority;
  exchange.sync_every = strategy.sync_every;
  // Weights travel when they are updated, beside nothing.
  if (exchange.sync_every > 1) exchange.overlap = Overlap::kNone;
  if (sends_to_servers(strategy, job.cluster.nodes)) {
    plan.servers = Servers{.count = with_servers(job).servers,
                           .local = job.cluster.nodes == 1,
                           .colocated = strategy.colocated,
                           .local_aggregation = strategy.local_aggregation && job.cluster.gpus_per_node > 1,
                           .update = strategy.servers_update};
    exchange.pull_at_start = strategy.pull_at_start;
    exchange.consistency = strategy.consistency;
    exchange.staleness = strategy.staleness;
  } else if (grouping_of(strategy) == Grouping::kFusion) {
    exchange.fusion = FusionRule{strategy.cycle, strategy.bucket};
  }
}

std::vector<Row> gradients_of(const Job& job, const StepPlan& plan, const SplitModel& split, std::size_t rank_class,
                              const Chunk& chunk, KeptMessages& kept) {
  const bool asynchronous = job.parallel.pipeline > 1 && is_asynchronous(plan.schedule);
  const bool apart = !split.experts.empty();
  const bool alone = plan.groups.front().ranks == 1;
  // Whole experts have copies on the ranks of a tensor group, a single replica's too.
  const auto copies = apart ? group_of(plan, GroupRole::kExpertGradients) : std::nullopt;
  if (alone && !copies) return {};
  // How many servers there are decides nothing where tensors are spread over all of them.
  const Strategy strategy = job.strategy.placement == Placement::kEven ? as_sent(job) : with_servers(job);
  const std::int64_t samples = job.batch * job.strategy.accumulation;
  std::vector<Row> rows;
  if (!alone) {
    rows = apart ? messages(chunk, strategy, samples, {.which = Which::kOthers, .chosen = &split.experts})
                 : kept.of(chunk, strategy, samples);
  }
  if (copies) {
    for (Row& row : messages(chunk, strategy, samples, {.which = Which::kChosen, .chosen = &split.experts})) {
      row.group = *copies;
      rows.push_back(row);
    }
  }
  for (Row& row : rows) {
    if (plan.servers) row.kind = RowKind::kServer;
    row.needed = needed_by(plan.exchange, row.ready.layer);
    row.rank_class = row.needed_by = rank_class;
    if (row.needed.at == Moment::kForward) row.lag = 1;
    // Passes on their way have weights of their own. PipeDream updates with every micro-batch.
    if (asynchronous) row.lag = 1;
    row.every_pass = asynchronous && plan.schedule == PipelineSchedule::kPipeDream;
    if (plan.exchange.consistency == Consistency::kStale) row.lag = plan.exchange.staleness;
    if (plan.exchange.consistency == Consistency::kAsync) row.lag = kNobodyWaits;
  }
  return rows;
}

}  // namespace ddlsim::plan
