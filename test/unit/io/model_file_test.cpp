// Model files: elaboration of layers, and every way in which a file can be wrong.
#include "ddlsim/io/model_file.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace {

using namespace ddlsim;
using namespace ddlsim::io;
using Catch::Matchers::Contains;
using Lines = std::vector<std::string>;

/// A model whose `layers:` start on line 9 and whose input has the given shape.
std::string file_of(const std::string& layers, const std::string& shape = "[4]", const std::string& more = {}) {
  return "model: m\nname: M\ntask: t\nsample: s\nbatch: 2\noptimizer: sgd\ninput: {shape: " + shape +
         ", bytes: 16 B}\nsources: {layers: x, input: x, batch: x, optimizer: x" +
         (more.empty() ? "" : ", " + more.substr(0, more.find(':')) + ": x") + "}\nlayers:\n" + layers + more;
}

Expected<workload::Model> load(const std::string& text, const Dimensions& dimensions = {}) {
  return parse_yaml(text, "m.yaml").and_then([&](const Node& node) { return read_model(node, dimensions); });
}

workload::Model loaded(const std::string& text, const Dimensions& dimensions = {}) {
  auto model = load(text, dimensions);
  if (!model) FAIL(to_string(model.error()));
  return *model;
}

/// "line:column message" of every error.
Lines faults(const std::string& text, const Dimensions& dimensions = {}) {
  const auto model = load(text, dimensions);
  if (model) return {};
  Lines lines;
  const auto add = [&](const Error& error) {
    lines.push_back(std::to_string(error.where.line) + ":" + std::to_string(error.where.column) + " " + error.message);
  };
  add(model.error());
  for (const Error& error : model.error().also) add(error);
  return lines;
}

std::string said(const std::string& text, const Dimensions& dimensions = {}) {
  const auto model = load(text, dimensions);
  return model ? std::string() : to_string(model.error());
}

std::string repeated(const std::string& times, const std::string& layers) {
  return "  - repeat: {times: " + times + ", layers: [" + layers + "]}\n";
}

constexpr const char* kFeatures =
    "model: m\nname: M\ntask: t\nsample: s\nbatch: 4\noptimizer: adam\nsources: {batch: x, optimizer: x, features: x}\n"
    "features:\n  flops: 2 TFLOP\n  memory_access: 30 GB\n  input: 8 MB\n  weight_traffic: 1 GB\n  dense_weights: 2 "
    "GB\n"
    "  embedding_weights: 0 B\n  architecture: ps-worker\n";

}  // namespace

TEST_CASE("model_file: layers become parameters and FLOPs", "[unit][io]") {
  const workload::Model model = loaded(file_of("  - linear: {name: fc, out: 3}\n  - relu: {}\n"));
  CHECK(model.id == "m");
  CHECK(model.batch == 2);
  CHECK(model.optimizer == workload::Optimizer::kSgd);
  CHECK(model.input_per_sample == bytes(16));
  REQUIRE(model.layers.size() == 2);
  CHECK(model.layers[0].name == "fc");
  CHECK(model.layers[1].name == "relu_2");
  CHECK(model.parameters() == 15);                     // 4 * 3 + 3
  CHECK(model.totals.forward_work.in(flops) == 24.0);  // 2 * 4 * 3
  CHECK(model.sources.size() == 4);
}

TEST_CASE("model_file: layers before the one that is trained first are frozen", "[unit][io]") {
  const std::string layers =
      "  - conv: {name: stem, out: 8, kernel: 3}\n  - frozen_batchnorm: {}\n  - relu: {}\n"
      "  - conv: {name: body, out: 4, kernel: 1}\n  - batchnorm: {}\n";
  const workload::Model all = loaded(file_of(layers, "[3, 8, 8]"));
  CHECK(all.totals.frozen_parameters == 0);
  CHECK(all.layers[0].saved_elements == 0);  // frozen norms read nothing in backward
  const workload::Model part = loaded(file_of(layers, "[3, 8, 8]", "trained_from: body\n"));
  CHECK(part.totals.frozen_parameters == 3 * 8 * 9);
  CHECK(part.parameters() == all.parameters());
  CHECK(part.totals.backward_work < all.totals.backward_work);
  CHECK_THAT(said(file_of(layers, "[3, 8, 8]", "trained_from: bdy\n")), Contains("no layer is named 'bdy'"));
  CHECK_THAT(said(file_of(layers, "[3, 8, 8]", "trained_from: bdy\n")), Contains("body"));
}

