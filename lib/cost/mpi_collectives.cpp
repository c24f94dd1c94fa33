#include "ddlsim/cost/mpi_collectives.h"

#include <algorithm>
#include <bit>

#include "ddlsim/cost/nccl.h"
#include "host_staging.h"

namespace ddlsim::cost {
namespace {

using Algorithm = CollectiveAlgorithm;
using Kind = CollectiveLibraryKind;

// The header says where these come from.
constexpr Time kNetworkMessage = microseconds(1.1);
constexpr Time kHostMessage = microseconds(0.5);
constexpr Time kDeviceMessage = microseconds(1.9);
constexpr Time kPointerQuery = microseconds(5);
constexpr Time kCachedQuery = microseconds(0.1);
constexpr Time kKernelLaunch = microseconds(6);
constexpr Bandwidth kHostMemory = gigabytes_per_second(10);
constexpr Bandwidth kMappedWindow = gigabytes_per_second(1);
constexpr double kBytesPerReducedByte = 3;  // two reads, one write
constexpr double kPointersPerCall = 2;      // send and receive buffer

// MPICH src/mpi/coll, default thresholds.
constexpr DataSize kShortReduce = bytes(2048);
constexpr DataSize kLongGather = kibibytes(512);
constexpr DataSize kLongScatter = kibibytes(512);
constexpr DataSize kShortAllToAll = bytes(256);  // of one message
constexpr DataSize kShortBroadcast = bytes(12288);

Time byte_time(Bandwidth rate) { return bytes(1) / rate; }

/// What one byte of size puts on a rank's own link and on its node's network, one direction, and how long that takes.
struct Sent {
  double intra = 0;
  double inter = 0;
  Time time{};

  friend Sent operator+(const Sent& a, const Sent& b) {
    return {a.intra + b.intra, a.inter + b.inter, a.time + b.time};
  }
  friend Sent operator*(const Sent& a, double times) { return {a.intra * times, a.inter * times, a.time * times}; }
};

/// Latency and time per byte of messages inside a node and between nodes, and of a sum.
struct Costs {
  double n = 1;
  double local = 1;  // ranks per node
  double nodes = 1;
  double lg_local = 0;  // rounded up, inside a node
  double lg_nodes = 0;  // rounded up, between nodes
  bool power_of_two = true;
  Time intra_latency{};
  Time inter_latency{};
  Time intra{};    // per byte
  Time inter{};    // per byte, one rank alone on its node's network
  Time sum{};      // per byte
  Time per_sum{};  // launch of a kernel
  Time start{};    // of a call
  Time staging{};  // per byte of a buffer that crosses PCIe
  Provenance provenance = Provenance::kAssumed;

  [[nodiscard]] double lg() const { return lg_local + lg_nodes; }
  [[nodiscard]] Time tree_latency() const { return intra_latency * lg_local + inter_latency * lg_nodes; }
  [[nodiscard]] Time ring_latency() const {
    return intra_latency * (n - nodes) + inter_latency * (nodes > 1 ? nodes - 1.0 : 0.0);
  }
  [[nodiscard]] Time neighbour_latency() const { return local > 1 ? intra_latency : inter_latency; }

  // What phases of an algorithm put on the wires, and how long they take.
  /// Every rank sends a byte in each of its exchanges.
  [[nodiscard]] Sent whole_exchanges() const { return one_after_the_other(lg_local, local * lg_nodes); }
  /// Recursive halving: (g-1)/g inside, then 1/g of the size between nodes with all ranks of a node at once.
  [[nodiscard]] Sent halving() const { return one_after_the_other((local - 1.0) / local, (nodes - 1.0) / nodes); }
  /// One rank of a node at a time.
  [[nodiscard]] Sent binomial() const { return one_after_the_other(lg_local, lg_nodes); }
  /// Rings and pairwise exchanges: the slowest hop. A ring crosses a node's network once.
  [[nodiscard]] Sent slowest_hop(double share) const {
    Sent sent{.intra = local > 1 ? share : 0.0, .inter = nodes > 1 ? share : 0.0};
    if (sent.intra > 0) sent.time = intra * share;
    if (sent.inter > 0) sent.time = max(sent.time, inter * share);
    return sent;
  }

