// What a case's words say of the code that ran: kernels, layouts, optimizers, heads, ways of sharing.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "case_row.h"
#include "cases/case_scenario.h"
#include "cases/case_software.h"
#include "cases/case_text.h"
#include "cases/case_words.h"
#include "cases/framework_name.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using ddlsim::test::row;
using ddlsim::test::said;
using namespace ddlsim::whatif;

namespace {

/// Llama 2 7B on two servers of eight A100.
io::Case llama() {
  io::Case one = row();
  one.model = "Llama 2 7B";
  one.framework = "PyTorch FSDP";
  one.precision = "BF16";
  one.gpu = "A100-SXM4-80GB";
  one.extra = {{"seq_len", "4096"}, {"micro_batch", "1"}, {"global_batch", "64"}, {"date", "2024"}};
  one.metric = io::CaseMetric::kTokensPerSecond;
  return one;
}

}  // namespace

TEST_CASE("case: whose kernels are fused", "[unit][whatif]") {
  const auto fused = [](const char* framework, const char* source = "github:somebody/paper:table.md",
                        const char* model = "bert_large") {
    io::Case one = row();
    one.model = model;
    one.framework = framework;
    one.source = source;
    return said(one, "software.fused");
  };
  CHECK(fused("Megatron-LM (2022)") == "yes");
  CHECK(fused("Megatron-Bridge, NeMo container 25.11") == "yes");
  CHECK(fused("NVIDIA NeMo Framework Release 24.04") == "yes");
  CHECK(fused("MXNet NVIDIA Release 21.09", "github:mlcommons/training_results_v1.1:x.json") == "yes");
  CHECK(fused("PyTorch 1.6 DDP") == "no");
  CHECK(fused("NeMo AutoModel (PyTorch FSDP2)") == "yes");
  CHECK(fused("HF+DeepSpeed ZeRO-3") == "no");
  CHECK(fused("NGC TensorFlow 1.15 (20.03)+Horovod") == "no");
  // Convolutional networks, by who fuses their norms and activations.
  const char* page = "github:somebody/paper:table.md";
  CHECK(fused("NGC MXNet 1.6 (20.03)+Horovod", page, "ResNet-50 v1.5") == "yes");
  CHECK(fused("OneFlow", page, "ResNet-50 v1.5") == "yes");
  CHECK(fused("PyTorch 1.6 DDP", page, "ResNet-50 v1.5") == "no");
  CHECK(fused("PyTorch", "github:mlcommons/training_results_v5.1:x.json", "RetinaNet") == "yes");
  CHECK(fused("Megatron-DeepSpeed").empty());
  CHECK(fused("OneFlow 0.2.0").empty());
  CHECK(fused("PyTorch 2.6.0, ROCm 6.4", "github:mlcommons/training_results_v5.0:x.json").empty());
}

TEST_CASE("case: frameworks have ways of their own, and years", "[unit][whatif]") {
  io::Case one = row();
  one.framework = "PaddlePaddle 1.8.3";
  one.architecture = "allreduce";
  CHECK(said(one, "strategy") == "paddle-fleet");
  CHECK(said(one, "software.year") == "2020.4");
  one.framework = "OneFlow";
  CHECK(said(one, "strategy") == "oneflow");
  one.framework = "DeepSpeed";
  CHECK(said(one, "strategy") == "deepspeed");
  CHECK(said(one, "software.year").empty());
  one.extra["container"] = "22.07-py3";
  CHECK(said(one, "software.year") == "2022.5");
  one.framework = "NGC PyTorch 1.5 (20.03)";
  one.model = "BERT-Large";
  one.precision = "AMP";
  CHECK(said(one, "strategy") == "ngc-bert");
  one.precision = "FP32";  // sent in 16 bits all the same
  CHECK(said(one, "strategy") == "ngc-bert");
  one.source = "github:Oneflow-Inc/DLPerf:NVIDIADeepLearningExamples/PyTorch/BERT/README.md";
  CHECK(said(one, "strategy") == "apex-ddp-delayed");
  one.precision = "AMP";
  CHECK(said(one, "strategy") == "ngc-bert");
  one.extra["unit"] = "sequences<=512 (unpadded/packed)";
  CHECK(said(one, "model.sequence") == "256");
}

TEST_CASE("case: passes timed alone have no software on top", "[unit][whatif]") {
  io::Case one = row();
  one.framework = "PyTorch";
  CHECK(said(one, "software").empty());
  for (const auto metric : {io::CaseMetric::kForwardMilliseconds, io::CaseMetric::kGradientMilliseconds}) {
    one.metric = metric;
    CHECK(said(one, "software") == "none");
  }
}

