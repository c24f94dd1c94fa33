// A collective over message sizes on a cluster, by one library or several.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "ddlsim/answer/collective.h"
#include "ddlsim/cost/collective.h"
#include "ddlsim/hardware/collective_table.h"
#include "ddlsim/importers/collective_file.h"
#include "ddlsim/primitives/collective_op.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

/// A library beside others, held to one of its algorithms where one is named: NCCL before 2.4 had rings alone.
struct ComparedLibrary {
  cost::CollectiveLibraryKind kind = cost::CollectiveLibraryKind::kNccl;
  std::optional<cost::CollectiveAlgorithm> algorithm;

  friend bool operator==(const ComparedLibrary&, const ComparedLibrary&) = default;
};

/// Sizes from `smallest` to `largest`, each `factor` times the one before or, where it is stated, `step` more.
struct CollectiveQuestion {
  primitives::CollectiveOp op = primitives::CollectiveOp::kAllReduce;
  DataSize smallest = bytes(8);
  DataSize largest = gibibytes(1);
  std::int64_t factor = 2;
  std::optional<DataSize> step;
  std::vector<ComparedLibrary> libraries;  // none: the scenario's own
};

inline constexpr std::int64_t kMaxCollectiveRows = 100'000;

/// What is said of a network of which nobody says what drives it (cost::assumed_transport), and how to keep what drives
/// the server's own where a stated rate took its place.
[[nodiscard]] std::string assumed_transport_note(const Scenario& scenario);

/// What NCCL is taken to make of Omni-Path between servers, and what says otherwise; nothing on other networks.
[[nodiscard]] std::optional<std::string> omni_path_note(const Scenario& scenario);

/// Fails for sizes that are not positive and finite, not in order, or make over kMaxCollectiveRows rows, and for what a
/// library cannot do.
[[nodiscard]] Expected<answer::CollectiveReport> sweep_collective(const Scenario& scenario,
                                                                  const CollectiveQuestion& question);

/// A file of measurements (importers/collective_file.h) as a table; `defaults` as the scenario and the question have
/// them.
[[nodiscard]] Expected<std::shared_ptr<const hardware::CollectiveTable>> load_collective_table(
    const std::filesystem::path& path, const importers::CollectiveFileDefaults& defaults = {});

}  // namespace ddlsim::whatif
