#include "cases/language_case.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string_view>
#include <utility>
#include <variant>

#include "cases/case_model.h"
#include "unit/whatif/language_case.h"

using namespace ddlsim;
using namespace ddlsim::whatif;
using test::gpt;
using test::split_said;

TEST_CASE("language cases: the model by its sizes, the vocabulary padded", "[unit][whatif]") {
  const auto model = language_model_of(gpt()).value();
  // 50257 rows padded to 128 x 2: 50432; positions 128; 4 blocks of 12 h^2 + 13 h; two numbers a row of the last norm.
  CHECK(model->parameters() == (50432 + 128) * 256 + 4 * (12 * 256 * 256 + 13 * 256) + 2 * 256);
  CHECK(model->optimizer == workload::Optimizer::kAdam);
}

TEST_CASE("language cases: a decoder without a head over its vocabulary", "[unit][whatif]") {
  io::Case one = gpt();
  const auto whole = language_model_of(one).value();
  one.extra["task"] = "pipeline benchmark; loss light (no head over the vocabulary)";
  const auto without = language_model_of(one).value();
  CHECK(without->layers.size() + 2 == whole->layers.size());
  CHECK(without->parameters() == whole->parameters());  // GPT-2's is tied
  CHECK(without->totals.forward_work.in(flops) == Approx(whole->totals.forward_work.in(flops)-2.0 * 128 * 256 * 50432));
  one.extra["task"] = "pre-training";
  one.extra["head"] = "none";
  one.model = "Llama 2 7B";
  const auto backbone = language_model_of(one).value();
  one.extra.erase("head");
  CHECK(language_model_of(one).value()->parameters() - backbone->parameters() == 50432 * 256);
}

TEST_CASE("language cases: encoders, pairs of stacks and images are no decoders", "[unit][whatif]") {
  const auto has_layer = [](const workload::Model& model, std::string_view name) {
    return std::any_of(model.layers.begin(), model.layers.end(),
                       [&](const workload::Layer& layer) { return layer.name == name; });
  };
  io::Case one = gpt();
  one.model = "BERT-Large";
  one.extra["tp"] = "1";
  one.extra.erase("vocab");
  // 30522 rows padded to 128: 30592. Tables of words, positions and two types with a norm; blocks of 12 h^2 + 13 h;
  // pooler, transform with its norm, biases of the tied words, next sentence.
  const auto bert = language_model_of(one).value();
  CHECK(bert->parameters() == (30592 + 128 + 2 + 2) * 256 + 4 * (12 * 256 * 256 + 13 * 256) + (256 * 256 + 256) +
                                  (256 * 256 + 256 + 2 * 256) + 30592 + (2 * 256 + 2));
  one.extra["task"] = "fine-tuning (GLUE MNLI)";
  CHECK(has_layer(*bert, "mlm_decoder"));
  CHECK_FALSE(has_layer(*language_model_of(one).value(), "mlm_decoder"));
  CHECK(has_layer(*language_model_of(one).value(), "classifier"));
  // Half of RoBERTa's layers are no decoder with a head over the vocabulary, which took longer than all of them.
  one.model = "RoBERTa base";
  one.extra["task"] = "fine-tuning (IMDB, sequence classification)";
  const auto whole = language_model_of(one).value();
  one.model = "DistilRoBERTa base";
  one.extra["layers"] = "2";
  const auto distilled = language_model_of(one).value();
  CHECK(has_layer(*distilled, "classifier"));
  CHECK_FALSE(has_layer(*distilled, "lm_head"));
  const auto work = [](const workload::Model& model) {
    Work all;
    for (const workload::Layer& layer : model.layers) all += layer.forward_work;
    return all;
  };
  CHECK(work(*distilled) < work(*whole) * 0.6);
  one.extra["layers"] = "4";

  one.model = "T5 v1.1 xl";
  one.extra["decoder_layers"] = "3";
  one.extra["seq_len_dec"] = "32";
  const auto t5 = language_model_of(one).value();
  // Blocks with gated MLPs: 4 of 4 h^2 + 3 h f + 2 h, 3 of 8 h^2 + 3 h f + 3 h; two tables of 32128 rows, two of 32
  // positions by 4 heads, two last norms.
  CHECK(t5->parameters() == 2 * 32128 * 256 + 2 * 32 * 4 + 4 * ((4 + 12) * 256 * 256 + 2 * 256) +
                                3 * ((8 + 12) * 256 * 256 + 3 * 256) + 2 * 256);
  const auto out = std::find_if(t5->layers.begin(), t5->layers.end(),
                                [](const workload::Layer& layer) { return layer.name == "lm_head"; });
  REQUIRE(out != t5->layers.end());
  CHECK(out->in == workload::Shape{32, 256});

  io::Case image = gpt();
  image.model = "ViT-B/16";
  image.extra.erase("vocab");
  image.extra["patch"] = "16";
  image.extra["image_size"] = "32";
  const auto vit = language_model_of(image).value();
  CHECK(vit->layers.front().in == workload::Shape{3, 32, 32});
  CHECK_FALSE(has_layer(*vit, "wte"));
}

