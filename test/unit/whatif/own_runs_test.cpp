#include "ddlsim/whatif/own_runs.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "catalog.h"
#include "ddlsim/whatif/compare.h"
#include "ddlsim/whatif/curve.h"
#include "ddlsim/whatif/plan_search.h"
#include "ddlsim/whatif/predict.h"
#include "ddlsim/whatif/predictor.h"
#include "ddlsim/whatif/sweep.h"
#include "overrides.h"
#include "unit/whatif/own_runs_job.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using ddlsim::test::joined;
using ddlsim::test::overrides;
using ddlsim::test::own_runs::job;
using ddlsim::test::own_runs::predicted;
using ddlsim::test::own_runs::refused;
using ddlsim::test::own_runs::says;
using whatif::Override;

namespace {

double width(const answer::Prediction& p) { return p.interval_90.second / p.interval_90.first; }

}  // namespace

TEST_CASE("own runs: a step of one split corrects the others by a part, and less surely", "[unit][whatif]") {
  const auto split = [](const std::string& tensor, std::vector<Override> more = {}) {
    return joined(
        overrides("model gpt2_medium; node dgx-a100; nodes 2; precision bf16; batch 4; parallel.tensor {}", tensor),
        more);
  };
  const auto own = predicted(split("4"));
  const auto baseline = whatif::resolve(catalog(), split("4")).value();
  const auto runs = whatif::OwnRuns::learn(std::vector<whatif::OwnRun>{{baseline, own.step_time * 1.5}}).value();
  const auto by_runs = [&](const std::string& tensor) {
    return whatif::predict(whatif::corrected(whatif::resolve(catalog(), split(tensor)).value(), runs)).value();
  };
  CHECK(by_runs("4").step_time / own.step_time == Approx(1.5));
  const auto other = by_runs("8");
  // 0.13^2 of 0.13^2 + 0.16^2 (run_posterior.h), and more where launches keep GPUs waiting: of twice the ranks they are
  // the larger part.
  const double kept = std::log(other.step_time / predicted(split("8")).step_time) / std::log(1.5);
  CHECK(kept > 0.39765);
  CHECK(kept < 1.6);
  CHECK(width(other) > 1.5 * width(by_runs("4")));
  CHECK(other.provenance == Provenance::kExtrapolated);
  CHECK(by_runs("4").provenance == Provenance::kInterpolated);
}

TEST_CASE("own runs: another release's step says less of a split model, and as much of a whole one", "[unit][whatif]") {
  // What is kept of a step that takes 1.5 times as long, where `asked` runs what "NeMo 26.04" measured.
  const auto kept = [](const std::vector<Override>& settings, const std::string& asked) {
    whatif::Scenario scenario = whatif::resolve(catalog(), settings).value();
    const Time own = whatif::predict(scenario).value().step_time;
    scenario.framework = "NeMo 26.04";
    const auto runs = whatif::OwnRuns::learn(std::vector<whatif::OwnRun>{{scenario, own * 1.5}}).value();
    scenario.framework = asked;
    const answer::Prediction found = whatif::predict(whatif::corrected(scenario, runs)).value();
    return std::pair(std::log(found.step_time / own) / std::log(1.5), width(found));
  };
  const std::vector<Override> whole = overrides("model gpt2_medium; node dgx-a100; precision bf16");
  auto split = whole;
  split.push_back({"parallel.tensor", "4", {}});
  CHECK(kept(split, "nemo 26.04.01").first == Approx(1));
  // 0.16^2 of 0.13^2 + 0.16^2 (run_posterior.h), and more where GPUs are left to what every pass takes.
  CHECK(kept(split, "NeMo 26.06").first > 0.60235);
  CHECK(kept(split, "NeMo 26.06").first < 0.9);
  CHECK(kept(split, "Megatron-LM").first == Approx(kept(split, "NeMo 26.06").first));
  CHECK(kept(split, "NeMo 26.06").second > 1.3 * kept(split, "NeMo 26.04").second);
  CHECK(kept(whole, "NeMo 26.06").first == Approx(1));
}

