#include "ddlsim/report/shared_loaders.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ddlsim/support/names.h"
#include "ddlsim/support/plural.h"
#include "ddlsim/support/quantity_io.h"
#include "json.h"
#include "table.h"

namespace ddlsim::report {
namespace {

using answer::LoaderPolicy;
using answer::LoaderStretch;
using answer::SharedJob;
using answer::SharedLoaders;

constexpr std::size_t kDrawnJobs = 12;
constexpr int kBarWidth = 60;
constexpr std::size_t kLongestName = 24;

Json gain_json(const LoaderPolicy& policy) {
  if (!policy.throughput_gain) return nullptr;
  return {{"aggregate_throughput", *policy.aggregate_gain},
          {"throughput", *policy.throughput_gain},
          {"makespan", *policy.makespan_gain},
          {"mean_completion", *policy.completion_gain}};
}

Json loaders_json(const SharedLoaders& loaders) {
  Json json{{"schema", "ddlsim/loader/1"}, {"title", loaders.title}, {"jobs", Json::array()}};
  for (const SharedJob& job : loaders.jobs) {
    json["jobs"].push_back({{"name", job.name},
                            {"model", job.model.empty() ? Json(nullptr) : Json(job.model)},
                            {"gpus", job.gpus},
                            {"arrival_s", job.arrival.in(seconds)},
                            {"samples", job.samples},
                            {"full_speed_samples_per_s", job.full.in(per_second)},
                            {"fair_share_samples_per_s", job.fair.in(per_second)}});
  }
  json["policies"] = Json::array();
  for (const LoaderPolicy& policy : loaders.policies) {
    Json one{{"policy", policy.name},
             {"aggregate_samples_per_s", policy.aggregate.in(per_second)},
             {"throughput_samples_per_s", policy.throughput.in(per_second)},
             {"full_speed_share", policy.full_speed},
             {"makespan_s", policy.makespan.in(seconds)},
             {"mean_completion_s", policy.mean_completion.in(seconds)},
             {"gpu_idle_share", policy.gpu_idle},
             {"restarts", policy.restarts},
             {"gain_over_even", gain_json(policy)},
             {"jobs", Json::array()}};
    for (const answer::LoaderJobTimes& times : policy.times.jobs) {
      one["jobs"].push_back({{"start_s", times.start.in(seconds)},
                             {"end_s", times.end.in(seconds)},
                             {"server", times.server},
                             {"restarts", times.restarts}});
    }
    json["policies"].push_back(std::move(one));
  }
  json["notes"] = loaders.notes;
  return json;
}

std::string csv(const SharedLoaders& loaders) {
  Table table({"policy", "job", "gpus", "server", "samples", "arrival_s", "start_s", "end_s", "samples_per_s",
               "full_speed_samples_per_s", "restarts"});
  for (const LoaderPolicy& policy : loaders.policies) {
    for (std::size_t i = 0; i < loaders.jobs.size(); ++i) {
      const SharedJob& job = loaders.jobs[i];
      const answer::LoaderJobTimes& times = policy.times.jobs[i];
      const Time took = times.end - times.start;
      table.add({policy.name, job.name, fmt::format("{}", job.gpus), fmt::format("{}", times.server),
                 fmt::format("{}", job.samples), fmt::format("{}", job.arrival.in(seconds)),
                 fmt::format("{}", times.start.in(seconds)), fmt::format("{}", times.end.in(seconds)),
                 took > Time::zero() ? fmt::format("{}", job.samples / took.in(seconds)) : std::string(),
                 fmt::format("{}", job.full.in(per_second)), fmt::format("{}", times.restarts)});
    }
  }
  return table.render(Format::kCsv);
}

std::string signed_percent(const std::optional<double>& share) {
  return share ? fmt::format("{:+.1f} %", *share * 100) : std::string("-");
}

/// Longer by, of what is shorter by a gain.
std::string longer_by(const std::optional<double>& gain) {
  if (!gain) return "-";
  return signed_percent(*gain == 0 ? 0 : -*gain);
}

Table policy_table(const SharedLoaders& loaders) {
  Table table({"policy", "throughput", "change", "mean completion", "change", "makespan", "change", "jobs' speed",
               "of full speed", "GPUs idle", "restarts"});
  for (const LoaderPolicy& policy : loaders.policies) {
    table.add({policy.name, significant(policy.aggregate.in(per_second)) + "/s", signed_percent(policy.aggregate_gain),
               to_text(policy.mean_completion), longer_by(policy.completion_gain), to_text(policy.makespan),
               longer_by(policy.makespan_gain), signed_percent(policy.throughput_gain), percent(policy.full_speed),
               percent(policy.gpu_idle), to_text(policy.restarts)});
  }
  return table;
}

/// Of one character's time, what lasted longest.
char mark(double share) { return share >= 0.95 ? '#' : share >= 0.75 ? '+' : share >= 0.5 ? '=' : '-'; }

class TextBars {
 public:
  TextBars(const SharedLoaders& loaders, const LoaderPolicy& policy) : loaders_(loaders), policy_(policy) {
    first_ = Time::infinity();
    for (const SharedJob& job : loaders.jobs) first_ = min(first_, job.arrival);
    shown_ = std::min(loaders.jobs.size(), kDrawnJobs);
    for (std::size_t i = 0; i < shown_; ++i) widest_ = std::max(widest_, name(i).size());
  }

