#include "layer_pricing.h"

#include <algorithm>
#include <tuple>

#include "ddlsim/hardware/gpu_profile.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/plan/software.h"

namespace ddlsim::cost {
namespace {

ProfileInUse in_use(const PriceInputs& inputs, const hardware::MeasuredProfile& one) {
  ProfileInUse use{.profile = one.profile.get(), .borrowed = is_borrowed(*inputs.gpu, one)};
  if (use.borrowed && one.own) use.measured_at = {one.peak, one.memory_bandwidth};
  return use;
}

Time recurrent_chain_of(const plan::Job& job) {
  if (job.cuda_graphs) return Time::zero();
  return plan::has_old_recurrences(job) ? kRecurrentChain : kRecurrentChainSince2019;
}

/// Kernels that wait for the one before: a recurrent layer's steps.
double recurrent_steps(const std::vector<primitives::Kernel>& kernels) {
  double steps = 0;
  for (const primitives::Kernel& kernel : kernels) {
    const auto* one = std::get_if<primitives::MemoryBoundKernel>(&kernel.shape);
    if (one == nullptr || one->kind != primitives::MemoryBoundKind::kRecurrent) continue;
    steps += static_cast<double>(kernel.times);
  }
  return steps;
}

/// What no framework trains in 8 or 4 bits: convolutions, and products of attention, which have no weights.
bool stays_in_bf16(const workload::Layer& layer) {
  if (!layer.op) return false;
  return std::holds_alternative<workload::Convolution>(*layer.op) ||
         std::holds_alternative<workload::Attention>(*layer.op) ||
         std::holds_alternative<workload::GroupedAttention>(*layer.op) ||
         std::holds_alternative<workload::LinearAttention>(*layer.op);
}

/// What kernels' times read of a GPU.
bool same_rates(const hardware::Gpu& a, const hardware::Gpu& b) {
  return a.id == b.id && a.peak == b.peak && a.memory_bandwidth == b.memory_bandwidth && a.sm_count == b.sm_count &&
         a.l2 == b.l2 && a.nccl_tuning == b.nccl_tuning;
}

/// A profile is a value of its own, shared by all GPUs that have it.
bool same_profiles(const hardware::Gpu& a, const hardware::Gpu& b) {
  const auto& left = a.profiles.get();
  const auto& right = b.profiles.get();
  const auto same = [](const hardware::MeasuredProfile& one, const hardware::MeasuredProfile& other) {
    return one.profile == other.profile && one.peak == other.peak && one.memory_bandwidth == other.memory_bandwidth &&
           one.sm_count == other.sm_count && one.own == other.own;
  };
  return std::equal(left.begin(), left.end(), right.begin(), right.end(), same);
}

}  // namespace

Surcharge surcharge_of(const plan::Job& job) {
  const hardware::SoftwareFactor factor = plan::software_factor(job);
  return {std::max(1 - factor.compute / factor.memory, 0.0), std::max(1 - factor.memory / factor.compute, 0.0)};
}

LayerTime with_software(const LayerTime& time, int kernels, const hardware::SoftwareFactor& factor) {
  const Time bare = time.kernels();
  const Time gaps = hardware::small_kernels_time(factor.small, bare, kernels);
  const double more = gaps > Time::zero() ? 1 + gaps / bare : 1.0;
  return {time.compute * (factor.compute * more), time.memory * (factor.memory * more), time.host};
}

std::span<const workload::Layer> list_of(const plan::Chunk& chunk, std::vector<workload::Layer>& copies) {
  if (!chunk.which) return std::span(*chunk.layers).subspan(chunk.first, chunk.count);
  for (std::size_t i = 0; i < chunk.count; ++i) copies.push_back(chunk[i]);
  return copies;
}

std::optional<std::size_t> input_of(const plan::Chunk& chunk) {
  for (std::size_t i = 0; i < chunk.count; ++i) {
    if (chunk.place(i) == 0) return i;
    if (!chunk.which) break;
  }
  return std::nullopt;
}

std::optional<DrawnByPass> drawn_by_pass(const plan::Job& job, const plan::StepPlan& plan, const LayerPrices& layers,
                                         const PassSoftware& software, const BareTime& time_of) {
  const hardware::Gpu& gpu = job.cluster.node.gpu;
  if (!limited_by_power(job)) return std::nullopt;
  const auto batch = static_cast<double>(job.batch);
  const DataSize activation = activation_size(job.precision);
  DrawnByPass all;
  for (std::size_t c = 0; c < plan.classes.size(); ++c) {
    const plan::Chunk& chunk = plan.classes[c].chunk;
    for (std::size_t i = 0; i < chunk.count; ++i) {
      const workload::Layer& layer = chunk[i];
      const auto energy = drawn_per_flop(layer, gpu, job.precision);
      if (!energy) return std::nullopt;
      const double times = job.stands_for ? (*job.stands_for)[chunk.place(i)] : 1.0;
      for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
        const int kernels = pass == Pass::kForward ? layer.forward_kernels : layer.backward_kernels;
        const LayerTime bare = time_of(layer, layers.layers[layers.first[c] + i], pass);
        const LayerTime time = with_software(bare, kernels, software.factor);
        all.arithmetic += *energy * layer_work(layer, pass, batch) * times;
        all.memory += gpu.draw->memory * layer_traffic(layer, pass, batch, activation) * times;
        all.compute += time.compute * times;
        all.rest += (time.memory + time.host * software.host) * times;
      }
    }
  }
  return all;
}

