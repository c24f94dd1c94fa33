#include "json.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <vector>

namespace ddlsim::importers {
namespace {

using Json = nlohmann::json;

/// Goes over a text before a document is made of it: levels, values, the keys of every open object. (The parser's own
/// callback, which could do this on the way, looks at all of a list again at the end of each object in it.)
class Watch : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool string(string_t&) override { return value(); }
  bool binary(binary_t&) override { return value(); }
  bool start_object(std::size_t) override {
    keys_.emplace_back();
    return value() && open();
  }
  bool end_object() override {
    keys_.pop_back();
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override { return value() && open(); }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool key(string_t& key) override {
    if (keys_.back().insert(key).second) return true;
    message_ = fmt::format("the key '{}' stands twice in an object", key.substr(0, 60));
    key_ = key;
    return false;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    byte_ = position;
    return false;
  }

  [[nodiscard]] const std::string& message() const { return message_; }  // empty: not JSON
  [[nodiscard]] const std::string& twice() const { return key_; }        // empty: no key
  [[nodiscard]] std::size_t byte() const { return byte_; }               // of the first fault, from 1

 private:
  bool value() {
    if (++values_ <= kMaxJsonValues) return true;
    message_ = fmt::format("has over {} values", kMaxJsonValues);
    return false;
  }
  bool open() {
    if (++depth_ <= kMaxJsonDepth) return true;
    message_ = fmt::format("is nested over {} levels deep", kMaxJsonDepth);
    return false;
  }

  std::vector<std::set<std::string>> keys_;
  int depth_ = 0;
  std::size_t values_ = 0;
  std::string message_;
  std::string key_;
  std::size_t byte_ = 0;
};

/// Where `key` stands for the second time, as written; the first line where it is written another way.
std::size_t second_place(std::string_view text, const std::string& key) {
  const std::string quoted = "\"" + key + "\"";
  const std::size_t first = text.find(quoted);
  const std::size_t second = first == std::string_view::npos ? first : text.find(quoted, first + 1);
  return second == std::string_view::npos ? 0 : second;
}

/// The text with texts in place of Infinity, -Infinity and NaN, each as long as what it stands for: places stay.
std::string with_texts(std::string_view text) {
  std::string out(text);
  bool quoted = false;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i] == '\\' && quoted) {
      ++i;
    } else if (out[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && out.compare(i, 8, "Infinity") == 0) {
      const bool negative = i > 0 && out[i - 1] == '-';
      out.replace(negative ? i - 1 : i, negative ? 9 : 8, negative ? R"("-\u221e")" : R"("\u221e")");
      i += 7;
    } else if (!quoted && out.compare(i, 3, "NaN") == 0) {
      out.replace(i, 3, R"("?")");
      i += 2;
    }
  }
  return out;
}

}  // namespace

SourceLocation place_in(std::string_view text, const std::string& file, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1;
  const std::size_t newline = before.rfind('\n');
  const std::size_t start = newline == std::string_view::npos ? 0 : newline + 1;
  return {file, line, static_cast<int>(before.size() - start) + 1};
}

Expected<Json> parse_json_object(std::string_view text, const std::string& file, JsonDialect dialect) {
  if (text.size() > kMaxJson) return fail(ErrorCode::kIo, "is over 16 MiB", {file, 0, 0});
  if (dialect == JsonDialect::kPython) return parse_json_object(with_texts(text), file, JsonDialect::kStrict);
  try {
    Watch watch;
    if (!Json::sax_parse(text, &watch)) {
      if (!watch.message().empty()) {
        const std::size_t place = watch.twice().empty() ? 0 : second_place(text, watch.twice());
        return fail(ErrorCode::kParse, watch.message(), place_in(text, file, place));
      }
      const bool short_cut = watch.byte() >= text.size();
      return fail(ErrorCode::kParse,
                  short_cut ? "the JSON ends before it is complete: it was cut short" : "is not JSON",
                  place_in(text, file, watch.byte() == 0 ? 0 : watch.byte() - 1));
    }
    Json document = Json::parse(text);
    if (!document.is_object()) return fail(ErrorCode::kParse, "is no JSON object", {file, 1, 1});
    return document;
  } catch (const Json::exception& problem) {
    return fail(ErrorCode::kParse, fmt::format("cannot be read as JSON ({})", problem.what()), {file, 1, 1});
  }
}

}  // namespace ddlsim::importers
