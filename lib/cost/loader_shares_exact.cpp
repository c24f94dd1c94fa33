#include <algorithm>
#include <cstddef>
#include <utility>

#include "loader_shares.h"

namespace ddlsim::cost {
namespace {

constexpr std::size_t kMostStates = 1'000'000;

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

/// One stage for each job, jobs in the order in which the storage is filled.
class ExactShares {
 public:
  ExactShares(const LoaderSupply& supply, std::span<const LoaderDemand> demands)
      : supply_(supply),
        demands_(demands),
        order_(by_worth_of_bytes(demands)),
        reads_(storage_binds(supply, demands)),
        cores_kept_(demands.size()),
        read_kept_(demands.size()) {
    for (std::size_t i = order_.size(); i-- > 1;) {
      cores_kept_[i - 1] = cores_kept_[i] + 1;
      read_kept_[i - 1] = read_kept_[i] + read_of(order_[i]) * demands_[order_[i]].least;
    }
  }

  Expected<std::vector<LoaderGrant>> solve() {
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
    kept_ = 0;
    const std::vector<State>& before = stages_.back();
    for (std::size_t s = 0; s < before.size(); ++s) {
      for (const LoaderOption& option : demands_[order_[at]].options) {
        if (before[s].cores + option.cores + cores_kept_[at] > supply_.cores) break;
        take(before[s], s, at, option);
        if (kept_ > kMostStates) return false;
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
    keep(state);
  }

  void keep(const State& state) {
    std::vector<State>& bucket = buckets_[static_cast<std::size_t>(state.cores)];
    if (std::any_of(bucket.begin(), bucket.end(), [&](const State& other) { return beats(other, state); })) return;
    const auto beaten =
        std::remove_if(bucket.begin(), bucket.end(), [&](const State& other) { return beats(state, other); });
    kept_ -= static_cast<std::size_t>(bucket.end() - beaten);
    bucket.erase(beaten, bucket.end());
    bucket.push_back(state);
    ++kept_;
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
  std::vector<std::int64_t> cores_kept_;  // for the jobs after one
  std::vector<Bandwidth> read_kept_;      // likewise, at their least
  std::vector<std::vector<State>> stages_;
  std::vector<std::vector<State>> buckets_;  // of the stage that is made, by cores
  std::size_t kept_ = 0;
};

}  // namespace

Expected<std::vector<LoaderGrant>> exact_shares(const LoaderSupply& supply, std::span<const LoaderDemand> demands) {
  return ExactShares(supply, demands).solve();
}

}  // namespace ddlsim::cost
