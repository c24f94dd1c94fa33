#include "json.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <vector>

namespace ddlsim::io {
namespace {

using Json = nlohmann::json;

/// What this reader refuses and the parser would take; thrown through the parser, caught below.
struct Refusal {
  std::string message;
  std::string key;  // whose second place is the fault
};

/// Watches the parser: levels, values, and the keys of every open object.
class Watch {
 public:
  bool operator()(int depth, Json::parse_event_t event, const Json& parsed) {
    using Event = Json::parse_event_t;
    if (event != Event::key && ++values_ > kMaxJsonValues) {
      throw Refusal{fmt::format("has over {} values", kMaxJsonValues), {}};
    }
    if (event == Event::object_start || event == Event::array_start) {
      if (depth >= kMaxJsonDepth) throw Refusal{fmt::format("is nested over {} levels deep", kMaxJsonDepth), {}};
      if (event == Event::object_start) keys_.emplace_back();
    } else if (event == Event::object_end) {
      keys_.pop_back();
    } else if (event == Event::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys_.back().insert(key).second) {
        throw Refusal{fmt::format("the key '{}' stands twice in an object", key.substr(0, 60)), key};
      }
    }
    return true;
  }

 private:
  std::vector<std::set<std::string>> keys_;
  std::size_t values_ = 0;  // starts and ends of objects and lists count each
};

/// Where `key` stands for the second time, as written; the first line where it is written another way.
std::size_t second_place(std::string_view text, const std::string& key) {
  const std::string quoted = "\"" + key + "\"";
  const std::size_t first = text.find(quoted);
  const std::size_t second = first == std::string_view::npos ? first : text.find(quoted, first + 1);
  return second == std::string_view::npos ? 0 : second;
}

}  // namespace

SourceLocation place_in(std::string_view text, const std::string& file, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1;
  const std::size_t newline = before.rfind('\n');
  const std::size_t start = newline == std::string_view::npos ? 0 : newline + 1;
  return {file, line, static_cast<int>(before.size() - start) + 1};
}

Expected<Json> parse_json_object(std::string_view text, const std::string& file) {
  if (text.size() > kMaxJson) return fail(ErrorCode::kIo, "is over 16 MiB", {file, 0, 0});
  try {
    Watch watch;
    Json document = Json::parse(text, [&watch](int depth, Json::parse_event_t event, const Json& parsed) {
      return watch(depth, event, parsed);
    });
    if (!document.is_object()) return fail(ErrorCode::kParse, "is no JSON object", {file, 1, 1});
    return document;
  } catch (const Refusal& refusal) {
    const std::size_t place = refusal.key.empty() ? 0 : second_place(text, refusal.key);
    return fail(ErrorCode::kParse, refusal.message, place_in(text, file, place));
  } catch (const Json::parse_error& problem) {
    const bool short_cut = problem.byte >= text.size();
    return fail(ErrorCode::kParse, short_cut ? "the JSON ends before it is complete: it was cut short" : "is not JSON",
                place_in(text, file, problem.byte == 0 ? 0 : problem.byte - 1));
  } catch (const Json::exception& problem) {
    return fail(ErrorCode::kParse, fmt::format("cannot be read as JSON ({})", problem.what()), {file, 1, 1});
  }
}

}  // namespace ddlsim::io
