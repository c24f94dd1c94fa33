// Gloo's collectives, which PyTorch runs on the host: buffers of GPUs are copied there and back.
//
// n ranks, g of them per node, k = log2 n rounded up, S bytes, delay d of the network one way, R what a node's ports
// carry. Two ranks have one connection, of
//   f = min(R, what a cloud lets one connection carry, window / (2 d))      inside a node: the loopback's rate
// and a message waits for its receiver's word that a buffer is there (sendUnboundBuffer): 2 d before it has arrived.
// ```
//   send_recv       2 d + S / f
//   broadcast       2 k d + S sum over j = 1..k of max(j g / R, 1 / f)       a rank sends to all its children at once,
//                   the first of which has all others of its half below it: the tree of gloo/broadcast.cc
//   all_reduce      2 (n-1)/n S (1 / f + d / 1 MiB)                           ring in segments of 1 MiB at most,
//                   below 2n MiB 4 (n-1) d + 2 (n-1)/n S / f, if more     two of them on their way
//   all_gather      2 (n-1) d + (n-1)/n S / f                                 ring
//   reduce_scatter  half an all_reduce
//   reduce          half an all_reduce, and (n-1)/n S / R into the root
//   all_to_all      2 d + (n-1)/n S max(g / R, 1 / f)                         all at once
// ```
// plus S over the GPU's PCIe link to the host (or its part of a host link that GPUs share) and S back. Sums hide behind
// the other segment: at least S / CPU's rate.
//
// Constants: a window of 3 MiB, half of what Linux lets a receiver's buffer grow to (net.ipv4.tcp_rmem, 6 MiB); 5 Gb/s
// for one connection between EC2 instances outside of a placement group (Amazon EC2 User Guide, instance network
// bandwidth); the rest as in cost/mpi_collectives.h. Assumed: 2.5 GB/s through the loopback, 30 us of software for a
// message.
//
// Source: facebookincubator/gloo, gloo/allreduce.cc, broadcast.cc, transport/tcp/pair.cc (BSD).
//
// Limits: ranks stand node by node and fill powers of two; one connection per pair; no GPUDirect, no ibverbs transport.
//
// Worked example (test): broadcast of 134 MB from one of 8 nodes with one GPU at 1 Gb/s, d = 10 ms: 3 + 2 + 1 = 6 times
// 1.074 s, and 60 ms: 6.50 s (6.66 measured, BinhangYuan/tc_cluster_setting).
#pragma once

#include <vector>

#include "ddlsim/cost/collective.h"

namespace ddlsim::cost {

/// Candidates of Gloo; requires at least two GPUs.
[[nodiscard]] std::vector<CollectiveLine> gloo_lines(const Communicator& communicator, const CollectiveLibrary& library,
                                                     primitives::CollectiveOp op);

}  // namespace ddlsim::cost
