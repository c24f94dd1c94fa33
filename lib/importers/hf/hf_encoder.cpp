// BERT and its relatives: encoders with learned positions and a norm behind attention and MLP (modeling_bert.py,
// modeling_roberta.py, modeling_xlm_roberta.py and modeling_electra.py of transformers).
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "hf_towers.h"

namespace ddlsim::importers::hf {
namespace {

namespace wl = ddlsim::workload;

/// What sets the members apart.
struct EncoderTraits {
  std::string_view model_type;
  bool padded_positions = false;  // the table's first rows, up to that of `pad_token_id`, stand for no position
  bool narrow_tables = false;     // tables of `embedding_size`, projected where that is not `hidden_size`
  bool discriminates = false;     // pre-training scores every token, where BERT's guesses the masked ones
  const char* pooled = "tanh";    // activation of the classifier's head
  bool pooler_first = true;  // classifies what the model's pooler leaves; otherwise the head has a layer of its own
};

constexpr std::array kEncoders{
    EncoderTraits{.model_type = "bert"},
    EncoderTraits{
        .model_type = "electra", .narrow_tables = true, .discriminates = true, .pooled = "gelu", .pooler_first = false},
    EncoderTraits{.model_type = "roberta", .padded_positions = true, .pooler_first = false},
    EncoderTraits{.model_type = "xlm-roberta", .padded_positions = true, .pooler_first = false},
};

class Encoder {
 public:
  Encoder(ConfigReader& config, const Request& request, const EncoderTraits& traits)
      : config_(config),
        head_(request.head),
        traits_(traits),
        stack_(tokens(config, request, traits)),
        width_(divided(config, "hidden_size", "num_attention_heads")),
        table_width_(traits.narrow_tables ? config.size_or("embedding_size", 128) : width_),
        heads_(config.size("num_attention_heads")),
        blocks_(config.size("num_hidden_layers", {1, kMostBlocks})),
        inner_(config.size("intermediate_size")),
        vocabulary_(config.size("vocab_size")),
        positions_(config.size("max_position_embeddings")),
        types_(config.size_or("type_vocab_size", 2)),
        activation_(activation_of(config, "hidden_act", "gelu")),
        drops_(config.probability_or("hidden_dropout_prob", 0.1) > 0) {
    const std::string kind = config.text_or("position_embedding_type", "absolute");
    if (kind != "absolute") {
      config.report("position_embedding_type", "is '" + kind.substr(0, 60) + "': these positions have no rule",
                    {"known: absolute"}, ErrorCode::kUnsupported);
    }
    if (config.flag_or("add_cross_attention", false)) {
      config.report("add_cross_attention", "is true: an encoder alone has a rule", {}, ErrorCode::kUnsupported);
    }
  }

  Family build() {
    add_tables();
    for (std::int64_t i = 0; i < blocks_ && !config_.failed(); ++i) add_block();
    add_head();
    Family family = family_of_tokens(stack_.rows());
    family.task = head_ == "ForSequenceClassification"                 ? "text classification"
                  : traits_.discriminates && head_ == "ForPreTraining" ? "replaced token detection"
                                                                       : "masked language model";
    family.layers = stack_.take();
    family.notes = {
        "Dropout of the attention probabilities is not listed: attention covers scores, softmax and context."};
    return family;
  }

 private:
  /// As asked for, else all that the table has positions for.
  static std::int64_t tokens(ConfigReader& config, const Request& request, const EncoderTraits& traits) {
    if (!traits.padded_positions) return sequence_of(config, request, "max_position_embeddings", true);
    const std::int64_t before = config.size_or("pad_token_id", 1, {0, kLargestSize}) + 1;
    const std::int64_t table = config.size("max_position_embeddings");
    if (table <= before) {
      config.report("max_position_embeddings", fmt::format("is {}: with 'pad_token_id' none is left", table));
      return 1;
    }
    const std::int64_t most = table - before;
    const std::int64_t sequence = request.sequence.value_or(std::min<std::int64_t>(most, 4096));
    if (sequence > most) {
      config.report("max_position_embeddings",
                    fmt::format("is {}, {} of it padding: the model has no position for all of {} tokens", table,
                                before, sequence),
                    {fmt::format("ask for a sequence of at most {} (--sequence)", most)});
    }
    return sequence;
  }

  void drop(const char* name) {
    if (drops_) stack_.add("dropout", wl::pointwise("dropout"), name);
  }

  void add_tables() {
    stack_.table(vocabulary_, table_width_, "word_embeddings");
    stack_.table(positions_, table_width_, "position_embeddings");
    stack_.table(types_, table_width_, "token_type_embeddings");
    stack_.add("add", wl::Combine{}, "positions");
    stack_.add("add", wl::Combine{}, "token_types");
    stack_.add("layernorm", wl::LayerNorm{}, "embedding_norm");
    drop("embedding_dropout");
    if (table_width_ != width_) stack_.add("linear", wl::Linear{.out = width_}, "embeddings_project");
  }

