// NCCL: its tuning model as a cost model.
//
// For every algorithm and protocol that NCCL would consider,
//   time = base + hops * hop latency + size / algorithm bandwidth [ / correction(size) ] + local pass + growth
// Ring:  2(n-1) steps for all_reduce, n-1 for all_gather and reduce_scatter, of size/n each over the slowest hop;
//        broadcast and reduce pipeline the whole size. Of all_reduce's steps 2(N-1) cross the network of N nodes.
//        Simple rings between nodes take 1.4 (Ampere on) or 1.9 times that latency.
// Tree:  all_reduce only. A chain inside the node, two trees between: 2 ((n/N - 1) intra + floor(log2 N) inter) of
//        latency; every GPU sends the size twice, every node of more than two too. Corrected by NCCL's table of size.
//        Before Ampere a tree between two nodes has half its network: NCCL's caps on a tree's channels leave it no more
//        than a ring's (DGX-1 pairs over EDR measure that, bench/accuracy nccl27), so small messages alone take it. One
//        tree alone (forced; NCCL has none) makes its inner GPUs send three times the size: 2/3 of the bandwidth.
// NVLS:  the switch reduces: a GPU sends and receives (1 + 1/n) size at 85 % (Hopper), 74 % (Blackwell) of its rate.
// NVLS tree: that inside, a double tree between nodes.
// All-to-all and send/recv go point to point, eight peers at a time.
// What one byte of size puts on a GPU's own link and on a server's ports (`CollectiveLine`), and so its time, the
// slower of the two wires at its rate:
//   ring         2(n-1)/n on both; (n-1)/n for all_gather and reduce_scatter, 1 for broadcast and reduce
//   double tree  2 and 2 (between two nodes 1); one tree 3 and 3 (1.5)
//   NVLS         1 + 1/g, g = n/N, and 2 (1)
//   all_to_all   (g-1)/n and g (n-g)/n; sendrecv 1 and 1
//   hierarchy    2(g-1)/g and 2(N-1)/N, one after the other
// LL moves 4 bytes of data with 4 of flags, LL128 120 with 8; LL128 needs NVLink. LL is capped by NCCL's table.
//
// Constants: NCCL 2.30 src/graph/tuning.cc (base and hop latencies, caps, corrections, NVLS efficiencies, network
// overhead), src/graph/topo.h (rates by link: NVLink 18 of 20 GB/s on Pascal, 20 of 25 on Ampere, 20.6 of 25 on Hopper,
// 40.1 of 50 on Blackwell; PCIe 3.0 x16 12 of 15.75; between sockets 10; network 12 of 12.5). Exceptions:
// - Volta's NVLink: 23.1 of 25 GB/s, from the 2 and 4 GPU all_reduce of VIA-Research/vTrain (23 and 88 GB/s of bus
//   bandwidth over one and four links) less the local pass; NCCL's 20 is below what is measured.
// - Local pass: 3 size/n bytes of GPU memory (two reads, one write; NVLS 3 size/g) that no transfer hides, and
// - growth: 18 us (Ampere), 8 us (Hopper; taken for Blackwell) * log2(1 + size/4 MiB) for Simple. Both from
//   ai-dynamo/aiconfigurator's A100 and H100 all_reduce, all_gather, reduce_scatter of 2-8 GPUs (NCCL 2.27).
//   The growth holds for LL128 too, the local pass for every protocol. Between nodes it grows by 45 us more over EFA
//   (2 x p5.48xlarge, bench/accuracy nccl04 and nccl29), by 12 us over RDMA from Hopper on (2 x 8 B200, nccl15,
//   nccl18).
// - Wall clock: the tuner's latencies rank candidates; calls on NVLink take base + hop * local steps besides, alike for
//   all candidates: 1.1 + 1.34 us (Ampere), -1.8 + 0.19 us (Hopper), 1.1 + 0.63 us (Blackwell), from aiconfigurator's
//   all_reduce and all_gather of 512 B to 4 KiB on 2, 4, 8 GPUs (A100 10.0, 14.3, 22.4 us; H100 6.4, 9.5, 15.6; B200
//   10.2, 15.0, 25.4). Eight A100 take 35 us in microsoft/superbenchmark (bench/accuracy nccl31) and 44 in stas00/
//   ml-engineering (nccl51): the middle of the three, 0.44 us a step by the first alone, which several servers keep.
//   What a framework's own call takes on top is not in it.
// - Without peer access GPUs meet in the host's memory: half of PCIe's rate (or of a stated share of it), before PCIe 5
//   at most 5 GB/s (assumed; aiconfigurator's four L40S reach 4.8; hosts of PCIe 5.0 have the memory for more: two to
//   eight H100 with NCCL_P2P_DISABLE lose to an exchange what 33 to 42 GB/s take, lambda_ngc2209), and no more than a
//   GPU's part of PCIe's 12 of 15.75 GB/s on its host link: every hop of a ring goes up one and down another. So it is
//   on virtual machines that hide the PCIe switches (`peer_to_peer: no` of the instance): NCCL since 2.5 reaches over a
//   host bridge only on AMD with two GPUs (src/graph/paths.cc), and training on a g5.48xlarge that tells it of the
//   switches takes 0.64 of the time (NVIDIA/nccl issue 1298). Boxes of several sockets without NVLink vary tenfold:
//   what crosses sockets is assumed too.
// - Transports: InfiniBand 0.96 as NCCL's 12 of 12.5; RoCE 8 % below it (ib_write_bw on the same cards, tensorflow
//   issue 2916; 4 KiB frames leave 0.98, what is measured is less: 1 GiB and more on 16 x 100 and 8 x 400 Gb/s take
//   0.92 to 1.05 of this, oke-a100-2, nccl15, nccl22, nccl36 of bench/accuracy's collectives), and on slow ports, of
//   which nobody measured it, what TCP reaches (0.94 up to 34 Gb/s); EFA as RoCE on fast ports (assumed) with 75 us
//   more per message (aws-ofi-nccl src/platform-aws.cpp), from Hopper on 20 us (nccl04 and nccl29: 65 to 70 us a call;
//   the plugin tells the tuner 35); TCPX 0.71 (GoogleCloudPlatform/cluster-toolkit, a3-highgpu all_gather: 70.9 of 100
//   GB/s); Omni-Path 0.42 of one port of two: NCCL finds verbs that the host drives, without GPUDirect, and takes few
//   of its cards (4 GB over four servers with four ports of 100 Gb/s each, NCCL 2.10, bigscience-workshop/bigscience
//   experiments/bandwidth: 84.7 Gb/s over two of them on V100, 40.5 over one on A100; 54 on 16 servers, NCCL 2.7),
//   while MPI's PSM2 fills them (taken as InfiniBand, which states NCCL's plugin for PSM2, psm2-nccl, as well); TCP
//   0.94 (payload of 1500 byte frames), at most 32 Gb/s per port (Zhang et al., NetAI 2020), with 30 us more (half of
//   60 us ping: tensorflow/benchmarks issue 29).
// - NVLS reduces once for all: it has no line for all_gather and reduce_scatter, in which every GPU must receive (send)
//   (n-1)/n of the size whoever reduces. Measured so on eight H100 (aiconfigurator, NCCL 2.23 to 2.29): both reach 335
//   GB/s of bus bandwidth at 512 MiB, a ring's, and the two together take 1.18 (32 MiB) to 1.33 times (128 MiB on) an
//   NVLS all_reduce. Tensor ranks that cut sequences pay that on H100, and save their norms' share and memory. Here the
//   two take 1.4 times from 128 MiB on, and 1.6 times at 32 MiB: gathers 15 to 24 % too long, sums 12 % too short.
// - Channels, of each of which a running collective holds a thread block: two for every ring that NCCL's search finds
//   (src/graph/connect.cc). A server's GPUs have a ring per NVLink: 8 channels on Pascal, 12 on Volta (the search finds
//   6 rings on four V100, NVIDIA/nccl issue 713), 24 on Ampere (twelve links; issue 1235 logs 24 with four GPUs) and
//   later (24 blocks of an H100's all-gather, NVIDIA developer forum 337991); cards with bridges 12 (assumed), without
//   NVLink 4. Rings between servers are one per network card that their GPUs use, whatever joins the GPUs: two channels
//   of eight GPUs with one card (NVIDIA/nccl-tests issue 133), 16 with eight (deepseek-ai/DeepEP issue 106); taken as 4
//   at least, as Hopper has with one. Limits: Hopper's 8 to 16 with two to four cards are taken as 4 to 8;
//   NCCL_MIN_NCHANNELS is not known; a step that hides its messages may take 0.1 % longer over more cards.
// Limits: no SHARP in network switches, no user buffer registration, no PAT. Latency settings of a scenario shift every
// protocol's hop by the same amount. Worked example: cost/collective.h.
#pragma once

