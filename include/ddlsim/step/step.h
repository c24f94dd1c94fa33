// One data-parallel training step of one GPU, by recurrence: the `analytic` fidelity.
//
// Kernels run one after another on the GPU while the CPU issues them, one every `launch_interval`:
//   issued = issued + kernels * interval;   done = max(done + t, issued + t / kernels)
// forward from the first layer to the last, then backward from the last to the first. A message is ready when backward
// of its layer is done. Communication is one first-in-first-out resource:
//   all-reduce   sent = max(sent, ready) + cost/collective.h of the message
//   PS           the seven stations of cost/parameter_server.h
// and then the optimizer updates the weights (with PS on the servers):
//   step = max(backward done, last message back) + update
// - fusion: a coordinator wakes every `cycle` and fuses what is ready, up to the buffer's size; each fused message is
//   copied into the buffer and out of it. A library that blocks it (MPI) delays its next wake. (Horovod)
// - priority: whenever the channel is free it takes the waiting piece of the layer nearest to the input, and the next
//   forward pass starts at once, every layer waiting for its own tensors alone:
//   forward(l) = max(forward(l-1), back(l)) + t(l);  a step lasts from one backward pass to the next. (ByteScheduler)
// - pull at start: weights are pulled, in the model's order, when all servers have updated and the next step begins;
//   forward waits for them layer by layer. (TensorFlow's parameter servers)
// - contention: a running collective holds `held` of the GPU's multiprocessors and moves every byte that crosses a link
//   through its memory, `held_memory` per byte; kernels beside it have what is left, and at least a tenth.
// - accumulation: all but the last forward and backward pass of a step send nothing.
// - jitter: cost/straggler.h, on the GPU time of a synchronous step.
// The input of the next step is copied meanwhile. It shares the host link with pulled weights; what input and pulled
// weights together need of it beyond all that is exposed.
// Sources: wait-free backpropagation: Zhang et al., Poseidon, USENIX ATC 2017; Shi et al., MG-WFBP, INFOCOM 2019;
// priority: Peng et al., ByteScheduler, SOSP 2019.
//
// Laws (tested): critical path = step; step <= compute + launch + communication + update + input + other; one GPU
// communicates nothing; an idle network leaves compute alone.
// Limits: all GPUs are alike and start together; one stream of kernels; kernels do not slow collectives; no contention
// under priority or parameter servers.
#pragma once

#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "ddlsim/cost/collective.h"
#include "ddlsim/cost/layer_time.h"
#include "ddlsim/cost/parameter_server.h"
#include "ddlsim/plan/messages.h"
#include "ddlsim/plan/strategy.h"
#include "ddlsim/support/units.h"
#include "ddlsim/workload/model.h"

namespace ddlsim::step {

/// Collectives among the GPUs.
struct CollectiveFabric {
  const cost::CollectiveModel* model = nullptr;  // not owned
};

/// What carries the messages: nothing (one GPU), collectives, or servers.
using Fabric = std::variant<std::monostate, CollectiveFabric, cost::PsFabric>;

struct StepSetting {
  cost::DeviceRates device{};
  std::span<const cost::LayerTimes> layers{};  // of the model's; empty: each by its roofline on `device`
  Time launch_interval{};                      // between two kernels that the CPU issues
  double gpu_time_factor = 1;                  // on all GPU and launch time, where a measurement says so
  DataSize activation{};                       // of one element
  double batch = 1;
  Fabric fabric{};
  plan::Overlap overlap = plan::Overlap::kBackward;
  std::optional<Time> cycle{};  // fusion
  DataSize fusion_buffer{};     // likewise
  bool priority = false;
  bool pull_at_start = false;
  std::int64_t accumulation = 1;
  double held = 0;                  // share of the GPU's multiprocessors that a running collective holds
  Time held_memory{};               // of the GPU's memory, for one byte over a link
  double wait = 0;                  // for the slowest GPU, as a share of one pass
  Time update{};                    // of the weights, on the GPU
  Time input{};                     // copying one batch from host to GPU
  DataSize pulled{};                // bytes that come back over the host link per step, all on this GPU's share of it
  bool communication_alone = true;  // whether StepTimeline::communication is wanted
};

struct StepTimeline {
  Time forward{};                // of the last pass, waiting for weights apart
  Time backward{};               // of the last pass, copying and contention apart
  Time earlier_passes{};         // accumulation
  Time compute{};                // kernels bound by FLOPs
  Time memory{};                 // kernels bound by memory, copying and the update included
  Time launch{};                 // the GPU waiting for the CPU
  Time communication{};          // by itself, nothing overlapped, in the groups that are sent
  Time communication_exposed{};  // after backward, or before a layer's forward
  Time copying{};                // gradients into buckets and back, encoding and decoding
  Time contention{};             // what collectives took from kernels
  Time waiting{};                // for the slowest GPU
  Time update{};
  Time input_exposed{};
  Time step{};
};

/// What run_step found out on its way, in the units of work that events/event_step.h makes tasks of.
struct StepRecord {
  /// A layer's kernels, all GPU and launch time factors included.
  struct Kernels {
    Time duration{};
    Time slowed{};  // beyond `duration`, by collectives beside it
    int count = 0;
  };
  /// A message is ready when its GPU has done `layers` of backward and then `coding`.
  struct Ready {
    std::size_t layers = 0;
    Time coding{};
  };
  /// What the channel sent, in its order. It was ready with message `last`, and started `wait` later if it was free.
  struct Sent {
    std::size_t last = 0;
    Time wait{};    // for the coordinator's cycle
    Time alone{};   // all-reduce: how long it took, `copies` included
    Time copies{};  // into the fusion buffer and out of it
    double count = 1;
    plan::Message message{};
  };
  Time launch_interval{};
  std::vector<Kernels> forward;   // first layer first
  std::vector<Kernels> backward;  // last layer first
  std::vector<Ready> ready;       // by message
  std::vector<Sent> sent;
  Time waiting{};    // for the slowest GPU, by jitter
  Time update{};     // of the weights
  Time host_link{};  // copying input and pulled weights
};

/// `messages` in the order of readiness, as plan/messages.h makes them.
[[nodiscard]] StepTimeline run_step(const workload::Model& model, std::span<const plan::Message> messages,
                                    const StepSetting& setting, StepRecord* record = nullptr);

}  // namespace ddlsim::step
