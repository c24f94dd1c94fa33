// Lower bounds of what a plan holds on its fullest GPU. Private to the room.
//
// Of some ranks, with parts r, n(r) micro-batches of each in flight when it keeps the most:
//   M(s) = sum over r of  states(r) + (n(r) - 1) kept(r) + a(r) + loss(r) + edges(r),  + max over r of work(r)
//                                                                                      + gathered
//   a(r), loss(r), work(r)  kept, logits and what a layer works with, where they are most together during one backward
//   edges(r)                what neighbours sent and is not used yet;  gathered: weights that are gathered ahead (zero
//   3)
// which is the ledger of plan/lower.h without fp32 gradients of the update, and allocator slack.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "ddlsim/plan/lowerer.h"
#include "ddlsim/plan/memory.h"
#include "ddlsim/plan/order.h"
#include "ddlsim/support/units.h"
#include "search/plan_space.h"
#include "search/plan_tools.h"

namespace ddlsim::whatif {

/// Bounds are that much lower, for sums in another order than the ledger's.
inline constexpr double kMemoryRounding = 1 - 1e-9;

class PlanMemory {
 public:
  PlanMemory(const PlanSpace& space, PlanTools& tools);

  // `index` is that of the shape. Infinite where the lowering refuses it.
  /// Of the plan's fullest GPU; where that is above `enough`, any size above it.
  [[nodiscard]] DataSize of(const Split& split, std::size_t index, DataSize enough = DataSize::infinity());
  /// Likewise, by all of its ranks.
  [[nodiscard]] DataSize of_every_rank(const Split& split, std::size_t index);
  /// Of all plans with that shape, so many stages, and so many parts per rank at most.
  [[nodiscard]] DataSize least(const Split& split, std::size_t index, std::int64_t parts);

 private:
  /// plan::HeldLayers, the first of them as sums over the layers before each, from none to all.
  struct Held {
    bool inputs_alone = false;  // parts keep what enters them; `kept` is what they have while it is computed again
    DataSize input{};           // of the first part, of a sample
    std::vector<plan::Shareable> weights, gradients, states;
    std::vector<DataSize> kept, casts, gathered, gathered_gradients;
    std::vector<double> saved;
    std::vector<DataSize> loss, working, weight_gradient, edge;  // of a layer
    DataSize most_working{};
    DataSize most_gradient{};
    DataSize least_edge{};
  };
  /// What a backward pass of a part holds where it is most.
  struct Most {
    DataSize activations{};  // of the micro-batch in backward
    DataSize loss{};
    DataSize working{};
    DataSize casts{};
    [[nodiscard]] DataSize all() const { return activations + loss + working + casts; }
  };
  struct PartHeld {
    LayerRange layers;
    double saved = 0;  // elements
    DataSize kept{};   // of one micro-batch
    Most gathering{};  // where weights are gathered, and casts with them
    Most casting{};    // where they are not
    DataSize edges{};
    DataSize gathered{};  // of its largest block
  };
  /// What a rank holds, before replicas share anything.
  struct RankHeld {
    plan::Shareable weights{}, gradients{}, states{};
    // Activations, logits, what it works with, edges: where weights are gathered, with those of its largest block;
    // where they are not, with casts.
    DataSize gathering{};
    DataSize casting{};
    DataSize gathered{};  // of its largest block
  };
  using Flying = std::vector<std::int64_t>;  // micro-batches of each part of a rank
  struct FlyingKey {
    StagesKey stages;
    std::int64_t passes = 0;
    std::size_t rank = 0;
    std::vector<double> saved;
    friend bool operator==(const FlyingKey&, const FlyingKey&) = default;
  };
  struct FlyingHash {
    [[nodiscard]] std::size_t operator()(const FlyingKey& key) const;
  };

  const std::optional<Held>& held(std::size_t index);
  [[nodiscard]] std::optional<Held> make_held(const ShapeKey& key);
  [[nodiscard]] PartHeld part_of(const LayerRange& layers, double batch, const Held& sums);
  static std::size_t likely_fullest(const std::vector<LayerRange>& places, const Split& split, const Held& sums);
  static std::size_t with_most_states(const std::vector<LayerRange>& places, const Split& split, const Held& sums);
  /// Makes `asked_` that of a plan.
  void ask(const Split& split, std::size_t index, const Held& sums);
  /// At a rank of it, too.
  void look_at(std::size_t rank);
  /// Of the parts of a rank of it.
  [[nodiscard]] RankHeld rank_of(std::size_t rank, const Held& sums);
  /// Its number.
  std::uint32_t part_at(std::size_t position, const Held& sums);

  const PlanSpace& space_;
  PlanTools& tools_;
  std::map<ShapeKey, std::optional<Held>> held_;     // nothing: refused
  std::vector<const std::optional<Held>*> held_of_;  // by shape; null: not asked for yet
  std::vector<std::size_t> block_starts_;            // layers, and their number
  // What was asked for last: plans of a shape, and those of them that differ in `zero` alone, follow each other.
  using RanksKey = std::tuple<std::size_t, StagesKey, std::int64_t>;  // by passes
  struct Asked {
    RanksKey key;
    plan::Pipeline pipeline;
    double batch = 1;
    const std::vector<LayerRange>* places = nullptr;
    std::size_t numbers = 0;         // of numbers_
    std::vector<std::size_t> ranks;  // none where the lowering refuses the plan
    std::vector<RankHeld> held;      // of the first of them
  };
  std::optional<Asked> asked_;
  struct Numbers {
    const std::vector<LayerRange>* places = nullptr;
    std::vector<std::uint32_t> of_parts;  // by position, from 1 on; 0: not looked at
  };
  std::vector<Numbers> numbers_;  // of the shape
  std::vector<PartHeld> parts_;   // likewise
  std::unordered_map<FlyingKey, Flying, FlyingHash> flying_;
  std::vector<plan::GatheredUnit> units_;  // of the part that is looked at
};

}  // namespace ddlsim::whatif
