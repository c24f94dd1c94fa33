#include "slot_state.h"

#include <array>

#include "ddlsim/step/rounds.h"

namespace ddlsim::step {

using Kept = SlotPrograms::Kept;

namespace {

constexpr std::array kTimes{&RankClocks::issued, &RankClocks::done,     &RankClocks::forward, &RankClocks::backward,
                            &RankClocks::launch, &RankClocks::encoding, &RankClocks::exposed, &RankClocks::waited,
                            &RankClocks::alone,  &RankClocks::bubble,   &RankClocks::on_host};

/// Micro-batches that may be between a part's forward and backward pass, or a sender's and its reader's.
std::int64_t on_their_way(const plan::Pipeline& pipeline) { return 2 * pipeline.stages; }

}  // namespace

SlotState::SlotState(const cost::PricedStep& step, const plan::Pipeline& pipeline, const SlotPrograms& programs)
    : plan_(*step.plan),
      pipeline_(pipeline),
      programs_(programs),
      clocks_(plan_.classes.size()),
      free_(programs.resources()),
      kept_(plan_.rows.size()),
      latest_(plan_.rows.size(), -1),
      ports_(step) {
  std::size_t all = 0;
  for (std::size_t r = 0; r < plan_.rows.size(); ++r) {
    kept_[r] = all;
    if (programs.kept(r) == Kept::kLatest) all += 1;
    if (programs.kept(r) == Kept::kEach) all += static_cast<std::size_t>(plan_.micro_batches);
  }
  done_.resize(all);
}

/// What was before all that may still leave.
void SlotState::forget_ports() {
  Time first = Time::infinity();
  for (const RankClocks& one : clocks_) first = min(first, one.done);
  ports_.forget(first);
}

SlotState::Mark SlotState::mark() {
  forget_ports();
  Mark now{clocks_, free_, std::vector<Time>(plan_.rows.size()), ports_.busy()};
  for (std::size_t r = 0; r < plan_.rows.size(); ++r) {
    if (programs_.kept(r) == Kept::kLatest) now.done[r] = done_[kept_[r]];
  }
  return now;
}

bool SlotState::cpu_repeats(const RankClocks& was, const RankClocks& now, Time round) const {
  const Time issued = now.issued - was.issued;
  if (alike(issued, round)) return true;
  // What a pair of passes hides is limited by how far the CPU is ahead.
  const bool far = pipeline_.schedule != plan::PipelineSchedule::kDualPipe || was.done - was.issued > round;
  return issued < round && alike(now.launch - was.launch + round, round) && far;
}

bool SlotState::channel_repeats(std::size_t resource, Time was, std::int64_t micro_batches, Time round) const {
  const Time took = free_[resource] - was;
  if (alike(took, round)) return true;
  return took < round || alike(took, programs_.carried(resource) * static_cast<double>(micro_batches));
}

bool SlotState::row_repeats(std::size_t r, std::int64_t micro_batches, Time round) const {
  const std::int64_t last = latest_[r];
  const std::int64_t first = last - on_their_way(pipeline_) + 1;
  if (first - micro_batches < 0) return false;
  for (std::int64_t b = first; b <= last; ++b) {
    if (!alike(done(r, b) - done(r, b - micro_batches), round)) return false;
  }
  return true;
}

bool SlotState::repeats(const Mark& was, std::int64_t micro_batches) {
  const Time round = clocks_[0].done - was.clocks[0].done;
  if (!(round > Time::zero())) return false;
  for (std::size_t c = 0; c < clocks_.size(); ++c) {
    if (!alike(clocks_[c].done - was.clocks[c].done, round)) return false;
    if (!cpu_repeats(was.clocks[c], clocks_[c], round)) return false;
  }
  for (std::size_t i = 0; i < free_.size(); ++i) {
    if (!channel_repeats(i, was.free[i], micro_batches, round)) return false;
  }
  for (std::size_t r = 0; r < plan_.rows.size(); ++r) {
    if (programs_.kept(r) == Kept::kEach && !row_repeats(r, micro_batches, round)) return false;
  }
  forget_ports();
  return ports_.repeats(was.ports, round);
}

void SlotState::go_on(const Mark& was, const plan::JoinedOrder::Again& again) {
  const auto times = static_cast<double>(again.times);
  const Time on = (clocks_[0].done - was.clocks[0].done) * times;
  for (std::size_t c = 0; c < clocks_.size(); ++c) {
    RankClocks& now = clocks_[c];
    for (const auto time : kTimes) now.*time = later(now.*time, was.clocks[c].*time, times);
    now.left.work = later(now.left.work, was.clocks[c].left.work, times);
    now.left.sent = later(now.left.sent, was.clocks[c].left.sent, times);
  }
  for (std::size_t i = 0; i < free_.size(); ++i) free_[i] = later(free_[i], was.free[i], times);
  ports_.go_on(on);
  const std::int64_t rounds = again.micro_batches * again.times;
  for (std::size_t r = 0; r < plan_.rows.size(); ++r) {
    if (programs_.kept(r) == Kept::kLatest) done_[kept_[r]] = later(done_[kept_[r]], was.done[r], times);
    if (programs_.kept(r) != Kept::kEach) continue;
    const std::int64_t last = latest_[r];
    for (std::int64_t b = last; b > last - on_their_way(pipeline_); --b) set_done(r, b + rounds, done(r, b) + on);
    latest_[r] = last + rounds;
  }
}

}  // namespace ddlsim::step
