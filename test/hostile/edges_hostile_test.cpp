// Rough edges a person meets: what is typed slightly wrong, files in unusual places, and answers that would mislead.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "hostile/run_program.h"
#include "unit/importers/trace_text.h"

namespace {

using namespace ddlsim::test;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using EdgeJson = nlohmann::json;

constexpr int kBadData = 1;
constexpr int kUsage = 2;

const Words kOneJob{"predict", "--model", "resnet50", "--node", "dgx1-v100"};
const Words kTwoServers = plus(kOneJob, {"--nodes", "2"});

std::string answered(const Words& arguments) {
  const Outcome outcome = run_program(arguments);
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  return outcome.out;
}

/// All of `text` once.
Feed typed(const std::string& text) {
  return [text, done = false](std::string& chunk) mutable {
    chunk = text;
    return !std::exchange(done, true);
  };
}

/// Runs with `text` on standard input and checks that it fails.
std::string refused_input(const Words& arguments, const std::string& text, int status = kBadData) {
  const Outcome outcome = run_program(arguments, 20, typed(text));
  CHECK(outcome.status == status);
  CHECK(outcome.out.empty());
  CHECK(outcome.cpu_seconds < kMostSeconds);
  return outcome.err;
}

std::string answered_input(const Words& arguments, const std::string& text) {
  const Outcome outcome = run_program(arguments, 20, typed(text));
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  return outcome.out;
}

double number_in(const std::string& json, const char* field) {
  return EdgeJson::parse(json)["prediction"][field].get<double>();
}

const std::string kScenarioText = "model: resnet50\nnode: dgx1-v100\nnodes: 2\nnetwork: 25 Gb/s\n";

/// A model of one linear layer.
std::string small_model(const std::string& id) {
  return "model: " + id +
         "\nname: small\ntask: none\nsample: image\nbatch: 4\noptimizer: sgd\ninput: {shape: [8], bytes: 32 B}\n"
         "sources: {layers: made up, input: made up, batch: made up, optimizer: made up}\nlayers:\n"
         "  - linear: {out: 1000}\n";
}

}  // namespace

TEST_CASE("edges: what a command's own options and arguments take is wrong usage", "[hostile][edges]") {
  const Words collective{"collective", "--node", "dgx1-v100"};
  refused(kUsage, plus(collective, {"--compare", ""}), {"--compare has an empty value"});
  refused(kUsage, plus(collective, {"--library", "nvcl"}), {"--library: unknown library 'nvcl'"});
  refused(kUsage, plus(collective, {"--algorithm", "rng"}), {"--algorithm", "did you mean 'ring'"});
  refused(kUsage, plus(kOneJob, {"--data", ""}), {"--data has an empty value"});
  refused(kUsage, {"import", "onxx", "file"}, {"unknown format 'onxx'", "did you mean 'onnx'"});
  refused(kUsage, {"import", "tensorflow", "file"}, {"onnx, hf, kineto, chakra, megatron, deepspeed, torchtitan"});
  refused(kUsage, {"find", "network", "--such-that", "fast", "--model", "resnet50", "--node", "dgx1-v100"},
          {"is not a condition"});
  refused(kUsage, {"stalls", "--format", "xyz"}, {"unknown format 'xyz'"});
  refused(kUsage, {"plan", "--format", "xyzw", "--model", "resnet50", "--node", "dgx1-v100"}, {"unknown format"});
}

TEST_CASE("edges: import's help names all its formats", "[hostile][edges]") {
  const std::string help = answered({"import", "--help"});
  for (const char* format :
       {"onnx", "hf", "kineto", "chakra", "megatron", "deepspeed", "torchtitan", "accelerate", "log"}) {
    CHECK_THAT(help, Contains(std::string("\n  ") + format + " "));
  }
  CHECK(answered({"help", "import"}) == help);
}

