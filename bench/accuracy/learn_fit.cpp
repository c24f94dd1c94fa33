#include "learn_fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "statistics.h"

namespace ddlsim::learn {
namespace {

constexpr double kRidge = 3;  // in rows of weight 1 with a residual of 1

/// log f of a row's GPU time.
struct LogFactor {
  double value = 0;
  Effects slope;  // by each effect
};

LogFactor factor_of(const Row& row, const Effects& a) {
  using hardware::SoftwareFeature;
  double all = 0;
  double arithmetic = 0;
  double memory = 0;
  double small = 0;
  for (std::size_t k = 0; k < kFeatures; ++k) {
    const SoftwareFeature feature = hardware::kSoftwareFeatures[k].second;
    double& sum = feature == SoftwareFeature::kSmallKernels ? small
                  : is_of_arithmetic(feature)               ? arithmetic
                  : is_of_memory(feature)                   ? memory
                                                            : all;
    sum += a[static_cast<int>(k)] * row.features[static_cast<int>(k)];
  }
  const double share = memory > arithmetic ? row.of_memory : row.of_memory_cheaper;
  const double bound = share * std::exp(memory);
  const double computed = (1 - share) * std::exp(arithmetic);
  const double scaled = computed + bound;
  const double more = 1 + row.of_small * std::max(small, 0.0);
  LogFactor factor{.value = all + std::log(scaled * more), .slope = row.features};
  for (std::size_t k = 0; k < kFeatures; ++k) {
    const SoftwareFeature feature = hardware::kSoftwareFeatures[k].second;
    if (feature == SoftwareFeature::kSmallKernels) factor.slope[static_cast<int>(k)] *= row.of_small / more;
    if (is_of_arithmetic(feature)) factor.slope[static_cast<int>(k)] *= computed / scaled;
    if (is_of_memory(feature)) factor.slope[static_cast<int>(k)] *= bound / scaled;
  }
  return factor;
}

/// What series have of an effect between their own rows; between series other things differ as well.
using Held = std::vector<std::pair<hardware::SoftwareFeature, double>>;

/// Keeps effects where series have them.
void hold(Eigen::Matrix<double, kFeatures, kFeatures>& normal, Effects& right, const Held& held) {
  constexpr double kStiff = 1e9;
  for (const auto& [feature, effect] : held) {
    const int at = static_cast<int>(feature);
    normal(at, at) += kStiff;
    right[at] += kStiff * effect;
  }
}

double doublings_of(const Row& row) { return row.features[static_cast<int>(hardware::SoftwareFeature::kShared)]; }

/// Of every series a row of one server: the one that comes first.
template <class Before>
std::map<std::string, const Row*> row_of_each(const std::vector<Row>& rows, Before before) {
  std::map<std::string, const Row*> found;
  for (const Row& row : rows) {
    if (!row.one_server) continue;
    const Row*& first = found[row.group];
    if (first == nullptr || before(row, *first)) first = &row;
  }
  return found;
}

/// What a doubling of the GPUs that share a server takes: in every series of one server, from its smallest row to each
/// other; their median, a source weighing as the square root of its rows.
double sharing(const std::vector<Row>& rows, const std::vector<int>& counts) {
  const auto smallest = row_of_each(rows, [](const Row& a, const Row& b) { return doublings_of(a) < doublings_of(b); });
  std::vector<std::pair<double, double>> slopes;
  for (const Row& row : rows) {
    if (!row.one_server || counts[row.source] == 0) continue;
    const Row& least = *smallest.at(row.group);
    const double doublings = doublings_of(row) - doublings_of(least);
    if (doublings <= 0) continue;
    const double more = (row.measured - predicted(row, 0).first) - (least.measured - predicted(least, 0).first);
    slopes.emplace_back(more / doublings, row.weight * counts[row.source]);
  }
  return slopes.empty() ? 0 : weighted_quantile(std::move(slopes), 0.5);
}

/// What replicas on several servers take: in every series from its largest row of one server to each of several; their
/// median likewise, of what effects `a` leave.
double crossing(const std::vector<Row>& rows, const std::vector<int>& counts, const Effects& a) {
  constexpr int kServers = static_cast<int>(hardware::SoftwareFeature::kServers);
  const auto largest =
      row_of_each(rows, [](const Row& one, const Row& other) { return doublings_of(one) > doublings_of(other); });
  std::vector<std::pair<double, double>> steps;
  for (const Row& row : rows) {
    if (row.features[kServers] == 0 || counts[row.source] == 0) continue;
    const auto one_server = largest.find(row.group);
    if (one_server == largest.end()) continue;
    steps.emplace_back(residual_of(row, a) - residual_of(*one_server->second, a), row.weight * counts[row.source]);
  }
  return steps.empty() ? 0 : weighted_quantile(std::move(steps), 0.5);
}

Effects fit_with(const std::vector<Row>& rows, const std::vector<int>& counts, const Held& held) {
  constexpr double kSmallest = 0.02;  // residuals below count alike
  Effects a = Effects::Zero();
  for (int round = 0; round < 40; ++round) {
    Eigen::Matrix<double, kFeatures, kFeatures> normal = Eigen::Matrix<double, kFeatures, kFeatures>::Zero();
    Effects right = Effects::Zero();
    for (const Row& row : rows) {
      if (counts[row.source] == 0) continue;
      const LogFactor factor = factor_of(row, a);
      const auto [time, slope] = predicted(row, factor.value);
      const double residual = row.measured - time;
      const double weight = row.weight * counts[row.source] / std::max(std::abs(residual), kSmallest);
      const Effects z = factor.slope * slope;
      normal += weight * z * z.transpose();
      right += weight * z * (residual + z.dot(a));
    }
    for (std::size_t k = 0; k < kFeatures; ++k) normal(static_cast<int>(k), static_cast<int>(k)) += kRidge;
    hold(normal, right, held);
    const Effects next = normal.ldlt().solve(right);
    const double moved = (next - a).cwiseAbs().maxCoeff();
    a += 0.7 * (next - a);
    if (moved < 1e-4) break;
  }
  return a;
}

}  // namespace

double residual_of(const Row& row, const Effects& a) {
  return row.measured - predicted(row, factor_of(row, a).value).first;
}

Effects fit(const std::vector<Row>& rows, const std::vector<int>& counts) {
  using hardware::SoftwareFeature;
  const double shared = sharing(rows, counts);
  const Effects first = fit_with(rows, counts, {{SoftwareFeature::kShared, shared}, {SoftwareFeature::kServers, 0}});
  const double servers = crossing(rows, counts, first);
  return fit_with(rows, counts, {{SoftwareFeature::kShared, shared}, {SoftwareFeature::kServers, servers}});
}

}  // namespace ddlsim::learn
