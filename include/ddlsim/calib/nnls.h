// Non-negative least squares: the x >= 0 that minimises |A x - b|^2.
//
// Active-set method of Lawson and Hanson, "Solving Least Squares Problems" (1974), chapter 23, on the triangular factor
// of [A b]: columns are scaled to length 1, so units do not matter. Columns that others span get 0.
// Worked example: A = [1 0; 0 1; 1 1], b = (2, -1, 1): without bounds x = (2, -1); with x >= 0 the second is 0 and the
// first is the mean of rows 1 and 3, 1.5.
//
// Used by calib/robust.h.
#pragma once

#include <cstddef>
#include <vector>

namespace ddlsim::calib {

/// Row by row: a holds rows x columns values, b one per row.
struct LeastSquares {
  std::size_t columns = 0;
  std::vector<double> a;
  std::vector<double> b;

  [[nodiscard]] std::size_t rows() const { return b.size(); }
};

/// All values must be finite.
[[nodiscard]] std::vector<double> nnls(const LeastSquares& system);

/// Standard errors of a solution of the system, from the residuals and (A^T A)^-1 over the columns that are not 0;
/// 0 for the others, and for all where there are no more rows than those columns.
[[nodiscard]] std::vector<double> standard_errors(const LeastSquares& system, const std::vector<double>& x);

}  // namespace ddlsim::calib
