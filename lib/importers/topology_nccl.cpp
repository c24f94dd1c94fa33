#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <pugixml.hpp>
#include <set>
#include <unordered_map>
#include <utility>

#include "ddlsim/importers/topology_file.h"
#include "ddlsim/io/yaml.h"
#include "ddlsim/support/names.h"
#include "ddlsim/support/quantity_io.h"

namespace ddlsim::importers {
namespace {

using hardware::DuplexLink;
using hardware::EdgeKind;
using hardware::Ends;
using hardware::VertexKind;

// NCCL 2.30 src/graph/tuning.cc, hwLat, ring, Simple.
constexpr Time kPcieLatency = microseconds(5.7);
constexpr Time kNvlinkLatency = microseconds(3.4);
constexpr Time kNetworkLatency = microseconds(14.0);

/// NCCL 2.30 src/graph/topo.h: 12 GB/s for 16 lanes of 8 GT/s.
constexpr Bandwidth kLane = gigabytes_per_second(12.0 / 16.0);
constexpr double kLaneRate = 8.0;
constexpr std::string_view kSpeeds = "valid: '2.5 GT/s', '5 GT/s', '8 GT/s', '16 GT/s', '32 GT/s', '64 GT/s'";
constexpr std::int64_t kMaxLanes = 64;
constexpr std::int64_t kMaxNvlinks = 1024;
constexpr std::size_t kMaxSockets = 64;
constexpr double kMaxMegabits = 1e9;

/// NCCL 2.30 src/graph/topo.h, ncclTopoNVLinkBw: of one link, by compute capability.
Bandwidth nvlink_rate(std::int64_t capability) {
  if (capability >= 100) return gigabytes_per_second(40.1);
  if (capability >= 90) return gigabytes_per_second(20.6);
  if (capability == 86) return gigabytes_per_second(12.0);
  if (capability >= 70) return gigabytes_per_second(20.0);
  return gigabytes_per_second(18.0);
}

std::string lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

struct Gpu {
  std::size_t vertex = 0;
  std::optional<std::int64_t> number;
  std::int64_t capability = 0;
  std::string bus;
  pugi::xml_node node;  // its <gpu>
};

/// The first error ends the reading.
class Reader {
 public:
  Reader(std::string_view text, const std::string& file) : text_(text), file_(file) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') lines_.push_back(i + 1);
    }
  }

  Expected<TopologyFile> read() {
    if (read_document()) {
      join_sockets();
      if (!error_) join_nvlinks();
    }
    if (error_) return tl::unexpected<Error>(std::move(*error_));
    order_gpus();
    auto topology = hardware::Topology::create(std::move(parts_));
    if (!topology) {
      Error error = topology.error();
      error.where.file = file_;
      return tl::unexpected<Error>(std::move(error));
    }
    return TopologyFile{std::move(*topology), std::move(notes_)};
  }

