#include "ddlsim/whatif/explain.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "catalog.h"
#include "ddlsim/cost/nccl.h"
#include "ddlsim/cost/nccl_terms.h"
#include "ddlsim/report/questions.h"
#include "ddlsim/support/formula.h"
#include "ddlsim/whatif/predict.h"
#include "overrides.h"

using namespace ddlsim;
using ddlsim::test::learnt_catalog;
using namespace ddlsim::whatif;
using ddlsim::test::joined;
using ddlsim::test::overrides;
using Json = nlohmann::json;

namespace {

Scenario job(const std::string& model, const std::string& node, const std::vector<Override>& more = {}) {
  const std::vector<Override> settings = joined(overrides("model {}; node {}", model, node), more);
  return resolve(learnt_catalog(), settings).value();
}

/// Works every equation of the JSON out again, from what is printed alone.
void recompute(const Scenario& scenario) {
  const auto explanation = explain(scenario);
  if (!explanation) FAIL(explanation.error().message);
  const Json json = Json::parse(report::render(*explanation, report::Format::kJson));
  for (const Json& part : json["parts"]) {
    INFO(part["title"].get<std::string>() << ": " << part["equation"].get<std::string>());
    std::vector<FormulaValue> values;
    double largest = 0;
    double passes = 1;
    for (const Json& value : part["values"]) {
      values.emplace_back(value["symbol"], value["value"].get<double>());
      if (value["unit"] == "s") largest = std::max(largest, std::abs(values.back().second));
      if (value["symbol"] == "P") passes = std::max(passes, values.back().second);
    }
    const double result = part["result"];
    const double nothing = part["unit"] == "s" ? std::max(1e-15, 1e-13 * largest) * passes : 0;
    CHECK(std::abs(evaluate(part["equation"].get<std::string>(), values).value() - result) <=
          1e-6 * std::abs(result) + nothing);
  }
}

const answer::ExplainedPart& part_with(const answer::Explanation& all, const std::string& symbol) {
  for (const answer::ExplainedPart& part : all.parts) {
    if (part.symbol == symbol) return part;
  }
  throw std::runtime_error("no part " + symbol);
}

double value_of(const answer::ExplainedPart& part, const std::string& symbol) {
  for (const answer::ExplainedValue& value : part.values) {
    if (value.symbol == symbol) return value.value;
  }
  throw std::runtime_error("no value " + symbol);
}

}  // namespace

TEST_CASE("explain: every equation gives what the model computed, from the printed numbers", "[unit][explain]") {
  const std::string two = "2";
  recompute(job("resnet50", "dgx1-v100", overrides("nodes 4")));
  recompute(job("resnet50", "dgx1-v100", overrides("nodes 4; network 25 Gb/s")));
  recompute(job("gpt2", "pcie-8x3090", overrides("nodes 4")));
  recompute(
      job("llama_2_13b", "dgx-h100",
          overrides("parallel.pipeline 4; batch 1; global_batch 8; parallel.zero 1; parallel.offload_optimizer yes")));
  recompute(job("llama_2_70b", "dgx-h100", overrides("batch 1; global_batch 64; cuda_graphs yes")));
  recompute(job("vgg16", "dgx1-p100", overrides("nodes 2; strategy horovod")));
  recompute(job("bert_large", "dgx-a100", overrides("nodes 3; precision fp16")));
  recompute(job("bert_large", "dgx-h100", overrides("nodes 8; precision bf16")));
  recompute(job("vgg16", "dgx1-v100", overrides("gpus_per_node 1; gpu.calibration none")));
  // Memory dearer, and the longest layer bound by arithmetic; arithmetic dearer, and memory bounds.
  recompute(job("bert_large", "dgx-h100", overrides("gpu.calibration none")));
  recompute(job("gpt2", "dgx-a100", overrides("precision tf32; gpu.calibration none")));
  recompute(job("vgg16", "dgx1-v100", overrides("precision fp16; gpu.calibration none")));
  recompute(job("vgg16", "dgx1-v100", overrides("nodes 2; strategy ps")));
  recompute(job("resnet50", "dgx1-v100", overrides("nodes {}; overlap none", two)));
  recompute(job("resnet50", "dgx1-v100", overrides("nodes {}; overlap ideal", two)));
  recompute(job("resnet50", "dgx1-v100", overrides("strategy.accumulation 4; jitter 2 %")));
  recompute(job("resnet50", "dgx1-v100", overrides("strategy.grouping per-tensor; nodes {}", two)));
  recompute(job("resnet50", "dgx1-v100", overrides("strategy.priority yes; nodes {}", two)));
  recompute(job("resnet50", "dgx1-v100", overrides("collective.library mpi; nodes {}", two)));
  recompute(job("resnet50", "dgx1-v100", overrides("collective.algorithm tree; nodes {}", two)));
  recompute(job("resnet50", "dgx1-v100", overrides("strategy.sync_every 4; nodes {}", two)));
  recompute(job("resnet50", "dgx1-v100", overrides("straggler 1.3; nodes {}", two)));
  recompute(job("bert_large", "dgx-a100", overrides("parallel.tensor 4; precision bf16")));
  recompute(job("bert_large", "dgx-a100", overrides("parallel.zero 3; precision bf16")));
  recompute(job("pai_resnet50", "dgx1-v100", overrides("nodes 4")));
  recompute(job("resnet50", "dgx1-v100", overrides("input.dataset imagenet; nodes {}", two)));
  recompute(job("dlrm", "dgx1-v100", overrides("batch 128")));
}

