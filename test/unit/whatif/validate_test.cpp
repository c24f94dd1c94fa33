#include "ddlsim/whatif/validate.h"

#include <catch2/catch.hpp>

#include "catalog.h"
#include "ddlsim/whatif/predict.h"
#include "overrides.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using namespace ddlsim::whatif;
using ddlsim::test::overrides;

namespace {

io::Case resnet_on(std::int64_t gpus, double images_per_second) {
  io::Case one;
  one.id = "v" + std::to_string(gpus);
  one.group = "g";
  one.model = "ResNet-50 v1.5";
  one.framework = "PyTorch";
  one.precision = "AMP/mixed";
  one.gpu = "V100-SXM2-16GB";
  one.gpus_per_node = std::min<std::int64_t>(gpus, 8);
  one.nodes = (gpus + 7) / 8;
  one.total_gpus = gpus;
  one.intra_interconnect = "NVLink2 hybrid-cube-mesh(300GB/s)";
  one.inter_network = "1x100Gb EDR InfiniBand per node (ConnectX-4 MT27700)";
  one.batch_per_gpu = 256;
  one.architecture = gpus == 1 ? "single" : "ddp";
  one.metric = io::CaseMetric::kImagesPerSecond;
  one.value = images_per_second;
  return one;
}

answer::Validation run(std::vector<io::Case> cases, Anchor anchor) {
  const std::vector<CaseSet> sets{{"test", std::move(cases)}};
  return validate(catalog(), sets, {anchor}).value();
}

}  // namespace

TEST_CASE("validate: the smallest row of a group is given, the others are predicted", "[unit][whatif]") {
  const auto result = run({resnet_on(1, 800), resnet_on(8, 6000), resnet_on(16, 12000)}, Anchor::kFirst);
  const answer::ValidationSet& set = result.sets.front();
  CHECK(set.rows == 3);
  CHECK(set.anchors == 1);
  REQUIRE(set.cases.size() == 2);
  CHECK(set.unsupported.empty());
  // A GPU alone at 800 images/s bounds eight of them by 6,400.
  CHECK(set.cases[0].predicted < 6400);
  CHECK(set.cases[0].predicted > 5000);
  CHECK(set.cases[0].error == Approx(set.cases[0].predicted / 6000 - 1));
  CHECK(set.cases[0].perfect == Approx(6400));
  REQUIRE(set.perfect);
  // |6400/6000 - 1| = 6.7 %, |12800/12000 - 1| = 6.7 %
  CHECK(set.perfect->mean == Approx(0.0667).epsilon(0.01));
}

TEST_CASE("validate: rows that do not fit say how many times the memory they need", "[unit][whatif]") {
  io::Case large = resnet_on(1, 800);
  large.batch_per_gpu = 1024;
  const auto result = run({resnet_on(1, 800), large}, Anchor::kNone);
  CHECK(result.all.cases[0].fits);
  CHECK(result.all.cases[0].memory_times < 1);
  CHECK_FALSE(result.all.cases[1].fits);
  // Activations are most of it, four times as many.
  CHECK(result.all.cases[1].memory_times > 2.5);
  CHECK(result.all.cases[1].memory_times < 5);
}

TEST_CASE("validate: all sets together are what each of them is", "[unit][whatif]") {
  const std::vector<CaseSet> sets{{"a", {resnet_on(1, 800), resnet_on(8, 6000)}},
                                  {"b", {resnet_on(1, 700), resnet_on(8, 5000), resnet_on(16, 9000)}}};
  const answer::ValidationSet all = validate(catalog(), sets, {Anchor::kFirst}).value().all;
  CHECK(all.rows == 5);
  CHECK(all.anchors == 2);
  CHECK(all.cases.size() == 3);
}

TEST_CASE("validate: steps and collectives are summed up apart", "[unit][whatif]") {
  io::Case collective = resnet_on(8, 130);
  collective.id = "c8";
  collective.group = "c";
  collective.model = "all_reduce";
  collective.architecture = "collective";
  collective.metric = io::CaseMetric::kBusBandwidth;
  collective.extra["size_bytes"] = "1073741824";
  io::Case unknown = collective;
  unknown.id = "c9";
  unknown.gpu = "X9000";
  const auto both = run({resnet_on(1, 800), resnet_on(8, 6000), collective, unknown}, Anchor::kFirst);
  REQUIRE(both.kinds.size() == 2);
  const answer::ValidationSet& steps = both.kinds[0];
  CHECK(steps.name == "all steps");
  CHECK(steps.rows == 2);
  CHECK(steps.anchors == 1);
  REQUIRE(steps.cases.size() == 1);
  CHECK(steps.errors.mean == Approx(std::abs(both.all.cases[0].error)));
  const answer::ValidationSet& collectives = both.kinds[1];
  CHECK(collectives.name == "all collectives");
  CHECK(collectives.rows == 2);
  CHECK(collectives.anchors == 0);
  CHECK(collectives.unsupported.size() == 1);
  REQUIRE(collectives.cases.size() == 1);
  CHECK(collectives.errors.mean == Approx(std::abs(both.all.cases[1].error)));
  CHECK(run({collective}, Anchor::kNone).kinds.empty());
  CHECK(run({resnet_on(1, 800)}, Anchor::kNone).kinds.empty());
}

