#include <fmt/core.h>

#include <algorithm>

#include "ddlsim/support/names.h"
#include "hf_decoder_traits.h"
#include "hf_layers.h"

namespace ddlsim::importers::hf {
namespace {

namespace wl = ddlsim::workload;

constexpr wl::Combine kProduct{.product = true};
constexpr wl::Combine kGated{.product = true, .gated = true};

using Traits = DecoderTraits;

/// A mixture of experts, and which blocks have one.
struct Mixture {
  wl::Experts experts{};
  std::int64_t shared_width = 0;  // 0: no expert that every token goes through
  bool shared_gate = false;
  bool router_bias = false;
  std::int64_t first = 0;  // block
  std::int64_t every = 1;
  std::int64_t offset = 0;              // block i has one where (i + offset) % every == 0
  std::vector<std::int64_t> dense_too;  // blocks without one
};

class Decoder {
 public:
  Decoder(ConfigReader& config, const Request& request, const Traits& traits)
      : config_(config),
        traits_(traits),
        stack_(sequence_of(config, request, "max_position_embeddings", false)),
        hidden_(config.size("hidden_size")),
        blocks_(config.size("num_hidden_layers", {1, kMostBlocks})),
        heads_(size_of("num_attention_heads", traits.usual.heads)),
        inner_(config.size("intermediate_size")),
        vocabulary_(size_of("vocab_size", traits.usual.vocabulary)),
        tied_(config.flag_or("tie_word_embeddings", traits.tied)) {
    latent_ = traits.mixture == Traits::Mixture::kDeepseek;
    llama4_ = traits.mixture == Traits::Mixture::kLlama4;
    read_attention();
    read_windows();
    if (llama4_) read_chunks();
    if (traits.model_type == "smollm3") read_rotated();
    if (const auto more =
            config_.optional_size(latent_ ? "index_n_heads" : "num_nextn_predict_layers", {0, kLargestSize});
        more) {
      if (latent_) {
        read_indexer(*more);
      } else if (*more > 0) {
        notes_.push_back(fmt::format("The multi-token-prediction module ({} block) is left out.", *more));
      }
    }
    if (traits.whole_norm) read_whole_norm();
    if (traits.mixture != Traits::Mixture::kNone) read_mixture();
    if (config_.names("vision_config")) notes_.emplace_back("The vision tower is left out.");
  }

  Family build() {
    stack_.table(vocabulary_, hidden_, "embed_tokens");
    if (traits_.gemma) stack_.add("scale", wl::pointwise("scale"), "embed_scale");
    // After a fault the sizes are stand-ins: the faults are the answer.
    for (std::int64_t block = 0; block < blocks_ && !config_.failed(); ++block) add_block(block);
    stack_.add("rmsnorm", wl::RmsNorm{}, "norm");
    stack_.add("linear", wl::Linear{.out = vocabulary_, .bias = false, .tied = tied_}, "lm_head");
    stack_.add("softmax", wl::pointwise("softmax"), "loss");
    Family family;
    family.input_shape = {stack_.rows()};
    // Token ids and labels of 8 bytes each.
    family.input_per_sample = bytes(16.0 * static_cast<double>(stack_.rows()));
    family.input_source = "token ids and labels of 8 B each, as the Trainer of transformers copies them";
    family.layers = stack_.take();
    family.notes = std::move(notes_);
    return family;
  }

 private:
  /// A size that the class may have by default.
  std::int64_t size_of(const char* key, std::int64_t usual) {
    return usual > 0 && !config_.names(key) ? usual : config_.size(key);
  }
  std::optional<std::int64_t> optional_size_of(const char* key, std::int64_t usual) {
    return usual > 0 && !config_.names(key) ? std::optional(usual) : config_.optional_size(key);
  }

  void read_biases() {
    using Bias = Traits::Bias;
    const bool ernie = traits_.bias == Bias::kErnie;
    const bool seed = traits_.model_type == "seed_oss";
    if (traits_.bias == Bias::kQkv) {
      qkv_bias_ = config_.flag_or("qkv_bias", true);
    } else if (traits_.bias != Bias::kNone) {
      qkv_bias_ = config_.flag_or(ernie ? "use_bias" : "attention_bias", traits_.biased);
    }
    bias_ = qkv_bias_ && (traits_.bias == Bias::kStated || ernie);
    if (seed) bias_ = config_.flag_or("attention_out_bias", false);
    if (traits_.model_type == "llama" || seed) mlp_bias_ = config_.flag_or("mlp_bias", false);
    if (ernie) mlp_bias_ = bias_;
  }

