#include "ddlsim/events/engine.h"

#include <catch2/catch.hpp>
#include <limits>

#include "ddlsim/events/collective_programs.h"

using namespace ddlsim;
using namespace ddlsim::events;

namespace {

constexpr Picoseconds ps(std::int64_t count) { return Picoseconds(count); }
constexpr std::int64_t kSecond = 1'000'000'000'000;

struct OneLink {
  Program program;
  LinkId link = *program.add_link({"link", gigabytes_per_second(1)});
  RouteId route = *program.add_route({{link}});
};

AllReduce small_cluster(AllReduceAlgorithm algorithm, Ranks ranks) {
  return {.algorithm = algorithm,
          .ranks = ranks,
          .size = gigabytes(4.096),
          .nodes = 4,
          .gpus_per_node = 2,
          .gpu = gigabytes_per_second(8),
          .network = gigabytes_per_second(2),
          .gpu_latency = microseconds(3),
          .network_latency = microseconds(20)};
}

double milliseconds_of(const AllReduce& setting) {
  return to_time(run(all_reduce_program(setting).value())->makespan).in(milliseconds);
}

}  // namespace

TEST_CASE("engine: the header's worked example", "[unit][sim]") {
  OneLink one;
  const auto computed = one.program.compute({.name = "compute", .duration = seconds(0.5)});
  const auto first = one.program.transfer({.name = "first", .route = one.route, .size = gigabytes(1)});
  const auto second = one.program.transfer({.name = "second", .route = one.route, .size = gigabytes(1)}, {*computed});
  const auto result = run(one.program);
  REQUIRE(result);
  CHECK((*result)[*first] == TaskTimes{ps(0), ps(3 * kSecond / 2)});
  CHECK((*result)[*second] == TaskTimes{ps(kSecond / 2), ps(2 * kSecond)});
  CHECK(result->makespan == ps(2 * kSecond));
  CHECK(result->links[0].carried == gigabytes(2));
  CHECK(result->links[0].busy == ps(2 * kSecond));
  CHECK(result->events == 3);
}

