#include "ddlsim/workload/shard.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "ddlsim/workload/passes.h"
#include "shard_rules.h"

namespace ddlsim::workload {
namespace {

using primitives::CollectiveOp;

/// Of a product's backward pass: one of its two products.
constexpr double kOneOfTwo = 0.5;

/// What products of one input made: a part per rank.
struct Part {
  std::int64_t width = 0;         // of the whole of the last
  bool used = false;              // whether anything has worked on it since
  std::int64_t rows = 0;          // of what they read
  std::vector<std::int64_t> all;  // widths of the wholes of all

  /// Whether something so wide is one of them, or some that follow each other, side by side.
  [[nodiscard]] bool has(std::int64_t wide) const {
    for (std::size_t first = 0; first < all.size(); ++first) {
      std::int64_t sum = 0;
      for (std::size_t i = first; i < all.size() && sum < wide; ++i) sum += all[i];
      if (sum == wide) return true;
    }
    return false;
  }
};

std::int64_t rows_of(const Shape& in) { return in.empty() || in.back() == 0 ? 0 : elements_of(in) / in.back(); }

template <typename Kind>
const Kind* kind_of(const Layer& layer) {
  return layer.op ? std::get_if<Kind>(&*layer.op) : nullptr;
}

/// What the rules look up of the layers around one.
class Surroundings {
 public:
  explicit Surroundings(std::span<const Layer> layers) : layers_(layers) {
    for (const Layer& layer : layers) {
      if (const auto* table = kind_of<Embedding>(layer)) vocabulary_ = std::max(vocabulary_, table->rows);
    }
  }

  [[nodiscard]] std::int64_t vocabulary() const { return vocabulary_; }
  /// The attention that products at `i` are for: with nothing but products, their norms and rotations between.
  [[nodiscard]] const GroupedAttention* attention_after(std::size_t i) const {
    for (++i; i < layers_.size(); ++i) {
      if (const auto* attention = kind_of<GroupedAttention>(layers_[i])) return attention;
      if (kind_of<Linear>(layers_[i]) == nullptr && kind_of<RmsNorm>(layers_[i]) == nullptr && !is_plain(i)) break;
    }
    return nullptr;
  }
  /// Experts that the product at `i` routes rows to.
  [[nodiscard]] bool routes(std::size_t i, std::int64_t out) const {
    for (++i; i < layers_.size() && kind_of<Linear>(layers_[i]) == nullptr; ++i) {
      if (const auto* experts = kind_of<Experts>(layers_[i])) return experts->experts == out;
    }
    return false;
  }
  /// A norm over rows of what the product at `i` makes.
  [[nodiscard]] bool normed(std::size_t i, std::int64_t out) const {
    for (++i; i < layers_.size() && is_plain(i) && layers_[i].in.back() == out; ++i) {
    }
    if (i == layers_.size() || layers_[i].in.size() > 2 || layers_[i].in.empty()) return false;
    const bool norm = kind_of<RmsNorm>(layers_[i]) != nullptr || kind_of<LayerNorm>(layers_[i]) != nullptr;
    return norm && layers_[i].in.back() <= out;
  }
  /// Whether the output of the product at `i` is multiplied with that of one before it.
  [[nodiscard]] bool gated(std::size_t i) const {
    const auto* combine = i + 1 < layers_.size() ? kind_of<Combine>(layers_[i + 1]) : nullptr;
    return combine != nullptr && combine->product;
  }
  [[nodiscard]] bool before_attention(std::size_t i) const {
    return i + 1 < layers_.size() &&
           (kind_of<GroupedAttention>(layers_[i + 1]) != nullptr || kind_of<Attention>(layers_[i + 1]) != nullptr);
  }
  /// All outputs of the products that read what the one at `i` reads, over its own: frameworks run them as one.
  [[nodiscard]] double siblings(std::size_t i) const {
    const auto own = static_cast<double>(kind_of<Linear>(layers_[i])->out);
    double all = own;
    for (std::size_t k = i + 1; k < layers_.size(); ++k) {
      if (const auto* linear = kind_of<Linear>(layers_[k])) {
        if (layers_[k].in != layers_[i].in) break;
        all += static_cast<double>(linear->out);
      } else if (kind_of<RmsNorm>(layers_[k]) == nullptr && !is_plain(k)) {
        break;
      }
    }
    return all / own;
  }

