#include <fmt/core.h>

#include <algorithm>

#include "ddlsim/support/names.h"
#include "ddlsim/support/quantity_io.h"
#include "hf/hf_layers.h"
#include "megatron_arguments.h"

namespace ddlsim::importers::launch {
namespace {

namespace wl = ddlsim::workload;

constexpr wl::Combine kGated{.product = true, .gated = true};
constexpr std::int64_t kMostSize = std::int64_t{1} << 31;

class ModelReader {
 public:
  ModelReader(Arguments& arguments, const LaunchOptions& options, Builder& out)
      : in_(arguments), options_(options), out_(out) {}

  void read() {
    const Argument* hybrid = in_.find_first({"hybrid-override-pattern", "hybrid-layer-pattern"});
    const Argument* ratio = in_.find("hybrid-attention-ratio");  // 0.0 where nobody stated it
    if (hybrid == nullptr && ratio != nullptr &&
        in_.word("hybrid-attention-ratio").find_first_of("123456789") != std::string::npos) {
      hybrid = ratio;
    }
    if (hybrid != nullptr) {
      out_.fault(
          fmt::format("'{}': hybrid (Mamba) models are not read from Megatron's arguments", shown(hybrid->words())),
          hybrid->where, {"import its config.json: ddlsim import hf"}, ErrorCode::kUnsupported);
      return;
    }
    if (!in_.has("num-layers") && !in_.has("hidden-size")) return;
    read_class();
    layers_ = need("num-layers", hf::kMostBlocks);
    hidden_ = need("hidden-size", kMostSize);
    heads_ = need("num-attention-heads", kMostSize);
    rows_ =
        need(in_.has("encoder-seq-length") && !in_.has("seq-length") ? "encoder-seq-length" : "seq-length", kMostSize);
    read_widths();
    read_vocabulary();
    read_mixture();
    read_switches();
    if (out_.failed()) return;
    if (!missing_.empty()) {
      out_.ask("model", "the arguments describe it, but not " + missing_);
      return;
    }
    build();
  }

 private:
  void lack(const std::string& what) { missing_ += (missing_.empty() ? "" : ", nor ") + what; }

  std::int64_t need(std::string_view name, std::int64_t most) {
    const Argument* found = in_.find(name);
    if (found == nullptr || in_.is_unknown(name)) {
      lack(found == nullptr ? fmt::format("--{}", name) : found->words());
      return 1;
    }
    return within(*found, in_.count(*found).value_or(1), most);
  }
  std::int64_t within(const Argument& found, std::int64_t value, std::int64_t most) {
    if (value <= most) return value;
    out_.fault(fmt::format("'{}'", shown(found.words())), found.where,
               {fmt::format("it takes a whole number from 1 to {}", most)});
    return 1;
  }
  /// The option's number, `otherwise` where it is missing; what is not known is lacking.
  std::int64_t size_or(std::string_view name, std::int64_t otherwise) {
    return in_.has(name) ? need(name, kMostSize) : otherwise;
  }

  /// A switch that makes another model: what is not known of it is lacking.
  bool on(std::string_view name) {
    const bool yes = in_.flag(name);
    if (in_.is_unknown(name)) lack(in_.find(name)->words());
    return yes;
  }
  /// As Arguments::word, likewise.
  std::string said(std::string_view name) {
    if (in_.is_unknown(name)) lack(in_.find(name)->words());
    return in_.word(name);
  }

