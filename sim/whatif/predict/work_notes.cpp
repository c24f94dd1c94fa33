#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "ddlsim/plan/lower.h"
#include "ddlsim/plan/order.h"
#include "ddlsim/plan/stage_cuts.h"
#include "ddlsim/support/names.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/workload/blocks.h"
#include "predict/correction.h"
#include "predict/notes.h"
#include "predict/prediction.h"
#include "scenario/setting_values.h"

namespace ddlsim::whatif {

using answer::Prediction;

std::optional<std::string> stages_note(const Question& question, const Prediction& prediction) {
  constexpr double kNoticed = 0.95;
  const Scenario& scenario = question.scenario;
  if (!question.plan || scenario.parallel.pipeline == 1 || !scenario.parallel.cuts.empty()) return std::nullopt;
  const std::vector<workload::Layer>& layers = scenario.model->layers;
  const std::vector<workload::Block> blocks = workload::blocks_of(layers);
  const bool again = scenario.parallel.recompute == plan::Recompute::kFull;
  const plan::LayerLoads loads = again ? plan::loads_with_blocks_again(layers, blocks) : plan::loads_of(layers);
  const plan::CutPoints points = plan::cut_points_of(blocks, loads);
  Scenario other = scenario;
  other.parallel.cuts = plan::lighter_cuts(points, loads, plan::positions_of(plan::pipeline_of(*question.plan)));
  if (other.parallel.cuts.empty()) return std::nullopt;
  const auto asked = ask(other);
  const auto laid = asked ? lay_out(*asked, {}, answer::Detail::kTime) : tl::unexpected<Error>(asked.error());
  if (!laid) return std::nullopt;
  const Time step = corrected_step(*asked, laid->line.step);
  if (step > prediction.step_time * kNoticed) return std::nullopt;
  if (prediction.fits == true && !plan::needed_by(other, *asked->plan).fits()) return std::nullopt;
  return fmt::format(
      "stages: as many blocks each, as frameworks cut unless told otherwise; the last has the head as well: "
      "parallel.layers_per_stage={} takes {}",
      layers_per_stage_text(points, other.parallel.cuts), to_text(step));
}

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
  return fmt::format("MFU counts the model's FLOPs; kernels execute {} % of them ({}): HFU is {} %",
                     significant(100 * share, 3),
                     !winograd             ? "nobody needs the gradient of the model's input"
                     : unasked > kRounding ? "Winograd's need fewer, and nobody needs the gradient of the model's input"
                                           : "Winograd's need fewer",
                     significant(100 * prediction.hfu, 3));
}

}  // namespace ddlsim::whatif
