#include "ddlsim/importers/hf_config.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ddlsim/importers/onnx_file.h"
#include "ddlsim/support/names.h"
#include "hf_layers.h"
#include "json.h"
#include "onnx/onnx_graph.h"

namespace ddlsim::importers {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMostSamples = std::int64_t{1} << 32;  // of a model file

struct FamilyRow {
  std::string_view model_type;
  std::string_view class_stem;
  hf::Family (*build)(hf::ConfigReader& config, const hf::Request& request);
  std::string_view heads;  // known ends of the class, the first one taken when the config names none
};

constexpr std::string_view kCausal = "ForCausalLM";
constexpr std::array kFamilies{
    FamilyRow{"albert", "Albert", hf::known_but_refused, "ForMaskedLM ForPreTraining ForSequenceClassification Model"},
    FamilyRow{"baichuan", "Baichuan", hf::uniform_family, kCausal},
    FamilyRow{"bart", "Bart", hf::bart_family, "ForConditionalGeneration Model"},
    FamilyRow{"bert", "Bert", hf::encoder_family, "ForMaskedLM ForPreTraining ForSequenceClassification Model"},
    FamilyRow{"bloom", "Bloom", hf::uniform_family, kCausal},
    FamilyRow{"chatglm", "ChatGLM", hf::uniform_family, "ForConditionalGeneration Model"},
    FamilyRow{"clip", "CLIP", hf::clip_family, "Model"},
    FamilyRow{"cohere", "Cohere", hf::uniform_family, kCausal},
    FamilyRow{"convnext", "ConvNext", hf::convnext_family, "ForImageClassification Model"},
    FamilyRow{"deberta", "Deberta", hf::known_but_refused, "ForMaskedLM ForSequenceClassification Model"},
    FamilyRow{"deberta-v2", "DebertaV2", hf::known_but_refused, "ForMaskedLM ForSequenceClassification Model"},
    FamilyRow{"deepseek_v2", "DeepseekV2", hf::decoder_family, kCausal},
    FamilyRow{"deepseek_v3", "DeepseekV3", hf::decoder_family, kCausal},
    FamilyRow{"deepseek_v32", "DeepseekV32", hf::decoder_family, kCausal},
    FamilyRow{"deepseek_v4", "DeepseekV4", hf::deepseek_v4_family, kCausal},
    FamilyRow{"electra", "Electra", hf::encoder_family, "ForPreTraining ForMaskedLM ForSequenceClassification Model"},
    FamilyRow{"ernie4_5", "Ernie4_5", hf::decoder_family, kCausal},
    FamilyRow{"ernie4_5_moe", "Ernie4_5_Moe", hf::decoder_family, kCausal},
    FamilyRow{"exaone4", "Exaone4", hf::decoder_family, kCausal},
    FamilyRow{"falcon", "Falcon", hf::uniform_family, kCausal},
    FamilyRow{"gemma", "Gemma", hf::decoder_family, kCausal},
    FamilyRow{"gemma2", "Gemma2", hf::decoder_family, kCausal},
    FamilyRow{"gemma3_text", "Gemma3", hf::decoder_family, kCausal},
    FamilyRow{"gemma4_text", "Gemma4", hf::gemma4_family, kCausal},
    FamilyRow{"glm", "Glm", hf::decoder_family, kCausal},
    FamilyRow{"glm4", "Glm4", hf::decoder_family, kCausal},
    FamilyRow{"glm4_moe", "Glm4Moe", hf::decoder_family, kCausal},
    FamilyRow{"glm4_moe_lite", "Glm4MoeLite", hf::decoder_family, kCausal},
    FamilyRow{"glm4v_moe_text", "Glm4vMoe", hf::decoder_family, kCausal},
    FamilyRow{"glm_moe_dsa", "GlmMoeDsa", hf::decoder_family, kCausal},
    FamilyRow{"gpt2", "GPT2", hf::gpt2_family, "LMHeadModel"},
    FamilyRow{"gpt_bigcode", "GPTBigCode", hf::uniform_family, kCausal},
    FamilyRow{"gpt_neo", "GPTNeo", hf::uniform_family, kCausal},
    FamilyRow{"gpt_neox", "GPTNeoX", hf::gpt_neox_family, kCausal},
    FamilyRow{"gpt_oss", "GptOss", hf::decoder_family, kCausal},
    FamilyRow{"gptj", "GPTJ", hf::uniform_family, kCausal},
    FamilyRow{"granite", "Granite", hf::uniform_family, kCausal},
    FamilyRow{"hunyuan_v1_dense", "HunYuanDenseV1", hf::decoder_family, kCausal},
    FamilyRow{"internlm2", "InternLM2", hf::uniform_family, kCausal},
    FamilyRow{"kimi_k2", "DeepseekV3", hf::decoder_family, kCausal},
    FamilyRow{"llama", "Llama", hf::decoder_family, kCausal},
    FamilyRow{"llama4_text", "Llama4", hf::decoder_family, kCausal},
    FamilyRow{"mbart", "MBart", hf::bart_family, "ForConditionalGeneration Model"},
    FamilyRow{"mimo", "MiMo", hf::decoder_family, kCausal},
    FamilyRow{"ministral3", "Ministral3", hf::decoder_family, kCausal},
    FamilyRow{"minimax_m2", "MiniMaxM2", hf::decoder_family, kCausal},
    FamilyRow{"mistral", "Mistral", hf::decoder_family, kCausal},
    FamilyRow{"mixtral", "Mixtral", hf::decoder_family, kCausal},
    FamilyRow{"mpt", "Mpt", hf::uniform_family, kCausal},
    FamilyRow{"mt5", "MT5", hf::t5_family, "ForConditionalGeneration"},
    FamilyRow{"nemotron-nas", "DeciLM", hf::decilm_family, kCausal},
    FamilyRow{"nemotron_h", "NemotronH", hf::nemotron_h_family, kCausal},
    FamilyRow{"olmo", "Olmo", hf::uniform_family, kCausal},
    FamilyRow{"olmo2", "Olmo2", hf::uniform_family, kCausal},
    FamilyRow{"olmo3", "Olmo3", hf::decoder_family, kCausal},
    FamilyRow{"olmoe", "Olmoe", hf::decoder_family, kCausal},
    FamilyRow{"opt", "OPT", hf::opt_family, kCausal},
    FamilyRow{"phi", "Phi", hf::uniform_family, kCausal},
    FamilyRow{"phi3", "Phi3", hf::decoder_family, kCausal},
    FamilyRow{"qwen2", "Qwen2", hf::decoder_family, kCausal},
    FamilyRow{"qwen2_5_vl", "Qwen2_5_VL", hf::decoder_family, "ForConditionalGeneration"},
    FamilyRow{"qwen2_5_vl_text", "Qwen2_5_VL", hf::decoder_family, kCausal},
    FamilyRow{"qwen2_moe", "Qwen2Moe", hf::decoder_family, kCausal},
    FamilyRow{"qwen3", "Qwen3", hf::decoder_family, kCausal},
    FamilyRow{"qwen3_5_moe_text", "Qwen3_5Moe", hf::qwen_hybrid_family, kCausal},
    FamilyRow{"qwen3_5_text", "Qwen3_5", hf::qwen_hybrid_family, kCausal},
    FamilyRow{"qwen3_moe", "Qwen3Moe", hf::decoder_family, kCausal},
    FamilyRow{"qwen3_next", "Qwen3Next", hf::qwen_hybrid_family, kCausal},
    FamilyRow{"qwen3_vl_moe_text", "Qwen3VLMoe", hf::decoder_family, kCausal},
    FamilyRow{"qwen3_vl_text", "Qwen3VL", hf::decoder_family, kCausal},
    FamilyRow{"roberta", "Roberta", hf::encoder_family, "ForMaskedLM ForSequenceClassification Model"},
    FamilyRow{"seed_oss", "SeedOss", hf::decoder_family, kCausal},
    FamilyRow{"smollm3", "SmolLM3", hf::decoder_family, kCausal},
    FamilyRow{"stablelm", "StableLm", hf::uniform_family, kCausal},
    FamilyRow{"starcoder2", "Starcoder2", hf::uniform_family, kCausal},
    FamilyRow{"swin", "Swin", hf::swin_family, "ForImageClassification Model"},
    FamilyRow{"t5", "T5", hf::t5_family, "ForConditionalGeneration WithLMHeadModel"},
    FamilyRow{"vit", "ViT", hf::vit_family, "ForImageClassification Model"},
    FamilyRow{"wav2vec2", "Wav2Vec2", hf::wav2vec2_family, "ForCTC ForPreTraining Model"},
    FamilyRow{"whisper", "Whisper", hf::whisper_family, "ForConditionalGeneration"},
    FamilyRow{"xlm-roberta", "XLMRoberta", hf::encoder_family, "ForMaskedLM ForSequenceClassification Model"},
};

/// Families whose code stands beside their checkpoints.
constexpr std::array<std::string_view, 3> kRemote{"baichuan", "chatglm", "internlm2"};

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t space = std::min(text.find(' '), text.size());
    words.emplace_back(text.substr(0, space));
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  return words;
}

