#include "ddlsim/whatif/recommend.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include "choose/condition.h"
#include "choose/recommend_reasons.h"
#include "choose/recommend_types.h"
#include "choose/recommend_ways.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/support/plural.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/predictor.h"
#include "ddlsim/whatif/stalls.h"
#include "predict/prediction.h"
#include "scenario/setting_values.h"
#include "scenario/settings.h"
#include "scenario/stated_runs.h"

namespace ddlsim::whatif {
namespace {

using answer::NoChoice;
using answer::ServerChoice;

/// A type of server with its price; the job resolved on it.
struct Candidate {
  Scenario scenario;
  std::string node;
  std::string name;  // as `--node` has it: a file of one's own by its path
};

/// A choice, and what makes its job again.
struct Trial {
  ServerChoice choice;
  std::size_t candidate = 0;
  Way way;
};

/// The cheapest, the fastest, and the front; the choices are sorted by cost, then time.
void mark_best(answer::Recommendation& result) {
  const auto& choices = result.choices;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (choices[i].time() < choices[result.fastest].time()) result.fastest = i;
    if (result.pareto.empty() || choices[i].time() < choices[result.pareto.back()].time()) result.pareto.push_back(i);
  }
}

class Recommender {
 public:
  Recommender(const io::Catalog& catalog, Asked asked, const RecommendOptions& options)
      : catalog_(catalog), asked_(std::move(asked)), options_(options) {}

  Expected<void> gather();
  Expected<answer::Recommendation> answer();

 private:
  [[nodiscard]] Expected<std::vector<std::string>> names() const;
  Expected<void> add_candidate(const std::string& name);
  void try_type(std::size_t number);
  bool try_way(std::size_t candidate, Scenario& scenario, const Way& way, std::int64_t global_batch, Miss& miss);
  [[nodiscard]] std::vector<std::int64_t> counts(const Scenario& scenario) const;
  [[nodiscard]] std::vector<io::EpochsAtBatch> batches(const Scenario& scenario) const;
  [[nodiscard]] std::optional<std::int64_t> micro_batch(Scenario& scenario, std::int64_t share, Miss& miss) const;
  void judge(const std::vector<ServerChoice>& all, answer::Recommendation& result);
  Expected<void> predict_best(answer::Recommendation& result);
  std::optional<ServerChoice> faster_on_more(const answer::Recommendation& result);
  [[nodiscard]] Scenario scenario_of(const Trial& tried) const;

