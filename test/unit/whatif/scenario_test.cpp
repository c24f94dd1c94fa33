#include "ddlsim/whatif/scenario.h"
#include "catalog.h"
#include "ddlsim/whatif/find.h"
#include "ddlsim/whatif/predict.h"
#include "ddlsim/whatif/setting_words.h"
#include "overrides.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

using namespace ddlsim;
using ddlsim::test::catalog;
using namespace ddlsim::whatif;
using ddlsim::test::joined;
using ddlsim::test::overrides;

namespace {

Expected<Scenario> with(std::vector<Override> more) {
  const std::vector<Override> settings = joined(overrides("model resnet50; node dgx1-v100"), more);
  return resolve(catalog(), settings);
}

std::string error_of(std::vector<Override> more) {
  const auto scenario = with(std::move(more));
  REQUIRE_FALSE(scenario);
  return to_string(scenario.error());
}

}  // namespace

TEST_CASE("scenario: defaults come from the model and the node", "[unit][whatif]") {
  const Scenario s = with({}).value();
  CHECK(s.batch == s.model->batch);
  CHECK(s.cluster.nodes == 1);
  CHECK(s.cluster.gpus_per_node == 8);
  CHECK(s.cluster.node.network_bandwidth().in(gigabits_per_second) == Approx(400));  // four EDR ports
  CHECK(s.strategy.kind == plan::StrategyKind::kAllReduce);
}

TEST_CASE("scenario: a part is replaced before its details, whatever the order", "[unit][whatif]") {
  const Scenario s = with(overrides("gpu.memory_bandwidth 2 TB/s; gpu h100")).value();
  CHECK(s.cluster.node.gpu.id == "h100-sxm5-80gb");
  CHECK(s.cluster.node.gpu.memory_bandwidth.in(terabytes_per_second) == Approx(2));
}

TEST_CASE("scenario: of two settings with one path the later wins", "[unit][whatif]") {
  CHECK(with(overrides("nodes 2; nodes 4")).value().cluster.nodes == 4);
}

TEST_CASE("scenario: a title says where a batch is one of several passes", "[unit][whatif]") {
  CHECK_THAT(describe(with({}).value()), Catch::Contains(" images per GPU, "));
  CHECK_THAT(describe(with(overrides("strategy.accumulation 4")).value()),
             Catch::Contains(" images per GPU and pass, "));
}

TEST_CASE("scenario: several values are told where they go", "[unit][whatif]") {
  for (const char* values : {"1,2,4", "1..64:x2", "1..12"}) {
    CAPTURE(values);
    CHECK_THAT(
        error_of({{"nodes", values, {}}}),
        Catch::Contains(std::string("or for a curve: --curve nodes=") + values) && Catch::Contains("ddlsim sweep"));
  }
  CHECK_THAT(error_of({{"nodes", "four", {}}}), !Catch::Contains("ddlsim sweep"));
}

TEST_CASE("scenario: a network is a rate, a link, or several ports", "[unit][whatif]") {
  const auto rate = [&](const char* value) {
    return with(overrides("network {}", value)).value().cluster.node.network_bandwidth().in(gigabits_per_second);
  };
  CHECK(rate("25 Gb/s") == Approx(25));
  CHECK(rate("ethernet-100g") == Approx(100));
  CHECK(rate("4 x infiniband-100g") == Approx(400));
  CHECK(rate("2 x 50 Gb/s") == Approx(100));
  CHECK(rate(" 25 Gb/s") == Approx(25));
  CHECK(rate("2 x  25 Gb/s ") == Approx(50));
  CHECK(error_of(overrides("network pcie3-x16")).find("is no network") != std::string::npos);
  CHECK(error_of(overrides("network 25")).find("unit is missing") != std::string::npos);
}

TEST_CASE("scenario: a dimension of the model is a setting", "[unit][whatif]") {
  const auto bert = [&](std::vector<Override> more) {
    const std::vector<Override> settings = joined(overrides("model bert_base; node dgx1-v100"), more);
    return resolve(catalog(), settings);
  };
  const auto longer = bert(overrides("model.sequence 256"));
  REQUIRE(longer);
  CHECK(longer->model->totals.forward_work > bert({}).value().model->totals.forward_work * 2.0);
  CHECK(bert(overrides("model.sequense 256")).error().notes.front().find("'model.sequence'") != std::string::npos);
}

