// What `recommend` says of ways that fit nowhere, of more servers, of spares and of names that are none.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "catalog.h"
#include "ddlsim/whatif/predict.h"
#include "ddlsim/whatif/recommend.h"

using namespace ddlsim;
using Catch::Matchers::Contains;
using ddlsim::test::catalog;
using namespace ddlsim::whatif;

namespace {

std::vector<Override> images(std::vector<Override> more = {}) {
  more.insert(more.begin(),
              {{"model", "resnet50", {}}, {"training.samples", "1281167", {}}, {"training.epochs", "90", {}}});
  return more;
}

std::vector<Override> language(const char* model, std::vector<Override> more = {}) {
  more.insert(more.begin(), {{"model", model, {}},
                             {"training.tokens", "1e9", {}},
                             {"global_batch", "64", {}},
                             {"node", "g5.48xlarge", {}},
                             {"nodes", "1", {}}});
  return more;
}

RecommendOptions most(std::int64_t nodes) {
  RecommendOptions options;
  options.max_nodes = nodes;
  return options;
}

std::string helps(const answer::Recommendation& result, const std::string& text) {
  for (const std::string& line : result.would_help) {
    if (line.find(text) != std::string::npos) return line;
  }
  return "";
}

}  // namespace

TEST_CASE("recommend: tensor parallelism with recomputation is tried last", "[unit][whatif]") {
  const auto result = recommend(catalog(), language("llama_3_1_8b"), {});
  REQUIRE(result);
  for (const auto& choice : result->choices) {
    CHECK_THAT(choice.strategy, Contains("tp ") && Contains("recompute full"));
  }
  std::vector<Override> again{{"model", "llama_3_1_8b", {}}};
  for (const auto& [path, value] : result->choices.front().settings) again.push_back({path, value, {}});
  const auto p = predict(resolve(catalog(), again).value()).value();
  CHECK(p.fits == true);
  CHECK(p.step_time / result->choices.front().step == Approx(1));
}

TEST_CASE("recommend: what fits no way is said by the way that comes nearest", "[unit][whatif]") {
  const auto result = recommend(catalog(), language("llama_3_1_70b"), {});
  REQUIRE_FALSE(result);
  CHECK_THAT(to_string(result.error()),
             Contains("in any of the ways tried") && Contains("none of the ") &&
                 Contains("ways tried fits; nearest tp 8, zero 1, recompute full: memory: "));
}

TEST_CASE("recommend: more servers are advised where they are faster", "[unit][whatif]") {
  const std::vector<Override> job = images({{"node", "p3.16xlarge", {}}});
  for (const std::int64_t nodes : {1, 2, 4, 8}) {
    INFO(nodes);
    const auto now = recommend(catalog(), job, most(nodes)).value();
    const auto twice = recommend(catalog(), job, most(2 * nodes)).value();
    const bool faster = twice.choices[twice.fastest].time() < now.choices[now.fastest].time();
    CHECK(helps(now, "--max-nodes").empty() == !faster);
  }
  const auto stated = recommend(catalog(), images({{"node", "p3.16xlarge", {}}, {"nodes", "16", {}}}), {}).value();
  CHECK(helps(stated, "--max-nodes").empty());
}

TEST_CASE("recommend: a price that is level counts the spares", "[unit][whatif]") {
  RecommendOptions own;
  own.providers.emplace();
  const auto asked = [&](const std::string& price) {
    return recommend(catalog(),
                     images({{"price", "p3.16xlarge=10 $/h, p4d.24xlarge=" + price + " $/h", {}},
                             {"nodes", "2", {}},
                             {"failures", "llama3-405b", {}},
                             {"failures.spares", "1", {}},
                             {"checkpoint.bandwidth", "1 GB/s", {}}}),
                     own)
        .value();
  };
  const auto result = asked("20");
  REQUIRE(result.choices[result.cheapest].node == "p3.16xlarge");
  CHECK(result.choices[result.cheapest].spares == 1);
  const std::string line = helps(result, "p4d.24xlarge below ");
  CHECK_THAT(line, Contains("instead of 20 $/h"));
  const double level = std::stod(line.substr(line.find("below ") + 6));
  const auto cheapest = [&](double price) {
    const auto one = asked(std::to_string(price));
    return one.choices[one.cheapest].node;
  };
  CHECK(cheapest(level * 0.999) == "p4d.24xlarge");
  CHECK(cheapest(level * 1.001) == "p3.16xlarge");
}

TEST_CASE("recommend: a price of no server is said", "[unit][whatif]") {
  RecommendOptions own;
  own.providers.emplace();
  const auto result = recommend(catalog(), images({{"price", "dgx-a10=1 $/h", {}}}), own);
  REQUIRE_FALSE(result);
  CHECK_THAT(to_string(result.error()), Contains("dgx-a10") && Contains("dgx-a100"));
}
