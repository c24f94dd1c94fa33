#include "ddlsim/io/result_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "sqlite.h"

namespace ddlsim::io {

using Clock = std::chrono::steady_clock;

struct ResultStore::State {
  std::string path;
  Database database;
  Statement insert;
  Statement count;
  ResultRun run;
  bool open_transaction = false;
  Clock::time_point since;

  [[nodiscard]] Expected<void> sql(const std::string& text) const { return execute(database.get(), path, text); }
};

namespace {

std::string_view word_for(CellType type) {
  switch (type) {
    case CellType::kInteger: return "INTEGER";
    case CellType::kReal: return "REAL";
    case CellType::kText: return "TEXT";
  }
  return "TEXT";
}

std::string table_of(const std::vector<ResultColumn>& columns) {
  std::string sql = "CREATE TABLE point (";
  for (std::size_t i = 0; i < columns.size(); ++i) {
    sql += fmt::format("{}{} {}{}", i > 0 ? ", " : "", quoted(columns[i].name), word_for(columns[i].type),
                       i == 0            ? " PRIMARY KEY"
                       : columns[i].axis ? " NOT NULL"
                                         : "");
  }
  return sql + ") STRICT";
}

constexpr const char* kTables = R"(
CREATE TABLE run (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  program TEXT NOT NULL, grid TEXT NOT NULL, grid_hash TEXT NOT NULL, data_hash TEXT NOT NULL, detail TEXT NOT NULL,
  points INTEGER NOT NULL, shard INTEGER NOT NULL, shards INTEGER NOT NULL,
  rows INTEGER NOT NULL, finished INTEGER NOT NULL CHECK (finished IN (0, 1))
) STRICT;
CREATE TABLE setting (number INTEGER PRIMARY KEY, path TEXT NOT NULL, value TEXT NOT NULL) STRICT;
CREATE TABLE axis (number INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE) STRICT;
)";

Expected<std::int64_t> number_of(sqlite3* database, const std::string& path, const std::string& sql) {
  const auto statement = prepare(database, path, sql);
  if (!statement) return tl::unexpected<Error>(statement.error());
  const auto row = step(statement->get(), database, path);
  if (!row) return tl::unexpected<Error>(row.error());
  return *row ? std::int64_t{sqlite3_column_int64(statement->get(), 0)} : 0;
}

/// Whether it is ours; false: it is empty.
Expected<bool> check_owner(sqlite3* database, const std::string& path) {
  const auto tables = number_of(database, path, "SELECT count(*) FROM sqlite_master");
  if (!tables) return tl::unexpected<Error>(tables.error());
  const auto owner = number_of(database, path, "PRAGMA application_id");
  if (!owner) return tl::unexpected<Error>(owner.error());
  const auto schema = number_of(database, path, "PRAGMA user_version");
  if (!schema) return tl::unexpected<Error>(schema.error());
  if (*tables == 0 && *owner == 0 && *schema == 0) return false;
  if (*owner != kResultApplication) {
    return tl::unexpected<Error>(
        about(path, "it is another program's database, and is left as it is", {"name another file"}));
  }
  if (*schema != kResultSchema) {
    return tl::unexpected<Error>(
        about(path, fmt::format("it has schema {}, and this program knows {}", *schema, kResultSchema),
              {"use the program that wrote it, or name another file"}));
  }
  return true;
}

Expected<void> insert_texts(sqlite3* database, const std::string& path, const std::string& sql,
                            const std::vector<std::vector<Cell>>& rows) {
  const auto statement = prepare(database, path, sql);
  if (!statement) return tl::unexpected<Error>(statement.error());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) bind(statement->get(), static_cast<int>(i) + 1, row[i]);
    if (auto done = step(statement->get(), database, path); !done) return tl::unexpected<Error>(done.error());
    sqlite3_reset(statement->get());
  }
  return {};
}

