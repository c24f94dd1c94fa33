// What happened when, as a Chrome trace: the JSON that Perfetto (ui.perfetto.dev) and chrome://tracing open.
//
// A trace has tracks, grouped in processes as the viewers call them, and slices on them. Slices on one track never
// overlap. Times are exact: picoseconds, written in microseconds with six decimals, as the format asks.
// Source: Trace Event Format, Google, 2016 (complete events "X", metadata "M").
// Limits: Perfetto itself rounds down to nanoseconds.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ddlsim/events/engine.h"

namespace ddlsim::report {

struct TraceTrack {
  std::string process;
  std::string name;
};

struct TraceSlice {
  std::size_t track = 0;  // index in Trace::tracks
  std::string name;
  events::Picoseconds start{};
  events::Picoseconds duration{};
  std::vector<std::pair<std::string, std::string>> args;
};

struct Trace {
  std::vector<TraceTrack> tracks;
  std::vector<TraceSlice> slices;
};

/// One track per stream with its tasks; tasks without a stream on as many further tracks as run at once. Tasks that
/// take no time are left out. Transfers say their bytes and the links they crossed.
[[nodiscard]] Trace trace_of(const events::Program& program, const events::Run& run);

/// The trace as JSON, slices by track and start, ending in a newline.
[[nodiscard]] std::string chrome_trace(const Trace& trace);

}  // namespace ddlsim::report
