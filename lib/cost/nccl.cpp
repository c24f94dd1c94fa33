#include "ddlsim/cost/nccl.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "ddlsim/cost/nccl_terms.h"
#include "nccl_tuning.h"

namespace ddlsim::cost {
namespace {

using Algorithm = CollectiveAlgorithm;

/// What all lines of one question share.
struct Context {
  const Communicator& c;
  const CollectiveLibrary& library;
  EffectiveRates rates;
  double n;
  double nodes;
  double per_node;
  Time growth_per_doubling;
  Time local_pass;  // per byte
  double tree_levels;
  std::array<Latencies, kProtocols.size()> latencies;  // in the order of kProtocols
  Time wall_clock;                                     // beside the tuner's latencies

  /// What LL can move at most.
  [[nodiscard]] Bandwidth ll_limit() const {
    if (c.nodes == 1) return gigabytes_per_second(kLlMaxOneNode[static_cast<std::size_t>(c.generation)]);
    return gigabytes_per_second(c.nodes == 2 ? kLlMaxTwoNodes : kLlMaxNodes);
  }
};

Time per_byte(Bandwidth rate) { return bytes(1) / rate; }

bool wanted(const CollectiveLibrary& library, Protocol protocol) {
  return !library.protocol || *library.protocol == protocol;
}

/// What one byte of size puts on the wires of `WireBytes`.
struct Wires {
  double intra = 0;
  double inter = 0;
};

/// Of a wire that is there: none inside a server of one GPU, none between a single server and others.
Wires on(const Context& x, Wires each) {
  return {x.per_node > 1.0 ? each.intra : 0.0, x.c.nodes > 1 ? each.inter : 0.0};
}

/// Both wires move at the same time; the slower one sets the pace.
Time together(Wires wires, Bandwidth intra, Bandwidth inter) {
  Time sent{};
  if (wires.intra > 0) sent = per_byte(intra) * wires.intra;
  if (wires.inter > 0) sent = max(sent, per_byte(inter) * wires.inter);
  return sent;
}

/// The local pass comes on top of every protocol, the growth on all but LL's small messages.
CollectiveLine line(const Context& x, Algorithm algorithm, Protocol protocol, Time latency, Wires wires, Time sent) {
  CollectiveLine l{.algorithm = algorithm, .protocol = protocol, .latency = latency, .per_byte = sent};
  l.latency = max(l.latency + x.wall_clock, Time::zero());
  l.per_byte += x.local_pass;
  l.wire_intra = wires.intra;
  l.wire_inter = wires.inter;
  if (protocol != Protocol::kLl) l.growth_per_doubling = x.growth_per_doubling;
  l.provenance = x.rates.provenance;
  return l;
}

Bandwidth protocol_rate(const Context& x, Protocol protocol, Bandwidth rate) {
  if (protocol == Protocol::kLl) return min(rate * kLlShare, x.ll_limit());
  return protocol == Protocol::kLl128 ? rate * kLl128Share : rate;
}

/// Base and hops of a ring.
NcclTerms ring_hops(const Context& x, primitives::CollectiveOp op, std::size_t p) {
  const Latencies& hop = x.latencies[p];
  const bool twice = op == primitives::CollectiveOp::kAllReduce;
  const double steps = twice ? 2.0 * (x.n - 1.0) : x.n - 1.0;
  NcclTerms terms;
  terms.base = microseconds(kBaseRing[p]);
  terms.hops_across = twice ? 2.0 * (x.nodes - 1.0) : x.nodes - 1.0;
  terms.hop_across = hop.inter_ring;
  terms.hops_inside = steps - terms.hops_across;
  terms.hop_inside = x.c.nodes == 1 ? hop.intra_ring : max(hop.intra_ring, hop.overhead);
  if (twice && x.c.nodes > 1 && kProtocols[p] == Protocol::kSimple) {
    // What the wire itself takes longer than the tuner's hop is no matter of NCCL's.
    terms.far = max(x.c.inter_latency - microseconds(kUsualNetworkHop), Time::zero()) * terms.hops_across;
    terms.rounds = x.c.generation >= GpuGeneration::kAmpere ? kRingPlateauNew : kRingPlateauOld;
  }
  return terms;
}

CollectiveLine ring(const Context& x, primitives::CollectiveOp op, std::size_t p) {
  const Protocol protocol = kProtocols[p];
  const double volume = ring_volume(op, x.n);
  const Wires wires = on(x, {volume, volume});
  const Time sent =
      together(wires, protocol_rate(x, protocol, x.rates.intra), protocol_rate(x, protocol, x.rates.inter));
  return line(x, Algorithm::kRing, protocol, ring_hops(x, op, p).latency(), wires, sent);
}

/// Of the network, what trees have: between two nodes before Ampere half (cost/nccl.h).
double tree_network_share(const Context& x) {
  return x.c.nodes == 2 && x.c.generation < GpuGeneration::kAmpere ? 0.5 : 1.0;
}

/// Of a tree's wire: NCCL counts rates at two bytes sent for one of size.
Bandwidth tree_rate(const Context& x, Protocol protocol, Bandwidth rate, double wire) {
  if (protocol == Protocol::kLl) return min(rate * (1.0 / kTreeLlDivisor), x.ll_limit() * (wire / 2.0));
  if (protocol == Protocol::kLl128) return rate * (x.c.nodes == 1 ? kTreeLl128OneNode : kTreeLl128);
  return rate;
}

/// Base and hops of a tree.
NcclTerms tree_hops(const Context& x, std::size_t p) {
  NcclTerms terms;
  terms.base = microseconds(kBaseTree[p]);
  terms.hops_inside = x.per_node - 1.0;
  terms.hop_inside = x.latencies[p].intra_tree;
  terms.hops_across = x.tree_levels;
  terms.hop_across = x.latencies[p].inter_tree;
  terms.rounds = 2;
  return terms;
}

CollectiveLine double_tree(const Context& x, std::size_t p) {
  const Protocol protocol = kProtocols[p];
  const Wires wires = on(x, {2.0, x.c.nodes == 2 ? 1.0 : 2.0});
  const Time sent = together(wires, tree_rate(x, protocol, x.rates.intra * kTreeShare, wires.intra),
                             tree_rate(x, protocol, x.rates.inter * tree_network_share(x), wires.inter));
  CollectiveLine l = line(x, Algorithm::kDoubleTree, protocol, tree_hops(x, p).latency(), wires, sent);
  l.tree_corrected = true;
  return l;
}

/// One tree alone: an inner GPU sends three times the size (one up, two down) where two trees make it two for all.
CollectiveLine single_tree(const Context& x, std::size_t p) {
  constexpr double kMore = 3.0 / 2.0;
  CollectiveLine l = double_tree(x, p);
  l.algorithm = Algorithm::kTree;
  l.per_byte = l.per_byte * kMore;
  l.wire_intra *= kMore;
  l.wire_inter *= kMore;
  return l;
}

bool has_nvls(const Context& x) {
  return x.library.nvls && x.c.fabric == GpuFabric::kNvswitch && nvls_share(x.c.generation) > 0 && x.per_node > 2.0;
}

/// The local pass where every server reduces all of a message.
Time in_its_server(const Context& x) { return x.local_pass * (x.n / x.per_node); }

CollectiveLine nvls(const Context& x) {
  const Wires wires = on(x, {1.0 + 1.0 / x.per_node, x.c.nodes == 2 ? 1.0 : 2.0});
  const Time sent = together(wires, x.rates.intra * nvls_share(x.c.generation), x.rates.inter);
  if (x.c.nodes == 1) return line(x, Algorithm::kNvls, Protocol::kSimple, microseconds(kNvlsLatency), wires, sent);
  const Time inter =
      shifted(kNvlsTreeNetwork, x.c.inter_latency - microseconds(kUsualNetworkHop) + transport_latency(x.c));
  CollectiveLine l = line(x, Algorithm::kNvlsTree, Protocol::kSimple,
                          microseconds(kNvlsLatency) + inter * (2.0 * x.tree_levels), wires, sent);
  l.per_byte += in_its_server(x) - x.local_pass;
  return l;
}

/// Reduce-scatter inside, a ring of each local rank between the nodes, all-gather inside (Horovod's hierarchy).
CollectiveLine hierarchical(const Context& x) {
  const std::size_t simple = 2;
  const Latencies& hop = x.latencies[simple];
  const double local = x.per_node;
  const Time latency = microseconds(3.0 * kBaseRing[simple]) + hop.intra_ring * (2.0 * (local - 1.0)) +
                       hop.inter_ring * (2.0 * (x.nodes - 1.0));
  const Wires wires = on(x, {2.0 * (local - 1.0) / local, 2.0 * (x.nodes - 1.0) / x.nodes});
  Time sent{};
  if (wires.inter > 0) sent += per_byte(x.rates.inter) * wires.inter;
  if (wires.intra > 0) sent += per_byte(x.rates.intra) * wires.intra;
  return line(x, Algorithm::kHierarchical, Protocol::kSimple, latency, wires, sent);
}

CollectiveLine point_to_point(const Context& x, primitives::CollectiveOp op, std::size_t p) {
  const Protocol protocol = kProtocols[p];
  const Latencies& hop = x.latencies[p];
  Wires wires{1.0, 1.0};
  Bandwidth outside = x.rates.port;
  Time latency = x.c.nodes == 1 ? hop.intra_ring : hop.inter_ring;
  if (op != primitives::CollectiveOp::kSendRecv) {
    const double away = (x.n - x.per_node) / x.n;
    wires = {(x.per_node - 1.0) / x.n, x.per_node * away};
    outside = x.rates.inter;
    latency = hop.intra_ring * ((x.per_node - 1.0) / kPeersAtOnce) + hop.inter_ring * (x.n * away / kPeersAtOnce);
    latency = max(latency, x.c.nodes == 1 ? hop.intra_ring : hop.inter_ring);
  }
  wires = on(x, wires);
  const Time sent = together(wires, protocol_rate(x, protocol, x.rates.intra), protocol_rate(x, protocol, outside));
  CollectiveLine l = line(x, Algorithm::kDirect, protocol, microseconds(kBaseRing[p]) + latency, wires, sent);
  // A mesh has no link between some pairs; they meet over the host, which nobody measured here.
  if (x.c.fabric == GpuFabric::kNvlinkMesh) l.provenance = Provenance::kAssumed;
  return l;
}

void add(std::vector<CollectiveLine>& lines, const CollectiveLibrary& library, const CollectiveLine& l) {
  if (!wanted(library, l.protocol)) return;
  if (library.algorithm && *library.algorithm != l.algorithm) return;
  lines.push_back(l);
}

/// Every hop goes up one host link and down another.
Bandwidth staged_limit(const Communicator& c, const CollectiveLibrary& library) {
  return min(host_memory_limit(c.pcie) * c.staging_speed, c.host_share * library.intra_efficiency.value_or(kPcieShare));
}

/// Of the wire's rate inside a server, before a limit of the host's memory: in and out again, whoever states the share.
double share_inside(const Communicator& c, const CollectiveLibrary& library) {
  if (!library.intra_efficiency) return intra_share(c);
  return *library.intra_efficiency / (c.fabric == GpuFabric::kHostMemory ? 2.0 : 1.0);
}

}  // namespace

EffectiveRates effective_rates(const Communicator& c, const CollectiveLibrary& library) {
  EffectiveRates rates;
  rates.intra = c.intra * share_inside(c, library);
  if (c.fabric == GpuFabric::kHostMemory) rates.intra = min(rates.intra, staged_limit(c, library));
  const auto ports = static_cast<double>(c.network_ports);
  const double feeding = std::min(ports, static_cast<double>(c.gpus_per_node()));
  const Bandwidth wire =
      library.inter_efficiency ? c.inter * *library.inter_efficiency : transport_rate(c, library.kind);
  rates.inter = min(wire, c.pcie * (kPcieShare * feeding));
  // A card's PCIe is what feeds it; NCCL gives 100 Gb/s and PCIe 3.0 the same 12 GB/s, so neither hides the other.
  rates.port = min(rates.inter, wire / ports);
  const bool guessed_inside = c.fabric == GpuFabric::kHostMemory ||
                              (c.fabric == GpuFabric::kPcie && c.crosses_sockets && !library.intra_efficiency);
  const bool guessed_between = c.nodes > 1 && !library.inter_efficiency &&
                               c.transport != NetworkTransport::kInfiniband && c.transport != NetworkTransport::kRoce;
  const bool unsaid = c.tuning_assumed || (c.nodes > 1 && c.transport_assumed);
  if (guessed_inside || guessed_between || unsaid) rates.provenance = Provenance::kAssumed;
  return rates;
}

double ring_volume(primitives::CollectiveOp op, double n) {
  switch (op) {
    case primitives::CollectiveOp::kAllReduce: return 2.0 * (n - 1.0) / n;
    case primitives::CollectiveOp::kAllGather:
    case primitives::CollectiveOp::kReduceScatter:
    case primitives::CollectiveOp::kAllToAll: return (n - 1.0) / n;
    case primitives::CollectiveOp::kBroadcast:
    case primitives::CollectiveOp::kReduce:
    case primitives::CollectiveOp::kSendRecv: return 1.0;
  }
  return 1.0;
}

namespace {

Context context_of(const Communicator& c, const CollectiveLibrary& library, primitives::CollectiveOp op) {
  const auto n = static_cast<double>(c.gpus);
  return {.c = c,
          .library = library,
          .rates = effective_rates(c, library),
          .n = n,
          .nodes = static_cast<double>(c.nodes),
          .per_node = static_cast<double>(c.gpus_per_node()),
          .growth_per_doubling = growth_of(c),
          .local_pass = c.memory > Bandwidth{} ? per_byte(c.memory) * (kLocalPassBytes / n) : Time::zero(),
          .tree_levels = static_cast<double>(std::bit_width(static_cast<std::uint64_t>(c.nodes)) - 1),
          .latencies = {latencies_of(c, 0), latencies_of(c, 1), latencies_of(c, 2)},
          .wall_clock = wall_clock_of(c, op)};
}

/// Inside a server or between them, before a protocol's share.
WireTerms wire_inside(const Context& x) {
  WireTerms wire{.wire = x.c.intra, .share = share_inside(x.c, x.library)};
  if (x.c.fabric == GpuFabric::kHostMemory) wire.cap = staged_limit(x.c, x.library);
  return wire;
}

WireTerms wire_across(const Context& x) {
  const Communicator& c = x.c;
  const auto ports = static_cast<double>(c.network_ports);
  const double feeding = std::min(ports, static_cast<double>(c.gpus_per_node()));
  WireTerms wire{.wire = c.inter, .cap = c.pcie * (kPcieShare * feeding)};
  if (x.library.inter_efficiency) {
    wire.share = *x.library.inter_efficiency;
  } else if (c.transport == NetworkTransport::kTcp) {
    Communicator uncapped = c;
    uncapped.transport_speed = HUGE_VAL;
    wire.share = transport_rate(uncapped) / c.inter;
    wire.cap = min(wire.cap, kTcpPortLimit * (ports * c.transport_speed));
  } else {
    wire.share = transport_rate(c, x.library.kind) / c.inter;
  }
  return wire;
}

/// What a protocol makes of a wire's rate.
WireTerms by_protocol(WireTerms wire, double share, Bandwidth limit) {
  wire.share *= share;
  wire.cap = min(wire.cap * share, limit);
  return wire;
}

void add_rates(const Context& x, const CollectiveLine& line, NcclTerms& terms) {
  terms.inside = wire_inside(x);
  terms.across = wire_across(x);
  const bool tree = line.algorithm == Algorithm::kDoubleTree;
  if (tree) terms.inside = by_protocol(terms.inside, kTreeShare, Bandwidth::infinity());
  if (tree) terms.across = by_protocol(terms.across, tree_network_share(x), Bandwidth::infinity());
  for (auto [wire, bytes_on] : {std::pair{&terms.inside, line.wire_intra}, {&terms.across, line.wire_inter}}) {
    double share = 1;
    Bandwidth limit = Bandwidth::infinity();
    if (line.protocol == Protocol::kLl) {
      share = tree ? 1.0 / kTreeLlDivisor : kLlShare;
      limit = tree ? x.ll_limit() * (bytes_on / 2.0) : x.ll_limit();
    } else if (line.protocol == Protocol::kLl128) {
      share = !tree ? kLl128Share : x.c.nodes == 1 ? kTreeLl128OneNode : kTreeLl128;
    }
    *wire = by_protocol(*wire, share, limit);
  }
}

}  // namespace

std::optional<NcclTerms> nccl_terms(const Communicator& c, const CollectiveLibrary& library,
                                    primitives::CollectiveOp op, const CollectiveLine& line) {
  if (library.kind != CollectiveLibraryKind::kNccl) return std::nullopt;
  const Context x = context_of(c, library, op);
  const auto p =
      static_cast<std::size_t>(std::find(kProtocols.begin(), kProtocols.end(), line.protocol) - kProtocols.begin());
  if (p == kProtocols.size()) return std::nullopt;
  NcclTerms terms;
  if (line.algorithm == Algorithm::kRing) {
    terms = ring_hops(x, op, p);
  } else if (line.algorithm == Algorithm::kDoubleTree) {
    terms = tree_hops(x, p);
  } else if (line.algorithm == Algorithm::kNvls || line.algorithm == Algorithm::kNvlsTree) {
    terms.base = microseconds(kNvlsLatency);
    if (line.algorithm == Algorithm::kNvlsTree) {
      terms.hops_across = 2.0 * x.tree_levels;
      terms.hop_across =
          shifted(kNvlsTreeNetwork, c.inter_latency - microseconds(kUsualNetworkHop) + transport_latency(c));
    }
  } else {
    return std::nullopt;
  }
  terms.wall = x.wall_clock;
  terms.local = x.local_pass;
  add_rates(x, line, terms);
  const bool nvls = line.algorithm == Algorithm::kNvls || line.algorithm == Algorithm::kNvlsTree;
  if (nvls) {
    terms.local = in_its_server(x);
    terms.inside = by_protocol(terms.inside, nvls_share(c.generation), Bandwidth::infinity());
  }
  return terms;
}

std::vector<CollectiveLine> nccl_lines(const Communicator& c, const CollectiveLibrary& library,
                                       primitives::CollectiveOp op) {
  const Context x = context_of(c, library, op);
  std::vector<CollectiveLine> lines;
  lines.reserve(2 * kProtocols.size() + 1);
  for (std::size_t p = 0; p < kProtocols.size(); ++p) {
    if (kProtocols[p] == Protocol::kLl128 && (!by_nvlink(c.fabric) || c.generation < GpuGeneration::kVolta)) continue;
    switch (op) {
      case primitives::CollectiveOp::kAllReduce:
        add(lines, library, ring(x, op, p));
        add(lines, library, double_tree(x, p));
        if (library.algorithm == Algorithm::kTree) add(lines, library, single_tree(x, p));
        break;
      case primitives::CollectiveOp::kAllGather:
      case primitives::CollectiveOp::kReduceScatter:
      case primitives::CollectiveOp::kBroadcast:
      case primitives::CollectiveOp::kReduce: add(lines, library, ring(x, op, p)); break;
      case primitives::CollectiveOp::kAllToAll:
      case primitives::CollectiveOp::kSendRecv:
        if (kProtocols[p] != Protocol::kLl128) add(lines, library, point_to_point(x, op, p));
        break;
    }
  }
  if (op == primitives::CollectiveOp::kAllReduce) {
    if (has_nvls(x)) add(lines, library, nvls(x));
    // Nobody chooses it for NCCL; frameworks build it from NCCL's parts when asked.
    if (library.algorithm == Algorithm::kHierarchical) add(lines, library, hierarchical(x));
  }
  return lines;
}

}  // namespace ddlsim::cost
