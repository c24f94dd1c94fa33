#include "cases/case_network.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "cases/case_denial.h"
#include "cases/case_ports.h"
#include "cases/case_software.h"
#include "cases/case_text.h"
#include "ddlsim/cost/collective.h"
#include "ddlsim/support/quantity_io.h"

namespace ddlsim::whatif {
namespace {

/// What PCIe carries inside a server is no network.
std::string without_pcie(const std::string& text) {
  std::string kept;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of(",;", begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    if (!has(part, "pcie")) kept += part + ";";
    begin = end + 1;
  }
  return kept;
}

/// The ports that carry gradients: what is called "compute", else the fastest that are listed.
std::pair<NetworkPorts, std::string> compute_ports(const std::string& text) {
  std::pair<NetworkPorts, std::string> best;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find_first_of(",;", begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const NetworkPorts ports = ports_in(part);
    const bool better =
        static_cast<double>(ports.count) * ports.gigabits > static_cast<double>(best.first.count) * best.first.gigabits;
    if (ports.gigabits > 0 && (has(part, "compute") || (better && !has(best.second, "compute")))) best = {ports, part};
    begin = end + 1;
  }
  return best;
}

/// The family of links that a description names.
std::string_view link_family(std::string_view text) {
  if (has(text, "tcpxo")) return "gpudirect-tcpxo";
  if (has(text, "tcpx")) return "gpudirect-tcpx";
  if (has(text, "roce")) return "roce";
  if (has_word(text, "efa")) return "aws-efa";
  if (has_any(text, {"omni-path", "omnipath", "omni path", "opa"})) return "omni-path";
  if (has(text, "slingshot")) return "roce";  // RDMA over Ethernet of its own kind
  if (has_any(text, {"infiniband", " ib", "ib ", "xdr", "ndr", "hdr", "edr", "fdr", "qdr", "quantum"})) {
    return "infiniband";
  }
  // NCCL drives these cards by verbs wherever it finds them (NCCL environment variables, NCCL_IB_DISABLE).
  if (has(text, "rdma")) return "roce";  // over Ethernet: who has InfiniBand says so
  if (has_any(text, {"connectx-5", "connectx-6", "connectx-7", "connectx-8", "bluefield", "bf3"})) return "roce";
  return "ethernet";
}

/// What drives a link of that family, for rates that no file has; empty: its name does not say it.
std::string_view transport_of(std::string_view family) {
  constexpr auto kDrivers = std::to_array<std::pair<std::string_view, std::string_view>>({
      {"roce", "roce"},
      {"infiniband", "infiniband"},
      {"omni-path", "omni-path"},
      {"aws-efa", "efa"},
      {"gpudirect-tcpx", "tcpx"},
      {"gpudirect-tcpxo", "tcpx"},
  });
  for (const auto& [name, transport] : kDrivers) {
    if (name == family) return transport;
  }
  return {};
}

/// "delay 10ms": on the way out of every server, besides what the network takes. Nothing where none is stated.
std::optional<double> stated_delay(const std::string& text) {
  const std::size_t word = text.find("delay ");
  if (word == std::string::npos) return std::nullopt;
  const std::size_t unit = text.find("ms", word);
  if (unit == std::string::npos) return std::nullopt;
  const auto number = number_before(text, unit);
  return number ? std::optional<double>(number->value) : std::nullopt;
}

/// Whether a text says that TCP drives the network.
bool names_tcp(std::string_view text) {
  if (has_any(text, {"ip over", "ipoib", "ipogif", "sockets"})) return true;
  // Who has RDMA over it says so.
  const bool unrated = has_word(text, "ethernet") && !rate_in(text) && !has_word(text, "ib") &&
                       !has_any(text, {"spectrum", "converged"});
  return (has_word(text, "tcp") || unrated) && link_family(text) == "ethernet";
}

/// The unit that begins a text.
struct RateUnit {
  double gigabits = 0;  // per second; 0: there is none
  bool of_bytes = false;
  bool is_rate = true;     // bytes without a second are a size, or a slip for bits
  std::size_t length = 0;  // of its name
};

/// "Mb/s", "mbit/s", "MB/s", "GBps", "GB": capitals tell bytes from bits.
RateUnit rate_unit_at(std::string_view text) {
  constexpr auto kPrefixes = std::to_array<std::pair<std::string_view, double>>(
      {{"kilo", 1e-6}, {"mega", 1e-3}, {"giga", 1}, {"tera", 1e3}, {"k", 1e-6}, {"m", 1e-3}, {"g", 1}, {"t", 1e3}});
  const std::string lower = lower_case(text.substr(0, 16));
  for (const auto& [prefix, scale] : kPrefixes) {
    if (!lower.starts_with(prefix)) continue;
    const std::string_view rest = std::string_view(lower).substr(prefix.size());
    if (!rest.starts_with('b')) continue;
    const std::size_t named = rest.starts_with("byte") ? 4 : rest.starts_with("bit") ? 3 : 1;
    const std::string_view after = rest.substr(named);
    const bool a_second = after.starts_with("/s") || after.starts_with("ps") || after.starts_with("s/s");
    const bool ends = after.empty() || !is_lower(after.front()) || (named == 1 && has_word(after, "e"));
    if (!a_second && !ends && named == 1) return {};
    const bool of_bytes = named == 4 || (named == 1 && text[prefix.size()] == 'B' && !after.starts_with('e'));
    return {of_bytes ? 8 * scale : scale, of_bytes, a_second || !of_bytes, prefix.size() + named};
  }
  return {};
}

/// The most that a port of the cards or links that are named carries; nothing where none is.
std::optional<double> most_of_port(std::string_view lower) {
  constexpr auto kCards = std::to_array<std::pair<std::string_view, double>>({{"connectx-8", 800},
                                                                              {"connectx-7", 400},
                                                                              {"connectx-6", 200},
                                                                              {"connectx-5", 100},
                                                                              {"connectx-4", 100},
                                                                              {"bluefield-3", 400},
                                                                              {"bluefield-2", 200}});
  for (const auto& [card, rate] : kCards) {
    if (has(lower, card)) return rate;
  }
  const auto generation = generation_in(lower);
  return generation ? std::optional<double>(generation->value) : std::nullopt;
}

/// "25,000 Mb/s" without its comma, which is no end of a part.
std::string without_thousands(std::string text) {
  constexpr std::size_t kDigits = 3;
  for (std::size_t at = text.find(','); at != std::string::npos; at = text.find(',', at + 1)) {
    const auto digit = [&](std::size_t i) { return i < text.size() && is_digit(text[i]); };
    std::size_t begin = at;
    while (begin > 0 && is_digit(text[begin - 1])) --begin;
    const bool group = digit(at + 1) && digit(at + 2) && digit(at + kDigits) && !digit(at + kDigits + 1);
    const bool leads = at > begin && at - begin <= kDigits && text[begin] != '0';
    const std::size_t unit = std::min(text.find_first_not_of(' ', at + kDigits + 1), text.size());
    const bool of_rate = unit < text.size() && std::string_view("KkMmGgTt").find(text[unit]) != std::string_view::npos;
    if (group && leads && of_rate) text.erase(at--, 1);
  }
  return text;
}

/// A text with its rates in bits a second and multiples of 1e9: "1000 Mb/s" is "1 gb/s", "50 GB/s" "400 gb/s". Where
/// bits are stated, a rate in bytes is something else, a measured one say. What no card carries is a slip for bits.
std::string in_gigabits(const std::string& published) {
  const std::string said = without_thousands(published);
  struct Rate {
    Number number;
    RateUnit unit;
  };
  std::vector<Rate> rates;
  for (std::size_t i = 1; i < said.size(); ++i) {
    const RateUnit unit = rate_unit_at(std::string_view(said).substr(i));
    auto number = number_before(said, said[i - 1] == '-' ? i - 1 : i);
    if (!number || unit.gigabits == 0) continue;
    number->end = i + unit.length;
    rates.push_back({*number, unit});
  }
  const bool in_bits = std::any_of(rates.begin(), rates.end(), [](const Rate& rate) { return !rate.unit.of_bytes; });
  const auto most = most_of_port(lower_case(said));
  std::string text = said;
  for (auto rate = rates.rbegin(); rate != rates.rend(); ++rate) {
    const auto& [number, unit] = *rate;
    if (!unit.is_rate && !in_bits) continue;
    const double gigabits = number.value * unit.gigabits;
    const bool slip = unit.of_bytes && most && gigabits > *most;
    const bool beside = unit.of_bytes && in_bits;
    text.replace(number.begin, number.end - number.begin,
                 beside ? "--" : fmt::format("{:.10g} gb", slip ? gigabits / 8 : gigabits));
  }
  return text;
}

/// Whether a text has a number with a unit of a rate, whether or not it can be read.
bool has_rate_unit(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!is_digit(text[i])) continue;
    std::size_t unit = i + 1;
    while (unit < text.size() && (text[unit] == ' ' || text[unit] == '-')) ++unit;
    std::size_t end = unit;
    while (end < text.size() && (is_lower(text[end]) || text[end] == '/')) ++end;
    const std::string_view word = text.substr(unit, end - unit);
    if (has_any(word, {"b/s", "bps", "bit", "byte", "baud", "gbe", "gige"})) return true;
  }
  return false;
}

