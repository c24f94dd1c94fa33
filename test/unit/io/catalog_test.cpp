// The data the program comes with: every file loads, names resolve as people write them, broken files are refused.
#include "ddlsim/io/catalog.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace fs = std::filesystem;
using namespace ddlsim;
using namespace ddlsim::io;
using Catch::Matchers::Contains;
using Names = std::vector<std::string>;

const Catalog& catalog() {
  static const Catalog kCatalog = [] {
    auto opened = Catalog::open(DDLSIM_SOURCE_DATA);
    if (!opened) FAIL(to_string(opened.error()));
    return std::move(*opened);
  }();
  return kCatalog;
}

template <typename T>
std::string said(const Expected<T>& result) {
  return result ? std::string() : to_string(result.error());
}

std::string contents(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// A copy of the real data that a test may break, and that goes away with it.
class DataCopy {
 public:
  DataCopy() : root_(fs::temp_directory_path() / ("ddlsim-catalog-test-" + std::to_string(::getpid()))) {
    fs::remove_all(root_);
    fs::create_directories(root_);
    for (const char* folder : {"models", "hardware"}) {
      fs::copy(fs::path(DDLSIM_SOURCE_DATA) / folder, root_ / folder, fs::copy_options::recursive);
    }
  }
  ~DataCopy() { fs::remove_all(root_); }
  DataCopy(const DataCopy&) = delete;
  DataCopy& operator=(const DataCopy&) = delete;

  [[nodiscard]] fs::path path(const std::string& file) const { return root_ / file; }
  /// Replaces the first `from` after `after` in a file; the test is void if it is not there.
  void edit(const std::string& file, const std::string& after, const std::string& from, const std::string& to) const {
    std::string text = contents(path(file));
    const std::size_t start = text.find(after);
    REQUIRE(start != std::string::npos);
    const std::size_t place = text.find(from, start);
    REQUIRE(place != std::string::npos);
    text.replace(place, from.size(), to);
    std::ofstream(path(file)) << text;
  }
  [[nodiscard]] Expected<Catalog> open() const { return Catalog::open(root_); }

 private:
  fs::path root_;
};

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
  REQUIRE_FALSE(catalog().ids(Kind::kModels).empty());
  for (const std::string& id : catalog().ids(Kind::kModels)) {
    const auto model = catalog().model(id);
    REQUIRE(said(model) == "");
    CHECK((*model)->id == id);
    CHECK_FALSE((*model)->sources.empty());
    CHECK((*model)->has_layers() != (*model)->features.has_value());
  }
}

TEST_CASE("catalog: every gpu loads, with a source for every value", "[unit][io]") {
  REQUIRE_FALSE(catalog().ids(Kind::kGpus).empty());
  for (const std::string& id : catalog().ids(Kind::kGpus)) {
    CAPTURE(id);
    const auto gpu = catalog().gpu(id);
    REQUIRE(said(gpu) == "");
    CHECK(gpu->id == id);
    CHECK(has_all(keys_of(gpu->sources), {"sm_count", "peak", "memory", "pcie", "peer_to_peer", "tdp"}));
    CHECK(has_all(keys_of(gpu->sources), {"nccl_tuning"}) == gpu->nccl_tuning.has_value());
    CHECK(has_all(keys_of(gpu->sources), {"nvlink"}) == gpu->nvlink.has_value());
    CHECK(catalog().link(gpu->pcie_id).has_value());
    if (gpu->nvlink) CHECK(catalog().link(gpu->nvlink_id).has_value());
  }
}

TEST_CASE("catalog: every link loads, with a source for every value", "[unit][io]") {
  REQUIRE_FALSE(catalog().ids(Kind::kLinks).empty());
  for (const std::string& id : catalog().ids(Kind::kLinks)) {
    CAPTURE(id);
    const auto link = catalog().link(id);
    REQUIRE(said(link) == "");
    CHECK(link->id == id);
    CHECK(keys_of(link->sources) ==
          (link->transport.get() ? Names{"transport", "bandwidth", "latency"} : Names{"bandwidth", "latency"}));
  }
}

