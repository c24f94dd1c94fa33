#include "ddlsim/whatif/recommend.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "catalog.h"
#include "ddlsim/whatif/predict.h"
#include "overrides.h"

using namespace ddlsim;
using Catch::Matchers::Contains;
using ddlsim::test::catalog;
using namespace ddlsim::whatif;
using ddlsim::test::joined;
using ddlsim::test::overrides;

namespace {

std::vector<Override> job(std::vector<Override> more = {}) {
  return joined(overrides("model resnet50; training.samples 1281167; training.epochs 90"), more);
}

/// Servers of one's own alone: quick to try.
RecommendOptions own(std::int64_t most) {
  RecommendOptions options;
  options.providers.emplace();
  options.max_nodes = most;
  return options;
}

const Override kOwn{"price", "dgx1-v100=3 $/h, dgx-a100=12 $/h", {}};

answer::Recommendation found(const std::vector<Override>& settings, const RecommendOptions& options) {
  const auto result = recommend(catalog(), settings, options);
  if (!result) FAIL(to_string(result.error()));
  return *result;
}

std::string refused(const std::vector<Override>& settings, const RecommendOptions& options) {
  const auto result = recommend(catalog(), settings, options);
  REQUIRE_FALSE(result);
  return to_string(result.error());
}

const answer::ServerChoice& choice_of(const answer::Recommendation& result, const std::string& node, std::int64_t nodes,
                                      const std::string& strategy = "all-reduce") {
  const auto one = std::find_if(result.choices.begin(), result.choices.end(), [&](const auto& c) {
    return c.node == node && c.nodes == nodes && c.strategy == strategy;
  });
  REQUIRE(one != result.choices.end());
  return *one;
}

}  // namespace

TEST_CASE("recommend: every number of servers that divides the batch is tried, and more of them take nothing away",
          "[unit][whatif]") {
  const std::vector<Override> settings = job({kOwn, {"global_batch", "576", {}}});
  const auto nine = choice_of(found(settings, own(16)), "dgx-a100", 9);
  CHECK(choice_of(found(settings, own(9)), "dgx-a100", 9).step == nine.step);
  RecommendOptions in_time = own(16);
  in_time.deadline = nine.time() * 1.001;
  CHECK(found(settings, in_time).choices.front().time() <= *in_time.deadline);
}

TEST_CASE("recommend: a choice is what predict says of it, times the price", "[unit][whatif]") {
  const auto result = found(job({kOwn}), own(4));
  const auto& two = choice_of(result, "dgx1-v100", 2);
  CHECK(two.batch == 256);       // the model's published recipe
  CHECK(two.micro_batch == 16);  // over 16 GPUs
  const auto p =
      predict(resolve(catalog(), overrides("model resnet50; node dgx1-v100; nodes 2; batch 16")).value()).value();
  CHECK(two.step == p.step_time);
  CHECK(two.time().in(seconds) == Approx(90 * 5005 * p.step_time.in(seconds)));
  CHECK(two.cost().in(dollars) == Approx(2 * 3 * two.time().in(hours)));
  const double busy = (p.breakdown.compute + p.breakdown.memory) / p.step_time;
  CHECK(two.training.energy.in(joules) == Approx(16 * 300.0 * two.time().in(seconds)*busy));
}