/// The family, and the class's end: "ForCausalLM".
struct Found {
  const FamilyRow* row = nullptr;
  std::string head;
};

std::optional<std::string> head_of(const FamilyRow& row, std::string_view class_name) {
  if (!class_name.starts_with(row.class_stem)) return std::nullopt;
  return std::string(class_name.substr(row.class_stem.size()));
}

/// "no rule for the architecture 'x'", and where that stands.
std::string unknown_family(const std::string& asked, const std::string& wrapper) {
  const std::string around =
      wrapper.empty() ? "" : fmt::format(" (the language model of a '{}')", onnx::printable(wrapper.substr(0, 60)));
  if (!asked.empty()) {
    return fmt::format("no rule for the architecture '{}'{}", onnx::printable(asked.substr(0, 60)), around);
  }
  return wrapper.empty() ? "names neither 'model_type' nor 'architectures'"
                         : "'text_config' names neither 'model_type' nor 'architectures'" + around;
}

/// `wrapper`: the model_type around a text_config; empty for a configuration of its own.
Expected<Found> find_family(hf::ConfigReader& config, const std::string& wrapper) {
  const std::string type = config.text_or("model_type", {});
  const std::vector<std::string> classes = config.texts("architectures");
  const std::string name = classes.empty() ? std::string() : classes.front();
  if (config.failed()) return fail_with_all(config.take_errors());
  Found found;
  for (const FamilyRow& row : kFamilies) {
    const auto head = head_of(row, name);
    const bool named = head && (head->starts_with("For") || *head == "Model" || *head == "LMHeadModel");
    if (type.empty() ? named : row.model_type == type) found = {&row, head.value_or("")};
  }
  const char* const key = type.empty() ? "architectures" : "model_type";
  if (found.row == nullptr) {
    const std::string asked = type.empty() ? name : type;
    const std::vector<std::string> known = hf_model_types();
    std::vector<std::string> notes;
    if (!nearest_names(asked, known, 1).empty()) notes.push_back(suggestion(asked, known));
    notes.push_back("known: " + join(known));
    return fail(ErrorCode::kUnsupported, unknown_family(asked, wrapper), config.where(key), std::move(notes));
  }
  const std::vector<std::string> heads = words_of(found.row->heads);
  if (found.head.empty()) found.head = heads.front();
  if (std::find(heads.begin(), heads.end(), found.head) != heads.end()) return found;
  return fail(ErrorCode::kUnsupported, fmt::format("no rule for the class '{}'", onnx::printable(name.substr(0, 60))),
              config.where("architectures"), {fmt::format("known of '{}': {}", found.row->model_type, join(heads))});
}

