// Profiles as files.
#include "ddlsim/io/profile_file.h"

#include <catch2/catch.hpp>
#include <string>

namespace {

using namespace ddlsim;
using namespace ddlsim::io;

const std::string kReport =
    "    report: {measured: m, fitted: 8, held_out: 2, mean: 0.1, median: 0.1, p95: 0.2, worst: 0.2, bias: -0.1, "
    "interval: [0.9, 1.1], coverage: 0.5, hull: {bytes: [1, 2e9]}, standard_errors: {slope: 0.01}}\n";
const std::string kHead = "calibration: t4\ngpu: t4\ndate: 2025-01-31\n";
const std::string kSweep =
    "sweeps:\n  - kind: softmax\n    row_from: 1025\n"
    "    hinges: [{at_l2: 0, slope: 1.1}, {at_l2: 2, slope: -0.2}]\n    per_row: 80 ns\n"
    "    lengths: [{from: 1537, factor: 1.2}, {from: 2049, factor: 0.9}]\n"
    "    overheads: [{series: a, overhead: 24 us, floor: 41 us}]\n" +
    kReport;

Expected<hardware::GpuProfile> read(const std::string& text) { return parse_yaml(text, "f").and_then(read_profile); }

std::string fault(const std::string& text) {
  const auto profile = read(text);
  if (profile) return "none";
  const Error& error = profile.error();
  return std::to_string(error.where.line) + ":" + std::to_string(error.where.column) + " " + error.message;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

}  // namespace

TEST_CASE("profile file: every value arrives") {
  const std::string shared =
      "    overhead: 20 us\n    floor: 30 us\n    memory: 0.8\n    exposed: 0.2\n    k_start: 17\n    quantised: 0.7\n"
      "    slowdown: 0.1\n    settle: 9 ms\n    tiles: [{m: 128, n: 64, efficiency: 0.9, resident: 1.5}]\n";
  const std::string product = shared + "    split_start: 2 us\n    split_passes: 2\n    far_k: 8192\n    far: 0.01\n";
  const auto profile =
      read(kHead + "launch_interval: 2.3 us\nproducts:\n  - precision: fp16\n    batched: true\n" + product + kReport +
           "convolutions:\n  - precision: fp32\n" + shared +
           "    drift: 2 ns\n    winograd4: {k_start: 5, moved: 2, weights: 3, start: 3 us, tiles: [{m: 64, n: 64, "
           "efficiency: 0.9, resident: 1}]}\n    gradients: {rows: 7, input: 1.1, strided: 1.7, "
           "weight: 1.2, weight_start: 330, weight_winograd: 0.7}\n" +
           kReport +
           "measured_convolutions:\n  - {precision: fp32, pass: weight-gradient, batch: 8, in: 3, "
           "out: 64, input: [224, 224], output: [112, 112], kernel: [7, 7], stride: [2, 2], "
           "time: 90 us}\n" +
           kSweep + "notes: some\n");
  REQUIRE(profile.has_value());
  CHECK(profile->id == "t4");
  CHECK(profile->gpu == "t4");
  CHECK(profile->date == "2025-01-31");
  CHECK(profile->launch_interval->in(microseconds) == Approx(2.3));
  REQUIRE(profile->products.size() == 1);
  CHECK(profile->products[0].precision == Precision::kFp16);
  CHECK(profile->products[0].overhead.in(microseconds) == Approx(20));
  CHECK(profile->products[0].k_start == 17);
  CHECK(profile->products[0].batched);
  CHECK(profile->products[0].floor.in(microseconds) == Approx(30));
  CHECK(profile->products[0].settle.in(milliseconds) == Approx(9));
  CHECK(profile->products[0].far == 0.01);
  CHECK(profile->products[0].tiles.at(0).n == 64);
  CHECK(profile->products[0].tiles.at(0).resident == 1.5);
  REQUIRE(profile->convolutions.size() == 1);
  CHECK(profile->convolutions[0].product.k_start == 17);
  CHECK(profile->convolutions[0].winograd2.efficiency == 0.0);
  CHECK(profile->convolutions[0].drift.in(nanoseconds) == Approx(2));
  CHECK(profile->convolutions[0].winograd4.weights == 3);
  CHECK(profile->convolutions[0].winograd4.tiles.at(0).m == 64);
  CHECK(profile->convolutions[0].winograd4.start.in(microseconds) == Approx(3));
  CHECK(profile->convolutions[0].gradient_rows == 7);
  CHECK(profile->convolutions[0].strided_gradient == 1.7);
  CHECK(profile->convolutions[0].weight_gradient == 1.2);
  CHECK(profile->convolutions[0].weight_start == 330);
  CHECK(profile->convolutions[0].weight_winograd == 0.7);
  REQUIRE(profile->measured_convolutions.size() == 1);
  const auto& measured = profile->measured_convolutions[0];
  CHECK(measured.shape.pass == primitives::ConvolutionPass::kWeightGradient);
  CHECK(measured.shape.kernel == std::array<std::int64_t, 2>{7, 7});
  CHECK(measured.shape.dilation == std::array<std::int64_t, 2>{1, 1});
  CHECK(measured.batch == 8);
  REQUIRE(profile->sweeps.size() == 1);
  const auto& sweep = profile->sweeps[0];
  CHECK(sweep.kind == primitives::SweepKind::kSoftmax);
  CHECK(sweep.row_from == 1025);
  CHECK(sweep.hinges == std::vector<std::pair<double, double>>{{0, 1.1}, {2, -0.2}});
  CHECK(sweep.lengths == std::vector<std::pair<std::int64_t, double>>{{1537, 1.2}, {2049, 0.9}});
  CHECK(sweep.per_row.in(nanoseconds) == Approx(80));
  CHECK(sweep.overheads.at(0).floor.in(microseconds) == Approx(41));
  const auto& report = sweep.report;
  CHECK(report.fitted == 8);
  CHECK(report.bias == -0.1);
  CHECK(report.interval == std::pair{0.9, 1.1});
  CHECK(report.hull.at(0).most == 2e9);
  CHECK(report.standard_errors.at(0).relative == 0.01);
  CHECK(profile->notes == "some");
  CHECK(write_profile(*read(write_profile(*profile))) == write_profile(*profile));
}

TEST_CASE("profile file: faults have a place") {
  CHECK(fault(kHead + kSweep) == "none");
  CHECK(fault("gpu: t4\n") == "1:1 a calibration file needs the key 'calibration'");
  CHECK(fault(kHead + "sweep: []\n") == "4:1 unknown key 'sweep' in a calibration file");
  CHECK(fault(kHead + "sweeps: {}\n") == "4:9 a list is wanted here: [...]");
  CHECK(fault(kHead + replaced(kSweep, "80 ns", "80")).substr(0, 5) == "8:14 ");
  CHECK(fault(kHead + replaced(kSweep, "slope: 1.1", "slope: .nan")).substr(0, 2) == "7:");
  CHECK(fault(kHead + replaced(kSweep, "slope: 1.1", "slope: -1")).substr(0, 2) == "7:");
  CHECK(fault(kHead + replaced(kSweep, "at_l2: 2", "at_l2: 0")) == "7:38 hinges start at 0 and rise");
  CHECK(fault(kHead + replaced(kSweep, "{at_l2: 0, slope: 1.1}, {at_l2: 2, slope: -0.2}", "")) == "7:13 no hinge");
  CHECK(fault(kHead + replaced(kSweep, "slope: -0.2", "slope: -1.2")) ==
        "7:13 more bytes would take less time: slopes add up to less than 0");
  CHECK(fault(kHead + replaced(kSweep, "from: 2049", "from: 1537")) == "9:42 lengths rise");
  CHECK(fault(kHead + replaced(kSweep, "factor: 1.2", "factor: 0")).substr(0, 2) == "9:");
  CHECK(fault(kHead + replaced(kSweep, "softmax", "soft")) == "5:11 unknown kind 'soft'");
  CHECK(fault(kHead + replaced(kSweep, "[0.9, 1.1]", "[1.1, 0.9]")).substr(0, 3) == "11:");
  CHECK(fault(kHead + replaced(kSweep, "[0.9, 1.1]", "[1.1]")).substr(0, 3) == "11:");
  CHECK(fault(kHead + replaced(kSweep, "coverage: 0.5", "coverage: 2")).substr(0, 3) == "11:");
  CHECK(fault(kHead + kSweep + kSweep.substr(kSweep.find("  - "))) == "12:5 a second curve for the same thing");
}