TEST_CASE("case: what says XLA, and OneFlow's ResNet, fuse element-wise layers", "[unit][whatif]") {
  io::Case one = row();
  one.model = "ResNet-50 v1.5";
  one.framework = "NGC TensorFlow 1.15 (20.03)+Horovod";
  CHECK(said(one, "fusion").empty());
  one.extra["xla"] = "true";
  CHECK(said(one, "fusion") == "pointwise");
  one.extra.erase("xla");
  one.framework = "OneFlow";
  CHECK(said(one, "fusion") == "pointwise");
  one.model = "BERT-Large";
  CHECK(said(one, "fusion").empty());
}

TEST_CASE("case: how images lie", "[unit][whatif]") {
  const auto layout = [](const char* framework, const char* precision, const char* source = "github:somebody") {
    io::Case one = row();
    one.framework = framework;
    one.precision = precision;
    one.source = source;
    return said(one, "software.layout");
  };
  CHECK(layout("NVIDIA MXNet 20.06", "FP16") == "channels-last");
  CHECK(layout("MXNet", "AMP", "github:NVIDIA/DeepLearningExamples:MxNet/Classification/RN50v1.5/README.md") ==
        "channels-last");
  CHECK(layout("NVIDIA MXNet 20.06", "FP32").empty());
  CHECK(layout("MXNet 1.2.0.rc1, cuDNN", "FP16").empty());
  CHECK(layout("OneFlow", "AMP") == "channels-last");
  const char* examples = "github:NVIDIA/DeepLearningExamples:PyTorch/Classification/ConvNets/resnet50v1.5/README.md";
  CHECK(layout("PyTorch", "AMP", examples) == "channels-last");
  CHECK(layout("PyTorch", "TF32", examples).empty());
  CHECK(layout("PyTorch", "AMP") == "channels-first");
  io::Case one = row();
  one.extra["memory_format"] = "nchw";
  CHECK(said(one, "software.layout") == "channels-first");
  one.extra["memory_format"] = "nhwc";
  CHECK(said(one, "software.layout") == "channels-last");
  one.extra = {{"channels_last", "true"}};
  CHECK(said(one, "software.layout") == "channels-last");
}

TEST_CASE("case: TensorFlow without XLA composes operators", "[unit][whatif]") {
  using Words = std::pair<std::string, std::string>;
  const auto runs = [](const char* framework, const char* model, const char* source, const char* xla) {
    io::Case one = row();
    one.framework = framework;
    one.model = model;
    one.source = source;
    if (*xla != 0) one.extra["xla"] = xla;
    return Words{said(one, "software.operators"), said(one, "software.optimizer")};
  };
  const char* ngc = "NGC TensorFlow 1.15 (20.03)+Horovod";
  const char* page = "github:somebody";
  CHECK(runs(ngc, "BERT-Base", page, "") == Words{"composed", "for-loop"});
  CHECK(runs(ngc, "Transformer-XL", page, "") == Words{"composed", ""});
  CHECK(runs(ngc, "BERT-Base", page, "true") == Words{"", ""});
  CHECK(runs(ngc, "BERT-Base", page, "True") == Words{"", ""});
  CHECK(runs("PyTorch", "BERT-Base", page, "") == Words{"", ""});
  // NVIDIA's scripts for BERT compile unless told otherwise.
  CHECK(runs(ngc, "BERT-Large", "github:NVIDIA/DeepLearningExamples:TensorFlow/LanguageModeling/BERT/README.md", "") ==
        Words{"", ""});
}

TEST_CASE("case: BERT's head, vocabulary and optimizer are its code's", "[unit][whatif]") {
  io::Case one = row();
  one.source = "github:NVIDIA/DeepLearningExamples:PyTorch/LanguageModeling/BERT/README.md#L811";
  one.framework = "PyTorch";
  one.model = "BERT-Large";
  one.precision = "FP32";
  one.extra = {{"container", "20.06-py3"}, {"phase", "pre-training"}, {"seq_len", "512"}};
  CHECK(said(one, "model.predictions") == "512");
  CHECK(said(one, "model.vocabulary") == "30528");
  CHECK(said(one, "software.optimizer").empty());
  one.extra["container"] = "21.11-py3";
  CHECK(said(one, "model.predictions").empty());  // 280 of 512 tokens
  one.extra["phase"] = "fine-tuning";
  CHECK(said(one, "model.predictions") == "1");
  CHECK(said(one, "model.vocabulary").empty());
  CHECK(said(one, "software.optimizer") == "for-loop");
  one.precision = "AMP";
  CHECK(said(one, "software.optimizer").empty());
  one.model = "GNMT v2";
  CHECK(said(one, "software.optimizer") == "for-loop");
  one.model = "BERT-Large";
  one.framework = "TensorFlow2";
  one.extra["phase"] = "pre-training";
  CHECK(said(one, "model.predictions") == "80");
  CHECK(said(one, "model.vocabulary").empty());
  one.extra["seq_len"] = "128";
  CHECK(said(one, "model.predictions").empty());
}