TEST_CASE("recommend: cheapest, fastest and front are those of all choices", "[unit][whatif]") {
  RecommendOptions options = own(4);
  const auto all = found(job({kOwn}), options);
  CHECK(all.choices.size() == 2 * 3);  // 1, 2, 4 servers
  CHECK(std::is_sorted(all.choices.begin(), all.choices.end(),
                       [](const auto& a, const auto& b) { return a.cost() < b.cost(); }));
  for (std::size_t i = 0; i < all.choices.size(); ++i) {
    const bool on_front = std::find(all.pareto.begin(), all.pareto.end(), i) != all.pareto.end();
    const bool beaten = std::any_of(all.choices.begin(), all.choices.end(), [&](const auto& other) {
      return other.cost() <= all.choices[i].cost() && other.time() <= all.choices[i].time() &&
             (other.cost() < all.choices[i].cost() || other.time() < all.choices[i].time());
    });
    CHECK(on_front == !beaten);
    CHECK(all.choices[all.cheapest].cost() <= all.choices[i].cost());
    CHECK(all.choices[all.fastest].time() <= all.choices[i].time());
  }
  CHECK(all.choices[all.cheapest].prediction.has_value());
  // A deadline between the cheapest and the next on the front moves the answer to that.
  REQUIRE(all.pareto.size() > 1);
  const auto& next = all.choices[all.pareto[1]];
  options.deadline = (all.choices[all.cheapest].time() + next.time()) / 2.0;
  const auto sooner = found(job({kOwn}), options);
  CHECK(sooner.choices[sooner.cheapest].node == next.node);
  CHECK(sooner.choices[sooner.cheapest].nodes == next.nodes);
  CHECK_THAT(sooner.would_help.front(), Contains("a deadline of") && Contains("less"));
  // How likely it ends in time follows from the interval of its step: the deadline is later than the expected end.
  const auto& in_time = sooner.choices[sooner.cheapest];
  CHECK(*in_time.in_deadline > 0.5);
  CHECK(*in_time.in_deadline < 1);
  CHECK_FALSE(all.choices[all.cheapest].in_deadline);
  REQUIRE(in_time.stalls);
  CHECK(in_time.stalls->interconnect);
  CHECK(in_time.stalls->network.has_value() == (in_time.nodes > 1));
  // And a budget that just pays for it makes it the fastest.
  options.deadline.reset();
  options.budget = next.cost();
  const auto poorer = found(job({kOwn}), options);
  CHECK(poorer.choices[poorer.fastest].time() == next.time());
  for (const auto& choice : poorer.choices) CHECK(choice.cost() <= *options.budget);
}

TEST_CASE("recommend: the batch stays the model's, unless epochs are stated for others", "[unit][whatif]") {
  for (const auto& choice : found(job({kOwn}), own(2)).choices) CHECK(choice.batch == 256);
  for (const auto& choice : found(job({kOwn, {"global_batch", "512", {}}}), own(2)).choices) CHECK(choice.batch == 512);
  RecommendOptions options = own(1);
  options.epochs_by_batch = {{256, 90}, {8192, 120}};
  std::vector<Override> unsaid = job({kOwn});
  std::erase_if(unsaid, [](const Override& s) { return s.path == "training.epochs"; });
  const auto both = found(unsaid, options);
  const auto of_batch = [&](std::int64_t batch) {
    return *std::find_if(both.choices.begin(), both.choices.end(),
                         [&](const auto& c) { return c.node == "dgx1-v100" && c.batch == batch; });
  };
  CHECK(of_batch(256).training.steps == 90 * 5005);
  CHECK(of_batch(8192).training.steps == 120 * 157);  // 1,281,167 / 8192 = 156.4
  unsaid.push_back({"global_batch", "512", {}});
  CHECK_THAT(refused(unsaid, options), Contains("no epochs for a global batch of 512"));
  CHECK_THAT(refused(job({kOwn}), options), Contains("training.epochs beside a table of epochs"));
}

TEST_CASE("recommend: passes are as large as memory allows", "[unit][whatif]") {
  // 8192 images on 8 GPUs of 16 GB: 1024 each, in passes of a divisor that fits.
  const auto result = found(job(overrides("price dgx1-v100=3 $/h; global_batch 8192")), own(1));
  const auto& one = choice_of(result, "dgx1-v100", 1);
  CHECK(one.micro_batch * one.passes == 1024);
  CHECK(one.passes > 1);
  const auto fits = [](std::int64_t batch) {
    return predict(resolve(catalog(), overrides("model resnet50; node dgx1-v100; batch {}", batch)).value())
        .value()
        .fits;
  };
  CHECK(fits(one.micro_batch) == true);
  CHECK(fits(one.micro_batch * 2) == false);
}

