// Non-negative and robust least squares.
#include "ddlsim/calib/nnls.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "ddlsim/calib/robust.h"

namespace {

using namespace ddlsim::calib;

double residual(const LeastSquares& system, const std::vector<double>& x) {
  double sum = 0;
  for (std::size_t i = 0; i < system.rows(); ++i) {
    double row = -system.b[i];
    for (std::size_t j = 0; j < system.columns; ++j) row += system.a[i * system.columns + j] * x[j];
    sum += row * row;
  }
  return sum;
}

/// Least squares over some columns by Gauss' elimination on the normal equations; empty where they are singular.
std::vector<double> solve_columns(const LeastSquares& system, unsigned chosen) {
  std::vector<std::size_t> columns;
  for (std::size_t j = 0; j < system.columns; ++j) {
    if ((chosen >> j & 1U) != 0) columns.push_back(j);
  }
  const std::size_t n = columns.size();
  std::vector<std::vector<double>> m(n, std::vector<double>(n + 1, 0.0));
  for (std::size_t r = 0; r < n; ++r) {
    for (std::size_t i = 0; i < system.rows(); ++i) {
      const double left = system.a[i * system.columns + columns[r]];
      for (std::size_t c = 0; c < n; ++c) m[r][c] += left * system.a[i * system.columns + columns[c]];
      m[r][n] += left * system.b[i];
    }
  }
  for (std::size_t p = 0; p < n; ++p) {
    std::size_t best = p;
    for (std::size_t r = p; r < n; ++r) best = std::abs(m[r][p]) > std::abs(m[best][p]) ? r : best;
    std::swap(m[p], m[best]);
    if (std::abs(m[p][p]) < 1e-9) return {};
    for (std::size_t r = 0; r < n; ++r) {
      const double factor = r == p ? 0.0 : m[r][p] / m[p][p];
      for (std::size_t c = p; c <= n; ++c) m[r][c] -= factor * m[p][c];
    }
  }
  std::vector<double> x(system.columns, 0.0);
  for (std::size_t r = 0; r < n; ++r) x[columns[r]] = m[r][n] / m[r][r];
  return x;
}

/// The least residual over every set of columns whose solution is not negative.
double least_residual(const LeastSquares& system) {
  double least = residual(system, std::vector<double>(system.columns, 0.0));
  for (unsigned chosen = 1; chosen < 1U << system.columns; ++chosen) {
    const auto x = solve_columns(system, chosen);
    bool feasible = !x.empty();
    for (const double value : x) feasible = feasible && value >= -1e-12;
    if (feasible) least = std::min(least, residual(system, x));
  }
  return least;
}

}  // namespace

TEST_CASE("nnls: the header's example") {
  const auto x = nnls({2, {1, 0, 0, 1, 1, 1}, {2, -1, 1}});
  REQUIRE(x.size() == 2);
  CHECK(x[0] == Approx(1.5));
  CHECK(x[1] == 0.0);
}

TEST_CASE("nnls: as good as the best of all active sets") {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  int bounded = 0;
  for (int turn = 0; turn < 200; ++turn) {
    LeastSquares system;
    system.columns = 1 + static_cast<std::size_t>(turn) % 10;
    const std::size_t rows = 1 + static_cast<std::size_t>(turn) % 23;
    for (std::size_t i = 0; i < rows * system.columns; ++i) system.a.push_back(normal(random));
    for (std::size_t i = 0; i < rows; ++i) system.b.push_back(normal(random));
    const auto x = nnls(system);
    for (const double value : x) {
      CHECK(value >= 0.0);
      bounded += value == 0.0 ? 1 : 0;
    }
    CHECK(residual(system, x) <= least_residual(system) * (1 + 1e-9) + 1e-12);
  }
  CHECK(bounded > 100);  // the bound has mattered
}

TEST_CASE("nnls: units do not matter, and spanned or empty columns get nothing wrong") {
  const LeastSquares plain{2, {1, 3, 2, 5, 3, 11}, {7, 12, 25}};
  const LeastSquares scaled{2, {1e-9, 3e12, 2e-9, 5e12, 3e-9, 11e12}, {7, 12, 25}};
  const auto x = nnls(plain);
  const auto y = nnls(scaled);
  CHECK(y[0] * 1e-9 == Approx(x[0]).margin(1e-12));
  CHECK(y[1] * 1e12 == Approx(x[1]).margin(1e-12));
  // The second column is twice the first, the third is 0.
  const LeastSquares spanned{3, {1, 2, 0, 2, 4, 0}, {3, 6}};
  const auto z = nnls(spanned);
  CHECK(z[0] + 2 * z[1] == Approx(3.0));
  CHECK(z[2] == 0.0);
  CHECK(nnls({2, {}, {}}) == std::vector<double>{0.0, 0.0});
}

TEST_CASE("nnls: standard error of a mean") {
  // b = 1, 2, 3, 4 around one value: s = sqrt(5/3), s / sqrt(4) = 0.6455.
  const LeastSquares system{1, {1, 1, 1, 1}, {1, 2, 3, 4}};
  const auto x = nnls(system);
  CHECK(x[0] == Approx(2.5));
  CHECK(standard_errors(system, x)[0] == Approx(std::sqrt(5.0 / 3.0) / 2.0));
  CHECK(standard_errors({1, {1}, {2}}, {2.0})[0] == 0.0);
}

TEST_CASE("robust fit: spoilt rows do not move it, and small times count as large ones do") {
  // t = 2 + 3 q over five decades; every seventh row took ten times as long.
  LeastSquares system;
  system.columns = 2;
  for (int i = 0; i < 70; ++i) {
    const double q = std::pow(10.0, i / 14.0);
    system.a.insert(system.a.end(), {1.0, q});
    system.b.push_back((2 + 3 * q) * (i % 7 == 3 ? 10.0 : 1.0 + 1e-4 * (i % 3 - 1)));
  }
  const RobustFit fit = fit_relative(system, system.b, 30);
  CHECK(fit.x[0] == Approx(2.0).epsilon(2e-3));
  CHECK(fit.x[1] == Approx(3.0).epsilon(1e-3));
  CHECK(fit.scale < 1e-3);
}
