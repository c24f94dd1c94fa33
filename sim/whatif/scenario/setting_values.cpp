#include "scenario/setting_values.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "ddlsim/plan/stage_cuts.h"
#include "ddlsim/support/names.h"
#include "ddlsim/whatif/collective.h"
#include "ddlsim/whatif/framework.h"

namespace ddlsim::whatif {
namespace {

constexpr Choices<bool, 4> kYesNo{{{"yes", true}, {"no", false}, {"true", true}, {"false", false}}};

/// What hyphens part.
std::vector<std::string> parts_of(Value value) {
  std::vector<std::string> parts{""};
  for (const char c : value) {
    if (c == '-') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

/// Whether a text means to be a number, if only "-5 Gb/s" or "nan Gb/s".
bool means_number(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty()) return false;
  if (text.front() == '.') text.remove_prefix(1);  // ".5 Gb/s", but "./mine.yaml"
  const std::string word = fold_name(text.substr(0, text.find(' ')));
  const bool digit = !text.empty() && text.front() >= '0' && text.front() <= '9';
  return digit || word == "nan" || word == "inf" || word == "infinity";
}

/// What "40 Gb/s RoCE" says of its rate; nothing for a rate alone, and for what is no rate.
std::optional<hardware::NetworkTransport> driven_by(std::string_view text) {
  const std::size_t blank = text.find_last_of(' ');
  if (blank == std::string_view::npos || !means_number(text)) return std::nullopt;
  const std::string word = fold_name(text.substr(blank + 1));
  if (word == "ib") return hardware::NetworkTransport::kInfiniband;
  if (word == "opa") return hardware::NetworkTransport::kOmniPath;
  for (const auto& [name, transport] : hardware::kNetworkTransports) {
    if (name == word) return transport;
  }
  return std::nullopt;
}

/// "25 Gb/s Ethernet", which does not say what drives it.
bool says_ethernet(std::string_view text) {
  const std::size_t blank = text.find_last_of(' ');
  return blank != std::string_view::npos && means_number(text) && fold_name(text.substr(blank + 1)) == "ethernet";
}

/// Of a rate of which nobody says how many ports it is: as many as share the server's GPUs evenly, a card for each at
/// most.
std::int64_t ports_for(Bandwidth rate, const hardware::Node& node) {
  const Bandwidth card = assumed_port(node);
  std::int64_t ports = 1;
  while (ports < node.gpus && (card * static_cast<double>(ports) < rate || node.gpus % ports != 0)) ++ports;
  return ports;
}

}  // namespace

Bandwidth assumed_port(const hardware::Node& node) {
  constexpr Bandwidth kPort = gigabits_per_second(100);
  const bool by_tcp = cost::assumed_transport(node) == hardware::NetworkTransport::kTcp;
  return by_tcp ? kPort : max(kPort, node.network.bandwidth);
}

Expected<void> set_network(Scenario& scenario, Value value, const io::Catalog& catalog) {
  hardware::Node& node = scenario.cluster.node;
  std::string name = value;
  std::int64_t ports = 1;
  if (const std::size_t times = value.find(" x "); times != std::string::npos) {
    const auto count = parse_count(value.substr(0, times), {1, hardware::kMaxGpusPerNode});
    if (!count) return tl::unexpected<Error>(count.error());
    ports = *count;
    name = value.substr(times + 3);
  }
  const auto driven = driven_by(name);
  if (driven || says_ethernet(name)) name.resize(name.find_last_of(' '));
  // "100GbE" is a link's name, "100 Gb/s" a rate. Sweeps state thousands of rates, and looking names up takes longer.
  const auto bandwidth = parse_bandwidth(name);
  const bool rate = means_number(name) && (bandwidth || !catalog.knows(io::Kind::kLinks, name));
  if (rate) {
    if (!bandwidth) return tl::unexpected<Error>(bandwidth.error());
    const bool counted = value.find(" x ") != std::string::npos;
    if (!counted) ports = ports_for(*bandwidth, node);
    node.network.bandwidth = counted ? *bandwidth : *bandwidth / static_cast<double>(ports);
    if (const auto& own = node.network.transport.get()) scenario.own_transport = own;
    node.network.transport = {};  // a rate does not say what drives it
    if (driven) node.network.transport = driven;
    node.network.id.clear();
    node.network.name = to_text_in_bits(node.network.bandwidth);
  } else {
    auto link = catalog.link(name);
    if (!link) {
      link.error().notes.push_back("or write a rate, as '25 Gb/s', or several ports, as '4 x infiniband-100g'");
      return tl::unexpected<Error>(link.error());
    }
    if (link->kind != hardware::LinkKind::kNetwork) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("'{}' is no network but {}", name, name_of(hardware::kLinkKinds, link->kind)));
    }
    node.network = std::move(*link);
  }
  node.network_ports = ports;
  if (rate && ports > 1 && value.find(" x ") == std::string::npos) scenario.ports_taken = ports;
  node.network_sustained.reset();
  return {};
}

