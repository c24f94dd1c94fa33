// What the rows of a step take of links, and of the GPUs beside them. Private to the room.
#pragma once

#include <cstddef>
#include <vector>

#include "ddlsim/cost/price.h"
#include "slot_programs.h"

namespace ddlsim::step {

/// The server that a class's stage begins on, counted from the first stage's.
[[nodiscard]] std::size_t server_of(const plan::StepPlan& plan, std::size_t rank_class);

struct Moved {
  Time network{};  // for how long a port of its server has something to send
  Time peers{};    // and NVLink within it
  Time beside{};   // of collectives beside its kernels, all of their time
  Time lost{};     // and what kernels lose that run all that time
};

/// Of every class, of so many passes.
[[nodiscard]] std::vector<Moved> moved_of(const cost::PricedStep& step, const SlotPrograms& programs, double passes);

/// Of the GPU, what collectives beside a class's kernels hold while bytes move: without latency, which holds nothing.
[[nodiscard]] double held_by_bytes(const cost::PricedStep& step, const SlotPrograms& programs, std::size_t rank_class,
                                   double passes);

/// What the busiest link is busy for: a step is no shorter.
[[nodiscard]] Time busiest_link(const std::vector<Moved>& moved);

}  // namespace ddlsim::step