TEST_CASE("edges: a mistyped name gets ids that exist", "[hostile][edges]") {
  refused(kBadData, {"predict", "--model", "vit_b_61", "--node", "dgx1-v100"}, {"did you mean 'vit_base' (vit_b_16)"});
  refused(kBadData, {"predict", "--model", "resnet50", "--node", "p3.16xlrge"}, {"did you mean 'p3.16xlarge'"});
  refused(kBadData, {"predict", "--model", "resnet50", "--node", "dgx1v100"}, {"'dgx1-v100'"});
  refused(kBadData, plus(kOneJob, {"--gpu", "V100-DGXS"}), {"did you mean 'v100-"});
  refused(kBadData, {"list", "models", "vit_b_61"}, {"'vit_base'"});
}

TEST_CASE("edges: nodes and instances are one list", "[hostile][edges]") {
  for (const char* kind : {"nodes", "instances"}) {
    CHECK_THAT(answered({"list", kind}), Contains("dgx1-v100") && Contains("p3.16xlarge"));
  }
}

TEST_CASE("edges: rates as people write them, and rates that are none", "[hostile][edges]") {
  const auto network = [](const std::string& text) { return plus(kTwoServers, {"--network", text}); };
  const auto step = [](const Words& words) { return number_in(answered(plus(words, {"--json"})), "step_time_s"); };
  // The same value whether the rate says what drives it or a setting does.
  CHECK(step(network("40 Gb/s RoCE")) == step(plus(network("40 Gb/s"), {"--set", "network.transport=roce"})));
  CHECK(step(network("2 x 40 Gb/s InfiniBand")) ==
        step(plus(network("2 x 40 Gb/s"), {"--set", "network.transport=infiniband"})));
  CHECK(step(network("25 Gb/s Ethernet")) == step(network("25 Gb/s")));
  CHECK(step(network("40 Gb/s RoCE")) != step(network("40 Gb/s")));
  refused(kBadData, network("40 Gb/s RoCEE"), {"network: ", "unknown unit"});
  for (const char* text : {"-5 Gb/s", "4 x -5 Gb/s", "-5 Gb/s RoCE"}) {
    refused(kBadData, network(text), {"network: '-5 Gb/s' is not a bandwidth: it must not be negative"});
  }
  for (const char* text : {"nan Gb/s", "NaN", "inf Gb/s", "-inf Gb/s", "1e999 Gb/s"}) {
    refused(kBadData, network(text), {"network: ", "is not a bandwidth: it must be a finite number"});
  }
  refused(kBadData, plus(kOneJob, {"--set", "gpu.memory_bandwidth=nan GB/s"}), {"it must be a finite number"});
  refused(kBadData, network("0 Gb/s"), {"must be greater than zero"});
  refused(kBadData, network("./none.yaml"), {"no such file"});
}

TEST_CASE("edges: a value that is missing says so, at its place", "[hostile][edges]") {
  const TempFolder folder;
  for (const char* null : {"", " null", " ~", " ''"}) {
    const std::string text = "model: resnet50\nnode: dgx1-v100\nnetwork:" + std::string(null) + "\n";
    const std::string file = folder.file("null.yaml", text);
    refused(kBadData, {"predict", "-f", file}, {file + ":3:", "'network' has no value", "leave the key out"});
    refused(kBadData, {"sweep", "-f", file}, {file + ":3:", "a value is missing"});
  }
  const std::string inner = folder.file("inner.yaml", "model: resnet50\nnode: dgx1-v100\ngpu: {memory_size: }\n");
  refused(kBadData, {"predict", "-f", inner}, {"'gpu.memory_size' has no value"});
}

