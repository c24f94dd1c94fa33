// Turns an ONNX file into a model of models/README.md.
//
// The file is mapped, not read: of a weight only its name, type and sizes are looked at; external data is never opened.
// Nodes are put in order, shapes inferred from the graph's input on, and each operator becomes a layer:
//   Conv, Gemm, MatMul by a weight, BatchNormalization, LayerNormalization, pools, Gather from a weight   as their
//   names MatMul of two activations                    matmul, `products` being the leading sizes (heads) MatMul, then
//   Add of a vector of its width    one linear with bias Relu, Clip, ..., Softmax, LRN, Dropout       relu, softmax,
//   ..., bound by memory Add, Sub, Sum, Mul, Div, ...                 add or multiply; an operand that is trained, an
//   embedding before it Reshape, Squeeze, Slice, Split, Expand, ...  nothing: views; Flatten is written, a Transpose
//   that moves data copied
// Parameters are the floating-point initializers in a trained place (weights, biases, norms' scale and shift, tables),
// once each however often used; running statistics and constants are not. Shapes made of stored integers (Constant,
// Shape, Gather, Slice, Concat) are worked out.
// One sample is a tensor without its batch, the first dimension of the graph's first input: a number, or open (then 1).
// Any other open dimension needs a value in `dimensions`, by its name, or as INPUT:INDEX where it has none.
// What the schema cannot say exactly is the nearest it can, and a line of the model's notes: odd padding of a
// convolution is an input larger by the odd row; a dilated pool one smaller by what the window spans; a window over
// three sizes one over two; ConvTranspose a convolution of as many products and a copy; Resize and Pad copies. Source:
// onnx/docs/Operators.md, onnx/onnx.proto of github.com/onnx/onnx (operator sets 1 to 21). Limits: a training step is
// assumed (backward by rule), optimizer and batch are not in an ONNX file; transposed convolutions over one or two
// sizes; no control flow, no recurrent operators, no quantised ones, 50,000 nodes. Example: a graph data[N, 3, 8, 8] ->
// Conv(W[4, 3, 3, 3], pads 1) has one layer, conv {out: 4, kernel: 3, pad: 1}: 108 parameters, 2 * 108 * 64 = 13,824
// FLOPs per sample.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ddlsim/io/model_file.h"
#include "ddlsim/io/model_writer.h"
#include "ddlsim/support/choices.h"
#include "ddlsim/support/error.h"
#include "ddlsim/workload/model.h"

namespace ddlsim::importers {

/// What an operator nobody knows becomes.
enum class UnknownOperator { kError, kAssumed };

inline constexpr Choices<UnknownOperator, 2> kUnknownOperators{{
    {"error", UnknownOperator::kError},
    {"assumed", UnknownOperator::kAssumed},  // an element-wise operator of its output's size, named in the notes
}};

struct OnnxOptions {
  std::string id;                     // of the model; empty: from the file's name
  std::optional<std::int64_t> batch;  // samples per GPU and step; the graph's own otherwise
  io::Dimensions dimensions;          // values of open dimensions
  UnknownOperator unknown = UnknownOperator::kError;
};

struct OnnxImport {
  io::ModelDescription description;  // for write_model
  workload::Model model;
  std::int64_t trained_elements = 0;  // of the file's tensors in trained places; the model's parameters
};

/// Errors: kIo, kParse (with the byte's offset) and kInvalidArgument (with the node's name) for the file; kUnsupported
/// for an operator without a rule, with the list of those that have one; kNotFound for a dimension the graph lacks.
[[nodiscard]] Expected<OnnxImport> import_onnx(const std::filesystem::path& path, const OnnxOptions& options);

/// The operators with a rule, sorted.
[[nodiscard]] std::vector<std::string> onnx_operators();

/// An id made of a file's name: lower case, letters, digits and '_'. "ResNet-50 (v1).onnx" gives "resnet_50_v1".
[[nodiscard]] std::string id_from_file(const std::filesystem::path& path);

}  // namespace ddlsim::importers
