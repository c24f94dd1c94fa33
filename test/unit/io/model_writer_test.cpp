// Model files as text: what is written is what `read_model` reads.
#include "ddlsim/io/model_writer.h"

#include <catch2/catch.hpp>
#include <string>

#include "ddlsim/io/model_file.h"

namespace {

using namespace ddlsim;
using namespace ddlsim::io;
using Catch::Matchers::Contains;
namespace wl = ddlsim::workload;

ModelDescription description_of(std::vector<DescribedLayer> layers, wl::Shape input) {
  return {.id = "m",
          .name = "a \"name\" with \\ and: #",
          .task = "t",
          .sample = "s",
          .batch = 3,
          .optimizer = wl::Optimizer::kAdam,
          .input_shape = std::move(input),
          .input_per_sample = bytes(48),
          .layers = std::move(layers),
          .sources = {{"layers", "here"}, {"input", "x"}, {"batch", "x"}, {"optimizer", "x"}},
          .notes = "a note: with # and {"};
}

wl::Model read_back(const std::string& text) {
  auto model = parse_yaml(text, "m.yaml").and_then([](const Node& node) { return read_model(node); });
  if (!model) FAIL(to_string(model.error()) << "\n" << text);
  return *model;
}

void check_same(const wl::Layer& a, const wl::Layer& b) {
  CHECK(a.name == b.name);
  CHECK(a.forward_work == b.forward_work);
  CHECK(a.backward_work == b.backward_work);
  CHECK(a.forward_elements == b.forward_elements);
  CHECK(a.backward_elements == b.backward_elements);
  CHECK(a.saved_elements == b.saved_elements);
  CHECK(a.forward_weight_elements == b.forward_weight_elements);
  CHECK(a.backward_weight_elements == b.backward_weight_elements);
  CHECK(a.forward_kernels == b.forward_kernels);
  CHECK(a.backward_kernels == b.backward_kernels);
  CHECK(a.parameters == b.parameters);
  CHECK(a.sparse_gradient == b.sparse_gradient);
  CHECK(a.sparse_elements == b.sparse_elements);
}

std::string message_of(const ModelDescription& description) {
  const auto text = write_model(description);
  return text ? std::string() : to_string(text.error());
}

}  // namespace

TEST_CASE("a layer is written with the keys that are not at their defaults") {
  const auto text = write_model(description_of(
      {{"conv", wl::Convolution{.out = 64, .kernel = {7, 7}, .stride = {2, 2}, .pad = {3, 3}}, "conv1"},
       {"relu", wl::Pointwise{.reads = wl::Reads::kOutput}, "r"},
       {"conv", wl::Convolution{.out = 6, .kernel = {1, 3}, .groups = 3, .bias = true}, "side", {3, 9, 9}}},
      {3, 224, 224}));
  REQUIRE(text);
  CHECK_THAT(*text,
             Contains("  - conv: {name: \"conv1\", out: 64, kernel: 7, stride: 2, pad: 3}\n"
                      "  - relu: {name: \"r\"}\n"
                      "  - conv: {name: \"side\", in: [3, 9, 9], out: 6, kernel: [1, 3], groups: 3, bias: true}\n"));
}

TEST_CASE("every operator comes back as it was written") {
  const ModelDescription description = description_of(
      {{"conv",
        wl::Convolution{
            .out = 6, .kernel = {3, 2}, .stride = {2, 1}, .pad = {1, 0}, .dilation = {2, 1}, .groups = 3, .bias = true},
        "c"},
       {"conv", wl::Convolution{.out = 6, .kernel = {1, 1}, .tied = true}, "tied"},
       {"batchnorm", wl::BatchNorm{}, "b"},
       {"lrn", wl::Pointwise{.reads = wl::Reads::kOutput}, "l"},
       {"dropout", wl::pointwise("dropout"), "d"},
       {"maxpool", wl::Pool{.kernel = {2, 2}, .stride = {2, 2}, .ceil = true}, "p"},
       {"avgpool", wl::Pool{.kernel = {2, 3}, .stride = {1, 1}, .pad = {0, 1}, .average = true}, "q"},
       {"add", wl::Combine{}, "a"},
       {"multiply", wl::Combine{.product = true}, "m"},
       {"global_avgpool", wl::GlobalPool{}, "g"},
       {"concat", wl::Concat{{4, 2, 2}}, "k"},
       {"flatten", wl::Flatten{}, "f"},
       {"linear", wl::Linear{.out = 5}, "lin"},
       {"linear", wl::Linear{.out = 5, .bias = false, .tied = true}, "lin2"},
       {"layernorm", wl::LayerNorm{}, "n"},
       {"embedding", wl::Embedding{.rows = 100, .width = 8, .lookups = 4, .sparse_gradient = true}, "e"},
       {"embedding", wl::Embedding{.rows = 9, .width = 8, .lookups = 4, .out = {2, 2, 8}}, "e2"},
       {"attention", wl::Attention{.heads = 2, .keys = 7}, "at", {4, 8}},
       {"lstm", wl::Lstm{.hidden = 3, .directions = 2}, "ls"},
       {"rmsnorm", wl::RmsNorm{}, "rn", {4, 8}},
       {"silu", wl::pointwise("silu"), "si"},
       {"swiglu", wl::Combine{.product = true, .gated = true}, "sw"},
       {"grouped_attention",
        wl::GroupedAttention{.heads = 4, .kv_heads = 2, .width = 2, .value_width = 3, .window = 5, .causal = true},
        "ga"},
       {"experts", wl::Experts{.experts = 3, .active = 2, .width = 5, .gated = false}, "ex"},
       {"experts", wl::Experts{.experts = 3, .active = 2, .width = 5, .bias = true}, "ex2"},
       {"grouped_attention",
        wl::GroupedAttention{.heads = 4, .width = 2, .causal = true, .chunk = 3, .sinks = true},
        "ga2",
        {4, 8}},
       {"causal_conv", wl::CausalConv{.kernel = 3, .bias = true}, "cc", {8, 14}},
       {"linear_attention", wl::LinearAttention{.heads = 2, .key_heads = 1, .width = 3, .value_width = 4, .chunk = 2},
        "la"},
       {"linear_attention", wl::LinearAttention{.heads = 1, .width = 2, .value_width = 4, .delta = true}, "ld"},
       {"index_scores", wl::IndexScores{.heads = 2, .width = 2, .keep = 3}, "is", {4, 4}},
       {"index_scores", wl::IndexScores{.heads = 2, .width = 2, .keep = 3, .pooled = 2}, "is2", {4, 4}},
       {"grouped_attention",
        wl::GroupedAttention{
            .heads = 4, .kv_heads = 1, .width = 2, .window = 3, .causal = true, .pooled = 2, .pooled_keep = 1},
        "ga3",
        {8, 8}},
       {"linear", wl::Linear{.out = 4, .bias = false, .groups = 2, .whole = true}, "lin3"},
       {"host", wl::HostWork{milliseconds(1.5)}, "ho"},
       {"matmul", wl::MatMul{.rows = 2, .inner = 3, .columns = 4, .products = 5, .out = {5, 2, 4}}, "mm"}},
      {3, 16, 16});
  const auto text = write_model(description);
  REQUIRE(text);
  const auto built = build_model(description);
  REQUIRE(built);
  const wl::Model read = read_back(*text);
  CHECK(read.id == built->id);
  CHECK(read.name == built->name);
  CHECK(read.notes == built->notes);
  CHECK(read.batch == 3);
  CHECK(read.optimizer == wl::Optimizer::kAdam);
  CHECK(read.input_per_sample == bytes(48));
  REQUIRE(read.sources.size() == 4);
  CHECK(read.sources[0].text == "here");
  REQUIRE(read.layers.size() == description.layers.size());
  for (std::size_t i = 0; i < read.layers.size(); ++i) {
    CAPTURE(description.layers[i].name);
    check_same(read.layers[i], built->layers[i]);
  }
  CHECK(read.parameters() == built->parameters());
}

