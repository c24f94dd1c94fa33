// Servers' ports to the network, where stages of a pipeline send to each other. Private to the room.
//
// Every message between stages in two servers has its sender's port out and its receiver's port in for as long as the
// port at its full rate needs for it (PricedRow::network). A port does one thing at a time: a message has what earlier
// ones left of both ports from its begin on, in pieces where it must, and is so much later as it stood still:
//   late = sum of the times from its begin to its last byte in which one of both ports had another message
// Fair shares (events/flow_network.h) take as long in all, and hold up the earlier one of two as well.
// Worked example (test: slots_test.cpp): three stages, sends of 2 ms. The middle one has a gradient on its way from 13
// to 15 ms when its activation is ready at 14: that leaves from 15 to 17. Limits: sums of gradients and other
// collectives of a group have no part in it (SlotStep has them as a floor); the order is that of plan/order.h, not of
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ddlsim/cost/price.h"

namespace ddlsim::step {

class Ports {
 public:
  explicit Ports(const cost::PricedStep& step);

  /// Whether any row has ports.
  [[nodiscard]] bool any() const { return !busy_.empty(); }
  /// Row `r` may leave at `begin`: has the ports, and returns how much later than it would be alone it is sent.
  Time late(std::size_t r, Time begin);
  /// Nothing will leave before `time`.
  void forget(Time time);

  /// A time in which a port has messages.
  struct Busy {
    Time from{};
    Time until{};
  };
  using Times = std::vector<std::vector<Busy>>;  // by port, in order
  [[nodiscard]] const Times& busy() const { return busy_; }
  /// Whether all of it is what it was, `round` later.
  [[nodiscard]] bool repeats(const Times& was, Time round) const;
  void go_on(Time later);

 private:
  struct Way {
    Time taken{};  // of both ports; zero: none
    std::uint32_t out = 0;
    std::uint32_t in = 0;
  };
  static void add(std::vector<Busy>& port, Busy one);

  std::vector<Way> ways_;  // by row
  Times busy_;             // out of a server, into it
};

}  // namespace ddlsim::step