  void read_attention() {
    read_biases();
    const bool glm = traits_.mixture == Traits::Mixture::kGlm;
    head_norm_ = traits_.qk_norm || (glm && config_.flag_or("use_qk_norm", false));
    if (latent_) {
      query_rank_ = config_.optional_size("q_lora_rank");
      kv_rank_ = config_.size("kv_lora_rank");
      nope_ = config_.size("qk_nope_head_dim");
      rope_ = config_.size("qk_rope_head_dim");
      width_ = nope_ + rope_;
      value_width_ = config_.size("v_head_dim");
      return;
    }
    kv_heads_ = optional_size_of("num_key_value_heads", traits_.usual.kv_heads).value_or(heads_);
    if (heads_ % kv_heads_ != 0) {
      config_.report("num_key_value_heads",
                     fmt::format("is {}, which does not divide 'num_attention_heads', {}", kv_heads_, heads_));
    }
    const auto width = optional_size_of("head_dim", traits_.usual.width);
    width_ = width.value_or(std::max<std::int64_t>(1, hidden_ / heads_));
    if (!width && hidden_ % heads_ != 0) {
      config_.report("num_attention_heads",
                     fmt::format("is {}, which does not divide 'hidden_size', {}", heads_, hidden_),
                     {"state 'head_dim' where it does not follow from the two"});
    }
  }

  /// Blocks whose queries look at the nearest tokens only.
  void read_windows() {
    windowed_.assign(static_cast<std::size_t>(blocks_), false);
    const auto window = optional_size_of("sliding_window", traits_.usual.window);
    if (!window || !config_.flag_or("use_sliding_window", traits_.bias != Traits::Bias::kQkv)) return;
    window_ = *window;
    const std::vector<std::string> types = config_.texts("layer_types");
    if (!types.empty() && static_cast<std::int64_t>(types.size()) != blocks_) {
      config_.report("layer_types", fmt::format("has {} items for {} blocks", types.size(), blocks_));
      return;
    }
    // gemma3: five of six; gemma2: every other one; qwen: from `max_window_layers` on; others: all.
    const bool gemma3 = traits_.model_type == "gemma3_text";
    const std::int64_t pattern = gemma3 ? config_.size_or("sliding_window_pattern", 6) : 1;
    const std::int64_t full = config_.size_or("max_window_layers", 0, {0, kLargestSize});
    const bool every_fourth = traits_.norms == Traits::Norms::kBehind;  // olmo3, exaone4: three windows, then none
    for (std::int64_t i = 0; i < blocks_; ++i) {
      bool windowed = i >= full;
      if (traits_.model_type == "gemma2") windowed = i % 2 == 0;
      if (traits_.oss) windowed = i % 2 == 0;
      if (gemma3) windowed = (i + 1) % pattern != 0;
      if (every_fourth) windowed = (i + 1) % 4 != 0;
      if (!types.empty()) windowed = types[static_cast<std::size_t>(i)] == "sliding_attention";
      windowed_[static_cast<std::size_t>(i)] = windowed;
    }
  }

  /// Llama 4: blocks with rotary positions look at their chunk alone, every fourth has none and looks at all.
  void read_chunks() {
    chunk_ = config_.size_or("attention_chunk_size", 8192);
    bare_norm_ = config_.flag_or("use_qk_norm", true);
    read_rotated();
  }

  /// Blocks without positions: as listed, else every fourth.
  void read_rotated() {
    const std::vector<std::int64_t> stated = config_.counts("no_rope_layers");
    const std::int64_t every = config_.size_or("no_rope_layer_interval", 4);
    if (!stated.empty() && static_cast<std::int64_t>(stated.size()) != blocks_) {
      config_.report("no_rope_layers", fmt::format("has {} items for {} blocks", stated.size(), blocks_));
      return;
    }
    for (std::int64_t i = 0; i < blocks_; ++i) {
      rotated_.push_back(stated.empty() ? (i + 1) % every != 0 : stated[static_cast<std::size_t>(i)] != 0);
    }
  }

