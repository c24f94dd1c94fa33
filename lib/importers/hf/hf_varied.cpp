// Families whose blocks differ in size: Gemma 4 and the searched architectures of Nemotron (DeciLM).
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "hf_layers.h"

namespace ddlsim::importers::hf {
namespace {

namespace wl = ddlsim::workload;

constexpr wl::Combine kActivated{.product = true, .gated = true};

void add_gated(Stack& stack, std::int64_t hidden, std::int64_t inner, bool bias = false) {
  stack.add_on({hidden}, "linear", wl::Linear{.out = inner, .bias = bias}, "gate_proj");
  stack.add_on({hidden}, "linear", wl::Linear{.out = inner, .bias = bias}, "up_proj");
  stack.add("swiglu", kActivated, "act");
  stack.add("linear", wl::Linear{.out = hidden, .bias = bias}, "down_proj");
}

/// Gemma 4 (text): windows in five of six blocks; the sixth has wider heads and its keys for values; where it has
/// experts they stand beside the MLP.
class Gemma4 {
 public:
  Gemma4(ConfigReader& config, const Request& request)
      : config_(config),
        stack_(sequence_of(config, request, "max_position_embeddings", false)),
        hidden_(config.size("hidden_size")),
        blocks_(config.size("num_hidden_layers", {1, kMostBlocks})),
        heads_(config.size("num_attention_heads")),
        inner_(config.size("intermediate_size")),
        vocabulary_(config.size("vocab_size")) {
    // Per-layer embeddings and shared keys of the small models.
    none("hidden_size_per_layer_input", "per-layer embeddings have no operator here");
    none("num_kv_shared_layers", "blocks that share the keys of an earlier one are not built here");
    local_ = {.heads = heads_,
              .kv_heads = config.size("num_key_value_heads"),
              .width = config.size("head_dim"),
              .window = config.size("sliding_window"),
              .causal = true};
    same_ = config.flag_or("attention_k_eq_v", false);
    global_ = {.heads = heads_,
               .kv_heads = same_ ? config.size("num_global_key_value_heads") : local_.kv_heads,
               .width = config.size_or("global_head_dim", local_.width),
               .causal = true};
    for (const auto& [key, kv] :
         {std::pair{"num_key_value_heads", local_.kv_heads}, {"num_global_key_value_heads", global_.kv_heads}}) {
      if (heads_ % kv != 0) {
        config.report(key, fmt::format("is {}, which does not divide 'num_attention_heads', {}", kv, heads_));
      }
    }
    types_ = config.texts("layer_types");
    if (static_cast<std::int64_t>(types_.size()) != blocks_) {
      config.report("layer_types", fmt::format("has {} items for {} blocks", types_.size(), blocks_));
    }
    bias_ = config.flag_or("attention_bias", false);
    if (config.flag_or("enable_moe_block", false)) {
      experts_ = {.experts = config.size("num_experts", {1, kMostExperts}),
                  .active = config.size("top_k_experts", {1, kMostExperts}),
                  .width = config.size("moe_intermediate_size")};
      if (experts_.active > experts_.experts) {
        config.report("top_k_experts",
                      fmt::format("is {}, more than the {} experts", experts_.active, experts_.experts));
      }
      moe_ = true;
    }
  }

  Family build() {
    stack_.table(vocabulary_, hidden_, "embed_tokens");
    stack_.add("scale", wl::pointwise("scale"), "embed_scale");
    for (std::size_t i = 0; i < types_.size() && !config_.failed(); ++i) add_block(types_[i]);
    norm("norm");
    stack_.add("linear",
               wl::Linear{.out = vocabulary_, .bias = false, .tied = config_.flag_or("tie_word_embeddings", true)},
               "lm_head");
    if (config_.has("final_logit_softcapping")) stack_.add("tanh", wl::pointwise("tanh"), "logit_softcap");
    stack_.add("softmax", wl::pointwise("softmax"), "loss");
    Family family = family_of_tokens(stack_.rows());
    family.layers = stack_.take();
    if (moe_) family.notes.emplace_back("The router's scale of every expert is listed as its bias.");
    return family;
  }

 private:
  void none(const char* key, const char* why) {
    const std::int64_t value = config_.size_or(key, 0, {0, kLargestSize});
    if (value != 0) config_.report(key, fmt::format("is {}: {}", value, why), {}, ErrorCode::kUnsupported);
  }
  void norm(const char* name) { stack_.add("rmsnorm", wl::RmsNorm{}, name); }
  void norm_on(std::int64_t width, const char* name) { stack_.add_on({width}, "rmsnorm", wl::RmsNorm{}, name); }