TEST_CASE("edges: files that a scenario names are found beside it", "[hostile][edges]") {
  const TempFolder folder;
  const std::string mine = folder.file("mine.yaml", small_model("mine"));
  const std::string runs = folder.file("runs.csv", "gpus,nodes,step\n8,1,0.5 s\n");
  const std::string table = folder.file(
      "table.csv", "op,gpus,nodes,size_bytes,time_us\nall_reduce,8,1,4000,1234\nall_reduce,8,1,40000,2234\n");
  const std::string job =
      folder.file("job.yaml", "model: mine.yaml\nnode: dgx1-v100\ncollective: {table: table.csv}\n");
  const std::string grid = folder.file("grid.yaml", "model: [mine.yaml, resnet50]\nnode: dgx1-v100\n");
  // From another folder, as from this one.
  const Outcome elsewhere = run_shell("cd / && $DDLSIM predict -f '" + job + "' --json", folder.path());
  INFO(elsewhere.err);
  REQUIRE(elsewhere.status == 0);
  CHECK(number_in(elsewhere.out, "step_time_s") > 0);
  const Outcome swept = run_shell("cd / && $DDLSIM sweep -f '" + grid + "' --format csv", folder.path());
  INFO(swept.err);
  CHECK(swept.status == 0);
  CHECK_THAT(swept.out, !Contains("no such file"));
  // What is not there is looked for as a command line would, and said by its name.
  const std::string lost = folder.file("lost.yaml", "model: resnet50\nnode: dgx1-v100\nmeasured: {runs: lost.csv}\n");
  refused(kBadData, {"predict", "-f", lost}, {"lost.csv"});
  const std::string found =
      folder.file("found.yaml", "model: mine.yaml\nnode: dgx1-v100\nmeasured: {runs: runs.csv}\n");
  const Outcome corrected = run_shell("cd / && $DDLSIM predict -f '" + found + "' --json", folder.path());
  CHECK_THAT(corrected.err, !Contains("runs.csv'"));
  const std::string rates =
      folder.file("rates.yaml", "failures: rates\nname: ours\nmtbf_node: 1488 h\nsources: {mtbf_node: x}\n");
  const std::string failing = folder.file("failing.yaml", "model: resnet50\nnode: dgx1-v100\nfailures: rates.yaml\n");
  CHECK_THAT(run_shell("cd / && $DDLSIM predict -f '" + failing + "' --goodput", folder.path()).err,
             !Contains("rates"));
  // A job that is kept elsewhere names its own files, whatever lies there.
  const std::string own = folder.file("own.csv", "gpus,nodes,step\n8,1,1 ms\n");
  const std::string kept = (folder.path() / "kept").string();
  const Outcome made = run_shell("mkdir kept && echo 'model: x' > kept/mine.yaml && $DDLSIM calibrate job '" + own +
                                     "' --model mine.yaml "
                                     "--node dgx1-v100 -o kept/job.yaml && cd / && $DDLSIM predict -f '" +
                                     kept + "/job.yaml'",
                                 folder.path());
  INFO(made.err);
  CHECK(made.status == 0);
  CHECK_THAT(made.out, Contains("step 1 ms"));
}

TEST_CASE("edges: - is standard input wherever a file is read", "[hostile][edges]") {
  const TempFolder folder;
  const std::string file = folder.file("job.yaml", kScenarioText);
  CHECK(answered_input({"predict", "-f", "-"}, kScenarioText) == answered({"predict", "-f", file}));
  CHECK(answered_input({"predict", "--scenario=-"}, kScenarioText) == answered({"predict", "-f", file}));
  CHECK(answered_input({"what-if", "-f", "-", "--vs", "--set", "nodes=4"}, kScenarioText) ==
        answered({"what-if", "-f", file, "--vs", "--set", "nodes=4"}));
  const std::string own = folder.file("mine.yaml", small_model("mine"));
  CHECK(answered_input({"predict", "--model", "-", "--node", "dgx1-v100"}, small_model("mine")) ==
        answered({"predict", "--model", own, "--node", "dgx1-v100"}));
  CHECK(answered_input({"predict", "--set", "model=-", "--node", "dgx1-v100"}, small_model("mine")) ==
        answered({"predict", "--model", own, "--node", "dgx1-v100"}));
  CHECK_THAT(
      answered_input(
          {"import", "hf", "-"},
          R"({"model_type":"gpt2","n_positions":1024,"n_embd":768,"n_head":12,"n_layer":12,"vocab_size":50257})"),
      StartsWith("model: \"stdin\"") && Contains("Hugging Face standard input"));
  CHECK_THAT(answered_input({"import", "log", "-", "--gpus", "1"}, "train_step_timing in s: 2.5\n"),
             Contains("# <stdin>: nemo"));
  CHECK_THAT(answered_input({"validate", "-"},
                            "id,group,source,model,framework,precision,gpu,gpus_per_node,nodes,total_gpus,"
                            "intra_interconnect,inter_network,batch_per_gpu,architecture,extra,metric,value,notes\n"
                            "a,g,paper,ResNet-50,PyTorch,FP32,V100,1,1,1,NVLink,,64,single,,images_per_s,300,\n"),
             Contains("<stdin>") && !Contains("proc/self"));
  CHECK_THAT(answered_input({"collective", "--node", "dgx1-v100", "--table", "-", "--min", "4000", "--max", "4000"},
                            "op,gpus,nodes,size_bytes,time_us\nall_reduce,8,1,4000,1234\nall_reduce,8,1,40000,2234\n"),
             Contains("1234"));
}

