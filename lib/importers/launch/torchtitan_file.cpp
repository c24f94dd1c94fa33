#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "ddlsim/importers/training_way.h"
#include "ddlsim/support/quantity_io.h"
#include "launch.h"
#include "toml.h"
#include "torchtitan_schedule.h"

namespace ddlsim::importers::launch {
namespace {

/// As its published runs name it.
constexpr std::string_view kTitan = "torchtitan (pytorch fsdp2)";

/// Models of torchtitan that models/ has, by name and flavour.
struct TitanModel {
  std::string_view name;
  std::string_view flavour;
  std::string_view id;
  std::int64_t blocks;
};
constexpr std::array kTitanModels{
    TitanModel{"llama3", "8b", "llama_3_1_8b", 32},      TitanModel{"llama3", "70b", "llama_3_1_70b", 80},
    TitanModel{"llama3", "405b", "llama_3_1_405b", 126}, TitanModel{"deepseek_v3", "671b", "deepseek_v3", 61},
    TitanModel{"qwen3", "8b", "qwen3_8b", 36},
};

constexpr std::array<std::string_view, 29> kPassedSections{
    "job",
    "profiling",
    "metrics",
    "optimizer",
    "lr_scheduler",
    "checkpoint",
    "validation",
    "comm",
    "experimental.custom_import",
    "experimental.custom_args_module",
    "fault_tolerance",
    "debug",
    "model.hf_assets_path",
    "model.tokenizer_path",
    "model.print_after_conversion",
    "training.max_norm",
    "training.steps",
    "training.dataset",
    "training.dataset_path",
    "training.seed",
    "training.deterministic",
    "training.gc_freq",
    "training.gc_debug",
    "training.warmup_steps",
    "memory_estimation",
    "activation_checkpoint.early_stop",
    "activation_checkpoint.preserve_rng_state",
    "activation_checkpoint.determinism_check",
    "activation_checkpoint.debug",
};

class TitanReader {
 public:
  TitanReader(const io::Node& root, Builder& out) : in_(root, out), out_(out) {}

  void read() {
    read_model();
    read_degrees();
    read_batches();
    read_precision();
    read_software();
    read_recompute();
    for (const std::string_view section : kPassedSections) {
      if (in_.find(section)) out_.pass_by();
      in_.close(std::string(section));
    }
    in_.rest([&](const std::string& path, const io::Node& node) {
      if (node.kind == io::NodeKind::kScalar && (node.text == "false" || node.text == "1")) {
        out_.pass_by();
      } else {
        out_.leave_out(fmt::format("{} = {}", path, node.kind == io::NodeKind::kScalar ? node.text : "[...]"),
                       in_.no_rule(path), node.where);
      }
    });
  }

 private:
  void read_model() {
    const auto name = in_.find("model.name");
    const auto flavour = in_.find("model.flavor");
    const std::string named = in_.word(name);
    const std::string sized = in_.word(flavour);
    const auto* const row = std::find_if(kTitanModels.begin(), kTitanModels.end(), [&](const TitanModel& known) {
      return known.name == named && known.flavour == sized;
    });
    if (row != kTitanModels.end()) {
      out_.set("model", std::string(row->id), name.words + ", " + flavour.words, flavour.where());
    } else if (name) {
      out_.ask("model", name.words + (flavour ? ", " + flavour.words : std::string()) + ": which model is that here?",
               name.where());
    }
    const auto sequence = in_.find("training.seq_len");
    if (const auto tokens = in_.count(sequence)) out_.set("model.sequence", *tokens, sequence.words, sequence.where());
  }

  /// A degree under `parallelism`, or where older files have it; 1 when it is missing.
  std::int64_t degree(std::string_view name, const std::string& path, std::string_view older = {}) {
    const std::string here = "parallelism." + std::string(name);
    const std::string before = older.empty() ? "training." + std::string(name) : std::string(older);
    const auto found = in_.find_first({here, before, "experimental." + std::string(name)});
    const auto value = in_.count(found);
    if (value && !path.empty()) out_.set(path, *value, found.words, found.where());
    return value.value_or(1);
  }

