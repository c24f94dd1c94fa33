#include "ddlsim/importers/kineto_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "ddlsim/support/quantity_io.h"
#include "kineto_events.h"
#include "kineto_steps.h"

namespace ddlsim::importers {
namespace {

constexpr std::size_t kMostTraces = 1024;

/// Several traces are of one job where they say so: a rank each, of one world.
Expected<void> check_job(const std::vector<TracedRank>& ranks) {
  std::set<std::int64_t> seen;
  for (const TracedRank& rank : ranks) {
    const SourceLocation where{rank.file, 0, 0};
    if (!rank.rank) {
      return fail(ErrorCode::kInvalidArgument, "does not say its rank (distributedInfo), which several traces must",
                  where, {"give one trace alone"});
    }
    if (!seen.insert(*rank.rank).second) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("a second trace of rank {}", *rank.rank), where,
                  {"give each rank's trace once"});
    }
    if (rank.world_size != ranks.front().world_size) {
      const auto size = [](const TracedRank& r) { return r.world_size ? std::to_string(*r.world_size) : "unknown"; };
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("a job of {} ranks, but {} is of {}", size(rank), ranks.front().file, size(ranks.front())), where,
          {"give the traces of one job"});
    }
    if (rank.world_size && *rank.rank >= *rank.world_size) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("rank {} of {}", *rank.rank, *rank.world_size), where);
    }
  }
  return {};
}

std::vector<TracedKernel*> collectives_of(TracedRank& rank) {
  std::vector<TracedKernel*> all;
  for (TracedKernel& kernel : rank.typical.kernels) {
    if (kernel.collective) all.push_back(&kernel);
  }
  return all;
}

/// The rank that comes last waits for nobody: what it takes is what the collective needs.
bool find_waiting(std::vector<TracedRank>& ranks) {
  std::vector<std::vector<TracedKernel*>> all;
  all.reserve(ranks.size());
  for (TracedRank& rank : ranks) all.push_back(collectives_of(rank));
  for (const auto& own : all) {
    const bool same = std::equal(own.begin(), own.end(), all.front().begin(), all.front().end(),
                                 [](const auto* a, const auto* b) { return a->collective->op == b->collective->op; });
    if (!same) return false;
  }
  for (std::size_t i = 0; i < all.front().size(); ++i) {
    Time least = all.front()[i]->duration;
    for (const auto& own : all) least = min(least, own[i]->duration);
    for (const auto& own : all) own[i]->collective->waiting = own[i]->duration - least;
  }
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    StepSplit& parts = ranks[r].typical.split;
    parts.collectives_waiting = Time::zero();
    for (const TracedKernel* kernel : all[r]) parts.collectives_waiting += kernel->collective->waiting;
  }
  return true;
}

/// The rank with the step in the middle, the lower of two.
std::size_t median_rank(const std::vector<TracedRank>& ranks) {
  std::vector<Time> durations;
  durations.reserve(ranks.size());
  for (const TracedRank& rank : ranks) durations.push_back(rank.typical.duration);
  const Time middle = kineto::median_of(durations);
  return static_cast<std::size_t>(std::find(durations.begin(), durations.end(), middle) - durations.begin());
}

}  // namespace

Expected<MeasuredStep> read_kineto(std::span<const std::filesystem::path> files, const KinetoOptions& options) {
  if (files.empty()) return fail(ErrorCode::kInvalidArgument, "no trace named");
  if (files.size() > kMostTraces) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} traces, but at most {} are read", files.size(), kMostTraces));
  }
  MeasuredStep step;
  for (const std::filesystem::path& file : files) {
    const auto trace = kineto::read_trace(file);
    if (!trace) return tl::unexpected<Error>(trace.error());
    auto rank = kineto::steps_of(*trace, options);
    if (!rank) return tl::unexpected<Error>(rank.error());
    step.ranks.push_back(std::move(*rank));
  }
  std::vector<TracedRank>& ranks = step.ranks;
  if (ranks.size() > 1) {
    if (auto one_job = check_job(ranks); !one_job) return tl::unexpected<Error>(one_job.error());
    std::sort(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) { return *a.rank < *b.rank; });
    if (!find_waiting(ranks)) {
      step.notes.emplace_back("the ranks launched different collectives: what of them is waiting is not known");
    }
    const auto [least, most] = std::minmax_element(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
      return a.typical.duration < b.typical.duration;
    });
    step.notes.push_back(fmt::format("{} ranks: steps from {} (rank {}) to {} (rank {})", ranks.size(),
                                     to_text(least->typical.duration), *least->rank, to_text(most->typical.duration),
                                     *most->rank));
  } else if (ranks.front().typical.split.collectives_all > Time::zero()) {
    step.notes.emplace_back("one rank: what of its collectives is waiting for other ranks is not known");
  }
  step.median = median_rank(ranks);
  return step;
}

}  // namespace ddlsim::importers
