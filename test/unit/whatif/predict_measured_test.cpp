// Predictions beside what an H200 measured, and what one job holds beside another.
#include <catch2/catch.hpp>

#include "overrides.h"
#include "unit/whatif/asked.h"

using namespace ddlsim;
using ddlsim::test::asked;
using namespace ddlsim::whatif;
using ddlsim::test::joined;
using ddlsim::test::overrides;

// Sums of kernels of a step, in ms: bench/calibrate/measured/h200-sxm5-141gb/zoo-kernels.jsonl.gz. Nothing is fitted to
// a step; cost/image_kernels.h is fitted to kernels of some of them.
TEST_CASE("predict: kernels of convolutional networks take what they took on an H200", "[unit][whatif]") {
  const auto step = [](const char* model, const char* precision, const char* batch, const char* layout) {
    return asked(overrides("model {}; node hgx-h200; gpus_per_node 1; precision {}; batch {}; software.layout {}",
                           model, precision, batch, layout))
        .step_time.in(milliseconds);
  };
  CHECK(step("resnet50", "fp32", "64", "channels-first") == Approx(75.6).epsilon(0.1));
  CHECK(step("resnet50", "tf32", "64", "channels-first") == Approx(31.0).epsilon(0.1));
  CHECK(step("resnet50", "fp16", "128", "channels-first") == Approx(42.1).epsilon(0.1));
  CHECK(step("resnet50", "fp16", "128", "channels-last") == Approx(22.1).epsilon(0.1));
  CHECK(step("mobilenet_v2", "tf32", "64", "channels-first") == Approx(25.8).epsilon(0.1));
  CHECK(step("vgg16", "bf16", "256", "channels-last") == Approx(71.0).epsilon(0.1));
}

// The most that PyTorch allocated on an H200, in GiB: bench/calibrate/measured/h200-sxm5-141gb/zoo.jsonl, transformers'
// and torchvision's models. Nothing is fitted to memory.
TEST_CASE("predict: a GPU holds what PyTorch held on an H200", "[unit][whatif]") {
  const auto held = [](const char* model, const char* precision, const char* batch, std::vector<Override> more) {
    more = joined(overrides("model {}; node hgx-h200; gpus_per_node 1; precision {}; batch {}; software.fused no",
                            model, precision, batch),
                  more);
    return asked(more).memory.tensors().in(gibibytes);
  };
  CHECK(held("resnet50", "bf16", "256", {}) == Approx(11.00).epsilon(0.02));
  CHECK(held("inception_v3", "bf16", "256", {}) == Approx(13.17).epsilon(0.02));
  CHECK(held("mobilenet_v2", "tf32", "64", {}) == Approx(4.80).epsilon(0.02));
  CHECK(held("efficientnet_b4", "bf16", "64", {}) == Approx(19.96).epsilon(0.02));
  CHECK(held("vgg16", "tf32", "128", {}) == Approx(10.59).epsilon(0.04));
  const std::vector<Override> pure = overrides("parallel.states pure-16");
  const auto of_length = [&](const char* length) {
    std::vector<Override> settings = pure;
    settings.push_back({"model.sequence", length, {}});
    return settings;
  };
  std::vector<Override> by_sgd = of_length("4096");
  by_sgd.push_back({"model.optimizer", "sgd", {}});
  CHECK(held("llama_3_2_1b", "bf16", "8", of_length("2048")) == Approx(57.25).epsilon(0.01));
  std::vector<Override> eager = of_length("2048");
  eager.push_back({"fusion", "none", {}});
  CHECK(held("llama_3_2_1b", "bf16", "4", eager) == Approx(80.85).epsilon(0.05));
  CHECK(held("llama_3_2_3b", "bf16", "2", of_length("2048")) == Approx(38.0).epsilon(0.01));
  CHECK(held("mistral_7b", "bf16", "1", by_sgd) == Approx(39.67).epsilon(0.02));
}

// The same of an H100, h100-sxm5-80gb/zoo-more.jsonl and power.jsonl, found there and fitted to nothing.
TEST_CASE("predict: a GPU holds what PyTorch held on an H100", "[unit][whatif]") {
  const auto held = [](const char* model, const char* precision, const char* batch, std::vector<Override> more) {
    more = joined(overrides("model {}; node dgx-h100; gpus_per_node 1; precision {}; batch {}; software.fused no; "
                            "software.year 2026.8; software.optimizer foreach; parallel.states fp32",
                            model, precision, batch),
                  more);
    return asked(more).memory.tensors().in(gigabytes);
  };
  // Every product keeps its own copy of what a norm made in fp32.
  const std::vector<Override> squad = overrides("model.sequence 384; model.predictions 1");
  CHECK(held("bert_large", "fp16", "32", squad) == Approx(17.68).epsilon(0.02));
  CHECK(held("bert_large", "tf32", "32", squad) == Approx(24.45).epsilon(0.02));
  CHECK(held("clip_vit_b32", "tf32", "128", {}) == Approx(11.89).epsilon(0.04));
  CHECK(held("clip_vit_b32", "bf16", "128", {}) == Approx(8.21).epsilon(0.04));
  CHECK(held("t5_small", "tf32", "64", {}) == Approx(22.41).epsilon(0.04));
  CHECK(held("t5_small", "bf16", "64", {}) == Approx(19.62).epsilon(0.05));
  // The head's gradient is made when the loss's tensors are gone.
  std::vector<Override> pure = overrides("parallel.states pure-16; model.sequence 4096");
  CHECK(held("llama_3_2_1b", "bf16", "4", pure) == Approx(61.46).epsilon(0.01));
}

TEST_CASE("predict: weights of 4 bits have no copies in 16", "[unit][whatif]") {
  const auto activations = [](const char* states) {
    return asked(overrides("model llama_3_1_8b; node dgx-h100; gpus_per_node 1; precision bf16; batch 1; "
                           "parallel.lora_rank 16; parallel.frozen_bits 4; parallel.states {}",
                           states))
        .memory.activations;
  };
  CHECK(activations("fp32") == activations("mixed"));
}

TEST_CASE("predict: kernels that are joined keep what they keep apart", "[unit][whatif]") {
  const auto held = [](const char* fusion, const char* recompute) {
    return asked(overrides("model resnet50; node hgx-h200; gpus_per_node 1; precision bf16; batch 64; fusion {}; "
                           "parallel.recompute {}",
                           fusion, recompute))
        .memory.tensors()
        .in(bytes);
  };
  CHECK(held("pointwise", "none") == Approx(held("none", "none")));
  // Blocks are larger where a residual sum has joined a norm.
  CHECK(held("pointwise", "full") >= held("none", "full"));
  CHECK(held("pointwise", "full") < 0.7 * held("pointwise", "none"));
}
