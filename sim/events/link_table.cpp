#include "link_table.h"

#include <algorithm>
#include <utility>

namespace ddlsim::events {

std::size_t LinkTable::link(const std::string& name, Bandwidth capacity, bool unpriced) {
  const auto [found, fresh] = by_name_.try_emplace(name, links_.size());
  if (fresh) links_.push_back({.name = name, .capacity = capacity, .unpriced = unpriced, .seconds = {}});
  Entry& entry = links_[found->second];
  entry.capacity = max(entry.capacity, capacity);
  return found->second;
}

LinkTable::Shape LinkTable::add(std::span<const Load> loads) {
  const Shape shape = shapes_.size();
  std::vector<std::size_t>& crossed = shapes_.emplace_back();
  for (const Load& load : loads) {
    if (!(load.per_byte > Time::zero())) continue;
    links_[load.link].seconds[shape] += load.per_byte.in(seconds);
    if (std::find(crossed.begin(), crossed.end(), load.link) == crossed.end()) crossed.push_back(load.link);
  }
  return shape;
}

bool LinkTable::covers(const Entry& fuller, const Entry& other) {
  return std::all_of(other.seconds.begin(), other.seconds.end(), [&](const auto& load) {
    const auto found = fuller.seconds.find(load.first);
    return found != fuller.seconds.end() && found->second >= load.second;
  });
}

void LinkTable::lay(EventBuilder& builder) {
  // Of links that are as full as each other the first stays.
  std::vector<bool> dropped(links_.size());
  for (std::size_t i = links_.size(); i-- > 0;) {
    const Entry& entry = links_[i];
    if (entry.seconds.empty() || entry.unpriced) continue;
    // Whoever is as full under every shape is so under its first.
    for (const std::size_t other : shapes_[entry.seconds.begin()->first]) {
      if (other == i || dropped[other] || links_[other].unpriced || !covers(links_[other], entry)) continue;
      dropped[i] = true;
      break;
    }
  }
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (!dropped[i] && !links_[i].seconds.empty()) links_[i].id = builder.link(links_[i].name, links_[i].capacity);
  }
}

LinkTable::Flow LinkTable::flow(EventBuilder& builder, std::span<const Part> parts, DataSize size, Time moving,
                                std::string_view pace) {
  if (!(size > DataSize::zero()) || !(moving > Time::zero())) return {};
  std::map<std::size_t, double> busy;  // seconds, by link
  for (const Part& part : parts) {
    for (const std::size_t at : shapes_[part.shape]) {
      if (links_[at].id) busy[at] += links_[at].seconds.at(part.shape) * part.size.in(bytes);
    }
  }
  double fullest = moving.in(seconds);
  for (const auto& [at, filled] : busy) {
    if (!links_[at].unpriced) fullest = std::max(fullest, filled);
  }
  bool full = false;
  std::vector<Hop> hops;
  for (const auto& [at, filled] : busy) {
    const double share = filled / fullest;
    if (!(share > 0)) continue;
    full = full || share >= 1;
    hops.push_back({*links_[at].id, links_[at].capacity / (size / moving) * share});
  }
  if (hops.empty()) return {};
  if (!full) hops.push_back({builder.link(std::string(pace), size / moving)});
  return {builder.route(hops), size};
}

}  // namespace ddlsim::events
