// Laws of calibration: least squares that are at an optimum, profiles that survive their file, time that grows with
// size.
#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "ddlsim/calib/nnls.h"
#include "ddlsim/cost/memory_bound_time.h"
#include "ddlsim/io/profile_file.h"

using namespace ddlsim;
using namespace ddlsim::hardware;

namespace {

double positive() { return std::exp(*rc::gen::inRange(-8000, 8000) / 1000.0); }
double any() { return *rc::gen::inRange(-1000, 1001) / 100.0; }

std::string text() {
  return *rc::gen::container<std::string>(rc::gen::elementOf(std::string("ab 0:#\"\\-{}[],'%&*!|>\n\t")));
}

CurveReport random_report() {
  CurveReport report;
  report.measured = text();
  report.fitted = *rc::gen::inRange<std::int64_t>(0, 1'000'000);
  report.held_out = *rc::gen::inRange<std::int64_t>(0, 1'000'000);
  report.mean = positive();
  report.median = positive();
  report.p95 = positive();
  report.worst = positive();
  report.bias = std::max(-1.0, any());
  report.above_floor = *rc::gen::inRange<std::int64_t>(0, 10);
  report.above_floor_mean = report.above_floor > 0 ? positive() : 0.0;
  report.coverage = *rc::gen::inRange(0, 1001) / 1000.0;
  report.interval = {positive(), 0};
  report.interval.second = report.interval.first * (1 + positive());
  if (*rc::gen::arbitrary<bool>()) report.fitted_ranges.push_back({"bytes", positive(), positive()});
  if (*rc::gen::arbitrary<bool>()) report.standard_errors.push_back({"slope at 0 L2", positive()});
  return report;
}

MemoryBoundCurve random_memory_bound(primitives::MemoryBoundKind kind) {
  MemoryBoundCurve curve;
  curve.kind = kind;
  curve.row_from = *rc::gen::inRange<std::int64_t>(0, 5000);
  double at = 0;
  for (int i = *rc::gen::inRange(1, 5); i > 0; --i) {
    curve.slope_changes.emplace_back(at, std::min(900.0, positive()));
    at += 0.5 + *rc::gen::inRange(0, 100) / 10.0;
  }
  // Past a slope change the slope may fall again, though never below nothing.
  if (curve.slope_changes.size() > 1) curve.slope_changes.back().second = -0.5 * curve.slope_changes.front().second;
  std::int64_t length = 0;
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i) {
    length += *rc::gen::inRange<std::int64_t>(1, 2000);
    curve.row_length_factors.emplace_back(length, std::min(90.0, 0.1 + positive()));
  }
  curve.time_per_row = *rc::gen::arbitrary<bool>() ? nanoseconds(positive()) : Time{};
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i) {
    curve.overheads.push_back({text(), microseconds(positive()), microseconds(positive())});
  }
  curve.report = random_report();
  return curve;
}

GemmCurve random_gemm_curve(Precision precision) {
  GemmCurve curve;
  curve.precision = precision;
  curve.overhead = microseconds(positive());
  curve.memory_efficiency = 0.1 + *rc::gen::inRange(0, 100) / 100.0;
  curve.batched = *rc::gen::arbitrary<bool>();
  curve.floor = microseconds(positive());
  curve.grouped = *rc::gen::arbitrary<bool>();
  curve.left_operand_passes = *rc::gen::arbitrary<bool>() ? std::min(90.0, positive()) : 0.0;
  curve.overhead_per_row = *rc::gen::arbitrary<bool>() ? nanoseconds(positive()) : Time{};
  curve.left_operand_cost = std::min(90.0, 0.1 + positive());
  curve.prologue_steps = positive();
  curve.slowdown_half_time = microseconds(positive());
  for (int i = *rc::gen::inRange(1, 4); i > 0; --i) {
    curve.tiles.push_back({std::ldexp(16.0, i), 64, 0.1 + *rc::gen::inRange(0, 90) / 100.0, positive()});
  }
  curve.report = random_report();
  return curve;
}

