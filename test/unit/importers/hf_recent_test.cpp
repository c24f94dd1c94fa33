// The language-model families of 2025 and 2026: counts worked out from their architectures, beside the published ones.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "ddlsim/importers/hf_config.h"
#include "ddlsim/io/model_file.h"
#include "ddlsim/workload/blocks.h"

namespace {

using namespace ddlsim;
using namespace ddlsim::importers;
using Catch::Matchers::Contains;

HfImport recent(const std::string& text, std::int64_t sequence = 64) {
  auto result = parse_hf_config(text, "folder/config.json", {.id = {}, .batch = 1, .sequence = sequence});
  if (!result) FAIL(to_string(result.error()) << "\n" << text);
  return std::move(*result);
}

std::string not_taken(const std::string& text) {
  const auto result = parse_hf_config(text, "config.json", {.id = {}, .batch = 1, .sequence = 64});
  REQUIRE_FALSE(result);
  return to_string(result.error());
}

std::int64_t count_of(const std::string& text) { return recent(text).model.parameters(); }

/// Work of the layers of one name, forward.
std::vector<double> work_of(const HfImport& import, const std::string& name) {
  std::vector<double> work;
  for (const workload::Layer& layer : import.model.layers) {
    if (layer.name == name) work.push_back(layer.forward_work.in(flops));
  }
  return work;
}

std::string repeated(const std::string& part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

std::string list(const std::string& group, int times) {
  std::string text = repeated(group + ", ", times);
  text.resize(text.size() - 2);
  return "[" + text + "]";
}

const std::string kGptOss20b =
    R"({"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "attention_bias": true, "head_dim": 64,
        "hidden_size": 2880, "intermediate_size": 2880, "num_attention_heads": 64, "num_key_value_heads": 8,
        "num_hidden_layers": 24, "num_local_experts": 32, "num_experts_per_tok": 4, "sliding_window": 128,
        "max_position_embeddings": 131072, "tie_word_embeddings": false, "vocab_size": 201088})";

const std::string kQwen35 =
    R"({"model_type": "qwen3_5", "tie_word_embeddings": false, "vision_config": {"depth": 27}, "text_config":
        {"model_type": "qwen3_5_text", "attn_output_gate": true, "full_attention_interval": 4, "head_dim": 256,
         "hidden_size": 5120, "intermediate_size": 17408, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
         "linear_num_key_heads": 16, "linear_num_value_heads": 48, "linear_value_head_dim": 128,
         "mtp_num_hidden_layers": 1, "num_attention_heads": 24, "num_hidden_layers": 64, "num_key_value_heads": 4,
         "vocab_size": 248320}})";

const std::string kNemotronH56b =
    R"({"model_type": "nemotron_h", "hidden_size": 8192, "intermediate_size": 32768, "num_hidden_layers": 118,
        "num_attention_heads": 64, "num_key_value_heads": 8, "attention_head_dim": 128, "mamba_num_heads": 256,
        "mamba_head_dim": 64, "ssm_state_size": 256, "n_groups": 8, "conv_kernel": 4, "chunk_size": 128,
        "use_conv_bias": true, "time_step_limit": [0.0, Infinity], "vocab_size": 131072, "hybrid_override_pattern":
        "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"})";

const std::string kDeepseekV4Flash =
    R"({"model_type": "deepseek_v4", "hc_mult": 4, "head_dim": 512, "hidden_size": 4096, "index_head_dim": 128,
        "index_n_heads": 64, "index_topk": 512, "max_position_embeddings": 1048576, "moe_intermediate_size": 2048,
        "n_routed_experts": 256, "n_shared_experts": 1, "num_attention_heads": 64, "num_experts_per_tok": 6,
        "num_hidden_layers": 43, "num_key_value_heads": 1, "num_nextn_predict_layers": 1, "o_groups": 8,
        "o_lora_rank": 1024, "q_lora_rank": 1024, "sliding_window": 128, "vocab_size": 129280, "compress_ratios":
        [0, 0, )" +
    repeated("4, 128, ", 20) + "4, 0]}";

}  // namespace

