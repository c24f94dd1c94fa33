#include "least_squares.h"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <utility>

namespace ddlsim::calib {
namespace {

using Index = Eigen::Index;

std::size_t at(Index index) { return static_cast<std::size_t>(index); }

double clip(double value, const Parameter& parameter) { return std::clamp(value, parameter.least, parameter.most); }

class Problem {
 public:
  Problem(const Residuals& residuals, const std::vector<Parameter>& parameters, const SearchOptions& options)
      : residuals_(residuals), parameters_(parameters), options_(options) {}

  double evaluate(const std::vector<double>& x, std::vector<double>& r) const {
    residuals_(x, r);
    double cost = 0;
    const double square = options_.scale * options_.scale;
    for (const double residual : r) cost += 2 * square * (std::sqrt(1 + residual * residual / square) - 1);
    for (std::size_t j = 0; j < x.size(); ++j) {
      const double away = options_.prior_weight * (x[j] - parameters_[j].prior);
      cost += away * away;
    }
    return cost;
  }

  /// The reweighted normal equations at x, where the residuals are r.
  void linearise(const std::vector<double>& x, const std::vector<double>& r, Eigen::MatrixXd& normal,
                 Eigen::VectorXd& gradient) const {
    const auto columns = static_cast<Index>(x.size());
    const auto rows = static_cast<Index>(r.size());
    Eigen::MatrixXd jacobian(rows, columns);
    Eigen::VectorXd residual(rows);
    std::vector<double> moved(r.size());
    for (Index j = 0; j < columns; ++j) {
      std::vector<double> y = x;
      // Inwards at the upper bound, so that the difference never leaves the bounds.
      const bool up = x[at(j)] + options_.difference <= parameters_[at(j)].most;
      const double by = up ? options_.difference : -options_.difference;
      y[at(j)] += by;
      residuals_(y, moved);
      for (Index i = 0; i < rows; ++i) jacobian(i, j) = (moved[at(i)] - r[at(i)]) / by;
    }
    for (Index i = 0; i < rows; ++i) {
      const double z = r[at(i)] / options_.scale;
      const double weight = 1 / std::sqrt(std::sqrt(1 + z * z));  // its square weighs the row
      jacobian.row(i) *= weight;
      residual(i) = weight * r[at(i)];
    }
    normal = jacobian.transpose() * jacobian;
    gradient = jacobian.transpose() * residual;
    for (Index j = 0; j < columns; ++j) {
      normal(j, j) += options_.prior_weight * options_.prior_weight;
      gradient(j) += options_.prior_weight * options_.prior_weight * (x[at(j)] - parameters_[at(j)].prior);
      const bool low = x[at(j)] <= parameters_[at(j)].least && gradient(j) > 0;
      const bool high = x[at(j)] >= parameters_[at(j)].most && gradient(j) < 0;
      if (low || high) {
        normal.row(j).setZero();
        normal.col(j).setZero();
        normal(j, j) = 1;
        gradient(j) = 0;
      }
    }
  }

  [[nodiscard]] std::vector<double> stepped(const std::vector<double>& x, const Eigen::MatrixXd& normal,
                                            const Eigen::VectorXd& gradient, double damping) const {
    Eigen::MatrixXd damped = normal;
    for (Index j = 0; j < damped.rows(); ++j) damped(j, j) += damping * (damped(j, j) + 1e-6);
    const Eigen::VectorXd step = damped.ldlt().solve(gradient);
    std::vector<double> y = x;
    for (Index j = 0; j < step.size(); ++j) {
      // No parameter changes by more than a factor of e in one step: the linearisation knows nothing that far away.
      if (std::isfinite(step(j))) y[at(j)] = clip(x[at(j)] - std::clamp(step(j), -1.0, 1.0), parameters_[at(j)]);
    }
    return y;
  }

 private:
  const Residuals& residuals_;
  const std::vector<Parameter>& parameters_;
  const SearchOptions& options_;
};

}  // namespace

SearchResult search(const Residuals& residuals, const std::vector<Parameter>& parameters, std::vector<double> start,
                    const SearchOptions& options) {
  const Problem problem(residuals, parameters, options);
  std::vector<double> x = std::move(start);
  for (std::size_t j = 0; j < x.size(); ++j) x[j] = clip(x[j], parameters[j]);
  std::vector<double> r;
  std::vector<double> tried_r;
  double cost = problem.evaluate(x, r);
  double damping = 1e-2;
  Eigen::MatrixXd normal;
  Eigen::VectorXd gradient;
  int idle = 0;
  for (int step = 0; step < options.most_steps && idle < 2; ++step) {
    problem.linearise(x, r, normal, gradient);
    bool better = false;
    for (int attempt = 0; attempt < 6 && !better; ++attempt) {
      std::vector<double> y = problem.stepped(x, normal, gradient, damping);
      const double tried = problem.evaluate(y, tried_r);
      better = tried < cost;
      if (better) {
        idle = cost - tried < 1e-3 * cost ? idle + 1 : 0;
        cost = tried;
        x = std::move(y);
        std::swap(r, tried_r);
        damping = std::max(damping / 5, 1e-6);
      } else {
        damping *= 6;
      }
    }
    if (!better) break;
  }
  return {std::move(x), cost};
}

}  // namespace ddlsim::calib
