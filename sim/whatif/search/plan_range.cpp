// What a question about plans states, and what it leaves open.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ddlsim/cost/price.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/plan/software.h"
#include "ddlsim/plan/stage_cuts.h"
#include "ddlsim/support/plural.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/own_runs.h"
#include "ddlsim/workload/blocks.h"
#include "predict/notes.h"
#include "scenario/stated_runs.h"
#include "search/plan_space.h"

namespace ddlsim::whatif {
namespace {

using plan::PipelineSchedule;
using plan::Recompute;

/// Schedules that train what one GPU would, with stages at work side by side.
constexpr std::array kCompared{PipelineSchedule::kOneForwardOneBackward,
                               PipelineSchedule::kGpipe,
                               PipelineSchedule::kInterleaved,
                               PipelineSchedule::kZeroBubbleH1,
                               PipelineSchedule::kZeroBubbleH2,
                               PipelineSchedule::kZeroBubbleV,
                               PipelineSchedule::kDualPipe};

bool names(std::span<const Override> stated, std::string_view path) {
  return std::any_of(stated.begin(), stated.end(), [&](const Override& s) { return s.path == path; });
}

const Override* last_named(std::span<const Override> stated, std::string_view path) {
  for (std::size_t i = stated.size(); i-- > 0;) {
    if (stated[i].path == path) return &stated[i];
  }
  return nullptr;
}

/// The settings without those that say how often a micro-batch runs: with every split another.
std::vector<Override> without_passes(std::span<const Override> stated) {
  std::vector<Override> kept(stated.begin(), stated.end());
  std::erase_if(kept, [](const Override& s) {
    return s.path == "global_batch" || s.path == "parallel.data" || s.path == "strategy.accumulation";
  });
  return kept;
}

Expected<std::optional<std::int64_t>> stated_count(std::span<const Override> stated, std::string_view path) {
  const Override* setting = last_named(stated, path);
  if (setting == nullptr) return std::nullopt;
  auto count = parse_count(setting->value, {1, std::int64_t{1} << 40});
  if (!count) {
    Error error = count.error();
    error.message = fmt::format("{}: {}", path, error.message);
    if (error.where.file.empty()) error.where = setting->where;
    return tl::unexpected<Error>(std::move(error));
  }
  return *count;
}

std::int64_t attentions_of(const workload::Model& model) {
  std::int64_t attentions = 0;
  for (const workload::Layer& layer : model.layers) {
    if (!layer.op) continue;
    attentions += std::holds_alternative<workload::Attention>(*layer.op) ||
                          std::holds_alternative<workload::GroupedAttention>(*layer.op)
                      ? 1
                      : 0;
  }
  return attentions;
}

/// The job as its own runs correct it; plans are compared in the precision that they ran in.
Expected<Scenario> with_runs(const io::Catalog& catalog, std::span<const Override> stated, Scenario base) {
  if (const Override* step = last_named(stated, "measured.step")) {
    return fail(ErrorCode::kInvalidArgument, "measured.step is of one plan, and a search compares many", step->where,
                {"state the plan that ran: --measured RUNS.csv with columns such as parallel.tensor"});
  }
  std::vector<Override> settings(stated.begin(), stated.end());
  settings.push_back({"precision", std::string(name_of(kPrecisions, base.precision)), {}});
  return with_stated_runs(catalog, std::move(base), settings,
                          [&](std::span<const Override> run) { return resolve(catalog, run); });
}

Expected<void> check_question(const Scenario& base) {
  const auto unsupported = [](std::string what, std::string note) {
    return fail(ErrorCode::kUnsupported, std::move(what), {}, {std::move(note)});
  };
  if (!base.model->has_layers()) {
    return unsupported(base.model->id + " is known by the features of a whole step: it has no layers to split",
                       "choose a model with layers (`ddlsim list models`)");
  }
  if (!plan::sums_gradients(base.strategy.kind)) {
    return unsupported(fmt::format("strategy {} has no splits to choose from", plan::word_for(base.strategy)),
                       "use strategy allreduce");
  }
  if (base.fidelity.value_or(answer::Fidelity::kAnalytic) != answer::Fidelity::kAnalytic) {
    return unsupported("plans are compared by the analytic fidelity", "leave the fidelity out");
  }
  if (base.straggler > 1 || base.jobs > 1) {
    return unsupported("plans of GPUs of two speeds, or of several jobs", "leave straggler and jobs out");
  }
  return {};
}

/// The values among which plans choose, but for the degree that is data's.
PlanRange stated_range(std::span<const Override> stated, const Scenario& base) {
  const plan::Parallel& parallel = base.parallel;
  PlanRange range;
  const auto fixed = [&](std::string_view path, std::int64_t value) {
    return names(stated, path) ? std::optional(value) : std::nullopt;
  };
  range.tensor = fixed("parallel.tensor", parallel.tensor);
  range.context = fixed("parallel.context", parallel.context);
  range.expert = fixed("parallel.expert", parallel.expert);
  range.pipeline = fixed("parallel.pipeline", parallel.pipeline);
  range.batch = fixed("batch", base.batch);
  if (!parallel.cuts.empty()) range.pipeline = static_cast<std::int64_t>(parallel.cuts.size()) + 1;
  range.schedules = names(stated, "parallel.schedule") ? std::vector{parallel.schedule}
                                                       : std::vector(kCompared.begin(), kCompared.end());
  if (names(stated, "parallel.virtual_stages")) range.virtual_stages = {parallel.virtual_stages};
  range.recomputes = names(stated, "parallel.recompute")
                         ? std::vector{parallel.recompute}
                         : std::vector{Recompute::kNone, Recompute::kSelective, Recompute::kFull};
  range.context_ways = names(stated, "parallel.context_by")
                           ? std::vector{parallel.context_by}
                           : std::vector{plan::ContextBy::kRing, plan::ContextBy::kUlysses};
  range.zeros = names(stated, "parallel.zero") ? std::vector{parallel.zero} : std::vector{0, 1, 2, 3};
  range.sequences =
      names(stated, "parallel.sequence") ? std::vector<bool>{parallel.sequence} : std::vector<bool>{false, true};
  range.whole_experts = names(stated, "parallel.expert_tensor") ? std::vector<bool>{parallel.expert_tensor == 1}
                                                                : std::vector<bool>{false, true};
  // PEARL spreads tables over whole replicas of the rest.
  if (base.strategy.kind == plan::StrategyKind::kPearl) {
    for (auto* degree : {&range.tensor, &range.context, &range.expert, &range.pipeline}) {
      if (!*degree) *degree = 1;
    }
    if (!names(stated, "parallel.recompute")) range.recomputes = {Recompute::kNone};
    if (!names(stated, "parallel.zero")) range.zeros = {0};
    if (!names(stated, "parallel.sequence")) range.sequences = {false};
  }
  if (!workload::has_experts(*base.model)) {
    if (!range.expert) range.expert = 1;
    range.whole_experts = {false};
  }
  return range;
}

bool is_list(const Override& setting) {
  constexpr std::array<std::string_view, 3> kMayBe{"parallel.schedule", "parallel.recompute", "parallel.zero"};
  return std::find(kMayBe.begin(), kMayBe.end(), setting.path) != kMayBe.end() &&
         setting.value.find(',') != std::string::npos;
}

/// The values that a setting names, each once and in their order; `values` as they are where it names no list.
template <typename T, typename Parse>
Expected<void> read_list(std::span<const Override> stated, std::string_view path, Parse parse, std::vector<T>& values) {
  const Override* setting = last_named(stated, path);
  if (setting == nullptr || !is_list(*setting)) {
    return {};
  }
  values.clear();
  for (std::size_t start = 0; start <= setting->value.size();) {
    const std::size_t comma = std::min(setting->value.find(',', start), setting->value.size());
    std::string word = setting->value.substr(start, comma - start);
    start = comma + 1;
    word.erase(0, word.find_first_not_of(' '));
    word.erase(word.find_last_not_of(' ') + 1);
    auto value = parse(word);
    if (!value) {
      Error error = value.error();
      error.message = fmt::format("{}: {}", path, error.message);
      if (error.where.file.empty()) {
        error.where = setting->where;
      }
      return tl::unexpected<Error>(std::move(error));
    }
    values.push_back(*value);
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return {};
}

/// "1f1b,interleaved": several values of those that plans choose among.
Expected<void> read_lists(std::span<const Override> stated, PlanRange& range) {
  const auto choice = [](const auto& choices, std::string_view name) {
    return [&choices, name](const std::string& word) { return parse_choice(choices, word, name); };
  };
  const auto zero = [](const std::string& word) -> Expected<int> {
    const auto count = parse_count(word, {0, 3});
    if (!count) {
      return tl::unexpected<Error>(count.error());
    }
    return static_cast<int>(*count);
  };
  return read_list(stated, "parallel.schedule", choice(plan::kPipelineSchedules, "schedule"), range.schedules)
      .and_then([&] {
        return read_list(stated, "parallel.recompute", choice(plan::kRecomputes, "recomputation"), range.recomputes);
      })
      .and_then([&] { return read_list(stated, "parallel.zero", zero, range.zeros); });
}

/// As it is compared: its notes go to `notes`.
Expected<Scenario> base_of(const io::Catalog& catalog, std::span<const Override> stated,
                           std::vector<std::string>& notes) {
  std::vector<Override> settings = without_lists(without_runs(without_passes(stated)));
  auto base = resolve(catalog, settings);
  if (!base) return tl::unexpected<Error>(base.error());
  if (auto sound = check_question(*base); !sound) return tl::unexpected<Error>(sound.error());
  // Nobody trains what needs a plan in fp32 where the GPU has 16-bit rates; runs of the job ran as it is stated.
  const Precision half = plan::half_precision(base->cluster.node.gpu);
  const bool open = !names(stated, "precision") && !base->model->measured;
  if (open && states_runs(stated)) {
    notes.push_back(
        fmt::format("precision: nobody stated one; the plans are compared in {}, in which the runs are taken "
                    "to have run",
                    name_of(kPrecisions, base->precision)));
  } else if (open && half != Precision::kFp32) {
    const std::string name(name_of(kPrecisions, half));
    settings.push_back({"precision", name, {}});
    base = resolve(catalog, settings);
    if (!base) return tl::unexpected<Error>(base.error());
    notes.push_back("precision: nobody stated one; the plans are compared in " + name);
  }
  if (const auto rates = cost::reached_rates(*base); !rates) return tl::unexpected<Error>(rates.error());
  if (auto states = states_note(*base)) notes.push_back(std::move(*states));
  if (states_runs(stated)) {
    base = with_runs(catalog, without_lists(stated), std::move(*base));
    if (!base) return tl::unexpected<Error>(base.error());
    for (const std::string& learnt : base->own_runs->learnt()) notes.push_back(learnt);
    if (leaves_split_open(stated)) {
      notes.emplace_back(
          "runs that do not say how they were split ran as the job is stated; beside a plan of this list they must say "
          "it "
          "(columns such as parallel.zero)");
    }
  }
  return base;
}

}  // namespace

std::vector<Override> without_lists(std::span<const Override> stated) {
  std::vector<Override> kept;
  for (const Override& setting : stated) {
    // One that is stated before a list goes with it.
    const Override* last = last_named(stated, setting.path);
    if (!is_list(setting) && !is_list(*last)) {
      kept.push_back(setting);
    }
  }
  return kept;
}

void PlanSpace::read_model() {
  const workload::Model& model = *base_.model;
  const std::int64_t attentions = attentions_of(model);
  cuts_tensors_ = attentions > 0;
  has_experts_ = workload::has_experts(model);
  blocks_ = attentions > 0 ? attentions : static_cast<std::int64_t>(model.layers.size());
  if (!base_.parallel.cuts.empty()) {
    most_stages_ = static_cast<std::int64_t>(model.layers.size());
    return;
  }
  most_stages_ = static_cast<std::int64_t>(plan::most_parts(model.layers));
  if (attentions == 0) return;
  const std::vector<workload::Block> blocks = workload::blocks_of(model.layers);
  loads_ = plan::loads_of(model.layers);
  loads_again_ = plan::loads_with_blocks_again(model.layers, blocks);
  cut_points_ = plan::cut_points_of(blocks, loads_);
  const std::size_t counted = cut_points_.starts.size() + 2;
  if (plan::counts_ends(cut_points_, model.layers.size(), counted)) {
    blocks_with_ends_ = static_cast<std::int64_t>(counted);
  }
}

Expected<void> PlanSpace::read_batch(std::span<const Override> stated) {
  const auto global = stated_count(stated, "global_batch");
  if (!global) return tl::unexpected<Error>(global.error());
  const auto passes = stated_count(stated, "strategy.accumulation");
  if (!passes) return tl::unexpected<Error>(passes.error());
  if (*passes) {
    return fail(ErrorCode::kInvalidArgument, "strategy.accumulation follows from a plan's replicas and micro-batch", {},
                {"state global_batch instead (--global-batch)"});
  }
  global_batch_ = global->value_or(base_.batch * base_.cluster.gpus());
  if (!*global) {
    notes_.push_back(fmt::format("global_batch: nobody stated one; {} {} a step are {} on each of {} GPUs",
                                 to_text(global_batch_), plural(base_.model->sample), to_text(base_.batch),
                                 to_text(base_.cluster.gpus())));
  }
  return {};
}

Expected<PlanSpace> PlanSpace::create(const io::Catalog& catalog, std::span<const Override> stated,
                                      const PlanOptions& options, const IsOver& is_over) {
  PlanSpace space;
  auto base = base_of(catalog, stated, space.notes_);
  if (!base) return tl::unexpected<Error>(base.error());
  space.base_ = std::move(*base);
  if (options.price) space.base_.cluster.node.price = options.price;
  for (const Override& setting : stated) space.stated_.push_back(setting.path);
  space.range_ = stated_range(stated, space.base_);
  if (auto read = read_lists(stated, space.range_); !read) return tl::unexpected<Error>(read.error());
  const auto data = stated_count(stated, "parallel.data");
  if (!data) return tl::unexpected<Error>(data.error());
  space.range_.data = *data;
  if (space.base_.parallel.expert_tensor == 1) space.base_.parallel.expert_tensor = 0;  // each plan says it
  if (space.base_.strategy.kind != plan::StrategyKind::kPearl && plan::has_tables(space.base_)) {
    space.notes_.emplace_back("tables: these plans copy or cut them; --strategy pearl spreads them over the GPUs");
  }
  space.read_model();
  if (auto read = space.read_batch(stated); !read) return tl::unexpected<Error>(read.error());
  space.node_counts_ = {space.base_.cluster.nodes};
  if (options.nodes_up_to) {
    space.node_counts_.clear();
    for (std::int64_t n = 1; n < *options.nodes_up_to; n *= 2) space.node_counts_.push_back(n);
    space.node_counts_.push_back(*options.nodes_up_to);
  }
  plan::Lowerer lowerer;
  space.strike_unsupported(lowerer);
  space.enumerate(lowerer, is_over);
  return space;
}

}  // namespace ddlsim::whatif
