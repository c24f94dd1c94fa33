// Curves of kernels bound by memory, from planted measurements.
#include "ddlsim/calib/memory_bound_fit.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "ddlsim/calib/check.h"
#include "ddlsim/calib/fit.h"
#include "ddlsim/calib/holdout.h"
#include "ddlsim/cost/memory_bound_time.h"

namespace {

using namespace ddlsim;
using namespace ddlsim::calib;

const hardware::DeviceSpec kSpec{80, teraflops_per_second(14), gigabytes_per_second(900), mebibytes(6)};

struct Plant {
  std::vector<std::pair<double, double>> slope_changes{{0, 1.1}};
  double per_row_ns = 0;
  double noise = 0.01;
  primitives::MemoryBoundKind kind = primitives::MemoryBoundKind::kElementwise;
  std::map<std::string, std::pair<double, double>> series{{"add", {16, 32}}, {"mul", {20, 38}}};  // us
};

double planted_kernel_us(const Plant& plant, double traffic, double rows) {
  double time = rows * plant.per_row_ns * 1e-3 / kSpec.multiprocessors;
  for (const auto& [at, slope] : plant.slope_changes) {
    time += slope * std::max(0.0, traffic - at * kSpec.l2.in(bytes)) / kSpec.memory.in(bytes_per_second)*1e6;
  }
  return time;
}

std::vector<primitives::KernelMeasurement> measure(const Plant& plant, int count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> exponent(15, 28);
  std::uniform_int_distribution<std::int64_t> length(64, 1000);
  std::vector<primitives::KernelMeasurement> rows;
  for (int i = 0; i < count; ++i) {
    primitives::TimedMemoryBound timed;
    timed.kind = plant.kind;
    timed.row = plant.per_row_ns > 0 ? length(random) : 0;
    const double traffic = std::floor(std::exp2(exponent(random)));
    timed.traffic = bytes(traffic);
    const double kernel = planted_kernel_us(plant, traffic, cost::rows_of(timed.traffic, timed.row, bytes(4)));
    for (const auto& [name, constants] : plant.series) {
      const double shown = std::max(constants.second, constants.first + kernel);
      primitives::KernelMeasurement row;
      row.what = timed;
      row.time = microseconds(shown * std::exp(plant.noise * normal(random)));
      row.series = name;
      rows.push_back(row);
    }
  }
  return rows;
}

}  // namespace

TEST_CASE("memory-bound fit: what was planted is found, floors and overheads apart") {
  Plant plant;
  const auto curves = fit_memory_bound(measure(plant, 400, 1), kSpec);
  REQUIRE(curves.has_value());
  REQUIRE(curves->size() == 1);
  const hardware::MemoryBoundCurve& curve = curves->front();
  REQUIRE(curve.slope_changes.size() == 1);  // no knot that is not there
  CHECK(curve.slope_changes[0].second == Approx(1.1).epsilon(0.01));
  REQUIRE(curve.overheads.size() == 2);
  for (const auto& one : curve.overheads) {
    CHECK(one.overhead.in(microseconds) == Approx(plant.series[one.series].first).epsilon(0.03));
    CHECK(one.floor.in(microseconds) == Approx(plant.series[one.series].second).epsilon(0.01));
  }
  const hardware::CurveReport& report = curve.report;
  CHECK(report.mean < 0.012);  // 1 % of noise is 0.8 % in the mean
  CHECK(std::abs(report.bias) < 0.003);
  CHECK(report.coverage > 0.8);
  CHECK(report.fitted + report.held_out == 800);
  // Three standard errors hold the truth.
  REQUIRE(report.standard_errors.front().parameter == "slope from 0 L2");
  CHECK(std::abs(curve.slope_changes[0].second / 1.1 - 1) < 3 * report.standard_errors.front().relative);
}

TEST_CASE("memory-bound fit: a knot that is there stays") {
  Plant plant;
  plant.slope_changes = {{0, 0.3}, {1, 0.9}};
  plant.series = {{"", {3, 3}}};  // kernels in a row, no floor above the overhead
  const auto curves = fit_memory_bound(measure(plant, 600, 2), kSpec);
  REQUIRE(curves.has_value());
  const hardware::MemoryBoundCurve& curve = curves->front();
  for (const double mib : {2.0, 5.0, 20.0, 100.0}) {
    const Time fitted = cost::memory_bound_time(curve, kSpec, {mebibytes(mib), 0});
    CHECK(fitted.in(microseconds) == Approx(planted_kernel_us(plant, mib * 1048576, 0)).epsilon(0.05));
  }
}

