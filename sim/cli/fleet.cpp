#include <fstream>
#include <iostream>
#include <optional>

#include "ddlsim/report/views.h"
#include "ddlsim/whatif/fleet.h"
#include "ddlsim/whatif/population.h"
#include "output.h"
#include "program.h"
#include "terminal.h"

namespace ddlsim::cli {
namespace {

constexpr std::int64_t kMaxJobs = 1'000'000'000;

constexpr std::string_view kExamples = R"(
The columns of JOBS.csv are in models/README.md; '-' reads standard input. Without a table, jobs are drawn from a
population's published marginals.

Examples:
  ddlsim fleet jobs.csv --what-if --cdf cdf.csv
  ddlsim fleet --population pai_2019 --jobs 100000 --seed 1 --what-if
  ddlsim fleet --population pai_2019 --jobs 1000 --generate jobs.csv)";

struct FleetFlags {
  std::string table;
  std::string population = "pai_2019";
  std::string setting;
  std::string generate;
  std::string cdf;
  std::string data;
  std::int64_t jobs = 100'000;
  std::uint64_t seed = 1;
  bool what_if = false;
  bool headlines = false;
};

constexpr std::int64_t kJobsBetweenLooks = 1 << 16;

/// Writes a drawn population as a table of jobs, row by row.
int generate(const FleetFlags& flags, const io::PopulationFile& population) {
  std::string header;
  for (const std::string& column : whatif::job_columns()) header += (header.empty() ? "" : ",") + column;
  if (flags.generate == "-") {
    std::string text = header + "\n";
    for (std::int64_t i = 0; i < flags.jobs; ++i) {
      const auto index = static_cast<std::uint64_t>(i);
      text += whatif::job_row(index, whatif::draw_job(population, flags.seed, index)) + "\n";
      if (text.size() < (std::size_t{1} << 16) && i + 1 < flags.jobs) continue;
      if (const int status = print(text); status != kDone) return status;
      text.clear();
    }
    return kDone;
  }
  auto file = OutputFile::open(flags.generate);
  if (!file) return print(file.error());
  auto written = file->write(header + "\n");
  ProgressLine progress("jobs");
  for (std::int64_t i = 0; i < flags.jobs && written; ++i) {
    if (i % kJobsBetweenLooks == 0) progress(i, flags.jobs - i);
    const auto index = static_cast<std::uint64_t>(i);
    written = file->write(whatif::job_row(index, whatif::draw_job(population, flags.seed, index)) + "\n");
  }
  if (written) written = file->commit();
  return written ? kDone : print(written.error());
}

Expected<void> read_jobs(const std::string& table, whatif::Fleet& fleet) {
  // How many rows a table has nobody knows before its end.
  ProgressLine progress("jobs");
  const auto tell = [&progress](std::int64_t jobs) { progress(jobs, std::nullopt); };
  if (table == "-") return fleet.add_table(std::cin, "standard input", tell);
  std::ifstream stream(table);
  if (!stream) return fail(ErrorCode::kIo, "could not be opened", {table, 0, 0});
  return fleet.add_table(stream, table, tell);
}

FleetFlags read_flags(CLI::App& app, FormatFlags& format, const std::vector<std::string>& arguments) {
  FleetFlags flags;
  app.footer(std::string(kExamples));
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
  app.add_option("--data", flags.data, "folder that holds models/ and hardware/")->type_name("DIR");
  parse(app, arguments);
  if (!flags.cdf.empty() && !flags.what_if) throw UsageError{"--cdf without --what-if", "add --what-if"};
  const bool draws =
      app.count("--population") + app.count("--jobs") + app.count("--seed") + app.count("--generate") > 0;
  if (draws && !flags.table.empty()) {
    throw UsageError{"a table of jobs and a population to draw from", "give JOBS.csv, or --population and its kin"};
  }
  if (flags.headlines && !(flags.what_if && flags.table.empty())) {
    throw UsageError{"--headlines needs a population and --what-if", "leave JOBS.csv out, add --what-if"};
  }
  return flags;
}

}  // namespace

int run_fleet(const std::vector<std::string>& arguments) {
  CLI::App app("Where the time of many jobs goes, and what would speed them up.", "ddlsim fleet");
  FormatFlags format;
  const FleetFlags flags = read_flags(app, format, arguments);
  const report::Format shape = format.get();
  const auto catalog = open_catalog(flags.data);
  if (!catalog) return print(catalog.error());

  std::optional<io::PopulationFile> population;
  if (flags.table.empty()) {
    auto drawn = catalog->population(flags.population);
    if (!drawn) return print(drawn.error());
    population = std::move(*drawn);
    if (!flags.generate.empty()) return generate(flags, *population);
  }
  const std::string named = population ? population->setting : "pai-2019";
  const auto setting = catalog->setting(flags.setting.empty() ? named : flags.setting);
  if (!setting) return print(setting.error());
  whatif::Fleet fleet(*setting, flags.what_if);
  if (population) {
    ProgressLine progress("jobs");
    for (std::int64_t i = 0; i < flags.jobs; ++i) {
      fleet.add(whatif::draw_job(*population, flags.seed, static_cast<std::uint64_t>(i)));
      if (i % kJobsBetweenLooks == 0) progress(i, flags.jobs - i);
    }
  } else if (auto read = read_jobs(flags.table, fleet); !read) {
    return print(read.error());
  }
  answer::FleetReport report = fleet.report(population ? &*population : nullptr);
  if (!flags.cdf.empty()) {
    if (auto written = write_file(flags.cdf, report::speedup_cdf(report)); !written) return print(written.error());
  }
  if (flags.headlines) {
    report.groups.clear();
    report.speedups.clear();
  }
  return print_answer(report::render(report, shape), shape, &*catalog);
}

}  // namespace ddlsim::cli
