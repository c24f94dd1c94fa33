#include "ddlsim/io/case_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <istream>
#include <nlohmann/json.hpp>
#include <set>

#include "csv_row.h"
#include "ddlsim/io/csv.h"
#include "ddlsim/io/table_file.h"
#include "ddlsim/io/yaml.h"
#include "ddlsim/support/quantity_io.h"

namespace ddlsim::io {
namespace {

enum Column : std::size_t {
  kId,
  kGroup,
  kSource,
  kModel,
  kFramework,
  kPrecision,
  kGpu,
  kGpusPerNode,
  kNodes,
  kTotalGpus,
  kIntra,
  kInter,
  kBatch,
  kArchitecture,
  kExtra,
  kMetric,
  kValue,
  kNotes,
};

std::vector<std::string> columns() {
  return {"id",
          "group",
          "source",
          "model",
          "framework",
          "precision",
          "gpu",
          "gpus_per_node",
          "nodes",
          "total_gpus",
          "intra_interconnect",
          "inter_network",
          "batch_per_gpu",
          "architecture",
          "extra",
          "metric",
          "value",
          "notes"};
}

using Extra = std::map<std::string, std::string, std::less<>>;

Expected<Extra> parse_extra(std::string_view text) {
  Extra extra;
  if (text.empty()) return extra;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) {
    return fail(ErrorCode::kParse, "'extra' is not a JSON object", {},
                {R"(write it as {"seq_len": 128}, or leave it empty)"});
  }
  for (const auto& [key, value] : json.items()) {
    if (value.is_null()) continue;
    if (value.is_structured()) {
      return fail(ErrorCode::kParse, fmt::format("'{}' in 'extra' is not a plain value", key.substr(0, 60)));
    }
    extra[key] = value.is_string() ? value.get<std::string>() : value.dump();
  }
  return extra;
}

Case read_row(RowReader& row, const CsvReader& csv) {
  Case one;
  one.id = row.needed(kId);
  one.group = row.text(kGroup).empty() ? one.id : row.text(kGroup);
  one.source = row.text(kSource);
  one.model = row.needed(kModel);
  one.framework = row.text(kFramework);
  one.precision = row.text(kPrecision);
  one.gpu = row.needed(kGpu);
  one.gpus_per_node = row.count(kGpusPerNode);
  one.nodes = row.count(kNodes);
  one.total_gpus = row.count(kTotalGpus);
  one.intra_interconnect = row.text(kIntra);
  one.inter_network = row.text(kInter);
  if (!row.text(kBatch).empty()) one.batch_per_gpu = row.count(kBatch);
  one.architecture = row.text(kArchitecture);
  if (auto extra = row.keep(parse_extra(row.text(kExtra)), kExtra)) one.extra = std::move(*extra);
  one.metric = row.keep(parse_choice(kCaseMetrics, row.text(kMetric), "metric"), kMetric).value_or(one.metric);
  one.value = row.keep(parse_number(row.text(kValue)), kValue).value_or(1);
  if (one.value <= 0) row.report(fail(ErrorCode::kInvalidArgument, "a measured value must be above zero"), kValue);
  one.notes = row.text(kNotes);
  one.where = csv.where(kId);
  return one;
}

}  // namespace

std::optional<std::string> Case::said(std::string_view key) const {
  const auto found = extra.find(key);
  if (found == extra.end()) return std::nullopt;
  return found->second;
}

Expected<std::vector<Case>> read_cases(std::istream& stream, const std::string& file) {
  const std::vector<std::string> names = columns();
  auto csv = CsvReader::open(stream, file, names);
  if (!csv) return tl::unexpected<Error>(csv.error());
  std::vector<Case> cases;
  std::set<std::string, std::less<>> ids;
  const auto sound = for_each_row(*csv, names, [&](RowReader& row) {
    Case one = read_row(row, *csv);
    if (row.errors().empty() && !ids.insert(one.id).second) {
      row.report(fail(ErrorCode::kParse, fmt::format("the id '{}' stands twice", one.id.substr(0, 60))), kId);
    }
    cases.push_back(std::move(one));
  });
  if (!sound) return tl::unexpected<Error>(sound.error());
  if (cases.empty()) return fail(ErrorCode::kParse, "the table has no rows", {file, 2, 1});
  return cases;
}

Expected<std::vector<Case>> load_cases(const std::filesystem::path& path) {
  auto stream = open_table(path);
  if (!stream) return tl::unexpected<Error>(stream.error());
  return read_cases(*stream, path.string());
}

}  // namespace ddlsim::io
