#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ddlsim/importers/kineto_file.h"
#include "ddlsim/io/model_file.h"
#include "ddlsim/support/names.h"
#include "ddlsim/support/quantity_io.h"
#include "kineto_names.h"
#include "onnx/onnx_graph.h"

namespace ddlsim::importers {
namespace {

using workload::Bound;

/// The precision of the matrix products, by the names of the kernels that take most of their time.
Precision precision_of(const std::vector<TracedKernel>& kernels) {
  constexpr std::array<std::pair<std::string_view, Precision>, 9> kWords{{{"bf16", Precision::kBf16},
                                                                          {"tf32", Precision::kTf32},
                                                                          {"s1688", Precision::kTf32},
                                                                          {"s16816", Precision::kFp16},
                                                                          {"h884", Precision::kFp16},
                                                                          {"s884", Precision::kFp16},
                                                                          {"h1688", Precision::kFp16},
                                                                          {"fp16", Precision::kFp16},
                                                                          {"half", Precision::kFp16}}};
  std::array<Time, kPrecisions.size()> sums{};
  for (const TracedKernel& kernel : kernels) {
    if (kernel.work != GpuWork::kCompute || bound_of_kernel(kernel.name) != Bound::kCompute) continue;
    Precision precision = Precision::kFp32;
    for (const auto& [word, meant] : kWords) {
      if (kernel.name.find(word) == std::string::npos) continue;
      precision = meant;
      break;
    }
    sums[static_cast<std::size_t>(precision)] += kernel.alone;
  }
  return static_cast<Precision>(std::max_element(sums.begin(), sums.end()) - sums.begin());
}

workload::Optimizer optimizer_of(std::string_view name) {
  return name.find("Adam") != std::string_view::npos || name.find("LAMB") != std::string_view::npos
             ? workload::Optimizer::kAdam
             : workload::Optimizer::kSgdMomentum;
}

/// Makes the layers of a step's kernels.
class Replay {
 public:
  explicit Replay(const TracedStep& step) : step_(step) {
    for (std::size_t i = 0; i < step.kernels.size(); ++i) place(i);
    attach_gradients();
  }

  /// The update of the step before, then forward, then backward, its last kernel first: as a step model walks layers.
  [[nodiscard]] std::vector<io::DescribedLayer> layers() const {
    std::vector<io::DescribedLayer> all;
    for (const auto* part : {&update_, &forward_}) {
      for (const Placed& placed : *part) all.push_back(placed.layer);
    }
    for (auto placed = backward_.rbegin(); placed != backward_.rend(); ++placed) all.push_back(placed->layer);
    return all;
  }
  [[nodiscard]] bool updates() const { return !update_.empty(); }
  [[nodiscard]] bool has_backward() const { return !backward_.empty(); }
  [[nodiscard]] std::size_t messages() const { return messages_; }
  [[nodiscard]] std::size_t tensors() const { return tensors_; }
  [[nodiscard]] Time fixed() const { return fixed_; }
  [[nodiscard]] Time unsized() const { return unsized_; }
  [[nodiscard]] std::size_t kernels() const { return update_.size() + forward_.size() + backward_.size(); }
  [[nodiscard]] bool halves() const { return halves_; }

 private:
  struct Placed {
    std::size_t launched = 0;
    io::DescribedLayer layer;
  };

  /// All-reduces of backward become messages; other collectives keep the time they took.
  [[nodiscard]] static bool is_message(const TracedKernel& kernel) {
    return kernel.collective && kernel.collective->op == primitives::CollectiveOp::kAllReduce &&
           kernel.phase == StepPhase::kBackward && kernel.collective->elements.value_or(0) > 0;
  }

  void place(std::size_t index) {
    const TracedKernel& kernel = step_.kernels[index];
    if (kernel.work == GpuWork::kCopyIn) return;  // the input
    if (is_message(kernel)) {
      gradients_.push_back({*kernel.collective->elements, index});
      ++messages_;
      const std::string& type = kernel.collective->type;
      halves_ = halves_ || type.find("alf") != std::string::npos || type.find("16") != std::string::npos;
      return;
    }
    workload::Measured op;
    Time time = kernel.alone;
    op.time.bound = kernel.work == GpuWork::kCompute ? bound_of_kernel(kernel.name) : Bound::kMemory;
    if (kernel.collective) {
      time = min(time, kernel.duration - kernel.collective->waiting);
      op.time.bound = Bound::kFixed;
      fixed_ += time;
      if (kernel.collective->op == primitives::CollectiveOp::kAllReduce) unsized_ += time;
    } else if (kernel.work == GpuWork::kCopy && kernel.name.find("DtoH") != std::string::npos) {
      op.time.bound = Bound::kFixed;
    }
    time = kineto::whole_nanoseconds(time);
    if (time <= Time::zero()) return;
    const bool back = kernel.phase == StepPhase::kBackward;
    (back ? op.time.backward : op.time.forward) = time;
    std::vector<Placed>& part = back ? backward_ : (kernel.phase == StepPhase::kUpdate ? update_ : forward_);
    part.push_back({index, {"measured", std::move(op), kineto::short_name(kernel.name), {}}});
  }

