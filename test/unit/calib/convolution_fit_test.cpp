#include "ddlsim/calib/convolution_fit.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "ddlsim/cost/convolution_time.h"

using namespace ddlsim;
using namespace ddlsim::calib;
using hardware::ConvolutionCurve;
using hardware::DeviceSpec;

namespace {

const DeviceSpec kV100{80, teraflops_per_second(14), gigabytes_per_second(900), megabytes(6)};

ConvolutionCurve planted() {
  ConvolutionCurve curve;
  curve.implicit_gemm.overhead = microseconds(50);
  curve.implicit_gemm.floor = microseconds(60);
  curve.implicit_gemm.memory_efficiency = 0.7;
  curve.implicit_gemm.tiles = {{.m = 128, .n = 64, .efficiency = 0.8, .tiles_to_fill = 1}};
  curve.winograd_fused = {.efficiency = 0.9, .prologue_steps = 20, .weight_passes = 1.5};
  curve.winograd_nonfused.extra_launches = microseconds(10);
  curve.winograd_nonfused.tiles = {{.m = 64, .n = 64, .efficiency = 0.9, .tiles_to_fill = 1}};
  curve.input_gradient = 1.3;
  curve.weight_gradient = 1.6;
  return curve;
}

std::vector<ConvolutionRow> rows_of(const ConvolutionCurve& curve) {
  std::vector<ConvolutionRow> rows;
  std::int64_t rows_before = 0;
  for (const auto pass : {primitives::ConvolutionPass::kForward, primitives::ConvolutionPass::kInputGradient,
                          primitives::ConvolutionPass::kWeightGradient}) {
    for (const std::int64_t kernel : {1, 3}) {
      for (const std::int64_t channels : {16, 64, 200, 512}) {
        for (const std::int64_t size : {7, 14, 28, 56}) {
          for (const std::int64_t batch : {4, 16, 64}) {
            const primitives::ConvolutionShape shape{.pass = pass,
                                                     .in = channels,
                                                     .out = channels + 32,
                                                     .input = {size, size},
                                                     .output = {size, size},
                                                     .kernel = {kernel, kernel}};
            rows.push_back({.shape = shape, .batch = batch, .time = {}, .rows_before = rows_before});
            rows.back().time = as_measured(curve, kV100, rows.back());
            if (curve.overhead_growth > Time::zero()) rows_before = (rows_before + 577) % 3000;
          }
        }
      }
    }
  }
  return rows;
}

}  // namespace

TEST_CASE("convolution fit: planted parameters come back", "[unit][calib]") {
  const auto rows = rows_of(planted());
  const auto curve = fit_convolutions(rows, kV100, Precision::kFp32);
  REQUIRE(curve);
  CHECK(curve->report.fitted + curve->report.held_out == static_cast<std::int64_t>(rows.size()));
  CHECK(curve->report.mean < 0.05);
  CHECK(curve->input_gradient == Approx(1.3).epsilon(0.05));
  CHECK(curve->weight_gradient == Approx(1.6).epsilon(0.1));
  CHECK(curve->gradient_rows > 100);
  CHECK(curve->overhead_growth == Time::zero());
}

TEST_CASE("convolution fit: an overhead that grows while it is measured", "[unit][calib]") {
  ConvolutionCurve grows = planted();
  grows.overhead_growth = microseconds(0.001);
  grows.implicit_gemm.overhead = microseconds(50);
  CHECK(overhead_of(grows, 0).in(microseconds) == Approx(50));
  CHECK(overhead_of(grows, 2500).in(microseconds) == Approx(175));
  const auto rows = rows_of(grows);
  const auto curve = fit_convolutions(rows, kV100, Precision::kFp32);
  REQUIRE(curve);
  CHECK(curve->overhead_growth.in(microseconds) == Approx(0.001).epsilon(0.05));
  CHECK(curve->report.mean < 0.05);
  auto unordered = rows;
  for (ConvolutionRow& row : unordered) row.rows_before = 0;
  const auto blind = fit_convolutions(unordered, kV100, Precision::kFp32);
  REQUIRE(blind);
  CHECK(blind->report.mean > 2 * curve->report.mean);
}

TEST_CASE("convolution fit: without gradients other GPUs' constants stand", "[unit][calib]") {
  auto rows = rows_of(planted());
  std::erase_if(rows,
                [](const ConvolutionRow& row) { return row.shape.pass != primitives::ConvolutionPass::kForward; });
  const auto curve = fit_convolutions(rows, kV100, Precision::kFp32);
  REQUIRE(curve);
  CHECK(curve->gradient_rows == 0);
  CHECK(curve->strided_gradient == ConvolutionCurve{}.strided_gradient);
  CHECK(curve->weight_reduction_steps == ConvolutionCurve{}.weight_reduction_steps);
}

TEST_CASE("convolution fit: rows that make no curve", "[unit][calib]") {
  const auto good = rows_of(planted());
  const auto failure = [](const std::vector<ConvolutionRow>& rows) {
    const auto curve = fit_convolutions(rows, kV100, Precision::kFp32);
    return curve ? std::string() : curve.error().message;
  };
  CHECK(failure({}) == "0 rows of forward convolutions; a curve needs at least 12");
  // Gradients alone say nothing of what runs forward.
  CHECK(failure({good.end() - 40, good.end()}) == "0 rows of forward convolutions; a curve needs at least 12");
  CHECK(failure(std::vector<ConvolutionRow>(20, good[0])).find("one-point curve") != std::string::npos);
  auto rows = good;
  rows[1].time = seconds(std::nan(""));
  CHECK(failure(rows) == "row 2: the time is not positive");
  rows = good;
  rows[2].shape.stride = {0, 1};
  CHECK(failure(rows) == "row 3: a size is not at least 1");
}
