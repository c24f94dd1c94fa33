// What lowerings of jobs have in common (plan/lowerer.h): layers as they are cut, where stages begin, what layers keep.
// Private to the room.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "ddlsim/plan/job.h"
#include "ddlsim/plan/lowerer.h"
#include "ddlsim/plan/messages.h"
#include "ddlsim/plan/stage_cuts.h"
#include "ddlsim/support/error.h"
#include "ddlsim/workload/model.h"
#include "ddlsim/workload/shard.h"
#include "splits.h"

namespace ddlsim::plan {

/// All that decides how a model's layers are cut.
struct CutKey {
  const workload::Model* model = nullptr;
  workload::Fusion fusion;
  workload::Cut ranks;
  bool copies = false;  // of a tied head
  Recompute recompute = Recompute::kNone;
  std::int64_t recompute_every = 1;
  std::int64_t recompute_first = 1;
  bool recompute_stops = false;
  bool scaled_products = false;  // of 8 or 4 bits
  workload::Adapters adapters;
  std::int64_t tables_among = 1;
  DataSize spread_from{};

  friend auto operator<=>(const CutKey&, const CutKey&) = default;
};

/// Of a model's blocks: where they are, and which layers are the first of one.
struct BlockStarts {
  std::vector<workload::Block> blocks;
  std::vector<bool> starts;
};

/// Where a list of layers may be cut, in how many parts at most, and what its layers weigh.
struct CutPlaces {
  std::size_t most = 0;
  LayerLoads loads;
  CutPoints points;
};

/// Activations of one micro-batch by layer, as recomputation leaves them.
struct Plainly {
  std::vector<DataSize> kept;       // until backward
  std::vector<DataSize> casts;      // and of weights, whatever the micro-batch
  std::vector<DataSize> again;      // besides, while the layer's backward runs
  std::vector<DataSize> loss;       // of the layer
  std::vector<DataSize> gradients;  // of its input and output
};

/// Parameters of a layer on one rank, those that are trained, and its largest tensor.
struct Owned {
  double all = 0;
  double trained = 0;
  double quantised = 0;  // of all
  double largest = 0;
  std::int64_t looked_up = 0;  // elements per sample, of a table with sparse gradients; 0: gradients are dense
  bool experts = false;
  bool measured = false;
};

/// All that decides what layers keep.
struct KeptKey {
  const workload::Model* model = nullptr;
  ActivationCut cut;
  Recompute recompute = Recompute::kNone;
  std::int64_t recompute_every = 1;
  std::int64_t recompute_first = 1;

  friend auto operator<=>(const KeptKey&, const KeptKey&) = default;
};

using Layers = std::vector<workload::Layer>;

/// Everything here lives as long as the memo, so that addresses name it.
struct Memo {
  KeptMessages messages;
  std::map<std::tuple<const workload::Model*, workload::Fusion, bool>,
           std::pair<std::shared_ptr<const workload::Model>, std::shared_ptr<const workload::Model>>>
      models;  // as given, as run
  std::map<std::pair<const workload::Model*, workload::Cut>, Expected<std::vector<workload::Shard>>> shards;
  std::map<CutKey, Expected<SplitModel>> cuts;
  std::map<std::pair<const Layers*, Work>, CutPlaces> cut_places;  // on a GPU (work_per_element)
  std::map<std::tuple<const Layers*, Work, std::size_t, std::int64_t, std::vector<std::size_t>>, StageStarts>
      starts;  // the GPU, parts, batch, stated cuts
  std::map<const Layers*, std::vector<Owned>> owned;
  std::map<const workload::Model*, BlockStarts> blocks;
  std::map<std::tuple<PipelineSchedule, std::int64_t, std::int64_t, std::int64_t, std::size_t, std::vector<double>>,
           std::vector<std::int64_t>>
      in_flight;  // stages, virtual stages, passes, the rank; what its parts keep
  std::map<KeptKey, Plainly> kept;
};

/// A rank's rows of what passes between layers, so many numbers of a sample: context ranks cut the sequence, tensor
/// ranks where they cut rows too.
[[nodiscard]] DataSize between_layers(const Job& job, double elements);

/// Layers that are computed again from what enters the first of them, which is kept alone; false: they keep nothing.
bool keep_input(Plainly& plain, std::size_t first, std::size_t last, DataSize input);

/// What a micro-batch keeps, by layer of the plan's model.
[[nodiscard]] const Plainly& kept_by(const Job& job, const StepPlan& plan, Memo& memo);

/// Of a model that the memo keeps.
[[nodiscard]] const BlockStarts& blocks_in(const std::shared_ptr<const workload::Model>& model, Memo& memo);

}  // namespace ddlsim::plan
