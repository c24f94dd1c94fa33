#include <fmt/core.h>

#include <cstdio>

#include "ddlsim/importers/log_file.h"
#include "ddlsim/support/quantity_io.h"
#include "describe.h"
#include "output.h"
#include "program.h"
#include "standard_input.h"

namespace ddlsim::cli {
namespace {

constexpr std::string_view kLogExamples = R"(
Logs of Megatron-LM, NeMo, torchtitan, MLPerf (:::MLLOG) and Hugging Face's Trainer (train_steps_per_second) are known.
What is written is a table of runs, one row a log (gzip or not), for --measured of predict and what-if.

Examples:
  ddlsim import log train.log --gpus 64 --nodes 8 -o RUNS.csv
  ddlsim import log 8.log.gz 16.log.gz 64.log.gz --gpus-per-node 8 -o RUNS.csv
  ddlsim predict -f job.yaml --nodes 32 --measured RUNS.csv)";

struct LogFlags {
  std::vector<std::string> files;
  std::string out;
  std::int64_t gpus = 0;
  std::int64_t nodes = 0;
  std::int64_t gpus_per_node = 0;
  std::int64_t batch = 0;
  std::int64_t global_batch = 0;
};

std::optional<std::int64_t> global_batch_of(const importers::TrainingLog& log, const LogFlags& flags) {
  return flags.global_batch > 0 ? flags.global_batch : log.global_batch;
}

/// Samples of a replica and pass, passes, and samples of a step: as stated, or where the log says enough.
std::string batch_columns(const importers::TrainingLog& log, const LogFlags& flags) {
  const std::int64_t batch = flags.batch > 0 ? flags.batch : log.batch.value_or(0);
  const auto global = global_batch_of(log, flags);
  const std::int64_t replicas = log.replicas.value_or(0);
  // Beyond a step's samples no pass is part of it, and counts need not multiply.
  const bool possible = global && batch > 0 && replicas > 0 && batch <= *global / replicas;
  const bool whole = possible && *global % (batch * replicas) == 0;
  return fmt::format("{},{},{}", batch == 0 ? "" : std::to_string(batch),
                     whole ? std::to_string(*global / (batch * replicas)) : "", global ? std::to_string(*global) : "");
}

std::string split_columns(const importers::TrainingLog& log) {
  const auto column = [](const std::optional<std::int64_t>& ranks) { return ranks ? std::to_string(*ranks) : ""; };
  const auto flag = [](const std::optional<bool>& said, std::string_view yes, std::string_view no) {
    return !said ? std::string_view() : *said ? yes : no;
  };
  return fmt::format("{},{},{},{},{},{},{},{},{},{},{}", column(log.tensor), column(log.pipeline), column(log.context),
                     column(log.expert), column(log.expert_tensor), column(log.virtual_stages), log.schedule,
                     flag(log.sequence, "yes", "no"), flag(log.shards, "1", "0"), log.recompute, log.precision);
}

/// No log knows a step better than to six digits: what a clock's differences have beyond them is rounding.
std::string in_milliseconds(Time step) { return significant(step.in(milliseconds), 6) + " ms"; }

/// In how many servers a run's GPUs were.
Expected<std::int64_t> servers_of(const std::string& file, std::int64_t gpus, const LogFlags& flags) {
  if (flags.gpus_per_node > 0) {
    if (gpus <= flags.gpus_per_node) return 1;
    if (gpus % flags.gpus_per_node == 0) return gpus / flags.gpus_per_node;
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} GPUs in servers of {}: as many in each?", gpus, flags.gpus_per_node), {file, 1, 1},
                {"--gpus-per-node divides the GPUs of the run"});
  }
  if (flags.nodes == 0 && gpus > 1) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("no log says in how many servers its {} GPUs were", gpus),
                {file, 1, 1}, {"state it with --nodes, or with --gpus-per-node where there are several logs"});
  }
  if (flags.nodes > 0 && gpus % flags.nodes != 0) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} GPUs in {} servers: as many in each?", gpus, flags.nodes),
                {file, 1, 1}, {"--nodes divides the GPUs of the run"});
  }
  return std::max<std::int64_t>(flags.nodes, 1);
}

struct Row {
  std::int64_t gpus = 0;
  std::string text;
};

