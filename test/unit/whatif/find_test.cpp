#include "ddlsim/whatif/find.h"

#include <fmt/core.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "catalog.h"
#include "ddlsim/whatif/predict.h"
#include "ddlsim/whatif/ratio.h"
#include "overrides.h"
#include "scenario/number_settings.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using namespace ddlsim::whatif;
using ddlsim::test::joined;
using ddlsim::test::overrides;

namespace {

std::vector<Override> job(std::vector<Override> more = {}) {
  more = joined(overrides("model resnet50; node dgx1-v100"), more);
  return more;
}

answer::Inverse found(const std::vector<Override>& base, const char* variable, const char* condition) {
  return find(catalog(), base, variable, parse_condition(condition).value()).value();
}

answer::Prediction with(std::vector<Override> base, const std::vector<std::pair<std::string, std::string>>& more) {
  for (const auto& [path, value] : more) base.push_back({path, value, {}});
  return predict(resolve(catalog(), base).value()).value();
}

std::string why_not(const std::vector<Override>& base, const char* variable, const char* condition) {
  const auto answer = find(catalog(), base, variable, parse_condition(condition).value());
  return answer ? "" : answer.error().message;
}

}  // namespace

TEST_CASE("find: conditions", "[unit][find]") {
  const Condition c = parse_condition("scaling_efficiency >= 90 %").value();
  CHECK(c.metric == Metric::kScalingEfficiency);
  CHECK(c.relation == Relation::kAtLeast);
  CHECK(c.target == Approx(0.9));
  CHECK(whatif::words_of(c) == "scaling efficiency >= 90 %");
  CHECK(parse_condition("step time<=200 ms")->target == Approx(0.2));
  CHECK(parse_condition("throughput = 2e6 tokens/s")->tokens);
  CHECK(parse_condition("throughput >= 4000 images/s")->target == Approx(4000));
  CHECK(parse_condition("cost <= $500")->target == Approx(500));
  CHECK(parse_condition("exposed communication <= 5 %")->of_step);
  CHECK(parse_condition("memory ≤ 12 GB")->relation == Relation::kAtMost);
}

TEST_CASE("find: servers begin where the job is one", "[unit][find]") {
  // tp 8 x pp 4 is no job on the one server that nobody stated.
  const std::vector<Override> base =
      overrides("model llama_3_1_8b; node dgx-h100; precision bf16; batch 1; parallel.tensor 8; parallel.pipeline 4");
  const auto answer = found(base, "nodes", "throughput >= 20 sequences/s");
  REQUIRE(answer.value);
  CHECK(*answer.value > 4);
  CHECK(static_cast<int>(*answer.value) % 4 == 0);
  CHECK(answer.now == "4");
  CHECK(std::any_of(answer.notes.begin(), answer.notes.end(), [](const std::string& note) {
    return note == "nodes: the job is none as it is stated; the search begins with the fewest that make it one, 4";
  }));
  // A number that is stated and makes no job is no reason to stop either; what no number mends is said.
  std::vector<Override> stated = base;
  stated.push_back({"nodes", "3", {}});
  CHECK(found(stated, "nodes", "throughput >= 20 sequences/s").value == answer.value);
  std::vector<Override> never = base;
  never.push_back({"parallel.zero", "1", {}});
  never.push_back({"straggler", "1.3", {}});
  CHECK(why_not(never, "nodes", "throughput >= 20 sequences/s").find("two speeds") != std::string::npos);
  CHECK(why_not(base, "batch", "throughput >= 20 sequences/s").find("multiple of tensor 8") != std::string::npos);
}

