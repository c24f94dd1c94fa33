// Families whose blocks differ in kind: attention, state-space or delta-rule layers, MLPs, mixtures.
#include <fmt/core.h>

#include <algorithm>

#include "hf_layers.h"

namespace ddlsim::importers::hf {
namespace {

namespace wl = ddlsim::workload;

constexpr wl::Combine kTimes{.product = true};
constexpr wl::Combine kGatedBy{.product = true, .gated = true};

/// What both families share: sizes, the table and the end.
class HybridReader {
 public:
  HybridReader(ConfigReader& config, const Request& request)
      : config_(config),
        stack_(sequence_of(config, request, "max_position_embeddings", false)),
        hidden_(config.size("hidden_size")),
        blocks_(config.size("num_hidden_layers", {1, kMostBlocks})),
        heads_(config.size("num_attention_heads")),
        kv_heads_(config.size_or("num_key_value_heads", heads_)),
        vocabulary_(config.size("vocab_size")),
        tied_(config.flag_or("tie_word_embeddings", false)),
        bias_(config.flag_or("attention_bias", false)) {
    if (heads_ % kv_heads_ != 0) {
      config.report("num_key_value_heads",
                    fmt::format("is {}, which does not divide 'num_attention_heads', {}", kv_heads_, heads_));
    }
  }

 protected:
  void linear(std::int64_t out, bool bias, const char* name) {
    stack_.add("linear", wl::Linear{.out = out, .bias = bias}, name);
  }
  void linear_on(std::int64_t in, std::int64_t out, bool bias, const std::string& name) {
    stack_.add_on({in}, "linear", wl::Linear{.out = out, .bias = bias}, name);
  }
  void gated_mlp(std::int64_t inner, const std::string& prefix) {
    linear_on(hidden_, inner, false, prefix + "gate_proj");
    linear_on(hidden_, inner, false, prefix + "up_proj");
    stack_.add("swiglu", kGatedBy, prefix + "act");
    stack_.add("linear", wl::Linear{.out = hidden_, .bias = false}, prefix + "down_proj");
  }
  void attention(std::int64_t width) {
    stack_.add_on({heads_ * width}, "grouped_attention",
                  wl::GroupedAttention{.heads = heads_, .kv_heads = kv_heads_, .width = width, .causal = true},
                  "attention");
  }
  /// Experts per token are at most all of them.
  wl::Experts experts(const char* count, const char* width, bool gated) {
    wl::Experts made{.experts = config_.size(count, {1, kMostExperts}),
                     .active = config_.size("num_experts_per_tok", {1, kMostExperts}),
                     .width = config_.size(width),
                     .gated = gated};
    if (made.active > made.experts) {
      config_.report("num_experts_per_tok",
                     fmt::format("is {}, more than the {} experts of '{}'", made.active, made.experts, count));
    }
    return made;
  }
  /// Which experts a row goes to, and they.
  void routed(const wl::Experts& experts) {
    linear(experts.experts, false, "router");
    stack_.add("softmax", wl::pointwise("softmax"), "routing");
    stack_.add_on({hidden_}, "experts", experts, "experts");
  }
  void begin() { stack_.table(vocabulary_, hidden_, "embed_tokens"); }
  Family end(const char* norm) {
    stack_.add("rmsnorm", wl::RmsNorm{}, norm);
    return end_normed();
  }
  Family end_normed() {
    stack_.add("linear", wl::Linear{.out = vocabulary_, .bias = false, .tied = tied_}, "lm_head");
    stack_.add("softmax", wl::pointwise("softmax"), "loss");
    Family family = family_of_tokens(stack_.rows());
    family.layers = stack_.take();
    family.notes = std::move(notes_);
    return family;
  }

