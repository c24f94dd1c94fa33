#include "ddlsim/whatif/predict.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "catalog.h"
#include "ddlsim/whatif/compare.h"
#include "ddlsim/whatif/elasticity.h"
#include "ddlsim/whatif/explain.h"
#include "ddlsim/whatif/goodput.h"
#include "ddlsim/whatif/predictor.h"
#include "dgx1_job.h"
#include "overrides.h"

using namespace ddlsim;
using Catch::Matchers::Contains;
using ddlsim::test::catalog;
using ddlsim::test::dgx1_job;
using namespace ddlsim::whatif;
using ddlsim::test::joined;
using ddlsim::test::overrides;

namespace {

answer::Prediction predicted(std::vector<Override> more = {}) {
  return predict(resolve(catalog(), dgx1_job(std::move(more))).value()).value();
}

}  // namespace

TEST_CASE("predict: the compute of a VGG-16 head, by hand", "[unit][whatif]") {
  // One V100 at 70 % of 15.7 TFLOP/s: 3 x 30.94 GFLOP x 64 / 10.99 TFLOP/s = 540.5 ms,
  // less the 3 ms of fully connected layers that reading their weights bounds.
  const auto p =
      predict(
          resolve(catalog(), overrides("model vgg16; node dgx1-v100; gpus_per_node 1; gpu.calibration none; batch 64"))
              .value())
          .value();
  CHECK(p.breakdown.compute.in(milliseconds) == Approx(540.5).epsilon(0.01));
  CHECK(p.breakdown.communication == Time::zero());
  CHECK(p.mfu == Approx(3 * 30.9405e9 * 64 / p.step_time.in(seconds) / 15.7e12).epsilon(1e-4));
}

TEST_CASE("predict: a context of a million tokens", "[unit][whatif]") {
  const auto p =
      predict(resolve(catalog(), overrides("model llama_3_1_8b; model.sequence 1048576; node dgx-h100; nodes 4; "
                                           "precision bf16; batch 1; parallel.context 32; parallel.zero 3"))
                  .value())
          .value();
  // Attention alone: 32 layers of 14 * 2^19 (2^20 + 1) * 4096 FLOPs, 1.0e18; 32 GPUs of 989.5 TFLOP/s at most.
  CHECK(p.step_time.in(seconds) > 1.0e18 / (32 * 989.5e12));
  CHECK(p.mfu > 0.2);
  CHECK(p.mfu < 1);
}

TEST_CASE("predict: PS traffic on the network, by hand", "[unit][whatif]") {
  const auto p = predicted(overrides("nodes 4; strategy ps"));
  // 8 workers push 4 x 25,557,032 bytes each through a node's port.
  const auto& network = p.traffic.front();
  CHECK(network.link == "network");
  CHECK(network.bytes.in(bytes) == Approx(8 * 4 * 25'557'032.0));
  // TCP, which nobody says otherwise, leaves 94 % of 3.125 GB/s.
  CHECK(network.time.in(seconds) == Approx(8 * 4 * 25'557'032.0 / (0.94 * 3.125e9)));
  CHECK(p.bottleneck == "network");
}

TEST_CASE("predict: all-reduce traffic on the network, by hand", "[unit][whatif]") {
  const auto p = predicted(overrides("nodes 4; strategy allreduce"));
  CHECK(p.traffic.front().bytes.in(bytes) == Approx(2 * 31.0 / 32 * 4 * 25'557'032.0));
}

TEST_CASE("predict: aggregate fidelity is the model of Wang et al.", "[unit][whatif]") {
  const auto p =
      predict(resolve(catalog(), overrides("model pai_resnet50; node dgx1-v100; strategy allreduce")).value()).value();
  CHECK(p.fidelity == answer::Fidelity::kAggregate);
  // 1.56 TFLOP / 15.7 TFLOP/s, 31.9 GB / 900 GB/s, 357 MB / 150 GB/s, each at 70 %; input: 2 GPUs per uplink
  CHECK(p.breakdown.compute.in(seconds) == Approx(1.56 / 15.7 / 0.7));
  CHECK(p.breakdown.memory.in(seconds) == Approx(31.9 / 900 / 0.7));
  CHECK(p.breakdown.communication_exposed.in(seconds) == Approx(0.357 / 150 / 0.7));
  CHECK(p.breakdown.input_exposed.in(seconds) == Approx(2 * 0.038 / 15.754 / 0.7).epsilon(1e-3));
  REQUIRE(p.bounds);
  CHECK(p.bounds->second.in(seconds) == Approx(p.step_time.in(seconds)));
  CHECK(p.bounds->first < p.bounds->second);
  CHECK_FALSE(p.fits);  // activations are unknown, so a small lower bound decides nothing
}

