#include "ddlsim/events/event_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "event_builder.h"
#include "event_channel.h"

namespace ddlsim::events {
namespace {

/// Some 400 MB, and a second for each of the runs of a prediction.
constexpr double kMostTasks = 2e6;

constexpr std::int64_t kMostJobs = 1000;

/// One step alone is as good as many; several jobs need some to shift against each other, and one more so that the
/// one measured has all of them beside it.
struct Steps {
  std::size_t simulated;
  std::size_t measured;
};
constexpr Steps steps_of(std::int64_t jobs) { return jobs > 1 ? Steps{5, 3} : Steps{2, 1}; }

using Waits = std::vector<std::vector<TaskId>>;  // by layer

/// One kind of worker of a job.
struct Worker {
  WorkerKind kind;
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
  Job(EventBuilder& builder, const workload::Model& model, std::span<const plan::Message> messages,
      const step::StepSetting& setting, const step::StepRecord& record, bool named)
      : builder_(builder), model_(model), messages_(messages), setting_(setting), record_(record), named_(named) {}

  void set_up(const std::string& name, std::span<const WorkerKind> kinds, EventPorts* ports);
  /// Returns the task that ends the step.
  TaskId step(TaskId begin);

 private:
  [[nodiscard]] bool overlapped() const { return setting_.overlap == plan::Overlap::kBackward; }
  [[nodiscard]] bool prioritised() const { return overlapped() && setting_.priority && !record_.sent.empty(); }
  [[nodiscard]] bool pulled() const { return overlapped() && setting_.pull_at_start && !messages_.empty(); }

  [[nodiscard]] PlainPass plain_pass(double slowness) const;
  TaskId gpu(Worker& worker, std::string_view name, Time duration, std::span<const TaskId> after);
  void kernels(Worker& worker, Issue& issue, const step::StepRecord::Kernels& layer, std::string_view name,
               std::span<const TaskId> waits);
  void forward(Worker& worker, Issue& issue, const Waits& waits);
  std::vector<TaskId> backward(Worker& worker, Issue& issue);
  [[nodiscard]] std::vector<std::vector<TaskId>> send_all(const std::vector<std::vector<TaskId>>& ready);
  [[nodiscard]] std::vector<Waits> pull_all(TaskId begin);
  void step_by_priority(std::vector<TaskId>& ends);
  void step_in_order(std::vector<TaskId>& ends);
  [[nodiscard]] std::string label(std::string_view pass, std::size_t layer) const;

