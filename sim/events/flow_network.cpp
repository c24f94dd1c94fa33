#include "ddlsim/events/flow_network.h"

#include "ddlsim/events/engine.h"
#include "sharing.h"

namespace ddlsim::events {

Expected<std::vector<Bandwidth>> max_min_rates(std::span<const Link> links, std::span<const Hops> flows) {
  // A Program refuses what is wrong with links and routes, and merges a link named twice.
  Program checked;
  for (const Link& link : links) {
    if (auto added = checked.add_link(link); !added) return tl::unexpected<Error>(added.error());
  }
  Sharing sharing(links);
  std::vector<Bandwidth> rates(flows.size(), Bandwidth::infinity());
  for (std::size_t i = 0; i < flows.size(); ++i) {
    const auto route = checked.add_route(flows[i]);
    if (!route) return tl::unexpected<Error>(route.error());
    if (!flows[i].empty()) sharing.start(static_cast<Sharing::Slot>(i + 1), checked.hops(*route));
  }
  for (const auto& [slot, rate] : sharing.resolve()) rates[slot - 1] = bytes_per_second(rate);
  return rates;
}

}  // namespace ddlsim::events
