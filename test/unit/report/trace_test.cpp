#include "ddlsim/report/trace.h"

#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "ddlsim/events/collective_programs.h"

using namespace ddlsim;
using namespace ddlsim::events;
using nlohmann::json;

namespace {

json parsed(const Program& program) {
  return json::parse(report::chrome_trace(report::trace_of(program, run(program).value())));
}

/// Digits as written: picoseconds must survive.
std::int64_t picoseconds(const json& microseconds) { return std::llround(microseconds.get<double>() * 1e6); }

}  // namespace

TEST_CASE("trace: tracks, slices and exact times", "[unit][report]") {
  Program program;
  const auto gpu = *program.add_stream({.name = "gpu \"0\""});
  const auto link = *program.add_link({"nic", gigabytes_per_second(1)});
  const auto route = *program.add_route({{link, 4}});
  const auto kernel = *program.compute({.name = "kernel", .stream = gpu, .duration = nanoseconds(1234.567)});
  const auto sent = *program.transfer({.name = "send", .route = route, .size = kilobytes(1)}, {kernel});
  REQUIRE(program.join("done", {sent}));
  const report::Trace trace = report::trace_of(program, run(program).value());
  // 1 kB as one of 4 alike over 1 GB/s: 4 us after 1.234567 us; the join takes no time
  const std::string expected =
      "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
      R"({"ph":"M","pid":1,"name":"process_name","args":{"name":"streams"}},)"
      "\n"
      R"({"ph":"M","pid":1,"tid":1,"name":"thread_name","args":{"name":"gpu \"0\""}},)"
      "\n"
      R"({"ph":"M","pid":2,"name":"process_name","args":{"name":"no stream"}},)"
      "\n"
      R"({"ph":"M","pid":2,"tid":2,"name":"thread_name","args":{"name":"lane 1"}},)"
      "\n"
      R"({"ph":"X","pid":1,"tid":1,"name":"kernel","ts":0.000000,"dur":1.234567,"args":{}},)"
      "\n"
      R"({"ph":"X","pid":2,"tid":2,"name":"send","ts":1.234567,"dur":4.000000,"args":{"bytes":"1000","links":"nic x 4"}})"
      "\n]}\n";
  CHECK(report::chrome_trace(trace) == expected);
}

TEST_CASE("trace: nothing at all is still a trace", "[unit][report]") {
  CHECK(parsed(Program{})["traceEvents"].empty());
}

TEST_CASE("trace: text that is not UTF-8 does not break it", "[unit][report]") {
  Program program;
  REQUIRE(program.compute({.name = "\xFF\n", .duration = nanoseconds(1)}));
  CHECK(parsed(program)["traceEvents"].back()["name"] == "\xEF\xBF\xBD\n");
}

TEST_CASE("trace: slices on one track never overlap", "[unit][report]") {
  Program program = all_reduce_program({.algorithm = AllReduceAlgorithm::kHierarchical,
                                        .size = megabytes(7),
                                        .nodes = 3,
                                        .gpus_per_node = 4,
                                        .gpu = gigabytes_per_second(13),
                                        .network = gigabytes_per_second(3),
                                        .gpu_latency = microseconds(1),
                                        .network_latency = microseconds(7)})
                        .value();
  // Transfers of another job, without a stream: all at once and one after another.
  const auto route = *program.add_route({{LinkId{0}}});
  for (int i = 0; i < 40; ++i) {
    REQUIRE(program.transfer(
        {.name = "other", .route = route, .size = kilobytes(100 + i), .earliest = microseconds(i % 10 * 30)}));
  }
  const json events = parsed(program)["traceEvents"];
  std::map<std::pair<int, int>, std::int64_t> end;
  std::size_t slices = 0;
  for (const json& event : events) {
    if (event["ph"] != "X") continue;
    ++slices;
    const std::int64_t start = picoseconds(event["ts"]);
    const std::int64_t duration = picoseconds(event["dur"]);
    CHECK(duration > 0);
    std::int64_t& last = end[{event["pid"], event["tid"]}];
    CHECK(start >= last);
    last = start + duration;
  }
  CHECK(slices == program.tasks());
  CHECK(end.size() > 12 + 1);  // 12 ranks, and more than one lane for what overlaps
  CHECK(end.size() <= 12 + 40);
}