  EventBuilder& builder_;
  const workload::Model& model_;
  std::span<const plan::Message> messages_;
  const step::StepSetting& setting_;
  const step::StepRecord& record_;
  bool named_;
  std::vector<Worker> workers_;
  std::optional<EventChannel> channel_;
};

void Job::set_up(const std::string& name, std::span<const WorkerKind> kinds, EventPorts* ports) {
  std::vector<std::string> processes;
  for (const WorkerKind& kind : kinds) {
    std::string process = fmt::format("{}, GPUs", name);
    if (kind.slowness != 1.0) process += fmt::format(" x {:.6g}", kind.slowness);
    workers_.push_back({.kind = kind,
                        .cpu = builder_.stream(process + "/cpu"),
                        .gpu = builder_.stream(process + "/gpu"),
                        .host_link = builder_.stream(process + "/host link")});
    processes.push_back(std::move(process));
  }
  channel_.emplace(builder_, setting_, name, std::move(processes), ports);
}

std::string Job::label(std::string_view pass, std::size_t layer) const {
  return named_ ? fmt::format("{} {}", pass, model_.layers[layer].name) : std::string(pass);
}

/// One pass with nothing in its way.
PlainPass Job::plain_pass(double slowness) const {
  PlainPass pass;
  Time issued;
  Time done;
  const auto run = [&](const step::StepRecord::Kernels& layer) {
    if (layer.count == 0) return;
    issued += record_.launch_interval * static_cast<double>(layer.count);
    done = max(done + layer.duration * slowness, issued + layer.duration * slowness / static_cast<double>(layer.count));
  };
  for (const step::StepRecord::Kernels& layer : record_.forward) run(layer);
  pass.lead = done - issued;
  for (const step::StepRecord::Kernels& layer : record_.backward) run(layer);
  pass.time = done;
  return pass;
}

TaskId Job::gpu(Worker& worker, std::string_view name, Time duration, std::span<const TaskId> after) {
  worker.at = builder_.compute({.name = name, .stream = worker.gpu, .duration = worker.rounder.next(duration)}, after);
  return worker.at;
}

void Job::kernels(Worker& worker, Issue& issue, const step::StepRecord::Kernels& layer, std::string_view name,
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
  const Time last = layer.duration * worker.kind.slowness / count;
  if (layer.count > 1 || layer.slowed > Time::zero()) {
    gpu(worker, name, last * (count - 1.0) + layer.slowed, after);
    after.assign(1, worker.at);
  }
  after.push_back(issue.at);
  gpu(worker, name, last, after);
}

void Job::forward(Worker& worker, Issue& issue, const Waits& waits) {
  for (std::size_t i = 0; i < record_.forward.size(); ++i) {
    kernels(worker, issue, record_.forward[i], label("forward", i),
            waits.empty() ? std::span<const TaskId>{} : std::span<const TaskId>(waits[i]));
  }
}

/// Returns after which task each message is ready.
std::vector<TaskId> Job::backward(Worker& worker, Issue& issue) {
  std::vector<TaskId> ready;
  auto next = record_.ready.begin();
  const auto offer = [&] {
    if (next->coding > Time::zero()) {
      gpu(worker, "copying gradients", next->coding * worker.kind.slowness, std::vector<TaskId>{worker.at});
    }
    ready.push_back(worker.at);
    ++next;
  };
  const std::size_t layers = record_.backward.size();
  for (std::size_t i = 0; i < layers; ++i) {
    kernels(worker, issue, record_.backward[i], label("backward", layers - 1 - i), {});
    while (next != record_.ready.end() && next->layers == i + 1) offer();
  }
  while (next != record_.ready.end()) offer();
  return ready;
}

/// By message sent, then by worker: after which task it is back. `ready` is by worker, then by message.
std::vector<std::vector<TaskId>> Job::send_all(const std::vector<std::vector<TaskId>>& ready) {
  std::vector<std::vector<TaskId>> back;
  for (const step::StepRecord::Sent& sent : record_.sent) {
    std::vector<TaskId> from;
    for (const auto& of_worker : ready) from.push_back(of_worker[sent.last]);
    back.push_back(channel_->send(sent, std::move(from)));
  }
  return back;
}

/// By worker: which tasks bring the weights of each layer. They are pulled in the model's order.
std::vector<Waits> Job::pull_all(TaskId begin) {
  std::vector<Waits> waits(workers_.size(), Waits(record_.forward.size()));
  for (auto message = messages_.rbegin(); message != messages_.rend(); ++message) {
    const std::vector<TaskId> back = channel_->pull(*message, begin);
    for (std::size_t w = 0; w < workers_.size(); ++w) waits[w][message->after].push_back(back[w]);
  }
  return waits;
}

/// From one backward pass to the next.
void Job::step_by_priority(std::vector<TaskId>& ends) {
  std::vector<std::vector<TaskId>> ready;
  for (Worker& worker : workers_) {
    Issue issue{.at = worker.at, .lead = plain_pass(1).lead};
    ready.push_back(backward(worker, issue));
  }
  const auto back = send_all(ready);
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    Waits waits(record_.forward.size());
    for (std::size_t i = 0; i < back.size(); ++i) waits[record_.sent[i].message.after].push_back(back[i][w]);
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
    if (pulled()) issue = {.at = worker.at, .lead = plain_pass(1).lead};
    ready.push_back(backward(worker, issue));
    ends.push_back(worker.at);
  }
  for (const auto& back : send_all(ready)) ends.insert(ends.end(), back.begin(), back.end());
  if (overlapped() || !setting_.pull_at_start || messages_.empty()) return;
  const TaskId pushed = builder_.join("pushed", ends);
  for (auto message = messages_.rbegin(); message != messages_.rend(); ++message) {
    const std::vector<TaskId> back = channel_->pull(*message, pushed);
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
    if (setting_.accumulation > 1) {
      const Time earlier = plain_pass(worker.kind.slowness).time * static_cast<double>(setting_.accumulation - 1);
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
    const Time update = record_.update * worker.kind.slowness;
    ends.push_back(update > Time::zero() ? gpu(worker, "weight update", update, {&all, 1}) : all);
  }
  return builder_.join("step", ends);
}

Expected<void> check(const step::StepSetting& setting, const EventSetting& event) {
  const auto unsupported = [](std::string what, std::string note) {
    return fail(ErrorCode::kUnsupported, std::move(what), {}, {std::move(note)});
  };
  if (setting.overlap == plan::Overlap::kIdeal) {
    return unsupported("ideal overlap is a bound, not a schedule: there are no events to simulate",
                       "use fidelity analytic, or overlap backward or none");
  }
  if (setting.overlap == plan::Overlap::kBackward && setting.priority && setting.pull_at_start &&
      !std::holds_alternative<std::monostate>(setting.fabric)) {
    return unsupported("priority and weights pulled at the start of a step are not simulated together",
                       "use fidelity analytic, or one of the two");
  }
  if (!event.synchronous && event.jobs > 1) {
    return unsupported("several asynchronous jobs are not simulated", "use one job, or strategy.consistency sync");
  }
  if (event.jobs < 1 || event.jobs > kMostJobs) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} jobs", event.jobs), {}, {"valid: 1 to 1000"});
  }
  const bool workers =
      !event.workers.empty() && std::all_of(event.workers.begin(), event.workers.end(), [](const WorkerKind& kind) {
        return kind.slowness > 0 && std::isfinite(kind.slowness) && kind.count > 0;
      });
  if (!workers || !(event.offset >= Time::zero()) || event.offset == Time::infinity()) {
    return fail(ErrorCode::kInvalidArgument, "workers need a positive number and slowness, jobs an offset from 0 on");
  }
  return {};
}

