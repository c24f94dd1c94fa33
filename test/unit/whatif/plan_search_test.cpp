#include "ddlsim/whatif/plan_search.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "catalog.h"
#include "chosen_plan.h"
#include "ddlsim/whatif/predict.h"
#include "overrides.h"
#include "tiny_transformer.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using ddlsim::test::chosen;
using ddlsim::test::no_time;
using ddlsim::test::overrides;
using ddlsim::test::refused_plan;
using ddlsim::test::TinyTransformer;
using ddlsim::test::value_of;
using namespace ddlsim::whatif;
using Catch::Matchers::Contains;

namespace {

std::vector<Override> job(std::vector<Override> more) {
  std::vector<Override> settings{{"model", "gpt2", {}},
                                 {"node", "dgx-a100", {}},
                                 {"gpus_per_node", "4", {}},
                                 {"global_batch", "8", {}},
                                 {"parallel.context", "1", {}},  // spaces small enough to try every plan
                                 {"parallel.recompute", "none", {}},
                                 {"parallel.sequence", "no", {}},
                                 {"parallel.schedule", "1f1b", {}}};
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

answer::PlanChoice found(const std::vector<Override>& settings, const PlanOptions& options = {.explain = false}) {
  return chosen(settings, options);
}

/// What is shown is what trying every plan shows.
void check_same(const std::vector<Override>& settings, const PlanOptions& options) {
  const answer::PlanChoice choice = found(settings, options);
  const auto all = try_every_plan(catalog(), settings, options, no_time).value();
  CHECK(choice.best.plan == all.best.plan);
  CHECK(choice.best.prediction.step_time == all.best.prediction.step_time);
  REQUIRE(choice.next.size() == all.next.size());
  for (std::size_t i = 0; i < all.next.size(); ++i) CHECK(choice.next[i].plan == all.next[i].plan);
  REQUIRE(choice.pareto.size() == all.pareto.size());
  for (std::size_t i = 0; i < all.pareto.size(); ++i) {
    CHECK(choice.pareto[i].step_time == all.pareto[i].step_time);
    CHECK(choice.pareto[i].memory_per_gpu == all.pareto[i].memory_per_gpu);
  }
  CHECK(choice.searched >= all.searched);
  CHECK(choice.proved);
}

}  // namespace

TEST_CASE("plan search: tables are spread over whole replicas, and only their micro-batch is to choose",
          "[unit][whatif]") {
  const std::vector<Override> settings{{"model", "dlrm_dcnv2", {}},
                                       {"node", "dgx-h100", {}},
                                       {"strategy", "torchrec", {}},
                                       {"global_batch", "65536", {}}};
  const PlanOptions options{.explain = false};
  check_same(settings, options);
  const answer::PlanChoice choice = found(settings, options);
  CHECK(choice.searched == 14);  // divisors of 8,192
  for (const auto& [path, value] : choice.best.plan) {
    if (path == "batch") CHECK(value == "8192");
    if (path == "parallel.data") CHECK(value == "8");
  }
  std::vector<Override> copied = settings;
  copied[2].value = "allreduce";
  const auto none = search_plans(catalog(), copied, options, no_time);
  REQUIRE_FALSE(none);
  CHECK(none.error().code == ErrorCode::kInfeasible);
  CHECK(none.error().notes.back() == "--strategy pearl spreads its tables over the GPUs");
}

TEST_CASE("plan search: a precision that the GPU has not is refused as predict refuses it", "[unit][whatif]") {
  const std::vector<Override> settings{{"model", "gpt2", {}}, {"node", "dgx1-v100", {}}, {"precision", "fp8", {}}};
  const auto none = search_plans(catalog(), settings, {}, no_time);
  REQUIRE_FALSE(none);
  CHECK(none.error().message.find("no fp8 rate is known") != std::string::npos);
}

TEST_CASE("plan search: own runs decide, and the result is that of trying every plan", "[unit][whatif]") {
  const PlanOptions options{.explain = false};
  const answer::PlanChoice before = found(job({}), options);
  const auto with = [&](const std::string& runs) { return job({{"measured.steps", runs, {}}}); };
  // As many replicas as GPUs, of two passes each: 1.5 times as long as the model's, and what they share is not why.
  const auto words = [&](double times) {
    std::string split;
    std::string batch;
    for (const auto& [path, value] : before.best.plan) {
      if (path == "batch") batch = value;
      const bool of_split = path.starts_with("parallel.") && path != "parallel.data";
      if (of_split) split += (split.empty() ? "" : ", ") + path + " " + value;
    }
    return "1x4@" + batch + " (" + split +
           ") = " + std::to_string(before.best.prediction.step_time.in(seconds)*times * 1e3) + " ms";
  };
  for (const double times : {0.8, 1.5, 3.0}) check_same(with(words(times)), options);
  const answer::PlanChoice slower = found(with(words(1.5)), options);
  CHECK(slower.best.plan == before.best.plan);
  CHECK(slower.best.prediction.step_time / before.best.prediction.step_time == Approx(1.5).epsilon(1e-4));
  CHECK_THAT(slower.notes.back(), Contains("1 measured run"));
  // Three times as long: a split over ranks, the first five of a plan's settings, is better than all of these.
  const auto ranks_of = [](const auto& choice) {
    return std::vector(choice.best.plan.begin(), choice.best.plan.begin() + 5);
  };
  CHECK(ranks_of(found(with(words(3)), options)) != ranks_of(before));
  const answer::PlanChoice faster = found(with(words(0.8)), options);
  CHECK(ranks_of(faster) == ranks_of(before));
  CHECK(faster.best.prediction.step_time / before.best.prediction.step_time == Approx(0.8).epsilon(0.02));
  // What would change the choice is told in corrected steps too.
  const auto with_half = [&](const std::vector<Override>& settings) {
    const auto list = found(settings, {.explain = true}).sensitivity;
    const auto half =
        std::find_if(list.begin(), list.end(), [](const auto& one) { return one.change == "NVLink half as fast"; });
    REQUIRE(half != list.end());
    return half->step_time;
  };
  CHECK(with_half(with(words(0.8))) / with_half(job({})) == Approx(0.8).epsilon(0.05));
  // Of one GPU: all GPU time, of every plan.
  check_same(with("1x1@2 = 400 ms"), options);
}

TEST_CASE("plan search: clocks that fall are those of the whole model, however its stages are cut", "[unit][whatif]") {
  for (const char* limit : {"700 W", "300 W"}) {
    check_same({{"model", "llama_3_2_1b", {}},
                {"node", "dgx-h100", {}},
                {"gpus_per_node", "4", {}},
                {"global_batch", "16", {}},
                {"gpu.power_limit", limit, {}},
                {"parallel.context", "1", {}},
                {"parallel.recompute", "none", {}},
                {"parallel.sequence", "no", {}},
                {"parallel.schedule", "1f1b", {}}},
               {.explain = false});
  }
}

TEST_CASE("plan search: the result is that of trying every plan", "[unit][whatif]") {
  const PlanOptions time{.explain = false};
  check_same(job({}), time);
  check_same(job({{"gpu.memory_size", "9 GB", {}}}), time);
  check_same(job({{"gpu.memory_size", "9 GB", {}}}), {.objective = answer::PlanObjective::kMemory, .explain = false});
  check_same(job({{"nodes", "2", {}}, {"network", "25 Gb/s", {}}, {"gpus_per_node", "2", {}}}), time);
  check_same(job({{"model", "resnet50", {}}, {"batch", "8", {}}, {"global_batch", "64", {}}}), time);
  check_same(job({{"model", "vit_base", {}}, {"nodes", "2", {}}, {"global_batch", "16", {}}}), time);
  check_same(job({{"jitter", "5 %", {}}, {"batch", "1", {}}, {"overlap", "none", {}}}), time);
}

TEST_CASE("plan search: what replicas exchange is that of other micro-batches and context ranks, their update not",
          "[unit][whatif]") {
  const TinyTransformer model(false);
  // Kernels so small that the software's factor on memory depends on both.
  const std::vector<Override> more{{"nodes", "2", {}},
                                   {"global_batch", "32", {}},
                                   {"precision", "bf16", {}},
                                   {"parallel.recompute", "none", {}},
                                   {"parallel.schedule", "1f1b", {}},
                                   {"parallel.context_by", "ring", {}}};
  check_same(model.on(more), {.next = 40, .explain = false});
  std::vector<Override> one_stage = more;
  one_stage.push_back({"parallel.pipeline", "1", {}});
  check_same(model.on(one_stage), {.next = 40, .explain = false});
}

TEST_CASE("plan search: no bound is above what it bounds", "[unit][whatif]") {
  const PlanOptions time{.next = 12, .explain = false};
  const auto on = [](const char* model, const char* node, const char* batch, std::vector<Override> more) {
    std::vector<Override> settings{{"model", model, {}}, {"node", node, {}}, {"global_batch", batch, {}}};
    settings.insert(settings.end(), more.begin(), more.end());
    return settings;
  };
  const Override one_stage{"parallel.pipeline", "1", {}};
  const Override whole{"parallel.tensor", "1", {}};
  // Whole models send other messages than those whose context ranks cut them.
  check_same(on("bert_large", "dgx1-v100", "16", {{"nodes", "2", {}}, one_stage, whole, {"parallel.zero", "0", {}}}),
             time);
  // Weights' gradients without a profile; layers behind whose backward others' messages hide.
  check_same(on("gpt2_xl", "dgx-h100", "16",
                {{"gpus_per_node", "4", {}},
                 {"efficiency", "50 %", {}},
                 {"parallel.pipeline", "4", {}},
                 {"parallel.recompute", "none", {}}}),
             time);
  check_same(on("gpt2", "dgx-h100", "8", {{"nodes", "1", {}}, one_stage, {"parallel.recompute", "none", {}}}), time);
  // An exchange every fourth step.
  check_same(on("gpt2", "p3.16xlarge", "32", {{"nodes", "2", {}}, {"strategy.sync_every", "4", {}}}), time);
  // Which activations a rank keeps depends on its experts' load; what is fused by a coordinator is no matter of a
  // shape.
  const TinyTransformer experts(true);
  const std::vector<Override> flat{one_stage, whole, {"parallel.context", "1", {}}, {"parallel.recompute", "none", {}}};
  std::vector<Override> uneven = flat;
  uneven.push_back({"parallel.expert_imbalance", "1.5", {}});
  check_same(experts.on(uneven), {.objective = answer::PlanObjective::kMemory, .explain = false});
  std::vector<Override> fused = flat;
  fused.push_back({"strategy", "horovod", {}});
  check_same(experts.on(fused), time);
  const TinyTransformer again(false);
  check_same(again.on({one_stage, whole, {"parallel.context", "1", {}}, {"strategy", "horovod", {}}}), time);
  // Parts begin elsewhere where every second block is computed again, or adapters stand between.
  const TinyTransformer model(false);
  const std::vector<Override> stages{{"parallel.pipeline", "2", {}}, {"parallel.context", "1", {}}};
  std::vector<Override> second = stages;
  second.push_back({"parallel.recompute_every", "2", {}});
  check_same(model.on(second), time);
  std::vector<Override> adapters = stages;
  adapters.push_back({"parallel.lora_rank", "8", {}});
  check_same(model.on(adapters), time);
}

TEST_CASE("plan search: all schedules, the result is that of trying every plan", "[unit][whatif]") {
  const TinyTransformer model(false);
  const auto settings = model.on({{"parallel.tensor", "1", {}},
                                  {"parallel.context", "1", {}},
                                  {"parallel.recompute", "none", {}},
                                  {"batch", "1", {}}});
  check_same(settings, {.explain = false});
  check_same(settings, {.objective = answer::PlanObjective::kMemory, .explain = false});
  check_same(settings, {.objective = answer::PlanObjective::kCost, .price = dollars_per_hour(10), .explain = false});
  // 3.69 GB are taken by CUDA and communicators: what is left is less than many of these hold.
  auto tight = settings;
  tight.push_back({"gpu.memory_size", "3.85 GB", {}});
  check_same(tight, {.explain = false});
}

TEST_CASE("plan search: stages that blocks do not divide, likewise", "[unit][whatif]") {
  const auto over_three_stages = [](const TinyTransformer& model) {
    return model.on({{"gpus_per_node", "6", {}},
                     {"parallel.pipeline", "3", {}},
                     {"parallel.context", "1", {}},
                     {"global_batch", "12", {}}});
  };
  // Five: what a shape's layers have to do says where they are cut.
  {
    const TinyTransformer five(false, 5);
    check_same(over_three_stages(five), {.explain = false});
    check_same(over_three_stages(five), {.objective = answer::PlanObjective::kMemory, .explain = false});
  }
  // Four, with embedding and head as one each, over three stages or six parts.
  const TinyTransformer four(false);
  check_same(over_three_stages(four), {.explain = false});
  check_same(over_three_stages(four), {.objective = answer::PlanObjective::kMemory, .explain = false});
}

TEST_CASE("plan search: stages of as many blocks and lighter ones, likewise", "[unit][whatif]") {
  // A head of 2.6 blocks: 3 | 1 blocks weigh 3 and 3.6 where 2 | 2 weigh 2 and 4.6.
  const TinyTransformer wide(false, 4, 16384);
  const auto settings = wide.on({{"parallel.pipeline", "2", {}}, {"parallel.context", "1", {}}});
  check_same(settings, {.next = 40, .explain = false});
  check_same(settings, {.objective = answer::PlanObjective::kMemory, .next = 40, .explain = false});
  const auto cut = [](const answer::PlanSettings& plan) { return value_of(plan, "parallel.layers_per_stage"); };
  auto one_way = settings;
  one_way.push_back({"parallel.schedule", "1f1b", {}});
  one_way.push_back({"batch", "1", {}});
  one_way.push_back({"cuda_graphs", "yes", {}});  // kernels so small would wait for their launches
  CHECK(cut(found(one_way).best.plan) == "3-1");
  // What is stated stays, and without a head there is nothing to win.
  auto stated = one_way;
  stated.push_back({"parallel.layers_per_stage", "2-2", {}});
  CHECK(cut(found(stated).best.plan).empty());
  const TinyTransformer small(false);
  const auto plans =
      found(small.on({{"parallel.pipeline", "2", {}}, {"batch", "1", {}}}), {.next = 40, .explain = false});
  for (const auto& one : plans.next) CHECK(cut(one.plan).empty());
}

TEST_CASE("plan search: stated cuts within blocks are cuts that one may state", "[unit][whatif]") {
  const TinyTransformer model(false);  // four blocks
  const auto settings = model.on({{"gpus_per_node", "8", {}},
                                  {"parallel.layers_per_stage", "6-6-6-6-6-6-6-10", {}},
                                  {"parallel.recompute", "none", {}}});
  check_same(settings, {.explain = false});
  CHECK(value_of(found(settings).best.plan, "parallel.pipeline") == "8");
}

TEST_CASE("plan search: tensor, context, sequence and recomputation, likewise", "[unit][whatif]") {
  const TinyTransformer model(false);
  const auto settings = model.on({{"parallel.pipeline", "1", {}}, {"global_batch", "4", {}}});
  check_same(settings, {.explain = false});
  check_same(settings, {.objective = answer::PlanObjective::kMemory, .explain = false});
  // Two ranks of each, with stages.
  const auto stages = model.on({{"parallel.pipeline", "2", {}}, {"parallel.schedule", "1f1b", {}}, {"batch", "1", {}}});
  check_same(stages, {.explain = false});
  check_same(stages, {.objective = answer::PlanObjective::kMemory, .explain = false});
}

TEST_CASE("plan search: gradients that stay whole over a step's passes, likewise", "[unit][whatif]") {
  const TinyTransformer model(false);
  const auto settings = model.on({{"parallel.no_sync", "yes", {}},
                                  {"parallel.reshard", "no", {}},
                                  {"parallel.zero", "3", {}},
                                  {"parallel.context", "1", {}},
                                  {"batch", "1", {}}});
  check_same(settings, {.explain = false});
  check_same(settings, {.objective = answer::PlanObjective::kMemory, .explain = false});
}

TEST_CASE("plan search: experts, likewise", "[unit][whatif]") {
  const TinyTransformer model(true);
  const auto settings = model.on({{"parallel.context", "1", {}},
                                  {"parallel.schedule", "1f1b", {}},
                                  {"nodes", "2", {}},
                                  {"gpus_per_node", "2", {}},
                                  {"network", "25 Gb/s", {}},
                                  {"batch", "1", {}}});
  check_same(settings, {.explain = false});
  check_same(settings, {.objective = answer::PlanObjective::kMemory, .explain = false});
  check_same(
      settings,
      {.objective = answer::PlanObjective::kCost, .price = dollars_per_hour(10), .nodes_up_to = 2, .explain = false});
  // Groups of experts over context and tensor ranks.
  const auto context = model.on({{"parallel.context", "2", {}},
                                 {"parallel.pipeline", "1", {}},
                                 {"nodes", "2", {}},
                                 {"network", "25 Gb/s", {}},
                                 {"parallel.recompute", "none", {}},
                                 {"batch", "1", {}}});
  check_same(context, {.explain = false});
  check_same(context, {.objective = answer::PlanObjective::kMemory, .explain = false});
  // What is stated stays.
  auto whole = context;
  whole.push_back({"parallel.expert_tensor", "1", {}});
  whole.push_back({"parallel.tensor", "2", {}});
  for (const auto& one : found(whole, {.next = 100, .explain = false}).next) {
    CHECK(value_of(one.plan, "parallel.expert_tensor") == "1");
  }
  whole.back().value = "1";
  CHECK(value_of(found(whole).best.plan, "parallel.expert_tensor").empty());
}

TEST_CASE("plan search: experts under all schedules, likewise", "[unit][whatif]") {
  const TinyTransformer model(true);
  const auto settings = model.on({{"parallel.tensor", "1", {}},
                                  {"parallel.context", "1", {}},
                                  {"parallel.recompute", "none", {}},
                                  {"network", "25 Gb/s", {}},
                                  {"batch", "1", {}}});
  check_same(settings, {.explain = false});
  check_same(settings, {.objective = answer::PlanObjective::kMemory, .explain = false});
}

TEST_CASE("plan search: by cost, clusters of fewer servers are plans too", "[unit][whatif]") {
  PlanOptions options{
      .objective = answer::PlanObjective::kCost, .price = dollars_per_hour(12), .nodes_up_to = 2, .explain = false};
  const auto settings = job({{"nodes", "2", {}}, {"gpus_per_node", "2", {}}, {"network", "10 Gb/s", {}}});
  check_same(settings, options);
  const answer::PlanChoice choice = found(settings, options);
  // One server costs half as much an hour, and sends nothing over the network.
  CHECK(value_of(choice.best.plan, "nodes") == "1");
  CHECK(choice.best.cost->in(dollars) == Approx(12 * choice.best.prediction.step_time.in(seconds) / 3600));
}

TEST_CASE("plan search: a plan is a scenario's settings", "[unit][whatif]") {
  const auto settings = job({{"network", "25 Gb/s", {}}});
  const answer::PlanChoice choice = found(settings);
  std::vector<Override> pasted = settings;
  for (const auto& [path, value] : choice.best.plan) pasted.push_back({path, value, {}});
  const auto prediction = predict(resolve(catalog(), pasted).value()).value();
  CHECK(prediction.step_time == choice.best.prediction.step_time);
  CHECK(prediction.memory_per_gpu == choice.best.prediction.memory_per_gpu);
}

TEST_CASE("plan search: what is stated stays", "[unit][whatif]") {
  const answer::PlanChoice choice = found(job({{"model", "vit_base", {}},
                                               {"parallel.tensor", "2", {}},
                                               {"parallel.pipeline", "2", {}},
                                               {"parallel.zero", "0", {}}}));
  const auto check = [](const answer::PlanSettings& plan) {
    CHECK(value_of(plan, "parallel.tensor") == "2");
    CHECK(value_of(plan, "parallel.pipeline") == "2");
    CHECK(value_of(plan, "parallel.data") == "1");
    CHECK(value_of(plan, "parallel.zero") == "0");
  };
  check(choice.best.plan);
  for (const auto& one : choice.next) check(one.plan);
}

TEST_CASE("plan search: one replica exchanges nothing, by priority or fused", "[unit][whatif]") {
  for (const char* setting : {"strategy.priority", "strategy.grouping"}) {
    const std::string value = setting == std::string_view("strategy.priority") ? "yes" : "fusion";
    const auto settings = job({{"parallel.pipeline", "4", {}}, {setting, value, {}}});
    check_same(settings, {.explain = false});
    CHECK(value_of(found(settings).best.plan, "parallel.data") == "1");
  }
}

TEST_CASE("plan search: stated chunks are those of a pipeline", "[unit][whatif]") {
  const auto settings = job({{"parallel.virtual_stages", "2", {}}, {"parallel.schedule", "interleaved", {}}});
  check_same(settings, {.explain = false});
  const answer::PlanChoice choice = found(settings, {.next = 100, .explain = false});
  for (const auto& one : choice.next) CHECK(value_of(one.plan, "parallel.virtual_stages") == "2");
  // Without a pipeline there are none.
  CHECK_THAT(refused_plan(job({{"parallel.virtual_stages", "2", {}}, {"parallel.pipeline", "1", {}}})),
             Contains("parts of a rank without a pipeline"));
}

TEST_CASE("plan search: of alike stages more micro-batches leave a smaller bubble", "[unit][whatif]") {
  // Two stages, one replica, a batch of 8: m micro-batches of 8 / m samples. The best has a smaller bubble than one
  // pass, whose stages wait for each other.
  const answer::PlanChoice choice = found(job({{"parallel.tensor", "1", {}}, {"parallel.pipeline", "4", {}}}));
  CHECK(std::stoi(value_of(choice.best.plan, "batch")) < 8);
  CHECK(choice.best.prediction.breakdown.bubble < choice.best.prediction.step_time * 0.75);
}

TEST_CASE("plan search: what no plan can do says what one can", "[unit][whatif]") {
  CHECK_THAT(refused_plan(job({{"model", "resnet50", {}}, {"parallel.tensor", "4", {}}, {"global_batch", "64", {}}})),
             Contains("parallel.tensor = 4: legal here: 1"));
  CHECK_THAT(refused_plan(job({{"parallel.pipeline", "3", {}}})),
             Contains("parallel.pipeline = 3: legal here: 1, 2, 4"));
  CHECK_THAT(
      refused_plan(job({{"global_batch", "3", {}}, {"parallel.tensor", "1", {}}, {"parallel.pipeline", "1", {}}})),
      Contains("parallel.pipeline = 1: legal here: 4"));
  CHECK_THAT(refused_plan(job({{"strategy", "ps", {}}})), Contains("use strategy allreduce"));
  CHECK_THAT(refused_plan(job({{"model", "pai_bert", {}}})), Contains("no layers to split"));
  CHECK_THAT(refused_plan(job({{"fidelity", "event", {}}})), Contains("analytic"));
  CHECK_THAT(refused_plan(job({{"strategy.accumulation", "2", {}}})), Contains("global_batch"));
  CHECK_THAT(refused_plan(job({{"global_batch", "many", {}}})), Contains("global_batch"));
  CHECK_THAT(refused_plan(job({}), {.objective = answer::PlanObjective::kCost}), Contains("--price"));
}

TEST_CASE("plan search: copies of whole experts share their states in a single replica too", "[unit][whatif]") {
  // Experts on 4 of 8 tensor ranks: 223 GB of 206 where nothing is shared.
  const std::vector<Override> job{{"model", "mixtral_8x7b", {}},       {"node", "mi300x-8gpu", {}},
                                  {"parallel.tensor", "8", {}},        {"parallel.expert", "4", {}},
                                  {"parallel.expert_tensor", "1", {}}, {"parallel.sequence", "yes", {}},
                                  {"parallel.states", "mixed", {}},    {"global_batch", "32", {}}};
  const auto choice = search_plans(catalog(), job, {.limit = seconds(600)}, no_time);
  REQUIRE(choice);
  CHECK(choice->best.prediction.fits == true);
  CHECK(choice->best.prediction.split.zero > 0);
}

TEST_CASE("plan search: a model that fits nowhere says what it lacks", "[unit][whatif]") {
  // Less than CUDA's context and communicators take.
  double now = 0;
  const auto clock = [&] { return seconds(now += 1); };
  const auto choice = search_plans(catalog(), job({{"gpu.memory_size", "0.4 GB", {}}}), {.limit = seconds(600)}, clock);
  REQUIRE_FALSE(choice);
  CHECK_THAT(to_string(choice.error()), Contains("fits in no plan on 1 x") && Contains("of weights"));
}

TEST_CASE("plan search: a limit of time answers with the best so far", "[unit][whatif]") {
  double now = 0;
  const auto clock = [&] { return seconds(now += 1); };
  const auto whole = search_plans(catalog(), job({}), {.limit = seconds(1e9), .explain = false}, clock).value();
  CHECK(whole.proved);
  // The same search, ended a few looks at the clock before it would end by itself.
  const double looks = now - 1;
  now = 0;
  const auto choice = search_plans(catalog(), job({}), {.limit = seconds(looks - 4), .explain = false}, clock).value();
  CHECK_FALSE(choice.proved);
  CHECK(choice.best.prediction.step_time >= whole.best.prediction.step_time);
  now = 0;
  const auto none = search_plans(catalog(), job({}), {.limit = seconds(2), .explain = false}, clock);
  REQUIRE_FALSE(none);
  CHECK_THAT(to_string(none.error()), Contains("no plan was found in 2 s"));
  CHECK(none.error().code == ErrorCode::kOutOfTime);
}

TEST_CASE("plan search: what is forgotten to save memory changes no answer", "[unit][whatif]") {
  const auto whole = found(job({{"nodes", "2", {}}}));
  const auto forgetful = found(job({{"nodes", "2", {}}}), {.explain = false, .kept_layers = 1});
  CHECK(forgetful.best.plan == whole.best.plan);
  CHECK(forgetful.best.prediction.step_time == whole.best.prediction.step_time);
  CHECK(forgetful.pruned == whole.pruned);
  REQUIRE(forgetful.next.size() == whole.next.size());
  for (std::size_t i = 0; i < whole.next.size(); ++i) CHECK(forgetful.next[i].plan == whole.next[i].plan);
}

TEST_CASE("plan search: chunks of unequal blocks, where no number of them is equal", "[unit][whatif]") {
  const TinyTransformer seven(false, 7);  // on two stages neither 7 blocks nor 9 with the ends
  const std::vector<Override> settings = seven.on(
      overrides("gpus_per_node 4; global_batch 16; parallel.tensor 1; parallel.context 1; parallel.recompute none; "
                "parallel.schedule interleaved"));
  const PlanOptions options{.next = 50, .explain = false};
  check_same(settings, options);
  const answer::PlanChoice choice = found(settings, options);
  const auto compared = [&](const char* chunks) {
    std::vector<Override> stated = settings;
    stated.push_back({"parallel.virtual_stages", chunks, {}});
    return found(stated, options).searched;
  };
  CHECK(compared("2") > 0);
  CHECK(compared("3") > 0);
  CHECK(choice.searched >= compared("2") + compared("3"));
}