TEST_CASE("explain: parts are the prediction's, and each other's", "[unit][explain]") {
  const Scenario scenario = job("resnet50", "dgx1-v100", overrides("nodes 4; network 25 Gb/s"));
  const auto p = predict(scenario).value();
  const auto all = explain(scenario).value();
  CHECK(part_with(all, "T").result == p.step_time.in(seconds));
  CHECK(part_with(all, "T_exposed").result == p.breakdown.communication_exposed.in(seconds));
  CHECK(value_of(part_with(all, "T"), "T_exposed") == part_with(all, "T_exposed").result);
  CHECK(value_of(part_with(all, "T"), "T_compute") == part_with(all, "T_compute").result);
  CHECK(value_of(part_with(all, "T_compute"), "f_c") == part_with(all, "f_c").result);
  CHECK(value_of(part_with(all, "T_communication"), "t_1") == part_with(all, "t_1").result);
  CHECK(value_of(part_with(all, "t_1"), "b_1") == part_with(all, "b_1").result);
  CHECK(part_with(all, "T_communication").result == p.breakdown.communication.in(seconds));
  // Every value from above is the result of a part, or of the schedule's own.
  for (const answer::ExplainedPart& part : all.parts) {
    for (const answer::ExplainedValue& value : part.values) {
      if (value.provenance != "above") continue;
      INFO(part.symbol << " " << value.symbol);
      CHECK(part_with(all, value.symbol).result == Approx(value.value).epsilon(1e-12));
    }
  }
}

TEST_CASE("explain: parameter servers, station by station", "[unit][explain]") {
  // ResNet-50 pushed by 32 GPUs over 25 Gb/s: the ports hold it up, and what sticks out is what predict has.
  const Scenario slow = job("resnet50", "dgx1-v100", overrides("nodes 4; network 25 Gb/s; strategy ps"));
  const auto p = predict(slow).value();
  const auto all = explain(slow).value();
  const auto& exposed = part_with(all, "T_exposed");
  CHECK(exposed.result == p.breakdown.communication_exposed.in(seconds));
  CHECK_THAT(exposed.equation, Catch::Contains("max(r + P_1 + "));
  // Nearly all 102 MB of weights come back through the node's port, one piece after another.
  const double most = std::max(part_with(all, "P_2").result, part_with(all, "P_6").result);
  CHECK(most > 0.5 * exposed.result);
  for (const char* strategy : {"ps", "tf-distributed-replicated", "mxnet-kvstore", "tf-ps", "byteps"}) {
    for (const char* network : {"10 Gb/s", "100 Gb/s"}) {
      recompute(job("vgg16", "dgx1-p100", overrides("nodes 2; strategy {}; network {}", strategy, network)));
    }
  }
  for (const char* placement : {"round-robin", "greedy"}) {
    const auto placed =
        explain(job("vgg16", "dgx1-v100",
                    overrides("nodes 4; strategy ps; strategy.placement {}; network 10 Gb/s", placement)))
            .value();
    CHECK_THAT(part_with(placed, "T_exposed").equation, Catch::Contains("P_3"));
  }
}

