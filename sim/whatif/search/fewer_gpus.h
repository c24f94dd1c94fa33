// Fewer GPUs of every server: where a server's are no power of two, what as many of them as are one would do. Private
// to the room.
//
// Degrees must divide the GPUs, and what they cut: heads, experts, blocks, a step's samples. A GB200 NVL72's 72 GPUs
// leave replicas and experts a factor of 9 that few models and batches have; 64 of them have none, and runs that are
// published use 64. Looked at where nobody states how many GPUs of a server work.
//
// Worked example: a batch of 64 samples on one server of 6 GPUs by data parallelism alone has no plan, for 6 does not
// divide 64; on 4 of the 6 each has 16 samples.
#pragma once

#include <optional>
#include <span>

#include "ddlsim/answer/plan_choice.h"
#include "ddlsim/io/catalog.h"
#include "ddlsim/support/units.h"
#include "ddlsim/whatif/plan_search.h"
#include "search/plan_space.h"

namespace ddlsim::whatif {

/// The fastest plan on fewer GPUs of every server, where it takes less than `at_most`; nothing: there is none, none was
/// found before the deadline, or the question does not come up.
[[nodiscard]] std::optional<answer::PlanSensitivity> faster_on_fewer(const io::Catalog& catalog,
                                                                     std::span<const Override> stated,
                                                                     const PlanSpace& space, Time at_most,
                                                                     const Clock& clock, Time deadline);

}  // namespace ddlsim::whatif
