#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "launch.h"

namespace ddlsim::importers::launch {
namespace {

constexpr std::array<std::string_view, 29> kPassedKeys{
    "compute_environment",
    "debug",
    "machine_rank",
    "main_process_ip",
    "main_process_port",
    "main_training_function",
    "rdzv_backend",
    "same_network",
    "tpu_env",
    "tpu_use_cluster",
    "tpu_use_sudo",
    "use_cpu",
    "enable_cpu_affinity",
    "gpu_ids",
    "num_cpu_threads_per_process",
    "downcast_bf16",
    "commands",
    "command_file",
    "tpu_name",
    "tpu_zone",
    "fsdp_config.fsdp_auto_wrap_policy",
    "fsdp_config.fsdp_transformer_layer_cls_to_wrap",
    "fsdp_config.fsdp_state_dict_type",
    "fsdp_config.fsdp_sync_module_states",
    "fsdp_config.fsdp_use_orig_params",
    "fsdp_config.fsdp_cpu_ram_efficient_loading",
    "fsdp_config.fsdp_min_num_params",
    "deepspeed_config.deepspeed_multinode_launcher",
    "deepspeed_config.zero3_init_flag",
};

class AccelerateReader {
 public:
  AccelerateReader(const io::Node& root, Builder& out) : in_(root, out), out_(out) {}

  void read() {
    read_cluster();
    const auto kind = in_.find("distributed_type");
    const std::string type = in_.word(kind);
    fsdp_ = type == "fsdp" || (type.empty() && in_.has("fsdp_config"));
    const bool deepspeed = type == "deepspeed";
    const bool plain = type == "multi_gpu" || type == "no" || type.empty();
    if (!fsdp_ && !deepspeed && !plain) {
      out_.fault(
          fmt::format("'{}'", kind.words), kind.where(),
          {"FSDP, DEEPSPEED, MULTI_GPU and NO are read; of MEGATRON_LM import the arguments: ddlsim import megatron"},
          ErrorCode::kUnsupported);
      return;
    }
    read_precision();
    if (fsdp_) read_fsdp();
    read_parallelism();
    if (deepspeed) read_deepspeed_part();
    assume_software(deepspeed ? "hf trainer deepspeed" : "hf trainer", out_);
    if (!deepspeed) out_.assume("software.optimizer", "foreach", "PyTorch's own AdamW, unless the script fuses it");
    if (plain && half_) out_.assume("software.operators", "autocast", "accelerate runs the model under torch.autocast");
    out_.ask("batch", "the training script decides: samples of a micro-batch?");
    for (const std::string_view key : kPassedKeys) {
      if (in_.find(key)) out_.pass_by();
    }
    in_.rest([&](const std::string& path, const io::Node& node) {
      if (node.kind == io::NodeKind::kScalar &&
          (node.text == "false" || node.text == "no" || node.text == "none" || node.text.empty())) {
        out_.pass_by();
      } else {
        out_.leave_out(fmt::format("{} = {}", path, node.kind == io::NodeKind::kScalar ? node.text : "[...]"),
                       in_.no_rule(path), node.where);
      }
    });
  }

 private:
  void read_cluster() {
    const auto machines = in_.find("num_machines");
    const auto processes = in_.find("num_processes");
    const auto servers = in_.count(machines);
    const auto gpus = in_.count(processes);
    if (servers) out_.set("nodes", *servers, machines.words, machines.where());
    if (servers && gpus && *gpus % *servers != 0) {
      out_.fault(fmt::format("'{}' is no multiple of '{}'", processes.words, machines.words), processes.where());
    } else if (servers && gpus) {
      out_.set("gpus_per_node", *gpus / *servers, processes.words + " on them", processes.where());
    }
  }

  void read_precision() {
    const auto found = in_.find("mixed_precision");
    const std::string kind = found ? in_.word(found) : "no";
    const SourceLocation where = found ? found.where() : SourceLocation{};
    const std::string words = found ? found.words : "no mixed_precision";
    if (kind == "bf16" || kind == "fp16" || kind == "fp8") {
      out_.set("precision", kind, words, where);
      half_ = kind != "fp8";
    } else if (kind == "no" || kind == "false") {
      out_.set("precision", "fp32", words, where);
    } else {
      out_.fault(fmt::format("'{}'", words), where, {"valid: no, fp16, bf16, fp8"});
    }
    if (fsdp_) {
      out_.assume("parallel.states", "fp32", "FSDP of accelerate keeps weights, gradients and states in float32");
      if (kind == "bf16" || kind == "fp16") {
        out_.assume("strategy.gradients", kind, "and casts weights and gradients to that format before it sends them");
      }
    }
  }

