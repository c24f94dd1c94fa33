#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>

#include "ddlsim/io/content_hash.h"
#include "ddlsim/report/views.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/fleet.h"
#include "ddlsim/whatif/population.h"
#include "fleet_jobs.h"
#include "fleet_parts.h"
#include "output.h"
#include "program.h"
#include "terminal.h"
#include "work_over.h"

namespace ddlsim::cli {
namespace {

constexpr std::int64_t kMaxJobs = 1'000'000'000'000;

constexpr std::string_view kFleetExamples = R"(
The columns of JOBS.csv are in models/README.md; '-' reads standard input. Without a table, jobs are drawn from a
population's published marginals, by all cores; sums are exact, so threads, parts and ranks of mpirun change no bit.

Examples:
  ddlsim fleet jobs.csv --what-if --cdf cdf.csv
  ddlsim fleet --population pai_2019 --jobs 100000 --seed 1 --what-if
  ddlsim fleet --population pai_2019 --jobs 1000 --generate jobs.csv
  ddlsim fleet --population pai_2019 --jobs 1000000000 --shard 3/16 -o part3.fleet
  ddlsim fleet --merge part*.fleet)";

struct FleetFlags {
  std::string table;
  std::string population = "pai_2019";
  std::string setting;
  std::string generate;
  std::string cdf;
  std::string data;
  std::string shard;
  std::string out;
  std::string mpi = "auto";
  std::vector<std::string> merge;
  std::int64_t jobs = 100'000;
  std::uint64_t seed = 1;
  int threads = 0;
  bool what_if = false;
  bool headlines = false;
};

/// Writes a drawn population as a table of jobs, row by row.
int generate(const FleetFlags& flags, const io::PopulationFile& population) {
  std::string header;
  for (const std::string& column : whatif::job_columns()) header += (header.empty() ? "" : ",") + column;
  const whatif::JobDrawer drawer(population, flags.seed);
  std::array<cost::PaiJob, 1024> jobs{};
  std::int64_t first = 0;
  // The rows of the next jobs; empty after the last.
  const auto rows = [&] {
    const auto some =
        std::span(jobs).first(static_cast<std::size_t>(std::min<std::int64_t>(flags.jobs - first, std::ssize(jobs))));
    drawer.draw(static_cast<std::uint64_t>(first), some);
    std::string text;
    for (const cost::PaiJob& job : some) text += whatif::job_row(static_cast<std::uint64_t>(first++), job) + "\n";
    return text;
  };
  if (flags.generate == "-") {
    int status = print(header + "\n");
    while (status == kDone && first < flags.jobs) status = print(rows());
    return status;
  }
  auto file = OutputFile::open(flags.generate);
  if (!file) return print(file.error());
  auto written = file->write(header + "\n");
  ProgressLine progress("jobs");
  while (written && first < flags.jobs) {
    written = file->write(rows());
    progress(first, flags.jobs - first);
  }
  if (written) written = file->commit();
  return written ? kDone : print(written.error());
}

Expected<void> read_jobs(const std::string& table, whatif::Shard part, whatif::Fleet& fleet) {
  // How many rows a table has nobody knows before its end.
  ProgressLine progress("jobs");
  const auto tell = [&progress](std::int64_t jobs) { progress(jobs, std::nullopt); };
  const auto takes = [part](std::int64_t row) { return row_is_of(row, part); };
  if (table == "-") return fleet.add_table(std::cin, "<stdin>", tell);
  std::ifstream stream(table);
  if (!stream) return fail(ErrorCode::kIo, "could not be opened", {table, 0, 0});
  return fleet.add_table(stream, table, tell, takes);
}

/// Of a file's bytes.
std::string hash_of_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::string chunk(std::size_t{1} << 16, '\0');
  io::ContentHash hash;
  while (stream.read(chunk.data(), std::ssize(chunk)) || stream.gcount() > 0) {
    hash.add(std::string_view(chunk).substr(0, static_cast<std::size_t>(stream.gcount())));
  }
  return hash.hex();
}

/// What contradicts what; throws UsageError.
void check(const FleetFlags& flags, bool draws, bool setting, bool workers) {
  if (!flags.merge.empty()) {
    if (draws || setting || workers || flags.what_if || !flags.table.empty() || !flags.shard.empty() ||
        !flags.out.empty()) {
      throw UsageError{"--merge and what the parts say themselves",
                       "give --merge FILE..., --cdf, --headlines, --format"};
    }
    return;
  }
  if (!flags.cdf.empty() && !flags.what_if) throw UsageError{"--cdf without --what-if", "add --what-if"};
  if (draws && !flags.table.empty()) {
    throw UsageError{"a table of jobs and a population to draw from", "give JOBS.csv, or --population and its kin"};
  }
  if (flags.headlines && !(flags.what_if && flags.table.empty())) {
    throw UsageError{"--headlines needs a population and --what-if", "leave JOBS.csv out, add --what-if"};
  }
  const bool part = !flags.shard.empty() || !flags.out.empty();
  if (!flags.shard.empty() && flags.out.empty()) {
    throw UsageError{"--shard without -o", "name the file of its sums: -o part.fleet; --merge makes the report"};
  }
  if (part && (flags.table == "-" || !flags.generate.empty() || !flags.cdf.empty() || flags.headlines)) {
    throw UsageError{"-o writes sums of jobs that others can have too",
                     "leave out '-', --generate, --cdf, --headlines"};
  }
}

