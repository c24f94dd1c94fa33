// What frameworks do of themselves, and how published rows are read for it.
#include <catch2/catch.hpp>
#include <string>

#include "case_row.h"
#include "cases/case_scenario.h"
#include "cases/case_software.h"
#include "cases/case_words.h"
#include "ddlsim/importers/training_way.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using ddlsim::test::row;
using ddlsim::test::said;
using namespace ddlsim::whatif;

namespace {

io::Case megatron(const char* framework) {
  io::Case one = row();
  one.model = "GPT 1B";
  one.framework = framework;
  one.gpu = "A100-SXM4-80GB";
  one.precision = "bf16";
  one.architecture = "tp";
  one.gpus_per_node = one.total_gpus = 8;
  one.nodes = 1;
  one.batch_per_gpu = 16;
  one.metric = io::CaseMetric::kStepMilliseconds;
  one.extra = {{"layers", "4"},     {"hidden", "2048"},     {"heads", "16"}, {"vocab", "51200"},
               {"seq_len", "1024"}, {"global_batch", "64"}, {"tp", "2"}};
  return one;
}

Scenario scenario_of(const io::Case& one) {
  auto scenario = CaseReader(catalog()).scenario_of(one, 8);
  if (!scenario) FAIL(to_string(scenario.error()));
  return std::move(*scenario);
}

}  // namespace

TEST_CASE("ways: Megatron-LM of 2020 had one pass a step without pipelines", "[unit][whatif]") {
  CHECK(said(megatron("Megatron-LM (2020)"), "batch") == "16");  // four replicas of 64
  CHECK(said(megatron("Megatron-LM (2021)"), "batch") == "1");
  CHECK(said(megatron("NeMo (2020)"), "batch") == "1");
  io::Case one = megatron("Megatron-LM (2020)");
  one.extra["micro_batch"] = "4";
  CHECK(said(one, "batch") == "4");
  one = megatron("Megatron-LM (2020)");
  one.extra["pp"] = "2";
  CHECK(said(one, "batch") == "1");
  one = megatron("Megatron-LM (2020)");
  one.extra["global_batch"] = "63";  // which four replicas do not share
  CHECK(said(one, "batch") == "1");
}

TEST_CASE("ways: trees of modules take the CPU long for every kernel", "[unit][whatif]") {
  CHECK(importers::module_launch_interval("megatron-bridge") == microseconds(60));
  CHECK(importers::module_launch_interval("nanotron") == microseconds(60));
  CHECK_FALSE(importers::module_launch_interval("nemo automodel"));
  CHECK_FALSE(importers::module_launch_interval("torchtitan"));
  const Scenario modules = scenario_of(megatron("Megatron-LM core_v0.14.0"));
  CHECK(modules.launch_interval.get() == microseconds(60));
  CHECK(modules.launch_interval.origin() == Origin::kFramework);
  CHECK(scenario_of(megatron("PyTorch 2.1")).launch_interval.origin() == Origin::kDefault);
  // Who states one knows better.
  const CaseReader stated(catalog(), {{"launch_interval", "5 us", {}}});
  CHECK(stated.scenario_of(megatron("Megatron-LM core_v0.14.0"), 8).value().launch_interval.get() == microseconds(5));
}

TEST_CASE("ways: the first blocks of a stage are computed again where a number is said", "[unit][whatif]") {
  io::Case one = megatron("Megatron-LM core_v0.14.0");
  one.extra["recompute_layers"] = "3";
  Scenario scenario = scenario_of(one);
  CHECK(scenario.parallel.recompute == plan::Recompute::kFull);
  CHECK(scenario.parallel.recompute_every == 4);
  CHECK(scenario.parallel.recompute_first == 3);
  one.extra["pp"] = "2";
  CHECK(scenario_of(one).parallel.recompute_every == 1);  // all two of a stage
  one.extra["recompute_layers"] = "1";
  scenario = scenario_of(one);
  CHECK(scenario.parallel.recompute_every == 2);
  CHECK(scenario.parallel.recompute_first == 1);
  one.extra["recompute_layers"] = "0";
  CHECK(scenario_of(one).parallel.recompute == plan::Recompute::kNone);
}

