#include "ddlsim/whatif/goodput.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "asked.h"
#include "catalog.h"
#include "ddlsim/report/goodput.h"
#include "ddlsim/whatif/find.h"
#include "ddlsim/whatif/predict.h"
#include "overrides.h"

using namespace ddlsim;
using Catch::Matchers::Contains;
using ddlsim::test::catalog;
using namespace ddlsim::whatif;
using ddlsim::test::joined;
using ddlsim::test::overrides;
using ddlsim::test::refused;

namespace {

std::vector<Override> job(const std::vector<Override>& more) {
  return joined(
      overrides(
          "model gpt2_xl; node dgx-h100; nodes 64; precision bf16; failures.mtbf_gpu 51200 h; checkpoint.size 1 TB; "
          "checkpoint.bandwidth 10 GB/s"),
      more);
}

answer::Prediction predicted(const std::vector<Override>& settings) {
  const auto scenario = resolve(catalog(), settings);
  if (!scenario) FAIL(to_string(scenario.error()));
  const auto prediction = predict(*scenario);
  if (!prediction) FAIL(to_string(prediction.error()));
  return *prediction;
}

std::string notes(const std::vector<Override>& settings) {
  std::string all;
  for (const std::string& note : predicted(settings).notes) all += note + "\n";
  return all;
}

answer::Goodput lasting(const std::vector<Override>& more) { return predicted(job(more)).goodput.value(); }

}  // namespace

