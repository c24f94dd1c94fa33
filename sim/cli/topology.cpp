#include <fmt/core.h>

#include <algorithm>

#include "ddlsim/cost/nccl.h"
#include "ddlsim/cost/price.h"
#include "ddlsim/hardware/link_words.h"
#include "ddlsim/hardware/topology.h"
#include "ddlsim/importers/topology_file.h"
#include "ddlsim/report/views.h"
#include "ddlsim/support/quantity_io.h"
#include "program.h"

namespace ddlsim::cli {
namespace {

using whatif::Override;

constexpr std::string_view kTopologyExamples = R"(
Of one source: a server or cloud instance of the catalog, NCCL's topology XML (NCCL_TOPO_DUMP_FILE), or the text of
`nvidia-smi topo -m`. The text holds no rates: --gpu and --network name the links. Paths are named as NCCL does: NVL
(NVLink), NVB (NVLink through a GPU), PIX (one PCIe switch), PXB (several), PHB (a host bridge), NODE (several), SYS (the
link between sockets).

Examples:
  ddlsim topology --node pcie-8xv100
  ddlsim topology --node dgx-a100 --nodes 16 --nodes-per-leaf 8 --oversubscription 2
  ddlsim topology --nccl-xml topo.xml --json
  ddlsim topology --nvidia-smi topo.txt --gpu a100-sxm4-40gb --network infiniband-200g)";

constexpr double kMostOversubscription = 1e6;

struct TopologyFlags {
  std::string nccl;
  std::string nvidia_smi;
  std::string socket_link;
  std::string nodes_per_leaf;
  std::string oversubscription;
};

std::optional<std::string> setting(const std::vector<Override>& settings, std::string_view path) {
  std::optional<std::string> value;
  for (const Override& one : settings) {
    if (one.path == path) value = one.value;
  }
  return value;
}

/// A flag's value, or wrong usage.
template <typename T>
T value_of(std::string_view flag, const Expected<T>& value) {
  if (value) return *value;
  const auto& notes = value.error().notes;
  throw UsageError{fmt::format("{}: {}", flag, value.error().message),
                   notes.empty() ? "see `ddlsim topology --help`" : notes.front()};
}

hardware::TopologyOptions options_of(const TopologyFlags& flags) {
  hardware::TopologyOptions options;
  if (!flags.socket_link.empty()) options.socket_link = value_of("--socket-link", parse_bandwidth(flags.socket_link));
  if (!flags.nodes_per_leaf.empty()) {
    options.fabric.nodes_per_leaf =
        value_of("--nodes-per-leaf", parse_count(flags.nodes_per_leaf, {1, hardware::kMaxNodes}));
  }
  if (!flags.oversubscription.empty()) {
    const double ratio = value_of("--oversubscription", parse_number(flags.oversubscription));
    if (ratio < 1 || ratio > kMostOversubscription) {
      throw UsageError{fmt::format("--oversubscription {} is not at least 1", flags.oversubscription.substr(0, 60)),
                       "1 is full bisection; 2 halves what leaves a leaf switch"};
    }
    options.fabric.oversubscription = ratio;
  }
  return options;
}

/// A link's name or file, or its rate, with Ethernet's latency.
Expected<hardware::Link> network_of(const io::Catalog& catalog, const std::string& text) {
  const auto rate = parse_bandwidth(text);
  auto link = catalog.link(rate ? "ethernet-100g" : text);
  if (rate && link) link->bandwidth = *rate;
  return link;
}

struct Source {
  hardware::Topology topology;
  report::TopologyTitle title;
};

Expected<Source> from_scenario(const io::Catalog& catalog, std::vector<Override> settings, const TopologyFlags& flags) {
  // A scenario has a model; the topology does not depend on it.
  if (!setting(settings, "model")) settings.push_back({"model", "resnet50", {}});
  const auto scenario = whatif::resolve(catalog, settings);
  if (!scenario) return tl::unexpected<Error>(scenario.error());
  const hardware::TopologyOptions options = options_of(flags);
  auto topology = hardware::topology_of(scenario->cluster, options);
  if (!topology) return tl::unexpected<Error>(topology.error());
  const hardware::Node& node = scenario->cluster.node;
  Source source{std::move(*topology), {fmt::format("{} x {}", scenario->cluster.nodes, node.name), {}, {}}};
  if (node.nvlink) source.title.gpu_links = hardware::gpu_link_word(*node.nvlink);
  const hardware::PeerPath peers = node.peers(scenario->cluster.gpus_per_node);
  if (scenario->cluster.gpus_per_node > 1 && !peers.by_nvlink() && peers.through_host) {
    const cost::Communicator inside = cost::communicator_of(scenario->cluster, 1, scenario->cluster.gpus_per_node);
    source.title.through_host = cost::effective_rates(inside, cost::collective_library_of(*scenario)).intra;
    source.title.notes.push_back(
        fmt::format("GPUs do not reach each other's memory over PCIe (peer_to_peer: no): collectives copy through the "
                    "host's, {} per GPU",
                    to_text(*source.title.through_host)));
  }
  if (node.pcie_uplinks > 1 && flags.socket_link.empty()) {
    source.title.notes.push_back(
        fmt::format("assumed: two sockets joined at {}, NCCL's rate of Intel Skylake "
                    "(--socket-link)",
                    to_text(options.socket_link)));
  }
  const bool one_leaf = flags.nodes_per_leaf.empty() || scenario->cluster.nodes <= options.fabric.nodes_per_leaf;
  if (options.fabric.oversubscription > 1 && one_leaf) {
    source.title.notes.push_back(
        fmt::format("stated, but without effect here: --oversubscription, as all servers are on one leaf switch{}",
                    flags.nodes_per_leaf.empty() ? " (--nodes-per-leaf)" : ""));
  }
  return source;
}

Expected<Source> from_nvidia_smi(const io::Catalog& catalog, const std::vector<Override>& settings,
                                 const TopologyFlags& flags) {
  const auto gpu_name = setting(settings, "gpu");
  std::string pcie = "pcie3-x16";
  std::string nvlink = "nvlink3";
  report::TopologyTitle title{flags.nvidia_smi, {}, {}};
  if (gpu_name) {
    const auto gpu = catalog.gpu(*gpu_name);
    if (!gpu) return tl::unexpected<Error>(gpu.error());
    pcie = gpu->pcie_id;
    nvlink = gpu->nvlink_id;
  } else {
    title.notes.emplace_back("assumed: PCIe gen 3 x16 and NVLink 3, as no --gpu is named");
  }
  const auto pcie_link = catalog.link(pcie);
  if (!pcie_link) return tl::unexpected<Error>(pcie_link.error());
  importers::NvidiaSmiOptions options{
      .pcie = *pcie_link, .nvlink = {}, .network = {}, .socket_link = options_of(flags).socket_link};
  if (!nvlink.empty()) {
    auto link = catalog.link(nvlink);
    if (!link) return tl::unexpected<Error>(link.error());
    options.nvlink = std::move(*link);
  }
  if (const auto text = setting(settings, "network")) {
    auto network = network_of(catalog, *text);
    if (!network) return tl::unexpected<Error>(network.error());
    options.network = std::move(*network);
  }
  if (flags.socket_link.empty()) {
    title.notes.push_back(fmt::format("assumed: {} between sockets, NCCL's rate of Intel Skylake (--socket-link)",
                                      to_text(options.socket_link)));
  }
  auto file = importers::load_nvidia_smi_topology(flags.nvidia_smi, options);
  if (!file) return tl::unexpected<Error>(file.error());
  title.notes.insert(title.notes.end(), file->notes.begin(), file->notes.end());
  return Source{std::move(file->topology), std::move(title)};
}

Expected<Source> from_nccl(const TopologyFlags& flags) {
  auto file = importers::load_nccl_topology(flags.nccl);
  if (!file) return tl::unexpected<Error>(file.error());
  return Source{std::move(file->topology), {flags.nccl, std::move(file->notes), {}}};
}

/// Which flags go with which source.
void check_flags(const std::vector<Override>& settings, const TopologyFlags& flags, bool scenario_files) {
  const bool node = setting(settings, "node").has_value() || scenario_files;
  const int sources =
      static_cast<int>(node) + static_cast<int>(!flags.nccl.empty()) + static_cast<int>(!flags.nvidia_smi.empty());
  if (sources != 1) {
    throw UsageError{sources == 0 ? "nothing to draw" : "more than one thing to draw",
                     "give one of --node, --nccl-xml, --nvidia-smi"};
  }
  if (node) return;
  if (!flags.nodes_per_leaf.empty() || !flags.oversubscription.empty()) {
    throw UsageError{"--nodes-per-leaf and --oversubscription belong to --node", "a file describes one server"};
  }
  if (!flags.nccl.empty() && !flags.socket_link.empty()) {
    throw UsageError{"--socket-link does not go with --nccl-xml", "the file names the CPU"};
  }
  for (const Override& one : settings) {
    const bool known = !flags.nvidia_smi.empty() && (one.path == "gpu" || one.path == "network");
    if (!known) {
      throw UsageError{fmt::format("'{}' does not go with a file", one.path.substr(0, 60)),
                       "--nvidia-smi takes --gpu, --network and --socket-link; --nccl-xml none"};
    }
  }
}

}  // namespace

