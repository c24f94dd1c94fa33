#include "kineto_events.h"

#include <fmt/core.h>
#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <unordered_map>
#include <utility>

#include "kineto_text.h"

namespace ddlsim::importers::kineto {
namespace {

namespace ondemand = simdjson::ondemand;

constexpr std::size_t kMaxDepth = 64;
constexpr std::int64_t kNone = -1;
constexpr std::int64_t kMaxMicroseconds = 9'000'000'000'000'000;  // year 2255; in nanoseconds it fits 63 bits

/// Ends the reading; the reader names the place.
struct Refusal {
  std::string message;
};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

/// A token as it stands, without quotes.
std::string_view token_of(ondemand::value& value) {
  std::string_view text = trimmed(value.raw_json_token());
  if (text.size() >= 2 && text.front() == '"') text = text.substr(1, text.size() - 2);
  return text;
}

/// A key as it stands: whoever writes a known key with escapes is not understood.
std::string_view key_of(ondemand::field& field) {
  const char* const from = field.key().raw();  // simdjson saw that it ends
  std::size_t length = 0;
  while (from[length] != '"') ++length;
  return {from, length};
}

std::optional<std::int64_t> integer_of(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc{} && end == text.data() + text.size()) return number;
  return std::nullopt;
}

/// Microseconds with a fraction, in whole nanoseconds. Digits beyond are dropped.
std::optional<std::int64_t> nanoseconds_of(std::string_view text) {
  const std::size_t point = std::min(text.find('.'), text.size());
  const std::string_view fraction = text.substr(std::min(point + 1, text.size()));
  const bool plain = fraction.find_first_not_of("0123456789") == std::string_view::npos;
  const auto whole = integer_of(text.substr(0, point));
  if (plain && whole) {
    if (*whole > kMaxMicroseconds || *whole < -kMaxMicroseconds) return std::nullopt;
    std::int64_t thousandths = 0;
    for (std::size_t i = 0; i < 3; ++i) thousandths = thousandths * 10 + (i < fraction.size() ? fraction[i] - '0' : 0);
    return *whole * 1000 + (text.starts_with('-') ? -thousandths : thousandths);
  }
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool read = error == std::errc{} && end == text.data() + text.size();
  if (!read || !(std::fabs(number) < static_cast<double>(kMaxMicroseconds))) return std::nullopt;
  return static_cast<std::int64_t>(std::llround(number * 1000.0));
}

Category category_of(std::string_view text) {
  // "Kernel", "Memcpy", "Runtime" and the like: PyTorch before 1.12.
  if (text == "kernel" || text == "Kernel") return Category::kKernel;
  if (text == "gpu_memcpy" || text == "Memcpy") return Category::kCopy;
  if (text == "gpu_memset" || text == "Memset") return Category::kSet;
  if (text == "cuda_runtime" || text == "cuda_driver" || text == "Runtime") return Category::kRuntime;
  if (text == "cpu_op" || text == "Operator") return Category::kOp;
  if (text == "user_annotation") return Category::kAnnotation;
  return Category::kOther;
}

/// Elements of the first tensor, or list of tensors, of "Input Dims": [[512, 256], []] and [[[3], [4, 5]]] alike.
std::int64_t elements_of(ondemand::value value, int depth) {
  if (value.type() != ondemand::json_type::array || depth > 3) return kNone;
  std::int64_t product = 1;
  std::int64_t sum = kNone;
  bool numbers = true;
  for (ondemand::value item : value.get_array()) {
    if (item.type() == ondemand::json_type::array) {
      const std::int64_t inner = elements_of(item, depth + 1);
      if (depth == 0) return inner;  // of the first input
      if (inner > 0 && sum < (std::int64_t{1} << 60)) sum = std::max<std::int64_t>(sum, 0) + inner;
      numbers = false;
      continue;
    }
    const auto size = integer_of(token_of(item));
    if (!size || *size < 0 || (*size > 0 && product > (std::int64_t{1} << 60) / *size)) return kNone;
    product *= *size;
  }
  if (depth == 0) return kNone;
  return numbers ? product : sum;
}

class Reader {
 public:
  explicit Reader(Trace& trace) : trace_(trace) {}

