// Measured kernels from a file: CSV, or the JSON lines of `ddlsim calibrate measure`. Fields, units and meanings:
// bench/calibrate/README.md.
//
// Refused, with file:line:column: rows of another GPU than the one asked for; a time without unit, twice, or not finite
// and positive; missing, unknown and duplicate columns or keys; unknown ops, kinds and precisions; a shape below 1; a
// cut line; a line over 64 KiB; over 10 million rows; no rows.
// Worked example: the lines
//   gpu,op,kind,bytes,time_us
//   t4,memory_bound,elementwise,3200000,14
// are one row: 3.2 MB read and written by an element-wise kernel in 14 us.
//
// Measured by bench/calibrate, fitted by calib/fit.h, compared with a profile by calib/check.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

#include "ddlsim/primitives/kernel.h"
#include "ddlsim/support/error.h"

namespace ddlsim::io {

inline constexpr std::int64_t kMaxKernelRows = 10'000'000;

/// Whose rows are wanted.
struct KernelFileOptions {
  std::string gpu;                               // for errors
  std::function<bool(std::string_view)> is_gpu;  // whether a name in the file means it; nothing: every name does
};

struct KernelFile {
  std::vector<primitives::KernelMeasurement> rows;
  std::string context;  // driver, clocks and date where the file says them
};

/// Tells the format by the first character: JSON lines open with a brace.
[[nodiscard]] Expected<KernelFile> load_kernels(const std::filesystem::path& path, const KernelFileOptions& options);

/// `file` is the name used in errors.
[[nodiscard]] Expected<KernelFile> read_kernels_csv(std::istream& stream, const std::string& file,
                                                    const KernelFileOptions& options);
[[nodiscard]] Expected<KernelFile> read_kernels_json(std::istream& stream, const std::string& file,
                                                     const KernelFileOptions& options);

}  // namespace ddlsim::io
