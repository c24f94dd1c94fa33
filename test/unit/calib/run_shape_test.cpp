#include "ddlsim/calib/run_shape.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "ddlsim/calib/run_posterior.h"

using namespace ddlsim;
using calib::MeasuredRun;
using calib::RunPoint;
using calib::RunPosterior;
using calib::RunShape;

namespace {

MeasuredRun run_of(std::int64_t gpus, std::int64_t servers, double batch, double communication, double pass,
                   double measured) {
  return {.point = {.gpus_per_server = gpus,
                    .servers = servers,
                    .batch = batch,
                    .communication = communication,
                    .passes_per_second = 1 / pass},
          .residual = std::log(measured / pass)};
}

/// Steps of a host that takes 20 ms of every pass and a network at a quarter of its rate, one to eight servers of one
/// to four GPUs: what a sample takes is 10 ms, what the model sends 5 ms a GPU of another server.
std::vector<MeasuredRun> slow_host() {
  std::vector<MeasuredRun> runs;
  for (const std::int64_t servers : {1, 2, 4}) {
    for (const std::int64_t gpus : {1, 4}) {
      for (const double batch : {1.0, 4.0, 16.0}) {
        const double sent = servers > 1 ? 0.005 * static_cast<double>(servers) : 0;
        const double pass = 0.01 * batch + sent;
        runs.push_back(run_of(gpus, servers, batch, sent / pass, pass, 0.01 * batch + 4 * sent + 0.02));
      }
    }
  }
  return runs;
}

}  // namespace

TEST_CASE("run shape: its worked example", "[unit][calib]") {
  const std::vector<MeasuredRun> runs{run_of(1, 1, 1, 0, 0.01, 0.012), run_of(1, 1, 2, 0, 0.02, 0.022),
                                      run_of(1, 1, 4, 0, 0.04, 0.042)};
  const RunShape shape = calib::shape_of(runs);
  CHECK(shape.host == Approx(0.002).epsilon(0.25));
  CHECK(shape.gpu == Approx(1).epsilon(0.02));
  CHECK(shape.within == Approx(1));  // no run speaks of it
  CHECK(shape.across == Approx(1));
  CHECK(shape.join == 0);
  CHECK(shape.join_servers == 0);
}

TEST_CASE("run shape: every term by itself", "[unit][calib]") {
  const RunPoint whole{.communication = 0.25, .passes_per_second = 2};
  CHECK(RunShape{}.ratio(whole) == Approx(1));
  CHECK(RunShape{.gpu = 2}.ratio(whole) == Approx(1.75));
  CHECK(RunShape{.within = 2}.ratio(whole) == Approx(1.25));
  CHECK(RunShape{.across = 2}.ratio(whole) == Approx(1));
  CHECK(RunShape{.host = 0.1}.ratio(whole) == Approx(1.2));
  const RunShape joined{.across = 3, .join = 0.1, .join_servers = 0.2};
  CHECK(joined.ratio(whole) == Approx(1));  // one GPU joins nobody
  CHECK(joined.ratio({.gpus_per_server = 2, .passes_per_second = 2}) == Approx(1.2));
  CHECK(joined.ratio({.servers = 2, .communication = 0.25, .passes_per_second = 2}) == Approx(1.9));
}

TEST_CASE("run shape: never less than with no passes a second at one end of communication", "[unit][calib]") {
  const RunShape shape = calib::shape_of(slow_host());
  for (const std::int64_t servers : {1, 8}) {
    const double ends =
        std::min(shape.ratio({.servers = servers}), shape.ratio({.servers = servers, .communication = 1}));
    CHECK(ends >= 0.1);
    for (const double c : {0.0, 0.3, 0.8, 1.0}) {
      CHECK(shape.ratio({.servers = servers, .communication = c, .passes_per_second = 3}) >= ends * (1 - 1e-12));
    }
  }
}

TEST_CASE("run posterior: many runs tell a slow host and a slow network from a factor on the step", "[unit][calib]") {
  // Left out: a batch and a number of servers that nobody ran, 0.02 + 4 * 0.08 + 0.02 s for 0.1 of the model.
  const MeasuredRun other = run_of(4, 16, 2, 0.8, 0.1, 0.36);
  std::vector<MeasuredRun> runs = slow_host();
  const auto learnt = RunPosterior::learn(runs).value();
  CHECK(std::exp(learnt.at(other.point).residual) == Approx(std::exp(other.residual)).epsilon(0.06));
  // Who does not know how long a pass is knows neither; and no order of a file decides.
  for (MeasuredRun& run : runs) run.point.passes_per_second = 0;
  const double plain = RunPosterior::learn(runs).value().at(other.point).residual;
  CHECK(std::abs(plain - other.residual) > 0.04);
  CHECK(std::abs(learnt.at(other.point).residual - other.residual) < std::abs(plain - other.residual) / 2);
  runs = slow_host();
  std::reverse(runs.begin(), runs.end());
  CHECK(RunPosterior::learn(runs).value().at(other.point).residual == Approx(learnt.at(other.point).residual));
}

TEST_CASE("run posterior: many runs say how much they scatter", "[unit][calib]") {
  // Batches side by side, 20 % to and fro: no path along the batch.
  std::vector<MeasuredRun> runs;
  for (int i = 0; i < 16; ++i) {
    runs.push_back({.point = {.batch = 8.0 + i}, .residual = i == 0 ? 0 : i % 2 == 0 ? 0.1 : -0.1});
  }
  const auto learnt = RunPosterior::learn(runs).value();
  const auto between = learnt.at({.batch = 17.5});
  CHECK(std::abs(between.residual) < 0.04);
  CHECK(between.deviation > 0.08);
  CHECK(between.deviation < 0.2);
  // A few do not.
  const auto few = RunPosterior::learn(std::vector(runs.begin(), runs.begin() + 8)).value();
  CHECK(few.at({.batch = 15}).residual == Approx(-0.1).margin(0.02));
}