  /// A class of Megatron-Bridge or NeMo that is no plain one has defaults of its own, which are not read: what they may
  /// be of is stated, or lacking. Bridge pads a vocabulary where it is told to, and has positions for a sequence.
  void read_class() {
    const Argument* made = in_.find("_target_");
    if (made == nullptr) return;
    const std::string& path = made->values.front();
    bridge_ = path.find("bridge") != std::string::npos;
    const std::string_view name = std::string_view(path).substr(path.rfind('.') + 1);
    if (name == "GPTModelProvider" || name == "TransformerConfig" || name == "GPTConfig") return;
    std::vector<std::string> decided{"normalization",   "add-bias-linear",  "share-embeddings-and-output-weights",
                                     "ffn-hidden-size", "num-query-groups", "position-embedding-type",
                                     "hidden-dropout",  "gated-linear-unit"};
    const bool dense = name.starts_with("GPT") || (name.starts_with("Llama") && !name.starts_with("Llama4"));
    if (!dense) {
      for (const char* more : {"num-experts", "multi-latent-attention", "qk-layernorm", "kv-channels"}) {
        decided.emplace_back(more);
      }
    }
    std::erase_if(decided, [&](const std::string& option) { return in_.states(option); });
    if (!decided.empty()) lack(fmt::format("what {} has where none is stated of {}", name, join(decided)));
  }

  /// --swiglu, NeMo's activation: fast-swiglu, Megatron-Core's gated_linear_unit and activation_func.
  void read_activation() {
    const std::string activation = said("activation");
    std::string function = said("activation-func");
    function = function.substr(function.rfind('.') + 1);
    std::replace(function.begin(), function.end(), '-', '_');
    const bool swiglu = on("swiglu");
    gated_ = swiglu || on("quick-geglu") || on("geglu") || on("gated-linear-unit") || activation.ends_with("glu") ||
             function.ends_with("glu");
    const bool squared = on("squared-relu") || activation == "squared-relu";
    if (function.starts_with("silu") || function.starts_with("swish")) {
      activation_ = "silu";
    } else if (squared || function.find("relu") != std::string::npos) {
      activation_ = "relu";
    } else if (!gated_ && !function.empty() && function.find("gelu") == std::string::npos) {
      lack(in_.find("activation-func")->words());
    }
    // The command line's default with --swiglu: two thirds of four times as wide, whole multiples of 64.
    const std::int64_t usual = swiglu ? hidden_ * 8 / 3 / 64 * 64 : 4 * hidden_;
    inner_ = size_or("ffn-hidden-size", std::max<std::int64_t>(usual, 1));
  }

  void read_widths() {
    read_activation();
    if (!in_.has("kv-channels") && missing_.empty() && hidden_ % heads_ != 0) {
      out_.fault(fmt::format("{} attention heads do not divide a hidden size of {}", heads_, hidden_),
                 in_.find("num-attention-heads")->where, {"state --kv-channels where it does not follow from the two"});
    }
    width_ = size_or("kv-channels", std::max<std::int64_t>(1, hidden_ / heads_));
    // argparse ignores --num-query-groups without the switch; YAML of NeMo has the number alone, and so has
    // Megatron-DeepSpeed, whose switch gives it Megatron's name.
    const bool switched = on("group-query-attention");
    const Argument* heads = in_.find("num-key-value-heads");
    const Argument* groups = heads != nullptr && !switched ? heads : in_.find("num-query-groups");
    const bool yaml =
        groups != nullptr && (groups->where.file.ends_with(".yaml") || groups->where.file.ends_with(".yml"));
    const bool grouped = switched || groups == heads || (yaml && !in_.has("group-query-attention"));
    kv_heads_ = grouped && groups != nullptr ? need(groups->name, kMostSize) : heads_;
    if (heads_ % kv_heads_ != 0 && missing_.empty()) {
      out_.fault(fmt::format("'{}' do not divide {} attention heads", shown(groups->words()), heads_), groups->where);
    }
    if (on("multi-latent-attention")) {
      latent_ = true;
      // Defaults of Megatron-Core's MLATransformerConfig.
      query_rank_ = in_.has("q-lora-rank") ? need("q-lora-rank", kMostSize) : 0;
      kv_rank_ = size_or("kv-lora-rank", 512);
      nope_ = size_or("qk-head-dim", 128);
      rope_ = size_or("qk-pos-emb-head-dim", 64);
      value_width_ = size_or("v-head-dim", 128);
    }
  }