 private:
  [[nodiscard]] Sent one_after_the_other(double inside, double between) const {
    Sent sent{.intra = inside, .inter = nodes > 1 ? between : 0.0};
    sent.time = inter * sent.inter;
    if (local > 1) sent.time += intra * sent.intra;
    return sent;
  }
};

double ceil_log2(std::int64_t value) {
  return static_cast<double>(std::bit_width(static_cast<std::uint64_t>(value - 1)));
}

Costs common_costs(const Communicator& c, const CollectiveLibrary& library) {
  const EffectiveRates rates = effective_rates(c, library);
  Costs costs;
  costs.n = static_cast<double>(c.gpus);
  costs.nodes = static_cast<double>(c.nodes);
  costs.local = static_cast<double>(c.gpus_per_node());
  costs.lg_local = ceil_log2(c.gpus_per_node());
  costs.lg_nodes = ceil_log2(c.nodes);
  costs.power_of_two = std::has_single_bit(static_cast<std::uint64_t>(c.gpus));
  costs.inter_latency = kNetworkMessage + added_latency(c);
  if (c.nodes > 1) costs.inter = byte_time(rates.inter);
  return costs;
}

Time query_cost(const CollectiveLibrary& library) {
  const bool cached = library.pointer_cache.value_or(library.kind == Kind::kMpiOpt);
  return cached ? kCachedQuery : kPointerQuery;
}

Costs host_costs(const Communicator& c, const CollectiveLibrary& library) {
  Costs costs = common_costs(c, library);
  costs.intra_latency = kHostMessage;
  costs.intra = byte_time(kHostMemory);
  costs.sum = byte_time(kCpuSum);
  costs.start = query_cost(library) * kPointersPerCall;
  costs.staging = host_copy(c);
  return costs;
}

Costs device_costs(const Communicator& c, const CollectiveLibrary& library) {
  Costs costs = common_costs(c, library);
  costs.inter_latency += kDeviceMessage - kNetworkMessage;
  costs.intra_latency = kDeviceMessage;
  if (c.gpus_per_node() > 1) costs.intra = byte_time(effective_rates(c, library).intra);
  costs.sum = byte_time(c.memory) * kBytesPerReducedByte;
  costs.per_sum = kKernelLaunch;
  costs.start = query_cost(library) * kPointersPerCall;
  if (library.kind == Kind::kBaidu) {
    const Time query = query_cost(library) * kPointersPerCall;  // of every message
    costs.intra_latency += query;
    costs.inter_latency += query;
  }
  return costs;
}

/// Small messages of mpi-opt: the CPU reads and writes GPU memory through a mapped window and sums itself.
Costs window_costs(const Communicator& c, const CollectiveLibrary& library) {
  Costs costs = device_costs(c, library);
  costs.per_sum = Time::zero();
  costs.sum = byte_time(kCpuSum);
  costs.staging = max(byte_time(kMappedWindow), host_copy(c));
  return costs;
}

struct Terms {
  Time latency{};
  Sent sent{};         // per byte
  double sums = 0;     // steps that reduce
  double reduced = 0;  // of a byte
  double copied = 2;   // of a byte, over PCIe
};

CollectiveLine line(const Costs& k, Algorithm algorithm, const Terms& t) {
  CollectiveLine l;
  l.algorithm = algorithm;
  l.latency = k.start + t.latency + k.per_sum * t.sums;
  l.per_byte = t.sent.time + k.sum * t.reduced + k.staging * t.copied;
  // Staged: out once and back once over the GPU's own PCIe link, and the rest is the host's memory.
  l.wire_intra = k.staging > Time::zero() ? 1.0 : t.sent.intra;
  l.wire_inter = t.sent.inter;
  l.provenance = k.provenance;
  return l;
}

CollectiveLine recursive_doubling(const Costs& k) {
  Terms t{.latency = k.tree_latency(), .sent = k.whole_exchanges(), .sums = k.lg(), .reduced = k.lg()};
  if (!k.power_of_two) {  // fold into the power of two below, and back
    t.latency += k.neighbour_latency() * 2.0;
    t.sent = t.sent + k.slowest_hop(2.0);
    t.sums += 1;
    t.reduced += 1;
  }
  return line(k, Algorithm::kRecursiveDoubling, t);
}

CollectiveLine rabenseifner(const Costs& k) {
  const double rest = (k.n - 1.0) / k.n;
  Terms t{.latency = k.tree_latency() * 2.0, .sent = k.halving() * 2.0, .sums = k.lg(), .reduced = rest};
  if (!k.power_of_two) {
    t.latency += k.neighbour_latency() * 2.0;
    t.sent = t.sent + k.slowest_hop(2.0);
    t.sums += 1;
    t.reduced += 1;
  }
  return line(k, Algorithm::kRabenseifner, t);
}

CollectiveLine ring_all_reduce(const Costs& k, Algorithm name) {
  const double rest = (k.n - 1.0) / k.n;
  return line(
      k, name,
      {.latency = k.ring_latency() * 2.0, .sent = k.slowest_hop(2.0 * rest), .sums = k.n - 1.0, .reduced = rest});
}

CollectiveLine hierarchical(const Costs& k) {
  const double inside = (k.local - 1.0) / k.local;
  const double between = (k.nodes - 1.0) / k.nodes;
  return line(k, Algorithm::kHierarchical,
              {.latency = (k.intra_latency * (k.local - 1.0) + k.inter_latency * (k.nodes - 1.0)) * 2.0,
               .sent = k.halving() * 2.0,
               .sums = k.local + k.nodes - 2.0,
               .reduced = inside + between / k.local});
}

CollectiveLine between(CollectiveLine l, DataSize above, DataSize up_to) {
  l.above = above;
  l.up_to = up_to;
  return l;
}
constexpr DataSize kNothing = bytes(-1);

/// The short-message and the long-message algorithm, at MPICH's threshold; either alone where it is asked for.
void add_pair(std::vector<CollectiveLine>& lines, const CollectiveLibrary& library, const CollectiveLine& small,
              const CollectiveLine& large, DataSize threshold) {
  if (library.algorithm == small.algorithm && small.algorithm != large.algorithm) {
    lines.push_back(small);
  } else if (library.algorithm == large.algorithm && small.algorithm != large.algorithm) {
    lines.push_back(large);
  } else if (!library.algorithm) {
    lines.push_back(between(small, kNothing, threshold));
    lines.push_back(between(large, threshold, DataSize::infinity()));
  }
}

void add_all_reduce(std::vector<CollectiveLine>& lines, const Costs& k, const CollectiveLibrary& library) {
  if (library.algorithm == Algorithm::kRing) return lines.push_back(ring_all_reduce(k, Algorithm::kRing));
  if (library.algorithm == Algorithm::kHierarchical) return lines.push_back(hierarchical(k));
  add_pair(lines, library, recursive_doubling(k), rabenseifner(k), kShortReduce);
}

void add_others(std::vector<CollectiveLine>& lines, const Costs& k, const CollectiveLibrary& library,
                primitives::CollectiveOp op) {
  const double rest = (k.n - 1.0) / k.n;
  const double gathered = 1.0 + 1.0 / k.n;  // one share one way, everything the other
  switch (op) {
    case primitives::CollectiveOp::kAllReduce: return add_all_reduce(lines, k, library);
    case primitives::CollectiveOp::kAllGather:
      return add_pair(
          lines, library,
          line(k, Algorithm::kRecursiveDoubling,
               {.latency = k.tree_latency(), .sent = k.halving(), .copied = gathered}),
          line(k, Algorithm::kRing, {.latency = k.ring_latency(), .sent = k.slowest_hop(rest), .copied = gathered}),
          kLongGather);
    case primitives::CollectiveOp::kReduceScatter:
      return add_pair(
          lines, library,
          line(k, Algorithm::kRabenseifner,
               {.latency = k.tree_latency(), .sent = k.halving(), .sums = k.lg(), .reduced = rest, .copied = gathered}),
          line(k, Algorithm::kPairwise,
               {.latency = k.ring_latency(),
                .sent = k.slowest_hop(rest * (k.nodes > 1 ? k.local : 1.0)),
                .sums = k.n - 1.0,
                .reduced = rest,
                .copied = gathered}),
          kLongScatter);
    case primitives::CollectiveOp::kAllToAll:
      return add_pair(lines, library,
                      line(k, Algorithm::kBruck, {.latency = k.tree_latency(), .sent = k.whole_exchanges() * 0.5}),
                      line(k, Algorithm::kPairwise,
                           {.latency = k.ring_latency(), .sent = k.slowest_hop(rest * (k.nodes > 1 ? k.local : 1.0))}),
                      kShortAllToAll * k.n);
    case primitives::CollectiveOp::kBroadcast:
      return add_pair(
          lines, library,
          line(k, Algorithm::kBinomial, {.latency = k.tree_latency(), .sent = k.binomial(), .copied = 1}),
          line(
              k, Algorithm::kRing,
              {.latency = k.tree_latency() + k.ring_latency(), .sent = k.halving() + k.slowest_hop(rest), .copied = 1}),
          kShortBroadcast);
    case primitives::CollectiveOp::kReduce:
      return add_pair(
          lines, library,
          line(k, Algorithm::kBinomial,
               {.latency = k.tree_latency(), .sent = k.binomial(), .sums = k.lg(), .reduced = k.lg(), .copied = 1}),
          line(k, Algorithm::kRabenseifner,
               {.latency = k.tree_latency() * 2.0,
                .sent = k.halving() * 2.0,
                .sums = k.lg(),
                .reduced = rest,
                .copied = 1}),
          kShortReduce);
    case primitives::CollectiveOp::kSendRecv:
      if (library.algorithm && *library.algorithm != Algorithm::kDirect) return;
      return lines.push_back(
          line(k, Algorithm::kDirect,
               {.latency = k.nodes > 1 ? k.inter_latency : k.intra_latency, .sent = k.slowest_hop(1.0)}));
  }
}

void add_optimised(std::vector<CollectiveLine>& lines, const Communicator& c, const CollectiveLibrary& library) {
  const auto wants = [&](Algorithm algorithm) { return !library.algorithm || *library.algorithm == algorithm; };
  if (library.sums_on != plan::SumsOn::kGpu && wants(Algorithm::kRecursiveDoubling)) {
    lines.push_back(recursive_doubling(window_costs(c, library)));
  }
  if (library.sums_on == plan::SumsOn::kCpu) {
    add_all_reduce(lines, host_costs(c, library), library);
    return;
  }
  const Costs kernels = device_costs(c, library);
  if (wants(Algorithm::kRecursiveDoubling)) lines.push_back(recursive_doubling(kernels));
  if (wants(Algorithm::kRabenseifner)) lines.push_back(rabenseifner(kernels));
  if (wants(Algorithm::kRing)) lines.push_back(ring_all_reduce(kernels, Algorithm::kRing));
  if (library.algorithm == Algorithm::kHierarchical) lines.push_back(hierarchical(kernels));
}

}  // namespace

std::vector<CollectiveLine> mpi_lines(const Communicator& c, const CollectiveLibrary& library,
                                      primitives::CollectiveOp op) {
  std::vector<CollectiveLine> lines;
  if (library.protocol) return lines;
  if (library.kind == Kind::kMpi) {
    add_others(lines, host_costs(c, library), library, op);
  } else if (op != primitives::CollectiveOp::kAllReduce) {
    add_others(lines, device_costs(c, library), library, op);
  } else if (library.kind == Kind::kMpiOpt) {
    add_optimised(lines, c, library);
  } else if (!library.algorithm || *library.algorithm == Algorithm::kPerTensorRing) {
    lines.push_back(ring_all_reduce(device_costs(c, library), Algorithm::kPerTensorRing));
  }
  return lines;
}

}  // namespace ddlsim::cost
