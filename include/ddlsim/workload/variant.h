// A model with some of its layers left out, for studies of what they cost.
//
// Batch norms and sums of residuals have outputs shaped as their inputs, so that the layers around them stay as they
// are. ResNet-18 without norms has 11,679,912 of its 11,689,512 parameters, in 22 gradient tensors instead of 62.
#pragma once

#include "ddlsim/support/error.h"
#include "ddlsim/workload/model.h"

namespace ddlsim::workload {

struct LeftOut {
  bool norms = false;
  bool residuals = false;
};

/// Published figures, which are of the whole model, go.
[[nodiscard]] Expected<Model> without(Model model, const LeftOut& what);

}  // namespace ddlsim::workload
