#include "ddlsim/cost/pai.h"

namespace ddlsim::cost {

void pai_steps(std::span<const PaiJob> jobs, const PaiSetting& setting, std::span<PaiStep> steps) {
  for (std::size_t i = 0; i < jobs.size(); ++i) steps[i] = pai_step(jobs[i], setting);
}

PaiJob ported_to_allreduce_local(const PaiJob& job, const PaiSetting& setting) {
  return {job.features, workload::Architecture::kAllReduceLocal, std::min(job.cnodes, setting.gpus_per_server)};
}

PaiJob ported_to_allreduce_cluster(const PaiJob& job) {
  return {job.features, workload::Architecture::kAllReduceCluster, job.cnodes};
}

}  // namespace ddlsim::cost
