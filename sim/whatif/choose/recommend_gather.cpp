#include "choose/recommender.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ddlsim/cost/price.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/support/quantity_io.h"
#include "predict/prediction.h"
#include "scenario/setting_values.h"
#include "scenario/settings.h"
#include "scenario/stated_runs.h"
#include "search/plan_space.h"

namespace ddlsim::whatif {

/// The types to try: the one that is named, else those of the clouds and those whose price is stated by name.
Expected<std::vector<std::string>> Recommender::names() const {
  if (asked_.node) return std::vector{*asked_.node};
  std::vector<std::string> names;
  for (const std::string& id : catalog_.ids(io::Kind::kInstances)) {
    const auto node = catalog_.node(id);
    if (!node || !options_.providers || is_among(*options_.providers, node->tariff.provider)) names.push_back(id);
  }
  for (const Override& setting : asked_.settings) {
    if (setting.path != "price") continue;
    const auto priced = servers_priced(catalog_, setting.value);
    if (!priced) return at(priced.error(), setting);
    names.insert(names.end(), priced->begin(), priced->end());
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

Expected<void> Recommender::add_candidate(const std::string& name) {
  std::vector<Override> settings = asked_.settings;
  settings.push_back({"node", name, {}});
  // What a price costs is decided below, where a price list may say it.
  bool spot = false;
  std::erase_if(settings, [&](const Override& setting) {
    if (setting.path != "price.spot") return false;
    spot = setting.value == "yes" || setting.value == "true";
    return true;
  });
  auto scenario = resolve_beside_runs(catalog_, without_lists(settings), asked_.chosen);
  if (!scenario) {
    // One type may not have what is asked (a precision, so many GPUs); one alone that is named must.
    if (asked_.node || scenario.error().code == ErrorCode::kParse || scenario.error().code == ErrorCode::kNotFound) {
      return tl::unexpected<Error>(scenario.error());
    }
    infeasible_.push_back({name, scenario.error().message});
    if (!refused_) refused_ = std::move(scenario.error());
    return {};
  }
  hardware::Node& node = scenario->cluster.node;
  scenario->training.spot = spot;
  spot_ = spot;
  read_data_set(*scenario);
  if (const auto rates = cost::reached_rates(*scenario); !rates && !asked_.node) {
    infeasible_.push_back({node.id, rates.error().message});
    return {};
  }
  if (std::string unknown = unknown_host(*scenario); !unknown.empty()) {
    infeasible_.push_back({node.id, std::move(unknown)});
    return {};
  }
  if (options_.prices && !scenario->price_stated) take_listed(options_, catalog_, *scenario);
  if (!price_of(*scenario)) {
    infeasible_.push_back({node.id, fmt::format("price: nobody says what it costs{} (--price \"{}=12 $/h\")",
                                                spot ? " as a spot server" : "", node.id)});
    ++priceless_;
    return {};
  }
  std::string id = node.id;
  candidates_.push_back({std::move(*scenario), std::move(id), name});
  return {};
}

Expected<void> Recommender::gather() {
  if (auto known = check_region(options_); !known) return known;
  if (!asked_.node && states_runs(asked_.settings)) {
    return fail(ErrorCode::kUnsupported, "measured runs are of one kind of server, and this chooses among many", {},
                {"name the kind they ran on: --node; another kind's step is that of `what-if --vs --node`"});
  }
  auto named = names();
  if (!named) return tl::unexpected<Error>(named.error());
  std::vector<std::string> all = std::move(*named);
  if (asked_.gpu && !asked_.node && !all.empty()) {
    if (auto kept = keep_with_gpu(catalog_, *asked_.gpu, all); !kept) return kept;
  }
  if (all.empty()) {
    return fail(ErrorCode::kInvalidArgument, "no server to choose from", {},
                {"name a cloud (--catalog aws), or what your own servers cost (--price \"dgx-a100=12 $/h\")"});
  }
  if (!asked_.node && all.size() > 1 && price_unnamed(asked_.settings)) {
    return fail(ErrorCode::kInvalidArgument, "a price of no kind of server, and this chooses among many", {},
                {"name it, as --price \"dgx-a100=12 $/h\", or one kind alone: --node"});
  }
  for (const std::string& name : all) {
    if (auto added = add_candidate(name); !added) return added;
  }
  for (const Candidate& candidate : candidates_) {
    if (asks_for_training(candidate.scenario)) continue;
    return fail(ErrorCode::kInvalidArgument, "how long is the run?", {},
                {"state --samples and --epochs, or --tokens, or --steps (settings: training.samples, ...)"});
  }
  if (candidates_.empty()) {
    // What every type says alike is about the settings, and is said once.
    const auto alike = [&](const NoChoice& one) { return one.why == refused_->message; };
    if (refused_ && std::all_of(infeasible_.begin(), infeasible_.end(), alike)) return tl::unexpected<Error>(*refused_);
    if (spot_ && priceless_ == infeasible_.size()) return no_spot(options_.prices.has_value());
    return {};
  }
  const workload::Model& model = *candidates_.front().scenario.model;
  if (!asked_.global_batch && options_.epochs_by_batch.empty() && !model.global_batch && model.has_layers()) {
    return no_batch(model);
  }
  // Types with one GPU stand together: they share the prices of layers.
  std::stable_sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
    return a.scenario.cluster.node.gpu.id < b.scenario.cluster.node.gpu.id;
  });
  return {};
}

}  // namespace ddlsim::whatif