TEST_CASE("validate: an anchor on one GPU is met exactly", "[unit][whatif]") {
  io::Case twin = resnet_on(1, 800);
  twin.id = "twin";
  const auto result = run({resnet_on(1, 800), twin}, Anchor::kFirst);
  REQUIRE(result.sets.front().cases.size() == 1);
  CHECK(std::abs(result.sets.front().cases.front().error) < 1e-8);
}

TEST_CASE("validate: without an anchor every row is predicted from specifications", "[unit][whatif]") {
  const auto result = run({resnet_on(1, 800), resnet_on(8, 6000)}, Anchor::kNone);
  CHECK(result.sets.front().anchors == 0);
  CHECK(result.sets.front().cases.size() == 2);
  CHECK_FALSE(result.sets.front().perfect);
  CHECK(result.all.cases.size() == 2);
}

TEST_CASE("validate: summaries by hand", "[unit][whatif]") {
  // Three rows measured at k times what is predicted have errors of 1/k - 1: 0, -50 %, +100 %.
  const double predicted = run({resnet_on(8, 6000)}, Anchor::kNone).all.cases.front().predicted;
  std::vector<io::Case> cases;
  for (const double k : {1.0, 2.0, 0.5}) {
    cases.push_back(resnet_on(8, predicted * k));
    cases.back().id += std::to_string(k);
  }
  const answer::ErrorSummary errors = run(cases, Anchor::kNone).all.errors;
  CHECK(errors.cases == 3);
  CHECK(errors.mean == Approx(0.5));
  CHECK(errors.median == Approx(0.5));
  CHECK(errors.p90 == Approx(0.9));  // between the ranks of 50 % and 100 %
  CHECK(errors.worst == Approx(1.0));
}

TEST_CASE("validate: misses have a side, intervals a width, the median a bias", "[unit][whatif]") {
  const auto alone = run({resnet_on(8, 6000)}, Anchor::kNone).all.cases.front();
  const double high = alone.interval_90.second / alone.predicted;
  const double low = alone.interval_90.first / alone.predicted;
  std::vector<io::Case> cases;
  for (const double k : {high * 1.1, low * 0.9, low * 0.8, 0.99, 0.98}) {
    cases.push_back(resnet_on(8, alone.predicted * k));
    cases.back().id += std::to_string(k);
  }
  const answer::ValidationSet all = run(cases, Anchor::kNone).all;
  CHECK(all.faster == 1);  // more images per second than the interval's high end
  CHECK(all.slower == 2);
  CHECK(all.coverage_90 == Approx(0.4));
  CHECK(all.interval_ratio == Approx(high / low));
  CHECK(all.median_time_bias == Approx(0.98 - 1).epsilon(1e-6));  // the median row takes 1 / 0.98 of what is predicted
}

TEST_CASE("validate: what cannot be predicted is listed with its reason", "[unit][whatif]") {
  io::Case model = resnet_on(8, 1);
  model.model = "NoNet";
  io::Case parallel = resnet_on(8, 1);
  parallel.id = "tp";
  parallel.architecture = "tp-pp-dp";
  io::Case metric = resnet_on(8, 1);
  metric.id = "bus";
  metric.metric = io::CaseMetric::kBusBandwidth;
  const auto result = run({model, parallel, metric}, Anchor::kNone);
  REQUIRE(result.all.unsupported.size() == 3);
  CHECK(result.all.unsupported[0].why.find("unknown model 'NoNet'") != std::string::npos);
  CHECK(result.all.unsupported[1].why.find("sizes the source does not say") != std::string::npos);
  CHECK(result.all.unsupported[2].why.find("busbw_gbps") != std::string::npos);
}

TEST_CASE("validate: images have no tokens", "[unit][whatif]") {
  io::Case one = resnet_on(8, 1000);
  one.metric = io::CaseMetric::kTokensPerSecond;
  const auto images = run({one}, Anchor::kNone);
  REQUIRE(images.all.unsupported.size() == 1);
  CHECK(images.all.unsupported.front().why == "ResNet-50 v1.5 counts images, not tokens");
  one.extra["tokens_per_sample"] = "196";
  CHECK(run({one}, Anchor::kNone).all.unsupported.empty());
}

