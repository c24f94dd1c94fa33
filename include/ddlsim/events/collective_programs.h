// All-reduce as a Program: every rank its own process, or folded.
//
// p = nodes * gpus_per_node ranks; S bytes on each; a message of s bytes takes a + s / B.
// A message inside a node leaves by its GPU's port and enters by the other GPU's (B = `gpu` each way, a =
// `gpu_latency`); one between nodes leaves and enters by the node's port to the network, which its GPUs share (B =
// `network` each way, a = `network_latency`). A rank sends one message at a time and forwards what it has received.
//   ring               2 (p-1) steps of S/p; with hops alike 2 (p-1) (a + S/(pB)), else the slowest hop's a and B
//   halving, doubling  2 log2 p exchanges of S/2, S/4, ..., S/p, ..., S/4, S/2 with the rank 1, 2, 4, ... away (p a
//                      power of two); with hops alike 2 log2 p a + 2 (p-1)/p S/B
//   hierarchical       ring reduce-scatter in the node, one ring all-reduce over the nodes for every local rank (all
//                      share the nodes' ports), ring all-gather in the node
// Sources: Patarasuk and Yuan, JPDC 2009 (ring); Rabenseifner, ICCS 2004, and Thakur et al., IJHPCA 19(1), 2005 (vector
// halving and distance doubling); Cho et al., BlueConnect, MLSys 2019 (hierarchical).
//
// Folded, the ranks that are alike are described once and the steps that are alike are one task, so that a million GPUs
// take a handful of tasks; the time is the same up to the rounding of each message to a picosecond (tested).
// Limits: reducing takes no time; no pipelining within a message; equal chunks (not rounded to elements).
// Worked example: 1 GB on 4 GPUs of one node, ring, B = 10 GB/s, a = 5 us: 6 * (5 us + 0.25 GB / (10 GB/s)) = 150.03
// ms.
#pragma once

#include <cstdint>

#include "ddlsim/events/engine.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"

namespace ddlsim::events {

enum class AllReduceAlgorithm { kRing, kHalvingDoubling, kHierarchical };

/// Who is described: every rank, or those that differ.
enum class Ranks { kEach, kFolded };

struct AllReduce {
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::kRing;
  Ranks ranks = Ranks::kEach;
  DataSize size{};
  std::int64_t nodes = 1;
  std::int64_t gpus_per_node = 1;
  Bandwidth gpu{};      // each way, per GPU; unused with one GPU per node
  Bandwidth network{};  // each way, per node; unused with one node
  Time gpu_latency{};
  Time network_latency{};
};

/// Fails for counts below one, for 2^31 messages and more, for halving and doubling with ranks that are not a power of
/// two, and for rates, times and sizes that are negative, not finite or out of range.
[[nodiscard]] Expected<Program> all_reduce_program(const AllReduce& collective);

}  // namespace ddlsim::events
