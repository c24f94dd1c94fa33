// The data the program comes with: every file loads, names resolve as people write them.
#include "ddlsim/io/catalog.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "catalog.h"
#include "data_copy.h"

namespace {

using namespace ddlsim;
using namespace ddlsim::io;
using namespace ddlsim::test;
using Catch::Matchers::Contains;
using Names = std::vector<std::string>;

/// The keys of the sources that a loaded file names.
Names keys_of(const Sources& sources) {
  Names keys;
  for (const Source& source : sources) {
    CHECK_FALSE(source.text.empty());
    keys.push_back(source.key);
  }
  return keys;
}

bool has_all(const Names& keys, const Names& wanted) {
  return std::all_of(wanted.begin(), wanted.end(),
                     [&](const std::string& key) { return std::find(keys.begin(), keys.end(), key) != keys.end(); });
}

}  // namespace

TEST_CASE("catalog: every model loads", "[unit][io]") {
  REQUIRE_FALSE(learnt_catalog().ids(Kind::kModels).empty());
  for (const std::string& id : learnt_catalog().ids(Kind::kModels)) {
    const auto model = learnt_catalog().model(id);
    REQUIRE(said(model) == "");
    CHECK((*model)->id == id);
    CHECK_FALSE((*model)->sources.empty());
    CHECK((*model)->has_layers() != (*model)->features.has_value());
  }
}

TEST_CASE("catalog: every gpu loads, with a source for every value", "[unit][io]") {
  REQUIRE_FALSE(learnt_catalog().ids(Kind::kGpus).empty());
  for (const std::string& id : learnt_catalog().ids(Kind::kGpus)) {
    CAPTURE(id);
    const auto gpu = learnt_catalog().gpu(id);
    REQUIRE(said(gpu) == "");
    CHECK(gpu->id == id);
    CHECK(has_all(keys_of(gpu->sources), {"sm_count", "peak", "memory", "pcie", "peer_to_peer", "tdp"}));
    CHECK(has_all(keys_of(gpu->sources), {"nccl_tuning"}) == gpu->nccl_tuning.has_value());
    CHECK(has_all(keys_of(gpu->sources), {"nvlink"}) == gpu->nvlink.has_value());
    CHECK(learnt_catalog().link(gpu->pcie_id).has_value());
    if (gpu->nvlink) CHECK(learnt_catalog().link(gpu->nvlink_id).has_value());
  }
}

TEST_CASE("catalog: a GPU has the memory that its driver leaves to programs", "[unit][io]") {
  // 81559 MiB by nvidia-smi, of which the driver keeps 0.3 to 0.5 GiB; "80 GB" is what the box says.
  CHECK(catalog().gpu("h100-sxm5-80gb")->memory_size == mebibytes(81089));
  CHECK(catalog().gpu("v100-sxm2-16gb")->memory_size == mebibytes(16160));
  // ECC takes a sixteenth of GDDR.
  CHECK(catalog().gpu("l40s")->memory_size == mebibytes(45495));
}

TEST_CASE("catalog: a GPU's memory is between its name's GB and as many GiB", "[unit][io]") {
  int named = 0;
  for (const std::string& id : catalog().ids(Kind::kGpus)) {
    const std::size_t dash = id.rfind('-');
    if (!id.ends_with("gb") || dash == std::string::npos) continue;
    CAPTURE(id);
    const double says = std::stod(id.substr(dash + 1));
    const DataSize size = catalog().gpu(id)->memory_size;
    CHECK(size > gigabytes(says) * 0.98);
    CHECK(size < gibibytes(says));
    ++named;
  }
  CHECK(named > 20);
}

TEST_CASE("catalog: every link loads, with a source for every value", "[unit][io]") {
  REQUIRE_FALSE(learnt_catalog().ids(Kind::kLinks).empty());
  for (const std::string& id : learnt_catalog().ids(Kind::kLinks)) {
    CAPTURE(id);
    const auto link = learnt_catalog().link(id);
    REQUIRE(said(link) == "");
    CHECK(link->id == id);
    CHECK(keys_of(link->sources) ==
          (link->transport.get() ? Names{"transport", "bandwidth", "latency"} : Names{"bandwidth", "latency"}));
  }
}