TEST_CASE("scenario: another GPU brings its own links", "[unit][whatif]") {
  const Scenario a100 = with(overrides("gpu a100-sxm4-80gb")).value();
  CHECK(a100.cluster.node.nvlink->bandwidth.in(gigabytes_per_second) == Approx(300));
  CHECK(a100.cluster.node.pcie.id == "pcie3-x16");        // the server's slots stay what they are
  const Scenario t4 = with(overrides("gpu t4")).value();  // no NVLink: the GPUs are joined by PCIe
  CHECK(t4.cluster.node.gpu_interconnect == hardware::Interconnect::kPcie);
  CHECK(error_of(overrides("gpu t4; nvlink 100 GB/s")).find("no NVLink") != std::string::npos);
}

TEST_CASE("scenario: features of a layered model cannot be set", "[unit][whatif]") {
  CHECK(error_of(overrides("model.flops 1 TFLOP")).find("described by its layers") != std::string::npos);
  const std::vector<Override> pai = overrides("model pai_speech; node dgx1-v100; model.flops 1 TFLOP");
  CHECK(resolve(catalog(), pai).value().model->features->flops.in(teraflops) == Approx(1));
}

TEST_CASE("scenario: a stated peak belongs to its precision", "[unit][whatif]") {
  const Scenario s = with(overrides("gpu.peak.fp32 10 TFLOP/s; precision fp16")).value();
  CHECK(s.cluster.node.gpu.peak.fp32.in(teraflops_per_second) == Approx(10));
  CHECK(s.cluster.node.gpu.peak.fp16->in(teraflops_per_second) == Approx(125));
}

TEST_CASE("scenario: faults name the setting and the choices", "[unit][whatif]") {
  CHECK(error_of(overrides("netwrok 25 Gb/s")).find("'network'") != std::string::npos);
  CHECK(error_of(overrides("model.weigth_traffic 1 GB")).find("'model.weight_traffic'") != std::string::npos);
  CHECK(error_of(overrides("strategy.partition 1 B")).find("smaller than 1 kB") != std::string::npos);
  CHECK(error_of(overrides("strategy alreduce")).find("'allreduce'") != std::string::npos);
  CHECK(error_of(overrides("nodes 0")).find("from 1 to") != std::string::npos);
  CHECK(error_of(overrides("gpus_per_node 9")).find("from 1 to 8") != std::string::npos);
  CHECK(error_of(overrides("batch 64.5")).find("not a whole number") != std::string::npos);
  CHECK(resolve(catalog(), {}).error().notes.front().find("resnet50") != std::string::npos);
}

TEST_CASE("scenario: a file is the same list of settings", "[unit][whatif]") {
  const auto path = std::filesystem::temp_directory_path() / "ddlsim_scenario_test.yaml";
  std::ofstream(path) << "model: resnet50\nnode: dgx1-v100\nnodes: 4\ngpu: {name: h100, memory_bandwidth: 2 TB/s}\n"
                         "network: {name: 25 Gb/s, latency: 20 us}\n";
  const auto settings = load_scenario(path);
  REQUIRE(settings);
  const Scenario s = resolve(catalog(), *settings).value();
  CHECK(s.cluster.node.gpu.id == "h100-sxm5-80gb");
  CHECK(s.cluster.node.network.latency->in(microseconds) == Approx(20));
  // Flags' names are those of their settings, in a job beside it too; a map of that name is none of them.
  std::ofstream(path) << "model: bert_large\nnode: dgx-a100\ntp: 2\nepochs: 3\nsamples: 1000\n"
                         "measured: {steps: 1x8 = 213 ms}\nother_jobs: [{model: resnet50, etp: 1}]\n";
  std::vector<std::string> paths;
  const auto by_flags = load_scenario(path).value();
  for (const Override& one : by_flags) paths.push_back(one.path);
  CHECK(paths == std::vector<std::string>{"model", "node", "parallel.tensor", "training.epochs", "training.samples",
                                          "measured.steps", "other_jobs.0.model",
                                          "other_jobs.0.parallel.expert_tensor"});
  // Those of splits stand in `parallel` too.
  std::ofstream(path) << "model: bert_large\nnode: dgx-a100\n"
                         "parallel: {tp: 2, pp: 2, schedule: gpipe, micro_batch: 1, global_batch: 64, zero: 1}\n"
                         "other_jobs: [{model: bert_large, parallel: {tp: 4}}]\n";
  paths.clear();
  const auto in_group = load_scenario(path).value();
  for (const Override& one : in_group) paths.push_back(one.path);
  CHECK(paths == std::vector<std::string>{"model", "node", "parallel.tensor", "parallel.pipeline", "parallel.schedule",
                                          "batch", "global_batch", "parallel.zero", "other_jobs.0.model",
                                          "other_jobs.0.parallel.tensor"});
  std::ofstream(path) << "model: bert_large\nnode: dgx-a100\nparallel: {pp: 2, pipeline: 4}\n";
  CHECK(load_scenario(path).error().message == "parallel.pipeline is set twice");
  std::ofstream(path) << "model: resnet50\nnode: dgx1-v100\nnodez: 4\n";
  const auto wrong = load_scenario(path);
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().where.line == 3);
  CHECK(wrong.error().notes.front().find("'nodes'") != std::string::npos);
  std::filesystem::remove(path);
}

