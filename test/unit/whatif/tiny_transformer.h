// A model made up for tests of searches over plans.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "ddlsim/whatif/scenario.h"

namespace ddlsim::test {

/// A transformer of a few blocks, small enough to try every plan of it: with experts or without.
class TinyTransformer {
 public:
  explicit TinyTransformer(bool experts, int blocks = 4, int vocabulary = 4096)
      : folder_(std::filesystem::temp_directory_path() /
                ("ddlsim_tiny_" + std::to_string(::getpid()))),  // side by side
        path_((folder_ / (experts ? "ddlsim_tiny_moe.yaml" : "ddlsim_tiny.yaml")).string()) {
    std::filesystem::create_directories(folder_);
    std::ofstream file(path_);
    file << "model: " << (experts ? "ddlsim_tiny_moe" : "ddlsim_tiny")
         << "\nname: Tiny\ntask: test\nsample: sequence\nbatch: 1\noptimizer: adam\n"
            "input: {shape: [256], bytes: 4096 B}\n"
            "sources: {layers: made up, input: made up, batch: made up, optimizer: made up}\nlayers:\n"
            "  - embedding: {name: table, rows: "
         << vocabulary
         << ", width: 512, lookups: 256}\n"
            "  - repeat:\n      times: "
         << blocks
         << "\n      layers:\n"
            "        - rmsnorm: {name: norm}\n"
            "        - linear: {name: q, out: 512, bias: false}\n"
            "        - linear: {name: k, out: 512, bias: false}\n"
            "        - linear: {name: v, in: [256, 512], out: 512, bias: false}\n"
            "        - grouped_attention: {name: attention, in: [256, 512], heads: 8, kv_heads: 8, width: 64, causal: "
            "true}\n"
            "        - linear: {name: o, out: 512, bias: false}\n"
            "        - add: {name: attention_sum}\n"
            "        - rmsnorm: {name: mlp_norm}\n";
    if (experts) {
      file << "        - experts: {name: experts, in: [256, 512], experts: 4, active: 2, width: 1024}\n";
    } else {
      file << "        - linear: {name: up, out: 2048, bias: false}\n"
              "        - gelu: {name: act}\n"
              "        - linear: {name: down, out: 512, bias: false}\n";
    }
    file << "        - add: {name: mlp_sum}\n"
            "  - rmsnorm: {name: last_norm}\n"
            "  - linear: {name: head, out: "
         << vocabulary
         << ", bias: false}\n"
            "  - softmax: {name: loss}\n";
  }
  ~TinyTransformer() { std::filesystem::remove_all(folder_); }
  TinyTransformer(const TinyTransformer&) = delete;
  TinyTransformer& operator=(const TinyTransformer&) = delete;

  [[nodiscard]] std::vector<whatif::Override> on(std::vector<whatif::Override> more) const {
    std::vector<whatif::Override> settings{{"model", path_, {}},
                                           {"node", "dgx-a100", {}},
                                           {"gpus_per_node", "4", {}},
                                           {"nodes", "1", {}},
                                           {"global_batch", "8", {}}};
    settings.insert(settings.end(), more.begin(), more.end());
    return settings;
  }

 private:
  std::filesystem::path folder_;
  std::string path_;
};

}  // namespace ddlsim::test
