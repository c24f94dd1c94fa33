#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "ddlsim/importers/launch_file.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/scenario.h"
#include "ddlsim/whatif/setting_words.h"
#include "describe.h"
#include "output.h"
#include "program.h"

namespace ddlsim::cli {
namespace {

constexpr std::string_view kMegatronExamples = R"(
FILE is a shell script, a text of arguments, the list of arguments that Megatron prints at its start, or YAML with its
names. A script is read, never run. What it does not say is asked for: a '?' in the scenario.

Examples:
  ddlsim import megatron train.sh -o job.yaml --set node=dgx-h100
  ddlsim import megatron train.sh --define NNODES=8 --vocab-size 128256 -o job.yaml
  ddlsim predict -f job.yaml)";
constexpr std::string_view kOtherExamples = R"(
What the file does not say, and what it calls "auto", is asked for: a '?' in the scenario.

Examples:
  ddlsim import {0} {1} -o job.yaml --set model=llama_3_1_8b --set node=dgx-h100
  ddlsim predict -f job.yaml --nodes 8)";

struct LaunchFlags {
  std::string file;
  std::string out;
  std::string model_file;
  std::vector<std::string> sets;
  std::vector<std::string> defines;
  std::int64_t vocabulary = 0;
};

/// The file the model goes to: --model-file, else beside the scenario.
std::string model_file_of(const LaunchFlags& flags) {
  if (!flags.model_file.empty()) {
    const std::filesystem::path path(flags.model_file);
    if (path.extension() != ".yaml") {
      throw UsageError{"--model-file '" + flags.model_file + "' does not end in .yaml", "as --model-file mine.yaml"};
    }
    return flags.model_file;
  }
  if (flags.out.empty()) return {};
  const std::filesystem::path out(flags.out);
  return (out.parent_path() / (out.stem().string() + "_model.yaml")).string();
}

/// The model's file from where the scenario's is.
std::string as_named_in(const LaunchFlags& flags, const std::string& model_file) {
  if (flags.out.empty() || model_file.empty()) return model_file;
  const std::filesystem::path from = std::filesystem::path(flags.out).parent_path();
  return std::filesystem::path(model_file).lexically_proximate(from).string();
}

std::vector<std::pair<std::string, std::string>> pairs_of(std::string_view flag,
                                                          const std::vector<std::string>& texts) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (whatif::Override& setting : parse_settings(flag, texts)) {
    pairs.emplace_back(std::move(setting.path), std::move(setting.value));
  }
  return pairs;
}

/// A mistyped path is an error here, not when the scenario is used.
void check_settings(const std::vector<std::pair<std::string, std::string>>& stated) {
  std::vector<std::string> known;
  for (const whatif::SettingInfo& setting : whatif::settings()) known.push_back(setting.path);
  for (const auto& [path, value] : stated) {
    if (path.starts_with("model.") || std::find(known.begin(), known.end(), path) != known.end()) continue;
    throw UsageError{fmt::format("--set {}: no such setting", path.substr(0, 60)),
                     whatif::suggested_setting(path, known)};
  }
}

/// GPUs of the server that --set names; 0: none is named, or nobody knows it, which is for who uses the scenario.
std::int64_t gpus_of_node(const std::vector<std::pair<std::string, std::string>>& stated) {
  std::vector<whatif::Override> settings;
  for (const auto& [path, value] : stated) {
    if (path == "node") settings.push_back({path, value, {}});
  }
  if (settings.empty()) return 0;
  const auto catalog = open_catalog("");
  if (!catalog) return 0;
  const auto cluster = whatif::resolve_cluster(*catalog, settings);
  return cluster ? cluster->cluster.node.gpus : 0;
}