  /// Megatron pads the vocabulary so that every tensor rank has a multiple of 128 rows.
  void read_vocabulary() {
    in_.find("make-vocab-size-divisible-by");
    const Argument* padded = in_.find_first({"padded-vocab-size", "pad-vocab-size-to"});  // Megatron-DeepSpeed's
    const Argument* stated = in_.find("vocab-size");
    if (padded != nullptr && !in_.is_unknown(padded->name)) {
      vocabulary_ = need(padded->name, kMostSize);
      return;
    }
    std::int64_t tokens = options_.vocabulary;
    if (tokens == 0 && stated != nullptr && !in_.is_unknown("vocab-size")) {
      tokens = need("vocab-size", kMostSize);
      // megatron/training/tokenizer: the null tokenizer has an end of document beside the tokens stated.
      if (in_.word("tokenizer-type") == "nulltokenizer") ++tokens;
    }
    if (tokens == 0) {
      const Argument* type = in_.find("tokenizer-type");
      lack("the vocabulary, which " + (type == nullptr ? std::string("its tokenizer") : shown(type->words())) +
           " decides (--vocab-size N at the import)");
      return;
    }
    if (bridge_ && !on("should-pad-vocab")) {
      vocabulary_ = tokens;
      return;
    }
    const std::int64_t multiple =
        size_or("make-vocab-size-divisible-by", 128) * std::max<std::int64_t>(out_.count_of("parallel.tensor"), 1);
    if (out_.value_of("parallel.tensor") == kAsked) {
      const Argument& ranks = *in_.find("tensor-model-parallel-size");
      out_.leave_out(ranks.words(), "the vocabulary is padded as for one tensor rank", ranks.where);
    }
    vocabulary_ = (tokens + multiple - 1) / multiple * multiple;
    if (vocabulary_ > kMostSize) lack("a vocabulary of a possible size");
  }

  void read_mixture() {
    if (!in_.has("num-experts")) return;
    experts_.experts = need("num-experts", hf::kMostExperts);
    experts_.active = size_or("moe-router-topk", 2);
    experts_.width = size_or("moe-ffn-hidden-size", inner_);
    experts_.gated = gated_;
    experts_.bias = biased();
    if (missing_.empty() && experts_.active > experts_.experts) {
      out_.fault(fmt::format("{} experts per token of {}", experts_.active, experts_.experts),
                 in_.find("num-experts")->where, {"--moe-router-topk is at most --num-experts (2 unless stated)"});
    }
    shared_ =
        in_.has("moe-shared-expert-intermediate-size") ? need("moe-shared-expert-intermediate-size", kMostSize) : 0;
    sparse_ = blocks_of_experts(in_, layers_, out_);
    if (sparse_.empty()) lack(in_.find("moe-layer-freq")->words());
  }

  /// In the printed list and in YAML the switch goes by its variable.
  bool biased() {
    const Argument* linear = in_.find_first({"add-bias-linear", "bias"});
    return !in_.flag("disable-bias-linear") && (linear == nullptr || in_.flag(linear->name));
  }

