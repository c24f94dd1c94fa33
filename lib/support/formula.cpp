#include "ddlsim/support/formula.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

namespace ddlsim {
namespace {

constexpr int kDeepest = 100;  // brackets in brackets, signs of signs

bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool in_name(char c) { return starts_name(c) || (c >= '0' && c <= '9') || c == '_'; }
bool is_digit(char c) { return (c >= '0' && c <= '9') || c == '.'; }

constexpr auto kFunctions = std::to_array<std::string_view>({"max", "min", "sqrt", "exp", "log2"});

bool is_function(std::string_view name) {
  return std::find(kFunctions.begin(), kFunctions.end(), name) != kFunctions.end();
}

/// By recursive descent; the first fault stays.
class FormulaReader {
 public:
  FormulaReader(std::string_view text, std::span<const FormulaValue> values) : text_(text), values_(values) {}

  Expected<double> whole() {
    const double value = sum();
    skip();
    if (!fault_ && at_ < text_.size()) return lose(fmt::format("'{}' is left over", text_.substr(at_, 20)));
    if (fault_) return tl::unexpected<Error>(*fault_);
    return value;
  }

 private:
  tl::unexpected<Error> lose(std::string what, ErrorCode code = ErrorCode::kParse) {
    if (!fault_) fault_ = Error{code, fmt::format("'{}' is no formula: {}", text_.substr(0, 60), what), {}, {}, {}};
    return tl::unexpected<Error>(*fault_);
  }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  double sum() {
    double value = product();
    while (!fault_) {
      if (take('+')) {
        value += product();
      } else if (take('-')) {
        value -= product();
      } else {
        break;
      }
    }
    return value;
  }
  double product() {
    double value = factor();
    while (!fault_) {
      if (take('*')) {
        value *= factor();
      } else if (take('/')) {
        value /= factor();
      } else {
        break;
      }
    }
    return value;
  }
  double factor() {
    skip();
    if (fault_ || at_ >= text_.size()) {
      (void)lose("it ends too soon");
      return 0;
    }
    if (take('-')) return negated();
    if (take('(')) return bracketed();
    return starts_name(text_[at_]) ? name() : number();
  }
  bool deeper() {
    if (++depth_ > kDeepest) (void)lose("too many brackets or signs");
    return !fault_;
  }
  double negated() {
    if (!deeper()) return 0;
    const double value = -factor();
    --depth_;
    return value;
  }
  double bracketed() {
    if (!deeper()) return 0;
    const double value = sum();
    --depth_;
    if (!take(')')) (void)lose("a bracket stays open");
    return value;
  }
  double number() {
    double value = 0;
    const auto [end, status] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (status != std::errc{}) (void)lose(fmt::format("'{}' is no number", text_.substr(at_, 20)));
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }
  double name() {
    const std::size_t first = at_;
    while (at_ < text_.size() && in_name(text_[at_])) ++at_;
    const std::string_view word = text_.substr(first, at_ - first);
    if (is_function(word)) return call(word);
    const auto found = std::find_if(values_.begin(), values_.end(), [&](const auto& v) { return v.first == word; });
    if (found == values_.end()) {
      (void)lose(fmt::format("'{}' has no value", word), ErrorCode::kNotFound);
      return 0;
    }
    return found->second;
  }
  double call(std::string_view function) {
    if (!take('(')) (void)lose(fmt::format("{} without a bracket", function));
    if (fault_) return 0;
    if (function != "max" && function != "min") {
      const double value = bracketed();
      return function == "sqrt" ? std::sqrt(value) : function == "exp" ? std::exp(value) : std::log2(value);
    }
    if (!deeper()) return 0;
    const double first = sum();
    --depth_;
    if (!take(',')) (void)lose(fmt::format("{} is of two", function));
    if (fault_) return 0;
    const double second = bracketed();
    return function == "max" ? std::max(first, second) : std::min(first, second);
  }

  std::string_view text_;
  std::span<const FormulaValue> values_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::optional<Error> fault_;
};

}  // namespace

Expected<double> evaluate(std::string_view formula, std::span<const FormulaValue> values) {
  return FormulaReader(formula, values).whole();
}

std::vector<FormulaPiece> pieces_of(std::string_view formula) {
  std::vector<FormulaPiece> pieces;
  const auto add = [&](std::string_view text, bool name) {
    if (!pieces.empty() && !name && !pieces.back().name) {
      pieces.back().text += text;
    } else {
      pieces.push_back({std::string(text), name});
    }
  };
  for (std::size_t at = 0; at < formula.size();) {
    std::size_t end = at + 1;
    if (is_digit(formula[at])) {  // 1e-3 holds no name
      while (end < formula.size() && (in_name(formula[end]) || is_digit(formula[end]))) ++end;
      add(formula.substr(at, end - at), false);
    } else if (starts_name(formula[at])) {
      while (end < formula.size() && in_name(formula[end])) ++end;
      const std::string_view word = formula.substr(at, end - at);
      add(word, !is_function(word));
    } else {
      add(formula.substr(at, 1), false);
    }
    at = end;
  }
  return pieces;
}

}  // namespace ddlsim
