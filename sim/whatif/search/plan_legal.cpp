// What a search is told that no plan can have, and what one can.
#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ddlsim/support/names.h"
#include "ddlsim/support/quantity_io.h"
#include "search/plan_space.h"

namespace ddlsim::whatif {

/// The values of one setting that some plan has which keeps the others as they were stated.
std::vector<std::string> PlanSpace::legal_values(PlanRange without, std::string_view path) const {
  PlanSpace space = *this;
  space.range_ = std::move(without);
  plan::Lowerer lowerer;
  space.enumerate(lowerer);
  std::set<std::int64_t> values;
  std::set<ShapeKey> refused;
  for (const PlanFamily& one : space.families_) {
    const std::vector<Split> members = space.members(one);
    if (members.empty()) continue;
    const Split& s = members.front();
    const std::int64_t value = path == "parallel.tensor"     ? s.tensor
                               : path == "parallel.context"  ? s.context
                               : path == "parallel.expert"   ? s.expert
                               : path == "parallel.pipeline" ? s.pipeline
                               : path == "parallel.data"     ? s.data
                                                             : s.batch;
    if (values.contains(value) || refused.contains(space.shapes_[one.shape])) continue;
    if (lowerer.outline(with(s))) {
      values.insert(value);
    } else {
      refused.insert(space.shapes_[one.shape]);
    }
  }
  std::vector<std::string> texts;
  for (const std::int64_t value : values) texts.push_back(to_text(value));
  return texts;
}

Error PlanSpace::nothing_legal() const {
  const std::int64_t gpus = base_.cluster.gpus();
  Error error{ErrorCode::kInvalidArgument,
              fmt::format("no plan of {} on {} GPUs takes a global batch of {}", base_.model->name, to_text(gpus),
                          to_text(global_batch_)),
              {},
              {},
              {}};
  const auto release = [&](std::string_view path, auto PlanRange::*field) {
    if (!(range_.*field)) return;
    if (path == "parallel.expert" && std::find(stated_.begin(), stated_.end(), path) == stated_.end()) return;
    PlanRange without = range_;
    const std::int64_t stated = *(range_.*field);
    (without.*field).reset();
    const auto legal = legal_values(std::move(without), path);
    if (!legal.empty()) {
      error.notes.push_back(fmt::format("{} = {}: legal here: {}", path, to_text(stated), join(legal)));
    }
  };
  plan::Lowerer lowerer;
  // What a plan that is as stated is refused for.
  for (const PlanFamily& one : families_) {
    const std::vector<Split> all = members(one);
    if (all.empty()) continue;
    const auto plan = lowerer.outline(with(all.front()));
    if (plan) continue;
    error.message += ": " + plan.error().message;
    error.notes = plan.error().notes;
    break;
  }
  if (!cuts_tensors_ && (range_.tensor.value_or(1) > 1 || range_.context.value_or(1) > 1)) {
    error.notes.emplace_back("tensor and context ranks share attention and its products: this model has none");
  }
  release("parallel.tensor", &PlanRange::tensor);
  release("parallel.context", &PlanRange::context);
  release("parallel.expert", &PlanRange::expert);
  release("parallel.pipeline", &PlanRange::pipeline);
  release("parallel.data", &PlanRange::data);
  release("batch", &PlanRange::batch);
  if (error.notes.empty()) {
    error.notes.push_back(fmt::format("replicas share the batch evenly: the legal numbers of replicas divide {}",
                                      to_text(global_batch_)));
    error.notes.emplace_back("fewer replicas: more tensor ranks or stages, where the model can be cut");
  }
  return error;
}

}  // namespace ddlsim::whatif
