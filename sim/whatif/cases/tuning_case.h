// What a case's words say of how a model is tuned, and of what waits on the host. Private to the room.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ddlsim/io/case_file.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

struct AddSetting {
  const io::Case& one;
  std::vector<Override>& settings;

  void operator()(std::string path, std::string value) const {
    settings.push_back({std::move(path), std::move(value), one.where});
  }
};

/// Whether adapters are trained: "LoRA", "QLoRA fine-tuning", "lora_finetune_single_device"; or a rank.
[[nodiscard]] bool has_adapters(const io::Case& one);

/// Their rank, the products that have one, and the bits of what is frozen.
void add_adapters(const io::Case& one, std::vector<Override>& settings);

/// `shares`: the stage of ZeRO.
void add_offload(const io::Case& one, int shares, std::vector<Override>& settings);

}  // namespace ddlsim::whatif