TEST_CASE("find: what is no condition", "[unit][find]") {
  const auto why = [](const char* text) { return parse_condition(text).error().message; };
  CHECK_THAT(why("fast"), Catch::Contains("is not a condition: no >=, <= or ="));
  CHECK_THAT(why("step_time < 5 ms"), Catch::Contains("write >= or <= for > or <"));
  CHECK_THAT(why(">= 5 ms"), Catch::Contains("the metric is missing"));
  CHECK_THAT(why("step_time >="), Catch::Contains("the value is missing"));
  CHECK_THAT(why("time_to_train <= 5 h and cost <= 300 $"), Catch::Contains("find takes one"));
  CHECK_THAT(why("stp_time >= 5 ms"), Catch::Contains("unknown metric 'stp_time'"));
  CHECK_THAT(why("step_time >= 5 GB"), Catch::Contains("is not a time but a data size"));
  CHECK_THAT(why("step_time >= 5"), Catch::Contains("the unit is missing"));
  CHECK_THAT(why("memory <= 5 s"), Catch::Contains("is not a data size but a time"));
  CHECK_THAT(why("throughput >= 5 GB/s"), Catch::Contains("is not a throughput"));
  CHECK_THAT(why("scaling_efficiency >= 120 %"), Catch::Contains("out of range"));
  CHECK_THAT(why("mfu <= 0 %"), Catch::Contains("out of range"));
  CHECK_THAT(why("exposed_communication >= 0 s"), Catch::Contains("is always true"));
  CHECK_THAT(why("cost <= 5 h"), Catch::Contains("is not an amount of money but a time"));
}

TEST_CASE("find: every setting whose example is a number can be looked for, or is known not to be", "[unit][find]") {
  // Measured things are no property of a job, data's degree is what comes out, carbon changes no metric.
  // A schedule is called 1f1b; an expert is whole, or cut as the rest; frozen weights have 4 bits, 8 or as many as all.
  const std::vector<std::string> others{"parallel.data", "parallel.layers_per_stage", "parallel.schedule",
                                        "measured.step", "parallel.expert_tensor",    "measured.steps",
                                        "energy.carbon", "parallel.frozen_bits"};
  for (const SettingInfo& setting : settings()) {
    const bool digit = setting.example.front() >= '0' && setting.example.front() <= '9';
    if (!digit || std::find(others.begin(), others.end(), setting.path) != others.end()) continue;
    INFO(setting.path);
    const auto number = number_setting(setting.path);
    REQUIRE(number);
    CHECK(parse_number_of(number->kind, setting.example));
  }
  CHECK(number_setting("micro-batch")->path == "batch");
  CHECK(number_setting("model.sequence")->kind == NumberKind::kCount);
  CHECK_THAT(number_setting("strategy").error().message, Catch::Contains("is no number"));
  CHECK_THAT(number_setting("ntwork").error().notes.front(), Catch::Contains("network"));
}

TEST_CASE("find: a factor on all GPU time is the ratio of steps", "[unit][find]") {
  // One GPU communicates nothing: twice the step is twice the factor.
  const auto base = job(overrides("gpus_per_node 1"));
  const double step = with(base, {}).step_time.in(milliseconds);
  const auto answer = found(base, "gpu.time_factor", ("step_time = " + std::to_string(2 * step) + " ms").c_str());
  REQUIRE(answer.reached);
  CHECK(*answer.value == Approx(2).epsilon(1e-5));
  CHECK(answer.prediction.step_time.in(milliseconds) == Approx(2 * step).epsilon(1e-5));
}

TEST_CASE("find: the least network, which --set then gives", "[unit][find]") {
  const auto base = job(overrides("nodes 4"));
  const auto answer = found(base, "network", "scaling_efficiency >= 90 %");
  REQUIRE(answer.reached);
  CHECK(answer.up);
  CHECK(answer.monotone);
  CHECK(answer.predictions <= 40);
  const auto there = with(base, answer.settings);
  CHECK(there.step_time == answer.prediction.step_time);
  CHECK(there.scaling_efficiency >= 0.9);
  // The answer has four digits; the next less is not enough.
  auto less = answer.settings;
  const double rate = *answer.value / gigabits_per_second(4).in(bytes_per_second);
  less.front().second = "4 x " + std::to_string(rate * (1 - 4e-4)) + " Gb/s";
  CHECK(with(base, less).scaling_efficiency < 0.9);
  CHECK(answer.limit_setting == "infinite");
}

