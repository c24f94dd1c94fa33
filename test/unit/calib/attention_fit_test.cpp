#include "ddlsim/calib/attention_fit.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "ddlsim/calib/check.h"
#include "ddlsim/calib/fit.h"
#include "ddlsim/cost/attention_time.h"
#include "ddlsim/cost/gemm_time.h"

using namespace ddlsim;
using namespace ddlsim::calib;
using hardware::AttentionCurve;
using primitives::AttentionPass;
using primitives::AttentionShape;

namespace {

const hardware::DeviceSpec kH200{132, teraflops_per_second(989), gigabytes_per_second(4800), megabytes(50)};

AttentionCurve planted(AttentionPass pass) {
  AttentionCurve curve;
  curve.pass = pass;
  curve.overheads = {{{"served", microseconds(8), microseconds(11)}, pass == AttentionPass::kForward ? 2.0 : 0.0}};
  curve.prologue_steps = 60;
  curve.partial_wave_cost = 0.5;
  curve.masked_steps = 20;
  curve.sustained_slowdown = 0.05;
  curve.slowdown_half_time = milliseconds(1);
  curve.widths = {{64, 128, 0.55, 1}, {128, 128, pass == AttentionPass::kForward ? 0.7 : 0.5, 1}};
  return curve;
}

/// Every size of a grid, by the planted curve.
std::vector<AttentionRow> rows_of(const AttentionCurve& curve) {
  std::vector<AttentionRow> rows;
  for (const std::int64_t batch : {1, 2, 4}) {
    for (const std::int64_t heads : {4, 8, 16, 32, 40}) {
      for (std::int64_t length = 128; length <= 16384; length *= 2) {
        for (const std::int64_t width : {64, 128}) {
          const AttentionShape shape{.pass = curve.pass,
                                     .queries = length,
                                     .keys = length,
                                     .heads = heads,
                                     .kv_heads = batch == 2 ? heads : heads / 4,
                                     .width = width,
                                     .value_width = width,
                                     .causal = length != 256};
          AttentionRow row{shape, batch, {}, "served"};
          row.time = as_measured(curve, kH200, row);
          rows.push_back(row);
        }
      }
    }
  }
  return rows;
}

double worst_error(const AttentionCurve& curve, const AttentionCurve& truth) {
  double worst = 0;
  for (AttentionShape shape : {AttentionShape{.queries = 2048, .keys = 2048, .heads = 24, .kv_heads = 6},
                               AttentionShape{.queries = 6144, .keys = 6144, .heads = 12, .kv_heads = 3},
                               AttentionShape{.queries = 16384, .keys = 16384, .heads = 64, .kv_heads = 8}}) {
    shape.pass = truth.pass;
    shape.causal = true;
    shape.width = shape.value_width = 128;
    const double ratio =
        cost::attention_time(curve, kH200, shape, 1, bytes(2)) / cost::attention_time(truth, kH200, shape, 1, bytes(2));
    worst = std::max(worst, std::abs(ratio - 1));
  }
  return worst;
}

}  // namespace

TEST_CASE("attention fit: finds the curve that made the rows, less what measuring adds", "[unit][calib]") {
  const AttentionCurve truth = planted(AttentionPass::kForward);
  const auto fitted = fit_attention(rows_of(truth), kH200, Precision::kBf16);
  REQUIRE(fitted.has_value());
  CHECK(worst_error(*fitted, truth) < 0.03);
  REQUIRE(fitted->widths.size() == 2);
  CHECK(fitted->widths[1].rows == 128);
  CHECK(fitted->report.held_out > 0);
  CHECK(fitted->report.mean < 0.02);
  CHECK(fitted->report.fitted + fitted->report.held_out == static_cast<std::int64_t>(rows_of(truth).size()));
  // A cache of keys and values that a series writes is no kernel of a step.
  REQUIRE(fitted->overheads.size() == 1);
  CHECK(fitted->overheads[0].copied_passes == Approx(2).epsilon(0.2));
  AttentionRow row = rows_of(truth).back();
  CHECK(overhead_of(*fitted, kH200, row).overhead > microseconds(8));
  row.series = "another";
  CHECK(overhead_of(*fitted, kH200, row).overhead == Time::zero());
}

TEST_CASE("attention fit: a series of training writes no cache", "[unit][calib]") {
  AttentionCurve truth = planted(AttentionPass::kForward);
  AttentionFitOptions options;
  options.training = {"served"};
  const auto fitted = fit_attention(rows_of(truth), kH200, Precision::kBf16, options);
  REQUIRE(fitted.has_value());
  REQUIRE(fitted->overheads.size() == 1);
  CHECK(fitted->overheads[0].copied_passes == 0);
  // What has both passes is such a series.
  std::vector<primitives::KernelMeasurement> rows;
  for (const AttentionPass pass : {AttentionPass::kForward, AttentionPass::kBackward}) {
    for (const AttentionRow& row : rows_of(planted(pass))) {
      primitives::KernelMeasurement one;
      one.what = primitives::TimedAttention{row.shape, row.batch};
      one.precision = Precision::kBf16;
      one.time = row.time;
      one.series = pass == AttentionPass::kForward && row.batch == 1 ? "server" : "harness";
      rows.push_back(one);
    }
  }
  hardware::Gpu gpu;
  gpu.id = "g";
  gpu.sm_count = 132;
  gpu.peak.bf16 = teraflops_per_second(989);
  gpu.memory_bandwidth = gigabytes_per_second(4800);
  const auto profile = fit_profile(rows, gpu);
  REQUIRE(profile.has_value());
  REQUIRE(profile->attention.front().overheads.size() == 2);
  CHECK(profile->attention.front().overheads[0].copied_passes == 0);  // harness
  CHECK(profile->attention.front().overheads[1].copied_passes > 0);
}

