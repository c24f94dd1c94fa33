// Who gets how many loader workers, how much memory and how much of the storage, of jobs that share a server.
//
// A job j has options: with w workers (a core each) and m bytes of memory its loader and GPUs reach the rate X_j(w, m).
// Of every sample it reads s_j bytes from storage. What it is worth is X_j / unit_j. A policy grants each job an option
// and a share b_j of the storage's bandwidth; the job then runs at min(X_j, b_j / s_j). There are W cores, memory M,
// bandwidth B and G GPUs, of which the job holds g_j; J jobs are there.
//
//   even              W/J cores (what is left over one by one to the first), M g_j/G, B/J
//   gpu-proportional  W g_j/G cores, M g_j/G, B g_j/G, whoever else is there (Synergy's fair share)
//   a-dloader         maximise sum_j X_j / unit_j by marginal gain: from the fewest cores that reach `least_j`, the job
//                     whose next cores gain most for each takes them, until nobody gains. Memory as gpu-proportional.
//                     Where the storage binds, a sample costs p s_j besides; p is bisected, and the best of what it
//                     gives, the bandwidth filled (below), is bettered by trades of up to three steps between two jobs.
//   optimal           the same maximum exactly, over cores, memory and bandwidth, by dynamic programming
// The last two give even shares where those are worth as much: alike jobs on straight lines share evenly.
//
// Marginal gain is optimal where curves are concave and cores alone bind. Where they are not, a job may take several
// cores at once, the most gain for each: the upper concave hull of its curve.
// Filling the bandwidth. For given options, sum X_j / unit_j under sum s_j X_j <= B and least_j <= X_j is a fractional
// knapsack: everybody has least_j, then by 1 / (unit_j s_j), the largest first, up to what an option reaches. At most
// one job is left between; those before it are full, those after it have their least; of jobs whose bytes are worth
// alike the first is filled first. So `optimal` takes jobs in that order, and keeps of every number of cores the
// combinations of memory, bandwidth and worth that no other beats, and that with prices for what they leave (Lagrange's
// multipliers) could still reach what marginal gain does.
//
// Units: cores, bytes, samples/s. Sources: marginal gain at arrivals and departures: Jia et al., A-Dloader, IEEE CLOUD
// 2022, as its abstract has it (its text was not at hand: hull, price and trades are ours); shares by GPUs and the
// exact optimum: Mohan et al., Synergy, OSDI 2022; the knapsack: Dantzig, Operations Research 5(2), 1957.
// Limits: cores are whole; a worker is worth the same whoever else runs (caches and memory bandwidth of the CPU are not
// shared); memory is granted as options have it, never in between.
//
// Worked example (test/unit/cost/loader_shares_test.cpp): 12 cores, 4 jobs of a GPU each. Synergy's ResNet-50 gains
// nothing above 4 cores (1.15 of its rate at 3), GNMT and LSTM nothing above 1, AlexNet has 1.75 at 6. Even: 3 each,
// 4.00. Best: 6 + 4 + 1 + 1 cores, 1.75 + 1.15 + 1 + 1 = 4.90.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ddlsim/support/choices.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"

namespace ddlsim::cost {

enum class SharePolicy : std::uint8_t { kEven, kGpuProportional, kADloader, kOptimal };

inline constexpr Choices<SharePolicy, 4> kSharePolicies{{
    {"even", SharePolicy::kEven},
    {"gpu-proportional", SharePolicy::kGpuProportional},
    {"a-dloader", SharePolicy::kADloader},
    {"optimal", SharePolicy::kOptimal},
}};

/// What a job reaches with so much.
struct LoaderOption {
  std::int64_t cores = 1;
  DataSize memory{};  // of this job's own; zero: it makes no difference
  Rate rate{};

  friend bool operator==(const LoaderOption&, const LoaderOption&) = default;
};

/// Those that no other beats with no more of anything, by cores, then memory.
[[nodiscard]] std::vector<LoaderOption> useful_options(std::vector<LoaderOption> options);

/// What one job asks for.
struct LoaderDemand {
  std::vector<LoaderOption> options;  // useful_options
  DataSize read{};                    // from storage, for a sample
  std::int64_t gpus = 1;
  Rate unit = per_second(1);
  Rate least{};  // `a-dloader` and `optimal` grant no less; at most fair_share's
};

/// What the jobs of a server share.
struct LoaderSupply {
  std::int64_t cores = 1;
  DataSize memory{};
  Bandwidth storage = Bandwidth::infinity();
  std::int64_t gpus = 1;
};

struct LoaderGrant {
  std::int64_t cores = 0;
  DataSize memory{};
  Bandwidth storage{};  // that it reads at `rate`
  Rate rate{};

  friend bool operator==(const LoaderGrant&, const LoaderGrant&) = default;
};

/// What `gpu-proportional` gives.
[[nodiscard]] LoaderGrant fair_share(const LoaderSupply& supply, const LoaderDemand& demand);

/// One grant a job, in their order. Requires a core for each job, and an option of one core and of no more memory than
/// its GPUs' share. Errors: kUnsupported where `optimal` would compare over 300 million combinations.
[[nodiscard]] Expected<std::vector<LoaderGrant>> share_loaders(SharePolicy policy, const LoaderSupply& supply,
                                                               std::span<const LoaderDemand> demands);

/// sum X_j / unit_j
[[nodiscard]] double worth_of(std::span<const LoaderDemand> demands, std::span<const LoaderGrant> grants);

}  // namespace ddlsim::cost
