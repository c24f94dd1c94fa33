#include "cases/language_case.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <optional>
#include <string>

#include "cases/case_degrees.h"
#include "cases/case_model.h"
#include "cases/case_scenario.h"
#include "cases/case_software.h"
#include "cases/case_text.h"
#include "cases/framework_name.h"
#include "cases/tuning_case.h"
#include "ddlsim/support/quantity_io.h"

namespace ddlsim::whatif {
namespace {

constexpr std::string_view kEveryOther = "every other block whole";

/// "5 7 7 7 (embedding and head count as layers)"; else as Megatron does it: as many blocks in every stage. Empty: the
/// stages cannot have as many.
std::vector<std::int64_t> blocks_per_stage(const io::Case& one, std::int64_t pipeline, std::int64_t blocks) {
  std::vector<std::int64_t> stages;
  const std::string said = one.said("layers_per_stage").value_or("");
  std::int64_t sum = 0;
  for (std::size_t at = 0;
       at < said.size() && (said[at] == ' ' || std::isdigit(static_cast<unsigned char>(said[at])));) {
    const std::size_t end = std::min(said.find_first_not_of("0123456789", at), said.size());
    if (const auto count = parse_number(said.substr(at, end - at)); count && end > at && *count < 1e6) {
      stages.push_back(static_cast<std::int64_t>(*count));
      sum += stages.back();
    }
    at = std::max(end, at + 1);
  }
  if (static_cast<std::int64_t>(stages.size()) == pipeline && sum == blocks + 2) {
    --stages.front();
    --stages.back();
    if (std::all_of(stages.begin(), stages.end(), [](std::int64_t count) { return count > 0; })) return stages;
  }
  if (blocks % pipeline != 0) return {};
  return std::vector<std::int64_t>(static_cast<std::size_t>(pipeline), blocks / pipeline);
}

/// FSDP's SHARD_GRAD_OP: weights stay gathered from forward to backward.
bool keeps_gathered(const io::Case& one) {
  constexpr auto kWords = std::to_array<std::string_view>({"grad_op", "zero2", "zero-2"});
  const auto said = [&](std::string_view word) { return says(one, "sharding", word); };
  if (std::any_of(kWords.begin(), kWords.end(), said)) return true;
  const bool fsdp = count_or(one, "fsdp", 0) > 1 || has_phrase(words_of(architecture_family(one)), "fsdp");
  return fsdp && count_or(one, "zero_stage", 3) == 2;
}

/// What its optimizer shares: as the source says, by a key or in its architecture ("fsdp", "zero-2", "ddp").
int sharing_of(const io::Case& one, int usual) {
  if (says(one, "optimizer_sharding", "none")) return 0;
  if (count_or(one, "fsdp", 0) > 1) return 3;
  if (keeps_gathered(one)) return 3;
  if (const auto stage = one.said("zero_stage") ? count_of(one, "zero_stage") : count_of(one, "zero")) {
    return static_cast<int>(std::min<std::int64_t>(*stage, 3));
  }
  const std::string words = words_of(architecture_family(one));
  if (has_phrase(words, "fsdp") || has_phrase(words, "hsdp") || has_phrase(words, "zero 3")) return 3;
  if (has_phrase(words, "zero 2")) return 2;
  if (has_phrase(words, "zero 1")) return 1;
  // In Megatron's frameworks that is data parallelism too, whose optimizer is spread over it or not.
  const bool of_megatron = has_any(framework_of(one), {"megatron", "nemo"});
  return words == " ddp " && !of_megatron ? 0 : usual;
}

/// What a framework sends beside kernels, as settings. `sequence`: tensor ranks cut rows too; `shares`: what of a
/// replica's states, 0 for nothing.
void add_overlap(const io::Case& one, bool sequence, int shares, std::vector<Override>& settings) {
  const importers::TrainingWay& way = way_of(one);
  const std::string precision = precision_of(one.precision);
  const auto yes = [&](const char* path) { settings.push_back({path, "yes", one.where}); };
  const bool said = one.said("overlap_grad_reduce").has_value();
  if (said ? !affirms(one, "overlap_grad_reduce") : way.beside == importers::Beside::kNothing) {
    settings.push_back({"overlap", "none", one.where});
  }
  if (way.beside >= importers::Beside::kWeights && shares > 0 && shares < 3) yes("parallel.overlap_gather");
  if (way.beside != importers::Beside::kAll) return;
  if (sequence && precision != "fp4") yes("parallel.overlap_tensor");
  if (shares > 0 && precision == "fp8") yes("parallel.gather_fp8");
}

/// Megatron sends beside the work of stages where a rank has several chunks, and nowhere else (megatron/training/
/// arguments.py: overlap_p2p_comm). Of all that the README of its core shows it says so.
bool sends_beside_chunks(const io::Case& one) {
  const std::string framework = framework_of(one);
  const bool of_readme = has(framework, "megatron-core") && has(lower_case(one.source), "nvidia/megatron-lm:images");
  return of_readme || (has(framework, "megatron") && says(one, "overlap", "pp-comm"));
}

/// Chunks of a rank: as said; one for each block where the source says that blocks are chunks; of two blocks, as most
/// of NVIDIA's recipes have them (GPT-3 175B, Llama 3.1 405B), where it says no more than that stages send beside their
/// work.
std::int64_t chunks_of(const io::Case& one) {
  const bool interleaved = says(one, "schedule", "interleaved") || says(one, "schedule", "1f1b-i");
  const auto layers = count_of(one, "layers");
  const std::int64_t stages = count_or(one, "pp", 1);
  if (one.said("vp") || !layers || stages < 2) return count_or(one, "vp", 1);
  if (interleaved && says(one, "chunks", "each")) return (*layers + stages - 1) / stages;
  if (!sends_beside_chunks(one) || *layers % stages != 0) return 1;
  const std::int64_t blocks = *layers / stages;
  return blocks % 2 == 0 ? blocks / 2 : blocks;
}

/// The schedule that its words name, or that its chunks per rank ask for.
std::string_view schedule_of(const io::Case& one) {
  if (says(one, "schedule", "gpipe")) return "gpipe";
  if (says(one, "schedule", "zbv") || says(one, "schedule", "zb-v")) return "zbv";
  // Qi et al. (arXiv 2401.10241): ZB-1p holds as much as 1F1B, ZB-2p twice that.
  if (says(one, "schedule", "zb-2p") || says(one, "schedule", "zb-h2")) return "zb-h2";
  if (says(one, "schedule", "zero bubble") || says(one, "schedule", "zb")) return "zb-h1";
  if (says(one, "schedule", "dualpipe")) return "dualpipe";
  return chunks_of(one) > 1 ? "interleaved" : "1f1b";
}

}  // namespace

namespace {

bool says_what_is_recomputed(const io::Case& one) {
  return one.said("recompute") || one.said("activation_checkpointing") || one.said("recompute_layers");
}

/// Megatron-LM's examples of GPT (examples/pretrain_gpt.sh, pretrain_gpt_distributed_with_mp.sh, pretrain_gpt3_175B.sh)
/// have --checkpoint-activations, and so do DeepSpeed's with it (Megatron-LM-v1.1.5-ZeRO3), until the spring of 2022,
/// when selective recomputation came (Korthikanti et al., arXiv 2205.05198).
bool is_early_megatron_gpt(const io::Case& one) {
  constexpr double kSelective = 2022.4;
  const std::string framework = framework_of(one);
  const bool megatrons = has(framework, "megatron-lm") || (has(framework, "deepspeed") && has(framework, "megatron"));
  return megatrons && has(lower_case(one.model), "gpt") && software_year_of(one).value_or(kSelective) < kSelective;
}

}  // namespace

std::string_view recomputation_of(const io::Case& one) {
  // GPipe's, and its port's, checkpoint wraps what a stage has (torchgpipe/checkpoint.py).
  const std::string_view whole = words_of(one.framework).find("gpipe") != std::string::npos ? "stage" : "full";
  for (const std::string_view key : {"recompute", "activation_checkpointing"}) {
    if (denies(one, key)) continue;
    if (says(one, key, kEveryOther)) return "full";
    if (says(one, key, "per operator")) return "per-op";
    if (says(one, key, "selective")) return "selective";
    if (says(one, key, "stage")) return "stage";
    const bool said = says(one, key, "full") || says(one, key, "offload") || says(one, key, "checkpointing") ||
                      says(one, key, "recompute") || affirms(one, key);
    if (said || says(one, key, "block") || says(one, key, "layer")) return whole;
  }
  if (count_or(one, "recompute_layers", 0) > 0) return "full";
  // Unsloth's loader, LLaMA-Factory's model preparation and ms-swift's trainer (its arguments: gradient_checkpointing)
  // checkpoint blocks unless they are told not to.
  const std::string framework = lower_case(one.framework);
  const bool by_default =
      has_any(framework, {"unsloth", "llama factory", "llama-factory", "llamafactory", "swift sft", "ms-swift"}) &&
      !has(framework, "megatron");
  return (by_default || is_early_megatron_gpt(one)) && !says_what_is_recomputed(one) ? whole : "none";
}

std::vector<Override> recomputation_by_recipe(const io::Case& one, const workload::Model& model) {
  constexpr std::int64_t kFrom = 30'000'000'000;
  const bool unsaid = has(framework_of(one), "automodel") && !says_what_is_recomputed(one);
  if (!unsaid || model.parameters() < kFrom) return {};
  return {{"parallel.recompute", "full", one.where}, {"parallel.recompute_stops", "yes", one.where}};
}

bool leaves_open(const io::Case& one) {
  const bool recommends = has(lower_case(one.architecture), "embedding model parallel");
  return (one.precision.empty() && !recommends) || (gives_sizes(one) && says_no_split(one));
}

bool gives_sizes(const io::Case& one) {
  return one.said("seq_len").has_value() &&
         (one.said("hidden").has_value() || one.said("tp").has_value() || one.said("pp").has_value());
}

std::optional<Override> stages_of(const io::Case& one, const workload::Model& model) {
  const std::int64_t pipeline = count_or(one, "pp", 1);
  const std::int64_t blocks = count_or(one, "layers", 1);
  if (pipeline < 2 || chunks_of(one) > 1) return std::nullopt;
  // Blocks begin where the first layer of one comes again.
  std::vector<std::size_t> starts;
  for (std::size_t first = 0; first < model.layers.size() && starts.empty(); ++first) {
    for (std::size_t i = first; i < model.layers.size(); ++i) {
      if (model.layers[i].name == model.layers[first].name) starts.push_back(i);
    }
    if (starts.size() < 2) starts.clear();
  }
  if (static_cast<std::int64_t>(starts.size()) != blocks) return std::nullopt;
  const std::vector<std::int64_t> stages = blocks_per_stage(one, pipeline, blocks);
  if (stages.empty()) return std::nullopt;
  std::string text;
  std::size_t block = 0;
  std::size_t begin = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    block += static_cast<std::size_t>(stages[s]);
    const std::size_t end = s + 1 < stages.size() ? starts[block] : model.layers.size();
    text += (s == 0 ? "" : "-") + std::to_string(end - begin);
    begin = end;
  }
  return Override{"parallel.layers_per_stage", text, one.where};
}

