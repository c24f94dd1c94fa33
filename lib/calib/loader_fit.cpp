#include "ddlsim/calib/loader_fit.h"

#include <algorithm>
#include <vector>

#include "ddlsim/cost/loader.h"

namespace ddlsim::calib {
namespace {

constexpr double kBelow = 0.999;  // of the ceiling: what is not yet there

double used(const CorePoint& point, double taken) { return point.cores - taken; }

/// What one core would do by itself, given what its neighbours cost.
Rate alone(const CorePoint& point, double taken, double contention) {
  const double cores = used(point, taken);
  return point.rate * ((1 + contention * std::max(cores - 1, 0.0)) / cores);
}

}  // namespace

Rate LoaderCurve::at(double cores) const {
  if (per_core == Rate::infinity()) return ceiling;
  const double filled = std::max(cores - taken, taken > 0 ? taken : 1e-6);
  const cost::LoaderWork work{
      .loader = plan::Loader::kPipelined, .cpu = seconds(1 / per_core.in(per_second)), .contention = contention};
  return min(ceiling, cost::loader_rates(work, {.workers = std::max(filled, 1.0), .cores = filled}).cpu);
}

Expected<LoaderCurve> fit_loader(std::span<const CorePoint> points, bool saturates, double taken) {
  const auto bad = [](const char* what) { return fail(ErrorCode::kInvalidArgument, what); };
  if (points.size() < 2) return bad("a curve needs two points at least");
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!(points[i].rate > Rate::zero()) || !(used(points[i], taken) > 0)) return bad("a point without cores or rate");
    if (i > 0 && points[i].cores <= points[i - 1].cores) return bad("points are in no order of cores");
  }
  LoaderCurve curve{.taken = taken};
  std::vector<CorePoint> below(points.begin(), points.end());
  if (saturates) {
    curve.ceiling = points.back().rate;
    std::erase_if(below, [&](const CorePoint& point) { return point.rate >= curve.ceiling * kBelow; });
  }
  if (below.empty()) return curve;
  const CorePoint& first = below.front();
  const CorePoint& last = below.back();
  if (below.size() == 1) {
    curve.contention = plan::kDefaultContention;
  } else {
    const double lost = alone(first, taken, 0) / alone(last, taken, 0);
    const double span = std::max(used(last, taken) - 1, 0.0) - lost * std::max(used(first, taken) - 1, 0.0);
    curve.contention = span > 0 ? std::max((lost - 1) / span, 0.0) : 0.0;
  }
  curve.per_core = alone(first, taken, curve.contention);
  return curve;
}

}  // namespace ddlsim::calib
