#include "ddlsim/hardware/nvlink_mesh.h"

#include <catch2/catch.hpp>

#include "catalog.h"

using namespace ddlsim;
using namespace ddlsim::hardware;
using Catch::Matchers::Contains;

namespace {

using Pairs = std::vector<NvlinkPair>;
using Places = std::vector<std::int64_t>;

NvlinkMesh mesh_of(std::int64_t gpus, std::int64_t links, Pairs pairs) {
  return NvlinkMesh::create({gpus, links, std::move(pairs)}).value();
}

std::string refusal(std::int64_t gpus, std::int64_t links, Pairs pairs) {
  const auto mesh = NvlinkMesh::create({gpus, links, std::move(pairs)});
  REQUIRE_FALSE(mesh);
  return mesh.error().message;
}

}  // namespace

TEST_CASE("nvlink mesh: the first k GPUs of a DGX-1, by hand", "[unit][hardware]") {
  const NvlinkMesh volta = *test::catalog().node("dgx1-v100").value().nvlink_mesh;
  for (std::int64_t gpu = 0; gpu < 8; ++gpu) {
    std::int64_t links = 0;
    for (std::int64_t other = 0; other < 8; ++other) links += volta.links(gpu, other);
    CHECK(links == 6);
  }
  CHECK(volta.rings(1) == 0);
  CHECK(volta.rings(2) == 1);  // 0-1
  CHECK(volta.rings(3) == 2);  // the triangle with one link in two of its sides, either way round
  CHECK(volta.rings(4) == 4);  // 0-1-2-3 and 0-2-1-3, either way
  CHECK(volta.rings(5) == 2);  // GPU 4 hangs on GPU 0 by two links: there and back through GPU 0
  CHECK(volta.rings(6) == 2);  // 4-5 is one link, and every ring needs it
  CHECK(volta.rings(7) == 4);  // GPU 4 has four links to the others
  CHECK(volta.rings(8) == 6);  // all links of every GPU
  const NvlinkMesh pascal = *test::catalog().node("dgx1-p100").value().nvlink_mesh;
  CHECK(pascal.rings(2) == 1);
  CHECK(pascal.rings(4) == 3);  // all three ways round, each half the time
  CHECK(pascal.rings(8) == 4);
  CHECK(test::catalog().node("jean-zay-v100").value().nvlink_mesh->rings(4) == 6);
  CHECK(test::catalog().node("hgx-a100-4gpu-40gb").value().nvlink_mesh->rings(4) == 12);
  CHECK(test::catalog().node("mi300x-8gpu").value().nvlink_mesh->rings(8) == 7);
  CHECK(test::catalog().node("p3.8xlarge").value().nvlink_mesh->rings(4) == 4);
}

TEST_CASE("nvlink mesh: any GPUs, in any order", "[unit][hardware]") {
  const NvlinkMesh volta = *test::catalog().node("dgx1-v100").value().nvlink_mesh;
  CHECK(volta.rings(Places{0, 3}) == 2);
  CHECK(volta.rings(Places{3, 0}) == 2);
  CHECK(volta.rings(Places{4, 5, 6, 7}) == 4);
  CHECK(volta.rings(Places{7, 5, 4, 6}) == 4);
  CHECK(volta.rings(Places{0, 5}) == 0);
  CHECK(volta.rings(Places{0, 3, 7, 4}) == 2);  // the square, one of whose sides is a single link
  CHECK(volta.rings(Places{0, 4, 5}) == 1);     // 0-5 goes through 4, over 4-5 twice: half a ring each way
}

TEST_CASE("nvlink mesh: many GPUs take the first ring found", "[unit][hardware]") {
  Pairs pairs;
  for (std::int64_t gpu = 0; gpu < 16; ++gpu) pairs.push_back({gpu, (gpu + 1) % 16, 2});
  const NvlinkMesh ring = mesh_of(16, 4, pairs);
  CHECK(ring.rings(16) == 4);  // two links, both ways
  CHECK(ring.rings(15) == 0);  // a chain
}

TEST_CASE("nvlink mesh: what is refused", "[unit][hardware]") {
  CHECK_THAT(refusal(4, 6, {{0, 1, 1}, {2, 4, 1}}), Contains("no GPU 4: the server has 4"));
  CHECK_THAT(refusal(4, 6, {{-1, 1, 1}}), Contains("no GPU -1"));
  CHECK_THAT(refusal(4, 6, {{2, 2, 1}}), Contains("GPU 2 is paired with itself"));
  CHECK_THAT(refusal(4, 6, {{0, 1, 1}, {1, 0, 1}}), Contains("the pair 1-0 stands twice"));
  CHECK_THAT(refusal(4, 6, {{0, 1, 0}}), Contains("0 NVLinks"));
  CHECK_THAT(refusal(4, 6, {{0, 1, 4}, {0, 2, 3}}), Contains("0-2 x3: GPU 0 has 6 NVLinks, 4 of them in other pairs"));
  CHECK_THAT(refusal(kMaxMeshGpus + 1, 6, {}), Contains("a server of 65"));
  CHECK(first_fault({4, 6, {{0, 1, 1}, {2, 4, 1}}})->pair == 1);
  CHECK_FALSE(first_fault({4, 6, {{0, 1, 6}, {2, 3, 6}}}));
}

TEST_CASE("peers: what joins GPUs of a server", "[unit][hardware]") {
  const Node dgx1 = test::catalog().node("dgx1-v100").value();
  CHECK(dgx1.peers(8).bandwidth == gigabytes_per_second(150));
  CHECK(dgx1.peers(2).bandwidth == gigabytes_per_second(25));
  CHECK(dgx1.peers(1).by == Interconnect::kNvlinkMesh);  // one GPU is told as its server
  CHECK_FALSE(dgx1.peers(2).crosses_switches);
  CHECK(dgx1.peers(3).crosses_switches);
  // Another GPU's links take the places of the old one's: 6 of 6.
  Node swapped = dgx1;
  REQUIRE(test::catalog().fit_gpu(swapped, test::catalog().gpu("a100-sxm4-40gb").value()));
  CHECK(swapped.peers(8).bandwidth == gigabytes_per_second(300));
  REQUIRE(test::catalog().fit_gpu(swapped, test::catalog().gpu("a100-pcie-40gb").value()));
  CHECK_FALSE(swapped.peers(8).by_nvlink());
  CHECK_FALSE(swapped.peers(2).by_nvlink());
  const Node switched = test::catalog().node("dgx-a100").value();
  CHECK(switched.peers(2).by == Interconnect::kNvlink);
  CHECK(switched.peers(Places{1, 6}).value().bandwidth == gigabytes_per_second(300));
}
