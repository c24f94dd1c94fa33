// Hugging Face decoders whose blocks are all alike: their counts beside the published ones, and operator by operator
// beside the models of the catalogue.
#include <catch2/catch.hpp>
#include <string>

#include "ddlsim/importers/hf_config.h"
#include "ddlsim/io/model_file.h"
#include "unit/importers/as_shipped.h"

namespace {

using namespace ddlsim;
using namespace ddlsim::importers;
using Catch::Matchers::Contains;

HfImport uniform(const std::string& text, std::optional<std::int64_t> sequence = 64) {
  auto result = parse_hf_config(text, "folder/config.json", {.id = {}, .batch = 1, .sequence = sequence});
  if (!result) FAIL(to_string(result.error()) << "\n" << text);
  return std::move(*result);
}

std::string uniform_refused(const std::string& text) {
  const auto result = parse_hf_config(text, "config.json", {.id = {}, .batch = 1, .sequence = 8});
  REQUIRE_FALSE(result);
  return to_string(result.error());
}

void uniform_as_shipped(const std::string& id, const std::string& text, std::int64_t sequence) {
  test::check_as_shipped(id, uniform(text, sequence));
}

std::string uniform_of(const std::string& type, const std::string& more) {
  return R"({"model_type": ")" + type + "\", " + more + "}";
}

/// Width, blocks, heads, inner size and vocabulary under the names that most classes have.
std::string uniform_sizes(const std::string& type, const std::string& numbers, const std::string& more = {}) {
  std::string text;
  std::size_t at = 0;
  for (const char* key :
       {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size"}) {
    const std::size_t end = std::min(numbers.find(' ', at), numbers.size());
    text += std::string(text.empty() ? "" : ", ") + "\"" + key + "\": " + numbers.substr(at, end - at);
    at = std::min(end + 1, numbers.size());
  }
  return uniform_of(type, text + (more.empty() ? "" : ", " + more));
}

const std::string kFalcon40b = R"("hidden_size": 8192, "num_hidden_layers": 60, "num_attention_heads": 128,
    "num_kv_heads": 8, "new_decoder_architecture": true, "vocab_size": 65024)";
const std::string kSmallMpt = R"("d_model": 8, "n_layers": 2, "n_heads": 2, "vocab_size": 10)";
const std::string kSmallGlm = R"("hidden_size": 8, "num_layers": 2, "num_attention_heads": 4, "kv_channels": 2,
    "ffn_hidden_size": 12, "padded_vocab_size": 10)";

}  // namespace

