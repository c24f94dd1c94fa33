#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "ddlsim/importers/chakra_file.h"
#include "ddlsim/importers/kineto_file.h"
#include "ddlsim/importers/onnx_file.h"
#include "ddlsim/report/measured.h"
#include "ddlsim/support/names.h"
#include "ddlsim/support/quantity_io.h"
#include "describe.h"
#include "model_flags.h"
#include "output.h"
#include "program.h"
#include "standard_input.h"

namespace ddlsim::cli {
namespace {

constexpr std::string_view kKinetoExamples = R"(
Traces are what torch.profiler's export_chrome_trace and tensorboard_trace_handler write. Several traces are the ranks
of one job: the median rank is taken, and what its collectives wait for others is left out. The model replays the
kernels with the times they took; on another GPU they are scaled (cost/wave_scaling.h).

Examples:
  ddlsim import kineto rank0.pt.trace.json.gz --batch 64 -o models/mine.yaml
  ddlsim predict --model models/mine.yaml --node dgx1-v100
  ddlsim what-if --model models/mine.yaml --node dgx1-v100 --set gpu=a100-sxm4-40gb
  ddlsim import kineto worker*.json --json)";

struct TraceFlags {
  std::vector<std::string> files;
  ModelFlags model;
  std::string gpu;
  std::string data;
  bool whole = false;
  bool json = false;
};

std::string id_of(const TraceFlags& flags) {
  const std::string& file = flags.files.front();
  return id_of(flags.model, is_standard_input(file) ? "stdin" : importers::id_from_file(file));
}

constexpr const char* kBatchOfTrace = "samples per GPU and pass, which a trace does not say";

/// GPUs of the same chip by the names' words: of "NVIDIA A100-PG509-200" all a100-*.
std::vector<std::string> gpus_like(const std::string& device, const std::vector<std::string>& ids) {
  const std::string name = fold_name(device);
  std::vector<std::string> alike;
  for (std::size_t from = 0; from < name.size();) {
    const std::size_t end = std::min(name.find('-', from), name.size());
    const std::string word = name.substr(from, end - from);
    from = end + 1;
    const bool chip =
        word.size() >= 2 && word.front() >= 'a' && word.front() <= 'z' && word.back() >= '0' && word.back() <= '9';
    if (!chip) continue;
    for (const std::string& id : ids) {
      if (id == word || id.starts_with(word + "-")) alike.push_back(id);
    }
    if (!alike.empty()) break;
  }
  return alike;
}

Expected<hardware::Gpu> gpu_of(const TraceFlags& flags, const importers::MeasuredStep& step) {
  const auto catalog = open_catalog(flags.data);
  if (!catalog) return tl::unexpected<Error>(catalog.error());
  if (!flags.gpu.empty()) return catalog->gpu(flags.gpu);
  const importers::TracedRank& rank = step.rank();
  if (!rank.gpu.empty() && catalog->knows(io::Kind::kGpus, rank.gpu)) return catalog->gpu(rank.gpu);
  const std::vector<std::string>& ids = catalog->ids(io::Kind::kGpus);
  const std::vector<std::string> near = gpus_like(rank.gpu, ids);
  return fail(
      ErrorCode::kNotFound,
      rank.gpu.empty() ? "the trace does not name its GPU" : fmt::format("no GPU '{}' is known", rank.gpu),
      {rank.file, 0, 0},
      {near.empty() ? "say which GPU it ran on: --gpu ID; valid: " + join(ids)
                    : "say which of these is nearest: --gpu " + join(near, ", or --gpu "),
       near.empty() ? "or describe it: --gpu mine.yaml (hardware/README.md)"
                    : "or any other (`ddlsim list gpus`), or describe it: --gpu mine.yaml (hardware/README.md)"});
}

TraceFlags read_trace_flags(const std::vector<std::string>& arguments) {
  CLI::App app("Turn traces of the PyTorch profiler into a model of measured kernels.", "ddlsim import kineto");
  app.footer(std::string(kKinetoExamples));
  TraceFlags flags;
  app.add_option("files", flags.files, "the traces, .json or .json.gz, one per rank")->required()->type_name("TRACE");
  add_model_flags(app, flags.model, {.batch = kBatchOfTrace});
  app.add_option("--gpu", flags.gpu, "the GPU it ran on")->type_name("GPU")->default_str("what the trace names");
  app.add_flag("--whole", flags.whole, "take the whole trace as one step, whatever its markers say");
  app.add_flag("--json", flags.json, "print the measured step as JSON; the model goes to -o alone")
      ->group(kOutputGroup);
  app.add_option("--data", flags.data, "folder that holds models/ and hardware/")->type_name("DIR");
  parse(app, arguments);
  return flags;
}

Expected<io::ModelDescription> describe_chakra(const TraceFlags& flags, const std::string& id) {
  const auto trace = importers::read_chakra(flags.files.front());
  if (!trace) return tl::unexpected<Error>(trace.error());
  const auto catalog = open_catalog(flags.data);
  if (!catalog) return tl::unexpected<Error>(catalog.error());
  const auto gpu = catalog->gpu(flags.gpu);
  if (!gpu) return tl::unexpected<Error>(gpu.error());
  auto description = importers::describe(*trace, *gpu, {.id = id, .batch = flags.model.batch});
  if (!description) description.error().where.file = flags.files.front();
  return description;
}

constexpr std::string_view kChakraExamples = R"(
A trace is one rank's .et (Protocol Buffers) or its JSON, with gzip or without. It does not name the GPU its durations
are from: --gpu does. Nodes without a duration take what that GPU needs at its peak.

Examples:
  ddlsim import chakra chakra.0.et --gpu v100-sxm2-32gb -o models/mine.yaml
  ddlsim predict --model models/mine.yaml --node dgx1-v100-32gb --nodes 4 --network "25 Gb/s")";

}  // namespace