  /// Experts are whole where nobody says otherwise (torchtitan config/job_config.py).
  void read_expert_tensor(std::int64_t tensor) {
    const auto found = in_.find_first({"parallelism.expert_tensor_parallel_degree"});
    const auto ranks = in_.count(found);
    if (!ranks) {
      out_.assume("parallel.expert_tensor", "1", "torchtitan's expert_tensor_parallel_degree is 1 unless stated");
    } else if (*ranks == 1 || *ranks == tensor) {
      out_.set("parallel.expert_tensor", *ranks, found.words, found.where());
    } else {
      out_.ask("parallel.expert_tensor", found.words + ": 1 or tensor_parallel_degree is modelled", found.where());
    }
  }

  void read_degrees() {
    const std::int64_t tensor = degree("tensor_parallel_degree", "parallel.tensor");
    if (tensor > 1) {
      out_.assume("parallel.sequence", "yes", "torchtitan's tensor parallelism cuts norms along the sequence");
    }
    const std::int64_t context = degree("context_parallel_degree", "parallel.context");
    if (context > 1) out_.assume("parallel.context_by", "ring", "torchtitan's context parallelism is ring attention");
    if (degree("expert_parallel_degree", "parallel.expert") > 1 && tensor > 1) read_expert_tensor(tensor);
    pipeline_ = degree("pipeline_parallel_degree", "parallel.pipeline");
    const auto async =
        in_.find_first({"parallelism.enable_async_tensor_parallel", "experimental.enable_async_tensor_parallel"});
    if (in_.flag(async).value_or(false) && tensor > 1) {
      out_.set("parallel.overlap_tensor", "yes", async.words, async.where());
    }
    read_sharding({.tensor = tensor, .context = context});
    cut_ = tensor > 1 || pipeline_ > 1;
    const auto whole = in_.find("parallelism.disable_loss_parallel");
    if (in_.flag(whole).value_or(false) && tensor > 1) {
      out_.leave_out(whole.words, "the loss is taken of logits that tensor ranks share, they are not gathered",
                     whole.where());
    }
    read_schedule();
  }

  struct Ranks {
    std::int64_t tensor = 1;
    std::int64_t context = 1;
  };

  /// Replicas that share what each of `copies` has, where the degrees leave them so many; 0: nobody says of how many
  /// GPUs.
  [[nodiscard]] std::int64_t left_to_shard(const Ranks& ranks, std::int64_t copies) const {
    const std::int64_t data = out_.count_of("parallel.data");
    if (data > 0 && data % copies == 0) return data / copies;
    const std::int64_t taken = ranks.tensor * ranks.context * pipeline_ * copies;
    return out_.gpus() > 0 && out_.gpus() % taken == 0 ? out_.gpus() / taken : 0;
  }