TEST_CASE("find: counts agree with trying every one", "[unit][find]") {
  const auto base = job();
  const auto batch = found(base, "batch", "memory <= 12 GB");
  REQUIRE(batch.reached);
  CHECK_FALSE(batch.up);
  CHECK(batch.predictions <= 40);
  std::int64_t most = 0;
  for (std::int64_t b = 100; b < 200; ++b) {
    if (with(base, {{"batch", std::to_string(b)}}).memory_per_gpu <= gigabytes(12)) most = b;
  }
  CHECK(*batch.value == static_cast<double>(most));

  const auto run = job(overrides("training.samples 1281167; training.epochs 90"));
  const auto nodes = found(run, "nodes", "time_to_train <= 2 h");
  REQUIRE(nodes.reached);
  std::int64_t least = 1;
  while (with(run, {{"nodes", std::to_string(least)}}).training->time() > hours(2)) ++least;
  CHECK(*nodes.value == static_cast<double>(least));
}

TEST_CASE("find: of a run, whose steps are whole, every count is tried", "[unit][find]") {
  // 20,000 images in steps of 512 a server: what they cost goes up and down with servers.
  const auto run = job(overrides("training.samples 20000; training.epochs 90; price 12 $/h"));
  const auto answer = found(run, "nodes", "cost <= 3 $");
  REQUIRE(answer.reached);
  CHECK_FALSE(answer.monotone);
  for (const answer::Tried& one : answer.tried) {
    if (one.value > 64) break;
    const auto& training = with(run, {{"nodes", one.setting}}).training;
    CHECK(one.holds == (training->time().in(seconds) / 3600 * 12 * one.value <= 3));
  }
  CHECK(answer.tried.size() == 1024);
}

TEST_CASE("find: a batch that grows with the servers of a run is said", "[unit][find]") {
  const auto run = job(overrides("batch 64; training.samples 1281167; training.epochs 90"));
  const auto says = [](const answer::Inverse& answer, const std::string& part) {
    return std::any_of(answer.notes.begin(), answer.notes.end(),
                       [&](const std::string& note) { return note.find(part) != std::string::npos; });
  };
  const auto grows = found(run, "nodes", "time_to_train <= 2 h");
  const std::int64_t batch = grows.prediction.split.global_batch();
  CHECK(batch == 512 * static_cast<std::int64_t>(*grows.value));
  CHECK(says(grows, "the batch of a step grows with nodes: "));
  CHECK(says(grows, "(512 in the job as stated)"));
  // What keeps its batch, has no run, or is asked for another batch says nothing.
  auto kept = run;
  kept.push_back({"global_batch", "4096", {}});
  CHECK_FALSE(says(found(kept, "nodes", "time_to_train <= 4 h"), "the batch of a step"));
  auto apart = run;
  apart.push_back({"nodes", "4", {}});
  CHECK_FALSE(says(found(apart, "network", "scaling_efficiency >= 80 %"), "the batch of a step"));
  CHECK_FALSE(says(found(job(), "nodes", "throughput >= 10000 images/s"), "the batch of a step"));
  CHECK_FALSE(says(found(run, "batch", "time_to_train <= 8 h"), "the batch of a step"));
}

TEST_CASE("find: values that are no job have every value tried", "[unit][find]") {
  // Of 96 samples a step, eight replicas: batches 1, 2, 3, 4, 6, 12 alone; MFU grows with them.
  const auto base = job(overrides("global_batch 96; batch 12"));
  const auto answer =
      find(catalog(), base, "batch", parse_condition("memory <= 700 MB").value(), {.from = "1", .to = "64"});
  REQUIRE(answer);
  REQUIRE(answer->reached);
  double most = 0;
  for (const std::int64_t b : {1, 2, 3, 4, 6, 12}) {
    const auto p = with(base, {{"batch", std::to_string(b)}});
    if (p.memory_per_gpu <= megabytes(700)) most = static_cast<double>(b);
  }
  CHECK(*answer->value == most);
  CHECK(answer->tried.size() == 6);
}