TEST_CASE("memory-bound fit: a slope that falls again once data have outgrown the L2 is found") {
  Plant plant;
  plant.slope_changes = {{0, 0.5}, {0.5, 1.7}, {2, -1.2}};
  plant.series = {{"", {3, 3}}};
  const auto curves = fit_memory_bound(measure(plant, 800, 2), kSpec);
  REQUIRE(curves.has_value());
  const hardware::MemoryBoundCurve& curve = curves->front();
  for (const double mib : {2.0, 5.0, 12.0, 20.0, 100.0}) {
    const Time fitted = cost::memory_bound_time(curve, kSpec, {mebibytes(mib), 0});
    CHECK(fitted.in(microseconds) == Approx(planted_kernel_us(plant, mib * 1048576, 0)).epsilon(0.05));
  }
}

TEST_CASE("memory-bound fit: the length from which on rows take longer is found, and none where there is none") {
  Plant plant;
  plant.kind = primitives::MemoryBoundKind::kSoftmax;
  plant.noise = 0;
  plant.series = {{"softmax", {20, 41}}};
  auto rows = measure(plant, 800, 5);
  std::mt19937_64 random(6);
  std::uniform_int_distribution<std::int64_t> length(200, 1000);
  for (primitives::KernelMeasurement& row : rows) {
    auto& timed = std::get<primitives::TimedMemoryBound>(row.what);
    timed.row = length(random);
    const double kernel = (timed.row > 512 ? 1.25 : 1.0) * planted_kernel_us(plant, timed.traffic.in(bytes), 0);
    row.time = microseconds(std::max(41.0, 20.0 + kernel));
  }
  const auto curves = fit_memory_bound(rows, kSpec);
  REQUIRE(curves.has_value());
  REQUIRE(curves->front().row_length_factors.size() == 1);
  CHECK(curves->front().row_length_factors[0].first == 513);
  CHECK(curves->front().row_length_factors[0].second == Approx(1.25).epsilon(0.01));
  CHECK(curves->front().report.mean < 0.005);
  for (primitives::KernelMeasurement& row : rows) {
    const double kernel =
        planted_kernel_us(plant, std::get<primitives::TimedMemoryBound>(row.what).traffic.in(bytes), 0);
    row.time = microseconds(std::max(41.0, 20.0 + kernel));
  }
  CHECK(fit_memory_bound(rows, kSpec)->front().row_length_factors.empty());
}

TEST_CASE("memory-bound fit: time by the row is found, and left out where it is nothing") {
  Plant plant;
  plant.kind = primitives::MemoryBoundKind::kNorm;
  plant.per_row_ns = 500;
  plant.series = {{"ln", {40, 58}}};
  const auto with = fit_memory_bound(measure(plant, 800, 3), kSpec);
  REQUIRE(with.has_value());
  CHECK(with->front().time_per_row.in(nanoseconds) == Approx(500).epsilon(0.1));
  plant.per_row_ns = 1e-6;
  const auto without = fit_memory_bound(measure(plant, 400, 4), kSpec);
  REQUIRE(without.has_value());
  CHECK(without->front().time_per_row == Time::zero());
}

TEST_CASE("memory-bound fit: long and short rows of softmax have curves of their own") {
  Plant plant;
  plant.kind = primitives::MemoryBoundKind::kSoftmax;
  plant.series = {{"softmax", {20, 41}}};
  auto rows = measure(plant, 400, 5);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto& timed = std::get<primitives::TimedMemoryBound>(rows[i].what);
    timed.row = i % 2 == 0 ? 1024 : 1025;
    if (i % 2 == 1) {
      const double kernel = 1.5 * planted_kernel_us(plant, timed.traffic.in(bytes), 0);
      rows[i].time = microseconds(std::max(41.0, 20.0 + kernel));
    }
  }
  const auto curves = fit_memory_bound(rows, kSpec);
  REQUIRE(curves.has_value());
  REQUIRE(curves->size() == 2);
  CHECK((*curves)[0].row_from == 0);
  CHECK((*curves)[0].slope_changes[0].second == Approx(1.1).epsilon(0.02));
  CHECK((*curves)[1].row_from == 1025);
  CHECK((*curves)[1].slope_changes[0].second == Approx(1.65).epsilon(0.01));
}

