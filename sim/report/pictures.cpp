#include "pictures.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "ddlsim/answer/plan_words.h"
#include "ddlsim/support/quantity_io.h"
#include "table.h"
#include "words.h"

namespace ddlsim::report {
namespace {

using answer::Prediction;

std::string seconds_text(double value) { return to_text(seconds(value)); }
std::string percent_of(double value) { return fmt::format("{} %", significant(value)); }

/// Seconds, minutes, hours and days that people say.
std::vector<double> round_times() {
  constexpr double kMinute = 60;
  constexpr double kHour = 3600;
  constexpr double kDay = 86400;
  return {1,          5,          20,       kMinute,  5 * kMinute, 20 * kMinute, kHour,      2 * kHour, 5 * kHour,
          10 * kHour, 24 * kHour, 2 * kDay, 5 * kDay, 10 * kDay,   30 * kDay,    100 * kDay, 365 * kDay};
}

/// The parts of a step, as the tables name them.
Bar bar_of(const std::string& name, const Prediction& p) {
  const answer::Breakdown& parts = p.breakdown;
  Bar bar{.name = name, .text = to_text(p.step_time)};
  const auto add = [&](const char* what, Ink ink, Time time) {
    // Less than nobody sees.
    if (time < p.step_time * 1e-4) return;
    bar.parts.push_back(
        {what, ink, time.in(seconds), fmt::format("{}, {} of the step", to_text(time), percent(time / p.step_time))});
  };
  add("GPU compute", Ink::kBlue, parts.compute);
  add("GPU memory", Ink::kSky, parts.memory);
  add("kernel launches", Ink::kYellow, parts.launch);
  add("waiting for input", Ink::kOrange, parts.input_exposed);
  add("exposed communication", Ink::kVermilion, parts.communication_exposed);
  add("pipeline bubble", Ink::kPurple, parts.bubble);
  add("weight update on the CPU", Ink::kGreen, parts.host_update);
  add("measured, unexplained", Ink::kGreen, parts.unexplained);
  add("other", Ink::kGrey, parts.other - parts.host_update - parts.unexplained);
  return bar;
}

Bar with_interval(Bar bar, const Prediction& p) {
  bar.interval = {p.interval_90.first.in(seconds), p.interval_90.second.in(seconds)};
  return bar;
}

Picture in_order(const Prediction& p) {
  static constexpr std::array kInks{Ink::kSky, Ink::kBlue, Ink::kOrange, Ink::kGreen, Ink::kPurple, Ink::kYellow};
  Bar bar{.name = "the step", .text = to_text(p.step_time)};
  std::size_t next = 0;
  for (const answer::Segment& one : p.critical_path) {
    if (one.time < p.step_time * 1e-4) continue;
    const bool sent = one.name.find("communication") != std::string::npos;
    const Ink ink = sent ? Ink::kVermilion : kInks[next++ % kInks.size()];
    bar.parts.push_back({one.name, ink, one.time.in(seconds), to_text(one.time)});
  }
  return {"In order", BarChart{.title = "The parts of the step, first to last", .bars = {std::move(bar)}}};
}

/// What the GPU's memory holds; nothing where the tables do not take it apart.
std::optional<Picture> memory_of(const Prediction& p) {
  const answer::MemoryLedger& held = p.memory;
  if (!(held.all() > DataSize::zero()) || !p.memory_complete) return std::nullopt;
  Bar bar{.name = held.rank.empty() ? "a GPU" : held.rank, .text = to_text(held.all())};
  const auto add = [&](const char* what, Ink ink, DataSize size) {
    if (size > DataSize::zero()) bar.parts.push_back({what, ink, size.in(bytes), to_text(size)});
  };
  add("weights", Ink::kBlue, held.weights + held.master + held.weight_casts);
  add("gradients", Ink::kSky, held.gradients);
  add("optimizer states", Ink::kGreen, held.optimizer_state);
  add("activations", Ink::kOrange, held.activations);
  add("logits and gradients in work", Ink::kYellow, held.loss + held.working);
  add("buffers", Ink::kPurple, held.buffers);
  add("context and allocator", Ink::kGrey, held.context + held.slack);
  BarChart chart{.title = "What the fullest GPU holds", .bars = {std::move(bar)}};
  if (held.capacity > DataSize::zero()) {
    chart.limit = {held.capacity.in(bytes), "the GPU has " + to_text(held.capacity)};
  }
  return Picture{"Memory", std::move(chart)};
}

/// As many bars as a person reads.
constexpr std::size_t kMostBars = 24;

constexpr std::array kInks{Ink::kBlue, Ink::kVermilion, Ink::kGreen, Ink::kOrange,
                           Ink::kSky,  Ink::kPurple,    Ink::kGrey,  Ink::kYellow};
Ink ink_of(std::size_t series) { return kInks[series % kInks.size()]; }
/// Of lines: what has the colour of another is dashed.
Mark mark_of(std::size_t series) { return series < kInks.size() ? Mark::kLine : Mark::kDashes; }

Bar stall_bar(const std::string& name, Ink ink, const std::optional<answer::Stall>& stall, const std::string& what) {
  Bar bar{.name = name, .text = stall ? percent_of(stall->percent) : "not known"};
  if (stall) bar.parts.push_back({what, ink, std::max(stall->percent, 0.0), percent_of(stall->percent)});
  return bar;
}

}  // namespace

std::vector<Picture> pictures_of(const Prediction& prediction) {
  std::vector<Picture> all;
  BarChart chart{.title = "Where the step goes, with its 90 % interval",
                 .bars = {with_interval(bar_of("the step", prediction), prediction)}};
  all.push_back({"Where the step goes, with its 90 % interval", std::move(chart)});
  if (!prediction.critical_path.empty()) all.push_back(in_order(prediction));
  if (auto memory = memory_of(prediction)) all.push_back(std::move(*memory));
  return all;
}

std::vector<Picture> pictures_of(const answer::Comparison& comparison) {
  BarChart chart{.title = "The step of each alternative, with its 90 % interval"};
  chart.bars.push_back(with_interval(bar_of("baseline", comparison.baseline), comparison.baseline));
  for (const answer::Alternative& one : comparison.alternatives) {
    if (chart.bars.size() == kMostBars) break;
    Bar bar = with_interval(bar_of(one.name, one.prediction), one.prediction);
    bar.text += fmt::format(", {}x", significant(one.speedup, 3));
    chart.bars.push_back(std::move(bar));
  }
  return {{"Step time, with 90 % intervals and the speedup of throughput", std::move(chart)}};
}

std::vector<Picture> pictures_of(const answer::PlanChoice& choice) {
  BarChart best{.title = "The step of the best plans"};
  best.bars.push_back(bar_of("best", choice.best.prediction));
  for (std::size_t i = 0; i < choice.next.size(); ++i) {
    best.bars.push_back(bar_of(std::to_string(i + 2), choice.next[i].prediction));
  }
  Chart front{.title = "Plans that no other beats in step time, memory and money",
              .x = {.name = "step time", .text = seconds_text},
              .y = {.name = "memory per GPU", .text = [](double value) { return to_text(bytes(value)); }}};
  Series plans{.name = "a plan", .mark = Mark::kDots};
  for (const answer::ParetoPlan& one : choice.pareto) {
    plans.points.push_back({.x = one.step_time.in(seconds),
                            .y = one.memory_per_gpu.in(bytes),
                            .text = fmt::format("{}: {}, {}", answer::words_for(one.plan), to_text(one.step_time),
                                                to_text(one.memory_per_gpu))});
  }
  front.series.push_back(std::move(plans));
  std::vector<Picture> all{{"The best plans", std::move(best)}};
  if (choice.pareto.size() > 1) all.push_back({"No plan is faster, smaller and cheaper than one of these", front});
  return all;
}

std::vector<Picture> pictures_of(const answer::Recommendation& result) {
  Chart chart{.title = "What every choice takes and costs",
              .x = {.name = "time to train", .logarithmic = true, .text = seconds_text, .ticks = round_times()},
              .y = {.name = "cost", .logarithmic = true, .text = [](double v) { return significant(v) + " $"; }}};
  Series others{.name = "a choice", .ink = Ink::kGrey, .mark = Mark::kDots};
  Series front{.name = "no other is cheaper and faster", .ink = Ink::kVermilion};
  const auto point = [&](const answer::ServerChoice& one) {
    return Point{
        .x = one.time().in(seconds),
        .y = one.cost().in(dollars),
        .text = fmt::format("{} x {}: {} in {}", one.nodes, one.node, to_text(one.cost()), to_text(one.time()))};
  };
  for (const answer::ServerChoice& one : result.choices) others.points.push_back(point(one));
  for (const std::size_t i : result.pareto) front.points.push_back(point(result.choices[i]));
  std::sort(front.points.begin(), front.points.end(), [](const Point& a, const Point& b) { return a.x < b.x; });
  chart.series = {std::move(others), std::move(front)};
  return {{"Money against time", std::move(chart)}};
}

std::vector<Picture> pictures_of(const answer::StallReport& report) {
  const auto bars = [](const answer::Stalls& stalls, const std::string& after, BarChart& chart) {
    chart.bars.push_back(stall_bar("interconnect" + after, Ink::kBlue, stalls.interconnect, "of a step"));
    chart.bars.push_back(stall_bar("network" + after, Ink::kVermilion, stalls.network, "of a step"));
    chart.bars.push_back(stall_bar("prep" + after, Ink::kOrange, stalls.prep, "of a step"));
    chart.bars.push_back(stall_bar("fetch" + after, Ink::kGreen, stalls.fetch, "of a step"));
  };
  BarChart chart{.title = "Stalls in percent"};
  bars(report.stalls, "", chart);
  if (report.measured_stalls) bars(*report.measured_stalls, ", measured", chart);
  return {{"Stalls, in percent", std::move(chart)}};
}

std::vector<Picture> pictures_of(const answer::StallStudy& study) {
  BarChart chart{.title = "Interconnect stall by model, in percent"};
  for (const answer::StudiedModel& one : study.models) {
    chart.bars.push_back(stall_bar(one.model, Ink::kBlue, one.stalls.interconnect, "interconnect stall"));
  }
  return {{"Interconnect stall, in percent", std::move(chart)}};
}

std::vector<Picture> pictures_of(const answer::CollectiveReport& report) {
  Chart chart{.title = "Bus bandwidth against message size",
              .x = {.name = "message", .logarithmic = true, .text = [](double v) { return to_text(bytes(v)); }},
              .y = {.name = "bus bandwidth", .text = [](double v) { return to_text(bytes_per_second(v)); }}};
  for (const answer::CollectiveSweep& sweep : report.sweeps) {
    Series series{.name = sweep.library, .ink = ink_of(chart.series.size()), .mark = mark_of(chart.series.size())};
    for (const answer::CollectiveRow& row : sweep.rows) {
      series.points.push_back({.x = row.size.in(bytes),
                               .y = row.bus_bandwidth.in(bytes_per_second),
                               .text = fmt::format("{} in {}: {}, {}", to_text(row.size), to_text(row.time),
                                                   to_text(row.bus_bandwidth), row.algorithm)});
    }
    chart.series.push_back(std::move(series));
  }
  return {{"Bus bandwidth against message size", std::move(chart)}};
}

std::vector<Picture> pictures_of(const answer::Validation& validation) {
  // Of cases in several metrics the shared scale is their ratio to the set's largest; logarithmic, so shape alone.
  Chart chart{.title = "Predicted against measured",
              .x = {.name = "measured, in the unit of each case",
                    .logarithmic = true,
                    .text = [](double v) { return significant(v); }},
              .y = {.name = "predicted", .logarithmic = true, .text = [](double v) { return significant(v); }}};
  double low = 0;
  double high = 0;
  for (const answer::ValidationSet& set : validation.sets) {
    Series series{.name = set.name, .ink = ink_of(chart.series.size()), .mark = Mark::kDots};
    for (const answer::CaseResult& one : set.cases) {
      if (!(one.measured > 0) || !(one.predicted > 0)) continue;
      low = low == 0 ? one.measured : std::min(low, one.measured);
      high = std::max(high, one.measured);
      series.points.push_back(
          {.x = one.measured,
           .y = one.predicted,
           .text = fmt::format("{}: measured {}, predicted {} {} ({:+.1f} %)", one.id, significant(one.measured),
                               significant(one.predicted), one.metric, one.error * 100)});
    }
    chart.series.push_back(std::move(series));
  }
  if (low > 0) {
    chart.series.insert(chart.series.begin(), Series{.name = "exact",
                                                     .ink = Ink::kGrey,
                                                     .mark = Mark::kDashes,
                                                     .points = {{.x = low, .y = low}, {.x = high, .y = high}}});
  }
  return {{"Predicted against measured", std::move(chart)}};
}

std::vector<Picture> pictures_of(const answer::FleetReport& report) {
  BarChart shares{.title = "Where cNode time goes"};
  for (const answer::FleetGroup& group : report.groups) {
    const answer::TimeShares& of = group.by_cnode;
    Bar bar{.name = group.architecture, .text = to_text(group.jobs) + " jobs"};
    const auto add = [&](const char* name, Ink ink, double share) {
      bar.parts.push_back({name, ink, share, percent(share)});
    };
    add("input", Ink::kOrange, of.input);
    add("compute-bound operators", Ink::kBlue, of.compute);
    add("memory-bound operators", Ink::kSky, of.memory);
    add("communication", Ink::kVermilion, of.communication);
    shares.bars.push_back(std::move(bar));
  }
  std::vector<Picture> all{{"Where cNode time goes", std::move(shares)}};
  Chart cdf{.title = "How many jobs reach a speedup",
            .x = {.name = "speedup", .logarithmic = true, .text = [](double v) { return significant(v) + "x"; }},
            .y = {.name = "share of jobs", .text = [](double v) { return fmt::format("{:.0f} %", v); }}};
  for (const answer::SpeedupRow& row : report.speedups) {
    if (row.architecture != "all" || row.jobs == 0 || row.percentiles.empty()) continue;
    if (row.percentiles.front() == row.percentiles.back()) continue;  // a change that is none
    Series series{.name = row.change, .ink = ink_of(cdf.series.size()), .mark = mark_of(cdf.series.size())};
    for (std::size_t i = 4; i < row.percentiles.size(); i += 5) {
      series.points.push_back(
          {.x = row.percentiles[i],
           .y = static_cast<double>(i + 1),
           .text = fmt::format("{} % of jobs: at most {}x", i + 1, significant(row.percentiles[i]))});
    }
    cdf.series.push_back(std::move(series));
  }
  if (!cdf.series.empty()) all.push_back({"How many jobs reach a speedup", std::move(cdf)});
  return all;
}

std::vector<Picture> pictures_of(const answer::Curve& curve) {
  return {{"Throughput over " + curve.setting, chart_of(curve)}};
}

}  // namespace ddlsim::report