TEST_CASE("validate: tokens are the encoder's, or as many as the source counts", "[unit][whatif]") {
  io::Case one = resnet_on(1, 1000);
  one.model = "T5 v1.1 small";
  one.architecture = "single";
  one.metric = io::CaseMetric::kSamplesPerSecond;
  one.batch_per_gpu = std::nullopt;
  one.extra = {{"layers", "2"},    {"hidden", "256"},      {"heads", "4"},
               {"seq_len", "512"}, {"seq_len_dec", "128"}, {"tp", "1"}};
  const double samples = run({one}, Anchor::kNone).all.cases.front().predicted;
  one.metric = io::CaseMetric::kTokensPerSecond;
  CHECK(run({one}, Anchor::kNone).all.cases.front().predicted == Approx(512 * samples));
  one.extra["tokens_per_sample"] = "640";
  CHECK(run({one}, Anchor::kNone).all.cases.front().predicted == Approx(640 * samples));
}

TEST_CASE("cost: a step that is captured as graphs has no work on samples in it", "[unit][whatif]") {
  const std::vector<Override> job = overrides("model maskrcnn_resnet50_fpn; node dgx1-v100; batch 4");
  auto scenario = resolve(catalog(), job).value();
  const Time before = predict(scenario)->step_time;
  scenario.cuda_graphs = true;
  const Time after = predict(scenario)->step_time;
  // Four images of 36 ms (models/maskrcnn_resnet50_fpn.yaml), and what launches take.
  CHECK((before - after).in(milliseconds) >= 4 * 36);
  CHECK((before - after).in(milliseconds) < 4 * 36 * 1.2);
}

TEST_CASE("validate: what is stated holds for every row, and goes before what it says", "[unit][whatif]") {
  const CaseSet set{"own", {resnet_on(1, 800), resnet_on(8, 6000)}};
  const ValidateOptions slower{Anchor::kNone, overrides("gpu.memory_bandwidth 450 GB/s; batch 64")};
  const auto before = validate(catalog(), {&set, 1}, {}).value().all;
  const auto after = validate(catalog(), {&set, 1}, slower).value().all;
  REQUIRE(after.cases.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) CHECK(after.cases[i].predicted < 0.8 * before.cases[i].predicted);
  const auto read = read_case(catalog(), {&set, 1}, set.cases.back().id, slower).value();
  CHECK(read.result.predicted == after.cases[1].predicted);
  CHECK(std::count(read.settings.begin(), read.settings.end(), std::pair<std::string, std::string>("batch", "64")) ==
        1);
  const auto unknown = validate(catalog(), {&set, 1}, {Anchor::kNone, overrides("sofware none")});
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().code == ErrorCode::kNotFound);
}

TEST_CASE("validate: one row in full is the row among the others", "[unit][whatif]") {
  const CaseSet set{"own", {resnet_on(1, 800), resnet_on(8, 6000), resnet_on(16, 12000)}};
  const auto all = whatif::validate(catalog(), {&set, 1}, {}).value();
  const answer::CaseResult& last = all.all.cases.back();
  const auto row = whatif::read_case(catalog(), {&set, 1}, last.id, {}).value();
  CHECK(row.result.predicted == last.predicted);
  CHECK(row.result.interval_90 == last.interval_90);
  REQUIRE(row.prediction);
  const auto stated = [&](std::string_view path) {
    for (const auto& [key, value] : row.settings) {
      if (key == path) return value;
    }
    return std::string();
  };
  CHECK_FALSE(stated("node").empty());
  CHECK(stated("nodes") == std::to_string(set.cases.back().nodes));
  // A row that is given has no prediction, and no row has another's name.
  const auto given = whatif::read_case(catalog(), {&set, 1}, set.cases.front().id, {whatif::Anchor::kFirst});
  REQUIRE_FALSE(given);
  CHECK(given.error().code == ErrorCode::kInvalidArgument);
  const auto unknown = whatif::read_case(catalog(), {&set, 1}, "nobody", {});
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().code == ErrorCode::kNotFound);
}

TEST_CASE("predict: a measured step is met by a factor on GPU time", "[unit][whatif]") {
  Scenario scenario = resolve(catalog(), overrides("model resnet50; node dgx1-v100")).value();
  const Time predicted = predict(scenario).value().step_time;
  const double factor = fit_gpu_time(scenario, predicted * 2.0).value();
  CHECK(factor > 1.5);
  scenario.gpu_time_factor = factor;
  CHECK(predict(scenario).value().step_time.in(seconds) == Approx(predicted.in(seconds)*2).epsilon(1e-8));
  CHECK_FALSE(fit_gpu_time(scenario, nanoseconds(1)));
}
