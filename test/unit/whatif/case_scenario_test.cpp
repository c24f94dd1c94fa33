#include "cases/case_scenario.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "case_row.h"
#include "cases/case_words.h"
#include "ddlsim/whatif/predict.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using ddlsim::test::row;
using ddlsim::test::said;
using namespace ddlsim::whatif;

TEST_CASE("case: language models that are shipped are split by name", "[unit][whatif]") {
  io::Case one = row();
  one.gpu = "H100-SXM5-80GB";
  one.model = "Llama 3.1 8B";
  one.framework = "NeMo 25.02";
  one.precision = "bfloat16";
  one.architecture = "tp-pp-dp";
  one.extra = {{"tp", "2"}, {"pp", "2"}, {"seq_len", "4096"}, {"micro_batch", "1"}, {"global_batch", "64"}};
  one.metric = io::CaseMetric::kTokensPerSecond;
  CHECK(said(one, "model") == "Llama 3.1 8B");
  CHECK(said(one, "model.sequence") == "4096");
  CHECK(said(one, "parallel.tensor") == "2");
  CHECK(said(one, "parallel.data") == "4");
  CHECK(said(one, "precision") == "bf16");
  const auto scenario = CaseReader(catalog()).scenario_of(one, 8).value();
  CHECK(scenario.model->parameters() == catalog().model("llama_3_1_8b").value()->parameters());
  CHECK(scenario.framework == "NeMo 25.02");
  // Without a split of its own FSDP has whole replicas' batches.
  one.architecture = "fsdp";
  one.extra = {{"seq_len", "4096"}, {"fsdp", "16"}};
  one.batch_per_gpu = 2;
  CHECK(said(one, "batch") == "2");
  CHECK(said(one, "parallel.zero") == "3");
  // A split of layers needs those of a language model, or all sizes.
  one.model = "ResNet-50 v1.5";
  one.architecture = "tp-pp-dp";
  one.extra.erase("fsdp");
  CHECK(said(one, "batch").starts_with("error: 'tp-pp-dp': a split of a model whose sizes"));
}

TEST_CASE("case: states of any model are shared", "[unit][whatif]") {
  io::Case one = row();
  one.architecture = "fsdp";
  one.framework = "Composer (PyTorch 1.13, FSDP)";
  one.precision = "amp";
  one.gpu = "A100-SXM4-80GB";
  one.batch_per_gpu = 64;
  for (const char* model : {"ResNet-50 v1.5", "vit_large", "sd2_base_unet"}) {
    CAPTURE(model);
    one.model = model;
    CHECK(said(one, "parallel.zero") == "3");
    CHECK(said(one, "batch") == "64");
    CHECK(said(one, "parallel.states") == "mixed");
    const auto scenario = CaseReader(catalog()).scenario_of(one, 8).value();
    CHECK(scenario.parallel.zero == 3);
    CHECK(predict(scenario).has_value());
  }
  one.model = "ResNet-50 v1.5";
  one.architecture = "zero-2";
  one.extra["data"] = "real ImageNet";
  CHECK(said(one, "parallel.zero") == "2");
  CHECK_FALSE(said(one, "input.dataset").empty());
  one.precision = "TF32";
  CHECK(said(one, "parallel.states").empty());  // of 32 bits
}

TEST_CASE("case: one GPU's language model says what it computes again, compiles, adapts and keeps", "[unit][whatif]") {
  io::Case one = row();
  one.gpu = "H200-SXM5-141GB";
  one.model = "llama_3_2_1b";
  one.framework = "PyTorch 2.11 (transformers)";
  one.precision = "bf16";
  one.architecture = "single";
  one.gpus_per_node = one.nodes = one.total_gpus = 1;
  one.batch_per_gpu = 4;
  one.extra = {{"seq_len", "2048"}, {"date", "2026-11"}};
  CHECK(said(one, "parallel.recompute").empty());
  CHECK(said(one, "parallel.states").empty());
  one.extra["states"] = "pure-16";
  CHECK(said(one, "parallel.states") == "pure-16");
  one.extra["recompute"] = "full";
  CHECK(said(one, "parallel.recompute") == "full");
  CHECK(said(one, "parallel.states") == "pure-16");
  CHECK(said(one, "batch") == "4");
  one.extra.erase("recompute");
  one.extra["compile"] = "true";
  CHECK(said(one, "fusion") == "all");
  one.extra.erase("compile");
  one.extra["lora_rank"] = "8";
  one.extra["task"] = "lora";
  CHECK(said(one, "parallel.lora_rank") == "8");
}

