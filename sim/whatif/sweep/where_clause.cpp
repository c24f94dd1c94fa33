#include "sweep/where_clause.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ddlsim/support/names.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/support/units.h"

namespace ddlsim::whatif {
namespace {

constexpr int kMostDepth = 64;
constexpr std::size_t kMostTerms = 4096;

template <Dimension D>
bool in_unit(std::string_view text, Unit<D> unit, int kind, Operand& operand) {
  const auto parsed = parse_quantity<D>(text, Range::kNonNegative);
  if (!parsed) return false;
  operand.kind = kind;
  operand.number = parsed->in(unit);
  return true;
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_figure(char c) { return c >= '0' && c <= '9'; }

tl::unexpected<Error> wrong(std::string what, std::string note = "") {
  std::vector<std::string> notes;
  if (!note.empty()) notes.push_back(std::move(note));
  return fail(ErrorCode::kParse, std::move(what), {}, std::move(notes));
}

std::string_view word_for(int kind) {
  if (kind == Operand::kTruth) return "a condition";
  if (kind == Operand::kText) return "text";
  return kind == Operand::kPlain ? "a plain number" : "a number with a unit";
}

}  // namespace

Operand operand_of(std::string_view text) {
  Operand operand;
  if (const auto number = parse_number(text)) {
    operand.kind = Operand::kPlain;
    operand.number = *number;
    return operand;
  }
  const bool quantity = in_unit(text, seconds, 1, operand) || in_unit(text, bytes, 2, operand) ||
                        in_unit(text, bytes_per_second, 3, operand) || in_unit(text, flops_per_second, 4, operand) ||
                        in_unit(text, dollars_per_hour, 5, operand) || in_unit(text, flops, 6, operand);
  if (quantity) return operand;
  if (const auto share = parse_fraction(text)) {
    operand.kind = Operand::kPlain;
    operand.number = *share;
    return operand;
  }
  operand.text = fold_name(text);
  return operand;
}

/// Recursive descent; every method leaves `at_` behind what it read.
class WhereParser {
 public:
  using What = WhereClause::What;
  using Term = WhereClause::Term;
  using Place = Expected<std::size_t>;  // of a term

  WhereParser(const std::string& text, const std::vector<NamedValues>& names) : text_(text), names_(names) {}

  Expected<WhereClause> parse() {
    const auto root = disjunction();
    if (!root) return tl::unexpected<Error>(root.error());
    skip();
    if (at_ < text_.size()) return wrong(fmt::format("'{}' is left over", rest()));
    if (made_.terms_[*root].kind != Operand::kTruth) {
      return wrong("it is no condition: nothing is compared", "as nodes * batch <= 4096");
    }
    made_.root_ = *root;
    return std::move(made_);
  }

 private:
  [[nodiscard]] std::string rest() const { return text_.substr(std::min(at_, text_.size()), 40); }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
  }
  bool take(std::string_view token) {
    skip();
    if (!text_.substr(at_).starts_with(token)) return false;
    const std::size_t end = at_ + token.size();
    const bool word = is_letter(token.front());
    if (word && end < text_.size() && in_name(text_[end])) return false;
    at_ = end;
    return true;
  }
  static bool in_name(char c) { return is_letter(c) || is_figure(c) || c == '.' || c == '-'; }

  Place add(Term term) {
    if (made_.terms_.size() == kMostTerms) return wrong("it is too long");
    made_.terms_.push_back(std::move(term));
    return made_.terms_.size() - 1;
  }
  [[nodiscard]] int kind(std::size_t term) const { return made_.terms_[term].kind; }

  Place joined(What what, std::size_t left, Place right) {
    if (!right) return right;
    for (const std::size_t side : {left, *right}) {
      if (kind(side) != Operand::kTruth) return wrong("'and', 'or' and 'not' join conditions", "as a > 1 and b == c");
    }
    return add({.what = what, .left = left, .right = *right, .kind = Operand::kTruth, .literal = {}, .name = {}});
  }

  Place disjunction() {
    if (++depth_ > kMostDepth) return wrong("it is nested too deeply");
    Place left = conjunction();
    while (left && take("or")) left = joined(What::kOr, *left, conjunction());
    --depth_;
    return left;
  }
  Place conjunction() {
    Place left = negation();
    while (left && take("and")) left = joined(What::kAnd, *left, negation());
    return left;
  }
  Place negation() {
    if (!take("not")) return comparison();
    if (++depth_ > kMostDepth) return wrong("it is nested too deeply");
    Place of = negation();
    --depth_;
    if (!of) return of;
    return joined(What::kNot, *of, *of);
  }