  [[nodiscard]] std::string text() const {
    std::vector<std::string> bars(shown_, std::string(kBarWidth, ' '));
    for (std::size_t i = 0; i < shown_; ++i) {
      fill(bars[i], loaders_.jobs[i].arrival, policy_.times.jobs[i].start, '.');
    }
    for (const LoaderStretch& stretch : policy_.times.stretches) {
      if (stretch.job >= shown_) continue;
      fill(bars[stretch.job], stretch.start, stretch.end,
           stretch.restart ? 'r' : mark(stretch.rate / loaders_.jobs[stretch.job].full));
    }
    std::string text = fmt::format("{}, {} from left to right\n", policy_.name, to_text(policy_.makespan));
    for (std::size_t i = 0; i < shown_; ++i) text += fmt::format("{:<{}}  |{}|\n", name(i), widest_, bars[i]);
    return text + "\n";
  }

 private:
  [[nodiscard]] std::string name(std::size_t job) const { return loaders_.jobs[job].name.substr(0, kLongestName); }

  /// Where its middle lies in a character's time; a short one shows nothing.
  void fill(std::string& bar, Time start, Time end, char what) const {
    const auto at = [&](Time time) {
      return static_cast<int>(std::lround((time - first_) / policy_.makespan * kBarWidth));
    };
    for (int i = std::max(at(start), 0); i < std::min(at(end), kBarWidth); ++i) bar[static_cast<std::size_t>(i)] = what;
  }

