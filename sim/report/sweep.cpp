#include "ddlsim/report/sweep.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "ddlsim/support/quantity_io.h"
#include "json.h"
#include "table.h"

namespace ddlsim::report {
namespace {

using answer::SweepDetail;
using answer::SweepRow;
using io::Cell;
using io::CellType;
using io::ResultColumn;
using Cells = std::vector<Cell>;

constexpr std::string_view kWhy = "why";

/// The columns of an answer, in the order in which cells_of() fills them.
constexpr auto kTimeColumns = std::to_array<std::pair<std::string_view, CellType>>({
    {"gpus", CellType::kInteger},
    {"step_time_s", CellType::kReal},
    {"throughput_samples_per_s", CellType::kReal},
});
constexpr auto kFullColumns = std::to_array<std::pair<std::string_view, CellType>>({
    {"scaling_efficiency", CellType::kReal},
    {"bottleneck", CellType::kText},
    {"interval_90_low_s", CellType::kReal},
    {"interval_90_high_s", CellType::kReal},
    {"compute_s", CellType::kReal},
    {"memory_s", CellType::kReal},
    {"launch_s", CellType::kReal},
    {"input_exposed_s", CellType::kReal},
    {"communication_s", CellType::kReal},
    {"communication_exposed_s", CellType::kReal},
    {"bubble_s", CellType::kReal},
    {"other_s", CellType::kReal},
    {"memory_bytes_per_gpu", CellType::kReal},
    {"fits", CellType::kInteger},
    {"mfu", CellType::kReal},
    {"price_usd_per_h", CellType::kReal},
    {"training_time_s", CellType::kReal},
    {"training_cost_usd", CellType::kReal},
    {"training_energy_j", CellType::kReal},
    {"training_co2_g", CellType::kReal},
    {"goodput", CellType::kReal},
    {"answered_by", CellType::kText},
    {"provenance", CellType::kText},
});

/// Zero has no sign in SQLite.
Cell real(double value) { return value + 0.0; }

void add_full(const answer::SweepPrediction& p, std::vector<Cell>& cells) {
  const answer::Breakdown& parts = p.breakdown;
  cells.push_back(real(p.scaling_efficiency));
  cells.emplace_back(p.bottleneck);
  for (const Time time :
       {p.interval_90.first, p.interval_90.second, parts.compute, parts.memory, parts.launch, parts.input_exposed,
        parts.communication, parts.communication_exposed, parts.bubble, parts.other}) {
    cells.push_back(real(time.in(seconds)));
  }
  cells.push_back(real(p.memory_per_gpu.in(bytes)));
  cells.push_back(p.fits ? Cell(std::int64_t{*p.fits ? 1 : 0}) : Cell());
  cells.push_back(real(p.mfu));
  cells.push_back(p.price ? real(p.price->in(dollars_per_hour)) : Cell());
  cells.push_back(p.training ? real(p.training->time().in(seconds)) : Cell());
  cells.push_back(p.training && p.training->cost ? real(p.training->cost->in(dollars)) : Cell());
  cells.push_back(p.training ? real(p.training->energy.in(joules)) : Cell());
  cells.push_back(p.training && p.training->carbon ? real(p.training->carbon->in(grams)) : Cell());
  cells.push_back(p.goodput ? real(*p.goodput) : Cell());
  cells.emplace_back(std::string(name_of(answer::kFidelities, p.fidelity)));
  cells.emplace_back(std::string(to_string(p.provenance)));
}

std::size_t place_of(std::span<const ResultColumn> columns, std::string_view name) {
  const auto found =
      std::find_if(columns.begin(), columns.end(), [&](const ResultColumn& c) { return c.name == name; });
  return static_cast<std::size_t>(found - columns.begin());
}

/// A row with names.
class Named {
 public:
  Named(std::span<const ResultColumn> columns, std::span<const Cell> row) : columns_(columns), row_(row) {}

  [[nodiscard]] std::optional<double> number(std::string_view name) const {
    const std::size_t place = place_of(columns_, name);
    if (place == columns_.size()) return std::nullopt;
    if (const auto* real = std::get_if<double>(&row_[place])) return *real;
    if (const auto* whole = std::get_if<std::int64_t>(&row_[place])) return static_cast<double>(*whole);
    return std::nullopt;
  }
  [[nodiscard]] std::string text(std::string_view name) const {
    const std::size_t place = place_of(columns_, name);
    if (place == columns_.size()) return "";
    const auto* text = std::get_if<std::string>(&row_[place]);
    return text == nullptr ? "" : *text;
  }
  [[nodiscard]] bool answered() const { return number("step_time_s").has_value(); }
  /// "model resnet50, nodes 4"
  [[nodiscard]] std::string key(bool with_model) const {
    std::string key;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (!columns_[i].axis || (!with_model && columns_[i].name == "model")) continue;
      key += fmt::format("{}{} {}", key.empty() ? "" : ", ", columns_[i].name, text(columns_[i].name));
    }
    return key.empty() ? "the one point" : key;
  }