TEST_CASE("model_file: repeat writes its layers out", "[unit][io]") {
  const workload::Model model = loaded(file_of(repeated("3", "linear: {out: 4}, relu: {}")));
  CHECK(model.layers.size() == 6);  // 3 * 2
  CHECK(model.parameters() == 60);  // 3 * (4 * 4 + 4)
  const workload::Model nested =
      loaded(file_of("  - repeat:\n      times: 2\n      layers:\n        - linear: {out: 4, bias: false}\n"
                     "        - repeat: {times: 3, layers: [tanh: {}]}\n"));
  CHECK(nested.layers.size() == 8);  // 2 * (1 + 3)
  CHECK(nested.parameters() == 32);  // 2 * 4 * 4
}

TEST_CASE("model_file: repeats that are no repeats", "[unit][io]") {
  CHECK(faults(file_of(repeated("0", "relu: {}"))) == Lines{"10:21 '0' is out of range"});
  CHECK(faults(file_of(repeated("-1", "relu: {}"))).size() == 1);
  CHECK(faults(file_of("  - repeat: {layers: [relu: {}]}\n")) == Lines{"10:13 repeat needs the key 'times'"});
  CHECK(faults(file_of("  - repeat: {times: 2}\n")) == Lines{"10:13 repeat needs the key 'layers'"});
  CHECK(faults(file_of("  - repeat: {times: 2, layers: []}\n")) ==
        Lines{"10:32 layers must be a list with at least one layer"});
  // A fault inside is named once, not once a time.
  CHECK(faults(file_of(repeated("50", "relo: {}"))) == Lines{"10:34 unknown operator 'relo'"});
}

TEST_CASE("model_file: sizes may be names of dimensions", "[unit][io]") {
  const std::string text =
      file_of("  - linear: {out: width, bias: false}\n", "[sequence, 4]", "dimensions: {sequence: 8, width: 3}\n");
  CHECK(loaded(text).totals.forward_work.in(flops) == 192.0);                                    // 2 * 8 * 4 * 3
  CHECK(loaded(text, {{"sequence", 16}}).totals.forward_work.in(flops) == 384.0);                // 2 * 16 * 4 * 3
  CHECK(loaded(text, {{"sequence", 16}, {"width", 1}}).totals.forward_work.in(flops) == 128.0);  // 2 * 16 * 4 * 1
  const workload::Model model = loaded(text, {{"sequence", 16}});
  REQUIRE(model.dimensions.size() == 2);
  CHECK(model.dimensions[0].second == 16);
  CHECK(model.dimensions[1].second == 3);
}

TEST_CASE("model_file: sizes may be products and parts of dimensions", "[unit][io]") {
  const auto text = [](const std::string& shape) {
    return file_of("  - linear: {out: width, bias: false}\n", shape, "dimensions: {side: 8, width: 3}\n");
  };
  CHECK(loaded(text("[side*side/4, 4]")).totals.forward_work.in(flops) == 384.0);                // 2 * 16 * 4 * 3
  CHECK(loaded(text("[side*side/4, 4]"), {{"side", 4}}).totals.forward_work.in(flops) == 96.0);  // 2 * 4 * 4 * 3
  CHECK(loaded(text("[2*side, side/2]")).totals.forward_work.in(flops) == 384.0);                // 2 * 16 * 4 * 3
  CHECK_THAT(said(text("[side/2, 4]"), {{"side", 5}}), Contains("'side/2' is no whole number: 5 / 2"));
  for (const char* shape :
       {"[sid/2, 4]", "[side/0, 4]", "[side//2, 4]", "[side*, 4]", "[side/, 4]", "[side*281474976710656, 4]"}) {
    CAPTURE(shape);
    CHECK_THAT(said(text(shape)), Contains("is no product of numbers and dimensions of the model"));
  }
}

TEST_CASE("model_file: a Hugging Face config is told from a model file", "[unit][io]") {
  const auto read = parse_yaml(R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama"})", "config.json")
                        .and_then([](const Node& node) { return read_model(node, {}); });
  REQUIRE_FALSE(read);
  CHECK(read.error().message == "this is a Hugging Face config, no model file");
  CHECK(read.error().notes.front() == "ddlsim import hf makes one of it");
}