Expected<void> check_text(std::string_view text, const std::string& file) {
  const auto refused = [&](std::string message, std::string note) {
    return fail(ErrorCode::kParse, std::move(message), {file, 1, 1}, {std::move(note)});
  };
  if (text.starts_with("version https://git-lfs")) {
    return refused("is a Git LFS pointer, not the file it stands for", "fetch it: git lfs pull");
  }
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return refused("is empty", "give a model's config.json");
  }
  return {};
}

Expected<void> check_options(const HfOptions& options) {
  const auto outside = [](const char* what, std::int64_t value, std::int64_t most) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("a {} of {}", what, value), {},
                {fmt::format("write a whole number from 1 to {}", most)});
  };
  if (options.batch < 1 || options.batch > kMostSamples) return outside("batch", options.batch, kMostSamples);
  if (!options.sequence || (*options.sequence >= 1 && *options.sequence <= hf::kLargestSize)) return {};
  return outside("sequence", *options.sequence, hf::kLargestSize);
}

std::string id_of(const std::string& file) {
  const std::filesystem::path path(file);
  std::string id = id_from_file(path);
  if (id == "config" && path.has_parent_path()) {
    // A folder's name may hold dots, which are no extension.
    std::string folder = id_from_file(path.parent_path().filename().string() + ".json");
    if (!folder.empty()) id = std::move(folder);
  }
  return id;
}

