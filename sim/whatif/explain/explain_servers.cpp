// What sticks out of push and pull, and of averaging weights, as equations.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "ddlsim/cost/parameter_server.h"
#include "ddlsim/step/local_sgd.h"
#include "ddlsim/step/schedule.h"
#include "explain/explain_parts.h"

namespace ddlsim::whatif {
namespace {

using cost::kPsStations;
using StationTimes = std::array<Time, kPsStations>;

constexpr std::array<std::string_view, kPsStations> kStations{
    "copied out of the GPU", "sent by the worker's node",     "received by the server", "summed by the server",
    "sent by the server",    "received by the worker's node", "copied into the GPU"};

/// The longest way through messages and stations (cost/parameter_server.h): from when a message is ready until the last
/// one is back, what it spends at each station, and what of the messages that is.
struct PushedPath {
  Time ready{};
  Time travel{};
  StationTimes at{};
  std::array<double, kPsStations> bytes_at{};
  std::array<double, kPsStations> pieces_at{};
  [[nodiscard]] Time back() const {
    Time sum = ready + travel;
    for (const Time one : at) sum += one;
    return sum;
  }
};

/// Follows messages in their order as PsPipeline does, and remembers for each station which way was the longest.
class LongestPath {
 public:
  explicit LongestPath(const cost::PsFabric& fabric)
      : spread_(cost::ps_path(fabric, fabric.servers)), placed_(cost::ps_path(fabric, 1)) {}

  void add(const answer::Timeline::Sent& sent) {
    const cost::PsPath& path = sent.server < 0 ? spread_ : placed_;
    Load load{
        .ready = sent.chosen, .layer = sent.layer, .size = sent.size.in(bytes), .count = sent.count, .path = &path};
    std::array<std::size_t*, kPsStations> before{};
    for (std::size_t i = 0; i < kPsStations; ++i) before[i] = &last_at(i, sent.server);
    for (std::size_t last = 0; last < kPsStations; ++last) reach(load, before, last);
    for (std::size_t* one : before) *one = loads_.size() + 1;
    loads_.push_back(load);
  }

  /// Of all messages, or of those of one layer.
  [[nodiscard]] PushedPath longest(std::optional<std::size_t> layer = {}) const {
    PushedPath path;
    std::size_t at = loads_.size();
    for (std::size_t i = 0; i < loads_.size(); ++i) {
      if (layer && loads_[i].layer != *layer) continue;
      if (at == loads_.size() || loads_[i].leave.back() > loads_[at].leave.back()) at = i;
    }
    if (at == loads_.size()) return path;
    for (std::size_t last = kPsStations - 1;;) {
      const Load& load = loads_[at];
      const Step& step = load.steps[last];
      for (std::size_t i = step.first; i <= last; ++i) {
        const double pieces = i == step.slowest ? load.count : 1.0;
        path.at[i] += load.serve(i) * pieces;
        path.bytes_at[i] += load.size * pieces;
        path.pieces_at[i] += pieces;
        if (i > step.first || step.before == 0) path.travel += load.path->travel[i];
      }
      if (step.before == 0) {
        path.ready = load.ready;
        return path;
      }
      at = step.before - 1;
      last = step.first;
    }
  }

 private:
  /// How a load came to leave a station: from `first` on without waiting, where it waited for the load `before`
  /// (counted from 1), or from the start.
  struct Step {
    std::size_t first = 0;
    std::size_t before = 0;
    std::size_t slowest = 0;
  };
  struct Load {
    Time ready{};
    std::size_t layer = 0;
    double size = 0;
    double count = 1;
    const cost::PsPath* path = nullptr;
    StationTimes leave{};
    std::array<Step, kPsStations> steps{};
    [[nodiscard]] Time serve(std::size_t i) const { return path->per_byte[i] * size + path->per_message[i]; }
  };

  std::size_t& last_at(std::size_t station, std::int64_t server) {
    const bool shared = station < 2 || station > 4 || server < 0;
    std::vector<std::size_t>& of = last_[station];
    const std::size_t index = shared ? 0 : static_cast<std::size_t>(server) + 1;
    if (of.size() <= index) of.resize(index + 1, 0);
    return of[index];
  }

  void reach(Load& load, const std::array<std::size_t*, kPsStations>& before, std::size_t last) {
    Time service;
    std::size_t slowest = last;
    Time& leave = load.leave[last];
    leave = Time::zero() - Time::infinity();
    for (std::size_t first = last + 1; first-- > 0;) {
      service += load.serve(first) + (first < last ? load.path->travel[first + 1] : Time::zero());
      if (load.serve(first) >= load.serve(slowest)) slowest = first;
      const Time all = service + load.serve(slowest) * (load.count - 1.0);
      const auto take = [&](Time start, std::size_t waited_for) {
        if (start + all <= leave) return;
        leave = start + all;
        load.steps[last] = {first, waited_for, slowest};
      };
      if (const std::size_t number = *before[first]; number > 0) take(loads_[number - 1].leave[first], number);
      if (first == 0) take(load.ready + load.path->travel[0], 0);
    }
  }