  void read_fsdp() {
    const auto version = in_.find("fsdp_config.fsdp_version");
    const bool second = in_.count(version).value_or(1) == 2;
    const auto strategy = in_.find("fsdp_config.fsdp_sharding_strategy");
    const auto reshard = in_.find("fsdp_config.fsdp_reshard_after_forward");
    if (second) {
      const std::string how = reshard ? in_.word(reshard) : "true";
      if (how == "true" || how == "false") {
        out_.set("parallel.zero", 3, version.words, version.where());
        out_.set("parallel.reshard", how == "true" ? "yes" : "no",
                 reshard ? reshard.words : "fsdp_reshard_after_forward = true, its default",
                 reshard ? reshard.where() : version.where());
      } else {
        out_.fault(fmt::format("'{}'", reshard.words), reshard.where(), {"valid with fsdp_version 2: true, false"});
      }
      if (strategy) out_.leave_out(strategy.words, "fsdp_version 2 does not look at it", strategy.where());
    } else {
      // Version 1 takes a sharding strategy under either name.
      read_strategy(strategy ? strategy : reshard);
    }
    read_prefetch();
    const auto host = in_.find("fsdp_config.fsdp_offload_params");
    if (in_.flag(host).value_or(false)) {
      out_.set("parallel.offload_optimizer", "yes", host.words, host.where());
      if (out_.value_of("parallel.zero") == "3") {
        out_.set("parallel.offload_weights", "yes", host.words, host.where());
      } else {
        out_.leave_out(host.words, "weights that are not shared are taken to stay on the GPUs", host.where());
      }
    }
    const auto again = in_.find("fsdp_config.fsdp_activation_checkpointing");
    if (const auto on = in_.flag(again)) {
      out_.set("parallel.recompute", *on ? "full" : "none", again.words, again.where());
      if (*on) out_.assume("parallel.recompute_stops", "yes", "PyTorch's checkpoint stops early since 2.1");
    }
  }

  /// FULL_SHARD and its like, or torch's numbers from 1.
  void read_strategy(const Tree::Found& found) {
    const std::string name = in_.word(found);
    if (!found) {
      out_.assume("parallel.zero", "3", "no fsdp_sharding_strategy: FULL_SHARD is the default");
    } else if (name == "full_shard" || name == "1") {
      out_.set("parallel.zero", 3, found.words, found.where());
    } else if (name == "shard_grad_op" || name == "2") {
      // Weights stay gathered from forward to backward: ZeRO-2's traffic, by all-gather before forward.
      out_.set("parallel.zero", 3, found.words, found.where());
      out_.set("parallel.reshard", "no", found.words, found.where());
    } else if (name == "no_shard" || name == "3") {
      out_.set("parallel.zero", 0, found.words, found.where());
    } else if (name == "hybrid_shard" || name == "4" || name == "hybrid_shard_zero2" || name == "5") {
      out_.set("parallel.zero", 3, found.words, found.where());
      if (name == "hybrid_shard_zero2" || name == "5") out_.set("parallel.reshard", "no", found.words, found.where());
      const std::int64_t inside = out_.gpus_per_node();
      if (inside > 0) {
        out_.set("parallel.shard_ranks", inside, found.words + ": within a server", found.where());
      } else {
        out_.ask("parallel.shard_ranks", found.words + ": GPUs of a server?", found.where());
      }
    } else {
      out_.fault(fmt::format("'{}'", found.words), found.where(),
                 {"valid: FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD, HYBRID_SHARD_ZERO2, or 1 to 5"});
    }
  }

  void read_prefetch() {
    const auto found =
        in_.find_first({"fsdp_config.fsdp_backward_prefetch", "fsdp_config.fsdp_backward_prefetch_policy"});
    const std::string name = in_.word(found);
    if (name == "no_prefetch") {
      out_.set("parallel.prefetch", 0, found.words, found.where());
    } else if (name == "backward_pre") {
      out_.set("parallel.prefetch", 1, found.words, found.where());
    } else if (name == "backward_post") {
      out_.leave_out(found.words, "weights are gathered a layer ahead, as with BACKWARD_PRE", found.where());
    } else if (!name.empty()) {
      out_.fault(fmt::format("'{}'", found.words), found.where(), {"valid: BACKWARD_PRE, BACKWARD_POST, NO_PREFETCH"});
    }
    const auto forward = in_.find("fsdp_config.fsdp_forward_prefetch");
    if (in_.flag(forward).value_or(false)) {
      out_.leave_out(forward.words, "parallel.prefetch holds for both passes", forward.where());
    }
  }

  struct Degree {
    Tree::Found found;
    std::int64_t ranks = 1;
  };