namespace {

/// MLPerf's LoRA keeps the frozen model in the 8 bits that its products read, without a transposed copy
/// (language_case.h).
bool keeps_eight_bits(const io::Case& one) {
  const std::string precision = precision_of(one.precision);
  return is_submission(one) && has_adapters(one) && (precision == "fp8" || precision == "fp4");
}

}  // namespace

bool is_compiled(const io::Case& one) {
  const std::string said = lower_case(one.said("compile").value_or(""));
  const bool named = said.starts_with("torch") || has_any(said, {"torch.compile", "inductor", "dynamo", "thunder"});
  if (said.empty()) return has(lower_case(one.framework), "torch.compile");
  return !denies(one, "compile") && !said.starts_with("eager") && (affirms(one, "compile") || named);
}

namespace {

/// Attention in one kernel: as said, or as the framework did by then.
bool has_attention_in_one(const io::Case& one, const importers::TrainingWay& way) {
  if (const auto said = said_attention_in_one(one)) return *said;
  // All pairs of so many tokens fit in no memory.
  constexpr std::int64_t kLong = 16384;
  if (count_or(one, "seq_len", 0) >= kLong) return true;
  const bool modern = software_year_of(one).value_or(importers::kNewest) >= way.fused_since;
  // ALiBi adds a bias to scores: these models' own code composes attention (their modeling files at Hugging Face).
  const std::string words = words_of(one.model);
  const bool biased = has_phrase(words, "bloom") || (has(words, "baichuan") && has_phrase(words, "13 b"));
  const bool by_transformers = has_any(framework_of(one), {"deepspeed", "hugging", "transformers", "hf "});
  return modern && !(biased && by_transformers) && one.said("transformer_engine") != "no";  // XLA has none of its own
}

/// Ranks that an expert is cut over, where these are others than those of the other layers.
std::optional<std::int64_t> expert_tensor_of(const io::Case& one, const plan::Parallel& cut, std::int64_t replicas) {
  if (cut.tensor == 1) return std::nullopt;
  if (one.said("etp")) {
    const auto said = count_of(one, "etp");
    return said == cut.tensor ? std::nullopt : said;
  }
  if (cut.expert == 1) return std::nullopt;
  // NVIDIA-NeMo/Megatron-Bridge scripts/performance: expert_tensor_parallel_size 1 where nobody says; torchtitan's
  // job_config likewise. Else with experts that are cut it cannot have run.
  const bool by_default = has_any(framework_of(one), {"megatron-bridge", "torchtitan"});
  return by_default || !plan::expert_ranks(cut, replicas) ? std::optional<std::int64_t>(1) : std::nullopt;
}

/// Adds settings of a row.
/// Whether context ranks change places with heads (DeepSpeed-Ulysses) instead of passing keys round.
bool exchanges_heads(const io::Case& one) {
  const std::string said = lower_case(one.said("cp_comm").value_or("") + " " + one.said("cp_kind").value_or(""));
  return has_any(said, {"a2a", "all-to-all", "ulysses"}) || has(lower_case(one.architecture), "ulysses");
}

/// What a row says of attention's kernel, in lower case, letters and digits alone: "fa2", "flashattention2".
std::string attention_words_of(const io::Case& one) {
  std::string words;
  for (const std::string_view key : {"attention", "attention_backend", "flash_attention"}) {
    for (const char c : lower_case(one.said(key).value_or(""))) {
      if (std::isalnum(static_cast<unsigned char>(c)) != 0) words += c;
    }
    words += ' ';
  }
  return words;
}

bool names_newest_attention(std::string_view words) {
  return has_any(words, {"fa3", "fa4", "flashattention3", "flashattention4", "flashattn3", "flashattn4", "cudnn"});
}

bool names_flash_attention_2(std::string_view words) {
  return has_any(words, {"fa2", "flashattention2", "flashattn2"});
}

/// The kernel of attention where it is one (software.attention): that which the row names, or its framework's.
std::string_view attention_kernel_of(const io::Case& one, const importers::TrainingWay& way) {
  const std::string words = attention_words_of(one);
  if (names_newest_attention(words)) return "best";
  // PyTorch's SDPBackend.FLASH_ATTENTION is the second as well.
  if (names_flash_attention_2(words) || has(one.said("attention").value_or(""), "FLASH_ATTENTION")) return "flash-2";
  constexpr double kCudnnFirst = 2026.2;  // PyTorch 2.11 (cost/attention_time.h)
  const bool pytorchs = way.attention == "flash-2" || way.attention == "sdpa";
  return pytorchs && software_year_of(one).value_or(0) >= kCudnnFirst ? "best" : way.attention;
}

void add_kernels(const io::Case& one, const importers::TrainingWay& way, std::vector<Override>& settings) {
  const AddSetting set{one, settings};
  const bool compiled = is_compiled(one);
  const bool one_kernel = has_attention_in_one(one, way);
  set("fusion", compiled ? (one_kernel ? "all" : "pointwise") : one_kernel ? "attention" : "none");
  const std::string_view kernel = attention_kernel_of(one, way);
  if (one_kernel && kernel != "best") set("software.attention", std::string(kernel));
}

void add_sharing(int shares, const io::Case& one, std::int64_t replicas, std::vector<Override>& settings) {
  const AddSetting set{one, settings};
  set("parallel.zero", std::to_string(shares));
  // MaxText's replicas of those that share are copies.
  const auto within = one.said("dp") && replicas != count_or(one, "dp", 1) ? count_of(one, "fsdp") : std::nullopt;
  const auto ranks = one.said("shard_ranks") ? count_of(one, "shard_ranks") : within;
  if (ranks && *ranks < replicas) set("parallel.shard_ranks", std::to_string(*ranks));
  if (shares == 3 && keeps_gathered(one)) set("parallel.reshard", "no");
  if (shares == 3 && count_or(one, "pp", 1) > 1 && importers::syncs_stages_once(framework_of(one))) {
    set("parallel.no_sync", "yes");
    set("parallel.reshard", "no");
  }
}

void add_recomputation(const io::Case& one, const importers::TrainingWay& way, std::vector<Override>& settings) {
  const AddSetting set{one, settings};
  if (const std::string_view again = recomputation_of(one); again != "none") {
    set("parallel.recompute", std::string(again));
    if (again != "selective" && way.stops_early) set("parallel.recompute_stops", "yes");
    if (says(one, "recompute", kEveryOther)) set("parallel.recompute_every", "2");
  }
}

void add_formats(const io::Case& one, const importers::TrainingWay& way, bool one_rank,
                 std::vector<Override>& settings) {
  const AddSetting set{one, settings};
  if (precision_of(one.precision) == "fp32" || precision_of(one.precision) == "tf32") return;
  // Autocast keeps weights, and what follows from them, in fp32.
  const bool own_formats = way.states != "pure-16" && !(way.names.empty() && has(framework_of(one), "pytorch"));
  const bool autocast = !own_formats && has_any(lower_case(one.precision), {"mixed", "amp"});
  const bool wide = says(one, "grad_dtype", "fp32");
  const std::string usual(autocast ? "fp32" : wide ? "mixed" : way.states);
  set("parallel.states", one.said("states").value_or(keeps_eight_bits(one) ? "fp8-primary" : usual));
  if (keeps_eight_bits(one) && one_rank) set("parallel.gated_fp8", "yes");
  set("strategy.gradients", std::string(autocast || wide ? "fp32" : way.gradients));
}

}  // namespace

