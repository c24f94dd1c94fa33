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

TEST_CASE("ways: frameworks without a name of ours share as the nearest that has one", "[unit][whatif]") {
  const auto strategy = [](const char* framework, const char* architecture = "ddp") {
    io::Case one = row();
    one.framework = framework;
    one.architecture = architecture;
    return said(one, "strategy");
  };
  for (const char* framework : {"ChainerMN", "CNTK 2.7", "Theano-MPI", "Caffe", "KungFu with NCCL"}) {
    CAPTURE(framework);
    CHECK(strategy(framework) == "apex-ddp-delayed");  // all at once, after backward
  }
  CHECK(strategy("SINGA") == "tf-replicated");
  CHECK(strategy("NVCaffe") == "tf-replicated");
  CHECK(strategy("KungFu") == "pytorch-ddp-gloo");  // the CPU sums
  CHECK(strategy("Caffe2") == "pytorch-ddp-gloo");  // between servers
  CHECK(strategy("ByteScheduler (MXNet)") == "bytescheduler");
  CHECK(strategy("ByteScheduler (Horovod)", "allreduce") == "bytescheduler");
  io::Case one = row();
  one.framework = "Caffe2";
  one.nodes = 1;
  one.total_gpus = 8;
  CHECK(said(one, "strategy") == "tf-replicated");
  one.framework = "MindSpore";
  CHECK(said(one, "strategy") == "pytorch-ddp");  // its scripts for ResNets send some pieces
  one.model = "VGG16";
  CHECK(said(one, "strategy") == "apex-ddp-delayed");
  one.model = "DLRM";
  one.framework = "HugeCTR";
  CHECK(said(one, "strategy") == "hugectr");
  one.framework = "TorchRec";
  CHECK(said(one, "strategy") == "torchrec");
  one = row();
  one.framework = "ddp_foo";
  one.extra["strategy"] = "horovod";
  CHECK(said(one, "strategy") == "horovod");
  one.extra["strategy"] = "somebody's";  // a note
  CHECK(said(one, "strategy") == "pytorch-ddp");
  CHECK(unread_words(one).empty());
}

TEST_CASE("ways: who sums, by the words of framework, architecture and backend", "[unit][whatif]") {
  const auto with = [](const char* framework, const char* key = "", const char* value = "") {
    io::Case one = row();
    one.framework = framework;
    if (*key != '\0') one.extra[key] = value;
    return one;
  };
  CHECK(said(with("PyTorch", "backend", "gloo"), "strategy") == "pytorch-ddp-gloo");
  CHECK(said(with("PyTorch", "backend", "cpu:gloo,cuda:nccl"), "strategy") == "pytorch-ddp");
  CHECK(said(with("PyTorch", "nccl", "no"), "strategy") == "pytorch-ddp-gloo");
  CHECK(said(with("PyTorch", "nccl", "2.4.7"), "strategy") == "pytorch-ddp");
  CHECK(said(with("PyTorch", "backend", "mpi"), "collective.library") == "mpi");
  for (const char* framework : {"Horovod 0.16 (MPI)", "horovod-mpi", "Horovod 0.19, MVAPICH2", "Horovod (Intel MPI)",
                                "Horovod 0.19 on CUDA-aware Open MPI"}) {
    CAPTURE(framework);
    CHECK(said(with(framework), "strategy") == "horovod-mpi");
  }
  CHECK(said(with("Horovod 0.16 MVAPICH2-GDR 2.3"), "strategy") == "horovod-mpi-opt");  // Awan et al.'s
  // What starts processes sums nothing.
  for (const char* framework : {"Horovod 0.19, Open MPI 4.0", "Horovod 0.19, NCCL 2.4, MPI"}) {
    CAPTURE(framework);
    CHECK(said(with(framework), "strategy") == "horovod-2018");
  }
  io::Case one = with("TensorFlow 1.12");
  one.architecture = "allreduce (Horovod, MPI)";
  CHECK(said(one, "strategy") == "horovod-mpi");
  CHECK(said(with("Horovod 0.19", "backend", "gloo"), "collective.library") == "gloo");
}

