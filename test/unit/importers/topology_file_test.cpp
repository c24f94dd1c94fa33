#include "ddlsim/importers/topology_file.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "catalog.h"
#include "files.h"

using namespace ddlsim;
using namespace ddlsim::importers;
using namespace ddlsim::io;
using Catch::Matchers::Contains;
using ddlsim::test::contents;
using ddlsim::test::replaced;
using hardware::PathClass;
using hardware::Topology;
using hardware::VertexKind;

namespace {

const std::string kData = DDLSIM_SOURCE_DATA "/test/data/topology/";
const std::string kSamples = DDLSIM_SOURCE_DATA "/../shared/data/samples/topo/";

NvidiaSmiOptions links() {
  return {.pcie = test::catalog().link("pcie4-x16").value(),
          .nvlink = test::catalog().link("nvlink3").value(),
          .network = test::catalog().link("infiniband-200g").value(),
          .socket_link = gigabytes_per_second(16)};
}

void xml_refused(const std::string& text, const std::string& says) {
  const auto file = parse_nccl_topology(text, "topo.xml");
  REQUIRE(!file);
  CHECK_THAT(to_string(file.error()), Contains(says));
  CHECK(file.error().where.file == "topo.xml");
}

void matrix_refused(const std::string& text, const std::string& says) {
  const auto file = parse_nvidia_smi_topology(text, "topo.txt", links());
  REQUIRE(!file);
  CHECK_THAT(to_string(file.error()), Contains(says));
  CHECK(file.error().where.file == "topo.txt");
}

double rate(Bandwidth bandwidth) { return bandwidth.in(gigabytes_per_second); }

PathClass between(const Topology& topology, const std::string& a, const std::string& b) {
  return topology.route({topology.find(a).value(), topology.find(b).value()}).value().path;
}

}  // namespace

TEST_CASE("NCCL XML: PCI tree, NVLink pairs, NICs", "[unit][io]") {
  const TopologyFile file = load_nccl_topology(kData + "two_gpus_per_switch.xml").value();
  const Topology& topology = file.topology;
  CHECK(file.notes.empty());
  CHECK(topology.count(VertexKind::kGpu) == 4);
  CHECK(topology.count(VertexKind::kNic) == 2);
  CHECK(topology.count(VertexKind::kPcieSwitch) == 2);
  CHECK(topology.count(VertexKind::kSocket) == 2);
  CHECK(between(topology, "GPU0", "GPU1") == PathClass::kNvl);
  CHECK(between(topology, "GPU1", "GPU2") == PathClass::kSys);
  CHECK(between(topology, "GPU2", "mlx5_1") == PathClass::kPix);
  // 4 NVLinks of 20 GB/s (compute capability 8.0); gen 4 x16 is twice NCCL's 12 GB/s; Skylake's sockets 10 GB/s.
  CHECK(rate(topology.route({0, 1}).value().bandwidth) == Approx(80));
  CHECK(rate(topology.route({0, topology.find("socket0").value()}).value().bandwidth) == Approx(24));
  CHECK(rate(topology.ring().value().bandwidth) == Approx(10));
  // 100 Gb/s, and gen 3 x16 = 12 GB/s in the NIC's slot: 12 for one GPU, 6 for each of two.
  const auto paths = topology.network_paths();
  CHECK(rate(paths[0].route.bandwidth) == Approx(12));
  CHECK(rate(paths[0].together) == Approx(6));
}

TEST_CASE("nvidia-smi: a mesh has the rings of its links", "[unit][io]") {
  // As a p3.8xlarge prints it: the worked example of hardware/nvlink_mesh.h.
  const std::string matrix =
      "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\n"
      "GPU0\t X \tNV1\tNV1\tNV2\t0-31\t\tN/A\n"
      "GPU1\tNV1\t X \tNV2\tNV1\t0-31\t\tN/A\n"
      "GPU2\tNV1\tNV2\t X \tNV2\t0-31\t\tN/A\n"
      "GPU3\tNV2\tNV1\tNV2\t X \t0-31\t\tN/A\n"
      "\nLegend:\n\n  X    = Self\n  SYS  = Connection between NUMA nodes\n  NV#  = Connection traversing a bonded set "
      "of # NVLinks\n";
  const auto file = parse_nvidia_smi_topology(matrix, "topo.txt", links());
  REQUIRE(file);
  CHECK(rate(file->topology.ring().value().bandwidth) == Approx(100));
}

TEST_CASE("NCCL XML: NVSwitches are one, GPUs in NCCL's order", "[unit][io]") {
  const TopologyFile file = load_nccl_topology(kData + "nvswitch.xml").value();
  const Topology& topology = file.topology;
  CHECK(topology.count(VertexKind::kNvswitch) == 1);
  CHECK(topology.vertices()[topology.gpus()[0]].id == "GPU0");
  CHECK(rate(topology.ring().value().bandwidth) == Approx(240));  // 12 links of 20 GB/s
  CHECK(topology.network_paths().empty());
}

