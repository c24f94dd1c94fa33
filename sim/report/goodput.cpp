#include "ddlsim/report/goodput.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "ddlsim/support/quantity_io.h"
#include "goodput_lines.h"
#include "table.h"

namespace ddlsim::report {
namespace {

using answer::Goodput;

std::string share_text(double share) { return share > 0 ? significant(100 * share, 3) + " %" : "-"; }

/// Long times as people say them: to_text ends at hours.
std::string failing_text(const Goodput& g) {
  std::string text = fmt::format("every {}", to_text(g.mtbf));
  std::string parts;
  const auto add = [&](std::string_view what, double share) {
    if (share <= 0 || share >= 1) return;
    parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", what, percent(share, 0));
  };
  add("GPUs", g.by_gpus);
  add("servers", g.by_nodes);
  add("switches", g.by_switches);
  return parts.empty() ? text : fmt::format("{} ({})", text, parts);
}

std::string interval_text(const Goodput& g) {
  const std::string others = fmt::format("Young {}, Daly {}", to_text(g.young), to_text(g.daly));
  return fmt::format("{} ({}; {})", to_text(g.interval), g.interval_stated ? "stated" : "the best", others);
}

std::string checkpoint_text(const Goodput& g) {
  const std::string written = fmt::format("{}, {} by {} server{}", to_text(g.checkpoint), to_text(g.write),
                                          to_text(g.writers), g.writers == 1 ? "" : "s");
  if (g.mode != "memory") return fmt::format("{} ({})", written, g.mode);
  return fmt::format("{} (memory; {} to storage)", written,
                     g.remote_every == 1 ? "each" : fmt::format("one of {}", g.remote_every));
}

std::string spares_text(const Goodput& g) {
  if (g.spares == 0 && g.spare_wait == Time::zero()) return "";
  if (g.short_of <= 0) return to_text(g.spares);  // nobody says how long a repair takes
  return fmt::format("{}, too few for {} of lost servers", to_text(g.spares), share_text(g.short_of));
}

std::string back_text(const Goodput& g) {
  std::string text = fmt::format("{} standing, {} reading and warming up", to_text(g.restart + g.spare_wait),
                                 to_text(g.recovery_time));
  if (g.mode == "memory") text += fmt::format(" ({} from memory)", to_text(g.memory_recovery_time));
  return text;
}

std::string simulated_text(const Goodput& g) {
  if (!g.simulated) return "";
  return fmt::format("{} ({} to {}, 95 %; {} runs)", goodput_text(g.simulated->goodput), goodput_text(g.simulated->low),
                     goodput_text(g.simulated->high), to_text(g.simulated->runs));
}

constexpr auto kLines = std::to_array<GoodputLine>({
    {"goodput", [](const Goodput& g) { return goodput_text(g.share); }},
    {"  stopped by checkpoints", [](const Goodput& g) { return share_text(g.checkpoints); }},
    {"  worked again", [](const Goodput& g) { return share_text(g.recomputed); }},
    {"  reading, warming up", [](const Goodput& g) { return share_text(g.recovery); }},
    {"  standing", [](const Goodput& g) { return share_text(g.down); }},
    {"  simulated", simulated_text},
    {"something fails", failing_text},
    {"a checkpoint", checkpoint_text},
    {"  stops training for", [](const Goodput& g) { return to_text(g.blocked); }},
    {"  is taken every", interval_text},
    {"after a failure", back_text},
    {"spare servers", spares_text},
    {"failures of the run", [](const Goodput& g) { return g.of_run ? significant(*g.of_run, 4) : std::string(); }},
});

Table values(const answer::Prediction& p) {
  Table table({"", "value"});
  const auto add = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) table.add({std::string(name), value});
  };
  for (const GoodputLine& line : kLines) add(line.name, line.text(*p.goodput));
  add("rates", p.goodput->rates);
  add("step time", to_text(p.step_time));
  if (!p.training) return table;
  add("time to train", to_text(p.training->time()));
  add("  steps", to_text(p.training->stepping));
  add("  checkpoints", to_text(p.training->checkpoints));
  add("  failures", to_text(p.training->failures));
  if (p.training->cost) add("cost", to_text(*p.training->cost));
  return table;
}

std::string headline(const answer::Prediction& p) {
  const Goodput& g = *p.goodput;
  const auto worst = std::max({std::pair{g.checkpoints, "checkpoints"}, std::pair{g.recomputed, "work that is lost"},
                               std::pair{g.recovery, "reading checkpoints and warming up"},
                               std::pair{g.down, "standing after failures"}});
  return fmt::format("goodput {}: something fails every {}; most goes to {} ({})\n", goodput_text(g.share),
                     to_text(g.mtbf), worst.second, share_text(worst.first));
}

