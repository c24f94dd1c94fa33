// The best way to split a job: every legal plan of a model on a cluster at a global batch, compared exactly.
//
// A plan chooses, of what nobody stated:
//   tp, cp, ep, pp      divisors of the GPUs; data-parallel replicas are what they leave
//   batch               the micro-batch: divisors of a replica's share of the global batch
//   schedule            of a pipeline, of those that train what one GPU would: gpipe, 1f1b, interleaved (chunks of
//                       equally many blocks; of stages that no number gives equally many, any), zb-h1, zb-h2, zbv,
//                       dualpipe. Schedules that change what is trained (pipedream) or that overlap nothing (none) are
//                       compared where they are stated
//   zero                0 to 3 where there are replicas;  recompute: none, selective, full
//   sequence            where tp > 1;  context_by: ring, ulysses where cp > 1
//   nodes               only with PlanOptions::nodes_up_to: 1, 2, 4, ... and that many
// Schedules, zero and recompute may be stated as lists, "1f1b,interleaved": plans choose among these.
// With strategy pearl nothing but the micro-batch is to choose: it spreads tables over whole replicas.
// What plan/lower.h refuses is no plan. So is what does not fit the GPU's memory.
//
// Search: best first, branch and bound. Every plan has a lower bound of its step time; the plan with the least bound is
// looked at more closely until the plans that are left cannot be among those that are shown:
//   1  T >= max over stages s of  pre(s) + m W(s) + post(s), and the GPUs' wait for the slowest of them
//      W(s) forward and backward of a micro-batch in stage s, reductions in the way of kernels included; pre(s),
//      post(s) what the first micro-batch passes before it comes there and the last one after it left (schedules of one
//      chunk per rank in order; of others what is proved of them). Prices of kernels and collectives are worked out
//      once for each (tp, cp, ep, micro-batch, recompute, sequence) and shared by all plans that have them. All-to-alls
//      count for nothing under dualpipe, which may hide them. And T >= a micro-batch's way there and back, with the
//      slowest part's other micro-batches
//   2  the exchange among replicas: T >= pre(s) + m W(s) - B(s) + (what is sent once after a backward pass), and
//      T >= m (what is sent in every pass) of a channel; of any order T >= (all passes of a rank but its last) + (what
//      that last one makes ready); updates and weights that travel after it on top; with zero 3 a rank stands still for
//      the weights with which a forward pass of it begins
//   3  T >= what a rank takes that waits for its own messages alone, pass by pass (search/plan_rank.h), for the last
//      rank and one in the middle, with what the others take before its first pass and after its last one
//   4  the step of whatif/predict.h itself
// Memory is a plan's own: a lower bound of it (what is held on average over the stages) comes first, then that of its
// first, its last and its likely fullest rank, then the ledger of plan/lower.h. That no bound is above what it bounds
// is tested over whole spaces. The result is that of trying every plan (tested); only a limit of time may end it early,
// and is said. Some plan is predicted soon: the likely best of a few families from all over a large space, before all
// have a bound, and of the most promising so far when half of the time is over. What was not looked at by the end is
// not counted. The list of plans takes half of the time at most; of all of it a tenth is for what would change the
// choice.
//
// The next best are those that differ: a plan with the same servers and tensor, pipeline, context and expert ranks as a
// better one that is shown is left out unless it holds at least 2 % less or, compared by memory or cost, takes or costs
// at least 0.5 % less. Where the best has a schedule that Megatron-LM has not (zb-h1, zb-h2, zbv,
// dualpipe), what its own (1f1b, interleaved) would take is searched after that, for half as long again at most, and
// noted.
//
// Where a server's GPUs are no power of two and nobody states how many work, what as many as are one would do is
// searched too (64 of an NVL72's 72, whose factor of 9 few models and batches have), and said where it is faster, or
// where no plan is legal on all of them.
//
// The front of step time, memory and money ends at twice the best one's step where plans of one cluster are compared by
// time: nobody saves memory at that price, and most of the plans that might be on it need not be looked at.
//
// Sources: branch and bound with a best-first order, Land and Doig 1960; the space: Narayanan et al., SC 2021; Isaev
// et al., Calculon, SC 2023.
// Limits: the analytic fidelity alone; no parameter servers; one split for all stages; layers per stage as plan/lower.h
// has them unless stated. Offload, LoRA, formats of states, overlap inside tensor groups, prefetch and sharding within
// a part of the replicas are as stated.
//
// Worked example: 2 GPUs, a batch of 2 of a model that only data parallelism and two stages can split. Two replicas of
// one pass, or two stages with a micro-batch of 2 (one pass) or of 1 (two passes, gpipe or 1f1b): with two layers of
// equal work of 3 ms per sample and nothing to send 3 ms for the replicas, 6 ms for one pass of 2 samples after the
// other stage's, (2 + 1) x 1.5 ms = 4.5 ms for two passes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ddlsim/answer/plan_choice.h"
#include "ddlsim/io/catalog.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"
#include "ddlsim/whatif/clock.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

struct PlanOptions {
  answer::PlanObjective objective = answer::PlanObjective::kTime;
  std::optional<PriceRate> price{};           // of one server; nothing: the catalogue's, where it has one
  Time limit = seconds(60);                   // after which the best so far is answered
  std::size_t next = 5;                       // beside the best
  std::optional<std::int64_t> nodes_up_to{};  // clusters of fewer servers are compared too
  bool explain = true;                        // why the best wins, and what would change it
  std::size_t kept_layers = 8'000'000;        // cut and priced, that are kept for further plans: a bound of memory
};

/// Drops what scenario files state of what plans choose, as what an import writes of a launch script; what was stated
/// without a file, by a flag, stays.
void choose_anew(std::vector<Override>& settings);

/// Errors: as resolve; kInvalidArgument for a batch that no plan shares evenly, or stated degrees that no plan can have
/// (the legal ones are listed); kInfeasible for a model that fits in no plan: the smallest cluster that would, and what
/// is missing; kOutOfTime where the limit came before any plan that fits; kUnsupported for parameter servers, models
/// without layers and other fidelities.
[[nodiscard]] Expected<answer::PlanChoice> search_plans(const io::Catalog& catalog, std::span<const Override> stated,
                                                        const PlanOptions& options, const Clock& clock);

/// The same by predicting every legal plan: the oracle of the tests.
[[nodiscard]] Expected<answer::PlanChoice> try_every_plan(const io::Catalog& catalog, std::span<const Override> stated,
                                                          const PlanOptions& options, const Clock& clock);

}  // namespace ddlsim::whatif
