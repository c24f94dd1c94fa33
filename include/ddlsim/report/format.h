// The shapes an answer can take.
#pragma once

#include "ddlsim/support/choices.h"

namespace ddlsim::report {

enum class Format {
  kText,  // for a person: aligned, sensible units, the answer first
  kJson,  // for a program: SI units with suffixes in the keys, a "schema" field
  kCsv,   // for a spreadsheet: a header with units
  kMd,    // for a review: a GitHub table
  kHtml,  // for whoever decides: one file with pictures, where an answer has them
  kSvg,   // the first picture alone
};

inline constexpr Choices<Format, 6> kFormats{{
    {"text", Format::kText},
    {"json", Format::kJson},
    {"csv", Format::kCsv},
    {"md", Format::kMd},
    {"html", Format::kHtml},
    {"svg", Format::kSvg},
}};

/// Whether it shows pictures.
[[nodiscard]] constexpr bool is_drawn(Format format) { return format == Format::kHtml || format == Format::kSvg; }

/// Columns whose readers know them from elsewhere.
enum class Columns {
  kNemo,  // NVIDIA-NeMo/Megatron-Bridge, docs/performance-summary.md, 25.11: Model, #-GPUs, Precision, GBS, MBS, ...
};
inline constexpr Choices<Columns, 1> kColumns{{{"nemo", Columns::kNemo}}};

}  // namespace ddlsim::report