TEST_CASE("predict: the architecture follows from strategy and cluster", "[unit][whatif]") {
  CHECK(predicted(overrides("gpus_per_node 1")).architecture == "1w1g");
  CHECK(predicted(overrides("strategy ps")).architecture == "1wng");
  CHECK(predicted(overrides("nodes 2; strategy ps")).architecture == "ps-worker");
  CHECK(predicted({}).architecture == "allreduce-local");
  CHECK(predicted(overrides("nodes 2")).architecture == "allreduce-cluster");
  CHECK(predicted(overrides("strategy pearl; fidelity aggregate")).architecture == "pearl");
  const auto of_tables = predict(resolve(catalog(), dgx1_job(overrides("model dlrm; strategy pearl"))).value());
  CHECK(of_tables.value().architecture == "pearl");
  CHECK(of_tables.value().fidelity == answer::Fidelity::kAnalytic);
}

TEST_CASE("predict: spread tables cost by events what they cost in closed form", "[unit][whatif]") {
  for (const char* strategy : {"hugectr", "torchrec"}) {
    const std::vector<Override> settings =
        overrides("model dlrm_dcnv2; node dgx-h100; nodes 2; strategy {}; precision fp16", strategy);
    Scenario scenario = resolve(catalog(), settings).value();
    const auto closed = predict(scenario).value();
    scenario.fidelity = answer::Fidelity::kEvent;
    const auto events = predict(scenario).value();
    CHECK(events.step_time / closed.step_time == Approx(1).epsilon(1e-9));
    CHECK(closed.fits);
  }
}

TEST_CASE("predict: what cannot be answered is an error, not a guess", "[unit][whatif]") {
  const auto error = [&](std::vector<Override> settings) {
    return to_string(predict(resolve(catalog(), settings).value()).error());
  };
  CHECK(error(dgx1_job(overrides("precision bf16"))).find("no bf16 rate is known") != std::string::npos);
  CHECK(error(overrides("model pai_gcn; node dgx1-v100; fidelity analytic")).find("needs its layers") !=
        std::string::npos);
  // A rate that somebody states is a rate.
  CHECK(predict(resolve(catalog(), dgx1_job(overrides("precision bf16; gpu.peak.bf16 60 TFLOP/s"))).value()));
}

TEST_CASE("predict: the default efficiency is an assumption, a stated one is not", "[unit][whatif]") {
  const Override uncalibrated{"gpu.calibration", "none", {}};
  CHECK(predicted({uncalibrated}).provenance == Provenance::kAssumed);
  CHECK_FALSE(predicted({uncalibrated}).notes.empty());
  const auto stated = predicted(overrides("efficiency 70 %"));
  CHECK(stated.provenance == Provenance::kAnalytic);
  // One GPU: the same number, said with less doubt. Between GPUs 70 % replaces what the library reaches by itself.
  const auto alone = predicted({{"gpus_per_node", "1", {}}, uncalibrated});
  CHECK(predicted(overrides("gpus_per_node 1; efficiency 70 %")).step_time == alone.step_time);
  CHECK(stated.step_time >= predicted({uncalibrated}).step_time);
}

TEST_CASE("predict: a model that does not fit says so", "[unit][whatif]") {
  const auto p = predict(resolve(catalog(), overrides("model dlrm; node dgx1-v100")).value());
  REQUIRE(p);
  CHECK(p->fits == false);  // 96 GB of embedding tables in 16 GB
}

TEST_CASE("predict: the bottleneck is what helps most when it gets faster", "[unit][whatif]") {
  // 14 us at each of 2 x 999 network hops of every bucket: bandwidth would not help.
  CHECK(predicted(overrides("nodes 1000; network 400 Gb/s; collective.algorithm ring; batch 1")).bottleneck ==
        "latency");
  CHECK(predicted(overrides("nodes 4; network 1 Gb/s")).bottleneck == "network");
  CHECK(predicted(overrides("launch_interval 10 ms")).bottleneck == "kernel launches");
  CHECK(predicted(overrides("pcie 0.1 GB/s")).bottleneck == "pcie");
  // The network is busy longer than any part of the GPU, behind all of them together.
  const auto hidden = predicted(overrides("nodes 4; network 11 Gb/s; overlap ideal"));
  REQUIRE(hidden.traffic.front().link == "network");
  REQUIRE(hidden.traffic.front().time > max(hidden.breakdown.compute, hidden.breakdown.memory));
  REQUIRE(hidden.breakdown.communication_exposed == Time::zero());
  CHECK(hidden.bottleneck == "gpu compute");
}