 private:
  [[nodiscard]] SourceLocation at(std::ptrdiff_t offset) const {
    const auto place = static_cast<std::size_t>(std::max<std::ptrdiff_t>(offset, 0));
    const auto next = std::upper_bound(lines_.begin(), lines_.end(), place);
    return {file_, static_cast<int>(next - lines_.begin()), static_cast<int>(place - *(next - 1)) + 1};
  }
  bool wrong(std::ptrdiff_t offset, std::string message, std::vector<std::string> notes = {},
             ErrorCode code = ErrorCode::kParse) {
    if (!error_) error_ = Error{code, std::move(message), at(offset), std::move(notes), {}};
    return false;
  }
  bool wrong(pugi::xml_node node, std::string message, std::vector<std::string> notes = {},
             ErrorCode code = ErrorCode::kParse) {
    return wrong(node.offset_debug(), std::move(message), std::move(notes), code);
  }
  void note(std::string text) {
    if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) notes_.push_back(std::move(text));
  }
  std::size_t add(std::string id, VertexKind kind) {
    parts_.vertices.push_back({std::move(id), kind, 0});
    return parts_.vertices.size() - 1;
  }
  void link(Ends ends, EdgeKind kind, Bandwidth bandwidth, Time latency) {
    parts_.links.push_back(DuplexLink{ends, kind, bandwidth, latency});
  }

  bool read_document() {
    for (std::size_t i = 0; i < text_.size(); ++i) {
      const auto c = static_cast<unsigned char>(text_[i]);
      if ((c >= 0x20 && c != 0x7f) || c == '\t' || c == '\n' || c == '\r') continue;
      return wrong(static_cast<std::ptrdiff_t>(i), fmt::format("a control character (0x{:02x})", c),
                   {"XML has none; terminal colours (ANSI codes) do not belong into a file"});
    }
    const auto result = document_.load_buffer(text_.data(), text_.size(), pugi::parse_default | pugi::parse_doctype,
                                              pugi::encoding_utf8);
    if (!result) return wrong(result.offset, fmt::format("not well-formed XML: {}", lower(result.description())));
    pugi::xml_node root;
    for (const pugi::xml_node node : document_.children()) {
      if (node.type() == pugi::node_doctype) return wrong(node, "a document type (<!DOCTYPE>) is not accepted");
      if (node.type() != pugi::node_element) continue;
      if (root) return wrong(node, "a second root element", {"the root is one <system>"});
      root = node;
    }
    if (!root || std::string_view(root.name()) != "system") {
      return wrong(root, fmt::format("the root element is <{}>, not <system>", name(root)),
                   {"NCCL writes such a file with NCCL_TOPO_DUMP_FILE"});
    }
    if (!attributes(root)) return false;
    for (const pugi::xml_node node : root.children()) {
      if (!is(node, {"cpu"}, "system") || !read_cpu(node)) return false;
    }
    if (sockets_.empty()) return wrong(root, "no <cpu> in <system>");
    if (gpus_.empty()) {
      return wrong(root, "no GPU in the file", {"a GPU is a <pci> of class 0x0302.. or with a <gpu> inside"});
    }
    return true;
  }

  static std::string name(pugi::xml_node node) { return std::string(node.name()).substr(0, 60); }

  /// Whether an element may stand here; says so where it may not.
  bool is(pugi::xml_node node, const std::vector<std::string>& valid, std::string_view parent) {
    if (node.type() != pugi::node_element) return wrong(node, fmt::format("text inside <{}>", parent));
    if (std::find(valid.begin(), valid.end(), node.name()) == valid.end()) {
      if (name(node) == "xgmi") {
        return wrong(node, "<xgmi> (AMD's Infinity Fabric links) is not modelled", {}, ErrorCode::kUnsupported);
      }
      return wrong(node, fmt::format("unknown element <{}> in <{}>", name(node), parent),
                   {suggestion(node.name(), valid)});
    }
    return attributes(node);
  }

  bool attributes(pugi::xml_node node) {
    std::set<std::string_view> seen;
    for (const pugi::xml_attribute attribute : node.attributes()) {
      if (seen.insert(attribute.name()).second) continue;
      return wrong(node, fmt::format("<{}> has the attribute '{}' twice", name(node),
                                     std::string(attribute.name()).substr(0, 60)));
    }
    return true;
  }

  static std::string text(pugi::xml_node node, const char* key) {
    return std::string(node.attribute(key).value()).substr(0, 200);
  }

  /// A required count.
  std::optional<std::int64_t> count(pugi::xml_node node, const char* key, CountRange range) {
    if (!node.attribute(key)) {
      wrong(node, fmt::format("<{}> needs the attribute '{}'", name(node), key));
      return std::nullopt;
    }
    const auto value = parse_count(text(node, key), range);
    if (value) return *value;
    wrong(node, fmt::format("{} of <{}>: {}", key, name(node), value.error().message), value.error().notes);
    return std::nullopt;
  }

  bool read_cpu(pugi::xml_node node) {
    const auto numa = count(node, "numaid", {0, 1 << 20});
    if (!numa) return false;
    const auto socket = add(fmt::format("socket{}", *numa), VertexKind::kSocket);
    const auto root = add(fmt::format("root{}", *numa), VertexKind::kRootComplex);
    for (const auto& [other, rate] : sockets_) {
      if (parts_.vertices[other].id == parts_.vertices[socket].id) {
        return wrong(node, fmt::format("a second <cpu> with numaid {}", *numa));
      }
    }
    if (sockets_.size() == kMaxSockets) return wrong(node, fmt::format("more than {} <cpu>", kMaxSockets));
    sockets_.emplace_back(socket, socket_rate(node));
    Bandwidth sum{};
    for (const pugi::xml_node child : node.children()) {
      if (!is(child, {"pci", "nic"}, "cpu")) return false;
      const std::size_t before = parts_.links.size();
      if (name(child) == "nic" ? !read_nic(child, root, default_pcie(child), "") : !read_pci(child, root, 2)) {
        return false;
      }
      if (parts_.links.size() > before) sum += parts_.links[before].bandwidth;
    }
    // A root complex carries all its PCIe links; without any its rate is of no account.
    link({root, socket}, EdgeKind::kHostBridge, sum > Bandwidth::zero() ? sum : 16.0 * kLane, kPcieLatency);
    return true;
  }

  /// NCCL 2.30 src/graph/topo.h, by vendor and model of the CPU.
  Bandwidth socket_rate(pugi::xml_node node) {
    const std::string vendor = text(node, "vendor");
    const std::string arch = text(node, "arch");
    if (arch == "arm64") return gigabytes_per_second(6);
    if (arch == "ppc64") return gigabytes_per_second(32);
    if (vendor == "AuthenticAMD") return gigabytes_per_second(16);
    const auto family = parse_count(text(node, "familyid"), {0, 1 << 20});
    const auto model = parse_count(text(node, "modelid"), {0, 1 << 20});
    if (vendor != "GenuineIntel" || !family || !model) {
      note("a CPU's model is not stated: 6 GB/s between sockets, NCCL's least");
      return gigabytes_per_second(6);
    }
    if (*family != 6) return gigabytes_per_second(6);
    if (*model >= 0xCF) return gigabytes_per_second(40);
    if (*model >= 0x8F) return gigabytes_per_second(22);
    return gigabytes_per_second(*model >= 0x55 ? 10 : 6);
  }

  Bandwidth default_pcie(pugi::xml_node node) {
    note(fmt::format("line {}: a device without a link_speed or link_width: 8 GT/s x16, NCCL's default",
                     at(node.offset_debug()).line));
    return 16.0 * kLane;
  }

  /// The rate of a device's PCIe link.
  std::optional<Bandwidth> pcie_rate(pugi::xml_node node) {
    std::string speed = text(node, "link_speed");
    const std::string width = text(node, "link_width");
    if (speed.empty() || width.empty()) return default_pcie(node);
    const std::string whole = speed;
    for (const std::string_view suffix : {" PCIe", " GT/s"}) {
      if (speed.ends_with(suffix)) speed.erase(speed.size() - suffix.size());
    }
    const auto rate = parse_number(speed);
    constexpr std::array kRates{2.5, 5.0, 8.0, 16.0, 32.0, 64.0};
    if (!rate || speed.size() == whole.size() || std::find(kRates.begin(), kRates.end(), *rate) == kRates.end()) {
      wrong(node, fmt::format("link_speed '{}' is none of PCIe", whole), {std::string(kSpeeds)});
      return std::nullopt;
    }
    const auto lanes = count(node, "link_width", {1, kMaxLanes});
    if (!lanes) return std::nullopt;
    return kLane * (*rate / kLaneRate * static_cast<double>(*lanes));
  }

  bool read_pci(pugi::xml_node node, std::size_t parent, int depth) {
    if (depth > io::kMaxDepth) return wrong(node, fmt::format("<pci> nested more than {} deep", io::kMaxDepth));
    const std::string bus = lower(text(node, "busid"));
    if (bus.empty()) return wrong(node, "<pci> needs the attribute 'busid'");
    for (pugi::xml_node up = node.parent(); up; up = up.parent()) {
      if (lower(text(up, "busid")) == bus) {
        return wrong(node, fmt::format("the PCI device {} is nested in itself", bus), {"PCI is a tree"});
      }
    }
    if (const auto [other, is_new] = buses_.emplace(bus, at(node.offset_debug()).line); !is_new) {
      return wrong(node, fmt::format("the PCI device {} stands twice, first on line {}", bus, other->second));
    }
    if (buses_.size() > kMaxTopologyDevices) {
      return wrong(node, fmt::format("more than {} devices", kMaxTopologyDevices));
    }
    const std::string cls = lower(text(node, "class"));
    const auto is_class = [&](std::string_view prefix) { return cls.starts_with(prefix); };
    if (node.child("gpu") || is_class("0x03") || is_class("0x12")) return read_gpu(node, parent, bus);
    if (node.child("nic") || is_class("0x02")) {
      const auto rate = pcie_rate(node);
      if (!rate) return false;
      for (const pugi::xml_node child : node.children()) {
        if (!is(child, {"nic"}, "pci")) return false;
      }
      return read_nic(node.child("nic"), parent, *rate, bus);
    }
    if (is_class("0x0604") || node.child("pci")) return read_switch(node, parent, bus, depth);
    if (!cls.empty()) {
      if (!is_class("0x0680")) note(fmt::format("{} (class {}) is no GPU, NIC or switch: left out", bus, cls));
      return true;
    }
    return wrong(node, fmt::format("the PCI device {} has no class and nothing inside", bus),
                 {"NCCL looks such devices up on the machine; give it class=\"0x030200\" (GPU), \"0x020000\" (NIC) or "
                  "\"0x060400\" (switch), or dump the whole with NCCL_TOPO_DUMP_FILE"});
  }

  bool read_switch(pugi::xml_node node, std::size_t parent, const std::string& bus, int depth) {
    const auto rate = pcie_rate(node);
    if (!rate) return false;
    const auto vertex = add("PCIe-" + bus, VertexKind::kPcieSwitch);
    link({vertex, parent}, EdgeKind::kPcie, *rate, kPcieLatency);
    for (const pugi::xml_node child : node.children()) {
      if (!is(child, {"pci", "pcilink"}, "pci")) return false;
      if (name(child) == "pcilink") {
        note("links between PCIe switches (pcilink): left out");
      } else if (!read_pci(child, vertex, depth + 1)) {
        return false;
      }
    }
    return true;
  }

  bool read_gpu(pugi::xml_node node, std::size_t parent, const std::string& bus) {
    const auto rate = pcie_rate(node);
    if (!rate) return false;
    Gpu gpu{.vertex = add("GPU-" + bus, VertexKind::kGpu), .number = {}, .capability = 0, .bus = bus, .node = {}};
    link({gpu.vertex, parent}, EdgeKind::kPcie, *rate, kPcieLatency);
    for (const pugi::xml_node child : node.children()) {
      if (!is(child, {"gpu"}, "pci")) return false;
      if (gpu.node) return wrong(child, "a second <gpu> in one <pci>");
      gpu.node = child;
      if (child.attribute("dev")) {
        gpu.number = count(child, "dev", {0, 1 << 20});
        if (!gpu.number) return false;
      }
      if (child.attribute("sm")) {
        const auto capability = count(child, "sm", {10, 1000});
        if (!capability) return false;
        gpu.capability = *capability;
      }
    }
    gpu_of_.emplace(bus, gpus_.size());
    gpus_.push_back(std::move(gpu));
    return true;
  }

  /// A NIC's slot and its ports; `node` is its <nic>, or none.
  bool read_nic(pugi::xml_node node, std::size_t parent, Bandwidth rate, const std::string& bus) {
    double megabits = 0;
    std::string id;
    for (const pugi::xml_node net : node.children()) {
      if (!is(net, {"net"}, "nic")) return false;
      if (id.empty()) id = text(net, "name");
      if (!net.attribute("speed")) continue;
      const auto speed = parse_number(text(net, "speed"));
      if (!speed || *speed <= 0 || *speed > kMaxMegabits) {
        return wrong(net, fmt::format("speed '{}' of <net> is no bandwidth", text(net, "speed")),
                     {"a number of Mb/s above zero, as 100000"});
      }
      megabits += *speed;
    }
    if (id.empty() && bus.empty()) return wrong(node, "<nic> without a <net> that has a name");
    if (id.empty() || !nic_names_.insert(id).second) {
      id = fmt::format("NIC-{}", bus.empty() ? std::to_string(nic_names_.size()) : bus);
    }
    const auto vertex = add(std::move(id), VertexKind::kNic);
    link({vertex, parent}, EdgeKind::kPcie, rate, kPcieLatency);
    if (megabits <= 0) {
      note("a NIC's port speed is not in the file: the NIC ends at PCIe");
      return true;
    }
    if (!network_) network_ = add("network", VertexKind::kLeafSwitch);
    parts_.vertices[*network_].server = hardware::kNoServer;
    link({vertex, *network_}, EdgeKind::kNetwork, gigabits_per_second(megabits / 1e3), kNetworkLatency);
    return true;
  }

  void join_sockets() {
    for (std::size_t i = 0; i < sockets_.size(); ++i) {
      for (std::size_t k = i + 1; k < sockets_.size(); ++k) {
        link({sockets_[i].first, sockets_[k].first}, EdgeKind::kSocketLink, min(sockets_[i].second, sockets_[k].second),
             kPcieLatency);
      }
    }
  }

  void join_nvlinks() {
    std::map<std::pair<std::size_t, std::size_t>, std::int64_t> peers;
    std::optional<std::size_t> hub;
    for (std::size_t i = 0; i < gpus_.size() && !error_; ++i) {
      const Gpu& gpu = gpus_[i];
      std::int64_t to_switch = 0;
      for (const pugi::xml_node child : gpu.node.children()) {
        if (!is(child, {"nvlink", "c2c"}, "gpu")) return;
        if (name(child) == "c2c") {
          note("C2C links between CPU and GPU: left out");
          continue;
        }
        if (gpu.capability == 0) {
          wrong(gpu.node, "<gpu> needs the attribute 'sm': the rate of its NVLinks follows from it");
          return;
        }
        const auto links = count(child, "count", {1, kMaxNvlinks});
        if (!links) return;
        const std::string target = lower(text(child, "target"));
        const std::string cls = lower(text(child, "tclass"));
        if (cls == "0x068001") {
          wrong(child, "NVLink to a CPU (POWER9) is not modelled", {}, ErrorCode::kUnsupported);
        } else if (cls.starts_with("0x0680")) {
          to_switch += *links;
        } else if (const auto peer = gpu_of_.find(target); peer != gpu_of_.end()) {
          if (peer->second == i) wrong(child, fmt::format("an NVLink of {} to itself", gpu.bus));
          if (!peers.emplace(std::pair(i, peer->second), *links).second) {
            wrong(child, fmt::format("the NVLinks from {} to {} stand twice", gpu.bus, target));
          }
        } else if (cls.starts_with("0x03") && !target.empty()) {
          note(fmt::format("the NVLinks from {} lead to {}, which is not in the file: left out", gpu.bus, target));
        } else {
          wrong(child, fmt::format("an NVLink to '{}' of class '{}'", target, cls),
                {"tclass is 0x068000 (NVSwitch) or 0x0302.. (a GPU of this file)"});
        }
        if (error_) return;
      }
      if (to_switch == 0) continue;
      if (!hub) hub = add("NVSwitch", VertexKind::kNvswitch);
      link({gpu.vertex, *hub}, EdgeKind::kNvlink, nvlink_rate(gpu.capability) * static_cast<double>(to_switch),
           kNvlinkLatency);
    }
    for (const auto& [pair, links] : peers) {
      const auto& [a, b] = pair;
      const auto back = peers.find({b, a});
      if (back == peers.end() || back->second != links) {
        wrong(gpus_[a].node, fmt::format("{} NVLinks lead from {} to {}, but {} back", links, gpus_[a].bus,
                                         gpus_[b].bus, back == peers.end() ? 0 : back->second));
        return;
      }
      if (a > b) continue;
      const Bandwidth each = min(nvlink_rate(gpus_[a].capability), nvlink_rate(gpus_[b].capability));
      link({gpus_[a].vertex, gpus_[b].vertex}, EdgeKind::kNvlink, each * static_cast<double>(links), kNvlinkLatency);
    }
  }

  /// GPUs first, by NCCL's number where all have one, and named by their place.
  void order_gpus() {
    const bool numbered =
        std::all_of(gpus_.begin(), gpus_.end(), [](const Gpu& gpu) { return gpu.number.has_value(); });
    if (numbered) {
      std::stable_sort(gpus_.begin(), gpus_.end(), [](const Gpu& a, const Gpu& b) { return *a.number < *b.number; });
    }
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      order.push_back(gpus_[i].vertex);
      parts_.vertices[gpus_[i].vertex].id =
          fmt::format("GPU{}", numbered ? *gpus_[i].number : static_cast<std::int64_t>(i));
    }
    for (std::size_t i = 0; i < parts_.vertices.size(); ++i) {
      if (parts_.vertices[i].kind != VertexKind::kGpu) order.push_back(i);
    }
    std::vector<hardware::Vertex> vertices;
    std::vector<std::size_t> place(order.size());
    for (const std::size_t old : order) {
      place[old] = vertices.size();
      vertices.push_back(std::move(parts_.vertices[old]));
    }
    parts_.vertices = std::move(vertices);
    for (DuplexLink& link : parts_.links) link.ends = {place[link.ends.from], place[link.ends.to]};
  }

  std::string_view text_;
  const std::string& file_;
  std::vector<std::size_t> lines_{0};  // where they start
  pugi::xml_document document_;
  std::optional<Error> error_;
  std::vector<std::string> notes_;
  hardware::TopologyParts parts_;
  std::vector<std::pair<std::size_t, Bandwidth>> sockets_;
  std::unordered_map<std::string, int> buses_;
  std::unordered_map<std::string, std::size_t> gpu_of_;  // bus -> index in gpus_
  std::vector<Gpu> gpus_;
  std::set<std::string> nic_names_;
  std::optional<std::size_t> network_;
};

}  // namespace

Expected<TopologyFile> parse_nccl_topology(std::string_view text, const std::string& file) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // a byte-order mark
  return Reader(text, file).read();
}

Expected<TopologyFile> load_nccl_topology(const std::filesystem::path& path) {
  return io::read_file(path).and_then(
      [&](const std::string& text) { return parse_nccl_topology(text, path.string()); });
}

}  // namespace ddlsim::importers
