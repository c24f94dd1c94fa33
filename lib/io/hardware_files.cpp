#include "ddlsim/io/hardware_files.h"

#include <utility>
#include <vector>

namespace ddlsim::io {
namespace {

constexpr std::int64_t kMaxSms = 100'000;
constexpr std::int64_t kMaxPorts = 1024;

constexpr Dimension kRate = dimension::kData - dimension::kTime;
constexpr Dimension kCompute = dimension::kWork - dimension::kTime;

template <typename T>
Expected<T> finish(T value, std::vector<Error>& errors) {
  if (!errors.empty()) return fail_with_all(std::move(errors));
  return value;
}

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

}  // namespace

Expected<hardware::Gpu> read_gpu(const Node& document) {
  std::vector<Error> errors;
  MapReader reader(document, "a gpu file", errors);
  hardware::Gpu gpu;
  gpu.id = reader.text("gpu");
  gpu.name = reader.text("name");
  gpu.architecture = reader.text("architecture");
  gpu.form = reader.choice("form", hardware::kForms);
  gpu.sm_count = reader.count("sm_count", {1, kMaxSms});
  if (const Node* peak = reader.require("peak")) gpu.peak = read_peaks(*peak, errors);
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
    parts.finish();
  }
  gpu.pcie_id = reader.text("pcie");
  gpu.nccl_tuning = reader.optional_choice("nccl_tuning", hardware::kGpuGenerations);
  gpu.peer_to_peer = reader.choice("peer_to_peer", kYesNo);
  gpu.tdp = reader.quantity<dimension::kEnergy - dimension::kTime>("tdp");
  gpu.sources = reader.sources({"sm_count", "peak", "memory", "nvlink", "pcie", "nccl_tuning", "peer_to_peer", "tdp"});
  gpu.notes = reader.text_or("notes", {});
  reader.finish();
  return finish(std::move(gpu), errors);
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
  reader.finish();
  return finish(std::move(link), errors);
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
  node.gpu_interconnect = reader.choice("gpu_interconnect", hardware::kInterconnects);
  node.pcie_uplinks = reader.count("pcie_uplinks", {1, kMaxPorts});
  file.host_link_id = reader.text_or("host_link", {});
  file.nvlink = reader.optional_quantity<kRate>("nvlink");
  if (const Node* network = reader.require("network")) {
    file.network_where = network->where;
    MapReader parts(*network, "network", errors);
    file.network_id = parts.text("link");
    node.network_ports = parts.count_or("count", 1, {1, kMaxPorts});
    parts.finish();
  }
  std::vector<std::string> keys{"gpu", "gpus", "gpu_interconnect", "nvlink", "pcie_uplinks", "host_link", "network"};
  if (rented) {
    node.provider = reader.text("provider");
    node.price = reader.quantity<dimension::kMoney - dimension::kTime>("price");
    keys.insert(keys.end(), {"provider", "price"});
  }
  node.sources = reader.sources(keys);
  node.notes = reader.text_or("notes", {});
  reader.finish();
  return finish(std::move(file), errors);
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
  reader.finish();
  return finish(std::move(setting), errors);
}

}  // namespace ddlsim::io