  /// Each goes to the last kernel of backward launched before it.
  void attach_gradients() {
    if (gradients_.empty()) {
      gradients_ = step_.gradients;
      tensors_ = gradients_.size();
    }
    std::vector<Placed>& part = backward_.empty() ? forward_ : backward_;
    if (part.empty()) return;
    for (const TracedGradient& gradient : gradients_) {
      auto after = std::partition_point(part.begin(), part.end(),
                                        [&](const Placed& placed) { return placed.launched < gradient.after; });
      if (after != part.begin()) --after;
      std::vector<std::int64_t>& list = std::get<workload::Measured>(after->layer.op).gradients;
      list.insert(list.begin(), gradient.elements);  // what is ready first is last in the framework's list
    }
  }

  const TracedStep& step_;
  std::vector<Placed> update_;
  std::vector<Placed> forward_;
  std::vector<Placed> backward_;
  std::vector<TracedGradient> gradients_;
  std::size_t messages_ = 0;
  std::size_t tensors_ = 0;
  Time fixed_{};
  Time unsized_{};
  bool halves_ = false;
};

/// How far apart a prediction's kernels are launched. Where the GPU idles, the CPU is what the step waits for: its time
/// is spread over the kernels. Where it does not, the CPU was ahead, and the usual gap says how fast it can be.
Time launch_interval_of(const TracedStep& step, std::size_t kernels) {
  constexpr double kIdle = 0.1;  // of the step
  if (step.split.idle < step.duration * kIdle) return step.launch_interval;
  const Time busy = max(step.duration - step.blocked, Time::zero());
  return busy / static_cast<double>(std::max<std::size_t>(kernels, 1));
}

std::string notes_of(const MeasuredStep& measured, const Replay& replay, Precision precision) {
  const TracedStep& step = measured.rank().typical;
  std::vector<std::string> notes = measured.notes;
  notes.push_back(fmt::format("step {} as measured, of it the GPU idle {}, collectives exposed {}",
                              to_text(step.duration), to_text(step.split.idle), to_text(step.split.collectives)));
  notes.push_back(fmt::format("{} by the kernels' names", name_of(kPrecisions, precision)));
  if (!replay.has_backward()) {
    notes.emplace_back(
        "no backward pass found (no autograd::engine::evaluate_function around a launch): all is forward");
  }
  if (replay.messages() > 0) {
    notes.push_back(fmt::format("gradients: the {} all-reduces of backward, a message each", replay.messages()));
  } else if (replay.tensors() > 0) {
    notes.push_back(fmt::format("gradients: the {} tensors that autograd accumulated", replay.tensors()));
  } else {
    notes.emplace_back("no gradients known (no all-reduce, no shapes recorded): other GPUs are sent nothing");
  }
  if (replay.halves()) notes.emplace_back("gradients were sent in 16 bits: --set strategy.gradients=fp16");
  if (replay.fixed() > Time::zero()) {
    notes.push_back(
        fmt::format("collectives that are no gradients take {} on any network and any number of GPUs, as "
                    "measured and not hidden",
                    to_text(replay.fixed())));
  }
  if (replay.unsized() > Time::zero()) {
    notes.push_back(
        fmt::format("of that, all-reduces outside backward or of unknown size {}", to_text(replay.unsized())));
  }
  return join(notes, "; ");
}

}  // namespace

Expected<io::ModelDescription> describe(const MeasuredStep& step, const hardware::Gpu& gpu,
                                        const MeasuredModelOptions& options) {
  const TracedRank& rank = step.rank();
  const Replay replay(rank.typical);
  const SourceLocation where{rank.file, 0, 0};
  if (replay.kernels() > io::kMaxLayers) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{} kernels in a step, but a model file has at most {} layers", replay.kernels(), io::kMaxLayers),
        where);
  }
  const Precision wanted = precision_of(rank.typical.kernels);
  const Precision precision = gpu.peak.at(wanted) ? wanted : Precision::kFp32;
  const std::string name = onnx::shown_file(rank.file);
  io::ModelDescription description;
  description.id = options.id;
  description.name = fmt::format("{} (measured)", options.id);
  description.task = "imported from a PyTorch profiler trace";
  description.sample = options.batch == 1 ? "step" : "sample";
  description.batch = options.batch;
  description.optimizer = optimizer_of(rank.optimizer);
  description.input_shape = {1};
  description.input_per_sample =
      bytes(std::round(rank.typical.copied_in.in(bytes) / static_cast<double>(options.batch)));
  description.layers = replay.layers();
  if (description.layers.empty()) {
    return fail(ErrorCode::kUnsupported, "no kernel of the step takes any time", where);
  }
  workload::MeasuredOn on{
      .gpu = gpu.id,
      .precision = precision,
      .peak = gpu.peak.at(precision).value_or(gpu.peak.fp32),
      .memory = gpu.memory_bandwidth,
      .launch_interval = kineto::whole_nanoseconds(launch_interval_of(rank.typical, replay.kernels())),
      .update = replay.updates()};
  description.measured = std::move(on);
  const std::string origin =
      fmt::format("PyTorch profiler trace {}, {}, {} of {} steps", name,
                  rank.gpu.empty() ? "device not named" : rank.gpu, rank.typical.name, rank.steps.size());
  description.sources = {
      {"layers", origin},
      {"input", "bytes copied from host to device in the step"},
      {"batch", options.batch == 1 ? "a trace does not say: the step is one sample" : "stated at the import (--batch)"},
      {"optimizer", rank.optimizer.empty() ? "chosen by ddlsim: the trace names none"
                                           : fmt::format("nearest to the trace's {}", rank.optimizer)},
      {"measured_on", fmt::format("{}; rates of hardware/gpus/{}.yaml", origin, gpu.id)},
  };
  description.notes = notes_of(step, replay, precision);
  return description;
}

}  // namespace ddlsim::importers