  void read_sharding(const Ranks& ranks) {
    const std::int64_t copies = degree("data_parallel_replicate_degree", "");
    const auto found = in_.find_first({"parallelism.data_parallel_shard_degree", "training.data_parallel_shard_degree",
                                       "training.data_parallel_degree"});
    const std::int64_t shards = in_.count(found, -1).value_or(-1);  // -1: the GPUs that are left
    const std::string words = found ? found.words : std::string("data_parallel_shard_degree = -1, torchtitan's own");
    const SourceLocation where = found ? found.where() : SourceLocation{};
    if (shards == 0) {
      out_.fault(fmt::format("'{}'", words), where, {"a degree from 1, or -1 for the GPUs that are left"});
    }
    if (shards > 0) out_.set("parallel.data", shards * copies, fmt::format("{}, {} copies", words, copies), where);
    // ParallelDims.fsdp_enabled: where replicas or context ranks share.
    const std::int64_t left = shards > 0 ? shards : left_to_shard(ranks, copies);
    fsdp_ = left != 1 || ranks.context > 1;
    if (!fsdp_) {
      out_.set("parallel.zero", 0, shards > 0 ? words : words + ", and none are left to share", where);
      return;
    }
    out_.set("parallel.zero", 3, words, where);
    // Context ranks share as well: torchtitan's mesh dp_shard_cp.
    const std::string beside = ranks.context > 1 ? fmt::format(", times {} context ranks", ranks.context) : "";
    if (copies > 1 && shards > 0) {
      out_.set("parallel.shard_ranks", shards * ranks.context, fmt::format("{} of {} copies{}", words, copies, beside),
               where);
    }
    if (copies > 1 && shards < 0 && left > 0) {
      out_.set("parallel.shard_ranks", left * ranks.context,
               fmt::format("{} copies of the GPUs that are left{}", copies, beside), where);
    } else if (copies > 1 && shards < 0) {
      out_.ask("parallel.shard_ranks", fmt::format("{} copies of the GPUs that are left: how many share?", copies),
               where);
    }
    const auto reshard = in_.find("parallelism.fsdp_reshard_after_forward");
    const std::string how = in_.word(reshard);
    if (how == "always" || how == "never") {
      out_.set("parallel.reshard", how == "always" ? "yes" : "no", reshard.words, reshard.where());
    } else if (how.empty() || how == "default") {
      out_.assume("parallel.reshard", pipeline_ > 1 ? "no" : "yes",
                  "fsdp_reshard_after_forward = default: unless there is a pipeline");
    } else {
      out_.fault(fmt::format("'{}'", reshard.words), reshard.where(), {"valid: default, always, never"});
    }
    if (pipeline_ > 1 && syncs_stages_once(kTitan)) {
      out_.assume("parallel.no_sync", "yes", "torch.distributed.pipelining syncs FSDP's stages once a step");
    }
    const auto host = in_.find("training.enable_cpu_offload");
    if (!in_.flag(host).value_or(false)) return;
    out_.set("parallel.offload_optimizer", "yes", host.words, host.where());
    out_.set("parallel.offload_weights", "yes", host.words, host.where());
  }

  void read_schedule() {
    const auto* const model = std::find_if(kTitanModels.begin(), kTitanModels.end(),
                                           [&](const TitanModel& known) { return known.id == out_.value_of("model"); });
    read_titan_schedule(in_, {.stages = pipeline_, .blocks = model == kTitanModels.end() ? 0 : model->blocks}, out_);
  }

  /// local_batch_size: of a replica and pass; a pipeline cuts it into micro-batches.
  void read_batches() {
    const auto local = in_.find_first({"training.local_batch_size", "training.batch_size"});
    const auto samples = in_.count(local);
    const auto global = in_.find("training.global_batch_size");
    const auto whole = in_.count(global, -1);
    if (!samples) {
      out_.ask("batch", "no training.local_batch_size: samples of a replica and pass?");
      return;
    }
    std::int64_t passes = 1;
    if (pipeline_ > 1) {
      const auto micro = in_.find("parallelism.pipeline_parallel_microbatch_size");
      const std::int64_t size = in_.count(micro).value_or(1);
      if (*samples % size != 0) {
        out_.fault(fmt::format("'{}' is no multiple of a micro-batch of {}", local.words, size),
                   micro ? micro.where() : local.where());
        return;
      }
      passes = *samples / size;
      out_.set("batch", size, micro ? micro.words : local.words + " in micro-batches of 1",
               micro ? micro.where() : local.where());
    } else {
      out_.set("batch", *samples, local.words, local.where());
    }
    if (whole && *whole > 0) {
      if (pipeline_ > 1) {
        out_.leave_out(global.words + " in passes of " + local.words,
                       "torchtitan empties the pipeline after each of them, here it is emptied once a step: the bubble "
                       "is that of one pass of all micro-batches",
                       global.where());
      }
      out_.set("global_batch", *whole, global.words, global.where());
    } else {
      out_.set("strategy.accumulation", passes, local.words, local.where());
    }
  }

