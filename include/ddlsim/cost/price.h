// What the pieces of a plan cost on a job's hardware and software.
//
//   layers   by the GPU's profiles (cost/kernel_time.h); a layer without a curve, and a GPU without a profile, by the
//            roofline at a share of the datasheet's rates (cost/layer_time.h); measured layers scaled (wave_scaling.h)
//   rows     collectives by their library over the group's ranks (cost/collective.h), servers by their stations
//            (cost/parameter_server.h), copies by PCIe, the host's work by its memory
// A profile answers for the GPU whose datasheet it was measured on. When a rate of the GPU is another than that
// datasheet's, the same profile answers, scaled, and counts as borrowed: changing one number never changes who answers.
// Shares that somebody stated for compute or memory win over profiles that nobody named; shares of pcie, nvlink and
// network win over what the collective library is known to reach.
//
// Prices of layers depend on the plan's layers and updates and on `PriceInputs` alone. They are worked out once
// (`price_layers`) and kept by who asks often (whatif/predictor.h); the rest is cheap.
//
// A `Variation` asks what would be if a resource were so many times as fast, everything else alike: what whatif's
// bottleneck is found by. Scheduled by step/schedule.h, simulated by events/step.h.
// Worked example: two layers of 1 and 2 GFLOP at 1 TFLOP/s take 1 and 2 ms forward; one row of 10 MB all-reduced by two
// GPUs over 10 GB/s costs what cost/collective.h says of 10 MB.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ddlsim/answer/timeline.h"
#include "ddlsim/cost/collective.h"
#include "ddlsim/cost/kernel_time.h"
#include "ddlsim/cost/layer_time.h"
#include "ddlsim/cost/loader.h"
#include "ddlsim/cost/parameter_server.h"
#include "ddlsim/cost/power.h"
#include "ddlsim/plan/job.h"
#include "ddlsim/plan/step_plan.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"

namespace ddlsim::cost {

/// The same job with each resource so many times as fast, everything else alike.
struct Variation {
  double compute = 1;
  double memory = 1;
  double launch = 1;
  double network = 1;
  double nvlink = 1;
  double pcie = 1;
  double server_memory = 1;
  double transport = 1;  // of servers: connections, messages; of TCP: a port, a connection
  double staging = 1;    // of what GPUs without peer access move through their host's memory at most
  double latency = 1;    // of every link
  double storage = 1;    // that samples are read from
  double cpu = 1;        // that decodes them
  /// What drives a network of which nobody says it; nothing: what is assumed.
  std::optional<hardware::NetworkTransport> open_network{};
};

/// What a GPU and its links reach in one direction, stated or assumed shares included.
struct ReachedRates {
  DeviceRates device;
  Bandwidth host_link{};       // between host and one switch
  Bandwidth pcie_share{};      // one GPU's share of it
  Bandwidth peer{};            // between GPUs of a node
  Bandwidth from_slots{};      // what a node's GPUs feed its network with over their PCIe links
  Bandwidth network{};         // of a node, as far as they can feed it
  Bandwidth server_network{};  // of a machine that is a parameter server
  double on_one_uplink = 1;    // GPUs that share a host link
};

/// What the GPU's kernels reach, of the same. Errors: as reached_rates.
[[nodiscard]] Expected<DeviceRates> device_rates(const plan::Job& job, const Variation& variation = {});

/// Of the peak: what is stated; else what is assumed, and no more than large products sustain on that GPU.
[[nodiscard]] double compute_share(const plan::Job& job);

/// Errors: kUnsupported when the GPU has no rate for the precision.
[[nodiscard]] Expected<ReachedRates> reached_rates(const plan::Job& job, const Variation& variation = {});
/// The same with so many GPUs of a server in use.
[[nodiscard]] Expected<ReachedRates> reached_rates(const plan::Job& job, const Variation& variation,
                                                   std::int64_t gpus_per_node);

/// The times of a job's layers, and what they rest on.
struct PricedLayer {
  Time time{};         // of all its kernels, the factor on GPU time included, and of what they wait for
  Time last{};         // of one of them
  double kernels = 1;  // that the CPU issues one by one
  Time host{};         // of `time`: the GPU waits for the CPU's work on samples

  [[nodiscard]] static PricedLayer of(Time time, int kernels) {
    const auto count = static_cast<double>(kernels);
    return {time, kernels > 0 ? time / count : time, count, Time::zero()};
  }
};

/// Layers in the order they run. Copies share them: a step is priced often from layers that were priced once.
class PricedLayers {
 public:
  PricedLayers() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): a list of layers is what this is
  PricedLayers(std::vector<PricedLayer> layers)
      : layers_(std::make_shared<const std::vector<PricedLayer>>(std::move(layers))), list_(*layers_) {}

  [[nodiscard]] std::size_t size() const { return list_.size(); }
  [[nodiscard]] const PricedLayer& operator[](std::size_t i) const { return list_[i]; }
  [[nodiscard]] auto begin() const { return list_.begin(); }
  [[nodiscard]] auto end() const { return list_.end(); }

 private:
  std::shared_ptr<const std::vector<PricedLayer>> layers_;
  std::span<const PricedLayer> list_;
};

struct PricedClass {
  PricedLayers forward;   // first layer first
  PricedLayers backward;  // last layer first
  // The same in two, where the plan's schedule splits it; else empty.
  PricedLayers backward_input{};
  PricedLayers backward_weights{};
  Time compute{};  // of one forward and backward pass
  Time memory{};
  Time update{};  // of the weights, on the GPU
};