int run_topology(const std::vector<std::string>& arguments) {
  CLI::App app("Show what joins the GPUs of a cluster, and what their routes reach.", "ddlsim topology");
  app.footer(std::string(kTopologyExamples));
  ScenarioFlags scenario;
  FormatFlags format;
  TopologyFlags flags;
  std::string data;
  scenario.add_to(app);
  format.add_to(app);
  app.add_option("--nccl-xml", flags.nccl, "a topology file of NCCL")->type_name("FILE");
  app.add_option("--nvidia-smi", flags.nvidia_smi, "what `nvidia-smi topo -m` printed")->type_name("FILE");
  app.add_option("--socket-link", flags.socket_link, "between two sockets, one direction")->type_name("RATE");
  app.add_option("--nodes-per-leaf", flags.nodes_per_leaf, "servers of a leaf switch")
      ->type_name("N")
      ->default_str("all on one");
  app.add_option("--oversubscription", flags.oversubscription, "of leaf switches")
      ->type_name("NUMBER")
      ->default_str("1");
  app.add_option("--data", data, "folder that holds models/ and hardware/")->type_name("DIR");
  parse(app, arguments);
  const report::Format shape = format.get();
  auto settings = scenario.base();
  if (!settings) return print(settings.error());
  const std::vector<Override> sets = scenario.sets();
  settings->insert(settings->end(), sets.begin(), sets.end());
  check_flags(*settings, flags, app.count("--scenario") > 0);
  const auto catalog = open_catalog(data);
  if (!catalog) return print(catalog.error());
  const auto source = !flags.nccl.empty()         ? from_nccl(flags)
                      : !flags.nvidia_smi.empty() ? from_nvidia_smi(*catalog, *settings, flags)
                                                  : from_scenario(*catalog, std::move(*settings), flags);
  if (!source) return print(source.error());
  return print_answer(report::render(source->topology, source->title, shape), shape, &*catalog);
}

}  // namespace ddlsim::cli
