// The network between the servers of a case, as its source words it. Private to the room.
//
// Ports and rates are read from words such as
// ```
//   "8x ConnectX-6 IB HDR 200Gb/Sec", "4x100 Gbps EFA", "200Gb/s x 8", "dual-rail EDR"   ports x rate
//   "2-port 25G", "dual-port 25G"           two
//   "100 Gb/s (4X EDR)", "EDR 4x"           one port: four lanes of it; so is "InfiniBand 4X EDR", not "4x EDR"
//   "10GbE Intel X710"                      one port: a product's number is none of ports
//   "200 Gb/s InfiniBand per GPU"           a port for every GPU
//   "10 Gigabit Ethernet", "10 GigE", "25G", "HDR200"  rates without a unit, generations with one
//   "1000 Mb/s", "40,000 Mbit Ethernet"     1 and 40 Gb/s; "Gigabit Ethernet", "GigE" are 1
//   "50 GB/s", "125 MB/s"                   bytes: 400 and 1 Gb/s. "EDR 100 GB/s" is a slip: no port of it carries that
//   "EDR", "OPA", "Slingshot-11"            a generation's rate
//   "400 Gbps EFA"                          what AWS sells is an instance's, in cards of 100 Gb/s
// ```
// Of several networks of a server the one called "compute" counts, else the fastest. What is denied is none: "no
// InfiniBand", "without RDMA", "HDR InfiniBand off", "NCCL_IB_DISABLE=1" are TCP over the server's Ethernet.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cases/case_ports.h"
#include "ddlsim/hardware/node.h"
#include "ddlsim/io/case_file.h"
#include "ddlsim/io/catalog.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

/// Of the fastest network of a text, or of the one that computes; `text` in lower case.
[[nodiscard]] NetworkPorts network_ports_in(const std::string& text);

/// An Ethernet that TCP drives and whose rate nobody says, in Gb/s, and how slow and how fast it may be, as networks.
struct AssumedEthernet {
  int gigabits;
  std::string_view slow;
  std::string_view fast;
};

/// Of a server that nobody names; nothing where its Ethernet is said, or is none. 10 Gb/s: between two V100
/// (cswinter-gist-tcp), Azure's NCv3 (azure_batchai_horovod), two A10G and two V100 at GCP it moved 6 to 8 Gb/s; p3 has
/// 25. Servers of GPU modules from Ampere on are sold with more: a2-highgpu-8g with 100 Gb/s, p4d with 4 x
/// 100 (hardware/instances), ND A100 v4 with 24 beside its InfiniBand (Azure's page, recalled). IP over InfiniBand
/// moves 25 there, whatever the card: 3.15 GB/s on HDR (Azure/aks-rdma-infiniband, expected-output.md).
[[nodiscard]] std::optional<AssumedEthernet> assumed_ethernet(const io::Case& one, const hardware::Node& server);

/// Whether a case's words name a network, or say that nobody does; otherwise its server has its own.
[[nodiscard]] bool names_network(const io::Catalog& catalog, const io::Case& one);

/// Whether nobody says anything of the network: neither rate nor family nor whose it is.
[[nodiscard]] bool leaves_network_open(const io::Catalog& catalog, const io::Case& one);

/// What a case says of its network, as settings; nothing where it says nothing. Errors: kUnsupported for a rate that
/// cannot be read.
[[nodiscard]] Expected<void> add_network(const io::Catalog& catalog, const io::Case& one, const hardware::Node& server,
                                         std::vector<Override>& settings);

}  // namespace ddlsim::whatif
