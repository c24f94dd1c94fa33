#include "folded_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace ddlsim::events {

void FoldedJob::set_up(const std::string& name, std::span<const plan::RankClass> kinds, JobLinks* links) {
  std::vector<std::string> processes;
  for (const plan::RankClass& kind : kinds) {
    std::string process = fmt::format("{}, GPUs", name);
    if (kind.slowness != 1.0) process += fmt::format(" x {:.6g}", kind.slowness);
    GpuWork gpu(builder_, process, record_.launch_interval);
    workers_.push_back({.slowness = kind.slowness, .gpu = gpu, .host_link = builder_.stream(process + "/host link")});
    processes.push_back(std::move(process));
  }
  if (const auto way = links != nullptr ? links->copies(0, Direction::kIn) : std::nullopt) {
    const DataSize size = step_.plan->input * static_cast<double>(step_.plan->micro_batches) + step_.pulled;
    const LinkTable::Part part{*way, size};
    for (Worker& worker : workers_) {
      worker.input = links->table().flow(builder_, {&part, 1}, size, record_.host_link, name + ": its own pace").route;
    }
  }
  channel_.emplace(builder_, step_, name, std::move(processes), links);
}

std::string FoldedJob::label(std::string_view pass, std::size_t layer) const {
  return named_ ? fmt::format("{} {}", pass, step_.plan->layer(0, layer).name) : std::string(pass);
}

/// One pass with nothing in its way.
FoldedJob::PlainPass FoldedJob::plain_pass(double slowness) const {
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

/// Of the CPU over its GPU when backward begins, as if forward had waited for no weights: with those of the slowest
/// kind, for the others wait at least as long.
Time FoldedJob::lead() const {
  double slowest = 0;
  for (const Worker& worker : workers_) slowest = std::max(slowest, worker.slowness);
  return plain_pass(slowest).lead;
}

void FoldedJob::forward(Worker& worker, Issue& issue, const Waits& waits) {
  for (std::size_t i = 0; i < record_.forward_kernels.size(); ++i) {
    worker.gpu.kernels(issue, record_.forward_kernels[i], worker.slowness, label("forward", i),
                       waits.empty() ? std::span<const TaskId>{} : std::span<const TaskId>(waits[i]));
  }
}

/// Returns after which task each message is ready.
std::vector<TaskId> FoldedJob::backward(Worker& worker, Issue& issue) {
  std::vector<TaskId> ready;
  auto next = record_.ready.begin();
  const auto offer = [&] {
    if (next->encoding > Time::zero()) worker.gpu.run("copying gradients", next->encoding * worker.slowness);
    ready.push_back(worker.gpu.at());
    ++next;
  };
  const std::size_t layers = record_.backward_kernels.size();
  for (std::size_t i = 0; i < layers; ++i) {
    worker.gpu.kernels(issue, record_.backward_kernels[i], worker.slowness, label("backward", layers - 1 - i), {});
    while (next != record_.ready.end() && next->layers == i + 1) offer();
  }
  while (next != record_.ready.end()) offer();
  return ready;
}

/// By priority to a server a piece begins when the schedule chose it, or when it is ready, whichever is later.
TaskId FoldedJob::chosen(std::size_t worker, const answer::Timeline::Sent& sent, TaskId ready) {
  if (!prioritised() || !step_.servers || sent.chosen <= Time::zero()) return ready;
  Rounder whole;
  const TaskId then = builder_.compute({.name = "chosen", .duration = whole.next(sent.chosen)}, {&begun_[worker], 1});
  return builder_.join("chosen", std::array{ready, then});
}

/// By message sent, then by worker: after which task it is back. `ready` is by worker, then by message.
std::vector<std::vector<TaskId>> FoldedJob::send_all(const std::vector<std::vector<TaskId>>& ready) {
  std::vector<std::vector<TaskId>> back;
  for (const answer::Timeline::Sent& sent : record_.sent) {
    std::vector<TaskId> from;
    for (std::size_t w = 0; w < ready.size(); ++w) from.push_back(chosen(w, sent, ready[w][sent.last]));
    back.push_back(channel_->send(sent, std::move(from)));
  }
  return back;
}

/// By worker: which tasks bring the weights of each layer. They are pulled in the model's order.
std::vector<FoldedJob::Waits> FoldedJob::pull_all(TaskId begin) {
  std::vector<Waits> waits(workers_.size(), Waits(record_.forward_kernels.size()));
  for (auto row = rows().rbegin(); row != rows().rend(); ++row) {
    const std::vector<TaskId> back = channel_->pull(*row, begin);
    for (std::size_t w = 0; w < workers_.size(); ++w) waits[w][row->ready.layer].push_back(back[w]);
  }
  return waits;
}

/// From one backward pass to the next.
void FoldedJob::step_by_priority(std::vector<TaskId>& ends) {
  std::vector<std::vector<TaskId>> ready;
  begun_.clear();
  for (Worker& worker : workers_) {
    begun_.push_back(worker.gpu.at());
    Issue issue{.at = worker.gpu.at(), .lead = lead()};
    ready.push_back(backward(worker, issue));
  }
  const auto back = send_all(ready);
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    Waits waits(record_.forward_kernels.size());
    for (std::size_t i = 0; i < back.size(); ++i) waits[record_.sent[i].layer].push_back(back[i][w]);
    Issue issue{.at = workers_[w].gpu.at()};
    forward(workers_[w], issue, waits);
    ends.push_back(workers_[w].gpu.at());
  }
}

