#include "ddlsim/cost/loader_shares.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "loader_shares.h"

namespace ddlsim::cost {
namespace {

constexpr int kBisections = 40;

DataSize memory_of_gpus(const LoaderSupply& supply, const LoaderDemand& demand) {
  return supply.memory * (static_cast<double>(demand.gpus) / static_cast<double>(supply.gpus));
}

/// The best option with no more than this.
const LoaderOption* best_within(const LoaderDemand& demand, std::int64_t cores, DataSize memory) {
  const LoaderOption* best = nullptr;
  for (const LoaderOption& option : demand.options) {
    if (option.cores > cores) break;
    if (option.memory > memory * kShareSlack) continue;
    if (best == nullptr || best->rate < option.rate) best = &option;
  }
  return best;
}

LoaderGrant granted(const LoaderDemand& demand, std::int64_t cores, DataSize memory, Bandwidth storage) {
  LoaderGrant grant{.cores = cores, .memory = memory};
  if (const LoaderOption* option = best_within(demand, cores, memory)) grant.rate = option->rate;
  if (demand.read > DataSize::zero()) grant.rate = min(grant.rate, storage / demand.read);
  grant.storage = demand.read * grant.rate;
  return grant;
}

std::vector<LoaderGrant> even_shares(const LoaderSupply& supply, std::span<const LoaderDemand> demands) {
  const auto jobs = static_cast<std::int64_t>(demands.size());
  const auto count = static_cast<double>(jobs);
  std::vector<LoaderGrant> grants;
  for (std::int64_t i = 0; i < jobs; ++i) {
    const LoaderDemand& demand = demands[static_cast<std::size_t>(i)];
    const std::int64_t cores = supply.cores / jobs + (i < supply.cores % jobs ? 1 : 0);
    grants.push_back(granted(demand, cores, memory_of_gpus(supply, demand), supply.storage / count));
  }
  return grants;
}

/// A-Dloader's climb: every job's curve over cores alone, and where it stands on it.
class Climb {
 public:
  Climb(const LoaderSupply& supply, std::span<const LoaderDemand> demands) : supply_(supply), demands_(demands) {
    for (const LoaderDemand& demand : demands) {
      const DataSize memory = memory_of_gpus(supply, demand);
      std::vector<LoaderOption>& curve = curves_.emplace_back();
      for (LoaderOption option : demand.options) {
        if (option.memory > memory * kShareSlack) continue;
        option.memory = memory;
        if (curve.empty() || curve.back().rate < option.rate) curve.push_back(option);
      }
    }
  }

  /// By job, where on its curve.
  using Place = std::vector<std::size_t>;

  /// Where bytes from storage cost `price` each.
  Place at(double price) {
    const std::size_t jobs = demands_.size();
    Ascent ascent{Place(jobs), supply_.cores, price};
    std::vector<Jump> jumps(jobs);
    for (std::size_t j = 0; j < jobs; ++j) {
      ascent.place[j] = lowest(j);
      ascent.left -= curves_[j][ascent.place[j]].cores;
    }
    for (std::size_t j = 0; j < jobs; ++j) jumps[j] = best_jump(ascent, j);
    for (;;) {
      std::size_t best = jobs;
      for (std::size_t j = 0; j < jobs; ++j) {
        if (jumps[j].cores > ascent.left) jumps[j] = best_jump(ascent, j);
        if (jumps[j].slope > 0 && (best == jobs || before(ascent, jumps, j, best))) best = j;
      }
      if (best == jobs) return ascent.place;
      ascent.left -= jumps[best].cores;
      ascent.place[best] = jumps[best].to;
      jumps[best] = best_jump(ascent, best);
    }
  }

  /// Hands a few steps from one job to another, or to one from what is left, as long as that gains.
  void trade(Place& place) const {
    constexpr std::size_t kSteps = 3;
    double worth = worth_at(place);
    const auto gains = [&](const Place& other) {
      if (cores_of(other) > supply_.cores) return false;
      const double there = worth_at(other);
      if (there <= worth * kShareSlack) return false;
      worth = there;
      place = other;
      return true;
    };
    for (bool gained = true; gained;) {
      gained = false;
      for (std::size_t to = 0; to < place.size(); ++to) {
        for (std::size_t from = 0; from < place.size(); ++from) {
          for (std::size_t steps = 0; steps < kSteps * kSteps; ++steps) {
            const std::size_t down = from == to ? 0 : steps / kSteps + 1;
            Place other = place;
            other[to] += steps % kSteps + 1;
            if (other[from] < lowest(from) + down || other[to] >= curves_[to].size()) continue;
            other[from] -= down;
            gained = gains(other) || gained;
          }
        }
      }
    }
  }

