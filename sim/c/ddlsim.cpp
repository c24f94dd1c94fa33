#include "ddlsim/ddlsim.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ddlsim/io/catalog.h"
#include "ddlsim/service/service.h"
#include "ddlsim/whatif/scenario_map.h"
#include "handles.h"

namespace ddlsim::c {
namespace {

/// The one state of the library: which numbers stand for what. Never destroyed, for threads may outlive main.
Handles& handles() {
  static Handles* const all = new Handles;
  return *all;
}

ddlsim_code code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kParse: return DDLSIM_PARSE;
    case ErrorCode::kInvalidArgument: return DDLSIM_INVALID_ARGUMENT;
    case ErrorCode::kNotFound: return DDLSIM_NOT_FOUND;
    case ErrorCode::kUnsupported: return DDLSIM_UNSUPPORTED;
    case ErrorCode::kInfeasible: return DDLSIM_INFEASIBLE;
    case ErrorCode::kIo: return DDLSIM_IO;
    case ErrorCode::kOutOfTime: return DDLSIM_OUT_OF_TIME;
  }
  return DDLSIM_FAULT;
}

/// Into memory that ddlsim_free takes. False: there is none.
bool give(std::string_view text, char** to) {
  if (to == nullptr) return true;
  *to = static_cast<char*>(std::malloc(text.size() + 1));
  if (*to == nullptr) return false;
  std::memcpy(*to, text.data(), text.size());
  (*to)[text.size()] = '\0';
  return true;
}

ddlsim_code refuse(const Error& error, char** text) {
  return give(service::error_json(error), text) ? code_of(error.code) : DDLSIM_NO_MEMORY;
}

/// With a code that is this interface's alone.
ddlsim_code refuse(ddlsim_code code, std::string_view word, std::string message, char** text) {
  const Error error{ErrorCode::kInvalidArgument, std::move(message), {}, {}, {}};
  return give(service::error_json(error, word), text) ? code : DDLSIM_NO_MEMORY;
}

ddlsim_code closed(char** text) {
  return refuse(DDLSIM_CLOSED, "closed", "the catalogue is closed, or was never open", text);
}

ddlsim_code missing(const char* what, char** text) {
  return refuse({ErrorCode::kInvalidArgument, fmt::format("{} is NULL", what), {}, {}, {}}, text);
}

/// Runs a function of the interface: nothing it throws leaves.
template <typename Function>
ddlsim_code guarded(char** text, Function function) {
  if (text != nullptr) *text = nullptr;
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return DDLSIM_NO_MEMORY;
  } catch (const std::exception& fault) {
    try {
      return refuse(DDLSIM_FAULT, "fault", fmt::format("{} (a fault of ddlsim itself)", fault.what()), text);
    } catch (...) {
      return DDLSIM_FAULT;
    }
  } catch (...) {
    return DDLSIM_FAULT;
  }
}

/// The data beside the installed library (LIB/../share/ddlsim, LIB/../../share/ddlsim), else the source tree's.
std::filesystem::path own_data() {
  Dl_info self{};
  if (dladdr(reinterpret_cast<const void*>(&own_data), &self) != 0 && self.dli_fname != nullptr) {  // NOLINT
    std::error_code status;
    const auto library = std::filesystem::weakly_canonical(self.dli_fname, status).parent_path();
    for (const auto& prefix : {library.parent_path(), library.parent_path().parent_path()}) {
      auto data = prefix / "share" / "ddlsim";
      if (std::filesystem::is_directory(data / "models", status)) return data;
    }
  }
  return DDLSIM_SOURCE_DATA;
}

/// The columns of a sweep; a point is a row.
struct Points {
  std::span<const char* const> paths;
  std::span<const char* const> units;
  std::size_t count = 0;
  const double* values = nullptr;

  /// The setting of a value that is no number; nothing where all are.
  [[nodiscard]] const char* not_a_number(std::size_t point) const {
    for (std::size_t s = 0; s < paths.size(); ++s) {
      if (!std::isfinite(values[point * paths.size() + s])) return paths[s];
    }
    return nullptr;
  }
  [[nodiscard]] std::vector<whatif::Override> at(std::size_t point) const {
    std::vector<whatif::Override> row;
    row.reserve(paths.size());
    for (std::size_t s = 0; s < paths.size(); ++s) {
      const double value = values[point * paths.size() + s];
      std::string text = fmt::format("{}", value);
      // "4", not "4e+00" or "4.0": counts are digits.
      if (std::abs(value) < 1e15 && value == std::trunc(value)) text = fmt::format("{:.0f}", value);
      if (const std::string_view unit = units[s]; !unit.empty()) text.append(" ").append(unit);
      row.push_back({whatif::path_within("", paths[s], false), std::move(text), {}});
    }
    return row;
  }
};