TEST_CASE("find: values that are no job make no difference that could be told", "[unit][find]") {
  // Eight stages need eight GPUs.
  const std::vector<Override> base =
      overrides("model gpt2; node dgx-h100; parallel.pipeline 8; global_batch 60; batch 1");
  const auto answer = find(catalog(), base, "gpus_per_node", parse_condition("step_time <= 1 us").value());
  REQUIRE_FALSE(answer);
  CHECK_THAT(to_string(answer.error()), Catch::Contains("at every value from 1 to 8 that is a job") &&
                                            Catch::Contains("7 of the tried values are no job; the first: "));
}

TEST_CASE("find: a job that does not fit does not hold", "[unit][find]") {
  const auto answer = found(job(), "batch", "throughput >= 2500 images/s");
  REQUIRE(answer.reached);
  CHECK(answer.prediction.fits != false);
  const auto never = found(job(), "batch", "throughput >= 2880 images/s");
  CHECK_FALSE(never.reached);
  CHECK_FALSE(never.value);
  CHECK(never.limit.fits != false);
  bool larger_is_faster = false;
  for (const answer::Tried& one : never.tried) larger_is_faster = larger_is_faster || (!one.fits && one.metric >= 2880);
  CHECK(larger_is_faster);
}

TEST_CASE("find: what is not reachable says how far the variable goes", "[unit][find]") {
  const auto answer = found(job(overrides("nodes 4")), "network", "scaling_efficiency >= 99.9 %");
  CHECK_FALSE(answer.reached);
  CHECK(answer.limit_setting == "infinite");
  CHECK(answer.limit.scaling_efficiency < 0.999);
  CHECK(answer.limit.scaling_efficiency >= answer.baseline->scaling_efficiency);
}

TEST_CASE("find: questions without an answer", "[unit][find]") {
  CHECK_THAT(why_not(job(), "network", "step_time <= 1 s"), Catch::Contains("makes no difference"));
  CHECK_THAT(why_not(job(), "nodes", "cost <= 10 $"), Catch::Contains("nobody says how long the run is"));
  CHECK_THAT(why_not(job(), "batch", "throughput >= 10 tokens/s"), Catch::Contains("counts images, not tokens"));
  CHECK_THAT(why_not(job(), "strategy", "step_time <= 10 s"), Catch::Contains("is no number"));
  const auto between =
      find(catalog(), job(), "batch", parse_condition("step_time <= 1 s").value(), {.from = "9", .to = "3"});
  CHECK_THAT(between.error().message, Catch::Contains("nothing between"));
}

TEST_CASE("find: what holds at every value is answered by the end that is nearest to failing", "[unit][find]") {
  const auto least =
      found(job(overrides("training.samples 1281167; training.epochs 1")), "nodes", "time_to_train <= 24 h");
  CHECK(least.reached);
  CHECK(least.always);
  CHECK(least.up);
  CHECK(least.value.value() == 1);
  CHECK_FALSE(least.range);
  const auto most = found(job(), "nodes", "step_time <= 10 s");
  CHECK(most.always);
  CHECK_FALSE(most.up);
  CHECK(*most.value == most.tried.back().value);
  CHECK(std::all_of(most.tried.begin(), most.tried.end(), [](const answer::Tried& one) { return one.holds; }));
}

TEST_CASE("find: both ends of what holds, in units people read", "[unit][find]") {
  // Checkpoints every second take too long, every day lose too much.
  const auto base = job(overrides("nodes 4; failures.mtbf_node 24 h; checkpoint.bandwidth 100 MB/s"));
  const auto answer = found(base, "checkpoint.interval", "goodput >= 98 %");
  REQUIRE(answer.range);
  CHECK(answer.reached);
  CHECK_FALSE(answer.always);
  CHECK(answer.range->from < answer.range->to);
  CHECK_THAT(answer.range->from_setting + answer.range->to_setting, Catch::Contains(" min"));
  const auto share = [&](double interval) {
    return with(base, {{"checkpoint.interval", std::to_string(interval) + " s"}}).goodput->share;
  };
  for (const double end : {answer.range->from, answer.range->to}) CHECK(share(end) >= 0.98 - 1e-6);
  CHECK(share(answer.range->from * 0.998) < 0.98);
  CHECK(share(answer.range->to * 1.002) < 0.98);
  CHECK(number_text(NumberKind::kTime, 116.76, 4) == "116760 ms");
  CHECK(shown_number(NumberKind::kTime, 116.76, 4) == "1.946 min");
  CHECK(shown_number(NumberKind::kTime, 0.25, 4) == "250 ms");
  CHECK(rounded_number(NumberKind::kTime, 116.7654321, 4) == Approx(116.76));
}

