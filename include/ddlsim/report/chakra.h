// A predicted step as a Chakra execution trace, which ASTRA-sim and SimAI replay.
//
// One rank's graph: a COMP_NODE per layer and pass, each after the one before; where gradients are copied or encoded,
// one for that; a COMM_COLL_NODE per collective that is sent, after the work that makes it; one COMP_NODE for the
// update, after all of them. What the nodes carry:
//   COMP_NODE        duration_micros  GPU time by the prediction: launch gaps, the wait for the slowest GPU and what
//                                     collectives take from kernels beside them are not in it
//                    num_ops          FLOPs, at least one: ASTRA-sim's roofline divides by it
//                    tensor_size      bytes read and written; none for copies of gradients, and for measured layers
//   COMM_COLL_NODE   comm_type        an all-reduce, or an all-gather where gradients are gathered
//                    comm_size        bytes: the tensor's, or what one rank sends into the all-gather
//                    duration_micros  the prediction for it alone, which replays without a network model take
// Durations are whole microseconds of at least one. What rounding takes from one compute node the next gets, so that
// their sum keeps to the prediction's where kernels last a microsecond or more.
// Parameter servers have no node in the format.
// Source: schema/protobuf/et_def.proto of github.com/mlcommons/chakra; astra-sim/workload/Workload.cc (which reads
// PREFIX.RANK.et for each rank).
// Example: two layers, one message ready after both: fwd 0, fwd 1, bwd 1, bwd 0, an all-reduce after bwd 0, an update.
#pragma once

#include <cstdint>

#include "ddlsim/answer/timeline.h"
#include "ddlsim/importers/chakra_file.h"
#include "ddlsim/plan/step_plan.h"
#include "ddlsim/support/units.h"

namespace ddlsim::report {

struct ChakraOptions {
  double batch = 1;
  DataSize activation = bytes(4);  // of one element
  DataSize updated{};              // what the optimizer reads and writes
  std::int64_t passes = 1;         // of forward and backward; all but the last send nothing (accumulation)
  double slowness = 1;             // how many times as long this rank's GPU takes
};

/// `record` is the schedule of the same layers (answer::Detail::kWork), with collectives or on one GPU.
[[nodiscard]] importers::ChakraTrace chakra_of(const plan::Chunk& chunk, const answer::Timeline& record,
                                               const ChakraOptions& options = {});

/// How many nodes that trace has.
[[nodiscard]] double chakra_nodes(const answer::Timeline& record, std::int64_t passes);

}  // namespace ddlsim::report
