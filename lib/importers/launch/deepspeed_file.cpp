#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "json.h"
#include "launch.h"

namespace ddlsim::importers::launch {
namespace {

/// Sections and keys that leave a step's time as it is, or are looked at through others.
constexpr std::array<std::string_view, 33> kPassed{
    "steps_per_print",
    "wall_clock_breakdown",
    "dump_state",
    "prescale_gradients",
    "gradient_predivide_factor",
    "gradient_clipping",
    "scheduler",
    "tensorboard",
    "wandb",
    "csv_monitor",
    "comet",
    "comms_logger",
    "flops_profiler",
    "autotuning",
    "elasticity",
    "checkpoint",
    "data_types",
    "seed",
    "zero_allow_untested_optimizer",
    "zero_force_ds_cpu_optimizer",
    "memory_breakdown",
    "disable_allgather",
    "load_universal_checkpoint",
    "optimizer.params",
    "fp16.loss_scale",
    "fp16.initial_scale_power",
    "fp16.loss_scale_window",
    "fp16.hysteresis",
    "fp16.min_loss_scale",
    "fp16.consecutive_hysteresis",
    "zero_optimization.stage3_gather_16bit_weights_on_model_save",
    "zero_optimization.stage3_gather_fp16_weights_on_model_save",
    "zero_optimization.load_from_fp32_weights",
};

/// Keys that change a step's time and have no setting.
constexpr std::array kNoSetting{
    Unmodelled{"zero_optimization.zero_quantized_weights", "weights travel in 16 bits (ZeRO++ is not modelled)"},
    Unmodelled{"zero_optimization.zero_quantized_gradients",
               "gradients travel as parallel.states has them (ZeRO++ is not modelled)"},
    Unmodelled{"zero_optimization.zero_hpz_partition_size",
               "no second copy of the weights in a server (ZeRO++ is not modelled)"},
    Unmodelled{"zero_optimization.stage3_max_live_parameters", "parallel.prefetch bounds what is gathered"},
    Unmodelled{"zero_optimization.stage3_max_reuse_distance",
               "parallel.reshard says whether weights are gathered again"},
    Unmodelled{"zero_optimization.stage3_param_persistence_threshold", "small weights are cut as large ones"},
    Unmodelled{"zero_optimization.sub_group_size", "the update is one piece"},
    Unmodelled{"zero_optimization.allgather_bucket_size", "weights are gathered layer by layer"},
    Unmodelled{"zero_optimization.allgather_partitions", "weights are gathered by all-gather"},
    Unmodelled{"zero_optimization.reduce_scatter", "gradients are summed by reduce-scatter"},
    Unmodelled{"zero_optimization.contiguous_gradients", "gradients are one piece of memory"},
    Unmodelled{"zero_optimization.round_robin_gradients", "gradients go to the host in the order of the list"},
    Unmodelled{"activation_checkpointing.partition_activations", "what is kept is not cut over the tensor group"},
    Unmodelled{"activation_checkpointing.contiguous_memory_optimization", "no fragmentation of memory is modelled"},
    Unmodelled{"sparse_attention", "attention is dense"},
    Unmodelled{"curriculum_learning", "sequences are as long as model.sequence says"},
    Unmodelled{"data_efficiency", "sequences are as long as model.sequence says"},
    Unmodelled{"compression_training", "no quantisation or pruning during training"},
    Unmodelled{"amp", "state precision and parallel.states"},
    Unmodelled{"communication_data_type",
               "gradients travel as parallel.states has them; strategy.gradients states another format"},
    Unmodelled{"pipeline",
               "state parallel.pipeline and parallel.schedule; with tensor ranks parallel.scatter_gather too "
               "(yes, unless pipe_partitioned is false)"},
    Unmodelled{"hybrid_engine", "inference is not modelled"},
    Unmodelled{"aio", "no offload to NVMe"},
};

class DeepSpeedReader {
 public:
  DeepSpeedReader(const io::Node& root, Builder& out) : in_(root, out), out_(out) {}

