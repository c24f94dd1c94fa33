// Networks between servers in the words of sources.
#include <catch2/catch.hpp>
#include <filesystem>

#include "case_row.h"
#include "cases/case_network.h"
#include "cases/case_words.h"

using namespace ddlsim;

namespace {

/// What a case on two servers of eight GPUs makes of a setting; the last value, or nothing.
std::string said_on(const std::string& gpu, const std::string& published, const std::string& path) {
  io::Case one = test::row();
  one.gpu = gpu;
  one.inter_network = published;
  return test::said(one, path);
}

std::string network(const std::string& published) { return said_on("V100-SXM2-16GB", published, "network"); }

}  // namespace

TEST_CASE("case: networks as sources print them", "[unit][whatif]") {
  CHECK(network("").empty());  // the server's own
  CHECK(network("1x100Gb EDR InfiniBand per node (ConnectX-4 MT27700)") == "infiniband-100g");
  CHECK(network("Storage: 2x ConnectX-6 IB HDR 200Gb/sec, Compute: 8x ConnectX-6 IB HDR 200Gb/Sec") ==
        "8 x infiniband-200g");
  CHECK(network("32x100Gb EFA =3200Gb (p5.48xlarge)") == "32 x aws-efa-100g");
  CHECK(network("10GbE (EC2 p2.8xlarge)") == "ethernet-10g");
  CHECK(network("2.5 Gb/s") == "2.5 Gb/s");
  CHECK(network("1.6Tb/s") == "1600 Gb/s");
  CHECK(network("EDR InfiniBand") == "infiniband-100g");
  CHECK(network("InfiniBand 100 Gb/s (4X EDR), one port") == "infiniband-100g");  // lanes
  CHECK(network("4x InfiniBand 100 Gb/sec (4X EDR)") == "4 x infiniband-100g");
  CHECK(network("4x EDR") == "4 x infiniband-100g");
  CHECK(network("not stated (plateau 0.99 GB/s ~ 10 Gb/s class link)") == "ethernet-10g");
  CHECK(network("[ConnectX-6] 100 GB/Sec") == "roce-100g");  // a slip for Gb; RDMA drives the card
  CHECK(network("Storage: 2x BF3 ConnectX-7 400Gb/s, Compute: 8x BF3 ConnectX-7 400Gb/s") == "8 x roce-400g");
  CHECK(network("400 Gb/s with GPU direct RDMA") == "roce-400g");  // who has InfiniBand says so
  // What PCIe carries inside the server is no port: the server's own.
  CHECK(network("ROCE2; Data bandwidth for GPU-PCIe: 504 GB/s; PCIe-NIC: 500 GB/s").empty());
  CHECK(network("Cray Aries dragonfly (Piz Daint XC50)") == "cray-aries");
  CHECK(network("0 Gb/s") == "error: no rate can be read from '0 Gb/s'");
}

TEST_CASE("case: the same network in the words of other sources", "[unit][whatif]") {
  for (const std::string published : {"2x EDR", "2 x EDR 100Gb/s", "dual-rail EDR", "EDR InfiniBand 100G x 2"}) {
    CHECK(network(published) == "2 x infiniband-100g");
  }
  CHECK(network("4xEDR (100 Gb/s each)") == "4 x infiniband-100g");
  for (const std::string published : {"8\u00d7200Gb/s HDR", "200Gb/s HDR x 8", "200 Gb/s InfiniBand per GPU"}) {
    CHECK(network(published) == "8 x infiniband-200g");
  }
  for (const std::string published : {"10 Gigabit Ethernet", "10G", "10 Gbit/s"}) {
    CHECK(network(published) == "ethernet-10g");
  }
  CHECK(network("HDR100") == "infiniband-100g");
  CHECK(network("100G IB") == "infiniband-100g");
  CHECK(network("QDR") == "infiniband-40g");
  CHECK(network("OPA 100") == "omni-path-100g");
  CHECK(network("Intel Omni-Path") == "omni-path-100g");
  // AWS names what an instance has.
  for (const std::string published : {"4x100 Gbps EFA", "400 Gbps EFA", "EFA (400 Gbps)", "EFA 400G"}) {
    CHECK(network(published) == "4 x aws-efa-100g");
  }
  CHECK(network("a3-highgpu-8g").empty());  // no rate
  const auto driver = [](const std::string& published) {
    return said_on("V100-SXM2-16GB", published, "network.transport");
  };
  CHECK(driver("8 x 400 Gb/s") == "roce");  // nobody buys such cards for TCP
  CHECK(driver("100 Gb/s").empty());        // may be either
  CHECK(driver("Slingshot-11") == "roce");
  CHECK(driver("10GbE, TCP sockets") == "tcp");
  CHECK(driver("4 x Omni-Path 100") == "omni-path");
  CHECK(driver("Omni-Path 200 Gb/s") == "omni-path");
}

