#include "kineto_steps.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "onnx/onnx_graph.h"

namespace ddlsim::importers::kineto {
namespace {

using Nanoseconds = std::int64_t;

/// Spans inside spans that are looked through.
constexpr int kMaxNesting = 64;

Time time_of(Nanoseconds count) { return nanoseconds(static_cast<double>(count)); }

/// Spans of one thread, asked for the latest around a moment.
class Spans {
 public:
  void add(const Event& event) { spans_.push_back(&event); }
  void sort() {
    std::sort(spans_.begin(), spans_.end(), [](const Event* a, const Event* b) { return a->start < b->start; });
    ends_.reserve(spans_.size());
    for (const Event* span : spans_) ends_.push_back(std::max(span->end(), ends_.empty() ? span->end() : ends_.back()));
  }
  /// The one that started last and holds `moment`; null where none does.
  [[nodiscard]] const Event* around(Nanoseconds moment) const {
    auto after = std::upper_bound(spans_.begin(), spans_.end(), moment,
                                  [](Nanoseconds time, const Event* span) { return time < span->start; });
    for (int deep = 0; deep < kMaxNesting && after != spans_.begin(); ++deep) {
      --after;
      if ((*after)->end() >= moment) return *after;
      if (ends_[static_cast<std::size_t>(after - spans_.begin())] < moment) return nullptr;
    }
    return nullptr;
  }

