#include <algorithm>
#include <cmath>

#include "ddlsim/calib/robust.h"
#include "sweep_model.h"

namespace ddlsim::calib {
namespace {

constexpr double kLeastSlope = 0.2;  // NVIDIA A100 white paper: the L2 moves up to 4.6 times what the memory does
constexpr double kNearFloor = 1.15;
constexpr int kMostPartings = 30;

/// Bytes beyond a knot, in seconds at the datasheet's bandwidth.
double beyond(const SweepSystem& system, const SweepPoint& point, double knot) {
  const double excess = point.traffic - knot * system.spec.l2.in(bytes);
  return std::max(0.0, excess) / system.spec.memory.in(bytes_per_second);
}

std::vector<double> low_quantiles(const SweepSystem& system, std::span<const SweepPoint> points) {
  std::vector<std::vector<double>> times(system.series);
  for (const SweepPoint& point : points) times[point.series].push_back(point.time);
  std::vector<double> floors;
  for (std::vector<double>& series : times) {
    std::sort(series.begin(), series.end());
    floors.push_back(series.empty() ? 0.0 : series[(series.size() - 1) / 20]);
  }
  return floors;
}

/// Slopes, per_row and overheads by the rows above the floor.
void fit_above(const SweepSystem& system, std::span<const SweepPoint> points, const std::vector<bool>& at_floor,
               SweepModel& model) {
  LeastSquares equations;
  const std::size_t first_series = system.knots.size() + (system.per_row ? 1 : 0);
  equations.columns = first_series + system.series;
  std::vector<double> measured;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (at_floor[i]) continue;
    const SweepPoint& point = points[i];
    for (const double knot : system.knots) equations.a.push_back(beyond(system, point, knot));
    if (system.per_row) equations.a.push_back(point.rows / system.spec.multiprocessors);
    for (std::size_t s = 0; s < system.series; ++s) equations.a.push_back(s == point.series ? 1.0 : 0.0);
    equations.b.push_back(point.time - kLeastSlope * beyond(system, point, 0));
    measured.push_back(point.time);
  }
  RobustFit fit = fit_relative(equations, measured, 6);
  fit.x.front() += kLeastSlope;
  const auto knots = static_cast<std::ptrdiff_t>(system.knots.size());
  model.slopes.assign(fit.x.begin(), fit.x.begin() + knots);
  model.per_row = system.per_row ? fit.x[system.knots.size()] : 0.0;
  model.overheads.assign(fit.x.begin() + static_cast<std::ptrdiff_t>(first_series), fit.x.end());
  model.errors = std::move(fit.standard_errors);
}

}  // namespace

SweepSystem SweepSystem::without(std::size_t knot) const {
  SweepSystem simpler = *this;
  simpler.knots.erase(simpler.knots.begin() + static_cast<std::ptrdiff_t>(knot));
  return simpler;
}

SweepSystem SweepSystem::simplest() const {
  SweepSystem simple = *this;
  simple.knots = {0};
  simple.per_row = false;
  return simple;
}

double SweepModel::kernel(const SweepSystem& system, const SweepPoint& point) const {
  double time = per_row * point.rows / system.spec.multiprocessors;
  for (std::size_t i = 0; i < system.knots.size(); ++i) time += slopes[i] * beyond(system, point, system.knots[i]);
  return time;
}

double SweepModel::measured(const SweepSystem& system, const SweepPoint& point) const {
  return std::max(floors[point.series], overheads[point.series] + kernel(system, point));
}

SweepModel fit_model(const SweepSystem& system, std::span<const SweepPoint> points) {
  SweepModel model;
  model.floors = low_quantiles(system, points);
  std::vector<bool> at_floor;
  for (const SweepPoint& point : points) at_floor.push_back(point.time < kNearFloor * model.floors[point.series]);
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
    for (const SweepPoint& point : points) {
      renewed.push_back(model.overheads[point.series] + model.kernel(system, point) < model.floors[point.series]);
    }
    if (renewed == at_floor) break;
    at_floor = std::move(renewed);
  }
  return model;
}

}  // namespace ddlsim::calib
