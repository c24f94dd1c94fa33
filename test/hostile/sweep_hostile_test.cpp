// What bad input to `ddlsim sweep` gets, and what becomes of its file when it is killed, or the disk is full.
//
// DDLSIM_KILLS=200 kills that many times (3 otherwise; .ci/run does).
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>

#include "files.h"
#include "hostile/run_program.h"

namespace {

using namespace ddlsim::test;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr int kPoints = kSanitized ? 6'000 : 30'000;

const Words kSmall{"sweep",   "--model", "resnet50,alexnet", "--node",           "dgx1-v100",
                   "--nodes", "1..8:x2", "--network",        "25 Gb/s, 100 Gb/s"};

/// `points` of one model, each a few microseconds.
Words long_sweep(int points) {
  return {"sweep",
          "--model",
          "resnet50",
          "--node",
          "dgx1-v100",
          "--nodes",
          "1.." + std::to_string(points / 10) + ":+1",
          "--network",
          "10..100:+10 Gb/s",
          "--time-only"};
}

std::string rows_of(const std::string& database) {
  const Outcome run = run_program({"sweep", "--report", database, "--format", "csv"});
  return run.status == 0 ? run.out : "";
}

std::int64_t lines_of(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

}  // namespace

TEST_CASE("sweep: flags that make no grid", "[hostile][sweep]") {
  refused(kWrongUsage, {"sweep"}, {"--model is missing"});
  refused(kWrongUsage, {"sweep", "--model", "resnet50"}, {"--node is missing"});
  refused(kWrongUsage, plus(kSmall, {"--shard", "5/4"}), {"--shard", "'5/4' is no part", "K from 1 to N"});
  refused(kWrongUsage, plus(kSmall, {"--shard", "0/4"}), {"--shard"});
  refused(kWrongUsage, plus(kSmall, {"--threads", "0"}), {"--threads"});
  refused(kWrongUsage, plus(kSmall, {"--seed", "3"}), {"without --sample"});
  refused(kWrongUsage, plus(kSmall, {"--sample", "many"}), {"--sample"});
  refused(kWrongUsage, plus(kSmall, {"--sample", "3", "--sample-by", "luck"}), {"--sample-by", "latin-hypercube"});
  refused(kWrongUsage, plus(kSmall, {"-o", "x.db", "--format", "csv"}), {"--report FILE --format csv"});
  refused(kWrongUsage, {"sweep", "--merge", "a.db"}, {"--merge without -o"});
  refused(kWrongUsage, {"sweep", "--merge", "a.db", "--report", "b.db"}, {"one at a time"});
  refused(kWrongUsage, {"sweep", "--report", "a.db", "-o", "b.db"}, {"--report into an SQLite file"});
  refused(kWrongUsage, {"sweep", "--report", ""}, {"--report has an empty value"});
}

TEST_CASE("sweep: grids that make no sense", "[hostile][sweep]") {
  refused(kNoAnswer, plus(kSmall, {"--set", "nodes=3,5"}), {"two axes vary nodes"});
  refused(kNoAnswer, plus(kSmall, {"--set", "nodes=3"}), {"both varied and stated as '3'"});
  refused(kNoAnswer, plus(kSmall, {"--batch", "1..64:x1"}), {"batch", "its step never arrives"});
  refused(kNoAnswer, plus(kSmall, {"--batch", "64,64"}), {"'64' stands twice"});
  refused(kNoAnswer, plus(kSmall, {"--batch", "64,,32"}), {"empty value"});
  refused(kNoAnswer, plus(kSmall, {"--set", "bach=64"}), {"unknown setting 'bach'", "batch"});
  refused(kWrongUsage, plus(kSmall, {"--where", "noes > 1"}), {"where 'noes > 1'", "did you mean 'nodes'"});
  refused(kNoAnswer, plus(kSmall, {"--sample", "1000"}), {"the grid has 16"});
  refused(kNoAnswer, {"sweep", "--model", "resnet5,alexnet", "--node", "dgx1-v100"},
          {"model", "resnet5", "did you mean"});
  refused(kNoAnswer, {"sweep", "--model", "alexnet", "--node", "dgx1-v1000,dgx-a100"}, {"node", "dgx1-v1000"});
  const TempFolder folder;
  refused(kNoAnswer, {"sweep", "-f", folder.file("g.yaml", "model: resnet50\nnodes: 1..4:+0\n")},
          {"g.yaml:2:8", "never arrives"});
  refused(kNoAnswer, {"sweep", "-f", "/no/such/grid.yaml"}, {"/no/such/grid.yaml"});
}

TEST_CASE("sweep: a measured step is said to be of the job without what varies", "[hostile][sweep]") {
  const Words asked{"sweep", "--model", "resnet50", "--node", "dgx-a100", "--nodes", "2,4", "--format", "csv"};
  const Outcome run = run_program(plus(asked, {"--measured-step", "200 ms"}));
  CHECK(run.status == 0);
  CHECK_THAT(run.err, Contains("note: measured runs are of the job without what varies: ") &&
                          Contains("on 1 x NVIDIA") && Contains("by the step on 8 GPUs of one server"));
  CHECK(run_program(asked).err.empty());
}

TEST_CASE("sweep: a grid of 10^15 points is counted, and asked about", "[hostile][sweep]") {
  const Words huge{"sweep",
                   "--model",
                   "resnet50",
                   "--node",
                   "dgx1-v100",
                   "--nodes",
                   "1..100000:+1",
                   "--batch",
                   "1..100000:+1",
                   "--threads",
                   "4",
                   "--set",
                   "network.latency=1..100000:+1 us"};
  refused(kWrongUsage, plus(huge, {"--time-only"}),
          {"1,000,000,000,000,000 points", "about", " years", "on 4 threads", "--yes", "--sample"});
  const Outcome sample = run_program(plus(huge, {"--sample", "7", "--format", "csv"}));
  CHECK(sample.status == 0);
  CHECK(lines_of(sample.out) == 8);
  refused(kWrongUsage, plus(long_sweep(20'000), {}), {"a table of 20,000 rows", "--format csv"});
}

TEST_CASE("sweep: points without an answer are rows with their reason", "[hostile][sweep]") {
  const Outcome run = run_program(plus(kSmall, {"--gpu", "v100-sxm2-16gb", "--tp", "1,3", "--json"}));
  REQUIRE(run.status == 0);
  std::int64_t failed = 0;
  std::istringstream lines(run.out);
  for (std::string line; std::getline(lines, line);) {
    const Json row = Json::parse(line);
    CHECK(row["schema"] == "ddlsim/sweep/1");
    CHECK(row["settings"]["parallel.tensor"].is_string());
    const bool none = row["step_time_s"].is_null();
    if (none) ++failed;
    CHECK(row["why"].is_null() != none);
  }
  CHECK(lines_of(run.out) == 32);
  CHECK(failed == 16);
  const Outcome none = run_program(plus(kSmall, {"--tp", "3", "--format", "csv"}));
  CHECK(none.status == kNoAnswer);
  CHECK(lines_of(none.out) == 17);
  CHECK_THAT(none.err, Contains("no point has an answer"));
  // Nor has a grid without points; a part of a grid may have none.
  const Words empty = plus(kSmall, {"--where", "nodes > 1000", "--format", "csv"});
  const Outcome nothing = run_program(empty);
  CHECK(nothing.status == kNoAnswer);
  CHECK_THAT(nothing.err, Contains("the conditions leave no point"));
  const TempFolder folder;
  const std::string part = (folder.path() / "part.db").string();
  CHECK(run_program(plus(kSmall, {"--where", "nodes > 1000", "--shard", "1/2", "-o", part})).status == 0);
}

TEST_CASE("sweep: files that are not its own stay as they are", "[hostile][sweep]") {
  const TempFolder folder;
  const std::string shopping = folder.file("list.db", "milk, bread");
  refused(kNoAnswer, plus(kSmall, {"-o", shopping}), {"list.db", "no SQLite database"});
  CHECK(contents(shopping) == "milk, bread");
  const std::string own = (folder.path() / "own.db").string();
  REQUIRE(run_program(plus(kSmall, {"-o", own})).status == 0);
  const std::string before = contents(own);
  refused(kNoAnswer, plus(kSmall, {"--batch", "32", "-o", own}), {"own.db", "another grid"});
  refused(kNoAnswer, plus(kSmall, {"--time-only", "-o", own}), {"detail 'full'"});
  refused(kNoAnswer, plus(kSmall, {"--shard", "1/2", "-o", own}), {"part of 1"});
  refused(kNoAnswer, {"sweep", "--merge", own, "-o", own}, {"it is there already"});
  refused(kNoAnswer, {"sweep", "--report", shopping}, {"no SQLite database"});
  refused(kNoAnswer, {"sweep", "--report", "/no/such.db"}, {"no such file"});
  refused(kNoAnswer, plus(kSmall, {"-o", "/no/such/folder/x.db"}), {"/no/such/folder/x.db"});
  CHECK(contents(own) == before);
  if (::geteuid() != 0) {  // who may write everything is not refused
    fs::permissions(own, fs::perms::owner_read);
    refused(kNoAnswer, plus(kSmall, {"--batch", "32", "-o", own}), {"may not be written"});
  }
  CHECK(folder.names() == Words{"list.db", "own.db"});
}

TEST_CASE("sweep: its data have the fingerprint that every command prints", "[hostile][sweep]") {
  const auto data_of = [](const Words& words) {
    const std::string out = run_program(plus(words, {"--json"})).out;
    return Json::parse(words.front() == "sweep" ? out.substr(0, out.find('\n')) : out)["program"]["data"];
  };
  CHECK(data_of(kSmall) == data_of({"predict", "--model", "resnet50", "--node", "dgx1-v100"}));
}

TEST_CASE("sweep: the same rows whatever the threads, the file and the parts", "[hostile][sweep]") {
  const TempFolder folder;
  const auto in = [&](const std::string& name) { return (folder.path() / name).string(); };
  const std::string straight = run_program(plus(kSmall, {"--format", "csv", "--threads", "1"})).out;
  REQUIRE(lines_of(straight) == 17);
  for (const char* threads : {"2", "16"}) {
    CHECK(run_program(plus(kSmall, {"--format", "csv", "--threads", threads})).out == straight);
  }
  REQUIRE(run_program(plus(kSmall, {"-o", in("all.db")})).status == 0);
  CHECK(rows_of(in("all.db")) == straight);
  const std::string json = run_program(plus(kSmall, {"--json"})).out;
  CHECK(run_program({"sweep", "--report", in("all.db"), "--json"}).out == json);
  REQUIRE(run_program(plus(kSmall, {"-o", in("rows.csv")})).status == 0);
  CHECK(contents(in("rows.csv")) == straight);
  Words merge{"sweep", "--merge"};
  for (const char* k : {"3", "1", "2"}) {
    merge.push_back(in(std::string("part") + k + ".db"));
    REQUIRE(run_program(plus(kSmall, {"--shard", std::string(k) + "/3", "-o", merge.back()})).status == 0);
  }
  const Words whole = plus(merge, {"-o", in("merged.db")});
  merge.pop_back();
  refused(kNoAnswer, plus(merge, {"-o", in("gap.db")}), {"parts of the grid are missing", "part 2/3 is in none"});
  REQUIRE(run_program(whole).status == 0);
  CHECK(rows_of(in("merged.db")) == straight);
  REQUIRE(run_program(plus(kSmall, {"--batch", "32", "-o", in("other.db")})).status == 0);
  refused(kNoAnswer, {"sweep", "--merge", in("all.db"), in("other.db"), "-o", in("x.db")},
          {"other.db", "another grid"});
  CHECK_FALSE(fs::exists(in("gap.db")));
  CHECK_FALSE(fs::exists(in("x.db")));
  const Outcome again = run_program(plus(kSmall, {"-o", in("all.db")}));
  CHECK(again.status == 0);
  CHECK_THAT(again.err, Contains("has all its 16 rows"));
}

TEST_CASE("sweep: killed at any moment, the same command goes on", "[hostile][sweep]") {
  const char* asked = std::getenv("DDLSIM_KILLS");
  const int kills = asked == nullptr ? 3 : std::atoi(asked);
  const TempFolder folder;
  const std::string path = (folder.path() / "r.db").string();
  const Words command = plus(long_sweep(kPoints), {"--threads", "2"});
  const Outcome straight = run_program(plus(command, {"--format", "csv"}), 120);
  REQUIRE(straight.status == 0);
  REQUIRE(lines_of(straight.out) == kPoints + 1);
  std::mt19937_64 random(20'251'122);
  // A run by itself may take longer than any of these: what is committed four times a second adds up.
  std::uniform_real_distribution<double> moment(0.02, 1.2 * straight.seconds + 0.3);
  for (int killed = 0; killed < kills;) {
    fs::remove(path);
    fs::remove(path + "-journal");
    std::int64_t rows = 0;
    for (;;) {
      const Outcome run = run_program(plus(command, {"-o", path}), killed < kills ? moment(random) : 120);
      const std::string now = rows_of(path);
      CAPTURE(killed, rows, run.err);
      CHECK_THAT(straight.out, StartsWith(now));
      REQUIRE(lines_of(now) >= rows);  // what was there stays
      rows = lines_of(now);
      if (run.status == 0) break;
      REQUIRE(run.status == 128 + SIGKILL);
      ++killed;
    }
    CHECK(rows_of(path) == straight.out);
    CHECK(folder.names() == Words{"r.db"});
  }
}

TEST_CASE("sweep: killed after the last row, it leaves no journal to its user", "[hostile][sweep]") {
  const TempFolder folder;
  const std::string path = (folder.path() / "r.db").string();
  REQUIRE(run_program(plus(kSmall, {"-o", path})).status == 0);
  const std::string rows = rows_of(path);
  std::ofstream(path + "-journal", std::ios::binary) << std::string(4096, '\0');  // as SQLite ends a commit
  REQUIRE(run_program(plus(kSmall, {"-o", path})).status == 0);
  CHECK(rows_of(path) == rows);
  CHECK(folder.names() == Words{"r.db"});
}

TEST_CASE("sweep: a full disk is an error, and the rows before stand", "[hostile][sweep]") {
  const TempFolder folder;
  const std::string path = (folder.path() / "r.db").string();
  const Words command = plus(long_sweep(kPoints), {"--threads", "1"});
  std::string line = "ulimit -f " + std::to_string(kPoints / 60) + "; exec \"$DDLSIM\"";
  for (const std::string& word : command) line += " '" + word + "'";
  const Outcome full = run_shell(line + " -o r.db", folder.path(), 120);
  CHECK(full.status == kNoAnswer);
  CHECK_THAT(full.err, Contains("r.db: error: could not be written") && Contains("the same command goes on"));
  const std::string straight = run_program(plus(command, {"--format", "csv"}), 120).out;
  CHECK_THAT(straight, StartsWith(rows_of(path)));
  REQUIRE(run_program(plus(command, {"-o", path}), 120).status == 0);
  CHECK(rows_of(path) == straight);
}
