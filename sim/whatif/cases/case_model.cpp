#include "cases/case_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cases/case_degrees.h"
#include "cases/case_parts.h"
#include "cases/case_software.h"
#include "cases/case_text.h"
#include "cases/framework_name.h"
#include "cases/language_case.h"
#include "ddlsim/importers/hf_config.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/workload/blocks.h"

namespace ddlsim::whatif {
namespace {

bool names_any(const io::Case& one, std::initializer_list<std::string_view> some) {
  const std::string words = words_of(one.model);
  return std::any_of(some.begin(), some.end(), [&](std::string_view name) { return has_phrase(words, name); });
}

/// Rows of vocabularies by the words of a model's name (case_text.h), the first that it has: config.json of
/// huggingface.co/meta-llama, mistralai, Qwen, EleutherAI, facebook, google, google-bert, openai-community.
constexpr auto kVocabularies = std::to_array<std::pair<std::string_view, std::int64_t>>({
    {"llama 3", 128256},  {"llama 3.1", 128256},    {"llama 3.2", 128256},    {"llama 3.3", 128256},
    {"llama", 32000},     {"tinyllama", 32000},     {"mixtral", 32000},       {"mistral", 32000},
    {"qwen 3", 151936},   {"qwen 2.5 0.5", 151936}, {"qwen 2.5 1.5", 151936}, {"qwen 2.5 3", 151936},
    {"qwen 2.5", 152064}, {"qwen 2", 152064},       {"gpt 3", 50257},         {"gpt 2", 50257},
    {"gpt j", 50400},     {"neox", 50432},          {"opt", 50272},           {"distilbert", 30522},
    {"roberta", 50265},   {"distilroberta", 50265}, {"electra", 30522},       {"bert", 30522},
    {"mt 5", 250112},     {"t 5", 32128},
});

/// Rows of the vocabulary's table, where a case says them or what they are of.
std::optional<std::int64_t> rows_of_vocabulary(const io::Case& one) {
  if (const auto stated = count_of(one, "vocab")) return stated;
  for (const std::string& name : {one.model, one.said("tokenizer").value_or("")}) {
    const std::string words = words_of(name);
    const auto* const known = std::find_if(kVocabularies.begin(), kVocabularies.end(),
                                           [&](const auto& row) { return has_phrase(words, row.first); });
    if (known != kVocabularies.end()) return known->second;
  }
  // nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16 config.json.
  if (family_of(one) == ModelFamily::kHybrid) return 131072;
  return std::nullopt;
}

/// The same padded as Megatron does it; GPT-2's where nobody says.
std::int64_t padded_vocabulary(const io::Case& one) {
  const std::int64_t unit = 128 * count_or(one, "tp", 1);
  return (rows_of_vocabulary(one).value_or(kAssumedVocabulary) + unit - 1) / unit * unit;
}

/// A configuration's lines.
class Config {
 public:
  void add(std::string_view key, std::int64_t value) { text_ += fmt::format(", \"{}\": {}", key, value); }
  void add(std::string_view key, std::string_view word) { text_ += fmt::format(", \"{}\": {}", key, word); }
  [[nodiscard]] std::string text(std::string_view family) const {
    return fmt::format("{{\"model_type\": \"{}\"{}}}", family, text_);
  }

