#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "ddlsim/report/views.h"
#include "ddlsim/support/names.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/collective.h"
#include "program.h"
#include "value_types.h"

namespace ddlsim::cli {
namespace {

constexpr std::string_view kCollectiveExamples = R"(
Sizes are nccl-tests': 8, 1K, 128M, 1G are bytes and powers of 1024; '25 MB' and '25 MiB' say what they mean. A table
of measurements (nccl-tests' output, its -J JSON, or CSV with the columns op,gpus,nodes,size_bytes,time_us) answers
where it has the operation and the ranks; beyond its sizes the answer is extrapolated.

Examples:
  ddlsim collective --op all_reduce --min 8 --max 1G --factor 2 --node dgx-a100 --nodes 4
  ddlsim collective --node piz-daint-xc50 --nodes 16 --compare mpi,mpi-opt,nccl
  ddlsim collective --op all_gather --node dgx-h100 --table all_gather_perf.txt --json)";

struct CollectiveFlags {
  std::string op = "all_reduce";
  std::string smallest = "8";
  std::string largest = "1G";
  std::string step;
  std::int64_t factor = 2;
  std::string library;
  std::string algorithm;
  std::string table;
  std::string compare;
  std::string data;
};

CollectiveFlags read_flags(CLI::App& app, ScenarioFlags& scenario, FormatFlags& format,
                           const std::vector<std::string>& arguments) {
  CollectiveFlags flags;
  app.footer(std::string(kCollectiveExamples));
  scenario.add_to(app);
  format.add_to(app, true);
  app.add_option("OP", flags.op, "the operation, as --op says it")->type_name(one_of(primitives::kCollectiveOps));
  app.add_option("--op", flags.op, "the operation")
      ->type_name(one_of(primitives::kCollectiveOps))
      ->default_str("all_reduce");
  app.add_option("--min", flags.smallest, "smallest size")->type_name("SIZE")->default_str("8");
  app.add_option("--max", flags.largest, "largest size")->type_name("SIZE")->default_str("1G");
  app.add_option("--factor", flags.factor, "between sizes")
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{1} << 30))
      ->type_name("N")
      ->default_str("2");
  app.add_option("--step", flags.step, "between sizes, instead of a factor")->type_name("SIZE");
  app.add_option("--library", flags.library, "whose collectives")
      ->type_name(one_of(cost::kCollectiveLibraries))
      ->default_str("nccl");
  app.add_option("--algorithm", flags.algorithm, "forced upon the library")
      ->type_name(one_of(cost::kCollectiveAlgorithms))
      ->default_str("its own choice");
  app.add_option("--table", flags.table, "measurements: nccl-tests' output or -J JSON, or CSV")->type_name("FILE");
  app.add_option("--compare", flags.compare, "libraries side by side")->type_name("LIBRARIES");
  app.add_option("--data", flags.data, "folder that holds models/ and hardware/")->type_name("DIR");
  parse(app, arguments);
  if (app.count("OP") > 0 && app.count("--op") > 0) {
    throw UsageError{"an operation and --op", "give one of them"};
  }
  if (app.count("--step") > 0 && app.count("--factor") > 0) {
    throw UsageError{"--step and --factor", "give one of them"};
  }
  if (app.count("--library") > 0 && app.count("--compare") > 0) {
    throw UsageError{"--library and --compare", "give one of them"};
  }
  if (app.count("--table") > 0 && app.count("--compare") > 0) {
    throw UsageError{"--table and --compare", "a table does not say which library it measured; give one of them"};
  }
  return flags;
}

template <typename T>
T or_usage_error(Expected<T> value, std::string_view flag) {
  if (value) return std::move(*value);
  const Error& error = value.error();
  throw UsageError{fmt::format("{}: {}", flag, error.message), error.notes.empty() ? "" : error.notes.front()};
}