TEST_CASE("hf: counts of recent families beside the published ones", "[unit][io]") {
  // 20.91 billion (arXiv 2508.10925, table 1): 24 blocks of q, k, v, o with biases and 64 sinks, a router of 32 and 32
  // experts with biases.
  constexpr std::int64_t kOss = 2880 * (64 + 16) * 64 + (64 + 16) * 64 + 64 * 64 * 2880 + 2880 + 64 + 2880 * 32 + 32 +
                                32 * (3 * 2880 * 2880 + 3 * 2880) + 2 * 2880;
  CHECK(24 * kOss + 2 * 201088LL * 2880 + 2880 == 20'914'757'184);
  CHECK(count_of(kGptOss20b) == 20'914'757'184);
  // 229 billion on the model card.
  CHECK(
      count_of(R"({"model_type": "minimax_m2", "num_hidden_layers": 62, "hidden_size": 3072, "num_attention_heads": 48,
                     "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 1536, "vocab_size": 200064,
                     "num_experts_per_tok": 8, "num_local_experts": 256, "use_qk_norm": true, "num_mtp_modules": 3})") ==
      228'689'748'992);
  // 7 billion and a multi-token-prediction block, which is left out; Qwen2 with other sizes.
  CHECK(count_of(R"({"model_type": "mimo", "num_hidden_layers": 36, "hidden_size": 4096, "num_attention_heads": 32,
                     "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 11008, "vocab_size": 151680,
                     "attention_bias": true, "use_sliding_window": false, "num_nextn_predict_layers": 1})") ==
        7'622'619'136);
  // 109 billion with its vision tower: 48 blocks of 16 experts and a shared one.
  CHECK(count_of(R"({"model_type": "llama4", "vision_config": {}, "text_config": {"model_type": "llama4_text",
                     "attention_chunk_size": 8192, "head_dim": 128, "hidden_size": 5120, "interleave_moe_layer_step": 1,
                     "intermediate_size": 8192, "intermediate_size_mlp": 16384, "num_attention_heads": 40,
                     "num_experts_per_tok": 1, "num_hidden_layers": 48, "num_key_value_heads": 8,
                     "num_local_experts": 16, "use_qk_norm": true, "vocab_size": 202048}})") == 107'769'861'120);
  // 30.5 billion, as Qwen3-30B-A3B; 2B is Qwen3-1.7B, whose head is tied, as its wrapper says.
  CHECK(count_of(R"({"model_type": "qwen3_vl_moe", "tie_word_embeddings": false, "text_config": {
                     "model_type": "qwen3_vl_moe_text", "decoder_sparse_step": 1, "head_dim": 128, "hidden_size": 2048,
                     "intermediate_size": 6144, "moe_intermediate_size": 768, "num_attention_heads": 32,
                     "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48, "num_key_value_heads": 4,
                     "vocab_size": 151936}})") == 30'532'122'624);
  CHECK(count_of(R"({"model_type": "qwen3_vl", "tie_word_embeddings": true, "text_config": {
                     "model_type": "qwen3_vl_text", "head_dim": 128, "hidden_size": 2048, "intermediate_size": 6144,
                     "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8,
                     "vocab_size": 151936}})") == 1'720'574'976);
  // 744 billion (model card of GLM-5); the indexer's products and norm are in every block.
  CHECK(
      count_of(R"({"model_type": "glm_moe_dsa", "first_k_dense_replace": 3, "hidden_size": 6144, "index_head_dim": 128,
                     "index_n_heads": 32, "index_topk": 2048, "intermediate_size": 12288, "kv_lora_rank": 512,
                     "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1,
                     "num_attention_heads": 64, "num_experts_per_tok": 8, "num_hidden_layers": 78, "q_lora_rank": 2048,
                     "qk_nope_head_dim": 192, "qk_rope_head_dim": 64, "v_head_dim": 256, "topk_method": "noaux_tc",
                     "vocab_size": 154880})") == 743'911'218'432);
}

