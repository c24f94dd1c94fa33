// Which server of the catalogue a row ran on, and how much of it.
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cases/case_network.h"
#include "cases/case_scenario.h"
#include "cases/case_text.h"

namespace ddlsim::whatif {
namespace {

using hardware::Interconnect;
using hardware::Node;

/// Whether a case names the server: with its links, or one that is rented, with the case's GPU, anywhere.
bool names(const SaidOfServer& said, const Node& node, const hardware::Gpu& gpu) {
  const std::string id = lower_case(node.id);
  const bool rented = !node.tariff.provider.empty() && node.gpu.id == gpu.id;
  return has(said.links, id) || (rented && has(said.besides, id));
}

/// Of one architecture, or of two whose kernels both run (Blackwell and its Ultra).
bool alike(const hardware::Gpu& a, const hardware::Gpu& b) {
  return a.architecture == b.architecture || (a.kernels_of == b.architecture && b.kernels_of == a.architecture);
}

/// How well a server fits what a case says of its GPUs; below zero: not at all.
int fitness(const Node& node, const hardware::Gpu& gpu, const SaidOfServer& said, std::int64_t widest) {
  const std::string& text = said.links;
  if (node.gpus < widest) return -1;
  int score = 1000 - static_cast<int>(std::min<std::int64_t>(node.gpus - widest, 100)) * 10;
  if (names(said, node, gpu)) score += 2000;
  if (node.gpu.id == gpu.id) score += 400;
  if (node.gpu.form == gpu.form) score += 300;
  if (alike(node.gpu, gpu)) score += 200;
  const bool pcie = gpu.form == hardware::Form::kPcie || has_any(text, {"pcie only", "p2p disabled"});
  if (has_any(text, {"nvswitch", "all-to-all", "nvl72"})) {
    score += node.gpu_interconnect == Interconnect::kNvlink ? 350 : 0;
  } else if (has(text, "mesh")) {
    score += node.gpu_interconnect == Interconnect::kNvlinkMesh ? 350 : 0;
  } else if (has(text, "nvlink")) {
    score += node.joined_by_nvlink() ? 350 : 0;
  } else if (has(text, "pcie") || pcie) {
    score += node.gpu_interconnect == Interconnect::kPcie ? 350 : 0;
  }
  // A part of a cloud's server that nobody names is a worse guess than one with seven GPUs more: one GPU of a DGX.
  if (node.tariff.provider.empty()) score += 80;
  return score;
}

/// Superchips with Blackwell GPUs come as racks of 72 (NVIDIA GB200 and GB300 NVL72), unless a source says otherwise.
bool in_racks(const io::Case& one, const hardware::Gpu& gpu, const std::string& text) {
  if (has(text, "nvl72") || has(lower_case(one.gpu), "nvl72")) return true;
  const bool superchip =
      gpu.form == hardware::Form::kSuperchip && gpu.nccl_tuning == hardware::GpuGeneration::kBlackwell;
  return superchip && one.gpus_per_node * one.nodes > 4 && !has_any(text, {"nvl4", "nvl2", "nvl8"});
}

}  // namespace

const Node* CaseReader::best_server(const hardware::Gpu& gpu, const SaidOfServer& said, std::int64_t gpus) const {
  const Node* best = nullptr;
  int most = -1;
  for (const Node& node : servers_) {
    const int score = fitness(node, gpu, said, gpus);
    // Of rented servers that fit alike: nobody means the one with the slowest network and does not say so.
    const bool rented = !node.tariff.provider.empty();
    const bool faster = best != nullptr && rented && node.network_bandwidth() > best->network_bandwidth();
    if (score < most || (score == most && !faster)) continue;
    most = score;
    best = &node;
  }
  return best;
}

Expected<void> CaseReader::add_server(const io::Case& one, std::int64_t widest, std::vector<Override>& settings) const {
  const auto gpu = gpu_of(one);
  if (!gpu) return tl::unexpected<Error>(gpu.error());
  const std::string text = lower_case(one.intra_interconnect + " | " + one.inter_network);
  if (in_racks(one, *gpu, text)) return add_racks(one, *gpu, settings);
  // The server that the row names; else all of a group on one kind of server, where there is one that is wide enough.
  const SaidOfServer said{text, lower_case(one.said("instance").value_or("") + " | " + one.notes)};
  const Node* best = best_server(*gpu, said, one.gpus_per_node);
  if (best == nullptr || !names(said, *best, *gpu)) {
    best = best_server(*gpu, said, std::max(widest, one.gpus_per_node));
  }
  if (best == nullptr) best = best_server(*gpu, said, one.gpus_per_node);
  if (best == nullptr) {
    return fail(ErrorCode::kNotFound, fmt::format("no server of the catalog has {} GPUs", one.gpus_per_node));
  }
  settings.push_back({"node", best->id, one.where});
  if (best->gpu.id != gpu->id) settings.push_back({"gpu", gpu->id, one.where});
  settings.push_back({"nodes", std::to_string(one.nodes), one.where});
  // A row of one machine may use fewer GPUs than it has.
  const std::int64_t used = one.nodes == 1 ? std::min(one.gpus_per_node, one.total_gpus) : one.gpus_per_node;
  if (one.total_gpus % used != 0 || one.total_gpus / used != one.nodes) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{} GPUs in all are not {} nodes of {}", one.total_gpus, one.nodes, one.gpus_per_node));
  }
  settings.push_back({"gpus_per_node", std::to_string(used), one.where});
  const std::string inside = lower_case(one.intra_interconnect);
  const bool joined =
      has(text, "bridge") || (has_word(inside, "nvlink") && !has_any(inside, {"without", "disable", "unused", "off"}));
  if (joined && used == 2 && gpu->nvlink && best->gpu_interconnect == Interconnect::kPcie) {
    settings.push_back({"gpu_interconnect", "nvlink", one.where});
  }
  // NCCL_P2P_DISABLE takes NVLink as well: what is left goes through the host's memory.
  if (has(text, "p2p disabled") || affirms(one, "p2p_disabled")) {
    settings.push_back({"gpu_interconnect", "pcie", one.where});
    settings.push_back({"peer_to_peer", "no", one.where});
  }
  if (one.nodes == 1) return {};
  return add_network(catalog_, one, *best, settings);
}

/// A rack of 72 GPUs is one NVLink domain, however many trays its source counts.
Expected<void> CaseReader::add_racks(const io::Case& one, const hardware::Gpu& gpu,
                                     std::vector<Override>& settings) const {
  constexpr std::int64_t kRack = 72;
  std::int64_t used = std::min(kRack, one.total_gpus);  // of a rack: jobs leave some of its trays alone
  while (used > kRack / 2 && one.total_gpus % used != 0) --used;
  if (one.total_gpus % used != 0) {
    return fail(ErrorCode::kUnsupported, fmt::format("{} GPUs do not fill {} racks alike", one.total_gpus,
                                                     one.total_gpus / kRack + (one.total_gpus % kRack > 0 ? 1 : 0)));
  }
  settings.push_back({"node", "gb200-nvl72", one.where});
  if (gpu.id != "gb200-186gb") settings.push_back({"gpu", gpu.id, one.where});
  settings.push_back({"nodes", std::to_string(one.total_gpus / used), one.where});
  settings.push_back({"gpus_per_node", std::to_string(used), one.where});
  return {};
}

}  // namespace ddlsim::whatif
