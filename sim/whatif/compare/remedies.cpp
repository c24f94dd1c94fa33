#include "compare/remedies.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "ddlsim/plan/lower.h"
#include "predict/prediction.h"

namespace ddlsim::whatif {
namespace {

void add_remedy(std::vector<Change>& changes, std::string path, std::string value) {
  changes.push_back({{}, {{std::move(path), std::move(value), {}}}});
}

/// What drivers leave of cards that are sold with the same memory differs by less (81,008 to 81,153 MiB of 80 GB).
constexpr double kSoldAlike = 1.02;

/// GPUs of the same form with more memory that take the job's precision, the smallest memory first; of those sold with
/// the same memory by id.
std::vector<std::string> larger_gpus(const io::Catalog& catalog, const Scenario& scenario) {
  const hardware::Gpu& now = scenario.cluster.node.gpu;
  std::vector<std::pair<DataSize, std::string>> larger;
  for (const std::string& id : catalog.ids(io::Kind::kGpus)) {
    const auto gpu = catalog.datasheet(id);
    if (!gpu || gpu->form != now.form || gpu->memory_size <= now.memory_size * kSoldAlike) continue;
    if (gpu->peak.at(scenario.precision)) larger.emplace_back(gpu->memory_size, id);
  }
  std::sort(larger.begin(), larger.end());
  for (auto first = larger.begin(); first != larger.end();) {
    const auto last =
        std::find_if(first, larger.end(), [&](const auto& one) { return one.first > first->first * kSoldAlike; });
    std::sort(first, last, [](const auto& a, const auto& b) { return a.second < b.second; });
    first = last;
  }
  std::vector<std::string> ids;
  for (auto& [size, id] : larger) ids.push_back(std::move(id));
  return ids;
}

/// Everything at once, by what each path may be at most: the batch 1, ZeRO 3, full recomputation, ...
Change all_together(const std::vector<Change>& changes) {
  Change all;
  for (const Change& change : changes) {
    const Override& one = change.overrides.front();
    if (one.path == "gpu") continue;
    std::erase_if(all.overrides, [&](const Override& before) { return before.path == one.path; });
    all.overrides.push_back(one);
  }
  return all;
}

}  // namespace

std::vector<Change> memory_remedies(const io::Catalog& catalog, const Scenario& scenario) {
  std::vector<Change> changes;
  for (std::int64_t batch = scenario.batch / 2; batch >= 1; batch /= 2) {
    add_remedy(changes, "batch", std::to_string(batch));
  }
  const bool layers = scenario.model->has_layers() && !scenario.model->measured;
  const bool wide = is_single(scenario.precision);
  if (layers && wide) {
    const hardware::PeakRates& peak = scenario.cluster.node.gpu.peak;
    if (peak.bf16 || peak.fp16) add_remedy(changes, "precision", peak.bf16 ? "bf16" : "fp16");
  }
  const bool copies = scenario.strategy.kind == plan::StrategyKind::kAllReduce && plan::replicas_of(scenario) > 1;
  if (copies && plan::has_tables(scenario)) add_remedy(changes, "strategy", "pearl");
  if (layers && scenario.parallel.recompute == plan::Recompute::kNone) {
    add_remedy(changes, "parallel.recompute", "selective");
    add_remedy(changes, "parallel.recompute", "full");
  }
  for (int zero = scenario.parallel.zero + 1; layers && copies && zero <= 3; ++zero) {
    add_remedy(changes, "parallel.zero", std::to_string(zero));
  }
  if (!changes.empty()) {
    if (Change all = all_together(changes); all.overrides.size() > 1) changes.push_back(std::move(all));
  }
  for (std::string& id : larger_gpus(catalog, scenario)) add_remedy(changes, "gpu", std::move(id));
  return changes;
}

std::vector<Change> that_fit(const io::Catalog& catalog, std::span<const Override> base, std::vector<Change> remedies,
                             std::vector<std::string>& failed) {
  std::vector<Change> fitting;
  std::set<std::string> settled;  // paths of which a milder value does
  for (Change& remedy : remedies) {
    const bool alone = remedy.overrides.size() == 1;
    const std::string& path = remedy.overrides.front().path;
    if (alone ? settled.contains(path) : !fitting.empty()) continue;
    std::vector<Override> settings(base.begin(), base.end());
    settings.insert(settings.end(), remedy.overrides.begin(), remedy.overrides.end());
    const auto scenario = resolve(catalog, settings);
    const auto needed = scenario.and_then([](const Scenario& job) { return needed_by(job); });
    if (!needed) continue;
    if (needed->fits()) {
      if (alone) settled.insert(path);
      fitting.push_back(std::move(remedy));
    } else if (alone) {
      // Of several values of one setting the last, which goes furthest.
      if (!failed.empty() && failed.back().starts_with(path + " = ")) failed.pop_back();
      failed.push_back(fmt::format("{} = {}", path, remedy.overrides.front().value));
    }
  }
  return fitting;
}

}  // namespace ddlsim::whatif