TEST_CASE("explain: what the next forward pass waits for", "[unit][explain]") {
  // ByteScheduler's order: the last layer that waits for its weights, and what runs from it on, against a pass that
  // waits for nothing. A pull at start is that, after the servers have summed.
  const std::vector<Override> slow = overrides("nodes 4; network 10 Gb/s");
  for (const char* strategy : {"tf-ps", "byteps", "ps", "allreduce"}) {
    std::vector<Override> settings = slow;
    settings.push_back({"strategy", strategy, {}});
    const bool pulls = std::string(strategy) == "tf-ps";
    if (!pulls) settings.push_back({"strategy.priority", "yes", {}});
    const Scenario scenario = job("vgg16", "dgx1-p100", settings);
    INFO(strategy);
    recompute(scenario);
    const auto exposed = part_with(explain(scenario).value(), "T_exposed");
    CHECK_THAT(exposed.equation, Catch::EndsWith("max(b + R - F, 0)"));
    CHECK(value_of(exposed, "b") > 0);
    CHECK(value_of(exposed, "R") <= value_of(exposed, "F") * (1 + 1e-12));
    CHECK_THAT(exposed.equation, pulls ? Catch::StartsWith("max(p - (F") : Catch::StartsWith("max(b"));
  }
  // Nothing beside backward: all messages stick out; ideal overlap hides what a step's work is long.
  const auto none = job("vgg16", "dgx1-p100", overrides("nodes 4; overlap none"));
  CHECK(part_with(explain(none).value(), "T_exposed").equation == "D");
  const auto ideal = job("vgg16", "dgx1-p100", overrides("nodes 4; overlap ideal; network 1 Gb/s"));
  CHECK(part_with(explain(ideal).value(), "T_exposed").equation == "max(D - (P * (F + G) + U), 0)");
}

TEST_CASE("explain: splits, part by part", "[unit][explain]") {
  const std::vector<std::vector<Override>> splits{
      overrides("parallel.tensor 8; parallel.pipeline 2; strategy.accumulation 8"),
      overrides("parallel.pipeline 4; strategy.accumulation 8; parallel.schedule gpipe"),
      overrides("parallel.pipeline 4; strategy.accumulation 8; parallel.schedule zb-h1"),
      overrides("parallel.pipeline 4; strategy.accumulation 8; parallel.recompute full"),
      overrides("parallel.zero 3"),
      overrides("parallel.zero 1; strategy.accumulation 4"),
  };
  for (const std::vector<Override>& split : splits) {
    const std::vector<Override> settings = joined(overrides("nodes 2; precision bf16; batch 1"), split);
    const Scenario scenario = job("llama3.1-8b", "dgx-a100", settings);
    INFO(split.front().path << " " << split.back().path << "=" << split.back().value);
    recompute(scenario);
    const auto p = predict(scenario).value();
    const auto all = explain(scenario).value();
    CHECK(part_with(all, "T_compute").result == p.breakdown.compute.in(seconds));
    CHECK(part_with(all, "T_memory").result == p.breakdown.memory.in(seconds));
    CHECK(part_with(all, "T_launch").result == p.breakdown.launch.in(seconds));
    CHECK(part_with(all, "T_exposed").result == p.breakdown.communication_exposed.in(seconds));
    CHECK(part_with(all, "T_other").result == p.breakdown.other.in(seconds));
    if (p.breakdown.bubble > Time::zero()) {
      CHECK(part_with(all, "T_bubble").result == p.breakdown.bubble.in(seconds));
    }
  }
}

