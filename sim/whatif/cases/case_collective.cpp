// What a row of collectives ran, and on what.
#include <fmt/core.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cases/case_scenario.h"
#include "cases/case_text.h"
#include "cases/framework_name.h"
#include "ddlsim/support/quantity_io.h"

namespace ddlsim::whatif {
namespace {

/// nccl-tests' programs and NCCL's functions by this project's names: "all_reduce_perf", "AllReduce".
std::string operation_named(std::string name) {
  constexpr std::string_view kProgram = "_perf";
  if (name.ends_with(kProgram)) name.erase(name.size() - kProgram.size());
  constexpr auto kNames =
      std::to_array<std::pair<std::string_view, std::string_view>>({{"allreduce", "all_reduce"},
                                                                    {"allgather", "all_gather"},
                                                                    {"reducescatter", "reduce_scatter"},
                                                                    {"alltoall", "all_to_all"}});
  for (const auto& [joined, op] : kNames) {
    if (name == joined) return std::string(op);
  }
  return name;
}

/// What a row of collectives ran. Servers without a process of their own: all gradients to one rank and back
/// (ps_central), or every rank's share to it and back (ps_sharded); in pieces of a rank's share where the row says so.
Expected<std::vector<CollectiveCalls>> calls_of(const io::Case& one, DataSize size) {
  using primitives::CollectiveOp;
  const std::int64_t ranks = one.total_gpus;
  const DataSize piece = size / static_cast<double>(ranks);
  const std::string model = lower_case(one.model);
  if (model == "ps_central") {
    return std::vector<CollectiveCalls>{{CollectiveOp::kReduce, piece, ranks},
                                        {CollectiveOp::kBroadcast, piece, ranks}};
  }
  if (model == "ps_sharded") {
    return std::vector<CollectiveCalls>{{CollectiveOp::kAllToAll, size, 1}, {CollectiveOp::kAllGather, size, 1}};
  }
  const auto op = parse_choice(primitives::kCollectiveOps, operation_named(model), "operation");
  if (!op) return tl::unexpected<Error>(op.error());
  if (has(lower_case(one.said("calls").value_or("")), "size/world_size each")) {
    return std::vector<CollectiveCalls>{{*op, piece, ranks}};
  }
  return std::vector<CollectiveCalls>{{*op, size, 1}};
}

}  // namespace

Expected<CollectiveCase> CaseReader::collective_of(const io::Case& one, std::int64_t widest) const {
  CollectiveCase result;
  const auto size = parse_number(one.said("size_bytes").value_or(""));
  if (!size || *size <= 0 || *size > 1e16) {
    return fail(ErrorCode::kUnsupported, "a collective needs extra.size_bytes, above zero and at most 1e16");
  }
  result.size = bytes(*size);
  if (one.total_gpus < 2) return fail(ErrorCode::kUnsupported, "one GPU has nobody to talk to");
  if (one.metric != io::CaseMetric::kLatencyMicroseconds && one.metric != io::CaseMetric::kBusBandwidth) {
    return fail(ErrorCode::kUnsupported, fmt::format("a collective has no {}", name_of(io::kCaseMetrics, one.metric)));
  }
  auto calls = calls_of(one, result.size);
  if (!calls) return tl::unexpected<Error>(calls.error());
  result.calls = std::move(*calls);
  if (has(framework_of(one), "gloo")) result.settings.push_back({"collective.library", "gloo", one.where});
  if (auto added = add_server(one, widest, result.settings); !added) return tl::unexpected<Error>(added.error());
  const std::string said = lower_case(one.notes + " " + one.inter_network);
  const auto force = [&](std::string_view part, const char* algorithm) {
    if (has(said, part)) result.settings.push_back({"collective.algorithm", algorithm, one.where});
  };
  force("nvls_enable=0", "ring");
  force("algo=tree", "double-tree");
  force("allreduce:ring", "ring");
  force("allreduce:nvlstree", "nvls-tree");
  result.settings.insert(result.settings.end(), stated_.begin(), stated_.end());
  return result;
}

}  // namespace ddlsim::whatif
