// SQLite's handles as values. Private to the room.
#pragma once

#include <sqlite3.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ddlsim/io/result_store.h"
#include "ddlsim/support/error.h"

namespace ddlsim::io {

struct CloseDatabase {
  void operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }
};
struct FinalizeStatement {
  void operator()(sqlite3_stmt* handle) const { sqlite3_finalize(handle); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;
using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

/// An error that names the file.
[[nodiscard]] Error about(const std::string& path, std::string_view what, std::vector<std::string> notes = {});
/// What SQLite says went wrong last, about the file of that name.
[[nodiscard]] Error sqlite_error(sqlite3* database, const std::string& path);

[[nodiscard]] Expected<Statement> prepare(sqlite3* database, const std::string& path, const std::string& sql);
[[nodiscard]] Expected<void> execute(sqlite3* database, const std::string& path, const std::string& sql);
/// Whether there is a row.
[[nodiscard]] Expected<bool> step(sqlite3_stmt* statement, sqlite3* database, const std::string& path);
void bind(sqlite3_stmt* statement, int place, const Cell& cell);
[[nodiscard]] Cell cell_of(sqlite3_stmt* statement, int column);
[[nodiscard]] std::string text_of(sqlite3_stmt* statement, int column);
/// "a ""quoted"" name"
[[nodiscard]] std::string quoted(const std::string& name);

/// Opens what is there, or with `create` an empty file too, and reads its first page. Errors: it is no database.
[[nodiscard]] Expected<Database> open_database(const std::string& path, bool create);

}  // namespace ddlsim::io
