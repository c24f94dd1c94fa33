#include "chakra_json.h"

#include <fmt/core.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <utility>

#include "onnx/onnx_graph.h"

namespace ddlsim::importers::chakra {
namespace {

namespace ondemand = simdjson::ondemand;

static_assert(kPadding >= simdjson::SIMDJSON_PADDING);

/// CollectiveCommType of et_def.proto. Gathers, scatters and barriers (3, 4, 9) have no name here.
constexpr auto kTypes = std::to_array<std::pair<std::int64_t, primitives::CollectiveOp>>({
    {0, primitives::CollectiveOp::kAllReduce},
    {1, primitives::CollectiveOp::kReduce},
    {2, primitives::CollectiveOp::kAllGather},
    {5, primitives::CollectiveOp::kBroadcast},
    {6, primitives::CollectiveOp::kAllToAll},
    {7, primitives::CollectiveOp::kReduceScatter},
    {8, primitives::CollectiveOp::kReduceScatter},
});

struct Refusal {
  std::string message;
};

std::int64_t integer(ondemand::value value, std::string_view key) {
  std::int64_t number = 0;
  if (value.get_int64().get(number) != simdjson::SUCCESS) throw Refusal{fmt::format("{} is no whole number", key)};
  return number;
}

void integers(ondemand::value value, std::string_view key, std::vector<std::int64_t>& into) {
  for (ondemand::value item : value.get_array()) into.push_back(integer(item, key));
}

ChakraNode node_of(ondemand::object object) {
  ChakraNode node;
  std::int64_t type = 0;
  for (ondemand::field field : object) {
    const std::string_view key = field.unescaped_key();
    ondemand::value value = field.value();
    if (key == "Id" || key == "id") {
      node.id = integer(value, key);
    } else if (key == "Name" || key == "name") {
      node.name = std::string(std::string_view(value.get_string()));
    } else if (key == "NodeType" || key == "type") {
      type = integer(value, key);
    } else if (key == "ctrlDeps" || key == "ctrl_deps") {
      integers(value, key, node.control);
    } else if (key == "data_deps" || key == "dataDeps") {
      integers(value, key, node.data);
    } else if (key == "runtime" || key == "duration_micros") {
      const std::int64_t duration = integer(value, key);
      if (duration < 0 || duration > kMaxMicroseconds) throw Refusal{fmt::format("{} cannot be {}", key, duration)};
      if (duration > 0) node.duration = microseconds(static_cast<double>(duration));
    } else if (key == "is_cpu_op") {
      node.on_cpu = value.get_bool();
    } else if (key == "comm_type" || key == "comm_size" || key == "num_ops" || key == "tensor_size") {
      const std::int64_t number = integer(value, key);
      if (!set_attribute(node, key, number)) throw Refusal{fmt::format("{} cannot be {}", key, number)};
    }
  }
  if (!set_type(node, type)) {
    throw Refusal{fmt::format("the node '{}' has the type {}, no Chakra node's", onnx::printable(node.name), type)};
  }
  return node;
}

void read(ondemand::document& document, ChakraTrace& trace) {
  std::size_t dependencies = 0;
  bool found = false;
  bool execution = false;
  for (ondemand::field field : document.get_object()) {
    const std::string_view key = field.unescaped_key();
    execution = execution || key == "schema";
    if (key != "workload_graph") continue;
    found = true;
    for (ondemand::object object : field.value().get_array()) {
      trace.nodes.push_back(node_of(object));
      dependencies += trace.nodes.back().control.size() + trace.nodes.back().data.size();
      if (trace.nodes.size() > kMaxNodes || dependencies > kMaxDependencies) {
        throw Refusal{fmt::format("more than {} nodes or {} dependencies", kMaxNodes, kMaxDependencies)};
      }
    }
  }
  if (!found && execution) {
    throw Refusal{
        "is an execution trace of PyTorch (ExecutionTraceObserver): operators and their shapes, but no times. Link it "
        "with "
        "the profiler's trace of the same run (chakra_trace_link, then chakra_converter), or import that trace: "
        "`ddlsim "
        "import kineto`"};
  }
  if (!found) {
    throw Refusal{
        "has no workload_graph: no Chakra trace. PyTorch's profiler traces are read by `import kineto`, "
        "its execution traces converted by chakra_converter"};
  }
}

}  // namespace

bool set_attribute(ChakraNode& node, std::string_view name, std::int64_t value) {
  const auto size = static_cast<double>(value);
  if (name == "is_cpu_op") {
    node.on_cpu = value != 0;
  } else if (name == "comm_type") {
    const auto type = std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& row) { return row.first == value; });
    if (type != kTypes.end()) node.collective = type->second;
    return value >= 0;
  } else if (name == "comm_size") {
    node.sent = bytes(size);
    return value >= 0;
  } else if (name == "num_ops") {
    node.work = flops(size);
    return value >= 0;
  } else if (name == "tensor_size") {
    node.tensor = bytes(size);
    return value >= 0;
  }
  return true;
}

bool set_type(ChakraNode& node, std::int64_t type) {
  if (type < 1 || type > 7) return false;
  node.type = static_cast<ChakraType>(type);
  if (node.type != ChakraType::kCollective) node.collective.reset();  // sends have a comm_type too
  return true;
}

std::int64_t number_of(primitives::CollectiveOp op) {
  const auto row = std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& r) { return r.second == op; });
  return row == kTypes.end() ? 9 : row->first;
}

Expected<ChakraTrace> read_json(const std::string& text, const SourceLocation& where) {
  constexpr std::size_t kMaxDepth = 64;
  ChakraTrace trace;
  trace.version = "json";
  ondemand::parser parser;
  ondemand::document document;
  auto error = parser.allocate(text.size() + 1, kMaxDepth);
  if (error == simdjson::SUCCESS) {
    error = parser.iterate(simdjson::padded_string_view(text.data(), text.size(), text.capacity())).get(document);
  }
  if (error != simdjson::SUCCESS) {
    return fail(ErrorCode::kParse, fmt::format("not whole JSON: {}", simdjson::error_message(error)), where);
  }
  const auto place = [&] {
    const char* at = nullptr;
    if (document.current_location().get(at) != simdjson::SUCCESS) return std::string("at the end");
    return fmt::format("at byte {}", at - text.data());
  };
  try {
    read(document, trace);
  } catch (const Refusal& refusal) {
    return fail(ErrorCode::kParse, fmt::format("{}: {}", place(), refusal.message), where);
  } catch (const simdjson::simdjson_error& problem) {
    return fail(ErrorCode::kParse,
                fmt::format("{}: not the JSON of a trace: {}", place(), simdjson::error_message(problem.error())),
                where);
  }
  return trace;
}

}  // namespace ddlsim::importers::chakra
