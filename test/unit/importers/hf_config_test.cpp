// Hugging Face configurations: counts worked out from the architectures, and what the layers of each family are.
#include "ddlsim/importers/hf_config.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "ddlsim/io/model_file.h"

namespace {

using namespace ddlsim;
using namespace ddlsim::importers;
using namespace ddlsim::io;
using Catch::Matchers::Contains;

HfImport imported(const std::string& text, std::optional<std::int64_t> sequence = {}) {
  auto result = parse_hf_config(text, "folder/config.json", {.id = {}, .batch = 1, .sequence = sequence});
  if (!result) FAIL(to_string(result.error()) << "\n" << text);
  return std::move(*result);
}

std::int64_t parameters(const std::string& text) { return imported(text, 8).model.parameters(); }

std::string refused(const std::string& text, std::optional<std::int64_t> sequence = {}) {
  const auto result = parse_hf_config(text, "config.json", {.id = {}, .batch = 1, .sequence = sequence});
  REQUIRE_FALSE(result);
  return to_string(result.error());
}

/// The numbers of a decoder, then more keys.
std::string decoder(const std::string& type, const std::string& more = {}) {
  return R"({"model_type": ")" + type + R"(", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 4,)" +
         R"( "num_key_value_heads": 2, "intermediate_size": 12, "vocab_size": 10)" + (more.empty() ? "" : ", ") + more +
         "}";
}

constexpr const char* kLlama8b =
    R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
        "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 128256,
        "max_position_embeddings": 131072, "tie_word_embeddings": false, "rope_scaling": {"factor": 8.0}})";

constexpr const char* kDeepseekV3 =
    R"({"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 7168,
        "intermediate_size": 18432, "moe_intermediate_size": 2048, "num_attention_heads": 128, "num_hidden_layers": 61,
        "num_key_value_heads": 128, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 256, "n_shared_experts": 1,
        "num_experts_per_tok": 8, "first_k_dense_replace": 3, "moe_layer_freq": 1, "topk_method": "noaux_tc",
        "num_nextn_predict_layers": 1, "vocab_size": 129280, "max_position_embeddings": 163840})";

}  // namespace

TEST_CASE("hf: GPT-2's GELU is the one of single operations, where nothing else is said", "[unit][io]") {
  const auto composite = [](const std::string& said) {
    const auto import = parse_hf_config(R"({"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 1,
        "n_positions": 16, "vocab_size": 32)" +
                                            said + "}",
                                        "config.json", {.id = "gpt2", .batch = 1, .sequence = {}});
    workload::Composite found = workload::Composite::kNo;
    for (const workload::Layer& layer : import.value().model.layers) {
      const auto* op = std::get_if<workload::Pointwise>(&*layer.op);
      if (op != nullptr && op->reads == workload::Reads::kInput) found = op->composite;
    }
    return found;
  };
  CHECK(composite("") == workload::Composite::kGeluNew);
  CHECK(composite(R"(, "activation_function": "gelu_new")") == workload::Composite::kGeluNew);
  CHECK(composite(R"(, "activation_function": "gelu")") == workload::Composite::kGelu);
  CHECK(composite(R"(, "activation_function": "gelu_pytorch_tanh")") == workload::Composite::kGelu);
}

