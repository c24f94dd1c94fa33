// What operators keep for their backward: rules and sources in plan/memory.h.
#include <algorithm>
#include <variant>

#include "activations.h"
#include "ddlsim/workload/blocks.h"
#include "ddlsim/workload/passes.h"

namespace ddlsim::plan {
namespace {

namespace wl = ddlsim::workload;

double rows_in(const wl::Shape& shape) {
  return shape.empty() || shape.back() == 0 ? 1 : elements_in(shape) / static_cast<double>(shape.back());
}

constexpr double kSingleLoss = 12;  // bytes: an fp32 copy of the logits, their log-softmax, its gradient

bool is_causal(const wl::Layer& layer) {
  if (!layer.op) return true;
  const auto* whole = std::get_if<wl::Attention>(&*layer.op);
  const auto* grouped = std::get_if<wl::GroupedAttention>(&*layer.op);
  return (whole == nullptr || whole->causal) && (grouped == nullptr || grouped->causal);
}

/// Layer `i`, or the one behind it where it caps logits (tanh); none at the end.
const wl::Layer* after_cap(std::span<const wl::Layer> layers, std::size_t i) {
  if (i >= layers.size()) return nullptr;
  const auto* cap = layers[i].op ? std::get_if<wl::Pointwise>(&*layers[i].op) : nullptr;
  const bool caps = cap != nullptr && cap->reads == wl::Reads::kOutput && !cap->over_rows;
  return caps && i + 1 < layers.size() ? &layers[i + 1] : &layers[i];
}

/// Follows a list of layers and knows which tensor is a part, which whole, and which somebody has kept already.
class Keeper {
 public:
  /// `drops`: probabilities of attention are dropped at random, as other layers' outputs are.
  /// `decodes`: a language model, whose logits code in PyTorch makes fp32 before the loss.
  Keeper(const ActivationCut& cut, bool drops, bool decodes)
      : cut_(cut),
        element_(activation_size(cut.precision).in(bytes)),
        product_(!cut.quantised                     ? element_
                 : cut.precision == Precision::kFp4 ? 0.5
                                                    : 1),
        of_logit_(!cut.single    ? element_ + 4
                  : decodes      ? kSingleLoss
                  : cut.autocast ? 2 * kSingle + element_
                                 : 3 * element_),
        batch_(static_cast<double>(cut.batch)),
        tensor_(static_cast<double>(cut.tensor)),
        rows_(1.0 / static_cast<double>(cut.context)),
        whole_(cut.sequence ? rows_ / tensor_ : rows_),
        part_(rows_ / tensor_),
        load_(cut.expert_load),
        routed_(cut.whole_experts ? part_ : rows_),
        drops_(drops),
        autocast_(cut.autocast) {}

  /// `trains`: whether the layer's weights, or an adapter's beside them, have a gradient. `capped`: a cap of logits
  /// lies between it and `after`.
  KeptActivations next(const wl::Layer& layer, const wl::Layer* after, bool trains, bool capped) {
    kept_ = {};
    capped_ = capped;
    layer_ = &layer;
    after_ = after;
    trains_ = trains;
    if (!layer.op || layer.measured) {
      always(element_ * static_cast<double>(layer.saved_elements) * rows_);
      return kept_;
    }
    kept_.casts = cast_weights(layer, cut_);
    const bool was_kept = std::exchange(output_kept_, false);
    if (!std::holds_alternative<wl::Linear>(*layer.op) && !wl::is_dropout(layer)) norm_wide_ = false;
    std::visit([&](const auto& op) { keep(op, was_kept); }, *layer.op);
    if (wl::runs_forward_alone(layer)) kept_ = {.working = kept_.working};
    return kept_;
  }