std::string with_point(const std::string& json, std::size_t point) {
  return "{\n  \"point\": " + std::to_string(point) + "," + json.substr(1);
}

constexpr std::size_t kAtOnce = 4096;

ddlsim_code step_times(const service::Service& service, std::string_view job, const Points& points, double* times,
                       ddlsim_code* codes, char** error) {
  ddlsim_code first = DDLSIM_OK;
  std::vector<std::vector<whatif::Override>> rows;
  for (std::size_t start = 0; start < points.count; start += kAtOnce) {
    rows.clear();
    for (std::size_t p = start; p < std::min(start + kAtOnce, points.count); ++p) rows.push_back(points.at(p));
    const auto answers = service.step_times(job, rows);
    if (!answers) return refuse(answers.error(), error);
    for (std::size_t i = 0; i < answers->size(); ++i) {
      Expected<Time> step = (*answers)[i];
      if (const char* path = points.not_a_number(start + i)) {
        step = fail(ErrorCode::kInvalidArgument, fmt::format("{}: not a finite number", path));
      }
      times[start + i] = step ? step->in(seconds) : std::numeric_limits<double>::quiet_NaN();
      const ddlsim_code code = step ? DDLSIM_OK : code_of(step.error().code);
      if (codes != nullptr) codes[start + i] = code;
      if (code == DDLSIM_OK || first != DDLSIM_OK) continue;
      first = code;
      if (!give(with_point(service::error_json(step.error()), start + i), error)) return DDLSIM_NO_MEMORY;
    }
  }
  return first;
}

}  // namespace
}  // namespace ddlsim::c

using ddlsim::c::closed;
using ddlsim::c::give;
using ddlsim::c::guarded;
using ddlsim::c::handles;
using ddlsim::c::missing;
using ddlsim::c::own_data;
using ddlsim::c::refuse;

const char* ddlsim_version(void) { return DDLSIM_VERSION; }

int32_t ddlsim_abi(void) { return DDLSIM_ABI; }

ddlsim_code ddlsim_open(const char* folder, ddlsim_handle* catalog, char** error) {
  if (catalog != nullptr) *catalog = 0;
  return guarded(error, [&]() -> ddlsim_code {
    if (catalog == nullptr) return missing("catalog", error);
    auto opened = ddlsim::io::Catalog::open(folder == nullptr ? own_data() : std::filesystem::path(folder));
    if (!opened) return refuse(opened.error(), error);
    *catalog = handles().open(std::make_shared<const ddlsim::service::Service>(std::move(*opened)));
    return DDLSIM_OK;
  });
}

ddlsim_code ddlsim_close(ddlsim_handle catalog) {
  return guarded(nullptr, [&]() -> ddlsim_code { return handles().close(catalog) ? DDLSIM_OK : DDLSIM_CLOSED; });
}

ddlsim_code ddlsim_ask(ddlsim_handle catalog, const char* command, const char* request, char** answer) {
  return guarded(answer, [&]() -> ddlsim_code {
    if (answer == nullptr) return DDLSIM_INVALID_ARGUMENT;
    if (command == nullptr) return missing("command", answer);
    if (request == nullptr) return missing("request", answer);
    const auto service = handles().find(catalog);
    if (!service) return closed(answer);
    const auto answered = service->answer(command, request);
    if (!answered) return refuse(answered.error(), answer);
    return give(*answered, answer) ? DDLSIM_OK : DDLSIM_NO_MEMORY;
  });
}

ddlsim_code ddlsim_step_times(ddlsim_handle catalog, const char* job, size_t settings, const char* const* paths,
                              const char* const* units, size_t points, const double* values, double* times,
                              ddlsim_code* codes, char** error) {
  return guarded(error, [&]() -> ddlsim_code {
    if (job == nullptr) return missing("job", error);
    if (settings > 0 && (paths == nullptr || units == nullptr)) return missing("paths or units", error);
    if (points > 0 && (times == nullptr || (settings > 0 && values == nullptr))) {
      return missing("values or times", error);
    }
    for (size_t s = 0; s < settings; ++s) {
      if (paths[s] == nullptr || units[s] == nullptr) return missing("a path or a unit", error);
    }
    const auto service = handles().find(catalog);
    if (!service) return closed(error);
    return ddlsim::c::step_times(*service, job, {{paths, settings}, {units, settings}, points, values}, times, codes,
                                 error);
  });
}

void ddlsim_free(char* text) { std::free(text); }