FleetFlags read_flags(CLI::App& app, FormatFlags& format, const std::vector<std::string>& arguments) {
  FleetFlags flags;
  app.footer(std::string(kFleetExamples));
  format.add_to(app, true);
  app.add_option("table", flags.table, "a table of jobs, or '-'")->type_name("JOBS.csv");
  app.add_option("--population", flags.population, "marginals to draw jobs from")
      ->type_name("POPULATION")
      ->default_str("pai_2019");
  app.add_option("--jobs", flags.jobs, "how many to draw")
      ->check(CLI::Range(std::int64_t{1}, kMaxJobs))
      ->type_name("N")
      ->default_str("100000");
  app.add_option("--seed", flags.seed, "of the draw")->type_name("N")->default_str("1");
  app.add_option("--generate", flags.generate, "write the drawn jobs to a table and stop")->type_name("FILE");
  app.add_option("--setting", flags.setting, "rates of the base setting")
      ->type_name("CLUSTER")
      ->default_str("the population's");
  app.add_flag("--what-if", flags.what_if, "also the sweeps: network, PCIe, GPU, memory, ports to AllReduce");
  app.add_flag("--headlines", flags.headlines,
               "of the report, only the study's headlines beside ours (a population's)");
  app.add_option("--cdf", flags.cdf, "write the CDF of every speedup")->type_name("FILE");
  app.add_option("--threads", flags.threads, "how many draw (all of the machine's; under mpirun 1 in each rank)")
      ->type_name("N")
      ->check(CLI::Range(1, kMostThreads));
  app.add_option("--mpi", flags.mpi, "ranks of mpirun share the work")
      ->type_name("auto|always|never")
      ->default_str("auto");
  app.add_option("--shard", flags.shard, "part K of N of the jobs, for another machine; with -o")->type_name("K/N");
  app.add_option("-o,--output", flags.out, "write the sums, to be merged, instead of the report")->type_name("FILE");
  app.add_option("--merge", flags.merge, "the report of parts that -o wrote")->type_name("FILE");
  app.add_option("--data", flags.data, "folder that holds models/ and hardware/")->type_name("DIR");
  parse(app, arguments);
  const bool draws =
      app.count("--population") + app.count("--jobs") + app.count("--seed") + app.count("--generate") > 0;
  check(flags, draws, app.count("--setting") > 0, app.count("--threads") + app.count("--mpi") > 0);
  return flags;
}

whatif::Shard part_of(const FleetFlags& flags) {
  if (flags.shard.empty()) return {};
  const auto part = whatif::parse_shard(flags.shard);
  if (!part) throw UsageError{"--shard: " + part.error().message, part.error().notes.front()};
  return *part;
}

int show(const FleetFlags& flags, report::Format shape, answer::FleetReport report, const io::Catalog& catalog) {
  if (!flags.cdf.empty()) {
    if (auto written = write_file(flags.cdf, report::speedup_cdf(report)); !written) return print(written.error());
  }
  if (flags.headlines) {
    report.groups.clear();
    report.speedups.clear();
  }
  return print_answer(report::render(report, shape), shape, &catalog);
}

/// The report of parts, as one process would have made it.
int merge(const FleetFlags& flags, report::Format shape, const io::Catalog& catalog) {
  const auto parts = read_fleet_parts(flags.merge);
  if (!parts) return print(parts.error());
  const FleetQuestion& asked = parts->front().question;
  FleetQuestion here = asked;
  here.program = "ddlsim " DDLSIM_VERSION;
  const auto data = io::fingerprint_of(catalog.root());
  if (!data) return print(data.error());
  here.data = *data;
  if (const std::string differs = asked.difference(here); !differs.empty()) {
    return print(Error{ErrorCode::kInvalidArgument,
                       differs + " (this one)",
                       {parts->front().file, 0, 0},
                       {"use the program and the data that wrote it"},
                       {}});
  }
  if (!flags.cdf.empty() && !asked.changes) throw UsageError{"--cdf of parts without --what-if", "leave it out"};
  if (flags.headlines && (asked.population.empty() || !asked.changes)) {
    throw UsageError{"--headlines needs a population and --what-if", "these parts have not both; leave it out"};
  }
  const auto setting = catalog.setting(asked.setting);
  if (!setting) return print(setting.error());
  std::optional<io::PopulationFile> population;
  if (!asked.population.empty()) {
    auto drawn = catalog.population(asked.population);
    if (!drawn) return print(drawn.error());
    population = std::move(*drawn);
  }
  whatif::Fleet fleet(*setting, asked.changes);
  for (const FleetPart& part : *parts) {
    if (auto added = fleet.add_sums(part.sums, part.file, part.first_line); !added) return print(added.error());
  }
  return show(flags, shape, fleet.report(population ? &*population : nullptr), catalog);
}