  /// Whether products are of 8 bits; float8.enable_float8_linear is the switch of releases before converters.
  Tree::Found read_float8() {
    const auto older = in_.find("float8.enable_float8_linear");
    Tree::Found eight = in_.flag(older).value_or(false) ? older : Tree::Found{};
    const auto converters = in_.find("model.converters");
    if (converters && converters.node->kind == io::NodeKind::kList) {
      for (const io::Node& item : converters.node->items) {
        if (item.text.find("float8") != std::string::npos || item.text.find("fp8") != std::string::npos) {
          eight = {converters.node, converters.words + " with float8"};
        } else {
          out_.leave_out("model.converters: " + item.text, "no rule here", item.where);
        }
      }
    }
    const auto gather = in_.find_first(
        {"quantize.linear.float8.enable_fsdp_float8_all_gather", "float8.enable_fsdp_float8_all_gather"});
    if (in_.flag(gather).value_or(false)) {
      if (eight && out_.count_of("parallel.zero") > 0) {
        out_.set("parallel.gather_fp8", "yes", gather.words, gather.where());
      } else {
        out_.leave_out(gather.words, "of no effect without float8 in model.converters, and FSDP", gather.where());
      }
    }
    for (const char* section : {"float8", "quantize", "mx"}) in_.close(section);
    return eight;
  }

  /// mixed_precision_param is FSDP's; without it torchtitan's maybe_enable_amp (torchtitan/distributed/utils.py) runs
  /// replicas under torch.autocast, and under nothing where tensor ranks or stages cut the model.
  void read_precision() {
    const auto compute = in_.find("training.mixed_precision_param");
    const auto stored = in_.find("training.dtype");
    std::string kind = compute ? in_.word(compute) : "bfloat16";
    if (kind != "bfloat16" && kind != "float32") {
      out_.fault(fmt::format("'{}'", compute.words), compute.where(), {"valid: bfloat16, float32"});
    }
    const bool none = !fsdp_ && cut_;  // no mixed precision at all
    if (none && kind == "bfloat16") {
      kind = "float32";
      if (compute) {
        out_.leave_out(compute.words, "of no effect without FSDP beside tensor ranks or stages", compute.where());
      }
    }
    const bool brain = stored && in_.word(stored) == "bfloat16";
    const auto eight = read_float8();
    if (eight) {
      out_.set("precision", "fp8", eight.words, eight.where());
    } else if (brain) {
      out_.set("precision", "bf16", stored.words, stored.where());
    } else if (none) {
      out_.assume("precision", "fp32", "torchtitan's mixed precision of split models is FSDP's, and there is none");
    } else if (compute) {
      out_.set("precision", kind == "float32" ? "fp32" : "bf16", compute.words, compute.where());
    } else {
      out_.set("precision", "bf16", "mixed_precision_param = bfloat16, torchtitan's own", {});
    }
    if (brain) {
      out_.set("parallel.states", "pure-16", stored.words, stored.where());
    } else if (!fsdp_ || (!eight && kind == "float32")) {
      out_.assume("parallel.states", "fp32", "torchtitan keeps weights, gradients and states in float32");
    } else {
      out_.assume("parallel.states", std::string(way_of(kTitan).states),
                  "FSDP2 gathers 16 bits of what it keeps in float32");
    }
    if (!fsdp_ && !cut_ && !brain && kind == "bfloat16") {
      out_.assume("software.operators", "autocast", "without FSDP torchtitan runs the model under torch.autocast");
    }
    read_reduction();
  }

  void read_reduction() {
    const auto reduced = in_.find("training.mixed_precision_reduce");
    const bool sixteen = reduced && in_.word(reduced) == "bfloat16";
    if (!fsdp_) {
      if (sixteen) out_.leave_out(reduced.words, "of no effect without FSDP", reduced.where());
    } else if (sixteen) {
      out_.set("strategy.gradients", "bf16", reduced.words, reduced.where());
    } else {
      out_.assume("strategy.gradients", std::string(way_of(kTitan).gradients), "mixed_precision_reduce = float32");
    }
  }

