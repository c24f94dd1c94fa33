// Reads and writes hardware/storage, hardware/cpus and models/datasets, and reads hardware/failures (schemas:
// hardware/README.md, models/README.md). What is written reads back as it was.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ddlsim/hardware/failures.h"
#include "ddlsim/hardware/host.h"
#include "ddlsim/io/yaml.h"
#include "ddlsim/support/error.h"
#include "ddlsim/workload/dataset.h"

namespace ddlsim::io {

[[nodiscard]] Expected<hardware::Storage> read_storage(const Node& document);
[[nodiscard]] Expected<hardware::Cpu> read_cpu(const Node& document);
[[nodiscard]] Expected<hardware::FailureRates> read_failures(const Node& document);
[[nodiscard]] Expected<workload::Dataset> read_dataset(const Node& document);

/// The `host:` of a node file before its parts are looked up.
struct HostFile {
  hardware::Host host;  // without cpu and storage
  std::string cpu_id;
  std::int64_t sockets = 1;
  std::string storage_id;  // empty: nobody says
  std::optional<Bandwidth> storage_bandwidth;
  SourceLocation where;
};
[[nodiscard]] HostFile read_host(const Node& map, std::vector<Error>& errors);

/// A file's text.
[[nodiscard]] std::string to_yaml(const hardware::Storage& storage);
[[nodiscard]] std::string to_yaml(const hardware::Cpu& cpu);
[[nodiscard]] std::string to_yaml(const workload::Dataset& dataset);

}  // namespace ddlsim::io
