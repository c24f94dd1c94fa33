// What replicas share in Megatron-LM, NeMo and Megatron-DeepSpeed, and when gradients are reduced.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "ddlsim/support/checked.h"
#include "ddlsim/support/quantity_io.h"
#include "megatron_arguments.h"

namespace ddlsim::importers::launch {
namespace {

class ShardingReader {
 public:
  ShardingReader(Arguments& arguments, Builder& out) : in_(arguments), out_(out) {}

  int read() {
    if (runs_deepspeed(in_)) return read_engine();
    read_overlap();
    int zero = 0;
    const Argument* said = nullptr;
    if (in_.flag("use-distributed-optimizer")) {
      zero = 1;
      said = in_.find("use-distributed-optimizer");
    }
    if (const Argument* found = read_strategy(zero); found != nullptr) said = found;
    if (in_.flag("use-torch-fsdp2")) {
      zero = 3;
      said = in_.find("use-torch-fsdp2");
    }
    if (const Argument* found = sharing_optimizer(); found != nullptr) {
      zero = 1;
      said = found;
    }
    if (said != nullptr) out_.set("parallel.zero", zero, said->words(), said->where);
    return zero;
  }

 private:
  /// NeMo's optim.name where that optimizer shares states (nemo/collections/nlp/models/language_modeling/
  /// megatron_base_model.py): Apex's or Megatron-Core's.
  const Argument* sharing_optimizer() {
    const std::string name = in_.word("optim-name");
    return name == "distributed_fused_adam" || name == "mcore_distributed_optim" ? in_.find("optim-name") : nullptr;
  }

  void read_overlap() {
    if (in_.flag("use-torch-fsdp2")) {
      out_.assume("overlap", "backward", "PyTorch's FSDP2 scatters gradients beside backward, whatever flags say");
    } else if (in_.flag("overlap-grad-reduce")) {
      out_.set("overlap", "backward", "--overlap-grad-reduce", in_.find("overlap-grad-reduce")->where);
    } else if (const Argument* sync = in_.find("overlap-grad-sync"); sync != nullptr) {  // NeMo
      out_.set("overlap", in_.flag(sync->name) ? "backward" : "none", sync->words(), sync->where);
    } else if (in_.word("optim-name") == "distributed_fused_adam") {
      out_.assume("overlap", "backward",
                  "no overlap_grad_sync: Apex's DistributedFusedAdam overlaps unless told not to");
    } else {
      out_.assume("overlap", "none", "no --overlap-grad-reduce: Megatron reduces gradients after backward");
    }
  }

  /// Megatron-DeepSpeed: the stage is its engine's, which PipelineModule runs in unless it is told not to.
  int read_engine() {
    if (const Argument* config = in_.find("deepspeed-config"); config != nullptr) {
      out_.leave_out(config->words(), "not read: overlap_comm and buckets are DeepSpeed's own", config->where);
    }
    const Argument* found = in_.find("zero-stage");
    std::string text = in_.word("zero-stage");
    if (text.ends_with(".0")) text.resize(text.size() - 2);  // as the printed list has it
    const auto stage = parse_count(text, {0, 3});
    if (stage) {
      out_.set("parallel.zero", *stage, found->words(), found->where);
    } else if (found == nullptr || text.empty()) {
      out_.ask("parallel.zero", "--deepspeed without --zero-stage: its configuration says which");
    } else {
      out_.fault(fmt::format("'{}'", shown(found->words())), found->where, {"valid: 0, 1, 2, 3"});
    }
    assume_deepspeed({.stage = stage ? std::optional(static_cast<std::int64_t>(*stage)) : std::nullopt,
                      .piped = !in_.flag("no-pipeline-parallel")},
                     out_);
    return static_cast<int>(out_.count_of("parallel.zero"));
  }

  /// Megatron-FSDP's word for it; null: it says none.
  const Argument* read_strategy(int& zero) {
    const std::string strategy = in_.word("data-parallel-sharding-strategy");
    if (strategy.empty()) return nullptr;
    const Argument& found = *in_.find("data-parallel-sharding-strategy");
    // Without the switch Megatron looks at no strategy, though its list of arguments has one.
    if (!in_.flag("use-megatron-fsdp") && !in_.flag("use-custom-fsdp")) {
      if (strategy != "no_shard") {
        out_.leave_out(found.words(), "of no effect without --use-megatron-fsdp", found.where);
      }
      return nullptr;
    }
    static constexpr std::array<std::string_view, 4> kStages{"no_shard", "optim", "optim_grads", "optim_grads_params"};
    const auto* stage = std::find(kStages.begin(), kStages.end(), strategy);
    if (stage == kStages.end()) {
      out_.fault(fmt::format("'{}'", shown(found.words())), found.where,
                 {"valid: no_shard, optim, optim_grads, optim_grads_params"});
    } else {
      zero = static_cast<int>(stage - kStages.begin());
    }
    return &found;
  }

  Arguments& in_;
  Builder& out_;
};

}  // namespace

bool runs_deepspeed(Arguments& arguments) {
  return arguments.has("deepspeed") && arguments.word("deepspeed") != "false";
}

int read_megatron_sharding(Arguments& arguments, Builder& out) { return ShardingReader(arguments, out).read(); }

void read_megatron_copies(Arguments& arguments, Builder& out) {
  const auto copies = arguments.count("num-distributed-optimizer-instances");
  if (!copies || *copies <= 1) return;
  const Argument& found = *arguments.find("num-distributed-optimizer-instances");
  // A degree that is asked for is 0. Context ranks share as well.
  const auto degree = [&](std::string_view path) { return out.has(path) ? out.count_of(path) : 1; };
  std::int64_t sharing = checked_multiply(out.count_of("parallel.data"), degree("parallel.context")).value_or(0);
  std::string words = found.words();
  if (sharing == 0) {
    sharing = out.gpus() > 0 ? out.gpus() : arguments.count("world-size").value_or(0);
    words += fmt::format(" on {} GPUs", sharing);
    for (const char* path : {"parallel.tensor", "parallel.pipeline"}) {
      const std::int64_t ranks = degree(path);
      sharing = ranks > 0 && sharing % ranks == 0 ? sharing / ranks : 0;
    }
    const std::int64_t context = degree("parallel.context");
    if (context == 0 || sharing % context != 0) sharing = 0;
  }
  if (sharing > 0 && sharing % *copies == 0) {
    out.set("parallel.shard_ranks", sharing / *copies, words, found.where);
  } else {
    out.ask("parallel.shard_ranks", found.words() + ": data-parallel times context ranks, divided by it", found.where);
  }
}

}  // namespace ddlsim::importers::launch
