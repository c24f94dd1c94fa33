// How wrong is ddlsim? Published measurements beside its predictions.
//
// A case names its model, GPU, network and framework as its source printed them; `settings_of` says what ddlsim takes
// that to mean, and `validate` predicts every case with nothing else. A case that cannot be predicted is listed as
// unsupported with the reason, never dropped.
//
//   --anchor none    from specifications and calibration alone
//   --anchor first   the case of a group with the fewest GPUs is given, the rest of the group is predicted. On one GPU
//   it
//                    stands for measured speed: the factor on all GPU time (Scenario::gpu_time_factor) that makes
//                    ddlsim predict it exactly is kept. On several, nobody knows which part of the step made the
//                    difference, and the whole step keeps it. Of several with the fewest GPUs the first counts.
//
// A collective's case (architecture `collective`, model the operation, extra.size_bytes) is predicted by the formulas
// of cost/collective.h whatever the anchor; its 90 % interval is a half to twice the time, which is assumed.
//
// error = predicted / measured - 1, in the case's metric; a summary is over absolute errors, its median and 90th
// percentile by linear interpolation between ranks. Beside ours stands perfect linear scaling from the same anchor.
// Limits: conditions that a source did not print are filled with the platform's usual ones.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ddlsim/answer/validation.h"
#include "ddlsim/io/case_file.h"
#include "ddlsim/io/catalog.h"
#include "ddlsim/support/choices.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

enum class Anchor { kNone, kFirst };

inline constexpr Choices<Anchor, 2> kAnchors{{{"none", Anchor::kNone}, {"first", Anchor::kFirst}}};

inline constexpr double kCollectiveIntervalLow = 0.5;
inline constexpr double kCollectiveIntervalHigh = 2.0;

struct CaseSet {
  std::string name;
  std::vector<io::Case> cases;
};

[[nodiscard]] answer::Validation validate(const io::Catalog& catalog, std::span<const CaseSet> sets, Anchor anchor);

}  // namespace ddlsim::whatif