DeviceRates rates_for(const workload::Layer& layer, DeviceRates rates, Precision precision) {
  if (is_cast(precision) && stays_in_bf16(layer) && rates.bf16 > ComputeRate{}) rates.compute = rates.bf16;
  return rates;
}

bool operator==(const PriceInputs& a, const PriceInputs& b) {
  const auto values = [](const PriceInputs& one) {
    return std::tie(one.by_profiles, one.assumed, one.precision, one.batch, one.accumulated, one.attention,
                    one.surcharge, one.fuses_pointwise, one.spares_turning, one.channels_first, one.recurrent_chain,
                    one.limited_by_power);
  };
  const bool same_power = !a.limited_by_power || (a.gpu->draw == b.gpu->draw && a.gpu->tdp == b.gpu->tdp);
  return values(a) == values(b) && same_power && same_rates(*a.gpu, *b.gpu) &&
         (!a.by_profiles || same_profiles(*a.gpu, *b.gpu));
}

bool limited_by_power(const plan::Job& job) {
  return job.cluster.node.gpu.draw && !job.model->measured && !job.efficiency.compute.stated();
}

Expected<PriceInputs> price_inputs(const plan::Job& job) {
  auto assumed = device_rates(job);
  if (!assumed) return tl::unexpected<Error>(assumed.error());
  return PriceInputs{.gpu = &job.cluster.node.gpu,
                     .by_profiles = by_profiles(job),
                     .assumed = *assumed,
                     .precision = job.precision,
                     .batch = job.batch,
                     .accumulated = plan::accumulated_per_parameter(job),
                     .attention = job.software_attention,
                     .surcharge = surcharge_of(job),
                     .fuses_pointwise = job.fusion.pointwise,
                     .spares_turning = plan::spares_turning(job),
                     .channels_first = plan::channels_first(job),
                     .recurrent_chain = recurrent_chain_of(job),
                     .limited_by_power = limited_by_power(job)};
}

LayerPricing::LayerPricing(const PriceInputs& inputs, std::pair<double, double> assumed_interval)
    : inputs_(inputs),
      calibration_{.profiles = {},
                   .gpu = *inputs.gpu,
                   .assumed = inputs.assumed,
                   .assumed_interval = assumed_interval,
                   .attention = inputs.attention,
                   .surcharge = inputs.surcharge,
                   .fuses_pointwise = inputs.fuses_pointwise,
                   .spares_turning = inputs.spares_turning,
                   .channels_first = inputs.channels_first,
                   .recurrent_chain = inputs.recurrent_chain} {
  if (!calibrated()) return;
  for (const hardware::MeasuredProfile& one : inputs.gpu->profiles.get()) {
    calibration_.profiles.push_back(in_use(inputs, one));
  }
}

CalibratedTimes LayerPricing::times(std::span<const workload::Layer> layers, DataSize updated,
                                    std::optional<std::size_t> input) const {
  const auto batch = static_cast<double>(inputs_.batch);
  if (calibrated()) {
    return calibrated_times(layers, calibration_, batch, inputs_.precision, {updated, inputs_.accumulated}, input);
  }
  const DataSize activation = activation_size(inputs_.precision);
  const DeviceRates& device = calibration_.assumed;
  CalibratedTimes times;
  for (const workload::Layer& layer : layers) {
    const DeviceRates rates = rates_for(layer, device, inputs_.precision);
    times.layers.push_back({layer_time(layer, Pass::kForward, batch, activation, rates, inputs_.surcharge),
                            layer_time(layer, Pass::kBackward, batch, activation, rates, inputs_.surcharge)});
    times.layers.back().forward.host += inputs_.recurrent_chain * recurrent_steps(layer.forward);
    times.layers.back().backward.host += inputs_.recurrent_chain * recurrent_steps(layer.backward);
    times.layers.back().accumulation = accumulated_by(layer, inputs_.accumulated) / device.memory;
    times.layers.back().backward.memory += times.layers.back().accumulation;
  }
  times.update = updated / device.memory;
  return times;
}

LayerTime varied(const LayerTime& time, const Variation& variation) {
  return {time.compute / variation.compute, time.memory / variation.memory, time.host};
}

void block(PricedClass& priced, Time launch) {
  for (PricedLayers* pass : {&priced.forward, &priced.backward, &priced.backward_input, &priced.backward_weights}) {
    std::vector<PricedLayer> layers(pass->begin(), pass->end());
    for (PricedLayer& layer : layers) {
      const Time waits = launch * layer.kernels;
      layer.time += waits;
      layer.host += waits;
    }
    *pass = std::move(layers);
  }
}

}  // namespace ddlsim::cost