TEST_CASE("a dilated convolution covers more and computes the same; a tied one has no parameters") {
  // Kernel 3 at dilation 2 covers 5: on [2, 8, 8], 4 x 4 outputs. 2 * (4 * 2 * 9) * 16 = 2304 FLOPs, 72 weights.
  const auto model = build_model(description_of(
      {{"conv", wl::Convolution{.out = 4, .kernel = {3, 3}, .dilation = {2, 2}}, "c"},
       {"conv", wl::Convolution{.out = 4, .kernel = {3, 3}, .dilation = {2, 2}, .tied = true}, "t", {2, 8, 8}}},
      {2, 8, 8}));
  REQUIRE(model);
  CHECK(model->layers[0].forward_work == flops(2304));
  CHECK(model->layers[1].forward_work == flops(2304));
  CHECK(model->parameters() == 72);
}

TEST_CASE("several products of one size count as often") {
  // 5 products of [2, 3] by [3, 4]: 5 * 2*2*3*4 = 240 FLOPs; 5 * (6 + 12 + 8) = 130 elements.
  const auto model = build_model(description_of(
      {{"matmul", wl::MatMul{.rows = 2, .inner = 3, .columns = 4, .products = 5, .out = {5, 2, 4}}, "m"}}, {1}));
  REQUIRE(model);
  CHECK(model->layers[0].forward_work == flops(240));
  CHECK(model->layers[0].forward_elements == 130);
}

TEST_CASE("what is no model is refused, and the layer named") {
  CHECK_THAT(message_of(description_of({}, {3})), Contains("at least one layer"));
  CHECK_THAT(message_of(description_of({{"relu", wl::Combine{}, "x"}}, {3})),
             Contains("layer 1 'x' (relu): the word does not stand for this operator") && Contains("add"));
  CHECK_THAT(message_of(description_of({{"conv", wl::Convolution{.out = 1}, "x"}}, {3})),
             Contains("layer 1 'x' (conv): conv cannot take an input of shape [3]"));
}

TEST_CASE("lines that come again are written once, and read as often") {
  std::vector<DescribedLayer> layers;
  for (int i = 0; i < 5; ++i) {
    layers.push_back({"linear", wl::Linear{.out = 8}, "up"});
    layers.push_back({"gelu", wl::pointwise("gelu"), "act", {}, true});
    layers.push_back({"rmsnorm", wl::RmsNorm{}, "norm", {4, 2, 4}, true});
    layers.push_back({"linear", wl::Linear{.out = 8}, "down", {4, 8}, true});
  }
  ModelDescription description = description_of(layers, {4, 8});
  description.rows_name = "sequence";
  description.sources.push_back({"dimensions", "x"});
  const auto text = write_model(description);
  REQUIRE(text);
  CHECK_THAT(*text, Contains("  - repeat:\n      times: 5\n      layers:\n        - linear: {name: \"up\", out: 8}\n"));
  CHECK_THAT(*text, Contains("in: [sequence, 2, 4]") && Contains("dimensions: {sequence: 4}"));
  const wl::Model read = read_back(*text);
  const auto built = build_model(description);
  REQUIRE(built);
  REQUIRE(read.layers.size() == 20);
  for (std::size_t i = 0; i < 20; ++i) check_same(read.layers[i], built->layers[i]);
}
