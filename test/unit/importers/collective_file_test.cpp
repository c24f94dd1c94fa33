#include "ddlsim/importers/collective_file.h"

#include <catch2/catch.hpp>
#include <sstream>
#include <string>

using namespace ddlsim;
using namespace ddlsim::importers;
using Catch::Matchers::Contains;

namespace {

const std::string kFolder = std::string(DDLSIM_SOURCE_DATA) + "/test/data/collectives/";

const std::string kBanner =
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 16\n"
    "#  Rank  0 Group  0 Pid 1 on red device  0 [0000:07:00] GPU\n"
    "#  Rank  1 Group  0 Pid 2 on red device  1 [0000:0b:00] GPU\n"
    "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n";
const std::string kTrailer = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1\n";

Error refusal(const std::string& text, const CollectiveFileDefaults& defaults = {
                                           .op = primitives::CollectiveOp::kAllReduce, .gpus = {}, .nodes = {}}) {
  std::istringstream stream(text);
  const auto rows = read_nccl_tests_text(stream, "run.txt", defaults);
  REQUIRE_FALSE(rows);
  return rows.error();
}

}  // namespace

TEST_CASE("collective file: nccl-tests text tells operation, ranks, hosts and times", "[unit][io]") {
  const auto rows = load_collectives(kFolder + "all_reduce_2x2.txt");
  REQUIRE(rows);
  REQUIRE(rows->size() == 3);  // the row of size 0 is dropped
  const primitives::CollectiveMeasurement& first = rows->front();
  CHECK(first.op == primitives::CollectiveOp::kAllReduce);
  CHECK(first.gpus == 4);
  CHECK(first.nodes == 2);
  CHECK(first.size == bytes(1048576));
  CHECK(first.time.in(microseconds) == Approx(210));
  CHECK(first.where.line == 16);
  const auto in_place =
      load_collectives(kFolder + "all_reduce_2x2.txt", {.op = {}, .gpus = {}, .nodes = {}, .in_place = true});
  REQUIRE(in_place);
  CHECK(in_place->back().time.in(microseconds) == Approx(690));
}

TEST_CASE("collective file: an old version without Group, redop and root, in colour", "[unit][io]") {
  const auto rows = load_collectives(kFolder + "all_gather_2019.txt");
  REQUIRE(rows);
  REQUIRE(rows->size() == 2);
  CHECK(rows->back().op == primitives::CollectiveOp::kAllGather);
  CHECK(rows->back().gpus == 2);
  CHECK(rows->back().nodes == 1);
  CHECK(rows->back().time.in(microseconds) == Approx(5900));
}

TEST_CASE("collective file: JSON lists one device of each process", "[unit][io]") {
  // Two processes of two GPUs each, ranks 0 and 2: four GPUs on two hosts.
  const auto rows = load_collectives(kFolder + "all_reduce_2x2.json");
  REQUIRE(rows);
  REQUIRE(rows->size() == 2);
  CHECK(rows->front().gpus == 4);
  CHECK(rows->front().nodes == 2);
  CHECK(rows->back().time.in(microseconds) == Approx(380));
}

TEST_CASE("collective file: CSV", "[unit][io]") {
  const auto rows = load_collectives(kFolder + "all_reduce.csv");
  REQUIRE(rows);
  REQUIRE(rows->size() == 3);
  CHECK(rows->at(1).size == bytes(4194304));
  CHECK(rows->at(1).time.in(microseconds) == Approx(100));
  std::istringstream wrong("op,gpus,nodes,size_bytes,time_us\nall_reduce,8,1,12,fast\n");
  const auto refused = read_collective_csv(wrong, "t.csv");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().where == SourceLocation{"t.csv", 2, 19});
}

TEST_CASE("collective file: several runs follow each other", "[unit][io]") {
  const std::string row = "1024 256 float sum -1 10.0 0.10 0.10 0 9.0 0.11 0.11 0\n";
  std::istringstream stream("# Collective test starting: all_reduce_perf\n" + kBanner + row + kTrailer +
                            "# Collective test starting: reduce_scatter_perf\n" + kBanner + row + kTrailer);
  const auto rows = read_nccl_tests_text(stream, "run.txt");
  REQUIRE(rows);
  REQUIRE(rows->size() == 2);
  CHECK(rows->at(0).op == primitives::CollectiveOp::kAllReduce);
  CHECK(rows->at(1).op == primitives::CollectiveOp::kReduceScatter);
}

TEST_CASE("collective file: what is wrong is said with its place", "[unit][io]") {
  const std::string row = "1024 256 float sum -1 10.0 0.10 0.10 0 9.0 0.11 0.11 0\n";
  CHECK_THAT(refusal(kBanner + row).message, Contains("cut short"));
  CHECK(refusal(kBanner + row).where.line == 5);
  CHECK_THAT(refusal(kBanner + "1024 256 float sum -1 10.0 0.1\n").message, Contains("cut short"));
  const Error number = refusal(kBanner + "1024 256 float sum -1 1O.0 0.10 0.10 0 9.0 0.11 0.11 0\n" + kTrailer);
  CHECK_THAT(number.message, Contains("'1O.0'"));
  CHECK(number.where == SourceLocation{"run.txt", 5, 23});
  CHECK_THAT(refusal(kBanner + row + "# Out of bounds values : 3 FAILED\n# Avg bus bandwidth : 1\n").message,
             Contains("wrong values"));
  CHECK_THAT(refusal("# Collective test starting: gather_perf\n" + kBanner).message, Contains("'gather'"));
  // 10 GB/s of algbw are 10 GB/s of busbw for an all_reduce of two GPUs: these are not.
  CHECK_THAT(refusal(kBanner + "100000 25000 float sum -1 10.0 10.0 5.0 0 10.0 10.0 5.0 0\n" + kTrailer).message,
             Contains("busbw / algbw is 0.500"));
  CHECK_THAT(refusal("# nThread 1 nGpus 1\n# size count type redop root cputime algbw busbw #wrong time\n").message,
             Contains("CPU times"));
  CHECK_THAT(refusal("hello\n").message, Contains("no nccl-tests output"));
  CHECK_THAT(refusal(kBanner + row + kTrailer, {}).message, Contains("does not say which operation"));
}

TEST_CASE("collective file: JSON that is cut short or odd", "[unit][io]") {
  const auto message = [](std::string_view text) {
    const auto rows =
        read_nccl_tests_json(text, "run.json", {.op = primitives::CollectiveOp::kAllReduce, .gpus = 2, .nodes = {}});
    REQUIRE_FALSE(rows);
    return rows.error().message;
  };
  CHECK_THAT(message("{\"version\": 2, \"results\": [{\"size\": 8"), Contains("cut short"));
  CHECK_THAT(message("{\"results\": [{\"size\": 8}]}"), Contains("average_bus_bandwidth"));
  CHECK_THAT(
      message("{\"results\": [{\"size\": 8, \"in_place\": {\"time\": \"nan\"}}], \"average_bus_bandwidth\": {}}"),
      Contains("results[0].in_place.time is not a number"));
  CHECK_THAT(message("{\"results\": [{\"size\": -8}], \"average_bus_bandwidth\": {}}"), Contains("results[0].size"));
  CHECK_THAT(message("[]"), Contains("no JSON object"));
  CHECK_THAT(message("{\"results\": []}"), Contains("empty"));
}
