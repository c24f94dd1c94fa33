// Degrees that a model's layers and a cluster's GPUs take: what is in the way of others, and which are left.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "ddlsim/workload/blocks.h"
#include "splits.h"

namespace ddlsim::plan {
namespace {

std::string divisors_of_count(std::int64_t count) {
  std::string list;
  for (std::int64_t d = 1; d <= count && d <= 1024; ++d) {
    if (count % d == 0) list += (list.empty() ? "" : ", ") + std::to_string(d);
  }
  return list;
}

/// Degrees that expert groups can have; whole experts are on whole tensor groups.
tl::unexpected<Error> bad_experts(const Parallel& parallel, std::int64_t replicas) {
  std::string valid;
  for (const std::int64_t degree : expert_degrees(parallel, replicas)) {
    valid += (valid.empty() ? "" : ", ") + std::to_string(degree);
  }
  std::string among = std::to_string(replicas) + " data-parallel ranks";
  if (parallel.context > 1) among += " of " + std::to_string(parallel.context) + " context ranks";
  if (has_whole_experts(parallel)) among += " of " + std::to_string(parallel.tensor) + " tensor ranks";
  Error error{ErrorCode::kInvalidArgument,
              "expert degree " + std::to_string(parallel.expert) + " makes no even groups of " + among,
              {},
              {"valid: " + valid},
              {}};
  Parallel whole = parallel;
  whole.expert_tensor = 1;
  if (!has_whole_experts(parallel) && expert_ranks(whole, replicas)) {
    error.notes.emplace_back(
        "with parallel.expert_tensor 1 experts are whole, and tensor ranks share them as well (Megatron-LM's "
        "--expert-tensor-parallel-size 1)");
  }
  return tl::unexpected<Error>(std::move(error));
}

tl::unexpected<Error> bad_degree(std::string what, std::string note) {
  return fail(ErrorCode::kInvalidArgument, std::move(what), {}, {std::move(note)});
}

/// What a degree would have to divide.
struct Undivided {
  Axis axis = Axis::kTensor;
  const workload::Layer* layer = nullptr;
  std::int64_t size = 0;
  std::string_view what;
};

/// Of attention over a tensor group: its heads; fewer key heads than ranks are copied.
std::optional<Undivided> undivided_heads(const workload::Layer& layer, std::int64_t ranks) {
  const auto* grouped = std::get_if<workload::GroupedAttention>(&*layer.op);
  const auto* plain = std::get_if<workload::Attention>(&*layer.op);
  const std::int64_t heads = grouped != nullptr ? grouped->heads : plain->heads;
  const std::int64_t keys = grouped != nullptr ? grouped->kv_heads : 0;
  if (heads % ranks != 0) return Undivided{Axis::kTensor, &layer, heads, "heads"};
  const bool copied = keys == 0 || (keys < ranks && ranks % keys == 0);
  if (!copied && keys % ranks != 0) return Undivided{Axis::kTensor, &layer, keys, "key heads"};
  return std::nullopt;
}

/// Of a model's first attention and its first experts, as the others are; the rest is found where layers are cut.
std::optional<Undivided> undivided_by(const workload::Model& model, const Parallel& parallel) {
  const auto first = [&](auto&& is) {
    return std::find_if(model.layers.begin(), model.layers.end(),
                        [&](const workload::Layer& layer) { return layer.op && is(*layer.op); });
  };
  if (parallel.tensor > 1) {
    const auto attention = first([](const workload::Op& op) {
      return std::holds_alternative<workload::GroupedAttention>(op) || std::holds_alternative<workload::Attention>(op);
    });
    if (attention != model.layers.end()) {
      if (auto heads = undivided_heads(*attention, parallel.tensor)) return heads;
    }
  }
  if (parallel.expert > 1) {
    const auto layer = first([](const workload::Op& op) { return std::holds_alternative<workload::Experts>(op); });
    if (layer == model.layers.end()) return std::nullopt;
    const std::int64_t experts = std::get<workload::Experts>(*layer->op).experts;
    if (experts % parallel.expert != 0) return Undivided{Axis::kExpert, &*layer, experts, "experts"};
  }
  return std::nullopt;
}

/// Whether every axis has its GPUs.
bool shares_gpus(const Parallel& parallel, std::int64_t gpus) {
  const std::int64_t model = parallel.tensor * parallel.context;
  if (gpus % model != 0 || gpus / model % parallel.pipeline != 0) return false;
  return expert_ranks(parallel, gpus / model / parallel.pipeline).has_value();
}

std::int64_t& degree_of(Parallel& parallel, Axis axis) {
  switch (axis) {
    case Axis::kTensor: return parallel.tensor;
    case Axis::kContext: return parallel.context;
    case Axis::kExpert: return parallel.expert;
    case Axis::kPipeline:
    case Axis::kData: break;  // replicas are what the others leave
  }
  return parallel.pipeline;
}

/// A stage has a block at least.
std::int64_t most_stages(const workload::Model& model) {
  const auto blocks = workload::blocks_of(model.layers);
  return std::count_if(blocks.begin(), blocks.end(), [](const workload::Block& block) { return block.body; });
}

}  // namespace

std::string legal_degrees(const Job& job, Axis axis) {
  constexpr std::int64_t kMostListed = 1024;
  const std::int64_t gpus = job.cluster.gpus();
  const std::int64_t most = axis == Axis::kPipeline ? std::min(gpus, most_stages(*job.model)) : gpus;
  Parallel one = job.parallel;
  std::int64_t& degree = degree_of(one, axis);
  std::string list;
  for (degree = 1; degree <= std::min(most, kMostListed); ++degree) {
    if (gpus % degree != 0) continue;
    if (one.expert_tensor > 1) one.expert_tensor = one.tensor;
    if (!shares_gpus(one, gpus) || undivided_by(*job.model, one) || !stands_on(one, job.cluster)) continue;
    list += (list.empty() ? "" : ", ") + std::to_string(degree);
  }
  return list;
}

Expected<void> check_parts(const Job& job) {
  const auto undivided = undivided_by(*job.model, job.parallel);
  if (!undivided) return {};
  const bool tensor = undivided->axis == Axis::kTensor;
  const std::string legal = legal_degrees(job, undivided->axis);
  return bad_degree("layer '" + undivided->layer->name + "': " + (tensor ? "tensor" : "expert") + " degree " +
                        std::to_string(tensor ? job.parallel.tensor : job.parallel.expert) + " does not divide " +
                        std::to_string(undivided->size) + " " + std::string(undivided->what),
                    "valid: " + (legal.empty() ? divisors_of_count(undivided->size) : legal));
}

Expected<void> check_degrees(const Job& job) {
  const Parallel& parallel = job.parallel;
  const std::int64_t gpus = job.cluster.gpus();
  const std::int64_t model = parallel.tensor * parallel.context;
  if (gpus % model != 0 || gpus / model % parallel.pipeline != 0) {
    const std::string context = parallel.context > 1 ? " times context " + std::to_string(parallel.context) : "";
    return bad_degree(
        std::to_string(gpus) + " GPUs are not a multiple of tensor " + std::to_string(parallel.tensor) + context +
            " times pipeline " + std::to_string(parallel.pipeline),
        "their product is valid where it is one of " + divisors_of_count(gpus) + "; replicas are what it leaves");
  }
  const std::int64_t replicas = gpus / model / parallel.pipeline;
  if (parallel.expert_tensor > 1 && parallel.expert_tensor != parallel.tensor) {
    return bad_degree("experts cut over " + std::to_string(parallel.expert_tensor) + " ranks, the other layers over " +
                          std::to_string(parallel.tensor),
                      "valid: parallel.expert_tensor 1 (whole experts)" +
                          (parallel.tensor > 1 ? ", " + std::to_string(parallel.tensor) : std::string()));
  }
  if (expert_ranks(parallel, replicas)) return {};
  return bad_experts(parallel, replicas);
}

}  // namespace ddlsim::plan
