#include "ddlsim/plan/partition.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <sstream>
#include <string>

using namespace ddlsim;
using namespace ddlsim::plan;
using Catch::Matchers::Contains;

namespace {

ChainLayer layer(double ms, double megabytes_of_weights = 0) {
  return {.times = {milliseconds(ms)}, .weights = megabytes(megabytes_of_weights)};
}

Workers alike(std::size_t workers, Bandwidth bandwidth = gigabytes_per_second(1)) {
  return {.kinds = std::vector<std::size_t>(workers, 0), .bandwidth = bandwidth};
}

/// "3-1": replicas of each stage.
std::string replicas_of(const StagePartition& result) {
  std::string text;
  for (const ReplicatedStage& stage : result.stages) text += (text.empty() ? "" : "-") + std::to_string(stage.replicas);
  return text;
}

/// Every partition, by recursion.
Time by_hand(const std::vector<ChainLayer>& layers, const Workers& workers, std::size_t end, std::size_t used) {
  const auto stage = [&](std::size_t first, std::size_t last, std::size_t from, std::size_t to) {
    Time work;
    DataSize weights;
    for (std::size_t w = from; w < to; ++w) {
      Time own;
      for (std::size_t i = first; i < last; ++i) own += layers[i].times[workers.kinds[w]];
      work = max(work, own);
    }
    for (std::size_t i = first; i < last; ++i) weights += layers[i].weights;
    const auto m = static_cast<double>(to - from);
    return (work + weights * (4 * (m - 1)) / (workers.bandwidth * m)) / m;
  };
  Time best = stage(0, end, 0, used);
  for (std::size_t k = 1; k < end; ++k) {
    for (std::size_t m = 1; m < used; ++m) {
      best = min(best, max(by_hand(layers, workers, k, used - m), stage(k, end, used - m, used)));
    }
  }
  return best;
}

/// Rows of one model of PipeDream's profiles, in the order of its graph; the input's wait is no work.
std::vector<ChainLayer> profile(const std::string& text, const std::string& model) {
  std::map<int, ChainLayer> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(model + ",node")) continue;
    const int node = std::stoi(line.substr(model.size() + 5));
    std::array<double, 4> last{};  // forward, backward, activations, parameters
    std::size_t end = line.size();
    for (std::size_t i = 4; i-- > 0;) {
      const std::size_t comma = line.rfind(',', end - 1);
      last[i] = std::stod(line.substr(comma + 1, end - comma - 1));
      end = comma;
    }
    const bool input = line.find(",Input") != std::string::npos;
    rows[node] = {.times = {milliseconds(input ? 0 : last[0] + last[1])}, .weights = bytes(last[3])};
  }
  std::vector<ChainLayer> layers;
  for (auto& [node, row] : rows) layers.push_back(std::move(row));
  return layers;
}

}  // namespace

TEST_CASE("partition: the example of the header", "[unit][plan]") {
  const std::vector<ChainLayer> layers{layer(2), layer(2), layer(4, 8)};
  const auto two = partition(layers, alike(2)).value();
  CHECK(two.slowest.in(milliseconds) == Approx(4));
  CHECK(two.data_parallel.in(milliseconds) == Approx(12));
  CHECK(two.alone.in(milliseconds) == Approx(8));
  REQUIRE(two.stages.size() == 2);
  CHECK(two.stages[0] == ReplicatedStage{.first = 0, .count = 2, .replicas = 1, .time = milliseconds(4)});
  std::vector<ChainLayer> mixed = layers;
  for (ChainLayer& one : mixed) one.times.push_back(one.times[0] / 2.0);
  const auto faster = partition(mixed, {.kinds = {0, 1}, .bandwidth = gigabytes_per_second(1)}).value();
  CHECK(faster.slowest.in(milliseconds) == Approx(3));
  CHECK(faster.stages[0].count == 1);
}

TEST_CASE("partition: stages of different speed get layers in proportion", "[unit][plan]") {
  // Six layers of 1 ms on a worker of the first kind, half that on the second: 2 and 4 of them.
  std::vector<ChainLayer> layers(6, {.times = {milliseconds(1), milliseconds(0.5)}, .weights = megabytes(1)});
  const auto result = partition(layers, {.kinds = {0, 1}, .bandwidth = gigabytes_per_second(1)}).value();
  CHECK(result.slowest.in(milliseconds) == Approx(2));
  CHECK(result.stages[0].count == 2);
  CHECK(result.stages[1].count == 4);
}

TEST_CASE("partition: replicas of one machine share a sum", "[unit][plan]") {
  Workers workers = alike(2);
  workers.per_machine = 2;
  // One layer cannot be cut: (8 + 4 (1/2) 8 / 2) / 2.
  CHECK(partition(std::vector{layer(8, 8)}, workers).value().slowest.in(milliseconds) == Approx(8));
}

