#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "ddlsim/support/names.h"
#include "ddlsim/support/quantity_io.h"
#include "megatron_arguments.h"
#include "megatron_schedule.h"

namespace ddlsim::importers::launch {
namespace {

class MegatronReader {
 public:
  MegatronReader(Arguments& arguments, Builder& out) : in_(arguments), out_(out) {}

  void read() {
    read_cluster();
    read_degrees();
    read_batches();
    read_precision();
    read_data_parallel();
    read_pipeline();
    read_recompute();
    read_overlaps();
    read_experts();
  }

 private:
  /// A degree or size; asked for where it is not known. Nothing where it is missing.
  std::optional<std::int64_t> taken(std::string_view option, const std::string& path, std::int64_t least = 1) {
    const Argument* found = in_.find(option);
    if (found == nullptr) return std::nullopt;
    if (in_.is_unknown(option)) {
      out_.ask(path, found->words() + " is not known", found->where);
      return std::nullopt;
    }
    const auto value = in_.count(*found, least);
    if (value) out_.set(path, *value, found->words(), found->where);
    return value;
  }

  void read_cluster() {
    for (const char* name : {"nnodes", "num-nodes"}) {
      const Argument* found = in_.find(name);
      // "1:4" is an elastic range, NeMo's trainer.num_nodes a number.
      const bool range =
          found != nullptr && !found->values.empty() && found->values.front().find(':') != std::string::npos;
      if (range) {
        out_.ask("nodes", found->words(), found->where);
      } else {
        taken(name, "nodes");
      }
    }
    const Argument* per_node = in_.find_first({"nproc-per-node", "devices"});
    if (per_node != nullptr && in_.word(per_node->name) != "gpu" && in_.word(per_node->name) != "auto" &&
        in_.word(per_node->name) != "-1") {
      taken(per_node->name, "gpus_per_node");
    }
    if (const auto world = in_.count("world-size"); world && !out_.has("nodes")) set_servers(*world);
  }

  /// Servers of so many GPUs in all, where their own number is known: whole ones, or a part of one.
  void set_servers(std::int64_t world) {
    const SourceLocation where = in_.find("world-size")->where;
    const std::int64_t each = out_.gpus_per_node();
    if (each > 0 && world % each == 0) {
      out_.set("nodes", world / each, fmt::format("{} GPUs in all, {} of a server", world, each), where);
    } else if (each > world) {
      out_.set("nodes", 1, fmt::format("{} GPUs in all, of a server of {}", world, each), where);
      out_.set("gpus_per_node", world, fmt::format("{} GPUs in all", world), where);
    } else {
      out_.ask("nodes", fmt::format("{} GPUs in all: how many servers?", world), where);
    }
  }

  void read_degrees() {
    tensor_ = taken("tensor-model-parallel-size", "parallel.tensor").value_or(1);
    pipeline_ = taken("pipeline-model-parallel-size", "parallel.pipeline").value_or(1);
    taken("context-parallel-size", "parallel.context");
    taken("expert-model-parallel-size", "parallel.expert");
    read_expert_tensor();
    taken("data-parallel-size", "parallel.data");
    if (in_.flag("sequence-parallel")) {
      // Megatron turns it off without tensor parallelism.
      if (tensor_ > 1) {
        out_.set("parallel.sequence", "yes", "--sequence-parallel", in_.find("sequence-parallel")->where);
      }
    } else if (const Argument* found = in_.find("sequence-parallel");
               found != nullptr && in_.is_unknown("sequence-parallel")) {
      out_.ask("parallel.sequence", found->words(), found->where);
    }
    if (const Argument* found = in_.find("cp-comm-type");
        found != nullptr && out_.count_of("parallel.context") != 1 && out_.has("parallel.context")) {
      const std::string way = in_.word("cp-comm-type");
      if (way == "p2p" || way == "['p2p']") {
        out_.set("parallel.context_by", "ring", found->words(), found->where);
      } else if (way == "a2a" || way == "['a2a']") {
        out_.set("parallel.context_by", "ulysses", found->words(), found->where);
      } else {
        out_.ask("parallel.context_by", found->words() + ": ring or ulysses is modelled", found->where);
      }
    }
    if (in_.flag("use-tp-pp-dp-mapping")) {
      out_.set("parallel.order", "tp-cp-ep-pp-dp", "--use-tp-pp-dp-mapping", in_.find("use-tp-pp-dp-mapping")->where);
    }
  }

