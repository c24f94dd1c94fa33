// One data-parallel training step of one GPU, by recurrence: the `analytic` fidelity.
//
// Kernels run one after another on the GPU while the CPU issues them, one every `launch_interval`:
//   issued = issued + kernels * interval;   done = max(done + t, issued + t / kernels)
// forward from the first layer to the last, then backward from the last to the first. A message (a bucket, or the
// pieces of a tensor) is ready when backward of its layer is done. Communication is one first-in-first-out resource:
//   all-reduce   sent = max(sent, ready) + t_ring(size)
//   PS           the four-station pipeline of cost/parameter_server.h
// and then the optimizer updates the weights (with PS on the servers, taken to be as fast as the GPU would be):
//   step = max(backward done, last message back) + update
// The input of the next step is copied meanwhile. It shares the host link with pulled weights; what input and pulled
// weights together need of it beyond all that is exposed.
// Sources: wait-free backpropagation: Zhang et al., Poseidon, USENIX ATC 2017; Shi et al., MG-WFBP, INFOCOM 2019.
//
// Laws (tested): critical path = step; step <= compute + launch + communication + update + input; faster rates and
// shorter latencies are never slower; one GPU communicates nothing.
// Limits: compute and communication do not slow each other down; all GPUs are alike and start together; one stream of
// kernels; weights of a step are pulled before the next starts.
#pragma once

#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "ddlsim/cost/layer_time.h"
#include "ddlsim/cost/parameter_server.h"
#include "ddlsim/cost/ring.h"
#include "ddlsim/plan/messages.h"
#include "ddlsim/plan/strategy.h"
#include "ddlsim/support/units.h"
#include "ddlsim/workload/model.h"

namespace ddlsim::sim {

/// What carries the messages: nothing (one GPU), a ring, or servers.
using Fabric = std::variant<std::monostate, cost::Ring, cost::PsFabric>;

struct StepSetting {
  cost::DeviceRates device{};
  Time launch_interval{};  // between two kernels that the CPU issues
  DataSize activation{};   // of one element
  double batch = 1;
  Fabric fabric{};
  plan::Overlap overlap = plan::Overlap::kBackward;
  Time update{};                    // of the weights, on the GPU
  Time input{};                     // copying one batch from host to GPU
  DataSize pulled{};                // bytes that come back over the host link per step, all on this GPU's share of it
  bool communication_alone = true;  // whether StepTimeline::communication is wanted
};

struct StepTimeline {
  Time forward{};                // until forward is done
  Time backward{};               // from there until backward is done
  Time compute{};                // kernels bound by FLOPs
  Time memory{};                 // kernels bound by memory, the update included
  Time launch{};                 // the GPU waiting for the CPU
  Time communication{};          // by itself, nothing overlapped
  Time communication_exposed{};  // after backward
  Time update{};
  Time input_exposed{};
  Time step{};
};

/// `messages` in the order of readiness, as plan/messages.h makes them.
[[nodiscard]] StepTimeline run_step(const workload::Model& model, std::span<const plan::Message> messages,
                                    const StepSetting& setting);

}  // namespace ddlsim::sim