Expected<Row> row_of(const std::string& file, const LogFlags& flags) {
  const auto log = importers::load_log(file);
  if (!log) return tl::unexpected<Error>(log.error());
  const std::int64_t gpus = flags.gpus > 0 ? flags.gpus : log->gpus.value_or(0);
  if (gpus == 0) {
    return fail(ErrorCode::kInvalidArgument, "the log does not say on how many GPUs it ran", {file, 1, 1},
                {"state it with --gpus"});
  }
  if (flags.gpus > 0 && log->gpus && *log->gpus != flags.gpus) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--gpus {}, but the log's world size is {}", flags.gpus, *log->gpus), {file, 1, 1});
  }
  if (flags.global_batch > 0 && log->global_batch && *log->global_batch != flags.global_batch) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--global-batch {}, but the log's is {}", flags.global_batch, *log->global_batch),
                {file, 1, 1});
  }
  if (flags.batch > 0 && log->batch && *log->batch != flags.batch) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--batch {}, but the log's micro-batch is {}", flags.batch, *log->batch), {file, 1, 1});
  }
  const auto servers = servers_of(file, gpus, flags);
  if (!servers) return tl::unexpected<Error>(servers.error());
  const auto [low, high] = log->spread();
  const auto global = global_batch_of(*log, flags);
  const std::size_t counted = log->steps.size() - log->warm_up();
  std::string name = with_standard_input_named(file);
  for (char& c : name) c = c == '\n' || c == '\r' ? ' ' : c;
  std::string notes;
  for (const std::string& note : log->notes) notes += fmt::format("# {}: {}\n", name, note);
  std::string text =
      fmt::format("{}# {}: {}, {} step{} after {} of warm-up, 5 to 95 % of them {} to {}{}{}\n{},{},{},{},{}\n", notes,
                  name, name_of(importers::kLogFormats, log->format), counted, counted == 1 ? "" : "s", log->warm_up(),
                  to_text(low), to_text(high), global ? fmt::format(", global batch {}", *global) : "",
                  log->steps.size() == 1 ? "; one step alone: starting up may be in it" : "", gpus, *servers,
                  in_milliseconds(log->step()), batch_columns(*log, flags), split_columns(*log));
  return Row{gpus, std::move(text)};
}

}  // namespace

int import_log(const std::vector<std::string>& arguments) {
  CLI::App app("Turn training logs into a table of measured runs.", "ddlsim import log");
  app.footer(std::string(kLogExamples));
  LogFlags flags;
  const auto count = CLI::Range(std::int64_t{1}, std::int64_t{1} << 32);
  app.add_option("files", flags.files, "logs, a row each")->required()->type_name("LOG");
  app.add_option("-o,--out", flags.out, "write the table here")
      ->type_name("RUNS.csv")
      ->group(kOutputGroup)
      ->default_str("standard output");
  app.add_option("--gpus", flags.gpus, "all GPUs of the run")
      ->check(count)
      ->type_name("N")
      ->default_str("the log's world size");
  app.add_option("--nodes", flags.nodes, "servers they were in")
      ->check(count)
      ->type_name("N")
      ->default_str("1 for one GPU");
  app.add_option("--gpus-per-node", flags.gpus_per_node, "GPUs of a server, of logs of several sizes")
      ->check(count)
      ->type_name("N")
      ->default_str("by --nodes");
  app.add_option("--batch", flags.batch, "samples per GPU and pass")
      ->default_str("the log's micro-batch")
      ->check(count)
      ->type_name("N");
  app.add_option("--global-batch", flags.global_batch, "samples of a step over all replicas")
      ->default_str("the log's")
      ->check(count)
      ->type_name("N");
  parse(app, arguments);
  if (flags.nodes > 0 && flags.gpus_per_node > 0) throw UsageError{"--nodes and --gpus-per-node", "give one of them"};
  std::string text =
      "gpus,nodes,step,batch,passes,global_batch,parallel.tensor,parallel.pipeline,parallel.context,parallel.expert,"
      "parallel.expert_tensor,parallel.virtual_stages,parallel.schedule,parallel.sequence,parallel.zero,"
      "parallel.recompute,precision\n";
  std::int64_t first = 0;
  for (const std::string& file : flags.files) {
    const auto row = row_of(file, flags);
    if (!row) return print(row.error());
    if (first == 0) first = row->gpus;
    if (row->gpus != first && flags.nodes > 1) {
      return print(Error{ErrorCode::kInvalidArgument,
                         fmt::format("{} GPUs, and {} in {}: not all in {} servers", row->gpus, first,
                                     flags.files.front(), flags.nodes),
                         {file, 1, 1},
                         {"--gpus-per-node says it of all"},
                         {}});
    }
    text += row->text;
  }
  if (flags.out.empty()) return print(text);
  if (auto written = write_file(flags.out, text); !written) return print(written.error());
  return kDone;
}

}  // namespace ddlsim::cli