Expected<void> create_tables(sqlite3* database, const std::string& path, const ResultRun& run) {
  const std::string head =
      fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {};", kResultApplication, kResultSchema);
  for (const std::string& sql : {head, std::string(kTables), table_of(run.columns)}) {
    if (auto done = execute(database, path, sql); !done) return done;
  }
  std::vector<std::vector<Cell>> settings;
  std::vector<std::vector<Cell>> axes;
  for (const auto& [name, value] : run.settings) {
    settings.push_back({static_cast<std::int64_t>(settings.size()), name, value});
  }
  for (const ResultColumn& column : run.columns) {
    if (column.axis) axes.push_back({static_cast<std::int64_t>(axes.size()), column.name});
  }
  if (auto done = insert_texts(database, path, "INSERT INTO setting VALUES (?, ?, ?)", settings); !done) return done;
  if (auto done = insert_texts(database, path, "INSERT INTO axis VALUES (?, ?)", axes); !done) return done;
  return insert_texts(
      database, path, "INSERT INTO run VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0)",
      {{run.program, run.grid, run.grid_hash, run.data_hash, run.detail, run.points, run.shard, run.shards}});
}

Expected<ResultRun> read_run(sqlite3* database, const std::string& path) {
  ResultRun run;
  const auto head =
      prepare(database, path,
              "SELECT program, grid, grid_hash, data_hash, detail, points, shard, shards, rows, finished FROM run");
  if (!head) return tl::unexpected<Error>(head.error());
  const auto there = step(head->get(), database, path);
  if (!there) return tl::unexpected<Error>(there.error());
  if (!*there) {
    return tl::unexpected<Error>(about(path, "it is damaged: it does not say what it holds", {"name another file"}));
  }
  std::string* texts[] = {&run.program, &run.grid, &run.grid_hash, &run.data_hash, &run.detail};
  for (int i = 0; i < 5; ++i) *texts[i] = text_of(head->get(), i);
  run.points = sqlite3_column_int64(head->get(), 5);
  run.shard = sqlite3_column_int64(head->get(), 6);
  run.shards = sqlite3_column_int64(head->get(), 7);
  run.rows = sqlite3_column_int64(head->get(), 8);
  run.finished = sqlite3_column_int64(head->get(), 9) != 0;
  const auto settings = prepare(database, path, "SELECT path, value FROM setting ORDER BY number");
  if (!settings) return tl::unexpected<Error>(settings.error());
  Expected<bool> row = false;
  while ((row = step(settings->get(), database, path)) && *row) {
    run.settings.emplace_back(text_of(settings->get(), 0), text_of(settings->get(), 1));
  }
  if (!row) return tl::unexpected<Error>(row.error());
  const auto columns =
      prepare(database, path,
              "SELECT name, type, name IN (SELECT path FROM axis) FROM pragma_table_info('point') ORDER BY cid");
  if (!columns) return tl::unexpected<Error>(columns.error());
  while ((row = step(columns->get(), database, path)) && *row) {
    const std::string type = text_of(columns->get(), 1);
    run.columns.push_back({text_of(columns->get(), 0),
                           type == "INTEGER" ? CellType::kInteger
                           : type == "REAL"  ? CellType::kReal
                                             : CellType::kText,
                           sqlite3_column_int64(columns->get(), 2) != 0});
  }
  if (!row) return tl::unexpected<Error>(row.error());
  return run;
}

/// What differs between two questions; empty: nothing.
std::string difference(const ResultRun& a, const ResultRun& b) {
  if (a.program != b.program) return fmt::format("it was written by {}, and this is {}", a.program, b.program);
  if (a.grid != b.grid) return "it holds another grid";
  if (a.grid_hash != b.grid_hash) return "it was written with other contents of files that its settings name";
  if (a.data_hash != b.data_hash) return "it was written with other files of models or hardware";
  if (a.detail != b.detail) {
    return fmt::format("it holds answers of detail '{}', and these are '{}'", a.detail, b.detail);
  }
  if (a.shards != b.shards) return fmt::format("it is one part of {}, and this is one of {}", a.shards, b.shards);
  return "";
}

}  // namespace

ResultStore::ResultStore(std::unique_ptr<State> state) : state_(std::move(state)) {}
ResultStore::~ResultStore() = default;
ResultStore::ResultStore(ResultStore&&) noexcept = default;
ResultStore& ResultStore::operator=(ResultStore&&) noexcept = default;

