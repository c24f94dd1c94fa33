// The communication of one job as tasks. Private to the room.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ddlsim/answer/timeline.h"
#include "ddlsim/cost/price.h"
#include "event_builder.h"
#include "job_links.h"

namespace ddlsim::events {

class EventChannel {
 public:
  /// `job` and `workers` name processes of the trace. No links: nobody else is on them.
  EventChannel(EventBuilder& builder, const cost::PricedStep& step, std::string job, std::vector<std::string> workers,
               JobLinks* links);

  /// All that was sent before is back.
  void begin_step();
  /// After which task the message that is ready after `ready` (by worker) is back; by worker.
  std::vector<TaskId> send(const answer::Timeline::Sent& sent, std::vector<TaskId> ready);
  /// Pulls a message's weights; pull_at_start alone.
  std::vector<TaskId> pull(const plan::Row& row, TaskId ready);

 private:
  /// One first-in-first-out resource.
  struct Station {
    StreamId stream{};
    std::optional<TaskId> free{};
    Rounder rounder{};
    std::optional<RouteId> route{};  // over a port that jobs share
    double on_wire = 0;              // bytes there for one byte of a piece
  };
  struct Served {
    TaskId first{};
    TaskId last{};
  };
  struct Load {
    double size = 0;   // bytes of a piece
    double count = 1;  // pieces
    std::int64_t server = -1;
  };

  TaskId collective(const answer::Timeline::Sent& sent, std::span<const TaskId> ready);
  std::vector<TaskId> pass(std::size_t from, std::size_t to, const Load& load, const std::vector<TaskId>& ready);
  Served serve(std::size_t at, std::size_t worker, const Load& load, std::span<const Served> before);
  TaskId pieces(const Station& station, std::size_t at, const Load& load, Time duration, double count,
                std::span<const TaskId> after);
  /// Station `at` of cost/parameter_server.h, as one worker meets it for loads of one server (-1: of all).
  struct StationOf {
    std::size_t at = 0;
    std::size_t worker = 0;
    std::int64_t server = -1;
  };
  Station& station(const StationOf& which);
  void lay_route(Station& made, std::size_t at, std::int64_t place, bool spread);

  EventBuilder& builder_;
  const cost::PricedStep& step_;
  std::string job_;
  std::vector<std::string> workers_;
  JobLinks* links_;
  std::optional<cost::PsFabric> servers_;  // as one worker meets them
  cost::PsPath spread_;                    // of a piece spread over all servers
  cost::PsPath placed_;
  std::map<std::tuple<std::size_t, std::int64_t, bool>, Station> stations_;  // by place, and whether spread
  Station collectives_;
};

}  // namespace ddlsim::events
