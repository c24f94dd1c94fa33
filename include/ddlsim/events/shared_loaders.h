// Jobs arrive at a cluster, share the loaders of their servers, and leave.
//
// A job waits in line until its GPUs are free, and nobody overtakes (first in, first out). Of g GPUs it takes those of
// the server with the fewest free ones that suffice, the first of these; of more than a server has, whole servers,
// which it shares with nobody. At every arrival and departure on a server the policy shares it out anew among the jobs
// there (cost/loader_shares.h), and every job goes on at what its grant reaches, until it has had its samples.
//
//   restart     a running job whose cores change stands still for `restart` while its workers start anew (PyTorch's
//               DataLoader); one that starts does not, it would have to in any case
//   hysteresis  `a-dloader` and `optimal` leave things as they are, newcomers on cores that are free (by the same
//               policy), unless the new grants are worth over `hysteresis` more, and more than what restarts lose up to
//               the next departure h away:  (V' - V) h > restart x sum over restarted jobs of X'_j / unit_j
//               `even` has to follow the number of jobs; `gpu-proportional` never changes
//
// Times are doubles, in a fixed order of operations: the same bits on every machine. Cost: O(log n) an event, and one
// call of the policy; 10,000 jobs on 1,000 servers take about a second (bench/speed). Sources: arrivals and departures
// as the moments to decide: Jia et al., A-Dloader, IEEE CLOUD 2022; order and place as Synergy's FIFO (Mohan et al.,
// OSDI 2022). Limits: no preemption, no moving between servers, no consolidation over partly free servers; storage that
// all servers share is divided evenly between them beforehand.
//
// Worked example (test/unit/events/shared_loaders_test.cpp): a server of 2 GPUs and 4 cores; two jobs of 1,000 samples
// make 10 samples/s a core, up to 30. `even`, from 0 s: 20 each, both end at 50 s. One arriving at 10 s: the first has
// 30 (10 s, 300 samples), then 20 with 1 s of restart: 700 / 20 = 35 s, ends at 46 s. The second has had 720 by then,
// restarts in 1 s, and makes 280 at 30: ends at 56.33 s.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ddlsim/answer/shared_loaders.h"
#include "ddlsim/cost/loader_shares.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"

namespace ddlsim::events {

struct ArrivingJob {
  cost::LoaderDemand demand;  // of one of its servers
  std::int64_t servers = 1;   // above one: whole ones, each by `demand`
  double samples = 1;         // of one of its servers
  Time arrival{};
};

struct SharingRules {
  cost::SharePolicy policy = cost::SharePolicy::kADloader;
  Time restart{};
  double hysteresis = 0;
};

/// By job. Errors: kInfeasible for a job that would never start or never end, naming its index in `jobs`; as
/// cost::share_loaders.
[[nodiscard]] Expected<answer::LoaderTimes> run_shared_loaders(const cost::LoaderSupply& server, std::int64_t servers,
                                                               std::span<const ArrivingJob> jobs,
                                                               const SharingRules& rules);

}  // namespace ddlsim::events