  const SharedLoaders& loaders_;
  const LoaderPolicy& policy_;
  Time first_{};
  std::size_t shown_ = 0;
  std::size_t widest_ = 0;
};

/// "mean completion 19.9 % shorter"
std::string shorter_by(std::string_view what, double gain) {
  return fmt::format("{} {:.1f} % {}", what, std::abs(gain) * 100, gain < 0 ? "longer" : "shorter");
}

constexpr double kTie = 0.01;  // less than what is known of a job's rates

/// Those whose jobs together are within 1 % of the most samples.
std::vector<const LoaderPolicy*> most_samples(const std::vector<LoaderPolicy>& policies) {
  double most = -HUGE_VAL;
  for (const LoaderPolicy& policy : policies) {
    if (!policy.aggregate_gain) return {};
    most = std::max(most, *policy.aggregate_gain);
  }
  std::vector<const LoaderPolicy*> best;
  for (const LoaderPolicy& policy : policies) {
    if (*policy.aggregate_gain > most - kTie) best.push_back(&policy);
  }
  return best;
}

/// Of policies that tie with even shares those whose jobs are done later on average: "19.3 % longer with optimal".
std::string later_than_even(const std::vector<const LoaderPolicy*>& tied) {
  std::vector<std::string> later;
  for (const LoaderPolicy* policy : tied) {
    const double gain = *policy->completion_gain;
    if (gain <= -kTie) later.push_back(fmt::format("{:.1f} % longer with {}", -gain * 100, policy->name));
  }
  return join(later);
}

/// The best of the policies first in words: the most samples of all jobs, or a tie, and of those the soonest done.
std::string headline(const SharedLoaders& loaders) {
  const std::vector<const LoaderPolicy*> best = most_samples(loaders.policies);
  if (best.empty()) return {};
  std::vector<std::string> names;
  for (const LoaderPolicy* policy : best) names.push_back(policy->name);
  const LoaderPolicy& soonest = **std::max_element(
      best.begin(), best.end(), [](const auto* a, const auto* b) { return *a->completion_gain < *b->completion_gain; });
  const double gain = *soonest.aggregate_gain;
  const std::string done = fmt::format("{}, {}", shorter_by("mean completion", *soonest.completion_gain),
                                       shorter_by("makespan", *soonest.makespan_gain));
  if (best.size() == 1) {
    if (gain <= 0) return "even shares have the highest throughput of all jobs\n\n";
    return fmt::format("{}: {:.1f} % more throughput of all jobs than even shares, {}\n\n", names.front(), gain * 100,
                       done);
  }
  if (std::abs(gain) >= kTie) {
    return fmt::format("{} tie within 1 %; {}: {:.1f} % more throughput of all jobs than even shares, {}\n\n",
                       join(names), soonest.name, gain * 100, done);
  }
  const std::string tie = fmt::format("{} tie: throughputs of all jobs within 1 %", join(names));
  if (*soonest.completion_gain < kTie) {
    const std::string later = later_than_even(best);
    return fmt::format("{}, and none is done 1 % sooner than even shares{}\n\n", tie,
                       later.empty() ? "" : "; even shares win by mean completion: " + later);
  }
  return fmt::format("{}; of them {} is done soonest: than with even shares {}\n\n", tie, soonest.name, done);
}

}  // namespace

std::string render(const SharedLoaders& loaders, Format format) {
  if (format == Format::kJson) return dump(loaders_json(loaders));
  if (format == Format::kCsv) return csv(loaders);
  std::string text = headline(loaders) + loaders.title + "\n\n" + policy_table(loaders).render(format) + "\n";
  if (format == Format::kText) {
    text += "# full speed, + over 75 %, = over 50 %, - less, r loader restarts, . in line\n";
    for (const LoaderPolicy& policy : loaders.policies) text += TextBars(loaders, policy).text();
    if (loaders.jobs.size() > kDrawnJobs) {
      text += fmt::format("and {} jobs more (--trace FILE shows all)\n\n",
                          to_text(std::ssize(loaders.jobs) - std::int64_t{kDrawnJobs}));
    }
  }
  for (const std::string& note : loaders.notes) text += "note: " + note + "\n";
  return text;
}

Expected<Trace> trace_of(const SharedLoaders& loaders) {
  constexpr double kMost = 9.2e6;  // seconds
  Trace trace;
  const auto at = [](Time time) { return events::Picoseconds(std::llround(time.in(seconds)*1e12)); };
  for (const LoaderPolicy& policy : loaders.policies) {
    const std::size_t before = trace.tracks.size();
    const auto add = [&](std::size_t job, std::string name, Time start, Time end) -> TraceSlice& {
      const auto from = at(start);
      trace.slices.push_back({before + job, std::move(name), from, at(end) - from, {}});
      return trace.slices.back();
    };
    for (std::size_t i = 0; i < loaders.jobs.size(); ++i) {
      const answer::LoaderJobTimes& times = policy.times.jobs[i];
      if (times.end.in(seconds) > kMost) {
        return fail(
            ErrorCode::kUnsupported,
            fmt::format("{} lasts {}: a trace counts picoseconds up to 106 days", policy.name, to_text(times.end)), {},
            {"leave --trace out, or fewer or shorter jobs"});
      }
      trace.tracks.push_back({fmt::format("{}, server {}", policy.name, times.server + 1), loaders.jobs[i].name});
      if (loaders.jobs[i].arrival < times.start) add(i, "in line", loaders.jobs[i].arrival, times.start);
    }
    for (const LoaderStretch& stretch : policy.times.stretches) {
      const SharedJob& job = loaders.jobs[stretch.job];
      if (stretch.restart) {
        add(stretch.job, "loader restarts", stretch.start, stretch.end);
        continue;
      }
      TraceSlice& slice = add(stretch.job,
                              fmt::format("{} core{}, {} {}", stretch.cores, stretch.cores == 1 ? "" : "s",
                                          significant(stretch.rate.in(per_second)), plural(job.sample, "/s")),
                              stretch.start, stretch.end);
      slice.args = {{"of_full_speed", percent(stretch.rate / job.full)},
                    {"storage_bytes_per_s", fmt::format("{}", stretch.storage.in(bytes_per_second))}};
    }
  }
  return trace;
}

}  // namespace ddlsim::report