TEST_CASE("memory-bound fit: too little says what is wanted") {
  Plant plant;
  auto rows = measure(plant, 400, 6);
  const auto few = fit_memory_bound(std::span(rows).first(8), kSpec);
  REQUIRE_FALSE(few.has_value());
  CHECK(few.error().message == "elementwise: 4 shapes of 4 sizes are too few for a curve");
  CHECK(few.error().notes.front() == "measure 10 shapes or more, of 3 sizes or more");
  for (primitives::KernelMeasurement& row : rows) row.time = microseconds(30);
  const auto flat = fit_memory_bound(rows, kSpec);
  REQUIRE_FALSE(flat.has_value());
  CHECK(flat.error().message == "elementwise: every row takes the same time, whatever its size");
  for (primitives::KernelMeasurement& row : rows) row.left_out = true;
  CHECK(fit_memory_bound(rows, kSpec)->empty());
  hardware::Gpu gpu;
  CHECK(fit_profile(rows, gpu).error().message == "no row that a curve can use");
}

TEST_CASE("hold-out: shapes are dealt evenly, and the same way every time") {
  std::map<int, int> folds;
  for (std::int64_t i = 0; i < 10'000; ++i) {
    const std::array<std::int64_t, 2> shape{i * 4096, i % 7};
    ++folds[fold_of(shape)];
    CHECK(fold_of(shape) == fold_of(shape));
  }
  REQUIRE(folds.size() == 5);
  for (const auto& [fold, count] : folds) CHECK(std::abs(count - 2000) < 150);
}

TEST_CASE("hold-out: figures by hand") {
  // Errors +10 %, -20 %, 0, +50 %.
  const std::vector<ComparedRow> rows{{11, 10}, {8, 10}, {10, 10}, {15, 10}};
  hardware::CurveReport report;
  fill_errors(rows, report);
  CHECK(report.held_out == 4);
  CHECK(report.mean == Approx(0.2));
  CHECK(report.median == Approx(0.1));
  CHECK(report.p95 == Approx(0.5));
  CHECK(report.worst == Approx(0.5));
  CHECK(report.bias == Approx(0.1));
  // 39 ratios 1 ... 39: ranks floor(2) and ceil(38).
  std::vector<double> ratios;
  for (int i = 39; i >= 1; --i) ratios.push_back(i);
  const auto interval = conformal_interval(ratios);
  CHECK(interval == std::pair{2.0, 38.0});
  CHECK(coverage_of(interval, ratios) == Approx(37.0 / 39.0));
}

TEST_CASE("hold-out: of few rows the ends are as far apart as 90 % needs") {
  // The header's example: ten ratios, rank ceil(0.9 * 11) = 10, the largest.
  std::vector<double> ten{0.93, 0.95, 0.97, 0.99, 1, 1.02, 1.04, 1.06, std::exp(0.09), std::exp(-0.1)};
  CHECK(conformal_interval(ten).first == Approx(std::exp(-0.1)));
  CHECK(conformal_interval(ten).second == Approx(std::exp(0.1)));
  // Eighteen: rank ceil(17.1) = 18; nineteen tell the ends apart: ranks 1 and 19.
  std::vector<double> many(17, 1.0);
  many.push_back(2.0);
  CHECK(conformal_interval(many) == std::pair{0.5, 2.0});
  many.push_back(0.8);
  CHECK(conformal_interval(many) == std::pair{0.8, 2.0});
  // Two tell less than 90 %: ln 4 and half as much again.
  CHECK(conformal_interval({2.0, 4.0}).second == Approx(8));
  CHECK(conformal_interval({2.0, 4.0}).first == Approx(0.125));
  CHECK(conformal_interval({2.0, -1.0}) == std::pair{0.0, std::numeric_limits<double>::infinity()});
}

