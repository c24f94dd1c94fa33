// ONNX files: each operator's layer, and every way in which a graph can be wrong. Files are made by onnx_bytes.h.
#include "ddlsim/importers/onnx_file.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "unit/importers/onnx_bytes.h"

namespace {

using namespace ddlsim;
using namespace ddlsim::importers;
using namespace ddlsim::io;
using namespace ddlsim::test;
using Catch::Matchers::Contains;

Expected<OnnxImport> import_graph(const OnnxGraph& graph, const OnnxOptions& options = {}) {
  const OnnxFile file(model_of(graph));
  return import_onnx(file.path(), options);
}

OnnxImport imported(const OnnxGraph& graph, const OnnxOptions& options = {}) {
  auto result = import_graph(graph, options);
  if (!result) FAIL(to_string(result.error()));
  CHECK(result->model.parameters() == result->trained_elements);
  return std::move(*result);
}

std::string error_of(const OnnxGraph& graph, const OnnxOptions& options = {}) {
  const auto result = import_graph(graph, options);
  return result ? std::string() : to_string(result.error());
}

/// The lines of `layers:`.
std::string layers_of(const OnnxImport& import) {
  const auto text = write_model(import.description);
  REQUIRE(text);
  return text->substr(text->find("layers:\n") + 8);
}

const std::string kImage = value_info("x", {-1, 3, 8, 8});

}  // namespace

TEST_CASE("a convolution: the header's example") {
  // Weights 4*3*3*3 = 108; pads of 1 keep 8x8: 2 * 108 * 64 = 13,824 FLOPs. Input 3*8*8 floats = 768 B.
  const auto result = imported(
      {{node("Conv", {"x", "w"}, {"y"}, {ints("pads", {1, 1, 1, 1})})}, {weight("w", {4, 3, 3, 3})}, {kImage}});
  CHECK(layers_of(result) == "  - conv: {name: \"Conv_y\", out: 4, kernel: 3, pad: 1}\n");
  CHECK(result.model.parameters() == 108);
  CHECK(result.model.totals.forward_work == flops(13824));
  CHECK(result.model.input_per_sample == bytes(768));
  CHECK(result.model.batch == 1);
  CHECK(result.model.sample == "image");
}

TEST_CASE("groups, strides, dilations and bias of a convolution") {
  // Kernel 3 at dilation 2 covers 5; (8 + 2 - 5) / 2 + 1 = 3. Weights 6 * (3/3) * 9 = 54, bias 6.
  const auto result = imported(
      {{node("Conv", {"x", "w", "b"}, {"y"},
             {integer("group", 3), ints("strides", {2, 2}), ints("dilations", {2, 2}), ints("pads", {1, 1, 1, 1})}),
        node("Relu", {"y"}, {"z"})},
       {weight("w", {6, 1, 3, 3}), weight("b", {6})},
       {kImage}});
  CHECK(layers_of(result) ==
        "  - conv: {name: \"Conv_y\", out: 6, kernel: 3, stride: 2, pad: 1, dilation: 2, groups: 3, bias: true}\n"
        "  - relu: {name: \"Relu_z\"}\n");
  CHECK(result.model.parameters() == 60);
  CHECK(result.model.layers[1].forward_elements == 2 * 6 * 3 * 3);
}

TEST_CASE("padding of unequal sides keeps output and FLOPs") {
  // SAME on 8 with kernel 3 and stride 2: 4 outputs need (4-1)*2 + 3 = 9 = 8 + 1. As an input of 9 without padding.
  const auto same =
      imported({{node("Conv", {"x", "w"}, {"y"}, {text("auto_pad", "SAME_UPPER"), ints("strides", {2, 2})}),
                 node("Relu", {"y"}, {"z"})},
                {weight("w", {1, 3, 3, 3})},
                {kImage}});
  CHECK_THAT(layers_of(same), Contains("in: [3, 9, 9], out: 1, kernel: 3, stride: 2}"));
  CHECK_THAT(layers_of(same), Contains("- relu: {name: \"Relu_z\"}"));  // [1, 4, 4] follows by itself
  CHECK_THAT(same.model.notes, Contains("unequal sides"));
  // A pool with one row of padding at the end is what rounding up gives: 8 -> 4 with kernel 3, stride 2.
  const auto pool =
      imported({{node("MaxPool", {"x"}, {"y"},
                      {ints("kernel_shape", {3, 3}), ints("strides", {2, 2}), ints("pads", {0, 0, 1, 1})})},
                {},
                {kImage}});
  CHECK(layers_of(pool) == "  - maxpool: {name: \"MaxPool_y\", kernel: 3, stride: 2, ceil: true}\n");
  CHECK(pool.model.notes.empty());
}

