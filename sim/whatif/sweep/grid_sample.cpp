// Some points of a grid instead of all.
#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/grid.h"

namespace ddlsim::whatif {
namespace {

/// SplitMix64 (Steele, Lea, Flood 2014): the same numbers on every machine.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }
  /// From 0 to `below`, without bias.
  std::int64_t below(std::int64_t below) {
    const auto n = static_cast<std::uint64_t>(below);
    const std::uint64_t unfair = (0 - n) % n;  // 2^64 mod n
    for (;;) {
      const std::uint64_t drawn = next();
      if (drawn >= unfair) return static_cast<std::int64_t>(drawn % n);
    }
  }

 private:
  std::uint64_t state_;
};

}  // namespace

Expected<void> Grid::draw() {
  if (!parts_.sample) return {};
  const std::int64_t points = parts_.sample->points;
  if (points < 1 || points > kMaxSample) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("a sample of {} points", points), {},
                {fmt::format("from 1 to {}", to_text(kMaxSample))});
  }
  auto drawn = parts_.sample->by == SampleBy::kLatinHypercube ? draw_hypercube() : draw_at_random();
  std::sort(drawn_.begin(), drawn_.end());
  return drawn;
}

Expected<void> Grid::draw_at_random() {
  constexpr std::int64_t kDense = 4;  // from every fourth point on the grid is gone through instead
  const std::int64_t points = parts_.sample->points;
  Draw draw(parts_.sample->seed);
  std::vector<std::size_t> digits;
  const auto legal = [&](std::int64_t number) {
    if (conditions_.empty()) return true;
    split(number, digits);
    return holds(digits);
  };
  const auto too_few = [&](std::int64_t found) {
    return fail(ErrorCode::kInfeasible,
                fmt::format("a sample of {} points: the grid has {}", to_text(points), to_text(found)), {},
                {"draw fewer, or leave the sample out"});
  };
  if (product_ / kDense <= points) {
    for (std::int64_t number = 0; number < product_; ++number) {
      if (legal(number)) drawn_.push_back(number);
    }
    const auto found = static_cast<std::int64_t>(drawn_.size());
    if (found < points) return too_few(found);
    // The first `points` of a Fisher-Yates shuffle.
    for (std::int64_t i = 0; i < points; ++i) {
      std::swap(drawn_[static_cast<std::size_t>(i)], drawn_[static_cast<std::size_t>(i + draw.below(found - i))]);
    }
    drawn_.resize(static_cast<std::size_t>(points));
    return {};
  }
  std::unordered_set<std::int64_t> taken;
  const std::int64_t most = 1000 + 200 * points;
  for (std::int64_t attempt = 0; static_cast<std::int64_t>(drawn_.size()) < points; ++attempt) {
    if (attempt == most) {
      return fail(ErrorCode::kInfeasible,
                  fmt::format("a sample of {} points: of {} that were drawn, the conditions leave {}", to_text(points),
                              to_text(most), drawn_.size()),
                  {}, {"draw fewer, or state axes on which more points are left"});
    }
    const std::int64_t number = draw.below(product_);
    if (legal(number) && taken.insert(number).second) drawn_.push_back(number);
  }
  return {};
}

/// Point j has, of the N equal parts of every axis, the one that a permutation of its own says. What conditions leave
/// out is not drawn again, and of alike points one stays: there may be fewer than N.
Expected<void> Grid::draw_hypercube() {
  const auto points = static_cast<std::size_t>(parts_.sample->points);
  Draw draw(parts_.sample->seed);
  std::vector<std::vector<std::size_t>> digits(parts_.axes.size(), std::vector<std::size_t>(points));
  std::vector<std::size_t> order(points);
  for (std::size_t axis = 0; axis < digits.size(); ++axis) {
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (std::size_t i = points; i > 1; --i) {
      std::swap(order[i - 1], order[static_cast<std::size_t>(draw.below(static_cast<std::int64_t>(i)))]);
    }
    const std::size_t steps = parts_.axes[axis].steps.size();
    for (std::size_t j = 0; j < points; ++j) digits[axis][j] = order[j] * steps / points;
  }
  std::vector<std::size_t> one(digits.size());
  for (std::size_t j = 0; j < points; ++j) {
    std::int64_t number = 0;
    for (std::size_t axis = 0; axis < digits.size(); ++axis) {
      one[axis] = digits[axis][j];
      number =
          number * static_cast<std::int64_t>(parts_.axes[axis].steps.size()) + static_cast<std::int64_t>(one[axis]);
    }
    if (holds(one)) drawn_.push_back(number);
  }
  std::sort(drawn_.begin(), drawn_.end());
  drawn_.erase(std::unique(drawn_.begin(), drawn_.end()), drawn_.end());
  if (drawn_.empty()) return fail(ErrorCode::kInfeasible, "the conditions leave no point of the sample");
  return {};
}

}  // namespace ddlsim::whatif
