// How large the images of a case are. Private to the room.
#pragma once

#include <vector>

#include "ddlsim/io/case_file.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/scenario.h"
#include "ddlsim/workload/model.h"

namespace ddlsim::whatif {

/// Images of another size are another model: all of its layers have other shapes. Of a model of latents, whose side is
/// an eighth of the image's (models/README.md), they are a setting. Errors: kUnsupported for images of another size
/// than the model is known for.
[[nodiscard]] Expected<void> add_image_size(const io::Case& one, const workload::Model& model,
                                            std::vector<Override>& settings);

}  // namespace ddlsim::whatif