TEST_CASE("hf: hybrid families, counts beside the published ones", "[unit][io]") {
  // 27 billion with vision: 48 delta-rule and 16 attention blocks.
  CHECK(count_of(kQwen35) == 26'895'998'464);
  // 35 billion with vision.
  CHECK(count_of(R"({"model_type": "qwen3_5_moe", "tie_word_embeddings": false, "text_config": {
         "model_type": "qwen3_5_moe_text", "head_dim": 256, "hidden_size": 2048, "linear_conv_kernel_dim": 4,
         "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
         "linear_value_head_dim": 128, "moe_intermediate_size": 512, "num_attention_heads": 16, "num_experts": 256,
         "num_experts_per_tok": 8, "num_hidden_layers": 40, "num_key_value_heads": 2,
         "shared_expert_intermediate_size": 512, "vocab_size": 248320}})") == 34'660'610'688);
  // 56.3 billion (arXiv 2504.03624): 54 Mamba-2, 10 attention and 54 MLP blocks.
  CHECK(count_of(kNemotronH56b) == 56'324'350'464);
  // 31.6 billion (model card of Nemotron 3 Nano).
  CHECK(
      count_of(R"({"model_type": "nemotron_h", "hidden_size": 2688, "intermediate_size": 1856, "num_hidden_layers": 52,
         "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128, "mamba_num_heads": 64,
         "mamba_head_dim": 64, "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4, "chunk_size": 128,
         "n_routed_experts": 128, "n_shared_experts": 1, "num_experts_per_tok": 6, "moe_intermediate_size": 1856,
         "moe_shared_expert_intermediate_size": 3712, "vocab_size": 131072,
         "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"})") == 31'577'937'344);
  // 25.2 billion (model card of Gemma 4 26B A4B).
  const std::string types = list(repeated("\"sliding_attention\", ", 5) + "\"full_attention\"", 5);
  CHECK(count_of(R"({"model_type": "gemma4", "tie_word_embeddings": true, "text_config": {"model_type": "gemma4_text",
         "attention_k_eq_v": true, "enable_moe_block": true, "final_logit_softcapping": 30.0, "global_head_dim": 512,
         "head_dim": 256, "hidden_size": 2816, "hidden_size_per_layer_input": 0, "intermediate_size": 2112,
         "layer_types": )" +
                 types + R"(, "moe_intermediate_size": 704, "num_attention_heads": 16, "num_experts": 128,
         "num_global_key_value_heads": 2, "num_hidden_layers": 30, "num_key_value_heads": 8, "sliding_window": 1024,
         "top_k_experts": 8, "vocab_size": 262144}})") == 25'233'141'760);
}

TEST_CASE("hf: blocks of different sizes", "[unit][io]") {
  const auto config = [](const std::string& blocks) {
    return R"({"model_type": "nemotron-nas", "architectures": ["DeciLMForCausalLM"], "hidden_size": 384,
              "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": null, "intermediate_size": null,
              "vocab_size": 10, "block_configs": [)" +
           blocks + "]}";
  };
  // Attention of 4 heads in 2 groups and an MLP of 2 * 3 * 384 / 3 = 768; no attention and 2 * 1.3125 * 384 / 3 = 336,
  // up to 512; a product and no MLP.
  const std::string good =
      R"({"attention": {"n_heads_in_group": 2, "no_op": false}, "ffn": {"ffn_mult": 3.0, "no_op": false}},
         {"attention": {"n_heads_in_group": null, "no_op": true}, "ffn": {"ffn_mult": 1.3125}},
         {"attention": {"replace_with_linear": true}, "ffn": {"no_op": true}})";
  CHECK(count_of(config(good)) == 2 * 10 * 384 + 384 + (2 * 384 * 384 + 2 * 384 * 192 + 384) + (3 * 384 * 768 + 384) +
                                      (3 * 384 * 512 + 384) + (384 * 384 + 384));
  CHECK_THAT(not_taken(config("{}, {}, {}")), Contains("in block 0: no object 'attention'"));
  CHECK_THAT(not_taken(config(R"({"attention": {"n_heads_in_group": 3}, "ffn": {"ffn_mult": 1}}, {}, {})")),
             Contains("3 heads in a group do not divide 4"));
  CHECK_THAT(not_taken(config(R"({"attention": {"no_op": true}, "ffn": {"ffn_mult": 1e300}}, {}, {})")),
             Contains("'ffn_mult' is no number"));
  CHECK_THAT(not_taken(config(good + ", {}")), Contains("must be a list of 3 blocks"));
}

