#include "ddlsim/answer/plan_words.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

namespace ddlsim::answer {

std::string value_of(const PlanSettings& plan, std::string_view path) {
  const auto found = std::find_if(plan.begin(), plan.end(), [&](const auto& one) { return one.first == path; });
  return found == plan.end() ? std::string() : found->second;
}

std::string words_for(const PlanSettings& plan) {
  std::string text;
  const auto add = [&](const std::string& word) { text += (text.empty() ? "" : ", ") + word; };
  if (const std::string nodes = value_of(plan, "nodes"); !nodes.empty()) {
    add(nodes + (nodes == "1" ? " server" : " servers"));
  }
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kDegrees{{{"parallel.tensor", "tp"},
                                                                                   {"parallel.pipeline", "pp"},
                                                                                   {"parallel.context", "cp"},
                                                                                   {"parallel.expert", "ep"},
                                                                                   {"parallel.data", "dp"}}};
  for (const auto& [path, name] : kDegrees) {
    const std::string degree = value_of(plan, path);
    if (!degree.empty() && degree != "1") add(fmt::format("{} {}", name, degree));
    if (name == "ep" && value_of(plan, "parallel.expert_tensor") == "1") add("whole experts");
  }
  if (const std::string batch = value_of(plan, "batch"); !batch.empty()) add("micro-batch " + batch);
  if (const std::string schedule = value_of(plan, "parallel.schedule"); !schedule.empty()) {
    const std::string chunks = value_of(plan, "parallel.virtual_stages");
    add(chunks.empty() ? schedule : fmt::format("{} of {} chunks", schedule, chunks));
  }
  if (const std::string cut = value_of(plan, "parallel.layers_per_stage"); !cut.empty()) add("stages of " + cut);
  if (const std::string zero = value_of(plan, "parallel.zero"); zero != "0" && !zero.empty()) add("zero " + zero);
  if (const std::string again = value_of(plan, "parallel.recompute"); again != "none" && !again.empty()) {
    add("recompute " + again);
  }
  if (value_of(plan, "parallel.sequence") == "yes") add("sequence parallel");
  if (const std::string by = value_of(plan, "parallel.context_by"); !by.empty()) add(by);
  return text;
}

}  // namespace ddlsim::answer
