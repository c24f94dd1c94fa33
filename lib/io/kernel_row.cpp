#include "kernel_row.h"

#include <fmt/core.h>

#include <algorithm>

#include "ddlsim/support/quantity_io.h"

namespace ddlsim::io {
namespace {

using Field = KernelField;

constexpr std::int64_t kMostOfRow = std::int64_t{1} << 40;

enum class RowOp { kGemm, kConvolution, kMemoryBound, kLaunch, kCopy, kOverlap, kAttention, kExperts };

/// "sweep" is what the tables of public measurements in ../shared/data/kernels call it.
constexpr Choices<RowOp, 9> kRowOps{{
    {"gemm", RowOp::kGemm},
    {"convolution", RowOp::kConvolution},
    {"memory_bound", RowOp::kMemoryBound},
    {"launch", RowOp::kLaunch},
    {"copy", RowOp::kCopy},
    {"overlap", RowOp::kOverlap},
    {"attention", RowOp::kAttention},
    {"experts", RowOp::kExperts},
    {"sweep", RowOp::kMemoryBound},
}};

std::string_view name_of_field(Field field) { return kKernelFields[static_cast<std::size_t>(field)]; }

/// Reads fields; the first fault is kept, and the rest of the row does not matter.
class Reader {
 public:
  explicit Reader(const KernelRowText& row) : row_(row) {}

  [[nodiscard]] bool has(Field field) const { return !row_.text(field).empty(); }

  std::int64_t size(Field field) { return has(field) ? size_or(field, 1) : missing(field); }
  std::int64_t size_or(Field field, std::int64_t otherwise, std::int64_t least = 1) {
    return has(field) ? keep(parse_count(row_.text(field), {least, kMostOfRow}), field).value_or(otherwise) : otherwise;
  }
  std::array<std::int64_t, 2> pair(Field first, Field second) { return {size(first), size(second)}; }
  std::array<std::int64_t, 2> pair_or_one(Field first, Field second) { return {size_or(first, 1), size_or(second, 1)}; }

  double positive(Field field) {
    if (!has(field)) return static_cast<double>(missing(field));
    const auto value = keep(parse_number(row_.text(field)), field);
    if (!value) return 1;
    if (!(*value > 0)) {
      report(Error{ErrorCode::kInvalidArgument,
                   fmt::format("'{}' is {}, but must be above 0", name_of_field(field), row_.text(field).substr(0, 60)),
                   {},
                   {},
                   {}},
             field);
    }
    return *value;
  }

  template <typename Enum, std::size_t N>
  Enum choice(Field field, const Choices<Enum, N>& choices) {
    if (!has(field)) missing(field);
    const auto value = keep(parse_choice(choices, row_.text(field), name_of_field(field)), field);
    return value.value_or(choices.front().second);
  }

  bool flag(Field field) {
    const std::string_view text = row_.text(field);
    if (text.empty() || text == "false" || text == "0") return false;
    if (text == "true" || text == "1") return true;
    report(Error{ErrorCode::kParse,
                 fmt::format("'{}' is {}, neither true nor false", name_of_field(field), text.substr(0, 60)),
                 {},
                 {},
                 {}},
           field);
    return false;
  }

  Time time() {
    constexpr std::array kTimes{std::pair{Field::kTimeUs, 1e-6}, std::pair{Field::kTimeMs, 1e-3},
                                std::pair{Field::kTimeS, 1.0}};
    const auto given = std::count_if(kTimes.begin(), kTimes.end(), [&](const auto& unit) { return has(unit.first); });
    if (given == 1) {
      const auto unit =
          std::find_if(kTimes.begin(), kTimes.end(), [&](const auto& candidate) { return has(candidate.first); });
      return seconds(positive(unit->first) * unit->second);
    }
    report(Error{ErrorCode::kParse,
                 given == 0 ? "the row has no time" : "the row has more than one time",
                 {},
                 {"one of: time_us, time_ms, time_s"},
                 {}},
           Field::kOp);
    return {};
  }

  void report(Error error, Field field) {
    if (error_) return;
    error.where = row_.where(field);
    error_ = std::move(error);
  }

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  template <typename T>
  std::optional<T> keep(Expected<T> value, Field field) {
    if (value) return std::move(*value);
    report(std::move(value.error()), field);
    return std::nullopt;
  }

  std::int64_t missing(Field field) {
    report(Error{ErrorCode::kParse,
                 fmt::format("'{}' is missing, and '{}' needs it", name_of_field(field), row_.text(Field::kOp)),
                 {},
                 {},
                 {}},
           field);
    return 1;
  }

