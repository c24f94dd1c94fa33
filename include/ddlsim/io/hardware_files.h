// Reads hardware/*/*.yaml (schema: hardware/README.md). Names of other files are left unresolved; io/catalog.h
// resolves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ddlsim/hardware/gpu.h"
#include "ddlsim/hardware/node.h"
#include "ddlsim/io/input_files.h"
#include "ddlsim/io/yaml.h"
#include "ddlsim/support/error.h"

namespace ddlsim::io {

/// NVLinks of one pair of GPUs, and where the file says so.
struct NvlinkPairText {
  hardware::NvlinkPair pair;
  SourceLocation where;
};

/// A node or instance file before its parts are looked up.
struct NodeFile {
  hardware::Node node;  // gpu, links: ids only
  std::string network_id;
  std::optional<Bandwidth> sustained;  // of a port whose link is the burst
  std::optional<Bandwidth> nvlink;     // of one GPU, where it is not all the GPU has
  std::string host_link_id;            // empty: as the GPU's PCIe link
  std::vector<NvlinkPairText> nvlink_pairs;
  std::optional<HostFile> host;
  SourceLocation gpu_where;
  SourceLocation network_where;
};

/// The base setting of a study: rates of one cNode's world (hardware/clusters).
struct StudySetting {
  std::string id;
  std::string name;
  ComputeRate peak{};
  Bandwidth memory_bandwidth{};
  DataSize memory_size{};
  Bandwidth network{};
  Bandwidth pcie{};
  Bandwidth nvlink{};
  double efficiency = 1.0;
  std::int64_t gpus_per_server = 8;
  Sources sources;
  std::string notes;
};

[[nodiscard]] Expected<hardware::Gpu> read_gpu(const Node& document);
[[nodiscard]] Expected<hardware::Link> read_link(const Node& document);
[[nodiscard]] Expected<NodeFile> read_node(const Node& document);
[[nodiscard]] Expected<StudySetting> read_setting(const Node& document);

}  // namespace ddlsim::io
