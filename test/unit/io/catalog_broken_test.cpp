// Data files that are broken, or say what they may not: refused where they do.
#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "catalog.h"
#include "data_copy.h"

using namespace ddlsim;
using namespace ddlsim::io;
using namespace ddlsim::test;
using Catch::Matchers::Contains;

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
                                              Contains("infiniband, roce, omni-path, efa, tcpx, tcp"));
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
  CHECK(learnt_catalog().link("infiniband-100g").value().transport.get() == NetworkTransport::kInfiniband);
  CHECK(learnt_catalog().link("gpudirect-tcpxo-200g").value().transport.get() == NetworkTransport::kRoce);
  CHECK(learnt_catalog().link("gpudirect-tcpx-200g").value().transport.get() == NetworkTransport::kTcpx);
  CHECK(learnt_catalog().link("aws-ena-100g").value().transport.get() == NetworkTransport::kTcp);
  CHECK_FALSE(learnt_catalog().link("ethernet-100g").value().transport.get());
  CHECK_FALSE(learnt_catalog().link("pcie3-x16").value().transport.get());
  CHECK(learnt_catalog().gpu("t4").value().nccl_tuning == hardware::GpuGeneration::kVolta);
  CHECK_FALSE(learnt_catalog().gpu("mi300x").value().nccl_tuning);
  CHECK_FALSE(learnt_catalog().gpu("rtx-4090").value().peer_to_peer);
  CHECK(learnt_catalog().gpu("rtx-a6000").value().peer_to_peer);
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
  const DataCopy copy;
  const auto changed = [&](const std::string& file, const std::string& after, const std::string& from,
                           const std::string& to) {
    const std::string whole = contents(copy.path(file));
    copy.edit(file, after, from, to);
    const std::string answer = said(copy.open().value().node("dgx1-v100"));
    std::ofstream(copy.path(file)) << whole;
    return answer;
  };
  const auto with = [&](const std::string& from, const std::string& to) { return changed(node, key, from, to); };
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
  const auto edited = [&](const std::string& from, const std::string& to) { return changed(node, "", from, to); };
  CHECK_THAT(edited("nvlink-mesh", "nvlink"), Contains(":6:15: error: nvlink_pairs of GPUs that a switch joins"));
  CHECK_THAT(edited("v100-sxm2-16gb", "t4"), Contains("error: NVLinks between GPUs that have none"));
  CHECK_THAT(edited("v100-sxm2-16gb", "rtx-3090"), Contains("GPU 0 has 4 NVLinks"));
  CHECK_THAT(edited("  nvlink_pairs:", "  # nvlink_pairs:"), Contains("sources needs the key 'nvlink_pairs'"));
  CHECK_THAT(changed("hardware/gpus/v100-sxm2-16gb.yaml", "nvlink:", "150 GB/s", "160 GB/s"),
             Contains(":6:16: error: 160 GB/s of NVLink are not a whole number of nvlink2 links"));
}

TEST_CASE("catalog: a server says where its GPUs do not reach each other's memory", "[unit][io]") {
  CHECK_FALSE(learnt_catalog().node("g5.48xlarge").value().peer_to_peer);
  CHECK(learnt_catalog().node("g4dn.metal").value().peer_to_peer);  // no virtual machine
  CHECK(learnt_catalog().node("p3.16xlarge").value().peer_to_peer);
  const DataCopy copy;
  const auto data = copy.open();
  copy.edit("hardware/instances/g5.48xlarge.yaml", "peer_to_peer:", "peer_to_peer: no", "peer_to_peer: perhaps");
  CHECK_THAT(said(data->node("g5.48xlarge")), Contains("unknown peer_to_peer 'perhaps'") && Contains("yes, no"));
}
