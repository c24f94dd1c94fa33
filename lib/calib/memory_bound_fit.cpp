#include "ddlsim/calib/memory_bound_fit.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "ddlsim/calib/holdout.h"
#include "ddlsim/calib/robust.h"
#include "ddlsim/cost/memory_bound_time.h"
#include "ddlsim/support/quantity_io.h"
#include "memory_bound_model.h"

namespace ddlsim::calib {
namespace {

constexpr std::int64_t kLongRow = 1025;  // frameworks' softmax and norm change their kernel here
constexpr std::size_t kLeastShapes = 10;
constexpr std::size_t kLeastSizes = 3;
constexpr double kWorthIt = 1.1;
constexpr double kWorthALength = 0.97;  // of the error without it
constexpr std::size_t kMostLengths = 5;
constexpr double kNoError = 5e-4;  // what is off by less is as good as exact

bool reduces(primitives::MemoryBoundKind kind) {
  return kind == primitives::MemoryBoundKind::kSoftmax || kind == primitives::MemoryBoundKind::kNorm;
}

std::string kind_and_rows(primitives::MemoryBoundKind kind, std::int64_t row_from) {
  std::string name(name_of(primitives::kMemoryBoundKinds, kind));
  if (row_from > 0) name += fmt::format(" of rows from {}", row_from);
  return name;
}

/// Rows of one curve.
struct Group {
  primitives::MemoryBoundKind kind = primitives::MemoryBoundKind::kElementwise;
  std::int64_t row_from = 0;
  std::vector<MemoryBoundPoint> points;
  std::vector<std::string> series;
  std::int64_t row_least = 0;
  std::int64_t row_most = 0;
};

MemoryBoundPoint point_of(const primitives::KernelMeasurement& row, const primitives::TimedMemoryBound& kernel,
                          std::vector<std::string>& series) {
  MemoryBoundPoint point;
  point.traffic = kernel.traffic.in(bytes);
  point.rows = reduces(kernel.kind) ? cost::rows_of(kernel.traffic, kernel.row, activation_size(row.precision)) : 0.0;
  point.row = kernel.row;
  point.time = row.time.in(seconds);
  const auto known = std::find(series.begin(), series.end(), row.series);
  point.series = static_cast<std::size_t>(known - series.begin());
  if (known == series.end()) series.push_back(row.series);
  // Shapes, not rows: the same size in another series is still the same shape.
  const std::array<std::int64_t, 2> shape{static_cast<std::int64_t>(point.traffic), kernel.row};
  point.fold = fold_of(shape);
  return point;
}

std::vector<Group> groups_of(std::span<const primitives::KernelMeasurement> rows) {
  const auto key = [](const primitives::TimedMemoryBound& kernel) {
    return std::pair{kernel.kind, reduces(kernel.kind) && kernel.row >= kLongRow ? kLongRow : std::int64_t{0}};
  };
  std::map<std::pair<primitives::MemoryBoundKind, std::int64_t>, std::set<std::pair<double, std::int64_t>>> seen;
  for (const primitives::KernelMeasurement& row : rows) {
    const auto* kernel = std::get_if<primitives::TimedMemoryBound>(&row.what);
    if (kernel != nullptr && !row.left_out) seen[key(*kernel)].insert({kernel->traffic.in(bytes), kernel->row});
  }
  // Both lengths need rows of their own, or share one curve.
  const auto shared = [&](primitives::MemoryBoundKind kind) {
    const auto enough = [&](std::int64_t from) {
      const auto found = seen.find({kind, from});
      return found != seen.end() && found->second.size() >= 3 * kLeastShapes;
    };
    return !enough(0) || !enough(kLongRow);
  };
  std::map<std::pair<primitives::MemoryBoundKind, std::int64_t>, Group> groups;
  for (const primitives::KernelMeasurement& row : rows) {
    const auto* kernel = std::get_if<primitives::TimedMemoryBound>(&row.what);
    if (kernel == nullptr || row.left_out) continue;
    auto curve = key(*kernel);
    if (shared(curve.first)) curve.second = 0;
    Group& group = groups[curve];
    if (group.points.empty()) group.row_least = kernel->row;
    group.kind = curve.first;
    group.row_from = curve.second;
    group.row_least = std::min(group.row_least, kernel->row);
    group.row_most = std::max(group.row_most, kernel->row);
    group.points.push_back(point_of(row, *kernel, group.series));
  }
  std::vector<Group> sorted;
  for (auto& [curve, group] : groups) sorted.push_back(std::move(group));
  return sorted;
}

template <typename Wanted>
std::vector<MemoryBoundPoint> points_of(const Group& group, Wanted wanted) {
  std::vector<MemoryBoundPoint> points;
  for (const MemoryBoundPoint& point : group.points) {
    if (wanted(point.fold)) points.push_back(point);
  }
  return points;
}

std::vector<MemoryBoundPoint> in_fold(const Group& group, int wanted) {
  return points_of(group, [&](int fold) { return fold == wanted; });
}

/// All but the report's fold and one more.
std::vector<MemoryBoundPoint> all_but(const Group& group, int unwanted) {
  return points_of(group, [&](int fold) { return fold != kReportFold && fold != unwanted; });
}

/// The points beside what a model says of them.
std::vector<ComparedRow> compared_by(const MemoryBoundModel& model, const MemoryBoundSystem& system,
                                     std::span<const MemoryBoundPoint> points) {
  std::vector<ComparedRow> compared;
  compared.reserve(points.size());
  for (const MemoryBoundPoint& point : points) {
    compared.push_back(
        {model.kernel(system, point), point.time, model.overheads[point.series], model.floors[point.series]});
  }
  return compared;
}

/// Error on rows that rise above the floor of their series: the others tell models little apart.
double selection_error(const MemoryBoundModel& model, const MemoryBoundSystem& system,
                       std::span<const MemoryBoundPoint> points) {
  std::vector<ComparedRow> compared = compared_by(model, system, points);
  std::erase_if(compared, [](const ComparedRow& row) { return row.measured <= 1.1 * row.floor; });
  return std::max(mean_error(compared), kNoError);
}

/// Drops slope_changes, then time_per_row, as long as the rows set aside fare no more than 10 % worse.
MemoryBoundSystem chosen(const Group& group, MemoryBoundSystem system) {
  const auto fitted = all_but(group, kSelectFold);
  const auto aside = in_fold(group, kSelectFold);
  if (fitted.empty() || aside.empty()) return system.simplest();
  const auto error_of = [&](const MemoryBoundSystem& candidate) {
    return selection_error(fit_model(candidate, fitted), candidate, aside);
  };
  double best = error_of(system);
  const auto take_if_good = [&](const MemoryBoundSystem& simpler) {
    const double error = error_of(simpler);
    if (error > kWorthIt * best) return false;
    best = std::min(best, error);
    system = simpler;
    return true;
  };
  for (bool dropped = true; dropped && system.knots.size() > 1;) {
    dropped = false;
    std::size_t easiest = 1;
    double least = -1;
    for (std::size_t i = 1; i < system.knots.size(); ++i) {
      const double error = error_of(system.without(i));
      if (least < 0 || error < least) easiest = i;
      if (least < 0 || error < least) least = error;
    }
    dropped = take_if_good(system.without(easiest));
  }
  if (system.time_per_row) {
    MemoryBoundSystem simpler = system;
    simpler.time_per_row = false;
    take_if_good(simpler);
  }
  return system;
}

/// Each fold but the report's, by a fit to the others.
std::vector<ComparedRow> cross_validated_by(const Group& group, const MemoryBoundSystem& system) {
  std::vector<ComparedRow> cross_validated;
  for (int fold = 0; fold < kFolds; ++fold) {
    const auto rest = all_but(group, fold);
    if (fold == kReportFold || rest.empty()) continue;
    const auto found = compared_by(fit_model(system, rest), system, in_fold(group, fold));
    cross_validated.insert(cross_validated.end(), found.begin(), found.end());
  }
  return cross_validated;
}

/// Powers of two and the eighths between them, of which either side has rows enough.
std::vector<std::int64_t> candidate_lengths(const Group& group) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t power = 64; power <= group.row_most; power *= 2) {
    for (std::int64_t eighth = 8; eighth < 16; ++eighth) {
      const std::int64_t from = power * eighth / 8 + 1;
      const auto shorter = static_cast<std::size_t>(std::count_if(
          group.points.begin(), group.points.end(), [&](const MemoryBoundPoint& point) { return point.row < from; }));
      if (std::min(shorter, group.points.size() - shorter) >= 3 * kLeastShapes) lengths.push_back(from);
    }
  }
  return lengths;
}

