#include "ddlsim/whatif/shared_loaders.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>
#include <utility>

#include "ddlsim/events/shared_loaders.h"
#include "ddlsim/support/names.h"
#include "ddlsim/support/portable_math.h"
#include "ddlsim/support/quantity_io.h"
#include "loaders/shared_job.h"
#include "scenario/beside.h"

namespace ddlsim::whatif {
namespace {

using answer::LoaderPolicy;
using answer::SharedJob;
using answer::SharedLoaders;
using cost::SharePolicy;

constexpr Time kLongestOfJobs = hours(100 * 8766);

/// splitmix64 (Steele, Lea and Flood, OOPSLA 2014), in [0, 1).
double uniform(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t x = seed * 0xD1B54A32D192ED03ULL + (index + 1) * 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return std::ldexp(static_cast<double>((x ^ (x >> 31)) >> 11), -53);
}

/// The one that `chance` of all weight falls on.
template <typename List, typename Weight>
std::size_t picked(const List& list, double chance, Weight weight) {
  double sum = 0;
  for (const auto& one : list) sum += weight(one);
  double left = chance * sum;
  for (std::size_t i = 0; i + 1 < list.size(); ++i) {
    left -= weight(list[i]);
    if (left < 0) return i;
  }
  return list.size() - 1;
}

Expected<std::vector<SharePolicy>> policies_of(const io::JobsFile& file) {
  std::vector<SharePolicy> policies;
  for (const io::TextAt& one : file.policies) {
    auto policy = parse_choice(cost::kSharePolicies, one.text, "policy");
    if (!policy) {
      policy.error().where = one.where;
      return tl::unexpected<Error>(policy.error());
    }
    if (std::find(policies.begin(), policies.end(), *policy) == policies.end()) policies.push_back(*policy);
  }
  if (policies.empty()) {
    for (const auto& [name, policy] : cost::kSharePolicies) policies.push_back(policy);
  }
  return policies;
}

/// How many samples a job trains on.
Expected<double> length_of(const io::JobEntry& job, const JobProfile& profile) {
  const auto missing = [&](std::string_view what, std::string note) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("job '{}' would never end: nobody says {}", job.name.substr(0, 60), what), job.where,
                {std::move(note)});
  };
  if (job.samples) return static_cast<double>(*job.samples);
  if (job.time) return profile.full * *job.time;
  if (job.epochs) {
    if (profile.samples_per_epoch == 0) return missing("how many samples an epoch has", "samples: instead of epochs:");
    return *job.epochs * static_cast<double>(profile.samples_per_epoch);
  }
  if (profile.samples_per_step == 0) return missing("what a step's batch is", "batch: beside steps:");
  return static_cast<double>(*job.steps) * static_cast<double>(profile.samples_per_step);
}

/// Of measured jobs; data sets are checked by plan::check_input.
Expected<void> check_batches(const io::JobEntry& job, const JobProfile& profile, double samples) {
  if (!job.most_workers || profile.samples_per_step == 0) return {};
  const double batches = std::max(std::floor(samples / static_cast<double>(profile.samples_per_step)), 1.0) *
                         static_cast<double>(job.gpus);
  if (static_cast<double>(*job.most_workers) <= batches) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("job '{}': {} workers for {} batches", job.name.substr(0, 60), to_text(*job.most_workers),
                          significant(batches)),
              job.workers_where, {"choose fewer workers, or a smaller batch"});
}

/// What lasts longer than anybody waits is a slip of the pen, and doubles would no longer tell its moments apart.
Expected<void> check_times(const io::JobEntry& job, const JobProfile& profile, double samples) {
  const std::string name = job.name.substr(0, 60);
  if (job.arrival > kLongestOfJobs) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("job '{}' arrives in over 100 years", name), job.where);
  }
  if (samples / profile.full.in(per_second) <= kLongestOfJobs.in(seconds)) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("job '{}' would never end: over 100 years at full speed, {} samples/s", name,
                          significant(profile.full.in(per_second))),
              job.where, {"fewer samples, or what its rates are measured in"});
}

struct AskedJobs {
  std::vector<SharedJob> shown;
  std::vector<events::ArrivingJob> jobs;
  std::vector<std::string> read_once;  // of every model whose data set takes longer to read than to train on
};

void add_read_once(const JobProfile& profile, std::vector<std::string>& all) {
  const Time trained = seconds(static_cast<double>(profile.samples_per_epoch) / profile.full.in(per_second));
  if (profile.read_once <= trained) return;
  std::string text =
      fmt::format("{} {} ({} at full speed)", profile.model, to_text(profile.read_once), to_text(trained));
  if (std::find(all.begin(), all.end(), text) == all.end()) all.push_back(std::move(text));
}

