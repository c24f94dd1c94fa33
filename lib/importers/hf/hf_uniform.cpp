#include "hf_uniform.h"

#include <string>
#include <utility>

namespace ddlsim::importers::hf {
namespace {

namespace wl = ddlsim::workload;

class UniformBuilder {
 public:
  UniformBuilder(const UniformDecoder& decoder, std::int64_t rows) : is_(decoder), stack_(rows) {}

  Family build() {
    add_embeddings();
    for (std::int64_t i = 0; i < is_.blocks; ++i) add_block();
    add_norm("final_norm");
    stack_.add("linear", wl::Linear{.out = is_.vocabulary, .bias = is_.head_bias, .tied = is_.tied}, "lm_head");
    if (is_.scaled_logits) stack_.add("scale", wl::pointwise("scale"), "logit_scale");
    stack_.add("softmax", wl::pointwise("softmax"), "loss");
    Family family = family_of_tokens(stack_.rows());
    family.layers = stack_.take();
    family.notes = notes();
    return family;
  }

 private:
  void add_embeddings() {
    stack_.table(is_.vocabulary, is_.width, "embed_tokens");
    if (is_.position == PositionKind::kLearned) {
      stack_.table(is_.positions, is_.width, "embed_positions");
      stack_.add("add", wl::Combine{}, "positions");
    }
    if (is_.scaled_embedding) stack_.add("scale", wl::pointwise("scale"), "embed_scale");
    if (is_.embedding_norm) add_norm("embedding_norm");
    drop(is_.dropout.embedding, "embedding_dropout");
  }

  void add_block() {
    if (is_.side_by_side > 0) {
      add_norm("input_layernorm");
      if (is_.side_by_side > 1) add_norm("mlp_layernorm");
      add_attention();
      add_mlp();
      stack_.add("add", wl::Combine{}, "attention_and_mlp");
      drop(is_.dropout.sum, "sum_dropout");
      stack_.add("add", wl::Combine{}, "residual");
      return;
    }
    if (!is_.norms_behind) add_norm("input_layernorm");
    add_attention();
    add_residual("post_attention_layernorm", "attention_residual");
    if (!is_.norms_behind) add_norm("post_attention_layernorm");
    add_mlp();
    add_residual("post_feedforward_layernorm", "mlp_residual");
  }

  void add_residual(const char* norm, const char* name) {
    if (is_.norms_behind) add_norm(norm);
    if (is_.scaled_residual) stack_.add("scale", wl::pointwise("scale"), "residual_scale");
    stack_.add("add", wl::Combine{}, name);
  }

  void add_norm_on(const wl::Shape& sizes, const char* name) {
    switch (is_.norm) {
      case NormKind::kLayer: return stack_.add_on(sizes, "layernorm", wl::LayerNorm{}, name);
      case NormKind::kRms:
      case NormKind::kNoBias: return stack_.add_on(sizes, "rmsnorm", wl::RmsNorm{}, name);
      case NormKind::kBare: return stack_.add_on(sizes, "scale", wl::pointwise("scale"), name);
    }
  }
  void add_norm(const char* name) { add_norm_on({is_.width}, name); }

  void drop(bool drops, const char* name) {
    if (drops) stack_.add("dropout", wl::pointwise("dropout"), name);
  }

  /// A clamp: its backward reads what it read, as that of ReLU6, which is one.
  void clip(std::int64_t width) { stack_.add_on({width}, "relu6", wl::pointwise("relu6"), "clip_qkv"); }

