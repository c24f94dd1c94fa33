#include "op_reader.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ddlsim::io {
namespace {

using workload::Op;
using workload::Pair;
using workload::Shape;

constexpr std::size_t kMaxGradients = 10'000;

template <bool kAverage>
Op make_pool(OpReader& keys) {
  workload::Pool pool{.average = kAverage};
  pool.kernel = keys.pair("kernel");
  pool.stride = keys.pair_or("stride", pool.kernel, 1);
  pool.pad = keys.pair_or("pad", {0, 0}, 0);
  pool.ceil = keys.map().flag_or("ceil", false);
  return pool;
}

Op make_embedding(OpReader& keys) {
  workload::Embedding op;
  op.rows = keys.size("rows");
  op.width = keys.size("width");
  op.lookups = keys.size("lookups");
  op.out = keys.shape_or_empty("out");
  constexpr Choices<bool, 2> kGradients{{{"dense", false}, {"sparse", true}}};
  if (keys.map().find("gradient") != nullptr) op.sparse_gradient = keys.map().choice("gradient", kGradients);
  return op;
}

Op make_convolution(OpReader& keys) {
  workload::Convolution op;
  op.out = keys.size("out");
  op.kernel = keys.pair("kernel");
  op.stride = keys.pair_or("stride", {1, 1}, 1);
  op.pad = keys.pair_or("pad", {0, 0}, 0);
  op.dilation = keys.pair_or("dilation", {1, 1}, 1);
  op.groups = keys.size_or("groups", 1);
  op.bias = keys.map().flag_or("bias", false);
  op.tied = keys.map().flag_or("tied", false);
  return op;
}

Op make_linear(OpReader& keys) {
  return workload::Linear{.out = keys.size("out"),
                          .bias = keys.map().flag_or("bias", true),
                          .tied = keys.map().flag_or("tied", false),
                          .groups = keys.size_or("groups", 1),
                          .whole = keys.map().flag_or("whole", false)};
}

Op make_lstm(OpReader& keys) {
  return workload::Lstm{.hidden = keys.size("hidden"), .directions = keys.map().count_or("directions", 1, {1, 2})};
}

Op make_matmul(OpReader& keys) {
  return workload::MatMul{.rows = keys.size("rows"),
                          .inner = keys.size("inner"),
                          .columns = keys.size("columns"),
                          .products = keys.size_or("products", 1),
                          .out = keys.shape("out")};
}

Op make_grouped_attention(OpReader& keys) {
  return workload::GroupedAttention{.heads = keys.size("heads"),
                                    .kv_heads = keys.size_or("kv_heads", 0),
                                    .width = keys.size("width"),
                                    .value_width = keys.size_or("value_width", 0),
                                    .window = keys.size_or("window", 0),
                                    .causal = keys.map().flag_or("causal", false),
                                    .chunk = keys.size_or("chunk", 0),
                                    .sinks = keys.map().flag_or("sinks", false),
                                    .pooled = keys.size_or("pooled", 0),
                                    .pooled_keep = keys.size_or("pooled_keep", 0)};
}

Op make_experts(OpReader& keys) {
  return workload::Experts{.experts = keys.size("experts"),
                           .active = keys.size("active"),
                           .width = keys.size("width"),
                           .gated = keys.map().flag_or("gated", true),
                           .bias = keys.map().flag_or("bias", false)};
}

Op make_causal_conv(OpReader& keys) {
  return workload::CausalConv{.kernel = keys.size("kernel"), .bias = keys.map().flag_or("bias", false)};
}

Op make_index_scores(OpReader& keys) {
  return workload::IndexScores{.heads = keys.size("heads"),
                               .width = keys.size("width"),
                               .keep = keys.size("keep"),
                               .pooled = keys.size_or("pooled", 1)};
}

Op make_host_work(OpReader& keys) { return workload::HostWork{keys.map().quantity<dimension::kTime>("time")}; }

Op make_linear_attention(OpReader& keys) {
  return workload::LinearAttention{.heads = keys.size("heads"),
                                   .key_heads = keys.size_or("key_heads", 0),
                                   .width = keys.size("width"),
                                   .value_width = keys.size("value_width"),
                                   .chunk = keys.size_or("chunk", 64),
                                   .delta = keys.map().flag_or("delta", false)};
}

Op make_measured(OpReader& keys) {
  workload::Measured op;
  op.time.forward = keys.map().optional_quantity<dimension::kTime>("forward").value_or(Time::zero());
  op.time.backward = keys.map().optional_quantity<dimension::kTime>("backward").value_or(Time::zero());
  if (keys.map().find("bound") != nullptr) op.time.bound = keys.map().choice("bound", workload::kBounds);
  op.kernels = keys.map().count_or("kernels", 1, {1, OpReader::kMaxStride});
  op.gradients = keys.shape_or_empty("gradients", kMaxGradients);
  return op;
}

template <std::size_t kIndex>
Op make_pointwise(OpReader&) {
  return workload::kPointwiseWords[kIndex].op;
}

constexpr auto kOthers = std::to_array<OpRow>({
    {"conv", make_convolution},
    {"linear", make_linear},
    {"batchnorm", [](OpReader&) -> Op { return workload::BatchNorm{}; }},
    {"layernorm", [](OpReader&) -> Op { return workload::LayerNorm{}; }},
    {"add", [](OpReader&) -> Op { return workload::Combine{.product = false}; }},
    {"multiply", [](OpReader&) -> Op { return workload::Combine{.product = true}; }},
    {"maxpool", make_pool<false>},
    {"avgpool", make_pool<true>},
    {"global_avgpool", [](OpReader&) -> Op { return workload::GlobalPool{}; }},
    {"flatten", [](OpReader&) -> Op { return workload::Flatten{}; }},
    {"concat", [](OpReader& keys) -> Op { return workload::Concat{keys.shape("out")}; }},
    {"embedding", make_embedding},
    {"attention",
     [](OpReader& keys) -> Op {
       return workload::Attention{.heads = keys.size("heads"),
                                  .keys = keys.size_or("keys", 0),
                                  .causal = keys.map().flag_or("causal", false),
                                  .biased = keys.map().flag_or("biased", false),
                                  .wide = keys.map().flag_or("wide_softmax", false)};
     }},
    {"lstm", make_lstm},
    {"matmul", make_matmul},
    {"rmsnorm", [](OpReader&) -> Op { return workload::RmsNorm{}; }},
    {"swiglu", [](OpReader&) -> Op { return workload::Combine{.product = true, .gated = true}; }},
    {"grouped_attention", make_grouped_attention},
    {"experts", make_experts},
    {"measured", make_measured},
    {"causal_conv", make_causal_conv},
    {"linear_attention", make_linear_attention},
    {"index_scores", make_index_scores},
    {"host", make_host_work},
});

constexpr auto kOps = []<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
  std::array<OpRow, sizeof...(kIndex) + kOthers.size()> all{
      OpRow{workload::kPointwiseWords[kIndex].word, make_pointwise<kIndex>}...};
  std::copy(kOthers.begin(), kOthers.end(), all.begin() + sizeof...(kIndex));
  return all;
}
(std::make_index_sequence<workload::kPointwiseWords.size()>{});

}  // namespace

std::span<const OpRow> readable_ops() { return kOps; }

}  // namespace ddlsim::io