  void read(ondemand::document& document) {
    bool found = false;
    bool execution = false;  // schema and nodes: of ExecutionTraceObserver
    ondemand::object top = document.get_object();
    for (ondemand::field field : top) {
      const std::string_view key = key_of(field);
      if (key == "traceEvents") {
        found = true;
        events(field.value());
      } else if (key == "deviceProperties") {
        devices(field.value());
      } else if (key == "distributedInfo") {
        distributed(field.value());
      } else if (key == "schema") {
        execution = true;
      }
    }
    if (!found && execution) {
      throw Refusal{
          "is an execution trace of PyTorch (ExecutionTraceObserver): operators and their shapes, but no times. Import "
          "the "
          "profiler's trace of the same run: `ddlsim import kineto`"};
    }
    if (!found) throw Refusal{"has no traceEvents: it is JSON, but no trace of torch.profiler"};
  }

 private:
  void devices(ondemand::value value) {
    for (ondemand::object device : value.get_array()) {
      std::string name;
      for (ondemand::field field : device) {
        if (key_of(field) == "name") name = std::string(std::string_view(field.value().get_string()));
      }
      trace_.devices.push_back(std::move(name));
    }
  }

  void distributed(ondemand::value value) {
    if (value.type() != ondemand::json_type::object) return;
    for (ondemand::field field : value.get_object()) {
      const std::string_view key = key_of(field);
      if (key != "rank" && key != "world_size") continue;
      ondemand::value number = field.value();
      const auto count = integer_of(token_of(number));
      if (!count || *count < 0) throw Refusal{fmt::format("distributedInfo: {} is not a count", key)};
      (key == "rank" ? trace_.rank : trace_.world_size) = *count;
    }
  }

  void events(ondemand::value value) {
    for (ondemand::value item : value.get_array()) {
      if (++count_ > kMaxEvents) {
        throw Refusal{fmt::format("more than {} events; profile fewer steps, as with schedule(active=3)", kMaxEvents)};
      }
      event(item.get_object());
    }
  }

  void event(ondemand::object object) {
    Event event;
    Details details;
    bool complete = false;
    bool sized = false;
    std::optional<Category> category;
    std::string_view name;
    std::string_view process;
    std::string_view thread;
    for (ondemand::field field : object) {
      const std::string_view key = key_of(field);
      ondemand::value value = field.value();
      if (key == "ph") {
        complete = token_of(value) == "X";
        if (!complete) return;
      } else if (key == "cat") {
        category = category_of(token_of(value));
        if (*category == Category::kOther) return;
      } else if (key == "name") {
        name = token_of(value);
      } else if (key == "pid") {
        process = token_of(value);
      } else if (key == "tid") {
        thread = token_of(value);
      } else if (key == "ts") {
        event.start = time_of(value, key, name);
      } else if (key == "dur") {
        event.duration = time_of(value, key, name);
        sized = true;
        if (event.duration < 0) {
          throw Refusal{fmt::format("the event '{}' has a negative duration", name.substr(0, 60))};
        }
      } else if (key == "args" && value.type() == ondemand::json_type::object) {
        arguments(value.get_object(), event, details);
      }
    }
    if (!complete || !category) return;
    if (!sized) throw Refusal{fmt::format("the event '{}' has no duration", name.substr(0, 60))};
    event.category = *category;
    keep(event, std::move(details), name, {process, thread});
  }

  static std::int64_t time_of(ondemand::value value, std::string_view key, std::string_view name) {
    const std::string_view text = token_of(value);
    if (const auto time = nanoseconds_of(text)) return *time;
    throw Refusal{fmt::format("'{}' of the event '{}' is '{}', no time", key, name.substr(0, 60), text.substr(0, 40))};
  }

  static void arguments(ondemand::object args, Event& event, Details& details) {
    for (ondemand::field field : args) {
      const std::string_view key = key_of(field);
      ondemand::value value = field.value();
      const auto number = [&] { return integer_of(token_of(value)).value_or(kNone); };
      if (key == "correlation") {
        event.correlation = number();
      } else if (key == "stream") {
        details.stream = number();
      } else if (key == "bytes" || key == "Bytes") {
        details.bytes = number();
      } else if (key == "grid") {
        sizes(value, details.grid);
      } else if (key == "block") {
        sizes(value, details.block);
      } else if (key == "In msg nelems") {
        details.elements = number();
      } else if (key == "Group size") {
        details.group = number();
      } else if (key == "Collective name") {
        details.collective = token_of(value);
      } else if (key == "dtype") {
        details.type = token_of(value);
      } else if (key == "Input Dims" && details.elements < 0) {
        details.elements = elements_of(value, 0);
      } else if (key == "Input type" && details.type.empty() && value.type() == ondemand::json_type::array) {
        for (ondemand::value type : value.get_array()) {
          details.type = token_of(type);
          break;
        }
      }
    }
  }

