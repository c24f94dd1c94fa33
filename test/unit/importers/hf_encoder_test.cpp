// Hugging Face encoders, and BART's two sides: counts beside the published ones, operators beside the catalogue's.
#include <array>
#include <catch2/catch.hpp>
#include <string>

#include "ddlsim/importers/hf_config.h"
#include "ddlsim/io/model_file.h"
#include "unit/importers/as_shipped.h"

namespace {

using namespace ddlsim;
using namespace ddlsim::importers;
using Catch::Matchers::Contains;

HfImport encoded(const std::string& text, const HfOptions& options = {}) {
  auto result = parse_hf_config(text, "folder/config.json", options);
  if (!result) FAIL(to_string(result.error()) << "\n" << text);
  return std::move(*result);
}

std::int64_t encoded_count(const std::string& text) { return encoded(text).model.parameters(); }

std::string encoder_refused(const std::string& text, const HfOptions& options = {}) {
  const auto result = parse_hf_config(text, "config.json", options);
  REQUIRE_FALSE(result);
  return to_string(result.error());
}

constexpr const char* kBase =
    R"("hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072, )";
constexpr const char* kLarge =
    R"("hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096, )";

/// A class, BERT's sizes and what else it says.
std::string encoder_config(const std::string& type, const std::string& architecture, const std::string& more,
                           const std::string& sizes = kBase) {
  return R"({"model_type": ")" + type + R"(", "architectures": [")" + architecture + R"("], )" + sizes + more + "}";
}

const std::string kXlm = R"("max_position_embeddings": 514, "type_vocab_size": 1, "vocab_size": 250002)";
const std::string kRoberta = R"("max_position_embeddings": 514, "type_vocab_size": 1, "vocab_size": 50265)";
const std::string kElectra = R"("embedding_size": 768, "max_position_embeddings": 512, "vocab_size": 30522)";

/// BART's or mBART's sizes: width, blocks of a side, heads, inner size and vocabulary.
std::string bart_config(const std::string& type, const std::array<int, 5>& sizes, const std::string& more = {}) {
  const auto [width, blocks, heads, inner, words] = sizes;
  std::string text = R"({"model_type": ")" + type + R"(", "d_model": )" + std::to_string(width);
  for (const std::string side : {"encoder", "decoder"}) {
    text += ", \"" + side + "_layers\": " + std::to_string(blocks);
    text += ", \"" + side + "_attention_heads\": " + std::to_string(heads);
    text += ", \"" + side + "_ffn_dim\": " + std::to_string(inner);
  }
  return text + ", \"vocab_size\": " + std::to_string(words) + (more.empty() ? "" : ", ") + more + "}";
}

/// ELECTRA small's sizes.
std::string electra_small(const std::string& head) {
  return R"({"model_type": "electra", "architectures": ["Electra)" + head +
         R"("], "embedding_size": 128, "hidden_size": 256, "num_hidden_layers": 12, "num_attention_heads": 4,
            "intermediate_size": 1024, "max_position_embeddings": 512, "vocab_size": 30522})";
}

}  // namespace

TEST_CASE("hf: encoders and BART are the catalogue's, operator by operator", "[unit][io]") {
  const HfOptions all{.id = {}, .batch = 1, .sequence = 512};
  test::check_as_shipped("roberta_base", encoded(encoder_config("roberta", "RobertaForMaskedLM", kRoberta), all));
  test::check_as_shipped("xlm_roberta_base",
                         encoded(encoder_config("xlm-roberta", "XLMRobertaForMaskedLM", kXlm), all));
  test::check_as_shipped("electra_base", encoded(encoder_config("electra", "ElectraForPreTraining", kElectra), all));
  test::check_as_shipped("roberta_large",
                         encoded(encoder_config("roberta", "RobertaForMaskedLM", kRoberta, kLarge), all));
  test::check_as_shipped("xlm_roberta_large",
                         encoded(encoder_config("xlm-roberta", "XLMRobertaForMaskedLM", kXlm, kLarge), all));
  const std::string wide = R"("embedding_size": 1024, "max_position_embeddings": 512, "vocab_size": 30522)";
  test::check_as_shipped("electra_large",
                         encoded(encoder_config("electra", "ElectraForPreTraining", wide, kLarge), all));
  const HfOptions summary{.id = {}, .batch = 1, .sequence = 1024, .target = 128};
  test::check_as_shipped(
      "bart_base", encoded(bart_config("bart", {768, 6, 12, 3072, 50265}, R"("activation_dropout": 0.1)"), summary));
  test::check_as_shipped(
      "bart_large", encoded(bart_config("bart", {1024, 12, 16, 4096, 50265}, R"("activation_dropout": 0.1)"), summary));
}

