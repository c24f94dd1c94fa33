#include "hf_reader.h"

#include <fmt/core.h>

#include <algorithm>

#include "json.h"

namespace ddlsim::importers::hf {
namespace {

using Json = nlohmann::json;

/// A value as it stands, on one short line.
std::string shown(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  if (value.is_string()) {
    const std::string text = value.get<std::string>();
    if (text == kInfinity) return "Infinity";
    if (text == "-" + std::string(kInfinity)) return "-Infinity";
    if (text == kNan) return "NaN";
  }
  return value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 60);
}

/// A whole number in 64 bits; nothing for anything else.
std::optional<std::int64_t> whole(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) {
    return INT64_MAX;
  }
  return value.get<std::int64_t>();
}

}  // namespace

ConfigReader::ConfigReader(const Json& object, std::string_view text, std::string file, std::string path)
    : object_(&object), text_(text), file_(std::move(file)), path_(std::move(path)) {}

const Json* ConfigReader::find(const char* key) const {
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

SourceLocation ConfigReader::where(const char* key) const {
  const std::string last = path_.substr(path_.rfind('.') + 1);
  const std::size_t outer = path_.empty() ? 0 : std::min(text_.find("\"" + last + "\""), text_.size());
  // What an inner object lacks may well stand in another one: its own place is what can be shown.
  if (!path_.empty() && !object_->contains(key)) {
    return outer == text_.size() ? SourceLocation{file_, 0, 0} : place_in(text_, file_, outer);
  }
  const std::size_t place = text_.find("\"" + std::string(key) + "\"", outer);
  return place == std::string_view::npos ? SourceLocation{file_, 0, 0} : place_in(text_, file_, place);
}

void ConfigReader::report(const char* key, const std::string& message, std::vector<std::string> notes, ErrorCode code) {
  if (errors_.size() >= io::kMaxErrors) return;
  errors_.push_back(Error{code, fmt::format("'{}' {}", named(key), message), where(key), std::move(notes), {}});
}

std::optional<std::int64_t> ConfigReader::optional_size(const char* key, Bounds bounds) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = whole(*value);
  if (number && *number >= bounds.lowest && *number <= bounds.highest) return number;
  report(key, "is " + shown(*value),
         {fmt::format("it must be a whole number from {} to {}", bounds.lowest, bounds.highest)});
  return bounds.lowest;
}

std::int64_t ConfigReader::size_or(const char* key, std::int64_t otherwise, Bounds bounds) {
  return optional_size(key, bounds).value_or(otherwise);
}

std::int64_t ConfigReader::size(const char* key, Bounds bounds) {
  if (find(key) == nullptr) {
    std::vector<std::string> notes{
        fmt::format("it must be a whole number from {} to {}", bounds.lowest, bounds.highest)};
    if (path_ == "text_config") {
      notes.emplace_back(
          "transformers leaves out what its class has by default: write text_config as text_config.to_dict() prints "
          "it");
    }
    report(key, "is missing", std::move(notes));
    return bounds.lowest;
  }
  return size_or(key, bounds.lowest, bounds);
}

bool ConfigReader::flag_or(const char* key, bool otherwise) {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (value->is_boolean()) return value->get<bool>();
  report(key, "is " + shown(*value), {"it must be true or false"});
  return otherwise;
}

std::string ConfigReader::text_or(const char* key, std::string otherwise) {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (value->is_string()) return value->get<std::string>();
  report(key, "is " + shown(*value), {"it must be a text"});
  return otherwise;
}

std::vector<std::string> ConfigReader::texts(const char* key) {
  const Json* value = find(key);
  std::vector<std::string> texts;
  if (value == nullptr) return texts;
  const bool list = value->is_array();
  if (!list || !std::all_of(value->begin(), value->end(), [](const Json& item) { return item.is_string(); })) {
    report(key, list ? "has an item that is no text" : "is " + shown(*value), {"it must be a list of texts"});
    return texts;
  }
  for (const Json& item : *value) texts.push_back(item.get<std::string>());
  return texts;
}

std::vector<std::int64_t> ConfigReader::counts(const char* key) {
  const Json* value = find(key);
  std::vector<std::int64_t> counts;
  if (value == nullptr) return counts;
  const bool list = value->is_array();
  if (!list ||
      !std::all_of(value->begin(), value->end(), [](const Json& item) { return whole(item).value_or(-1) >= 0; })) {
    report(key, list ? "has an item that is no whole number" : "is " + shown(*value),
           {"it must be a list of whole numbers, none below 0"});
    return counts;
  }
  for (const Json& item : *value) counts.push_back(*whole(item));
  return counts;
}

std::optional<std::int64_t> ConfigReader::members(const char* key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_object()) return static_cast<std::int64_t>(value->size());
  report(key, "is " + shown(*value), {"it must be an object"});
  return std::nullopt;
}

ConfigReader ConfigReader::inner(const char* key) {
  static const Json none = Json::object();
  const Json* value = find(key);
  if (value != nullptr && !value->is_object()) report(key, "is " + shown(*value), {"it must be an object"});
  const bool there = value != nullptr && value->is_object();
  return {there ? *value : none, text_, file_, named(key)};
}

void ConfigReader::adopt(ConfigReader inner) {
  for (Error& error : inner.take_errors()) {
    if (errors_.size() < io::kMaxErrors) errors_.push_back(std::move(error));
  }
}

double ConfigReader::ratio_or(const char* key, double otherwise) {
  constexpr double kLargest = 1024;
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  const double number = value->is_number() ? value->get<double>() : 0;
  if (number > 0 && number <= kLargest) return number;
  report(key, "is " + shown(*value), {"it must be a number above 0, at most 1024"});
  return otherwise;
}

double ConfigReader::probability_or(const char* key, double otherwise) {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  const double number = value->is_number() ? value->get<double>() : -1;
  if (number >= 0 && number <= 1) return number;
  report(key, "is " + shown(*value), {"it must be a number from 0 to 1"});
  return otherwise;
}

}  // namespace ddlsim::importers::hf
