#include "ddlsim/whatif/setting_words.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ddlsim/support/names.h"

namespace ddlsim::whatif {
namespace {

/// As fold_name() has them: Megatron-LM's, DeepSpeed's, Hugging Face's and torchtitan's names, and what people say.
constexpr auto kFrameworkWords = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"tp", "parallel.tensor"},
    {"tensor-parallel", "parallel.tensor"},
    {"tensor-parallel-size", "parallel.tensor"},
    {"tensor-parallel-degree", "parallel.tensor"},
    {"tensor-model-parallel-size", "parallel.tensor"},
    {"pp", "parallel.pipeline"},
    {"pipeline-parallel", "parallel.pipeline"},
    {"pipeline-parallel-size", "parallel.pipeline"},
    {"pipeline-parallel-degree", "parallel.pipeline"},
    {"pipeline-model-parallel-size", "parallel.pipeline"},
    {"vp", "parallel.virtual_stages"},
    {"vpp", "parallel.virtual_stages"},
    {"virtual-pipeline-model-parallel-size", "parallel.virtual_stages"},
    {"cp", "parallel.context"},
    {"context-parallel", "parallel.context"},
    {"context-parallel-size", "parallel.context"},
    {"context-parallel-degree", "parallel.context"},
    {"ep", "parallel.expert"},
    {"expert-parallel", "parallel.expert"},
    {"expert-parallel-size", "parallel.expert"},
    {"expert-parallel-degree", "parallel.expert"},
    {"expert-model-parallel-size", "parallel.expert"},
    {"etp", "parallel.expert_tensor"},
    {"expert-tensor-parallel-size", "parallel.expert_tensor"},
    {"expert-tensor-parallel-degree", "parallel.expert_tensor"},
    {"dp", "parallel.data"},
    {"data-parallel", "parallel.data"},
    {"data-parallel-size", "parallel.data"},
    {"sequence-parallel", "parallel.sequence"},
    {"sp", "parallel.sequence"},
    {"zero", "parallel.zero"},
    {"zero-stage", "parallel.zero"},
    {"fsdp", "parallel.zero"},
    {"schedule", "parallel.schedule"},
    {"recompute", "parallel.recompute"},
    {"recompute-granularity", "parallel.recompute"},
    {"activation-checkpointing", "parallel.recompute"},
    {"gradient-checkpointing", "parallel.recompute"},
    {"states", "parallel.states"},
    {"lora", "parallel.lora_rank"},
    {"lora-rank", "parallel.lora_rank"},
    {"frozen-bits", "parallel.frozen_bits"},
    {"load-in-bits", "parallel.frozen_bits"},
    {"mbs", "batch"},
    {"micro-batch", "batch"},
    {"micro-batch-size", "batch"},
    {"batch-size", "batch"},
    {"per-device-train-batch-size", "batch"},
    {"gbs", "global_batch"},
    {"global-batch-size", "global_batch"},
    {"train-batch-size", "global_batch"},
    {"accumulation", "strategy.accumulation"},
    {"grad-accum", "strategy.accumulation"},
    {"gradient-accumulation", "strategy.accumulation"},
    {"gradient-accumulation-steps", "strategy.accumulation"},
    {"seq", "model.sequence"},
    {"sequence", "model.sequence"},
    {"seq-len", "model.sequence"},
    {"seq-length", "model.sequence"},
    {"seqlen", "model.sequence"},
    {"sequence-length", "model.sequence"},
    {"context-length", "model.sequence"},
    {"max-seq-len", "model.sequence"},
    {"max-seq-length", "model.sequence"},
    {"dtype", "precision"},
    {"samples", "training.samples"},
    {"tokens", "training.tokens"},
    {"epochs", "training.epochs"},
    {"steps", "training.steps"},
});

/// By length, then by name: a search compares lengths before it reads a letter. test/pymodule holds them against the
/// commands' flags.
constexpr auto shorter_or_before = [](std::string_view a, std::string_view b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
};
constexpr auto kFlagNames = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"cp", "parallel.context"},
    {"dp", "parallel.data"},
    {"ep", "parallel.expert"},
    {"pp", "parallel.pipeline"},
    {"tp", "parallel.tensor"},
    {"etp", "parallel.expert_tensor"},
    {"spot", "price.spot"},
    {"zero", "parallel.zero"},
    {"steps", "training.steps"},
    {"carbon", "energy.carbon"},
    {"epochs", "training.epochs"},
    {"spares", "failures.spares"},
    {"tokens", "training.tokens"},
    {"dataset", "input.dataset"},
    {"samples", "training.samples"},
    {"workers", "input.workers"},
    {"measured", "measured.runs"},
    {"mtbf_gpu", "failures.mtbf_gpu"},
    {"schedule", "parallel.schedule"},
    {"mtbf_node", "failures.mtbf_node"},
    {"recompute", "parallel.recompute"},
    {"micro_batch", "batch"},
    {"mtbf_switch", "failures.mtbf_switch"},
    {"measured_step", "measured.step"},
    {"checkpoint_mode", "checkpoint.mode"},
    {"checkpoint_every", "checkpoint.interval"},
    {"checkpoint_bandwidth", "checkpoint.bandwidth"},
});
static_assert(std::ranges::is_sorted(kFlagNames, shorter_or_before, [](const auto& row) { return row.first; }));

}  // namespace

std::optional<std::string_view> setting_of_flag(std::string_view name) {
  const auto* const found =
      std::ranges::lower_bound(kFlagNames, name, shorter_or_before, [](const auto& row) { return row.first; });
  if (found == kFlagNames.end() || found->first != name) return std::nullopt;
  return found->second;
}

std::string setting_at(std::string path) {
  constexpr std::string_view kGroup = "parallel.";
  constexpr std::string_view kJobBeside = "other_jobs.";
  std::size_t group = 0;
  if (path.starts_with(kJobBeside)) group = std::min(path.find('.', kJobBeside.size()), path.size() - 1) + 1;
  if (!std::string_view(path).substr(group).starts_with(kGroup)) return path;
  const std::string_view name = std::string_view(path).substr(group + kGroup.size());
  const auto setting = name == "global_batch" ? std::optional<std::string_view>(name) : setting_of_flag(name);
  if (!setting || !(setting->starts_with(kGroup) || *setting == "batch" || *setting == name)) return path;
  return path.substr(0, group).append(*setting);
}

std::string also_in_parallel(std::string_view path) {
  for (const auto& [flag, setting] : kFlagNames) {
    std::string name = fmt::format("parallel.{}", flag);
    if (setting == path && name != path && setting_at(name) == path) return name;
  }
  return {};
}

std::optional<std::string_view> setting_of_word(std::string_view word) {
  while (word.starts_with('-')) word.remove_prefix(1);
  // Names of any length come from files; the longest word here is far shorter.
  const std::string folded = fold_name(word.substr(0, 64));
  const auto* found =
      std::find_if(kFrameworkWords.begin(), kFrameworkWords.end(), [&](const auto& w) { return w.first == folded; });
  if (found == kFrameworkWords.end()) return std::nullopt;
  return found->second;
}

std::string suggested_setting(std::string_view name, std::span<const std::string> paths) {
  if (const auto path = setting_of_word(name)) return fmt::format("did you mean '{}'?", *path);
  return suggestion(name, paths);
}

}  // namespace ddlsim::whatif
