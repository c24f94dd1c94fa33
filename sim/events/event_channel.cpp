#include "event_channel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace ddlsim::events {
namespace {

constexpr std::array<std::string_view, cost::kPsStations> kStationNames{
    "copy out", "send", "receive", "sum and update", "serve", "fetch", "copy in"};
constexpr std::size_t kSend = 1;
constexpr std::size_t kPull = 4;

constexpr bool at_server(std::size_t station) { return station >= 2 && station <= 4; }
constexpr bool on_network(std::size_t station) { return station == 1 || station == 2 || station == 4 || station == 5; }

/// By the port's way out: a worker that sends, a server that serves.
constexpr bool leaves(std::size_t station) { return station == kSend || station == kPull; }

}  // namespace

EventChannel::EventChannel(EventBuilder& builder, const cost::PricedStep& step, std::string job,
                           std::vector<std::string> workers, JobLinks* links)
    : builder_(builder),
      step_(step),
      job_(std::move(job)),
      workers_(std::move(workers)),
      links_(links),
      servers_(step.servers_seen_by_one ? step.servers_seen_by_one : step.servers) {
  if (step.groups.front()) collectives_.stream = builder_.stream(job_ + "/communication");
  if (servers_) {
    spread_ = cost::ps_path(*servers_, servers_->servers);
    placed_ = cost::ps_path(*servers_, 1);
  }
}

void EventChannel::begin_step() {
  for (auto& [place, made] : stations_) made.free.reset();
  collectives_.free.reset();
}

std::vector<TaskId> EventChannel::send(const answer::Timeline::Sent& sent, std::vector<TaskId> ready) {
  if (step_.groups.front()) {
    return std::vector<TaskId>(ready.size(), collective(sent, ready));
  }
  const Load load{sent.size.in(bytes), sent.count, sent.server};
  return pass(0, step_.plan->exchange.pull_at_start ? kPull : cost::kPsStations, load, ready);
}

std::vector<TaskId> EventChannel::pull(const plan::Row& row, TaskId ready) {
  const Load load{row.size.in(bytes), static_cast<double>(row.count), row.server};
  return pass(kPull, cost::kPsStations, load, std::vector<TaskId>(workers_.size(), ready));
}

TaskId EventChannel::collective(const answer::Timeline::Sent& sent, std::span<const TaskId> ready) {
  std::vector<TaskId> after(ready.begin(), ready.end());
  if (sent.wait > Time::zero()) {
    Rounder wait;
    after = {builder_.compute({.name = "waiting for the cycle", .duration = wait.next(sent.wait)}, after)};
  }
  if (collectives_.free) after.push_back(*collectives_.free);
  const std::string_view name = sent.gathered ? "all-gather" : "all-reduce";
  const cost::CollectiveModel& model = *step_.groups.front();
  if (links_ != nullptr) {
    using primitives::CollectiveOp;
    const CollectiveOp op = sent.gathered ? CollectiveOp::kAllGather : CollectiveOp::kAllReduce;
    const DataSize buffer = sent.gathered ? sent.size * static_cast<double>(model.communicator().gpus) : sent.size;
    const Time latency = min(model.cost(op, DataSize::zero()).time * sent.count + sent.copies, sent.alone);
    const LinkTable::Flow flow =
        collective_flow(builder_, *links_, {.model = &model, .op = op, .buffer = buffer, .count = sent.count},
                        sent.alone - latency, job_ + ": its own pace");
    if (flow.route) {
      collectives_.free = builder_.transfer(
          {.name = name, .stream = collectives_.stream, .route = flow.route, .size = flow.size, .latency = latency},
          after);
      return *collectives_.free;
    }
  }
  const Time duration = collectives_.rounder.next(sent.alone);
  collectives_.free = builder_.compute({.name = name, .stream = collectives_.stream, .duration = duration}, after);
  return *collectives_.free;
}

void EventChannel::lay_route(Station& made, std::size_t at, std::int64_t place, bool spread) {
  const cost::PsFabric& servers = *servers_;
  cost::PsFabric free_of_connections = servers;
  free_of_connections.transport.connection = Bandwidth::infinity();
  const Time by_port = cost::ps_path(free_of_connections, spread ? servers.servers : 1).per_byte[at];
  const Time by_all = (spread ? spread_ : placed_).per_byte[at];
  const Bandwidth capacity = at_server(at) ? servers.server_network : servers.node_network;
  const Direction direction = leaves(at) ? Direction::kOut : Direction::kIn;
  const auto port = at_server(at) ? links_->port_of_server(place, direction) : links_->port_of_worker(place, direction);
  if (!port || !(by_port > Time::zero())) return;
  made.on_wire = (by_port * capacity).in(bytes);
  // Rates do not depend on how much is sent: of a gigabyte.
  const DataSize size = gigabytes(made.on_wire);
  const LinkTable::Part part{*port, size};
  made.route = links_->table().flow(builder_, {&part, 1}, size, by_all * 1e9, job_ + ": connections").route;
}

