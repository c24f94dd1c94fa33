// What `recommend` says of ways that fit nowhere, of more servers, of spares and of names that are none.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "catalog.h"
#include "ddlsim/answer/plan_words.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/plan_search.h"
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

bool says(const std::vector<std::string>& notes, const std::string& text) {
  return std::any_of(notes.begin(), notes.end(),
                     [&](const std::string& note) { return note.find(text) != std::string::npos; });
}

std::vector<Override> with(std::vector<Override> job, const answer::PlanSettings& settings) {
  for (const auto& [path, value] : settings) job.push_back({path, value, {}});
  return job;
}

answer::PlanChoice found_plans(const std::vector<Override>& job) {
  return search_plans(catalog(), job, {.explain = false}, [] { return Time::zero(); }).value();
}

/// Of a choice's strategy: "dp 4".
std::string replicas_of(const answer::ServerChoice& choice) {
  const std::size_t at = choice.strategy.find("dp ");
  return at == std::string::npos ? "1" : choice.strategy.substr(at + 3, choice.strategy.find(',', at) - at - 3);
}

}  // namespace

TEST_CASE("recommend: a model that no GPU holds is split by the fastest plan of each cluster", "[unit][whatif]") {
  const auto job = language("llama_3_1_8b", {{"precision", "bf16", {}}});
  const auto result = recommend(catalog(), job, {}).value();
  REQUIRE(result.choices.size() == 1);
  const auto& choice = result.choices.front();
  CHECK(says(result.notes, "plans: the fastest legal one of each cluster"));
  const auto plans = found_plans(job);
  CHECK(choice.step / plans.best.prediction.step_time == Approx(1));
  CHECK(choice.micro_batch == std::stoll(answer::value_of(plans.best.plan, "batch")));
  const std::string words = answer::words_for(plans.best.plan);
  CHECK_THAT(words, Contains(choice.strategy.substr(0, choice.strategy.find(','))));
  // The settings of the choice make it again.
  const auto p = predict(resolve(catalog(), with(job, choice.settings)).value()).value();
  CHECK(p.fits == true);
  CHECK(p.step_time == choice.step);
}

TEST_CASE("recommend: over several servers a plan may be a pipeline", "[unit][whatif]") {
  const auto job =
      language("llama_3_1_70b", {{"precision", "bf16", {}}, {"nodes", "4", {}}, {"node", "p4d.24xlarge", {}}});
  const auto result = recommend(catalog(), job, {}).value();
  const auto& choice = result.choices.front();
  CHECK_THAT(choice.strategy, Contains("pp "));
  CHECK(choice.passes * choice.micro_batch * std::stoll(replicas_of(choice)) == 64);
  const auto p = predict(resolve(catalog(), with(job, choice.settings)).value()).value();
  CHECK(p.step_time == choice.step);
}

TEST_CASE("recommend: a plan keeps the strategy that is stated", "[unit][whatif]") {
  const auto job = language("llama_3_1_8b",
                            {{"precision", "bf16", {}}, {"node", "p4d.24xlarge", {}}, {"strategy", "pytorch-ddp", {}}});
  const auto result = recommend(catalog(), job, {}).value();
  const auto& choice = result.choices.front();
  const auto p = predict(resolve(catalog(), with(job, choice.settings)).value()).value();
  CHECK(p.step_time == choice.step);
  CHECK(choice.step == found_plans(job).best.prediction.step_time);
}

TEST_CASE("recommend: plans have what is stated", "[unit][whatif]") {
  const auto strategy = [](const std::vector<Override>& more) {
    auto job = language("llama_3_1_8b", {{"precision", "bf16", {}}, {"node", "p4d.24xlarge", {}}});
    job.insert(job.end(), more.begin(), more.end());
    return recommend(catalog(), job, {}).value().choices.front().strategy;
  };
  CHECK_THAT(strategy({{"parallel.tensor", "4", {}}}), Contains("tp 4"));
  CHECK_THAT(strategy({{"parallel.zero", "3", {}}, {"parallel.tensor", "1", {}}, {"parallel.pipeline", "1", {}}}),
             Contains("zero 3") && !Contains("tp ") && !Contains("pp "));
  CHECK_THAT(strategy({{"parallel.pipeline", "8", {}}, {"parallel.schedule", "1f1b,gpipe", {}}}),
             Contains("pp 8") && (Contains("1f1b") || Contains("gpipe")));
}

