#include "ddlsim/whatif/framework.h"

#include <catch2/catch.hpp>

#include "catalog.h"
#include "ddlsim/whatif/predict.h"
#include "overrides.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using namespace ddlsim::whatif;
using ddlsim::test::joined;
using ddlsim::test::overrides;

namespace {

Scenario scenario(std::vector<Override> more) {
  const std::vector<Override> settings = joined(overrides("model resnet50; node dgx1-v100; nodes 2"), more);
  return resolve(catalog(), settings).value();
}

}  // namespace

TEST_CASE("framework: every profile is a list of settings that resolve and predict", "[unit][whatif]") {
  for (const Framework& framework : frameworks()) {
    INFO(framework.name);
    CHECK_FALSE(framework.source.empty());
    CHECK(settings_of(framework).front().first == "strategy");
    const bool one_process = framework.name == "pytorch-dp";  // of one server
    const bool tables = settings_of(framework).front().second == "pearl";
    const Scenario s = scenario(overrides("strategy {}; nodes {}; model {}", std::string(framework.name),
                                          one_process ? "1" : "2", tables ? "dlrm" : "resnet50"));
    CHECK(s.framework == framework.name);
    CHECK(predict(s));
  }
}

TEST_CASE("framework: what is stated by itself wins", "[unit][whatif]") {
  CHECK(scenario(overrides("strategy horovod")).strategy.bucket == mebibytes(128));
  CHECK(scenario(overrides("strategy Horovod; strategy.bucket 64 MiB")).strategy.bucket == mebibytes(64));
  CHECK(scenario(overrides("strategy.bucket 64 MiB; strategy horovod")).strategy.bucket == mebibytes(64));
  CHECK(scenario(overrides("strategy byteps; strategy allreduce")).framework.empty());
}

TEST_CASE("framework: a name that is none is told its neighbours", "[unit][whatif]") {
  const auto wrong = resolve(catalog(), overrides("model resnet50; node dgx1-v100; strategy horovd"));
  REQUIRE_FALSE(wrong);
  CHECK(to_string(wrong.error()).find("did you mean 'horovod'") != std::string::npos);
}

TEST_CASE("framework: BytePS's servers only sum, and see nothing of one server's job", "[unit][whatif]") {
  const auto bert = [](const char* strategy, const char* nodes) {
    return predict(
               resolve(catalog(), overrides("model bert_large; node dgx-h100; nodes {}; precision fp16; strategy {}",
                                            nodes, strategy))
                   .value())
        .value();
  };
  const auto byteps = bert("byteps", "1");
  const auto ddp = bert("pytorch-ddp", "1");
  CHECK(byteps.step_time < ddp.step_time * 1.1);
  CHECK(byteps.memory.optimizer_state == ddp.memory.optimizer_state);
  CHECK(bert("byteps", "2").breakdown.memory >= bert("ps", "2").breakdown.memory);  // the update is its own
}

TEST_CASE("framework: fp16 gradients make no step of DistributedDataParallel longer", "[unit][whatif]") {
  const auto step = [](const char* gradients) {
    return predict(scenario(overrides("nodes 4; network 25 Gb/s; strategy pytorch-ddp-gloo; strategy.gradients {}",
                                      gradients)))
        .value()
        .step_time;
  };
  CHECK(step("fp16") < step("fp32"));
}

TEST_CASE("framework: a faster network makes no step of Horovod much longer", "[unit][whatif]") {
  const auto step = [](const char* model, const char* nodes, const char* network) {
    return predict(scenario(overrides("model {}; nodes {}; network {}; strategy horovod-mpi", model, nodes, network)))
        .value()
        .step_time;
  };
  // Messages that block the coordinator may be cut so that the last one is longer: by less than 1 % in the mean, 7 % at
  // one phase of its cycle.
  CHECK(step("mobilenet_v2", "7", "200 Gb/s") < step("mobilenet_v2", "7", "100 Gb/s") * 1.01);
  CHECK(step("resnet50", "4", "40 Gb/s") < step("resnet50", "4", "25 Gb/s") * 1.01);
}

TEST_CASE("framework: by events a coordinator's cycle is the same mean", "[unit][whatif]") {
  const auto step = [](const char* fidelity) {
    return predict(scenario(overrides("strategy horovod-mpi; fidelity {}", fidelity))).value();
  };
  const auto events = step("event");
  CHECK(events.step_time.in(seconds) == Approx(step("analytic").step_time.in(seconds)).epsilon(1e-9));
  CHECK(events.breakdown.step().in(seconds) == Approx(events.step_time.in(seconds)));
}
