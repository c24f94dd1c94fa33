// Several jobs share the loader workers, memory and storage of their servers: what each policy makes of it.
//
// A job's rate with w workers is min(G, L(w)): G what its GPUs take if they never wait for input (whatif/predict.h), L
// what cost/loader.h gives w workers, each with its part of the server's cores while all of them run; or a measured
// curve (io/jobs_file.h). Storage is shared by the time it is held: of a job's sample the bytes that come from it, or
// the bytes it could read while it serves its requests, whichever is more. Its page cache is its GPUs' share of the
// server's memory, under every policy; memory is granted only where rates were measured at several sizes.
//
// What counts (io::ShareObjective): the rate over that with a fair share, over full speed times GPUs, or samples/s.
// What is shown, by policy: aggregate throughput, samples of all jobs over the time in which any has GPUs; makespan;
// mean completion, from arrival to end; throughput, of a job samples over the time from its start to its end;
// full_speed, that over G; GPU idle share, 1 - sum g_j samples_j / G_j over sum g_j (end_j - start_j). Gains over
// `even`: of aggregate throughput (whose samples are the same under every policy, so that images and sentences do no
// harm), of mean completion and makespan how much shorter they are, and of the jobs' throughput the mean of their
// ratios, which grows where one of two alike jobs runs before the other though nothing gets done sooner.
//
// Arrivals and times: events/shared_loaders.h; grants: cost/loader_shares.h. Drawn jobs: arrivals Poisson, kind and
// GPUs by their weights, time at full speed evenly over its logarithm; draws are by splitmix64 from the seed, the same
// for the same seed on every machine, and job i's do not depend on how many there are. Sources: A-Dloader (Jia et al.,
// IEEE CLOUD 2022) for the question and its headline, 23.5 % more throughput and 10 % less makespan than even shares;
// Synergy (Mohan et al., OSDI 2022) for the mix, models/jobs/synergy.yaml. Limits: jobs on different servers do not
// meet on the network; a job's GPUs run at the same rate all along (no first epoch; a note has what reading a data set
// once takes, where that is longer than an epoch at full speed); workers that wait for storage hold their cores.
#pragma once

#include "ddlsim/answer/shared_loaders.h"
#include "ddlsim/io/catalog.h"
#include "ddlsim/io/jobs_file.h"
#include "ddlsim/support/error.h"

namespace ddlsim::whatif {

/// One measurement, of PyTorch's DataLoader on a laptop under load; everybody else is silent.
inline constexpr Time kDefaultRestart = seconds(10);
inline constexpr double kDefaultHysteresis = 0.05;

/// The jobs a file draws. Requires file.draw.
[[nodiscard]] std::vector<io::JobEntry> drawn_jobs(const io::JobsDraw& draw);

/// Errors, with their places: names nobody knows, a server without cores, memory or storage that a job needs, fewer
/// cores than GPUs, a data set larger than the storage, more workers than batches, a job of more GPUs than there are,
/// or over 100 years away or long.
[[nodiscard]] Expected<answer::SharedLoaders> share_loaders(const io::Catalog& catalog, const io::JobsFile& file);

/// A file, or by its name one of models/jobs. Errors: kNotFound with the nearest names; as io::load_jobs.
[[nodiscard]] Expected<io::JobsFile> load_jobs(const io::Catalog& catalog, const std::string& name);

}  // namespace ddlsim::whatif