  const io::Catalog& catalog_;
  Asked asked_;
  const RecommendOptions& options_;
  Predictor predictor_;
  std::vector<Candidate> candidates_;
  std::vector<Trial> runnable_;      // the cheapest first, once they are judged
  std::vector<std::size_t> inside_;  // of them, those inside the limits
  std::vector<NoChoice> infeasible_;
  std::optional<Error> refused_;  // the first type's that does not take the settings
  std::size_t priceless_ = 0;     // of `infeasible_`, those that nobody says the price of
  bool spot_ = false;
};

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

/// An epoch is the data set's.
void read_data_set(Scenario& scenario) {
  const auto& data = scenario.input.dataset;
  TrainingRun& run = scenario.training;
  if (data && !run.samples && !run.tokens && !run.steps) run.samples = data->samples;
  if (asks_for_training(scenario)) scenario.cluster.node.sustain_network();
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
  auto scenario = resolve_beside_runs(catalog_, settings, asked_.chosen);
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

std::vector<std::int64_t> Recommender::counts(const Scenario& scenario) const {
  if (asked_.nodes) return {*asked_.nodes};
  const std::int64_t most = options_.max_nodes.value_or(kMostNodes);
  const auto table = batches(scenario);
  std::vector<std::int64_t> counts;
  for (std::int64_t n = 1; n <= most; ++n) {
    const bool whole =
        std::any_of(table.begin(), table.end(), [n](const auto& row) { return row.global_batch % n == 0; });
    if (whole || n == most || std::has_single_bit(static_cast<std::uint64_t>(n))) counts.push_back(n);
  }
  return counts;
}

std::vector<io::EpochsAtBatch> Recommender::batches(const Scenario& scenario) const {
  const double epochs = scenario.training.epochs.value_or(1);
  if (options_.epochs_by_batch.empty()) {
    const std::int64_t own = scenario.model->global_batch.value_or(scenario.model->batch);
    return {{asked_.global_batch.value_or(own), epochs}};
  }
  std::vector<io::EpochsAtBatch> table = options_.epochs_by_batch;
  if (asked_.global_batch) {
    std::erase_if(table, [&](const auto& row) { return row.global_batch != *asked_.global_batch; });
  }
  return table;
}

/// The largest divisor of a replica's share whose pass fits; nothing: not even a pass of one sample does.
std::optional<std::int64_t> Recommender::micro_batch(Scenario& scenario, std::int64_t share, Miss& miss) const {
  std::vector<std::int64_t> divisors;
  for (std::int64_t d = 1; d * d <= share; ++d) {
    if (share % d != 0) continue;
    divisors.push_back(d);
    if (d * d != share) divisors.push_back(share / d);
  }
  std::sort(divisors.begin(), divisors.end());
  if (asked_.micro_batch) {
    if (share % *asked_.micro_batch != 0) {
      miss = {Lack::kBatch, fmt::format("batch: a replica's share of {} samples is no multiple of the {} of a pass",
                                        share, *asked_.micro_batch)};
      return std::nullopt;
    }
    divisors = {*asked_.micro_batch};
  }
  const auto fits = [&](std::int64_t batch) {
    scenario.batch = batch;
    scenario.strategy.accumulation = share / batch;
    const auto needed = needed_by(scenario);
    if (!needed) {
      miss = {Lack::kRefused, needed.error().message};
    } else if (!needed->fits()) {
      miss = missing_memory(*needed, batch, scenario);
    }
    return needed && needed->fits();
  };
  if (fits(divisors.back())) return divisors.back();
  std::size_t low = 0;
  std::size_t high = divisors.size() - 1;
  if (high == 0 || !fits(divisors[low])) return std::nullopt;
  while (high - low > 1) {
    const std::size_t middle = (low + high) / 2;
    (fits(divisors[middle]) ? low : high) = middle;
  }
  static_cast<void>(fits(divisors[low]));
  return divisors[low];
}

/// Whether a choice came of it; `miss` says why none did.
bool Recommender::try_way(std::size_t candidate, Scenario& scenario, const Way& way, std::int64_t global_batch,
                          Miss& miss) {
  share_by(way, scenario);
  const std::int64_t replicas = std::max<std::int64_t>(plan::replicas_of(scenario), 1);
  if (global_batch % replicas != 0) {
    miss = {Lack::kBatch,
            fmt::format("batch: {} samples do not spread evenly over {} replicas", to_text(global_batch), replicas)};
    return false;
  }
  const auto batch = micro_batch(scenario, global_batch / replicas, miss);
  if (!batch) return false;
  const auto outline = predictor_.outline(scenario);
  if (!outline) {
    miss = {Lack::kRefused, outline.error().message};
    return false;
  }
  StepShape shape{.step = outline->step,
                  .kernels = outline->kernels,
                  .global_batch = global_batch,
                  .tokens_per_sample = tokens_of(*scenario.model),
                  .power = outline->power};
  if (const auto first_epoch = in_first_epoch(scenario)) {
    const auto first = predictor_.outline(*first_epoch);
    if (!first) {
      miss = {Lack::kRefused, first.error().message};
      return false;
    }
    shape.first_epoch_step = first->step;
  }
  if (scenario.failures.stated()) {
    auto lasting = check_goodput(scenario).and_then([&] { return goodput(scenario); });
    if (!lasting) {
      miss = {Lack::kRefused, lasting.error().message};
      return false;
    }
    shape.goodput = std::move(*lasting);
  }
  const hardware::Cluster& cluster = scenario.cluster;
  ServerChoice choice{.node = cluster.node.id,
                      .nodes = cluster.nodes,
                      .spares = shape.goodput ? shape.goodput->spares : 0,
                      .gpus = cluster.gpus(),
                      .batch = global_batch,
                      .micro_batch = *batch,
                      .passes = scenario.strategy.accumulation,
                      .strategy = cluster.gpus() == 1 && way.zero == 0 ? "one GPU" : way.words,
                      .price = *price_of_cluster(scenario, shape.goodput),
                      .price_region = scenario.price_stated ? "" : cluster.node.tariff.region,
                      .price_date = scenario.price_stated ? "" : cluster.node.tariff.date,
                      .step = outline->step,
                      .training = train(scenario, shape),
                      .prediction = {},
                      .in_deadline = {},
                      .stalls = {}};
  choice.settings = settings_of(candidates_[candidate].name, way, choice);
  if (!options_.epochs_by_batch.empty()) {
    choice.settings.emplace_back("training.epochs", significant(scenario.training.epochs.value_or(1), 17));
  }
  runnable_.push_back({std::move(choice), candidate, way});
  return true;
}

/// Everything one type of server can do.
void Recommender::try_type(std::size_t number) {
  const Candidate& candidate = candidates_[number];
  const std::size_t before = runnable_.size();
  Miss miss;
  Misses missed;
  const bool own = asked_.strategy || !candidate.scenario.model->has_layers();
  for (const std::int64_t nodes : counts(candidate.scenario)) {
    for (const io::EpochsAtBatch& batch : batches(candidate.scenario)) {
      Scenario scenario = candidate.scenario;
      scenario.cluster.nodes = nodes;
      if (!options_.epochs_by_batch.empty()) scenario.training.epochs = batch.epochs;
      const auto attempt = [&](const Way& way) {
        Scenario tried = scenario;
        const bool done = try_way(number, tried, way, batch.global_batch, miss);
        if (!done) missed.add(way.words, miss);
        return done;
      };
      if (own) {
        attempt({.words = "as stated", .as_stated = true});
        continue;
      }
      const bool whole = attempt({.words = "all-reduce"});
      const bool tables = plan::has_tables(scenario) && scenario.cluster.gpus() > 1;
      if (tables && attempt({.words = "pearl", .kind = plan::StrategyKind::kPearl})) continue;
      if (whole || !miss.of_memory()) continue;
      const std::size_t others = runnable_.size();
      for (const int zero : {1, 2, 3}) {
        if (scenario.cluster.gpus() > 1) attempt({.words = fmt::format("zero {}", zero), .zero = zero});
      }
      attempt({.words = "zero 3, recompute full", .zero = 3, .recompute = true});
      for (std::int64_t tensor = 2; tensor <= scenario.cluster.gpus_per_node; tensor *= 2) {
        attempt({.words = fmt::format("tp {}, zero 1", tensor), .zero = 1, .tensor = tensor});
      }
      // What takes longest is tried where nothing else fits.
      for (std::int64_t tensor = 2; tensor <= scenario.cluster.gpus_per_node; tensor *= 2) {
        if (runnable_.size() > others) break;
        const std::string words = fmt::format("tp {}, zero 1, recompute full", tensor);
        attempt({.words = words, .zero = 1, .recompute = true, .tensor = tensor});
      }
    }
  }
  if (runnable_.size() == before) infeasible_.push_back({candidate.node, missed.words()});
}

Expected<answer::Recommendation> Recommender::answer() {
  answer::Recommendation result;
  for (std::size_t i = 0; i < candidates_.size(); ++i) try_type(i);
  if (!candidates_.empty()) result.title = title_of(candidates_.front().scenario, options_.epochs_by_batch.empty());
  std::sort(runnable_.begin(), runnable_.end(), [](const Trial& one, const Trial& other) {
    const ServerChoice& a = one.choice;
    const ServerChoice& b = other.choice;
    return std::tuple(a.cost(), a.time(), a.node, a.nodes, a.batch, a.strategy) <
           std::tuple(b.cost(), b.time(), b.node, b.nodes, b.batch, b.strategy);
  });
  std::vector<ServerChoice> all;
  for (const Trial& tried : runnable_) all.push_back(tried.choice);
  judge(all, result);
  if (result.choices.empty()) return no_choice(all, infeasible_, {options_.deadline, options_.budget});
  mark_best(result);
  result.would_help = would_help(result, all, options_.max_nodes.value_or(kMostNodes), faster_on_more(result));
  result.notes = notes_of(candidates_.front().scenario, asked_.precision, result);
  if (auto predicted = predict_best(result); !predicted) return tl::unexpected<Error>(predicted.error());
  add_notes_of_best(result);
  // Without --node every server that has a price is among the candidates.
  if (auto note = other_prices_note(candidates_.front().scenario); note && asked_.node) {
    result.notes.push_back(std::move(*note));
  }
  return result;
}

/// Sorts what runs into what is inside the limits and types that are not.
void Recommender::judge(const std::vector<ServerChoice>& all, answer::Recommendation& result) {
  result.deadline = options_.deadline;
  result.budget = options_.budget;
  result.compared = static_cast<std::int64_t>(all.size());
  const Limits limits{options_.deadline, options_.budget};
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!limits.allow(all[i])) continue;
    inside_.push_back(i);
    result.choices.push_back(all[i]);
  }
  for (const Candidate& candidate : candidates_) {
    const auto is_it = [&](const ServerChoice& choice) { return choice.node == candidate.node; };
    if (std::any_of(result.choices.begin(), result.choices.end(), is_it)) continue;
    std::vector<ServerChoice> own;
    std::copy_if(all.begin(), all.end(), std::back_inserter(own), is_it);
    if (!own.empty()) infeasible_.push_back({candidate.node, outside(own, limits)});
  }
  std::sort(infeasible_.begin(), infeasible_.end(),
            [](const NoChoice& a, const NoChoice& b) { return a.node < b.node; });
  result.infeasible = infeasible_;
}

