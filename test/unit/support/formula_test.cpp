#include "ddlsim/support/formula.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>

using namespace ddlsim;

namespace {

double of(std::string_view formula, const std::vector<FormulaValue>& values = {}) {
  return evaluate(formula, values).value();
}

}  // namespace

TEST_CASE("formula: worked out", "[unit][formula]") {
  CHECK(of("2 * (n - 1) / n", {{"n", 8}}) == 1.75);
  CHECK(of("1 + 2 * 3 - 4 / 2") == 5);
  CHECK(of("8 / 4 / 2") == 1);
  CHECK(of("-3 + 5") == 2);
  CHECK(of("max(r + D - B, 0)", {{"r", 2}, {"D", 3}, {"B", 4}}) == 1);
  CHECK(of("max(r + D - B, 0)", {{"r", 0}, {"D", 3}, {"B", 4}}) == 0);
  CHECK(of("min(s * B, c)", {{"s", 0.5}, {"B", 10}, {"c", 4}}) == 4);
  CHECK(of("g * exp(e_1 * x_1 + e_2 * x_2)", {{"g", 2}, {"e_1", 0.1}, {"x_1", 1}, {"e_2", -0.3}, {"x_2", 2}}) ==
        Approx(2 * std::exp(-0.5)));
  CHECK(of("log2(1 + S / S_0)", {{"S", 3}, {"S_0", 1}}) == 2);
  CHECK(of("sqrt(16) * 1e-3") == Approx(4e-3));
}

TEST_CASE("formula: what is none", "[unit][formula]") {
  const std::string deep(100000, '(');
  const std::string signs = std::string(100000, '-') + "1";
  std::string calls;
  for (int i = 0; i < 100000; ++i) calls += "max(";
  for (const std::string text :
       {"", "1 +", "2 2", "(1", "max(1)", "max 1", "1..2 x", "$", "sqrt", deep.c_str(), signs.c_str(), calls.c_str()}) {
    INFO(text.substr(0, 20));
    CHECK(evaluate(text, {}).error().code == ErrorCode::kParse);
  }
  CHECK(evaluate("2 * n", {}).error().code == ErrorCode::kNotFound);
}

TEST_CASE("formula: pieces", "[unit][formula]") {
  std::string text;
  std::string names;
  for (const FormulaPiece& piece : pieces_of("max(L_1 + 1e-3 * b, 0)")) {
    text += piece.text;
    if (piece.name) names += piece.text + " ";
  }
  CHECK(text == "max(L_1 + 1e-3 * b, 0)");
  CHECK(names == "L_1 b ");
}
