// What published rows leave unsaid, and how it is read.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <utility>

#include "case_row.h"
#include "cases/case_scenario.h"
#include "cases/case_software.h"
#include "cases/case_words.h"
#include "cases/language_case.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using ddlsim::test::row;
using ddlsim::test::said;
using namespace ddlsim::whatif;

namespace {

io::Case language() {
  io::Case one = row();
  one.model = "GPT 1B";
  one.framework = "PyTorch 2.1";
  one.gpu = "A100-SXM4-80GB";
  one.precision = "bf16";
  one.architecture = "ddp";
  one.gpus_per_node = 8;
  one.nodes = 1;
  one.total_gpus = 8;
  one.batch_per_gpu = 6;
  one.metric = io::CaseMetric::kStepMilliseconds;
  one.extra = {{"layers", "4"}, {"hidden", "256"}, {"heads", "4"}, {"vocab", "50257"}, {"seq_len", "128"}};
  return one;
}

io::Case submission(const char* model, const char* gpu) {
  io::Case one = row();
  one.model = model;
  one.gpu = gpu;
  one.framework = "PyTorch NVIDIA Release 22.08";
  one.source = "github:mlcommons/training_results_v2.1:Dell/results/XE8545/bert/result_0.txt";
  one.precision = "";
  return one;
}

}  // namespace

TEST_CASE("reading: a language model's batch is of every GPU and pass where no other is said", "[unit][whatif]") {
  io::Case one = language();
  CHECK(said(one, "batch") == "6");
  CHECK(said(one, "global_batch") == "48");
  one.extra["grad_accum"] = "4";
  CHECK(said(one, "batch") == "6");
  CHECK(said(one, "global_batch") == "192");
  one.extra["tp"] = "2";  // four replicas, of twice as many samples each
  CHECK(said(one, "batch") == "12");
  CHECK(said(one, "global_batch") == "192");
  one.extra["pp"] = "2";
  CHECK(said(one, "batch") == "24");
  CHECK(said(one, "global_batch") == "192");
  one.extra.erase("grad_accum");  // a pipeline's passes are of one sample where nobody says how many there are
  CHECK(said(one, "batch") == "1");
  CHECK(said(one, "global_batch") == "48");
  one.extra = language().extra;
  one.extra["micro_batch"] = "3";
  CHECK(said(one, "batch") == "3");
  CHECK(said(one, "global_batch") == "24");
  one.extra["global_batch"] = "96";
  CHECK(said(one, "global_batch") == "96");
  one.batch_per_gpu.reset();
  one.extra = language().extra;
  CHECK(said(one, "batch") == "error: the source does not say the batch");
  one.metric = io::CaseMetric::kTokensPerSecond;  // hardly depends on it: 8,192 tokens
  CHECK(said(one, "batch") == "64");
}

TEST_CASE("reading: attention is one kernel or several as a row says", "[unit][whatif]") {
  io::Case one = language();
  CHECK(said(one, "fusion") == "attention");
  one.extra["flash_attention"] = "False";
  CHECK(said(one, "fusion") == "none");
  one.extra["compile"] = "True";
  CHECK(said(one, "fusion") == "pointwise");
  one.extra["flash_attention"] = "FlashAttention-2";
  CHECK(said(one, "fusion") == "all");
  one.extra["flash_attention"] = "not stated";
  CHECK(said(one, "fusion") == "all");
  one.extra["flash_attention"] = "not used";
  one.extra["compile"] = "no torch.compile";
  CHECK(said(one, "fusion") == "none");
  one.extra["compile"] = "True";
  one.extra.erase("flash_attention");
  one.extra["attention_backend"] = "unfused (the attention matrix is kept)";
  CHECK(said(one, "fusion") == "pointwise");
}

TEST_CASE("reading: without a precision language models take 16 bits, and the interval is wider", "[unit][whatif]") {
  io::Case one = language();
  one.precision = "";
  CHECK(said(one, "precision") == "bf16");
  CHECK(leaves_open(one));
  one.gpu = "V100-SXM2-16GB";
  CHECK(said(one, "precision") == "fp16");
  one.gpu = "RTX 4090";
  CHECK(said(one, "precision") == "bf16");
  one.gpu = "GTX 1080 Ti";
  CHECK(said(one, "precision") == "fp32");
  one = row();
  CHECK_FALSE(leaves_open(one));
  one.precision = "";
  CHECK(said(one, "precision") == "fp32");
  CHECK(leaves_open(one));
}

