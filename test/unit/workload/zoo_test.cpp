#include <catch2/catch.hpp>

#include "catalog.h"
#include "ddlsim/workload/model.h"

using namespace ddlsim;
using ddlsim::test::catalog;

namespace {}  // namespace

TEST_CASE("zoo: parameters are exactly the published ones, FLOPs within 1 %", "[unit][workload]") {
  const io::Catalog& all = catalog();
  int compared = 0;
  for (const std::string& id : all.ids(io::Kind::kModels)) {
    const auto model = all.model(id);
    REQUIRE(model);
    INFO(id);
    const workload::Published& published = (*model)->published;
    if (published.parameters) {
      CHECK((*model)->parameters() == *published.parameters);
      ++compared;
    }
    if (published.forward_flops) {
      CHECK((*model)->totals.forward_work / *published.forward_flops == Approx(1.0).epsilon(0.01));
      ++compared;
    }
  }
  CHECK(compared >= 20);
}

TEST_CASE("zoo: gradient tensors as the frameworks list them", "[unit][workload]") {
  const io::Catalog& all = catalog();
  const auto tensors = [&](std::string_view id) { return all.model(id).value()->totals.gradient_tensors; };
  CHECK(tensors("alexnet") == 16);    // 8 layers with weight and bias
  CHECK(tensors("vgg16") == 32);      // 16 layers with weight and bias
  CHECK(tensors("resnet50") == 161);  // 53 convolutions, 53 norms of 2, weight and bias of the head
  CHECK(tensors("resnet101") == 314);
  CHECK(tensors("resnet152") == 467);
  CHECK(tensors("inception_v3") == 292);
  CHECK(tensors("gpt2") == 148);
  CHECK(tensors("vgg19") == 38);             // 19 layers with weight and bias
  CHECK(tensors("resnet18") == 62);          // 20 convolutions, 20 norms of 2, weight and bias of the head
  CHECK(tensors("densenet121") == 364);      // 120 convolutions, 121 norms of 2, weight and bias of the head
  CHECK(tensors("efficientnet_b0") == 213);  // 49 convolutions and norms of 2, 16 blocks of 2 linear layers, the head
  CHECK(tensors("vit_base") == 152);  // 12 layers of 12, and 2 each of patches, last norm and head, token, positions
  CHECK(tensors("gpt2_xl") == 580);   // 48 layers of 12, 2 embeddings, a norm
  CHECK(tensors("llama_3_1_8b") == 291);   // 32 blocks of 9, embedding, norm and head
  CHECK(tensors("llama_3_1_70b") == 723);  // 80 blocks of 9
  CHECK(tensors("qwen3_8b") == 399);       // 36 blocks of 11
  CHECK(tensors("mixtral_8x7b") == 995);   // 32 blocks of 4 + 2 + router + 8 experts of 3
  // 61 blocks of 9, 3 MLPs of 3, 58 routers with bias, shared experts of 3 and 256 experts of 3
  CHECK(tensors("deepseek_v3") == 61 * 9 + 9 + 58 * (2 + 3 + 768) + 3);
  // As torchvision 0.14 lists them, len(list(model.parameters())).
  CHECK(tensors("efficientnet_v2_m") == 649);
  CHECK(tensors("efficientnet_v2_l") == 897);
  CHECK(tensors("regnety_1_6gf") == 368);
  CHECK(tensors("regnetx_400mf") == 215);
  CHECK(tensors("densenet161") == 484);
  CHECK(tensors("mobilenet_v3_small") == 142);
  CHECK(tensors("mnasnet1_0") == 158);
  CHECK(tensors("shufflenet_v2_x2_0") == 170);
  CHECK(tensors("vit_l32") == 296);
  CHECK(tensors("nasnet_large") == 1018);  // as Keras counts its trainable weights
  CHECK(tensors("clip_vit_b32") == 398);   // 24 blocks of 16, and 14
  CHECK(tensors("t5_base") == 257);        // encoder blocks of 8, decoder blocks of 13, a bias and a norm each, a table
  CHECK(tensors("whisper_small") == 12 * (15 + 24) + 11);
  CHECK(tensors("convnext_tiny") == 182);           // 18 blocks of 9, 4 more for each change of width, stem and head
  CHECK(tensors("swin_t") == 12 * 13 + 3 * 3 + 8);  // blocks with a bias table, merges, patches, norm and head
  CHECK(tensors("sd15_unet") == 686);               // as diffusers lists them
  CHECK(tensors("wav2vec2_base") == 213);           // 12 blocks of 16, 19 around them and the head of 2
}