/// Pieces of one message that follow each other are sent as one. Parameter servers pipeline them: there they are not.
void merge(std::vector<step::StepRecord::Sent>& sent) {
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
}

Expected<void> check_size(const step::StepRecord& record, const EventSetting& event, std::size_t messages) {
  const auto kinds = static_cast<double>(event.workers.size());
  const double one = 3.0 * kinds * static_cast<double>(record.forward.size() + record.backward.size()) +
                     24.0 * kinds * static_cast<double>(record.sent.size() + messages);
  const double tasks = one * static_cast<double>(event.jobs) * static_cast<double>(steps_of(event.jobs).simulated);
  if (tasks <= kMostTasks) return {};
  return fail(ErrorCode::kInfeasible,
              fmt::format("about {:.2g} tasks to simulate, more than {:.0g}", tasks, kMostTasks), {},
              {"use fidelity analytic, larger strategy.partition, or fewer jobs"});
}

/// What the steps say when they have run. Units are jobs, or kinds of asynchronous workers.
void measure(const std::vector<std::vector<TaskId>>& ends, const EventSetting& event, EventStep& result) {
  const std::size_t measured = steps_of(event.jobs).measured;
  const auto length = [&](const std::vector<TaskId>& unit) {
    return to_time(result.run[unit[measured]].end - result.run[unit[measured - 1]].end);
  };
  Time sum;
  double workers = 0;
  double per_second = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const Time step = length(ends[i]);
    sum += step;
    result.slowest = max(result.slowest, step);
    if (event.synchronous) continue;
    const auto count = static_cast<double>(event.workers[i].count);
    workers += count;
    per_second += count / step.in(seconds);
  }
  result.step = event.synchronous ? sum / static_cast<double>(ends.size()) : seconds(workers / per_second);
}

}  // namespace

Expected<EventStep> run_event_step(const workload::Model& model, std::span<const plan::Message> messages,
                                   const step::StepSetting& setting, const EventSetting& event) {
  if (auto checked = check(setting, event); !checked) return tl::unexpected<Error>(std::move(checked.error()));
  EventStep result;
  step::StepRecord record;
  result.analytic = step::run_step(model, messages, setting, &record);
  if (std::holds_alternative<step::CollectiveFabric>(setting.fabric) && setting.priority) merge(record.sent);
  if (auto fits = check_size(record, event, messages.size()); !fits) {
    return tl::unexpected<Error>(std::move(fits.error()));
  }
  EventBuilder builder;
  EventPorts ports;
  std::vector<std::vector<TaskId>> ends;
  const std::size_t units = event.synchronous ? static_cast<std::size_t>(event.jobs) : event.workers.size();
  for (std::size_t i = 0; i < units; ++i) {
    const auto kinds = event.synchronous ? std::span(event.workers) : std::span(&event.workers[i], 1);
    Job job(builder, model, messages, setting, record, event.named);
    job.set_up(fmt::format("job {}", event.synchronous ? i + 1 : 1), kinds, event.jobs > 1 ? &ports : nullptr);
    const double late = event.offset.in(seconds) * static_cast<double>(i);
    const double step = result.analytic.step.in(seconds);
    const Time phase = seconds(event.synchronous && step > 0 ? std::fmod(late, step) : 0.0);
    ends.emplace_back();
    TaskId at = builder.compute({.name = "start", .duration = phase}, {});
    for (std::size_t k = 0; k < steps_of(event.jobs).simulated; ++k) ends.back().push_back(at = job.step(at));
  }
  const auto too_long = [](Error error) {
    error.notes.emplace_back("the analytic fidelity has no such limit");
    return tl::unexpected<Error>(std::move(error));
  };
  auto program = builder.take();
  if (!program) return too_long(std::move(program.error()));
  result.program = std::move(*program);
  auto simulated = run(result.program);
  if (!simulated) return too_long(std::move(simulated.error()));
  result.run = std::move(*simulated);
  measure(ends, event, result);
  return result;
}

}  // namespace ddlsim::events
