// What bad input to `ddlsim predict --goodput` gets: what is wrong, what would be right, the right status, soon.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "hostile/run_program.h"

namespace {

using namespace ddlsim::test;
using Json = nlohmann::json;

Words goodput(const Words& more) {
  return plus({"predict", "--model", "resnet50", "--node", "dgx-a100", "--nodes", "16", "--goodput"}, more);
}
Words failing(const Words& more) {
  return plus(goodput({"--mtbf-gpu", "20000 h", "--checkpoint-bandwidth", "1 GB/s"}), more);
}

}  // namespace

TEST_CASE("goodput: flags that make no question", "[hostile][goodput]") {
  refused(kWrongUsage, goodput({}), {"nobody says how often something fails", "llama3-405b", "--mtbf-gpu"});
  refused(kWrongUsage, failing({"--format", "html"}), {"no picture"});
  refused(kWrongUsage, failing({"--columns", "nemo"}), {"--goodput beside"});
  refused(kWrongUsage, failing({"--curve", "nodes=1..4"}), {"--goodput beside"});
  refused(kWrongUsage, goodput({"--mtbf-gpu", ""}), {"--mtbf-gpu has an empty value"});
}

TEST_CASE("goodput: values that make no sense", "[hostile][goodput]") {
  refused(kNoAnswer, goodput({"--mtbf-gpu", "0 h"}), {"failures.mtbf_gpu"});
  refused(kNoAnswer, goodput({"--mtbf-gpu", "-3 h"}), {"failures.mtbf_gpu", "negative"});
  refused(kNoAnswer, goodput({"--mtbf-node", "3 GB"}), {"failures.mtbf_node", "not a time but a data size"});
  refused(kNoAnswer, goodput({"--mtbf-switch", "nan h"}), {"failures.mtbf_switch"});
  refused(kNoAnswer, goodput({"--failures", "llama4"}), {"unknown set of failure rates 'llama4'", "llama3-405b"});
  refused(kNoAnswer, goodput({"--mtbf-gpu", "20000 h", "--checkpoint-bandwidth", "0 GB/s"}), {"checkpoint.bandwidth"});
  refused(kNoAnswer, failing({"--checkpoint-every", "0 s"}), {"checkpoint.interval"});
  refused(kNoAnswer, failing({"--checkpoint-mode", "lazy"}), {"checkpoint.mode", "async"});
  refused(kNoAnswer, failing({"--spares", "17"}), {"17 spares for a job of 16 servers"});
  refused(kNoAnswer, failing({"--spares", "-1"}), {"failures.spares"});
  refused(kNoAnswer, failing({"--set", "checkpoint.writers=17"}), {"17 of 16 servers"});
  refused(kNoAnswer, goodput({"--mtbf-gpu", "1 s", "--checkpoint-bandwidth", "1 GB/s"}), {"makes no headway"});
  refused(kNoAnswer, goodput({"--mtbf-gpu", "20000 h"}), {"written to", "--checkpoint-bandwidth"});
  refused(kNoAnswer,
          goodput({"--mtbf-gpu", "20000 h", "--set", "checkpoint.storage=ebs-gp3", "--set", "checkpoint.size=1 PB"}),
          {"does not fit", "EBS"});
  refused(kNoAnswer, failing({"--set", "failures.runs=1000000000"}), {"failures.runs"});
}

TEST_CASE("goodput: an interval above the mean time between failures is said", "[hostile][goodput]") {
  const Outcome outcome = run_program(failing({"--checkpoint-every", "400 h"}));
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.out, Catch::Contains("most of the work is lost"));
}

TEST_CASE("goodput: files of rates that are none", "[hostile][goodput]") {
  const auto path = std::filesystem::temp_directory_path() / "ddlsim_rates.yaml";
  const auto with = [&](const std::string& text) {
    std::ofstream(path) << text;
    return goodput({"--failures", path.string(), "--checkpoint-bandwidth", "1 GB/s"});
  };
  const std::string head = "failures: ddlsim_rates\nname: mine\n";
  refused(kNoAnswer, with(head + "sources: {}\n"), {"without a rate", "mtbf_gpu"});
  refused(kNoAnswer, with(head + "mtbf_gpu: 0 h\n"), {"ddlsim_rates.yaml:3", "0 h"});
  refused(kNoAnswer, with(head + "mtbf_gpu: 80000\n"), {"unit"});
  refused(kNoAnswer, with(head + "mtbf_gpu: 80000 h\nmtbf_disk: 3 h\n"), {"mtbf_disk"});
  refused(kNoAnswer, with(head + "mtbf_gpu: 80000 h\nnodes_per_switch: 0\n"), {"is out of range", "from 1 to"});
  const Outcome good = run_program(with(head + "mtbf_gpu: 80000 h\nsources:\n  mtbf_gpu: my logs\n"));
  INFO(good.err);
  CHECK(good.status == 0);
  std::filesystem::remove(path);
}

TEST_CASE("goodput: JSON has what text has", "[hostile][goodput]") {
  const Outcome outcome = run_program(failing({"--json", "--steps", "1000000", "--set", "failures.runs=20"}));
  REQUIRE(outcome.status == 0);
  const Json json = Json::parse(outcome.out);
  CHECK(json["schema"] == "ddlsim/goodput/1");
  CHECK(json["goodput"]["goodput"].get<double>() > 0.5);
  CHECK(json["goodput"]["checkpoint"]["interval_s"].get<double>() > 0);
  CHECK(json["goodput"]["simulated"]["runs"] == 20);
  CHECK(json["training"]["failures_s"].get<double>() > 0);
}

TEST_CASE("a what-if of a million GPUs is small and soon", "[hostile][goodput]") {
  const Words fabric{"--node", "dgx-h100", "--nodes", "125000", "--vs", "--set", "network.oversubscription=7"};
  for (const Words& job :
       {Words{"--model", "resnet50"}, Words{"--model", "resnet50", "--strategy", "ps"},
        Words{"--model", "llama_3_1_70b", "--precision", "bf16", "--batch", "1", "--tp", "8", "--pp", "4"}}) {
    const Outcome outcome = run_program(plus(plus({"what-if"}, job), fabric));
    INFO(outcome.err);
    CHECK(outcome.status == 0);
    CHECK_THAT(outcome.out, Catch::Contains("folded: 1,000,000 GPUs as"));
    CHECK(outcome.peak_bytes < std::int64_t{kSanitized ? 2048 : 100} << 20);
  }
}
