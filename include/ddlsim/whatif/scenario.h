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
#include "ddlsim/cost/collective.h"
#include "ddlsim/cost/efficiency.h"
#include "ddlsim/cost/parameter_server.h"
#include "ddlsim/hardware/gpu_profile.h"
#include "ddlsim/hardware/node.h"
#include "ddlsim/io/catalog.h"
#include "ddlsim/plan/strategy.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/precision.h"
#include "ddlsim/workload/fusion.h"
#include "ddlsim/workload/model.h"

namespace ddlsim::whatif {

struct Override {
  std::string path;
  std::string value;
  SourceLocation where;  // of a file; empty for a flag
};

/// Median time of cudaLaunchKernel on an H100 host in TrioSim's public profiler traces (tracer/data/profiler).
inline constexpr Time kDefaultLaunchInterval = microseconds(6);

/// What summing gradients reaches of two sockets of four DDR4-2400 channels (153.6 GB/s); assumed.
inline constexpr Bandwidth kDefaultServerMemory = gigabytes_per_second(60);

/// Of ResNet-50 on 2 to 16 nodes of Piz Daint with one P100 each (eth-cscs/sarus, Horovod with MPI, 50 runs per point):
/// 229.8 images/s per GPU fall to 227.5 while E(n) of cost/straggler.h grows from 0.59 to 1.78.
inline constexpr double kDefaultJitter = 0.01;

/// A profile that may answer for the scenario's GPU.
struct ChosenProfile {
  std::shared_ptr<const hardware::GpuProfile> profile;
  bool borrowed = false;  // measured on another GPU, or on another datasheet than stated
};

struct Scenario {
  std::shared_ptr<const workload::Model> model;
  hardware::Cluster cluster;
  plan::Strategy strategy;
  std::int64_t batch = 1;  // samples per GPU and step
  Precision precision = Precision::kFp32;
  std::optional<answer::Fidelity> fidelity;  // nothing: event where what follows asks for it, else analytic where the
                                             // model has layers, else aggregate
  std::int64_t jobs = 1;                     // alike jobs on the same servers' network ports
  Time jobs_offset{};                        // between the starts of two of them
  double straggler = 1;                      // how many times as slow some of the job's GPUs are
  std::int64_t stragglers = 1;               // how many are
  std::optional<plan::Overlap> overlap;      // nothing: backward (analytic), none (aggregate)
  cost::Efficiency efficiency;
  std::string calibration = "auto";     // which profile was asked for
  std::vector<ChosenProfile> profiles;  // of the GPU's kernels, the nearest first; none: the shares of `efficiency`
  cost::CollectiveLibrary collective;
  std::shared_ptr<const cost::CollectiveTable> collective_table;  // measured, may be null
  std::optional<cost::NetworkTransport> transport;                // nothing: as the link's name says
  std::optional<cost::PsTransport> ps_transport;                  // nothing: the network's own rate
  Bandwidth server_memory = kDefaultServerMemory;
  double jitter = kDefaultJitter;  // standard deviation of one GPU's step, as a share
  double gpu_time_factor = 1;      // on all GPU time, where a measurement says so
  bool gpu_time_measured = false;  // whether that factor is from a measured step of this model on this GPU
  std::string framework;           // whose way the strategy is; empty: no framework named
  Time launch_interval = kDefaultLaunchInterval;
  workload::Fusion fusion;
  bool cuda_graphs = false;         // kernels are launched together: the GPU waits for no launch
  std::vector<std::string> stated;  // paths of the settings that made it
};

/// One thing a scenario can be told.
struct SettingInfo {
  std::string path;
  std::string meaning;
  std::string example;
};

[[nodiscard]] std::vector<SettingInfo> settings();

/// Resolves the settings against a catalog. Needs `model` and `node`; everything else has a default.
[[nodiscard]] Expected<Scenario> resolve(const io::Catalog& catalog, std::span<const Override> stated);

/// A scenario without a model, for questions about the cluster alone. Needs `node`; settings of a model are passed
/// over, those of a job do no harm.
[[nodiscard]] Expected<Scenario> resolve_cluster(const io::Catalog& catalog, std::span<const Override> stated);

/// The settings of a scenario file: a YAML map whose nested keys join with dots (`gpu: {memory_bandwidth: 2 TB/s}` is
/// `gpu.memory_bandwidth`). The value of a map that has both, `gpu: {name: h100, memory_bandwidth: ...}`, is its
/// `name`.
[[nodiscard]] Expected<std::vector<Override>> load_scenario(const std::filesystem::path& path);

/// "ResNet-50 v1.5, 64 images per GPU, fp32, ps, on 4 x NVIDIA DGX-1 (32 GPUs), 25 Gb/s network"
[[nodiscard]] std::string describe(const Scenario& scenario);

}  // namespace ddlsim::whatif
