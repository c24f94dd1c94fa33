#include "cases/case_software.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>
#include <utility>

#include "cases/case_metric.h"
#include "cases/case_text.h"
#include "cases/framework_name.h"

namespace ddlsim::whatif {
namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }
bool letter_or_digit(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

/// The number of `count` digits at a place, if it stands alone there; -1 else.
int digits_at(std::string_view text, std::size_t at, std::size_t count) {
  if (at + count > text.size() || (at > 0 && (digit(text[at - 1]) || text[at - 1] == '.'))) return -1;
  int value = 0;
  for (std::size_t i = at; i < at + count; ++i) {
    if (!digit(text[i])) return -1;
    value = 10 * value + (text[i] - '0');
  }
  const bool ends = at + count == text.size() || !digit(text[at + count]);
  return ends ? value : -1;
}

/// "22.10": NVIDIA's containers are named after year and month.
std::optional<double> container_in(std::string_view text) {
  const bool amds = has(text, "rocm/");  // "rocm/megatron-lm:v25.9_gfx942"
  for (std::size_t i = 0; i + 5 <= text.size(); ++i) {
    const int year = digits_at(text, i, 2);
    const std::string_view before = text.substr(0, i);  // "cudnn-devel-ubuntu22.04" is no container of theirs
    if (before.ends_with("ubuntu ") || before.ends_with("ubuntu") || before.ends_with("ubuntu-")) continue;
    if (year < 17 || year > 35 || text[i + 2] != '.' || !digit(text[i + 3])) continue;
    if (amds && before.ends_with(":v") && !digit(text[i + 4])) return 2000 + year + (text[i + 3] - '1') / 12.0;
    if (!digit(text[i + 4])) continue;
    const int month = 10 * (text[i + 3] - '0') + (text[i + 4] - '0');
    const bool alone = i + 5 == text.size() || !digit(text[i + 5]);
    if (month >= 1 && month <= 12 && alone) return 2000 + year + (month - 1) / 12.0;
  }
  return std::nullopt;
}

std::optional<double> year_in(std::string_view text) {
  for (std::size_t i = 0; i + 4 <= text.size(); ++i) {
    const int year = digits_at(text, i, 4);
    const bool alone =
        (i == 0 || !letter_or_digit(text[i - 1])) && (i + 4 == text.size() || !letter_or_digit(text[i + 4]));
    if (alone && year >= 2012 && year <= 2035) return year;
  }
  return std::nullopt;
}

/// "2022-08" and "2022.08", the month as a fraction; nothing where a year has no month.
std::optional<double> month_in(std::string_view text) {
  for (std::size_t i = 0; i + 7 <= text.size(); ++i) {
    const int year = digits_at(text, i, 4);
    const std::string_view month = text.substr(i + 5, 2);
    if (year < 2012 || year > 2035 || (text[i + 4] != '-' && text[i + 4] != '.')) continue;
    if (!digit(month[0]) || !digit(month[1])) continue;
    const int number = 10 * (month[0] - '0') + (month[1] - '0');
    if (number >= 1 && number <= 12) return year + (number - 1) / 12.0;
  }
  return std::nullopt;
}

/// Release dates of what is published at github.com/tensorflow, pytorch, apache/mxnet, PaddlePaddle, Oneflow-Inc; of
/// MLPerf Training's rounds, mlcommons.org.
constexpr auto kReleases = std::to_array<std::pair<std::string_view, double>>({
    {"tensorflow 1.1", 2017.3},
    {"tensorflow 1.7", 2018.2},
    {"tensorflow 1.8", 2018.3},
    {"tensorflow 1.12", 2018.8},
    {"tensorflow 1.13", 2019.2},
    {"tensorflow 1.15", 2019.8},
    {"tensorflow 1.x", 2017.4},
    {"tensorflow 1.4", 2017.8},
    {"tensorflow 1.10", 2018.6},
    {"tensorflow 2.0", 2019.75},
    {"tensorflow 2.1", 2020.0},
    {"tensorflow 2.2", 2020.3},
    {"tensorflow 2.3", 2020.6},
    {"tensorflow 2.4", 2021.0},
    {"tensorflow 2.5", 2021.4},
    {"tensorflow 2.6", 2021.6},
    {"tensorflow 2.7", 2021.8},
    {"tensorflow 2.8", 2022.1},
    {"tensorflow 2.9", 2022.4},
    {"tensorflow 2.10", 2022.7},
    {"tensorflow 2.11", 2022.9},
    {"tensorflow 2.12", 2023.2},
    {"tensorflow 2.13", 2023.5},
    {"tensorflow 2.14", 2023.7},
    {"tensorflow 2.15", 2023.9},
    {"tensorflow 2.16", 2024.2},
    {"pytorch 0.4", 2018.3},
    {"pytorch 1.0", 2018.9},
    {"pytorch 1.10", 2021.8},
    {"pytorch 1.11", 2022.2},
    {"pytorch 1.12", 2022.5},
    {"pytorch 1.13", 2022.8},
    {"pytorch 1.1", 2019.3},
    {"pytorch 1.2", 2019.6},
    {"pytorch 1.3", 2019.8},
    {"pytorch 1.4", 2020.0},
    {"pytorch 1.5", 2020.3},
    {"pytorch 1.6", 2020.6},
    {"pytorch 1.7", 2020.8},
    {"pytorch 1.8", 2021.2},
    {"pytorch 1.9", 2021.5},
    {"pytorch 2.0", 2023.2},
    {"pytorch 2.1", 2023.75},
    {"pytorch 2.2", 2024.1},
    {"pytorch 2.3", 2024.3},
    {"pytorch 2.4", 2024.6},
    {"pytorch 2.5", 2024.8},
    {"pytorch 2.6", 2025.1},
    {"pytorch 2.7", 2025.3},
    {"pytorch 2.8", 2025.6},
    {"pytorch 2.9", 2025.8},
    {"pytorch 2.10", 2026.05},
    {"pytorch 2.11", 2026.2},
    {"pytorch 2.12", 2026.4},
    {"pytorch 2.13", 2026.6},
    {"pytorch 2.14", 2026.8},
    {"mxnet 1.6", 2020.1},
    {"mxnet 1.8", 2021.2},
    {"paddlepaddle 1.8", 2020.4},
    {"oneflow", 2020.6},
    {"megatron-core 0.8", 2024.5},
    {"megatron-lm v0.12", 2025.2},
    {"training_results_v0.6", 2019.5},
    {"training_results_v0.7", 2020.6},
    {"training_results_v1.0", 2021.5},
    {"training_results_v1.1", 2021.9},
    {"training_results_v2.0", 2022.5},
    {"training_results_v2.1", 2022.9},
    {"training_results_v3.0", 2023.5},
    {"training_results_v3.1", 2023.9},
    {"training_results_v4.0", 2024.4},
    {"training_results_v4.1", 2024.9},
    {"training_results_v5.0", 2025.4},
    {"training_results_v5.1", 2025.9},
});

std::optional<double> release_in(std::string_view text) {
  for (const auto& [name, year] : kReleases) {
    const std::size_t at = text.find(name);
    const std::size_t end = at + name.size();
    if (at != std::string_view::npos && (end == text.size() || !digit(text[end]))) return year;
  }
  return std::nullopt;
}

/// NVIDIA's examples for PyTorch, or its code for MLPerf.
bool nvidias_pytorch(const io::Case& one) {
  const std::string framework = framework_of(one);
  return has(framework, "pytorch") &&
         has_any(lower_case(one.source) + framework, {"deeplearningexamples", "ngc", "pytorch nvidia release"});
}

/// transformers' from_pretrained(torch_dtype=...): torch.optim then steps such weights; DeepSpeed and FSDP keep their
/// own.
bool trains_sixteen_bits(const io::Case& one) {
  const bool others = has_any(framework_of(one) + lower_case(one.architecture), {"deepspeed", "fsdp", "zero"});
  return !others && (says(one, "torch_dtype", "bf") || says(one, "torch_dtype", "float16"));
}

}  // namespace