TEST_CASE("catalog: every node and instance loads, with a source for every value", "[unit][io]") {
  const Names common{"gpu", "gpus", "gpu_interconnect", "pcie_uplinks", "network"};
  for (const Kind kind : {Kind::kNodes, Kind::kInstances}) {
    REQUIRE_FALSE(learnt_catalog().ids(kind).empty());
    for (const std::string& id : learnt_catalog().ids(kind)) {
      CAPTURE(id);
      const auto node = learnt_catalog().node(id);
      REQUIRE(said(node) == "");
      CHECK(node->id == id);
      CHECK(has_all(keys_of(node->sources), common));
      const bool rented = kind == Kind::kInstances;
      CHECK(node->tariff.provider.empty() != rented);
      if (rented) CHECK(has_all(keys_of(node->sources), {"provider"}));
      CHECK((rented || !node->price));
      CHECK(has_all(keys_of(node->sources), {"price"}) == node->price.has_value());
      CHECK(node->tariff.date.empty() != node->price.has_value());
      if (node->network_sustained) CHECK(*node->network_sustained < node->network.bandwidth);
    }
  }
}

TEST_CASE("catalog: a price says where and when it holds", "[unit][io]") {
  const DataCopy copy;
  const auto data = copy.open();
  REQUIRE(said(data) == "");
  const std::string file = "hardware/instances/p3.8xlarge.yaml";
  const std::string whole = contents(copy.path(file));
  const auto broken = [&](const std::string& from, const std::string& to) {
    copy.edit(file, "instance:", from, to);
    const std::string error = said(data->node("p3.8xlarge"));
    std::ofstream(copy.path(file)) << whole;
    return error;
  };
  CHECK_THAT(broken("price_date: 2026-01-21\n", ""), Contains("p3.8xlarge.yaml:5:8: error: a price without a date"));
  CHECK_THAT(broken("region: us-east-1\n", ""), Contains("a price without a region"));
  CHECK_THAT(broken("price_date: 2026-01-21", "price_date: yesterday"), Contains("'yesterday' is no date"));
  CHECK_THAT(broken("price_date: 2026-01-21", "price_date: 2026-13"), Contains("is no date"));
  CHECK_THAT(broken("  price:", "  # price:"), Contains("sources needs the key 'price'"));
  CHECK_THAT(broken("price: 12.24 $/h", "price: -1 $/h"), Contains("negative"));
  CHECK_THAT(broken("price: 12.24 $/h", "spot_price: 3 $/h"), Contains("sources needs the key 'spot_price'"));
  CHECK_THAT(broken("count: 1", "count: 1, sustained: 10 Gb/s"), Contains("no less than the 10 Gb/s of aws-ena-10g"));
}

TEST_CASE("catalog: a rate that lasts minutes is told apart from what a port sustains", "[unit][io]") {
  const auto node = learnt_catalog().node("g4dn.xlarge").value();
  CHECK(node.network.bandwidth.in(gigabits_per_second) == Approx(25));
  CHECK(node.network_sustained.value().in(gigabits_per_second) == Approx(5));
  CHECK(node.host.threads == 4);
  CHECK(node.host.memory.in(gibibytes) == Approx(16));
  CHECK(node.tariff.date == "2026-01-21");
  CHECK_FALSE(learnt_catalog().node("p5e.48xlarge").value().price);
}

TEST_CASE("catalog: threads of a host are half a core each, or a whole one", "[unit][io]") {
  const Catalog catalog = Catalog::open(DDLSIM_SOURCE_DATA).value();
  const hardware::Host shared = catalog.node("p3.16xlarge").value().host;
  CHECK(shared.threads == 64);
  CHECK(shared.cores() == 32);
  const hardware::Host whole = catalog.node("standard-nc24rs-v3").value().host;
  CHECK(whole.threads == 24);
  CHECK(whole.cores() == 24);
  const DataCopy copy;
  copy.edit("hardware/instances/standard-nc24rs-v3.yaml", "host:", "threads: 24", "threads: 29");
  CHECK_THAT(said(copy.open()->node("standard-nc24rs-v3")), Contains("29 threads, but 2 x") && Contains("have 28"));
}