TEST_CASE("recommend: a model that fits whole is split where plans of all are asked for", "[unit][whatif]") {
  std::vector<Override> job = language("bert_large", {{"node", "p3.16xlarge", {}}, {"nodes", "2", {}}});
  job.push_back({"precision", "fp16", {}});
  job.push_back({"global_batch", "4096", {}});
  const auto whole = recommend(catalog(), job, {}).value();
  REQUIRE(whole.choices.size() == 1);
  CHECK(whole.choices.front().strategy == "all-reduce");
  RecommendOptions options;
  options.plan_all = true;
  const auto split = recommend(catalog(), job, options).value();
  REQUIRE(split.choices.size() == 2);  // its plan, and as before
  const auto& best = split.choices[split.fastest];
  CHECK(best.step < whole.choices.front().step * 0.9);
  CHECK(says(whole.notes, "plans: 2 x p3.16xlarge would take " + to_text(best.step)));
  CHECK_FALSE(says(split.notes, "would take"));
  // What is stated is not split.
  job.push_back({"strategy", "allreduce", {}});
  CHECK_FALSE(says(recommend(catalog(), job, {}).value().notes, "would take"));
}

TEST_CASE("recommend: as many threads as there are search alike", "[unit][whatif]") {
  std::vector<Override> job = language("llama_3_1_8b", {{"precision", "bf16", {}}});
  std::erase_if(job, [](const Override& one) { return one.path == "nodes"; });
  const auto answered = [&](int threads) {
    RecommendOptions options = most(4);
    options.threads = threads;
    std::int64_t searched = 0;
    options.progress = [&](std::int64_t done, std::int64_t all) { searched = done == all ? all : searched; };
    std::string text;
    const auto result = recommend(catalog(), job, options).value();
    for (const auto& one : result.choices) {
      text += std::to_string(one.nodes) + " " + one.strategy + " " + std::to_string(one.step.in(seconds)) + "\n";
    }
    CHECK(searched == 3);  // 1, 2 and 4 servers
    return text;
  };
  CHECK(answered(3) == answered(1));
}

TEST_CASE("recommend: searches end by the limit, and that is said", "[unit][whatif]") {
  RecommendOptions options;
  double now = 0;
  options.clock = [&] { return seconds(now += 0.01); };
  options.limit = seconds(1);
  auto job = language("llama_3_1_70b", {{"precision", "bf16", {}}, {"node", "p4de.24xlarge", {}}, {"nodes", "8", {}}});
  const auto ended = recommend(catalog(), job, options);
  CHECK((ended
             ? says(ended->notes, "plans: 1 of 1 searches were ended by the limit of 1 s")
             : to_string(ended.error()).find("no plan was found in time on 8 servers (--limit)") != std::string::npos));
  options.limit = seconds(1e6);
  CHECK_FALSE(says(recommend(catalog(), job, options).value().notes, "searches were ended"));
}

TEST_CASE("recommend: what fits in no plan says what a GPU holds at least", "[unit][whatif]") {
  const auto refused = [](const std::vector<Override>& job) {
    const auto result = recommend(catalog(), job, {});
    REQUIRE_FALSE(result);
    return to_string(result.error());
  };
  // In fp32 70 billion weights, gradients and two states of 4 bytes each are 16 bytes: 141 GB on each of 8 GPUs.
  CHECK_THAT(refused(language("llama_3_1_70b")),
             Contains("no server can run this job in any plan") &&
                 Contains("memory: at least 141.1 GB needed in whatever plan on 1 server, NVIDIA A10G has 23.83 GB"));
  // Runs that say no plan are of none.
  CHECK_THAT(refused(language("llama_3_1_8b", {{"precision", "bf16", {}}, {"measured.step", "80 s", {}}})),
             Contains("measured.step is of one plan, and a search compares many"));
  // A job that no plan is for says what the job itself lacks.
  CHECK_THAT(refused(language("llama_3_1_8b", {{"precision", "bf16", {}}, {"straggler", "1.5", {}}})),
             Contains("memory: 226.2 GB needed for a pass of 1 sequence") && !Contains("whatever plan"));
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
