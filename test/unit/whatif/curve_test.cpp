// A job over the values of a setting.
#include "ddlsim/whatif/curve.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "catalog.h"
#include "ddlsim/report/views.h"
#include "ddlsim/whatif/predict.h"
#include "overrides.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using ddlsim::test::overrides;

namespace {

const std::vector<whatif::Override> kJob = overrides("model resnet50; node dgx1-v100");

answer::Curve curve_of(const std::string& text, const std::vector<whatif::Override>& job = kJob) {
  const auto setting = whatif::parse_curve(text);
  if (!setting) FAIL(to_string(setting.error()));
  auto curve = whatif::curve(catalog(), job, *setting);
  if (!curve) FAIL(to_string(curve.error()));
  return std::move(*curve);
}

}  // namespace

TEST_CASE("curve: a point is what predict says") {
  const answer::Curve curve = curve_of("nodes=4,1,2");
  REQUIRE(curve.points.size() == 3);
  CHECK(curve.numbers);
  CHECK(curve.points[0].value == "1");
  CHECK(curve.points[2].x == 4);
  std::vector<whatif::Override> settings = kJob;
  settings.push_back({"nodes", "4", {}});
  const auto prediction = whatif::predict(*whatif::resolve(catalog(), settings));
  CHECK(curve.points[2].prediction.step_time == prediction->step_time);
  CHECK(curve.points[2].prediction.gpus == 32);
}

TEST_CASE("curve: points that do not fit are said") {
  const std::vector<whatif::Override> llama = overrides("model llama_3_1_70b; node dgx-h100; batch 1; parallel.zero 3");
  const answer::Curve curve = curve_of("nodes=1,16", llama);
  const std::string text = report::render(curve, report::Format::kText);
  CHECK_THAT(text, Catch::Contains("1 (does not fit)"));
  CHECK_THAT(report::render(curve, report::Format::kCsv),
             Catch::Contains(",memory_bytes_per_gpu,fits,why\n") && Catch::Contains(",false,\n"));
}

TEST_CASE("curve: quantities are placed by size, words by their place") {
  const answer::Curve rates = curve_of("network=100 Gb/s,25 Gb/s");
  CHECK(rates.points[0].value == "25 Gb/s");
  CHECK(rates.points[0].x == Approx(25e9 / 8));
  const answer::Curve words = curve_of("precision=fp32,fp16");
  CHECK_FALSE(words.numbers);
  CHECK(words.points[0].value == "fp32");
  CHECK(words.points[1].x == 2);
}

TEST_CASE("curve: a value without an answer is a gap, a curve of gaps none") {
  const answer::Curve curve = curve_of("gpus_per_node=1,8,9");
  CHECK(curve.points.size() == 2);
  REQUIRE(curve.gaps.size() == 1);
  CHECK(curve.gaps[0].value == "9");
  CHECK_FALSE(curve.gaps[0].why.empty());
  for (const auto format : {report::Format::kText, report::Format::kCsv, report::Format::kJson}) {
    CHECK_THAT(report::render(curve, format), Catch::Contains("out of range"));
  }
  CHECK_THAT(report::render(curve, report::Format::kCsv), Catch::Contains("\n9,,,,,,,,,,,"));
  const auto none = whatif::curve(catalog(), kJob, *whatif::parse_curve("gpus_per_node=9,10"));
  REQUIRE_FALSE(none);
  CHECK_FALSE(whatif::curve(catalog(), kJob, *whatif::parse_curve("no.such=1,2")));
}

TEST_CASE("curve: what is no curve says what one is") {
  for (const char* text :
       {"", "nodes", "=1,2", "nodes=", "nodes=1,1", "nodes=1,,2", "nodes=4..1:x2", "nodes=1..2000000:+1"}) {
    INFO(text);
    CHECK_FALSE(whatif::parse_curve(text));
  }
}

TEST_CASE("curve: perfect scaling is the first point's rate per GPU") {
  const answer::Curve curve = curve_of("nodes=1,4");
  const auto json = nlohmann::json::parse(report::render(curve, report::Format::kJson));
  CHECK(json["schema"] == "ddlsim/curve/1");
  const double first = json["points"][0]["prediction"]["throughput_samples_per_s"];
  CHECK(json["points"][1]["perfect_throughput_samples_per_s"].get<double>() == Approx(4 * first));
  const std::string text = report::render(curve, report::Format::kText);
  CHECK(text.find("of perfect scaling from nodes = 1") != std::string::npos);
  CHECK(text.find("perfect scaling\n") != std::string::npos);
}

TEST_CASE("curve: over what is no count of GPUs nothing scales, and tokens are counted") {
  const std::vector<whatif::Override> job = overrides("model gpt2; node dgx-a100; precision bf16");
  const answer::Curve curve = curve_of("model.sequence=512,1024", job);
  const std::string text = report::render(curve, report::Format::kText);
  CHECK(text.find("perfect") == std::string::npos);
  CHECK(text.find(" tokens/s), a step in ") != std::string::npos);
  CHECK(text.find("  tokens/s  ") != std::string::npos);
  // Lengths may be written in Ki, and are placed by size.
  const answer::Curve lengths = curve_of("model.sequence=1Ki,512", job);
  CHECK(lengths.points.front().value == "512");
  CHECK(lengths.points.back().prediction.step_time == curve.points.back().prediction.step_time);
  // A tensor-parallel degree leaves the GPUs as they are; images have no tokens.
  CHECK(report::render(curve_of("parallel.tensor=1,2", job), report::Format::kText).find("perfect") ==
        std::string::npos);
  CHECK(report::render(curve_of("batch=32,64"), report::Format::kText).find("tokens/s") == std::string::npos);
}
