// A formula as text, worked out: what `ddlsim explain` holds its equations against.
//
//   2 * (n - 1) / n,   max(r + D - B, 0),   exp(e_always + e_volta)
//
// Numbers, names (letters, digits, '_'), + - * / and brackets, max and min of two, sqrt, exp, log2. Worked example:
// evaluate("2 * (n - 1) / n", {{"n", 8}}) is 1.75.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ddlsim/support/error.h"

namespace ddlsim {

using FormulaValue = std::pair<std::string, double>;

/// Errors: kParse for what is no formula, kNotFound for a name without a value.
[[nodiscard]] Expected<double> evaluate(std::string_view formula, std::span<const FormulaValue> values);

/// The names in a formula, functions apart, in order, with what stands between them: name, text, name, text, ...; the
/// first is text.
struct FormulaPiece {
  std::string text;
  bool name = false;
};
[[nodiscard]] std::vector<FormulaPiece> pieces_of(std::string_view formula);

}  // namespace ddlsim