/// All of a job that the prices of its plan's layers depend on. Two that are equal, and a plan with the same layers and
/// updates, have the same prices. It refers to the job's GPU, which outlives it.
struct PriceInputs {
  const hardware::Gpu* gpu = nullptr;  // its rates and, by profiles, its profiles count
  bool by_profiles = false;
  DeviceRates assumed{};  // where no curve is, efficiency included
  Precision precision = Precision::kFp32;
  std::int64_t batch = 1;  // samples of a pass
  DataSize accumulated{};  // of each parameter, to add its gradient to earlier passes' (plan/lower.h)
  primitives::AttentionKernel attention = primitives::AttentionKernel::kBest;
  Surcharge surcharge{};
  bool fuses_pointwise = false;  // as Calibration has them
  bool spares_turning = false;
  bool channels_first = true;
  Time recurrent_chain{};
  bool limited_by_power = false;  // clocks fall where the GPU would draw more than it may (cost/power.h)

  friend bool operator==(const PriceInputs& a, const PriceInputs& b);
};

/// Not where somebody stated or measured what kernels reach.
[[nodiscard]] bool limited_by_power(const plan::Job& job);

/// Errors: as reached_rates.
[[nodiscard]] Expected<PriceInputs> price_inputs(const plan::Job& job);

struct LayerPrices {
  std::vector<LayerTimes> layers;             // of all classes: of the first class's chunk, then the next's
  std::vector<std::size_t> first;             // of each class
  std::vector<Time> update;                   // of each class's weights
  std::optional<CalibratedTimes> calibrated;  // by profiles; of all layers together, without their list
  std::vector<PricedClass> classes;           // the same laid out to run, nothing varied, with the two factors below
  hardware::SoftwareFactor factor;            // on kernels
  double host = 1;                            // on what the GPU waits for the CPU's work on samples
  SustainedClocks clocks{};                   // of these classes
};

/// `assumed_interval` holds for what no curve covers. Errors: as reached_rates.
[[nodiscard]] Expected<LayerPrices> price_layers(const plan::Job& job, const plan::StepPlan& plan,
                                                 std::pair<double, double> assumed_interval);

/// Whether profiles answer for the job's kernels: it has some, and no share that was stated instead.
[[nodiscard]] bool by_profiles(const plan::Job& job);

/// Whether a profile was measured on a chip of other rates or another number of multiprocessors than the job's. Cards
/// that differ in their memory's size or in NVLink alone (V100 of 16 and 32 GB, A800 and A100) are one chip.
[[nodiscard]] bool is_borrowed(const hardware::Gpu& gpu, const hardware::MeasuredProfile& profile);

struct PricedRow {
  Time once{};       // of one piece, alone: collectives, copies, host work, kernels; not of servers
  Time encoding{};   // on the GPU before it starts
  Time hidden{};     // of a row in the way: how much of it runs beside its layer's kernels at most
  DataSize sent{};   // of a collective's piece, through each GPU's memory
  Time network{};    // of a collective's piece: for how long, of its own time, it has the network
  Time peers{};      // and NVLink within a server, busy at the rates they reach
  Time in_flight{};  // of `once`, at its end, of a send to another stage: the next may leave meanwhile
};

struct PricedStep {
  std::shared_ptr<const plan::StepPlan> plan;
  ReachedRates rates;
  std::vector<PricedClass> classes;
  std::vector<PricedRow> rows;
  std::vector<std::optional<CollectiveModel>> groups;  // none: one rank, or servers instead
  std::optional<PsFabric> servers;
  std::optional<PsFabric> servers_seen_by_one;  // asynchronous: its node's other workers apart, one meets nobody
  Time launch_interval{};
  SustainedClocks clocks{};               // drawn 0: nobody knows what the GPU draws
  double sm_share = 0;                    // of the GPU's multiprocessors, that a running collective holds
  Time memory_per_wire_byte{};            // of the GPU's memory, for every byte over a link
  double wait_for_slowest = 0;            // of a synchronous step, as a share of one pass
  double jitter_of_slowest = 0;           // the same, synchronous or not
  Time input{};                           // copying one pass's input
  bool pinned = true;                     // beside kernels
  std::optional<BatchPipeline> loader{};  // one GPU's batches for a pass; nothing: it keeps up
  Time decoding{};                        // of one pass's samples, on the GPU
  DataSize pulled{};                      // over this GPU's share of the host link, once a step
};

/// Errors: kUnsupported and kInvalidArgument where the collective library does not have what is asked of it.
[[nodiscard]] Expected<PricedStep> price(const plan::Job& job, std::shared_ptr<const plan::StepPlan> plan,
                                         const LayerPrices& layers, const Variation& variation = {});

/// What a collective is asked for, as nccl-tests counts it: of shares, the total.
[[nodiscard]] DataSize buffer_of(const plan::Row& row, std::int64_t ranks);

/// Share of the GPU that a collective of `taken` holds, which moves `sent` through its memory: kernels beside it have
/// the rest. At least the step's sm_share.
[[nodiscard]] double held_of_gpu(const PricedStep& step, Time taken, DataSize sent);

/// One GPU of the job by itself, which keeps its weights.
[[nodiscard]] Expected<PricedStep> price_alone(const plan::Job& job, const plan::StepPlan& plan,
                                               const LayerPrices& layers);

/// A group's ranks on the job's cluster, as its library sees them.
[[nodiscard]] Communicator communicator_of(const plan::Job& job, const plan::RankGroup& group,
                                           const Variation& variation = {});
/// All GPUs of the job.
[[nodiscard]] Communicator communicator_of(const plan::Job& job);
/// The job's library with the shares that somebody stated.
[[nodiscard]] CollectiveLibrary collective_library_of(const plan::Job& job);

/// What one step sends over the busiest instance of each link, one direction.
[[nodiscard]] std::vector<answer::LinkTraffic> traffic_of(const plan::Job& job, const PricedStep& step);

}  // namespace ddlsim::cost
