#include "ddlsim/calib/fit.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "ddlsim/calib/attention_fit.h"
#include "ddlsim/calib/convolution_fit.h"
#include "ddlsim/calib/gemm_fit.h"
#include "ddlsim/calib/memory_bound_fit.h"
#include "ddlsim/calib/robust.h"
#include "ddlsim/cost/gemm_time.h"

namespace ddlsim::calib {

namespace {

/// A table of more is no longer a model's own shapes, but a study.
constexpr std::size_t kMostKept = 500;

tl::unexpected<Error> named(Error error, const std::string& curve) {
  error.message = curve + ": " + error.message;
  return tl::unexpected<Error>(std::move(error));
}

Expected<void> fit_all_gemms(std::span<const primitives::KernelMeasurement> rows, const hardware::Gpu& gpu,
                             const FitOptions& options, hardware::GpuProfile& profile) {
  std::map<std::pair<Precision, bool>, std::vector<GemmRow>> groups;
  for (const primitives::KernelMeasurement& row : rows) {
    const auto* gemm = std::get_if<primitives::Gemm>(&row.what);
    if (gemm == nullptr || row.left_out) continue;
    groups[{row.precision, gemm->batch_count > 1}].push_back(
        {{static_cast<double>(gemm->batch_count), static_cast<double>(gemm->m), static_cast<double>(gemm->n),
          static_cast<double>(gemm->k)},
         row.time});
  }
  for (const auto& [key, group] : groups) {
    GemmFitOptions fit;
    fit.measured = options.measured;
    auto curve = fit_gemms(group, hardware::device_spec(gpu, key.first), key.first, fit);
    if (!curve) {
      return named(curve.error(), "GEMMs in " + std::string(name_of(kPrecisions, key.first)));
    }
    curve->batched = key.second;
    profile.gemms.push_back(std::move(*curve));
  }
  return {};
}

/// The convolutions as they were measured, less what measuring added; those at the floor say nothing.
void keep_measured(const std::vector<ConvolutionRow>& rows, const hardware::ConvolutionCurve& curve,
                   hardware::GpuProfile& profile) {
  if (rows.size() > kMostKept) return;
  for (const ConvolutionRow& row : rows) {
    const Time kernel = row.time - overhead_of(curve, row.rows_before);
    if (row.time <= curve.implicit_gemm.floor || !(kernel > Time::zero())) continue;
    profile.measured_convolutions.push_back({curve.precision, row.shape, row.batch, kernel});
  }
  std::stable_sort(profile.measured_convolutions.begin(), profile.measured_convolutions.end(), hardware::ByShape{});
}

Expected<void> fit_all_convolutions(std::span<const primitives::KernelMeasurement> rows, const hardware::Gpu& gpu,
                                    const FitOptions& options, hardware::GpuProfile& profile) {
  std::map<Precision, std::vector<ConvolutionRow>> groups;
  for (const primitives::KernelMeasurement& row : rows) {
    const auto* convolution = std::get_if<primitives::TimedConvolution>(&row.what);
    if (convolution == nullptr || row.left_out) continue;
    groups[row.precision].push_back({convolution->shape, convolution->batch, row.time, row.rows_before});
  }
  for (const auto& [precision, group] : groups) {
    GemmFitOptions fit;
    fit.measured = options.measured;
    // Their clocks fall as those of products do, or twice as far. Algorithms that are slow for large shapes look the
    // same in the rows.
    constexpr double kClocksFall = 0.1;
    if (const auto* products = cost::gemm_curve(profile.gemms, precision, 1); products != nullptr) {
      fit.most_slowdown = std::max(kClocksFall, 2 * products->sustained_slowdown);
    }
    auto curve = fit_convolutions(group, hardware::device_spec(gpu, precision), precision, fit);
    if (!curve) return named(curve.error(), "convolutions in " + std::string(name_of(kPrecisions, precision)));
    keep_measured(group, *curve, profile);
    profile.convolutions.push_back(std::move(*curve));
  }
  return {};
}

Expected<void> fit_all_experts(std::span<const primitives::KernelMeasurement> rows, const hardware::Gpu& gpu,
                               const FitOptions& options, hardware::GpuProfile& profile) {
  std::map<Precision, std::vector<ExpertsRow>> groups;
  for (const primitives::KernelMeasurement& row : rows) {
    const auto* experts = std::get_if<primitives::TimedExperts>(&row.what);
    if (experts != nullptr && !row.left_out) groups[row.precision].push_back({*experts, row.time});
  }
  for (const auto& [precision, group] : groups) {
    GemmFitOptions fit;
    fit.measured = options.measured;
    auto curve = fit_experts(group, hardware::device_spec(gpu, precision), precision, fit);
    if (!curve) return named(curve.error(), "experts in " + std::string(name_of(kPrecisions, precision)));
    profile.gemms.push_back(std::move(*curve));
  }
  return {};
}

/// Forward passes first, which backward ones start from.
Expected<void> fit_all_attention(std::span<const primitives::KernelMeasurement> rows, const hardware::Gpu& gpu,
                                 const FitOptions& options, hardware::GpuProfile& profile) {
  std::map<std::pair<Precision, primitives::AttentionPass>, std::vector<AttentionRow>> groups;
  for (const primitives::KernelMeasurement& row : rows) {
    const auto* attention = std::get_if<primitives::TimedAttention>(&row.what);
    if (attention == nullptr || row.left_out) continue;
    groups[{row.precision, attention->shape.pass}].push_back(
        {attention->shape, attention->batch, row.time, row.series});
  }
  std::set<std::string> training;
  for (const auto& [key, group] : groups) {
    if (key.second != primitives::AttentionPass::kBackward) continue;
    for (const AttentionRow& row : group) training.insert(row.series);
  }
  profile.attention.reserve(groups.size());
  for (const auto& [key, group] : groups) {
    AttentionFitOptions fit;
    fit.measured = options.measured;
    fit.training = training;
    const bool after = key.second == primitives::AttentionPass::kBackward && !profile.attention.empty() &&
                       profile.attention.back().precision == key.first;
    if (after) fit.forward = &profile.attention.back();
    auto curve = fit_attention(group, hardware::device_spec(gpu, key.first), key.first, fit);
    if (!curve) return named(curve.error(), "attention in " + std::string(name_of(kPrecisions, key.first)));
    profile.attention.push_back(std::move(*curve));
  }
  return {};
}

}  // namespace

Expected<hardware::GpuProfile> fit_profile(std::span<const primitives::KernelMeasurement> rows,
                                           const hardware::Gpu& gpu, const FitOptions& options) {
  hardware::GpuProfile profile;
  profile.id = options.id.empty() ? gpu.id : options.id;
  profile.gpu = gpu.id;
  profile.date = options.date;
  auto memory_bound = fit_memory_bound(rows, hardware::device_spec(gpu, Precision::kFp32), {options.measured});
  if (!memory_bound) return tl::unexpected<Error>(memory_bound.error());
  profile.memory_bound = std::move(*memory_bound);
  if (auto fitted = fit_all_gemms(rows, gpu, options, profile); !fitted) {
    return tl::unexpected<Error>(fitted.error());
  }
  if (auto fitted = fit_all_convolutions(rows, gpu, options, profile); !fitted) {
    return tl::unexpected<Error>(fitted.error());
  }
  if (auto fitted = fit_all_experts(rows, gpu, options, profile); !fitted) {
    return tl::unexpected<Error>(fitted.error());
  }
  if (auto fitted = fit_all_attention(rows, gpu, options, profile); !fitted) {
    return tl::unexpected<Error>(fitted.error());
  }
  std::vector<double> launches;
  for (const primitives::KernelMeasurement& row : rows) {
    if (!row.left_out && std::holds_alternative<primitives::TimedLaunch>(row.what)) {
      launches.push_back(row.time.in(seconds));
    }
  }
  if (!launches.empty()) profile.launch_interval = seconds(median(std::move(launches)));
  if (profile.memory_bound.empty() && profile.gemms.empty() && profile.convolutions.empty() &&
      profile.attention.empty() && !profile.launch_interval) {
    return fail(
        ErrorCode::kInfeasible, "no row that a curve can use", {},
        {"ops with curves: gemm, convolution, memory_bound, attention, experts, launch (bench/calibrate/README.md)"});
  }
  return profile;
}

}  // namespace ddlsim::calib