  ConfigReader& config_;
  Stack stack_;
  std::int64_t hidden_;
  std::int64_t blocks_;
  std::int64_t heads_;
  std::int64_t kv_heads_;
  std::int64_t vocabulary_;
  bool tied_;
  bool bias_;
  std::vector<std::string> notes_;
};

/// Qwen3-Next and Qwen3.5: gated delta rule in three blocks of four, gated attention in the fourth.
class QwenHybrid : HybridReader {
 public:
  QwenHybrid(ConfigReader& config, const Request& request) : HybridReader(config, request) {
    next_ = request.model_type == "qwen3_next";
    moe_ = next_ || request.model_type == "qwen3_5_moe_text";
    width_ = config.size("head_dim");
    gated_ = config.flag_or("attn_output_gate", true);
    delta_ = {.heads = config.size("linear_num_value_heads"),
              .key_heads = config.size("linear_num_key_heads"),
              .width = config.size("linear_key_head_dim"),
              .value_width = config.size("linear_value_head_dim"),
              .delta = true};
    if (delta_.heads % delta_.key_heads != 0) {
      config.report("linear_num_key_heads", fmt::format("is {}, which does not divide 'linear_num_value_heads', {}",
                                                        delta_.key_heads, delta_.heads));
    }
    kernel_ = config.size("linear_conv_kernel_dim");
    read_types();
    if (moe_) {
      experts_ = experts("num_experts", "moe_intermediate_size", true);
      shared_ = config.size("shared_expert_intermediate_size");
      step_ = config.size_or("decoder_sparse_step", 1);
      dense_ = config.counts("mlp_only_layers");
    }
    const bool all_sparse = moe_ && step_ == 1 && dense_.empty();
    inner_ = all_sparse ? 1 : config.size("intermediate_size");
    if (const auto more = config.optional_size("mtp_num_hidden_layers", {0, kMostBlocks}); more && *more > 0) {
      notes_.push_back(fmt::format("The multi-token-prediction module ({} block) is left out.", *more));
    }
    notes_.emplace_back("Linear attention works in chunks of 64 rows, as flash-linear-attention does.");
  }

  Family build() {
    begin();
    for (std::int64_t block = 0; block < blocks_ && !config_.failed(); ++block) {
      stack_.add("rmsnorm", wl::RmsNorm{}, "input_layernorm");
      if (linear_[static_cast<std::size_t>(block)]) {
        add_delta();
      } else {
        add_attention();
      }
      stack_.add("add", wl::Combine{}, "attention_residual");
      stack_.add("rmsnorm", wl::RmsNorm{}, "post_attention_layernorm");
      const bool dense = std::find(dense_.begin(), dense_.end(), block) != dense_.end();
      if (moe_ && (block + 1) % step_ == 0 && !dense) {
        add_mixture();
      } else {
        gated_mlp(inner_, "");
      }
      stack_.add("add", wl::Combine{}, "mlp_residual");
    }
    return end("norm");
  }

 private:
  void read_types() {
    const std::vector<std::string> types = config_.texts("layer_types");
    const std::int64_t every = config_.size_or("full_attention_interval", 4);
    if (!types.empty() && static_cast<std::int64_t>(types.size()) != blocks_) {
      config_.report("layer_types", fmt::format("has {} items for {} blocks", types.size(), blocks_));
    }
    for (std::int64_t i = 0; i < blocks_; ++i) {
      const auto at = static_cast<std::size_t>(i);
      linear_.push_back(at < types.size() ? types[at] == "linear_attention" : (i + 1) % every != 0);
      if (at >= types.size() || linear_.back() || types[at] == "full_attention") continue;
      config_.report("layer_types", "has '" + types[at].substr(0, 60) + "'",
                     {"known: linear_attention, full_attention"}, ErrorCode::kUnsupported);
      return;
    }
  }

  void add_delta() {
    const std::int64_t keys = delta_.key_heads * delta_.width;
    const std::int64_t values = delta_.heads * delta_.value_width;
    if (next_) {
      linear(2 * keys + 2 * values, false, "in_proj_qkvz");
      linear_on(hidden_, 2 * delta_.heads, false, "in_proj_ba");
    } else {
      linear(2 * keys + values, false, "in_proj_qkv");
      linear_on(hidden_, values, false, "in_proj_z");
      linear_on(hidden_, delta_.heads, false, "in_proj_b");
      linear_on(hidden_, delta_.heads, false, "in_proj_a");
    }
    stack_.add_on({2 * keys + values}, "causal_conv", wl::CausalConv{.kernel = kernel_}, "conv1d");
    stack_.add("linear_attention", delta_, "delta_rule");
    stack_.add_on({delta_.heads, delta_.value_width}, "rmsnorm", wl::RmsNorm{}, "norm");
    stack_.add_on({values}, "multiply", kTimes, "gated");
    linear(hidden_, false, "out_proj");
  }

  void add_attention() {
    const std::int64_t queries = heads_ * width_;
    const std::int64_t keys = kv_heads_ * width_;
    linear(gated_ ? 2 * queries : queries, bias_, "q_proj");
    linear_on(hidden_, keys, bias_, "k_proj");
    linear_on(hidden_, keys, bias_, "v_proj");
    stack_.add_on({heads_, width_}, "rmsnorm", wl::RmsNorm{}, "q_norm");
    stack_.add_on({kv_heads_, width_}, "rmsnorm", wl::RmsNorm{}, "k_norm");
    stack_.add_on({queries + keys}, "rotary", wl::pointwise("rotary"), "rotary");
    attention(width_);
    if (gated_) stack_.add("multiply", kTimes, "output_gate");
    linear(hidden_, bias_, "o_proj");
  }

