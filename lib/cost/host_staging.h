// What libraries that work in the host's memory share (cost/mpi_collectives.h, cost/gloo_collectives.h).
#pragma once

#include "ddlsim/cost/nccl.h"
#include "nccl_tuning.h"

namespace ddlsim::cost {

inline constexpr Bandwidth kCpuSum = gigabytes_per_second(5);  // of one rank; assumed

/// A copy between the GPU and the host, per byte: all GPUs of a server copy at once, over the host links they share.
[[nodiscard]] inline Time host_copy(const Communicator& c) {
  return bytes(1) / (min(c.pcie, c.host_share) * kPcieShare);
}

/// What a scenario adds to the usual 14 us of a network's file, and its transport.
[[nodiscard]] inline Time added_latency(const Communicator& c) {
  return max(c.inter_latency - microseconds(kUsualNetworkHop) + transport_latency(c), Time::zero());
}

}  // namespace ddlsim::cost
