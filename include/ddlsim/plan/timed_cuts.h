// Where a model that may be cut anywhere is cut into the parts of a pipeline, when somebody knows what its layers take.
//
//   T        of a part for a micro-batch: its layers' passes, the activations that it sends on and the gradients that
//            it sends back. Stages of 1F1B have no more micro-batches than they need, so that sends beside kernels keep
//            the next stage waiting all the same
//   period   of a rank: the sum of its parts' T; a pipeline that is full is as fast as its slowest rank
//   1F1B     fills and empties in every step: of m micro-batches, stage s of p ends after about
//              m T_s + T_before + max(T_behind - w F_s, 0) + max(T_behind - w B_s, 0),  w = min(p - 1 - s, m - 1)
//            (of T_before, T_behind, F and B layers alone): it begins when those before it have passed a micro-batch
//            on, does w forward passes more until the first one comes back, w backward passes until the last one does,
//            and those before it end after it. The slowest stage costs less where it stands early
// The least of the largest is found by the dynamic programme over (stage, where it ends); among equals parts are more
// even. Where ranks have several parts, that of the parts first, then starts move while that evens out the ranks and no
// part gets a tenth longer than the longest needs to be (it would keep those beside it waiting; both directions of
// DualPipe hide that). Parts end where blocks do (a ResNet's bottlenecks), unless cuts between their layers are over
// 2 % faster. However slow a network is, no part's layers take over 1.25 times as long as the most even parts' do.
//
// Source: none for the equation; PipeDream (Narayanan et al. 2019) has the programme for a period alone.
// Limits: all ranks as fast; what ranks exchange at the step's end is not counted; schedules but 1F1B by their period
// alone; of a rank's several parts a local optimum; interleaved parts wait for those beside them, which is not counted:
// whatif leaves them where the lowering has them (plan/stage_cuts.h).
//
// Worked example: four layers of 3, 1, 1, 3 ms, of which a third is forward, in two stages, 4 micro-batches, sends
// free. 4 | 4: stage 0 ends after 4 x 4 + (4 - 4/3) + (4 - 8/3) = 20 ms, stage 1 after 4 x 4 + 4 = 20 ms. 5 | 3 takes 4
// x 5 + (3 - 5/3) + 0 = 21.3 ms. Three layers of 4: 8 | 4 takes 4 x 8 + (4 - 8/3) + 0 = 33.3 ms, 4 | 8 takes 4 x 8 + 4
// = 36 ms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ddlsim/plan/order.h"
#include "ddlsim/plan/stage_cuts.h"
#include "ddlsim/support/units.h"

namespace ddlsim::plan {

/// What a layer takes for a micro-batch.
struct TimedLayer {
  Time forward{};
  Time backward{};
};

/// What is sent where a stage begins with a layer, and how fast.
struct SentBetween {
  std::vector<DataSize> before;  // each layer, in one direction; empty: nothing
  Bandwidth inside{};            // of a server
  Bandwidth between{};           // servers
  std::int64_t stages_of_server = 1;
};

/// Cuts (as Parallel::cuts) of a model without blocks of attention in as many parts as the pipeline has, at most as
/// many as layers. `within_blocks`: where cuts within blocks may be, the first layer among them; fewer than parts:
/// before any layer.
[[nodiscard]] std::vector<std::size_t> timed_cuts(const CutPoints& points, std::span<const TimedLayer> layers,
                                                  const SentBetween& sent, const Pipeline& pipeline,
                                                  std::span<const std::size_t> within_blocks = {});

/// Whether they depend on the number of micro-batches: of 1F1B.
[[nodiscard]] constexpr bool fills_alone(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::kOneForwardOneBackward;
}

}  // namespace ddlsim::plan