  void add_mixture() {
    routed(experts_);
    gated_mlp(shared_, "shared_");
    linear_on(hidden_, 1, false, "shared_expert_gate");
    stack_.add_on({hidden_}, "multiply", kTimes, "shared_gated");
    stack_.add("add", wl::Combine{}, "shared_sum");
  }

  bool next_ = false;
  bool moe_ = false;
  bool gated_ = true;
  std::int64_t width_ = 1;
  std::int64_t kernel_ = 4;
  std::int64_t inner_ = 1;
  std::int64_t shared_ = 1;
  std::int64_t step_ = 1;
  std::vector<std::int64_t> dense_;
  std::vector<bool> linear_;
  wl::LinearAttention delta_;
  wl::Experts experts_;
};

/// Nemotron-H: every block is one thing, by its letter: M Mamba-2, * attention, - MLP, E mixture of experts.
class NemotronH : HybridReader {
 public:
  NemotronH(ConfigReader& config, const Request& request) : HybridReader(config, request) {
    pattern_ = config.text_or("hybrid_override_pattern", "");
    if (static_cast<std::int64_t>(pattern_.size()) != blocks_) {
      config.report("hybrid_override_pattern", fmt::format("has {} letters for {} blocks", pattern_.size(), blocks_));
    }
    const std::size_t odd = pattern_.find_first_not_of("M*-E");
    if (odd != std::string::npos) {
      config.report("hybrid_override_pattern", fmt::format("has '{}' as letter {}", pattern_.substr(odd, 1), odd + 1),
                    {"known: M (Mamba-2), * (attention), - (MLP), E (experts)"}, ErrorCode::kUnsupported);
    }
    const auto has = [&](char letter) { return pattern_.find(letter) != std::string::npos; };
    if (has('M')) read_mamba();
    if (has('*')) width_ = config.size(config.has("head_dim") ? "head_dim" : "attention_head_dim");
    if (has('-')) inner_ = config.size("intermediate_size");
    mlp_bias_ = config.flag_or("mlp_bias", false);
    if (has('E')) {
      experts_ = experts("n_routed_experts", "moe_intermediate_size", false);
      const std::int64_t shared = config.size_or("n_shared_experts", 0, {0, kMostExperts});
      shared_ = shared == 0 ? 0 : shared * config.size("moe_shared_expert_intermediate_size");
    }
  }

  Family build() {
    begin();
    for (std::size_t i = 0; i < pattern_.size() && !config_.failed(); ++i) {
      stack_.add("rmsnorm", wl::RmsNorm{}, "norm");
      if (pattern_[i] == 'M') add_mamba();
      if (pattern_[i] == '*') add_attention();
      if (pattern_[i] == '-') add_mlp(inner_, "");
      if (pattern_[i] == 'E') add_mixture();
      stack_.add("add", wl::Combine{}, "residual");
    }
    return end("norm_f");
  }

 private:
  void read_mamba() {
    scan_ = {.heads = config_.size("mamba_num_heads"),
             .key_heads = config_.size("n_groups"),
             .width = config_.size("ssm_state_size"),
             .value_width = config_.size("mamba_head_dim"),
             .chunk = config_.size_or("chunk_size", 128)};
    if (scan_.heads % scan_.key_heads != 0) {
      config_.report("n_groups",
                     fmt::format("is {}, which does not divide 'mamba_num_heads', {}", scan_.key_heads, scan_.heads));
    }
    kernel_ = config_.size("conv_kernel");
    conv_bias_ = config_.flag_or("use_conv_bias", true);
    mamba_bias_ = config_.flag_or("use_bias", false);
    notes_.push_back(fmt::format("Mamba-2 layers work in chunks of {} rows.", scan_.chunk));
  }

  void add_mamba() {
    const std::int64_t values = scan_.heads * scan_.value_width;
    const std::int64_t mixed = values + 2 * scan_.key_heads * scan_.width;
    linear(values + mixed + scan_.heads, mamba_bias_, "in_proj");
    stack_.add_on({mixed}, "causal_conv", wl::CausalConv{.kernel = kernel_, .bias = conv_bias_}, "conv1d");
    stack_.add("linear_attention", scan_, "ssd");
    stack_.add("multiply", kTimes, "gated");
    stack_.add("rmsnorm", wl::RmsNorm{}, "gated_norm");
    linear(hidden_, mamba_bias_, "out_proj");
  }