TEST_CASE("model_file: dimensions nobody has are refused", "[unit][io]") {
  const std::string text = file_of("  - relu: {}\n", "[sequence]", "dimensions: {sequence: 8}\n");
  CHECK_THAT(said(text, {{"sequnce", 16}}), Contains("the model has no dimension 'sequnce'") && Contains("'sequence'"));
  CHECK_THAT(said(file_of("  - relu: {}\n"), {{"sequence", 16}}), Contains("none that can be changed"));
  // A size that is neither a number nor a dimension: both are offered.
  CHECK_THAT(said(file_of("  - relu: {}\n", "[sequnce]", "dimensions: {sequence: 8}\n")),
             Contains("m.yaml:7:17: error: 'sequnce' is not a whole number") && Contains("sequence"));
  CHECK(faults(file_of("  - relu: {}\n", "[4]", "dimensions: {sequence: 0}\n")).size() == 1);
}

TEST_CASE("model_file: an override is checked as the file's own value is", "[unit][io]") {
  const std::string text = file_of("  - relu: {}\n", "[sequence]", "dimensions: {sequence: 8}\n");
  CHECK_FALSE(load(text, {{"sequence", 0}}).has_value());
  CHECK_FALSE(load(text, {{"sequence", -8}}).has_value());
}

TEST_CASE("model_file: an unknown operator offers the nearest", "[unit][io]") {
  const std::string text = file_of("  - relu: {}\n  - cnov: {out: 4, kernel: 3}\n");
  CHECK(faults(text) == Lines{"11:5 unknown operator 'cnov'"});
  CHECK_THAT(said(text), Contains("'conv'"));
  CHECK(load(text).error().code == ErrorCode::kUnsupported);
}

TEST_CASE("model_file: shapes that do not fit are refused at the operator", "[unit][io]") {
  CHECK(faults(file_of("  - conv: {out: 8, kernel: 3}\n")) == Lines{"10:5 conv cannot take an input of shape [4]"});
  CHECK_THAT(said(file_of("  - conv: {out: 8, kernel: 5}\n", "[3, 4, 4]")),
             Contains("m.yaml:10:5:") && Contains("[3, 4, 4]") && Contains("the kernel is larger"));
  CHECK_THAT(said(file_of("  - conv: {out: 8, kernel: 1, groups: 2}\n", "[3, 4, 4]")),
             Contains("m.yaml:10:5:") && Contains("2 groups"));
  CHECK(faults(file_of("  - maxpool: {kernel: 2}\n")).size() == 1);
  CHECK(faults(file_of("  - attention: {heads: 2}\n")).size() == 1);
  CHECK(faults(file_of("  - lstm: {hidden: 2}\n", "[2, 3, 4]")).size() == 1);
  CHECK(faults(file_of("  - relu: {}\n", "[]")) == Lines{"7:16 a shape is a list of sizes, as [3, 224, 224]"});
}

TEST_CASE("model_file: sizes of 2^40 are counted exactly", "[unit][io]") {
  const workload::Model model = loaded(file_of("  - linear: {out: 1099511627776, bias: false}\n", "[1]"));
  CHECK(model.parameters() == std::int64_t{1} << 40);
  CHECK(model.totals.forward_work.in(flops) == 2199023255552.0);  // 2 * 2^40
}

TEST_CASE("model_file: counts that overflow are refused, never wrapped", "[unit][io]") {
  // 2^40 * 2^40 = 2^80
  CHECK_THAT(said(file_of("  - linear: {out: 1099511627776}\n", "[1099511627776]")),
             Contains("m.yaml:10:5:") && Contains("exceeds 2^53"));
  CHECK_THAT(said(file_of("  - relu: {}\n", "[1099511627776, 1099511627776]")), Contains("exceeds 2^53"));
  // 2^48 is the largest size; 2^48 + 1 is refused where it stands.
  CHECK(faults(file_of("  - linear: {out: 281474976710657}\n", "[1]")) ==
        Lines{"10:19 '281474976710657' is out of range"});
  CHECK(faults(file_of("  - linear: {out: 99999999999999999999}\n")).size() == 1);
}

TEST_CASE("model_file: totals that overflow are refused", "[unit][io]") {
  // Weights of 2^25 * 2^25 = 2^50 each: 2^12 of them are 2^62, one more is too much.
  const std::string layer = "linear: {out: 33554432, bias: false}";
  CHECK(loaded(file_of(repeated("4096", layer), "[33554432]")).parameters() == std::int64_t{1} << 62);
  CHECK(faults(file_of(repeated("4097", layer), "[33554432]")) ==
        Lines{"10:3 the model's totals exceed 2^62 elements"});
}

