// A sweep: the answer of every point of a grid, by as many threads as there are.
//
// A point's answer is that of whatif/predict.h for its settings, to the bit: each thread has a Predictor of its own,
// and nothing of an answer depends on what was asked before it, on how points are shared out, or on the number of
// threads. Rows come in the grid's order, on the caller's thread; at most a few thousand of them wait at any time, so
// that memory does not grow with the grid. A point without an answer is a row with its reason.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ddlsim/answer/sweep.h"
#include "ddlsim/io/catalog.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/grid.h"

namespace ddlsim::whatif {

struct SweepOptions {
  answer::SweepDetail detail = answer::SweepDetail::kFull;
  int threads = 1;
  Shard shard;
  std::optional<std::int64_t> after;  // only points with a greater number: what was answered before
};

/// What has been done of a sweep's positions; those that conditions leave out count.
struct SweepProgress {
  std::int64_t done = 0;  // since it was started
  std::int64_t left = 0;
};

/// Rows in order; called with none now and then while the next one takes its time. An error ends the sweep.
using TakeRows = std::function<Expected<void>(std::span<const answer::SweepRow>, const SweepProgress&)>;

/// Answers every point. Errors: those of `take` alone.
[[nodiscard]] Expected<void> sweep(const io::Catalog& catalog, const Grid& grid, const SweepOptions& options,
                                   const TakeRows& take);

/// A sweep's pieces, for whoever shares them out himself, over processes: the rows of pieces 0, 1, ... one after
/// another are the sweep's. The catalogue and the grid must outlive it.
class SweepPieces {
 public:
  SweepPieces(const io::Catalog& catalog, const Grid& grid, const SweepOptions& options);
  ~SweepPieces();
  SweepPieces(const SweepPieces&) = delete;
  SweepPieces& operator=(const SweepPieces&) = delete;

  [[nodiscard]] std::int64_t count() const;
  [[nodiscard]] std::int64_t positions() const;  // of all
  [[nodiscard]] std::int64_t positions_in(std::int64_t piece) const;
  /// Answers pieces, in any order, on one thread.
  using Worker = std::function<std::vector<answer::SweepRow>(std::int64_t piece)>;
  [[nodiscard]] Worker worker() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Positions that a part of a grid has after a point.
[[nodiscard]] std::int64_t positions_of(const Grid& grid, Shard shard, std::optional<std::int64_t> after);

/// How long a whole sweep would take, from a second's worth at most of points spread over it. Nothing: no point of
/// those has an answer.
[[nodiscard]] std::optional<Time> estimated_time(const io::Catalog& catalog, const Grid& grid,
                                                 const SweepOptions& options);

}  // namespace ddlsim::whatif
