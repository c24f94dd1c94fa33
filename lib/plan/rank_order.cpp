// A rank's order whose middle is written once.
#include <utility>

#include "ddlsim/plan/order.h"

namespace ddlsim::plan {
namespace {

Middle middle_of(const Pipeline& pipeline, std::span<const Slot> order) {
  const auto [slots, later] = period_of(pipeline);
  if (slots == 0) return {};
  std::vector<std::pair<std::int64_t, std::int64_t>> passes;  // by part, the first and the last
  for (std::size_t part = 0; part < static_cast<std::size_t>(parts_of(pipeline)); ++part) {
    passes.emplace_back(first_micro_batch(pipeline, part), last_micro_batch(pipeline, part));
  }
  const auto between = [&](const Slot& slot) {
    const auto& [first, last] = passes[slot.part];
    return slot.micro_batch != first && slot.micro_batch != last;
  };
  Middle longest;
  std::size_t first = 0;  // of slots that are all between
  std::size_t like = 0;   // likewise, and from a period behind it on like those before them
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (!between(order[i])) {
      first = like = i + 1;
    } else if (i >= first + slots) {
      Slot before = order[i - slots];
      before.micro_batch += later;
      if (before != order[i]) like = i + 1 - slots;
    }
    if (i + 1 - like > longest.end - longest.first) longest = {like, i + 1};
  }
  return longest;
}

/// As few micro-batches as have all of what an order does before and after its middle, and periods in it.
Pipeline fewest_of(Pipeline pipeline) {
  const Period period = period_of(pipeline);
  if (period.slots == 0) return pipeline;
  const std::int64_t each = period.micro_batches * directions_of(pipeline.schedule);
  const std::int64_t spare = pipeline.micro_batches - 6 * pipeline.stages;
  if (spare > 0) pipeline.micro_batches -= spare / each * each;
  return pipeline;
}

}  // namespace

Period period_of(const Pipeline& pipeline) {
  switch (pipeline.schedule) {
    case PipelineSchedule::kOneForwardOneBackward: return {2, 1};
    case PipelineSchedule::kInterleaved:
      return {static_cast<std::size_t>(2 * pipeline.stages * pipeline.virtual_stages), pipeline.stages};
    case PipelineSchedule::kZeroBubbleH1:
    case PipelineSchedule::kZeroBubbleH2: return {3, 1};
    case PipelineSchedule::kZeroBubbleV: return {6, 1};
    case PipelineSchedule::kDualPipe: return {4, 1};
    case PipelineSchedule::kNone:
    case PipelineSchedule::kGpipe:
    case PipelineSchedule::kPipeDream:
    case PipelineSchedule::kPipeDream2Bw: break;
  }
  return {};
}

RankOrder::RankOrder(const Pipeline& pipeline, std::vector<Slot> slots)
    : slots_(std::move(slots)), period_(period_of(pipeline)), middle_(middle_of(pipeline, slots_)) {}

RankOrder::RankOrder(const Pipeline& pipeline, std::size_t stage) : period_(period_of(pipeline)) {
  const Pipeline fewer = fewest_of(pipeline);
  slots_ = stage_order(fewer, stage);
  middle_ = middle_of(fewer, slots_);
  if (fewer.micro_batches == pipeline.micro_batches) return;
  later_ = passes_of(pipeline) - passes_of(fewer);
  second_begins_ = first_micro_batch(pipeline, 1) - first_micro_batch(fewer, 1);
  left_out_ = static_cast<std::size_t>(later_ / period_.micro_batches) * period_.slots;
  middle_.end += left_out_;
}

Slot RankOrder::operator[](std::size_t i) const {
  const std::size_t written = middle_.end - left_out_;  // up to the end of the middle
  std::int64_t later = 0;
  if (i >= middle_.end) {
    i -= left_out_;
    later = later_;
  } else if (i >= written) {
    const std::size_t periods = (i - written) / period_.slots + 1;
    i -= periods * period_.slots;
    later = static_cast<std::int64_t>(periods) * period_.micro_batches;
  }
  Slot slot = slots_[i];
  slot.micro_batch += later + (slot.part == 1 ? second_begins_ : 0);
  return slot;
}

}  // namespace ddlsim::plan
