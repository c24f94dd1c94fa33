// What of Megatron-LM's arguments changes nothing here, and what nobody here models.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "ddlsim/support/names.h"
#include "ddlsim/support/plural.h"
#include "megatron_arguments.h"

namespace ddlsim::importers::launch {
namespace {

/// Beginnings of options that leave a step's time as it is: data, checkpoints, logs, the optimizer's numbers,
/// launching.
constexpr auto kPassedBy = std::to_array<std::string_view>({
    "lr",
    "min-lr",
    "weight-decay",
    "start-weight",
    "end-weight",
    "adam-",
    "sgd-momentum",
    "clip-grad",
    "init-method",
    "seed",
    "save",
    "load",
    "log-",
    "tensorboard",
    "wandb",
    "eval-",
    "data-path",
    "data-cache",
    "data-args",
    "data-impl",
    "train-iters",
    "train-samples",
    "train-data",
    "valid-",
    "test-data",
    "split",
    "tokenizer",
    "vocab-file",
    "merge-file",
    "exit-",
    "distributed-",
    "master-",
    "node-rank",
    "rdzv",
    "no-load-",
    "no-save-",
    "ckpt",
    "dist-ckpt",
    "async-save",
    "use-dist-ckpt",
    "profile",
    "timing-",
    "num-workers",
    "mock-data",
    "dataloader",
    "no-create-attention-mask",
    "reset-",
    "eod",
    "override-",
    "finetune",
    "rotary-",
    "norm-epsilon",
    "layernorm-epsilon",
    "no-mmap",
    "tiktoken",
    "manual-gc",
    "empty-unused",
    "loss-scale",
    "initial-loss",
    "min-loss-scale",
    "hysteresis",
    "moe-aux-loss",
    "moe-router-load",
    "moe-z-loss",
    "moe-router-score",
    "moe-router-bias",
    "moe-router-topk-scaling",
    "moe-flex-dispatcher",
    "decoupled",
    "kill-",
    "rank",
    "local-rank",
    "iteration",
    "consumed-",
    "check-for-nan",
    "ignore-",
    "use-mcore-models",
    "use-cpu-initialization",
    "transformer-impl",
    "use-rope-scaling",
    "rope-",
    // Kernels as they are priced: experts in one grouped product, rows sorted and losses computed by one kernel.
    "moe-grouped-gemm",
    "moe-permute-fusion",
    "moe-router-fusion",
    "moe-router-dtype",
    "moe-router-pre-softmax",
    "moe-router-enable-expert-bias",
    "moe-router-force-load-balancing",
    "moe-router-num-groups",
    "cross-entropy-",
    "fp8-amax",
    "fp8-margin",
    "fp8-interval",
    "fp8-recipe",
    "fp8-wgrad",
    "attention-softmax-in-fp32",
    "use-precision-aware-optimizer",
    "te-rng-tracker",
    "enable-experimental",
    "use-legacy-models",
    // Megatron-DeepSpeed's --checkpoint-activations says it.
    "deepspeed-activation-checkpointing",
    "deepspeed-mpi",
    "fp4-recipe",
    "sequence-length",  // of Megatron-Bridge's data set, which is the model's
    // Of launchers.
    "jobid",
    "membind",
    "tee",
    "hostfile",
});

/// Beginnings of switches: what is not known behind one is more options.
constexpr auto kSwitches = std::to_array<std::string_view>({
    "no-",
    "use-",
    "disable-",
    "enable-",
    "overlap-",
    "reset-",
    "deepspeed-activation-checkpointing",
    "log-throughput",
    "mock-data",
    "finetune",
    "moe-grouped-gemm",
    "moe-permute-fusion",
});

/// Options that change a step's time and have no setting.
constexpr std::array kUnmodelled{
    Unmodelled{"distribute-saved-activations",
               "what is kept is not cut over the tensor group; --sequence-parallel does that"},
    Unmodelled{"moe-shared-expert-overlap", "a shared expert runs after the exchange of tokens, not beside it"},
    Unmodelled{"overlap-moe-expert-parallel-comm", "the exchange of tokens is not run beside another micro-batch"},
    Unmodelled{"exp-avg-dtype", "the moment is counted in fp32: 4 bytes a parameter"},
    Unmodelled{"exp-avg-sq-dtype", "the moment is counted in fp32: 4 bytes a parameter"},
    Unmodelled{"main-params-dtype", "the master copy is counted in fp32: 4 bytes a parameter"},
    Unmodelled{"no-gradient-accumulation-fusion", "products add to gradients as they make them"},
    Unmodelled{"no-bias-dropout-fusion", "dropout and the residual sum count as fused with software.fused"},
    Unmodelled{"no-rope-fusion", "rotary embedding is one kernel"},
    Unmodelled{"moe-layer-recompute", "experts are not computed again: state parallel.recompute"},
    Unmodelled{"cuda-graph-impl", "graphs of parts of a step: state cuda_graphs"},
    Unmodelled{"defer-embedding-wgrad-compute", "gradients are made where backward stands"},
    Unmodelled{"pipeline-model-parallel-split-rank", "encoder and decoder are not told apart"},
    Unmodelled{"rampup-batch-size", "the batch at the end of the ramp is taken"},
    Unmodelled{"cpu-offloading-num-layers", "parallel.offload_activations is all or nothing"},
    Unmodelled{"optimizer-offload-fraction", "parallel.offload_optimizer is all or nothing"},
    Unmodelled{"mtp-num-layers", "the multi-token-prediction module is left out"},
    Unmodelled{"lora", "state parallel.lora_rank"},
};

bool off(const std::string& value) {
  return value == "None" || value == "False" || value == "false" || value == "null" || value == "[]" || value == "~" ||
         value.empty() || value == "0" || value == "0.0";
}

/// A value that asks for nothing: what Megatron's list of arguments has where nobody stated the option.
bool usual(const Argument& argument) {
  const std::string& value = argument.values.front();
  const bool dtype = argument.name.ends_with("-dtype");
  if (dtype && (value.find("fp32") != std::string::npos || value.find("float32") != std::string::npos)) return true;
  if (argument.name == "optimizer-offload-fraction") return value == "1.0" || value == "1" || off(value);
  return off(value);
}

/// Optimizers but Adam and SGD are counted as Adam.
void report_optimizer(Arguments& arguments, Builder& out) {
  for (const char* name : {"optimizer", "optim-name"}) {
    const std::string kind = arguments.word(name);
    if (kind.empty() || kind == "sgd" || kind == "mcore_distributed_optim" || kind.find("adam") != std::string::npos) {
      continue;
    }
    const Argument& found = *arguments.find(name);
    out.leave_out(found.words(), "its states and its update are counted as Adam's", found.where);
  }
}

void loosen_switches(Arguments& arguments) {
  for (const Argument& argument : arguments.all()) {
    const bool starts = std::any_of(kSwitches.begin(), kSwitches.end(),
                                    [&](std::string_view start) { return argument.name.starts_with(start); });
    if (starts) arguments.loosen(argument.name);
  }
}

/// Switches whose value is not known, and words that may be any options.
void report_unknown(Arguments& arguments, Builder& out) {
  for (const Argument& argument : arguments.all()) {
    if (argument.flagged && !argument.settled && arguments.is_unknown(argument.name)) {
      out.leave_out(argument.words(), "not known: taken as off", argument.where);
    }
  }
  for (const Argument& argument : arguments.unknown()) {
    out.leave_out(argument.words().substr(3), "not known, and so are the options in it (--define NAME=VALUE)",
                  argument.where);
  }
}

}  // namespace

void report_rest(Arguments& arguments, Builder& out) {
  report_optimizer(arguments, out);
  loosen_switches(arguments);
  for (const Unmodelled& row : kUnmodelled) {
    const Argument* found = arguments.find(row.name);
    if (found == nullptr || (found->values.size() == 1 && !arguments.is_unknown(row.name) && usual(*found))) {
      continue;
    }
    out.leave_out(found->words(), std::string(row.why), found->where);
  }
  std::vector<std::string> others;
  for (const Argument& argument : arguments.all()) {
    if (argument.read) continue;
    const bool passed = std::any_of(kPassedBy.begin(), kPassedBy.end(),
                                    [&](std::string_view start) { return argument.name.starts_with(start); });
    if (passed || (argument.values.size() == 1 && off(argument.values.front()))) {
      out.pass_by();
    } else {
      const std::string why = no_rule(argument.name, arguments.asked());
      const std::size_t slip = why.find(": ");
      others.push_back("--" + shown(argument.name) +
                       (slip == std::string::npos ? "" : " (" + why.substr(slip + 2) + ")"));
    }
  }
  if (!others.empty()) {
    const auto count = static_cast<std::int64_t>(others.size());
    out.leave_out(fmt::format("{} {}", count, in_number(count, "option")), "no rule here: " + join(others), {});
  }
  report_unknown(arguments, out);
}

}  // namespace ddlsim::importers::launch
