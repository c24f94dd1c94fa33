// The NVLinks between the GPUs of a server without a switch, pair by pair, and the rings that fit on them.
//
// Two GPUs have the links that join them and no more. A collective runs on several rings at once (NCCL's channels),
// each at the pace of one link, and shares a link among rings in time. Over some GPUs, with every way c to visit each
// of them once and return, and y_c rings along it in either direction,
//   rings = max 2 sum over c of y_c     subject to, for every pair p,     sum over c of n_cp y_c <= links of p
// n_cp: hops of c between the pair p. A GPU sends `rings` links' worth in all, never more than its links to the others.
// Where no way round uses NVLinks from GPU to GPU alone, hops through a third GPU of the job (NCCL's NVB) are taken as
// well; where there is none either, the GPUs are not joined by NVLink. Trees are taken at the rate of rings, as NCCL's
// tuning does. More than eight GPUs take the first ring that is found, and its reverse.
//
// Solved exactly (a linear programme over at most 2,520 ways round, by the simplex method), once when the pairs are
// read, for every part of at most eight GPUs, so that a question is a look-up.
// Source of the search's order (NVLink alone before NVB): NCCL 2.30 src/graph/search.cc.
// Limits: rings of unequal pace are as good as equal ones; a pair's links are alike.
//
// Worked example: the first four V100 of a DGX-1 have 1, 1, 2, 2, 1, 2 links (0-1, 0-2, 0-3, 1-2, 1-3, 2-3). Ways
// round: 0-1-2-3, 0-2-1-3, 0-1-3-2. One ring each way along the first two fills 0-1, 0-2, 1-3 (1 link each), 0-3 and
// 1-2 (2): 4 rings, 4 x 25 GB/s = 100 GB/s. GPU0 alone with GPU1 has 1 ring of 25 GB/s; all eight GPUs have 6 rings,
// 150 GB/s. Measured bus bandwidth: 23, 88 (2 and 4 GPUs, VIA-Research/vTrain), 135 GB/s (8, nccl-tests at 1 GB).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ddlsim/support/error.h"

namespace ddlsim::hardware {

/// Two GPUs of a server, by their places in it, and the NVLinks that join them.
struct NvlinkPair {
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t links = 1;

  friend bool operator==(const NvlinkPair&, const NvlinkPair&) = default;
};

/// Most GPUs of a server whose NVLinks are told pair by pair.
inline constexpr std::int64_t kMaxMeshGpus = 64;

/// What `NvlinkMesh::create` checks.
struct NvlinkMeshParts {
  std::int64_t gpus = 1;
  std::int64_t links_per_gpu = 1;  // those a GPU has, whether or not all of them lead to another GPU of the server
  std::vector<NvlinkPair> pairs;
};

/// The first thing wrong with the pairs, and which of them it is.
struct NvlinkFault {
  std::size_t pair = 0;
  std::string message;
};

/// A GPU the server does not have, a pair of one GPU, a pair that stands twice, no link, and a GPU with more links than
/// it has. None: nothing is wrong.
[[nodiscard]] std::optional<NvlinkFault> first_fault(const NvlinkMeshParts& parts);

/// Immutable and cheap to copy.
class NvlinkMesh {
 public:
  /// Errors: kInvalidArgument with the first fault.
  [[nodiscard]] static Expected<NvlinkMesh> create(NvlinkMeshParts parts);

  [[nodiscard]] std::int64_t gpus() const;
  [[nodiscard]] std::int64_t links_per_gpu() const;
  [[nodiscard]] std::span<const NvlinkPair> pairs() const;
  /// Between two GPUs; zero where none join them, and for a GPU and itself.
  [[nodiscard]] std::int64_t links(std::int64_t from, std::int64_t to) const;
  /// Rings over the first `used` GPUs, in links' worth; zero where they are not joined, or there is but one.
  [[nodiscard]] double rings(std::int64_t used) const;
  /// Likewise over some GPUs; requires them to be the server's and distinct.
  [[nodiscard]] double rings(std::span<const std::int64_t> gpus) const;

 private:
  struct Links;
  explicit NvlinkMesh(std::shared_ptr<const Links> links) : links_(std::move(links)) {}

  std::shared_ptr<const Links> links_;
};

}  // namespace ddlsim::hardware