std::optional<bool> said_attention_in_one(const io::Case& one) {
  const std::string flash = lower_case(one.said("flash_attention").value_or(""));
  const bool unsaid = flash.empty() || has_any(flash, {"not stated", "unknown", "n/a", "not said"});
  if (!unsaid) return !denies(one, "flash_attention");
  if (says(one, "attention", "flash") || says(one, "attention", "sdpa")) return true;
  if (says(one, "attention", "scaled_dot_product")) return true;
  const std::string words = attention_words_of(one);
  if (names_newest_attention(words) || names_flash_attention_2(words)) return true;
  if (says(one, "attention", "eager") || says(one, "attention_backend", "unfused")) return false;
  if (says(one, "attention", "materiali") || says(one, "attention", "naive")) return false;  // scores in memory
  return std::nullopt;
}

Expected<std::vector<Override>> splits_of(const io::Case& one) {
  if (auto counts = check_counts(one); !counts) return tl::unexpected<Error>(counts.error());
  std::vector<Override> settings;
  const AddSetting set{one, settings};
  const auto set_degree = [&](std::int64_t value, const char* path) {
    if (value > 1) set(path, std::to_string(value));
    return value;
  };
  const auto degree = [&](std::string_view key, const char* path) { return set_degree(count_or(one, key, 1), path); };
  const importers::TrainingWay& way = way_of(one);
  const auto degrees = degrees_of(one);
  if (!degrees) return tl::unexpected<Error>(degrees.error());
  const std::int64_t tensor = set_degree(degrees->tensor, "parallel.tensor");
  const std::int64_t pipeline = degree("pp", "parallel.pipeline");
  set_degree(degrees->context, "parallel.context");
  // NVIDIA-NeMo/Megatron-Bridge perf_recipes: moe_token_dispatcher_type "flex", by DeepEP or HybridEP.
  const std::string dispatcher = lower_case(one.said("dispatcher").value_or(one.said("kernels").value_or("")));
  const bool once = framework_of(one).find("megatron-bridge") != std::string::npos ||
                    has_any(dispatcher, {"deepep", "hybridep", "flex"});
  const std::int64_t expert = degree("ep", "parallel.expert");
  if (expert > 1 && once) set("parallel.expert_dispatch", "once");
  const auto replicas = replicas_of(one, *degrees);
  if (!replicas) return tl::unexpected<Error>(replicas.error());
  if (const auto whole =
          expert_tensor_of(one, {.tensor = tensor, .context = degrees->context, .expert = expert}, *replicas)) {
    set("parallel.expert_tensor", std::to_string(*whole));
  }
  const auto global = global_batch_of(one, *replicas);
  if (!global && one.metric == io::CaseMetric::kStepMilliseconds) {
    return fail(ErrorCode::kUnsupported, "the source does not say the batch");
  }
  set("parallel.data", std::to_string(*replicas));
  set("batch", std::to_string(micro_batch_of(one, *replicas)));
  if (global) set("global_batch", std::to_string(*global));
  if (pipeline > 1) {
    set("parallel.schedule", std::string(schedule_of(one)));
    set_degree(chunks_of(one), "parallel.virtual_stages");
    if (schedule_of(one) == "1f1b") set("parallel.overlap_p2p", "no");
  }
  add_kernels(one, way, settings);
  if (exchanges_heads(one)) set("parallel.context_by", "ulysses");
  const bool said = one.said("sequence_parallel").has_value();
  const bool sequence = tensor > 1 && (said ? affirms(one, "sequence_parallel") : way.sequence);
  if (sequence) set("parallel.sequence", "yes");
  if (pipeline > 1 && tensor > 1 && !sequence && scatters_between_stages(one)) set("parallel.scatter_gather", "yes");
  const int shares = *replicas * degrees->context > 1 ? sharing_of(one, way.zero) : 0;
  if (shares > 0) add_sharing(shares, one, *replicas, settings);
  add_recomputation(one, way, settings);
  add_formats(one, way, tensor * degrees->context * pipeline == 1, settings);
  add_overlap(one, sequence, shares, settings);
  add_offload(one, shares, settings);
  if (has_adapters(one)) add_adapters(one, settings);
  return settings;
}

