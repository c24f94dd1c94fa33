#include "ddlsim/whatif/fitting.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ddlsim/plan/lower.h"
#include "ddlsim/plan/lowerer.h"
#include "ddlsim/plan/memory.h"
#include "ddlsim/plan/order.h"
#include "ddlsim/plan/parallel.h"
#include "ddlsim/support/choices.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/workload/blocks.h"
#include "predict/stage_times.h"

namespace ddlsim::whatif {
namespace {

/// What one job needs after another, most of which have their layers in common.
class Trials {
 public:
  /// Nothing where the job has no such plan, or nobody knows what it keeps.
  std::optional<plan::Needed> needed_by(const plan::Job& job) {
    const auto plan = stages_.lowered(job, [&](const plan::Job& cut) { return lowerer_.outline(cut); });
    if (!plan) return std::nullopt;
    plan::Needed needed = plan::needed_by(job, *plan);
    if (!needed.tensors.complete) return std::nullopt;
    return needed;
  }

  bool fit(const plan::Job& job) {
    const auto needed = needed_by(job);
    return needed && needed->fits();
  }

 private:
  plan::Lowerer lowerer_;
  StageTimes stages_;
};

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
using FittingChanges = std::vector<FittingChange>;

plan::Job changed_by(plan::Job job, const FittingChanges& changes) {
  for (const FittingChange& change : changes) change.apply(job);
  return job;
}

/// "a, b and c"
std::string list_of(const FittingChanges& changes, std::string_view last) {
  std::string words;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    words += (i == 0 ? "" : i + 1 == changes.size() ? last : ", ");
    words += changes[i].words;
  }
  return words;
}

/// Of changes with which a job fits, those without any of which it does not. What comes first is left out first.
FittingChanges those_needed(const plan::Job& job, FittingChanges changes, Trials& trials) {
  for (std::size_t i = 0; i < changes.size();) {
    FittingChanges others = changes;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    if (trials.fit(changed_by(job, others))) {
      changes = std::move(others);
    } else {
      ++i;
    }
  }
  return changes;
}

FittingChange full_recomputation() {
  return {"parallel.recompute=full", [](plan::Job& j) { j.parallel.recompute = plan::Recompute::kFull; }};
}

FittingChange shared_weights() {
  return {"parallel.zero=3", [](plan::Job& j) { j.parallel.zero = 3; }};
}

FittingChange shared_sequence() {
  return {"parallel.sequence=yes", [](plan::Job& j) { j.parallel.sequence = true; }};
}

/// Activations between its products shared by the tensor group that the job has; empty: it has none, or shares them.
FittingChanges own_sequence(const plan::Job& job) {
  if (job.parallel.tensor == 1 || job.parallel.sequence) return {};
  return {shared_sequence()};
}

/// A group of so many GPUs more is as many replicas fewer: a stated global batch takes more passes.
void fewer_replicas(plan::Job& job, std::int64_t now, std::int64_t before) {
  const std::int64_t passes = job.strategy.accumulation.get() * now;
  if (job.states_global_batch && passes % before == 0) job.strategy.accumulation = passes / before;
}

void set_tensor(plan::Job& job, std::int64_t ranks) {
  fewer_replicas(job, ranks, job.parallel.tensor);
  job.parallel.tensor = ranks;
}

void set_pipeline(plan::Job& job, std::int64_t stages) {
  fewer_replicas(job, stages, job.parallel.pipeline);
  job.parallel.pipeline = stages;
  job.parallel.cuts.clear();
}

/// Whether gradients are fused by a coordinator's cycles, which know whole models alone (Horovod).
bool fuses_by_cycles(const plan::Job& job) { return plan::grouping_of(job.strategy) == plan::Grouping::kFusion; }

/// The GPUs of a server; empty: they are one already, or whole models are all that is exchanged.
FittingChanges tensor_group(const plan::Job& job) {
  const std::int64_t inside = job.cluster.gpus_per_node;
  if (inside <= job.parallel.tensor || fuses_by_cycles(job)) return {};
  FittingChanges changes{
      {fmt::format("parallel.tensor={}", inside), [inside](plan::Job& j) { set_tensor(j, inside); }}};
  if (!job.parallel.sequence) changes.push_back(shared_sequence());
  return changes;
}

/// Passes of a smaller micro-batch, so that the step keeps its samples.
void divide_batch(plan::Job& job, std::int64_t by) {
  job.batch /= by;
  job.strategy.accumulation = job.strategy.accumulation.get() * by;
}

/// Formats that keep less than the job's own of weights, gradients and states, where products take fewer bits than 32.
/// A format that does not help is tried and left.
FittingChanges formats(const plan::Job& job, std::initializer_list<plan::States> list) {
  FittingChanges changes;
  const bool narrow = !is_single(job.precision);
  const plan::States now = job.parallel.states.value_or(plan::States::kFp32);
  if (!narrow || now == plan::States::kAdam8bit) return changes;
  for (const plan::States states : list) {
    if (states == now) continue;
    changes.push_back({fmt::format("parallel.states={}", name_of(plan::kStates, states)),
                       [states](plan::Job& j) { j.parallel.states = states; }});
  }
  return changes;
}

FittingChanges sixteen_bit_formats(const plan::Job& job) {
  return formats(job, {plan::States::kMixed, plan::States::kMixedSixteen});
}

/// Beside adapters, where somebody stated fp32: the format halves frozen weights, most of what LoRA keeps.
FittingChanges frozen_formats(const plan::Job& job) {
  const bool wide = job.parallel.lora_rank > 0 && job.parallel.states == plan::States::kFp32;
  return wide ? formats(job, {plan::States::kMixed}) : FittingChanges{};
}

/// It trains with other numbers than Adam's, so it comes late.
FittingChanges eight_bit_formats(const plan::Job& job) { return formats(job, {plan::States::kAdam8bit}); }

FittingChanges single_changes(const plan::Job& job) {
  FittingChanges changes;
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
  // Only FSDP shares gradients and weights of stages (torchtitan): what other frameworks have as well comes first.
  const bool stages = now.pipeline > 1;
  share(1);
  for (FittingChange& sequence : own_sequence(job)) changes.push_back(std::move(sequence));
  if (!stages) share(2);
  if (now.recompute == plan::Recompute::kNone) {
    add("parallel.recompute=selective", [](plan::Job& j) { j.parallel.recompute = plan::Recompute::kSelective; });
  }
  if (!stages) share(3);
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
  for (std::int64_t tensor = 2 * now.tensor; tensor <= (fuses_by_cycles(job) ? 1 : job.cluster.gpus_per_node);
       tensor *= 2) {
    add(fmt::format("parallel.tensor={}", tensor), [tensor](plan::Job& j) { set_tensor(j, tensor); });
  }
  for (std::int64_t more = 2 * now.pipeline;
       more <= (fuses_by_cycles(job) ? 1 : std::min(bodies_of(*job.model), job.cluster.gpus())); more *= 2) {
    add(fmt::format("parallel.pipeline={}", more), [more](plan::Job& j) { set_pipeline(j, more); });
  }
  constexpr std::int64_t kMostPasses = 1 << 16;
  for (std::int64_t by = 2; by <= std::min(job.batch, kMostPasses); ++by) {
    if (job.batch % by != 0) continue;
    add(fmt::format("batch={}, {} passes", job.batch / by, job.strategy.accumulation.get() * by),
        [by](plan::Job& j) { divide_batch(j, by); });
  }
  for (const int stage : {2, 3}) {
    if (stages) share(stage);
  }
  for (FittingChange& format : eight_bit_formats(job)) changes.push_back(std::move(format));
  if (!now.offload_optimizer) {
    add("parallel.offload_optimizer=yes", [](plan::Job& j) { j.parallel.offload_optimizer = true; });
  }
  return changes;
}

/// A format of states with what is computed again: both leave ranks and micro-batches as they are.
FittingChanges paired_changes(const plan::Job& job) {
  FittingChanges changes;
  FittingChanges all = sixteen_bit_formats(job);
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

/// The strongest of each kind, one on top of the other, then those of `end`. Those of a group go together.
std::vector<FittingChanges> added_changes(const plan::Job& job, FittingChanges end) {
  std::vector<FittingChanges> groups;
  groups.push_back(frozen_formats(job));
  groups.push_back({full_recomputation()});
  // QLoRA, whose frozen weights are a quarter as large.
  if (job.parallel.lora_rank > 0 && job.parallel.frozen_bits == 0) {
    groups.push_back({{"parallel.frozen_bits=4", [](plan::Job& j) { j.parallel.frozen_bits = 4; }}});
  }
  if (job.cluster.gpus() > 1) groups.push_back({shared_weights()});
  groups.push_back(own_sequence(job));
  groups.push_back(tensor_group(job));
  if (job.batch > 1) {
    const std::int64_t by = job.batch;
    groups.push_back({{fmt::format("batch=1, {} passes", job.strategy.accumulation.get() * by),
                       [by](plan::Job& j) { divide_batch(j, by); }}});
  }
  for (FittingChange& change : end) groups.push_back({std::move(change)});
  return groups;
}

/// How changes that are added up end: on the host as the states are; in 8 bits on the GPU; in 16 bits on the host.
std::vector<FittingChanges> ends_of_added(const plan::Job& job) {
  const FittingChange host{"parallel.offload_optimizer=yes", [](plan::Job& j) { j.parallel.offload_optimizer = true; }};
  const FittingChange weights{"parallel.offload_weights=yes", [](plan::Job& j) { j.parallel.offload_weights = true; }};
  if (job.parallel.lora_rank > 0) return {{host, weights}};  // its format comes first
  std::vector<FittingChanges> ends{
      {host, weights}, eight_bit_formats(job), formats(job, {plan::States::kMixedSixteen})};
  ends.back().push_back(host);
  ends.back().push_back(weights);
  return ends;
}

/// Adds changes up until they fit; empty: they do not.
FittingChanges first_of_added(const plan::Job& job, const std::vector<FittingChanges>& groups, Trials& trials) {
  FittingChanges added;
  for (const FittingChanges& group : groups) {
    FittingChanges more = added;
    more.insert(more.end(), group.begin(), group.end());
    const auto needed = trials.needed_by(changed_by(job, more));
    if (!needed) continue;
    added = std::move(more);
    if (needed->fits()) return those_needed(job, std::move(added), trials);
  }
  return {};
}

/// Settings beside which what shares, cuts or moves a model's states is refused (plan/check.cpp): a job has them to no
/// effect, or trains otherwise; they are named where others fit without them.
FittingChanges in_the_way(const plan::Job& job) {
  FittingChanges changes;
  const auto leave = [&](bool stands, std::string words, std::function<void(plan::Job&)> apply) {
    if (stands) changes.push_back({std::move(words), std::move(apply)});
  };
  const plan::Strategy& strategy = job.strategy;
  leave(!plan::sums_gradients(strategy.kind), "strategy=allreduce", [](plan::Job& j) {
    j.strategy.kind = plan::StrategyKind::kAllReduce;
    j.strategy.grouping.set(plan::Grouping::kBuckets);
    j.strategy.priority = false;
  });
  leave(plan::sums_gradients(strategy.kind) && fuses_by_cycles(job), "strategy.grouping=buckets",
        [](plan::Job& j) { j.strategy.grouping.set(plan::Grouping::kBuckets); });
  leave(plan::sums_gradients(strategy.kind) && strategy.priority, "strategy.priority=no",
        [](plan::Job& j) { j.strategy.priority = false; });
  leave(strategy.compression != plan::Compression::kNone, "strategy.compression=none",
        [](plan::Job& j) { j.strategy.compression = plan::Compression::kNone; });
  leave(strategy.sync_every > 1, "strategy.sync_every=1",
        [](plan::Job& j) { j.strategy.sync_every = std::int64_t{1}; });
  leave(job.overlap == plan::Overlap::kIdeal, "overlap=backward",
        [](plan::Job& j) { j.overlap = plan::Overlap::kBackward; });
  leave(job.parallel.pipeline > 1 && plan::is_asynchronous(job.parallel.schedule), "parallel.schedule=1f1b",
        [](plan::Job& j) { j.parallel.schedule = plan::PipelineSchedule::kOneForwardOneBackward; });
  leave(job.parallel.gather_fp8, "parallel.gather_fp8=no", [](plan::Job& j) { j.parallel.gather_fp8 = false; });
  leave(job.straggler > 1, "straggler=1", [](plan::Job& j) { j.straggler = 1.0; });
  return changes;
}

/// The first that fits on the job's GPUs; empty: none does.
FittingChanges first_changes(const plan::Job& job, Trials& trials) {
  FittingChanges tried = single_changes(job);
  for (FittingChange& pair : paired_changes(job)) tried.push_back(std::move(pair));
  for (const FittingChange& change : tried) {
    if (trials.fit(changed_by(job, {change}))) return {change};
  }
  for (FittingChanges& end : ends_of_added(job)) {
    FittingChanges added = first_of_added(job, added_changes(job, std::move(end)), trials);
    if (!added.empty()) return added;
  }
  return {};
}

/// The same; where none does, without what is in the way.
FittingChanges on_these_gpus(const plan::Job& job, Trials& trials) {
  FittingChanges changes = first_changes(job, trials);
  FittingChanges left_out = in_the_way(job);
  if (!changes.empty() || left_out.empty()) return changes;
  changes = first_changes(changed_by(job, left_out), trials);
  if (changes.empty()) return {};
  left_out.insert(left_out.end(), changes.begin(), changes.end());
  return those_needed(job, std::move(left_out), trials);
}

std::string ways_said(const plan::Job& job, const FittingChanges& changes, Trials& trials) {
  if (changes.empty()) return "no setting on these GPUs";
  const auto needed = trials.needed_by(changed_by(job, changes));
  return fmt::format("{} ({}{})", list_of(changes, ", "), to_text(needed->all()),
                     needed->is_tight() ? ", tightly" : "");
}

/// What lets a model spread over many servers. Replicas keep their micro-batch.
std::vector<FittingChanges> recipes(const plan::Job& job) {
  if (plan::has_tables(job)) {
    return {{{"strategy=pearl", [](plan::Job& j) { j.strategy.kind = plan::StrategyKind::kPearl; }}}};
  }
  FittingChanges shared = frozen_formats(job);
  shared.push_back(shared_weights());
  shared.push_back(full_recomputation());
  const auto with_shared = [&](FittingChanges changes) {
    changes.insert(changes.end(), shared.begin(), shared.end());
    return changes;
  };
  std::vector<FittingChanges> all{shared};
  if (FittingChanges sequence = own_sequence(job); !sequence.empty()) all.push_back(with_shared(std::move(sequence)));
  if (FittingChanges group = tensor_group(job); !group.empty()) all.push_back(with_shared(std::move(group)));
  for (std::int64_t ranks = experts_of(*job.model); ranks > job.parallel.expert; ranks /= 2) {
    FittingChanges experts = own_sequence(job);
    experts.push_back({fmt::format("parallel.expert={}", ranks), [ranks](plan::Job& j) { j.parallel.expert = ranks; }});
    all.push_back(with_shared(std::move(experts)));
  }
  return all;
}

plan::Job on_servers(plan::Job job, std::int64_t nodes) {
  job.cluster.nodes = nodes;
  return job;
}

constexpr std::int64_t kMostServersToFit = 4096;

/// The fewest servers whose GPUs make whole replicas; others are as many times more.
std::int64_t servers_of_replicas(const plan::Job& job) {
  const std::int64_t ranks = job.parallel.tensor * job.parallel.context * job.parallel.pipeline;
  return ranks / std::gcd(ranks, job.cluster.gpus_per_node);
}

/// Whole servers of the same kind; nothing where even a great many do not do.
std::optional<std::int64_t> fewest_servers(const plan::Job& larger, Trials& trials) {
  const std::int64_t whole = servers_of_replicas(larger);
  const auto fits = [&](std::int64_t times) { return trials.fit(on_servers(larger, times * whole)); };
  std::int64_t high = 1;
  while (high * whole <= kMostServersToFit && !fits(high)) high *= 2;
  if (high * whole > kMostServersToFit) return std::nullopt;
  std::int64_t low = high / 2;  // does not fit
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? high : low) = middle;
  }
  return high * whole;
}