  void add_block(const std::string& type) {
    const bool global = type == "full_attention";
    if (!global && type != "sliding_attention") {
      config_.report("layer_types", "has '" + type.substr(0, 60) + "'", {"known: sliding_attention, full_attention"},
                     ErrorCode::kUnsupported);
      return;
    }
    const wl::GroupedAttention& attention = global ? global_ : local_;
    const std::int64_t queries = heads_ * attention.width;
    const std::int64_t keys = attention.kv_heads * attention.width;
    norm("input_layernorm");
    stack_.add("linear", wl::Linear{.out = queries, .bias = bias_}, "q_proj");
    stack_.add_on({hidden_}, "linear", wl::Linear{.out = keys, .bias = bias_}, "k_proj");
    if (!global || !same_) stack_.add_on({hidden_}, "linear", wl::Linear{.out = keys, .bias = bias_}, "v_proj");
    stack_.add_on({heads_, attention.width}, "rmsnorm", wl::RmsNorm{}, "q_norm");
    stack_.add_on({attention.kv_heads, attention.width}, "rmsnorm", wl::RmsNorm{}, "k_norm");
    stack_.add_on({keys}, "scale", wl::pointwise("scale"), "v_norm");  // without weights
    stack_.add_on({queries + keys}, "rotary", wl::pointwise("rotary"), "rotary");
    stack_.add_on({queries}, "grouped_attention", attention, "attention");
    stack_.add("linear", wl::Linear{.out = hidden_, .bias = bias_}, "o_proj");
    norm("post_attention_layernorm");
    stack_.add("add", wl::Combine{}, "attention_residual");
    norm("pre_feedforward_layernorm");
    add_gated(stack_, hidden_, inner_);
    if (moe_) add_experts();
    norm("post_feedforward_layernorm");
    stack_.add("add", wl::Combine{}, "mlp_residual");
    stack_.add("scale", wl::pointwise("scale"), "layer_scalar");
  }

  /// Beside the MLP, of what came before its norm.
  void add_experts() {
    norm("post_feedforward_layernorm_1");
    norm_on(hidden_, "router_norm");
    stack_.add("linear", wl::Linear{.out = experts_.experts, .bias = true}, "router");
    stack_.add("softmax", wl::pointwise("softmax"), "routing");
    norm_on(hidden_, "pre_feedforward_layernorm_2");
    stack_.add("experts", experts_, "experts");
    norm("post_feedforward_layernorm_2");
    stack_.add("add", wl::Combine{}, "experts_sum");
  }

  ConfigReader& config_;
  Stack stack_;
  std::int64_t hidden_;
  std::int64_t blocks_;
  std::int64_t heads_;
  std::int64_t inner_;
  std::int64_t vocabulary_;
  wl::GroupedAttention local_;
  wl::GroupedAttention global_;
  wl::Experts experts_;
  std::vector<std::string> types_;
  bool same_ = false;
  bool bias_ = false;
  bool moe_ = false;
};

using Json = nlohmann::json;

/// Nemotron's searched architectures: every block has its own attention and its own MLP, or none.
class DeciLm {
 public:
  DeciLm(ConfigReader& config, const Request& request)
      : config_(config),
        stack_(sequence_of(config, request, "max_position_embeddings", false)),
        hidden_(config.size("hidden_size")),
        blocks_(config.size("num_hidden_layers", {1, kMostBlocks})),
        heads_(config.size("num_attention_heads")),
        vocabulary_(config.size("vocab_size")),
        bias_(config.flag_or("attention_bias", false)),
        mlp_bias_(config.flag_or("mlp_bias", false)) {
    if (hidden_ % heads_ != 0) {
      config.report("num_attention_heads",
                    fmt::format("is {}, which does not divide 'hidden_size', {}", heads_, hidden_));
    }
    list_ = config.value("block_configs");
    if (list_ == nullptr || !list_->is_array() || static_cast<std::int64_t>(list_->size()) != blocks_) {
      config.report("block_configs", fmt::format("must be a list of {} blocks", blocks_));
      list_ = nullptr;
    }
  }

  Family build() {
    stack_.table(vocabulary_, hidden_, "embed_tokens");
    for (std::size_t i = 0; list_ != nullptr && i < list_->size() && !config_.failed(); ++i) {
      add_attention((*list_)[i], i);
      add_mlp((*list_)[i], i);
    }
    stack_.add("rmsnorm", wl::RmsNorm{}, "norm");
    stack_.add("linear",
               wl::Linear{.out = vocabulary_, .bias = false, .tied = config_.flag_or("tie_word_embeddings", false)},
               "lm_head");
    stack_.add("softmax", wl::pointwise("softmax"), "loss");
    Family family = family_of_tokens(stack_.rows());
    family.layers = stack_.take();
    return family;
  }

