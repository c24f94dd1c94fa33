#include "ddlsim/calib/nnls.h"

#include <Eigen/Dense>
#include <cmath>

namespace ddlsim::calib {
namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Index = Eigen::Index;

/// A and b after a QR factorisation of [A b]: as many rows as columns, the same solutions.
struct Reduced {
  Eigen::MatrixXd a;
  Eigen::VectorXd b;
};

Reduced reduce(const LeastSquares& system) {
  const auto rows = static_cast<Index>(system.rows());
  const auto columns = static_cast<Index>(system.columns);
  Eigen::MatrixXd both(rows, columns + 1);
  both.leftCols(columns) = Eigen::Map<const RowMajor>(system.a.data(), rows, columns);
  both.col(columns) = Eigen::Map<const Eigen::VectorXd>(system.b.data(), rows);
  if (rows > columns + 1) {
    const Eigen::HouseholderQR<Eigen::MatrixXd> qr(both);
    both = qr.matrixQR().topRows(columns + 1).triangularView<Eigen::Upper>().toDenseMatrix().eval();
  }
  return {both.leftCols(columns), both.col(columns)};
}

std::vector<Index> members(const std::vector<bool>& passive) {
  std::vector<Index> indices;
  for (std::size_t i = 0; i < passive.size(); ++i) {
    if (passive[i]) indices.push_back(static_cast<Index>(i));
  }
  return indices;
}

/// Least squares over the passive columns; 0 elsewhere.
Eigen::VectorXd solve_passive(const Reduced& system, const std::vector<bool>& passive) {
  const std::vector<Index> indices = members(passive);
  Eigen::VectorXd x = Eigen::VectorXd::Zero(system.a.cols());
  const Eigen::MatrixXd part = system.a(Eigen::all, indices);
  const Eigen::VectorXd solution = part.colPivHouseholderQr().solve(system.b);
  for (std::size_t i = 0; i < indices.size(); ++i) x(indices[i]) = solution(static_cast<Index>(i));
  return x;
}

/// Walks from x towards the solution of the passive columns, dropping those that would turn negative on the way.
Eigen::VectorXd walk(const Reduced& system, Eigen::VectorXd x, std::vector<bool>& passive) {
  for (std::size_t i = 0; i <= passive.size(); ++i) {
    Eigen::VectorXd target = solve_passive(system, passive);
    double step = 1;
    for (const Index j : members(passive)) {
      if (target(j) <= 0) step = std::min(step, x(j) / (x(j) - target(j)));
    }
    if (step >= 1) return target;
    x += step * (target - x);
    bool dropped = false;
    for (const Index j : members(passive)) {
      if (target(j) > 0 || x(j) > 1e-14) continue;
      x(j) = 0;
      passive[static_cast<std::size_t>(j)] = false;
      dropped = true;
    }
    if (!dropped || members(passive).empty()) break;
  }
  return x.cwiseMax(0);
}

}  // namespace

std::vector<double> nnls(const LeastSquares& system) {
  if (system.rows() == 0) return std::vector<double>(system.columns, 0.0);
  Reduced reduced = reduce(system);
  Eigen::VectorXd scale = reduced.a.colwise().norm().transpose();
  for (Index j = 0; j < scale.size(); ++j) {
    if (!(scale(j) > 0)) scale(j) = 1;
    reduced.a.col(j) /= scale(j);
  }
  const double tolerance = 1e-12 * reduced.b.norm();
  std::vector<bool> passive(system.columns, false);
  Eigen::VectorXd x = Eigen::VectorXd::Zero(reduced.a.cols());
  std::vector<bool> barred(system.columns, false);  // came back at 0 at once
  for (std::size_t turn = 0; turn < 30 * system.columns + 30; ++turn) {
    const Eigen::VectorXd gradient = reduced.a.transpose() * (reduced.b - reduced.a * x);
    Index best = -1;
    for (Index j = 0; j < gradient.size(); ++j) {
      const auto i = static_cast<std::size_t>(j);
      if (passive[i] || barred[i] || !(gradient(j) > tolerance)) continue;
      if (best < 0 || gradient(j) > gradient(best)) best = j;
    }
    if (best < 0) break;
    const auto entered = static_cast<std::size_t>(best);
    passive[entered] = true;
    if (solve_passive(reduced, passive)(best) <= 0) {
      passive[entered] = false;
      barred[entered] = true;
      continue;
    }
    x = walk(reduced, x, passive);
    barred.assign(system.columns, false);
  }
  const Eigen::VectorXd unscaled = x.cwiseQuotient(scale);
  return {unscaled.data(), unscaled.data() + unscaled.size()};
}

std::vector<double> standard_errors(const LeastSquares& system, const std::vector<double>& x) {
  std::vector<double> errors(system.columns, 0.0);
  std::vector<bool> passive(system.columns);
  for (std::size_t i = 0; i < x.size(); ++i) passive[i] = x[i] > 0;
  const std::vector<Index> indices = members(passive);
  if (indices.empty() || system.rows() <= indices.size()) return errors;
  const Reduced reduced = reduce(system);
  const auto rows = static_cast<Index>(system.rows());
  const Eigen::Map<const RowMajor> a(system.a.data(), rows, static_cast<Index>(system.columns));
  const Eigen::Map<const Eigen::VectorXd> b(system.b.data(), rows);
  const Eigen::Map<const Eigen::VectorXd> solution(x.data(), static_cast<Index>(x.size()));
  const double variance = (b - a * solution).squaredNorm() / static_cast<double>(system.rows() - indices.size());
  Eigen::MatrixXd part = reduced.a(Eigen::all, indices);
  const Eigen::VectorXd scale = part.colwise().norm().transpose();
  for (Index j = 0; j < part.cols(); ++j) part.col(j) /= scale(j);
  const Eigen::MatrixXd inverse = (part.transpose() * part).completeOrthogonalDecomposition().pseudoInverse();
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const auto j = static_cast<Index>(i);
    errors[static_cast<std::size_t>(indices[i])] = std::sqrt(std::max(0.0, variance * inverse(j, j))) / scale(j);
  }
  return errors;
}

}  // namespace ddlsim::calib