std::string first_epoch_note(const std::vector<std::string>& read_once) {
  constexpr std::size_t kShown = 4;
  const std::size_t shown = std::min(read_once.size(), kShown);
  std::string text = join(std::span(read_once).first(shown));
  if (shown < read_once.size()) text += fmt::format(", and {} more", read_once.size() - shown);
  return "no first epoch is in these times, though it reads all of a data set from storage, which alone takes as long "
         "as: " +
         text;
}

Expected<AskedJobs> asked_jobs(JobProfiler& profiler, const std::vector<io::JobEntry>& entries) {
  AskedJobs all;
  for (const io::JobEntry& job : entries) {
    const auto profile = profiler.profile(job);
    if (!profile) return tl::unexpected<Error>(profile.error());
    const JobProfile& known = **profile;
    const auto samples = length_of(job, known);
    if (!samples) return tl::unexpected<Error>(samples.error());
    if (auto sound = check_batches(job, known, *samples); !sound) return tl::unexpected<Error>(sound.error());
    if (auto sound = check_times(job, known, *samples); !sound) return tl::unexpected<Error>(sound.error());
    add_read_once(known, all.read_once);
    all.shown.push_back({.name = job.name,
                         .model = known.model,
                         .sample = known.sample,
                         .gpus = job.gpus,
                         .arrival = job.arrival,
                         .samples = *samples,
                         .full = known.full,
                         .fair = known.fair});
    all.jobs.push_back({.demand = known.demand,
                        .servers = known.servers,
                        .samples = *samples / static_cast<double>(known.servers),
                        .arrival = job.arrival});
  }
  return all;
}

Rate throughput_of(const SharedJob& job, const answer::LoaderJobTimes& times) {
  const Time took = times.end - times.start;
  return took > Time::zero() ? per_second(job.samples / took.in(seconds)) : job.full;
}

/// The time in which any job has GPUs.
Time running(const answer::LoaderTimes& times) {
  std::vector<std::pair<Time, Time>> held;
  for (const answer::LoaderJobTimes& one : times.jobs) held.emplace_back(one.start, one.end);
  std::sort(held.begin(), held.end());
  Time all;
  Time until;
  for (const auto& [start, end] : held) {
    all += max(end - max(start, until), Time::zero());
    until = max(until, end);
  }
  return all;
}

LoaderPolicy summary(std::string_view name, answer::LoaderTimes times, const std::vector<SharedJob>& jobs) {
  LoaderPolicy policy;
  policy.name = name;
  Time first = Time::infinity();
  Time held;
  Time busy;
  double samples = 0;
  const auto count = static_cast<double>(jobs.size());
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const auto& [start, end, server, restarts] = times.jobs[i];
    const Rate rate = throughput_of(jobs[i], times.jobs[i]);
    const auto gpus = static_cast<double>(jobs[i].gpus);
    first = min(first, jobs[i].arrival);
    policy.makespan = max(policy.makespan, end);
    policy.mean_completion += (end - jobs[i].arrival) / count;
    policy.throughput = policy.throughput + rate / count;
    policy.full_speed += rate / jobs[i].full / count;
    policy.restarts += restarts;
    held += (end - start) * gpus;
    samples += jobs[i].samples;
    busy += seconds(gpus * jobs[i].samples / jobs[i].full.in(per_second));
  }
  policy.makespan -= first;
  if (const Time any = running(times); any > Time::zero()) policy.aggregate = per_second(samples / any.in(seconds));
  policy.gpu_idle = held > Time::zero() ? std::max(1 - busy / held, 0.0) : 0.0;
  policy.times = std::move(times);
  return policy;
}

void add_gains(SharedLoaders& answer) {
  const auto even = std::find_if(answer.policies.begin(), answer.policies.end(),
                                 [](const LoaderPolicy& policy) { return policy.name == "even"; });
  if (even == answer.policies.end()) return;
  for (LoaderPolicy& policy : answer.policies) {
    double ratios = 0;
    for (std::size_t i = 0; i < answer.jobs.size(); ++i) {
      const SharedJob& job = answer.jobs[i];
      ratios += throughput_of(job, policy.times.jobs[i]) / throughput_of(job, even->times.jobs[i]);
    }
    policy.throughput_gain = ratios / static_cast<double>(answer.jobs.size()) - 1;
    const bool some = even->aggregate > Rate::zero();
    policy.aggregate_gain = some ? policy.aggregate / even->aggregate - 1 : 0;
    policy.completion_gain = 1 - policy.mean_completion / even->mean_completion;
    policy.makespan_gain = 1 - policy.makespan / even->makespan;
  }
  answer.notes.emplace_back(
      "A-Dloader's paper (IEEE CLOUD 2022) has 23.5 % more throughput and 10 % less makespan than even shares; its "
      "jobs are not public, so that nothing here repeats them");
}

}  // namespace

