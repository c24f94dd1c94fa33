// Rows of results in an SQLite file: written once, in order, never lost.
//
// The file, schema 1 (`PRAGMA user_version`; `PRAGMA application_id` is 0x64646c73, "ddls"):
//   run      one row: what was asked. program, grid (its text), grid_hash (its text, and the files that its settings
//            name), data_hash (models/ and hardware/, as every command prints it), detail, points (positions of the
//            whole grid), shard, shards, rows (written so far), finished (0 or 1)
//   setting  path, value: the same for every point
//   axis     number, path: what varies, in the grid's order
//   point    a row for each point: point INTEGER PRIMARY KEY (its number on the grid, ascending), a TEXT column for
//            each path that varies, the columns of the answer, and `why` where there is none
// All tables are STRICT; whoever finishes a file adds the views and indexes of ResultRun.
//
// Rows are added in transactions of at most `kMostWait`, written through to the disk (synchronous=FULL). A process that
// is killed, or a machine that stops, loses what came after the last one; the file then has the first rows of the
// sweep, and no other state is possible. A disk that is full ends a run with an error and leaves the rows before. While
// a file is written it is locked for others. What is there and not ours (another program's database, another schema's,
// no database, a damaged one, another grid's) is an error, and is left as it is.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ddlsim/support/error.h"

namespace ddlsim::io {

inline constexpr std::int32_t kResultApplication = 0x64646c73;
inline constexpr std::int32_t kResultSchema = 1;

using Cell = std::variant<std::monostate, std::int64_t, double, std::string>;

enum class CellType { kInteger, kReal, kText };
struct ResultColumn {
  std::string name;
  CellType type = CellType::kText;
  bool axis = false;  // of the grid rather than of the answer
};

/// What was asked: files of the same question have all of it alike but the shard and what was done.
struct ResultRun {
  std::string program;
  std::string grid;
  std::string grid_hash;
  std::string data_hash;
  std::string detail;
  std::int64_t points = 0;
  std::int64_t shard = 1;
  std::int64_t shards = 1;
  std::vector<std::pair<std::string, std::string>> settings;
  std::vector<ResultColumn> columns;  // the first is `point`
  std::vector<std::string> extras;    // SQL that makes views and indexes; run when all rows are there
  std::int64_t rows = 0;              // written so far
  bool finished = false;
};

/// Rows as they stand in a file, one after another.
using TakeCells = std::function<Expected<void>(std::span<const Cell>)>;

class ResultStore {
 public:
  static constexpr std::chrono::milliseconds kMostWait{250};

  /// A file of its own for this run: made where there is none (or an empty one), gone on with where it holds the same
  /// question. Errors: kIo, naming the file and what differs.
  [[nodiscard]] static Expected<ResultStore> open(const std::string& path, const ResultRun& run);
  /// To read alone.
  [[nodiscard]] static Expected<ResultStore> read(const std::string& path);

  ~ResultStore();
  ResultStore(ResultStore&&) noexcept;
  ResultStore& operator=(ResultStore&&) noexcept;

  [[nodiscard]] const ResultRun& run() const;
  /// The greatest point that is there.
  [[nodiscard]] std::optional<std::int64_t> last_point() const;

  /// Adds a row; committed within kMostWait if `commit_when_due` is called as often.
  [[nodiscard]] Expected<void> add(std::span<const Cell> row);
  [[nodiscard]] Expected<void> commit_when_due();
  [[nodiscard]] Expected<void> commit();
  /// All rows are there: commits, adds indexes and views.
  [[nodiscard]] Expected<void> finish();

  /// Every row in order.
  [[nodiscard]] Expected<void> each(const TakeCells& take) const;
  /// The rows that a query gives, for summaries.
  [[nodiscard]] Expected<std::vector<std::vector<Cell>>> query(const std::string& sql) const;
  /// The row of a point; nothing where there is none.
  [[nodiscard]] Expected<std::optional<std::vector<Cell>>> row_of(std::int64_t point) const;

 private:
  struct State;
  explicit ResultStore(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

struct MergeSummary {
  std::int64_t rows = 0;
  std::int64_t twice = 0;  // in more than one part, and alike
};

/// Parts of one grid as one file: `into`, which is empty or not there. Errors: parts of different questions, rows of
/// one point that differ, parts that are missing or not finished, all of them named; what `into` holds then is of no
/// use. `extras` as ResultRun has them; one part is open at a time.
[[nodiscard]] Expected<MergeSummary> merge_results(const std::vector<std::string>& paths, const std::string& into,
                                                   const std::vector<std::string>& extras);

}  // namespace ddlsim::io
