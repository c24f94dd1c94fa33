#include "ddlsim/whatif/stage_partition.h"
#include "catalog.h"
#include "ddlsim/cost/price.h"
#include "ddlsim/whatif/predict.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

using namespace ddlsim;
using ddlsim::test::catalog;
using namespace ddlsim::whatif;

namespace {

/// Three layers that were timed: 1 + 1, 1 + 1, 2 + 2 ms, the last with 2,000,000 parameters (8 MB).
class TimedModel {
 public:
  TimedModel() {
    std::ofstream file(path_);
    file << "model: timed\nname: Timed\ntask: none\nsample: sample\nbatch: 4\noptimizer: sgd\n"
            "input: {shape: [8], bytes: 32 B}\n"
            "measured_on: {gpu: v100-sxm2-16gb, precision: fp32, peak: 15.7 TFLOP/s, memory_bandwidth: 900 GB/s}\n"
            "sources: {layers: by hand, input: by hand, batch: by hand, optimizer: by hand, measured_on: by hand}\n"
            "layers:\n"
            "  - measured: {name: a, forward: 1 ms, backward: 1 ms, bound: fixed}\n"
            "  - measured: {name: b, forward: 1 ms, backward: 1 ms, bound: fixed}\n"
            "  - measured: {name: c, forward: 2 ms, backward: 2 ms, bound: fixed, gradients: [2000000]}\n";
  }
  ~TimedModel() { std::remove(path_.c_str()); }
  TimedModel(const TimedModel&) = delete;
  TimedModel& operator=(const TimedModel&) = delete;

  [[nodiscard]] std::vector<Override> on(const char* gpus) const {
    return {{"model", path_, {}}, {"node", "dgx1-v100", {}}, {"gpus_per_node", gpus, {}}};
  }

 private:
  std::string path_ = (std::filesystem::temp_directory_path() / "timed.yaml").string();
};

}  // namespace

TEST_CASE("stage partition: a model of timed layers, by hand", "[unit][whatif]") {
  const TimedModel model;
  // Two GPUs: a and b on one, c on the other: 4 ms each; no stage has replicas, so nothing is sent.
  const auto choice = partition_stages(catalog(), model.on("2")).value();
  REQUIRE(choice.stages.size() == 2);
  CHECK(choice.stages[0].last == "b");
  CHECK(choice.stages[1].weights == megabytes(8));
  CHECK(choice.slowest.in(milliseconds) == Approx(4));
  CHECK(choice.alone.in(milliseconds) == Approx(8));
  CHECK(choice.batch == 4);
  // Data parallelism: half of 8 ms, and of the sum 4 (1/2) 8 MB over what two GPUs reach.
  CHECK(choice.data_parallel > milliseconds(4));
}

// Eight replicas: (8 ms + 4 (7/8) 8 MB / B) / 8, where each of a server's four GPUs has B, a quarter of its network.
TEST_CASE("stage partition: what it does not choose is refused, and what does not fit is said", "[unit][whatif]") {
  const TimedModel model;
  auto split = model.on("2");
  split.push_back({"parallel.pipeline", "2", {}});
  const auto refused = partition_stages(catalog(), split);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("chooses itself") != std::string::npos);
  const auto notes = [](const std::vector<Override>& settings) {
    const answer::PartitionChoice choice = partition_stages(catalog(), settings).value();
    std::string text;
    for (const std::string& note : choice.notes) text += note + "\n";
    return text;
  };
  CHECK(notes(model.on("2")).find("does not fit") == std::string::npos);
  CHECK(notes({{"model", "gpt3_175b", {}}, {"node", "dgx1-v100", {}}}).find("does not fit: ") != std::string::npos);
}

TEST_CASE("stage partition: a stage holds as many versions of its weights as are on their way", "[unit][whatif]") {
  const TimedModel timed;
  const auto choice = partition_stages(catalog(), timed.on("2")).value();
  CHECK(choice.stages[0].versions == 2);
  CHECK(choice.stages[1].versions == 1);
  CHECK_FALSE(choice.stages[0].fits.has_value());  // what timed layers keep is unknown
  // A straight pipeline is that of predict's ledger.
  const std::vector<Override> llama{{"model", "llama_3_1_405b", {}}, {"node", "dgx-h100", {}}, {"batch", "1", {}}};
  const auto large = partition_stages(catalog(), llama).value();
  REQUIRE(large.stages.size() == 8);
  std::vector<Override> pipeline = llama;
  pipeline.push_back({"parallel.pipeline", "8", {}});
  pipeline.push_back({"parallel.schedule", "pipedream", {}});
  pipeline.push_back({"strategy.accumulation", "16", {}});
  std::string each;
  for (const answer::PartitionStage& stage : large.stages)
    each += (each.empty() ? "" : "-") + std::to_string(stage.layers);
  pipeline.push_back({"parallel.layers_per_stage", each, {}});
  const auto predicted = predict(resolve(catalog(), pipeline).value()).value();
  CHECK(large.stages[0].versions == 8);
  CHECK(large.stages[0].held->in(gigabytes) == Approx(predicted.memory.all().in(gigabytes)));
  for (const answer::PartitionStage& stage : large.stages) CHECK(stage.fits == false);
  CHECK_THAT(large.notes.front(),
             Catch::Contains("8 of 8 stages; stage 1 needs 3.001 TB of ") && Catch::Contains("(8 versions)"));
}

TEST_CASE("stage partition: GPUs of a server share its network", "[unit][whatif]") {
  const TimedModel model;
  auto settings = model.on("4");
  settings.push_back({"nodes", "2", {}});
  const Bandwidth network = cost::reached_rates(resolve(catalog(), settings).value()).value().network;
  const Time sum = 4 * (7.0 / 8) * (megabytes(8) / (network / 4));
  const auto choice = partition_stages(catalog(), settings).value();
  CHECK(choice.data_parallel.in(milliseconds) == Approx(((milliseconds(8) + sum) / 8).in(milliseconds)));
}

TEST_CASE("stage partition: GPUs of two kinds share layers by what they take", "[unit][whatif]") {
  const std::vector<Override> settings{
      {"model", "vgg16", {}}, {"node", "dgx1-v100", {}}, {"gpus_per_node", "4", {}}, {"batch", "64", {}}};
  const std::vector<GpuShare> mixed{{"v100", 1}, {"p100", 1}};
  const auto choice = partition_stages(catalog(), settings, mixed).value();
  REQUIRE(choice.stages.size() == 2);
  CHECK(choice.stages[0].gpu != choice.stages[1].gpu);
  // The faster one has the greater part of the work: a cut in half would wait for the slower one.
  CHECK(choice.slowest < choice.data_parallel);
  CHECK_FALSE(partition_stages(catalog(), settings, std::vector<GpuShare>(5, {"v100", 1})));
}