TEST_CASE("partition: as good as every partition tried", "[unit][plan]") {
  std::uint64_t state = 7;
  const auto draw = [&](std::uint64_t most) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<double>((state >> 33U) % most);
  };
  for (int round = 0; round < 40; ++round) {
    std::vector<ChainLayer> layers(1 + static_cast<std::size_t>(draw(6)));
    for (ChainLayer& one : layers) {
      one = {.times = {milliseconds(draw(20)), milliseconds(draw(20))}, .weights = megabytes(draw(30))};
    }
    Workers workers = alike(1 + static_cast<std::size_t>(draw(5)));
    for (std::size_t w = 0; w < workers.kinds.size(); ++w)
      workers.kinds[w] = w < static_cast<std::size_t>(draw(5)) ? 0 : 1;
    const auto result = partition(layers, workers).value();
    const Time best = by_hand(layers, workers, layers.size(), workers.kinds.size());
    CHECK(result.slowest.in(seconds) == Approx(best.in(seconds)).epsilon(1e-12));
    Time slowest;
    std::size_t covered = 0;
    for (const ReplicatedStage& stage : result.stages) {
      CHECK(stage.first == covered);
      covered += stage.count;
      slowest = max(slowest, stage.time);
    }
    CHECK(covered == layers.size());
    CHECK(slowest == result.slowest);
  }
}

TEST_CASE("partition: AlexNet as PipeDream's optimizer has it", "[unit][plan]") {
  // github.com/msr-fiddle/pipedream at 7db6a1c, profiler/image_classification/profiles/alexnet: batch 256 on a V100;
  // forward and backward in ms, bytes of parameters. The row of the input has no work.
  constexpr double kRows[23][2] = {{0, 0},
                                   {28.721, 93184},
                                   {1.546, 0},
                                   {1.904, 0},
                                   {8.740, 1229568},
                                   {1.335, 0},
                                   {1.440, 0},
                                   {9.870, 2655744},
                                   {0.696, 0},
                                   {11.620, 3539968},
                                   {0.727, 0},
                                   {8.312, 2360320},
                                   {0.700, 0},
                                   {0.697, 0},
                                   {0, 0},
                                   {0, 0},
                                   {0, 0},
                                   {4.809, 151011328},
                                   {0.510, 0},
                                   {0, 0},
                                   {2.441, 67125248},
                                   {0.326, 0},
                                   {0.927, 16388000}};
  std::vector<ChainLayer> layers;
  for (const auto& row : kRows) layers.push_back({.times = {milliseconds(row[0])}, .weights = bytes(row[1])});
  const auto four = partition(layers, alike(4, gigabytes_per_second(1.25))).value();
  // Stage 1: 41.911 ms of work on two replicas and 4 x 1.323 MB / 2.5 GB/s = 2.116 ms: 22.01 ms; stage 2: 9.870 + ...
  CHECK(four.slowest.in(seconds) == Approx(0.022901).epsilon(1e-4));
  CHECK(replicas_of(four) == "2-1-1");
  CHECK(four.alone / four.slowest == Approx(3.7256).epsilon(1e-4));
  CHECK(four.alone / four.data_parallel == Approx(0.5079).epsilon(1e-4));
}

TEST_CASE("partition: PipeDream's own profiles", "[unit][plan]") {
  const std::string path = std::string(DDLSIM_SOURCE_DATA) + "/../shared/data/layers/pipedream_profiles.csv.gz";
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) {
    WARN("skipped: " << path << " is not there");
    return;
  }
  std::string text;
  std::array<char, 65536> piece{};
  for (int got = 0; (got = gzread(file, piece.data(), piece.size())) > 0;) {
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
  gzclose(file);
  struct Golden {
    const char* model;
    std::size_t workers;
    const char* replicas;
    double stage, speedup, data_parallel;  // seconds; against one worker
  };
  // What the authors' optimizer prints at 1.25 GB/s, flat.
  constexpr std::array<Golden, 6> kGolden{{{"vgg16", 4, "3-1", 0.174498, 3.8541, 1.3446},
                                           {"alexnet", 4, "2-1-1", 0.022901, 3.7256, 0.5079},
                                           {"resnet50", 4, "1-1-1-1", 0.111497, 3.9770, 2.5751},
                                           {"gnmt_large", 4, "1-1-1-1", 0.137129, 3.7954, 0.6533},
                                           {"vgg16", 16, "9-1-2-1-1-1-1", 0.046587, 14.4360, 4.6127},
                                           {"alexnet", 16, "5-2-2-3-2-1-1", 0.007060, 12.0858, 1.6678}}};
  for (const Golden& golden : kGolden) {
    const auto result =
        partition(profile(text, golden.model), alike(golden.workers, gigabytes_per_second(1.25))).value();
    INFO(golden.model << " on " << golden.workers);
    CHECK(replicas_of(result) == golden.replicas);
    CHECK(result.slowest.in(seconds) == Approx(golden.stage).epsilon(1e-4));
    CHECK(result.alone / result.slowest == Approx(golden.speedup).epsilon(1e-4));
    CHECK(result.alone / result.data_parallel == Approx(golden.data_parallel).epsilon(1e-4));
  }
}

TEST_CASE("partition: what has no stages is refused", "[unit][plan]") {
  const auto refused = [](const std::vector<ChainLayer>& layers, const Workers& workers) {
    const auto result = partition(layers, workers);
    REQUIRE_FALSE(result);
    return result.error().message;
  };
  CHECK_THAT(refused({}, alike(2)), Contains("without a layer"));
  CHECK_THAT(refused({layer(1)}, alike(0)), Contains("need a worker"));
  CHECK_THAT(refused({layer(1)}, {.kinds = {1}, .bandwidth = gigabytes_per_second(1)}), Contains("no time"));
  CHECK_THAT(refused({layer(1)}, alike(1, Bandwidth::zero())), Contains("bandwidth"));
  CHECK_THAT(refused(std::vector<ChainLayer>(2000, layer(1)), alike(1024)), Contains("too many"));
}
