// What bad input to `ddlsim collective` gets: the place, the valid choices, the right status, soon.
#include <catch2/catch.hpp>
#include <string>

#include "hostile/run_program.h"

namespace {

using namespace ddlsim::test;
using Catch::Matchers::Contains;

const Words kCommand{"collective", "--node", "dgx-a100"};
const std::string kBanner =
    "# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 1 minBytes 8 maxBytes 16\n"
    "#  Rank  0 Group  0 Pid 1 on red device  0 [0000:07:00] GPU\n"
    "#  Rank  1 Group  0 Pid 2 on red device  1 [0000:0b:00] GPU\n"
    "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n";
const std::string kTrailer = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1\n";
const std::string kCsv = "op,gpus,nodes,size_bytes,time_us\n";

void refuses(int status, const Words& arguments, const Words& says) {
  const Outcome outcome = run_program(arguments);
  CAPTURE(arguments.back().substr(0, 80));
  CHECK(outcome.status == status);
  CHECK(outcome.out.substr(0, 80) == "");
  CHECK(outcome.err.size() < 64 << 10);
  for (const std::string& part : says) CHECK_THAT(outcome.err.substr(0, 4000), Contains(part));
  CHECK_THAT(outcome.err.substr(0, 4000), !Contains("fault of ddlsim itself"));
  CHECK(outcome.cpu_seconds < kMostSeconds);
  CHECK(outcome.peak_bytes < kMostBytes);
}

void refuses_table(const TempFolder& folder, const std::string& text, const Words& says) {
  const std::string path = folder.file("table", text);
  Words all{path + says.front()};
  all.insert(all.end(), says.begin() + 1, says.end());
  refuses(kNoAnswer, plus(kCommand, {"--table", path}), all);
}

}  // namespace

TEST_CASE("collective: flags that make no question", "[hostile]") {
  refuses(kWrongUsage, {"collective"}, {"--node is missing", "dgx-a100"});
  refuses(kWrongUsage, {"collective", "all-sum", "--node", "dgx-a100"}, {"unknown operation 'all-sum'", "all_reduce"});
  refuses(kWrongUsage, plus(kCommand, {"--op", "all_reduces"}), {"--op", "did you mean 'all_reduce'"});
  refuses(kWrongUsage, plus(kCommand, {"--min", "1X"}), {"--min"});
  refuses(kWrongUsage, plus(kCommand, {"--min", "0"}), {"--min", "not above 0"});
  refuses(kWrongUsage, plus(kCommand, {"--min", "-8"}), {"--min"});
  refuses(kWrongUsage, plus(kCommand, {"--min", "nan"}), {"--min"});
  refuses(kWrongUsage, plus(kCommand, {"--min", "2K", "--max", "1K"}), {"--max is below --min"});
  refuses(kWrongUsage, plus(kCommand, {"--factor", "1"}), {"--factor"});
  refuses(kWrongUsage, plus(kCommand, {"--step", "1K", "--factor", "2"}), {"give one"});
  refuses(kWrongUsage, plus(kCommand, {"--compare", "nccl,sharp"}), {"--compare", "valid: nccl, mpi"});
  refuses(kWrongUsage, plus(kCommand, {"--compare", "nccl,nccl"}), {"twice"});
  refuses(kWrongUsage, plus(kCommand, {"--compare", "nccl,"}), {"--compare"});
  refuses(kNoAnswer, plus(kCommand, {"--max", "99999T"}), {"1e16"});
  refuses(kNoAnswer, plus(kCommand, {"--step", "1"}), {"more than 100,000 sizes"});
  refuses(kWrongUsage, plus(kCommand, {"--library", "sharp"}), {"--library", "nccl"});
  refuses(kNoAnswer, plus(kCommand, {"--algorithm", "bruck"}), {"no such algorithm", "ring"});
  refuses(kNoAnswer, plus(kCommand, {"--set", "nvlink=0 GB/s"}), {"nvlink"});
  refuses(kNoAnswer, plus(kCommand, {"--nodes", "2", "--network", "0 Gb/s"}), {"network"});
  refuses(kNoAnswer, plus(kCommand, {"--set", "modle=x"}), {"unknown setting 'modle'"});
}

