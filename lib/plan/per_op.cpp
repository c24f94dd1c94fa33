#include <algorithm>
#include <variant>

#include "splits.h"

namespace ddlsim::plan {
namespace {

namespace wl = ddlsim::workload;

bool is_product(const wl::Layer& layer) { return layer.op && std::holds_alternative<wl::Linear>(*layer.op); }

/// A product whose outputs choose experts.
bool routes(std::span<const wl::Layer> block, std::size_t product) {
  const auto after = block.subspan(product + 1);
  const auto next = std::find_if(after.begin(), after.end(), [](const wl::Layer& layer) {
    return is_product(layer) || (layer.op && std::holds_alternative<wl::Experts>(*layer.op));
  });
  return next != after.end() && !is_product(*next);
}

}  // namespace

std::vector<bool> kept_per_op(std::span<const wl::Layer> block, Precision precision) {
  const bool keeps_products = !is_cast(precision);
  std::vector<bool> kept(block.size());
  std::int64_t products = 0;
  for (std::size_t i = 0; i < block.size(); ++i) {
    const bool odd = is_product(block[i]) && !routes(block, i) && ++products % 2 == 1;
    kept[i] = wl::is_attention(block[i]) || (odd && keeps_products);
  }
  return kept;
}

}  // namespace ddlsim::plan