/// Where the classes of a family are written down.
std::string module_of(const FamilyRow& row) {
  if (row.model_type == "nemotron-nas") return "modeling_decilm.py beside the config";
  if (std::find(kRemote.begin(), kRemote.end(), row.model_type) != kRemote.end()) {
    return fmt::format("modeling_{}.py beside the config", row.model_type);
  }
  // What a multimodal wrapper calls its language model stands in the wrapper's module.
  const std::string_view name = row.model_type;
  std::string file(name.substr(0, name.size() - (name.ends_with("_text") ? 5 : 0)));
  std::replace(file.begin(), file.end(), '-', '_');
  return fmt::format("modeling_{}.py of transformers", file);
}

io::ModelDescription describe(hf::Family family, const Found& found, const HfOptions& options,
                              const std::string& file) {
  const std::string name = onnx::shown_file(file);
  io::ModelDescription description;
  description.id = options.id.empty() ? id_of(file) : options.id;
  description.name = fmt::format("{} ({}{})", description.id, found.row->class_stem, found.head);
  description.task = std::move(family.task);
  description.sample = std::move(family.sample);
  description.batch = options.batch;
  description.optimizer = workload::Optimizer::kAdam;
  description.input_shape = std::move(family.input_shape);
  description.input_per_sample = family.input_per_sample;
  description.layers = std::move(family.layers);
  description.rows_name = std::move(family.rows_name);
  description.notes = join(family.notes, " ");
  description.sources = {
      {"layers", fmt::format("Hugging Face {}, as {} builds a {}{} of it", name, module_of(*found.row),
                             found.row->class_stem, found.head)},
      {"input", std::move(family.input_source)},
      {"batch", "stated at the import (--batch), 1 otherwise: a config.json names none"},
      {"optimizer", "chosen by ddlsim: a config.json names none"},
  };
  if (!description.rows_name.empty()) {
    description.sources.push_back({"dimensions", options.sequence
                                                     ? "stated at the import (--sequence)"
                                                     : "chosen by ddlsim: the config's positions, at most 4096"});
  }
  return description;
}

/// A model whose towers are imported together, each from a configuration of its own.
bool has_towers(const Json& document) {
  const auto type = document.find("model_type");
  if (type != document.end() && type->is_string()) return *type == "clip";
  const auto classes = document.find("architectures");
  return classes != document.end() && classes->is_array() && !classes->empty() && classes->front() == "CLIPModel";
}

/// The configuration to read: the document, or a wrapper's text model.
struct Scope {
  const Json* object;
  std::string path;
};

Expected<Scope> scope_of(const Json& document, const std::string& file) {
  const auto inner = document.find("text_config");
  if (has_towers(document) || inner == document.end() || inner->is_null()) return Scope{&document, {}};
  if (inner->is_object()) return Scope{&*inner, "text_config"};
  return fail(ErrorCode::kParse, "'text_config' is no object", {file, 0, 0});
}

