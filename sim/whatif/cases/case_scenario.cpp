#include "cases/case_scenario.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <optional>
#include <string_view>

#include "cases/case_degrees.h"
#include "cases/case_images.h"
#include "cases/case_input.h"
#include "cases/case_metric.h"
#include "cases/case_model.h"
#include "cases/case_network.h"
#include "cases/case_software.h"
#include "cases/case_strategy.h"
#include "cases/case_text.h"
#include "cases/case_words.h"
#include "cases/framework_name.h"
#include "cases/language_case.h"
#include "cases/tuning_case.h"
#include "ddlsim/importers/training_way.h"
#include "ddlsim/workload/blocks.h"
#include "ddlsim/workload/fusion.h"

namespace ddlsim::whatif {
namespace {

/// Whether one of the words of "tp-pp-dp" splits the model.
bool splits_model(std::string_view family) {
  constexpr auto kSplits = std::to_array<std::string_view>({"tp", "pp", "ep", "cp", "sp", "fsdp", "hsdp", "mp"});
  for (std::size_t begin = 0; begin < family.size();) {
    const std::size_t end = std::min(family.find_first_of("-+/ ", begin), family.size());
    const std::string_view with_degree = family.substr(begin, end - begin);  // "tp2", "tp=2"
    const std::string_view word = with_degree.substr(0, with_degree.find_first_of("=0123456789"));
    if (std::find(kSplits.begin(), kSplits.end(), word) != kSplits.end() || word.starts_with("zero")) return true;
    begin = end + 1;
  }
  return false;
}

/// Whether its words name shared states and replicas alone: "fsdp", "zero-2", "ddp/zero1".
bool shares_alone(std::string_view family) {
  constexpr auto kWords = std::to_array<std::string_view>(
      {"fsdp", "fsdp2", "hsdp", "ddp", "dp", "zero", "zero1", "zero2", "zero3", "1", "2", "3"});
  if (!splits_model(family)) return false;
  for (std::size_t begin = 0; begin < family.size();) {
    const std::size_t end = std::min(family.find_first_of("-+/ ", begin), family.size());
    if (std::find(kWords.begin(), kWords.end(), family.substr(begin, end - begin)) == kWords.end()) return false;
    begin = end + 1;
  }
  return true;
}

/// Whether a case says how a language model runs: what is shared, computed again, compiled, adapted, or on the host.
bool says_how_it_runs(const io::Case& one) {
  constexpr auto kYes = std::to_array<std::string_view>(
      {"compile", "activation_checkpointing", "cpu_offload", "offload_optimizer", "param_offload"});
  const auto affirmed = [&](std::string_view key) { return affirms(one, key); };
  const auto shared = [&](std::string_view key) { return count_of(one, key).value_or(0) > 0; };
  return recomputation_of(one) != "none" || one.said("recompute") || has_adapters(one) ||
         std::any_of(kYes.begin(), kYes.end(), affirmed) || shared("zero_stage") || shared("zero") ||
         count_of(one, "fsdp").value_or(1) > 1;
}

/// Whether it says that replicas share states, which are whole by its architecture's name: "ddp" and zero_stage 2.
bool says_shared_states(const io::Case& one) {
  const bool stage = count_of(one, "zero_stage").value_or(0) > 0 || count_of(one, "zero").value_or(0) > 0;
  return stage && one.total_gpus > 1 && !architecture_family(one).starts_with("ps");
}

/// What the CPU takes between two kernels where nobody says so, of frameworks that take long.
void launch_as_framework(const io::Case& one, Scenario& scenario) {
  const auto interval = importers::module_launch_interval(framework_of(one));
  if (!interval || scenario.launch_interval.origin() != Origin::kDefault) return;
  scenario.launch_interval = Stated<Time>(*interval, Origin::kFramework);
}

/// Where a source says how many blocks of a stage are computed again, the first of them are.
void recompute_first_blocks(const io::Case& one, Scenario& scenario) {
  plan::Parallel& parallel = scenario.parallel;
  const auto first = count_of(one, "recompute_layers");
  if (!first || *first < 1 || parallel.recompute != plan::Recompute::kFull) return;
  const std::vector<workload::Block> all = workload::blocks_of(scenario.model->layers);
  const auto bodies = std::count_if(all.begin(), all.end(), [](const workload::Block& block) { return block.body; });
  const std::int64_t blocks = bodies / (parallel.pipeline * parallel.virtual_stages);
  if (*first >= blocks) return;
  parallel.recompute_every = blocks;
  parallel.recompute_first = *first;
}

/// A model whose attention was one kernel from its first day.
bool is_recent(const workload::Model* model) {
  return model != nullptr && std::any_of(model->layers.begin(), model->layers.end(), workload::comes_apart);
}

/// What software adds was learnt from steps of training: casts, optimizers, loops. Passes timed alone have kernels
/// only.
void add_software(const io::Case& one, const workload::Model* model, std::vector<Override>& settings) {
  if (is_pass(one.metric)) settings.push_back({"software", "none", one.where});
  if (const auto year = software_year_of(one)) {
    settings.push_back({"software.year", fmt::format("{}", *year), one.where});
  }
  if (const auto fused = software_fused_of(one)) {
    settings.push_back({"software.fused", *fused ? "yes" : "no", one.where});
  }
  if (const auto optimizer = software_optimizer_of(one)) {
    settings.push_back({"software.optimizer", *optimizer, one.where});
  }
  if (runs_graphs(one)) settings.push_back({"cuda_graphs", "yes", one.where});
  if (blocks_launches(one)) settings.push_back({"launch_blocking", "yes", one.where});
  if (composes_operators(one)) settings.push_back({"software.operators", "composed", one.where});
  if (autocasts(one)) settings.push_back({"software.operators", "autocast", one.where});
  if (const auto layout = layout_of(one)) settings.push_back({"software.layout", *layout, one.where});
  const auto joined = said_attention_in_one(one);
  const bool compiled = is_compiled(one);
  const bool attends = model != nullptr && model->totals.attention;
  if (compiled && attends && joined != false) {
    settings.push_back({"fusion", "all", one.where});
  } else if (compiled || fuses_pointwise(one)) {
    settings.push_back({"fusion", "pointwise", one.where});
  } else if (joined == false || (!joined && !software_year_of(one) && !is_recent(model))) {
    settings.push_back({"fusion", "none", one.where});  // rows of no date are as old as most are
  } else if (joined == true && software_fused_of(one) == false) {
    settings.push_back({"fusion", "attention", one.where});  // whatever the release
  }
}

/// Settings that a parameter-server case states beyond its framework.
void add_servers(const io::Case& one, std::vector<Override>& settings) {
  if (const auto servers = one.said("num_ps"); servers && one.nodes > 1) {
    settings.push_back({"strategy.servers", *servers, one.where});
  }
  if (const auto colocated = one.said("ps_colocated")) {
    settings.push_back({"strategy.colocated", lower_case(*colocated) == "false" ? "no" : "yes", one.where});
  }
}

}  // namespace

std::string architecture_family(const io::Case& one) {
  std::string family = lower_case(one.architecture.substr(0, one.architecture.find('(')));
  constexpr auto kInWords = std::to_array<std::pair<std::string_view, std::string_view>>({
      {"parallelism", "parallel"},
      {"kvstore device", "allreduce"},  // MXNet sums on the GPUs
      {"kvstore nccl", "allreduce"},
      {"kvstore dist_sync", "ps"},
      {"kvstore dist_device_sync", "ps"},
      {"parameter servers", "ps"},
      {"parameter server", "ps"},
      {"parameter-servers", "ps"},
      {"parameter-server", "ps"},
      {"ring all-reduce", "allreduce"},
      {"ring-allreduce", "allreduce"},
      {"ring allreduce", "allreduce"},
      {"all-reduce", "allreduce"},
      {"data parallel, distributed optimizer", "dp-zero1"},
      {"fullyshardeddataparallel", "fsdp"},
      {"fully sharded data parallel", "fsdp"},
      {"fully sharded", "fsdp"},
      {"fsdp2", "fsdp"},
      {"zero stage ", "zero-"},
      {"tensor parallel", "tp"},
      {"pipeline parallel", "pp"},
      {"context parallel", "cp"},
      {"sequence parallel", "sp"},
      {"ring attention", "cp"},
      {"ulysses", "cp"},
      {"expert parallel", "ep"},
  });
  for (const auto& [words, usual] : kInWords) {
    for (std::size_t at = family.find(words); at != std::string::npos; at = family.find(words, at + usual.size())) {
      family.replace(at, words.size(), usual);
    }
  }
  family.erase(family.find_last_not_of(' ') + 1);
  if (family == "data parallel" || family == "data-parallel") return "ddp";
  return family;
}

CaseReader::CaseReader(const io::Catalog& catalog, std::vector<Override> stated)
    : catalog_(catalog), stated_(std::move(stated)) {
  for (const io::Kind kind : {io::Kind::kNodes, io::Kind::kInstances}) {
    for (const std::string& id : catalog.ids(kind)) {
      if (auto node = catalog.node(id)) servers_.push_back(std::move(*node));
    }
  }
}

namespace {

/// How many parameters a case says that its model has: "~90M", "4.2B", "671.026 billion", 731077632.
std::optional<double> parameters_said(const io::Case& one) {
  for (const char* key : {"params", "parameters"}) {
    const std::string said = lower_case(one.said(key).value_or(""));
    const std::size_t begin = std::min(said.find_first_not_of("~ "), said.size());
    const std::size_t end = std::min(said.find_first_not_of("0123456789.", begin), said.size());
    const auto number = parse_number(said.substr(begin, end - begin));
    if (!number) continue;
    const std::size_t unit = std::min(said.find_first_not_of(' ', end), said.size());
    const char letter = unit < said.size() ? said[unit] : ' ';
    return *number * (letter == 'b' ? 1e9 : letter == 'm' ? 1e6 : letter == 'k' ? 1e3 : 1);
  }
  return std::nullopt;
}

/// Names are given twice: a model that has another number of parameters than the source says is another one. Adapters
/// are counted by themselves, and layers may be cut.
Expected<void> check_size(const io::Case& one, const workload::Model& model) {
  constexpr double kMostTimes = 1.6;  // tables of a vocabulary that somebody leaves out
  const auto said = parameters_said(one);
  if (!said || *said < 1 || one.said("layers") || has_adapters(one) || model.layers.empty()) return {};
  const double times = static_cast<double>(model.parameters()) / *said;
  if (times < kMostTimes && times > 1 / kMostTimes) return {};
  return fail(ErrorCode::kUnsupported,
              fmt::format("the source's '{}' has {:.3g} parameters, '{}' has {:.3g}", one.model.substr(0, 60), *said,
                          model.name, static_cast<double>(model.parameters())));
}

}  // namespace

Expected<void> CaseReader::add_model(const io::Case& one, std::vector<Override>& settings) const {
  const std::string name = model_name(one);
  const auto model = catalog_.model(name);
  if (!model) return tl::unexpected<Error>(model.error());
  settings.push_back({"model", name, one.where});
  if (auto alike = check_size(one, **model); !alike) return alike;
  if (auto same = add_image_size(one, **model, settings); !same) return same;
  if (const auto optimizer = optimizer_of(one)) settings.push_back({"model.optimizer", *optimizer, one.where});
  const auto length = sequence_length_of(one);
  const auto& dimensions = (*model)->dimensions;
  const auto has_dimension = [&](std::string_view wanted) {
    return std::any_of(dimensions.begin(), dimensions.end(),
                       [&](const auto& dimension) { return dimension.first == wanted; });
  };
  // Submissions to MLPerf train GNMT on pairs of up to 75 tokens (MAX_SEQ_LEN of config_DGX1.sh), from five buckets of
  // 15: by the shares that models/gnmt.yaml has 40 with padding, 56 in both languages without (tok/s by the step in the
  // logs).
  if (is_submission(one) && has(lower_case(one.model), "gnmt")) {
    settings.push_back({"model.source_length", "40", one.where});
    settings.push_back({"model.target_length", "40", one.where});
    settings.push_back({"model.tokens", "56", one.where});
  }
  if (length && has_dimension("sequence")) settings.push_back({"model.sequence", *length, one.where});
  const bool joint = (*model)->id.starts_with("bart_") || (*model)->id.starts_with("t5_");
  if (const auto source = count_of(one, "seq_len"); joint && source) {
    // BART restores what was taken out of its input.
    const bool restores = phase_of(one) == TrainingPhase::kPreTraining && (*model)->id.starts_with("bart_");
    const auto shipped = std::find_if(dimensions.begin(), dimensions.end(),
                                      [](const auto& dimension) { return dimension.first == "target_length"; });
    const std::int64_t target = count_of(one, "seq_len_dec").value_or(restores ? *source : shipped->second);
    settings.push_back({"model.source_length", std::to_string(*source), one.where});
    settings.push_back({"model.target_length", std::to_string(target), one.where});
    settings.push_back({"model.tokens", std::to_string(*source + target), one.where});
  }
  const auto vocabulary = vocabulary_of(one);
  if (vocabulary && has_dimension("vocabulary")) settings.push_back({"model.vocabulary", *vocabulary, one.where});
  const auto predictions = predictions_of(one, length.value_or(""));
  if (length && predictions && has_dimension("predictions")) {
    settings.push_back({"model.predictions", *predictions, one.where});
  }
  return {};
}

std::string CaseReader::precision_run(const io::Case& one) const {
  const auto gpu = gpu_of(one);
  const auto model = catalog_.model(model_name(one));
  const bool convolves = model && (*model)->totals.convolutional;
  if (!one.precision.empty()) {
    const std::string stated = precision_of(one.precision);
    return stated == "fp32" && gpu && gpu->peak.tf32 && multiplies_in_tf32(one, convolves) ? "tf32" : stated;
  }
  // All of HugeCTR's submissions to MLPerf set USE_MIXED_PRECISION (training_results_v4.1, v5.1).
  if (has(lower_case(one.architecture), "embedding model parallel")) return "amp";
  // MindSpore model_zoo/official/cv, train.py of resnet and vgg16: amp_level O2, of ResNets but under servers.
  const bool by_mindspore = has(framework_of(one), "mindspore") && !architecture_family(one).starts_with("ps");
  if (by_mindspore && model && has_any((*model)->id, {"resnet", "vgg"})) return "amp";
  const bool splits = gives_sizes(one) || is_known_split(one);
  const bool attends = splits || (model && (*model)->totals.attention && !convolves);
  // DeepSpeed and Megatron have other precisions than 16 bits for tests alone; nor does anybody train a billion
  // parameters of a transformer in 32.
  constexpr std::int64_t kLarge = 1'000'000'000;
  const bool large = attends && model && (*model)->totals.dense_parameters >= kLarge;
  const bool narrow = splits || large || has_any(framework_of(one), {"deepspeed", "megatron"});
  // NVIDIA's code for MLPerf: language models in FP8 since round 2.1, where the GPU has it; all else mixed.
  if (gpu && gpu->peak.fp8 && is_submission(one) && attends) return "fp8";
  if (!narrow && is_submission(one)) return "amp";
  if (!narrow || !gpu) return "fp32";
  if (gpu->peak.bf16) return "bf16";
  return gpu->peak.fp16 && !multiplies_as_fp32(*gpu, Precision::kFp16) ? "fp16" : "fp32";
}

Expected<std::vector<Override>> CaseReader::language_settings_of(const io::Case& one, std::int64_t widest) const {
  std::vector<Override> settings;
  if (auto added = add_server(one, widest, settings); !added) return tl::unexpected<Error>(added.error());
  settings.push_back({"precision", precision_run(one), one.where});
  add_software(one, nullptr, settings);
  settings.push_back({"strategy", "allreduce", one.where});
  if (strategy_of(one, architecture_family(one)) == "pytorch-ddp-gloo") {
    settings.push_back({"collective.library", "gloo", one.where});
  }
  auto splits = splits_of(one);
  if (!splits) return splits;
  // A framework's kernel of attention is not on every GPU: PyTorch has others on those before Ampere.
  const auto gpu = gpu_of(one);
  const bool known = gpu && gpu->peak.bf16;
  if (!known) std::erase_if(*splits, [](const Override& setting) { return setting.path == "software.attention"; });
  settings.insert(settings.end(), splits->begin(), splits->end());
  const auto exchange = exchange_settings_of(one);
  settings.insert(settings.end(), exchange.begin(), exchange.end());
  return settings;
}

/// A language model by its sizes: where a case says some of them alone, of a model that is shipped, that is meant.
bool CaseReader::builds_model(const io::Case& one) const {
  return gives_sizes(one) && (sizes_of(one) || !catalog_.knows(io::Kind::kModels, model_name(one)));
}

/// A split of a language model that is shipped and known by its name, where the case says no sizes; or of any model
/// whose states are shared and nothing else.
bool CaseReader::is_known_split(const io::Case& one) const {
  const std::string family = architecture_family(one);
  const bool splits = gives_sizes(one) || splits_model(family) || says_how_it_runs(one);
  if (!splits) return false;
  const auto model = catalog_.model(model_name(one));
  if (!model || (one.said("hidden") && sizes_of(one))) return false;
  // States of any layers can be shared.
  const bool shares = shares_alone(family) || (!splits_model(family) && says_shared_states(one));
  if (shares && !(*model)->layers.empty()) return true;
  if (!(*model)->totals.attention) return false;
  const auto& dimensions = (*model)->dimensions;
  return std::any_of(dimensions.begin(), dimensions.end(),
                     [](const auto& dimension) { return dimension.first == "sequence"; });
}

Expected<std::vector<Override>> CaseReader::split_settings_of(const io::Case& one, std::int64_t widest) const {
  auto settings = language_settings_of(one, widest);
  if (!settings) return settings;
  if (auto added = add_model(one, *settings); !added) return tl::unexpected<Error>(added.error());
  if (const auto model = catalog_.model(model_name(one))) {
    add_input(one, **model, *settings);
    const auto again = recomputation_by_recipe(one, **model);
    settings->insert(settings->end(), again.begin(), again.end());
  }
  return settings;
}

/// What feeds a model of images, on the server that the settings name.
void CaseReader::add_input(const io::Case& one, const workload::Model& model, std::vector<Override>& settings) const {
  const auto server =
      std::find_if(settings.begin(), settings.end(), [](const Override& s) { return s.path == "node"; });
  if (server == settings.end() || model.sample != "image") return;
  if (const auto node = catalog_.node(server->value)) {
    const auto input = input_of(one, *node);
    settings.insert(settings.end(), input.begin(), input.end());
  }
}

Expected<Scenario> CaseReader::scenario_of(const io::Case& one, std::int64_t widest,
                                           std::vector<Override>* stated) const {
  auto settings = settings_of(one, widest);
  auto scenario = settings ? resolved(one, *settings) : tl::unexpected<Error>(settings.error());
  if (!scenario && scenario.error().where.file.empty()) scenario.error().where = one.where;
  if (settings && stated != nullptr) *stated = std::move(*settings);
  return scenario;
}

/// Adds what only the model can say to its settings.
Expected<Scenario> CaseReader::resolved(const io::Case& one, std::vector<Override>& settings) const {
  if (is_known_split(one) || !builds_model(one)) {
    settings.insert(settings.end(), stated_.begin(), stated_.end());
    auto scenario = resolve(catalog_, settings);
    if (!scenario) return scenario;
    if (auto run = as_run(one, *scenario); !run) return tl::unexpected<Error>(run.error());
    if (is_known_split(one)) scenario->framework = one.framework;
    launch_as_framework(one, *scenario);
    recompute_first_blocks(one, *scenario);
    return scenario;
  }
  auto model = language_model_of(one);
  if (!model) return tl::unexpected<Error>(model.error());
  if (auto stages = stages_of(one, **model)) settings.push_back(std::move(*stages));
  const auto again = recomputation_by_recipe(one, **model);
  settings.insert(settings.end(), again.begin(), again.end());
  settings.insert(settings.end(), stated_.begin(), stated_.end());
  auto scenario = resolve(catalog_, settings, std::move(*model));
  if (!scenario) return scenario;
  if (auto run = as_run(one, *scenario); !run) return tl::unexpected<Error>(run.error());
  scenario->framework = one.framework;
  launch_as_framework(one, *scenario);
  recompute_first_blocks(one, *scenario);
  return scenario;
}

Expected<std::vector<Override>> CaseReader::settings_of(const io::Case& one, std::int64_t widest) const {
  if (one.precision.empty()) {
    io::Case assumed = one;
    assumed.precision = precision_run(one);
    return settings_of(assumed, widest);
  }
  const std::string family = architecture_family(one);
  if (is_known_split(one)) return split_settings_of(one, widest);
  if (builds_model(one)) return language_settings_of(one, widest);
  const bool staged = splits_model(family) && cuts_stages_alone(one);
  if (splits_model(family) && !staged) {
    if (const auto model = catalog_.model(model_name(one)); !model) return tl::unexpected<Error>(model.error());
    return fail(ErrorCode::kUnsupported,
                fmt::format("'{}': a split of a model whose sizes the source does not say", one.architecture));
  }
  std::vector<Override> settings;
  if (auto added = add_model(one, settings); !added) return tl::unexpected<Error>(added.error());
  if (auto added = add_server(one, widest, settings); !added) return tl::unexpected<Error>(added.error());
  settings.push_back({"precision", precision_run(one), one.where});
  const auto named =
      std::find_if(settings.begin(), settings.end(), [](const Override& s) { return s.path == "model"; });
  const auto model = catalog_.model(named->value);
  add_software(one, model ? model->get() : nullptr, settings);
  if (model) add_input(one, **model, settings);
  const std::string strategy = strategy_of(one, family);
  settings.push_back({"strategy", strategy, one.where});
  const auto exchange = exchange_settings_of(one);
  settings.insert(settings.end(), exchange.begin(), exchange.end());
  if (const std::string_view again = recomputation_of(one); again != "none") {
    settings.push_back({"parallel.recompute", std::string(again), one.where});
  }
  if (staged) {
    auto stages = stages_alone_of(one);
    if (!stages) return stages;
    settings.insert(settings.end(), stages->begin(), stages->end());
    return settings;
  }
  if (one.batch_per_gpu) settings.push_back({"batch", std::to_string(batch_of_pass(one)), one.where});
  const bool serves = strategy == "tf-ps" || strategy == "tf-distributed-replicated";
  if (family.starts_with("ps") || serves) add_servers(one, settings);
  if (const auto states = states_of(one)) settings.push_back({"parallel.states", *states, one.where});
  if (const auto passes = one.said("grad_accum")) {
    settings.push_back({"strategy.accumulation", *passes, one.where});
  } else if (const auto global = count_of(one, "global_batch"); global && fits_global_batch(one)) {
    const std::int64_t count = *global / one.total_gpus / one.batch_per_gpu.value_or(1);
    if (!one.batch_per_gpu) settings.push_back({"global_batch", std::to_string(*global), one.where});
    if (one.batch_per_gpu && count > 1) {
      settings.push_back({"strategy.accumulation", std::to_string(count), one.where});
    }
  }
  return settings;
}

}  // namespace ddlsim::whatif
