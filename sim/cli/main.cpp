#include <fmt/core.h>

#include <unistd.h>

#include <cstdio>
#include <exception>

#include "commands.h"
#include "ddlsim/support/names.h"
#include "output.h"
#include "program.h"
#include "terminal.h"

namespace ddlsim::cli {
namespace {

constexpr auto kCommands = std::to_array<Command>({
    {"predict", "the step time of a job, and where it goes", run_predict},
    {"what-if", "a job beside what it could be; or what would help most", run_what_if},
    {"find", "which value of a setting makes a condition hold: the inverse question", run_find},
    {"explain", "where every number of a prediction comes from: equations, values, sources", run_explain},
    {"plan", "the best way to split a job over GPUs: every legal plan, compared", run_plan},
    {"stalls", "where the GPUs of a job wait: interconnect, network, prep, fetch", run_stalls},
    {"recommend", "which servers to rent for a run: time, cost and energy of every choice", run_recommend},
    {"sweep", "a grid of jobs, by all cores: CSV, JSON lines or SQLite, with resume", run_sweep},
    {"loader", "several jobs share loader workers and storage: what each policy makes of it", run_loader},
    {"fleet", "where the time of many jobs goes, and what would speed them up", run_fleet},
    {"validate", "predictions beside published measurements", run_validate},
    {"topology", "what joins the GPUs of a cluster, and what their routes reach", run_topology},
    {"collective", "a collective over message sizes: time, bandwidths, algorithm", run_collective},
    {"import", "another program's file as a model, a scenario or a table", run_import},
    {"calibrate", "curves of a GPU from measured kernels, and how far they hold", run_calibrate},
    {"list", "the models, hardware and settings that are known", run_list},
    {"serve", "the same over HTTP, with a page that answers while you drag", run_serve},
    {"schema", "the JSON Schema of an answer", run_schema},
    {"help", "a command explained: every option, its values and its default", run_help},
});

std::string usage() {
  std::string text = "ddlsim: how long a training step takes, what holds it back, and what would change it\n\n";
  for (const Command& command : kCommands) text += fmt::format("  ddlsim {:<10}  {}\n", command.name, command.what);
  return text + "\nddlsim help COMMAND explains one, as -h and --help after it do; ddlsim version (-V, --version)\n";
}

void print_error(const std::string& text) {
  std::fputs((has_colour(STDERR_FILENO) ? with_errors(text) : text).c_str(), stderr);
}

int wrong_usage(const UsageError& problem) {
  print_error(fmt::format("error: {}\n  {}\n", problem.message, problem.hint));
  return kWrongUsage;
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    std::fputs(usage().c_str(), stderr);
    return kWrongUsage;
  }
  const std::string& first = arguments.front();
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (first == "--help" || first == "-h" || (first == "help" && rest.empty())) return print_help(usage());
  if (first == "--version" || first == "-V" || first == "version") {
    if (!rest.empty()) {
      return wrong_usage(
          {fmt::format("unknown argument '{}'", rest.front().substr(0, 60)), "ddlsim version takes none"});
    }
    return print("ddlsim " DDLSIM_VERSION "\n");
  }
  if (first == "complete") return run_complete(rest);
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    if (command.name == first) return command.run(rest);
    names.emplace_back(command.name);
  }
  return wrong_usage({fmt::format("unknown command '{}'", first.substr(0, 60)), ddlsim::suggestion(first, names)});
}

/// The exit status. Faults of ddlsim itself have their own words.
int answer(const std::vector<std::string>& arguments) {
  try {
    return run(arguments);
  } catch (const UsageError& problem) {
    return wrong_usage(problem);
  } catch (const Error& problem) {
    return print(problem);
  } catch (const HelpRequest& help) {
    return print_help(help.text);
  } catch (const std::exception& problem) {
    print_error(fmt::format("error: {} (a fault of ddlsim itself)\n", problem.what()));
    return kNoAnswer;
  }
}

}  // namespace

std::span<const Command> commands() { return kCommands; }

}  // namespace ddlsim::cli

int main(int argc, char** argv) {
  ddlsim::cli::occupy_standard_descriptors();
  const int status = ddlsim::cli::answer({argv + 1, argv + argc});
  // Some file systems say only now that there is no room.
  if (std::fclose(stdout) == 0 || status != ddlsim::cli::kDone) return status;
  std::fputs("error: the answer could not be written to standard output\n", stderr);
  return ddlsim::cli::kNoAnswer;
}
