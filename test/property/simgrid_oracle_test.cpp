// Max-min sharing against SimGrid, an independent solver: 1,000 random topologies, each with flows that start and end
// at their own times. SimGrid keeps its state in globals and ends the process when it fails, so it runs in a child.
// Source of the settings: SimGrid 3.32 manual, "Configuring SimGrid", network models.
#include <catch2/catch.hpp>

#ifdef DDLSIM_HAVE_SIMGRID

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <simgrid/s4u.hpp>
#include <span>
#include <string>
#include <vector>

#include "ddlsim/events/engine.h"

using namespace ddlsim;
using namespace ddlsim::events;

namespace {

struct RandomFlow {
  double start = 0;  // seconds
  double size = 0;   // bytes
  std::vector<std::size_t> links;
};
struct Topology {
  std::vector<double> capacities;  // bytes per second
  std::vector<RandomFlow> flows;
};

/// Up to 12 links and 16 flows: some start together, some share one bottleneck, some are alone. mt19937_64's numbers
/// are the standard's, so every machine draws the same topologies.
Topology draw(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t limit) { return static_cast<std::size_t>(random() % limit); };
  Topology topology;
  const std::size_t links = 1 + below(12);
  for (std::size_t i = 0; i < links; ++i)
    topology.capacities.push_back(1e9 * static_cast<double>(1 + below(1000)) / 37);
  const std::size_t flows = 1 + below(16);
  for (std::size_t i = 0; i < flows; ++i) {
    RandomFlow flow{.start = static_cast<double>(below(8)) / 3,
                    .size = std::floor(1e9 * static_cast<double>(1 + below(5000)) / 7),
                    .links = {}};
    const std::size_t wanted = 1 + below(std::min<std::size_t>(links, 4));
    const std::size_t first = below(links);
    for (std::size_t k = 0; k < wanted; ++k) flow.links.push_back((first + k * (1 + k)) % links);
    std::sort(flow.links.begin(), flow.links.end());
    flow.links.erase(std::unique(flow.links.begin(), flow.links.end()), flow.links.end());
    topology.flows.push_back(std::move(flow));
  }
  return topology;
}

/// The end of every flow of every topology, by SimGrid: all in one simulation, in zones that share nothing.
void simgrid_ends(const std::vector<Topology>& topologies, std::span<double> ends) {
  namespace sg = simgrid::s4u;
  std::vector<std::string> words{
      "oracle", "--log=root.thres:error",
      // Textbook max-min (CM02): no window limit, no cross traffic, no correction factors.
      "--cfg=network/model:CM02", "--cfg=network/TCP-gamma:0", "--cfg=network/crosstraffic:no",
      "--cfg=network/bandwidth-factor:1", "--cfg=network/latency-factor:1", "--cfg=network/weight-S:0",
      // Its solver treats as equal what differs by less.
      "--cfg=maxmin/precision:1e-12", "--cfg=surf/precision:1e-12", "--cfg=contexts/stack-size:64"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  auto count = static_cast<int>(arguments.size());
  sg::Engine engine(&count, arguments.data());
  auto* root = sg::create_full_zone("root");
  std::size_t at = 0;
  for (std::size_t i = 0; i < topologies.size(); ++i) {
    auto* zone = sg::create_full_zone("zone" + std::to_string(i));
    zone->set_parent(root);
    std::vector<sg::Link*> links;
    for (std::size_t k = 0; k < topologies[i].capacities.size(); ++k) {
      links.push_back(
          zone->create_link("link" + std::to_string(i) + "." + std::to_string(k), topologies[i].capacities[k])
              ->set_latency(0)
              ->seal());
    }
    for (const RandomFlow& flow : topologies[i].flows) {
      const std::string name = std::to_string(at);
      auto* from = zone->create_host("from" + name, 1e9)->seal();
      auto* to = zone->create_host("to" + name, 1e9)->seal();
      std::vector<sg::LinkInRoute> route;
      for (const std::size_t k : flow.links) route.emplace_back(links[k]);
      zone->add_route(from->get_netpoint(), to->get_netpoint(), nullptr, nullptr, route, false);
      sg::Actor::create("flow" + name, from, [from, to, flow, end = &ends[at]] {
        sg::this_actor::sleep_until(flow.start);
        sg::Comm::sendto(from, to, static_cast<std::uint64_t>(flow.size));
        *end = sg::Engine::get_clock();
      });
      ++at;
    }
    zone->seal();
  }
  root->seal();
  engine.run();
}

/// What `fill` writes into `count` numbers, in a process of its own; empty if that process failed.
template <typename Fill>
std::vector<double> in_child(std::size_t count, Fill fill) {
  const std::size_t room = count * sizeof(double);
  void* shared = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return {};
  auto* numbers = static_cast<double*>(shared);
  const pid_t child = fork();
  if (child == 0) {
    fill(std::span(numbers, count));
    _exit(0);
  }
  int status = 1;
  const bool done = child > 0 && waitpid(child, &status, 0) == child && status == 0;
  std::vector<double> result;
  if (done) result.assign(numbers, numbers + count);
  munmap(shared, room);
  return result;
}

}  // namespace

TEST_CASE("oracle: transfers end when SimGrid says, on 1,000 random topologies", "[property]") {
  std::vector<Topology> topologies;
  std::size_t flows = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    topologies.push_back(draw(seed));
    flows += topologies.back().flows.size();
  }
  const auto expected = in_child(flows, [&](std::span<double> ends) { simgrid_ends(topologies, ends); });
  REQUIRE(expected.size() == flows);
  double worst = 0;
  std::size_t at = 0;
  for (const Topology& topology : topologies) {
    Program program;
    for (const double capacity : topology.capacities) {
      REQUIRE(program.add_link({"link", bytes_per_second(capacity)}));
    }
    for (const RandomFlow& flow : topology.flows) {
      Hops hops;
      for (const std::size_t link : flow.links) hops.push_back({LinkId{static_cast<std::uint32_t>(link)}});
      REQUIRE(program.transfer({.name = "flow",
                                .route = *program.add_route(hops),
                                .size = bytes(flow.size),
                                .earliest = seconds(flow.start)}));
    }
    const Run result = run(program).value();
    for (const TaskTimes& times : result.tasks) {
      const double end = to_time(times.end).in(seconds);
      worst = std::max(worst, std::abs(end - expected[at]) / expected[at]);
      ++at;
    }
  }
  INFO("largest relative difference of " << flows << " flows: " << worst);
  CHECK(worst <= 1e-9);
}

#else

TEST_CASE("oracle: transfers end when SimGrid says, on 1,000 random topologies", "[property]") {
  WARN("skipped: SimGrid (libsimgrid-dev) was not there when this was built");
}

#endif
