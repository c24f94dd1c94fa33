#include "ddlsim/calib/gemm_fit.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ddlsim/cost/gemm_time.h"

using namespace ddlsim;
using namespace ddlsim::calib;
using hardware::DeviceSpec;
using hardware::GemmCurve;

namespace {

const DeviceSpec kV100{80, teraflops_per_second(14), gigabytes_per_second(900), megabytes(6)};

/// The low digits of a linear congruence (Knuth's constants): the same numbers everywhere.
class Numbers {
 public:
  double between(double least, double most) {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return least + (most - least) * static_cast<double>(state_ >> 11U) / 9007199254740992.0;
  }
  double octaves(double least, double most) {
    return std::floor(std::exp2(between(std::log2(least), std::log2(most))));
  }

 private:
  std::uint64_t state_ = 7;
};

GemmCurve planted() {
  GemmCurve curve;
  curve.overhead = microseconds(30);
  curve.floor = microseconds(40);
  curve.memory_efficiency = 0.75;
  curve.not_overlapped = 0.1;
  curve.prologue_steps = 20;
  curve.partial_wave_cost = 0.9;
  curve.split_k_launch = microseconds(3);
  curve.tiles = {{.m = 128, .n = 128, .efficiency = 0.92, .tiles_to_fill = 1},
                 {.m = 64, .n = 64, .efficiency = 0.7, .tiles_to_fill = 1.5}};
  return curve;
}

/// Rows of the planted curve; `noise` spreads the kernels evenly by that share either way.
std::vector<GemmRow> rows_of(const GemmCurve& curve, std::size_t count, double noise) {
  Numbers numbers;
  std::vector<GemmRow> rows;
  for (std::size_t i = 0; i < count; ++i) {
    const hardware::GemmSize size{1, numbers.octaves(16, 8192), numbers.octaves(16, 8192), numbers.octaves(16, 8192)};
    const Time kernel = cost::gemm_time(curve, kV100, size, bytes(4)) * (1 + numbers.between(-noise, noise));
    rows.push_back({size, max(curve.floor, curve.overhead + kernel)});
  }
  return rows;
}

std::string failure(const std::vector<GemmRow>& rows, const DeviceSpec& spec = kV100) {
  const auto curve = fit_gemms(rows, spec, Precision::kFp32);
  return curve ? "" : curve.error().message;
}

}  // namespace

TEST_CASE("gemm fit: planted parameters come back", "[unit][calib]") {
  const auto rows = rows_of(planted(), 400, 0.0);
  const auto curve = fit_gemms(rows, kV100, Precision::kFp32);
  REQUIRE(curve);
  CHECK(curve->report.mean < 0.02);
  CHECK(curve->report.fitted + curve->report.held_out == 400);
  CHECK(curve->report.held_out > 50);
  CHECK(curve->report.held_out < 110);
  CHECK(curve->overhead.in(microseconds) == Approx(30).epsilon(0.1));
  CHECK(curve->floor.in(microseconds) == Approx(40).epsilon(0.02));
  // What a large GEMM reaches, and what a thin one that only moves data.
  const auto ratio = [&](const hardware::GemmSize& size) {
    return cost::gemm_time(*curve, kV100, size, bytes(4)) / cost::gemm_time(planted(), kV100, size, bytes(4));
  };
  CHECK(ratio({1, 8192, 8192, 8192}) == Approx(1).epsilon(0.03));
  CHECK(ratio({1, 4096, 1024, 512}) == Approx(1).epsilon(0.05));
  CHECK(ratio({1, 16, 8192, 8192}) == Approx(1).epsilon(0.08));
  REQUIRE(curve->report.fitted_ranges.size() == 5);
  CHECK(curve->report.fitted_ranges[1].feature == "m");
  CHECK(curve->report.fitted_ranges[1].least >= 16);
  CHECK(curve->report.fitted_ranges[1].most <= 8192);
  CHECK_FALSE(curve->batched);
}

TEST_CASE("gemm fit: noise shows in the interval, whose coverage is measured on other rows", "[unit][calib]") {
  const auto curve = fit_gemms(rows_of(planted(), 600, 0.1), kV100, Precision::kFp32);
  REQUIRE(curve);
  // 90 % of rows spread evenly by 10 % lie within 9 %.
  CHECK(curve->report.interval.first == Approx(0.91).margin(0.03));
  CHECK(curve->report.interval.second == Approx(1.09).margin(0.03));
  CHECK(curve->report.coverage > 0.82);
  CHECK(curve->report.coverage < 0.97);
  // Kernels err by 5 %; what measuring adds, the same for all, makes that less.
  CHECK(curve->report.above_floor_mean == Approx(0.04).margin(0.01));
  CHECK(std::abs(curve->report.bias) < 0.015);
}

TEST_CASE("gemm fit: the same rows in any order give the same curve", "[unit][calib]") {
  auto rows = rows_of(planted(), 120, 0.05);
  const auto one = fit_gemms(rows, kV100, Precision::kFp32);
  std::vector<GemmRow> reversed(rows.rbegin(), rows.rend());
  const auto other = fit_gemms(reversed, kV100, Precision::kFp32);
  REQUIRE((one && other));
  CHECK(one->memory_efficiency == other->memory_efficiency);
  CHECK(one->overhead == other->overhead);
  REQUIRE(one->tiles.size() == other->tiles.size());
  for (std::size_t t = 0; t < one->tiles.size(); ++t) CHECK(one->tiles[t].efficiency == other->tiles[t].efficiency);
}

TEST_CASE("gemm fit: rows held out have no say in the curve", "[unit][calib]") {
  auto rows = rows_of(planted(), 200, 0.02);
  const auto one = fit_gemms(rows, kV100, Precision::kFp32);
  std::size_t changed = 0;
  for (GemmRow& row : rows) {
    if (!held_out(row.size)) continue;
    row.time = row.time * 3;
    ++changed;
  }
  const auto other = fit_gemms(rows, kV100, Precision::kFp32);
  REQUIRE((one && other));
  CHECK(changed > 20);
  CHECK(one->memory_efficiency == other->memory_efficiency);
  CHECK(one->tiles[0].efficiency == other->tiles[0].efficiency);
  CHECK(other->report.mean > 0.5);
}

TEST_CASE("gemm fit: batches have a curve of their own", "[unit][calib]") {
  auto rows = rows_of(planted(), 60, 0.0);
  for (GemmRow& row : rows) row.size.batch_count = 12;
  const auto curve = fit_gemms(rows, kV100, Precision::kFp32);
  REQUIRE(curve);
  CHECK(curve->batched);
}

TEST_CASE("gemm fit: rows that make no curve", "[unit][calib]") {
  const auto good = rows_of(planted(), 20, 0.0);
  CHECK(failure({}) == "0 rows of GEMMs; a curve needs at least 12");
  CHECK(failure({good.begin(), good.begin() + 11}) == "11 rows of GEMMs; a curve needs at least 12");
  CHECK(failure(std::vector<GemmRow>(20, good[0])).find("one-point curve") != std::string::npos);
  for (const double wrong : {0.0, -1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    auto rows = good;
    rows[3].time = seconds(wrong);
    CHECK(failure(rows) == "row 4: the time is not positive");
    rows = good;
    rows[4].size.k = wrong;
    CHECK(failure(rows) == "row 5: a size is not at least 1");
  }
  DeviceSpec blank = kV100;
  blank.peak = {};
  CHECK(failure(good, blank).find("a peak of the precision") != std::string::npos);
}
