#include "ddlsim/whatif/framework.h"

#include <catch2/catch.hpp>

#include "catalog.h"
#include "ddlsim/whatif/predict.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using namespace ddlsim::whatif;

namespace {

Scenario scenario(std::vector<Override> more) {
  std::vector<Override> settings{{"model", "resnet50", {}}, {"node", "dgx1-v100", {}}, {"nodes", "2", {}}};
  settings.insert(settings.end(), more.begin(), more.end());
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
    const Scenario s = scenario({{"strategy", std::string(framework.name), {}},
                                 {"nodes", one_process ? "1" : "2", {}},
                                 {"model", tables ? "dlrm" : "resnet50", {}}});
    CHECK(s.framework == framework.name);
    CHECK(predict(s));
  }
}

TEST_CASE("framework: what is stated by itself wins", "[unit][whatif]") {
  CHECK(scenario({{"strategy", "horovod", {}}}).strategy.bucket == mebibytes(128));
  CHECK(scenario({{"strategy", "Horovod", {}}, {"strategy.bucket", "64 MiB", {}}}).strategy.bucket == mebibytes(64));
  CHECK(scenario({{"strategy.bucket", "64 MiB", {}}, {"strategy", "horovod", {}}}).strategy.bucket == mebibytes(64));
  CHECK(scenario({{"strategy", "byteps", {}}, {"strategy", "allreduce", {}}}).framework.empty());
}

TEST_CASE("framework: a name that is none is told its neighbours", "[unit][whatif]") {
  const auto wrong =
      resolve(catalog(),
              std::vector<Override>{{"model", "resnet50", {}}, {"node", "dgx1-v100", {}}, {"strategy", "horovd", {}}});
  REQUIRE_FALSE(wrong);
  CHECK(to_string(wrong.error()).find("did you mean 'horovod'") != std::string::npos);
}