TEST_CASE("case: PyTorch's optimizers are loops before 2.0, and other trainers' are fused", "[unit][whatif]") {
  const auto optimizer = [](const char* framework) {
    io::Case one = row();
    one.model = "bert_large";
    one.framework = framework;
    return said(one, "software.optimizer");
  };
  CHECK(optimizer("PyTorch 1.11.0+cu113") == "for-loop");
  CHECK(optimizer("PyTorch 2.2.1+cu121") == "foreach");
  CHECK(optimizer("PyTorch").empty());  // nobody knows of when
  CHECK(optimizer("fms-fsdp (PyTorch FSDP)").empty());
  CHECK(optimizer("torchtitan (PyTorch FSDP2)").empty());
  CHECK(optimizer("Megatron-LM (2022)").empty());
  CHECK(optimizer("TensorFlow 2.4").empty());
}

TEST_CASE("case: PyTorch's own mixed precision runs under autocast", "[unit][whatif]") {
  const auto operators = [](const char* framework, const char* precision) {
    io::Case one = row();
    one.model = "BERT-Large";
    one.framework = framework;
    one.precision = precision;
    return said(one, "software.operators");
  };
  CHECK(operators("PyTorch Lightning 1.0", "AMP") == "autocast");
  CHECK(operators("HF Trainer (PyTorch 2.1)", "bf16") == "autocast");
  CHECK(operators("HF Trainer (DeepSpeed)", "fp16").empty());
  CHECK(operators("PyTorch Lightning 1.0", "FP32").empty());
  CHECK(operators("NGC PyTorch 20.06 (apex)", "AMP").empty());
}

TEST_CASE("case: the optimizer that a row names", "[unit][whatif]") {
  io::Case one = row();
  CHECK(said(one, "model.optimizer").empty());
  for (const auto& [word, optimizer] :
       std::initializer_list<std::pair<const char*, const char*>>{{"LAMB", "adam"},
                                                                  {"adamw_hf", "adam"},
                                                                  {"sgd lars", "sgd-momentum"},
                                                                  {"sgd", "sgd"},
                                                                  {"adagrad", "adagrad"}}) {
    one.extra["optimizer"] = word;
    CHECK(said(one, "model.optimizer") == optimizer);
  }
  one.extra["optimizer"] = "muon";
  CHECK(said(one, "model.optimizer").empty());
  one.extra.erase("optimizer");
  one.framework = "PyTorch 1.12 (timm benchmark.py)";
  CHECK(said(one, "model.optimizer") == "sgd-momentum");
}

TEST_CASE("case: frameworks and their servers", "[unit][whatif]") {
  io::Case one = row();
  CHECK(said(one, "strategy") == "pytorch-ddp");
  one.framework = "PyTorch 2.1 Gloo";
  CHECK(said(one, "strategy") == "pytorch-ddp-gloo");
  one.architecture = "allreduce(horovod)";
  CHECK(said(one, "strategy") == "horovod");
  one.framework = "TensorFlow 1.x tf_cnn_benchmarks";
  CHECK(said(one, "strategy") == "horovod-2018");
  for (const auto& [framework, way] : std::vector<std::pair<std::string, std::string>>{
           {"PyTorch 1.6.0, Horovod 0.19.2", "horovod-2018"},
           {"PyTorch 1.6.0, Horovod 0.21.0", "horovod"},
           {"NGC TensorFlow 1.15 (20.03)+Horovod", "horovod-2018"},
           {"NGC TensorFlow 2.4 (21.02)+Horovod", "horovod"},
           {"NGC MXNet 1.6 (20.03)+Horovod", "horovod"},  // states how long it waits
           {"NVIDIA MXNet 20.06", "horovod"}}) {
    CAPTURE(framework);
    one.framework = framework;
    CHECK(said(one, "strategy") == way);
  }
  one.source = "github:Oneflow-Inc/DLPerf:NVIDIADeepLearningExamples/MxNet/Classification/RN50v1.5/README.md";
  CHECK(said(one, "strategy") == "horovod-2018");
  one.source.clear();
  one.framework = "TensorFlow 1.x tf_cnn_benchmarks";
  one.extra = {{"xla", "true"}};
  CHECK(said(one, "strategy") == "horovod-xla");
  one.architecture = "ps";
  one.extra = {{"num_ps", "2"}, {"ps_colocated", "true"}, {"variable_update", "distributed_replicated"}};
  CHECK(said(one, "strategy") == "tf-distributed-replicated");
  CHECK(said(one, "strategy.servers") == "2");
  CHECK(said(one, "strategy.colocated") == "yes");
  one.extra = {{"grad_accum", "4"}};
  CHECK(said(one, "strategy.accumulation") == "4");
}