TEST_CASE("catalog: every cluster and population loads", "[unit][io]") {
  REQUIRE_FALSE(learnt_catalog().ids(Kind::kClusters).empty());
  for (const std::string& id : learnt_catalog().ids(Kind::kClusters)) CHECK(said(learnt_catalog().setting(id)) == "");
  REQUIRE_FALSE(learnt_catalog().ids(Kind::kPopulations).empty());
  for (const std::string& id : learnt_catalog().ids(Kind::kPopulations)) {
    const auto population = learnt_catalog().population(id);
    REQUIRE(said(population) == "");
    CHECK(learnt_catalog().setting(population->setting).has_value());
  }
}

TEST_CASE("catalog: the models and nodes that the project promises are there", "[unit][io]") {
  const Names models{"alexnet",    "vgg16", "resnet50",        "resnet101", "resnet152", "inception_v3", "bert_base",
                     "bert_large", "gnmt",  "transformer_big", "gpt2",      "dlrm",      "ncf"};
  for (const std::string& id : models) CHECK(said(learnt_catalog().model(id)) == "");
  for (const char* id : {"dgx1-p100", "dgx1-v100", "dgx-a100", "dgx-h100", "hgx-h200", "pcie-8xv100"}) {
    CHECK(said(learnt_catalog().node(id)) == "");
  }
}

TEST_CASE("catalog: names resolve as people write them", "[unit][io]") {
  for (const char* name : {"ResNet-50 v1.5", "resnet50", "RESNET-50", "ResNet50 v1.5"}) {
    CAPTURE(name);
    const auto model = learnt_catalog().model(name);
    REQUIRE(said(model) == "");
    CHECK((*model)->id == "resnet50");
  }
  for (const char* name : {"V100-SXM2-16GB", "Tesla V100", "v100", "V100_SXM2 16gb"}) {
    CAPTURE(name);
    const auto gpu = learnt_catalog().gpu(name);
    REQUIRE(said(gpu) == "");
    CHECK(gpu->id == "v100-sxm2-16gb");
  }
  CHECK(learnt_catalog().node("p3.16xlarge").value().id == "p3.16xlarge");
  CHECK(learnt_catalog().node("P3.16XLARGE").value().id == "p3.16xlarge");
  CHECK(learnt_catalog().node("DGX-1 V100").value().id == "dgx1-v100");
  CHECK(learnt_catalog().node("p3.24xlarge").value().id == "p3dn.24xlarge");
  CHECK(learnt_catalog().model("BERT Large").value()->id == "bert_large");
  CHECK(learnt_catalog().link("PCIe 3.0 x16").value().id == "pcie3-x16");
}

TEST_CASE("catalog: how a model was released and tuned is not its name", "[unit][io]") {
  const auto id_of = [](const char* name) {
    CAPTURE(name);
    const auto model = learnt_catalog().model(name);
    return model ? (*model)->id : model.error().message;
  };
  CHECK(id_of("Qwen/Qwen3-30B-A3B-Instruct-2507") == "qwen3_30b_a3b");
  CHECK(id_of("Qwen3-4B-Thinking-2507") == "qwen3_4b");
  CHECK(id_of("somebody/Meta-Llama-3.1-8B-Instruct-SFT") == "llama_3_1_8b");
  CHECK(id_of("llama2_70b_lora") == "llama_2_70b");
  CHECK(id_of("mistralai/Mistral-7B-Instruct-v0.2") == "mistral_7b");
  // Nothing that has no size is cut short: "base" is one.
  CHECK_THAT(id_of("RNN-T base"), Contains("unknown model"));
  CHECK_THAT(id_of("somebody/rnnt"), Contains("unknown model"));
  CHECK_THAT(id_of("Qwen3-5B-Instruct"), Contains("unknown model"));
  CHECK_THAT(id_of("a/b/Qwen3-4B"), Contains("unknown model"));
}

