#include "nvlink_rings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

namespace ddlsim::hardware {
namespace {

/// More GPUs than this take the first ring that is found.
constexpr std::size_t kMostExact = 8;
/// Ways round: 7!/2 of eight GPUs, and some more through third GPUs.
constexpr std::size_t kMostWays = 5040;
/// Steps of the search for one ring of many GPUs; the boards that exist need a few hundred.
constexpr int kSearchSteps = 20'000;

/// Pairs a way round crosses, each as often as it does.
using Way = std::vector<std::size_t>;

class Ways {
 public:
  Ways(const LinkMatrix& links, bool through_others) : links_(links), through_others_(through_others) {
    taken_.assign(links.size(), false);
    taken_[0] = true;
    order_.push_back(0);
    extend();
  }

  [[nodiscard]] std::vector<Way> take() { return std::move(ways_); }
  [[nodiscard]] static std::size_t pair(std::array<std::size_t, 2> gpus, std::size_t n) {
    return std::min(gpus[0], gpus[1]) * n + std::max(gpus[0], gpus[1]);
  }

 private:
  void extend() {
    const std::size_t n = links_.size();
    if (order_.size() == n) {
      // Each way once, not once per direction.
      if (n < 3 || order_[1] < order_.back()) hop(0, [&] { ways_.push_back(crossed_); });
      return;
    }
    for (std::size_t next = 1; next < n; ++next) {
      if (taken_[next]) continue;
      hop(next, [&] {
        taken_[next] = true;
        order_.push_back(next);
        extend();
        order_.pop_back();
        taken_[next] = false;
      });
    }
  }

  /// Goes on with each way to make the hop from the last GPU to `to`.
  template <typename Then>
  void hop(std::size_t to, Then then) {
    const std::size_t n = links_.size();
    const std::size_t from = order_.back();
    if (ways_.size() >= kMostWays) return;
    if (links_[from][to] > 0) {
      crossed_.push_back(pair({from, to}, n));
      then();
      crossed_.pop_back();
      return;
    }
    if (!through_others_) return;
    for (std::size_t middle = 0; middle < n; ++middle) {
      if (!(links_[from][middle] > 0 && links_[middle][to] > 0)) continue;
      crossed_.push_back(pair({from, middle}, n));
      crossed_.push_back(pair({middle, to}, n));
      then();
      crossed_.resize(crossed_.size() - 2);
    }
  }

  const LinkMatrix& links_;
  bool through_others_;
  std::vector<bool> taken_;
  std::vector<std::size_t> order_;
  Way crossed_;
  std::vector<Way> ways_;
};

/// max sum y, A y <= b, y >= 0 with A's columns the ways: the revised simplex method from y = 0, the entering column
/// the one that gains most, and Bland's rule once that may turn in circles (Chvatal, Linear Programming, 1983).
class Packing {
 public:
  Packing(std::vector<Way> ways, const LinkMatrix& links) : ways_(std::move(ways)) {
    const std::size_t n = links.size();
    std::vector<std::size_t> row(n * n, 0);
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = a + 1; b < n; ++b) {
        if (!(links[a][b] > 0)) continue;
        row[Ways::pair({a, b}, n)] = left_.size();
        left_.push_back(links[a][b]);
      }
    }
    for (Way& way : ways_) {
      for (std::size_t& pair : way) pair = row[pair];
    }
    const std::size_t m = left_.size();
    basis_.assign(m, kSlack);
    inverse_.assign(m, std::vector<double>(m, 0.0));
    for (std::size_t i = 0; i < m; ++i) inverse_[i][i] = 1.0;
  }

  [[nodiscard]] double most() {
    constexpr int kGreedy = 300;
    constexpr int kMostSteps = 3000;  // what is reached then is feasible, if not the most
    for (int step = 0; step < kMostSteps; ++step) {
      const std::size_t entering = choose(step >= kGreedy);
      if (entering == kNothing || !pivot(entering)) break;
    }
    double sum = 0;
    for (std::size_t i = 0; i < basis_.size(); ++i) {
      if (basis_[i] >= 0) sum += left_[i];
    }
    return sum;
  }

 private:
  static constexpr std::int64_t kSlack = -1;
  static constexpr double kZero = 1e-9;
  static constexpr std::size_t kNothing = std::numeric_limits<std::size_t>::max();

