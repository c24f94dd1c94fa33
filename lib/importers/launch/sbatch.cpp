// What a script asks of Slurm in lines that a shell takes for comments (sbatch(1): "#SBATCH", INPUT and OUTPUT
// ENVIRONMENT VARIABLES).
#include <algorithm>
#include <array>

#include "ddlsim/support/checked.h"
#include "ddlsim/support/quantity_io.h"
#include "megatron_arguments.h"

namespace ddlsim::importers::launch {
namespace {

/// An option with a number of things.
struct Requested {
  std::string name;
  std::int64_t count = 0;
  std::string line;
  SourceLocation where;
};

constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kShort{{
    {"-N", "nodes"},
    {"-n", "ntasks"},
    {"-c", "cpus-per-task"},
    {"-G", "gpus"},
}};

constexpr auto kSlurmVariables = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"nodes", "SLURM_NNODES"},
    {"nodes", "SLURM_JOB_NUM_NODES"},
    {"gres", "SLURM_GPUS_ON_NODE"},
    {"gpus-per-node", "SLURM_GPUS_ON_NODE"},
    {"gpus-per-node", "SLURM_GPUS_PER_NODE"},
    {"gpus-per-task", "SLURM_GPUS_PER_TASK"},
    {"gpus", "SLURM_GPUS"},
    {"cpus-per-task", "SLURM_CPUS_PER_TASK"},
    {"ntasks-per-node", "SLURM_NTASKS_PER_NODE"},
    {"ntasks", "SLURM_NTASKS"},
    {"ntasks", "SLURM_NPROCS"},
});

bool sets_variable(std::string_view option) {
  return std::any_of(kSlurmVariables.begin(), kSlurmVariables.end(),
                     [&](const auto& row) { return row.first == option; });
}

/// "8", "a100:8", of a gres "gpu:8,nvme:1".
std::optional<std::int64_t> number_of(std::string_view name, std::string_view value) {
  if (name == "gres") {
    const std::size_t gpus = value.find("gpu");
    if (gpus == std::string_view::npos) return std::nullopt;
    value.remove_prefix(gpus);
  }
  value = value.substr(0, value.find_first_of(",#"));
  const auto count = parse_count(value.substr(value.rfind(':') + 1), {1, kLargest});
  return count ? std::optional(*count) : std::nullopt;
}

/// Of several lines with one name the later counts.
std::vector<Requested> requests_in(std::string_view text, const std::string& file) {
  std::vector<Requested> found;
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (!line.starts_with("#SBATCH")) continue;
    std::string name;  // of an option that waits for its value
    for (std::size_t from = line.find_first_of(" \t"); from < line.size();) {
      const std::size_t start = std::min(line.find_first_not_of(" \t\r", from), line.size());
      from = std::min(line.find_first_of(" \t\r", start), line.size());
      std::string_view word = line.substr(start, from - start);
      if (word.starts_with('#')) break;
      if (word.starts_with("--")) {
        name = word.substr(2, word.find('=') - 2);
        word.remove_prefix(std::min(word.find('='), word.size() - 1) + 1);
      } else if (word.starts_with('-') && word.size() >= 2) {
        const auto* known =
            std::find_if(kShort.begin(), kShort.end(), [&](const auto& row) { return word.starts_with(row.first); });
        name = known == kShort.end() ? std::string_view() : known->second;
        word.remove_prefix(word.substr(2).starts_with('=') ? 3 : 2);
      }
      if (word.empty()) continue;
      if (const auto count = number_of(name, word); count && sets_variable(name)) {
        std::erase_if(found, [&](const Requested& other) { return other.name == name; });
        found.push_back({name, *count, std::string(line), {file, number, 1}});
      }
      name.clear();
    }
  }
  return found;
}

const Requested* request(const std::vector<Requested>& all, std::string_view name) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const Requested& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> slurm_variables(std::string_view text) {
  std::vector<Requested> all = requests_in(text, {});
  const Requested* nodes = request(all, "nodes");
  const Requested* tasks = request(all, "ntasks-per-node");
  if (nodes != nullptr && tasks != nullptr && request(all, "ntasks") == nullptr) {
    if (const auto every = checked_multiply(nodes->count, tasks->count)) all.push_back({"ntasks", *every, {}, {}});
  }
  std::vector<std::pair<std::string, std::string>> made;
  for (const auto& [option, variable] : kSlurmVariables) {
    if (const Requested* one = request(all, option)) made.emplace_back(variable, std::to_string(one->count));
  }
  return made;
}

void read_sbatch(std::string_view text, const std::string& file, bool launched, Builder& out) {
  const std::vector<Requested> all = requests_in(text, file);
  const Requested* nodes = request(all, "nodes");
  const Requested* tasks = request(all, "ntasks-per-node");
  const Requested* gpus = request(all, "gpus-per-node");
  if (gpus == nullptr) gpus = request(all, "gres");
  if (nodes != nullptr && out.count_of("nodes") == 0) out.set("nodes", nodes->count, nodes->line, nodes->where);
  if (out.count_of("gpus_per_node") > 0) return;  // the launcher's word
  // A task is a launcher's where there is one of it, and otherwise a GPU's where nobody counts GPUs.
  if (gpus == nullptr && tasks != nullptr && tasks->count > 1 && !launched) gpus = tasks;
  if (gpus != nullptr) out.set("gpus_per_node", gpus->count, gpus->line, gpus->where);
}

}  // namespace ddlsim::importers::launch
