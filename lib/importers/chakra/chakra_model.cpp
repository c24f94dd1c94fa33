#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "ddlsim/importers/chakra_file.h"
#include "ddlsim/io/model_file.h"
#include "ddlsim/support/names.h"
#include "ddlsim/support/quantity_io.h"
#include "kineto/kineto_names.h"
#include "onnx/onnx_graph.h"

namespace ddlsim::importers {
namespace {

using workload::Bound;

/// Makes the layers of a trace's nodes, which are in order.
class ChakraBuilder {
 public:
  ChakraBuilder(const ChakraTrace& trace, const hardware::Gpu& gpu) : trace_(trace), gpu_(gpu) {
    const auto runs = [](const ChakraNode& node) { return node.duration.has_value() && !node.on_cpu; };
    timed_ = std::any_of(trace.nodes.begin(), trace.nodes.end(), runs);
    for (const ChakraNode& node : trace.nodes) by_id_.emplace(node.id, &node);
    for (const ChakraNode& node : trace.nodes) find_backward(node);
  }

  Expected<void> build() {
    for (const ChakraNode& node : trace_.nodes) {
      if (node.on_cpu || node.type == ChakraType::kMetadata) continue;
      if (auto placed = place(node); !placed) return placed;
    }
    for (const auto& [elements, after] : gradients_) attach(elements, after);
    return {};
  }

  /// Forward, then backward with its last kernel first: as a step model walks layers.
  [[nodiscard]] std::vector<io::DescribedLayer> layers() const {
    std::vector<io::DescribedLayer> all = forward_;
    all.insert(all.end(), back_.rbegin(), back_.rend());
    return all;
  }
  [[nodiscard]] std::string notes() const {
    std::vector<std::string> notes;
    if (trace_.dangling > 0) {
      notes.push_back(fmt::format("{} dependencies on nodes that the trace leaves out", to_text(trace_.dangling)));
    }
    if (back_.empty()) notes.emplace_back("no backward pass told apart: all is forward");
    if (gradients_.empty()) {
      notes.emplace_back("no gradients known: other GPUs are sent nothing");
    } else {
      notes.push_back(fmt::format("gradients: {} all-reduces, of fp32", gradients_.size()));
    }
    if (fixed_ > Time::zero()) {
      notes.push_back(
          fmt::format("communication that is no gradient takes {} on any network, as measured and not "
                      "hidden",
                      to_text(fixed_)));
    }
    if (peaked_ > 0) {
      notes.push_back(fmt::format("assumed: {} nodes without a duration run at the GPU's peak", peaked_));
    }
    return join(notes, "; ");
  }

 private:
  /// Who called an operator or launched a kernel: the converter writes the latter as the first of its data.
  [[nodiscard]] const ChakraNode* caller_of(const ChakraNode& node) const {
    if (!node.control.empty()) return by_id_.at(node.control.front());
    if (node.on_cpu || node.data.empty()) return nullptr;
    const ChakraNode* first = by_id_.at(node.data.front());
    return first->on_cpu ? first : nullptr;
  }

  /// Whether the node or who called it is autograd's. Callers may lead in a circle.
  void find_backward(const ChakraNode& node) {
    std::vector<std::int64_t> path;
    bool back = false;
    for (const ChakraNode* at = &node; at != nullptr;) {
      if (const auto known = backward_.find(at->id); known != backward_.end()) {
        back = known->second;
        break;
      }
      path.push_back(at->id);
      backward_.emplace(at->id, false);
      if (at->name.starts_with("autograd::engine") || at->name.find("ackward") != std::string::npos) {
        back = true;
        break;
      }
      at = caller_of(*at);
    }
    for (const std::int64_t id : path) backward_[id] = back;
  }