TEST_CASE("zoo: sizes of a family differ as their configurations say", "[unit][workload]") {
  const auto parameters = [](std::string_view id) { return catalog().model(id).value()->parameters(); };
  const auto opt = [](std::int64_t d, std::int64_t blocks) {
    return (50'272 + 2050) * d + blocks * (12 * d * d + 13 * d) + 2 * d;
  };
  CHECK(parameters("opt_125m") == opt(768, 12));
  CHECK(parameters("opt_2_7b") == opt(2560, 32));
  const auto neo = [](std::int64_t d, std::int64_t blocks) {
    return (50'257 + 2048) * d + blocks * (12 * d * d + 10 * d) + 2 * d;
  };
  CHECK(parameters("gpt_neo_1_3b") == neo(2048, 24));
  CHECK(parameters("gpt_neo_2_7b") == neo(2560, 32));
  // Encoder blocks of 12 d^2 and 13 d, decoder blocks of 16 d^2 and 19 d (queries, keys and values with one bias less).
  const auto whisper = [](std::int64_t d, std::int64_t blocks) {
    return d * (3 * 80 + 1) + d * (3 * d + 1) + (1500 + 448 + 51'865) * d + blocks * (28 * d * d + 29 * d) + 4 * d;
  };
  CHECK(parameters("whisper_tiny") == whisper(384, 4));
  CHECK(parameters("whisper_base") == whisper(512, 6));
  CHECK(parameters("whisper_medium") == whisper(1024, 24));
  CHECK(parameters("whisper_large_v2") == whisper(1280, 32));
}

TEST_CASE("zoo: networks of many parts add up to the published counts", "[unit][workload]") {
  const auto parameters = [](std::string_view id) { return catalog().model(id).value()->parameters(); };
  const std::int64_t body = 23'508'032 - 53'120;  // ResNet-50 without its head and with its norms frozen
  const std::int64_t conv = 256 * 256 * 9 + 256;
  CHECK(parameters("retinanet_resnet50_fpn") ==
        body + (512 + 1024 + 2048) * 256 + 3 * 256 + 5 * conv + 8 * conv + (256 * 9 + 1) * 819LL + (256 * 9 + 1) * 36);
  CHECK(parameters("maskrcnn_resnet50_fpn") == body + (256 + 512 + 1024 + 2048) * 256 + 4 * 256 + 4 * conv + conv +
                                                   257 * 15 + 12'545 * 1024 + 1025 * 1024 + 1025 * (91 + 364) +
                                                   4 * conv + 256 * 1024 + 256 + 257 * 91);
  CHECK(parameters("wav2vec2_base") == 94'371'712 + 769 * 32);
  CHECK(parameters("wav2vec2_large") == 315'438'720 + 1025 * 32);
  // The network's own layers beside it: a layer of width h by directions is 4h (in + h) + 8h.
  CHECK(parameters("deepspeech2") == 32 * (41 * 11 + 1) + 32 * (32 * 21 * 11 + 1) + 4 * 32 +
                                         2 * 4 * 1024 * (1312 + 1024 + 2) + 4 * 2 * 4 * 1024 * (2048 + 2) +
                                         5 * 2 * 1024 + 1024 * 29);
}

TEST_CASE("zoo: inference of Mask R-CNN as torchvision counts it", "[unit][workload]") {
  // torchvision's 134.38 GMACs: 1000 proposals on 800 x 800 and no mask. Maps are 1.36 times as large here.
  double maps = 0;
  double boxes = 0;
  bool after = false;
  for (const workload::Layer& layer : catalog().model("maskrcnn_resnet50_fpn").value()->layers) {
    if (layer.name == "mask_roi_align") break;
    after = after || layer.name == "box_roi_align";
    (after ? boxes : maps) += layer.forward_work.in(gigaflops);
  }
  CHECK(maps / 1.36 + boxes * 1000 / 512 == Approx(2 * 134.38).epsilon(0.001));
}

TEST_CASE("features: from layers they scale with the batch, weights do not", "[unit][workload]") {
  const auto model = catalog().model("resnet50").value();
  const auto one = workload::features_at(*model, 1, Precision::kFp32);
  const auto many = workload::features_at(*model, 64, Precision::kFp32);
  CHECK(many.flops / one.flops == Approx(64));
  CHECK(many.input / one.input == Approx(64));
  CHECK(many.weight_traffic == one.weight_traffic);
  // Forward and backward are three times the forward FLOPs; weights and gradients cross the links once each.
  CHECK(one.flops / model->totals.forward_work == Approx(3));
  CHECK(one.weight_traffic.in(bytes) == Approx(2 * 4 * 25'557'032.0));
  // Momentum doubles the stored weights.
  CHECK(one.dense_weights.in(bytes) == Approx(2 * 4 * 25'557'032.0));
  const auto half = workload::features_at(*model, 64, Precision::kFp16);
  CHECK(half.memory_access < many.memory_access);
  CHECK(half.flops == many.flops);
}

TEST_CASE("features: stated ones scale from their own batch", "[unit][workload]") {
  const auto model = catalog().model("pai_resnet50").value();
  const auto doubled = workload::features_at(*model, 2 * model->batch, Precision::kFp32);
  CHECK(doubled.flops.in(teraflops) == Approx(2 * 1.56));
  CHECK(doubled.memory_access.in(gigabytes) == Approx(2 * 31.9));
  CHECK(doubled.weight_traffic.in(megabytes) == Approx(357));
}

TEST_CASE("optimizer: values kept and touched per parameter", "[unit][workload]") {
  using workload::Optimizer;
  CHECK(workload::state_values(Optimizer::kAdam) == 2);
  CHECK(workload::update_accesses(Optimizer::kSgd) == 3);          // weight in and out, gradient in
  CHECK(workload::update_accesses(Optimizer::kSgdMomentum) == 5);  // and the momentum in and out
  CHECK(workload::update_accesses(Optimizer::kAdam) == 7);
}
