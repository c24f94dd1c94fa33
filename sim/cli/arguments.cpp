#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "ddlsim/support/names.h"
#include "program.h"
#include "standard_input.h"

namespace ddlsim::cli {
namespace {

namespace fs = std::filesystem;

struct Flag {
  std::string_view name;
  std::string_view setting;
  std::string_view help;
};

constexpr auto kFlags = std::to_array<Flag>({
    {"--model", "model", "workload: a name (`ddlsim list models`) or a file"},
    {"--node", "node", "server or cloud instance: a name (`ddlsim list nodes`) or a file"},
    {"--gpu", "gpu", "another GPU in that server"},
    {"--nodes", "nodes", "how many servers (1)"},
    {"--gpus-per-node", "gpus_per_node", "GPUs of a server that the job uses (all)"},
    {"--network", "network", "of a server: '25 Gb/s', a link's name, or '4 x infiniband-100g'"},
    {"--strategy", "strategy", "ps, allreduce, pearl (allreduce)"},
    {"--batch", "batch", "samples per GPU and step (the model's)"},
    {"--precision", "precision", "fp32, tf32, fp16, bf16, fp8 (fp32)"},
    {"--tp", "parallel.tensor", "tensor-parallel degree (1)"},
    {"--pp", "parallel.pipeline", "pipeline stages (1)"},
    {"--cp", "parallel.context", "context-parallel degree (1)"},
    {"--ep", "parallel.expert", "expert-parallel degree (1)"},
    {"--dp", "parallel.data", "replicas: what the others leave of the GPUs; checked"},
    {"--schedule", "parallel.schedule", "of the pipeline: gpipe, 1f1b, interleaved, zb-h1, ... (1f1b)"},
    {"--zero", "parallel.zero", "what replicas share: 0, 1, 2, 3 (0)"},
    {"--recompute", "parallel.recompute", "none, selective, full (none)"},
    {"--micro-batch", "batch", "the same as --batch"},
    {"--global-batch", "global_batch", "samples of a step over all replicas"},
    {"--measured-step", "measured.step", "a measured step of this very job: '180 ms'"},
    {"--measured", "measured.runs", "measured runs of this job on some of its GPUs (CSV: gpus, nodes, step, ...)"},
    {"--dataset", "input.dataset", "what is read (`ddlsim list datasets`); without it the loader keeps up"},
    {"--workers", "input.workers", "of a GPU's loader (its share of the hardware threads)"},
    {"--fidelity", "fidelity", "aggregate, analytic, event (analytic where the model has layers)"},
});

constexpr auto kTrainingFlags = std::to_array<Flag>({
    {"--samples", "training.samples", "samples of an epoch: 1281167, 1.28e6"},
    {"--tokens", "training.tokens", "tokens of an epoch, instead: 300e9"},
    {"--epochs", "training.epochs", "passes over them (1)"},
    {"--steps", "training.steps", "steps of the run, instead of samples and epochs"},
    {"--carbon", "energy.carbon", "CO2 of the electricity: '400 g/kWh'"},
    {"--failures", "failures", "published rates of failures (`ddlsim list failures`), or a file"},
    {"--mtbf-gpu", "failures.mtbf_gpu", "mean time between failures of one GPU: '80000 h'"},
    {"--mtbf-node", "failures.mtbf_node", "of one server besides its GPUs"},
    {"--mtbf-switch", "failures.mtbf_switch", "of one switch (failures.nodes_per_switch servers each)"},
    {"--spares", "failures.spares", "servers that stand by (0)"},
    {"--checkpoint-mode", "checkpoint.mode", "blocking, async, memory (blocking)"},
    {"--checkpoint-every", "checkpoint.interval", "worked between two: '30 min' (best)"},
    {"--checkpoint-bandwidth", "checkpoint.bandwidth", "of the storage, of all who write: '100 GB/s'"},
});

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

}  // namespace

void ScenarioFlags::add_to(CLI::App& app) {
  values_.resize(kFlags.size());
  app.add_option("-f,--scenario", files_, "a scenario file (YAML); later files win")
      ->type_name("FILE")
      ->allow_extra_args(false);
  for (std::size_t i = 0; i < kFlags.size(); ++i) {
    values_[i].first = kFlags[i].setting;
    options_.push_back(app.add_option(std::string(kFlags[i].name), values_[i].second, std::string(kFlags[i].help)));
    options_.back()->type_name("X");
  }
  app.add_option("--set", sets_, "PATH=VALUE: any setting (`ddlsim list settings`)")
      ->type_name("PATH=VALUE")
      ->allow_extra_args(false);
}

void TrainingFlags::add_to(CLI::App& app) {
  values_.resize(kTrainingFlags.size());
  for (std::size_t i = 0; i < kTrainingFlags.size(); ++i) {
    const Flag& flag = kTrainingFlags[i];
    values_[i].first = flag.setting;
    options_.push_back(app.add_option(std::string(flag.name), values_[i].second, std::string(flag.help)));
    options_.back()->type_name("X");
  }
  app.add_option("--price", prices_, "of a server: '12 $/h', or 'NODE=12 $/h' for each of several")
      ->type_name("X")
      ->allow_extra_args(false);
  app.add_flag("--spot", spot_, "servers at their spot price");
}

std::vector<whatif::Override> TrainingFlags::settings() const {
  std::vector<whatif::Override> overrides;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (options_[i]->count() == 0) continue;
    if (values_[i].second.empty()) {
      throw UsageError{fmt::format("{} has an empty value", kTrainingFlags[i].name),
                       "leave the flag out, or give it a value"};
    }
    overrides.push_back({values_[i].first, values_[i].second, {}});
  }
  if (!prices_.empty()) overrides.push_back({"price", join(prices_), {}});
  if (spot_) overrides.push_back({"price.spot", "yes", {}});
  return overrides;
}

