// A published row of a language model, and what it is taken to say.
#pragma once

#include <string>

#include "cases/language_case.h"
#include "unit/whatif/case_row.h"

namespace ddlsim::test {

inline io::Case gpt() {
  io::Case one;
  one.id = "a";
  one.model = "GPT 1B";
  one.framework = "Megatron-LM (Apr 2021)";
  one.precision = "FP16 mixed";
  one.gpu = "A100-SXM4-80GB";
  one.gpus_per_node = 8;
  one.total_gpus = 8;
  one.architecture = "tp-pp-dp";
  one.extra = {{"layers", "4"},      {"hidden", "256"}, {"heads", "4"}, {"vocab", "50257"},     {"seq_len", "128"},
               {"tp", "2"},          {"pp", "2"},       {"dp", "2"},    {"micro_batch", "2.0"}, {"global_batch", "16"},
               {"recompute", "full"}};
  return one;
}

inline std::string split_said(const io::Case& one, const std::string& path) {
  return last_of(whatif::splits_of(one), path);
}

}  // namespace ddlsim::test