  Place comparison() {
    Place left = sum(false);
    if (!left) return left;
    if (take("in")) return member(*left);
    struct Sign {
      std::string_view token;
      What what;
      bool swapped;
    };
    constexpr std::array<Sign, 6> kSigns{{{"==", What::kEqual, false},
                                          {"!=", What::kUnequal, false},
                                          {"<=", What::kLessEqual, false},
                                          {">=", What::kLessEqual, true},
                                          {"<", What::kLess, false},
                                          {">", What::kLess, true}}};
    for (const Sign& sign : kSigns) {
      if (!take(sign.token)) continue;
      const bool alike = sign.what == What::kEqual || sign.what == What::kUnequal;
      Place right = sum(alike);
      if (!right) return right;
      return sign.swapped ? compared(sign.what, *right, *left) : compared(sign.what, *left, *right);
    }
    return left;
  }

  Place compared(What what, std::size_t left, std::size_t right) {
    const bool order = what == What::kLess || what == What::kLessEqual;
    for (const std::size_t side : {left, right}) {
      if (kind(side) == Operand::kTruth) return wrong("a condition is no value to compare");
      if (order && kind(side) == Operand::kText) return wrong(fmt::format("{} is not a number", said(side)));
    }
    if (kind(left) != kind(right)) {
      return wrong(
          fmt::format("{} is {}, {} is {}", said(left), word_for(kind(left)), said(right), word_for(kind(right))),
          "compare what has the same unit");
    }
    return add({.what = what, .left = left, .right = right, .kind = Operand::kTruth, .literal = {}, .name = {}});
  }

  Place member(std::size_t left) {
    if (!take("[")) {
      return wrong(fmt::format("'in' without a list before '{}'", rest()), "as model in [resnet50, vgg16]");
    }
    std::optional<std::size_t> any;
    do {
      Place one = sum(true);
      if (!one) return one;
      Place alike = compared(What::kEqual, left, *one);
      if (!alike) return alike;
      Place so_far = any ? joined(What::kOr, *any, *alike) : alike;
      if (!so_far) return so_far;
      any = *so_far;
    } while (take(","));
    if (!take("]")) return wrong(fmt::format("a ']' is missing before '{}'", rest()));
    return *any;
  }

  Place sum(bool words) {
    Place left = product(words);
    while (left) {
      const bool plus = take("+");
      if (!plus && !take("-")) break;
      left = reckoned(plus ? What::kAdd : What::kSubtract, *left, product(false));
    }
    return left;
  }
  Place product(bool words) {
    Place left = value(words);
    while (left) {
      const bool times = take("*");
      if (!times && !take("/")) break;
      left = reckoned(times ? What::kMultiply : What::kDivide, *left, value(false));
    }
    return left;
  }
  Place reckoned(What what, std::size_t left, Place right) {
    if (!right) return right;
    const int a = kind(left);
    const int b = kind(*right);
    for (const std::size_t side : {left, *right}) {
      if (kind(side) < 0) return wrong(fmt::format("{} is not a number", said(side)));
    }
    const bool plain_second = b == Operand::kPlain;
    int result = a;
    bool sound = a == b;
    if (what == What::kMultiply) {
      sound = plain_second || a == Operand::kPlain;
      result = plain_second ? a : b;
    } else if (what == What::kDivide) {
      sound = plain_second || a == b;
      result = a == b ? Operand::kPlain : a;
    }
    if (!sound) return wrong(fmt::format("{} and {} have units that do not go together", said(left), said(*right)));
    return add({.what = what, .left = left, .right = *right, .kind = result, .literal = {}, .name = {}});
  }

  Place literal(std::string_view written) {
    Term term;
    term.literal = operand_of(written);
    term.kind = term.literal.kind;
    term.name.path = written;
    return add(std::move(term));
  }