TEST_CASE("case: PyTorch's convolutions multiply in TF32 unless the source denies it", "[unit][whatif]") {
  io::Case one = row();
  one.gpu = "H200-SXM5-141GB";
  one.extra["date"] = "2026-11";
  CHECK(said(one, "precision") == "tf32");
  one.extra["tf32"] = "no";
  CHECK(said(one, "precision") == "fp32");
}

TEST_CASE("case: images of a model of latents are a setting", "[unit][whatif]") {
  io::Case one = row();
  one.model = "sd2_base_unet";
  one.batch_per_gpu = 8;
  one.extra["image_size"] = "512";
  CHECK(said(one, "model.latent").empty());  // its own
  const auto large = CaseReader(catalog()).scenario_of(one, 8).value();
  one.extra["image_size"] = "256";
  CHECK(said(one, "model.latent") == "32");
  const auto small = CaseReader(catalog()).scenario_of(one, 8).value();
  CHECK(small.model->parameters() == large.model->parameters());
  // A quarter of the rows, and attention among them a sixteenth; what has to do with time and text stays.
  const double times = large.model->totals.forward_work / small.model->totals.forward_work;
  CHECK(times > 4);
  CHECK(times < 6);
  one.extra["image_size"] = "250";
  CHECK(said(one, "model") ==
        "error: images of 250 pixels a side; 'U-Net of Stable Diffusion 2 base' is known for "
        "squares of a multiple of 8");
  one.model = "dit_xl_2";
  one.extra["image_size"] = "512x512";
  CHECK(said(one, "model.latent") == "64");
}

TEST_CASE("case: no model of the zoo takes images of another size in silence", "[unit][whatif]") {
  io::Case one = row();
  one.extra["image_size"] = "136";
  for (const std::string& id : catalog().ids(io::Kind::kModels)) {
    const auto model = catalog().model(id).value();
    if (model->sample.find("image") == std::string::npos || model->layers.empty()) continue;
    CAPTURE(id);
    one.model = id;
    const auto scenario = CaseReader(catalog()).scenario_of(one, 8);
    CHECK((!scenario || scenario->model->name.ends_with(" at 136 x 136") || said(one, "model.latent") == "17"));
  }
}

TEST_CASE("case: BERT's phases have lengths of their own where none is said", "[unit][whatif]") {
  io::Case one = row();
  one.model = "BERT-Large";
  CHECK(said(one, "model.sequence").empty());
  one.extra["phase"] = "2";
  CHECK(said(one, "model.sequence") == "512");
  one.extra["phase"] = "pre-training phase 1";
  CHECK(said(one, "model.sequence") == "128");
  one.extra["phase"] = "fine-tuning SQuAD";
  CHECK(said(one, "model.sequence") == "384");
  one.extra["seq_len"] = "96";
  CHECK(said(one, "model.sequence") == "96");
}

TEST_CASE("case: Horovod over MPI, TensorFlow's strategies, and Ethernet without a rate", "[unit][whatif]") {
  io::Case one = row();
  one.framework = "TensorFlow 1.8, tf_cnn_benchmarks, Horovod 0.13.2";
  one.architecture = "allreduce(horovod)";
  CHECK(said(one, "strategy") == "horovod-2018");
  one.extra["backend"] = "Intel MPI 2017 (DAPL)";
  CHECK(said(one, "strategy") == "horovod-mpi");
  one.extra["backend"] = "NCCL (launched by mpirun)";
  CHECK(said(one, "strategy") == "horovod-2018");
  one = row();
  one.framework = "TensorFlow 2.3.0, official models";
  one.architecture = "allreduce(tf.distribute)";
  CHECK(said(one, "strategy") == "tf-multiworker-mirrored");
  one.inter_network = "Ethernet of the VM (TCP), rate not stated";
  CHECK(said(one, "network") == "ethernet-10g");
  CHECK(said(one, "network.transport") == "tcp");
  one.inter_network = "Ethernet";
  CHECK(said(one, "network") == "ethernet-10g");
  for (const char* not_tcp :
       {"InfiniBand, no TCP", "dual-socket server, 100 Gb/s InfiniBand", "200 Gb/s RoCE, not TCP"}) {
    one.inter_network = not_tcp;
    CHECK(said(one, "network.transport") != "tcp");
  }
  one.inter_network = "default network";
  CHECK(said(one, "network.transport").empty());
}

