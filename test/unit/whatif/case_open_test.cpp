// Conditions that a published row leaves open, and how far its interval reaches over them.
#include "cases/case_open.h"

#include <catch2/catch.hpp>
#include <initializer_list>
#include <string>
#include <utility>

#include "case_row.h"
#include "cases/case_software.h"
#include "ddlsim/whatif/validate.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using ddlsim::test::row;
using namespace ddlsim::whatif;

namespace {

io::Case with(io::Case one, std::initializer_list<std::pair<const char*, const char*>> extra) {
  for (const auto& [key, value] : extra) one.extra[key] = value;
  return one;
}

/// What is open of a case, in a word each.
std::string open_of(const io::Case& one) {
  const auto scenario = CaseReader(catalog()).scenario_of(one, one.gpus_per_node).value();
  std::string text;
  for (const OpenCondition& open : open_conditions(catalog(), one, scenario)) text += open.what + "; ";
  return text;
}

answer::CaseResult result_of(const io::Case& one, Anchor anchor = Anchor::kNone) {
  const std::vector<CaseSet> sets{{"test", {one}}};
  return validate(catalog(), sets, {anchor}).value().all.cases.front();
}

double width(const io::Case& one) {
  const answer::CaseResult result = result_of(one);
  return result.interval_90.second / result.interval_90.first;
}

/// Llama 3.1 8B fine-tuned on one H100 by transformers.
io::Case llama() {
  io::Case one = row();
  one.model = "Llama 3.1 8B";
  one.framework = "PyTorch 2.5.1 (Hugging Face transformers)";
  one.precision = "bf16";
  one.gpu = "H100-SXM5-80GB";
  one.gpus_per_node = one.nodes = one.total_gpus = 1;
  one.architecture = "single";
  one.extra = {{"date", "2025"},     {"dp", "1"},         {"global_batch", "2"}, {"grad_accum", "1"},
               {"hidden", "4096"},   {"layers", "32"},    {"heads", "32"},       {"kv_heads", "8"},
               {"ffn", "14336"},     {"vocab", "128256"}, {"pp", "1"},           {"seq_len", "8192"},
               {"micro_batch", "2"}, {"tp", "1"},         {"recompute", "full"}};
  one.metric = io::CaseMetric::kStepMilliseconds;
  one.value = 4700;
  return one;
}

io::Case gpt2() {
  io::Case one = row();
  one.model = "GPT-2 XL";
  one.framework = "DeepSpeed (Lightning)";
  one.precision = "fp16";
  one.gpu = "A100-SXM4-40GB";
  one.nodes = 1;
  one.total_gpus = 8;
  one.architecture = "zero-3";
  one.extra = {{"date", "2022-10"}, {"global_batch", "64"}, {"hidden", "1600"},  {"layers", "48"},
               {"heads", "25"},     {"ffn", "6400"},        {"vocab", "50257"},  {"pp", "1"},
               {"tp", "1"},         {"seq_len", "1024"},    {"micro_batch", "8"}};
  one.metric = io::CaseMetric::kSamplesPerSecond;
  one.value = 20;
  return one;
}

io::Case resnet() {
  io::Case one = row();
  one.precision = "amp";
  one.batch_per_gpu = 64;
  one.inter_network = "100 Gb/s InfiniBand";
  one.extra["date"] = "2021-06";
  one.metric = io::CaseMetric::kImagesPerSecond;
  one.value = 10000;
  return one;
}

}  // namespace

TEST_CASE("case: a vocabulary that nobody says is GPT-2's, or a smaller or a larger one", "[unit][whatif]") {
  io::Case unsaid = with(llama(), {{"flash_attention", "yes"}});
  unsaid.model = "somebody's 8B";
  unsaid.extra.erase("vocab");
  CHECK(open_of(unsaid) == "the vocabulary (50304 are assumed); ");
  const answer::CaseResult open = result_of(unsaid);
  const auto of = [&](const char* rows) { return result_of(with(unsaid, {{"vocab", rows}})); };
  CHECK(open.predicted == of("50304").predicted);
  const answer::CaseResult larger = of("128256");
  CHECK(larger.predicted > open.predicted * 1.01);
  CHECK(open.interval_90.second == Approx(larger.interval_90.second * open.predicted / of("50304").predicted));
  CHECK(open.interval_90.first < of("50304").interval_90.first);
  // Whose tokenizer it is says it as well.
  const io::Case named = with(unsaid, {{"tokenizer", "Llama 3"}});
  CHECK(open_of(named).empty());
  CHECK(result_of(named).predicted == larger.predicted);
}

