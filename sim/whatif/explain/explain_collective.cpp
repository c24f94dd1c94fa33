#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "ddlsim/cost/nccl.h"
#include "ddlsim/cost/nccl_terms.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/explain.h"
#include "explain/explain_parts.h"

namespace ddlsim::whatif {
namespace {

using cost::CollectiveAlgorithm;
using cost::CollectiveLine;
using cost::CollectiveModel;
using cost::CollectiveProtocol;
using primitives::CollectiveOp;

constexpr std::string_view kTuner = "NCCL 2.30 src/graph/tuning.cc";
constexpr std::string_view kHeader = "cost/nccl.h";

/// What is not split into terms.
std::string header_of(plan::CollectiveLibraryKind kind) {
  if (kind == plan::CollectiveLibraryKind::kNccl) return std::string(kHeader);
  return kind == plan::CollectiveLibraryKind::kGloo ? "cost/gloo_collectives.h" : "cost/mpi_collectives.h";
}
constexpr std::size_t kMostSizes = 6;

/// The candidate that gave a cost; null: a table did.
const CollectiveLine* line_of(const CollectiveModel& model, CollectiveOp op, DataSize size,
                              const cost::CollectiveCost& cost) {
  for (const CollectiveLine& line : model.candidates(op)) {
    const bool fits = size > line.above && size <= line.up_to;
    if (fits && line.algorithm == cost.algorithm && line.protocol == cost.protocol && line.time(size) == cost.time) {
      return &line;
    }
  }
  return nullptr;
}

/// "ring of 32 GPUs on 4 servers, Simple"
std::string words_for(const CollectiveModel& model, const CollectiveLine& line) {
  const cost::Communicator& c = model.communicator();
  std::string text = fmt::format("{} of {} GPUs", name_of(cost::kCollectiveAlgorithms, line.algorithm), c.gpus);
  if (c.nodes > 1) text += fmt::format(" on {} servers", c.nodes);
  if (line.protocol != CollectiveProtocol::kNone) {
    text += fmt::format(", {}", name_of(cost::kCollectiveProtocols, line.protocol));
  }
  return text;
}

/// What a byte of size puts on a wire, where it has an equation in ranks.
void explain_wire(const CollectiveModel& model, CollectiveOp op, const CollectiveLine& line, const std::string& number,
                  ExplainedParts& parts) {
  const cost::Communicator& c = model.communicator();
  if (line.algorithm != CollectiveAlgorithm::kRing) return;
  const double volume = line.wire_intra > 0 ? line.wire_intra : line.wire_inter;
  PartBuilder part("all-reduce", "bytes that every GPU of a ring sends for one of the message", "v_" + number);
  part.with("n", "GPUs", c.gpus, "stated", "");
  const bool once = cost::ring_volume(op, 2) == 1 && op != CollectiveOp::kAllReduce;
  const bool twice = op == CollectiveOp::kAllReduce;
  if (once) return;
  parts.push_back(part.is(twice ? "2 * (n - 1) / n" : "(n - 1) / n", volume));
}

void explain_rate(const cost::WireTerms& wire, const std::string& symbol, const char* where, Provenance provenance,
                  ExplainedParts& parts) {
  PartBuilder part("all-reduce", fmt::format("what large messages reach {}", where), symbol);
  part.with("B", "rate of the wire, one direction", wire.wire, "datasheet", "hardware/");
  part.with("s", "share that the library reaches, its protocol's included", wire.share, to_string(provenance),
            std::string(kHeader));
  const bool capped = wire.cap < wire.wire * wire.share;
  if (capped) {
    part.with("c", "what the protocol, TCP or PCIe lets through at most", wire.cap, to_string(provenance),
              std::string(kHeader));
  }
  parts.push_back(part.is(capped ? "min(s * B, c)" : "s * B", wire.reached()));
}

/// Seconds for a byte: the slower wire, and the pass through the GPU's memory.
void explain_per_byte(const cost::NcclTerms& terms, const CollectiveLine& line, const std::string& number,
                      ExplainedParts& parts) {
  PartBuilder part("all-reduce", "seconds for a byte of the message", "b_" + number);
  std::string inside;
  std::string across;
  const bool ring = line.algorithm == CollectiveAlgorithm::kRing;
  const std::string volume = "v_" + number;
  if (line.wire_intra > 0) {
    explain_rate(terms.inside, "r_in_" + number, "inside a server", line.provenance, parts);
    part.with(ring ? volume : "v_in", "bytes that a GPU sends for one", line.wire_intra, ring ? "above" : "analytic",
              ring ? "" : std::string(kHeader));
    part.above("r_in_" + number, "rate inside a server", terms.inside.reached());
    inside = fmt::format("{} / r_in_{}", ring ? volume : "v_in", number);
  }
  if (line.wire_inter > 0) {
    explain_rate(terms.across, "r_out_" + number, "between servers", line.provenance, parts);
    if (!ring || line.wire_intra <= 0) {
      part.with(ring ? volume : "v_out", "bytes that a server sends for one", line.wire_inter,
                ring ? "above" : "analytic", ring ? "" : std::string(kHeader));
    }
    part.above("r_out_" + number, "rate between servers", terms.across.reached());
    across = fmt::format("{} / r_out_{}", ring ? volume : "v_out", number);
  }
  std::string equation = inside.empty() ? across : across.empty() ? inside : fmt::format("max({}, {})", inside, across);
  if (terms.local > Time::zero()) {
    part.with("m", "through the GPU's memory, that no transfer hides", Explained(terms.local.in(seconds), "s/B"),
              "analytic", std::string(kHeader));
    equation += " + m";
  }
  parts.push_back(part.is(equation, Explained(line.per_byte.in(seconds), "s/B")));
}

void explain_latency(const cost::NcclTerms& terms, const CollectiveLine& line, const std::string& number,
                     ExplainedParts& parts) {
  PartBuilder part("all-reduce", "latency of one message", "L_" + number);
  std::string hops;
  part.with("base", "of the algorithm and protocol", terms.base, "analytic", std::string(kTuner));
  if (terms.hops_inside > 0) {
    part.with("k_in", "steps inside a server", terms.hops_inside, "analytic", std::string(kTuner));
    part.with("h_in", "one of them", terms.hop_inside, "analytic", std::string(kTuner));
    hops = "k_in * h_in";
  }
  if (terms.hops_across > 0) {
    part.with("k_out", "steps between servers", terms.hops_across, "analytic", std::string(kTuner));
    part.with("h_out", "one of them", terms.hop_across, "analytic", std::string(kTuner));
    hops += hops.empty() ? "k_out * h_out" : " + k_out * h_out";
  }
  const bool far = terms.far > Time::zero();
  if (far) part.with("far", "what the wire takes longer than NCCL's own hop", terms.far, "datasheet", "hardware/links");
  if (terms.rounds != 1) part.with("w", "times over", terms.rounds, "analytic", std::string(kTuner));
  if (terms.rounds != 1) hops = fmt::format("({}{}) * w{}", hops, far ? " - far" : "", far ? " + far" : "");
  std::string equation = hops.empty() ? "base" : "base + " + hops;
  if (terms.wall != Time::zero()) {
    part.with("x", "what calls take beside the tuner's latency", terms.wall, "measured", std::string(kHeader));
    equation = fmt::format("max({} + x, 0)", equation);
  }
  parts.push_back(part.is(equation, line.latency));
}

/// One size of message that a step sends.
struct SentSize {
  double count = 0;
  bool gathered = false;
  Time copies{};  // of all of them
  Time alone{};   // likewise, copies included
};

}  // namespace

void explain_collective(const CollectiveModel& model, CollectiveOp op, DataSize buffer, const std::string& number,
                        ExplainedLines& lines, ExplainedParts& parts) {
  const cost::CollectiveCost cost = model.cost(op, buffer);
  const CollectiveLine* line = line_of(model, op, buffer, cost);
  const std::string what = fmt::format("{} of {}", name_of(primitives::kCollectiveOps, op), to_text(buffer));
  if (line == nullptr) {
    PartBuilder part("all-reduce", what, "t_" + number);
    part.with("t_table", "between its neighbours in the table", cost.time, to_string(cost.provenance),
              "collective.table");
    parts.push_back(part.is("t_table", cost.time));
    return;
  }
  const auto terms = cost::nccl_terms(model.communicator(), model.library(), op, *line);
  const auto [known, fresh] = lines.try_emplace({&model, line}, std::to_string(lines.size() + 1));
  const std::string& of_line = known->second;
  if (terms && fresh) {
    explain_wire(model, op, *line, of_line, parts);
    explain_per_byte(*terms, *line, of_line, parts);
    explain_latency(*terms, *line, of_line, parts);
  }
  PartBuilder part("all-reduce", fmt::format("{}: {}", what, words_for(model, *line)), "t_" + number);
  const std::string_view from = terms ? "above" : to_string(line->provenance);
  const std::string source = terms ? "" : header_of(model.library().kind);
  part.with("S", "size of the message", buffer, "analytic", "plan/messages.h");
  part.with("L_" + of_line, "latency", line->latency, from, source);
  part.with("b_" + of_line, "seconds for a byte", Explained(line->per_byte.in(seconds), "s/B"), from, source);
  std::string equation = fmt::format("L_{0} + S * b_{0}", of_line);
  if (line->tree_corrected) {
    part.with("c", "share of its rate that a tree reaches at this size", cost::tree_correction(line->protocol, buffer),
              "analytic", std::string(kTuner));
    equation += " / c";
  }
  if (line->growth_per_doubling > Time::zero()) {
    part.with("g", "for every doubling of the size", line->growth_per_doubling, "measured", std::string(kHeader));
    part.with("S_0", "from 4 MiB on", mebibytes(4), "measured", std::string(kHeader));
    equation += " + g * log2(1 + S / S_0)";
  }
  parts.push_back(part.is(equation, cost.time));
}

namespace {

/// When rows are ready, and the last messages (of all, or up to the last of layer `until`) that follow each other: the
/// recurrence of step/schedule.h once more, from the layers' times.
struct LastBusy {
  Time ready{};
  Time taken{};
  std::size_t messages = 0;
};
LastBusy replay(const cost::PricedStep& step, const answer::Timeline& line, std::optional<std::size_t> until = {}) {
  const plan::StepPlan& plan = *step.plan;
  const cost::PricedClass& layers = step.classes.front();
  Time issued;
  Time done;
  const auto run = [&](const cost::PricedLayer& layer, Time slowed) {
    if (layer.kernels == 0) return;
    issued += step.launch_interval * layer.kernels;
    done = max(done + layer.time + slowed, issued + layer.last);
  };
  for (const cost::PricedLayer& layer : layers.forward) run(layer, Time::zero());
  std::vector<Time> ready;
  const auto offer = [&] {
    done += step.rows[ready.size()].encoding;
    ready.push_back(done);
  };
  const std::size_t count = layers.backward.size();
  for (std::size_t k = 0; k < count; ++k) {
    run(layers.backward[k], line.backward_kernels[k].slowed);
    while (ready.size() < plan.rows.size() && plan.rows[ready.size()].ready.layer == count - 1 - k) offer();
  }
  while (ready.size() < plan.rows.size()) offer();
  const auto of_layer = [&](const answer::Timeline::Sent& one) { return !until || one.layer == *until; };
  const auto end = std::find_if(line.sent.rbegin(), line.sent.rend(), of_layer).base();
  LastBusy last;
  Time free;
  for (auto one = line.sent.begin(); one != end; ++one) {
    const Time start = ready[one->last] + one->wait;
    if (start >= free) last = {start, Time::zero(), 0};
    free = max(start, free) + one->alone;
    last.taken += one->alone;
    ++last.messages;
  }
  return last;
}

/// By priority: the messages without a gap until the weights that the next forward pass waits for last are back.
/// Messages without a gap, and the passes beside them.
void with_passes(PartBuilder& part, const LastBusy& last, const answer::Timeline& line) {
  part.with("D", "what they take, one after another", last.taken, "analytic", "all-reduce");
  part.with("F", "forward pass", line.forward, "analytic", "step/schedule.h");
  part.with("G", "backward pass", line.backward, "analytic", "step/schedule.h");
  part.with("C", "copying gradients, in backward", line.copying, "analytic", "step/schedule.h");
  part.with("K", "kernels slowed by collectives, in backward", line.contention, "analytic", "step/schedule.h");
}

/// Whether that is what the schedule has.
bool explain_turns(const Question& question, const Laid& laid, ExplainedParts& parts) {
  const answer::Timeline& line = laid.line;
  const answer::Timeline::NextForward& next = *line.next_forward;
  const LastBusy last = replay(*laid.step, line, next.layer);
  const Time end = line.forward + line.backward + line.copying + line.contention;
  const double off = std::abs((last.ready + last.taken - end - next.back).in(seconds));
  if (off > 1e-9 * line.step.in(seconds)) return false;
  const std::string layer = question.plan->classes.front().chunk[next.layer].name;
  PartBuilder part("exposed", fmt::format("the weights of {} are back, after the end of backward", layer), "b");
  part.with("r", fmt::format("when the first of {} messages without a gap until then may start", last.messages),
            last.ready, "analytic", "step/schedule.h");
  with_passes(part, last, line);
  parts.push_back(part.is("r + D - (F + G + C + K)", next.back));
  return true;
}

/// What is shown is one phase of a coordinator's cycle, the step is the mean over all of them.
void with_other_phases(Time more, PartBuilder& part, std::string& equation) {
  part.with("phases", "what the mean over phases of the coordinator's cycle has more than the one shown", more,
            "analytic", "step/phases.h");
  equation += " + phases";
}

void explain_exposed(const Question& question, const Laid& laid, ExplainedParts& parts) {
  const answer::Timeline& line = laid.line;
  const Time exposed = line.parts.communication_exposed;
  const plan::Exchange& exchange = question.plan->exchange;
  PartBuilder part("exposed", "communication that kernels do not hide", "T_exposed");
  const bool replayed = exchange.overlap == plan::Overlap::kBackward && !exchange.priority && !line.sent.empty() &&
                        line.backward_kernels.size() == laid.step->classes.front().backward.size();
  if (exchange.overlap == plan::Overlap::kIdeal) {
    part.above("D", "all messages, one after another", line.parts.communication);
    part.with("P", "passes of a step", static_cast<double>(question.plan->micro_batches), "stated", "")
        .with("F", "forward pass", line.forward, "analytic", "step/schedule.h")
        .with("G", "backward pass", line.backward, "analytic", "step/schedule.h")
        .with("U", "weight update", line.update, "analytic", "step/schedule.h");
    parts.push_back(part.is("max(D - (P * (F + G) + U), 0)", exposed));
    return;
  }
  if (exchange.overlap == plan::Overlap::kBackward && exchange.priority && line.next_forward) {
    part.note(std::string(kNearestFirst));
    const bool shown = explain_turns(question, laid, parts);
    return explain_next_forward(question, line, std::move(part), {.sum = "", .shown = shown}, parts);
  }
  const Time beyond = exposed - line.parts.communication;
  if (exchange.overlap == plan::Overlap::kNone && std::abs(beyond.in(seconds)) <= 1e-9 * exposed.in(seconds)) {
    part.above("D", "all messages, one after another, once backward is done", line.parts.communication);
    parts.push_back(part.is("D", exposed));
    return;
  }
  if (!replayed) {
    part.with("exposed", "as the schedule has it", exposed, "analytic", "step/schedule.h");
    parts.push_back(part.is("exposed", exposed));
    return;
  }
  const LastBusy last = replay(*laid.step, line);
  part.with("r",
            last.messages == 1
                ? "when the last message may start"
                : fmt::format("when the first of the last {} messages without a gap may start", last.messages),
            last.ready, "analytic", "step/schedule.h");
  with_passes(part, last, line);
  std::string equation = "max(r + D - (F + G + C + K), 0)";
  if (exchange.fusion) {
    const Time passes = line.forward + line.backward + line.copying + line.contention;
    with_other_phases(exposed - max(last.ready + last.taken - passes, Time::zero()), part, equation);
  }
  parts.push_back(part.is(equation, exposed));
}

}  // namespace

void explain_messages(const Question& question, const Laid& laid, ExplainedParts& parts) {
  const CollectiveModel& model = *laid.step->groups.front();
  const answer::Timeline& line = laid.line;
  std::map<std::pair<double, bool>, SentSize, std::greater<>> sizes;
  for (const answer::Timeline::Sent& one : line.sent) {
    SentSize& size = sizes[{one.size.in(bytes), one.gathered}];
    size.count += one.count;
    size.gathered = one.gathered;
    size.copies += one.copies;
    size.alone += one.alone;
  }
  ExplainedLines lines;
  PartBuilder sum("all-reduce", "all messages by themselves", "T_communication");
  std::string equation;
  Time rest;
  Time copies;
  Time all;
  std::size_t number = 0;
  for (const auto& [key, size] : sizes) {
    all += size.alone;
    copies += size.copies;
    if (number == kMostSizes) {
      rest += size.alone - size.copies;
      continue;
    }
    const std::string name = std::to_string(++number);
    const CollectiveOp op = size.gathered ? CollectiveOp::kAllGather : CollectiveOp::kAllReduce;
    const double ranks = size.gathered ? static_cast<double>(model.communicator().gpus) : 1.0;
    const DataSize buffer = bytes(key.first) * ranks;
    explain_collective(model, op, buffer, name, lines, parts);
    sum.with("n_" + name, "messages of " + to_text(buffer), size.count, "analytic", "plan/messages.h");
    sum.above("t_" + name, "one of them", model.cost(op, buffer).time);
    equation += fmt::format("{}n_{} * t_{}", equation.empty() ? "" : " + ", name, name);
  }
  if (rest > Time::zero()) {
    sum.with("rest", fmt::format("messages of {} smaller sizes", sizes.size() - kMostSizes), rest, "analytic",
             "cost/collective.h");
    equation += " + rest";
  }
  if (copies > Time::zero()) {
    sum.with("copies", "into fusion buffers and out of them", copies, "analytic", "step/schedule.h");
    equation += " + copies";
  }
  const Time whole = line.parts.communication;
  if (!equation.empty()) {
    // What is all ready at once may be grouped otherwise, and take longer.
    if (question.plan->exchange.fusion) {
      with_other_phases(whole - all, sum, equation);
    } else if (whole > all * (1 + kExplainedWithin)) {
      sum.with("at_once", "if all were ready at once", whole, "analytic", "plan/messages.h");
      equation = fmt::format("max(at_once, {})", equation);
    }
    parts.push_back(sum.is(equation, whole));
  }
  explain_exposed(question, laid, parts);
}

}  // namespace ddlsim::whatif
