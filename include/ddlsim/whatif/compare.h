// What-if: a baseline beside alternatives, each a list of changed settings.
//
// Speedup is the ratio of throughputs (samples per second of the whole cluster), which is the ratio of step times as
// long as batch and GPUs stay the same. It has a 90 % interval of its own and the probability that the alternative is
// faster: ratio.h. `what_would_help` makes the alternatives itself: every part that could be
// upgraded, one at a time, best first.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ddlsim/answer/prediction.h"
#include "ddlsim/io/catalog.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

struct Change {
  std::string name;  // empty: made from the settings
  std::vector<Override> overrides;
};

/// Resolves and predicts the baseline and every alternative. What is understood and cannot be of this job is skipped,
/// with the reason; it fails, naming the alternative, for one that is not understood and where none is possible.
[[nodiscard]] Expected<answer::Comparison> compare(const io::Catalog& catalog, std::span<const Override> base,
                                                   std::span<const Change> changes);

/// The upgrades tried: the next network rate (at least twice as fast), twice the NVLink, PCIe, memory bandwidth and
/// peak rate, half the launch interval, the next GPU of the same form with at least 1.2 times the rate and the fastest
/// one, and the other of ps and allreduce. Where GPUs wait for input: the next storage of a server's own that is at
/// least twice as fast and the fastest one, twice the workers that are stated, twice the hardware threads, and decoding
/// on the GPU. What the job does not use, or cannot take, is in `skipped` with the reason. Of a job that does not fit
/// its GPUs' memory, changes that make it fit as well (batch, 16 bits, recomputation, ZeRO, all of them, a larger GPU).
/// What does not fit comes last.
[[nodiscard]] Expected<answer::Comparison> what_would_help(const io::Catalog& catalog, std::span<const Override> base);

}  // namespace ddlsim::whatif