TEST_CASE("batch norm has a scale and a shift; running statistics are no parameters") {
  const auto result = imported({{node("BatchNormalization", {"x", "s", "b", "m", "v"}, {"y"})},
                                {weight("s", {3}), weight("b", {3}), weight("m", {3}), weight("v", {3})},
                                {kImage}});
  CHECK(layers_of(result) == "  - batchnorm: {name: \"BatchNormalization_y\"}\n");
  CHECK(result.model.parameters() == 6);
}

TEST_CASE("a norm's vectors may be Constants, as PaddleOCR's exports have them") {
  const auto constant = [](const std::string& name) {
    return node("Constant", {}, {name}, {tensor("value", weight("", {3}))});
  };
  const auto result =
      imported({{constant("s"), constant("b"), constant("m"), constant("v"),
                 node("BatchNormalization", {"x", "s", "b", "m", "v"}, {"y"}),
                 node("Constant", {}, {"k"}, {tensor("value", weight("", {8}))}), node("Mul", {"y", "k"}, {"z"})},
                {},
                {kImage}});
  CHECK_THAT(layers_of(result), Contains("  - batchnorm: {name: \"BatchNormalization_y\"}\n"));
  // Running statistics are no parameters, and a vector of numbers in arithmetic is none either.
  CHECK(result.model.parameters() == 6);
  // What is worked out at run time is named, with what helps.
  CHECK_THAT(error_of({{node("Sqrt", {"s"}, {"t"}), node("BatchNormalization", {"x", "t", "s", "s", "s"}, {"y"})},
                       {weight("s", {3})},
                       {kImage}}),
             Contains("'t' is no stored tensor") && Contains("an initializer or a Constant"));
}

TEST_CASE("Resize, Upsample and Pad copy what they make") {
  // [3, 8, 8] to [3, 16, 16] by scales, then by sizes to [3, 12, 20]; padded to [3, 14, 21].
  const auto scaled = imported({{node("Resize", {"x", "", "scales"}, {"y"}), node("Relu", {"y"}, {"z"})},
                                {fractions("scales", {1, 1, 2, 2})},
                                {kImage}});
  CHECK(layers_of(scaled) == "  - concat: {name: \"Resize_y\", out: [3, 16, 16]}\n  - relu: {name: \"Relu_z\"}\n");
  CHECK(scaled.model.layers[1].forward_elements == 2 * 3 * 16 * 16);
  const auto sized =
      imported({{node("Resize", {"x", "", "", "sizes"}, {"y"})}, {numbers("sizes", {1, 3, 12, 20})}, {kImage}});
  CHECK_THAT(layers_of(sized), Contains("out: [3, 12, 20]"));
  const auto older =
      imported({{node("Upsample", {"x", "scales"}, {"y"})}, {fractions("scales", {1, 1, 1.5F, 2})}, {kImage}});
  CHECK_THAT(layers_of(older), Contains("out: [3, 12, 16]"));
  const auto padded =
      imported({{node("Pad", {"x", "pads"}, {"y"})}, {numbers("pads", {0, 0, 1, 2, 0, 0, 1, -1})}, {kImage}});
  CHECK_THAT(layers_of(padded), Contains("\"Pad_y\", out: [3, 10, 9]"));
  const auto by_attribute =
      imported({{node("Pad", {"x"}, {"y"}, {ints("pads", {0, 0, 1, 1, 0, 0, 1, 1})})}, {}, {kImage}});
  CHECK_THAT(layers_of(by_attribute), Contains("out: [3, 10, 10]"));
  // Nothing where nothing changes; a word where the sizes are not there.
  CHECK_THAT(error_of({{node("Pad", {"x", "pads"}, {"y"})}, {numbers("pads", {0, 0, 0, 0, 0, 0, 0, 0})}, {kImage}}),
             Contains("computes nothing"));
  CHECK_THAT(error_of({{node("Relu", {"x"}, {"r"}), node("Resize", {"x", "", "r"}, {"y"})}, {}, {kImage}}),
             Contains("its sizes or scales are not stored in the file"));
  CHECK_THAT(error_of({{node("Pad", {"x", "pads"}, {"y"})}, {numbers("pads", {0, 0, -9, 0, 0, 0, 0, 0})}, {kImage}}),
             Contains("it makes an empty tensor"));
  CHECK_THAT(error_of({{node("Pad", {"x", "pads"}, {"y"})}, {numbers("pads", {1, 2})}, {kImage}}),
             Contains("pads has 2 values for 4 dimensions"));
}