 private:
  [[nodiscard]] bool is_plain(std::size_t i) const {
    const auto* pointwise = kind_of<Pointwise>(layers_[i]);
    return pointwise != nullptr && !pointwise->over_rows;
  }

  std::span<const Layer> layers_;
  std::int64_t vocabulary_ = 0;
};

class TensorCut {
 public:
  TensorCut(std::span<const Layer> layers, const Cut& cut)
      : layers_(layers),
        around_(layers),
        ranks_(cut.tensor),
        sequence_(cut.sequence && cut.tensor > 1),
        whole_experts_(cut.whole_experts),
        pieces_(cut.overlap ? static_cast<double>(cut.tensor - 1) / static_cast<double>(cut.tensor) : 0.0) {}

  Expected<Shard> next() {
    const Layer& layer = layers_[at_];
    Shape in = layer.in;
    Op op = *layer.op;
    Shard shard;
    if (auto cut = std::visit([&](auto& what) { return this->cut(what, in, shard, layer); }, op); !cut) {
      return tl::unexpected<Error>(cut.error());
    }
    auto made = layer_of(op, in, layer.name);
    if (!made) return tl::unexpected<Error>(made.error());
    shard.layer = std::move(made->layer);
    freeze_as(shard.layer, layer);
    ++at_;
    return shard;
  }

 private:
  Expected<void> divide(std::int64_t& size, std::string_view what) const {
    if (size % ranks_ == 0) {
      size /= ranks_;
      return {};
    }
    return fail(ErrorCode::kInvalidArgument,
                "layer '" + layers_[at_].name + "': tensor degree " + std::to_string(ranks_) + " does not divide " +
                    std::to_string(size) + " " + std::string(what),
                {}, {"valid: " + divisors_of(size)});
  }

  /// As Megatron pads vocabularies.
  [[nodiscard]] std::int64_t padded(std::int64_t rows) const { return (rows + ranks_ - 1) / ranks_; }

  /// What every rank would have whole: with `sequence` its rows are shared.
  Expected<void> on_rows(Shape& in, Shard& shard) const {
    if (!sequence_ || in.size() < 2) return {};
    shard.on_rows = true;
    return divide(in[0], "rows");
  }

  /// Before the products that read `input` elements of the whole.
  void read_whole(Shard& shard, std::int64_t input, double siblings) const {
    const double half = kOneOfTwo * siblings;
    if (!sequence_) {
      shard.sent.push_back({.elements = input, .forward = false, .beside = half});
      return;
    }
    shard.sent.push_back(
        {.op = CollectiveOp::kAllGather, .elements = input, .before = true, .beside = pieces_ * siblings});
    shard.sent.push_back(
        {.op = CollectiveOp::kAllGather, .elements = input, .forward = false, .before = true, .beside = half});
    shard.sent.push_back({.op = CollectiveOp::kReduceScatter, .elements = input, .forward = false, .beside = half});
  }
  /// After what makes a part of every one of `output` sums; `product`: of its two products backward one needs them.
  void sum_output(Shard& shard, std::int64_t output, bool product) const {
    if (!sequence_) {
      shard.sent.push_back({.elements = output});
      return;
    }
    shard.sent.push_back({.op = CollectiveOp::kReduceScatter, .elements = output, .beside = product ? pieces_ : 0.0});
    shard.sent.push_back({.op = CollectiveOp::kAllGather,
                          .elements = output,
                          .forward = false,
                          .before = true,
                          .beside = product ? pieces_ * kOneOfTwo : 0.0});
  }

