#include "ddlsim/importers/collective_file.h"

#include <fmt/core.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "ddlsim/io/csv.h"
#include "ddlsim/support/quantity_io.h"
#include "nccl_tests.h"

namespace ddlsim::importers {
namespace {

constexpr std::uintmax_t kMaxFile = std::uintmax_t{64} << 20;

enum class Shape { kText, kJson, kCsv };

/// JSON opens with a brace; a CSV's header names size_bytes; the rest is what a terminal showed.
Shape shape_of(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') return Shape::kJson;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (!line.empty() && line.front() != '#' && line != "\r") {
      const bool header = line.find("size_bytes") != std::string_view::npos ||
                          (line.find(',') != std::string_view::npos && line.find("time_us") != std::string_view::npos);
      return header ? Shape::kCsv : Shape::kText;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return Shape::kText;
}

Expected<std::string> read_all(const std::filesystem::path& path) {
  std::error_code status;
  const SourceLocation where{path.string(), 0, 0};
  if (std::filesystem::is_directory(path, status)) return fail(ErrorCode::kIo, "is a directory, not a file", where);
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return fail(ErrorCode::kIo, "could not be opened", where);
  std::string text;
  std::vector<char> piece(std::size_t{1} << 16);
  while (stream.read(piece.data(), static_cast<std::streamsize>(piece.size())) || stream.gcount() > 0) {
    text.append(piece.data(), static_cast<std::size_t>(stream.gcount()));
    if (text.size() > kMaxFile) return fail(ErrorCode::kIo, "is over 64 MiB", where);
  }
  if (stream.bad()) return fail(ErrorCode::kIo, "could not be read", where);
  return text;
}

tl::unexpected<Error> at(Error error, SourceLocation where) {
  error.where = std::move(where);
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace

Expected<std::optional<primitives::CollectiveOp>> op_of_program(std::string_view text, const SourceLocation& where) {
  const std::size_t end = text.find("_perf");
  if (end == std::string_view::npos) return std::optional<primitives::CollectiveOp>{};
  std::size_t begin = end;
  const auto of_name = [](char c) { return (c >= 'a' && c <= 'z') || c == '_' || (c >= '0' && c <= '9'); };
  while (begin > 0 && of_name(text[begin - 1])) --begin;
  auto op = parse_choice(primitives::kCollectiveOps, text.substr(begin, end - begin), "operation");
  if (!op) return at(op.error(), where);
  return std::optional<primitives::CollectiveOp>{*op};
}

Expected<void> check_bandwidths(const primitives::CollectiveMeasurement& row, RowBandwidths bandwidths) {
  // Printed with two decimals: below 1 GB/s the quotient says little.
  if (!(bandwidths.algorithm >= 1.0)) return {};
  const double factor = primitives::bus_bandwidth_factor(row.op, row.gpus);
  const double shown = bandwidths.bus / bandwidths.algorithm;
  if (std::abs(shown - factor) <= 0.03) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("busbw / algbw is {:.3f}, but {} of {} GPUs has {:.3f}", shown,
                          name_of(primitives::kCollectiveOps, row.op), row.gpus, factor),
              row.where, {"say which operation and how many GPUs it was"});
}

Expected<CollectiveMeasurements> read_collective_csv(std::istream& stream, const std::string& file) {
  enum Column : std::size_t { kOp, kGpus, kNodes, kSize, kTime };
  auto csv = io::CsvReader::open(stream, file, {"op", "gpus", "nodes", "size_bytes", "time_us"});
  if (!csv) return tl::unexpected<Error>(csv.error());
  CollectiveMeasurements rows;
  for (;;) {
    const auto more = csv->next();
    if (!more) return tl::unexpected<Error>(more.error());
    if (!*more) break;
    primitives::CollectiveMeasurement row;
    const auto op = parse_choice(primitives::kCollectiveOps, csv->field(kOp), "operation");
    if (!op) return at(op.error(), csv->where(kOp));
    const auto gpus = parse_count(csv->field(kGpus), {1, kMaxRanks});
    if (!gpus) return at(gpus.error(), csv->where(kGpus));
    const auto nodes = parse_count(csv->field(kNodes), {1, kMaxRanks});
    if (!nodes) return at(nodes.error(), csv->where(kNodes));
    const auto size = parse_number(csv->field(kSize));
    if (!size) return at(size.error(), csv->where(kSize));
    const auto time = parse_number(csv->field(kTime));
    if (!time) return at(time.error(), csv->where(kTime));
    rows.push_back({*op, *gpus, *nodes, bytes(*size), microseconds(*time), csv->where(kSize)});
  }
  if (rows.empty()) return fail(ErrorCode::kParse, "the table has no rows", {file, 1, 1});
  return rows;
}

Expected<CollectiveMeasurements> load_collectives(const std::filesystem::path& path,
                                                  const CollectiveFileDefaults& defaults) {
  const auto text = read_all(path);
  if (!text) return tl::unexpected<Error>(text.error());
  const std::string file = path.string();
  const Shape shape = shape_of(*text);
  if (shape == Shape::kJson) return read_nccl_tests_json(*text, file, defaults);
  std::istringstream stream(*text);
  return shape == Shape::kCsv ? read_collective_csv(stream, file) : read_nccl_tests_text(stream, file, defaults);
}

}  // namespace ddlsim::importers