 private:
  std::vector<const Event*> spans_;
  std::vector<Nanoseconds> ends_;  // the latest so far
};

using ByThread = std::map<std::int32_t, Spans>;

const Event* around(const ByThread& spans, std::int32_t thread, Nanoseconds moment) {
  const auto found = spans.find(thread);
  return found == spans.end() ? nullptr : found->second.around(moment);
}

struct StepSpan {
  std::string name;
  Nanoseconds start = 0;
  Nanoseconds end = 0;
};

/// What the CPU did, sorted out once for all steps.
class Host {
 public:
  explicit Host(const Trace& trace) : trace_(trace) {
    for (const Event& event : trace.events) sort_out(event);
    for (ByThread* all : {&backward_, &update_, &sends_}) {
      for (auto& [thread, spans] : *all) spans.sort();
    }
    std::sort(steps_.begin(), steps_.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
    // No two steps share work.
    for (std::size_t i = 1; i < steps_.size(); ++i) steps_[i - 1].end = std::min(steps_[i - 1].end, steps_[i].start);
    for (auto* events : {&waits_, &accumulated_}) {
      std::sort(events->begin(), events->end(), [](const Event* a, const Event* b) { return a->start < b->start; });
    }
  }

  [[nodiscard]] const Event* launch_of(const Event& work) const {
    const auto found = launches_.find(work.correlation);
    return found == launches_.end() ? nullptr : found->second;
  }
  [[nodiscard]] StepPhase phase_of(const Event* launch) const {
    if (launch == nullptr) return StepPhase::kForward;
    if (around(backward_, launch->thread, launch->start) != nullptr) return StepPhase::kBackward;
    return around(update_, launch->thread, launch->start) != nullptr ? StepPhase::kUpdate : StepPhase::kForward;
  }
  [[nodiscard]] const Details* sent_around(const Event* launch) const {
    const Event* send = launch == nullptr ? nullptr : around(sends_, launch->thread, launch->start);
    return send == nullptr ? nullptr : trace_.of(*send);
  }
  [[nodiscard]] const std::vector<StepSpan>& steps() const { return steps_; }
  [[nodiscard]] const std::vector<const Event*>& accumulated() const { return accumulated_; }
  [[nodiscard]] const std::vector<const Event*>& waits() const { return waits_; }
  [[nodiscard]] const std::string& optimizer() const { return optimizer_; }

 private:
  void sort_out(const Event& event) {
    const std::string& name = trace_.name(event);
    if (event.category == Category::kRuntime) {
      if (event.correlation >= 0) launches_.emplace(event.correlation, &event);
      if (name.find("Synchronize") != std::string::npos) waits_.push_back(&event);
      return;
    }
    if (event.category != Category::kOp && event.category != Category::kAnnotation) return;
    if (name.starts_with("autograd::engine::evaluate_function")) {
      backward_[event.thread].add(event);
    } else if (name == "torch::autograd::AccumulateGrad") {
      accumulated_.push_back(&event);
    } else if (name.starts_with("Optimizer.step#")) {
      update_[event.thread].add(event);
      // "Optimizer.step#Adagrad.step"
      optimizer_ = name.substr(15, name.find('.', 15) - 15);
    } else if (name.starts_with("ProfilerStep#")) {
      if (seen_.insert(name).second) steps_.push_back({name, event.start, event.end()});
    } else if (name.starts_with("nccl:") || name == "record_param_comms") {
      const Details* details = trace_.of(event);
      if (details != nullptr && details->elements > 0) sends_[event.thread].add(event);
    }
  }

  const Trace& trace_;
  std::unordered_map<std::int64_t, const Event*> launches_;
  ByThread backward_;
  ByThread update_;
  ByThread sends_;
  std::vector<StepSpan> steps_;
  std::set<std::string> seen_;
  std::vector<const Event*> accumulated_;
  std::vector<const Event*> waits_;
  std::string optimizer_;
};

bool on_gpu(Category category) {
  return category == Category::kKernel || category == Category::kCopy || category == Category::kSet;
}

GpuWork work_of(const Event& event, const std::string& name) {
  if (event.category == Category::kKernel) return GpuWork::kCompute;
  return name.find("HtoD") != std::string::npos ? GpuWork::kCopyIn : GpuWork::kCopy;
}

/// What the launch's surroundings and the kernel's own args say of a collective, the latter first.
void describe_collective(TracedCollective& collective, const Details* own, const Details* around) {
  for (const Details* details : {own, around}) {
    if (details == nullptr) continue;
    if (!collective.elements && details->elements > 0) {
      collective.elements = details->elements;
      if (!details->type.empty()) collective.type = details->type;
    }
    if (!collective.group && details->group > 0) collective.group = details->group;
    // NCCL does an all-to-all by sends and receives.
    const auto named = collective_of_kernel("nccl " + details->collective);
    if (!details->collective.empty() && named && named->op) collective.op = named->op;
  }
}

TracedKernel kernel_of(const Trace& trace, const Host& host, const Event& event, const Event* launch) {
  TracedKernel kernel;
  kernel.name = trace.name(event);
  kernel.work = work_of(event, kernel.name);
  kernel.phase = host.phase_of(launch);
  kernel.correlation = event.correlation;
  kernel.start = time_of(event.start - trace.origin);
  kernel.duration = time_of(event.duration);
  const Details* details = trace.of(event);
  if (details != nullptr) {
    kernel.stream = details->stream;
    kernel.bytes = bytes(static_cast<double>(std::max<std::int64_t>(details->bytes, 0)));
    kernel.grid = details->grid;
    kernel.block = details->block;
  }
  if (event.category == Category::kKernel) kernel.collective = collective_of_kernel(kernel.name);
  if (kernel.collective) {
    kernel.work = GpuWork::kCollective;
    describe_collective(*kernel.collective, details, host.sent_around(launch));
  }
  return kernel;
}

/// The GPU's work with the moment each piece was launched; without a launch, the moment it began.
struct Launched {
  const Event* work = nullptr;
  const Event* launch = nullptr;
  Nanoseconds moment = 0;
};

std::vector<Launched> launched_work(const Trace& trace, const Host& host) {
  std::vector<Launched> all;
  for (const Event& event : trace.events) {
    if (!on_gpu(event.category)) continue;
    const Event* launch = host.launch_of(event);
    all.push_back({&event, launch, launch == nullptr ? event.start : launch->start});
  }
  std::stable_sort(all.begin(), all.end(), [](const Launched& a, const Launched& b) { return a.moment < b.moment; });
  return all;
}

Time launch_interval_of(std::span<const Launched> work) {
  std::map<std::int32_t, Nanoseconds> last;
  std::vector<Time> gaps;
  for (const Launched& one : work) {
    if (one.launch == nullptr) continue;
    const auto [before, first] = last.emplace(one.launch->thread, one.moment);
    if (!first && one.moment > before->second) gaps.push_back(time_of(one.moment - before->second));
    before->second = one.moment;
  }
  return gaps.empty() ? Time::zero() : median_of(std::move(gaps));
}

/// Of events sorted by their start, those that start in the step.
std::span<const Event* const> inside(const std::vector<const Event*>& events, const StepSpan& span) {
  const auto from = [&](Nanoseconds moment) {
    return std::partition_point(events.begin(), events.end(), [&](const Event* e) { return e->start < moment; });
  };
  return {from(span.start), std::max(from(span.start), from(span.end))};
}

TracedStep step_of(const Trace& trace, const Host& host, const StepSpan& span, std::span<const Launched> work) {
  TracedStep step;
  step.name = onnx::printable(span.name);
  step.duration = time_of(span.end - span.start);
  step.kernels.reserve(work.size());
  for (const Launched& one : work) {
    step.kernels.push_back(kernel_of(trace, host, *one.work, one.launch));
    if (step.kernels.back().work == GpuWork::kCopyIn) step.copied_in += step.kernels.back().bytes;
  }
  step.launch_interval = launch_interval_of(work);
  for (const Event* wait : inside(host.waits(), span)) {
    step.blocked += time_of(std::min(wait->end(), span.end) - wait->start);
  }
  for (const Event* op : inside(host.accumulated(), span)) {
    const Details* details = trace.of(*op);
    if (details == nullptr || details->elements <= 0) continue;
    const auto after =
        std::partition_point(work.begin(), work.end(), [&](const Launched& one) { return one.moment <= op->end(); });
    step.gradients.push_back({details->elements, static_cast<std::size_t>(after - work.begin())});
  }
  std::stable_sort(step.gradients.begin(), step.gradients.end(),
                   [](const TracedGradient& a, const TracedGradient& b) { return a.after < b.after; });
  split(step);
  return step;
}

/// From the first launch to when the GPU is done.
StepSpan whole_trace(std::span<const Launched> work) {
  StepSpan span{"the whole trace", work.front().moment, work.back().moment + 1};
  for (const Launched& one : work) span.end = std::max(span.end, one.work->end());
  return span;
}

/// The work at `most`, tier by tier: what of each piece no earlier piece covers.
void run_alone(std::vector<TracedKernel*> tier, std::vector<std::pair<Time, Time>>& covered) {
  std::stable_sort(tier.begin(), tier.end(), [](const auto* a, const auto* b) { return a->start < b->start; });
  std::vector<std::pair<Time, Time>> merged;
  Time reached = tier.empty() ? Time::zero() : tier.front()->start;
  auto first = covered.begin();
  for (TracedKernel* kernel : tier) {
    Time from = max(kernel->start, reached);
    const Time end = kernel->start + kernel->duration;
    while (first != covered.end() && first->second <= from) ++first;
    for (auto other = first; from < end && other != covered.end() && other->first < end; ++other) {
      kernel->alone += max(min(other->first, end) - from, Time::zero());
      from = max(from, other->second);
    }
    kernel->alone += max(end - from, Time::zero());
    reached = max(reached, end);
    merged.emplace_back(kernel->start, end);
  }
  merged.insert(merged.end(), covered.begin(), covered.end());
  std::sort(merged.begin(), merged.end());
  covered.clear();
  for (const auto& span : merged) {
    if (covered.empty() || covered.back().second < span.first) {
      covered.push_back(span);
    } else {
      covered.back().second = max(covered.back().second, span.second);
    }
  }
}

bool alike(const std::vector<TracedStep>& steps) {
  const auto same = [](const TracedKernel& a, const TracedKernel& b) { return a.name == b.name && a.work == b.work; };
  return std::all_of(steps.begin() + 1, steps.end(), [&](const TracedStep& step) {
    return std::equal(step.kernels.begin(), step.kernels.end(), steps.front().kernels.begin(),
                      steps.front().kernels.end(), same);
  });
}

}  // namespace

Time median_of(std::vector<Time> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>((times.size() - 1) / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

void split(TracedStep& step) {
  constexpr std::array<std::array<GpuWork, 2>, 3> kTiers{{{GpuWork::kCompute, GpuWork::kCompute},
                                                          {GpuWork::kCopyIn, GpuWork::kCopy},
                                                          {GpuWork::kCollective, GpuWork::kCollective}}};
  StepSplit parts;
  const std::array<Time*, 3> sums{&parts.compute, &parts.copies, &parts.collectives};
  std::vector<std::pair<Time, Time>> covered;
  for (std::size_t i = 0; i < kTiers.size(); ++i) {
    std::vector<TracedKernel*> tier;
    for (TracedKernel& kernel : step.kernels) {
      if (kernel.work == kTiers[i][0] || kernel.work == kTiers[i][1]) tier.push_back(&kernel);
      if (i == 0) kernel.alone = Time::zero();
    }
    run_alone(tier, covered);
    for (const TracedKernel* kernel : tier) {
      *sums[i] += kernel->alone;
      if (!kernel->collective) continue;
      parts.collectives_all += kernel->duration;
      parts.collectives_waiting += kernel->collective->waiting;
    }
  }
  parts.collectives_beside = max(parts.collectives_all - parts.collectives, Time::zero());
  parts.idle = max(step.duration - parts.compute - parts.copies - parts.collectives, Time::zero());
  step.split = parts;
}

TracedStep typical_of(const std::vector<TracedStep>& steps) {
  // The first step allocates, and cuDNN tries its algorithms.
  const std::vector<TracedStep> used(steps.size() >= 3 ? steps.begin() + 1 : steps.begin(), steps.end());
  std::vector<Time> durations;
  durations.reserve(used.size());
  for (const TracedStep& step : used) durations.push_back(step.duration);
  const Time middle = median_of(durations);
  TracedStep typical =
      *std::find_if(used.begin(), used.end(), [&](const TracedStep& step) { return step.duration == middle; });
  if (used.size() < 2 || !alike(used)) return typical;
  const auto medians = [&](auto&& part) {
    std::vector<Time> times;
    times.reserve(used.size());
    for (const TracedStep& step : used) times.push_back(part(step));
    return median_of(std::move(times));
  };
  for (std::size_t i = 0; i < typical.kernels.size(); ++i) {
    typical.kernels[i].duration = medians([&](const TracedStep& step) { return step.kernels[i].duration; });
    typical.kernels[i].alone = medians([&](const TracedStep& step) { return step.kernels[i].alone; });
  }
  typical.launch_interval = medians([](const TracedStep& step) { return step.launch_interval; });
  typical.blocked = medians([](const TracedStep& step) { return step.blocked; });
  StepSplit& parts = typical.split;
  for (Time StepSplit::*part : {&StepSplit::compute, &StepSplit::copies, &StepSplit::collectives,
                                &StepSplit::collectives_all, &StepSplit::collectives_beside}) {
    parts.*part = medians([&](const TracedStep& step) { return step.split.*part; });
  }
  parts.idle = max(typical.duration - parts.compute - parts.copies - parts.collectives, Time::zero());
  return typical;
}

Expected<TracedRank> steps_of(const Trace& trace, const KinetoOptions& options) {
  const SourceLocation where{trace.file, 0, 0};
  const Host host(trace);
  const std::vector<Launched> work = launched_work(trace, host);
  if (work.empty()) {
    return fail(ErrorCode::kUnsupported, "no kernel ran on a GPU in this trace", where,
                {"profile with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]"});
  }
  std::vector<StepSpan> spans = options.whole ? std::vector<StepSpan>{whole_trace(work)} : host.steps();
  if (spans.empty()) {
    return fail(ErrorCode::kInvalidArgument, "no step markers (ProfilerStep#N) in this trace", where,
                {"take the whole trace as one step: --whole", "or trace again with profiler.step() after every step"});
  }
  TracedRank rank;
  rank.file = trace.file;
  rank.rank = trace.rank;
  rank.world_size = trace.world_size;
  const auto device = static_cast<std::size_t>(std::max<std::int64_t>(trace.device, 0));
  if (!trace.devices.empty()) {
    rank.gpu = onnx::printable(trace.devices[device < trace.devices.size() ? device : 0]);
  }
  rank.optimizer = onnx::printable(host.optimizer());
  const auto at = [&](Nanoseconds moment) {
    return std::partition_point(work.begin(), work.end(), [&](const Launched& one) { return one.moment < moment; });
  };
  for (const StepSpan& span : spans) {
    if (span.end <= span.start) continue;
    const std::span<const Launched> launched(at(span.start), at(span.end));
    if (!launched.empty()) rank.steps.push_back(step_of(trace, host, span, launched));
  }
  if (rank.steps.empty()) {
    return fail(ErrorCode::kUnsupported, "no kernel was launched in any step of this trace", where,
                {"take the whole trace as one step: --whole"});
  }
  rank.typical = typical_of(rank.steps);
  return rank;
}

}  // namespace ddlsim::importers::kineto
