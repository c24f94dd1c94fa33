#include "ddlsim/whatif/sweep.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "ddlsim/io/content_hash.h"
#include "ddlsim/io/result_store.h"
#include "ddlsim/io/yaml.h"
#include "ddlsim/report/sweep.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/grid.h"
#include "ddlsim/whatif/grid_settings.h"
#include "describe.h"
#include "output.h"
#include "program.h"
#include "ranks.h"
#include "sweep_answer.h"
#include "sweep_files.h"
#include "value_types.h"

namespace ddlsim::cli {
namespace {

using answer::SweepDetail;
using whatif::Axis;
using whatif::Grid;
using whatif::GridParts;
using whatif::Override;

constexpr std::int64_t kMostUnasked = 10'000'000;  // points that need no --yes
constexpr std::int64_t kMostShown = 10'000;        // rows of a table for people

constexpr std::string_view kSweepExamples = R"(
Every combination of the values that flags and a grid file state: a,b,c, and ranges 1..64:x2 and 32..512:+32. Every
point is a row; one without an answer says why. -o results.db is an SQLite file that a killed sweep goes on with when
the same command is run again (include/ddlsim/io/result_store.h has its tables).

Examples:
  ddlsim sweep --model resnet50,bert_large --node dgx-a100,p4d.24xlarge --nodes 1..64:x2 --format csv
  ddlsim sweep --model resnet50 --node dgx1-v100 --nodes 1..64:x2 --network "25 Gb/s,100 Gb/s" \
         --set strategy=ps,allreduce --where "nodes > 1 or strategy == allreduce" -o results.db
  ddlsim sweep -f grid.yaml --sample 1000 --sample-by latin-hypercube --seed 7 -o sample.csv
  ddlsim sweep -f grid.yaml --shard 3/16 -o part3.db
  ddlsim sweep --merge part*.db -o all.db
  ddlsim sweep --report all.db --format csv

A grid file is a scenario file whose values may be lists and ranges; beside its settings it may have
  zip:    [{node: [dgx1-v100, dgx-a100], batch: [64, 256]}]      these change together
  where:  [nodes * batch <= 4096, strategy == ps or nodes > 1]
  sample: {points: 1000, by: latin-hypercube, seed: 1})";

/// What the flags of `sweep` say beside the scenario's.
struct SweepFlags {
  ScenarioFlags scenario;
  TrainingFlags training;
  FormatFlags format;
  std::vector<std::string> grids;
  std::vector<std::string> where;
  std::string sample;
  std::string sample_by;
  std::string seed;
  std::string shard;
  std::string out;
  std::string report;
  std::vector<std::string> merge;
  std::string data;
  int threads = 0;
  std::string mpi = "auto";
  bool time_only = false;
  bool yes = false;

