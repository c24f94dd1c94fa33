// What drives a network and how NCCL is tuned follow from what files and users say; what nobody says is assumed.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "catalog.h"
#include "ddlsim/cost/price.h"
#include "ddlsim/whatif/collective.h"
#include "ddlsim/whatif/compare.h"
#include "ddlsim/whatif/predict.h"
#include "ddlsim/whatif/predictor.h"
#include "overrides.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using namespace ddlsim::whatif;
using ddlsim::test::joined;
using ddlsim::test::overrides;

namespace {

namespace fs = std::filesystem;

/// A copy of a shipped file under another name, each `from` replaced by its `to`.
class OwnFile {
 public:
  OwnFile(const std::string& shipped, const std::string& name,
          const std::vector<std::pair<std::string, std::string>>& edits)
      : path_(fs::temp_directory_path() / ("ddlsim-own-" + std::to_string(::getpid())) / (name + ".yaml")) {
    std::ostringstream read;
    read << std::ifstream(fs::path(DDLSIM_SOURCE_DATA) / "hardware" / shipped).rdbuf();
    std::string text = read.str();
    for (const auto& [from, to] : edits) {
      const std::size_t at = text.find(from);
      REQUIRE(at != std::string::npos);
      text.replace(at, from.size(), to);
    }
    fs::create_directories(path_.parent_path());
    std::ofstream(path_) << text;
  }
  ~OwnFile() { fs::remove_all(path_.parent_path()); }
  OwnFile(const OwnFile&) = delete;
  OwnFile& operator=(const OwnFile&) = delete;
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

answer::Prediction all_reduced(const std::string& network, std::vector<Override> more = {}) {
  const std::vector<Override> settings =
      joined(overrides("model vgg16; node dgx1-v100; nodes 4; strategy allreduce; network {}", network), more);
  return predict(resolve(catalog(), settings).value()).value();
}

bool assumes(const answer::Prediction& p, const std::string& words) {
  return std::any_of(p.notes.begin(), p.notes.end(),
                     [&](const std::string& note) { return note.starts_with("assumed: " + words); });
}
bool assumes_tcp(const answer::Prediction& p) { return assumes(p, "TCP drives the network"); }

Time collective_time(const std::vector<Override>& settings) {
  const Scenario scenario = resolve_cluster(catalog(), settings).value();
  const auto model =
      cost::CollectiveModel::create(cost::communicator_of(scenario), cost::collective_library_of(scenario));
  return model.value().cost(primitives::CollectiveOp::kAllReduce, gigabytes(1)).time;
}

}  // namespace

TEST_CASE("transport: where a rate took the place of a network, what drove that is named", "[unit][whatif]") {
  const std::string own =
      "TCP drives the network, of which a rate alone is stated; --set network.transport=infiniband ";
  CHECK(assumes(all_reduced("25 Gb/s"), own));
  CHECK_FALSE(assumes(all_reduced("ethernet-25g"), own));
  CHECK_FALSE(assumes_tcp(all_reduced("25 Gb/s", {{"network.transport", "infiniband", {}}})));
  const auto open = overrides("model vgg16; node pcie-4x2080ti; nodes 4; network 25 Gb/s");  // its file says none
  CHECK(assumes(predict(resolve(catalog(), open).value()).value(), "TCP drives the network; "));
}

TEST_CASE("transport: a copy of a link does what the link does", "[unit][whatif]") {
  const OwnFile mine("links/tcp-100g.yaml", "my-tcp", {{"link: tcp-100g", "link: my-tcp"}});
  const auto on = [](const std::string& network) {
    return collective_time(overrides("node dgx1-v100; nodes 4; network {}", network));
  };
  CHECK(on(mine.path()) == on("tcp-100g"));
  CHECK(on("roce-100g") < on("tcp-100g"));
  CHECK(all_reduced(mine.path()).step_time == all_reduced("tcp-100g").step_time);
  CHECK_FALSE(assumes_tcp(all_reduced(mine.path())));
}

TEST_CASE("transport: nothing jumps between 99 and 100 Gb/s", "[unit][whatif]") {
  const Time below = all_reduced("99 Gb/s").step_time;
  const Time at = all_reduced("100 Gb/s").step_time;
  CHECK(at <= below);
  CHECK(at / below > 1 - 0.015);
}

TEST_CASE("transport: what nobody says is TCP, and the interval reaches to RDMA", "[unit][whatif]") {
  const answer::Prediction open = all_reduced("100 Gb/s");
  const answer::Prediction tcp = all_reduced("100 Gb/s", overrides("network.transport tcp"));
  const answer::Prediction roce = all_reduced("100 Gb/s", overrides("network.transport roce"));
  CHECK(assumes_tcp(open));
  CHECK(open.provenance == Provenance::kAssumed);
  CHECK(open.step_time == tcp.step_time);
  CHECK(open.interval_90.first == roce.interval_90.first);
  CHECK(open.interval_90.second == tcp.interval_90.second);
  CHECK(roce.interval_90.first < tcp.interval_90.first);
  for (const answer::Prediction& stated : {tcp, roce, all_reduced("roce-100g")}) {
    CHECK_FALSE(assumes_tcp(stated));
    CHECK(stated.provenance != Provenance::kAssumed);
  }
  CHECK(roce.step_time == all_reduced("roce-100g").step_time);
  // At 10 Gb/s TCP is the faster in the wire: the interval stays what it is.
  const answer::Prediction slow = all_reduced("10 Gb/s");
  CHECK(slow.interval_90.second == all_reduced("10 Gb/s", overrides("network.transport tcp")).interval_90.second);
  CHECK(slow.interval_90.first <= all_reduced("10 Gb/s", overrides("network.transport tcp")).interval_90.first);
}

TEST_CASE("transport: where RDMA is assumed, the interval reaches to TCP's step", "[unit][whatif]") {
  const auto on = [](std::vector<Override> more) {
    more = joined(overrides("node dgx-h100; nodes 2; precision fp16"), more);
    return all_reduced("200 Gb/s", std::move(more));
  };
  const answer::Prediction open = on({});
  const answer::Prediction tcp = on(overrides("network.transport tcp"));
  const answer::Prediction roce = on(overrides("network.transport roce"));
  CHECK(open.step_time == roce.step_time);
  CHECK(tcp.step_time > roce.step_time * 2);
  CHECK(open.interval_90.second >= tcp.step_time);
  CHECK(roce.interval_90.second < tcp.step_time);
  CHECK(assumes(open, "RDMA drives the network"));
}

TEST_CASE("transport: twice the rate never lengthens a step", "[unit][whatif]") {
  Predictor predictor;
  for (const char* node : {"dgx1-p100", "dgx1-v100", "dgx-a100", "dgx-h100", "p3.16xlarge", "g4dn.xlarge"}) {
    for (const char* strategy : {"allreduce", "pytorch-ddp", "ps"}) {
      // Of four cards exactly. Where the rate says how many there are, each holds two more of NCCL's blocks.
      for (const auto& [cards, slack] : {std::pair{"4 x ", 1e-9}, {"", 1e-3}}) {
        Time last = Time::infinity();
        for (double rate = 1; rate <= 1e6; rate *= 2) {
          CAPTURE(node, strategy, cards, rate);
          const std::vector<Override> settings = overrides("model vgg16; node {}; nodes 2; strategy {}; network {}",
                                                           node, strategy, cards + std::to_string(rate) + " Gb/s");
          const Time step = predictor.step_time(resolve(catalog(), settings).value()).value();
          CHECK(step <= last * (1 + slack));
          last = step;
        }
      }
    }
  }
}

TEST_CASE("transport: a rate leaves open what drives it, a link of the server does not", "[unit][whatif]") {
  const auto transport = [](std::vector<Override> more) {
    const std::vector<Override> settings = joined(overrides("node dgx1-v100; nodes 4"), more);
    return resolve_cluster(catalog(), settings).value().cluster.node.network.transport.get();
  };
  CHECK(transport({}) == hardware::NetworkTransport::kInfiniband);
  CHECK_FALSE(transport(overrides("network 100 Gb/s")));
  CHECK_FALSE(transport(overrides("network ethernet-100g")));
  // Whatever order they are stated in.
  CHECK(transport(overrides("network.transport roce; network 100 Gb/s")) == hardware::NetworkTransport::kRoce);
  CHECK(transport(overrides("network.transport tcp")) == hardware::NetworkTransport::kTcp);
}

TEST_CASE("transport: sockets that move less than the wire are what binds", "[unit][whatif]") {
  const auto bound = [](const std::string& network) {
    return all_reduced(network, overrides("gpus_per_node 1; gpu b200-sxm-180gb")).bottleneck;
  };
  CHECK(bound("tcp-100g") == "transport");  // 32 of 100 Gb/s
  CHECK(bound("tcp-10g") == "network");
  CHECK(bound("roce-25g") == "network");
}

TEST_CASE("transport: parameter servers are reached by what drives the network, unless it is said", "[unit][whatif]") {
  CHECK(assumes_tcp(all_reduced("100 Gb/s", overrides("strategy ps"))));
  CHECK_FALSE(assumes_tcp(all_reduced("100 Gb/s", overrides("strategy ps; ps.transport grpc"))));
  CHECK_FALSE(assumes_tcp(all_reduced("100 Gb/s", overrides("strategy ps; efficiency.network 70%"))));
  CHECK_FALSE(assumes_tcp(all_reduced("100 Gb/s", overrides("nodes 1"))));
}

TEST_CASE("transport: the faster network that is tried is driven as this one", "[unit][whatif]") {
  const std::vector<Override> base = overrides("model vgg16; node dgx1-v100; nodes 4; strategy allreduce");
  const auto comparison = what_would_help(catalog(), base).value();
  const auto network = std::find_if(comparison.alternatives.begin(), comparison.alternatives.end(),
                                    [](const auto& one) { return one.name.starts_with("network"); });
  REQUIRE(network != comparison.alternatives.end());
  CHECK(network->name == "network = 4 x 200 Gb/s, network.transport = infiniband");
  CHECK(network->speedup >= 1);
  CHECK_FALSE(assumes_tcp(network->prediction));
}

TEST_CASE("transport: GPUs that reach each other through their host sum at that rate before servers do",
          "[unit][whatif]") {
  // Eight RTX 3090 without peer access: two servers of them pushed and pulled in a third of what one takes by itself.
  const auto step = [](const std::string& nodes, const std::string& framework) {
    const std::vector<Override> settings =
        overrides("model bert_large; node pcie-8x3090; nodes {}; network 100 Gb/s; precision fp32; strategy {}", nodes,
                  framework);
    return predict(resolve(catalog(), settings).value()).value().step_time;
  };
  CHECK(step("2", "byteps") > step("1", "pytorch-ddp") * 0.9);
}

TEST_CASE("tuning: a GPU's architecture is a name", "[unit][whatif]") {
  const OwnFile renamed(
      "gpus/h100-sxm5-80gb.yaml", "my-h100",
      {{"gpu: h100-sxm5-80gb", "gpu: my-h100"}, {"architecture: Hopper", "architecture: Grasshopper"}});
  const auto on = [](const std::string& gpu) { return overrides("node dgx-h100; gpu {}", gpu); };
  CHECK(collective_time(on(renamed.path())) == collective_time(on("h100-sxm5-80gb")));
  CHECK_FALSE(cost::communicator_of(resolve_cluster(catalog(), on(renamed.path())).value()).tuning_assumed);
}

TEST_CASE("tuning: where a file does not say, the answer is assumed", "[unit][whatif]") {
  const OwnFile silent(
      "gpus/h100-sxm5-80gb.yaml", "my-h100",
      {{"gpu: h100-sxm5-80gb", "gpu: my-h100"}, {"\nnccl_tuning: hopper", ""}, {"  nccl_tuning:", "  # nccl_tuning:"}});
  const auto on = [](const std::string& gpu) {
    std::vector<Override> settings = overrides("model vgg16; node dgx-h100; strategy allreduce");
    for (const char* share : {"compute", "memory", "pcie"}) {
      settings.push_back({std::string("efficiency.") + share, "50 %", {}});
    }
    settings.push_back({"gpu", gpu, {}});
    return predict(resolve(catalog(), settings).value()).value();
  };
  const answer::Prediction silence = on(silent.path());
  CHECK(silence.provenance == Provenance::kAssumed);
  CHECK(std::any_of(silence.notes.begin(), silence.notes.end(),
                    [](const std::string& note) { return note.find("has no nccl_tuning") != std::string::npos; }));
  CHECK(on("h100-sxm5-80gb").provenance == Provenance::kAnalytic);
}

TEST_CASE("network: what joins a server's GPUs is no matter of one GPU, nor of eight behind a slow card",
          "[unit][whatif]") {
  const auto step = [](const char* node, const char* gpus, const char* inside) {
    const std::vector<Override> settings = overrides(
        "model resnet50; node {}; nodes 4; gpus_per_node {}; network 25 Gb/s; gpu_interconnect {}", node, gpus, inside);
    return predict(resolve(catalog(), settings).value())->step_time.in(milliseconds);
  };
  for (const char* node : {"dgx-a100", "dgx1-v100", "dgx-h100"}) {
    CAPTURE(node);
    CHECK(step(node, "1", "nvlink") == Approx(step(node, "1", "pcie")).epsilon(2e-3));
  }
  // All eight of a DGX-1: NVLink was held for as long as the network took.
  const double pcie = step("dgx1-v100", "8", "pcie");
  CHECK(step("dgx1-v100", "8", "nvlink-mesh") < pcie * 1.002);
  CHECK(step("dgx1-v100", "8", "nvlink") < pcie * 1.002);
}

TEST_CASE("transport: what carries servers' messages drives their ports, said or assumed", "[unit][whatif]") {
  const auto step = [](const std::string& network, const std::string& transport) {
    std::vector<Override> stated = overrides("strategy ps");
    if (!transport.empty()) stated.push_back({"ps.transport", transport, {}});
    return all_reduced(network, stated).step_time;
  };
  // TCP reaches 94 % of a slow port, and 32 Gb/s of any; verbs what RDMA does. Messages take some of it.
  for (const std::string network : {"10 Gb/s", "25 Gb/s", "100 Gb/s TCP"}) {
    INFO(network);
    CHECK(step(network, "tcp") >= step(network, ""));
    CHECK(step(network, "tcp") <= step(network, "") * 1.05);
    CHECK(step(network, "rdma") <= step(network, "tcp"));
    CHECK(step(network, "grpc") >= step(network, "tcp"));
  }
  // gRPC reaches 70 of the 94 %, where the network is all that counts.
  CHECK(step("1 Gb/s", "grpc") / step("1 Gb/s", "tcp") == Approx(0.94 / 0.7).epsilon(0.03));
  CHECK(step("100 Gb/s RoCE", "rdma") >= step("100 Gb/s RoCE", ""));
  CHECK(step("100 Gb/s RoCE", "rdma") <= step("100 Gb/s RoCE", "") * 1.05);
  CHECK(step("100 Gb/s RoCE", "tcp") == step("100 Gb/s TCP", "tcp"));
  CHECK(step("100 Gb/s TCP", "rdma") == step("100 Gb/s RoCE", "rdma"));
  CHECK(step("100 Gb/s InfiniBand", "rdma") <= step("100 Gb/s RoCE", "rdma"));
}

TEST_CASE("transport: what NCCL makes of Omni-Path is said, and what says otherwise", "[unit][whatif]") {
  const auto noted = [](const std::string& network, const std::string& more = {}) {
    const auto job = overrides("model resnet50; node dgx1-v100; nodes 2; network {}{}", network, more);
    const auto notes = predict(resolve(catalog(), job).value()).value().notes;
    return std::any_of(notes.begin(), notes.end(),
                       [](const std::string& note) { return note.find("psm2-nccl") != std::string::npos; });
  };
  CHECK(noted("4 x omni-path-100g"));
  CHECK(noted("100 Gb/s OPA"));
  CHECK_FALSE(noted("4 x omni-path-100g", "; network.transport infiniband"));
  CHECK_FALSE(noted("4 x omni-path-100g", "; collective.library mpi"));
  CHECK_FALSE(noted("100 Gb/s InfiniBand"));
}
