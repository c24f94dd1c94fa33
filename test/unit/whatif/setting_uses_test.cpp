// What an answer says of the settings behind it: which of them had no effect, and which job they make, in its title,
// its JSON and its notes.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "catalog.h"
#include "ddlsim/hardware/link_words.h"
#include "ddlsim/hardware/topology.h"
#include "ddlsim/report/views.h"
#include "ddlsim/whatif/predict.h"
#include "ddlsim/whatif/recommend.h"
#include "overrides.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using namespace ddlsim::whatif;
using Catch::Matchers::Contains;
using ddlsim::test::joined;
using ddlsim::test::overrides;

namespace {

using Settings = std::vector<Override>;

Settings with(Settings settings, const Settings& more) {
  settings = joined(settings, more);
  return settings;
}

answer::Prediction predicted(const Settings& settings) { return predict(resolve(catalog(), settings).value()).value(); }

/// The settings that are said to have no effect, with a comma after each.
std::string unused(const Settings& settings) {
  const std::string start = "stated, but without effect here: ";
  for (const std::string& note : predicted(settings).notes) {
    if (note.starts_with(start)) return note.substr(start.size()) + ",";
  }
  return {};
}

const Settings kLlama = overrides("model llama_3_2_1b; node dgx-h100; nodes 2; precision bf16; batch 1");
const Settings kSharded = with(kLlama, overrides("parallel.zero 3"));
const Settings kExperts = overrides(
    "model mixtral_8x7b; node dgx-h100; nodes 2; precision bf16; parallel.expert 8; parallel.zero 1; batch 1");

}  // namespace

TEST_CASE("settings without effect: a split's, its defaults too where somebody states them", "[unit][whatif]") {
  const Settings ineffective = overrides(
      "parallel.recompute_stops no; parallel.overlap_p2p yes; parallel.sequence no; parallel.order cp-tp-ep-dp-pp");
  for (const Override& setting : ineffective) {
    CHECK_THAT(unused(with(kLlama, {setting})), Contains(setting.path + ","));
    CHECK(predicted(with(kLlama, {setting})).step_time == predicted(kLlama).step_time);
  }
  CHECK(unused(kLlama).empty());
  CHECK_THAT(unused(with(kLlama, overrides("parallel.recompute full; parallel.recompute_stops no"))),
             !Contains("recompute_stops"));
  CHECK_THAT(unused(with(kLlama, overrides("parallel.pipeline 2; parallel.overlap_p2p yes"))),
             !Contains("overlap_p2p"));
}

TEST_CASE("settings without effect: of messages and sums where blocks send their own", "[unit][whatif]") {
  const Settings changes = overrides(
      "strategy.bucket 100 MiB; strategy.first_bucket 5 MiB; strategy.grouping flat; collective.algorithm tree");
  for (const Override& change : changes) {
    CHECK_THAT(unused(with(kSharded, {change})), Contains(change.path + ","));
    CHECK(predicted(with(kSharded, {change})).step_time == predicted(kSharded).step_time);
    CHECK_THAT(unused(with(kLlama, {change})), !Contains(change.path));
  }
  // Copies of a shard are summed.
  CHECK_THAT(unused(with(kSharded, overrides("parallel.shard_ranks 8; collective.algorithm tree"))),
             !Contains("algorithm"));
}

TEST_CASE("settings without effect: of experts", "[unit][whatif]") {
  const Override wide{"parallel.expert_capacity", "1.25", {}};
  CHECK_THAT(unused(with(kExperts, {wide})), Contains("parallel.expert_capacity,"));
  CHECK(predicted(with(kExperts, {wide})).step_time == predicted(kExperts).step_time);
  CHECK_THAT(unused(with(kExperts, {wide, {"parallel.expert_imbalance", "1.5", {}}})), !Contains("capacity"));
  CHECK_THAT(unused(with(kExperts, overrides("parallel.expert_capacity 0.9"))), !Contains("capacity"));
  // One expert on each of 8 ranks of a server: a row goes to two ranks either way. Of two on each of 4 it may want
  // both.
  const Override once{"parallel.expert_dispatch", "once", {}};
  CHECK_THAT(unused(with(kExperts, {once})), Contains("parallel.expert_dispatch,"));
  CHECK(predicted(with(kExperts, {once})).step_time == predicted(kExperts).step_time);
  const Settings fewer = with(kExperts, overrides("parallel.expert 4"));
  CHECK_THAT(unused(with(fewer, {once})), !Contains("dispatch"));
  CHECK(predicted(with(fewer, {once})).step_time < predicted(fewer).step_time);
}