TEST_CASE("collective: tables that are cut short or broken", "[hostile]") {
  const TempFolder folder;
  const std::string row = "1024 256 float sum -1 10.0 0.10 0.10 0 9.0 0.11 0.11 0\n";
  const std::string next = "2048 512 float sum -1 12.0 0.17 0.17 0 9.0 0.22 0.22 0\n";
  refuses(kNoAnswer, plus(kCommand, {"--table", "/nowhere/table"}), {"/nowhere/table: error: could not be opened"});
  refuses(kNoAnswer, plus(kCommand, {"--table", folder.path().string()}), {"is a directory"});
  refuses_table(folder, "", {":1: error: no nccl-tests output"});
  refuses_table(folder, kBanner, {":5:1: error: ", "cut short"});
  refuses_table(folder, kBanner + row + next, {":7:1: error: ", "cut short"});
  refuses_table(folder, kBanner + row + "2048 512 float sum -1 12.", {":7:1: error: ", "cut short"});
  refuses_table(folder, kBanner + next + row + kTrailer, {":7:23: error: ", "do not increase"});
  refuses_table(folder, kBanner + row + kTrailer, {":6:23: error: ", "one size"});
  refuses_table(folder, kBanner + row + "2048 512 float sum -1 -12.0 0.17 0.17 0 9.0 0.22 0.22 0\n" + kTrailer,
                {":7:23: error: ", "not positive"});
  refuses_table(folder, kBanner + row + "2048 512 float sum -1 inf 0.17 0.17 0 9.0 0.22 0.22 0\n" + kTrailer,
                {":7:23: error: ", "'inf' is not a number"});
  refuses_table(folder, kCsv + "all_reduce,8,1,8,1\nall_reduce,8,1,4,1\n", {":3:16: error: ", "do not increase"});
  refuses_table(folder, kCsv + "all_reduce,8,1,8,1\nall_reduce,8,1,16,0\n", {":3:16: error: ", "not positive"});
  refuses_table(folder, kCsv + "all_reduce,8,1,8,1\nall_reduce,8,1,-16,1\n", {":3:16: error: ", "not positive"});
  refuses_table(folder, kCsv + "all_reduce,8,3,8,1\nall_reduce,8,3,16,1\n", {":2:16: error: ", "do not fill"});
  refuses_table(folder, kCsv + "all_reduce,8,0,8,1\n", {":2:14: error: "});
  refuses_table(folder, kCsv + "all_reduce,8,1,8\n", {":2:1: error: "});
  refuses_table(folder, "{\"results\": [{\"size\": 8", {":1:24: error: ", "cut short"});
  refuses_table(folder, "{\"args\": [\"all_reduce_perf\"]}", {": error: ", "'results' is missing"});
}

TEST_CASE("collective: tables that are huge", "[hostile]") {
  const TempFolder folder;
  const auto table = [&](const std::string& path) { return plus(kCommand, {"--table", path}); };
  refuses(kNoAnswer, table(folder.file("deep", "{\"a\":", "[", 4'000'000)), {"nested over 64 levels deep"});
  refuses(kNoAnswer, table(folder.file("long", "{\"a\":\"", "x", 20'000'000, "\"}")), {"over 16 MiB"});
  refuses(kNoAnswer, table(folder.file("line", "#", "x", 30'000'000)), {"no nccl-tests output"});
  refuses(kNoAnswer, table(folder.file("escapes", kBanner, "\x1b[31m", 2'000'000)), {"cut short"});
  refuses(kNoAnswer, table(folder.file("large", "", "# talk\n", 12'000'000)), {"over 64 MiB"});
  refuses(kNoAnswer, table(folder.file("ranks", kBanner, "#  Rank  0 Group  0 Pid 1 on red device 0\n", 200'000)),
          {"cut short"});
}

TEST_CASE("collective: questions at the edge have answers", "[hostile]") {
  const TempFolder folder;
  const std::string csv = folder.file("t.csv", kCsv + "all_reduce,8,1,8,10\nall_reduce,8,1,1024,12\n");
  const Outcome measured = run_program(plus(kCommand, {"--table", csv, "--max", "2K", "--format", "csv"}));
  CHECK(measured.status == kDone);
  CHECK_THAT(measured.out, Contains("nccl,8,10,") && Contains("table,-,measured") && Contains("interpolated") &&
                               Contains("extrapolated"));
  const Outcome many = run_program(plus(kCommand, {"--nodes", "1000000000", "--max", "9T", "--json"}));
  CHECK(many.status == kDone);
  CHECK_THAT(many.out, Contains("ddlsim/collective/1") && !Contains("null"));
  const Outcome alone = run_program(plus(kCommand, {"--gpus-per-node", "1"}));
  CHECK(alone.status == kDone);
  CHECK_THAT(alone.out, Contains("0 ns"));
}
