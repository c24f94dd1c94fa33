#include "ddlsim/io/hardware_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace ddlsim::io {
namespace {

constexpr std::int64_t kMaxSms = 100'000;
constexpr std::int64_t kMaxPorts = 1024;
constexpr std::int64_t kMaxVcpus = 100'000;

constexpr Dimension kRate = dimension::kData - dimension::kTime;
constexpr Dimension kCompute = dimension::kWork - dimension::kTime;

constexpr Choices<bool, 2> kYesNo{{{"yes", true}, {"no", false}}};

hardware::PeakRates read_peaks(const Node& node, std::vector<Error>& errors) {
  MapReader reader(node, "peak", errors);
  hardware::PeakRates peaks;
  peaks.fp32 = reader.quantity<kCompute>("fp32");
  for (const auto& [name, precision] : kPrecisions) {
    if (precision == Precision::kFp32 || name == "amp") continue;
    if (const auto rate = reader.optional_quantity<kCompute>(name)) peaks.set(precision, *rate);
  }
  reader.finish();
  return peaks;
}

hardware::SustainedShares read_sustained(const Node& node, const hardware::PeakRates& peaks,
                                         std::vector<Error>& errors) {
  MapReader reader(node, "sustained", errors);
  hardware::SustainedShares shares;
  for (const auto& [name, precision] : kPrecisions) {
    if (name == "amp") continue;
    const auto rate = reader.optional_quantity<kCompute>(name);
    if (!rate) continue;
    if (const auto peak = peaks.at(precision); peak && *peak > ComputeRate{}) {
      shares.set(precision, *rate / *peak);
    } else {
      reader.report(*reader.find(name), ErrorCode::kParse, fmt::format("sustained {} without a peak", name),
                    {fmt::format("say what its peak is: peak: {{{}: ...}}", name)});
    }
  }
  reader.finish();
  return shares;
}

hardware::PowerDraw read_power_draw(const Node& node, std::vector<Error>& errors) {
  MapReader reader(node, "power", errors);
  hardware::PowerDraw draw;
  draw.idle = reader.quantity<dimension::kEnergy - dimension::kTime>("idle");
  draw.memory = reader.quantity<dimension::kEnergy - dimension::kData>("memory");
  for (const auto& [name, precision] : kPrecisions) {
    if (name == "amp") continue;
    const auto energy = reader.optional_quantity<dimension::kEnergy - dimension::kWork>(name);
    if (energy) draw.arithmetic.emplace_back(precision, *energy);
  }
  reader.finish();
  return draw;
}

constexpr std::string_view kPairForm = "written as 0-3, 0-3 x2 (two NVLinks), or all x2 for every pair";
constexpr std::int64_t kMaxNvlinks = 1024;  // of one GPU

/// "0-3 x2", "0-3", "all x2", "all". The pairs it means; none where it means nothing.
std::vector<hardware::NvlinkPair> parse_nvlinks(std::string_view text, std::int64_t gpus) {
  const auto count = [](std::string_view digits, CountRange range) -> std::int64_t {
    const auto value = parse_count(digits, range);
    return value ? *value : -1;
  };
  std::int64_t links = 1;
  if (const std::size_t times = text.find(" x"); times != std::string_view::npos) {
    links = count(text.substr(times + 2), {1, kMaxNvlinks});
    text = text.substr(0, times);
  }
  std::vector<hardware::NvlinkPair> pairs;
  if (links < 1) return pairs;
  if (text == "all") {
    for (std::int64_t i = 0; i < gpus; ++i) {
      for (std::int64_t k = i + 1; k < gpus; ++k) pairs.push_back({i, k, links});
    }
    return pairs;
  }
  const std::size_t dash = text.find('-');
  if (dash == std::string_view::npos) return pairs;
  const std::int64_t from = count(text.substr(0, dash), {0, hardware::kMaxGpusPerNode});
  const std::int64_t to = count(text.substr(dash + 1), {0, hardware::kMaxGpusPerNode});
  if (from >= 0 && to >= 0) pairs.push_back({from, to, links});
  return pairs;
}

/// The NVLinks of each pair. How many a GPU has is known once its file is read (Catalog).
void read_nvlink_pairs(MapReader& reader, NodeFile& file) {
  const hardware::Node& node = file.node;
  const bool mesh = node.gpu_interconnect == hardware::Interconnect::kNvlinkMesh;
  const io::Node* list = mesh ? reader.require("nvlink_pairs") : reader.find("nvlink_pairs");
  if (list == nullptr) return;
  const auto bad = [&](const io::Node& at, std::string what, std::vector<std::string> notes) {
    reader.report(at, ErrorCode::kInvalidArgument, std::move(what), std::move(notes));
  };
  if (node.gpu_interconnect == hardware::Interconnect::kNvlink) {
    return bad(*list, "nvlink_pairs of GPUs that a switch joins",
               {"gpu_interconnect: nvlink-mesh, or pcie where bridges join some of the cards"});
  }
  if (list->kind != NodeKind::kList) return bad(*list, "nvlink_pairs is no list", {std::string(kPairForm)});
  if (node.gpus > hardware::kMaxMeshGpus) {
    return bad(*list, fmt::format("nvlink_pairs in a server of {} GPUs", node.gpus),
               {fmt::format("at most {}", hardware::kMaxMeshGpus)});
  }
  for (const io::Node& item : list->items) {
    if (!reader.is_scalar(item)) continue;
    const auto pairs = parse_nvlinks(item.text, node.gpus);
    if (pairs.empty()) {
      bad(item, fmt::format("'{}' is no pair of GPUs", item.text.substr(0, 60)), {std::string(kPairForm)});
    }
    for (const hardware::NvlinkPair& pair : pairs) file.nvlink_pairs.push_back({pair, item.where});
  }
  hardware::NvlinkMeshParts parts{node.gpus, std::numeric_limits<std::int64_t>::max(), {}};
  for (const NvlinkPairText& text : file.nvlink_pairs) parts.pairs.push_back(text.pair);
  if (const auto fault = hardware::first_fault(parts)) {
    io::Node at;
    at.where = file.nvlink_pairs[fault->pair].where;
    return bad(at, fault->message, {});
  }
  for (std::int64_t gpu = 0; mesh && gpu < node.gpus; ++gpu) {
    const bool linked = std::any_of(parts.pairs.begin(), parts.pairs.end(),
                                    [&](const auto& pair) { return pair.from == gpu || pair.to == gpu; });
    if (!linked) bad(*list, fmt::format("GPU {} of a mesh has no NVLink to another GPU", gpu), {});
  }
}

/// "900 GB SSD", "940 GB (4 x 235 GB SSD)", "8 x 3.84 TB NVMe SSD", "4x960 GB NVMe": all of it. Nothing: no size is
/// said.
std::optional<DataSize> disk_size(std::string_view text) {
  const auto number = [&]() -> std::optional<double> {
    const std::size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
    const auto value = parse_number(text.substr(0, end));
    text.remove_prefix(end);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    return value ? std::optional(*value) : std::nullopt;
  };
  auto size = number();
  if (!size) return std::nullopt;
  double count = 1;
  if (text.starts_with('x')) {
    text.remove_prefix(1);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    count = *size;
    size = number();
  }
  if (!size) return std::nullopt;
  const auto unit = parse_data_size("1 " + std::string(text.substr(0, text.find(' '))));
  if (!unit) return std::nullopt;
  return *unit * (count * *size);
}

void read_rented_host(MapReader& reader, hardware::Host& host) {
  if (reader.find("vcpus") != nullptr) host.threads = reader.count("vcpus", {1, kMaxVcpus});
  host.processor = reader.text_or("processor", {});
  host.memory = reader.optional_quantity<dimension::kData>("host_memory").value_or(host.memory);
  host.disk = reader.text_or("disk", {});
  host.disk_size = disk_size(host.disk);
}

/// "2026-01-21", "2023-06", "2024".
bool is_date(std::string_view text) {
  constexpr std::string_view kForm = "dddd-dd-dd";
  if (text.size() != 4 && text.size() != 7 && text.size() != 10) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kForm[i] == 'd' ? !digit : text[i] != kForm[i]) return false;
  }
  const auto part = [&](std::size_t from) { return (text[from] - '0') * 10 + (text[from + 1] - '0'); };
  if (text.size() >= 7 && (part(5) < 1 || part(5) > 12)) return false;
  return text.size() < 10 || (part(8) >= 1 && part(8) <= 31);
}