TEST_CASE("catalog: an architecture and its backbone, however they are written", "[unit][io]") {
  const auto id_of = [](const char* name) {
    CAPTURE(name);
    const auto model = learnt_catalog().model(name);
    return model ? (*model)->id : model.error().message;
  };
  CHECK(id_of("Mask-RCNN ResNet-50") == "maskrcnn_resnet50_fpn");
  CHECK(id_of("mask_rcnn_r50_fpn") == "maskrcnn_resnet50_fpn");
  CHECK(id_of("Faster R-CNN (ResNet101-FPN)") == "fasterrcnn_resnet101_fpn");
  CHECK(id_of("Faster-RCNN R-50-C4") == "fasterrcnn_resnet50_c4");
  CHECK(id_of("Mask R-CNN X-101-32x8d-FPN") == "maskrcnn_resnext101_32x8d_fpn");
  CHECK(id_of("PSPNet R-101V1c") == "pspnet_resnet101");
  CHECK(id_of("DeepLabV3+ R-50-D8") == "deeplabv3plus_resnet50");
  CHECK(id_of("deeplabv3_resnet101") == "deeplabv3_resnet101");
  CHECK_THAT(id_of("DeepLabV3+ R-50-D16"), Contains("unknown model"));
  CHECK_THAT(id_of("Mask R-CNN ResNet-34"), Contains("unknown model"));
  CHECK_THAT(id_of("Mask R-CNN VGG16"), Contains("unknown model"));
  CHECK_THAT(id_of("PSPNet R-50-C4"), Contains("unknown model"));
}

TEST_CASE("catalog: every model is found by the name that its file has", "[unit][io]") {
  for (const std::string& id : learnt_catalog().ids(io::Kind::kModels)) {
    CAPTURE(id);
    const auto model = learnt_catalog().model(id);
    REQUIRE(model);
    const auto by_name = learnt_catalog().model((*model)->name);
    REQUIRE(by_name);
    CHECK((*by_name)->id == id);
  }
}

TEST_CASE("catalog: every alias finds what it stands for", "[unit][io]") {
  Names lost;
  for (const auto& [name, kind] : kKinds) {
    for (const std::string& id : learnt_catalog().ids(kind)) {
      CHECK(learnt_catalog().find(kind, id).value().stem() == id);
      for (const std::string& alias : learnt_catalog().aliases_of(kind, id)) {
        const auto found = learnt_catalog().find(kind, alias);
        if (!found || found->stem() != id) lost.push_back(alias);
      }
    }
  }
  CHECK(lost == Names{});
}

TEST_CASE("catalog: an unknown name offers the near ones", "[unit][io]") {
  CHECK_THAT(said(learnt_catalog().model("resnet5O")), Contains("unknown model 'resnet5O'") && Contains("'resnet50'"));
  CHECK_THAT(said(learnt_catalog().model("ViT-Q/99")), Contains("unknown model 'ViT-Q/99'"));
  CHECK_THAT(said(learnt_catalog().gpu("h10O")), Contains("unknown gpu 'h10O'"));
  CHECK_THAT(said(learnt_catalog().gpu("v100-sxm2-16bg")), Contains("'v100-sxm2-16gb'"));
  CHECK_THAT(said(learnt_catalog().node("dgx1v100")), Contains("unknown node 'dgx1v100'") && Contains("'dgx1-v100'"));
  CHECK_THAT(said(learnt_catalog().node("p3.16xlrage")), Contains("'p3.16xlarge'"));
  CHECK_THAT(said(learnt_catalog().link("ethernet-26g")), Contains("'ethernet-25g'"));
  CHECK(learnt_catalog().model("zebra").error().code == ErrorCode::kNotFound);
  // Nothing is near: where to look, and no list of them all.
  CHECK_THAT(said(learnt_catalog().model("zebra")),
             Contains("`ddlsim list models` shows them all") && !Contains("alexnet"));
  CHECK_THAT(said(learnt_catalog().gpu("TPU-v5p")), Contains("`ddlsim list gpus`") && !Contains("valid:"));
  CHECK_THAT(said(learnt_catalog().node("zebra")), Contains("`ddlsim list nodes`") && !Contains("valid:"));
}

TEST_CASE("catalog: a server that is stated as a GPU is told from one", "[unit][io]") {
  for (const char* server : {"p3.16xlarge", "dgx1-v100"}) {
    CAPTURE(server);
    CHECK_THAT(said(learnt_catalog().gpu(server)), Contains("that is a server: state it as the node"));
  }
  CHECK_THAT(said(learnt_catalog().gpu("p3.16xlarg")), !Contains("that is a server"));
}

TEST_CASE("catalog: an unknown name offers near aliases as well as near ids", "[unit][io]") {
  CHECK_THAT(said(learnt_catalog().gpu("Tesla V10")), Contains("did you mean") && Contains("V100"));
}

