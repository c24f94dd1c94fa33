#include "ddlsim/io/case_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <istream>
#include <nlohmann/json.hpp>
#include <set>

#include "csv_row.h"
#include "ddlsim/io/csv.h"
#include "ddlsim/io/table_file.h"
#include "ddlsim/io/yaml.h"
#include "ddlsim/support/quantity_io.h"

namespace ddlsim::io {
namespace {

enum Column : std::size_t {
  kId,
  kGroup,
  kSource,
  kModel,
  kFramework,
  kPrecision,
  kGpu,
  kGpusPerNode,
  kNodes,
  kTotalGpus,
  kIntra,
  kInter,
  kBatch,
  kArchitecture,
  kExtra,
  kMetric,
  kValue,
  kNotes,
};

std::vector<std::string> columns() {
  return {"id",
          "group",
          "source",
          "model",
          "framework",
          "precision",
          "gpu",
          "gpus_per_node",
          "nodes",
          "total_gpus",
          "intra_interconnect",
          "inter_network",
          "batch_per_gpu",
          "architecture",
          "extra",
          "metric",
          "value",
          "notes"};
}

using Extra = std::map<std::string, std::string, std::less<>>;

/// Other names of what this project's tables call so; in lower case, with underscores.
constexpr auto kOtherNames = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"seq_length", "seq_len"},
    {"sequence_length", "seq_len"},
    {"max_seq_length", "seq_len"},
    {"max_seq_len", "seq_len"},
    {"max_sequence_length", "seq_len"},
    {"seqlen", "seq_len"},
    {"seq", "seq_len"},
    {"context_length", "seq_len"},
    {"tensor_parallel", "tp"},
    {"tensor_parallel_size", "tp"},
    {"tensor_model_parallel_size", "tp"},
    {"pipeline_parallel", "pp"},
    {"pipeline_parallel_size", "pp"},
    {"pipeline_model_parallel_size", "pp"},
    {"context_parallel", "cp"},
    {"context_parallel_size", "cp"},
    {"expert_parallel", "ep"},
    {"expert_model_parallel_size", "ep"},
    {"data_parallel", "dp"},
    {"data_parallel_size", "dp"},
    {"virtual_pipeline", "vp"},
    {"virtual_pipeline_model_parallel_size", "vp"},
    {"mbs", "micro_batch"},
    {"micro_batch_size", "micro_batch"},
    {"gbs", "global_batch"},
    {"global_batch_size", "global_batch"},
    {"gradient_accumulation", "grad_accum"},
    {"gradient_accumulation_steps", "grad_accum"},
    {"accumulation_steps", "grad_accum"},
    {"accumulation", "grad_accum"},
    {"vpp", "vp"},
    {"hidden_size", "hidden"},
    {"d_model", "hidden"},
    {"n_embd", "hidden"},
    {"emb_dim", "hidden"},
    {"embed_dim", "hidden"},
    {"num_layers", "layers"},
    {"num_hidden_layers", "layers"},
    {"n_layers", "layers"},
    {"n_layer", "layers"},
    {"num_attention_heads", "heads"},
    {"attention_heads", "heads"},
    {"num_heads", "heads"},
    {"n_heads", "heads"},
    {"n_head", "heads"},
    {"num_key_value_heads", "kv_heads"},
    {"key_value_heads", "kv_heads"},
    {"num_query_groups", "kv_heads"},
    {"intermediate_size", "ffn"},
    {"ffn_hidden_size", "ffn"},
    {"vocab_size", "vocab"},
    {"vocabulary", "vocab"},
    {"num_experts", "experts"},
    {"num_local_experts", "experts"},
    {"num_moe_experts", "experts"},
    {"num_experts_per_tok", "top_k"},
    {"moe_router_topk", "top_k"},
    {"moe_intermediate_size", "moe_ffn"},
    {"moe_ffn_hidden_size", "moe_ffn"},
    {"moe_dispatcher", "dispatcher"},
    {"moe_dispatch", "dispatcher"},
    {"moe_token_dispatcher_type", "dispatcher"},
    {"recomputation", "recompute"},
    {"activation_recomputation", "recompute"},
    {"gradient_checkpointing", "activation_checkpointing"},
    {"checkpoint_activations", "activation_checkpointing"},
    {"gradient_checkpoint", "activation_checkpointing"},
    {"zero_optimization_stage", "zero_stage"},
    {"sequence_parallelism", "sequence_parallel"},
    {"compiler", "compile"},
    {"torch.compile", "compile"},
    {"torch_compile", "compile"},
    {"compile_model", "compile"},
    {"max_length", "seq_len"},
    {"context_len", "seq_len"},
    {"ctx_len", "seq_len"},
    {"block_size", "seq_len"},
    {"model_parallel", "tp"},
    {"model_parallel_size", "tp"},
    {"model_parallel_gpus", "tp"},
    {"device_batch_size", "micro_batch"},
    {"d_batch_size", "micro_batch"},  // MLPerf's logs of BERT
    {"per_device_batch_size", "micro_batch"},
    {"per_device_train_batch_size", "micro_batch"},
    {"train_micro_batch_size_per_gpu", "micro_batch"},
    {"total_batch_size", "global_batch"},
    {"train_batch_size", "global_batch"},
    {"gradient_accum_steps", "grad_accum"},
    {"grad_accum_steps", "grad_accum"},
    {"grad_acc_steps", "grad_accum"},
    {"grad_acc", "grad_accum"},
    {"grad_accumulation", "grad_accum"},
    {"grad_accumulation_steps", "grad_accum"},
    {"microbatches", "grad_accum"},
    {"micro_batches", "grad_accum"},
    {"num_microbatches", "grad_accum"},
    {"num_micro_batches", "grad_accum"},
    {"number_of_microbatches", "grad_accum"},
    {"number_of_micro_batches", "grad_accum"},
    {"pipeline_stages", "pp"},
    {"hidden_dim", "hidden"},
    {"hidden_dimension", "hidden"},
    {"total_sequence_length", "seq_len"},
    {"recompute_granularity", "recompute"},
    {"attention_implementation", "attention"},
    {"attn_implementation", "attention"},
    {"flash_attn", "flash_attention"},
    {"use_flash_attn", "flash_attention"},
    {"use_flash_attention", "flash_attention"},
    {"sharding_strategy", "sharding"},
    {"fsdp_sharding_strategy", "sharding"},
    {"lora_r", "lora_rank"},
    {"lora_target", "lora_targets"},
    {"lora_target_modules", "lora_targets"},
    {"target_modules", "lora_targets"},
    {"lora_modules", "lora_targets"},
    {"quant", "quantization"},
    {"optimizer_offload", "offload_optimizer"},
    {"opt_offload", "offload_optimizer"},
    {"offload_param", "param_offload"},
    {"offload_params", "param_offload"},
    {"offload_activations", "activation_offload"},
    {"dim", "hidden"},
    {"n_kv_heads", "kv_heads"},
    {"ffn_hidden", "ffn"},
    {"mlp_hidden_dim", "ffn"},
    {"dim_feedforward", "ffn"},
    {"d_ff", "ffn"},
    {"moe_top_k", "top_k"},
    {"max_target_length", "seq_len"},
    {"remat_policy", "recompute"},
    {"activation_checkpoint", "activation_checkpointing"},
    {"ac", "activation_checkpointing"},
    {"activation_checkpoint_mode", "activation_checkpointing"},
    {"grad_checkpointing", "activation_checkpointing"},
    {"grad_checkpoint", "activation_checkpointing"},
    {"remat", "activation_checkpointing"},
    {"tensor_parallel_degree", "tp"},
    {"pipeline_parallel_degree", "pp"},
    {"context_parallel_degree", "cp"},
    {"expert_parallel_degree", "ep"},
    {"ici_expert_parallelism", "ep"},
    {"ici_tensor_parallelism", "tp"},
    {"dp_shard", "dp"},
    {"ga", "grad_accum"},
    {"gradient_accum", "grad_accum"},
    {"global_bs", "global_batch"},
    {"global_bsz", "global_batch"},
    {"micro_bs", "micro_batch"},
    {"micro_bsz", "micro_batch"},
    {"examples_per_gpu", "micro_batch"},
    {"samples_per_gpu", "micro_batch"},
    {"per_gpu_batch_size", "micro_batch"},
    {"per_gpu_train_batch_size", "micro_batch"},
    {"local_batch_size", "micro_batch"},
    {"cutoff_len", "seq_len"},
    {"cutoff_length", "seq_len"},
    {"model_max_length", "seq_len"},
    {"n_ctx", "seq_len"},
    {"n_positions", "seq_len"},
    {"dp_size", "dp"},
    {"tp_size", "tp"},
    {"pp_size", "pp"},
    {"cp_size", "cp"},
    {"ep_size", "ep"},
    {"flash_attention_2", "flash_attention"},
    {"flash_attn_2", "flash_attention"},
    {"use_flash_attention_2", "flash_attention"},
    {"use_flash_attn_2", "flash_attention"},
    {"model_dtype", "torch_dtype"},
    {"weights_dtype", "torch_dtype"},
    {"use_liger_kernel", "liger_kernel"},
    {"enable_liger_kernel", "liger_kernel"},
    {"liger", "liger_kernel"},
    {"img_size", "image_size"},
    {"input_size", "image_size"},
    {"year", "date"},
    {"tuning_method", "tuning"},
    {"tuning_type", "tuning"},
    {"fine_tuning", "tuning"},
    {"finetuning", "tuning"},
    {"training", "tuning"},
    {"training_type", "tuning"},
    {"training_method", "tuning"},
    {"cuda_launch_blocking", "launch_blocking"},
    {"nccl_p2p_disable", "p2p_disabled"},
    {"p2p_disable", "p2p_disabled"},
    {"num_ckpt_layers", "recompute_layers"},
    {"num_checkpointed_layers", "recompute_layers"},
    {"recompute_num_layers", "recompute_layers"},
    {"activation_checkpointing_layers", "recompute_layers"},
});

