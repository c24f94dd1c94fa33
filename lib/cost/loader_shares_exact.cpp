#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "loader_shares.h"

namespace ddlsim::cost {
namespace {

constexpr double kBoundSlack = 1e-9;
constexpr std::size_t kMostComparisons = 300'000'000;  // about a second

/// What the jobs so far hold together, and how that came about.
struct State {
  std::int64_t cores = 0;
  DataSize memory{};
  Bandwidth storage{};
  double worth = 0;
  bool cut = false;        // the storage is spoken for: whoever follows has his least
  std::size_t before = 0;  // in the stage before
  LoaderGrant grant{};     // of this stage's job
};

bool beats(const State& a, const State& b) {
  return a.cut == b.cut && a.memory <= b.memory && a.storage <= b.storage && a.worth >= b.worth;
}

/// What jobs can be worth at most together, by Lagrange's multipliers: whoever uses all of a resource pays its price.
/// Any prices give a bound; these come near the lowest by Polyak's steps towards a worth that is known to be reached.
class Bound {
 public:
  Bound(const LoaderSupply& supply, std::span<const LoaderDemand> demands, bool reads, double reached)
      : supply_(supply), reads_(reads) {
    constexpr int kSteps = 100;
    Prices prices;
    for (int step = 0; step < kSteps; ++step) {
      double bound = prices.core + prices.memory + prices.storage;
      Prices spare{1, 1, 1};
      for (const LoaderDemand& demand : demands) {
        const Choice choice = best(demand, prices);
        bound += choice.worth;
        spare.core -= choice.used.core;
        spare.memory -= choice.used.memory;
        spare.storage -= choice.used.storage;
      }
      if (bound < lowest_) {
        lowest_ = bound;
        prices_ = prices;
      }
      const double length = spare.core * spare.core + spare.memory * spare.memory + spare.storage * spare.storage;
      if (length == 0 || bound <= reached) break;
      const double size = (bound - reached) / length;
      prices.core = std::max(prices.core - size * spare.core, 0.0);
      prices.memory = std::max(prices.memory - size * spare.memory, 0.0);
      prices.storage = std::max(prices.storage - size * spare.storage, 0.0);
    }
  }

  [[nodiscard]] double lowest() const { return lowest_; }

  /// A job's worth after what it pays.
  [[nodiscard]] double of(const LoaderDemand& demand) const { return best(demand, prices_).worth; }

  /// What is left is worth at most.
  [[nodiscard]] double of_rest(std::int64_t cores, DataSize memory, Bandwidth storage) const {
    const Prices used = share(cores, memory, storage);
    return prices_.core * (1 - used.core) + prices_.memory * (1 - used.memory) + prices_.storage * (1 - used.storage);
  }

 private:
  /// Of each resource's whole.
  struct Prices {
    double core = 0;
    double memory = 0;
    double storage = 0;
  };
  struct Choice {
    double worth = -std::numeric_limits<double>::infinity();
    Prices used;
  };

  [[nodiscard]] Prices share(std::int64_t cores, DataSize memory, Bandwidth storage) const {
    return {static_cast<double>(cores) / static_cast<double>(supply_.cores),
            supply_.memory > DataSize::zero() ? memory / supply_.memory : 0.0,
            reads_ ? storage / supply_.storage : 0.0};
  }

  [[nodiscard]] Choice best(const LoaderDemand& demand, const Prices& prices) const {
    Choice best;
    for (const LoaderOption& option : demand.options) {
      if (option.rate < demand.least) continue;
      for (const Rate rate : {option.rate, demand.least}) {
        const Prices used = share(option.cores, option.memory, demand.read * rate);
        const double worth =
            rate / demand.unit - prices.core * used.core - prices.memory * used.memory - prices.storage * used.storage;
        if (worth > best.worth) best = {worth, used};
      }
    }
    return best;
  }

  const LoaderSupply& supply_;
  bool reads_;
  double lowest_ = std::numeric_limits<double>::infinity();
  Prices prices_;
};

/// What marginal gain reaches, where that is within what there is; else nothing.
double surely_reached(const LoaderSupply& supply, std::span<const LoaderDemand> demands) {
  const std::vector<LoaderGrant> grants = marginal_shares(supply, demands);
  std::int64_t cores = 0;
  Bandwidth storage;
  for (std::size_t j = 0; j < grants.size(); ++j) {
    if (grants[j].rate < demands[j].least) return 0;
    cores += grants[j].cores;
    storage += grants[j].storage;
  }
  return cores <= supply.cores && storage <= supply.storage * kShareSlack ? worth_of(demands, grants) : 0;
}

/// One stage for each job, jobs in the order in which the storage is filled.
class ExactShares {
 public:
  ExactShares(const LoaderSupply& supply, std::span<const LoaderDemand> demands)
      : supply_(supply),
        demands_(demands),
        order_(by_worth_of_bytes(demands)),
        reads_(storage_binds(supply, demands)),
        reached_(surely_reached(supply, demands)),
        bound_(supply, demands, reads_, reached_),
        cores_kept_(demands.size()),
        read_kept_(demands.size()),
        worth_kept_(demands.size()) {
    for (std::size_t i = order_.size(); i-- > 1;) {
      cores_kept_[i - 1] = cores_kept_[i] + 1;
      worth_kept_[i - 1] = worth_kept_[i] + bound_.of(demands_[order_[i]]);
      read_kept_[i - 1] = read_kept_[i] + read_of(order_[i]) * demands_[order_[i]].least;
    }
  }

