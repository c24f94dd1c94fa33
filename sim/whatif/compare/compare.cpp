#include "ddlsim/whatif/compare.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "compare/remedies.h"
#include "ddlsim/cost/loader.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/support/names.h"
#include "ddlsim/support/plural.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/fitting.h"
#include "ddlsim/whatif/own_runs.h"
#include "ddlsim/whatif/predictor.h"
#include "ddlsim/whatif/ratio.h"
#include "predict/correction.h"
#include "scenario/setting_values.h"
#include "scenario/stated_runs.h"

namespace ddlsim::whatif {
namespace {

std::string name_for(std::span<const Override> overrides) {
  std::string name;
  for (const Override& setting : overrides) {
    name += (name.empty() ? "" : ", ") + fmt::format("{} = {}", setting.path, setting.value);
  }
  return name;
}

/// The share of a step that is no GPU time.
double communication_of(const Scenario& scenario, Time step, Predictor& predictor) {
  Scenario slower = scenario;
  slower.gpu_time_factor.set(scenario.gpu_time_factor * kSlowerGpu);
  const auto longer = predictor.step_time(slower);
  return longer ? share_beside_gpu(step, *longer) : 0;
}

/// All messages, hidden or not, as a share of the step.
double sent_in(const answer::Prediction& prediction) {
  return std::min(prediction.breakdown.communication / prediction.step_time, 1.0);
}

/// A baseline and what it gave.
struct Base {
  const io::Catalog& catalog;
  std::span<const Override> settings;
  const Scenario& scenario;
  const answer::Prediction& prediction;
  double communication;  // share of the step that is no GPU time
  Predictor& predictor;  // what alternatives do not change is priced once
};

bool names_server(const Change& change) {
  return std::any_of(change.overrides.begin(), change.overrides.end(),
                     [](const Override& setting) { return setting.path == "node"; });
}

/// The baseline's settings as an alternative has them: a price that names no server is of the baseline's.
std::vector<Override> settings_for(const Change& change, std::span<const Override> settings) {
  std::vector<Override> all(settings.begin(), settings.end());
  if (!names_server(change)) return all;
  std::erase_if(all, [](Override& one) {
    if (one.path == "price") one.value = named_prices(one.value);
    return one.path == "price" && one.value.empty();
  });
  return all;
}

/// What drives the baseline's network drives the alternative's, where it says no other: a rate does not name one.
void keep_transport(const Scenario& baseline, const Change& change, Scenario& alternative) {
  const hardware::Node& before = baseline.cluster.node;
  hardware::Link& after = alternative.cluster.node.network;
  if (names_server(change) || after.transport->has_value()) return;
  if (hardware::says_transport(before.network)) {
    after.transport = before.network.transport;
  } else {
    after.transport.set(cost::assumed_transport(before));
  }
}

/// What drives the network in an alternative, where nobody would know or its GPU alone would make it another.
std::optional<std::string> kept_transport_note(const Scenario& alternative, bool said) {
  hardware::Node alone = alternative.cluster.node;
  const auto kept = alone.network.transport;
  if (!kept.get() || alternative.cluster.nodes == 1) return std::nullopt;
  const std::string_view name = name_of(hardware::kNetworkTransports, *kept.get());
  if (said) {
    return fmt::format("network: driven by {} as the baseline's is, unless --set network.transport says what", name);
  }
  if (hardware::says_transport(alone.network)) return std::nullopt;
  alone.network.transport = {};
  if (cost::assumed_transport(alone) == *kept.get()) return std::nullopt;
  return fmt::format("network: driven as the baseline's is; alone this is --set network.transport={}", name);
}

/// Samples per second if what nobody says of the network is the other of what it may be (predict/interval.h); nothing
/// where somebody says it or it does not matter.
std::optional<double> rate_otherwise_driven(const Scenario& scenario, const answer::Prediction& as_assumed,
                                            Predictor& predictor) {
  const hardware::Node& node = scenario.cluster.node;
  if (scenario.cluster.nodes == 1 || hardware::says_transport(node.network)) return std::nullopt;
  using hardware::NetworkTransport;
  Scenario other = scenario;
  const bool by_tcp = cost::assumed_transport(node) == NetworkTransport::kTcp;
  other.cluster.node.network.transport = std::optional(by_tcp ? NetworkTransport::kRoce : NetworkTransport::kTcp);
  const auto step = predictor.step_time(scenario);
  const auto otherwise = predictor.step_time(other);
  if (!step || !otherwise) return std::nullopt;
  return as_assumed.throughput_samples_per_second * (*step / *otherwise);
}

/// `said`: whether it is an alternative at all, be it possible or not.
Expected<answer::Alternative> alternative(const Base& base, const Change& change, bool* said = nullptr) {
  const answer::Prediction& baseline = base.prediction;
  auto scenario = changed(base.catalog, settings_for(change, base.settings), base.scenario, change.overrides);
  const bool silent = scenario && !scenario->cluster.node.network.transport->has_value();
  if (scenario) keep_transport(base.scenario, change, *scenario);
  if (said != nullptr) *said = scenario.has_value();
  auto prediction = scenario.and_then([&](const Scenario& one) { return base.predictor.predict(one); });
  const std::string name = change.name.empty() ? name_for(change.overrides) : change.name;
  if (!prediction) {
    prediction.error().notes.push_back(fmt::format("in the alternative '{}'", name));
    return tl::unexpected<Error>(prediction.error());
  }
  if (prediction->sample != baseline.sample) {
    if (said != nullptr) *said = false;
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("'{}' counts {}, the baseline counts {}: they cannot be compared", name,
                            plural(prediction->sample), plural(baseline.sample)));
  }
  answer::Alternative result;
  result.name = name;
  for (const Override& setting : change.overrides) result.changes.emplace_back(setting.path, setting.value);
  result.speedup = prediction->throughput_samples_per_second / baseline.throughput_samples_per_second;
  const RatioEstimate known =
      ratio_of({&base.scenario, base.communication, sent_in(baseline)},
               {&*scenario, communication_of(*scenario, prediction->step_time, base.predictor), sent_in(*prediction)},
               result.speedup);
  result.speedup_interval_90 = known.interval_90;
  result.probability_faster = known.faster;
  // Both sides' networks are driven alike, whatever drives them.
  const auto before = rate_otherwise_driven(base.scenario, baseline, base.predictor);
  const auto after = rate_otherwise_driven(*scenario, *prediction, base.predictor);
  if (before && after) {
    result.speedup_interval_90.first = std::min(result.speedup_interval_90.first, *after / *before);
    result.speedup_interval_90.second = std::max(result.speedup_interval_90.second, *after / *before);
  }
  const bool kept_as_said = silent && hardware::says_transport(scenario->cluster.node.network);
  if (auto kept = kept_transport_note(*scenario, kept_as_said)) prediction->notes.push_back(std::move(*kept));
  result.prediction = std::move(*prediction);
  return result;
}

/// A GPU is an upgrade from so many times the peak on.
constexpr double kFasterGpu = 1.2;

/// Collects the upgrades one at a time.
class Upgrades {
 public:
  Upgrades(const io::Catalog& catalog, const Scenario& scenario, const answer::Prediction& baseline)
      : catalog_(catalog), scenario_(scenario), baseline_(baseline) {}

