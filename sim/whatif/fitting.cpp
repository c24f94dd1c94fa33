#include "ddlsim/whatif/fitting.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "ddlsim/plan/lower.h"
#include "ddlsim/plan/memory.h"
#include "ddlsim/plan/parallel.h"
#include "ddlsim/support/choices.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/workload/blocks.h"

namespace ddlsim::whatif {
namespace {

/// What the fullest GPU needs; nothing where the job has no such plan.
std::optional<DataSize> needed_by_job(const plan::Job& job) {
  const auto plan = plan::lower(job);
  if (!plan) return std::nullopt;
  if (!plan::host_holds(job, *plan)) return DataSize::infinity();
  DataSize most;
  for (const plan::RankClass& one : plan->classes) {
    if (!one.memory.complete) return std::nullopt;
    most = max(most, one.memory.total() + plan::device_overhead(one.memory, job).total());
  }
  return most;
}

/// Experts of a layer; 0: the model has none.
std::int64_t experts_of(const workload::Model& model) {
  for (const workload::Layer& layer : model.layers) {
    if (layer.op && std::holds_alternative<workload::Experts>(*layer.op)) {
      return std::get<workload::Experts>(*layer.op).experts;
    }
  }
  return 0;
}

/// Blocks that a pipeline's stages are cut between; a stage has at least one.
std::int64_t bodies_of(const workload::Model& model) {
  const auto blocks = workload::blocks_of(model.layers);
  return std::count_if(blocks.begin(), blocks.end(), [](const workload::Block& block) { return block.body; });
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

/// Formats that keep less than the job's own of weights, gradients and states, where products take fewer bits than 32.
/// A format that does not help is tried and left.
std::vector<FittingChange> formats(const plan::Job& job, std::initializer_list<plan::States> list) {
  std::vector<FittingChange> changes;
  const bool narrow = job.precision != Precision::kFp32 && job.precision != Precision::kTf32;
  const plan::States now = job.parallel.states.value_or(plan::States::kFp32);
  if (!narrow || now == plan::States::kAdam8bit) return changes;
  for (const plan::States states : list) {
    if (states == now) continue;
    changes.push_back({fmt::format("parallel.states={}", name_of(plan::kStates, states)),
                       [states](plan::Job& j) { j.parallel.states = states; }});
  }
  return changes;
}

/// What frozen weights are kept in: of LoRA the format alone may halve them.
std::vector<FittingChange> sixteen_bit_formats(const plan::Job& job) {
  return formats(job, {plan::States::kMixed, plan::States::kMixedSixteen});
}

/// It trains with other numbers than Adam's, so it comes late.
std::vector<FittingChange> eight_bit_formats(const plan::Job& job) { return formats(job, {plan::States::kAdam8bit}); }

std::vector<FittingChange> single_changes(const plan::Job& job) {
  std::vector<FittingChange> changes;
  const plan::Parallel& now = job.parallel;
  const auto add = [&](std::string words, std::function<void(plan::Job&)> apply) {
    changes.push_back({std::move(words), std::move(apply)});
  };
  if (plan::has_tables(job) && job.strategy.kind == plan::StrategyKind::kAllReduce && job.cluster.gpus() > 1) {
    add("strategy=pearl", [](plan::Job& j) { j.strategy.kind = plan::StrategyKind::kPearl; });
  }
  const auto share = [&](int stage) {
    if (now.zero < stage && job.cluster.gpus() > 1) {
      add(fmt::format("parallel.zero={}", stage), [stage](plan::Job& j) { j.parallel.zero = stage; });
    }
  };
  share(1);
  share(2);
  if (now.recompute == plan::Recompute::kNone) {
    add("parallel.recompute=selective", [](plan::Job& j) { j.parallel.recompute = plan::Recompute::kSelective; });
  }
  share(3);
  if (now.recompute != plan::Recompute::kFull) {
    add("parallel.recompute=full", [](plan::Job& j) { j.parallel.recompute = plan::Recompute::kFull; });
  }
  for (FittingChange& format : sixteen_bit_formats(job)) changes.push_back(std::move(format));
  for (std::int64_t ranks = 2 * now.expert; ranks <= std::min(experts_of(*job.model), job.cluster.gpus()); ranks *= 2) {
    add(fmt::format("parallel.expert={}", ranks), [ranks](plan::Job& j) { j.parallel.expert = ranks; });
    if (now.tensor == 1 || plan::has_whole_experts(now)) continue;
    add(fmt::format("parallel.expert={}, parallel.expert_tensor=1", ranks), [ranks](plan::Job& j) {
      j.parallel.expert = ranks;
      j.parallel.expert_tensor = 1;
    });
  }
  for (std::int64_t tensor = 2 * now.tensor; tensor <= job.cluster.gpus_per_node; tensor *= 2) {
    add(fmt::format("parallel.tensor={}", tensor), [tensor](plan::Job& j) { j.parallel.tensor = tensor; });
  }
  for (std::int64_t stages = 2 * now.pipeline; stages <= std::min(bodies_of(*job.model), job.cluster.gpus());
       stages *= 2) {
    add(fmt::format("parallel.pipeline={}", stages), [stages](plan::Job& j) {
      j.parallel.pipeline = stages;
      j.parallel.cuts.clear();
    });
  }
  constexpr std::int64_t kMostPasses = 1 << 16;
  for (std::int64_t by = 2; by <= std::min(job.batch, kMostPasses); ++by) {
    if (job.batch % by != 0) continue;
    add(fmt::format("batch={}, {} passes", job.batch / by, job.strategy.accumulation.get() * by),
        [by](plan::Job& j) { divide_batch(j, by); });
  }
  for (FittingChange& format : eight_bit_formats(job)) changes.push_back(std::move(format));
  if (!now.offload_optimizer) {
    add("parallel.offload_optimizer=yes", [](plan::Job& j) { j.parallel.offload_optimizer = true; });
  }
  return changes;
}

/// A format of states with what is computed again: both leave ranks and micro-batches as they are.
std::vector<FittingChange> paired_changes(const plan::Job& job) {
  std::vector<FittingChange> changes;
  std::vector<FittingChange> all = sixteen_bit_formats(job);
  for (FittingChange& format : eight_bit_formats(job)) all.push_back(std::move(format));
  for (const FittingChange& format : all) {
    for (const plan::Recompute how : {plan::Recompute::kSelective, plan::Recompute::kFull}) {
      if (job.parallel.recompute >= how) continue;
      changes.push_back({fmt::format("{}, parallel.recompute={}", format.words, name_of(plan::kRecomputes, how)),
                         [apply = format.apply, how](plan::Job& j) {
                           apply(j);
                           j.parallel.recompute = how;
                         }});
    }
  }
  return changes;
}

/// The strongest of each kind, one on top of the other, then those of `end`.
std::vector<FittingChange> added_changes(const plan::Job& job, std::vector<FittingChange> end) {
  std::vector<FittingChange> changes;
  if (job.parallel.lora_rank > 0) changes = formats(job, {plan::States::kMixed});
  changes.push_back({"parallel.recompute=full", [](plan::Job& j) { j.parallel.recompute = plan::Recompute::kFull; }});
  // QLoRA, whose frozen weights are a quarter as large.
  if (job.parallel.lora_rank > 0 && job.parallel.frozen_bits == 0) {
    changes.push_back({"parallel.frozen_bits=4", [](plan::Job& j) { j.parallel.frozen_bits = 4; }});
  }
  if (job.cluster.gpus() > 1) changes.push_back({"parallel.zero=3", [](plan::Job& j) { j.parallel.zero = 3; }});
  if (const std::int64_t inside = job.cluster.gpus_per_node; inside > job.parallel.tensor) {
    changes.push_back({fmt::format("parallel.tensor={}, parallel.sequence=yes", inside), [inside](plan::Job& j) {
                         j.parallel.tensor = inside;
                         j.parallel.sequence = true;
                       }});
  }
  if (job.batch > 1) {
    const std::int64_t by = job.batch;
    changes.push_back({fmt::format("batch=1, {} passes", job.strategy.accumulation.get() * by),
                       [by](plan::Job& j) { divide_batch(j, by); }});
  }
  std::move(end.begin(), end.end(), std::back_inserter(changes));
  return changes;
}

/// How changes that are added up end: on the host as the states are; in 8 bits on the GPU; in 16 bits on the host.
std::vector<std::vector<FittingChange>> ends_of_added(const plan::Job& job) {
  const FittingChange host{"parallel.offload_optimizer=yes", [](plan::Job& j) { j.parallel.offload_optimizer = true; }};
  if (job.parallel.lora_rank > 0) return {{host}};  // its format comes first
  std::vector<std::vector<FittingChange>> ends{
      {host}, eight_bit_formats(job), formats(job, {plan::States::kMixedSixteen})};
  ends.back().push_back(host);
  return ends;
}

/// Adds changes up until they fit; empty: they do not.
std::string first_of_added(const plan::Job& job, DataSize capacity, const std::vector<FittingChange>& changes) {
  plan::Job changed = job;
  std::string words;
  for (const FittingChange& change : changes) {
    plan::Job more = changed;
    change.apply(more);
    const auto needed = needed_by_job(more);
    if (!needed) continue;
    changed = std::move(more);
    words += (words.empty() ? "" : ", ") + change.words;
    if (*needed <= capacity) return fmt::format("{} ({})", words, to_text(*needed));
  }
  return {};
}

std::string first_change(const plan::Job& job, DataSize capacity) {
  std::vector<FittingChange> tried = single_changes(job);
  for (FittingChange& pair : paired_changes(job)) tried.push_back(std::move(pair));
  for (const FittingChange& change : tried) {
    plan::Job changed = job;
    change.apply(changed);
    const auto needed = needed_by_job(changed);
    if (needed && *needed <= capacity) return fmt::format("{} ({})", change.words, to_text(*needed));
  }
  for (std::vector<FittingChange>& end : ends_of_added(job)) {
    std::string words = first_of_added(job, capacity, added_changes(job, std::move(end)));
    if (!words.empty()) return words;
  }
  return "no setting on these GPUs";
}

/// What lets a model spread over many servers. Replicas keep their micro-batch.
std::vector<FittingChange> recipes(const plan::Job& job) {
  if (plan::has_tables(job)) {
    return {{"strategy=pearl", [](plan::Job& j) { j.strategy.kind = plan::StrategyKind::kPearl; }}};
  }
  // Frozen weights are most of what LoRA keeps, and the mixed format halves them.
  std::vector<FittingChange> lora;
  if (job.parallel.lora_rank > 0) lora = formats(job, {plan::States::kMixed});
  const std::string first = lora.empty() ? std::string() : lora.front().words + ", ";
  const auto shared = [lora](plan::Job& j) {
    for (const FittingChange& format : lora) format.apply(j);
    j.parallel.zero = 3;
    j.parallel.recompute = plan::Recompute::kFull;
  };
  const std::string sharing = first + "parallel.zero=3 and parallel.recompute=full";
  std::vector<FittingChange> all{{sharing, shared}};
  const std::int64_t inside = job.cluster.gpus_per_node;
  if (inside > job.parallel.tensor) {
    all.push_back(
        {fmt::format("parallel.tensor={}, parallel.sequence=yes, {}", inside, sharing), [shared, inside](plan::Job& j) {
           shared(j);
           j.parallel.tensor = inside;
           j.parallel.sequence = true;
         }});
  }
  for (std::int64_t ranks = experts_of(*job.model); ranks > job.parallel.expert; ranks /= 2) {
    all.push_back({fmt::format("parallel.expert={}, {}", ranks, sharing), [shared, ranks](plan::Job& j) {
                     shared(j);
                     j.parallel.expert = ranks;
                   }});
  }
  return all;
}

/// Whole servers of the same kind; nothing where even a great many do not do.
std::optional<std::int64_t> fewest_servers(plan::Job larger, DataSize capacity) {
  constexpr std::int64_t kMost = 4096;
  const auto fits = [&](std::int64_t nodes) {
    larger.cluster.nodes = nodes;
    const auto needed = needed_by_job(larger);
    return needed && *needed <= capacity;
  };
  std::int64_t high = 1;
  while (high <= kMost && !fits(high)) high *= 2;
  if (high > kMost) return std::nullopt;
  std::int64_t low = high / 2;  // does not fit
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? high : low) = middle;
  }
  return high;
}

struct Cluster {
  std::int64_t nodes = 0;
  std::string recipe;
};

/// By the recipe that needs the fewest servers.
std::optional<Cluster> smallest_for(const plan::Job& job, DataSize capacity) {
  std::optional<Cluster> best;
  for (const FittingChange& recipe : recipes(job)) {
    plan::Job larger = job;
    recipe.apply(larger);
    const auto nodes = fewest_servers(std::move(larger), capacity);
    if (nodes && (!best || *nodes < best->nodes)) best = Cluster{*nodes, recipe.words};
  }
  return best;
}

std::string cluster_that_holds(const plan::Job& job, DataSize capacity) {
  auto best = smallest_for(job, capacity);
  if (!best && job.batch > 1) {
    plan::Job single = job;
    divide_batch(single, single.batch);
    best = smallest_for(single, capacity);
    if (best) best->recipe = "batch=1, " + best->recipe;
  }
  if (!best) return "no number of such servers is found that holds it";
  const std::int64_t gpus = best->nodes * job.cluster.gpus_per_node;
  return fmt::format("the smallest cluster found: {} server{} ({} GPU{}) with {}", best->nodes,
                     best->nodes == 1 ? "" : "s", gpus, gpus == 1 ? "" : "s", best->recipe);
}

}  // namespace

void add_ways_to_fit(const Scenario& scenario, answer::Prediction& prediction) {
  const plan::Job& job = scenario;
  if (prediction.fits != false || !job.model->has_layers() || job.model->measured) return;
  const DataSize capacity = job.cluster.node.gpu.memory_size;
  std::string text = first_change(job, capacity);
  const bool copies = plan::sums_gradients(job.strategy.kind);
  if (copies) text += "; " + cluster_that_holds(job, capacity);
  prediction.notes.push_back("what makes it fit: " + text);
}

}  // namespace ddlsim::whatif