Table flat(const answer::Prediction& p, const std::string& title) {
  const Goodput& g = *p.goodput;
  const auto number = [](double value) { return fmt::format("{}", value); };
  Table table({"name",     "goodput",          "checkpoints",     "recomputed", "recovery",      "down",
               "mtbf_s",   "checkpoint_bytes", "write_s",         "blocked_s",  "interval_s",    "young_s",
               "daly_s",   "spares",           "short_of_spares", "simulated",  "simulated_low", "simulated_high",
               "failures", "step_time_s",      "time_to_train_s", "cost_usd"});
  table.add({title,
             number(g.share),
             number(g.checkpoints),
             number(g.recomputed),
             number(g.recovery),
             number(g.down),
             number(g.mtbf.in(seconds)),
             number(g.checkpoint.in(bytes)),
             number(g.write.in(seconds)),
             number(g.blocked.in(seconds)),
             number(g.interval.in(seconds)),
             number(g.young.in(seconds)),
             number(g.daly.in(seconds)),
             std::to_string(g.spares),
             number(g.short_of),
             g.simulated ? number(g.simulated->goodput) : "",
             g.simulated ? number(g.simulated->low) : "",
             g.simulated ? number(g.simulated->high) : "",
             g.of_run ? number(*g.of_run) : "",
             number(p.step_time.in(seconds)),
             p.training ? number(p.training->time().in(seconds)) : "",
             p.training && p.training->cost ? number(p.training->cost->in(dollars)) : ""});
  return table;
}

}  // namespace

std::span<const GoodputLine> goodput_lines() { return kLines; }

std::string goodput_text(double share) { return significant(100 * share, share > 0.99 ? 5 : 4) + " %"; }

Json to_json(const Goodput& g) {
  Json json{
      {"goodput", g.share},
      {"shares",
       {{"checkpoints", g.checkpoints}, {"recomputed", g.recomputed}, {"recovery", g.recovery}, {"down", g.down}}},
      {"mtbf_s", g.mtbf.in(seconds)},
      {"failures_per_s", g.failures.in(per_second)},
      {"failures_by", {{"gpus", g.by_gpus}, {"nodes", g.by_nodes}, {"switches", g.by_switches}}},
      {"rates", g.rates}};
  json["checkpoint"] = {{"mode", g.mode},
                        {"bytes", g.checkpoint.in(bytes)},
                        {"writers", g.writers},
                        {"write_s", g.write.in(seconds)},
                        {"blocked_s", g.blocked.in(seconds)},
                        {"interval_s", g.interval.in(seconds)},
                        {"interval_stated", g.interval_stated},
                        {"remote_every", g.remote_every},
                        {"young_s", g.young.in(seconds)},
                        {"daly_s", g.daly.in(seconds)}};
  json["restart_s"] = g.restart.in(seconds);
  json["recovery_s"] = g.recovery_time.in(seconds);
  if (g.mode == "memory") json["memory_recovery_s"] = g.memory_recovery_time.in(seconds);
  json["spares"] = {{"servers", g.spares}, {"short_of", g.short_of}, {"wait_s", g.spare_wait.in(seconds)}};
  if (g.of_run) json["failures"] = *g.of_run;
  if (g.simulated) {
    json["simulated"] = {{"goodput", g.simulated->goodput},
                         {"interval_95", {g.simulated->low, g.simulated->high}},
                         {"runs", g.simulated->runs},
                         {"failures", g.simulated->failures}};
  }
  return json;
}

std::string render_goodput(const answer::Prediction& prediction, const std::string& title, Format format) {
  if (format == Format::kJson) {
    Json json{{"schema", "ddlsim/goodput/1"},
              {"title", title},
              {"goodput", to_json(*prediction.goodput)},
              {"step_time_s", prediction.step_time.in(seconds)}};
    if (prediction.training) json["training"] = to_json(*prediction.training);
    json["notes"] = prediction.notes;
    return dump(json);
  }
  if (format == Format::kCsv) return flat(prediction, title).render(format);
  std::string text = headline(prediction) + "\n" + title + "\n\n" + values(prediction).render(format) + "\n";
  for (const std::string& note : prediction.notes) text += "note: " + note + "\n";
  return text;
}

}  // namespace ddlsim::report
