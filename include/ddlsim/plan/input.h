// Where a job's samples come from, and what makes batches of them.
//
// Nothing said: the loader is taken to keep up, and only the copy of a batch to its GPU is counted. With a data set the
// whole way counts: storage, caches in memory, workers, processors, a queue of batches made ahead (cost/loader.h has
// the equations; what a server has is hardware/host.h). Every server reads a part of its own of each epoch, drawn
// anew, as DistributedSampler does.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "ddlsim/support/choices.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/stated.h"
#include "ddlsim/support/units.h"
#include "ddlsim/workload/dataset.h"

namespace ddlsim::plan {

enum class Loader {
  kWorkers,    // processes; each reads a sample, then decodes it, and makes a batch of its own (PyTorch's DataLoader)
  kPipelined,  // threads of one process that share every batch; reading runs beside decoding (DALI, tf.data)
};

inline constexpr Choices<Loader, 5> kLoaders{{
    {"workers", Loader::kWorkers},
    {"pipelined", Loader::kPipelined},
    {"pytorch", Loader::kWorkers},
    {"dali", Loader::kPipelined},
    {"tf.data", Loader::kPipelined},
}};

/// What a server's memory keeps of the data set.
enum class CachePolicy {
  kPage,         // what was read last (the operating system's page cache, taken as LRU)
  kPinned,       // what came first, for good (MinIO of Mohan et al. 2021)
  kPartitioned,  // pinned, each server another part; what another one has comes over the network
  kNone,         // everything is read from storage
  kAll,          // everything is in memory, however much that is: a warm run
};

inline constexpr Choices<CachePolicy, 6> kCachePolicies{{
    {"page", CachePolicy::kPage},
    {"pinned", CachePolicy::kPinned},
    {"partitioned", CachePolicy::kPartitioned},
    {"none", CachePolicy::kNone},
    {"all", CachePolicy::kAll},
    {"lru", CachePolicy::kPage},
}};

enum class Epoch { kFirst, kLater };

inline constexpr Choices<Epoch, 2> kEpochs{{{"first", Epoch::kFirst}, {"later", Epoch::kLater}}};

enum class DecodeOn { kCpu, kGpu };

inline constexpr Choices<DecodeOn, 2> kDecodeOn{{{"cpu", DecodeOn::kCpu}, {"gpu", DecodeOn::kGpu}}};

/// Of a V100: ResNet-50 in TensorFlow with XLA takes 0.023, 0.042 and 0.069 ms longer for a sample with DALI than with
/// synthetic images, on 1, 4 and 8 GPUs (Oneflow-Inc/DLPerf). Another GPU is another. That ResNet-18 loses half its
/// speed to it (Mohan et al. 2021) does not follow: 0.5 ms are refuted by OneFlow's ResNet-50, which decodes on a V100
/// and takes 0.68 ms for a sample in all.
inline constexpr Time kDefaultGpuDecode = milliseconds(0.045);
inline constexpr DataSize kDecodedImage = bytes(114660);  // models/datasets/imagenet.yaml

/// Of one process' threads: what each core does less for every other one, as fits of Synergy's curves have it (0.03 to
/// 0.08 of four models; test/unit/calib/loader_fit_test.cpp).
inline constexpr double kDefaultContention = 0.05;

struct Input {
  std::shared_ptr<const workload::Dataset> dataset;  // null: nobody says, the loader keeps up
  Stated<Loader> loader = by_default(Loader::kWorkers);
  /// Of one GPU; nothing: as many as its server has hardware threads for each of the job's GPUs. 0: the process that
  /// trains loads as well, and the GPU waits.
  Stated<std::optional<std::int64_t>> workers{};
  Stated<std::int64_t> prefetch = by_default(std::int64_t{2});  // batches ahead: of each worker; pipelined: in all
  Stated<CachePolicy> cache = by_default(CachePolicy::kPage);
  Stated<std::optional<DataSize>> cache_size{};  // of one server; nothing: all its memory
  Stated<Epoch> epoch = by_default(Epoch::kLater);
  Stated<DecodeOn> decode = by_default(DecodeOn::kCpu);
  Stated<Time> gpu_decode = by_default(kDefaultGpuDecode);  // of one sample, on the GPU
  Stated<std::optional<double>> contention{};               // nothing: kDefaultContention if pipelined, else 0
  Stated<std::optional<double>> variation{};                // of a sample's work; nothing: the data set's
  Stated<bool> pinned = by_default(true);                   // batches lie in pinned memory: copies run beside kernels

  /// Of a sample on the GPU: as stated, else kDefaultGpuDecode in proportion to its bytes, which is of an ImageNet
  /// image. Requires a data set.
  [[nodiscard]] Time gpu_decode_of() const {
    return gpu_decode.stated() ? gpu_decode.get() : gpu_decode.get() * (dataset->stored / kDecodedImage);
  }

  [[nodiscard]] double contention_of() const {
    return contention->value_or(loader.get() == Loader::kPipelined ? kDefaultContention : 0.0);
  }
};

struct Job;

/// Samples that one server makes ready for a pass, and how many processes of it do so: of a split model, one of each
/// replica.
struct ServerInput {
  double samples = 0;
  double processes = 1;
};
[[nodiscard]] ServerInput server_input(const Job& job);

/// Errors: kInvalidArgument for a data set without what reads it (processors, storage, memory), larger than the storage
/// holds, or with fewer batches than there are workers.
[[nodiscard]] Expected<void> check_input(const Job& job);

}  // namespace ddlsim::plan