  void read() {
    read_batches();
    read_precision();
    read_zero();
    read_offload();
    read_rest();
    settle_batch();
  }

 private:
  /// A count as a setting; "auto" is asked for.
  std::optional<std::int64_t> taken(std::string_view key, const std::string& path, std::int64_t least = 1) {
    const auto found = in_.find(key);
    if (Tree::is_auto(found)) {
      out_.ask(path, found.words + ": the trainer decides", found.where());
      return std::nullopt;
    }
    const auto value = in_.count(found, least);
    if (value) out_.set(path, *value, found.words, found.where());
    return value;
  }

  /// train_batch_size = micro-batch * accumulation * replicas: two of them are stated, or DeepSpeed takes 1.
  void read_batches() {
    const auto whole = in_.find("train_batch_size");
    const auto micro = taken("train_micro_batch_size_per_gpu", "batch");
    const auto accumulation_found = in_.find("gradient_accumulation_steps");
    const auto accumulation = in_.count(accumulation_found);
    const auto global = in_.count(whole);
    if (global && micro && accumulation) {
      if (*global % (*micro * *accumulation) != 0) {
        out_.fault(fmt::format("'{}' is no multiple of {} x {}", whole.words, *micro, *accumulation), whole.where(),
                   {"train_batch_size = train_micro_batch_size_per_gpu * gradient_accumulation_steps * GPUs"});
      } else {
        out_.set("parallel.data", *global / (*micro * *accumulation), whole.words + " / micro-batch / accumulation",
                 whole.where());
      }
    }
    if (global) {
      out_.set("global_batch", *global, whole.words, whole.where());
    } else if (Tree::is_auto(accumulation_found) && !out_.has("global_batch")) {  // passes follow from that
      out_.ask("strategy.accumulation", accumulation_found.words + ": the trainer decides", accumulation_found.where());
    } else if (accumulation) {
      out_.set("strategy.accumulation", *accumulation, accumulation_found.words, accumulation_found.where());
    }
    if (!out_.has("batch")) {
      out_.ask("batch", global && accumulation ? fmt::format("{} in {} passes: divide it by both and by the replicas",
                                                             whole.words, *accumulation)
                        : global               ? "train_batch_size alone: divide it by the GPUs and the passes per step"
                                               : "no train_micro_batch_size_per_gpu: samples of a micro-batch?");
    }
    const std::int64_t passes = accumulation.value_or(1);
    if (global && !micro && !Tree::is_auto(accumulation_found) && *global % passes == 0) {
      samples_of_pass_ = *global / passes;
      whole_ = whole;
    }
  }

  /// The micro-batch where it follows from a step's samples, its passes and the replicas.
  void settle_batch() {
    if (!samples_of_pass_ || out_.value_of("batch") != kAsked) return;
    const auto ranks = [&](const char* path) { return out_.has(path) ? out_.count_of(path) : 1; };
    std::int64_t replicas = out_.count_of("parallel.data");
    std::string of = fmt::format("{} replicas", replicas);
    if (replicas == 0) {
      const std::int64_t split = ranks("parallel.tensor") * ranks("parallel.context") * ranks("parallel.pipeline");
      replicas = split > 0 && out_.gpus() % split == 0 ? out_.gpus() / split : 0;
      of = fmt::format("{} replicas on {} GPUs", replicas, out_.gpus());
    }
    if (replicas == 0 || *samples_of_pass_ % replicas != 0) return;
    out_.set("batch", *samples_of_pass_ / replicas, fmt::format("{}: of {}", whole_.words, of), whole_.where());
  }