TEST_CASE("recommend: what does not fit says by how much, and is shared where that helps", "[unit][whatif]") {
  const std::vector<Override> large =
      overrides("model gpt2_xl; training.steps 1000; global_batch 8; price g4dn.xlarge=1 $/h, dgx1-v100=3 $/h");
  const auto result = found(large, own(1));
  CHECK(result.choices.front().node == "dgx1-v100");
  const bool shared = std::any_of(result.choices.begin(), result.choices.end(),
                                  [](const auto& c) { return c.strategy != "all-reduce" && c.strategy != "one GPU"; });
  CHECK(shared);
  REQUIRE(result.infeasible.size() == 1);
  CHECK(result.infeasible.front().node == "g4dn.xlarge");
  const std::string& why = result.infeasible.front().why;
  CHECK_THAT(why, Contains("memory") && Contains("too much"));
  const auto gigabytes_after = [&](std::string_view words) {
    return std::stod(why.substr(why.find(words) + words.size()));
  };
  CHECK(gigabytes_after(" GB: ") == Approx(gigabytes_after("at least ") - 15.83).margin(0.05));
}

TEST_CASE("recommend: what the host's memory does not hold says so", "[unit][whatif]") {
  // 70 G parameters of 16 bytes each: 1.13 TB of the host's 1.02.
  const std::vector<Override> offloaded = overrides(
      "model llama_3_1_70b; node dgx-a100; gpu a100-80gb; precision bf16; training.steps 1000; global_batch 8; "
      "parallel.zero 3; parallel.recompute full; parallel.tensor 8; parallel.sequence yes; parallel.offload_optimizer "
      "yes; price dgx-a100=12 $/h");
  CHECK_THAT(refused(offloaded, own(1)),
             Contains("host memory: ") && Contains("which has 1.024 TB") && Contains("too much"));
}

TEST_CASE("recommend: own runs set the step, of the kind of server they ran on", "[unit][whatif]") {
  const std::vector<Override> settings = job(overrides("node p3.16xlarge; global_batch 512; batch 64"));
  RecommendOptions options;
  options.max_nodes = 1;
  const double plain = found(settings, options).choices.front().step.in(milliseconds);
  std::vector<Override> measured = settings;
  measured.push_back({"measured.steps", "1x8@64 = 250 ms", {}});
  CHECK(plain < 240);
  CHECK(found(measured, options).choices.front().step.in(milliseconds) == Approx(250).epsilon(0.01));
  std::erase_if(measured, [](const Override& one) { return one.path == "node"; });
  CHECK_THAT(refused(measured, options), Contains("measured runs are of one kind of server"));
  // Likewise a price: "5 $/h" beside a kind that has one of its own.
  CHECK_THAT(refused(job(overrides("price 5 $/h, dgx1-v100=3 $/h, dgx-a100=12 $/h")), own(1)),
             Contains("a price of no kind of server"));
}

TEST_CASE("recommend: runs are of the job that is stated, its batch and servers too, as in predict", "[unit][whatif]") {
  const std::vector<Override> stated = overrides(
      "model resnet50; node dgx1-v100; nodes 4; batch 128; global_batch 4096; network infiniband-100g; strategy "
      "allreduce; price 10 $/h; training.steps 1000");
  for (const Override& runs : {Override{"measured.steps", "4x8 = 430.5 ms", {}},
                               Override{"measured.steps", "1x1@128 = 353.2 ms; 4x8@128 = 430.5 ms", {}},
                               Override{"measured.step", "430.5 ms", {}}}) {
    std::vector<Override> measured = stated;
    measured.push_back(runs);
    const auto scenario = resolve(catalog(), measured);
    if (!scenario) FAIL(to_string(scenario.error()));
    const double step = found(measured, own(4)).choices.front().step.in(seconds);
    CHECK(step == Approx(predict(*scenario).value().step_time.in(seconds)));
    CHECK(step == Approx(0.4305).epsilon(0.01));
  }
}

