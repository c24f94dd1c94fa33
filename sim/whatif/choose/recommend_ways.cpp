#include "choose/recommend_ways.h"

#include "ddlsim/support/choices.h"

namespace ddlsim::whatif {

void share_by(const Way& way, Scenario& scenario) {
  if (way.as_stated) return;
  scenario.strategy.kind = way.kind;
  scenario.parallel.zero = way.zero;
  scenario.parallel.tensor = way.tensor;
  if (way.recompute) scenario.parallel.recompute = plan::Recompute::kFull;
}

std::vector<std::pair<std::string, std::string>> settings_of(const std::string& node, const Way& way,
                                                             const answer::ServerChoice& choice) {
  std::vector<std::pair<std::string, std::string>> settings{{"node", node},
                                                            {"nodes", std::to_string(choice.nodes)},
                                                            {"batch", std::to_string(choice.micro_batch)},
                                                            {"global_batch", std::to_string(choice.batch)}};
  if (way.as_stated) return settings;
  settings.emplace_back("strategy", name_of(plan::kStrategies, way.kind));
  if (way.zero > 0) settings.emplace_back("parallel.zero", std::to_string(way.zero));
  if (way.tensor > 1) settings.emplace_back("parallel.tensor", std::to_string(way.tensor));
  if (way.recompute) settings.emplace_back("parallel.recompute", name_of(plan::kRecomputes, plan::Recompute::kFull));
  return settings;
}

}  // namespace ddlsim::whatif