Expected<void> set_nvlink(Scenario& scenario, Value value, const io::Catalog&) {
  hardware::Node& node = scenario.cluster.node;
  if (!node.nvlink) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} has no NVLink", node.gpu.name), {},
                {"choose a node whose GPU has one (`ddlsim list nodes`)"});
  }
  return store(parse_bandwidth(value), node.nvlink->bandwidth);
}

Expected<void> set_power_limit(Scenario& scenario, Value value, const io::Catalog&) {
  hardware::Gpu& gpu = scenario.cluster.node.gpu;
  const auto limit = parse_quantity<dimension::kEnergy - dimension::kTime>(value);
  if (!limit) return tl::unexpected<Error>(limit.error());
  if (!gpu.draw) {
    return fail(ErrorCode::kUnsupported, fmt::format("nobody measured what work draws on {}", gpu.name), {},
                {"measure it: bench/calibrate/power.py; `power` of its file in hardware/gpus"});
  }
  if (*limit <= gpu.draw->idle) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} draws {} where no kernel runs", gpu.name, to_text(gpu.draw->idle)));
  }
  if (*limit > gpu.tdp) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} may draw {} at most, not {}", gpu.name, to_text(gpu.tdp), to_text(*limit)), {},
                {"another GPU with a higher TDP is another file in hardware/gpus"});
  }
  gpu.tdp = *limit;
  return {};
}

Expected<void> set_pcie(Scenario& scenario, Value value, const io::Catalog&) {
  const auto bandwidth = parse_bandwidth(value);
  if (!bandwidth) return tl::unexpected<Error>(bandwidth.error());
  scenario.cluster.node.pcie.bandwidth = *bandwidth;
  scenario.cluster.node.host_link.bandwidth = *bandwidth;
  return {};
}

Expected<void> set_interconnect(Scenario& scenario, Value value, const io::Catalog&) {
  hardware::Node& node = scenario.cluster.node;
  const auto kind = parse_choice(hardware::kInterconnects, value, "interconnect");
  if (!kind) return tl::unexpected<Error>(kind.error());
  if (*kind == hardware::Interconnect::kNvlink && !node.nvlink) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} has no NVLink", node.gpu.name));
  }
  if (*kind == hardware::Interconnect::kNvlinkMesh && !(node.nvlink && node.nvlink_mesh)) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("the file of {} does not say which GPUs are linked", node.id),
                {}, {"a mesh is a node whose file has `nvlink_pairs` (hardware/README.md)"});
  }
  if (*kind == hardware::Interconnect::kPcie) node.nvlink_mesh.reset();
  node.gpu_interconnect = *kind;
  return {};
}

Expected<void> set_peer_to_peer(Scenario& scenario, Value value, const io::Catalog&) {
  const auto yes = parse_yes(value);
  if (!yes) return tl::unexpected<Error>(yes.error());
  scenario.cluster.node.peer_to_peer = *yes;
  if (*yes) scenario.cluster.node.gpu.peer_to_peer = true;
  return {};
}

Expected<bool> parse_yes(Value value) { return parse_choice(kYesNo, value, "answer"); }

Expected<void> set_order(Scenario& scenario, Value value, const io::Catalog&) {
  const auto names = parts_of(value);
  const auto wrong = [] {
    return fail(ErrorCode::kInvalidArgument, "the order names every axis once, innermost first", {},
                {"as tp-cp-ep-dp-pp"});
  };
  if (names.size() != plan::kAxes) return wrong();
  plan::AxisOrder order{};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto axis = parse_choice(plan::kAxisNames, names[i], "axis");
    if (!axis) return tl::unexpected<Error>(axis.error());
    if (std::find(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(i), *axis) !=
        order.begin() + static_cast<std::ptrdiff_t>(i)) {
      return wrong();
    }
    order[i] = *axis;
  }
  scenario.parallel.order = order;
  return {};
}

