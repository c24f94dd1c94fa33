// MPI collectives on GPU buffers: host-staged, CUDA-aware, and Baidu's ring.
//
// n ranks (one per GPU), S bytes, latency a, b seconds per byte, c seconds per byte reduced, lg = log2:
// ```
//   all_reduce      recursive doubling  lg n (a + S b + S c)                        up to 2 KiB
//                   Rabenseifner        2 lg n a + 2 (n-1)/n S b + (n-1)/n S c      above
//                   not a power of two  2 (a + S b) + S c more, to fold into the power below
//                   ring                2(n-1) a + 2 (n-1)/n S b + (n-1)/n S c      on request; mpi-opt: where cheapest
//   all_gather      recursive doubling  lg n a + (n-1)/n S b                        up to 512 KiB
//                   ring                (n-1) a + (n-1)/n S b                       above
//   reduce_scatter  recursive halving   lg n a + (n-1)/n S (b + c)                  up to 512 KiB
//                   pairwise            (n-1) a + (n-1)/n S (b + c)                 above
//   all_to_all      Bruck               lg n a + lg n/2 S b                         up to 256 B per message
//                   pairwise            (n-1) a + (n-1)/n S b                       above
//   broadcast       binomial            lg n (a + S b)                              up to 12 KiB
//                   scatter, ring       (lg n + n-1) a + 2 (n-1)/n S b              above
//   reduce          binomial            lg n (a + S b + S c)                        up to 2 KiB
//                   Rabenseifner        2 lg n a + 2 (n-1)/n S b + (n-1)/n S c      above
// ```
// Ranks are placed node by node: of lg n exchanges the first lg g stay inside the node (recursive halving sends its
// largest halves there), the others share the node's network among its g ranks; a ring crosses it once per node.
// What a byte puts on the wires (`CollectiveLine`) is what stands before b: of the exchanges inside the node on a
// rank's own link, of the others times g (recursive doubling) or once (recursive halving, rings) on the node's ports;
// pairwise exchanges are taken to leave the node, all of them. Host-staged, a GPU's own link carries the buffer once
// each way.
// Sources: Thakur, Rabenseifner, Gropp, IJHPCA 2005; MPICH src/mpi/coll (thresholds).
//
// mpi: copies to the host and back (S / PCIe each way, or where that is less its part of the host link that a
//   server's GPUs share, all of which copy at once), reduces on the CPU, asks the driver what each pointer is.
// mpi-opt (Awan et al., CCGRID 2019): large messages from GPU memory, reduced by a kernel per step; small ones through
//   the mapped window, reduced on the CPU, so no kernel; a cache answers for the driver. It takes the cheapest, a ring
//   among them (three servers have no halves: 64 MiB at 1.25 GB/s take 76 ms by it, 191 by Rabenseifner's). Told to
//   sum on the CPU (collective.sums_on), large messages go through the host as mpi's do; on the GPU, all by kernels.
// baidu: a ring of CUDA-aware messages, one call per tensor, every message asks the driver, every sum is a kernel.
// Measured: a = 1.1 us, Piz Daint osu_latency (eth-cscs/sarus, osu_mb.rst). The rest is assumed, and so is the result:
// driver query 5 us (Awan et al. name it dominant and give no number here; 1-10 us), cached 0.1 us, kernel launch 6 us
// (cudaLaunchKernel median in TrioSim's traces), CPU sum 5 GB/s per rank, host shared memory 10 GB/s per rank and 0.5
// us, GPU to GPU message 1.9 us, mapped window 1 GB/s.
// Limits: eager and rendezvous are one line; CPU memory never saturates; CUDA-aware copies inside a node go at the
// GPUs' link rate. Worked example: 4 nodes of one GPU, 100 Gb/s InfiniBand (12 GB/s), PCIe 12 GB/s, 120 MB with mpi:
// query 10 us + copies 2 * 10 ms + 4 * 1.1 us + 2 * 3/4 * 10 ms + 3/4 * 24 ms = 53.0144 ms.
#pragma once

#include <vector>

#include "ddlsim/cost/collective.h"

namespace ddlsim::cost {

/// Candidates of an MPI library or Baidu's ring; requires at least two GPUs.
[[nodiscard]] std::vector<CollectiveLine> mpi_lines(const Communicator& communicator, const CollectiveLibrary& library,
                                                    primitives::CollectiveOp op);

}  // namespace ddlsim::cost