/// What a text says of its network once what it denies is taken out.
struct Network {
  std::string text;           // in lower case, rates in gigabits a second
  bool without_rdma = false;  // whatever card there is: TCP
};

/// Parts that commas and brackets part, of which those that are of a denied network are left out: "HDR InfiniBand off".
/// A rate beside the word Ethernet is the Ethernet's: "25 Gb/s Ethernet without InfiniBand".
Network network_in(const std::string& said) {
  const std::string text = lower_case(in_gigabits(said));
  Network network{text, false};
  if (!denied_rdma_in(text) || has_any(text, {"ip over", "ipoib", "ipogif"})) return network;
  network.text.clear();
  std::vector<std::string> kept;
  bool whole = false;  // RDMA of any kind, not InfiniBand's alone
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find_first_of(",;()", begin), text.size());
    std::string part = text.substr(begin, end - begin);
    begin = end + 1;
    bool denies = false;
    while (const auto denied = denied_rdma_in(part)) {
      denies = true;
      const bool by_nccl = has(part, "ib_disable");
      whole = whole || by_nccl || denied->text == "rdma" || denied->text == "verbs";
      part.erase(denied->begin, denied->end - denied->begin);
    }
    const bool of_ethernet = has_any(part, {"ether", "gbe", "gige", "tcp"});
    if (!denies || of_ethernet) kept.push_back(std::move(part));
  }
  for (const std::string& part : kept) {
    // Without verbs a card of Ethernet is one all the same.
    const bool off = link_family(part) == "infiniband";
    if (!off) network.text += part + ",";
  }
  const std::string_view family = link_family(network.text);
  network.without_rdma = whole || family == "ethernet";
  if (family == "aws-efa" || has(family, "tcpx") || family == "omni-path") network.without_rdma = false;
  return network;
}

