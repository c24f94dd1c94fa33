// What a search over plans says of the best: what would change it, what comes next, what others' schedules would take;
// and that it says something when its time is over.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "catalog.h"
#include "chosen_plan.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/plan_search.h"
#include "ddlsim/whatif/predict.h"
#include "search/plan_ranking.h"
#include "tiny_transformer.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using ddlsim::test::chosen;
using ddlsim::test::no_time;
using ddlsim::test::TinyTransformer;
using ddlsim::test::value_of;
using namespace ddlsim::whatif;
using Catch::Matchers::Contains;

namespace {

std::vector<Override> with(std::vector<Override> settings, std::vector<Override> more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

std::vector<Override> overrides(const answer::PlanSettings& plan) {
  std::vector<Override> all;
  for (const auto& [path, value] : plan) all.push_back({path, value, {}});
  return all;
}

const answer::PlanSensitivity& sensitivity_in(const answer::PlanChoice& choice, std::string_view change) {
  const auto found = std::find_if(choice.sensitivity.begin(), choice.sensitivity.end(),
                                  [&](const auto& one) { return one.change == change; });
  REQUIRE(found != choice.sensitivity.end());
  return *found;
}

bool has_note(const answer::PlanChoice& choice, const std::string& words) {
  return std::any_of(choice.notes.begin(), choice.notes.end(),
                     [&](const std::string& note) { return note.find(words) != std::string::npos; });
}

/// Servers and ranks; replicas follow.
bool same_degrees(const answer::PlanSettings& a, const answer::PlanSettings& b) {
  constexpr std::array kDegrees{"nodes",           "parallel.tensor",       "parallel.pipeline", "parallel.context",
                                "parallel.expert", "parallel.expert_tensor"};
  return std::all_of(kDegrees.begin(), kDegrees.end(),
                     [&](const char* path) { return value_of(a, path) == value_of(b, path); });
}

}  // namespace

TEST_CASE("plan: a best plan that fits tightly says so, and what one takes that does not", "[unit][whatif]") {
  const TinyTransformer model(false);
  const std::vector<Override> settings = model.on({{"parallel.context", "1", {}}});
  const answer::MemoryLedger best = chosen(settings).best.prediction.memory;
  CHECK_FALSE(best.tight);
  const DataSize size = best.tensors() * 1.04 + best.context;
  const auto tight = chosen(with(settings, {{"gpu.memory_size", std::to_string(size.in(bytes)) + " B", {}}}));
  REQUIRE(tight.best.prediction.memory.tight);
  CHECK(has_note(tight, "the best fits tightly: "));
  CHECK(has_note(tight, "; the best that leaves it as much ("));
  CHECK_FALSE(has_note(chosen(settings), "fits tightly"));
}

TEST_CASE("plan choice: fewer GPUs of a server may be faster, where few numbers divide all of them", "[unit][whatif]") {
  const std::vector<Override> rack{
      {"model", "resnet50", {}}, {"node", "gb200-nvl72", {}}, {"global_batch", "1024", {}}, {"precision", "bf16", {}}};
  const answer::PlanChoice choice = chosen(rack);
  const auto fewer = sensitivity_in(choice, "64 of a server's 72 GPUs");
  CHECK_FALSE(fewer.same);
  CHECK(fewer.settings == answer::PlanSettings{{"gpus_per_node", "64"}});
  CHECK(fewer.reason.empty());
  CHECK(fewer.step_time < choice.best.prediction.step_time);
  // As by a search of its own.
  const auto alone = chosen(with(rack, {{"gpus_per_node", "64", {}}}));
  CHECK(fewer.plan == alone.best.plan);
  CHECK(fewer.step_time == alone.best.prediction.step_time);
  CHECK(fewer.memory_per_gpu == alone.best.prediction.memory_per_gpu);
  // Not where it is stated, where it is slower, or where something else is asked for.
  const auto is_about_gpus = [](const answer::PlanChoice& one) {
    return std::any_of(one.sensitivity.begin(), one.sensitivity.end(), [](const answer::PlanSensitivity& change) {
      return change.change.find("of a server's") != std::string::npos;
    });
  };
  CHECK(is_about_gpus(choice));
  CHECK_FALSE(is_about_gpus(chosen(with(rack, {{"gpus_per_node", "72", {}}}))));
  CHECK_FALSE(is_about_gpus(alone));
  CHECK_FALSE(is_about_gpus(chosen(with(rack, {{"global_batch", "4608", {}}}))));
  CHECK_FALSE(is_about_gpus(chosen(rack, {.objective = answer::PlanObjective::kMemory})));
}

TEST_CASE("plan choice: where no plan is legal on a server's GPUs, fewer of them that have one are named",
          "[unit][whatif]") {
  const std::vector<Override> rack{{"model", "resnet50", {}},
                                   {"node", "gb200-nvl72", {}},
                                   {"global_batch", "1024", {}},
                                   {"parallel.data", "64", {}}};
  const auto refused = search_plans(catalog(), rack, {}, no_time);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().notes.back(), Contains("64 of a server's 72 GPUs would do: dp 64, ") &&
                                               Contains(", step ") && Contains(": gpus_per_node=64"));
}

