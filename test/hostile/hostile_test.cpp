// What bad input gets: the right exit status, nothing on stdout, the place and the valid choices on stderr, and all of
// it soon and in little memory.
#include <catch2/catch.hpp>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ddlsim/io/yaml.h"
#include "hostile/run_program.h"

namespace {

using namespace ddlsim::test;
using Catch::Matchers::Contains;

const Words kJob{"predict", "--model", "resnet50", "--node", "dgx1-v100"};
const std::string kHeader =
    "job,architecture,cnodes,flops,memory_access_bytes,input_bytes,weight_traffic_bytes,dense_weights_bytes,"
    "embedding_weights_bytes\n";
const std::string kRow = "1,ps-worker,4,1e12,2e10,1e6,1e9,1e9,0\n";

std::string joined(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += word.substr(0, 80) + " ";
  return text;
}

void check_refusal(const Outcome& outcome, int status, const Words& says) {
  CHECK(outcome.status == status);
  CHECK(outcome.out.substr(0, 80) == "");
  CHECK(outcome.err.size() < 64 << 10);  // more than that is no clear error
  const std::string err = outcome.err.substr(0, 2000);
  for (const std::string& part : says) CHECK_THAT(err, Contains(part));
  CHECK_THAT(err, !Contains("fault of ddlsim itself"));
  CHECK(outcome.cpu_seconds < kMostSeconds);
  CHECK(outcome.peak_bytes < kMostBytes);
}

void refuses(int status, const Words& arguments, const Words& says) {
  CAPTURE(joined(arguments));
  check_refusal(run_program(arguments), status, says);
}

/// A file given as a model, as a node and as a scenario.
void refuses_file(const std::string& path, const std::string& says) {
  refuses(kNoAnswer, {"predict", "--model", path, "--node", "dgx1-v100"}, {path + says});
  refuses(kNoAnswer, {"predict", "--model", "resnet50", "--node", path}, {path + says});
  refuses(kNoAnswer, plus(kJob, {"-f", path}), {path + says});
}

/// "PREFIX0: 1" and so on, a line each.
std::string numbered(const std::string& prefix, int count) {
  std::string lines;
  for (int i = 0; i < count; ++i) lines += prefix + std::to_string(i) + ": 1\n";
  return lines;
}

/// A file, `rounds` times over, with the header of the first time only.
Feed repeated_table(const std::string& path, int rounds) {
  auto stream = std::make_shared<std::ifstream>(path, std::ios::binary);
  return [stream, rounds](std::string& chunk) mutable {
    chunk.resize(std::size_t{1} << 18);
    while (true) {
      stream->read(chunk.data(), static_cast<std::streamsize>(chunk.size()));
      if (stream->gcount() > 0) break;
      if (--rounds <= 0) return false;
      stream->clear();
      stream->seekg(static_cast<std::streamoff>(kHeader.size()));
    }
    chunk.resize(static_cast<std::size_t>(stream->gcount()));
    return true;
  };
}

}  // namespace