/// A price holds in a region on a day, and says so.
void read_tariff(MapReader& reader, hardware::Node& node) {
  constexpr Dimension kPrice = dimension::kMoney - dimension::kTime;
  hardware::Tariff& tariff = node.tariff;
  tariff.provider = reader.text("provider");
  node.price = reader.optional_quantity<kPrice>("price");
  tariff.spot = reader.optional_quantity<kPrice>("spot_price");
  const Node* date = reader.find("price_date");
  tariff.region = reader.text_or("region", {});
  const Node* price = reader.find(node.price ? "price" : "spot_price");
  if (date != nullptr && reader.is_scalar(*date)) {
    tariff.date = date->text;
    if (!is_date(tariff.date)) {
      reader.report(*date, ErrorCode::kParse, fmt::format("price_date '{}' is no date", tariff.date.substr(0, 60)),
                    {"written as 2026-01-21, 2026-01 or 2026"});
    }
  }
  if (price == nullptr) return;
  if (date == nullptr) {
    reader.report(*price, ErrorCode::kParse, "a price without a date",
                  {"say of which day it is: price_date: 2026-01-21 (or 2026-01)"});
  }
  if (tariff.region.empty()) {
    reader.report(*price, ErrorCode::kParse, "a price without a region", {"say where it holds: region: us-east-1"});
  }
}

}  // namespace

