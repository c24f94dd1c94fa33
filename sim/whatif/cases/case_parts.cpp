#include "cases/case_parts.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ddlsim/workload/blocks.h"

namespace ddlsim::whatif {

namespace {

/// Whether a name counts them: ResNet-50, VGG16.
bool names(std::string_view name, std::int64_t layers) {
  const std::string number = std::to_string(layers);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  for (std::size_t at = name.find(number); at != std::string_view::npos; at = name.find(number, at + 1)) {
    const std::size_t end = at + number.size();
    if ((at == 0 || !is_digit(name[at - 1])) && (end == name.size() || !is_digit(name[end]))) return true;
  }
  return false;
}

}  // namespace

bool has_layers(const workload::Model& model, std::int64_t layers) {
  const auto is_lstm = [](const workload::Layer& layer) {
    return layer.op && std::holds_alternative<workload::Lstm>(*layer.op);
  };
  const auto recurrent = std::count_if(model.layers.begin(), model.layers.end(), is_lstm);
  const auto attention = std::count_if(model.layers.begin(), model.layers.end(), workload::is_attention);
  // A decoder's blocks attend twice.
  const bool named = attention == 0 && names(model.name, layers);
  return named || recurrent == layers || recurrent == 2 * layers || attention == layers || attention == 3 * layers;
}

Expected<void> keep_first_layers(workload::Model& model, std::int64_t layers) {
  const std::vector<workload::Block> blocks = workload::blocks_of(model.layers);
  const auto is_body = [](const workload::Block& block) { return block.body; };
  const auto first = std::find_if(blocks.begin(), blocks.end(), is_body);
  const auto last = std::find_if_not(first, blocks.end(), is_body);
  const auto all = last - first;
  const auto alike = [&](const workload::Block& block) { return block.count == first->count; };
  const bool one_kind = model.totals.attention && first != blocks.end() && std::all_of(first, last, alike) &&
                        std::none_of(last, blocks.end(), is_body);
  if (!one_kind) {
    return fail(ErrorCode::kUnsupported, fmt::format("'{}' does not repeat blocks of one kind", model.name));
  }
  const auto begin = model.layers.begin() + static_cast<std::ptrdiff_t>(first->first);
  const auto length = static_cast<std::ptrdiff_t>(first->count);
  const auto each = std::count_if(begin, begin + length, workload::is_attention);
  if (each == 0 || layers % each != 0 || layers / each > all) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("'{}' has {} blocks of {} layers: no {} of them", model.name, all, each, layers));
  }
  model.layers.erase(begin + layers / each * length, begin + all * length);
  return {};
}

Expected<void> unfreeze(workload::Model& model) {
  for (workload::Layer& layer : model.layers) {
    if (!layer.op) continue;
    const auto* op = std::get_if<workload::Pointwise>(&*layer.op);
    const workload::Op trained = op != nullptr && op->constant ? workload::Op(workload::BatchNorm{}) : *layer.op;
    auto made = workload::layer_of(trained, layer.in, layer.name);
    if (!made) return tl::unexpected<Error>(made.error());
    layer = std::move(made->layer);
  }
  return {};
}

}  // namespace ddlsim::whatif
