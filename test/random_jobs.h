// Random jobs as settings, for whoever asks by text: most have an answer, some are refused.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace ddlsim::test {

using JobSettings = std::vector<std::pair<std::string, std::string>>;  // path, value

class RandomJobs {
 public:
  explicit RandomJobs(unsigned seed) : random_(seed) {}

  JobSettings next() {
    static const std::vector<std::string> kModels{"resnet50", "vgg16",    "bert_base", "bert_large", "gpt2",
                                                  "alexnet",  "gnmt",     "dlrm",      "ncf",        "vit_large",
                                                  "resnet18", "pai_bert", "dlrm_dcnv2"};
    static const std::vector<std::string> kNodes{"dgx1-v100", "dgx1-p100",   "dgx-a100",
                                                 "dgx-h100",  "p3.16xlarge", "pcie-8xp100"};
    JobSettings job{{"model", one_of(kModels)}, {"node", one_of(kNodes)}};
    maybe(job, "nodes", {"1", "2", "3", "4", "16", "128"});
    maybe(job, "network", {"10 Gb/s", "25 Gb/s", "100 Gb/s", "37.5 Gb/s", "4 x infiniband-100g"});
    maybe(job, "strategy", {"ps", "allreduce", "pytorch-ddp", "pearl"});
    maybe(job, "batch", {"1", "8", "32", "64", "100"});
    maybe(job, "precision", {"fp32", "fp16", "bf16", "tf32"});
    maybe(job, "parallel.tensor", {"1", "2", "4"});
    maybe(job, "parallel.pipeline", {"1", "2", "4"});
    maybe(job, "gpus_per_node", {"1", "2", "4"});
    maybe(job, "efficiency.compute", {"45 %", "0.6"});
    maybe(job, "straggler", {"1.2"});
    maybe(job, "software", {"none"});
    maybe(job, "training.epochs", {"3"});
    maybe(job, "price", {"12.5 $/h"});
    if (chance(20)) {
      std::string path = one_of({"netwrok", "nodes", "batch", "network"});
      job.emplace_back(std::move(path), one_of({"-1", "many", "25", "1e99"}));
    }
    // Of two settings with one path the later wins on a command line; a map has each once.
    std::map<std::string, std::string> once;
    for (const auto& [path, value] : job) once[path] = value;
    return {once.begin(), once.end()};
  }

  /// Whether one of `n` cases is at hand.
  bool chance(unsigned n) { return random_() % n == 0; }

 private:
  std::string one_of(const std::vector<std::string>& values) { return values[random_() % values.size()]; }
  void maybe(JobSettings& job, const std::string& path, const std::vector<std::string>& values) {
    if (chance(3)) job.emplace_back(path, one_of(values));
  }

  std::mt19937 random_;
};

/// As a request: {"model": "resnet50", ...}. The values hold no quotes.
inline std::string request_of(const JobSettings& job) {
  std::string text = "{";
  for (const auto& [path, value] : job) {
    text += (text.size() > 1 ? ", \"" : "\"") + path + "\": \"" + value + "\"";
  }
  return text + "}";
}

}  // namespace ddlsim::test
