// What makes a job fit into its GPUs' memory.
//
// Tried one at a time, in this order, the first that fits is named: tables spread (PEARL), where there are some; zero 1
// and 2; recompute selective; zero 3; recompute full; where products take fewer than 32 bits states mixed, then
// mixed-16; expert, then tensor, then pipeline twice, four times ... as wide (the number of GPUs stays); micro-batches
// that divide the samples (more of them); states adam-8bit; states on the host. With stages zero 2 and 3, which FSDP
// alone has there, come before adam-8bit and are said to be so. Where none alone does, each format of
// states with each recomputation; then changes are added up in the order (LoRA in stated fp32: states mixed,) recompute
// full, (LoRA: frozen_bits 4,) zero 3, tensor, micro-batch 1, and at the end offload, or states adam-8bit, or states
// mixed-16 and offload. The smallest cluster is searched for in whole servers of the same kind, twice as many until
// they fit, then the fewest between, with zero 3 and full recomputation (of such LoRA with states mixed): alone, with
// the GPUs of a server as a tensor group, or with experts spread; of a model with tables by PEARL. Replicas keep their
// micro-batch; where no cluster holds that, it is 1. What a stated setting does not go with is left out of a recipe
// (zero 3 of PipeDream's versions); where nothing fits so, all is tried again without the settings that are in the way
// (parameter servers, fusion by cycles, priority, compression, sync_every, ideal overlap, asynchronous schedules,
// gather_fp8, a straggler), and those without whose change it does not fit are named with the rest. Of changes that go
// together only those are named without which the job does not fit, each left out in turn. Limits: every trial is
// judged by memory alone; a plan search (`ddlsim plan`) judges time as well, and tries more.
//
// Worked example: 8 GPUs of 80 GB, 70 G parameters in `mixed` states with zero 1: weights and gradients alone are 420
// GB a GPU; zero 3 leaves 158 GB, so 16 GPUs are needed, which leave 79 GB, and more for activations: 24.
#pragma once

#include <cstdint>
#include <string>

#include "ddlsim/answer/prediction.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

/// A note on a prediction that does not fit: "what makes it fit: parallel.zero=3 (61 GB); the smallest cluster found: 4
/// servers (32 GPUs) with ...".
void add_ways_to_fit(const Scenario& scenario, answer::Prediction& prediction);

/// ", 7 more of each server idle: ..." of several servers whose GPUs the job does not all use; else nothing.
[[nodiscard]] std::string idle_gpus(const hardware::Cluster& cluster, std::int64_t nodes);

}  // namespace ddlsim::whatif