/// Whether a text says something of a network, though no rate: a family, who sells it, that nobody says.
bool says_something(const io::Catalog& catalog, const std::string& text) {
  if (std::none_of(text.begin(), text.end(), [](char c) { return is_lower(c) || is_digit(c); })) return true;
  if (link_family(text) != "ethernet" ||
      has_any(text, {"ether", "eth0", "tcp", "socket", "nvl",     "imex",   "pcie", "connectx", "mellanox",
                     "mlx",   "nic",  "hca", "rail",   "default", "stated", "said", "known",    "specified",
                     "given", "none", "n/a", "delay",  "cloud",   "vpc",    "aries"})) {
    return true;
  }
  const auto cloud = {"aws", "ec2", "gcp", "google", "azure", "oci", "oracle", "alibaba", "ib", "no"};
  if (std::any_of(cloud.begin(), cloud.end(), [&](const char* word) { return has_word(text, word); })) return true;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" ,;()", begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    for (const io::Kind kind : {io::Kind::kNodes, io::Kind::kInstances}) {
      if (catalog.knows(kind, word)) return true;
    }
    begin = end + 1;
  }
  return false;
}

using hardware::Node;

/// AWS's: what an instance has is so many of them.
constexpr double kEfaCard = 100;

/// What RDMA drives whoever sells it: cards of 200 Gb/s and more are bought for nothing else.
constexpr double kRdmaCards = 200;

/// Bits a second that a server's card is sold with.
double card_of(const Node& server) {
  return server.network_bandwidth().in(gigabits_per_second) /
         static_cast<double>(std::max<std::int64_t>(server.network_ports, 1));
}

/// As a setting; empty: nothing is said.
std::string network_of(const io::Catalog& catalog, const io::Case& one, const Node& server) {
  const Network said = network_in(one.inter_network);
  const std::string& text = said.text;
  if (has(text, "aries")) return "cray-aries";
  NetworkPorts ports = network_ports_in(text);
  if (const auto assumed = assumed_ethernet(one, server)) return fmt::format("ethernet-{}g", assumed->gigabits);
  if (ports.gigabits == 0) return {};
  const std::string_view family = link_family(text);
  if (ports.per_gpu) {
    ports.count = one.gpus_per_node;
  } else if (!ports.counted && family == "aws-efa" && ports.gigabits > kEfaCard) {
    ports.count = static_cast<std::int64_t>(ports.gigabits / kEfaCard);
    ports.gigabits = kEfaCard;
  } else if (!ports.counted && cost::assumed_transport(server) != cost::NetworkTransport::kTcp) {
    // Servers of modules from Hopper on have a card for every GPU: a rate of such cards without a count is that of one
    // of them, a slower one is another network's.
    constexpr double kAsFast = 0.5;
    if (ports.gigabits >= kAsFast * card_of(server)) ports.count = server.network_ports;
  }
  std::string link = fmt::format("{}-{}g", family, ports.gigabits);
  if (!catalog.knows(io::Kind::kLinks, link)) link = fmt::format("{} Gb/s", ports.gigabits);
  return ports.count == 1 ? link : fmt::format("{} x {}", ports.count, link);
}

