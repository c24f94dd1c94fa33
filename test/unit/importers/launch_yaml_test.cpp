// Megatron's arguments in YAML: NeMo's, Megatron-Core's and Megatron-Bridge's names, OmegaConf's references.
#include <catch2/catch.hpp>
#include <string>

#include "ddlsim/importers/launch_file.h"
#include "launch_text.h"

using namespace ddlsim;
using namespace ddlsim::importers;
using namespace ddlsim::test;
using Catch::Matchers::Contains;

namespace {

LaunchImport yaml(const std::string& text, const LaunchOptions& options = {}) {
  return taken(LaunchFormat::kMegatron, text, options, "conf.yaml");
}

/// The model's parameters; 0 where it is asked for.
std::int64_t parameters_of(const std::string& text, const LaunchOptions& options = {}) {
  const LaunchImport launch = yaml(text, options);
  if (!launch.model) return 0;
  const auto model = io::build_model(*launch.model);
  if (!model) FAIL(to_string(model.error()));
  return model->parameters();
}

std::string why_no_model(const std::string& text) {
  for (const LaunchSetting& setting : yaml(text).settings) {
    if (setting.path == "model") return setting.reason;
  }
  return {};
}

/// 2 blocks of 64, 4 heads in 2 groups, ffn 96, sequence 32; every choice spelt out as Megatron-Core names it.
const std::string kSizes =
    "  num_layers: 2\n  hidden_size: 64\n  ffn_hidden_size: 96\n  num_attention_heads: 4\n  num_query_groups: 2\n"
    "  seq_length: 32\n  vocab_size: 1000\n  micro_batch_size: 1\n";
const std::string kLlama =
    "  normalization: RMSNorm\n  gated_linear_unit: true\n  activation_func: silu\n  add_bias_linear: false\n"
    "  share_embeddings_and_output_weights: false\n  position_embedding_type: rope\n  hidden_dropout: 0.0\n";
// qkv 64 * (4 + 2 * 2) * 16, proj 64 * 64, fc1 64 * 192, fc2 96 * 64, two norms of 64; table and head, last norm.
constexpr std::int64_t kBlock = 64 * 128 + 64 * 64 + 64 * 192 + 96 * 64 + 2 * 64;

constexpr std::int64_t whole(std::int64_t vocabulary) { return 2 * kBlock + 2 * vocabulary * 64 + 64; }

}  // namespace

TEST_CASE("launch: Megatron-Core's names of a model's parts", "[unit][io][launch]") {
  CHECK(parameters_of("model:\n" + kSizes + kLlama) == whole(1024));
  // Four experts of the block's width and a router in place of the MLP.
  const std::string moe = "model:\n" + kSizes + kLlama + "  num_moe_experts: 4\n  moe_router_topk: 2\n";
  constexpr std::int64_t kMore = 4 * 64 + 3 * (64 * 192 + 96 * 64);
  CHECK(parameters_of(moe) == whole(1024) + 2 * kMore);
  CHECK(parameters_of(moe + "  moe_layer_freq: [0, 1]\n") == whole(1024) + kMore);
  CHECK(parameters_of("model:\n" + kSizes + kLlama + "  num_moe_experts: null\n") == whole(1024));
  // A gate makes fc1 twice as wide, whatever stands behind it.
  const auto activated = [](const std::string& lines) {
    return parameters_of("model:\n" + kSizes +
                         "  add_bias_linear: false\n  position_embedding_type: rope\n  hidden_dropout: 0.0\n" + lines);
  };
  const std::int64_t plain = activated("");
  CHECK(activated("  gated_linear_unit: true\n") == plain + 2 * 64 * 96);
  CHECK(activated("  activation: fast-swiglu\n") == plain + 2 * 64 * 96);
  for (const char* function : {"silu", "relu", "squared_relu", "torch.nn.functional.gelu"}) {
    CHECK(activated(std::string("  activation_func: ") + function + "\n") == plain);
  }
  CHECK(activated("  gated_linear_unit: true\n  activation_func:\n    _call_: false\n    _target_: "
                  "torch.nn.functional.silu\n") == plain + 2 * 64 * 96);
  CHECK_THAT(why_no_model("model:\n" + kSizes + "  activation_func: mine\n"), Contains("--activation-func mine"));
  CHECK_THAT(why_no_model("model:\n" + kSizes + "  gated_linear_unit: ${gate}\n"), Contains("--gated-linear-unit"));
}

TEST_CASE("launch: Megatron-Bridge's classes have defaults of their own", "[unit][io][launch]") {
  const std::string of = "model:\n  _target_: megatron.bridge.models.llama.llama_provider.";
  // Bridge pads no vocabulary unless it is told to.
  CHECK(parameters_of(of + "Llama31ModelProvider\n" + kSizes + kLlama) == whole(1000));
  CHECK(parameters_of(of + "Llama31ModelProvider\n" + kSizes + kLlama + "  should_pad_vocab: true\n") == whole(1024));
  CHECK_THAT(
      why_no_model(of + "Llama31ModelProvider\n" + kSizes),
      Contains("what Llama31ModelProvider has where none is stated of normalization") && Contains("gated-linear-unit"));
  CHECK_THAT(why_no_model(of + "MixtralModelProvider\n" + kSizes + kLlama), Contains("num-experts"));
  CHECK(parameters_of(of + "GPTModelProvider\n" + kSizes) > 0);
  const LaunchImport dumped = yaml(
      "dataset: {data_parallel_size: 1, context_parallel_size: 1}\nmodel:\n  context_parallel_size: 2\n"
      "  micro_batch_size: 1\n  attention_backend: {_args_: [3], _call_: true, _target_: x.AttnBackend}\n"
      "  bias_activation_fusion: true\n  masked_softmax_fusion: false\n  apply_rope_fusion: false\n");
  CHECK(value(dumped, "parallel.data") == "-");
  CHECK(value(dumped, "parallel.context") == "2");
  // Attention that is not fused has a softmax of its own.
  CHECK(value(dumped, "software.fused") == "-");
  CHECK_THAT(left_out(dumped), Contains("rotary embedding is one kernel"));
  const auto stages = [](const std::string& layout) {
    return value(yaml("model:\n" + kSizes + kLlama + "  pipeline_model_parallel_size: 2\n" + layout),
                 "parallel.layers_per_stage");
  };
  CHECK(stages("  num_layers_in_first_pipeline_stage: 1\n") == "12-14");
  CHECK(stages("  pipeline_model_parallel_layout: [[embedding, decoder, decoder], [loss]]\n") == "23-3");
}

