#include "ddlsim/plan/order.h"

#include <algorithm>
#include <deque>
#include <string>

namespace ddlsim::plan {
namespace {

/// Writes a rank's slots down.
class Writer {
 public:
  Writer(const Pipeline& pipeline, std::size_t stage) : stage_(static_cast<std::uint32_t>(stage)) {
    const std::int64_t passes = splits_backward(pipeline.schedule) ? 3 : 2;
    slots_.reserve(static_cast<std::size_t>(passes * parts_of(pipeline) * passes_of(pipeline)));
  }
  void add(SlotKind kind, std::size_t part, std::int64_t micro_batch) {
    slots_.push_back({stage_, static_cast<std::uint16_t>(part), kind, false, micro_batch});
  }
  void pair_with_next() { slots_.back().paired = true; }
  [[nodiscard]] std::vector<Slot> take() { return std::move(slots_); }

 private:
  std::uint32_t stage_;
  std::vector<Slot> slots_;
};

/// Counts what a rank keeps for backward, up to where it keeps the most.
class KeptMost {
 public:
  explicit KeptMost(std::span<const double> kept) : kept_(kept), now_(kept.size()), most_(kept.size()) {}

  void add(SlotKind kind, std::size_t part, std::int64_t) {
    if (kind == SlotKind::kBackwardInput) return;
    const bool forward = kind == SlotKind::kForward;
    held_ += forward ? kept_[part] : -kept_[part];
    const bool more = held_ > peak_ * (1 + 1e-12);
    if (at_peak_ && !more) most_ = now_;
    if (more) peak_ = held_;
    at_peak_ = more;
    now_[part] += forward ? 1 : -1;
  }
  void pair_with_next() {}
  [[nodiscard]] const std::vector<std::int64_t>& most() const { return at_peak_ ? now_ : most_; }

 private:
  std::span<const double> kept_;
  std::vector<std::int64_t> now_, most_;
  double held_ = 0;
  double peak_ = -1;
  bool at_peak_ = false;
};

/// `ahead` forward passes, then a forward and a backward one in turn.
template <typename Out>
void forward_first(const Pipeline& pipeline, std::int64_t ahead, Out& out) {
  const std::int64_t all = pipeline.micro_batches;
  std::int64_t forward = 0;
  for (; forward < std::min(all, ahead); ++forward) out.add(SlotKind::kForward, 0, forward);
  for (std::int64_t backward = 0; backward < all; ++backward) {
    if (forward < all) out.add(SlotKind::kForward, 0, forward++);
    out.add(SlotKind::kBackward, 0, backward);
  }
}

/// How many forward passes come before the first backward one, and how many micro-batches the weights' passes come
/// after the input's.
struct Lead {
  std::int64_t ahead = 1;
  std::int64_t behind = 0;
};

/// ZB-H1 and H2: forward passes ahead, then backward and forward in turn, the weights' passes behind.
template <typename Out>
void weights_behind(const Pipeline& pipeline, const Lead& lead, Out& out) {
  const auto [ahead, behind] = lead;
  const std::int64_t all = pipeline.micro_batches;
  std::int64_t forward = 0;
  std::int64_t weights = 0;
  for (; forward < std::min(all, ahead); ++forward) out.add(SlotKind::kForward, 0, forward);
  for (std::int64_t backward = 0; backward < all; ++backward) {
    out.add(SlotKind::kBackwardInput, 0, backward);
    if (backward >= behind) out.add(SlotKind::kBackwardWeights, 0, weights++);
    if (forward < all) out.add(SlotKind::kForward, 0, forward++);
  }
  while (weights < all) out.add(SlotKind::kBackwardWeights, 0, weights++);
}

/// Megatron-LM's: micro-batches in groups of p, each group through all parts.
template <typename Out>
void interleaved(const Pipeline& pipeline, std::size_t stage, Out& out) {
  const std::int64_t ranks = pipeline.stages;
  const std::int64_t parts = pipeline.virtual_stages;
  const std::int64_t all = pipeline.micro_batches * parts;
  const auto behind = ranks - static_cast<std::int64_t>(stage) - 1;
  const std::int64_t ahead = std::min(all, 2 * behind + (parts - 1) * ranks);
  const auto add = [&](std::int64_t turn, SlotKind kind) {
    const std::int64_t part = turn % (ranks * parts) / ranks;
    const std::int64_t micro_batch = turn / (ranks * parts) * ranks + turn % ranks;
    out.add(kind, static_cast<std::size_t>(kind == SlotKind::kForward ? part : parts - 1 - part), micro_batch);
  };
  for (std::int64_t i = 0; i < ahead; ++i) add(i, SlotKind::kForward);
  for (std::int64_t i = 0; i < all; ++i) {
    if (ahead + i < all) add(ahead + i, SlotKind::kForward);
    add(i, SlotKind::kBackward);
  }
}

/// The V: part 0 on the way there, part 1 on the way back. Written for 2p - 1 micro-batches at least; what is more than
/// there are is left out.
template <typename Out>
class VShape {
 public:
  VShape(const Pipeline& pipeline, std::size_t stage, Out& out)
      : all_(pipeline.micro_batches),
        stage_(static_cast<std::int64_t>(stage)),
        ranks_(pipeline.stages),
        planned_(std::max(2 * ranks_ - 1, all_)),
        out_(out) {}

