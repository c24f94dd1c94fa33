// The links that a simulation's transfers share, before any of them is a link of the program. Private to the room.
//
// A load says for how long one byte of something that is sent fills a link: 1 / (the rate it reaches there). So flows
// of different software share a link by what each of them makes of it, and a flow alone that moves as fast as its
// price says fills its tightest link, whatever share of the wire that is. A Shape is the loads of one way of sending;
// a transfer is a sum of shapes, each for so many bytes.
//
// Only links that can be the tightest are simulated: one that another is as full as, or fuller, under every shape
// never fills first (sum of T_e x <= sum of T_f x <= 1), so leaving it out changes no rate. It is what keeps the
// sixteen alike ports of a server one link of the program.
//
// A price is believed: a transfer alone takes as long as it says. Where that is faster than its links would allow, it
// counts as sending so much less that the fullest of them is just full. Links that no price knows (the leaf's uplink)
// may hold it back all the same.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ddlsim/support/units.h"
#include "event_builder.h"

namespace ddlsim::events {

class LinkTable {
 public:
  using Shape = std::size_t;

  struct Load {
    std::size_t link = 0;
    Time per_byte{};
  };
  /// So many bytes of a shape.
  struct Part {
    Shape shape = 0;
    DataSize size{};
  };
  /// A way through the program's links; none: nothing that could be shared is in its way.
  struct Flow {
    std::optional<RouteId> route{};
    DataSize size{};
  };

  /// A link by its name; of two capacities the larger, for what rate a link has is what the fastest reaches on it.
  std::size_t link(const std::string& name, Bandwidth capacity, bool unpriced = false);
  [[nodiscard]] Bandwidth capacity(std::size_t link) const { return links_[link].capacity; }
  /// Loads of one link add up.
  Shape add(std::span<const Load> loads);
  /// Makes the program's links. No shape may come after.
  void lay(EventBuilder& builder);
  /// A transfer that takes `moving` alone, of which `size` bytes are told.
  Flow flow(EventBuilder& builder, std::span<const Part> parts, DataSize size, Time moving, std::string_view pace);

 private:
  struct Entry {
    std::string name;
    Bandwidth capacity{};
    bool unpriced = false;
    std::map<Shape, double> seconds;  // per byte
    std::optional<LinkId> id{};       // of those that are kept
  };

  [[nodiscard]] static bool covers(const Entry& fuller, const Entry& other);

  std::vector<Entry> links_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
  std::vector<std::vector<std::size_t>> shapes_;  // the links of each
};

}  // namespace ddlsim::events