TEST_CASE("own runs: a measured step of the very job is what is predicted for it", "[unit][whatif]") {
  const auto measured = predicted(job(overrides("measured.step 600 ms")));
  CHECK(measured.step_time.in(milliseconds) == Approx(600));
  CHECK(measured.breakdown.step().in(milliseconds) == Approx(600));
  CHECK(says(measured, "by the step on 4 servers (32 GPUs)"));
  CHECK(width(measured) < width(predicted(job())));
  CHECK(measured.provenance == Provenance::kInterpolated);
  // The time alone is the same.
  whatif::Predictor predictor;
  const auto scenario = whatif::resolve(catalog(), job(overrides("measured.step 600 ms"))).value();
  CHECK(predictor.step_time(scenario).value().in(milliseconds) == Approx(600));
}

TEST_CASE("own runs: far from what ran, a run leaves no more open than none", "[unit][whatif]") {
  const auto split = [](const std::string& nodes) {
    const std::vector<Override> settings =
        overrides("model gpt2_medium; node dgx-a100; nodes {}; precision bf16; batch 4; parallel.tensor 8", nodes);
    return whatif::resolve(catalog(), settings).value();
  };
  const Time ran = whatif::predict(split("2")).value().step_time * 0.9;
  const auto runs = whatif::OwnRuns::learn(std::vector<whatif::OwnRun>{{split("2"), ran}}).value();
  for (const char* nodes : {"4", "64", "512"}) {
    const auto none = whatif::predict(split(nodes)).value();
    const auto with = whatif::predict(whatif::corrected(split(nodes), runs)).value();
    CHECK(with.step_time < none.step_time);
    CHECK(with.interval_90.second / with.step_time <= none.interval_90.second / none.step_time * (1 + 1e-9));
    CHECK(with.interval_90.first / with.step_time >= none.interval_90.first / none.step_time * (1 - 1e-9));
  }
}

TEST_CASE("own runs: runs that the model foresaw leave no more open than none", "[unit][whatif]") {
  for (const char* place : {"nodes 1; gpus_per_node 1", "nodes 1", "nodes 2"}) {
    const auto ran = predicted(job(overrides("{}", place)));
    const auto scenario = whatif::resolve(catalog(), job(overrides("{}", place))).value();
    const auto runs = whatif::OwnRuns::learn(std::vector<whatif::OwnRun>{{scenario, ran.step_time}}).value();
    for (const char* nodes : {"2", "8", "64"}) {
      INFO(place << ", asked for " << nodes);
      const auto asked = whatif::resolve(catalog(), job(overrides("nodes {}", nodes))).value();
      CHECK(width(whatif::predict(whatif::corrected(asked, runs)).value()) <=
            width(whatif::predict(asked).value()) * (1 + 1e-9));
    }
  }
}

TEST_CASE("own runs: what servers took longer together one GPU may not", "[unit][whatif]") {
  const auto of = [](const std::string& place, std::vector<Override> more = {}) {
    return predicted(joined(job(overrides("{}", place)), more));
  };
  const double late = 1.2 * of("nodes 4").step_time.in(milliseconds);
  const std::vector<Override> ran{{"measured.steps", "4x8 = " + std::to_string(late) + " ms", {}}};
  for (const char* place : {"nodes 1; gpus_per_node 1", "nodes 1"}) {
    INFO(place);
    const auto base = of(place);
    const auto with = of(place, ran);
    CHECK(with.step_time > base.step_time * 1.05);
    CHECK(with.step_time < base.step_time * 1.19);
    CHECK(with.interval_90.first < base.step_time);
  }
  CHECK(of("nodes 8", ran).step_time > of("nodes 8").step_time * 1.19);
}