  Expected<void> cut(Linear& linear, Shape& in, Shard& shard, const Layer& layer) {
    const bool reads_part =
        part_ && part_->used && !in.empty() && in.back() == part_->width && rows_of(in) == part_->rows;
    if (linear.whole) return on_rows(in, shard);
    if (reads_part && linear.groups > 1) {  // every rank has groups of its own
      part_ = Part{linear.out, true, rows_of(in), {linear.out}};
      if (auto groups = divide(linear.groups, "groups"); !groups) return groups;
      if (auto outputs = divide(linear.out, "outputs"); !outputs) return outputs;
      return divide(in.back(), "inputs");
    }
    if (reads_part && !around_.gated(at_)) {
      part_.reset();
      sum_output(shard, layer.output_elements, true);
      return divide(in.back(), "inputs");
    }
    if (linear.out < ranks_ || around_.routes(at_, linear.out) || around_.normed(at_, linear.out)) {
      return on_rows(in, shard);
    }
    // Products that read the same input sum its gradient once, after the backward pass of the first.
    if (!part_) {
      read_whole(shard, elements_of(in), around_.siblings(at_));
      part_.emplace();
    }
    part_->rows = rows_of(in);
    part_->width = linear.out;
    part_->all.push_back(linear.out);
    if (linear.tied || linear.out == around_.vocabulary()) {
      part_->used = true;
      linear.out = padded(linear.out);
      return {};
    }
    if (const auto* attention = around_.attention_after(at_)) {
      const std::int64_t heads = attention->kv_heads;
      const bool few = heads > 0 && heads < ranks_ && ranks_ % heads == 0;
      const std::int64_t queries = attention->heads * attention->width;
      const std::int64_t pairs =
          heads * (attention->width + (attention->value_width == 0 ? attention->width : attention->value_width));
      if (few && linear.out % heads == 0 && linear.out < queries) {
        linear.out /= heads;
        return {};
      }
      // Queries, keys and values as one product.
      if (few && linear.out == queries + pairs && queries % ranks_ == 0) {
        linear.out = queries / ranks_ + pairs / heads;
        return {};
      }
    }
    return divide(linear.out, "outputs");
  }
  Expected<void> cut(Attention& attention, Shape& in, Shard&, const Layer&) {
    if (!part_) return {};
    part_ = Part{in.back(), true, rows_of(in), {in.back()}};  // one product may have made queries, keys and values
    if (auto heads = divide(attention.heads, "heads"); !heads) return heads;
    return divide(in.back(), "widths of all heads");
  }
  Expected<void> cut(GroupedAttention& attention, Shape& in, Shard&, const Layer&) {
    if (!part_) return {};
    const std::int64_t value_width = attention.value_width == 0 ? attention.width : attention.value_width;
    part_ = Part{attention.heads * value_width, true, rows_of(in), {attention.heads * value_width}};
    if (auto heads = divide(attention.heads, "heads"); !heads) return heads;
    if (auto heads = divide_keys(attention.kv_heads); !heads) return heads;
    return divide(in.back(), "widths of all heads");
  }
  /// Fewer key heads than ranks are copied.
  Expected<void> divide_keys(std::int64_t& kv_heads) const {
    if (kv_heads == 0) return {};
    if (kv_heads < ranks_ && ranks_ % kv_heads == 0) {
      kv_heads = 1;
      return {};
    }
    return divide(kv_heads, "key heads");
  }
  Expected<void> cut(Embedding& embedding, Shape& in, Shard& shard, const Layer& layer) {
    part_.reset();
    if (embedding.rows == around_.vocabulary()) {
      sum_output(shard, layer.output_elements, false);
      embedding.rows = padded(embedding.rows);
      return {};
    }
    if (!sequence_ || embedding.lookups <= 1) return {};
    shard.on_rows = true;
    if (auto fits = divide(embedding.lookups, "lookups"); !fits) return fits;
    if (embedding.out.size() > 1) return divide(embedding.out[0], "rows");
    return in.size() == 1 ? divide(in[0], "rows") : Expected<void>{};
  }
  Expected<void> cut(Experts& experts, Shape& in, Shard& shard, const Layer& layer) {
    part_.reset();
    if (whole_experts_) {
      if (in.size() > 1) return divide(in[0], "rows");
      return fail(ErrorCode::kUnsupported,
                  "layer '" + layer.name + "': tensor ranks share the rows of whole experts, and a sample has one", {},
                  {"cut experts as the other layers are (parallel.expert_tensor 0)"});
    }
    if (sequence_) {
      shard.sent.push_back({.op = CollectiveOp::kAllGather, .elements = elements_of(in), .before = true});
      shard.sent.push_back({.op = CollectiveOp::kReduceScatter, .elements = layer.output_elements});
      shard.sent.push_back(
          {.op = CollectiveOp::kAllGather, .elements = layer.output_elements, .forward = false, .before = true});
      shard.sent.push_back({.op = CollectiveOp::kReduceScatter, .elements = elements_of(in), .forward = false});
    } else {
      shard.sent.push_back({.elements = layer.output_elements});
      shard.sent.push_back({.elements = elements_of(in), .forward = false});
    }
    return divide(experts.width, "inner widths");
  }
  /// Along its columns, where a product before it was cut.
  Expected<void> cut(CausalConv&, Shape& in, Shard&, const Layer&) {
    if (!part_) return {};
    part_->used = true;
    return divide(in.back(), "columns");
  }
  /// Small, and of one choice for all heads: every rank makes it whole.
  Expected<void> cut(IndexScores&, Shape&, Shard&, const Layer&) { return {}; }
  Expected<void> cut(HostWork&, Shape&, Shard&, const Layer&) { return {}; }
  Expected<void> cut(LinearAttention& attention, Shape& in, Shard&, const Layer&) {
    if (!part_) return {};
    const std::int64_t values = attention.heads * attention.value_width;
    part_ = Part{values, true, rows_of(in), {values}};
    if (attention.key_heads == 0) attention.key_heads = attention.heads;
    if (auto heads = divide(attention.heads, "heads"); !heads) return heads;
    if (auto heads = divide(attention.key_heads, "key heads"); !heads) return heads;
    return divide(in.back(), "widths of all heads");
  }
  Expected<void> cut(RmsNorm&, Shape& in, Shard& shard, const Layer&) {
    // Of every head's queries or keys: its input has heads and their width.
    if (part_ && in.size() == 3 && part_->has(in[1] * in[2])) {
      const auto* attention = around_.attention_after(at_);
      if (attention != nullptr && in[1] == attention->kv_heads) return divide_keys(in[1]);
      return divide(in[1], "heads");
    }
    // Of all that was made of one input, or of what a cut layer left: every rank's heads have a norm of their own.
    const bool apart = part_ && in.size() == 2 &&
                       ((part_->used && in[1] == part_->width) || (part_->all.size() > 1 && part_->has(in[1])));
    if (apart) return divide(in[1], "columns");
    part_.reset();
    return on_rows(in, shard);
  }
  Expected<void> cut(LayerNorm&, Shape& in, Shard& shard, const Layer&) {
    part_.reset();
    return on_rows(in, shard);
  }
  Expected<void> cut(Pointwise& pointwise, Shape& in, Shard& shard, const Layer&) {
    if (!part_ || in.empty()) return on_rows(in, shard);
    if (pointwise.over_rows && in.back() == around_.vocabulary() && in.back() == part_->width) {
      // Largest logit, the label's, and the sum of exponentials.
      shard.sent.push_back({.elements = elements_of(in) / in.back(), .count = 3, .fp32 = true});
      in.back() = padded(in.back());
      return {};
    }
    if (around_.before_attention(at_) && rotates(in)) return {};
    if (part_->has(in.back())) return on_part(in);
    return on_rows(in, shard);
  }
  /// Queries and keys side by side; with fewer key heads than ranks one of them. Whether `in` is such.
  bool rotates(Shape& in) const {
    const auto* attention = around_.attention_after(at_);
    if (attention == nullptr || attention->heads % ranks_ != 0) return false;
    const std::int64_t kv_heads = attention->kv_heads == 0 ? attention->heads : attention->kv_heads;
    if (in.back() != (attention->heads + kv_heads) * attention->width) return false;
    in.back() = (attention->heads / ranks_ + std::max<std::int64_t>(kv_heads / ranks_, 1)) * attention->width;
    return true;
  }
  Expected<void> cut(Combine& combine, Shape& in, Shard& shard, const Layer&) {
    // A sum is that of the residual, which is whole.
    if (combine.product && part_ && !in.empty() && part_->has(in.back())) return on_part(in);
    // Both factors as one product.
    if (combine.product && part_ && !in.empty() && 2 * in.back() == part_->width && rows_of(in) == part_->rows) {
      part_ = Part{in.back(), true, part_->rows, {in.back()}};
      return divide(in.back(), "widths");
    }
    if (combine.product) return {};
    part_.reset();
    return on_rows(in, shard);
  }
  template <typename Other>
  Expected<void> cut(Other&, Shape&, Shard&, const Layer&) {
    part_.reset();
    return {};
  }

