#include "ddlsim/calib/check.h"

#include <algorithm>

#include "ddlsim/calib/fit.h"
#include "ddlsim/calib/holdout.h"
#include "ddlsim/calib/robust.h"
#include "ddlsim/cost/sweep_time.h"

namespace ddlsim::calib {
namespace {

struct CheckedRow {
  RowPrediction prediction;
  Time measured{};
};

struct CurveRows {
  std::string curve;
  std::vector<CheckedRow> rows;
};

/// (measured - overhead) / kernel, where the row shows the kernel.
std::optional<double> kernel_ratio(const CheckedRow& row) {
  const hardware::MeasuringOverhead& added = row.prediction.added;
  const Time kernel = row.prediction.kernel;
  const Time shown = cost::measured_time(added, kernel);
  if (shown <= added.floor || kernel < shown * 0.5) return std::nullopt;
  return (row.measured - added.overhead) / kernel;
}

Judged judged(const CheckedRow& row, double scale) {
  return {cost::measured_time(row.prediction.added, row.prediction.kernel * scale).in(seconds),
          row.measured.in(seconds)};
}

CheckedCurve check_curve(const CurveRows& curve, std::int64_t anchor) {
  CheckedCurve checked;
  checked.curve = curve.curve;
  checked.interval = curve.rows.front().prediction.report->interval;
  std::vector<Judged> all;
  std::vector<double> anchors;
  std::vector<const CheckedRow*> others;
  for (const CheckedRow& row : curve.rows) {
    all.push_back(judged(row, 1.0));
    const auto ratio = kernel_ratio(row);
    if (ratio) {
      ++checked.asked;
      if (*ratio < checked.interval.first || *ratio > checked.interval.second) ++checked.outside;
    }
    if (ratio && static_cast<std::int64_t>(anchors.size()) < anchor) {
      anchors.push_back(*ratio);
    } else {
      others.push_back(&row);
    }
  }
  judge(all, checked.errors);
  if (anchors.empty()) return checked;
  checked.scale = median(std::move(anchors));
  std::vector<Judged> scaled;
  for (const CheckedRow* row : others) scaled.push_back(judged(*row, checked.scale));
  checked.anchored.emplace();
  judge(scaled, *checked.anchored);
  return checked;
}

}  // namespace

std::optional<RowPrediction> predict_row(const hardware::GpuProfile& profile, const hardware::Gpu& gpu,
                                         const KernelMeasurement& row) {
  // Products and convolutions: here, as the sweeps below.
  const auto* sweep = std::get_if<TimedSweep>(&row.what);
  if (sweep == nullptr) return std::nullopt;
  const auto chosen = cost::choose_sweep(profile, sweep->kind, sweep->row);
  if (!chosen) return std::nullopt;
  const hardware::SweepCurve& curve = *chosen->curve;
  const double rows = cost::rows_of(sweep->traffic, sweep->row, activation_size(row.precision));
  std::string name(name_of(kSweepKinds, sweep->kind));
  if (curve.row_from > 0) name += " of rows from " + std::to_string(curve.row_from);
  return RowPrediction{std::move(name), &curve.report,
                       cost::sweep_time(curve, hardware::device_spec(gpu, row.precision),
                                        {sweep->traffic, curve.per_row > Time{} ? rows : 0.0}),
                       cost::overhead_of(curve, row.series)};
}

ProfileCheck check_profile(const hardware::GpuProfile& profile, const hardware::Gpu& gpu,
                           std::span<const KernelMeasurement> rows, std::int64_t anchor) {
  ProfileCheck check;
  check.profile = profile.id;
  std::vector<CurveRows> curves;
  for (const KernelMeasurement& row : rows) {
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
    if (curve == curves.end()) curve = curves.insert(curve, {prediction->curve, {}});
    curve->rows.push_back({std::move(*prediction), row.time});
  }
  for (const CurveRows& curve : curves) check.curves.push_back(check_curve(curve, anchor));
  return check;
}

bool too_often_outside(const CheckedCurve& curve, double share) {
  return curve.outside > 1 && static_cast<double>(curve.outside) > share * static_cast<double>(curve.asked);
}

}  // namespace ddlsim::calib
