// Context and expert ranks: what they have of a layer, and what they send.
#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "shard_rules.h"

namespace ddlsim::workload {
namespace {

using primitives::CollectiveOp;

std::int64_t share(std::int64_t size, std::int64_t ranks) { return (size + ranks - 1) / ranks; }

/// Counts of attention in `steps` kernels, one for the keys of each rank of a ring; their work is what the whole's is.
void in_steps(Layer& layer, std::int64_t steps, Work forward, Work backward) {
  const auto pass = [&](std::vector<primitives::Kernel>& kernels, Work work) {
    for (primitives::Kernel& kernel : kernels) {
      kernel.times *= steps;
      auto* attention = std::get_if<primitives::FusedAttention>(&kernel.shape);
      if (attention != nullptr) attention->work = work / static_cast<double>(steps);
    }
  };
  pass(layer.forward, forward);
  pass(layer.backward, backward);
  layer.forward_work = forward;
  layer.backward_work = backward;
  layer.forward_elements *= steps;
  layer.backward_elements *= steps;
  layer.forward_kernels *= static_cast<int>(steps);
  layer.backward_kernels *= static_cast<int>(steps);
}

class ContextCut {
 public:
  ContextCut(Shard& shard, const Cut& cut) : shard_(shard), cut_(cut), ranks_(cut.context) {}

  Expected<void> operator()(const Attention& attention) {
    Layer& layer = shard_.layer;
    const std::int64_t rows = layer.in[0];
    const std::int64_t width = layer.in[1];
    const std::int64_t keys = attention.keys == 0 ? rows : attention.keys;
    if (auto fits = divides(rows, "rows"); !fits) return fits;
    if (cut_.ulysses) {
      if (auto heads = divides(attention.heads, "heads of a rank"); !heads) return heads;
      all_to_alls({.queries = rows * width, .keys = keys * width, .output = rows * width});
      Attention share = attention;
      share.heads /= ranks_;
      share.keys = keys;
      return remake(layer, share, {rows, width / ranks_});
    }
    ring(2 * keys * width);
    Attention share = attention;
    share.keys = keys;
    return remake(layer, share, {rows / ranks_, width});
  }

  Expected<void> operator()(const GroupedAttention& attention) {
    Layer& layer = shard_.layer;
    const std::int64_t rows = layer.in[0];
    const std::int64_t kv_heads = attention.kv_heads == 0 ? attention.heads : attention.kv_heads;
    const std::int64_t value_width = attention.value_width == 0 ? attention.width : attention.value_width;
    if (auto fits = divides(rows, "rows"); !fits) return fits;
    if (!cut_.ulysses) {
      ring(rows * kv_heads * (attention.width + value_width));
      const double part = 1.0 / static_cast<double>(ranks_);
      const Work forward = layer.forward_work * part;
      const Work backward = layer.backward_work * part;
      if (auto made = remake(layer, attention, {rows / ranks_, layer.in[1]}); !made) return made;
      in_steps(layer, ranks_, forward, backward);
      return {};
    }
    if (auto heads = divides(attention.heads, "heads of a rank"); !heads) return heads;
    GroupedAttention part = attention;
    part.heads /= ranks_;
    // Fewer key heads than ranks are copied before they are sent.
    const std::int64_t sent_heads = std::max(kv_heads, std::min(ranks_, attention.heads));
    part.kv_heads = std::max<std::int64_t>(kv_heads / ranks_, 1);
    if (kv_heads > ranks_) {
      if (auto heads = divides(kv_heads, "key heads of a rank"); !heads) return heads;
    }
    all_to_alls({.queries = rows * attention.heads * attention.width,
                 .keys = rows * sent_heads * std::max(attention.width, value_width),
                 .output = rows * attention.heads * value_width});
    return remake(layer, part, {rows, layer.in[1] / ranks_});
  }

  Expected<void> operator()(const Embedding& embedding) {
    Embedding part = embedding;
    Shape in = shard_.layer.in;
    if (part.lookups <= 1) return {};
    part.lookups = share(part.lookups, ranks_);
    if (in.size() == 1) in[0] = share(in[0], ranks_);
    if (part.out.size() > 1) part.out[0] = share(part.out[0], ranks_);
    fewer_sent();
    return remake(shard_.layer, part, in);
  }

  template <typename Other>
  Expected<void> operator()(const Other& op) {
    constexpr bool kByRow = std::is_same_v<Other, Linear> || std::is_same_v<Other, LayerNorm> ||
                            std::is_same_v<Other, RmsNorm> || std::is_same_v<Other, Pointwise> ||
                            std::is_same_v<Other, Combine> || std::is_same_v<Other, Experts>;
    Shape in = shard_.layer.in;
    if (!kByRow || in.size() > 3) {
      return fail(ErrorCode::kUnsupported,
                  "layer '" + shard_.layer.name + "' cannot be cut over a context group: it does not work row by row",
                  {}, {"context parallelism shares the positions of a transformer's sequence"});
    }
    if (in.size() < 2) return {};
    in[0] = share(in[0], ranks_);
    fewer_sent();
    return remake(shard_.layer, op, in);
  }

