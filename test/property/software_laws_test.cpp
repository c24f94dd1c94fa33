// Laws of whole steps with the software that is learnt, over models and GPUs of the catalogue: a larger batch never
// shortens a step, and a faster unit of one GPU never lengthens it.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "catalog.h"
#include "ddlsim/whatif/predict.h"
#include "overrides.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using namespace ddlsim::whatif;
using ddlsim::test::overrides;

namespace {

struct One {
  const char* model;
  const char* gpu;
  const char* precision;
  const char* rate = "";  // of memory
};

constexpr double kWave = 1.02;  // a larger product may be faster by a part of a wave (cost/gemm_time.h)

double step_of(const std::string& model, const std::string& gpu, const std::string& precision, int batch,
               const std::vector<Override>& others = {}) {
  std::vector<Override> settings = overrides(
      "model {}; node pcie-8x3090; gpus_per_node 1; gpu {}; precision {}; batch {}", model, gpu, precision, batch);
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

// Factors of arithmetic and memory differ; a kernel that a faster memory moved from one to the other took 1.6 times as
// long (cost/layer_time.h).
TEST_CASE("law: more bandwidth of a GPU's memory never lengthens a step, software included", "[property]") {
  for (const One& one :
       {One{"vit_base", "v100-sxm2-16gb", "fp16"}, One{"convnext_base", "v100-sxm2-16gb", "fp16"},
        One{"lstm_text_classification", "a100-sxm4-80gb", "fp32"}, One{"vit_large", "h100-sxm5-80gb", "tf32"},
        One{"rnnt", "b200-sxm-180gb", "tf32"}, One{"resnet50", "t4", "fp16"}}) {
    double before = step_of(one.model, one.gpu, one.precision, 16, overrides("gpu.memory_bandwidth 100 GB/s"));
    for (double rate = 115; rate < 2e4; rate *= 1.15) {
      const std::string stated = std::to_string(static_cast<int>(rate)) + " GB/s";
      const double now = step_of(one.model, one.gpu, one.precision, 16, overrides("gpu.memory_bandwidth {}", stated));
      INFO(one.model << " in " << one.precision << " on " << one.gpu << ", " << stated << ": " << before << " ms, then "
                     << now);
      CHECK(now <= kWave * before);
      before = std::min(before, now);
    }
  }
}

// What was measured at exact shapes is the chip's: of a twin's profile, of FP32's kernels in TF32, at other rates.
TEST_CASE("law: a thousandth of a rate moves no step by a hundredth", "[property]") {
  for (const One& one :
       {One{"resnet10", "v100-sxm2-32gb", "fp16", "900.9 GB/s"}, One{"vgg16", "h100-sxm5-80gb", "tf32", "3353 GB/s"},
        One{"resnet50", "h200-sxm5-141gb", "bf16", "4805 GB/s"},
        One{"vgg16", "h200-sxm5-141gb", "tf32", "4805 GB/s"}}) {
    INFO(one.model << " in " << one.precision << " on " << one.gpu);
    const double plain = step_of(one.model, one.gpu, one.precision, 32);
    CHECK(step_of(one.model, one.gpu, one.precision, 32, overrides("gpu.memory_bandwidth {}", one.rate)) ==
          Approx(plain).epsilon(0.01));
  }
}

// Its linear layers have casts beside them.
TEST_CASE("law: fp8 takes hardly longer for images than bf16, whose convolutions they are", "[property]") {
  for (const std::string& gpu : std::vector<std::string>{"h100-sxm5-80gb", "b200-sxm-180gb"}) {
    const double fp8 = step_of("convnext_base", gpu, "fp8", 64);
    CHECK(fp8 <= 1.3 * step_of("convnext_base", gpu, "bf16", 64));
    CHECK(step_of("convnext_base", gpu, "fp8", 64, overrides("gpu.peak.bf16 100 TFLOP/s")) > 1.02 * fp8);
  }
}