TEST_CASE("a transposed convolution has the products of its inputs") {
  // [3, 8, 8], weights [3, 5, 4, 4], stride 2, pads 1: (8-1)*2 + 4 - 2 = 16. Each of 64 positions of 3 channels meets
  // 5*4*4 weights: 2 * 64 * 3 * 80 = 30,720 FLOPs; 240 weights and 5 biases.
  const auto result =
      imported({{node("ConvTranspose", {"x", "w", "b"}, {"y"}, {ints("strides", {2, 2}), ints("pads", {1, 1, 1, 1})}),
                 node("Relu", {"y"}, {"z"})},
                {weight("w", {3, 5, 4, 4}), weight("b", {5})},
                {kImage}});
  CHECK(layers_of(result) ==
        "  - conv: {name: \"ConvTranspose_y\", in: [3, 11, 11], out: 5, kernel: 4, bias: true}\n"
        "  - concat: {name: \"ConvTranspose_y_placed\", out: [5, 16, 16]}\n"
        "  - relu: {name: \"Relu_z\"}\n");
  CHECK(result.model.totals.forward_work == flops(30720));
  CHECK(result.model.parameters() == 245);
  // Groups: 3 groups of one channel each make 2 outputs each.
  const auto grouped =
      imported({{node("ConvTranspose", {"x", "w"}, {"y"}, {integer("group", 3), ints("strides", {2, 2})})},
                {weight("w", {3, 2, 2, 2})},
                {kImage}});
  CHECK_THAT(layers_of(grouped), Contains("out: 6, kernel: 2, groups: 3}") && Contains("out: [6, 16, 16]"));
  CHECK(grouped.model.totals.forward_work == flops(2 * 64 * 3 * 2 * 4));
  CHECK_THAT(error_of({{node("ConvTranspose", {"x", "w"}, {"y"})}, {weight("w", {4, 5, 2, 2})}, {kImage}}),
             Contains("do not fit"));
  CHECK_THAT(error_of({{node("ConvTranspose", {"x", "w"}, {"y"}, {ints("output_shape", {9})})},
                       {weight("w", {3, 5, 2, 2})},
                       {kImage}}),
             Contains("output_shape"));
}