TEST_CASE("edges: faults of standard input name it, and it is bounded", "[hostile][edges]") {
  CHECK_THAT(refused_input({"predict", "-f", "-"}, "model: resnet50\nnode: dgx1-v100\nnodes: many\n"),
             StartsWith("<stdin>:3:8: error: nodes: 'many' is not a whole number"));
  CHECK_THAT(refused_input({"predict", "-f", "-"}, ""), Contains("<stdin>") && Contains("empty"));
  CHECK_THAT(refused_input({"validate", "-"}, "id\n"), Contains("<stdin>"));
  CHECK_THAT(refused_input({"import", "onnx", "-"}, "no onnx"), Contains("<stdin>"));
  CHECK_THAT(refused_input({"import", "kineto", "-"}, "{}"), Contains("<stdin>") && Contains("traceEvents"));
  CHECK_THAT(refused_input({"loader", "-"}, "jobs: []\n"), Contains("<stdin>"));
  CHECK_THAT(refused_input({"predict", "-f", "-", "--model", "-"}, kScenarioText, kUsage), Contains("- stands twice"));
  const Feed endless = [](std::string& chunk) {
    chunk.assign(std::size_t{1} << 16, 'x');
    return true;
  };
  const Outcome outcome = run_program({"predict", "-f", "-"}, 20, endless);
  CHECK(outcome.status == kBadData);
  CHECK_THAT(outcome.err, Contains("<stdin>: error: larger than 64 MiB"));
  CHECK(outcome.peak_bytes < kMostBytes);
}

TEST_CASE("edges: what is wrong with a measured run is said with its row", "[hostile][edges]") {
  const TempFolder folder;
  const auto said = [&](const std::string& rows, const Words& words) {
    const std::string path =
        folder.file("runs.csv", "gpus,nodes,batch,step,parallel.tensor,parallel.pipeline\n" + rows);
    refused(kBadData, {"predict", "--model", "gpt2", "--node", "dgx-a100", "--measured", path}, words);
  };
  said("8,1,4,400 ms,,\n8,1,4,1 us,,\n", {"runs.csv:3:1: error: runs that contradict each other", "1 us"});
  said("1,1,4,300 ms,,\n8,1,4,1 us,,\n",
       {"runs.csv:3:1: error: a measured step of 1 us", "faster than the wire allows"});
  said("1,1,4,300 ms,,\n1,1,8,1 ms,,\n",
       {"runs.csv:3:1: error: a measured step of 1 ms", "at their full rate in bf16"});
  said("1,1,4,300 ms,,\n8,1,4,300 ms,4,4\n", {"runs.csv:3:1: error: 8 GPUs", "tensor 4 times pipeline 4"});
}

TEST_CASE("edges: a folder is no table", "[hostile][edges]") {
  const TempFolder folder;
  const std::string path = folder.path().string();
  refused(kBadData, {"validate", path}, {"a folder, not a file", path + "/*.csv"});
  refused(kBadData, plus(kOneJob, {"--measured", path}), {"a folder, not a file"});
  refused(kBadData, {"validate", path + "/none.csv"}, {"No such file"});
}