  void add_to(CLI::App& app) {
    scenario.add_to(app);
    app.remove_option(app.get_option("--scenario"));
    app.add_option("-f,--grid", grids, "a grid or a scenario (YAML); later files win")
        ->type_name("FILE")
        ->group(kJobGroup)
        ->allow_extra_args(false);
    training.add_to(app);
    app.add_option("--where", where, "a condition that points must meet")->type_name("COND")->allow_extra_args(false);
    app.add_option("--sample", sample, "so many points of the grid instead of all")->type_name("N");
    app.add_option("--sample-by", sample_by, "how the points are drawn")
        ->type_name(one_of(whatif::kSampleBy))
        ->default_str("random");
    app.add_option("--seed", seed, "of the sample")->type_name("N")->default_str("1");
    app.add_flag("--time-only", time_only, "step time and throughput alone, which takes a fraction of the time");
    app.add_option("--mpi", mpi, "ranks of mpirun share the work")->type_name("auto|always|never")->default_str("auto");
    app.add_option("--threads", threads, "how many work (under mpirun 1 in each rank)")
        ->type_name("N")
        ->default_str("all of the machine's")
        ->check(CLI::Range(1, kMostThreads));
    app.add_option("--shard", shard, "part K of N of the grid, for another machine")->type_name("K/N");
    app.add_option("-o,--output", out, "a file: .db (SQLite), .csv, .jsonl, .md, or as --format says")
        ->type_name("FILE")
        ->group(kOutputGroup)
        ->default_str("standard output");
    app.add_option("--report", report, "what a file of results comes to; with --format csv or json all its rows")
        ->type_name("DB");
    app.add_option("--merge", merge, "parts of one grid become one file (-o)")->type_name("DB");
    app.add_flag("--yes", yes, fmt::format("go ahead with over {} points", to_text(kMostUnasked)));
    format.add_to(app);
    app.add_option("--data", data, "folder that holds models/ and hardware/")->type_name("DIR");
  }
};

std::optional<whatif::Sample> sample_of(const SweepFlags& flags) {
  const auto number = [](std::string_view flag, const std::string& text, CountRange range) {
    const auto parsed = parse_count(text, range);
    if (!parsed) throw UsageError{fmt::format("{}: {}", flag, parsed.error().message), "a whole number"};
    return *parsed;
  };
  if (flags.sample.empty()) {
    if (!flags.sample_by.empty() || !flags.seed.empty()) {
      throw UsageError{"--sample-by and --seed without --sample", "say how many points: --sample 1000"};
    }
    return std::nullopt;
  }
  whatif::Sample sample;
  sample.points = number("--sample", flags.sample, {1, whatif::kMaxSample});
  if (!flags.sample_by.empty()) {
    const auto by = parse_choice(whatif::kSampleBy, flags.sample_by, "way to sample");
    if (!by) throw UsageError{"--sample-by: " + by.error().message, by.error().notes.front()};
    sample.by = *by;
  }
  if (!flags.seed.empty()) {
    sample.seed = static_cast<std::uint64_t>(number("--seed", flags.seed, {0, std::int64_t{1} << 62}));
  }
  return sample;
}

Expected<Grid> grid_of(const SweepFlags& flags) {
  GridParts parts;
  for (const std::string& file : flags.grids) {
    auto read = whatif::load_grid(file);
    if (!read) return tl::unexpected<Error>(read.error());
    std::move(read->base.begin(), read->base.end(), std::back_inserter(parts.base));
    std::move(read->axes.begin(), read->axes.end(), std::back_inserter(parts.axes));
    std::move(read->where.begin(), read->where.end(), std::back_inserter(parts.where));
    if (read->sample) parts.sample = read->sample;
  }
  const auto base = flags.scenario.base();
  if (!base) return tl::unexpected<Error>(base.error());
  GridParts typed;
  for (const std::vector<Override>& some : {*base, flags.training.settings(), flags.scenario.sets()}) {
    for (const Override& setting : some) {
      if (auto added = whatif::add_setting(setting, typed); !added) return tl::unexpected<Error>(added.error());
    }
  }
  whatif::take_over(std::move(typed), parts);
  for (const std::string& text : flags.where) parts.where.push_back({text, {}});
  if (const auto sample = sample_of(flags)) parts.sample = sample;
  whatif::keep_last(parts.base);
  return Grid::create(std::move(parts));
}

/// Adds the files of the user's own that settings name.
void add_named_files(const Grid& grid, io::ContentHash& hash) {
  const auto add = [&](const std::string& value) {
    std::error_code none;
    if (value.find_first_of("./") == std::string::npos || !std::filesystem::is_regular_file(value, none)) return;
    const auto text = io::read_file(value);
    hash.add(value);
    hash.add(text ? std::string_view(*text) : std::string_view());
  };
  for (const Override& one : grid.base()) add(one.value);
  for (const Axis& axis : grid.axes()) {
    for (const auto& step : axis.steps) std::for_each(step.begin(), step.end(), add);
  }
}

/// `fingerprint`: whether the data that answers come from are looked at, which takes some hundred files.
Expected<io::ResultRun> run_of(const Grid& grid, const io::Catalog& catalog, const whatif::SweepOptions& options,
                               bool fingerprint) {
  auto data = fingerprint ? io::fingerprint_of(catalog.root()) : Expected<std::string>(std::string());
  if (!data) return tl::unexpected<Error>(data.error());
  io::ContentHash hash;
  hash.add(grid.text());
  if (fingerprint) add_named_files(grid, hash);
  io::ResultRun run{.program = "ddlsim " DDLSIM_VERSION,
                    .grid = grid.text(),
                    .grid_hash = hash.hex(),
                    .data_hash = std::move(*data),
                    .detail = options.detail == SweepDetail::kTime ? "time" : "full",
                    .points = grid.size(),
                    .shard = options.shard.number,
                    .shards = options.shard.of,
                    .settings = {},
                    .columns = report::sweep_columns(grid.paths(), options.detail),
                    .extras = {}};
  for (const Override& one : grid.base()) run.settings.emplace_back(one.path, one.value);
  run.extras = report::sweep_views(run.columns);
  return run;
}

report::Format format_for(const SweepFlags& flags, bool stated) {
  if (stated || flags.out.empty()) return flags.format.get();
  const auto ending = std::filesystem::path(flags.out).extension();
  if (ending == ".csv") return report::Format::kCsv;
  if (ending == ".jsonl" || ending == ".json") return report::Format::kJson;
  return ending == ".md" ? report::Format::kMd : report::Format::kText;
}

std::string years_or_less(Time time) {
  constexpr double kHoursOfYear = 8766;
  const double years = time.in(hours) / kHoursOfYear;
  return years >= 2 ? to_text(static_cast<std::int64_t>(years)) + " years" : to_text(time);
}

/// A grid that is too large to begin with by mistake: says how long it takes, and what to do.
void ask_first(const Grid& grid, const io::Catalog& catalog, const whatif::SweepOptions& options) {
  const std::int64_t points = whatif::positions_of(grid, options.shard, {});
  if (points <= kMostUnasked) return;
  const auto time = whatif::estimated_time(catalog, grid, options);
  throw UsageError{fmt::format("the grid has {} points{}: {} on {} thread{}", to_text(points),
                               grid.conditional() ? ", less what conditions leave out" : "",
                               time ? "about " + years_or_less(*time) : std::string("none of the first has an answer"),
                               options.threads, options.threads == 1 ? "" : "s"),
                   "--yes goes ahead; --sample 10000 takes some of them; --shard 1/16 is a part for another machine"};
}

int run_grid(const SweepFlags& flags, bool format_stated) {
  whatif::SweepOptions options;
  options.detail = flags.time_only ? SweepDetail::kTime : SweepDetail::kFull;
  const auto mpi = parse_choice(kUseMpi, flags.mpi, "use of MPI");
  if (!mpi) throw UsageError{"--mpi: " + mpi.error().message, mpi.error().notes.front()};
  const bool alone = *mpi == UseMpi::kNever || (*mpi == UseMpi::kAuto && Ranks::started() == 0);
  options.threads = flags.threads > 0 ? flags.threads : alone ? machine_threads() : 1;
  if (!flags.shard.empty()) {
    const auto shard = whatif::parse_shard(flags.shard);
    if (!shard) throw UsageError{"--shard: " + shard.error().message, shard.error().notes.front()};
    options.shard = *shard;
  }
  const report::Format format = format_for(flags, format_stated);
  const auto grid = grid_of(flags);
  if (!grid) {
    // A condition of a file is bad data, one that was typed wrong usage.
    const Error& error = grid.error();
    const bool typed = error.where.file.empty() && error.message.starts_with("where '");
    if (typed) throw UsageError{"--where: " + error.message, join(error.notes, "\n  ")};
    return print(error);
  }
  const auto catalog = open_catalog(flags.data);
  if (!catalog) return print(catalog.error());
  std::vector<Override> stated;
  for (const char* path : {"model", "node"}) {
    for (const std::string& value : whatif::all_values(*grid, path)) stated.push_back({path, value, {}});
  }
  require_model_and_node(stated, *catalog);
  if (auto named = whatif::check_names(*grid, *catalog); !named) return print(named.error());
  if (!flags.yes) ask_first(*grid, *catalog, options);
  if (is_database(flags.out) && format_stated) {
    throw UsageError{"--format and an SQLite file", "--report FILE --format csv shows its rows"};
  }
  const bool table = format == report::Format::kText || format == report::Format::kMd;
  const std::int64_t points = whatif::positions_of(*grid, options.shard, {});
  if (table && points > kMostShown && !is_database(flags.out)) {
    throw UsageError{fmt::format("a table of {} rows is for nobody to read", to_text(points)),
                     "use --format csv or json, or -o results.db"};
  }
  auto run = run_of(*grid, *catalog, options, !alone || is_database(flags.out) || format == report::Format::kJson);
  if (!run) return print(run.error());
  return answer_sweep({*grid, *catalog, options, std::move(*run), format, flags.out}, *mpi);
}

}  // namespace

int run_sweep(const std::vector<std::string>& arguments) {
  CLI::App app("Answer every point of a grid of settings.", "ddlsim sweep");
  app.footer(std::string(kSweepExamples));
  SweepFlags flags;
  flags.add_to(app);
  parse(app, arguments);
  const bool format_stated = app.count("--format") > 0 || app.count("--json") > 0;
  if (!flags.report.empty() && !flags.merge.empty()) throw UsageError{"--report and --merge", "one at a time"};
  if (!flags.report.empty()) return report_results(flags.report, flags.out, flags.format.get());
  if (!flags.merge.empty()) return merge_results(flags.merge, flags.out);
  return run_grid(flags, format_stated);
}

}  // namespace ddlsim::cli