TEST_CASE("predict: provenance is assumed as long as one share is", "[unit][whatif]") {
  CHECK(predicted(overrides("efficiency.pcie 70 %; gpu.calibration none")).provenance == Provenance::kAssumed);
  CHECK(predicted(overrides("efficiency.pcie 70 %; efficiency.compute 70 %; efficiency.memory 70 %; efficiency.nvlink "
                            "70 %; efficiency.network 70 %"))
            .provenance == Provenance::kAnalytic);
}

TEST_CASE("predict: a setting without effect is named", "[unit][whatif]") {
  const auto noted = [](const answer::Prediction& p, std::string_view text) {
    return std::any_of(p.notes.begin(), p.notes.end(),
                       [&](const std::string& note) { return note.find(text) != std::string::npos; });
  };
  CHECK(noted(predicted(overrides("fidelity aggregate; launch_interval 3 us")), "launch_interval"));
  CHECK(noted(predicted(overrides("strategy.servers 4")), "strategy.servers"));
  CHECK_FALSE(noted(predicted(overrides("launch_interval 3 us")), "without effect"));
  // GPUs of one NVSwitch do not meet over PCIe, and one GPU of a server meets no other.
  const auto of_server = [&](std::string node, std::vector<Override> settings) {
    settings = joined(overrides("model resnet50; node {}; nodes 2", std::move(node)), settings);
    return predict(resolve(catalog(), settings).value()).value();
  };
  CHECK(noted(of_server("dgx-a100", overrides("peer_to_peer no")), "without effect here: peer_to_peer"));
  CHECK_FALSE(noted(of_server("p2.16xlarge", overrides("peer_to_peer yes")), "without effect"));
  CHECK_FALSE(noted(of_server("dgx1-v100", overrides("peer_to_peer no")), "without effect"));
  CHECK(noted(of_server("dgx-a100", overrides("gpus_per_node 1; gpu_interconnect pcie")),
              "without effect here: gpu_interconnect"));
  CHECK_FALSE(noted(of_server("dgx-a100", overrides("gpu_interconnect pcie")), "without effect"));
}

TEST_CASE("predict: embedding rows are gathered by all-reduce, once per table", "[unit][whatif]") {
  const auto p =
      predict(resolve(catalog(), overrides("model dlrm; node dgx1-v100; nodes 4; batch 8192")).value()).value();
  // 26 rows of 128 per sample at most; every GPU's share goes to 31 others.
  const double most = 8192.0 * 26 * 128 * 4 * 31;
  CHECK(p.traffic.front().bytes.in(bytes) < most * 1.05);
  CHECK(p.traffic.front().bytes.in(bytes) > most * 0.5);
  CHECK(p.breakdown.communication >= p.traffic.front().time);
}

TEST_CASE("predict: two GPUs of a mesh have the links between them, not all", "[unit][whatif]") {
  const answer::LinkTraffic nvlink = predicted(overrides("gpus_per_node 2")).traffic.front();
  CHECK(nvlink.link == "nvlink");
  // One of 25 GB/s, of which NCCL reaches 23.1.
  CHECK((nvlink.bytes / nvlink.time).in(gigabytes_per_second) == Approx(23.1));
  CHECK(resolve(catalog(), overrides("model resnet50; node dgx-a100; gpus_per_node 2"))
            .value()
            .cluster.node.peers(2)
            .bandwidth.in(gigabytes_per_second) == Approx(300));
}

TEST_CASE("predict: PCIe cards that a bridge joins", "[unit][whatif]") {
  const auto intra = [](std::vector<Override> settings) {
    settings = joined(overrides("model resnet50; node standard-nc96ads-a100-v4"), settings);
    const Scenario scenario = resolve(catalog(), settings).value();
    const answer::LinkTraffic traffic = predict(scenario).value().traffic.front();
    return traffic.link;
  };
  CHECK(intra(overrides("gpus_per_node 2")) == "nvlink");
  CHECK(intra({}) == "pcie");
  CHECK(intra(overrides("gpus_per_node 2; gpu_interconnect pcie")) == "pcie");
  const auto mesh = resolve(catalog(), overrides("model resnet50; node dgx-a100; gpu_interconnect nvlink-mesh"));
  REQUIRE_FALSE(mesh);
  CHECK_THAT(to_string(mesh.error()),
             Contains("dgx-a100 does not say which GPUs are linked") && Contains("nvlink_pairs"));
}

