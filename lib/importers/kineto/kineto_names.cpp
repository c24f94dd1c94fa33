#include "kineto_names.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "ddlsim/importers/kineto_file.h"
#include "ddlsim/support/lower_case.h"
#include "onnx/onnx_graph.h"

namespace ddlsim::importers {
namespace {

/// Longer names first: "reduce" is in "allreduce" too.
constexpr auto kOps = std::to_array<std::pair<std::string_view, primitives::CollectiveOp>>({
    {"allreduce", primitives::CollectiveOp::kAllReduce},
    {"all_reduce", primitives::CollectiveOp::kAllReduce},
    {"allgather", primitives::CollectiveOp::kAllGather},
    {"all_gather", primitives::CollectiveOp::kAllGather},
    {"reducescatter", primitives::CollectiveOp::kReduceScatter},
    {"reduce_scatter", primitives::CollectiveOp::kReduceScatter},
    {"alltoall", primitives::CollectiveOp::kAllToAll},
    {"all_to_all", primitives::CollectiveOp::kAllToAll},
    {"broadcast", primitives::CollectiveOp::kBroadcast},
    {"sendrecv", primitives::CollectiveOp::kSendRecv},
    {"reduce", primitives::CollectiveOp::kReduce},
});

/// As NCCL's kernels end: ..._Sum_float, ..._Sum_f32_RING_LL; the longer of two that begin alike first.
constexpr auto kTypes = std::to_array<std::string_view>({
    "__nv_bfloat16", "bfloat16", "bf16",    "half",     "float", "double", "f16", "f32", "f64", "int8_t", "uint8_t",
    "int32_t",       "uint32_t", "int64_t", "uint64_t", "i8",    "u8",     "i32", "u32", "i64", "u64",
});

constexpr auto kReductions = std::to_array<std::string_view>({"sum_", "prod_", "max_", "min_", "avg_", "sumpostdiv_"});

}  // namespace

std::string kineto::short_name(std::string_view name) {
  name = name.substr(0, name.find_first_of("<("));
  while (name.ends_with(' ')) name.remove_suffix(1);
  if (name.starts_with("void ")) name.remove_prefix(5);
  const std::size_t colons = name.rfind("::");
  if (colons != std::string_view::npos) name.remove_prefix(colons + 2);
  return onnx::printable(name.empty() ? "kernel" : name);
}

workload::Bound bound_of_kernel(std::string_view name) {
  // cuBLAS, CUTLASS, cuDNN, Tensile (Cijk), MIOpen and attention kernels. "elementwise" and "reduce" win over template
  // arguments that name another kernel.
  const std::string lower = lower_case(name.substr(0, 200));
  for (const std::string_view swept : {"elementwise", "reduce_kernel", "splitkreduce", "nchwtonhwc", "nhwctonchw"}) {
    if (lower.find(swept) != std::string::npos) return workload::Bound::kMemory;
  }
  for (const std::string_view computed :
       {"gemm", "cutlass", "conv", "winograd", "wgrad", "dgrad", "fprop", "cijk_", "fmha", "flash_", "xmma", "s884",
        "h884", "i8816", "s1688", "s16816", "nvjet", "mma_"}) {
    if (lower.find(computed) != std::string::npos) return workload::Bound::kCompute;
  }
  return workload::Bound::kMemory;
}

std::optional<TracedCollective> collective_of_kernel(std::string_view name) {
  const std::string lower = lower_case(name.substr(0, 200));
  if (lower.find("nccl") == std::string::npos) return std::nullopt;
  TracedCollective collective;
  for (const auto& [word, op] : kOps) {
    if (lower.find(word) == std::string::npos) continue;
    collective.op = op;
    break;
  }
  for (const std::string_view reduction : kReductions) {
    const std::size_t at = lower.find("_" + std::string(reduction));
    if (at == std::string::npos) continue;
    const std::string_view rest = std::string_view(lower).substr(at + 1 + reduction.size());
    const auto type = std::find_if(kTypes.begin(), kTypes.end(), [&](auto word) { return rest.starts_with(word); });
    if (type != kTypes.end()) collective.type = *type;
  }
  return collective;
}

}  // namespace ddlsim::importers
