// Which ranks talk to each other, and where they stand.
#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "splits.h"

namespace ddlsim::plan {
namespace {

/// One axis of a grid, or the part of one that shares experts: its ranks, how far apart they are, and how many of them
/// a server has.
struct Stretch {
  Axis axis = Axis::kData;
  std::int64_t ranks = 1;
  std::int64_t apart = 1;
  std::int64_t fitting = 1;
  bool experts = false;  // its ranks share a layer's experts
};

/// Of ranks so far apart, how many a server has.
std::int64_t fitting(const Grid& grid, const Stretch& one) {
  return std::clamp<std::int64_t>(grid.gpus_per_node / one.apart, 1, one.ranks);
}

/// Of an axis' neighbours so many share experts.
std::int64_t sharing_experts(const Grid& grid, Axis axis) {
  switch (axis) {
    case Axis::kExpert: return grid.at(axis);
    case Axis::kTensor: return grid.experts_tensor;
    case Axis::kContext: return grid.experts_context;
    case Axis::kPipeline:
    case Axis::kData: return 1;
  }
  return 1;
}

/// Innermost first. An axis of which some ranks share experts is two stretches.
std::vector<Stretch> stretches_of(const Grid& grid) {
  std::vector<Stretch> all;
  all.reserve(2 * std::tuple_size_v<AxisOrder>);
  std::int64_t apart = 1;
  const auto add = [&](Axis axis, std::int64_t ranks, bool experts) {
    Stretch one{.axis = axis, .ranks = ranks, .apart = apart, .experts = experts};
    one.fitting = fitting(grid, one);
    all.push_back(one);
    apart *= ranks;
  };
  for (const Axis axis : grid.order) {
    const std::int64_t sharing = sharing_experts(grid, axis);
    const std::int64_t rest = grid.at(axis) / sharing;
    if (sharing > 1) add(axis, sharing, true);
    if (rest > 1 || sharing == 1) add(axis, rest, axis == Axis::kExpert);
  }
  return all;
}

bool is_alike(const Grid& grid, const Stretch& one) {
  const auto fits = [&](std::int64_t span) { return grid.gpus_per_node % span == 0 || span % grid.gpus_per_node == 0; };
  return one.ranks == 1 || (fits(one.apart) && fits(one.apart * one.ranks));
}

Expected<void> stands_alike(const Grid& grid, const Stretch& one) {
  if (is_alike(grid, one)) return {};
  return fail(ErrorCode::kInvalidArgument,
              "a group of " + std::to_string(one.ranks) + " ranks, " + std::to_string(one.apart) +
                  " apart, does not stand alike on servers of " + std::to_string(grid.gpus_per_node) + " GPUs",
              {}, {"choose degrees that divide the GPUs of a server, or are multiples of them"});
}

RankGroup placed(const Grid& grid, GroupRole role, Axis along, std::int64_t ranks, std::int64_t per_node) {
  return {.along = along,
          .role = role,
          .ranks = ranks,
          .nodes = ranks / per_node,
          .siblings = std::max<std::int64_t>(1, grid.gpus_per_node / per_node)};
}

/// Whether ranks of a group differ along a stretch.
bool differs(const Grid& grid, GroupRole role, const Stretch& one) {
  switch (role) {
    case GroupRole::kTensor: return one.axis == Axis::kTensor;
    case GroupRole::kContext: return one.axis == Axis::kContext;
    case GroupRole::kExperts: return one.experts;
    case GroupRole::kExpertGradients:
    case GroupRole::kExpertShards:
    case GroupRole::kExpertCopies:
      return !one.experts && (one.axis == Axis::kData || one.axis == Axis::kContext ||
                              (one.axis == Axis::kTensor && grid.whole_experts));
    case GroupRole::kStages:
    case GroupRole::kStagesAcross: return one.axis == Axis::kPipeline;
    case GroupRole::kGradients:
    case GroupRole::kShards:
    case GroupRole::kCopies: return one.axis != Axis::kTensor && one.axis != Axis::kPipeline;
  }
  return false;
}

/// How many ranks of a group of the innermost `wanted` are in a server, and how many of those that stand at one place
/// in such groups.
struct InServer {
  std::int64_t inside = 1;
  std::int64_t copies = 1;
};
template <typename Chosen>
InServer innermost_in_server(const Grid& grid, std::int64_t wanted, Chosen chosen) {
  InServer here;
  std::int64_t left = wanted;
  for (const Stretch& one : stretches_of(grid)) {
    if (!chosen(one)) continue;
    const std::int64_t taken = std::gcd(left, one.ranks);
    left /= taken;
    here.inside *= fitting(grid, {.ranks = taken, .apart = one.apart});
    here.copies *= fitting(grid, {.ranks = one.ranks / taken, .apart = one.apart * taken});
  }
  return here;
}

/// Of the ranks that have the same experts, as many share them as a shard group holds: its ranks over those that part
/// the experts.
void add_expert_shards(std::int64_t wanted, std::int64_t replicas, StepPlan& plan) {
  const auto experts = group_of(plan, GroupRole::kExpertGradients);
  if (!experts) return;
  const std::int64_t copies = plan.groups[*experts].ranks;
  const std::int64_t shared = std::gcd(copies, std::max<std::int64_t>(copies * wanted / replicas, 1));
  if (shared == copies) return;
  const InServer here = innermost_in_server(
      plan.grid, shared, [&](const Stretch& one) { return differs(plan.grid, GroupRole::kExpertGradients, one); });
  plan.groups.push_back(placed(plan.grid, GroupRole::kExpertShards, Axis::kData, shared, here.inside));
  plan.groups.push_back(placed(plan.grid, GroupRole::kExpertCopies, Axis::kData, copies / shared, here.copies));
}

/// The innermost `ranks` of the replicas share states, the others are copies of them.
Expected<void> add_shards(const Job& job, StepPlan& plan) {
  const std::int64_t wanted = job.parallel.shard_ranks;
  const std::int64_t replicas = plan.groups.front().ranks;
  if (wanted == 0 || wanted == replicas) return {};
  if (replicas % wanted != 0) {
    std::string valid;
    for (std::int64_t d = 1; d <= replicas && d <= 1024; ++d) {
      if (replicas % d == 0) valid += (valid.empty() ? "" : ", ") + std::to_string(d);
    }
    return fail(ErrorCode::kInvalidArgument,
                std::to_string(wanted) + " shard ranks do not divide " + std::to_string(replicas) + " replicas", {},
                {"valid: " + valid});
  }
  const InServer here = innermost_in_server(
      plan.grid, wanted, [&](const Stretch& one) { return differs(plan.grid, GroupRole::kShards, one); });
  plan.groups.push_back(placed(plan.grid, GroupRole::kShards, Axis::kData, wanted, here.inside));
  plan.groups.push_back(placed(plan.grid, GroupRole::kCopies, Axis::kData, replicas / wanted, here.copies));
  add_expert_shards(wanted, replicas, plan);
  return {};
}

std::int64_t stages_in_server(const Grid& grid) {
  for (const Stretch& one : stretches_of(grid)) {
    if (one.axis == Axis::kPipeline) return one.fitting;
  }
  return 1;
}

/// Both directions of DualPipe have a copy of every stage, on ranks that mirror each other across the pipeline.
void add_mirrors(const Grid& grid, RankGroup& group) {
  group.ranks *= 2;
  if (stages_in_server(grid) < grid.at(Axis::kPipeline)) group.nodes *= 2;
}

/// Neighbouring stages talk in pairs, some of them over the network.
Expected<void> add_stage_groups(StepPlan& plan) {
  const Grid& grid = plan.grid;
  const std::int64_t stages = grid.at(Axis::kPipeline);
  if (stages == 1) return {};
  if (auto alike = group_along(grid, Axis::kPipeline); !alike) return tl::unexpected<Error>(alike.error());
  const std::int64_t inside = stages_in_server(grid);
  if (inside > 1) plan.groups.push_back(placed(grid, GroupRole::kStages, Axis::kPipeline, 2, 2));
  if (inside == stages) return {};
  RankGroup across = placed(grid, GroupRole::kStagesAcross, Axis::kPipeline, 2, 1);
  across.siblings = std::max<std::int64_t>(1, grid.gpus_per_node / inside);
  plan.groups.push_back(across);
  return {};
}

/// Ranks that differ along some of the stretches.
template <typename Chosen>
Expected<RankGroup> group_over(const Grid& grid, Axis along, Chosen chosen) {
  std::int64_t ranks = 1;
  std::int64_t per_node = 1;
  std::int64_t between = 1;
  for (const Stretch& one : stretches_of(grid)) {
    if (!chosen(one)) continue;
    if (auto alike = stands_alike(grid, one); !alike) return tl::unexpected<Error>(alike.error());
    if (per_node == 1 && one.fitting > 1) between = one.apart;
    ranks *= one.ranks;
    per_node *= one.fitting;
  }
  RankGroup group = placed(grid, GroupRole::kGradients, along, ranks, per_node);
  group.between = between;
  return group;
}

/// Where it is the first that its ranks differ along.
Axis axis_of(GroupRole role) {
  switch (role) {
    case GroupRole::kTensor: return Axis::kTensor;
    case GroupRole::kContext: return Axis::kContext;
    case GroupRole::kExperts: return Axis::kExpert;
    case GroupRole::kStages:
    case GroupRole::kStagesAcross: return Axis::kPipeline;
    case GroupRole::kGradients:
    case GroupRole::kExpertGradients:
    case GroupRole::kShards:
    case GroupRole::kCopies:
    case GroupRole::kExpertShards:
    case GroupRole::kExpertCopies: return Axis::kData;
  }
  return Axis::kData;
}

}  // namespace

std::optional<ExpertRanks> expert_ranks(const Parallel& parallel, std::int64_t replicas) {
  ExpertRanks sharing;
  std::int64_t left = parallel.expert;
  // All of a group, or neighbours in it.
  const auto take = [&](std::int64_t ranks, std::int64_t& taken) {
    if (left % ranks != 0 && ranks % left != 0) return false;
    taken = std::min(left, ranks);
    left /= taken;
    return true;
  };
  if (has_whole_experts(parallel) && !take(parallel.tensor, sharing.tensor)) return std::nullopt;
  const std::int64_t others = left;
  take(parallel.context, sharing.context);
  if (replicas % left != 0) {  // then replicas alone
    sharing.context = 1;
    left = others;
  }
  if (replicas % left != 0) return std::nullopt;
  sharing.data = left;
  return sharing;
}

std::vector<std::int64_t> expert_degrees(const Parallel& parallel, std::int64_t replicas) {
  constexpr std::int64_t kMost = 1024;
  std::vector<std::int64_t> degrees;
  Parallel one = parallel;
  const std::int64_t most = std::min(parallel.tensor * parallel.context * replicas, kMost);
  for (one.expert = 1; one.expert <= most; ++one.expert) {
    if (expert_ranks(one, replicas)) degrees.push_back(one.expert);
  }
  return degrees;
}

std::int64_t Grid::ranks() const {
  std::int64_t all = 1;
  for (const std::int64_t ranks : along) all *= ranks;
  return all;
}

Expected<RankGroup> group_along(const Grid& grid, std::span<const Axis> axes) {
  return group_over(grid, axes.front(),
                    [&](const Stretch& one) { return std::find(axes.begin(), axes.end(), one.axis) != axes.end(); });
}

std::int64_t group_number(const Grid& grid, const RankGroup& group, std::int64_t rank) {
  const bool shards = group.role == GroupRole::kShards;
  const bool copies = group.role == GroupRole::kCopies;
  std::int64_t replicas = 1;
  for (const Axis axis : {Axis::kData, Axis::kContext, Axis::kExpert}) replicas *= grid.at(axis);
  std::int64_t left = copies ? replicas / group.ranks : group.ranks;  // of a shard
  std::int64_t number = 0;
  for (const Stretch& one : stretches_of(grid)) {
    const std::int64_t place = rank / one.apart % one.ranks;
    if (!differs(grid, group.role, one)) {
      number += place * one.apart;
    } else if (shards || copies) {
      const std::int64_t taken = std::gcd(left, one.ranks);
      left /= taken;
      number += (shards ? place / taken * taken : place % taken) * one.apart;
    }
  }
  return number;
}

namespace {

/// The grid of so split ranks, `replicas` whole copies of the model.
Grid grid_of(const Parallel& parallel, std::int64_t replicas, std::int64_t gpus_per_node) {
  Grid grid;
  grid.gpus_per_node = gpus_per_node;
  grid.order = parallel.order;
  const auto along = [&](Axis axis) -> std::int64_t& { return grid.along[static_cast<std::size_t>(axis)]; };
  along(Axis::kTensor) = parallel.tensor;
  along(Axis::kContext) = parallel.context;
  const ExpertRanks sharing = expert_ranks(parallel, replicas).value_or(ExpertRanks{});
  grid.whole_experts = has_whole_experts(parallel);
  grid.experts_tensor = sharing.tensor;
  grid.experts_context = sharing.context;
  along(Axis::kExpert) = sharing.data;
  along(Axis::kPipeline) = parallel.pipeline;
  along(Axis::kData) = replicas / sharing.data;
  return grid;
}

/// Names the degrees whose groups stand unevenly, and those that would not.
Error with_degrees(const Job& job, Error error) {
  std::string named;
  std::vector<std::string> valid;
  struct Degree {
    Axis axis;
    std::string_view name;
    std::int64_t value;
  };
  const Parallel& parallel = job.parallel;
  for (const Degree& one :
       {Degree{Axis::kTensor, "tensor", parallel.tensor}, Degree{Axis::kContext, "context", parallel.context},
        Degree{Axis::kExpert, "expert", parallel.expert}, Degree{Axis::kPipeline, "pipeline", parallel.pipeline}}) {
    if (one.value == 1) continue;
    named += (named.empty() ? "" : ", ") + std::string(one.name) + " " + std::to_string(one.value);
    const std::string legal = legal_degrees(job, one.axis);
    if (legal.empty()) continue;
    valid.push_back("valid for " + std::string(one.name) + ", all else as it is: " + legal);
  }
  if (!named.empty()) error.message = named + ": " + error.message;
  if (!valid.empty()) error.notes = std::move(valid);
  return error;
}

Expected<void> add_every_group(const Job& job, StepPlan& plan) {
  const Parallel& parallel = job.parallel;
  plan.grid = grid_of(parallel, replicas_of(job), job.cluster.gpus_per_node);
  const Grid& grid = plan.grid;
  const auto add = [&](GroupRole role) -> Expected<void> {
    auto group = group_over(grid, axis_of(role), [&](const Stretch& one) { return differs(grid, role, one); });
    if (!group) return tl::unexpected<Error>(group.error());
    group->role = role;
    const bool gradients = role == GroupRole::kGradients || role == GroupRole::kExpertGradients;
    if (gradients && parallel.pipeline > 1 && directions_of(parallel.schedule) == 2) add_mirrors(grid, *group);
    if (role == GroupRole::kGradients || group->ranks > 1) plan.groups.push_back(*group);
    return {};
  };
  for (const GroupRole role : {GroupRole::kGradients, GroupRole::kTensor, GroupRole::kContext}) {
    if (auto added = add(role); !added) return added;
  }
  if (parts_experts(parallel) && workload::has_experts(*job.model)) {
    for (const GroupRole role : {GroupRole::kExperts, GroupRole::kExpertGradients}) {
      if (auto added = add(role); !added) return added;
    }
  }
  if (auto added = add_shards(job, plan); !added) return added;
  return add_stage_groups(plan);
}

}  // namespace

bool stands_on(const Parallel& parallel, const hardware::Cluster& cluster) {
  const std::int64_t replicas = cluster.gpus() / (parallel.tensor * parallel.context * parallel.pipeline);
  const Grid grid = grid_of(parallel, replicas, cluster.gpus_per_node);
  const std::vector<Stretch> all = stretches_of(grid);
  return std::all_of(all.begin(), all.end(), [&](const Stretch& one) { return is_alike(grid, one); });
}

Expected<void> add_groups(const Job& job, StepPlan& plan) {
  return add_every_group(job, plan).map_error([&](Error error) {
    return stands_on(job.parallel, job.cluster) ? std::move(error) : with_degrees(job, std::move(error));
  });
}

std::optional<std::size_t> group_of(const StepPlan& plan, GroupRole role) {
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    if (plan.groups[g].role == role) return g;
  }
  return std::nullopt;
}

std::size_t boundary_group(const StepPlan& plan, std::int64_t from, std::int64_t to) {
  const std::int64_t inside = stages_in_server(plan.grid);
  const GroupRole role = from / inside == to / inside ? GroupRole::kStages : GroupRole::kStagesAcross;
  return group_of(plan, role).value_or(0);
}

std::int64_t sharing_ranks(const StepPlan& plan, bool experts) {
  if (experts) {
    auto group = group_of(plan, GroupRole::kExpertShards);
    if (!group) group = group_of(plan, GroupRole::kExpertGradients);
    return group ? plan.groups[*group].ranks : 1;
  }
  return plan.groups[group_of(plan, GroupRole::kShards).value_or(0)].ranks;
}

}  // namespace ddlsim::plan
