#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <utility>

#include "ddlsim/report/views.h"
#include "ddlsim/support/plural.h"
#include "ddlsim/support/quantity_io.h"
#include "flat.h"
#include "goodput_lines.h"
#include "json.h"
#include "pictures.h"
#include "table.h"
#include "words.h"

namespace ddlsim::report {
namespace {

using answer::Prediction;

/// Less than rounding leaves is nothing.
bool is_nothing(Time part, const Prediction& p) { return part <= p.step_time * 1e-12; }

std::string of_step(Time part, const Prediction& p) {
  if (is_nothing(part, p)) return "-";
  return fmt::format("{} ({})", to_text(part), percent(part / p.step_time, 0));
}

std::string memory_text(const Prediction& p) {
  const std::string size = (p.memory_complete ? "" : "at least ") + to_text(p.memory_per_gpu);
  return p.fits == false ? size + ", does not fit" : size;
}

std::string power_text(const Prediction& p) {
  if (!p.power) return "";
  return to_text(p.power->working) + (p.power->slowdown > 1 ? ", its limit" : " of " + to_text(p.power->limit));
}
std::string clocks_text(const Prediction& p) {
  return p.power && p.power->slowdown > 1 ? percent(1 / p.power->slowdown) : "";
}

/// A line of the ledger, of split models, of language models and of what does not fit; nothing where there is nothing.
std::string ledger_text(DataSize part, const Prediction& p) {
  const bool split = p.split.tensor * p.split.context * p.split.pipeline > 1 || p.split.zero > 0;
  if (!(split || p.tokens_per_sample || p.fits == false) || part <= DataSize::zero()) return "";
  return to_text(part);
}

/// Those that are made while activations leave are all there once those are gone.
std::string gradients_text(const Prediction& p) {
  const DataSize all = p.memory.gradients + p.memory.gradients_later;
  if (p.memory.gradients_later <= DataSize::zero()) return ledger_text(all, p);
  if (ledger_text(all, p).empty()) return "";
  return fmt::format("{}, {} without activations", to_text(p.memory.gradients), to_text(all));
}

std::string activations_text(const Prediction& p) {
  std::string size = ledger_text(p.memory.activations, p);
  if (size.empty() || p.memory.micro_batches <= 1) return size;
  return fmt::format("{}, {} micro-batches in flight", size, significant(p.memory.micro_batches, 3));
}

/// All of it against what the GPU has.
std::string device_text(const Prediction& p) {
  const answer::MemoryLedger& memory = p.memory;
  if (ledger_text(memory.all(), p).empty()) return "";
  return fmt::format("{} of {} ({})", to_text(memory.all()), to_text(memory.capacity), memory.rank);
}

std::string interval_text(const Prediction& p) {
  return to_text(p.interval_90.first) + " to " + to_text(p.interval_90.second);
}

/// What the loader can do, and what stops it.
std::string loader_text(const Prediction& p) {
  if (!p.input.samples_per_second || p.input.bound_by.empty()) return "";
  return fmt::format("{}/s, by {}", significant(*p.input.samples_per_second), p.input.bound_by);
}

/// Of language models alone: a rate per second, and its share of a GPU.
std::string tokens_text(const Prediction& p) {
  const auto tokens = p.tokens_per_second();
  if (!tokens) return "";
  return fmt::format("{} ({} per GPU)", significant(*tokens, 4), significant(*tokens / static_cast<double>(p.gpus), 4));
}

std::string time_to_train(const Prediction& p) {
  if (!p.training) return "";
  const answer::Training& run = *p.training;
  const std::string epochs =
      run.epochs ? fmt::format(" ({} epoch{})", significant(*run.epochs), *run.epochs == 1 ? "" : "s") : "";
  return to_text(run.time()) + epochs;
}

std::string of_run(const Prediction& p, Time answer::Training::*part) {
  if (!p.training || (*p.training).*part <= Time::zero()) return "";
  return to_text((*p.training).*part);
}

/// A line of the table: its name, and its value for one prediction. A line that says nothing of any is left out.
struct Row {
  std::string_view name;
  std::function<std::string(const Prediction&)> value;
};

const std::vector<Row>& own_rows() {
  static const std::vector<Row> table{
      {"step time", [](const Prediction& p) { return to_text(p.step_time); }},
      {"  90 % interval", interval_text},
      {"  GPU compute", [](const Prediction& p) { return of_step(p.breakdown.compute, p); }},
      {"  GPU memory", [](const Prediction& p) { return of_step(p.breakdown.memory, p); }},
      {"  kernel launches", [](const Prediction& p) { return of_step(p.breakdown.launch, p); }},
      {"  waiting for input", [](const Prediction& p) { return of_step(p.breakdown.input_exposed, p); }},
      {"  exposed communication", [](const Prediction& p) { return of_step(p.breakdown.communication_exposed, p); }},
      {"  weight update on the CPU",
       [](const Prediction& p) {
         const Time update = p.breakdown.host_update;
         return is_nothing(update, p) ? "" : of_step(update, p);
       }},
      {"  measured, unexplained",
       [](const Prediction& p) {
         const Time part = p.breakdown.unexplained;
         return is_nothing(part, p) ? "" : of_step(part, p);
       }},
      {"  pipeline bubble",
       [](const Prediction& p) { return p.split.pipeline > 1 ? of_step(p.breakdown.bubble, p) : ""; }},
      {"communication in all", [](const Prediction& p) { return to_text(p.breakdown.communication); }},
      {"the loader", [](const Prediction& p) { return p.input.loader; }},
      {"  delivers", loader_text},
      {"  reads from storage",
       [](const Prediction& p) { return p.input.samples_per_second ? percent(p.input.from_storage) : ""; }},
      {"samples/s", [](const Prediction& p) { return significant(p.throughput_samples_per_second, 4); }},
      {"tokens/s", tokens_text},
      {"scaling efficiency", [](const Prediction& p) { return percent(p.scaling_efficiency); }},
      {"MFU", [](const Prediction& p) { return percent(p.mfu); }},
      {"HFU", [](const Prediction& p) { return p.tokens_per_sample ? percent(p.hfu) : ""; }},
      {"model FLOPs per GPU", [](const Prediction& p) { return p.tokens_per_sample ? to_text(p.rate_per_gpu()) : ""; }},
      {"power per GPU", power_text},
      {"  clocks fall to", clocks_text},
      {"memory per GPU", memory_text},
      {"  weights", [](const Prediction& p) { return ledger_text(p.memory.weights, p); }},
      {"  gradients", gradients_text},
      {"  fp32 weights", [](const Prediction& p) { return ledger_text(p.memory.master, p); }},
      {"  optimizer states", [](const Prediction& p) { return ledger_text(p.memory.optimizer_state, p); }},
      {"  16-bit copies of weights", [](const Prediction& p) { return ledger_text(p.memory.weight_casts, p); }},
      {"  activations", activations_text},
      {"  logits and loss", [](const Prediction& p) { return ledger_text(p.memory.loss, p); }},
      {"  gradients in work", [](const Prediction& p) { return ledger_text(p.memory.working, p); }},
      {"  communication buffers", [](const Prediction& p) { return ledger_text(p.memory.buffers, p); }},
      {"with context and allocator", device_text},
      {"time to train", time_to_train},
      {"  steps", [](const Prediction& p) { return p.training ? to_text(p.training->steps) : ""; }},
      {"  start-up", [](const Prediction& p) { return of_run(p, &answer::Training::startup); }},
      {"  evaluation", [](const Prediction& p) { return of_run(p, &answer::Training::evaluation); }},
      {"  checkpoints", [](const Prediction& p) { return of_run(p, &answer::Training::checkpoints); }},
      {"  failures", [](const Prediction& p) { return of_run(p, &answer::Training::failures); }},
      {"cost", [](const Prediction& p) { return p.training && p.training->cost ? to_text(*p.training->cost) : ""; }},
      {"energy of the GPUs", [](const Prediction& p) { return p.training ? to_text(p.training->energy) : ""; }},
      {"CO2", [](const Prediction& p) { return p.training && p.training->carbon ? to_text(*p.training->carbon) : ""; }},
      {"bound by", bottleneck_text},
      {"architecture", [](const Prediction& p) { return p.architecture; }},
      {"fidelity", [](const Prediction& p) { return std::string(name_of(answer::kFidelities, p.fidelity)); }},
      {"provenance", [](const Prediction& p) { return std::string(to_string(p.provenance)); }},
  };
  return table;
}

/// With the lines of a goodput before those of a run.
const std::vector<Row>& rows() {
  static const std::vector<Row> table = [] {
    std::vector<Row> all = own_rows();
    auto at = std::find_if(all.begin(), all.end(), [](const Row& row) { return row.name == "time to train"; });
    for (const GoodputLine& line : goodput_lines()) {
      at = all.insert(at, {line.name, [text = line.text](const Prediction& p) {
                             return p.goodput ? text(*p.goodput) : std::string();
                           }});
      ++at;
    }
    return all;
  }();
  return table;
}

/// What a run makes of steps, where it fails: ", goodput 93.2 % -> 95.1 %".
std::string goodput_change(const Prediction& before, const Prediction& after) {
  if (!before.goodput || !after.goodput) return "";
  return fmt::format(", goodput {} -> {}", goodput_text(before.goodput->share), goodput_text(after.goodput->share));
}

/// What a run comes to: ", run 3 h -> 6 h, cost $ 10 -> $ 20"; nothing of what stays.
std::string run_change(const Prediction& before, const Prediction& after) {
  std::string text;
  const auto add = [&](std::string_view what, const std::string& was, const std::string& is) {
    if (was != is) text += fmt::format(", {} {} -> {}", what, was, is);
  };
  if (before.training && after.training) {
    add("run", to_text(before.training->time()), to_text(after.training->time()));
    const auto cost = [](const Prediction& p) {
      return p.training->cost ? to_text(*p.training->cost) : std::string("unknown");
    };
    add("cost", cost(before), cost(after));
  } else if (before.price && after.price) {
    add("price", to_text(*before.price), to_text(*after.price));
  }
  return text;
}

std::string notes_text(const std::vector<std::string>& notes) {
  std::string text;
  for (const std::string& note : notes) text += "note: " + note + "\n";
  return text;
}

Table traffic_table(const Prediction& p) {
  Table table({"traffic per step", "bytes", "time"});
  for (const answer::LinkTraffic& row : p.traffic) {
    table.add({link_text(row.link, p), to_text(row.bytes), to_text(row.time)});
  }
  return table;
}

/// Whether a step of both does as much, on however many GPUs: steps of accumulated passes or other batches do not
/// compare.
bool same_work(const Prediction& a, const Prediction& b) { return a.split.global_batch() == b.split.global_batch(); }

/// "step 6.49 s -> 4.1 s"; where a step is not the same work, first what can be compared.
std::string change_of(const Prediction& base, const Prediction& p) {
  std::string steps = fmt::format("step {} -> {}", to_text(base.step_time), to_text(p.step_time));
  if (same_work(p, base)) return steps;
  return fmt::format("{} -> {} {}, {} of {} -> {} {}", significant(base.throughput_samples_per_second, 4),
                     significant(p.throughput_samples_per_second, 4), plural(p.sample, "/s"), steps,
                     to_text(base.split.global_batch()), to_text(p.split.global_batch()), plural(p.sample));
}

/// "1.4 to 2.1"; nothing where both are the same.
std::string range(double low, double high) {
  const std::string from = significant(low, 3);
  const std::string to = significant(high, 3);
  return from == to ? "" : fmt::format("{} to {}", from, to);
}

std::string range(const answer::Alternative& a) {
  return range(a.speedup_interval_90.first, a.speedup_interval_90.second);
}

/// "1.62x faster"; of throughput where the batch of a step differs, because step times then say little.
std::string factor(const answer::Alternative& a, const Prediction& base) {
  if (std::abs(a.speedup - 1.0) < 0.005) return "no change";
  if (!same_work(a.prediction, base)) return fmt::format("{}x the throughput", significant(a.speedup, 3));
  if (a.speedup >= 1.0) return fmt::format("{}x faster", significant(a.speedup, 3));
  return fmt::format("{}x slower", significant(1.0 / a.speedup, 3));
}

/// "; in 90 % 1.4 to 1.9 times"; nothing where nothing changes.
std::string range_of_factor(const answer::Alternative& a, const Prediction& base) {
  const auto [low, high] = a.speedup_interval_90;
  const bool slower = a.speedup < 1.0 && same_work(a.prediction, base);
  const std::string text = slower ? range(1.0 / high, 1.0 / low) : range(low, high);
  const bool none = text.empty() || std::abs(a.speedup - 1.0) < 0.005;
  return none ? "" : fmt::format("; in 90 % {} times", text);
}

/// That an alternative is faster: "97 %"; nothing of one that is as fast to four digits.
std::string chance(const answer::Alternative& a) {
  if (significant(a.speedup, 4) == "1") return "-";
  const double probability = a.probability_faster;
  if (probability > 0.99) return "> 99 %";
  if (probability < 0.01) return "< 1 %";
  return fmt::format("{:.0f} %", 100 * probability);
}

/// What a first line must not leave out.
std::string_view warning(const Prediction& p) {
  if (p.fits != false) return "";
  return p.memory.all() > p.memory.capacity ? "; DOES NOT FIT in GPU memory" : "; DOES NOT FIT in the servers' memory";
}

/// That a job comes to fit, or fits no more, with what its fullest GPU then holds; nothing of others.
std::string fit_change(const Prediction& base, const Prediction& p) {
  if (!base.fits || !p.fits || *base.fits == *p.fits) return "";
  const auto short_of = [](const Prediction& one) { return one.memory.all() > one.memory.capacity; };
  const bool on_gpu = short_of(base) || short_of(p);  // else in the servers' memory
  return fmt::format(
      "{}{}; ", *p.fits ? "makes it fit" : "makes it too large",
      on_gpu ? fmt::format(" ({} of {} on a GPU)", to_text(p.memory.all()), to_text(p.memory.capacity)) : "");
}

/// `fit`: what comes first of a job that does not fit, or would not.
std::string headline(const answer::Alternative& a, const Prediction& base, const std::string& fit = "") {
  const bool same = a.prediction.bottleneck == base.bottleneck;
  const std::string goodput = goodput_change(base, a.prediction);
  const bool alike = significant(a.speedup, 4) == "1";
  const std::string run = alike && goodput.empty() ? run_change(base, a.prediction) : "";
  const bool same_step = (!goodput.empty() || !fit.empty() || !run.empty()) && std::abs(a.speedup - 1.0) < 0.005;
  return fmt::format("{}: {}{}: {}{}{}{}; {} bound by {}{}\n", a.name, fit, same_step ? "same step" : factor(a, base),
                     change_of(base, a.prediction), range_of_factor(a, base), goodput, run, same ? "still" : "now",
                     bottleneck_text(a.prediction), warning(a.prediction));
}

/// Notes of all predictions, each once, in order of appearance.
std::vector<std::string> all_notes(const answer::Comparison& comparison) {
  std::vector<std::string> notes = comparison.baseline.notes;
  for (const answer::Alternative& a : comparison.alternatives) {
    for (const std::string& note : a.prediction.notes) {
      if (note == a.prediction.input.note) continue;  // its rate is of one alternative alone
      const bool known = std::find(notes.begin(), notes.end(), note) != notes.end();
      // What is new with an alternative is said with its name.
      if (!known) notes.push_back(fmt::format("{}: {}", a.name, note));
    }
  }
  return notes;
}

/// What a line has after its name.
bool says_something(const std::vector<std::string>& cells) {
  return std::any_of(cells.begin() + 1, cells.end(), [](const std::string& cell) { return !cell.empty(); });
}

Table side_by_side(const answer::Comparison& comparison) {
  std::vector<std::string> header{"", "baseline"};
  for (const answer::Alternative& a : comparison.alternatives) header.push_back(a.name);
  Table table(std::move(header));
  for (const Row& row : rows()) {
    std::vector<std::string> cells{std::string(row.name), row.value(comparison.baseline)};
    for (const answer::Alternative& a : comparison.alternatives) cells.push_back(row.value(a.prediction));
    if (says_something(cells)) table.add(std::move(cells));
  }
  std::vector<std::string> cells{"speedup", "1"};
  std::vector<std::string> ranges{"speedup, 90 %", ""};
  std::vector<std::string> chances{"faster", ""};
  for (const answer::Alternative& a : comparison.alternatives) {
    cells.push_back(significant(a.speedup, 4));
    ranges.push_back(range(a));
    chances.push_back(chance(a));
  }
  table.add(std::move(cells));
  if (says_something(ranges)) table.add(std::move(ranges));
  table.add(std::move(chances));
  return table;
}

/// The baseline and the alternatives that `shown` is true of.
Table ranking(const answer::Comparison& comparison, const std::function<bool(const Prediction&)>& shown) {
  Table table({"change", "speedup", "90 %", "faster", "step time", "compute", "memory", "launch", "input",
               "exposed comm.", "bound by"});
  const auto add = [&](const std::string& name, std::array<std::string, 3> speedup, const Prediction& p) {
    const answer::Breakdown& parts = p.breakdown;
    const auto part = [](Time time) { return time == Time::zero() ? std::string("-") : to_text(time); };
    table.add({p.fits == false ? name + " (does not fit)" : name, speedup[0], speedup[1], speedup[2],
               to_text(p.step_time), part(parts.compute), part(parts.memory), part(parts.launch),
               part(parts.input_exposed), part(parts.communication_exposed), bottleneck_text(p)});
  };
  add("baseline", {"1", "", ""}, comparison.baseline);
  for (const answer::Alternative& a : comparison.alternatives) {
    if (!shown(a.prediction)) continue;
    add(a.name, {significant(a.speedup, 4), range(a), chance(a)}, a.prediction);
  }
  return table;
}

/// One table; of a job that does not fit what makes it fit apart from what does not.
std::string rankings(const answer::Comparison& comparison, Format format) {
  const auto fits = [](const Prediction& p) { return p.fits != false; };
  if (fits(comparison.baseline)) return ranking(comparison, [](const Prediction&) { return true; }).render(format);
  const auto& all = comparison.alternatives;
  const auto some = std::count_if(all.begin(), all.end(), [&](const auto& a) { return fits(a.prediction); });
  std::string text;
  if (some > 0) text += "what makes it fit:\n\n" + ranking(comparison, fits).render(format) + "\n";
  if (some == static_cast<std::ptrdiff_t>(all.size())) return text;
  return text + "what does not make it fit:\n\n" + ranking(comparison, std::not_fn(fits)).render(format);
}

/// A job that does not run is the first thing to say.
std::string unfit(const Prediction& base) {
  if (base.fits != false) return "";
  return fmt::format("the job does not fit its GPUs: {} needed, {} there\n", to_text(base.memory.all()),
                     to_text(base.memory.capacity));
}

/// The first line of a ranking: what helps most, of a job that does not fit what makes it fit.
std::string best_of(const answer::Comparison& comparison) {
  if (comparison.alternatives.empty()) return "";
  const Prediction& base = comparison.baseline;
  const answer::Alternative& best = comparison.alternatives.front();
  if (base.fits != false) return "what helps most: " + headline(best, base);
  if (best.prediction.fits == false) {
    return "nothing that was tried makes it fit; `ddlsim plan` looks for a split that does\n";
  }
  return "what makes it fit and helps most: " + headline(best, base);
}

/// What others are compared with, as a row.
answer::Alternative itself(const std::string& name, const Prediction& prediction) {
  answer::Alternative one;
  one.name = name;
  one.prediction = prediction;
  return one;
}

std::string comparison_text(const answer::Comparison& comparison, Format format) {
  const Prediction& base = comparison.baseline;
  std::string text = unfit(base);
  if (comparison.ranked) {
    text += best_of(comparison);
  } else {
    for (const answer::Alternative& a : comparison.alternatives) {
      text += headline(a, base, fit_change(base, a.prediction));
    }
  }
  text += fmt::format("\nbaseline: {}; bound by {}{}\n\n", comparison.title, bottleneck_text(base), warning(base));
  text += (comparison.ranked ? rankings(comparison, format) : side_by_side(comparison).render(format)) + "\n";
  for (const std::string& reason : comparison.skipped) text += "not tried: " + reason + "\n";
  return text + notes_text(all_notes(comparison));
}

}  // namespace

std::string render(const Prediction& prediction, const std::string& title, Format format) {
  if (is_drawn(format)) {
    return drawn(format, pictures_of(prediction), render(prediction, title, Format::kMd));
  }
  if (format == Format::kJson) {
    return dump({{"schema", "ddlsim/predict/1"}, {"title", title}, {"prediction", to_json(prediction)}});
  }
  if (format == Format::kCsv) {
    Table table = flat_table();
    add_flat(table, itself(title, prediction));
    return table.render(format);
  }
  std::string text =
      fmt::format("step {} ({} {} over {} GPU{}){}; bound by {}{}\n\n{}\n\n", to_text(prediction.step_time),
                  significant(prediction.throughput_samples_per_second, 4), plural(prediction.sample, "/s"),
                  to_text(prediction.gpus), prediction.gpus == 1 ? "" : "s",
                  prediction.goodput ? ", goodput " + goodput_text(prediction.goodput->share) : "",
                  bottleneck_text(prediction), warning(prediction), title);
  Table table({"", "value"});
  for (const Row& row : rows()) {
    std::vector<std::string> cells{std::string(row.name), row.value(prediction)};
    if (says_something(cells)) table.add(std::move(cells));
  }
  if (prediction.bounds) {
    table.add({"ideal overlap, a bound", to_text(prediction.bounds->first)});
    table.add({"no overlap, a bound", to_text(prediction.bounds->second)});
  }
  if (prediction.price) table.add({"price of the cluster", to_text(*prediction.price)});
  text += table.render(format) + "\n" + traffic_table(prediction).render(format);
  text += "\nin order:";
  for (const answer::Segment& segment : prediction.critical_path) {
    if (segment.time > Time::zero()) text += fmt::format("  {} {}", segment.name, to_text(segment.time));
  }
  return text + "\n\n" + notes_text(prediction.notes);
}

std::string render(const answer::Comparison& comparison, Format format) {
  if (is_drawn(format)) return drawn(format, pictures_of(comparison), render(comparison, Format::kMd));
  if (format == Format::kJson) return dump(to_json(comparison));
  if (format == Format::kCsv) {
    Table table = flat_table();
    add_flat(table, itself("baseline", comparison.baseline));
    for (const answer::Alternative& a : comparison.alternatives) add_flat(table, a);
    return table.render(format);
  }
  return comparison_text(comparison, format);
}

}  // namespace ddlsim::report
