// Step times out of the logs that training programs write.
//
// The first line that looks like one decides whose log it is; other lines are passed over, MLPerf's too among steps of
// Megatron-LM, NeMo or torchtitan:
//   megatron     "iteration 100/ 500 | ... | elapsed time per iteration (ms): 5432.1 | ... global batch size: 1024 |",
//                with "world size: 64", "data-parallel size: 8", "tensor-model-parallel size: 4" and its kind, and
//                "micro_batch_size .... 1" from its start; of its arguments those that say how the model was split and
//                scheduled (as `import megatron` reads them), recomputed and in what precision. "(s): 5.21" too
//                (BigScience's Megatron-DeepSpeed). Of a batch that ramps up (log_ramp.h) the steps of the last,
//                largest one count
//   nemo         "... global_batch_size: 128 | ... | train_step_timing in s: 2.345", also in bars of progress that
//                carriage returns draw over each other; a bar of the same global_step counts once. GPUs by Lightning's
//                "All distributed processes registered. Starting with 16 processes"
//   torchtitan   "2025-03-12 11:10:21,511 - root - INFO - step: 22 loss: ...": the time between two lines over the
//                steps between them (of several ranks' lines of one step the first counts); where the clock goes back,
//                neither that interval nor the next is one of steps; GPUs and the split by "Building 1-D device mesh
//                with ['dp_shard'], [16]", or its newer "device mesh with parallelism: pp=1, ..."; batches by "with
//                local batch size 8, global batch size 64"
//   mlperf       ":::MLLOG {...}": tracked_stats with train_step_time (s), or with throughput (samples/s) under the
//                global_batch_size; else block_start to block_stop by the samples_count of both; else epoch_start to
//                epoch_stop, by samples_count or over ceil(train_samples / global_batch_size) steps (floor, where
//                drop_last is true), or the part of them that both ends' epoch_num says (importers' log_mlperf.h).
//                Numbers may be in quotes. The split by micro_batch_size, tensor_parallelism and the like. One
//                submission_benchmark, and one run_start unless the second goes on where the first was
//   huggingface  "{'train_runtime': 100.0, ..., 'train_steps_per_second': 2.0, ...}" at the Trainer's end: the run's
//                mean, as one step
// The first tenth of the steps, two at least where there are more, is warm-up and left out, of two the first; the run's
// step is the median of the others.
//
// Worked example: steps of 9, 9, 2, 2.1, 2.2 s: two are left out, the step is 2.1 s.
//
// Limits: a log says little of the job. GPUs and nodes must be stated where it does not name them. Whatever lies
// between steps (evaluation, checkpoints) is in torchtitan's, in MLPerf's epochs and in Hugging Face's mean, start-up
// too; the median leaves it out of torchtitan's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "ddlsim/support/choices.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"

namespace ddlsim::importers {

enum class LogFormat { kMegatron, kNemo, kTorchtitan, kMlperf, kTrainer };

inline constexpr Choices<LogFormat, 5> kLogFormats{{{"megatron", LogFormat::kMegatron},
                                                    {"nemo", LogFormat::kNemo},
                                                    {"torchtitan", LogFormat::kTorchtitan},
                                                    {"mlperf", LogFormat::kMlperf},
                                                    {"huggingface", LogFormat::kTrainer}}};

struct TrainingLog {
  LogFormat format = LogFormat::kMegatron;
  std::vector<Time> steps;                   // in order, warm-up included
  std::optional<std::int64_t> gpus;          // world size
  std::optional<std::int64_t> global_batch;  // samples of a step
  std::optional<std::int64_t> batch;         // samples of a replica and pass
  std::optional<std::int64_t> replicas;      // data-parallel size
  std::optional<std::int64_t> tensor;        // ranks of these groups, as the next two
  std::optional<std::int64_t> pipeline;
  std::optional<std::int64_t> context;
  std::optional<std::int64_t> expert;
  std::optional<std::int64_t> expert_tensor;  // that an expert is cut over; nothing: as other layers
  std::optional<std::int64_t> virtual_stages;
  std::string schedule;            // 1f1b or interleaved; empty: not said, or no pipeline
  std::optional<bool> sequence;    // sequence parallelism
  std::optional<bool> shards;      // a distributed optimizer: zero 1
  std::string recompute;           // none, selective or full; empty: not said, as the next
  std::string precision;           // fp8, bf16, fp16 or fp32
  std::vector<std::string> notes;  // "line 7: ...": what was left out, and why

  [[nodiscard]] std::size_t warm_up() const;
  /// Median after the warm-up.
  [[nodiscard]] Time step() const;
  /// 5th and 95th percentile, likewise.
  [[nodiscard]] std::pair<Time, Time> spread() const;
};

/// Errors, with the line: a log without step lines, whose steps are no times above zero, whose batch or samples are no
/// numbers above zero, or of several jobs (two world sizes, splits, benchmarks, or global batches that are no ramp-up;
/// Megatron's, torchtitan's or MLPerf's steps that begin again).
[[nodiscard]] Expected<TrainingLog> read_log(std::istream& stream, const std::string& file);
/// The same of a file, also packed with gzip. Errors: kIo, and kParse for gzip that is cut short or damaged.
[[nodiscard]] Expected<TrainingLog> load_log(const std::filesystem::path& path);

}  // namespace ddlsim::importers