TEST_CASE("own runs: one GPU's step sets the GPU's speed, not the network's", "[unit][whatif]") {
  const auto one = predicted(job(overrides("nodes 1; gpus_per_node 1")));
  const double twice = 2 * one.step_time.in(milliseconds);
  const auto slow = predicted(job(overrides("measured.steps {}", "1x1 = " + std::to_string(twice) + " ms")));
  const auto base = predicted(job());
  CHECK(slow.breakdown.compute / base.breakdown.compute == Approx(2).epsilon(5e-3));
  CHECK(says(slow, "all GPU time is 2 times the model's"));
  CHECK(slow.provenance == Provenance::kExtrapolated);
}

TEST_CASE("own runs: what one sample's step takes longer is not all kept by a step of many", "[unit][whatif]") {
  // One sentence leaves a V100 to launches and to reading weights; 32 fill it.
  const auto bert = [](const std::string& batch, std::vector<Override> more = {}) {
    return joined(overrides("model bert_large; node dgx1-v100; gpus_per_node 1; precision fp16; batch {}", batch),
                  more);
  };
  const double twice = 2 * predicted(bert("1")).step_time.in(milliseconds);
  const Override ran{"measured.steps", "1x1@1 = " + std::to_string(twice) + " ms", {}};
  CHECK(predicted(bert("1", {ran})).step_time.in(milliseconds) == Approx(twice).epsilon(1e-6));
  const double filled = predicted(bert("64", {ran})).step_time / predicted(bert("64")).step_time;
  CHECK(filled > 1);
  CHECK(filled < 1.5);
  // A full step's is kept.
  const double full = 2 * predicted(bert("32")).step_time.in(milliseconds);
  const Override filled_ran{"measured.steps", "1x1@32 = " + std::to_string(full) + " ms", {}};
  CHECK(predicted(bert("64", {filled_ran})).step_time / predicted(bert("64")).step_time == Approx(2).epsilon(0.1));
}

TEST_CASE("own runs: more of them narrow the interval and move the step towards what they say", "[unit][whatif]") {
  const auto at = [&](const std::string& place, double factor) {
    const bool two = place == "2x8";
    const auto p = predicted(two ? job(overrides("nodes 2")) : job(overrides("nodes 1")));
    return place + " = " + std::to_string(p.step_time.in(milliseconds)*factor) + " ms";
  };
  const auto one = predicted(job(overrides("measured.steps {}", at("1x8", 1))));
  const auto two = predicted(job(overrides("measured.steps {}", at("1x8", 1) + "; " + at("2x8", 1.2))));
  CHECK(width(two) < width(one));
  CHECK(two.step_time > one.step_time * 1.1);
  CHECK(two.step_time < one.step_time * 1.25);
  CHECK(says(two, "your steps on 2 servers (16 GPUs) take 20 % longer than the model's: as if the network gave"));
}

TEST_CASE("own runs: a file says the same as words", "[unit][whatif]") {
  const std::string file = (std::filesystem::temp_directory_path() / "ddlsim_own_runs_test.csv").string();
  std::ofstream(file) << "gpus,nodes,batch,step,model,precision\n8,1,64,213 ms,resnet50,fp32\n16,2,64,400 ms,,\n";
  const auto by_file = predicted(job(overrides("measured.runs {}", file)));
  const auto by_words = predicted(job({{"measured.steps", "1x8@64 = 213 ms; 2x8@64=400 ms", {}}}));
  CHECK(by_file.step_time == by_words.step_time);
  CHECK(by_file.notes == by_words.notes);
  // Under any name.
  std::ofstream(file) << "gpus,nodes,batch,step,model,precision\n8,1,64,213 ms,ResNet-50,FP32\n16,2,64,400 ms,,\n";
  CHECK(predicted(job(overrides("measured.runs {}", file))).step_time == by_words.step_time);
}

