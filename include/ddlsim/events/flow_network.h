// Links and how flows share them: max-min fairness.
//
// A link carries up to `capacity` in one direction; a full-duplex cable is two links. A flow crosses the links of its
// route and has one rate x_f, the same on all of them. `times` says how much of a link one byte of the flow takes: how
// many alike flows the one stands for (workers that are alike are folded into one), or what part of it goes that way
// (a ring's share of one of four network ports), so that with n_fl = times:
//   for every link l:   sum over flows f of n_fl x_f <= c_l
// The rates are max-min fair: no rate can grow without lowering one that is no larger. Progressive filling finds them:
// all rates grow alike until a link is full; its flows keep that rate; the others grow on. Hence the certificate that
// the tests check: every flow crosses a full link on which no flow has a higher rate.
// Sources: Bertsekas and Gallager, Data Networks, 2nd ed. 1992, 6.5.2; as a model of TCP and its errors: Velho et al.,
// ACM TOMACS 23(4), 2013 (SimGrid, whose solver is the oracle of test/property/simgrid_oracle_test.cpp).
// Limits: rates change at once (no slow start, no loss, no round-trip bias); no rate cap but links (a private link is
// one). Worked example: links of 1 and 2 GB/s; flow A over both, B over the first, C over the second. The first is full
// at 0.5 each (A, B); C then takes the 1.5 that is left of the second.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"

namespace ddlsim::events {

enum class LinkId : std::uint32_t {};

/// One direction of a cable, port or bus.
struct Link {
  std::string name{};
  Bandwidth capacity{};
};

/// A link on a route, and how many alike flows, or what part of one, the one described puts on it.
struct Hop {
  LinkId link{};
  double times = 1;
};

using Hops = std::vector<Hop>;

/// The max-min fair rate of each flow; a flow without hops is not held back: infinity. Fails for a capacity that is not
/// positive and finite, a link that is not there, and a hop whose times are not positive and finite.
[[nodiscard]] Expected<std::vector<Bandwidth>> max_min_rates(std::span<const Link> links, std::span<const Hops> flows);

}  // namespace ddlsim::events
