// Hugging Face configurations of two stacks, of sound and of images: counts beside the published ones.
#include <catch2/catch.hpp>
#include <string>

#include "catalog.h"
#include "ddlsim/importers/hf_config.h"
#include "ddlsim/io/model_file.h"
#include "unit/importers/as_shipped.h"

namespace {

using namespace ddlsim;
using namespace ddlsim::importers;
using Catch::Matchers::Contains;

HfImport towers(const std::string& text, std::optional<std::int64_t> sequence = {}) {
  auto result = parse_hf_config(text, "folder/config.json", {.id = {}, .batch = 1, .sequence = sequence});
  if (!result) FAIL(to_string(result.error()) << "\n" << text);
  return std::move(*result);
}

std::string towers_refused(const std::string& text, std::optional<std::int64_t> sequence = {}) {
  const auto result = parse_hf_config(text, "config.json", {.id = {}, .batch = 1, .sequence = sequence});
  REQUIRE_FALSE(result);
  return to_string(result.error());
}

std::string with_type(const std::string& type, const std::string& more) {
  return R"({"model_type": ")" + type + "\"" + (more.empty() ? "" : ", ") + more + "}";
}

std::string labels(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += (i == 0 ? "\"" : ", \"") + std::to_string(i) + "\": \"x\"";
  return R"("id2label": {)" + text + "}";
}

const std::string kT5Base =
    R"({"architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "d_ff": 3072, "d_kv": 64, "d_model": 768,
        "n_positions": 512, "num_heads": 12, "num_layers": 12, "relative_attention_num_buckets": 32,
        "vocab_size": 32128})";

const std::string kWhisperSmall =
    R"({"architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper", "d_model": 768,
        "encoder_layers": 12, "decoder_layers": 12, "encoder_attention_heads": 12, "decoder_attention_heads": 12,
        "encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072, "num_mel_bins": 80, "max_source_positions": 1500,
        "max_target_positions": 448, "activation_function": "gelu", "vocab_size": 51865})";

std::string wav2vec_base(const std::string& head) {
  return R"({"architectures": ["Wav2Vec2)" + head + R"("], "model_type": "wav2vec2", "hidden_size": 768,
             "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072, "conv_bias": false,
             "conv_dim": [512, 512, 512, 512, 512, 512, 512], "conv_kernel": [10, 3, 3, 3, 3, 2, 2],
             "conv_stride": [5, 2, 2, 2, 2, 2, 2], "feat_extract_norm": "group", "do_stable_layer_norm": false,
             "num_conv_pos_embeddings": 128, "num_conv_pos_embedding_groups": 16, "vocab_size": 32})";
}

const std::string kWav2vecLarge =
    R"({"architectures": ["Wav2Vec2Model"], "model_type": "wav2vec2", "hidden_size": 1024, "num_hidden_layers": 24,
        "num_attention_heads": 16, "intermediate_size": 4096, "conv_bias": true, "feat_extract_norm": "layer",
        "do_stable_layer_norm": true})";

const std::string kConvNext = R"("architectures": ["ConvNextForImageClassification"], "depths": [3, 3, 9, 3],
    "hidden_sizes": [96, 192, 384, 768], "image_size": 224, "layer_scale_init_value": 1e-06, "num_channels": 3,
    "patch_size": 4, )" + labels(1000);

const std::string kSwin = R"("architectures": ["SwinForImageClassification"], "depths": [2, 2, 6, 2], "embed_dim": 96,
    "image_size": 224, "mlp_ratio": 4.0, "num_heads": [3, 6, 12, 24], "patch_size": 4, "qkv_bias": true,
    "window_size": 7, )" + labels(1000);

/// What the zoo's model of the same network computes, forward.
double zoo_work(const std::string& id) { return test::catalog().model(id).value()->totals.forward_work.in(gigaflops); }

}  // namespace