  /// A column: a way, or after those the slack of a row.
  [[nodiscard]] std::size_t choose(bool first) const {
    const std::size_t m = basis_.size();
    std::vector<double> price(m, 0.0);
    for (std::size_t i = 0; i < m; ++i) {
      if (basis_[i] < 0) continue;
      for (std::size_t k = 0; k < m; ++k) price[k] += inverse_[i][k];
    }
    std::size_t best = kNothing;
    double most = kZero;
    const auto consider = [&](std::size_t column, double gain) {
      if (gain <= most || (first && best != kNothing)) return;
      best = column;
      most = gain;
    };
    for (std::size_t j = 0; j < ways_.size(); ++j) {
      double gain = 1.0;
      for (const std::size_t row : ways_[j]) gain -= price[row];
      consider(j, gain);
    }
    for (std::size_t k = 0; k < m; ++k) consider(ways_.size() + k, -price[k]);
    return best;
  }

  /// False where the column could grow without end, which links forbid.
  bool pivot(std::size_t entering) {
    const std::size_t m = basis_.size();
    std::vector<double> column(m, 0.0);
    for (std::size_t i = 0; i < m; ++i) {
      if (entering >= ways_.size()) {
        column[i] = inverse_[i][entering - ways_.size()];
      } else {
        for (const std::size_t row : ways_[entering]) column[i] += inverse_[i][row];
      }
    }
    std::size_t leaving = kNothing;
    double ratio = 0;
    for (std::size_t i = 0; i < m; ++i) {
      if (column[i] <= kZero) continue;
      const double this_ratio = left_[i] / column[i];
      const bool smaller = leaving == kNothing || this_ratio < ratio - kZero;
      if (!smaller && (this_ratio > ratio + kZero || basis_[i] >= basis_[leaving])) continue;
      leaving = i;
      ratio = this_ratio;
    }
    if (leaving == kNothing) return false;
    const double by = column[leaving];
    for (double& entry : inverse_[leaving]) entry /= by;
    left_[leaving] /= by;
    for (std::size_t i = 0; i < m; ++i) {
      if (i == leaving || column[i] == 0.0) continue;
      for (std::size_t k = 0; k < m; ++k) inverse_[i][k] -= column[i] * inverse_[leaving][k];
      left_[i] = std::max(0.0, left_[i] - column[i] * left_[leaving]);
    }
    const bool slack = entering >= ways_.size();
    basis_[leaving] =
        slack ? kSlack - static_cast<std::int64_t>(entering - ways_.size()) : static_cast<std::int64_t>(entering);
    return true;
  }

  std::vector<Way> ways_;
  std::vector<double> left_;                  // b, then the basic variables
  std::vector<std::int64_t> basis_;           // of each row: a way, or below zero a slack
  std::vector<std::vector<double>> inverse_;  // of the basis
};

/// Shares of links have small denominators; what arithmetic adds to them goes.
double tidy(double rings) {
  constexpr double kDenominators = 840;  // 1 to 8 divide it
  const double whole = std::round(rings * kDenominators);
  return std::abs(rings * kDenominators - whole) < 1e-9 * std::max(1.0, whole) ? whole / kDenominators : rings;
}

/// One ring of direct hops among many GPUs, by depth first search: twice its narrowest pair.
double one_ring(const LinkMatrix& links) {
  const std::size_t n = links.size();
  std::vector<std::size_t> order{0};
  std::vector<bool> taken(n, false);
  taken[0] = true;
  std::size_t next = 1;
  for (int step = 0; step < kSearchSteps; ++step) {
    while (next < n && (taken[next] || !(links[order.back()][next] > 0))) ++next;
    if (next < n) {
      taken[next] = true;
      order.push_back(next);
      next = 1;
      if (order.size() < n || !(links[order.back()][0] > 0)) continue;
      double narrowest = std::numeric_limits<double>::infinity();
      for (std::size_t i = 0; i < n; ++i) narrowest = std::min(narrowest, links[order[i]][order[(i + 1) % n]]);
      return 2.0 * narrowest;
    }
    if (order.size() == 1) return 0;
    next = order.back() + 1;
    taken[order.back()] = false;
    order.pop_back();
  }
  return 0;
}

}  // namespace

NvlinkRings nvlink_rings(const LinkMatrix& links) {
  if (links.size() < 2) return {};
  if (links.size() > kMostExact) return {one_ring(links), true};
  for (const bool through_others : {false, true}) {
    auto ways = Ways(links, through_others).take();
    if (!ways.empty()) return {tidy(2.0 * Packing(std::move(ways), links).most()), !through_others};
  }
  return {};
}

}  // namespace ddlsim::hardware