std::optional<double> software_year_of(const io::Case& one) {
  std::string version = lower_case(one.said("framework_version").value_or(""));
  if (version.starts_with("torch ")) version = "py" + version;
  const std::string named = framework_of(one);
  // A number alone is the framework's own: "PyTorch" and "2.1".
  const bool number = !version.empty() && digit(version[0]);
  const std::string framework = version.empty() ? named : number ? named + " " + version : version + " " + named;
  if (const auto year = container_in(one.said("container").value_or(""))) return year;
  const std::string date = one.said("date").value_or("");
  if (const auto year = month_in(date)) return year;
  if (const auto year = container_in(framework)) return year;
  if (const auto year = year_in(date)) return year;
  if (const auto year = release_in(framework)) return year;
  if (const auto year = year_in(framework)) return year;
  const std::string source = lower_case(one.source);
  if (const auto year = release_in(source)) return year;
  return year_in(source);
}

std::optional<bool> software_fused_of(const io::Case& one) {
  const std::string framework = framework_of(one);
  const auto names = [&](std::initializer_list<std::string_view> words) { return has_any(framework, words); };
  const bool submitted = is_submission(one);
  // Liger's and Unsloth's kernels; MindSpore's switch.
  if (affirms(one, "liger_kernel") || affirms(one, "graph_kernel_fusion") || affirms(one, "fused")) return true;
  if (says(one, "fused", "norm") || names({"liger", "unsloth"})) return true;
  if (denies(one, "graph_kernel_fusion")) return false;
  const bool convolves =
      has_any(lower_case(one.model), {"resnet", "inception", "vgg", "alexnet", "retinanet", "ssd", "mask"});
  if (convolves || one.metric == io::CaseMetric::kImagesPerSecond) {
    return submitted || says(one, "xla", "true") || names({"mxnet", "oneflow", "jax"});
  }
  if (says(one, "activation", "gelu_new")) return false;  // transformers' own
  // What NVIDIA submits fuses as Megatron does.
  const bool by_nvidia = submitted && names({"nvidia", "ngc"});
  return importers::runs_fused_blocks(by_nvidia ? framework + " megatron" : framework);
}

