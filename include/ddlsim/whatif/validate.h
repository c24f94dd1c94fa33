// How wrong is ddlsim? Published measurements beside its predictions.
//
// A case names its model, GPU, network and framework as its source printed them; `settings_of` says what ddlsim takes
// that to mean, and `validate` predicts every case with nothing else. A case that cannot be predicted is listed as
// unsupported with the reason, never dropped.
//
//   --anchor none    from specifications and calibration alone
//   --anchor first   the case of a group with the fewest GPUs is given (of several the first), the others are predicted
//   --anchor node    the cases within one server are given, those over several are predicted
//   --anchor rest    all are given but those with the most GPUs, which are predicted; groups of two sizes or more given
//
// What is given corrects the prediction as a user's own runs do (whatif/own_runs.h). Groups in which nothing would be
// given, or nothing predicted, are not asked.
//
// What is stated besides (`ddlsim validate --set software=none`: kernels alone) holds for every case, and goes before
// what a case says itself; for the cases of collectives what describes their cluster.
//
// A collective's case (architecture `collective`, model the operation, extra.size_bytes) is predicted by the formulas
// of cost/collective.h whatever the anchor; its 90 % interval is a half to twice the time, which is assumed.
//
// error = predicted / measured - 1, in the case's metric; a summary is over absolute errors, its median and 90th
// percentile by linear interpolation between ranks. Beside ours stand laws of scaling through the given cases
// (calib/scaling_laws.h): perfect, Amdahl's, a power.
// Limits: conditions that a source did not print are filled with the platform's usual ones.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ddlsim/answer/validation.h"
#include "ddlsim/io/case_file.h"
#include "ddlsim/io/catalog.h"
#include "ddlsim/support/choices.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

enum class Anchor { kNone, kFirst, kNode, kRest };

inline constexpr Choices<Anchor, 4> kAnchors{
    {{"none", Anchor::kNone}, {"first", Anchor::kFirst}, {"node", Anchor::kNode}, {"rest", Anchor::kRest}}};

/// Measured over predicted time of collectives, 5th and 95th percentile of the committed tables' rows, a page weighing
/// as the square root of its rows: 190 rows of 7 pages within a server, 603 of 18 over several. Late more often than
/// early.
struct CollectiveEnds {
  double low;
  double high;
};
inline constexpr CollectiveEnds kCollectiveWithinServer{0.88, 2.09};
inline constexpr CollectiveEnds kCollectiveAcrossServers{0.78, 2.42};

struct CaseSet {
  std::string name;
  std::vector<io::Case> cases;
};

/// How cases are predicted.
struct ValidateOptions {
  Anchor anchor = Anchor::kNone;
  std::vector<Override> stated{};  // of every case
};

/// Told before every row how many are done.
using ValidateProgress = std::function<void(std::int64_t done)>;

/// Errors: kNotFound for a stated setting that there is none of. A value that no case can have is why all are
/// unsupported.
[[nodiscard]] Expected<answer::Validation> validate(const io::Catalog& catalog, std::span<const CaseSet> sets,
                                                    const ValidateOptions& options, const ValidateProgress& tell = {});

/// One case of them, the first with that id, as `validate` predicts it. Errors: kNotFound where there is none;
/// kInvalidArgument where it is given, or not asked about; those of its prediction.
[[nodiscard]] Expected<answer::CaseReading> read_case(const io::Catalog& catalog, std::span<const CaseSet> sets,
                                                      std::string_view id, const ValidateOptions& options);

}  // namespace ddlsim::whatif