Expected<hardware::Gpu> read_gpu(const Node& document) {
  std::vector<Error> errors;
  MapReader reader(document, "a gpu file", errors);
  hardware::Gpu gpu;
  gpu.id = reader.text("gpu");
  gpu.name = reader.text("name");
  gpu.architecture = reader.text("architecture");
  gpu.kernels_of = reader.text_or("kernels_of", {});
  gpu.form = reader.choice("form", hardware::kForms);
  gpu.sm_count = reader.count("sm_count", {1, kMaxSms});
  if (const Node* peak = reader.require("peak")) gpu.peak = read_peaks(*peak, errors);
  if (const Node* sustained = reader.find("sustained")) gpu.sustained = read_sustained(*sustained, gpu.peak, errors);
  if (const Node* memory = reader.require("memory")) {
    MapReader parts(*memory, "memory", errors);
    gpu.memory_size = parts.quantity<dimension::kData>("size");
    gpu.memory_bandwidth = parts.quantity<kRate>("bandwidth");
    gpu.l2 = parts.optional_quantity<dimension::kData>("l2");
    parts.finish();
  }
  if (const Node* nvlink = reader.find("nvlink")) {
    MapReader parts(*nvlink, "nvlink", errors);
    gpu.nvlink_id = parts.text("link");
    gpu.nvlink = parts.quantity<kRate>("bandwidth");
    gpu.nvlink_links = parts.count_or("links", 0, {1, kMaxNvlinks});
    parts.finish();
  }
  gpu.pcie_id = reader.text("pcie");
  gpu.nccl_tuning = reader.optional_choice("nccl_tuning", hardware::kGpuGenerations);
  if (gpu.architecture == "Turing") gpu.half_units = !hardware::multiplies_as_fp32(gpu, Precision::kFp16);
  gpu.peer_to_peer = reader.choice("peer_to_peer", kYesNo);
  gpu.tdp = reader.quantity<dimension::kEnergy - dimension::kTime>("tdp");
  if (const Node* power = reader.find("power")) {
    gpu.draw = read_power_draw(*power, errors);
    if (gpu.draw->idle >= gpu.tdp) {
      reader.report(*power, ErrorCode::kInvalidArgument, "power: an idle GPU draws no less than its tdp", {});
    }
  }
  gpu.sources = reader.sources({"kernels_of", "sm_count", "peak", "sustained", "memory", "nvlink", "pcie",
                                "nccl_tuning", "peer_to_peer", "tdp", "power"});
  gpu.notes = reader.text_or("notes", {});
  return reader.whole(std::move(gpu));
}