TEST_CASE("catalog: one apart shares nothing while it is used, and is used again", "[unit][io]") {
  const DataCopy copy;
  const auto data = copy.open();
  const auto model = data->model("alexnet").value();
  const workload::Model* read_apart = nullptr;
  {
    const Catalog apart = data->apart();
    const auto own = apart.model("alexnet").value();
    CHECK(own != model);
    CHECK(own->layers.size() == model->layers.size());
    CHECK(data->apart().model("alexnet").value() != own);  // two at a time
    read_apart = own.get();
  }
  CHECK(data->model("alexnet").value() == model);
  CHECK(data->apart().model("alexnet").value().get() == read_apart);
}

TEST_CASE("catalog: threads that ask at once share what was read", "[unit][io]") {
  const DataCopy copy;
  for (int round = 0; round < 5; ++round) {
    const auto data = copy.open();
    std::vector<std::shared_ptr<const workload::Model>> got(8);
    std::vector<std::thread> threads;
    threads.reserve(got.size());
    for (auto& model : got) threads.emplace_back([&] { model = data->model("resnet50").value(); });
    for (std::thread& thread : threads) thread.join();
    for (const auto& model : got) CHECK(model == got.front());
    CHECK(data->model("resnet50").value() == got.front());
  }
}

TEST_CASE("catalog: a path to a file of one's own is a name", "[unit][io]") {
  const DataCopy copy;
  const std::string path = copy.path("hardware/gpus/t4.yaml").string();
  CHECK(is_path(path));
  CHECK(is_path("mine.yaml"));
  CHECK_FALSE(is_path("t4"));
  CHECK(learnt_catalog().gpu(path).value().id == "t4");
  CHECK_THAT(said(learnt_catalog().gpu("./no-such.yaml")), Contains("./no-such.yaml: error: no such file"));
  // A server's file names others beside it.
  std::filesystem::copy_file(path, copy.path("hardware/nodes/mine.yaml"));
  copy.edit("hardware/nodes/mine.yaml", "gpu:", "t4", "mine");
  copy.edit("hardware/nodes/dgx1-v100.yaml", "gpu:", "v100-sxm2-16gb", "mine.yaml");
  copy.edit("hardware/nodes/dgx1-v100.yaml", "gpu_interconnect:", "nvlink", "pcie");
  const auto server = learnt_catalog().node(copy.path("hardware/nodes/dgx1-v100.yaml").string());
  if (server) {
    CHECK(server->gpu.id == "mine");
  } else {  // what else of the server does not go with the GPU, but no missing file
    CHECK_THAT(to_string(server.error()), !Contains("no such file"));
  }
  copy.edit("hardware/nodes/dgx-h100.yaml", "gpu:", "h100-sxm5-80gb", "nowhere.yaml");
  CHECK_THAT(said(learnt_catalog().node(copy.path("hardware/nodes/dgx-h100.yaml").string())),
             Contains("nowhere.yaml: error: no such file\n  named in ") && Contains("dgx-h100.yaml:3:6"));
}

TEST_CASE("catalog: for one question a file of one's own is read once", "[unit][io]") {
  const DataCopy copy;
  const std::string path = copy.path("hardware/gpus/t4.yaml").string();
  const Catalog once = learnt_catalog().for_one_question();
  REQUIRE(once.gpu(path));
  std::filesystem::remove(path);
  CHECK(once.gpu(path));
  CHECK_FALSE(learnt_catalog().gpu(path));
  CHECK_FALSE(once.for_one_question().gpu(path));
}

TEST_CASE("catalog: profiles near a GPU are its own, then its architecture's by datasheet", "[unit][io]") {
  const DataCopy copy;
  const auto data = copy.open();
  REQUIRE(said(data) == "");
  const auto gpu = data->gpu("v100-sxm2-16gb").value();
  const auto near = data->profiles_near(gpu).value();
  REQUIRE(near.size() == 2);
  CHECK(near[0].profile->id == "v100-sxm2-16gb");
  CHECK(near[1].profile->id == "v100-pcie-32gb");
  // Each with the datasheet of the GPU it was measured on.
  CHECK(near[0].peak.fp32 == teraflops_per_second(15.7));
  CHECK(near[1].peak.fp32 == teraflops_per_second(14));
  CHECK(near[1].memory_bandwidth == gigabytes_per_second(900));
  CHECK(data->profiles_near(data->gpu("mi300x").value()).value().empty());
  // Of the same memory and FP32 rate as B300, GB200 is B200's chip, as its tensor cores show.
  const auto first_of = [&](const char* id) {
    const auto near_it = data->profiles_near(data->gpu(id).value()).value();
    return near_it.empty() ? "" : near_it.front().profile->id;
  };
  CHECK(first_of("gb200-186gb") == "b200-sxm-180gb");
  CHECK(first_of("b300-sxm-288gb") == "b300-sxm-288gb");
  CHECK(data->profiles_near(data->gpu("gb300-288gb").value()).value().at(1).profile->id == "b300-sxm-288gb");
}