TEST_CASE("predict: kernels all but stand still beside an exchange through the host's memory", "[unit][whatif]") {
  const auto answer = [](std::vector<Override> settings) {
    settings = joined(overrides("model bert_large; node g5.48xlarge; precision fp16; batch 256; gpus_per_node 2; "
                                "software none"),
                      settings);
    return predict(resolve(catalog(), settings).value()).value();
  };
  const auto staged = answer(overrides("peer_to_peer no"));
  const Time alone = answer(overrides("gpus_per_node 1")).step_time;
  // Backward is long enough to hide all of it, and a fifth of the kernels' pace is left beside it.
  REQUIRE(staged.breakdown.communication < alone * 0.7);
  CHECK((staged.step_time - alone) / staged.breakdown.communication > 0.8);
  CHECK((staged.step_time - alone) / staged.breakdown.communication < 1.1);
  const auto direct = answer(overrides("peer_to_peer yes"));
  CHECK((direct.step_time - alone) / direct.breakdown.communication < 0.7);
  // Boxes' rates differ: half of it, three times as much. Who states the rate knows it.
  const auto width = [](const answer::Prediction& p) { return p.interval_90.second / p.interval_90.first; };
  const auto few = [&](std::vector<Override> more) { return width(answer(joined(overrides("batch 32"), more))); };
  CHECK(few(overrides("peer_to_peer no; efficiency.pcie 30%")) < few(overrides("peer_to_peer no")));
  CHECK(few(overrides("peer_to_peer no; measured.step 600 ms")) < few(overrides("peer_to_peer no")));
}

TEST_CASE("predict: GPUs whose server hides its switches meet in the host's memory", "[unit][whatif]") {
  const auto answer = [](std::vector<Override> settings) {
    settings = joined(overrides("model vgg11; node g5.48xlarge"), settings);
    return predict(resolve(catalog(), settings).value()).value();
  };
  const auto step = [&](std::vector<Override> settings) { return answer(std::move(settings)).step_time; };
  const Time told = step(overrides("peer_to_peer yes"));  // as a file of NCCL's topology tells it
  CHECK(step({}) > told * 1.2);
  CHECK(step({}) == step(overrides("peer_to_peer no")));
  CHECK(step(overrides("gpus_per_node 1")) == step(overrides("gpus_per_node 1; peer_to_peer yes")));
  // A host link of half the rate is felt by those alone who go over it: two A10G on each, 5 GB/s of 24/2.
  CHECK(step(overrides("pcie.host 8 GB/s")) > step({}));
  CHECK(step(overrides("pcie.host 8 GB/s; peer_to_peer yes")) == told);
  // The memory's limit binds, not the link, and holds whoever states what the link reaches: 24 x 0.3 / 2 is below it.
  CHECK(answer({}).bottleneck == "host memory");
  CHECK(answer(overrides("peer_to_peer yes")).bottleneck != "host memory");
  CHECK(step(overrides("efficiency.pcie 95%")) == step({}));
  CHECK(step(overrides("efficiency.pcie 30%")) > step({}));
  const auto assumed = [&](const std::vector<Override>& settings) {
    const auto notes = answer(settings).notes;
    return std::any_of(notes.begin(), notes.end(), [](const std::string& n) { return n.find("at most 5 GB/s") < 99; });
  };
  CHECK(assumed({}));
  CHECK_FALSE(assumed(overrides("peer_to_peer yes")));
  CHECK_FALSE(assumed(overrides("gpus_per_node 1")));
  const std::vector<Override> stuck = overrides("model vgg11; node g5.48xlarge");
  const auto helps = what_would_help(catalog(), stuck).value();
  CHECK(std::any_of(helps.alternatives.begin(), helps.alternatives.end(),
                    [](const auto& one) { return one.name == "peer_to_peer = yes" && one.speedup > 1.2; }));
  const auto wrong = resolve(catalog(), overrides("model vgg11; node g5.48xlarge; peer_to_peer perhaps"));
  REQUIRE_FALSE(wrong);
  CHECK_THAT(to_string(wrong.error()), Contains("perhaps") && Contains("yes, no"));
}

