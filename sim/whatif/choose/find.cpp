#include "ddlsim/whatif/find.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "choose/condition.h"
#include "choose/find_start.h"
#include "choose/find_transport.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/support/names.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/own_runs.h"
#include "ddlsim/whatif/predictor.h"
#include "scenario/number_settings.h"

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

/// What one value of the variable gives.
struct Probe {
  std::string setting;
  std::optional<answer::Prediction> prediction;  // nothing: it is no job
  double metric = 0;
  bool fits = true;
  std::string refusal;
};

class Search {
 public:
  Search(const io::Catalog& catalog, std::span<const Override> base, const NumberSetting& variable,
         const Condition& condition)
      : catalog_(catalog), base_(base.begin(), base.end()), variable_(variable), condition_(condition) {}

  Expected<answer::Inverse> run(const FindOptions& options);

 private:
  using Probes = std::map<double, Probe>;
  /// Neighbours of which one holds.
  struct Bracket {
    double low;
    double high;
  };

  [[nodiscard]] bool counts() const { return variable_.kind == NumberKind::kCount; }
  [[nodiscard]] int digits() const { return condition_.relation == Relation::kEqual ? 6 : 4; }
  [[nodiscard]] std::string text(double value) const { return shown_number(variable_.kind, value, digits()); }
  /// As it is written down: of a network that of each port.
  [[nodiscard]] double rounded(double value) const {
    return rounded_number(variable_.kind, value / ports(), digits()) * ports();
  }
  [[nodiscard]] double ports() const {
    return variable_.path == "network" ? static_cast<double>(scenario_->cluster.node.network_ports) : 1.0;
  }
  [[nodiscard]] std::vector<Override> changes(double value) const;
  [[nodiscard]] Expected<Scenario> with_runs(Scenario scenario) const;
  const Probe& probe(double value);
  [[nodiscard]] bool side(const Probe& one) const;
  [[nodiscard]] bool holds(const Probe& one) const;
  Expected<void> set_range(const FindOptions& options);
  void try_range();
  void try_all(double low, double high);
  void try_turns();
  [[nodiscard]] bool monotone() const;
  [[nodiscard]] std::vector<Bracket> brackets() const;
  [[nodiscard]] const Bracket& nearest(const std::vector<Bracket>& all) const;
  template <typename Side>
  Bracket narrowed(Bracket bracket, Side side);
  void try_largest_that_fits();
  [[nodiscard]] double middle(const Bracket& bracket) const;
  [[nodiscard]] Expected<void> check_difference() const;
  [[nodiscard]] std::vector<std::string> no_jobs() const;
  [[nodiscard]] double best() const;
  [[nodiscard]] double tightest_end() const;
  double found_end(double limit, answer::Inverse& result);
  [[nodiscard]] double off(const Probe& one) const;
  [[nodiscard]] std::string limit_text(double value) const;
  void answer_with(double value, answer::Inverse& result);
  void describe_tries(answer::Inverse& result) const;

  const io::Catalog& catalog_;
  std::vector<Override> base_;
  const NumberSetting& variable_;
  const Condition& condition_;
  std::optional<Scenario> scenario_;
  std::optional<answer::Prediction> baseline_;
  std::optional<double> now_;
  bool must_fit_ = false;
  std::optional<double> sure_;
  double low_ = 0;
  double high_ = 0;
  Predictor predictor_;
  bool complete_ = false;  // every value was tried
  Probes probes_;          // that are jobs, and those that are none
};

