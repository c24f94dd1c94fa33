#include "ddlsim/calib/run_posterior.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

using namespace ddlsim;
using calib::MeasuredRun;
using calib::RunPosterior;
using calib::RunPrior;

namespace {

constexpr RunPrior kNothing{0, 0, 0, 0, 0, 0, 0, 0.1};

}  // namespace

TEST_CASE("run posterior: its worked example", "[unit][calib]") {
  RunPrior prior = kNothing;
  prior.network_jump = prior.servers_path = 0.1;
  const std::vector<MeasuredRun> runs{{{.servers = 1}, 0}, {{.servers = 2}, std::log(1.2)}};
  const auto learnt = RunPosterior::learn(runs, prior).value();
  const auto four = learnt.at({.servers = 4});
  CHECK(std::exp(four.residual) == Approx(1.129).margin(5e-4));
  CHECK(four.deviation == Approx(std::sqrt(0.03 - 0.02 * 0.02 / 0.03 + 0.01)));
  CHECK(learnt.at({.servers = 1}).residual == 0);
}

TEST_CASE("run posterior: every term by itself", "[unit][calib]") {
  // Given one run at y beside the smallest, the residual at x is k(x, y) / (k(y, y) + 0.01) of y's.
  const auto share = [](const RunPrior& prior, const calib::RunPoint& x, const calib::RunPoint& y) {
    const std::vector<MeasuredRun> runs{{{.batch = 32}, 0}, {y, 1}};
    return RunPosterior::learn(runs, prior).value().at(x).residual;
  };
  RunPrior prior = kNothing;
  prior.gpus = 0.2;  // 0.04 * 3 * 2 of 0.04 * 4 + 0.01
  CHECK(share(prior, {.gpus_per_server = 8, .batch = 32}, {.gpus_per_server = 4, .batch = 32}) == Approx(0.24 / 0.17));
  prior = kNothing;
  prior.gpus_path = 0.2;  // 0.04 * 2 of 0.04 * 2 + 0.01
  CHECK(share(prior, {.gpus_per_server = 8, .batch = 32}, {.gpus_per_server = 4, .batch = 32}) == Approx(0.08 / 0.09));
  prior = kNothing;
  prior.servers = 0.2;
  CHECK(share(prior, {.servers = 16, .batch = 32}, {.servers = 2, .batch = 32}) == Approx(0.16 / 0.05));
  prior = kNothing;
  prior.communication = 0.2;  // 0.04 * 0.5 * 0.25 of 0.04 * 0.25 + 0.01
  CHECK(share(prior, {.batch = 32, .communication = 0.25}, {.servers = 2, .batch = 32, .communication = 0.5}) ==
        Approx(0.005 / 0.02));
  prior = kNothing;
  prior.batch = 0.2;  // 0.04 * 1 of 0.04 * 2 + 0.01; nothing on the other side of the smallest
  CHECK(share(prior, {.batch = 64}, {.servers = 2, .batch = 128}) == Approx(0.04 / 0.09));
  CHECK(share(prior, {.batch = 16}, {.servers = 2, .batch = 128}) == 0);
}

TEST_CASE("run posterior: the smallest configuration's residual is kept, runs of one configuration are averaged",
          "[unit][calib]") {
  const std::vector<MeasuredRun> runs{
      {{.gpus_per_server = 8, .servers = 2}, 0.7}, {{.gpus_per_server = 8}, 0.2}, {{.gpus_per_server = 8}, 0.4}};
  const auto learnt = RunPosterior::learn(runs, kNothing).value();
  CHECK(learnt.smallest().servers == 1);
  CHECK(learnt.base() == Approx(0.3));
  // Without any variance along the series nothing else is learnt.
  CHECK(learnt.at({.gpus_per_server = 8, .servers = 64}).residual == Approx(0.3));
  CHECK(learnt.at({.gpus_per_server = 8, .servers = 64}).deviation == Approx(0.1));
}

TEST_CASE("run posterior: more runs narrow what is said", "[unit][calib]") {
  std::vector<MeasuredRun> runs{{{.gpus_per_server = 8}, 0}};
  const calib::RunPoint asked{.gpus_per_server = 8, .servers = 8, .communication = 0.3};
  double last = std::numeric_limits<double>::infinity();
  for (const std::int64_t servers : {2, 4, 8}) {
    const double now = RunPosterior::learn(runs).value().at(asked).deviation;
    CHECK(now < last);
    last = now;
    runs.push_back({{.gpus_per_server = 8, .servers = servers, .communication = 0.3}, 0.1});
  }
}

TEST_CASE("run posterior: bad runs are refused", "[unit][calib]") {
  const auto refused = [](const MeasuredRun& run) { return !RunPosterior::learn({&run, 1}).has_value(); };
  CHECK(!RunPosterior::learn({}).has_value());
  CHECK(refused({{.gpus_per_server = 0}, 0}));
  CHECK(refused({{.servers = 0}, 0}));
  CHECK(refused({{.batch = 0}, 0}));
  CHECK(refused({{.communication = 1.5}, 0}));
  CHECK(refused({{}, std::numeric_limits<double>::quiet_NaN()}));
  // Two runs of one configuration without noise have no inverse.
  const std::vector<MeasuredRun> twice{{{}, 0}, {{}, 0.1}};
  RunPrior prior = kNothing;
  prior.noise = 0;
  CHECK(!RunPosterior::learn(twice, prior).has_value());
}