TEST_CASE("predict: the weight update, by hand", "[unit][whatif]") {
  const auto p = predicted(overrides("gpus_per_node 1; gpu.calibration none"));
  // 25,557,032 parameters, momentum: five values of 4 bytes each at 70 % of 900 GB/s
  CHECK(p.critical_path[3].name == "weight update");
  CHECK(p.critical_path[3].time.in(seconds) == Approx(25'557'032.0 * 5 * 4 / (0.7 * 900e9)));
}

TEST_CASE("predict: every port of a server carries its share", "[unit][whatif]") {
  const auto network = [](const char* value) {
    const answer::LinkTraffic traffic = predicted(overrides("nodes 2; network {}", value)).traffic.front();
    return (traffic.bytes / traffic.time).in(gigabytes_per_second);
  };
  CHECK(network("25 Gb/s") == Approx(0.94 * 3.125));           // TCP's payload
  CHECK(network("4 x infiniband-100g") == Approx(0.96 * 50));  // NCCL's 12 of 12.5 GB/s
}

TEST_CASE("predict: what a split model reaches counts its samples once", "[unit][whatif]") {
  const std::vector<Override> job = overrides(
      "model bert_large; node dgx1-v100; precision fp16; batch 4; parallel.tensor 2; parallel.pipeline 2; global_batch "
      "64; gpu.calibration none");
  const auto p = predict(resolve(catalog(), job).value()).value();
  const double step = p.step_time.in(seconds);
  CHECK(p.split.data == 2);
  CHECK(p.split.passes == 8);
  CHECK(p.split.global_batch() == 64);
  CHECK(p.throughput_samples_per_second == Approx(64 / step));
  CHECK(*p.tokens_per_second() == Approx(64 * 128 / step));
  // One GPU with all layers would take `alone` for 8 passes of 4; eight GPUs do 2 replicas of it in a step.
  auto one = job;
  one = joined(one, overrides("parallel.tensor 1; parallel.pipeline 1; gpus_per_node 1; global_batch 32"));
  const auto update_of = [](const answer::Prediction& of) {
    for (const answer::Segment& segment : of.critical_path) {
      if (segment.name == "weight update") return segment.time.in(seconds);
    }
    return 0.0;
  };
  const auto by_itself = predict(resolve(catalog(), one).value()).value();
  // Each updates what it has.
  const double alone = by_itself.step_time.in(seconds)-update_of(by_itself) + update_of(p);
  CHECK(p.scaling_efficiency == Approx(alone * 2 / 8 / step));
  // Nothing is computed twice: what the ranks execute is the model's work but for the parts that are not cut.
  CHECK(p.mfu == Approx(p.rate_per_gpu().in(teraflops_per_second) / 125));
  CHECK(p.hfu == Approx(p.mfu).epsilon(0.02));
}

TEST_CASE("predict: a faster network never slows what is sent by priority", "[unit][whatif]") {
  double before = 1e9;
  for (const char* network : {"10 Gb/s", "25 Gb/s", "50 Gb/s", "100 Gb/s", "200 Gb/s", "400 Gb/s", "800 Gb/s"}) {
    const std::vector<Override> job =
        overrides("model bert_large; node dgx-a100; nodes 2; strategy byteps; network {}", network);
    const double step = predict(resolve(catalog(), job).value()).value().step_time.in(milliseconds);
    CAPTURE(network);
    CHECK(step <= before * 1.001);  // pieces of unequal length leave a little room
    before = step;
  }
}

TEST_CASE("predict: MFU of adapters' training counts no gradient of frozen weights", "[unit][whatif]") {
  const auto of = [](const char* rank) {
    const auto scenario =
        resolve(catalog(),
                overrides("model gpt2; node dgx-a100; gpus_per_node 1; precision bf16; parallel.lora_rank {}", rank));
    return predict(scenario.value()).value();
  };
  const auto whole = of("0");
  const auto adapted = of("8");
  // Forward and the inputs' gradients are two of three passes; attention's scores have both gradients, adapters add
  // little, and what stands before the first one has no backward.
  const double ratio = adapted.model_work / whole.model_work;
  CHECK(ratio > 0.64);
  CHECK(ratio < 0.75);
  CHECK(adapted.hfu == Approx(adapted.mfu).epsilon(0.05));
}