  void add_attention() {
    linear(heads_ * width_, bias_, "q_proj");
    linear_on(hidden_, kv_heads_ * width_, bias_, "k_proj");
    linear_on(hidden_, kv_heads_ * width_, bias_, "v_proj");
    attention(width_);
    linear(hidden_, bias_, "o_proj");
  }

  void add_mlp(std::int64_t inner, const std::string& prefix) {
    linear_on(hidden_, inner, mlp_bias_, prefix + "up_proj");
    stack_.add("relu", wl::pointwise("relu"), prefix + "act");
    stack_.add("linear", wl::Linear{.out = hidden_, .bias = mlp_bias_}, prefix + "down_proj");
  }

  void add_mixture() {
    routed(experts_);
    if (shared_ == 0) return;
    add_mlp(shared_, "shared_");
    stack_.add("add", wl::Combine{}, "shared_sum");
  }

  std::string pattern_;
  std::int64_t width_ = 1;
  std::int64_t inner_ = 1;
  std::int64_t shared_ = 0;
  std::int64_t kernel_ = 4;
  bool conv_bias_ = true;
  bool mamba_bias_ = false;
  bool mlp_bias_ = false;
  wl::LinearAttention scan_;
  wl::Experts experts_;
};

/// DeepSeek-V4 (transformers' modular_deepseek_v4.py; DeepSeek's own code has the same parts). The residual is several
/// streams, of which hyper-connections make a block's input and to which they add its output. One key, which is its own
/// value, serves all heads. Beside a window a query looks at keys pooled over several rows: at ratio 4 over overlapping
/// blocks, of which an indexer chooses; at larger ones at all. Heads' outputs go through a product of their group.
/// Not counted: three scales of each hyper-connection, and that pooled keys have fewer rows where they are normed.
class DeepseekV4 : HybridReader {
 public:
  DeepseekV4(ConfigReader& config, const Request& request) : HybridReader(config, request) {
    streams_ = config.size("hc_mult");
    width_ = config.size("head_dim");
    window_ = config.size("sliding_window");
    query_rank_ = config.size("q_lora_rank");
    output_rank_ = config.size("o_lora_rank");
    groups_ = config.size("o_groups");
    if (heads_ % groups_ != 0) {
      config.report("o_groups", fmt::format("is {}, which does not divide 'num_attention_heads', {}", groups_, heads_));
    }
    if (kv_heads_ != 1) {
      config.report("num_key_value_heads", fmt::format("is {}, where deepseek_v4 has one key for all heads", kv_heads_),
                    {}, ErrorCode::kUnsupported);
    }
    const std::int64_t more = config.size_or("num_nextn_predict_layers", 0, {0, kMostBlocks});
    ratios_ = config.counts("compress_ratios");
    const auto count = static_cast<std::int64_t>(ratios_.size());
    if (ratios_.empty()) config.report("compress_ratios", "is missing", {"rows of a compressed key, of each block"});
    if (!ratios_.empty() && count != blocks_ && count != blocks_ + more) {
      config.report("compress_ratios", fmt::format("has {} items for {} blocks", count, blocks_));
      ratios_.clear();
    }
    if (std::find(ratios_.begin(), ratios_.end(), kIndexed) != ratios_.end()) {
      indexer_ = {.heads = config.size("index_n_heads"),
                  .width = config.size("index_head_dim"),
                  .keep = config.size("index_topk"),
                  .pooled = kIndexed};
    }
    experts_ = experts("n_routed_experts", "moe_intermediate_size", true);
    shared_ = experts_.width * config.size_or("n_shared_experts", 0, {0, kMostExperts});
    if (more > 0) {
      notes_.push_back(fmt::format("The multi-token-prediction module ({} block) is left out.", more));
    }
    notes_.emplace_back("The indexer is trained with the rest, and attention reads the keys it keeps.");
    notes_.emplace_back("A hyper-connection's normalisation of its streams' weights is one kernel, as DeepSeek's is.");
  }

  Family build() {
    begin();
    stack_.add_on({wide()}, "scale", wl::pointwise("scale"), "streams");
    for (std::size_t block = 0; block < static_cast<std::size_t>(blocks_) && !config_.failed(); ++block) {
      collapse("attention_hc", (2 + streams_) * streams_);
      stack_.add_on({hidden_}, "rmsnorm", wl::RmsNorm{}, "input_layernorm");
      add_attention(ratios_[block]);
      stack_.add_on({wide()}, "add", wl::Combine{}, "attention_residual");
      collapse("mlp_hc", (2 + streams_) * streams_);
      stack_.add_on({hidden_}, "rmsnorm", wl::RmsNorm{}, "post_attention_layernorm");
      add_mixture();
      stack_.add_on({wide()}, "add", wl::Combine{}, "mlp_residual");
    }
    collapse("head_hc", streams_);
    stack_.add_on({hidden_}, "rmsnorm", wl::RmsNorm{}, "norm");
    return end_normed();
  }