TEST_CASE("plan choice: another network changes no plan's memory, so it does not change which holds least",
          "[unit][whatif]") {
  const std::vector<Override> settings{{"model", "llama_3_1_8b", {}},
                                       {"node", "dgx-h100", {}},
                                       {"nodes", "2", {}},
                                       {"parallel.tensor", "16", {}},
                                       {"global_batch", "256", {}}};
  const answer::PlanChoice choice = chosen(settings, {.objective = answer::PlanObjective::kMemory});
  REQUIRE(choice.sensitivity.size() == 3);
  for (const answer::PlanSensitivity& one : choice.sensitivity) {
    CHECK(one.same);
    CHECK(one.plan == choice.best.plan);
    CHECK(one.memory_per_gpu == choice.best.prediction.memory_per_gpu);
  }
}

TEST_CASE("plan choice: by cost, what would change the choice is the cheapest plan then", "[unit][whatif]") {
  const std::vector<Override> settings{
      {"model", "llama_3_1_8b", {}}, {"node", "dgx-h100", {}},           {"nodes", "2", {}},
      {"parallel.context", "1", {}}, {"parallel.recompute", "none", {}}, {"parallel.schedule", "zb-h1", {}},
      {"global_batch", "256", {}}};
  const PlanOptions options{.objective = answer::PlanObjective::kCost, .price = dollars_per_hour(98), .nodes_up_to = 2};
  const auto half = sensitivity_in(chosen(settings, options), "NVLink half as fast");
  const auto then = chosen(with(settings, {{"nvlink", "225 GB/s", {}}}), options);
  CHECK(half.plan == then.best.plan);
  CHECK(value_of(half.plan, "nodes") == "1");
  CHECK(half.cost->in(dollars) == Approx(then.best.cost->in(dollars)));
  CHECK_THAT(then.title, Catch::Matchers::Contains(" on up to 2 x "));  // the best is on one
  // The fastest of two servers is faster, and dearer.
  CHECK(half.step_time == then.best.prediction.step_time);
}