TEST_CASE("case: NVIDIA's submissions to MLPerf run as graphs since its first round", "[unit][whatif]") {
  io::Case one = row();
  one.framework = "PyTorch NVIDIA Release 22.04";
  CHECK(said(one, "cuda_graphs").empty());
  one.source = "github:mlcommons/training_results_v2.0:NVIDIA/results/dgxa100/ssd/result_0.txt@a6ae3e1";
  CHECK(said(one, "cuda_graphs") == "yes");
  one.framework = "PyTorch";
  CHECK(said(one, "cuda_graphs").empty());
  one.framework = "PyTorch NVIDIA Release 20.06";
  one.source = "github:mlcommons/training_results_v0.7:NVIDIA/results/dgxa100/ssd/result_0.txt@a6ae3e1";
  CHECK(said(one, "cuda_graphs").empty());
}

TEST_CASE("case: what BERT is trained for, by its task too", "[unit][whatif]") {
  io::Case one = row();
  one.model = "BERT-Large";
  one.extra["seq_len"] = "384";
  CHECK(said(one, "model.predictions").empty());
  one.extra["task"] = "SQuAD 1.1";
  CHECK(said(one, "model.predictions") == "1");
  one.extra["task"] = "pre-training (masked words, next sentence classification)";
  CHECK(said(one, "model.predictions") != "1");
  one.extra["task"] = "pretraining";
  one.extra["seq_len"] = "512";
  CHECK(said(one, "model.predictions") == "80");
}

TEST_CASE("case: precisions as sources print them", "[unit][whatif]") {
  const auto precision = [](const std::string& published) {
    io::Case one = row();
    one.precision = published;
    return said(one, "precision");
  };
  CHECK(precision("AMP/mixed (submission default)") == "amp");
  CHECK(precision("FP16(no AMP)") == "fp16");
  CHECK(precision("FP16/BF16 (not restated)") == "fp16");
  CHECK(precision("") == "fp32");
  CHECK(precision("bfloat16") == "bf16");
  CHECK(precision("BF16-mixed") == "bf16");
  CHECK(precision("automatic mixed precision") == "amp");
  CHECK(precision("XLA AMP") == "amp");
  CHECK(precision("O2") == "amp");
  CHECK(precision("16") == "amp");
  CHECK(precision("32") == "fp32");
}

TEST_CASE("case: NVIDIA's containers for PyTorch run fp32 in TF32 where the GPU has it", "[unit][whatif]") {
  io::Case one = row();
  one.gpu = "A100-SXM4-40GB";
  one.model = "BERT-Large";
  CHECK(said(one, "precision") == "fp32");
  one.extra["container"] = "nvcr.io/nvidia/pytorch:24.10-py3";
  CHECK(said(one, "precision") == "tf32");
  one.precision = "bf16";
  CHECK(said(one, "precision") == "bf16");
  one = row();
  one.extra["container"] = "nvcr.io/nvidia/pytorch:24.10-py3";
  CHECK(said(one, "precision") == "fp32");  // V100
}

TEST_CASE("case: the server is the one that fits what is said", "[unit][whatif]") {
  io::Case one = row();
  one.intra_interconnect = "NVLink2 hybrid-cube-mesh(300GB/s)";
  CHECK(said(one, "node") == "dgx1-v100");
  one.gpu = "K80 (1 GK210, 12GB)";
  one.intra_interconnect = "PCIe3 (EC2 p2.8xlarge)";
  CHECK(said(one, "node") == "p2.8xlarge");
  one.total_gpus = 7;
  CHECK(said(one, "node") == "error: 7 GPUs in all are not 2 nodes of 8");
  // B300 have no server of their own here; B200 are alike.
  one.gpu = "B300";
  one.intra_interconnect.clear();
  one.gpus_per_node = one.total_gpus = 8;
  one.nodes = 1;
  CHECK(said(one, "node") == "dgx-b200");
}