TEST_CASE("reading: submissions to MLPerf are mixed, BERT's in 8 bits and without padding", "[unit][whatif]") {
  CHECK(said(submission("ResNet-50 v1.5", "H100-SXM5-80GB"), "precision") == "amp");
  CHECK(said(submission("BERT-Large", "A100-SXM4-40GB"), "precision") == "amp");
  CHECK(said(submission("BERT-Large", "H100-SXM5-80GB"), "precision") == "fp8");
  CHECK(said(submission("Stable Diffusion 2 base", "H100-SXM5-80GB"), "precision") == "amp");
  io::Case one = submission("BERT-Large", "A100-SXM4-40GB");
  one.extra["seq_len"] = "512";
  CHECK(said(one, "model.sequence") == "256");
  one.extra["seq_len"] = "384";
  CHECK(said(one, "model.sequence") == "384");
  one.precision = "amp";
  one.nodes = 1;
  one.total_gpus = one.gpus_per_node = 4;
  one.architecture = "allreduce";
  CHECK(said(one, "strategy") == "ngc-bert");
  one.source = "github:someone/benchmarks";
  CHECK(said(one, "strategy") == "pytorch-ddp");
}

TEST_CASE("reading: fp32 is TF32 where a framework lets it be", "[unit][whatif]") {
  const auto runs = [](const char* framework, const char* model, const char* gpu) {
    io::Case one = row();
    one.framework = framework;
    one.model = model;
    one.gpu = gpu;
    one.precision = "fp32";
    return said(one, "precision");
  };
  CHECK(runs("TensorFlow 2.3", "ResNet-50 v1.5", "A100-SXM4-40GB") == "fp32");
  CHECK(runs("TensorFlow 2.5", "ResNet-50 v1.5", "A100-SXM4-40GB") == "tf32");
  CHECK(runs("TensorFlow 2.5", "ResNet-50 v1.5", "V100-SXM2-16GB") == "fp32");
  CHECK(runs("PyTorch 1.6", "ResNet-50 v1.5", "A100-SXM4-40GB") == "fp32");
  CHECK(runs("PyTorch 2.1", "ResNet-50 v1.5", "A100-SXM4-40GB") == "tf32");
  CHECK(runs("PyTorch 1.9", "BERT-Large", "A100-SXM4-40GB") == "tf32");
  CHECK(runs("PyTorch 1.12", "BERT-Large", "A100-SXM4-40GB") == "fp32");
  CHECK(runs("JAX 0.4", "BERT-Large", "A100-SXM4-40GB") == "tf32");
  CHECK(runs("MXNet 1.9", "ResNet-50 v1.5", "A100-SXM4-40GB") == "fp32");
}

TEST_CASE("reading: brackets add to a model's name, unless they name another", "[unit][whatif]") {
  io::Case one = row();
  one.model = "ResNet-50 (synthetic run)";
  CHECK(said(one, "model") == "ResNet-50");
  one.model = "ResNet-50 (torchvision)";
  CHECK(said(one, "model") == "ResNet-50");
  one.model = "U-Net 2D (nnU-Net, 4x192x160)";
  CHECK(said(one, "model").starts_with("error: unknown model"));
  one.model = "DLRM (small, 4.2B parameters)";
  CHECK(said(one, "model").starts_with("error: unknown model"));
  for (const char* other : {"BERT (large)", "GPT-2 (1.5B)", "T5 (large)", "U-Net (3D)", "Mixtral 8x7B (4 experts)"}) {
    one.model = other;
    CHECK(said(one, "model") != one.model.substr(0, one.model.find(" (")));
  }
  one.model = "BERT-Large (SQuAD fine-tuning)";
  one.extra["seq_len"] = "384";
  CHECK(said(one, "model") == "BERT-Large");
  CHECK(said(one, "model.predictions") == "1");
}