TEST_CASE("case: who submits to MLPerf drives Omni-Path by its own library", "[unit][whatif]") {
  io::Case one = test::row();
  one.inter_network = "2x Cornelis Omni-Path HFI 100 Series 100Gb/s a node";
  CHECK(test::said(one, "network.transport") == "omni-path");
  one.source = "github:mlcommons/training_results_v3.0:Dell/results";
  CHECK(test::said(one, "network.transport") == "infiniband");
}

TEST_CASE("case: rates in megabits and in bytes", "[unit][whatif]") {
  for (const std::string published : {"1000 Mb/s", "1000 Mbit Ethernet", "1000Mbps", "125 MB/s", "1 Gigabit Ethernet",
                                      "Gigabit Ethernet", "1G Ethernet", "1000 MbE", "1000 megabit/s"}) {
    CAPTURE(published);
    CHECK(network(published) == "ethernet-1g");
  }
  CHECK(network("100 MB/s") == "0.8 Gb/s");
  CHECK(network("40000 Mb/s") == "ethernet-40g");
  CHECK(network("50 GB/s") == "ethernet-400g");
  CHECK(network("8 x 50 GBps InfiniBand") == "8 x infiniband-400g");
  CHECK(network("InfiniBand, SR-IOV VFs, 8 ports x 200 Gb/s") == "8 x infiniband-200g");
  CHECK(network("4 ConnectX-7 NICs (400 Gb/s InfiniBand each)") == "infiniband-400g");  // a card's name is no number
  CHECK(network("50 Gbytes/s RoCE") == "roce-400g");
  CHECK(network("EDR 100 GB/s") == "infiniband-100g");              // a slip for Gb: no port of it carries 800
  CHECK(network("100GB EFA") == "aws-efa-100g");                    // likewise
  CHECK(network("10 Gb/s, 1100 MB/s measured") == "ethernet-10g");  // bits are what was bought
  CHECK(network("25 Gb/s Ethernet (window of 4 MB)") == "ethernet-25g");
}

TEST_CASE("case: a product's number is none of ports", "[unit][whatif]") {
  for (const std::string published :
       {"10GbE Intel X710", "Intel 10G X710", "Intel X540 10 Gb/s", "10GigE", "10 GigE"}) {
    CAPTURE(published);
    CHECK(network(published) == "ethernet-10g");
  }
  for (const std::string published : {"GigE", "GbE", "1 GigE"}) {
    CAPTURE(published);
    CHECK(network(published) == "ethernet-1g");
  }
  CHECK(network("100 Gb/s ConnectX-6 x 2") == "2 x roce-100g");  // not six
  CHECK(network("64 x 100 Gb/s RoCE") == "roce-100g");           // nobody's server has so many
  CHECK(network("32x100Gb EFA") == "32 x aws-efa-100g");
  for (const std::string published : {"2-port 25G", "2 port 25G", "dual-port 25GbE", "25G x2"}) {
    CAPTURE(published);
    CHECK(network(published) == "2 x ethernet-25g");
  }
  CHECK(network("25 Gb/s, transport not stated") == "ethernet-25g");
}

TEST_CASE("case: lanes of one port are none of ports", "[unit][whatif]") {
  for (const std::string published : {"EDR 4x", "InfiniBand 4X EDR", "IB 4x EDR", "InfiniBand EDR (4X)"}) {
    CAPTURE(published);
    CHECK(network(published) == "infiniband-100g");
  }
  CHECK(network("HDR 4x") == "infiniband-200g");
  CHECK(network("IB 4x FDR10") == "infiniband-40g");
  for (const std::string published :
       {"4 x HDR", "4x HDR 200Gb/s", "InfiniBand HDR 4x200Gb/s", "HDR 4x NICs", "4xHDR", "InfiniBand: 4x HDR"}) {
    CAPTURE(published);
    CHECK(network(published) == "4 x infiniband-200g");
  }
}

TEST_CASE("case: commas in a rate part thousands", "[unit][whatif]") {
  CHECK(network("25,000 Mbps") == "ethernet-25g");
  CHECK(network("3,200 Gbps EFA") == "32 x aws-efa-100g");
  CHECK(network("4 NICs (mlx5_0,1,4,5), 100 Gb/s") == "ethernet-100g");
}

TEST_CASE("case: a network that cannot be read is refused, not another one", "[unit][whatif]") {
  for (const std::string published : {"1000000000 bit/s", "7 xbit Ethernet", "9600 baud TCP"}) {
    CHECK_THAT(network(published), Catch::Matchers::Contains("no rate can be read from '" + published));
  }
  // What says nothing of a rate leaves the server its own.
  for (const std::string published : {"-", "unstated", "AWS default (unshaped TCP)", "p3.16xlarge", "InfiniBand"}) {
    CAPTURE(published);
    CHECK_THAT(network(published), !Catch::Matchers::Contains("error"));
  }
}