  /// Megatron-LM cuts experts as the other layers where nobody says otherwise.
  void read_expert_tensor() {
    const Argument* found = in_.find("expert-tensor-parallel-size");
    if (found == nullptr || in_.word("expert-tensor-parallel-size") == "None") return;
    const auto ranks = in_.count("expert-tensor-parallel-size");
    const bool experts = in_.has("num-experts") || out_.count_of("parallel.expert") > 1;
    if (tensor_ == 1 || !experts || ranks == tensor_) return;
    if (ranks == 1) {
      out_.set("parallel.expert_tensor", 1, found->words(), found->where);
    } else {
      out_.ask("parallel.expert_tensor", found->words() + ": 1 or the tensor-parallel size is modelled", found->where);
    }
  }

  void read_batches() {
    if (!taken("micro-batch-size", "batch") && !out_.has("batch")) {
      out_.ask("batch", "no --micro-batch-size: samples of a micro-batch?");
    }
    if (!taken("global-batch-size", "global_batch") && !out_.has("global_batch")) {
      // Megatron's default: one micro-batch per replica.
      out_.assume("strategy.accumulation", "1", "no --global-batch-size: Megatron makes one pass per step");
    }
  }

  void read_precision() {
    const Argument* fp8 = in_.find_first({"fp8-format", "fp8", "fp8-hybrid", "fp8-e4m3"});
    const std::string format = fp8 == nullptr ? std::string() : in_.word(fp8->name);
    const bool eight = fp8 != nullptr && format != "false" && format != "0";
    const Argument* four = in_.find_first({"fp4-format", "fp4"});
    const bool narrower = four != nullptr && in_.word(four->name) != "false";
    eight_ = eight && !narrower;
    const Argument* trainer = in_.find("precision");  // NeMo: bf16, 16, 16-mixed, bf16-mixed, 32
    const std::string said = trainer == nullptr ? std::string() : in_.word("precision");
    const bool bf16 = in_.flag("bf16") || said.starts_with("bf16");
    const bool fp16 = in_.flag("fp16") || said.starts_with("16");
    const bool sums_fp32 = in_.flag("accumulate-allreduce-grads-in-fp32");
    const bool sums_bf16 = in_.flag("grad-reduce-in-bf16") || in_.word("main-grads-dtype") == "bf16";
    const char* const why = "Megatron's formats of weights, gradients and states";
    for (const char* name : {"bf16", "fp16"}) {
      if (!in_.is_unknown(name)) continue;
      out_.ask("precision", in_.find(name)->words(), in_.find(name)->where);
    }
    if (bf16 && fp16) out_.fault("both --bf16 and --fp16", in_.find_first({"fp16", "precision"})->where, {"keep one"});
    if (narrower) {
      out_.set("precision", "fp4", four->words(), four->where);
      out_.assume("parallel.states", "mixed", why);
    } else if (eight) {
      out_.set("precision", "fp8", fp8->words(), fp8->where);
      out_.assume("parallel.states", "fp8", why);
    } else if (bf16 || fp16) {
      const Argument& found = *in_.find_first({bf16 ? "bf16" : "fp16", "precision"});
      out_.set("precision", bf16 ? "bf16" : "fp16", found.words(), found.where);
      out_.assume("parallel.states", sums_bf16 || (fp16 && !sums_fp32) ? "mixed-16" : "mixed", why);
    } else {
      out_.assume("precision", "fp32", "no --bf16, --fp16, --fp8-format or --fp4-format");
      out_.assume("parallel.states", "fp32", why);
    }
  }

  void read_data_parallel() {
    const bool softmax = !in_.flag("no-masked-softmax-fusion");
    const bool activation = !in_.flag("no-bias-gelu-fusion");
    if (softmax && activation) assume_software("megatron-core", out_);
    const bool overlapped = in_.flag("overlap-grad-reduce");
    if (overlapped) {
      out_.set("overlap", "backward", "--overlap-grad-reduce", in_.find("overlap-grad-reduce")->where);
    } else {
      out_.assume("overlap", "none", "no --overlap-grad-reduce: Megatron reduces gradients after backward");
    }
    const int zero = read_sharding();
    // Where none is stated plan/messages.h has Megatron's own size. Elements, of 4 bytes in fp32 and 2 otherwise.
    if (const auto bucket = in_.count("ddp-bucket-size")) {
      const Argument& found = *in_.find("ddp-bucket-size");
      out_.set("strategy.bucket", fmt::format("{} B", *bucket * 4), found.words() + ", of gradients in fp32",
               found.where);
    }
    const auto switched = [&](std::string_view option, const char* path) {
      if (in_.flag(option)) out_.set(path, "yes", fmt::format("--{}", option), in_.find(option)->where);
    };
    switched("optimizer-cpu-offload", "parallel.offload_optimizer");
    switched("cpu-offloading", "parallel.offload_activations");
    if (zero > 0 && zero < 3) switched("overlap-param-gather", "parallel.overlap_gather");
    if (!in_.flag("fp8-param-gather")) return;
    if (eight_ && zero > 0) {
      switched("fp8-param-gather", "parallel.gather_fp8");
    } else {
      const Argument& found = *in_.find("fp8-param-gather");
      out_.leave_out(found.words(), "of no effect without --fp8-format and a distributed optimizer", found.where);
    }
  }