Expected<ResultStore> ResultStore::open(const std::string& path, const ResultRun& run) {
  auto database = open_database(path, true);
  if (!database) return tl::unexpected<Error>(database.error());
  sqlite3* handle = database->get();
  // The lock is kept from the first transaction to the end.
  for (const char* sql : {"PRAGMA locking_mode = EXCLUSIVE", "BEGIN EXCLUSIVE"}) {
    if (auto done = execute(handle, path, sql); !done) return tl::unexpected<Error>(done.error());
  }
  if (sqlite3_db_readonly(handle, "main") != 0) {
    return tl::unexpected<Error>(
        about(path, "it may not be written", {"change its permissions, or name another file"}));
  }
  const auto ours = check_owner(handle, path);
  if (!ours) return tl::unexpected<Error>(ours.error());
  if (!*ours) {
    if (auto made = create_tables(handle, path, run); !made) return tl::unexpected<Error>(made.error());
  }
  auto stored = read_run(handle, path);
  if (!stored) return tl::unexpected<Error>(stored.error());
  std::string differs = difference(*stored, run);
  if (differs.empty() && stored->shard != run.shard) {
    differs = fmt::format("it is part {} of {}, and this is part {}", stored->shard, stored->shards, run.shard);
  }
  if (!differs.empty()) {
    return tl::unexpected<Error>(about(path, differs + "; it is left as it is", {"name another file"}));
  }
  // Who was killed after the last commit left a journal, which goes with whoever writes next: we do, if nothing more.
  const std::string write = fmt::format("PRAGMA user_version = {}; COMMIT; PRAGMA synchronous = FULL", kResultSchema);
  if (auto done = execute(handle, path, write); !done) return tl::unexpected<Error>(done.error());
  stored->extras = run.extras;
  auto state = std::make_unique<State>();
  state->path = path;
  state->database = std::move(*database);
  state->run = std::move(*stored);
  std::string places = "?";
  for (std::size_t i = 1; i < state->run.columns.size(); ++i) places += ", ?";
  auto insert = prepare(handle, path, "INSERT INTO point VALUES (" + places + ")");
  if (!insert) return tl::unexpected<Error>(insert.error());
  auto count = prepare(handle, path, "UPDATE run SET rows = ?");
  if (!count) return tl::unexpected<Error>(count.error());
  state->insert = std::move(*insert);
  state->count = std::move(*count);
  return ResultStore(std::move(state));
}

Expected<ResultStore> ResultStore::read(const std::string& path) {
  auto database = open_database(path, false);
  if (!database) return tl::unexpected<Error>(database.error());
  const auto ours = check_owner(database->get(), path);
  if (!ours) return tl::unexpected<Error>(ours.error());
  if (!*ours) return tl::unexpected<Error>(about(path, "it is empty", {"a sweep writes one: -o results.db"}));
  auto run = read_run(database->get(), path);
  if (!run) return tl::unexpected<Error>(run.error());
  auto state = std::make_unique<State>();
  state->path = path;
  state->database = std::move(*database);
  state->run = std::move(*run);
  return ResultStore(std::move(state));
}

const ResultRun& ResultStore::run() const { return state_->run; }

std::optional<std::int64_t> ResultStore::last_point() const {
  const auto found = query("SELECT max(point) FROM point");
  if (!found || found->empty()) return std::nullopt;
  const auto* number = std::get_if<std::int64_t>(&found->front().front());
  return number == nullptr ? std::nullopt : std::optional(*number);
}

Expected<void> ResultStore::add(std::span<const Cell> row) {
  State& state = *state_;
  if (!state.open_transaction) {
    if (auto begun = state.sql("BEGIN"); !begun) return begun;
    state.open_transaction = true;
    state.since = Clock::now();
  }
  sqlite3_stmt* insert = state.insert.get();
  for (std::size_t i = 0; i < row.size(); ++i) bind(insert, static_cast<int>(i) + 1, row[i]);
  const int code = sqlite3_step(insert);
  if (code == SQLITE_DONE) {
    sqlite3_reset(insert);
    ++state.run.rows;
    return {};
  }
  Error error = sqlite_error(state.database.get(), state.path);
  sqlite3_reset(insert);
  return tl::unexpected<Error>(std::move(error));
}

