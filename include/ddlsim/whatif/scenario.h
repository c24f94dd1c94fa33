// A question's subject: a workload on a cluster under a strategy, every part of it resolved.
//
// A scenario is a list of settings, `path = value`. A scenario file, the flags of a command and `--set` all become the
// same list; of two settings with one path the later wins, and the order of different paths does not matter:
// `gpu = h100` is applied before `gpu.memory_bandwidth = 2 TB/s` wherever they stand. Every error names the setting,
// its place and the valid choices. `settings()` lists the paths with their meaning.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ddlsim/answer/prediction.h"
#include "ddlsim/io/catalog.h"
#include "ddlsim/plan/job.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/stated.h"
#include "ddlsim/support/units.h"
#include "ddlsim/whatif/goodput.h"
#include "ddlsim/whatif/training.h"

namespace ddlsim::whatif {

class OwnRuns;  // whatif/own_runs.h

struct Override {
  std::string path;
  std::string value;
  SourceLocation where;  // of a file; empty for a flag
};

struct Scenario;

/// Another job beside the one that is asked about (event). On the same servers it takes GPUs after this job's, and
/// meets it on their network ports; on servers of its own, behind the same leaf, on the leaf's uplink.
struct OtherJob {
  std::shared_ptr<const Scenario> job;
  bool same_servers = true;
  Time offset{};  // after this job's start
};

/// A job, and what is asked of it beside. Every value may be set in C++ as well: an assignment states it, as a flag or
/// a file would, and the same values give the same prediction. What `resolve` made of one value for another that nobody
/// stated stays: beside a `precision` that is assigned, `fusion = plan::fusion_of(scenario, false)` gives what the
/// setting `precision` would. Another model, node, GPU or network decides much else (links, transport, precision,
/// fusion): resolve such settings anew, which takes microseconds.
struct Scenario : plan::Job {
  std::optional<answer::Fidelity> fidelity;  // nothing: event where what follows asks for it, else analytic where the
                                             // model has layers, else aggregate
  Stated<std::int64_t> jobs = by_default(std::int64_t{1});  // alike jobs on the same servers' network ports
  Stated<Time> jobs_offset = by_default(Time::zero());      // between the starts of two of them
  std::shared_ptr<const OwnRuns> own_runs;                  // measured, may be null; set by `corrected` alone
  std::vector<OtherJob> other_jobs;                         // unlike this one, beside it
  Stated<std::optional<Bandwidth>> leaf_uplink;             // that all jobs' traffic crosses; nothing: it never fills
  TrainingRun training;                                     // how long the job runs, and what that is asked for
  Failures failures;                                        // how often its parts fail, and what follows
  Checkpoints checkpoints;                                  // of a run that fails
  bool price_stated = false;                                // of a server: cluster.node.price is not the catalogue's
  std::vector<std::string> prices_elsewhere;                // stated of servers by name that are no servers of this job
  std::optional<std::int64_t> batch_taken;                  // nobody stated one, and the model's own does not divide
                                                            // the stated global batch
  std::optional<std::int64_t> ports_taken;                  // of the stated rate of the network: nobody said how many
  std::optional<hardware::NetworkTransport> own_transport;  // of the network that a stated rate took the place of
  std::vector<std::string> host_stated;                     // settings of the server's storage and processors
  std::vector<std::string> own_stated;                      // those of the job whose values do not say who stated them
  std::optional<Precision> precision_taken;                 // nobody stated one: plan::usual_precision
  std::string framework;                                    // whose way the strategy is, for a title; may be empty
};

/// One thing a scenario can be told.
struct SettingInfo {
  std::string path;
  std::string meaning;
  std::string example;
};

[[nodiscard]] std::vector<SettingInfo> settings();
/// Whether there are such settings. Errors: kNotFound for all others, with what they may have meant.
[[nodiscard]] Expected<void> check_paths(std::span<const Override> stated);

/// Resolves the settings against a catalog. Needs `model` and `node`; everything else has a default. What
/// `other_jobs.N` does not say of its servers and network is as this job's.
[[nodiscard]] Expected<Scenario> resolve(const io::Catalog& catalog, std::span<const Override> stated);

/// The same with a model that is in no catalog; `model` need not be among the settings.
[[nodiscard]] Expected<Scenario> resolve(const io::Catalog& catalog, std::span<const Override> stated,
                                         std::shared_ptr<const workload::Model> model);

/// A scenario without a model, for questions about the cluster alone. Needs `node`; settings of a model are passed
/// over, those of a job do no harm.
[[nodiscard]] Expected<Scenario> resolve_cluster(const io::Catalog& catalog, std::span<const Override> stated);

/// The settings of a scenario file: a YAML map whose nested keys join with dots (`gpu: {memory_bandwidth: 2 TB/s}` is
/// `gpu.memory_bandwidth`; the entries of the list `other_jobs` are `other_jobs.0`, `other_jobs.1`, ...). The value of
/// a map that has both, `gpu: {name: h100, memory_bandwidth: ...}`, is its `name`.
[[nodiscard]] Expected<std::vector<Override>> load_scenario(const std::filesystem::path& path);

/// "ResNet-50 v1.5, 64 images per GPU, fp32, ps, on 4 x NVIDIA DGX-1 (32 GPUs), 25 Gb/s network"
[[nodiscard]] std::string describe(const Scenario& scenario);

}  // namespace ddlsim::whatif