TEST_CASE("own runs: of another global batch, and of other passes than the question's", "[unit][whatif]") {
  const auto trained = [](const std::string& nodes, const std::string& samples, std::vector<Override> more = {}) {
    return joined(
        overrides(
            "model llama_3_1_8b; node dgx-h100; nodes {}; precision bf16; batch 1; parallel.zero 1; parallel.tensor 8; "
            "parallel.sequence yes; global_batch {}",
            nodes, samples),
        more);
  };
  // 8 servers made 128 samples a step, in 16 passes; asked are 32 with 512.
  const std::string file = (std::filesystem::temp_directory_path() / "ddlsim_global_batch_test.csv").string();
  const Time ran = predicted(trained("8", "128")).step_time * 1.2;
  const std::string step = std::to_string(ran.in(milliseconds)) + " ms";
  const double plain = predicted(trained("32", "512")).step_time.in(seconds);
  const auto by = [&](const std::string& table) {
    std::ofstream(file) << table;
    return predicted(trained("32", "512", overrides("measured.runs {}", file))).step_time.in(seconds);
  };
  const double corrected = by("gpus,nodes,step,global_batch\n64,8," + step + ",128\n");
  CHECK(corrected / plain > 1.1);
  CHECK(corrected / plain < 1.25);
  CHECK(by("gpus,nodes,step,passes\n64,8," + step + ",16\n") == corrected);
  CHECK(by("gpus,nodes,step,passes,global_batch\n64,8," + step + ",16,128\n") == corrected);
  const auto words =
      predicted(trained("32", "512", overrides("measured.steps {}", "8x8 (global_batch 128) = " + step)));
  CHECK(words.step_time.in(seconds) == Approx(corrected).epsilon(1e-6));
  // Passes that do not make it are a slip.
  std::ofstream(file) << "gpus,nodes,step,passes,global_batch\n64,8," + step + ",8,128\n";
  CHECK_FALSE(whatif::resolve(catalog(), trained("32", "512", overrides("measured.runs {}", file))));
  // Steps of another number of passes are no runs of one configuration: they do not contradict each other.
  const double more = predicted(trained("8", "512")).step_time.in(milliseconds)*1.2;
  const double both =
      by("gpus,nodes,step,global_batch\n64,8," + step + ",128\n64,8," + std::to_string(more) + " ms,512\n");
  CHECK(both / plain > 1.1);
  CHECK(both / plain < 1.25);
}

TEST_CASE("own runs: kept in words, they are the table's, with their passes and global batch", "[unit][whatif]") {
  const std::string file = (std::filesystem::temp_directory_path() / "ddlsim_kept_runs_test.csv").string();
  const auto kept = [&](const std::string& table, const std::vector<Override>& settings) {
    std::ofstream(file) << table;
    std::vector<Override> by_file = settings;
    by_file.push_back({"measured.runs", file, {}});
    const auto scenario = whatif::resolve(catalog(), by_file).value();
    const std::string words = whatif::in_words(catalog(), io::load_runs(file).value(), settings).value();
    std::vector<Override> by_words = settings;
    by_words.push_back({"measured.steps", words, {}});
    CHECK(predicted(by_words).step_time == whatif::predict(scenario).value().step_time);
    return words;
  };
  const std::vector<Override> one = job(overrides("nodes 1"));
  const std::vector<Override> trained = job(overrides("nodes 1; global_batch 2048"));
  const std::vector<Override> in_passes = job(overrides("nodes 1; strategy.accumulation 4"));
  CHECK(kept("gpus,nodes,step\n8,1,230 ms\n", one) == "1x8@64 = 230 ms");
  CHECK(kept("gpus,nodes,step\n8,1,830 ms\n", trained) == "1x8@64 (passes 4) = 830 ms");
  CHECK(kept("gpus,nodes,step\n8,1,830 ms\n", in_passes) == "1x8@64 (passes 4) = 830 ms");
  CHECK(kept("gpus,nodes,step,batch\n8,1,230 ms,64\n", in_passes) == "1x8@64 = 230 ms");
  CHECK(kept("gpus,nodes,step,global_batch\n8,1,830 ms,2048\n", one) == "1x8@64 (passes 4) = 830 ms");
  // A log's row says all of it, as do the job's flags: the measured step.
  const std::string log = "gpus,nodes,step,batch,passes,global_batch,parallel.zero\n8,1,830 ms,64,4,2048,1\n";
  const std::string words = kept(log, trained);
  CHECK(words == "1x8@64 (parallel.zero 1, passes 4) = 830 ms");
  const auto again = predicted(job(overrides("nodes 1; parallel.zero 1; global_batch 2048; measured.steps {}", words)));
  CHECK(again.step_time.in(milliseconds) == Approx(830).epsilon(1e-6));
}

