// What bad input to `ddlsim stalls` and to a loader's settings gets: the place, the valid choices, the right status,
// soon.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "hostile/run_program.h"

namespace {

using namespace ddlsim::test;
using Catch::Matchers::Contains;
using Json = nlohmann::json;

const Words kJob{"stalls", "--model", "resnet18", "--node", "p3.16xlarge"};
const Words kReading = plus(kJob, {"--dataset", "imagenet"});

}  // namespace

TEST_CASE("stalls: flags that make no question", "[hostile]") {
  refused(kWrongUsage, {"stalls"}, {"--model is missing"});
  refused(kWrongUsage, {"stalls", "--model", "resnet18"}, {"--node is missing"});
  refused(kWrongUsage, {"stalls", "--study", "layers"}, {"--node is missing"});
  refused(kWrongUsage, plus(kJob, {"--study", "depth"}), {"unknown study 'depth'", "valid: layers"});
  refused(kWrongUsage, plus(kJob, {"--measured-stalls", ""}), {"--measured-stalls has an empty value"});
  refused(kWrongUsage, plus(kJob, {"--stdy", "layers"}), {"unknown option"});
  refused(kNoAnswer, plus(kJob, {"--study", "layers"}), {"models of its own"});
}

TEST_CASE("stalls: values that no loader has", "[hostile]") {
  refused(kNoAnswer, plus(kReading, {"--set", "input.threads=0"}), {"input.threads", "'0'"});
  refused(kNoAnswer, plus(kReading, {"--workers", "60000"}), {"60,000 workers", "batches"});
  refused(kNoAnswer, plus(kReading, {"--workers", "-1"}), {"input.workers"});
  refused(kNoAnswer, plus(kReading, {"--set", "input.storage.capacity=1 GB"}), {"holds 1 GB"});
  refused(kNoAnswer, plus(kReading, {"--set", "input.storage=nmve"}), {"unknown storage 'nmve'", "nvme"});
  refused(kNoAnswer, plus(kReading, {"--set", "input.cache=lur"}), {"unknown cache"});
  refused(kNoAnswer, plus(kJob, {"--dataset", "imagenet1k"}), {"unknown dataset", "imagenet"});
  refused(kNoAnswer, {"stalls", "--model", "resnet18", "--node", "dgx-b200", "--dataset", "imagenet"},
          {"nobody says what processors", "input.cpu"});
  refused(kNoAnswer, plus(kJob, {"--one-server", "p2.8xlarge"}), {"name a server with as many GPUs"});
  refused(kNoAnswer, plus(kJob, {"--tp", "2"}), {"split over GPUs"});
}

TEST_CASE("stalls: measured runs that are none", "[hostile]") {
  const auto path = std::filesystem::temp_directory_path() / "ddlsim_stall_runs.csv";
  const auto with = [&](const std::string& text) {
    std::ofstream(path) << text;
    return plus(kJob, {"--measured-stalls", path.string()});
  };
  refused(kNoAnswer, with("run,batches\n"), {"ddlsim_stall_runs.csv", "train_s"});
  refused(kNoAnswer, with("run,train_s,batches\n"), {"no runs"});
  refused(kNoAnswer, with("run,train_s,batches\nrun7,1,1\n"), {":2:1", "run7", "did you mean"});
  refused(kNoAnswer, with("run,train_s,batches\nrun0,-1,1\n"), {"above zero"});
  refused(kNoAnswer, with("run,train_s,batches\nrun0,1,1\none_gpu,1,1\n"), {"stands twice"});
  refused(kNoAnswer, plus(kJob, {"--measured-stalls", "/nowhere.csv"}), {"cannot read '/nowhere.csv'"});
}
