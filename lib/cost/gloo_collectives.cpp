#include "ddlsim/cost/gloo_collectives.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "ddlsim/cost/nccl.h"
#include "host_staging.h"

namespace ddlsim::cost {
namespace {

using Algorithm = CollectiveAlgorithm;

// The header says where these come from.
constexpr DataSize kGlooSegment = mebibytes(1);
constexpr DataSize kGlooWindow = mebibytes(3);
constexpr Bandwidth kLoopback = gigabytes_per_second(2.5);
constexpr Time kGlooMessage = microseconds(30);

/// Seconds per byte, and per message.
struct GlooCosts {
  double n = 1;
  double local = 1;   // ranks per node
  double levels = 0;  // of a binary tree
  Time delay{};       // one way
  Time port{};        // per byte: all ports of a node; none: one node
  Time connection{};  // per byte
  Time staging{};     // per byte of a buffer, there and back

  [[nodiscard]] double rest() const { return (n - 1) / n; }
  /// A byte in each of so many messages that a rank sends at once.
  [[nodiscard]] Time at_once(double messages) const { return max(port * (messages * local), connection); }
  [[nodiscard]] Time segment() const { return max(connection + delay / kGlooSegment * bytes(1), bytes(1) / kCpuSum); }
};

GlooCosts gloo_costs(const Communicator& c, const CollectiveLibrary& library) {
  GlooCosts costs;
  costs.n = static_cast<double>(c.gpus);
  costs.local = static_cast<double>(c.gpus_per_node());
  costs.levels = static_cast<double>(std::bit_width(static_cast<std::uint64_t>(c.gpus - 1)));
  costs.delay = kGlooMessage;
  costs.connection = bytes(1) / kLoopback;
  costs.staging = host_copy(c) * 2.0;
  if (c.nodes == 1) return costs;
  const Bandwidth rate = effective_rates(c, library).inter;
  costs.delay += added_latency(c);
  costs.port = bytes(1) / rate;
  const Bandwidth connection = min(min(rate, c.connection), kGlooWindow / (costs.delay * 2.0));
  costs.connection = bytes(1) / (costs.local > 1 ? min(connection, kLoopback) : connection);
  return costs;
}

CollectiveLine gloo_line(Algorithm algorithm, const GlooCosts& k, Time latency, Time per_byte, double out) {
  CollectiveLine made;
  made.algorithm = algorithm;
  made.latency = latency;
  made.per_byte = per_byte + k.staging;
  made.wire_intra = 1;
  made.wire_inter = k.port > Time::zero() ? out : 0;
  made.provenance = Provenance::kAssumed;
  return made;
}

/// Passes of a ring in segments: two of an all-reduce, one of half of it.
void add_ring(std::vector<CollectiveLine>& lines, const GlooCosts& k, double passes, Time besides) {
  const double share = passes * k.rest();
  CollectiveLine small =
      gloo_line(Algorithm::kRing, k, k.delay * (2 * passes * (k.n - 1)), k.connection * share + besides, share);
  CollectiveLine large = gloo_line(Algorithm::kRing, k, Time::zero(), k.segment() * share + besides, share);
  // Both take as long where segments become shorter than 1 MiB, or where the CPU sums slower than they come.
  const Time more = (k.segment() - k.connection) * share;
  const DataSize full = kGlooSegment * (2 * k.n);
  small.up_to = large.above = more > Time::zero() ? min(full, bytes(1) * (small.latency / more)) : full;
  lines.push_back(small);
  lines.push_back(large);
}

}  // namespace

std::vector<CollectiveLine> gloo_lines(const Communicator& c, const CollectiveLibrary& library,
                                       primitives::CollectiveOp op) {
  using primitives::CollectiveOp;
  std::vector<CollectiveLine> lines;
  if (library.protocol) return lines;
  const GlooCosts k = gloo_costs(c, library);
  const auto wants = [&](Algorithm algorithm) { return !library.algorithm || *library.algorithm == algorithm; };
  const double rest = k.rest();
  switch (op) {
    case CollectiveOp::kAllReduce:
      if (wants(Algorithm::kRing)) add_ring(lines, k, 2, Time::zero());
      break;
    case CollectiveOp::kReduceScatter:
      if (wants(Algorithm::kRing)) add_ring(lines, k, 1, Time::zero());
      break;
    case CollectiveOp::kReduce:
      if (wants(Algorithm::kRing)) add_ring(lines, k, 1, k.at_once(1) * rest);
      break;
    case CollectiveOp::kAllGather:
      if (!wants(Algorithm::kRing)) break;
      lines.push_back(gloo_line(Algorithm::kRing, k, k.delay * (2 * (k.n - 1)), k.connection * rest, rest));
      break;
    case CollectiveOp::kBroadcast: {
      if (!wants(Algorithm::kBinomial)) break;
      Time per_byte;
      for (double level = 1; level <= k.levels; ++level) per_byte += k.at_once(level);
      lines.push_back(gloo_line(Algorithm::kBinomial, k, k.delay * (2 * k.levels), per_byte, k.levels * k.local));
      break;
    }
    case CollectiveOp::kAllToAll:
      if (!wants(Algorithm::kPairwise)) break;
      lines.push_back(gloo_line(Algorithm::kPairwise, k, k.delay * 2.0, k.at_once(1) * rest, rest * k.local));
      break;
    case CollectiveOp::kSendRecv:
      if (!wants(Algorithm::kDirect)) break;
      lines.push_back(gloo_line(Algorithm::kDirect, k, k.delay * 2.0, k.connection, 1));
      break;
  }
  return lines;
}

}  // namespace ddlsim::cost