TEST_CASE("recommend: a server of one's own is priced and tried by its file", "[unit][whatif]") {
  const std::string file = (std::filesystem::temp_directory_path() / "own-server.yaml").string();
  std::ofstream(file)
      << "node: own-server\nname: My server\ngpu: h100-sxm5-80gb\ngpus: 8\n"
         "gpu_interconnect: nvlink\nnetwork: {link: infiniband-400g, count: 8}\npcie_uplinks: 4\n"
         "sources: {gpu: mine, gpus: mine, gpu_interconnect: mine, network: mine, pcie_uplinks: mine}\n";
  const auto result = found(job(overrides("price {}", file + "=90 $/h, dgx-a100=20 $/h")), own(1));
  CHECK(choice_of(result, "own-server", 1).price.in(dollars_per_hour) == Approx(90));
  CHECK(choice_of(result, "dgx-a100", 1).price.in(dollars_per_hour) == Approx(20));
}

TEST_CASE("recommend: tables that no GPU holds are spread", "[unit][whatif]") {
  const auto result = found(
      overrides(
          "model dlrm_dcnv2; training.samples 4195197692; training.epochs 1; precision fp16; price dgx-h100=98 $/h"),
      own(2));
  const auto& one = choice_of(result, "dgx-h100", 1, "pearl");
  CHECK(one.batch == 55296);
  CHECK(one.micro_batch == 6912);
  for (const answer::ServerChoice& choice : result.choices) CHECK(choice.strategy == "pearl");
}

TEST_CASE("recommend: no choice inside the limits says by how much they are missed", "[unit][whatif]") {
  RecommendOptions options = own(2);
  options.deadline = seconds(60);
  CHECK_THAT(refused(job({kOwn}), options),
             Contains("no choice is done in 60 s") && Contains("too long") && Contains("the fastest: 2 x dgx-a100"));
  options.deadline.reset();
  options.budget = dollars(1);
  CHECK_THAT(refused(job({kOwn}), options), Contains("no choice costs 1.00 $ or less") && Contains("too much"));
  const auto all = found(job({kOwn}), own(2));
  options.deadline = all.choices[all.fastest].time();
  options.budget = all.choices[all.cheapest].cost();
  CHECK_THAT(refused(job({kOwn}), options), Contains("no choice is done in") && Contains("for"));
}

TEST_CASE("recommend: a price that is level with the cheapest is no threshold", "[unit][whatif]") {
  // One T4 each: alike but for their processors.
  const auto result = found(job(overrides("price g4dn.8xlarge=2 $/h, g4dn.16xlarge=2 $/h")), own(1));
  REQUIRE(result.choices.size() == 2);
  const auto said = [&](const std::string& text) {
    return std::any_of(result.would_help.begin(), result.would_help.end(),
                       [&](const std::string& line) { return line.find(text) != std::string::npos; });
  };
  CHECK(said("below the 2 $/h it costs: 1 x g4dn.8xlarge is level with the cheapest"));
  CHECK_FALSE(said("instead of 2 "));
}

