// What a step answers to: elasticities of every rate, fixed time and size, and a tornado of the model's constants.
//
//   elasticity  E(x) = d ln(step) / d ln(x) = ln(T(h x) / T(x / h)) / (2 ln h),  h = 1.01
//
// -0.6 of a rate: one per cent more of it shortens the step by 0.6 %. Where two things finish at once the derivative
// has two sides; this is their mean. A size moves the step in jumps (a bucket or a piece more or less), and so does
// everything where a coordinator wakes in cycles (Horovod): there h = 1.1, over many of them. The step with half and
// with twice the setting says more.
//
// The doubling law: with every rate twice as large and every fixed time half as long a step takes half as long, so that
//   sum of E(rates) - sum of E(fixed times) = -1
// less what the model's own constants take, which no setting changes: base latencies and caps of NCCL's tuner, launches
// inside a profile's curves. `own_constants` is what the settings leave of that sum. Shares (efficiency.*) and sizes
// are no part of it.
//
// The tornado moves one constant at a time between the ends of what is known of it:
//   software effects       5 % and 95 % of the resampled sources (hardware/software.h)
//   the profile's curves   90 % of what they err by on shapes that were held out (cost/kernel_time.h)
//   kernels without a profile  measured over predicted time of published steps, 0.60 to 2.23 (whatif/predict.h)
//   an assumed transport   RDMA to TCP
//   all else               10 % either way, a convention: nobody measured their spread
//
// Worked example: a step of 1 s of which 0.6 s is exposed communication over the network, at the network's rate alone,
// has E(network) = -0.6, and twice the network gives 0.7 s.
#pragma once

#include <span>

#include "ddlsim/answer/sensitivity.h"
#include "ddlsim/io/catalog.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

/// Errors: those of resolve and predict.
[[nodiscard]] Expected<answer::Sensitivity> elasticities(const io::Catalog& catalog, std::span<const Override> base);

/// Of a scenario in hand.
[[nodiscard]] Expected<answer::Sensitivity> elasticities(const Scenario& scenario);

}  // namespace ddlsim::whatif