TEST_CASE("ways: data parallelism of Megatron's frameworks has their optimizer", "[unit][whatif]") {
  io::Case one = megatron("NeMo 25.09 (Megatron Core)");
  one.architecture = "ddp";
  one.extra.erase("tp");
  CHECK(said(one, "parallel.zero") == "1");
  one.extra["optimizer_sharding"] = "none";
  CHECK(said(one, "parallel.zero") == "");
  one.extra.erase("optimizer_sharding");
  one.framework = "PyTorch 2.1";
  CHECK(said(one, "parallel.zero") == "");
}

TEST_CASE("ways: what MindSpore's, MXNet's and TensorFlow's scripts do", "[unit][whatif]") {
  io::Case one = row();
  one.model = "ResNet50";
  one.precision = "";
  one.framework = "MindSpore";
  CHECK(said(one, "precision") == "amp");
  one.model = "inception_v4";
  CHECK(said(one, "precision") == "fp32");
  one.model = "VGG16";
  CHECK(said(one, "precision") == "amp");
  one.architecture = "ps";
  CHECK(said(one, "precision") == "fp32");
  one = row();
  one.total_gpus = one.gpus_per_node = 4;
  one.nodes = 1;
  one.framework = "TensorFlow (tf_cnn_benchmarks)";
  one.architecture = "replicated";
  CHECK(said(one, "strategy") == "tf-replicated");
  CHECK(unread_words(one).empty());
  one.framework = "MXNet";
  one.architecture = "kvstore dist_sync";
  CHECK(said(one, "strategy") == "mxnet-kvstore");
  one.architecture = "kvstore device";
  CHECK(said(one, "strategy") != "mxnet-kvstore");
  CHECK(unread_words(one).empty());
}

TEST_CASE("ways: a submission that names kinds of ranks and no number", "[unit][whatif]") {
  io::Case one = row();
  one.model = "llama2_70b_lora";
  one.framework = "NVIDIA NeMo 24.09";
  one.source = "github:mlcommons/training_results_v4.1:Dell/results/2xXE9680/llama2_70b_lora/result_0.txt";
  one.gpu = "H100-SXM5-80GB";
  one.precision = "fp8";
  one.architecture = "tp-pp-dp";
  one.gpus_per_node = 8;
  one.nodes = 2;
  one.total_gpus = 16;
  one.extra = {{"global_batch", "8"}, {"grad_accum", "4"}, {"seq_len", "8192"}, {"lora_rank", "16"}};
  CHECK(said(one, "parallel.data") == "2");
  CHECK(said(one, "parallel.tensor") == "8");
  CHECK(said(one, "parallel.lora_rank") == "16");
  one.extra.erase("grad_accum");  // nobody says what is left
  CHECK(said(one, "parallel.tensor") == "");
  one.extra["grad_accum"] = "4";
  one.extra["tp"] = "4";  // who says one means the rest
  one.extra["cp"] = "2";
  CHECK(said(one, "parallel.tensor") == "4");
  CHECK(said(one, "parallel.context") == "2");
}

TEST_CASE("ways: NCCL without peer access, in its own words", "[unit][whatif]") {
  io::Case one = row();
  one.gpu = "A100-SXM4-80GB";
  one.gpus_per_node = one.total_gpus = 4;
  one.nodes = 1;
  CHECK(said(one, "peer_to_peer") == "");
  one.extra["p2p_disabled"] = "1";
  CHECK(said(one, "peer_to_peer") == "no");
  CHECK(said(one, "gpu_interconnect") == "pcie");
  one.extra["p2p_disabled"] = "0";
  CHECK(said(one, "peer_to_peer") == "");
}