TEST_CASE("language cases: what a framework did by its release", "[unit][whatif]") {
  io::Case one = gpt();
  one.extra["pp"] = "1";
  one.extra["dp"] = "4";
  const auto way = [&](const char* framework, const char* date) {
    one.framework = framework;
    one.extra["date"] = date;
    const auto last = [&](const char* path) {
      return split_said(one, path).empty() ? std::string("-") : split_said(one, path);
    };
    return last("fusion") + " " + last("parallel.sequence") + " " + last("parallel.zero") + " " +
           last("parallel.overlap_gather") + " " + last("parallel.overlap_tensor");
  };
  CHECK(way("NeMo Megatron 22.08", "2022") == "none - - - -");
  CHECK(way("NeMo Megatron", "2022-11") == "none yes 1 - -");
  CHECK(way("NeMo Framework 23.05", "2023") == "attention yes 1 yes -");
  CHECK(way("NeMo 24.07", "2024") == "attention yes 1 yes yes");
  CHECK(way("Megatron-LLaMA", "2023") == "none yes 1 - -");
  // Megatron-LM of nobody's release on GPUs that came later is not that of 2021; nor is AMD's container of 2025.
  one.extra.erase("date");
  one.framework = "Megatron-LM";
  CHECK(split_said(one, "fusion") == "none");
  const std::string before = std::exchange(one.gpu, "MI325X");
  CHECK(split_said(one, "fusion") == "attention");
  one.gpu = before;
  one.framework = "Megatron-LM (rocm/megatron-lm:v25.9_gfx942)";
  CHECK(split_said(one, "fusion") == "attention");
  // A release that nobody names is the newest.
  one.extra.erase("date");
  one.framework = "NeMo";
  CHECK(split_said(one, "parallel.overlap_tensor") == "yes");
  one.extra["tp"] = "1";
  one.extra["dp"] = "8";
  CHECK(way("HF Trainer 4.12 (PyTorch DDP)", "2021") == "none - - - -");
  CHECK(way("HF Trainer 4.40", "2024") == "attention - - - -");
  CHECK(split_said(one, "software.attention") == "flash-2");
  // What splits the states stands in the architecture where no key says it.
  one.architecture = "fsdp";
  CHECK(split_said(one, "parallel.zero") == "3");
  one.architecture = "zero-3";
  CHECK(split_said(one, "parallel.zero") == "3");
  one.architecture = "zero-2";
  CHECK(split_said(one, "parallel.zero") == "2");
  one.extra["task"] = "exploration, no LoRA";
  CHECK(split_said(one, "parallel.lora_rank").empty());
  one.extra["task"] = "LoRA";
  CHECK(split_said(one, "parallel.lora_rank") == "16");
  CHECK(split_said(one, "parallel.frozen_bits").empty());
  one.extra["peft"] = "bitsandbytes nf4";
  CHECK(split_said(one, "parallel.frozen_bits") == "4");
  one.extra.erase("peft");
  one.framework = "PyTorch";
  one.architecture = "allreduce";
  CHECK(split_said(one, "parallel.zero") == "1");
  one.architecture = "ddp";
  CHECK(split_said(one, "parallel.zero").empty());
}

