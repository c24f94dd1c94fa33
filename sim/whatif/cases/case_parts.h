// What a run had of a shipped model: a few of its blocks, or weights that its file freezes. Private to the room.
//
// Worked example: Gemma 2 of 42 layers repeats two (one looks at a window, one at all keys) 21 times; of 8 layers it
// has four of these.
#pragma once

#include <cstdint>

#include "ddlsim/support/error.h"
#include "ddlsim/workload/model.h"

namespace ddlsim::whatif {

/// Whether that is what it has: as its name counts them (ResNet-50; not where it has attention: Llama 2), or in an
/// encoder and as many in a decoder.
[[nodiscard]] bool has_layers(const workload::Model& model, std::int64_t layers);

/// The first `layers` layers with attention, and what stands before and after all of them.
/// Errors: kUnsupported, where it does not repeat blocks of one kind, or has fewer or none that come to so many.
[[nodiscard]] Expected<void> keep_first_layers(workload::Model& model, std::int64_t layers);

/// Everything is trained, and frozen norms are batch norms, as without trained weights to start from
/// (torchvision models/detection: is_trained).
[[nodiscard]] Expected<void> unfreeze(workload::Model& model);

}  // namespace ddlsim::whatif