  const std::vector<Change>& collect() {
    network();
    links();
    gpu_rates();
    gpus();
    strategies();
    input();
    return changes_;
  }
  [[nodiscard]] const std::vector<std::string>& skipped() const { return skipped_; }

 private:
  void add(std::string path, std::string value) { changes_.push_back({{}, {{std::move(path), std::move(value), {}}}}); }

  void network() {
    if (scenario_.cluster.nodes == 1) {
      skipped_.emplace_back("network: the job runs on one server");
      return;
    }
    const hardware::Node& node = scenario_.cluster.node;
    if (uses_transport() && !hardware::says_transport(node.network) &&
        cost::assumed_transport(node) == hardware::NetworkTransport::kTcp) {
      add("network.transport", "roce");
    }
    const Bandwidth now = node.network_bandwidth();
    constexpr auto kGigabits = std::to_array<double>({1, 10, 25, 40, 50, 100, 200, 400, 800, 1600, 3200, 6400});
    for (const double rate : kGigabits) {
      if (gigabits_per_second(rate) < now * 2.0) continue;
      const std::int64_t ports = scenario_.cluster.node.network_ports;
      add("network", ports == 1 ? fmt::format("{} Gb/s", rate)
                                : fmt::format("{} x {:.6g} Gb/s", ports, rate / static_cast<double>(ports)));
      // A rate does not say what drives it: the faster network is driven as this one.
      if (const auto& transport = scenario_.cluster.node.network.transport.get(); transport && uses_transport()) {
        changes_.back().overrides.push_back(
            {"network.transport", std::string(name_of(hardware::kNetworkTransports, *transport)), {}});
      }
      with_slots(gigabits_per_second(rate / static_cast<double>(ports)));
      return;
    }
    skipped_.emplace_back("network: no faster one is listed");
  }

