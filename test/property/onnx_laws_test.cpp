// Laws of reading ONNX and writing model files, on random inputs.
#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <string>

#include "ddlsim/importers/onnx_file.h"
#include "ddlsim/io/model_file.h"
#include "unit/importers/onnx_bytes.h"

using namespace ddlsim;
using namespace ddlsim::importers;
using namespace ddlsim::io;
using namespace ddlsim::test;

namespace {

std::int64_t size(std::int64_t lowest, std::int64_t highest) { return *rc::gen::inRange(lowest, highest + 1); }

/// A chain of convolutions, pools, norms and activations, then a classifier; weights in any order of sizes.
struct Chain {
  OnnxGraph graph;
  std::int64_t parameters = 0;
};

Chain random_chain() {
  Chain chain;
  std::int64_t channels = size(1, 6);
  chain.graph.inputs.push_back(value_info("t0", {-1, channels, size(20, 40), size(20, 40)}));
  const std::int64_t length = size(1, 8);
  for (std::int64_t i = 0; i < length; ++i) {
    const std::string in = "t" + std::to_string(i);
    const std::string out = "t" + std::to_string(i + 1);
    const std::string tag = std::to_string(i);
    switch (size(0, 3)) {
      case 0: {
        const std::int64_t next = size(1, 6);
        const std::int64_t kernel = size(1, 3);
        chain.graph.nodes.push_back(node("Conv", {in, "w" + tag, "b" + tag}, {out},
                                         {ints("pads", {size(0, 2), size(0, 2), size(1, 2), size(1, 2)}),
                                          ints("dilations", {size(1, 2), size(1, 2)})}));
        chain.graph.initializers.push_back(weight("w" + tag, {next, channels, kernel, kernel}));
        chain.graph.initializers.push_back(weight("b" + tag, {next}));
        chain.parameters += next * channels * kernel * kernel + next;
        channels = next;
        break;
      }
      case 1:
        chain.graph.nodes.push_back(node("MaxPool", {in}, {out},
                                         {ints("kernel_shape", {2, 2}), ints("strides", {1, size(1, 2)}),
                                          ints("pads", {size(0, 1), 0, size(0, 1), 1})}));
        break;
      case 2:
        chain.graph.nodes.push_back(
            node("BatchNormalization", {in, "s" + tag, "h" + tag, "m" + tag, "v" + tag}, {out}));
        for (const char* part : {"s", "h", "m", "v"})
          chain.graph.initializers.push_back(weight(part + tag, {channels}));
        chain.parameters += 2 * channels;
        break;
      default: chain.graph.nodes.push_back(node("Relu", {in}, {out})); break;
    }
  }
  return chain;
}

}  // namespace

TEST_CASE("law: an imported model, written and read again, is the same model", "[property]") {
  CHECK(rc::check("round trip", [] {
    const Chain chain = random_chain();
    const OnnxFile file(model_of(chain.graph));
    const auto result = import_onnx(file.path(), {});
    // A pool or dilated kernel may outgrow what earlier ones left.
    RC_PRE(result.has_value());
    RC_ASSERT(result->trained_elements == chain.parameters);
    const auto text = write_model(result->description);
    RC_ASSERT(text.has_value());
    const auto read = parse_yaml(*text, "m.yaml").and_then([](const Node& document) { return read_model(document); });
    RC_ASSERT(read.has_value());
    RC_ASSERT(read->parameters() == chain.parameters);
    RC_ASSERT(read->layers.size() == result->model.layers.size());
    for (std::size_t i = 0; i < read->layers.size(); ++i) {
      const workload::Layer& a = read->layers[i];
      const workload::Layer& b = result->model.layers[i];
      RC_ASSERT(a.name == b.name);
      RC_ASSERT(a.parameters == b.parameters);
      RC_ASSERT(a.forward_work == b.forward_work);
      RC_ASSERT(a.forward_elements == b.forward_elements);
      RC_ASSERT(a.backward_elements == b.backward_elements);
      RC_ASSERT(a.saved_elements == b.saved_elements);
    }
  }));
}

TEST_CASE("law: the order of a file's nodes does not matter", "[property]") {
  CHECK(rc::check("order", [] {
    const Chain chain = random_chain();
    OnnxGraph shuffled = chain.graph;
    for (std::size_t i = shuffled.nodes.size(); i > 1; --i) {
      std::swap(shuffled.nodes[i - 1], shuffled.nodes[static_cast<std::size_t>(size(0, static_cast<int>(i) - 1))]);
    }
    const OnnxFile one(model_of(chain.graph));
    const OnnxFile other(model_of(shuffled));
    const auto a = import_onnx(one.path(), {});
    const auto b = import_onnx(other.path(), {});
    RC_ASSERT(a.has_value() == b.has_value());
    RC_PRE(a.has_value());
    RC_ASSERT(*write_model(a->description) == *write_model(b->description));
  }));
}

TEST_CASE("law: damaged bytes give a model or an error with the file's name, whatever the damage", "[property]") {
  CHECK(rc::check("damage", [] {
    std::string damaged = model_of(random_chain().graph);
    const std::int64_t faults = size(1, 6);
    for (std::int64_t i = 0; i < faults; ++i) {
      const auto at = static_cast<std::size_t>(size(0, static_cast<std::int64_t>(damaged.size()) - 1));
      damaged[at] = static_cast<char>(size(0, 255));
    }
    if (size(0, 1) == 1) damaged.resize(static_cast<std::size_t>(size(1, static_cast<std::int64_t>(damaged.size()))));
    const OnnxFile file(damaged);
    for (const UnknownOperator unknown : {UnknownOperator::kError, UnknownOperator::kAssumed}) {
      const auto result = import_onnx(file.path(), {.id = {}, .batch = {}, .dimensions = {}, .unknown = unknown});
      if (result) {
        const auto text = write_model(result->description);
        RC_ASSERT(text.has_value());
        RC_ASSERT(parse_yaml(*text, "m.yaml").and_then([](const Node& node) { return read_model(node); }).has_value());
      } else {
        RC_ASSERT(result.error().where.file == file.path().string());
        RC_ASSERT(!result.error().message.empty());
      }
    }
  }));
}
