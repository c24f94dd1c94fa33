// The fields of one measured kernel, whichever way a file writes them.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "ddlsim/io/kernel_file.h"

namespace ddlsim::io {

/// In the order of kKernelFields.
enum class KernelField : std::size_t {
  kOp,
  kGpu,
  kPrecision,
  kSeries,
  kRowsBefore,
  kBatchCount,
  kM,
  kN,
  kK,
  kPass,
  kBatch,
  kIn,
  kOut,
  kGroups,
  kInputHeight,
  kInputWidth,
  kOutputHeight,
  kOutputWidth,
  kKernelHeight,
  kKernelWidth,
  kStrideHeight,
  kStrideWidth,
  kDilationHeight,
  kDilationWidth,
  kKind,
  kBytes,
  kRow,
  kCausal,
  kQueries,
  kKeys,
  kHeads,
  kKvHeads,
  kWidth,
  kValueWidth,
  kWindow,
  kTokens,
  kRouted,
  kInner,
  kExperts,
  kGated,
  kTaken,
  kSlowdown,
  kTimeUs,
  kTimeMs,
  kTimeS,
  kThrottled,
  kCold,
};

inline constexpr auto kKernelFields = std::to_array<std::string_view>({"op",
                                                                       "gpu",
                                                                       "precision",
                                                                       "series",
                                                                       "rows_before",
                                                                       "batch_count",
                                                                       "m",
                                                                       "n",
                                                                       "k",
                                                                       "pass",
                                                                       "batch",
                                                                       "in",
                                                                       "out",
                                                                       "groups",
                                                                       "input_height",
                                                                       "input_width",
                                                                       "output_height",
                                                                       "output_width",
                                                                       "kernel_height",
                                                                       "kernel_width",
                                                                       "stride_height",
                                                                       "stride_width",
                                                                       "dilation_height",
                                                                       "dilation_width",
                                                                       "kind",
                                                                       "bytes",
                                                                       "row",
                                                                       "causal",
                                                                       "queries",
                                                                       "keys",
                                                                       "heads",
                                                                       "kv_heads",
                                                                       "width",
                                                                       "value_width",
                                                                       "window",
                                                                       "tokens",
                                                                       "routed",
                                                                       "inner",
                                                                       "experts",
                                                                       "gated",
                                                                       "taken",
                                                                       "slowdown",
                                                                       "time_us",
                                                                       "time_ms",
                                                                       "time_s",
                                                                       "throttled",
                                                                       "cold"});

/// One row's texts and places. An empty text: the row does not have the field.
struct KernelRowText {
  std::function<std::string_view(KernelField)> text;
  std::function<SourceLocation(KernelField)> where;
};

/// The row; its gpu is not looked at.
[[nodiscard]] Expected<primitives::KernelMeasurement> read_kernel_row(const KernelRowText& row);

/// Fails where the name does not mean the GPU asked for.
[[nodiscard]] Expected<void> check_gpu(std::string_view name, const KernelFileOptions& options, SourceLocation where);

}  // namespace ddlsim::io