/// As `--set` has it; a rate of the network keeps its ports and what drives it.
std::vector<Override> Search::changes(double value) const {
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
Expected<Scenario> Search::with_runs(Scenario scenario) const {
  if (!scenario_->own_runs) return scenario;
  return corrected(std::move(scenario), scenario_->own_runs);
}

const Probe& Search::probe(double value) {
  const auto [at, fresh] = probes_.try_emplace(value);
  Probe& one = at->second;
  if (!fresh) return one;
  std::vector<Override> settings = base_;
  const auto changed = changes(value);
  one.setting = changed.front().value;
  settings.insert(settings.end(), changed.begin(), changed.end());
  auto prediction = resolve(catalog_, settings)
                        .and_then([&](Scenario s) { return with_runs(std::move(s)); })
                        .and_then([&](const Scenario& s) { return predictor_.predict(s); });
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

/// What changes where the answer is; of `=` on which side of the target.
bool Search::side(const Probe& one) const {
  if (condition_.relation == Relation::kEqual) return one.metric >= condition_.target;
  return holds(one);
}

bool Search::holds(const Probe& one) const {
  if (!one.prediction || (must_fit_ && !one.fits)) return false;
  switch (condition_.relation) {
    case Relation::kAtLeast: return one.metric >= condition_.target;
    case Relation::kAtMost: return one.metric <= condition_.target;
    case Relation::kEqual: return off(one) <= (counts() ? kCountEqualWithin : kEqualWithin);
  }
  return false;
}

double Search::off(const Probe& one) const {
  const double most = std::max(std::abs(condition_.target), kNothing);
  return std::abs(one.metric - condition_.target) / most;
}

Expected<void> Search::set_range(const FindOptions& options) {
  low_ = variable_.lowest;
  high_ = variable_.highest;
  if (variable_.path == "gpus_per_node") high_ = static_cast<double>(scenario_->cluster.node.gpus);
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

void Search::try_all(double low, double high) {
  complete_ = low == low_ && high == high_;
  const auto last = static_cast<std::int64_t>(high);
  for (auto value = static_cast<std::int64_t>(low); value <= last; ++value) probe(static_cast<double>(value));
}

/// Steps of a decade, or of two for counts; what is not monotone, or has gaps, more closely.
void Search::try_range() {
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
    if ((gaps || !monotone()) && high_ <= static_cast<double>(kEveryValue)) try_all(low_, high_);
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
void Search::try_turns() {
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

bool Search::monotone() const {
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

std::vector<Search::Bracket> Search::brackets() const {
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
const Search::Bracket& Search::nearest(const std::vector<Bracket>& all) const {
  const auto far = [&](const Bracket& b) {
    const double now = now_.value_or(low_);
    if (b.low <= now && now <= b.high) return 0.0;
    const double end = now < b.low ? b.low : b.high;
    return std::abs(std::log(std::max(end, kNothing) / std::max(now, kNothing)));
  };
  return *std::min_element(all.begin(), all.end(), [&](const auto& a, const auto& b) { return far(a) < far(b); });
}

double Search::middle(const Bracket& b) const {
  if (counts()) return std::floor((b.low + b.high) / 2);
  return rounded(b.low > 0 ? std::sqrt(b.low * b.high) : b.high / kNextDecade);
}

/// Halves a bracket until its ends are neighbours. A count in it that is no job has every value tried.
template <typename Side>
Search::Bracket Search::narrowed(Bracket bracket, Side side) {
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
void Search::try_largest_that_fits() {
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
double Search::best() const {
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

Expected<void> Search::check_difference() const {
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
double Search::tightest_end() const {
  const bool most = condition_.relation == Relation::kAtMost;
  const auto is_job = [](const auto& p) { return p.second.prediction.has_value(); };
  const auto first = std::find_if(probes_.begin(), probes_.end(), is_job);
  const auto last = std::find_if(probes_.rbegin(), probes_.rend(), is_job);
  const double low = first->second.metric;
  const double high = last->second.metric;
  return (most ? high > low : high < low) ? last->first : first->first;
}

/// Where it holds: from the found end on or up to it, or between two ends.
double Search::found_end(double limit, answer::Inverse& result) {
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
std::vector<std::string> Search::no_jobs() const {
  const auto is_none = [](const auto& tried) { return !tried.second.prediction; };
  const auto first = std::find_if(probes_.begin(), probes_.end(), is_none);
  if (first == probes_.end()) return {};
  return {fmt::format("{} of the tried values are no job; the first: {}",
                      std::count_if(probes_.begin(), probes_.end(), is_none), first->second.refusal)};
}

/// A rate at its upper end is as good as infinite.
std::string Search::limit_text(double value) const {
  const bool endless = variable_.role == NumberRole::kRate && value >= variable_.highest;
  return endless ? "infinite" : text(value);
}

void Search::describe_tries(answer::Inverse& result) const {
  bool too_large = false;
  const Probe* last = nullptr;
  for (const auto& [value, one] : probes_) {
    if (!one.prediction) continue;
    too_large = too_large || !one.fits;
    result.tried.push_back({one.setting, value, one.metric, one.fits, holds(one)});
    if (holds(one)) {
      if (last == nullptr || !holds(*last)) result.holding.push_back({one.setting, one.setting});
      result.holding.back().to = one.setting;
    }
    last = &one;
  }
  if (result.always) {
    result.notes.push_back(fmt::format("it holds at every value that was tried, {} to {}",
                                       limit_text(result.tried.front().value), limit_text(result.tried.back().value)));
  }
  for (std::string& note : no_jobs()) result.notes.push_back(std::move(note));
  if (!result.monotone) {
    result.notes.emplace_back(complete_ ? "not monotone: every value was tried"
                                        : "not monotone: between values that were tried there may be others that hold");
  }
  if (too_large && must_fit_) result.notes.emplace_back("values whose job does not fit the GPU's memory do not hold");
  if (too_large && !must_fit_ && baseline_->fits == false) {
    result.notes.emplace_back("the job does not fit the GPU's memory as it is: whether values fit was not asked");
  }
}

void Search::answer_with(double value, answer::Inverse& result) {
  const Probe& one = probe(value);
  result.setting = one.setting;
  result.prediction = *one.prediction;
  result.probability = probability_of(condition_, *one.prediction);
  result.metric_text = measured_text(condition_, one.metric, baseline_->sample);
  for (const Override& setting : changes(value)) result.settings.emplace_back(setting.path, setting.value);
}

Expected<answer::Inverse> Search::run(const FindOptions& options) {
  auto start = start_of_search(catalog_, base_, variable_, predictor_);
  if (!start) return tl::unexpected<Error>(start.error());
  scenario_ = std::move(start->scenario);
  baseline_ = std::move(start->prediction);
  if (start->instead) base_.push_back(*start->instead);
  std::erase_if(base_, [](const Override& s) { return s.path.starts_with("measured."); });
  sure_ = options.sure;
  const auto now = sure_ ? measure(condition_, *baseline_, *sure_) : measure(condition_, *baseline_);
  if (!now) return tl::unexpected<Error>(now.error());
  if (variable_.now != nullptr) now_ = variable_.now(*scenario_);
  must_fit_ =
      baseline_->fits != false && condition_.metric != Metric::kMemory && condition_.metric != Metric::kDeviceMemory;
  if (auto range = set_range(options); !range) return tl::unexpected<Error>(range.error());
  try_range();
  if (counts() && must_fit_) try_largest_that_fits();
  if (auto sound = check_difference(); !sound) return tl::unexpected<Error>(sound.error());

  answer::Inverse result;
  result.title = describe(*scenario_);
  result.variable = variable_.path;
  result.unit = si_unit(variable_.kind);
  result.condition = words_of(condition_);
  if (sure_) result.condition += fmt::format(" with {} %", significant(100 * *sure_));
  result.metric = name_of(kMetrics, condition_.metric);
  const double limit = best();
  const double found = found_end(limit, result);
  result.monotone = monotone();
  result.reached = holds(probes_.at(found));
  if (result.reached) result.value = found;
  answer_with(found, result);
  const Probe& at_limit = probes_.at(best());
  result.limit_setting = limit_text(best());
  result.limit = *at_limit.prediction;
  result.limit_text = measured_text(condition_, at_limit.metric, baseline_->sample);
  if (now_) result.now = changes(*now_).front().value;
  result.now_text = measured_text(condition_, *now, baseline_->sample);
  result.baseline = baseline_;
  result.notes = notes_of_answer(catalog_, base_, *scenario_, result);
  describe_tries(result);
  result.predictions = probes_.size() + 1;
  if (start->instead) {
    result.notes.push_back(
        fmt::format("{}: the job is none as it is stated; the search begins with the fewest that make "
                    "it one, {}",
                    variable_.path, start->instead->value));
  }
  for (const std::string& note : result.prediction.notes) result.notes.push_back(note);
  return result;
}

}  // namespace

Expected<answer::Inverse> find(const io::Catalog& catalog, std::span<const Override> base, std::string_view variable,
                               const Condition& condition, const FindOptions& options) {
  const auto number = number_setting(variable);
  if (!number) return tl::unexpected<Error>(number.error());
  auto answer = Search(catalog, base, *number, condition).run(options);
  if (!answer) return answer;
  const auto ask = [&](std::span<const Override> other) {
    return Search(catalog, other, *number, condition).run(options);
  };
  add_over_rdma(catalog, base, ask, *answer);
  return answer;
}

}  // namespace ddlsim::whatif
