// What layers keep for backward: all of it, the cores of attention apart, or what recomputation starts from.
#include <algorithm>
#include <span>

#include "ddlsim/plan/software.h"
#include "memo.h"
#include "splits.h"

namespace ddlsim::plan {
namespace {

/// Whether products read 16-bit copies of weights that stay: not where ranks gather weights in that format. An
/// optimizer on the host leaves the weights of 32 bits, which cross PCIe and are read so, where they were.
bool casts_weights(const Job& job) {
  const bool loaded = job.parallel.lora_rank > 0 && !job.parallel.states;  // frozen_weight
  const bool wide = job.parallel.states.value_or(States::kFp32) == States::kFp32 && !loaded;
  return wide && !is_single(job.precision) && job.parallel.zero < 3 && job.parallel.frozen_bits == 0;
}

/// transformers' T5 by PyTorch's scaled_dot_product_attention, which takes no fused kernel with a bias that is trained.
bool composes_biased(const Job& job) {
  constexpr double kSince = 2026;  // kernels of bench/calibrate/measured; before, scores were in the model's format
  return in_single_operations(job) && job.software_year.get().value_or(0) >= kSince;
}

ActivationCut activation_cut_of(const Job& job) {
  return {.tensor = job.parallel.tensor,
          .context = job.parallel.context,
          .sequence = job.parallel.sequence,
          .batch = job.batch,
          .precision = job.precision,
          .expert_load = expert_load(job.parallel),
          .single = in_single_operations(job),
          .whole_experts = has_whole_experts(job.parallel),
          .autocast = job.parallel.states.value_or(States::kFp32) == States::kFp32 && job.software_fused.get() == false,
          .casts = casts_weights(job),
          .adapters = job.parallel.lora_rank > 0 ? std::optional(job.parallel.lora_products) : std::nullopt,
          .composed = composes_biased(job),
          .quantised = is_cast(job.precision) && !in_single_operations(job) && job.parallel.lora_rank == 0,
          .gated_fp8 = job.parallel.gated_fp8};
}

double elements_of(const workload::Shape& shape) {
  double elements = 1;
  for (const std::int64_t size : shape) elements *= static_cast<double>(size);
  return elements;
}

}  // namespace

DataSize between_layers(const Job& job, double elements) {
  const auto ranks = static_cast<double>(job.parallel.context * (job.parallel.sequence ? job.parallel.tensor : 1));
  return activation_size(job.precision) * (elements * static_cast<double>(job.batch) * (1.0 / ranks));
}

bool keep_input(Plainly& plain, std::size_t first, std::size_t last, DataSize input) {
  DataSize all;  // up to a layer: what is behind it is gone when its backward runs
  for (std::size_t i = first; i < last; ++i) plain.again[i] = all += plain.kept[i];
  if (all == DataSize::zero()) return false;  // frozen
  for (std::size_t i = first; i < last; ++i) plain.kept[i] = plain.casts[i] = DataSize::zero();
  plain.kept[first] = input;
  return true;
}

namespace {

Plainly with_recomputation(const Job& job, const StepPlan& plan, const ActivationCut& cut,
                           const std::vector<workload::Block>& blocks) {
  // Kernels that were joined are no longer operators; what they keep is what these do.
  std::vector<workload::Layer> operators;
  const workload::Fusion fusion = fusion_as_run(job);
  if (fusion.pointwise) {
    operators = workload::fused(job.model->layers, {.attention = fusion.attention, .apart = fusion.apart});
  }
  const std::vector<workload::Layer>& layers = fusion.pointwise ? operators : plan.model->layers;
  const std::vector<KeptActivations> all = kept_activations(layers, cut);
  const bool selective = job.parallel.recompute == Recompute::kSelective;
  Plainly plain;
  for (const KeptActivations& one : all) {
    plain.kept.push_back(selective ? one.always : one.always + one.core);
    plain.casts.push_back(one.casts);
    plain.again.push_back(selective ? one.core : DataSize::zero());
    plain.loss.push_back(one.loss);
    plain.gradients.push_back(one.working);
  }
  // A batch stands as it was copied, beside what products read of it in another format.
  const DataSize batch = job.model->input_per_sample;
  const bool convolves = job.model->totals.convolutional && !job.model->layers.empty();
  if (convolves && batch != activation_size(job.precision) * elements_of(job.model->layers.front().in)) {
    plain.kept.front() += batch * static_cast<double>(job.batch);
  }
  const bool per_op = job.parallel.recompute == Recompute::kPerOp;
  if (!per_op && job.parallel.recompute != Recompute::kFull) return plain;
  const auto every = per_op ? 1 : static_cast<std::size_t>(std::max<std::int64_t>(job.parallel.recompute_every, 1));
  const auto again = per_op ? 1 : static_cast<std::size_t>(std::max<std::int64_t>(job.parallel.recompute_first, 1));
  std::size_t bodies = 0;
  for (const workload::Block& one : blocks) {
    if (!one.body || bodies++ % every >= again) continue;
    const std::size_t first = one.first;
    const std::size_t last = one.first + one.count;
    const DataSize input = between_layers(job, elements_of(layers[first].in));
    if (!keep_input(plain, first, last, input) || !per_op) continue;
    const std::vector<bool> outputs = kept_per_op(std::span(layers).subspan(first, one.count), job.precision);
    for (std::size_t i = first; i < last; ++i) {
      if (outputs[i - first]) plain.kept[i] += all[i].output;
    }
  }
  return plain;
}

}  // namespace

const Plainly& kept_by(const Job& job, const StepPlan& plan, Memo& memo) {
  const KeptKey key{.model = plan.model.get(),
                    .cut = activation_cut_of(job),
                    .recompute = job.parallel.recompute,
                    .recompute_every = job.parallel.recompute_every,
                    .recompute_first = job.parallel.recompute_first};
  auto found = memo.kept.find(key);
  if (found == memo.kept.end()) {
    found = memo.kept.emplace(key, with_recomputation(job, plan, key.cut, blocks_in(plan.model, memo).blocks)).first;
  }
  return found->second;
}

}  // namespace ddlsim::plan