TEST_CASE("engine: streams, speeds, releases and joins", "[unit][sim]") {
  Program program;
  const auto gpu = *program.add_stream({.name = "gpu"});
  const auto straggler = *program.add_stream({.name = "straggler", .speed = 0.8});
  const auto a = *program.compute({.name = "a", .stream = gpu, .duration = nanoseconds(100)});
  const auto b = *program.compute({.name = "b", .stream = straggler, .duration = nanoseconds(100)});
  const auto barrier = *program.join("barrier", {a, b});
  const auto c = *program.compute({.name = "c", .stream = gpu, .duration = nanoseconds(10)}, {barrier});
  const auto late = *program.compute({.name = "late", .duration = nanoseconds(1), .earliest = nanoseconds(500)}, {a});
  const auto past = *program.compute({.name = "past", .duration = nanoseconds(1), .earliest = nanoseconds(50)}, {a});
  const auto result = run(program).value();
  CHECK(result[a] == TaskTimes{ps(0), ps(100'000)});
  CHECK(result[b] == TaskTimes{ps(0), ps(125'000)});  // 100 / 0.8
  CHECK(result[barrier] == TaskTimes{ps(125'000), ps(125'000)});
  CHECK(result[c] == TaskTimes{ps(125'000), ps(135'000)});
  CHECK(result[late] == TaskTimes{ps(500'000), ps(501'000)});
  CHECK(result[past] == TaskTimes{ps(100'000), ps(101'000)});
  CHECK(result.makespan == ps(501'000));
}

TEST_CASE("engine: a stream takes the lowest priority, then the first ready", "[unit][sim]") {
  Program program;
  const auto nic = *program.add_stream({.name = "nic"});
  const auto add = [&](std::string_view name, double ready, std::int32_t priority) {
    return *program.compute({.name = name,
                             .stream = nic,
                             .duration = nanoseconds(10),
                             .earliest = nanoseconds(ready),
                             .priority = priority});
  };
  const auto first = add("first", 0, 9);
  const auto low = add("low", 2, 5);
  const auto later = add("later", 3, 5);
  const auto high = add("high", 4, 1);
  const auto same = add("same", 4, 1);  // ready together: the order of adding
  const auto last = add("last", 1, 7);
  const auto middle = add("middle", 5, 5);
  const auto result = run(program).value();
  std::vector<std::int64_t> starts;
  for (const TaskId task : {first, high, same, low, later, middle, last}) starts.push_back(result[task].start.count());
  CHECK(starts == std::vector<std::int64_t>{0, 10'000, 20'000, 30'000, 40'000, 50'000, 60'000});
}

TEST_CASE("engine: transfers that hold a stream go one after another", "[unit][sim]") {
  OneLink one;
  const auto nic = *one.program.add_stream({.name = "nic"});
  const auto send = [&] {
    return *one.program.transfer(
        {.name = "m", .stream = nic, .route = one.route, .size = kilobytes(1), .latency = microseconds(2)});
  };
  const auto a = send();
  const auto b = send();
  // 2 us + 1 kB / (1 GB/s) = 3 us each
  const auto result = run(one.program).value();
  CHECK(result[a] == TaskTimes{ps(0), ps(3'000'000)});
  CHECK(result[b] == TaskTimes{ps(3'000'000), ps(6'000'000)});
  CHECK(result.links[0].busy == ps(2'000'000));
}

TEST_CASE("engine: what is empty takes no time", "[unit][sim]") {
  CHECK(run(Program{}).value().makespan == ps(0));
  OneLink one;
  const auto nothing = *one.program.transfer({.name = "nothing", .route = one.route});
  const auto free = *one.program.transfer({.name = "free", .size = gigabytes(1)}, {nothing});
  // A chain as long as this would overflow the stack if ends called each other.
  TaskId last = free;
  for (int i = 0; i < 300'000; ++i) last = *one.program.join("step", {last});
  const auto result = run(one.program).value();
  CHECK(result.makespan == ps(0));
  CHECK(result[last].end == ps(0));
  CHECK(result.events == 0);
}

TEST_CASE("engine: two jobs share a link only while both send", "[unit][sim]") {
  OneLink one;
  // Job B arrives at 1 s. A has 2 GB left then; both at 0.5 GB/s until B's 1 GB is through at 3 s; A's last 1 GB: 4 s.
  const auto a = *one.program.transfer({.name = "A", .route = one.route, .size = gigabytes(3)});
  const auto b = *one.program.transfer({.name = "B", .route = one.route, .size = gigabytes(1), .earliest = seconds(1)});
  const auto result = run(one.program).value();
  CHECK(result[b].end == ps(3 * kSecond));
  CHECK(result[a].end == ps(4 * kSecond));
}

TEST_CASE("engine: faults name the task", "[unit][sim]") {
  OneLink one;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto message = [](const auto& result) { return result ? std::string{} : result.error().message; };
  CHECK(message(one.program.compute({.name = "k", .duration = seconds(-1)})) == "task 'k' (#0): a duration of -1 s");
  CHECK(message(one.program.compute({.name = "k", .duration = seconds(nan)})) == "task 'k' (#0): a duration of nan s");
  CHECK(message(one.program.compute({.name = "k", .duration = seconds(1e7)})) ==
        "task 'k' (#0): a duration of 10000000 s");
  CHECK(message(one.program.compute({.name = "k", .earliest = seconds(-2)})) ==
        "task 'k' (#0): an earliest start of -2 s");
  CHECK(message(one.program.compute({.name = "k", .stream = StreamId{3}})) == "task 'k' (#0): stream #3 of 0");
  CHECK(message(one.program.transfer({.name = "m", .route = RouteId{1}})) == "task 'm' (#0): route #1 of 1");
  CHECK(message(one.program.transfer({.name = "m", .size = bytes(-1)})) == "task 'm' (#0): a size of -1 bytes");
  CHECK(message(one.program.transfer({.name = "m", .latency = seconds(nan)})) == "task 'm' (#0): a latency of nan s");
  CHECK(message(one.program.join("self", {TaskId{0}})) ==
        "task 'self' (#0) comes after task #0, which is not there yet");
  CHECK(message(one.program.add_stream({.name = "stopped", .speed = 0})) == "stream 'stopped': speed 0");
  CHECK(one.program.tasks() == 0);
}

TEST_CASE("engine: a run that does not fit in 64 bits is an error", "[unit][sim]") {
  Program program;
  const auto half = *program.compute({.name = "half", .duration = seconds(5e6)});
  REQUIRE(program.compute({.name = "other half", .duration = seconds(5e6)}, {half}));
  const auto result = run(program);
  REQUIRE(!result);
  CHECK(result.error().message == "task 'other half' (#1) would end after more than 106 days");
  Program slow;
  const auto wire = *slow.add_link({"wire", bytes_per_second(1)});
  REQUIRE(slow.transfer({.name = "all", .route = *slow.add_route({{wire}}), .size = gigabytes(1)}));
  CHECK(run(slow).error().message == "task 'all' (#0) would end after more than 106 days");
}

TEST_CASE("all-reduce programs: the header's worked example", "[unit][sim]") {
  const AllReduce setting{
      .size = gigabytes(1), .gpus_per_node = 4, .gpu = gigabytes_per_second(10), .gpu_latency = microseconds(5)};
  CHECK(milliseconds_of(setting) == Approx(150.03).epsilon(1e-12));
}

TEST_CASE("all-reduce programs: every rank by itself takes the closed form", "[unit][sim]") {
  for (const std::int64_t ranks : {1, 2, 4, 16, 64}) {
    for (const bool in_node : {true, false}) {
      AllReduce setting{.size = gigabytes(6.4),
                        .nodes = in_node ? 1 : ranks,
                        .gpus_per_node = in_node ? ranks : 1,
                        .gpu = gigabytes_per_second(10),
                        .network = gigabytes_per_second(10),
                        .gpu_latency = microseconds(5),
                        .network_latency = microseconds(5)};
      const auto p = static_cast<double>(ranks);
      // 2 (p-1) messages of S/p, each 5 us + S / (10 GB/s)
      CHECK(milliseconds_of(setting) == Approx(2 * (p - 1) * (0.005 + 640 / p)).epsilon(1e-9));
      // 2 log2 p a + 2 (p-1)/p S/B, S/B = 640 ms
      setting.algorithm = AllReduceAlgorithm::kHalvingDoubling;
      CHECK(milliseconds_of(setting) == Approx(2 * std::log2(p) * 0.005 + 2 * (p - 1) / p * 640).epsilon(1e-9));
    }
  }
}

TEST_CASE("all-reduce programs: two levels, worked by hand", "[unit][sim]") {
  using enum AllReduceAlgorithm;
  for (const Ranks ranks : {Ranks::kEach, Ranks::kFolded}) {
    // 14 steps of 0.512 GB, each as long as the slower hop: 20 us + 0.512 / 2 = 256.02 ms
    CHECK(milliseconds_of(small_cluster(kRing, ranks)) == Approx(14 * 256.02).epsilon(1e-9));
    // Exchange with the rank beside: 3 us + 2.048 / 8 = 256.003 ms; 2 away, two ranks share 2 GB/s: 20 us + 1.024 / 1 =
    // 1024.02; 4 away: 512.02. There and back.
    CHECK(milliseconds_of(small_cluster(kHalvingDoubling, ranks)) ==
          Approx(2 * (256.003 + 1024.02 + 512.02)).epsilon(1e-9));
    // In the node one step of 2.048 GB: 256.003; between nodes 6 steps of 0.512 GB, two ranks share: 20 us + 512 ms; in
    // the node again.
    CHECK(milliseconds_of(small_cluster(kHierarchical, ranks)) == Approx(2 * 256.003 + 6 * 512.02).epsilon(1e-9));
  }
}

TEST_CASE("all-reduce programs: a million GPUs are a handful of tasks", "[unit][sim]") {
  using enum AllReduceAlgorithm;
  AllReduce setting = small_cluster(kHierarchical, Ranks::kFolded);
  setting.nodes = 125'000;
  setting.gpus_per_node = 8;
  const Program program = all_reduce_program(setting).value();
  CHECK(program.tasks() == 3);
  // 7 steps of 0.512 GB in the node, 2 * 124,999 of 4.096 kB with 8 sharing 2 GB/s, 7 in the node
  const double expected = 14 * (0.003 + 64) + 2 * 124'999 * (0.02 + 4.096e-6 / 0.25 * 1e3);
  CHECK(to_time(run(program)->makespan).in(milliseconds) == Approx(expected).epsilon(1e-12));
  // Every rank by itself is refused, not begun.
  setting.ranks = Ranks::kEach;
  CHECK(all_reduce_program(setting).error().code == ErrorCode::kInfeasible);
}

TEST_CASE("all-reduce programs: faults are named", "[unit][sim]") {
  using enum AllReduceAlgorithm;
  const auto message = [](AllReduce setting, auto change) {
    change(setting);
    const auto program = all_reduce_program(setting);
    return program ? std::string{} : program.error().message;
  };
  const AllReduce good = small_cluster(kHalvingDoubling, Ranks::kEach);
  CHECK(message(good, [](AllReduce&) {}).empty());
  CHECK(message(good, [](AllReduce& s) { s.nodes = 0; }) == "all-reduce: a number of nodes of 0");
  CHECK(message(good, [](AllReduce& s) { s.gpus_per_node = -1; }) == "all-reduce: a number of GPUs per node of -1");
  CHECK(message(good, [](AllReduce& s) { s.nodes = 3; }) ==
        "all-reduce: a number of ranks for halving and doubling of 6");
  CHECK(message(good, [](AllReduce& s) { s.size = bytes(-1); }) == "all-reduce: a size of -1 bytes");
  CHECK(message(good, [](AllReduce& s) { s.size = bytes(1e300); }) == "all-reduce: a size of 1e+300 bytes");
  CHECK(message(good, [](AllReduce& s) { s.gpu_latency = seconds(-1); }) == "all-reduce: a latency of -1 s");
  CHECK(message(good, [](AllReduce& s) { s.gpu = {}; }) == "all-reduce: a rate per GPU of 0 B/s");
  CHECK(message(good, [](AllReduce& s) { s.network = Bandwidth::infinity(); }) ==
        "all-reduce: a network rate of inf B/s");
  CHECK(message(good, [](AllReduce& s) {
          s.nodes = std::int64_t{1} << 62;
          s.gpus_per_node = 16;
        }) == "all-reduce: 4611686018427387904 nodes of 16 GPUs need too many messages");
}
