// Models and GPUs by the names that sources have for them.
#include <catch2/catch.hpp>
#include <string>

#include "case_row.h"

using namespace ddlsim;
using ddlsim::test::row;
using ddlsim::test::said;

namespace {

std::string model_of(const std::string& model, const std::string& key = "data", const std::string& value = "real") {
  io::Case one = row();
  one.model = model;
  one.extra = {{key, value}};
  return said(one, "model");
}

std::string gpu_of(const std::string& gpu) {
  io::Case one = row();
  one.gpu = gpu;
  one.nodes = one.gpus_per_node = one.total_gpus = 1;
  const std::string node = said(one, "node");
  if (node.starts_with("error")) return node;
  const std::string other = said(one, "gpu");
  return other.empty() ? test::catalog().node(node)->gpu.id : other;
}

}  // namespace

TEST_CASE("case names: cards by their makers' names", "[unit][whatif]") {
  CHECK(gpu_of("GIGABYTE (blower) RTX 2080 ti") == "rtx-2080-ti");
  CHECK(gpu_of("MSI GeForce RTX 2080 VENTUS 8G OC") == "rtx-2080");
  CHECK(gpu_of("NVIDIA A100 GPU with 40GB") == "a100-sxm4-40gb");
  CHECK(gpu_of("EVGA (non-blower) RTX 2080 ti") == "rtx-2080-ti");
  CHECK(gpu_of("RTX 2080 Ti (blower)") == "rtx-2080-ti");
  CHECK(gpu_of("4090-48G") == "rtx-4090-48gb");
  CHECK(gpu_of("GIGABYTE nothing").find("unknown gpu 'GIGABYTE nothing'") != std::string::npos);
  CHECK(gpu_of("RTX 2080 Ti (").find("error") == std::string::npos);
}

TEST_CASE("case names: what brackets say of a model", "[unit][whatif]") {
  CHECK(model_of("BART (large, configs/config.json)") == "BART large");
  CHECK(model_of("gpt2-xl (~1.4 B)") == "gpt2-xl");
  CHECK(model_of("gpt2-xl (1557M params)") == "gpt2-xl");
  CHECK(model_of("GPT-2 (124M)") == "GPT-2 124m");
  // Another size is another model.
  CHECK(model_of("gpt2-xl (3 B)").find("unknown model 'gpt2-xl (3 B)'") != std::string::npos);
  CHECK(model_of("gpt2-xl (1.4)").find("unknown model") != std::string::npos);
  CHECK(model_of("gpt2-xl (of 1.4 B)").find("unknown model") != std::string::npos);
  CHECK(model_of("CLIP ViT-G/14 (bigG)") == "CLIP ViT-G/14 (bigG)");
  // A name that is not known, beside one that is.
  CHECK(model_of("Somebody's (resnet50)") == "resnet50");
}

TEST_CASE("case names: networks for small images where the data are those", "[unit][whatif]") {
  CHECK(model_of("ResNet-18", "dataset", "CIFAR-10") == "resnet18_cifar");
  CHECK(model_of("ResNet-18", "data", "real CIFAR-10") == "resnet18_cifar");
  CHECK(model_of("ResNet-18", "dataset", "ImageNet") == "ResNet-18");
  CHECK(model_of("ResNet-50", "dataset", "CIFAR-10") == "ResNet-50");  // no such network is shipped
  io::Case resized = row();
  resized.model = "ResNet-18";
  resized.extra = {{"dataset", "CIFAR-10"}, {"image_size", "224"}};
  CHECK(said(resized, "model") == "ResNet-18");
  resized.extra = {{"image_size", "32"}};
  CHECK(said(resized, "model") == "resnet18_cifar");
}

TEST_CASE("case names: sizes in part stand for a model that is shipped", "[unit][whatif]") {
  io::Case one = row();
  one.batch_per_gpu = 16;
  one.model = "ELECTRA_BASE";
  one.extra = {{"seq_len", "384"}, {"hidden", "768"}, {"layers", "12"}};
  CHECK(said(one, "model") == "ELECTRA_BASE");
  CHECK(said(one, "model.sequence") == "384");
  one.model = "nobody's";
  CHECK(said(one, "model") == "");  // built from its sizes, of which some are missing
  const auto scenario = whatif::CaseReader(test::catalog()).scenario_of(one, 8);
  CHECK(scenario.error().message == "the source does not say the model's heads");
}

TEST_CASE("case names: lengths of both sides of an encoder and a decoder", "[unit][whatif]") {
  io::Case one = row();
  one.model = "bart_large";
  one.extra = {{"seq_len", "512"}, {"phase", "pre-training"}};
  CHECK(said(one, "model.source_length") == "512");
  CHECK(said(one, "model.target_length") == "512");
  CHECK(said(one, "model.tokens") == "1024");
  one.extra["seq_len_dec"] = "64";
  CHECK(said(one, "model.target_length") == "64");
  CHECK(said(one, "model.tokens") == "576");
  one.extra = {{"seq_len", "512"}, {"phase", "fine-tuning"}};
  CHECK(said(one, "model.target_length") == "128");  // the model's own
  one.model = "t5_base";
  one.extra = {{"seq_len", "256"}, {"phase", "pre-training"}};
  CHECK(said(one, "model.source_length") == "256");
  CHECK(said(one, "model.tokens") == "370");
  one.extra = {{"phase", "pre-training"}};
  CHECK(said(one, "model.tokens") == "");
  one.model = "resnet50";  // has "t5" in its name
  one.extra = {{"seq_len", "256"}};
  CHECK(said(one, "model.tokens") == "");
}