TEST_CASE("settings without effect: rates of another precision", "[unit][whatif]") {
  CHECK_THAT(unused(with(kLlama, overrides("gpu.peak.fp16 1 TFLOP/s"))), Contains("gpu.peak.fp16,"));
  CHECK_THAT(unused(with(kLlama, overrides("gpu.peak.bf16 500 TFLOP/s"))), !Contains("gpu.peak"));
  // A server's own network is no setting of the job: one that a sweep has on one server is not remarked on.
  CHECK(unused(with(kLlama, overrides("nodes 1; network 25 Gb/s"))).empty());
}

TEST_CASE("settings: a job of adapters is known by its title and its JSON", "[unit][whatif]") {
  const Settings qlora = with(kLlama, overrides("parallel.lora_rank 16; parallel.frozen_bits 4"));
  const Scenario scenario = resolve(catalog(), qlora).value();
  CHECK_THAT(describe(scenario), Contains(", LoRA of rank 16, frozen weights in 4 bits, on 2 x "));
  const std::string json = report::render(predict(scenario).value(), describe(scenario), report::Format::kJson);
  CHECK_THAT(json, Contains("\"lora_rank\": 16") && Contains("\"frozen_bits\": 4"));
  CHECK_THAT(describe(resolve(catalog(), kLlama).value()), !Contains("LoRA") && !Contains("frozen"));
}

TEST_CASE("settings: so is what else of a split changes a step", "[unit][whatif]") {
  const Settings split = with(
      kSharded,
      overrides("parallel.states mixed; parallel.offload_optimizer yes; parallel.reshard no; model.optimizer sgd"));
  const Scenario scenario = resolve(catalog(), split).value();
  CHECK_THAT(describe(scenario), Contains(", zero 3, states mixed, sgd, optimizer on the host, reshard no, on "));
  const answer::Prediction answer = predict(scenario).value();
  CHECK(answer.split.states == "mixed");
  CHECK(answer.split.offload_optimizer);
  CHECK(answer.optimizer == "sgd");
  REQUIRE(answer.split.others.size() == 1);
  CHECK(answer.split.others.front() == std::pair<std::string, std::string>{"parallel.reshard", "no"});
}

TEST_CASE("settings: a format of states that nobody stated is said where memory rests on it", "[unit][whatif]") {
  const auto says = [](const Settings& settings) {
    const answer::Prediction answer = predicted(settings);
    return std::any_of(answer.notes.begin(), answer.notes.end(),
                       [](const std::string& note) { return note.starts_with("states: nobody stated a format"); });
  };
  const Settings large = with(kLlama, overrides("model llama_3_1_8b"));
  CHECK(says(large));
  CHECK_FALSE(says(with(large, overrides("parallel.states mixed"))));
  CHECK_FALSE(says(with(large, overrides("precision fp32"))));
  CHECK_FALSE(says(with(large, overrides("parallel.lora_rank 16"))));
  // A few hundred MB of 80 GB.
  CHECK_FALSE(says(overrides("model resnet50; node dgx-h100; precision bf16")));
}

TEST_CASE("settings: what joins GPUs of AMD is not called NVLink", "[unit][whatif]") {
  const Settings amd = with(kLlama, overrides("node mi300x-8gpu; nodes 1"));
  const answer::Prediction answer = predicted(amd);
  const std::string text = report::render(answer, "a job", report::Format::kText);
  CHECK_THAT(text, Contains("Infinity Fabric") && !Contains("nvlink") && !Contains("NVLink"));
  CHECK_THAT(report::render(answer, "a job", report::Format::kJson), Contains("\"link\": \"nvlink\""));
  const hardware::Cluster cluster = resolve(catalog(), amd).value().cluster;
  report::TopologyTitle title;
  title.gpu_links = hardware::gpu_link_word(*cluster.node.nvlink);
  const std::string drawn = report::render(hardware::topology_of(cluster, {}).value(), title, report::Format::kText);
  CHECK_THAT(drawn, Contains("Infinity Fabric") && Contains("XGMI") && !Contains("NVL") && !Contains("nvlink"));
  const std::string nvidia = report::render(predicted(kLlama), "a job", report::Format::kText);
  CHECK_THAT(nvidia, Contains("nvlink") && !Contains("Infinity"));
}

TEST_CASE("settings: of one kind of server, prices of others have no effect", "[unit][whatif]") {
  const auto notes = [](const Settings& more) {
    RecommendOptions own;
    own.providers.emplace();
    own.max_nodes = 1;
    const Settings run = overrides("model resnet50; training.samples 1281167");
    std::string all;
    const auto recommended = recommend(catalog(), with(run, more), own).value();
    for (const std::string& note : recommended.notes) all += note + "\n";
    return all;
  };
  CHECK_THAT(notes(overrides("node p3.16xlarge; price dgx-a100=12 $/h")),
             Contains("without effect here: the price of dgx-a100"));
  CHECK_THAT(notes(overrides("price dgx1-v100=3 $/h, dgx-a100=12 $/h")), !Contains("the price of"));
}
