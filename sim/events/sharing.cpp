#include "sharing.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace ddlsim::events {

Sharing::Sharing(std::span<const Link> links) {
  links_.reserve(links.size());
  for (const Link& link : links) links_.push_back({.capacity = link.capacity.in(bytes_per_second)});
}

void Sharing::start(Slot slot, std::span<const Hop> hops) {
  if (slot >= flows_.size()) flows_.resize(slot + std::size_t{1});
  Flow& flow = flows_[slot];
  if (flow.room < hops.size()) {
    flow.first = static_cast<std::uint32_t>(crossings_.size());
    flow.room = static_cast<std::uint32_t>(hops.size());
    crossings_.resize(crossings_.size() + hops.size());
  }
  flow.hops = static_cast<std::uint32_t>(hops.size());
  flow.rate = 0;
  std::uint32_t at = flow.first;
  for (const Hop& hop : hops) {
    const auto link = static_cast<std::uint32_t>(hop.link);
    LinkState& state = links_[link];
    crossings_[at] = {slot, link, kEnd, state.first, hop.times};
    if (state.first != kEnd) crossings_[state.first].previous = at;
    state.first = at++;
    touch(link);
  }
}

void Sharing::stop(Slot slot) {
  for (const Crossing& crossing : crossings(flows_[slot])) {
    if (crossing.next != kEnd) crossings_[crossing.next].previous = crossing.previous;
    if (crossing.previous != kEnd) {
      crossings_[crossing.previous].next = crossing.next;
    } else {
      links_[crossing.link].first = crossing.next;
    }
    touch(crossing.link);
  }
}

void Sharing::touch(std::uint32_t link) {
  if (links_[link].touched) return;
  links_[link].touched = true;
  touched_.push_back(link);
}

std::span<const Sharing::Change> Sharing::resolve() {
  changes_.clear();
  if (++round_ == 0) {
    // After 2^32 rounds an old mark could look new.
    for (LinkState& link : links_) link.visited = 0;
    for (Flow& flow : flows_) flow.visited = 0;
    round_ = 1;
  }
  for (const std::uint32_t link : touched_) {
    links_[link].touched = false;
    if (links_[link].visited == round_ || links_[link].first == kEnd) continue;
    gather(link);
    fill();
  }
  touched_.clear();
  return changes_;
}

/// All links and flows connected with `link`, links made ready for filling.
void Sharing::gather(std::uint32_t link) {
  part_links_.assign(1, link);
  part_flows_.clear();
  links_[link].visited = round_;
  for (std::size_t i = 0; i < part_links_.size(); ++i) {
    LinkState& state = links_[part_links_[i]];
    state.left = state.capacity;
    state.growing = 0;
    state.open = 0;
    for (std::uint32_t at = state.first; at != kEnd; at = crossings_[at].next) {
      state.growing += crossings_[at].times;
      ++state.open;
      Flow& flow = flows_[crossings_[at].slot];
      if (flow.visited == round_) continue;
      flow.visited = round_;
      flow.frozen = false;
      part_flows_.push_back(crossings_[at].slot);
      for (const Crossing& other : crossings(flow)) {
        if (links_[other.link].visited == round_) continue;
        links_[other.link].visited = round_;
        part_links_.push_back(other.link);
      }
    }
  }
}

void Sharing::fill() {
  if (part_flows_.size() == 1) {
    double rate = std::numeric_limits<double>::infinity();
    for (const Crossing& crossing : crossings(flows_[part_flows_.front()])) {
      rate = std::min(rate, links_[crossing.link].capacity / crossing.times);
    }
    return freeze(part_flows_.front(), rate);
  }
  shares_.clear();
  for (const std::uint32_t link : part_links_) shares_.emplace_back(links_[link].capacity / links_[link].growing, link);
  std::make_heap(shares_.begin(), shares_.end(), std::greater<>{});
  double level = 0;
  while (!shares_.empty()) {
    std::pop_heap(shares_.begin(), shares_.end(), std::greater<>{});
    const auto [share, link] = shares_.back();
    const LinkState& state = links_[link];
    if (state.open == 0) {  // all its flows are held back elsewhere
      shares_.pop_back();
      continue;
    }
    // Rounding aside a share never falls below the level already reached.
    const double now = std::max(state.left / state.growing, level);
    if (now > share) {
      shares_.back().first = now;
      std::push_heap(shares_.begin(), shares_.end(), std::greater<>{});
      continue;
    }
    shares_.pop_back();
    level = std::max(share, level);
    for (std::uint32_t at = state.first; at != kEnd; at = crossings_[at].next) {
      if (!flows_[crossings_[at].slot].frozen) freeze(crossings_[at].slot, level);
    }
  }
}

void Sharing::freeze(Slot slot, double rate) {
  Flow& flow = flows_[slot];
  flow.frozen = true;
  for (const Crossing& crossing : crossings(flow)) {
    links_[crossing.link].left -= crossing.times * rate;
    links_[crossing.link].growing -= crossing.times;
    --links_[crossing.link].open;
  }
  if (rate == flow.rate) return;
  flow.rate = rate;
  changes_.push_back({slot, rate});
}

}  // namespace ddlsim::events