  void write() {
    repeat(2 * (ranks_ - stage_) - 1, [&] { forward(0); });
    repeat(stage_, [&] {
      forward(1);
      forward(0);
    });
    repeat(ranks_ - stage_, [&] {
      forward(1);
      backward(1);
    });
    while (forward_[1] < forward_[0] || forward_[0] < planned_) {
      if (forward_[0] < planned_) forward(0);
      backward(0);
      forward(1);
      backward(1);
    }
    repeat(stage_, [&] {
      input(0);
      input(1);
    });
    repeat(ranks_ - stage_, [&] {
      input(0);
      weights(0);
    });
    for (const std::size_t part : {std::size_t{1}, std::size_t{0}}) {
      while (weights_[part] < input_[part]) weights(part);
    }
  }

 private:
  template <typename Body>
  static void repeat(std::int64_t times, Body body) {
    for (std::int64_t i = 0; i < times; ++i) body();
  }
  void add(SlotKind kind, std::size_t part, std::int64_t micro_batch) {
    if (micro_batch < all_) out_.add(kind, part, micro_batch);
  }
  void forward(std::size_t part) { add(SlotKind::kForward, part, forward_[part]++); }
  void input(std::size_t part) { add(SlotKind::kBackwardInput, part, input_[part]++); }
  void weights(std::size_t part) { add(SlotKind::kBackwardWeights, part, weights_[part]++); }
  void backward(std::size_t part) {
    input(part);
    weights(part);
  }

  std::int64_t all_;
  std::int64_t stage_;
  std::int64_t ranks_;
  std::int64_t planned_;
  Out& out_;
  std::int64_t forward_[2]{};
  std::int64_t input_[2]{};
  std::int64_t weights_[2]{};
};

/// DualPipe's eight sections. Phase 0 is the direction in which a rank has more ranks before it; parts are directions.
template <typename Out>
class BothWays {
 public:
  BothWays(const Pipeline& pipeline, std::size_t stage, Out& out)
      : half_(pipeline.stages / 2),
        each_(pipeline.micro_batches / 2),
        second_(static_cast<std::int64_t>(stage) >= half_),
        near_(std::min(static_cast<std::int64_t>(stage), pipeline.stages - 1 - static_cast<std::int64_t>(stage))),
        out_(out) {}

  void write() {
    const std::int64_t inside = half_ - near_ - 1;  // ranks between it and the middle
    for (std::int64_t i = 0; i < 2 * inside; ++i) forward(0);
    for (std::int64_t i = 0; i <= near_; ++i) {
      forward(0);
      forward(1);
    }
    for (std::int64_t i = 0; i < inside; ++i) {
      backward(1, true);
      weights();
      forward(1);
    }
    for (std::int64_t i = 0; i < each_ - 2 * half_ + near_ + 1; ++i) {
      forward(0);
      if (i > 0 || inside > 0) out_.pair_with_next();  // the ranks in the middle run the first two apart
      backward(1, false);
      pair(1, 0);
    }
    for (std::int64_t i = 0; i < inside; ++i) {
      backward(1, false);
      pair(1, 0);
    }
    bool apart = false;
    for (std::int64_t i = 0; i <= near_; ++i) {
      const bool turn = i == (near_ + 1) / 2;
      if (turn && near_ % 2 == 1) apart = true;
      backward(1, apart);
      if (turn && near_ % 2 == 0) apart = true;
      backward(0, apart);
    }
    for (std::int64_t i = 0; i < inside; ++i) {
      weights();
      backward(0, true);
    }
    while (!waiting_.empty()) weights();
  }

 private:
  void forward(int phase) {
    const std::size_t part = part_of(phase);
    out_.add(SlotKind::kForward, part, static_cast<std::int64_t>(part) * each_ + forward_[part]++);
  }
  void backward(int phase, bool apart) {
    const std::size_t part = part_of(phase);
    const std::int64_t micro_batch = static_cast<std::int64_t>(part) * each_ + backward_[part]++;
    out_.add(apart ? SlotKind::kBackwardInput : SlotKind::kBackward, part, micro_batch);
    if (apart) waiting_.push_back({part, micro_batch});
  }
  void pair(int first, int second) {
    forward(first);
    out_.pair_with_next();
    backward(second, false);
  }
  void weights() {
    out_.add(SlotKind::kBackwardWeights, waiting_.front().first, waiting_.front().second);
    waiting_.pop_front();
  }
  [[nodiscard]] std::size_t part_of(int phase) const { return static_cast<std::size_t>(phase) ^ (second_ ? 1U : 0U); }

