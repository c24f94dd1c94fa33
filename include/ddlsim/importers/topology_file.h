// Topologies that machines print of themselves.
//
// NCCL topology XML (NCCL_TOPO_DUMP_FILE, NCCL_TOPO_FILE): system > cpu > pci, nested, > gpu > nvlink, and nic > net. A
// cpu becomes a socket with one root complex; a pci of class 0x0604.. a PCIe switch, 0x03.. or 0x12.. (or with a gpu
// inside) a GPU, 0x02.. (or with a nic) a NIC; all NVSwitches become one, as in NCCL; a net's speed (Mb/s) a port.
// Rates are those NCCL itself would give (src/graph/topo.h of NCCL 2.30): 12 GB/s for PCIe gen 3 x16 and in proportion
// for other speeds and widths, NVLink by the GPU's compute capability, the socket link by the CPU model. A missing
// link_speed or link_width is NCCL's default, 8 GT/s x16, and said in the notes.
//
// `nvidia-smi topo -m`: the matrix of GPUs and NICs (X, NV#, PIX, PXB, PHB, NODE, SYS), the affinity columns and the
// legend. Devices that are PIX apart share a PCIe switch, PXB an upper switch, PHB a root complex, NODE a socket. NV#
// hides how two GPUs stand on PCIe: what they have in common with NICs says it, else their NUMA node. Rates are not in
// the text and come from the caller. Underlining and colour (SGR escape sequences, which nvidia-smi prints to a
// terminal) are passed over; any other control character is refused.
//
// Refused, with file:line:column and what would be right: files that are cut short, devices that stand twice, unknown
// elements and tokens, matrices that are not symmetric or contradict themselves, links of no bandwidth, more than 64
// levels, more than 1024 devices. Limits: one machine per file; POWER9's NVLink to the CPU and AMD's xGMI are refused,
// C2C links are left out with a note.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ddlsim/hardware/node.h"
#include "ddlsim/hardware/topology.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"

namespace ddlsim::importers {

inline constexpr std::size_t kMaxTopologyDevices = 1024;

struct TopologyFile {
  hardware::Topology topology;
  std::vector<std::string> notes;  // what the file did not say, and what was taken instead
};

/// What the matrix does not say.
struct NvidiaSmiOptions {
  hardware::Link pcie;                    // of a GPU, a NIC and a switch
  std::optional<hardware::Link> nvlink;   // one link; a file with NV# needs it
  std::optional<hardware::Link> network;  // one port of a NIC; none: NICs end at PCIe
  Bandwidth socket_link = hardware::TopologyOptions{}.socket_link;
};

/// Reads a text; `file` is the name used in errors.
[[nodiscard]] Expected<TopologyFile> parse_nccl_topology(std::string_view text, const std::string& file);
[[nodiscard]] Expected<TopologyFile> parse_nvidia_smi_topology(std::string_view text, const std::string& file,
                                                               const NvidiaSmiOptions& options);

[[nodiscard]] Expected<TopologyFile> load_nccl_topology(const std::filesystem::path& path);
[[nodiscard]] Expected<TopologyFile> load_nvidia_smi_topology(const std::filesystem::path& path,
                                                              const NvidiaSmiOptions& options);

}  // namespace ddlsim::importers
