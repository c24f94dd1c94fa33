// Stages of a chain of layers with replicas of their own: PipeDream's partition, by dynamic programming.
//
// A stage is layers i..j on m workers that take turns with whole micro-batches and sum their gradients among
// themselves. A micro-batch then leaves it every
//   T(i..j, m) = ( sum of forward and backward times + 4 (m-1) W / (m B) / g ) / m
// W weights of i..j, B a worker's bandwidth, g workers of a machine that share the sum (1: a flat network). A pipeline
// that never empties is as fast as its slowest stage:
//   A(j, n) = min( T(0..j, n),  min over k < j, m < n of max( A(k, n-m), T(k+1..j, m) ) )
// and all workers are used. Of equal partitions the one with the shorter last stage is taken, then the one with fewer
// workers on it. Workers of several kinds stand in the order in which stages take them; a stage on workers of different
// speed is as fast as its slowest (they take turns evenly).
// Source: Narayanan et al., PipeDream, SOSP 2019, section 3.1; the cost function is that of the authors' code
// (github.com/msr-fiddle/pipedream, optimizer/optimizer_graph_hierarchical.py at 7db6a1c), which adds computing and
// communication where the paper's text takes the larger.
// Limits: activations cross stages for nothing (as in that code, unless they are compressed); one level of machines; no
// limit of memory; a chain: what a graph's branches would forbid is the caller's to join.
//
// Worked example: three layers of 2, 2 and 4 ms, the last with 8 MB of weights, on two workers of 1 GB/s. One stage of
// two replicas: (8 + 4 (1/2) 8) / 2 = 12 ms; cut before the last layer: max(4, 4) = 4 ms. The same on workers of
// 1 and 2 times that speed: layers 1 | 2 and 3: max(2, 6 / 2) = 3 ms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"

namespace ddlsim::plan {

struct ChainLayer {
  std::vector<Time> times{};  // forward and backward of a micro-batch, on each kind of worker
  DataSize weights{};
};

struct Workers {
  std::vector<std::size_t> kinds;  // of each worker, in the order in which stages take them
  Bandwidth bandwidth{};           // of one
  std::int64_t per_machine = 1;    // of a machine that share a sum
};

struct ReplicatedStage {
  std::size_t first = 0;  // layer
  std::size_t count = 0;
  std::int64_t replicas = 1;
  Time time{};  // between two micro-batches that leave it

  friend bool operator==(const ReplicatedStage&, const ReplicatedStage&) = default;
};

struct StagePartition {
  std::vector<ReplicatedStage> stages;
  Time slowest{};        // between two micro-batches that leave the pipeline
  Time data_parallel{};  // one stage on all workers
  Time alone{};          // one worker of the fastest kind
};

/// Errors: kInvalidArgument without layers or workers, for a kind without times, or for more than 2^32 comparisons.
[[nodiscard]] Expected<StagePartition> partition(std::span<const ChainLayer> layers, const Workers& workers);

}  // namespace ddlsim::plan
