#include "ddlsim/whatif/sweep.h"

#include <fmt/core.h>
#include <pybind11/numpy.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>
#include <unordered_map>

#include "ddlsim/report/sweep.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/grid_settings.h"
#include "module.h"

namespace ddlsim::python {
namespace {

using io::Cell;
using io::CellType;

/// A vector as a numpy array that owns it: nothing is copied.
template <typename T>
py::array array_of(std::vector<T> values) {
  auto kept = std::make_unique<std::vector<T>>(std::move(values));
  const std::vector<T>& all = *kept;
  const py::capsule owner(kept.release(), [](void* vector) { delete static_cast<std::vector<T>*>(vector); });
  return py::array_t<T>(static_cast<py::ssize_t>(all.size()), all.data(), owner);
}

/// A column of rows: numbers as they are, texts as codes of the ones seen so far.
class Column {
 public:
  explicit Column(io::ResultColumn column) : column_(std::move(column)) {}

  void reserve(std::size_t rows) {
    if (column_.type == CellType::kReal) reals_.reserve(rows);
    if (column_.type == CellType::kInteger) wholes_.reserve(rows);
    if (column_.type == CellType::kText) codes_.reserve(rows);
  }

  void add(const Cell& cell) {
    switch (column_.type) {
      case CellType::kReal: add_real(cell); return;
      case CellType::kInteger: add_whole(cell); return;
      case CellType::kText: codes_.push_back(code_of(cell)); return;
    }
  }

  /// (name, is an axis, array, texts or None). A whole number that some rows lack becomes a float with NaN.
  py::tuple finish() && {
    py::object texts = py::none();
    py::object values;
    if (column_.type == CellType::kText) {
      py::list all;
      for (const std::string& text : texts_) all.append(text);
      texts = all;
      values = array_of(std::move(codes_));
    } else if (column_.type == CellType::kInteger && !holes_) {
      values = array_of(std::move(wholes_));
    } else {
      values = array_of(std::move(reals_));
    }
    return py::make_tuple(column_.name, column_.axis, values, texts);
  }

 private:
  static constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

  void add_real(const Cell& cell) {
    const auto* real = std::get_if<double>(&cell);
    reals_.push_back(real == nullptr ? kNothing : *real);
  }

  void add_whole(const Cell& cell) {
    const auto* whole = std::get_if<std::int64_t>(&cell);
    if (whole == nullptr && !holes_) {
      holes_ = true;
      reals_.assign(wholes_.begin(), wholes_.end());
    }
    if (!holes_) {
      wholes_.push_back(*whole);
    } else {
      reals_.push_back(whole == nullptr ? kNothing : static_cast<double>(*whole));
    }
  }

  std::int32_t code_of(const Cell& cell) {
    const auto* text = std::get_if<std::string>(&cell);
    if (text == nullptr) return -1;
    if (last_ >= 0 && texts_[static_cast<std::size_t>(last_)] == *text) return last_;
    const auto [at, added] = places_.try_emplace(*text, static_cast<std::int32_t>(texts_.size()));
    if (added) texts_.push_back(*text);
    last_ = at->second;
    return last_;
  }

