#include "sqlite.h"

#include <fmt/core.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace ddlsim::io {
namespace {

namespace fs = std::filesystem;

/// Whether a file begins as databases do; an empty one says nothing.
Expected<void> check_head(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, 16> head{};
  file.read(head.data(), head.size());
  if (!file.is_open()) return tl::unexpected<Error>(about(path, "could not be opened"));
  if (file.gcount() == 0 || std::memcmp(head.data(), "SQLite format 3", head.size()) == 0) return {};
  return tl::unexpected<Error>(about(path, "it is no SQLite database, and is left as it is", {"name another file"}));
}

}  // namespace

Error about(const std::string& path, std::string_view what, std::vector<std::string> notes) {
  return {ErrorCode::kIo, std::string(what), {path, 0, 0}, std::move(notes), {}};
}

Error sqlite_error(sqlite3* database, const std::string& path) {
  const int code = sqlite3_errcode(database);
  const int system = sqlite3_system_errno(database);
  const bool io = code == SQLITE_IOERR || code == SQLITE_CANTOPEN;
  const std::string why = io && system != 0 ? fmt::format("{}: {}", sqlite3_errmsg(database), std::strerror(system))
                                            : sqlite3_errmsg(database);
  switch (code) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return about(path, "it is locked: another program has it open", {"wait for the sweep that writes it, or end it"});
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return about(path, fmt::format("it is damaged or cut short ({})", why),
                   {"it is left as it is; name another file"});
    case SQLITE_READONLY: return about(path, fmt::format("it may not be written ({})", why));
    case SQLITE_FULL:
    case SQLITE_IOERR:
      return about(path, fmt::format("could not be written: {}", why),
                   {"the rows before stand; once there is room, the same command goes on"});
    default: return about(path, why);
  }
}

Expected<Statement> prepare(sqlite3* database, const std::string& path, const std::string& sql) {
  sqlite3_stmt* made = nullptr;
  const int code = sqlite3_prepare_v2(database, sql.data(), static_cast<int>(sql.size()), &made, nullptr);
  Statement statement(made);
  if (code != SQLITE_OK) return tl::unexpected<Error>(sqlite_error(database, path));
  return statement;
}

Expected<void> execute(sqlite3* database, const std::string& path, const std::string& sql) {
  if (sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK) return {};
  return tl::unexpected<Error>(sqlite_error(database, path));
}

Expected<bool> step(sqlite3_stmt* statement, sqlite3* database, const std::string& path) {
  const int code = sqlite3_step(statement);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return tl::unexpected<Error>(sqlite_error(database, path));
}

void bind(sqlite3_stmt* statement, int place, const Cell& cell) {
  struct Bind {
    sqlite3_stmt* statement;
    int place;
    void operator()(std::monostate) const { sqlite3_bind_null(statement, place); }
    void operator()(std::int64_t value) const { sqlite3_bind_int64(statement, place, value); }
    void operator()(double value) const { sqlite3_bind_double(statement, place, value); }
    void operator()(const std::string& value) const {
      // The row outlives the step.
      sqlite3_bind_text(statement, place, value.data(), static_cast<int>(value.size()), nullptr);
    }
  };
  std::visit(Bind{statement, place}, cell);
}

std::string text_of(sqlite3_stmt* statement, int column) {
  const auto* text = sqlite3_column_text(statement, column);
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement, column));
  std::string copy(size, '\0');
  if (size > 0) std::memcpy(copy.data(), text, size);
  return copy;
}

Cell cell_of(sqlite3_stmt* statement, int column) {
  switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER: return std::int64_t{sqlite3_column_int64(statement, column)};
    case SQLITE_FLOAT: return sqlite3_column_double(statement, column);
    case SQLITE_NULL: return std::monostate{};
    default: return text_of(statement, column);
  }
}

std::string quoted(const std::string& name) {
  std::string text = "\"";
  for (const char c : name) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + "\"";
}

Expected<Database> open_database(const std::string& path, bool create) {
  std::error_code problem;
  const bool there = fs::exists(path, problem);
  if (!there && !create) return tl::unexpected<Error>(about(path, "there is no such file"));
  if (there && !fs::is_regular_file(path, problem)) return tl::unexpected<Error>(about(path, "it is no regular file"));
  if (there) {
    if (auto sound = check_head(path); !sound) return tl::unexpected<Error>(sound.error());
  }
  sqlite3* made = nullptr;
  const int flags =
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | (create ? SQLITE_OPEN_CREATE : 0);
  const int code = sqlite3_open_v2(path.c_str(), &made, flags, nullptr);
  Database database(made);
  if (code != SQLITE_OK) return tl::unexpected<Error>(sqlite_error(database.get(), path));
  sqlite3_extended_result_codes(database.get(), 0);
  return database;
}

}  // namespace ddlsim::io
