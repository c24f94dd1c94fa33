// The whole-step model of Wang et al., "Characterizing Deep Learning Training Workloads on Alibaba-PAI", IISWC 2019
// (arXiv 1910.05930): the `aggregate` fidelity.
//
//   T = T_d + T_c + T_w                     no overlap;   ideal overlap: max(T_d, T_c, T_w)
//   T_d = S_d / B_pcie                      input data, host to GPU
//   T_c = FLOPs / peak + S_mem / B_mem      compute-bound and memory-bound operators are added
//   T_w = sum over the links of S_w / B_link
//
//   architecture         links that carry the weight traffic S_w
//   1w1g                 none
//   1wng                 PCIe
//   PS/Worker            network, then PCIe
//   AllReduce-Local      NVLink
//   AllReduce-Cluster    network, then NVLink
//   PEARL                NVLink, and the network when the GPUs do not fit one server
//
// Every rate is multiplied by its efficiency, 70 % by default. All rates are per direction.
//
// Sharing: the GPUs of one server that a job uses share its PCIe uplinks, for input and weights alike
// (ceil(k / uplinks) of them on one), and PS/Worker workers and PEARL's GPUs of one server share its network port (a
// ring enters a server once, an exchange of embeddings once per GPU). The paper's clusters have one worker per server
// and one uplink; that is the default.
//
// Limits: one job alone; no latency, no per-layer effect, no server-side limit of a parameter server; S_w is a feature
// of the job and does not depend on the number of workers.
//
// Worked example (base setting 11 TFLOP/s, 1 TB/s, 10 GB/s PCIe, 25 Gb/s, 50 GB/s NVLink, efficiency 1): a PS/Worker
// job with S_w = 1 GB and nothing else takes 1/3.125 + 1/10 = 0.42 s; on AllReduce-Local 1/50 = 0.02 s: 21 times
// faster; on AllReduce-Cluster 1/3.125 + 1/50 = 0.34 s: 1.235 times.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "ddlsim/plan/efficiency.h"
#include "ddlsim/support/units.h"
#include "ddlsim/workload/model.h"

namespace ddlsim::cost {

/// What a cNode has to work with. `network` is a whole server's, the others are one GPU's.
struct PaiSetting {
  ComputeRate peak{};
  Bandwidth memory{};
  Bandwidth pcie{};
  Bandwidth nvlink{};  // of PCIe where the GPUs have no NVLink
  Bandwidth network{};
  plan::Efficiency efficiency{};
  std::int64_t gpus_per_server = 8;     // the most an AllReduce-Local job can use
  std::int64_t workers_per_server = 1;  // of PS/Worker and AllReduce-Cluster
  std::int64_t pcie_uplinks = 1;
};

struct PaiJob {
  workload::StepFeatures features{};  // of one step of one cNode
  workload::Architecture architecture = workload::Architecture::k1w1g;
  std::int64_t cnodes = 1;
};

/// The parts of one step. A link that the architecture does not use has zero.
struct PaiStep {
  Time input{};
  Time compute{};
  Time memory{};
  Time network{};
  Time pcie{};
  Time nvlink{};

  [[nodiscard]] constexpr Time calculation() const { return compute + memory; }
  [[nodiscard]] constexpr Time weights() const { return network + pcie + nvlink; }
  [[nodiscard]] constexpr Time no_overlap() const { return input + calculation() + weights(); }
  [[nodiscard]] constexpr Time ideal_overlap() const { return max(input, max(calculation(), weights())); }
};

/// How many of a job's GPUs sit in one server.
[[nodiscard]] constexpr std::int64_t gpus_in_one_server(const PaiJob& job, const PaiSetting& setting) {
  using workload::Architecture;
  switch (job.architecture) {
    case Architecture::k1w1g: return 1;
    case Architecture::k1wng: return job.cnodes;
    case Architecture::kPsWorker:
    case Architecture::kAllReduceCluster: return std::min(job.cnodes, setting.workers_per_server);
    case Architecture::kAllReduceLocal:
    case Architecture::kPearl: return std::min(job.cnodes, setting.gpus_per_server);
  }
  return 1;
}

/// One step of `job`. Requires positive rates and cnodes >= 1.
[[nodiscard]] constexpr PaiStep pai_step(const PaiJob& job, const PaiSetting& setting) {
  using workload::Architecture;
  const plan::Efficiency& share = setting.efficiency;
  const workload::StepFeatures& features = job.features;
  const std::int64_t local = gpus_in_one_server(job, setting);
  const std::int64_t fullest_uplink = (local + setting.pcie_uplinks - 1) / setting.pcie_uplinks;
  const auto on_one_uplink = static_cast<double>(fullest_uplink);
  const DataSize over_pcie = features.weight_traffic * on_one_uplink;
  const Bandwidth pcie = setting.pcie * share.pcie;

  PaiStep step;
  step.input = features.input * on_one_uplink / pcie;
  step.compute = features.flops / (setting.peak * share.compute);
  step.memory = features.memory_access / (setting.memory * share.memory);
  const auto network_time = [&](double sharers) {
    return features.weight_traffic * sharers / (setting.network * share.network);
  };
  const auto nvlink_time = [&] { return features.weight_traffic / (setting.nvlink * share.nvlink); };
  switch (job.architecture) {
    case Architecture::k1w1g: break;
    case Architecture::k1wng: step.pcie = over_pcie / pcie; break;
    case Architecture::kPsWorker:
      step.network = network_time(static_cast<double>(local));
      step.pcie = over_pcie / pcie;
      break;
    case Architecture::kAllReduceLocal: step.nvlink = nvlink_time(); break;
    case Architecture::kAllReduceCluster:
      step.network = network_time(1.0);
      step.nvlink = nvlink_time();
      break;
    case Architecture::kPearl:
      if (job.cnodes > setting.gpus_per_server) step.network = network_time(static_cast<double>(local));
      step.nvlink = nvlink_time();
      break;
  }
  return step;
}

/// Many jobs in one setting. `steps` must be as long as `jobs`.
void pai_steps(std::span<const PaiJob> jobs, const PaiSetting& setting, std::span<PaiStep> steps);

/// The job on AllReduce-Local: as many cNodes as one server holds, at most.
[[nodiscard]] PaiJob ported_to_allreduce_local(const PaiJob& job, const PaiSetting& setting);
/// The job on AllReduce-Cluster, with the cNodes it has.
[[nodiscard]] PaiJob ported_to_allreduce_cluster(const PaiJob& job);

}  // namespace ddlsim::cost
