#include "ddlsim/cost/nccl.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "ddlsim/cost/nccl_terms.h"

namespace ddlsim::cost {
namespace {

using Algorithm = CollectiveAlgorithm;
using Protocol = CollectiveProtocol;

constexpr std::array<Protocol, 3> kProtocols{Protocol::kLl, Protocol::kLl128, Protocol::kSimple};

/// In the order of kProtocols, microseconds. NCCL 2.30 src/graph/tuning.cc.
using PerProtocol = std::array<double, 3>;
constexpr PerProtocol kBaseTree{6.8, 14.0, 8.4};
constexpr PerProtocol kBaseRing{6.6, 14.0, 8.4};
struct Hop {
  PerProtocol tree;
  PerProtocol ring;
};
constexpr Hop kNvlinkHop{{0.6, 1.25, 4.0}, {0.6, 1.9, 3.4}};
constexpr Hop kPcieHop{{1.0, 1.9, 4.0}, {1.0, 2.5, 5.7}};
constexpr Hop kNetworkHop{{5.0, 8.5, 14.0}, {2.7, 4.0, 14.0}};
constexpr double kNvlsLatency = 25.0;
constexpr double kNvlsTreeNetwork = 20.9;
constexpr double kNetworkOverhead = 1.0;  // of a step in a ring that has a network hop; three times for Simple
constexpr double kRingPlateauNew = 1.4;   // Simple, several nodes, compute capability 8.0 on
constexpr double kRingPlateauOld = 1.9;   // before
constexpr double kTreeShare = 0.92;       // Simple and below
constexpr double kLl128Share = 0.92;      // 120 of 128 bytes and the rest
constexpr double kTreeLl128OneNode = 7.0 / 9.0;
constexpr double kTreeLl128 = 120.0 / 128.0;
constexpr double kTreeLlDivisor = 3.8;
constexpr double kLlShare = 0.5;  // 4 of 8 bytes
/// GB/s, of one node: by generation. Several nodes take the host's row, whatever the GPU (Intel).
constexpr std::array<double, 5> kLlMaxOneNode{39.0, 39.0, 87.7, 141.0, 282.0};
constexpr double kLlMaxTwoNodes = 39.0;
constexpr double kLlMaxNodes = 20.4;
constexpr double kPeersAtOnce = 8;  // NCCL 2.30 src/include/device.h, point-to-point work per kernel batch

constexpr double kUsualNvlinkHop = 3.4;  // what a link's file says when it says what NCCL does
constexpr double kUsualPcieHop = 5.7;
constexpr double kUsualNetworkHop = 14.0;

constexpr double kLocalPassBytes = 3.0;  // the header says from what these two are
constexpr std::array<double, 5> kGrowthMicroseconds{0, 0, 18, 8, 8};

/// What calls take above or below the tuner's latencies of LL on NVLink, microseconds: once, and for each local step.
struct WallClock {
  double base = 0;
  double hop = 0;
};
constexpr std::array<WallClock, 5> kWallClock{{{}, {}, {1.1, 0.44}, {-1.8, 0.19}, {1.1, 0.63}}};
/// Microseconds per doubling, that large messages take besides between nodes: by EFA; by RDMA from Hopper on.
constexpr double kEfaGrowth = 45.0;
constexpr double kRdmaGrowth = 12.0;

constexpr std::array<double, 24> kCorrectionLl{1,  1,  1,  1,  .9, .8, .7, .7, .7, .7, .6, .5,
                                               .4, .4, .5, .6, .7, .8, .9, 1,  1,  1,  1,  1};
constexpr std::array<double, 24> kCorrectionLl128{1,  1,  1,  1,  1,  .9, .8, .8, .8, .7, .6, .6,
                                                  .6, .6, .6, .6, .8, .9, .9, .9, .9, 1,  1,  1};
constexpr std::array<double, 24> kCorrectionSimple{.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
                                                   .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9};

double nvlink_share(GpuGeneration generation) {
  switch (generation) {
    case GpuGeneration::kPascal: return 18.0 / 20.0;
    case GpuGeneration::kVolta: return 23.1 / 25.0;
    case GpuGeneration::kAmpere: return 20.0 / 25.0;
    case GpuGeneration::kHopper: return 20.6 / 25.0;
    case GpuGeneration::kBlackwell: return 40.1 / 50.0;
  }
  return 0.8;
}

double nvls_share(GpuGeneration generation) {
  if (generation == GpuGeneration::kHopper) return 0.85;
  return generation == GpuGeneration::kBlackwell ? 0.74 : 0.0;
}

bool by_nvlink(GpuFabric fabric) {
  return fabric == GpuFabric::kNvswitch || fabric == GpuFabric::kNvlinkMesh || fabric == GpuFabric::kNvlinkBridge;
}

constexpr double kPcieShare = 12.0 / 15.754;
constexpr double kSocketShare = 10.0 / 15.754;         // between two sockets of PCIe 3.0's day; later ones keep pace
constexpr double kHostMemoryShare = kPcieShare / 2.0;  // in and out again over the host's links (assumed)
constexpr double kInfinibandShare = 12.0 / 12.5;
constexpr double kRoceShare = kInfinibandShare * 0.92;
constexpr double kTcpxShare = 0.71;
constexpr double kTcpShare = 0.94;
constexpr Bandwidth kHostMemoryLimit = gigabytes_per_second(5);
constexpr Bandwidth kTcpPortLimit = gigabits_per_second(32);

double intra_share(const Communicator& c) {
  switch (c.fabric) {
    case GpuFabric::kNvswitch:
    case GpuFabric::kNvlinkMesh:
    case GpuFabric::kNvlinkBridge: return nvlink_share(c.generation);
    case GpuFabric::kPcie: return c.crosses_sockets ? kSocketShare : kPcieShare;
    case GpuFabric::kHostMemory: return kHostMemoryShare;
  }
  return kPcieShare;
}

Bandwidth transport_rate(const Communicator& c) {
  const auto ports = static_cast<double>(c.network_ports);
  switch (c.transport) {
    case NetworkTransport::kInfiniband: return c.inter * kInfinibandShare;
    case NetworkTransport::kRoce:
    case NetworkTransport::kEfa: return c.inter * kRoceShare;
    case NetworkTransport::kTcpx: return c.inter * kTcpxShare;
    case NetworkTransport::kTcp: return min(c.inter * kTcpShare, kTcpPortLimit * (ports * c.transport_speed));
  }
  return c.inter;
}

/// Latencies of one protocol on one communicator.
struct Latencies {
  Time intra_ring{};
  Time intra_tree{};
  Time inter_ring{};
  Time inter_tree{};
  Time overhead{};
};

Time shifted(double usual, Time by) { return max(microseconds(usual) + by, Time::zero()); }

Latencies latencies_of(const Communicator& c, std::size_t p) {
  const bool nvlink = by_nvlink(c.fabric);
  const Hop& hop = nvlink ? kNvlinkHop : kPcieHop;
  const Time intra = c.intra_latency - microseconds(nvlink ? kUsualNvlinkHop : kUsualPcieHop);
  const Time inter = c.inter_latency - microseconds(kUsualNetworkHop) + transport_latency(c);
  Latencies l;
  l.intra_ring = shifted(hop.ring[p], intra);
  l.intra_tree = shifted(hop.tree[p], intra);
  // NCCL takes the tree's network latency for rings of one GPU per node.
  l.inter_ring = shifted(c.gpus == c.nodes ? kNetworkHop.tree[p] : kNetworkHop.ring[p], inter);
  l.inter_tree = shifted(kNetworkHop.tree[p], inter);
  l.overhead = microseconds(kProtocols[p] == Protocol::kSimple ? 3 * kNetworkOverhead : kNetworkOverhead);
  return l;
}

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
                             tree_rate(x, protocol, x.rates.inter, wires.inter));
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

/// Trees between two nodes send each byte once; before Ampere NCCL's caps on a tree's channels leave it the ring.
bool has_trees(const Context& x) { return x.c.nodes != 2 || x.c.generation >= GpuGeneration::kAmpere; }

/// Beside the tuner's latencies, which rank algorithms and are no wall clock: the same for every candidate.
Time wall_clock_of(const Communicator& c, primitives::CollectiveOp op) {
  if (!by_nvlink(c.fabric) || c.gpus_per_node() == 1) return Time::zero();
  const WallClock& measured = kWallClock[static_cast<std::size_t>(c.generation)];
  const double rounds = op == primitives::CollectiveOp::kAllReduce ? 2.0 : 1.0;
  return microseconds(measured.base + measured.hop * rounds * static_cast<double>(c.gpus_per_node() - 1));
}

Time growth_of(const Communicator& c) {
  double growth = by_nvlink(c.fabric) ? kGrowthMicroseconds[static_cast<std::size_t>(c.generation)] : 0.0;
  if (c.nodes > 1 && c.transport == NetworkTransport::kEfa) growth += kEfaGrowth;
  const bool rdma = c.transport == NetworkTransport::kInfiniband || c.transport == NetworkTransport::kRoce;
  if (c.nodes > 1 && rdma && c.generation >= GpuGeneration::kHopper) growth += kRdmaGrowth;
  return microseconds(growth);
}

bool has_nvls(const Context& x) {
  return x.library.nvls && x.c.fabric == GpuFabric::kNvswitch && nvls_share(x.c.generation) > 0 && x.per_node > 2.0;
}

CollectiveLine nvls(const Context& x) {
  const Wires wires = on(x, {1.0 + 1.0 / x.per_node, x.c.nodes == 2 ? 1.0 : 2.0});
  const Time sent = together(wires, x.rates.intra * nvls_share(x.c.generation), x.rates.inter);
  if (x.c.nodes == 1) return line(x, Algorithm::kNvls, Protocol::kSimple, microseconds(kNvlsLatency), wires, sent);
  const Time inter =
      shifted(kNvlsTreeNetwork, x.c.inter_latency - microseconds(kUsualNetworkHop) + transport_latency(x.c));
  return line(x, Algorithm::kNvlsTree, Protocol::kSimple, microseconds(kNvlsLatency) + inter * (2.0 * x.tree_levels),
              wires, sent);
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

}  // namespace

EffectiveRates effective_rates(const Communicator& c, const CollectiveLibrary& library) {
  EffectiveRates rates;
  rates.intra = c.intra * library.intra_efficiency.value_or(intra_share(c));
  if (c.fabric == GpuFabric::kHostMemory && !library.intra_efficiency) rates.intra = min(rates.intra, kHostMemoryLimit);
  const auto ports = static_cast<double>(c.network_ports);
  const double feeding = std::min(ports, static_cast<double>(c.gpus_per_node()));
  const Bandwidth wire = library.inter_efficiency ? c.inter * *library.inter_efficiency : transport_rate(c);
  rates.inter = min(wire, c.pcie * (kPcieShare * feeding));
  // A card's PCIe is what feeds it; NCCL gives 100 Gb/s and PCIe 3.0 the same 12 GB/s, so neither hides the other.
  rates.port = min(rates.inter, wire / ports);
  const bool shared = c.fabric == GpuFabric::kHostMemory || (c.fabric == GpuFabric::kPcie && c.crosses_sockets);
  const bool guessed_inside = shared && !library.intra_efficiency;
  const bool guessed_between = c.nodes > 1 && !library.inter_efficiency &&
                               c.transport != NetworkTransport::kInfiniband && c.transport != NetworkTransport::kRoce;
  const bool unsaid = c.tuning_assumed || (c.nodes > 1 && c.transport_assumed);
  if (guessed_inside || guessed_between || unsaid) rates.provenance = Provenance::kAssumed;
  return rates;
}

Time transport_latency(const Communicator& c) {
  switch (c.transport) {
    case NetworkTransport::kInfiniband:
    case NetworkTransport::kRoce: return Time::zero();
    case NetworkTransport::kEfa: return microseconds(c.generation >= GpuGeneration::kHopper ? 20 : 75);
    case NetworkTransport::kTcpx:
    case NetworkTransport::kTcp: return microseconds(30);
  }
  return Time::zero();
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

double tree_correction(CollectiveProtocol protocol, DataSize size) {
  const auto& table = protocol == Protocol::kLl      ? kCorrectionLl
                      : protocol == Protocol::kLl128 ? kCorrectionLl128
                                                     : kCorrectionSimple;
  const double units = size.in(bytes) / 64.0;
  if (units <= 1.0) return table.front();
  int exponent = 0;
  const double mantissa = std::frexp(units, &exponent);  // in [0.5, 1): units = 2 mantissa * 2^(exponent-1)
  const auto k = static_cast<std::size_t>(exponent - 1);
  if (k + 1 >= table.size()) return table.back();
  return table[k] + (table[k + 1] - table[k]) * (2.0 * mantissa - 1.0);
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
  const bool staged = x.c.fabric == GpuFabric::kHostMemory && !x.library.intra_efficiency;
  WireTerms wire{.wire = x.c.intra, .share = x.library.intra_efficiency.value_or(intra_share(x.c))};
  if (staged) wire.cap = kHostMemoryLimit;
  return wire;
}

WireTerms wire_across(const Context& x) {
  const Communicator& c = x.c;
  const auto ports = static_cast<double>(c.network_ports);
  const double feeding = std::min(ports, static_cast<double>(c.gpus_per_node()));
  WireTerms wire{.wire = c.inter, .cap = c.pcie * (kPcieShare * feeding)};
  if (x.library.inter_efficiency) {
    wire.share = *x.library.inter_efficiency;
  } else {
    Communicator uncapped = c;
    uncapped.transport_speed = HUGE_VAL;
    wire.share = transport_rate(uncapped) / c.inter;
    if (c.transport == NetworkTransport::kTcp) wire.cap = min(wire.cap, kTcpPortLimit * (ports * c.transport_speed));
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
  if (nvls) terms.inside = by_protocol(terms.inside, nvls_share(c.generation), Bandwidth::infinity());
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
        if (has_trees(x) || library.algorithm == Algorithm::kDoubleTree) add(lines, library, double_tree(x, p));
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