TEST_CASE("recommend: prices come from a list where there is one", "[unit][whatif]") {
  RecommendOptions options;
  options.providers = {"aws"};
  options.max_nodes = 1;
  options.prices =
      std::vector<importers::ListedPrice>{{"p3.2xlarge", "us-east-1", dollars_per_hour(4), dollars_per_hour(1)},
                                          {"P3.2xlarge", "eu-west-1", dollars_per_hour(2), std::nullopt},
                                          {"p3.8xlarge", "eu-west-1", dollars_per_hour(9), std::nullopt}};
  const auto cheapest = found(job(), options);
  CHECK(choice_of(cheapest, "p3.2xlarge", 1, "one GPU").price.in(dollars_per_hour) == Approx(2));
  CHECK(cheapest.choices.size() == 2);
  CHECK_THAT(cheapest.infeasible.front().why, Contains("nobody says what it costs"));
  options.region = "us-east-1";
  CHECK(choice_of(found(job(), options), "p3.2xlarge", 1, "one GPU").price.in(dollars_per_hour) == Approx(4));
  options.region = "us-east-2";
  CHECK_THAT(refused(job(), options), Contains("no region 'us-east-2'") && Contains("did you mean 'us-east-1'"));
  options.region.clear();
  const auto spot = found(job(overrides("price.spot yes")), options);
  REQUIRE(spot.choices.size() == 1);
  CHECK(spot.choices.front().price.in(dollars_per_hour) == Approx(1));
}

TEST_CASE("recommend: questions without a choice or a length are refused", "[unit][whatif]") {
  CHECK_THAT(refused({{"model", "resnet50", {}}, kOwn}, own(1)), Contains("how long is the run?"));
  CHECK_THAT(refused(job(), own(1)), Contains("no server to choose from"));
  RecommendOptions options;
  options.providers = {"awz"};
  CHECK_THAT(refused(job(), options), Contains("unknown catalog 'awz'") && Contains("AWS"));
  options.providers = {"aws"};
  const std::string never = refused(job(overrides("training.epochs 0")), options);
  CHECK_THAT(never, Contains("training.epochs") && Contains("not above 0") && !Contains("p3.2xlarge"));
  CHECK_THAT(refused(job(overrides("node p3.16xlrage")), own(1)), Contains("'p3.16xlarge'"));
  // A batch that does not spread over GPUs.
  CHECK_THAT(refused(job({kOwn, {"global_batch", "7", {}}}), own(1)), Contains("do not spread evenly over 8 replicas"));
}

TEST_CASE("recommend: a step's batch that no source says is asked for", "[unit][whatif]") {
  std::vector<Override> settings{
      {"model", "gpt2_xl", {}}, {"precision", "bf16", {}}, {"training.tokens", "1e9", {}}, kOwn};
  CHECK_THAT(refused(settings, own(1)),
             Contains("how many sequences has a step of GPT-2 XL?") && Contains("--global-batch"));
  settings.push_back({"global_batch", "512", {}});
  CHECK(found(settings, own(1)).choices.size() > 0);
}

TEST_CASE("recommend: a choice's settings make predict say its step, whichever way it shares", "[unit][whatif]") {
  const auto reproduced = [](const std::vector<Override>& stated, const RecommendOptions& options) {
    std::vector<std::string> ways;
    const auto result = found(stated, options);
    for (const auto& choice : result.choices) {
      CAPTURE(choice.node, choice.nodes, choice.strategy);
      std::vector<Override> settings = stated;
      for (const auto& [path, value] : choice.settings) settings.push_back({path, value, {}});
      const auto scenario = resolve(catalog(), settings);
      if (!scenario) FAIL(to_string(scenario.error()));
      CHECK(predict(*scenario).value().step_time == choice.step);
      ways.push_back(choice.strategy);
    }
    return ways;
  };
  const auto has = [](const std::vector<std::string>& ways, const std::string& one) {
    return std::find(ways.begin(), ways.end(), one) != ways.end();
  };
  const auto simple = reproduced(job({kOwn}), own(4));
  CHECK(has(simple, "all-reduce"));
  // A model that one GPU does not hold is shared and split.
  const auto large = reproduced(
      overrides("model llama2_7b; precision bf16; global_batch 64; training.steps 1000; price dgx-a100=12 $/h"),
      own(2));
  CHECK(large.size() == 2);
  CHECK_FALSE(has(large, "all-reduce"));
  const auto tables =
      reproduced({{"model", "dlrm", {}}, {"global_batch", "16384", {}}, {"training.steps", "1000", {}}, kOwn}, own(2));
  CHECK(has(tables, "pearl"));
  CHECK(has(reproduced(job({kOwn, {"strategy", "ps", {}}}), own(2)), "as stated"));
}