TEST_CASE("scenario: co-located servers need a machine each", "[unit][whatif]") {
  const auto settings = [](const char* colocated, const char* servers) {
    return overrides("strategy ps; nodes 4; strategy.colocated {}; strategy.servers {}", colocated, servers);
  };
  CHECK(error_of(settings("yes", "5")).find("5 co-located servers on 4 nodes") != std::string::npos);
  CHECK(with(settings("yes", "4")));
  CHECK(with(settings("no", "5")));  // machines of their own
}

TEST_CASE("scenario: a global batch is so many passes of every replica's batch", "[unit][whatif]") {
  // 8 GPUs / (2 x 2) = 2 replicas x 16 images = 32 a pass.
  const Scenario s = with(overrides("parallel.tensor 2; parallel.pipeline 2; batch 16; global_batch 256")).value();
  CHECK(plan::replicas_of(s) == 2);
  CHECK(s.strategy.accumulation == 8);
  CHECK(error_of(overrides("batch 16; global_batch 100")).find("16 x 8 replicas = 128") != std::string::npos);
  CHECK(error_of(overrides("batch 16; global_batch 256; strategy.accumulation 3"))
            .find("256 samples are 2 passes, but strategy.accumulation is 3") != std::string::npos);
  CHECK(with(overrides("batch 16; global_batch 256; strategy.accumulation 2")));
}

TEST_CASE("scenario: a stated number of replicas is checked", "[unit][whatif]") {
  CHECK(with(overrides("parallel.tensor 2; parallel.data 4")));
  CHECK(with(overrides("nodes 1000000000; parallel.data 8000000000")));
  CHECK(error_of(overrides("parallel.tensor 2; parallel.data 3")).find("are 4 replicas, not 3") != std::string::npos);
}

TEST_CASE("scenario: how a model is split", "[unit][whatif]") {
  const Scenario s = with(overrides("parallel.order tp-dp-cp-ep-pp; parallel.schedule gpipe; parallel.recompute full; "
                                    "parallel.states mixed-bf16; parallel.zero 2; parallel.expert_capacity 1.25"))
                         .value();
  CHECK(s.parallel.order == plan::AxisOrder{plan::Axis::kTensor, plan::Axis::kData, plan::Axis::kContext,
                                            plan::Axis::kExpert, plan::Axis::kPipeline});
  CHECK(s.parallel.schedule == plan::PipelineSchedule::kGpipe);
  CHECK(s.parallel.recompute == plan::Recompute::kFull);
  CHECK(s.parallel.states == plan::States::kMixedSixteen);
  CHECK(s.parallel.zero == 2);
  CHECK(s.parallel.expert_capacity == Approx(1.25));
  CHECK(error_of(overrides("parallel.order tp-tp-cp-ep-pp")).find("every axis once") != std::string::npos);
  CHECK(error_of(overrides("parallel.order tp-dp")).find("every axis once") != std::string::npos);
  CHECK(error_of(overrides("parallel.order tp-cp-ep-dp-xx")).find("unknown axis 'xx'") != std::string::npos);
  CHECK(error_of(overrides("parallel.zero 4")).find("parallel.zero") != std::string::npos);
  CHECK(error_of(overrides("parallel.tensor -1")).find("parallel.tensor") != std::string::npos);
  CHECK(error_of(overrides("parallel.expert_imbalance 0.5")).find("between 1 and 1000") != std::string::npos);
}