  void read_switches() {
    const std::string norm = said("normalization");
    rms_ = norm == "rmsnorm";
    if (!norm.empty() && norm != "layernorm" && norm != "layernorm1p" && !rms_) {
      out_.fault(fmt::format("'{}'", shown(in_.find("normalization")->words())), in_.find("normalization")->where,
                 {"valid: LayerNorm, RMSNorm"});
    }
    bias_ = biased();
    qkv_bias_ = bias_ || on("add-qkv-bias") || on("qkv-bias");
    qk_norm_ = on("qk-layernorm");
    tied_ = ties_embeddings(in_);
    const std::string position = said("position-embedding-type");
    rotary_ = on("use-rotary-position-embeddings") || position == "rope" || position == "yarn";
    // ALiBi adds to scores what follows from distances alone.
    const bool none = on("no-position-embedding");
    positions_ = !rotary_ && !none && position != "none" && position != "alibi";
    if (const Argument* added = in_.find("add-position-embedding");
        added != nullptr && !in_.flag("add-position-embedding")) {
      positions_ = false;
    }
    in_.find("max-position-embeddings");  // of no effect where positions are no table
    if (positions_ && bridge_) {
      position_rows_ = rows_;
    } else if (positions_) {
      position_rows_ = need("max-position-embeddings", kMostSize);
    }
    dropout_ = probability("hidden-dropout");
    taken_to_be("hidden-dropout", "dropout is there, as Megatron has it unless told not to");
    flash_ = attends_in_one(in_);
    if (const Argument* size = in_.find("window-size")) read_window(*size);
    for (const char* name : {"disable-bias-linear", "add-bias-linear", "bias", "untie-embeddings-and-output-weights",
                             "share-embeddings-and-output-weights", "add-position-embedding"}) {
      on(name);  // read by others
    }
    for (const char* name : {"attention-backend", "transformer-impl"}) taken_to_be(name, "attention is one kernel");
  }

  /// What is not known and changes no size.
  void taken_to_be(std::string_view name, const char* what) {
    if (!in_.is_unknown(name)) return;
    const Argument& found = *in_.find(name);
    out_.leave_out(found.words(), fmt::format("not known: {}", what), found.where);
  }

  /// Whether an option's probability is above 0; Megatron's own is 0.1.
  bool probability(std::string_view name) {
    const Argument* found = in_.find(name);
    if (found == nullptr || in_.is_unknown(name)) return true;
    const auto value = found->values.size() == 1 ? parse_number(found->values.front()) : parse_number("?");
    if (value && *value >= 0 && *value < 1) return *value > 0;
    out_.fault(fmt::format("'{}'", shown(found->words())), found->where, {"it takes a number from 0, below 1"});
    return false;
  }

  /// "127,0": so many keys before the query's own.
  void read_window(const Argument& found) {
    if (in_.is_unknown(found.name)) return lack(found.words());
    std::string text;
    for (const std::string& value : found.values) text += value + ",";
    std::erase_if(text, [](char c) { return c == '(' || c == ')' || c == ' '; });
    const auto before = parse_count(text.substr(0, text.find(',')), {0, kMostSize});
    if (!before) {
      out_.fault(fmt::format("'{}'", shown(found.words())), found.where, {"it takes two whole numbers, as 127,0"});
      return;
    }
    window_ = *before + 1;
    full_every_ = size_or("window-attn-skip-freq", 0);
  }

  void norm(hf::Stack& stack, const char* name) const {
    if (rms_) {
      stack.add("rmsnorm", wl::RmsNorm{}, name);
    } else {
      stack.add("layernorm", wl::LayerNorm{}, name);
    }
  }
  void norm_on(hf::Stack& stack, const wl::Shape& sizes, const char* name) const {
    if (rms_) {
      stack.add_on(sizes, "rmsnorm", wl::RmsNorm{}, name);
    } else {
      stack.add_on(sizes, "layernorm", wl::LayerNorm{}, name);
    }
  }
  void linear(hf::Stack& stack, std::int64_t out, bool bias, const char* name) {
    stack.add("linear", wl::Linear{.out = out, .bias = bias}, name);
  }
  void residual(hf::Stack& stack, const char* dropout, const char* sum) const {
    if (dropout_) stack.add("dropout", wl::pointwise("dropout"), dropout);
    stack.add("add", wl::Combine{}, sum);
  }

