// What `where:` says of the points of a grid. Private to the room.
//
//   nodes * batch <= 4096 and not (strategy == ps or network < 25 Gb/s)      model in [resnet50, bert_large]
//
// Names are paths that the grid states; numbers may have units, and are compared in them; other values are text, alike
// or not as names are (case, '_' and '-' fold). A word on the right of ==, != and in a list that is no path is text.
// `and`, `or`, `not`, + - * /, == != < <= > >=, in [...]; a minus stands between spaces, for names may hold one.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ddlsim/support/error.h"

namespace ddlsim::whatif {

/// A value of a condition: text, truth, a plain number, or one in some unit.
struct Operand {
  static constexpr int kTruth = -2;
  static constexpr int kText = -1;
  static constexpr int kPlain = 0;  // units count on from here

  int kind = kText;
  double number = 0;  // in SI units; of a truth 1 or 0
  std::string text;   // folded
};

[[nodiscard]] Operand operand_of(std::string_view text);

/// What a name in a condition stands for.
struct NamedValues {
  std::string path;
  std::size_t axis = 0;         // whose step says which value it is
  std::vector<Operand> values;  // of one kind: text where they are of several
};

class WhereClause {
 public:
  /// `names`: what the grid states. A name that is no setting of it is an error.
  [[nodiscard]] static Expected<WhereClause> parse(const std::string& text, const std::vector<NamedValues>& names);
  /// `digits`: the step of every axis.
  [[nodiscard]] bool holds(std::span<const std::size_t> digits) const;

 private:
  friend class WhereParser;
  enum class What {
    kLiteral,
    kName,
    kNot,
    kAnd,
    kOr,
    kAdd,
    kSubtract,
    kMultiply,
    kDivide,
    kEqual,
    kUnequal,
    kLess,
    kLessEqual
  };
  struct Term {
    What what = What::kLiteral;
    std::size_t left = 0;  // terms
    std::size_t right = 0;
    int kind = Operand::kText;
    Operand literal;
    NamedValues name;
  };
  [[nodiscard]] bool truth(std::size_t place, std::span<const std::size_t> digits) const;
  [[nodiscard]] double number(std::size_t place, std::span<const std::size_t> digits) const;
  [[nodiscard]] const Operand& value(const Term& term, std::span<const std::size_t> digits) const;

  std::vector<Term> terms_;
  std::size_t root_ = 0;
};

}  // namespace ddlsim::whatif