TEST_CASE("case: libraries on PyTorch run its operators, whatever they are called", "[unit][whatif]") {
  io::Case one = row();
  one.model = "Transformer big (WMT14 en-de)";
  one.precision = "FP16";
  one.source = "github:somebody/paper:table.md";
  one.extra["date"] = "2021";
  for (const char* framework :
       {"fairseq", "fairseq 0.10 (PyTorch 1.7)", "PyTorch", "torchgpipe 0.0.5", "mmdetection"}) {
    CAPTURE(framework);
    one.framework = framework;
    CHECK(said(one, "software.fused") == "no");
    CHECK(said(one, "software.optimizer") == "for-loop");
  }
  one.framework = "LightSeq (fairseq)";
  CHECK(said(one, "software.fused") == "yes");
  CHECK(said(one, "software.optimizer").empty());
  one.framework = "nobody's own";
  CHECK(said(one, "software.fused").empty());
  one.framework = "a port of fairseq to JAX";
  CHECK(said(one, "software.fused") == "yes");
  for (const auto& [framework, fused] :
       {std::pair("MaxText", "yes"), std::pair("tensor2tensor 1.15", "no"), std::pair("GluonNLP 0.10", "no")}) {
    CAPTURE(framework);
    one.framework = framework;
    CHECK(said(one, "software.fused") == fused);
  }
  one.framework = "tensor2tensor 1.15";
  CHECK(said(one, "software.operators") == "composed");
}

TEST_CASE("case: stages of a network that is no language model", "[unit][whatif]") {
  // torchgpipe's ResNet-101: four stages, 256 micro-batches of 22.
  io::Case one = row();
  one.model = "ResNet-101";
  one.framework = "torchgpipe 0.0.5 (PyTorch 1.3)";
  one.gpu = "P40";
  one.gpus_per_node = one.total_gpus = 4;
  one.nodes = 1;
  one.architecture = "pp";
  one.extra = {{"pp", "4"},           {"dp", "1"},           {"micro_batch", "22"},
               {"grad_accum", "256"}, {"schedule", "gpipe"}, {"recompute", "full"}};
  one.metric = io::CaseMetric::kSamplesPerSecond;
  one.value = 265.958;
  CHECK(said(one, "parallel.pipeline") == "4");
  CHECK(said(one, "parallel.data") == "1");
  CHECK(said(one, "parallel.schedule") == "gpipe");
  CHECK(said(one, "parallel.recompute") == "stage");
  CHECK(said(one, "batch") == "22");
  CHECK(said(one, "global_batch") == "5632");
  CHECK(CaseReader(catalog()).scenario_of(one, 4).value().strategy.accumulation == 256);
  one.extra["global_batch"] = "2816";
  one.extra.erase("grad_accum");
  CHECK(CaseReader(catalog()).scenario_of(one, 4).value().strategy.accumulation == 128);
  one.extra["dp"] = "2";
  CHECK_FALSE(CaseReader(catalog()).scenario_of(one, 4));  // 2 x 4 stages on four GPUs
  one.extra["dp"] = "1";
  one.extra["tp"] = "2";
  CHECK(said(one, "parallel.pipeline").starts_with("error: 'pp': a split of a model whose sizes"));
}