 private:
  std::string text_;
};

/// What most families call so.
Config sized_config(const Sizes& sizes) {
  Config config;
  config.add("hidden_size", sizes.hidden);
  config.add("num_hidden_layers", sizes.layers);
  config.add("num_attention_heads", sizes.heads);
  return config;
}

bool is_gpt_oss(const io::Case& one) { return names_any(one, {"gpt oss"}); }

std::string mixture_config(const io::Case& one, const Sizes& sizes, Config& config) {
  const std::int64_t width = count_or(one, "moe_ffn", count_or(one, "ffn", 4 * sizes.hidden));
  config.add("moe_intermediate_size", width);
  config.add("num_experts_per_tok", count_or(one, "top_k", 1));
  if (is_gpt_oss(one)) {
    // openai/gpt-oss-20b config.json: biases, every other layer looks at 128 keys.
    config.add("num_local_experts", count_or(one, "experts", 1));
    config.add("attention_bias", "true");
    config.add("sliding_window", 128);
    return "gpt_oss";
  }
  if (!says(one, "attention", "mla")) {
    config.add("num_experts", count_or(one, "experts", 1));
    return "qwen3_moe";
  }
  config.add("n_routed_experts", count_or(one, "experts", 1));
  config.add("n_shared_experts", count_or(one, "moe_shared_ffn", 0) / width);
  config.add("first_k_dense_replace", count_or(one, "dense_layers", 0));
  if (const auto rank = count_of(one, "q_lora_rank")) config.add("q_lora_rank", *rank);
  config.add("kv_lora_rank", count_or(one, "kv_lora_rank", 512));
  config.add("qk_nope_head_dim", count_or(one, "qk_head_dim", 128));
  config.add("qk_rope_head_dim", count_or(one, "qk_rope_head_dim", 64));
  config.add("v_head_dim", count_or(one, "v_head_dim", 128));
  return "deepseek_v3";
}

/// What every family with grouped attention has.
Config grouped_config(const io::Case& one, const Sizes& sizes) {
  Config config = sized_config(sizes);
  config.add("num_key_value_heads", count_or(one, "kv_heads", sizes.heads));
  config.add("vocab_size", sizes.vocabulary);
  if (const auto width = count_of(one, "head_dim")) config.add("head_dim", *width);
  return config;
}

std::string decoder_config(const io::Case& one, const Sizes& sizes) {
  Config config = grouped_config(one, sizes);
  config.add("intermediate_size", gated_size(one, is_gpt_oss(one) ? "moe_ffn" : "ffn", 4 * sizes.hidden));
  config.add("tie_word_embeddings", affirms(one, "tie_word_embeddings") ? "true" : "false");
  return family_of(one) == ModelFamily::kMixture ? config.text(mixture_config(one, sizes, config))
                                                 : config.text("llama");
}

/// What no row says is as in config.json of Nemotron 3 Nano: convolutions over 4 rows, one shared expert.
std::string hybrid_config(const io::Case& one, const Sizes& sizes) {
  Config config = grouped_config(one, sizes);
  if (!count_of(one, "head_dim")) config.add("head_dim", sizes.hidden / sizes.heads);
  config.add("intermediate_size", count_or(one, "ffn", 4 * sizes.hidden));
  config.add("hybrid_override_pattern", fmt::format("\"{}\"", *one.said("hybrid_layer_pattern")));
  config.add("mamba_num_heads", count_or(one, "mamba_heads", sizes.heads));
  config.add("mamba_head_dim", count_or(one, "mamba_head_dim", 64));
  config.add("n_groups", count_or(one, "mamba_groups", 8));
  config.add("ssm_state_size", count_or(one, "mamba_state_dim", 128));
  config.add("conv_kernel", 4);
  const std::int64_t width = count_or(one, "moe_ffn", count_or(one, "ffn", 4 * sizes.hidden));
  config.add("n_routed_experts", count_or(one, "experts", 1));
  config.add("num_experts_per_tok", count_or(one, "top_k", 1));
  config.add("moe_intermediate_size", width);
  const auto shared = count_of(one, "moe_shared_ffn");
  config.add("n_shared_experts", shared ? 1 : 0);
  config.add("moe_shared_expert_intermediate_size", shared.value_or(width));
  return config.text("nemotron_h");
}

std::string gpt_config(const io::Case& one, const Sizes& sizes) {
  Config config;
  config.add("n_embd", sizes.hidden);
  config.add("n_layer", sizes.layers);
  config.add("n_head", sizes.heads);
  config.add("n_positions", sizes.sequence);
  config.add("vocab_size", sizes.vocabulary);
  config.add("n_inner", count_or(one, "ffn", 4 * sizes.hidden));
  // transformers' own GPT-2 has GELU in single operations, what others write for a GPT does not.
  const bool by_transformers = has_any(framework_of(one), {"transformers", "hf trainer", "hugging"});
  const bool single = one.said("activation") ? says(one, "activation", "gelu_new") : by_transformers;
  config.add("activation_function", single ? "\"gelu_new\"" : "\"gelu\"");
  return config.text("gpt2");
}

std::string opt_config(const io::Case& one, const Sizes& sizes) {
  Config config = sized_config(sizes);
  config.add("max_position_embeddings", sizes.sequence);
  config.add("vocab_size", sizes.vocabulary);
  config.add("ffn_dim", count_or(one, "ffn", 4 * sizes.hidden));
  return config.text("opt");
}

/// Activations become `word`.
void activate_by(workload::Model& model, std::string_view word) {
  for (workload::Layer& layer : model.layers) {
    auto* op = layer.op ? std::get_if<workload::Pointwise>(&*layer.op) : nullptr;
    if (op != nullptr && op->reads == workload::Reads::kInput) *op = workload::pointwise(word);
  }
}

/// What the builder of GPTs takes otherwise: activations that keep what they make, no dropout.
void change_layers(workload::Model& model, bool relu, bool dropout) {
  if (relu) activate_by(model, "relu");
  if (!dropout) std::erase_if(model.layers, workload::is_dropout);
}

/// Of attention in several kernels dropout is the last one between both products.
void keep_all_scores(workload::Layer& layer) {
  const auto is_elementwise = [](const primitives::Kernel& kernel) {
    const auto* bound = std::get_if<primitives::MemoryBoundKernel>(&kernel.shape);
    return bound != nullptr && bound->kind == primitives::MemoryBoundKind::kElementwise;
  };
  const auto last = std::find_if(layer.forward.rbegin(), layer.forward.rend(), is_elementwise);
  if (layer.scores == 0 || last == layer.forward.rend()) return;
  layer.forward.erase(std::next(last).base());
  layer.forward_elements -= 2 * layer.scores;
  --layer.forward_kernels;
}

/// As inference runs. `joined`: attention is one kernel, of which dropout is no part.
void drop_nothing(workload::Model& model, bool joined) {
  std::erase_if(model.layers, workload::is_dropout);
  if (joined) return;
  for (workload::Layer& layer : model.layers) keep_all_scores(layer);
}

/// Whether a case says that the model had no head over its vocabulary.
bool has_no_head(const io::Case& one) {
  for (const char* key : {"head", "task"}) {
    const std::string said = lower_case(one.said(key).value_or(""));
    if (has_any(said,
                {"no head", "no lm head", "without head", "without a head", "without the head", "backbone only"})) {
      return true;
    }
  }
  return denies(one, "head");
}

/// Where the layers of a decoder's head begin, they end.
void drop_head(workload::Model& model) {
  const auto head = std::find_if(model.layers.begin(), model.layers.end(),
                                 [](const workload::Layer& layer) { return layer.name == "lm_head"; });
  model.layers.erase(head, model.layers.end());
}

/// With the head of pre-training over all positions, or a classifier.
std::string bert_config(const io::Case& one, const Sizes& sizes) {
  Config config = sized_config(sizes);
  config.add("max_position_embeddings", sizes.sequence);
  config.add("vocab_size", sizes.vocabulary);
  config.add("intermediate_size", count_or(one, "ffn", 4 * sizes.hidden));
  const bool classifies = phase_of(one) == TrainingPhase::kFineTuning;
  config.add("architectures", classifies ? "[\"BertForSequenceClassification\"]" : "[\"BertForPreTraining\"]");
  return config.text("bert");
}

/// T5 1.1 has gated MLPs and a head of its own (arXiv 1910.10683; google-research/text-to-text-transfer-transformer,
/// released_checkpoints.md).
std::string t5_config(const io::Case& one, const Sizes& sizes) {
  const bool gated = says(one, "mlp", "gated") || says(one, "mlp", "glu") || names_any(one, {"v 1.1", "mt 5", "flan"});
  Config config;
  config.add("d_model", sizes.hidden);
  config.add("num_layers", count_or(one, "encoder_layers", sizes.layers));
  config.add("num_decoder_layers", count_or(one, "decoder_layers", sizes.layers));
  config.add("num_heads", sizes.heads);
  config.add("d_kv", count_or(one, "head_dim", std::max<std::int64_t>(sizes.hidden / sizes.heads, 1)));
  config.add("d_ff", count_or(one, "ffn", 4 * sizes.hidden));
  config.add("vocab_size", sizes.vocabulary);
  config.add("feed_forward_proj", gated ? "\"gated-gelu\"" : "\"relu\"");
  config.add("tie_word_embeddings", gated ? "false" : "true");
  return config.text("t5");
}

std::string vit_config(const io::Case& one, const Sizes& sizes) {
  Config config = sized_config(sizes);
  config.add("intermediate_size", count_or(one, "ffn", 4 * sizes.hidden));
  config.add("image_size", count_or(one, "image_size", 224));
  config.add("patch_size", count_or(one, "patch", 16));
  return config.text("vit");
}

std::string config_of(const io::Case& one, const Sizes& sizes) {
  switch (family_of(one)) {
    case ModelFamily::kHybrid: return hybrid_config(one, sizes);
    case ModelFamily::kLlama:
    case ModelFamily::kMixture: return decoder_config(one, sizes);
    case ModelFamily::kOpt: return opt_config(one, sizes);
    case ModelFamily::kBert: return bert_config(one, sizes);
    case ModelFamily::kT5: return t5_config(one, sizes);
    case ModelFamily::kVit: return vit_config(one, sizes);
    case ModelFamily::kGpt: break;
  }
  return gpt_config(one, sizes);
}

}  // namespace

std::int64_t count_or(const io::Case& one, std::string_view key, std::int64_t otherwise) {
  return count_of(one, key).value_or(otherwise);
}

std::int64_t gated_size(const io::Case& one, std::string_view key, std::int64_t otherwise) {
  // Llama's own configuration (params.json): a multiple of two thirds of four times the width, rounded up.
  const auto hidden = count_of(one, "hidden");
  const auto multiplier = parse_number(one.said("ffn_dim_multiplier").value_or(""));
  if (hidden && multiplier && *multiplier > 0 && *multiplier < 100 && !one.said(key)) {
    const std::int64_t unit = count_or(one, "multiple_of", 256);
    const std::int64_t two_thirds = 8 * *hidden / 3;
    const double width = *multiplier * static_cast<double>(two_thirds);
    return static_cast<std::int64_t>(std::ceil(width / static_cast<double>(unit))) * unit;
  }
  const std::int64_t size = count_or(one, key, otherwise);
  std::string said;
  for (const char* word : {"activation", "activation_function", "mlp"}) {
    said += " " + lower_case(one.said(word).value_or(""));
  }
  if (has_any(said, {"glu", "gated"})) return size;
  const bool plain = has_any(said, {"relu", "gelu"});
  const bool usual =
      names_any(one, {"gpt", "nemotron 4", "falcon", "starcoder"}) && size == 4 * count_or(one, "hidden", 1);
  if (!plain && !usual) return size;
  // What ranks share evenly, and tensor cores take by eights.
  const std::int64_t unit = 8 * count_or(one, "tp", 1);
  return std::max<std::int64_t>((size * 2 / 3 + unit / 2) / unit, 1) * unit;
}

ModelFamily family_of(const io::Case& one) {
  if (one.said("hybrid_layer_pattern")) return ModelFamily::kHybrid;
  const bool decodes = one.said("seq_len_dec") || one.said("decoder_layers");
  if (decodes || names_any(one, {"t 5", "mt 5"})) return ModelFamily::kT5;
  if (one.said("patch")) return ModelFamily::kVit;
  if (count_or(one, "experts", 0) > 1) return ModelFamily::kMixture;
  const bool llama = names_any(one, {"llama", "tinyllama", "codellama", "mistral", "qwen"});
  if (one.said("kv_heads") || llama) return ModelFamily::kLlama;
  if (names_any(one, {"gpt"})) return ModelFamily::kGpt;
  if (names_any(one, {"opt"})) return ModelFamily::kOpt;
  // BERT's blocks; ALBERT's shared weights count in every layer, DeBERTa's attention to distances does not.
  if (names_any(one, {"bert", "roberta", "distilbert", "distilroberta", "electra", "albert", "deberta"})) {
    return ModelFamily::kBert;
  }
  return names_any(one, {"vit"}) ? ModelFamily::kVit : ModelFamily::kGpt;
}

/// Of `extra`, where they are said.
constexpr std::array<std::string_view, 28> kCounts{"layers",
                                                   "hidden",
                                                   "heads",
                                                   "kv_heads",
                                                   "ffn",
                                                   "moe_ffn",
                                                   "vocab",
                                                   "seq_len",
                                                   "patch",
                                                   "experts",
                                                   "top_k",
                                                   "head_dim",
                                                   "seq_len_dec",
                                                   "encoder_layers",
                                                   "image_size",
                                                   "decoder_layers",
                                                   "tp",
                                                   "pp",
                                                   "cp",
                                                   "ep",
                                                   "etp",
                                                   "dp",
                                                   "vp",
                                                   "micro_batch",
                                                   "global_batch",
                                                   "grad_accum",
                                                   "tokens_per_sample",
                                                   "lora_rank"};

Expected<void> check_counts(const io::Case& one) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  for (const std::string_view key : kCounts) {
    const auto text = one.said(key);
    if (!text) continue;
    const auto count = count_of(one, key);
    if (count && *count >= 1 && *count <= kMost) continue;
    return fail(ErrorCode::kInvalidArgument, fmt::format("extra: {} is '{}'", key, text->substr(0, 60)), one.where,
                {fmt::format("write a whole number from 1 to {}, or leave it out", kMost)});
  }
  return {};
}