TEST_CASE("hf: two stacks, sound and images have the published counts", "[unit][io]") {
  CHECK(towers(with_type("clip", R"("architectures": ["CLIPModel"], "projection_dim": 512, "text_config": {},
                                    "vision_config": {"patch_size": 32})"))
            .model.parameters() == 151'277'313);
  // ViT-L/14 with a text tower of 768.
  CHECK(towers(with_type("clip", R"("projection_dim": 768, "text_config": {"hidden_size": 768,
                "intermediate_size": 3072, "num_attention_heads": 12}, "vision_config": {"hidden_size": 1024,
                "intermediate_size": 4096, "num_attention_heads": 16, "num_hidden_layers": 24, "patch_size": 14})"))
            .model.parameters() == 427'616'513);
  CHECK(towers(kT5Base).model.parameters() == 222'903'552);
  // T5 1.1 base: gated, head of its own.
  CHECK(towers(with_type("t5", R"("d_ff": 2048, "d_kv": 64, "d_model": 768, "num_heads": 12, "num_layers": 12,
                "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false, "vocab_size": 32128)"))
            .model.parameters() == 247'577'856);
  CHECK(towers(kWhisperSmall).model.parameters() == 241'734'912);
  CHECK(towers(wav2vec_base("Model")).model.parameters() == 94'371'712);
  CHECK(towers(wav2vec_base("ForCTC")).model.parameters() == 94'396'320);
  // fairseq's 95 million: a quantiser of 640 words of 128, its scores from 512, and two projections to 256.
  CHECK(towers(wav2vec_base("ForPreTraining")).model.parameters() ==
        94'371'712 + 640 * 128 + 640 * 513 + 256 * 769 + 256 * 257);
  CHECK(towers(kWav2vecLarge).model.parameters() == 315'438'720);
  CHECK(towers(with_type("convnext", kConvNext)).model.parameters() == 28'589'128);
  CHECK(towers(with_type("swin", kSwin)).model.parameters() == 28'288'354);
}

TEST_CASE("hf: two stacks, sound and images cost what the zoo's models of them cost", "[unit][io]") {
  const auto work = [](const HfImport& import) { return import.model.totals.forward_work.in(gigaflops); };
  CHECK(work(towers(kT5Base)) == Approx(zoo_work("t5_base")));
  CHECK(work(towers(kWhisperSmall)) == Approx(zoo_work("whisper_small")));
  CHECK(work(towers(wav2vec_base("ForCTC"))) == Approx(zoo_work("wav2vec2_base")));
  CHECK(work(towers(with_type("convnext", kConvNext))) == Approx(zoo_work("convnext_tiny")));
  CHECK(work(towers(with_type("swin", kSwin))) == Approx(zoo_work("swin_t")));
  // The zoo's also compares each pair with 128 others: 2 * 512 * 128 FLOP.
  CHECK(work(towers(with_type("clip", ""))) + 2 * 512 * 128 / 1e9 == Approx(zoo_work("clip_vit_b32")));
}

TEST_CASE("hf: lengths of two stacks", "[unit][io]") {
  // 256 source tokens and 57 targets: cross-attention of one block is 4 * 57 * 256 * 768 FLOP.
  const HfImport shorter = towers(kT5Base, 256);
  double cross = 0;
  for (const workload::Layer& layer : shorter.model.layers) {
    if (layer.name == "attention" && layer.in == workload::Shape{57, 768}) cross += layer.forward_work.in(flops);
  }
  CHECK(cross == Approx(12.0 * 4 * 57 * (256 + 57) * 768));
  CHECK_THAT(shorter.description.notes, Contains("256 source tokens") && Contains("57 target ones"));
  CHECK_THAT(towers_refused(kWhisperSmall, 449), Contains("'max_target_positions' is 448"));
  CHECK_THAT(towers_refused(with_type("clip", ""), 78), Contains("'text_config.max_position_embeddings' is 77"));
  CHECK_THAT(towers_refused(wav2vec_base("ForCTC"), 399), Contains("'conv_kernel'") && Contains("--sequence"));
  CHECK(towers(wav2vec_base("ForCTC"), 400).model.parameters() == 94'396'320);
}

TEST_CASE("hf: two stacks, sound and images survive the model file", "[unit][io]") {
  for (const std::string& text : {with_type("clip", ""), kT5Base, kWhisperSmall, wav2vec_base("ForPreTraining"),
                                  with_type("convnext", kConvNext), with_type("swin", kSwin)}) {
    ddlsim::test::check_survives_its_file(towers(text));
  }
}

TEST_CASE("hf: faults of two stacks, sound and images", "[unit][io]") {
  CHECK_THAT(towers_refused(with_type("clip", R"("vision_config": 3)")),
             Contains("'vision_config' is 3") && Contains("it must be an object"));
  CHECK_THAT(towers_refused(with_type("clip", R"("vision_config": {"patch_size": 300, "num_attention_heads": 5})")),
             Contains("'vision_config.patch_size' is 300") && Contains("'vision_config.num_attention_heads' is 5"));
  CHECK_THAT(towers_refused(with_type("t5", R"("d_ff": 8, "d_kv": 2, "d_model": 4, "num_heads": 2, "num_layers": 1,
                                              "vocab_size": 9, "feed_forward_proj": "gated-sinus")")),
             Contains("'feed_forward_proj' is 'gated-sinus'"));
  CHECK_THAT(towers_refused(with_type("whisper", R"("d_model": 8)")), Contains("'encoder_layers' is missing"));
  const std::string small =
      R"("hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 8)";
  CHECK_THAT(towers_refused(with_type("wav2vec2", small + R"(, "conv_dim": [4, 4])")), Contains("'conv_kernel' 7"));
  CHECK_THAT(towers_refused(with_type("wav2vec2", small + R"(, "conv_dim": [0, 4])")), Contains("outside 1 to 65536"));
  CHECK_THAT(towers_refused(with_type("wav2vec2", small + R"(, "feat_extract_norm": "batch")")),
             Contains("known: group, layer"));
  CHECK_THAT(towers_refused(with_type("wav2vec2", small + R"(, "add_adapter": true)")), Contains("'add_adapter'"));
  CHECK_THAT(towers_refused(with_type("convnext", R"("depths": [1, 1])")), Contains("'hidden_sizes' has 4 sizes"));
  CHECK_THAT(towers_refused(with_type("convnext", R"("image_size": 16)")), Contains("nothing to halve"));
  CHECK_THAT(towers_refused(with_type("swin", R"("embed_dim": 97)")), Contains("does not divide a width of 97"));
  CHECK_THAT(towers_refused(with_type("swin", R"("mlp_ratio": -1)")), Contains("a number above 0"));
  CHECK_THAT(towers_refused(with_type("swin", R"("use_absolute_embeddings": true)")),
             Contains("these positions have no rule"));
  CHECK_THAT(towers_refused(with_type("swin", R"("depths": [])")), Contains("'depths' has no sizes"));
  CHECK_THAT(towers_refused(with_type("swin", R"("depths": [1000, 1, 1, 1])")), Contains("over 1000 blocks"));
}