  void add_block() {
    for (const char* name : {"query", "key", "value"}) {
      stack_.add_on({width_}, "linear", wl::Linear{.out = width_}, name);
    }
    stack_.add_on({width_}, "attention", wl::Attention{.heads = heads_}, "attention");
    stack_.add("linear", wl::Linear{.out = width_}, "attention_output");
    drop("attention_dropout");
    stack_.add("add", wl::Combine{}, "attention_residual");
    stack_.add("layernorm", wl::LayerNorm{}, "attention_norm");
    stack_.add("linear", wl::Linear{.out = inner_}, "intermediate");
    stack_.add(activation_, wl::pointwise(activation_), "activation");
    stack_.add("linear", wl::Linear{.out = width_}, "output");
    drop("output_dropout");
    stack_.add("add", wl::Combine{}, "output_residual");
    stack_.add("layernorm", wl::LayerNorm{}, "output_norm");
  }

  void add_head() {
    const bool classifies = head_ == "ForSequenceClassification";
    const bool pretrains = head_ == "ForPreTraining";
    if (pretrains && traits_.discriminates) return add_discriminator();
    // ELECTRA's model has no pooler.
    const bool pools = (head_ == "Model" && !traits_.discriminates) || pretrains;
    if (pools || classifies) {
      const char* const activation = classifies ? traits_.pooled : "tanh";
      stack_.add_apart({width_}, "linear", wl::Linear{.out = width_},
                       classifies && !traits_.pooler_first ? "classifier_dense" : "pooler");
      stack_.add(activation, wl::pointwise(activation), "pooler_activation");
    }
    if (classifies) {
      const std::int64_t labels = std::max<std::int64_t>(1, config_.members("id2label").value_or(2));
      stack_.add("linear", wl::Linear{.out = labels}, "classifier");
      stack_.add("softmax", wl::pointwise("softmax"), "loss");
    }
    if (!pretrains && head_ != "ForMaskedLM") return;
    stack_.add_on({width_}, "linear", wl::Linear{.out = table_width_}, "mlm_transform");
    stack_.add("gelu", wl::pointwise("gelu"), "mlm_activation");
    stack_.add("layernorm", wl::LayerNorm{}, "mlm_norm");
    const bool tied = config_.flag_or("tie_word_embeddings", true);
    stack_.add("linear", wl::Linear{.out = vocabulary_, .bias = true, .tied = tied}, "mlm_decoder");
    stack_.add("softmax", wl::pointwise("softmax"), "mlm_loss");
    if (!pretrains) return;
    stack_.add_apart({width_}, "linear", wl::Linear{.out = 2}, "nsp");
    stack_.add("softmax", wl::pointwise("softmax"), "nsp_loss");
  }

  void add_discriminator() {
    stack_.add("linear", wl::Linear{.out = width_}, "discriminator_dense");
    stack_.add(activation_, wl::pointwise(activation_), "discriminator_activation");
    stack_.add("linear", wl::Linear{.out = 1}, "discriminator_prediction");
    stack_.add("sigmoid", wl::pointwise("sigmoid"), "loss");
  }

  ConfigReader& config_;
  const std::string& head_;
  const EncoderTraits& traits_;
  Stack stack_;
  std::int64_t width_;
  std::int64_t table_width_;
  std::int64_t heads_;
  std::int64_t blocks_;
  std::int64_t inner_;
  std::int64_t vocabulary_;
  std::int64_t positions_;
  std::int64_t types_;
  const char* activation_;
  bool drops_;
};

}  // namespace

Family encoder_family(ConfigReader& config, const Request& request) {
  const auto* const traits = std::find_if(kEncoders.begin(), kEncoders.end(), [&](const EncoderTraits& row) {
    return row.model_type == request.model_type;
  });
  return Encoder(config, request, traits == kEncoders.end() ? kEncoders.front() : *traits).build();
}

Family known_but_refused(ConfigReader& config, const Request& request) {
  struct Reason {
    std::string_view model_type;
    const char* what;
  };
  constexpr std::array kReasons{
      Reason{"albert",
             "one block's weights, biases and norms serve all blocks, and a shared bias or norm has no operator"},
      Reason{"deberta",
             "disentangled attention: products of contents by positions, gathered into the scores, and "
             "projections of positions that run once for all samples, have no operator"},
      Reason{"deberta-v2",
             "disentangled attention: products of contents by positions, gathered into the scores, and "
             "projections of positions that run once for all samples, have no operator"},
  };
  for (const Reason& reason : kReasons) {
    if (reason.model_type != request.model_type) continue;
    config.report("model_type",
                  fmt::format("is '{}', which is known, and not built: {}", reason.model_type, reason.what),
                  {"rather refused than told wrong numbers"}, ErrorCode::kUnsupported);
  }
  return {};
}

}  // namespace ddlsim::importers::hf