TEST_CASE("case: frameworks by short names, and releases however they are joined to them", "[unit][whatif]") {
  io::Case one = row();
  const auto name = [&](const char* framework) {
    one.framework = framework;
    return framework_of(one);
  };
  for (const char* same : {"PyTorch 1.7", "PyTorch1.7", "pytorch==1.7", "PyTorch-1.7", "PyTorch v1.7", "torch 1.7",
                           "torch1.7", "Torch_1.7"}) {
    CAPTURE(same);
    CHECK(name(same) == "pytorch 1.7");
    CHECK(said(one, "software.year") == "2020.8");
  }
  for (const char* same : {"TensorFlow 1.15", "TF 1.15", "tf1.15", "TF-1.15", "tensorflow==1.15"}) {
    CAPTURE(same);
    CHECK(name(same) == "tensorflow 1.15");
    CHECK(said(one, "software.operators") == "composed");
  }
  CHECK(name("TF2") == "tensorflow 2");
  CHECK(name("Horovod (torch)") == "horovod (pytorch)");
  CHECK(name("NGC PyTorch 20.03") == "ngc pytorch 20.03");
  // What only begins alike, or is another.
  CHECK(name("Torch 7, cuDNN 5005") == "torch 7, cudnn 5005");
  CHECK(name("torchtitan") == "torchtitan");
  CHECK(name("TFA") == "tfa");
  CHECK(name("tf.distribute") == "tf.distribute");
  CHECK(name("torch.nn.DataParallel") == "torch.nn.dataparallel");
  CHECK(name("fairseq 0.10") == "fairseq 0.10 (pytorch)");
  CHECK(name("LLM Foundry 0.4") == "llm foundry 0.4 (composer)");
  CHECK(way_of(one).attention == "flash-1");
  CHECK(name("") == "");
}

TEST_CASE("case: nn.DataParallel is one process of many GPUs, by whatever word", "[unit][whatif]") {
  io::Case one = row();
  one.nodes = 1;
  one.total_gpus = 8;
  one.framework = "PyTorch 1.4.0, torch.nn.DataParallel";
  one.architecture = "ps-single-node(torch.nn.DataParallel)";
  CHECK(said(one, "strategy") == "data-parallel");
  one.framework = "PyTorch 1.4.0";
  for (const char* same : {"DataParallel", "nn.DataParallel", "ddp (nn.DataParallel)"}) {
    one.architecture = same;
    CHECK(said(one, "strategy") == "data-parallel");
  }
  for (const char* other : {"DistributedDataParallel", "data-parallel", "ddp", "dp", "data parallel"}) {
    one.architecture = other;
    CHECK(said(one, "strategy") == "pytorch-ddp");
  }
}

TEST_CASE("case: precisions as sources write them", "[unit][whatif]") {
  for (const char* half : {"AMP", "mixed_precision", "mixed-precision", "Mixed Precision", "16-bit", "16bit", "O2"}) {
    CHECK(precision_of(half) == "amp");
  }
  for (const char* single : {"FP32", "full precision", "32-bit", "32bit", "single precision", "float32"}) {
    CHECK(precision_of(single) == "fp32");
  }
  CHECK(precision_of("bf16_mixed_precision") == "bf16");
  CHECK(precision_of("FP8 mixed precision") == "fp8");
}

TEST_CASE("case: architectures by other words, and degrees in them", "[unit][whatif]") {
  io::Case one = llama();
  for (const char* same : {"fsdp", "FSDP2", "HSDP", "fully sharded", "FullyShardedDataParallel", "ZeRO-3", "zero3",
                           "ZeRO stage 3", "DeepSpeed ZeRO stage 3 (offload none)"}) {
    CAPTURE(same);
    one.architecture = same;
    CHECK(said(one, "parallel.zero") == "3");
    CHECK(said(one, "parallel.tensor").empty());
  }
  for (const char* same : {"tp2-pp4-dp2", "TP=2, PP=4", "TP2/PP4", "tp 2 pp 4"}) {
    CAPTURE(same);
    one.architecture = same;
    CHECK(said(one, "parallel.tensor") == "2");
    CHECK(said(one, "parallel.pipeline") == "4");
    CHECK(said(one, "parallel.data") == "2");
    CHECK(unread_words(one).empty());
  }
  one.architecture = "tensor parallelism";
  one.extra["tp"] = "8";
  CHECK(said(one, "parallel.tensor") == "8");
  one.architecture = "tp2";
  CHECK(said(one, "parallel.tensor") == "8");  // what `extra` says counts
  one.architecture = "data parallelism";
  CHECK(architecture_family(one) == "ddp");
}

TEST_CASE("case: DeepSpeed trains others' models, whose attention is one kernel since transformers has it",
          "[unit][whatif]") {
  io::Case one = llama();
  one.architecture = "zero-3";
  const auto fusion = [&](const char* framework, const char* date) {
    one.framework = framework;
    one.extra["date"] = date;
    return said(one, "fusion");
  };
  CHECK(fusion("DeepSpeed 0.12", "2024-02") == "attention");
  CHECK(fusion("DeepSpeed 0.9", "2023-05") == "none");
  CHECK(fusion("Megatron-DeepSpeed", "2024-02") == "none");
  one.model = "BLOOM 7B1";
  CHECK(fusion("DeepSpeed 0.12", "2024-02") == "none");
  CHECK(said(one, "overlap") == "none");
}