TEST_CASE("launch: Megatron-Bridge's recipes of precision", "[unit][io][launch]") {
  const auto read = [](const std::string& lines) { return yaml("model: {micro_batch_size: 1}\n" + lines); };
  const LaunchImport mixed = read("mixed_precision: bf16_mixed\nddp: {grad_reduce_in_fp32: false}\n");
  CHECK(value(mixed, "precision") == "bf16");
  CHECK(value(mixed, "parallel.states") == "mixed");  // the recipe's own, which wins
  CHECK(left_out(mixed).empty());
  CHECK(value(read("mixed_precision: fp16_mixed\n"), "parallel.states") == "mixed-16");
  const LaunchImport eight = read("mixed_precision: bf16_with_fp8_current_scaling_mixed\n");
  CHECK(value(eight, "precision") == "fp8");
  CHECK(value(eight, "parallel.states") == "fp8");
  CHECK_THAT(left_out(eight), Contains("parallel.gather_fp8"));
  CHECK(value(read("mixed_precision: nemotron_h_bf16_with_nvfp4_mixed\n"), "precision") == "fp4");
  CHECK(value(read("mixed_precision: ${recipe}\n"), "precision") == "?");

  const auto states = [&](const std::string& lines) { return value(read(lines), "parallel.states"); };
  CHECK(states("mixed_precision: {bf16: true, grad_reduce_in_fp32: false}\n") == "mixed-16");
  CHECK(states("mixed_precision: {bf16: true, grad_reduce_in_fp32: true}\n") == "mixed");
  CHECK(states("mixed_precision: {fp16: true, grad_reduce_in_fp32: true}\n") == "mixed");
  CHECK(states("mixed_precision: {bf16: true, grad_reduce_in_fp32: \"${wide}\"}\n") == "?");
  CHECK(value(read("mixed_precision: {bf16: true, fp8: hybrid, grad_reduce_in_fp32: false}\n"), "strategy.gradients") ==
        "bf16");
}

TEST_CASE("launch: OmegaConf's references are followed where they are plain", "[unit][io][launch]") {
  const std::string text =
      "trainer: {precision: bf16-mixed}\nmodel:\n  encoder_seq_length: 32\n  hidden_size: 64\n  num_layers: 2\n"
      "  ffn_hidden_size: ${multiply:4, ${.hidden_size}}\n  max_position_embeddings: ${.encoder_seq_length}\n"
      "  num_attention_heads: ${divide_floor:${model.hidden_size},16}\n  vocab_size: 1000\n"
      "  data:\n    seq_length: ${..encoder_seq_length}\n    micro_batch_size: ${MBS}\n"
      "    global_batch_size: ${oc.env:GBS,64}\n  precision: ${trainer.precision}\n  tensor_model_parallel_size: "
      "${TP}\n";
  const LaunchImport launch = yaml(text, {.variables = {{"MBS", "2"}}});
  CHECK(value(launch, "precision") == "bf16");
  CHECK(value(launch, "batch") == "2");
  CHECK(value(launch, "global_batch") == "64");
  CHECK(value(launch, "parallel.tensor") == "?");
  REQUIRE(launch.model);
  // A block with biases: qkv 64 * 192 + 192, proj, 64 -> 256 -> 64, two norms; 1024 rows, 32 positions, last norm.
  constexpr std::int64_t kBiased = 64 * 192 + 192 + 64 * 64 + 64 + 64 * 256 + 256 + 256 * 64 + 64 + 4 * 64;
  CHECK(io::build_model(*launch.model)->parameters() == 2 * kBiased + 1024 * 64 + 32 * 64 + 2 * 64);
  CHECK(value(yaml(text, {.variables = {{"MBS", "2"}, {"GBS", "128"}}}), "global_batch") == "128");
  // What goes round, or is nowhere, is not known.
  const LaunchImport round = yaml(
      "micro_batch_size: ${.global_batch_size}\nglobal_batch_size: ${micro_batch_size}\n"
      "tensor_model_parallel_size: ${...model.tp}\npipeline_model_parallel_size: ${.pp}\n"
      "context_parallel_size: ${..cp}\n");
  for (const char* path : {"batch", "global_batch", "parallel.tensor", "parallel.pipeline", "parallel.context"}) {
    CHECK(value(round, path) == "?");
  }
  std::string laughs = "a0: x\n";
  for (int i = 1; i < 16; ++i) {
    laughs += "a" + std::to_string(i) + ": ";
    for (int j = 0; j < 10; ++j) laughs += "${a" + std::to_string(i - 1) + "}";
    laughs += "\n";
  }
  CHECK(value(yaml(laughs + "micro_batch_size: ${a15}\n"), "batch") == "?");
}
