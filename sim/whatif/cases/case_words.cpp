#include "cases/case_words.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "cases/case_degrees.h"
#include "cases/case_scenario.h"
#include "cases/case_strategy.h"
#include "cases/case_text.h"
#include "cases/language_case.h"
#include "ddlsim/support/edit_distance.h"

namespace ddlsim::whatif {
namespace {

/// Families that share gradients, and what says that nobody knows.
constexpr auto kShared = std::to_array<std::string_view>(
    {"", "single", "ps", "ps-single-node", "allreduce", "ddp", "dp", "collective", "sharding", "horovod", "byteps",
     "deepspeed", "apex", "replicated", "not stated", "not known", "unstated", "unknown"});

/// Words of families that split models: "tp-pp-dp", "fsdp/zero3", "zero-2", "tp2-pp4".
constexpr auto kSplit = std::to_array<std::string_view>(
    {"tp",       "pp",       "dp",       "cp",         "ep",         "etp",      "sp",
     "vp",       "mp",       "fsdp",     "hsdp",       "ddp",        "zero",     "deepspeed",
     "sharding", "dcn_fsdp", "ici_fsdp", "ici_expert", "ici_tensor", "dcn_data", "ici_data"});

bool is_known_family(std::string_view family) {
  if (std::find(kShared.begin(), kShared.end(), family) != kShared.end()) return true;
  if (family.starts_with("embedding model parallel")) return true;
  for (std::size_t begin = 0; begin <= family.size();) {
    const std::size_t end = std::min(family.find_first_of("-+/ ", begin), family.size());
    const std::string_view word = family.substr(begin, end - begin);
    const std::string_view name = word.substr(0, word.find_first_of("=,0123456789"));  // "tp2" and "tp=2," are tp
    if (!name.empty() && std::find(kSplit.begin(), kSplit.end(), name) == kSplit.end()) return false;
    begin = end + 1;
  }
  return true;
}

void add_architecture(const io::Case& one, std::vector<std::string>& unread) {
  const std::string family = architecture_family(one);
  const std::string said = one.architecture.substr(0, 60);
  constexpr auto kDegrees = std::to_array<std::string_view>({"tp", "pp", "cp", "ep", "fsdp", "zero_stage", "zero"});
  const bool in_extra =
      std::any_of(kDegrees.begin(), kDegrees.end(), [&](std::string_view key) { return one.said(key).has_value(); });
  if (!is_known_family(family) && !in_extra) {
    unread.push_back(
        fmt::format("architecture '{}' is not known, and taken as data parallel (known: single, ddp, allreduce, ps, "
                    "ps-single-node, "
                    "collective, or a split as fsdp, zero, tp-pp-dp)",
                    said));
  } else if (family == "single" && one.total_gpus > 1) {
    unread.push_back(fmt::format("architecture '{}' of {} GPUs, taken as data parallel", said, one.total_gpus));
  }
}

/// Keys of `extra` that are read.
constexpr auto kRead = std::to_array<std::string_view>({"activation",
                                                        "activation_checkpointing",
                                                        "activation_function",
                                                        "activation_offload",
                                                        "all_reduce_spec",
                                                        "allreduce",
                                                        "attention",
                                                        "attention_backend",
                                                        "backend",
                                                        "batch_size",
                                                        "bucket_cap_mb",
                                                        "calls",
                                                        "chunks",
                                                        "channels_last",
                                                        "comm_hook",
                                                        "compile",
                                                        "compression",
                                                        "container",
                                                        "cp",
                                                        "cp_comm",
                                                        "cp_kind",
                                                        "cpu_offload",
                                                        "cuda_graph",
                                                        "cuda_graphs",
                                                        "dali",
                                                        "data",
                                                        "data_format",
                                                        "date",
                                                        "decoder_layers",
                                                        "dense_layers",
                                                        "dispatcher",
                                                        "dp",
                                                        "dropout",
                                                        "encoder_layers",
                                                        "ep",
                                                        "etp",
                                                        "experts",
                                                        "ffn",
                                                        "ffn_dim_multiplier",
                                                        "finetuning_type",
                                                        "flash_attention",
                                                        "fp16_allreduce",
                                                        "framework_version",
                                                        "frozen",
                                                        "fsdp",
                                                        "fused",
                                                        "global_batch",
                                                        "grad_accum",
                                                        "grad_dtype",
                                                        "gradient_compression",
                                                        "graph_kernel_fusion",
                                                        "head",
                                                        "head_dim",
                                                        "heads",
                                                        "hfu_printed",
                                                        "hidden",
                                                        "hybrid_layer_pattern",
                                                        "image_size",
                                                        "instance",
                                                        "job",
                                                        "kernels",
                                                        "kv_heads",
                                                        "kv_lora_rank",
                                                        "launch_blocking",
                                                        "layers",
                                                        "layers_per_stage",
                                                        "layout",
                                                        "liger_kernel",
                                                        "load_in_4bit",
                                                        "load_in_8bit",
                                                        "local_sgd",
                                                        "lora_rank",
                                                        "lora_targets",
                                                        "mamba_groups",
                                                        "mamba_head_dim",
                                                        "mamba_heads",
                                                        "mamba_state_dim",
                                                        "memory_bytes_per_gpu",
                                                        "memory_format",
                                                        "memory_is",
                                                        "method",
                                                        "micro_batch",
                                                        "mlp",
                                                        "moe_ffn",
                                                        "moe_shared_ffn",
                                                        "multiple_of",
                                                        "nccl",
                                                        "num_ps",
                                                        "offload",
                                                        "offload_optimizer",
                                                        "optimizer",
                                                        "optimizer_sharding",
                                                        "overlap_grad_reduce",
                                                        "p2p_disabled",
                                                        "param_offload",
                                                        "patch",
                                                        "peft",
                                                        "phase",
                                                        "powersgd_rank",
                                                        "pp",
                                                        "ps_colocated",
                                                        "quantization",
                                                        "q_lora_rank",
                                                        "qk_head_dim",
                                                        "qk_rope_head_dim",
                                                        "recompute",
                                                        "recompute_layers",
                                                        "resolution",
                                                        "schedule",
                                                        "seq_len",
                                                        "seq_len_dec",
                                                        "sequence_parallel",
                                                        "setup",
                                                        "shard_ranks",
                                                        "sharding",
                                                        "size_bytes",
                                                        "states",
                                                        "strategy",
                                                        "task",
                                                        "tf32",
                                                        "tie_word_embeddings",
                                                        "tokenizer",
                                                        "tokens_per_sample",
                                                        "top_k",
                                                        "torch_dtype",
                                                        "train_type",
                                                        "tp",
                                                        "train_samples",
                                                        "transformer_engine",
                                                        "transport",
                                                        "tuning",
                                                        "unit",
                                                        "use_nccl",
                                                        "v_head_dim",
                                                        "variable_update",
                                                        "variant",
                                                        "vocab",
                                                        "vp",
                                                        "workers_per_server",
                                                        "xla",
                                                        "zero",
                                                        "zero_stage"});

/// Notes of the tables here that lie as near as slips do.
constexpr auto kNotes =
    std::to_array<std::string_view>({"local_batch", "mfu_printed", "packed", "shaping", "status", "update"});

constexpr std::size_t kShortest = 5;  // shorter keys lie near each other without a slip
constexpr std::size_t kLongest = 64;  // the distance is quadratic
constexpr std::size_t kMostSlips = 2;

/// The key that another one is a slip for; empty: none.
std::string_view meant_by(std::string_view key) {
  if (key.size() < kShortest || key.size() > kLongest) return {};
  if (std::find(kNotes.begin(), kNotes.end(), key) != kNotes.end()) return {};
  std::string_view meant;
  std::size_t least = std::min(kMostSlips, key.size() / 3) + 1;
  const auto look_at = [&](std::string_view other) {
    if (std::max(key.size(), other.size()) - std::min(key.size(), other.size()) >= least) return;
    const std::size_t distance = edit_distance(key, other);
    if (distance >= least) return;
    least = distance;
    meant = other;
  };
  for (const std::string_view other : kRead) look_at(other);
  for (const std::string_view other : io::other_extra_keys()) look_at(other);
  return meant;
}

}  // namespace

bool fits_global_batch(const io::Case& one) {
  const auto global = count_of(one, "global_batch");
  if (!global) return true;
  const std::int64_t share = *global / one.total_gpus;  // of a GPU
  return *global % one.total_gpus == 0 && share % one.batch_per_gpu.value_or(1) == 0;
}

std::vector<std::string> unread_words(const io::Case& one) {
  std::vector<std::string> unread;
  add_architecture(one, unread);
  const std::string family = architecture_family(one);
  const bool shares = std::find(kShared.begin(), kShared.end(), family) != kShared.end() && family != "collective";
  if (shares && !gives_sizes(one) && !one.said("grad_accum") && !fits_global_batch(one)) {
    unread.push_back(fmt::format("extra: global_batch {} is no multiple of {} on each of {} GPUs",
                                 one.said("global_batch")->substr(0, 60), one.batch_per_gpu.value_or(1),
                                 one.total_gpus));
  }
  if (family != "collective") {
    for (std::string& word : unread_exchange_words(one)) unread.push_back(std::move(word));
  }
  for (const auto& [key, value] : one.extra) {
    const std::string folded = lower_case(key);
    if (std::find(kRead.begin(), kRead.end(), folded) != kRead.end()) continue;
    const std::string_view meant = meant_by(folded);
    if (meant.empty()) continue;
    unread.push_back(fmt::format("extra: nothing reads '{}'; did you mean '{}'?", key.substr(0, 60), meant));
  }
  return unread;
}

}  // namespace ddlsim::whatif