GpuProfile random_profile() {
  GpuProfile profile;
  profile.id = "a-gpu";
  profile.gpu = "t4";
  profile.date = *rc::gen::arbitrary<bool>() ? "2025-01-31" : "";
  if (*rc::gen::arbitrary<bool>()) profile.launch_interval = microseconds(positive());
  if (*rc::gen::arbitrary<bool>()) profile.gemms.push_back(random_gemm_curve(Precision::kFp32));
  if (*rc::gen::arbitrary<bool>()) profile.gemms.push_back(random_gemm_curve(Precision::kBf16));
  if (*rc::gen::arbitrary<bool>()) {
    ConvolutionCurve curve;
    curve.precision = Precision::kFp16;
    curve.implicit_gemm = random_gemm_curve(curve.precision);
    curve.winograd_fused = {std::min(9.0, positive()), positive(), positive()};
    if (*rc::gen::arbitrary<bool>()) {
      curve.winograd_nonfused = {positive(), positive(), positive(), microseconds(positive()),
                                 curve.implicit_gemm.tiles};
    }
    curve.overhead_growth = microseconds(positive());
    curve.gradient_rows = *rc::gen::inRange<std::int64_t>(0, 1000);
    curve.input_gradient = std::min(900.0, positive());
    curve.strided_gradient = std::min(900.0, positive());
    curve.weight_gradient = std::min(900.0, positive());
    curve.weight_reduction_steps = positive();
    curve.weight_winograd = std::min(900.0, positive());
    curve.report = random_report();
    profile.convolutions.push_back(curve);
  }
  if (*rc::gen::arbitrary<bool>()) {
    hardware::AttentionCurve curve;
    curve.pass =
        *rc::gen::arbitrary<bool>() ? primitives::AttentionPass::kForward : primitives::AttentionPass::kBackward;
    curve.overheads = {{{text(), microseconds(positive()), microseconds(positive())}, std::min(90.0, positive())}};
    curve.prologue_steps = positive();
    curve.masked_steps = positive();
    curve.sustained_slowdown = positive();
    curve.widths = {{64, positive() + 1, 0.5, positive()}, {128, 128, 0.7, 1}};
    curve.report = random_report();
    profile.attention.push_back(curve);
  }
  if (*rc::gen::arbitrary<bool>()) {
    MeasuredConvolution measured;
    measured.shape.in = *rc::gen::inRange<std::int64_t>(1, 4096);
    measured.shape.kernel = {3, *rc::gen::inRange<std::int64_t>(1, 8)};
    measured.time = microseconds(positive());
    profile.measured_convolutions.push_back(measured);
  }
  for (const auto& [name, kind] : primitives::kMemoryBoundKinds) {
    if (*rc::gen::arbitrary<bool>()) profile.memory_bound.push_back(random_memory_bound(kind));
  }
  profile.notes = text();
  return profile;
}

}  // namespace

TEST_CASE("calibration laws: a profile read and written again is the same text") {
  CHECK(rc::check([] {
    const GpuProfile profile = random_profile();
    const std::string written = io::write_profile(profile);
    const auto read = io::parse_yaml(written, "f").and_then(io::read_profile);
    RC_ASSERT(read.has_value());
    RC_ASSERT(io::write_profile(*read) == written);
    RC_ASSERT(read->memory_bound.size() == profile.memory_bound.size());
    for (std::size_t i = 0; i < read->memory_bound.size(); ++i) {
      const double slope = profile.memory_bound[i].slope_changes.back().second;
      RC_ASSERT(std::abs(read->memory_bound[i].slope_changes.back().second - slope) <= 1e-5 * std::abs(slope));
      RC_ASSERT(std::abs(read->memory_bound[i].time_per_row / nanoseconds(1) -
                         profile.memory_bound[i].time_per_row / nanoseconds(1)) <=
                1e-5 * profile.memory_bound[i].time_per_row.in(nanoseconds));
    }
  }));
}

TEST_CASE("calibration laws: non-negative least squares end where no step helps") {
  CHECK(rc::check([] {
    calib::LeastSquares system;
    system.columns = *rc::gen::inRange<std::size_t>(1, 13);
    const auto rows = *rc::gen::inRange<std::size_t>(1, 40);
    for (std::size_t i = 0; i < rows * system.columns; ++i) system.a.push_back(any());
    for (std::size_t i = 0; i < rows; ++i) system.b.push_back(any());
    const auto x = calib::nnls(system);
    // Karush-Kuhn-Tucker: x >= 0; the gradient is 0 where x > 0 and not downhill where x = 0.
    for (std::size_t j = 0; j < system.columns; ++j) {
      double gradient = 0;
      for (std::size_t i = 0; i < rows; ++i) {
        double residual = -system.b[i];
        for (std::size_t c = 0; c < system.columns; ++c) residual += system.a[i * system.columns + c] * x[c];
        gradient += system.a[i * system.columns + j] * residual;
      }
      RC_ASSERT(x[j] >= 0.0);
      RC_ASSERT(gradient >= -1e-6);
      if (x[j] > 1e-9) RC_ASSERT(gradient <= 1e-6);
    }
  }));
}

TEST_CASE("calibration laws: more bytes or rows are never faster, twice the bandwidth halves the time") {
  CHECK(rc::check([] {
    MemoryBoundCurve curve = random_memory_bound(primitives::MemoryBoundKind::kNorm);
    const DeviceSpec spec{80, {}, gigabytes_per_second(positive()), mebibytes(positive())};
    const cost::MemoryBoundSize size{kilobytes(positive()), positive(), *rc::gen::inRange<std::int64_t>(0, 8000)};
    const cost::MemoryBoundSize more{size.traffic * (1 + positive()), size.rows * (1 + positive()), size.row};
    const Time time = cost::memory_bound_time(curve, spec, size);
    RC_ASSERT(time >= Time::zero());
    RC_ASSERT(cost::memory_bound_time(curve, spec, more) >= time);
    curve.time_per_row = Time{};
    DeviceSpec fast = spec;
    fast.memory = spec.memory * 2;
    RC_ASSERT(cost::memory_bound_time(curve, fast, size) * 2 == cost::memory_bound_time(curve, spec, size));
  }));
}
