// What a line of NCCL's is made of, for views that explain it: the equations of cost/nccl.h with their numbers.
//
//   latency  L = max(base + (hops_inside * hop_inside + hops_across * hop_across - far) * rounds + far + wall, 0)
//   per byte b = max(wire_inside / rate_inside, wire_across / rate_across) + local
//   rate     = min(share * wire, cap)
// Rings and double trees are priced from these very terms (`NcclTerms::latency`), so that the two cannot drift apart;
// of NVLS they are the same numbers, and a test holds them together.
//
// Worked example: cost/collective.h, eight Volta GPUs: base 8.4 us, 14 hops of 3.4 us; 1.75 bytes at 0.924 * 150 GB/s.
#pragma once

#include <optional>

#include "ddlsim/cost/collective.h"

namespace ddlsim::cost {

/// What large messages reach on one wire.
struct WireTerms {
  Bandwidth wire{};  // as the hardware has it
  double share = 1;
  Bandwidth cap = Bandwidth::infinity();

  [[nodiscard]] Bandwidth reached() const { return min(wire * share, cap); }
};

struct NcclTerms {
  Time base{};
  double hops_inside = 0;
  Time hop_inside{};
  double hops_across = 0;
  Time hop_across{};
  double rounds = 1;  // of a tree 2; of a Simple ring between servers what it takes more of NCCL's own latency
  Time far{};         // of `hops_across`, what the wire takes longer than NCCL's own hop
  Time wall{};        // beside the tuner's latencies
  WireTerms inside;
  WireTerms across;
  Time local{};  // of one byte, through the GPU's memory

  /// Without `wall`.
  [[nodiscard]] Time latency() const {
    return base + ((hop_inside * hops_inside + hop_across * hops_across - far) * rounds + far);
  }
};

/// Nothing for algorithms that are not rings, double trees or NVLS, and for other libraries' lines.
[[nodiscard]] std::optional<NcclTerms> nccl_terms(const Communicator& communicator, const CollectiveLibrary& library,
                                                  primitives::CollectiveOp op, const CollectiveLine& line);

}  // namespace ddlsim::cost