 private:
  Expected<void> divides(std::int64_t size, std::string_view what) const {
    if (size % ranks_ == 0) return {};
    return fail(ErrorCode::kInvalidArgument,
                "layer '" + shard_.layer.name + "': context degree " + std::to_string(ranks_) + " does not divide " +
                    std::to_string(size) + " " + std::string(what),
                {}, {"valid: " + divisors_of(size)});
  }
  void fewer_sent() {
    for (Sent& sent : shard_.sent) sent.elements = share(sent.elements, ranks_);
  }
  /// Keys and values of all ranks, `elements` in all, and in backward their gradients.
  void ring(std::int64_t elements) {
    const double beside = static_cast<double>(ranks_ - 1) / static_cast<double>(ranks_);
    for (const bool forward : {true, false}) {
      shard_.sent.push_back({.among = Ranks::kContext,
                             .op = CollectiveOp::kSendRecv,
                             .elements = elements / ranks_ * (forward ? 1 : 2),
                             .count = ranks_ - 1,
                             .forward = forward,
                             .beside = beside});
    }
  }
  /// Elements of a sample before and after attention.
  struct Around {
    std::int64_t queries = 0;
    std::int64_t keys = 0;
    std::int64_t output = 0;
  };
  void all_to_alls(const Around& around) {
    const auto& [queries, keys, output] = around;
    const auto send = [&](std::int64_t elements, std::int64_t count, bool forward, bool before) {
      shard_.sent.push_back({.among = Ranks::kContext,
                             .op = CollectiveOp::kAllToAll,
                             .elements = elements / ranks_,
                             .count = count,
                             .forward = forward,
                             .before = before});
    };
    send(queries, 1, true, true);
    send(keys, 2, true, true);
    send(output, 1, true, false);
    send(output, 1, false, true);
    send(queries, 1, false, false);
    send(keys, 2, false, false);
  }

  Shard& shard_;
  const Cut& cut_;
  std::int64_t ranks_;
};

}  // namespace

Expected<void> cut_context(Shard& shard, const Cut& cut) {
  return std::visit(ContextCut(shard, cut), Op(*shard.layer.op));
}

Expected<void> cut_experts(Shard& shard, const Cut& cut) {
  Layer& layer = shard.layer;
  const auto* experts = std::get_if<Experts>(&*layer.op);
  if (experts == nullptr) return {};
  shard.experts = true;
  const std::int64_t ranks = cut.expert;
  if (experts->experts % ranks != 0) {
    return fail(ErrorCode::kInvalidArgument,
                "layer '" + layer.name + "': expert degree " + std::to_string(ranks) + " does not divide " +
                    std::to_string(experts->experts) + " experts",
                {}, {"valid: " + divisors_of(experts->experts)});
  }
  const Shape in = layer.in;
  const std::int64_t width = in.back();
  const std::int64_t rows = elements_of(in) / width;
  const std::int64_t routed = rows * experts->active;
  const std::int64_t arrived =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(std::llround(static_cast<double>(routed) * cut.expert_load)));
  if (ranks == 1 && arrived == routed) return {};
  const std::int64_t active = experts->active;
  const Experts part{.experts = experts->experts / ranks,
                     .active = 1,
                     .width = experts->width,
                     .gated = experts->gated,
                     .bias = experts->bias};
  const std::int64_t output = layer.output_elements;
  if (auto made = remake(layer, part, {arrived, width}); !made) return made;
  layer.output_elements = output;
  // Sorted by expert once more where rows arrive, and back: read and written twice. The sum of a row's experts was
  // counted as if each had an output of its own.
  const std::int64_t sorted = part.experts > 1 && ranks > 1 ? 4 * arrived * width : 0;
  const std::int64_t more = std::max<std::int64_t>(sorted - (arrived - std::min(rows, arrived)) * width, 0);
  if (more > 0) {
    layer.forward.push_back({primitives::MemoryBoundKernel{.elements = more}});
    layer.backward.push_back({primitives::MemoryBoundKernel{.elements = more}});
    layer.forward_elements += more;
    layer.backward_elements += more;
    layer.forward_kernels += 2;
    layer.backward_kernels += 2;
  }
  if (ranks == 1) return {};
  // Inside the tensor group the rows that arrived are gathered.
  for (Sent& sent : shard.sent) sent.elements = sent.elements * active;
  const std::int64_t apart = cut.sequence && !cut.whole_experts ? cut.tensor : 1;
  const std::int64_t even = routed * width / apart;
  const auto buffer =
      static_cast<std::int64_t>(std::llround(static_cast<double>(even) * std::max(cut.expert_load, 0.0)));
  for (const bool forward : {true, false}) {
    for (const bool before : {true, false}) {
      shard.sent.push_back({.among = Ranks::kExpert,
                            .op = CollectiveOp::kAllToAll,
                            .elements = buffer,
                            .forward = forward,
                            .before = before,
                            .routing = {.experts = part.experts * ranks, .active = active}});
    }
  }
  return {};
}

double places_of_a_row(const Routing& routing, std::int64_t places) {
  const std::int64_t elsewhere = routing.experts - routing.experts / places;
  double none = 1;
  for (std::int64_t i = 0; i < routing.active; ++i) {
    none *= static_cast<double>(std::max<std::int64_t>(elsewhere - i, 0)) / static_cast<double>(routing.experts - i);
  }
  return static_cast<double>(places) * (1 - none);
}

}  // namespace ddlsim::workload