  /// What replicas share out, as a stage of ZeRO.
  int read_sharding() {
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
    if (said != nullptr) out_.set("parallel.zero", zero, said->words(), said->where);
    if (const auto copies = in_.count("num-distributed-optimizer-instances"); copies && *copies > 1) {
      const Argument& found = *in_.find("num-distributed-optimizer-instances");
      const std::int64_t data = out_.count_of("parallel.data");
      if (data > 0 && data % *copies == 0) {
        out_.set("parallel.shard_ranks", data / *copies, found.words(), found.where);
      } else {
        out_.ask("parallel.shard_ranks", found.words() + ": the data-parallel degree divided by it", found.where);
      }
    }
    return zero;
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

  void read_pipeline() {
    const Argument* said =
        in_.find_first({"num-virtual-stages-per-pipeline-rank", "virtual-pipeline-model-parallel-size"});
    const Argument* each = in_.find("num-layers-per-virtual-pipeline-stage");
    if (said != nullptr && in_.is_unknown(said->name)) {
      chunks_.reset();
      out_.ask("parallel.virtual_stages", said->words() + " is not known", said->where);
      return;
    }
    MegatronParts parts{.stages = pipeline_};
    if (said != nullptr) {
      parts.of_a_rank = in_.count(*said).value_or(1);
    } else if (each != nullptr) {
      const auto size = in_.count(*each);
      parts.layers = size ? counted_layers(in_) : std::nullopt;
      parts.layers_of_one = size.value_or(1);
      said = each;
    }
    chunks_ = megatron_chunks(parts);
    if (pipeline_ <= 1) return;
    if (!chunks_) {
      out_.ask("parallel.virtual_stages", each->words() + ": layers of a stage divided by it", each->where);
      return;
    }
    if (*chunks_ == 0) {
      out_.fault(fmt::format("'{}': {} layers on {} stages are no multiple of it", shown(each->words()), *parts.layers,
                             pipeline_),
                 each->where, {"the layers of a stage must be a multiple of the layers of a virtual stage"});
      return;
    }
    const std::int64_t chunks = *chunks_;
    const std::string schedule(megatron_schedule(pipeline_, chunks));
    if (chunks > 1) {
      out_.set("parallel.schedule", schedule, said->words(), said->where);
      out_.set("parallel.virtual_stages", chunks, said->words(), said->where);
    } else {
      out_.assume("parallel.schedule", schedule, "Megatron's schedule of a pipeline without virtual stages");
    }
    // In the printed list and in YAML the option goes by its variable.
    const Argument* sends = in_.find_first({"overlap-p2p-comm", "overlap-p2p-communication"});
    const bool off = in_.has("no-overlap-p2p-communication") || (sends != nullptr && !in_.flag(sends->name));
    out_.assume("parallel.overlap_p2p", chunks > 1 && !off ? "yes" : "no",
                chunks > 1 ? "Megatron sends beside work with virtual stages, unless told not to"
                           : "Megatron sends beside work with virtual stages alone");
  }

  void read_recompute() {
    std::string how = in_.word("recompute-granularity");
    const Argument* said = in_.find_first({"recompute-granularity", "recompute-activations", "checkpoint-activations",
                                           "activations-checkpoint-granularity"});
    if (said == nullptr) return;
    if (how.empty() && in_.flag("recompute-activations")) how = "selective";
    if (how.empty() && in_.flag("checkpoint-activations")) how = "full";
    if (how.empty()) how = in_.word("activations-checkpoint-granularity");
    if (in_.is_unknown(said->name)) {
      out_.ask("parallel.recompute", said->words() + " is not known", said->where);
    } else if (how == "selective") {
      out_.set("parallel.recompute", "selective", said->words(), said->where);
      const Argument* modules = in_.find("recompute-modules");
      if (modules != nullptr &&
          !(modules->values.size() == 1 && modules->values.front().find("core_attn") != std::string::npos &&
            modules->values.front().find(',') == std::string::npos)) {
        out_.leave_out(modules->words(), "selective recomputation covers the core of attention", modules->where);
      }
    } else if (how == "full") {
      out_.set("parallel.recompute", "full", said->words(), said->where);
      read_full_recompute();
    } else if (!how.empty() && how != "false") {
      out_.fault(fmt::format("'{}'", shown(said->words())), said->where, {"valid: selective, full"});
    }
  }

  /// uniform: groups of n layers keep their first input; block: the first n layers of every part of a stage are
  /// computed again (a TransformerBlock is one part: megatron/core/transformer/transformer_block.py,
  /// _checkpointed_forward).
  void read_full_recompute() {
    const std::string method = in_.word("recompute-method");
    const auto layers = counted_layers(in_);
    const Argument* found = in_.find_first({"recompute-num-layers", "checkpoint-num-layers"});
    const auto count = found == nullptr ? std::nullopt : in_.count(*found);
    if (method != "block") {
      if (count && *count > 1) {
        out_.leave_out(found->words(), "every block keeps its input, not every " + std::to_string(*count) + "th",
                       found->where);
      }
      return;
    }
    const std::int64_t parts = std::max<std::int64_t>(pipeline_, 1) * chunks_.value_or(0);
    const std::int64_t own = layers && parts > 0 ? *layers / parts : 0;
    const char* const whose = chunks_.value_or(1) > 1 ? "virtual stage" : "stage";
    if (!count || own == 0) {
      out_.ask("parallel.recompute_every", "--recompute-method block: of how many blocks is one computed again?");
    } else if (*count < own && own % *count == 0) {
      out_.set("parallel.recompute_every", own / *count,
               fmt::format("{} of a {}'s {} blocks", found->words(), whose, own), found->where);
    } else if (*count < own) {
      out_.ask("parallel.recompute_every",
               fmt::format("{} of a {}'s {} blocks: of how many is one computed again?", found->words(), whose, own),
               found->where);
    }
  }

  void read_overlaps() {
    if (in_.flag("tp-comm-overlap") && tensor_ > 1) {
      out_.set("parallel.overlap_tensor", "yes", "--tp-comm-overlap", in_.find("tp-comm-overlap")->where);
    }
    if (in_.flag("enable-cuda-graph") || in_.flag("external-cuda-graph")) {
      const Argument& found = *in_.find_first({"enable-cuda-graph", "external-cuda-graph"});
      out_.set("cuda_graphs", "yes", found.words(), found.where);
    }
  }

  void read_dispatch() {
    const Argument* found = in_.find_first({"moe-token-dispatcher-type", "moe-enable-deepep"});
    if (found == nullptr || !out_.has("parallel.expert")) return;
    const std::string way = in_.word("moe-token-dispatcher-type");
    if (way == "flex" || in_.flag("moe-enable-deepep")) {
      out_.set("parallel.expert_dispatch", "once", found->words(), found->where);
    } else if (way == "alltoall") {
      out_.set("parallel.expert_dispatch", "copies", found->words(), found->where);
    } else {
      out_.ask("parallel.expert_dispatch", found->words() + ": copies (alltoall) or once (flex) is modelled",
               found->where);
    }
  }

  void read_experts() {
    read_dispatch();
    const Argument* found = in_.find("moe-expert-capacity-factor");
    if (found == nullptr || found->values.size() != 1 || in_.word("moe-expert-capacity-factor") == "-1") return;
    const auto factor = parse_number(found->values.front());
    if (factor && *factor > 0) {
      out_.set("parallel.expert_capacity", found->values.front(), found->words(), found->where);
    } else {
      out_.fault(fmt::format("'{}'", shown(found->words())), found->where, {"it takes a number above 0"});
    }
  }

  Arguments& in_;
  Builder& out_;
  std::int64_t tensor_ = 1;
  std::int64_t pipeline_ = 1;
  std::optional<std::int64_t> chunks_ = 1;  // parts of layers that a rank has; nothing: not known
  bool eight_ = false;                      // products of 8 bits
};

}  // namespace

Expected<LaunchImport> megatron(std::string_view text, const std::string& file, const LaunchOptions& options) {
  Builder out(options);
  auto arguments = read_arguments(text, file, options, out);
  if (!arguments) return tl::unexpected<Error>(arguments.error());
  if (!out.failed()) {
    MegatronReader reader(*arguments, out);
    reader.read();
    if (out.count_of("nodes") == 0) read_sbatch(text, file, out);
    read_megatron_model(*arguments, options, out);
    report_rest(*arguments, out);
  }
  return out.finish();
}

}  // namespace ddlsim::importers::launch
