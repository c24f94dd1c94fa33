// Own runs that cannot be, and those that can for all that.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "ddlsim/whatif/compare.h"
#include "unit/whatif/own_runs_job.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using ddlsim::test::joined;
using ddlsim::test::overrides;
using ddlsim::test::own_runs::job;
using ddlsim::test::own_runs::predicted;
using ddlsim::test::own_runs::refused;
using ddlsim::test::own_runs::says;
using whatif::Override;

TEST_CASE("own runs: the wire is that of the way that sends the least", "[unit][whatif]") {
  // A flat ring of two servers sends 2.5 GB a server, 0.8 s of 25 Gb/s; a tree of servers 1.3 GB.
  const std::vector<Override> pair = overrides(
      "model bert_large; node p3.16xlarge; nodes 2; strategy pytorch-ddp; precision fp16; measured.step 600 ms");
  CHECK(predicted(pair).step_time == milliseconds(600));
  std::vector<Override> ring = pair;
  ring.push_back({"collective.algorithm", "ring", {}});
  CHECK(resolve(catalog(), ring).error().message.find("faster than the wire allows") != std::string::npos);
}

TEST_CASE("own runs: steps of a long job had what its network reaches for minutes", "[unit][whatif]") {
  // 25 Gb/s for minutes, 5 that last.
  std::vector<Override> job =
      overrides("model vgg16; node g4dn.xlarge; nodes 4; strategy pytorch-ddp; measured.step 700 ms");
  CHECK(predicted(job).step_time.in(milliseconds) == Approx(700));
  job.push_back({"training.samples", "1281167", {}});
  const auto long_run = predicted(job);
  CHECK(long_run.step_time > milliseconds(1300));
  CHECK(says(long_run, "it reaches 25 Gb/s for minutes, which measured steps are taken to have had"));
}

TEST_CASE("own runs: what cannot be is refused", "[unit][whatif]") {
  CHECK(refused(overrides("measured.step 1 ms")).find("faster than the wire allows") != std::string::npos);
  CHECK(refused({{"measured.steps", "1x8 = 200 ms; 1x8 = 302 ms", {}}}).find("contradict") != std::string::npos);
  CHECK(refused(overrides("measured.steps 8 = 200 ms")).find("is no run") != std::string::npos);
  CHECK(refused(overrides("measured.steps 1x8 = 200")).find("measured.steps") != std::string::npos);
  CHECK(refused(overrides("measured.step 200 s")).find("times what the model says") != std::string::npos);
  const std::string fast = refused(overrides("nodes 1; gpus_per_node 1; measured.step 12.34567 ms"));
  CHECK(fast.find("a measured step of 12.35 ms on one GPU is faster than its GPUs can be") != std::string::npos);
  CHECK(refused(overrides("measured.step 180")).find("measured.step") != std::string::npos);
  CHECK(refused({{"measured.steps", ";", {}}}).find("no measured run") != std::string::npos);
  CHECK(refused(overrides("measured.steps 1x16 = 200 ms")) != "");  // the server has eight
  CHECK(refused(overrides("measured.runs no_such.csv")).find("no_such.csv") != std::string::npos);
  const std::string other = (std::filesystem::temp_directory_path() / "ddlsim_other_runs_test.csv").string();
  std::ofstream(other) << "gpus,nodes,step,model\n8,1,213 ms,vgg16\n";
  CHECK(refused(overrides("measured.runs {}", other)).find("another model") != std::string::npos);
  std::ofstream(other) << "gpus,nodes,step,precision\n8,1,213 ms,fp16\n";
  CHECK(refused(overrides("measured.runs {}", other)).find("another precision") != std::string::npos);
}

TEST_CASE("own runs: kept runs are refused for a job on another GPU or in another precision", "[unit][whatif]") {
  const auto with = [](std::vector<Override> more) {
    more =
        joined(overrides("measured.steps 1x8@64 = 180 ms; measured.gpu v100-sxm2-16gb; measured.precision fp32"), more);
    return refused(more);
  };
  CHECK(with({}).empty());
  CHECK(with(overrides("gpu t4")) == "the measured runs are of another gpu: 'v100-sxm2-16gb', but the job's is 't4'");
  CHECK(with(overrides("precision fp16")).find("of another precision: 'fp32'") != std::string::npos);
  // However they are written.
  CHECK(with(overrides("measured.gpu V100-SXM2-16GB")).empty());
  CHECK(with(overrides("precision fp16; measured.precision amp")).empty());
  CHECK(with(overrides("measured.gpu abacus")).find("abacus") != std::string::npos);
  // An alternative's own runs stand for it alone.
  const std::vector<whatif::Change> changes{{"", overrides("gpu t4; measured.step 600 ms")}};
  const auto compared = whatif::compare(
      catalog(), job(overrides("measured.steps 4x8@64 = 200 ms; measured.gpu v100-sxm2-16gb")), changes);
  REQUIRE(compared);
  CHECK(compared->alternatives.front().prediction.step_time.in(milliseconds) == Approx(600));
}

TEST_CASE("own runs: a step that takes far longer than expected is said to be of another unit", "[unit][whatif]") {
  const auto expected = predicted(job(overrides("nodes 1")));
  const auto with = [&](double times) {
    const double step = expected.interval_90.second.in(milliseconds)*times;
    return predicted(job(overrides("nodes 1; measured.step {}", std::to_string(step) + " ms")));
  };
  CHECK(says(with(4.1), "look at the unit, the batch, and whether it is one step"));
  CHECK(with(4.1).step_time > expected.step_time * 4);  // it is believed all the same
  CHECK_FALSE(says(with(3.9), "look at the unit"));
}
