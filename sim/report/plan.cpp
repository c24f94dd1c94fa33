#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ddlsim/answer/plan_words.h"
#include "ddlsim/report/views.h"
#include "ddlsim/support/plural.h"
#include "ddlsim/support/quantity_io.h"
#include "json.h"
#include "pictures.h"
#include "table.h"

namespace ddlsim::report {
namespace {

using answer::PlanChoice;
using answer::PlanSettings;

Json json_of(const PlanSettings& plan) {
  Json json = Json::object();
  for (const auto& [path, value] : plan) json[path] = value;
  return json;
}

Json json_of(const answer::PlannedJob& job) {
  Json json{{"plan", json_of(job.plan)}, {"prediction", report::to_json(job.prediction)}};
  if (job.cost) json["cost_usd"] = job.cost->in(dollars);
  return json;
}

std::string plan_json(const PlanChoice& choice) {
  Json json{{"schema", "ddlsim/plan/1"},
            {"title", choice.title},
            {"objective", name_of(answer::kPlanObjectives, choice.objective)},
            {"searched", choice.searched},
            {"pruned", choice.pruned},
            {"too_large", choice.too_large},
            {"seconds", choice.seconds.in(seconds)},
            {"proved", choice.proved},
            {"best", json_of(choice.best)}};
  json["next"] = Json::array();
  for (std::size_t i = 0; i < choice.next.size(); ++i) {
    json["next"].push_back(json_of(choice.next[i]));
    if (i < choice.why.size()) json["next"].back()["against_best"] = choice.why[i];
  }
  json["pareto"] = Json::array();
  for (const answer::ParetoPlan& one : choice.pareto) {
    json["pareto"].push_back({{"plan", json_of(one.plan)},
                              {"gpus", one.gpus},
                              {"step_time_s", one.step_time.in(seconds)},
                              {"memory_bytes_per_gpu", one.memory_per_gpu.in(bytes)}});
    json["pareto"].back()["cost_usd"] = one.cost ? Json(one.cost->in(dollars)) : Json(nullptr);
  }
  json["sensitivity"] = Json::array();
  for (const answer::PlanSensitivity& one : choice.sensitivity) {
    json["sensitivity"].push_back({{"change", one.change},
                                   {"settings", json_of(one.settings)},
                                   {"plan", json_of(one.plan)},
                                   {"same", one.same},
                                   {"step_time_s", one.step_time.in(seconds)},
                                   {"memory_bytes_per_gpu", one.memory_per_gpu.in(bytes)},
                                   {"cost_usd", one.cost ? Json(one.cost->in(dollars)) : Json(nullptr)},
                                   {"reason", one.reason}});
  }
  json["notes"] = choice.notes;
  return dump(json);
}

std::string cost_text(const std::optional<Money>& cost) {
  return cost ? fmt::format("{} $", significant(cost->in(dollars), 4)) : std::string("-");
}

Table ranking(const PlanChoice& choice) {
  Table table({"", "step time", "slower", "kernels", "launches", "exposed comm.", "bubble", "rest", "memory", "MFU",
               "$/step", "plan"});
  const auto add = [&](const std::string& rank, const answer::PlannedJob& job) {
    const answer::Prediction& p = job.prediction;
    const answer::Breakdown& b = p.breakdown;
    const double slower = p.step_time / choice.best.prediction.step_time - 1;
    // What rounding leaves is nothing.
    const auto part = [&](Time time) { return time < p.step_time * 1e-9 ? std::string("-") : to_text(time); };
    table.add({rank, to_text(p.step_time), &job == &choice.best ? "-" : percent(slower), part(b.compute + b.memory),
               part(b.launch), part(b.communication_exposed), part(b.bubble), part(b.input_exposed + b.other),
               to_text(p.memory_per_gpu), percent(p.mfu), cost_text(job.cost), answer::words_for(job.plan)});
  };
  add("best", choice.best);
  for (std::size_t i = 0; i < choice.next.size(); ++i) add(std::to_string(i + 2), choice.next[i]);
  return table;
}

/// As many rows of the front as a person reads.
constexpr std::size_t kShown = 8;

/// Whether slower plans were left out of the front: those of one cluster that is asked for its fastest.
bool ends_at_twice(const PlanChoice& choice) {
  return choice.objective == answer::PlanObjective::kTime &&
         std::all_of(choice.pareto.begin(), choice.pareto.end(),
                     [](const answer::ParetoPlan& one) { return answer::value_of(one.plan, "nodes").empty(); });
}

Table front(const PlanChoice& choice) {
  Table table({"step time", "memory", "$/step", "GPUs", "plan"});
  table.numbers_from(0);
  for (std::size_t i = 0; i < std::min(choice.pareto.size(), kShown); ++i) {
    const answer::ParetoPlan& one = choice.pareto[i];
    table.add({to_text(one.step_time), to_text(one.memory_per_gpu), cost_text(one.cost), to_text(one.gpus),
               answer::words_for(one.plan)});
  }
  return table;
}

/// "network half as fast: the same plan, step 364.2 ms", and what the objective counts.
std::string sensitivity_text(const answer::PlanSensitivity& one, answer::PlanObjective objective) {
  std::string text =
      fmt::format("{}: {}, step {}", one.change, one.same ? std::string("the same plan") : answer::words_for(one.plan),
                  to_text(one.step_time));
  if (objective == answer::PlanObjective::kMemory) {
    text += fmt::format(", {} per GPU", to_text(one.memory_per_gpu));
  }
  if (objective == answer::PlanObjective::kCost) {
    text += fmt::format(", {} a step", cost_text(one.cost));
  }
  if (!one.reason.empty()) text += fmt::format(" ({})", one.reason);
  if (!one.settings.empty()) text += ";";
  for (const auto& [path, value] : one.settings) text += fmt::format(" --set {}='{}'", path, value);
  return text;
}

/// One row a plan, SI units, its settings as columns.
std::string plan_csv(const PlanChoice& choice) {
  std::vector<std::string> paths;
  const auto see = [&](const PlanSettings& plan) {
    for (const auto& [path, value] : plan) {
      if (std::find(paths.begin(), paths.end(), path) == paths.end()) paths.push_back(path);
    }
  };
  see(choice.best.plan);
  for (const auto& one : choice.next) see(one.plan);
  for (const auto& one : choice.pareto) see(one.plan);
  std::vector<std::string> header{"list", "rank", "step_time_s", "memory_bytes_per_gpu", "cost_usd"};
  header.insert(header.end(), paths.begin(), paths.end());
  Table table(std::move(header));
  const auto add = [&](const char* list, std::size_t rank, Time step, DataSize memory, const std::optional<Money>& cost,
                       const PlanSettings& plan) {
    std::vector<std::string> cells{list, std::to_string(rank), fmt::format("{}", step.in(seconds)),
                                   fmt::format("{}", memory.in(bytes)),
                                   cost ? fmt::format("{}", cost->in(dollars)) : std::string()};
    for (const std::string& path : paths) cells.push_back(answer::value_of(plan, path));
    table.add(std::move(cells));
  };
  const auto planned = [&](std::size_t rank, const answer::PlannedJob& job) {
    add("best", rank, job.prediction.step_time, job.prediction.memory_per_gpu, job.cost, job.plan);
  };
  planned(1, choice.best);
  for (std::size_t i = 0; i < choice.next.size(); ++i) planned(i + 2, choice.next[i]);
  for (std::size_t i = 0; i < choice.pareto.size(); ++i) {
    const answer::ParetoPlan& one = choice.pareto[i];
    add("pareto", i + 1, one.step_time, one.memory_per_gpu, one.cost, one.plan);
  }
  return table.render(Format::kCsv);
}

std::string headline(const PlanChoice& choice) {
  const answer::Prediction& best = choice.best.prediction;
  std::string text = fmt::format(
      "best: {}: step {} ({} {}, MFU {}), {} per GPU{}\n", answer::words_for(choice.best.plan), to_text(best.step_time),
      significant(best.throughput_samples_per_second, 4), plural(best.sample, "/s"), percent(best.mfu),
      to_text(best.memory_per_gpu), choice.best.cost ? ", " + cost_text(choice.best.cost) + " a step" : "");
  if (!choice.proved) text += "the limit of time came first: a better plan may be left\n";
  return text;
}

/// What a GPU of a stage holds; "-": nobody counts it.
std::string held_text(const answer::PartitionStage& stage, bool csv) {
  if (!stage.held) return csv ? "" : "-";
  if (csv) return fmt::format("{}", stage.held->in(bytes));
  return to_text(*stage.held) + (stage.fits == false ? ", does not fit" : "");
}

std::string partition_json(const answer::PartitionChoice& choice) {
  Json json{{"schema", "ddlsim/partition/1"},
            {"title", choice.title},
            {"step_time_s", choice.slowest.in(seconds)},
            {"data_parallel_s", choice.data_parallel.in(seconds)},
            {"one_gpu_s", choice.alone.in(seconds)},
            {"batch", choice.batch},
            {"sample", choice.sample}};
  json["stages"] = Json::array();
  for (const answer::PartitionStage& stage : choice.stages) {
    json["stages"].push_back({{"first", stage.first},
                              {"last", stage.last},
                              {"layers", stage.layers},
                              {"replicas", stage.replicas},
                              {"gpu", stage.gpu},
                              {"time_s", stage.time.in(seconds)},
                              {"weight_bytes", stage.weights.in(bytes)},
                              {"weight_versions", stage.versions},
                              {"memory_bytes", stage.held ? Json(stage.held->in(bytes)) : Json(nullptr)},
                              {"memory_capacity_bytes", stage.capacity.in(bytes)},
                              {"fits", stage.fits ? Json(*stage.fits) : Json(nullptr)}});
  }
  json["notes"] = choice.notes;
  return dump(json);
}

}  // namespace

std::string render(const answer::PartitionChoice& choice, Format format) {
  if (format == Format::kJson) return partition_json(choice);
  const bool csv = format == Format::kCsv;
  Table table(
      csv ? std::vector<std::string>{"stage", "replicas", "layers", "time_s", "weight_bytes", "memory_bytes", "gpu",
                                     "first", "last"}
          : std::vector<std::string>{"stage", "replicas", "layers", "time", "weights", "holds", "GPU", "from", "to"});
  for (std::size_t s = 0; s < choice.stages.size(); ++s) {
    const answer::PartitionStage& stage = choice.stages[s];
    table.add({std::to_string(s + 1), std::to_string(stage.replicas), std::to_string(stage.layers),
               csv ? fmt::format("{}", stage.time.in(seconds)) : to_text(stage.time),
               csv ? fmt::format("{}", stage.weights.in(bytes)) : to_text(stage.weights), held_text(stage, csv),
               stage.gpu, stage.first, stage.last});
  }
  if (csv) return table.render(format);
  std::string replicas;
  bool fits = true;
  for (const answer::PartitionStage& stage : choice.stages) {
    replicas += (replicas.empty() ? "" : "-") + std::to_string(stage.replicas);
    fits = fits && stage.fits != false;
  }
  std::string text = fmt::format(
      "stages of {} replicas: a micro-batch every {}; {}x one GPU, {}x data parallelism{}\n\n{}\n\n", replicas,
      to_text(choice.slowest), significant(choice.alone / choice.slowest, 4),
      significant(choice.data_parallel / choice.slowest, 4), fits ? "" : "; DOES NOT FIT in GPU memory", choice.title);
  text += table.render(format) + "\n";
  for (const std::string& note : choice.notes) text += "note: " + note + "\n";
  return text;
}

std::string render(const PlanChoice& choice, Format format) {
  if (is_drawn(format)) return drawn(format, pictures_of(choice), render(choice, Format::kMd));
  if (format == Format::kJson) return plan_json(choice);
  if (format == Format::kCsv) return plan_csv(choice);
  std::string text = headline(choice);
  text += fmt::format("\n{}\nof {} legal {}{}, {} need more memory than a GPU has\n\n", choice.title,
                      to_text(choice.searched), choice.searched == 1 ? "plan" : "plans",
                      choice.proved ? "" : " that were compared in time", to_text(choice.too_large));
  if (!choice.next.empty()) {
    text +=
        "the best, and the next best that differ from those above them: in servers or ranks, or by at least 2 % less "
        "memory, 0.5 % less time or cost\n\n";
  }
  text += ranking(choice).render(format) + "\n";
  for (std::size_t i = 0; i < choice.why.size(); ++i) {
    text += fmt::format("against {}: {}\n", i + 2, choice.why[i]);
  }
  if (!choice.sensitivity.empty()) {
    text +=
        "\nwhat would change the choice, among these plans and those that are too large now (another search may find a "
        "better one):\n";
  }
  for (const answer::PlanSensitivity& one : choice.sensitivity) {
    text += fmt::format("  {}\n", sensitivity_text(one, choice.objective));
  }
  text += fmt::format("\nno plan{} is faster, smaller and cheaper than one of these:\n",
                      ends_at_twice(choice) ? " of up to twice the best step" : "") +
          front(choice).render(format);
  if (choice.pareto.size() > kShown) {
    text += fmt::format("and {} more that take longer and less memory (--json)\n", choice.pareto.size() - kShown);
  }
  text += "\nthe best as settings:\n";
  for (const auto& [path, value] : choice.best.plan) text += fmt::format("  {}: {}\n", path, value);
  if (!choice.notes.empty()) text += "\n";
  for (const std::string& note : choice.notes) text += "note: " + note + "\n";
  return text;
}

}  // namespace ddlsim::report