bool cuts_stages_alone(const io::Case& one) {
  const auto whole = [&](std::string_view key) { return count_or(one, key, 1) == 1; };
  return count_or(one, "pp", 1) > 1 && whole("tp") && whole("cp") && whole("ep") && sharing_of(one, 0) == 0;
}

Expected<std::vector<Override>> stages_alone_of(const io::Case& one) {
  if (auto counts = check_counts(one); !counts) return tl::unexpected<Error>(counts.error());
  const auto replicas = replicas_of(one, {});
  if (!replicas) return tl::unexpected<Error>(replicas.error());
  const auto global = global_batch_of(one, *replicas);
  if (!global && one.metric == io::CaseMetric::kStepMilliseconds) {
    return fail(ErrorCode::kUnsupported, "the source does not say the batch");
  }
  std::vector<Override> settings;
  const AddSetting set{one, settings};
  set("parallel.pipeline", std::to_string(count_or(one, "pp", 1)));
  set("parallel.data", std::to_string(*replicas));
  set("parallel.schedule", std::string(schedule_of(one)));
  set("batch", std::to_string(micro_batch_of(one, *replicas)));
  if (global) set("global_batch", std::to_string(*global));
  return settings;
}

Expected<Work> published_flops(const io::Case& one, double samples) {
  const ModelFamily family = family_of(one);
  if (family == ModelFamily::kHybrid) {
    return fail(ErrorCode::kUnsupported, "how the source counts FLOPs of state-space blocks is not known");
  }
  if (family == ModelFamily::kT5 || family == ModelFamily::kVit) {
    return fail(ErrorCode::kUnsupported, "how the source counts FLOPs of such a model is not known");
  }
  const auto sizes = sizes_of(one, true);
  if (!sizes) return tl::unexpected<Error>(sizes.error());
  const auto h = static_cast<double>(sizes->hidden);
  const auto s = static_cast<double>(sizes->sequence);
  const auto l = static_cast<double>(sizes->layers);
  const double tokens = samples * s;
  const auto v = static_cast<double>(count_or(one, "vocab", sizes->vocabulary));
  if (!one.said("kv_heads") && family != ModelFamily::kLlama) {
    // Narayanan et al. 2021, equation 3: with the forward pass once more (4 passes), later without (3).
    const double passes = recomputation_of(one) == "full" || recomputation_of(one) == "stage" ? 4 : 3;
    return flops(passes * 24 * tokens * l * h * h * (1 + s / (6 * h)) + 6 * tokens * v * h);
  }
  // Megatron-LM num_floating_point_operations (core_r0.12): attention over all pairs, three passes.
  const auto kv = static_cast<double>(count_or(one, "kv_heads", sizes->heads)) / static_cast<double>(sizes->heads);
  const auto ffn = static_cast<double>(gated_size(one, "ffn", 4 * sizes->hidden));
  return flops(12 * tokens * l * h * h * (1 + kv + s / h + 1.5 * ffn / h) + 6 * tokens * v * h);
}

}  // namespace ddlsim::whatif
