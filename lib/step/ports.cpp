#include "ports.h"

#include <algorithm>
#include <cstddef>

#include "ddlsim/step/rounds.h"
#include "links.h"

namespace ddlsim::step {
namespace {

/// The first that ends behind `at`: among the last ones, most often.
std::size_t first_behind(const std::vector<Ports::Busy>& port, Time at) {
  std::size_t i = port.size();
  while (i > 0 && port[i - 1].until > at) --i;
  return i;
}

}  // namespace

Ports::Ports(const cost::PricedStep& step) {
  const plan::StepPlan& plan = *step.plan;
  ways_.resize(plan.rows.size());
  std::size_t servers = 0;
  for (std::size_t r = 0; r < plan.rows.size(); ++r) {
    const plan::Row& row = plan.rows[r];
    const Time taken = step.rows[r].network * static_cast<double>(row.count);
    if (row.rank_class == row.needed_by || !(taken > Time::zero())) continue;
    const std::size_t from = server_of(plan, row.rank_class);
    const std::size_t to = server_of(plan, row.needed_by);
    ways_[r] = {taken, static_cast<std::uint32_t>(from * 2), static_cast<std::uint32_t>(to * 2 + 1)};
    servers = std::max({servers, from + 1, to + 1});
  }
  busy_.resize(servers * 2);
}

void Ports::add(std::vector<Busy>& port, Busy one) {
  const auto joins = [](Time until, Time from) { return from - until < from * 1e-12; };
  const auto at = port.begin() + static_cast<std::ptrdiff_t>(first_behind(port, one.from));
  const bool behind = at != port.begin() && joins((at - 1)->until, one.from);
  const bool before = at != port.end() && joins(one.until, at->from);
  if (behind && before) {
    (at - 1)->until = at->until;
    port.erase(at);
  } else if (behind) {
    (at - 1)->until = one.until;
  } else if (before) {
    at->from = one.from;
  } else {
    port.insert(at, one);
  }
}

Time Ports::late(std::size_t r, Time begin) {
  const Way& way = ways_[r];
  Time late;
  Time at = begin;
  Time left = way.taken;
  while (at + left > at) {
    Time room = left;
    Time busy = at;
    for (const std::uint32_t port : {way.out, way.in}) {
      const std::size_t i = first_behind(busy_[port], at);
      if (i == busy_[port].size()) continue;
      const Busy& next = busy_[port][i];
      if (next.from <= at) busy = max(busy, next.until);
      room = min(room, next.from - at);
    }
    if (busy > at) {
      late += busy - at;
      at = busy;
      continue;
    }
    for (const std::uint32_t port : {way.out, way.in}) add(busy_[port], {at, at + room});
    at += room;
    left = left - room;
  }
  return late;
}

void Ports::forget(Time time) {
  for (std::vector<Busy>& port : busy_) {
    port.erase(port.begin(), port.begin() + static_cast<std::ptrdiff_t>(first_behind(port, time)));
  }
}

bool Ports::repeats(const Times& was, Time round) const {
  for (std::size_t p = 0; p < busy_.size(); ++p) {
    if (busy_[p].size() != was[p].size()) return false;
    for (std::size_t i = 0; i < busy_[p].size(); ++i) {
      const Busy& now = busy_[p][i];
      // What has begun before anybody may send counts by its end alone.
      if (!alike(now.until - was[p][i].until, round)) return false;
      if (i > 0 && !alike(now.from - was[p][i].from, round)) return false;
    }
  }
  return true;
}

void Ports::go_on(Time later) {
  for (std::vector<Busy>& port : busy_) {
    for (Busy& one : port) one = {one.from + later, one.until + later};
  }
}

}  // namespace ddlsim::step
