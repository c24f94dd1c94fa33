// How a model is split over ranks. `strategy` (plan/strategy.h) names the exchange of gradients among the replicas that
// are left; both are values of the job. What each split makes of a step is in plan/lower.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ddlsim/support/choices.h"

namespace ddlsim::plan {

/// In which order a stage takes the passes of its micro-batches.
enum class PipelineSchedule {
  kGpipe,                  // all forward passes, then all backward ones (Huang et al. 2019)
  kOneForwardOneBackward,  // 1F1B: a stage keeps at most as many micro-batches as stages follow it, and its own
                           // (PipeDream-flush, Narayanan et al. 2021)
};

inline constexpr Choices<PipelineSchedule, 3> kPipelineSchedules{{
    {"gpipe", PipelineSchedule::kGpipe},
    {"1f1b", PipelineSchedule::kOneForwardOneBackward},
    {"one-forward-one-backward", PipelineSchedule::kOneForwardOneBackward},
}};

struct Parallel {
  std::int64_t tensor = 1;    // ranks that share every large matrix (Megatron-LM)
  std::int64_t pipeline = 1;  // stages
  PipelineSchedule schedule = PipelineSchedule::kOneForwardOneBackward;
  /// The first layer of every stage but the first; empty: stages of equal numbers of layers.
  std::vector<std::size_t> cuts{};
  /// What the data-parallel ranks share instead of keeping a copy each: 1 optimizer states, 2 gradients too, 3 weights
  /// too (ZeRO, Rajbhandari et al. 2020).
  int zero = 0;
  std::int64_t prefetch = 1;       // zero 3: weights are gathered so many layers ahead
  bool offload_optimizer = false;  // states and update on the host; gradients and weights cross PCIe

  friend bool operator==(const Parallel&, const Parallel&) = default;
};

}  // namespace ddlsim::plan
