// Speed of the event engine, by Google Benchmark, and of SimGrid on the same flows where it is installed.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "ddlsim/events/collective_programs.h"
#include "ddlsim/events/engine.h"

#ifdef DDLSIM_HAVE_SIMGRID
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <simgrid/s4u.hpp>
#endif

namespace {

using namespace ddlsim;
using namespace ddlsim::events;

/// Every GPU runs kernels of random length one after another: the event queue at its fullest.
void uncontended(benchmark::State& state) {
  const std::int64_t gpus = state.range(0);
  std::mt19937_64 random(1);
  Program program;
  std::vector<StreamId> streams;
  for (std::int64_t i = 0; i < gpus; ++i) streams.push_back(*program.add_stream({.name = "gpu"}));
  std::vector<TaskId> last;
  for (std::int64_t kernel = 0; kernel < 2'000'000 / gpus; ++kernel) {
    for (std::size_t i = 0; i < streams.size(); ++i) {
      const Computation work{.name = "kernel",
                             .stream = streams[i],
                             .duration = nanoseconds(static_cast<double>(1000 + random() % 10'000))};
      if (kernel == 0) {
        last.push_back(*program.compute(work));
      } else {
        last[i] = *program.compute(work, {last[i]});
      }
    }
  }
  std::int64_t events = 0;
  for (auto _ : state) events += run(program)->events;
  state.SetItemsProcessed(events);
}
BENCHMARK(uncontended)
    ->Name("event engine, events, GPUs busy at once")
    ->Arg(1)
    ->Arg(256)
    ->Arg(4096)
    ->Unit(benchmark::kMillisecond);

AllReduce gigabyte(AllReduceAlgorithm algorithm, std::int64_t nodes) {
  return {.algorithm = algorithm,
          .size = gigabytes(1),
          .nodes = nodes,
          .gpus_per_node = 8,
          .gpu = gigabytes_per_second(300),
          .network = gigabytes_per_second(50),
          .gpu_latency = microseconds(2),
          .network_latency = microseconds(5)};
}

/// Describing it is part of the answer, so it is timed too.
void all_reduce(benchmark::State& state, const AllReduce& setting) {
  for (auto _ : state) benchmark::DoNotOptimize(run(*all_reduce_program(setting))->makespan);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(all_reduce, halving, gigabyte(AllReduceAlgorithm::kHalvingDoubling, 512))
    ->Name("1 GB all-reduce, every one of 4,096 GPUs, halving and doubling")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(all_reduce, hierarchical, gigabyte(AllReduceAlgorithm::kHierarchical, 512))
    ->Name("1 GB all-reduce, every one of 4,096 GPUs, hierarchical (4.2 M messages)")
    ->Unit(benchmark::kMillisecond);

AllReduce folded(AllReduceAlgorithm algorithm) {
  AllReduce setting = gigabyte(algorithm, 125'000);
  setting.ranks = Ranks::kFolded;
  return setting;
}
BENCHMARK_CAPTURE(all_reduce, folded, folded(AllReduceAlgorithm::kHierarchical))
    ->Name("1 GB all-reduce, 1,000,000 GPUs folded, hierarchical");
BENCHMARK_CAPTURE(all_reduce, folded_ring, folded(AllReduceAlgorithm::kRing))
    ->Name("1 GB all-reduce, 1,000,000 GPUs folded, ring");

/// A leaf and spine fabric: random pairs of 64 hosts send at random times, so that many flows share links.
struct Fabric {
  static constexpr std::size_t kHosts = 64;
  static constexpr std::size_t kLeaves = 8;
  struct Message {
    std::size_t from = 0;
    std::size_t to = 0;
    double start = 0;  // seconds
    double size = 0;   // bytes
  };
  std::vector<Message> messages;

  explicit Fabric(std::size_t count) {
    std::mt19937_64 random(2);
    for (std::size_t i = 0; i < count; ++i) {
      const auto from = static_cast<std::size_t>(random() % kHosts);
      const auto to = static_cast<std::size_t>((from + 1 + random() % (kHosts - 1)) % kHosts);
      // 10.5 MB on average every 50 us: 60 % of what the leaves' uplinks can carry.
      const double start = static_cast<double>(random() % 1'000'000) * 1e-6 * static_cast<double>(count) / 20'000;
      messages.push_back({from, to, start, 1e6 * static_cast<double>(1 + random() % 20)});
    }
  }
  static constexpr double kHostRate = 10e9;
  static constexpr double kLeafRate = 40e9;
  static std::size_t leaf(std::size_t host) { return host / (kHosts / kLeaves); }
};

Program shared_program(const Fabric& fabric) {
  Program program;
  std::vector<LinkId> up;
  std::vector<LinkId> down;
  for (std::size_t i = 0; i < Fabric::kHosts + Fabric::kLeaves; ++i) {
    const Bandwidth rate = bytes_per_second(i < Fabric::kHosts ? Fabric::kHostRate : Fabric::kLeafRate);
    up.push_back(*program.add_link({"up", rate}));
    down.push_back(*program.add_link({"down", rate}));
  }
  for (const auto& [from, to, start, size] : fabric.messages) {
    Hops hops{{up[from]}, {down[to]}};
    if (const std::size_t a = Fabric::leaf(from), b = Fabric::leaf(to); a != b) {
      hops.insert(hops.begin() + 1, {{up[Fabric::kHosts + a]}, {down[Fabric::kHosts + b]}});
    }
    (void)*program.transfer(
        {.name = "message", .route = *program.add_route(hops), .size = bytes(size), .earliest = seconds(start)});
  }
  return program;
}

constexpr std::int64_t kMessages = 10'000;

void shared(benchmark::State& state) {
  const Fabric fabric(kMessages);
  const Program program = shared_program(fabric);
  double makespan = 0;
  for (auto _ : state) makespan = to_time(run(program)->makespan).in(seconds);
  state.SetLabel("all sent after " + std::to_string(makespan) + " s");
  state.SetItemsProcessed(state.iterations() * kMessages);
}
BENCHMARK(shared)->Name("shared transfers on a leaf and spine fabric")->Unit(benchmark::kMillisecond)->UseRealTime();

void max_min(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0));
  std::mt19937_64 random(3);
  std::vector<Link> links;
  for (std::size_t i = 0; i < count / 4; ++i)
    links.push_back({"link", gigabytes_per_second(1 + static_cast<double>(random() % 100))});
  std::vector<Hops> flows(count);
  for (Hops& hops : flows) {
    for (int i = 0; i < 3; ++i) hops.push_back({LinkId{static_cast<std::uint32_t>(random() % links.size())}});
  }
  for (auto _ : state) benchmark::DoNotOptimize(max_min_rates(links, flows));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(max_min)->Name("max-min rates from scratch, flows")->Arg(100)->Arg(10'000);

#ifdef DDLSIM_HAVE_SIMGRID

struct SimgridAnswer {
  double wall = 0;      // seconds that Engine::run took
  double makespan = 0;  // seconds
};

SimgridAnswer simgrid_run(const Fabric& fabric) {
  namespace sg = simgrid::s4u;
  // Textbook max-min, as in test/property/simgrid_oracle_test.cpp; precisions are SimGrid's own.
  std::vector<std::string> words{"bench",
                                 "--log=root.thres:error",
                                 "--cfg=network/model:CM02",
                                 "--cfg=network/TCP-gamma:0",
                                 "--cfg=network/crosstraffic:no",
                                 "--cfg=network/bandwidth-factor:1",
                                 "--cfg=network/latency-factor:1",
                                 "--cfg=network/weight-S:0",
                                 "--cfg=contexts/stack-size:64"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  auto count = static_cast<int>(arguments.size());
  sg::Engine engine(&count, arguments.data());
  auto* zone = sg::create_full_zone("fabric");
  std::vector<sg::Host*> hosts;
  std::vector<sg::Link*> up;
  std::vector<sg::Link*> down;
  for (std::size_t i = 0; i < Fabric::kHosts + Fabric::kLeaves; ++i) {
    const double rate = i < Fabric::kHosts ? Fabric::kHostRate : Fabric::kLeafRate;
    up.push_back(zone->create_link("up" + std::to_string(i), rate)->set_latency(0)->seal());
    down.push_back(zone->create_link("down" + std::to_string(i), rate)->set_latency(0)->seal());
    if (i < Fabric::kHosts) hosts.push_back(zone->create_host("host" + std::to_string(i), 1e9)->seal());
  }
  for (std::size_t from = 0; from < Fabric::kHosts; ++from) {
    for (std::size_t to = 0; to < Fabric::kHosts; ++to) {
      if (from == to) continue;
      std::vector<sg::LinkInRoute> route{sg::LinkInRoute(up[from])};
      if (const std::size_t a = Fabric::leaf(from), b = Fabric::leaf(to); a != b) {
        route.emplace_back(up[Fabric::kHosts + a]);
        route.emplace_back(down[Fabric::kHosts + b]);
      }
      route.emplace_back(down[to]);
      zone->add_route(hosts[from]->get_netpoint(), hosts[to]->get_netpoint(), nullptr, nullptr, route, false);
    }
  }
  zone->seal();
  for (const auto& [from, to, start, size] : fabric.messages) {
    sg::Actor::create("message", hosts[from], [source = hosts[from], target = hosts[to], start = start, size = size] {
      sg::this_actor::sleep_until(start);
      sg::Comm::sendto(source, target, static_cast<std::uint64_t>(size));
    });
  }
  const auto begin = std::chrono::steady_clock::now();
  engine.run();
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  return {wall.count(), sg::Engine::get_clock()};
}

/// SimGrid has one engine per process, so each run has its own; only its simulation is timed, not its start.
void shared_simgrid(benchmark::State& state) {
  const Fabric fabric(kMessages);
  auto* answer = static_cast<SimgridAnswer*>(
      mmap(nullptr, sizeof(SimgridAnswer), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  for (auto _ : state) {
    const pid_t child = fork();
    if (child == 0) {
      *answer = simgrid_run(fabric);
      _exit(0);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
      state.SkipWithError("SimGrid failed");
      break;
    }
    state.SetIterationTime(answer->wall);
  }
  state.SetLabel("all sent after " + std::to_string(answer->makespan) + " s");
  munmap(answer, sizeof(SimgridAnswer));
  state.SetItemsProcessed(state.iterations() * kMessages);
}
BENCHMARK(shared_simgrid)
    ->Name("the same transfers in SimGrid")
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime()
    ->Iterations(1);

#endif

}  // namespace