Expected<void> ResultStore::commit_when_due() {
  return state_->open_transaction && Clock::now() - state_->since >= kMostWait ? commit() : Expected<void>();
}

Expected<void> ResultStore::commit() {
  State& state = *state_;
  if (!state.open_transaction) return {};
  bind(state.count.get(), 1, state.run.rows);
  const auto counted = step(state.count.get(), state.database.get(), state.path);
  sqlite3_reset(state.count.get());
  if (!counted) return tl::unexpected<Error>(counted.error());
  if (auto done = state.sql("COMMIT"); !done) return done;
  state.open_transaction = false;
  return {};
}

Expected<void> ResultStore::finish() {
  State& state = *state_;
  if (auto done = commit(); !done) return done;
  if (state.run.finished) return {};
  if (auto begun = state.sql("BEGIN"); !begun) return begun;
  for (const std::string& sql : state.run.extras) {
    if (auto done = state.sql(sql); !done) return done;
  }
  if (auto done = state.sql("UPDATE run SET finished = 1"); !done) return done;
  if (auto done = state.sql("COMMIT"); !done) return done;
  state.run.finished = true;
  return {};
}

namespace {

Expected<void> each_row(sqlite3* database, const std::string& path, const std::string& sql, const TakeCells& take) {
  const auto statement = prepare(database, path, sql);
  if (!statement) return tl::unexpected<Error>(statement.error());
  std::vector<Cell> row(static_cast<std::size_t>(sqlite3_column_count(statement->get())));
  for (;;) {
    const auto there = step(statement->get(), database, path);
    if (!there) return tl::unexpected<Error>(there.error());
    if (!*there) return {};
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = cell_of(statement->get(), static_cast<int>(i));
    if (auto taken = take(row); !taken) return taken;
  }
}

}  // namespace

Expected<void> ResultStore::each(const TakeCells& take) const {
  return each_row(state_->database.get(), state_->path, "SELECT * FROM point ORDER BY point", take);
}

Expected<std::vector<std::vector<Cell>>> ResultStore::query(const std::string& sql) const {
  std::vector<std::vector<Cell>> rows;
  const auto keep = [&](std::span<const Cell> row) -> Expected<void> {
    rows.emplace_back(row.begin(), row.end());
    return {};
  };
  if (auto done = each_row(state_->database.get(), state_->path, sql, keep); !done) {
    return tl::unexpected<Error>(done.error());
  }
  return rows;
}

Expected<std::optional<std::vector<Cell>>> ResultStore::row_of(std::int64_t point) const {
  auto rows = query(fmt::format("SELECT * FROM point WHERE point = {}", point));
  if (!rows) return tl::unexpected<Error>(rows.error());
  if (rows->empty()) return std::optional<std::vector<Cell>>();
  return std::optional(std::move(rows->front()));
}