TEST_CASE("goodput: 512 GPUs that fail every 100 h, by hand", "[unit][whatif]") {
  // 51200 h / 512 = 100 h; 1 TB at 10 GB/s: 100 s; one replica of an unsplit model is on one server, 400 GB/s.
  const answer::Goodput g = lasting(overrides("failures.restart 10 min; failures.warmup 2 min"));
  CHECK(g.mtbf.in(hours) == Approx(100));
  CHECK(g.by_gpus == 1);
  CHECK(g.writers == 1);
  CHECK(g.write.in(seconds) == Approx(100));
  CHECK(g.blocked == g.write);
  CHECK(g.young.in(seconds) == Approx(std::sqrt(2 * 100 * 360'000.0)));
  CHECK(g.recovery_time.in(seconds) == Approx(100 + 120));
  const double tau = g.interval.in(seconds);
  CHECK(tau == Approx(8418.7).margin(1));  // Daly: 8485.3 (1 + 0.00393 + 0.00002) - 100
  const double l = 1 / 360'000.0;
  CHECK(g.share == Approx(tau / (std::exp(220 * l) * std::expm1((tau + 100) * l) * (1 / l + 600))));
}

TEST_CASE("goodput: rates of parts add up, and what is stated wins", "[unit][whatif]") {
  const answer::Goodput g =
      lasting(overrides("failures.mtbf_node 6400 h; failures.mtbf_switch 200 h; failures.nodes_per_switch 32"));
  // 1/100 + 64/6400 + 2/200 a hour.
  CHECK(g.mtbf.in(hours) == Approx(100 / 3.0));
  CHECK(g.by_nodes == Approx(1 / 3.0));
  CHECK(g.by_switches == Approx(1 / 3.0));
  // Llama 3: 419 failures in 54 days on 16,384 GPUs.
  std::vector<Override> meta = job(overrides("nodes 2048; failures llama3-405b"));
  std::erase_if(meta, [](const Override& s) { return s.path == "failures.mtbf_gpu"; });
  CHECK(predicted(meta).goodput->mtbf.in(hours) == Approx(54 * 24.0 / 419).epsilon(1e-5));
  // OPT-175B: two machines of 124 a day.
  std::vector<Override> opt = job(overrides("nodes 124; failures opt-175b"));
  std::erase_if(opt, [](const Override& s) { return s.path == "failures.mtbf_gpu"; });
  CHECK(predicted(opt).goodput->mtbf.in(hours) == Approx(12));
}

TEST_CASE("goodput: a checkpoint is what one copy of the model keeps, however it is split", "[unit][whatif]") {
  const std::vector<Override> rate =
      overrides("node dgx-h100; nodes 4; precision bf16; failures.mtbf_gpu 51200 h; checkpoint.bandwidth 10 GB/s");
  const auto size = [&](std::vector<Override> more) {
    more = joined(more, rate);
    return predicted(more).goodput.value();
  };
  const auto whole = size(overrides("model gpt2_xl; parallel.states mixed"));
  const auto parameters = static_cast<double>(catalog().model("gpt2_xl").value()->totals.dense_parameters);
  CHECK(whole.checkpoint.in(bytes) == Approx(14 * parameters));  // 2 + 4 + 8: weights, fp32 weights, Adam
  const auto split = size(overrides("model gpt2_xl; parallel.states mixed; parallel.pipeline 4; parallel.zero 1"));
  CHECK(split.checkpoint == whole.checkpoint);
  CHECK(whole.writers == 1);
  // Whoever holds them while the run goes on.
  CHECK(size(overrides("model gpt2_xl; strategy ps")).checkpoint == size(overrides("model gpt2_xl")).checkpoint);
  CHECK(split.writers == 4);
}

TEST_CASE("goodput: frozen weights are read again, and never written", "[unit][whatif]") {
  const auto asked = [](std::vector<Override> more) {
    more = joined(more, overrides("model llama_3_1_8b; node dgx-h100; nodes 2; precision bf16; failures.mtbf_gpu "
                                  "51200 h; checkpoint.bandwidth 1 GB/s"));
    return predicted(more).goodput.value();
  };
  // Of q (4096 x 4096), k, v (4096 x 1024) and the output in 32 blocks, 16 (in + out) each, in fp32 with Adam's states.
  const double adapters = 32 * 16 * 2 * (8192.0 + 5120);
  const double frozen = static_cast<double>(catalog().model("llama_3_1_8b").value()->totals.dense_parameters);
  const answer::Goodput lora = asked(overrides("parallel.lora_rank 16"));
  CHECK(lora.checkpoint.in(bytes) == Approx(12 * adapters));
  CHECK(lora.write.in(seconds) == Approx(12 * adapters / 1e9));
  CHECK(lora.recovery_time.in(seconds) == Approx((12 * adapters + 2 * frozen) / 1e9));
  const answer::Goodput quantised = asked(overrides("parallel.lora_rank 16; parallel.frozen_bits 4"));
  CHECK(quantised.checkpoint.in(bytes) == Approx(12 * adapters));
  CHECK(quantised.recovery_time < lora.recovery_time * 0.5);
  // From memory come adapters alone.
  const answer::Goodput memory = asked(overrides("parallel.lora_rank 16; checkpoint.mode memory"));
  CHECK(memory.memory_recovery_time.in(seconds) > 2 * frozen / 1e9);
  // First layers of a detector; nothing of a model that is trained whole is left out.
  const auto size = [](const char* model) {
    return predicted(
               overrides("model {}; node dgx-h100; failures.mtbf_gpu 51200 h; checkpoint.bandwidth 1 GB/s", model))
        .goodput->checkpoint.in(bytes);
  };
  const auto detector = catalog().model("maskrcnn_resnet50_fpn").value();
  REQUIRE(detector->totals.frozen_parameters > 0);
  const double states = 1 + workload::state_values(detector->optimizer);
  CHECK(size("maskrcnn_resnet50_fpn") == Approx(4 * states * static_cast<double>(detector->totals.dense_parameters)));
}

TEST_CASE("goodput: storage of its own has each server, and bandwidth of a server bounds", "[unit][whatif]") {
  CHECK(lasting(overrides("checkpoint.node_bandwidth 5 GB/s")).write.in(seconds) == Approx(200));
  CHECK(lasting(overrides("checkpoint.node_bandwidth 5 GB/s; checkpoint.writers 4")).write.in(seconds) == Approx(100));
  std::vector<Override> own = job(overrides("checkpoint.storage nvme; checkpoint.writers 4"));
  std::erase_if(own, [](const Override& s) { return s.path == "checkpoint.bandwidth"; });
  CHECK(predicted(own).goodput->write.in(seconds) == Approx(1e12 / (4 * 2896e6)));
}

TEST_CASE("goodput: asynchronous checkpoints stop for the snapshot, and one write goes on at a time",
          "[unit][whatif]") {
  const answer::Goodput g = lasting(overrides("checkpoint.mode async; checkpoint.snapshot 1 s"));
  CHECK(g.blocked == seconds(1));
  CHECK(g.interval.in(seconds) == Approx(std::sqrt(2 * 360'000.0)).epsilon(0.01));
  const answer::Goodput often = lasting(overrides("checkpoint.mode async; checkpoint.snapshot 1 ms"));
  CHECK(often.interval.in(seconds) == Approx(100 - 1e-3));  // the best, 27 s, would overtake the write
  CHECK_THAT(refused(job(overrides("checkpoint.mode async; checkpoint.interval 10 s"))),
             Contains("one cannot start every"));
}

TEST_CASE("goodput: a blocking checkpoint leaves its GPU first, and comes back as it left", "[unit][whatif]") {
  // 1 TB of one GPU over PCIe: 64 GB/s at 70 %, or as the shares of efficiency say.
  const std::vector<Override> fast =
      overrides("checkpoint.bandwidth 2 TB/s; checkpoint.node_bandwidth 2 TB/s; efficiency.pcie 50 %");
  const auto asked = [&](const Override& more) {
    std::vector<Override> settings = fast;
    settings.push_back(more);
    return lasting(settings);
  };
  const double copied = 1e12 / (catalog().node("dgx-h100")->pcie.bandwidth.in(bytes_per_second)*0.5);
  const answer::Goodput blocking = asked({"checkpoint.mode", "blocking", {}});
  const answer::Goodput async = asked({"checkpoint.mode", "async", {}});
  CHECK(blocking.blocked.in(seconds) == Approx(copied));
  CHECK(blocking.write == blocking.blocked);
  CHECK(async.blocked.in(seconds) == Approx(copied));
  CHECK(async.write.in(seconds) == Approx(0.5));
  CHECK(blocking.recovery_time.in(seconds) == Approx(copied));
  CHECK(async.recovery_time.in(seconds) == Approx(copied));
  const answer::Goodput stated = asked({"checkpoint.write", "3 s", {}});
  CHECK(stated.blocked == seconds(3));
  CHECK(stated.recovery_time == seconds(3));
}

TEST_CASE("goodput: a run takes longer and costs its spares", "[unit][whatif]") {
  const auto p =
      predicted(job(overrides("training.steps 1000000; price 10 $/h; failures.spares 6; failures.repair 24 h")));
  const answer::Training& run = p.training.value();
  const answer::Goodput& g = p.goodput.value();
  CHECK(run.stepping / run.time() == Approx(g.share));
  CHECK(run.checkpoints / run.time() == Approx(g.checkpoints));
  CHECK(run.cost->in(dollars) == Approx(10 * 70 * run.time().in(hours)));
  CHECK(p.price->in(dollars_per_hour) == Approx(10 * 70));
  CHECK(*g.of_run == Approx(run.time().in(seconds)*g.failures.in(per_second)));
  CHECK(g.short_of < 1e-3);
}

TEST_CASE("goodput: spares are too few for a share of lost servers where a repair takes its time", "[unit][whatif]") {
  const auto text = [](const char* repair) {
    const auto p = predicted(job(overrides("failures.spares 6; failures.repair {}", repair)));
    return report::render_goodput(p, "", report::Format::kText);
  };
  CHECK_THAT(text("240 h"), Contains("spare servers") && Contains("6, too few for "));
  CHECK_THAT(text("0 s"), Contains("spare servers") && !Contains("too few"));
}

TEST_CASE("goodput: simulated beside the formula", "[unit][whatif]") {
  const answer::Goodput g = lasting(overrides("failures.runs 50; failures.restart 1 h"));
  REQUIRE(g.simulated);
  CHECK(g.simulated->runs == 50);
  CHECK(g.simulated->goodput == Approx(g.share).epsilon(0.01));
  CHECK(g.simulated->low <= g.simulated->goodput);
}

TEST_CASE("goodput: a simulation that saw few waits for spares says so", "[unit][whatif]") {
  const auto said = [](const std::string& runs) {
    return notes(job(overrides("failures.repair 48 h; failures.spares 2; failures.runs {}", runs)));
  };
  CHECK_THAT(said("10"), Contains("simulated goodput: its runs saw"));
  CHECK_THAT(said("10000"), !Contains("simulated goodput: its runs saw"));
}

TEST_CASE("goodput: the restart that a goodput allows", "[unit][whatif]") {
  const auto base = job(overrides("failures.mtbf_gpu 1024 h"));  // every 2 h
  const auto found = find(catalog(), base, "failures.restart", parse_condition("goodput >= 80 %").value());
  REQUIRE(found);
  REQUIRE(found->reached);
  CHECK_FALSE(found->up);
  CHECK(found->prediction.goodput->share >= 0.8);
  const auto any = find(catalog(), job(overrides("failures.mtbf_gpu 51200 h")), "failures.restart",
                        parse_condition("goodput >= 1 %").value());
  REQUIRE(any);
  CHECK(any->always);
}

TEST_CASE("goodput: what makes no sense is refused", "[unit][whatif]") {
  CHECK_THAT(refused(job(overrides("failures.spares 65"))), Contains("65 spares for a job of 64 servers"));
  CHECK_THAT(refused(job(overrides("checkpoint.writers 65"))), Contains("65 of 64 servers"));
  CHECK_THAT(refused(job(overrides("checkpoint.remote_every 4"))), Contains("copies in memory"));
  CHECK_THAT(refused(job(overrides("checkpoint.snapshot 4 s"))), Contains("blocking"));
  CHECK_THAT(refused(job(overrides("training.checkpoint 4 s"))), Contains("checkpoint.write"));
  CHECK_THAT(refused(job(overrides("failures.runs 1"))), Contains("one run has no interval"));
  CHECK_THAT(refused(job(overrides("failures.mtbf_gpu 1 h; checkpoint.interval 10 h"))), Contains("makes no headway"));
  std::vector<Override> none = job({});
  std::erase_if(none, [](const Override& s) { return s.path == "checkpoint.bandwidth"; });
  CHECK_THAT(refused(none), Contains("nobody says what checkpoints are written to"));
  none.push_back({"checkpoint.storage", "ebs-gp3", {}});
  none.push_back({"checkpoint.size", "17 TiB", {}});
  CHECK_THAT(refused(none), Contains("does not fit"));
}

TEST_CASE("goodput: what is assumed, and what had no effect, is said", "[unit][whatif]") {
  CHECK_THAT(notes(job({})), Contains("nobody states failures.restart, failures.warmup, failures.repair"));
  CHECK_THAT(notes(job(overrides("checkpoint.interval 200 h"))), Contains("most of the work is lost"));
  std::vector<Override> idle = job({});
  std::erase_if(idle, [](const Override& s) { return s.path == "failures.mtbf_gpu"; });
  CHECK_THAT(notes(idle), Contains("without effect here: checkpoint.*"));
}
