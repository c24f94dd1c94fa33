// Ring collectives.
//
//   t(S) = 2 (n-1)/n * S / B + latency
//
// n GPUs on N nodes form one ring that enters and leaves every node once. Each of the 2(n-1) steps moves S/n over every
// hop, so the slowest link sets the rate: B = B_intra on one node, min(B_intra, B_inter) on several. Of the 2(n-1)
// latencies, 2(N-1) are those of the network and the rest those inside a node:
//   latency = (2(n-1) - 2(N-1)) a_intra + 2(N-1) a_inter
// An all-gather of S bytes from every GPU sends each GPU's share once around: (n-1) S / B and half of the latency.
// Sources: Patarasuk and Yuan, JPDC 2009 (volume); Thakur et al., IJHPCA 2005; NCCL src/graph/tuning.cc (latency
// terms). Limits: one ring in flight at a time; no protocol switch for small messages; bandwidths are those reached by
// large messages. Worked example: 100 MB on 4 GPUs of one node, B = 10 GB/s, a = 5 us: 2*3/4*0.1/10 + 6*5e-6 = 15.03
// ms.
#pragma once

#include <cstdint>

#include "ddlsim/support/units.h"

namespace ddlsim::cost {

/// One ring through all GPUs. Bandwidths are what is reached, per direction: of one GPU inside a node, of a whole node
/// on the network.
struct Ring {
  std::int64_t gpus = 1;
  std::int64_t nodes = 1;
  Bandwidth intra{};
  Bandwidth inter{};
  Time intra_latency{};
  Time inter_latency{};
};

/// Bytes that cross each hop, in one direction.
[[nodiscard]] inline DataSize ring_traffic(DataSize size, const Ring& ring) {
  const auto n = static_cast<double>(ring.gpus);
  return size * (2.0 * (n - 1.0) / n);
}

/// The same for an all-gather of `share` from every GPU.
[[nodiscard]] inline DataSize ring_gather_traffic(DataSize share, const Ring& ring) {
  return share * static_cast<double>(ring.gpus - 1);
}

/// The rate of the slowest hop.
[[nodiscard]] inline Bandwidth ring_bandwidth(const Ring& ring) {
  if (ring.nodes == 1) return ring.intra;
  return ring.gpus == ring.nodes ? ring.inter : min(ring.intra, ring.inter);
}

/// Once around.
[[nodiscard]] inline Time ring_latency(const Ring& ring) {
  const auto inter_hops = static_cast<double>(ring.nodes - 1);
  const double intra_hops = static_cast<double>(ring.gpus - 1) - inter_hops;
  return ring.intra_latency * intra_hops + ring.inter_latency * inter_hops;
}

[[nodiscard]] inline Time ring_all_gather(DataSize share, const Ring& ring) {
  if (ring.gpus <= 1) return Time::zero();
  return ring_gather_traffic(share, ring) / ring_bandwidth(ring) + ring_latency(ring);
}

[[nodiscard]] inline Time ring_all_reduce(DataSize size, const Ring& ring) {
  if (ring.gpus <= 1) return Time::zero();
  return ring_traffic(size, ring) / ring_bandwidth(ring) + ring_latency(ring) * 2.0;
}

}  // namespace ddlsim::cost