TEST_CASE("catalog: a GPU that runs another architecture's kernels borrows its profiles, behind its own's",
          "[unit][io]") {
  const auto ids = [](const auto& near) {
    std::vector<std::string> all;
    for (const auto& one : near) all.push_back(one.profile->id);
    return all;
  };
  const DataCopy copy;
  const auto data = copy.open();
  const auto ada = data->gpu("rtx-4090").value();
  CHECK(ada.kernels_of == "Ampere");
  CHECK(ids(data->profiles_near(ada).value()) == std::vector<std::string>{"a40"});
  // With one of its own architecture, further away.
  std::filesystem::copy_file(copy.path("hardware/calibration/a40.yaml"), copy.path("hardware/calibration/l40s.yaml"));
  std::string text = contents(copy.path("hardware/calibration/l40s.yaml"));
  for (const char* key : {"calibration: ", "gpu: "}) {
    text.replace(text.find(std::string(key) + "\"a40\""), std::string(key).size() + 5, std::string(key) + "l40s");
  }
  std::ofstream(copy.path("hardware/calibration/l40s.yaml")) << text;
  CHECK(ids(copy.open()->profiles_near(ada).value()) == std::vector<std::string>{"l40s", "a40"});
}

TEST_CASE("catalog: whatever rates a GPU was given, its datasheet says what is near", "[unit][io]") {
  const DataCopy copy;
  const auto data = copy.open();
  auto gpu = data->gpu("v100-sxm2-16gb").value();
  gpu.peak.fp32 = gpu.peak.fp32 * 100;
  CHECK(data->profiles_near(gpu).value().size() == 2);
  gpu.id = "mine";  // nobody's datasheet but its own
  CHECK(data->profiles_near(gpu).value().empty());
}

TEST_CASE("catalog: profiles of other GPUs are not read past their head", "[unit][io]") {
  const DataCopy copy;
  std::ofstream(copy.path("hardware/calibration/t4.yaml")) << "calibration: t4\ngpu: t4\nproducts:\n  - [\n";
  std::ofstream(copy.path("hardware/calibration/p4.yaml")) << "products:\n  - x\ngpu: p4\ncalibration: p4\n";
  const auto data = copy.open();
  const auto v100 = data->datasheet("v100-sxm2-16gb").value();
  const auto t4 = data->datasheet("t4").value();
  CHECK_THAT(said(data->profiles_near(v100)), Contains("p4.yaml:"));  // names its GPU late: all of it is read
  fs::remove(copy.path("hardware/calibration/p4.yaml"));
  const auto without = copy.open();
  CHECK(without->profiles_near(v100).value().size() == 2);
  CHECK_THAT(said(without->profiles_near(t4)), Contains("t4.yaml:"));
  std::ofstream(copy.path("hardware/calibration/t4.yaml")) << "calibration: t4\ngpu: nobodys\n";
  CHECK_THAT(said(copy.open()->profiles_near(v100)), Contains("unknown gpu 'nobodys'"));
}

TEST_CASE("catalog: a GPU has units for 16 bits or not, whatever peak somebody states", "[unit][io]") {
  const auto in_fp32 = [](const char* id, double times) {
    hardware::Gpu gpu = catalog().gpu(id).value();
    gpu.peak.fp16 = gpu.peak.fp32 * times;
    return hardware::multiplies_as_fp32(gpu, Precision::kFp16);
  };
  for (const double times : {0.01, 1.0, 2.0, 8.0}) {
    CHECK_FALSE(in_fp32("t4", times));
    CHECK(in_fp32("gtx-1660", times));
  }
}
