#include "sweep_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include "ddlsim/io/result_store.h"
#include "ddlsim/report/sweep.h"
#include "ddlsim/support/quantity_io.h"

namespace ddlsim::cli {

bool is_database(const std::string& path) {
  const auto ending = std::filesystem::path(path).extension();
  return ending == ".db" || ending == ".sqlite" || ending == ".sqlite3";
}

std::string with_program(const std::string& line, std::string_view version, std::string_view data) {
  constexpr std::string_view kSchema = R"({"schema":"ddlsim/sweep/1",)";
  if (!line.starts_with(kSchema)) return line;
  return fmt::format(R"({}"program":{{"version":"{}","data":"{}"}},{})", kSchema, version, data,
                     line.substr(kSchema.size()));
}

int report_results(const std::string& database, const std::string& out, report::Format format) {
  if (is_database(out)) {
    throw UsageError{"--report into an SQLite file", "-o rows.csv; --merge makes one file of several"};
  }
  const auto store = io::ResultStore::read(database);
  if (!store) return print(store.error());
  auto sink = LineSink::open(out);
  if (!sink) return print(sink.error());
  Expected<void> done;
  if (format == report::Format::kText || format == report::Format::kMd) {
    done = report::sweep_summary(*store, format).and_then([&](const std::string& text) { return sink->write(text); });
  } else {
    const auto& columns = store->run().columns;
    done = sink->write(report::sweep_head(columns, format));
    std::string_view version = store->run().program;  // "ddlsim 0.1.0"
    version.remove_prefix(std::min(version.find(' ') + 1, version.size()));
    const auto take = [&](std::span<const io::Cell> row) {
      return sink->write(with_program(report::sweep_line(columns, row, format), version, store->run().data_hash));
    };
    if (done) done = store->each(take);
  }
  if (done) done = sink->close();
  if (!done) return sink->failed() ? kNoAnswer : print(done.error());
  return kDone;
}

int merge_results(const std::vector<std::string>& parts, const std::string& out) {
  if (out.empty()) throw UsageError{"--merge without -o", "name the file that the parts become: -o all.db"};
  std::error_code none;
  if (std::filesystem::exists(out, none)) {
    return print(
        Error{ErrorCode::kIo, "it is there already, and is left as it is", {out, 0, 0}, {"name another file"}, {}});
  }
  std::signal(SIGXFSZ, SIG_IGN);  // an error to report, not a signal to die of
  auto partial = PartialFile::beside(out);
  if (!partial) return print(partial.error());
  const auto first = io::ResultStore::read(parts.front());
  if (!first) return print(first.error());
  const auto merged = io::merge_results(parts, partial->path(), report::sweep_views(first->run().columns));
  if (!merged) return print(merged.error());
  if (auto placed = partial->rename_to(out); !placed) return print(placed.error());
  const std::string twice =
      merged->twice > 0 ? fmt::format(", {} more that were there already", to_text(merged->twice)) : "";
  std::fputs(fmt::format("note: {} rows of {} files{}\n", to_text(merged->rows), parts.size(), twice).c_str(), stderr);
  return kDone;
}

}  // namespace ddlsim::cli
