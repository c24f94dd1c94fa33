#include "ddlsim/calib/sweep_fit.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "ddlsim/calib/holdout.h"
#include "ddlsim/calib/robust.h"
#include "ddlsim/cost/sweep_time.h"
#include "ddlsim/support/quantity_io.h"
#include "sweep_model.h"

namespace ddlsim::calib {
namespace {

constexpr std::int64_t kLongRow = 1025;  // frameworks' softmax and norm change their kernel here
constexpr std::size_t kLeastShapes = 10;
constexpr std::size_t kLeastSizes = 3;
constexpr double kWorthIt = 1.1;
constexpr double kWorthALength = 0.97;  // of the error without it
constexpr std::size_t kMostLengths = 5;
constexpr double kNoError = 5e-4;  // what is off by less is as good as exact

bool reduces(primitives::SweepKind kind) {
  return kind == primitives::SweepKind::kSoftmax || kind == primitives::SweepKind::kNorm;
}

std::string name_of_curve(primitives::SweepKind kind, std::int64_t row_from) {
  std::string name(name_of(primitives::kSweepKinds, kind));
  if (row_from > 0) name += fmt::format(" of rows from {}", row_from);
  return name;
}

/// Rows of one curve.
struct Group {
  primitives::SweepKind kind = primitives::SweepKind::kElementwise;
  std::int64_t row_from = 0;
  std::vector<SweepPoint> points;
  std::vector<std::string> series;
  std::int64_t row_least = 0;
  std::int64_t row_most = 0;
};

SweepPoint point_of(const primitives::KernelMeasurement& row, const primitives::TimedSweep& sweep,
                    std::vector<std::string>& series) {
  SweepPoint point;
  point.traffic = sweep.traffic.in(bytes);
  point.rows = reduces(sweep.kind) ? cost::rows_of(sweep.traffic, sweep.row, activation_size(row.precision)) : 0.0;
  point.row = sweep.row;
  point.time = row.time.in(seconds);
  const auto known = std::find(series.begin(), series.end(), row.series);
  point.series = static_cast<std::size_t>(known - series.begin());
  if (known == series.end()) series.push_back(row.series);
  // Shapes, not rows: the same size in another series is still the same shape.
  const std::array<std::int64_t, 2> shape{static_cast<std::int64_t>(point.traffic), sweep.row};
  point.fold = fold_of(shape);
  return point;
}

std::vector<Group> groups_of(std::span<const primitives::KernelMeasurement> rows) {
  const auto key = [](const primitives::TimedSweep& sweep) {
    return std::pair{sweep.kind, reduces(sweep.kind) && sweep.row >= kLongRow ? kLongRow : std::int64_t{0}};
  };
  std::map<std::pair<primitives::SweepKind, std::int64_t>, std::set<std::pair<double, std::int64_t>>> seen;
  for (const primitives::KernelMeasurement& row : rows) {
    const auto* sweep = std::get_if<primitives::TimedSweep>(&row.what);
    if (sweep != nullptr && !row.left_out) seen[key(*sweep)].insert({sweep->traffic.in(bytes), sweep->row});
  }
  // Both lengths need rows of their own, or share one curve.
  const auto shared = [&](primitives::SweepKind kind) {
    const auto enough = [&](std::int64_t from) {
      const auto found = seen.find({kind, from});
      return found != seen.end() && found->second.size() >= 3 * kLeastShapes;
    };
    return !enough(0) || !enough(kLongRow);
  };
  std::map<std::pair<primitives::SweepKind, std::int64_t>, Group> groups;
  for (const primitives::KernelMeasurement& row : rows) {
    const auto* sweep = std::get_if<primitives::TimedSweep>(&row.what);
    if (sweep == nullptr || row.left_out) continue;
    auto place = key(*sweep);
    if (shared(place.first)) place.second = 0;
    Group& group = groups[place];
    if (group.points.empty()) group.row_least = sweep->row;
    group.kind = place.first;
    group.row_from = place.second;
    group.row_least = std::min(group.row_least, sweep->row);
    group.row_most = std::max(group.row_most, sweep->row);
    group.points.push_back(point_of(row, *sweep, group.series));
  }
  std::vector<Group> sorted;
  for (auto& [place, group] : groups) sorted.push_back(std::move(group));
  return sorted;
}

template <typename Wanted>
std::vector<SweepPoint> points_of(const Group& group, Wanted wanted) {
  std::vector<SweepPoint> points;
  for (const SweepPoint& point : group.points) {
    if (wanted(point.fold)) points.push_back(point);
  }
  return points;
}

std::vector<SweepPoint> in_fold(const Group& group, int wanted) {
  return points_of(group, [&](int fold) { return fold == wanted; });
}

/// All but the report's fold and one more.
std::vector<SweepPoint> all_but(const Group& group, int unwanted) {
  return points_of(group, [&](int fold) { return fold != kReportFold && fold != unwanted; });
}

/// The points beside what a model says of them.
std::vector<Judged> judged_by(const SweepModel& model, const SweepSystem& system, std::span<const SweepPoint> points) {
  std::vector<Judged> judged;
  judged.reserve(points.size());
  for (const SweepPoint& point : points) {
    judged.push_back(
        {model.kernel(system, point), point.time, model.overheads[point.series], model.floors[point.series]});
  }
  return judged;
}

/// Error on rows that rise above the floor of their series: the others tell models little apart.
double selection_error(const SweepModel& model, const SweepSystem& system, std::span<const SweepPoint> points) {
  std::vector<Judged> judged = judged_by(model, system, points);
  std::erase_if(judged, [](const Judged& row) { return row.measured <= 1.1 * row.floor; });
  return std::max(mean_error(judged), kNoError);
}

/// Drops hinges, then per_row, as long as the rows set aside fare no more than 10 % worse.
SweepSystem chosen(const Group& group, SweepSystem system) {
  const auto fitted = all_but(group, kSelectFold);
  const auto aside = in_fold(group, kSelectFold);
  if (fitted.empty() || aside.empty()) return system.simplest();
  const auto error_of = [&](const SweepSystem& candidate) {
    return selection_error(fit_model(candidate, fitted), candidate, aside);
  };
  double best = error_of(system);
  const auto take_if_good = [&](const SweepSystem& simpler) {
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
  if (system.per_row) {
    SweepSystem simpler = system;
    simpler.per_row = false;
    take_if_good(simpler);
  }
  return system;
}

/// Each fold but the report's, by a fit to the others.
std::vector<Judged> crossed_by(const Group& group, const SweepSystem& system) {
  std::vector<Judged> crossed;
  for (int fold = 0; fold < kFolds; ++fold) {
    const auto rest = all_but(group, fold);
    if (fold == kReportFold || rest.empty()) continue;
    const auto found = judged_by(fit_model(system, rest), system, in_fold(group, fold));
    crossed.insert(crossed.end(), found.begin(), found.end());
  }
  return crossed;
}

/// Powers of two and the eighths between them, of which either side has rows enough.
std::vector<std::int64_t> candidate_lengths(const Group& group) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t power = 64; power <= group.row_most; power *= 2) {
    for (std::int64_t eighth = 8; eighth < 16; ++eighth) {
      const std::int64_t from = power * eighth / 8 + 1;
      const auto shorter = static_cast<std::size_t>(std::count_if(
          group.points.begin(), group.points.end(), [&](const SweepPoint& point) { return point.row < from; }));
      if (std::min(shorter, group.points.size() - shorter) >= 3 * kLeastShapes) lengths.push_back(from);
    }
  }
  return lengths;
}

/// Adds the length that helps most as long as the folds, each by a fit to the others, fare 3 % better.
SweepSystem with_lengths(const Group& group, SweepSystem system) {
  if (!reduces(group.kind)) return system;
  const std::vector<std::int64_t> candidates = candidate_lengths(group);
  const auto error_of = [&](const SweepSystem& candidate) {
    return std::max(mean_error(crossed_by(group, candidate)), kNoError);
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

void fill_report(const Group& group, const SweepSystem& system, const SweepModel& model,
                 hardware::CurveReport& report) {
  const auto used = all_but(group, kReportFold);
  const std::vector<Judged> held_out = judged_by(model, system, in_fold(group, kReportFold));
  report.fitted = static_cast<std::int64_t>(used.size());
  judge(held_out, report);
  std::vector<Judged> crossed = crossed_by(group, system);
  if (kernel_ratios(crossed).empty()) crossed = judged_by(model, system, used);
  judge_interval(crossed, held_out, report);
  hardware::CurveReport::Range traffic{"bytes", 0, 0};
  for (const SweepPoint& point : used) {
    if (model.measured(system, point) <= model.floors[point.series]) continue;
    if (traffic.most == 0 || point.traffic < traffic.least) traffic.least = point.traffic;
    traffic.most = std::max(traffic.most, point.traffic);
  }
  report.hull.push_back(traffic);
  if (group.row_most > 0) {
    report.hull.push_back({"row", static_cast<double>(group.row_least), static_cast<double>(group.row_most)});
  }
}

hardware::SweepCurve curve_of(const Group& group, const SweepSystem& system, const SweepModel& model) {
  hardware::SweepCurve curve;
  curve.kind = group.kind;
  curve.row_from = group.row_from;
  const auto error = [&](std::string name, double value, double standard_error) {
    if (value > 0) curve.report.standard_errors.push_back({std::move(name), standard_error / value});
  };
  double before = 0;
  for (std::size_t i = 0; i < system.knots.size(); ++i) {
    curve.hinges.emplace_back(system.knots[i], model.slopes[i] - before);
    error(fmt::format("slope from {} L2", significant(system.knots[i])), model.slopes[i], model.errors[i]);
    before = model.slopes[i];
  }
  for (std::size_t i = 0; i < system.lengths.size(); ++i) {
    curve.lengths.emplace_back(system.lengths[i], model.factors[i + 1]);
  }
  std::size_t next = system.knots.size();
  if (system.per_row) {
    curve.per_row = seconds(model.per_row);
    error("per row", model.per_row, model.errors[next++]);
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
  for (const SweepPoint& point : group.points) {
    double& least = shortest[point.series];
    least = least > 0 ? std::min(least, point.time) : point.time;
  }
  std::vector<SweepPoint> points = group.points;
  std::sort(points.begin(), points.end(),
            [](const SweepPoint& a, const SweepPoint& b) { return a.traffic > b.traffic; });
  std::vector<double> ratios;
  for (std::size_t i = 0; i <= points.size() / 5 && i < points.size(); ++i) {
    ratios.push_back(points[i].time / shortest[points[i].series]);
  }
  return median(std::move(ratios)) < 1.05;
}

Expected<hardware::SweepCurve> fit_group(const Group& group, const hardware::DeviceSpec& spec,
                                         const SweepFitOptions& options) {
  const std::string name = name_of_curve(group.kind, group.row_from);
  std::set<std::pair<double, double>> shapes;
  std::set<double> sizes;
  for (const SweepPoint& point : group.points) {
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
  SweepSystem system;
  system.spec = spec;
  system.per_row = reduces(group.kind) && group.row_most > group.row_least;
  system.series = group.series.size();
  if (!(spec.l2 > DataSize::zero())) system.knots = {0};
  system = with_lengths(group, chosen(group, system));
  const SweepModel model = fit_model(system, all_but(group, kReportFold));
  hardware::SweepCurve curve = curve_of(group, system, model);
  fill_report(group, system, model, curve.report);
  curve.report.measured = options.measured;
  if (!(curve.report.hull.front().most > 0)) return flat();
  return curve;
}

}  // namespace

Expected<std::vector<hardware::SweepCurve>> fit_sweeps(std::span<const primitives::KernelMeasurement> rows,
                                                       const hardware::DeviceSpec& spec,
                                                       const SweepFitOptions& options) {
  std::vector<hardware::SweepCurve> curves;
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