bool is_submission(const io::Case& one) { return has(lower_case(one.source), "training_results"); }

namespace {

/// Where nobody says when: Megatron-LM of before its core (training_way.cpp), but on GPUs that came later.
double megatron_year_of(const io::Case& one) {
  const bool recent = has_any(lower_case(one.gpu), {"h100", "h200", "h800", "h20", "b200", "b300", "mi3"});
  constexpr double kBeforeCore = 2022;
  return has(framework_of(one), "megatron-lm") && !recent ? kBeforeCore : importers::kNewest;
}

}  // namespace

const importers::TrainingWay& way_of(const io::Case& one) {
  std::string name = framework_of(one);
  if (has_word(lower_case(one.said("kernels").value_or("")), "te")) name += " transformerengine";
  if (is_submission(one)) name = "training_results";
  return importers::way_of(name, software_year_of(one).value_or(megatron_year_of(one)));
}

bool scatters_between_stages(const io::Case& one) {
  const double year = software_year_of(one).value_or(megatron_year_of(one));
  // What NVIDIA measured for its paper of April 2021 had been asked to.
  const bool of_paper = has(lower_case(one.source), "nvidia/megatron-lm") && year >= 2021 && year < 2022;
  return of_paper || importers::scatters_between_stages(framework_of(one), year);
}

bool runs_xla(const io::Case& one) {
  return has(framework_of(one), "tensorflow") &&
         (says(one, "xla", "true") || has(one.source, "DeepLearningExamples:TensorFlow/LanguageModeling/BERT") ||
          has(one.source, "DeepLearningExamples:TensorFlow2/LanguageModeling/BERT"));
}

bool composes_operators(const io::Case& one) { return has(framework_of(one), "tensorflow") && !runs_xla(one); }

bool autocasts(const io::Case& one) {
  const std::string said = framework_of(one) + " " + lower_case(one.precision + " " + one.notes);
  const std::string precision = precision_of(one.precision);
  const bool half = precision == "amp" || precision == "fp16" || precision == "bf16";
  const bool natively = has_any(said, {"autocast", "native amp", "torch.cuda.amp", "lightning"});
  const bool trainer = framework_of(one).starts_with("hf trainer") && !has_any(said, {"deepspeed", "fms"});
  return half && (natively || trainer || has(said, "timm")) && software_fused_of(one) == false &&
         !trains_sixteen_bits(one);
}

std::optional<std::string> optimizer_of(const io::Case& one) {
  // huggingface/pytorch-image-models benchmark.py: --opt sgd, momentum 0.9.
  if (has(framework_of(one), "timm") && !one.said("optimizer")) return "sgd-momentum";
  const std::string said = lower_case(one.said("optimizer").value_or(""));
  if (has(said, "adagrad")) return "adagrad";
  if (has_any(said, {"adam", "lamb"})) return "adam";
  if (has_any(said, {"momentum", "lars"})) return "sgd-momentum";
  return said == "sgd" ? std::optional<std::string>("sgd") : std::nullopt;
}

