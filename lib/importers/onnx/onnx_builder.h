// Walks a graph in order, infers shapes, and collects layers. One Rule per operator does its part through a
// NodeContext.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ddlsim/importers/onnx_file.h"
#include "ddlsim/io/model_writer.h"
#include "onnx_graph.h"

namespace ddlsim::importers::onnx {

inline constexpr std::size_t kNone = static_cast<std::size_t>(-1);
/// Sizes, as in model files.
inline constexpr std::int64_t kLargestSize = std::int64_t{1} << 48;
/// Kernels, strides and pads, as in model files.
inline constexpr std::int64_t kLargestStride = std::int64_t{1} << 20;

/// A tensor of the graph, as far as shapes go.
struct Value {
  workload::Shape shape;       // whole, with the batch
  bool constant = false;       // no activation
  std::size_t weight = kNone;  // of Builder::weights: the floating-point tensor it is, or is a view of
  std::optional<std::vector<std::int64_t>> numbers{};  // of a small integer tensor
  std::optional<std::vector<float>> fractions{};       // of a small vector of single-precision numbers
  // A vector of a Constant node: trained where an operator's own weight stands (PaddleOCR's norms), but an operand of
  // arithmetic like any number.
  std::size_t vector_weight = kNone;
  std::size_t bare_linear = kNone;  // the layer it comes from, if that is a linear without bias
};

struct Weight {
  std::int64_t elements = 0;
  bool used = false;  // in a trained place
};

/// [channels, ...] of a tensor [batch, channels, ...]; refuses what is no such tensor.
[[nodiscard]] workload::Shape features_of(class NodeContext& node, const workload::Shape& whole);

/// The number of elements; nothing where it is over 2^53.
[[nodiscard]] std::optional<std::int64_t> elements_of(const workload::Shape& shape);

class Builder {
 public:
  Builder(const Graph& graph, const OnnxOptions& options, std::string file);

  /// The layers, input and notes; id, names and sources are left to the caller.
  [[nodiscard]] Expected<io::ModelDescription> build();
  /// Samples in the graph's own shapes, where the file or a --dim states it.
  [[nodiscard]] std::optional<std::int64_t> stated_batch() const { return stated_batch_; }
  [[nodiscard]] std::int64_t trained_elements() const { return trained_; }

 private:
  friend class NodeContext;

  void read_initializers();
  void read_inputs();
  void read_input(const ValueInfo& input);
  void check_dimensions();
  std::int64_t size_of(const ValueInfo& input, std::size_t index);
  void count_readers();
  void apply(const GraphNode& node);
  void assume(const GraphNode& node);
  [[nodiscard]] std::optional<workload::Shape> declared_shape(std::string_view name) const;
  void refuse(Error error);
  void note(const std::string& text);
  [[nodiscard]] std::string joined_notes() const;
  [[nodiscard]] workload::Shape sample_of(const workload::Shape& shape) const;
  std::size_t new_weight(std::int64_t elements);

  const Graph& graph_;
  const OnnxOptions& options_;
  std::string file_;
  std::optional<Error> error_;
  io::ModelDescription model_;
  std::unordered_map<std::string_view, Value> values_;
  std::unordered_map<std::string_view, std::size_t> readers_;        // how many nodes read a tensor
  std::unordered_map<std::string_view, const ValueInfo*> declared_;  // of graph_.known
  std::vector<Weight> weights_;
  std::vector<std::string> dimension_names_;  // of the graph's inputs
  std::optional<std::int64_t> stated_batch_;
  std::int64_t batch_ = 1;
  std::int64_t trained_ = 0;
  std::vector<std::string> notes_;
  std::set<std::string> noted_;
};

/// What a rule sees of the node it works on. After `refuse` the rest of the rule does no harm and has no effect.
class NodeContext {
 public:
  NodeContext(Builder& builder, const GraphNode& node) : builder_(builder), node_(node) {}

  [[nodiscard]] const GraphNode& node() const { return node_; }
  [[nodiscard]] std::size_t inputs() const { return node_.inputs.size(); }
  [[nodiscard]] bool has(std::size_t index) const { return index < inputs() && !node_.inputs[index].empty(); }
  /// An input that must be there.
  const Value& input(std::size_t index);
  [[nodiscard]] bool only_reader_of(std::size_t index) const;

  [[nodiscard]] std::int64_t integer(std::string_view attribute, std::int64_t otherwise) const;
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view attribute) const;
  [[nodiscard]] std::string_view text(std::string_view attribute) const;
  /// Whole numbers from an attribute of older operator sets or an input of newer ones; nothing where neither is there.
  std::optional<std::vector<std::int64_t>> numbers(std::string_view attribute, std::size_t index);
  /// An axis as an index below `rank`; `rank` itself is allowed where `past_end`.
  std::size_t axis(std::int64_t value, std::size_t rank, bool past_end = false);

  void set(std::size_t output, Value value);
  /// Sets output 0 to an activation.
  void set(workload::Shape shape) { set(0, Value{.shape = std::move(shape)}); }
  /// Appends a layer. `in` is a shape of one sample; empty: as the layer before leaves it.
  void layer(std::string_view word, workload::Op op, workload::Shape in, std::string_view suffix = {});
  /// The same, on a whole tensor.
  void layer_on(std::string_view word, workload::Op op, const workload::Shape& whole) {
    layer(word, std::move(op), sample(whole));
  }
  [[nodiscard]] workload::Shape sample(const workload::Shape& whole) const { return builder_.sample_of(whole); }
  [[nodiscard]] std::size_t layers() const { return builder_.model_.layers.size(); }
  /// Gives the linear at `index` a bias.
  void add_bias(std::size_t index);

  /// Single-precision numbers of a stored vector; nothing where the input is left out or not stored.
  [[nodiscard]] std::optional<std::vector<float>> fractions(std::size_t index);
  /// Takes an input as trained: counts its elements the first time. False where it was counted before.
  bool train(std::size_t index);
  /// The layer of an input that is trained but not by this operator's own rule: an embedding of as many elements.
  void trained_operand(std::size_t index);
  /// A weight of the graph's own making (ConstantOfShape).
  [[nodiscard]] std::size_t new_weight(std::int64_t elements) { return builder_.new_weight(elements); }

  void note(const std::string& text) { builder_.note(text); }
  void refuse(std::string message, std::vector<std::string> notes = {}, ErrorCode code = ErrorCode::kInvalidArgument);
  [[nodiscard]] bool failed() const { return builder_.error_.has_value(); }
  /// The elements of a shape; refuses what is over 2^53.
  std::int64_t elements(const workload::Shape& shape);

 private:
  Builder& builder_;
  const GraphNode& node_;
  Value nothing_{.shape = {1}};
};

struct Rule {
  std::string_view op;
  void (*apply)(NodeContext&);
};

/// Rules of operators that slide a window, of others that cost something, and of those that only shape or fold.
[[nodiscard]] std::span<const Rule> window_rules();
[[nodiscard]] std::span<const Rule> layer_rules();
[[nodiscard]] std::span<const Rule> tensor_rules();

}  // namespace ddlsim::importers::onnx
