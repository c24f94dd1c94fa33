#include "ddlsim/calib/loader_fit.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "ddlsim/calib/robust.h"
#include "ddlsim/cost/loader.h"
#include "ddlsim/io/csv.h"

using namespace ddlsim;
using namespace ddlsim::calib;

namespace {

/// Rates by name and cores.
std::map<std::string, std::map<int, double>> curves_of(const std::string& name, std::vector<std::string> columns) {
  const std::string path = std::string(DDLSIM_SOURCE_DATA) + "/test/data/loader/" + name;
  std::ifstream stream(path);
  auto csv = io::CsvReader::open(stream, path, std::move(columns)).value();
  std::map<std::string, std::map<int, double>> curves;
  while (csv.next().value()) {
    curves[std::string(csv.field(0))][std::stoi(std::string(csv.field(1)))] = std::stod(std::string(csv.field(2)));
  }
  return curves;
}

std::vector<CorePoint> points_of(const std::map<int, double>& curve, const std::vector<int>& counts) {
  std::vector<CorePoint> points;
  for (const int cores : counts) points.push_back({static_cast<double>(cores), per_second(curve.at(cores))});
  return points;
}

}  // namespace

TEST_CASE("loader fit: through its points, and no further up than its ceiling", "[unit][calib]") {
  const auto curve =
      fit_loader(std::vector<CorePoint>{{2, per_second(72)}, {6, per_second(175)}, {24, per_second(240)}}, true,
                 cost::kTrainingCores)
          .value();
  CHECK(curve.at(2).in(per_second) == Approx(72));
  CHECK(curve.at(6).in(per_second) == Approx(175));
  CHECK(curve.at(24).in(per_second) == Approx(240));
  CHECK(curve.contention == Approx(0.0740).margin(1e-4));
  const auto never = fit_loader(std::vector<CorePoint>{{1, per_second(5)}, {2, per_second(5)}}, true, 0).value();
  CHECK(never.at(1) == per_second(5));
  CHECK_FALSE(fit_loader(std::vector<CorePoint>{{1, per_second(5)}}, true, 0));
  CHECK_FALSE(fit_loader(std::vector<CorePoint>{{2, per_second(5)}, {1, per_second(4)}}, true, 0));
  CHECK_FALSE(fit_loader(std::vector<CorePoint>{{1, Rate{}}, {2, per_second(4)}}, true, 0));
}

TEST_CASE("loader fit: Synergy's curves from three counts of cores", "[unit][calib]") {
  const auto curves = curves_of("synergy.csv", {"model", "cpus_per_gpu", "relative_throughput"});
  REQUIRE(curves.size() == 10);
  for (const auto& [model, curve] : curves) {
    const auto fitted = fit_loader(points_of(curve, {2, 6, 24}), true, cost::kTrainingCores).value();
    double sum = 0;
    for (const int cores : {1, 3, 4, 5, 9, 12}) sum += std::abs(fitted.at(cores).in(per_second) / curve.at(cores) - 1);
    INFO(model << " " << sum / 6);
    CHECK(sum / 6 < 0.06);
  }
}

TEST_CASE("loader fit: PRESTO's threads from one and four", "[unit][calib]") {
  const auto curves = curves_of("presto.csv", {"strategy", "threads", "samples_per_s"});
  REQUIRE(curves.size() == 5);
  std::vector<double> errors;
  for (const auto& [strategy, curve] : curves) {
    const auto fitted = fit_loader(points_of(curve, {1, 4}), false, 0).value();
    for (const int threads : {2, 8}) {
      errors.push_back(std::abs(fitted.at(threads).in(per_second) / curve.at(threads) - 1));
    }
  }
  INFO("median " << median(errors));
  CHECK(median(errors) < 0.15);
}