TEST_CASE("model_file: as many layers as the limit says, and no more", "[unit][io]") {
  CHECK(loaded(file_of(repeated("99999", "relu: {}"))).layers.size() == 99'999);
  STATIC_REQUIRE(kMaxLayers == 100'000);
  CHECK(said(file_of(repeated("100000", "relu: {}"))) == "");
  CHECK_THAT(said(file_of(repeated("50001", "relu: {}, tanh: {}"))),
             Contains("m.yaml:10:") && Contains("100000 layers"));
  CHECK_THAT(said(file_of(repeated("90000", "repeat: {times: 90000, layers: [relu: {}]}"))), Contains("100000 layers"));
}

TEST_CASE("model_file: negative sizes and zeros are refused where they stand", "[unit][io]") {
  CHECK(faults(file_of("  - linear: {out: -3}\n")) == Lines{"10:19 '-3' is out of range"});
  CHECK(faults(file_of("  - linear: {out: 0}\n")) == Lines{"10:19 '0' is out of range"});
  CHECK(faults(file_of("  - relu: {}\n", "[3, -4]")) == Lines{"7:20 '-4' is out of range"});
  CHECK(faults(file_of("  - conv: {out: 1, kernel: 1, stride: 0}\n", "[1, 4, 4]")) ==
        Lines{"10:39 '0' is out of range"});
  CHECK(faults(file_of("  - conv: {out: 1, kernel: 1, pad: -1}\n", "[1, 4, 4]")).size() == 1);
  CHECK(loaded(file_of("  - conv: {out: 1, kernel: 1, pad: 0}\n", "[1, 4, 4]")).layers.size() == 1);
}

TEST_CASE("model_file: keys of an operator", "[unit][io]") {
  CHECK(faults(file_of("  - linear: {out: 4, bais: false}\n")) == Lines{"10:22 unknown key 'bais' in linear"});
  CHECK(faults(file_of("  - linear: {}\n")) == Lines{"10:13 linear needs the key 'out'"});
  CHECK(faults(file_of("  - relu\n")).size() == 1);
  CHECK(faults(file_of("  - {relu: {}, tanh: {}}\n")).size() == 1);
  CHECK(faults(file_of("  - conv: {out: 1, kernel: [1, 2, 3]}\n", "[1, 4, 4]")) ==
        Lines{"10:28 write one size, or two as [height, width]"});
}

TEST_CASE("model_file: all errors of a file at once, in the order of the file", "[unit][io]") {
  const std::string text =
      "modell: m\nname: M\ntask: t\nsample: s\nbatch: 0\noptimizer: sdg\ninput: {shape: [4], bytes: 16}\n"
      "layers:\n  - relo: {}\n  - linear: {out: x}\nmodel: m\nsources: {layers: x, input: x, batch: x}\n";
  CHECK(faults(text) == Lines{"1:1 unknown key 'modell' in a model file", "5:8 '0' is out of range",
                              "6:12 unknown optimizer 'sdg'", "7:28 '16' is not a data size: the unit is missing",
                              "9:5 unknown operator 'relo'", "10:19 'x' is not a whole number",
                              "12:10 sources needs the key 'optimizer'"});
}

TEST_CASE("model_file: a model may be known by its features", "[unit][io]") {
  const workload::Model model = loaded(std::string(kFeatures) + "recalled: [flops, input]\n");
  REQUIRE(model.features.has_value());
  CHECK_FALSE(model.has_layers());
  CHECK(model.features->flops == teraflops(2));
  CHECK(model.features->embedding_weights == DataSize::zero());
  CHECK(model.input_per_sample == megabytes(2));  // 8 MB / 4 samples
  CHECK(model.architecture == workload::Architecture::kPsWorker);
  CHECK(model.recalled == Lines{"flops", "input"});
}

TEST_CASE("model_file: what a features file gets wrong", "[unit][io]") {
  const std::string text = kFeatures;
  CHECK_THAT(said(text + "recalled: [flosp]\n"),
             Contains("m.yaml:16:12: error: 'flosp' is not a feature") && Contains("'flops'"));
  CHECK_THAT(said(text + "recalled: flops\n"), Contains("m.yaml:16:11: error: recalled is a list of feature keys"));
  CHECK_THAT(said(text + "layers: [relu: {}]\n"), Contains("m.yaml:16:1: error: unknown key 'layers'"));
  std::string broken = text;
  CHECK(faults(broken.replace(broken.find("2 TFLOP"), 7, "2 GB")) ==
        Lines{"9:10 '2 GB' is not an amount of work but a data size"});
  broken = text;
  CHECK(faults(broken.replace(broken.find("ps-worker"), 9, "ps-wroker")) ==
        Lines{"15:17 unknown architecture 'ps-wroker'"});
}
