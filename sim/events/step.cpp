#include "ddlsim/events/step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "ddlsim/plan/order.h"
#include "event_builder.h"
#include "folded_job.h"
#include "job_links.h"
#include "split_job.h"

namespace ddlsim::events {
namespace {

/// Some 400 MB, and a second for each of the runs of a prediction.
constexpr double kMostTasks = 2e6;

constexpr std::size_t kMostJobs = 1000;

/// One step alone is as good as many; several jobs, and ranks that go on to the next step by themselves, need some to
/// shift against each other, and one more so that the one measured has all of them beside it.
struct Steps {
  std::size_t simulated;
  std::size_t measured;   // the first of them
  std::size_t count = 1;  // of them, the others behind it
};

/// Of a pipeline that never empties and goes round in turns that need not fit into a step: enough steps to fill it, and
/// for what it then repeats.
Steps steps_of_endless(const plan::Pipeline& pipeline) {
  const auto full = static_cast<std::size_t>((pipeline.stages + pipeline.micro_batches - 1) / pipeline.micro_batches);
  const std::size_t begun = 2 + full;
  const std::size_t count = 4 * full;
  return {.simulated = begun + count + full, .measured = begun, .count = count};
}

Steps steps_of(std::span<const SimulatedJob> jobs) {
  const plan::Pipeline pipeline = plan::pipeline_of(*jobs.front().step->plan);
  const bool split = !jobs.front().step->plan->folds;
  if (jobs.size() == 1 && split && plan::is_asynchronous(pipeline.schedule)) return steps_of_endless(pipeline);
  const bool settled = jobs.size() == 1 && (!split || plan::ends_together(pipeline.schedule));
  return settled ? Steps{2, 1} : Steps{5, 3};
}

bool synchronous(const SimulatedJob& job) { return job.step->plan->exchange.consistency == plan::Consistency::kSync; }

Expected<void> check_job(const SimulatedJob& job, bool alone) {
  const plan::StepPlan& plan = *job.step->plan;
  const auto unsupported = [](std::string what, std::string note) {
    return fail(ErrorCode::kUnsupported, std::move(what), {}, {std::move(note)});
  };
  if (!plan.folds) {
    const bool nominal = std::all_of(plan.classes.begin(), plan.classes.end(),
                                     [](const plan::RankClass& one) { return one.slowness == 1; });
    if (!nominal) return unsupported("a split model on GPUs of two speeds", "use GPUs of one speed");
  }
  if (plan.exchange.overlap == plan::Overlap::kIdeal) {
    return unsupported("ideal overlap is a bound, not a schedule: there are no events to simulate",
                       "use fidelity analytic, or overlap backward or none");
  }
  const bool communicates = job.step->servers || job.step->groups.front();
  if (plan.exchange.overlap == plan::Overlap::kBackward && plan.exchange.priority && plan.exchange.pull_at_start &&
      communicates) {
    return unsupported("priority and weights pulled at the start of a step are not simulated together",
                       "use fidelity analytic, or one of the two");
  }
  if (!synchronous(job) && !alone) {
    return unsupported("several asynchronous jobs are not simulated", "use one job, or strategy.consistency sync");
  }
  const bool kinds = std::all_of(plan.classes.begin(), plan.classes.end(), [](const plan::RankClass& kind) {
    return kind.slowness > 0 && std::isfinite(kind.slowness) && kind.ranks > 0;
  });
  if (!kinds || !(job.offset >= Time::zero()) || job.offset == Time::infinity()) {
    return fail(ErrorCode::kInvalidArgument, "workers need a positive number and slowness, jobs an offset from 0 on");
  }
  return {};
}

Expected<void> check(std::span<const SimulatedJob> jobs) {
  if (jobs.empty() || jobs.size() > kMostJobs) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} jobs", jobs.size()), {}, {"valid: 1 to 1000"});
  }
  for (const SimulatedJob& job : jobs) {
    if (auto sound = check_job(job, jobs.size() == 1); !sound) return sound;
  }
  return {};
}

