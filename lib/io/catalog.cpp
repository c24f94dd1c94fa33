#include "ddlsim/io/catalog.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "ddlsim/io/profile_file.h"
#include "ddlsim/io/software_file.h"
#include "ddlsim/support/names.h"
#include "ddlsim/support/quantity_io.h"
#include "file_name.h"
#include "gpu_name.h"
#include "known_names.h"
#include "model_name.h"
#include "near_profiles.h"

namespace ddlsim::io {
namespace {

namespace fs = std::filesystem;

constexpr auto kFolders = std::to_array<std::pair<Kind, std::string_view>>({
    {Kind::kModels, "models"},
    {Kind::kGpus, "hardware/gpus"},
    {Kind::kLinks, "hardware/links"},
    {Kind::kNodes, "hardware/nodes"},
    {Kind::kInstances, "hardware/instances"},
    {Kind::kClusters, "hardware/clusters"},
    {Kind::kPopulations, "models/fleet"},
    {Kind::kCalibrations, "hardware/calibration"},
    {Kind::kStorage, "hardware/storage"},
    {Kind::kCpus, "hardware/cpus"},
    {Kind::kDatasets, "models/datasets"},
    {Kind::kFailures, "hardware/failures"},
});

std::string_view singular(Kind kind) {
  switch (kind) {
    case Kind::kModels: return "model";
    case Kind::kGpus: return "gpu";
    case Kind::kLinks: return "link";
    case Kind::kNodes: return "node";
    case Kind::kInstances: return "instance";
    case Kind::kClusters: return "cluster";
    case Kind::kPopulations: return "population";
    case Kind::kCalibrations: return "calibration";
    case Kind::kStorage: return "storage";
    case Kind::kCpus: return "cpu";
    case Kind::kDatasets: return "dataset";
    case Kind::kFailures: return "set of failure rates";
  }
  return "thing";
}

std::vector<std::string> ids_in(const fs::path& folder) {
  std::vector<std::string> ids;
  std::error_code status;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, status)) {
    const fs::path& path = entry.path();
    if (path.extension() == ".yaml" && path.stem() != "aliases") ids.push_back(path.stem().string());
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

/// Errors without a place get the file's.
template <typename T>
Expected<T> in_file(Expected<T> value, const fs::path& path) {
  if (!value && value.error().where.file.empty()) value.error().where.file = path.string();
  return value;
}

}  // namespace

bool is_path(std::string_view name) { return name.find('/') != std::string_view::npos || name.ends_with(".yaml"); }

std::string found_beside(const fs::path& file, const std::string& name) {
  if (fs::path(name).is_absolute()) return name;
  const fs::path near = file.parent_path() / name;
  std::error_code unreadable;
  return fs::exists(near, unreadable) ? near.string() : name;
}

struct Catalog::Memory {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const workload::Model>, std::less<>> models;
  std::map<std::string, hardware::Gpu, std::less<>> gpus;
  std::map<std::string, hardware::Gpu, std::less<>> datasheets;
  std::map<std::string, hardware::Link, std::less<>> links;
  std::map<std::string, hardware::Node, std::less<>> nodes;
  std::map<std::string, std::shared_ptr<const hardware::GpuProfile>, std::less<>> profiles;
  std::map<std::string, std::string, std::less<>> gpus_of_profiles;
  std::map<std::string, std::shared_ptr<const hardware::SoftwareProfile>, std::less<>> software;
  std::shared_ptr<const Aliases> aliases;     // null: not read yet
  std::vector<std::unique_ptr<Memory>> idle;  // of apart(), nobody's at the moment
};

Expected<Catalog> Catalog::open(fs::path root) {
  Catalog catalog;
  catalog.root_ = std::move(root);
  std::error_code status;
  if (!fs::is_directory(catalog.root_ / "models", status) || !fs::is_directory(catalog.root_ / "hardware", status)) {
    return fail(ErrorCode::kIo, "no folder that holds models/ and hardware/", {catalog.root_.string(), 0, 0});
  }
  for (const auto& [kind, folder] : kFolders) {
    const fs::path path = catalog.root_ / folder;
    catalog.shelves_.push_back(Shelf{path, ids_in(path)});
  }
  return catalog;
}

Expected<std::shared_ptr<const Catalog::Aliases>> Catalog::aliases() const {
  {
    const std::scoped_lock lock(memory_->mutex);
    if (memory_->aliases) return memory_->aliases;
  }
  Aliases all;
  if (auto read = read_aliases(root_ / "models" / "aliases.yaml", {Kind::kModels}, all); !read) {
    return tl::unexpected<Error>(read.error());
  }
  const std::vector<Kind> hardware{Kind::kGpus, Kind::kLinks, Kind::kNodes};
  if (auto read = read_aliases(root_ / "hardware" / "aliases.yaml", hardware, all); !read) {
    return tl::unexpected<Error>(read.error());
  }
  auto kept = std::make_shared<const Aliases>(std::move(all));
  const std::scoped_lock lock(memory_->mutex);
  if (!memory_->aliases) memory_->aliases = std::move(kept);
  return memory_->aliases;
}

Expected<void> Catalog::read_aliases() const {
  return aliases().map([](const auto&) {});
}

Expected<void> Catalog::read_aliases(const fs::path& file, const std::vector<Kind>& kinds, Aliases& to) const {
  std::error_code status;
  if (!fs::exists(file, status)) return {};
  const Expected<Node> document = load_yaml(file);
  if (!document) return tl::unexpected<Error>(document.error());
  std::vector<Error> errors;
  MapReader reader(*document, "an alias file", errors);
  for (const Kind kind : kinds) {
    const Node* map = reader.find(name_of(kKinds, kind));
    if (map == nullptr) continue;
    MapReader rows(*map, "aliases", errors);
    for (const Entry& entry : map->entries) {
      const std::string id = rows.text(entry.key);
      const bool instance = kind == Kind::kNodes && std::binary_search(shelf(Kind::kInstances).ids.begin(),
                                                                       shelf(Kind::kInstances).ids.end(), id);
      const Kind means = instance ? Kind::kInstances : kind;
      const std::vector<std::string>& known = shelf(means).ids;
      if (!std::binary_search(known.begin(), known.end(), id)) {
        rows.report(entry.value, ErrorCode::kNotFound, fmt::format("no {} '{}'", singular(kind), id),
                    {suggestion(id, known)});
      }
      to[means].push_back({fold_name(entry.key), entry.key, id});
    }
  }
  reader.finish();
  if (!errors.empty()) return fail_with_all(std::move(errors));
  return {};
}

const std::vector<std::string>& Catalog::ids(Kind kind) const { return shelf(kind).ids; }

std::vector<std::string> Catalog::aliases_of(Kind kind, std::string_view id) const {
  std::vector<std::string> names;
  const auto all = aliases();
  if (!all || !(*all)->contains(kind)) return names;
  for (const Alias& alias : (*all)->at(kind)) {
    if (alias.id == id) names.push_back(alias.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<fs::path> Catalog::look_up(Kind kind, std::string_view name) const {
  if (auto exact = look_up_exactly(kind, name)) return exact;
  if (kind == Kind::kModels) {
    const auto shorter = less_of_release(name);
    if (auto known = shorter ? look_up(kind, *shorter) : std::nullopt) return known;
    const auto id = id_by_backbone(name);
    if (auto known = id ? look_up_exactly(kind, *id) : std::nullopt) return known;
    return look_up_by_title(kind, name);
  }
  if (kind != Kind::kGpus) return std::nullopt;
  // "H100 (PCIe)" is H100 PCIe; clocks, power and the server it stands in are not its name: "V100-SXM3-32GB (450W)".
  std::string spaced;
  std::string bare;
  int depth = 0;
  for (const char c : name) {
    depth += c == '(' ? 1 : 0;
    spaced += c == '(' || c == ')' ? ' ' : c;
    if (depth == 0) bare += c;
    depth -= c == ')' && depth > 0 ? 1 : 0;
  }
  if (auto known = look_up_exactly(kind, spaced)) return known;
  if (auto known = look_up_exactly(kind, bare)) return known;
  return look_up_by_words(kind, bare);
}

/// By the name that its file has. Files are read for it: nothing else knew the name.
std::optional<fs::path> Catalog::look_up_by_title(Kind kind, std::string_view name) const {
  if (name.ends_with(".yaml")) return std::nullopt;
  constexpr std::string_view kKey = "name:";
  const Shelf& shelf = this->shelf(kind);
  for (const std::string& id : shelf.ids) {
    fs::path path = shelf.folder / (id + ".yaml");
    std::ifstream file(path);
    std::string line;
    while (std::getline(file, line) && !line.starts_with(kKey)) {
    }
    std::string title = line.starts_with(kKey) ? line.substr(kKey.size()) : "";
    std::erase(title, '"');
    title.erase(0, title.find_first_not_of(' '));
    if (!title.empty() && fold_name(title) == fold_name(name)) return path;
  }
  return std::nullopt;
}

/// Of GPUs: by the words that tell one from another, in any order. Who says no form means the module; who says the
/// memory of a GPU that comes with one size alone says nothing more.
std::optional<fs::path> Catalog::look_up_by_words(Kind kind, std::string_view name) const {
  std::set<std::string> said = gpu_words(name);
  if (said.empty() || is_path(name)) return std::nullopt;
  if (auto known = with_words(kind, said)) return known;
  const auto size = std::find_if(said.begin(), said.end(), [](const std::string& word) {
    return word.ends_with("gb") && parse_number(word.substr(0, word.size() - 2)).has_value();
  });
  if (size == said.end()) return std::nullopt;
  const double gigabytes_said = *parse_number(size->substr(0, size->size() - 2));
  said.erase(size);
  auto known = with_words(kind, said);
  const auto read = known ? gpu(known->stem().string()) : fail(ErrorCode::kNotFound, {});
  constexpr double kAlike = 0.1;  // GB and GiB, what is sold and what is free
  if (!read || std::abs(read->memory_size.in(gigabytes) / gigabytes_said - 1) > kAlike) return std::nullopt;
  return known;
}

std::optional<fs::path> Catalog::with_words(Kind kind, std::set<std::string> said) const {
  const Shelf& shelf = this->shelf(kind);
  const auto all = aliases();
  for (const bool module : {false, true}) {
    if (module && !said.insert("sxm").second) break;
    for (const std::string& id : shelf.ids) {
      if (gpu_words(id) == said) return shelf.folder / (id + ".yaml");
    }
    if (!all || !(*all)->contains(kind)) continue;
    for (const Alias& alias : (*all)->at(kind)) {
      if (gpu_words(alias.name) == said) return shelf.folder / (alias.id + ".yaml");
    }
  }
  return std::nullopt;
}

std::optional<fs::path> Catalog::look_up_exactly(Kind kind, std::string_view name) const {
  const Shelf& shelf = this->shelf(kind);
  const std::string folded = fold_name(name);
  for (const std::string& id : shelf.ids) {
    if (fold_name(id) == folded) return shelf.folder / (id + ".yaml");
  }
  const auto all = aliases();
  if (!all || !(*all)->contains(kind)) return std::nullopt;
  for (const Alias& alias : (*all)->at(kind)) {
    if (alias.folded == folded) return shelf.folder / (alias.id + ".yaml");
  }
  return std::nullopt;
}

/// As many names as an error can show.
constexpr std::size_t kFew = 8;

Expected<fs::path> Catalog::find(Kind kind, std::string_view name) const {
  if (auto known = look_up(kind, name)) return *known;
  std::error_code none;
  // Models have slashes in their names too: "ViT-H/14" is no file that is missing.
  const bool file = name.starts_with('.') || name.starts_with('/') || name.ends_with(".yaml") || fs::exists(name, none);
  if (is_path(name) && file) return fs::path(name);
  if (auto read = read_aliases(); !read) return tl::unexpected<Error>(read.error());
  Known known;
  add_known(*this, kind, known);
  std::vector<std::string> notes;
  if (kind == Kind::kGpus && (look_up(Kind::kNodes, name) || look_up(Kind::kInstances, name))) {
    notes.push_back("that is a server: state it as the node (in published cases: extra.instance), and its GPU here");
  } else if (std::string near = suggested(name, known); !near.empty()) {
    notes.push_back(std::move(near));
  } else if (ids(kind).size() <= kFew) {
    notes.push_back("known: " + join(ids(kind)));
  }
  notes.push_back(
      fmt::format("`ddlsim list {}` shows them all; a path to a file of your own works too", name_of(kKinds, kind)));
  return fail(ErrorCode::kNotFound, fmt::format("unknown {} '{}'", singular(kind), name.substr(0, 60)), {},
              std::move(notes));
}

Catalog::Catalog() : memory_(std::make_shared<Memory>()) {}

/// What `read` gives, asked once per key. Two threads may both read; both get what was kept first.
template <typename T, typename Read>
Expected<T> Catalog::remembered(std::map<std::string, T, std::less<>> Memory::*shelf, const std::string& key,
                                Read read) const {
  Memory* const memory = is_path(key.substr(0, key.find('\n'))) ? own_files_.get() : memory_.get();
  if (memory == nullptr) return read();
  {
    const std::scoped_lock lock(memory->mutex);
    const auto& known = memory->*shelf;
    if (const auto found = known.find(key); found != known.end()) return found->second;
  }
  Expected<T> value = read();
  if (!value) return value;
  const std::scoped_lock lock(memory->mutex);
  return (memory->*shelf).try_emplace(key, std::move(*value)).first->second;
}

Expected<std::shared_ptr<const workload::Model>> Catalog::model(std::string_view name,
                                                                const Dimensions& dimensions) const {
  std::string key(name);
  for (const auto& [dimension, size] : dimensions) key += "\n" + dimension + "=" + std::to_string(size);
  return remembered(&Memory::models, key, [&]() -> Expected<std::shared_ptr<const workload::Model>> {
    const auto path = find(Kind::kModels, name);
    if (!path) return tl::unexpected<Error>(path.error());
    auto model = load_yaml(*path).and_then([&](const Node& node) { return read_model(node, dimensions); });
    model = in_file(check_id(std::move(model), *path), *path);
    if (!model) return tl::unexpected<Error>(model.error());
    return std::make_shared<const workload::Model>(std::move(*model));
  });
}

Expected<hardware::Gpu> Catalog::gpu(std::string_view name) const {
  return remembered(&Memory::gpus, std::string(name), [&]() -> Expected<hardware::Gpu> {
    auto gpu = datasheet(name);
    if (!gpu) return gpu;
    auto profiles = profiles_near(*gpu);
    if (!profiles) return tl::unexpected<Error>(profiles.error());
    gpu->profiles = from_datasheet(std::move(*profiles));
    return gpu;
  });
}

Expected<hardware::Gpu> Catalog::datasheet(std::string_view name) const {
  return remembered(&Memory::datasheets, std::string(name), [&]() -> Expected<hardware::Gpu> {
    const auto path = find(Kind::kGpus, name);
    if (!path) return tl::unexpected<Error>(path.error());
    auto gpu = load_yaml(*path).and_then(read_gpu);
    return check_id(std::move(gpu), *path);
  });
}

Expected<hardware::Link> Catalog::link(std::string_view name) const {
  return remembered(&Memory::links, std::string(name), [&]() -> Expected<hardware::Link> {
    const auto path = find(Kind::kLinks, name);
    if (!path) return tl::unexpected<Error>(path.error());
    auto link = load_yaml(*path).and_then(read_link);
    return check_id(std::move(link), *path);
  });
}

Expected<hardware::Storage> Catalog::storage(std::string_view name) const {
  const auto path = find(Kind::kStorage, name);
  if (!path) return tl::unexpected<Error>(path.error());
  return check_id(load_yaml(*path).and_then(read_storage), *path);
}

Expected<hardware::Cpu> Catalog::cpu(std::string_view name) const {
  const auto path = find(Kind::kCpus, name);
  if (!path) return tl::unexpected<Error>(path.error());
  return check_id(load_yaml(*path).and_then(read_cpu), *path);
}

Expected<hardware::FailureRates> Catalog::failures(std::string_view name) const {
  const auto path = find(Kind::kFailures, name);
  if (!path) return tl::unexpected<Error>(path.error());
  return check_id(load_yaml(*path).and_then(read_failures), *path);
}

Expected<std::shared_ptr<const workload::Dataset>> Catalog::dataset(std::string_view name) const {
  const auto path = find(Kind::kDatasets, name);
  if (!path) return tl::unexpected<Error>(path.error());
  auto dataset = check_id(load_yaml(*path).and_then(read_dataset), *path);
  if (!dataset) return tl::unexpected<Error>(dataset.error());
  return std::make_shared<const workload::Dataset>(std::move(*dataset));
}

Expected<std::shared_ptr<const hardware::SoftwareProfile>> Catalog::software() const {
  using Profile = std::shared_ptr<const hardware::SoftwareProfile>;
  if (kernels_alone_) return Profile{};
  return remembered(&Memory::software, "steps", [&]() -> Expected<Profile> {
    const fs::path path = root_ / "hardware" / "software" / "steps.yaml";
    std::error_code status;
    if (!fs::exists(path, status)) return Profile{};
    auto read = check_id(load_yaml(path).and_then(read_software), path);
    if (!read) return tl::unexpected<Error>(read.error());
    return std::make_shared<const hardware::SoftwareProfile>(std::move(*read));
  });
}

Catalog Catalog::kernels_alone() const {
  Catalog other = *this;
  other.kernels_alone_ = true;
  return other;
}

Catalog Catalog::apart() const {
  std::unique_ptr<Memory> own;
  {
    const std::scoped_lock lock(memory_->mutex);
    if (!memory_->idle.empty()) {
      own = std::move(memory_->idle.back());
      memory_->idle.pop_back();
    }
  }
  if (!own) own = std::make_unique<Memory>();
  Catalog other = *this;
  other.memory_ = std::shared_ptr<Memory>(own.release(), [home = memory_](Memory* used) {
    std::unique_ptr<Memory> back(used);
    const std::scoped_lock lock(home->mutex);
    home->idle.push_back(std::move(back));
  });
  return other;
}

Catalog Catalog::for_one_question() const {
  Catalog other = *this;
  other.own_files_ = std::make_shared<Memory>();
  return other;
}

Expected<StudySetting> Catalog::setting(std::string_view name) const {
  const auto path = find(Kind::kClusters, name);
  if (!path) return tl::unexpected<Error>(path.error());
  auto setting = load_yaml(*path).and_then(read_setting);
  return check_id(std::move(setting), *path);
}

Expected<PopulationFile> Catalog::population(std::string_view name) const {
  const auto path = find(Kind::kPopulations, name);
  if (!path) return tl::unexpected<Error>(path.error());
  auto population = load_yaml(*path).and_then(read_population);
  return check_id(std::move(population), *path);
}

Expected<std::shared_ptr<const hardware::GpuProfile>> Catalog::profile(std::string_view name) const {
  using Shared = std::shared_ptr<const hardware::GpuProfile>;
  return remembered(&Memory::profiles, std::string(name), [&]() -> Expected<Shared> {
    const auto path = find(Kind::kCalibrations, name);
    if (!path) return tl::unexpected<Error>(path.error());
    auto profile = check_id(load_yaml(*path).and_then(read_profile), *path);
    if (!profile) return tl::unexpected<Error>(profile.error());
    return std::make_shared<const hardware::GpuProfile>(std::move(*profile));
  });
}

Expected<hardware::MeasuredProfile> Catalog::measured_profile(std::string_view name) const {
  auto found = profile(name);
  if (!found) return tl::unexpected<Error>(found.error());
  auto on = datasheet((*found)->gpu);
  if (!on) return tl::unexpected<Error>(on.error());
  return hardware::MeasuredProfile{std::move(*found), on->peak, on->memory_bandwidth, on->sm_count};
}

Expected<std::string> Catalog::gpu_of_profile(const std::string& id) const {
  return remembered(&Memory::gpus_of_profiles, id, [&]() -> Expected<std::string> {
    const auto path = find(Kind::kCalibrations, id);
    if (std::string gpu = path ? said_in_head(*path, "gpu") : std::string(); !gpu.empty()) return gpu;
    return profile(id).map([](const auto& whole) { return whole->gpu; });
  });
}

Expected<hardware::Node> Catalog::node(std::string_view name) const {
  return remembered(&Memory::nodes, std::string(name), [&] { return read_server(name); });
}

}  // namespace ddlsim::io