  void read_precision() {
    const auto fp16 = in_.find("fp16.enabled");
    const auto bf16 = in_.find_first({"bf16.enabled", "bfloat16.enabled"});
    const bool half = in_.flag(fp16).value_or(false);
    const bool brain = in_.flag(bf16).value_or(false);
    if (half && brain) {
      out_.fault(fmt::format("both '{}' and '{}'", fp16.words, bf16.words), bf16.where(), {"keep one"});
    }
    if (Tree::is_auto(fp16) || Tree::is_auto(bf16)) {
      const auto& found = Tree::is_auto(bf16) ? bf16 : fp16;
      if (!half && !brain) {
        out_.ask("precision", found.words + ": the trainer decides; bf16, fp16 or fp32", found.where());
      }
    }
    if (half || brain) {
      const auto& found = brain ? bf16 : fp16;
      out_.set("precision", brain ? "bf16" : "fp16", found.words, found.where());
    } else {
      out_.assume("precision", "fp32", "neither fp16 nor bf16 is enabled");
    }
    in_.close("fp16.auto_cast");
  }

  void read_zero() {
    const auto found = in_.find("zero_optimization.stage");
    std::int64_t stage = 0;
    if (Tree::is_auto(found)) {
      out_.ask("parallel.zero", found.words, found.where());
    } else if (const auto value = in_.count(found, 0)) {
      if (*value > 3) out_.fault(fmt::format("'{}'", found.words), found.where(), {"valid: 0, 1, 2, 3"});
      stage = *value;
      out_.set("parallel.zero", stage, found.words, found.where());
    }
    const auto overlap = in_.find("zero_optimization.overlap_comm");
    const auto overlapped = in_.flag(overlap);
    const bool asked = Tree::is_auto(found);
    if (overlapped && (asked || stage > 0)) {
      out_.set("overlap", *overlapped ? "backward" : "none", overlap.words, overlap.where());
    } else if (overlapped.value_or(false)) {
      out_.leave_out(overlap.words, "of no effect without a stage of ZeRO", overlap.where());
    }
    const auto sums = in_.find("data_types.grad_accum_dtype");
    assume_deepspeed({.stage = asked ? std::nullopt : std::optional(stage),
                      .overlapped = overlapped,
                      .wide = in_.word(sums) == "fp32"},
                     out_);
    const auto shards = in_.find("zero_optimization.mics_shard_size");
    if (shards && in_.word(shards) != "-1") {
      if (const auto ranks = in_.count(shards)) out_.set("parallel.shard_ranks", *ranks, shards.words, shards.where());
    }
    const auto bucket = in_.find("zero_optimization.reduce_bucket_size");
    if (Tree::is_auto(bucket)) {
      out_.leave_out(bucket.words, "the trainer decides; strategy.bucket says what is taken", bucket.where());
    } else if (out_.value_of("parallel.states") == kAsked && bucket) {
      out_.ask("strategy.bucket", bucket.words + " elements, of the bytes that precision and parallel.states give one",
               bucket.where());
    } else if (const auto elements = in_.count(bucket)) {
      const std::int64_t width = out_.bytes_of_gradients();
      out_.set("strategy.bucket", fmt::format("{} B", *elements * width),
               fmt::format("{} elements of {} B", bucket.words, width), bucket.where());
    }
    const auto prefetch = in_.find("zero_optimization.stage3_prefetch_bucket_size");
    if (prefetch && stage == 3 && in_.word(prefetch) == "0") {
      out_.set("parallel.prefetch", 0, prefetch.words, prefetch.where());
    } else if (prefetch && stage == 3) {
      out_.leave_out(prefetch.words, "elements; parallel.prefetch counts layers (1 unless stated)", prefetch.where());
    }
  }