#include <vector>

#include "ddlsim/cost/collective.h"

namespace ddlsim::cost {

/// What a GPU without peer access moves through its host's memory at most, whose PCIe link has so much.
[[nodiscard]] constexpr Bandwidth host_memory_limit(Bandwidth pcie) {
  const bool fifth = pcie > gigabytes_per_second(40);
  return fifth ? pcie / 2.0 : gigabytes_per_second(5);
}

/// What large messages reach on the links of a communicator, one direction.
struct EffectiveRates {
  Bandwidth intra{};  // of one GPU, to the others of its node
  Bandwidth inter{};  // of one node
  Bandwidth port{};   // of one network port
  Provenance provenance = Provenance::kAnalytic;
};

[[nodiscard]] EffectiveRates effective_rates(const Communicator& communicator, const CollectiveLibrary& library);

/// What a transport adds to a network hop beyond `inter_latency`'s 14 us of an InfiniBand hop.
[[nodiscard]] Time transport_latency(const Communicator& communicator);

/// NCCL's candidates; requires at least two GPUs.
[[nodiscard]] std::vector<CollectiveLine> nccl_lines(const Communicator& communicator, const CollectiveLibrary& library,
                                                     primitives::CollectiveOp op);

/// Thread blocks that a running collective holds on each GPU.
[[nodiscard]] double nccl_channels(const Communicator& communicator);

/// What every rank of a ring of n sends of each byte: 2(n-1)/n for all_reduce, 1 for broadcast, reduce and sendrecv,
/// (n-1)/n for the others.
[[nodiscard]] double ring_volume(primitives::CollectiveOp op, double n);

/// Share of its bandwidth that a tree reaches at a size: NCCL's table, straight between its powers of two.
[[nodiscard]] double tree_correction(CollectiveProtocol protocol, DataSize size);

}  // namespace ddlsim::cost
