#include "ddlsim/report/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <queue>
#include <string_view>

namespace ddlsim::report {
namespace {

using events::Picoseconds;
using events::TaskId;

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// 1234567 ps as "1.234567".
std::string in_microseconds(Picoseconds time) {
  return fmt::format("{}.{:06}", time.count() / 1'000'000, time.count() % 1'000'000);
}

TraceSlice slice_of(const events::Program& program, const events::Run& run, TaskId task) {
  const auto [start, end] = run[task];
  TraceSlice slice{0, program.name(task), start, end - start, {}};
  if (slice.name.empty()) slice.name = fmt::format("task {}", events::index_of(task));
  const auto hops = program.hops(task);
  if (hops.empty()) return slice;
  std::string links;
  for (const events::Hop& hop : hops) {
    const std::string& name = program.links()[events::index_of(hop.link)].name;
    links += fmt::format("{}{}", links.empty() ? "" : ", ", name);
    if (hop.times >= 2) links += fmt::format(" x {:.4g}", hop.times);  // a part of a flow says nothing
  }
  slice.args = {{"bytes", fmt::format("{}", program.size(task).in(bytes))}, {"links", std::move(links)}};
  return slice;
}

}  // namespace

Trace trace_of(const events::Program& program, const events::Run& run) {
  Trace trace;
  for (const events::Stream& stream : program.streams()) trace.tracks.push_back({"streams", stream.name});
  std::vector<TaskId> loose;
  for (std::uint32_t i = 0; i < program.tasks(); ++i) {
    const TaskId task{i};
    if (run[task].start == run[task].end) continue;
    if (const auto stream = program.stream(task)) {
      trace.slices.push_back(slice_of(program, run, task));
      trace.slices.back().track = events::index_of(*stream);
    } else {
      loose.push_back(task);
    }
  }
  // Each takes the track that has been free longest, so that there are no more tracks than run at once.
  std::stable_sort(loose.begin(), loose.end(), [&](TaskId a, TaskId b) { return run[a].start < run[b].start; });
  using FreeAt = std::pair<Picoseconds, std::size_t>;
  std::priority_queue<FreeAt, std::vector<FreeAt>, std::greater<>> lanes;
  for (const TaskId task : loose) {
    std::size_t track = trace.tracks.size();
    if (!lanes.empty() && lanes.top().first <= run[task].start) {
      track = lanes.top().second;
      lanes.pop();
    } else {
      trace.tracks.push_back({"no stream", fmt::format("lane {}", track - program.streams().size() + 1)});
    }
    lanes.emplace(run[task].end, track);
    trace.slices.push_back(slice_of(program, run, task));
    trace.slices.back().track = track;
  }
  return trace;
}

std::string chrome_trace(const Trace& trace) {
  std::string text = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
  const auto out = std::back_inserter(text);
  std::string_view separator = "\n";
  std::map<std::string_view, std::size_t> processes;
  std::vector<std::size_t> process_of;
  for (std::size_t i = 0; i < trace.tracks.size(); ++i) {
    const TraceTrack& track = trace.tracks[i];
    const auto [place, fresh] = processes.try_emplace(track.process, processes.size() + 1);
    process_of.push_back(place->second);
    if (fresh) {
      fmt::format_to(out, R"({}{{"ph":"M","pid":{},"name":"process_name","args":{{"name":{}}}}})", separator,
                     place->second, json_text(track.process));
      separator = ",\n";
    }
    fmt::format_to(out, R"({}{{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}}}})", separator,
                   place->second, i + 1, json_text(track.name));
  }
  std::vector<std::size_t> order(trace.slices.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const TraceSlice& left = trace.slices[a];
    const TraceSlice& right = trace.slices[b];
    return std::pair(left.track, left.start) < std::pair(right.track, right.start);
  });
  for (const std::size_t at : order) {
    const TraceSlice& slice = trace.slices[at];
    fmt::format_to(out, R"({}{{"ph":"X","pid":{},"tid":{},"name":{},"ts":{},"dur":{},"args":{{)", separator,
                   process_of[slice.track], slice.track + 1, json_text(slice.name), in_microseconds(slice.start),
                   in_microseconds(slice.duration));
    for (std::size_t i = 0; i < slice.args.size(); ++i) {
      fmt::format_to(out, "{}{}:{}", i == 0 ? "" : ",", json_text(slice.args[i].first),
                     json_text(slice.args[i].second));
    }
    text += "}}";
    separator = ",\n";
  }
  text += "\n]}\n";
  return text;
}

}  // namespace ddlsim::report