TEST_CASE("explain: what rounding leaves of a difference is no time", "[unit][explain]") {
  // 480 passes of 13 s in all leave 2e-13 s of the CPU's.
  const Scenario scenario = job("deepseek-v3", "hgx-h800",
                                overrides("nodes 256; global_batch 15360; batch 1; precision fp8; parallel.tensor 4; "
                                          "parallel.pipeline 16; parallel.expert 32; parallel.expert_tensor 1; "
                                          "parallel.schedule dualpipe; parallel.zero 1; parallel.sequence yes"));
  const auto p = predict(scenario).value();
  CHECK(p.breakdown.launch == Time::zero());
  CHECK(p.breakdown.step().in(seconds) == Approx(p.step_time.in(seconds)).epsilon(1e-9));
  const auto all = explain(scenario).value();
  CHECK(part_with(all, "T").equation == "T_compute + T_memory + T_exposed + T_bubble + T_other");
  CHECK(part_with(all, "T_launch").result == 0);
}

TEST_CASE("explain: local SGD is a share of its average", "[unit][explain]") {
  const Scenario scenario = job("resnet50", "dgx1-v100", overrides("nodes 2; strategy.sync_every 4"));
  const auto exposed = part_with(explain(scenario).value(), "T_exposed");
  CHECK(exposed.equation == "A / n");
  CHECK(value_of(exposed, "n") == 4);
  CHECK(exposed.result == Approx(predict(scenario).value().breakdown.communication_exposed.in(seconds)));
}

TEST_CASE("explain: frozen weights are not trained", "[unit][explain]") {
  // Adapters of rank 8: the memory's gradients and MFU's FLOPs are those of what is trained.
  const std::vector<Override> adapters = overrides("precision bf16; parallel.lora_rank 8");
  const auto all = explain(job("llama3.1-8b", "dgx-h100", adapters)).value();
  const auto full = explain(job("llama3.1-8b", "dgx-h100", overrides("precision bf16"))).value();
  CHECK(value_of(part_with(all, "MFU"), "W") < 0.75 * value_of(part_with(full, "MFU"), "W"));
  // Of two passes they stand from the first on.
  const std::vector<Override> twice = overrides("strategy.accumulation 2");
  const auto summed = [&](std::vector<Override> settings) {
    settings = joined(settings, twice);
    return part_with(explain(job("llama3.1-8b", "dgx-h100", settings)).value(), "N");
  };
  const auto few = summed(adapters);
  CHECK(value_of(few, "gradients") < 0.01 * value_of(summed(overrides("precision bf16")), "gradients"));
  for (const answer::ExplainedValue& value : few.values) {
    if (value.symbol == "gradients") CHECK(value.meaning == "of the weights that are trained");
  }
}

TEST_CASE("explain: a ring by hand", "[unit][explain]") {
  // 32 V100 on four servers: v = 2 * 31 / 32; 25 Gb/s by TCP, 94 % of it; 3.125 * 0.94 = 2.9375 GB/s.
  const auto all = explain(job("resnet50", "dgx1-v100", overrides("nodes 4; network 25 Gb/s"))).value();
  CHECK(part_with(all, "v_1").result == Approx(1.9375));
  CHECK(part_with(all, "r_out_1").result == Approx(2.9375e9));
  CHECK(part_with(all, "b_1").result >= 1.9375 / 2.9375e9);
  const auto& t = part_with(all, "t_1");
  CHECK(t.result == Approx(value_of(t, "L_1") + value_of(t, "S") * value_of(t, "b_1")));
}

