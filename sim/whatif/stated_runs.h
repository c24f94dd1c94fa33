// The settings `measured.*`: a job's own runs, as somebody states them. Private to the room.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ddlsim/support/error.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

using Resolver = std::function<Expected<Scenario>(std::span<const Override>)>;

[[nodiscard]] bool states_runs(std::span<const Override> stated);
/// All settings but those.
[[nodiscard]] std::vector<Override> without_runs(std::span<const Override> stated);

/// The scenario, corrected by the runs among its settings; `resolve` resolves settings without any of them. Errors:
/// with the setting or the file's line; of another model or precision, of a configuration that the job cannot have, and
/// of OwnRuns::learn.
[[nodiscard]] Expected<Scenario> with_stated_runs(Scenario scenario, std::span<const Override> stated,
                                                  const Resolver& resolve);

}  // namespace ddlsim::whatif