TEST_CASE("plan choice: slots that bound a faster network are named, with the step of both", "[unit][whatif]") {
  const std::vector<Override> settings{
      {"model", "gpt3_175b", {}},   {"node", "dgx-a100-80gb", {}},      {"nodes", "128", {}},
      {"global_batch", "1536", {}}, {"parallel.tensor", "8", {}},       {"parallel.pipeline", "8", {}},
      {"batch", "4", {}},           {"parallel.context", "1", {}},      {"parallel.schedule", "zbv", {}},
      {"parallel.zero", "1", {}},   {"parallel.recompute", "none", {}}, {"parallel.sequence", "yes", {}},
      {"precision", "bf16", {}}};
  const answer::PlanChoice choice = chosen(settings);
  const auto twice = sensitivity_in(choice, "network twice as fast");
  CHECK(twice.same);
  Scenario both = resolve(catalog(), with(settings, overrides(choice.best.plan))).value();
  hardware::Node& node = both.cluster.node;
  for (Bandwidth* rate : {&node.network.bandwidth, &node.pcie.bandwidth, &node.host_link.bandwidth}) {
    *rate = *rate * 2.0;
  }
  const Time step = predict(both)->step_time;
  CHECK(step < twice.step_time * 0.99);
  CHECK_THAT(twice.reason, Contains("pcie, 31.51 GB/s") && Contains("both twice as fast: step " + to_text(step)));
  CHECK(sensitivity_in(choice, "network half as fast").reason.empty());
  // Where slots have room a faster network needs no reason.
  const auto wide = chosen(with(settings, {{"pcie", "200 GB/s", {}}}));
  CHECK(sensitivity_in(wide, "network twice as fast").reason.empty());
}

TEST_CASE("plan choice: the next best differ from better ones in ranks, or hold less", "[unit][whatif]") {
  const TinyTransformer wide(false, 4, 16384);
  const auto settings = wide.on({{"parallel.context", "1", {}}});
  const auto choice = chosen(settings, {.next = 8, .explain = false});
  REQUIRE(choice.next.size() >= 5);  // of the 72 that are looked through as many differ
  REQUIRE(choice.next.size() <= 8);
  std::vector<answer::PlannedJob> shown{choice.best};
  shown.insert(shown.end(), choice.next.begin(), choice.next.end());
  int again = 0;  // with ranks that a better one has
  for (std::size_t i = 0; i < shown.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      CHECK(shown[j].prediction.step_time <= shown[i].prediction.step_time);
      if (!same_degrees(shown[i].plan, shown[j].plan)) continue;
      CHECK(shown[i].prediction.memory_per_gpu < shown[j].prediction.memory_per_gpu * 0.98);
      ++again;
    }
  }
  CHECK(again > 0);
  CHECK(again < 36);
}

