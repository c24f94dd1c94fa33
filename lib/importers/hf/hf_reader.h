// Takes a config.json apart: getters that note every fault with the key's place, so that all are reported at once.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ddlsim/io/yaml.h"
#include "ddlsim/support/error.h"

namespace ddlsim::importers::hf {

/// Largest size a configuration may state; products of sizes are checked where they are made.
inline constexpr std::int64_t kLargestSize = std::int64_t{1} << 31;
inline constexpr std::int64_t kMostBlocks = 1'000;
inline constexpr std::int64_t kMostExperts = 4'096;

struct Bounds {
  std::int64_t lowest = 1;
  std::int64_t highest = kLargestSize;
};

class ConfigReader {
 public:
  /// `object` is the document or the object under `path` ("text_config") in it. Text and object must outlive it.
  ConfigReader(const nlohmann::json& object, std::string_view text, std::string file, std::string path = {});

  /// A whole number. A missing key (null counts as missing), another type or a number out of bounds is a fault, and
  /// the lowest value is returned.
  std::int64_t size(const char* key, Bounds bounds = {});
  std::int64_t size_or(const char* key, std::int64_t otherwise, Bounds bounds = {});
  std::optional<std::int64_t> optional_size(const char* key, Bounds bounds = {});
  bool flag_or(const char* key, bool otherwise);
  std::string text_or(const char* key, std::string otherwise);
  /// The texts of a list; empty when missing.
  std::vector<std::string> texts(const char* key);
  /// The whole numbers of a list, from 0; empty when missing.
  std::vector<std::int64_t> counts(const char* key);
  /// How many members an object has; nothing when it is missing.
  std::optional<std::int64_t> members(const char* key);
  /// The value itself; null when it is missing.
  [[nodiscard]] const nlohmann::json* value(const char* key) const { return find(key); }
  /// The object under `key`, as a reader of its own; an empty one when it is missing, a fault when it is no object.
  ConfigReader inner(const char* key);
  /// Takes over the faults of an inner reader.
  void adopt(ConfigReader inner);
  /// A number above zero; a missing key is `otherwise`, anything else a fault.
  double ratio_or(const char* key, double otherwise);
  /// A number from 0 to 1; a missing key is `otherwise`, anything else a fault.
  double probability_or(const char* key, double otherwise);
  [[nodiscard]] bool has(const char* key) const { return find(key) != nullptr; }
  /// Whether the key is there, be it null.
  [[nodiscard]] bool names(const char* key) const { return object_->contains(key); }

  /// Notes a fault of a key's value.
  void report(const char* key, const std::string& message, std::vector<std::string> notes = {},
              ErrorCode code = ErrorCode::kInvalidArgument);
  [[nodiscard]] SourceLocation where(const char* key) const;
  [[nodiscard]] bool failed() const { return !errors_.empty(); }
  std::vector<Error> take_errors() { return std::move(errors_); }

 private:
  [[nodiscard]] const nlohmann::json* find(const char* key) const;
  [[nodiscard]] std::string named(const char* key) const { return path_.empty() ? key : path_ + "." + key; }

  const nlohmann::json* object_;
  std::string_view text_;
  std::string file_;
  std::string path_;
  std::vector<Error> errors_;
};

}  // namespace ddlsim::importers::hf
