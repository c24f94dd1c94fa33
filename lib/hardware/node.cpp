#include "ddlsim/hardware/node.h"

#include <fmt/core.h>

#include <algorithm>

namespace ddlsim::hardware {
namespace {

/// Over rings of links' worth, where the server's GPUs have links to each other.
PeerPath path_over(const Node& node, double rings) {
  if (node.nvlink && node.gpu_interconnect == Interconnect::kNvlink) {
    return {.by = Interconnect::kNvlink, .bandwidth = node.nvlink->bandwidth, .latency = node.nvlink->latency};
  }
  if (rings > 0) {
    const auto links = static_cast<double>(node.nvlink_mesh->links_per_gpu());
    return {.by = Interconnect::kNvlinkMesh,
            .bandwidth = node.nvlink->bandwidth * rings / links,
            .latency = node.nvlink->latency};
  }
  return {.by = Interconnect::kPcie,
          .bandwidth = node.pcie.bandwidth,
          .latency = node.pcie.latency,
          .through_host = !(node.peer_to_peer && node.gpu.peer_to_peer)};
}

}  // namespace

PeerPath Node::peers(std::int64_t used) const {
  PeerPath path = path_over(*this, nvlink && nvlink_mesh ? nvlink_mesh->rings(used > 1 ? used : gpus) : 0.0);
  path.crosses_switches = used > 1 && switch_of(used - 1) != switch_of(0);
  return path;
}

Expected<PeerPath> Node::peers(std::span<const std::int64_t> places) const {
  const auto bad = [](std::string what, std::string note) {
    return fail(ErrorCode::kInvalidArgument, std::move(what), {}, {std::move(note)});
  };
  const std::string valid = fmt::format("valid: 0 to {}", gpus - 1);
  if (places.empty()) return bad("no GPU of the server is named", valid);
  std::vector<std::int64_t> sorted(places.begin(), places.end());
  std::sort(sorted.begin(), sorted.end());
  for (const std::int64_t place : {sorted.front(), sorted.back()}) {
    if (place < 0 || place >= gpus) return bad(fmt::format("no GPU {}: the server has {}", place, gpus), valid);
  }
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end()) {
    return bad(fmt::format("GPU {} stands twice", *twice), "every GPU once");
  }
  if (sorted.size() == 1) return peers(1);
  PeerPath path = path_over(*this, nvlink && nvlink_mesh ? nvlink_mesh->rings(sorted) : 0.0);
  path.crosses_switches = switch_of(sorted.front()) != switch_of(sorted.back());
  return path;
}

void Node::sustain_network() {
  if (!network_sustained) return;
  network_burst = network.bandwidth;
  network.bandwidth = *network_sustained;
  network_sustained.reset();
}

void Node::burst_network() {
  if (!network_burst) return;
  network_sustained = network.bandwidth;
  network.bandwidth = *network_burst;
  network_burst.reset();
}

}  // namespace ddlsim::hardware
