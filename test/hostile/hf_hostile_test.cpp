// What bad config.json files get: a clear error, an exit status, in little time and memory.
#include <catch2/catch.hpp>
#include <string>

#include "hostile/run_program.h"

namespace {

using namespace ddlsim::test;
using Catch::Matchers::Contains;

std::string refused(const std::string& file, const Words& more = {}, int status = 1) {
  return refused_import("hf", file, more, status);
}

std::string llama(const std::string& hidden, const std::string& blocks, const std::string& more = {}) {
  return R"({"model_type": "llama", "hidden_size": )" + hidden + R"(, "num_hidden_layers": )" + blocks +
         R"(, "num_attention_heads": 1, "intermediate_size": 8, "vocab_size": 8)" + more + "}";
}

}  // namespace

TEST_CASE("hostile: configs that are none say what they are") {
  const TempFolder folder;
  CHECK_THAT(refused(folder.file("a.json", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")),
             Contains("Git LFS pointer") && Contains("git lfs pull"));
  CHECK_THAT(refused(folder.file("b.json", "")), Contains("is empty"));
  CHECK_THAT(refused(folder.file("c.json", "model: x\n")), Contains("c.json:1:1: error: is not JSON"));
  CHECK_THAT(refused(folder.file("d.json", "[1, 2]")), Contains("is no JSON object"));
  CHECK_THAT(refused(folder.file("e.json", "{\"model_type\": \"llama\",\n\"hidden_size\": 4")),
             Contains("was cut short"));
  CHECK_THAT(refused((folder.path() / "none.json").string()), Contains("none.json"));
  CHECK_THAT(refused(folder.path().string()), Contains("error"));
  CHECK_THAT(refused("/dev/zero"), Contains("error"));
  CHECK_THAT(refused(folder.file("f.json", "{\"a\": \"\xFF\xFE\"}")), Contains("is not JSON"));
  CHECK_THAT(refused(folder.file("g.json", R"({"text_config": 3})")), Contains("'text_config' is no object"));
}

TEST_CASE("hostile: configs that are deep, large or say things twice") {
  const TempFolder folder;
  CHECK_THAT(refused(folder.file("deep.json", "{\"a\": ", "[", 10'000'000)), Contains("over 64 levels"));
  CHECK_THAT(refused(folder.file("objects.json", "", "{\"a\":", 3'000'000)), Contains("over 64 levels"));
  CHECK_THAT(refused(folder.file("large.json", "{\"a\": \"", "x", 17U << 20U)), Contains("16 MiB"));
  CHECK_THAT(refused(folder.file("wide.json", "{\"a\": [0", ",0", 7'000'000)), Contains("over 1000000 values"));
  CHECK_THAT(refused(folder.file("many.json", "{\"a\": [", "{},", 5'000'000)), Contains("over 1000000 values"));
  CHECK_THAT(refused(folder.file("twice.json", llama("8", "2", ",\n\"hidden_size\": 16"))),
             Contains("twice.json:2:1: error: the key 'hidden_size' stands twice"));
}

TEST_CASE("hostile: numbers of a config beyond all measure") {
  const TempFolder folder;
  const auto file = [&](const std::string& text) { return folder.file("n.json", text); };
  CHECK_THAT(refused(file(llama("1099511627776", "2"))), Contains("'hidden_size' is 1099511627776"));
  CHECK_THAT(refused(file(llama("1e400", "2"))), Contains("error"));
  CHECK_THAT(refused(file(llama("18446744073709551615", "2"))), Contains("'hidden_size' is 18446744073709551615"));
  CHECK_THAT(refused(file(llama("2147483648", "1000"))), Contains("2^53"));
  CHECK_THAT(refused(file(llama("8", "1001"))), Contains("'num_hidden_layers' is 1001") && Contains("from 1 to 1000"));
  CHECK_THAT(refused(file(llama("8", "2", R"(, "max_position_embeddings": 0)"))),
             Contains("'max_position_embeddings'"));
  CHECK_THAT(refused(file(R"({"model_type": "mixtral", "hidden_size": 8, "num_hidden_layers": 1000, "vocab_size": 8,
                              "num_attention_heads": 1, "num_key_value_heads": 1, "intermediate_size": 8, "num_local_experts": 4096,
                              "num_experts_per_tok": 2})")),
             Contains("gradient tensors"));
  CHECK_THAT(refused(file(R"({"model_type": "swin", "image_size": 65536, "patch_size": 1, "embed_dim": 1048576,
                              "num_heads": [1, 1, 1, 1], "window_size": 1024})")),
             Contains("2^53"));
  CHECK_THAT(refused(file(R"({"model_type": "t5", "d_model": 2147483648, "d_kv": 65536, "d_ff": 2147483648,
                              "num_heads": 65536, "num_layers": 1000, "vocab_size": 2147483648})")),
             Contains("2^53"));
  CHECK_THAT(refused(file(R"({"model_type": "clip", "vision_config": {"hidden_size": 2147483649}})")),
             Contains("'vision_config.hidden_size' is 2147483649"));
}

TEST_CASE("hostile: configs whose keys contradict each other or have another type") {
  const TempFolder folder;
  const auto file = [&](const std::string& text) { return folder.file("n.json", text); };
  const auto sized = [](const std::string& type, const std::string& more) {
    return R"({"model_type": ")" + type +
           R"(", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8,
               "vocab_size": 8, )" +
           more + "}";
  };
  CHECK_THAT(refused(file(sized("falcon", R"("multi_query": "yes")"))), Contains("'multi_query' is \"yes\""));
  CHECK_THAT(refused(file(sized("falcon", R"("n_head": 4)"))),
             Contains("n.json:2:") && Contains("'n_head' is 4, and 'num_attention_heads' something else"));
  CHECK_THAT(refused(file(sized("falcon", R"("num_ln_in_parallel_attn": 3)"))), Contains("from 1 to 2"));
  CHECK_THAT(refused(file(sized("olmo", R"("clip_qkv": -8)"))), Contains("'clip_qkv' is -8"));
  CHECK_THAT(refused(file(sized("starcoder2", R"("residual_dropout": 1.5)"))), Contains("'residual_dropout' is 1.5"));
  CHECK_THAT(refused(file(sized("phi", R"("num_key_value_heads": 3)"))), Contains("does not divide 2 heads"));
  CHECK_THAT(refused(file(sized("granite", R"("num_key_value_heads": 2147483648)"))), Contains("does not divide"));
  CHECK_THAT(refused(file(sized("baichuan", R"("model_max_length": 0)"))), Contains("'model_max_length' is 0"));
  CHECK_THAT(refused(file(sized("roberta", R"("max_position_embeddings": 9, "pad_token_id": 2147483648)"))),
             Contains("none is left"));
  CHECK_THAT(refused(file(R"({"model_type": "chatglm", "hidden_size": 2147483648, "num_layers": 1000, "vocab_size": 8,
                              "num_attention_heads": 65536, "kv_channels": 65536, "ffn_hidden_size": 2147483648,
                              "padded_vocab_size": 2147483648})")),
             Contains("2^53"));
  CHECK_THAT(refused(file(R"({"model_type": "mpt", "d_model": 8, "n_layers": 1, "n_heads": 2, "vocab_size": 8,
                              "attn_config": []})")),
             Contains("'attn_config' is a list"));
  CHECK_THAT(refused(file(R"({"model_type": "bart", "d_model": 2147483648, "encoder_layers": 1000,
                              "decoder_layers": 1000, "encoder_attention_heads": 1, "decoder_attention_heads": 1,
                              "encoder_ffn_dim": 2147483648, "decoder_ffn_dim": 8, "vocab_size": 8})")),
             Contains("2^53"));
}

TEST_CASE("hostile: wrong usage of import hf") {
  const TempFolder folder;
  const std::string good = folder.file("good.json", llama("8", "2"));
  refused(good, {"--sequence", "0"}, 2);
  refused(good, {"--sequence", "many"}, 2);
  refused(good, {"--target", "0"}, 2);
  refused(good, {"--batch", "-1"}, 2);
  refused(good, {"-o", "out.txt"}, 2);
  CHECK_THAT(refused(good, {"--sequence", "2147483648"}), Contains("2^53"));
  const Outcome fine = run_program({"import", "hf", good, "--sequence", "16"});
  CHECK(fine.status == 0);
  CHECK_THAT(fine.out, Contains("grouped_attention") && Contains("dimensions: {sequence: 16}"));
  CHECK_THAT(fine.err, Contains("good: "));
}
