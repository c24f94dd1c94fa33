#include "ddlsim/workload/blocks.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <variant>

namespace ddlsim::workload {
namespace {

constexpr std::size_t kLongestBlock = 128;  // layers; DeepSeek-V3's has 21, two of DeepSeek-V4's 83

bool has_sums(std::span<const Layer> layers) { return std::any_of(layers.begin(), layers.end(), is_residual); }

/// What two alike layers have in common, mixed into one number.
std::vector<std::uint64_t> marks_of(std::span<const Layer> layers) {
  std::vector<std::uint64_t> marks;
  marks.reserve(layers.size());
  for (const Layer& layer : layers) {
    std::uint64_t mark = layer.op ? layer.op->index() : 99;
    const auto mix = [&](std::int64_t part) {
      mark = (mark ^ static_cast<std::uint64_t>(part)) * 0x9E3779B97F4A7C15U;
      mark ^= mark >> 29U;
    };
    for (const std::int64_t size : layer.in) mix(size);
    for (const std::int64_t tensor : layer.parameters) mix(tensor);
    mix(std::bit_cast<std::int64_t>(layer.forward_work.in(flops)));
    mix(layer.forward_elements);
    mix(layer.backward_elements);
    mix(layer.output_elements);
    marks.push_back(mark);
  }
  return marks;
}

struct Repeat {
  std::size_t length = 0;
  std::size_t times = 0;
};

/// The run at `first` that repeats over the most layers, and has attention; of alike ones the shortest.
Repeat repeat_at(const std::vector<std::uint64_t>& marks, std::span<const std::size_t> attention_before,
                 std::size_t first) {
  Repeat best;
  const std::size_t left = marks.size() - first;
  for (std::size_t length = 1; length <= std::min(kLongestBlock, left / 2); ++length) {
    if (attention_before[first + length] == attention_before[first]) continue;
    std::size_t alike = 0;
    while (first + length + alike < marks.size() && marks[first + alike] == marks[first + length + alike]) ++alike;
    const std::size_t times = 1 + alike / length;
    if (times > 1 && times * length > best.times * best.length) best = {length, times};
  }
  return best;
}

/// Ends with a residual sum and what follows it element by element; without sums, before the next layer with weights.
std::vector<Block> by_sums(std::span<const Layer> layers) {
  const bool sums = has_sums(layers);
  std::vector<Block> blocks;
  Block block;
  bool ended = false;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers[i];
    const bool follows = layer.parameters.empty() && !(layer.op && std::holds_alternative<Combine>(*layer.op));
    const bool starts = sums ? ended && !follows : !layer.parameters.empty() && ended;
    if (block.count > 0 && starts) {
      blocks.push_back(block);
      block = {.first = i};
      ended = false;
    }
    ++block.count;
    ended = ended || (sums ? is_residual(layer) : !layer.parameters.empty());
  }
  if (block.count > 0) blocks.push_back(block);
  return blocks;
}

}  // namespace

bool is_residual(const Layer& layer) {
  const auto* combine = layer.op ? std::get_if<Combine>(&*layer.op) : nullptr;
  return combine != nullptr && !combine->product;
}

bool is_dropout(const Layer& layer) {
  const auto* op = layer.op ? std::get_if<Pointwise>(&*layer.op) : nullptr;
  return op != nullptr && op->reads == Reads::kMask;
}

bool is_attention(const Layer& layer) {
  if (layer.scores > 0) return true;
  return layer.op &&
         (std::holds_alternative<Attention>(*layer.op) || std::holds_alternative<GroupedAttention>(*layer.op) ||
          std::holds_alternative<LinearAttention>(*layer.op));
}

std::vector<Block> blocks_of(std::span<const Layer> layers) {
  const std::vector<std::uint64_t> marks = marks_of(layers);
  std::vector<std::size_t> attention_before{0};
  for (const Layer& layer : layers) attention_before.push_back(attention_before.back() + (is_attention(layer) ? 1 : 0));
  if (attention_before.back() == 0) return by_sums(layers);
  std::vector<Block> blocks;
  bool repeated = false;
  bool between = false;
  for (std::size_t i = 0; i < layers.size();) {
    const Repeat found = is_residual(layers[i]) ? Repeat{} : repeat_at(marks, attention_before, i);
    if (found.times < 2) {
      if (!between) blocks.push_back({i, 0, false});
      ++blocks.back().count;
      between = true;
      ++i;
      continue;
    }
    for (std::size_t k = 0; k < found.times; ++k, i += found.length) blocks.push_back({i, found.length, true});
    repeated = true;
    between = false;
  }
  return repeated ? blocks : by_sums(layers);
}

}  // namespace ddlsim::workload