namespace {

/// Layers at which parts begin that are counted in blocks; the first may have the embedding alone, the last the head.
Expected<std::vector<std::size_t>> cuts_between_blocks(const workload::Model& model,
                                                       std::span<const std::size_t> counts) {
  const plan::CutPoints points = plan::cut_points_of(workload::blocks_of(model.layers), plan::loads_of(model.layers));
  const std::size_t sum = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  if (!points.repeated || sum != points.starts.size()) {
    const std::string parts = points.repeated
                                  ? fmt::format("{} blocks ({} layers)", points.starts.size(), model.layers.size())
                                  : fmt::format("{}", model.layers.size());
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} in all, but {} has {}", sum, model.id, parts));
  }
  std::vector<std::size_t> cuts;
  std::size_t block = 0;
  for (std::size_t part = 0; part + 1 < counts.size(); ++part) {
    block += counts[part];
    cuts.push_back(block == 0                      ? points.first_body
                   : block == points.starts.size() ? points.after_bodies
                                                   : points.starts[block]);
  }
  const bool bare = (counts.front() == 0 && points.first_body == 0) ||
                    (counts.back() == 0 && points.after_bodies == model.layers.size());
  if (!bare) return cuts;
  return fail(ErrorCode::kInvalidArgument, fmt::format("a part without a block has no layer of {} left", model.id));
}

}  // namespace

Expected<void> set_layers_per_stage(Scenario& scenario, Value value, const io::Catalog&) {
  std::vector<std::size_t> counts;
  const std::vector<std::string> parts = parts_of(value);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    // Megatron-LM counts the embedding as a block of the first part and the loss as one of the last.
    const bool end = i == 0 || i + 1 == parts.size();
    const auto count = parse_count(parts[i], {end && parts.size() > 1 ? 0 : 1, 1 << 20});
    if (!count) return tl::unexpected<Error>(count.error());
    counts.push_back(static_cast<std::size_t>(*count));
  }
  const std::size_t sum = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  const bool in_layers =
      scenario.model == nullptr || !scenario.model->has_layers() || sum == scenario.model->layers.size();
  if (!in_layers) return store(cuts_between_blocks(*scenario.model, counts), scenario.parallel.cuts);
  std::vector<std::size_t> cuts;
  std::size_t layers = 0;
  for (std::size_t part = 0; part + 1 < counts.size(); ++part) cuts.push_back(layers += counts[part]);
  scenario.parallel.cuts = std::move(cuts);
  return {};
}

std::string layers_per_stage_text(const plan::CutPoints& points, std::span<const std::size_t> cuts) {
  std::string text;
  auto first = points.starts.begin();
  for (std::size_t part = 0; part <= cuts.size(); ++part) {
    const auto end =
        part < cuts.size() ? std::lower_bound(first, points.starts.end(), cuts[part]) : points.starts.end();
    text += (text.empty() ? "" : "-") + std::to_string(end - first);
    first = end;
  }
  return text;
}

Expected<double> number_between(Value value, double least, double most) {
  auto number = parse_number(value);
  if (number && (*number < least || *number > most)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("'{}' is not between {} and {}", value.substr(0, 60), least, most));
  }
  return number;
}

Expected<void> set_strategy(Scenario& scenario, Value value, const io::Catalog&) {
  auto kind = parse_choice(plan::kStrategies, value, "strategy");
  if (!kind) {
    std::vector<std::string> names;
    for (const auto& [name, what] : plan::kStrategies) names.emplace_back(name);
    for (const Framework& framework : frameworks()) names.emplace_back(framework.name);
    kind.error().notes = {suggestion(value, names)};
  }
  return store(std::move(kind), scenario.strategy.kind);
}

Expected<void> set_jitter(Scenario& scenario, Value value, const io::Catalog&) {
  if (value == "0" || value == "0 %" || value == "0%") {
    scenario.jitter = 0.0;
    return {};
  }
  return store(parse_fraction(value), scenario.jitter);
}

Expected<void> set_profile(Scenario& scenario, Value value, const io::Catalog& catalog) {
  if (value == "auto") return {};
  std::vector<hardware::MeasuredProfile> named;
  if (value != "none") {
    auto profile = catalog.measured_profile(value);
    if (!profile) return tl::unexpected<Error>(profile.error());
    const hardware::Gpu& gpu = scenario.cluster.node.gpu;
    const auto sheet = catalog.gpu(gpu.id);
    profile->own = hardware::is_of_chip(*profile, sheet ? *sheet : gpu);
    named.push_back(std::move(*profile));
  }
  scenario.cluster.node.gpu.profiles = std::move(named);
  return {};
}

