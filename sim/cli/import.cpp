#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

#include "ddlsim/importers/hf_config.h"
#include "ddlsim/importers/launch_file.h"
#include "ddlsim/importers/onnx_file.h"
#include "ddlsim/support/names.h"
#include "ddlsim/support/quantity_io.h"
#include "describe.h"
#include "model_flags.h"
#include "output.h"
#include "program.h"
#include "standard_input.h"
#include "value_types.h"

namespace ddlsim::cli {
namespace {

constexpr std::string_view kImportExamples = R"(
The file's weights are not read, and data outside it is not opened. Without -o the model goes to standard output. A
model file is named after its id: -o models/mine.yaml makes the model 'mine'.

Examples:
  ddlsim import onnx resnet50.onnx -o models/mine.yaml --batch 64
  ddlsim predict --model models/mine.yaml --node dgx1-v100
  ddlsim import onnx bert.onnx --dim sequence=128 --unknown assumed)";

constexpr std::string_view kHfExamples = R"(
Families of today's language models are known: llama, mixtral, qwen3, deepseek_v3, falcon, olmo2, phi, gpt2, bert, roberta
and more; beside them t5, bart, clip, whisper, wav2vec2, vit, swin and convnext. A model_type without a rule lists them.
Of t5 and bart --sequence are the source tokens and --target the others, of clip and whisper --sequence are the text's, of
wav2vec2 the wave's values. Without -o the model goes to standard output. A model file is named after its id.

Examples:
  ddlsim import hf config.json -o models/mine.yaml --sequence 8192
  ddlsim predict --model models/mine.yaml --node dgx-h100 --set model.sequence=4096)";

constexpr std::string_view kFormats =
    "formats: onnx, hf, kineto, chakra, megatron, deepspeed, torchtitan, accelerate, log";

/// The nearest format, or all of them.
std::string suggested(const std::string& word) {
  const std::vector<std::string> names{"onnx",      "hf",         "kineto",     "chakra", "megatron",
                                       "deepspeed", "torchtitan", "accelerate", "log"};
  return nearest_names(word, names).empty() ? std::string(kFormats) : suggestion(word, names);
}

struct OnnxFlags {
  std::string file;
  ModelFlags model;
  std::vector<std::string> dimensions;
  std::string unknown = "error";
};

/// The importer's choice for a file.
std::string nameless(const std::string& file) { return is_standard_input(file) ? "stdin" : ""; }

importers::OnnxOptions read_options(const OnnxFlags& flags, bool with_batch) {
  importers::OnnxOptions options;
  options.id = id_of(flags.model, nameless(flags.file));
  if (with_batch) options.batch = flags.model.batch;
  for (const std::string& text : flags.dimensions) {
    const std::size_t equals = std::min(text.rfind('='), text.size());
    const auto value = parse_count(text.substr(std::min(equals + 1, text.size())), {1, std::int64_t{1} << 48});
    if (equals == 0 || !value) {
      throw UsageError{fmt::format("--dim '{}' is not NAME=VALUE", text.substr(0, 60)), "as --dim sequence=128"};
    }
    options.dimensions.emplace_back(text.substr(0, equals), *value);
  }
  const auto unknown = parse_choice(importers::kUnknownOperators, flags.unknown, "choice");
  if (!unknown) throw UsageError{"--unknown: " + unknown.error().message, unknown.error().notes.front()};
  options.unknown = *unknown;
  return options;
}

/// Writes the model file, and says on stderr what it holds.
int finish(const ModelFlags& flags, const io::ModelDescription& description, const workload::Model& model) {
  if (const int status = write_model(flags, description); status != kDone) return status;
  std::fputs(fmt::format("{}: {} layers, {} parameters, {} GFLOP per sample forward{}\n", model.id, model.layers.size(),
                         to_text(model.parameters()), significant(model.totals.forward_work.in(gigaflops)),
                         model.notes.empty() ? "" : "; see its notes")
                 .c_str(),
             stderr);
  return kDone;
}

int import_onnx(const std::vector<std::string>& arguments) {
  CLI::App app("Turn an ONNX file into a model that predict and what-if take.", "ddlsim import onnx");
  app.footer(std::string(kImportExamples));
  OnnxFlags flags;
  app.add_option("file", flags.file, "the ONNX file")->required()->type_name("FILE");
  add_model_flags(app, flags.model, {.batch_default = "the graph's own, or 1"});
  app.add_option("--dim", flags.dimensions, "the size of an open dimension")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  app.add_option("--unknown", flags.unknown, "operators without a rule")
      ->type_name(one_of(importers::kUnknownOperators))
      ->default_str("error");
  parse(app, arguments);
  const importers::OnnxOptions options = read_options(flags, app.count("--batch") > 0);
  const auto imported = importers::import_onnx(flags.file, options);
  if (!imported) return print(imported.error());
  return finish(flags.model, imported->description, imported->model);
}

int import_hf(const std::vector<std::string>& arguments) {
  CLI::App app("Turn a Hugging Face config.json into a model that predict and what-if take.", "ddlsim import hf");
  app.footer(std::string(kHfExamples));
  std::string file;
  ModelFlags flags;
  importers::HfOptions options;
  std::int64_t sequence = 0;
  std::int64_t target = 0;
  app.add_option("file", file, "the config.json")->required()->type_name("FILE");
  add_model_flags(app, flags, {.name_default = "the file's name, or its folder's"});
  app.add_option("--sequence", sequence, "tokens of a sample")
      ->default_str("the config's positions, at most 4096")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 31))
      ->type_name("N");
  app.add_option("--target", target, "target tokens of a sample, of t5, mt5, bart and mbart")
      ->default_str("as pre-training has them")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 31))
      ->type_name("N");
  parse(app, arguments);
  options.id = id_of(flags, nameless(file));
  options.batch = flags.batch;
  if (app.count("--sequence") > 0) options.sequence = sequence;
  if (app.count("--target") > 0) options.target = target;
  const auto imported = importers::import_hf_config(file, options);
  if (!imported) return print(imported.error());
  return finish(flags, imported->description, imported->model);
}

}  // namespace

int run_import(const std::vector<std::string>& arguments) {
  if (arguments.empty()) throw UsageError{"what is to be imported is missing", std::string(kFormats)};
  describe_parts(arguments, {.name = "ddlsim import",
                             .what = "Turn another program's file into a model, a scenario or a table.",
                             .more = {},
                             .examples = {},
                             .options = {},
                             .parts = {{"onnx", "an ONNX file as a model"},
                                       {"hf", "a Hugging Face config.json as a model"},
                                       {"kineto", "traces of the PyTorch profiler as a model"},
                                       {"chakra", "a Chakra execution trace as a model"},
                                       {"megatron", "what Megatron-LM is started with, as a scenario"},
                                       {"deepspeed", "a DeepSpeed configuration as a scenario"},
                                       {"torchtitan", "a torchtitan configuration as a scenario"},
                                       {"accelerate", "an Accelerate configuration as a scenario"},
                                       {"log", "training logs as a table of runs"}}});
  const std::string& format = arguments.front();
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (format == "onnx") return import_onnx(rest);
  if (format == "hf") return import_hf(rest);
  if (format == "kineto") return import_kineto(rest);
  if (format == "chakra") return import_chakra(rest);
  if (format == "log") return import_log(rest);
  if (parse_choice(importers::kLaunchFormats, format, "format")) return import_launch(format, rest);
  throw UsageError{fmt::format("unknown format '{}'", format.substr(0, 60)), suggested(format)};
}

}  // namespace ddlsim::cli
