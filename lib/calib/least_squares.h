// Robust nonlinear least squares within bounds, for few parameters and functions that are not smooth everywhere.
//
//   minimises  sum_i s^2 rho((r_i / s)^2) + sum_j (prior_weight (x_j - prior_j))^2,   rho(z) = 2 (sqrt(1 + z) - 1)
// Levenberg-Marquardt on rows reweighted by rho' (the weight of a row of residual r is 1 / sqrt(1 + (r / s)^2)),
// derivatives by forward differences, steps clipped to the bounds; a parameter that sits on a bound and would leave it
// stands still. Deterministic. Source: Triggs et al., Bundle adjustment, 1999 (reweighting); More 1978 (damping).
#pragma once

#include <functional>
#include <vector>

namespace ddlsim::calib {

struct Parameter {
  double least = 0;
  double prior = 0;  // where it starts, and what it is pulled to
  double most = 0;
};

struct SearchOptions {
  double scale = 0.05;  // of residuals: beyond it rows count in proportion to their residual, not to its square
  double prior_weight = 0;
  double difference = 1e-3;
  int most_steps = 40;
};

struct SearchResult {
  std::vector<double> x;
  double cost = 0;
};

/// Writes the residuals at x into its second argument, always as many.
using Residuals = std::function<void(const std::vector<double>&, std::vector<double>&)>;

[[nodiscard]] SearchResult search(const Residuals& residuals, const std::vector<Parameter>& parameters,
                                  std::vector<double> start, const SearchOptions& options = {});

}  // namespace ddlsim::calib