TEST_CASE("reading: releases and layouts beside the framework's name", "[unit][whatif]") {
  io::Case one = row();
  one.framework = "PyTorch DDP";
  one.extra["framework_version"] = "torch 1.13.1";
  CHECK(said(one, "software.year") == "2022.8");
  one.extra["framework_version"] = "2.1.0";
  one.framework = "PyTorch";
  CHECK(said(one, "software.year") == "2023.75");
  one.precision = "amp";
  CHECK(said(one, "software.layout") == "channels-first");
  one.extra["layout"] = "NHWC";
  CHECK(said(one, "software.layout") == "channels-last");
  // Whatever they are called: by letters, by PyTorch's words, by its constants.
  for (const char* last : {"channels-last", "channels_last", "Channels last", "torch.channels_last"}) {
    one.extra["layout"] = last;
    CHECK(said(one, "software.layout") == "channels-last");
  }
  one.framework = "MXNet";
  for (const char* first : {"channels-first", "channels_first", "NCHW", "torch.contiguous_format"}) {
    one.extra["layout"] = first;
    CHECK(said(one, "software.layout") == "channels-first");
  }
  one.extra.erase("layout");
  one.framework = "PaddlePaddle 2.1.0";
  one.extra = {{"date", "2021-07"}};
  CHECK(said(one, "software.layout") == "channels-last");
  one.extra = {{"date", "2020-07"}};
  CHECK(said(one, "software.layout").empty());
}

TEST_CASE("reading: racks of which a job leaves some trays alone, and replicas that share states", "[unit][whatif]") {
  io::Case one = language();
  one.gpu = "GB200";
  one.gpus_per_node = 4;
  one.nodes = 256;
  one.total_gpus = 1024;
  CHECK(said(one, "nodes") == "16");
  CHECK(said(one, "gpus_per_node") == "64");
  one.nodes = 269;  // a prime number of trays
  one.total_gpus = 1076;
  CHECK(said(one, "nodes").starts_with("error: 1076 GPUs do not fill 15 racks alike"));
  one = language();
  one.framework = "MaxText (JAX)";
  one.nodes = 4;
  one.total_gpus = 32;
  one.extra["dp"] = "4";
  one.extra["fsdp"] = "8";
  CHECK(said(one, "parallel.data") == "32");
  one.architecture = "fsdp";
  CHECK(said(one, "parallel.shard_ranks") == "8");
}

TEST_CASE("reading: Ethernet of which nobody says the rate is slow, and IP over InfiniBand is TCP", "[unit][whatif]") {
  io::Case one = row();
  one.nodes = 2;
  one.total_gpus = 2 * one.gpus_per_node;
  one.inter_network = "ethernet (eth0), rate not stated";
  CHECK(said(one, "network") == "ethernet-10g");
  one.inter_network = "Spectrum-X ethernet";
  CHECK(said(one, "network") != "ethernet-10g");
  one.inter_network = "100 Gb/s ethernet";
  CHECK(said(one, "network") != "ethernet-10g");
  for (const char* const words : {"InfiniBand EDR, IPoIB", "IP over InfiniBand (TCP)", "100 Gb/s InfiniBand, IPoIB"}) {
    one.inter_network = words;  // the card's rate is not what IP moves over it
    CHECK(said(one, "network.transport") == "tcp");
    CHECK(said(one, "network") == "ethernet-10g");
    const std::string old = std::exchange(one.gpu, "A100-SXM4-80GB");
    CHECK(said(one, "network") == "ethernet-25g");
    one.gpu = old;
  }
  one.inter_network = "10 Gb/s InfiniBand, IPoIB";
  CHECK(said(one, "network") != "ethernet-25g");
}