  /// DeepSeek's sparse attention: an indexer chooses the keys that a query looks at.
  void read_indexer(std::int64_t heads) {
    if (heads == 0) return;
    indexer_ =
        wl::IndexScores{.heads = heads, .width = config_.size("index_head_dim"), .keep = config_.size("index_topk")};
    if (!query_rank_) config_.report("q_lora_rank", "is missing", {"the indexer's queries are made of it"});
    window_ = indexer_->keep;
    windowed_.assign(static_cast<std::size_t>(blocks_), true);
    notes_.emplace_back("The indexer is trained with the rest, and attention reads the keys it keeps.");
  }

  void read_whole_norm() {
    if (!config_.flag_or("use_qk_norm", true)) whole_norm_ = false;
    const std::string type = config_.text_or("qk_norm_type", "per_layer");
    if (type != "per_layer") {
      config_.report("qk_norm_type", "is '" + type.substr(0, 60) + "'", {"known: per_layer"}, ErrorCode::kUnsupported);
    }
    if (const auto modules = config_.optional_size("num_mtp_modules", {0, kMostBlocks}); modules && *modules > 0) {
      notes_.push_back(fmt::format("The multi-token-prediction modules ({}) are left out.", *modules));
    }
  }

  /// Blocks from one to another have experts, of which some see every token.
  void read_ernie() {
    mixture_.experts.experts = config_.size("moe_num_experts", {1, kMostExperts});
    mixture_.experts.active = config_.size("moe_k", {1, kMostExperts});
    mixture_.experts.width = config_.size("moe_intermediate_size");
    mixture_.shared_width = mixture_.experts.width * config_.size_or("moe_num_shared_experts", 2, {0, kMostExperts});
    mixture_.router_bias = true;  // it balances experts
    mixture_.first = config_.size_or("moe_layer_start_index", 1, {0, kLargestSize});
    mixture_.every = config_.size_or("moe_layer_interval", 1);
    mixture_.offset = 1;
    const std::int64_t last = config_.size_or("moe_layer_end_index", -1, {-1, kLargestSize});  // -1: the last block
    for (std::int64_t i = last < 0 ? blocks_ : last + 1; i < blocks_; ++i) mixture_.dense_too.push_back(i);
  }

  void read_mixture() {
    if (traits_.mixture == Traits::Mixture::kErnie) return read_ernie();
    const bool olmoe = traits_.mixture == Traits::Mixture::kOlmoe;
    const bool routed = latent_ || traits_.mixture == Traits::Mixture::kGlm;
    const char* count = traits_.mixture == Traits::Mixture::kMixtral || llama4_ ? "num_local_experts"
                        : routed                                                ? "n_routed_experts"
                                                                                : "num_experts";
    mixture_.experts.experts = config_.size(count, {1, kMostExperts});
    mixture_.experts.active = config_.size("num_experts_per_tok", {1, kMostExperts});
    if (mixture_.experts.active > mixture_.experts.experts) {
      config_.report("num_experts_per_tok", fmt::format("is {}, more than the {} experts of '{}'",
                                                        mixture_.experts.active, mixture_.experts.experts, count));
    }
    mixture_.experts.width = inner_;
    mixture_.experts.bias = traits_.oss;
    mixture_.router_bias = traits_.oss;
    if (traits_.mixture == Traits::Mixture::kMixtral || olmoe) return;
    if (llama4_) {
      mixture_.shared_width = inner_;
      inner_ = config_.size_or("intermediate_size_mlp", inner_);
      mixture_.offset = 1;
      mixture_.every = config_.size_or("interleave_moe_layer_step", 1);
      return;
    }
    mixture_.experts.width = config_.size("moe_intermediate_size");
    if (routed) {
      mixture_.shared_width = mixture_.experts.width * config_.size_or("n_shared_experts", 0, {0, kMostExperts});
      // The bias that balances experts without a loss term: a parameter of modeling_deepseek.py, though never trained.
      const bool v2 = traits_.model_type == "deepseek_v2";
      mixture_.router_bias = config_.text_or("topk_method", v2 ? "greedy" : "noaux_tc") == "noaux_tc";
      mixture_.first = config_.size_or("first_k_dense_replace", 0, {0, kLargestSize});
      mixture_.every = config_.size_or("moe_layer_freq", 1);
      const auto more = latent_ ? config_.optional_size("num_nextn_predict_layers", {0, kMostBlocks}) : std::nullopt;
      if (more && *more > 0) {
        notes_.push_back(fmt::format("The multi-token-prediction module ({} block) is left out.", *more));
      }
      return;
    }
    mixture_.offset = 1;
    mixture_.every = config_.size_or("decoder_sparse_step", 1);
    mixture_.dense_too = config_.counts("mlp_only_layers");
    if (traits_.model_type == "qwen2_moe") {
      mixture_.shared_width = config_.size("shared_expert_intermediate_size");
      mixture_.shared_gate = true;
    }
  }

