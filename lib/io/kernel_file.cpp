#include "ddlsim/io/kernel_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "ddlsim/io/csv.h"
#include "ddlsim/support/names.h"
#include "kernel_row.h"

namespace ddlsim::io {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kSchema = "ddlsim/measurement/1";
constexpr std::size_t kMaxJsonLine = std::size_t{1} << 16;
constexpr std::size_t kMaxLevels = 8;

/// What a row of JSON may say beside the fields of its op.
constexpr auto kRemarks =
    std::to_array<std::string_view>({"bench", "layout", "mad_s", "min_s", "samples", "sm_clock_mhz", "memory_clock_mhz",
                                     "temperature_c", "power_w", "note"});

std::size_t index_of(KernelField field) { return static_cast<std::size_t>(field); }

Expected<void> take_row(Expected<primitives::KernelMeasurement> row, KernelFile& file, const SourceLocation& where) {
  if (!row) return tl::unexpected<Error>(row.error());
  if (static_cast<std::int64_t>(file.rows.size()) == kMaxKernelRows) {
    return fail(ErrorCode::kParse, fmt::format("more than {} rows", kMaxKernelRows), where);
  }
  file.rows.push_back(std::move(*row));
  return {};
}

/// The next line that is not blank, in pieces, so that a file without line ends is refused before it fills the memory.
class Lines {
 public:
  Lines(std::istream& stream, std::string file) : stream_(stream), file_(std::move(file)) {}

  Expected<bool> next() {
    for (;;) {
      line_.clear();
      for (int c = stream_.get(); c != std::char_traits<char>::eof() && c != '\n'; c = stream_.get()) {
        line_ += static_cast<char>(c);
        if (line_.size() > kMaxJsonLine) {
          return fail(ErrorCode::kParse, fmt::format("a line of over {} characters", kMaxJsonLine),
                      {file_, number_ + 1, 1});
        }
      }
      if (stream_.bad()) return fail(ErrorCode::kIo, "could not be read", {file_, number_, 0});
      if (line_.empty() && stream_.eof()) return false;
      ++number_;
      if (line_.find_first_not_of(" \t\r") != std::string::npos) return true;
    }
  }

  [[nodiscard]] const std::string& text() const { return line_; }
  [[nodiscard]] SourceLocation at(std::size_t offset) const {
    return {file_, std::max(number_, 1), static_cast<int>(offset) + 1};
  }

 private:
  std::istream& stream_;
  std::string file_;
  std::string line_;
  int number_ = 0;
};

/// One object of JSON. Duplicate keys, which the library would let pass, and depth are refused.
Expected<Json> parse_object(const Lines& lines) {
  std::vector<std::set<std::string>> keys;
  std::string problem;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > static_cast<int>(kMaxLevels)) problem = fmt::format("nested deeper than {} levels", kMaxLevels);
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end && !keys.empty()) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.empty()) {
      const auto& key = value.get_ref<const std::string&>();
      if (!keys.back().insert(key).second) problem = fmt::format("duplicate key '{}'", key.substr(0, 60));
    }
    return problem.empty();
  };
  try {
    Json object = Json::parse(lines.text(), watch);
    if (!problem.empty()) return fail(ErrorCode::kParse, std::move(problem), lines.at(0));
    if (!object.is_object()) return fail(ErrorCode::kParse, "a line of JSON must be an object: {...}", lines.at(0));
    return object;
  } catch (const Json::parse_error& broken) {
    if (!problem.empty()) return fail(ErrorCode::kParse, std::move(problem), lines.at(0));
    const std::size_t offset = std::min(std::max<std::size_t>(broken.byte, 1) - 1, lines.text().size());
    const bool cut = offset + 1 >= lines.text().size();
    return fail(ErrorCode::kParse, cut ? "the line is cut short" : "not JSON", lines.at(offset));
  } catch (const Json::exception& broken) {
    return fail(ErrorCode::kParse, broken.what(), lines.at(0));
  }
}

std::string word_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_structured() || value.is_null() ? std::string() : value.dump();
}

class JsonReader {
 public:
  JsonReader(std::istream& stream, const std::string& file, const KernelFileOptions& options)
      : lines_(stream, file), options_(options) {}

  Expected<KernelFile> read() {
    if (auto context = read_context(); !context) return tl::unexpected<Error>(context.error());
    for (;;) {
      const auto more = lines_.next();
      if (!more) return tl::unexpected<Error>(more.error());
      if (!*more) break;
      const auto object = parse_object(lines_);
      if (!object) return tl::unexpected<Error>(object.error());
      if (auto taken = take_row(read_row(*object), file_, lines_.at(0)); !taken) {
        return tl::unexpected<Error>(taken.error());
      }
    }
    if (file_.rows.empty()) return fail(ErrorCode::kParse, "the file has no rows", lines_.at(0));
    return std::move(file_);
  }

 private:
  [[nodiscard]] SourceLocation where(std::string_view key) const {
    const std::size_t found = lines_.text().find(fmt::format("\"{}\"", key));
    return lines_.at(found == std::string::npos ? 0 : found);
  }

