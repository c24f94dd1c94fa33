// Views of a sweep: its rows as cells, lines and tables, and what a file of them comes to.
//
// A row is `point`, a column for every path that varies, the answer in SI units, and `why` where there is none. CSV has
// them all; JSON is a line for each row, `ddlsim/sweep/1`, with the paths under "settings"; text and Markdown show what
// a person reads. The same rows give the same bytes, whether they come from a sweep or from its file.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ddlsim/answer/sweep.h"
#include "ddlsim/io/result_store.h"
#include "ddlsim/report/format.h"
#include "ddlsim/support/error.h"

namespace ddlsim::report {

/// The columns of a sweep over `paths`.
[[nodiscard]] std::vector<io::ResultColumn> sweep_columns(std::span<const std::string> paths,
                                                          answer::SweepDetail detail);
/// A row under those columns.
[[nodiscard]] std::vector<io::Cell> sweep_cells(const answer::SweepRow& row, answer::SweepDetail detail);

/// What stands before the rows: of CSV the header, else nothing.
[[nodiscard]] std::string sweep_head(std::span<const io::ResultColumn> columns, Format format);
/// A row as CSV or JSON, with the line's end. JSON lacks "program": rows of a database may be another program's.
[[nodiscard]] std::string sweep_line(std::span<const io::ResultColumn> columns, std::span<const io::Cell> row,
                                     Format format);
/// All rows as text or Markdown, the best of each model first.
[[nodiscard]] std::string sweep_table(std::span<const io::ResultColumn> columns,
                                      std::span<const std::vector<io::Cell>> rows, Format format);

/// SQL for a file's views and indexes: `best_per_model`, the most throughput of what fits; `pareto`, of each model no
/// other row has more throughput on as few GPUs; `pareto_price`, at as low a price; `without_answer`, reasons and
/// counts.
[[nodiscard]] std::vector<std::string> sweep_views(std::span<const io::ResultColumn> columns);

/// What a file comes to, as text or Markdown: its question, how far it is, the best of each model, the front of
/// throughput and GPUs, reasons.
[[nodiscard]] Expected<std::string> sweep_summary(const io::ResultStore& store, Format format);

}  // namespace ddlsim::report