/// The jobs, from wherever they come, into the fleet; on rank 0 alone where there are ranks.
Expected<void> fill(const FleetFlags& flags, const FleetDraw* draw, Ranks* ranks, whatif::Fleet& fleet, bool& lost) {
  if (draw == nullptr) return read_jobs(flags.table, part_of(flags), fleet);
  ProgressLine progress("jobs");
  return draw_fleet(
      *draw, ranks, fleet, [&](std::int64_t jobs) { progress(jobs, flags.jobs - jobs); }, lost);
}

int answer(const FleetFlags& flags, report::Format shape, const io::Catalog& catalog, FleetQuestion question,
           const io::StudySetting& setting, std::optional<FleetDraw>& draw, UseMpi mpi) {
  const auto ranks = Ranks::join(mpi);
  if (ranks != nullptr || !flags.out.empty()) {
    auto data = io::fingerprint_of(catalog.root());
    if (!data) return print(data.error());
    question.data = std::move(*data);
  }
  if (ranks != nullptr) {
    if (!draw) throw UsageError{"a table of jobs is read by one process", "--shard K/N -o FILE is a part of it"};
    const auto alike = agree(*ranks, {{"program", question.program},
                                      {"data", "data " + question.data},
                                      {"setting", question.setting},
                                      {"jobs", question.jobs},
                                      {"changes", question.changes ? "--what-if" : "no --what-if"},
                                      {"part", fmt::format("part {}/{}", question.part.number, question.part.of)}});
    if (!alike) return ranks->number() == 0 ? print(alike.error()) : kNoAnswer;
  }
  if (draw) draw->threads = flags.threads > 0 ? flags.threads : ranks == nullptr ? machine_threads() : 1;
  whatif::Fleet fleet(setting, flags.what_if);
  bool lost = false;
  const auto filled = fill(flags, draw ? &*draw : nullptr, ranks.get(), fleet, lost);
  int status = kDone;
  if (!filled) {
    status = print(filled.error());
  } else if (ranks == nullptr || ranks->number() == 0) {
    if (flags.out.empty()) {
      status = show(flags, shape, fleet.report(draw ? &draw->population : nullptr), catalog);
    } else {
      if (!draw) question.jobs = "table " + hash_of_file(flags.table);
      const auto written = write_file(flags.out, fleet_part_text(question, fleet.sums()));
      if (!written) status = print(written.error());
    }
  }
  if (lost) ranks->leave_without_the_lost(status);
  return status;
}

}  // namespace

int run_fleet(const std::vector<std::string>& arguments) {
  CLI::App app("Where the time of many jobs goes, and what would speed them up.", "ddlsim fleet");
  FormatFlags format;
  const FleetFlags flags = read_flags(app, format, arguments);
  const report::Format shape = format.get();
  const auto mpi = parse_choice(kUseMpi, flags.mpi, "use of MPI");
  if (!mpi) throw UsageError{"--mpi: " + mpi.error().message, mpi.error().notes.front()};
  FleetQuestion question{.program = "ddlsim " DDLSIM_VERSION,
                         .data = {},
                         .setting = {},
                         .population = {},
                         .jobs = {},
                         .changes = flags.what_if,
                         .part = part_of(flags)};
  const auto catalog = open_catalog(flags.data);
  if (!catalog) return print(catalog.error());
  if (!flags.merge.empty()) return merge(flags, shape, *catalog);
  if (std::error_code none; !flags.table.empty() && flags.table != "-" && !std::filesystem::exists(flags.table, none)) {
    return print(Error{ErrorCode::kIo,
                       "there is no such table of jobs",
                       {flags.table, 0, 0},
                       {"to draw jobs: --population, of " + join(catalog->ids(io::Kind::kPopulations))},
                       {}});
  }

  std::optional<io::PopulationFile> population;
  if (flags.table.empty()) {
    auto drawn = catalog->population(flags.population);
    if (!drawn) return print(drawn.error());
    population = std::move(*drawn);
    if (!flags.generate.empty()) return generate(flags, *population);
    question.population = flags.population;
    question.jobs = fmt::format("population {} seed {} jobs {}", flags.population, flags.seed, flags.jobs);
  }
  const std::string named = population ? population->setting : "pai-2019";
  question.setting = flags.setting.empty() ? named : flags.setting;
  const auto setting = catalog->setting(question.setting);
  if (!setting) return print(setting.error());
  std::optional<FleetDraw> draw;
  if (population) draw.emplace(FleetDraw{*population, *setting, flags.seed, flags.jobs, flags.what_if, question.part});
  return answer(flags, shape, *catalog, std::move(question), *setting, draw, *mpi);
}

}  // namespace ddlsim::cli
