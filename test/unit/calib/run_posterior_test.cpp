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

constexpr RunPrior kNothing{.gpus = 0,
                            .gpus_path = 0,
                            .network_jump = 0,
                            .servers = 0,
                            .servers_path = 0,
                            .communication = 0,
                            .batch = 0,
                            .alike_batches = std::numeric_limits<double>::infinity(),
                            .series = 0,
                            .split = 0,
                            .variant = 0,
                            .model = 0.2,
                            .fixed = 0,
                            .noise = 0.1};

/// A split over that many ranks.
constexpr calib::RunSplit over(std::int64_t ranks) { return {.ranks = {ranks}}; }

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

TEST_CASE("run posterior: what came with servers is not all a smaller configuration's", "[unit][calib]") {
  RunPrior prior = kNothing;
  prior.network_jump = 0.1;
  const std::vector<MeasuredRun> runs{{{.servers = 4}, std::log(1.2)}};
  const auto learnt = RunPosterior::learn(runs, prior).value();
  const auto one = learnt.at({.servers = 1});
  CHECK(std::exp(one.residual) == Approx(1.157).margin(5e-4));
  CHECK(one.deviation == Approx(std::sqrt(0.04 * 0.2 + 0.01)));
  CHECK(learnt.at({.servers = 2}).residual == Approx(std::log(1.2)));  // over a network as well
  CHECK(learnt.at({.servers = 4}).residual == Approx(std::log(1.2)));
  prior.gpus_path = 0.1;
  const std::vector<MeasuredRun> wide{{{.gpus_per_server = 8}, std::log(1.2)}};
  const auto of_eight = RunPosterior::learn(wide, prior).value();
  CHECK(of_eight.at({.gpus_per_server = 1}).residual == Approx(std::log(1.2) * 0.04 / (0.04 + 0.03)));
  CHECK(of_eight.at({.gpus_per_server = 16}).residual == Approx(std::log(1.2)));
}

