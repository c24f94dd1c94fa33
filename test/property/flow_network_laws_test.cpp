// Laws of max-min sharing and of the event engine, on random networks and programs.
#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <future>
#include <limits>
#include <random>

#include "ddlsim/events/collective_programs.h"
#include "ddlsim/events/engine.h"
#include "ddlsim/events/flow_network.h"

using namespace ddlsim;
using namespace ddlsim::events;

namespace {

struct Network {
  std::vector<Link> links;
  std::vector<Hops> flows;
};

/// Every number from one seed by mt19937_64, which is the same everywhere.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(random_() % limit); }
  double number(double scale) { return scale * static_cast<double>(1 + below(10'000)) / 997.0; }

 private:
  std::mt19937_64 random_;
};

Hops random_hops(Dice& dice, std::size_t links, std::uint32_t most_times) {
  std::vector<std::uint32_t> order(links);
  for (std::uint32_t i = 0; i < links; ++i) order[i] = i;
  const std::size_t count = 1 + dice.below(std::min<std::size_t>(links, 4));
  Hops hops;
  for (std::size_t i = 0; i < count; ++i) {
    std::swap(order[i], order[i + dice.below(links - i)]);
    hops.push_back({LinkId{order[i]}, static_cast<double>(1 + dice.below(most_times))});
  }
  return hops;
}

Network random_network(Dice& dice, std::uint32_t most_times) {
  Network network;
  const std::size_t links = 1 + dice.below(15);
  for (std::size_t i = 0; i < links; ++i) network.links.push_back({"link", bytes_per_second(1e6 * dice.number(100))});
  const std::size_t flows = dice.below(30);
  for (std::size_t i = 0; i < flows; ++i) network.flows.push_back(random_hops(dice, links, most_times));
  return network;
}

std::vector<double> rates_of(const Network& network) {
  std::vector<double> rates;
  const auto shared = max_min_rates(network.links, network.flows).value();
  for (const Bandwidth rate : shared) rates.push_back(rate.in(bytes_per_second));
  return rates;
}

double capacity(const Link& link) { return link.capacity.in(bytes_per_second); }

bool close(double a, double b, double tolerance) { return std::abs(a - b) <= tolerance * std::max(a, b); }

/// Streams, links, computations, transfers, joins, releases, priorities: all that a Program can say.
Program random_program(Dice& dice, std::size_t tasks) {
  Program program;
  const std::size_t streams = 1 + dice.below(5);
  for (std::size_t i = 0; i < streams; ++i) (void)*program.add_stream({.name = "s", .speed = dice.number(0.2)});
  const Network network = random_network(dice, 3);
  for (const Link& link : network.links) (void)*program.add_link(link);
  std::vector<RouteId> routes;
  for (std::size_t i = 0; i < 8; ++i) routes.push_back(*program.add_route(random_hops(dice, network.links.size(), 3)));
  for (std::size_t i = 0; i < tasks; ++i) {
    std::vector<TaskId> after;
    for (std::size_t k = dice.below(3); k > 0 && i > 0; --k) {
      after.push_back(TaskId{static_cast<std::uint32_t>(dice.below(i))});
    }
    const Time earliest = dice.below(4) == 0 ? milliseconds(dice.number(10)) : Time::zero();
    const auto priority = static_cast<std::int32_t>(dice.below(3));
    std::optional<StreamId> stream;
    if (dice.below(3) != 0) stream = StreamId{static_cast<std::uint32_t>(dice.below(streams))};
    switch (dice.below(5)) {
      case 0: (void)*program.join("join", after); break;
      case 1:
      case 2:
        (void)*program.compute({.name = "compute",
                                .stream = stream,
                                .duration = milliseconds(dice.number(1)),
                                .earliest = earliest,
                                .priority = priority},
                               after);
        break;
      default:
        (void)*program.transfer({.name = "transfer",
                                 .stream = stream,
                                 .route = routes[dice.below(routes.size())],
                                 .size = kilobytes(dice.number(200)),
                                 .latency = microseconds(dice.number(20)),
                                 .earliest = earliest,
                                 .priority = priority},
                                after);
    }
  }
  return program;
}

}  // namespace

TEST_CASE("law: max-min rates fit the links, and every flow has a full link on which none is faster", "[property]") {
  CHECK(rc::check("certificate", [](std::uint64_t seed) {
    Dice dice(seed);
    Network network = random_network(dice, 5);
    for (Hops& hops : network.flows) {
      for (Hop& hop : hops) hop.times /= static_cast<double>(1 + dice.below(7));  // parts of flows
    }
    const auto rates = rates_of(network);
    std::vector<double> used(network.links.size());
    std::vector<double> fastest(network.links.size());
    for (std::size_t i = 0; i < rates.size(); ++i) {
      RC_ASSERT(rates[i] > 0.0);
      for (const Hop& hop : network.flows[i]) {
        used[index_of(hop.link)] += hop.times * rates[i];
        fastest[index_of(hop.link)] = std::max(fastest[index_of(hop.link)], rates[i]);
      }
    }
    for (std::size_t l = 0; l < used.size(); ++l) RC_ASSERT(used[l] <= capacity(network.links[l]) * (1 + 1e-12));
    for (std::size_t i = 0; i < rates.size(); ++i) {
      RC_ASSERT(std::any_of(network.flows[i].begin(), network.flows[i].end(), [&](const Hop& hop) {
        const std::size_t l = index_of(hop.link);
        return used[l] >= capacity(network.links[l]) * (1 - 1e-12) && rates[i] >= fastest[l] * (1 - 1e-12);
      }));
    }
  }));
}

TEST_CASE("law: twice the capacity is twice the rates, and the order of flows does not matter", "[property]") {
  CHECK(rc::check("scaling and order", [](std::uint64_t seed) {
    Dice dice(seed);
    Network network = random_network(dice, 5);
    const auto rates = rates_of(network);
    std::reverse(network.flows.begin(), network.flows.end());
    for (Link& link : network.links) link.capacity = link.capacity * 2.0;
    const auto doubled = rates_of(network);
    for (std::size_t i = 0; i < rates.size(); ++i) {
      RC_ASSERT(close(doubled[rates.size() - 1 - i], 2.0 * rates[i], 1e-12));
    }
  }));
}

TEST_CASE("law: one flow that stands for many has the rate of each of them", "[property]") {
  CHECK(rc::check("folding", [](std::uint64_t seed) {
    Dice dice(seed);
    const Network plain = random_network(dice, 1);
    Network folded = plain;
    Network unfolded = plain;
    std::vector<std::size_t> first;
    unfolded.flows.clear();
    for (std::size_t i = 0; i < plain.flows.size(); ++i) {
      const std::size_t many = 1 + dice.below(6);
      for (Hop& hop : folded.flows[i]) hop.times = static_cast<double>(many);
      first.push_back(unfolded.flows.size());
      unfolded.flows.insert(unfolded.flows.end(), many, plain.flows[i]);
    }
    const auto few = rates_of(folded);
    const auto all = rates_of(unfolded);
    for (std::size_t i = 0; i < few.size(); ++i) RC_ASSERT(close(few[i], all[first[i]], 1e-12));
  }));
}

TEST_CASE("law: transfers that come and go end when a solver that starts afresh each time says", "[property]") {
  CHECK(rc::check("incremental = from scratch", [](std::uint64_t seed) {
    Dice dice(seed);
    const Network network = random_network(dice, 4);
    const std::size_t count = network.flows.size();
    Program program;
    for (const Link& link : network.links) (void)*program.add_link(link);
    std::vector<double> left;
    std::vector<double> start;
    for (const Hops& hops : network.flows) {
      left.push_back(std::floor(dice.number(1e8)));
      start.push_back(static_cast<double>(dice.below(5)) / 4);
      (void)*program.transfer({.name = "flow",
                               .route = *program.add_route(hops),
                               .size = bytes(left.back()),
                               .earliest = seconds(start.back())});
    }
    const Run result = run(program).value();

    std::vector<double> end(count, -1);
    double now = 0;
    for (std::size_t done = 0; done < count;) {
      Network active{network.links, {}};
      std::vector<std::size_t> who;
      double next = std::numeric_limits<double>::infinity();
      for (std::size_t i = 0; i < count; ++i) {
        if (end[i] >= 0) continue;
        if (start[i] > now) {
          next = std::min(next, start[i]);
        } else {
          who.push_back(i);
          active.flows.push_back(network.flows[i]);
        }
      }
      const auto rates = rates_of(active);
      for (std::size_t k = 0; k < who.size(); ++k) next = std::min(next, now + left[who[k]] / rates[k]);
      for (std::size_t k = 0; k < who.size(); ++k) {
        left[who[k]] -= rates[k] * (next - now);
        if (left[who[k]] > 1e-3) continue;  // a thousandth of a byte: rounding
        end[who[k]] = next;
        ++done;
      }
      now = next;
    }
    for (std::size_t i = 0; i < count; ++i) {
      RC_ASSERT(std::abs(to_time(result.tasks[i].end).in(seconds)-end[i]) < 1e-9 * end[i] + 1e-11);
    }
  }));
}

TEST_CASE("law: order, streams, work and bytes are kept", "[property]") {
  CHECK(rc::check("conservation", [](std::uint64_t seed) {
    Dice dice(seed);
    const std::size_t tasks = dice.below(60);
    const Program program = random_program(dice, tasks);
    const Run result = run(program).value();
    std::vector<double> carried(program.links().size());
    std::vector<std::vector<TaskTimes>> held(program.streams().size());
    Picoseconds last{};
    for (std::uint32_t i = 0; i < tasks; ++i) {
      const TaskId task{i};
      const auto [start, end] = result[task];
      RC_ASSERT(start >= Picoseconds(0));
      RC_ASSERT(end >= start);
      last = std::max(last, end);
      for (const TaskId before : program.after(task)) RC_ASSERT(result[before].end <= start);
      if (const auto stream = program.stream(task); stream && end > start) {
        held[index_of(*stream)].push_back(result[task]);
      }
      double fastest = std::numeric_limits<double>::infinity();
      for (const Hop& hop : program.hops(task)) {
        carried[index_of(hop.link)] += program.size(task).in(bytes)*hop.times;
        fastest = std::min(fastest, capacity(program.links()[index_of(hop.link)]) / hop.times);
      }
      // Nothing travels faster than alone; a picosecond of rounding at the end and one at each change of rate.
      const double alone = program.size(task).in(bytes) / fastest * 1e12;
      RC_ASSERT(static_cast<double>((end - start).count()) >= alone - 100.0);
    }
    RC_ASSERT(result.makespan == last);
    for (auto& slices : held) {
      std::sort(slices.begin(), slices.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
      for (std::size_t i = 1; i < slices.size(); ++i) RC_ASSERT(slices[i - 1].end <= slices[i].start);
    }
    for (std::size_t l = 0; l < carried.size(); ++l) {
      RC_ASSERT(close(result.links[l].carried.in(bytes), carried[l], 1e-12));
      RC_ASSERT(result.links[l].busy <= result.makespan);
      const double room = capacity(program.links()[l]) * to_time(result.links[l].busy).in(seconds);
      RC_ASSERT(carried[l] <= room * (1 + 1e-6) + 1.0);
    }
  }));
}

TEST_CASE("law: a stream never idles while a task waits for it", "[property]") {
  CHECK(rc::check("work conservation", [](std::uint64_t seed) {
    Dice dice(seed);
    Program program;
    const std::size_t streams = 1 + dice.below(4);
    for (std::size_t i = 0; i < streams; ++i) (void)*program.add_stream({.name = "s", .speed = dice.number(0.2)});
    const std::size_t tasks = dice.below(50);
    double serial = 0;
    std::vector<Picoseconds> path;
    for (std::uint32_t i = 0; i < tasks; ++i) {
      std::vector<TaskId> after;
      for (std::size_t k = dice.below(3); k > 0 && i > 0; --k) {
        after.push_back(TaskId{static_cast<std::uint32_t>(dice.below(i))});
      }
      (void)*program.compute({.name = "c",
                              .stream = StreamId{static_cast<std::uint32_t>(dice.below(streams))},
                              .duration = microseconds(dice.number(10))},
                             after);
    }
    const Run result = run(program).value();
    for (std::uint32_t i = 0; i < tasks; ++i) {
      const TaskId task{i};
      const auto [start, end] = result[task];
      Picoseconds ready{};
      Picoseconds longest{};
      for (const TaskId before : program.after(task)) {
        ready = std::max(ready, result[before].end);
        longest = std::max(longest, path[index_of(before)]);
      }
      path.push_back(longest + (end - start));
      serial += static_cast<double>((end - start).count());
      // From ready to start, others fill the stream.
      Picoseconds filled{};
      for (std::uint32_t k = 0; k < tasks; ++k) {
        if (program.stream(TaskId{k}) != program.stream(task)) continue;
        filled +=
            std::max(Picoseconds(0), std::min(result.tasks[k].end, start) - std::max(result.tasks[k].start, ready));
      }
      RC_ASSERT(filled == start - ready);
    }
    for (const Picoseconds length : path) RC_ASSERT(length <= result.makespan);
    RC_ASSERT(static_cast<double>(result.makespan.count()) <= serial);
  }));
}

TEST_CASE("law: programs that run beside each other give the bits they give alone", "[property]") {
  std::vector<Program> programs;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Dice dice(seed);
    programs.push_back(random_program(dice, 300));
  }
  std::vector<std::future<Run>> together;
  for (const Program& program : programs) {
    together.push_back(std::async(std::launch::async, [&program] { return run(program).value(); }));
  }
  for (std::size_t i = 0; i < programs.size(); ++i) CHECK(together[i].get() == run(programs[i]).value());
}

TEST_CASE("law: every compiler gives the same bits", "[property]") {
  // FNV-1a over all times of 100 programs: the number that g++ 12 printed. It changes only when the engine's results
  // do.
  std::uint64_t hash = 14695981039346656037ULL;
  const auto mix = [&](Picoseconds time) {
    hash = (hash ^ static_cast<std::uint64_t>(time.count())) * 1099511628211ULL;
  };
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Dice dice(seed);
    const Run result = run(random_program(dice, 200)).value();
    for (const auto& [start, end] : result.tasks) {
      mix(start);
      mix(end);
    }
    for (const LinkUse& link : result.links) mix(link.busy);
  }
  CHECK(hash == 0x4e76a2763f7eb332ULL);
}

TEST_CASE("law: a folded all-reduce takes as long as every rank by itself", "[property]") {
  CHECK(rc::check("folded = each", [](std::uint64_t seed) {
    Dice dice(seed);
    AllReduce setting{.algorithm = static_cast<AllReduceAlgorithm>(dice.below(3)),
                      .size = gigabytes(1 + dice.number(1)),
                      .nodes = std::int64_t{1} << dice.below(4),
                      .gpus_per_node = std::int64_t{1} << dice.below(4),
                      .gpu = gigabytes_per_second(dice.number(0.5)),
                      .network = gigabytes_per_second(dice.number(0.5)),
                      .gpu_latency = microseconds(dice.number(1)),
                      .network_latency = microseconds(dice.number(1))};
    if (setting.algorithm != AllReduceAlgorithm::kHalvingDoubling) {
      setting.nodes += static_cast<std::int64_t>(dice.below(3));
      setting.gpus_per_node += static_cast<std::int64_t>(dice.below(3));
    }
    const double each = to_time(run(all_reduce_program(setting).value())->makespan).in(seconds);
    setting.ranks = Ranks::kFolded;
    const double folded = to_time(run(all_reduce_program(setting).value())->makespan).in(seconds);
    RC_ASSERT(close(each, folded, 1e-9));
  }));
}
