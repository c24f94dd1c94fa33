#include "ddlsim/whatif/scenario.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include "ddlsim/io/yaml.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/plan/software.h"
#include "ddlsim/support/names.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/framework.h"
#include "ddlsim/whatif/setting_words.h"
#include "scenario/beside.h"
#include "scenario/global_batch.h"
#include "scenario/settings.h"
#include "scenario/stated_runs.h"

namespace ddlsim::whatif {

tl::unexpected<Error> at(Error error, const Override& setting) {
  if (error.where.file.empty()) error.message = fmt::format("{}: {}", setting.path, error.message);
  return tl::unexpected<Error>(named_at(std::move(error), setting.where));
}

const Override* last_of(std::span<const Override> overrides, std::string_view path) {
  for (std::size_t i = overrides.size(); i-- > 0;) {
    if (overrides[i].path == path) return &overrides[i];
  }
  return nullptr;
}

namespace {

constexpr std::int64_t kMostOtherJobs = 100;

/// "model.sequence": a dimension of the model rather than a setting of its own.
bool is_dimension(std::string_view path) { return path.starts_with("model.") && find_leaf(path) == nullptr; }

constexpr std::string_view kOtherJobs = "other_jobs.";

/// A setting of another job: its number, and the path within it.
struct OtherPath {
  std::int64_t number = 0;
  std::string path;
};
std::optional<OtherPath> other_path(std::string_view path) {
  if (!path.starts_with(kOtherJobs)) return std::nullopt;
  path.remove_prefix(kOtherJobs.size());
  const std::size_t dot = path.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const auto number = parse_count(path.substr(0, dot), {0, kMostOtherJobs - 1});
  if (!number) return std::nullopt;
  return OtherPath{*number, std::string(path.substr(dot + 1))};
}

/// What stands in other_jobs beside the settings of a job.
bool places_job(std::string_view path) { return path == "servers" || path == "offset"; }

/// What an import asks for stays to be stated; a later setting does.
Expected<void> check_filled(std::span<const Override> overrides) {
  std::vector<Error> errors;
  for (const Override& setting : overrides) {
    if (setting.value != "?" || last_of(overrides, setting.path) != &setting || errors.size() == io::kMaxErrors) {
      continue;
    }
    errors.push_back(
        Error{ErrorCode::kInvalidArgument,
              fmt::format("fill in '?': {}", setting.path.substr(0, 60)),
              setting.where,
              {fmt::format("in the file, where the comment beside it says what is asked, or by --set {}=VALUE",
                           setting.path.substr(0, 60))},
              {}});
  }
  if (!errors.empty()) return fail_with_all(std::move(errors));
  return {};
}

/// A dimension that the model does not have may be a slip of a setting's name as well.
Expected<void> check_dimension(const workload::Model& model, const Override& setting) {
  std::vector<std::string> names;
  for (const auto& [name, size] : model.dimensions) names.push_back("model." + name);
  const bool of_images = model.sample.starts_with("image");
  for (const std::string_view side : io::kImageSides) {
    if (of_images) names.push_back("model." + std::string(side));
  }
  if (std::find(names.begin(), names.end(), setting.path) != names.end()) return {};
  const bool has_none = names.empty();
  for (const Leaf& leaf : leaves()) {
    if (leaf.path.starts_with("model.")) names.emplace_back(leaf.path);
  }
  return fail(
      ErrorCode::kNotFound, fmt::format("unknown setting '{}'", setting.path.substr(0, 60)), setting.where,
      {suggestion(setting.path, names),
       fmt::format("{} has {}", model.id, has_none ? "no dimensions that can be set" : "the dimensions among them")});
}

void take_model(Scenario& scenario, std::shared_ptr<const workload::Model> model) {
  scenario.model = std::move(model);
  scenario.batch = scenario.model->batch;
  if (const auto& on = scenario.model->measured) {
    scenario.precision = on->precision;
    if (on->launch_interval) scenario.launch_interval = Stated<Time>(*on->launch_interval, Origin::kFitted);
  }
}

Expected<void> set_model(Scenario& scenario, const io::Catalog& catalog, std::span<const Override> overrides) {
  const Override* name = last_of(overrides, "model");
  if (name == nullptr) {
    return fail(ErrorCode::kInvalidArgument, "no model named", {}, {"valid: " + join(catalog.ids(io::Kind::kModels))});
  }
  auto model = catalog.model(name->value);
  if (!model) return at(model.error(), *name);
  io::Dimensions dimensions;
  for (const Override& setting : overrides) {
    if (!is_dimension(setting.path) || last_of(overrides, setting.path) != &setting) continue;
    if (auto known = check_dimension(**model, setting); !known) return known;
    const auto value = parse_length(setting.value, {1, std::int64_t{1} << 32});
    if (!value) return at(value.error(), setting);
    dimensions.emplace_back(setting.path.substr(6), *value);
  }
  if (!dimensions.empty()) model = catalog.model(name->value, dimensions);
  if (!model) return at(model.error(), *name);
  take_model(scenario, std::move(*model));
  return {};
}

}  // namespace

std::vector<SettingInfo> settings() {
  std::vector<SettingInfo> rows;
  for (const Leaf& leaf : leaves()) {
    rows.push_back({std::string(leaf.path), std::string(leaf.meaning), std::string(leaf.example)});
  }
  return rows;
}

namespace {

/// What is asked for, `strategy = horovod` spelt out as its settings. They come first, so that what is stated by itself
/// wins.
struct Spelt {
  std::vector<Override> own;            // where they are others than those that were asked for
  std::span<const Override> overrides;  // all: `own`, or what was asked for, which outlives this
  std::size_t by_framework = 0;         // so many of them
  std::string framework;
};

Spelt with_framework(std::span<const Override> overrides) {
  Spelt spelt;
  const Override* strategy = last_of(overrides, "strategy");
  const Framework* framework = strategy == nullptr ? nullptr : find_framework(strategy->value);
  if (framework == nullptr) {
    spelt.overrides = overrides;
    return spelt;
  }
  spelt.framework = framework->name;
  for (auto& [path, value] : settings_of(*framework)) spelt.own.push_back({path, value, strategy->where});
  spelt.by_framework = spelt.own.size();
  for (const Override& setting : overrides) {
    if (setting.path != "strategy") spelt.own.push_back(setting);
  }
  spelt.overrides = spelt.own;
  return spelt;
}

/// Of a server's storage and processors, whose values do not say who stated them.
bool of_host(std::string_view path) {
  return path.starts_with("input.storage") || path == "input.cpu" || path == "input.threads";
}

/// Of splits, rates and the optimizer, likewise.
bool of_own(std::string_view path) {
  constexpr std::array<std::string_view, 6> kOthers{"network.oversubscription", "nvlink",          "efficiency.nvlink",
                                                    "efficiency.network",       "model.optimizer", "gpu.power_limit"};
  return path.starts_with("parallel.") || path.starts_with("gpu.peak.") ||
         std::find(kOthers.begin(), kOthers.end(), path) != kOthers.end();
}

/// "1,2,4", "1..64:x2": what other commands take for one value.
bool names_several(std::string_view value) {
  const bool counts = value.find_first_not_of("0123456789,.:x+ ") == std::string_view::npos;
  return counts && (value.find(',') != std::string_view::npos || value.find("..") != std::string_view::npos);
}

/// Applies the settings in the order of the leaves.
Expected<void> apply(Scenario& scenario, const io::Catalog& catalog, const Spelt& spelt, bool with_model) {
  std::vector<std::pair<const Leaf*, const Override*>> named;
  for (const Override& setting : spelt.overrides) {
    if (const Leaf* leaf = find_leaf(setting.path)) named.emplace_back(leaf, &setting);
  }
  std::sort(named.begin(), named.end());  // of those that name one leaf the last wins
  bool all_gpus = true;
  for (std::size_t i = 0; i < named.size(); ++i) {
    const Leaf& leaf = *named[i].first;
    const Override* setting = named[i].second;
    if (i + 1 < named.size() && named[i + 1].first == &leaf) continue;
    if (leaf.apply == nullptr || (!with_model && leaf.path.starts_with("model"))) continue;
    if (auto applied = leaf.apply(scenario, setting->value, catalog); !applied) {
      Error error = applied.error();
      if (names_several(setting->value)) {
        error.notes.push_back(fmt::format("several values are for `ddlsim sweep`, or for a curve: --curve {}={}",
                                          leaf.path, setting->value.substr(0, 60)));
      }
      return at(std::move(error), *setting);
    }
    const auto number = static_cast<std::size_t>(setting - spelt.overrides.data());
    if (number < spelt.by_framework) set_origin(scenario, leaf.path, Origin::kFramework);
    if (of_host(leaf.path)) scenario.host_stated.emplace_back(leaf.path);
    if (of_own(leaf.path) && number >= spelt.by_framework) scenario.own_stated.emplace_back(leaf.path);
    all_gpus = all_gpus && leaf.path != "gpus_per_node";
  }
  if (all_gpus) scenario.cluster.gpus_per_node = scenario.cluster.node.gpus;
  return {};
}

/// Co-located servers need a machine each. On one node there is one, in its memory.
Expected<void> check_servers(const Scenario& scenario, const Override* servers) {
  const plan::Strategy& strategy = scenario.strategy;
  const std::int64_t nodes = scenario.cluster.nodes;
  if (!plan::has_servers(strategy) || !strategy.colocated || nodes == 1 || strategy.servers <= nodes) return {};
  return fail(
      ErrorCode::kInvalidArgument,
      fmt::format("{} co-located servers on {} nodes: at most one on each", to_text(strategy.servers), to_text(nodes)),
      servers == nullptr ? SourceLocation{} : servers->where,
      {"state fewer, or --set strategy.colocated=no for machines of their own"});
}

/// `parallel.data` says what must come out.
Expected<void> check_replicas(const Scenario& scenario, const Override* data) {
  if (data == nullptr) return {};
  const auto stated = parse_count(data->value, {1, hardware::kMaxNodes * hardware::kMaxGpusPerNode});
  if (!stated) return at(stated.error(), *data);
  if (*stated == plan::replicas_of(scenario)) return {};
  const plan::Parallel& parallel = scenario.parallel;
  return at(Error{ErrorCode::kInvalidArgument,
                  fmt::format("{} GPUs over tensor {} x context {} x pipeline {} are {} replicas, not {}",
                              to_text(scenario.cluster.gpus()), parallel.tensor, parallel.context, parallel.pipeline,
                              plan::replicas_of(scenario), *stated),
                  {},
                  {"change the nodes or a degree, or leave parallel.data out"},
                  {}},
            *data);
}

/// A data set of text in sequences as the model takes them.
void cut_for_model(Scenario& scenario) {
  const auto tokens = workload::tokens_of(*scenario.model);
  const auto& data = scenario.input.dataset;
  if (!data || !tokens || data->sample != scenario.model->sample) return;
  scenario.input.dataset = std::make_shared<const workload::Dataset>(workload::in_sequences_of(*data, *tokens));
}

/// The settings of one job, and of those beside it.
struct Taken {
  std::vector<Override> own;
  std::map<std::int64_t, std::vector<Override>> others;
};
Taken take_others(std::span<const Override> stated) {
  Taken taken;
  for (const Override& setting : stated) {
    if (auto other = other_path(setting.path)) {
      taken.others[other->number].push_back({std::move(other->path), setting.value, setting.where});
    } else {
      taken.own.push_back(setting);
    }
  }
  return taken;
}

Expected<Scenario> resolve_with(const io::Catalog& catalog, std::span<const Override> all,
                                std::shared_ptr<const workload::Model> given);

/// Whether a job can stand beside another where it says.
Expected<void> check_other(const Scenario& scenario, const OtherJob& other) {
  const auto bad = [](std::string what, std::string note) {
    return fail(ErrorCode::kInvalidArgument, std::move(what), {}, {std::move(note)});
  };
  const hardware::Cluster& mine = scenario.cluster;
  const hardware::Cluster& its = other.job->cluster;
  if (other.same_servers && (its.node.id != mine.node.id || its.nodes != mine.nodes)) {
    return bad(fmt::format("servers these: it names {} x {}, but these are {} x {}", its.nodes, its.node.id, mine.nodes,
                           mine.node.id),
               "leave node and nodes out, or write servers: others");
  }
  if (!other.same_servers && !scenario.leaf_uplink.get()) {
    return bad("servers others: jobs on servers of their own meet on the uplink of their leaf, and nobody states it",
               "state network.uplink, as 400 Gb/s");
  }
  if (other.job->jobs > 1 || other.job->straggler > 1) {
    return bad("jobs and stragglers are of the job that is asked about", "leave them out here");
  }
  return {};
}

Expected<void> add_others(Scenario& scenario, const io::Catalog& catalog, const Taken& taken) {
  constexpr Choices<bool, 2> kServers{{{"these", true}, {"others", false}}};
  for (const auto& [number, settings] : taken.others) {
    std::vector<Override> all;
    for (const Override& setting : taken.own) {
      // The uplink is asked of this job alone; a measured factor is of its own kernels.
      const bool of_this = setting.path == "network.uplink" || setting.path == "gpu.time_factor";
      if (is_of_servers(setting.path) && !of_this) all.push_back(setting);
    }
    OtherJob other;
    for (const Override& setting : settings) {
      if (setting.path == "servers") {
        const auto same = parse_choice(kServers, setting.value, "servers");
        if (!same) return at(same.error(), setting);
        other.same_servers = *same;
      } else if (setting.path == "offset") {
        const auto offset = parse_time(setting.value, Range::kNonNegative);
        if (!offset) return at(offset.error(), setting);
        other.offset = *offset;
      } else {
        all.push_back(setting);
      }
    }
    const auto in_job = [&, number = number](Error error) {
      error.notes.push_back(fmt::format("in other_jobs, number {}", number));
      return tl::unexpected<Error>(std::move(error));
    };
    auto job = resolve_with(catalog, all, nullptr);
    if (!job) return in_job(job.error());
    other.job = std::make_shared<const Scenario>(std::move(*job));
    if (auto sound = check_other(scenario, other); !sound) return in_job(sound.error());
    scenario.other_jobs.push_back(std::move(other));
  }
  return {};
}

/// Everything after the model; without one, it is named among the settings.
Expected<Scenario> resolve_with(const io::Catalog& catalog, std::span<const Override> all,
                                std::shared_ptr<const workload::Model> given) {
  Scenario scenario;
  if (auto known = check_paths(all); !known) return tl::unexpected<Error>(known.error());
  if (auto filled = check_filled(all); !filled) return tl::unexpected<Error>(filled.error());
  const Taken taken = take_others(all);
  const std::vector<Override>& stated = taken.own;
  const Spelt spelt = with_framework(stated);
  scenario.framework = spelt.framework;
  if (given) {
    take_model(scenario, std::move(given));
  } else if (auto model = set_model(scenario, catalog, spelt.overrides); !model) {
    return tl::unexpected<Error>(model.error());
  }
  scenario.strategy.kind = plan::default_strategy(*scenario.model);
  auto software = catalog.software();
  if (!software) return tl::unexpected<Error>(software.error());
  scenario.software = std::move(*software);
  if (last_of(spelt.overrides, "node") == nullptr) {
    return fail(ErrorCode::kInvalidArgument, "no node named", {},
                {"valid: " + join(catalog.ids(io::Kind::kNodes)),
                 "or a cloud instance: " + join(catalog.ids(io::Kind::kInstances))});
  }
  if (auto applied = apply(scenario, catalog, spelt, true); !applied) return tl::unexpected<Error>(applied.error());
  cut_for_model(scenario);
  if (const auto usual = plan::usual_precision(scenario); usual && last_of(spelt.overrides, "precision") == nullptr) {
    scenario.precision = *usual;
    scenario.precision_taken = *usual;
  }
  scenario.fusion = plan::fusion_of(scenario, last_of(spelt.overrides, "fusion") != nullptr);
  if (auto placed = check_servers(scenario, last_of(spelt.overrides, "strategy.servers")); !placed) {
    return tl::unexpected<Error>(placed.error());
  }
  if (auto checked = check_replicas(scenario, last_of(spelt.overrides, "parallel.data")); !checked) {
    return tl::unexpected<Error>(checked.error());
  }
  const StatedSamples samples{.global = last_of(spelt.overrides, "global_batch"),
                              .batch = last_of(spelt.overrides, "batch"),
                              .accumulation = last_of(spelt.overrides, "strategy.accumulation")};
  if (auto passes = set_global_batch(scenario, samples); !passes) return tl::unexpected<Error>(passes.error());
  if (auto run = check_training(scenario); !run) return tl::unexpected<Error>(run.error());
  if (auto sound = check_goodput(scenario); !sound) return tl::unexpected<Error>(sound.error());
  // A run, and epochs of a data set, outlast what its servers' network reaches for minutes.
  const bool lasts = asks_for_training(scenario) || scenario.failures.stated() || scenario.input.dataset;
  if (lasts) scenario.cluster.node.sustain_network();
  if (auto added = add_others(scenario, catalog, taken); !added) return tl::unexpected<Error>(added.error());
  return scenario;
}

}  // namespace

Expected<Scenario> resolve(const io::Catalog& catalog, std::span<const Override> stated) {
  return resolve(catalog, stated, nullptr);
}

Expected<Scenario> resolve(const io::Catalog& catalog, std::span<const Override> stated,
                           std::shared_ptr<const workload::Model> model) {
  auto scenario = resolve_with(catalog, stated, model);
  if (!scenario || !states_runs(stated)) return scenario;
  return with_stated_runs(catalog, std::move(*scenario), stated,
                          [&](std::span<const Override> run) { return resolve_with(catalog, run, model); });
}

Expected<void> check_paths(std::span<const Override> stated) {
  std::vector<std::string> paths;  // once somebody asks for them
  std::vector<Error> errors;
  for (const Override& setting : stated) {
    const auto other = other_path(setting.path);
    const std::string& path = other ? other->path : setting.path;
    if (find_leaf(path) != nullptr || is_dimension(path) || (other && places_job(path))) continue;
    if (errors.size() == io::kMaxErrors) break;
    if (paths.empty()) {
      for (const Leaf& leaf : leaves()) paths.emplace_back(leaf.path);
    }
    errors.push_back(Error{ErrorCode::kNotFound,
                           fmt::format("unknown setting '{}'", setting.path.substr(0, 60)),
                           setting.where,
                           {suggested_setting(path, paths), "`ddlsim list settings` shows them all"},
                           {}});
  }
  if (!errors.empty()) return fail_with_all(std::move(errors));
  return {};
}

Expected<Scenario> resolve_cluster(const io::Catalog& catalog, std::span<const Override> stated) {
  Scenario scenario;
  const Spelt spelt = with_framework(stated);
  scenario.framework = spelt.framework;
  if (auto known = check_paths(spelt.overrides); !known) return tl::unexpected<Error>(known.error());
  if (auto filled = check_filled(spelt.overrides); !filled) return tl::unexpected<Error>(filled.error());
  if (last_of(spelt.overrides, "node") == nullptr) return fail(ErrorCode::kInvalidArgument, "no node named");
  if (auto applied = apply(scenario, catalog, spelt, false); !applied) return tl::unexpected<Error>(applied.error());
  return scenario;
}

}  // namespace ddlsim::whatif