 private:
  void always(double size) { kept_.always += bytes(size * batch_); }
  void makes(double size) { kept_.output = bytes(size * batch_); }
  void working(double in_share, double out_share) {
    kept_.working =
        bytes(element_ * batch_ *
              (elements_in(layer_->in) * in_share + static_cast<double>(layer_->output_elements) * out_share));
  }
  [[nodiscard]] bool reads_part() const {
    return parted_ && used_ && !layer_->in.empty() && layer_->in.back() == width_;
  }
  /// Of a tensor that is as the last product or attention left it.
  [[nodiscard]] double share() const {
    return parted_ && !layer_->in.empty() && layer_->in.back() == width_ ? part_ : whole_;
  }

  void keep(const wl::Linear& op, bool was_kept) {
    const double in = elements_in(layer_->in);
    const auto out = static_cast<double>(layer_->output_elements);
    const bool copies = cut_.quantised && !ends_in_loss() && !routes();
    const double kept = copies ? product_ : element_;
    const bool keeps = trains_ && (copies || !was_kept);
    if (reads_part()) {
      if (keeps) always(kept * in * part_);
      makes(element_ * out * rows_);  // before ranks add it up
      parted_ = false;
      working(part_, whole_);
      return;
    }
    // Products that read one tensor keep it once; of one in fp32 each its own copy in the format of a product.
    if (keeps && (norm_wide_ || !has(sources_, in))) {
      always(kept * in * whole_);
      sources_.push_back(in);
    }
    makes(element_ * out * part_);
    parted_ = true;
    used_ = false;
    width_ = op.out;
    working(whole_, part_);
    if (ends_in_loss()) {
      // Gradients of the logits take the place of the logits.
      const double of_logit = of_logit_ + (capped_ ? element_ : 0);
      kept_.loss = bytes(batch_ * static_cast<double>(layer_->output_elements) * part_ * of_logit);
      working(whole_, 0);
    }
  }
  /// Whether a softmax over what this product makes chooses experts.
  [[nodiscard]] bool routes() const {
    const auto* softmax = after_ != nullptr && after_->op ? std::get_if<wl::Pointwise>(&*after_->op) : nullptr;
    return softmax != nullptr && softmax->over_rows && !ends_in_loss();
  }
  /// Whether a softmax over what this product makes is a loss, and no choice of experts.
  [[nodiscard]] bool ends_in_loss() const {
    const auto* softmax = after_ != nullptr && after_->op ? std::get_if<wl::Pointwise>(&*after_->op) : nullptr;
    return softmax != nullptr && softmax->over_rows &&
           static_cast<double>(layer_->output_elements) > elements_in(layer_->in);
  }

  void keep(const wl::RmsNorm&, bool) {
    // Of single operations: in fp32 what is squared, and what weights scale.
    const double scaled = autocast_ ? kSingle : element_;
    keep_norm(4, cut_.single ? kSingle + scaled : wide());
  }
  void keep(const wl::LayerNorm&, bool) { keep_norm(8, wide()); }
  [[nodiscard]] double wide() const { return autocast_ ? std::max(element_, kSingle) : element_; }
  void keep_norm(double statistics, double element) {
    // Of every head's queries or keys, or of a whole row.
    const bool of_heads = layer_->in.size() == 3;
    const double cut = of_heads ? part_ : whole_;
    always((element * elements_in(layer_->in) + statistics * rows_in(layer_->in)) * cut);
    working(cut, cut);
    if (of_heads) return;
    parted_ = false;
    norm_wide_ = wide() > element_;
  }

