// What a prediction is about: a model on a cluster under a strategy. Every value is the one that counts; where it came
// from travels with it (support/stated.h), and nothing else steers an answer. `lower` (plan/lower.h) makes the step's
// plan of it, cost/price.h its prices.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "ddlsim/hardware/collective_table.h"
#include "ddlsim/hardware/node.h"
#include "ddlsim/hardware/software.h"
#include "ddlsim/plan/collective_library.h"
#include "ddlsim/plan/efficiency.h"
#include "ddlsim/plan/input.h"
#include "ddlsim/plan/parallel.h"
#include "ddlsim/plan/strategy.h"
#include "ddlsim/primitives/kernel.h"
#include "ddlsim/support/precision.h"
#include "ddlsim/support/stated.h"
#include "ddlsim/support/units.h"
#include "ddlsim/workload/fusion.h"
#include "ddlsim/workload/model.h"

namespace ddlsim::plan {

/// Of eager PyTorch: between two launches of a thread the median is 18.5 us in forward and 28 us in backward passes of
/// a DLRM (traces of facebookresearch/param @ 1e115ff; the profiler slows the CPU). cudaLaunchKernel alone takes 6 us
/// (TrioSim's traces of an H100's host, tracer/data/profiler).
inline constexpr Time kDefaultLaunchInterval = microseconds(20);
/// What hosts leave between kernels: fast ones (recalled), and the slower of the machines of bench/calibrate/measured,
/// where eager PyTorch bounded a step (medians of 26 to 60 us over their models).
inline constexpr Time kShortLaunchInterval = microseconds(10);
inline constexpr Time kLongLaunchInterval = microseconds(60);

/// What summing gradients reaches of two sockets of four DDR4-2400 channels (153.6 GB/s); assumed.
inline constexpr Bandwidth kDefaultServerMemory = gigabytes_per_second(60);

/// Of ResNet-50 on 2 to 16 nodes of Piz Daint with one P100 each (eth-cscs/sarus, Horovod with MPI, 50 runs per point):
/// 229.8 images/s per GPU fall to 227.5 while E(n) of cost/straggler.h grows from 0.59 to 1.78.
inline constexpr double kDefaultJitter = 0.01;

/// How a framework's images lie in memory.
enum class ImageLayout : std::uint8_t {
  kChannelsLast,   // pixel by pixel (TensorFlow, MXNet of NVIDIA, PyTorch with memory_format=channels_last)
  kChannelsFirst,  // channel by channel (PyTorch unless told otherwise)
};

inline constexpr Choices<ImageLayout, 2> kImageLayouts{{
    {"channels-last", ImageLayout::kChannelsLast},
    {"channels-first", ImageLayout::kChannelsFirst},
}};

/// How operators run (workload/fusion.h).
enum class OperatorKernels : std::uint8_t {
  kWhole,     // one kernel each
  kComposed,  // GELU, layer norm and dropout as single operations, a kernel each (TensorFlow without XLA)
  kAutocast,  // one kernel each, with casts between them (torch.autocast)
};

inline constexpr Choices<OperatorKernels, 3> kOperatorKernels{{
    {"whole", OperatorKernels::kWhole},
    {"composed", OperatorKernels::kComposed},
    {"autocast", OperatorKernels::kAutocast},
}};

/// How an optimizer runs on the GPU; the names of torch.optim's implementations.
///   fused     all tensors and operations in one kernel (Apex, Megatron, `fused=True`): workload::update_accesses
///   foreach   operation by operation, each over all tensors (PyTorch's default since 2.0): workload::SingleOperations
///   for-loop  tensor by tensor, operation by operation, each a kernel that the CPU launches. Adam's begin when the CPU
///             has the norm that gradients are clipped to, and take as long as it takes to launch them; SGD's are
///             launched while the GPU is still at its backward pass.
enum class UpdateKernels : std::uint8_t { kFused, kForeach, kForLoop };

inline constexpr Choices<UpdateKernels, 3> kUpdateKernels{{
    {"fused", UpdateKernels::kFused},
    {"foreach", UpdateKernels::kForeach},
    {"for-loop", UpdateKernels::kForLoop},
}};

struct Job {
  std::shared_ptr<const workload::Model> model;
  hardware::Cluster cluster;
  Strategy strategy;
  Parallel parallel;
  Input input;
  std::int64_t batch = 1;            // samples per GPU and pass; of a split model: of a micro-batch of one replica
  bool states_global_batch = false;  // passes are what it leaves: fewer replicas make more
  Precision precision = Precision::kFp32;
  std::optional<Overlap> overlap;  // nothing: backward, or none where there are no layers
  workload::Fusion fusion;
  bool cuda_graphs = false;  // kernels are launched together: the GPU waits for no launch, nor for work on samples
  Stated<Time> launch_interval = by_default(kDefaultLaunchInterval);
  /// Every launch returns when its kernel has ended (CUDA_LAUNCH_BLOCKING=1): the GPU stands still for a launch
  /// interval before each kernel, and nothing that is sent runs beside kernels (as `overlap none`, and stages' sends).
  /// Limit: what ZeRO-3 gathers ahead is still beside them.
  bool launch_blocking = false;
  Efficiency efficiency;
  CollectiveLibrary collective;
  std::shared_ptr<const hardware::CollectiveTable> collective_table;  // measured, may be null
  Stated<std::optional<PsTransport>> ps_transport;                    // nothing: as the network is driven
  Stated<Bandwidth> server_memory = by_default(kDefaultServerMemory);
  Stated<double> jitter = by_default(kDefaultJitter);  // standard deviation of one GPU's step, as a share
  Stated<double> gpu_time_factor = by_default(1.0);    // on all GPU time, where a measurement says so
  bool gpu_time_measured = false;                      // that factor is from a measured step of this model here
  /// What the framework takes on top of kernels (plan/software.h); null: nothing, kernels alone.
  std::shared_ptr<const hardware::SoftwareProfile> software;
  std::shared_ptr<const std::vector<double>> stands_for;      // of a model that is shorter than the whole: layers of it
  std::optional<hardware::SoftwareFactor> software_of_whole;  // of the whole model, where this one is a part of it
  Stated<std::optional<double>> software_year;                // nothing: new
  Stated<std::optional<bool>> software_fused;                 // blocks run as fused kernels; nothing: nobody says
  Stated<primitives::AttentionKernel> software_attention = by_default(primitives::AttentionKernel::kBest);
  Stated<UpdateKernels> software_optimizer = by_default(UpdateKernels::kFused);
  Stated<ImageLayout> software_layout = by_default(ImageLayout::kChannelsLast);
  Stated<OperatorKernels> software_operators = by_default(OperatorKernels::kWhole);
  Stated<double> straggler = by_default(1.0);                     // how many times as slow some of the GPUs are
  Stated<std::int64_t> stragglers = by_default(std::int64_t{1});  // how many are
};

/// What the job's own CPU leaves between two kernels that it issues.
[[nodiscard]] inline Time launch_interval_of(const Job& job) {
  return job.cuda_graphs ? Time::zero() : job.launch_interval.get();
}

/// Whether the GPU waits for each of its launches; of kernels that are launched together there is one.
[[nodiscard]] inline bool blocks_launches(const Job& job) { return job.launch_blocking && !job.cuda_graphs; }

/// As stated; none where launches block.
[[nodiscard]] inline std::optional<Overlap> overlap_of(const Job& job) {
  return blocks_launches(job) ? Overlap::kNone : job.overlap;
}

/// What a server's memory moves: as stated (ps.memory_bandwidth); for states and activations that wait on the host, and
/// parameter servers on the workers' machines, the share of its CPUs' datasheets that Wang et al. (2019) assume of
/// every link; where nobody says what its CPUs are, what waits on the host takes those of its host link's time; else
/// kDefaultServerMemory: nobody says what machines of their own have.
[[nodiscard]] Bandwidth host_memory_rate(const Job& job);

/// By the datasheets of two sockets that came with a server's PCIe: six channels of DDR4-2666 with generation 3, eight
/// of DDR4-3200 with 4, eight of DDR5-4800 with 5; a GPU's half of a Grace where that is its host (recalled).
[[nodiscard]] Bandwidth assumed_host_memory(const hardware::Node& node);

/// Whether operators are kernels of their own, as eager PyTorch runs them.
[[nodiscard]] inline bool in_single_operations(const Job& job) {
  return job.software_fused.get() == false && !job.fusion.pointwise;
}

[[nodiscard]] inline workload::Adapters adapters_of(const Job& job) {
  const Parallel& parallel = job.parallel;
  if (parallel.lora_rank == 0) return {};
  return {parallel.lora_rank, parallel.frozen_bits, parallel.lora_products, in_single_operations(job)};
}

/// Whole copies of the model: what the other degrees leave of the GPUs.
[[nodiscard]] inline std::int64_t replicas_of(const Job& job) {
  return job.cluster.gpus() / (job.parallel.tensor * job.parallel.context * job.parallel.pipeline);
}

}  // namespace ddlsim::plan
