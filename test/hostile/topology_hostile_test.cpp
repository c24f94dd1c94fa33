// What `ddlsim topology` says to topologies that cannot be.
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "files.h"
#include "hostile/run_program.h"

namespace {

using namespace ddlsim::test;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

const std::string kData = DDLSIM_SOURCE_DATA "/test/data/topology/";

void refuses(int status, const Words& arguments, const Words& says) {
  const Outcome outcome = run_program(plus({"topology"}, arguments));
  CAPTURE(arguments);
  CHECK(outcome.status == status);
  CHECK(outcome.out.substr(0, 80) == "");
  CHECK(outcome.err.size() < 64 << 10);
  for (const std::string& part : says) CHECK_THAT(outcome.err.substr(0, 2000), Contains(part));
  CHECK_THAT(outcome.err.substr(0, 2000), !Contains("fault of ddlsim itself"));
  CHECK(outcome.cpu_seconds < kMostSeconds);
  CHECK(outcome.peak_bytes < kMostBytes);
}

}  // namespace

TEST_CASE("topology: wrong usage", "[hostile]") {
  refuses(2, {}, {"--node, --nccl-xml, --nvidia-smi"});
  refuses(2, {"--node", "dgx-a100", "--nccl-xml", kData + "nvswitch.xml"}, {"more than one"});
  refuses(2, {"--nccl-xml", kData + "nvswitch.xml", "--batch", "4"}, {"'batch' does not go with a file"});
  refuses(2, {"--nccl-xml", kData + "nvswitch.xml", "--nodes-per-leaf", "4"}, {"belong to --node"});
  refuses(2, {"--node", "dgx-a100", "--oversubscription", "0.5"}, {"not at least 1"});
  refuses(2, {"--node", "dgx-a100", "--socket-link", "0 GB/s"}, {"--socket-link"});
  refuses(2, {"--node", "dgx-a100", "--socket-link", "10"}, {"--socket-link"});
  refuses(2, {"--node", "dgx-a100", "--nodes-per-leaf", "0"}, {"--nodes-per-leaf"});
}

TEST_CASE("topology: an oversubscription of no leaf switch is said to be without effect", "[hostile]") {
  const auto told = [](const Words& more) {
    const Outcome run = run_program(plus({"topology", "--node", "dgx-a100", "--nodes", "4"}, more));
    REQUIRE(run.status == 0);
    return run.out.find("stated, but without effect here: --oversubscription") != std::string::npos;
  };
  CHECK(told({"--oversubscription", "2"}));
  CHECK(told({"--oversubscription", "2", "--nodes-per-leaf", "4"}));
  CHECK_FALSE(told({"--oversubscription", "2", "--nodes-per-leaf", "2"}));
  CHECK_FALSE(told({"--oversubscription", "1"}));
}

TEST_CASE("topology: GPUs that meet in the host's memory have its rate first", "[hostile]") {
  const Outcome staged = run_program({"topology", "--node", "p2.8xlarge"});
  CHECK(staged.status == 0);
  CHECK_THAT(staged.out, StartsWith("through the host's memory, 1.5 GB/s per GPU; the links alone would carry a ring"));
  CHECK_THAT(staged.out, Contains("peer_to_peer: no"));
  CHECK_THAT(run_program({"topology", "--node", "p3.16xlarge"}).out, !Contains("host's memory"));
}

TEST_CASE("topology: clusters that are not drawn", "[hostile]") {
  refuses(1, {"--node", "dgx-a1000"}, {"dgx-a100"});
  refuses(1, {"--node", "dgx-a100", "--nodes", "4097"}, {"4097 nodes", "1 to 4096"});
  refuses(1, {"--node", "dgx-a100", "--nodes", "1000000000"}, {"1 to 4096"});
}