/// Pieces of one message that follow each other are sent as one. Parameter servers pipeline them: there they are not.
answer::Timeline merged(answer::Timeline record) {
  auto& sent = record.sent;
  std::size_t kept = 0;
  for (std::size_t i = 1; i < sent.size(); ++i) {
    if (sent[i].last != sent[kept].last || sent[i].wait > Time::zero()) {
      sent[++kept] = sent[i];
      continue;
    }
    sent[kept].alone += sent[i].alone;
    sent[kept].copies += sent[i].copies;
    sent[kept].count += sent[i].count;
  }
  if (!sent.empty()) sent.resize(kept + 1);
  return record;
}

double tasks_of(const SimulatedJob& job, std::size_t steps) {
  if (!job.step->plan->folds) {
    double of_pass = 0;
    for (const cost::PricedClass& one : job.step->classes) {
      of_pass += 3.0 * static_cast<double>(one.forward.size() + one.backward.size());
    }
    of_pass += 2.0 * static_cast<double>(job.step->rows.size());
    return of_pass * static_cast<double>(job.step->plan->micro_batches) * static_cast<double>(steps);
  }
  const auto kinds = static_cast<double>(job.step->plan->classes.size());
  const answer::Timeline& record = *job.alone;
  const auto layers = static_cast<double>(record.forward_kernels.size() + record.backward_kernels.size());
  const auto messages = static_cast<double>(record.sent.size() + job.step->plan->rows.size());
  return (3.0 * kinds * layers + 24.0 * kinds * messages) * static_cast<double>(steps);
}

/// A job's steps while the longest job does its own.
std::size_t steps_of_job(const SimulatedJob& job, Time longest, Steps steps) {
  if (!(job.alone->step > Time::zero())) return steps.simulated;
  const double ratio = std::ceil(longest / job.alone->step * (1 - 1e-9));
  return steps.simulated * static_cast<std::size_t>(std::clamp(ratio, 1.0, kMostTasks));
}

class Simulation {
 public:
  Simulation(std::span<const SimulatedJob> jobs, const EventOptions& options)
      : jobs_(jobs), options_(options), steps_(steps_of(jobs)) {}

  Expected<EventStep> run();

 private:
  [[nodiscard]] Expected<void> check_size() const;
  Expected<void> add_servers();
  Expected<void> add_links();
  Expected<void> lay_out();
  Expected<void> lay_out_split(std::size_t number);
  template <typename Tasks>
  void add_steps(const SimulatedJob& job, Tasks& tasks);
  JobLinks* links_of(std::size_t number) { return links_.empty() ? nullptr : &links_[number]; }
  void lay_out(const SimulatedJob& job, std::size_t number, std::span<const plan::RankClass> kinds);
  void measure(EventStep& result) const;
  [[nodiscard]] Time length(std::size_t unit, const Run& run) const;
  [[nodiscard]] Time mean_length(const std::vector<TaskId>& ends, const Run& run) const;

  std::span<const SimulatedJob> jobs_;
  const EventOptions& options_;
  Steps steps_;
  Time longest_;
  EventBuilder builder_;
  LinkTable table_;
  std::map<std::size_t, ServerSet> servers_;
  std::deque<JobLinks> links_;             // by job; none where nothing is shared
  std::vector<std::vector<TaskId>> ends_;  // of steps, by job, or by kind of asynchronous workers
};

Expected<void> Simulation::check_size() const {
  double tasks = 0;
  for (const SimulatedJob& job : jobs_) tasks += tasks_of(job, steps_of_job(job, longest_, steps_));
  if (tasks <= kMostTasks) return {};
  return fail(ErrorCode::kInfeasible,
              fmt::format("about {:.2g} tasks to simulate, more than {:.0g}", tasks, kMostTasks), {},
              {"use fidelity analytic, larger strategy.partition, fewer micro-batches, or fewer jobs"});
}