TEST_CASE("recommend: parameter servers are tried where somebody states them", "[unit][whatif]") {
  const auto says = [](const answer::Recommendation& result, const std::string& part) {
    return std::any_of(result.notes.begin(), result.notes.end(),
                       [&](const std::string& note) { return note.find(part) != std::string::npos; });
  };
  const auto result = found(job({kOwn}), own(2));
  CHECK(says(result, "the cheapest as `predict` has it: --set node='dgx"));
  CHECK(says(result, "precision: nobody stated one; the runs are in fp32"));
  CHECK_FALSE(says(found(job({kOwn, {"precision", "fp16", {}}}), own(2)), "precision:"));
  CHECK(std::none_of(result.choices.begin(), result.choices.end(),
                     [](const auto& choice) { return choice.strategy.starts_with("ps"); }));
  const Override servers{"strategy", "ps", {}};
  CHECK(says(found(job({kOwn, servers}), own(2)), "strategy.colocated=yes"));
  CHECK_FALSE(says(found(job({kOwn, servers, {"strategy.colocated", "yes", {}}, {"nodes", "2", {}}}), own(2)),
                   "strategy.colocated=yes"));
  // Their sums and updates take the memory of the machine they are on: 70 % of two sockets' 76.8 GB/s, unless stated.
  const auto with = [&](std::vector<Override> more) {
    const std::vector<Override> settings =
        joined(overrides("model vgg16; node dgx1-v100; nodes 2; strategy ps; network 400 Gb/s"), more);
    return predict(resolve(catalog(), settings).value()).value().step_time;
  };
  const Override together{"strategy.colocated", "yes", {}};
  CHECK(with({together}) == with({together, {"ps.memory_bandwidth", "107.52 GB/s", {}}}));
  CHECK(with({together, {"ps.memory_bandwidth", "20 GB/s", {}}}) > with({together}) * 1.5);
  CHECK(with({}) == with(overrides("ps.memory_bandwidth 60 GB/s")));  // machines of their own: nobody says which
}

TEST_CASE("recommend: a stated GPU keeps the servers that have it, with their prices", "[unit][whatif]") {
  RecommendOptions options;
  options.max_nodes = 1;
  const auto result = found(job(overrides("gpu h100")), options);
  REQUIRE(result.choices.size() > 1);
  const auto check = [&](const std::string& name) {
    const auto node = catalog().node(name).value();
    CHECK(node.gpu.id == "h100-sxm5-80gb");
    return node;
  };
  for (const auto& choice : result.choices) {
    const auto node = check(choice.node);
    CHECK(choice.price.in(dollars_per_hour) == Approx(node.price->in(dollars_per_hour)));
    CHECK(choice.price_region == node.tariff.region);
    CHECK(choice.price_date == node.tariff.date);
    CHECK_FALSE(choice.price_date.empty());
  }
  for (const auto& none : result.infeasible) check(none.node);
  CHECK_THAT(refused(job({kOwn, {"gpu", "h100", {}}}), own(1)),
             Contains("no server to choose from has NVIDIA H100") && Contains("they have a100-sxm4-40gb, v100-sxm2-"));
  CHECK_THAT(refused(job(overrides("gpu h1000")), options), Contains("h1000"));
  // Of several each keeps its own.
  const auto both = found(job(overrides("gpu h100, a100-80gb")), options);
  std::set<std::string> gpus;
  for (const auto& choice : both.choices) gpus.insert(catalog().node(choice.node)->gpu.id);
  CHECK(gpus == std::set<std::string>{"a100-sxm4-80gb", "h100-sxm5-80gb"});
  CHECK_THAT(refused(job({kOwn, {"gpu", "h100,h200", {}}}), own(1)),
             Contains("has NVIDIA H100") && Contains(" or NVIDIA H200"));
  CHECK_THAT(refused(job(overrides("node dgx-h100; gpu h100,a100")), own(1)), Contains("one server is named"));
  // A stated price is of no day.
  CHECK(found(job({kOwn}), own(1)).choices.front().price_date.empty());
}

