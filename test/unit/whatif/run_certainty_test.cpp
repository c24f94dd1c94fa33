// How sure a run is to end in time, or to cost no more: what it takes whatever its steps take is known.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "catalog.h"
#include "choose/condition.h"
#include "ddlsim/whatif/find.h"
#include "ddlsim/whatif/predict.h"
#include "ddlsim/whatif/recommend.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using namespace ddlsim::whatif;

namespace {

std::vector<Override> job(std::vector<Override> more = {}) {
  more.insert(more.begin(), {{"model", "resnet50", {}},
                             {"node", "p3.16xlarge", {}},
                             {"training.samples", "1281167", {}},
                             {"training.epochs", "1", {}}});
  return more;
}

const Override kStartUp{"training.startup", "10 h", {}};

}  // namespace

TEST_CASE("find: a long start-up is no less sure for steps that are", "[unit][find]") {
  FindOptions sure;
  sure.sure = 0.99;
  for (const char* words : {"time_to_train <= 11 h", "cost <= 270 $"}) {
    INFO(words);
    const auto answer = find(catalog(), job({kStartUp}), "nodes", parse_condition(words).value(), sure);
    REQUIRE(answer);
    CHECK(answer->reached);
  }
}

TEST_CASE("condition: by hand, the share of a run that goes with its steps", "[unit][find]") {
  const auto asked = [](std::vector<Override> more) {
    return predict(resolve(catalog(), job(std::move(more))).value()).value();
  };
  const Condition in_time = parse_condition("time_to_train <= 11 h").value();
  const auto bare = asked({});
  const auto late = asked({kStartUp, {"training.evaluation", "10 min", {}}});
  const double steps = measure(in_time, bare, 0.9).value() - bare.training->time().in(seconds);
  REQUIRE(steps > 0);
  CHECK(measure(in_time, late, 0.9).value() - late.training->time().in(seconds) == Approx(steps));
  const Condition paid = parse_condition("cost <= 300 $").value();
  CHECK(measure(paid, late, 0.9).value() / late.training->cost->in(dollars) ==
        Approx(measure(in_time, late, 0.9).value() / late.training->time().in(seconds)));
  // The same steps are as likely to leave an hour for the start-up as to take an hour.
  Condition by_steps = in_time;
  by_steps.target = bare.training->time().in(seconds)*1.2;
  Condition whole = in_time;
  whole.target = by_steps.target + (late.training->time() - bare.training->time()).in(seconds);
  CHECK(*probability_of(whole, late) == Approx(*probability_of(by_steps, bare)).epsilon(1e-6));
  whole.target = 3600;  // less than the start-up
  CHECK(*probability_of(whole, late) == 0);
  // Where something fails, what that costs goes with the steps.
  const auto fails = asked({{"failures.mtbf_gpu", "1000 h", {}}, {"checkpoint.bandwidth", "1 GB/s", {}}});
  const double ratio = measure(in_time, bare, 0.9).value() / bare.training->time().in(seconds);
  CHECK(measure(in_time, fails, 0.9).value() / fails.training->time().in(seconds) == Approx(ratio));
}

TEST_CASE("recommend: a deadline beyond a long start-up is kept", "[unit][whatif]") {
  RecommendOptions options;
  options.deadline = hours(11);
  const auto result = recommend(catalog(), job({kStartUp, {"nodes", "1", {}}}), options);
  REQUIRE(result);
  REQUIRE(result->choices.front().in_deadline);
  CHECK(*result->choices.front().in_deadline > 0.99);
}