std::vector<whatif::Override> parse_settings(std::string_view flag, const std::vector<std::string>& texts) {
  std::vector<whatif::Override> settings;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw UsageError{fmt::format("{} '{}' is not PATH=VALUE", flag, text.substr(0, 60)),
                       fmt::format("write {} PATH=VALUE, as {} network='100 Gb/s'", flag, flag)};
    }
    settings.push_back({text.substr(0, equals), text.substr(equals + 1), {}});
  }
  return settings;
}

Expected<std::vector<whatif::Override>> ScenarioFlags::settings(const std::vector<whatif::Override>& more) const {
  const std::vector<whatif::Override> typed = sets();
  auto all = base();
  if (!all) return all;
  all->insert(all->end(), more.begin(), more.end());
  all->insert(all->end(), typed.begin(), typed.end());
  return all;
}

Expected<std::vector<whatif::Override>> ScenarioFlags::base() const {
  std::vector<whatif::Override> overrides;
  for (const std::string& file : files_) {
    auto settings = whatif::load_scenario(file);
    if (!settings) return tl::unexpected<Error>(settings.error());
    overrides.insert(overrides.end(), settings->begin(), settings->end());
  }
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (options_[i]->count() == 0) continue;
    if (values_[i].second.empty()) {
      throw UsageError{fmt::format("{} has an empty value", kFlags[i].name), "leave the flag out, or give it a value"};
    }
    overrides.push_back({values_[i].first, values_[i].second, {}});
  }
  return overrides;
}

void FormatFlags::add_to(CLI::App& app, bool pictures) {
  pictures_ = pictures;
  app.add_option("--format", format_, pictures ? "text, json, csv, md, html, svg (text)" : "text, json, csv, md (text)")
      ->type_name("X");
  app.add_flag("--json", json_, "short for --format json");
}

report::Format FormatFlags::get() const {
  if (json_) return report::Format::kJson;
  const auto format = parse_choice(report::kFormats, format_, "format");
  if (!format) {
    const bool near = format.error().notes.front().starts_with("did you mean");
    throw UsageError{"--format: " + format.error().message,
                     near || pictures_ ? format.error().notes.front() : "valid: text, json, csv, md"};
  }
  if (report::is_drawn(*format) && !pictures_) {
    throw UsageError{"--format " + format_ + ": this answer has no picture", "valid: text, json, csv, md"};
  }
  return *format;
}

void ColumnsFlag::add_to(CLI::App& app) {
  app.add_option("--columns", columns_, "nemo: a table with the columns of NVIDIA's performance summaries")
      ->type_name("X");
}

std::optional<report::Columns> ColumnsFlag::get(report::Format format) const {
  if (columns_.empty()) return std::nullopt;
  const auto columns = parse_choice(report::kColumns, columns_, "set of columns");
  if (!columns) throw UsageError{"--columns: " + columns.error().message, columns.error().notes.front()};
  if (format == report::Format::kJson) {
    throw UsageError{"--columns and JSON: its fields have names of their own", "use --format csv, md or text"};
  }
  return *columns;
}

Expected<io::Catalog> open_catalog(const std::string& flag) {
  if (!flag.empty()) return io::Catalog::open(flag);
  if (const char* set = std::getenv("DDLSIM_DATA"); set != nullptr && *set != '\0') return io::Catalog::open(set);
  std::error_code status;
  const fs::path program = fs::read_symlink("/proc/self/exe", status);
  const fs::path installed = program.parent_path().parent_path() / "share" / "ddlsim";
  if (!status && fs::is_directory(installed / "models", status)) return io::Catalog::open(installed);
  return io::Catalog::open(DDLSIM_SOURCE_DATA);
}

namespace {

/// Names come from files: what they say must not steer the terminal. Ends of lines and tabs stay.
std::string without_controls(std::string text) {
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f; }, '?');
  return text;
}

}  // namespace

int print(const std::string& text) {
  const std::string clean = without_controls(with_standard_input_named(text));
  const bool written = std::fwrite(clean.data(), 1, clean.size(), stdout) == clean.size() && std::fflush(stdout) == 0;
  if (written) return kDone;
  const std::string why = std::strerror(errno);
  std::fputs(fmt::format("error: the answer could not be written to standard output: {}\n", why).c_str(), stderr);
  return kNoAnswer;
}

int print(const Error& error) {
  std::fputs((without_controls(with_standard_input_named(to_string(error))) + "\n").c_str(), stderr);
  return kNoAnswer;
}

void parse(CLI::App& app, std::vector<std::string> arguments) {
  app.allow_extras(true);
  take_standard_input(app, arguments);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    throw HelpRequest{app.help()};
  } catch (const CLI::ParseError& problem) {
    throw UsageError{problem.what(), fmt::format("see `{} --help`", app.get_name())};
  }
  for (const CLI::Option* option : app.get_options()) {
    const std::vector<std::string>& values = option->results();
    if (option->get_items_expected_max() == 0 || std::find(values.begin(), values.end(), "") == values.end()) continue;
    throw UsageError{fmt::format("{} has an empty value", option->get_name()), "leave it out, or give it a value"};
  }
  const std::vector<std::string> extras = app.remaining();
  if (extras.empty()) return;
  const std::string& first = extras.front();
  const bool option = first.starts_with("-");
  throw UsageError{fmt::format("unknown {} '{}'", option ? "option" : "argument", first),
                   option ? suggestion(first, option_names(app)) : fmt::format("see `{} --help`", app.get_name())};
}

}  // namespace ddlsim::cli