  void add_projections(hf::Stack& stack) {
    if (!latent_) {
      linear(stack, (heads_ + 2 * kv_heads_) * width_, qkv_bias_, "linear_qkv");
      if (qk_norm_) {
        norm_on(stack, {heads_, width_}, "q_layernorm");
        norm_on(stack, {kv_heads_, width_}, "k_layernorm");
      }
      if (rotary_) stack.add_on({(heads_ + kv_heads_) * width_}, "rotary", wl::pointwise("rotary"), "rotary");
      return;
    }
    const std::int64_t queries = heads_ * (nope_ + rope_);
    if (query_rank_ > 0) {
      linear(stack, query_rank_, false, "linear_q_down_proj");
      norm(stack, "q_layernorm");
      linear(stack, queries, false, "linear_q_up_proj");
    } else {
      linear(stack, queries, false, "linear_q_proj");
    }
    stack.add_on({hidden_}, "linear", wl::Linear{.out = kv_rank_ + rope_, .bias = false}, "linear_kv_down_proj");
    norm_on(stack, {kv_rank_}, "kv_layernorm");
    linear(stack, heads_ * (nope_ + value_width_), false, "linear_kv_up_proj");
    stack.add_on({2 * queries}, "rotary", wl::pointwise("rotary"), "rotary");
  }

  void add_attention(hf::Stack& stack, std::int64_t block) {
    const std::int64_t width = latent_ ? nope_ + rope_ : width_;
    if (!flash_ && !latent_) {
      stack.add_on({heads_ * width}, "attention", wl::Attention{.heads = heads_, .causal = true}, "core_attention");
    } else {
      const bool full = full_every_ > 0 && (block + 1) % full_every_ == 0;
      stack.add_on({heads_ * width}, "grouped_attention",
                   wl::GroupedAttention{.heads = heads_,
                                        .kv_heads = latent_ || kv_heads_ == heads_ ? 0 : kv_heads_,
                                        .width = width,
                                        .value_width = latent_ ? value_width_ : 0,
                                        .window = full ? 0 : window_,
                                        .causal = true},
                   "core_attention");
    }
    linear(stack, hidden_, bias_, "linear_proj");
  }

  void add_mlp(hf::Stack& stack, std::int64_t inner, bool bias, const std::string& prefix) {
    stack.add_on({hidden_}, "linear", wl::Linear{.out = gated_ ? 2 * inner : inner, .bias = bias},
                 prefix + "linear_fc1");
    if (gated_) {
      stack.add_on({inner}, "swiglu", kGated, prefix + "activation");
    } else {
      stack.add(activation_, wl::pointwise(activation_), prefix + "activation");
    }
    stack.add("linear", wl::Linear{.out = hidden_, .bias = bias}, prefix + "linear_fc2");
  }

  void add_block(hf::Stack& stack, std::int64_t block) {
    norm(stack, "input_layernorm");
    add_projections(stack);
    add_attention(stack, block);
    residual(stack, "attention_dropout", "attention_residual");
    norm(stack, "pre_mlp_layernorm");
    if (sparse_.empty() || !sparse_[static_cast<std::size_t>(block)]) {
      add_mlp(stack, inner_, bias_, "");
    } else {
      stack.add("linear", wl::Linear{.out = experts_.experts, .bias = false}, "router");
      stack.add("softmax", wl::pointwise("softmax"), "routing");
      stack.add_on({hidden_}, "experts", experts_, "experts");
      if (shared_ > 0) {
        add_mlp(stack, shared_, bias_, "shared_");
        stack.add("add", wl::Combine{}, "shared_sum");
      }
    }
    residual(stack, "mlp_dropout", "mlp_residual");
  }

  void build() {
    hf::Stack stack(rows_);
    stack.table(vocabulary_, hidden_, "word_embeddings");
    if (positions_) {
      stack.table(position_rows_, hidden_, "position_embeddings");
      stack.add("add", wl::Combine{}, "positions");
    }
    if (dropout_) stack.add("dropout", wl::pointwise("dropout"), "embedding_dropout");
    std::vector<std::size_t> starts;  // of every block in the list
    for (std::int64_t i = 0; i < layers_; ++i) {
      starts.push_back(stack.size());
      add_block(stack, i);
    }
    const std::size_t after = stack.size();
    norm(stack, "final_layernorm");
    stack.add("linear", wl::Linear{.out = vocabulary_, .bias = false, .tied = tied_}, "output_layer");
    stack.add("softmax", wl::pointwise("softmax"), "loss");
    add_megatron_stages(in_, {starts, after, stack.size()}, out_);
    describe(stack);
  }

