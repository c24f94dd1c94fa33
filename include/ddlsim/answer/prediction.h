// What ddlsim answers with: values that explain themselves. No logic beyond sums.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddlsim/answer/goodput.h"
#include "ddlsim/answer/timeline.h"
#include "ddlsim/answer/training.h"
#include "ddlsim/support/choices.h"
#include "ddlsim/support/provenance.h"
#include "ddlsim/support/units.h"

namespace ddlsim::answer {

/// How a prediction was made; each is a documented approximation of the next.
enum class Fidelity {
  kAggregate,  // closed form on whole-step totals (cost/pai.h)
  kAnalytic,   // per layer and per gradient tensor (step/schedule.h)
  kEvent,      // the same as discrete events, with slower GPUs and other jobs beside it (events/step.h)
};

inline constexpr Choices<Fidelity, 3> kFidelities{{
    {"aggregate", Fidelity::kAggregate},
    {"analytic", Fidelity::kAnalytic},
    {"event", Fidelity::kEvent},
}};

/// How the model and the step's samples were split (plan/parallel.h).
struct Split {
  std::int64_t data = 1;  // replicas
  std::int64_t tensor = 1;
  std::int64_t context = 1;
  std::int64_t expert = 1;
  std::int64_t expert_tensor = 1;  // ranks that an expert is cut over
  std::int64_t pipeline = 1;
  std::int64_t virtual_stages = 1;
  int zero = 0;
  std::string schedule;
  std::string recompute;
  std::int64_t micro_batch = 1;       // samples of a replica and pass
  std::int64_t passes = 1;            // of a step
  std::optional<std::string> states;  // nothing: nobody stated a format
  bool offload_optimizer = false;
  bool offload_weights = false;
  bool offload_activations = false;
  std::int64_t lora_rank = 0;                                 // 0: everything is trained
  std::optional<std::string> lora_products{};                 // that adapters stand beside; nothing without adapters
  int frozen_bits = 0;                                        // 0: as they are computed with, or as `states` says
  std::vector<std::pair<std::string, std::string>> others{};  // settings that are not their defaults, and values

  [[nodiscard]] std::int64_t global_batch() const { return data * micro_batch * passes; }
};

/// What the fullest GPU holds (plan/memory.h): tensors, and what stands beside them.
struct MemoryLedger {
  DataSize weights{};
  DataSize gradients{};        // that stand when the rest is most
  DataSize gradients_later{};  // made while activations leave: in no sum
  DataSize master{};           // fp32 copies of weights in fewer bits
  DataSize optimizer_state{};
  DataSize weight_casts{};   // 16-bit copies of fp32 weights
  DataSize activations{};    // kept for backward
  DataSize loss{};           // logits and their softmax
  DataSize working{};        // gradients of activations and of one weight
  DataSize buffers{};        // of communication
  DataSize context{};        // CUDA, and communicators
  DataSize slack{};          // held by the allocator
  bool tight = false;        // it fits, and that is less than the allocator usually holds
  std::string rank;          // whose: "stage 0"
  double micro_batches = 1;  // whose activations stand at once
  DataSize capacity{};       // of the GPU
  DataSize host{};           // of a server: states and activations that wait there
  DataSize host_capacity{};  // zero: nobody says

