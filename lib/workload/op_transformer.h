// Rules of the operators that language models since 2023 are made of. Costs are in the header of workload/op.h.
#pragma once

#include "ddlsim/support/error.h"
#include "ddlsim/workload/op.h"
#include "placing.h"

namespace ddlsim::workload {

Expected<void> place_rms_norm(const Shape& in, Placed& placed, Counter& count);
Expected<void> place_attention(const GroupedAttention& op, const Shape& in, Placed& placed, Counter& count);
Expected<void> place_experts(const Experts& op, const Shape& in, Placed& placed, Counter& count);

}  // namespace ddlsim::workload
