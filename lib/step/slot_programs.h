// What passes do, prepared so that a slot costs as little as it has to say: kernels, and what is always in their way,
// are one affine step of the clocks of CPU and GPU,
//   done = max(done + work, issued + last);   issued = issued + issue
// (max-plus linear: layers compose), and a pass is cut only where a row must wait, or starts. Private to the room.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ddlsim/cost/price.h"
#include "ddlsim/plan/order.h"

namespace ddlsim::step {

/// Kernels one after another with what is in their way.
struct Run {
  Time issue{};         // of the CPU, for all kernels
  Time work{};          // of the GPU: kernels, encoding, rows in the way
  Time last = never();  // from the first issue to the end, if the CPU is the slower
  Time kernels{};       // of `work`
  Time encoding{};      // likewise
  Time in_the_way{};    // likewise
  Time exchanged{};     // of `in_the_way`: all-to-alls
  [[nodiscard]] static Time never() { return Time::zero() - Time::infinity(); }

  void add(const cost::PricedLayer& layer, Time interval) {
    if (layer.kernels == 0) return;
    issue += interval * layer.kernels;
    work += layer.time;
    kernels += layer.time - layer.host;
    last = max(last + layer.time, issue + layer.last);
  }
  void delay(Time time) {
    work += time;
    last += time;
  }
};

/// Rows that are waited for, what runs then, and rows that start then.
struct Segment {
  std::uint32_t waits = 0;   // the first of its rows
  std::uint32_t starts = 0;  // likewise, where those that are waited for end
  std::uint32_t end = 0;
  Run run{};
};

class SlotPrograms {
 public:
  SlotPrograms(const cost::PricedStep& step, const plan::Pipeline& pipeline);

  /// Which of a part's micro-batches a pass is of: with the first and the last go rows that go once in a step.
  struct Turn {
    bool first = false;
    bool last = false;
  };
  [[nodiscard]] std::span<const Segment> of(std::size_t stage, std::size_t part, plan::SlotKind kind, Turn turn) const {
    const Range& range = programs_[index(stage, part, kind, turn)];
    return {segments_.data() + range.first, range.count};
  }
  /// What a pass takes at least.
  struct Least {
    Time work{};  // of its class: kernels, and rows in their way but for all-to-alls, which a pair may hide
    Time sent{};  // of the class's channel among replicas, before the update
  };
  [[nodiscard]] const Least& least(std::size_t stage, std::size_t part, plan::SlotKind kind, Turn turn) const {
    return programs_[index(stage, part, kind, turn)].least;
  }
  /// The resource of a class's channel among replicas.
  [[nodiscard]] std::size_t channel(std::size_t c) const { return c * (plan_.groups.size() + 3); }
  [[nodiscard]] std::span<const std::uint32_t> waits(const Segment& one) const {
    return {rows_.data() + one.waits, one.starts - one.waits};
  }
  [[nodiscard]] std::span<const std::uint32_t> starts(const Segment& one) const {
    return {rows_.data() + one.starts, one.end - one.starts};
  }
  /// Of a class's update.
  [[nodiscard]] std::span<const std::uint32_t> before_update(std::size_t c) const { return before_update_[c]; }
  [[nodiscard]] std::span<const std::uint32_t> after_update(std::size_t c) const { return after_update_[c]; }

  /// What carries a row, as a number from 0 to resources().
  [[nodiscard]] std::size_t resource(std::size_t row) const { return resource_[row]; }
  [[nodiscard]] std::size_t resources() const { return resources_; }

  /// What a resource carries for each micro-batch in the middle of a step.
  [[nodiscard]] Time carried(std::size_t resource) const { return carried_[resource]; }

  /// What a row takes once it moves.
  [[nodiscard]] Time time_of(std::size_t row) const {
    const cost::PricedRow& priced = step_.rows[row];
    return max(priced.once * static_cast<double>(plan_.rows[row].count) - priced.hidden, Time::zero());
  }
  /// For how long of that its channel has it, and its sender stands still where it is in the way.
  [[nodiscard]] Time sending(std::size_t row) const {
    return time_of(row) - min(step_.rows[row].in_flight, time_of(row));
  }
  /// How many times of a row others ask for: none, that of its latest pass, or of each micro-batch.
  enum class Kept : std::uint8_t { kNothing, kLatest, kEach };
  [[nodiscard]] Kept kept(std::size_t row) const { return kept_[row]; }

 private:
  struct Range {
    std::size_t first = 0;
    std::size_t count = 0;
    Least least{};
  };
  /// The rows at each point of each class's layers, in their order.
  class RowsAt {
   public:
    void add(std::size_t c, const plan::Point& point, std::uint32_t row) { list_.push_back({c, point, row}); }
    void sort(const plan::StepPlan& plan);
    [[nodiscard]] bool empty() const { return list_.empty(); }
    [[nodiscard]] std::span<const std::uint32_t> at(std::size_t c, const plan::Point& point) const {
      const std::size_t number = number_of(c, point);
      return {rows_.data() + first_[number], first_[number + 1] - first_[number]};
    }

   private:
    struct Listed {
      std::size_t rank_class = 0;
      plan::Point point{};
      std::uint32_t row = 0;
    };
    [[nodiscard]] std::size_t number_of(std::size_t c, const plan::Point& point) const {
      return points_[c] + static_cast<std::size_t>(point.at) * layers_[c] + point.layer;
    }
    std::vector<Listed> list_;
    std::vector<std::size_t> layers_, points_;  // of a class; and of those before it
    std::vector<std::uint32_t> first_, rows_;   // by point
  };

  [[nodiscard]] std::size_t index(std::size_t stage, std::size_t part, plan::SlotKind kind, Turn turn) const {
    return ((stage * parts_ + part) * 4 + static_cast<std::size_t>(kind)) * 4 + (turn.first ? 1 : 0) +
           (turn.last ? 2 : 0);
  }
  void keep_rows();
  void compile_all(std::size_t stage, std::size_t part, plan::SlotKind kind);
  void number_resources();
  void sum_up_resources();
  void place_rows();
  void compile(std::size_t stage, std::size_t part, plan::SlotKind kind, Turn turn);
  void open(Segment& segment) const;
  void close(Segment& segment);
  void start(Segment& segment, std::uint32_t row);
  [[nodiscard]] Least least_of(std::span<const Segment> segments) const;

  const cost::PricedStep& step_;
  const plan::StepPlan& plan_;
  std::size_t parts_;
  RowsAt ready_;
  RowsAt needed_;
  std::vector<Segment> segments_;
  std::vector<Range> programs_;
  std::vector<std::uint32_t> rows_;
  std::vector<std::vector<std::uint32_t>> before_update_;
  std::vector<std::vector<std::uint32_t>> after_update_;
  std::vector<std::size_t> resource_;  // by row
  std::size_t resources_ = 0;
  std::vector<bool> always_free_;  // by resource: whoever uses it stands still meanwhile
  std::vector<Time> carried_;      // by resource
  std::vector<Kept> kept_;         // by row
  std::vector<bool> followed_;     // by row: another starts after it
  bool any_with_first_ = false;
};

}  // namespace ddlsim::step
