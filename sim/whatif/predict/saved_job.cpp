#include "ddlsim/whatif/saved_job.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <vector>

#include "predict/question.h"
#include "predict/setting_uses.h"
#include "scenario/number_settings.h"
#include "scenario/settings.h"

namespace ddlsim::whatif {
namespace {

constexpr int kDigits = 9;

/// Values that are words, and how a job has them.
struct WordSetting {
  std::string_view path;
  std::string (*now)(const Scenario&);
};
template <typename Enum, std::size_t N>
std::string named(const Choices<Enum, N>& choices, Enum value) {
  return std::string(name_of(choices, value));
}
std::string yes_or_no(bool value) { return value ? "yes" : "no"; }

constexpr auto kWords = std::to_array<WordSetting>({
    {"gpu", [](const Scenario& s) { return s.cluster.node.gpu.id; }},
    {"precision", [](const Scenario& s) { return named(kPrecisions, s.precision); }},
    {"strategy", [](const Scenario& s) { return named(plan::kStrategies, s.strategy.kind); }},
    {"strategy.grouping", [](const Scenario& s) { return named(plan::kGroupings, plan::grouping_of(s.strategy)); }},
    {"strategy.gradients", [](const Scenario& s) { return named(kPrecisions, s.strategy.gradients.get()); }},
    {"strategy.placement", [](const Scenario& s) { return named(plan::kPlacements, s.strategy.placement.get()); }},
    {"strategy.colocated", [](const Scenario& s) { return yes_or_no(s.strategy.colocated); }},
    {"strategy.local_aggregation", [](const Scenario& s) { return yes_or_no(s.strategy.local_aggregation); }},
    {"strategy.servers_update", [](const Scenario& s) { return yes_or_no(s.strategy.servers_update); }},
    {"strategy.consistency",
     [](const Scenario& s) { return named(plan::kConsistencies, s.strategy.consistency.get()); }},
    {"collective.library",
     [](const Scenario& s) { return named(plan::kCollectiveLibraries, s.collective.kind.get()); }},
});

/// Text between double quotes, as YAML reads it back.
std::string in_quotes(std::string_view value) {
  std::string text = "\"";
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      text += fmt::format("\\x{:02x}", byte);
    } else {
      if (c == '"' || c == '\\') text += '\\';
      text += c;
    }
  }
  return text + "\"";
}

/// What names a file of the user's names it from everywhere.
std::string from_everywhere(const std::string& value) {
  std::error_code none;
  if (value.find_first_of("./") == std::string::npos || !std::filesystem::is_regular_file(value, none)) return value;
  const auto whole = std::filesystem::absolute(value, none);
  return none ? value : whole.lexically_normal().string();
}

std::string provenance_of_setting(const Scenario& scenario, std::string_view path) {
  switch (origin_of(scenario, path).value_or(Origin::kStated)) {
    case Origin::kDatasheet: return "datasheet";
    case Origin::kFramework: return "the way of " + scenario.framework;
    case Origin::kFitted: return "fitted";
    case Origin::kDefault: return "default";
    case Origin::kStated: break;  // or a setting whose origin makes no difference
  }
  if (path.starts_with("gpu.") && path != "gpu.time_factor") return "datasheet of " + scenario.cluster.node.gpu.id;
  if (path == "batch" && scenario.batch_taken == scenario.batch) return "a part of the global batch";
  if (path == "batch" || path.starts_with("model.")) return "the model's";
  if (path.starts_with("efficiency.")) return "assumed (Wang et al. 2019)";
  const auto from_server = {"gpu",
                            "gpus_per_node",
                            "network",
                            "nvlink",
                            "pcie",
                            "pcie.host",
                            "pcie.uplinks",
                            "peer_to_peer",
                            "price",
                            "input.threads",
                            "input.storage.bandwidth",
                            "input.storage.iops",
                            "input.storage.latency"};
  const bool server = std::any_of(from_server.begin(), from_server.end(), [&](const char* one) { return path == one; });
  return server ? scenario.cluster.node.id + "'s" : "default";
}

/// Whether a value that nobody stated says something: a split that is none does not.
bool says_something(const NumberSetting& number, const Scenario& scenario, double value) {
  const std::string_view path = number.path;
  if (!path.starts_with("parallel.")) return true;
  return number.now(Scenario{}) != value || (value > 1 && scenario.cluster.gpus() > 1);
}

/// "path: value" and where it came from, of what nobody stated and mattered.
std::vector<std::pair<std::string, std::string>> resolved(const Question& question, std::span<const Override> stated) {
  const Scenario& scenario = question.scenario;
  std::vector<std::pair<std::string, std::string>> rows;
  const auto add = [&](std::string_view path, const std::string& value) {
    rows.emplace_back(fmt::format("{}: {}", path, value), provenance_of_setting(scenario, path));
  };
  for (const Leaf& leaf : leaves()) {
    if (last_of(stated, leaf.path) != nullptr || !has_use(question, leaf.path)) continue;
    const auto* word =
        std::find_if(kWords.begin(), kWords.end(), [&](const WordSetting& w) { return w.path == leaf.path; });
    if (word != kWords.end()) add(leaf.path, word->now(scenario));
    for (const NumberSetting& number : number_settings()) {
      if (number.path != leaf.path || number.now == nullptr) continue;
      const auto value = number.now(scenario);
      if (value && says_something(number, scenario, *value)) {
        add(leaf.path, number_text(number.kind, *value, kDigits));
      }
    }
  }
  return rows;
}

}  // namespace

std::string saved_setting(const Override& setting) {
  return fmt::format("{}: {}", setting.path, in_quotes(from_everywhere(setting.value)));
}

Expected<std::string> saved_job(const Scenario& scenario, std::span<const Override> stated, std::string_view head) {
  const auto question = ask(scenario);
  if (!question) return tl::unexpected<Error>(question.error());
  std::string text = fmt::format("# {}\n# {}\n", head, describe(scenario));
  text += "# The same program with the same data predicts the same from this file, bit for bit: -f reads it.\n\n";
  for (auto setting = stated.begin(); setting != stated.end(); ++setting) {
    if (last_of(stated, setting->path) != &*setting) continue;
    text += saved_setting(*setting) + "  # stated\n";
  }
  const auto rows = resolved(*question, stated);
  if (rows.empty()) return text;
  std::size_t width = 0;
  for (const auto& [row, from] : rows) width = std::max(width, row.size());
  text += "\n# What nobody stated, as it was resolved. Stated, a value stays when what it comes from changes.\n";
  for (const auto& [row, from] : rows) text += fmt::format("# {:<{}}  {}\n", row, width, from);
  return text;
}

}  // namespace ddlsim::whatif