TEST_CASE("case: attention of transformers that nobody states is one kernel or several", "[unit][whatif]") {
  CHECK(open_of(llama()) == "attention's kernel; ");
  CHECK(open_of(with(llama(), {{"flash_attention", "no"}})).empty());
  CHECK(open_of(with(llama(), {{"attention", "sdpa"}})).empty());
  CHECK(open_of(with(llama(), {{"date", "2022"}})).empty());  // eager was all there was
  io::Case others = llama();
  others.framework = "Megatron-LM";
  CHECK(open_of(others).empty());
  const answer::CaseResult open = result_of(llama());
  const answer::CaseResult one_kernel = result_of(with(llama(), {{"flash_attention", "yes"}}));
  const answer::CaseResult eager = result_of(with(llama(), {{"flash_attention", "no"}}));
  CHECK(open.predicted == one_kernel.predicted);  // since transformers 4.36
  CHECK(open.interval_90.first == Approx(one_kernel.interval_90.first));
  const double ratio = eager.predicted / one_kernel.predicted;
  CHECK(ratio > 1.2);
  CHECK(open.interval_90.second == Approx(one_kernel.interval_90.second * ratio));
  REQUIRE(open.open.size() == 1);
  CHECK_THAT(open.open.front(), Catch::Matchers::Contains("nobody states attention's kernel") &&
                                    Catch::Matchers::Contains("extra.flash_attention: yes or no"));
  CHECK(one_kernel.open.empty());
}

TEST_CASE("case: GPT-2's GELU by a trainer that may run transformers' own", "[unit][whatif]") {
  CHECK(open_of(gpt2()) == "whether GELU is one kernel; ");
  CHECK(open_of(with(gpt2(), {{"activation", "gelu_new"}})).empty());
  // What a trainer fuses nobody knows; transformers' own is single operations whoever trains it.
  CHECK_FALSE(software_fused_of(gpt2()));
  CHECK(software_fused_of(with(gpt2(), {{"activation", "gelu_new"}})) == false);
  io::Case megatron = gpt2();
  megatron.framework = "Megatron-DeepSpeed";
  CHECK(open_of(megatron).empty());
  megatron.framework = "flash-attention training (PyTorch Lightning DDP)";  // fused, of its own
  CHECK(open_of(megatron).empty());
  const answer::CaseResult whole = result_of(with(gpt2(), {{"activation", "gelu"}}));
  const answer::CaseResult composed = result_of(with(gpt2(), {{"activation", "gelu_new"}}));
  CHECK(composed.predicted < 0.99 * whole.predicted);  // a rate
  const answer::CaseResult open = result_of(gpt2());
  CHECK(open.interval_90.first < 0.99 * whole.interval_90.first);
  CHECK(open.interval_90.second == Approx(whole.interval_90.second));
}

TEST_CASE("case: the layout of images that nobody states", "[unit][whatif]") {
  CHECK(open_of(resnet()) == "the layout of images; ");
  CHECK(open_of(with(resnet(), {{"memory_format", "channels_first"}})).empty());
  CHECK(open_of(with(resnet(), {{"date", "2019"}})).empty());  // PyTorch had one
  io::Case noted = resnet();
  noted.notes = "NCHW (no channels_last in the script)";
  CHECK(open_of(noted).empty());
  io::Case wide = resnet();
  wide.precision = "fp32";
  CHECK(open_of(wide).empty());
  io::Case bert = resnet();
  bert.model = "BERT-Base";
  CHECK(open_of(bert).empty());
  CHECK(width(resnet()) > 1.02 * width(with(resnet(), {{"memory_format", "channels_first"}})));
}