TEST_CASE("case: a rate of today's cards is one card's, a slower one another network's", "[unit][whatif]") {
  const auto of_h100 = [](const std::string& published, const std::string& path) {
    return said_on("H100-SXM5-80GB", published, path);
  };
  CHECK(of_h100("400 Gb/s InfiniBand", "network") == "8 x infiniband-400g");
  CHECK(of_h100("200 Gb/s HDR InfiniBand", "network") == "8 x infiniband-200g");
  CHECK(of_h100("10GbE", "network") == "ethernet-10g");
  CHECK(of_h100("10GbE", "network.transport") == "tcp");
  CHECK(of_h100("100 Gb/s RoCE", "network") == "roce-100g");
}

TEST_CASE("case: a network that is denied is TCP over the server's Ethernet", "[unit][whatif]") {
  const auto driver = [](const std::string& published) {
    return said_on("A100-SXM4-80GB", published, "network.transport");
  };
  const auto link = [](const std::string& published) { return said_on("A100-SXM4-80GB", published, "network"); };
  for (const std::string published :
       {"Ethernet TCP (InfiniBand off)", "no InfiniBand", "Ethernet without RDMA", "NCCL_IB_DISABLE=1", "IB disabled",
        "Ethernet, InfiniBand is disabled", "200 Gb/s HDR InfiniBand, NCCL_IB_DISABLE=1", "8x HDR InfiniBand off",
        "w/o IB", "RDMA not available"}) {
    CAPTURE(published);
    CHECK(driver(published) == "tcp");
    CHECK(link(published) == "ethernet-100g");  // a server of modules of today
  }
  CHECK(link("25 Gb/s Ethernet without InfiniBand") == "ethernet-25g");
  CHECK(driver("25 Gb/s Ethernet without InfiniBand") == "tcp");
  CHECK(link("8x 200 Gb/s InfiniBand off, 100GbE") == "ethernet-100g");
  CHECK(driver("ConnectX-5 100 Gb/s, no RDMA") == "tcp");
  CHECK(driver("100 Gb/s RoCE, NCCL_IB_DISABLE=1") == "tcp");  // over the same Ethernet
  CHECK(link("100 Gb/s RoCE, NCCL_IB_DISABLE=1") == "roce-100g");
  // Another card drives NCCL by itself.
  CHECK(driver("4x100 Gbps EFA, NCCL_IB_DISABLE=1") == "efa");
  CHECK(driver("no InfiniBand, 8 x 200 Gb/s RoCE") == "roce");
  for (const std::string published : {"8x200Gb HDR IB (not stated in table)", "InfiniBand rate not stated",
                                      "RoCE or InfiniBand, rate not stated", "NCCL_IB_DISABLE=0, EDR InfiniBand"}) {
    CAPTURE(published);
    CHECK(driver(published) != "tcp");
  }
  CHECK(driver("NCCL_IB_DISABLE=0, EDR InfiniBand") == "infiniband");
}

TEST_CASE("case: Ethernet of no stated rate is the slower the older the server", "[unit][whatif]") {
  CHECK(network("Ethernet of the VM (TCP, NCCL_IB_DISABLE=1), rate not stated") == "ethernet-10g");
  CHECK(said_on("H100-SXM5-80GB", "Ethernet (TCP)", "network") == "ethernet-100g");
  CHECK(said_on("P100-SXM2-16GB", "Ethernet (TCP)", "network") == "ethernet-10g");
}

TEST_CASE("case: a stated delay stands on top of the link's own", "[unit][whatif]") {
  const std::string published = "delay 10ms bandwidth 1Gbps (tc netem)";
  CHECK(said_on("V100-SXM2-16GB", published, "network.latency") == "10.014 ms");
  CHECK(network(published) == "ethernet-1g");
}

TEST_CASE("case: every network of the tables here is named, or nobody says which", "[unit][whatif]") {
  const std::filesystem::path tables = std::filesystem::path(DDLSIM_SOURCE_DATA) / "bench/accuracy/cases";
  for (const auto& entry : std::filesystem::directory_iterator(tables)) {
    if (entry.path().extension() != ".csv") continue;
    const auto cases = io::load_cases(entry.path()).value();
    for (const io::Case& one : cases) {
      INFO(one.id << ": " << one.inter_network << " " << one.architecture);
      CHECK(whatif::names_network(test::catalog(), one));
      CHECK(whatif::unread_words(one).empty());
    }
  }
}