TEST_CASE("ways: schedules of pipelines by the words of their papers", "[unit][whatif]") {
  io::Case one = megatron("Megatron-LM");
  one.architecture = "pp";
  one.batch_per_gpu.reset();
  one.extra.erase("tp");
  one.extra["layers"] = "14";
  one.extra["pp"] = "8";
  one.extra["micro_batch"] = "1";
  one.extra["schedule"] = "ZB-1p";
  CHECK(said(one, "parallel.schedule") == "zb-h1");
  one.extra["schedule"] = "ZB-2p";
  CHECK(said(one, "parallel.schedule") == "zb-h2");
  one.extra["schedule"] = "1F1B-I";
  CHECK(said(one, "parallel.schedule") == "1f1b");  // of how many chunks nobody says
  one.extra["chunks"] = "each transformer layer serves as a chunk";
  CHECK(said(one, "parallel.schedule") == "interleaved");
  CHECK(said(one, "parallel.virtual_stages") == "2");
  one.extra["vp"] = "1";
  CHECK(said(one, "parallel.schedule") == "1f1b");
}

TEST_CASE("ways: ranks that share a sample are as many as share it", "[unit][whatif]") {
  io::Case one = megatron("DISTFLASHATTN");
  one.batch_per_gpu.reset();
  one.extra.erase("tp");
  one.extra["global_batch"] = "1";
  one.architecture = "sequence parallel";
  CHECK(said(one, "parallel.context") == "8");
  one.architecture = "tp (tensor + sequence parallel)";
  CHECK(said(one, "parallel.tensor") == "8");
  CHECK(said(one, "parallel.context") == "");
  one.extra["global_batch"] = "2";
  CHECK(said(one, "parallel.tensor") == "4");
  one.extra["tp"] = "2";  // who says a degree says all
  CHECK(said(one, "parallel.tensor") == "2");
  one.extra.erase("tp");
  one.extra["global_batch"] = "3";
  CHECK(said(one, "parallel.tensor") == "");
}

TEST_CASE("ways: attention of long sequences, and by PyTorch's own name, is one kernel", "[unit][whatif]") {
  io::Case one = megatron("Megatron-LM (2022)");
  CHECK(said(one, "fusion") == "none");
  one.extra["seq_len"] = "16384";
  CHECK(said(one, "fusion") == "attention");
  one.extra["attention"] = "eager";
  CHECK(said(one, "fusion") == "none");
  one.extra["attention"] = "from-scratch multi-head attention (materialized)";
  CHECK(said(one, "fusion") == "none");
  one = megatron("Megatron-LM (2022)");
  one.extra["attention"] = "scaled_dot_product_attention";
  CHECK(said(one, "fusion") == "attention");
}

TEST_CASE("ways: Ubuntu's releases are no containers of NVIDIA's", "[unit][whatif]") {
  io::Case one = row();
  one.framework = "PyTorch 2.8.0";
  one.extra["container"] = "runpod/pytorch:2.8.0-py3.11-cuda12.8.1-cudnn-devel-ubuntu22.04";
  CHECK(software_year_of(one).value_or(0) != Approx(2022.25));
  one.extra["container"] = "nvcr.io/nvidia/pytorch:22.04-py3";
  CHECK(software_year_of(one).value() == Approx(2022.25));
}

TEST_CASE("ways: a batch of all passes is that of one, so many times", "[unit][whatif]") {
  io::Case one = row();
  one.batch_per_gpu = 60;
  one.extra = {{"grad_accum", "5"}, {"batch_size", "12"}};
  CHECK(said(one, "batch") == "12");
  CHECK(said(one, "strategy.accumulation") == "5");
  one.extra["batch_size"] = "60";  // of one pass, as it is called elsewhere
  CHECK(said(one, "batch") == "60");
  one.extra = {{"grad_accum", "5"}, {"micro_batch", "12"}};
  CHECK(said(one, "batch") == "12");
  one.extra = {{"grad_accum", "5"}};
  CHECK(said(one, "batch") == "60");
  one.extra = {{"grad_accum", "1000000000000000"}, {"batch_size", "1000000000000000"}};  // nobody's, and no overflow
  CHECK(said(one, "batch") == "60");
  one = megatron("PyTorch 2.1");
  one.architecture = "ddp";
  one.batch_per_gpu = 60;
  one.extra.erase("tp");
  one.extra.erase("global_batch");
  one.extra["grad_accum"] = "5";
  one.extra["batch_size"] = "12";
  CHECK(said(one, "batch") == "12");
  CHECK(said(one, "global_batch") == "480");
}
