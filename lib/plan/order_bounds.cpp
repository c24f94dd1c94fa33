// What orders take at least.
#include <algorithm>

#include "ddlsim/plan/order.h"

namespace ddlsim::plan {
namespace {

/// Sums up to each position, and of all.
class Sums {
 public:
  explicit Sums(std::span<const PartTime> positions) : before_(positions.size() + 1) {
    for (std::size_t q = 0; q < positions.size(); ++q) {
      before_[q + 1] = {before_[q].forward + positions[q].forward, before_[q].backward + positions[q].backward,
                        before_[q].weights + positions[q].weights};
    }
  }
  /// Of the positions before one.
  [[nodiscard]] const PartTime& before(std::size_t position) const { return before_[position]; }
  [[nodiscard]] const PartTime& all() const { return before_.back(); }

 private:
  std::vector<PartTime> before_;
};

}  // namespace

namespace {

/// A micro-batch goes there and back, from rank 0's begin to its end; whichever part is the slowest, all others of that
/// part are before it, or behind.
Time there_and_back(const Pipeline& pipeline, std::span<const PartTime> positions) {
  Time all;
  Time slowest;
  for (const PartTime& part : positions) {
    const Time input = part.backward - part.weights;
    all += part.forward + input;
    slowest = max(slowest, max(part.forward, input));
  }
  return all + slowest * static_cast<double>(passes_of(pipeline) - 1) + positions.front().weights;
}

}  // namespace

Time least_step(const Pipeline& pipeline, std::span<const PartTime> positions) {
  const Sums sums(positions);
  const auto m = static_cast<double>(pipeline.micro_batches);
  const auto stages = static_cast<std::size_t>(pipeline.stages);
  if (pipeline.schedule == PipelineSchedule::kNone) return (sums.all().forward + sums.all().backward) * m;
  const bool together = ends_together(pipeline.schedule);
  const bool behind =
      pipeline.schedule == PipelineSchedule::kZeroBubbleH1 || pipeline.schedule == PipelineSchedule::kZeroBubbleH2;
  const double per_stage = pipeline.schedule == PipelineSchedule::kZeroBubbleH2 ? 2 : 1;
  Time least = is_asynchronous(pipeline.schedule) ? Time::zero() : there_and_back(pipeline, positions);
  for (std::size_t s = 0; s < stages; ++s) {
    Time work;
    std::size_t nearest = positions.size();  // of the rank's positions, to where its micro-batches come in
    for (std::int64_t part = 0; part < parts_of(pipeline); ++part) {
      const std::size_t q = position_of(pipeline, {s, static_cast<std::size_t>(part)});
      nearest = std::min(nearest, q);
      work += (positions[q].forward + positions[q].backward) * static_cast<double>(passes_of(pipeline));
    }
    const PartTime& before = sums.before(nearest);
    // A rank cannot start before its first micro-batch has come, nor end after it without what is before it.
    if (together) least = max(least, before.forward + work);
    if (!together) least = max(least, work);
    if (is_asynchronous(pipeline.schedule) || pipeline.schedule == PipelineSchedule::kZeroBubbleV) continue;
    if (pipeline.schedule == PipelineSchedule::kDualPipe) {
      // When it does its last pass for an input's gradient as many weights' passes as it has ranks up to the nearer end
      // are left (order.cpp); then that micro-batch goes on to an end, of which it is no nearer.
      const Time weights = max(positions[s].weights, positions[stages - 1 - s].weights);
      const Time left = weights * static_cast<double>(nearest + 1);
      least = max(least, before.forward + work - left + (before.backward - before.weights) + positions.front().weights);
      continue;
    }
    if (!behind) {
      least = max(least, before.forward + work + before.backward);
      continue;
    }
    // Before its last pass for an input's gradient a rank has done all weights' passes but `late`; then the ranks
    // before it follow, and the first of them has a weights' pass left.
    const PartTime& own = positions[s];
    const double late = std::min(m, 1 + per_stage * static_cast<double>(s));
    const Time first_left = positions[0].weights;
    least = max(least, before.forward + work - own.weights * late + (before.backward - before.weights) + first_left);
  }
  return least;
}

}  // namespace ddlsim::plan