void FoldedJob::step_in_order(std::vector<TaskId>& ends) {
  std::vector<Waits> waits(workers_.size());
  if (pulled()) {
    std::vector<TaskId> begun;
    for (const Worker& worker : workers_) begun.push_back(worker.gpu.at());
    waits = pull_all(builder_.join("pull", begun));
  }
  std::vector<std::vector<TaskId>> ready;
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    Worker& worker = workers_[w];
    Issue issue{.at = worker.gpu.at()};
    forward(worker, issue, waits[w]);
    if (pulled()) issue = {.at = worker.gpu.at(), .lead = lead()};
    ready.push_back(backward(worker, issue));
    ends.push_back(worker.gpu.at());
  }
  for (const auto& back : send_all(ready)) ends.insert(ends.end(), back.begin(), back.end());
  if (overlapped() || !exchange_.pull_at_start || rows().empty()) return;
  const TaskId pushed = builder_.join("pushed", ends);
  for (auto row = rows().rbegin(); row != rows().rend(); ++row) {
    const std::vector<TaskId> back = channel_->pull(*row, pushed);
    ends.insert(ends.end(), back.begin(), back.end());
  }
}

TaskId FoldedJob::input(Worker& worker, TaskId begin) {
  if (worker.input) {
    const DataSize size = step_.plan->input * static_cast<double>(step_.plan->micro_batches) + step_.pulled;
    return builder_.transfer({.name = "input", .stream = worker.host_link, .route = worker.input, .size = size},
                             {&begin, 1});
  }
  Rounder whole;
  return builder_.compute({.name = "input", .stream = worker.host_link, .duration = whole.next(record_.host_link)},
                          {&begin, 1});
}

TaskId FoldedJob::step(TaskId begin) {
  channel_->begin_step();
  std::vector<TaskId> inputs;
  for (Worker& worker : workers_) {
    worker.gpu.go_on_after(begin);
    if (record_.host_link > Time::zero()) inputs.push_back(input(worker, begin));
    if (record_.loading > Time::zero()) inputs.push_back(alone("loader", record_.loading, begin));
    if (record_.decoding > Time::zero()) {
      worker.gpu.run("decoding", record_.decoding * worker.slowness);
    }
    if (step_.plan->micro_batches > 1) {
      const Time earlier = plain_pass(worker.slowness).time * static_cast<double>(step_.plan->micro_batches - 1);
      worker.gpu.run("earlier passes", earlier);
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
    ends.push_back(update > Time::zero() ? worker.gpu.run("weight update", update, {&all, 1}) : all);
  }
  const TaskId done = builder_.join("step", ends);
  return record_.starved > Time::zero() ? alone("waiting for batches", record_.starved, done) : done;
}

TaskId FoldedJob::alone(std::string_view name, Time duration, TaskId after) {
  Rounder whole;
  return builder_.compute({.name = name, .duration = whole.next(duration)}, {&after, 1});
}

}  // namespace ddlsim::events
