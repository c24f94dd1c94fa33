#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string>

#include "predict/notes.h"

namespace ddlsim::whatif {

using answer::Prediction;

std::optional<std::string> executed_note(const workload::Model& model, const Prediction& prediction) {
  constexpr double kRounding = 0.005;  // of MFU
  if (prediction.hfu >= prediction.mfu * (1 - kRounding)) return std::nullopt;
  const double share = prediction.hfu / prediction.mfu;
  Work all;
  for (const workload::Layer& layer : model.layers) all += layer.forward_work + layer.backward_work;
  // The gradient of a model's input takes as much as its first layer's forward pass.
  const auto first = std::find_if(model.layers.begin(), model.layers.end(),
                                  [](const workload::Layer& layer) { return layer.forward_work > Work{}; });
  const double unasked = first == model.layers.end() ? 0 : first->forward_work / all;
  const bool winograd = share < 1 - unasked - kRounding;
  if (winograd && !model.totals.convolutional) return std::nullopt;
  return fmt::format("HFU is below MFU, which counts FLOPs of the model that no kernel executes: {}",
                     !winograd             ? "nobody needs the gradient of the model's input"
                     : unasked > kRounding ? "Winograd's need fewer, and nobody needs the gradient of the model's input"
                                           : "Winograd's need fewer");
}

}  // namespace ddlsim::whatif