TEST_CASE("hf: parameters are those of the published models", "[unit][io]") {
  CHECK(parameters(kLlama8b) == 8'030'261'248);
  // 2 * 128256 * 8192 + 8192 + 80 * (2 * 8192^2 + 2 * 8192 * 1024 + 3 * 8192 * 28672 + 2 * 8192)
  CHECK(parameters(R"({"model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672, "vocab_size": 128256,
                       "num_attention_heads": 64, "num_hidden_layers": 80, "num_key_value_heads": 8})") ==
        70'553'706'496);
  // Eight experts of 3 * 4096 * 14336 and a router of 4096 * 8 in each of 32 blocks.
  CHECK(parameters(R"({"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336, "vocab_size": 32000,
                       "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
                       "num_local_experts": 8, "num_experts_per_tok": 2})") == 46'702'792'704);
  // Norms of 128 for each head's queries and keys.
  CHECK(parameters(R"({"model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288, "vocab_size": 151936,
                       "num_attention_heads": 32, "num_hidden_layers": 36, "num_key_value_heads": 8, "head_dim": 128})") ==
        8'190'735'360);
  // Without the multi-token-prediction module; 58 * 256 of it are the biases that balance the experts.
  CHECK(parameters(kDeepseekV3) == 671'026'419'200);
}

TEST_CASE("hf: the older families", "[unit][io]") {
  // gpt2: 124,439,808 on its model card; opt-125m: 125,239,296; pythia-160m: 162,322,944.
  CHECK(parameters(R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 768, "n_head": 12,
                       "n_layer": 12, "n_positions": 1024, "vocab_size": 50257})") == 124'439'808);
  CHECK(parameters(R"({"model_type": "opt", "hidden_size": 768, "ffn_dim": 3072, "num_attention_heads": 12,
                       "num_hidden_layers": 12, "max_position_embeddings": 2048, "vocab_size": 50272,
                       "word_embed_proj_dim": 768})") == 125'239'296);
  CHECK(parameters(R"({"model_type": "gpt_neox", "hidden_size": 768, "intermediate_size": 3072, "vocab_size": 50304,
                       "num_attention_heads": 12, "num_hidden_layers": 12})") == 162'322'944);
  const std::string bert = R"({"model_type": "bert", "hidden_size": 768, "intermediate_size": 3072,
    "num_attention_heads": 12, "num_hidden_layers": 12, "max_position_embeddings": 512, "vocab_size": 30522,
    "type_vocab_size": 2, "architectures": ["Bert)";
  CHECK(parameters(bert + R"(Model"]})") == 109'482'240);
  CHECK(parameters(bert + R"(ForMaskedLM"]})") == 109'514'298);
  CHECK(parameters(bert + R"(ForPreTraining"]})") == 110'106'428);
  std::string labels;
  for (int i = 0; i < 1000; ++i) labels += (i > 0 ? ", \"" : "\"") + std::to_string(i) + "\": \"x\"";
  CHECK(parameters(R"({"model_type": "vit", "architectures": ["ViTForImageClassification"], "hidden_size": 768,
                       "intermediate_size": 3072, "num_attention_heads": 12, "num_hidden_layers": 12, "image_size": 224,
                       "patch_size": 16, "id2label": {)" +
                   labels + "}}") == 86'567'656);
}

TEST_CASE("hf: FLOPs of a Llama by hand", "[unit][io]") {
  // 1000 tokens: 2 * 1000 per weight of the products (all parameters but embedding and norms), and in each of 32 blocks
  // 2 * 1000 * 1001 / 2 pairs * 32 heads * (128 + 128).
  const auto model = imported(kLlama8b, 1000).model;
  const double weights = 8'030'261'248.0 - 128'256.0 * 4096 - 65 * 4096;
  const double attention = 32.0 * 1000 * 1001 * 32 * 256;
  CHECK(model.totals.forward_work.in(flops) == Approx(2000 * weights + attention).epsilon(1e-12));
  // Backward: twice the products, and of attention 2 pairs * heads * (3 + 2) * 128 against 2 pairs * heads * 2 * 128.
  CHECK(model.totals.backward_work.in(flops) == Approx(4000 * weights + 2.5 * attention).epsilon(1e-12));
}

TEST_CASE("hf: a mixture computes its active experts and has them all", "[unit][io]") {
  const auto model = imported(kDeepseekV3, 100).model;
  // Active per token: 37 billion (DeepSeek-V3, arXiv 2412.19437), of which 0.9 are the embedding's, no product.
  const double attention_blocks = 61.0 * 100 * 101 * 128 * (192 + 128);
  const double active = (model.totals.forward_work.in(flops)-attention_blocks) / 200;
  // Head, 61 x latent attention, 3 dense MLPs, 58 x (router + 9 experts of 3 * 7168 * 2048).
  const double latent = 7168.0 * 1536 + 1536 * 24'576.0 + 7168.0 * 576 + 512.0 * 32'768 + 16'384.0 * 7168;
  const double expected =
      129'280.0 * 7168 + 61 * latent + 9.0 * 7168 * 18'432 + 58 * (7168.0 * 256 + 27.0 * 7168 * 2048);
  CHECK(active == Approx(expected).epsilon(1e-12));
  CHECK(active / 1e9 == Approx(36.6).margin(0.1));
  CHECK_THAT(model.notes, Contains("multi-token-prediction"));
}

