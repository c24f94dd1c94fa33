#include "cases/case_open.h"

#include <fmt/core.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "cases/case_metric.h"
#include "cases/case_model.h"
#include "cases/case_network.h"
#include "cases/case_scenario.h"
#include "cases/case_software.h"
#include "cases/case_strategy.h"
#include "cases/case_text.h"
#include "cases/framework_name.h"
#include "cases/language_case.h"
#include "ddlsim/importers/training_way.h"

namespace ddlsim::whatif {
namespace {

/// The case in which `extra` says `key` to be each of the values.
std::vector<io::Case> stated(const io::Case& one, std::string_view key, std::initializer_list<const char*> values) {
  std::vector<io::Case> cases;
  for (const char* value : values) {
    cases.push_back(one);
    cases.back().extra[std::string(key)] = value;
  }
  return cases;
}

std::vector<io::Case> between(const io::Case& one, std::initializer_list<std::string> networks) {
  std::vector<io::Case> cases;
  for (const std::string& network : networks) {
    cases.push_back(one);
    cases.back().inter_network = network;
  }
  return cases;
}

bool by_transformers(std::string_view framework) {
  const bool named = has_any(framework, {"transformers", "hugging"}) || has_word(framework, "hf");
  return named && !has(framework, "megatron");
}

std::optional<OpenCondition> open_attention(const io::Case& one, const Scenario& scenario) {
  constexpr double kFirst = 2023;  // scaled_dot_product_attention: PyTorch 2.0; before it transformers had eager alone
  if (!scenario.model->totals.attention || !by_transformers(framework_of(one))) return std::nullopt;
  if (said_attention_in_one(one) || software_year_of(one).value_or(importers::kNewest) < kFirst) return std::nullopt;
  return OpenCondition{"attention's kernel", "extra.flash_attention: yes or no",
                       stated(one, "flash_attention", {"yes", "no"})};
}

/// Of a language model by its sizes; Llama 2's and Llama 3's are at the ends of what models of today have.
std::optional<OpenCondition> open_vocabulary(const io::Case& one) {
  if (!gives_sizes(one) || !one.said("hidden") || !assumes_vocabulary(one)) return std::nullopt;
  return OpenCondition{fmt::format("the vocabulary ({} are assumed)", kAssumedVocabulary), "extra.vocab: 32000, say",
                       stated(one, "vocab", {"32000", "128256"})};
}

bool has_gelu_of_gpt2(const workload::Model& model) {
  return std::any_of(model.layers.begin(), model.layers.end(), [](const workload::Layer& layer) {
    const auto* op = layer.op ? std::get_if<workload::Pointwise>(&*layer.op) : nullptr;
    return op != nullptr && op->composite == workload::Composite::kGeluNew;
  });
}

std::optional<OpenCondition> open_gelu(const io::Case& one, const Scenario& scenario) {
  const std::string framework = framework_of(one);
  const bool unknown = has_any(framework, {"deepspeed", "colossal", "lightning", "accelerate"}) &&
                       !by_transformers(framework) && !has(framework, "megatron");
  // Who fuses blocks has kernels of its own.
  if (!unknown || one.said("activation") || software_fused_of(one) == true) return std::nullopt;
  const bool gpt = gives_sizes(one) ? family_of(one) == ModelFamily::kGpt : has_gelu_of_gpt2(*scenario.model);
  if (!gpt) return std::nullopt;
  return OpenCondition{"whether GELU is one kernel", "extra.activation: gelu, or gelu_new for single operations",
                       stated(one, "activation", {"gelu", "gelu_new"})};
}

std::optional<OpenCondition> open_layout(const io::Case& one, const Scenario& scenario) {
  constexpr double kFirst = 2020.25;  // PyTorch 1.5
  const std::string framework = framework_of(one);
  const std::string precision = precision_of(one.precision);
  const bool half = precision == "fp16" || precision == "amp" || precision == "bf16";
  const bool pytorch = has_any(framework, {"torch", "lightning", "composer", "timm"}) && !is_submission(one);
  if (!half || !pytorch || !scenario.model->totals.convolutional) return std::nullopt;
  if (software_year_of(one).value_or(0) < kFirst) return std::nullopt;
  const bool noted =
      has_any(lower_case(one.notes), {"nchw", "nhwc", "channels_last", "channels-last", "channels last"});
  const bool said = noted || one.said("memory_format") || one.said("data_format") || one.said("layout") ||
                    one.said("channels_last") || layout_of(one) == "channels-last";
  if (said) return std::nullopt;
  return OpenCondition{"the layout of images", "extra.memory_format: channels-last or channels-first",
                       stated(one, "memory_format", {"channels-last", "channels-first"})};
}

/// PyTorch's products in fp32 are none of TF32 since 1.12; scripts let them, and tables go on calling it fp32.
std::optional<OpenCondition> open_tf32(const io::Case& one, const Scenario& scenario) {
  const hardware::Gpu& gpu = scenario.cluster.node.gpu;
  const bool said = one.said("tf32") || one.said("container") || is_submission(one);
  if (precision_of(one.precision) != "fp32" || scenario.precision != Precision::kFp32 || !gpu.peak.tf32 || said) {
    return std::nullopt;
  }
  if (is_pass(one.metric) || !has_any(framework_of(one), {"torch", "lightning", "timm"})) return std::nullopt;
  io::Case allowed = one;
  allowed.precision = "tf32";
  return OpenCondition{"whether products of fp32 are in TF32", "extra.tf32: yes or no", {std::move(allowed)}};
}

/// Of jobs whose strategy is their framework's; models that are split have others' ways (importers/training_way.h).
std::optional<OpenCondition> open_exchange(const io::Case& one, const Scenario& scenario) {
  const std::string strategy = strategy_of(one, architecture_family(one));
  if (scenario.framework != strategy || !assumes_strategy(one)) return std::nullopt;
  const std::string framework = one.framework.empty() ? "a framework that is not named" : one.framework.substr(0, 60);
  return OpenCondition{fmt::format("how {} shares gradients (strategy {} is assumed)", framework, strategy),
                       "extra.strategy: horovod, say", stated(one, "strategy", {"apex-ddp-delayed", "tf-replicated"}),
                       true, true};
}

std::optional<OpenCondition> open_ethernet(const io::Case& one, const Scenario& scenario) {
  const auto assumed = assumed_ethernet(one, scenario.cluster.node);
  if (!assumed || scenario.cluster.nodes < 2) return std::nullopt;
  const auto of = [](std::string_view rate) { return fmt::format("{} Ethernet (TCP)", rate); };
  return OpenCondition{fmt::format("the rate of the Ethernet ({} Gb/s are assumed)", assumed->gigabits),
                       "inter_network: 25 Gb/s Ethernet, say", between(one, {of(assumed->slow), of(assumed->fast)}),
                       true};
}

std::optional<OpenCondition> open_ports(const io::Catalog& catalog, const io::Case& one, const Scenario& scenario) {
  const hardware::Node& node = scenario.cluster.node;
  const bool volta = node.gpu.nccl_tuning == hardware::GpuGeneration::kVolta;
  const bool several = scenario.cluster.nodes > 1 && node.network_ports > 1;
  if (!volta || !several || !node.tariff.provider.empty() || !leaves_network_open(catalog, one)) return std::nullopt;
  const double card = node.network_bandwidth().in(gigabits_per_second) / static_cast<double>(node.network_ports);
  return OpenCondition{fmt::format("the network between servers ({} ports are assumed)", node.network_ports),
                       "inter_network: 1 x 100 Gb/s InfiniBand, say",
                       between(one, {fmt::format("1 x {:g} Gb/s InfiniBand", card)}), true};
}

}  // namespace

std::vector<OpenCondition> open_conditions(const io::Catalog& catalog, const io::Case& one, const Scenario& scenario) {
  std::vector<OpenCondition> open;
  const auto add = [&](std::optional<OpenCondition> condition) {
    if (condition) open.push_back(std::move(*condition));
  };
  add(open_attention(one, scenario));
  add(open_vocabulary(one));
  add(open_gelu(one, scenario));
  add(open_layout(one, scenario));
  add(open_tf32(one, scenario));
  add(open_exchange(one, scenario));
  add(open_ethernet(one, scenario));
  add(open_ports(catalog, one, scenario));
  return open;
}

}  // namespace ddlsim::whatif
