// Where a model is cut into the parts of a pipeline.
//
// Between blocks (workload/blocks.h): what stands before the first of those that repeat belongs to the first part, what
// follows the last (head and loss) to the last. Where they are alike and parts divide them every part gets as many
// (Megatron-LM), and the last the head as well; where that makes it much heavier than others `lighter_cuts` has better
// ones, which a job states (parallel.layers_per_stage) and a plan search tries. Where they divide two more, what stands
// before the blocks and what follows count as one each (--account-for-embedding-in-pipeline-split,
// --account-for-loss-in-pipeline-split: Llama 3.1 405B's 126 in 128 parts). Else parts are contiguous and the heaviest
// weighs as little as possible:
//   w(piece) = FLOPs of forward and backward as a share of the model's + 1e-6 x the same share of elements read and
//              written + 1e-12 x its share of the layers
// so that elements and layers decide between equals alone. Models without blocks of attention have a layer's time for
// its FLOPs: the larger of FLOPs / peak and bytes / bandwidth of the GPU, as whoever cuts such a model measures first
// (torchgpipe.balance.balance_by_time, PipeDream's profiler); by FLOPs the first stage of a CNN, whose large images
// wait for memory, takes up to twice as long as the others. Among cuts that are equally good the first parts have less,
// as they keep the most micro-batches. Models without blocks enough are cut between layers, but not within a
// transformer's block (at most three residual sums: of attention, cross-attention and MLP), which is what Megatron-LM,
// DeepSpeed and torchtitan count by.
//
// The least weight of the heaviest part is found by bisection between weights that parts do have: every try ends with
// the heaviest part that it made, or with the least weight that would have changed it.
//
// Source: none; the classical partition of a chain by a bound on the heaviest part (Bokhari 1988 and after).
// Limits: every rank as fast as every other (PipeDream's partition for unequal ones: plan/partition.h). Who knows
// prices has better cuts of CNNs and RNNs (plan/timed_cuts.h): whatif states them as a job's, for `lower` has no times.
//
// Worked example: pieces of 3, 1, 2, 2 shares in two parts. 4 | 4 is best; at a bound of 3.9 the last part takes 2 and
// 2 would be 4 > 3.9 with it, so that nothing below 4 can do. A P40 (11.76 TFLOP/s, 346 GB/s) does 11.76e12 x 4 / 346e9
// = 136 FLOPs while it moves an element of fp32: a batch norm that moves 4e6 weighs 544e6 FLOPs, whatever its own are.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ddlsim/support/units.h"
#include "ddlsim/workload/blocks.h"

namespace ddlsim::plan {

/// What layers weigh where parts are balanced.
struct LayerLoads {
  std::vector<Work> work;        // forward and backward, of a sample
  std::vector<double> elements;  // read and written, of a sample
  std::vector<double> weights;   // elements of weights read and written, whatever the batch
  Work per_element{};            // that the GPU does while it moves one; 0: nobody says
};
[[nodiscard]] LayerLoads loads_of(std::span<const workload::Layer> layers);
/// The same where bodies among the blocks run forward again in backward (full recomputation).
[[nodiscard]] LayerLoads loads_with_blocks_again(std::span<const workload::Layer> layers,
                                                 std::span<const workload::Block> blocks);

/// Where a model may be cut between blocks; what stands between bodies goes with the one before it.
struct CutPoints {
  std::vector<std::size_t> starts;  // layers
  std::size_t first_body = 0;       // where the first body itself begins: what stands before it may be a part alone
  std::size_t after_bodies = 0;     // the layer behind the last body; the layers' number where nothing follows
  bool repeated = false;            // bodies with attention
  bool even = false;                // all alike, with nothing between them
};
[[nodiscard]] CutPoints cut_points_of(std::span<const workload::Block> blocks, const LayerLoads& loads);

/// Whether so many parts are alike when what stands before the first body and behind the last count as a body each, and
/// are not without.
[[nodiscard]] bool counts_ends(const CutPoints& points, std::size_t layers, std::size_t parts);

/// Parts of a model, at most, ends apart: its transformer blocks, which nobody cuts within; else its layers.
[[nodiscard]] std::size_t most_parts(std::span<const workload::Layer> layers);

/// Where the positions of a pipeline begin.
struct StageStarts {
  std::vector<std::size_t> first;  // layer of each, in the order in which a micro-batch meets them; the layers' number
  bool anyhow = false;             // of any job that has as many: they follow from the model's blocks, or were stated
};
/// What the pieces weigh between which parts are cut, for one micro-batch; empty: nobody has asked yet.
struct PieceWeights {
  std::vector<double> blocks;
  std::vector<double> layers;
};
/// Of so many parts, at most as many as layers, with micro-batches of `batch` samples.
[[nodiscard]] StageStarts balanced_starts(const CutPoints& points, const LayerLoads& loads, double batch,
                                          std::size_t parts);
/// The same for many numbers of parts, with the weights of that micro-batch.
[[nodiscard]] StageStarts balanced_starts(const CutPoints& points, const LayerLoads& loads, double batch,
                                          std::size_t parts, PieceWeights& weights);

/// Cuts between blocks (as Parallel::cuts) of so many parts with the lightest heaviest one, where parts of as many
/// blocks each are what a job gets and have one that is a twentieth heavier. Empty: there are none.
[[nodiscard]] std::vector<std::size_t> lighter_cuts(const CutPoints& points, const LayerLoads& loads,
                                                    std::size_t parts);

}  // namespace ddlsim::plan