TEST_CASE("case: superchips with Blackwell GPUs are racks of 72", "[unit][whatif]") {
  io::Case one = row();
  one.gpu = "GB200-NVL72";
  one.gpus_per_node = 4;
  one.nodes = 128;
  one.total_gpus = 512;
  one.intra_interconnect = "NVLINK Gen5 1800 GB/s + NVSWITCH Gen5";
  CHECK(said(one, "node") == "gb200-nvl72");
  CHECK(said(one, "nodes") == "8");  // the fewest racks that 512 fill alike
  CHECK(said(one, "gpus_per_node") == "64");
}

TEST_CASE("case: who read images has a loader", "[unit][whatif]") {
  io::Case one = row();
  CHECK(said(one, "input.dataset").empty());
  one.extra["data"] = "synthetic";
  CHECK(said(one, "input.dataset").empty());
  one.extra["data"] = "real ImageNet";
  CHECK(said(one, "input.dataset") == "imagenet");
  CHECK(said(one, "input.loader") == "workers");
  CHECK(said(one, "input.decode").empty());
  one.framework = "TensorFlow 1.x tf_cnn_benchmarks";
  CHECK(said(one, "input.dataset") == "imagenet-records");
  CHECK(said(one, "input.loader") == "tf.data");
  one.extra["dali"] = "true";
  CHECK(said(one, "input.loader") == "dali");
  CHECK(said(one, "input.decode") == "gpu");
}

TEST_CASE("case: DLPerf's rows read images as their scripts do", "[unit][whatif]") {
  io::Case one = row();
  one.metric = io::CaseMetric::kImagesPerSecond;
  one.source = "github:Oneflow-Inc/DLPerf:PyTorch/resnet50v1.5/README.md@c89430b#L458";
  CHECK(said(one, "input.dataset") == "imagenet");
  CHECK(said(one, "input.loader") == "workers");
  CHECK(said(one, "input.workers").empty());
  CHECK(said(one, "input.cpu") == "xeon-gold-5118");
  CHECK(said(one, "input.threads") == "48");
  CHECK(said(one, "input.cache") == "all");
  // Eight processes share what a server has.
  one.extra["workers_per_server"] = "8";
  CHECK(said(one, "input.workers") == "1");
  one.extra["workers_per_server"] = "48";
  CHECK(said(one, "input.workers") == "6");
  one.extra["dali"] = "true";
  CHECK(said(one, "input.loader") == "dali");
  CHECK(said(one, "input.decode").empty());  // dali_cpu=True
  one.extra = {};
  one.source = "github:Oneflow-Inc/DLPerf:NVIDIADeepLearningExamples/MxNet/Classification/RN50v1.5/README.md";
  one.framework = "NGC MXNet 1.6";
  CHECK(said(one, "input.decode") == "gpu");
  CHECK(said(one, "input.workers") == "3");
  one.source = "github:Oneflow-Inc/DLPerf:NVIDIADeepLearningExamples/TensorFlow/Classification/README.md";
  one.framework = "NGC TensorFlow 1.15";
  CHECK(said(one, "input.loader") == "dali");
  one.extra["data"] = "real";
  CHECK(said(one, "input.loader") == "tf.data");
  CHECK(said(one, "input.workers") == "10");
  one.extra["data"] = "synthetic";
  CHECK(said(one, "input.dataset").empty());
  one.extra = {};
  one.source = "github:Oneflow-Inc/DLPerf:reports/dlperf_benchmark_test_report_v1.md@c89430b#L104";
  one.framework = "OneFlow";
  CHECK(said(one, "input.dataset").empty());  // fp32: what decoded is not said
  one.precision = "AMP";
  CHECK(said(one, "input.decode") == "gpu");
  one.metric = io::CaseMetric::kStepMilliseconds;
  CHECK(said(one, "input.dataset").empty());  // no images
}