  static void sizes(ondemand::value value, std::array<std::int64_t, 3>& into) {
    if (value.type() != ondemand::json_type::array) return;
    std::size_t i = 0;
    for (ondemand::value item : value.get_array()) {
      if (i < into.size()) into[i++] = integer_of(token_of(item)).value_or(0);
    }
  }

  void keep(Event event, Details details, std::string_view name, std::pair<std::string_view, std::string_view> place) {
    event.name = interned(name);
    event.thread = thread_of(place);
    // PyTorch's own span around a collective, before its kernels' args named it.
    if (details.collective.empty() && name.starts_with("nccl:")) details.collective = name.substr(5);
    const bool gpu = event.category != Category::kRuntime && event.category != Category::kOp &&
                     event.category != Category::kAnnotation;
    if (gpu || details.elements > 0 || !details.collective.empty()) {
      event.details = static_cast<std::int32_t>(trace_.details.size());
      trace_.details.push_back(std::move(details));
    }
    if (event.category == Category::kKernel && trace_.device < 0) {
      trace_.device = integer_of(place.first).value_or(kNone);
    }
    trace_.origin = trace_.events.empty() ? event.start : std::min(trace_.origin, event.start);
    trace_.events.push_back(event);
  }

  std::uint32_t interned(std::string_view name) {
    const auto known = names_.find(name);
    if (known != names_.end()) return known->second;
    const auto index = static_cast<std::uint32_t>(trace_.names.size());
    trace_.names.emplace_back(name);
    names_.emplace(name, index);  // a view of the file's text, which outlives this reader
    return index;
  }

  std::int32_t thread_of(const std::pair<std::string_view, std::string_view>& place) {
    return threads_.emplace(place, static_cast<std::int32_t>(threads_.size())).first->second;
  }

  Trace& trace_;
  std::size_t count_ = 0;
  std::unordered_map<std::string_view, std::uint32_t> names_;
  std::map<std::pair<std::string_view, std::string_view>, std::int32_t> threads_;
};

std::string_view what_it_is(std::string_view text) {
  if (text.empty()) return "the file is empty";
  if (text.starts_with("version https://git-lfs")) {
    return "a Git LFS pointer, not the file it stands for: `git lfs pull` fetches that";
  }
  if (text.front() == '[') return "a bare list of events: no trace of torch.profiler, which names the device";
  if (text.size() >= 262 && text.substr(257, 5) == "ustar") {
    return "a tar archive: unpack it (tar xf) and name the traces in it, one per rank";
  }
  return "not JSON";
}

/// Where the reader stood, from the file's (unpacked) first byte.
std::string place_of(ondemand::document& document, std::string_view text) {
  const char* at = nullptr;
  if (document.current_location().get(at) != simdjson::SUCCESS) return "at the end";
  const auto offset = at - text.data();
  if (offset < 0 || static_cast<std::size_t>(offset) > text.size()) return "at the end";
  return fmt::format("at byte {}", offset);
}

}  // namespace

Expected<Trace> read_trace(const std::filesystem::path& path) {
  auto text = read_text(path, simdjson::SIMDJSON_PADDING);
  if (!text) return tl::unexpected<Error>(text.error());
  const SourceLocation where{path.string(), 0, 0};
  const std::string_view begin = trimmed(std::string_view(*text).substr(0, 512));
  if (!begin.starts_with('{')) return fail(ErrorCode::kParse, std::string(what_it_is(begin)), where);
  Trace trace;
  trace.file = path.string();
  ondemand::parser parser;
  ondemand::document document;
  auto error = parser.allocate(text->size() + 1, kMaxDepth);
  if (error == simdjson::SUCCESS) {
    error = parser.iterate(simdjson::padded_string_view(text->data(), text->size(), text->capacity())).get(document);
  }
  if (error != simdjson::SUCCESS) {
    return fail(ErrorCode::kParse, fmt::format("not whole JSON: {}", simdjson::error_message(error)), where);
  }
  try {
    Reader(trace).read(document);
  } catch (const Refusal& refusal) {
    return fail(ErrorCode::kParse, fmt::format("{}: {}", place_of(document, *text), refusal.message), where);
  } catch (const simdjson::simdjson_error& problem) {
    return fail(ErrorCode::kParse,
                fmt::format("{}: not the JSON of a trace: {}", place_of(document, *text),
                            simdjson::error_message(problem.error())),
                where);
  }
  return trace;
}

}  // namespace ddlsim::importers::kineto
