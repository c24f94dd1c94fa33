// Measured collectives from a file: what nccl-tests prints, its `-J` JSON, or a plain CSV.
//
// nccl-tests text: `#` lines name the operation ("Collective test starting: all_reduce_perf", or the command itself),
// the ranks and their hosts ("#  Rank  0 Group  0 Pid 1 on host device 0 ..."), the columns, and close with "Out of
// bounds values" and "Avg bus bandwidth". Rows are size, count, type, redop, root, then time, algbw, busbw, #wrong out
// of place and in place; older versions lack root, Group or redop of some operations, and all are read. Colour codes
// and the labels of launchers ("[1,0]<stdout>:", "0: ") are blanked; other lines (NCCL INFO, warnings) are passed over.
// Several runs may follow each other. Rows of size 0 are dropped.
// JSON: version 1 and 2 of nccl-tests' `-J FILE`. Its list of devices names the first GPU of every process only.
// CSV: the columns op,gpus,nodes,size_bytes,time_us in any order.
//
// Refused, with file:line:column (JSON: the field): output without its last lines, as it was cut short; output that
// found wrong values; a cell that is no number; CPU times (-C 1); an operation that is not modelled; a busbw that does
// not belong to the operation and the ranks; a file over 64 MiB (JSON 16 MiB). Sizes and times are checked where the
// table is made (hardware/collective_table.h).
// Formats: NVIDIA/nccl-tests src/common.cu, src/util.cu.
#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ddlsim/primitives/collective_op.h"
#include "ddlsim/support/error.h"

namespace ddlsim::importers {

/// What a file does not say itself.
struct CollectiveFileDefaults {
  std::optional<primitives::CollectiveOp> op;
  std::optional<std::int64_t> gpus;
  std::optional<std::int64_t> nodes;
  bool in_place = false;  // the time that is taken: nccl-tests measures both
};

using CollectiveMeasurements = std::vector<primitives::CollectiveMeasurement>;

/// Tells the format by the content.
[[nodiscard]] Expected<CollectiveMeasurements> load_collectives(const std::filesystem::path& path,
                                                                const CollectiveFileDefaults& defaults = {});

[[nodiscard]] Expected<CollectiveMeasurements> read_nccl_tests_text(std::istream& stream, const std::string& file,
                                                                    const CollectiveFileDefaults& defaults = {});
[[nodiscard]] Expected<CollectiveMeasurements> read_nccl_tests_json(std::string_view text, const std::string& file,
                                                                    const CollectiveFileDefaults& defaults = {});
[[nodiscard]] Expected<CollectiveMeasurements> read_collective_csv(std::istream& stream, const std::string& file);

}  // namespace ddlsim::importers
