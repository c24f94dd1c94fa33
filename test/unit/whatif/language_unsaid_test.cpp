// What published rows leave unsaid, by the code and the recipes that they name.
#include <catch2/catch.hpp>

#include "cases/case_software.h"
#include "cases/language_case.h"
#include "unit/whatif/language_case.h"

using namespace ddlsim;
using namespace ddlsim::whatif;
using test::gpt;
using test::split_said;

TEST_CASE("language cases: what tensor ranks send between stages", "[unit][whatif]") {
  const auto sent = [](const std::string& framework, const std::string& source = "") {
    io::Case one = gpt();
    one.framework = framework;
    if (!source.empty()) one.source = source;
    return split_said(one, "parallel.scatter_gather");
  };
  CHECK(sent("Megatron-LM (2021-05)").empty());
  CHECK(sent("Megatron-LM (Apr 2021)", "github:NVIDIA/Megatron-LM:images/cases_april2021.png@50a4b5fa02") == "yes");
  CHECK(sent("Megatron-LM (2022)") == "yes");
  CHECK(sent("Megatron-LM (2024)").empty());
  CHECK(sent("NeMo Megatron 22.08") == "yes");
  CHECK(sent("NeMo 24.07 (Megatron-Core)").empty());
  CHECK(sent("Megatron-DeepSpeed") == "yes");
  CHECK(sent("nanotron").empty());
}

TEST_CASE("language cases: AutoModel computes the blocks of large models again", "[unit][whatif]") {
  io::Case one = gpt();
  one.framework = "NeMo AutoModel (PyTorch FSDP2)";
  for (const char* key : {"recompute", "activation_checkpointing"}) one.extra.erase(key);
  const auto again = [&](std::int64_t parameters) {
    workload::Model model;
    model.totals.dense_parameters = parameters;
    std::string text;
    for (const Override& setting : recomputation_by_recipe(one, model))
      text += setting.path + "=" + setting.value + " ";
    return text;
  };
  CHECK(again(31'000'000'000) == "parallel.recompute=full parallel.recompute_stops=yes ");
  CHECK(again(21'000'000'000).empty());
  one.extra["recompute"] = "no";
  CHECK(again(31'000'000'000).empty());
  one.extra.erase("recompute");
  one.framework = "Megatron-LM";
  CHECK(again(31'000'000'000).empty());
}

TEST_CASE("language cases: launches that wait for their kernels", "[unit][whatif]") {
  io::Case one = gpt();
  CHECK_FALSE(blocks_launches(one));
  one.extra["launch_blocking"] = "1";
  CHECK(blocks_launches(one));
  one.extra.erase("launch_blocking");
  one.source = "github:bigscience-workshop/bigscience:train/tr11-176B-ml/chronicles-prequel.md@9e64ede#L476";
  CHECK_FALSE(blocks_launches(one));
  one.extra["date"] = "2022-02-20";
  CHECK(blocks_launches(one));
  one.extra["date"] = "2022-02-17";
  CHECK_FALSE(blocks_launches(one));
  one.extra["date"] = "2022-02-20";
  one.extra["launch_blocking"] = "no";
  CHECK_FALSE(blocks_launches(one));
}

TEST_CASE("language cases: who computes blocks again without a word", "[unit][whatif]") {
  io::Case one = gpt();
  for (const char* key : {"recompute", "activation_checkpointing"}) one.extra.erase(key);
  const auto again = [&](const std::string& framework, const std::string& model) {
    one.framework = framework;
    one.model = model;
    return std::string(recomputation_of(one));
  };
  CHECK(again("swift sft (DeepSpeed)", "Qwen2.5-14B") == "full");
  CHECK(again("Megatron (ms-swift 4.1.2)", "Qwen2.5-14B") == "none");
  // Examples of GPT until selective recomputation came.
  CHECK(again("Megatron-LM (2021)", "GPT-3 175B") == "full");
  CHECK(again("Megatron-LM (2021)", "BERT-Large") == "none");
  CHECK(again("Megatron-LM (2023)", "GPT-3 175B") == "none");
  CHECK(again("Megatron-LM", "GPT-3 175B") == "none");
  one.extra["date"] = "2022";
  CHECK(again("DeepSpeed + Megatron", "GPT-2 (13B)") == "full");
  one.extra["recompute"] = "no";
  CHECK(again("DeepSpeed + Megatron", "GPT-2 (13B)") == "none");
}

TEST_CASE("language cases: stages of Megatron that send beside their work are interleaved", "[unit][whatif]") {
  io::Case one = gpt();
  one.framework = "Megatron-Core 0.8";
  one.extra["layers"] = "48";
  one.extra["pp"] = "4";
  CHECK(split_said(one, "parallel.virtual_stages").empty());
  one.extra["overlap"] = "dp-comm+tp-comm+pp-comm overlap on (README)";
  CHECK(split_said(one, "parallel.virtual_stages") == "6");
  CHECK(split_said(one, "parallel.schedule") == "interleaved");
  CHECK(split_said(one, "parallel.overlap_p2p").empty());
  one.extra["layers"] = "44";
  CHECK(split_said(one, "parallel.virtual_stages") == "11");
  one.extra["layers"] = "46";
  CHECK(split_said(one, "parallel.virtual_stages").empty());
  one.extra["layers"] = "48";
  one.extra["vp"] = "2";
  CHECK(split_said(one, "parallel.virtual_stages") == "2");
  one.extra.erase("vp");
  one.framework = "DeepSpeed";
  CHECK(split_said(one, "parallel.virtual_stages").empty());
  one.extra.erase("overlap");
  one.framework = "Megatron-Core 0.8";
  one.source = "github:NVIDIA/Megatron-LM:images/strong_scaling.png (README)";
  CHECK(split_said(one, "parallel.virtual_stages") == "6");
}