TEST_CASE("hf: uniform decoders are the catalogue's, operator by operator", "[unit][io]") {
  uniform_as_shipped("bloom_7b1", uniform_of("bloom", R"("hidden_size": 4096, "n_layer": 30, "n_head": 32,
                                                    "vocab_size": 250880, "hidden_dropout": 0.0)"),
                     2048);
  uniform_as_shipped("bloom_176b", uniform_of("bloom", R"("n_embed": 14336, "n_layer": 70, "num_attention_heads": 112,
                                       "vocab_size": 250880)"),
                     2048);
  uniform_as_shipped("falcon_7b", uniform_of("falcon", R"("hidden_size": 4544, "num_hidden_layers": 32,
                                                     "num_attention_heads": 71, "multi_query": true,
                                                     "parallel_attn": true, "vocab_size": 65024)"),
                     2048);
  uniform_as_shipped("falcon_40b", uniform_of("falcon", kFalcon40b), 2048);
  uniform_as_shipped("falcon_180b", uniform_of("falcon", R"("hidden_size": 14848, "num_hidden_layers": 80,
                                                       "num_attention_heads": 232, "num_kv_heads": 8,
                                                       "new_decoder_architecture": true, "vocab_size": 65024)"),
                     2048);
  uniform_as_shipped("olmo_7b", uniform_sizes("olmo", "4096 32 32 11008 50304"), 2048);
  uniform_as_shipped("olmo_2_7b", uniform_sizes("olmo2", "4096 32 32 11008 100352"), 4096);
  uniform_as_shipped("internlm2_7b",
                     uniform_sizes("internlm2", "4096 32 32 14336 92544", R"("num_key_value_heads": 8, "bias": false)"),
                     4096);
  uniform_as_shipped("internlm2_20b",
                     uniform_sizes("internlm2", "6144 48 48 16384 92544", R"("num_key_value_heads": 8, "bias": false)"),
                     4096);
  uniform_as_shipped("starcoder2_7b",
                     uniform_sizes("starcoder2", "4608 32 36 18432 49152", R"("num_key_value_heads": 4)"), 4096);
  uniform_as_shipped("baichuan2_7b",
                     uniform_sizes("baichuan", "4096 32 32 11008 125696",
                                   R"("max_position_embeddings": 4096, "model_max_length": 4096)"),
                     4096);
  uniform_as_shipped("baichuan2_13b",
                     uniform_sizes("baichuan", "5120 40 40 13696 125696", R"("model_max_length": 4096)"), 4096);
  uniform_as_shipped(
      "starcoder2_3b",
      uniform_sizes("starcoder2", "3072 30 24 12288 49152", R"("num_key_value_heads": 2, "sliding_window": 4096)"),
      4096);
  uniform_as_shipped("starcoder2_15b",
                     uniform_sizes("starcoder2", "6144 40 48 24576 49152",
                                   R"("num_key_value_heads": 4, "tie_word_embeddings": false)"),
                     4096);
  uniform_as_shipped("starcoder_15b", uniform_of("gpt_bigcode", R"("n_embd": 6144, "n_layer": 40, "n_head": 48,
                                        "n_inner": 24576, "n_positions": 8192, "vocab_size": 49152)"),
                     8192);
  uniform_as_shipped("gptj_6b",
                     uniform_of("gptj", R"("n_embd": 4096, "n_layer": 28, "n_head": 16, "vocab_size": 50400)"), 2048);
  uniform_as_shipped("gpt_neo_1_3b", uniform_of("gpt_neo", R"("hidden_size": 2048, "num_layers": 24, "num_heads": 16,
                                                          "intermediate_size": null, "vocab_size": 50257,
                                                          "max_position_embeddings": 2048)"),
                     2048);
  const std::string glm = R"("hidden_size": 4096, "num_attention_heads": 32, "kv_channels": 128, "add_qkv_bias": true,
                             "ffn_hidden_size": 13696, "multi_query_attention": true, "multi_query_group_num": 2)";
  uniform_as_shipped("chatglm2_6b", uniform_of("chatglm", glm + R"(, "num_layers": 28, "padded_vocab_size": 65024)"),
                     4096);
  uniform_as_shipped("glm_4_9b", uniform_of("chatglm", glm + R"(, "num_layers": 40, "padded_vocab_size": 151552)"),
                     4096);
}

