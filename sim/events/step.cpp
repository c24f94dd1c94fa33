#include "ddlsim/events/step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "event_builder.h"
#include "event_channel.h"

namespace ddlsim::events {
namespace {

/// Some 400 MB, and a second for each of the runs of a prediction.
constexpr double kMostTasks = 2e6;

constexpr std::size_t kMostJobs = 1000;

/// One step alone is as good as many; several jobs need some to shift against each other, and one more so that the
/// one measured has all of them beside it.
struct Steps {
  std::size_t simulated;
  std::size_t measured;
};
constexpr Steps steps_of(std::size_t jobs) { return jobs > 1 ? Steps{5, 3} : Steps{2, 1}; }

using Waits = std::vector<std::vector<TaskId>>;  // by layer

/// One kind of worker of a job.
struct Worker {
  double slowness = 1;
  StreamId cpu{};
  StreamId gpu{};
  StreamId host_link{};
  TaskId at{};  // the last task of its GPU
  Rounder rounder{};
};

/// How far the CPU has issued kernels.
struct Issue {
  TaskId at{};
  Time issued{};
  Time lead{};  // what it had issued before it started
  Rounder rounder{};
};

struct PlainPass {
  Time time{};
  Time lead{};  // of the CPU, when forward ends
};

/// The steps of one job: of workers that wait for each other.
class Job {
 public:
  Job(EventBuilder& builder, const cost::PricedStep& step, const answer::Timeline& record, bool named)
      : builder_(builder), step_(step), exchange_(step.plan->exchange), record_(record), named_(named) {}

  void set_up(const std::string& name, std::span<const plan::RankClass> kinds, SharedNetwork network);
  /// Returns the task that ends the step.
  TaskId step(TaskId begin);

 private:
  [[nodiscard]] bool overlapped() const { return exchange_.overlap == plan::Overlap::kBackward; }
  [[nodiscard]] bool prioritised() const { return overlapped() && exchange_.priority && !record_.sent.empty(); }
  [[nodiscard]] bool pulled() const { return overlapped() && exchange_.pull_at_start && !rows().empty(); }

  [[nodiscard]] PlainPass plain_pass(double slowness) const;
  TaskId gpu(Worker& worker, std::string_view name, Time duration, std::span<const TaskId> after);
  void kernels(Worker& worker, Issue& issue, const answer::Timeline::Kernels& layer, std::string_view name,
               std::span<const TaskId> waits);
  void forward(Worker& worker, Issue& issue, const Waits& waits);
  std::vector<TaskId> backward(Worker& worker, Issue& issue);
  [[nodiscard]] std::vector<std::vector<TaskId>> send_all(const std::vector<std::vector<TaskId>>& ready);
  [[nodiscard]] std::vector<Waits> pull_all(TaskId begin);
  void step_by_priority(std::vector<TaskId>& ends);
  void step_in_order(std::vector<TaskId>& ends);
  [[nodiscard]] std::string label(std::string_view pass, std::size_t layer) const;

  EventBuilder& builder_;
  [[nodiscard]] std::span<const plan::Row> rows() const { return step_.plan->rows; }