TEST_CASE("case: PyTorch's fp32 may have its products in TF32, where nobody says", "[unit][whatif]") {
  io::Case one = resnet();
  one.model = "BERT-Base";
  one.precision = "fp32";
  one.framework = "PyTorch 2.1";
  one.extra["date"] = "2023-11";
  CHECK(open_of(one).empty());  // V100 has none
  one.gpu = "A100-SXM4-40GB";
  CHECK(open_of(one) == "whether products of fp32 are in TF32; ");
  CHECK(open_of(with(one, {{"tf32", "no"}})).empty());
  const answer::CaseResult open = result_of(one);
  const answer::CaseResult strict = result_of(with(one, {{"tf32", "no"}}));
  CHECK(open.predicted == strict.predicted);
  CHECK(open.interval_90.second > 1.3 * strict.interval_90.second);  // samples/s
  one.framework = "TensorFlow 2.3";
  CHECK(open_of(one).find("TF32") == std::string::npos);
}

TEST_CASE("case: the network of V100 servers that nobody states is four ports or one", "[unit][whatif]") {
  io::Case one = with(resnet(), {{"memory_format", "channels_first"}});
  CHECK(open_of(one).empty());
  for (const char* unsaid : {"", "-", "not stated"}) {
    one.inter_network = unsaid;
    CHECK(open_of(one) == "the network between servers (4 ports are assumed); ");
  }
  const double open = width(one);
  one.inter_network = "4 x 100 Gb/s InfiniBand";
  CHECK(open > width(one));
  one.inter_network = "p3.16xlarge";
  CHECK(open_of(one).empty());
}

TEST_CASE("case: Ethernet of no stated rate reaches both ways", "[unit][whatif]") {
  io::Case one = with(resnet(), {{"memory_format", "channels_first"}});
  one.inter_network = "Ethernet (TCP), InfiniBand off";
  CHECK(open_of(one) == "the rate of the Ethernet (10 Gb/s are assumed); ");
  const answer::CaseResult open = result_of(one);
  one.inter_network = "10 Gb/s Ethernet (TCP)";
  const answer::CaseResult stated = result_of(one);
  CHECK(open.predicted == stated.predicted);
  CHECK(open.interval_90.first < stated.interval_90.first);
  CHECK(open.interval_90.second > stated.interval_90.second);
  // A server of today's modules: up to four ports of 100 Gb/s, as p4d has.
  one.gpu = "H100-SXM5-80GB";
  one.inter_network = "Ethernet (TCP), InfiniBand off";
  CHECK(open_of(one) == "the rate of the Ethernet (100 Gb/s are assumed); ");
}

TEST_CASE("case: how a framework that nobody knows shares gradients", "[unit][whatif]") {
  io::Case one = with(resnet(), {{"memory_format", "channels_first"}});
  CHECK(open_of(one).empty());
  for (const char* framework : {"ddp_foo", "Hivemind (PyTorch)", "TensorFlow 2.4"}) {
    one.framework = framework;
    CHECK_THAT(open_of(one), Catch::Matchers::Contains("shares gradients (strategy pytorch-ddp is assumed)"));
  }
  one.framework = "ddp_foo";
  const answer::CaseResult open = result_of(one);
  REQUIRE(open.open.size() == 1);
  CHECK(open.predicted == result_of(with(one, {{"strategy", "pytorch-ddp"}})).predicted);
  CHECK(width(one) > 1.01 * width(with(one, {{"strategy", "pytorch-ddp"}})));
  one.nodes = 1;
  one.total_gpus = 8;
  CHECK(result_of(one).open.size() == 1);  // said where it hardly counts, too
  // Nor where nothing is shared, or it is known.
  for (const char* framework : {"ChainerMN", "Bagua", "Horovod 0.21", "PaddlePaddle", "MindSpore", "Lightning"}) {
    CAPTURE(framework);
    one.framework = framework;
    CHECK(open_of(one).empty());
  }
  one.framework = "ddp_foo";
  one.nodes = one.total_gpus = one.gpus_per_node = 1;
  CHECK(open_of(one).empty());
}

TEST_CASE("case: where a step of the group is measured, conditions within a GPU are in it", "[unit][whatif]") {
  io::Case small = resnet();
  small.id = "s";
  small.nodes = 1;
  small.total_gpus = 8;
  io::Case large = resnet();
  large.inter_network = "";
  small.group = large.group = "g";
  const std::vector<CaseSet> sets{{"test", {small, large}}};
  const auto result = validate(catalog(), sets, {Anchor::kFirst}).value().all.cases.front();
  REQUIRE(result.open.size() == 1);
  CHECK_THAT(result.open.front(), Catch::Matchers::Contains("the network between servers"));
}