/// Adds the length that helps most as long as the folds, each by a fit to the others, fare 3 % better.
MemoryBoundSystem with_lengths(const Group& group, MemoryBoundSystem system) {
  if (!reduces(group.kind)) return system;
  const std::vector<std::int64_t> candidates = candidate_lengths(group);
  const auto error_of = [&](const MemoryBoundSystem& candidate) {
    return std::max(mean_error(cross_validated_by(group, candidate)), kNoError);
  };
  double error = error_of(system);
  while (system.lengths.size() < kMostLengths) {
    double least = error * kWorthALength;
    std::int64_t best = 0;
    for (const std::int64_t length : candidates) {
      if (std::find(system.lengths.begin(), system.lengths.end(), length) != system.lengths.end()) continue;
      const double tried = error_of(system.with(length));
      if (tried >= least) continue;
      least = tried;
      best = length;
    }
    if (best == 0) break;
    system = system.with(best);
    error = least;
  }
  return system;
}

void fill_report(const Group& group, const MemoryBoundSystem& system, const MemoryBoundModel& model,
                 hardware::CurveReport& report) {
  const auto used = all_but(group, kReportFold);
  const std::vector<ComparedRow> held_out = compared_by(model, system, in_fold(group, kReportFold));
  report.fitted = static_cast<std::int64_t>(used.size());
  fill_errors(held_out, report);
  std::vector<ComparedRow> cross_validated = cross_validated_by(group, system);
  if (kernel_ratios(cross_validated).empty()) cross_validated = compared_by(model, system, used);
  fill_interval(cross_validated, held_out, report);
  hardware::CurveReport::Range traffic{"bytes", 0, 0};
  for (const MemoryBoundPoint& point : used) {
    if (model.measured(system, point) <= model.floors[point.series]) continue;
    if (traffic.most == 0 || point.traffic < traffic.least) traffic.least = point.traffic;
    traffic.most = std::max(traffic.most, point.traffic);
  }
  report.fitted_ranges.push_back(traffic);
  if (group.row_most > 0) {
    report.fitted_ranges.push_back({"row", static_cast<double>(group.row_least), static_cast<double>(group.row_most)});
  }
}