std::optional<std::string> states_of(const io::Case& one) {
  if (auto said = one.said("states")) return said;
  if (trains_sixteen_bits(one)) return "pure-16";
  const std::string precision = precision_of(one.precision);
  const bool half = precision == "amp" || precision == "fp16";
  const std::string model = lower_case(one.model);
  const bool others = has_any(framework_of(one), {"hugging", "transformers", "lightning"});
  const bool bert = has(model, "bert") && !has(model, "roberta") && !others;
  const bool fine_tuned = phase_of(one) == TrainingPhase::kFineTuning && !is_submission(one);
  return half && bert && fine_tuned && nvidias_pytorch(one) ? std::optional<std::string>("mixed-16") : std::nullopt;
}

std::optional<std::string> layout_of(const io::Case& one) {
  std::string format;
  for (const char* key : {"memory_format", "data_format", "layout"}) {
    if (format.empty()) format = lower_case(one.said(key).value_or(""));
  }
  std::replace_if(
      format.begin(), format.end(), [](char c) { return c == '_' || c == ' '; }, '-');
  if (has_any(format, {"nchw", "channels-first", "contiguous"})) return "channels-first";
  const std::string framework = framework_of(one);
  const bool nvidias = has_any(framework + lower_case(one.source), {"nvidia", "ngc", "training_results"});
  const bool examples = has(one.source, "DeepLearningExamples:PyTorch/Classification/ConvNets") ||
                        has(one.source, "DeepLearningExamples:PyTorch/Detection/SSD");
  const std::string precision = precision_of(one.precision);
  const bool half = precision == "fp16" || precision == "amp" || precision == "bf16";
  const bool said = has_any(format, {"nhwc", "channels-last"}) || says(one, "channels_last", "true");
  // PaddleClas 2 ppcls/configs/ImageNet/ResNet/ResNet50_amp_O1.yaml: data_format NHWC.
  const bool paddle = has(framework, "paddle") && software_year_of(one).value_or(0) >= 2021;
  const bool by_script =
      half && (examples || paddle || has(framework, "oneflow") || (has(framework, "mxnet") && nvidias));
  if (said || by_script) return "channels-last";
  const bool plain = has(framework, "pytorch") && !has(lower_case(one.source), "training_results");
  if (half && plain) return "channels-first";
  return std::nullopt;
}

std::optional<std::string> software_optimizer_of(const io::Case& one) {
  if (says(one, "optimizer", "fused")) return "fused";
  const std::string framework = framework_of(one);
  const bool first = has_any(framework, {"tensorflow 1", "tensorflow1"});
  if (first && composes_operators(one) && has(lower_case(one.model), "bert")) return "for-loop";
  const bool trainers = has_any(framework, {"fsdp", "megatron", "nemo", "deepspeed", "composer", "torchtitan",
                                            "torchtune", "release", "rocm", "lightning"});
  constexpr double kForeach = 2023.2;                                                      // PyTorch 2.0
  const bool tuned = framework.starts_with("hf trainer") && !has(framework, "deepspeed");  // torch.optim's AdamW
  if (tuned && software_year_of(one).value_or(0) >= kForeach) return "foreach";
  if (!has(framework, "pytorch") || trainers || software_fused_of(one).value_or(true)) return std::nullopt;
  const std::string model = lower_case(one.model);
  const std::string precision = precision_of(one.precision);
  if (nvidias_pytorch(one)) {
    const bool fine_tuned = has(model, "bert") && phase_of(one) != TrainingPhase::kPreTraining;
    const bool loops = has(model, "gnmt") || (fine_tuned && (precision == "fp32" || precision == "tf32"));
    return loops ? std::optional<std::string>("for-loop") : std::nullopt;
  }
  const auto year = software_year_of(one);
  if (!year) return std::nullopt;
  return *year < kForeach ? "for-loop" : "foreach";
}

bool fuses_pointwise(const io::Case& one) {
  return says(one, "xla", "true") || (framework_of(one).find("oneflow") != std::string::npos &&
                                      lower_case(one.model).find("resnet") != std::string::npos);
}

namespace {

/// BERT's own scripts (google-research/bert README; NVIDIA/DeepLearningExamples LanguageModeling/BERT): phase 1 of
/// pre-training has sequences of 128, phase 2 of 512, fine-tuning on SQuAD of 384.
std::optional<std::string> length_of_phase(const io::Case& one) {
  const std::string said =
      lower_case(one.said("phase").value_or("") + " " + one.said("task").value_or("") + " " + one.model);
  if (has(said, "squad")) return "384";
  const std::string phase = lower_case(one.said("phase").value_or(""));
  if (phase == "2" || has(phase, "phase 2") || has(phase, "phase2")) return "512";
  if (phase == "1" || has(phase, "phase 1") || has(phase, "phase1")) return "128";
  return std::nullopt;
}

}  // namespace

