// A loader and the GPU it feeds, batch by batch, as a Program: what cost/loader.h has in closed form.
//
// Batch i of w workers is made by worker i mod w when it has made its last one and batch i - pw is taken: it holds
// storage, network and processors one after the other, each a stream that serves batches in turn, then the rest of the
// worker's time. Batches are taken in order, through the process that receives them; the next one is taken when the GPU
// has done with the one before. Stages of a pipelined loader work on different batches, and each keeps one until the
// next has room. Where times vary, what processors and workers do takes f(i) times as long, drawn as
// cost::varied_share does.
//
// Laws (tested): without variation the wait is cost::wait_for_batch, to 1e-9; with it, within 2 % of a step where
// workers or processors bound. Limits: as there. Where storage bounds and times vary, the closed form lets the wait
// vary with them, and here storage does not. Worked example: 2 workers of 6 ms, a GPU of 2 ms: a batch every 3 ms, a
// wait of 1.
#pragma once

#include <cstdint>

#include "ddlsim/cost/loader.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"

namespace ddlsim::events {

/// What the GPU waits for each batch, on average over the second half of at least `batches`. Errors: kInvalidArgument
/// for no batches or over 100,000, or over 1,000 workers.
[[nodiscard]] Expected<Time> simulate_input(const cost::BatchPipeline& pipeline, Time consumer, std::int64_t batches,
                                            std::uint64_t seed);

}  // namespace ddlsim::events