TEST_CASE("scenario: words of frameworks are hints at the settings they mean", "[unit][whatif]") {
  const auto hint = [](const char* word) {
    const auto refused = with({{word, "2", {}}});
    return refused ? std::string() : refused.error().notes.front();
  };
  CHECK(hint("tp") == "did you mean 'parallel.tensor'?");
  CHECK(hint("TP") == "did you mean 'parallel.tensor'?");
  CHECK(hint("pp") == "did you mean 'parallel.pipeline'?");
  CHECK(hint("cp") == "did you mean 'parallel.context'?");
  CHECK(hint("ep") == "did you mean 'parallel.expert'?");
  CHECK(hint("dp") == "did you mean 'parallel.data'?");
  CHECK(hint("zero") == "did you mean 'parallel.zero'?");
  CHECK(hint("recompute") == "did you mean 'parallel.recompute'?");
  CHECK(hint("micro_batch") == "did you mean 'batch'?");
  CHECK(hint("global-batch-size") == "did you mean 'global_batch'?");
  CHECK(hint("seq_length") == "did you mean 'model.sequence'?");
  CHECK(hint("sequence_length") == "did you mean 'model.sequence'?");
  CHECK(hint("parallel.tensr").find("'parallel.tensor'") != std::string::npos);
  // What they mean is there.
  for (const char* word :
       {"tp",     "pp",   "vpp", "cp",  "ep",           "dp",    "sp",      "zero",   "schedule", "recompute",
        "states", "lora", "mbs", "gbs", "accumulation", "dtype", "samples", "tokens", "epochs",   "steps"}) {
    CAPTURE(word);
    const auto path = setting_of_word(word);
    REQUIRE(path);
    const auto all = settings();
    CHECK(std::any_of(all.begin(), all.end(), [&](const SettingInfo& one) { return one.path == *path; }));
  }
  CHECK_FALSE(setting_of_word("nonsense"));
  CHECK(setting_at("parallel.pp") == "parallel.pipeline");
  CHECK(setting_at("parallel.samples") == "parallel.samples");
  CHECK(setting_at("other_jobs.0.parallel.micro_batch") == "other_jobs.0.batch");
  CHECK(setting_at("parallel.tensor") == "parallel.tensor");
  CHECK(setting_at("other_jobs.") == "other_jobs.");
  CHECK(also_in_parallel("parallel.tensor") == "parallel.tp");
  CHECK(also_in_parallel("batch") == "parallel.micro_batch");
  CHECK(also_in_parallel("parallel.zero").empty());
  const auto found =
      find(catalog(), overrides("model gpt2; node dgx-a100"), "tp", parse_condition("step_time <= 1 s").value());
  REQUIRE_FALSE(found);
  CHECK(found.error().notes.front() == "did you mean 'parallel.tensor'?");
  CHECK(find(catalog(), overrides("model gpt2; node dgx-a100"), "parallel.tp",
             parse_condition("step_time <= 1 s").value()));
}

TEST_CASE("scenario: what an import asks for stays to be filled in", "[unit][whatif]") {
  const std::string file = (std::filesystem::temp_directory_path() / "ddlsim_asked_for.yaml").string();
  std::ofstream(file) << "model: resnet50\nnode: dgx1-v100\nnodes: \"?\"\nparallel:\n  tensor: \"?\"\n";
  auto stated = load_scenario(file).value();
  const auto refused = resolve(catalog(), stated);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message == "fill in '?': nodes");
  CHECK(refused.error().where.line == 3);
  REQUIRE(refused.error().also.size() == 1);
  CHECK(refused.error().also.front().message == "fill in '?': parallel.tensor");
  CHECK_FALSE(resolve_cluster(catalog(), stated));
  stated.push_back({"nodes", "2", {}});
  stated.push_back({"parallel.tensor", "1", {}});
  CHECK(resolve(catalog(), stated));
}