Expected<hardware::Link> read_link(const Node& document) {
  std::vector<Error> errors;
  MapReader reader(document, "a link file", errors);
  hardware::Link link;
  link.id = reader.text("link");
  link.name = reader.text("name");
  link.kind = reader.choice("kind", hardware::kLinkKinds);
  link.transport = from_datasheet(reader.optional_choice("transport", hardware::kNetworkTransports));
  if (const Node* transport = reader.find("transport");
      transport != nullptr && link.kind != hardware::LinkKind::kNetwork) {
    reader.report(*transport, ErrorCode::kParse,
                  "a " + std::string(name_of(hardware::kLinkKinds, link.kind)) + " link has no transport",
                  {"valid: transport with kind network"});
  }
  link.bandwidth = reader.quantity<kRate>("bandwidth");
  link.latency = from_datasheet(reader.quantity<dimension::kTime>("latency"));
  link.sources = reader.sources({"transport", "bandwidth", "latency"});
  link.notes = reader.text_or("notes", {});
  return reader.whole(std::move(link));
}

Expected<NodeFile> read_node(const Node& document) {
  std::vector<Error> errors;
  MapReader reader(document, "a node file", errors);
  NodeFile file;
  hardware::Node& node = file.node;
  const bool rented = reader.find("instance") != nullptr;
  node.id = reader.text(rented ? "instance" : "node");
  node.name = reader.text("name");
  node.gpu.id = reader.text("gpu");
  if (const Node* gpu = reader.find("gpu")) file.gpu_where = gpu->where;
  node.gpus = reader.count("gpus", {1, hardware::kMaxGpusPerNode});
  node.gpu_interconnect = from_datasheet(reader.choice("gpu_interconnect", hardware::kInterconnects));
  node.pcie_uplinks = reader.count("pcie_uplinks", {1, kMaxPorts});
  file.host_link_id = reader.text_or("host_link", {});
  node.peer_to_peer = from_datasheet(reader.optional_choice("peer_to_peer", kYesNo).value_or(true));
  file.nvlink = reader.optional_quantity<kRate>("nvlink");
  read_nvlink_pairs(reader, file);
  if (const Node* network = reader.require("network")) {
    file.network_where = network->where;
    MapReader parts(*network, "network", errors);
    file.network_id = parts.text("link");
    node.network_ports = parts.count_or("count", 1, {1, kMaxPorts});
    file.sustained = parts.optional_quantity<kRate>("sustained");
    parts.finish();
  }
  read_rented_host(reader, node.host);
  if (const Node* host = reader.find("host")) file.host = read_host(*host, errors);
  std::vector<std::string> keys{"gpu",          "gpus",      "gpu_interconnect", "nvlink",  "nvlink_pairs",
                                "pcie_uplinks", "host_link", "peer_to_peer",     "network", "host",
                                "vcpus",        "processor", "host_memory",      "disk"};
  if (rented) {
    read_tariff(reader, node);
    keys.insert(keys.end(), {"provider", "price", "spot_price"});
  }
  node.sources = reader.sources(keys);
  node.notes = reader.text_or("notes", {});
  return reader.whole(std::move(file));
}

Expected<StudySetting> read_setting(const Node& document) {
  std::vector<Error> errors;
  MapReader reader(document, "a cluster file", errors);
  StudySetting setting;
  setting.id = reader.text("cluster");
  setting.name = reader.text("name");
  if (const Node* gpu = reader.require("gpu")) {
    MapReader parts(*gpu, "gpu", errors);
    setting.peak = parts.quantity<kCompute>("peak");
    setting.memory_bandwidth = parts.quantity<kRate>("memory_bandwidth");
    setting.memory_size = parts.quantity<dimension::kData>("memory_size");
    parts.finish();
  }
  setting.network = reader.quantity<kRate>("network");
  setting.pcie = reader.quantity<kRate>("pcie");
  setting.nvlink = reader.quantity<kRate>("nvlink");
  if (const Node* share = reader.require("efficiency"); share != nullptr && reader.is_scalar(*share)) {
    setting.efficiency = reader.accept(parse_fraction(share->text), *share).value_or(1.0);
  }
  setting.gpus_per_server = reader.count("gpus_per_server", {1, hardware::kMaxGpusPerNode});
  setting.sources = reader.sources({"gpu", "network", "pcie", "nvlink", "efficiency", "gpus_per_server"});
  setting.notes = reader.text_or("notes", {});
  return reader.whole(std::move(setting));
}

}  // namespace ddlsim::io
