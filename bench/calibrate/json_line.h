// JSON text of measured rows: flat objects, keys in the order given. Host only.
//
// Example: Line().add("op", "launch").add("time_s", 2.3e-6).text() == R"({"op":"launch","time_s":2.3e-06})"
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <type_traits>

namespace ddlsim::measure {

/// With quotes; control characters become spaces, so that one row stays one line.
inline std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '"';
}

inline std::string number(double value) {
  if (!std::isfinite(value)) return "null";
  char text[32];
  std::snprintf(text, sizeof text, "%.7g", value);
  return text;
}

class Line {
 public:
  Line() = default;
  /// Goes on from keys that were written before.
  explicit Line(std::string keys) : keys_(std::move(keys)) {}

  Line& add(const char* key, const std::string& value) { return raw(key, quoted(value)); }
  Line& add(const char* key, const char* value) { return raw(key, quoted(value)); }
  Line& add(const char* key, bool value) { return raw(key, value ? "true" : "false"); }
  Line& add(const char* key, double value) { return raw(key, number(value)); }
  template <typename T, typename = std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>>
  Line& add(const char* key, T value) {
    return raw(key, std::to_string(value));
  }
  /// `json` is JSON already.
  Line& raw(const char* key, const std::string& json) {
    if (!keys_.empty()) keys_ += ',';
    keys_ += quoted(key) + ':' + json;
    return *this;
  }

  [[nodiscard]] const std::string& keys() const { return keys_; }
  [[nodiscard]] std::string text() const { return '{' + keys_ + '}'; }

 private:
  std::string keys_;
};

}  // namespace ddlsim::measure