TEST_CASE("hf: encoders and BART have the published counts", "[unit][io]") {
  // Tensors of xlm-roberta-base, roberta-base, google/electra-small-discriminator and facebook/mbart-large-cc25 on
  // huggingface.co, buffers left out.
  CHECK(encoded_count(encoder_config("xlm-roberta", "XLMRobertaModel", kXlm)) == 278'043'648);
  CHECK(encoded_count(encoder_config("roberta", "RobertaModel", kRoberta)) == 124'645'632);
  CHECK(encoded_count(electra_small("ForPreTraining")) == 13'549'057);
  CHECK(encoded_count(electra_small("Model")) == 13'483'008);
  CHECK(encoded_count(bart_config("mbart", {1024, 12, 16, 4096, 250027}, R"("scale_embedding": true)")) == 610'851'840);
  // Two labels by hand: a layer and 2 * 769 beside a model without pooler.
  CHECK(encoded_count(encoder_config("roberta", "RobertaForSequenceClassification", kRoberta)) ==
        124'645'632 + 2 * 769);
  // The generator's head: to 128 and back to the words, whose table it shares.
  CHECK(encoded_count(electra_small("ForMaskedLM")) == 13'483'008 + 257 * 128 + 256 + 30522);
}

TEST_CASE("hf: lengths and switches of encoders and BART", "[unit][io]") {
  const auto rows = [](const HfImport& import) { return import.model.layers.front().in.front(); };
  CHECK(rows(encoded(encoder_config("xlm-roberta", "XLMRobertaModel", kXlm))) == 512);
  CHECK_THAT(
      encoder_refused(encoder_config("roberta", "RobertaModel", kRoberta), {.id = {}, .batch = 1, .sequence = 513}),
      Contains("'max_position_embeddings' is 514, 2 of it padding") && Contains("at most 512"));
  CHECK(test::layers_named(encoded(electra_small("Model")), "embeddings_project") == 1);
  CHECK(test::layers_named(encoded(encoder_config("electra", "ElectraModel", kElectra)), "embeddings_project") == 0);
  CHECK(test::layers_named(encoded(encoder_config("roberta", "RobertaModel", kRoberta)), "output_dropout") == 12);
  CHECK(
      test::layers_named(encoded(encoder_config("roberta", "RobertaModel", kRoberta + R"(, "hidden_dropout_prob": 0)")),
                         "output_dropout") == 0);
  // As many target tokens as source ones where nobody says; no head where the class has none.
  const HfImport plain = encoded(bart_config("bart", {8, 1, 2, 12, 10}, R"("architectures": ["BartModel"])"));
  CHECK(test::layers_named(plain, "lm_head") == 0);
  CHECK_THAT(plain.description.notes, Contains("1024 source tokens") && Contains("1024 target ones"));
  const HfImport scaled = encoded(bart_config("bart", {8, 1, 2, 12, 10}, R"("scale_embedding": true, "dropout": 0.0)"));
  CHECK(test::layers_named(scaled, "encoder_embed_scale") + test::layers_named(scaled, "decoder_embed_scale") == 2);
  CHECK(test::layers_named(scaled, "fc2_dropout") == 0);
  // mBART has a norm more behind each side.
  CHECK(encoded_count(bart_config("mbart", {8, 1, 2, 12, 10})) ==
        encoded_count(bart_config("bart", {8, 1, 2, 12, 10})) + 2 * 16);
}

TEST_CASE("hf: faults of encoders and BART", "[unit][io]") {
  CHECK_THAT(
      encoder_refused(encoder_config("roberta", "RobertaModel", R"("max_position_embeddings": 2, "vocab_size": 9)")),
      Contains("'max_position_embeddings' is 2") && Contains("none is left"));
  CHECK_THAT(encoder_refused(
                 encoder_config("xlm-roberta", "XLMRobertaModel",
                                kXlm + R"(, "position_embedding_type": "relative_key", "add_cross_attention": true)")),
             Contains("'position_embedding_type' is 'relative_key'") && Contains("'add_cross_attention'"));
  CHECK_THAT(encoder_refused(encoder_config("roberta", "RobertaForTokenClassification", kRoberta)),
             Contains("no rule for the class 'RobertaForTokenClassification'") && Contains("ForMaskedLM"));
  CHECK_THAT(encoder_refused(bart_config("bart", {8, 1, 3, 12, 10})),
             Contains("'encoder_attention_heads' is 3") && Contains("'decoder_attention_heads' is 3"));
  CHECK_THAT(
      encoder_refused(bart_config("bart", {8, 1, 2, 12, 10}, R"("tie_word_embeddings": false, "dropout": "none")")),
      Contains("'tie_word_embeddings' is false") && Contains("'dropout' is \"none\""));
  CHECK_THAT(
      encoder_refused(bart_config("bart", {8, 1, 2, 12, 10}), {.id = {}, .batch = 1, .sequence = 8, .target = 2000}),
      Contains("no position for all of 2000 target tokens"));
  CHECK_THAT(encoder_refused(R"({"model_type": "bart", "d_model": 8})"),
             Contains("'encoder_layers' is missing") && Contains("'decoder_ffn_dim' is missing"));
  CHECK_THAT(encoder_refused(R"({"model_type": "albert"})"), Contains("serve all blocks"));
  for (const std::string type : {"deberta", "deberta-v2"}) {
    CHECK_THAT(encoder_refused(R"({"model_type": ")" + type + "\"}"), Contains("disentangled attention"));
  }
}
