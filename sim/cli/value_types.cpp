#include "value_types.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "ddlsim/plan/collective_library.h"
#include "ddlsim/plan/input.h"
#include "ddlsim/plan/parallel.h"
#include "ddlsim/plan/strategy.h"
#include "ddlsim/support/precision.h"
#include "ddlsim/whatif/find.h"
#include "ddlsim/whatif/framework.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::cli {
namespace {

using io::Catalog;
using io::Kind;

void add_ids(const Catalog* catalog, Kind kind, Candidates& to) {
  if (catalog == nullptr) return;
  for (const std::string& id : catalog->ids(kind)) to.words.push_back({id, {}});
}

template <Kind kKind>
void ids(const Catalog* catalog, Candidates& to) {
  add_ids(catalog, kKind, to);
  to.files = true;
}

void servers(const Catalog* catalog, Candidates& to) {
  ids<Kind::kNodes>(catalog, to);
  ids<Kind::kInstances>(catalog, to);
}

void strategies(const Catalog* /*catalog*/, Candidates& to) {
  for (const std::string& word : choices_of(one_of(plan::kStrategies))) to.words.push_back({word, {}});
  for (const whatif::Framework& framework : whatif::frameworks()) {
    to.words.push_back({std::string(framework.name), std::string(framework.what)});
  }
}

void profiles(const Catalog* catalog, Candidates& to) {
  for (const char* word : {"auto", "none"}) to.words.push_back({word, {}});
  ids<Kind::kCalibrations>(catalog, to);
}

template <std::size_t N>
struct Word {
  // NOLINTNEXTLINE(google-explicit-constructor): a literal is the word
  constexpr Word(const char (&literal)[N]) { std::copy_n(literal, N, text.begin()); }
  std::array<char, N> text{};
};
template <Word kWord>
void word(const Catalog* /*catalog*/, Candidates& to) {
  to.words.push_back({kWord.text.data(), {}});
}

void files(const Catalog* /*catalog*/, Candidates& to) { to.files = true; }
void folders(const Catalog* /*catalog*/, Candidates& to) { to.folders = true; }

void jobs(const Catalog* catalog, Candidates& to) {
  to.files = true;
  if (catalog == nullptr) return;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(catalog->root() / "models" / "jobs", none)) {
    if (entry.path().extension() == ".yaml") to.words.push_back({entry.path().stem().string(), {}});
  }
}

/// Those that `find` takes.
void variables(const Catalog* /*catalog*/, Candidates& to) {
  for (const whatif::SettingInfo& setting : whatif::settings()) {
    if (whatif::check_variable(setting.path, {})) to.words.push_back({setting.path, setting.meaning});
  }
}

void conditions(const Catalog* /*catalog*/, Candidates& to) {
  to.open = true;
  for (const auto& [name, metric] : whatif::kMetrics) {
    for (const char* sign : {" >= ", " <= ", " = "}) to.words.push_back({std::string(name) + sign, {}});
  }
}

void kinds(const Catalog* /*catalog*/, Candidates& to) {
  for (const auto& [name, kind] : io::kKinds) to.words.push_back({std::string(name), {}});
  to.words.push_back({"settings", "what --set can change"});
  to.words.push_back({"frameworks", "what --strategy can be beside ps and allreduce"});
}

void explained_parts(const Catalog* /*catalog*/, Candidates& to) {
  for (const char* part : {"step", "software", "power", "compute", "memory-bound", "launch", "other", "all-reduce",
                           "exposed", "input", "memory"}) {
    to.words.push_back({part, {}});
  }
}

