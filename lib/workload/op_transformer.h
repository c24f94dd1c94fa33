// Rules of the operators that language models since 2023 are made of. Costs are in the header of workload/op.h.
#pragma once

#include "ddlsim/support/error.h"
#include "ddlsim/workload/op.h"
#include "layer_rules.h"

namespace ddlsim::workload {

Expected<void> rms_norm_layer(const Shape& in, LayerAndShape& made, Counter& count);
Expected<void> attention_layer(const GroupedAttention& op, const Shape& in, LayerAndShape& made, Counter& count);
Expected<void> experts_layer(const Experts& op, const Shape& in, LayerAndShape& made, Counter& count);
Expected<void> causal_conv_layer(const CausalConv& op, const Shape& in, LayerAndShape& made, Counter& count);
Expected<void> index_scores_layer(const IndexScores& op, const Shape& in, LayerAndShape& made, Counter& count);
Expected<void> linear_attention_layer(const LinearAttention& op, const Shape& in, LayerAndShape& made, Counter& count);

}  // namespace ddlsim::workload
