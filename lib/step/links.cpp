#include "links.h"

#include <algorithm>
#include <map>
#include <utility>

namespace ddlsim::step {
namespace {

/// Stages that share a server, and its port (plan::RankGroup::siblings are the ranks of one of them).
std::int64_t stages_in_server(const plan::StepPlan& plan) {
  for (const plan::RankGroup& group : plan.groups) {
    if (group.role == plan::GroupRole::kStagesAcross) {
      return std::max(plan.grid.gpus_per_node / group.siblings, std::int64_t{1});
    }
  }
  return std::max<std::int64_t>(plan.grid.at(plan::Axis::kPipeline), 1);
}

/// Whether a row's collective runs beside kernels of its class, and may slow them.
bool beside_kernels(const plan::Row& row) {
  return row.kind == plan::RowKind::kCollective && !row.in_the_way && row.rank_class == row.needed_by &&
         row.op != primitives::CollectiveOp::kSendRecv;
}

}  // namespace

std::size_t server_of(const plan::StepPlan& plan, std::size_t rank_class) {
  return static_cast<std::size_t>(plan.classes[rank_class].stage / stages_in_server(plan));
}

std::vector<Moved> moved_of(const cost::PricedStep& step, const SlotPrograms& programs, double passes) {
  const plan::StepPlan& plan = *step.plan;
  std::vector<Moved> all(plan.classes.size());
  std::vector<Time> sent(plan.classes.size());  // by server, to other stages
  for (std::size_t r = 0; r < plan.rows.size(); ++r) {
    const plan::Row& row = plan.rows[r];
    if (row.kind != plan::RowKind::kCollective) continue;
    const cost::PricedRow& priced = step.rows[r];
    const double times = row.every_pass ? passes : 1.0;
    const double pieces = static_cast<double>(row.count) * times;
    Moved& one = all[row.rank_class];
    one.peers += priced.peers * pieces;
    // Groups of all stages in a server count as siblings, what stages send each other does not.
    const bool theirs = row.rank_class != row.needed_by;
    (theirs ? sent[server_of(plan, row.rank_class)] : one.network) += priced.network * pieces;
    if (!beside_kernels(row)) continue;
    const Time time = programs.time_of(r) * times;
    one.beside += time;
    one.lost += time * cost::held_of_gpu(step, time, priced.sent * pieces);
  }
  for (std::size_t c = 0; c < all.size(); ++c) all[c].network += sent[server_of(plan, c)];
  return all;
}

double held_by_bytes(const cost::PricedStep& step, const SlotPrograms& programs, std::size_t rank_class,
                     double passes) {
  const plan::StepPlan& plan = *step.plan;
  std::map<std::pair<std::size_t, primitives::CollectiveOp>, Time> latencies;
  Time all;
  Time lost;
  for (std::size_t r = 0; r < plan.rows.size(); ++r) {
    const plan::Row& row = plan.rows[r];
    const auto& group = step.groups[row.group];
    if (row.rank_class != rank_class || !beside_kernels(row) || !group) continue;
    const double times = row.every_pass ? passes : 1.0;
    const double pieces = static_cast<double>(row.count) * times;
    const auto [latency, added] = latencies.try_emplace({row.group, row.op});
    if (added) latency->second = group->cost(row.op, DataSize::zero()).time;
    const Time moving = max(programs.time_of(r) * times - latency->second * pieces, Time::zero());
    all += moving;
    lost += moving * cost::held_of_gpu(step, moving, step.rows[r].sent * pieces);
  }
  return all > Time::zero() ? lost / all : 0.0;
}

Time busiest_link(const std::vector<Moved>& moved) {
  Time busiest;
  for (const Moved& one : moved) busiest = max(busiest, max(one.network, one.peers));
  return busiest;
}

}  // namespace ddlsim::step