hardware::MemoryBoundCurve curve_of(const Group& group, const MemoryBoundSystem& system,
                                    const MemoryBoundModel& model) {
  hardware::MemoryBoundCurve curve;
  curve.kind = group.kind;
  curve.row_from = group.row_from;
  const auto error = [&](std::string name, double value, double standard_error) {
    if (value > 0) curve.report.standard_errors.push_back({std::move(name), standard_error / value});
  };
  double before = 0;
  for (std::size_t i = 0; i < system.knots.size(); ++i) {
    curve.slope_changes.emplace_back(system.knots[i], model.slopes[i] - before);
    error(fmt::format("slope from {} L2", significant(system.knots[i])), model.slopes[i], model.errors[i]);
    before = model.slopes[i];
  }
  for (std::size_t i = 0; i < system.lengths.size(); ++i) {
    curve.row_length_factors.emplace_back(system.lengths[i], model.factors[i + 1]);
  }
  std::size_t next = system.knots.size();
  if (system.time_per_row) {
    curve.time_per_row = seconds(model.time_per_row);
    error("time per row", model.time_per_row, model.errors[next++]);
  }
  for (std::size_t i = 0; i < group.series.size(); ++i) {
    curve.overheads.push_back({group.series[i], seconds(model.overheads[i]), seconds(model.floors[i])});
    const std::string name = group.series[i].empty() ? "overhead" : "overhead of " + group.series[i];
    error(name, model.overheads[i], model.errors[next + i]);
  }
  return curve;
}

