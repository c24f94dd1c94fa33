#include "ddlsim/workload/variant.h"

#include <utility>
#include <variant>

namespace ddlsim::workload {
namespace {

bool is_sum(const Op& op) {
  const auto* combine = std::get_if<Combine>(&op);
  return combine != nullptr && !combine->product;
}

}  // namespace

Expected<Model> without(Model model, const LeftOut& what) {
  std::erase_if(model.layers, [&](const Layer& layer) {
    if (!layer.op) return false;
    return (what.norms && std::holds_alternative<BatchNorm>(*layer.op)) || (what.residuals && is_sum(*layer.op));
  });
  auto totals = total(model.layers);
  if (!totals) return tl::unexpected<Error>(totals.error());
  model.totals = std::move(*totals);
  model.published = {};
  return model;
}

}  // namespace ddlsim::workload