  void keep(const wl::Pointwise& op, bool) {
    const double in = elements_in(layer_->in);
    const double cut = share();
    if (op.over_rows) {
      // Routing, in fp32; a loss has its own entry with the product before it.
      const bool routes = after_ != nullptr && after_->op && std::holds_alternative<wl::Experts>(*after_->op);
      if (routes) always(4 * in * whole_);
      return;
    }
    working(cut, cut);
    if (op.reads == wl::Reads::kInput) always(of_activation(op) * in * cut);
    if (op.reads == wl::Reads::kMask) always(in * cut);
    // What comes out is no product's input where something lies between.
    if (op.reads == wl::Reads::kOutput && is_changed()) always(element_ * in * cut);
    // What comes out of it is another tensor than what products of that size have read before.
    if (op.reads == wl::Reads::kInput || op.reads == wl::Reads::kOutput) std::erase(sources_, in);
    used_ = used_ || (!layer_->in.empty() && layer_->in.back() == width_);
  }
  /// Whether a dropout or a scaling makes another tensor of what this layer makes.
  [[nodiscard]] bool is_changed() const {
    const auto* op = after_ != nullptr && after_->op ? std::get_if<wl::Pointwise>(&*after_->op) : nullptr;
    return op != nullptr && (op->reads == wl::Reads::kMask || op->reads == wl::Reads::kNothing);
  }
  /// Of GPT-2's GELU what is raised to a power, its hyperbolic tangent and both factors of the product that ends it; of
  /// CLIP's these two.
  [[nodiscard]] double of_activation(const wl::Pointwise& op) const {
    if (!cut_.single) return element_;
    if (op.composite == wl::Composite::kGeluNew) return 3 * wide() + element_;
    return op.composite == wl::Composite::kQuickGelu ? 2 * element_ : element_;
  }
  void keep(const wl::Combine& op, bool) {
    // Both factors may be halves of what one product made.
    const bool halves = op.product && parted_ && !layer_->in.empty() && 2 * layer_->in.back() == width_;
    const double cut = halves ? part_ : op.product ? share() : whole_;
    working(2 * cut, cut);
    if (op.product) {
      // Of single operations the activation is one, and keeps what it reads.
      const double read = op.gated && cut_.gated_fp8 ? 1 : element_;
      always((cut_.single && op.gated ? 3 : 2) * read * elements_in(layer_->in) * cut);
      used_ = true;
      if (!layer_->in.empty()) width_ = layer_->in.back();
      return;
    }
    parted_ = false;
    sources_.clear();
  }

  void keep(const wl::Attention& op, bool) {
    const double rows = static_cast<double>(layer_->in.front());
    const double width = static_cast<double>(layer_->in.back());
    const double keys = op.keys == 0 ? rows : static_cast<double>(op.keys);
    const bool composed = op.biased && cut_.composed;
    const double inner = composed ? std::max(element_, kSingle) : element_;
    always(width * (rows * (inner + element_) + 2 * keys * inner) * part_);
    const double softmax = op.wide || composed ? std::max(element_, kSingle) : wide();
    const bool copied = drops_ || softmax > inner;  // what the product with the values reads
    const double per_score = softmax + (copied ? inner : 0) + (drops_ ? 1 : 0);
    makes(element_ * width * rows * part_);
    kept_.core = bytes(per_score * static_cast<double>(op.heads) * rows * keys * part_ * batch_);
    working(2 * part_, 2 * part_);
    attended(layer_->in.back());
  }
  void keep(const wl::GroupedAttention& op, bool) {
    const double rows = static_cast<double>(layer_->in.front());
    const auto heads = static_cast<double>(op.heads);
    const auto kv_heads = static_cast<double>(op.kv_heads == 0 ? op.heads : op.kv_heads);
    const auto width = static_cast<double>(op.width);
    const auto value_width = static_cast<double>(op.value_width == 0 ? op.width : op.value_width);
    const double kv_share = std::max(part_, rows_ / kv_heads);  // a head that several ranks need is on each of them
    always(rows * (heads * (element_ * (width + value_width) + 4) * part_ +
                   element_ * kv_heads * (width + value_width) * kv_share));
    makes(rows * heads * (element_ * value_width + 4) * part_);
    working(2 * part_, 2 * part_);
    attended(op.heads * (op.value_width == 0 ? op.width : op.value_width));
  }
  void attended(std::int64_t width) {
    parted_ = true;
    used_ = true;
    width_ = width;
    output_kept_ = true;
  }

