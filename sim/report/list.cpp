#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "calibration.h"
#include "ddlsim/report/views.h"
#include "ddlsim/support/names.h"
#include "ddlsim/support/plural.h"
#include "ddlsim/support/quantity_io.h"
#include "json.h"
#include "table.h"

namespace ddlsim::report {
namespace {

/// Collects the values of one thing, each with the source that its file names.
class Collector {
 public:
  explicit Collector(const Sources& sources) : sources_(sources) {}

  void add(std::string key, std::string value, std::string_view source_key = {}) {
    details_.push_back({std::move(key), std::move(value), source(source_key)});
  }
  std::vector<Detail> take() { return std::move(details_); }

 private:
  [[nodiscard]] std::string source(std::string_view key) const {
    for (const Source& candidate : sources_) {
      if (candidate.key == key) return candidate.text;
    }
    return {};
  }

  const Sources& sources_;
  std::vector<Detail> details_;
};

void add_gpu(Collector& rows, const hardware::Gpu& gpu) {
  rows.add("architecture", gpu.architecture);
  if (!gpu.kernels_of.empty()) rows.add("kernels_of", gpu.kernels_of, "kernels_of");
  rows.add("form", std::string(name_of(hardware::kForms, gpu.form)));
  rows.add("sm_count", to_text(gpu.sm_count), "sm_count");
  for (const auto& [name, precision] : kPrecisions) {
    if (name == "amp") continue;
    if (const auto rate = gpu.peak.at(precision)) rows.add(fmt::format("peak.{}", name), to_text(*rate), "peak");
  }
  for (const auto& [name, precision] : kPrecisions) {
    const auto share = gpu.sustained.at(precision);
    if (name == "amp" || !share) continue;
    rows.add(fmt::format("sustained.{}", name), to_text(*gpu.peak.at(precision) * *share), "sustained");
  }
  rows.add("memory.size", to_text(gpu.memory_size), "memory");
  rows.add("memory.bandwidth", to_text(gpu.memory_bandwidth), "memory");
  if (gpu.l2) rows.add("memory.l2", to_text(*gpu.l2), "memory");
  if (gpu.nvlink) rows.add("nvlink", fmt::format("{} ({})", to_text(*gpu.nvlink), gpu.nvlink_id), "nvlink");
  rows.add("pcie", gpu.pcie_id, "pcie");
  rows.add("nccl_tuning",
           gpu.nccl_tuning ? std::string(name_of(hardware::kGpuGenerations, *gpu.nccl_tuning)) : "- (assumed)",
           "nccl_tuning");
  rows.add("peer_to_peer", gpu.peer_to_peer ? "yes" : "no", "peer_to_peer");
  rows.add("tdp", to_text(gpu.tdp), "tdp");
  if (gpu.draw) {
    rows.add("power.idle", to_text(gpu.draw->idle), "power");
    rows.add("power.memory", to_text(gpu.draw->memory), "power");
    for (const auto& [precision, energy] : gpu.draw->arithmetic) {
      rows.add(fmt::format("power.{}", name_of(kPrecisions, precision)), to_text(energy), "power");
    }
  }
  if (!gpu.notes.empty()) rows.add("notes", gpu.notes);
}

/// As a node file writes them.
std::string pairs_of(const hardware::NvlinkMesh& mesh) {
  std::string text;
  for (const auto& [from, to, links] : mesh.pairs()) {
    text += fmt::format("{}{}-{}{}", text.empty() ? "" : ", ", from, to, links == 1 ? "" : fmt::format(" x{}", links));
  }
  return text;
}

/// "1 x aws-ena-25g", "1 x aws-ena-25g, 5 Gb/s sustained".
std::string network_of(const hardware::Node& node) {
  std::string text = fmt::format("{} x {}", node.network_ports, node.network.id);
  if (node.network_sustained) text += fmt::format(", {} sustained", to_text_in_bits(*node.network_sustained));
  return text;
}

void add_node(Collector& rows, const hardware::Node& node) {
  rows.add("gpu", node.gpu.id, "gpu");
  rows.add("gpus", to_text(node.gpus), "gpus");
  rows.add("gpu_interconnect",
           fmt::format("{} ({})", name_of(hardware::kInterconnects, node.gpu_interconnect.get()),
                       to_text(node.peers(node.gpus).bandwidth)),
           "gpu_interconnect");
  if (node.nvlink_mesh) rows.add("nvlink_pairs", pairs_of(*node.nvlink_mesh), "nvlink_pairs");
  rows.add("pcie", node.pcie.id);
  rows.add("host_link", node.host_link.id, "host_link");
  rows.add("pcie_uplinks", to_text(node.pcie_uplinks), "pcie_uplinks");
  if (!node.peer_to_peer) rows.add("peer_to_peer", "no", "peer_to_peer");
  rows.add("network", network_of(node), "network");
  const hardware::Host& host = node.host;
  if (host.cpu) {
    rows.add("host",
             fmt::format("{}, {} threads, {}, {}", host.cpu->id, host.threads, to_text(host.memory),
                         host.storage ? fmt::format("{} at {}", host.storage->id, to_text(host.storage->bandwidth))
                                      : std::string("storage unknown")),
             "host");
  }
  if (host.threads > 0 && !host.cpu) rows.add("vcpus", to_text(host.threads), "vcpus");
  if (!host.processor.empty()) rows.add("processor", host.processor, "processor");
  if (host.memory > DataSize::zero() && !host.cpu) rows.add("host_memory", to_text(host.memory), "host_memory");
  if (!host.disk.empty()) rows.add("disk", host.disk, "disk");
  const hardware::Tariff& tariff = node.tariff;
  if (!tariff.provider.empty()) rows.add("provider", tariff.provider, "provider");
  if (node.price) rows.add("price", to_text(*node.price), "price");
  if (tariff.spot) rows.add("spot_price", to_text(*tariff.spot), "spot_price");
  if (!tariff.region.empty()) rows.add("region", tariff.region, "price");
  if (!tariff.date.empty()) rows.add("price_date", tariff.date, "price");
  if (!node.notes.empty()) rows.add("notes", node.notes);
}

void add_model(Collector& rows, const workload::Model& model) {
  rows.add("task", model.task);
  rows.add("sample", model.sample);
  rows.add("batch", to_text(model.batch), "batch");
  if (model.global_batch) rows.add("global_batch", to_text(*model.global_batch), "global_batch");
  rows.add("optimizer", std::string(name_of(workload::kOptimizers, model.optimizer)), "optimizer");
  for (const auto& [name, size] : model.dimensions) rows.add("dimensions." + name, to_text(size), "dimensions");
  if (model.features) {
    const auto mark = [&](std::string_view key) {
      for (const std::string& recalled : model.recalled) {
        if (recalled == key) return std::string(" (recalled)");
      }
      return std::string();
    };
    const workload::StepFeatures& f = *model.features;
    rows.add("flops", to_text(f.flops) + mark("flops"), "features");
    rows.add("memory_access", to_text(f.memory_access) + mark("memory_access"), "features");
    rows.add("input", to_text(f.input) + mark("input"), "features");
    rows.add("weight_traffic", to_text(f.weight_traffic) + mark("weight_traffic"), "features");
    rows.add("dense_weights", to_text(f.dense_weights) + mark("dense_weights"), "features");
    rows.add("embedding_weights", to_text(f.embedding_weights) + mark("embedding_weights"), "features");
    if (model.architecture) {
      rows.add("architecture",
               std::string(name_of(workload::kArchitectures, *model.architecture)) + mark("architecture"), "features");
    }
  } else {
    rows.add("layers", to_text(static_cast<std::int64_t>(model.layers.size())), "layers");
    rows.add("parameters", to_text(model.parameters()), "layers");
    rows.add("gradient tensors", to_text(model.totals.gradient_tensors), "layers");
    rows.add("forward FLOPs per sample", to_text(model.totals.forward_work), "layers");
    rows.add("activations kept per sample", to_text(model.totals.saved_elements) + " elements", "layers");
    rows.add("input per sample", to_text(model.input_per_sample), "input");
    if (model.published.parameters) {
      rows.add("published parameters", to_text(*model.published.parameters), "published");
    }
    if (model.published.forward_flops) {
      rows.add("published forward FLOPs", to_text(*model.published.forward_flops), "published");
    }
  }
  if (!model.notes.empty()) rows.add("notes", model.notes);
}

std::string per_second_text(Rate rate) { return significant(rate.in(per_second)) + " 1/s"; }

void add_storage(Collector& rows, const hardware::Storage& storage) {
  rows.add("bandwidth", to_text(storage.bandwidth), "bandwidth");
  if (storage.stream) rows.add("stream", to_text(*storage.stream), "stream");
  if (storage.iops) rows.add("iops", per_second_text(*storage.iops), "iops");
  rows.add("request", to_text(storage.request), "request");
  rows.add("latency", to_text(storage.latency), "latency");
  if (storage.capacity) rows.add("capacity", to_text(*storage.capacity), "capacity");
  rows.add("shared", storage.shared ? "yes" : "no", "shared");
  rows.add("attached", std::string(name_of(hardware::kAttachments, storage.attached)), "attached");
  if (!storage.notes.empty()) rows.add("notes", storage.notes);
}

void add_failures(Collector& rows, const hardware::FailureRates& rates) {
  const auto add = [&](const std::string& key, const std::optional<Time>& mtbf) {
    if (mtbf) rows.add(key, fmt::format("{} h", significant(mtbf->in(hours), 6)), key);
  };
  add("mtbf_gpu", rates.gpu);
  add("mtbf_node", rates.node);
  add("mtbf_switch", rates.network);
  rows.add("nodes_per_switch", to_text(rates.nodes_per_switch), "nodes_per_switch");
  if (!rates.notes.empty()) rows.add("notes", rates.notes);
}

void add_cpu(Collector& rows, const hardware::Cpu& cpu) {
  rows.add("cores", to_text(cpu.cores), "cores");
  rows.add("threads_per_core", to_text(cpu.threads_per_core), "threads_per_core");
  rows.add("clock", significant(cpu.clock.in(per_second) / 1e9) + " GHz", "clock");
  rows.add("decode_speed", significant(cpu.decode_speed), "decode_speed");
  rows.add("second_thread", significant(cpu.second_thread), "second_thread");
  if (cpu.hand_over) rows.add("hand_over", to_text(*cpu.hand_over), "hand_over");
  if (cpu.receive) rows.add("receive", to_text(*cpu.receive), "receive");
  if (!cpu.notes.empty()) rows.add("notes", cpu.notes);
}

void add_dataset(Collector& rows, const workload::Dataset& dataset) {
  rows.add("sample", dataset.sample);
  rows.add("samples", to_text(dataset.samples), "samples");
  rows.add("samples_per_file", to_text(dataset.samples_per_file), "samples_per_file");
  if (dataset.tokens > 0) rows.add("tokens of a sample", to_text(dataset.tokens), "tokens");
  rows.add("stored", to_text(dataset.stored), "stored");
  rows.add("on disk", to_text(dataset.size()));
  rows.add("decoded", to_text(dataset.decoded), "decoded");
  rows.add("decode", to_text(dataset.decode), "decode");
  rows.add("augment", to_text(dataset.augment), "augment");
  rows.add("variation", significant(dataset.variation), "variation");
  if (!dataset.notes.empty()) rows.add("notes", dataset.notes);
}

void add_setting(Collector& rows, const io::StudySetting& setting) {
  rows.add("gpu.peak", to_text(setting.peak), "gpu");
  rows.add("gpu.memory_bandwidth", to_text(setting.memory_bandwidth), "gpu");
  rows.add("gpu.memory_size", to_text(setting.memory_size), "gpu");
  rows.add("network", to_text_in_bits(setting.network), "network");
  rows.add("pcie", to_text(setting.pcie), "pcie");
  rows.add("nvlink", to_text(setting.nvlink), "nvlink");
  rows.add("efficiency", percent(setting.efficiency, 0), "efficiency");
  rows.add("gpus_per_server", to_text(setting.gpus_per_server), "gpus_per_server");
  if (!setting.notes.empty()) rows.add("notes", setting.notes);
}

std::vector<Detail> profile_details(const hardware::GpuProfile& profile) {
  std::vector<Detail> rows{{"id", profile.id, ""}, {"gpu", profile.gpu, ""}, {"date", profile.date, ""}};
  for (const CurveSummary& curve : curves_of(profile)) {
    rows.push_back({curve.name,
                    fmt::format("{} off on {} rows held out", percent(curve.report->mean), curve.report->held_out),
                    curve.report->measured});
  }
  return rows;
}

Expected<std::string> summary(const io::Catalog& catalog, io::Kind kind, const std::string& id) {
  switch (kind) {
    case io::Kind::kModels: return catalog.model(id).map([](const auto& model) { return model->name; });
    case io::Kind::kGpus: return catalog.gpu(id).map([](const auto& gpu) { return gpu.name; });
    case io::Kind::kLinks:
      return catalog.link(id).map([](const auto& link) {
        const bool network = link.kind == hardware::LinkKind::kNetwork;
        return fmt::format("{}, {}", link.name, network ? to_text_in_bits(link.bandwidth) : to_text(link.bandwidth));
      });
    case io::Kind::kNodes:
    case io::Kind::kInstances:
      return catalog.node(id).map([](const hardware::Node& node) {
        const std::string price =
            node.price ? fmt::format(", {} ({}, {})", to_text(*node.price), node.tariff.region, node.tariff.date) : "";
        return fmt::format("{}, {} x {}{}", node.name, node.gpus, node.gpu.name, price);
      });
    case io::Kind::kClusters: return catalog.setting(id).map([](const auto& setting) { return setting.name; });
    case io::Kind::kPopulations:
      return catalog.population(id).map([](const auto& population) { return population.name; });
    case io::Kind::kCalibrations:
      return catalog.profile(id).map([](const auto& profile) { return "curves of " + profile->gpu; });
    case io::Kind::kStorage:
      return catalog.storage(id).map(
          [](const auto& storage) { return fmt::format("{}, {}", storage.name, to_text(storage.bandwidth)); });
    case io::Kind::kCpus:
      return catalog.cpu(id).map([](const auto& cpu) { return fmt::format("{}, {} cores", cpu.name, cpu.cores); });
    case io::Kind::kDatasets:
      return catalog.dataset(id).map([](const auto& dataset) {
        return fmt::format("{}, {} {}, {}", dataset->name, to_text(dataset->samples), plural(dataset->sample),
                           to_text(dataset->size()));
      });
    case io::Kind::kFailures: return catalog.failures(id).map([](const auto& rates) { return rates.name; });
  }
  return std::string();
}

}  // namespace

Expected<std::vector<ListRow>> list(const io::Catalog& catalog, io::Kind kind) {
  if (auto read = catalog.read_aliases(); !read) return tl::unexpected<Error>(read.error());
  std::vector<ListRow> rows;
  const bool servers = kind == io::Kind::kNodes || kind == io::Kind::kInstances;
  const auto add = [&](io::Kind of) -> Expected<void> {
    for (const std::string& id : catalog.ids(of)) {
      auto what = summary(catalog, of, id);
      if (!what) return tl::unexpected<Error>(what.error());
      rows.push_back({id, std::move(*what), join(catalog.aliases_of(of, id))});
    }
    return {};
  };
  if (auto added = add(servers ? io::Kind::kNodes : kind); !added) return tl::unexpected<Error>(added.error());
  if (servers) {
    if (auto added = add(io::Kind::kInstances); !added) return tl::unexpected<Error>(added.error());
    std::sort(rows.begin(), rows.end(), [](const ListRow& a, const ListRow& b) { return a.name < b.name; });
  }
  return rows;
}

Expected<std::vector<Detail>> details(const io::Catalog& catalog, io::Kind kind, std::string_view name) {
  const auto collect = [](const auto& thing, auto add) {
    Collector rows(thing.sources);
    rows.add("id", thing.id);
    rows.add("name", thing.name);
    add(rows, thing);
    return rows.take();
  };
  switch (kind) {
    case io::Kind::kModels:
      return catalog.model(name).map([&](const auto& model) { return collect(*model, add_model); });
    case io::Kind::kGpus: return catalog.gpu(name).map([&](const auto& gpu) { return collect(gpu, add_gpu); });
    case io::Kind::kLinks:
      return catalog.link(name).map([&](const hardware::Link& link) {
        return collect(link, [](Collector& rows, const hardware::Link& thing) {
          rows.add("kind", std::string(name_of(hardware::kLinkKinds, thing.kind)));
          const bool network = thing.kind == hardware::LinkKind::kNetwork;
          if (network) {
            rows.add("transport",
                     thing.transport.get() ? std::string(name_of(hardware::kNetworkTransports, *thing.transport.get()))
                                           : "- (tcp is assumed)",
                     "transport");
          }
          rows.add("bandwidth", network ? to_text_in_bits(thing.bandwidth) : to_text(thing.bandwidth), "bandwidth");
          rows.add("latency", to_text(thing.latency), "latency");
          if (!thing.notes.empty()) rows.add("notes", thing.notes);
        });
      });
    case io::Kind::kNodes:
    case io::Kind::kInstances: return catalog.node(name).map([&](const auto& node) { return collect(node, add_node); });
    case io::Kind::kClusters:
      return catalog.setting(name).map([&](const auto& setting) { return collect(setting, add_setting); });
    case io::Kind::kPopulations:
      return catalog.population(name).map([&](const auto& population) {
        return collect(population, [](Collector& rows, const io::PopulationFile& thing) {
          rows.add("setting", thing.setting);
          for (const Source& source : thing.sources) rows.add(source.key, "", source.key);
        });
      });
    case io::Kind::kCalibrations:
      return catalog.profile(name).map([](const auto& profile) { return profile_details(*profile); });
    case io::Kind::kStorage:
      return catalog.storage(name).map([&](const auto& storage) { return collect(storage, add_storage); });
    case io::Kind::kCpus: return catalog.cpu(name).map([&](const auto& cpu) { return collect(cpu, add_cpu); });
    case io::Kind::kDatasets:
      return catalog.dataset(name).map([&](const auto& dataset) { return collect(*dataset, add_dataset); });
    case io::Kind::kFailures:
      return catalog.failures(name).map([&](const auto& rates) { return collect(rates, add_failures); });
  }
  return std::vector<Detail>{};
}

namespace {

/// Ids in lines that a terminal holds, each under the first.
std::vector<std::string> folded(const std::string& ids) {
  constexpr std::size_t kWidth = 100;
  std::vector<std::string> lines;
  std::size_t begin = 0;
  while (ids.size() - begin > kWidth) {
    const std::size_t comma = ids.rfind(", ", begin + kWidth - 1);
    if (comma == std::string::npos || comma <= begin) break;
    lines.push_back(ids.substr(begin, comma + 1 - begin));
    begin = comma + 2;
  }
  lines.push_back(ids.substr(begin));
  return lines;
}

/// Rows without aliases, for a terminal.
std::string folded_list(const std::string& kind, const std::vector<ListRow>& rows) {
  Table table({kind, "what"});
  table.numbers_from(2);
  for (const ListRow& row : rows) {
    std::string name = row.name;
    for (std::string& line : folded(row.what)) table.add({std::exchange(name, ""), std::move(line)});
  }
  return table.render(Format::kText);
}

}  // namespace

std::string render_list(const std::string& kind, const std::vector<ListRow>& rows, Format format) {
  if (format == Format::kJson) {
    Json json{{"schema", "ddlsim/list/1"}, {"kind", kind}, {"rows", Json::array()}};
    for (const ListRow& row : rows) {
      json["rows"].push_back({{"name", row.name}, {"what", row.what}, {"aliases", row.aliases}});
    }
    return dump(json);
  }
  const bool aliases = std::any_of(rows.begin(), rows.end(), [](const ListRow& row) { return !row.aliases.empty(); });
  if (format == Format::kText && !aliases && kind == "kind") return folded_list(kind, rows);
  Table table({kind, "what", kind == "settings" ? "example" : kind == "frameworks" ? "settings" : "also known as"});
  table.numbers_from(3);
  for (const ListRow& row : rows) table.add({row.name, row.what, row.aliases});
  return table.render(format);
}

std::string render_details(const std::string& kind, const std::string& id, const std::vector<Detail>& details,
                           Format format) {
  if (format == Format::kJson) {
    Json json{{"schema", "ddlsim/list/1"}, {"kind", kind}, {"name", id}, {"values", Json::array()}};
    for (const Detail& row : details) {
      json["values"].push_back({{"key", row.key}, {"value", row.value}, {"source", row.source}});
    }
    return dump(json);
  }
  Table table({kind, "value", "source"});
  table.numbers_from(3);
  for (const Detail& row : details) table.add({row.key, row.value, row.source});
  return table.render(format);
}

}  // namespace ddlsim::report
