#include "cases/framework_name.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <string_view>

#include "cases/case_text.h"

namespace ddlsim::whatif {
namespace {

/// Libraries whose names do not say by which framework's operators they train, and other names of those that have a way
/// of their own (importers/training_way.h).
struct Library {
  std::string_view name;
  std::string_view framework;
};
constexpr auto kLibraries = std::to_array<Library>({
    {"accelerate", "pytorch"},
    {"allennlp", "pytorch"},
    {"axolotl", "pytorch"},
    {"bagua", "pytorch"},
    {"bmtrain", "pytorch"},
    {"colossal", "pytorch"},
    {"detectron2", "pytorch"},
    {"diffusers", "pytorch"},
    {"espnet", "pytorch"},
    {"fairscale", "pytorch"},
    {"fairseq", "pytorch"},
    {"hivemind", "pytorch"},
    {"lightning", "pytorch"},
    {"llama-factory", "pytorch"},
    {"mingpt", "pytorch"},
    {"mmcls", "pytorch"},
    {"mmdet", "pytorch"},
    {"mmpretrain", "pytorch"},
    {"mmseg", "pytorch"},
    {"nanogpt", "pytorch"},
    {"opennmt-py", "pytorch"},
    {"patrickstar", "pytorch"},
    {"pipedream", "pytorch"},
    {"pycls", "pytorch"},
    {"speechbrain", "pytorch"},
    {"torchgpipe", "pytorch"},
    {"torchrec", "pytorch"},
    {"torchvision", "pytorch"},
    {"ultralytics", "pytorch"},
    {"unsloth", "pytorch"},
    {"yolov5", "pytorch"},
    {"yolov8", "pytorch"},
    {"keras", "tensorflow"},
    {"neurst", "tensorflow"},
    {"openseq2seq", "tensorflow"},
    {"tensor2tensor", "tensorflow"},
    {"tensorpack", "tensorflow"},
    {"tf_cnn_benchmarks", "tensorflow"},
    {"easylm", "jax"},
    {"flax", "jax"},
    {"levanter", "jax"},
    {"maxtext", "jax"},
    {"pax", "jax"},
    {"t5x", "jax"},
    {"gluon", "mxnet"},
    {"gpt-neox", "megatron deepspeed"},
    {"internlm", "internevo"},
    {"lit-gpt", "litgpt"},
    {"llm foundry", "composer"},
    {"llm-foundry", "composer"},
    {"mcore", "megatron-core"},
    {"mosaicml", "composer"},
});

/// Short names of frameworks, which stand for them where a release follows, or alone.
struct ShortName {
  std::string_view name;
  std::string_view framework;
};
constexpr auto kShortNames = std::to_array<ShortName>({{"tf", "tensorflow"}, {"torch", "pytorch"}});

bool letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool numeral(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// Where a release begins that follows a name ending at `end`: "1.7", " 1.7", "-v1.7", "==1.7"; npos: none does.
std::size_t release_after(std::string_view text, std::size_t end) {
  const std::size_t at = text.find_first_not_of("-_= ", end);
  if (at == std::string_view::npos) return at;
  const std::size_t number = text[at] == 'v' ? at + 1 : at;
  return number < text.size() && numeral(text[number]) ? number : std::string_view::npos;
}

/// Short names as long ones: a word by itself, or with its release behind it. Torch 7 is no PyTorch.
std::string with_long_names(std::string name) {
  for (const auto& [shorter, framework] : kShortNames) {
    std::size_t next = 0;  // where the search goes on
    for (std::size_t at = name.find(shorter); at != std::string::npos; at = name.find(shorter, next)) {
      const std::size_t end = at + shorter.size();
      const bool begins = at == 0 || !(letter(name[at - 1]) || name[at - 1] == '.');
      const std::size_t release = release_after(name, end);
      const bool released = release != std::string::npos;
      const bool alone = end == name.size() || !(letter(name[end]) || name[end] == '_' || name[end] == '.');
      const bool old = released && name[release] == '7';
      const bool stands = begins && (released || alone) && !old;
      if (stands) name.replace(at, shorter.size(), framework);
      next = at + (stands ? framework.size() : shorter.size());
    }
  }
  return name;
}

/// One space before a release: "pytorch==1.7" and "pytorch1.7" are "pytorch 1.7".
std::string with_spaces(std::string name) {
  for (const std::string_view framework : {"tensorflow", "pytorch", "mxnet", "paddlepaddle"}) {
    const std::size_t at = name.find(framework);
    if (at == std::string::npos) continue;
    const std::size_t end = at + framework.size();
    const std::size_t release = release_after(name, end);
    if (release != std::string::npos) name.replace(end, release - end, " ");
  }
  return name;
}

}  // namespace

std::string framework_of(const io::Case& one) {
  std::string name = with_spaces(with_long_names(lower_case(one.framework)));
  if (has_any(name, {"pytorch", "tensorflow", "jax", "mxnet", "paddle"})) return name;
  const auto* const known = std::find_if(kLibraries.begin(), kLibraries.end(),
                                         [&](const Library& library) { return has(name, library.name); });
  return known == kLibraries.end() ? name : name + " (" + std::string(known->framework) + ")";
}

}  // namespace ddlsim::whatif
