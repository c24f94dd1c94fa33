// Profiles as files.
#include "ddlsim/io/profile_file.h"
#include "files.h"

#include <catch2/catch.hpp>
#include <string>

namespace {

using namespace ddlsim;
using namespace ddlsim::io;
using ddlsim::test::replaced;

const std::string kReport =
    "    report: {measured: m, fitted: 8, held_out: 2, mean: 0.1, median: 0.1, p95: 0.2, worst: 0.2, bias: -0.1, "
    "interval: [0.9, 1.1], coverage: 0.5, fitted_ranges: {bytes: [1, 2e9]}, standard_errors: {slope: 0.01}}\n";
const std::string kHead = "calibration: t4\ngpu: t4\ndate: 2025-01-31\n";
const std::string kMemoryBound =
    "memory_bound:\n  - kind: softmax\n    row_from: 1025\n"
    "    slope_changes: [{at_l2: 0, by: 1.1}, {at_l2: 2, by: -0.2}]\n    time_per_row: 80 ns\n"
    "    row_length_factors: [{from: 1537, factor: 1.2}, {from: 2049, factor: 0.9}]\n"
    "    overheads: [{series: a, overhead: 24 us, floor: 41 us}]\n" +
    kReport;
const std::string kMeasuredHeader =
    "measured_convolutions: |\n  precision,pass,batch,in,out,groups,input_height,input_width,output_height,"
    "output_width,kernel_height,kernel_width,stride_height,stride_width,dilation_height,dilation_width,time_us\n";

Expected<hardware::GpuProfile> read(const std::string& text) { return parse_yaml(text, "f").and_then(read_profile); }

std::string fault(const std::string& text) {
  const auto profile = read(text);
  if (profile) return "none";
  const Error& error = profile.error();
  return std::to_string(error.where.line) + ":" + std::to_string(error.where.column) + " " + error.message;
}

}  // namespace

TEST_CASE("profile file: every value arrives") {
  const std::string shared =
      "    overhead: 20 us\n    floor: 30 us\n    memory_efficiency: 0.8\n    not_overlapped: 0.2\n    prologue_steps: "
      "17\n    partial_wave_cost: 0.7\n"
      "    sustained_slowdown: 0.1\n    slowdown_half_time: 9 ms\n    tiles: [{m: 128, n: 64, efficiency: 0.9, "
      "tiles_to_fill: 1.5}]\n";
  const std::string gemm =
      shared + "    split_k_launch: 2 us\n    split_k_passes: 2\n    long_k: 8192\n    long_k_slowdown: 0.01\n";
  const auto profile =
      read(kHead + "launch_interval: 2.3 us\ngemms:\n  - precision: fp16\n    batched: true\n" + gemm + kReport +
           "convolutions:\n  - precision: fp32\n" + shared +
           "    overhead_growth: 2 ns\n    winograd_nonfused: {prologue_steps: 5, activation_passes: "
           "2, weight_passes: 3, extra_launches: 3 us, tiles: [{m: 64, n: 64, "
           "efficiency: 0.9, tiles_to_fill: 1}]}\n    gradients: {rows: 7, input: 1.1, strided: 1.7, "
           "weight: 1.2, weight_reduction_steps: 330, weight_winograd: 0.7}\n" +
           kReport + kMeasuredHeader + "  fp32,weight-gradient,8,3,64,,224,224,112,112,7,7,2,2,,,90\n" + kMemoryBound +
           "notes: some\n");
  REQUIRE(profile.has_value());
  CHECK(profile->id == "t4");
  CHECK(profile->gpu == "t4");
  CHECK(profile->date == "2025-01-31");
  CHECK(profile->launch_interval->in(microseconds) == Approx(2.3));
  REQUIRE(profile->gemms.size() == 1);
  CHECK(profile->gemms[0].precision == Precision::kFp16);
  CHECK(profile->gemms[0].overhead.in(microseconds) == Approx(20));
  CHECK(profile->gemms[0].prologue_steps == 17);
  CHECK(profile->gemms[0].batched);
  CHECK(profile->gemms[0].floor.in(microseconds) == Approx(30));
  CHECK(profile->gemms[0].slowdown_half_time.in(milliseconds) == Approx(9));
  CHECK(profile->gemms[0].long_k_slowdown == 0.01);
  CHECK(profile->gemms[0].tiles.at(0).n == 64);
  CHECK(profile->gemms[0].tiles.at(0).tiles_to_fill == 1.5);
  REQUIRE(profile->convolutions.size() == 1);
  CHECK(profile->convolutions[0].implicit_gemm.prologue_steps == 17);
  CHECK(profile->convolutions[0].winograd_fused.efficiency == 0.0);
  CHECK(profile->convolutions[0].overhead_growth.in(nanoseconds) == Approx(2));
  CHECK(profile->convolutions[0].winograd_nonfused.weight_passes == 3);
  CHECK(profile->convolutions[0].winograd_nonfused.tiles.at(0).m == 64);
  CHECK(profile->convolutions[0].winograd_nonfused.extra_launches.in(microseconds) == Approx(3));
  CHECK(profile->convolutions[0].gradient_rows == 7);
  CHECK(profile->convolutions[0].strided_gradient == 1.7);
  CHECK(profile->convolutions[0].weight_gradient == 1.2);
  CHECK(profile->convolutions[0].weight_reduction_steps == 330);
  CHECK(profile->convolutions[0].weight_winograd == 0.7);
  REQUIRE(profile->measured_convolutions.size() == 1);
  const auto& measured = profile->measured_convolutions[0];
  CHECK(measured.shape.pass == primitives::ConvolutionPass::kWeightGradient);
  CHECK(measured.shape.kernel == std::array<std::int64_t, 2>{7, 7});
  CHECK(measured.shape.dilation == std::array<std::int64_t, 2>{1, 1});
  CHECK(measured.shape.input == std::array<std::int64_t, 2>{224, 224});
  CHECK(measured.shape.stride == std::array<std::int64_t, 2>{2, 2});
  CHECK(measured.shape.groups == 1);
  CHECK(measured.batch == 8);
  CHECK(measured.time == microseconds(90));
  REQUIRE(profile->memory_bound.size() == 1);
  const auto& curve = profile->memory_bound[0];
  CHECK(curve.kind == primitives::MemoryBoundKind::kSoftmax);
  CHECK(curve.row_from == 1025);
  CHECK(curve.slope_changes == std::vector<std::pair<double, double>>{{0, 1.1}, {2, -0.2}});
  CHECK(curve.row_length_factors == std::vector<std::pair<std::int64_t, double>>{{1537, 1.2}, {2049, 0.9}});
  CHECK(curve.time_per_row.in(nanoseconds) == Approx(80));
  CHECK(curve.overheads.at(0).floor.in(microseconds) == Approx(41));
  const auto& report = curve.report;
  CHECK(report.fitted == 8);
  CHECK(report.bias == -0.1);
  CHECK(report.interval == std::pair{0.9, 1.1});
  CHECK(report.fitted_ranges.at(0).most == 2e9);
  CHECK(report.standard_errors.at(0).relative == 0.01);
  CHECK(profile->notes == "some");
  CHECK(write_profile(*read(write_profile(*profile))) == write_profile(*profile));
}