TEST_CASE("windows over three sizes: FLOPs, parameters and outputs are exact") {
  // [2, 4, 8, 8] by kernel [3, 3, 3], stride [1, 2, 2], pads 1: out [4, 4, 4]; 6 * 2 * 27 = 324 weights,
  // 2 * 324 * 64 = 41,472 FLOPs; pooled by 2 to [2, 2, 2], normed: 12; over all to 6.
  const auto result =
      imported({{node("Conv", {"x", "w"}, {"y"}, {ints("strides", {1, 2, 2}), ints("pads", {1, 1, 1, 1, 1, 1})}),
                 node("BatchNormalization", {"y", "s", "b", "m", "v"}, {"n"}),
                 node("MaxPool", {"n"}, {"p"}, {ints("kernel_shape", {2, 2, 2}), ints("strides", {2, 2, 2})}),
                 node("Relu", {"p"}, {"r"}), node("GlobalAveragePool", {"r"}, {"g"})},
                {weight("w", {6, 2, 3, 3, 3}), weight("s", {6}), weight("b", {6}), weight("m", {6}), weight("v", {6})},
                {value_info("x", {-1, 2, 4, 8, 8})}});
  CHECK(result.model.totals.forward_work == flops(41472));
  CHECK(result.model.parameters() == 324 + 12);
  CHECK(result.model.layers[0].output_elements == 6 * 4 * 4 * 4);
  CHECK(result.model.layers[2].output_elements == 6 * 2 * 2 * 2);
  CHECK(result.model.layers[3].forward_elements == 2 * 6 * 8);
  CHECK_THAT(result.model.notes, Contains("three sizes"));
  const std::string video = value_info("x", {-1, 2, 4, 8, 8});
  CHECK_THAT(error_of({{node("Conv", {"x", "w"}, {"y"})}, {weight("w", {6, 3, 3, 3, 3})}, {video}}),
             Contains("do not fit"));
  CHECK_THAT(error_of({{node("Conv", {"x", "w"}, {"y"})}, {weight("w", {6, 2, 5, 3, 3})}, {video}}),
             Contains("larger than the padded input"));
  CHECK_THAT(error_of({{node("MaxPool", {"x"}, {"y"}, {ints("kernel_shape", {2, 2})})}, {}, {video}}),
             Contains("3 spatial dimensions"));
  CHECK_THAT(error_of({{node("MaxPool", {"x"}, {"y"}, {ints("kernel_shape", {1, 1, 1, 1})})},
                       {},
                       {value_info("x", {-1, 2, 4, 8, 8, 8})}}),
             Contains("one, two or three spatial dimensions"));
}

TEST_CASE("operator sets before 7 say by axis where an operand goes") {
  // [N, 3, 8, 8] * [3] from axis 1 on: a parameter of 3 values.
  const auto result = imported(
      {{node("Mul", {"x", "w"}, {"y"}, {integer("broadcast", 1), integer("axis", 1)})}, {weight("w", {3})}, {kImage}});
  CHECK(result.model.parameters() == 3);
  CHECK_THAT(layers_of(result), Contains("multiply"));
  CHECK_THAT(error_of({{node("Mul", {"x", "w"}, {"y"}, {integer("broadcast", 1), integer("axis", 2)})},
                       {weight("w", {3})},
                       {kImage}}),
             Contains("do not fit"));
  CHECK_THAT(error_of({{node("Mul", {"x", "w"}, {"y"}, {integer("broadcast", 1), integer("axis", 3)})},
                       {weight("w", {8, 8})},
                       {kImage}}),
             Contains("from axis 3 on"));
  // Without axis a suffix is meant, as ever.
  CHECK(imported({{node("Mul", {"x", "w"}, {"y"}, {integer("broadcast", 1)})}, {weight("w", {8})}, {kImage}})
            .model.parameters() == 8);
}

TEST_CASE("a classifier: pool, reshape by a stored shape, and a linear with bias in both spellings") {
  // [N, 3, 8, 8] -> [N, 3, 1, 1] -> [N, 3] -> 5 -> 7. Weights 3*5 + 5 + 5*7 + 7 = 62.
  const auto result = imported(
      {{node("GlobalAveragePool", {"x"}, {"p"}), node("Reshape", {"p", "shape"}, {"r"}),
        node("Gemm", {"r", "w", "b"}, {"y"}, {integer("transB", 1)}), node("MatMul", {"y", "v"}, {"m"}),
        node("Add", {"c", "m"}, {"z"}), node("Softmax", {"z"}, {"s"})},
       {numbers("shape", {0, -1}), weight("w", {5, 3}), weight("b", {5}), weight("v", {5, 7}), weight("c", {7})},
       {kImage}});
  CHECK(layers_of(result) ==
        "  - global_avgpool: {name: \"GlobalAveragePool_p\"}\n"
        "  - flatten: {name: \"Reshape_r\", in: [3, 1, 1]}\n"
        "  - linear: {name: \"Gemm_y\", out: 5}\n"
        "  - linear: {name: \"MatMul_m\", out: 7}\n"
        "  - softmax: {name: \"Softmax_s\"}\n");
  CHECK(result.model.parameters() == 62);
}