constexpr auto kTypes = std::to_array<ValueType>({
    {"MODEL", "a model's name (`ddlsim list models`) or file", ids<Kind::kModels>},
    {"NODE", "a server's or cloud instance's name (`ddlsim list nodes`) or file", servers},
    {"GPU", "a GPU's name (`ddlsim list gpus`) or file", ids<Kind::kGpus>},
    {"NETWORK", "a rate ('25 Gb/s'), a link's name (`ddlsim list links`), or several: '4 x infiniband-100g'",
     ids<Kind::kLinks>},
    {"STRATEGY", "ps, allreduce, pearl, or a framework's way (`ddlsim list frameworks`)", strategies},
    {"DATASET", "a data set's name (`ddlsim list datasets`) or file", ids<Kind::kDatasets>},
    {"STORAGE", "a storage's name (`ddlsim list storage`) or file", ids<Kind::kStorage>},
    {"CPU", "a processor's name (`ddlsim list cpus`) or file", ids<Kind::kCpus>},
    {"PROFILE", "a profile's name (`ddlsim list calibrations`) or file", profiles},
    {"POPULATION", "a population's name (`ddlsim list populations`) or file", ids<Kind::kPopulations>},
    {"CLUSTER", "a cluster's name (`ddlsim list clusters`) or file", ids<Kind::kClusters>},
    {"JOBS", "a file of jobs, or one of models/jobs by name", jobs},
    {"KIND", "`ddlsim list` shows them", kinds},
    {"NAME", "a name", nullptr},
    {"PATH=VALUE", "a setting (`ddlsim list settings`) and its value", nullptr},  // by its setting: complete_value
    {"PATH=VALUES", "a setting and its values: nodes=1,2,4 or nodes=1..64:x2", nullptr},  // likewise
    {"NAME=VALUE", "a name and its value", nullptr},
    {"VARIABLE", "a setting that is a number and can be looked for", variables},
    {"CONDITION", "'METRIC >= VALUE', '<=' or '='", conditions},
    {"COND", "a condition on settings: 'nodes > 1 or strategy == allreduce'", nullptr},
    {"PART", "a part of an explanation", explained_parts},
    {"ADDRESS", "an IP address, or localhost", nullptr},
    {"N", "a whole number", nullptr},
    {"COUNT", "a number of things: 1281167, 1.28e6, 300B", nullptr},
    {"NUMBER", "a number", nullptr},
    {"SHARE", "a share: '90%', '0.9'", nullptr},
    {"TIME", "a time with its unit: '180 ms', '24h'", nullptr},
    {"SIZE", "bytes: 8, 1K, 128M, 1G (powers of 1024), or with a unit: '25 MB', '25 MiB'", nullptr},
    {"RATE", "a bandwidth with its unit: '10 GB/s', '25 Gb/s'", nullptr},
    {"MONEY", "dollars: '500 $'", nullptr},
    {"PRICE", "dollars an hour: '12 $/h', or of one kind of server: 'dgx-a100=12 $/h'", nullptr},
    {"CARBON", "CO2 of electricity: '400 g/kWh'", nullptr},
    {"QUANTITY", "a value with its unit, as the setting takes it", nullptr},
    {"GPUS", "GPUs of several kinds: '4 x a100-80gb, 4 x v100'", nullptr},
    {"DATE", "a date: 2025-01-31", nullptr},
    {"TEXT", "words", nullptr},
    {"ID", "a name for a file: letters, digits, '_', '-'", nullptr},
    {"K/N", "part K of N: 3/16", nullptr},
    {"LIBRARIES", "libraries with commas, each free or held to an algorithm: mpi,mpi-opt,nccl:ring", nullptr},
    {"COLUMNS", "nemo: those of NVIDIA's performance summaries", word<"nemo">},
    {"STUDY", "layers: ResNets and VGGs, with and without norms and residual sums", word<"layers">},
    {"COMMAND", "a command, and its part", nullptr},
    {"FILE", "a file", files},
    {"DIR", "a folder", folders},
    {"PREFIX", "how the names of files begin", files},
    {"TRACE", "a file", files},
    {"LOG", "a file", files},
    {"ROWS", "a file", files},
    {"DB", "a file of results (SQLite)", files},
});

/// Settings that are words to choose from, each by the table that reads it.
std::string choices_of_setting(std::string_view path) {
  using Row = std::pair<std::string_view, std::string>;
  const auto known = std::to_array<Row>({
      {"precision", one_of(kPrecisions)},
      {"strategy.grouping", one_of(plan::kGroupings)},
      {"strategy.gradients", one_of(kPrecisions)},
      {"strategy.compression", one_of(plan::kCompressions)},
      {"strategy.placement", one_of(plan::kPlacements)},
      {"strategy.consistency", one_of(plan::kConsistencies)},
      {"parallel.context_by", one_of(plan::kContextWays)},
      {"parallel.expert_dispatch", one_of(plan::kExpertDispatches)},
      {"parallel.schedule", one_of(plan::kPipelineSchedules)},
      {"parallel.zero", "0|1|2|3"},
      {"parallel.recompute", one_of(plan::kRecomputes)},
      {"parallel.lora_products", one_of(plan::kAdaptedProducts)},
      {"parallel.states", one_of(plan::kStates)},
      {"collective.library", one_of(plan::kCollectiveLibraries)},
      {"collective.algorithm", one_of(plan::kCollectiveAlgorithms)},
      {"network.transport", one_of(hardware::kNetworkTransports)},
      {"ps.transport", one_of(plan::kPsTransports)},
      {"input.loader", one_of(plan::kLoaders)},
      {"input.cache", one_of(plan::kCachePolicies)},
      {"input.epoch", one_of(plan::kEpochs)},
      {"input.decode", one_of(plan::kDecodeOn)},
      {"overlap", one_of(plan::kOverlaps)},
      {"fidelity", one_of(answer::kFidelities)},
      {"gpu_interconnect", "nvlink|pcie"},
      {"peer_to_peer", "yes|no"},
      {"fusion", "none|pointwise|attention|all"},
      {"software", "learnt|none"},
      {"software.attention", one_of(primitives::kAttentionKernels)},
      {"software.optimizer", one_of(plan::kUpdateKernels)},
  });
  const auto* found = std::find_if(known.begin(), known.end(), [&](const Row& row) { return row.first == path; });
  return found == known.end() ? std::string() : found->second;
}

