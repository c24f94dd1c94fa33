#include "fitting.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "ddlsim/plan/lower.h"
#include "ddlsim/plan/memory.h"
#include "ddlsim/support/quantity_io.h"

namespace ddlsim::whatif {
namespace {

/// What the fullest GPU needs; nothing where the job has no such plan.
std::optional<DataSize> needed_by_job(const plan::Job& job) {
  const auto plan = plan::lower(job);
  if (!plan) return std::nullopt;
  DataSize most;
  const bool split = plan::splits_model(job.parallel);
  for (const plan::RankClass& one : plan->classes) {
    if (!one.memory.complete) return std::nullopt;
    most = max(most, one.memory.total() + plan::device_overhead(one.memory, job.cluster.gpus(), split).total());
  }
  return most;
}

struct FittingChange {
  std::string words;
  std::function<void(plan::Job&)> apply;
};

/// Passes of a smaller micro-batch, so that the step keeps its samples.
void divide_batch(plan::Job& job, std::int64_t by) {
  job.batch /= by;
  job.strategy.accumulation = job.strategy.accumulation.get() * by;
}

std::vector<FittingChange> single_changes(const plan::Job& job) {
  std::vector<FittingChange> changes;
  const plan::Parallel& now = job.parallel;
  const auto add = [&](std::string words, std::function<void(plan::Job&)> apply) {
    changes.push_back({std::move(words), std::move(apply)});
  };
  if (now.recompute == plan::Recompute::kNone) {
    add("parallel.recompute=selective", [](plan::Job& j) { j.parallel.recompute = plan::Recompute::kSelective; });
  }
  if (now.recompute != plan::Recompute::kFull) {
    add("parallel.recompute=full", [](plan::Job& j) { j.parallel.recompute = plan::Recompute::kFull; });
  }
  for (int stage = now.zero + 1; stage <= 3 && job.cluster.gpus() > 1; ++stage) {
    add(fmt::format("parallel.zero={}", stage), [stage](plan::Job& j) { j.parallel.zero = stage; });
  }
  for (std::int64_t tensor = 2 * now.tensor; tensor <= job.cluster.gpus_per_node; tensor *= 2) {
    add(fmt::format("parallel.tensor={}", tensor), [tensor](plan::Job& j) { j.parallel.tensor = tensor; });
  }
  for (std::int64_t stages = 2 * now.pipeline; stages <= job.cluster.gpus(); stages *= 2) {
    add(fmt::format("parallel.pipeline={}", stages), [stages](plan::Job& j) {
      j.parallel.pipeline = stages;
      j.parallel.cuts.clear();
    });
  }
  for (std::int64_t by = 2; by <= job.batch && job.batch % by == 0; by *= 2) {
    add(fmt::format("batch={}, {} passes", job.batch / by, job.strategy.accumulation.get() * by),
        [by](plan::Job& j) { divide_batch(j, by); });
  }
  if (!now.offload_optimizer) {
    add("parallel.offload_optimizer=yes", [](plan::Job& j) { j.parallel.offload_optimizer = true; });
  }
  return changes;
}

/// The strongest of each kind, one on top of the other.
std::vector<FittingChange> added_changes(const plan::Job& job) {
  std::vector<FittingChange> changes{
      {"parallel.recompute=full", [](plan::Job& j) { j.parallel.recompute = plan::Recompute::kFull; }}};
  if (job.cluster.gpus() > 1) changes.push_back({"parallel.zero=3", [](plan::Job& j) { j.parallel.zero = 3; }});
  if (job.batch > 1) {
    const std::int64_t by = job.batch;
    changes.push_back({fmt::format("batch=1, {} passes", job.strategy.accumulation.get() * by),
                       [by](plan::Job& j) { divide_batch(j, by); }});
  }
  changes.push_back({"parallel.offload_optimizer=yes", [](plan::Job& j) { j.parallel.offload_optimizer = true; }});
  return changes;
}

std::string first_change(const plan::Job& job, DataSize capacity) {
  for (const FittingChange& change : single_changes(job)) {
    plan::Job changed = job;
    change.apply(changed);
    const auto needed = needed_by_job(changed);
    if (needed && *needed <= capacity) return fmt::format("fits with {} ({})", change.words, to_text(*needed));
  }
  plan::Job changed = job;
  std::string words;
  for (const FittingChange& change : added_changes(job)) {
    plan::Job more = changed;
    change.apply(more);
    const auto needed = needed_by_job(more);
    if (!needed) continue;
    changed = std::move(more);
    words += (words.empty() ? "" : ", ") + change.words;
    if (*needed <= capacity) return fmt::format("fits with {} ({})", words, to_text(*needed));
  }
  return "no setting makes it fit on these GPUs";
}

/// Whole servers of the same kind; nothing where even a great many do not do.
std::optional<std::int64_t> fewest_nodes(const plan::Job& job, DataSize capacity) {
  constexpr std::int64_t kMost = 4096;
  plan::Job larger = job;
  larger.parallel.zero = 3;
  larger.parallel.recompute = plan::Recompute::kFull;
  const auto fits = [&](std::int64_t nodes) {
    larger.cluster.nodes = nodes;
    const auto needed = needed_by_job(larger);
    return needed && *needed <= capacity;
  };
  const std::int64_t part = job.parallel.tensor * job.parallel.context * job.parallel.pipeline;
  std::int64_t high = 1;
  while (high <= kMost && (high * job.cluster.gpus_per_node < part || !fits(high))) high *= 2;
  if (high > kMost) return std::nullopt;
  std::int64_t low = high / 2;  // does not fit
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace

std::string ways_to_fit(const Scenario& scenario) {
  const plan::Job& job = scenario;
  if (!job.model->has_layers() || job.model->measured) return {};
  const DataSize capacity = job.cluster.node.gpu.memory_size;
  std::string text = first_change(job, capacity);
  if (job.strategy.kind != plan::StrategyKind::kAllReduce) return text;
  if (const auto nodes = fewest_nodes(job, capacity)) {
    const std::int64_t gpus = *nodes * job.cluster.gpus_per_node;
    text += fmt::format("; the smallest cluster it fits on with parallel.zero=3 and parallel.recompute=full: {} GPU{}",
                        gpus, gpus == 1 ? "" : "s");
  } else {
    text += "; no number of such servers is enough";
  }
  return text;
}

}  // namespace ddlsim::whatif