TEST_CASE("NCCL XML: the static file of p4d.24xlarge", "[unit][io]") {
  const std::string path = kSamples + "p4d-24xl-topo.xml";
  if (!std::filesystem::exists(path)) {
    WARN("skipped: no " << path);
    return;
  }
  const TopologyFile file = load_nccl_topology(path).value();
  const Topology& topology = file.topology;
  CHECK(topology.count(VertexKind::kGpu) == 8);
  CHECK(topology.count(VertexKind::kNic) == 4);
  CHECK(topology.count(VertexKind::kPcieSwitch) == 4);
  CHECK(between(topology, "GPU0", "GPU1") == PathClass::kPix);
  CHECK(between(topology, "GPU0", "GPU2") == PathClass::kPhb);
  CHECK(between(topology, "GPU0", "GPU4") == PathClass::kSys);
  CHECK(topology.network_paths()[2].nic == topology.nearest_nic(3));
  // Gen 3 x16: 12 GB/s alone, and two GPUs share their NIC's slot.
  CHECK(rate(topology.network_paths()[0].route.bandwidth) == Approx(12));
  CHECK(rate(topology.network_paths()[0].together) == Approx(6));
}

TEST_CASE("NCCL XML: the static file of g5.48xlarge names no kinds of devices", "[unit][io]") {
  const std::string path = kSamples + "g5.48xl-topo.xml";
  if (!std::filesystem::exists(path)) {
    WARN("skipped: no " << path);
    return;
  }
  const auto file = load_nccl_topology(path);
  REQUIRE(!file);
  CHECK_THAT(to_string(file.error()),
             Contains("g5.48xl-topo.xml:14:6: error: the PCI device 0000:00:16.0 has no class"));
}

TEST_CASE("NCCL XML: what is refused", "[unit][io]") {
  const std::string good = contents(kData + "two_gpus_per_switch.xml");
  CHECK(parse_nccl_topology(good, "topo.xml"));
  xml_refused("", "not well-formed");
  xml_refused(good.substr(0, good.size() / 2), "not well-formed");
  xml_refused("<system></systm>", "topo.xml:1:");
  xml_refused("\x1b[31m<system/>", "topo.xml:1:1: error: a control character (0x1b)");
  xml_refused("<!DOCTYPE a [<!ENTITY b \"c\">]><system/>", "<!DOCTYPE>");
  xml_refused("<graph/>", "not <system>");
  xml_refused("<system/>", "no <cpu>");
  xml_refused("<system><cpu numaid=\"0\"/></system>", "no GPU");
  xml_refused("<system><cpu/></system>", "needs the attribute 'numaid'");
  xml_refused(replaced(good, "<cpu ", "<cpo "), "not well-formed");
  xml_refused(replaced(good, "<nic>", "<nick/><nic>"), "unknown element <nick>");
  xml_refused(replaced(good, "busid=\"0000:11:00.0\"", "busid=\"0000:10:00.0\""),
              "topo.xml:5:8: error: the PCI device 0000:10:00.0 is nested in itself");
  xml_refused(replaced(good, "busid=\"0000:12:00.0\"", "busid=\"0000:11:00.0\""), "stands twice, first on line 5");
  xml_refused(replaced(good, "16.0 GT/s PCIe", "0 GT/s"), "topo.xml:4:6: error: link_speed '0 GT/s'");
  xml_refused(replaced(good, "16.0 GT/s PCIe", "fast"), "'16 GT/s'");
  xml_refused(replaced(good, "link_width=\"16\"", "link_width=\"0\""), "link_width of <pci>");
  xml_refused(replaced(good, "count=\"4\"", "count=\"3\""),
              "3 NVLinks lead from 0000:11:00.0 to 0000:12:00.0, but 4 back");
  xml_refused(replaced(good, "count=\"4\"", "count=\"0\""), "count of <nvlink>");
  xml_refused(replaced(good, "target=\"0000:12:00.0\"", "target=\"0000:11:00.0\""), "to itself");
  xml_refused(replaced(good, "tclass=\"0x030200\"", "tclass=\"0x068001\""), "POWER9");
  xml_refused(replaced(good, "speed=\"100000\"", "speed=\"0\""), "no bandwidth");
  xml_refused(replaced(good, "dev=\"1\"", "dev=\"0\""), "'GPU0' stands twice");
  xml_refused(replaced(good, " sm=\"80\"", ""), "needs the attribute 'sm'");
  xml_refused(replaced(good, "numaid=\"1\"", "numaid=\"0\""), "a second <cpu> with numaid 0");
  xml_refused(replaced(good, "numaid=\"1\"", "numaid=\"1\" numaid=\"2\""), "'numaid' twice");
  std::string deep = "<system><cpu numaid=\"0\">";
  for (int i = 0; i < 100; ++i) deep += "<pci class=\"0x060400\" busid=\"" + std::to_string(i) + "\">";
  for (int i = 0; i < 100; ++i) deep += "</pci>";
  xml_refused(deep + "</cpu></system>", "more than 64 deep");
}