TEST_CASE("scenario: layers per stage are those of the model's list", "[unit][whatif]") {
  const std::size_t layers = with({}).value().model->layers.size();
  const std::string fitting = "10-" + std::to_string(layers - 10);
  CHECK(with(overrides("parallel.layers_per_stage {}", fitting)).value().parallel.cuts == std::vector<std::size_t>{10});
  CHECK(error_of(overrides("parallel.layers_per_stage 10-10")).find("20 in all, but resnet50 has") !=
        std::string::npos);
  CHECK(error_of(overrides("parallel.layers_per_stage 10--10")).find("parallel.layers_per_stage") != std::string::npos);
}

TEST_CASE("scenario: a file names its model from where it is", "[unit][whatif]") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "ddlsim_beside";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "job.yaml") << "model: mine.yaml\nnode: dgx1-v100\n";
  std::ofstream(folder / "mine.yaml") << "model: mine\n";
  const auto settings = load_scenario(folder / "job.yaml").value();
  CHECK(settings.front().value == (folder / "mine.yaml").string());
  // What is not there is as it was written, and so is a name.
  std::ofstream(folder / "job.yaml") << "model: others.yaml\n";
  CHECK(load_scenario(folder / "job.yaml").value().front().value == "others.yaml");
  std::ofstream(folder / "job.yaml") << "model: resnet50\n";
  CHECK(load_scenario(folder / "job.yaml").value().front().value == "resnet50");
  std::filesystem::remove_all(folder);
}

TEST_CASE("scenario: the rate of a server is that of as many ports as it takes", "[unit][whatif]") {
  const auto network = [](const char* node, const char* value) {
    return resolve(catalog(), overrides("model resnet50; node {}; nodes 2; network {}", node, value))
        .value()
        .cluster.node;
  };
  const hardware::Node all = network("dgx-h100", "3.2 Tb/s");
  CHECK(all.network_ports == 8);
  CHECK(all.network.bandwidth.in(gigabits_per_second) == Approx(400));
  CHECK(network("dgx-h100", "505 Gb/s").network_ports == 2);  // of 400 Gb/s, as its own
  CHECK(network("dgx-h100", "1.2 Tb/s").network_ports == 4);
  const hardware::Node one = network("dgx-h100", "400 Gb/s");
  CHECK(one.network_ports == 1);
  CHECK(one.network.bandwidth.in(gigabits_per_second) == Approx(400));
  // Where TCP is assumed, ports of 100 Gb/s that share the GPUs evenly, whatever slots and cards the server has.
  for (const char* node : {"dgx1-v100", "dgx-a100", "p3.16xlarge"}) {
    CHECK(network(node, "100 Gb/s").network_ports == 1);
    CHECK(network(node, "200 Gb/s").network_ports == 2);
    CHECK(network(node, "250 Gb/s").network_ports == 4);
    CHECK(network(node, "800 Tb/s").network_ports == 8);
    CHECK(network(node, "1 x 400 Gb/s").network_ports == 1);
  }
  const hardware::Node stated = network("dgx-h100", "2 x 3.2 Tb/s");
  CHECK(stated.network_ports == 2);
  CHECK(stated.network.bandwidth.in(gigabits_per_second) == Approx(3200));
}

TEST_CASE("scenario: attention is one kernel where software and GPU have one", "[unit][whatif]") {
  const auto fuses = [](std::vector<Override> more) {
    const std::vector<Override> settings = joined(overrides("model gpt2; node dgx-a100; precision bf16"), more);
    return resolve(catalog(), settings).value().fusion.attention;
  };
  CHECK(fuses({}));
  CHECK(fuses(overrides("precision fp32")));
  CHECK_FALSE(fuses(overrides("node dgx1-v100; precision fp32")));
  CHECK_FALSE(fuses(overrides("node dgx1-v100; precision fp16")));
  CHECK_FALSE(fuses(overrides("software.year 2021")));
  CHECK_FALSE(fuses(overrides("fusion none")));
}