  void read_offload() {
    const auto optimizer =
        in_.find_first({"zero_optimization.offload_optimizer.device", "zero_optimization.cpu_offload"});
    const std::string device = in_.word(optimizer);
    if (device == "cpu" || device == "true") {
      out_.set("parallel.offload_optimizer", "yes", optimizer.words, optimizer.where());
    } else if (device == "nvme") {
      out_.ask("parallel.offload_optimizer",
               optimizer.words + ": to host memory (yes) or not at all (no); NVMe is not modelled", optimizer.where());
    } else if (!device.empty() && device != "none" && device != "false") {
      out_.fault(fmt::format("'{}'", optimizer.words), optimizer.where(), {"valid: none, cpu, nvme"});
    }
    const auto weights = in_.find("zero_optimization.offload_param.device");
    const std::string place = in_.word(weights);
    if (place == "cpu" || place == "nvme") offload_weights(place, weights.words, weights.where(), out_);
    in_.close("zero_optimization.offload_param");
    in_.close("zero_optimization.offload_optimizer");
    const auto host = in_.find("activation_checkpointing.cpu_checkpointing");
    if (in_.flag(host).value_or(false)) out_.set("parallel.offload_activations", "yes", host.words, host.where());
    const auto section = in_.find("activation_checkpointing.number_checkpoints");
    if (section || host) {
      out_.ask("parallel.recompute",
               "activation_checkpointing is set up here, the model's code decides: none, selective or full");
    }
  }

  void read_rest() {
    const auto kind = in_.find("optimizer.type");
    const std::string optimizer = in_.word(kind);
    if (optimizer.starts_with("onebit") || optimizer.starts_with("zeroone")) {
      out_.leave_out(kind.words, "strategy.compression=sign is the nearest", kind.where());
    } else if (!optimizer.empty() && optimizer.find("adam") == std::string::npos) {
      out_.leave_out(kind.words, "the optimizer is the model file's", kind.where());
    }
    const auto tensor = in_.find_first({"tensor_parallel.autotp_size", "tensor_parallel.tp_size"});
    if (const auto degree = in_.count(tensor, 0); degree && *degree > 0) {
      out_.set("parallel.tensor", *degree, tensor.words, tensor.where());
    }
    const auto sequence = in_.find_first({"sequence_parallel_size", "sequence_parallel.size"});
    if (const auto degree = in_.count(sequence); degree && *degree > 1) {
      out_.set("parallel.context", *degree, sequence.words, sequence.where());
      out_.set("parallel.context_by", "ulysses", sequence.words + ": DeepSpeed's is Ulysses", sequence.where());
    }
    for (const Unmodelled& row : kNoSetting) {
      const auto found = in_.find(row.name);
      if (found && !is_off(found)) out_.leave_out(found.words, std::string(row.why), found.where());
    }
    for (const std::string_view passed : kPassed) {
      if (in_.find(passed)) out_.pass_by();
      in_.close(std::string(passed));
    }
    in_.rest([&](const std::string& path, const io::Node& node) {
      out_.leave_out(fmt::format("{} = {}", path, node.kind == io::NodeKind::kScalar ? node.text : "[...]"),
                     in_.no_rule(path), node.where);
    });
  }

  static bool is_off(const Tree::Found& found) {
    return found.node->kind == io::NodeKind::kScalar &&
           (found.node->text == "false" || found.node->text == "0" || found.node->text == "1");
  }