Expected<void> set_straggler(Scenario& scenario, Value value, const io::Catalog&) {
  auto factor = number_between(value, 1, 1e6);
  if (!factor) factor.error().notes.emplace_back("1.3 is a GPU whose work takes 1.3 times as long");
  return store(std::move(factor), scenario.straggler);
}

Expected<void> set_partition(Scenario& scenario, Value value, const io::Catalog&) {
  const auto size = parse_data_size(value);
  if (!size) return tl::unexpected<Error>(size.error());
  if (*size < kilobytes(1)) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is smaller than 1 kB", value));
  }
  scenario.strategy.partition = *size;
  return {};
}

Expected<DataSize> size_or_zero(Value value) { return parse_data_size(value, Range::kNonNegative); }

/// What frameworks take on top of kernels comes with the catalog; somebody may want kernels alone.
Expected<void> set_software(Scenario& scenario, Value value, const io::Catalog&) {
  if (value == "learnt") return {};
  if (value != "none") {
    return fail(ErrorCode::kNotFound, fmt::format("'{}' is no software", value.substr(0, 60)), {},
                {"valid: learnt, none"});
  }
  scenario.software = nullptr;
  return {};
}

Expected<void> set_software_year(Scenario& scenario, Value value, const io::Catalog&) {
  const auto year = parse_number(value);
  if (!year) return tl::unexpected<Error>(year.error());
  if (*year < 2010 || *year > 2100) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is no year from 2010 to 2100", value.substr(0, 60)));
  }
  scenario.software_year = std::optional<double>(*year);
  return {};
}

Expected<void> set_model_optimizer(Scenario& scenario, Value value, const io::Catalog&) {
  const auto optimizer = parse_choice(workload::kOptimizers, value, "optimizer");
  if (!optimizer) return tl::unexpected<Error>(optimizer.error());
  if (scenario.model->optimizer == *optimizer) return {};
  auto model = std::make_shared<workload::Model>(*scenario.model);
  model->optimizer = *optimizer;
  scenario.model = std::move(model);
  return {};
}

std::string named_prices(std::string_view value) {
  std::string named;
  for (std::size_t start = 0; start <= value.size();) {
    const std::size_t comma = std::min(value.find(',', start), value.size());
    const std::string_view part = value.substr(start, comma - start);
    start = comma + 1;
    if (part.find('=') != std::string_view::npos) named.append(named.empty() ? "" : ",").append(part);
  }
  return named;
}

bool price_unnamed(std::span<const Override> settings) {
  return std::any_of(settings.begin(), settings.end(), [](const Override& one) {
    return one.path == "price" && named_prices(one.value).size() < one.value.size();
  });
}

/// "12 $/h", or of named servers, "dgx-a100=12 $/h, p3.16xlarge=10 $/h": those that are another server's say nothing.
Expected<void> set_price(Scenario& scenario, Value value, const io::Catalog& catalog) {
  std::vector<std::string> priced;  // ids; empty: whatever server it is
  for (std::size_t start = 0; start <= value.size();) {
    const std::size_t comma = std::min(value.find(',', start), value.size());
    const std::string part = value.substr(start, comma - start);
    start = comma + 1;
    const std::size_t equals = part.rfind('=');
    auto price = parse_quantity<dimension::kMoney - dimension::kTime>(
        equals == std::string::npos ? part : part.substr(equals + 1));
    if (!price) {
      price.error().notes.emplace_back("as --price \"12 $/h\" or --price \"dgx-h100=98 $/h\"");
      return tl::unexpected<Error>(price.error());
    }
    std::string id;
    if (equals != std::string::npos) {
      const std::size_t first = std::min(part.find_first_not_of(' '), equals);
      const auto named = catalog.node(part.substr(first, equals - first));
      if (!named) return tl::unexpected<Error>(named.error());
      id = named->id;
    }
    if (std::find(priced.begin(), priced.end(), id) != priced.end()) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("two prices of {}: {}", id.empty() ? "one server" : id, value.substr(0, 60)), {},
                  {"one for each server, as --price \"dgx-h100=98 $/h, dgx-a100=33 $/h\""});
    }
    priced.push_back(id);
    if (!id.empty() && id != scenario.cluster.node.id) {
      scenario.prices_elsewhere.push_back(id);
      continue;
    }
    scenario.cluster.node.price = *price;
    scenario.price_stated = true;
  }
  return {};
}

Expected<double> parse_positive(Value value) {
  auto number = parse_number(value);
  if (number && (*number <= 0 || *number > 1e9)) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is not above 0 and up to 1e9", value.substr(0, 60)));
  }
  return number;
}

}  // namespace ddlsim::whatif
