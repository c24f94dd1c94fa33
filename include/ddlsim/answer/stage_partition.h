// What a partition of a model into stages with replicas of their own answers with (whatif/stage_partition.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ddlsim/support/units.h"

namespace ddlsim::answer {

struct PartitionStage {
  std::string first;  // layer
  std::string last;
  std::int64_t layers = 0;
  std::int64_t replicas = 1;
  std::string gpu;     // its name; of several the slowest is waited for: all are named
  Time time{};         // between two micro-batches that leave the stage
  DataSize weights{};  // of one replica
  /// Of one GPU of it, where the ledger counts such stages.
  std::int64_t versions = 1;     // of the weights, that are stashed
  std::optional<DataSize> held;  // all versions, gradients, states and activations, with context and allocator
  DataSize capacity{};           // of the smallest of its GPUs
  std::optional<bool> fits;      // nothing: `held` is a lower bound that does not decide it
};

struct PartitionChoice {
  std::string title;
  std::vector<PartitionStage> stages;
  std::int64_t batch = 1;  // samples of a micro-batch
  std::string sample;
  Time slowest{};        // between two micro-batches that leave the pipeline
  Time data_parallel{};  // one stage on all GPUs, by the same equation
  Time alone{};          // one GPU of the fastest kind
  std::vector<std::string> notes;
};

}  // namespace ddlsim::answer
