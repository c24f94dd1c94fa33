#include "ddlsim/workload/shard.h"

#include <string>
#include <utility>
#include <variant>

namespace ddlsim::workload {
namespace {

std::int64_t elements_of(const Shape& shape) {
  std::int64_t all = 1;
  for (const std::int64_t size : shape) all *= size;
  return all;
}

/// The degrees up to a size that divide it.
std::string divisors_of(std::int64_t size) {
  std::string list;
  for (std::int64_t d = 1; d <= size && d <= 1024; ++d) {
    if (size % d == 0) list += (list.empty() ? "" : ", ") + std::to_string(d);
  }
  return list;
}

/// What products of one input made: a part per rank.
struct Part {
  std::int64_t width = 0;         // of the whole of the last
  bool used = false;              // whether anything has worked on it since
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

class Sharder {
 public:
  explicit Sharder(std::int64_t ranks) : ranks_(ranks) {}

  Expected<Shard> next(const Layer& layer) {
    if (!layer.op || layer.measured) {
      return fail(ErrorCode::kUnsupported, "layer '" + layer.name + "' cannot be cut: it keeps no operator", {},
                  {"measured and fused layers take tensor 1"});
    }
    name_ = layer.name;
    Shape in = layer.in;
    Op op = *layer.op;
    Shard shard;
    if (auto cut = std::visit([&](auto& what) { return this->cut(what, in, shard, layer); }, op); !cut) {
      return tl::unexpected<Error>(cut.error());
    }
    auto made = layer_of(op, in, layer.name);
    if (!made) return tl::unexpected<Error>(made.error());
    shard.layer = std::move(made->layer);
    return shard;
  }

 private:
  Expected<void> divide(std::int64_t& size, std::string_view what) const {
    if (size % ranks_ == 0) {
      size /= ranks_;
      return {};
    }
    return fail(ErrorCode::kInvalidArgument,
                "layer '" + name_ + "': tensor degree " + std::to_string(ranks_) + " does not divide " +
                    std::to_string(size) + " " + std::string(what),
                {}, {"valid: " + divisors_of(size)});
  }

  /// As Megatron pads vocabularies.
  [[nodiscard]] std::int64_t padded(std::int64_t rows) const { return (rows + ranks_ - 1) / ranks_; }

  Expected<void> cut(Linear& linear, Shape& in, Shard& shard, const Layer& layer) {
    if (part_ && part_->used && !in.empty() && in.back() == part_->width) {
      part_.reset();
      shard.summed_forward = layer.output_elements;
      return divide(in.back(), "inputs");
    }
    if (linear.out < ranks_) return {};
    // Products that read the same input sum its gradient once, after the backward pass of the first.
    if (!part_) {
      shard.summed_backward = elements_of(in);
      part_.emplace();
    }
    part_->width = linear.out;
    part_->all.push_back(linear.out);
    if (linear.tied) {
      linear.out = padded(linear.out);
      return {};
    }
    return divide(linear.out, "outputs");
  }
  Expected<void> cut(Attention& attention, Shape& in, Shard&, const Layer&) {
    if (!part_) return {};
    part_ = Part{in.back(), true, {in.back()}};  // one product may have made queries, keys and values
    if (auto heads = divide(attention.heads, "heads"); !heads) return heads;
    return divide(in.back(), "widths of all heads");
  }
  Expected<void> cut(GroupedAttention& attention, Shape& in, Shard&, const Layer&) {
    if (!part_) return {};
    const std::int64_t value_width = attention.value_width == 0 ? attention.width : attention.value_width;
    part_ = Part{attention.heads * value_width, true, {attention.heads * value_width}};
    if (auto heads = divide(attention.heads, "heads"); !heads) return heads;
    // Fewer key heads than ranks are copied.
    if (attention.kv_heads > 0 && attention.kv_heads < ranks_ && ranks_ % attention.kv_heads == 0) {
      attention.kv_heads = 1;
    } else if (attention.kv_heads > 0) {
      if (auto heads = divide(attention.kv_heads, "key heads"); !heads) return heads;
    }
    return divide(in.back(), "widths of all heads");
  }
  Expected<void> cut(Embedding& embedding, Shape&, Shard& shard, const Layer& layer) {
    shard.summed_forward = layer.output_elements;
    embedding.rows = padded(embedding.rows);
    return {};
  }
  Expected<void> cut(Experts& experts, Shape& in, Shard& shard, const Layer& layer) {
    shard.summed_forward = layer.output_elements;
    shard.summed_backward = elements_of(in);
    part_.reset();
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
  Expected<void> cut(LinearAttention& attention, Shape& in, Shard&, const Layer&) {
    if (!part_) return {};
    const std::int64_t values = attention.heads * attention.value_width;
    part_ = Part{values, true, {values}};
    if (attention.key_heads == 0) attention.key_heads = attention.heads;
    if (auto heads = divide(attention.heads, "heads"); !heads) return heads;
    if (auto heads = divide(attention.key_heads, "key heads"); !heads) return heads;
    return divide(in.back(), "widths of all heads");
  }
  Expected<void> cut(RmsNorm&, Shape& in, Shard&, const Layer&) {
    // Of every head's queries or keys: its input has heads and their width.
    if (part_ && in.size() == 3 && part_->has(in[1] * in[2])) return divide(in[1], "heads");
    // Of all that was made of one input, or of what a cut layer left: every rank's heads have a norm of their own.
    const bool apart = part_ && in.size() == 2 &&
                       ((part_->used && in[1] == part_->width) || (part_->all.size() > 1 && part_->has(in[1])));
    if (apart) return divide(in[1], "columns");
    part_.reset();
    return {};
  }
  Expected<void> cut(Pointwise&, Shape& in, Shard&, const Layer&) { return on_part(in); }
  Expected<void> cut(Combine& combine, Shape& in, Shard&, const Layer&) {
    // A sum is that of the residual, which is whole.
    if (combine.product) return on_part(in);
    part_.reset();
    return {};
  }
  template <typename Other>
  Expected<void> cut(Other&, Shape&, Shard&, const Layer&) {
    part_.reset();
    return {};
  }

  Expected<void> on_part(Shape& in) {
    if (!part_ || in.empty() || !part_->has(in.back())) return {};
    part_->used = part_->used || in.back() == part_->width;
    return divide(in.back(), "widths");
  }

  std::int64_t ranks_;
  std::string name_;
  std::optional<Part> part_;
};

}  // namespace

Expected<std::vector<Shard>> shard(std::span<const Layer> layers, std::int64_t ranks) {
  Sharder sharder(ranks);
  std::vector<Shard> shards;
  shards.reserve(layers.size());
  for (const Layer& layer : layers) {
    auto one = sharder.next(layer);
    if (!one) return tl::unexpected<Error>(one.error());
    shards.push_back(std::move(*one));
  }
  return shards;
}

}  // namespace ddlsim::workload