  std::int64_t half_;
  std::int64_t each_;
  bool second_;
  std::int64_t near_;  // ranks to the nearer end
  Out& out_;
  std::int64_t forward_[2]{};
  std::int64_t backward_[2]{};
  std::deque<std::pair<std::size_t, std::int64_t>> waiting_;  // for their weights' pass
};

}  // namespace

Pipeline pipeline_of(const StepPlan& plan) {
  const auto stages = static_cast<std::int64_t>(plan.classes.size());
  Pipeline pipeline{.stages = stages, .micro_batches = plan.micro_batches};
  if (stages == 1 || plan.folds) return {.micro_batches = plan.micro_batches};
  pipeline.schedule = plan.schedule;
  pipeline.virtual_stages = plan.virtual_stages;
  return pipeline;
}

std::int64_t parts_of(const Pipeline& pipeline) {
  switch (pipeline.schedule) {
    case PipelineSchedule::kInterleaved: return pipeline.virtual_stages;
    case PipelineSchedule::kZeroBubbleV:
    case PipelineSchedule::kDualPipe: return 2;
    case PipelineSchedule::kNone:
    case PipelineSchedule::kGpipe:
    case PipelineSchedule::kOneForwardOneBackward:
    case PipelineSchedule::kZeroBubbleH1:
    case PipelineSchedule::kZeroBubbleH2:
    case PipelineSchedule::kPipeDream:
    case PipelineSchedule::kPipeDream2Bw: break;
  }
  return 1;
}

std::size_t positions_of(const Pipeline& pipeline) {
  return static_cast<std::size_t>(pipeline.stages * parts_of(pipeline) / directions_of(pipeline.schedule));
}

std::size_t position_of(const Pipeline& pipeline, Place place) {
  const auto stages = static_cast<std::size_t>(pipeline.stages);
  if (place.part == 0) return place.stage;
  if (pipeline.schedule == PipelineSchedule::kZeroBubbleV) return 2 * stages - 1 - place.stage;
  if (pipeline.schedule == PipelineSchedule::kDualPipe) return stages - 1 - place.stage;
  return place.part * stages + place.stage;
}

Place place_of(const Pipeline& pipeline, std::size_t position, std::int64_t direction) {
  const auto stages = static_cast<std::size_t>(pipeline.stages);
  if (direction == 1) return {stages - 1 - position, 1};
  if (position < stages) return {position, 0};
  if (pipeline.schedule == PipelineSchedule::kZeroBubbleV) return {2 * stages - 1 - position, 1};
  return {position % stages, position / stages};
}

std::int64_t passes_of(const Pipeline& pipeline) { return pipeline.micro_batches / directions_of(pipeline.schedule); }

std::int64_t first_micro_batch(const Pipeline& pipeline, std::size_t part) {
  return pipeline.schedule == PipelineSchedule::kDualPipe && part == 1 ? passes_of(pipeline) : 0;
}

std::int64_t last_micro_batch(const Pipeline& pipeline, std::size_t part) {
  return first_micro_batch(pipeline, part) + passes_of(pipeline) - 1;
}

std::size_t last_part(const Pipeline& pipeline, std::size_t stage) {
  const bool dual = pipeline.schedule == PipelineSchedule::kDualPipe;
  return dual && 2 * stage >= static_cast<std::size_t>(pipeline.stages) ? 1 : 0;
}

bool splits_backward(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::kZeroBubbleH1 || schedule == PipelineSchedule::kZeroBubbleH2 ||
         schedule == PipelineSchedule::kZeroBubbleV || schedule == PipelineSchedule::kDualPipe;
}

bool ends_together(PipelineSchedule schedule) {
  return schedule != PipelineSchedule::kZeroBubbleH2 && schedule != PipelineSchedule::kZeroBubbleV &&
         !is_asynchronous(schedule);
}

bool is_asynchronous(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::kPipeDream || schedule == PipelineSchedule::kPipeDream2Bw;
}

Expected<void> check(const Pipeline& pipeline) {
  const auto bad = [&](const std::string& what, std::string note) {
    return fail(ErrorCode::kInvalidArgument,
                "schedule " + std::string(name_of(kPipelineSchedules, pipeline.schedule)) + " " + what, {},
                {std::move(note)});
  };
  const std::int64_t p = pipeline.stages;
  const std::int64_t m = pipeline.micro_batches;
  const auto given = [&] { return " does not have " + std::to_string(m) + " micro-batches"; };
  switch (pipeline.schedule) {
    case PipelineSchedule::kInterleaved:
      if (pipeline.virtual_stages < 2) {
        return bad("takes several parts per rank", "state parallel.virtual_stages of 2 and more, or use schedule 1f1b");
      }
      if (m % p != 0) {
        return bad("of " + std::to_string(p) + " stages" + given(), "valid: multiples of " + std::to_string(p));
      }
      return {};
    case PipelineSchedule::kZeroBubbleV:
    case PipelineSchedule::kDualPipe:
      if (pipeline.virtual_stages > 2) return bad("has two parts per rank", "leave parallel.virtual_stages out");
      if (pipeline.schedule == PipelineSchedule::kZeroBubbleV) return {};
      if (p % 2 != 0) return bad("of " + std::to_string(p) + " stages", "valid: even numbers");
      if (m % 2 != 0 || m < 2 * p) {
        return bad("of " + std::to_string(p) + " stages" + given(),
                   "valid: even numbers from " + std::to_string(2 * p) + " on");
      }
      return {};
    case PipelineSchedule::kPipeDream2Bw:
      if (m < p) {
        return bad("of " + std::to_string(p) + " stages" + given(),
                   "two versions of the weights are enough from " + std::to_string(p) + " micro-batches on");
      }
      break;
    case PipelineSchedule::kNone:
    case PipelineSchedule::kGpipe:
    case PipelineSchedule::kOneForwardOneBackward:
    case PipelineSchedule::kZeroBubbleH1:
    case PipelineSchedule::kZeroBubbleH2:
    case PipelineSchedule::kPipeDream: break;
  }
  if (pipeline.virtual_stages > 1) return bad("has one part per rank", "use schedule interleaved");
  return {};
}

namespace {

template <typename Out>
void write_order(const Pipeline& pipeline, std::size_t stage, Out& out) {
  const auto s = static_cast<std::int64_t>(stage);
  const std::int64_t left = pipeline.stages - s;  // itself and those behind it
  switch (pipeline.schedule) {
    case PipelineSchedule::kNone: return forward_first(pipeline, 0, out);
    case PipelineSchedule::kGpipe: return forward_first(pipeline, pipeline.micro_batches, out);
    case PipelineSchedule::kOneForwardOneBackward:
    case PipelineSchedule::kPipeDream:
    case PipelineSchedule::kPipeDream2Bw: return forward_first(pipeline, left - 1, out);
    case PipelineSchedule::kInterleaved: return interleaved(pipeline, stage, out);
    case PipelineSchedule::kZeroBubbleH1: return weights_behind(pipeline, {.ahead = left, .behind = s}, out);
    case PipelineSchedule::kZeroBubbleH2:
      return weights_behind(pipeline, {.ahead = 2 * left - 1, .behind = 2 * s}, out);
    case PipelineSchedule::kZeroBubbleV: return VShape(pipeline, stage, out).write();
    case PipelineSchedule::kDualPipe: return BothWays(pipeline, stage, out).write();
  }
}

/// Enough micro-batches for any order to keep as many as it ever does.
Pipeline shortened(Pipeline pipeline) {
  pipeline.micro_batches = std::min(pipeline.micro_batches, 4 * pipeline.stages);
  return pipeline;
}

}  // namespace

std::vector<Slot> stage_order(const Pipeline& pipeline, std::size_t stage) {
  Writer out(pipeline, stage);
  write_order(pipeline, stage, out);
  return out.take();
}

std::vector<std::int64_t> in_flight(const Pipeline& pipeline, std::size_t stage, std::span<const double> kept) {
  const std::int64_t m = pipeline.micro_batches;
  const std::int64_t left = pipeline.stages - static_cast<std::int64_t>(stage);
  switch (pipeline.schedule) {
    case PipelineSchedule::kNone: return {1};
    case PipelineSchedule::kGpipe: return {m};
    case PipelineSchedule::kOneForwardOneBackward:
    case PipelineSchedule::kPipeDream:
    case PipelineSchedule::kPipeDream2Bw: return {std::min(m, left)};
    case PipelineSchedule::kZeroBubbleH1: return {std::min(m, pipeline.stages)};
    case PipelineSchedule::kZeroBubbleH2: return {std::min(m, 2 * pipeline.stages - 1)};
    case PipelineSchedule::kInterleaved:
    case PipelineSchedule::kZeroBubbleV:
    case PipelineSchedule::kDualPipe: break;
  }
  KeptMost keeper(kept);
  write_order(shortened(pipeline), stage, keeper);
  return keeper.most();
}

std::int64_t weight_versions(const Pipeline& pipeline, std::size_t stage) {
  if (pipeline.schedule == PipelineSchedule::kPipeDream2Bw) return 2;
  if (pipeline.schedule != PipelineSchedule::kPipeDream) return 1;
  return std::min(pipeline.micro_batches, pipeline.stages - static_cast<std::int64_t>(stage));
}

}  // namespace ddlsim::plan
