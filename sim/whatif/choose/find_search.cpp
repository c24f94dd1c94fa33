#include "choose/find_search.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "choose/find_start.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/whatif/own_runs.h"

namespace ddlsim::whatif {
namespace {

constexpr double kEqualWithin = 1e-3;
constexpr double kCountEqualWithin = 1e-2;
constexpr double kSameMetric = 1e-9;     // of two values that rounding alone tells apart
constexpr double kSameLimit = 1e-6;      // of two values that are as good
constexpr std::int64_t kFewValues = 40;  // counts that are all tried
constexpr double kNothing = 1e-12;       // of a time: what is left of a bracket from zero on
constexpr double kNextDecade = 10;
constexpr int kLeastSteps = 8;  // of a range shorter than as many decades

/// Steps of a run are whole: what it takes goes up and down as a count grows.
bool rounds_steps(Metric metric) {
  return metric == Metric::kCost || metric == Metric::kTimeToTrain || metric == Metric::kEnergy ||
         metric == Metric::kCarbon;
}

}  // namespace

/// As `--set` has it; a rate of the network keeps its ports and what drives it.
std::vector<Override> FindSearch::changes(double value) const {
  if (variable_.path != "network") return {{std::string(variable_.path), text(value), {}}};
  const hardware::Node& node = scenario_->cluster.node;
  std::vector<Override> all{{"network", with_ports(base_, node.network_ports, text(value / ports())), {}}};
  const auto& transport = node.network.transport.get();
  const bool stated =
      std::any_of(base_.begin(), base_.end(), [](const Override& s) { return s.path == "network.transport"; });
  if (transport && !stated && !plan::has_servers(scenario_->strategy)) {
    all.push_back({"network.transport", std::string(name_of(hardware::kNetworkTransports, *transport)), {}});
  }
  return all;
}

/// The job's own runs speak for what it could be, as in whatif/compare.h.
Expected<Scenario> FindSearch::with_runs(Scenario scenario) const {
  if (!scenario_->own_runs) return scenario;
  return corrected(std::move(scenario), scenario_->own_runs);
}

Expected<answer::Prediction> FindSearch::predict_with(std::span<const Override> changed) {
  std::vector<Override> settings = base_;
  settings.insert(settings.end(), changed.begin(), changed.end());
  return resolve(catalog_, settings)
      .and_then([&](Scenario s) { return with_runs(std::move(s)); })
      .and_then([&](const Scenario& s) { return predictor_.predict(s); });
}

const Probe& FindSearch::probe(double value) {
  const auto [at, fresh] = probes_.try_emplace(value);
  Probe& one = at->second;
  if (!fresh) return one;
  const auto changed = changes(value);
  one.setting = changed.front().value;
  auto prediction = predict_with(changed);
  if (!prediction) {
    one.refusal = prediction.error().message;
    return one;
  }
  const auto metric = sure_ ? measure(condition_, *prediction, *sure_) : measure(condition_, *prediction);
  if (!metric) {
    one.refusal = metric.error().message;
    return one;
  }
  one.metric = *metric;
  one.fits = prediction->fits != false;
  one.prediction = std::move(*prediction);
  return one;
}

/// The job's own; where jobs have none by themselves, what somebody states.
std::optional<double> FindSearch::value_now() const {
  if (variable_.now != nullptr) return variable_.now(*scenario_);
  const auto stated =
      std::find_if(base_.rbegin(), base_.rend(), [&](const Override& s) { return s.path == variable_.path; });
  if (stated == base_.rend()) return std::nullopt;
  const auto value = parse_number_of(variable_.kind, stated->value);
  return value ? std::optional(*value) : std::nullopt;
}

/// What changes where the answer is; of `=` on which side of the target.
bool FindSearch::side(const Probe& one) const {
  if (condition_.relation == Relation::kEqual) return one.metric >= condition_.target;
  return holds(one);
}

bool FindSearch::holds(const Probe& one) const {
  if (!one.prediction || (must_fit_ && !one.fits)) return false;
  switch (condition_.relation) {
    case Relation::kAtLeast: return one.metric >= condition_.target;
    case Relation::kAtMost: return one.metric <= condition_.target;
    case Relation::kEqual: return off(one) <= (counts() ? kCountEqualWithin : kEqualWithin);
  }
  return false;
}

double FindSearch::off(const Probe& one) const {
  const double most = std::max(std::abs(condition_.target), kNothing);
  return std::abs(one.metric - condition_.target) / most;
}

Expected<void> FindSearch::set_range(const FindOptions& options) {
  low_ = variable_.lowest;
  high_ = variable_.highest;
  if (variable_.path == "gpus_per_node") high_ = static_cast<double>(scenario_->cluster.node.gpus);
  if (variable_.path == "gpu.power_limit") {
    std::vector<Override> unlimited = base_;
    std::erase_if(unlimited, [&](const Override& s) { return s.path == variable_.path; });
    if (const auto free = resolve(catalog_, unlimited)) high_ = free->cluster.node.gpu.tdp.in(watts);
  }
  for (const auto& [said, target, word] : {std::tuple{&options.from, &low_, "--from"}, {&options.to, &high_, "--to"}}) {
    if (!*said) continue;
    const auto value = parse_number_of(variable_.kind, **said);
    if (!value) {
      Error error = value.error();
      error.message = fmt::format("{}: {}", word, error.message);
      return tl::unexpected<Error>(std::move(error));
    }
    *target = *value;
  }
  if (low_ < high_) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{} from {} to {}: there is nothing between them", variable_.path, text(low_), text(high_)));
}

void FindSearch::try_all(double low, double high) {
  complete_ = low == low_ && high == high_;
  const auto last = static_cast<std::int64_t>(high);
  for (auto value = static_cast<std::int64_t>(low); value <= last; ++value) probe(static_cast<double>(value));
}

/// Steps of a decade, or of two for counts; what is not monotone, or has gaps, more closely.
void FindSearch::try_range() {
  if (counts() && high_ - low_ < static_cast<double>(kFewValues)) return try_all(low_, high_);
  probe(low_);
  probe(high_);
  if (now_ && low_ < *now_ && *now_ < high_) probe(rounded(*now_));
  if (counts()) {
    const auto last = static_cast<std::int64_t>(high_);
    for (std::int64_t value = 1; value < last; value *= 2) {
      if (static_cast<double>(value) > low_) probe(static_cast<double>(value));
    }
    const bool gaps = std::any_of(probes_.begin(), probes_.end(), [](const auto& p) { return !p.second.prediction; });
    if ((gaps || !monotone() || rounds_steps(condition_.metric)) && high_ <= static_cast<double>(kEveryValue)) {
      try_all(low_, high_);
    }
    return;
  }
  const double first = low_ > 0 ? low_ : std::max(high_ * kNothing, 1e-9);
  const int steps = std::max(static_cast<int>(std::ceil(std::log10(high_ / first))), kLeastSteps);
  const double step = std::pow(high_ / first, 1.0 / steps);
  double value = first;
  for (int i = 0; i < steps; ++i, value *= step) {
    if (value > low_) probe(rounded(value));
  }
  if (!monotone()) try_turns();
}

/// Where the metric turns it may hold between two tries that do not: closely there.
void FindSearch::try_turns() {
  constexpr int kBetween = 8;
  std::vector<std::pair<double, double>> jobs;  // value, metric
  for (const auto& [value, one] : probes_) {
    if (one.prediction) jobs.emplace_back(value, one.metric);
  }
  const auto between = [&](double low, double high) {
    for (int i = 1; i < kBetween; ++i) {
      const double share = static_cast<double>(i) / kBetween;
      probe(rounded(low > 0 ? low * std::pow(high / low, share) : high * share));
    }
  };
  double before = 0;  // where it went last
  std::size_t since = 0;
  for (std::size_t i = 1; i < jobs.size(); ++i) {
    const double change = jobs[i].second - jobs[i - 1].second;
    if (std::abs(change) <= kSameMetric * std::abs(jobs[i].second)) continue;
    if (before * change < 0) {
      between(jobs[since - 1].first, jobs[since].first);
      between(jobs[i - 1].first, jobs[i].first);
    }
    before = change;
    since = i;
  }
}

bool FindSearch::monotone() const {
  bool rises = false;
  bool falls = false;
  const Probe* last = nullptr;
  for (const auto& [value, one] : probes_) {
    if (!one.prediction) continue;
    if (last != nullptr) {
      const double same = kSameMetric * std::abs(one.metric);
      rises = rises || one.metric > last->metric + same;
      falls = falls || one.metric < last->metric - same;
    }
    last = &one;
  }
  return !(rises && falls);
}

std::vector<FindSearch::Bracket> FindSearch::brackets() const {
  std::vector<Bracket> all;
  const Probes::value_type* last = nullptr;
  for (const auto& entry : probes_) {
    if (!entry.second.prediction) continue;
    if (last != nullptr && side(last->second) != side(entry.second)) all.push_back({last->first, entry.first});
    last = &entry;
  }
  return all;
}

/// To the job's own value; without one, the first.
const FindSearch::Bracket& FindSearch::nearest(const std::vector<Bracket>& all) const {
  const auto far = [&](const Bracket& b) {
    const double now = now_.value_or(low_);
    if (b.low <= now && now <= b.high) return 0.0;
    const double end = now < b.low ? b.low : b.high;
    return std::abs(std::log(std::max(end, kNothing) / std::max(now, kNothing)));
  };
  return *std::min_element(all.begin(), all.end(), [&](const auto& a, const auto& b) { return far(a) < far(b); });
}

double FindSearch::middle(const Bracket& b) const {
  if (counts()) return std::floor((b.low + b.high) / 2);
  return rounded(b.low > 0 ? std::sqrt(b.low * b.high) : b.high / kNextDecade);
}

/// Halves a bracket until its ends are neighbours. A count in it that is no job has every value tried.
template <typename Side>
FindSearch::Bracket FindSearch::narrowed(Bracket bracket, Side side) {
  const bool at_low = side(probes_.at(bracket.low));
  while (!counts() || bracket.high - bracket.low > 1) {
    const double mid = middle(bracket);
    if (mid <= bracket.low || mid >= bracket.high || bracket.high < kNothing) break;
    const Probe& one = probe(mid);
    if (!one.prediction) {
      if (!counts() || bracket.high - bracket.low > static_cast<double>(kEveryValue)) break;
      const Bracket whole = bracket;
      try_all(whole.low, whole.high);
      for (const Bracket& inside : brackets()) {
        if (inside.low >= whole.low && inside.high <= whole.high) return inside;
      }
      break;
    }
    (side(one) == at_low ? bracket.low : bracket.high) = mid;
  }
  return bracket;
}

/// The job that just fits may be the only one that holds.
void FindSearch::try_largest_that_fits() {
  const auto fits = [](const Probe& one) { return one.fits; };
  const Probes::value_type* last = nullptr;
  std::optional<Bracket> ends;
  for (const auto& entry : probes_) {
    if (!entry.second.prediction) continue;
    if (last != nullptr && last->second.fits != entry.second.fits) ends = Bracket{last->first, entry.first};
    last = &entry;
  }
  if (ends) narrowed(*ends, fits);
}

/// Of what fits, if that is asked: the value that comes nearest to the condition.
double FindSearch::best() const {
  const auto score = [&](const Probe& one) {
    switch (condition_.relation) {
      case Relation::kAtLeast: return one.metric;
      case Relation::kAtMost: return -one.metric;
      case Relation::kEqual: return -off(one);
    }
    return 0.0;
  };
  const Probes::value_type* found = nullptr;
  for (const auto& entry : probes_) {
    const Probe& one = entry.second;
    if (!one.prediction) continue;
    const bool better = found == nullptr || (must_fit_ && one.fits && !found->second.fits) ||
                        ((!must_fit_ || one.fits || !found->second.fits) && score(one) > score(found->second));
    if (better) found = &entry;
  }
  if (found == nullptr) return low_;
  // Where more of it changes nothing, the end says so best.
  for (const double end : {high_, low_}) {
    const auto at = probes_.find(end);
    if (at == probes_.end() || !at->second.prediction || (must_fit_ && !at->second.fits)) continue;
    const double same = kSameLimit * std::abs(found->second.metric);
    if (std::abs(at->second.metric - found->second.metric) <= same) return end;
  }
  return found->first;
}

Expected<void> FindSearch::check_difference() const {
  const auto jobs = static_cast<std::size_t>(
      std::count_if(probes_.begin(), probes_.end(), [](const auto& p) { return p.second.prediction.has_value(); }));
  if (jobs == 0) {
    return fail(ErrorCode::kInfeasible, fmt::format("no {} from {} to {} is a job: {}", variable_.path, text(low_),
                                                    text(high_), probes_.begin()->second.refusal));
  }
  double least = HUGE_VAL;
  double most = -HUGE_VAL;
  for (const auto& [value, one] : probes_) {
    if (!one.prediction) continue;
    least = std::min(least, one.metric);
    most = std::max(most, one.metric);
  }
  const std::string sample = baseline_->sample;
  if (most - least <= kSameMetric * std::abs(most)) {
    return fail(
        ErrorCode::kInfeasible,
        fmt::format("{} makes no difference to the {} of this job: {} at every value from {} to {}{}", variable_.path,
                    name_of(kMetrics, condition_.metric), measured_text(condition_, most, sample), text(low_),
                    text(high_), jobs < probes_.size() ? " that is a job" : ""),
        {}, no_jobs());
  }
  return {};
}

/// Of what holds everywhere the end that is nearest to failing: what is left of it there is the answer.
double FindSearch::tightest_end() const {
  const bool most = condition_.relation == Relation::kAtMost;
  const auto is_job = [](const auto& p) { return p.second.prediction.has_value(); };
  const auto first = std::find_if(probes_.begin(), probes_.end(), is_job);
  const auto last = std::find_if(probes_.rbegin(), probes_.rend(), is_job);
  const double low = first->second.metric;
  const double high = last->second.metric;
  return (most ? high > low : high < low) ? last->first : first->first;
}

/// Where it holds: from the found end on or up to it, or between two ends.
double FindSearch::found_end(double limit, answer::Inverse& result) {
  const auto crossings = brackets();
  const bool equal = condition_.relation == Relation::kEqual;
  if (crossings.empty()) {
    result.always = !equal && holds(probes_.at(limit));
    if (!result.always) return limit;
    const double end = tightest_end();
    result.up = probes_.begin()->first == end || end < limit;
    return end;
  }
  const auto by_side = [&](const Probe& one) { return side(one); };
  const Bracket ends = narrowed(nearest(crossings), by_side);
  const Probe& low = probes_.at(ends.low);
  const Probe& high = probes_.at(ends.high);
  result.up = equal || holds(high);
  const double found = (equal ? off(high) <= off(low) : result.up) ? ends.high : ends.low;
  if (equal || !holds(probes_.at(found))) return found;
  // Beyond other values that hold it may fail again.
  std::optional<Bracket> beyond;
  for (const Bracket& one : crossings) {
    if (result.up ? one.low >= found && !beyond : one.high <= found) beyond = one;
  }
  if (!beyond) return found;
  const Bracket other = narrowed(*beyond, by_side);
  const double from = result.up ? found : other.high;
  const double to = result.up ? other.low : found;
  result.range = answer::SolutionRange{from, to, probes_.at(from).setting, probes_.at(to).setting};
  return found;
}

/// How many of the tried values are none, and why: a note, or nothing.

}  // namespace ddlsim::whatif