TEST_CASE("own runs: a run that says its batch alone is one pass of it, whatever the question's global batch",
          "[unit][whatif]") {
  const std::string runs = "1x1@64 = 180 ms; 4x8@64 = 260 ms";
  const Time plain = predicted(job(overrides("measured.steps {}", runs))).step_time;
  // 4 x 8 x 64, the samples that the job has anyway.
  CHECK(predicted(job(overrides("measured.steps {}; global_batch 2048", runs))).step_time == plain);
  const Time twice = predicted(job(overrides("measured.steps {}; global_batch 4096", runs))).step_time;
  CHECK(twice == predicted(job(overrides("measured.steps {}; strategy.accumulation 2", runs))).step_time);
  CHECK(twice > plain * 1.5);
  // Without a batch it is the job as it stands; what cannot be says how it was read.
  const auto very_job = predicted(job(overrides("nodes 1; global_batch 2048; measured.steps 1x8 = 800 ms")));
  CHECK(very_job.step_time.in(milliseconds) == Approx(800).epsilon(0.01));
  const auto scenario = whatif::resolve(catalog(), job(overrides("measured.steps 1x1 = 180 ms; global_batch 2048")));
  REQUIRE_FALSE(scenario);
  CHECK(scenario.error().notes.back() ==
        "read as 32 passes of 64 on each replica: state passes or global_batch in the table");
}

TEST_CASE("own runs: the baseline's speak for its alternatives", "[unit][whatif]") {
  const std::vector<Override> base = job(overrides("measured.step 600 ms"));
  const auto compared = whatif::compare(catalog(), base,
                                        std::vector<whatif::Change>{{"same", overrides("nodes 4")},
                                                                    {"faster", overrides("network 100 Gb/s")}})
                            .value();
  CHECK(compared.alternatives[0].speedup == Approx(1));
  CHECK(says(compared.alternatives[1].prediction, "by the step on 4 servers"));
  const auto plain =
      whatif::compare(catalog(), job(), std::vector<whatif::Change>{{"faster", overrides("network 100 Gb/s")}}).value();
  CHECK(compared.alternatives[1].prediction.breakdown.compute > plain.alternatives[0].prediction.breakdown.compute);
}

TEST_CASE("own runs: repeated runs are averaged, and their spread is said", "[unit][whatif]") {
  const auto p = predicted(job({{"nodes", "1", {}}, {"measured.steps", "1x8 = 200 ms; 1x8 = 220 ms", {}}}));
  CHECK(says(p, "2 runs on 8 GPUs of one server differ by 10.0 %"));
  CHECK(p.step_time.in(milliseconds) == Approx(std::sqrt(200 * 220.)).epsilon(1e-3));
  const auto apart = predicted(job({{"nodes", "1", {}}, {"measured.steps", "1x8 = 200 ms; 1x8 = 290 ms", {}}}));
  CHECK(apart.interval_90.first < milliseconds(200));
  CHECK(apart.interval_90.second > milliseconds(290));
  CHECK(apart.interval_90.second / apart.interval_90.first > p.interval_90.second / p.interval_90.first);
}