  Expected<std::vector<LoaderGrant>> solve() {
    if (bound_.lowest() <= reached_ * (1 + kBoundSlack)) return marginal_shares(supply_, demands_);
    stages_.push_back({State{}});
    for (std::size_t i = 0; i < order_.size(); ++i) {
      if (!extend(i)) {
        return fail(ErrorCode::kUnsupported,
                    "the exact optimum has too many combinations of cores, memory and storage to compare", {},
                    {"policy: a-dloader comes close where curves are concave"});
      }
      if (stages_.back().empty()) {
        return fail(ErrorCode::kInfeasible, "no shares of the server give every job its least");
      }
    }
    return traced();
  }

 private:
  [[nodiscard]] DataSize read_of(std::size_t job) const { return reads_ ? demands_[job].read : DataSize{}; }

  bool extend(std::size_t at) {
    buckets_.assign(static_cast<std::size_t>(supply_.cores) + 1, {});
    const std::vector<State>& before = stages_.back();
    for (std::size_t s = 0; s < before.size(); ++s) {
      for (const LoaderOption& option : demands_[order_[at]].options) {
        if (before[s].cores + option.cores + cores_kept_[at] > supply_.cores) break;
        take(before[s], s, at, option);
        if (compared_ > kMostComparisons) return false;
      }
    }
    std::vector<State> stage;
    for (const std::vector<State>& bucket : buckets_) stage.insert(stage.end(), bucket.begin(), bucket.end());
    stages_.push_back(std::move(stage));
    return true;
  }

  /// A job with an option: full, or cut to what is left of the storage, or, after a cut, at its least.
  void take(const State& from, std::size_t before, std::size_t at, const LoaderOption& option) {
    const LoaderDemand& demand = demands_[order_[at]];
    if (option.rate < demand.least) return;
    if (from.memory + option.memory > supply_.memory * kShareSlack) return;
    const DataSize read = read_of(order_[at]);
    State state{.cores = from.cores + option.cores,
                .memory = from.memory + option.memory,
                .storage = from.storage,
                .cut = from.cut,
                .before = before,
                .grant = {.cores = option.cores, .memory = option.memory, .rate = option.rate}};
    if (read > DataSize::zero()) {
      if (from.cut) {
        state.grant.rate = demand.least;
      } else {
        const Rate left = (supply_.storage - from.storage - read_kept_[at]) / read;
        if (left < option.rate) {
          state.grant.rate = max(left, demand.least);
          state.cut = true;
        }
      }
      state.storage += read * state.grant.rate;
    }
    state.grant.storage = demand.read * state.grant.rate;
    state.worth = from.worth + state.grant.rate / demand.unit;
    const double most = state.worth + bound_.of_rest(state.cores, state.memory, state.storage) + worth_kept_[at];
    if (most >= reached_ * (1 - kBoundSlack)) keep(state);
  }

  void keep(const State& state) {
    std::vector<State>& bucket = buckets_[static_cast<std::size_t>(state.cores)];
    compared_ += bucket.size() + 1;
    if (std::any_of(bucket.begin(), bucket.end(), [&](const State& other) { return beats(other, state); })) return;
    const auto beaten =
        std::remove_if(bucket.begin(), bucket.end(), [&](const State& other) { return beats(state, other); });
    bucket.erase(beaten, bucket.end());
    bucket.push_back(state);
  }

  /// The best of the last stage, of those the one with the fewest cores.
  [[nodiscard]] std::vector<LoaderGrant> traced() const {
    const std::vector<State>& last = stages_.back();
    std::size_t at = 0;
    for (std::size_t s = 1; s < last.size(); ++s) {
      if (last[s].worth > last[at].worth) at = s;
    }
    std::vector<LoaderGrant> grants(demands_.size());
    for (std::size_t i = order_.size(); i-- > 0;) {
      const State& state = stages_[i + 1][at];
      grants[order_[i]] = state.grant;
      at = state.before;
    }
    return grants;
  }

  const LoaderSupply& supply_;
  std::span<const LoaderDemand> demands_;
  std::vector<std::size_t> order_;
  bool reads_;
  double reached_;
  Bound bound_;
  std::vector<std::int64_t> cores_kept_;  // for the jobs after one
  std::vector<Bandwidth> read_kept_;      // likewise, at their least
  std::vector<double> worth_kept_;        // likewise, what they can be worth after what they pay
  std::vector<std::vector<State>> stages_;
  std::vector<std::vector<State>> buckets_;  // of the stage that is made, by cores
  std::size_t compared_ = 0;
};

}  // namespace

Expected<std::vector<LoaderGrant>> exact_shares(const LoaderSupply& supply, std::span<const LoaderDemand> demands) {
  return ExactShares(supply, demands).solve();
}

}  // namespace ddlsim::cost
