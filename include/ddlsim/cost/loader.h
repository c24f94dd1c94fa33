// How fast a loader makes batches, and what a GPU waits for them.
//
// One GPU's loader has a share of its server: workers w, cores c, storage, memory. A sample has s bytes on disk and d
// decoded; x is the share of the data set that memory keeps, m the share of samples that still come from storage.
//
//   first epoch   m = 1
//   pinned        m = 1 - x                                    what came first stays (MinIO; Mohan et al., VLDB 2021)
//   partitioned   m = 1 - min(1, n x); of the rest (n-1)/n comes from the memory of the n - 1 other servers
//   page          m = (1-x)(1 - ln(1-x))                       LRU, a new random order every epoch, one server
//                 A sample read at share v of one epoch and u of the next has all others but v (1-u) of the set
//                 between; it is still there if that is at most x, and v (1-u) >= 1-x has that probability. n servers
//                 read 1/n of a new order each: a sample comes back after k epochs with probability (1-1/n)^(k-1)/n,
//                 and is still there if (1-A/n)(1-B/n)(1-1/n)^(k-1) >= 1-x, A and B uniform in [0, 1].
//
//   t_read  m (latency + s / stream) + remote s / network      of one reader
//   t_cpu   (decode + augment) / speed + d / hand_over         of one core; with GPU decoding its host's part alone;
//                                                              Python workers augment 1.8 times as long
//   rates of one GPU's loader, in samples/s; the slowest is the loader's
//     storage   min(bandwidth / s, iops / requests) / m        its share; requests = ceil(s / largest), or s / largest
//                                                              in files of many samples, which are read end to end
//     network   bandwidth / ((remote + m) s), m where the storage is read through the servers' ports
//     workers   w / (t_read + t_cpu)                           each reads, then decodes (PyTorch)
//               w / t_read                                     readers of a pipelined loader (DALI, tf.data)
//     cpu       e / t_cpu, e = min(w, c) / (1 + contention (min(w, c) - 1))
//     receive   receive / d                                    the process that trains takes batches out (PyTorch)
// which are the asymptotic bounds of a closed network (Denning and Buzen, ACM Computing Surveys 10(3), 1978).
//   cores     n threads that run fill n cores while there are so many, then `second_thread` of a core each, up to all
//             hardware threads. The process that trains keeps a tenth of one busy (assumed); where GPUs of several
//             servers exchange gradients, each has a thread of its server that moves the messages and spins.
//
// A batch of B samples takes y; a step takes x between two of them. Batches are made ahead into a queue, so that
//   a step takes max(x, y) where nothing varies, x + y without workers.
// Where times vary, the recurrence
//   made(i) = max(made(i-w), taken(i-pw)) + w y f(i);  taken(i) = max(taken(i-1) + x, made(i))
// over 4,096 batches, w workers of p batches ahead that deliver in order, so that one slow batch holds up those behind
// it (head-of-line blocking); f has mean 1 and the samples' deviation over the square root of B, by log-normal draws
// of a fixed seed. A pipelined loader is one worker. sim/events simulates the same (events/input.h).
//
// Sources: Mohan et al., Analyzing and Mitigating Data Stalls in DNN Training, VLDB 2021; Murray et al., tf.data, VLDB
// 2021. Limits: Linux keeps two lists, not one, and misses less than LRU: 35 % of ImageNet cached, 85 % are read by
// DALI's shuffling where LRU says 93 and pinning 65; several jobs that read one storage: each has the share it is
// given; reading ahead is perfect; NUMA costs nothing; a network that carries samples carries gradients as if it did
// not.
//
// Worked example (test/unit/cost/loader_test.cpp): ImageNet, 114,660 bytes, from a SATA SSD of 530 MB/s, 35 % pinned:
// 530e6 / 114,660 / 0.65 = 7,111 samples/s. 3 of 24 cores with speed 0.71: 2.9 / (2.833 ms / 0.71) = 727 samples/s,
// less contention of 5 % 664.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ddlsim/plan/job.h"
#include "ddlsim/support/choices.h"
#include "ddlsim/support/units.h"