  /// Cards that today's slots could not feed once more, with slots of twice the rate.
  void with_slots(Bandwidth card) {
    const Bandwidth slot = scenario_.cluster.node.pcie.bandwidth;
    if (card <= slot * scenario_.efficiency.pcie.get()) return;
    Change both = changes_.back();
    both.overrides.push_back({"pcie", to_text(slot * 2.0), {}});
    changes_.push_back(std::move(both));
  }

  [[nodiscard]] bool uses_transport() const {
    const bool aggregate = scenario_.fidelity == answer::Fidelity::kAggregate || !scenario_.model->has_layers();
    return !aggregate && !(plan::has_servers(scenario_.strategy) && scenario_.ps_transport.get());
  }

  void links() {
    const hardware::Cluster& cluster = scenario_.cluster;
    const hardware::Node& node = cluster.node;
    const bool nvlink = node.peers(cluster.gpus_per_node).by_nvlink();
    if (nvlink && cluster.gpus_per_node > 1) {
      add("nvlink", to_text(node.nvlink->bandwidth * 2.0));
    } else {
      skipped_.emplace_back(nvlink ? "nvlink: one GPU per server" : "nvlink: the server's GPUs are joined by PCIe");
    }
    if (cluster.gpus_per_node > 1 && !nvlink && node.peers(cluster.gpus_per_node).through_host) {
      add("peer_to_peer", "yes");
    }
    add("pcie", to_text(node.pcie.bandwidth * 2.0));
    if (node.host_link.bandwidth != node.pcie.bandwidth) {
      changes_.back().overrides.push_back({"pcie.host", to_text(node.host_link.bandwidth * 2.0), {}});
    }
  }

  void gpu_rates() {
    const hardware::Gpu& gpu = scenario_.cluster.node.gpu;
    const std::string peak_path = fmt::format("gpu.peak.{}", name_of(kPrecisions, scenario_.precision));
    if (const auto peak = gpu.peak.at(scenario_.precision)) add(peak_path, to_text(*peak * 2.0));
    add("gpu.memory_bandwidth", to_text(gpu.memory_bandwidth * 2.0));
    if (scenario_.launch_interval > Time::zero()) add("launch_interval", to_text(scenario_.launch_interval / 2.0));
    if (plan::blocks_launches(scenario_)) add("launch_blocking", "no");
  }