/// What drives the network, where the text says it or its cards do.
std::string_view driver_of(const io::Case& one, const Node& server) {
  const Network said = network_in(one.inter_network);
  const std::string& text = said.text;
  const std::string transport = lower_case(one.said("transport").value_or(""));
  // DLPerf's scripts of PaddlePaddle's BERT say NCCL_IB_DISABLE=1 (PaddlePaddle/bert/scripts/multi_node_train.sh).
  if (has(one.source, "DLPerf:PaddlePaddle/bert")) return "tcp";
  if (said.without_rdma || names_tcp(text) || has_word(transport, "tcp") || has(transport, "socket")) return "tcp";
  const std::string_view family = link_family(text);
  // Who submits to MLPerf gives NCCL its plugin for PSM2.
  if (family == "omni-path" && is_submission(one)) return "infiniband";
  if (const std::string_view driver = transport_of(family); !driver.empty()) return driver;
  if (family != "ethernet") return {};
  const double rate = network_ports_in(text).gigabits;
  if (rate >= kRdmaCards) return "roce";
  // Slower than the cards that a server of today has, and nobody calls it RDMA.
  return rate > 0 && cost::assumed_transport(server) != cost::NetworkTransport::kTcp ? "tcp" : std::string_view();
}

}  // namespace

NetworkPorts network_ports_in(const std::string& text) {
  std::string plain = text;
  for (std::size_t at = plain.find("\u00d7"); at != std::string::npos; at = plain.find("\u00d7", at)) {
    plain.replace(at, std::string_view("\u00d7").size(), "x");
  }
  return compute_ports(without_pcie(plain)).first;
}

std::optional<AssumedEthernet> assumed_ethernet(const io::Case& one, const Node& server) {
  const Network said = network_in(one.inter_network);
  const bool module = server.gpu.form != hardware::Form::kPcie;
  const bool recent =
      module && server.gpu.nccl_tuning.value_or(hardware::GpuGeneration::kPascal) >= hardware::GpuGeneration::kAmpere;
  constexpr AssumedEthernet kOld{10, "5 Gb/s", "25 Gb/s"};
  // A card's rate is none of IP's over it, which the kernel drives.
  constexpr AssumedEthernet kOverInfiniband{25, "10 Gb/s", "50 Gb/s"};
  const double stated = network_ports_in(said.text).gigabits;
  if (has_any(said.text, {"ip over", "ipoib"}) && (stated == 0 || stated > kOverInfiniband.gigabits)) {
    return recent ? kOverInfiniband : kOld;
  }
  const bool open = said.without_rdma || names_tcp(said.text);
  if (!open || stated > 0 || !server.tariff.provider.empty()) return std::nullopt;
  return recent ? AssumedEthernet{100, "25 Gb/s", "4 x 100 Gb/s"} : kOld;
}

bool names_network(const io::Catalog& catalog, const io::Case& one) {
  if (network_ports_in(lower_case(in_gigabits(one.inter_network))).gigabits > 0) return true;
  return says_something(catalog, lower_case(one.inter_network));
}

bool leaves_network_open(const io::Catalog& catalog, const io::Case& one) {
  const std::string text = network_in(one.inter_network).text;
  if (network_ports_in(text).gigabits > 0 || link_family(text) != "ethernet" || names_tcp(text)) return false;
  const bool denied = has_any(text, {"not stated", "not said", "not known", "unknown", "unstated", "n/a"});
  return denied || !says_something(catalog, text) ||
         std::none_of(text.begin(), text.end(), [](char c) { return is_lower(c) || is_digit(c); });
}

Expected<void> add_network(const io::Catalog& catalog, const io::Case& one, const Node& server,
                           std::vector<Override>& settings) {
  const std::string text = lower_case(one.inter_network);
  const std::string read = network_in(one.inter_network).text;
  if (network_ports_in(read).gigabits == 0 && has_rate_unit(without_pcie(read))) {
    return fail(ErrorCode::kUnsupported, fmt::format("no rate can be read from '{}'", one.inter_network.substr(0, 60)));
  }
  const std::string network = network_of(catalog, one, server);
  if (!network.empty()) settings.push_back({"network", network, one.where});
  if (const auto delay = stated_delay(text)) {
    constexpr double kUsualHop = 0.014;  // ms: a network link's files
    settings.push_back({"network.latency", fmt::format("{} ms", kUsualHop + *delay), one.where});
  }
  if (const std::string_view driver = driver_of(one, server); !driver.empty()) {
    settings.push_back({"network.transport", std::string(driver), one.where});
  }
  return {};
}

}  // namespace ddlsim::whatif
