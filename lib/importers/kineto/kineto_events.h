// The events of one trace that say what a step did, out of the many that a profiler writes.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ddlsim/support/error.h"

namespace ddlsim::importers::kineto {

inline constexpr std::size_t kMaxEvents = 4'000'000;

enum class Category : std::uint8_t { kOther, kKernel, kCopy, kSet, kRuntime, kOp, kAnnotation };

/// Times are whole nanoseconds, as the trace's decimals of a microsecond are.
struct Event {
  Category category = Category::kOther;
  std::uint32_t name = 0;     // in Trace::names
  std::int32_t thread = 0;    // in Trace::threads: a process and its thread
  std::int32_t details = -1;  // in Trace::details; -1: none
  std::int64_t start = 0;
  std::int64_t duration = 0;
  std::int64_t correlation = -1;

  [[nodiscard]] std::int64_t end() const { return start + duration; }
};

/// What the args of some events say beyond that. -1: not stated.
struct Details {
  std::int64_t stream = -1;
  std::int64_t bytes = -1;
  std::array<std::int64_t, 3> grid{0, 0, 0};
  std::array<std::int64_t, 3> block{0, 0, 0};
  std::int64_t elements = -1;  // "In msg nelems", or of "Input Dims"
  std::int64_t group = -1;
  std::string collective;
  std::string type;
};

struct Trace {
  std::string file;
  std::vector<std::string> devices;
  std::optional<std::int64_t> rank;
  std::optional<std::int64_t> world_size;
  std::vector<std::string> names;
  std::vector<Details> details;
  std::vector<Event> events;  // with a duration and a category other than kOther, as the file has them
  std::int64_t device = -1;   // of the first kernel
  std::int64_t origin = 0;    // the start of the earliest event

  [[nodiscard]] const std::string& name(const Event& event) const { return names[event.name]; }
  [[nodiscard]] const Details* of(const Event& event) const {
    return event.details < 0 ? nullptr : &details[static_cast<std::size_t>(event.details)];
  }
};

[[nodiscard]] Expected<Trace> read_trace(const std::filesystem::path& path);

}  // namespace ddlsim::importers::kineto