/// The name that tables here have for a key: "TP" is tp, "max_seq_length" seq_len, "Image size" image_size.
std::string usual_name(const std::string& key) {
  std::string folded = key;
  for (char& c : folded) {
    c = c == '-' || c == ' ' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  while (folded.size() > 1 && folded.back() == '.') folded.pop_back();  // "Gradient Accum."
  for (const auto& [other, usual] : kOtherNames) {
    if (other == folded) return std::string(usual);
    if (usual == folded) return folded;
  }
  return folded;
}

/// "64K" tokens of a sequence are 65,536, "256k" of a vocabulary 256,000.
std::string in_thousands(std::string text, double thousand) {
  if (text.empty() || (text.back() != 'K' && text.back() != 'k')) return text;
  const auto thousands = parse_number(std::string_view(text).substr(0, text.size() - 1));
  return thousands ? fmt::format("{:.0f}", *thousands * thousand) : text;
}

/// "2.95M tokens" of a step are 720 sequences of 4,096.
std::string in_sequences(const std::string& batch, const std::string& length) {
  constexpr std::string_view kUnit = "tokens";
  std::string_view number = batch;
  if (!number.ends_with(kUnit)) return batch;
  number.remove_suffix(kUnit.size());
  number = number.substr(0, number.find_last_not_of(' ') + 1);
  if (number.empty()) return batch;
  const double unit = number.back() == 'M' ? 1e6 : number.back() == 'K' || number.back() == 'k' ? 1e3 : 1;
  if (unit > 1) number.remove_suffix(1);
  const auto tokens = parse_number(number);
  const auto each = parse_number(length);
  if (!tokens || !each || *each < 1) return batch;
  return fmt::format("{:.0f}", std::round(*tokens * unit / *each));
}

/// "Peak memory (GB)" and its like, of a GPU, in bytes.
std::optional<std::string> bytes_in(const std::string& key, const std::string& said) {
  constexpr auto kKeys =
      std::to_array<std::string_view>({"memory_(gb)", "peak_memory_(gb)", "peak_memory_gb", "max_memory_(gb)",
                                       "max_memory_gb", "peak_mem_(gb)", "memory_per_gpu_(gb)", "memory_gb_per_gpu"});
  if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end()) return std::nullopt;
  const auto gigabytes = parse_number(said);
  if (!gigabytes || !(*gigabytes > 0 && *gigabytes < 1e6)) return std::nullopt;
  return fmt::format("{:.0f}", *gigabytes * 1e9);
}

