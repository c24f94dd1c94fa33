#include "ddlsim/importers/chakra_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <queue>
#include <string_view>
#include <unordered_map>

#include "chakra_json.h"
#include "ddlsim/importers/protobuf.h"
#include "kineto/kineto_text.h"
#include "onnx/onnx_graph.h"

namespace ddlsim::importers {
namespace {

using chakra::kMaxDependencies;
using chakra::kMaxNodes;

/// A varint at `at`, which it moves; nothing where the bytes end or it is over ten bytes.
std::optional<std::uint64_t> take_varint(std::string_view bytes, std::size_t& at) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < kLongestVarint && at < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[at++]);
    value |= static_cast<std::uint64_t>(byte & 0x7FU) << (7 * i);
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

void read_attribute(WireReader attribute, ChakraNode& node) {
  std::string_view name;
  std::optional<std::int64_t> number;
  std::string_view text;
  while (attribute.next()) {
    switch (attribute.field()) {
      case 1: name = attribute.bytes(); break;
      case 7:
      case 9:
      case 11:
      case 13:
      case 27: number = attribute.integer(); break;
      case 15:
      case 17: {  // zigzag
        const auto raw = static_cast<std::uint64_t>(attribute.integer());
        number = static_cast<std::int64_t>((raw >> 1U) ^ (~(raw & 1U) + 1U));
        break;
      }
      case 29: text = attribute.bytes(); break;
      default: break;
    }
  }
  if (number && chakra::set_attribute(node, name, *number)) return;
  if (number) attribute.refuse(fmt::format("{} cannot be {}", name.substr(0, 40), *number));
}

ChakraNode read_node(WireReader message, std::size_t& dependencies) {
  ChakraNode node;
  std::int64_t type = 0;
  while (message.next()) {
    switch (message.field()) {
      case 1: node.id = message.integer(); break;
      case 2: node.name = message.bytes(); break;
      case 3: type = message.integer(); break;
      case 4: message.append_integers(node.control); break;
      case 5: message.append_integers(node.data); break;
      case 7: {
        const std::int64_t duration = message.integer();
        if (duration < 0 || duration > chakra::kMaxMicroseconds) {
          message.refuse(fmt::format("duration_micros cannot be {}", duration));
        }
        if (duration > 0) node.duration = microseconds(static_cast<double>(duration));
        break;
      }
      case 10: read_attribute(message.message(), node); break;
      default: break;
    }
  }
  if (!chakra::set_type(node, type)) {
    message.refuse(fmt::format("the node '{}' has the type {}: no Chakra node, or another version's",
                               onnx::printable(node.name), type));
  }
  dependencies += node.control.size() + node.data.size();
  return node;
}

void read_metadata(WireReader message, ChakraTrace& trace) {
  while (message.next()) {
    if (message.field() == 1) {
      trace.version = onnx::printable(message.bytes());
    } else if (message.field() == 2) {
      // {schema: "1.0.2-chakra.0.0.4"} in traces converted from PyTorch's.
      std::string_view name;
      std::string_view text;
      for (WireReader attribute = message.message(); attribute.next();) {
        if (attribute.field() == 1) name = attribute.bytes();
        if (attribute.field() == 29) text = attribute.bytes();
      }
      if (name == "schema") trace.version = onnx::printable(text);
    }
  }
}

Expected<ChakraTrace> read_wire(std::string_view bytes, const SourceLocation& where) {
  ChakraTrace trace;
  std::size_t at = 0;
  std::size_t dependencies = 0;
  for (bool first = true; at < bytes.size(); first = false) {
    const std::size_t start = at;
    const auto length = take_varint(bytes, at);
    if (!length || *length > bytes.size() - at) {
      return fail(ErrorCode::kParse,
                  fmt::format("at byte {}: the file ends within a message: cut short, or no Chakra trace", start),
                  where);
    }
    WireFault fault;
    WireReader message(bytes.substr(at, *length), fault);
    if (first) {
      read_metadata(message, trace);
    } else {
      trace.nodes.push_back(read_node(message, dependencies));
    }
    if (fault.found()) {
      return fail(ErrorCode::kParse,
                  fmt::format("at byte {}: {}{}", at + fault.offset, fault.message,
                              first ? ": no Chakra trace, which begins with GlobalMetadata" : ""),
                  where);
    }
    if (trace.nodes.size() > kMaxNodes || dependencies > kMaxDependencies) {
      return fail(ErrorCode::kParse, fmt::format("more than {} nodes or {} dependencies", kMaxNodes, kMaxDependencies),
                  where);
    }
    at += *length;
  }
  return trace;
}

/// Puts the nodes in their order, and drops dependencies on what is not there.
class Sorter {
 public:
  Sorter(ChakraTrace& trace, const SourceLocation& where) : trace_(trace), where_(where) {}