TEST_CASE("case: GPUs without peer access meet in the host's memory, whatever joins them", "[unit][whatif]") {
  io::Case one = row();
  CHECK(said(one, "peer_to_peer").empty());
  one.intra_interconnect = "P2P disabled (host SHM)";
  CHECK(said(one, "peer_to_peer") == "no");
  CHECK(said(one, "gpu_interconnect") == "pcie");
}

TEST_CASE("case: a rented server that the notes name", "[unit][whatif]") {
  io::Case one = row();
  one.gpu = "V100-SXM2-16GB";
  one.gpus_per_node = 1;
  one.nodes = one.total_gpus = 4;
  one.intra_interconnect = "";
  one.inter_network = "AWS default (unshaped TCP)";
  CHECK(said(one, "node") != "p3.2xlarge");
  one.notes = "instance type not stated here (p2p.md: p3.2xlarge)";
  CHECK(said(one, "node") == "p3.2xlarge");
  one.notes = "measured beside a dgx1-p100";  // nobody rents it, nor has it this GPU
  CHECK(said(one, "node") != "dgx1-p100");
  one.notes.clear();
  one.extra["instance"] = "AWS p3.2xlarge";
  CHECK(said(one, "node") == "p3.2xlarge");
}

// Lengths of Wikipedia's sequences, from which 280 is: sim/whatif/cases/case_software.h.
TEST_CASE("case: BERT's second phase is read in bins of 64 tokens where LDDL reads it", "[unit][whatif]") {
  io::Case one = row();
  one.source = "github:NVIDIA/DeepLearningExamples:PyTorch/LanguageModeling/BERT/README.md#L811";
  one.framework = "PyTorch";
  one.model = "BERT-Large";
  one.extra = {{"container", "21.11-py3"}, {"phase", "pre-training"}, {"seq_len", "512"}};
  CHECK(said(one, "model.sequence") == "280");
  one.framework = "PaddlePaddle";
  CHECK(said(one, "model.sequence") == "280");
  const auto as_said = [&](const char* key, const char* value) {
    io::Case other = one;
    other.extra[key] = value;
    return said(other, "model.sequence");
  };
  CHECK(as_said("seq_len", "128") == "128");
  CHECK(as_said("phase", "fine-tuning") == "512");
  CHECK(as_said("container", "20.06-py3") == "512");
  one.framework = "TensorFlow2";
  CHECK(said(one, "model.sequence") == "512");
}

TEST_CASE("case: GPUs' names with clocks, power or form in brackets", "[unit][whatif]") {
  CHECK(catalog().gpu("V100-SXM3-32GB-H(450W)")->id == "v100-sxm3-32gb");
  CHECK(catalog().gpu("H100 (PCIe)")->id == "h100-pcie-80gb");
  CHECK(catalog().gpu("T4 (PCIe)")->id == "t4");
  CHECK_FALSE(catalog().gpu("(PCIe)"));
}

TEST_CASE("case: GPUs' names with their words in any order", "[unit][whatif]") {
  CHECK(catalog().gpu("A100 80GB SXM")->id == "a100-sxm4-80gb");
  CHECK(catalog().gpu("NVIDIA A100 80GB SXM4")->id == "a100-sxm4-80gb");
  CHECK(catalog().gpu("8x A100-SXM-80GB")->id == "a100-sxm4-80gb");
  CHECK(catalog().gpu("A100 PCIe 80 GB")->id == "a100-pcie-80gb");
  CHECK(catalog().gpu("V100-32G")->id == "v100-sxm2-32gb");  // who says no form means the module
  CHECK(catalog().gpu("H100 80GB HBM3")->id == "h100-sxm5-80gb");
  // The one size that a card comes with, and another, which is another card.
  CHECK(catalog().gpu("NVIDIA GeForce RTX 3090 24 GB")->id == "rtx-3090");
  CHECK(catalog().gpu("L40S-48G")->id == "l40s");
  CHECK_FALSE(catalog().gpu("RTX 3090 48GB"));
  CHECK_FALSE(catalog().gpu("NVIDIA Tesla"));
}

