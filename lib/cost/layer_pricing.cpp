#include "layer_pricing.h"

#include "ddlsim/hardware/gpu_profile.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/plan/software.h"

namespace ddlsim::cost {
namespace {

ProfileInUse in_use(const plan::Job& job, const hardware::MeasuredProfile& one) {
  const hardware::Gpu& gpu = job.cluster.node.gpu;
  ProfileInUse use{.profile = one.profile.get(), .borrowed = is_borrowed(gpu, one)};
  if (use.borrowed && one.profile->gpu == gpu.id) {
    use.measured_at = hardware::device_spec(gpu, job.precision);
    use.measured_at->peak = one.peak.at(job.precision).value_or(ComputeRate{});
    use.measured_at->memory = one.memory_bandwidth;
  }
  return use;
}

Time recurrent_chain_of(const plan::Job& job) {
  if (job.cuda_graphs) return Time::zero();
  return plan::has_old_recurrences(job) ? kRecurrentChain : kRecurrentChainSince2019;
}

}  // namespace

LayerPricing::LayerPricing(const plan::Job& job, const ReachedRates& rates, std::pair<double, double> assumed_interval)
    : job_(job),
      calibrated_(by_profiles(job)),
      calibration_{.profiles = {},
                   .gpu = job.cluster.node.gpu,
                   .assumed = rates.device,
                   .assumed_interval = assumed_interval,
                   .attention = job.software_attention,
                   .fuses_pointwise = job.fusion.pointwise,
                   .spares_turning = plan::spares_turning(job),
                   .recurrent_chain = recurrent_chain_of(job)} {
  if (!calibrated_) return;
  for (const hardware::MeasuredProfile& one : job.cluster.node.gpu.profiles.get()) {
    calibration_.profiles.push_back(in_use(job, one));
  }
}

CalibratedTimes LayerPricing::times(std::span<const workload::Layer> layers, DataSize updated,
                                    std::optional<std::size_t> input) const {
  const auto batch = static_cast<double>(job_.batch);
  const DataSize accumulated = plan::accumulated_per_parameter(job_);
  if (calibrated_) {
    return calibrated_times(layers, calibration_, batch, job_.precision, {updated, accumulated}, input);
  }
  const DataSize activation = activation_size(job_.precision);
  const DeviceRates& device = calibration_.assumed;
  CalibratedTimes times;
  for (const workload::Layer& layer : layers) {
    times.layers.push_back({layer_time(layer, Pass::kForward, batch, activation, device),
                            layer_time(layer, Pass::kBackward, batch, activation, device)});
    times.layers.back().backward.memory += accumulated_by(layer, accumulated) / device.memory;
  }
  times.update = updated / device.memory;
  return times;
}

}  // namespace ddlsim::cost
