#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "ddlsim/io/content_hash.h"
#include "ddlsim/report/program.h"
#include "ddlsim/support/names.h"
#include "ddlsim/whatif/setting_words.h"
#include "describe.h"
#include "program.h"
#include "standard_input.h"
#include "terminal.h"
#include "value_types.h"

namespace ddlsim::cli {
namespace {

namespace fs = std::filesystem;

struct Flag {
  std::string_view name;
  std::string_view setting;  // whose type it has
  const char* group;
  std::string_view help;
  std::string_view fallback;
};

constexpr auto kFlags = std::to_array<Flag>({
    {"--model", "model", kJobGroup, "workload: a name or a file", ""},
    {"--node", "node", kJobGroup, "server or cloud instance: a name or a file", ""},
    {"--gpu", "gpu", kJobGroup, "another GPU in that server", ""},
    {"--nodes", "nodes", kJobGroup, "how many servers", "1"},
    {"--gpus-per-node", "gpus_per_node", kJobGroup, "GPUs of a server that the job uses", "all"},
    {"--network", "network", kJobGroup, "of a server", "the server's"},
    {"--strategy", "strategy", kJobGroup, "how gradients are exchanged", "allreduce"},
    {"--batch", "batch", kJobGroup, "samples per GPU and pass; of a split model, of a replica: the micro-batch",
     "the model's, or what divides --global-batch"},
    {"--precision", "precision", kJobGroup, "of the GPU's arithmetic",
     "fp32; of models with causal attention (GPT, Llama) bf16, on GPUs without it fp16 (Volta, Turing)"},
    {"--tp", "parallel.tensor", kSplitGroup, "tensor-parallel degree", "1"},
    {"--pp", "parallel.pipeline", kSplitGroup, "pipeline stages", "1"},
    {"--cp", "parallel.context", kSplitGroup, "context-parallel degree", "1"},
    {"--ep", "parallel.expert", kSplitGroup, "expert-parallel degree", "1"},
    {"--etp", "parallel.expert_tensor", kSplitGroup, "ranks that an expert is cut over: 1 or --tp", "--tp"},
    {"--dp", "parallel.data", kSplitGroup, "replicas; checked", "what the others leave of the GPUs"},
    {"--schedule", "parallel.schedule", kSplitGroup, "of the pipeline", "1f1b"},
    {"--zero", "parallel.zero", kSplitGroup, "what replicas share: 1 optimizer states, 2 gradients too, 3 weights too",
     "0"},
    {"--recompute", "parallel.recompute", kSplitGroup, "what backward computes again", "none"},
    {"--micro-batch", "batch", kSplitGroup, "the same as --batch", ""},
    {"--global-batch", "global_batch", kJobGroup, "samples of a step over all replicas", ""},
    {"--measured-step", "measured.step", kInputGroup, "a measured step of this very job", ""},
    {"--measured", "measured.runs", kInputGroup,
     "measured runs of this job on some of its GPUs (CSV: gpus, nodes, step, ...)", ""},
    {"--dataset", "input.dataset", kInputGroup, "what is read", "the loader keeps up"},
    {"--workers", "input.workers", kInputGroup, "of a GPU's loader", "its share of the hardware threads"},
    {"--fidelity", "fidelity", kJobGroup, "of the model", "analytic where the model has layers"},
});

constexpr auto kTrainingFlags = std::to_array<Flag>({
    {"--samples", "training.samples", kTrainingGroup, "samples of an epoch", ""},
    {"--tokens", "training.tokens", kTrainingGroup, "tokens of an epoch, instead", ""},
    {"--epochs", "training.epochs", kTrainingGroup, "passes over them", "1"},
    {"--steps", "training.steps", kTrainingGroup, "steps of the run, instead of samples and epochs", ""},
    {"--carbon", "energy.carbon", kTrainingGroup, "CO2 of the electricity", ""},
    {"--failures", "failures", kTrainingGroup, "published rates of failures, or a file", ""},
    {"--mtbf-gpu", "failures.mtbf_gpu", kTrainingGroup, "mean time between failures of one GPU", ""},
    {"--mtbf-node", "failures.mtbf_node", kTrainingGroup, "of one server besides its GPUs", ""},
    {"--mtbf-switch", "failures.mtbf_switch", kTrainingGroup, "of one switch (failures.nodes_per_switch servers each)",
     ""},
    {"--spares", "failures.spares", kTrainingGroup, "servers that stand by", "0"},
    {"--checkpoint-mode", "checkpoint.mode", kTrainingGroup, "how checkpoints are written", "blocking"},
    {"--checkpoint-every", "checkpoint.interval", kTrainingGroup, "worked between two", "best"},
    {"--checkpoint-bandwidth", "checkpoint.bandwidth", kTrainingGroup, "of the storage, of all who write", ""},
});

CLI::Option* add_flag(CLI::App& app, const Flag& flag, std::string& value) {
  CLI::Option* option = app.add_option(std::string(flag.name), value, std::string(flag.help));
  option->group(flag.group)->type_name(type_of_setting(flag.setting));
  return option->default_str(std::string(flag.fallback));
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

/// "did you mean '--tp'?": the flag of the setting that a word means, or how --set has it; else the nearest flag.
std::string suggested_option(const std::string& typed, const CLI::App& app) {
  const std::vector<std::string> names = option_names(app);
  const auto there = [&](std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  const auto path = whatif::setting_of_word(typed.substr(0, typed.find('=')));
  if (!path || !there("--set")) return suggestion(typed, names);
  for (const Flag& flag : kFlags) {
    if (flag.setting == *path && there(flag.name)) return fmt::format("did you mean '{}'?", flag.name);
  }
  return fmt::format("did you mean '--set {}=VALUE'?", *path);
}

}  // namespace

void ScenarioFlags::add_to(CLI::App& app) {
  values_.resize(kFlags.size());
  app.add_option("-f,--scenario", files_, "a scenario file (YAML); later files win")
      ->type_name("FILE")
      ->group(kJobGroup)
      ->allow_extra_args(false);
  for (std::size_t i = 0; i < kFlags.size(); ++i) {
    values_[i].first = kFlags[i].setting;
    options_.push_back(add_flag(app, kFlags[i], values_[i].second));
  }
  app.add_option("--set", sets_, "any setting")->type_name("PATH=VALUE")->group(kJobGroup)->allow_extra_args(false);
}

void TrainingFlags::add_to(CLI::App& app) {
  values_.resize(kTrainingFlags.size());
  for (std::size_t i = 0; i < kTrainingFlags.size(); ++i) {
    values_[i].first = kTrainingFlags[i].setting;
    options_.push_back(add_flag(app, kTrainingFlags[i], values_[i].second));
  }
  app.add_option("--price", prices_, "of a server; one for each of several")
      ->type_name("PRICE")
      ->group(kTrainingGroup)
      ->allow_extra_args(false);
  app.add_flag("--spot", spot_, "servers at their spot price")->group(kTrainingGroup);
}

std::vector<whatif::Override> TrainingFlags::settings() const {
  std::vector<whatif::Override> overrides;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (options_[i]->count() == 0) continue;
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
    const std::string path = whatif::setting_at(text.substr(0, equals));
    const bool twice = std::any_of(settings.begin(), settings.end(), [&](const auto& s) { return s.path == path; });
    if (twice) throw UsageError{fmt::format("{} {} is given twice", flag, path), "give it once"};
    settings.push_back({path, text.substr(equals + 1), {}});
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
    for (std::size_t before = 0; before < i; ++before) {
      if (options_[before]->count() == 0 || values_[before].first != values_[i].first) continue;
      throw UsageError{fmt::format("{} and {} are one setting", kFlags[before].name, kFlags[i].name),
                       "state one of them"};
    }
    overrides.push_back({values_[i].first, values_[i].second, {}});
  }
  return overrides;
}

void FormatFlags::add_to(CLI::App& app, bool pictures) {
  pictures_ = pictures;
  stated_ = app.add_option("--format", format_, "of the answer");
  stated_->type_name(pictures ? one_of(report::kFormats) : "text|json|csv|md")
      ->default_str("text")
      ->group(kOutputGroup);
  app.add_flag("--json", json_, "short for --format json")->group(kOutputGroup);
}

report::Format FormatFlags::get() const {
  if (json_ && stated_->count() > 0 && format_ != "json") {
    throw UsageError{"--json and --format " + format_.substr(0, 60), "give one of them"};
  }
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
  app.add_option("--columns", columns_, "a table with columns that are known elsewhere")
      ->type_name("COLUMNS")
      ->group(kOutputGroup);
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

namespace {

int print_as_it_is(const std::string& clean) {
  const bool written = std::fwrite(clean.data(), 1, clean.size(), stdout) == clean.size() && std::fflush(stdout) == 0;
  if (written) return kDone;
  const std::string why = std::strerror(errno);
  std::fputs(fmt::format("error: the answer could not be written to standard output: {}\n", why).c_str(), stderr);
  return kNoAnswer;
}

}  // namespace

int print(const std::string& text) { return print_as_it_is(without_controls(text)); }

int print_answer(const std::string& text, report::Format shape, const io::Catalog* catalog) {
  if (shape == report::Format::kJson) {
    std::optional<std::string> data;
    if (catalog != nullptr) {
      if (auto hash = io::fingerprint_of(catalog->root())) data = std::move(*hash);
    }
    return print(report::with_program(text, data));
  }
  const bool styled = shape == report::Format::kText && has_colour(STDOUT_FILENO);
  const std::string clean = without_controls(text);
  return print_as_it_is(styled ? with_numbers(clean) : clean);
}

int print_help(const std::string& text) {
  return print_as_it_is(has_colour(STDOUT_FILENO) ? with_headings(text) : text);
}

int print(const Error& error) {
  const std::string text = without_controls(with_standard_input_named(to_string(error))) + "\n";
  std::fputs((has_colour(STDERR_FILENO) ? with_errors(text) : text).c_str(), stderr);
  return kNoAnswer;
}

namespace {

/// An option with one value that has several; empty: none.
std::string given_twice(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_max() == 1 && option->count() > 1) return option->get_name();
  }
  return "";
}

}  // namespace

void parse(CLI::App& app, std::vector<std::string> arguments) {
  if (arguments.size() == 1 && arguments.front() == kDescribe) throw DescribeRequest{describe(app)};
  app.allow_extras(true);
  take_standard_input(app, arguments);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    throw HelpRequest{help_text(describe(app))};
  } catch (const CLI::ArgumentMismatch& problem) {
    if (const std::string twice = given_twice(app); !twice.empty()) {
      throw UsageError{twice + " is given twice", "give it once"};
    }
    throw UsageError{problem.what(), fmt::format("see `{} --help`", app.get_name())};
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
                   option ? suggested_option(first, app) : fmt::format("see `{} --help`", app.get_name())};
}

}  // namespace ddlsim::cli