TEST_CASE("find: a network that TCP drives says what RDMA would make of it", "[unit][find]") {
  const std::vector<Override> base = overrides("model resnet50; node p3.8xlarge; nodes 4; precision fp16");
  const auto answer = found(base, "network", "scaling_efficiency >= 80 %");
  REQUIRE(answer.over_rdma);
  REQUIRE(answer.over_rdma->reached);
  CHECK(*answer.over_rdma->value < *answer.value);
  CHECK(answer.over_rdma->text.starts_with("from "));
  CHECK_THAT(answer.notes.front(), Catch::StartsWith("network: TCP drives it at every rate"));
  const std::string rate = std::to_string(*answer.over_rdma->value * 8e-9) + " Gb/s";
  CHECK(with(base, {{"network", rate}, {"network.transport", "roce"}}).scaling_efficiency >= 0.8 - 1e-4);
  // Who says what drives it asked for that.
  auto said = base;
  said.push_back({"network.transport", "tcp", {}});
  CHECK_FALSE(found(said, "network", "scaling_efficiency >= 80 %").over_rdma);
  CHECK_FALSE(found(base, "batch", "scaling_efficiency >= 80 %").over_rdma);
}

TEST_CASE("find: as surely as is asked for", "[unit][find]") {
  const auto base = job(overrides("network 25 Gb/s"));
  const Condition condition = parse_condition("throughput >= 4000 images/s").value();
  const auto expected = find(catalog(), base, "nodes", condition).value();
  FindOptions surely;
  surely.sure = 0.9;
  const auto sure = find(catalog(), base, "nodes", condition, surely).value();
  CHECK(*sure.value > *expected.value);
  CHECK(*expected.probability >= 0.5);
  CHECK(*expected.probability < *sure.probability);
  CHECK(*sure.probability >= 0.9);
  CHECK(sure.condition == "throughput >= 4000 samples/s with 90 %");
  CHECK(sure.sure == 0.9);
  CHECK_THAT(sure.notes, Catch::VectorContains(std::string("throughput is what is kept with 90 %; steps and what else "
                                                           "is shown are expected")));
  // Nine in ten steps are shorter than the bound: one node less is not enough.
  const auto fewer = with(base, {{"nodes", std::to_string(static_cast<int>(*sure.value) - 1)}});
  const auto [low, high] = fewer.interval_90;
  CHECK(probability_below(fewer.throughput_samples_per_second / 4000, 1,
                          {low / fewer.step_time, high / fewer.step_time}) < 0.9);
  // At most, with a short step as what is wanted, and at least of a time, which wants a long one.
  const auto step = find(catalog(), base, "batch", parse_condition("step_time <= 200 ms").value(), surely).value();
  CHECK(*step.value < *found(base, "batch", "step_time <= 200 ms").value);
  const auto least = find(catalog(), base, "batch", parse_condition("step_time >= 200 ms").value(), surely).value();
  CHECK(*least.value > *found(base, "batch", "step_time >= 200 ms").value);
}

TEST_CASE("find: what nobody knows how surely", "[unit][find]") {
  FindOptions surely;
  surely.sure = 0.9;
  for (const char* text : {"scaling_efficiency >= 90 %", "memory <= 12 GB", "step_time = 200 ms"}) {
    const auto answer = find(catalog(), job(), "batch", parse_condition(text).value(), surely);
    REQUIRE_FALSE(answer);
    CHECK_THAT(answer.error().message, Catch::Contains("is not known"));
  }
  CHECK_FALSE(found(job(overrides("nodes 2")), "network", "scaling_efficiency >= 80 %").probability);
  CHECK(parse_sure("90%") == 0.9);
  for (const char* text : {"0", "100 %", "1.5", "-3 %", "nan", "very", ""}) CHECK_FALSE(parse_sure(text));
}

