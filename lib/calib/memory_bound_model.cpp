#include <algorithm>
#include <cmath>

#include "ddlsim/calib/robust.h"
#include "memory_bound_model.h"

namespace ddlsim::calib {
namespace {

constexpr double kLeastSlope = 0.2;  // NVIDIA A100 white paper: the L2 moves up to 4.6 times what the memory does
constexpr double kNearFloor = 1.15;
constexpr int kMostPartings = 30;
constexpr double kFairPart = 0.3;  // of a measurement, for a kernel to have a say in its length's factor
constexpr int kTurns = 3;          // between factors and slopes

/// Bytes between a knot and the next, in seconds at the datasheet's bandwidth.
double between(const MemoryBoundSystem& system, const MemoryBoundPoint& point, std::size_t knot) {
  const double l2 = system.spec.l2.in(bytes);
  double within = point.traffic - system.knots[knot] * l2;
  if (knot + 1 < system.knots.size()) within = std::min(within, (system.knots[knot + 1] - system.knots[knot]) * l2);
  return std::max(0.0, within) / system.spec.memory.in(bytes_per_second);
}

std::size_t length_of(const MemoryBoundSystem& system, const MemoryBoundPoint& point) {
  const auto above = std::upper_bound(system.lengths.begin(), system.lengths.end(), point.row);
  return static_cast<std::size_t>(above - system.lengths.begin());
}

/// What a kernel moves takes, its length's factor apart.
double moving(const MemoryBoundSystem& system, const MemoryBoundModel& model, const MemoryBoundPoint& point) {
  double time = 0;
  for (std::size_t i = 0; i < system.knots.size(); ++i) time += model.slopes[i] * between(system, point, i);
  return time;
}

std::vector<double> low_quantiles(const MemoryBoundSystem& system, std::span<const MemoryBoundPoint> points) {
  std::vector<std::vector<double>> times(system.series);
  for (const MemoryBoundPoint& point : points) times[point.series].push_back(point.time);
  std::vector<double> floors;
  for (std::vector<double>& series : times) {
    std::sort(series.begin(), series.end());
    floors.push_back(series.empty() ? 0.0 : series[(series.size() - 1) / 20]);
  }
  return floors;
}

/// Slopes, time_per_row and overheads by the rows above the floor, factors given.
void fit_slopes(const MemoryBoundSystem& system, std::span<const MemoryBoundPoint> points,
                const std::vector<bool>& at_floor, MemoryBoundModel& model) {
  LeastSquares equations;
  const std::size_t first_series = system.knots.size() + (system.time_per_row ? 1 : 0);
  equations.columns = first_series + system.series;
  std::vector<double> measured;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (at_floor[i]) continue;
    const MemoryBoundPoint& point = points[i];
    const double factor = model.factors[length_of(system, point)];
    // The first column is all bytes, the others what a byte takes more: what the L2 holds never takes longer than the
    // rest.
    const double all = factor * point.traffic / system.spec.memory.in(bytes_per_second);
    equations.a.push_back(all);
    for (std::size_t knot = 1; knot < system.knots.size(); ++knot) {
      equations.a.push_back(factor * between(system, point, knot));
    }
    if (system.time_per_row) equations.a.push_back(point.rows / system.spec.multiprocessors);
    for (std::size_t s = 0; s < system.series; ++s) equations.a.push_back(s == point.series ? 1.0 : 0.0);
    equations.b.push_back(point.time - kLeastSlope * all);
    measured.push_back(point.time);
  }
  RobustFit fit = fit_relative(equations, measured, 6);
  const auto knots = static_cast<std::ptrdiff_t>(system.knots.size());
  model.slopes.assign(fit.x.begin(), fit.x.begin() + knots);
  model.slopes.front() += kLeastSlope;
  for (std::size_t i = 1; i < model.slopes.size(); ++i) model.slopes[i] += model.slopes.front();
  model.time_per_row = system.time_per_row ? fit.x[system.knots.size()] : 0.0;
  model.overheads.assign(fit.x.begin() + static_cast<std::ptrdiff_t>(first_series), fit.x.end());
  model.errors = std::move(fit.standard_errors);
}

/// Each length's factor: the median over rows of which the kernel is a fair part.
void fit_factors(const MemoryBoundSystem& system, std::span<const MemoryBoundPoint> points,
                 const std::vector<bool>& at_floor, MemoryBoundModel& model) {
  std::vector<std::vector<double>> ratios(model.factors.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    const MemoryBoundPoint& point = points[i];
    const double moved = moving(system, model, point);
    if (at_floor[i] || moved < kFairPart * point.time) continue;
    const double rest = model.overheads[point.series] + model.time_per_row * point.rows / system.spec.multiprocessors;
    if (point.time > rest) ratios[length_of(system, point)].push_back((point.time - rest) / moved);
  }
  if (ratios.front().empty()) return;
  const double first = median(std::move(ratios.front()));
  for (std::size_t i = 1; i < ratios.size(); ++i) {
    if (!ratios[i].empty()) model.factors[i] = median(std::move(ratios[i])) / first;
  }
}

void fit_above(const MemoryBoundSystem& system, std::span<const MemoryBoundPoint> points,
               const std::vector<bool>& at_floor, MemoryBoundModel& model) {
  fit_slopes(system, points, at_floor, model);
  for (int turn = 0; turn < kTurns && !system.lengths.empty(); ++turn) {
    fit_factors(system, points, at_floor, model);
    fit_slopes(system, points, at_floor, model);
  }
}

}  // namespace

