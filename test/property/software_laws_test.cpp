// Laws of whole steps with the software that is learnt, over models and GPUs of the catalogue: a larger batch never
// shortens a step, and a faster unit of one GPU never lengthens it.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "catalog.h"
#include "ddlsim/whatif/predict.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using namespace ddlsim::whatif;

namespace {

constexpr double kWave = 1.02;  // a larger product may be faster by a part of a wave (cost/gemm_time.h)

double step_of(const std::string& model, const std::string& gpu, const std::string& precision, int batch,
               const std::vector<Override>& others = {}) {
  std::vector<Override> settings{{"model", model, {}},         {"node", "pcie-8x3090", {}},
                                 {"gpus_per_node", "1", {}},   {"gpu", gpu, {}},
                                 {"precision", precision, {}}, {"batch", std::to_string(batch), {}}};
  settings.insert(settings.end(), others.begin(), others.end());
  const auto scenario = resolve(catalog(), settings);
  return predict(scenario.value()).value().step_time.in(milliseconds);
}

}  // namespace

TEST_CASE("law: a larger batch never shortens a step, software included", "[property]") {
  const std::array<std::string, 7> models{"gnmt", "ptb_lstm_large", "rnnt", "resnet50", "efficientnet_b0", "bert_base",
                                          "gpt2"};
  for (const std::string& model : models) {
    for (const std::string& gpu :
         std::vector<std::string>{"l40s", "rtx-3090", "a100-sxm4-80gb", "v100-sxm2-16gb", "t4"}) {
      double before = 0;
      for (const int batch : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}) {
        const double now = step_of(model, gpu, "fp32", batch);
        INFO(model << " on " << gpu << ", batch " << batch << ": " << before << " ms, then " << now);
        CHECK(now * kWave >= before);
        before = std::max(before, now);
      }
    }
  }
}

// Of GPUs that a profile near enough has products of FP32 for: an RTX 4090 has none (io/near_profiles.cpp), takes FP32
// by the roofline and TF32 by tiles, and is up to 10 % slower in TF32 for a few samples.
TEST_CASE("law: TF32 is no slower than FP32, bf16 as fast as fp16", "[property]") {
  for (const std::string& model : std::vector<std::string>{"resnet50", "bert_large", "gnmt", "mobilenet_v2"}) {
    for (const std::string& gpu :
         std::vector<std::string>{"l40s", "rtx-3090", "a100-sxm4-80gb", "h100-sxm5-80gb", "rtx-a6000", "mi300x"}) {
      for (const int batch : {4, 32}) {
        INFO(model << " on " << gpu << ", batch " << batch);
        CHECK(step_of(model, gpu, "tf32", batch) <= 1.02 * step_of(model, gpu, "fp32", batch));
        // PyTorch normalises batches of bf16 by kernels of its own (cost/image_kernels.h).
        const bool normalises = model == "resnet50" || model == "mobilenet_v2";
        const double bf16 = step_of(model, gpu, "bf16", batch);
        const double fp16 = step_of(model, gpu, "fp16", batch);
        CHECK(bf16 == Approx(normalises ? 1.2 * fp16 : fp16).epsilon(normalises ? 0.2 : 0.12));
      }
    }
  }
}

TEST_CASE("law: fp16 is no slower than fp32, tensor cores or not", "[property]") {
  for (const std::string& model : std::vector<std::string>{"vgg19", "resnet50", "bert_base"}) {
    for (const std::string& gpu : std::vector<std::string>{"gtx-1660-ti", "gtx-1080-ti", "rtx-2080-ti"}) {
      INFO(model << " on " << gpu);
      CHECK(step_of(model, gpu, "fp16", 16) <= 1.02 * step_of(model, gpu, "fp32", 16));
    }
  }
}

// What depended on the ratio of two of them made a GPU with less FP32 the faster one (A10G and A40, 1.45 times).
TEST_CASE("law: a higher peak of a GPU never lengthens a step, whatever its precision", "[property]") {
  for (const std::string& model :
       std::vector<std::string>{"resnet50", "mobilenet_v2", "efficientnet_b4", "bert_base"}) {
    for (const std::string& gpu : std::vector<std::string>{"a40", "a100-sxm4-80gb", "v100-sxm2-16gb"}) {
      for (const std::string& precision : std::vector<std::string>{"fp32", "fp16"}) {
        for (const std::string& peak : std::vector<std::string>{"gpu.peak.fp32", "gpu.peak.fp16"}) {
          double before = step_of(model, gpu, precision, 32, {{peak, "12 TFLOP/s", {}}});
          for (const std::string& rate : std::vector<std::string>{"24", "48", "96", "192", "384", "768"}) {
            const double now = step_of(model, gpu, precision, 32, {{peak, rate + " TFLOP/s", {}}});
            INFO(model << " in " << precision << " on " << gpu << ", " << peak << " " << rate << ": " << before
                       << " ms, then " << now);
            CHECK(now <= kWave * before);
            before = std::min(before, now);
          }
        }
      }
    }
  }
}