namespace {

constexpr std::size_t kMostNamed = 10;

struct Part {
  std::string path;
  ResultRun run;
};

/// The parts' questions, all alike, and all parts of the grid there.
Expected<std::vector<Part>> check_parts(const std::vector<std::string>& paths) {
  std::vector<Part> parts;
  std::vector<std::string> faults;
  for (const std::string& path : paths) {
    const auto store = ResultStore::read(path);
    if (!store) return tl::unexpected<Error>(store.error());
    parts.push_back({path, store->run()});
    const std::string differs = difference(parts.back().run, parts.front().run);
    if (!differs.empty()) {
      return tl::unexpected<Error>(
          about(path, fmt::format("{}, that is {}", differs, parts.front().path), {"merge parts of one grid"}));
    }
    const ResultRun& run = parts.back().run;
    if (run.finished) continue;
    faults.push_back(fmt::format("{}: part {}/{} is not finished ({} rows so far): run its command again", path,
                                 run.shard, run.shards, run.rows));
  }
  const std::int64_t shards = parts.front().run.shards;
  std::vector<bool> there(static_cast<std::size_t>(std::max<std::int64_t>(shards, 0)) + 1, false);
  for (const Part& part : parts) {
    if (part.run.shard >= 1 && part.run.shard <= shards) there[static_cast<std::size_t>(part.run.shard)] = true;
  }
  for (std::int64_t shard = 1; shard <= shards; ++shard) {
    if (!there[static_cast<std::size_t>(shard)]) {
      faults.push_back(fmt::format("part {}/{} is in none of the files", shard, shards));
    }
  }
  if (faults.empty()) return parts;
  const std::size_t more = faults.size() > kMostNamed ? faults.size() - kMostNamed : 0;
  faults.resize(faults.size() - more);
  if (more > 0) faults.push_back(fmt::format("and {} more", more));
  return fail(ErrorCode::kInfeasible, "parts of the grid are missing; nothing was written", {}, std::move(faults));
}

std::string text_of(const Cell& cell) {
  if (const auto* number = std::get_if<std::int64_t>(&cell)) return fmt::format("{}", *number);
  if (const auto* number = std::get_if<double>(&cell)) return fmt::format("{}", *number);
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  return "nothing";
}

/// "point 7 (model resnet50, nodes 4): step_time_s is 0.1, and 0.2 in part2.db"
std::string conflict(const std::vector<ResultColumn>& columns, std::span<const Cell> a, std::span<const Cell> b,
                     const std::string& path) {
  std::string key;
  std::string differs;
  for (std::size_t i = 1; i < columns.size(); ++i) {
    if (columns[i].axis) key += fmt::format("{}{} {}", key.empty() ? "" : ", ", columns[i].name, text_of(a[i]));
    if (differs.empty() && a[i] != b[i]) {
      differs = fmt::format("{} is {}, and {} in {}", columns[i].name, text_of(a[i]), text_of(b[i]), path);
    }
  }
  return fmt::format("point {} ({}): {}", text_of(a[0]), key, differs);
}

}  // namespace

Expected<MergeSummary> merge_results(const std::vector<std::string>& paths, const std::string& into,
                                     const std::vector<std::string>& extras) {
  if (paths.empty()) return fail(ErrorCode::kInvalidArgument, "no parts to merge");
  const auto parts = check_parts(paths);
  if (!parts) return tl::unexpected<Error>(parts.error());
  ResultRun run = parts->front().run;
  run.shard = run.shards = 1;
  run.extras = extras;
  auto all = ResultStore::open(into, run);
  if (!all) return tl::unexpected<Error>(all.error());
  MergeSummary summary;
  std::vector<std::string> conflicts;
  std::vector<bool> seen(static_cast<std::size_t>(parts->front().run.shards) + 1, false);
  for (const Part& part : *parts) {
    const auto store = ResultStore::read(part.path);
    if (!store) return tl::unexpected<Error>(store.error());
    const bool again = seen[static_cast<std::size_t>(part.run.shard)];
    seen[static_cast<std::size_t>(part.run.shard)] = true;
    const auto take = [&](std::span<const Cell> row) -> Expected<void> {
      if (!again) {
        ++summary.rows;
        return all->add(row);
      }
      const auto* point = std::get_if<std::int64_t>(&row.front());
      const auto there = all->row_of(point == nullptr ? -1 : *point);
      if (!there) return tl::unexpected<Error>(there.error());
      const bool alike = *there && std::equal(row.begin(), row.end(), (*there)->begin(), (*there)->end());
      if (alike) ++summary.twice;
      if (!alike && conflicts.size() < kMostNamed) {
        conflicts.push_back(*there ? conflict(run.columns, **there, row, part.path)
                                   : fmt::format("point {} is in {} alone", text_of(row.front()), part.path));
      }
      return {};
    };
    if (auto read = store->each(take); !read) return tl::unexpected<Error>(read.error());
  }
  if (!conflicts.empty()) {
    return fail(ErrorCode::kInvalidArgument, "parts disagree; nothing was written", {}, std::move(conflicts));
  }
  if (auto done = all->finish(); !done) return tl::unexpected<Error>(done.error());
  return summary;
}

}  // namespace ddlsim::io