TEST_CASE("topology: NCCL files that cannot be", "[hostile]") {
  const TempFolder folder;
  const std::string good = contents(kData + "two_gpus_per_switch.xml");
  const auto refused = [&](const std::string& text, const std::string& says) {
    const std::string path = folder.file("topo.xml", text);
    refuses(1, {"--nccl-xml", path}, {path, says});
  };
  refused("", "not well-formed");
  refused("\x1b[1m" + good, ":1:1: error: a control character");
  refused(good.substr(0, 700), "not well-formed");
  refused(std::string("<system>\0</system>", 18), "control character (0x00)");
  refused("\xff\xfe<\0s\0", "error");
  refused(replaced(good, "0000:11:00.0", "0000:10:00.0"),
          ":5:8: error: the PCI device 0000:10:00.0 is nested in itself");
  refused(replaced(good, "link_width=\"16\"", "link_width=\"0\""), ":4:6: error: link_width");
  refused(replaced(good, "speed=\"100000\"", "speed=\"nan\""), "no bandwidth");
  refuses(1, {"--nccl-xml", folder.path() / "absent.xml"}, {"no such file"});
  refuses(1, {"--nccl-xml", folder.path().string()}, {"not a regular file"});
}

TEST_CASE("topology: huge NCCL files", "[hostile]") {
  const TempFolder folder;
  const std::string open = "<system version=\"1\">";
  refuses(1, {"--nccl-xml", folder.file("deep.xml", open + "<cpu numaid=\"0\">", "<pci busid=\"a\">", 500'000)},
          {"error"});
  refuses(1, {"--nccl-xml", folder.file("cpus.xml", open, "<cpu/>", 500'000, "</system>")}, {"numaid"});
  std::string many = open + "<cpu numaid=\"0\">";
  for (int i = 0; i < 100'000; ++i) many += "<pci busid=\"" + std::to_string(i) + "\" class=\"0x030200\"/>\n";
  refuses(1, {"--nccl-xml", folder.file("gpus.xml", many + "</cpu></system>")}, {"more than 1024 devices"});
  refuses(1, {"--nccl-xml", folder.file("large.xml", "<!--", "0123456789abcdef", 2'000'000, "-->")}, {"16 MiB"});
}

TEST_CASE("topology: matrices that cannot be", "[hostile]") {
  const TempFolder folder;
  const std::string good = contents(kData + "pcie_styled.txt");
  const auto refused = [&](const std::string& text, const std::string& says) {
    const std::string path = folder.file("topo.txt", text);
    refuses(1, {"--nvidia-smi", path, "--gpu", "a100-sxm4-40gb"}, {path, says});
  };
  refused("", "no matrix");
  refused(replaced(good, "\x1b[4m", "\x1b]0;title\x07"), ":1:1: error: a terminal control sequence");
  refused(replaced(good, "\x1b[0m", "\x1b["), "a terminal control sequence");
  refused(good.substr(0, 200), "4 entries, but the header names 6 devices");
  refused(good.substr(0, good.find("Legend")), "the legend is missing");
  refused(replaced(good, "GPU1\tPIX", "GPU1\tSYS"), ":3:6: error: not symmetric");
  refused(replaced(good, "GPU1\tPIX", "GPU1\tPIY"), "valid: X (itself), NV#");
  std::string wide = "GPU0";
  for (int i = 1; i < 5000; ++i) wide += "\tGPU" + std::to_string(i);
  refused(wide, "more than 1024 devices");
  refuses(1, {"--nvidia-smi", kData + "nvswitch.txt", "--gpu", "v100-pcie-16gb"}, {"NVLinks, but the GPU"});
  refuses(1, {"--nvidia-smi", kData + "nvswitch.txt", "--gpu", "a1000"}, {"a100"});
}

TEST_CASE("topology: JSON keeps its contract", "[hostile]") {
  for (const Words& source : {Words{"--node", "dgx1-v100", "--nodes", "2"}, Words{"--nccl-xml", kData + "nvswitch.xml"},
                              Words{"--nvidia-smi", kData + "nvswitch.txt", "--network", "100 Gb/s"}}) {
    const Outcome outcome = run_program(plus(plus({"topology"}, source), {"--json"}));
    REQUIRE(outcome.status == 0);
    CHECK(outcome.err.empty());
    const auto json = nlohmann::json::parse(outcome.out);
    CHECK(json.at("schema") == "ddlsim/topology/1");
    CHECK(json.at("ring").at("bandwidth_bytes_per_s").get<double>() > 0);
    CHECK(json.at("ring").at("latency_s").get<double>() > 0);
    CHECK(json.at("gpu_paths").size() == json.at("gpus").size());
    CHECK(json.at("gpu_paths").at(0).at(0) == "X");
  }
}