  void add_projections(std::int64_t queries, std::int64_t keys) {
    if (is_.fused_qkv) {
      stack_.add_on({is_.width}, "linear", wl::Linear{.out = queries + 2 * keys, .bias = is_.qkv_bias}, "qkv_proj");
    } else {
      stack_.add_on({is_.width}, "linear", wl::Linear{.out = queries, .bias = is_.qkv_bias}, "q_proj");
      stack_.add_on({is_.width}, "linear", wl::Linear{.out = keys, .bias = is_.qkv_bias}, "k_proj");
      stack_.add_on({is_.width}, "linear", wl::Linear{.out = keys, .bias = is_.qkv_bias}, "v_proj");
    }
    if (is_.qk_norm == QkNormKind::kPerHead) {
      add_norm_on({is_.heads, is_.head}, "q_norm");
      add_norm_on({is_.kv_heads, is_.head}, "k_norm");
    }
    if (is_.qk_norm == QkNormKind::kWhole) {
      add_norm_on({queries}, "q_norm");
      add_norm_on({keys}, "k_norm");
    }
    if (is_.clipped && is_.fused_qkv) clip(queries + 2 * keys);
    if (is_.clipped && !is_.fused_qkv) {
      for (const std::int64_t width : {queries, keys, keys}) clip(width);
    }
    if (is_.position == PositionKind::kRotary) {
      stack_.add_on({queries + keys}, "rotary", wl::pointwise("rotary"), "rotary");
    }
  }

  void add_attention() {
    const std::int64_t queries = is_.heads * is_.head;
    add_projections(queries, is_.kv_heads * is_.head);
    const bool alibi = is_.position == PositionKind::kAlibi;
    if (alibi || is_.wide_softmax) {
      stack_.add_on({queries}, "attention",
                    wl::Attention{.heads = is_.heads, .causal = true, .biased = alibi, .wide = is_.wide_softmax},
                    "attention");
    } else {
      stack_.add_on(
          {queries}, "grouped_attention",
          wl::GroupedAttention{
              .heads = is_.heads, .kv_heads = is_.kv_heads, .width = is_.head, .window = is_.window, .causal = true},
          "attention");
    }
    stack_.add("linear", wl::Linear{.out = is_.width, .bias = is_.output_bias}, "o_proj");
    drop(is_.dropout.attention, "attention_dropout");
  }

  void add_mlp() {
    if (is_.gated && is_.fused_gate) {
      stack_.add_on({is_.width}, "linear", wl::Linear{.out = 2 * is_.inner, .bias = is_.mlp_bias}, "gate_up_proj");
    } else if (is_.gated) {
      stack_.add_on({is_.width}, "linear", wl::Linear{.out = is_.inner, .bias = is_.mlp_bias}, "gate_proj");
    }
    if (!is_.fused_gate) {
      stack_.add_on({is_.width}, "linear", wl::Linear{.out = is_.inner, .bias = is_.mlp_bias}, "up_proj");
    }
    if (is_.gated) {
      stack_.add_on({is_.inner}, "swiglu", wl::Combine{.product = true, .gated = true}, "act");
    } else {
      stack_.add(is_.activation, wl::pointwise(is_.activation), "act");
    }
    stack_.add("linear", wl::Linear{.out = is_.width, .bias = is_.mlp_bias}, "down_proj");
    drop(is_.dropout.mlp, "mlp_dropout");
  }

  [[nodiscard]] std::vector<std::string> notes() const {
    std::vector<std::string> notes;
    if (is_.position == PositionKind::kAlibi) notes.emplace_back("Alibi is added within attention's scores.");
    if (is_.side_by_side > 0) notes.emplace_back("Attention and MLP read the same input.");
    if (is_.norm == NormKind::kNoBias) notes.emplace_back("A layer norm without bias is written as rmsnorm.");
    if (is_.norm == NormKind::kBare) notes.emplace_back("A layer norm without weights is written as scale.");
    if (is_.note != nullptr) notes.emplace_back(is_.note);
    return notes;
  }

  const UniformDecoder& is_;
  Stack stack_;
};

}  // namespace

Family build_uniform(const UniformDecoder& decoder, std::int64_t rows) { return UniformBuilder(decoder, rows).build(); }

}  // namespace ddlsim::importers::hf
