#include "convolution_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <utility>
#include <variant>

#include "ddlsim/io/csv.h"
#include "ddlsim/support/names.h"
#include "kernel_row.h"

namespace ddlsim::io {
namespace {

using Field = KernelField;
using hardware::MeasuredConvolution;

constexpr std::string_view kIndent = "  ";

/// Every column, in the order in which they are written.
constexpr std::array kColumns{Field::kPrecision,    Field::kPass,        Field::kBatch,          Field::kIn,
                              Field::kOut,          Field::kGroups,      Field::kInputHeight,    Field::kInputWidth,
                              Field::kOutputHeight, Field::kOutputWidth, Field::kKernelHeight,   Field::kKernelWidth,
                              Field::kStrideHeight, Field::kStrideWidth, Field::kDilationHeight, Field::kDilationWidth,
                              Field::kTimeUs};

std::vector<std::string> column_names() {
  std::vector<std::string> names;
  for (const Field field : kColumns) names.emplace_back(kKernelFields[static_cast<std::size_t>(field)]);
  return names;
}

Expected<MeasuredConvolution> row_of(const CsvReader& csv) {
  const auto column_of = [](Field field) {
    return static_cast<std::size_t>(std::find(kColumns.begin(), kColumns.end(), field) - kColumns.begin());
  };
  const auto row = read_kernel_row({[&](Field field) -> std::string_view {
                                      if (field == Field::kOp) return "convolution";
                                      const std::size_t column = column_of(field);
                                      return column == kColumns.size() ? std::string_view{} : csv.field(column);
                                    },
                                    [&](Field field) {
                                      const std::size_t column = column_of(field);
                                      return csv.where(column == kColumns.size() ? 0 : column);
                                    }});
  if (!row) return tl::unexpected<Error>(row.error());
  const auto& convolution = std::get<primitives::TimedConvolution>(row->what);
  return MeasuredConvolution{row->precision, convolution.shape, convolution.batch, row->time};
}

/// A block's first line follows the one with its key.
void add_fault(Error error, const Node& table, std::vector<Error>& errors) {
  std::vector<Error> others = std::exchange(error.also, {});
  error.where.line += table.where.line;
  error.where.column += static_cast<int>(kIndent.size());
  errors.push_back(std::move(error));
  for (Error& one : others) add_fault(std::move(one), table, errors);
}

}  // namespace

std::vector<MeasuredConvolution> read_convolution_table(const Node& node, std::vector<Error>& errors) {
  std::vector<MeasuredConvolution> table;
  if (node.kind != NodeKind::kScalar) {
    errors.push_back(Error{ErrorCode::kParse,
                           "a table of measured convolutions is wanted here, not a list",
                           node.where,
                           {"'measured_convolutions: |', then lines of CSV: " + join(column_names())},
                           {}});
    return table;
  }
  std::istringstream stream(node.text);
  auto csv = CsvReader::open(stream, node.where.file, column_names());
  auto more = csv ? csv->next() : tl::unexpected<Error>(csv.error());
  for (; more && *more && errors.size() < kMaxErrors; more = csv->next()) {
    const auto row = row_of(*csv);
    if (row) {
      table.push_back(*row);
    } else {
      add_fault(row.error(), node, errors);
    }
  }
  if (!more) add_fault(more.error(), node, errors);
  return table;
}

std::string convolution_table_text(const std::vector<MeasuredConvolution>& rows) {
  std::string text = fmt::format("{}{}\n", kIndent, fmt::join(column_names(), ","));
  for (const MeasuredConvolution& row : rows) {
    const primitives::ConvolutionShape& shape = row.shape;
    text +=
        fmt::format("{}{},{},{},{},{},{},{},{},{},{},{},{:.6g}\n", kIndent, name_of(kPrecisions, row.precision),
                    name_of(primitives::kConvolutionPasses, shape.pass), row.batch, shape.in, shape.out, shape.groups,
                    fmt::join(shape.input, ","), fmt::join(shape.output, ","), fmt::join(shape.kernel, ","),
                    fmt::join(shape.stride, ","), fmt::join(shape.dilation, ","), row.time.in(microseconds));
  }
  return text;
}

}  // namespace ddlsim::io
