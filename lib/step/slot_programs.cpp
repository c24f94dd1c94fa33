#include "slot_programs.h"

#include <algorithm>
#include <utility>

namespace ddlsim::step {
namespace {

using plan::Moment;
using plan::Row;
using plan::SlotKind;

/// Moments that have a layer come first.
constexpr std::size_t kMomentsOfLayers = 3;
static_assert(static_cast<std::size_t>(Moment::kBegin) < kMomentsOfLayers &&
              static_cast<std::size_t>(Moment::kForward) < kMomentsOfLayers &&
              static_cast<std::size_t>(Moment::kBackward) < kMomentsOfLayers);

}  // namespace

/// Rows of a point stay in the plan's order.
void SlotPrograms::RowsAt::sort(const plan::StepPlan& plan) {
  std::size_t points = 0;
  for (const plan::RankClass& one : plan.classes) {
    layers_.push_back(one.chunk.count);
    points_.push_back(points);
    points += kMomentsOfLayers * one.chunk.count;
  }
  first_.assign(points + 1, 0);
  for (const Listed& one : list_) ++first_[number_of(one.rank_class, one.point) + 1];
  for (std::size_t p = 0; p < points; ++p) first_[p + 1] += first_[p];
  std::vector<std::uint32_t> next(first_.begin(), first_.end() - 1);
  rows_.resize(list_.size());
  for (const Listed& one : list_) rows_[next[number_of(one.rank_class, one.point)]++] = one.row;
}

SlotPrograms::SlotPrograms(const cost::PricedStep& step, const plan::Pipeline& pipeline)
    : step_(step), plan_(*step.plan), parts_(static_cast<std::size_t>(plan::parts_of(pipeline))) {
  const std::size_t classes = plan_.classes.size();
  number_resources();
  keep_rows();
  sum_up_resources();
  place_rows();
  programs_.resize(classes * parts_ * 16);
  const bool apart = plan::splits_backward(pipeline.schedule);
  const bool whole = !apart || pipeline.schedule == plan::PipelineSchedule::kDualPipe;
  for (std::size_t c = 0; c < classes; ++c) {
    for (std::size_t part = 0; part < parts_; ++part) {
      compile_all(c, part, SlotKind::kForward);
      if (whole) compile_all(c, part, SlotKind::kBackward);
      if (!apart) continue;
      compile_all(c, part, SlotKind::kBackwardInput);
      compile_all(c, part, SlotKind::kBackwardWeights);
    }
  }
}

void SlotPrograms::compile_all(std::size_t stage, std::size_t part, SlotKind kind) {
  for (const bool last : {false, true}) {
    compile(stage, part, kind, {false, last});
    if (any_with_first_) {
      compile(stage, part, kind, {true, last});
    } else {
      programs_[index(stage, part, kind, {true, last})] = programs_[index(stage, part, kind, {false, last})];
    }
  }
}

/// Whose ends are asked for, and how often.
void SlotPrograms::keep_rows() {
  followed_.assign(plan_.rows.size(), false);
  kept_.assign(plan_.rows.size(), Kept::kNothing);
  for (const Row& row : plan_.rows) {
    if (row.after != plan::kNoRow) followed_[row.after] = true;
    any_with_first_ = any_with_first_ || (!row.every_pass && row.with_first());
  }
  for (std::size_t r = 0; r < plan_.rows.size(); ++r) {
    const Row& row = plan_.rows[r];
    const bool stops_itself = row.in_the_way && row.rank_class == row.needed_by;
    const bool waited_for = row.needed.at != Moment::kNever && row.lag == 0 && !stops_itself;
    if (!waited_for && !followed_[r]) continue;
    kept_[r] = row.every_pass && row.needed.at != Moment::kUpdate ? Kept::kEach : Kept::kLatest;
  }
}

/// Of a class: a channel per group (up to the axes), both ways to the host, the host. Between two classes: one each
/// way.
void SlotPrograms::number_resources() {
  const std::size_t per_class = plan_.groups.size() + 3;
  resources_ = plan_.classes.size() * per_class;
  always_free_.assign(resources_, true);
  std::vector<std::vector<std::pair<std::size_t, std::size_t>>> ways(plan_.classes.size());
  resource_.reserve(plan_.rows.size());
  for (const Row& row : plan_.rows) {
    std::size_t at = row.rank_class * per_class + row.group;
    if (row.rank_class != row.needed_by) {
      auto& from = ways[row.rank_class];
      auto found = std::find_if(from.begin(), from.end(), [&](const auto& way) { return way.first == row.needed_by; });
      if (found == from.end()) {
        found = from.insert(from.end(), {row.needed_by, resources_++});
        always_free_.push_back(false);
      }
      at = found->second;
    } else if (row.kind == plan::RowKind::kCopy || row.kind == plan::RowKind::kCopyBack ||
               row.kind == plan::RowKind::kHost) {
      const std::size_t which = row.kind == plan::RowKind::kCopy ? 0 : row.kind == plan::RowKind::kCopyBack ? 1 : 2;
      at = row.rank_class * per_class + plan_.groups.size() + which;
    }
    resource_.push_back(at);
    if (!row.in_the_way) always_free_[at] = false;
  }
}

void SlotPrograms::sum_up_resources() {
  carried_.resize(resources_);
  for (std::size_t r = 0; r < plan_.rows.size(); ++r) {
    if (plan_.rows[r].every_pass) carried_[resource_[r]] += sending(r);
  }
}

void SlotPrograms::place_rows() {
  before_update_.resize(plan_.classes.size());
  after_update_.resize(plan_.classes.size());
  for (std::size_t r = 0; r < plan_.rows.size(); ++r) {
    const Row& row = plan_.rows[r];
    const auto number = static_cast<std::uint32_t>(r);
    if (row.ready.at == Moment::kUpdate) {
      after_update_[row.rank_class].push_back(number);
    } else if (row.ready.at != Moment::kNever) {
      ready_.add(row.rank_class, row.ready, number);
    }
    // What stops the class itself is done when it goes on.
    if (row.lag != 0 || (row.in_the_way && row.rank_class == row.needed_by)) continue;
    if (row.needed.at == Moment::kUpdate) {
      before_update_[row.needed_by].push_back(number);
    } else if (row.needed.at != Moment::kNever) {
      needed_.add(row.needed_by, row.needed, number);
    }
  }
  ready_.sort(plan_);
  needed_.sort(plan_);
}

/// A segment that waits for nothing yet.
void SlotPrograms::open(Segment& segment) const {
  segment = {};
  segment.waits = segment.starts = segment.end = static_cast<std::uint32_t>(rows_.size());
}

/// Keeps it if it does anything, and opens the next.
void SlotPrograms::close(Segment& segment) {
  segment.end = static_cast<std::uint32_t>(rows_.size());
  if (segment.end > segment.waits || segment.run.issue > Time::zero() || segment.run.work > Time::zero()) {
    segments_.push_back(segment);
  }
  open(segment);
}

void SlotPrograms::start(Segment& segment, std::uint32_t r) {
  const Row& row = plan_.rows[r];
  const cost::PricedRow& priced = step_.rows[r];
  const bool alone = row.in_the_way && row.rank_class == row.needed_by && always_free_[resource_[r]] &&
                     row.after == plan::kNoRow && !followed_[r];
  if (!alone) {
    rows_.push_back(r);
    return;
  }
  // After others have started: it waits for none of them, but stands behind.
  if (rows_.size() > segment.starts) close(segment);
  const Time time = time_of(r);
  segment.run.delay(priced.encoding + time);
  segment.run.encoding += priced.encoding;
  segment.run.in_the_way += time;
  if (row.op == primitives::CollectiveOp::kAllToAll) segment.run.exchanged += time;
}

SlotPrograms::Least SlotPrograms::least_of(std::span<const Segment> segments) const {
  Least least;
  for (const Segment& segment : segments) {
    least.work += segment.run.work - segment.run.exchanged;
    for (const std::uint32_t r : starts(segment)) {
      const Row& row = plan_.rows[r];
      if (row.in_the_way && row.op != primitives::CollectiveOp::kAllToAll) least.work += sending(r);
      const bool summed = !row.in_the_way && row.needed.at == Moment::kUpdate && row.lag == 0;
      if (summed && resource_[r] == channel(row.rank_class)) least.sent += time_of(r);
    }
  }
  return least;
}

void SlotPrograms::compile(std::size_t stage, std::size_t part, SlotKind kind, Turn turn) {
  const plan::RankClass& one = plan_.classes[stage];
  const cost::PricedClass& priced = step_.classes[stage];
  const std::size_t first = one.parts.empty() ? 0 : one.parts[part].first;
  const std::size_t count = one.parts.empty() ? priced.forward.size() : one.parts[part].count;
  const bool forward = kind == SlotKind::kForward;
  const cost::PricedLayers& layers = forward                            ? priced.forward
                                     : kind == SlotKind::kBackward      ? priced.backward
                                     : kind == SlotKind::kBackwardInput ? priced.backward_input
                                                                        : priced.backward_weights;
  const std::size_t begun = segments_.size();
  Segment segment;
  open(segment);
  const auto start_all = [&](plan::Point point) {
    for (const std::uint32_t r : ready_.at(stage, point)) {
      const Row& row = plan_.rows[r];
      if (!row.every_pass && !(row.with_first() ? turn.first : turn.last)) continue;
      if (!forward && !plan::starts_in(row, kind)) continue;
      start(segment, r);
    }
  };
  if (forward) start_all({Moment::kBegin, first});
  const bool waits = kind != SlotKind::kBackwardWeights && !needed_.empty();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t layer = forward ? first + i : first + count - 1 - i;
    const plan::Point point{forward ? Moment::kForward : Moment::kBackward, layer};
    if (waits) {
      const auto needed = needed_.at(stage, point);
      if (!needed.empty()) {
        close(segment);
        rows_.insert(rows_.end(), needed.begin(), needed.end());
        segment.starts = static_cast<std::uint32_t>(rows_.size());
      }
    }
    if (rows_.size() > segment.starts) close(segment);
    segment.run.add(layers[forward ? layer : layers.size() - 1 - layer], step_.launch_interval);
    start_all(point);
  }
  close(segment);
  Range made{begun, segments_.size() - begun, {}};
  made.least = least_of({segments_.data() + begun, made.count});
  programs_[index(stage, part, kind, turn)] = made;
}

}  // namespace ddlsim::step