  Expected<void> read_context() {
    const auto more = lines_.next();
    if (!more) return tl::unexpected<Error>(more.error());
    if (!*more) return fail(ErrorCode::kParse, "the file is empty", lines_.at(0));
    const auto object = parse_object(lines_);
    if (!object) return tl::unexpected<Error>(object.error());
    const std::string schema = object->contains("schema") ? word_of((*object)["schema"]) : std::string();
    if (schema != kSchema) {
      return fail(ErrorCode::kParse, fmt::format("the schema is '{}', not '{}'", schema.substr(0, 60), kSchema),
                  where("schema"),
                  {fmt::format("the first line: {{\"schema\":\"{}\",\"context\":{{\"gpu\":...}}}}", kSchema)});
    }
    const Json context = object->contains("context") ? (*object)["context"] : Json();
    if (!context.is_object()) return fail(ErrorCode::kParse, "'context' is missing, or no object", lines_.at(0));
    const std::string gpu = context.contains("gpu") ? word_of(context["gpu"]) : std::string();
    if (auto known = check_gpu(gpu, options_, where("gpu")); !known) return known;
    for (const char* key : {"gpu", "driver", "cuda", "clocks_mhz", "date"}) add_context(key, context);
    return {};
  }

  void add_context(const char* key, const Json& context) {
    if (!context.contains(key)) return;
    const Json& value = context[key];
    std::string text = word_of(value);
    if (value.is_object()) {
      for (const auto& [name, part] : value.items()) {
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, word_of(part));
      }
    }
    text = text.substr(0, 200);
    file_.context += fmt::format("{}{} {}", file_.context.empty() ? "" : "; ", key, text);
  }

  Expected<primitives::KernelMeasurement> read_row(const Json& object) {
    std::array<std::string, kKernelFields.size()> texts;
    for (const auto& [key, value] : object.items()) {
      const auto* const field = std::find(kKernelFields.begin(), kKernelFields.end(), key);
      if (field != kKernelFields.end()) {
        if (value.is_structured()) {
          return fail(ErrorCode::kParse, fmt::format("'{}' is not a plain value", key.substr(0, 60)), where(key));
        }
        texts[static_cast<std::size_t>(field - kKernelFields.begin())] = word_of(value);
      } else if (std::find(kRemarks.begin(), kRemarks.end(), key) == kRemarks.end()) {
        std::vector<std::string> known(kKernelFields.begin(), kKernelFields.end());
        known.insert(known.end(), kRemarks.begin(), kRemarks.end());
        return fail(ErrorCode::kParse, fmt::format("unknown key '{}'", key.substr(0, 60)), where(key),
                    {suggestion(key, known)});
      }
    }
    std::string& gpu = texts[index_of(KernelField::kGpu)];
    if (!gpu.empty()) {
      if (auto known = check_gpu(gpu, options_, where("gpu")); !known) return tl::unexpected<Error>(known.error());
    }
    std::string& series = texts[index_of(KernelField::kSeries)];
    if (series.empty() && object.contains("bench")) series = word_of(object["bench"]);
    return read_kernel_row({[&](KernelField field) -> std::string_view { return texts[index_of(field)]; },
                            [&](KernelField field) { return where(kKernelFields[index_of(field)]); }});
  }

  Lines lines_;
  const KernelFileOptions& options_;
  KernelFile file_;
};

}  // namespace

Expected<KernelFile> read_kernels_json(std::istream& stream, const std::string& file,
                                       const KernelFileOptions& options) {
  return JsonReader(stream, file, options).read();
}

Expected<KernelFile> read_kernels_csv(std::istream& stream, const std::string& file, const KernelFileOptions& options) {
  auto csv = CsvReader::open(stream, file, {"op", "gpu"}, {kKernelFields.begin() + 2, kKernelFields.end()});
  if (!csv) {
    Error error = csv.error();
    error.notes.emplace_back(
        "the columns are in bench/calibrate/README.md; the time's name says its unit: time_us, time_ms or time_s");
    return tl::unexpected<Error>(std::move(error));
  }
  const auto has_time = [&](KernelField field) { return csv->has(index_of(field)); };
  if (!has_time(KernelField::kTimeUs) && !has_time(KernelField::kTimeMs) && !has_time(KernelField::kTimeS)) {
    return fail(ErrorCode::kParse, "no column holds the time", {file, 1, 1}, {"one of: time_us, time_ms, time_s"});
  }
  KernelFile read;
  std::string gpu;  // of the row before: files have long runs of one
  const KernelRowText row{[&](KernelField field) { return csv->field(index_of(field)); },
                          [&](KernelField field) { return csv->where(index_of(field)); }};
  for (;;) {
    const auto more = csv->next();
    if (!more) return tl::unexpected<Error>(more.error());
    if (!*more) break;
    if (const std::string_view name = csv->field(index_of(KernelField::kGpu)); name != gpu || gpu.empty()) {
      if (auto known = check_gpu(name, options, csv->where(index_of(KernelField::kGpu))); !known) {
        return tl::unexpected<Error>(known.error());
      }
      gpu = name;
    }
    if (auto taken = take_row(read_kernel_row(row), read, csv->where(0)); !taken) {
      return tl::unexpected<Error>(taken.error());
    }
  }
  if (read.rows.empty()) return fail(ErrorCode::kParse, "the file has no rows", {file, 1, 1});
  return read;
}

Expected<KernelFile> load_kernels(const std::filesystem::path& path, const KernelFileOptions& options) {
  std::error_code status;
  const SourceLocation where{path.string(), 0, 0};
  if (std::filesystem::is_directory(path, status)) return fail(ErrorCode::kIo, "is a folder, not a file", where);
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return fail(ErrorCode::kIo, "could not be opened", where);
  const int first = stream.peek();
  if (first == std::char_traits<char>::eof()) return fail(ErrorCode::kParse, "the file is empty", where);
  if (first == 0x1f) return fail(ErrorCode::kParse, "compressed", where, {"unpack it first: gzip -d"});
  return first == '{' ? read_kernels_json(stream, path.string(), options)
                      : read_kernels_csv(stream, path.string(), options);
}

}  // namespace ddlsim::io
