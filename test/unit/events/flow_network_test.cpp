#include "ddlsim/events/flow_network.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace ddlsim;
using namespace ddlsim::events;

namespace {

constexpr LinkId kFirst{0};
constexpr LinkId kSecond{1};

std::vector<Link> two_links(double first, double second) {
  return {{"first", gigabytes_per_second(first)}, {"second", gigabytes_per_second(second)}};
}

std::vector<double> rates(std::span<const Link> links, const std::vector<Hops>& flows) {
  std::vector<double> result;
  const auto shared = max_min_rates(links, flows).value();
  for (const Bandwidth rate : shared) result.push_back(rate.in(gigabytes_per_second));
  return result;
}

}  // namespace

TEST_CASE("flow network: the header's worked example", "[unit][sim]") {
  // The first link is full at 1/2 each; C has 2 - 1/2 of the second.
  const auto shared = rates(two_links(1, 2), {{{kFirst}, {kSecond}}, {{kFirst}}, {{kSecond}}});
  CHECK(shared == std::vector<double>{0.5, 0.5, 1.5});
}

TEST_CASE("flow network: a flow that stands for many takes the room of many", "[unit][sim]") {
  // 3 x + 1 y <= 1 with equal rates: 1/4 each; four alike and one of another kind are five: 1/5 each.
  CHECK(rates(two_links(1, 9), {{{kFirst, 3}}, {{kFirst}}}) == std::vector<double>{0.25, 0.25});
  CHECK(rates(two_links(1, 9), {{{kFirst, 4}, {kSecond, 2}}, {{kFirst}}})[0] == Approx(0.2).epsilon(1e-15));
  // Crossing a link twice is crossing it 2 times.
  CHECK(rates(two_links(1, 9), {{{kFirst}, {kSecond}, {kFirst}}}) == std::vector<double>{0.5});
}

TEST_CASE("flow network: a part of a flow takes that part of the room", "[unit][sim]") {
  // Half of A and all of B: x/2 + x = 1. A third of A and a sixth of B leave room for two each.
  CHECK(rates(two_links(1, 9), {{{kFirst, 0.5}}, {{kFirst}}})[0] == Approx(2.0 / 3).epsilon(1e-15));
  CHECK(rates(two_links(1, 9), {{{kFirst, 1.0 / 3}}, {{kFirst, 1.0 / 6}}})[1] == Approx(2).epsilon(1e-15));
}

TEST_CASE("flow network: what one flow leaves another takes", "[unit][sim]") {
  // Second link: C alone would have 10, A is held to 0.5 by the first (shared with B): C has 9.5.
  CHECK(rates(two_links(1, 10), {{{kFirst}, {kSecond}}, {{kFirst}}, {{kSecond}}})[2] == 9.5);
  // The tighter link comes second here: A and C have 1 each there; B has 10 - 1.
  CHECK(rates(two_links(10, 2), {{{kFirst}, {kSecond}}, {{kFirst}}, {{kSecond}}}) == std::vector<double>{1, 9, 1});
}

TEST_CASE("flow network: no flows, no links, no hops", "[unit][sim]") {
  CHECK(rates({}, {}).empty());
  CHECK(rates(two_links(1, 1), {}).empty());
  CHECK(max_min_rates({}, std::vector<Hops>{{}}).value()[0] == Bandwidth::infinity());
}

TEST_CASE("flow network: faults are named", "[unit][sim]") {
  const auto message = [](std::span<const Link> links, const std::vector<Hops>& flows) {
    const auto result = max_min_rates(links, flows);
    return result ? std::string{} : result.error().message;
  };
  CHECK(message(two_links(0, 1), {}) == "link 'first': capacity 0 B/s");
  CHECK(message(two_links(1, -1), {}) == "link 'second': capacity -1000000000 B/s");
  CHECK(message(std::vector<Link>{{"wide", Bandwidth::infinity()}}, {}) == "link 'wide': capacity inf B/s");
  CHECK(message(two_links(1, 1), {{{kFirst}}, {{LinkId{2}}}}) == "route #1: link #2 of 2");
  CHECK(message(two_links(1, 1), {{{kFirst, 0}}}) == "route #0: crosses link 'first' 0 times");
  CHECK(message(two_links(1, 1), {{{kFirst, -0.5}}}) == "route #0: crosses link 'first' -0.5 times");
  CHECK(message(two_links(1, 1), {{{kFirst, INFINITY}}}) == "route #0: crosses link 'first' inf times");
}
