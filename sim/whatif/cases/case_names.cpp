// The models and GPUs that rows name.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "cases/case_degrees.h"
#include "cases/case_scenario.h"
#include "cases/case_text.h"
#include "ddlsim/support/quantity_io.h"

namespace ddlsim::whatif {
namespace {

/// Who makes cards of NVIDIA's and AMD's chips.
constexpr auto kMakers =
    std::to_array<std::string_view>({"asrock", "asus", "colorful", "evga", "gainward", "galax", "gigabyte", "inno3d",
                                     "msi", "palit", "pny", "sapphire", "xfx", "zotac"});

/// "EVGA (non-blower) RTX 2080 Ti" is an RTX 2080 Ti.
std::string without_maker(std::string_view text) {
  std::string name;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    std::string_view word = text.substr(begin, end - begin);
    if (word.starts_with('(')) {
      const std::size_t close = text.find(')', begin);
      begin = close == std::string_view::npos ? text.size() : close + 2;
      continue;
    }
    begin = end + 1;
    if (std::find(kMakers.begin(), kMakers.end(), lower_case(word)) != kMakers.end()) continue;
    name += (name.empty() ? "" : " ") + std::string(word);
  }
  return name;
}

/// "~1.4 b)", "117m params)": whether that is how many parameters a model has, as people count them.
bool says_size_of(const std::string& inside, const workload::Model& model) {
  const std::size_t first = inside.find_first_of("0123456789");
  if (first == std::string::npos || inside.substr(0, first).find_first_not_of("~ ") != std::string::npos) return false;
  const std::size_t end = std::min(inside.find_first_not_of("0123456789.", first), inside.size());
  const auto number = parse_number(inside.substr(first, end - first));
  const std::size_t unit = std::min(inside.find_first_not_of(' ', end), inside.size());
  if (!number || unit == inside.size() || (inside[unit] != 'b' && inside[unit] != 'm')) return false;
  constexpr double kNear = 0.15;
  const double said = *number * (inside[unit] == 'b' ? 1e9 : 1e6);
  return std::abs(said / static_cast<double>(model.totals.dense_parameters) - 1) < kNear;
}

}  // namespace

/// As it is named, or that of the server which is named in its place ("DGX-H100", as NVIDIA's tables have it).
Expected<hardware::Gpu> CaseReader::gpu_of(const io::Case& one) const {
  auto gpu = catalog_.gpu(one.gpu);
  if (gpu) return gpu;
  if (auto plain = catalog_.gpu(without_maker(one.gpu))) return plain;
  if (const auto node = catalog_.node(one.gpu)) return node->gpu;
  const std::string name = lower_case(one.gpu);
  if (name.starts_with("dgx-") || name.starts_with("dgx ")) {
    if (auto inside = catalog_.gpu(std::string_view(one.gpu).substr(4))) return inside;
  }
  return gpu;
}

/// The catalog's name for a case's model: with its variant, or without what brackets add ("BERT-Large (SQuAD)").
std::string CaseReader::model_name(const io::Case& one) const {
  const auto known = [&](const std::string& name) { return catalog_.knows(io::Kind::kModels, name); };
  if (const auto variant = one.said("variant"); variant && known(one.model + " " + *variant)) {
    return one.model + " " + *variant;
  }
  constexpr std::int64_t kSmall = 32;  // pixels a side
  const bool cifar = says(one, "dataset", "cifar") || says(one, "data", "cifar");
  const bool small_images = one.said("image_size") ? count_of(one, "image_size") == kSmall : cifar;
  if (small_images && known(one.model)) {
    const auto model = catalog_.model(one.model);
    if (model && known((*model)->id + "_cifar")) return (*model)->id + "_cifar";
  }
  const std::size_t bracket = one.model.find(" (");
  if (known(one.model) || bracket == std::string::npos) return one.model;
  std::string shorter = one.model.substr(0, bracket);
  // Brackets may name another model, or another size of it: those that are left out say how it was trained.
  std::string inside = lower_case(std::string_view(one.model).substr(bracket + 2));
  for (const std::size_t end : {inside.find(')'), inside.find(',')}) {
    std::string size = shorter + " " + inside.substr(0, end);
    if (known(size)) return size;
  }
  if (!known(shorter)) {
    inside.resize(std::min(inside.find(')'), inside.size()));
    return known(inside) ? inside : one.model;
  }
  if (const auto model = catalog_.model(shorter); model && says_size_of(inside, **model)) return shorter;
  const bool trained = has_any(inside, {"fine-tun",
                                        "finetun",
                                        "pre-train",
                                        "pretrain",
                                        "squad",
                                        "classification",
                                        "segmentation",
                                        "synthetic",
                                        "imagenet",
                                        "mlperf",
                                        "untied embeddings",
                                        "not named",
                                        "torchvision",
                                        "timm",
                                        "hugging",
                                        "transformers",
                                        "keras",
                                        "coco",
                                        "wikipedia",
                                        "webtext",
                                        "wmt",
                                        "moe"});
  const bool sized = has_any(inside, {"layers", "experts", "parameters", "large)", "small)", "base)", "2d", "3d"});
  if (!trained || sized) return one.model;
  return shorter;
}

}  // namespace ddlsim::whatif