TEST_CASE("explain: an equation that the code left behind is no explanation", "[unit][explain]") {
  auto parts = explain(job("resnet50", "dgx1-v100", overrides("nodes 4"))).value().parts;
  REQUIRE(check_equations(parts));
  for (answer::ExplainedPart& part : parts) {
    if (part.symbol == "f_c") part.result *= 1 + 3e-6;
  }
  CHECK_THAT(check_equations(parts).error().message, Catch::Contains("a fault of ddlsim itself"));
  // Both are held to the same share of themselves, however large.
  for (const double result : {1e-6, 1.0, 1e12}) {
    std::vector<answer::ExplainedPart> one(1);
    one[0] = {.symbol = "x", .equation = "y", .values = {{.symbol = "y", .value = result}}, .result = result};
    one[0].result = result * (1 + kExplainedWithin / 2);
    CHECK(check_equations(one));
    one[0].result = result * (1 + kExplainedWithin * 2);
    CHECK_FALSE(check_equations(one));
  }
}

TEST_CASE("explain: one part, and parts that are not there", "[unit][explain]") {
  const Scenario scenario = job("resnet50", "dgx1-v100", overrides("nodes 2"));
  const auto one = explain(scenario, "all-reduce").value();
  CHECK(one.parts.size() > 3);
  for (const answer::ExplainedPart& part : one.parts) CHECK(part.name == "all-reduce");
  const auto none = explain(scenario, "all-redcue");
  CHECK_THAT(none.error().message, Catch::Contains("no part 'all-redcue'"));
  CHECK_THAT(none.error().notes.front(), Catch::Contains("all-reduce"));
  const auto runs = explain(job("resnet50", "dgx1-v100", overrides("measured.step 180 ms")));
  CHECK_THAT(runs.error().message, Catch::Contains("measured runs"));
}

TEST_CASE("nccl terms: are the lines", "[unit][explain]") {
  for (const std::string node :
       {"dgx1-p100", "dgx1-v100", "dgx-a100", "dgx-h100", "dgx-b200", "pcie-8x3090", "pcie-8xl40s"}) {
    for (const char* nodes : {"1", "2", "5"}) {
      const cost::Communicator c = cost::communicator_of(job("resnet50", node, overrides("nodes {}", nodes)).cluster);
      for (const auto op : {primitives::CollectiveOp::kAllReduce, primitives::CollectiveOp::kAllGather}) {
        for (const cost::CollectiveLine& line : cost::nccl_lines(c, {}, op)) {
          INFO(node << " " << nodes << " " << name_of(cost::kCollectiveAlgorithms, line.algorithm));
          const auto terms = cost::nccl_terms(c, {}, op, line);
          REQUIRE(terms);
          const Time latency = max(terms->latency() + terms->wall, Time::zero());
          CHECK(latency.in(seconds) == Approx(line.latency.in(seconds)).epsilon(1e-12));
          Time per_byte;
          if (line.wire_intra > 0) per_byte = bytes(line.wire_intra) / terms->inside.reached();
          if (line.wire_inter > 0) per_byte = max(per_byte, bytes(line.wire_inter) / terms->across.reached());
          CHECK((per_byte + terms->local).in(seconds) == Approx(line.per_byte.in(seconds)).epsilon(1e-12));
        }
      }
    }
  }
}

TEST_CASE("explain: by priority, when the weights that are waited for last are back", "[unit][explain]") {
  const Scenario byteps = job("bert_large", "dgx-h100", overrides("nodes 2; precision fp16; strategy byteps"));
  const auto servers = explain(byteps, "").value();
  CHECK_THAT(part_with(servers, "b").equation, Catch::Contains("r + P_1 + P_2"));
  CHECK(value_of(part_with(servers, "T_exposed"), "b") == part_with(servers, "b").result);
  recompute(byteps);
  const Scenario turns = job("vgg16", "dgx1-v100", overrides("nodes 2; network 25 Gb/s; strategy bytescheduler"));
  CHECK_THAT(part_with(explain(turns, "").value(), "b").equation, Catch::Contains("r + D"));
  recompute(turns);
  recompute(job("resnet50", "dgx1-v100", overrides("nodes 2; strategy horovod-mpi")));
}