TEST_CASE("language cases: vocabularies that are known by the model's name", "[unit][whatif]") {
  io::Case one = gpt();
  one.extra["tp"] = "1";
  one.extra.erase("vocab");
  // Rows padded to a multiple of 128; 0: nobody knows, GPT-2's are assumed. Words count whole, so that a number or a
  // syllable is no name.
  for (const auto& [model, rows] : {std::pair("Llama 3 8B", 128256),
                                    {"Llama_3.1-70B", 128256},
                                    {"LLaMA 13B", 32000},
                                    {"LLaMA-30B", 32000},
                                    {"TinyLlama 1.1B", 32000},
                                    {"Mistral 7B", 32000},
                                    {"Qwen2.5 7B", 152064},
                                    {"Qwen2.5-3B", 151936},
                                    {"GPT-2 XL", 50304},
                                    {"GPT-J 6B", 50432},
                                    {"OPT-13B", 50304},
                                    {"BERT, optimized", 30592},
                                    {"RoBERTa", 50304},
                                    {"DistilRoBERTa base", 50304},
                                    {"ELECTRA-base", 30592},
                                    {"ALBERT", 0},
                                    {"GPT530B", 0},
                                    {"Optimus 1B", 0}}) {
    one.model = model;
    one.extra["ffn"] = "512";
    const auto known = language_model_of(one).value();
    INFO(model);
    CHECK(assumes_vocabulary(one) == (rows == 0));
    const auto* table = std::get_if<workload::Embedding>(&*known->layers.front().op);
    REQUIRE(table != nullptr);
    CHECK(table->rows == (rows == 0 ? 50304 : rows));
  }
}

TEST_CASE("language cases: what a model is called by the whole words of its name", "[unit][whatif]") {
  const auto family = [](const char* model) {
    io::Case one = gpt();
    one.model = model;
    return family_of(one);
  };
  CHECK(family("RoBERTa-like GPT") == ModelFamily::kGpt);
  CHECK(family("ViTamin GPT-3") == ModelFamily::kGpt);
  CHECK(family("ViT-B/16") == ModelFamily::kVit);
  for (const char* encoder : {"DistilBERT", "DistilRoBERTa base", "roberta-large", "ELECTRA-small", "ALBERT base v2",
                              "microsoft/deberta-v3-base"}) {
    CHECK(family(encoder) == ModelFamily::kBert);
  }
  CHECK(family("T5 3B") == ModelFamily::kT5);
  CHECK(family("mT5-large") == ModelFamily::kT5);
  CHECK(family("TinyLlama 1.1B") == ModelFamily::kLlama);
  CHECK(family("OPT-13B") == ModelFamily::kOpt);
  CHECK(family("Optimus 1B") == ModelFamily::kGpt);
}

TEST_CASE("language cases: counts that are none", "[unit][whatif]") {
  for (const char* key : {"heads", "dp", "tp", "moe_ffn", "seq_len_dec"}) {
    for (const char* value : {"0", "-1", "two", "1.5", "99999999999"}) {
      io::Case one = gpt();
      one.extra[key] = value;
      INFO(key << " " << value);
      REQUIRE_FALSE(splits_of(one));
      CHECK(splits_of(one).error().code == ErrorCode::kInvalidArgument);
      CHECK_FALSE(language_model_of(one));
    }
  }
  // Embedding and head as layers of stages that have nothing else.
  io::Case one = gpt();
  one.extra["layers_per_stage"] = "1 5";
  CHECK(stages_of(one, *language_model_of(one).value())->value.find('-') != std::string::npos);
}

