#include "ddlsim/events/shared_loaders.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <queue>
#include <set>
#include <utility>

namespace ddlsim::events {
namespace {

using answer::LoaderTimes;
using cost::LoaderDemand;
using cost::LoaderGrant;
using cost::SharePolicy;

constexpr double kSlack = 1e-9;  // of sums of shares

/// A job on its server.
struct Running {
  std::size_t job = 0;
  LoaderGrant grant{};
  bool fresh = true;  // not granted anything yet
  Time since{};       // of this grant
  Time from{};        // works from here on; later than now: its loader restarts
  double left = 0;    // samples, at `from`
  Time end = Time::infinity();
};

struct Server {
  std::vector<Running> jobs;  // in the order in which they came
  std::int64_t free = 0;
  std::uint64_t version = 0;  // of its next departure
  bool touched = false;
};

struct Departure {
  Time time{};
  std::size_t server = 0;
  std::uint64_t version = 0;

  friend bool operator>(const Departure& a, const Departure& b) {
    return a.time != b.time ? a.time > b.time : a.server > b.server;
  }
};

class Cluster {
 public:
  Cluster(const cost::LoaderSupply& supply, std::int64_t servers, std::span<const ArrivingJob> jobs,
          const SharingRules& rules)
      : supply_(supply), jobs_(jobs), rules_(rules), servers_(static_cast<std::size_t>(servers)), order_(jobs.size()) {
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      servers_[i].free = supply.gpus;
      free_.emplace(supply.gpus, i);
    }
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::size_t a, std::size_t b) { return jobs_[a].arrival < jobs_[b].arrival; });
    times_.jobs.resize(jobs.size());
    others_.resize(jobs.size());
  }

  Expected<LoaderTimes> run() {
    for (;;) {
      const bool arrives = arrived_ < order_.size();
      while (!departures_.empty() && departures_.top().version != servers_[departures_.top().server].version) {
        departures_.pop();
      }
      if (!arrives && departures_.empty()) break;
      Time now = arrives ? jobs_[order_[arrived_]].arrival : Time::infinity();
      if (!departures_.empty()) now = min(now, departures_.top().time);
      depart(now);
      while (arrived_ < order_.size() && jobs_[order_[arrived_]].arrival <= now) ++arrived_;
      while (started_ < arrived_ && start(order_[started_], now)) ++started_;
      for (const std::size_t server : touched_) {
        servers_[server].touched = false;
        if (auto done = share_out(server, now); !done) return tl::unexpected<Error>(done.error());
      }
      touched_.clear();
    }
    if (ended_ == jobs_.size()) return std::move(times_);
    return stuck();
  }

 private:
  void touch(std::size_t server) {
    if (std::exchange(servers_[server].touched, true)) return;
    touched_.push_back(server);
  }

  void set_free(std::size_t server, std::int64_t free) {
    free_.erase({servers_[server].free, server});
    servers_[server].free = free;
    free_.emplace(free, server);
  }

  bool start(std::size_t job, Time now) {
    const ArrivingJob& one = jobs_[job];
    std::vector<std::size_t> taken;
    for (auto place = free_.lower_bound({one.demand.gpus, 0}); place != free_.end(); ++place) {
      taken.push_back(place->second);
      if (std::ssize(taken) == one.servers) break;
    }
    if (std::ssize(taken) < one.servers) return false;
    for (const std::size_t server : taken) set_free(server, servers_[server].free - one.demand.gpus);
    servers_[taken.front()].jobs.push_back({.job = job, .since = now, .from = now, .left = one.samples});
    times_.jobs[job].start = now;
    times_.jobs[job].server = static_cast<std::int64_t>(taken.front());
    touch(taken.front());
    others_[job].assign(taken.begin() + 1, taken.end());
    return true;
  }

  void depart(Time now) {
    while (!departures_.empty() && departures_.top().time <= now) {
      const Departure next = departures_.top();
      departures_.pop();
      Server& server = servers_[next.server];
      if (next.version != server.version) continue;
      std::vector<Running> staying;
      for (const Running& one : server.jobs) {
        if (one.end > now) {
          staying.push_back(one);
          continue;
        }
        close(one, one.end);
        times_.jobs[one.job].end = one.end;
        ++ended_;
        set_free(next.server, server.free + jobs_[one.job].demand.gpus);
        for (const std::size_t other : others_[one.job]) set_free(other, supply_.gpus);
      }
      server.jobs = std::move(staying);
      ++server.version;
      touch(next.server);
    }
  }

  /// Writes down what a job did with its grant.
  void close(const Running& one, Time now) {
    const auto server = times_.jobs[one.job].server;
    const auto write = [&](Time start, Time end, bool restart) {
      if (end <= start) return;
      const Rate rate = restart ? Rate{} : one.grant.rate * static_cast<double>(jobs_[one.job].servers);
      times_.stretches.push_back(
          {one.job, server, start, end, restart, one.grant.cores, restart ? Bandwidth{} : one.grant.storage, rate});
    };
    write(one.since, min(one.from, now), true);
    write(max(one.since, one.from), now, false);
  }

  [[nodiscard]] std::vector<LoaderDemand> demands_of(const Server& server) const {
    std::vector<LoaderDemand> demands;
    for (const Running& one : server.jobs) demands.push_back(jobs_[one.job].demand);
    return demands;
  }

  Expected<void> share_out(std::size_t at, Time now) {
    Server& server = servers_[at];
    if (server.jobs.empty()) return {};
    const std::vector<LoaderDemand> demands = demands_of(server);
    auto grants = cost::share_loaders(rules_.policy, supply_, demands);
    if (!grants) return tl::unexpected<Error>(grants.error());
    if (rules_.policy == SharePolicy::kADloader || rules_.policy == SharePolicy::kOptimal) {
      auto kept = as_it_is(server, demands);
      if (kept && !pays(server, demands, *kept, *grants, now)) grants = std::move(*kept);
    }
    apply(server, *grants, now);
    ++server.version;
    Time next = Time::infinity();
    for (const Running& one : server.jobs) next = min(next, one.end);
    if (next < Time::infinity()) departures_.push({next, at, server.version});
    return {};
  }

  /// The grants there are, and for newcomers what is free; nothing: that is not enough for them.
  [[nodiscard]] std::optional<std::vector<LoaderGrant>> as_it_is(const Server& server,
                                                                 const std::vector<LoaderDemand>& demands) const {
    cost::LoaderSupply left = supply_;
    std::vector<LoaderGrant> grants;
    std::vector<LoaderDemand> newcomers;
    for (std::size_t i = 0; i < demands.size(); ++i) {
      grants.push_back(server.jobs[i].grant);
      left.cores -= grants.back().cores;
      left.memory -= grants.back().memory;
      left.storage -= grants.back().storage;
      if (server.jobs[i].fresh) {
        newcomers.push_back(demands[i]);
      } else {
        left.gpus -= demands[i].gpus;
      }
    }
    if (newcomers.empty()) return grants;
    if (!have_enough(left, newcomers)) return std::nullopt;
    const auto shares = cost::share_loaders(rules_.policy, left, newcomers);
    if (!shares) return std::nullopt;
    for (std::size_t i = 0, next = 0; i < demands.size(); ++i) {
      if (!server.jobs[i].fresh) continue;
      grants[i] = (*shares)[next++];
      left.cores -= grants[i].cores;
      left.storage -= grants[i].storage;
      if (grants[i].rate < demands[i].least * (1 - kSlack)) return std::nullopt;
    }
    if (left.cores < 0 || left.storage < supply_.storage * -kSlack) return std::nullopt;
    return grants;
  }

  /// Whether each has an option in its part of what is left.
  static bool have_enough(const cost::LoaderSupply& left, const std::vector<LoaderDemand>& newcomers) {
    if (left.cores < static_cast<std::int64_t>(newcomers.size())) return false;
    return std::all_of(newcomers.begin(), newcomers.end(), [&](const LoaderDemand& demand) {
      const DataSize memory = left.memory * (static_cast<double>(demand.gpus) / static_cast<double>(left.gpus));
      return std::any_of(demand.options.begin(), demand.options.end(),
                         [&](const cost::LoaderOption& option) { return option.memory <= memory; });
    });
  }

  [[nodiscard]] bool restarts(const Running& one, const LoaderGrant& grant) const {
    return !one.fresh && one.grant.cores != grant.cores;
  }

  [[nodiscard]] bool pays(const Server& server, const std::vector<LoaderDemand>& demands,
                          const std::vector<LoaderGrant>& kept, const std::vector<LoaderGrant>& grants,
                          Time now) const {
    const double is = cost::worth_of(demands, kept);
    const double would_be = cost::worth_of(demands, grants);
    if (would_be <= is * (1 + rules_.hysteresis)) return false;
    Time horizon = Time::infinity();
    double lost = 0;
    for (std::size_t i = 0; i < demands.size(); ++i) {
      const Running& one = server.jobs[i];
      const double worth = grants[i].rate / demands[i].unit;
      Time from = max(one.from, now);
      if (restarts(one, grants[i])) {
        from = now + rules_.restart;
        lost += worth;
      }
      if (worth > 0) horizon = min(horizon, from - now + seconds(left_at(one, now) / grants[i].rate.in(per_second)));
    }
    return horizon * (would_be - is) > rules_.restart * lost;
  }

  static double left_at(const Running& one, Time now) {
    if (one.fresh || now <= one.from) return one.left;
    return std::max(one.left - one.grant.rate * (now - one.from), 0.0);
  }

  void apply(Server& server, const std::vector<LoaderGrant>& grants, Time now) {
    for (std::size_t i = 0; i < grants.size(); ++i) {
      Running& one = server.jobs[i];
      if (!one.fresh) {
        if (one.grant == grants[i]) continue;
        close(one, now);
        one.left = left_at(one, now);
        one.from = max(one.from, now);
        if (restarts(one, grants[i])) {
          ++times_.jobs[one.job].restarts;
          one.from = now + rules_.restart;
        }
      }
      one.fresh = false;
      one.since = now;
      one.grant = grants[i];
      one.end =
          one.grant.rate > Rate{} ? one.from + seconds(one.left / one.grant.rate.in(per_second)) : Time::infinity();
    }
  }

  [[nodiscard]] tl::unexpected<Error> stuck() const {
    if (started_ < order_.size()) {
      const ArrivingJob& one = jobs_[order_[started_]];
      return fail(ErrorCode::kInfeasible, fmt::format("job {} would never start: {} GPUs on each of {} servers",
                                                      order_[started_] + 1, one.demand.gpus, one.servers));
    }
    std::size_t job = 0;
    while (times_.jobs[job].end > Time::zero()) ++job;
    return fail(ErrorCode::kInfeasible, fmt::format("job {} would never end: its loader gets nothing", job + 1));
  }

  const cost::LoaderSupply& supply_;
  std::span<const ArrivingJob> jobs_;
  const SharingRules& rules_;
  std::vector<Server> servers_;
  std::vector<std::size_t> order_;                       // of arrival
  std::set<std::pair<std::int64_t, std::size_t>> free_;  // GPUs, server
  std::vector<std::vector<std::size_t>> others_;         // servers of a job beside its first
  std::priority_queue<Departure, std::vector<Departure>, std::greater<>> departures_;
  std::vector<std::size_t> touched_;
  std::size_t arrived_ = 0;
  std::size_t started_ = 0;
  std::size_t ended_ = 0;
  LoaderTimes times_;
};

}  // namespace

Expected<LoaderTimes> run_shared_loaders(const cost::LoaderSupply& server, std::int64_t servers,
                                         std::span<const ArrivingJob> jobs, const SharingRules& rules) {
  return Cluster(server, servers, jobs, rules).run();
}

}  // namespace ddlsim::events
