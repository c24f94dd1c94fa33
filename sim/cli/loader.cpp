#include <fmt/core.h>

#include <optional>

#include "ddlsim/cost/loader_shares.h"
#include "ddlsim/report/shared_loaders.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/shared_loaders.h"
#include "describe.h"
#include "output.h"
#include "program.h"
#include "value_types.h"

namespace ddlsim::cli {
namespace {

constexpr std::string_view kLoaderExamples = R"(
Jobs arrive, share the loader workers (CPU cores), memory and storage of their servers, and leave. Policies: even;
gpu-proportional; a-dloader, by marginal gain at arrivals and departures; optimal, exactly. JOBS.yaml says which servers
and jobs (include/ddlsim/io/jobs_file.h), or how to draw jobs; models/jobs has some by name: synergy, one_server.

Examples:
  ddlsim loader one_server
  ddlsim loader jobs.yaml --policy even --policy a-dloader --trace timeline.json
  ddlsim loader synergy --jobs 1000 --per-hour 20 --seed 7 --nodes 16 --json)";

/// Flags that say what a file could.
struct JobsFlags {
  std::string jobs;
  std::string seed;
  std::string per_hour;
  std::string nodes;
  std::vector<std::string> policies;

  void add_to(CLI::App& app) {
    app.add_option("--policy", policies, "who gets what")
        ->type_name(one_of(cost::kSharePolicies))
        ->default_str("all")
        ->allow_extra_args(false);
    app.add_option("--nodes", nodes, "how many servers")->type_name("N");
    app.add_option("--jobs", jobs, "how many jobs are drawn")->type_name("N");
    app.add_option("--seed", seed, "of what is drawn")->type_name("N");
    app.add_option("--per-hour", per_hour, "arrivals of drawn jobs")->type_name("NUMBER");
  }

  /// Throws UsageError.
  void apply(io::JobsFile& file, const CLI::App& app) const {
    if (app.count("--nodes") > 0) file.server.nodes = count("--nodes", nodes, {1, io::kMostServers});
    if (!policies.empty()) file.policies.clear();
    for (const std::string& policy : policies) {
      const auto known = parse_choice(cost::kSharePolicies, policy, "policy");
      if (!known) throw UsageError{"--policy: " + known.error().message, known.error().notes.front()};
      file.policies.push_back({policy, {}});
    }
    for (const char* flag : {"--jobs", "--seed", "--per-hour"}) {
      if (app.count(flag) > 0 && !file.draw) {
        throw UsageError{fmt::format("{}: the file lists its jobs", flag), "only drawn jobs (draw:) take it"};
      }
    }
    if (app.count("--jobs") > 0) file.draw->jobs = count("--jobs", jobs, {1, io::kMostJobs});
    if (app.count("--seed") > 0) {
      file.draw->seed = static_cast<std::uint64_t>(count("--seed", seed, {0, std::int64_t{1} << 62}));
    }
    if (app.count("--per-hour") == 0) return;
    const auto rate = parse_number(per_hour);
    if (!rate || *rate <= 0 || *rate > 1e9) {
      throw UsageError{fmt::format("--per-hour '{}' is no rate above 0 and up to 1e9", per_hour.substr(0, 60)),
                       "as --per-hour 9"};
    }
    file.draw->per_hour = *rate;
  }

 private:
  static std::int64_t count(std::string_view flag, const std::string& text, CountRange range) {
    const auto value = parse_count(text, range);
    if (value) return *value;
    throw UsageError{fmt::format("{}: {}", flag, value.error().message),
                     value.error().notes.empty() ? std::string("a whole number") : value.error().notes.front()};
  }
};

}  // namespace

int run_loader(const std::vector<std::string>& arguments) {
  CLI::App app("Several jobs share loader workers, memory and storage: what each policy makes of it.", "ddlsim loader");
  app.footer(std::string(kLoaderExamples));
  JobsFlags flags;
  FormatFlags format;
  std::string name;
  std::string data;
  std::string trace;
  app.add_option("JOBS", name, "what arrives where")->type_name("JOBS");
  flags.add_to(app);
  format.add_to(app);
  app.add_option("--trace", trace, "write what every job did as a Chrome trace")
      ->type_name("FILE")
      ->group(kOutputGroup);
  app.add_option("--data", data, "folder that holds models/ and hardware/")->type_name("DIR");
  parse(app, arguments);
  const report::Format shape = format.get();
  if (name.empty()) throw UsageError{"JOBS is missing", "as ddlsim loader jobs.yaml, or ddlsim loader one_server"};
  const auto catalog = open_catalog(data);
  if (!catalog) return print(catalog.error());
  auto file = whatif::load_jobs(*catalog, name);
  if (!file) return print(file.error());
  flags.apply(*file, app);
  const auto answer = whatif::share_loaders(*catalog, *file);
  if (!answer) return print(answer.error());
  if (!trace.empty()) {
    const auto timeline = report::trace_of(*answer);
    if (!timeline) return print(timeline.error());
    if (auto written = write_file(trace, report::chrome_trace(*timeline)); !written) return print(written.error());
  }
  return print_answer(report::render(*answer, shape), shape, &*catalog);
}

}  // namespace ddlsim::cli
