#include "cases/tuning_case.h"

#include <string_view>

#include "cases/case_model.h"
#include "cases/case_scenario.h"
#include "cases/case_software.h"
#include "cases/case_text.h"
#include "cases/language_case.h"

namespace ddlsim::whatif {
namespace {

/// What sources say of how a model is tuned, under the names that they have for it.
std::string tuning_of(const io::Case& one) {
  std::string all = one.model + " " + one.architecture;
  for (const std::string_view key : {"task", "peft", "train_type", "tuning", "finetuning_type", "method"}) {
    all += " " + one.said(key).value_or("");
  }
  return lower_case(all);
}

/// As the source says; else as the framework's recipes have it.
std::string_view adapted_products_of(const io::Case& one) {
  if (const auto said = one.said("lora_targets")) {
    const std::string words = words_of(*said);
    if (has_any(words, {" all ", " mlp ", " gate", " up ", " fc", " w 1 ", " linear 1"})) return "all";
    return has_any(words, {" o ", " wo ", " dense ", " out", " attention ", " c proj ", " linear proj "}) ? "attention"
                                                                                                          : "qkv";
  }
  const std::string framework = lower_case(one.framework);
  // LLaMA-Factory's lora_target, XTuner's and Unsloth's lists; fsdp_qlora's train.py; Automodel's match_all_linear.
  if (has_any(framework, {"factory", "unsloth", "axolotl", "xtuner", "fsdp_qlora", "automodel"})) return "all";
  // target_modules of NeMo's and Megatron-Bridge's performance recipes; PEFT's own for Llama: q_proj, v_proj.
  const bool recipe = has_any(framework, {"nemo", "megatron-bridge", "megatron bridge"}) && !is_submission(one);
  return recipe || has_any(framework, {"peft", "llama-recipes"}) ? "qkv" : "attention";
}

}  // namespace

bool has_adapters(const io::Case& one) {
  const std::string tuning = tuning_of(one);
  if (has_any(tuning, {"no lora", "not lora", "without lora"})) return false;
  return has(tuning, "lora") || count_or(one, "lora_rank", 0) > 0;
}

void add_adapters(const io::Case& one, std::vector<Override>& settings) {
  const AddSetting set{one, settings};
  if (const std::string_view products = adapted_products_of(one); products != "attention") {
    set("parallel.lora_products", std::string(products));
  }
  // mlcommons/training llama2_70b_lora: rank 16; NeMo's recipes: 16.
  set("parallel.lora_rank", std::to_string(count_or(one, "lora_rank", 16)));
  const std::string base = tuning_of(one) + " " + lower_case(one.said("quantization").value_or(""));
  if (has_any(base, {"4bit", "4-bit", "nf4", "int4", "qlora", "gptq"}) || affirms(one, "load_in_4bit")) {
    set("parallel.frozen_bits", "4");
  } else if (has_any(base, {"8bit", "8-bit", "int8"}) || affirms(one, "load_in_8bit")) {
    set("parallel.frozen_bits", "8");
  }
}

void add_offload(const io::Case& one, int shares, std::vector<Override>& settings) {
  const AddSetting set{one, settings};
  if (says(one, "offload", "optimizer") || affirms(one, "cpu_offload") || affirms(one, "offload_optimizer")) {
    set("parallel.offload_optimizer", "yes");
    // FSDP's CPUOffload takes weights along.
    const bool fsdp = count_or(one, "fsdp", 0) > 1 || has_phrase(words_of(architecture_family(one)), "fsdp");
    const bool weights = affirms(one, "param_offload") || (affirms(one, "cpu_offload") && fsdp);
    if (weights && shares == 3) set("parallel.offload_weights", "yes");
  }
  const bool inputs = says(one, "activation_checkpointing", "offload");  // of what is computed again
  if (says(one, "offload", "activations") || affirms(one, "activation_offload") || inputs) {
    set("parallel.offload_activations", "yes");
  }
}

}  // namespace ddlsim::whatif