/// What stands in a table's empty cells.
bool says_nothing(std::string_view text) { return text == "-" || text == "–" || text == "n/a" || text == "N/A"; }

/// A list's values one after another; any other structure as it stands, which no setting is read from.
std::string said_by(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  const auto plain = [](const nlohmann::json& one) { return !one.is_structured(); };
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), plain)) return value.dump();
  std::string all;
  for (const nlohmann::json& one : value) all += (all.empty() ? "" : ", ") + said_by(one);
  return all;
}

bool is_setting(const std::string& name) {
  return std::any_of(kOtherNames.begin(), kOtherNames.end(), [&](const auto& known) { return known.second == name; });
}

Expected<Extra> parse_extra(std::string_view text) {
  Extra extra;
  if (text.empty()) return extra;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) {
    return fail(ErrorCode::kParse, "'extra' is not a JSON object", {},
                {R"(write it as {"seq_len": 128}, or leave it empty)"});
  }
  for (const auto& [key, value] : json.items()) {
    if (value.is_null()) continue;
    const std::string name = usual_name(key);
    if (value.is_object() && is_setting(name)) {
      return fail(ErrorCode::kParse, fmt::format("'{}' in 'extra' is not a plain value", key.substr(0, 60)));
    }
    std::string said = said_by(value);
    if (says_nothing(said) || (name == "dp" && said == "-1")) continue;  // torchtitan: what other degrees leave
    if (const auto memory = bytes_in(name, said)) extra.try_emplace("memory_bytes_per_gpu", *memory);
    if (name == "seq_len") said = in_thousands(std::move(said), 1024);
    if (name == "vocab") said = in_thousands(std::move(said), 1000);
    // What is written in this project's own words counts.
    if (name == key) {
      extra[name] = std::move(said);
    } else {
      extra.try_emplace(name, std::move(said));
    }
  }
  const auto batch = extra.find("global_batch");
  const auto length = extra.find("seq_len");
  if (batch != extra.end() && length != extra.end()) batch->second = in_sequences(batch->second, length->second);
  return extra;
}