  Tree in_;
  Builder& out_;
  std::optional<std::int64_t> samples_of_pass_;  // of all replicas, where no micro-batch is stated
  Tree::Found whole_;
};

}  // namespace

void offload_weights(const std::string& device, const std::string& words, const SourceLocation& where, Builder& out) {
  const std::string zero = out.value_of("parallel.zero");
  if (device == "nvme") {
    out.ask("parallel.offload_weights", words + ": to host memory (yes) or not at all (no); NVMe is not modelled",
            where);
  } else if (zero == "3" && out.value_of("parallel.offload_optimizer") == "yes") {
    out.set("parallel.offload_weights", "yes", words, where);
  } else {
    out.leave_out(words,
                  zero == "3" ? "weights wait on the host with an optimizer there alone: they are taken to stay"
                              : "of stage 3 alone: weights stay on the GPUs",
                  where);
  }
}

// deepspeed/runtime/engine.py, _do_optimizer_sanity_check and get_data_types: ZeRO sums in the weights' format unless
// data_types says otherwise. Without ZeRO states are whole, in fp16 and, since 0.17.6, in bf16 (pull request 7515);
// before that, and where PipelineEngine runs the model, bf16 takes BF16_Optimizer: fp32 sums, states shared as by
// stage 1. Without ZeRO the engine reduces after backward (allreduce_gradients); zero/config.py has overlap_comm.
void assume_deepspeed(const DeepSpeedEngine& engine, Builder& out) {
  const std::string precision = out.value_of("precision");
  const bool sixteen = precision == "bf16" || precision == "fp16";
  const bool whole = engine.stage == 0;
  const bool sharing = precision == "bf16" && whole && (engine.wide || engine.piped);
  if (sharing) {
    const char* const why = "bf16 without ZeRO: DeepSpeed's BF16_Optimizer shares states and sums in fp32";
    out.set("parallel.zero", 1, why, {});
    out.assume("parallel.states", "mixed", why);
    out.assume("strategy.gradients", "bf16", "DeepSpeed sends gradients in the weights' format");
  } else if (precision == kAsked) {
    out.ask("parallel.states", "mixed-16 in bf16 or fp16 (DeepSpeed's gradients are of 16 bits), fp32 in fp32");
  } else if (sixteen && engine.wide) {
    out.assume("parallel.states", "mixed", "data_types.grad_accum_dtype = fp32");
  } else if (sixteen) {
    out.assume("parallel.states", "mixed-16", "DeepSpeed's gradients are of 16 bits unless data_types says otherwise");
  } else if (precision == "fp32") {
    out.assume("parallel.states", "fp32", "DeepSpeed without a format of 16 bits");
  }
  if (precision == "bf16" && whole && !sharing) {
    out.leave_out("bf16 without ZeRO",
                  "states are whole, as since DeepSpeed 0.17.6; before that they are shared: state parallel.zero 1 and "
                  "parallel.states mixed",
                  {});
  }
  if (whole) {
    out.assume("overlap", "none", "DeepSpeed without ZeRO reduces gradients after backward");
  } else if (engine.stage && !engine.overlapped) {
    out.assume("overlap", *engine.stage == 3 ? "backward" : "none",
               fmt::format("no overlap_comm: DeepSpeed's own of stage {}", *engine.stage));
  }
}

void read_deepspeed(const io::Node& root, Builder& out) {
  if (root.kind != io::NodeKind::kMap) {
    out.fault("DeepSpeed's configuration must be an object", root.where, {}, ErrorCode::kParse);
    return;
  }
  DeepSpeedReader(root, out).read();
}

Expected<LaunchImport> deepspeed(std::string_view text, const std::string& file, const LaunchOptions& options) {
  // JSON first, as Python writes it; the tree with places is then that of its YAML, which JSON is a part of.
  if (const auto sound = parse_json_object(text, file, JsonDialect::kPython); !sound) {
    return tl::unexpected<Error>(sound.error());
  }
  const auto document = io::parse_yaml(text, file);
  if (!document) return tl::unexpected<Error>(document.error());
  Builder out(options);
  read_deepspeed(*document, out);
  const auto known = std::any_of(document->entries.begin(), document->entries.end(), [](const io::Entry& entry) {
    return entry.key.starts_with("train_") || entry.key == "zero_optimization" ||
           entry.key == "gradient_accumulation_steps" || entry.key == "fp16" || entry.key == "bf16";
  });
  if (!known && !out.failed()) {
    out.fault("no DeepSpeed configuration", {file, 1, 1},
              {"looked for train_batch_size, train_micro_batch_size_per_gpu, zero_optimization, fp16, bf16"},
              ErrorCode::kParse);
  }
  return out.finish();
}

}  // namespace ddlsim::importers::launch