TEST_CASE("own runs: in a search of plans runs say what split they had", "[unit][whatif]") {
  const auto searched = [&](std::vector<Override> more) {
    return whatif::search_plans(catalog(), job(std::move(more)), {.explain = false}, [] { return Time{}; });
  };
  const auto one_step = searched(overrides("measured.step 600 ms"));
  REQUIRE_FALSE(one_step);
  CHECK(one_step.error().message == "measured.step is of one plan, and a search compares many");
  CHECK(refused(overrides("measured.steps 1x8 (parallel.tensor) = 200 ms")).find("'parallel.tensor' says nothing") !=
        std::string::npos);
  CHECK(refused(overrides("measured.steps 1x8 (nodes 4) = 200 ms")).find("'nodes 4' says nothing") !=
        std::string::npos);
  CHECK(refused(overrides("measured.steps 1x8 (parallel.zero 1 = 200 ms")).find("is no run") != std::string::npos);
  CHECK(refused(overrides("measured.steps 1x8 (parallel.zero 7) = 200 ms")).find("parallel.zero") != std::string::npos);
  // What a run leaves open is said.
  const auto left_open = [&](const std::string& runs) {
    const auto notes = searched(overrides("measured.steps {}; nodes 1", runs))->notes;
    return std::any_of(notes.begin(), notes.end(), [](const std::string& note) {
      return note.starts_with("runs that do not say how they were split");
    });
  };
  CHECK(left_open("1x8 = 200 ms"));
  CHECK_FALSE(left_open("1x8 (parallel.zero 1) = 200 ms"));
  // Runs of two splits are no runs of one configuration.
  CHECK(resolve(catalog(), job({{"measured.steps", "1x8 = 200 ms; 1x8 (parallel.zero 1) = 450 ms", {}}})));
}

TEST_CASE("own runs: plans are compared in the precision of the runs", "[unit][whatif]") {
  const auto plans = [](std::vector<Override> more) {
    const auto settings = joined(overrides("model resnet50; node dgx1-v100; nodes 2; global_batch 1024"), more);
    return whatif::search_plans(catalog(), settings, {.explain = false}, [] { return Time{}; }).value();
  };
  const Override ran{"measured.steps", "1x8@64 = 213 ms", {}};
  const auto taken = plans({ran});
  const auto stated = plans({ran, {"precision", "fp32", {}}});
  CHECK(taken.best.prediction.step_time == stated.best.prediction.step_time);
  CHECK(plans({}).best.prediction.step_time < taken.best.prediction.step_time / 1.5);  // fp16 where there are none
}

TEST_CASE("own runs: a step that the others leave no room for is met, and named", "[unit][whatif]") {
  const auto at = [](const char* nodes) {
    return predicted(job({{"nodes", nodes, {}}, {"measured.steps", "1x8 = 250 ms; 2x8 = 2500 ms; 4x8 = 250 ms", {}}}));
  };
  CHECK(at("2").step_time.in(milliseconds) == Approx(2500).epsilon(0.05));
  CHECK(at("4").step_time.in(milliseconds) == Approx(250).epsilon(0.05));
  const auto notes = at("8").notes;
  CHECK(std::any_of(notes.begin(), notes.end(), [](const std::string& note) {
    return note.starts_with("your step of 2.5 s on 2 servers (16 GPUs) does not go with the others");
  }));
}

TEST_CASE("own runs: two that do not go together are named, and less is known between them", "[unit][whatif]") {
  const auto with = [](const std::string& second) {
    return predicted(job(overrides("nodes 8; measured.steps {}", "1x8 = 250 ms; 4x8 = " + second)));
  };
  const auto apart = with("5000 ms");
  CHECK(
      says(apart, "your steps of 250 ms on 8 GPUs of one server and of 5 s on 4 servers (32 GPUs) do not go together"));
  const auto close = with("300 ms");
  CHECK_FALSE(says(close, "do not go together"));
  CHECK(width(apart) > 1.5 * width(close));
}