TEST_CASE("attention fit: every width has tiles of its own", "[unit][calib]") {
  AttentionCurve truth = planted(AttentionPass::kForward);
  truth.widths[0].rows = 192;
  truth.widths[1].rows = 64;
  const auto fitted = fit_attention(rows_of(truth), kH200, Precision::kBf16);
  REQUIRE(fitted.has_value());
  REQUIRE(fitted->widths.size() == 2);
  CHECK(fitted->widths[0].rows == 192);
  CHECK(fitted->widths[1].rows == 64);
  CHECK(worst_error(*fitted, truth) < 0.03);
}

TEST_CASE("attention fit: nothing moves faster than the memory", "[unit][calib]") {
  AttentionCurve truth = planted(AttentionPass::kForward);
  truth.memory_efficiency = 1.4;  // rows of an L2
  truth.prologue_steps = 1;
  truth.masked_steps = 0;
  std::vector<AttentionRow> rows;
  for (const std::int64_t batch : {32, 128, 512}) {
    for (const std::int64_t length : {32, 64, 128, 256, 512, 1024}) {
      const AttentionShape shape{
          .queries = length, .keys = length, .heads = 32, .kv_heads = 32, .width = 128, .value_width = 128};
      AttentionRow row{shape, batch, {}, "served"};
      row.time = as_measured(truth, kH200, row);
      rows.push_back(row);
    }
  }
  const auto fitted = fit_attention(rows, kH200, Precision::kBf16);
  REQUIRE(fitted.has_value());
  CHECK(fitted->memory_efficiency <= 1);
}

TEST_CASE("attention fit: few backward rows start from the forward curve", "[unit][calib]") {
  const AttentionCurve forward = planted(AttentionPass::kForward);
  const AttentionCurve truth = planted(AttentionPass::kBackward);
  std::vector<AttentionRow> rows;
  for (const AttentionRow& row : rows_of(truth)) {
    if (row.shape.queries >= 1024 && row.shape.width == 128 && row.batch == 1) rows.push_back(row);
  }
  REQUIRE(rows.size() == 25);
  AttentionFitOptions options;
  options.forward = &forward;
  const auto fitted = fit_attention(rows, kH200, Precision::kBf16, options);
  REQUIRE(fitted.has_value());
  CHECK(fitted->pass == AttentionPass::kBackward);
  CHECK(worst_error(*fitted, truth) < 0.05);
}

TEST_CASE("attention fit: faults", "[unit][calib]") {
  std::vector<AttentionRow> rows = rows_of(planted(AttentionPass::kForward));
  const auto message = [&](const std::vector<AttentionRow>& some) {
    return fit_attention(some, kH200, Precision::kBf16).error().message;
  };
  CHECK(message({rows.begin(), rows.begin() + 7}) == "7 rows of attention; a fit needs 8 or more");
  CHECK(message(std::vector<AttentionRow>(20, rows[0])) ==
        "all rows have one shape: a one-point curve; a fit needs several");
  std::vector<AttentionRow> both = rows;
  both[3].shape.pass = AttentionPass::kBackward;
  CHECK(message(both) == "rows of both passes");
  rows[4].time = Time::zero();
  CHECK(message(rows) == "row 5: the time is not positive");
  rows[4].shape.heads = 0;
  CHECK(message(rows) == "row 5: a size is not at least 1");
}

TEST_CASE("fit: layers of experts and attention end in a profile, and it checks", "[unit][calib]") {
  hardware::Gpu gpu;
  gpu.id = "h200";
  gpu.sm_count = 132;
  gpu.peak.fp32 = teraflops_per_second(67);
  gpu.peak.set(Precision::kBf16, teraflops_per_second(989));
  gpu.memory_bandwidth = gigabytes_per_second(4800);
  hardware::GemmCurve grouped;
  grouped.precision = Precision::kBf16;
  grouped.grouped = true;
  grouped.overhead = microseconds(20);
  grouped.routing_passes = 1.5;
  grouped.tiles = {{128, 128, 0.7, 1}};
  const hardware::DeviceSpec spec = hardware::device_spec(gpu, Precision::kBf16);
  std::vector<primitives::KernelMeasurement> rows;
  for (const std::int64_t tokens : {64, 256, 1024, 4096, 16384}) {
    for (const std::int64_t experts : {4, 8, 32, 128}) {
      for (const std::int64_t width : {2048, 4096, 7168}) {
        const primitives::TimedExperts layer{tokens, 2 * tokens, experts, width, 1536, true};
        rows.push_back({.what = layer,
                        .precision = Precision::kBf16,
                        .time = grouped.overhead + cost::experts_time(grouped, spec, layer),
                        .series = {}});
      }
    }
  }
  const auto attention = rows_of(planted(AttentionPass::kForward));
  for (const AttentionRow& row : attention) {
    rows.push_back({.what = primitives::TimedAttention{row.shape, row.batch},
                    .precision = Precision::kBf16,
                    .time = row.time,
                    .series = row.series});
  }
  const auto profile = fit_profile(rows, gpu);
  REQUIRE(profile.has_value());
  REQUIRE(profile->gemms.size() == 1);
  CHECK(profile->gemms[0].grouped);
  CHECK(profile->gemms[0].report.mean < 0.05);
  REQUIRE(profile->attention.size() == 1);
  const ProfileCheck check = check_profile(*profile, gpu, rows);
  REQUIRE(check.curves.size() == 2);
  CHECK(check.curves[0].curve == "gemm bf16 of experts");
  CHECK(check.curves[1].curve == "attention bf16 forward");
  CHECK(check.curves[1].errors.mean < 0.05);
  CHECK(check.without_curve == 0);
}
