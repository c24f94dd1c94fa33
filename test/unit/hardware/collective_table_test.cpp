#include "ddlsim/hardware/collective_table.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

using namespace ddlsim;
using namespace ddlsim::hardware;

namespace {

using Points = std::vector<primitives::CollectiveMeasurement>;

primitives::CollectiveMeasurement point(DataSize size, Time time) {
  return {.op = primitives::CollectiveOp::kAllReduce,
          .gpus = 8,
          .nodes = 1,
          .size = size,
          .time = time,
          .where = {"t.csv", 7, 1}};
}

CollectiveTable::Answer ask(const CollectiveTable& table, DataSize size) {
  return table.time(primitives::CollectiveOp::kAllReduce, 8, 1, size).value();
}

}  // namespace

TEST_CASE("collective table: the header's worked example", "[unit][hardware]") {
  const auto table =
      CollectiveTable::create(Points{point(megabytes(1), microseconds(100)), point(megabytes(4), microseconds(400))});
  REQUIRE(table);
  // Straight in the logarithms with slope 1: twice the size, twice the time.
  CHECK(ask(*table, megabytes(2)).time.in(microseconds) == Approx(200));
  CHECK(ask(*table, megabytes(2)).provenance == Provenance::kInterpolated);
  CHECK(ask(*table, megabytes(4)).time.in(microseconds) == Approx(400));
  CHECK(ask(*table, megabytes(4)).provenance == Provenance::kMeasured);
  // 400 us and 4 MB more at 3 MB in 300 us
  CHECK(ask(*table, megabytes(8)).time.in(microseconds) == Approx(800));
  CHECK(ask(*table, megabytes(8)).provenance == Provenance::kExtrapolated);
  CHECK(ask(*table, bytes(8)).time.in(microseconds) == Approx(100));
  CHECK(ask(*table, bytes(8)).provenance == Provenance::kExtrapolated);
}

TEST_CASE("collective table: where the last two times do not rise, the last alone gives the bandwidth",
          "[unit][hardware]") {
  const auto table =
      CollectiveTable::create(Points{point(megabytes(1), microseconds(100)), point(megabytes(2), microseconds(100))});
  REQUIRE(table);
  // 100 us and 2 MB more at 2 MB in 100 us
  CHECK(ask(*table, megabytes(4)).time.in(microseconds) == Approx(200));
}

TEST_CASE("collective table: other ranks and operations are not guessed", "[unit][hardware]") {
  const auto table =
      CollectiveTable::create(Points{point(megabytes(1), microseconds(100)), point(megabytes(4), microseconds(400))});
  REQUIRE(table);
  CHECK_FALSE(table->time(primitives::CollectiveOp::kAllReduce, 8, 2, megabytes(2)));
  CHECK_FALSE(table->time(primitives::CollectiveOp::kAllReduce, 4, 1, megabytes(2)));
  CHECK_FALSE(table->time(primitives::CollectiveOp::kReduce, 8, 1, megabytes(2)));
}

TEST_CASE("collective table: what cannot be measured is refused where it stands", "[unit][hardware]") {
  const auto refused = [](const Points& points) {
    const auto table = CollectiveTable::create(points);
    REQUIRE_FALSE(table);
    CHECK((points.empty() || table.error().where.line == 7));
    return table.error().message;
  };
  using Catch::Matchers::Contains;
  const primitives::CollectiveMeasurement good = point(megabytes(2), microseconds(100));
  CHECK_THAT(refused({good, point(megabytes(1), microseconds(50))}), Contains("do not increase"));
  CHECK_THAT(refused({good, good}), Contains("do not increase"));
  CHECK_THAT(refused({good, point(megabytes(3), microseconds(-1))}), Contains("time"));
  CHECK_THAT(refused({good, point(megabytes(3), Time::zero())}), Contains("time"));
  CHECK_THAT(refused({good, point(megabytes(3), Time::infinity())}), Contains("time"));
  CHECK_THAT(refused({point(bytes(std::numeric_limits<double>::quiet_NaN()), seconds(1)), good}), Contains("size"));
  CHECK_THAT(refused({good}), Contains("one size"));
  CHECK_THAT(refused({}), Contains("without measurements"));
  primitives::CollectiveMeasurement odd = good;
  odd.nodes = 3;
  CHECK_THAT(refused({odd, odd}), Contains("do not fill"));
}

TEST_CASE("collective table: every other row of a measured sweep predicts the rest to 1.1 %", "[unit][hardware]") {
  for (const std::string name : {"a100_8gpu", "a100_4gpu", "a100_2gpu", "v100_8gpu"}) {
    const std::string path =
        std::string(DDLSIM_SOURCE_DATA) + "/../shared/data/collectives/all_reduce_" + name + ".csv";
    std::ifstream stream(path);
    if (!stream) {
      WARN("skipped: " << path << " is not there");
      continue;
    }
    std::string line;
    std::getline(stream, line);
    Points all;
    while (std::getline(stream, line)) {
      std::istringstream cells(line);
      double size = 0;
      double time = 0;
      char comma = 0;
      REQUIRE(cells >> size >> comma >> time);
      all.push_back(point(bytes(size), nanoseconds(time)));
    }
    Points kept;
    for (std::size_t i = 0; i < all.size(); i += 2) kept.push_back(all[i]);
    const auto table = CollectiveTable::create(kept);
    REQUIRE(table);
    double sum = 0;
    double count = 0;
    for (std::size_t i = 1; i + 1 < all.size(); i += 2) {
      const auto answer = ask(*table, all[i].size);
      CHECK(answer.provenance == Provenance::kInterpolated);
      sum += std::abs(answer.time / all[i].time - 1.0);
      count += 1;
    }
    INFO(name);
    REQUIRE(count > 500);
    CHECK(sum / count <= 0.011);
  }
}
