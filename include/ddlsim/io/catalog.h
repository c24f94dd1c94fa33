// The data a program comes with: models/ and hardware/, found by name.
//
// A name is a file's id, an alias from an aliases.yaml, or a path to a user's own file (it holds a '/' or ends in
// ".yaml"). Look-up folds case and treats spaces, '_' and '-' alike. A name nobody knows is an error that offers the
// nearest ones. Files are read when asked for, not when the catalog opens (aliases: when a name is no id), and what was
// read of the catalog's own is kept; a user's own file is read again every time. Of a GPU's name, what stands in
// brackets may be left out. A Catalog may be shared between threads; its copies share what they have read.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ddlsim/hardware/failures.h"
#include "ddlsim/hardware/gpu.h"
#include "ddlsim/hardware/gpu_profile.h"
#include "ddlsim/hardware/node.h"
#include "ddlsim/hardware/software.h"
#include "ddlsim/io/hardware_files.h"
#include "ddlsim/io/model_file.h"
#include "ddlsim/io/population_file.h"
#include "ddlsim/support/choices.h"
#include "ddlsim/support/error.h"
#include "ddlsim/workload/model.h"

namespace ddlsim::io {

/// The kinds of things a catalog holds, by the folder they live in.
enum class Kind {
  kModels,
  kGpus,
  kLinks,
  kNodes,
  kInstances,
  kClusters,
  kPopulations,
  kCalibrations,
  kStorage,
  kCpus,
  kDatasets,
  kFailures
};

inline constexpr Choices<Kind, 12> kKinds{{
    {"models", Kind::kModels},
    {"gpus", Kind::kGpus},
    {"links", Kind::kLinks},
    {"nodes", Kind::kNodes},
    {"instances", Kind::kInstances},
    {"clusters", Kind::kClusters},
    {"populations", Kind::kPopulations},
    {"calibrations", Kind::kCalibrations},
    {"storage", Kind::kStorage},
    {"cpus", Kind::kCpus},
    {"datasets", Kind::kDatasets},
    {"failures", Kind::kFailures},
}};

class Catalog {
 public:
  /// Opens the folder that holds `models/` and `hardware/`. Errors: kIo when they are not there.
  [[nodiscard]] static Expected<Catalog> open(std::filesystem::path root);

  [[nodiscard]] const std::filesystem::path& root() const { return root_; }
  /// Every id of a kind, sorted.
  [[nodiscard]] const std::vector<std::string>& ids(Kind kind) const;
  /// Reads the aliases now. Errors: what is wrong with their files, which `find` says too for a name that is no id.
  [[nodiscard]] Expected<void> read_aliases() const;
  /// The aliases that mean `id`, sorted; none where their files cannot be read.
  [[nodiscard]] std::vector<std::string> aliases_of(Kind kind, std::string_view id) const;
  /// Whether a name is an id or an alias of that kind.
  [[nodiscard]] bool knows(Kind kind, std::string_view name) const { return look_up(kind, name).has_value(); }
  /// The file behind a name. Errors: kNotFound with the nearest names.
  [[nodiscard]] Expected<std::filesystem::path> find(Kind kind, std::string_view name) const;

  [[nodiscard]] Expected<std::shared_ptr<const workload::Model>> model(std::string_view name,
                                                                       const Dimensions& dimensions = {}) const;
  /// A GPU with the profiles that may answer for its kernels.
  [[nodiscard]] Expected<hardware::Gpu> gpu(std::string_view name) const;
  /// What its file says alone.
  [[nodiscard]] Expected<hardware::Gpu> datasheet(std::string_view name) const;
  [[nodiscard]] Expected<hardware::Link> link(std::string_view name) const;
  [[nodiscard]] Expected<hardware::Storage> storage(std::string_view name) const;
  [[nodiscard]] Expected<hardware::Cpu> cpu(std::string_view name) const;
  [[nodiscard]] Expected<hardware::FailureRates> failures(std::string_view name) const;
  [[nodiscard]] Expected<std::shared_ptr<const workload::Dataset>> dataset(std::string_view name) const;
  /// A node or a cloud instance, with its GPU, links and host read as well.
  [[nodiscard]] Expected<hardware::Node> node(std::string_view name) const;
  [[nodiscard]] Expected<StudySetting> setting(std::string_view name) const;
  [[nodiscard]] Expected<PopulationFile> population(std::string_view name) const;
  /// The profile of that name (hardware/calibration).
  [[nodiscard]] Expected<std::shared_ptr<const hardware::GpuProfile>> profile(std::string_view name) const;
  /// A profile with the datasheet of the GPU it was measured on.
  [[nodiscard]] Expected<hardware::MeasuredProfile> measured_profile(std::string_view name) const;
  /// The profiles that may answer for a GPU: its own first, then those of GPUs of its architecture, the nearest
  /// by peaks and memory bandwidth first; none three times away in fp32 peak or bandwidth. A GPU whose id is the
  /// catalogue's counts with that datasheet, whatever rates it was given. Of other profiles, and of datasheets of other
  /// architectures, only the heads are read. Errors: a file of those that cannot be read, or names no known GPU.
  [[nodiscard]] Expected<std::vector<hardware::MeasuredProfile>> profiles_near(const hardware::Gpu& gpu) const;