TEST_CASE("catalog: every node and instance loads, with a source for every value", "[unit][io]") {
  const Names common{"gpu", "gpus", "gpu_interconnect", "pcie_uplinks", "network"};
  for (const Kind kind : {Kind::kNodes, Kind::kInstances}) {
    REQUIRE_FALSE(catalog().ids(kind).empty());
    for (const std::string& id : catalog().ids(kind)) {
      CAPTURE(id);
      const auto node = catalog().node(id);
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
  const auto node = catalog().node("g4dn.xlarge").value();
  CHECK(node.network.bandwidth.in(gigabits_per_second) == Approx(25));
  CHECK(node.network_sustained.value().in(gigabits_per_second) == Approx(5));
  CHECK(node.host.threads == 4);
  CHECK(node.host.memory.in(gibibytes) == Approx(16));
  CHECK(node.tariff.date == "2026-01-21");
  CHECK_FALSE(catalog().node("p5e.48xlarge").value().price);
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
  REQUIRE_FALSE(catalog().ids(Kind::kClusters).empty());
  for (const std::string& id : catalog().ids(Kind::kClusters)) CHECK(said(catalog().setting(id)) == "");
  REQUIRE_FALSE(catalog().ids(Kind::kPopulations).empty());
  for (const std::string& id : catalog().ids(Kind::kPopulations)) {
    const auto population = catalog().population(id);
    REQUIRE(said(population) == "");
    CHECK(catalog().setting(population->setting).has_value());
  }
}

TEST_CASE("catalog: the models and nodes that the project promises are there", "[unit][io]") {
  const Names models{"alexnet",    "vgg16", "resnet50",        "resnet101", "resnet152", "inception_v3", "bert_base",
                     "bert_large", "gnmt",  "transformer_big", "gpt2",      "dlrm",      "ncf"};
  for (const std::string& id : models) CHECK(said(catalog().model(id)) == "");
  for (const char* id : {"dgx1-p100", "dgx1-v100", "dgx-a100", "dgx-h100", "hgx-h200", "pcie-8xv100"}) {
    CHECK(said(catalog().node(id)) == "");
  }
}

TEST_CASE("catalog: names resolve as people write them", "[unit][io]") {
  for (const char* name : {"ResNet-50 v1.5", "resnet50", "RESNET-50", "ResNet50 v1.5"}) {
    CAPTURE(name);
    const auto model = catalog().model(name);
    REQUIRE(said(model) == "");
    CHECK((*model)->id == "resnet50");
  }
  for (const char* name : {"V100-SXM2-16GB", "Tesla V100", "v100", "V100_SXM2 16gb"}) {
    CAPTURE(name);
    const auto gpu = catalog().gpu(name);
    REQUIRE(said(gpu) == "");
    CHECK(gpu->id == "v100-sxm2-16gb");
  }
  CHECK(catalog().node("p3.16xlarge").value().id == "p3.16xlarge");
  CHECK(catalog().node("P3.16XLARGE").value().id == "p3.16xlarge");
  CHECK(catalog().node("DGX-1 V100").value().id == "dgx1-v100");
  CHECK(catalog().node("p3.24xlarge").value().id == "p3dn.24xlarge");
  CHECK(catalog().model("BERT Large").value()->id == "bert_large");
  CHECK(catalog().link("PCIe 3.0 x16").value().id == "pcie3-x16");
}

TEST_CASE("catalog: every alias finds what it stands for", "[unit][io]") {
  Names lost;
  for (const auto& [name, kind] : kKinds) {
    for (const std::string& id : catalog().ids(kind)) {
      CHECK(catalog().find(kind, id).value().stem() == id);
      for (const std::string& alias : catalog().aliases_of(kind, id)) {
        const auto found = catalog().find(kind, alias);
        if (!found || found->stem() != id) lost.push_back(alias);
      }
    }
  }
  CHECK(lost == Names{});
}

TEST_CASE("catalog: an unknown name offers the near ones", "[unit][io]") {
  CHECK_THAT(said(catalog().model("resnet5O")), Contains("unknown model 'resnet5O'") && Contains("'resnet50'"));
  CHECK_THAT(said(catalog().gpu("h10O")), Contains("unknown gpu 'h10O'"));
  CHECK_THAT(said(catalog().gpu("v100-sxm2-16bg")), Contains("'v100-sxm2-16gb'"));
  CHECK_THAT(said(catalog().node("dgx1v100")), Contains("unknown node 'dgx1v100'") && Contains("'dgx1-v100'"));
  CHECK_THAT(said(catalog().node("p3.16xlrage")), Contains("'p3.16xlarge'"));
  CHECK_THAT(said(catalog().link("ethernet-26g")), Contains("'ethernet-25g'"));
  CHECK(catalog().model("zebra").error().code == ErrorCode::kNotFound);
  CHECK_THAT(said(catalog().model("zebra")), Contains("valid: alexnet"));
}

TEST_CASE("catalog: an unknown name offers near aliases as well as near ids", "[unit][io]") {
  CHECK_THAT(said(catalog().gpu("Tesla V10")), Contains("did you mean") && Contains("V100"));
}

TEST_CASE("catalog: a folder without data is refused", "[unit][io]") {
  const auto opened = Catalog::open("/no/such/folder");
  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == ErrorCode::kIo);
  CHECK_THAT(said(opened), Contains("/no/such/folder"));
}

TEST_CASE("catalog: a value without a source is refused", "[unit][io]") {
  const DataCopy copy;
  const auto data = copy.open();
  REQUIRE(said(data) == "");
  const std::string gpu = "hardware/gpus/v100-sxm2-16gb.yaml";
  for (const std::string key : {"sm_count", "peak", "memory", "nvlink", "pcie", "nccl_tuning", "peer_to_peer", "tdp"}) {
    CAPTURE(key);
    const std::string whole = contents(copy.path(gpu));
    copy.edit(gpu, "sources:", "  " + key + ":", "  # " + key + ":");
    const auto broken = data->gpu("v100-sxm2-16gb");
    CHECK_THAT(said(broken), Contains("v100-sxm2-16gb.yaml:") && Contains("sources needs the key '" + key + "'"));
    std::ofstream(copy.path(gpu)) << whole;
  }
  copy.edit("hardware/links/ethernet-25g.yaml", "sources:", "  latency:", "  # latency:");
  CHECK_THAT(said(data->link("ethernet-25g")),
             Contains("ethernet-25g.yaml:") && Contains("sources needs the key 'latency'"));
  copy.edit("hardware/links/tcp-10g.yaml", "sources:", "  transport:", "  # transport:");
  CHECK_THAT(said(data->link("tcp-10g")), Contains("tcp-10g.yaml:") && Contains("sources needs the key 'transport'"));
  copy.edit("hardware/nodes/dgx1-v100.yaml", "sources:", "  pcie_uplinks:", "  # pcie_uplinks:");
  CHECK_THAT(said(data->node("dgx1-v100")),
             Contains("dgx1-v100.yaml:") && Contains("sources needs the key 'pcie_uplinks'"));
}

TEST_CASE("catalog: what products sustain is a share of a peak", "[unit][io]") {
  const DataCopy copy;
  const auto data = copy.open();
  const auto l4 = data->gpu("l4").value();
  CHECK(l4.sustained.at(Precision::kFp16).value() == Approx(53.1 / 121));
  CHECK_FALSE(l4.sustained.at(Precision::kFp8));
  CHECK_FALSE(data->gpu("a30").value().sustained.at(Precision::kFp32));
  copy.edit("hardware/gpus/l4.yaml", "sustained:", "fp32: 10.9", "fp4: 10.9");
  CHECK_THAT(said(copy.open()->gpu("l4")), Contains("l4.yaml:13:") && Contains("error: sustained fp4 without a peak"));
  copy.edit("hardware/gpus/l4.yaml", "sources:", "  sustained:", "  # sustained:");
  CHECK_THAT(said(copy.open()->gpu("l4")), Contains("sources needs the key 'sustained'"));
}

TEST_CASE("catalog: what hardware does is one of the known words", "[unit][io]") {
  const DataCopy copy;
  const auto data = copy.open();
  REQUIRE(said(data) == "");
  copy.edit("hardware/links/tcp-10g.yaml", "kind:", "transport: tcp", "transport: udp");
  CHECK_THAT(said(data->link("tcp-10g")), Contains("tcp-10g.yaml:4:12: error: unknown transport 'udp'") &&
                                              Contains("infiniband, roce, efa, tcpx, tcp"));
  copy.edit("hardware/links/pcie3-x16.yaml", "kind:", "kind: pcie\n", "kind: pcie\ntransport: infiniband\n");
  CHECK_THAT(said(data->link("pcie3-x16")),
             Contains("pcie3-x16.yaml:4:12: error: a pcie link has no transport") && Contains("kind network"));
  const std::string gpu = "hardware/gpus/h100-sxm5-80gb.yaml";
  const std::string whole = contents(copy.path(gpu));
  copy.edit(gpu, "pcie:", "nccl_tuning: hopper", "nccl_tuning: rubin");
  CHECK_THAT(said(data->gpu("h100-sxm5-80gb")), Contains("h100-sxm5-80gb.yaml:") &&
                                                    Contains(":14: error: unknown nccl_tuning 'rubin'") &&
                                                    Contains("pascal, volta, ampere, hopper, blackwell"));
  std::ofstream(copy.path(gpu)) << whole;
  copy.edit(gpu, "pcie:", "peer_to_peer: yes", "peer_to_peer: perhaps");
  CHECK_THAT(said(data->gpu("h100-sxm5-80gb")), Contains("unknown peer_to_peer 'perhaps'") && Contains("yes, no"));
}

TEST_CASE("catalog: what drives a network is what its file says", "[unit][io]") {
  using hardware::NetworkTransport;
  CHECK(catalog().link("infiniband-100g").value().transport.get() == NetworkTransport::kInfiniband);
  CHECK(catalog().link("gpudirect-tcpxo-200g").value().transport.get() == NetworkTransport::kRoce);
  CHECK(catalog().link("gpudirect-tcpx-200g").value().transport.get() == NetworkTransport::kTcpx);
  CHECK(catalog().link("aws-ena-100g").value().transport.get() == NetworkTransport::kTcp);
  CHECK_FALSE(catalog().link("ethernet-100g").value().transport.get());
  CHECK_FALSE(catalog().link("pcie3-x16").value().transport.get());
  CHECK(catalog().gpu("t4").value().nccl_tuning == hardware::GpuGeneration::kVolta);
  CHECK_FALSE(catalog().gpu("mi300x").value().nccl_tuning);
  CHECK_FALSE(catalog().gpu("rtx-4090").value().peer_to_peer);
  CHECK(catalog().gpu("rtx-a6000").value().peer_to_peer);
}

TEST_CASE("catalog: a source without its value is refused", "[unit][io]") {
  const DataCopy copy;
  copy.edit("hardware/links/ethernet-25g.yaml", "sources:", "  latency:", "  colour: blue\n  latency:");
  CHECK_THAT(said(copy.open().value().link("ethernet-25g")), Contains("unknown key 'colour' in sources"));
}

TEST_CASE("catalog: a file must be named after what it holds", "[unit][io]") {
  const DataCopy copy;
  fs::rename(copy.path("hardware/gpus/t4.yaml"), copy.path("hardware/gpus/t44.yaml"));
  fs::rename(copy.path("models/vgg16.yaml"), copy.path("models/vgg17.yaml"));
  fs::remove(copy.path("hardware/aliases.yaml"));
  fs::remove(copy.path("models/aliases.yaml"));
  const auto data = copy.open();
  REQUIRE(said(data) == "");
  CHECK_THAT(said(data->gpu("t44")), Contains("the file is named 't44' but describes 't4'"));
  CHECK_THAT(said(data->model("vgg17")), Contains("the file is named 'vgg17' but describes 'vgg16'"));
}

TEST_CASE("catalog: an alias of nothing is refused with its place", "[unit][io]") {
  const DataCopy copy;
  std::ofstream(copy.path("models/aliases.yaml")) << "models:\n  ResNet-50: resnet51\n";
  const io::Catalog data = copy.open().value();
  for (const std::string& said_of : {said(data.read_aliases()), said(data.model("ResNet-50-ish"))}) {
    CHECK_THAT(said_of, Contains("aliases.yaml:2:14: error: no model 'resnet51'") && Contains("'resnet50'"));
  }
  CHECK(data.aliases_of(io::Kind::kModels, "resnet50").empty());
  // What is named by its id needs none.
  CHECK(said(data.model("resnet50")) == "");
}

TEST_CASE("catalog: a node that names an unknown gpu is refused where it says so", "[unit][io]") {
  const DataCopy copy;
  copy.edit("hardware/nodes/dgx1-v100.yaml", "gpu:", "v100-sxm2-16gb", "v100-sxm2-61gb");
  // The value stands on line 3 of that file, after "gpu: ".
  CHECK_THAT(said(copy.open().value().node("dgx1-v100")),
             Contains("dgx1-v100.yaml:3:6: error: unknown gpu 'v100-sxm2-61gb'") && Contains("'v100-sxm2-16gb'"));
}

TEST_CASE("catalog: NVLinks of pairs are refused where they stand", "[unit][io]") {
  const std::string node = "hardware/nodes/dgx1-v100.yaml";
  const std::string key = "nvlink_pairs:";
  const auto with = [&](const std::string& from, const std::string& to) {
    const DataCopy copy;
    copy.edit(node, key, from, to);
    return said(copy.open().value().node("dgx1-v100"));
  };
  // "nvlink_pairs: [0-1, 0-2, ..." on line 6 of that file: 0-1 stands at column 16, 0-2 at 21.
  CHECK_THAT(with("0-2", "0-8"), Contains("dgx1-v100.yaml:6:21: error: no GPU 8: the server has 8, numbered from 0"));
  CHECK_THAT(with("0-2", "2-2"), Contains(":6:21: error: GPU 2 is paired with itself"));
  CHECK_THAT(with("0-2", "1-0"), Contains(":6:21: error: the pair 1-0 stands twice"));
  CHECK_THAT(with("0-1,", "0-1 x2,"), Contains("error: 0-4 x2: GPU 0 has 6 NVLinks, 5 of them in other pairs"));
  for (const char* wrong : {"0", "0-", "0-2x2", "0-2 x0", "0-2 x2000", "0-2 x", "every", "-1-2", "[0, 2]", "0_2"}) {
    CAPTURE(wrong);
    CHECK_THAT(with("0-2", wrong), Contains("dgx1-v100.yaml:6:21: error:"));
  }
  CHECK_THAT(with("nvlink_pairs: [", "nvlink_pairs: 3 #"), Contains(":6:15: error: nvlink_pairs is no list"));
  CHECK_THAT(with("6-7 x2]", "6-7 x2, all]"), Contains("error: the pair 0-1 stands twice"));
  CHECK_THAT(with("nvlink_pairs:", "# nvlink_pairs:"), Contains("needs the key 'nvlink_pairs'"));
  CHECK_THAT(with("0-4 x2, 1-2 x2, 1-3, 1-5 x2, 2-3 x2, 2-6, 3-7, 4-5, 4-6, 4-7 x2,", "1-2,"),
             Contains("error: GPU 4 of a mesh has no NVLink to another GPU"));
  const auto edited = [&](const std::string& file, const std::string& from, const std::string& to) {
    const DataCopy copy;
    copy.edit(file, "", from, to);
    return said(copy.open().value().node(fs::path(file).stem().string()));
  };
  CHECK_THAT(edited(node, "nvlink-mesh", "nvlink"), Contains(":6:15: error: nvlink_pairs of GPUs that a switch joins"));
  CHECK_THAT(edited(node, "v100-sxm2-16gb", "t4"), Contains("error: NVLinks between GPUs that have none"));
  CHECK_THAT(edited(node, "v100-sxm2-16gb", "rtx-3090"), Contains("GPU 0 has 4 NVLinks"));
  CHECK_THAT(edited(node, "  nvlink_pairs:", "  # nvlink_pairs:"), Contains("sources needs the key 'nvlink_pairs'"));
  const DataCopy uneven;
  uneven.edit("hardware/gpus/v100-sxm2-16gb.yaml", "nvlink:", "150 GB/s", "160 GB/s");
  CHECK_THAT(said(uneven.open().value().node("dgx1-v100")),
             Contains(":6:16: error: 160 GB/s of NVLink are not a whole number of nvlink2 links"));
}

TEST_CASE("catalog: a server says where its GPUs do not reach each other's memory", "[unit][io]") {
  CHECK_FALSE(catalog().node("g5.48xlarge").value().peer_to_peer);
  CHECK(catalog().node("g4dn.metal").value().peer_to_peer);  // no virtual machine
  CHECK(catalog().node("p3.16xlarge").value().peer_to_peer);
  const DataCopy copy;
  const auto data = copy.open();
  copy.edit("hardware/instances/g5.48xlarge.yaml", "peer_to_peer:", "peer_to_peer: no", "peer_to_peer: perhaps");
  CHECK_THAT(said(data->node("g5.48xlarge")), Contains("unknown peer_to_peer 'perhaps'") && Contains("yes, no"));
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
  CHECK(catalog().gpu(path).value().id == "t4");
  CHECK_THAT(said(catalog().gpu("./no-such.yaml")), Contains("./no-such.yaml: error: no such file"));
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
