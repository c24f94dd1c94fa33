// A plan of a family that is likely to be its best: what a search with a limit of time has to show early. Private to
// the room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "ddlsim/support/units.h"
#include "ddlsim/whatif/plan_search.h"
#include "search/plan_bound.h"
#include "search/plan_memory.h"
#include "search/plan_space.h"
#include "search/plan_tools.h"

namespace ddlsim::whatif {

/// What is worked out once for many plans. To forget it costs time, and changes no answer.
struct SharedWork {
  PlanTools tools;
  PlanBounds bounds;
  PlanMemory memories;

  explicit SharedWork(const PlanSpace& space) : tools(space.base()), bounds(space, tools), memories(space, tools) {}
};

/// Those with the least keys.
class PromisingFamilies {
 public:
  void keep(std::uint32_t family, double key);
  [[nodiscard]] bool empty() const { return least_.empty(); }
  [[nodiscard]] double least() const { return least_.front().first; }
  [[nodiscard]] std::size_t size() const { return least_.size(); }
  /// The first of them, which is then no longer among them.
  std::uint32_t take();

 private:
  std::vector<std::pair<double, std::uint32_t>> least_;  // sorted
};

struct LikelyBest {
  std::uint32_t member = 0;
  Split split;
  Time step{};
  DataSize memory{};
};

struct LikelyTools {
  SharedWork& shared;
  /// What is least, of a plan with these bounds; nothing where it fits no GPU.
  std::function<std::optional<double>(const Split&, Time, DataSize)> key;
  const Clock& clock;
  Time deadline;
};

/// Of the plans of a family that fit, the one with the least bound, with its step. Nothing where none of the first few
/// is legal and fits, or time ran out.
[[nodiscard]] std::optional<LikelyBest> likely_best(const PlanSpace& space, std::uint32_t family,
                                                    const LikelyTools& by);

}  // namespace ddlsim::whatif