  void read_software() {
    const auto compiled = in_.find_first({"compile.enable", "training.compile"});
    const auto parts = in_.find("compile.components");  // "model" and "loss" where it is missing
    const bool model = !parts || parts.node->kind != io::NodeKind::kList ||
                       std::any_of(parts.node->items.begin(), parts.node->items.end(),
                                   [](const io::Node& item) { return item.text == "model"; });
    if (in_.flag(compiled).value_or(false) && !model) {
      out_.leave_out(compiled.words + " without \"model\" in compile.components",
                     "what else is compiled has no setting", parts.where());
    } else if (in_.flag(compiled).value_or(false)) {
      out_.set("fusion", "all", compiled.words + ", and attention in one kernel", compiled.where());
    }
    assume_software(kTitan, out_);
    const auto early = in_.find("optimizer.early_step_in_backward");
    if (in_.flag(early).value_or(false)) {
      out_.leave_out(early.words, "weights are updated after backward, and all gradients stand until then",
                     early.where());
    }
    const auto update = in_.find("optimizer.implementation");
    const std::string how = in_.word(update);
    if (how == "for-loop" || how == "foreach") {
      out_.set("software.optimizer", how, update.words, update.where());
    }
  }

  void read_recompute() {
    const auto mode = in_.find("activation_checkpoint.mode");
    const auto option = in_.find("activation_checkpoint.selective_ac_option");
    const std::string how = mode ? in_.word(mode) : "selective";
    const std::string which = option ? in_.word(option) : "2";
    in_.close("activation_checkpoint");
    if (how == "none" || how == "full") {
      out_.set("parallel.recompute", how, mode.words, mode.where());
      if (how == "full") out_.assume("parallel.recompute_stops", "yes", "PyTorch's checkpoint stops early since 2.1");
    } else if (how == "memory_budget") {
      out_.ask("parallel.recompute", mode.words + ": none, selective or full", mode.where());
    } else if (how != "selective") {
      out_.fault(fmt::format("'{}'", mode.words), mode.where(), {"valid: none, selective, full"});
    } else if (const auto every = parse_count(which, {1, kLargest}); every) {
      const SourceLocation where = option ? option.where() : SourceLocation{};
      out_.set("parallel.recompute", "full", "selective: every so many blocks", where);
      out_.set("parallel.recompute_every", *every, option ? option.words : "selective_ac_option = 2, torchtitan's own",
               where);
    } else if (which == "op") {
      out_.set("parallel.recompute", "per-op", option.words, option.where());
      out_.assume("parallel.recompute_stops", "yes", "PyTorch's checkpoint stops early since 2.1");
    } else {
      out_.fault(fmt::format("'{}'", option.words), option.where(), {"valid: 'op', or a whole number as '2'"});
    }
  }

  Tree in_;
  Builder& out_;
  std::int64_t pipeline_ = 1;
  bool fsdp_ = true;
  bool cut_ = false;  // tensor ranks or stages
};

}  // namespace

Expected<LaunchImport> torchtitan(std::string_view text, const std::string& file, const LaunchOptions& options) {
  const auto document = parse_toml(text, file);
  if (!document) return tl::unexpected<Error>(document.error());
  Builder out(options);
  const bool known = std::any_of(document->entries.begin(), document->entries.end(), [](const io::Entry& entry) {
    return entry.key == "training" || entry.key == "parallelism" || entry.key == "activation_checkpoint";
  });
  if (!known) {
    return fail(ErrorCode::kParse, "no torchtitan configuration", {file, 1, 1},
                {"looked for [training], [parallelism], [activation_checkpoint]"});
  }
  TitanReader(*document, out).read();
  return out.finish();
}

}  // namespace ddlsim::importers::launch