TEST_CASE("recommend: prices more than a year apart are said", "[unit][whatif]") {
  RecommendOptions options;
  options.max_nodes = 1;
  const auto says = [](const answer::Recommendation& result) {
    return std::any_of(result.notes.begin(), result.notes.end(), [](const std::string& note) {
      return note.starts_with("prices: from ") && note.find("more than a year apart") != std::string::npos;
    });
  };
  const auto all = found(job(), options);
  std::string oldest = "9";
  std::string newest;
  for (const auto& choice : all.choices) {
    oldest = std::min(oldest, choice.price_date);
    newest = std::max(newest, choice.price_date);
  }
  REQUIRE(std::stoi(newest.substr(0, 4)) > std::stoi(oldest.substr(0, 4)) + 1);
  CHECK(says(all));
  CHECK_FALSE(says(found(job({kOwn}), own(1))));
}

TEST_CASE("recommend: spot prices that nobody has are asked for", "[unit][whatif]") {
  CHECK_THAT(refused(job(overrides("price.spot yes")), {}), Contains("the catalogue has no spot price of them") &&
                                                                Contains("--prices FILE") &&
                                                                Contains("InstanceType, Price, SpotPrice"));
}

TEST_CASE("recommend: fetch stalls are of the run, and what the best rest on is said", "[unit][whatif]") {
  const auto read = job({kOwn, {"input.dataset", "imagenet", {}}, {"input.storage", "ebs-gp3", {}}});
  auto brief = read;
  brief.push_back({"training.epochs", "1", {}});
  RecommendOptions every = own(1);
  every.predict_all = true;
  const auto fetch = [&](const answer::Recommendation& result) {
    return choice_of(result, "dgx-a100", 1).stalls->fetch->percent / 100;
  };
  const auto run = found(read, every);
  const double first = fetch(found(brief, every));
  REQUIRE(first > 0.1);
  // All of ImageNet stays in memory: t(warm) = 1, cold steps of 1 / (1 - first), which 1 of 90 are.
  CHECK(fetch(run) == Approx(1 - 1 / (1 + (1 / (1 - first) - 1) / 90)));
  const auto says = [&](const std::string& part) {
    return std::any_of(run.notes.begin(), run.notes.end(),
                       [&](const std::string& note) { return note.find(part) != std::string::npos; });
  };
  CHECK(says("dgx-a100: fp32: on this GPU PyTorch"));
  CHECK(says(": kernels by the profile"));
  const auto idle = found(job({kOwn, {"input.storage", "ebs-gp3", {}}}), own(1));
  CHECK(std::any_of(idle.notes.begin(), idle.notes.end(), [](const std::string& note) {
    return note.ends_with("stated, but without effect here: input.storage");
  }));
}

TEST_CASE("recommend: one server is spoken of as one", "[unit][whatif]") {
  const auto one = found(job({kOwn}), own(1));
  const auto says = [](const std::vector<std::string>& lines, const std::string& text) {
    return std::any_of(lines.begin(), lines.end(),
                       [&](const std::string& line) { return line.find(text) != std::string::npos; });
  };
  CHECK(says(one.would_help, "more than 1 server (--max-nodes)"));
  RecommendOptions soon = own(1);
  const Time slowest = choice_of(one, "dgx1-v100", 1).time();
  soon.deadline = slowest * 0.95;
  bool named = false;
  for (const auto& out : found(job({kOwn}), soon).infeasible) {
    named = named || out.why.find("deadline: 1 of them needs ") == 0;
  }
  CHECK(named);
}
