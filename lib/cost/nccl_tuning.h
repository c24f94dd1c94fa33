// What NCCL's tuner knows of GPUs and links, and what its measured calls take beside that (cost/nccl.h says from
// where). Private to the room.
#pragma once

#include <array>
#include <cstddef>

#include "ddlsim/cost/nccl.h"

namespace ddlsim::cost {

using Protocol = CollectiveProtocol;
inline constexpr std::array<Protocol, 3> kProtocols{Protocol::kLl, Protocol::kLl128, Protocol::kSimple};
/// In the order of kProtocols, microseconds. NCCL 2.30 src/graph/tuning.cc.
using PerProtocol = std::array<double, 3>;
inline constexpr PerProtocol kBaseTree{6.8, 14.0, 8.4};
inline constexpr PerProtocol kBaseRing{6.6, 14.0, 8.4};
inline constexpr double kNvlsLatency = 25.0;
inline constexpr double kNvlsTreeNetwork = 20.9;
inline constexpr double kRingPlateauNew = 1.4;  // Simple, several nodes, compute capability 8.0 on
inline constexpr double kRingPlateauOld = 1.9;  // before
inline constexpr double kTreeShare = 0.92;      // Simple and below
inline constexpr double kLl128Share = 0.92;     // 120 of 128 bytes and the rest
inline constexpr double kTreeLl128OneNode = 7.0 / 9.0;
inline constexpr double kTreeLl128 = 120.0 / 128.0;
inline constexpr double kTreeLlDivisor = 3.8;
inline constexpr double kLlShare = 0.5;  // 4 of 8 bytes
/// GB/s, of one node: by generation. Several nodes take the host's row, whatever the GPU (Intel).
inline constexpr std::array<double, 5> kLlMaxOneNode{39.0, 39.0, 87.7, 141.0, 282.0};
inline constexpr double kLlMaxTwoNodes = 39.0;
inline constexpr double kLlMaxNodes = 20.4;
inline constexpr double kPeersAtOnce = 8;  // NCCL 2.30 src/include/device.h, point-to-point work per kernel batch
inline constexpr double kUsualNetworkHop = 14.0;
inline constexpr double kLocalPassBytes = 3.0;  // the header says from what these two are
inline constexpr double kPcieShare = 12.0 / 15.754;
inline constexpr Bandwidth kTcpPortLimit = gigabits_per_second(32);

/// Latencies of one protocol on one communicator.
struct Latencies {
  Time intra_ring{};
  Time intra_tree{};
  Time inter_ring{};
  Time inter_tree{};
  Time overhead{};
};

[[nodiscard]] bool by_nvlink(GpuFabric fabric);
/// Of a wire's rate, what a ring's large messages reach inside a server; of NVLS, none before Hopper.
[[nodiscard]] double intra_share(const Communicator& c);
[[nodiscard]] double nvls_share(GpuGeneration generation);
/// Of all ports of a server.
[[nodiscard]] Bandwidth transport_rate(const Communicator& c, CollectiveLibraryKind by = CollectiveLibraryKind::kNccl);
/// Microseconds of a hop that takes more than usual, or less.
[[nodiscard]] Time shifted(double usual, Time by);
/// `p`: of kProtocols.
[[nodiscard]] Latencies latencies_of(const Communicator& c, std::size_t p);
/// Beside the tuner's latencies, which rank algorithms and are no wall clock: the same for every candidate.
[[nodiscard]] Time wall_clock_of(const Communicator& c, primitives::CollectiveOp op);
/// What kernels lose for every byte that passes beside them: none on other ways, nor where another library moves it.
///
/// Through the host's memory: with NCCL_P2P_DISABLE what BERT, GNMT, ResNet-50 and SSD take longer on two GPUs than on
/// one grows with their gradients alone, however long backward could hide them: as many bytes at 3.7 (A100) to 8 GB/s
/// (V100), 6.4 in the geometric mean of seven boxes (lambda_ngc2209, lambda_ngc2020), where collectives alone reach 5:
/// four fifths of their time.
///
/// Between servers, `narrow`: in training in 16 bits, whose kernels are short and bound by memory, two fifths of their
/// time. Given all rows of one server, rows of several are nearest with 0.3 to 0.6 (bench/accuracy/README.md); none is
/// seen in 32 bits, nor from Hopper on.
[[nodiscard]] Time taken_beside(const Communicator& c, const CollectiveLibrary& library, bool narrow);
/// What large messages take besides, for each doubling.
[[nodiscard]] Time growth_of(const Communicator& c);

}  // namespace ddlsim::cost
