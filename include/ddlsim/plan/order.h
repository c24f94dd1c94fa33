// In which order classes take the passes of their micro-batches.
//
// GPipe: F0 F1 ... Fm-1, then B0 ... Bm-1 on every stage. 1F1B: stage s of p takes min(m, p - s - 1) forward passes,
// then one forward and one backward in turn, then the backward passes that are left: it keeps at most p - s
// micro-batches. One class without stages: F0 B0 F1 B1 ... `order_of` joins the stages' sequences into one order in
// which nothing stands before what it waits for: forward of a stage after that of the one before, backward after that
// of the one behind. So who schedules or simulates takes the slots one by one and always finds what a slot needs.
// Sources: Huang et al., GPipe, NeurIPS 2019; Narayanan et al., SC 2021, section 2.2.
//
// Worked example: 2 stages, 4 micro-batches, 1F1B: stage 0: F0 F1 B0 F2 B1 F3 B2 B3; stage 1: F0 B0 F1 B1 F2 B2 F3 B3.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ddlsim/plan/parallel.h"
#include "ddlsim/support/error.h"

namespace ddlsim::plan {

/// One pass of one micro-batch through one stage.
struct Slot {
  std::size_t stage = 0;
  bool forward = true;
  std::int64_t micro_batch = 0;

  friend bool operator==(const Slot&, const Slot&) = default;
};

/// What one stage does, in its order.
[[nodiscard]] std::vector<Slot> stage_order(PipelineSchedule schedule, std::size_t stage, std::size_t stages,
                                            std::int64_t micro_batches);

/// All stages' sequences as one. Errors: kInvalidArgument, naming the slots that wait for each other, where the
/// sequences cannot be joined: a cyclic order.
[[nodiscard]] Expected<std::vector<Slot>> order_of(std::span<const std::vector<Slot>> stages);

}  // namespace ddlsim::plan
