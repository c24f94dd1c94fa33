#include "ddlsim/io/run_file.h"

#include <fmt/core.h>

#include <istream>

#include "csv_row.h"
#include "ddlsim/io/csv.h"
#include "ddlsim/io/table_file.h"

namespace ddlsim::io {
namespace {

enum RunColumn : std::size_t {
  kRunGpus,
  kRunNodes,
  kRunStep,
  kRunBatch,
  kRunPasses,
  kRunGlobalBatch,
  kRunModel,
  kRunPrecision,
  kRunFirstOfSplit,
};

RunRow read_run(RowReader& row, const CsvReader& csv) {
  RunRow run;
  run.gpus = row.count(kRunGpus);
  run.nodes = row.count(kRunNodes);
  run.step = row.keep(parse_time(row.text(kRunStep)), kRunStep).value_or(run.step);
  if (!row.text(kRunBatch).empty()) run.batch = row.count(kRunBatch);
  if (!row.text(kRunPasses).empty()) run.passes = row.count(kRunPasses);
  if (!row.text(kRunGlobalBatch).empty()) run.global_batch = row.count(kRunGlobalBatch);
  run.model = row.text(kRunModel);
  run.precision = row.text(kRunPrecision);
  for (std::size_t i = 0; i < kRunSplit.size(); ++i) {
    std::string value = row.text(kRunFirstOfSplit + i);
    if (!value.empty()) run.split.emplace_back(kRunSplit[i], std::move(value));
  }
  run.where = csv.where(kRunGpus);
  if (row.errors().empty() && run.gpus % run.nodes != 0) {
    row.report(fail(ErrorCode::kInvalidArgument,
                    fmt::format("{} GPUs are not shared evenly by {} nodes", run.gpus, run.nodes)),
               kRunNodes);
  }
  return run;
}

}  // namespace

Expected<std::vector<RunRow>> read_runs(std::istream& stream, const std::string& file) {
  const std::vector<std::string> wanted{"gpus", "nodes", "step"};
  std::vector<std::string> optional{"batch", "passes", "global_batch", "model", "precision"};
  optional.insert(optional.end(), kRunSplit.begin(), kRunSplit.end());
  std::vector<std::string> names = wanted;
  names.insert(names.end(), optional.begin(), optional.end());
  auto csv = CsvReader::open(stream, file, wanted, optional);
  if (!csv) {
    Error error = csv.error();
    error.notes.emplace_back("a table has a row a run; `ddlsim import log` makes it out of training logs");
    return tl::unexpected<Error>(std::move(error));
  }
  std::vector<RunRow> runs;
  const auto sound = for_each_row(*csv, names, [&](RowReader& row) { runs.push_back(read_run(row, *csv)); });
  if (!sound) return tl::unexpected<Error>(sound.error());
  if (runs.empty()) return fail(ErrorCode::kParse, "the table has no run", {file, 2, 1});
  return runs;
}

Expected<std::vector<RunRow>> load_runs(const std::filesystem::path& path) {
  auto stream = open_table(path);
  if (!stream) return tl::unexpected<Error>(stream.error());
  return read_runs(*stream, path.string());
}

}  // namespace ddlsim::io