TEST_CASE("reading: whose GELU is one kernel", "[unit][whatif]") {
  const auto single = [](const io::Case& one) {
    const auto scenario = CaseReader(test::catalog()).scenario_of(one, 8, nullptr);
    const auto& layers = scenario.value().model->layers;
    return std::any_of(layers.begin(), layers.end(), [](const workload::Layer& layer) {
      const auto* op = layer.op ? std::get_if<workload::Pointwise>(&*layer.op) : nullptr;
      return op != nullptr && op->composite == workload::Composite::kGeluNew;
    });
  };
  // A GPT by its sizes: transformers' own has it in single operations.
  io::Case one = language();
  CHECK_FALSE(single(one));
  one.framework = "HF Trainer 4.12 (PyTorch DDP)";
  CHECK(single(one));
  // The zoo's GPT-2 is transformers', unless a row names another.
  io::Case zoo = row();
  zoo.model = "gpt2_medium";
  zoo.framework = "PyTorch 2.11.0 (by hand)";
  CHECK(single(zoo));
  zoo.extra["activation"] = "gelu";
  CHECK_FALSE(single(zoo));
  one.extra["activation"] = "gelu";
  CHECK_FALSE(single(one));
}

TEST_CASE("reading: a few of a shipped model's layers", "[unit][whatif]") {
  io::Case one = row();
  one.framework = "PyTorch 2.11.0 (transformers)";
  one.gpus_per_node = one.nodes = one.total_gpus = 1;
  const auto run = [&](const char* model, const char* layers) {
    one.model = model;
    one.extra = {{"layers", layers}, {"seq_len", "8192"}, {"date", "2026-11"}};
    return CaseReader(test::catalog()).scenario_of(one, 1, nullptr);
  };
  // As PyTorch counted them of transformers' models (bench/calibrate/measured, zoo-more).
  CHECK(run("llama_2_7b", "8")->model->parameters() == 1881214976);
  CHECK(run("gpt_neox_20b", "8")->model->parameters() == 4244238336);
  CHECK(run("opt_6_7b", "8")->model->parameters() == 1825357824);
  CHECK(run("gpt_oss_20b", "4")->model->parameters() == 4451017664);  // of two kinds, one after the other
  CHECK(run("gemma_2_9b", "8")->model->parameters() == 2503069184);
  CHECK(run("gemma_2_9b", "7").error().message == "'Gemma 2 9B' has 21 blocks of 2 layers: no 7 of them");
  CHECK(run("gemma_2_9b", "44").error().code == ErrorCode::kUnsupported);
  CHECK(run("resnet50", "4").error().message == "'ResNet-50 v1.5' does not repeat blocks of one kind");
  CHECK(run("t5_small", "2").error().code == ErrorCode::kUnsupported);  // an encoder's and a decoder's
  // All that it has, which some sources say.
  for (const auto& [model, layers] :
       {std::pair("resnet50", "50"), {"vgg16", "16"}, {"gnmt", "4"}, {"t5_small", "6"}, {"transformer_big", "6"}}) {
    const auto scenario = run(model, layers);
    REQUIRE(scenario);
    CHECK(scenario->model->parameters() == test::catalog().model(model).value()->parameters());
  }
  CHECK(run("llama_2_7b", "2")->model->parameters() < run("llama_2_7b", "8")->model->parameters());
}

TEST_CASE("reading: detectors of which nothing is frozen", "[unit][whatif]") {
  io::Case one = row();
  one.model = "fasterrcnn_resnet50_fpn";
  const auto parameters = [&] {
    const auto scenario = CaseReader(test::catalog()).scenario_of(one, 8, nullptr);
    return std::pair(scenario->model->totals.dense_parameters, scenario->model->parameters());
  };
  CHECK(parameters().first < 41755286);
  CHECK(parameters().second == 41755286);
  one.extra["frozen"] = "none";
  CHECK(parameters() == std::pair<std::int64_t, std::int64_t>(41808406, 41808406));  // with the backbone's 53 norms
}

TEST_CASE("reading: an optimizer of one kernel", "[unit][whatif]") {
  io::Case one = row();
  one.framework = "PyTorch 2.11.0 (transformers)";
  one.extra = {{"optimizer", "adamw"}, {"date", "2026-11"}};
  CHECK(said(one, "software.optimizer") == "foreach");
  one.extra["optimizer"] = "adamw-fused";
  CHECK(said(one, "software.optimizer") == "fused");
  CHECK(said(one, "model.optimizer") == "adam");
}

