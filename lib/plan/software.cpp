#include "ddlsim/plan/software.h"

#include <algorithm>
#include <numbers>
#include <variant>

#include "ddlsim/support/portable_math.h"

namespace ddlsim::plan {
namespace {

using Feature = hardware::SoftwareFeature;
using hardware::GpuGeneration;
using hardware::SoftwareFactor;

constexpr double kFewerWhenFused = 0.5;  // of small kernels
constexpr double kNobodySays = 0.5;      // between code that is fused and code that is not

/// 0 where tensor cores are 8 times as fast as FP32 (Volta, Turing) and less, 1 where 16 times (GA100), 2 where 32
/// times and more (Blackwell in data centres: 28): what convolutions read from memory to them does not keep up.
double wide_cores(const hardware::Gpu& gpu) {
  const auto half = gpu.peak.at(Precision::kFp16);
  return half ? std::clamp(portable_log2(*half / gpu.peak.fp32) - 3, 0.0, 2.0) : 0.0;
}

bool has_halves(const Job& job) { return job.precision == Precision::kFp16 || job.precision == Precision::kBf16; }

/// Images are of 16 bits where products are of fewer.
bool on_half_units(const Job& job) {
  return runs_on_half_units(job.cluster.node.gpu, is_cast(job.precision) ? Precision::kBf16 : job.precision);
}

bool has_software(const Job& job) { return job.software != nullptr && job.model->has_layers() && !job.model->measured; }

SoftwareFactor factor_of(const hardware::SoftwareProfile& software, const SoftwareFeatures& values) {
  double all = 0;
  double arithmetic = 0;
  double memory = 0;
  double small = 0;
  for (const hardware::SoftwareEffect& one : software.effects) {
    double& sum = one.feature == Feature::kSmallKernels ? small
                  : is_of_arithmetic(one.feature)       ? arithmetic
                  : is_of_memory(one.feature)           ? memory
                                                        : all;
    sum += one.effect * values[static_cast<std::size_t>(one.feature)];
  }
  const double of_memory = portable_exp2((all + memory) * std::numbers::log2e);
  return {.compute = portable_exp2((all + arithmetic) * std::numbers::log2e),
          .memory = of_memory,
          .update = of_memory,
          .small = std::clamp(small, 0.0, hardware::kMostOfSmallKernels)};
}

}  // namespace

SoftwareFeatures software_features(const Job& job) {
  SoftwareFeatures values{};
  const auto set = [&](Feature feature, double value) { values[static_cast<std::size_t>(feature)] = value; };
  const workload::Totals& totals = job.model->totals;
  const hardware::Gpu& gpu = job.cluster.node.gpu;
  const bool half = job.precision != Precision::kTf32 && !multiplies_as_fp32(gpu, job.precision);
  const GpuGeneration generation = gpu.nccl_tuning.value_or(GpuGeneration::kPascal);
  set(Feature::kAlways, 1);
  const bool single = is_single(job.precision);
  // Hopper's convolutions and what lies between them were measured (bench/calibrate/measured); other chips as wide
  // borrow its curves.
  const bool hopper = generation == GpuGeneration::kHopper;
  const bool measured_images = hopper && totals.convolutional;
  set(Feature::kMemory32, single && generation >= GpuGeneration::kAmpere && !measured_images ? 1 : 0);
  set(Feature::kMemoryDepthwise, totals.convolutional && totals.depthwise ? 1 : 0);
  const double attention = half && totals.attention ? 1 : 0;
  set(Feature::kAttention, attention);
  const double convolution = half && totals.convolutional ? 1 : 0;
  const auto& said = job.software_fused.get();
  const double fused = !said ? kNobodySays : *said ? 1.0 : 0.0;
  set(Feature::kMemoryFused, attention * fused);
  set(Feature::kConvolution, convolution * (1 - fused));
  set(Feature::kWideConvolution, measured_images ? 0 : convolution * wide_cores(gpu));
  set(Feature::kRecurrent, totals.recurrent ? 1 : 0);
  const bool may_fuse = attention > 0 || convolution > 0 || (said && half);
  const bool follow_at_once = job.cuda_graphs && attention > 0;
  set(Feature::kSmallKernels, follow_at_once ? 0 : 1 - (may_fuse ? (1 - kFewerWhenFused) * fused : 0));
  const bool volta = generation == GpuGeneration::kVolta && gpu.architecture != "Turing";
  set(Feature::kVolta, volta ? 1 : 0);
  set(Feature::kAda, gpu.kernels_of == "Ampere" ? 1 : 0);
  set(Feature::kUltra, gpu.architecture == "Blackwell Ultra" ? 1 : 0);
  set(Feature::kEightBits, job.precision == Precision::kFp8 || job.precision == Precision::kFp4 ? 1 : 0);
  set(Feature::kFourBits, job.precision == Precision::kFp4 ? 1 : 0);
  set(Feature::kNoProfile, gpu.profiles->empty() ? 1 : 0);
  set(Feature::kShared, portable_log2(static_cast<double>(std::max<std::int64_t>(job.cluster.gpus_per_node, 1))));
  const auto& year = job.software_year.get();
  const double years = job.software && year ? std::max(job.software->newest - *year, 0.0) / 3 : 0;
  set(Feature::kYears, years);
  return values;
}

bool runs_flash_attention(const Job& job) {
  constexpr double kSince = 2023;
  const bool modern = job.software_year.get().value_or(kSince) >= kSince;
  return modern && job.cluster.node.gpu.peak.bf16 && job.model->has_layers() && !job.model->measured;
}

bool joins_pointwise(const Job& job) {
  const bool narrow = !is_single(job.precision);
  return narrow && job.software_fused.get().value_or(false) && job.model->totals.convolutional &&
         job.model->has_layers() && !job.model->measured;
}

std::optional<Precision> usual_precision(const Job& job) {
  const auto causal = [](const workload::Layer& layer) {
    const auto* single = layer.op ? std::get_if<workload::Attention>(&*layer.op) : nullptr;
    const auto* grouped = layer.op ? std::get_if<workload::GroupedAttention>(&*layer.op) : nullptr;
    return (single != nullptr && single->causal) || (grouped != nullptr && grouped->causal);
  };
  const auto& layers = job.model->layers;
  if (job.model->measured || std::none_of(layers.begin(), layers.end(), causal)) return std::nullopt;
  return half_precision(job.cluster.node.gpu);
}

Precision half_precision(const hardware::Gpu& gpu) {
  if (gpu.peak.bf16) return Precision::kBf16;
  return gpu.peak.fp16 && !multiplies_as_fp32(gpu, Precision::kFp16) ? Precision::kFp16 : Precision::kFp32;
}

namespace {

GpuGeneration generation_of(const Job& job) {
  return job.cluster.node.gpu.nccl_tuning.value_or(GpuGeneration::kPascal);
}

}  // namespace

bool turns_by_profile(const Job& job) { return on_half_units(job) && generation_of(job) == GpuGeneration::kVolta; }

bool layout_matters(const Job& job) { return on_half_units(job) && generation_of(job) >= GpuGeneration::kVolta; }

bool transposes_images(const Job& job) {
  return job.software_layout == ImageLayout::kChannelsFirst && layout_matters(job) && !turns_by_profile(job);
}

bool channels_first(const Job& job) {
  const bool last = job.software_layout == ImageLayout::kChannelsLast;
  return !last || (!job.software_layout.stated() && (!layout_matters(job) || turns_by_profile(job)));
}

bool spares_turning(const Job& job) {
  const bool said = job.software_layout.stated() && job.software_layout == ImageLayout::kChannelsLast;
  return said && turns_by_profile(job);
}

bool has_old_recurrences(const Job& job) {
  constexpr double kSince = 2019;
  return job.software_year.get().value_or(kSince) < kSince;
}

workload::Fusion fusion_of(const Job& job, bool stated) {
  workload::Fusion fusion = job.fusion;
  if (!stated) fusion = {.pointwise = joins_pointwise(job), .attention = runs_flash_attention(job)};
  fusion.apart = stated && !fusion.attention;
  fusion.transposes = transposes_images(job);
  fusion.composed = job.software_operators == OperatorKernels::kComposed;
  fusion.single = job.software_fused.get() == false;
  fusion.autocast = has_halves(job) && job.software_operators == OperatorKernels::kAutocast;
  return fusion;
}

workload::Fusion fusion_as_run(const Job& job) {
  workload::Fusion fusion = job.fusion;
  fusion.apart = fusion.apart && !goes_round(job.parallel);
  return fusion;
}

SoftwareFactor software_factor(const Job& job) {
  if (job.software_of_whole) return *job.software_of_whole;
  if (!has_software(job)) return {};
  return factor_of(*job.software, software_features(job));
}

std::optional<std::pair<SoftwareFactor, SoftwareFactor>> software_factor_range(const Job& job) {
  if (!has_software(job)) return std::nullopt;
  Job one = job;
  one.software_fused = std::optional<bool>(true);
  const SoftwareFactor fused = software_factor(one);
  one.software_fused = std::optional<bool>(false);
  const SoftwareFactor single = software_factor(one);
  if (fused == single) return std::nullopt;
  return std::pair(fused, single);
}

}  // namespace ddlsim::plan
