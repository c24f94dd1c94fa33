// The program: the only place that prints, exits, and reads arguments and the environment.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ddlsim/io/catalog.h"
#include "ddlsim/report/format.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::cli {

inline constexpr int kDone = 0;
inline constexpr int kNoAnswer = 1;  // bad data, or infeasible
inline constexpr int kWrongUsage = 2;

inline constexpr int kMostThreads = 1024;
/// Those of the machine, of these.
[[nodiscard]] inline int machine_threads() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMostThreads);
}

/// What was typed is not a command this program has.
struct UsageError {
  std::string message;
  std::string hint;
};

/// Somebody asked for --help.
struct HelpRequest {
  std::string text;
};

/// The settings of `--set PATH=VALUE` and its like. Throws UsageError, naming the flag, where there is no '='.
[[nodiscard]] std::vector<whatif::Override> parse_settings(std::string_view flag,
                                                           const std::vector<std::string>& texts);

/// The flags that describe a scenario; each is a setting (`--gpus-per-node 8` is `gpus_per_node = 8`).
class ScenarioFlags {
 public:
  void add_to(CLI::App& app);
  /// What files and flags say, files first. Throws UsageError for two flags of one setting.
  [[nodiscard]] Expected<std::vector<whatif::Override>> base() const;
  /// What `--set`s say. Throws UsageError.
  [[nodiscard]] std::vector<whatif::Override> sets() const { return parse_settings("--set", sets_); }
  /// All of it: files, flags, `more` (of TrainingFlags), `--set`s. Throws UsageError.
  [[nodiscard]] Expected<std::vector<whatif::Override>> settings(const std::vector<whatif::Override>& more = {}) const;

 private:
  std::vector<std::string> files_;
  std::vector<std::pair<std::string, std::string>> values_;  // setting, value; sized once, before options bind to it
  std::vector<CLI::Option*> options_;                        // of values_
  std::vector<std::string> sets_;
};

/// The flags that say how long a job runs, what a server costs and how often it fails; each is a setting.
class TrainingFlags {
 public:
  void add_to(CLI::App& app);
  [[nodiscard]] std::vector<whatif::Override> settings() const;

 private:
  std::vector<std::pair<std::string, std::string>> values_;  // setting, value; sized once, before options bind to it
  std::vector<CLI::Option*> options_;                        // of values_
  std::vector<std::string> prices_;
  bool spot_ = false;
};

/// How the answer is to be shown.
class FormatFlags {
 public:
  /// `pictures`: whether the answer has some, and so html and svg.
  void add_to(CLI::App& app, bool pictures = false);
  [[nodiscard]] report::Format get() const;  // throws UsageError

 private:
  std::string format_ = "text";
  CLI::Option* stated_ = nullptr;
  bool json_ = false;
  bool pictures_ = false;
};

/// Which columns a table of predictions has.
class ColumnsFlag {
 public:
  void add_to(CLI::App& app);
  /// Nothing: the program's own. Throws UsageError.
  [[nodiscard]] std::optional<report::Columns> get(report::Format format) const;

 private:
  std::string columns_;
};

/// Where to write the job with all that was resolved, for -f.
class SaveFlag {
 public:
  void add_to(CLI::App& app);
  [[nodiscard]] bool asked() const { return !path_.empty(); }
  /// Nothing where nobody asked.
  [[nodiscard]] Expected<void> write(const whatif::Scenario& scenario, const std::vector<whatif::Override>& stated,
                                     const io::Catalog& catalog) const;

 private:
  std::string path_;
};

/// Opens the data the program comes with: --data, else $DDLSIM_DATA, else beside the program, else the source tree.
[[nodiscard]] Expected<io::Catalog> open_catalog(const std::string& flag);

/// A scenario without a model or a node is wrong usage, not bad data: throws UsageError.
void require_model_and_node(const std::vector<whatif::Override>& settings, const io::Catalog& catalog);

/// Prints text, or the error. Returns the exit status.
int print(const std::string& text);
int print(const Error& error);
/// Prints an answer in its shape: JSON says which program and which data it is of, a terminal shows numbers in bold.
int print_answer(const std::string& text, report::Format shape, const io::Catalog* catalog = nullptr);
int print_help(const std::string& text);

/// Writes the step as Chakra traces, PREFIX.RANK.et, and says on stderr what they hold.
[[nodiscard]] Expected<void> write_chakra(const whatif::Scenario& scenario, const std::string& prefix);

/// Parses `arguments` (without the program's name) with `app`. Throws HelpRequest or UsageError.
void parse(CLI::App& app, std::vector<std::string> arguments);

int run_predict(const std::vector<std::string>& arguments);
int run_find(const std::vector<std::string>& arguments);
int run_explain(const std::vector<std::string>& arguments);
int run_plan(const std::vector<std::string>& arguments);
int run_stalls(const std::vector<std::string>& arguments);
int run_loader(const std::vector<std::string>& arguments);
int run_recommend(const std::vector<std::string>& arguments);
int run_sweep(const std::vector<std::string>& arguments);
int run_what_if(const std::vector<std::string>& arguments);
int run_topology(const std::vector<std::string>& arguments);
int run_collective(const std::vector<std::string>& arguments);
int run_list(const std::vector<std::string>& arguments);
int run_serve(const std::vector<std::string>& arguments);
int run_schema(const std::vector<std::string>& arguments);
int run_validate(const std::vector<std::string>& arguments);
int run_fleet(const std::vector<std::string>& arguments);
int run_import(const std::vector<std::string>& arguments);
/// A format of `import` each.
int import_kineto(const std::vector<std::string>& arguments);
int import_chakra(const std::vector<std::string>& arguments);
int import_log(const std::vector<std::string>& arguments);
int import_launch(std::string_view name, const std::vector<std::string>& arguments);  // megatron, deepspeed, ...
int run_calibrate(const std::vector<std::string>& arguments);
int run_measure(const std::vector<std::string>& arguments);    // a step of `calibrate`
int calibrate_job(const std::vector<std::string>& arguments);  // likewise

}  // namespace ddlsim::cli
