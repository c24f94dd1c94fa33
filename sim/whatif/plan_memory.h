// Lower bounds of what a plan holds on its fullest GPU. Private to the room.
//
// Of rank s with parts r, n(r) micro-batches of each in flight when it keeps the most:
//   M(s) = sum over r of  states(r) + (n(r) - 1) kept(r) + a(r) + loss(r),  + max over r of work(r)
//   a(r), loss(r), work(r)  kept, logits and what a layer works with, where they are most together during one backward
// which is the ledger of plan/lower.h without buffers, fp32 gradients of the update, and allocator slack.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "ddlsim/plan/lowerer.h"
#include "ddlsim/support/units.h"
#include "plan_space.h"
#include "plan_tools.h"

namespace ddlsim::whatif {

class PlanMemory {
 public:
  PlanMemory(const PlanSpace& space, PlanTools& tools);

  // `index` is that of the shape. Infinite where the lowering refuses it.
  /// Of the plan's fullest GPU.
  [[nodiscard]] DataSize of(const Split& split, std::size_t index);
  /// Of all plans with that shape, so many stages, and so many parts per rank at most.
  [[nodiscard]] DataSize least(const Split& split, std::size_t index, std::int64_t parts);

 private:
  /// plan::HeldLayers, the first of them as sums over the layers before each, from none to all.
  struct Held {
    std::vector<DataSize> weights, gradients, states, kept;
    std::vector<double> saved;
    std::vector<DataSize> loss, working, weight_gradient;  // of a layer
    DataSize most_working{};
    DataSize most_gradient{};
  };
  /// A part's layers, and what a backward pass of it holds where it is most.
  struct PartHeld {
    LayerRange layers;
    double saved = 0;        // elements
    DataSize kept{};         // of one micro-batch
    DataSize activations{};  // of the micro-batch in backward
    DataSize loss{};
    DataSize working{};
  };
  static DataSize states_of(const Held& sums, const Split& split, const LayerRange& layers);
  using Flying = std::vector<std::int64_t>;  // micro-batches of each part of a rank

  const std::optional<Held>& held(std::size_t index);
  [[nodiscard]] std::optional<Held> make_held(const ShapeKey& key);
  const std::vector<PartHeld>& parts_of(const Split& split, const Held& sums);
  /// By rank.
  const std::vector<Flying>& in_flight(const Split& split, const Held& sums, const std::vector<PartHeld>& parts);

  const PlanSpace& space_;
  PlanTools& tools_;
  std::map<ShapeKey, std::optional<Held>> held_;     // nothing: refused
  std::vector<const std::optional<Held>*> held_of_;  // by shape; null: not asked for yet
  std::map<std::tuple<const Held*, std::int64_t, StagesKey>, std::vector<PartHeld>> parts_;            // by batch
  std::map<std::tuple<const Held*, StagesKey, std::int64_t>, std::vector<Flying>> flying_;             // by passes
  std::map<std::tuple<StagesKey, std::int64_t, std::size_t, std::vector<double>>, Flying> flying_of_;  // by passes
};

}  // namespace ddlsim::whatif