  [[nodiscard]] double worth_at(const Place& place) const { return worth_of(demands_, filled(place)); }

  /// The fractional knapsack of the storage.
  [[nodiscard]] std::vector<LoaderGrant> filled(const Place& place) const {
    std::vector<LoaderGrant> grants;
    Bandwidth left = supply_.storage;
    for (std::size_t j = 0; j < demands_.size(); ++j) {
      const LoaderOption& option = curves_[j][place[j]];
      const Rate least = min(demands_[j].least, option.rate);
      grants.push_back({option.cores, option.memory, demands_[j].read * least, least});
      left -= grants.back().storage;
    }
    for (const std::size_t j : by_worth_of_bytes(demands_)) {
      const Rate reached = curves_[j][place[j]].rate;
      const DataSize read = demands_[j].read;
      LoaderGrant& grant = grants[j];
      const Rate before = grant.rate;
      grant.rate = reached;
      if (read > DataSize::zero() && supply_.storage < Bandwidth::infinity()) {
        grant.rate = min(reached, before + max(left, Bandwidth{}) / read);
        left -= read * (grant.rate - before);
      }
      grant.storage = read * grant.rate;
    }
    return grants;
  }

  /// The dearest that a byte can be to anybody.
  [[nodiscard]] double highest_price() const {
    double highest = 0;
    for (const LoaderDemand& demand : demands_) {
      if (demand.read > DataSize::zero()) highest = std::max(highest, worth_of_byte(demand));
    }
    return highest;
  }

  static double worth_of_byte(const LoaderDemand& demand) {
    return 1 / (demand.unit.in(per_second)*demand.read.in(bytes));
  }

 private:
  struct Jump {
    double slope = 0;
    std::size_t to = 0;
    std::int64_t cores = 0;
  };

  struct Ascent {
    Place place;
    std::int64_t left = 0;  // cores
    double price = 0;
  };

  /// Who gains more for a core is served first, and of those alike who has fewer.
  [[nodiscard]] bool before(const Ascent& ascent, const std::vector<Jump>& jumps, std::size_t a, std::size_t b) const {
    if (jumps[a].slope != jumps[b].slope) return jumps[a].slope > jumps[b].slope;
    return curves_[a][ascent.place[a]].cores < curves_[b][ascent.place[b]].cores;
  }

  [[nodiscard]] Jump best_jump(const Ascent& ascent, std::size_t job) const {
    const LoaderDemand& demand = demands_[job];
    const double worth = 1 / demand.unit.in(per_second)-ascent.price * demand.read.in(bytes);
    const std::vector<LoaderOption>& curve = curves_[job];
    const std::size_t from = ascent.place[job];
    Jump best;
    for (std::size_t to = from + 1; to < curve.size(); ++to) {
      const std::int64_t cores = curve[to].cores - curve[from].cores;
      if (cores > ascent.left) break;
      const double slope = worth * (curve[to].rate - curve[from].rate).in(per_second) / static_cast<double>(cores);
      if (slope > best.slope) best = {slope, to, cores};
    }
    return best;
  }

  /// The fewest cores with which a job has its least.
  [[nodiscard]] std::size_t lowest(std::size_t job) const {
    const std::vector<LoaderOption>& curve = curves_[job];
    std::size_t at = 0;
    while (at + 1 < curve.size() && curve[at].rate < demands_[job].least) ++at;
    return at;
  }

  [[nodiscard]] std::int64_t cores_of(const Place& place) const {
    std::int64_t cores = 0;
    for (std::size_t j = 0; j < place.size(); ++j) cores += curves_[j][place[j]].cores;
    return cores;
  }