TEST_CASE("a weight that is used twice is one parameter") {
  const auto result = imported({{node("MatMul", {"x", "w"}, {"y"}), node("Relu", {"y"}, {"r"}),
                                 node("Transpose", {"w"}, {"t"}), node("MatMul", {"r", "t"}, {"z"})},
                                {weight("w", {4, 6})},
                                {value_info("x", {-1, 4})}});
  CHECK_THAT(layers_of(result), Contains("\"MatMul_y\", out: 6, bias: false}") &&
                                    Contains("\"MatMul_z\", out: 4, bias: false, tied: true}"));
  CHECK(result.model.parameters() == 24);
}

TEST_CASE("tokens, a table and heads: a small transformer's parts") {
  // ids [N, s] with s = 4 -> [N, 4, 6]; two heads of 3: q [N, 2, 4, 3] by k [N, 2, 3, 4]: 2 products of 4 x 3 x 4.
  const OnnxGraph graph{
      {node("Gather", {"table", "ids"}, {"e"}), node("LayerNormalization", {"e", "g", "h"}, {"n"}),
       node("Reshape", {"n", "split"}, {"r"}), node("Transpose", {"r"}, {"q"}, {ints("perm", {0, 2, 1, 3})}),
       node("Transpose", {"r"}, {"k"}, {ints("perm", {0, 2, 3, 1})}), node("MatMul", {"q", "k"}, {"a"}),
       node("Softmax", {"a"}, {"s"})},
      {weight("table", {50, 6}), weight("g", {6}), weight("h", {6}), numbers("split", {0, 0, 2, 3})},
      {value_info("ids", {-1, -1}, 7)}};
  const auto result = imported(graph, {.id = {}, .batch = 16, .dimensions = {{"d1", 4}}, .unknown = {}});
  CHECK(layers_of(result) ==
        "  - embedding: {name: \"Gather_e\", rows: 50, width: 6, lookups: 4, out: [4, 6]}\n"
        "  - layernorm: {name: \"LayerNormalization_n\"}\n"
        "  - concat: {name: \"Transpose_q\", out: [2, 4, 3]}\n"
        "  - concat: {name: \"Transpose_k\", out: [2, 3, 4]}\n"
        "  - matmul: {name: \"MatMul_a\", products: 2, rows: 4, inner: 3, columns: 4, out: [2, 4, 4]}\n"
        "  - softmax: {name: \"Softmax_s\"}\n");
  CHECK(result.model.totals.forward_work == flops(2 * 2 * 4 * 3 * 4));
  CHECK(result.model.parameters() == 312);
  CHECK(result.model.batch == 16);
  CHECK(result.model.input_per_sample == bytes(32));  // 4 int64
  CHECK_THAT(error_of(graph),
             Contains("dimension 1 of the input 'ids' is open ('d1')") && Contains("--dim \"d1=128\""));
  CHECK_THAT(error_of(graph, {.id = {}, .batch = {}, .dimensions = {{"d9", 4}, {"d1", 4}}, .unknown = {}}),
             Contains("no open dimension 'd9'"));
}

TEST_CASE("a stored batch is taken out of every shape") {
  // Four samples: [4, 3, 8, 8] -> [4, 192] by numbers of the file; one sample has 192 inputs, 2 * 192 * 5 FLOPs.
  const auto result = imported({{node("Reshape", {"x", "shape"}, {"r"}), node("MatMul", {"r", "w"}, {"y"})},
                                {numbers("shape", {4, 192}), weight("w", {192, 5})},
                                {value_info("x", {4, 3, 8, 8})}});
  CHECK(result.model.batch == 4);
  CHECK(result.model.input_per_sample == bytes(768));
  CHECK(result.model.totals.forward_work == flops(1920));
}

