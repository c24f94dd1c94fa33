// The measuring program's host side (bench/calibrate): statistics, plan, options, files. No GPU, no CUDA.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "ddlsim/io/kernel_file.h"
#include "options.h"
#include "plan.h"
#include "record.h"
#include "statistics.h"

namespace {

using namespace ddlsim::measure;  // NOLINT(google-build-using-namespace): what is under test

std::vector<Point> all_points(const Options& options, const Device& device = {}) {
  std::vector<Point> points;
  for (const Block& block : make_plan(options, device, 8)) {
    points.insert(points.end(), block.points.begin(), block.points.end());
  }
  return points;
}

struct TemporaryFile {
  std::string path = (std::filesystem::temp_directory_path() / "ddlsim_measure_test.jsonl").string();
  TemporaryFile() { std::filesystem::remove(path); }
  ~TemporaryFile() { std::filesystem::remove(path); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
};

constexpr const char* kContext = R"({"schema":"ddlsim/measurement/1","context":{"gpu":"A","driver":"1"}})";

TEST_CASE("the median's interval by order statistics") {
  // P(B(5, 1/2) = 0) = 1/32 > 2.5 %: no rank; n = 6: 1/64 < 2.5 %; n = 9: P(B <= 1) = 10/512 = 1.95 %, P(B <= 2) = 9 %.
  CHECK(interval_rank(5) == 0);
  CHECK(interval_rank(6) == 1);
  CHECK(interval_rank(9) == 2);
  const Summary summary = summarise({5, 1, 9, 2, 8, 3, 7, 4, 6});
  CHECK(summary.median == 5);
  CHECK(summary.mad == 2);  // 4 3 2 1 0 1 2 3 4
  CHECK(summary.min == 1);
  CHECK(summary.half_interval == Approx((8 - 2) / 2.0 / 5));
  CHECK_FALSE(summary.two_modes);
}

TEST_CASE("two modes are a gap with samples on either side") {
  CHECK(summarise({1, 1, 1, 1, 1, 1, 1.5, 1.5, 1.5, 1.5}).two_modes);
  CHECK_FALSE(summarise({1, 1, 1, 1, 1, 1, 1, 1, 1, 1.5}).two_modes);  // one that lags is no mode
  CHECK_FALSE(summarise({1, 1.5}).two_modes);
}

TEST_CASE("sampling ends when the median is known, or the time is up") {
  StopRule rule;
  CHECK_FALSE(enough(std::vector<double>(8, 1.0), 0, rule));
  CHECK(enough(std::vector<double>(9, 1.0), 0, rule));
  CHECK_FALSE(enough({1, 2, 3, 4, 5, 6, 7, 8, 9}, 0, rule));
  CHECK(enough({1, 2, 3}, rule.seconds, rule));
  CHECK_FALSE(enough({1, 2}, 10 * rule.seconds, rule));
}

// What a GPU's run would write, by the reader that the fit has: `gemms` instead of `batch_count` once made every run of
// products unreadable.
TEST_CASE("every point has keys of its own, and a row of them is what the fit reads") {
  Options quick;
  quick.quick = true;
  for (const Options& options : {Options(), quick}) {
    std::set<std::string> seen;
    std::string file = R"({"schema":"ddlsim/measurement/1","context":{"gpu":"NVIDIA H200"}})";
    std::size_t rows = 0;
    for (const Point& point : all_points(options)) {
      INFO(point.keys());
      CHECK(seen.insert(point.keys()).second);
      Line row(point.keys());
      row.add("time_s", 1e-6);
      if (point.op == "overlap") row.add("slowdown", 1.0);
      CHECK_FALSE(keys_of_row(row.text()).empty());
      if (point.extra) continue;
      file += '\n' + row.text();
      ++rows;
    }
    std::istringstream stream(file + '\n');
    const auto read = ddlsim::io::read_kernels_json(stream, "h200.jsonl", {});
    INFO((read ? std::string() : ddlsim::to_string(read.error())));
    REQUIRE(read);
    CHECK(rows > 500);
  }
}

TEST_CASE("the plan of an H200") {
  std::size_t gemms = 0;
  std::set<std::int64_t> tiles;
  for (const Point& point : all_points({})) {
    if (point.op != "gemm" || point.precision != "bf16") continue;
    ++gemms;
    CHECK(point.flops() <= 4.5e12);
    if (point.m % 128 == 0 && point.n % 128 == 0) tiles.insert(point.m / 128 * (point.n / 128));
  }
  CHECK(gemms > 550);
  CHECK(gemms < 750);
  for (const std::int64_t edge : {131, 132, 133, 263, 264, 265}) CHECK(tiles.count(edge) == 1);
}

TEST_CASE("the plan is the same for a seed, another for another") {
  const auto first_keys = [](std::uint64_t seed) {
    Options options;
    options.seed = seed;
    std::string keys;
    for (const Point& point : all_points(options)) keys += point.keys();
    return keys;
  };
  CHECK(first_keys(1) == first_keys(1));
  CHECK(first_keys(1) != first_keys(2));
}

TEST_CASE("a GPU before Ampere is not asked for tf32 and bf16, one GPU not for collectives") {
  Device t4;
  t4.capability = 75;
  t4.multiprocessors = 40;
  t4.l2 = 4 << 20;
  t4.memory = std::int64_t{16} << 30;
  t4.clock = 1.59e9;
  for (const Point& point : all_points({}, t4)) {
    CHECK(point.precision != "bf16");
    CHECK(point.precision != "tf32");
    CHECK(point.op != "collective");
    CHECK(point.traffic() <= 0.26 * static_cast<double>(t4.memory));
    CHECK(point.taken * 2 <= t4.multiprocessors);
  }
  Device two;
  two.gpus = 2;
  const std::vector<Point> points = all_points({}, two);
  CHECK(std::any_of(points.begin(), points.end(), [](const Point& p) { return p.op == "collective"; }));
}

TEST_CASE("a convolution's output and work") {
  // ResNet-50's first: 224 + 2 * 3 - 7 = 223, / 2 + 1 = 112; 2 * 112^2 * 64 * 3 * 49 FLOP.
  Point point;
  point.op = "convolution";
  point.conv = {1, 3, 64, 1, 224, 7, 2, false};
  CHECK(point.conv.output() == 112);
  CHECK(point.flops() == Approx(236027904));
}

TEST_CASE("arguments of the measuring program") {
  const Options options = parse_options({"--only", "streams,rows", "--budget=30", "--resume", "a.jsonl", "--quick"});
  CHECK(options.error.empty());
  CHECK(options.wants("rows"));
  CHECK_FALSE(options.wants("gemms"));
  CHECK(options.seconds() == 30);
  CHECK(options.resume);
  CHECK(options.out == "a.jsonl");
  CHECK(parse_options({"--only", "gemm"}).error.find("gemms") != std::string::npos);
  CHECK(parse_options({"--budget", "soon"}).error == "--budget 'soon' is not seconds (1 to 1000000)");
  CHECK(parse_options({"--out"}).error == "--out needs a value");
  CHECK(parse_options({"--fast"}).error == "unknown argument '--fast'");
}

TEST_CASE("a file goes on where it was cut") {
  const TemporaryFile file;
  const std::string keys = R"("bench":"launch","op":"launch")";
  {
    Record record;
    REQUIRE(record.open(file.path, kContext, false, false).empty());
    REQUIRE(record.write(Line(keys).add("time_s", 1e-6).text()));
    REQUIRE(record.write(R"({"bench":"gated","op":"launch","time_)"));
  }
  std::filesystem::resize_file(file.path, std::filesystem::file_size(file.path) - 1);  // its end was never written
  {
    Record again;
    CHECK(again.open(file.path, kContext, false, false).find("--resume") != std::string::npos);
  }
  Record record;
  REQUIRE(record.open(file.path, kContext, true, false).empty());
  CHECK(record.has(keys));
  CHECK_FALSE(record.has(R"("bench":"gated","op":"launch")"));
  REQUIRE(record.write(Line(R"("bench":"gated","op":"launch")").add("time_s", 2e-6).text()));
  std::ifstream stream(file.path);
  std::size_t lines = 0;
  for (std::string line; std::getline(stream, line); ++lines) CHECK_NOTHROW(nlohmann::json::parse(line));
  CHECK(lines == 3);
}

TEST_CASE("a file of another GPU or driver is not gone on with") {
  const TemporaryFile file;
  { CHECK(Record().open(file.path, kContext, false, false).empty()); }
  const std::string other = R"({"schema":"ddlsim/measurement/1","context":{"gpu":"A","driver":"2"}})";
  Record record;
  CHECK(record.open(file.path, other, true, false) == file.path + ": its driver is '1', this is '2'");
}

}  // namespace
