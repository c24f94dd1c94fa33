#include "ddlsim/calib/check.h"

#include <fmt/core.h>

#include <algorithm>

#include "ddlsim/calib/attention_fit.h"
#include "ddlsim/calib/convolution_fit.h"
#include "ddlsim/calib/gemm_fit.h"
#include "ddlsim/calib/holdout.h"
#include "ddlsim/calib/robust.h"
#include "ddlsim/cost/attention_time.h"
#include "ddlsim/cost/convolution_time.h"
#include "ddlsim/cost/gemm_time.h"
#include "ddlsim/cost/memory_bound_time.h"

namespace ddlsim::calib {
namespace {

struct CurveRows {
  std::string curve;
  const hardware::CurveReport* report = nullptr;  // of the profile
  std::vector<ComparedRow> rows;
};

CheckedCurve check_curve(const CurveRows& curve, std::int64_t anchor) {
  CheckedCurve checked;
  checked.curve = curve.curve;
  checked.interval = curve.report->interval;
  std::vector<double> anchors;
  std::vector<ComparedRow> others;
  for (const ComparedRow& row : curve.rows) {
    const auto ratio = kernel_ratio(row);
    if (ratio) {
      ++checked.asked;
      if (*ratio < checked.interval.first || *ratio > checked.interval.second) ++checked.outside;
    }
    if (ratio && static_cast<std::int64_t>(anchors.size()) < anchor) {
      anchors.push_back(*ratio);
    } else {
      others.push_back(row);
    }
  }
  fill_errors(curve.rows, checked.errors);
  if (anchors.empty()) return checked;
  checked.scale = median(std::move(anchors));
  for (ComparedRow& row : others) row.kernel *= checked.scale;
  checked.anchored.emplace();
  fill_errors(others, *checked.anchored);
  return checked;
}

RowPrediction of_gemm(const hardware::GemmCurve& curve, const hardware::DeviceSpec& spec,
                      const primitives::Gemm& gemm) {
  const hardware::GemmSize size{static_cast<double>(gemm.batch_count), static_cast<double>(gemm.m),
                                static_cast<double>(gemm.n), static_cast<double>(gemm.k)};
  return {name_of_curve(curve),
          &curve.report,
          cost::gemm_time(curve, spec, size, activation_size(curve.precision)),
          {{}, overhead_of(curve, size), curve.floor}};
}

RowPrediction of_convolution(const hardware::ConvolutionCurve& curve, const hardware::DeviceSpec& spec,
                             const primitives::TimedConvolution& row, std::int64_t rows_before) {
  return {
      name_of_curve(curve),
      &curve.report,
      cost::convolution_time(curve, spec, row.shape, static_cast<double>(row.batch), activation_size(curve.precision)),
      {{}, overhead_of(curve, rows_before), curve.implicit_gemm.floor}};
}

RowPrediction of_memory_bound(const hardware::MemoryBoundCurve& curve, const hardware::DeviceSpec& spec,
                              const primitives::TimedMemoryBound& kernel, const primitives::KernelMeasurement& row) {
  const double rows = curve.time_per_row > Time::zero()
                          ? cost::rows_of(kernel.traffic, kernel.row, activation_size(row.precision))
                          : 0.0;
  return {name_of_curve(curve), &curve.report, cost::memory_bound_time(curve, spec, {kernel.traffic, rows, kernel.row}),
          cost::overhead_of(curve, row.series)};
}

RowPrediction of_attention(const hardware::AttentionCurve& curve, const hardware::DeviceSpec& spec,
                           const primitives::TimedAttention& row, const std::string& series) {
  const AttentionRow one{row.shape, row.batch, {}, series};
  return {
      name_of_curve(curve), &curve.report,
      cost::attention_time(curve, spec, row.shape, static_cast<double>(row.batch), activation_size(curve.precision)),
      overhead_of(curve, spec, one)};
}

}  // namespace

std::string name_of_curve(const hardware::GemmCurve& curve) {
  return fmt::format("gemm {}{}", name_of(kPrecisions, curve.precision),
                     curve.grouped   ? " of experts"
                     : curve.batched ? " batched"
                                     : "");
}

std::string name_of_curve(const hardware::AttentionCurve& curve) {
  return fmt::format("attention {} {}", name_of(kPrecisions, curve.precision),
                     name_of(primitives::kAttentionPasses, curve.pass));
}

std::string name_of_curve(const hardware::ConvolutionCurve& curve) {
  return fmt::format("convolution {}", name_of(kPrecisions, curve.precision));
}

std::string name_of_curve(const hardware::MemoryBoundCurve& curve) {
  std::string name(name_of(primitives::kMemoryBoundKinds, curve.kind));
  if (curve.row_from > 0) name += fmt::format(" of rows from {}", curve.row_from);
  return name;
}

std::optional<RowPrediction> predict_row(const hardware::GpuProfile& profile, const hardware::Gpu& gpu,
                                         const primitives::KernelMeasurement& row) {
  const hardware::DeviceSpec spec = hardware::device_spec(gpu, row.precision);
  if (const auto* gemm = std::get_if<primitives::Gemm>(&row.what)) {
    const auto* curve = cost::gemm_curve(profile.gemms, row.precision, static_cast<double>(gemm->batch_count));
    if (curve != nullptr) return of_gemm(*curve, spec, *gemm);
  }
  if (const auto* convolution = std::get_if<primitives::TimedConvolution>(&row.what)) {
    for (const hardware::ConvolutionCurve& curve : profile.convolutions) {
      if (curve.precision == row.precision) return of_convolution(curve, spec, *convolution, row.rows_before);
    }
  }
  if (const auto* experts = std::get_if<primitives::TimedExperts>(&row.what)) {
    const auto* curve = cost::gemm_curve(profile.gemms, row.precision, 2, true);
    if (curve != nullptr && curve->grouped) {
      return RowPrediction{name_of_curve(*curve),
                           &curve->report,
                           cost::experts_time(*curve, spec, *experts),
                           {{}, curve->overhead, curve->floor}};
    }
  }
  if (const auto* attention = std::get_if<primitives::TimedAttention>(&row.what)) {
    const auto* curve = cost::attention_curve(profile.attention, row.precision, attention->shape.pass);
    if (curve == nullptr) {
      curve = cost::attention_curve(profile.attention, row.precision, primitives::AttentionPass::kForward);
    }
    if (curve != nullptr) return of_attention(*curve, spec, *attention, row.series);
  }
  if (const auto* kernel = std::get_if<primitives::TimedMemoryBound>(&row.what)) {
    const auto chosen = cost::choose_memory_bound(profile, kernel->kind, kernel->row);
    if (chosen) return of_memory_bound(*chosen->curve, spec, *kernel, row);
  }
  return std::nullopt;
}

ProfileCheck check_profile(const hardware::GpuProfile& profile, const hardware::Gpu& gpu,
                           std::span<const primitives::KernelMeasurement> rows, std::int64_t anchor) {
  ProfileCheck check;
  check.profile = profile.id;
  std::vector<CurveRows> curves;
  for (const primitives::KernelMeasurement& row : rows) {
    if (row.left_out) {
      ++check.left_out;
      continue;
    }
    auto prediction = predict_row(profile, gpu, row);
    if (!prediction || !(prediction->kernel > Time::zero())) {
      ++check.without_curve;
      continue;
    }
    auto curve = std::find_if(curves.begin(), curves.end(),
                              [&](const CurveRows& known) { return known.curve == prediction->curve; });
    if (curve == curves.end()) curve = curves.insert(curve, {prediction->curve, prediction->report, {}});
    curve->rows.push_back({prediction->kernel.in(seconds), row.time.in(seconds), prediction->added.overhead.in(seconds),
                           prediction->added.floor.in(seconds)});
  }
  for (const CurveRows& curve : curves) check.curves.push_back(check_curve(curve, anchor));
  return check;
}

bool too_often_outside(const CheckedCurve& curve, double share) {
  return curve.outside > 1 && static_cast<double>(curve.outside) > share * static_cast<double>(curve.asked);
}

}  // namespace ddlsim::calib