  Expected<void> sort() {
    for (std::size_t i = 0; i < trace_.nodes.size(); ++i) {
      if (index_.emplace(trace_.nodes[i].id, i).second) continue;
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("two nodes of the id {}: '{}' is the second", trace_.nodes[i].id,
                              onnx::printable(trace_.nodes[i].name)),
                  where_);
    }
    drop_dangling();
    std::vector<std::size_t> order = in_order(true);
    // PyTorch's callers come after their callees' data; a replay then goes by data, as ASTRA-sim's feeder does.
    if (order.size() < trace_.nodes.size()) order = in_order(false);
    if (order.size() < trace_.nodes.size()) return cycle();
    std::vector<ChakraNode> sorted;
    sorted.reserve(order.size());
    for (const std::size_t i : order) sorted.push_back(std::move(trace_.nodes[i]));
    trace_.nodes = std::move(sorted);
    return {};
  }

 private:
  void drop_dangling() {
    const auto missing = [&](std::int64_t id) { return !index_.contains(id); };
    for (ChakraNode& node : trace_.nodes) {
      for (auto* list : {&node.control, &node.data}) {
        trace_.dangling += static_cast<std::int64_t>(std::erase_if(*list, missing));
      }
    }
  }

  /// Kahn; fewer than all nodes where there is a cycle.
  std::vector<std::size_t> in_order(bool with_control) {
    waiting_.assign(trace_.nodes.size(), 0);
    std::vector<std::vector<std::size_t>> after(trace_.nodes.size());
    for (std::size_t i = 0; i < trace_.nodes.size(); ++i) {
      const ChakraNode& node = trace_.nodes[i];
      for (const std::int64_t id : node.data) after[index_.at(id)].push_back(i);
      waiting_[i] += node.data.size();
      if (!with_control) continue;
      for (const std::int64_t id : node.control) after[index_.at(id)].push_back(i);
      waiting_[i] += node.control.size();
    }
    using Ready = std::pair<std::int64_t, std::size_t>;  // the id, the index
    std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      if (waiting_[i] == 0) ready.emplace(trace_.nodes[i].id, i);
    }
    std::vector<std::size_t> order;
    order.reserve(waiting_.size());
    while (!ready.empty()) {
      const std::size_t i = ready.top().second;
      ready.pop();
      order.push_back(i);
      for (const std::size_t next : after[i]) {
        if (--waiting_[next] == 0) ready.emplace(trace_.nodes[next].id, next);
      }
    }
    return order;
  }

  tl::unexpected<Error> cycle() {
    // Every node that still waits has a predecessor that does: walking back meets a node of the cycle.
    const auto waits = [&](std::int64_t id) { return waiting_[index_.at(id)] > 0; };
    std::size_t at = 0;
    while (waiting_[at] == 0) ++at;
    for (std::size_t steps = 0; steps < trace_.nodes.size(); ++steps) {
      const ChakraNode& node = trace_.nodes[at];
      at = index_.at(*std::find_if(node.data.begin(), node.data.end(), waits));
    }
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the dependencies of the node {} '{}' lead back to it", trace_.nodes[at].id,
                            onnx::printable(trace_.nodes[at].name)),
                where_);
  }

  ChakraTrace& trace_;
  const SourceLocation& where_;
  std::unordered_map<std::int64_t, std::size_t> index_;
  std::vector<std::size_t> waiting_;  // for how many, by index
};

