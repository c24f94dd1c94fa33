// How far the ranks of a pipeline are: what the recurrence of slots.cpp goes on from. Private to the room.
//
// In the middle of a long step all ranks take the same passes again and again. Where nothing is left of how they began,
// each round adds the same to every number, and rounds may be left out:
//   every rank's GPU       one round later by d, all by the same d
//   its CPU                by d, or by less where nothing waited for it: it gets only farther ahead
//   messages others need   of every micro-batch that may be on its way by d
//   channels               by d; or by less: they are free when the GPU gets there, then or soon; or by all that they
//                          carry in a round: they get only farther behind, and what passes need of them is above
//   servers' ports         by d, all that they still have when the first of the ranks goes on
// The rest follows from these, for max and + of numbers that are all later by d is later by d.
#pragma once

#include <cstdint>
#include <vector>

#include "ddlsim/plan/order.h"
#include "ports.h"
#include "slot_programs.h"

namespace ddlsim::step {

/// The CPU and the GPU of a class, and where its time went; the parts add up to `done`.
struct RankClocks {
  Time issued{};
  Time done{};
  Time begin{};  // of its first pass, where ranks end a step by themselves
  bool begun = false;
  Time forward{};
  Time backward{};
  Time launch{};
  Time encoding{};
  Time exposed{};
  Time waited{};  // of it, for messages beside kernels
  Time alone{};   // of that, before its first kernel, and for the last message after all of them
  Time bubble{};
  Time update{};
  Time on_host{};              // the CPU's update
  SlotPrograms::Least left{};  // of the passes that it has left; nothing where nobody asks

  /// Of its step. Where ranks end it by themselves the next one follows, and the CPU cannot issue it sooner.
  [[nodiscard]] Time took() const { return max(done - begin, issued); }
  /// Without waiting for other classes.
  [[nodiscard]] Time busy() const { return done - begin - bubble; }
};

class SlotState {
 public:
  SlotState(const cost::PricedStep& step, const plan::Pipeline& pipeline, const SlotPrograms& programs);

  [[nodiscard]] RankClocks& clocks(std::size_t c) { return clocks_[c]; }
  [[nodiscard]] const RankClocks& clocks(std::size_t c) const { return clocks_[c]; }
  [[nodiscard]] std::size_t ranks() const { return clocks_.size(); }
  /// When a resource is free.
  [[nodiscard]] Time& free(std::size_t resource) { return free_[resource]; }
  [[nodiscard]] Time free(std::size_t resource) const { return free_[resource]; }
  [[nodiscard]] Ports& ports() { return ports_; }
  /// When a row whose times are kept was there.
  [[nodiscard]] Time done(std::size_t r, std::int64_t micro_batch) const { return done_[place(r, micro_batch)]; }
  void set_done(std::size_t r, std::int64_t micro_batch, Time time) {
    done_[place(r, micro_batch)] = time;
    latest_[r] = micro_batch;
  }

  /// What a later moment is compared with.
  struct Mark {
    std::vector<RankClocks> clocks;
    std::vector<Time> free;
    std::vector<Time> done;  // by row, where the latest is kept
    Ports::Times ports;
  };
  [[nodiscard]] Mark mark();
  /// Whether a round of so many micro-batches since then can only go on as it was.
  [[nodiscard]] bool repeats(const Mark& was, std::int64_t micro_batches);
  /// So many rounds more.
  void go_on(const Mark& was, const plan::JoinedOrder::Again& again);

 private:
  [[nodiscard]] std::size_t place(std::size_t r, std::int64_t micro_batch) const {
    const bool each = programs_.kept(r) == SlotPrograms::Kept::kEach;
    return kept_[r] + (each ? static_cast<std::size_t>(micro_batch) : 0);
  }
  void forget_ports();
  [[nodiscard]] bool cpu_repeats(const RankClocks& was, const RankClocks& now, Time round) const;
  [[nodiscard]] bool channel_repeats(std::size_t resource, Time was, std::int64_t micro_batches, Time round) const;
  [[nodiscard]] bool row_repeats(std::size_t r, std::int64_t micro_batches, Time round) const;

  const plan::StepPlan& plan_;
  const plan::Pipeline& pipeline_;
  const SlotPrograms& programs_;
  std::vector<RankClocks> clocks_;
  std::vector<Time> free_;            // by resource
  std::vector<std::size_t> kept_;     // by row: where its times stand
  std::vector<Time> done_;            // by row, by micro-batch
  std::vector<std::int64_t> latest_;  // by row: the micro-batch of its last time
  Ports ports_;
};

}  // namespace ddlsim::step