  const cost::PricedStep& step_;
  const plan::Exchange& exchange_;
  const answer::Timeline& record_;
  bool named_;
  std::vector<Worker> workers_;
  std::optional<EventChannel> channel_;
};

void Job::set_up(const std::string& name, std::span<const plan::RankClass> kinds, SharedNetwork network) {
  std::vector<std::string> processes;
  for (const plan::RankClass& kind : kinds) {
    std::string process = fmt::format("{}, GPUs", name);
    if (kind.slowness != 1.0) process += fmt::format(" x {:.6g}", kind.slowness);
    workers_.push_back({.slowness = kind.slowness,
                        .cpu = builder_.stream(process + "/cpu"),
                        .gpu = builder_.stream(process + "/gpu"),
                        .host_link = builder_.stream(process + "/host link")});
    processes.push_back(std::move(process));
  }
  channel_.emplace(builder_, step_, name, std::move(processes), network);
}

std::string Job::label(std::string_view pass, std::size_t layer) const {
  return named_ ? fmt::format("{} {}", pass, step_.plan->layer(0, layer).name) : std::string(pass);
}

/// One pass with nothing in its way.
PlainPass Job::plain_pass(double slowness) const {
  PlainPass pass;
  Time issued;
  Time done;
  const auto run = [&](const answer::Timeline::Kernels& layer) {
    if (layer.count == 0) return;
    issued += record_.launch_interval * static_cast<double>(layer.count);
    done = max(done + layer.duration * slowness, issued + layer.duration * slowness / static_cast<double>(layer.count));
  };
  for (const answer::Timeline::Kernels& layer : record_.forward_kernels) run(layer);
  pass.lead = done - issued;
  for (const answer::Timeline::Kernels& layer : record_.backward_kernels) run(layer);
  pass.time = done;
  return pass;
}

TaskId Job::gpu(Worker& worker, std::string_view name, Time duration, std::span<const TaskId> after) {
  worker.at = builder_.compute({.name = name, .stream = worker.gpu, .duration = worker.rounder.next(duration)}, after);
  return worker.at;
}

void Job::kernels(Worker& worker, Issue& issue, const answer::Timeline::Kernels& layer, std::string_view name,
                  std::span<const TaskId> waits) {
  std::vector<TaskId> after{worker.at};
  after.insert(after.end(), waits.begin(), waits.end());
  if (layer.count == 0) {
    worker.at = builder_.join("ready", after);
    return;
  }
  const auto count = static_cast<double>(layer.count);
  issue.issued += record_.launch_interval * count;
  const Time issuing = issue.rounder.up_to(max(issue.issued - issue.lead, Time::zero()));
  if (issuing > Time::zero()) {
    issue.at = builder_.compute({.name = "launch", .stream = worker.cpu, .duration = issuing}, std::span(&issue.at, 1));
  }
  const Time last = layer.duration * worker.slowness / count;
  if (layer.count > 1 || layer.slowed > Time::zero()) {
    gpu(worker, name, last * (count - 1.0) + layer.slowed, after);
    after.assign(1, worker.at);
  }
  after.push_back(issue.at);
  gpu(worker, name, last, after);
}

void Job::forward(Worker& worker, Issue& issue, const Waits& waits) {
  for (std::size_t i = 0; i < record_.forward_kernels.size(); ++i) {
    kernels(worker, issue, record_.forward_kernels[i], label("forward", i),
            waits.empty() ? std::span<const TaskId>{} : std::span<const TaskId>(waits[i]));
  }
}

/// Returns after which task each message is ready.
std::vector<TaskId> Job::backward(Worker& worker, Issue& issue) {
  std::vector<TaskId> ready;
  auto next = record_.ready.begin();
  const auto offer = [&] {
    if (next->encoding > Time::zero()) {
      gpu(worker, "copying gradients", next->encoding * worker.slowness, std::vector<TaskId>{worker.at});
    }
    ready.push_back(worker.at);
    ++next;
  };
  const std::size_t layers = record_.backward_kernels.size();
  for (std::size_t i = 0; i < layers; ++i) {
    kernels(worker, issue, record_.backward_kernels[i], label("backward", layers - 1 - i), {});
    while (next != record_.ready.end() && next->layers == i + 1) offer();
  }
  while (next != record_.ready.end()) offer();
  return ready;
}

/// By message sent, then by worker: after which task it is back. `ready` is by worker, then by message.
std::vector<std::vector<TaskId>> Job::send_all(const std::vector<std::vector<TaskId>>& ready) {
  std::vector<std::vector<TaskId>> back;
  for (const answer::Timeline::Sent& sent : record_.sent) {
    std::vector<TaskId> from;
    for (const auto& of_worker : ready) from.push_back(of_worker[sent.last]);
    back.push_back(channel_->send(sent, std::move(from)));
  }
  return back;
}

/// By worker: which tasks bring the weights of each layer. They are pulled in the model's order.
std::vector<Waits> Job::pull_all(TaskId begin) {
  std::vector<Waits> waits(workers_.size(), Waits(record_.forward_kernels.size()));
  for (auto row = rows().rbegin(); row != rows().rend(); ++row) {
    const std::vector<TaskId> back = channel_->pull(*row, begin);
    for (std::size_t w = 0; w < workers_.size(); ++w) waits[w][row->ready.layer].push_back(back[w]);
  }
  return waits;
}

/// From one backward pass to the next.
void Job::step_by_priority(std::vector<TaskId>& ends) {
  std::vector<std::vector<TaskId>> ready;
  for (Worker& worker : workers_) {
    Issue issue{.at = worker.at, .lead = plain_pass(worker.slowness).lead};
    ready.push_back(backward(worker, issue));
  }
  const auto back = send_all(ready);
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    Waits waits(record_.forward_kernels.size());
    for (std::size_t i = 0; i < back.size(); ++i) waits[record_.sent[i].layer].push_back(back[i][w]);
    Issue issue{.at = workers_[w].at};
    forward(workers_[w], issue, waits);
    ends.push_back(workers_[w].at);
  }
}

void Job::step_in_order(std::vector<TaskId>& ends) {
  std::vector<Waits> waits(workers_.size());
  if (pulled()) {
    std::vector<TaskId> begun;
    for (const Worker& worker : workers_) begun.push_back(worker.at);
    waits = pull_all(builder_.join("pull", begun));
  }
  std::vector<std::vector<TaskId>> ready;
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    Worker& worker = workers_[w];
    Issue issue{.at = worker.at};
    forward(worker, issue, waits[w]);
    if (pulled()) issue = {.at = worker.at, .lead = plain_pass(worker.slowness).lead};
    ready.push_back(backward(worker, issue));
    ends.push_back(worker.at);
  }
  for (const auto& back : send_all(ready)) ends.insert(ends.end(), back.begin(), back.end());
  if (overlapped() || !exchange_.pull_at_start || rows().empty()) return;
  const TaskId pushed = builder_.join("pushed", ends);
  for (auto row = rows().rbegin(); row != rows().rend(); ++row) {
    const std::vector<TaskId> back = channel_->pull(*row, pushed);
    ends.insert(ends.end(), back.begin(), back.end());
  }
}