std::vector<io::JobEntry> drawn_jobs(const io::JobsDraw& draw) {
  constexpr std::uint64_t kDraws = 4;  // of a job
  std::vector<io::JobEntry> jobs;
  Time now;
  for (std::int64_t i = 0; i < draw.jobs; ++i) {
    const auto chance = [&](std::uint64_t which) {
      return uniform(draw.seed, static_cast<std::uint64_t>(i) * kDraws + which);
    };
    if (i > 0) now += hours(-std::numbers::ln2 * portable_log2(1 - chance(0)) / draw.per_hour);
    const std::size_t kind = picked(draw.kinds, chance(1), [](const io::JobEntry& one) { return one.weight; });
    const std::size_t gpus = picked(draw.gpus, chance(2), [](const auto& one) { return one.second; });
    io::JobEntry job = draw.kinds[kind];
    job.name += fmt::format("-{}", i + 1);
    job.gpus = draw.gpus[gpus].first;
    job.arrival = now;
    job.time = draw.shortest * portable_exp2(chance(3) * portable_log2(draw.longest / draw.shortest));
    jobs.push_back(std::move(job));
  }
  return jobs;
}

Expected<SharedLoaders> share_loaders(const io::Catalog& catalog, const io::JobsFile& file) {
  const auto policies = policies_of(file);
  if (!policies) return tl::unexpected<Error>(policies.error());
  auto profiler = JobProfiler::open(catalog, file);
  if (!profiler) return tl::unexpected<Error>(profiler.error());
  auto jobs = asked_jobs(*profiler, file.draw ? drawn_jobs(*file.draw) : file.jobs);
  if (!jobs) return tl::unexpected<Error>(jobs.error());
  SharedLoaders answer;
  answer.title = fmt::format("{} jobs on {}", to_text(std::ssize(jobs->jobs)), profiler->title());
  for (const SharePolicy policy : *policies) {
    const events::SharingRules rules{policy, file.restart.value_or(kDefaultRestart),
                                     file.hysteresis.value_or(kDefaultHysteresis)};
    auto times = events::run_shared_loaders(profiler->supply(), file.server.nodes, jobs->jobs, rules);
    if (!times) {
      Error error = times.error();
      error.where = {file.file, 0, 0};
      return tl::unexpected<Error>(std::move(error));
    }
    answer.policies.push_back(summary(name_of(cost::kSharePolicies, policy), std::move(*times), jobs->shown));
  }
  answer.jobs = std::move(jobs->shown);
  answer.notes = file.notes;
  if (!jobs->read_once.empty()) answer.notes.push_back(first_epoch_note(jobs->read_once));
  if (!file.restart) {
    answer.notes.push_back("assumed: a loader whose workers change starts anew in " + to_text(kDefaultRestart) +
                           " (restart:)");
  }
  if (!file.hysteresis) {
    answer.notes.push_back(
        fmt::format("assumed: a-dloader and optimal leave things as they are for less than {:.0f} % (hysteresis:)",
                    kDefaultHysteresis * 100));
  }
  add_gains(answer);
  return answer;
}

namespace {

/// Files that a file of jobs names are found beside it.
io::JobsFile beside_themselves(io::JobsFile file) {
  const auto find = [&](std::string_view setting, std::string& value) {
    value = found_beside(file.file, setting, value);
  };
  const auto find_of = [&](io::JobEntry& job) {
    if (job.model) find("model", job.model->text);
    if (job.dataset) find("input.dataset", job.dataset->text);
    for (auto& [path, value] : job.settings) find(path, value.text);
  };
  find("node", file.server.node.text);
  if (file.server.storage) find("input.storage", file.server.storage->text);
  for (io::JobEntry& job : file.jobs) find_of(job);
  if (file.draw) {
    for (io::JobEntry& kind : file.draw->kinds) find_of(kind);
  }
  return file;
}

}  // namespace

Expected<io::JobsFile> load_jobs(const io::Catalog& catalog, const std::string& name) {
  namespace fs = std::filesystem;
  const fs::path folder = catalog.root() / "models" / "jobs";
  std::error_code status;
  if (name.find('/') != std::string::npos || name.ends_with(".yaml") || name.ends_with(".yml") ||
      fs::exists(name, status)) {
    return io::load_jobs(name).map(beside_themselves);
  }
  std::vector<std::string> ids;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, status)) {
    if (entry.path().extension() != ".yaml") continue;
    ids.push_back(entry.path().stem().string());
    if (fold_name(ids.back()) == fold_name(name)) return io::load_jobs(entry.path());
  }
  std::sort(ids.begin(), ids.end());
  return fail(ErrorCode::kNotFound, fmt::format("no file of jobs '{}'", name.substr(0, 60)), {},
              {suggestion(name, ids), "or a path to your own"});
}

}  // namespace ddlsim::whatif