  /// accelerate's ParallelismConfig, whose keys begin with its name again. FSDP shares among data and context ranks
  /// that are no copies (dp_shard_cp); sp is DeepSpeed's Ulysses.
  void read_parallelism() {
    const auto tensor = degree("tp_size");
    const auto ring = degree("cp_size");
    const auto heads = degree("sp_size");
    const auto copies = degree("dp_replicate_size");
    const auto shards = degree("dp_shard_size");
    for (const char* name :
         {"cp_backend", "sp_backend", "sp_seq_length", "sp_seq_length_is_variable", "sp_attn_implementation"}) {
      if (in_parallelism(name)) out_.pass_by();
    }
    if (tensor.found) out_.set("parallel.tensor", tensor.ranks, tensor.found.words, tensor.found.where());
    const Degree& context = heads.ranks > 1 ? heads : ring;
    if (context.found) out_.set("parallel.context", context.ranks, context.found.words, context.found.where());
    if (heads.ranks > 1) {
      out_.set("parallel.context_by", "ulysses", heads.found.words + ": DeepSpeed's is Ulysses", heads.found.where());
    } else if (ring.ranks > 1) {
      out_.assume("parallel.context_by", "ring", "accelerate's context parallelism is PyTorch's ring attention");
    }
    if (const auto way = in_parallelism("cp_comm_strategy"); way && ring.ranks > 1) {
      out_.leave_out(way.words, "keys and values go round in a ring", way.where());
    } else if (way) {
      out_.pass_by();
    }
    const Degree& said = shards.found ? shards : copies;
    if (!said.found) return;
    const std::string words = fmt::format("dp_replicate_size {} x dp_shard_size {}", copies.ranks, shards.ranks);
    out_.set("parallel.data", copies.ranks * shards.ranks, words, said.found.where());
    if (fsdp_ && copies.ranks > 1) {
      const std::string beside = ring.ranks > 1 ? fmt::format(", times {} context ranks", ring.ranks) : "";
      out_.set("parallel.shard_ranks", shards.ranks * ring.ranks, words + beside, said.found.where());
    }
    const std::int64_t all = copies.ranks * shards.ranks * tensor.ranks * context.ranks;
    const std::int64_t processes = in_.count(in_.find("num_processes")).value_or(all);
    if (all > 1 && all != processes) {
      out_.fault(fmt::format("parallelism_config is of {} ranks, num_processes is {}", all, processes),
                 said.found.where(), {"their degrees multiply to the processes"});
    }
  }

  Degree degree(const std::string& name) {
    const auto found = in_parallelism(name);
    constexpr std::int64_t kMostRanks = std::int64_t{1} << 12;  // five of them stay a whole number
    const std::int64_t ranks = in_.count(found).value_or(1);
    if (ranks > kMostRanks) out_.fault(fmt::format("'{}'", found.words), found.where(), {"at most 4096"});
    return {found, std::min(ranks, kMostRanks)};
  }
  Tree::Found in_parallelism(const std::string& name) {
    return in_.find_first({"parallelism_config.parallelism_config_" + name, "parallelism_config." + name});
  }

  void read_deepspeed_part() {
    const auto file = in_.find("deepspeed_config.deepspeed_config_file");
    if (file) {
      out_.fault(fmt::format("'{}': the settings stand in another file", file.words), file.where(),
                 {"import that one: ddlsim import deepspeed FILE.json"});
      return;
    }
    const auto stage = in_.find("deepspeed_config.zero_stage");
    const auto level = in_.count(stage, 0);
    if (!level) {
      out_.assume("parallel.zero", "2", "no zero_stage: accelerate's own");
    } else {
      if (*level > 3) out_.fault(fmt::format("'{}'", stage.words), stage.where(), {"valid: 0, 1, 2, 3"});
      out_.set("parallel.zero", *level, stage.words, stage.where());
    }
    const auto passes = in_.find("deepspeed_config.gradient_accumulation_steps");
    if (Tree::is_auto(passes)) out_.ask("strategy.accumulation", passes.words, passes.where());
    if (const auto count = in_.count(passes)) out_.set("strategy.accumulation", *count, passes.words, passes.where());
    const auto host = in_.find("deepspeed_config.offload_optimizer_device");
    if (in_.word(host) == "cpu") {
      out_.set("parallel.offload_optimizer", "yes", host.words, host.where());
    } else if (in_.word(host) == "nvme") {
      out_.ask("parallel.offload_optimizer", host.words + ": NVMe is not modelled: yes (host memory) or no",
               host.where());
    }
    const auto weights = in_.find("deepspeed_config.offload_param_device");
    const std::string device = in_.word(weights);
    if (weights && device != "none") offload_weights(device, weights.words, weights.where(), out_);
    const auto zero3 = in_.find("deepspeed_config.zero3_save_16bit_model");
    if (zero3) out_.pass_by();
    assume_deepspeed({.stage = level.value_or(2)}, out_);
  }

  Tree in_;
  Builder& out_;
  bool fsdp_ = false;
  bool half_ = false;  // mixed precision of 16 bits
};

}  // namespace

Expected<LaunchImport> accelerate(std::string_view text, const std::string& file, const LaunchOptions& options) {
  const auto document = io::parse_yaml(text, file);
  if (!document) return tl::unexpected<Error>(document.error());
  const bool known =
      document->kind == io::NodeKind::kMap &&
      std::any_of(document->entries.begin(), document->entries.end(), [](const io::Entry& entry) {
        return entry.key == "distributed_type" || entry.key == "fsdp_config" || entry.key == "deepspeed_config";
      });
  if (!known) {
    return fail(ErrorCode::kParse, "no accelerate configuration", {file, 1, 1},
                {"looked for distributed_type, fsdp_config, deepspeed_config"});
  }
  Builder out(options);
  AccelerateReader(*document, out).read();
  return out.finish();
}

}  // namespace ddlsim::importers::launch