bool runs_graphs(const io::Case& one) {
  if (affirms(one, "cuda_graph") || affirms(one, "cuda_graphs")) return true;
  constexpr double kRoundOne = 2021.4;
  const bool submitted = has(lower_case(one.source), "training_results");
  return submitted && has_any(framework_of(one), {"nvidia", "ngc"}) &&
         release_in(lower_case(one.source)).value_or(0) >= kRoundOne;
}

bool blocks_launches(const io::Case& one) {
  if (one.said("launch_blocking")) return affirms(one, "launch_blocking");
  const bool of_model = has(lower_case(one.source), "bigscience:train/tr11-176b-ml");
  return of_model && one.said("date").value_or("") >= "2022-02-18";
}

bool multiplies_in_tf32(const io::Case& one, bool convolves) {
  if (says(one, "tf32", "no")) return false;
  if (has(one.said("container").value_or(""), "nvcr.io/nvidia/pytorch")) return true;
  if (is_pass(one.metric)) return false;
  const std::string framework = framework_of(one);
  const double year = software_year_of(one).value_or(2100);
  constexpr double kTensorFlow = 2021;  // 2.4
  constexpr double kPyTorch = 2020.8;   // 1.7
  constexpr double kNoMore = 2022.45;   // 1.12
  if (has(framework, "jax")) return true;
  if (has(framework, "tensorflow")) return year >= kTensorFlow;
  const bool pytorch = has_any(framework, {"pytorch", "torch", "lightning", "timm", "mmdet", "detectron"});
  return pytorch && year >= kPyTorch && (convolves || year < kNoMore);
}

std::optional<TrainingPhase> phase_of(const io::Case& one) {
  const std::size_t bracket = one.model.find('(');
  const std::string added = bracket == std::string::npos ? "" : one.model.substr(bracket);
  const std::string said =
      lower_case(one.said("phase").value_or("") + " " + one.said("task").value_or("") + " " + added);
  if (has_any(said, {"pre-train", "pretrain"}) || length_of_phase(one).value_or("384") != "384") {
    return TrainingPhase::kPreTraining;
  }
  if (has_any(said, {"fine-tun", "finetun", "squad", "glue", "mnli", "classification"})) {
    return TrainingPhase::kFineTuning;
  }
  return std::nullopt;
}

std::optional<std::string> sequence_length_of(const io::Case& one) {
  auto length = one.said("seq_len");
  if (!length && has(lower_case(one.model), "bert")) length = length_of_phase(one);
  const std::string unit = lower_case(one.said("unit").value_or(""));
  if (!length && (has(unit, "unpadded") || has(unit, "packed")) && has(unit, "512")) return "256";
  // Submissions to MLPerf take padding out.
  const bool longest = length.value_or("512") == "512";
  if (longest && has(lower_case(one.model), "bert") && has(lower_case(one.source), "training_results")) return "256";
  const std::string framework = framework_of(one);
  const bool binned = has(one.source, "DeepLearningExamples") && has(one.source, "LanguageModeling/BERT") &&
                      (has(framework, "pytorch") || has(framework, "paddle")) &&
                      container_in(one.said("container").value_or("")) >= 2021 + 10 / 12.0;
  if (binned && length == "512" && phase_of(one) == TrainingPhase::kPreTraining) return "280";
  return length;
}

std::optional<std::string> vocabulary_of(const io::Case& one) {
  const bool bert = has(lower_case(one.model), "bert") && phase_of(one) != TrainingPhase::kFineTuning;
  return bert && nvidias_pytorch(one) ? std::optional<std::string>("30528") : std::nullopt;
}

std::optional<std::string> predictions_of(const io::Case& one, std::string_view length) {
  const auto phase = phase_of(one);
  if (phase == TrainingPhase::kFineTuning) return "1";
  // BertForMaskedLM has its head on every position.
  if (has(framework_of(one), "(transformers)") && !length.empty()) return std::string(length);
  if (phase != TrainingPhase::kPreTraining) return std::nullopt;
  if (nvidias_pytorch(one) && software_year_of(one).value_or(2100) < 2021 + 10 / 12.0) return std::string(length);
  return length == "512" ? std::optional<std::string>("80") : std::nullopt;
}

}  // namespace ddlsim::whatif