/// What stands around a language model: its model_type, "?" where it has none; empty where nothing does.
std::string wrapper_of(const Json& document, const std::string& path) {
  if (path.empty()) return {};
  const auto type = document.find("model_type");
  return type != document.end() && type->is_string() ? type->get<std::string>() : "?";
}

/// transformers writes of an inner configuration only what differs from its class (PretrainedConfig.to_diff_dict):
/// LLaVA's text_config is a vocabulary and "llama". Says whether something was put back.
/// Source: configuration_llama.py and configuration_mistral.py of transformers.
bool put_back_defaults(Json& document) {
  const auto inner = document.find("text_config");
  if (has_towers(document) || inner == document.end() || !inner->is_object()) return false;
  const auto type = inner->find("model_type");
  if (type == inner->end() || !type->is_string()) return false;
  const bool llama = *type == "llama";
  if (!llama && *type != "mistral") return false;
  bool put = false;
  const auto put_back = [&](const char* key, std::int64_t value) {
    if (inner->contains(key)) return;
    (*inner)[key] = value;
    put = true;
  };
  put_back("vocab_size", 32000);
  put_back("hidden_size", 4096);
  put_back("intermediate_size", llama ? 11008 : 14336);
  put_back("num_hidden_layers", 32);
  put_back("num_attention_heads", 32);
  if (!llama) put_back("num_key_value_heads", 8);
  return put;
}

/// What a wrapper says of its language model.
void hand_down(Json& document) {
  constexpr const char* kTied = "tie_word_embeddings";
  const auto inner = document.find("text_config");
  if (inner == document.end() || !inner->is_object() || inner->contains(kTied) || !document.contains(kTied)) return;
  (*inner)[kTied] = document[kTied];
}

}  // namespace

std::vector<std::string> hf_model_types() {
  std::vector<std::string> names;
  names.reserve(kFamilies.size());
  for (const FamilyRow& row : kFamilies) names.emplace_back(row.model_type);
  return names;
}

Expected<HfImport> parse_hf_config(std::string_view text, const std::string& file, const HfOptions& options) {
  if (auto fits = check_options(options); !fits) return tl::unexpected<Error>(fits.error());
  if (auto sound = check_text(text, file); !sound) return tl::unexpected<Error>(sound.error());
  auto document = parse_json_object(text, file, JsonDialect::kPython);
  if (!document) return tl::unexpected<Error>(document.error());
  hand_down(*document);
  const bool by_class = put_back_defaults(*document);
  const auto scope = scope_of(*document, file);
  if (!scope) return tl::unexpected<Error>(scope.error());
  hf::ConfigReader config(*scope->object, text, file, scope->path);
  const auto found = find_family(config, wrapper_of(*document, scope->path));
  if (!found) return tl::unexpected<Error>(found.error());
  hf::Family family =
      found->row->build(config, {std::string(found->row->model_type), found->head, options.sequence, options.target});
  if (config.failed()) return fail_with_all(config.take_errors());
  if (!scope->path.empty()) {
    family.notes.emplace_back("Only the language model (text_config): vision and audio towers are left out.");
    if (by_class) family.notes.emplace_back("What text_config leaves out is as its class in transformers has it.");
  }
  HfImport import{describe(std::move(family), *found, options, file), {}};
  if (import.description.id.empty()) {
    return fail(ErrorCode::kInvalidArgument, "no id can be made of the file's name", {file, 0, 0},
                {"give one, as --name mine"});
  }
  auto model = io::build_model(import.description);
  if (!model) {
    Error error = model.error();
    error.where.file = file;
    return tl::unexpected<Error>(std::move(error));
  }
  import.model = std::move(*model);
  return import;
}

Expected<HfImport> import_hf_config(const std::filesystem::path& path, const HfOptions& options) {
  return io::read_file(path).and_then(
      [&](const std::string& text) { return parse_hf_config(text, path.string(), options); });
}

}  // namespace ddlsim::importers
