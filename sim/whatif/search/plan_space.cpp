// The plans of a space, family by family.
#include "search/plan_space.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "ddlsim/plan/order.h"
#include "ddlsim/plan/timed_cuts.h"
#include "scenario/setting_values.h"
#include "search/plan_tools.h"

namespace ddlsim::whatif {
namespace {

using plan::PipelineSchedule;
using plan::Recompute;

constexpr std::int64_t kMostPasses = 1 << 20;  // as strategy.accumulation

std::vector<std::int64_t> divisors_of(std::int64_t n) {
  std::vector<std::int64_t> low;
  std::vector<std::int64_t> high;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    low.push_back(d);
    if (d * d != n) high.push_back(n / d);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

/// Those of `all` that are allowed: all, or the one that was stated.
std::vector<std::int64_t> allowed(std::vector<std::int64_t> all, const std::optional<std::int64_t>& stated) {
  if (stated) std::erase_if(all, [&](std::int64_t one) { return one != *stated; });
  return all;
}

}  // namespace

bool PlanSpace::supports(const Split& split, plan::Lowerer& lowerer) const {
  Scenario job = with(split);
  send_plainly(job);  // another number of replicas may have nothing to exchange
  const auto plan = lowerer.outline(job);
  return plan || plan.error().code != ErrorCode::kUnsupported;
}

/// Values that the lowering does not know at all.
void PlanSpace::strike_unsupported(plan::Lowerer& lowerer) {
  const std::int64_t gpus = base_.cluster.gpus_per_node * node_counts_.back();
  const Split plain{.nodes = node_counts_.back(), .data = gpus};
  if (!supports(plain, lowerer)) return;  // then no value is to blame
  const auto keep = [&](auto& values, auto set) {
    if (values.size() < 2) return;
    std::erase_if(values, [&](const auto value) {
      Split split = plain;
      set(split, value);
      return !supports(split, lowerer);
    });
  };
  const std::int64_t two = gpus % 2 == 0 ? 2 : gpus;
  keep(range_.schedules, [&](Split& split, PipelineSchedule schedule) {
    split.schedule = schedule;
    split.pipeline = two;
    split.data = gpus / two;
    split.passes = 2 * two;
    if (schedule == PipelineSchedule::kInterleaved) split.virtual_stages = 2;
  });
  keep(range_.recomputes, [](Split& split, Recompute recompute) { split.recompute = recompute; });
  keep(range_.zeros, [](Split& split, int zero) { split.zero = zero; });
  keep(range_.context_ways, [&](Split& split, plan::ContextBy by) {
    split.context = two;
    split.data = gpus / two;
    split.context_by = by;
  });
  if (range_.sequences.size() == 2) {
    Split split = plain;
    split.tensor = two;
    split.data = gpus / two;
    split.sequence = true;
    if (!supports(split, lowerer)) range_.sequences = {false};
  }
  if (range_.context_ways.empty()) {
    range_.context_ways = {plan::ContextBy::kRing};
    if (!range_.context) range_.context = 1;
  }
}

void PlanSpace::enumerate(plan::Lowerer& lowerer, const IsOver& is_over) {
  is_whole_ = true;
  families_.clear();
  shapes_.clear();
  variants_.clear();
  most_parts_.clear();
  lighter_cuts_.clear();
  timed_cuts_.clear();
  plans_ = 0;
  for (const std::int64_t nodes : node_counts_) {
    const std::int64_t gpus = nodes * base_.cluster.gpus_per_node;
    for (const std::int64_t tensor : allowed(divisors_of(gpus), range_.tensor)) {
      // A degree that cuts nothing evenly is struck with all plans that have it.
      const Split split{.nodes = nodes, .tensor = tensor, .data = gpus / tensor};
      if (has_experts_ && base_.parallel.expert_tensor > 1 && tensor != base_.parallel.expert_tensor) continue;
      if (tensor > 1 && (!cuts_tensors_ || (!range_.tensor && !lowerer.outline(with(split))))) continue;
      enumerate_ranks(split, is_over);
    }
  }
  std::map<ShapeKey, std::size_t> index;
  std::map<std::tuple<std::int64_t, std::int64_t, bool>, std::size_t> numbered;  // variants, by what they depend on
  const auto number_of = [&](const ShapeKey& key) {
    const auto [found, added] = index.emplace(key, shapes_.size());
    if (added) shapes_.push_back(key);
    return found->second;
  };
  const bool near_first = base_.parallel.order == plan::kMegatronOrder;
  const Recompute least = range_.recomputes.front();
  StageTimes times;
  for (std::size_t f = 0; f < families_.size(); ++f) {
    if (is_over && is_over(1)) {
      is_whole_ = false;
      families_.resize(f);
      break;
    }
    PlanFamily& one = families_[f];
    const Split& s = one.split;
    ShapeKey key{s.nodes,     s.tensor,     s.context, s.expert, s.whole_experts, s.batch, near_first ? 1 : s.pipeline,
                 s.recompute, s.context_by, s.sequence};
    one.shape = number_of(key);
    if (least == Recompute::kNone) key.recompute = least;
    one.simple = number_of(key);
    const auto [variants, added] =
        numbered.try_emplace({s.pipeline, s.passes, s.recompute == Recompute::kFull}, variants_.size());
    if (added) variants_.push_back(variants_of(s));
    one.variants = variants->second;
    one.members = static_cast<std::int64_t>(variants_[one.variants].size() * zeros_for(s).size());
    plans_ += one.members;
    for (const PipelineVariant& variant : variants_[one.variants]) {
      Split split = s;
      split.schedule = variant.schedule;
      split.virtual_stages = variant.virtual_stages;
      if (!cuts_tensors_) cut_by_times(split, times);
    }
    std::int64_t& most = most_parts_.try_emplace(s.pipeline, 1).first->second;
    for (const PipelineVariant& variant : variants_[one.variants]) {
      const plan::Pipeline pipeline{
          .schedule = variant.schedule, .stages = s.pipeline, .virtual_stages = variant.virtual_stages};
      if (added && s.pipeline > 1) most = std::max(most, plan::parts_of(pipeline));
    }
  }
}

void PlanSpace::enumerate_ranks(Split split, const IsOver& is_over) {
  const std::int64_t gpus = split.nodes * base_.cluster.gpus_per_node;
  for (const std::int64_t context : allowed(divisors_of(gpus / split.tensor), range_.context)) {
    if (context > 1 && !cuts_tensors_) break;
    for (const std::int64_t pipeline : allowed(divisors_of(gpus / split.tensor / context), range_.pipeline)) {
      if (!takes_positions(pipeline)) continue;
      // Half of the time is for the numbers of what is found.
      is_whole_ = is_whole_ && !(is_over && is_over(0.5));
      if (!is_whole_) return;
      split.context = context;
      split.pipeline = pipeline;
      split.data = gpus / split.tensor / context / pipeline;
      if (range_.data && split.data != *range_.data) continue;
      enumerate_experts(split);
    }
  }
}

void PlanSpace::enumerate_experts(Split split) {
  if (!has_experts_ && range_.expert == 1) return enumerate_passes(split);
  plan::Parallel parallel{.tensor = split.tensor, .context = split.context};
  for (const bool whole : range_.whole_experts) {
    if (whole && split.tensor == 1 && range_.whole_experts.size() > 1) continue;  // as the others
    parallel.expert_tensor = whole ? 1 : 0;
    split.whole_experts = whole;
    for (const std::int64_t expert : allowed(plan::expert_degrees(parallel, split.data), range_.expert)) {
      split.expert = expert;
      enumerate_passes(split);
    }
  }
}

void PlanSpace::enumerate_passes(Split split) {
  if (global_batch_ % split.data != 0) return;
  const std::int64_t share = global_batch_ / split.data;
  for (const std::int64_t batch : allowed(divisors_of(share), range_.batch)) {
    split.batch = batch;
    split.passes = share / batch;
    if (split.passes <= kMostPasses) enumerate_shapes(split);
  }
}

/// Into how many chunks a rank's blocks may be cut: alike ones; of stages that no count makes alike, any that the
/// lowering takes, of transformers. Where some are alike others give a rank a block more than its share.
std::vector<std::int64_t> PlanSpace::chunks_for(std::int64_t stages) const {
  if (!range_.virtual_stages.empty()) return range_.virtual_stages;
  // Blocks alone, or with embedding and head as one each (plan/stage_cuts.h).
  std::set<std::int64_t> chunks;
  bool alike = !cuts_tensors_;
  for (const std::int64_t counted : {blocks_, blocks_with_ends_}) {
    if (counted == 0 || counted % stages != 0) continue;
    alike = true;
    const auto divisors = divisors_of(counted / stages);
    chunks.insert(divisors.begin(), divisors.end());
  }
  for (std::int64_t count = 2; !alike && count * stages <= most_stages_; ++count) chunks.insert(count);
  chunks.erase(1);
  return {chunks.begin(), chunks.end()};
}

void PlanSpace::enumerate_shapes(Split split) {
  for (const Recompute recompute : range_.recomputes) {
    split.recompute = recompute;
    for (const bool sequence : range_.sequences) {
      if (sequence && split.tensor == 1 && range_.sequences.size() > 1) continue;
      split.sequence = sequence;
      for (const plan::ContextBy by : range_.context_ways) {
        split.context_by = by;
        families_.push_back({.split = split, .members = 0});
        if (split.context == 1) break;
      }
    }
  }
}

std::span<const int> PlanSpace::zeros_for(const Split& split) const {
  // Whole experts have copies within a tensor group.
  const bool copies = split.whole_experts && split.expert < split.tensor;
  const bool any = range_.zeros.size() < 2 || split.data * split.context > 1 || copies;
  return std::span(range_.zeros).first(any ? range_.zeros.size() : 1);
}

/// Works them out. They are plans of their own: frameworks take such stages where they are told so.
bool PlanSpace::has_lighter_cuts(const Split& split) {
  const std::size_t parts = plan::positions_of(pipeline_of(split));
  const auto [found, added] = lighter_cuts_.try_emplace({parts, split.cut});
  const bool again = split.cut == StageCut::kLighterIfAgain;
  if (added) found->second = plan::lighter_cuts(cut_points_, again ? loads_again_ : loads_, parts);
  return !found->second.empty();
}

PlanSpace::TimedKey PlanSpace::timed_key(const Split& split) {
  const std::int64_t passes = plan::fills_alone(split.schedule) ? split.passes : 0;
  return {split.nodes, split.schedule, split.pipeline, split.virtual_stages, passes, split.batch, split.recompute};
}

void PlanSpace::cut_by_times(const Split& split, StageTimes& times) {
  if (split.pipeline == 1 || !base_.parallel.cuts.empty()) return;
  const TimedKey key = timed_key(split);
  if (timed_cuts_.contains(key)) return;
  std::vector<std::size_t> cuts = times.cuts_of(with(split));
  if (!cuts.empty()) timed_cuts_.emplace(key, std::move(cuts));
}

const std::vector<std::size_t>* PlanSpace::timed_cuts_of(const Split& split) const {
  if (split.cut != StageCut::kUsual || timed_cuts_.empty()) return nullptr;
  const auto found = timed_cuts_.find(timed_key(split));
  return found == timed_cuts_.end() ? nullptr : &found->second;
}

const std::vector<std::size_t>& PlanSpace::cuts_of(const Split& split) const {
  return lighter_cuts_.at({plan::positions_of(pipeline_of(split)), split.cut});
}

std::vector<PipelineVariant> PlanSpace::variants_of(const Split& split) {
  // Parts that are stated stay: without a pipeline the lowering refuses them.
  if (split.pipeline == 1) {
    return {{split.schedule, range_.virtual_stages.empty() ? split.virtual_stages : range_.virtual_stages.front()}};
  }
  std::vector<PipelineVariant> all;
  const auto add = [&](PipelineSchedule schedule, std::int64_t virtual_stages) {
    Split one = split;
    one.schedule = schedule;
    one.virtual_stages = virtual_stages;
    const plan::Pipeline pipeline = pipeline_of(one);
    if (!plan::check(pipeline) || !takes_positions(static_cast<std::int64_t>(plan::positions_of(pipeline)))) return;
    all.push_back({schedule, virtual_stages});
    one.cut = split.recompute == Recompute::kFull ? StageCut::kLighterIfAgain : StageCut::kLighter;
    if (has_lighter_cuts(one)) all.push_back({schedule, virtual_stages, one.cut});
  };
  for (const PipelineSchedule schedule : range_.schedules) {
    if (schedule != PipelineSchedule::kInterleaved) {
      add(schedule, range_.virtual_stages.empty() ? 1 : range_.virtual_stages.front());
      continue;
    }
    for (const std::int64_t chunks : chunks_for(split.pipeline)) add(schedule, chunks);
  }
  return all;
}

/// In the order of members(): variants, and their sharing of states within each.
Split PlanSpace::split(PlanId id) const {
  const PlanFamily& family = families_[id.family];
  const std::span<const int> zeros = zeros_for(family.split);
  const PipelineVariant& variant = variants_[family.variants][id.member / zeros.size()];
  Split split = family.split;
  split.schedule = variant.schedule;
  split.virtual_stages = variant.virtual_stages;
  split.cut = variant.cut;
  split.zero = zeros[id.member % zeros.size()];
  return split;
}

std::vector<Split> PlanSpace::members(const PlanFamily& family) const {
  std::vector<Split> all;
  all.reserve(static_cast<std::size_t>(family.members));
  Split split = family.split;
  for (const PipelineVariant& variant : variants_[family.variants]) {
    split.schedule = variant.schedule;
    split.virtual_stages = variant.virtual_stages;
    split.cut = variant.cut;
    for (const int zero : zeros_for(split)) {
      split.zero = zero;
      all.push_back(split);
    }
  }
  return all;
}

Scenario PlanSpace::with(const Split& split) const {
  Scenario job = base_;
  job.cluster.nodes = split.nodes;
  job.batch = split.batch;
  job.strategy.accumulation.set(split.passes);
  plan::Parallel& parallel = job.parallel;
  parallel.tensor = split.tensor;
  parallel.context = split.context;
  parallel.expert = split.expert;
  if (split.whole_experts) parallel.expert_tensor = 1;
  parallel.pipeline = split.pipeline;
  parallel.schedule = split.schedule;
  parallel.virtual_stages = split.virtual_stages;
  if (split.cut != StageCut::kUsual) parallel.cuts = cuts_of(split);
  if (const auto* cuts = timed_cuts_of(split)) parallel.cuts = *cuts;
  parallel.zero = split.zero;
  parallel.recompute = split.recompute;
  parallel.sequence = split.sequence;
  parallel.context_by = split.context_by;
  return job;
}

Scenario PlanSpace::with(const ShapeKey& shape) const {
  const std::int64_t ranks = shape.tensor * shape.context * shape.stages;
  Scenario job = with(Split{.nodes = shape.nodes,
                            .tensor = shape.tensor,
                            .context = shape.context,
                            .expert = shape.expert,
                            .whole_experts = shape.whole_experts,
                            .pipeline = shape.stages,
                            .data = shape.nodes * base_.cluster.gpus_per_node / ranks,
                            .batch = shape.batch,
                            .recompute = shape.recompute,
                            .context_by = shape.context_by,
                            .sequence = shape.sequence});
  if (shape.stages == 1) job.parallel.cuts.clear();
  job.parallel.shard_ranks = 0;  // nothing is shared
  job.parallel.offload_weights = false;
  return job;
}

answer::PlanSettings PlanSpace::settings_of(const Split& split) const {
  answer::PlanSettings settings;
  const auto add = [&](std::string path, std::string value) {
    settings.emplace_back(std::move(path), std::move(value));
  };
  const auto count = [&](std::string path, std::int64_t value) { add(std::move(path), std::to_string(value)); };
  const plan::Parallel plain;
  if (node_counts_.size() > 1 || split.nodes != base_.cluster.nodes) count("nodes", split.nodes);
  count("parallel.tensor", split.tensor);
  count("parallel.pipeline", split.pipeline);
  count("parallel.context", split.context);
  count("parallel.expert", split.expert);
  if (split.tensor > 1 && has_experts_) count("parallel.expert_tensor", split.whole_experts ? 1 : split.tensor);
  count("parallel.data", split.data);
  count("batch", split.batch);
  count("global_batch", global_batch_);
  if (split.pipeline > 1) add("parallel.schedule", std::string(name_of(plan::kPipelineSchedules, split.schedule)));
  if (split.virtual_stages != plain.virtual_stages) count("parallel.virtual_stages", split.virtual_stages);
  if (split.cut != StageCut::kUsual) {
    add("parallel.layers_per_stage", layers_per_stage_text(cut_points_, cuts_of(split)));
  }
  count("parallel.zero", split.zero);
  add("parallel.recompute", std::string(name_of(plan::kRecomputes, split.recompute)));
  if (split.tensor > 1) add("parallel.sequence", split.sequence ? "yes" : "no");
  if (split.context > 1) add("parallel.context_by", std::string(name_of(plan::kContextWays, split.context_by)));
  add("precision", std::string(name_of(kPrecisions, base_.precision)));
  return settings;
}

PlanSpace PlanSpace::on(std::int64_t nodes, plan::Lowerer& lowerer, const IsOver& is_over) const {
  PlanSpace space = *this;
  space.base_.cluster.nodes = nodes;
  space.node_counts_ = {nodes};
  space.enumerate(lowerer, is_over);
  return space;
}

}  // namespace ddlsim::whatif