 private:
  std::span<const ResultColumn> columns_;
  std::span<const Cell> row_;
};

std::string csv_cell(const ResultColumn& column, const Cell& cell) {
  if (const auto* real = std::get_if<double>(&cell)) return fmt::format("{}", *real);
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  const auto* whole = std::get_if<std::int64_t>(&cell);
  if (whole == nullptr) return "";
  if (column.name == "fits") return *whole != 0 ? "true" : "false";
  return fmt::format("{}", *whole);
}

Json json_cell(const ResultColumn& column, const Cell& cell) {
  if (const auto* real = std::get_if<double>(&cell)) return *real;
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  const auto* whole = std::get_if<std::int64_t>(&cell);
  if (whole == nullptr) return nullptr;
  return column.name == "fits" ? Json(*whole != 0) : Json(*whole);
}

Json json_of(std::span<const ResultColumn> columns, std::span<const Cell> row) {
  Json json{{"schema", "ddlsim/sweep/1"}, {"settings", Json::object()}};
  for (std::size_t i = 0; i < columns.size(); ++i) {
    (columns[i].axis ? json["settings"] : json)[columns[i].name] = json_cell(columns[i], row[i]);
  }
  return json;
}

Table table_of(std::span<const ResultColumn> columns, std::span<const Cells> rows) {
  std::vector<std::string> header{"point"};
  std::vector<std::string> axes;
  for (const ResultColumn& column : columns) {
    if (column.axis) axes.push_back(column.name);
  }
  const auto any = [&](std::string_view name) {
    return std::any_of(rows.begin(), rows.end(), [&](const Cells& row) {
      const Named named(columns, row);
      return named.number(name).has_value() || !named.text(name).empty();
    });
  };
  const bool full = any("mfu");
  const bool priced = any("price_usd_per_h");
  const bool trained = any("training_time_s");
  const bool carbon = any("training_co2_g");
  const bool failing = any("goodput");
  const bool failed = any(kWhy);
  header.insert(header.end(), axes.begin(), axes.end());
  for (const char* name : {"GPUs", "step time", "samples/s"}) header.emplace_back(name);
  if (full) header.insert(header.end(), {"efficiency", "exposed comm.", "memory", "fits", "MFU"});
  if (priced) header.emplace_back("price");
  if (trained) header.insert(header.end(), {"time to train", "cost"});
  if (carbon) header.emplace_back("CO2");
  if (failing) header.emplace_back("goodput");
  if (full) header.emplace_back("bound by");
  if (failed) header.emplace_back("why no answer");
  Table table(header);
  table.numbers_from(axes.size() + 1);
  const std::string none = "-";
  for (const Cells& row : rows) {
    const Named named(columns, row);
    const auto shown = [&](std::string_view name, const auto& as_text) {
      const auto number = named.number(name);
      return number ? as_text(*number) : none;
    };
    const auto count = [](double value) { return to_text(static_cast<std::int64_t>(value)); };
    const auto time = [](double value) { return to_text(seconds(value)); };
    std::vector<std::string> cells{csv_cell(columns.front(), row.front())};
    for (const std::string& axis : axes) cells.push_back(named.text(axis));
    cells.push_back(shown("gpus", count));
    cells.push_back(shown("step_time_s", time));
    cells.push_back(shown("throughput_samples_per_s", [](double value) { return significant(value); }));
    if (full) {
      cells.push_back(shown("scaling_efficiency", [](double value) { return percent(value); }));
      cells.push_back(shown("communication_exposed_s", time));
      cells.push_back(shown("memory_bytes_per_gpu", [](double value) { return to_text(bytes(value)); }));
      cells.push_back(shown("fits", [](double value) { return std::string(value != 0 ? "yes" : "no"); }));
      cells.push_back(shown("mfu", [](double value) { return percent(value); }));
    }
    if (priced) {
      cells.push_back(shown("price_usd_per_h", [](double value) { return to_text(dollars_per_hour(value)); }));
    }
    if (trained) {
      cells.push_back(shown("training_time_s", time));
      cells.push_back(shown("training_cost_usd", [](double value) { return to_text(dollars(value)); }));
    }
    if (carbon) cells.push_back(shown("training_co2_g", [](double value) { return to_text(grams(value)); }));
    if (failing) cells.push_back(shown("goodput", [](double value) { return percent(value); }));
    if (full) cells.push_back(named.answered() ? named.text("bottleneck") : none);
    if (failed) cells.push_back(named.text(kWhy));
    table.add(std::move(cells));
  }
  return table;
}

/// "best of resnet50: nodes 64: 55.2 ms a step, 9273 samples/s"
std::string best_line(std::span<const ResultColumn> columns, const Cells& row) {
  const Named named(columns, row);
  const std::string model = named.text("model");
  return fmt::format("best{}: {}: {} a step, {} samples/s\n", model.empty() ? "" : " of " + model, named.key(false),
                     to_text(seconds(named.number("step_time_s").value_or(0))),
                     significant(named.number("throughput_samples_per_s").value_or(0)));
}

std::string name_in_sql(const std::string& name) {
  std::string quoted = "\"";
  for (const char c : name) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

/// The parts of the summaries' SQL that depend on what there is.
struct SqlParts {
  std::string by_model;  // of a window
  std::string answered;  // and fits, where that is known
  std::string rate;      // samples per second, of those that count
};
SqlParts parts_of(std::span<const ResultColumn> columns) {
  const bool models = place_of(columns, "model") < columns.size();
  const bool fits = place_of(columns, "fits") < columns.size();
  const bool fails = place_of(columns, "goodput") < columns.size();
  return {models ? "PARTITION BY " + name_in_sql("model") + " " : "",
          std::string("throughput_samples_per_s IS NOT NULL") + (fits ? " AND coalesce(fits, 1) = 1" : ""),
          std::string("throughput_samples_per_s") + (fails ? " * coalesce(goodput, 1)" : "")};
}

std::string best_sql(std::span<const ResultColumn> columns) {
  const SqlParts parts = parts_of(columns);
  return fmt::format(
      "SELECT * FROM point WHERE point IN (SELECT point FROM (SELECT point, row_number() OVER ({}ORDER BY "
      "{} DESC, point) AS place FROM point WHERE {}) WHERE place = 1) ORDER BY point",
      parts.by_model, parts.rate, parts.answered);
}

/// Of two rows the one that costs less comes first, of equal cost the one with more throughput.
std::string front_sql(std::span<const ResultColumn> columns, std::string_view cost) {
  const SqlParts parts = parts_of(columns);
  return fmt::format(
      "SELECT * FROM point WHERE point IN (SELECT point FROM (SELECT point, {2} AS rate, "
      "max({2}) OVER ({0}ORDER BY {1}, {2} DESC, point ROWS BETWEEN UNBOUNDED "
      "PRECEDING AND 1 PRECEDING) AS before FROM point WHERE {3} AND {1} IS NOT NULL) WHERE before IS NULL OR rate > "
      "before) ORDER BY point",
      parts.by_model, cost, parts.rate, parts.answered);
}

constexpr const char* kReasons =
    "SELECT why, count(*) AS points, min(point) AS first FROM point WHERE why IS NOT NULL GROUP BY why "
    "ORDER BY points DESC, first";

}  // namespace

std::vector<ResultColumn> sweep_columns(std::span<const std::string> paths, SweepDetail detail) {
  std::vector<ResultColumn> columns{{"point", CellType::kInteger, false}};
  for (const std::string& path : paths) columns.push_back({path, CellType::kText, true});
  for (const auto& [name, type] : kTimeColumns) columns.push_back({std::string(name), type, false});
  if (detail == SweepDetail::kFull) {
    for (const auto& [name, type] : kFullColumns) columns.push_back({std::string(name), type, false});
  }
  columns.push_back({std::string(kWhy), CellType::kText, false});
  return columns;
}

std::vector<Cell> sweep_cells(const SweepRow& row, SweepDetail detail) {
  const std::size_t answers = kTimeColumns.size() + (detail == SweepDetail::kFull ? kFullColumns.size() : 0);
  const std::size_t size = 1 + row.values.size() + answers + 1;
  std::vector<Cell> cells;
  cells.reserve(size);
  cells.emplace_back(row.point);
  for (const std::string& value : row.values) cells.emplace_back(value);
  if (row.answer) {
    cells.emplace_back(row.answer->gpus);
    cells.emplace_back(row.answer->step.in(seconds));
    cells.emplace_back(row.answer->throughput_samples_per_second);
    if (row.answer->full) add_full(*row.answer->full, cells);
  }
  cells.resize(size);
  if (!row.answer) cells.back() = row.why;
  return cells;
}

std::string sweep_head(std::span<const ResultColumn> columns, Format format) {
  if (format != Format::kCsv) return "";
  std::vector<std::string> names;
  for (const ResultColumn& column : columns) names.push_back(column.name);
  return Table(names).render(Format::kCsv);
}

std::string sweep_line(std::span<const ResultColumn> columns, std::span<const Cell> row, Format format) {
  if (format == Format::kJson) return json_of(columns, row).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  std::string line;
  for (std::size_t i = 0; i < columns.size(); ++i) line += (i > 0 ? "," : "") + csv_field(csv_cell(columns[i], row[i]));
  return line + "\n";
}

std::string sweep_table(std::span<const ResultColumn> columns, std::span<const Cells> rows, Format format) {
  std::map<std::string, const Cells*> best;
  std::int64_t failed = 0;
  for (const Cells& row : rows) {
    const Named named(columns, row);
    if (!named.answered()) ++failed;
    if (!named.answered() || named.number("fits") == 0.0) continue;
    const Cells*& so_far = best[named.text("model")];
    const auto rate = [&](const Cells& of) { return Named(columns, of).number("throughput_samples_per_s"); };
    if (so_far == nullptr || rate(row) > rate(*so_far)) so_far = &row;
  }
  std::string text;
  for (const auto& [model, row] : best) text += best_line(columns, *row);
  if (format == Format::kMd) text.clear();
  if (!text.empty()) text += "\n";
  text += table_of(columns, rows).render(format);
  if (failed > 0 && format == Format::kText) {
    text += fmt::format("\n{} of {} points without an answer\n", to_text(failed),
                        to_text(static_cast<std::int64_t>(rows.size())));
  }
  return text;
}

std::vector<std::string> sweep_views(std::span<const ResultColumn> columns) {
  std::vector<std::string> sql{"CREATE VIEW best_per_model AS " + best_sql(columns),
                               "CREATE VIEW pareto AS " + front_sql(columns, "gpus"),
                               std::string("CREATE VIEW without_answer AS ") + kReasons,
                               "CREATE INDEX point_throughput ON point (throughput_samples_per_s)"};
  if (place_of(columns, "price_usd_per_h") < columns.size()) {
    sql.push_back("CREATE VIEW pareto_price AS " + front_sql(columns, "price_usd_per_h"));
  }
  if (place_of(columns, "model") < columns.size()) {
    sql.push_back("CREATE INDEX point_model ON point (" + name_in_sql("model") + ", throughput_samples_per_s)");
  }
  return sql;
}

Expected<std::string> sweep_summary(const io::ResultStore& store, Format format) {
  constexpr std::size_t kMostShown = 20;
  const io::ResultRun& run = store.run();
  const auto best = store.query(best_sql(run.columns));
  if (!best) return tl::unexpected<Error>(best.error());
  auto front = store.query(front_sql(run.columns, "gpus"));
  if (!front) return tl::unexpected<Error>(front.error());
  const auto reasons = store.query(kReasons);
  if (!reasons) return tl::unexpected<Error>(reasons.error());
  const std::string part = run.shards > 1 ? fmt::format(", part {} of {}", run.shard, run.shards) : "";
  std::int64_t failed = 0;
  for (const Cells& row : *reasons) failed += std::get<std::int64_t>(row[1]);
  std::string text;
  for (const Cells& row : *best) text += best_line(run.columns, row);
  if (!text.empty()) text += "\n";
  text += fmt::format("{} rows of a grid of {} points{}{}; {} without an answer\n{}", to_text(run.rows),
                      to_text(run.points), part, run.finished ? "" : ", not finished", to_text(failed), run.grid);
  const std::size_t more = front->size() > kMostShown ? front->size() - kMostShown : 0;
  front->resize(front->size() - more);
  if (!front->empty()) {
    text += "\nno other point has more throughput on as few GPUs:\n\n" + table_of(run.columns, *front).render(format);
  }
  if (more > 0) text += fmt::format("and {} more (the view pareto, or --format csv)\n", more);
  if (!reasons->empty()) {
    Table table({"why no answer", "points", "first"});
    for (std::size_t i = 0; i < std::min(reasons->size(), kMostShown); ++i) {
      const Cells& row = (*reasons)[i];
      table.add({std::get<std::string>(row[0]), to_text(std::get<std::int64_t>(row[1])),
                 fmt::format("{}", std::get<std::int64_t>(row[2]))});
    }
    text += "\n" + table.render(format);
  }
  return text;
}

}  // namespace ddlsim::report
