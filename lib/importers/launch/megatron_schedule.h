// How Megatron-LM runs a pipeline, by its arguments, whoever reads them: what it was started with, or its log.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ddlsim::importers {

/// What its arguments say of parts of layers. Nothing: None, or not said.
struct MegatronParts {
  std::int64_t stages = 1;                      // --pipeline-model-parallel-size
  std::optional<std::int64_t> layers{};         // of the model, with embedding and loss where they count as one
  std::optional<std::int64_t> of_a_rank{};      // --num-virtual-stages-per-pipeline-rank, --virtual-pipeline-...-size
  std::optional<std::int64_t> layers_of_one{};  // --num-layers-per-virtual-pipeline-stage
};

/// Parts of layers that a rank has: 1 without virtual stages. Nothing where the layers' number is not known; 0 where
/// they leave a remainder, which Megatron refuses. One stage has no virtual ones.
[[nodiscard]] constexpr std::optional<std::int64_t> megatron_chunks(const MegatronParts& parts) {
  if (parts.stages <= 1) return 1;
  if (parts.of_a_rank) return parts.of_a_rank;
  if (!parts.layers_of_one) return 1;
  if (!parts.layers) return std::nullopt;
  const std::int64_t all = parts.stages * *parts.layers_of_one;
  return *parts.layers % all == 0 ? *parts.layers / all : 0;
}

/// A word of parallel.schedule (megatron/core/pipeline_parallel/schedules.py, get_forward_backward_func); empty without
/// a pipeline.
[[nodiscard]] constexpr std::string_view megatron_schedule(std::int64_t stages, std::int64_t chunks) {
  return stages <= 1 ? "" : chunks > 1 ? "interleaved" : "1f1b";
}

}  // namespace ddlsim::importers