  [[nodiscard]] bool has_mixture(std::int64_t block) const {
    if (traits_.mixture == Traits::Mixture::kNone || block < mixture_.first) return false;
    const auto& dense = mixture_.dense_too;
    return (block + mixture_.offset) % mixture_.every == 0 &&
           std::find(dense.begin(), dense.end(), block) == dense.end();
  }

  void add_block(std::int64_t block) {
    const bool before = traits_.norms != Traits::Norms::kBehind;
    const bool behind = traits_.norms != Traits::Norms::kBefore;
    if (before) stack_.add("rmsnorm", wl::RmsNorm{}, "input_layernorm");
    if (latent_) {
      add_latent_projections();
    } else {
      add_projections(block);
    }
    stack_.add_on({heads_ * width_}, "grouped_attention",
                  wl::GroupedAttention{.heads = heads_,
                                       .kv_heads = kv_heads_,
                                       .width = width_,
                                       .value_width = value_width_,
                                       .window = windowed_[static_cast<std::size_t>(block)] ? window_ : 0,
                                       .causal = true,
                                       .chunk = rotated(block) ? chunk_ : 0,
                                       .sinks = traits_.oss},
                  "attention");
    stack_.add("linear", wl::Linear{.out = hidden_, .bias = bias_}, "o_proj");
    if (behind) stack_.add("rmsnorm", wl::RmsNorm{}, "post_attention_layernorm");
    stack_.add("add", wl::Combine{}, "attention_residual");
    if (before) {
      stack_.add("rmsnorm", wl::RmsNorm{}, behind ? "pre_feedforward_layernorm" : "post_attention_layernorm");
    }
    if (has_mixture(block)) {
      add_mixture();
    } else {
      add_mlp(inner_, "");
    }
    if (behind) stack_.add("rmsnorm", wl::RmsNorm{}, "post_feedforward_layernorm");
    stack_.add("add", wl::Combine{}, "mlp_residual");
  }

  [[nodiscard]] bool rotated(std::int64_t block) const {
    return rotated_.empty() || rotated_[static_cast<std::size_t>(block)];
  }

  void add_projections(std::int64_t block) {
    const std::int64_t queries = heads_ * width_;
    const std::int64_t keys = kv_heads_ * width_;
    if (traits_.fused) {
      stack_.add("linear", wl::Linear{.out = queries + 2 * keys, .bias = qkv_bias_}, "qkv_proj");
    } else {
      stack_.add("linear", wl::Linear{.out = queries, .bias = qkv_bias_}, "q_proj");
      stack_.add_on({hidden_}, "linear", wl::Linear{.out = keys, .bias = qkv_bias_}, "k_proj");
      stack_.add_on({hidden_}, "linear", wl::Linear{.out = keys, .bias = qkv_bias_}, "v_proj");
    }
    if (head_norm_) {
      stack_.add_on({heads_, width_}, "rmsnorm", wl::RmsNorm{}, "q_norm");
      stack_.add_on({kv_heads_, width_}, "rmsnorm", wl::RmsNorm{}, "k_norm");
    }
    if (whole_norm_) {
      stack_.add_on({queries}, "rmsnorm", wl::RmsNorm{}, "q_norm");
      stack_.add_on({keys}, "rmsnorm", wl::RmsNorm{}, "k_norm");
    }
    if (!rotated(block)) return;
    stack_.add_on({queries + keys}, "rotary", wl::pointwise("rotary"), "rotary");
    if (bare_norm_) stack_.add_on({queries + keys}, "scale", wl::pointwise("scale"), "qk_norm");
  }

  void add_indexer() {
    stack_.add_on({*query_rank_}, "linear", wl::Linear{.out = indexer_->heads * indexer_->width, .bias = false},
                  "indexer_wq_b");
    stack_.add_on({hidden_}, "linear", wl::Linear{.out = indexer_->width, .bias = false}, "indexer_wk");
    stack_.add("layernorm", wl::LayerNorm{}, "indexer_k_norm");
    stack_.add_on({hidden_}, "linear", wl::Linear{.out = indexer_->heads, .bias = false}, "indexer_weights");
    stack_.add_on({indexer_->heads * indexer_->width}, "index_scores", *indexer_, "indexer_scores");
  }

