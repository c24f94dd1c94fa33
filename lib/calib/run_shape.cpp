#include "ddlsim/calib/run_shape.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <tuple>
#include <vector>

#include "ddlsim/calib/nnls.h"

namespace ddlsim::calib {
namespace {

constexpr double kRunsMiss = 0.1;   // deviation of a run from any shape, a share of its step
constexpr double kLeastRate = 0.1;  // of g and l

constexpr std::size_t kTerms = 6;
using Terms = std::array<double, kTerms>;
// g, l, l over servers, h, w, w over servers: the model's, and the prior's deviations.
constexpr Terms kModel{1, 1, 1, 0, 0, 0};
constexpr Terms kDeviation{0.5, 2, 2, 0.5, 0.5, 0.5};

/// What a step of P has of each term, `unit` being the seconds of the last three's.
Terms terms_of(const RunPoint& x, double unit) {
  const bool across = x.servers > 1;
  const bool within = !across && x.gpus_per_server > 1;
  const double c = x.communication;
  const double wait = unit * x.passes_per_second;
  return {1 - c, across ? 0 : c, across ? c : 0, wait, within ? wait : 0, across ? wait : 0};
}

}  // namespace

bool smaller(const RunPoint& a, const RunPoint& b) {
  const auto key = [](const RunPoint& p) {
    return std::tuple{p.gpus_per_server * p.servers, p.batch, p.servers, p.split, p.software};
  };
  return key(a) < key(b);
}

double RunShape::ratio(const RunPoint& x) const {
  const Terms shape{gpu, within, across, host, join, join_servers};
  const Terms terms = terms_of(x, 1);
  double sum = 0;
  for (std::size_t i = 0; i < kTerms; ++i) sum += shape[i] * terms[i];
  return sum;
}

RunShape shape_of(std::span<const MeasuredRun> runs) {
  double unit = std::numeric_limits<double>::infinity();
  for (const MeasuredRun& run : runs) unit = std::min(unit, 1 / run.point.passes_per_second);
  LeastSquares system{.columns = kTerms, .a = {}, .b = {}};
  for (const MeasuredRun& run : runs) {
    const double weight = std::exp(-run.residual) / kRunsMiss;
    for (const double term : terms_of(run.point, unit)) system.a.push_back(term * weight);
    system.b.push_back(1 / kRunsMiss);
  }
  for (std::size_t i = 0; i < kTerms; ++i) {
    for (std::size_t j = 0; j < kTerms; ++j) system.a.push_back(i == j ? 1 / kDeviation[i] : 0);
    system.b.push_back(kModel[i] / kDeviation[i]);
  }
  const std::vector<double> x = nnls(system);
  const auto rate = [&](std::size_t term) { return std::max(x[term], kLeastRate); };
  return {rate(0), rate(1), rate(2), x[3] * unit, x[4] * unit, x[5] * unit};
}

}  // namespace ddlsim::calib