TEST_CASE("hf: switches of the families", "[unit][io]") {
  // 2 * 10 * 8 + 8 + 2 * (2 * 8 * 8 + 2 * 8 * 4 + 3 * 8 * 12 + 2 * 8) = 1160
  constexpr std::int64_t kPlain = 1160;
  CHECK(parameters(decoder("llama")) == kPlain);
  CHECK(parameters(decoder("mistral")) == kPlain);
  CHECK(parameters(decoder("phi3")) == kPlain);
  CHECK(parameters(decoder("llama", R"("tie_word_embeddings": true)")) == kPlain - 80);
  const std::string two = R"("head_dim": 2)";
  CHECK(parameters(decoder("gemma", two)) == kPlain - 80);
  CHECK(parameters(decoder("gemma2", two)) == kPlain - 80 + 2 * 2 * 8);
  CHECK(parameters(decoder("gemma3_text", two)) == kPlain - 80 + 2 * (2 * 8 + 2 * 2));
  CHECK(parameters(decoder("qwen2")) == kPlain + 2 * (8 + 2 * 4));
  CHECK(parameters(decoder("llama", R"("attention_bias": true)")) == kPlain + 2 * (8 + 2 * 4 + 8));
  CHECK(parameters(decoder("llama", R"("mlp_bias": true)")) == kPlain + 2 * (2 * 12 + 8));
  CHECK(parameters(decoder("llama", R"("head_dim": 4)")) == kPlain + 2 * (2 * 8 * 8 + 2 * 8 * 4));
  // One block of two has the mixture: 3 experts of 3 * 8 * 5 and a router of 8 * 3 in place of 3 * 8 * 12.
  const std::string moe = R"("num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 5)";
  CHECK(parameters(decoder("qwen3_moe", moe + R"(, "mlp_only_layers": [0])")) == kPlain + 2 * 4 + 384 - 288);
  CHECK(parameters(decoder("qwen3_moe", moe + R"(, "decoder_sparse_step": 2)")) == kPlain + 2 * 4 + 384 - 288);
  // Both blocks, an expert of 3 * 8 * 7 that every token goes through, and its gate of 8; biases of q, k and v.
  CHECK(parameters(decoder("qwen2_moe", moe + R"(, "shared_expert_intermediate_size": 7)")) ==
        kPlain + 2 * 16 + 2 * (384 - 288 + 168 + 8));
  CHECK(parameters(decoder("smollm3")) == kPlain - 80);  // tied unless it says otherwise
  CHECK(parameters(decoder("ministral3", two)) == kPlain);
  CHECK(parameters(decoder("qwen2_5_vl")) == parameters(decoder("qwen2")));
  // q, k and v alone have biases, o where it says so.
  CHECK(parameters(decoder("seed_oss", two)) == kPlain + 2 * (8 + 2 * 4));
  CHECK(parameters(decoder("seed_oss", two + R"(, "attention_out_bias": true)")) == kPlain + 2 * (8 + 2 * 4 + 8));
  CHECK(parameters(decoder("glm", two)) == kPlain);
  CHECK(parameters(decoder("glm4", two + R"(, "attention_bias": true)")) == kPlain + 2 * (8 + 2 * 4) + 2 * 2 * 8);
  // As many norms, behind attention and the MLP, and of queries and keys.
  CHECK(parameters(decoder("olmo3")) == kPlain + 2 * (8 + 4));
  CHECK(parameters(decoder("exaone4")) == kPlain + 2 * (2 + 2));
  CHECK(parameters(decoder("hunyuan_v1_dense")) == kPlain + 2 * (2 + 2));
  CHECK(parameters(decoder("ernie4_5", two + R"(, "use_bias": true)")) ==
        kPlain - 80 + 2 * (8 + 2 * 4 + 8) + 2 * (2 * 12 + 8));
  // The second block: 3 experts of 3 * 8 * 5 and two that are shared, a router of 8 * 3 and its bias.
  const std::string ernie = R"("moe_num_experts": 3, "moe_k": 2, "moe_intermediate_size": 5)";
  CHECK(parameters(decoder("ernie4_5_moe", ernie)) == kPlain - 80 + 5 * 120 + 3 * 8 + 3 - 288);
  CHECK(parameters(decoder("ernie4_5_moe", ernie + R"(, "moe_layer_end_index": 0)")) == kPlain - 80);
  // Experts as wide as the MLP, in both blocks; norms of all heads' queries (8) and keys (4).
  CHECK(parameters(decoder("olmoe", R"("num_experts": 3, "num_experts_per_tok": 2)")) ==
        kPlain + 2 * (3 * 288 + 3 * 8 - 288 + 8 + 4));
  // The second block alone: 3 experts of 3 * 8 * 5 and one that is shared, a router with a bias; norms of each head.
  const std::string glm =
      R"("n_routed_experts": 3, "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 5,
         "first_k_dense_replace": 1, "attention_bias": true)";
  CHECK(parameters(decoder("glm4_moe", glm)) == kPlain + 2 * (8 + 2 * 4) + 4 * 120 + 3 * 8 + 3 - 288);
  CHECK(parameters(decoder("glm4_moe", glm + R"(, "use_qk_norm": true)")) - parameters(decoder("glm4_moe", glm)) ==
        2 * 2 * 2);
}

