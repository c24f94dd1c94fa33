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

/// Keeps the effect of sharing a server where series have it.
void hold(Eigen::Matrix<double, kFeatures, kFeatures>& normal, Effects& right, double shared) {
  constexpr double kStiff = 1e9;
  constexpr int kDoublings = static_cast<int>(hardware::SoftwareFeature::kShared);
  normal(kDoublings, kDoublings) += kStiff;
  right[kDoublings] += kStiff * shared;
}

/// What a doubling of the GPUs that share a server takes: in every series of one server, from its smallest row to each
/// other; their median, a source weighing as the square root of its rows. Between series other things differ as well.
double sharing(const std::vector<Row>& rows, const std::vector<int>& counts) {
  constexpr int kDoublings = static_cast<int>(hardware::SoftwareFeature::kShared);
  std::map<std::string, const Row*> smallest;
  const auto within = [](const Row& row) { return row.one_server; };
  for (const Row& row : rows) {
    if (!within(row)) continue;
    const Row*& least = smallest[row.group];
    if (least == nullptr || row.features[kDoublings] < least->features[kDoublings]) least = &row;
  }
  std::vector<std::pair<double, double>> slopes;
  for (const Row& row : rows) {
    if (!within(row) || counts[row.source] == 0) continue;
    const Row& least = *smallest.at(row.group);
    const double doublings = row.features[kDoublings] - least.features[kDoublings];
    if (doublings <= 0) continue;
    const double more = (row.measured - predicted(row, 0).first) - (least.measured - predicted(least, 0).first);
    slopes.emplace_back(more / doublings, row.weight * counts[row.source]);
  }
  return slopes.empty() ? 0 : weighted_quantile(std::move(slopes), 0.5);
}

}  // namespace

double residual_of(const Row& row, const Effects& a) {
  return row.measured - predicted(row, factor_of(row, a).value).first;
}

Effects fit(const std::vector<Row>& rows, const std::vector<int>& counts) {
  const double held = sharing(rows, counts);
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

}  // namespace ddlsim::learn