bool assumes_vocabulary(const io::Case& one) { return family_of(one) != ModelFamily::kVit && !rows_of_vocabulary(one); }

Expected<Sizes> sizes_of(const io::Case& one, bool may_assume) {
  if (auto counts = check_counts(one); !counts) return tl::unexpected<Error>(counts.error());
  std::string missing;
  const auto need = [&](std::string_view key, std::optional<std::int64_t> value) {
    if (!value) missing += (missing.empty() ? "" : ", ") + std::string(key);
    return value.value_or(1);
  };
  const bool images = family_of(one) == ModelFamily::kVit;
  const Sizes sizes{.layers = need("layers", count_of(one, "layers")),
                    .hidden = need("hidden", count_of(one, "hidden")),
                    .heads = need("heads", count_of(one, "heads")),
                    .vocabulary = images ? 1 : padded_vocabulary(one),
                    .sequence = need("seq_len", count_of(one, "seq_len"))};
  if (!may_assume && assumes_vocabulary(one)) need("vocab", std::nullopt);
  if (missing.empty()) return sizes;
  return fail(ErrorCode::kUnsupported, "the source does not say the model's " + missing, one.where);
}

Expected<std::shared_ptr<const workload::Model>> language_model_of(const io::Case& one) {
  const ModelFamily family = family_of(one);
  if (says(one, "attention", "mamba") && family != ModelFamily::kHybrid) {
    return fail(ErrorCode::kUnsupported, "the source does not say which blocks are state-space ones");
  }
  const auto sizes = sizes_of(one, true);
  if (!sizes) return tl::unexpected<Error>(sizes.error());
  importers::HfOptions options;
  options.id = "case";
  if (family != ModelFamily::kVit) options.sequence = sizes->sequence;
  options.target = count_of(one, "seq_len_dec");
  auto imported = importers::parse_hf_config(config_of(one, *sizes), one.where.file, options);
  if (!imported) return tl::unexpected<Error>(imported.error());
  workload::Model model = std::move(imported->model);
  model.name = one.model;
  model.optimizer = workload::Optimizer::kAdam;
  change_layers(model, family == ModelFamily::kOpt, !says(one, "dropout", "none"));
  if (has_no_head(one)) drop_head(model);
  auto totals = workload::total(model.layers);
  if (!totals) return tl::unexpected<Error>(totals.error());
  model.totals = std::move(*totals);
  return std::make_shared<const workload::Model>(std::move(model));
}

Expected<void> as_run(const io::Case& one, Scenario& scenario) {
  const bool whole = says(one, "activation", "gelu") && !says(one, "activation", "gelu_new");
  const bool evaluates = one.metric == io::CaseMetric::kForwardMilliseconds;
  const bool thaws = says(one, "frozen", "none");
  auto layers = gives_sizes(one) ? std::nullopt : count_of(one, "layers");
  if (layers && has_layers(*scenario.model, *layers)) layers.reset();
  if (!whole && !evaluates && !thaws && !layers) return {};
  workload::Model changed = *scenario.model;
  if (layers) {
    if (auto kept = keep_first_layers(changed, *layers); !kept) return kept;
  }
  if (thaws) {
    if (auto thawed = unfreeze(changed); !thawed) return thawed;
  }
  if (layers || thaws) changed.published = {};
  if (whole) activate_by(changed, "gelu");
  if (evaluates) drop_nothing(changed, scenario.fusion.attention);
  auto totals = workload::total(changed.layers);
  if (!totals) return tl::unexpected<Error>(totals.error());
  changed.totals = std::move(*totals);
  scenario.model = std::make_shared<const workload::Model>(std::move(changed));
  return {};
}

}  // namespace ddlsim::whatif