TEST_CASE("hf: what config.json leaves out is as its class has it", "[unit][io]") {
  // Gemma 3: heads of 256 in place of 2: q and o of 8 * 4, k and v of 8 * 2, times 254; norms of q and k.
  CHECK(parameters(decoder("gemma3_text")) - parameters(decoder("gemma3_text", R"("head_dim": 2)")) ==
        2 * (254 * (2 * 8 * 4 + 2 * 8 * 2) + 2 * 254));
  // google/gemma-3-4b-it: 8 heads, 4 of keys, width 256, 262,208 tokens are the class's. 3.88 billion.
  const auto gemma = imported(R"({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text",
      "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024}})",
                              8);
  CHECK(static_cast<double>(gemma.model.parameters()) == Approx(3.88e9).epsilon(1e-3));
  const auto mistral = [](const std::string& keys) {
    return parameters(R"({"model_type": "mistral", "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 16,
        "intermediate_size": 12, "vocab_size": 10)" +
                      keys + "}");
  };
  CHECK(mistral("") == mistral(R"(, "num_key_value_heads": 8)"));
  CHECK(mistral(R"(, "num_key_value_heads": null)") == mistral(R"(, "num_key_value_heads": 16)"));
}

TEST_CASE("hf: windows shorten attention where the family says so", "[unit][io]") {
  const auto attention = [](const std::string& text, std::size_t block) {
    std::vector<double> work;
    for (const workload::Layer& layer : imported(text, 100).model.layers) {
      if (layer.name == "attention") work.push_back(layer.forward_work.in(flops));
    }
    return work.at(block);
  };
  // 4 heads of 2: 2 * pairs * 4 * 4. Causal: 100 * 101 / 2 pairs; in a window of 10: 10 * 11 / 2 + 90 * 10.
  CHECK(attention(decoder("mistral"), 0) == 32 * 5050);
  CHECK(attention(decoder("mistral", R"("sliding_window": 10)"), 0) == 32 * 955);
  CHECK(attention(decoder("gemma2", R"("head_dim": 2, "sliding_window": 10)"), 0) == 32 * 955);
  CHECK(attention(decoder("gemma2", R"("head_dim": 2, "sliding_window": 10)"), 1) == 32 * 5050);
  CHECK(attention(decoder("qwen2", R"("sliding_window": 10)"), 0) == 32 * 5050);
  const std::string types = R"("sliding_window": 10, "layer_types": ["full_attention", "sliding_attention"])";
  CHECK(attention(decoder("mistral", types), 0) == 32 * 5050);
  CHECK(attention(decoder("mistral", types), 1) == 32 * 955);
}

TEST_CASE("hf: the model file says the same, and its sequence can be changed", "[unit][io]") {
  for (const char* config : {kLlama8b, kDeepseekV3}) {
    const HfImport result = imported(config, 64);
    const auto text = write_model(result.description);
    REQUIRE(text);
    const auto document = parse_yaml(*text, "m.yaml");
    REQUIRE(document);
    const auto read = read_model(*document);
    if (!read) FAIL(to_string(read.error()));
    CHECK(read->parameters() == result.model.parameters());
    CHECK(read->totals.forward_work == result.model.totals.forward_work);
    CHECK(read->totals.saved_elements == result.model.totals.saved_elements);
    const auto longer = read_model(*document, {{"sequence", 128}});
    REQUIRE(longer);
    CHECK(longer->totals.forward_work == imported(config, 128).model.totals.forward_work);
    CHECK(longer->totals.saved_elements == imported(config, 128).model.totals.saved_elements);
    // Blocks are written once.
    CHECK(text->size() < 8000);
    CHECK_THAT(*text, Contains("times: "));
  }
}