/// The fastest choice on more servers than are allowed, where that is faster: of the next counts that it spreads over,
/// up to twice as many. Nothing where somebody states how many.
std::optional<ServerChoice> Recommender::faster_on_more(const answer::Recommendation& result) {
  constexpr int kTried = 3;
  const Trial best = runnable_[inside_[result.fastest]];
  const std::int64_t most = options_.max_nodes.value_or(kMostNodes);
  if (asked_.nodes || best.choice.nodes != most) return std::nullopt;
  const std::int64_t end = std::min<std::int64_t>(2 * most, hardware::kMaxNodes);
  for (std::int64_t nodes = most + 1, tried = 0; nodes <= end && tried < kTried; ++nodes) {
    Scenario scenario = candidates_[best.candidate].scenario;
    scenario.cluster.nodes = nodes;
    if (best.choice.training.epochs) scenario.training.epochs = best.choice.training.epochs;
    Miss miss;
    if (!try_way(best.candidate, scenario, best.way, best.choice.batch, miss)) continue;
    ServerChoice more = std::move(runnable_.back().choice);
    runnable_.pop_back();
    ++tried;
    if (more.time() < best.choice.time()) return more;
  }
  return std::nullopt;
}

/// The job of a choice, as it was tried.
Scenario Recommender::scenario_of(const Trial& tried) const {
  Scenario scenario = candidates_[tried.candidate].scenario;
  scenario.cluster.nodes = tried.choice.nodes;
  scenario.batch = tried.choice.micro_batch;
  scenario.strategy.accumulation = tried.choice.passes;
  if (tried.choice.training.epochs) scenario.training.epochs = tried.choice.training.epochs;
  share_by(tried.way, scenario);
  return scenario;
}