TEST_CASE("hf: chunks, sinks, sparse attention and hybrids cost what they look at", "[unit][io]") {
  // gpt-oss, 256 rows: blocks 0, 2, ... in a window of 128: 128 * 129 / 2 + 128 * 128 pairs, others 256 * 257 / 2.
  const auto oss = work_of(recent(kGptOss20b, 256), "attention");
  CHECK(oss.at(0) == 2.0 * (8256 + 16'384) * 64 * 128);
  CHECK(oss.at(1) == 2.0 * 32'896 * 64 * 128);
  // Llama 4, 20 rows in chunks of 8: 8 * 9 / 2 twice and 4 * 5 / 2; every fourth block sees all 20 * 21 / 2.
  const std::string llama4 =
      R"({"model_type": "llama4_text", "attention_chunk_size": 8, "hidden_size": 8, "num_hidden_layers": 4,
          "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 2, "intermediate_size": 12, "vocab_size": 10,
          "num_local_experts": 2, "num_experts_per_tok": 1, "intermediate_size_mlp": 16)";
  const auto chunks = work_of(recent(llama4 + "}", 20), "attention");
  CHECK(chunks.at(0) == 32 * 82);
  CHECK(chunks.at(3) == 32 * 210);
  CHECK(work_of(recent(llama4 + R"(, "no_rope_layers": [0, 1, 1, 1]})", 20), "attention").at(0) == 32 * 210);
  // Only every second block has experts; the others an MLP of 16: 2 * 3 * 8 * 16 * 20.
  CHECK(work_of(recent(llama4 + R"(, "interleave_moe_layer_step": 2})", 20), "gate_proj") ==
        std::vector<double>{2.0 * 20 * 8 * 16, 2.0 * 20 * 8 * 16});
  // Qwen3.5: three of four blocks have no quadratic part: twice the rows, twice the work.
  CHECK(work_of(recent(kQwen35, 512), "delta_rule").size() == 48);
  CHECK(work_of(recent(kQwen35, 512), "delta_rule")[0] == 2 * work_of(recent(kQwen35, 256), "delta_rule")[0]);
  CHECK(work_of(recent(kQwen35, 512), "attention").size() == 16);
}

TEST_CASE("hf: DeepSeek-V4, by hand", "[unit][io]") {
  // 284 billion on the model card.
  constexpr std::int64_t kD = 4096;
  constexpr std::int64_t kConnection = 24 * 4 * kD + 24;  // of the three scales nothing is counted
  constexpr std::int64_t kPool = 2 * kD * 512 + 128 * 512 + 512;
  constexpr std::int64_t kOverlapping = 2 * kD * 1024 + 4 * 1024 + 512;
  constexpr std::int64_t kIndexer = 2 * kD * 256 + 4 * 256 + 128 + 1024 * 8192 + kD * 64;
  constexpr std::int64_t kAttention = kD * 512 + 512 + kD * 1024 + 1024 + 1024 * 32768 + 64 + 4096 * 8192 + 8192 * kD;
  constexpr std::int64_t kMixture = kD * 256 + 257 * 3 * kD * 2048;
  constexpr std::int64_t kBlock = 2 * kConnection + 2 * kD + kAttention + kMixture;
  constexpr std::int64_t kAll =
      43 * kBlock + 20 * kPool + 21 * (kOverlapping + kIndexer) + 2 * 129280 * kD + kD + 4 * 4 * kD + 4;
  CHECK(kAll / 1'000'000'000 == 284);
  CHECK(count_of(kDeepseekV4Flash) == kAll);
  // Of the last of 4,096 rows: 128 of the window, 512 of 1,024 pooled keys, or all of 32.
  const std::vector<double> work = work_of(recent(kDeepseekV4Flash, 4096), "attention");
  REQUIRE(work.size() == 43);
  const auto pairs = [](std::int64_t pooled, std::int64_t keep) {
    std::int64_t sum = 0;
    for (std::int64_t t = 1; t <= 4096; ++t) {
      sum += std::min<std::int64_t>(t, 128) + (pooled == 0 ? 0 : std::min(t / pooled, keep));
    }
    return static_cast<double>(sum);
  };
  CHECK(work[0] == 2 * pairs(0, 0) * 64 * 1024);
  CHECK(work[2] == 2 * pairs(4, 512) * 64 * 1024);
  CHECK(work[3] == 2 * pairs(128, 4096) * 64 * 1024);
  CHECK_THAT(recent(kDeepseekV4Flash).description.notes, Contains("multi-token"));
  // Two blocks with a window alone, then pairs of the two ways to compress.
  const auto blocks = workload::blocks_of(recent(kDeepseekV4Flash).model.layers);
  const auto bodies = [&](std::size_t layers) {
    return std::count_if(blocks.begin(), blocks.end(),
                         [&](const workload::Block& one) { return one.body && one.count == layers; });
  };
  CHECK(bodies(31) == 2);
  CHECK(bodies(83) == 20);
  const auto changed = [](const std::string& from, const std::string& to) {
    std::string text = kDeepseekV4Flash;
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
  };
  CHECK_THAT(not_taken(changed("\"o_groups\": 8", "\"o_groups\": 7")),
             Contains("'o_groups' is 7, which does not divide 'num_attention_heads', 64"));
  CHECK_THAT(not_taken(changed("[0, 0, ", "[")), Contains("'compress_ratios' has 42 items for 43 blocks"));
  CHECK_THAT(not_taken(changed("\"compress_ratios\"", "\"ratios\"")), Contains("'compress_ratios' is missing"));
  CHECK_THAT(not_taken(changed("\"hc_mult\": 4, ", "")), Contains("'hc_mult' is missing"));
  CHECK_THAT(not_taken(changed("\"num_key_value_heads\": 1", "\"num_key_value_heads\": 2")),
             Contains("one key for all heads"));
}

TEST_CASE("hf: recent families survive the model file", "[unit][io]") {
  for (const std::string& config : {kGptOss20b, kQwen35, kNemotronH56b, kDeepseekV4Flash}) {
    const HfImport import = recent(config, 256);
    const auto text = io::write_model(import.description);
    REQUIRE(text);
    const auto document = io::parse_yaml(*text, "m.yaml");
    REQUIRE(document);
    const auto read = io::read_model(*document, {{"sequence", 512}});
    if (!read) FAIL(to_string(read.error()));
    CHECK(read->parameters() == import.model.parameters());
    CHECK(read->totals.forward_work == recent(config, 512).model.totals.forward_work);
    CHECK(read->totals.saved_elements == recent(config, 512).model.totals.saved_elements);
  }
}

TEST_CASE("hf: what Python writes and JSON does not have", "[unit][io]") {
  const std::string head =
      R"({"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 4,
 "intermediate_size": 12, "note": "Infinity \" NaN", )";
  CHECK(recent(head + R"("vocab_size": 10, "a": [0.0, Infinity, -Infinity], "b": NaN})").model.parameters() > 0);
  CHECK_THAT(not_taken(head + R"("vocab_size": Infinity})"),
             Contains("config.json:2:") && Contains("'vocab_size' is Infinity") && Contains("whole number"));
  CHECK_THAT(not_taken(head + R"("vocab_size": NaN})"), Contains("'vocab_size' is NaN"));
  CHECK_THAT(not_taken(head + R"("vocab_size": -Infinity})"), Contains("'vocab_size' is -Infinity"));
  CHECK_THAT(not_taken(head + R"("vocab_size": 10, "x": Infinit})"), Contains("is not JSON"));
}

TEST_CASE("hf: parts without an operator are refused by name", "[unit][io]") {
  const auto gemma = [](const std::string& more) {
    return R"({"model_type": "gemma4_text", "head_dim": 2, "hidden_size": 8, "intermediate_size": 12,
              "layer_types": ["full_attention"], "num_attention_heads": 4, "num_hidden_layers": 1,
              "num_key_value_heads": 2, "sliding_window": 4, "vocab_size": 10)" +
           more + "}";
  };
  CHECK(count_of(gemma("")) > 0);
  CHECK_THAT(not_taken(gemma(R"(, "hidden_size_per_layer_input": 256)")), Contains("per-layer embeddings"));
  CHECK_THAT(not_taken(gemma(R"(, "num_kv_shared_layers": 2)")), Contains("share the keys of an earlier one"));
  CHECK_THAT(not_taken(R"({"model_type": "nemotron_h", "hidden_size": 8, "num_hidden_layers": 2, "vocab_size": 10,
                          "num_attention_heads": 4, "head_dim": 2, "hybrid_override_pattern": "*X"})"),
             Contains("has 'X' as letter 2") && Contains("M (Mamba-2)"));
  CHECK_THAT(not_taken(R"({"model_type": "nemotron_h", "hidden_size": 8, "num_hidden_layers": 3, "vocab_size": 10,
                          "num_attention_heads": 4, "head_dim": 2, "hybrid_override_pattern": "**"})"),
             Contains("has 2 letters for 3 blocks"));
  CHECK_THAT(not_taken(R"({"model_type": "qwen3_5_text", "hidden_size": 8, "num_hidden_layers": 4, "vocab_size": 10})"),
             Contains("'linear_num_value_heads' is missing") && Contains("'head_dim' is missing"));
}
