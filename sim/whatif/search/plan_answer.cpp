#include "search/plan_answer.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "ddlsim/support/names.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/own_runs.h"
#include "ddlsim/whatif/predict.h"
#include "predict/notes.h"
#include "predict/prediction.h"
#include "scenario/stated_runs.h"

namespace ddlsim::whatif {
namespace {

using answer::PlanObjective;
using plan::PipelineSchedule;

/// A plan's whole prediction: that of a scenario which is told its settings.
Expected<answer::PlannedJob> planned(const io::Catalog& catalog, std::span<const Override> stated,
                                     const PlanSpace& space, const Split& split) {
  answer::PlannedJob job{.plan = space.settings_of(split), .prediction = {}, .cost = {}};
  std::vector<Override> settings = without_lists(without_runs(stated));
  for (const auto& [path, value] : job.plan) settings.push_back({path, value, {}});
  auto scenario = resolve(catalog, settings);
  if (!scenario) return tl::unexpected<Error>(scenario.error());
  if (space.base().own_runs) scenario = corrected(std::move(*scenario), space.base().own_runs);
  scenario->own_stated = space.base().own_stated;
  scenario->cluster.node.price = space.base().cluster.node.price;
  auto prediction = predict(*scenario);
  if (!prediction) return tl::unexpected<Error>(prediction.error());
  job.prediction = std::move(*prediction);
  if (job.prediction.price) job.cost = *job.prediction.price * job.prediction.step_time;
  return job;
}

constexpr std::array<std::string_view, 12> kChosen{
    "parallel.tensor",   "parallel.pipeline",       "parallel.context",
    "parallel.expert",   "parallel.expert_tensor",  "batch",
    "parallel.schedule", "parallel.virtual_stages", "parallel.layers_per_stage",
    "parallel.zero",     "parallel.recompute",      "parallel.sequence"};

/// What a scenario file states of the choices, an imported launch script's all of them.
std::optional<std::string> no_choice_note(std::span<const Override> stated) {
  std::string file;
  std::vector<std::string> paths;
  for (const std::string_view path : kChosen) {
    const auto setting =
        std::find_if(stated.rbegin(), stated.rend(), [&](const Override& one) { return one.path == path; });
    const bool of_file = setting != stated.rend() && !setting->where.file.empty();
    if (!of_file || setting->value.find(',') != std::string::npos) continue;
    file = setting->where.file;
    paths.emplace_back(path);
  }
  if (paths.empty()) return std::nullopt;
  return fmt::format("{} states {}, which all plans have: leave out what is to be chosen, or all of them by --replan",
                     file, join(paths));
}

/// What Megatron-LM's schedules would take, where the best has another.
std::optional<std::string> megatron_note(const PlanSpace& space, const PlansFound& found, PlanObjective objective) {
  const Tried& best = found.best.front();
  if (!compares_megatron_with_others(space) || megatron_has(best.split.schedule)) {
    return std::nullopt;
  }
  const std::string_view name = name_of(plan::kPipelineSchedules, best.split.schedule);
  if (!found.megatron || !found.megatron_proved) {
    return fmt::format(
        "schedule {}: Megatron-LM has 1f1b and interleaved; what these would take: --schedule 1f1b,interleaved", name);
  }
  std::string takes = to_text(found.megatron->step);
  if (objective == PlanObjective::kMemory) {
    takes += fmt::format(" and {} per GPU", to_text(found.megatron->memory));
  }
  if (objective == PlanObjective::kCost) {
    takes += fmt::format(" and {} $", significant(found.megatron->cost.in(dollars), 4));
  }
  return fmt::format(
      "schedule {}: Megatron-LM has 1f1b and interleaved; the best plan with these takes {} against {}: --schedule "
      "1f1b,interleaved",
      name, takes, to_text(best.step));
}

/// Of a best plan that fits tightly: the best of those that do not, where one was tried.
std::optional<std::string> best_is_tight_note(const PlanSpace& space, const PlansFound& found,
                                              const answer::PlanChoice& choice) {
  const auto tight = tight_note(choice.best.prediction);
  if (!tight) return std::nullopt;
  std::vector<Tried> others(found.best.begin() + 1, found.best.end());
  others.insert(others.end(), found.front.begin(), found.front.end());
  std::sort(others.begin(), others.end());
  const auto roomy = std::find_if(others.begin(), others.end(), [&](const Tried& other) {
    const auto needed = needed_by(space.with(other.split));
    return needed && !needed->is_tight();
  });
  if (roomy == others.end()) return "the best " + *tight;
  std::vector<std::string> changes;
  for (const auto& setting : space.settings_of(roomy->split)) {
    const auto& plan = choice.best.plan;
    if (std::find(plan.begin(), plan.end(), setting) != plan.end()) continue;
    changes.push_back(setting.first + "=" + setting.second);
  }
  return fmt::format("the best {}; the best that leaves it as much ({}) takes {} against {}", *tight, join(changes),
                     to_text(roomy->step), to_text(found.best.front().step));
}

/// The plans that another cluster may make the best: those that are shown, and the first of the front.
std::vector<Tried> candidates_of(const PlansFound& found) {
  constexpr std::size_t kMore = 6;
  std::vector<Tried> all(found.best.begin(), found.best.end());
  std::vector<Tried> front = found.front;
  std::sort(front.begin(), front.end());
  for (const Tried& one : front) {
    if (all.size() == found.best.size() + kMore) {
      break;
    }
    if (std::none_of(all.begin(), all.end(), [&](const Tried& other) { return other.id == one.id; })) {
      all.push_back(one);
    }
  }
  return all;
}

}  // namespace

void choose_anew(std::vector<Override>& settings) {
  std::erase_if(settings, [](const Override& one) {
    const bool follows = one.path == "parallel.data" || one.path == "strategy.accumulation";
    const bool chosen = follows || std::find(kChosen.begin(), kChosen.end(), one.path) != kChosen.end();
    return chosen && !one.where.file.empty();
  });
}

bool compares_megatron_with_others(const PlanSpace& space) {
  constexpr std::array kOthers{PipelineSchedule::kZeroBubbleH1, PipelineSchedule::kZeroBubbleH2,
                               PipelineSchedule::kZeroBubbleV, PipelineSchedule::kDualPipe};
  const auto compares = [&](PipelineSchedule schedule) { return space.compares(schedule); };
  return (compares(PipelineSchedule::kOneForwardOneBackward) || compares(PipelineSchedule::kInterleaved)) &&
         std::any_of(kOthers.begin(), kOthers.end(), compares);
}

Error out_of_time(const PlanOptions& options) {
  return Error{ErrorCode::kOutOfTime,
               fmt::format("no plan was found in {}", to_text(options.limit)),
               {},
               {"give it more time (--limit), or state some of the plan (--tp, --pp, --zero, ...)"},
               {}};
}

Expected<answer::PlanChoice> answer_of(const io::Catalog& catalog, std::span<const Override> stated,
                                       const PlanSpace& space, const PlansFound& found, const PlanOptions& options,
                                       const std::function<bool()>& is_late, answer::PlanChoice counted) {
  answer::PlanChoice choice = std::move(counted);
  choice.objective = options.objective;
  choice.notes = space.notes();
  if (auto fixed = no_choice_note(stated)) choice.notes.push_back(std::move(*fixed));
  std::vector<Split> shown;
  for (const Tried& tried : found.best) {
    shown.push_back(tried.split);
    auto job = planned(catalog, stated, space, shown.back());
    if (!job) return tl::unexpected<Error>(job.error());
    if (shown.size() == 1) {
      choice.best = std::move(*job);
    } else {
      choice.next.push_back(std::move(*job));
    }
  }
  if (shown.front().pipeline > 1 && shown.front().zero > 1) {
    choice.notes.push_back(fmt::format(
        "zero {} with stages: FSDP has it (torchtitan); Megatron-LM's distributed optimizer is zero 1, and DeepSpeed "
        "refuses 2 and 3 with a pipeline: --zero 1",
        shown.front().zero));
  }
  if (auto tight = best_is_tight_note(space, found, choice)) choice.notes.push_back(std::move(*tight));
  if (auto copied = copied_heads_note(space.with(shown.front()))) choice.notes.push_back(std::move(*copied));
  hardware::Cluster largest = space.base().cluster;
  largest.nodes = shown.front().nodes;
  if (auto congestion = congestion_note(largest)) choice.notes.push_back(std::move(*congestion));
  const bool priced = space.base().cluster.node.price.has_value();
  for (const Tried& tried : found.front) {
    const Split& split = tried.split;
    choice.pareto.push_back({.plan = space.settings_of(split),
                             .gpus = split.nodes * space.base().cluster.gpus_per_node,
                             .step_time = tried.step,
                             .memory_per_gpu = tried.memory,
                             .cost = priced ? std::optional(tried.cost) : std::nullopt});
  }
  choice.title = title_of(space);
  if (!options.explain) return choice;
  if (auto note = megatron_note(space, found, options.objective)) choice.notes.push_back(std::move(*note));
  choice.why = why_best(choice);
  for (auto& one : sensitivity_of(space, found.tools, candidates_of(found), found.too_large, choice, is_late)) {
    choice.sensitivity.push_back(std::move(one));
  }
  if (is_late()) {
    choice.notes.emplace_back(
        "what would change the choice was not looked at to the end: the limit of time came first");
  }
  return choice;
}

}  // namespace ddlsim::whatif