/// Of a run's steps those of its first epoch, where that reads what later ones may have in memory.
std::optional<double> first_epoch_share(const Scenario& scenario, const ServerChoice& choice) {
  if (!in_first_epoch(scenario)) return std::nullopt;
  const StepShape shape{.step = choice.step,
                        .kernels = choice.step,
                        .global_batch = choice.batch,
                        .tokens_per_sample = tokens_of(*scenario.model)};
  return static_cast<double>(first_epoch_steps(scenario, shape)) / static_cast<double>(choice.training.steps);
}

Expected<void> Recommender::predict_best(answer::Recommendation& result) {
  for (std::size_t i = 0; i < result.choices.size(); ++i) {
    const bool best = i == result.cheapest || i == result.fastest ||
                      std::find(result.pareto.begin(), result.pareto.end(), i) != result.pareto.end();
    if (!best && !options_.predict_all) continue;
    const Scenario scenario = scenario_of(runnable_[inside_[i]]);
    auto prediction = predictor_.predict(scenario);
    if (!prediction) return tl::unexpected<Error>(prediction.error());
    ServerChoice& choice = result.choices[i];
    if (options_.deadline) {
      const Condition in_time{.metric = Metric::kTimeToTrain, .target = options_.deadline->in(seconds)};
      choice.in_deadline = probability_of(in_time, *prediction);
    }
    choice.stalls = stalls_of(scenario, predictor_, first_epoch_share(scenario, choice));
    choice.prediction = std::move(*prediction);
  }
  return {};
}

}  // namespace

Expected<answer::Recommendation> recommend(const io::Catalog& catalog, std::span<const Override> stated,
                                           const RecommendOptions& options) {
  auto asked = take_apart(stated);
  if (!asked) return tl::unexpected<Error>(asked.error());
  if (auto agree = check_epochs(*asked, stated, options); !agree) return tl::unexpected<Error>(agree.error());
  if (auto known = check_providers(catalog, options); !known) return tl::unexpected<Error>(known.error());
  if (auto sound = check_choice(catalog, stated, options); !sound) return tl::unexpected<Error>(sound.error());
  Recommender recommender(catalog, std::move(*asked), options);
  if (auto gathered = recommender.gather(); !gathered) return tl::unexpected<Error>(gathered.error());
  return recommender.answer();
}

}  // namespace ddlsim::whatif