MemoryBoundSystem MemoryBoundSystem::without(std::size_t knot) const {
  MemoryBoundSystem simpler = *this;
  simpler.knots.erase(simpler.knots.begin() + static_cast<std::ptrdiff_t>(knot));
  return simpler;
}

MemoryBoundSystem MemoryBoundSystem::with(std::int64_t length) const {
  MemoryBoundSystem richer = *this;
  richer.lengths.insert(std::lower_bound(richer.lengths.begin(), richer.lengths.end(), length), length);
  return richer;
}

MemoryBoundSystem MemoryBoundSystem::simplest() const {
  MemoryBoundSystem simple = *this;
  simple.knots = {0};
  simple.lengths.clear();
  simple.time_per_row = false;
  return simple;
}

double MemoryBoundModel::kernel(const MemoryBoundSystem& system, const MemoryBoundPoint& point) const {
  return moving(system, *this, point) * factors[length_of(system, point)] +
         time_per_row * point.rows / system.spec.multiprocessors;
}

double MemoryBoundModel::measured(const MemoryBoundSystem& system, const MemoryBoundPoint& point) const {
  return std::max(floors[point.series], overheads[point.series] + kernel(system, point));
}

MemoryBoundModel fit_model(const MemoryBoundSystem& system, std::span<const MemoryBoundPoint> points) {
  MemoryBoundModel model;
  model.floors = low_quantiles(system, points);
  model.factors.assign(system.lengths.size() + 1, 1.0);
  std::vector<bool> at_floor;
  for (const MemoryBoundPoint& point : points) at_floor.push_back(point.time < kNearFloor * model.floors[point.series]);
  for (int parting = 0; parting < kMostPartings; ++parting) {
    fit_above(system, points, at_floor, model);
    std::vector<std::vector<double>> below(system.series);
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (at_floor[i]) below[points[i].series].push_back(points[i].time);
    }
    for (std::size_t s = 0; s < system.series; ++s) {
      model.floors[s] = below[s].empty() ? std::min(model.floors[s], model.overheads[s]) : median(std::move(below[s]));
    }
    std::vector<bool> renewed;
    for (const MemoryBoundPoint& point : points) {
      renewed.push_back(model.overheads[point.series] + model.kernel(system, point) < model.floors[point.series]);
    }
    if (renewed == at_floor) break;
    at_floor = std::move(renewed);
  }
  return model;
}

}  // namespace ddlsim::calib
