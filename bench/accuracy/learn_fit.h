// The effects of software that fit rows best. The objective and the method: learn.cpp.
#pragma once

#include <Eigen/Dense>
#include <vector>

#include "learn_rows.h"

namespace ddlsim::learn {

using Effects = Eigen::Matrix<double, kFeatures, 1>;

/// log of measured over predicted time.
[[nodiscard]] double residual_of(const Row& row, const Effects& a);

/// `counts`: how often each source is in the sample.
[[nodiscard]] Effects fit(const std::vector<Row>& rows, const std::vector<int>& counts);

}  // namespace ddlsim::learn