  cost::PsPath spread_;
  cost::PsPath placed_;
  std::vector<Load> loads_;
  std::array<std::vector<std::size_t>, kPsStations> last_;
};

void plain_exposed(Time exposed, ExplainedParts& parts) {
  PartBuilder part("exposed", "communication that kernels do not hide", "T_exposed");
  part.with("exposed", "as the schedule has it", exposed, "analytic", "step/schedule.h");
  parts.push_back(part.is("exposed", exposed));
}

}  // namespace

void explain_next_forward(const Question& question, const answer::Timeline& line, PartBuilder part,
                          const NextForwardWords& words, ExplainedParts& parts) {
  const answer::Timeline::NextForward& next = *line.next_forward;
  const std::string layer = question.plan->classes.front().chunk[next.layer].name;
  const std::string meaning =
      fmt::format("from then until the weights of {} are back, the last layer that is waited for", layer);
  if (words.shown) {
    part.above("b", meaning, next.back);
  } else {
    part.with("b", meaning, next.back, "analytic", "step/schedule.h");
  }
  part.with("R", fmt::format("next forward pass from {} on", layer), next.rest, "analytic", "step/schedule.h");
  part.with("F", "forward pass", line.forward, "analytic", "step/schedule.h");
  parts.push_back(part.is(words.sum + "max(b + R - F, 0)", line.parts.communication_exposed));
}

namespace {

/// Backward and what it takes beside kernels end; exchanges that do not run beside it begin when it ends.
constexpr std::string_view kEnd = "F + G + C + K";
void with_end(const answer::Timeline& line, bool forward, PartBuilder& part) {
  if (forward) part.with("F", "forward pass", line.forward, "analytic", "step/schedule.h");
  part.with("G", "backward pass", line.backward, "analytic", "step/schedule.h");
  part.with("C", "copying gradients, in backward", line.copying, "analytic", "step/schedule.h");
  part.with("K", "kernels slowed by messages, in backward", line.contention, "analytic", "step/schedule.h");
}

/// One station of the path: bytes and pieces by what each of them takes there.
void explain_station(const cost::PsPath& rates, const PushedPath& path, std::size_t i, ExplainedParts& parts) {
  PartBuilder part("push and pull", fmt::format("on the longest way: {}", kStations[i]), fmt::format("P_{}", i + 1));
  part.with("B", "bytes of messages that follow each other there", bytes(path.bytes_at[i]), "analytic",
            "plan/messages.h");
  part.with("b", "seconds of one byte", Explained(rates.per_byte[i].in(seconds), "s/B"), "analytic",
            "cost/parameter_server.h");
  std::string equation = "B * b";
  if (rates.per_message[i] > Time::zero()) {
    part.with("N", "pieces", path.pieces_at[i], "analytic", "plan/messages.h");
    part.with("o", "of one piece, whatever its size", rates.per_message[i], "assumed", "cost/parameter_server.h");
    equation += " + N * o";
  }
  parts.push_back(part.is(equation, path.at[i]));
}

/// Every station of a way, and the sum of them from `r` on.
std::string explain_way(const cost::PsPath& rates, const PushedPath& path, PartBuilder& part, ExplainedParts& parts) {
  std::string way = "r";
  for (std::size_t i = 0; i < kPsStations; ++i) {
    if (path.at[i] <= Time::zero()) continue;
    explain_station(rates, path, i, parts);
    part.above(fmt::format("P_{}", i + 1), std::string(kStations[i]), path.at[i]);
    way += fmt::format(" + P_{}", i + 1);
  }
  if (path.travel > Time::zero()) {
    part.with("L", "on the wire, both ways", path.travel, "analytic", "cost/parameter_server.h");
    way += " + L";
  }
  return way;
}

/// By priority: the longest way of the weights that the next forward pass waits for last. Whether it is what the
/// schedule has.
bool explain_priority_back(const Question& question, const Laid& laid, ExplainedParts& parts) {
  const answer::Timeline& line = laid.line;
  const answer::Timeline::NextForward& next = *line.next_forward;
  const bool placed = std::any_of(line.sent.begin(), line.sent.end(), [](const auto& one) { return one.server >= 0; });
  const bool spread = std::any_of(line.sent.begin(), line.sent.end(), [](const auto& one) { return one.server < 0; });
  if (line.sent.empty() || (placed && spread)) return false;
  LongestPath all(*laid.step->servers);
  for (const answer::Timeline::Sent& one : line.sent) all.add(one);
  const PushedPath path = all.longest(next.layer);
  const Time end = line.backward + line.copying + line.contention;  // as `chosen`, from the end of forward on
  const double off = std::abs((path.back() - end - next.back).in(seconds));
  if (off > 1e-9 * line.step.in(seconds)) return false;
  const cost::PsPath rates = cost::ps_path(*laid.step->servers, placed ? 1 : laid.step->servers->servers);
  const std::string layer = question.plan->classes.front().chunk[next.layer].name;
  PartBuilder part("exposed", fmt::format("the weights of {} are back, after the end of backward", layer), "b");
  part.note("what is needed first goes first: a piece is chosen when the way is free for it");
  part.with("r", "when the first piece of the longest way is chosen, after the end of forward", path.ready, "analytic",
            "step/schedule.h");
  const std::string way = explain_way(rates, path, part, parts);
  with_end(line, false, part);
  parts.push_back(part.is(fmt::format("{} - (G + C + K)", way), next.back));
  return true;
}

}  // namespace

void explain_servers(const Question& question, const Laid& laid, ExplainedParts& parts) {
  const answer::Timeline& line = laid.line;
  const plan::Exchange& exchange = question.plan->exchange;
  const Time exposed = line.parts.communication_exposed;
  const bool in_backward = exchange.overlap == plan::Overlap::kBackward;
  if (in_backward && line.next_forward && exchange.priority != exchange.pull_at_start) {
    PartBuilder part("exposed", "communication that kernels do not hide", "T_exposed");
    if (exchange.priority) {
      part.note(std::string(kNearestFirst));
      const bool shown = explain_priority_back(question, laid, parts);
      return explain_next_forward(question, line, std::move(part), {.sum = "", .shown = shown}, parts);
    }
    part.note("workers pull in the next forward pass: b counts from its begin");
    part.with("p", "servers have every gradient", line.all_summed, "analytic", "step/schedule.h");
    with_end(line, false, part);
    return explain_next_forward(question, line, std::move(part), {.sum = fmt::format("max(p - ({}), 0) + ", kEnd)},
                                parts);
  }
  const bool follows = in_backward && !exchange.priority && !exchange.pull_at_start;
  const bool placed = std::any_of(line.sent.begin(), line.sent.end(), [](const auto& one) { return one.server >= 0; });
  const bool spread = std::any_of(line.sent.begin(), line.sent.end(), [](const auto& one) { return one.server < 0; });
  if (!follows || line.sent.empty() || (placed && spread)) return plain_exposed(exposed, parts);
  LongestPath all(*laid.step->servers);
  for (const answer::Timeline::Sent& one : line.sent) all.add(one);
  const PushedPath path = all.longest();
  const Time end = line.forward + line.backward + line.copying + line.contention;
  const double off = std::abs((max(path.back() - end, Time::zero()) - exposed).in(seconds));
  if (off > 1e-9 * line.step.in(seconds)) return plain_exposed(exposed, parts);
  const cost::PsPath rates = cost::ps_path(*laid.step->servers, placed ? 1 : laid.step->servers->servers);
  PartBuilder part("exposed", "communication that kernels do not hide", "T_exposed");
  part.with("r", "when the first message of the longest way is ready", path.ready, "analytic", "step/schedule.h");
  const std::string way = explain_way(rates, path, part, parts);
  with_end(line, true, part);
  parts.push_back(part.is(fmt::format("max({} - ({}), 0)", way, kEnd), exposed));
}

void explain_local_sgd(const Question& question, const Laid& laid, ExplainedParts& parts) {
  const Time exposed = laid.line.parts.communication_exposed;
  const auto averaging = step::schedule(step::taken_apart(*laid.step).averaging, answer::Detail::kParts);
  const auto every = static_cast<double>(question.plan->exchange.sync_every);
  if (!averaging) return plain_exposed(exposed, parts);
  const Time all = averaging->parts.communication_exposed;
  if (std::abs((all / every - exposed).in(seconds)) > 1e-9 * laid.line.step.in(seconds)) {
    return plain_exposed(exposed, parts);
  }
  PartBuilder part("exposed", "weights averaged, which nothing hides, as a share of every step", "T_exposed");
  part.with("A", "all messages and copies of the step that averages, one after another", all, "analytic",
            "step/local_sgd.h");
  part.with("n", "steps from one average to the next", question.plan->exchange.sync_every, "stated",
            "strategy.sync_every");
  parts.push_back(part.is("A / n", exposed));
}

}  // namespace ddlsim::whatif
