#include "ddlsim/calib/check.h"

#include <fmt/core.h>

#include <algorithm>

#include "ddlsim/calib/convolution_fit.h"
#include "ddlsim/calib/fit.h"
#include "ddlsim/calib/holdout.h"
#include "ddlsim/calib/robust.h"
#include "ddlsim/cost/convolution_time.h"
#include "ddlsim/cost/product_time.h"
#include "ddlsim/cost/sweep_time.h"

namespace ddlsim::calib {
namespace {

struct CurveRows {
  std::string curve;
  const hardware::CurveReport* report = nullptr;  // of the profile
  std::vector<Judged> rows;
};

CheckedCurve check_curve(const CurveRows& curve, std::int64_t anchor) {
  CheckedCurve checked;
  checked.curve = curve.curve;
  checked.interval = curve.report->interval;
  std::vector<double> anchors;
  std::vector<Judged> others;
  for (const Judged& row : curve.rows) {
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
  judge(curve.rows, checked.errors);
  if (anchors.empty()) return checked;
  checked.scale = median(std::move(anchors));
  for (Judged& row : others) row.kernel *= checked.scale;
  checked.anchored.emplace();
  judge(others, *checked.anchored);
  return checked;
}

RowPrediction of_product(const hardware::ProductCurve& curve, const hardware::DeviceSpec& spec,
                         const primitives::Product& product) {
  const hardware::ProductSize size{static_cast<double>(product.products), static_cast<double>(product.m),
                                   static_cast<double>(product.n), static_cast<double>(product.k)};
  return {name_of_curve(curve),
          &curve.report,
          cost::product_time(curve, spec, size, activation_size(curve.precision)),
          {{}, curve.overhead, curve.floor}};
}

RowPrediction of_convolution(const hardware::ConvolutionCurve& curve, const hardware::DeviceSpec& spec,
                             const primitives::TimedConvolution& row, std::int64_t order) {
  return {
      name_of_curve(curve),
      &curve.report,
      cost::convolution_time(curve, spec, row.shape, static_cast<double>(row.batch), activation_size(curve.precision)),
      {{}, overhead_of(curve, order), curve.product.floor}};
}

RowPrediction of_sweep(const hardware::SweepCurve& curve, const hardware::DeviceSpec& spec,
                       const primitives::TimedSweep& sweep, const primitives::KernelMeasurement& row) {
  const double rows =
      curve.per_row > Time::zero() ? cost::rows_of(sweep.traffic, sweep.row, activation_size(row.precision)) : 0.0;
  return {name_of_curve(curve), &curve.report, cost::sweep_time(curve, spec, {sweep.traffic, rows, sweep.row}),
          cost::overhead_of(curve, row.series)};
}

}  // namespace

std::string name_of_curve(const hardware::ProductCurve& curve) {
  return fmt::format("product {}{}", name_of(kPrecisions, curve.precision), curve.batched ? " batched" : "");
}

std::string name_of_curve(const hardware::ConvolutionCurve& curve) {
  return fmt::format("convolution {}", name_of(kPrecisions, curve.precision));
}

std::string name_of_curve(const hardware::SweepCurve& curve) {
  std::string name(name_of(primitives::kSweepKinds, curve.kind));
  if (curve.row_from > 0) name += fmt::format(" of rows from {}", curve.row_from);
  return name;
}

std::optional<RowPrediction> predict_row(const hardware::GpuProfile& profile, const hardware::Gpu& gpu,
                                         const primitives::KernelMeasurement& row) {
  const hardware::DeviceSpec spec = hardware::device_spec(gpu, row.precision);
  if (const auto* product = std::get_if<primitives::Product>(&row.what)) {
    const auto* curve = cost::product_curve(profile.products, row.precision, static_cast<double>(product->products));
    if (curve != nullptr) return of_product(*curve, spec, *product);
  }
  if (const auto* convolution = std::get_if<primitives::TimedConvolution>(&row.what)) {
    for (const hardware::ConvolutionCurve& curve : profile.convolutions) {
      if (curve.precision == row.precision) return of_convolution(curve, spec, *convolution, row.order);
    }
  }
  if (const auto* sweep = std::get_if<primitives::TimedSweep>(&row.what)) {
    const auto chosen = cost::choose_sweep(profile, sweep->kind, sweep->row);
    if (chosen) return of_sweep(*chosen->curve, spec, *sweep, row);
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