TEST_CASE("own runs: what varies leaves the job that ran, in a comparison, a curve and a sweep", "[unit][whatif]") {
  auto settings = job(overrides("measured.step 200 ms"));
  std::erase_if(settings, [](const Override& s) { return s.path == "batch"; });  // the model's 64
  const std::vector<whatif::Change> changes{{"", overrides("batch 16")}, {"", overrides("batch 64")}};
  const auto compared = whatif::compare(catalog(), settings, changes).value();
  const auto curve = whatif::curve(catalog(), settings, {.path = "batch", .values = {"16", "64"}}).value();
  REQUIRE(curve.points.size() == 2);
  whatif::Axis batches{.paths = {"batch"}, .steps = {}, .where = {}};
  for (const char* batch : {"16", "64"}) batches.steps.push_back({std::string(batch)});
  const auto grid = whatif::Grid::create({.base = settings, .axes = {batches}, .where = {}, .sample = {}}).value();
  std::vector<Time> swept;
  const auto take = [&](std::span<const answer::SweepRow> rows, const whatif::SweepProgress&) -> Expected<void> {
    for (const answer::SweepRow& row : rows) swept.push_back(row.answer->step);
    return {};
  };
  REQUIRE(whatif::sweep(catalog(), grid, {}, take));
  REQUIRE(swept.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    const Time step = compared.alternatives[i].prediction.step_time;
    CHECK(curve.points[i].prediction.step_time == step);
    CHECK(swept[i] == step);
  }
  CHECK(swept[0] < milliseconds(100));
  CHECK(swept[1].in(milliseconds) == Approx(200));
}

TEST_CASE("own runs: of another GPU, model or precision a step is less sure", "[unit][whatif]") {
  const std::vector<whatif::Change> changes{{"", overrides("gpu t4")}, {"", overrides("model vgg16")}};
  const auto compared = whatif::compare(catalog(), job(overrides("measured.step 200 ms")), changes).value();
  CHECK(width(compared.baseline) < 1.25);
  for (const answer::Alternative& one : compared.alternatives) {
    CHECK(width(one.prediction) > 2);
  }
}

TEST_CASE("own runs: a step that Winograd explains is possible, and the loader keeps up with it", "[unit][whatif]") {
  // VGG16 in fp32 has 1.4 times the FLOPs that a V100 could do in its step by direct convolutions.
  const auto vgg = [](std::vector<Override> more) {
    more.push_back({"model", "vgg16", {}});
    more.push_back({"network", "400 Gb/s", {}});
    return predicted(job(more));
  };
  const Time step = vgg({}).step_time;
  const auto measured = vgg(overrides("measured.step {}", std::to_string(step.in(milliseconds)) + " ms"));
  CHECK(measured.mfu > 1);
  CHECK(measured.step_time.in(seconds) == Approx(step.in(seconds)));
  const auto slow = vgg(overrides("measured.step 2 s"));
  CHECK(slow.input.needed_samples_per_second == Approx(slow.throughput_samples_per_second));
}

TEST_CASE("own runs: twice the GPUs are at most twice as fast, whatever a coordinator's wake just misses",
          "[unit][whatif]") {
  const std::vector<Override> runs{{"model", "resnet50", {}},
                                   {"node", "dgx1-v100", {}},
                                   {"network", "infiniband-100g", {}},
                                   {"strategy", "horovod", {}},
                                   {"measured.steps", "1x1 = 180 ms; 1x8 = 300 ms", {}}};
  const std::vector<whatif::Change> twice{{{}, overrides("nodes 2")}};
  const auto compared = whatif::compare(catalog(), runs, twice).value();
  const answer::Alternative& two = compared.alternatives.front();
  CHECK(two.speedup < 2);
  CHECK(two.speedup > 1);
  CHECK(two.speedup_interval_90.first < 2);
}