TEST_CASE("edges: fp32 on a GPU with TF32 says what frameworks do", "[hostile][edges]") {
  CHECK_THAT(answered({"predict", "--model", "resnet50", "--node", "dgx-a100"}),
             Contains("note: fp32: on this GPU PyTorch (since 1.7) runs convolutions as TF32") &&
                 Contains("--precision tf32"));
  CHECK_THAT(answered({"predict", "--model", "bert_base", "--node", "dgx-a100"}),
             Contains("note: fp32: on this GPU TensorFlow (since 2.4) and PyTorch 1.7 to 1.11 run"));
  for (const char* precision : {"tf32", "fp16"}) {
    CHECK_THAT(answered({"predict", "--model", "resnet50", "--node", "dgx-a100", "--precision", precision}),
               !Contains("note: fp32"));
  }
  CHECK_THAT(answered(kOneJob), !Contains("TF32"));  // V100 has none
}

TEST_CASE("edges: fp8 where no layer has a kernel for it is refused", "[hostile][edges]") {
  const auto on = [](const char* model) {
    return Words{"predict", "--model", model, "--node", "dgx-h100", "--precision", "fp8"};
  };
  refused(kBadData, on("resnet50"), {"fp8: 100 %", "convolutions and recurrences", "bf16"});
  refused(kBadData, on("gnmt"), {"fp8: ", "have no fp8 kernels"});
  CHECK_THAT(answered(on("bert_large")), !Contains("no fp8 kernels"));
}

TEST_CASE("edges: a trace without gradients answers for one GPU alone", "[hostile][edges]") {
  const TempFolder folder;
  const TraceText trace{{step_event(1, 0, 100), launch_event(1, 1, 5), kernel_event("volta_sgemm", 2, 50, 7, 5)}};
  const std::string file = folder.file("trace.json", trace.text());
  const std::string model = (folder.path() / "mine.yaml").string();
  REQUIRE(run_program({"import", "kineto", file, "--gpu", "v100-sxm2-16gb", "-o", model}).status == 0);
  const Words job{"predict", "--model", model, "--node", "dgx1-v100"};
  refused(kBadData, job,
          {"mine is a trace without gradients", "8 replicas", "record_shapes=True", "--gpus-per-node 1"});
  refused(kBadData, plus(job, {"--nodes", "4"}), {"32 replicas"});
  CHECK_THAT(answered(plus(job, {"--gpus-per-node", "1"})), Contains("nothing is communicated"));
}

TEST_CASE("edges: an alternative that cannot be is said beside a table of numbers too", "[hostile][edges]") {
  const Words asked{"what-if", "--model", "gpt2", "--node", "dgx-a100", "--vs",
                    "--set",   "nodes=2", "--vs", "--tp",   "3"};
  for (const Words& shape : {Words{"--format", "csv"}, Words{"--columns", "nemo"}}) {
    Words words = asked;
    words.insert(words.begin() + 1, shape.begin(), shape.end());
    const Outcome run = run_program(words);
    CHECK(run.status == 0);
    CHECK_THAT(run.err, Contains("not tried: ") && Contains("8 GPUs are not a multiple of tensor 3"));
  }
}

TEST_CASE("edges: a job that does not fit says so first, and what makes it fit stands apart", "[hostile][edges]") {
  const std::string some = answered({"what-if", "--model", "bert_large", "--node", "dgx1-v100", "--batch", "64"});
  CHECK_THAT(some, StartsWith("the job does not fit its GPUs: "));
  CHECK_THAT(some, Contains("\nwhat makes it fit and helps most: ") && Contains("\nwhat makes it fit:\n"));
  CHECK_THAT(some, Contains("\nwhat does not make it fit:\n"));
  CHECK(some.find("batch = ") < some.find("what does not make it fit"));
  const std::string none = answered({"what-if", "--model", "llama3.1-70b", "--node", "dgx1-v100"});
  CHECK_THAT(none, StartsWith("the job does not fit its GPUs: ") && Contains("`ddlsim plan` looks for a split"));
  CHECK_THAT(answered({"what-if", "--model", "resnet50", "--node", "dgx1-v100"}), StartsWith("what helps most: "));
}

TEST_CASE("edges: what is known by whole-step totals cannot be split", "[hostile]") {
  // More ranks than GPUs: no replica at all.
  refused(kBadData, {"predict", "--model", "pai_bert", "--node", "piz-daint-xc50", "--pp", "2", "--samples", "1000"},
          {"no layers to split", "pai_bert is known by the features of a whole step"});
  refused(kBadData, {"predict", "--model", "resnet50", "--node", "dgx1-v100", "--fidelity", "aggregate", "--zero", "1"},
          {"no layers to split", "use fidelity analytic"});
}

