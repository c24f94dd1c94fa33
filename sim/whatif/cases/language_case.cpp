#include "cases/language_case.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <string>

#include "cases/case_model.h"
#include "cases/case_scenario.h"
#include "cases/case_software.h"
#include "cases/case_text.h"
#include "cases/framework_name.h"
#include "cases/tuning_case.h"
#include "ddlsim/support/quantity_io.h"

namespace ddlsim::whatif {
namespace {

/// In so many words, or, of a submission to MLPerf that says its passes, by naming the kinds of ranks and no number.
bool says_no_split(const io::Case& one) {
  if (one.architecture.starts_with("not stated")) return true;
  const std::string words = words_of(one.architecture);
  constexpr auto kDegrees = std::to_array<std::string_view>({"tp", "pp", "cp", "dp", "fsdp"});
  const auto said = [&](std::string_view degree) { return count_of(one, degree).has_value(); };
  if (!is_submission(one) || !has_phrase(words, "tp") || !one.said("grad_accum")) return false;
  return std::none_of(kDegrees.begin(), kDegrees.end(), said);
}

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

/// Chunks of a rank: as said, or one for each block where the source says that blocks are chunks.
std::int64_t chunks_of(const io::Case& one) {
  const bool interleaved = says(one, "schedule", "interleaved") || says(one, "schedule", "1f1b-i");
  const auto layers = count_of(one, "layers");
  const std::int64_t stages = count_or(one, "pp", 1);
  if (one.said("vp") || !interleaved || !layers || stages < 2 || !says(one, "chunks", "each")) {
    return count_or(one, "vp", 1);
  }
  return (*layers + stages - 1) / stages;
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

std::string_view recomputation_of(const io::Case& one) {
  // GPipe's, and its port's, checkpoint wraps what a stage has (torchgpipe/checkpoint.py).
  const std::string_view whole = words_of(one.framework).find("gpipe") != std::string::npos ? "stage" : "full";
  for (const std::string_view key : {"recompute", "activation_checkpointing"}) {
    if (denies(one, key)) continue;
    if (says(one, key, kEveryOther)) return "full";
    if (says(one, key, "per operator")) return "per-op";
    if (says(one, key, "selective")) return "selective";
    if (says(one, key, "stage")) return "stage";
    const bool said =
        says(one, key, "full") || says(one, key, "checkpointing") || says(one, key, "recompute") || affirms(one, key);
    if (said || says(one, key, "block") || says(one, key, "layer")) return whole;
  }
  if (count_or(one, "recompute_layers", 0) > 0) return "full";
  return "none";
}

namespace {

/// A degree in the architecture's own words: "tp2-pp4-dp8", "TP=2".
std::optional<std::string> degree_in_words(const io::Case& one, std::string_view key) {
  constexpr auto kDegrees = std::to_array<std::string_view>({"tp", "pp", "dp", "cp", "ep"});
  if (std::find(kDegrees.begin(), kDegrees.end(), key) == kDegrees.end()) return std::nullopt;
  const std::string words = words_of(one.architecture.substr(0, one.architecture.find('(')));
  // Who calls a ring's ranks those of sequence parallelism has no tensor ranks whose rows it would cut.
  if (key == "cp" && (has_phrase(words, "ring attention") || has_phrase(words, "ulysses"))) {
    return one.said("sequence_parallel");
  }
  const std::string phrase = " " + std::string(key) + " ";
  const std::size_t at = words.find(phrase);
  if (at == std::string::npos) return std::nullopt;
  const std::size_t begin = at + phrase.size();
  const std::string next = words.substr(begin, words.find(' ', begin) - begin);
  const bool number = !next.empty() && next.find_first_not_of("0123456789") == std::string::npos;
  return number ? std::optional(next) : std::nullopt;
}

}  // namespace

std::optional<std::int64_t> count_of(const io::Case& one, std::string_view key) {
  const auto said = one.said(key);
  const auto text = said ? said : degree_in_words(one, key);
  if (!text) return std::nullopt;
  const auto number = parse_number(*text);
  if (!number || *number < 0 || *number > 1e15 || *number != std::floor(*number)) return std::nullopt;
  return static_cast<std::int64_t>(*number);
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

/// Nothing where it is larger than anybody's count.
std::optional<std::int64_t> product_of(std::initializer_list<std::int64_t> counts) {
  constexpr double kMost = 1e15;
  double all = 1;
  std::int64_t exact = 1;
  for (const std::int64_t count : counts) {
    all *= static_cast<double>(count);
    if (all > kMost) return std::nullopt;
    exact *= count;
  }
  return exact;
}

struct Degrees {
  std::int64_t tensor = 1;
  std::int64_t context = 1;
};

/// Where several GPUs share a sample, nobody says a degree and ranks of one kind are named: these are as many.
std::optional<Degrees> ranks_of_one_sample(const io::Case& one) {
  constexpr auto kDegrees = std::to_array<std::string_view>({"tp", "pp", "cp", "dp", "ep", "fsdp"});
  const auto said = [&](std::string_view degree) { return count_of(one, degree).has_value(); };
  const auto global = count_of(one, "global_batch");
  if (!global || *global < 1 || *global >= one.total_gpus || one.total_gpus % *global != 0) return std::nullopt;
  if (std::any_of(kDegrees.begin(), kDegrees.end(), said) || is_submission(one)) return std::nullopt;
  const std::int64_t ranks = one.total_gpus / *global;
  const std::string words = words_of(architecture_family(one));
  const bool tensor = has_phrase(words, "tp");
  const bool context = has_phrase(words, "cp") || has_phrase(words, "sp");
  if (tensor) return Degrees{.tensor = ranks};
  return context && !tensor ? std::optional(Degrees{.context = ranks}) : std::nullopt;
}

/// As stated; of a submission that does not say its split, as assumed (language_case.h): what is stated of it stays.
Expected<Degrees> degrees_of(const io::Case& one) {
  Degrees degrees{count_or(one, "tp", 1), count_or(one, "cp", 1)};
  if (const auto shared = ranks_of_one_sample(one)) return *shared;
  if (!says_no_split(one)) return degrees;
  const auto global = count_of(one, "global_batch");
  const auto passes = count_of(one, "grad_accum");
  if (is_submission(one) && global && passes && *passes > 0) {
    const std::int64_t replicas = std::min(one.total_gpus, *global / *passes);
    const auto known = product_of({replicas, degrees.tensor, degrees.context, count_or(one, "pp", 1)});
    const std::int64_t left = known && *known > 0 && one.total_gpus % *known == 0 ? one.total_gpus / *known : 0;
    (one.said("tp") ? degrees.context : degrees.tensor) *= left;
    if (left > 0 && left <= one.gpus_per_node) return degrees;
  }
  return fail(ErrorCode::kUnsupported, "the source does not say how the model was split");
}

/// Whole replicas: what is stated, or what the other degrees leave. MaxText counts those that share states apart,
/// others those that share experts.
Expected<std::int64_t> replicas_of(const io::Case& one, const Degrees& degrees) {
  if (const auto stated = count_of(one, "dp")) {
    for (const std::string_view apart : {"fsdp", "ep"}) {
      const std::int64_t shards = count_or(one, apart, 1);
      const auto all = product_of({*stated, shards, degrees.tensor, degrees.context, count_or(one, "pp", 1)});
      if (shards > 1 && all == one.total_gpus) return *stated * shards;
    }
    return *stated;
  }
  const auto others = product_of({degrees.tensor, degrees.context, count_or(one, "pp", 1)});
  if (!others || *others < 1 || one.total_gpus % *others != 0) {
    return fail(ErrorCode::kUnsupported,
                others
                    ? fmt::format("{} GPUs are not a multiple of the {} that hold the model", one.total_gpus, *others)
                    : fmt::format("{} GPUs are fewer than its degrees ask for", one.total_gpus));
  }
  return one.total_gpus / *others;
}

/// As it is said; or a batch that is that of a GPU, as loaders have it for each of their ranks.
std::optional<std::int64_t> micro_batch_said(const io::Case& one) {
  if (const auto stated = count_of(one, "micro_batch")) return stated;
  const auto loaded = count_of(one, "batch_size");
  const std::int64_t passes = count_or(one, "grad_accum", 1);
  const bool of_pass = loaded && one.batch_per_gpu && *loaded > 0 && *loaded * passes == *one.batch_per_gpu;
  return loaded == one.batch_per_gpu || of_pass ? loaded : std::nullopt;
}

/// Samples of a step: as stated, or those of every GPU or of every pass.
std::optional<std::int64_t> global_batch_of(const io::Case& one, std::int64_t replicas) {
  if (const auto stated = count_of(one, "global_batch")) return stated;
  const auto passes = count_of(one, "grad_accum");
  const bool pipelined = count_or(one, "pp", 1) > 1;
  const auto micro = micro_batch_said(one);
  if (micro && (passes || !pipelined)) return product_of({*micro, replicas, passes.value_or(1)});
  if (one.batch_per_gpu) return product_of({*one.batch_per_gpu, one.total_gpus, passes.value_or(1)});
  return std::nullopt;
}

/// Samples of one pass of a replica.
std::int64_t micro_batch_of(const io::Case& one, std::int64_t replicas) {
  if (const auto stated = micro_batch_said(one)) return *stated;
  const auto global = global_batch_of(one, replicas);
  const bool pipelined = count_or(one, "pp", 1) > 1;
  const bool of_gpus = !one.said("global_batch") && !pipelined;
  const std::int64_t passes = count_of(one, "grad_accum").value_or(of_gpus ? 1 : 0);
  const auto shares = product_of({replicas, passes});
  if (global && shares && *shares > 0 && *global % *shares == 0) return *global / *shares;
  const bool once = !importers::accumulates(framework_of(one), software_year_of(one).value_or(importers::kNewest));
  if (once && !pipelined && global && *global % replicas == 0) return *global / replicas;
  // Megatron's examples of these sizes use 1 with pipelines of many stages; without a statement the smallest is the
  // one that always fits. Nobody has a GPU wait for the host with a model that is small.
  constexpr double kLarge = 1e9;
  constexpr double kTokens = 8192;
  const auto hidden = static_cast<double>(count_or(one, "hidden", 0));
  const double parameters = 12 * static_cast<double>(count_or(one, "layers", 0)) * hidden * hidden;
  const bool whole = count_or(one, "tp", 1) == 1 && !pipelined && count_or(one, "experts", 1) == 1;
  const auto length = static_cast<double>(count_or(one, "seq_len", 0));
  if (!whole || parameters == 0 || parameters >= kLarge || length == 0) return 1;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(kTokens / length));
}

/// MLPerf's LoRA keeps the frozen model in the 8 bits that its products read, without a transposed copy
/// (language_case.h).
bool keeps_eight_bits(const io::Case& one) {
  const std::string precision = precision_of(one.precision);
  return is_submission(one) && has_adapters(one) && (precision == "fp8" || precision == "fp4");
}

/// What torch.compile, its Inductor or Thunder joins.
bool is_compiled(const io::Case& one) {
  const std::string said = lower_case(one.said("compile").value_or(""));
  const bool named = said.starts_with("torch") || has_any(said, {"torch.compile", "inductor", "dynamo", "thunder"});
  if (said.empty()) return has(lower_case(one.framework), "torch.compile");
  return !denies(one, "compile") && !said.starts_with("eager") && (affirms(one, "compile") || named);
}

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

void add_kernels(const io::Case& one, const importers::TrainingWay& way, std::vector<Override>& settings) {
  const AddSetting set{one, settings};
  const bool compiled = is_compiled(one);
  const bool one_kernel = has_attention_in_one(one, way);
  set("fusion", compiled ? (one_kernel ? "all" : "pointwise") : one_kernel ? "attention" : "none");
  if (one_kernel && way.attention != "best") set("software.attention", std::string(way.attention));
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
  const std::string dispatcher = lower_case(one.said("dispatcher").value_or(""));
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
  const auto sizes = sizes_of(one);
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