  const LoaderSupply& supply_;
  std::span<const LoaderDemand> demands_;
  std::vector<std::vector<LoaderOption>> curves_;
};

}  // namespace

std::vector<LoaderGrant> marginal_shares(const LoaderSupply& supply, std::span<const LoaderDemand> demands) {
  Climb climb(supply, demands);
  Climb::Place best = climb.at(0);
  if (!storage_binds(supply, demands)) return climb.filled(best);
  double low = 0;
  double high = climb.highest_price();
  Climb::Place cheap = best;
  Climb::Place dear = climb.at(high);
  auto better = [&, most = climb.worth_at(best)](const Climb::Place& place) mutable {
    const double worth = climb.worth_at(place);
    if (worth <= most) return;
    most = worth;
    best = place;
  };
  for (int i = 0; i < kBisections; ++i) {
    const double price = (low + high) / 2;
    Climb::Place place = climb.at(price);
    Bandwidth read;
    for (const LoaderGrant& grant : climb.filled(place)) read += grant.storage;
    better(place);
    if (read * kShareSlack < supply.storage) {
      high = price;
      dear = std::move(place);
    } else {
      low = price;
      cheap = std::move(place);
    }
  }
  for (Climb::Place place : {best, cheap, dear}) {
    climb.trade(place);
    better(place);
  }
  return climb.filled(best);
}

std::vector<LoaderOption> useful_options(std::vector<LoaderOption> options) {
  std::sort(options.begin(), options.end(), [](const LoaderOption& a, const LoaderOption& b) {
    if (a.cores != b.cores) return a.cores < b.cores;
    return a.memory != b.memory ? a.memory < b.memory : a.rate > b.rate;
  });
  std::vector<LoaderOption> useful;
  for (const LoaderOption& option : options) {
    const bool beaten = std::any_of(useful.begin(), useful.end(), [&](const LoaderOption& other) {
      return other.cores <= option.cores && other.memory <= option.memory && other.rate >= option.rate;
    });
    if (!beaten) useful.push_back(option);
  }
  return useful;
}

std::vector<std::size_t> by_worth_of_bytes(std::span<const LoaderDemand> demands) {
  std::vector<std::size_t> order(demands.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto worth = [&](std::size_t j) {
    const LoaderDemand& demand = demands[j];
    return demand.read > DataSize::zero() ? Climb::worth_of_byte(demand) : std::numeric_limits<double>::infinity();
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return worth(a) > worth(b); });
  return order;
}

bool storage_binds(const LoaderSupply& supply, std::span<const LoaderDemand> demands) {
  Bandwidth wanted;
  for (const LoaderDemand& demand : demands) {
    Rate most;
    for (const LoaderOption& option : demand.options) most = max(most, option.rate);
    wanted += demand.read * most;
  }
  return wanted > supply.storage * kShareSlack;
}

LoaderGrant fair_share(const LoaderSupply& supply, const LoaderDemand& demand) {
  const double share = static_cast<double>(demand.gpus) / static_cast<double>(supply.gpus);
  const std::int64_t cores = std::max<std::int64_t>(supply.cores * demand.gpus / supply.gpus, 1);
  return granted(demand, cores, memory_of_gpus(supply, demand), supply.storage * share);
}

double worth_of(std::span<const LoaderDemand> demands, std::span<const LoaderGrant> grants) {
  double worth = 0;
  for (std::size_t j = 0; j < demands.size(); ++j) worth += grants[j].rate / demands[j].unit;
  return worth;
}

namespace {

/// Even shares where they are worth as much as the best with no more cores: what gains nothing is left out, such as
/// serving one of two alike jobs before the other.
std::vector<LoaderGrant> even_if_as_good(const LoaderSupply& supply, std::span<const LoaderDemand> demands,
                                         std::vector<LoaderGrant> best) {
  std::vector<LoaderGrant> even = even_shares(supply, demands);
  std::int64_t more = 0;  // cores
  for (std::size_t j = 0; j < demands.size(); ++j) {
    if (even[j].rate < demands[j].least) return best;
    more += even[j].cores - best[j].cores;
  }
  if (more > 0) return best;
  return worth_of(demands, even) * kShareSlack >= worth_of(demands, best) ? even : best;
}

}  // namespace

Expected<std::vector<LoaderGrant>> share_loaders(SharePolicy policy, const LoaderSupply& supply,
                                                 std::span<const LoaderDemand> demands) {
  switch (policy) {
    case SharePolicy::kEven: return even_shares(supply, demands);
    case SharePolicy::kGpuProportional: {
      std::vector<LoaderGrant> grants;
      for (const LoaderDemand& demand : demands) grants.push_back(fair_share(supply, demand));
      return grants;
    }
    case SharePolicy::kADloader: return even_if_as_good(supply, demands, marginal_shares(supply, demands));
    case SharePolicy::kOptimal:
      return exact_shares(supply, demands).map([&](std::vector<LoaderGrant> best) {
        return even_if_as_good(supply, demands, std::move(best));
      });
  }
  return std::vector<LoaderGrant>(demands.size());
}

}  // namespace ddlsim::cost
