// From a job to its step's plan: one function per way of splitting work, which compose. Nobody above this room asks
// which strategy it was.
//
//   data parallel     one class of alike replicas (two where some GPUs are slower), gradients as rows
//   (plan/messages.h):
//                     all-reduced in the data group, or pushed to servers and pulled; PEARL has no plan (cost/totals.h)
//   tensor  (t)       every layer is cut by rule (workload/shard.h); two reductions per block and pass in the way of
//                     kernels, in the tensor group (Megatron-LM, Shoeybi et al. 2019, figure 4)
//   zero    (1, 2, 3) gradients are reduce-scattered and weights all-gathered; at 3 weights are gathered before each
//                     layer's forward and backward, `prefetch` layers ahead (Rajbhandari et al., SC 2020)
//   pipeline (p)      a class per rank of the pipeline, with one stage or several parts of the model; activations and
//                     their gradients cross in every micro-batch (plan/order.h; where the model is cut: see below)
//   offload           gradients go to the host, the host updates, weights come back (ZeRO-Offload, Ren et al. 2021);
//                     where states are shared (zero) a rank's share of them
// The data-parallel degree is what the others leave: GPUs / (t p). Ranks fill servers in the order tensor, data,
// pipeline, so tensor groups are innermost.
//
// Stages are cut between a model's alike blocks, as many for each where that works out (what stands before the blocks
// goes with the first, head and loss with the last); otherwise so that the heaviest, by FLOPs, is as light as possible.
// DualPipe keeps two copies of every stage, so twice as many ranks share a gradient.
//
// Memory per class is lowered beside the rows (plan/memory.h), so that time and memory never disagree about who holds
// what. Limits: tensor degrees cut layers that keep their operator (a measured or fused layer does not); parameter
// servers, PEARL, priority, fusion by cycles and ideal overlap do not compose with splits of the model; sharded
// gradients are not compressed and go layer by layer; context and expert axes have no lowering yet.
//
// Worked examples (tests: test/unit/plan/lower_test.cpp): two layers with gradients of 10 MB each, 25 MiB buckets, four
// GPUs: one class of 4 ranks, one group of 4, one row of 20 MB ready after backward of layer 0. A transformer block cut
// in two: 4 rows in the way, after forward of the attention's and the MLP's last product and after backward of their
// first. Four layers under zero 3 on 4 GPUs: 8 gathers of a layer's weights / 4 per rank, 4 reduce-scatters.
#pragma once

#include <string_view>

#include "ddlsim/plan/job.h"
#include "ddlsim/plan/step_plan.h"
#include "ddlsim/support/error.h"

namespace ddlsim::plan {

/// Errors: kUnsupported for a model without layers, for PEARL, for measured layers that would be cut, and for settings
/// that contradict each other; kInvalidArgument for degrees that do not divide GPUs, layers or a layer's sizes.
[[nodiscard]] Expected<StepPlan> lower(const Job& job);

/// The model as its kernels run: fused where the job says so. Errors: kInvalidArgument where totals overflow.
[[nodiscard]] Expected<std::shared_ptr<const workload::Model>> model_as_run(const Job& job);

/// How a model that says nothing else is trained: as its source did, else by all-reduce.
[[nodiscard]] StrategyKind default_strategy(const workload::Model& model);

/// "all-reduce": the strategy in a word.
[[nodiscard]] std::string_view word_for(const Strategy& strategy);

/// Whether weights are held by servers beside the ranks.
[[nodiscard]] bool has_servers(const Strategy& strategy);

/// Whether the strategy is known by closed forms on a whole step's totals alone (PEARL).
[[nodiscard]] bool totals_only(const Strategy& strategy);

}  // namespace ddlsim::plan