/// "8", "128M", or a size with its unit.
DataSize parse_size(const std::string& text, std::string_view flag) {
  struct Suffix {
    char letter;
    double factor;
  };
  constexpr std::array<Suffix, 4> kSuffixes{
      {{'K', 1024.0}, {'M', 1048576.0}, {'G', 1073741824.0}, {'T', 1099511627776.0}}};
  std::string_view digits = text;
  double factor = 1;
  if (!digits.empty()) {
    const char last =
        static_cast<char>(digits.back() >= 'a' && digits.back() <= 'z' ? digits.back() - 32 : digits.back());
    const auto suffix =
        std::find_if(kSuffixes.begin(), kSuffixes.end(), [&](const Suffix& s) { return s.letter == last; });
    if (suffix != kSuffixes.end()) {
      factor = suffix->factor;
      digits.remove_suffix(1);
    }
  }
  const bool plain = !digits.empty() && std::all_of(digits.begin(), digits.end(),
                                                    [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
  if (!plain) return or_usage_error(parse_data_size(text), flag);
  const double number = or_usage_error(parse_number(digits), flag);
  if (!(number > 0)) throw UsageError{fmt::format("{}: '{}' is not above 0", flag, text.substr(0, 60)), "as 8, 1K, 1G"};
  return bytes(number * factor);
}

/// "mpi,mpi-opt,nccl:ring"
std::vector<whatif::ComparedLibrary> parse_libraries(const std::string& text) {
  std::vector<whatif::ComparedLibrary> libraries;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string name = text.substr(begin, end - begin);
    const std::size_t colon = std::min(name.find(':'), name.size());
    whatif::ComparedLibrary library;
    library.kind =
        or_usage_error(parse_choice(cost::kCollectiveLibraries, name.substr(0, colon), "library"), "--compare");
    if (colon < name.size()) {
      library.algorithm =
          or_usage_error(parse_choice(cost::kCollectiveAlgorithms, name.substr(colon + 1), "algorithm"), "--compare");
    }
    if (std::find(libraries.begin(), libraries.end(), library) != libraries.end()) {
      throw UsageError{fmt::format("--compare: '{}' twice", name), "name each library once"};
    }
    libraries.push_back(library);
    begin = end + 1;
  }
  return libraries;
}

whatif::CollectiveQuestion read_question(const CollectiveFlags& flags) {
  whatif::CollectiveQuestion question;
  question.op = or_usage_error(parse_choice(primitives::kCollectiveOps, flags.op, "operation"), "--op");
  question.smallest = parse_size(flags.smallest, "--min");
  question.largest = parse_size(flags.largest, "--max");
  if (question.largest < question.smallest) throw UsageError{"--max is below --min", "as --min 8 --max 1G"};
  if (!flags.step.empty()) question.step = parse_size(flags.step, "--step");
  question.factor = flags.factor;
  if (!flags.compare.empty()) question.libraries = parse_libraries(flags.compare);
  return question;
}

void require_node(const std::vector<whatif::Override>& settings, const io::Catalog& catalog) {
  const bool named = std::any_of(settings.begin(), settings.end(), [](const auto& s) { return s.path == "node"; });
  if (named) return;
  throw UsageError{"--node is missing", "nodes: " + join(catalog.ids(io::Kind::kNodes)) +
                                            "; cloud instances: " + join(catalog.ids(io::Kind::kInstances))};
}

/// Settings of a job, of which a collective has no part.
std::string without_use(const std::vector<whatif::Override>& settings) {
  constexpr std::array<std::string_view, 4> kParts{"parallel.", "strategy.", "input.", "training."};
  constexpr std::array<std::string_view, 4> kWhole{"model", "batch", "global_batch", "precision"};
  std::string unused;
  for (const whatif::Override& one : settings) {
    const auto begins = [&](std::string_view part) { return one.path.starts_with(part); };
    if (std::none_of(kParts.begin(), kParts.end(), begins) &&
        std::find(kWhole.begin(), kWhole.end(), one.path) == kWhole.end()) {
      continue;
    }
    unused += (unused.empty() ? "" : ", ") + one.path;
  }
  return unused;
}

}  // namespace

int run_collective(const std::vector<std::string>& arguments) {
  CLI::App app("A collective over message sizes, with the columns of nccl-tests.", "ddlsim collective");
  ScenarioFlags scenario_flags;
  FormatFlags format;
  const CollectiveFlags flags = read_flags(app, scenario_flags, format, arguments);
  const report::Format shape = format.get();
  const whatif::CollectiveQuestion question = read_question(flags);
  std::vector<whatif::Override> stated = scenario_flags.sets();
  if (!flags.library.empty()) {
    or_usage_error(parse_choice(cost::kCollectiveLibraries, flags.library, "library"), "--library");
    stated.push_back({"collective.library", flags.library, {}});
  }
  if (!flags.algorithm.empty()) {
    or_usage_error(parse_choice(cost::kCollectiveAlgorithms, flags.algorithm, "algorithm"), "--algorithm");
    stated.push_back({"collective.algorithm", flags.algorithm, {}});
  }
  const auto catalog = open_catalog(flags.data);
  if (!catalog) return print(catalog.error());
  auto settings = scenario_flags.base();
  if (!settings) return print(settings.error());
  settings->insert(settings->end(), stated.begin(), stated.end());
  require_node(*settings, *catalog);
  auto scenario = whatif::resolve_cluster(*catalog, *settings);
  if (!scenario) return print(scenario.error());
  if (!flags.table.empty()) {
    const importers::CollectiveFileDefaults defaults{
        .op = question.op, .gpus = scenario->cluster.gpus(), .nodes = scenario->cluster.nodes};
    auto table = whatif::load_collective_table(flags.table, defaults);
    if (!table) return print(table.error());
    scenario->collective_table = std::move(*table);
  }
  auto report = whatif::sweep_collective(*scenario, question);
  if (!report) return print(report.error());
  if (const std::string unused = without_use(*settings); !unused.empty()) {
    report->notes.push_back("stated, but a collective of all GPUs has no use for it: " + unused);
  }
  return print_answer(report::render(*report, shape), shape, &*catalog);
}

}  // namespace ddlsim::cli
