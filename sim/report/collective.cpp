#include <fmt/core.h>

#include <algorithm>

#include "ddlsim/report/views.h"
#include "ddlsim/support/quantity_io.h"
#include "json.h"
#include "pictures.h"
#include "table.h"

namespace ddlsim::report {
namespace {

std::string count_of(DataSize size) { return fmt::format("{:.0f}", size.in(bytes)); }
std::string in_microseconds(Time time) { return significant(time.in(microseconds), 5); }
std::string in_gigabytes(Bandwidth rate) { return fmt::format("{:.2f}", rate.in(gigabytes_per_second)); }

/// As nccl-tests prints them, and who did it.
Table columns_of_nccl_tests(const answer::CollectiveSweep& sweep) {
  Table table({"size (B)", "time (us)", "algbw (GB/s)", "busbw (GB/s)", "algorithm", "protocol", "provenance"});
  table.numbers_from(0);
  for (const answer::CollectiveRow& row : sweep.rows) {
    table.add({count_of(row.size), in_microseconds(row.time), in_gigabytes(row.algorithm_bandwidth),
               in_gigabytes(row.bus_bandwidth), row.algorithm, row.protocol, std::string(to_string(row.provenance))});
  }
  return table;
}

/// Libraries side by side: their times, and how much faster the fastest is than the next.
Table comparison(const answer::CollectiveReport& report) {
  std::vector<std::string> header{"size (B)"};
  for (const answer::CollectiveSweep& sweep : report.sweeps) {
    header.push_back(sweep.library + " (us)");
    header.push_back("busbw (GB/s)");
    header.emplace_back("algorithm");
  }
  header.emplace_back("fastest");
  header.emplace_back("by");
  Table table(std::move(header));
  table.numbers_from(0);
  for (std::size_t i = 0; i < report.sweeps.front().rows.size(); ++i) {
    std::vector<std::string> cells{count_of(report.sweeps.front().rows[i].size)};
    std::vector<std::pair<Time, std::string>> times;
    for (const answer::CollectiveSweep& sweep : report.sweeps) {
      const answer::CollectiveRow& row = sweep.rows[i];
      cells.push_back(in_microseconds(row.time));
      cells.push_back(in_gigabytes(row.bus_bandwidth));
      cells.push_back(row.algorithm);
      times.emplace_back(row.time, sweep.library);
    }
    std::stable_sort(times.begin(), times.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    const bool some = times.front().first > Time::zero();
    cells.push_back(some ? times.front().second : "-");
    cells.push_back(some ? fmt::format("{:.2f}x", times[1].first / times[0].first) : "-");
    table.add(std::move(cells));
  }
  return table;
}

Table long_table(const answer::CollectiveReport& report) {
  Table table({"library", "size_bytes", "time_us", "algbw_gbytes_per_s", "busbw_gbytes_per_s", "algorithm", "protocol",
               "provenance"});
  for (const answer::CollectiveSweep& sweep : report.sweeps) {
    for (const answer::CollectiveRow& row : sweep.rows) {
      table.add({sweep.library, count_of(row.size), significant(row.time.in(microseconds), 9),
                 significant(row.algorithm_bandwidth.in(gigabytes_per_second), 9),
                 significant(row.bus_bandwidth.in(gigabytes_per_second), 9), row.algorithm, row.protocol,
                 std::string(to_string(row.provenance))});
    }
  }
  return table;
}

Json rows_of(const answer::CollectiveSweep& sweep) {
  Json rows = Json::array();
  for (const answer::CollectiveRow& row : sweep.rows) {
    rows.push_back({{"size_bytes", row.size.in(bytes)},
                    {"time_s", row.time.in(seconds)},
                    {"algbw_bytes_per_s", row.algorithm_bandwidth.in(bytes_per_second)},
                    {"busbw_bytes_per_s", row.bus_bandwidth.in(bytes_per_second)},
                    {"algorithm", row.algorithm},
                    {"protocol", row.protocol},
                    {"provenance", to_string(row.provenance)}});
  }
  return rows;
}

/// `rows` are those of the first library; `compared` holds all of several.
std::string json_of(const answer::CollectiveReport& report) {
  Json json;
  json["schema"] = "ddlsim/collective/1";
  json["op"] = name_of(primitives::kCollectiveOps, report.op);
  json["gpus"] = report.gpus;
  json["nodes"] = report.nodes;
  json["library"] = report.sweeps.front().library;
  json["rows"] = rows_of(report.sweeps.front());
  if (report.sweeps.size() > 1) {
    json["compared"] = Json::array();
    for (const answer::CollectiveSweep& sweep : report.sweeps) {
      json["compared"].push_back({{"library", sweep.library}, {"rows", rows_of(sweep)}});
    }
  }
  json["notes"] = report.notes;
  return dump(json);
}

/// The answer first: what the largest size reaches.
std::string first_line(const answer::CollectiveReport& report) {
  std::string text;
  for (const answer::CollectiveSweep& sweep : report.sweeps) {
    const answer::CollectiveRow& last = sweep.rows.back();
    text +=
        fmt::format("{}{}: {} in {}", text.empty() ? "" : "; ", sweep.library, to_text(last.size), to_text(last.time));
    if (last.time > Time::zero()) text += fmt::format(", bus bandwidth {}", to_text(last.bus_bandwidth));
  }
  return text + "\n";
}

}  // namespace

std::string render(const answer::CollectiveReport& report, Format format) {
  if (is_drawn(format)) return drawn(format, pictures_of(report), render(report, Format::kMd));
  if (format == Format::kJson) return json_of(report);
  if (format == Format::kCsv) return long_table(report).render(format);
  std::string text = first_line(report) + report.title + "\n\n";
  text +=
      (report.sweeps.size() == 1 ? columns_of_nccl_tests(report.sweeps.front()) : comparison(report)).render(format);
  for (const std::string& note : report.notes) text += "note: " + note + "\n";
  return text;
}

}  // namespace ddlsim::report