/// Appends fields of a message.
class WireWriter {
 public:
  void varint(std::uint64_t value) {
    while (value >= 0x80) {
      bytes_ += static_cast<char>((value & 0x7FU) | 0x80U);
      value >>= 7U;
    }
    bytes_ += static_cast<char>(value);
  }
  void number(std::uint64_t field, std::int64_t value) {
    varint(field << 3U);
    varint(static_cast<std::uint64_t>(value));
  }
  void text(std::uint64_t field, std::string_view value) {
    varint(field << 3U | 2U);
    varint(value.size());
    bytes_ += value;
  }
  void numbers(std::uint64_t field, const std::vector<std::int64_t>& values) {
    if (values.empty()) return;
    WireWriter packed;
    for (const std::int64_t value : values) packed.varint(static_cast<std::uint64_t>(value));
    text(field, packed.bytes_);
  }
  /// A node's attribute, in that arm of its oneof.
  void attribute(std::string_view name, std::uint64_t arm, std::int64_t value) {
    WireWriter attribute;
    attribute.text(1, name);
    attribute.number(arm, value);
    text(10, attribute.bytes_);
  }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

std::string bytes_of(const ChakraNode& node) {
  // The arms that Chakra's own feeder (src/feeder/et_feeder_node.cpp) looks into; another's value it takes for 0.
  constexpr std::uint64_t kInt64 = 9;
  constexpr std::uint64_t kUint64 = 13;
  constexpr std::uint64_t kBool = 27;
  constexpr double kMostOps = 0x1p62;  // what the field holds
  WireWriter out;
  out.number(1, node.id);
  out.text(2, node.name);
  out.number(3, static_cast<std::int64_t>(node.type));
  out.numbers(4, node.control);
  out.numbers(5, node.data);
  if (node.duration) out.number(7, std::llround(node.duration->in(microseconds)));
  out.attribute("is_cpu_op", kBool, node.on_cpu ? 1 : 0);
  if (node.collective) out.attribute("comm_type", kInt64, chakra::number_of(*node.collective));
  if (node.sent > DataSize::zero()) out.attribute("comm_size", kInt64, std::llround(node.sent.in(ddlsim::bytes)));
  if (node.work > Work::zero()) out.attribute("num_ops", kInt64, std::llround(std::min(node.work.in(flops), kMostOps)));
  if (node.tensor > DataSize::zero()) {
    out.attribute("tensor_size", kUint64, std::llround(node.tensor.in(ddlsim::bytes)));
  }
  return out.bytes();
}

}  // namespace

Expected<ChakraTrace> read_chakra(const std::filesystem::path& path) {
  const SourceLocation where{path.string(), 0, 0};
  auto text = kineto::read_text(path, chakra::kPadding);
  if (!text) return tl::unexpected<Error>(text.error());
  if (text->starts_with("version https://git-lfs")) {
    return fail(ErrorCode::kParse, "a Git LFS pointer, not the file it stands for: `git lfs pull` fetches that", where);
  }
  const std::size_t first = text->find_first_not_of(" \t\r\n");
  const bool json = first != std::string::npos && (*text)[first] == '{';
  auto trace = json ? chakra::read_json(*text, where) : read_wire(*text, where);
  if (!trace) return trace;
  if (trace->nodes.empty()) return fail(ErrorCode::kParse, "a Chakra trace without nodes", where);
  if (auto sorted = Sorter(*trace, where).sort(); !sorted) return tl::unexpected<Error>(sorted.error());
  return trace;
}

std::string write_chakra(const ChakraTrace& trace) {
  WireWriter out;
  WireWriter metadata;
  metadata.text(1, trace.version);
  out.varint(metadata.bytes().size());
  std::string all = out.bytes() + metadata.bytes();
  for (const ChakraNode& node : trace.nodes) {
    const std::string body = bytes_of(node);
    WireWriter length;
    length.varint(body.size());
    all += length.bytes() + body;
  }
  return all;
}

}  // namespace ddlsim::importers