  /// The slowest and the fastest of those that are faster.
  template <typename Rate>
  void add_ends(const char* path, std::vector<std::pair<Rate, std::string>> faster) {
    std::stable_sort(faster.begin(), faster.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    add(path, faster.front().second);
    if (faster.back().first > faster.front().first) add(path, faster.back().second);
  }

  void gpus() {
    const auto now = scenario_.cluster.node.gpu.peak.at(scenario_.precision);
    std::vector<std::pair<ComputeRate, std::string>> faster;
    for (const std::string& id : catalog_.ids(io::Kind::kGpus)) {
      const auto gpu = catalog_.datasheet(id);
      const auto peak = gpu ? gpu->peak.at(scenario_.precision) : std::nullopt;
      if (!now || !peak || *peak < *now * kFasterGpu) continue;
      if (gpu->memory_bandwidth < scenario_.cluster.node.gpu.memory_bandwidth) continue;
      if (gpu->form == scenario_.cluster.node.gpu.form) faster.emplace_back(*peak, id);
    }
    if (faster.empty()) {
      skipped_.emplace_back("gpu: none of its form with 1.2 times the rate is listed");
      return;
    }
    add_ends("gpu", std::move(faster));
  }

  void strategies() {
    if (scenario_.cluster.gpus() == 1) {
      skipped_.emplace_back("strategy: one GPU communicates nothing");
      return;
    }
    for (const plan::StrategyKind kind : {plan::StrategyKind::kPs, plan::StrategyKind::kAllReduce}) {
      if (kind != scenario_.strategy.kind) add("strategy", std::string(name_of(plan::kStrategies, kind)));
    }
    if (scenario_.model->has_layers()) {
      skipped_.emplace_back("splits of the model (tensor, pipeline, ZeRO ...): `ddlsim plan` compares them all");
    }
    if (plan::has_tables(scenario_) && scenario_.strategy.kind != plan::StrategyKind::kPearl) add("strategy", "pearl");
  }

  void input() {
    const plan::Input& input = scenario_.input;
    if (!input.dataset) {
      skipped_.emplace_back("input: nobody says what the job reads (--dataset)");
      return;
    }
    if (baseline_.input.exposed <= Time::zero()) {
      skipped_.emplace_back("input: the loader keeps up");
      return;
    }
    storages();
    const std::int64_t threads = scenario_.cluster.node.host.threads;
    if (input.workers.get()) add("input.workers", std::to_string(std::max<std::int64_t>(2 * *input.workers.get(), 1)));
    add("input.threads", std::to_string(2 * threads));
    const bool decodes = input.dataset->decode > Time::zero() && input.decode.get() == plan::DecodeOn::kCpu;
    if (decodes) add("input.decode", "gpu");
  }

  /// Samples per second that a storage would deliver to one GPU.
  [[nodiscard]] Rate delivered_by(hardware::Storage storage) const {
    Scenario with = scenario_;
    with.cluster.node.host.storage = std::move(storage);
    const cost::LoaderWork work = cost::loader_work(with.input, with.cluster.node.host);
    return cost::loader_rates(work, cost::loader_share(with)).storage;
  }

  /// The next storage that each server may have for itself, at least twice as fast for these samples, and the fastest.
  void storages() {
    const hardware::Host& host = scenario_.cluster.node.host;
    if (baseline_.input.from_storage <= 0 || !host.storage) {
      skipped_.emplace_back("input.storage: the data set is in memory");
      return;
    }
    const Rate now = delivered_by(*host.storage);
    std::vector<std::pair<Rate, std::string>> faster;
    for (const std::string& id : catalog_.ids(io::Kind::kStorage)) {
      auto listed = catalog_.storage(id);
      if (!listed || listed->shared || listed->attached == hardware::Attachment::kNetwork) continue;
      const Rate rate = delivered_by(host.reaching(std::move(*listed)));
      if (rate >= now * 2.0) faster.emplace_back(rate, id);
    }
    if (faster.empty()) {
      skipped_.emplace_back("input.storage: none of a server's own that is twice as fast is listed");
      return;
    }
    add_ends("input.storage", std::move(faster));
  }

  const io::Catalog& catalog_;
  const Scenario& scenario_;
  const answer::Prediction& baseline_;
  std::vector<Change> changes_;
  std::vector<std::string> skipped_;
};

/// Whether a change is another one and something besides.
bool adds_to(const Change& change, const Change& other) {
  return change.overrides.size() > other.overrides.size() &&
         std::equal(other.overrides.begin(), other.overrides.end(), change.overrides.begin(),
                    [](const Override& a, const Override& b) { return a.path == b.path && a.value == b.value; });
}

/// What is bought besides has to gain a fiftieth more.
constexpr double kWorthMore = 1.02;

/// The job itself, as `predict` says it, and nothing beside it yet.
Expected<answer::Comparison> comparison_with(const Scenario& scenario, Predictor& predictor) {
  auto baseline = predictor.predict(scenario);
  if (!baseline) return tl::unexpected<Error>(baseline.error());
  add_ways_to_fit(scenario, *baseline);
  answer::Comparison comparison;
  comparison.title = describe(scenario);
  comparison.baseline = std::move(*baseline);
  return comparison;
}

}  // namespace

Expected<answer::Comparison> compare(const io::Catalog& catalog, std::span<const Override> base,
                                     std::span<const Change> changes) {
  const auto scenario = resolve(catalog, base);
  if (!scenario) return tl::unexpected<Error>(scenario.error());
  Predictor predictor;
  auto started = comparison_with(*scenario, predictor);
  if (!started) return started;
  answer::Comparison comparison = std::move(*started);
  const double communication = communication_of(*scenario, comparison.baseline.step_time, predictor);
  std::optional<Error> impossible;  // what is understood, and cannot be of this job: the others can
  for (const Change& change : changes) {
    bool said = false;
    auto result = alternative({catalog, base, *scenario, comparison.baseline, communication, predictor}, change, &said);
    if (result) {
      comparison.alternatives.push_back(std::move(*result));
      continue;
    }
    if (!said) return tl::unexpected<Error>(result.error());
    comparison.skipped.push_back(
        fmt::format("{}: {}", change.name.empty() ? name_for(change.overrides) : change.name, result.error().message));
    if (!impossible) impossible = std::move(result.error());
  }
  if (comparison.alternatives.empty() && impossible) return tl::unexpected<Error>(std::move(*impossible));
  return comparison;
}

Expected<answer::Comparison> what_would_help(const io::Catalog& catalog, std::span<const Override> base) {
  const auto scenario = resolve(catalog, base);
  if (!scenario) return tl::unexpected<Error>(scenario.error());
  Predictor predictor;
  auto started = comparison_with(*scenario, predictor);
  if (!started) return started;
  answer::Comparison comparison = std::move(*started);
  const double communication = communication_of(*scenario, comparison.baseline.step_time, predictor);
  comparison.ranked = true;
  Upgrades upgrades(catalog, *scenario, comparison.baseline);
  std::vector<Change> changes = upgrades.collect();
  std::vector<std::string> too_large;
  if (comparison.baseline.fits == false) {
    for (Change& remedy : that_fit(catalog, base, memory_remedies(catalog, *scenario), too_large)) {
      const bool tried = std::any_of(changes.begin(), changes.end(), [&](const Change& one) {
        return name_for(one.overrides) == name_for(remedy.overrides);
      });
      if (!tried) changes.push_back(std::move(remedy));
    }
  }
  const Change* last = nullptr;  // of the alternatives
  for (const Change& change : changes) {
    auto result = alternative({catalog, base, *scenario, comparison.baseline, communication, predictor}, change);
    if (!result) {
      comparison.skipped.push_back(fmt::format("{}: {}", name_for(change.overrides), result.error().message));
      continue;
    }
    const bool adds = last != nullptr && adds_to(change, *last);
    if (adds && result->speedup < kWorthMore * comparison.alternatives.back().speedup) continue;
    comparison.alternatives.push_back(std::move(*result));
    last = &change;
  }
  comparison.skipped.insert(comparison.skipped.end(), upgrades.skipped().begin(), upgrades.skipped().end());
  if (!too_large.empty()) comparison.skipped.push_back("what is too large alone: " + join(too_large));
  std::stable_sort(comparison.alternatives.begin(), comparison.alternatives.end(), [](const auto& a, const auto& b) {
    const bool a_fits = a.prediction.fits != false;
    const bool b_fits = b.prediction.fits != false;
    return a_fits != b_fits ? a_fits : a.speedup > b.speedup;
  });
  return comparison;
}

}  // namespace ddlsim::whatif