/// Tools that keep empty fields in a column of numbers write its whole ones as "8.0".
std::int64_t count_in(RowReader& row, Column column) {
  constexpr std::string_view kZero = ".0";
  std::string text = row.text(column);
  if (text.ends_with(kZero)) text.erase(text.size() - kZero.size());
  return row.keep(parse_count(text, {1, std::int64_t{1} << 40}), column).value_or(1);
}

constexpr double kMostPerGpu = 1e9;

/// Of "42.67" per GPU, of 256 samples on six GPUs: what the GPUs have that all wait for.
std::optional<std::int64_t> largest_part(const std::string& per_gpu) {
  const auto said = parse_number(per_gpu);
  if (!said || *said <= 1 || *said > kMostPerGpu || *said == std::floor(*said)) return std::nullopt;
  return static_cast<std::int64_t>(std::ceil(*said));
}

/// Of "0.25" per GPU, where several GPUs share a sample: what that is on all of them.
std::optional<std::int64_t> batch_of_all(const std::string& per_gpu, std::int64_t gpus) {
  const auto said = parse_number(per_gpu);
  if (!said || *said <= 0 || *said > kMostPerGpu || *said == std::floor(*said)) return std::nullopt;
  constexpr double kRounding = 1e-6;
  const double all = *said * static_cast<double>(gpus);
  const double whole = std::round(all);
  if (whole < 1 || std::abs(all - whole) > kRounding * all) return std::nullopt;
  return static_cast<std::int64_t>(whole);
}