TEST_CASE("profile file: another run of the same GPU") {
  const std::string another = "standard_errors: {slope: 0.01}, another_run: {time: 0.64, rows: 86, measured: other}}";
  const std::string text = kHead + replaced(kMemoryBound, "standard_errors: {slope: 0.01}}", another);
  const auto profile = read(text);
  REQUIRE(profile);
  const auto& report = profile->memory_bound.at(0).report;
  REQUIRE(report.another_run);
  CHECK(report.another_run->rows == 86);
  CHECK(report.another_run->measured == "other");
  CHECK(report.of_all_runs() == Approx(0.8));
  CHECK(write_profile(*read(write_profile(*profile))) == write_profile(*profile));
  CHECK(write_profile(*profile).find("another_run: {time: 0.64, rows: 86, measured: \"other\"}") != std::string::npos);
  CHECK(read(kHead + kMemoryBound)->memory_bound.at(0).report.of_all_runs() == 1);
  CHECK(fault(replaced(text, "time: 0.64, ", "")).find("time") != std::string::npos);
  CHECK(fault(replaced(text, "0.64", "0")) != "none");
  CHECK(fault(replaced(text, "rows: 86", "rows: 0")) != "none");
}

namespace {

const std::string kAttention =
    "attention:\n"
    "  - precision: bf16\n"
    "    pass: backward\n"
    "    overheads: [{series: a, overhead: 8 us, floor: 12 us, copied_passes: 2}, {overhead: 1 us, floor: 2 us}]\n"
    "    memory_efficiency: 0.8\n"
    "    not_overlapped: 0.2\n"
    "    prologue_steps: 100\n"
    "    masked_steps: 17\n"
    "    partial_wave_cost: 0.9\n"
    "    sustained_slowdown: 0.1\n"
    "    slowdown_half_time: 9 ms\n"
    "    widths: [{width: 64, rows: 128, efficiency: 0.5, tiles_to_fill: 1}, {width: 128, rows: 64, efficiency: 0.7, "
    "tiles_to_fill: 2}]\n"
    "    report: {measured: x, fitted: 8, held_out: 2, mean: 0.1, median: 0.1, p95: 0.2, worst: 0.3, bias: -0.1, "
    "interval: [0.9, 1.1], coverage: 0.5}\n";

}  // namespace