  Place value(bool words) {
    skip();
    if (at_ == text_.size()) return wrong("a value is missing at its end");
    const char c = text_[at_];
    if (take("(")) {
      Place inner = disjunction();
      if (inner && !take(")")) return wrong(fmt::format("a ')' is missing before '{}'", rest()));
      return inner;
    }
    if (c == '"' || c == '\'') return quoted(c);
    if (is_figure(c)) return number();
    if (is_letter(c)) return name(words);
    return wrong(fmt::format("'{}' is no value", rest()));
  }
  Place quoted(char quote) {
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string::npos) return wrong(fmt::format("a quote is open: {}", rest()));
    const std::string inside = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return literal(inside);
  }
  /// "64", "1e6", "25 Gb/s", "70 %".
  Place number() {
    const std::size_t start = at_;
    while (at_ < text_.size() && (is_figure(text_[at_]) || text_[at_] == '.')) ++at_;
    if (at_ + 1 < text_.size() && text_[at_] == 'e' && (is_figure(text_[at_ + 1]) || text_[at_ + 1] == '-')) {
      at_ += 2;
      while (at_ < text_.size() && is_figure(text_[at_])) ++at_;
    }
    const std::size_t digits = at_;
    skip();
    const std::size_t unit = at_;
    while (at_ < text_.size() &&
           (is_letter(text_[at_]) || text_[at_] == '%' || text_[at_] == '$' ||
            (text_[at_] == '/' && at_ > unit && at_ + 1 < text_.size() && is_letter(text_[at_ + 1])))) {
      ++at_;
    }
    const std::string word = text_.substr(unit, at_ - unit);
    if (word.empty() || word == "and" || word == "or" || word == "in" || word == "not") {
      at_ = digits;
      return literal(text_.substr(start, digits - start));
    }
    const std::string whole = text_.substr(start, digits - start) + " " + word;
    if (operand_of(whole).kind == Operand::kText) {
      return wrong(fmt::format("'{}' is no unit here", word), "as 25 Gb/s, 16 GiB, 5 us, 70 %, 12 $/h");
    }
    return literal(whole);
  }
  Place name(bool words) {
    const std::size_t start = at_;
    while (at_ < text_.size() && in_name(text_[at_])) ++at_;
    const std::string word = text_.substr(start, at_ - start);
    for (const NamedValues& known : names_) {
      if (known.path != word) continue;
      Term term;
      term.what = What::kName;
      term.kind = known.values.front().kind;
      term.name = known;
      return add(std::move(term));
    }
    if (words) return literal(word);
    std::vector<std::string> paths;
    for (const NamedValues& known : names_) paths.push_back(known.path);
    return fail(ErrorCode::kNotFound, fmt::format("the grid states no '{}'", word.substr(0, 60)), {},
                {suggestion(word, paths)});
  }

  [[nodiscard]] std::string said(std::size_t term) const {
    const Term& one = made_.terms_[term];
    return one.name.path.empty() ? "what is reckoned" : fmt::format("'{}'", one.name.path.substr(0, 60));
  }

  const std::string& text_;
  const std::vector<NamedValues>& names_;
  std::size_t at_ = 0;
  int depth_ = 0;
  WhereClause made_;
};

Expected<WhereClause> WhereClause::parse(const std::string& text, const std::vector<NamedValues>& names) {
  return WhereParser(text, names).parse();
}

bool WhereClause::holds(std::span<const std::size_t> digits) const { return truth(root_, digits); }

const Operand& WhereClause::value(const Term& term, std::span<const std::size_t> digits) const {
  if (term.what == What::kLiteral) return term.literal;
  const std::size_t digit = term.name.values.size() == 1 ? 0 : digits[term.name.axis];
  return term.name.values[digit];
}

double WhereClause::number(std::size_t place, std::span<const std::size_t> digits) const {
  const Term& term = terms_[place];
  switch (term.what) {
    case What::kAdd: return number(term.left, digits) + number(term.right, digits);
    case What::kSubtract: return number(term.left, digits) - number(term.right, digits);
    case What::kMultiply: return number(term.left, digits) * number(term.right, digits);
    case What::kDivide: return number(term.left, digits) / number(term.right, digits);
    case What::kLiteral:
    case What::kName: return value(term, digits).number;
    case What::kNot:
    case What::kAnd:
    case What::kOr:
    case What::kEqual:
    case What::kUnequal:
    case What::kLess:
    case What::kLessEqual: return truth(place, digits) ? 1 : 0;
  }
  return 0;
}

bool WhereClause::truth(std::size_t place, std::span<const std::size_t> digits) const {
  const Term& term = terms_[place];
  const auto alike = [&] {
    const Term& left = terms_[term.left];
    if (left.kind != Operand::kText) return number(term.left, digits) == number(term.right, digits);
    return value(left, digits).text == value(terms_[term.right], digits).text;
  };
  switch (term.what) {
    case What::kNot: return !truth(term.left, digits);
    case What::kAnd: return truth(term.left, digits) && truth(term.right, digits);
    case What::kOr: return truth(term.left, digits) || truth(term.right, digits);
    case What::kEqual: return alike();
    case What::kUnequal: return !alike();
    case What::kLess: return number(term.left, digits) < number(term.right, digits);
    case What::kLessEqual: return number(term.left, digits) <= number(term.right, digits);
    case What::kLiteral:
    case What::kName:
    case What::kAdd:
    case What::kSubtract:
    case What::kMultiply:
    case What::kDivide: return false;
  }
  return false;
}

}  // namespace ddlsim::whatif