TEST_CASE("find: servers whose share of a stated batch is less than the model's own", "[unit][find]") {
  // 2,048 images: on 4 servers of 8 GPUs 64 each, the model's own; on 8 of them 32, which nobody forbids.
  const auto base = job(overrides("training.samples 1281167; training.epochs 90; global_batch 2048"));
  const auto on = [&](const char* nodes) { return with(base, {{"nodes", nodes}}).training->time(); };
  REQUIRE(on("8") < on("4"));
  const Time between = (on("8") + on("4")) / 2.0;
  const auto answer = found(base, "nodes", ("time_to_train <= " + std::to_string(between.in(seconds)) + " s").c_str());
  REQUIRE(answer.reached);
  CHECK(*answer.value > 4);
  CHECK(*answer.value <= 8);
}

TEST_CASE("find: a rate that more ports make hold says so", "[unit][find]") {
  const auto says = [](const answer::Inverse& answer, const std::string& part) {
    return std::any_of(answer.notes.begin(), answer.notes.end(),
                       [&](const std::string& note) { return note.find(part) != std::string::npos; });
  };
  const std::vector<Override> vgg = overrides("model vgg16; node dgx1-v100; nodes 4");
  const auto on = [&](const std::string& network) { return with(vgg, {{"network", network}}).scaling_efficiency; };
  REQUIRE(on("100 Gb/s") < on("101 Gb/s") * 0.99);
  const std::string between = "scaling_efficiency >= " + std::to_string(50 * (on("100 Gb/s") + on("101 Gb/s"))) + " %";
  auto slow = vgg;
  slow.push_back({"network", "10 Gb/s", {}});
  const auto split = found(slow, "network", between.c_str());
  CHECK(split.setting == "100.1 Gb/s");
  CHECK(says(split, "network: 100.1 Gb/s is just above 100 Gb/s"));
  // Who counts the ports keeps them.
  auto counted = vgg;
  counted.push_back({"network", "1 x 10 Gb/s", {}});
  const auto one = found(counted, "network", between.c_str());
  CHECK(one.setting.starts_with("1 x "));
  CHECK_FALSE(says(one, "just above"));
}

TEST_CASE("find: energy and CO2 of a run", "[unit][find]") {
  CHECK(parse_condition("energy <= 20 kWh")->target == Approx(7.2e7));
  CHECK(parse_condition("energy <= 0.02 MWh")->target == Approx(7.2e7));
  CHECK(words_of(parse_condition("co2 <= 8 kg").value()) == "CO2 <= 8 kg");
  const auto run = job(overrides("training.samples 1281167; training.epochs 90"));
  const auto lit = with(run, {{"energy.carbon", "400 g/kWh"}});
  const std::string less = "energy <= " + std::to_string(lit.training->energy.in(kilowatt_hours)*0.9) + " kWh";
  const auto answer = found(run, "gpu.time_factor", less.c_str());
  REQUIRE(answer.reached);
  CHECK(answer.prediction.training->energy.in(joules) <= 0.9 * lit.training->energy.in(joules) * (1 + 1e-6));
  CHECK_THAT(why_not(run, "gpu.time_factor", "CO2 <= 8 kg"), Catch::Contains("nobody says what CO2"));
  CHECK_THAT(why_not(job(), "gpu.time_factor", less.c_str()), Catch::Contains("nobody says how long the run is"));
  auto carbon = run;
  carbon.push_back({"energy.carbon", "400 g/kWh", {}});
  CHECK(
      found(carbon, "gpu.time_factor", ("CO2 <= " + std::to_string(lit.training->carbon->in(grams)*0.9) + " g").c_str())
          .reached);
}

