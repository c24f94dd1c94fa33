#include "ddlsim/io/run_file.h"

#include <catch2/catch.hpp>
#include <sstream>

using namespace ddlsim;

namespace {

Expected<std::vector<io::RunRow>> read(const std::string& text) {
  std::istringstream stream(text);
  return io::read_runs(stream, "RUNS.csv");
}

void check_refused(const std::string& text, const std::string& message, int line) {
  CAPTURE(text);
  const auto runs = read(text);
  REQUIRE_FALSE(runs);
  CHECK(runs.error().message.find(message) != std::string::npos);
  CHECK(runs.error().where.line == line);
}

}  // namespace

TEST_CASE("run file: rows with and without what is optional", "[unit][io]") {
  const auto runs = read("# mine\nstep,gpus,nodes,batch,model\n180 ms,8,1,,\n0.251 s,16,2,64,resnet50\n");
  REQUIRE(runs);
  REQUIRE(runs->size() == 2);
  CHECK((*runs)[0].gpus == 8);
  CHECK((*runs)[0].step.in(milliseconds) == Approx(180));
  CHECK_FALSE((*runs)[0].batch);
  CHECK((*runs)[1].nodes == 2);
  CHECK((*runs)[1].step.in(milliseconds) == Approx(251));
  CHECK((*runs)[1].batch == 64);
  CHECK((*runs)[1].model == "resnet50");
  CHECK_FALSE((*runs)[1].passes);
  CHECK((*runs)[1].where.line == 4);
}

TEST_CASE("run file: a log is no table, and what makes one of it is said", "[unit][io]") {
  const auto runs = read("using world size: 64, data-parallel size: 4\n iteration 1/ 50 | elapsed time ...\n");
  REQUIRE_FALSE(runs);
  CHECK(to_string(runs.error()).find("`ddlsim import log` makes it out of training logs") != std::string::npos);
}

TEST_CASE("run file: how a run was split", "[unit][io]") {
  const auto runs = read("gpus,nodes,step,parallel.zero,parallel.tensor\n8,1,180 ms,1,\n8,1,190 ms,,4\n");
  REQUIRE(runs);
  using Split = std::vector<std::pair<std::string, std::string>>;
  CHECK((*runs)[0].split == Split{{"parallel.zero", "1"}});
  CHECK((*runs)[1].split == Split{{"parallel.tensor", "4"}});
  check_refused("gpus,nodes,step,parallel.data\n8,1,1 ms,2\n", "parallel.data", 1);  // what the others leave
}

TEST_CASE("run file: a run's own global batch", "[unit][io]") {
  const auto runs = read("gpus,nodes,step,global_batch\n64,8,1.3 s,128\n64,8,1.3 s,\n");
  REQUIRE(runs);
  CHECK((*runs)[0].global_batch == 128);
  CHECK_FALSE((*runs)[1].global_batch);
  check_refused("gpus,nodes,step,global_batch\n64,8,1.3 s,0\n", "", 2);
}

TEST_CASE("run file: what it refuses, with its place", "[unit][io]") {
  check_refused("gpus,nodes,step\n8,1,180\n", "unit", 2);
  check_refused("gpus,nodes,step\n8,1,nan ms\n", "nan", 2);
  check_refused("gpus,nodes,step\n8,1,-3 ms\n", "", 2);
  check_refused("gpus,nodes,step\n8,3,180 ms\n", "not shared evenly", 2);
  check_refused("gpus,nodes,step\n0,1,180 ms\n", "", 2);
  check_refused("gpus,nodes\n8,1\n", "step", 1);
  check_refused("gpus,nodes,step,gqus\n8,1,1 ms,2\n", "gqus", 1);
  check_refused("gpus,nodes,step\n", "no run", 2);
}
