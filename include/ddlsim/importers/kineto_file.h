// Reads what torch.profiler writes (Kineto's Chrome trace, .json or .json.gz): what a training step did on the GPU.
//
//   deviceProperties[].name, distributedInfo{rank, world_size}, traceEvents[]{ph, cat, name, ts, dur, pid, tid, args}
// A step is an annotation ProfilerStep#N (profiler.step()), or the whole trace. A kernel, copy or memset belongs to the
// step whose annotation holds its launch: args.correlation joins it to cudaLaunchKernel and its like. Where on the CPU
// it was launched says what it is for: inside autograd::engine::evaluate_function, backward; inside Optimizer.step,
// the update; elsewhere, forward. A step's time on the GPU is split so that nothing counts twice:
//   compute      some kernel runs that is no collective          copies       a copy runs, and no kernel
//   collectives  only NCCL's kernels run (exposed)               idle         the step's time without all these
// A collective's size comes from the kernel's args ("In msg nelems", "dtype"), or from the nccl:* or
// record_param_comms event around its launch; what it is, from there or the kernel's name.
// The step described is the median one; with three steps or more the first is left out (allocations, cuDNN's choice of
// algorithm). Where all steps launch the same kernels, each kernel has its median duration.
// Several ranks: a collective ends together on all, so what it took on the rank that came last is what it needs, and
// the rest of every other is waiting. The rank with the median step stands for the job.
//
// Limits: 1 GiB of JSON, 4 million events, 64 levels. Under CUDA graphs launches cannot be told apart: all is forward.
// The profiler slows the CPU: launches of an unprofiled run are closer together.
// Example: kernels 0-10 us and 5-15 us on two streams, an all-reduce 12-20 us, in a step of 25 us: compute 15, exposed
// collective 5, idle 5, and 3 us of the all-reduce beside compute.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ddlsim/hardware/gpu.h"
#include "ddlsim/io/model_writer.h"
#include "ddlsim/primitives/collective_op.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/precision.h"
#include "ddlsim/support/units.h"
#include "ddlsim/workload/op.h"

namespace ddlsim::importers {

enum class GpuWork { kCompute, kCopyIn, kCopy, kCollective };

inline constexpr Choices<GpuWork, 4> kGpuWorks{{
    {"compute", GpuWork::kCompute},
    {"copy-in", GpuWork::kCopyIn},  // host to device
    {"copy", GpuWork::kCopy},       // any other copy, and memset
    {"collective", GpuWork::kCollective},
}};

enum class StepPhase { kForward, kBackward, kUpdate };

inline constexpr Choices<StepPhase, 3> kStepPhases{{
    {"forward", StepPhase::kForward},
    {"backward", StepPhase::kBackward},
    {"update", StepPhase::kUpdate},
}};

struct TracedCollective {
  std::optional<primitives::CollectiveOp> op;
  std::string type;                      // of its elements, as the trace names it
  std::optional<std::int64_t> elements;  // that one rank puts in
  std::optional<std::int64_t> group;     // ranks
  Time waiting{};                        // for the rank that came last; known with several ranks
};

/// One kernel, copy or memset.
struct TracedKernel {
  std::string name;
  GpuWork work = GpuWork::kCompute;
  StepPhase phase = StepPhase::kForward;
  std::int64_t stream = 0;
  std::int64_t correlation = 0;
  Time start{};  // from the trace's first event
  Time duration{};
  Time alone{};      // while nothing that comes before it in the split runs
  DataSize bytes{};  // copies
  std::array<std::int64_t, 3> grid{0, 0, 0};
  std::array<std::int64_t, 3> block{0, 0, 0};
  std::optional<TracedCollective> collective;
};

/// The first four add up to the step.
struct StepSplit {
  Time compute{};
  Time copies{};
  Time collectives{};  // exposed
  Time idle{};
  Time collectives_all{};      // their durations
  Time collectives_beside{};   // of that, beside kernels and copies
  Time collectives_waiting{};  // of that, for the rank that came last
};

/// A gradient that was ready when the step had launched `after` of its kernels.
struct TracedGradient {
  std::int64_t elements = 0;
  std::size_t after = 0;
};

struct TracedStep {
  std::string name;  // "ProfilerStep#10"
  Time duration{};
  StepSplit split;
  Time launch_interval{};                 // median, between two launches of a thread
  Time blocked{};                         // the CPU waited for the GPU (cudaStreamSynchronize and its like)
  DataSize copied_in{};                   // host to device
  std::vector<TracedKernel> kernels;      // in the order they were launched
  std::vector<TracedGradient> gradients;  // parameters as autograd accumulates them, where shapes were recorded
};

struct TracedRank {
  std::string file;
  std::string gpu;        // the device's name
  std::string optimizer;  // "Adagrad", where the trace tells
  std::optional<std::int64_t> rank;
  std::optional<std::int64_t> world_size;
  std::vector<TracedStep> steps;  // those with work on the GPU
  TracedStep typical;             // their median
};

struct MeasuredStep {
  std::vector<TracedRank> ranks;  // by rank
  std::size_t median = 0;         // the one with the median step
  std::vector<std::string> notes;

  [[nodiscard]] const TracedRank& rank() const { return ranks[median]; }
};

struct KinetoOptions {
  bool whole = false;  // take the whole trace as one step
};

/// Errors: kIo and kParse (with the byte) for a file; kInvalidArgument for events that cannot be, traces without steps
/// or of several jobs; kUnsupported for traces without work on a GPU.
[[nodiscard]] Expected<MeasuredStep> read_kineto(std::span<const std::filesystem::path> files,
                                                 const KinetoOptions& options = {});

/// What bounds a kernel, by its name: matrix products, convolutions and attention by arithmetic, all else by memory.
[[nodiscard]] workload::Bound bound_of_kernel(std::string_view name);

/// What a collective's kernel does and on which type, by its name: "ncclKernel_AllReduce_RING_LL_Sum_float(...)".
/// Nothing where it is no kernel of NCCL or RCCL.
[[nodiscard]] std::optional<TracedCollective> collective_of_kernel(std::string_view name);

struct MeasuredModelOptions {
  std::string id;
  std::int64_t batch = 1;  // samples of the step; a trace does not say
};

/// The model file of a measured step: an operator `measured` per kernel, in the order of the launches, so that a
/// prediction replays it. On `gpu`, the one it was traced on, or whose datasheet stands for it.
/// All-reduces of the backward pass become gradient messages; what else is sent stays as it was measured (`fixed`).
/// Without them, the parameters that autograd accumulated are the gradients.
[[nodiscard]] Expected<io::ModelDescription> describe(const MeasuredStep& step, const hardware::Gpu& gpu,
                                                      const MeasuredModelOptions& options);

}  // namespace ddlsim::importers
