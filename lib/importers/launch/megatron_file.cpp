#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "ddlsim/support/names.h"
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
    eight_ = read_megatron_precision(in_, out_);
    read_data_parallel();
    read_pipeline();
    read_recompute();
    read_overlaps();
    read_megatron_experts(in_, out_);
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

  /// 1 where nobody says it, 0 where it is asked for.
  std::int64_t degree(std::string_view option, const std::string& path) {
    taken(option, path);
    return out_.has(path) ? out_.count_of(path) : 1;
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
    const Argument* per_node = in_.find_first({"nproc-per-node", "devices", "num-gpus"});
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
    tensor_ = degree("tensor-model-parallel-size", "parallel.tensor");
    pipeline_ = degree("pipeline-model-parallel-size", "parallel.pipeline");
    taken("context-parallel-size", "parallel.context");
    taken("expert-model-parallel-size", "parallel.expert");
    read_expert_tensor();
    taken("data-parallel-size", "parallel.data");
    if (in_.flag("sequence-parallel")) {
      // Megatron turns it off without tensor parallelism.
      if (tensor_ != 1) {
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

  /// --no-NAME, or NAME as False in the printed list and in YAML.
  bool is_off(std::string_view name) {
    const Argument* said = in_.find(name);
    return in_.flag("no-" + std::string(name)) || (said != nullptr && !in_.flag(name));
  }

  /// The softmax is a kernel of its own only where attention is several; which activation's switch counts follows from
  /// the activation (megatron/training/arguments.py, core_transformer_config_from_args: bias_activation_fusion).
  void read_fusions() {
    const bool gated = in_.flag("swiglu") || in_.flag("gated-linear-unit");
    const bool core = is_off("bias-activation-fusion");  // Megatron-Core's for both
    const bool gelu = core || is_off("bias-gelu-fusion");
    const bool swiglu = core || is_off("bias-swiglu-fusion");
    const bool softmax = is_off("masked-softmax-fusion") && !attends_in_one(in_);
    if (!softmax && !(gated ? swiglu : gelu)) return assume_software("megatron-core", out_);
    const Argument* found = softmax ? in_.find_first({"no-masked-softmax-fusion", "masked-softmax-fusion"})
                            : core  ? in_.find("bias-activation-fusion")
                            : gated ? in_.find_first({"no-bias-swiglu-fusion", "bias-swiglu-fusion"})
                                    : in_.find_first({"no-bias-gelu-fusion", "bias-gelu-fusion"});
    out_.leave_out(found->words(), "a part of a block is not fused: software.fused is left open, half of its effect",
                   found->where);
  }

  void read_data_parallel() {
    read_fusions();
    const int zero = read_megatron_sharding(in_, out_);
    // Where none is stated plan/messages.h has Megatron's own size. Elements, of 4 bytes in fp32 and 2 otherwise.
    if (const auto bucket = in_.count("ddp-bucket-size")) {
      const Argument& found = *in_.find("ddp-bucket-size");
      const std::int64_t element = out_.bytes_of_gradients();
      const std::string size = fmt::format("{} B", *bucket * element);
      out_.set("strategy.bucket", size, fmt::format("{}, of gradients in {} bits", found.words(), 8 * element),
               found.where);
      out_.assume("strategy.first_bucket", size, "Megatron's buckets are alike");
    }
    const auto switched = [&](std::string_view option, const char* path) {
      if (in_.flag(option)) out_.set(path, "yes", fmt::format("--{}", option), in_.find(option)->where);
    };
    switched("optimizer-cpu-offload", "parallel.offload_optimizer");
    switched("cpu-offloading", "parallel.offload_activations");
    if (zero > 0 && zero < 3) {
      switched("overlap-param-gather", "parallel.overlap_gather");
      switched("overlap-param-sync", "parallel.overlap_gather");  // NeMo
    }
    if (!in_.flag("fp8-param-gather")) return;
    if (eight_ && zero > 0) {
      switched("fp8-param-gather", "parallel.gather_fp8");
    } else {
      const Argument& found = *in_.find("fp8-param-gather");
      out_.leave_out(found.words(), "of no effect without --fp8-format and a distributed optimizer", found.where);
    }
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
    const Argument* layout = in_.find("pipeline-model-parallel-layout");
    if (const Argument* by = layout != nullptr ? layout
                             : said == nullptr ? each
                                               : nullptr;
        pipeline_ == 0 && by != nullptr) {
      chunks_.reset();
      out_.ask("parallel.virtual_stages", by->words() + ": parts of a rank follow from the stages", by->where);
      return;
    }
    const auto listed = layout_parts(in_);
    if (pipeline_ > 1 && layout != nullptr && !listed) {
      out_.ask("parallel.layers_per_stage", layout->words() + ": blocks of each part?", layout->where);
    }
    MegatronParts parts{.stages = at_least_two()};
    if (pipeline_ > 1 && listed) {
      const auto count = static_cast<std::int64_t>(listed->size());
      if (count % pipeline_ != 0) {
        out_.fault(fmt::format("'{}': {} parts on {} stages", shown(layout->words()), count, pipeline_), layout->where,
                   {"every stage has as many parts"});
        return;
      }
      chunks_ = count / pipeline_;
      return set_schedule(layout);
    }
    if (said != nullptr) {
      parts.of_a_rank = in_.count(*said).value_or(1);
    } else if (each != nullptr) {
      const auto size = in_.count(*each);
      parts.layers = size ? counted_layers(in_) : std::nullopt;
      parts.layers_of_one = size.value_or(1);
      said = each;
    }
    if (pipeline_ == 1) return;
    chunks_ = megatron_chunks(parts);
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
    set_schedule(said);
  }

  /// Stages that are not known are several: one has no schedule.
  [[nodiscard]] std::int64_t at_least_two() const { return pipeline_ == 0 ? 2 : pipeline_; }

  /// `said`: who says that a rank has several parts.
  void set_schedule(const Argument* said) {
    const std::int64_t chunks = *chunks_;
    const std::string schedule(megatron_schedule(at_least_two(), chunks));
    if (chunks > 1) {
      out_.set("parallel.schedule", schedule, said->words(), said->where);
      out_.set("parallel.virtual_stages", chunks, said->words(), said->where);
    } else {
      out_.assume("parallel.schedule", schedule, "Megatron's schedule of a pipeline without virtual stages");
    }
    // In the printed list and in YAML the option goes by its variable.
    const Argument* sends = in_.find_first({"overlap-p2p-comm", "overlap-p2p-communication"});
    const bool off = in_.flag("no-overlap-p2p-communication") || (sends != nullptr && !in_.flag(sends->name));
    out_.assume("parallel.overlap_p2p", chunks > 1 && !off ? "yes" : "no",
                chunks > 1 ? "Megatron sends beside work with virtual stages, unless told not to"
                           : "Megatron sends beside work with virtual stages alone");
    read_scatter_gather();
  }

  /// --scatter-gather-tensors-in-pipeline existed for some months of 2021, then --no-scatter-gather-tensors-in-pipeline
  /// for five years, which does nothing since 2023; so does the variable of both in lists of arguments.
  void read_scatter_gather() {
    const std::string path = "parallel.scatter_gather";
    const Argument* said = in_.find("scatter-gather-tensors-in-pipeline");
    const Argument* off = in_.find("no-scatter-gather-tensors-in-pipeline");
    if (runs_deepspeed(in_)) {  // whose engine has stages of its own
      if (tensor_ != 1) out_.assume(path, "yes", "DeepSpeed's stages send by parts (pipe_partitioned)");
    } else if (off != nullptr && in_.flag(off->name)) {
      out_.set(path, "no", off->words(), off->where);
    } else if (said != nullptr && said->values.empty()) {
      out_.set(path, "yes", said->words(), said->where);
    } else if (said != nullptr && in_.flag(said->name)) {
      out_.leave_out(said->words(), "of no effect since 2023; of releases before, state parallel.scatter_gather yes",
                     said->where);
    }
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
    } else if (how == "selective" && in_.is_unknown("recompute-modules")) {
      const Argument& modules = *in_.find("recompute-modules");
      out_.ask("parallel.recompute", modules.words() + " is not known", modules.where);
    } else if (how == "selective") {
      read_recomputed_modules(*said);
    } else if (how == "full") {
      out_.set("parallel.recompute", "full", said->words(), said->where);
      read_full_recompute();
    } else if (!how.empty() && how != "false") {
      out_.fault(fmt::format("'{}'", shown(said->words())), said->where, {"valid: selective, full"});
    }
  }

  /// The core of attention unless others are listed (megatron/core/transformer/transformer_config.py,
  /// recompute_modules), which have no rule here.
  void read_recomputed_modules(const Argument& said) {
    const Argument* modules = in_.find("recompute-modules");
    bool core = modules == nullptr;
    std::vector<std::string> others;
    for (const std::string& value : modules == nullptr ? std::vector<std::string>() : modules->values) {
      std::string name;
      for (const char c : value + ",") {
        if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
          name += c;
        } else if (!name.empty()) {
          if (name == "core_attn") {
            core = true;
          } else {
            others.push_back(name);
          }
          name.clear();
        }
      }
    }
    const Argument& from = modules != nullptr ? *modules : said;
    out_.set("parallel.recompute", core ? "selective" : "none", from.words(), from.where);
    if (others.empty()) return;
    out_.leave_out(modules->words(),
                   join(others) + ": no rule; what they save is kept here, and they are not computed again",
                   modules->where);
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
    const std::int64_t parts = pipeline_ * chunks_.value_or(0);
    const std::int64_t own = layers && parts > 0 ? *layers / parts : 0;
    const char* const whose = chunks_.value_or(1) > 1 ? "virtual stage" : "stage";
    if (!count || own == 0) {
      out_.ask("parallel.recompute_first", "--recompute-method block: how many blocks of a stage are computed again?");
    } else if (*count < own) {
      const std::string of = fmt::format("{} of a {}'s {} blocks", found->words(), whose, own);
      out_.set("parallel.recompute_every", own, of, found->where);
      out_.set("parallel.recompute_first", *count, of, found->where);
    }
  }

  void read_overlaps() {
    for (const char* name : {"tp-comm-overlap", "ub-tp-comm-overlap"}) {  // the second is NeMo's
      if (!in_.flag(name) || tensor_ == 1) continue;
      out_.set("parallel.overlap_tensor", "yes", fmt::format("--{}", name), in_.find(name)->where);
    }
    if (in_.flag("enable-cuda-graph") || in_.flag("external-cuda-graph")) {
      const Argument& found = *in_.find_first({"enable-cuda-graph", "external-cuda-graph"});
      out_.set("cuda_graphs", "yes", found.words(), found.where);
    }
  }

  Arguments& in_;
  Builder& out_;
  std::int64_t tensor_ = 1;  // 0: not known, as the next
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
    read_sbatch(text, file, arguments->has("nproc-per-node") || arguments->has("num-gpus"), out);
    read_megatron_copies(*arguments, out);
    read_megatron_model(*arguments, options, out);
    report_rest(*arguments, out);
  }
  return out.finish();
}

}  // namespace ddlsim::importers::launch
