// Which ranks talk to each other, and where they stand.
#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "splits.h"

namespace ddlsim::plan {
namespace {

/// One axis of a grid: its ranks, how far apart they are, and how many of them a server has.
struct Stretch {
  Axis axis = Axis::kData;
  std::int64_t ranks = 1;
  std::int64_t apart = 1;
  std::int64_t fitting = 1;
};

/// Of ranks so far apart, how many a server has.
std::int64_t fitting(const Grid& grid, const Stretch& one) {
  return std::clamp<std::int64_t>(grid.gpus_per_node / one.apart, 1, one.ranks);
}

/// Innermost first.
std::array<Stretch, std::tuple_size_v<AxisOrder>> stretches_of(const Grid& grid) {
  std::array<Stretch, std::tuple_size_v<AxisOrder>> all;
  std::int64_t apart = 1;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::int64_t ranks = grid.at(grid.order[i]);
    all[i] = {.axis = grid.order[i], .ranks = ranks, .apart = apart};
    all[i].fitting = fitting(grid, all[i]);
    apart *= ranks;
  }
  return all;
}

Expected<void> stands_alike(const Grid& grid, const Stretch& one) {
  const auto fits = [&](std::int64_t span) { return grid.gpus_per_node % span == 0 || span % grid.gpus_per_node == 0; };
  if (fits(one.apart) && fits(one.apart * one.ranks)) return {};
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
  std::int64_t left = wanted;
  std::int64_t inside = 1;  // of a shard group, in a server
  std::int64_t copies = 1;  // likewise
  for (const Stretch& one : stretches_of(plan.grid)) {
    if (one.axis == Axis::kTensor || one.axis == Axis::kPipeline) continue;
    const std::int64_t taken = std::gcd(left, one.ranks);
    left /= taken;
    inside *= fitting(plan.grid, {.ranks = taken, .apart = one.apart});
    copies *= fitting(plan.grid, {.ranks = one.ranks / taken, .apart = one.apart * taken});
  }
  plan.groups.push_back(placed(plan.grid, GroupRole::kShards, Axis::kData, wanted, inside));
  plan.groups.push_back(placed(plan.grid, GroupRole::kCopies, Axis::kData, replicas / wanted, copies));
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

}  // namespace

std::optional<ExpertRanks> expert_ranks(const Parallel& parallel, std::int64_t replicas) {
  const bool whole = has_whole_experts(parallel);
  if (whole && parallel.expert % parallel.tensor != 0) return std::nullopt;
  const std::int64_t degree = whole ? parallel.expert / parallel.tensor : parallel.expert;
  const std::int64_t context = parallel.context;
  if (context > 1 && degree % context == 0 && replicas % (degree / context) == 0) {
    return ExpertRanks{.tensor = whole, .context = true, .data = degree / context};
  }
  if (replicas % degree != 0) return std::nullopt;
  return ExpertRanks{.tensor = whole, .context = false, .data = degree};
}

std::vector<std::int64_t> expert_degrees(const Parallel& parallel, std::int64_t replicas) {
  constexpr std::int64_t kMost = 1024;
  std::vector<std::int64_t> degrees;
  Parallel one = parallel;
  const std::int64_t most = std::min(parallel.tensor * parallel.context * replicas, kMost);
  const bool whole = parallel.tensor > 1 && parallel.expert_tensor == 1;
  for (one.expert = whole ? 2 : 1; one.expert <= most; ++one.expert) {
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
  std::int64_t ranks = 1;
  std::int64_t per_node = 1;
  std::int64_t between = 1;
  for (const Stretch& one : stretches_of(grid)) {
    if (std::find(axes.begin(), axes.end(), one.axis) == axes.end()) continue;
    if (auto alike = stands_alike(grid, one); !alike) return tl::unexpected<Error>(alike.error());
    if (per_node == 1 && one.fitting > 1) between = one.apart;
    ranks *= one.ranks;
    per_node *= one.fitting;
  }
  RankGroup group = placed(grid, GroupRole::kGradients, axes.front(), ranks, per_node);
  group.between = between;
  return group;
}

std::int64_t group_number(const Grid& grid, const RankGroup& group, std::int64_t rank) {
  const auto within = [&](Axis axis) {
    switch (group.role) {
      case GroupRole::kTensor: return axis == Axis::kTensor;
      case GroupRole::kContext: return axis == Axis::kContext;
      case GroupRole::kExperts: return grid.shares_experts(axis);
      case GroupRole::kExpertGradients:
        return axis == Axis::kData || (axis == Axis::kContext && !grid.shares_experts(axis));
      case GroupRole::kStages:
      case GroupRole::kStagesAcross: return axis == Axis::kPipeline;
      case GroupRole::kGradients:
      case GroupRole::kShards:
      case GroupRole::kCopies: return axis != Axis::kTensor && axis != Axis::kPipeline;
    }
    return false;
  };
  const bool shards = group.role == GroupRole::kShards;
  const bool copies = group.role == GroupRole::kCopies;
  std::int64_t replicas = 1;
  for (const Axis axis : {Axis::kData, Axis::kContext, Axis::kExpert}) replicas *= grid.at(axis);
  std::int64_t left = copies ? replicas / group.ranks : group.ranks;  // of a shard
  std::int64_t number = 0;
  for (const Stretch& one : stretches_of(grid)) {
    const std::int64_t place = rank / one.apart % one.ranks;
    if (!within(one.axis)) {
      number += place * one.apart;
    } else if (shards || copies) {
      const std::int64_t taken = std::gcd(left, one.ranks);
      left /= taken;
      number += (shards ? place / taken * taken : place % taken) * one.apart;
    }
  }
  return number;
}

Expected<void> add_groups(const Job& job, StepPlan& plan) {
  const Parallel& parallel = job.parallel;
  Grid& grid = plan.grid;
  grid.gpus_per_node = job.cluster.gpus_per_node;
  grid.order = parallel.order;
  const auto along = [&](Axis axis) -> std::int64_t& { return grid.along[static_cast<std::size_t>(axis)]; };
  along(Axis::kTensor) = parallel.tensor;
  along(Axis::kContext) = parallel.context;
  const std::int64_t replicas = replicas_of(job);
  const ExpertRanks sharing = expert_ranks(parallel, replicas).value_or(ExpertRanks{});
  grid.experts_over_tensor = sharing.tensor;
  grid.experts_over_context = sharing.context;
  along(Axis::kExpert) = sharing.data;
  along(Axis::kPipeline) = parallel.pipeline;
  along(Axis::kData) = replicas / sharing.data;
  const auto add = [&](GroupRole role, std::span<const Axis> axes) -> Expected<void> {
    auto group = group_along(grid, axes);
    if (!group) return tl::unexpected<Error>(group.error());
    group->role = role;
    const bool gradients = role == GroupRole::kGradients || role == GroupRole::kExpertGradients;
    if (gradients && parallel.pipeline > 1 && directions_of(parallel.schedule) == 2) add_mirrors(grid, *group);
    if (role == GroupRole::kGradients || group->ranks > 1) plan.groups.push_back(*group);
    return {};
  };
  constexpr std::array kReplicas{Axis::kData, Axis::kContext, Axis::kExpert};
  if (auto added = add(GroupRole::kGradients, kReplicas); !added) return added;
  if (auto added = add(GroupRole::kTensor, std::array{Axis::kTensor}); !added) return added;
  if (auto added = add(GroupRole::kContext, std::array{Axis::kContext}); !added) return added;
  if (parallel.expert > 1) {
    std::vector<Axis> share{Axis::kExpert};
    std::vector<Axis> copy{Axis::kData};
    if (sharing.tensor) share.push_back(Axis::kTensor);
    (sharing.context ? share : copy).push_back(Axis::kContext);
    if (auto added = add(GroupRole::kExperts, share); !added) return added;
    if (auto added = add(GroupRole::kExpertGradients, copy); !added) return added;
  }
  if (auto added = add_shards(job, plan); !added) return added;
  return add_stage_groups(plan);
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
    const auto group = group_of(plan, GroupRole::kExpertGradients);
    return group ? plan.groups[*group].ranks : 1;
  }
  return plan.groups[group_of(plan, GroupRole::kShards).value_or(0)].ranks;
}

}  // namespace ddlsim::plan