void Simulation::lay_out(const SimulatedJob& job, std::size_t number, std::span<const plan::RankClass> kinds) {
  const bool by_priority = job.step->groups.front() && job.step->plan->exchange.priority;
  const answer::Timeline record = by_priority ? merged(*job.alone) : *job.alone;
  FoldedJob tasks(builder_, *job.step, record, options_.named);
  tasks.set_up(fmt::format("job {}", number + 1), kinds, links_of(number));
  add_steps(job, tasks);
}

Expected<void> Simulation::lay_out_split(std::size_t number) {
  const SimulatedJob& job = jobs_[number];
  auto slots = slots_of(*job.step->plan, steps_of_job(job, longest_, steps_));
  if (!slots) return tl::unexpected<Error>(std::move(slots.error()));
  SplitJob tasks(builder_, *job.step, *job.alone, std::move(*slots), links_of(number), options_.named);
  tasks.set_up(fmt::format("job {}", number + 1));
  add_steps(job, tasks);
  return {};
}

template <typename Tasks>
void Simulation::add_steps(const SimulatedJob& job, Tasks& tasks) {
  const double late = job.offset.in(seconds);
  const double step = job.alone->step.in(seconds);
  const Time phase = seconds(synchronous(job) && step > 0 ? std::fmod(late, step) : 0.0);
  ends_.emplace_back();
  TaskId at = builder_.compute({.name = "start", .duration = phase}, {});
  for (std::size_t k = 0; k < steps_of_job(job, longest_, steps_); ++k) ends_.back().push_back(at = tasks.step(at));
}

/// Which servers there are, and what is inside them.
Expected<void> Simulation::add_servers() {
  const auto bad = [](std::string what, std::string note) {
    return fail(ErrorCode::kInvalidArgument, std::move(what), {}, {std::move(note)});
  };
  for (const SimulatedJob& job : jobs_) {
    const auto [found, fresh] = servers_.try_emplace(job.servers);
    ServerSet& set = found->second;
    if (job.servers > 0) set.name = fmt::format("servers {}: ", job.servers + 1);
    JobLinks::show(job, set.shown);
    if (!fresh && set.topology.has_value() != (job.cluster != nullptr)) {
      return bad("of two jobs on the same servers one knows its cluster", "give both of them one, or neither");
    }
    if (job.cluster == nullptr) continue;
    const hardware::Node& node = job.cluster->node;
    if (fresh) {
      auto topology = hardware::topology_of({.node = node, .nodes = 1, .gpus_per_node = node.gpus});
      if (!topology) return tl::unexpected<Error>(std::move(topology.error()));
      set.topology = std::move(*topology);
    }
    const std::int64_t used = job.step->plan->grid.gpus_per_node;
    const auto there = static_cast<std::int64_t>(set.topology->gpus().size());
    if (job.first_gpu < 0 || used > there || job.first_gpu > there - used) {
      return bad(fmt::format("{} GPUs from number {} on of servers of {}", used, job.first_gpu, there),
                 fmt::format("valid: a first GPU from 0 to {}", std::max<std::int64_t>(there - used, 0)));
    }
  }
  return {};
}

/// Where there is something to share: other jobs, links inside servers, or the leaf's uplink. All ways are known before
/// the first task.
Expected<void> Simulation::add_links() {
  const bool inside = std::any_of(jobs_.begin(), jobs_.end(), [](const auto& job) { return job.cluster != nullptr; });
  if (jobs_.size() == 1 && !inside && !options_.uplink) return {};
  if (auto added = add_servers(); !added) return added;
  std::optional<std::size_t> uplink;
  if (options_.uplink) uplink = table_.link("leaf uplink", *options_.uplink, true);
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    links_.emplace_back(table_, servers_.at(jobs_[i].servers), jobs_[i], i, uplink);
  }
  table_.lay(builder_);
  return {};
}