TEST_CASE("predict: what C++ sets out of range is refused by its setting's name", "[unit][whatif]") {
  const Scenario sound = resolve(catalog(), dgx1_job()).value();
  const auto refused = [&](const std::string& path, const auto& edit) {
    Scenario edited = sound;
    edit(edited);
    CAPTURE(path);
    const auto answer = predict(edited);
    REQUIRE_FALSE(answer);
    CHECK(answer.error().code == ErrorCode::kInvalidArgument);
    CHECK_THAT(to_string(answer.error()), Contains(path + ":"));
    Predictor predictor;
    CHECK_FALSE(predictor.step_time(edited));
    CHECK_FALSE(elasticities(edited));
    CHECK_FALSE(explain(edited));
    CHECK_FALSE(goodput(edited));
  };
  refused("model", [](Scenario& s) { s.model = nullptr; });
  for (const std::int64_t none : {0, -5}) {
    refused("nodes", [&](Scenario& s) { s.cluster.nodes = none; });
    refused("node: gpus", [&](Scenario& s) { s.cluster.node.gpus = none; });
    refused("gpus_per_node", [&](Scenario& s) { s.cluster.gpus_per_node = none; });
    refused("batch", [&](Scenario& s) { s.batch = none; });
    refused("parallel.tensor", [&](Scenario& s) { s.parallel.tensor = none; });
    refused("strategy.accumulation", [&](Scenario& s) { s.strategy.accumulation = none; });
  }
  refused("gpus_per_node", [](Scenario& s) { s.cluster.gpus_per_node = 9; });
  refused("efficiency.compute", [](Scenario& s) { s.efficiency.compute = -1; });
  refused("efficiency.network", [](Scenario& s) { s.efficiency.network = std::nan(""); });
  refused("network", [](Scenario& s) { s.cluster.node.network.bandwidth = Bandwidth{}; });
  refused("jitter", [](Scenario& s) { s.jitter = -1; });
  for (const std::int64_t none : {0, -5}) {
    refused("gpu: sm_count", [&](Scenario& s) { s.cluster.node.gpu.sm_count = none; });
    refused("training.steps", [&](Scenario& s) { s.training.steps = none; });
  }
  refused("gpu.memory_size", [](Scenario& s) { s.cluster.node.gpu.memory_size = bytes(std::nan("")); });
  refused("gpu.peak", [](Scenario& s) { s.cluster.node.gpu.peak.fp32 = ComputeRate{}; });
  refused("price", [](Scenario& s) { s.cluster.node.price = dollars_per_hour(-3); });
  refused("price", [](Scenario& s) { s.cluster.node.price = dollars_per_hour(std::nan("")); });
  refused("software.year", [](Scenario& s) { s.software_year = std::optional(std::nan("")); });
  refused("training.startup", [](Scenario& s) { s.training.startup = hours(-30); });
  refused("training.epochs", [](Scenario& s) { s.training.epochs = -3; });
  refused("training.epochs", [](Scenario& s) { s.training.epochs = std::nan(""); });
  refused("failures.mtbf_gpu", [](Scenario& s) { s.failures.gpu = hours(-1); });
  refused("checkpoint.write", [](Scenario& s) { s.checkpoints.write = seconds(-1); });
  refused("network", [](Scenario& s) { s.cluster.node.network.bandwidth = Bandwidth::infinity(); });
  refused("strategy", [](Scenario& s) { s.strategy.kind = static_cast<plan::StrategyKind>(77); });
  refused("parallel.schedule", [](Scenario& s) { s.parallel.schedule = static_cast<plan::PipelineSchedule>(77); });
  CHECK(predict(sound));
}