  /// What frameworks take on top of kernels (hardware/software/steps.yaml); null where the catalog has no such file.
  [[nodiscard]] Expected<std::shared_ptr<const hardware::SoftwareProfile>> software() const;
  /// The same catalog as if it had no such file.
  [[nodiscard]] Catalog kernels_alone() const;
  /// The same catalog with a memory that nobody else uses at the time, so that a thread that asks much shares no lock
  /// and no count of owners with the others: what an earlier one has read, or nothing yet.
  [[nodiscard]] Catalog apart() const;
  /// The same catalog for one question of many jobs: it reads a user's own file once. Others read it whenever it is
  /// named, for it may have changed.
  [[nodiscard]] Catalog for_one_question() const;

  /// Puts a GPU into a node that has none yet, or another one. Its NVLink comes along, and joins the GPUs if it did
  /// before and the new GPU is no PCIe card. The server keeps its host links; a GPU's PCIe link is no faster than the
  /// server's. The price, which was for the old GPU, goes.
  [[nodiscard]] Expected<void> fit_gpu(hardware::Node& node, hardware::Gpu gpu) const;

 private:
  struct Alias {
    std::string folded;
    std::string name;
    std::string id;
  };
  struct Shelf {
    std::filesystem::path folder;
    std::vector<std::string> ids;
  };
  using Aliases = std::map<Kind, std::vector<Alias>>;

  /// What was read so far, behind a lock.
  struct Memory;

  Catalog();
  template <typename T, typename Read>
  Expected<T> remembered(std::map<std::string, T, std::less<>> Memory::*shelf, const std::string& key, Read read) const;
  [[nodiscard]] Expected<std::string> gpu_of_profile(const std::string& id) const;
  [[nodiscard]] Expected<hardware::Node> read_server(std::string_view name) const;
  Expected<void> join_host(hardware::Node& node, const HostFile& file) const;
  Expected<void> join_pairs(hardware::Node& node, const std::vector<NvlinkPairText>& pairs) const;
  [[nodiscard]] Expected<std::shared_ptr<const Aliases>> aliases() const;
  Expected<void> read_aliases(const std::filesystem::path& file, const std::vector<Kind>& kinds, Aliases& to) const;
  [[nodiscard]] const Shelf& shelf(Kind kind) const { return shelves_[static_cast<std::size_t>(kind)]; }
  [[nodiscard]] std::optional<std::filesystem::path> look_up(Kind kind, std::string_view name) const;
  [[nodiscard]] std::optional<std::filesystem::path> look_up_exactly(Kind kind, std::string_view name) const;
  [[nodiscard]] std::optional<std::filesystem::path> look_up_by_words(Kind kind, std::string_view name) const;
  [[nodiscard]] std::optional<std::filesystem::path> look_up_by_title(Kind kind, std::string_view name) const;
  [[nodiscard]] std::optional<std::filesystem::path> with_words(Kind kind, std::set<std::string> said) const;

  std::filesystem::path root_;
  std::vector<Shelf> shelves_;
  std::shared_ptr<Memory> memory_;
  std::shared_ptr<Memory> own_files_;  // null: they are not kept
  bool kernels_alone_ = false;
};

/// Whether a name is a path to a user's own file.
[[nodiscard]] bool is_path(std::string_view name);

/// The file that `file` names: it stands beside it, or where its name says from here.
[[nodiscard]] std::string found_beside(const std::filesystem::path& file, const std::string& name);

}  // namespace ddlsim::io
