#include "ddlsim/whatif/training.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "catalog.h"
#include "ddlsim/whatif/predict.h"
#include "ddlsim/whatif/scenario.h"
#include "overrides.h"

using namespace ddlsim;
using Catch::Matchers::Contains;
using ddlsim::test::catalog;
using namespace ddlsim::whatif;
using ddlsim::test::joined;
using ddlsim::test::overrides;

namespace {

Expected<Scenario> job(std::vector<Override> more) {
  const std::vector<Override> settings = joined(overrides("model resnet50; node p3.16xlarge"), more);
  return resolve(catalog(), settings);
}

std::string refused(std::vector<Override> more) {
  const auto scenario = job(std::move(more));
  REQUIRE_FALSE(scenario);
  return to_string(scenario.error());
}

const StepShape kStep{
    .step = milliseconds(100), .kernels = milliseconds(80), .global_batch = 256, .tokens_per_sample = {}};

}  // namespace

TEST_CASE("training: 90 epochs of ImageNet, by hand", "[unit][whatif]") {
  const Scenario s = job(overrides("training.samples 1281167; training.epochs 90; energy.carbon 400 g/kWh")).value();
  const answer::Training run = train(s, kStep);
  CHECK(run.steps == 90 * 5005);  // 1,281,167 / 256 = 5004.6
  CHECK(run.time().in(seconds) == Approx(45'045));
  CHECK(run.cost.value().in(dollars) == Approx(24.48 * 45'045 / 3600));
  CHECK(run.utilisation == Approx(0.8));
  CHECK(run.energy.in(joules) == Approx(8 * 300.0 * 45'045 * 0.8));
  CHECK(run.energy.in(kilowatt_hours) == Approx(24.024));
  CHECK(run.carbon.value().in(kilograms) == Approx(24.024 * 0.4));
}

TEST_CASE("training: where a GPU's power is known it draws that, and while it waits what it draws idle",
          "[unit][whatif]") {
  const Scenario s = job(overrides("training.steps 1000")).value();
  StepShape shape = kStep;
  shape.power = answer::PowerPart{.working = watts(250), .idle = watts(50), .limit = watts(300)};
  const answer::Training run = train(s, shape);
  CHECK(run.utilisation == Approx(0.8));
  CHECK(run.energy.in(joules) == Approx(8 * (250.0 * 80 + 50.0 * 20)));
}

TEST_CASE("training: a GPU of the catalogue that was measured at its limit draws that", "[unit][whatif]") {
  const auto resolved = [](const char* limit) {
    return resolve(
        catalog(),
        overrides("model llama_3_1_8b; node dgx-h100; parallel.zero 3; training.steps 1000; gpu.power_limit {}",
                  limit));
  };
  const auto asked = [&](const char* limit) { return predict(resolved(limit).value()).value(); };
  Scenario unlimited = resolved("700 W").value();
  unlimited.cluster.node.gpu.tdp = watts(1200);
  const auto free = predict(unlimited).value();
  const auto held = asked("700 W");
  const auto low = asked("400 W");
  REQUIRE((free.power && held.power && low.power));
  CHECK(free.power->slowdown == 1);
  CHECK(free.power->working.in(watts) > 700);
  CHECK(held.power->working.in(watts) == Approx(700));
  CHECK(held.breakdown.compute / free.breakdown.compute == Approx(held.power->slowdown));
  CHECK(held.breakdown.memory / free.breakdown.memory == Approx(1));
  CHECK(low.step_time > held.step_time);
  CHECK(low.training->energy < held.training->energy);
  const Time waiting = low.training->time() * (1 - low.training->utilisation);
  const Energy one = low.power->working * (low.training->time() - waiting) + low.power->idle * waiting;
  CHECK(low.training->energy.in(joules) == Approx(8 * one.in(joules)));
  CHECK_THAT(refused(overrides("gpu.power_limit 200 W")), Contains("nobody measured what work draws on"));
  const auto below = resolve(catalog(), overrides("model resnet50; node dgx-h100; gpu.power_limit 121 W"));
  REQUIRE_FALSE(below);
  CHECK_THAT(to_string(below.error()), Contains("121 W where no kernel runs"));
  // Nobody can have what the card does not take.
  const auto above = resolved("701 W");
  REQUIRE_FALSE(above);
  CHECK_THAT(to_string(above.error()), Contains("may draw 700 W at most, not 701 W"));
}

TEST_CASE("training: shares that somebody stated are reached at any clock", "[unit][whatif]") {
  const auto p =
      predict(resolve(catalog(), overrides("model llama_3_1_8b; node dgx-h100; efficiency.compute 70 %")).value());
  CHECK_FALSE(p.value().power);
}

TEST_CASE("training: start-up, evaluations and checkpoints take their time", "[unit][whatif]") {
  const Scenario s = job({{"training.samples", "25600", {}},  // 100 steps of 100 ms: 10 s an epoch
                          {"training.epochs", "9", {}},
                          {"training.startup", "30 s", {}},
                          {"training.evaluation", "4 s", {}},
                          {"training.evaluate_every", "2", {}},  // after epochs 2, 4, 6, 8
                          {"training.checkpoint", "3 s", {}},
                          {"training.checkpoint_every", "20 s", {}}})  // after 20, 40, 60, 80 s of 90
                         .value();
  const answer::Training run = train(s, kStep);
  CHECK(run.stepping.in(seconds) == Approx(90));
  CHECK(run.evaluation.in(seconds) == Approx(16));
  CHECK(run.checkpoints.in(seconds) == Approx(12));
  CHECK(run.time().in(seconds) == Approx(30 + 90 + 16 + 12));
  CHECK(run.cost.value().in(dollars) == Approx(24.48 * 148 / 3600));
  CHECK(run.energy.in(joules) == Approx(8 * 300.0 * (90 * 0.8 + 16)));
}

TEST_CASE("training: steps are evaluated by the epochs of their data set, or a note says that they are not",
          "[unit][whatif]") {
  const auto run = [](std::vector<Override> more) {
    more.push_back({"training.evaluation", "4 s", {}});
    return job(std::move(more)).value();
  };
  const auto evaluated = [&](std::vector<Override> more) {
    return train(run(std::move(more)), kStep).evaluation.in(seconds);
  };
  // An epoch of ImageNet is 5,005 steps of 256.
  CHECK(evaluated(overrides("training.steps 450450; input.dataset imagenet")) == Approx(90 * 4));
  CHECK(evaluated(overrides("training.steps 450449; input.dataset imagenet")) == Approx(89 * 4));
  const auto note = [&](std::vector<Override> more) {
    const Scenario s = run(std::move(more));
    return no_evaluation_note(s, train(s, kStep)).value_or("");
  };
  CHECK(note(overrides("training.steps 5005; input.dataset imagenet")).empty());
  CHECK_THAT(note(overrides("training.steps 5004; input.dataset imagenet")),
             Contains("the run ends before the first, after 1 epoch"));
  CHECK_THAT(note(overrides("training.steps 5005")), Contains("nobody says how many samples an epoch has"));
  const std::vector<Override> most = overrides("training.samples 25600; training.epochs 0.9");
  CHECK_THAT(note(most), Contains("the run ends before the first"));
  const auto predicted = predict(run(overrides("training.steps 100"))).value();
  CHECK(std::any_of(predicted.notes.begin(), predicted.notes.end(), [](const std::string& one) {
    return one.starts_with("stated, but without effect here: training.evaluation, as nobody says");
  }));
}

TEST_CASE("training: tokens are shared out over sequences, steps stand for themselves", "[unit][whatif]") {
  const auto of_bert = [](std::vector<Override> more) {
    more = joined(overrides("model bert_large; node p3.16xlarge"), more);
    return resolve(catalog(), more).value();
  };
  StepShape step = kStep;
  step.tokens_per_sample = 128;
  CHECK(train(of_bert(overrides("training.tokens 1e6")), step).steps == 31);  // 1e6 / (256 x 128) = 30.5
  CHECK(train(of_bert(overrides("training.tokens 1e6; training.epochs 2.5")), step).steps == 78);
  const answer::Training steps = train(of_bert(overrides("training.steps 1e5")), step);
  CHECK(steps.steps == 100'000);
  CHECK_FALSE(steps.epochs);
}

TEST_CASE("training: predict carries the run and its price", "[unit][whatif]") {
  const auto p = predict(job(overrides("training.samples 1.28e6; price p3.16xlarge=10 $/h")).value()).value();
  REQUIRE(p.training);
  CHECK(p.training->steps == 1'280'000 / (8 * 64));
  CHECK(p.training->time().in(seconds) == Approx(2500 * p.step_time.in(seconds)));
  CHECK(p.price->in(dollars_per_hour) == Approx(10));
  CHECK(p.training->cost->in(dollars) == Approx(10 * p.training->time().in(hours)));
  CHECK_FALSE(predict(job({}).value()).value().training);
  CHECK_THAT(refused(overrides("training.epochs 1")), Contains("1 epoch of how many samples"));
}

TEST_CASE("training: what is said of a run that nobody states is named", "[unit][whatif]") {
  const std::vector<Override> said = overrides("training.startup 5 min; energy.carbon 400 g/kWh");
  CHECK_THAT(predict(job(said).value()).value().notes.back(),
             Contains("stated, but without effect here: training.startup, energy.carbon, as nobody says how long"));
  std::vector<Override> whole = said;
  whole.push_back({"training.steps", "1000", {}});
  CHECK(unused_of_run(job(whole).value()).empty());
  CHECK(unused_of_run(job({}).value()).empty());
  // How often something is done that takes no time.
  whole = joined(whole, overrides("training.evaluate_every 2; training.checkpoint_every 2 h"));
  CHECK(unused_of_run(job(whole).value()) == "training.evaluate_every, training.checkpoint_every");
  CHECK_THAT(predict(job(whole).value()).value().notes.back(), Contains("as nobody says how long one of them takes"));
  whole = joined(whole, overrides("training.evaluation 40 s; training.checkpoint 30 s"));
  CHECK(unused_of_run(job(whole).value()).empty());
}

TEST_CASE("training: a price of another server says nothing here, a bare one does", "[unit][whatif]") {
  CHECK(job(overrides("price dgx-a100=12 $/h")).value().cluster.node.price->in(dollars_per_hour) == Approx(24.48));
  CHECK(job(overrides("price dgx-a100=12 $/h, P3.16XLARGE=7 $/h")).value().cluster.node.price->in(dollars_per_hour) ==
        Approx(7));
  CHECK(job(overrides("price 9 $/h")).value().price_stated);
  CHECK_THAT(refused(overrides("price p3.16xlarge=10 $/h, p3.16xlarge=20 $/h")), Contains("two prices of p3.16xlarge"));
  CHECK_THAT(refused(overrides("price 10 $/h, 20 $/h")), Contains("two prices of one server"));
  CHECK(job(overrides("price 10 $/h, p3.16xlarge=20 $/h")).value().cluster.node.price->in(dollars_per_hour) ==
        Approx(20));
  // A stated price is what is paid, spot or not.
  CHECK(price_of(job(overrides("price 9 $/h; price.spot yes")).value())->in(dollars_per_hour) == Approx(9));
}

TEST_CASE("training: prices of other servers alone are said to have no effect", "[unit][whatif]") {
  const auto note = [](const char* price) {
    const auto notes = predict(job(overrides("price {}", price)).value()).value().notes;
    const auto found = std::find_if(notes.begin(), notes.end(), [](const std::string& one) {
      return one.starts_with("stated, but without effect here: the price of");
    });
    return found == notes.end() ? std::string() : *found;
  };
  CHECK_THAT(note("dgx-a100=12 $/h, dgx-h100=98 $/h"),
             Contains("the price of dgx-a100, dgx-h100; the job's servers are p3.16xlarge"));
  CHECK(note("dgx-a100=12 $/h, p3.16xlarge=10 $/h").empty());
  CHECK(note("10 $/h").empty());
}

TEST_CASE("training: a run outlasts what a network reaches for minutes", "[unit][whatif]") {
  const auto rate = [](std::vector<Override> more) {
    more = joined(overrides("model resnet50; node g4dn.xlarge"), more);
    return resolve(catalog(), more).value().cluster.node.network.bandwidth.in(gigabits_per_second);
  };
  CHECK(rate({}) == Approx(25));
  CHECK(rate(overrides("training.steps 1000")) == Approx(5));
  CHECK(rate(overrides("training.steps 1000; network 10 Gb/s")) == Approx(10));  // as stated
  CHECK(rate(overrides("input.dataset imagenet")) == Approx(5));
}

TEST_CASE("training: what makes no run is refused", "[unit][whatif]") {
  CHECK_THAT(refused(overrides("training.epochs 90")),
             Contains("90 epochs of how many samples") && Contains("--samples"));
  CHECK_THAT(refused(overrides("training.samples 10; training.tokens 10")), Contains("state one of them"));
  CHECK_THAT(refused(overrides("training.steps 10; training.epochs 1")), Contains("training.steps"));
  CHECK_THAT(refused(overrides("training.tokens 1e6")), Contains("no sequence of tokens"));
  CHECK_THAT(refused(overrides("training.samples 1.5")), Contains("'1.5' is not a whole number"));
  CHECK_THAT(refused(overrides("training.samples 0")), Contains("out of range"));
  CHECK_THAT(refused(overrides("training.samples -5")), Contains("out of range"));
  CHECK_THAT(refused(overrides("training.epochs 0; training.samples 1")), Contains("not above 0"));
  CHECK_THAT(refused(overrides("price 12")), Contains("unit") && Contains("$/h"));
  CHECK_THAT(refused(overrides("price nowhere=12 $/h")), Contains("nowhere"));
  CHECK_THAT(refused(overrides("price p3.16xlarge=-1 $/h")), Contains("negative"));
  CHECK_THAT(refused(overrides("price.spot yes")), Contains("spot price of p3.16xlarge"));
  CHECK_THAT(refused(overrides("energy.carbon 400")), Contains("g/kWh"));
}

TEST_CASE("training: utilisation is what the energy says", "[unit][whatif]") {
  const auto check = [](std::vector<Override> more) {
    const answer::Prediction p = predict(job(std::move(more)).value()).value();
    const answer::Training& run = *p.training;
    CHECK(run.utilisation == Approx(run.energy.in(joules) / (8 * 300.0 * run.time().in(seconds))));
    return run.utilisation;
  };
  const double steps = check(overrides("training.steps 10000"));
  CHECK(steps > 0.5);
  CHECK(check(overrides("training.steps 10000; training.startup 10 h")) < 0.2);
  CHECK(check(overrides("training.steps 10000; failures.mtbf_gpu 20 h; checkpoint.write 2 min; failures.restart 1 h")) <
        steps);
}

TEST_CASE("training: the first epoch reads from storage", "[unit][whatif]") {
  const Scenario s = job(overrides("input.dataset imagenet; training.epochs 3; precision fp16")).value();
  const answer::Prediction p = predict(s).value();
  Scenario cold = s;
  cold.input.epoch = plan::Epoch::kFirst;
  const double first = predict(cold).value().step_time.in(seconds);
  const double later = p.step_time.in(seconds);
  REQUIRE(first > 2 * later);
  const auto of_epoch = static_cast<double>(p.training->steps) / 3;
  CHECK(p.training->stepping.in(seconds) == Approx(of_epoch * (first + 2 * later)));
  // Kernels are the same in both: 3 epochs take 3 times the energy of one.
  const Scenario once = job(overrides("input.dataset imagenet; training.epochs 1; precision fp16")).value();
  const answer::Prediction one = predict(once).value();
  CHECK(p.training->energy.in(joules) == Approx(3 * one.training->energy.in(joules)));
  const double kernels = (p.breakdown.compute + p.breakdown.memory).in(seconds);
  CHECK(one.training->energy.in(joules) == Approx(8 * 300.0 * kernels * of_epoch));
  CHECK(one.training->utilisation == Approx(kernels / first));
  // Who says which epoch is meant has it throughout.
  CHECK_FALSE(in_first_epoch(job(overrides("input.dataset imagenet; training.epochs 3; input.epoch later")).value()));
}

TEST_CASE("training: several servers fill their caches over epochs, each another part", "[unit][whatif]") {
  const auto extra = [](const char* nodes, const char* epochs, const char* cache) {
    const Scenario s =
        job(overrides("input.dataset imagenet; nodes {}; input.cache {}; training.epochs {}", nodes, cache, epochs))
            .value();
    // An epoch is 1,281,167 images: 5,005 steps of 256. Cold steps take 3 times as long as warm ones.
    StepShape shape = kStep;
    shape.first_epoch_step = milliseconds(300);
    return (train(s, shape).stepping - shape.step * static_cast<double>(train(s, shape).steps)).in(seconds) / 5005;
  };
  CHECK(extra("1", "4", "page") == Approx(0.2));
  // Of four servers 3/4, 9/16 of 300 ms, then less than 100: 225, 168.75, 126.5625; the fifth takes what all take.
  CHECK(extra("4", "2", "page") == Approx(0.2 + 0.125));
  CHECK(extra("4", "4", "page") == Approx(0.2 + 0.125 + 0.06875 + 0.0265625));
  CHECK(extra("4", "40", "page") == Approx(extra("4", "4", "page")));
  CHECK(extra("4", "1.5", "page") == Approx(0.2 + 0.125 / 2).epsilon(1e-3));
  // What comes over the network from whom has it is read once.
  CHECK(extra("4", "4", "partitioned") == Approx(0.2));
}