TEST_CASE("language cases: degrees, batches and what the framework did at the time", "[unit][whatif]") {
  const io::Case one = gpt();
  CHECK(split_said(one, "parallel.tensor") == "2");
  CHECK(split_said(one, "parallel.pipeline") == "2");
  CHECK(split_said(one, "parallel.data") == "2");
  CHECK(split_said(one, "batch") == "2");
  CHECK(split_said(one, "global_batch") == "16");
  CHECK(split_said(one, "parallel.schedule") == "1f1b");
  CHECK(split_said(one, "parallel.recompute") == "full");
  CHECK(split_said(one, "parallel.sequence").empty());
  CHECK(split_said(one, "parallel.zero").empty());
  CHECK(split_said(one, "parallel.states") == "mixed");
  io::Case later = one;
  later.framework = "Megatron-Core 0.8";
  CHECK(split_said(later, "parallel.sequence") == "yes");
  CHECK(split_said(later, "parallel.zero") == "1");
  // Weights beside the next forward pass, in 8 bits where products take them so.
  CHECK(split_said(later, "parallel.overlap_gather") == "yes");
  CHECK(split_said(later, "parallel.overlap_tensor") == "yes");
  CHECK(split_said(later, "parallel.gather_fp8").empty());
  CHECK(split_said(later, "strategy.gradients") == "fp32");
  later.precision = "MXFP8";
  CHECK(split_said(later, "parallel.gather_fp8") == "yes");
  later.source = "github:mlcommons/training_results_v5.1:NVIDIA/results/x@441d65f";
  CHECK(split_said(later, "strategy.gradients") == "bf16");
  later.precision = "NVFP4";
  CHECK(split_said(later, "parallel.gather_fp8").empty());
  CHECK(split_said(later, "parallel.overlap_tensor").empty());
  later.source.clear();
  later.precision = "bf16";
  CHECK(split_said(one, "parallel.overlap_gather").empty());
  later.extra["vp"] = "2";
  CHECK(split_said(later, "parallel.schedule") == "interleaved");
  later.extra["fsdp"] = "2";
  CHECK(split_said(later, "parallel.zero") == "3");
  // Attention in one kernel, where the framework had it, and which; element-wise kernels where they were compiled.
  CHECK(split_said(one, "fusion") == "none");
  CHECK(split_said(later, "fusion") == "attention");
  CHECK(split_said(later, "software.attention").empty());
  later.framework = "torchtitan";
  CHECK(split_said(later, "software.attention") == "sdpa");
  later.framework = "torchtitan (PyTorch 2.11)";  // asks cuDNN first
  CHECK(split_said(later, "software.attention").empty());
  for (const char* const words : {"FA2", "flash_attention_2", "FlashAttention-2", "FLASH_ATTENTION"}) {
    later.extra["attention"] = words;
    CHECK(split_said(later, "software.attention") == "flash-2");
  }
  for (const char* const words : {"FA3", "FA4", "cuDNN"}) {
    later.extra["attention"] = words;
    CHECK(split_said(later, "software.attention").empty());
    CHECK(split_said(later, "fusion") == "attention");
  }
  later.extra.erase("attention");
  later.framework = "torchtitan";
  later.extra["compile"] = "torch.compile";
  CHECK(split_said(later, "fusion") == "all");
  later.framework = "MosaicML Composer (PyTorch FSDP)";
  CHECK(split_said(later, "software.attention") == "flash-1");
}

TEST_CASE("language cases: gradients that are reduced in 16 bits stand in 16", "[unit][whatif]") {
  io::Case one = gpt();
  one.precision = "bf16";
  for (const char* framework : {"Megatron-Bridge, NeMo container 25.09", "NeMo 24.09 (Megatron-Core)"}) {
    one.framework = framework;
    CHECK(split_said(one, "parallel.states") == "mixed-16");
  }
  one.extra["grad_dtype"] = "fp32";
  CHECK(split_said(one, "parallel.states") == "mixed");
  one.extra.erase("grad_dtype");
  one.framework = "NeMo Megatron 22.11";
  CHECK(split_said(one, "parallel.states") == "mixed");
}

TEST_CASE("language cases: MLPerf's adapters stand beside 8 bits", "[unit][whatif]") {
  io::Case one = gpt();
  one.model = "Llama 2 70B LoRA";
  one.source = "github:mlcommons/training_results_v5.1:NVIDIA/results/x@441d65f";
  one.precision = "fp8";
  CHECK(split_said(one, "parallel.states") == "fp8-primary");
  CHECK(split_said(one, "parallel.gated_fp8").empty());  // the model is shared
  one.extra["tp"] = "1";
  one.extra["pp"] = "1";
  one.extra["dp"] = "8";
  CHECK(split_said(one, "parallel.gated_fp8") == "yes");
  one.precision = "bf16";
  CHECK(split_said(one, "parallel.states") == "mixed-16");
  CHECK(split_said(one, "parallel.gated_fp8").empty());
  one.precision = "fp8";
  one.source = "somebody's blog";
  CHECK(split_said(one, "parallel.states") != "fp8-primary");
}

TEST_CASE("language cases: what waits on the host", "[unit][whatif]") {
  io::Case one = gpt();
  CHECK(split_said(one, "parallel.offload_activations").empty());
  one.extra["offload"] = "activations";
  CHECK(split_said(one, "parallel.offload_activations") == "yes");
  CHECK(split_said(one, "parallel.offload_optimizer").empty());
  one.extra["offload"] = "optimizer and activations";
  CHECK(split_said(one, "parallel.offload_activations") == "yes");
  CHECK(split_said(one, "parallel.offload_optimizer") == "yes");
}