TEST_CASE("element-wise operators: two activations, a constant, a trained operand") {
  const auto result = imported(
      {{node("Add", {"x", "x"}, {"a"}), node("Mul", {"a", "two"}, {"m"}), node("Add", {"m", "position"}, {"p"})},
       {weight("two", {}), weight("position", {1, 4, 6})},
       {value_info("x", {-1, 4, 6})}});
  CHECK(layers_of(result) ==
        "  - add: {name: \"Add_a\"}\n"
        "  - scale: {name: \"Mul_m\"}\n"
        "  - embedding: {name: \"Add_p_parameter\", rows: 4, width: 6, lookups: 4}\n"
        "  - add: {name: \"Add_p\"}\n");
  CHECK(result.model.parameters() == 24);
}

TEST_CASE("shapes worked out from Shape, Gather and Concat") {
  const auto result = imported({{node("Shape", {"x"}, {"s"}), node("Gather", {"s", "one"}, {"c"}),
                                 node("Concat", {"minus", "c"}, {"t"}, {integer("axis", 0)}),
                                 node("Reshape", {"x", "t"}, {"r"}), node("MatMul", {"r", "w"}, {"y"})},
                                {numbers("one", {2}), numbers("minus", {-1}), weight("w", {6, 2})},
                                {value_info("x", {-1, 4, 6})}});
  CHECK(layers_of(result) == "  - linear: {name: \"MatMul_y\", out: 2, bias: false}\n");
  CHECK(result.model.totals.forward_work == flops(2 * 4 * 6 * 2));
}

TEST_CASE("an operator without a rule is an error, or assumed and noted") {
  const OnnxGraph graph{{node("Frobnicate", {"x"}, {"y"}), node("Relu", {"y"}, {"z"})}, {}, {kImage}};
  CHECK_THAT(error_of(graph), Contains("made.onnx") && Contains("node 'Frobnicate_y' (Frobnicate): no rule") &&
                                  Contains("--unknown assumed") && Contains("BatchNormalization, Cast"));
  const auto result = imported(graph, {.id = {}, .batch = {}, .dimensions = {}, .unknown = UnknownOperator::kAssumed});
  CHECK(layers_of(result) == "  - scale: {name: \"Frobnicate_y\"}\n  - relu: {name: \"Relu_z\"}\n");
  CHECK_THAT(result.model.notes, Contains("assumed: node 'Frobnicate_y' (Frobnicate)") && Contains("[3, 8, 8]"));
  // Where the file says what comes out, that is its size: 2*2*2 elements in, as many out.
  OnnxGraph declared = graph;
  declared.known = {value_info("y", {-1, 2, 2, 2})};
  const auto sized =
      imported(declared, {.id = {}, .batch = {}, .dimensions = {}, .unknown = UnknownOperator::kAssumed});
  CHECK(sized.model.layers[0].forward_elements == 16);
}

TEST_CASE("nodes in any order, but no cycle and no loose end") {
  const std::string conv = node("Conv", {"x", "w"}, {"y"});
  const std::string relu = node("Relu", {"y"}, {"z"});
  CHECK(layers_of(imported({{relu, conv}, {weight("w", {1, 3, 1, 1})}, {kImage}})) ==
        layers_of(imported({{conv, relu}, {weight("w", {1, 3, 1, 1})}, {kImage}})));
  CHECK_THAT(
      error_of(
          {{node("Add", {"x", "b"}, {"a"}), node("Relu", {"a"}, {"b"}), node("Relu", {"b"}, {"c"})}, {}, {kImage}}),
      Contains("cycle through node 'Add_a' (Add)") || Contains("cycle through node 'Relu_b' (Relu)"));
  CHECK_THAT(error_of({{node("Relu", {"nowhere"}, {"y"})}, {}, {kImage}}),
             Contains("node 'Relu_y' (Relu) reads 'nowhere', which no node"));
  CHECK_THAT(error_of({{node("Relu", {"x"}, {"y"}), node("Tanh", {"x"}, {"y"})}, {}, {kImage}}),
             Contains("node 'Tanh_y' (Tanh) makes 'y'") && Contains("also made by node 'Relu_y'"));
}