/// Whether the largest fifth of the kernels takes no longer than the shortest of their series.
bool is_flat(const Group& group) {
  std::vector<double> shortest(group.series.size(), 0.0);
  for (const MemoryBoundPoint& point : group.points) {
    double& least = shortest[point.series];
    least = least > 0 ? std::min(least, point.time) : point.time;
  }
  std::vector<MemoryBoundPoint> points = group.points;
  std::sort(points.begin(), points.end(),
            [](const MemoryBoundPoint& a, const MemoryBoundPoint& b) { return a.traffic > b.traffic; });
  std::vector<double> ratios;
  for (std::size_t i = 0; i <= points.size() / 5 && i < points.size(); ++i) {
    ratios.push_back(points[i].time / shortest[points[i].series]);
  }
  return median(std::move(ratios)) < 1.05;
}

Expected<hardware::MemoryBoundCurve> fit_group(const Group& group, const hardware::DeviceSpec& spec,
                                               const MemoryBoundFitOptions& options) {
  const std::string name = kind_and_rows(group.kind, group.row_from);
  std::set<std::pair<double, double>> shapes;
  std::set<double> sizes;
  for (const MemoryBoundPoint& point : group.points) {
    shapes.insert({point.traffic, point.rows});
    sizes.insert(point.traffic);
  }
  if (shapes.size() < kLeastShapes || sizes.size() < kLeastSizes) {
    return fail(ErrorCode::kInfeasible,
                fmt::format("{}: {} shapes of {} sizes are too few for a curve", name, shapes.size(), sizes.size()), {},
                {fmt::format("measure {} shapes or more, of {} sizes or more", kLeastShapes, kLeastSizes)});
  }
  const auto flat = [&] {
    return fail(ErrorCode::kInfeasible, fmt::format("{}: every row takes the same time, whatever its size", name), {},
                {"the kernels are shorter than what measuring takes: measure larger ones"});
  };
  if (is_flat(group)) return flat();
  MemoryBoundSystem system;
  system.spec = spec;
  system.time_per_row = reduces(group.kind) && group.row_most > group.row_least;
  system.series = group.series.size();
  if (!(spec.l2 > DataSize::zero())) system.knots = {0};
  system = with_lengths(group, chosen(group, system));
  const MemoryBoundModel model = fit_model(system, all_but(group, kReportFold));
  hardware::MemoryBoundCurve curve = curve_of(group, system, model);
  fill_report(group, system, model, curve.report);
  curve.report.measured = options.measured;
  if (!(curve.report.fitted_ranges.front().most > 0)) return flat();
  return curve;
}

}  // namespace

Expected<std::vector<hardware::MemoryBoundCurve>> fit_memory_bound(std::span<const primitives::KernelMeasurement> rows,
                                                                   const hardware::DeviceSpec& spec,
                                                                   const MemoryBoundFitOptions& options) {
  std::vector<hardware::MemoryBoundCurve> curves;
  std::vector<Error> errors;
  for (const Group& group : groups_of(rows)) {
    auto curve = fit_group(group, spec, options);
    if (curve) {
      curves.push_back(std::move(*curve));
    } else {
      errors.push_back(std::move(curve.error()));
    }
  }
  if (!errors.empty()) return fail_with_all(std::move(errors));
  return curves;
}

}  // namespace ddlsim::calib
