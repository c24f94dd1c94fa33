// What a job holds beside its numbers, and whether other stages would be faster.
#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "ddlsim/plan/order.h"
#include "ddlsim/plan/stage_cuts.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/workload/blocks.h"
#include "predict/correction.h"
#include "predict/notes.h"
#include "predict/prediction.h"
#include "scenario/setting_values.h"

namespace ddlsim::whatif {

std::optional<std::string> states_note(const plan::Job& job) {
  const bool narrow = activation_size(job.precision) < bytes(4);
  if (job.parallel.states || !narrow || job.model->measured || job.parallel.lora_rank > 0) return std::nullopt;
  return "states: nobody stated a format; weights, gradients and states are kept in fp32, as automatic mixed precision "
         "does (Megatron: --set parallel.states=mixed)";
}

std::optional<std::string> adapters_note(const plan::Job& job) {
  const bool all = job.parallel.lora_rank > 0 && job.parallel.lora_products == workload::AdaptedProducts::kAll;
  if (!all || !workload::has_experts(*job.model)) return std::nullopt;
  return "adapters: parallel.lora_products=all leaves routed experts without any: their products are one grouped "
         "kernel, beside which none is modelled; where yours adapt experts, time and memory are more";
}

std::optional<std::string> tight_note(const answer::Prediction& prediction) {
  const answer::MemoryLedger& memory = prediction.memory;
  if (!memory.tight) return std::nullopt;
  return fmt::format(
      "fits tightly: {} of {}; the allocator usually holds {:.0f} % of tensors, here {:.1f} % are left: "
      "expandable_segments{} is safer",
      to_text(memory.tensors() + memory.context), to_text(memory.capacity), 100 * plan::kAllocatorSlack,
      100 * (memory.slack / memory.tensors()), prediction.batch_per_gpu > 1 ? ", or a smaller batch," : "");
}

void add_memory_notes(const Scenario& scenario, const plan::Needed& memory, answer::Prediction& prediction) {
  std::vector<std::string>& notes = prediction.notes;
  if (!memory.gpu_fits()) {
    notes.push_back(fmt::format("does not fit: {} needed ({} of tensors), {} has {}: {} too much",
                                to_text(memory.all()), to_text(memory.tensors.total()), scenario.cluster.node.gpu.name,
                                to_text(memory.capacity), to_text(memory.all() - memory.capacity)));
  }
  constexpr double kNoticed = 0.1;  // of a GPU's memory
  const plan::MemoryFootprint& held = memory.tensors;
  const DataSize kept = held.weights + held.gradients + held.gradients_later + held.master + held.optimizer_state;
  if (auto states = states_note(scenario);
      states && scenario.model->has_layers() && kept > memory.capacity * kNoticed) {
    notes.push_back(std::move(*states));
  }
  if (auto tight = tight_note(prediction)) notes.push_back(std::move(*tight));
  if (memory.host == DataSize::zero()) return;
  notes.push_back(
      fmt::format("{}on the host: {} of a server{}; its memory moves {} (--set ps.memory_bandwidth=...)",
                  scenario.server_memory.stated() ? "" : "assumed: ", to_text(memory.host),
                  memory.host_fits() ? "" : fmt::format(", which has {}: does not fit", to_text(memory.host_capacity)),
                  to_text(plan::host_memory_rate(scenario))));
}

std::optional<std::string> stages_note(const Question& question, const answer::Prediction& prediction) {
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
  const Time step = corrected_step(*asked, *laid);
  if (step > prediction.step_time * kNoticed) return std::nullopt;
  if (prediction.fits == true && !plan::needed_by(other, *asked->plan).fits()) return std::nullopt;
  return fmt::format(
      "stages: as many blocks each, as frameworks cut unless told otherwise; the last has the head as well: "
      "parallel.layers_per_stage={} takes {}",
      layers_per_stage_text(points, other.parallel.cuts), to_text(step));
}

std::optional<std::string> queueing_note(const Question& question, const answer::Prediction& prediction) {
  constexpr double kBusy = 0.5;  // of the step
  if (question.fidelity != answer::Fidelity::kAnalytic || !question.plan) return std::nullopt;
  const std::vector<plan::RankGroup>& groups = question.plan->groups;
  const bool across = std::any_of(groups.begin(), groups.end(), [](const plan::RankGroup& group) {
    return group.role == plan::GroupRole::kStagesAcross;
  });
  const std::vector<answer::LinkTraffic>& traffic = prediction.traffic;
  const auto network = std::find_if(traffic.begin(), traffic.end(),
                                    [](const answer::LinkTraffic& one) { return one.link == "network"; });
  if (!across || network == traffic.end() || network->time < prediction.step_time * kBusy) return std::nullopt;
  return fmt::format(
      "queueing: the network is busy {:.0f} % of the step; how stages' messages and sums of gradients hold each other "
      "up "
      "there is in this closed form only in part; --fidelity event has all of it",
      100 * (network->time / prediction.step_time));
}

}  // namespace ddlsim::whatif