TEST_CASE("reading: NVIDIA's BERT is fine-tuned in fp16, not by autocast", "[unit][whatif]") {
  io::Case one = row();
  one.model = "BERT-Large";
  one.framework = "NGC PyTorch 1.13 (22.09-py3), apex DDP";
  one.precision = "AMP";
  one.extra = {{"phase", "fine-tuning"}, {"seq_len", "384"}};
  CHECK(said(one, "parallel.states") == "mixed-16");
  one.precision = "TF32";
  CHECK(said(one, "parallel.states").empty());
  one.precision = "FP16";
  one.extra["phase"] = "pre-training";
  CHECK(said(one, "parallel.states").empty());
  one.extra["phase"] = "fine-tuning";
  one.framework = "PyTorch Lightning, Hugging Face Transformers (NGC PyTorch 20.10)";
  CHECK(said(one, "parallel.states").empty());
  one.framework = "PyTorch 2.11.0 (transformers)";
  CHECK(said(one, "parallel.states").empty());
}

TEST_CASE("reading: a kernel of attention by its name", "[unit][whatif]") {
  io::Case one = language();
  one.framework = "XTuner (DeepSpeed ZeRO-3)";
  one.extra["date"] = "2023-01";
  CHECK(said(one, "fusion") == "none");
  one.extra["attention"] = "FlashAttention-2 (flash-attn 2.5.8)";
  CHECK(said(one, "fusion") == "attention");
  one.extra["date"] = "2025-01";
  one.extra["attention"] = "eager";
  CHECK(said(one, "fusion") == "none");
}

TEST_CASE("reading: inference drops nothing", "[unit][whatif]") {
  io::Case one = row();
  one.model = "gpt2";
  one.framework = "pytorch";
  const auto layers = [&](io::CaseMetric metric) {
    one.metric = metric;
    return CaseReader(test::catalog()).scenario_of(one, 1, nullptr).value().model->layers;
  };
  const auto trained = layers(io::CaseMetric::kGradientMilliseconds);
  const auto evaluated = layers(io::CaseMetric::kForwardMilliseconds);
  CHECK(evaluated.size() + 25 == trained.size());  // two of each of 12 blocks, and the tables'
  const auto attention = [](const std::vector<workload::Layer>& all) {
    return *std::find_if(all.begin(), all.end(), [](const workload::Layer& layer) { return layer.scores > 0; });
  };
  const workload::Layer with = attention(trained);
  const workload::Layer without = attention(evaluated);
  CHECK(without.forward.size() + 1 == with.forward.size());
  CHECK(without.forward_elements + 2 * with.scores == with.forward_elements);
}

TEST_CASE("reading: adapters have the rank that is said, and HFU counts what is computed again", "[unit][whatif]") {
  io::Case one = language();
  one.extra["task"] = "lora";
  CHECK(said(one, "parallel.lora_rank") == "16");
  one.extra["lora_rank"] = "64";
  CHECK(said(one, "parallel.lora_rank") == "64");
}

TEST_CASE("reading: offload, dispatchers, schedules and graphs as a row names them", "[unit][whatif]") {
  io::Case one = language();
  one.extra["offload"] = "none";
  CHECK(said(one, "parallel.offload_optimizer").empty());
  one.extra["offload"] = "optimizer and params to CPU";
  CHECK(said(one, "parallel.offload_optimizer") == "yes");
  one.extra["experts"] = "8";
  one.extra["ep"] = "4";
  CHECK(said(one, "parallel.expert_dispatch").empty());
  one.extra["dispatcher"] = "DeepEP";
  CHECK(said(one, "parallel.expert_dispatch") == "once");
  one.extra["pp"] = "2";
  one.extra["schedule"] = "zero bubble (ZB-H1)";
  CHECK(said(one, "parallel.schedule") == "zb-h1");
  one.extra["schedule"] = "ZBV";
  CHECK(said(one, "parallel.schedule") == "zbv");
  CHECK(said(one, "cuda_graphs").empty());
  one.extra["cuda_graph"] = "True";
  CHECK(said(one, "cuda_graphs") == "yes");
  CHECK(said(one, "parallel.context_by").empty());
  one.extra["cp_kind"] = "ring";
  CHECK(said(one, "parallel.context_by").empty());
  one.extra["cp_kind"] = "Ulysses (all-to-all)";
  CHECK(said(one, "parallel.context_by") == "ulysses");
  one.extra.erase("cp_kind");
  one.extra["cp_comm"] = "a2a";
  CHECK(said(one, "parallel.context_by") == "ulysses");
}