  const KernelRowText& row_;
  std::optional<Error> error_;
};

primitives::TimedConvolution read_convolution(Reader& reader) {
  primitives::TimedConvolution convolution;
  primitives::ConvolutionShape& shape = convolution.shape;
  shape.pass = reader.choice(Field::kPass, primitives::kConvolutionPasses);
  convolution.batch = reader.size(Field::kBatch);
  shape.in = reader.size(Field::kIn);
  shape.out = reader.size(Field::kOut);
  shape.groups = reader.size_or(Field::kGroups, 1);
  shape.input = reader.pair(Field::kInputHeight, Field::kInputWidth);
  shape.output = reader.pair(Field::kOutputHeight, Field::kOutputWidth);
  shape.kernel = reader.pair(Field::kKernelHeight, Field::kKernelWidth);
  shape.stride = reader.pair_or_one(Field::kStrideHeight, Field::kStrideWidth);
  shape.dilation = reader.pair_or_one(Field::kDilationHeight, Field::kDilationWidth);
  return convolution;
}

primitives::TimedAttention read_attention(Reader& reader) {
  primitives::TimedAttention attention;
  primitives::AttentionShape& shape = attention.shape;
  shape.pass = reader.choice(Field::kPass, primitives::kAttentionPasses);
  attention.batch = reader.size(Field::kBatch);
  shape.queries = reader.size(Field::kQueries);
  shape.keys = reader.size_or(Field::kKeys, shape.queries);
  shape.heads = reader.size(Field::kHeads);
  shape.kv_heads = reader.size_or(Field::kKvHeads, shape.heads);
  shape.width = reader.size(Field::kWidth);
  shape.value_width = reader.size_or(Field::kValueWidth, shape.width);
  shape.window = reader.size_or(Field::kWindow, 0, 0);
  shape.causal = reader.flag(Field::kCausal);
  if (shape.heads % shape.kv_heads != 0) {
    reader.report(Error{ErrorCode::kInvalidArgument,
                        fmt::format("{} kv_heads do not divide {} heads", shape.kv_heads, shape.heads),
                        {},
                        {},
                        {}},
                  Field::kKvHeads);
  }
  return attention;
}

primitives::TimedExperts read_experts(Reader& reader) {
  primitives::TimedExperts experts;
  experts.tokens = reader.size(Field::kTokens);
  experts.routed = reader.size(Field::kRouted);
  experts.experts = reader.size(Field::kExperts);
  experts.width = reader.size(Field::kWidth);
  experts.inner = reader.size(Field::kInner);
  experts.gated = !reader.has(Field::kGated) || reader.flag(Field::kGated);
  return experts;
}

primitives::TimedMemoryBound read_memory_bound(Reader& reader) {
  primitives::TimedMemoryBound kernel;
  kernel.kind = reader.choice(Field::kKind, primitives::kMemoryBoundKinds);
  kernel.traffic = bytes(reader.positive(Field::kBytes));
  const bool reduces =
      kernel.kind == primitives::MemoryBoundKind::kSoftmax || kernel.kind == primitives::MemoryBoundKind::kNorm;
  kernel.row = reduces ? reader.size(Field::kRow) : reader.size_or(Field::kRow, 0, 0);
  return kernel;
}

primitives::TimedOverlap read_overlap(Reader& reader) {
  primitives::TimedOverlap overlap;
  overlap.kind = reader.choice(Field::kKind, primitives::kOverlapKinds);
  overlap.taken = reader.size_or(Field::kTaken, 0, 0);
  overlap.slowdown = reader.positive(Field::kSlowdown);
  return overlap;
}

}  // namespace

Expected<primitives::KernelMeasurement> read_kernel_row(const KernelRowText& row) {
  Reader reader(row);
  primitives::KernelMeasurement measured;
  const RowOp op = reader.choice(Field::kOp, kRowOps);
  if (reader.error()) return tl::unexpected<Error>(*reader.error());
  switch (op) {
    case RowOp::kGemm:
      measured.what = primitives::Gemm{reader.size_or(Field::kBatchCount, 1), reader.size(Field::kM),
                                       reader.size(Field::kN), reader.size(Field::kK), primitives::BatchScales::kM};
      break;
    case RowOp::kConvolution: measured.what = read_convolution(reader); break;
    case RowOp::kMemoryBound: measured.what = read_memory_bound(reader); break;
    case RowOp::kLaunch: measured.what = primitives::TimedLaunch{}; break;
    case RowOp::kCopy:
      measured.what = primitives::TimedCopy{reader.choice(Field::kKind, primitives::kCopyKinds),
                                            bytes(reader.positive(Field::kBytes))};
      break;
    case RowOp::kOverlap: measured.what = read_overlap(reader); break;
    case RowOp::kAttention: measured.what = read_attention(reader); break;
    case RowOp::kExperts: measured.what = read_experts(reader); break;
  }
  const bool multiplies =
      op == RowOp::kGemm || op == RowOp::kConvolution || op == RowOp::kAttention || op == RowOp::kExperts;
  if (multiplies || reader.has(Field::kPrecision)) measured.precision = reader.choice(Field::kPrecision, kPrecisions);
  measured.series = row.text(Field::kSeries);
  measured.rows_before = reader.size_or(Field::kRowsBefore, 0, 0);
  measured.time = reader.time();
  measured.line = row.where(Field::kOp).line;
  const bool throttled = reader.flag(Field::kThrottled);
  measured.left_out = reader.flag(Field::kCold) || throttled;
  if (reader.error()) return tl::unexpected<Error>(*reader.error());
  return measured;
}

Expected<void> check_gpu(std::string_view name, const KernelFileOptions& options, SourceLocation where) {
  if (name.empty()) return fail(ErrorCode::kParse, "the row does not name its gpu", std::move(where));
  if (!options.is_gpu || options.is_gpu(name)) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("measured on '{}', which is not {}", name.substr(0, 60), options.gpu), std::move(where),
              {"a profile belongs to one GPU: keep the rows of others in files of their own; `ddlsim list gpus`"});
}

}  // namespace ddlsim::io