Case read_row(RowReader& row, const CsvReader& csv) {
  Case one;
  one.id = row.needed(kId);
  one.group = row.text(kGroup).empty() ? one.id : row.text(kGroup);
  one.source = row.text(kSource);
  one.model = row.needed(kModel);
  one.framework = row.text(kFramework);
  one.precision = row.text(kPrecision);
  one.gpu = row.needed(kGpu);
  one.gpus_per_node = count_in(row, kGpusPerNode);
  one.nodes = count_in(row, kNodes);
  one.total_gpus = count_in(row, kTotalGpus);
  one.intra_interconnect = row.text(kIntra);
  one.inter_network = row.text(kInter);
  one.architecture = row.text(kArchitecture);
  if (auto extra = row.keep(parse_extra(row.text(kExtra)), kExtra)) one.extra = std::move(*extra);
  if (const auto shared = batch_of_all(row.text(kBatch), one.total_gpus)) {
    one.extra.try_emplace("global_batch", std::to_string(*shared));
  } else if (const auto uneven = largest_part(row.text(kBatch))) {
    one.batch_per_gpu = *uneven;
  } else if (!row.text(kBatch).empty()) {
    one.batch_per_gpu = count_in(row, kBatch);
  }
  one.metric = row.keep(parse_choice(kCaseMetrics, row.text(kMetric), "metric"), kMetric).value_or(one.metric);
  one.value = row.keep(parse_number(row.text(kValue)), kValue).value_or(1);
  if (one.value <= 0) row.report(fail(ErrorCode::kInvalidArgument, "a measured value must be above zero"), kValue);
  one.notes = row.text(kNotes);
  one.where = csv.where(kId);
  return one;
}

}  // namespace

std::optional<std::string> Case::said(std::string_view key) const {
  const auto found = extra.find(key);
  if (found == extra.end()) return std::nullopt;
  return found->second;
}

std::span<const std::string_view> other_extra_keys() {
  static constexpr auto kKeys = [] {
    std::array<std::string_view, kOtherNames.size()> keys{};
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = kOtherNames[i].first;
    return keys;
  }();
  return kKeys;
}

Expected<std::vector<Case>> read_cases(std::istream& stream, const std::string& file) {
  const std::vector<std::string> names = columns();
  auto csv = CsvReader::open(stream, file, names);
  if (!csv) return tl::unexpected<Error>(csv.error());
  std::vector<Case> cases;
  std::set<std::string, std::less<>> ids;
  const auto sound = for_each_row(*csv, names, [&](RowReader& row) {
    Case one = read_row(row, *csv);
    if (row.errors().empty() && !ids.insert(one.id).second) {
      row.report(fail(ErrorCode::kParse, fmt::format("the id '{}' stands twice", one.id.substr(0, 60))), kId);
    }
    cases.push_back(std::move(one));
  });
  if (!sound) return tl::unexpected<Error>(sound.error());
  if (cases.empty()) return fail(ErrorCode::kParse, "the table has no rows", {file, 2, 1});
  return cases;
}

Expected<std::vector<Case>> load_cases(const std::filesystem::path& path) {
  auto stream = open_table(path);
  if (!stream) return tl::unexpected<Error>(stream.error());
  return read_cases(*stream, path.string());
}

}  // namespace ddlsim::io
