// How frameworks trained language models at some time, each from its code or documentation: what a published case
// leaves unsaid (language_case.h). Private to the room.
#pragma once

#include <string_view>

#include "ddlsim/io/case_file.h"

namespace ddlsim::whatif {

/// What a framework sends beside kernels.
enum class Beside {
  kNothing,    // gradients after backward, weights after the update
  kGradients,  // beside backward
  kWeights,    // updated weights beside forward too
  kAll,        // tensor groups' rows too, and weights in 8 bits where products take them so
};

inline constexpr double kEver = 0;  // years
inline constexpr double kNever = 3000;
inline constexpr double kNewest = 2999;  // where nobody says which release

/// How a framework trained language models at some time.
struct TrainingWay {
  std::string_view names;  // words of the framework's name, in lower case, all of which stand in it
  double until;            // of releases before that year; kNever: of all later ones
  double fused_since;      // when attention became one kernel (FlashAttention, or cuDNN's) unless told otherwise
  bool sequence;           // norms along the sequence in the tensor group, where there is one
  Beside beside;
  int zero;                    // what its usual optimizer shares
  std::string_view states;     // of 16-bit training (plan::States)
  std::string_view gradients;  // the format they are summed in
  std::string_view attention;  // its kernel, where attention is fused (primitives::AttentionKernel)
  bool stops_early;            // plan::Parallel::recompute_stops
  std::string_view source;
};

/// The way of a case's framework at the time of its release (case_software.h; the newest where nobody says when); the
/// last row of the table where none is known.
[[nodiscard]] const TrainingWay& way_of(const io::Case& one);

/// Whether a case is a submission to MLPerf.
[[nodiscard]] bool is_submission(const io::Case& one);

}  // namespace ddlsim::whatif
