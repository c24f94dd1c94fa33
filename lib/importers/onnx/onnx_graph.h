// The parts of an ONNX file that say what a step costs, as views into the file's bytes; weights are not among them.
//
// Source of messages and field numbers: onnx/onnx.proto of github.com/onnx/onnx (ModelProto, GraphProto, NodeProto,
// AttributeProto, TensorProto, ValueInfoProto, TypeProto, TensorShapeProto). Subgraphs (If, Loop), functions,
// training_info, quantisation and sparse tensors are passed over.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ddlsim/support/error.h"
#include "ddlsim/workload/op.h"

namespace ddlsim::importers::onnx {

/// Most nodes of a graph: ten times the largest published exports, and a model file of as many layers still loads.
inline constexpr std::size_t kMaxGraphNodes = 50'000;
/// Most tensors described (initializers, inputs, value_info), and most names read and written by all nodes together.
inline constexpr std::size_t kMaxTensors = 500'000;
inline constexpr std::size_t kMaxNames = 2'000'000;
inline constexpr std::size_t kMaxRank = 16;
/// Values of an integer tensor are read up to here: enough for any shape, axes or pads.
inline constexpr std::size_t kMaxValues = 64;

/// TensorProto.DataType, as far as anything depends on it.
inline constexpr std::int64_t kFloat = 1;
inline constexpr std::int64_t kInt32 = 6;
inline constexpr std::int64_t kInt64 = 7;

/// Bytes of one element; nothing for text and types ONNX does not number.
[[nodiscard]] std::optional<std::int64_t> element_bytes(std::int64_t data_type);
/// Whether gradients exist for it: floating point of any width.
[[nodiscard]] bool is_floating(std::int64_t data_type);

struct TensorHead {
  std::string_view name;
  std::int64_t data_type = 0;
  workload::Shape dims;
  std::optional<std::vector<std::int64_t>> values;  // of a small integer tensor stored in the file
  std::optional<std::vector<float>> fractions;      // of a small one of single-precision numbers, as Resize's scales
};

struct Dimension {
  std::optional<std::int64_t> size;
  std::string_view name;  // symbolic; empty where it has none
};

struct ValueInfo {
  std::string_view name;
  std::int64_t data_type = 0;
  std::optional<std::vector<Dimension>> dims;  // nothing: the file does not say
};

struct Attribute {
  std::string_view name;
  std::int64_t integer = 0;
  std::string_view text;
  std::vector<std::int64_t> integers;
  bool cut = false;  // there are more of them than kMaxValues, and nobody here reads such a table
  std::optional<TensorHead> tensor;
};

struct GraphNode {
  std::string_view name;
  std::string_view op;
  std::string_view domain;
  std::vector<std::string_view> inputs;  // "" where an optional one is left out
  std::vector<std::string_view> outputs;
  std::vector<Attribute> attributes;
  std::uint64_t offset = 0;  // of its bytes in the file

  [[nodiscard]] const Attribute* find(std::string_view attribute) const;
};

struct Graph {
  std::string_view name;
  std::string_view producer;
  std::string_view producer_version;
  std::int64_t opset = 0;  // of the default domain
  std::vector<GraphNode> nodes;
  std::vector<TensorHead> initializers;
  std::vector<ValueInfo> inputs;
  std::vector<ValueInfo> known;  // outputs and value_info
};

/// Reads the head of a model. The views point into `bytes`. `file` is the name used in errors.
/// Errors: kParse, naming the byte's offset; and naming the format where the bytes are plainly another one's.
[[nodiscard]] Expected<Graph> read_graph(std::string_view bytes, const std::string& file);

/// Puts the nodes in an order in which every tensor is made before it is read: the file's, wherever it is one.
/// Errors: kInvalidArgument, naming a node, for a cycle, a tensor nobody makes, or one that two nodes make.
[[nodiscard]] Expected<void> sort_nodes(Graph& graph, const std::string& file);

/// A name as a person can read it and YAML can hold it: printable ASCII, '_' for the rest, at most 100 characters.
[[nodiscard]] std::string printable(std::string_view name);
/// A file's name without its folder, printable; standard input, as the program passes it on, has none.
[[nodiscard]] std::string shown_file(const std::filesystem::path& path);

/// "node 'conv1' (Conv)", by its output where it has no name.
[[nodiscard]] std::string describe(const GraphNode& node);

}  // namespace ddlsim::importers::onnx