  void describe(hf::Stack& stack) {
    io::ModelDescription model;
    model.id = options_.model_id.empty() ? "megatron" : options_.model_id;
    model.name = fmt::format("{} ({} blocks of {}, Megatron-LM)", model.id, layers_, hidden_);
    model.task = "language modelling";
    model.sample = "sequence";
    const std::int64_t micro = out_.count_of("batch");
    model.batch = std::max<std::int64_t>(micro, 1);
    const std::string optimizer = in_.word("optimizer");
    model.optimizer = optimizer == "sgd" ? wl::Optimizer::kSgdMomentum : wl::Optimizer::kAdam;
    model.input_shape = {rows_};
    // tokens, labels and positions of 8 bytes, the loss mask of 4.
    model.input_per_sample = bytes(28.0 * static_cast<double>(rows_));
    model.layers = stack.take();
    model.rows_name = "sequence";
    const std::string file = "Megatron-LM arguments";
    model.sources = {
        {"layers", file + ", as Megatron-Core's GPTModel builds its layers of them"},
        {"input", "tokens, labels, positions (8 B each) and loss mask (4 B), as pretrain_gpt.py copies them"},
        {"batch", "--micro-batch-size"},
        {"optimizer", optimizer.empty() ? "Megatron's default, adam" : "--optimizer " + shown(optimizer)},
        {"dimensions", "--seq-length"},
    };
    if (micro <= 0) model.sources[2].text = "1, as none is stated";
    if (flash_) model.notes = "Attention is one kernel, as Transformer Engine has it.";
    if (const auto made = io::build_model(model); !made) {
      const Argument& layers = *in_.find("num-layers");
      out_.fault("the model of these arguments: " + made.error().message, layers.where, made.error().notes);
      return;
    }
    out_.result().model = std::move(model);
  }

  Arguments& in_;
  const LaunchOptions& options_;
  Builder& out_;
  std::string missing_;
  std::int64_t layers_ = 1;
  std::int64_t hidden_ = 1;
  std::int64_t heads_ = 1;
  std::int64_t kv_heads_ = 1;
  std::int64_t rows_ = 1;
  std::int64_t inner_ = 1;
  std::int64_t width_ = 1;
  std::int64_t vocabulary_ = 1;
  std::int64_t position_rows_ = 1;
  std::int64_t shared_ = 0;
  std::int64_t window_ = 0;
  std::int64_t full_every_ = 0;
  std::int64_t query_rank_ = 0;
  std::int64_t kv_rank_ = 1;
  std::int64_t nope_ = 1;
  std::int64_t rope_ = 1;
  std::int64_t value_width_ = 0;
  wl::Experts experts_{};
  std::vector<bool> sparse_;
  const char* activation_ = "gelu";
  bool gated_ = false;
  bool latent_ = false;
  bool rms_ = false;
  bool bias_ = true;
  bool qkv_bias_ = true;
  bool qk_norm_ = false;
  bool tied_ = true;
  bool rotary_ = false;
  bool positions_ = true;
  bool dropout_ = true;
  bool flash_ = true;
  bool bridge_ = false;  // Megatron-Bridge makes the model
};

}  // namespace

bool attends_in_one(Arguments& arguments) {
  const std::string backend = arguments.word("attention-backend");
  const std::string engine = arguments.word("transformer-impl");
  return arguments.flag("use-flash-attn") ||
         !(backend == "unfused" || backend == "local" || engine == "local" || arguments.flag("use-legacy-models"));
}

void read_megatron_model(Arguments& arguments, const LaunchOptions& options, Builder& out) {
  ModelReader(arguments, options, out).read();
}

}  // namespace ddlsim::importers::launch