TEST_CASE("hold-out: an interval's ends hold nine of ten rows that had no part in them, however few set them") {
  // Normal errors of 10 % by the sum of twelve: what a fresh row does in the interval of n others.
  std::uint64_t state = 1;
  const auto ratio = [&] {
    double sum = -6;
    for (int i = 0; i < 12; ++i) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      sum += static_cast<double>(state >> 11U) / 9007199254740992.0;
    }
    return std::exp(0.1 * sum);
  };
  for (const int n : {5, 9, 15, 19, 40, 100}) {
    int inside = 0;
    for (int trial = 0; trial < 4000; ++trial) {
      std::vector<double> ratios;
      for (int i = 0; i < n; ++i) ratios.push_back(ratio());
      const auto [low, high] = conformal_interval(ratios);
      const double fresh = ratio();
      inside += low <= fresh && fresh <= high ? 1 : 0;
    }
    INFO(n << " rows: " << inside << " of 4000 inside");
    CHECK(inside > 3530);  // 90 % less four standard deviations
    CHECK(inside < 3920);  // nobody is served by all
  }
}

TEST_CASE("hold-out: coverage is asked of rows that did not set the interval, and that show their kernel") {
  // Nineteen rows at 1.00 to 1.18 set the ends; of three others one lies outside, and one is all overhead.
  std::vector<ComparedRow> cross_validated;
  for (int i = 0; i < 19; ++i) cross_validated.push_back({10, 12 + 0.1 * i, 2, 5});
  const std::vector<ComparedRow> held_out{{10, 12.5, 2, 5}, {10, 20, 2, 5}, {1, 99, 20, 5}};
  hardware::CurveReport report;
  fill_interval(cross_validated, held_out, report);
  CHECK(report.interval.first == Approx(1.0 * 0.999));
  CHECK(report.interval.second == Approx(1.18 * 1.001));
  CHECK(report.coverage == 0.5);
}

TEST_CASE("check: a slower GPU is one number away") {
  Plant plant;
  plant.noise = 0.005;
  auto rows = measure(plant, 400, 8);
  hardware::Gpu gpu;
  gpu.id = "gpu";
  gpu.sm_count = 80;
  gpu.memory_bandwidth = kSpec.memory;
  gpu.l2 = kSpec.l2;
  const auto profile = fit_profile(rows, gpu);
  REQUIRE(profile.has_value());
  CHECK_FALSE(too_often_outside(check_profile(*profile, gpu, rows).curves.front()));
  plant.slope_changes = {{0, 1.1 * 1.25}};
  rows = measure(plant, 400, 9);
  const ProfileCheck check = check_profile(*profile, gpu, rows, 20);
  REQUIRE(check.curves.size() == 1);
  const CheckedCurve& curve = check.curves.front();
  CHECK(too_often_outside(curve));
  CHECK(curve.scale == Approx(1.25).epsilon(0.02));
  CHECK(curve.errors.bias < -0.05);
  REQUIRE(curve.anchored.has_value());
  CHECK(curve.anchored->mean < 0.01);
}

TEST_CASE("check: the header's example") {
  hardware::GpuProfile profile;
  hardware::MemoryBoundCurve curve;
  curve.slope_changes = {{0, 1}};
  profile.memory_bound.push_back(curve);
  hardware::Gpu gpu;
  gpu.sm_count = 1;
  gpu.memory_bandwidth = gigabytes_per_second(1);
  std::vector<primitives::KernelMeasurement> rows(3);
  for (int i = 0; i < 3; ++i) {
    const double us = 10 << i;
    auto& row = rows[static_cast<std::size_t>(i)];
    row.what = primitives::TimedMemoryBound{primitives::MemoryBoundKind::kElementwise, bytes(us * 1e3), 0};
    row.time = microseconds(us * 1.1);
  }
  const ProfileCheck check = check_profile(profile, gpu, rows, 1);
  REQUIRE(check.curves.size() == 1);
  CHECK(check.curves[0].errors.mean == Approx(1 - 1 / 1.1));
  CHECK(check.curves[0].scale == Approx(1.1));
  CHECK(check.curves[0].anchored->held_out == 2);
  CHECK(check.curves[0].anchored->worst == Approx(0.0).margin(1e-12));
}