  /// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434).
  void add_latent_projections() {
    if (query_rank_) {
      stack_.add("linear", wl::Linear{.out = *query_rank_, .bias = bias_}, "q_a_proj");
      stack_.add("rmsnorm", wl::RmsNorm{}, "q_a_layernorm");
      stack_.add("linear", wl::Linear{.out = heads_ * width_, .bias = false}, "q_b_proj");
    } else {
      stack_.add("linear", wl::Linear{.out = heads_ * width_, .bias = false}, "q_proj");
    }
    stack_.add_on({hidden_}, "linear", wl::Linear{.out = kv_rank_ + rope_, .bias = bias_}, "kv_a_proj_with_mqa");
    stack_.add_on({kv_rank_}, "rmsnorm", wl::RmsNorm{}, "kv_a_layernorm");
    stack_.add("linear", wl::Linear{.out = heads_ * (nope_ + value_width_), .bias = false}, "kv_b_proj");
    // Queries and keys are put together from their parts with and without position: all of both is copied.
    stack_.add_on({2 * heads_ * width_}, "rotary", wl::pointwise("rotary"), "rotary");
    if (indexer_) add_indexer();
  }

  void add_mlp(std::int64_t width, const std::string& prefix) {
    if (traits_.fused) {
      stack_.add("linear", wl::Linear{.out = 2 * width, .bias = false}, prefix + "gate_up_proj");
      stack_.add_on({width}, "swiglu", kGated, prefix + "act");
    } else {
      stack_.add_on({hidden_}, "linear", wl::Linear{.out = width, .bias = mlp_bias_}, prefix + "gate_proj");
      stack_.add_on({hidden_}, "linear", wl::Linear{.out = width, .bias = mlp_bias_}, prefix + "up_proj");
      stack_.add("swiglu", kGated, prefix + "act");
    }
    stack_.add("linear", wl::Linear{.out = hidden_, .bias = mlp_bias_}, prefix + "down_proj");
  }

  void add_mixture() {
    stack_.add("linear", wl::Linear{.out = mixture_.experts.experts, .bias = mixture_.router_bias}, "router");
    stack_.add("softmax", wl::pointwise("softmax"), "routing");
    stack_.add_on({hidden_}, "experts", mixture_.experts, "experts");
    if (mixture_.shared_width == 0) return;
    add_mlp(mixture_.shared_width, "shared_");
    if (mixture_.shared_gate) {
      stack_.add_on({hidden_}, "linear", wl::Linear{.out = 1, .bias = false}, "shared_expert_gate");
      stack_.add_on({hidden_}, "multiply", kProduct, "shared_gated");
    }
    stack_.add("add", wl::Combine{}, "shared_sum");
  }

  ConfigReader& config_;
  const Traits& traits_;
  Stack stack_;
  std::int64_t hidden_;
  std::int64_t blocks_;
  std::int64_t heads_;
  std::int64_t inner_;
  std::int64_t vocabulary_;
  bool tied_;
  bool latent_ = false;
  std::int64_t kv_heads_ = 0;  // 0: as heads
  std::int64_t width_ = 1;
  std::int64_t value_width_ = 0;  // 0: as width
  std::optional<std::int64_t> query_rank_;
  std::int64_t kv_rank_ = 1;
  std::int64_t nope_ = 1;
  std::int64_t rope_ = 1;
  bool bias_ = false;
  bool qkv_bias_ = false;
  bool mlp_bias_ = false;
  bool llama4_ = false;
  bool head_norm_ = false;
  bool whole_norm_ = traits_.whole_norm;
  bool bare_norm_ = false;
  std::int64_t chunk_ = 0;
  std::vector<bool> rotated_;  // blocks with rotary positions; empty: all
  std::optional<wl::IndexScores> indexer_;
  std::int64_t window_ = 0;
  std::vector<bool> windowed_;
  Mixture mixture_;
  std::vector<std::string> notes_;
};

}  // namespace

Family decoder_family(ConfigReader& config, const Request& request) {
  const auto* const traits = std::find_if(kDecoders.begin(), kDecoders.end(),
                                          [&](const Traits& row) { return row.model_type == request.model_type; });
  return Decoder(config, request, traits == kDecoders.end() ? kDecoders.front() : *traits).build();
}

}  // namespace ddlsim::importers::hf