TEST_CASE("scenario: blocks say where a pipeline is cut", "[unit][whatif]") {
  const auto cuts = [](const char* value) {
    return resolve(catalog(),
                   overrides("model gpt2; node dgx-a100; parallel.pipeline 2; parallel.layers_per_stage {}", value));
  };
  const auto scenario = cuts("5-7").value();
  REQUIRE(scenario.parallel.cuts.size() == 1);
  // Four layers of embeddings, and twelve in each of the blocks before.
  CHECK(scenario.parallel.cuts[0] == 4 + 5 * 12);
  CHECK(cuts("5-6").error().message == "parallel.layers_per_stage: 11 in all, but gpt2 has 12 blocks (151 layers)");
  // Embedding or head alone, as Megatron-LM has it where it counts them as blocks.
  CHECK(cuts("0-12").value().parallel.cuts == std::vector<std::size_t>{4});
  CHECK(cuts("12-0").value().parallel.cuts == std::vector<std::size_t>{4 + 12 * 12});
  CHECK_FALSE(cuts("6-0-6"));
  CHECK_FALSE(cuts("0"));
  const auto ends = predict(
      resolve(catalog(), overrides("model gpt2; node dgx-a100; gpus_per_node 2; precision bf16; global_batch 64; batch "
                                   "1; parallel.pipeline 2; parallel.schedule interleaved; parallel.virtual_stages 7; "
                                   "parallel.layers_per_stage 0-1-1-1-1-1-1-1-1-1-1-1-1-0"))
          .value());
  REQUIRE(ends);
  CHECK(ends->breakdown.bubble > Time::zero());
}

TEST_CASE("scenario: a global batch makes the batch of a GPU that nobody states", "[unit][whatif]") {
  const auto eight = [&](std::vector<Override> more) {
    more = joined(overrides("nodes 8"), more);
    return more;
  };
  // 64 GPUs: 32 images of 2,048 each, where ResNet-50's file has 64.
  const Scenario taken = with(eight(overrides("global_batch 2048"))).value();
  CHECK(taken.batch == 32);
  CHECK(taken.strategy.accumulation == 1);
  const auto notes = predict(taken).value().notes;
  CHECK(std::any_of(notes.begin(), notes.end(), [](const std::string& note) {
    return note.starts_with("batch: nobody stated one; 32 images a pass") && note.ends_with("--batch states another");
  }));
  // What the model's own divides stays: 256 each, in 4 passes of 64; of 96 each the largest divisor, 48.
  const Scenario own = with(overrides("global_batch 2048")).value();
  CHECK(own.batch == 64);
  CHECK(own.strategy.accumulation == 4);
  CHECK_FALSE(own.batch_taken);
  CHECK(with(overrides("global_batch 768")).value().batch == 48);
  // Stated passes say what is left.
  CHECK(with(overrides("global_batch 2048; strategy.accumulation 2")).value().batch == 128);
  CHECK_THAT(error_of(overrides("global_batch 2048; strategy.accumulation 3")),
             Catch::Contains("the 256 samples of a replica are not a multiple of strategy.accumulation 3"));
  // What cannot be, says what can.
  CHECK_THAT(error_of(eight(overrides("global_batch 2000"))),
             Catch::Contains("do not spread evenly over 64 replicas") && Catch::Contains("state 1984 or 2048"));
  CHECK_THAT(error_of(eight(overrides("global_batch 2048; batch 64"))),
             Catch::Contains("are not a multiple of batch 64 x 64 replicas") &&
                 Catch::Contains("as 1, 2, 4, 8, 16, 32, or none for the largest up to the model's own 64"));
}

TEST_CASE("scenario: ports that a stated rate is taken to be are said", "[unit][whatif]") {
  const auto says = [](const std::string& rate, const std::string& nodes) {
    const auto notes = predict(with(overrides("network {}; nodes {}", rate, nodes)).value()).value().notes;
    return std::find(
               notes.begin(), notes.end(),
               "network: 200 Gb/s taken as 2 ports of 100 Gb/s, as nobody says how many; --network '1 x 200 Gb/s' "
               "says otherwise") != notes.end();
  };
  CHECK(says("200 Gb/s", "2"));
  CHECK_FALSE(says("200 Gb/s", "1"));  // nothing passes
  CHECK_FALSE(says("2 x 100 Gb/s", "2"));
  CHECK_FALSE(says("100 Gb/s", "2"));
}

TEST_CASE("scenario: a server's own GPU, named, leaves it as it is", "[unit][whatif]") {
  const std::vector<Override> rented = overrides("model resnet50; node a3-highgpu-8g; gpu h100");
  const auto price = resolve(catalog(), rented).value().cluster.node.price;
  REQUIRE(price);
  CHECK(*price == *catalog().node("a3-highgpu-8g")->price);
}