/// Those of a recipe that the job takes on many servers, whatever they hold, after those that are made in any case.
FittingChanges taken_by(const plan::Job& job, FittingChanges taken, const FittingChanges& recipe, Trials& trials) {
  for (const FittingChange& change : recipe) {
    taken.push_back(change);
    plan::Job larger = changed_by(job, taken);
    larger.cluster.nodes = servers_of_replicas(larger);
    while (2 * larger.cluster.nodes <= kMostServersToFit) larger.cluster.nodes *= 2;
    if (!trials.needed_by(larger)) taken.pop_back();
  }
  return taken;
}

struct FittingCluster {
  std::int64_t nodes = 0;
  FittingChanges recipe;
};

/// By the recipe that needs the fewest servers; `first` is changed in any case.
std::optional<FittingCluster> smallest_for(const plan::Job& job, const FittingChanges& first, Trials& trials) {
  std::optional<FittingCluster> best;
  for (const FittingChanges& recipe : recipes(job)) {
    FittingChanges changes = taken_by(job, first, recipe, trials);
    const auto nodes = fewest_servers(changed_by(job, changes), trials);
    if (nodes && (!best || *nodes < best->nodes)) best = FittingCluster{*nodes, std::move(changes)};
  }
  return best;
}

/// `here`: what fits on the job's own servers, if anything does.
std::string cluster_that_holds(const plan::Job& job, const FittingChanges& here, Trials& trials) {
  auto best = smallest_for(job, {}, trials);
  const auto by_single = [&](FittingChanges first) {
    first.push_back({"batch=1", [](plan::Job& j) { divide_batch(j, j.batch); }});
    best = smallest_for(job, first, trials);
  };
  if (!best && job.batch > 1) by_single({});
  if (const FittingChanges left_out = in_the_way(job); !best && !left_out.empty()) {
    best = smallest_for(job, left_out, trials);
    if (!best && job.batch > 1) by_single(left_out);
  }
  if (!best && !here.empty()) best = FittingCluster{job.cluster.nodes, here};
  if (!best) return "no number of such servers is found that holds it";
  const std::int64_t gpus = best->nodes * job.cluster.gpus_per_node;
  const FittingChanges needed = those_needed(on_servers(job, best->nodes), std::move(best->recipe), trials);
  return fmt::format("the smallest cluster found: {} server{} ({} GPU{}{}) {}", best->nodes,
                     best->nodes == 1 ? "" : "s", gpus, gpus == 1 ? "" : "s", idle_gpus(job.cluster, best->nodes),
                     needed.empty() ? "with the settings as they are" : "with " + list_of(needed, " and "));
}

}  // namespace

std::string idle_gpus(const hardware::Cluster& cluster, std::int64_t nodes) {
  const std::int64_t idle = cluster.node.gpus - cluster.gpus_per_node;
  if (idle < 1 || nodes < 2) return "";
  return fmt::format(", {} more of each server idle: gpus_per_node={} may need fewer servers", idle, cluster.node.gpus);
}

void add_ways_to_fit(const Scenario& scenario, answer::Prediction& prediction) {
  const plan::Job& job = scenario;
  if (prediction.fits != false || !job.model->has_layers() || job.model->measured) return;
  Trials trials;
  const FittingChanges here = on_these_gpus(job, trials);
  std::string text = ways_said(job, here, trials);
  const bool copies = plan::sums_gradients(job.strategy.kind);
  if (copies) text += "; " + cluster_that_holds(job, here, trials);
  const bool shares = text.find("zero=2") != std::string::npos || text.find("zero=3") != std::string::npos;
  if (shares && job.parallel.pipeline > 1) {
    text += "; zero 2 and 3 with stages: FSDP has it (torchtitan), Megatron-LM and DeepSpeed have not";
  }
  prediction.notes.push_back("what makes it fit: " + text);
}

}  // namespace ddlsim::whatif