TEST_CASE("NCCL XML: defaults are said", "[unit][io]") {
  const std::string good = contents(kData + "two_gpus_per_switch.xml");
  const auto file = parse_nccl_topology(replaced(good, " link_speed=\"16.0 GT/s PCIe\"", ""), "topo.xml").value();
  REQUIRE(file.notes.size() == 1);
  CHECK_THAT(file.notes[0], Contains("line 4") && Contains("8 GT/s x16"));
}

TEST_CASE("nvidia-smi: underlined matrix of PCIe GPUs", "[unit][io]") {
  const TopologyFile file = load_nvidia_smi_topology(kData + "pcie_styled.txt", links()).value();
  const Topology& topology = file.topology;
  CHECK(topology.count(VertexKind::kGpu) == 4);
  CHECK(topology.count(VertexKind::kPcieSwitch) == 2);
  CHECK(topology.count(VertexKind::kSocket) == 2);
  CHECK(between(topology, "GPU0", "GPU1") == PathClass::kPix);
  CHECK(between(topology, "GPU0", "GPU3") == PathClass::kSys);
  CHECK(between(topology, "GPU2", "mlx5_1") == PathClass::kPix);
  CHECK(rate(topology.ring().value().bandwidth) == Approx(16));  // the socket link
  // PCIe 4.0 x16, 31.508 GB/s, is wider than the 25 GB/s port that two GPUs share.
  CHECK(rate(topology.network_paths()[0].together) == Approx(12.5));
}

TEST_CASE("nvidia-smi: NVSwitch hides the PCIe tree, NICs tell it", "[unit][io]") {
  const TopologyFile file = load_nvidia_smi_topology(kData + "nvswitch.txt", links()).value();
  const Topology& topology = file.topology;
  CHECK(topology.count(VertexKind::kGpu) == 8);
  CHECK(topology.count(VertexKind::kNic) == 4);
  CHECK(topology.count(VertexKind::kSocket) == 2);
  CHECK(topology.count(VertexKind::kRootComplex) == 4);
  CHECK(topology.count(VertexKind::kNvswitch) == 1);
  CHECK(between(topology, "GPU0", "GPU7") == PathClass::kNvl);
  CHECK(between(topology, "GPU0", "NIC0") == PathClass::kPxb);
  CHECK(between(topology, "GPU0", "NIC1") == PathClass::kNode);
  CHECK(between(topology, "GPU0", "NIC2") == PathClass::kSys);
  CHECK(rate(topology.ring().value().bandwidth) == Approx(300));  // NV12 of 25 GB/s
}

TEST_CASE("nvidia-smi: what is refused", "[unit][io]") {
  const std::string good = contents(kData + "pcie_styled.txt");
  CHECK(parse_nvidia_smi_topology(good, "topo.txt", links()));
  matrix_refused("", "no matrix");
  matrix_refused(good.substr(0, good.find("Legend")), "legend is missing");
  matrix_refused(good.substr(0, good.find("\nGPU3\t")), "row of GPU3");
  matrix_refused(replaced(good, "\x1b[4m", "\x1b[2J"), "topo.txt:1:1: error: a terminal control sequence");
  matrix_refused(replaced(good, "\x1b[4m", "\x07"), "control character (0x07)");
  matrix_refused(replaced(good, "GPU1\tPIX", "GPU1\tPIZ"), "topo.txt:3:6: error: unknown entry 'PIZ'");
  matrix_refused(replaced(good, "GPU1\tPIX", "GPU1\tPIZ"), "PXB, PHB, NODE, SYS");
  matrix_refused(replaced(good, "GPU1\tPIX", "GPU1\tSYS"), "topo.txt:3:6: error: not symmetric");
  matrix_refused(replaced(good, "GPU1\tPIX", "GPU1\tNV0"), "unknown entry 'NV0'");
  matrix_refused(replaced(good, "GPU1\tPIX\t", "GPU1\t"), "error");
  matrix_refused(replaced(good, "GPU1\tPIX", "GPU2\tPIX"), "the row of GPU2 where that of GPU1 belongs");
  matrix_refused(replaced(good, "GPU3\tmlx5_0", "GPU2\tmlx5_0"), "the column GPU2 stands twice");
  matrix_refused(replaced(good, "mlx5_0\tPIX", "mlx5_0\tNV4"), "not symmetric");
  std::string torn = replaced(good, "GPU1\tPIX", "GPU1\tSYS");
  torn = replaced(torn, "GPU0\t X \tPIX", "GPU0\t X \tSYS");
  matrix_refused(torn, "in common with the others makes it PIX");
  NvidiaSmiOptions bare = links();
  bare.nvlink.reset();
  const auto none = parse_nvidia_smi_topology(contents(kData + "nvswitch.txt"), "topo.txt", bare);
  REQUIRE(!none);
  CHECK_THAT(to_string(none.error()), Contains("name the GPU"));
}