TEST_CASE("reading: experts are whole where it is said, or where they could not be cut", "[unit][whatif]") {
  io::Case one = language();
  one.framework = "Megatron-LM";
  one.nodes = 2;
  one.total_gpus = 16;
  one.extra["tp"] = "2";
  one.extra["experts"] = "16";
  one.extra["top_k"] = "2";
  one.extra["moe_ffn"] = "128";
  one.extra["ep"] = "8";
  CHECK(said(one, "parallel.expert_tensor").empty());
  one.extra["etp"] = "1";
  CHECK(said(one, "parallel.expert_tensor") == "1");
  one.extra["etp"] = "2";
  CHECK(said(one, "parallel.expert_tensor").empty());
  one.extra.erase("etp");
  one.extra["ep"] = "16";  // on 8 replicas of two tensor ranks
  CHECK(said(one, "parallel.expert_tensor") == "1");
  one.extra["etp"] = "some";
  CHECK(said(one, "parallel.expert_tensor").starts_with("error: extra: etp is 'some'"));
}

TEST_CASE("reading: counts that nobody has are refused, whatever they are multiplied by", "[unit][whatif]") {
  io::Case one = language();
  for (const char* key : {"tp", "pp", "cp"}) one.extra[key] = "2147483648";
  CHECK(said(one, "batch") == "error: 8 GPUs are fewer than its degrees ask for");
  one.extra = language().extra;
  one.batch_per_gpu = std::int64_t{1} << 40;
  one.extra["grad_accum"] = "2147483648";
  CHECK(said(one, "batch") == "error: the source does not say the batch");
}

TEST_CASE("reading: MLPerf's GNMT trains on longer pairs", "[unit][whatif]") {
  io::Case one = row();
  one.model = "GNMT v2";
  one.framework = "PyTorch NVIDIA Release 19.05";
  CHECK(said(one, "model.tokens").empty());
  one.source = "github:mlcommons/training_results_v0.6:NVIDIA/results/dgx1_ngc19.05_pytorch/gnmt/result_0.txt";
  CHECK(said(one, "model.source_length") == "40");
  CHECK(said(one, "model.target_length") == "40");
  CHECK(said(one, "model.tokens") == "56");
}

TEST_CASE("reading: Hugging Face's models run single operators, whoever trains them", "[unit][whatif]") {
  io::Case one = row();
  one.model = "GPT-2";
  one.metric = io::CaseMetric::kStepMilliseconds;
  const auto fused = [&](const char* framework) {
    one.framework = framework;
    return software_fused_of(one);
  };
  CHECK(fused("PyTorch 2.0 (Hugging Face Trainer, DeepSpeed)") == false);
  CHECK(fused("transformers 4.30, DeepSpeed 0.9") == false);
  CHECK(fused("HF Trainer 4.12 + DeepSpeed ZeRO-1") == false);
  CHECK(fused("Megatron-LM (checkpoints for Hugging Face)") == true);
  CHECK_FALSE(fused("DeepSpeed 0.9"));
}

TEST_CASE("reading: a whole model's global batch is as many passes of its batch", "[unit][whatif]") {
  io::Case one = row();  // on 16 GPUs
  one.batch_per_gpu = 32;
  CHECK(said(one, "strategy.accumulation").empty());
  one.extra["global_batch"] = "512";
  CHECK(said(one, "strategy.accumulation").empty());
  one.extra["global_batch"] = "2048";
  CHECK(said(one, "strategy.accumulation") == "4");
  one.extra["grad_accum"] = "2";
  CHECK(said(one, "strategy.accumulation") == "2");
  one.extra.erase("grad_accum");
  CHECK(unread_words(one).empty());
  one.extra["global_batch"] = "1000";
  CHECK(said(one, "strategy.accumulation").empty());
  REQUIRE(unread_words(one).size() == 1);
  CHECK(unread_words(one).front() == "extra: global_batch 1000 is no multiple of 32 on each of 16 GPUs");
  one.batch_per_gpu.reset();
  one.extra["global_batch"] = "1024";
  CHECK(said(one, "global_batch") == "1024");
}
