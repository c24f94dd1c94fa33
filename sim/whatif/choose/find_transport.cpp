#include "choose/find_transport.h"

#include <fmt/core.h>

#include <algorithm>

#include "ddlsim/cost/collective.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/support/names.h"

namespace ddlsim::whatif {
namespace {

/// Whether the question's words say what drives the network: "100 Gb/s TCP", --set network.transport=tcp.
bool words_say_transport(std::span<const Override> base) {
  return std::any_of(base.begin(), base.end(), [](const Override& one) {
    if (one.path == "network.transport") return true;
    return one.path == "network" && fold_name(one.value).find("tcp") != std::string::npos;
  });
}

bool driven_by_tcp(const Scenario& scenario) {
  const hardware::Node& node = scenario.cluster.node;
  const auto transport =
      hardware::says_transport(node.network) ? *node.network.transport.get() : cost::assumed_transport(node);
  return transport == hardware::NetworkTransport::kTcp;
}

std::string where_it_holds(const answer::Inverse& over) {
  if (!over.reached) return fmt::format("not reachable either: {} at most", over.limit_text);
  if (over.always) return "at every rate";
  if (over.condition.find(" = ") != std::string::npos) return fmt::format("at {}", over.setting);
  if (over.range) return fmt::format("from {} to {}", over.range->from_setting, over.range->to_setting);
  return over.up ? fmt::format("from {} on", over.setting) : fmt::format("up to {}", over.setting);
}

}  // namespace

void add_over_rdma(const io::Catalog& catalog, std::span<const Override> base, const AskAgain& ask,
                   answer::Inverse& result) {
  if (result.variable != "network" || words_say_transport(base)) return;
  const auto scenario = resolve(catalog, base);
  if (!scenario || scenario->cluster.nodes == 1 || plan::has_servers(scenario->strategy)) return;
  if (!driven_by_tcp(*scenario)) return;
  std::vector<Override> settings(base.begin(), base.end());
  settings.push_back({"network.transport", "roce", {}});
  const auto over = ask(settings);
  if (!over) return;
  result.predictions += over->predictions;
  result.over_rdma = answer::OverRdma{over->reached, over->value, where_it_holds(*over)};
  const bool said = hardware::says_transport(scenario->cluster.node.network);
  result.notes.insert(
      result.notes.begin(),
      fmt::format("network: TCP drives it at every rate, {}; over RoCE (--set network.transport=roce) "
                  "the condition holds {}",
                  said ? "as the file of this server's network says" : "which is assumed", result.over_rdma->text));
}

}  // namespace ddlsim::whatif
