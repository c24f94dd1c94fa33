// MLPerf's lines, ":::MLLOG {...}": steps by statistics, else by blocks, else by epochs. Private to the room.
//
// An interval from its start to its stop is as many steps as it has batches: of blocks and epochs that count samples
// ("samples_count" in the metadata of both ends) as many as they differ by; of an epoch without, train_samples, or the
// part of them by which its ends' "epoch_num" differ (0 to 0.75). Ends that differ by more than one epoch say samples
// or epochs, and nobody knows which: they are left out, and said.
//
// One job: a run_start behind a run_stop, or another submission_benchmark, is another one's. A second run_start amid a
// run is that of a job that was started again if what comes next (epoch, block, statistics) is numbered beyond what was
// done before it, and else another one's.
//
// Worked example: samples_count 0 at 10 s, 12,288 at 410 s, batches of 32: 384 steps of 1.042 s.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"

namespace ddlsim::importers {

/// What one line says.
struct MlperfLine {
  std::string key;                    // of a count: global_batch_size, micro_batch_size, tensor_parallelism, ...
  std::optional<std::int64_t> count;  // its value
  std::optional<Time> step;
  bool instead = false;  // of the steps before, which said less
  std::string note;      // what is left out, and why
};

class MlperfLog {
 public:
  /// What follows ":::MLLOG". Errors: no JSON object with a key; a batch or samples that are no number above zero; a
  /// second job.
  [[nodiscard]] Expected<MlperfLine> read(std::string_view text, const SourceLocation& here);

 private:
  /// What says more, last.
  enum class By { kNothing, kEpochs, kBlocks, kStatistics };
  struct Mark {
    double when = 0;  // ms
    std::optional<double> samples;
    std::optional<double> epoch;
  };
  /// How far an epoch, a block or the statistics have come.
  struct Reached {
    Mark mark;
    bool beyond = false;  // the next one is numbered beyond it; else from it on
  };
  Expected<void> keep_job(const std::string& key, const nlohmann::json& value, const SourceLocation& here);
  Expected<void> go_on(std::size_t which, const Mark& next, bool stops);
  Expected<MlperfLine> one_job(Expected<MlperfLine> line) const;
  Expected<MlperfLine> count_of(const std::string& key, const nlohmann::json& value, bool split,
                                const SourceLocation& here);
  MlperfLine step_by(By by, Time step);
  MlperfLine by_interval(By by, const Mark& start, const Mark& stop, std::string_view name);
  [[nodiscard]] std::optional<double> samples_between(By by, const Mark& start, const Mark& stop) const;

  By by_ = By::kNothing;
  bool drops_last_ = false;
  double batch_ = 0;                         // samples of a step
  double samples_ = 0;                       // of an epoch
  std::array<std::optional<Mark>, 2> open_;  // an epoch, and a block

  std::string benchmark_;
  bool runs_ = false;                              // a run has started
  bool trains_ = false;                            // and something in it
  bool ended_ = false;                             // a run has stopped
  std::optional<SourceLocation> again_;            // a second start, of whose job nothing says yet
  std::array<std::optional<Reached>, 3> reached_;  // an epoch, a block, a step of the statistics
};

}  // namespace ddlsim::importers