 private:
  void wrong(std::size_t block, const std::string& what, std::vector<std::string> notes = {}) {
    config_.report("block_configs", fmt::format("has a fault in block {}: {}", block, what), std::move(notes));
  }
  static bool on(const Json& part, const char* key) {
    const auto found = part.find(key);
    return found != part.end() && found->is_boolean() && found->get<bool>();
  }
  /// A block's half; null, with a fault, when there is none or it has what is not built here.
  const Json* half(const Json& block, std::size_t index, const char* name) {
    const auto found = block.is_object() ? block.find(name) : block.end();
    if (!block.is_object() || found == block.end() || !found->is_object()) {
      wrong(index, fmt::format("no object '{}'", name));
      return nullptr;
    }
    for (const char* key : {"sparsify", "num_sink_tokens"}) {
      const auto odd = found->find(key);
      if (odd != found->end() && !odd->is_null()) wrong(index, fmt::format("'{}.{}' is not built here", name, key));
    }
    return &*found;
  }
  /// A product in place of a half.
  void add_linear(const std::array<const char*, 3>& names) {
    stack_.add("rmsnorm", wl::RmsNorm{}, names[0]);
    stack_.add("linear", wl::Linear{.out = hidden_, .bias = false}, names[1]);
    stack_.add("add", wl::Combine{}, names[2]);
  }
  /// A whole number from 1 to 2^31; nothing, with a fault, for anything else.
  std::optional<std::int64_t> number(const Json& part, const char* key, std::size_t index) {
    const auto found = part.find(key);
    if (found != part.end() && found->is_number_integer() && found->get<double>() >= 1 &&
        found->get<double>() <= static_cast<double>(kLargestSize)) {
      return found->get<std::int64_t>();
    }
    wrong(index, fmt::format("'{}' is no whole number from 1", key));
    return std::nullopt;
  }

  void add_attention(const Json& block, std::size_t index) {
    const Json* part = half(block, index, "attention");
    if (part == nullptr || on(*part, "no_op")) return;
    if (on(*part, "replace_with_linear")) {
      return add_linear({"input_layernorm", "attention_linear", "attention_residual"});
    }
    const auto group = number(*part, "n_heads_in_group", index);
    if (!group) return;
    if (heads_ % *group != 0) return wrong(index, fmt::format("{} heads in a group do not divide {}", *group, heads_));
    const auto window = part->find("window_length");
    const bool windowed = window != part->end() && !window->is_null();
    const std::int64_t nearest = windowed ? number(*part, "window_length", index).value_or(1) : 0;
    const std::int64_t width = hidden_ / heads_;
    const std::int64_t keys = heads_ / *group * width;
    stack_.add("rmsnorm", wl::RmsNorm{}, "input_layernorm");
    stack_.add("linear", wl::Linear{.out = hidden_, .bias = bias_}, "q_proj");
    stack_.add_on({hidden_}, "linear", wl::Linear{.out = keys, .bias = bias_}, "k_proj");
    stack_.add_on({hidden_}, "linear", wl::Linear{.out = keys, .bias = bias_}, "v_proj");
    stack_.add_on({hidden_ + keys}, "rotary", wl::pointwise("rotary"), "rotary");
    stack_.add_on({hidden_}, "grouped_attention",
                  wl::GroupedAttention{
                      .heads = heads_, .kv_heads = heads_ / *group, .width = width, .window = nearest, .causal = true},
                  "attention");
    stack_.add("linear", wl::Linear{.out = hidden_, .bias = bias_}, "o_proj");
    stack_.add("add", wl::Combine{}, "attention_residual");
  }

  void add_mlp(const Json& block, std::size_t index) {
    const Json* part = half(block, index, "ffn");
    if (part == nullptr || on(*part, "no_op")) return;
    if (on(*part, "replace_with_linear")) return add_linear({"post_attention_layernorm", "ffn_linear", "mlp_residual"});
    const auto found = part->find("ffn_mult");
    const double times = found != part->end() && found->is_number() ? found->get<double>() : 0;
    if (!(times > 0 && times <= 1000)) return wrong(index, "'ffn_mult' is no number above 0 and at most 1000");
    // modeling_decilm.py: two thirds of so many hidden sizes, up to a multiple of 256.
    const auto raw = static_cast<std::int64_t>(2 * times * static_cast<double>(hidden_) / 3);
    const std::int64_t inner = std::max<std::int64_t>((raw + 255) / 256 * 256, 256);
    stack_.add("rmsnorm", wl::RmsNorm{}, "post_attention_layernorm");
    add_gated(stack_, hidden_, inner, mlp_bias_);
    stack_.add("add", wl::Combine{}, "mlp_residual");
  }

  ConfigReader& config_;
  Stack stack_;
  std::int64_t hidden_;
  std::int64_t blocks_;
  std::int64_t heads_;
  std::int64_t vocabulary_;
  bool bias_;
  bool mlp_bias_;
  const Json* list_ = nullptr;
};

}  // namespace

Family gemma4_family(ConfigReader& config, const Request& request) { return Gemma4(config, request).build(); }

Family decilm_family(ConfigReader& config, const Request& request) { return DeciLm(config, request).build(); }

}  // namespace ddlsim::importers::hf