TEST_CASE("ways: TensorFlow's variable_update counts whatever the architecture is called", "[unit][whatif]") {
  io::Case one = row();
  one.framework = "TensorFlow 1.12 (tf_cnn_benchmarks)";
  const auto strategy = [&](const char* update) {
    one.extra["variable_update"] = update;
    return said(one, "strategy");
  };
  CHECK(strategy("distributed_replicated") == "tf-distributed-replicated");
  CHECK(strategy("collective_all_reduce") == "tf-multiworker-mirrored");
  CHECK(strategy("replicated") == "tf-replicated");
  CHECK(unread_words(one).empty());
  one.extra["num_ps"] = "3";
  CHECK(strategy("parameter_server") == "tf-ps");
  CHECK(said(one, "strategy.servers") == "3");
  one.extra.erase("num_ps");
  CHECK(strategy("independent") == "pytorch-ddp");
  CHECK(unread_words(one).size() == 1);
  one.extra = {{"variable_update", "replicated"}, {"all_reduce_spec", "nccl"}};
  CHECK(unread_words(one).empty());
  one.extra["all_reduce_spec"] = "xring";
  CHECK(said(one, "strategy") == "tf-replicated");
  CHECK(unread_words(one).size() == 1);
  one.extra = {{"variable_update", "replicated"}, {"nccl", "no"}};
  CHECK(unread_words(one).size() == 1);
  one.extra = {{"variable_update", "replicated"}, {"all_reduce_spec", "pscpu"}};
  one.nodes = 1;
  one.total_gpus = 8;
  CHECK(said(one, "strategy") == "tf-ps");  // the CPU sums
  CHECK(unread_words(one).empty());
}

TEST_CASE("ways: how gradients are made smaller, grouped and skipped", "[unit][whatif]") {
  const auto set = [](const char* key, const char* value, const char* path) {
    io::Case one = row();
    one.extra[key] = value;
    CHECK(unread_words(one).empty());
    return said(one, path);
  };
  CHECK(set("comm_hook", "fp16_compress", "strategy.gradients") == "fp16");
  CHECK(set("comm_hook", "bf16_compress_hook", "strategy.gradients") == "bf16");
  CHECK(set("gradient_compression", "fp16", "strategy.gradients") == "fp16");
  CHECK(set("fp16_allreduce", "true", "strategy.gradients") == "fp16");
  CHECK(set("compression", "powersgd", "strategy.compression") == "powersgd");
  CHECK(set("comm_hook", "powerSGD", "strategy.rank") == "1");  // PyTorch's own
  CHECK(set("compression", "top-k", "strategy.compression") == "top-k");
  CHECK(set("compression", "none", "strategy.compression") == "");
  CHECK(set("bucket_cap_mb", "100", "strategy.bucket") == "100 MiB");
  CHECK(set("local_sgd", "8", "strategy.sync_every") == "8");
  CHECK(set("compile", "true", "fusion") == "pointwise");
  for (const auto& [key, value] : {std::pair("gradient_compression", "2bit"), std::pair("bucket_cap_mb", "many"),
                                   std::pair("local_sgd", "true"), std::pair("fp16_allreduce", "maybe")}) {
    CAPTURE(key);
    io::Case one = row();
    one.extra[key] = value;
    CHECK(unread_words(one).size() == 1);
  }
  io::Case one = row();
  one.framework = "Horovod 0.19 (TensorFlow 1.15)";
  one.extra["bucket_cap_mb"] = "10";
  CHECK(said(one, "strategy.bucket") == "");
  CHECK(unread_words(one).size() == 1);
}

TEST_CASE("ways: DeepSpeed's stages share the states of any network", "[unit][whatif]") {
  io::Case one = row();
  one.framework = "DeepSpeed 0.12";
  one.batch_per_gpu = 64;
  CHECK(said(one, "parallel.zero") == "");
  one.extra["zero_stage"] = "2";
  CHECK(said(one, "parallel.zero") == "2");
  one.extra = {{"zero", "3"}};
  CHECK(said(one, "parallel.zero") == "3");
  one.extra = {{"zero", "0"}};
  CHECK(said(one, "strategy") == "deepspeed");
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

TEST_CASE("case: tf_cnn_benchmarks spreads variables over servers by their bytes", "[unit][whatif]") {
  io::Case one = row();
  one.framework = "TensorFlow 1.1.0 tf_cnn_benchmarks";
  one.architecture = "ps";
  one.gpus_per_node = 1;
  one.nodes = one.total_gpus = 4;
  CHECK(said(one, "strategy") == "tf-ps");
  CHECK(said(one, "strategy.placement") == "greedy");
  one.framework = "TensorFlow 1.1.0, Estimator";
  CHECK(said(one, "strategy") == "tf-ps");
  CHECK(said(one, "strategy.placement").empty());
  one.framework = "tf_cnn_benchmarks";
  one.gpus_per_node = 4;
  one.nodes = 1;
  CHECK(said(one, "strategy.placement").empty());  // one server has them all
}