  Expected<void> place(const ChakraNode& node) {
    const bool sends =
        node.type == ChakraType::kSend || node.type == ChakraType::kReceive || node.type == ChakraType::kCollective;
    const bool back = backward_.at(node.id);
    const double elements = std::round(node.sent.in(bytes) / 4.0);
    if (node.collective == primitives::CollectiveOp::kAllReduce && elements >= 1 && elements < 1e15 &&
        (back || !timed_ || !back_.empty())) {
      gradients_.emplace_back(static_cast<std::int64_t>(elements), back_.size());
      return {};
    }
    workload::Measured op;
    Time time = node.duration.value_or(Time::zero());
    op.time.bound = sends || node.type != ChakraType::kCompute ? Bound::kFixed : bound_of_kernel(node.name);
    if (!node.duration && !sends && (node.work > Work::zero() || node.tensor > DataSize::zero())) {
      const Time compute = node.work / gpu_.peak.fp32;
      const Time memory = node.tensor / gpu_.memory_bandwidth;
      time = max(compute, memory);
      op.time.bound = compute > memory ? Bound::kCompute : Bound::kMemory;
      ++peaked_;
    }
    if (sends && !node.duration) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("the node {} '{}' ({} of {}) has no duration, and is no all-reduce", node.id,
                              onnx::printable(node.name), name_of(kChakraTypes, node.type), to_text(node.sent)),
                  {}, {"`ddlsim collective` predicts collectives by themselves"});
    }
    if (sends) fixed_ += time;
    time = kineto::whole_nanoseconds(time);
    if (time <= Time::zero()) return {};
    (back ? op.time.backward : op.time.forward) = time;
    (back ? back_ : forward_).push_back({"measured", std::move(op), kineto::short_name(node.name), {}});
    return {};
  }

  /// To the last node of backward before it; where the trace has none, to a layer of its own.
  void attach(std::int64_t elements, std::size_t after) {
    if (back_.empty()) back_.push_back({"measured", workload::Measured{}, "gradients", {}});
    auto& list = std::get<workload::Measured>(back_[after == 0 ? 0 : std::min(after, back_.size()) - 1].op).gradients;
    list.insert(list.begin(), elements);
  }

  const ChakraTrace& trace_;
  const hardware::Gpu& gpu_;
  bool timed_ = false;
  std::unordered_map<std::int64_t, const ChakraNode*> by_id_;
  std::unordered_map<std::int64_t, bool> backward_;
  std::vector<io::DescribedLayer> forward_;
  std::vector<io::DescribedLayer> back_;
  std::vector<std::pair<std::int64_t, std::size_t>> gradients_;  // elements, nodes of backward before it
  Time fixed_{};
  std::int64_t peaked_ = 0;
};

}  // namespace

Expected<io::ModelDescription> describe(const ChakraTrace& trace, const hardware::Gpu& gpu,
                                        const MeasuredModelOptions& options) {
  ChakraBuilder builder(trace, gpu);
  if (auto built = builder.build(); !built) return tl::unexpected<Error>(built.error());
  io::ModelDescription description;
  description.id = options.id;
  description.name = fmt::format("{} (Chakra)", options.id);
  description.task = "imported from a Chakra execution trace";
  description.sample = options.batch == 1 ? "step" : "sample";
  description.batch = options.batch;
  description.input_shape = {1};
  description.layers = builder.layers();
  if (description.layers.empty()) {
    return fail(ErrorCode::kUnsupported, "no node of the trace takes time on a GPU", {},
                {"its durations are of CPU operators: trace with the GPU's kernels linked in"});
  }
  if (description.layers.size() > io::kMaxLayers) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} GPU nodes, but a model file has at most {} layers",
                                                         description.layers.size(), io::kMaxLayers));
  }
  description.measured = workload::MeasuredOn{.gpu = gpu.id,
                                              .precision = Precision::kFp32,
                                              .peak = gpu.peak.fp32,
                                              .memory = gpu.memory_bandwidth,
                                              .launch_interval = Time::zero(),
                                              .update = true};
  const std::string origin =
      fmt::format("Chakra execution trace, schema {}, {} nodes", trace.version, trace.nodes.size());
  description.sources = {
      {"layers", origin},
      {"input", "a Chakra trace does not say what is copied in: nothing"},
      {"batch", options.batch == 1 ? "a trace does not say: the step is one sample" : "stated at the import (--batch)"},
      {"optimizer", "chosen by ddlsim: the trace names none; its update is among the nodes"},
      {"measured_on", fmt::format("{}; rates of hardware/gpus/{}.yaml, which was stated", origin, gpu.id)},
  };
  description.notes = builder.notes();
  return description;
}

}  // namespace ddlsim::importers