TEST_CASE("run posterior: every term by itself", "[unit][calib]") {
  // Given one run at y beside the smallest, not too far from it, the residual at x is k(x, y) / (k(y, y) + 0.01) of
  // y's.
  const auto share = [](const RunPrior& prior, const calib::RunPoint& x, const calib::RunPoint& y) {
    const std::vector<MeasuredRun> runs{{{.batch = 32}, 0}, {y, 0.3}};
    return RunPosterior::learn(runs, prior).value().at(x).residual / 0.3;
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

TEST_CASE("run posterior: a network takes no longer for what made a server late that did not use it", "[unit][calib]") {
  const std::vector<MeasuredRun> runs{{{.gpus_per_server = 8, .communication = 0.1}, std::log(0.8)}};
  const auto learnt = RunPosterior::learn(runs, kNothing).value();
  const auto four = [&](double communication) {
    return std::exp(learnt.at({.gpus_per_server = 8, .servers = 4, .communication = communication}).residual);
  };
  CHECK(four(0.95) == Approx(0.989).margin(5e-4));
  CHECK(four(0.05) == Approx(0.8));
  CHECK(std::exp(learnt.at({.gpus_per_server = 4, .communication = 0.95}).residual) == Approx(0.8));
  // Of runs over servers the network's time is in what they took.
  const auto across = RunPosterior::learn(
      std::vector<MeasuredRun>{{{.gpus_per_server = 8, .servers = 2, .communication = 0.1}, std::log(0.8)}}, kNothing);
  CHECK(std::exp(across->at({.gpus_per_server = 8, .servers = 4, .communication = 0.95}).residual) == Approx(0.8));
}

TEST_CASE("run posterior: a pass of few samples says less of one of many", "[unit][calib]") {
  RunPrior prior = kNothing;
  prior.series = 0.2;
  prior.fixed = 1;
  const calib::RunPoint few{.batch = 1, .fixed = 0.6};
  const calib::RunPoint many{.batch = 64, .fixed = 0.1};
  const double twice = std::log(2);
  const auto step = RunPosterior::learn(std::vector<MeasuredRun>{{few, twice}}, prior).value();
  CHECK(step.kept(many) == Approx(0.25));
  CHECK(std::exp(step.at(many).residual) == Approx(1.19).margin(5e-3));
  CHECK(step.at(few).residual == Approx(twice));
  CHECK(step.at(many).deviation == Approx(std::sqrt(0.04 + 0.01 - 0.0625 * 0.4 + 0.01)));
  // With all of it on the GPUs' speed already, what many samples do not keep is taken back.
  const auto gpu = RunPosterior::learn(std::vector<MeasuredRun>{{few, 0}}, prior, twice).value();
  CHECK(gpu.at(few).residual == Approx(0).margin(1e-12));
  CHECK(gpu.at(many).residual == Approx(-0.75 * twice));
  calib::RunPoint waits = many;
  waits.communication = 0.5;
  CHECK(gpu.at(waits).residual == Approx(-0.375 * twice));
}

TEST_CASE("run posterior: another split of the model keeps a part of what the first one showed", "[unit][calib]") {
  RunPrior prior = kNothing;
  prior.series = prior.split = 0.2;
  const std::vector<MeasuredRun> runs{{{.split = over(8)}, std::log(1.2)}};
  const auto learnt = RunPosterior::learn(runs, prior).value();
  CHECK(learnt.at({.servers = 4, .split = over(8)}).residual == Approx(std::log(1.2)));
  CHECK(learnt.at({.servers = 4, .split = over(8)}).deviation == Approx(0.1));
  const auto other = learnt.at({.servers = 4, .split = over(4)});
  CHECK(std::exp(other.residual) == Approx(1.095).margin(5e-4));
  CHECK(other.deviation == Approx(std::sqrt(1.5 * 0.04 + 0.01)));
  // A run of that split decides: 0.06 of 0.06 + 0.01 of what it differs from half the first.
  const double half = std::log(1.2) / 2;
  const std::vector<MeasuredRun> both{runs[0], {{.servers = 2, .split = over(4)}, half + 0.07}};
  const auto more = RunPosterior::learn(both, prior).value();
  CHECK(more.at({.servers = 4, .split = over(4)}).residual == Approx(half + 0.06));
  // And tells of a third one through the part that all share: (0.04 - 0.02) of 0.07.
  CHECK(more.at({.servers = 4, .split = over(2)}).residual == Approx(half + 0.02));
}

TEST_CASE("run posterior: what lies further off than splits take a job is kept by all of them", "[unit][calib]") {
  RunPrior prior = kNothing;
  prior.series = prior.split = 0.2;
  const double most = 3 * std::sqrt(0.08);  // half of it is lost
  for (const double sign : {1.0, -1.0}) {
    const auto on = [&](double base, double on_gpus, double communication) {
      const std::vector<MeasuredRun> runs{{{.split = over(8)}, base}};
      const auto learnt = RunPosterior::learn(runs, prior, on_gpus).value();
      return learnt.at({.communication = communication, .split = over(4)}).residual;
    };
    CHECK(on(sign * most, 0, 0) == Approx(sign * most / 2));
    CHECK(on(sign * (most + 1), 0, 0) == Approx(sign * (most / 2 + 1)));
    CHECK(on(0, sign * (most + 1), 0.25) == Approx(-sign * most / 2 * 0.75));
  }
}

TEST_CASE("run posterior: runs of other batches are alike the less, the more doublings lie between", "[unit][calib]") {
  RunPrior prior = kNothing;
  prior.split = 0.2;
  prior.alike_batches = 3;
  const std::vector<MeasuredRun> runs{{{.batch = 4}, std::log(1.2)}};
  const auto learnt = RunPosterior::learn(runs, prior).value();
  CHECK(std::exp(learnt.at({.batch = 32}).residual) == Approx(1.117).margin(5e-4));
  CHECK(learnt.at({.batch = 32}).deviation == Approx(std::sqrt(0.04 * (1 - std::exp(-1.0)) + 0.01)));
  CHECK(learnt.at({.batch = 0.5}).residual == Approx(learnt.at({.batch = 32}).residual));
  CHECK(learnt.at({.batch = 4}).residual == Approx(std::log(1.2)));
}

TEST_CASE("run posterior: what replicas share, and what ranks keep, is another part of the step", "[unit][calib]") {
  RunPrior prior = kNothing;
  prior.split = 0.2;
  prior.variant = 0.08;
  const calib::RunSplit plain = over(8);
  calib::RunSplit shared = plain;
  shared.zero = 1;
  calib::RunSplit again = plain;
  again.kept = {3};
  const std::vector<MeasuredRun> runs{{{.split = plain}, std::log(1.2)}};
  const auto learnt = RunPosterior::learn(runs, prior).value();
  for (const calib::RunSplit& other : {shared, again}) {
    CHECK(learnt.at({.split = other}).residual == Approx(std::log(1.2)));
    CHECK(learnt.at({.split = other}).deviation == Approx(std::sqrt(2 * 0.0064 + 0.01)));
  }
  calib::RunSplit both = shared;
  both.kept = again.kept;
  CHECK(learnt.at({.split = both}).deviation == Approx(std::sqrt(4 * 0.0064 + 0.01)));
  // A run with ZeRO tells of ZeRO: wholly of the same, half of another stage, nothing of recomputation.
  const std::vector<MeasuredRun> more{runs[0], {{.servers = 2, .split = shared}, std::log(1.2) + 0.1}};
  const double told = 0.1 * 2 * 0.0064 / (2 * 0.0064 + 0.01);
  const auto by_two = RunPosterior::learn(more, prior).value();
  calib::RunSplit stage3 = shared;
  stage3.zero = 3;
  CHECK(by_two.at({.split = shared}).residual == Approx(std::log(1.2) + told));
  CHECK(by_two.at({.split = both}).residual == Approx(std::log(1.2) + told));
  CHECK(by_two.at({.split = stage3}).residual == Approx(std::log(1.2) + told / 2));
  CHECK(by_two.at({.split = again}).residual == Approx(std::log(1.2)));
}

TEST_CASE("run posterior: other software keeps what is the split's own, and nothing of another split",
          "[unit][calib]") {
  RunPrior prior = kNothing;
  prior.series = 0.1;
  prior.split = 0.2;
  const std::vector<MeasuredRun> runs{{{.split = over(8), .software = 1}, 0.5}};
  const auto learnt = RunPosterior::learn(runs, prior).value();
  // 0.04 of 0.04 + 0.01, with 0.05 - 0.04^2 / 0.05 left and the noise.
  const auto same_split = learnt.at({.split = over(8), .software = 2});
  CHECK(same_split.residual == Approx(0.4));
  CHECK(same_split.deviation == Approx(std::sqrt(0.018 + 0.01)));
  CHECK(learnt.at({.split = over(4), .software = 1}).residual == Approx(0.1));
  CHECK(learnt.at({.split = over(4), .software = 2}).residual == Approx(0));
  CHECK(learnt.at({.split = over(4), .software = 2}).deviation == Approx(std::sqrt(0.05 + 0.01)));
}

TEST_CASE("run posterior: splits on equally many GPUs each keep what they showed, in any order", "[unit][calib]") {
  RunPrior prior = kNothing;
  prior.series = prior.split = 0.2;
  prior.noise = 1e-4;
  const MeasuredRun four{{.gpus_per_server = 8, .split = over(4)}, 0.3};
  const MeasuredRun eight{{.gpus_per_server = 8, .split = over(8)}, -0.2};
  for (const auto& runs : {std::vector{four, eight}, std::vector{eight, four}}) {
    const auto learnt = RunPosterior::learn(runs, prior).value();
    CHECK(learnt.smallest().split == four.point.split);
    CHECK(learnt.base() == 0.3);
    CHECK(learnt.at(four.point).residual == Approx(0.3));
    CHECK(learnt.at(eight.point).residual == Approx(-0.2).margin(1e-5));
    // A third one shares 0.04 with each of the two, which share it too: (0.3 - 0.2) 0.04 / (0.08 + 0.04).
    CHECK(learnt.at({.gpus_per_server = 8, .split = over(2)}).residual == Approx(0.1 / 3).margin(1e-5));
  }
  // Eight GPUs of one server come before those of two.
  const std::vector<MeasuredRun> spread{{{.gpus_per_server = 4, .servers = 2}, 0.5}, {{.gpus_per_server = 8}, 0.1}};
  CHECK(RunPosterior::learn(spread, prior).value().base() == 0.1);
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

TEST_CASE("run posterior: one run that is far from the smallest widens the prior", "[unit][calib]") {
  RunPrior prior = kNothing;
  prior.gpus_path = 0.1;
  const calib::RunPoint asked{.gpus_per_server = 4};
  const auto deviation = [&](double residual) {
    const std::vector<MeasuredRun> runs{{{}, 0}, {{.gpus_per_server = 2}, residual}};
    return RunPosterior::learn(runs, prior).value().at(asked).deviation;
  };
  // 0.01 of the path and 0.01 of noise at two GPUs, 0.02 of the path at four: 0.02 - 0.01^2 / 0.02, and the noise.
  CHECK(deviation(0.1) == Approx(std::sqrt(0.015 + 0.01)));
  const double three = 3 * std::sqrt(0.02);
  CHECK(deviation(three) == Approx(deviation(0.1)));
  // Six deviations: four times the prior's variances, 0.08 - 0.04^2 / 0.05.
  CHECK(deviation(2 * three) == Approx(std::sqrt(0.048 + 0.01)));
}

TEST_CASE("run posterior: two runs that are far from the smallest widen the prior by their mean", "[unit][calib]") {
  RunPrior prior = kNothing;
  prior.gpus_path = 0.1;
  const calib::RunPoint asked{.gpus_per_server = 8};
  const auto deviation = [&](double residual) {
    const std::vector<MeasuredRun> runs{{{}, 0}, {{.gpus_per_server = 2}, residual}, {{.gpus_per_server = 4}, 0}};
    return RunPosterior::learn(runs, prior).value().at(asked).deviation;
  };
  // Of two and four GPUs 0.01, 0.01 and 0.02, noise 0.01 each: the inverse of (0.02 0.01; 0.01 0.03) is (60 -20; -20
  // 40). Of eight 0.03 less (0.01 0.02) (60 -20; -20 40) (0.01 0.02)' = 0.014, and the noise.
  CHECK(deviation(0.1) == Approx(std::sqrt(0.016 + 0.01)));
  // 60 x 0.6^2 = 21.6 is 10.8 for each of the two: 0.324 less 0.206786 by the inverse of (0.118 0.108; 0.108 0.226).
  CHECK(deviation(0.6) == Approx(std::sqrt(0.117214 + 0.01)).epsilon(1e-5));
}

TEST_CASE("run posterior: what two configurations may differ by, every term by itself", "[unit][calib]") {
  RunPrior prior = kNothing;
  const auto between = [&](const calib::RunPoint& x, const calib::RunPoint& y) {
    const double there = calib::deviation_between(x, y, prior);
    CHECK(there == calib::deviation_between(y, x, prior));
    CHECK(calib::deviation_between(x, x, prior) == 0);
    prior = kNothing;
    return there;
  };
  prior.gpus = 0.1;
  CHECK(between({.gpus_per_server = 2}, {.gpus_per_server = 16}) == Approx(0.3));
  prior.gpus_path = 0.1;
  CHECK(between({.gpus_per_server = 2}, {.gpus_per_server = 16}) == Approx(0.1 * std::sqrt(3)));
  prior.network_jump = 0.1;
  CHECK(between({.servers = 1}, {.servers = 16}) == Approx(0.1));
  prior.network_jump = 0.1;
  CHECK(between({.servers = 2}, {.servers = 16}) == 0);
  prior.servers = 0.1;
  CHECK(between({.servers = 1}, {.servers = 16}) == Approx(0.4));
  prior.servers_path = 0.1;
  CHECK(between({.servers = 1}, {.servers = 16}) == Approx(0.2));
  prior.communication = 0.1;
  CHECK(between({.communication = 0.7}, {.communication = 0.2}) == Approx(0.05));
  prior.batch = 0.1;
  CHECK(between({.batch = 64}, {.batch = 16}) == Approx(0.1 * std::sqrt(2)));
  prior.split = 0.1;
  CHECK(between({.split = over(8)}, {.split = over(4)}) == Approx(0.1 * std::sqrt(2)));
  prior.variant = 0.1;
  CHECK(between({.split = {.ranks = {8}, .zero = 1}}, {.split = over(8)}) == Approx(0.1 * std::sqrt(2)));
  prior.variant = 0.1;
  CHECK(between({.split = {.zero = 1}}, {.split = {.kept = {1}}}) == Approx(0.2));
  prior.split = 0.1;
  prior.alike_batches = 3;
  CHECK(between({.batch = 32}, {.batch = 4}) == Approx(0.1 * std::sqrt(2 * (1 - std::exp(-0.5)))));
  prior.series = 0.3;
  CHECK(between({.software = 1}, {.software = 2}) == Approx(0.3 * std::sqrt(2)));
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

TEST_CASE("run posterior: runs that lie apart widen the prior", "[unit][calib]") {
  const std::vector<MeasuredRun> near{{{}, 0}, {{.servers = 2}, 0.02}, {{.servers = 4}, 0.03}};
  const std::vector<MeasuredRun> apart{{{}, 0}, {{.servers = 2}, 0.8}, {{.servers = 4}, 0}};
  const auto small = RunPosterior::learn(near).value();
  const auto large = RunPosterior::learn(apart).value();
  CHECK(large.at({.servers = 2}).residual == Approx(0.8).epsilon(0.02));
  CHECK(large.at({.servers = 8}).deviation > 2 * small.at({.servers = 8}).deviation);
  // What the others make of the second run is near zero, and its own residual is far from it.
  CHECK(large.by_others()[1].residual == Approx(0).margin(0.05));
  CHECK(0.8 / large.by_others()[1].deviation > 6);
  // Twice the same run is one with less noise.
  const std::vector<MeasuredRun> twice{{{}, 0}, {{.servers = 2}, 0.02}, {{.servers = 2}, 0.02}, {{.servers = 4}, 0.03}};
  CHECK(RunPosterior::learn(twice).value().at({.servers = 2}).deviation < small.at({.servers = 2}).deviation);
  CHECK(RunPosterior::learn(twice).value().by_others().size() == 4);
  // One other run says nothing about how far runs lie apart, unless it is far from what the prior leaves room for.
  const auto two = RunPosterior::learn(std::span(apart).first(2)).value();
  const auto calm = RunPosterior::learn(std::span(near).first(2)).value();
  const std::vector<MeasuredRun> slow{{{}, 0}, {{.servers = 2}, 0.2}};
  CHECK(RunPosterior::learn(slow).value().at({.servers = 8}).deviation == calm.at({.servers = 8}).deviation);
  CHECK(two.at({.servers = 8}).deviation > 2 * calm.at({.servers = 8}).deviation);
}