  io::ResultColumn column_;
  std::vector<double> reals_;
  std::vector<std::int64_t> wholes_;
  std::vector<std::int32_t> codes_;
  std::vector<std::string> texts_;
  std::unordered_map<std::string, std::int32_t> places_;
  std::int32_t last_ = -1;
  bool holes_ = false;
};

/// Lets somebody who presses Ctrl-C out, ten times a second.
class Interruptible {
 public:
  bool operator()() {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::milliseconds(100)) return interrupted_;
    last_ = now;
    const py::gil_scoped_acquire locked;
    interrupted_ = PyErr_CheckSignals() != 0;
    return interrupted_;
  }
  [[nodiscard]] bool interrupted() const { return interrupted_; }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  bool interrupted_ = false;
};

/// How a grid is taken.
struct Taking {
  bool time_only = false;
  int threads = 0;
  whatif::Shard shard;
  bool yes = false;
};

constexpr std::int64_t kMostUnasked = 10'000'000;  // points that need no `yes`, as the command has it
constexpr int kMostThreads = 1024;

Taking taking_of(const py::dict& options) {
  Taking taking;
  taking.time_only = options.contains("time_only") && py::bool_(options["time_only"]);
  taking.yes = options.contains("yes") && py::bool_(options["yes"]);
  Kept kept;
  if (options.contains("threads")) {
    const std::string text = text_of("threads", options["threads"], kept).value_or("");
    auto threads = parse_count(text, {1, kMostThreads});
    if (!threads) threads.error().message = "threads: " + threads.error().message;
    taking.threads = static_cast<int>(value_or_raise(std::move(threads)));
  }
  if (options.contains("shard")) {
    taking.shard = value_or_raise(whatif::parse_shard(text_of("shard", options["shard"], kept).value_or("")));
  }
  return taking;
}

std::optional<whatif::Sample> sample_of(const py::dict& options) {
  Kept kept;
  const auto count = [&](const char* name, CountRange range) {
    auto number = parse_count(text_of(name, options[name], kept).value_or(""), range);
    if (!number) number.error().message = fmt::format("{}: {}", name, number.error().message);
    return value_or_raise(std::move(number));
  };
  if (!options.contains("sample")) {
    if (options.contains("sample_by") || options.contains("seed")) {
      raise({ErrorCode::kInvalidArgument,
             "sample_by and seed without sample",
             {},
             {"say how many points: sample=1000"},
             {}});
    }
    return std::nullopt;
  }
  whatif::Sample sample;
  sample.points = count("sample", {1, whatif::kMaxSample});
  if (options.contains("sample_by")) {
    const std::string by = text_of("sample_by", options["sample_by"], kept).value_or("");
    sample.by = value_or_raise(parse_choice(whatif::kSampleBy, by, "way to sample"));
  }
  if (options.contains("seed")) sample.seed = static_cast<std::uint64_t>(count("seed", {0, std::int64_t{1} << 62}));
  return sample;
}

whatif::Grid grid_of(const py::tuple& jobs, const py::dict& settings, const py::dict& options, Kept& kept) {
  whatif::GridParts parts;
  if (options.contains("file")) {
    parts = value_or_raise(whatif::load_grid(text_of("file", options["file"], kept).value_or("")));
  }
  for (const py::handle job : jobs) {
    if (!py::isinstance<py::dict>(job)) {
      raise({ErrorCode::kInvalidArgument, "settings are a map of paths and values", {}, {}, {}});
    }
    add_to_grid(py::reinterpret_borrow<py::dict>(job), parts, kept);
  }
  add_to_grid(settings, parts, kept);
  for (const py::handle one : options["zip"]) {
    if (!py::isinstance<py::dict>(one)) {
      raise({ErrorCode::kInvalidArgument,
             "zip takes maps of lists",
             {},
             {"as zip=[{\"node\": [...], \"batch\": [...]}]"},
             {}});
    }
    parts.axes.push_back(zipped_axis(py::reinterpret_borrow<py::dict>(one), kept));
  }
  for (const py::handle one : options["where"]) {
    parts.where.push_back({text_of("where", one, kept).value_or(""), {}});
  }
  if (const auto sample = sample_of(options)) parts.sample = sample;
  whatif::keep_last(parts.base);
  return value_or_raise(whatif::Grid::create(std::move(parts)));
}

void check(const whatif::Grid& grid, const Catalog& catalog, const Taking& taking) {
  for (const char* path : {"model", "node"}) {
    if (!whatif::all_values(grid, path).empty()) continue;
    raise({ErrorCode::kInvalidArgument, fmt::format("no {} named", path), {}, {}, {}});
  }
  value_or_raise(whatif::check_names(grid, catalog.data()));
  const std::int64_t points = whatif::positions_of(grid, taking.shard, {});
  if (points <= kMostUnasked || taking.yes) return;
  raise({ErrorCode::kInfeasible,
         fmt::format("the grid has {} points{}", to_text(points),
                     grid.conditional() ? ", less what conditions leave out" : ""),
         {},
         {"yes=True goes ahead; sample=10000 takes some of them; shards=16 makes parts for other machines"},
         {}});
}

py::list sweep(const Catalog& catalog, const py::tuple& jobs, const py::dict& settings, const py::dict& options) {
  Kept kept;
  const whatif::Grid grid = grid_of(jobs, settings, options, kept);
  const Taking taking = taking_of(options);
  check(grid, catalog, taking);
  const auto machine = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const auto detail = taking.time_only ? answer::SweepDetail::kTime : answer::SweepDetail::kFull;
  const whatif::SweepOptions how{.detail = detail,
                                 .threads = taking.threads > 0 ? taking.threads : std::min(machine, kMostThreads),
                                 .shard = taking.shard,
                                 .after = {}};
  std::vector<Column> columns;
  const std::int64_t most = whatif::positions_of(grid, taking.shard, {});
  for (io::ResultColumn& column : report::sweep_columns(grid.paths(), detail)) {
    columns.emplace_back(std::move(column)).reserve(static_cast<std::size_t>(std::min(most, kMostUnasked)));
  }
  Interruptible interrupted;
  const auto take = [&](std::span<const answer::SweepRow> rows, const whatif::SweepProgress&) -> Expected<void> {
    for (const answer::SweepRow& row : rows) {
      const std::vector<Cell> cells = report::sweep_cells(row, detail);
      for (std::size_t i = 0; i < columns.size(); ++i) columns[i].add(cells[i]);
    }
    if (interrupted()) return fail(ErrorCode::kInfeasible, "interrupted");
    return {};
  };
  auto done = [&] {
    const Unlocked unlocked;
    return whatif::sweep(catalog.data(), grid, how, take);
  }();
  if (interrupted.interrupted()) throw py::error_already_set();
  value_or_raise(std::move(done));
  py::list all;
  for (Column& column : columns) all.append(std::move(column).finish());
  return all;
}

}  // namespace

void bind_sweep(py::module_& module) { module.def("sweep", &sweep); }

}  // namespace ddlsim::python
