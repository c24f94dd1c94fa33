// The settings `measured.*`: a job's own runs, as somebody states them. Private to the room.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ddlsim/io/catalog.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

using Resolver = std::function<Expected<Scenario>(std::span<const Override>)>;

[[nodiscard]] bool states_runs(std::span<const Override> stated);
/// All settings but those.
[[nodiscard]] std::vector<Override> without_runs(std::span<const Override> stated);

/// Whether a run among the settings does not say how it was split: it ran as the job is stated.
[[nodiscard]] bool leaves_split_open(std::span<const Override> stated);

/// A job as changed. Its runs are of the job as it stands and speak for what it could be; a change may state runs of
/// its own. `as_stated` is what the job's settings resolve to.
[[nodiscard]] Expected<Scenario> changed(const io::Catalog& catalog, std::span<const Override> job,
                                         const Scenario& as_stated, std::span<const Override> change);

/// The scenario, corrected by the runs among its settings; `resolve` resolves settings without any of them. Errors:
/// with the setting or the file's line; of another model, GPU or precision, of a configuration that the job cannot
/// have, and of OwnRuns::learn.
[[nodiscard]] Expected<Scenario> with_stated_runs(const io::Catalog& catalog, Scenario scenario,
                                                  std::span<const Override> stated, const Resolver& resolve);

/// The scenario of what is stated, where its runs are of a job that is stated more closely (how many servers, which
/// batch) by `of_runs`.
[[nodiscard]] Expected<Scenario> resolve_beside_runs(const io::Catalog& catalog, std::span<const Override> stated,
                                                     std::span<const Override> of_runs);

}  // namespace ddlsim::whatif
