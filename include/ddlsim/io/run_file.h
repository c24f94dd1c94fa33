// Reads a user's own measured runs of one job (`--measured RUNS.csv`): one row, one run.
//
// Columns (header required, any order, unknown ones are errors):
//   gpus        all GPUs of the run
//   nodes       servers they are in; must divide gpus
//   step        with its unit: "180 ms"
//   batch       samples per GPU and pass; empty or absent: the job's
//   passes      gradient accumulation; empty or absent: what global_batch makes. Without either one pass where the run
//               says its batch and its model is whole, else the job's
//   global_batch  samples of a step over all replicas: sets the run's passes; empty or absent: what its passes make
//   model, precision   what ran; where they are there they must be the job's
//   parallel.tensor, parallel.pipeline, ... (kRunSplit)   how the model was split; empty or absent: as the job is
// Lines that start with '#' are passed over. Example:
//   gpus,nodes,batch,step
//   8,1,64,213 ms
//   16,2,64,251 ms
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"

namespace ddlsim::io {

/// Settings that a run may have of its own.
inline constexpr std::array<std::string_view, 11> kRunSplit{
    "parallel.tensor",    "parallel.context",  "parallel.expert",         "parallel.expert_tensor",
    "parallel.pipeline",  "parallel.schedule", "parallel.virtual_stages", "parallel.zero",
    "parallel.recompute", "parallel.sequence", "parallel.context_by"};

struct RunRow {
  std::int64_t gpus = 1;
  std::int64_t nodes = 1;
  Time step{};
  std::optional<std::int64_t> batch;
  std::optional<std::int64_t> passes;
  std::optional<std::int64_t> global_batch;
  std::string model;                                       // empty: not said
  std::string precision;                                   // likewise
  std::vector<std::pair<std::string, std::string>> split;  // settings, of kRunSplit
  SourceLocation where;
};

/// Errors, with file, line and column: of CSV; a count below one, nodes that do not divide the GPUs, a step without
/// unit or not above zero; a file without a run.
[[nodiscard]] Expected<std::vector<RunRow>> read_runs(std::istream& stream, const std::string& file);
[[nodiscard]] Expected<std::vector<RunRow>> load_runs(const std::filesystem::path& path);

}  // namespace ddlsim::io