/// Settings whose values have a word of their own.
constexpr auto kSettingTypes = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"model", "MODEL"},
    {"node", "NODE"},
    {"gpu", "GPU"},
    {"network", "NETWORK"},
    {"strategy", "STRATEGY"},
    {"gpu.calibration", "PROFILE"},
    {"collective.table", "FILE"},
    {"input.dataset", "DATASET"},
    {"input.storage", "STORAGE"},
    {"input.cpu", "CPU"},
    {"measured.step", "TIME"},
    {"measured.runs", "RUNS.csv"},
    {"price", "PRICE"},
    {"training.samples", "COUNT"},
    {"training.tokens", "COUNT"},
    {"training.steps", "COUNT"},
    {"training.epochs", "NUMBER"},
    {"energy.carbon", "CARBON"},
});

/// Of a list "a,b,c" the last is completed.
Candidates complete_choices(std::string_view type, const std::string& typed) {
  Candidates found;
  const std::size_t comma = is_list(type) ? typed.rfind(',') : std::string::npos;
  const std::string before = comma == std::string::npos ? "" : typed.substr(0, comma + 1);
  for (const std::string& word : choices_of(type)) found.words.push_back({before + word, {}});
  return found;
}

Candidates complete_setting(const std::string& typed, const Catalog* catalog) {
  Candidates found;
  const std::size_t equals = typed.find('=');
  if (equals == std::string::npos) {
    found.open = true;
    for (const whatif::SettingInfo& setting : whatif::settings()) {
      found.words.push_back({setting.path + "=", setting.meaning});
    }
    return found;
  }
  const std::string path = typed.substr(0, equals);
  Candidates values = complete_value(type_of_setting(path), typed.substr(equals + 1), catalog);
  if (values.words.empty()) {
    const auto known = whatif::settings();
    const auto setting = std::find_if(known.begin(), known.end(), [&](const auto& s) { return s.path == path; });
    if (setting != known.end()) values.words.push_back({setting->example, "for example"});
  }
  for (Candidate& value : values.words) value.word.insert(0, path + "=");
  return values;
}

}  // namespace

const ValueType* find_value_type(std::string_view name) {
  const auto* found = std::find_if(kTypes.begin(), kTypes.end(), [&](const ValueType& t) { return t.name == name; });
  return found == kTypes.end() ? nullptr : found;
}

std::string_view how_written(std::string_view type) {
  const ValueType* known = find_value_type(type);
  return known == nullptr ? std::string_view() : known->how;
}

bool is_list(std::string_view type) { return type.ends_with(",..."); }

std::vector<std::string> choices_of(std::string_view type) {
  std::vector<std::string> words;
  if (type.find('|') == std::string_view::npos) return words;
  if (is_list(type)) type.remove_suffix(4);
  for (std::size_t begin = 0; begin <= type.size();) {
    const std::size_t end = std::min(type.find('|', begin), type.size());
    words.emplace_back(type.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

std::string type_of_setting(std::string_view path) {
  for (const auto& [setting, type] : kSettingTypes) {
    if (setting == path) return std::string(type);
  }
  if (std::string choices = choices_of_setting(path); !choices.empty()) return choices;
  const auto known = whatif::settings();
  const auto setting = std::find_if(known.begin(), known.end(), [&](const auto& s) { return s.path == path; });
  if (setting == known.end()) return {};
  if (setting->meaning.ends_with("yes, no")) return "yes|no";
  const bool whole = !setting->example.empty() && std::all_of(setting->example.begin(), setting->example.end(),
                                                              [](char c) { return c >= '0' && c <= '9'; });
  return whole ? "N" : "QUANTITY";
}

Candidates complete_value(std::string_view type, const std::string& typed, const Catalog* catalog) {
  if (!choices_of(type).empty()) return complete_choices(type, typed);
  if (type == "PATH=VALUE" || type == "PATH=VALUES") return complete_setting(typed, catalog);
  Candidates found;
  if (const ValueType* known = find_value_type(type)) {
    if (known->complete != nullptr) known->complete(catalog, found);
  } else if (type.find('.') != std::string_view::npos) {
    found.files = true;
  }
  return found;
}

}  // namespace ddlsim::cli
