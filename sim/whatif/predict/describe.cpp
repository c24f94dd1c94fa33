// A job in words.
#include <fmt/core.h>

#include <string>

#include "ddlsim/plan/lower.h"
#include "ddlsim/support/plural.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {
namespace {

/// ", tensor 8 x pipeline 4 (1f1b, 16 micro-batches) x data 2, zero 1"; nothing of a model that is whole on every GPU.
std::string describe_split(const Scenario& scenario) {
  const plan::Parallel& parallel = scenario.parallel;
  if (!plan::splits_model(parallel)) return "";
  std::string text;
  const auto add = [&](std::string_view axis, std::int64_t degree) {
    if (degree > 1) text += fmt::format("{}{} {}", text.empty() ? ", " : " x ", axis, degree);
  };
  add("tensor", parallel.tensor);
  add("context", parallel.context);
  const bool whole = plan::has_whole_experts(parallel) && workload::has_experts(*scenario.model);
  add(whole ? "whole expert" : "expert", parallel.expert);
  add("pipeline", parallel.pipeline);
  if (parallel.pipeline > 1) {
    text += fmt::format(" ({}, {} micro-batch{})", name_of(plan::kPipelineSchedules, parallel.schedule),
                        to_text(scenario.strategy.accumulation), scenario.strategy.accumulation > 1 ? "es" : "");
  }
  add("data", plan::replicas_of(scenario));
  if (whole && parallel.expert == 1) text += ", whole experts";
  if (parallel.zero > 0) text += fmt::format(", zero {}", parallel.zero);
  if (parallel.recompute != plan::Recompute::kNone) {
    text += fmt::format(", recompute {}", name_of(plan::kRecomputes, parallel.recompute));
  }
  return text;
}

}  // namespace

std::string describe(const Scenario& scenario) {
  if (scenario.model == nullptr) return "no model";
  const hardware::Cluster& cluster = scenario.cluster;
  const hardware::Node& node = cluster.node;
  std::string text = fmt::format("{}, {} {} per {}, {}, {}{}, on {} x {}", scenario.model->name,
                                 to_text(scenario.batch), in_number(scenario.batch, scenario.model->sample),
                                 plan::replicas_of(scenario) == cluster.gpus() ? "GPU" : "replica and pass",
                                 name_of(kPrecisions, scenario.precision),
                                 scenario.framework.empty() ? plan::word_for(scenario.strategy) : scenario.framework,
                                 describe_split(scenario), to_text(cluster.nodes), node.name);
  text += fmt::format(" ({} GPU{} in all: {})", to_text(cluster.gpus()), cluster.gpus() == 1 ? "" : "s", node.gpu.name);
  if (cluster.nodes > 1) text += fmt::format(", network {} per server", to_text_in_bits(node.network_bandwidth()));
  return text;
}

}  // namespace ddlsim::whatif