TEST_CASE("plan choice: the ranking is the same in whatever order plans come", "[unit][whatif]") {
  const auto tried = [](std::uint32_t number, double step, double memory, Split split) {
    Tried one{.id = {0, number}, .split = split, .step = seconds(step), .memory = bytes(memory)};
    one.value = step;
    one.second = memory;
    return one;
  };
  const Split plain{};
  Split zero = plain;
  zero.zero = 1;
  Split twice = zero;
  twice.recompute = plan::Recompute::kSelective;
  Split other = plain;
  other.tensor = 2;
  Split full = plain;
  full.recompute = plan::Recompute::kFull;
  // 2 and 3 hold 1 % less than 1 and as much; 4 has other ranks; 5 holds 10 % less than 1.
  const std::vector<Tried> all{tried(1, 1, 100, plain), tried(2, 1.001, 99, zero), tried(3, 3, 100, twice),
                               tried(4, 4, 120, other), tried(5, 5, 90, full)};
  std::vector<std::size_t> order{0, 1, 2, 3, 4};
  do {
    PlanRanking ranking(2);
    for (const std::size_t i : order) ranking.keep(all[i]);
    REQUIRE(ranking.best().size() == 3);
    CHECK(ranking.best()[0].id == all[0].id);
    CHECK(ranking.best()[1].id == all[3].id);
    CHECK(ranking.best()[2].id == all[4].id);
    CHECK(ranking.front().size() == 3);
    CHECK(ranking.last()->id == all[4].id);
    CHECK(ranking.megatron()->id == all[0].id);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("plan choice: what would change it says what to type", "[unit][whatif]") {
  // Of a server with a network of its own a rate alone would be another kind, of other ports.
  for (const auto& [node, network, transport] :
       {std::tuple{"p4d.24xlarge", "4 x 50 Gb/s", "efa"}, std::tuple{"dgx1-v100", "4 x 50 Gb/s", "infiniband"}}) {
    const std::vector<Override> settings{{"model", "bert_large", {}},  {"node", node, {}},
                                         {"nodes", "4", {}},           {"global_batch", "512", {}},
                                         {"parallel.zero", "0", {}},   {"parallel.pipeline", "1", {}},
                                         {"parallel.context", "1", {}}};
    const answer::PlanChoice choice = chosen(settings);
    const auto half = sensitivity_in(choice, "network half as fast");
    CHECK(half.settings == answer::PlanSettings{{"network", network}, {"network.transport", transport}});
    for (const answer::PlanSensitivity& one : choice.sensitivity) {
      if (one.settings.empty()) continue;
      INFO(one.change);
      const auto typed = with(with(settings, overrides(one.plan)), overrides(one.settings));
      CHECK(predict(resolve(catalog(), typed).value())->step_time == one.step_time);
    }
  }
  // Of a rate that was stated the ports are counted, or twice of it would be more of them.
  const answer::PlanChoice by_rate = chosen({{"model", "resnet50", {}},
                                             {"node", "dgx1-v100", {}},
                                             {"nodes", "2", {}},
                                             {"network", "100 Gb/s", {}},
                                             {"global_batch", "512", {}}});
  CHECK(sensitivity_in(by_rate, "network twice as fast").settings == answer::PlanSettings{{"network", "1 x 200 Gb/s"}});
}

TEST_CASE("plan choice: a list of values is what plans choose among", "[unit][whatif]") {
  const TinyTransformer model(false);
  const auto settings = model.on({{"parallel.pipeline", "2", {}},
                                  {"parallel.tensor", "1", {}},
                                  {"parallel.context", "1", {}},
                                  {"batch", "1", {}}});
  const PlanOptions all{.next = 1000, .explain = false};
  const auto searched = [&](const char* path, const char* value) {
    return chosen(with(settings, {{path, value, {}}}), all).searched;
  };
  for (const auto& [path, list, first, second] :
       {std::tuple{"parallel.schedule", "interleaved, 1f1b", "1f1b", "interleaved"},
        std::tuple{"parallel.recompute", "full,none", "none", "full"},
        std::tuple{"parallel.zero", "0,1,0", "0", "1"}}) {
    CHECK(searched(path, list) == searched(path, first) + searched(path, second));
    const auto choice = chosen(with(settings, {{path, "none", {}}, {path, list, {}}}), all);
    for (const auto& one : choice.next) {
      const std::string value = value_of(one.plan, path);
      CHECK((value == first || value == second));
    }
    const auto best = std::min(chosen(with(settings, {{path, first, {}}}), all).best.prediction.step_time,
                               chosen(with(settings, {{path, second, {}}}), all).best.prediction.step_time);
    CHECK(choice.best.prediction.step_time == best);
  }
  const auto wrong = search_plans(catalog(), with(settings, {{"parallel.schedule", "1f1b,zigzag", {}}}), all, no_time);
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().code == ErrorCode::kNotFound);
  CHECK_THAT(to_string(wrong.error()), Contains("parallel.schedule: unknown schedule 'zigzag'") && Contains("zb-h1"));
  const auto none = search_plans(catalog(), with(settings, {{"parallel.zero", "1,4", {}}}), all, no_time);
  REQUIRE_FALSE(none);
  CHECK_THAT(to_string(none.error()), Contains("parallel.zero"));
}

TEST_CASE("plan choice: what Megatron-LM's schedules would take is told where the best has another", "[unit][whatif]") {
  const TinyTransformer model(false);
  // Launches would hide what stages wait.
  const auto settings = model.on({{"parallel.pipeline", "4", {}}, {"batch", "1", {}}, {"cuda_graphs", "yes", {}}});
  const auto choice = chosen(settings);
  REQUIRE(value_of(choice.best.plan, "parallel.schedule").starts_with("z"));
  const auto own = chosen(with(settings, {{"parallel.schedule", "1f1b,interleaved", {}}}));
  CHECK(has_note(choice, "Megatron-LM has 1f1b and interleaved; the best plan with these takes " +
                             to_text(own.best.prediction.step_time) + " against " +
                             to_text(choice.best.prediction.step_time) + ": --schedule 1f1b,interleaved"));
  CHECK_FALSE(has_note(own, "Megatron-LM has"));
  CHECK_FALSE(has_note(chosen(with(settings, {{"parallel.schedule", "zb-h1", {}}})), "Megatron-LM has"));
}

TEST_CASE("plan choice: an early limit answers with the best so far, and counts what was compared", "[unit][whatif]") {
  const std::vector<Override> settings{
      {"model", "gpt2", {}},       {"node", "dgx-a100", {}},      {"nodes", "4", {}},
      {"global_batch", "256", {}}, {"parallel.context", "1", {}}, {"parallel.schedule", "1f1b", {}}};
  double now = 0;
  const auto clock = [&] { return seconds(now += 1); };
  const auto until = [&](double limit) {
    now = 0;
    return search_plans(catalog(), settings, {.limit = seconds(limit), .explain = false}, clock);
  };
  const auto whole = until(1e9).value();
  CHECK(whole.proved);
  const double looks = now;
  for (const double share : {0.1, 0.2, 0.4, 0.6, 0.8}) {
    const auto choice = until(looks * share);
    INFO(share << " of " << looks);
    if (!choice) FAIL(to_string(choice.error()));
    CHECK_FALSE(choice->proved);
    CHECK(choice->searched < whole.searched);
    CHECK(choice->pruned >= 0);
    CHECK(choice->searched > choice->too_large);
    CHECK(choice->best.prediction.step_time >= whole.best.prediction.step_time);
    CHECK(now <= looks * share + 20);
  }
}

TEST_CASE("plan choice: where nobody states a precision plans are in the GPU's 16 bits", "[unit][whatif]") {
  const auto said = [](const char* node, const std::string& words) {
    return has_note(chosen({{"model", "bert_large", {}}, {"node", node, {}}, {"global_batch", "64", {}}}), words);
  };
  CHECK(said("dgx1-v100", "the plans are compared in fp16"));
  CHECK(said("dgx-a100", "the plans are compared in bf16"));
  CHECK_FALSE(said("dgx1-p100", "the plans are compared in"));
}

TEST_CASE("plan: what a scenario file states of the choices is said", "[unit][whatif]") {
  std::vector<Override> job{{"model", "gpt2", {}},
                            {"node", "dgx-a100", {}},
                            {"gpus_per_node", "4", {}},
                            {"global_batch", "8", {}},
                            {"parallel.tensor", "2", {"job.yaml", 3, 1}},
                            {"parallel.zero", "0,1", {"job.yaml", 4, 1}},
                            {"parallel.pipeline", "1", {"job.yaml", 5, 1}}};
  const std::string note =
      "job.yaml states parallel.tensor, parallel.pipeline, which all plans have: leave out what is to be chosen, or "
      "all "
      "of them by --replan";
  CHECK_THAT(chosen(job).notes, Catch::VectorContains(note));
  // Chosen anew are those of the file; more plans are compared then.
  std::vector<Override> anew = job;
  anew.push_back({"parallel.recompute", "none", {}});
  const auto stated = chosen(anew, {.explain = false});
  anew.push_back({"parallel.data", "2", {"job.yaml", 6, 1}});
  choose_anew(anew);
  const auto again = chosen(anew, {.explain = false});
  CHECK(again.searched > stated.searched);
  CHECK(again.best.prediction.step_time <= stated.best.prediction.step_time);
  for (const auto& one : again.next) CHECK(value_of(one.plan, "parallel.recompute") == "none");
  job.push_back({"parallel.tensor", "2", {}});  // a flag: who types it knows it
  CHECK_THAT(chosen(job).notes, !Catch::VectorContains(note));
}
