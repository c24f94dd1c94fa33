// A global batch that grows within one job: Megatron's --rampup-batch-size. Private to the room.
//
// Where the job says that it ramps up, the batch of its iterations may grow. Where it does not say, only if lines go on
// at the same interval, and the samples consumed since the line before are those of as many iterations, each of a batch
// between the two. Steps before the last batch are left out, with the line that has iterations of several batches.
//
// Worked example: iteration 100 at 76,800 samples, batch 768; iteration 101 at 78,336, batch 1,536: one iteration of
// 1,536 samples, it has grown. Iteration 101 at 99,840 is another job's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddlsim::importers {

class BatchRamp {
 public:
  struct Change {
    std::int64_t from = 0;
    std::int64_t to = 0;
  };

  /// "rampup_batch_size .... ['768', '768', '1000000']", or None; "will use batch size rampup starting from ...".
  void read_arguments(std::string_view line);
  /// Whether the batch grows at this line of an iteration, which follows `steps` that count.
  [[nodiscard]] bool grows(std::string_view line, const Change& change, std::size_t steps);
  /// The next line of an iteration; whether all of its iterations have one batch.
  [[nodiscard]] bool is_even(std::string_view line);
  /// What was left out; empty: nothing.
  [[nodiscard]] std::string note() const;

 private:
  struct Point {
    std::optional<std::int64_t> iteration;
    std::optional<double> samples;  // consumed
  };
  static Point point_of(std::string_view line);

  std::optional<bool> stated_;
  Point last_;
  std::int64_t interval_ = 0;  // iterations of the last line; 0: not known
  bool uneven_ = false;        // the line at hand
  Change all_;
  std::size_t left_out_ = 0;
};

}  // namespace ddlsim::importers
