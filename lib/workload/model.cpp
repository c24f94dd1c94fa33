#include "ddlsim/workload/model.h"

#include <algorithm>
#include <variant>

#include "ddlsim/support/checked.h"

namespace ddlsim::workload {
namespace {

constexpr DataSize kFp32 = bytes(4);

double as_double(std::int64_t count) { return static_cast<double>(count); }

bool is_depthwise(const primitives::Kernel& kernel) {
  const auto* shape = std::get_if<primitives::ConvolutionShape>(&kernel.shape);
  return shape != nullptr && shape->groups > 1 && shape->groups == shape->in;
}

}  // namespace

Work computed_again(const Layer& layer) {
  const bool fused =
      !layer.backward.empty() && std::holds_alternative<primitives::FusedAttention>(layer.backward.front().shape);
  return fused ? max(layer.backward_work - layer.forward_work * 2.0, Work::zero()) : Work::zero();
}

Expected<Totals> total(const std::vector<Layer>& layers) {
  Totals totals;
  bool fits = true;
  const auto add = [&fits](std::int64_t& sum, std::int64_t term) {
    constexpr std::int64_t kMost = std::int64_t{1} << 62;
    const auto result = checked_add(sum, term);
    fits = fits && result && *result <= kMost;
    sum = fits ? *result : 0;
  };
  Work convolved;
  for (const Layer& layer : layers) {
    totals.forward_work += layer.forward_work;
    totals.backward_work += layer.backward_work;
    totals.computed_again += computed_again(layer);
    add(totals.saved_elements, layer.saved_elements);
    if (layer.forward_work == Work::zero()) {
      add(totals.memory_bound_elements, layer.forward_elements);
      add(totals.memory_bound_elements, layer.backward_elements);
    }
    for (const std::int64_t elements : layer.parameters) {
      add(layer.sparse_gradient ? totals.sparse_parameters : totals.dense_parameters, elements);
    }
    add(totals.frozen_parameters, layer.frozen_elements);
    add(totals.gradient_tensors, static_cast<std::int64_t>(layer.parameters.size()));
    if (layer.sparse_gradient) totals.sparse_tables.push_back({layer.parameters.front(), layer.sparse_elements});
    totals.kernels += layer.forward_kernels + layer.backward_kernels;
    totals.depthwise = totals.depthwise || std::any_of(layer.forward.begin(), layer.forward.end(), is_depthwise);
    if (!layer.op) continue;
    totals.attention = totals.attention || std::holds_alternative<Attention>(*layer.op) ||
                       std::holds_alternative<GroupedAttention>(*layer.op);
    totals.recurrent = totals.recurrent || std::holds_alternative<Lstm>(*layer.op);
    if (std::holds_alternative<Convolution>(*layer.op)) convolved += layer.forward_work + layer.backward_work;
  }
  totals.convolutional = convolved * 2.0 > totals.forward_work + totals.backward_work;
  if (!fits) return fail(ErrorCode::kInvalidArgument, "the model's totals exceed 2^62 elements");
  return totals;
}

double sparse_gradient_elements(const Model& model, std::int64_t batch) {
  double sum = 0;
  for (const SparseTable& table : model.totals.sparse_tables) {
    sum += touched_elements(table, batch);
  }
  return sum;
}

double gradient_elements(const Model& model, std::int64_t batch) {
  return as_double(model.totals.dense_parameters) + sparse_gradient_elements(model, batch);
}

bool has_experts(const Model& model) {
  return std::any_of(model.layers.begin(), model.layers.end(),
                     [](const Layer& layer) { return layer.op && std::holds_alternative<Experts>(*layer.op); });
}

StepFeatures features_at(const Model& model, std::int64_t batch, Precision precision) {
  const double samples = as_double(batch);
  if (model.features) {
    StepFeatures scaled = *model.features;
    const double scale = samples / as_double(model.batch);
    scaled.flops = scaled.flops * scale;
    scaled.memory_access = scaled.memory_access * scale;
    scaled.input = scaled.input * scale;
    return scaled;
  }
  const Totals& totals = model.totals;
  const double updated = gradient_elements(model, batch);
  return {
      .flops = (totals.forward_work + totals.backward_work) * samples,
      .memory_access = activation_size(precision) * (as_double(totals.memory_bound_elements) * samples) +
                       kFp32 * (updated * update_accesses(model.optimizer)),
      .input = model.input_per_sample * samples,
      .weight_traffic = kFp32 * (2.0 * updated),
      .dense_weights = kFp32 * (as_double(totals.dense_parameters) * (1 + state_values(model.optimizer)) +
                                as_double(totals.frozen_parameters)),
      .embedding_weights = kFp32 * (as_double(totals.sparse_parameters) * (1 + state_values(model.optimizer))),
  };
}

std::optional<std::int64_t> tokens_of(const Model& model) {
  if (model.sample != "sequence") return std::nullopt;
  for (const auto& [name, size] : model.dimensions) {
    if (name == "sequence") return size;
  }
  return std::nullopt;
}

}  // namespace ddlsim::workload