/// What was not taken, on stderr.
void report(const importers::LaunchImport& launch) {
  std::string text;
  for (const std::string& line : launch.left_out) text += "left out: " + line + "\n";
  for (const importers::LaunchSetting& setting : launch.settings) {
    if (setting.value == "?") text += fmt::format("asked for: {}: {}\n", setting.path, setting.reason);
  }
  const auto asked =
      std::count_if(launch.settings.begin(), launch.settings.end(), [](const auto& s) { return s.value == "?"; });
  text += fmt::format("{} settings taken, {} asked for, {} left out, {} of no effect on a step's time\n",
                      static_cast<std::int64_t>(launch.settings.size()) - asked, asked, launch.left_out.size(),
                      launch.passed_by);
  std::fputs(text.c_str(), stderr);
}

LaunchFlags read_launch_flags(const std::vector<std::string>& arguments, importers::LaunchFormat format) {
  const std::string name(name_of(importers::kLaunchFormats, format));
  const bool megatron = format == importers::LaunchFormat::kMegatron;
  CLI::App app("Turn what a framework is started with into a scenario that predict and what-if take.",
               "ddlsim import " + name);
  const char* const sample = format == importers::LaunchFormat::kDeepSpeed    ? "ds_config.json"
                             : format == importers::LaunchFormat::kTorchtitan ? "train.toml"
                                                                              : "fsdp.yaml";
  app.footer(megatron ? std::string(kMegatronExamples) : fmt::format(kOtherExamples, name, sample));
  LaunchFlags flags;
  app.add_option("file", flags.file, "what the framework is started with")->required()->type_name("FILE");
  app.add_option("-o,--out", flags.out, "write the scenario here")
      ->type_name("OUT.yaml")
      ->group(kOutputGroup)
      ->default_str("standard output");
  app.add_option("--set", flags.sets, "a setting, instead of what the file says")
      ->type_name("PATH=VALUE")
      ->allow_extra_args(false);
  if (megatron) {
    app.add_option("--define", flags.defines, "a variable of the script")
        ->type_name("NAME=VALUE")
        ->allow_extra_args(false);
    app.add_option("--model-file", flags.model_file, "write the model here")
        ->type_name("MODEL.yaml")
        ->group(kOutputGroup)
        ->default_str("OUT_model.yaml");
    app.add_option("--vocab-size", flags.vocabulary, "tokens of the tokenizer that the arguments name")
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 31))
        ->type_name("N");
  }
  parse(app, arguments);
  return flags;
}

}  // namespace

int import_launch(std::string_view name, const std::vector<std::string>& arguments) {
  const auto format = parse_choice(importers::kLaunchFormats, name, "format");
  const LaunchFlags flags = read_launch_flags(arguments, *format);
  importers::LaunchOptions options;
  options.stated = pairs_of("--set", flags.sets);
  options.variables = pairs_of("--define", flags.defines);
  options.vocabulary = flags.vocabulary;
  check_settings(options.stated);
  options.gpus_of_node = gpus_of_node(options.stated);
  const std::string model_file = model_file_of(flags);
  if (!model_file.empty()) options.model_id = std::filesystem::path(model_file).stem().string();
  auto launch = importers::import_launch(*format, flags.file, options);
  if (!launch) return print(launch.error());
  std::string model_text;
  if (launch->model && !model_file.empty()) {
    const auto model = io::write_model(*launch->model);
    if (!model) return print(model.error());
    model_text = *model;
  } else if (launch->model) {
    launch->settings.push_back({"model", "?", "the arguments describe it: -o or --model-file writes it to a file"});
  }
  const std::string text = importers::write_scenario(*launch, fmt::format("`ddlsim import {} {}`", name, flags.file),
                                                     as_named_in(flags, model_file));
  if (!model_text.empty()) {
    if (auto written = write_file(model_file, model_text); !written) return print(written.error());
  }
  if (!flags.out.empty()) {
    if (auto written = write_file(flags.out, text); !written) return print(written.error());
  } else if (const int status = print(text); status != kDone) {
    return status;
  }
  report(*launch);
  return kDone;
}

}  // namespace ddlsim::cli