TEST_CASE("language cases: blocks of attention, Mamba-2 and mixtures by their letters", "[unit][whatif]") {
  io::Case one = gpt();
  one.model = "Nemotron 3 Nano";
  one.extra = {{"layers", "52"},      {"hidden", "2688"},       {"heads", "32"},       {"kv_heads", "2"},
               {"head_dim", "128"},   {"ffn", "1856"},          {"seq_len", "8192"},   {"attention", "hybrid mamba"},
               {"mamba_heads", "64"}, {"mamba_head_dim", "64"}, {"mamba_groups", "8"}, {"mamba_state_dim", "128"},
               {"experts", "128"},    {"top_k", "6"},           {"moe_ffn", "1856"},   {"moe_shared_ffn", "3712"}};
  CHECK(language_model_of(one).error().message.find("which blocks") != std::string::npos);
  one.extra["hybrid_layer_pattern"] = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME";
  // 31.6 billion (model card), as its own configuration gives it (unit/importers/hf_recent_test.cpp).
  CHECK(language_model_of(one).value()->parameters() == 31'577'937'344);
  CHECK(published_flops(one, 8).error().code == ErrorCode::kUnsupported);
  one.extra["hybrid_layer_pattern"] = "MEM";
  CHECK(language_model_of(one).error().message.find("3 letters for 52 blocks") != std::string::npos);
}

TEST_CASE("language cases: gpt-oss has windows in every other layer", "[unit][whatif]") {
  io::Case one = gpt();
  one.model = "GPT-OSS 20B";
  one.extra = {{"layers", "24"},  {"hidden", "2880"}, {"heads", "64"},     {"kv_heads", "8"},   {"head_dim", "64"},
               {"experts", "32"}, {"top_k", "4"},     {"moe_ffn", "2880"}, {"vocab", "201088"}, {"seq_len", "4096"}};
  const auto model = language_model_of(one).value();
  CHECK(model->parameters() == 20'914'757'184);
  CHECK(std::count_if(model->layers.begin(), model->layers.end(), [](const auto& layer) {
          const auto* attention = layer.op ? std::get_if<workload::GroupedAttention>(&*layer.op) : nullptr;
          return attention != nullptr && attention->window == 128;
        }) == 12);
}

TEST_CASE("language cases: stages are whole blocks", "[unit][whatif]") {
  io::Case one = gpt();
  const auto model = language_model_of(one).value();
  // Embeddings, positions, their sum and dropout before 4 blocks of 12 layers; last norm, head and loss after.
  CHECK(stages_of(one, *model)->value == "28-27");
  one.extra["layers_per_stage"] = "2 4 (embedding and head count as layers)";
  CHECK(stages_of(one, *model)->value == "16-39");
  one.extra["pp"] = "3";
  CHECK_FALSE(stages_of(one, *model));
}

TEST_CASE("language cases: FLOPs as Megatron publishes them", "[unit][whatif]") {
  io::Case one = gpt();
  one.extra["vocab"] = "51200";
  // 96 B s l h^2 (1 + s/6h + V/16lh), equation 3 of Narayanan et al. 2021.
  const double h = 256;
  const double expected = 96 * 16 * 128 * 4 * h * h * (1 + 128 / (6 * h) + 51200 / (16 * 4 * h));
  CHECK(published_flops(one, 16)->in(flops) == Approx(expected));
}

TEST_CASE("language cases: what nobody can fill in is named", "[unit][whatif]") {
  io::Case one = gpt();
  one.extra.erase("heads");
  one.extra.erase("layers");
  const auto model = language_model_of(one);
  REQUIRE_FALSE(model);
  CHECK(model.error().message.find("layers, heads") != std::string::npos);
  one = gpt();
  one.architecture = "not stated";
  CHECK(split_said(one, "batch").find("does not say how the model was split") != std::string::npos);
}

TEST_CASE("language cases: an MLP without a gate is one with a gate of two thirds", "[unit][whatif]") {
  io::Case one = gpt();
  one.extra["kv_heads"] = "2";
  one.extra["hidden"] = "384";
  one.extra["heads"] = "6";
  one.extra["ffn"] = "1536";
  CHECK(gated_size(one, "ffn", 0) == 1024);  // GPT 1B
  one.extra["activation"] = "SwiGLU";
  CHECK(gated_size(one, "ffn", 0) == 1536);
  one.model = "Llama 1B";
  one.extra.erase("activation");
  CHECK(gated_size(one, "ffn", 0) == 1536);
  one.extra["activation"] = "squared ReLU";
  CHECK(gated_size(one, "ffn", 0) == 1024);
  one.model = "Nemotron4 15B";
  one.extra.erase("activation");
  CHECK(gated_size(one, "ffn", 0) == 1024);
  one.extra["ffn"] = "1024";  // already written as one with a gate
  CHECK(gated_size(one, "ffn", 0) == 1024);
  // Queries and output 384 x 384, keys and values 384 x 128, two products of the MLP: without a gate.
  one.extra["ffn"] = "1536";
  one.extra["tp"] = one.extra["pp"] = "1";
  const double block = 2 * 384 * 384 + 2 * 384 * 128 + 2 * 384 * 1536 + 2 * 384;
  const double tables = 2.0 * 50304 * 384 + 384;
  CHECK(static_cast<double>(language_model_of(one).value()->parameters()) == Approx(4 * block + tables));
}

TEST_CASE("language cases: Megatron-LM since it has a core, by date or by GPUs that are younger", "[unit][whatif]") {
  io::Case one = gpt();
  const auto overlap = [&](const char* framework, const char* gpu) {
    one.framework = framework;
    one.gpu = gpu;
    return split_said(one, "parallel.zero") + " " + split_said(one, "strategy.gradients");
  };
  CHECK(overlap("Megatron-LM (Apr 2021)", "A100-SXM4-80GB") == " fp16");
  CHECK(overlap("Megatron-LM", "A100-SXM4-80GB") == " fp16");
  CHECK(overlap("Megatron-LM (2024-05)", "A100-SXM4-80GB") == "1 fp32");
  CHECK(overlap("Megatron-LM", "H100-SXM5-80GB") == "1 fp32");
  CHECK(overlap("Megatron-LM", "NVIDIA GB200") == "1 fp32");
}

TEST_CASE("language cases: replicas that do not count those that share experts", "[unit][whatif]") {
  io::Case one = gpt();
  one.extra = {{"layers", "4"},  {"hidden", "256"}, {"heads", "4"}, {"vocab", "50257"}, {"seq_len", "128"},
               {"experts", "8"}, {"top_k", "2"},    {"ep", "4"},    {"dp", "2"},        {"micro_batch", "2"}};
  CHECK(split_said(one, "parallel.data") == "8");
  one.extra["dp"] = "8";
  CHECK(split_said(one, "parallel.data") == "8");
  one.extra["ep"] = "2";
  one.extra["dp"] = "2";
  CHECK(split_said(one, "parallel.data") == "2");  // refused later, for 8 GPUs are not 2
}

TEST_CASE("language cases: a batch that is that of a GPU is a pass's", "[unit][whatif]") {
  io::Case one = gpt();
  one.extra = {{"layers", "4"}, {"hidden", "256"}, {"heads", "4"},      {"vocab", "50257"}, {"seq_len", "128"},
               {"tp", "4"},     {"dp", "2"},       {"batch_size", "4"}, {"grad_accum", "8"}};
  one.batch_per_gpu = 4;
  CHECK(split_said(one, "batch") == "4");
  CHECK(split_said(one, "global_batch") == "64");
  one.extra["batch_size"] = "256";  // of all
  CHECK(split_said(one, "global_batch") == "256");
}

TEST_CASE("language cases: the width between Llama's products by its own rule", "[unit][whatif]") {
  io::Case one = gpt();
  one.extra["ffn_dim_multiplier"] = "1.3";
  one.extra["hidden"] = "4096";
  CHECK(gated_size(one, "ffn", 1) == 14336);  // Llama 3 8B
  one.extra["hidden"] = "5120";
  CHECK(gated_size(one, "ffn", 1) == 17920);
  one.extra["multiple_of"] = "4096";
  one.extra["hidden"] = "8192";
  CHECK(gated_size(one, "ffn", 1) == 28672);  // Llama 3 70B
  one.extra["ffn"] = "1000";
  CHECK(gated_size(one, "ffn", 1) == 1000);
}
