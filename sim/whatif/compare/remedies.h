// What may make a job fit its GPUs' memory. Private to the room.
#pragma once

#include <vector>

#include "ddlsim/io/catalog.h"
#include "ddlsim/whatif/compare.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

/// One change each, and last all of them together: half the batch and so on down to 1, 16-bit products, recomputation,
/// what replicas share, states on the host, GPUs of this form with more memory. Nobody has tried them.
[[nodiscard]] std::vector<Change> memory_remedies(const io::Catalog& catalog, const Scenario& scenario);

/// Of `remedies` those that fit; of several batches the largest, of several GPUs and stages of ZeRO the first.
/// `failed` gets the names of the others, of one setting the value that goes furthest.
[[nodiscard]] std::vector<Change> that_fit(const io::Catalog& catalog, std::span<const Override> base,
                                           std::vector<Change> remedies, std::vector<std::string>& failed);

}  // namespace ddlsim::whatif