EventChannel::Station& EventChannel::station(const StationOf& which) {
  const auto& [at, worker, server] = which;
  const std::int64_t place = at_server(at) ? server : static_cast<std::int64_t>(worker);
  // A worker's stations serve both kinds of loads, but over routes of their own.
  const auto [found, fresh] = stations_.try_emplace({at, place, server < 0});
  Station& made = found->second;
  if (!fresh) return made;
  const auto other = stations_.find({at, place, server >= 0});
  if (other != stations_.end()) {
    made.stream = other->second.stream;
    made.free = other->second.free;
  } else if (!at_server(at)) {
    made.stream = builder_.stream(fmt::format("{}/{}", workers_[worker], kStationNames[at]));
  } else if (server < 0) {
    made.stream = builder_.stream(fmt::format("{}, servers/{}", job_, kStationNames[at]));
  } else {
    made.stream = builder_.stream(fmt::format("{}, servers/{} {}", job_, server, kStationNames[at]));
  }
  if (links_ != nullptr && on_network(at)) lay_route(made, at, place, server < 0);
  return made;
}

TaskId EventChannel::pieces(const Station& station, std::size_t at, const Load& load, Time duration, double count,
                            std::span<const TaskId> after) {
  if (!station.route) {
    return builder_.compute({.name = kStationNames[at], .stream = station.stream, .duration = duration}, after);
  }
  const Time per_message = (load.server < 0 ? spread_ : placed_).per_message[at];
  return builder_.transfer({.name = kStationNames[at],
                            .stream = station.stream,
                            .route = station.route,
                            .size = bytes(load.size * count * station.on_wire),
                            .latency = per_message * count},
                           after);
}

EventChannel::Served EventChannel::serve(std::size_t at, std::size_t worker, const Load& load,
                                         std::span<const Served> before) {
  const cost::PsPath& path = load.server < 0 ? spread_ : placed_;
  const Time once = path.per_byte[at] * load.size + path.per_message[at];
  Station& here = station({at, worker, load.server});
  std::vector<TaskId> after;
  for (const Served& earlier : before) after.push_back(earlier.first);
  if (here.free) after.push_back(*here.free);
  Served served;
  served.first = pieces(here, at, load, here.rounder.next(once), 1, after);
  served.last = served.first;
  if (load.count > 1) {
    after.assign(1, served.first);
    if (load.count > 2) {
      const double middle = load.count - 2.0;
      after.front() = pieces(here, at, load, here.rounder.next(once * middle), middle, after);
    }
    for (const Served& earlier : before) after.push_back(earlier.last);
    served.last = pieces(here, at, load, here.rounder.next(once), 1, after);
  }
  here.free = served.last;
  // Pieces of both kinds queue at a worker's station alike.
  if (const auto other = stations_.find({at, static_cast<std::int64_t>(worker), load.server >= 0});
      !at_server(at) && other != stations_.end()) {
    other->second.free = served.last;
  }
  return served;
}

std::vector<TaskId> EventChannel::pass(std::size_t from, std::size_t to, const Load& load,
                                       const std::vector<TaskId>& ready) {
  const cost::PsPath& path = load.server < 0 ? spread_ : placed_;
  std::vector<Served> flow;
  for (const TaskId task : ready) flow.push_back({task, task});
  const std::size_t workers = flow.size();
  for (std::size_t at = from; at < to; ++at) {
    if (path.travel[at] > Time::zero()) {
      for (Served& piece : flow) {
        const bool one = piece.first == piece.last;
        Rounder travel;
        const Computation task{.name = "travel", .duration = travel.next(path.travel[at])};
        piece.first = builder_.compute(task, std::array{piece.first});
        piece.last = one ? piece.first : builder_.compute(task, std::array{piece.last});
      }
    }
    if (path.per_byte[at] > Time::zero() || path.per_message[at] > Time::zero()) {
      if (at_server(at)) {
        flow.assign(1, serve(at, 0, load, flow));
      } else {
        flow.resize(workers, flow.front());
        for (std::size_t i = 0; i < workers; ++i) flow[i] = serve(at, i, load, std::span(&flow[i], 1));
      }
    }
  }
  flow.resize(workers, flow.front());
  std::vector<TaskId> back;
  for (const Served& piece : flow) back.push_back(piece.last);
  return back;
}

}  // namespace ddlsim::events
