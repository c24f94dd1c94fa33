// One job at several values of one setting: what a curve is drawn from (whatif/curve.h).
#pragma once

#include <string>
#include <vector>

#include "ddlsim/answer/prediction.h"

namespace ddlsim::answer {

struct CurvePoint {
  std::string value;  // as it was stated
  double x = 0;       // the same as a number; of a quantity in SI units, of words their place in the list
  Prediction prediction;
};

struct CurveGap {
  std::string value;
  std::string why;
};

struct Curve {
  std::string title;    // the job in words, at the first value
  std::string setting;  // its path
  bool numbers = true;  // whether values have sizes, and so an order
  std::vector<CurvePoint> points;
  std::vector<CurveGap> gaps;  // values without an answer
};

}  // namespace ddlsim::answer
