// Pieces of work over the ranks of an MPI run and their threads; results in order on rank 0.
//
// Rank 0 hands out, works too, and takes results; every rank's own thread does nothing but talk, so that a long piece
// keeps nobody waiting. Ranks tell each other twice a second that they are there: one that was silent for ten seconds
// is lost and its pieces are done by others; one that does not hear from rank 0 ends.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ddlsim/support/error.h"
#include "ranks.h"

namespace ddlsim::cli {

using PieceWorker = std::function<std::string(std::int64_t piece)>;

struct RankWork {
  std::int64_t pieces = 0;
  int threads = 1;                                                         // of every rank
  std::function<PieceWorker()> make_worker;                                // called once on each thread
  std::function<Expected<void>(const std::string&)> take;                  // results in order; on rank 0
  std::function<Expected<void>()> wait = [] { return Expected<void>(); };  // now and then; on rank 0
};

/// What all ranks of a run must have alike: name and value.
using Facts = std::vector<std::pair<std::string, std::string>>;
/// Compares them. Errors, on every rank: which rank has what else.
[[nodiscard]] Expected<void> agree(Ranks& ranks, const Facts& facts);

/// Does it; errors are those of `take` and `wait`, on rank 0, and of a rank that rank 0 has left. Where ranks were
/// lost, says so on stderr and sets `lost`: MPI must then not be ended as usual (Ranks::leave_without_the_lost).
[[nodiscard]] Expected<void> work_over(Ranks& ranks, const RankWork& work, bool& lost);

}  // namespace ddlsim::cli