TEST_CASE("edges: changes of the batch speak of throughput", "[hostile][edges]") {
  const Words job{"what-if", "--model", "resnet50", "--node", "dgx1-v100", "--nodes", "4", "--network", "10 Gb/s"};
  for (const char* change : {"strategy.accumulation=8", "batch=128", "nodes=2"}) {
    const std::string text = answered(plus(job, {"--vs", "--set", change}));
    CHECK_THAT(text.substr(0, text.find('\n')),
               Contains("x the throughput: ") && Contains("images/s, step ") && !Contains("faster"));
  }
  const std::string same = answered(plus(job, {"--vs", "--set", "network=100 Gb/s"}));
  CHECK_THAT(same.substr(0, same.find('\n')), Contains("x faster: step ") && !Contains("throughput"));
}

TEST_CASE("edges: absurd answers are refused", "[hostile][edges]") {
  refused(kBadData, plus(kTwoServers, {"--network", "1e-280 b/s"}), {"the step would take", "over a hundred years"});
  refused(kBadData, plus(kOneJob, {"--set", "gpu.memory_bandwidth=1e-20 B/s"}), {"over a hundred years"});
  refused(kBadData, plus(kOneJob, {"--set", "launch_interval=1e9 h"}), {"over a hundred years", "too long"});
  refused(kBadData, plus(kOneJob, {"--steps", "1e15"}), {"the run would take", "over ten thousand years"});
  CHECK(run_program(plus(kTwoServers, {"--network", "1 kb/s"})).status == 0);
}

TEST_CASE("edges: traces of GPUs nobody listed say which option helps", "[hostile][edges]") {
  const TempFolder folder;
  const auto trace = [&](const std::string& device, bool steps) {
    TraceText text{{launch_event(1, 1, 5), kernel_event("volta_sgemm", 2, 50, 7, 5)}, device};
    if (steps) text.events.push_back(step_event(1, 0, 100));
    std::string whole = text.text();
    if (device.empty()) whole.replace(whole.find("deviceProperties"), 16, "other");
    return folder.file("trace.json", whole);
  };
  const auto kineto = [](const std::string& file) { return Words{"import", "kineto", file}; };
  refused(
      kBadData, kineto(trace("NVIDIA A100-PG509-200", true)),
      {"no GPU 'NVIDIA A100-PG509-200' is known", "--gpu a100-pcie-40gb, or --gpu a100-pcie-80gb, or --gpu a100-sxm4"});
  refused(kBadData, kineto(trace("Tesla V100-FHHL-16GB", true)), {"--gpu v100-", "mine.yaml"});
  refused(kBadData, kineto(trace("Frobnicator 9", true)), {"no GPU 'Frobnicator 9'", "--gpu ID; valid: a10"});
  refused(kBadData, kineto(trace("", true)), {"does not name its GPU", "--gpu ID"});
  refused(kBadData, kineto(trace("Tesla V100-SXM2-16GB", false)), {"no step markers", "--whole"});
}

TEST_CASE("edges: a wrapper's language model is reported where it stands", "[hostile][edges]") {
  const TempFolder folder;
  const auto config = [&](const std::string& text) { return Words{"import", "hf", folder.file("wrapper.json", text)}; };
  refused(kBadData, config(R"({"model_type": "llava", "text_config": {"hidden_size": 8}})"),
          {"'text_config' names neither 'model_type' nor 'architectures' (the language model of a 'llava')"});
  refused(kBadData, config(R"({"model_type": "llava", "text_config": {"model_type": "newllama"}})"),
          {"no rule for the architecture 'newllama' (the language model of a 'llava')"});
  // Another tower's width is no place of the one that is missing.
  refused(kBadData,
          config("{\"model_type\": \"llava\",\n\"text_config\": {\"model_type\": \"qwen3\"},\n"
                 "\"vision_config\": {\"hidden_size\": 8}}"),
          {":2:1: error: 'text_config.hidden_size' is missing", "to_dict()"});
}