  void keep(const wl::Experts& op, bool) {
    const double rows = rows_in(layer_->in) * static_cast<double>(op.active) * load_;
    const double outside = rows * static_cast<double>(layer_->in.back()) * routed_;
    const double inside = rows * static_cast<double>(op.width) * part_;
    // The rows and the last product's input serve weights' gradients.
    const double read = op.gated && cut_.gated_fp8 ? 1 : element_;
    always((op.gated ? 2 : 1) * read * inside + (trains_ ? product_ * (outside + inside) : 0));
    kept_.working = bytes(element_ * batch_ * (2 * outside + (op.gated ? 2 : 1) * inside));
    parted_ = false;
  }

  void keep(const wl::Embedding&, bool) { working(0, whole_); }
  template <typename Other>
  void keep(const Other&, bool) {
    always(element_ * static_cast<double>(layer_->saved_elements) * rows_);
    working(rows_, rows_);
    parted_ = false;
  }

  static bool has(const std::vector<double>& sizes, double size) {
    return std::find(sizes.begin(), sizes.end(), size) != sizes.end();
  }

  const ActivationCut& cut_;
  double element_;
  double product_;  // of a product's input
  double of_logit_ = 0;
  double batch_;
  double tensor_;
  double rows_;    // shares: of a tensor whose rows alone are cut,
  double whole_;   // of one between the parts of a block,
  double part_;    // of one inside of them
  double load_;    // of experts
  double routed_;  // of rows that went to experts
  bool drops_;
  bool autocast_ = false;
  bool trains_ = true;
  bool capped_ = false;
  KeptActivations kept_;
  const wl::Layer* layer_ = nullptr;
  const wl::Layer* after_ = nullptr;
  bool parted_ = false;  // the last product made a part
  bool used_ = false;    // something has worked on it since
  std::int64_t width_ = 0;
  bool output_kept_ = false;     // the layer before keeps what it made
  bool norm_wide_ = false;       // products read what a norm made in fp32
  std::vector<double> sources_;  // elements of whole tensors that products of this block have kept
};

}  // namespace

double elements_in(const wl::Shape& shape) {
  double all = 1;
  for (const std::int64_t size : shape) all *= static_cast<double>(size);
  return all;
}

DataSize cast_weights(const wl::Layer& layer, const ActivationCut& cut) {
  if (!cut.casts || layer.in.empty()) return {};
  double weights = 0;
  if (const auto* linear = std::get_if<wl::Linear>(&*layer.op)) {
    weights =
        static_cast<double>(layer.in.back()) * static_cast<double>(linear->out) / static_cast<double>(linear->groups);
  } else if (std::holds_alternative<wl::Convolution>(*layer.op) && !layer.parameters.empty()) {
    weights = static_cast<double>(layer.parameters.front());
  }
  return activation_size(cut.precision) * (weights / static_cast<double>(cut.tensor));
}

std::vector<KeptActivations> kept_activations(std::span<const workload::Layer> layers, const ActivationCut& cut) {
  const auto any = [&](auto is) { return std::any_of(layers.begin(), layers.end(), is); };
  const bool convolves =
      any([](const wl::Layer& layer) { return layer.op && std::holds_alternative<wl::Convolution>(*layer.op); }) &&
      !any(wl::is_attention);
  if (convolves) return kept_between(layers, cut);
  const bool decodes = !any([](const wl::Layer& layer) { return wl::is_attention(layer) && !is_causal(layer); });
  Keeper keeper(cut, any(wl::is_dropout), decodes);
  const std::vector<bool> adapted =
      cut.adapters ? wl::adapted_products(layers, *cut.adapters) : std::vector<bool>(layers.size(), true);
  std::vector<KeptActivations> kept;
  kept.reserve(layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const wl::Layer* after = after_cap(layers, i + 1);
    kept.push_back(keeper.next(layers[i], after, adapted[i], after != nullptr && after != &layers[i + 1]));
  }
  return kept;
}

}  // namespace ddlsim::plan