namespace ddlsim::cost {

/// Of a core, that the process which trains keeps busy.
inline constexpr double kTrainingCores = 0.1;
/// Of decoding a JPEG, what stays with the host when the GPU does the rest: Huffman codes (assumed).
inline constexpr double kHostShareOfGpuDecode = 0.5;
/// What comes after decoding, in a Python worker over what a data set says, which is TensorFlow's 1.1 ms of an image:
/// torchvision's random crop, resize, flip, conversion and normalisation take 1.97 ms (pytorch/vision issue 7497).
inline constexpr double kPythonAugment = 1.8;
/// What copies from memory that is not pinned reach of those that are (assumed; CUDA C++ Best Practices Guide, 10.1).
inline constexpr double kUnpinnedShare = 0.5;

/// Share of a server's reads that an LRU cache of `cached` of the data set answers, one of `servers` that each read a
/// part of their own of every epoch.
[[nodiscard]] double lru_hit(double cached, std::int64_t servers = 1);

/// Where samples come from; the rest is in the server's own memory.
struct Sourced {
  double storage = 0;
  double remote = 0;  // other servers' memory
};
[[nodiscard]] Sourced sourced(plan::CachePolicy policy, plan::Epoch epoch, double cached, std::int64_t servers);

/// Cores that so many running threads fill on a host.
[[nodiscard]] double filled_cores(const hardware::Host& host, double running);

/// Cores of a host that its loaders have at most while `gpus` train; `messengers` of its threads move messages between
/// servers, which spin while any are under way (NVIDIA/nccl src/proxy.cc, one a GPU; MPI's wait likewise).
[[nodiscard]] double cores_beside_training(const hardware::Host& host, double gpus, double messengers = 0);

/// What makes a sample, whoever does it.
struct LoaderWork {
  plan::Loader loader = plan::Loader::kWorkers;
  DataSize stored{};
  DataSize decoded{};
  Time cpu{};           // of one core of decode_speed 1
  double requests = 1;  // to storage
  Time latency{};       // of them, before and between
  double contention = 0;
};
[[nodiscard]] LoaderWork loader_work(const plan::Input& input, const hardware::Host& host);

/// What one GPU's loader has of its server.
struct LoaderShare {
  double workers = 1;
  double cores = 1;
  double speed = 1;  // decode_speed of one
  Sourced from{};
  Bandwidth storage{};
  Bandwidth stream{};
  std::optional<Rate> iops{};
  Bandwidth network{};
  bool by_network = false;  // to the storage too
  std::optional<Bandwidth> hand_over{};
  std::optional<Bandwidth> receive{};
};
/// Of a job's server, each of its processes alike.
[[nodiscard]] LoaderShare loader_share(const plan::Job& job);

/// What a pass's samples take at least at the rates of storage that somebody stated, with a cache that misses as little
/// as any (pinned). Zero: no rate is stated, nothing is read, or there is no data set. Requires what plan::check_input
/// asks for.
[[nodiscard]] Time least_reading(const plan::Job& job);

enum class LoaderStage : std::uint8_t { kStorage, kNetwork, kWorkers, kCpu, kReceive };

inline constexpr Choices<LoaderStage, 5> kLoaderStages{{
    {"storage", LoaderStage::kStorage},
    {"network", LoaderStage::kNetwork},
    {"workers", LoaderStage::kWorkers},
    {"cpu", LoaderStage::kCpu},
    {"hand-over", LoaderStage::kReceive},
}};

/// Samples per second that each stage of one GPU's loader can pass on; infinity: it has nothing to do.
struct LoaderRates {
  Rate storage = Rate::infinity();
  Rate network = Rate::infinity();
  Rate workers = Rate::infinity();
  Rate cpu = Rate::infinity();
  Rate receive = Rate::infinity();
  Time worker{};  // one worker's time for one sample
  Time work{};    // of which a core is busy

  [[nodiscard]] Rate at(LoaderStage stage) const;
  [[nodiscard]] LoaderStage slowest() const;
  [[nodiscard]] Rate all() const { return at(slowest()); }
};
[[nodiscard]] LoaderRates loader_rates(const LoaderWork& work, const LoaderShare& share);

/// One GPU's batches on their way: how long each stage holds one.
struct BatchPipeline {
  Time storage{};
  Time network{};
  Time cpu{};
  Time receive{};
  Time worker{};              // of one worker from its first read on; storage, network and cpu are part of it
  std::int64_t workers = 1;   // that each make a batch; 0: the GPU waits while one is made
  std::int64_t prefetch = 2;  // batches ahead of each
  double variation = 0;       // of a batch: standard deviation over mean
  bool pipelined = false;     // stages work on different batches; `workers` is 1

  /// Between two batches when the GPU takes none of the time.
  [[nodiscard]] Time interval() const;
};
[[nodiscard]] BatchPipeline batch_pipeline(const LoaderWork& work, const LoaderShare& share, const plan::Input& input,
                                           double samples);

/// What a GPU that takes `consumer` between two batches waits for each, on average.
[[nodiscard]] Time wait_for_batch(const BatchPipeline& pipeline, Time consumer);

/// Numbers with mean 1 and this deviation, log-normal: the same for the same seed and index on every machine.
[[nodiscard]] double varied_share(double deviation, std::uint64_t seed, std::uint64_t index);

}  // namespace ddlsim::cost