TEST_CASE("sizes that cannot be are refused by name") {
  const auto conv_with = [](const Sizes& dims) {
    return error_of({{node("Conv", {"x", "w"}, {"y"})}, {weight("w", dims)}, {kImage}});
  };
  CHECK_THAT(conv_with({std::int64_t{1} << 40, std::int64_t{1} << 40}), Contains("'w' has over 2^53 elements"));
  CHECK_THAT(conv_with({4, -3, 3, 3}), Contains("'w' has a negative size: [4, -3, 3, 3]"));
  CHECK_THAT(conv_with({4, 5, 3, 3}), Contains("node 'Conv_y' (Conv): weights [4, 5, 3, 3] do not fit"));
  CHECK_THAT(conv_with({4, 3, 9, 9}), Contains("window is larger than the padded input"));
  CHECK_THAT(conv_with({4, 0, 0, 0}), Contains("do not fit"));
  CHECK_THAT(error_of({{node("Relu", {"x"}, {"y"})}, {}, {value_info("x", {1, std::int64_t{1} << 60})}}),
             Contains("dimension 1 of the input 'x' is 1152921504606846976"));
  CHECK_THAT(error_of({{node("Reshape", {"x", "s"}, {"y"})}, {numbers("s", {7, 5})}, {kImage}}),
             Contains("cannot have the shape [7, 5]"));
  CHECK_THAT(error_of({{node("Relu", {"x"}, {"y"})}, {}, {}}), Contains("reads 'x'"));
  CHECK_THAT(error_of({{node("Constant", {}, {"y"}, {integer("value_int", 3)})}, {}, {kImage}}),
             Contains("computes nothing"));
}

TEST_CASE("a weight's data is not needed, and values after it are") {
  // raw_data (field 9) of a weight is passed over; so is data elsewhere (data_location 1).
  const std::string raw = weight("w", {4, 3, 1, 1}) + field(9, std::string(48, '\xFF'));
  const std::string external = weight("w", {4, 3, 1, 1}) + field(14, std::int64_t{1});
  for (const std::string& tensor : {raw, external}) {
    CHECK(imported({{node("Conv", {"x", "w"}, {"y"})}, {tensor}, {kImage}}).model.parameters() == 12);
  }
}

TEST_CASE("an id is made of the file's name") {
  CHECK(id_from_file("a/ResNet-50 (v1).onnx") == "resnet_50_v1");
  CHECK(id_from_file("---.onnx").empty());
}

TEST_CASE("light models of the ONNX backend tests have the parameters their papers and sources give") {
  struct Sample {
    const char* name;
    std::int64_t parameters;
    double gigaflops;
  };
  // AlexNet: bvlc_alexnet.caffemodel, grouped; Inception v1: bvlc_googlenet; ResNet-50, VGG-19, SqueezeNet 1.1:
  // torchvision's num_params. GFLOP: torchvision's GMACs times 2 (4.089, 19.632, 0.349), within 1 %; 0: none given.
  const std::vector<Sample> samples{{"light_bvlc_alexnet", 60965224, 0},
                                    {"light_inception_v1", 6998552, 0},
                                    {"light_resnet50", 25557032, 8.178},
                                    {"light_squeezenet", 1235496, 0.698},
                                    {"light_vgg19", 143667240, 39.264}};
  const std::filesystem::path folder =
      std::filesystem::path(DDLSIM_SOURCE_DATA).parent_path() / "shared" / "data" / "samples" / "onnx";
  if (!std::filesystem::is_directory(folder)) {
    WARN("skipped: " << folder << " is not there");
    return;
  }
  for (const Sample& sample : samples) {
    CAPTURE(sample.name);
    const auto result = import_onnx(folder / (std::string(sample.name) + ".onnx"), {});
    REQUIRE(result);
    CHECK(result->model.parameters() == sample.parameters);
    CHECK(result->trained_elements == sample.parameters);
    if (sample.gigaflops > 0) {
      CHECK(result->model.totals.forward_work.in(gigaflops) == Approx(sample.gigaflops).epsilon(0.01));
    }
  }
}