TEST_CASE("case: servers that are no process are reduces and broadcasts, or exchanges", "[unit][whatif]") {
  io::Case one = row();
  one.architecture = "collective";
  one.metric = io::CaseMetric::kLatencyMicroseconds;
  one.gpus_per_node = 1;
  one.nodes = 4;
  one.total_gpus = 4;
  one.extra["size_bytes"] = "4000";
  one.model = "ps_central";
  const auto central = CaseReader(catalog()).collective_of(one, 1).value();
  REQUIRE(central.calls.size() == 2);
  CHECK(central.calls[0].op == primitives::CollectiveOp::kReduce);
  CHECK(central.calls[1].op == primitives::CollectiveOp::kBroadcast);
  CHECK(central.calls[1].times == 4);
  CHECK(central.calls[1].size.in(bytes) == Approx(1000));
  one.model = "ps_sharded";
  const auto sharded = CaseReader(catalog()).collective_of(one, 1).value();
  CHECK(sharded.calls[0].op == primitives::CollectiveOp::kAllToAll);
  CHECK(sharded.calls[1].op == primitives::CollectiveOp::kAllGather);
  CHECK(sharded.calls[1].size.in(bytes) == Approx(4000));
  one.model = "all_reduce";
  one.extra["calls"] = "world_size all-reduces of size/world_size each";
  CHECK(CaseReader(catalog()).collective_of(one, 1)->calls.front().times == 4);
  one.extra.erase("calls");
  for (const std::string name : {"all_reduce_perf", "AllReduce"}) {
    one.model = name;
    CHECK(CaseReader(catalog()).collective_of(one, 1)->op() == primitives::CollectiveOp::kAllReduce);
  }
  one.model = "ps_other";
  CHECK_FALSE(CaseReader(catalog()).collective_of(one, 1));
}

TEST_CASE("case: an architecture that nobody knows is said to be taken as data parallel", "[unit][whatif]") {
  io::Case one = row();
  one.batch_per_gpu = 64;
  const auto strategy = [&](const std::string& architecture) {
    one.architecture = architecture;
    return said(one, "strategy");
  };
  for (const std::string architecture : {"foo", "ring", "single"}) {
    CHECK(strategy(architecture) == "pytorch-ddp");
    REQUIRE(unread_words(one).size() == 1);
    CHECK_THAT(unread_words(one).front(), Catch::Matchers::StartsWith("architecture '" + architecture + "'") &&
                                              Catch::Matchers::Contains("taken as data parallel"));
  }
  for (const std::string architecture :
       {"ddp", "DDP (lightning)", "allreduce", "all-reduce", "ring all-reduce", "data parallel", "not stated", ""}) {
    CHECK(strategy(architecture) == "pytorch-ddp");
  }
  for (const std::string architecture : {"ps", "parameter server", "Parameter-Servers (gRPC)"}) {
    CHECK(strategy(architecture) == "tf-ps");
    CHECK(unread_words(one).empty());
  }
  for (const std::string architecture : {"zero-2", "fsdp/zero3", "tp-pp-cp-ep-dp", "fsdp+tp (lora)", "hsdp"}) {
    one.architecture = architecture;
    CHECK(unread_words(one).empty());
  }
}

TEST_CASE("case: a slip in a key of extra is said, a note of its source's is not", "[unit][whatif]") {
  io::Case one = row();
  const auto unread = [&](const std::string& key) {
    one.extra = {{key, "4"}};
    return unread_words(one);
  };
  using Words = std::vector<std::string>;
  CHECK(unread("acumulation") == Words{"extra: nothing reads 'acumulation'; did you mean 'accumulation'?"});
  CHECK(unread("optimiser") == Words{"extra: nothing reads 'optimiser'; did you mean 'optimizer'?"});
  CHECK(unread("Seq_lenn") == Words{"extra: nothing reads 'Seq_lenn'; did you mean 'seq_len'?"});
  for (const std::string key : {"cluster", "mfu_printed", "submitter", "cpu", "status"}) CHECK(unread(key).empty());
}