TEST_CASE("hf: uniform decoders have the published counts", "[unit][io]") {
  const auto count = [](const std::string& text) { return uniform(text).model.parameters(); };
  // Tensors of the checkpoints on huggingface.co: bigscience/bloom-560m, mosaicml/mpt-7b, microsoft/phi-2,
  // stabilityai/stablelm-3b-4e1t, CohereForAI/c4ai-command-r-v01, ibm-granite/granite-3.0-8b-instruct,
  // bigcode/santacoder (converted). By hand: 12 d^2 + 13 d for each of bloom's blocks, and so on.
  CHECK(count(uniform_of("bloom",
                         R"("n_embed": 1024, "n_layer": 24, "num_attention_heads": 16, "vocab_size": 250880)")) ==
        559'214'592);
  CHECK(count(uniform_of("mpt", R"("d_model": 4096, "n_layers": 32, "n_heads": 32, "vocab_size": 50432,
                                "attn_config": {"alibi": true}, "no_bias": true, "expansion_ratio": 4)")) ==
        6'649'286'656);
  CHECK(count(uniform_sizes("phi", "2560 32 32 10240 51200", R"("num_key_value_heads": null)")) == 2'779'683'840);
  CHECK(count(uniform_sizes("stablelm", "2560 32 32 6912 50304")) == 2'795'443'200);
  CHECK(count(uniform_sizes("cohere", "8192 40 64 22528 256000")) == 34'980'831'232);
  CHECK(
      count(uniform_sizes("granite", "4096 40 32 12800 49155",
                          R"("num_key_value_heads": 8, "tie_word_embeddings": true, "embedding_multiplier": 12.0)")) ==
      8'170'848'256);
  CHECK(count(uniform_of("gpt_bigcode", R"("n_embd": 2048, "n_layer": 24, "n_head": 16, "n_inner": 8192,
                                        "n_positions": 2048, "vocab_size": 49280)")) == 1'124'886'528);
}

TEST_CASE("hf: switches of uniform decoders", "[unit][io]") {
  const auto count = [](const std::string& text) { return uniform(text).model.parameters(); };
  const std::string falcon = R"("hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 10)";
  // Tables of 10 by 8, two norms a block of 16, one at the end; 64 + 8 * 24 of attention, 512 of the MLP.
  const std::string rw = falcon + R"(, "multi_query": false, "parallel_attn": false)";
  CHECK(count(uniform_of("falcon", rw)) == 80 + 2 * (64 + 192 + 512 + 32) + 16);
  CHECK(count(uniform_of("falcon", rw + R"(, "bias": true)")) == 80 + 2 * (64 + 192 + 512 + 32 + 8 + 24 + 32 + 8) + 16);
  const HfImport alibi = uniform(uniform_of("falcon", rw + R"(, "alibi": true, "hidden_dropout": 0.1)"));
  CHECK(test::layers_named(alibi, "rotary") == 0);
  CHECK(test::layers_named(alibi, "mlp_dropout") == 2);
  CHECK(test::layers_named(alibi, "attention_dropout") == 0);
  // Falcon 2 11B: grouped heads, one norm for both.
  CHECK(count(uniform_of("falcon", falcon + R"(, "new_decoder_architecture": true, "num_kv_heads": 2,
                                            "num_ln_in_parallel_attn": 1, "ffn_hidden_size": 20,
                                            "tie_word_embeddings": false)")) ==
        160 + 2 * (64 + 8 * 16 + 2 * 8 * 20 + 16) + 16);
  CHECK(test::layers_named(uniform(uniform_of("falcon", falcon + R"(, "hidden_dropout": 0.1)")), "sum_dropout") == 2);
  CHECK(test::layers_named(uniform(uniform_sizes("olmo", "8 2 2 12 10", R"("clip_qkv": 8.0)")), "clip_qkv") == 6);
  CHECK(test::layers_named(uniform(uniform_sizes("olmo", "8 2 2 12 10", R"("clip_qkv": null)")), "clip_qkv") == 0);
  CHECK(test::layers_named(
            uniform(uniform_of("mpt", kSmallMpt + R"(, "attn_config": {"clip_qkv": 6, "attn_pdrop": 0.1})")),
            "mlp_dropout") == 2);
  const HfImport granite = uniform(uniform_sizes("granite", "8 2 2 12 10"));
  CHECK(test::layers_named(granite, "residual_scale") == 4);
  CHECK(test::layers_named(granite, "embed_scale") + test::layers_named(granite, "logit_scale") == 2);
  // One set for all heads with Phi, a value each with Cohere.
  CHECK(count(uniform_sizes("phi", "8 1 2 12 10", R"("qk_layernorm": true)")) ==
        count(uniform_sizes("phi", "8 1 2 12 10")) + 2 * 2 * 4);
  CHECK(count(uniform_sizes("cohere", "8 1 2 12 10", R"("use_qk_norm": true)")) ==
        count(uniform_sizes("cohere", "8 1 2 12 10")) + 2 * 8);
  // StableLM 2: a norm less where both read one.
  CHECK(count(uniform_sizes("stablelm", "8 1 2 12 10", R"("num_key_value_heads": 2, "use_parallel_residual": true)")) ==
        count(uniform_sizes("stablelm", "8 1 2 12 10", R"("num_key_value_heads": 2)")) - 16);
  CHECK(count(uniform_of("chatglm", kSmallGlm + R"(, "add_bias_linear": true)")) ==
        count(uniform_of("chatglm", kSmallGlm)) + 2 * (24 + 8 + 24 + 8));
  CHECK(count(uniform_sizes("internlm2", "8 1 2 12 10")) ==
        count(uniform_sizes("internlm2", "8 1 2 12 10", R"("bias": false)")) + 24 + 8);
  // GPTBigCode's class drops a tenth where nothing is said.
  const std::string code = R"("n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 64, "vocab_size": 10)";
  CHECK(test::layers_named(uniform(uniform_of("gpt_bigcode", code)), "mlp_dropout") == 2);
  CHECK(test::layers_named(uniform(uniform_of("gpt_bigcode", code + R"(, "resid_pdrop": 0)")), "mlp_dropout") == 0);
  CHECK(count(uniform_of("gpt_bigcode", code + R"(, "multi_query": false)")) ==
        count(uniform_of("gpt_bigcode", code)) + 2 * 9 * 8);
}

TEST_CASE("hf: uniform decoders' lengths", "[unit][io]") {
  const auto rows = [](const std::string& text) { return uniform(text, {}).model.layers.front().in.front(); };
  CHECK(rows(uniform_sizes("olmo", "8 1 2 12 10")) == 2048);
  CHECK(rows(uniform_sizes("cohere", "8 1 2 12 10")) == 4096);
  CHECK(rows(uniform_sizes("baichuan", "8 1 2 12 10", R"("model_max_length": 512)")) == 512);
  CHECK(rows(uniform_of("chatglm", kSmallGlm + R"(, "seq_length": 32768)")) == 4096);
  // A window shortens attention: 16 queries that see at most 4 keys, 4 * 5 / 2 + 12 * 4 pairs.
  const HfImport windowed =
      uniform(uniform_sizes("starcoder2", "8 1 2 12 10", R"("num_key_value_heads": 2, "sliding_window": 4)"), 16);
  for (const workload::Layer& layer : windowed.model.layers) {
    if (layer.name == "attention") CHECK(layer.forward_work.in(flops) == 58.0 * 2 * 2 * (4 + 4));
  }
}

TEST_CASE("hf: uniform decoders survive the model file", "[unit][io]") {
  for (const std::string& text :
       {uniform_of("falcon", kFalcon40b), uniform_of("mpt", kSmallMpt), uniform_of("chatglm", kSmallGlm),
        uniform_sizes("olmo", "8 2 2 12 10", R"("clip_qkv": 8)"),
        uniform_sizes("baichuan", "8 2 2 12 10", R"("model_max_length": 9)")}) {
    ddlsim::test::check_survives_its_file(uniform(text, 32));
  }
}

TEST_CASE("hf: faults of uniform decoders", "[unit][io]") {
  CHECK_THAT(uniform_refused(uniform_sizes("baichuan", "8 2 2 12 10")),
             Contains("'max_position_embeddings' is missing") && Contains("alibi, as the 13B's"));
  CHECK_THAT(uniform_refused(uniform_of("bloom", R"("hidden_size": 8, "n_embed": 16, "n_layer": 1, "n_head": 2,
                                                 "vocab_size": 10)")),
             Contains("'n_embed' is 16, and 'hidden_size' something else"));
  CHECK_THAT(uniform_refused(uniform_of("falcon", R"("hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 4,
                                                  "num_kv_heads": 3, "new_decoder_architecture": true,
                                                  "parallel_attn": false, "vocab_size": 10)")),
             Contains("'num_kv_heads' is 3, which does not divide 4 heads") && Contains("'parallel_attn' is false"));
  CHECK_THAT(uniform_refused(uniform_of("falcon", R"("hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 4,
                                                  "alibi": true, "vocab_size": 10)")),
             Contains("'alibi' is true, with fewer heads of keys"));
  CHECK_THAT(uniform_refused(uniform_sizes("olmo", "8 2 3 12 10")),
             Contains("'num_attention_heads' is 3, which does not divide 'hidden_size', 8"));
  CHECK_THAT(uniform_refused(uniform_sizes("granite", "8 2 4 12 10", R"("num_key_value_heads": 3)")),
             Contains("'num_key_value_heads' is 3"));
  CHECK_THAT(uniform_refused(uniform_of("mpt", kSmallMpt + R"(, "attn_config": {"alibi": false, "qk_ln": true},
                                                            "no_bias": false, "expansion_ratio": 2)")),
             Contains("'attn_config.alibi'") && Contains("'attn_config.qk_ln'") && Contains("'no_bias'") &&
                 Contains("'expansion_ratio'"));
  CHECK_THAT(uniform_refused(uniform_of("mpt", kSmallMpt + R"(, "attn_config": {"attn_pdrop": 2})")),
             Contains("'attn_config.attn_pdrop' is 2") && Contains("from 0 to 1"));
  CHECK_THAT(
      uniform_refused(uniform_sizes("stablelm", "8 1 2 12 10", R"("num_key_value_heads": 2, "qk_layernorm": true)")),
      Contains("a norm of its own for every head"));
  CHECK_THAT(uniform_refused(uniform_of("chatglm", kSmallGlm + R"(, "position_encoding_2d": true)")),
             Contains("the first ChatGLM"));
  CHECK_THAT(uniform_refused(uniform_of("chatglm", kSmallGlm + R"(, "pre_seq_len": 128)")),
             Contains("a trained prefix"));
  CHECK_THAT(uniform_refused(uniform_of("chatglm", kSmallGlm + R"(, "multi_query_attention": true,
                                                                "multi_query_group_num": 3)")),
             Contains("'multi_query_group_num' is 3"));
  CHECK_THAT(uniform_refused(uniform_of("gpt_bigcode", R"("n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 4,
                                                       "vocab_size": 10)")),
             Contains("'n_positions' is 4: the model has no position for all of 8 tokens"));
  CHECK_THAT(uniform_refused(uniform_sizes("phi", "8 1 2 12 10", R"("hidden_act": "sinus")")),
             Contains("'hidden_act'"));
  CHECK_THAT(uniform_refused(uniform_of("phi", R"("hidden_size": 8)")),
             Contains("'num_hidden_layers' is missing") && Contains("'intermediate_size' is missing"));
}
