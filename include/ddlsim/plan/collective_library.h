// Which collective library a job uses, and what it is told: the software's knobs, no rates. What they cost is in
// cost/collective.h.
#pragma once

#include <cstdint>
#include <optional>

#include "ddlsim/support/choices.h"
#include "ddlsim/support/stated.h"

namespace ddlsim::plan {

enum class CollectiveAlgorithm : std::uint8_t {
  kNone,               // nothing is sent
  kRing,               //
  kTree,               // one pipelined binary tree
  kDoubleTree,         // NCCL's "Tree": two, each rank inner node of one
  kRecursiveDoubling,  // log2 n exchanges of everything
  kRabenseifner,       // recursive halving, then doubling
  kHierarchical,       // reduce-scatter inside, all-reduce between, all-gather inside
  kNvls,               // the switch reduces
  kNvlsTree,           // the switch inside, a double tree between
  kPairwise,           // every rank with every other in turn
  kBruck,              // all-to-all in log2 n rounds
  kBinomial,           // a binomial tree, unpipelined
  kPerTensorRing,      // Baidu: a ring of point-to-point messages for each tensor
  kDirect,             // point to point
  kTable,              // a measurement; its algorithm is unknown
};

inline constexpr Choices<CollectiveAlgorithm, 15> kCollectiveAlgorithms{{
    {"ring", CollectiveAlgorithm::kRing},
    {"double-tree", CollectiveAlgorithm::kDoubleTree},
    {"tree", CollectiveAlgorithm::kTree},
    {"recursive-doubling", CollectiveAlgorithm::kRecursiveDoubling},
    {"rabenseifner", CollectiveAlgorithm::kRabenseifner},
    {"hierarchical", CollectiveAlgorithm::kHierarchical},
    {"nvls", CollectiveAlgorithm::kNvls},
    {"nvls-tree", CollectiveAlgorithm::kNvlsTree},
    {"pairwise", CollectiveAlgorithm::kPairwise},
    {"bruck", CollectiveAlgorithm::kBruck},
    {"binomial", CollectiveAlgorithm::kBinomial},
    {"per-tensor-ring", CollectiveAlgorithm::kPerTensorRing},
    {"direct", CollectiveAlgorithm::kDirect},
    {"table", CollectiveAlgorithm::kTable},
    {"none", CollectiveAlgorithm::kNone},
}};

/// How NCCL moves bytes: flags beside every 4 bytes, every 120 bytes, or chunks with a separate flag.
enum class CollectiveProtocol : std::uint8_t { kNone, kLl, kLl128, kSimple };

inline constexpr Choices<CollectiveProtocol, 4> kCollectiveProtocols{{
    {"LL", CollectiveProtocol::kLl},
    {"LL128", CollectiveProtocol::kLl128},
    {"Simple", CollectiveProtocol::kSimple},
    {"-", CollectiveProtocol::kNone},
}};

enum class CollectiveLibraryKind : std::uint8_t {
  kNccl,
  kMpi,     // not CUDA-aware: copies to the host, reduces on the CPU, copies back
  kMpiOpt,  // CUDA-aware (Awan et al. 2019): reduces in GPU kernels, remembers which pointers are the device's
  kBaidu,   // a ring of CUDA-aware MPI messages per tensor
  kGloo,    // PyTorch's over TCP: copies to the host, reduces on the CPU, copies back
};

/// Whether buffers of GPUs are copied to the host and back.
[[nodiscard]] constexpr bool stages_in_host(CollectiveLibraryKind kind) {
  return kind == CollectiveLibraryKind::kMpi || kind == CollectiveLibraryKind::kGloo;
}

inline constexpr Choices<CollectiveLibraryKind, 5> kCollectiveLibraries{{
    {"nccl", CollectiveLibraryKind::kNccl},
    {"mpi", CollectiveLibraryKind::kMpi},
    {"mpi-opt", CollectiveLibraryKind::kMpiOpt},
    {"baidu", CollectiveLibraryKind::kBaidu},
    {"gloo", CollectiveLibraryKind::kGloo},
}};

/// Where an MPI library sums.
enum class SumsOn : std::uint8_t { kCpu, kGpu };

inline constexpr Choices<SumsOn, 2> kSumsOn{{{"cpu", SumsOn::kCpu}, {"gpu", SumsOn::kGpu}}};

/// The software and its knobs. What is left out is the library's own choice.
struct CollectiveLibrary {
  Stated<CollectiveLibraryKind> kind = by_default(CollectiveLibraryKind::kNccl);
  std::optional<CollectiveAlgorithm> algorithm;  // forced, where the operation has it
  std::optional<CollectiveProtocol> protocol;    // forced, NCCL only
  bool nvls = true;                              // NCCL_NVLS_ENABLE: switches that can reduce do
  std::optional<double> intra_efficiency;        // share of the wire's rate that large messages reach inside a node
  std::optional<double> inter_efficiency;        // likewise between nodes
  std::optional<bool> pointer_cache;             // MPI: default as the kind says
  std::optional<SumsOn> sums_on;                 // mpi-opt: default the cheaper for each size; mpi: the CPU
};

}  // namespace ddlsim::plan