TEST_CASE("hf: ids, wrappers and lengths", "[unit][io]") {
  CHECK(imported(kLlama8b).model.id == "folder");
  CHECK(imported(kLlama8b).description.input_shape == workload::Shape{4096});
  CHECK(imported(decoder("llama", R"("max_position_embeddings": 512)")).description.input_shape ==
        workload::Shape{512});
  const auto wrapped = imported(R"({"model_type": "llava", "vision_config": {"hidden_size": 3}, "text_config": )" +
                                decoder("llama") + "}");
  CHECK(wrapped.model.parameters() == 1160);
  CHECK_THAT(wrapped.model.notes, Contains("vision"));
  // Without a model_type, the class says it.
  CHECK(parameters(
            R"({"architectures": ["MistralForCausalLM"], "hidden_size": 8, "num_hidden_layers": 2, "vocab_size": 10,
                       "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 12})") == 1160);
}

TEST_CASE("hf: what has no rule is refused with what has", "[unit][io]") {
  CHECK_THAT(refused(decoder("rwkv")), Contains("no rule for the architecture 'rwkv'") && Contains("qwen3_moe"));
  CHECK_THAT(refused(decoder("lama")), Contains("config.json:1:2") && Contains("did you mean 'llama'") &&
                                           Contains("known: albert, baichuan, bart, bert"));
  CHECK_THAT(refused("{}"), Contains("names neither 'model_type' nor 'architectures'"));
  CHECK_THAT(refused(decoder("llama", R"("architectures": ["LlamaForTokenClassification"])")),
             Contains("no rule for the class 'LlamaForTokenClassification'") && Contains("ForCausalLM"));
}

TEST_CASE("hf: faults are named with their key, all at once", "[unit][io]") {
  const std::string all = refused(
      "{\"model_type\": \"llama\",\n \"hidden_size\": -8,\n \"num_hidden_layers\": 0,\n"
      " \"num_attention_heads\": \"four\", \"intermediate_size\": 1.5,\n"
      " \"vocab_size\": 1099511627776}");
  CHECK_THAT(all, Contains("config.json:2:2: error: 'hidden_size' is -8"));
  CHECK_THAT(all, Contains("config.json:3:2: error: 'num_hidden_layers' is 0"));
  CHECK_THAT(all, Contains("'num_attention_heads' is \"four\"") && Contains("'intermediate_size' is 1.5"));
  CHECK_THAT(all, Contains("'vocab_size' is 1099511627776") && Contains("from 1 to 2147483648"));
  CHECK_THAT(refused(R"({"model_type": "llama"})"), Contains("'hidden_size' is missing"));
  CHECK_THAT(refused(decoder("llama", R"("head_dim": null, "num_key_value_heads": 3)")), Contains("stands twice"));
  CHECK_THAT(refused(R"({"model_type": "llama", "hidden_size": 9, "num_hidden_layers": 2, "num_attention_heads": 4,
                         "num_key_value_heads": 3, "intermediate_size": 12, "vocab_size": 10})"),
             Contains("'num_key_value_heads' is 3, which does not divide 'num_attention_heads', 4") &&
                 Contains("'num_attention_heads' is 4, which does not divide 'hidden_size', 9"));
  CHECK_THAT(refused(decoder("mixtral", R"("num_local_experts": 2, "num_experts_per_tok": 3)")),
             Contains("'num_experts_per_tok' is 3, more than the 2 experts"));
  CHECK_THAT(refused(decoder("llama", R"("attention_bias": 1)")), Contains("it must be true or false"));
  CHECK_THAT(refused(R"({"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 1, "n_positions": 16,
                         "vocab_size": 10})",
                     32),
             Contains("'n_positions' is 16: the model has no position for all of 32 tokens"));
  CHECK_THAT(refused(decoder("mistral", R"("sliding_window": 4, "layer_types": ["full_attention"])")),
             Contains("has 1 items for 2 blocks"));
}