  [[nodiscard]] DataSize tensors() const {
    return weights + gradients + master + optimizer_state + weight_casts + activations + loss + working + buffers;
  }
  [[nodiscard]] DataSize all() const { return tensors() + context + slack; }
};

/// What the job's loader must deliver, and what it can (cost/loader.h).
struct InputPart {
  std::string dataset;                       // its name; empty: nobody says, and the loader keeps up
  std::string loader;                        // in words: "8 workers a GPU"
  double needed_samples_per_second = 0;      // of all GPUs, so that none waits
  Bandwidth needed_copies{};                 // of one server, to its GPUs
  std::optional<double> samples_per_second;  // that the loader makes, for all GPUs; infinity: it has nothing to do
  std::string bound_by;                      // its slowest stage; empty: nothing binds
  double from_storage = 0;                   // share of the samples
  double from_servers = 0;                   // share that other servers' memory has
  Time exposed{};                            // of a step
  std::string note;                          // of the prediction's: that the loader is taken to keep up
};

/// What a GPU draws, and how far its clocks fall (cost/power.h).
struct PowerPart {
  Power working{};      // mean while kernels run
  Power idle{};         // where none does
  Power limit{};        // what it may draw
  double slowdown = 1;  // how many times as long kernels bound by arithmetic take, as clocks fall to the limit
};

struct Prediction {
  Fidelity fidelity = Fidelity::kAnalytic;
  std::string architecture;  // where the weights live, in the words of Wang et al.
  std::int64_t gpus = 1;
  std::int64_t batch_per_gpu = 1;
  std::string sample;  // what a sample is
  std::string model;   // its name
  std::string precision;
  std::string optimizer;
  std::string gpu_links = "NVLink";  // what joins a server's GPUs, in words: traffic and bottlenecks call it nvlink
  Split split;
  std::optional<std::int64_t> tokens_per_sample;  // of language models
  Work model_work{};                              // FLOPs of a step of all GPUs, forward and backward, nothing twice
  Time step_time{};
  Breakdown breakdown;
  double throughput_samples_per_second = 0;
  /// throughput / (GPUs x throughput of one GPU at the same batch). That GPU does by itself what the GPUs of a replica
  /// do: it has the whole model, but of experts that replicas share (parallel.expert) a replica's part alone, with as
  /// many rows for each, so that it neither reads nor sums up others'; it updates no more than a GPU of the job.
  double scaling_efficiency = 1;
  std::string bottleneck;  // the resource that shortens the step most when 10 % faster; "unexplained": what measured
                           // runs took beyond the model (whatif/own_runs.h)
  std::pair<Time, Time> interval_90;
  Provenance provenance = Provenance::kAssumed;
  std::vector<LinkTraffic> traffic;
  DataSize memory_per_gpu{};  // tensors: what torch.cuda.max_memory_allocated reports
  InputPart input;
  MemoryLedger memory;          // the same and what stands beside, taken apart
  bool memory_complete = true;  // false: a lower bound
  std::optional<bool> fits;     // nothing when the bound does not decide it
  double mfu = 0;               // model FLOPs / (step time x peak); above 1 where kernels execute fewer (Winograd)
  double hfu = 0;  // FLOPs that kernels execute, likewise: more with recomputation; fewer, and a note says why, where
                   // Winograd's run, and as no kernel makes the gradient of the model's input
  std::optional<std::pair<Time, Time>> bounds;  // aggregate: ideal overlap, no overlap
  std::vector<Segment> critical_path;
  std::optional<PowerPart> power;    // where somebody measured what its work draws
  std::optional<PriceRate> price;    // of the whole cluster, spares too
  std::optional<Training> training;  // where a run's length is stated
  std::optional<Goodput> goodput;    // where somebody says how often something fails
  std::vector<std::string> notes;

  [[nodiscard]] std::optional<double> tokens_per_second() const {
    if (!tokens_per_sample) return std::nullopt;
    return throughput_samples_per_second * static_cast<double>(*tokens_per_sample);
  }
  /// Of model FLOPs.
  [[nodiscard]] ComputeRate rate_per_gpu() const { return model_work / step_time / static_cast<double>(gpus); }
};

/// One alternative beside a baseline.
struct Alternative {
  std::string name;
  std::vector<std::pair<std::string, std::string>> changes;  // path, value
  double speedup = 1;                                        // throughput against the baseline's
  std::pair<double, double> speedup_interval_90{1, 1};       // whatif/ratio.h
  double probability_faster = 0;
  Prediction prediction;
};

struct Comparison {
  std::string title;  // the baseline in words
  Prediction baseline;
  std::vector<Alternative> alternatives;
  bool ranked = false;               // "what would help most": best first
  std::vector<std::string> skipped;  // upgrades that could not be tried, with the reason
};

}  // namespace ddlsim::answer
