// A job in words.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "ddlsim/plan/lower.h"
#include "ddlsim/plan/stage_cuts.h"
#include "ddlsim/support/plural.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/scenario.h"
#include "ddlsim/workload/blocks.h"
#include "predict/prediction.h"
#include "scenario/setting_values.h"

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

/// A setting of a split, and its value where it is not its default; empty: it is.
struct OtherSplit {
  std::string_view path;
  std::string (*value)(const plan::Parallel& now);
};

constexpr plan::Parallel kPlain{};
template <auto kField>
std::string flag(const plan::Parallel& now) {
  if (now.*kField == kPlain.*kField) return {};
  return now.*kField ? "yes" : "no";
}
template <auto kField>
std::string number(const plan::Parallel& now) {
  return now.*kField == kPlain.*kField ? std::string() : fmt::format("{:.6g}", static_cast<double>(now.*kField));
}

constexpr auto kOtherSplits = std::to_array<OtherSplit>({
    {"parallel.sequence", flag<&plan::Parallel::sequence>},
    {"parallel.context_by",
     [](const plan::Parallel& now) {
       return now.context_by == kPlain.context_by ? std::string()
                                                  : std::string(name_of(plan::kContextWays, now.context_by));
     }},
    {"parallel.shard_ranks", number<&plan::Parallel::shard_ranks>},
    {"parallel.prefetch", number<&plan::Parallel::prefetch>},
    {"parallel.reshard", flag<&plan::Parallel::reshard>},
    {"parallel.no_sync", flag<&plan::Parallel::no_sync>},
    {"parallel.overlap_gather", flag<&plan::Parallel::overlap_gather>},
    {"parallel.gather_fp8", flag<&plan::Parallel::gather_fp8>},
    {"parallel.recompute_every", number<&plan::Parallel::recompute_every>},
    {"parallel.recompute_first", number<&plan::Parallel::recompute_first>},
    {"parallel.recompute_stops", flag<&plan::Parallel::recompute_stops>},
    {"parallel.gated_fp8", flag<&plan::Parallel::gated_fp8>},
    {"parallel.overlap_tensor", flag<&plan::Parallel::overlap_tensor>},
    {"parallel.overlap_p2p", flag<&plan::Parallel::overlap_p2p>},
    {"parallel.scatter_gather", flag<&plan::Parallel::scatter_gather>},
    {"parallel.expert_capacity", number<&plan::Parallel::expert_capacity>},
    {"parallel.expert_imbalance", number<&plan::Parallel::expert_imbalance>},
    {"parallel.expert_dispatch",
     [](const plan::Parallel& now) {
       return now.expert_dispatch == kPlain.expert_dispatch
                  ? std::string()
                  : std::string(name_of(plan::kExpertDispatches, now.expert_dispatch));
     }},
    {"parallel.expert_servers", number<&plan::Parallel::expert_servers>},
    {"parallel.order",
     [](const plan::Parallel& now) {
       std::string order;
       for (const plan::Axis axis : now.order) {
         order += (order.empty() ? "" : "-") + std::string(name_of(plan::kAxisNames, axis));
       }
       return now.order == kPlain.order ? std::string() : order;
     }},
});

/// ", LoRA of rank 16, frozen weights in 4 bits, expert dispatch once": what else of a split changes a step.
std::string describe_others(const Scenario& scenario) {
  const plan::Parallel& parallel = scenario.parallel;
  std::string text;
  if (parallel.lora_rank > 0) {
    text += fmt::format(", LoRA of rank {}", parallel.lora_rank);
    if (parallel.lora_products != kPlain.lora_products) {
      text += fmt::format(" on {}", name_of(plan::kAdaptedProducts, parallel.lora_products));
    }
  }
  if (parallel.frozen_bits > 0) text += fmt::format(", frozen weights in {} bits", parallel.frozen_bits);
  if (parallel.states) text += fmt::format(", states {}", name_of(plan::kStates, *parallel.states));
  const std::vector<std::string>& stated = scenario.own_stated;
  if (std::find(stated.begin(), stated.end(), "model.optimizer") != stated.end()) {
    text += fmt::format(", {}", name_of(workload::kOptimizers, scenario.model->optimizer));
  }
  if (parallel.offload_optimizer) {
    text += parallel.offload_weights ? ", optimizer and weights on the host" : ", optimizer on the host";
  }
  if (parallel.offload_activations) text += ", activations on the host";
  constexpr std::string_view kRoom = "parallel.";
  for (const auto& [path, value] : other_splits(scenario)) {
    std::string name = path.substr(kRoom.size());
    std::replace(name.begin(), name.end(), '_', ' ');
    text += fmt::format(", {} {}", name, name == "sequence" ? "parallel" : value);
  }
  return text;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> other_splits(const Scenario& scenario) {
  std::vector<std::pair<std::string, std::string>> others;
  for (const OtherSplit& one : kOtherSplits) {
    if (std::string value = one.value(scenario.parallel); !value.empty()) others.emplace_back(one.path, value);
  }
  if (scenario.parallel.cuts.empty() || !scenario.model->has_layers()) return others;
  const std::vector<workload::Layer>& layers = scenario.model->layers;
  const std::vector<workload::Block> blocks = workload::blocks_of(layers);
  const plan::CutPoints points = plan::cut_points_of(blocks, plan::loads_of(layers));
  const std::vector<std::size_t>& starts = points.starts;
  const auto& cuts = scenario.parallel.cuts;
  if (!std::all_of(cuts.begin(), cuts.end(),
                   [&](std::size_t cut) { return std::binary_search(starts.begin(), starts.end(), cut); })) {
    return others;  // within a block: no number of blocks says where
  }
  others.emplace_back("parallel.layers_per_stage", layers_per_stage_text(points, scenario.parallel.cuts));
  return others;
}

std::string describe(const Scenario& scenario) {
  if (scenario.model == nullptr) return "no model";
  const hardware::Cluster& cluster = scenario.cluster;
  const hardware::Node& node = cluster.node;
  std::string text =
      fmt::format("{}, {} {} per {}, {}, {}{}, on {} x {}", scenario.model->name, to_text(scenario.batch),
                  in_number(scenario.batch, scenario.model->sample),
                  plan::replicas_of(scenario) != cluster.gpus() ? "replica and pass"
                  : scenario.strategy.accumulation > 1          ? "GPU and pass"
                                                                : "GPU",
                  name_of(kPrecisions, scenario.precision),
                  scenario.framework.empty() ? plan::word_for(scenario.strategy) : scenario.framework,
                  describe_split(scenario) + describe_others(scenario), to_text(cluster.nodes), node.name);
  text += fmt::format(" ({} GPU{} in all: {})", to_text(cluster.gpus()), cluster.gpus() == 1 ? "" : "s", node.gpu.name);
  if (cluster.nodes > 1) text += fmt::format(", network {} per server", to_text_in_bits(node.network_bandwidth()));
  return text;
}

}  // namespace ddlsim::whatif