  Expected<void> on_part(Shape& in) {
    part_->used = part_->used || in.back() == part_->width;
    return divide(in.back(), "widths");
  }

  std::span<const Layer> layers_;
  Surroundings around_;
  std::int64_t ranks_;
  bool sequence_;
  bool whole_experts_;
  double pieces_;
  std::size_t at_ = 0;
  std::optional<Part> part_;
};

Expected<void> keeps_operator(const Layer& layer) {
  if (layer.op && !layer.measured) return {};
  return fail(ErrorCode::kUnsupported, "layer '" + layer.name + "' cannot be cut: it keeps no operator", {},
              {"measured and fused layers take tensor 1"});
}

}  // namespace

std::string divisors_of(std::int64_t size) {
  std::string list;
  for (std::int64_t d = 1; d <= size && d <= 1024; ++d) {
    if (size % d == 0) list += (list.empty() ? "" : ", ") + std::to_string(d);
  }
  return list;
}

std::int64_t elements_of(const Shape& shape) {
  std::int64_t all = 1;
  for (const std::int64_t size : shape) all *= size;
  return all;
}

Expected<void> remake(Layer& layer, const Op& op, const Shape& in) {
  auto made = layer_of(op, in, layer.name);
  if (!made) return tl::unexpected<Error>(made.error());
  freeze_as(made->layer, layer);
  layer = std::move(made->layer);
  return {};
}

Expected<std::vector<Shard>> shard(std::span<const Layer> layers, const Cut& cut) {
  std::vector<Shard> shards;
  shards.reserve(layers.size());
  for (const Layer& layer : layers) {
    if (auto kept = keeps_operator(layer); !kept) return tl::unexpected<Error>(kept.error());
  }
  TensorCut tensor(layers, cut);
  for (const Layer& layer : layers) {
    if (cut.tensor == 1) {
      shards.push_back({.layer = layer});
    } else {
      auto one = tensor.next();
      if (!one) return tl::unexpected<Error>(one.error());
      shards.push_back(std::move(*one));
    }
    Shard& made = shards.back();
    if (cut.context > 1) {
      if (auto done = cut_context(made, cut); !done) return tl::unexpected<Error>(done.error());
    }
    if (auto done = cut_experts(made, cut); !done) return tl::unexpected<Error>(done.error());
  }
  return shards;
}

}  // namespace ddlsim::workload
