// Stages of models that may be cut anywhere, by what their layers take. Private to the room.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "ddlsim/plan/job.h"

namespace ddlsim::whatif {

/// CNNs and RNNs without attention are cut by whoever measures their layers first (torchgpipe.balance.balance_by_time,
/// PipeDream's profiler): here by their prices on one GPU by itself, with gradients that add up over passes. What
/// was priced is kept.
class StageTimes {
 public:
  StageTimes();
  ~StageTimes();
  StageTimes(StageTimes&&) noexcept;
  StageTimes& operator=(StageTimes&&) noexcept;

  /// As Parallel::cuts. Empty: stages are where the job states them or the lowering has them (plan/stage_cuts.h). They
  /// depend on the layers, the micro-batch, the GPU and its software, the schedule, its stages and micro-batches, and
  /// what stages send over, alone.
  [[nodiscard]] std::vector<std::size_t> cuts_of(const plan::Job& job);
  /// What `ask` makes of the job: with these cuts, if there are any.
  template <typename Lower>
  [[nodiscard]] auto lowered(const plan::Job& job, Lower lower) {
    std::vector<std::size_t> cuts = cuts_of(job);
    if (cuts.empty()) return lower(job);
    plan::Job cut = job;
    cut.parallel.cuts = std::move(cuts);
    return lower(cut);
  }

 private:
  struct Timed;
  /// What was priced for a job on one GPU, or is now; null where it has no price.
  [[nodiscard]] Timed* timed_on(const plan::Job& one);
  std::deque<Timed> timed_;
};

}  // namespace ddlsim::whatif