TaskId Job::step(TaskId begin) {
  channel_->begin_step();
  std::vector<TaskId> inputs;
  for (Worker& worker : workers_) {
    worker.at = begin;
    if (record_.host_link > Time::zero()) {
      Rounder whole;
      inputs.push_back(builder_.compute(
          {.name = "input", .stream = worker.host_link, .duration = whole.next(record_.host_link)}, {&begin, 1}));
    }
    if (step_.plan->micro_batches > 1) {
      const Time earlier = plain_pass(worker.slowness).time * static_cast<double>(step_.plan->micro_batches - 1);
      gpu(worker, "earlier passes", earlier, std::vector<TaskId>{begin});
    }
  }
  std::vector<TaskId> ends;
  if (prioritised()) {
    step_by_priority(ends);
  } else {
    step_in_order(ends);
  }
  TaskId all = builder_.join("all back", ends);
  if (record_.waiting > Time::zero()) {
    Rounder whole;
    all = builder_.compute({.name = "waiting for the slowest GPU", .duration = whole.next(record_.waiting)}, {&all, 1});
  }
  ends = std::move(inputs);
  for (Worker& worker : workers_) {
    const Time update = record_.update * worker.slowness;
    ends.push_back(update > Time::zero() ? gpu(worker, "weight update", update, {&all, 1}) : all);
  }
  return builder_.join("step", ends);
}

bool synchronous(const SimulatedJob& job) { return job.step->plan->exchange.consistency == plan::Consistency::kSync; }

Expected<void> check_job(const SimulatedJob& job, bool alone) {
  const plan::StepPlan& plan = *job.step->plan;
  const auto unsupported = [](std::string what, std::string note) {
    return fail(ErrorCode::kUnsupported, std::move(what), {}, {std::move(note)});
  };
  if (!plan.folds) return unsupported("split models are not simulated yet", "use fidelity analytic");
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
      : jobs_(jobs), options_(options), steps_(steps_of(jobs.size())) {}

  Expected<EventStep> run();

 private:
  [[nodiscard]] Expected<void> check_size() const;
  void lay_out();
  void lay_out(const SimulatedJob& job, std::size_t number, std::span<const plan::RankClass> kinds);
  void measure(EventStep& result) const;
  [[nodiscard]] Time length(std::size_t unit, const Run& run) const;

  std::span<const SimulatedJob> jobs_;
  const EventOptions& options_;
  Steps steps_;
  Time longest_;
  EventBuilder builder_;
  std::map<std::size_t, EventPorts> ports_;  // by servers
  std::optional<LinkId> uplink_;
  std::vector<std::vector<TaskId>> ends_;  // of steps, by job, or by kind of asynchronous workers
};

Expected<void> Simulation::check_size() const {
  double tasks = 0;
  for (const SimulatedJob& job : jobs_) tasks += tasks_of(job, steps_of_job(job, longest_, steps_));
  if (tasks <= kMostTasks) return {};
  return fail(ErrorCode::kInfeasible,
              fmt::format("about {:.2g} tasks to simulate, more than {:.0g}", tasks, kMostTasks), {},
              {"use fidelity analytic, larger strategy.partition, or fewer jobs"});
}

void Simulation::lay_out(const SimulatedJob& job, std::size_t number, std::span<const plan::RankClass> kinds) {
  const bool by_priority = job.step->groups.front() && job.step->plan->exchange.priority;
  const answer::Timeline record = by_priority ? merged(*job.alone) : *job.alone;
  Job tasks(builder_, *job.step, record, options_.named);
  const bool alone = jobs_.size() == 1;
  tasks.set_up(fmt::format("job {}", number + 1), kinds,
               {.ports = alone ? nullptr : &ports_[job.servers], .uplink = uplink_});
  const double late = job.offset.in(seconds);
  const double step = job.alone->step.in(seconds);
  const Time phase = seconds(synchronous(job) && step > 0 ? std::fmod(late, step) : 0.0);
  ends_.emplace_back();
  TaskId at = builder_.compute({.name = "start", .duration = phase}, {});
  for (std::size_t k = 0; k < steps_of_job(job, longest_, steps_); ++k) ends_.back().push_back(at = tasks.step(at));
}

void Simulation::lay_out() {
  if (options_.uplink && jobs_.size() > 1) uplink_ = builder_.link("leaf uplink", *options_.uplink);
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    const std::span kinds(jobs_[i].step->plan->classes);
    if (synchronous(jobs_[i])) {
      lay_out(jobs_[i], i, kinds);
      continue;
    }
    // Workers that wait for nobody go their own ways.
    for (std::size_t k = 0; k < kinds.size(); ++k) lay_out(jobs_[i], i, kinds.subspan(k, 1));
  }
}

/// A step of a unit. Of several jobs those in the midst of the longest one's measured step count.
Time Simulation::length(std::size_t unit, const Run& run) const {
  const std::vector<TaskId>& ends = ends_[unit];
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
  lay_out();
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