TEST_CASE("hostile: unknown names get the nearest valid ones", "[hostile]") {
  refuses(kNoAnswer, {"predict", "--model", "resnet5", "--node", "dgx1-v100"}, {"'resnet5'", "'resnet50'"});
  refuses(kNoAnswer, {"predict", "--model", "resnet50", "--node", "dgx1v100"}, {"'dgx1v100'", "'dgx1-v100'"});
  refuses(kNoAnswer, plus(kJob, {"--gpu", "v100-sxm2-61gb"}), {"gpu: unknown gpu", "'v100-sxm2-16gb'"});
  refuses(kNoAnswer, plus(kJob, {"--network", "ethernet-26g"}), {"network: unknown link", "'ethernet-25g'"});
  refuses(kNoAnswer, plus(kJob, {"--strategy", "alreduce"}), {"strategy: unknown strategy", "'allreduce'"});
  refuses(kNoAnswer, plus(kJob, {"--precision", "fp61"}), {"precision: unknown precision", "'fp16'"});
  refuses(kNoAnswer, plus(kJob, {"--fidelity", "analitic"}), {"fidelity: unknown fidelity", "'analytic'"});
  refuses(kNoAnswer, plus(kJob, {"--set", "nodse=4"}), {"unknown setting 'nodse'", "'nodes'"});
  refuses(kNoAnswer, {"predict", "--model", "bert_base", "--node", "dgx1-v100", "--set", "model.sequnce=3"},
          {"sequnce'", "sequence'"});
  refuses(kNoAnswer, {"what-if", "--model", "resnet50", "--node", "dgx1-v100", "--vs", "--set", "gpu=h10O"},
          {"unknown gpu 'h10O'", "gpu = h10O"});
  refuses(kNoAnswer, {"list", "gpus", "t44"}, {"unknown gpu 't44'", "'t4'"});
  refuses(kNoAnswer, {"fleet", "--population", "pai_2091"}, {"'pai_2091'", "'pai_2019'"});
  refuses(kNoAnswer, {"predict", "--model", std::string(100'000, 'x'), "--node", "dgx1-v100"},
          {"`ddlsim list models`"});
}

TEST_CASE("hostile: values that make no sense", "[hostile]") {
  refuses(kNoAnswer, plus(kJob, {"--network", "25 Gx/s"}), {"network: ", "unknown unit 'Gx/s'", "'Gb/s'"});
  refuses(kNoAnswer, plus(kJob, {"--network", "25"}), {"network: ", "the unit is missing", "Gb/s"});
  refuses(kNoAnswer, plus(kJob, {"--set", "network.latency=14"}), {"network.latency: ", "the unit is missing", "us"});
  refuses(kNoAnswer, plus(kJob, {"--set", "gpu.memory_bandwidth=900 GB"}), {"is not a bandwidth but a data size"});
  refuses(kNoAnswer, plus(kJob, {"--set", "efficiency=70"}), {"efficiency: '70' is out of range", "70 %"});
  refuses(kNoAnswer, plus(kJob, {"--set", "batch=0"}), {"batch: '0' is out of range", "from 1"});
  refuses(kNoAnswer, plus(kJob, {"--nodes", "4.5"}), {"nodes: '4.5' is not a whole number"});
  refuses(kNoAnswer, plus(kJob, {"--gpus-per-node", "9"}), {"gpus_per_node: '9' is out of range", "from 1 to 8"});
  refuses(kNoAnswer, plus(kJob, {"--precision", "fp8"}), {"no fp8 rate", "fp32, fp16"});
  refuses(kNoAnswer, plus(kJob, {"--data", "/no/such/folder"}), {"/no/such/folder: error: "});
}

TEST_CASE("hostile: an empty value is no default", "[hostile]") {
  for (const char* flag : {"--nodes", "--network", "--strategy", "--precision", "--batch"}) {
    refuses(kWrongUsage, plus(kJob, {flag, ""}), {flag});
  }
}

TEST_CASE("hostile: an answer that is not finite is an error, not a null", "[hostile]") {
  refuses(kNoAnswer, plus(kJob, {"--set", "gpu.peak=1e-300 FLOP/s", "--json"}), {"error: "});
  refuses(kNoAnswer, plus(kJob, {"--nodes", "2", "--network", "1e-300 b/s", "--json"}), {"error: "});
}

TEST_CASE("hostile: wrong usage", "[hostile]") {
  refuses(kWrongUsage, {}, {"ddlsim predict", "ddlsim help COMMAND"});
  refuses(kWrongUsage, {"pedict"}, {"unknown command 'pedict'", "'predict'"});
  refuses(kWrongUsage, plus(kJob, {"--ndoes", "4"}), {"unknown option '--ndoes'", "'--nodes'"});
  refuses(kWrongUsage, plus(kJob, {"--seq", "4096"}), {"unknown option '--seq'", "'--set model.sequence=VALUE'"});
  refuses(kWrongUsage, plus(kJob, {"--tensor-parallel-size=8"}), {"unknown option", "'--tp'"});
  refuses(kWrongUsage, plus(kJob, {"--format", "jsn"}), {"unknown format 'jsn'", "'json'"});
  refuses(kWrongUsage, plus(kJob, {"extra"}), {"unknown argument 'extra'"});
  refuses(kWrongUsage, plus(kJob, {"--nodes"}), {"--nodes"});
  refuses(kWrongUsage, plus(kJob, {"--network", "1 Gb/s", "--network", "2 Gb/s"}), {"--network is given twice"});
  refuses(kWrongUsage, plus(kJob, {"--set", "nodes=2", "--set", "nodes=3"}), {"--set nodes is given twice"});
  refuses(kWrongUsage, plus(kJob, {"--json", "--format", "csv"}), {"--json and --format csv"});
  refuses(kWrongUsage, {"version", "--format", "nonsense"}, {"unknown argument '--format'"});
  refuses(kWrongUsage, plus(kJob, {"--set", "nodes"}), {"'nodes'", "PATH=VALUE"});
  refuses(kWrongUsage, plus(kJob, {"--set", "=4"}), {"'=4'", "PATH=VALUE"});
  refuses(kWrongUsage, {"what-if", "--model", "resnet50", "--node", "dgx1-v100", "--base", "nodes=4"},
          {"unknown option '--base'"});
  refuses(kWrongUsage, {"what-if", "--model", "resnet50", "--node", "dgx1-v100", "--vs"}, {"--vs without a change"});
  refuses(kWrongUsage, {"list", "gpsu"}, {"unknown kind 'gpsu'", "'gpus'"});
  refuses(kWrongUsage, {"fleet", "--jbos", "3"}, {"unknown option '--jbos'", "'--jobs'"});
  refuses(kWrongUsage, {"fleet", "--cdf", "x.csv"}, {"--what-if"});
}

TEST_CASE("hostile: a job without a model or a node is wrong usage that lists them", "[hostile]") {
  refuses(kWrongUsage, {"predict"}, {"model"});
  refuses(kWrongUsage, {"predict", "--node", "dgx1-v100"}, {"--model is missing", "resnet50"});
  refuses(kWrongUsage, {"predict", "--model", "resnet50"}, {"--node is missing", "dgx1-v100", "p3.16xlarge"});
  refuses(kWrongUsage, {"what-if", "--node", "dgx1-v100"}, {"--model is missing", "resnet50"});
}

TEST_CASE("hostile: YAML files that are no YAML", "[hostile]") {
  const TempFolder folder;
  refuses_file(folder.file("empty.yaml", ""), ":1:1: error: the file is empty");
  refuses_file(folder.file("cut.yaml", "model: x\nname: \"cut"), ":2:");
  refuses_file(folder.file("binary.yaml", std::string("\x7F"
                                                      "ELF\x02\x01\x01\0\0\0",
                                                      10)),
               ":1:1: error: not UTF-8");
  refuses_file(folder.file("large.yaml", "#", std::string(1 << 20, 'x'), 17), ": error: 17825793 bytes, larger");
  refuses_file(folder.file("twice.yaml", "model: x\nmodel: y\n"), ":2:1: error: duplicate key 'model'");
  refuses_file(folder.file("bomb.yaml", "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"), ":1:4: error: anchors");
  refuses_file(folder.path().string() + "/none.yaml", ": error: no such file");
  refuses_file(folder.path().string(), ": error: not a regular file");
}

TEST_CASE("hostile: a million open brackets", "[hostile]") {
  const TempFolder folder;
  refuses_file(folder.file("deep.yaml", "", "[", 1'000'000), ":1:65: error: nested deeper than 64 levels");
}

TEST_CASE("hostile: YAML of the largest size that a parser would blow up", "[hostile]") {
  const TempFolder folder;
  for (const std::string part : {"[", "{", "[\n", "a,", "a,\n", "&a ", "? ", "- ", "'x' ", "x: ", "- x\n"}) {
    CAPTURE(part);
    const auto times = static_cast<std::int64_t>(ddlsim::io::kMaxFileSize / part.size()) - 2;
    const std::string path = folder.file("large.yaml", part.starts_with("a,") ? "[" : "", part, times);
    refuses(kNoAnswer, {"predict", "--model", path, "--node", "dgx1-v100"}, {path + ":"});
  }
}

TEST_CASE("hostile: small files that ask for endless work", "[hostile]") {
  const TempFolder folder;
  const std::string head =
      "model: m\nname: M\ntask: t\nsample: s\nbatch: 2\noptimizer: sgd\ninput: {shape: [4], bytes: 16 B}\n"
      "sources: {layers: x, input: x, batch: x, optimizer: x, dimensions: x}\n";
  const std::string repeat = head + "layers:\n  - repeat:\n      times: 99999\n      layers:\n        - ";
  const auto refuses_model = [](const std::string& path, const std::string& says) {
    refuses(kNoAnswer, {"predict", "--model", path, "--node", "dgx1-v100"}, {path + says});
  };
  refuses_model(folder.file("name.yaml", repeat + "flatten: {name: ", "n", 100'000, "}\n"), ":");
  refuses_model(folder.file("shape.yaml", repeat + "concat: {out: [\n", "1,\n", 20'000, "1]}\n"), ":");
  refuses_model(folder.file("keys.yaml", head + "layers: [relu: {}]\n" + numbered("k", 400'000)), ":");
  refuses_model(
      folder.file("sizes.yaml", head + "layers: [linear: {out: y}]\ndimensions:\n" + numbered("  x", 100'000)),
      ":9:24: error: 'y' is not");
}

TEST_CASE("hostile: hardware of one's own that does what nobody knows", "[hostile]") {
  const TempFolder folder;
  const std::string sources = "sources: {bandwidth: x, latency: x, transport: x}\n";
  const auto link = [&](const std::string& lines) {
    return folder.file("mine.yaml",
                       "link: mine\nname: Mine\n" + lines + "bandwidth: 100 Gb/s\nlatency: 1 us\n" + sources);
  };
  const auto refuses_link = [](const std::string& path, const Words& says) {
    Words all = says;
    all.push_back(path + ":4:12: error: ");
    refuses(kNoAnswer, plus(kJob, {"--nodes", "2", "--network", path}), all);
  };
  refuses_link(link("kind: network\ntransport: infinibnad\n"), {"unknown transport 'infinibnad'", "'infiniband'"});
  refuses_link(link("kind: network\ntransport: pigeon\n"), {"infiniband, roce, omni-path, efa, tcpx, tcp"});
  refuses_link(link("kind: network\ntransport: [tcp]\n"), {"a single value is wanted"});
  refuses_link(link("kind: pcie\ntransport: tcp\n"), {"a pcie link has no transport", "kind network"});
  const std::string gpu = folder.file(
      "own.yaml",
      "gpu: own\nname: Own\narchitecture: Rubin\nnccl_tuning: rubin\npeer_to_peer: maybe\nform: pcie\n"
      "sm_count: 1\npeak: {fp32: 1 TFLOP/s}\nmemory: {size: 1 GB, bandwidth: 1 TB/s}\npcie: pcie3-x16\n"
      "tdp: 1 W\nsources: {sm_count: x, peak: x, memory: x, pcie: x, nccl_tuning: x, peer_to_peer: x, tdp: x}\n");
  refuses(kNoAnswer, plus(kJob, {"--gpu", gpu}),
          {gpu + ":4:14: error: unknown nccl_tuning 'rubin'", "pascal, volta, ampere, hopper, blackwell",
           gpu + ":5:15: error: unknown peer_to_peer 'maybe'"});
  refuses(kNoAnswer, plus(kJob, {"--set", "network.transport=pigeon"}), {"network.transport: ", "infiniband, roce"});
}

TEST_CASE("hostile: many settings take no square of time", "[hostile]") {
  const TempFolder folder;
  const std::string job = folder.file("job.yaml", "model:\n  name: bert_base\n" + numbered("  x", 100'000));
  refuses(kNoAnswer, {"predict", "-f", job, "--node", "dgx1-v100"}, {"x0'"});
  const std::string unknown = folder.file("unknown.yaml", numbered("x", 100'000));
  refuses(kNoAnswer, plus(kJob, {"-f", unknown}), {unknown + ":1:", "x0'"});
}

TEST_CASE("hostile: a scenario file names the line of its fault", "[hostile]") {
  const TempFolder folder;
  const auto refuses_job = [&](const std::string& line, const Words& says) {
    const std::string path = folder.file("job.yaml", "model: resnet50\nnode: dgx1-v100\n" + line + "\n");
    Words all = says;
    all.push_back(path + ":3:");
    refuses(kNoAnswer, {"predict", "-f", path}, all);
  };
  refuses_job("nodse: 4", {"unknown setting 'nodse'", "'nodes'"});
  refuses_job("network: 25", {"the unit is missing"});
  refuses_job("gpu: {memory_bandwidth: 2 GB}", {"is not a bandwidth but a data size"});
  refuses_job("nodes: [1, 2]", {"takes one value, not a list"});
  refuses_job("gpu: h10O", {"unknown gpu 'h10O'"});
}

TEST_CASE("hostile: tables of jobs that are wrong", "[hostile]") {
  const TempFolder folder;
  const auto refuses_table = [&](const std::string& text, const std::string& place, const std::string& says) {
    const std::string path = folder.file("jobs.csv", text);
    refuses(kNoAnswer, {"fleet", path}, {path + place, says});
  };
  const auto changed = [](std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
  };
  refuses_table(changed(kHeader, "cnodes,", "") + kRow, ":1:120: error: the column 'cnodes' is missing",
                "the column 'cnodes' is missing");
  refuses_table(changed(kHeader, "cnodes", "cnode") + kRow, ":1:18: error: ", "'cnodes'");
  // "1,ps-worker," is 12 characters; cnodes stand in column 13 and flops in column 15.
  refuses_table(kHeader + kRow + changed(kRow, "1e12", "1e1x"), ":3:15: error: flops: ", "'1e1x' is not a number");
  refuses_table(kHeader + changed(kRow, "1e12", "-1e12"), ":2:15: error: flops: ", "negative");
  for (const char* value : {"nan", "inf", "-inf", "1e999", "0x10", ""}) {
    refuses_table(kHeader + changed(kRow, "1e12", value), ":2:15: error: flops: ", "is not a number");
  }
  refuses_table(kHeader + changed(kRow, ",4,", ",0,"), ":2:13: error: cnodes: ", "from 1 to");
  refuses_table(kHeader + changed(kRow, "ps-worker", "ps-wroker"), ":2:3: error: architecture: ", "'ps-worker'");
  refuses_table(kHeader + "1,ps-worker,4,0,0,1,1,1,1\n", ":2:15: error: ", "without FLOPs");
  refuses_table(kHeader + "1,ps-worker\n", ":2:1: error: ", "2 fields");
  refuses_table("", ":1:1: error: ", "the file is empty");
  refuses_table(kHeader, ": error: ", "no jobs");
  refuses_table("\x89PNG\r\n\x1A\n", ":1:1: error: ", "job");
  refuses(kNoAnswer, {"fleet", folder.path().string()}, {folder.path().string() + ": error: "});
  refuses(kNoAnswer, {"fleet", folder.path().string() + "/none.csv"}, {"none.csv: error: "});
  refuses(kNoAnswer, {"fleet", "pai_2019"}, {"pai_2019: error: ", "--population, of pai_2019"});
  refuses(kNoAnswer, {"fleet", "-"}, {"<stdin>:1:1: error: the file is empty"});
}

TEST_CASE("hostile: tables that are one endless line", "[hostile]") {
  const TempFolder folder;
  const std::string commas = folder.file("commas.csv", "", ",", 1'000'000, "\n");
  refuses(kNoAnswer, {"fleet", commas}, {commas + ":1:1001: error: more than 1000 fields"});
  const std::string hole = folder.file("hole.csv", "");
  std::filesystem::resize_file(hole, std::uintmax_t{1} << 30);  // zeros that take no space on the disk
  refuses(kNoAnswer, {"fleet", hole}, {hole + ":1:1: error: "});
  refuses(kNoAnswer, {"fleet", "/dev/zero"}, {"/dev/zero:1:1: error: "});
}

TEST_CASE("hostile: counts of nodes from none to too many", "[hostile]") {
  for (const char* nodes : {"0", "-1", "1000000001", "1000000000000000000000000000000"}) {
    refuses(kNoAnswer, plus(kJob, {"--nodes", nodes}), {nodes, "from 1 to 1000000000"});
  }
}

TEST_CASE("hostile: a file that cannot be written leaves nothing behind", "[hostile]") {
  const TempFolder folder;
  const std::string table = folder.file("jobs.csv", kHeader + kRow);
  const std::string path = folder.path().string() + "/none/cdf.csv";
  refuses(kNoAnswer, {"fleet", table, "--what-if", "--cdf", path}, {path + ": error: could not be written"});
  refuses(kNoAnswer, {"fleet", "--jobs", "10", "--generate", path}, {path + ": error: could not be written"});
  const std::string taken = folder.path().string() + "/taken";
  std::filesystem::create_directory(taken);
  refuses(kNoAnswer, {"fleet", table, "--what-if", "--cdf", taken}, {taken + ": error: could not be written"});
  CHECK(folder.names() == Words{"jobs.csv", "taken"});
}

TEST_CASE("hostile: memory does not grow with the rows of a table", "[hostile]") {
  const TempFolder folder;
  const std::string small = folder.path().string() + "/small.csv";
  const std::string large = folder.path().string() + "/large.csv";
  REQUIRE(run_program({"fleet", "--jobs", "100000", "--generate", small}, 60).status == 0);
  REQUIRE(run_program({"fleet", "--jobs", "1000000", "--generate", large}, 60).status == 0);
  const Outcome few = run_program({"fleet", small, "--what-if"}, 60);
  const Outcome many = run_program({"fleet", large, "--what-if"}, 60);
  REQUIRE(few.status == 0);
  REQUIRE(many.status == 0);
  CHECK_THAT(many.out, Contains("1,000,000 jobs"));
  // A sanitizer keeps what was freed for a while.
  const std::int64_t slack = std::int64_t{kSanitized ? 400 : 4} << 20;
  CHECK(many.peak_bytes < few.peak_bytes + slack);

  constexpr int kRounds = kOptimised ? 10 : 1;  // ten million rows, through a pipe
  const Outcome piped = run_program({"fleet", "-", "--what-if"}, 60, repeated_table(large, kRounds));
  CHECK(piped.status == 0);
  CHECK_THAT(piped.out, Contains(kOptimised ? "10,000,000 jobs" : "1,000,000 jobs"));
  CHECK(piped.peak_bytes < few.peak_bytes + slack);
  CHECK(piped.peak_bytes < std::int64_t{500} << 20);
}