Expected<void> Simulation::lay_out() {
  if (auto added = add_links(); !added) return added;
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    const std::span kinds(jobs_[i].step->plan->classes);
    if (!jobs_[i].step->plan->folds) {
      if (auto laid = lay_out_split(i); !laid) return laid;
    } else if (synchronous(jobs_[i])) {
      lay_out(jobs_[i], i, kinds);
    } else {
      // Workers that wait for nobody go their own ways.
      for (std::size_t k = 0; k < kinds.size(); ++k) lay_out(jobs_[i], i, kinds.subspan(k, 1));
    }
  }
  return {};
}

/// The mean of the measured steps, or of the last of them that do what those before them did.
Time Simulation::mean_length(const std::vector<TaskId>& ends, const Run& run) const {
  constexpr double kAlike = 1e-6;
  const std::size_t last = steps_.measured + steps_.count - 1;
  const auto end = [&](std::size_t k) { return to_time(run[ends[k]].end); };
  const auto alike = [&](std::size_t k, std::size_t before) {
    const Time now = end(k) - end(k - 1);
    const Time was = end(k - before) - end(k - before - 1);
    return max(now, was) - min(now, was) <= now * kAlike;
  };
  for (std::size_t round = 1; 2 * round <= steps_.count; ++round) {
    std::size_t same = 0;
    while (same < round && alike(last - same, round)) ++same;
    if (same == round) return (end(last) - end(last - round)) / static_cast<double>(round);
  }
  return (end(last) - end(last - steps_.count)) / static_cast<double>(steps_.count);
}

/// A step of a unit. Of several jobs those in the midst of the longest one's measured step count.
Time Simulation::length(std::size_t unit, const Run& run) const {
  const std::vector<TaskId>& ends = ends_[unit];
  if (steps_.count > 1) return mean_length(ends, run);
  const std::size_t times = ends.size() / steps_.simulated;
  const std::size_t last = steps_.measured * times + times - 1;
  return to_time(run[ends[last]].end - run[ends[last - times]].end) / static_cast<double>(times);
}

void Simulation::measure(EventStep& result) const {
  if (!synchronous(jobs_.front())) {
    const std::vector<plan::RankClass>& kinds = jobs_.front().step->plan->classes;
    double workers = 0;
    double per_second = 0;
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      const Time step = length(k, result.run);
      const auto count = static_cast<double>(kinds[k].ranks);
      result.slowest = max(result.slowest, step);
      workers += count;
      per_second += count / step.in(seconds);
    }
    result.step = seconds(workers / per_second);
    result.steps = {result.step};
    return;
  }
  Time sum;
  double alike = 0;
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    result.steps.push_back(length(i, result.run));
    if (jobs_[i].step->plan != jobs_.front().step->plan) continue;
    sum += result.steps.back();
    result.slowest = max(result.slowest, result.steps.back());
    ++alike;
  }
  result.step = sum / alike;
}

Expected<EventStep> Simulation::run() {
  for (const SimulatedJob& job : jobs_) longest_ = max(longest_, job.alone->step);
  if (auto fits = check_size(); !fits) return tl::unexpected<Error>(std::move(fits.error()));
  if (auto laid = lay_out(); !laid) return tl::unexpected<Error>(std::move(laid.error()));
  const auto too_long = [](Error error) {
    error.notes.emplace_back("the analytic fidelity has no such limit");
    return tl::unexpected<Error>(std::move(error));
  };
  EventStep result;
  auto program = builder_.take();
  if (!program) return too_long(std::move(program.error()));
  result.program = std::move(*program);
  auto simulated = events::run(result.program);
  if (!simulated) return too_long(std::move(simulated.error()));
  result.run = std::move(*simulated);
  measure(result);
  return result;
}

}  // namespace

Expected<EventStep> simulate(std::span<const SimulatedJob> jobs, const EventOptions& options) {
  if (auto sound = check(jobs); !sound) return tl::unexpected<Error>(std::move(sound.error()));
  return Simulation(jobs, options).run();
}

}  // namespace ddlsim::events
