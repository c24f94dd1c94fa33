// Max-min fair rates of flows that come and go: only what a change can reach is solved again.
//
// Flows and links form a graph; a start or an end touches the links of its route, and only rates in their connected
// parts can change. Within a part progressive filling goes from the tightest link to the next: a link's share is what
// it has left over its flows that still grow. Shares only rise as others freeze, so a heap of shares that looks at a
// stale one again when it comes up finds the tightest in O(log links).
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ddlsim/events/flow_network.h"

namespace ddlsim::events {

class Sharing {
 public:
  using Slot = std::uint32_t;

  explicit Sharing(std::span<const Link> links);

  /// A flow over `hops` (not empty, every link once) in a slot above 0 that no running flow has.
  void start(Slot slot, std::span<const Hop> hops);
  void stop(Slot slot);

  /// True when a start or stop has not been resolved yet.
  [[nodiscard]] bool stale() const { return !touched_.empty(); }

  /// The flows whose rate changed since the last call, with their new rate in bytes per second.
  struct Change {
    Slot slot = 0;
    double rate = 0;
  };
  std::span<const Change> resolve();

  /// Whether a flow crosses the link.
  [[nodiscard]] bool busy(std::uint32_t link) const { return links_[link].first != kEnd; }

 private:
  static constexpr std::uint32_t kEnd = 0xFFFFFFFF;

  struct LinkState {
    double capacity = 0;
    double left = 0;             // for the flows that still grow
    double growing = 0;          // how many do, each as often as it crosses
    std::uint32_t open = 0;      // how many do, each once: parts of flows need not add up to zero again
    std::uint32_t first = kEnd;  // crossing
    std::uint32_t visited = 0;   // the last resolve() that met this link
    bool touched = false;
  };
  /// A flow on a link; those on one link are chained.
  struct Crossing {
    Slot slot = 0;
    std::uint32_t link = 0;
    std::uint32_t previous = kEnd;
    std::uint32_t next = kEnd;
    double times = 1;
  };
  struct Flow {
    double rate = 0;
    std::uint32_t first = 0;  // of its crossings, which are side by side
    std::uint32_t hops = 0;
    std::uint32_t room = 0;  // crossings that belong to the slot
    std::uint32_t visited = 0;
    bool frozen = false;
  };
  using Share = std::pair<double, std::uint32_t>;

  void touch(std::uint32_t link);
  void gather(std::uint32_t link);
  void fill();
  void freeze(Slot slot, double rate);
  [[nodiscard]] std::span<const Crossing> crossings(const Flow& flow) const {
    return std::span(crossings_).subspan(flow.first, flow.hops);
  }

  std::vector<LinkState> links_;
  std::vector<Flow> flows_;
  std::vector<Crossing> crossings_;
  std::vector<std::uint32_t> touched_;
  std::uint32_t round_ = 0;
  // Scratch of resolve(): the connected part at hand.
  std::vector<std::uint32_t> part_links_;
  std::vector<Slot> part_flows_;
  std::vector<Share> shares_;
  std::vector<Change> changes_;
};

}  // namespace ddlsim::events
