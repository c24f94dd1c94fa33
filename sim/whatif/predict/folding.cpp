#include "ddlsim/whatif/folding.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "ddlsim/support/quantity_io.h"

namespace ddlsim::whatif {
namespace {

std::string_view purpose_of(plan::GroupRole role) {
  using plan::GroupRole;
  switch (role) {
    case GroupRole::kGradients: return "gradients";
    case GroupRole::kExpertGradients: return "gradients of experts";
    case GroupRole::kShards: return "shards of states";
    case GroupRole::kCopies: return "copies of shards";
    case GroupRole::kExpertShards: return "shards of experts";
    case GroupRole::kExpertCopies: return "copies of experts' shards";
    case GroupRole::kTensor: return "tensor";
    case GroupRole::kContext: return "context";
    case GroupRole::kExperts: return "experts";
    case GroupRole::kStages: return "stages in a server";
    case GroupRole::kStagesAcross: return "stages";
  }
  return "";
}

std::string group_text(const plan::RankGroup& group, std::int64_t ranks) {
  const bool pairs = group.role == plan::GroupRole::kStages || group.role == plan::GroupRole::kStagesAcross;
  std::string text;
  if (pairs) {
    text = "pairs of ranks";
  } else {
    const std::int64_t alike = std::max<std::int64_t>(1, ranks / group.ranks);
    text = fmt::format("{} of {} ranks", alike == 1 ? "one group" : fmt::format("{} groups", to_text(alike)),
                       to_text(group.ranks));
  }
  text += group.nodes == 1 ? " in a server" : fmt::format(" on {} servers", to_text(group.nodes));
  if (group.nodes > 1 && group.siblings > 1) {
    text += fmt::format(", {} through the same ports", to_text(group.siblings));
  }
  return text;
}

}  // namespace

std::string folding_text(const plan::StepPlan& plan, double oversubscription) {
  const std::int64_t ranks = plan.grid.ranks();
  const std::size_t classes = plan.classes.size();
  std::string text = fmt::format("{} GPUs as {} of alike ranks", to_text(ranks),
                                 classes == 1 ? "one class" : fmt::format("{} classes", classes));
  for (const plan::RankGroup& group : plan.groups) {
    if (group.ranks > 1) text += fmt::format("; {}: {}", purpose_of(group.role), group_text(group, ranks));
  }
  if (oversubscription > 1) {
    text += fmt::format("; all that servers send at 1/{} of their ports", significant(oversubscription));
  }
  return text;
}

}  // namespace ddlsim::whatif