 private:
  static constexpr std::int64_t kIndexed = 4;  // the ratio of blocks with an indexer, whose pools overlap

  [[nodiscard]] std::int64_t wide() const { return streams_ * hidden_; }

  void whole_on(std::int64_t in, std::int64_t out, const std::string& name, bool bias = false) {
    stack_.add_on({in}, "linear", wl::Linear{.out = out, .bias = bias, .whole = true}, name);
  }

  /// Weights of the streams from all of them, and their sum: a block's input.
  void collapse(const std::string& name, std::int64_t weights) {
    stack_.add_on({wide()}, "scale", wl::pointwise("scale"), name + "_norm");
    whole_on(wide(), weights, name + "_fn", true);
    stack_.add("softmax", wl::pointwise("softmax"), name + "_weights");
    stack_.add_on({wide()}, "scale", wl::pointwise("scale"), name + "_sum");
  }

  /// Keys pooled over `ratio` rows by trained weights, of `width` each.
  void compress(const std::string& name, std::int64_t ratio, std::int64_t width) {
    const std::int64_t made = ratio == kIndexed ? 2 * width : width;  // of this block and for the next one
    whole_on(hidden_, made, name + "_kv_proj");
    whole_on(hidden_, made, name + "_gate_proj");
    stack_.table(ratio, made, name + "_position_bias");
    stack_.add_on({made}, "softmax", wl::pointwise("softmax"), name + "_weights");
    stack_.add_on({made}, "multiply", kTimes, name + "_sum");
    stack_.add_on({width}, "rmsnorm", wl::RmsNorm{}, name + "_kv_norm");
  }

  void add_attention(std::int64_t ratio) {
    const std::int64_t queries = heads_ * width_;
    whole_on(hidden_, width_, "kv_proj");
    stack_.add("rmsnorm", wl::RmsNorm{}, "kv_norm");
    if (ratio > 0) compress("compressor", ratio, width_);
    linear_on(hidden_, query_rank_, false, "q_a_proj");
    stack_.add("rmsnorm", wl::RmsNorm{}, "q_norm");
    if (ratio == kIndexed) {
      compress("indexer", ratio, indexer_.width);
      whole_on(query_rank_, indexer_.heads * indexer_.width, "indexer_q_b_proj");
      whole_on(hidden_, indexer_.heads, "indexer_weights_proj");
      stack_.add_on({indexer_.heads * indexer_.width}, "index_scores", indexer_, "indexer_scores");
    }
    linear_on(query_rank_, queries, false, "q_b_proj");
    stack_.add("scale", wl::pointwise("scale"), "q_head_norm");
    stack_.add_on({queries + width_}, "rotary", wl::pointwise("rotary"), "rotary");
    stack_.add_on({queries}, "grouped_attention",
                  wl::GroupedAttention{.heads = heads_,
                                       .kv_heads = 1,
                                       .width = width_,
                                       .window = window_,
                                       .causal = true,
                                       .sinks = true,
                                       .pooled = ratio,
                                       .pooled_keep = ratio == kIndexed ? indexer_.keep : 0},
                  "attention");
    stack_.add("rotary", wl::pointwise("rotary"), "rotated_back");
    stack_.add("linear", wl::Linear{.out = groups_ * output_rank_, .bias = false, .groups = groups_}, "o_a_proj");
    linear(hidden_, false, "o_b_proj");
  }

  void add_mixture() {
    routed(experts_);
    if (shared_ == 0) return;
    gated_mlp(shared_, "shared_");
    stack_.add("add", wl::Combine{}, "shared_sum");
  }

  std::int64_t streams_ = 1;
  std::int64_t width_ = 1;
  std::int64_t window_ = 1;
  std::int64_t query_rank_ = 1;
  std::int64_t output_rank_ = 1;
  std::int64_t groups_ = 1;
  std::int64_t shared_ = 0;
  std::vector<std::int64_t> ratios_;
  wl::IndexScores indexer_;
  wl::Experts experts_;
};

}  // namespace

Family qwen_hybrid_family(ConfigReader& config, const Request& request) { return QwenHybrid(config, request).build(); }

Family nemotron_h_family(ConfigReader& config, const Request& request) { return NemotronH(config, request).build(); }

Family deepseek_v4_family(ConfigReader& config, const Request& request) { return DeepseekV4(config, request).build(); }

}  // namespace ddlsim::importers::hf