int import_chakra(const std::vector<std::string>& arguments) {
  CLI::App app("Turn a Chakra execution trace into a model of measured kernels.", "ddlsim import chakra");
  app.footer(std::string(kChakraExamples));
  TraceFlags flags;
  app.add_option("file", flags.files, "the trace of one rank")->required()->expected(1)->type_name("TRACE.et");
  add_model_flags(app, flags.model, {.batch = kBatchOfTrace});
  app.add_option("--gpu", flags.gpu, "the GPU it ran on")->required()->type_name("GPU");
  app.add_option("--data", flags.data, "folder that holds models/ and hardware/")->type_name("DIR");
  parse(app, arguments);
  const std::string id = id_of(flags);
  const auto description = describe_chakra(flags, id);
  if (!description) return print(description.error());
  if (const int status = write_model(flags.model, *description); status != kDone) return status;
  std::fputs(fmt::format("{}: {} layers; {}\n", id, description->layers.size(), description->notes).c_str(), stderr);
  return kDone;
}

int import_kineto(const std::vector<std::string>& arguments) {
  const TraceFlags flags = read_trace_flags(arguments);
  const std::string id = id_of(flags);
  const std::vector<std::filesystem::path> files(flags.files.begin(), flags.files.end());
  const auto step = importers::read_kineto(files, {.whole = flags.whole});
  if (!step) return print(step.error());
  if (flags.json && flags.model.out.empty()) return print_answer(report::json_of(*step), report::Format::kJson);
  const auto gpu = gpu_of(flags, *step);
  if (!gpu) return print(gpu.error());
  const auto description = importers::describe(*step, *gpu, {.id = id, .batch = flags.model.batch});
  if (!description) return print(description.error());
  if (const int status = write_model(flags.model, *description); status != kDone) return status;
  if (flags.json) {
    const int status = print_answer(report::json_of(*step), report::Format::kJson);
    if (status != kDone) return status;
  }
  std::fputs(report::text_of(*step).c_str(), stderr);
  std::fputs(fmt::format("{}: {} layers; {}\n", id, description->layers.size(), description->notes).c_str(), stderr);
  return kDone;
}

}  // namespace ddlsim::cli