TEST_CASE("predict: what the CPU does with samples is no GPU's time", "[unit][whatif]") {
  const auto detector = [](std::vector<Override> more) {
    const std::vector<Override> settings = joined(overrides("model maskrcnn_resnet50_fpn; node dgx1-v100"), more);
    return predict(resolve(ddlsim::test::learnt_catalog(), settings).value()).value();
  };
  // 36 ms an image of 2 and of 4, and some launches; whatever the precision, the software and the fidelity.
  const auto launch = [&](std::vector<Override> more) {
    return detector(std::move(more)).breakdown.launch.in(milliseconds);
  };
  CHECK(launch(overrides("batch 2")) == Approx(72).margin(0.2));
  CHECK(launch(overrides("batch 4; precision fp16")) == Approx(144).margin(0.2));
  CHECK(launch(overrides("batch 2; software none")) == Approx(72).margin(0.2));
  CHECK(launch(overrides("batch 2; strategy.accumulation 3")) == Approx(216).margin(0.2));
  CHECK(launch(overrides("batch 2; gpu.calibration none")) == Approx(72).margin(0.2));
  const auto analytic = detector(overrides("batch 2"));
  const auto event = detector(overrides("batch 2; fidelity event"));
  CHECK(event.step_time.in(seconds) == Approx(analytic.step_time.in(seconds)).epsilon(1e-9));
  CHECK(std::any_of(analytic.notes.begin(), analytic.notes.end(),
                    [](const std::string& note) { return note.find("36 ms of the CPU's work on every image") < 20; }));
}

TEST_CASE("predict: an optimizer in single operations", "[unit][whatif]") {
  const auto updated = [](const char* model, const char* optimizer, std::vector<Override> more = {}) {
    const std::vector<Override> settings = joined(
        overrides("model {}; node dgx1-v100; gpus_per_node 1; software.optimizer {}; batch 32", model, optimizer),
        more);
    return explain(resolve(catalog(), settings).value()).value().prediction.step_time.in(milliseconds);
  };
  // Adam in one kernel reads and writes 7 values of 4 bytes, operation by operation 22: 15 * 4 * 336e6 bytes more.
  const double fused = updated("bert_large", "fused");
  const double foreach = updated("bert_large", "foreach");
  CHECK(foreach - fused == Approx(15 * 4 * 336.2e6 / 900e9 * 1e3).epsilon(0.25));
  // 398 tensors, 9 operations and 3 around them, 20 us each: longer than the GPU's share of it (47 ms at most).
  const double loop = updated("bert_large", "for-loop");
  CHECK(updated("bert_large", "for-loop", overrides("launch_interval 40 us")) - loop ==
        Approx(398 * 12 * 0.02).epsilon(0.01));
  CHECK(loop - fused > 398 * 12 * 0.02 - 7 * 4 * 336.2e6 / 600e9 * 1e3);
  CHECK(loop - fused < 398 * 12 * 0.02);
  // Launched together, nothing waits for them.
  CHECK(updated("bert_large", "for-loop", overrides("cuda_graphs yes")) <= foreach);
  // SGD's are launched while the GPU is busy.
  CHECK(updated("resnet50", "for-loop") == updated("resnet50", "foreach"));
  CHECK(updated("resnet50", "foreach") > updated("resnet50", "fused"));
}

TEST_CASE("predict: another optimizer keeps and updates other states", "[unit][whatif]") {
  const auto adam = predicted(overrides("model.optimizer adam"));
  const auto sgd = predicted(overrides("model.optimizer sgd"));
  const auto own = predicted();  // momentum
  CHECK(sgd.memory.optimizer_state == DataSize::zero());
  CHECK(adam.memory.optimizer_state.in(bytes) == Approx(2 * own.memory.optimizer_state.in(bytes)));
  CHECK(sgd.step_time < own.step_time);
  CHECK(own.step_time < adam.step_time);
  CHECK(predicted(overrides("model.optimizer sgd-momentum")).step_time == own.step_time);
  const auto wrong = resolve(catalog(), dgx1_job(overrides("model.optimizer muon")));
  REQUIRE_FALSE(wrong);
  CHECK_THAT(to_string(wrong.error()), Contains("sgd-momentum"));
}

TEST_CASE("predict: autocast is of 16 bits, and of code that no compiler joins", "[unit][whatif]") {
  const auto with = [](const char* precision, const char* fusion, const char* operators) {
    return predicted(
        overrides("model bert_base; precision {}; fusion {}; software.operators {}", precision, fusion, operators));
  };
  const auto without_effect = [](const answer::Prediction& one) {
    return std::any_of(one.notes.begin(), one.notes.end(), [](const std::string& note) {
      return note.find("without effect here: software.operators") != std::string::npos;
    });
  };
  CHECK(with("fp16", "none", "autocast").step_time > with("fp16", "none", "whole").step_time);
  CHECK_FALSE(without_effect(with("fp16", "none", "autocast")));
  CHECK(with("fp32", "none", "autocast").step_time == with("fp32", "none", "whole").step_time);
  CHECK(without_effect(with("fp32", "none", "autocast")));
  CHECK(without_effect(with("fp16", "all", "autocast")));
}
