// BART and mBART: encoder and decoder with learned positions, cross-attention and one table of words for both sides and
// the head (modeling_bart.py and modeling_mbart.py of transformers).
#include <fmt/core.h>

#include "hf_towers.h"

namespace ddlsim::importers::hf {
namespace {

namespace wl = ddlsim::workload;

/// What both sides have.
struct BartTraits {
  bool norms_first = false;  // mBART: before attention and MLP, and one more behind each side
  const char* activation = "gelu";
  bool scaled = false;
  bool drops = true;
  bool drops_activation = false;
};

/// Of one side.
struct BartSide {
  const char* name;
  std::int64_t blocks;
  std::int64_t heads;
  std::int64_t inner;
};

/// A side's sizes; heads that do not divide the width are a fault.
BartSide bart_side(ConfigReader& config, const char* name, std::int64_t width) {
  const std::string side = name;
  const std::string heads_key = side + "_attention_heads";
  const BartSide sizes{name, config.size((side + "_layers").c_str(), {1, kMostBlocks}),
                       config.size(heads_key.c_str(), kModest), config.size((side + "_ffn_dim").c_str())};
  if (width % sizes.heads != 0) {
    config.report(heads_key.c_str(), fmt::format("is {}, which does not divide 'd_model', {}", sizes.heads, width));
  }
  return sizes;
}

class BartBuilder {
 public:
  BartBuilder(Stack& stack, const BartTraits& traits) : stack_(stack), traits_(traits) {}

  void add_side(Tower& rows, const BartSide& side, std::int64_t positions, std::int64_t keys) {
    const std::string name = side.name;
    rows.table(positions, name + "_positions");
    rows.sum(name + "_positions_sum");
    norm(rows, name + "_layernorm_embedding");
    drop(rows, name + "_dropout");
    for (std::int64_t i = 0; i < side.blocks; ++i) {
      add_attention(rows, side.heads, rows.rows(), keys > 0, "self_attn");
      if (keys > 0) add_attention(rows, side.heads, keys, false, "encoder_attn");
      add_feed(rows, side.inner);
    }
    if (traits_.norms_first) norm(rows, name + "_layer_norm");
  }

 private:
  static void norm(Tower& rows, std::string name) { rows.add("layernorm", wl::LayerNorm{}, std::move(name)); }
  void drop(Tower& rows, std::string name) const {
    if (traits_.drops) rows.add("dropout", wl::pointwise("dropout"), std::move(name));
  }

  /// Attention of `rows` to `keys` rows, with its norm and residual sum.
  void add_attention(Tower& rows, std::int64_t heads, std::int64_t keys, bool causal, const std::string& name) {
    const std::int64_t width = rows.width();
    if (traits_.norms_first) norm(rows, name + "_layer_norm");
    rows.linear(width, width, name + "_q_proj");
    Tower others(stack_, keys, width);
    others.linear(width, width, name + "_k_proj");
    others.linear(width, width, name + "_v_proj");
    rows.add("attention", wl::Attention{.heads = heads, .keys = name == "self_attn" ? 0 : keys, .causal = causal},
             name);
    rows.linear(width, width, name + "_out_proj");
    drop(rows, name + "_dropout");
    rows.sum(name + "_residual");
    if (!traits_.norms_first) norm(rows, name + "_layer_norm");
  }

  void add_feed(Tower& rows, std::int64_t inner) {
    if (traits_.norms_first) norm(rows, "final_layer_norm");
    rows.linear(rows.width(), inner, "fc1");
    rows.on(inner, traits_.activation, wl::pointwise(traits_.activation), "activation");
    if (traits_.drops_activation) rows.on(inner, "dropout", wl::pointwise("dropout"), "activation_dropout");
    rows.linear(inner, rows.width(), "fc2");
    drop(rows, "fc2_dropout");
    rows.sum("feed_residual");
    if (!traits_.norms_first) norm(rows, "final_layer_norm");
  }

  Stack& stack_;
  const BartTraits& traits_;
};

}  // namespace

Family bart_family(ConfigReader& config, const Request& request) {
  const Positions table{"max_position_embeddings", 1024};
  const std::int64_t source = tokens_of(config, request, table);
  const std::int64_t target = request.target.value_or(source);
  const std::int64_t most = config.size_or(table.key, table.usual);
  if (target > most) {
    config.report(table.key, fmt::format("is {}: the model has no position for all of {} target tokens", most, target),
                  {fmt::format("ask for at most {} (--target)", most)});
  }
  const std::int64_t width = config.size("d_model");
  const std::int64_t vocabulary = config.size("vocab_size");
  const BartSide encoder = bart_side(config, "encoder", width);
  const BartSide decoder = bart_side(config, "decoder", width);
  const BartTraits traits{.norms_first = request.model_type == "mbart",
                          .activation = activation_of(config, "activation_function", "gelu"),
                          .scaled = config.flag_or("scale_embedding", false),
                          .drops = config.probability_or("dropout", 0.1) > 0,
                          .drops_activation = config.probability_or("activation_dropout", 0) > 0};
  const bool tied = config.flag_or("tie_word_embeddings", true);
  if (!tied) {
    config.report("tie_word_embeddings", "is false: tables of each side's own have no rule here", {},
                  ErrorCode::kUnsupported);
  }
  if (config.failed()) return {};
  Stack stack(source);
  Tower sources(stack, source, width);
  Tower targets(stack, target, width);
  stack.add_apart({source}, "embedding",
                  wl::Embedding{.rows = vocabulary, .width = width, .lookups = source + target, .out = {source, width}},
                  "shared");
  if (traits.scaled) sources.add("scale", wl::pointwise("scale"), "encoder_embed_scale");
  BartBuilder builder(stack, traits);
  // The table has two rows before the first position.
  builder.add_side(sources, encoder, most + 2, 0);
  if (traits.scaled) targets.add("scale", wl::pointwise("scale"), "decoder_embed_scale");
  builder.add_side(targets, decoder, most + 2, source);
  if (request.head == "ForConditionalGeneration") {
    targets.on(width, "linear", wl::Linear{.out = vocabulary, .bias = false, .tied = tied}, "lm_head");
    stack.add("softmax", wl::pointwise("softmax"), "loss");
  }
  Family family = family_of_text_pairs(source, target);
  family.layers = stack.take();
  family.notes = {fmt::format("A sample is {} source tokens (--sequence) and {} target ones (--target; as many where "
                              "nothing is said: BART is pre-trained to write its whole text again).",
                              source, target),
                  "Dropout of the attention probabilities is not listed. Attention is counted in full, without the "
                  "saving of the decoder's mask."};
  return family;
}

}  // namespace ddlsim::importers::hf