TEST_CASE("find: what holds around a turn alone is found", "[unit][find]") {
  // Goodput has one best interval of checkpoints, between two of the values that are tried first.
  const std::vector<Override> base =
      job(overrides("nodes 512; failures.mtbf_gpu 20000 h; checkpoint.write 30 s; training.steps 1000000"));
  const auto best = with(base, {}).goodput->share;
  const std::string condition = "goodput >= " + std::to_string(100 * (best - 1e-3)) + " %";
  const auto answer = found(base, "checkpoint.interval", condition.c_str());
  CHECK(answer.value);
  CHECK_FALSE(answer.monotone);
  CHECK_FALSE(answer.holding.empty());
}

TEST_CASE("find: what nobody says yet can be looked for", "[unit][find]") {
  const auto run = job(overrides("node pcie-8xa40; training.samples 1281167; training.epochs 90"));
  const auto price = found(run, "price", "cost <= 100 $");
  const double in_hours = predict(resolve(catalog(), run).value())->training->time().in(seconds) / 3600;
  CHECK(*price.value == Approx(100 / in_hours / 3600).epsilon(2e-3));
  CHECK_THAT(price.notes, Catch::VectorContains(std::string("price: nobody says it; the search begins with 1 $/h")));

  auto fails = job(overrides("nodes 16; failures.restart 10 min; checkpoint.bandwidth 1 GB/s"));
  const auto often = found(fails, "failures.mtbf_gpu", "goodput >= 95 %");
  fails.push_back({"failures.mtbf_gpu", often.setting, {}});
  CHECK(predict(resolve(catalog(), fails).value())->goodput->share == Approx(0.95).epsilon(2e-3));
  auto writes = job(overrides("nodes 16; failures.mtbf_gpu 100 h"));
  const auto rate = found(writes, "checkpoint.bandwidth", "goodput >= 90 %");
  CHECK_FALSE(rate.now);
  writes.push_back({"checkpoint.bandwidth", "200 MB/s", {}});
  CHECK(found(writes, "checkpoint.bandwidth", "goodput >= 90 %").now == "0.2 GB/s");
  writes.push_back({"checkpoint.bandwidth", rate.setting, {}});
  CHECK(predict(resolve(catalog(), writes).value())->goodput->share >= 0.9 - 1e-3);
}

TEST_CASE("find: an efficiency that a profile stands for is no value of now", "[unit][find]") {
  const auto base = job();
  const double step = with(base, {}).step_time.in(milliseconds);
  const std::string slower = "step_time = " + std::to_string(1.2 * step) + " ms";
  const auto answer = found(base, "efficiency.compute", slower.c_str());
  CHECK(answer.now == "by its profile");
  CHECK_THAT(answer.notes, Catch::VectorContains(std::string("efficiency.compute: nobody states it now; stated, it "
                                                             "takes the place of the GPU's profile")));
  // Stated, it is what gives the step.
  CHECK(found(job(overrides("efficiency.compute 60%")), "efficiency.compute", slower.c_str()).now == "60 %");
  CHECK(found(job(overrides("gpu.calibration none")), "efficiency.memory", slower.c_str()).now == "70 %");
}

TEST_CASE("find: a power limit ends where the GPU's file does", "[unit][find]") {
  std::vector<Override> base{{"model", "llama_3_1_8b", {}}, {"node", "dgx-h100", {}}, {"parallel.zero", "3", {}}};
  const double free = predict(resolve(catalog(), base).value()).value().step_time.in(milliseconds);
  for (const char* stated : {"", "500 W"}) {
    if (*stated != 0) base.push_back({"gpu.power_limit", stated, {}});
    const auto never = found(base, "gpu.power_limit", fmt::format("step_time <= {} ms", free * 0.99).c_str());
    CHECK_FALSE(never.reached);
    CHECK(never.limit_setting == "700 W");
    CHECK(never.limit.step_time.in(milliseconds) == Approx(free));
    const auto soon = found(base, "gpu.power_limit", fmt::format("step_time <= {} ms", free * 1.01).c_str());
    REQUIRE(soon.value);
    CHECK(*soon.value < 700);
  }
}