TEST_CASE("profile file: attention") {
  const auto profile = read(kHead + kAttention);
  REQUIRE(profile.has_value());
  REQUIRE(profile->attention.size() == 1);
  const hardware::AttentionCurve& curve = profile->attention[0];
  CHECK(curve.pass == primitives::AttentionPass::kBackward);
  REQUIRE(curve.overheads.size() == 2);
  CHECK(curve.overheads[0].adds.series == "a");
  CHECK(curve.overheads[0].copied_passes == 2);
  CHECK(curve.overheads[1].adds.floor == microseconds(2));
  CHECK(curve.overheads[1].copied_passes == 0);
  CHECK(curve.masked_steps == 17);
  CHECK(curve.slowdown_half_time == milliseconds(9));
  REQUIRE(curve.widths.size() == 2);
  CHECK(curve.widths[1].rows == 64);
  CHECK(curve.widths[1].tiles_to_fill == 2);
  CHECK(write_profile(*read(write_profile(*profile))) == write_profile(*profile));
  const auto with = [](const char* from, const char* to) { return fault(kHead + replaced(kAttention, from, to)); };
  CHECK(with("width: 128", "width: 64") == "15:73 widths rise");
  CHECK(with("backward", "sideways") == "6:11 unknown pass 'sideways'");
  CHECK(with("efficiency: 0.5", "efficiency: 0").substr(0, 3) == "15:");
  CHECK(with("9 ms", "9").substr(0, 3) == "14:");
  CHECK(fault(kHead + kAttention + kAttention.substr(kAttention.find("  - "))) ==
        "17:5 a second curve for the same thing");
}

TEST_CASE("profile file: faults of measured convolutions have a place") {
  const std::string row = "fp32,forward,8,3,64,1,224,224,112,112,7,7,2,2,1,1,90\n";
  const auto with = [&](const std::string& rows) { return fault(kHead + kMeasuredHeader + rows); };
  CHECK(with("  " + row) == "none");
  CHECK(with("  " + row + "  " + replaced(row, "forward", "sideways")) == "7:8 unknown pass 'sideways'");
  CHECK(with("  " + replaced(row, "3,64", "3,0")).substr(0, 5) == "6:20 ");
  CHECK(with("  " + replaced(row, "90", "")) == "6:3 the row has no time");
  CHECK(with("  fp32,forward\n") == "6:3 2 fields, but the header names 17 columns");
  CHECK(fault(kHead + replaced(kMeasuredHeader, ",groups", ",group")) == "5:31 unknown column 'group'");
  CHECK(fault(kHead + "measured_convolutions:\n  - {precision: fp32}\n") ==
        "5:3 a table of measured convolutions is wanted here, not a list");
}

TEST_CASE("profile file: faults have a place") {
  CHECK(fault(kHead + kMemoryBound) == "none");
  CHECK(fault("gpu: t4\n") == "1:1 a calibration file needs the key 'calibration'");
  CHECK(fault(kHead + "sweeps: []\n") == "4:1 unknown key 'sweeps' in a calibration file");
  CHECK(fault(kHead + "memory_bound: {}\n") == "4:15 a list is wanted here: [...]");
  CHECK(fault(kHead + replaced(kMemoryBound, "80 ns", "80")).substr(0, 5) == "8:19 ");
  CHECK(fault(kHead + replaced(kMemoryBound, "by: 1.1", "by: .nan")).substr(0, 2) == "7:");
  CHECK(fault(kHead + replaced(kMemoryBound, "by: 1.1", "by: -1")).substr(0, 2) == "7:");
  CHECK(fault(kHead + replaced(kMemoryBound, "at_l2: 2", "at_l2: 0")) == "7:42 slope changes start at 0 and rise");
  CHECK(fault(kHead + replaced(kMemoryBound, "{at_l2: 0, by: 1.1}, {at_l2: 2, by: -0.2}", "")) ==
        "7:20 no slope change");
  CHECK(fault(kHead + replaced(kMemoryBound, "by: -0.2", "by: -1.2")) ==
        "7:20 more bytes would take less time: slopes add up to less than 0");
  CHECK(fault(kHead + replaced(kMemoryBound, "from: 2049", "from: 1537")) == "9:53 row lengths rise");
  CHECK(fault(kHead + replaced(kMemoryBound, "factor: 1.2", "factor: 0")).substr(0, 2) == "9:");
  CHECK(fault(kHead + replaced(kMemoryBound, "softmax", "soft")) == "5:11 unknown kind 'soft'");
  CHECK(fault(kHead + replaced(kMemoryBound, "[0.9, 1.1]", "[1.1, 0.9]")).substr(0, 3) == "11:");
  CHECK(fault(kHead + replaced(kMemoryBound, "[0.9, 1.1]", "[1.1]")).substr(0, 3) == "11:");
  CHECK(fault(kHead + replaced(kMemoryBound, "coverage: 0.5", "coverage: 2")).substr(0, 3) == "11:");
  CHECK(fault(kHead + kMemoryBound + kMemoryBound.substr(kMemoryBound.find("  - "))) ==
        "12:5 a second curve for the same thing");
}
