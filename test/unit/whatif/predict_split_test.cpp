// What models that are split over GPUs cost, and what of a job a prediction takes for granted.
#include <algorithm>
#include <catch2/catch.hpp>

#include "catalog.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/compare.h"
#include "ddlsim/whatif/predict.h"
#include "overrides.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using namespace ddlsim::whatif;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using ddlsim::test::joined;
using ddlsim::test::overrides;

namespace {

answer::Prediction asked(std::vector<Override> settings) {
  return predict(resolve(catalog(), settings).value()).value();
}

}  // namespace

TEST_CASE("predict: MFU counts no attention twice", "[unit][whatif]") {
  // Three passes of a forward one: what fused attention's backward computes again is in HFU alone.
  const auto p = asked(overrides(
      "model llama_3_1_8b; node dgx-h100; precision bf16; batch 1; model.sequence 131072; parallel.context 8"));
  // 32 blocks: products of 6.98e9 weights and the head of 525e6, scores and context of 32 heads of 128 over half of
  // 131,072 keys.
  const double tokens = 131072;
  const double products = 2 * (32 * (4096.0 * 4096 * 2 + 4096.0 * 1024 * 2 + 3 * 4096.0 * 14336) + 4096.0 * 128256);
  const double attention = 32 * 4 * 4096.0 * (tokens + 1) / 2;
  CHECK(p.model_work.in(flops) == Approx(3 * tokens * (products + attention)).epsilon(0.01));
  CHECK(p.hfu > p.mfu * 1.1);
}

TEST_CASE("predict: stages sum a tied table's gradients in the format that gradients have", "[unit][whatif]") {
  const auto sent = [](const char* states) {
    const auto p = asked(overrides(
        "model gpt2_large; node dgx-h100; nodes 2; gpus_per_node 1; batch 1; parallel.pipeline 2; parallel.states {}",
        states));
    DataSize most{};
    for (const auto& one : p.traffic) most = max(most, one.bytes);
    return most;
  };
  CHECK((sent("mixed") - sent("pure-16")).in(bytes) == Approx(2.0 * 50257 * 1280).epsilon(1e-3));
}

TEST_CASE("predict: no interval begins below what a GPU's peak allows", "[unit][whatif]") {
  // LoRA: a GPU of no profile near its peak, whose learnt residuals reach lower than that.
  const auto p = asked(overrides("model llama_3_1_8b; node pcie-8x4090; gpus_per_node 1; parallel.lora_rank 16"));
  const Time least = p.step_time * std::min(p.mfu, p.hfu);
  CHECK(p.interval_90.first.in(seconds) == Approx(least.in(seconds)));
  CHECK(least < p.step_time);
}

TEST_CASE("predict: a step takes at least as long as its busiest link", "[unit][whatif]") {
  // Tensor groups and shards share the ports of four-GPU servers, each on a channel of its own.
  const auto p =
      asked(overrides("model llama_3_1_8b; node gb200-tray; nodes 16; precision bf16; parallel.tensor 8; "
                      "parallel.sequence yes; batch 2; global_batch 64; parallel.zero 3"));
  for (const answer::LinkTraffic& traffic : p.traffic) CHECK(p.step_time >= traffic.time * (1 - 1e-9));
  CHECK(p.breakdown.communication_exposed > Time::zero());
}

TEST_CASE("predict: a server's memory updates for all of its ranks", "[unit][whatif]") {
  // 8.03e9 parameters, 28 bytes each in fp32 states, whoever of the server has them: 225 GB at 1 GB/s.
  const auto update = [](const char* gpus) {
    return asked(
        overrides("model llama_3_1_8b; node dgx-a100-80gb; gpus_per_node {}; precision bf16; batch 1; parallel.zero 3; "
                  "parallel.states mixed-16; parallel.recompute full; model.sequence 2048; parallel.offload_optimizer "
                  "yes; ps.memory_bandwidth 1 GB/s",
                  gpus));
  };
  const auto eight = update("8");
  CHECK(eight.step_time.in(seconds) == Approx(update("2").step_time.in(seconds)).epsilon(0.02));
  // It is no communication, but has a name of its own.
  CHECK(eight.breakdown.host_update.in(seconds) == Approx(8.03 * 28).epsilon(0.01));
  CHECK(eight.breakdown.communication_exposed < eight.step_time * 0.15);  // copies cross the same memory
  CHECK(eight.breakdown.other >= eight.breakdown.host_update);
  CHECK(eight.breakdown.step().in(seconds) == Approx(eight.step_time.in(seconds)));
  CHECK(eight.bottleneck == "server memory");
}

TEST_CASE("predict: a larger batch of a job that waits for its CPU takes no less", "[unit][whatif]") {
  Time last;
  for (const char* batch : {"4", "8", "10", "12", "16"}) {
    const auto p = asked(overrides(
        "model resnet50; node p4d.24xlarge; precision bf16; strategy pytorch-fsdp; strategy.accumulation 8; batch {}",
        batch));
    CHECK(p.step_time >= last * 0.999);
    last = p.step_time;
  }
}

TEST_CASE("predict: images channel by channel cost from Ampere on", "[unit][whatif]") {
  const auto step = [](const char* gpu, const char* precision, const char* layout) {
    return asked(overrides("model resnet50; node dgx-a100; gpu {}; gpus_per_node 1; precision {}; batch 256; "
                           "software.layout {}",
                           gpu, precision, layout))
        .step_time;
  };
  CHECK(step("a100-sxm4-40gb", "fp16", "channels-first") > step("a100-sxm4-40gb", "fp16", "channels-last") * 1.2);
  // In 32 bits convolutions take as long either way, batch normalisation does not (cost/image_kernels.h).
  CHECK(step("a100-sxm4-40gb", "tf32", "channels-first") > step("a100-sxm4-40gb", "tf32", "channels-last"));
  // Volta's convolutions were measured channel by channel: by default they lie so, and the other way spares the turns.
  CHECK(step("v100-sxm2-32gb", "fp16", "channels-first") > step("v100-sxm2-32gb", "fp16", "channels-last") * 1.05);
  CHECK(step("v100-sxm2-32gb", "fp16", "channels-first") < step("v100-sxm2-32gb", "fp16", "channels-last") * 1.5);
  CHECK(step("v100-sxm2-32gb", "fp32", "channels-first") > step("v100-sxm2-32gb", "fp32", "channels-last"));
  CHECK(step("p100-sxm2-16gb", "fp16", "channels-first") > step("p100-sxm2-16gb", "fp16", "channels-last"));
  // Who says nothing hears of it, where it makes a difference.
  const auto told = [](const char* model, const char* precision) {
    const auto p = asked(overrides("model {}; node dgx-a100; precision {}", model, precision));
    return std::any_of(p.notes.begin(), p.notes.end(),
                       [](const std::string& note) { return note.starts_with("images: taken to lie"); });
  };
  CHECK(told("resnet50", "fp16"));
  CHECK_FALSE(told("resnet50", "tf32"));
  CHECK_FALSE(told("bert_large", "fp16"));
}

TEST_CASE("predict: composed operators take what they move, split or not", "[unit][whatif]") {
  const auto step = [](const char* model, const char* operators, const char* tensor) {
    return asked(overrides("model {}; node dgx1-v100; gpus_per_node 2; precision fp16; batch 64; parallel.tensor {}; "
                           "software.operators {}",
                           model, tensor, operators))
        .step_time;
  };
  // DLPerf's BERT-Base on V100 takes 2.2 times as long without XLA as with it (bench/accuracy, dpb0013 and dpb0019).
  CHECK(step("bert_base", "composed", "1") > 1.6 * step("bert_base", "whole", "1"));
  CHECK(step("bert_base", "composed", "1") < 2.8 * step("bert_base", "whole", "1"));
  CHECK(step("bert_base", "composed", "2") > 1.3 * step("bert_base", "whole", "2"));
  CHECK(step("resnet50", "composed", "1") == step("resnet50", "whole", "1"));
  // What changes nothing is named.
  const auto idle = [](const char* model, const char* fusion) {
    const auto p = asked(overrides("model {}; node dgx1-v100; fusion {}; software.operators composed", model, fusion));
    return std::any_of(p.notes.begin(), p.notes.end(), [](const std::string& note) {
      return note.find("without effect") != std::string::npos && note.find("software.operators") != std::string::npos;
    });
  };
  CHECK_FALSE(idle("bert_base", "none"));
  CHECK(idle("bert_base", "pointwise"));
  CHECK(idle("resnet50", "none"));
}

TEST_CASE("predict: a network of convolutions keeps as much whoever shares its states", "[unit][whatif]") {
  std::vector<Override> settings = overrides("model resnet50; node dgx1-v100; precision fp32; batch 64");
  const auto plain = asked(settings).memory;
  settings.push_back({"parallel.zero", "1", {}});
  const auto shared = asked(settings).memory;
  CHECK(shared.activations.in(bytes) == Approx(plain.activations.in(bytes)).epsilon(1e-3));
  CHECK(shared.optimizer_state < plain.optimizer_state);
}

TEST_CASE("predict: causal attention is trained in 16 bits where nobody says otherwise", "[unit][whatif]") {
  const auto precision = [](std::vector<Override> settings) { return asked(std::move(settings)).precision; };
  CHECK(precision(overrides("model llama_3_1_8b; node dgx-h100")) == "bf16");
  CHECK(precision(overrides("model llama_3_1_8b; node dgx-h100; precision fp32")) == "fp32");
  CHECK(precision(overrides("model resnet50; node dgx-h100")) == "fp32");
  CHECK(precision(overrides("model resnet50; node dgx1-v100")) == "fp32");
  const auto note_of = [](const char* gpu) {
    const auto p = asked(overrides("model gpt2; node pcie-8x4090; gpu {}", gpu));
    const auto note = std::find_if(p.notes.begin(), p.notes.end(),
                                   [](const std::string& n) { return n.starts_with("precision: nobody stated one"); });
    return p.precision + (note == p.notes.end() ? "" : note->substr(note->find(';') + 1));
  };
  CHECK(note_of("a100-sxm4-80gb") == "bf16 models with causal attention are trained in bf16");
  // Volta's and Turing's units of 16 bits know fp16 alone; before them nothing is faster than fp32.
  CHECK_THAT(note_of("v100-sxm2-32gb"),
             StartsWith("fp16 models with causal attention are trained in fp16 on GPUs without bf16, as"));
  CHECK_THAT(note_of("t4"),
             StartsWith("fp16 models with causal attention are trained in fp16 on GPUs without bf16, as"));
  CHECK_THAT(note_of("p100-sxm2-16gb"), StartsWith("fp32 models with causal attention are trained in 16 bits, which"));
  CHECK_THAT(note_of("p100-sxm2-16gb"), EndsWith("multiplies no faster: fp32"));
}

TEST_CASE("predict: messages that bound each other are what bounds a step", "[unit][whatif]") {
  const auto p =
      asked(overrides("model llama_3_1_8b; node pcie-8x4090; precision bf16; batch 1; parallel.zero 3; "
                      "parallel.recompute full; parallel.states mixed-16; model.sequence 2048"));
  CHECK(p.breakdown.communication_exposed > p.step_time / 2.0);
  CHECK(p.bottleneck == "host memory");  // GeForce cards do not reach each other's
}

TEST_CASE("predict: experts that drop rows or are busier than others execute what they work on", "[unit][whatif]") {
  const auto with = [](std::vector<Override> more) {
    const std::vector<Override> settings = joined(overrides("model mixtral_8x7b; node dgx-h100; parallel.expert 8; "
                                                            "parallel.zero 1; parallel.states mixed; model.sequence "
                                                            "1024"),
                                                  more);
    return asked(settings);
  };
  const auto even = with({});
  CHECK(even.hfu > even.mfu);
  CHECK(even.hfu < 1.02 * even.mfu);
  // Twice the rows on one rank take longer; all ranks together work on as many.
  const auto busy = with(overrides("parallel.expert_imbalance 2"));
  CHECK(busy.step_time > even.step_time * 1.3);
  CHECK(busy.model_work.in(flops) == even.model_work.in(flops));
  CHECK(busy.hfu / busy.mfu == Approx(even.hfu / even.mfu).epsilon(0.01));
  // 32 blocks of two experts of 3 x 4096 x 14336 weights for each of 1,024 tokens, three passes, half of them dropped.
  const auto dropped = with(overrides("parallel.expert_capacity 0.5"));
  const double experts = 3 * 2.0 * 32 * 2 * 3 * 4096 * 14336 * 1024 * 8;
  CHECK((even.model_work - dropped.model_work).in(flops) == Approx(experts / 2));
  CHECK(dropped.hfu / dropped.mfu == Approx(even.hfu / even.mfu).epsilon(0.02));
}

TEST_CASE("predict: stages that wait for a slower one are bound by what makes it slow", "[unit][whatif]") {
  const auto with = [](const std::string& stages, const std::string& passes) {
    return asked(
        overrides("model gpt2_xl; node dgx-a100; precision bf16; batch 4; parallel.pipeline 8; parallel.schedule 1f1b; "
                  "parallel.layers_per_stage {}; strategy.accumulation {}",
                  stages, passes));
  };
  // Seven of 9 equal slots: they stand for most of the step.
  CHECK(with("6-6-6-6-6-6-6-6", "2").bottleneck == "pipeline bubble");
  // The first stage has three blocks without experts and stands while the others wait for their experts' rows.
  const auto unequal =
      asked(overrides("model deepseek_v3; node dgx-h100; nodes 256; network 400 Gb/s; parallel.pipeline 16; "
                      "parallel.expert 64; parallel.zero 1; global_batch 15360"));
  CHECK(unequal.breakdown.communication_exposed > unequal.step_time / 2.0);
  CHECK(unequal.bottleneck == "network");
}

TEST_CASE("predict: stages that wait for the one with the head are told of lighter ones", "[unit][whatif]") {
  const auto with = [](const std::string& gpus, std::vector<Override> more) {
    const std::vector<Override> settings = joined(
        overrides("model llama_3_1_8b; node dgx-h100; gpus_per_node {}; parallel.pipeline {}; parallel.schedule 1f1b; "
                  "parallel.recompute full; batch 1; global_batch 60",
                  gpus, gpus),
        more);
    return asked(settings);
  };
  const auto told = [](const answer::Prediction& one) {
    for (const std::string& note : one.notes) {
      if (note.starts_with("stages: ")) return note;
    }
    return std::string();
  };
  // 32 blocks over 8 stages: four each, and the last has the head of 128,256 words. Seven stages are balanced.
  const answer::Prediction equal = with("8", {});
  const std::string note = told(equal);
  const std::string key = "parallel.layers_per_stage=";
  const std::size_t at = note.find(key);
  REQUIRE(at != std::string::npos);
  const std::string cut = note.substr(at + key.size(), note.find(' ', at) - at - key.size());
  const answer::Prediction lighter = with("8", overrides("parallel.layers_per_stage {}", cut));
  CHECK(lighter.step_time < equal.step_time * 0.95);
  CHECK_THAT(note, Catch::EndsWith(to_text(lighter.step_time)));
  CHECK(told(lighter).empty());
  CHECK(told(with("7", {})).empty());
}

TEST_CASE("predict: one GPU that a job is compared with computes as much again", "[unit][whatif]") {
  const auto with = [](const std::string& stops) {
    return asked(
        overrides("model llama_3_1_8b; node dgx-h100; batch 1; parallel.zero 3; parallel.recompute full; "
                  "parallel.recompute_stops {}",
                  stops));
  };
  // Communication hides behind a little less.
  CHECK(with("yes").scaling_efficiency == Approx(with("no").scaling_efficiency).epsilon(0.015));
}

TEST_CASE("predict: cards and slots of one rate bound a step together", "[unit][whatif]") {
  const std::vector<Override> job = overrides("model gpt2_xl; node dgx-h100; nodes 4; batch 1");
  const auto with = [&](std::vector<Override> more) {
    more = joined(job, more);
    return asked(more);
  };
  const std::vector<Override> cards = overrides("network 8 x 800 Gb/s; network.transport infiniband");
  const Time alone = with({}).step_time;
  CHECK(with(cards).step_time / alone == Approx(1).epsilon(1e-3));
  CHECK(with(overrides("pcie 126 GB/s")).step_time / alone == Approx(1).epsilon(1e-3));
  auto both = cards;
  both.push_back({"pcie", "126 GB/s", {}});
  CHECK(with(both).step_time < alone * 0.95);
  CHECK(with({}).bottleneck == "network");
  const auto help = what_would_help(catalog(), job).value();
  CHECK(help.alternatives.front().changes.size() == 3);
  CHECK(help.alternatives.front().speedup > 1.05);
}

TEST_CASE("predict: a split without effect leaves a recommender's sparse gradients as they are", "[unit][whatif]") {
  const auto with = [](std::vector<Override> more) {
    more = joined(overrides("model dlrm; node dgx-h100; gpus_per_node 1"), more);
    return asked(more);
  };
  const auto whole = with({});
  const auto shared = with(overrides("parallel.zero 1"));
  CHECK(shared.step_time.in(seconds) == Approx(whole.step_time.in(seconds)).epsilon(0.01));
  CHECK(shared.memory_per_gpu.in(bytes) == Approx(whole.memory_per_gpu.in(bytes)).epsilon(0.01));
  CHECK(with(overrides("parallel.recompute full")).memory_per_gpu < whole.memory_per_gpu * 1.01);
}

TEST_CASE("predict: no interval begins before the network has moved a step's bytes", "[unit][whatif]") {
  const auto p = asked(overrides("model vgg16; node dgx1-v100; nodes 4; network 1 Gb/s; efficiency.network 100%"));
  for (const answer::LinkTraffic& one : p.traffic) {
    if (one.link == "network") CHECK(p.interval_90.first >= one.time * (1 - 1e-9));
  }
  CHECK(p.interval_90.first < p.step_time);
}

TEST_CASE("predict: what messages between stages are on the way for is communication", "[unit][whatif]") {
  const auto with = [](const std::string& network) {
    return asked(
        overrides("model mixtral_8x7b; node dgx-h100; nodes 4; network {}; batch 1; parallel.pipeline 4; "
                  "parallel.expert 8; parallel.zero 1; global_batch 512",
                  network));
  };
  const auto fast = with("3200 Gb/s");
  const auto slow = with("5 Gb/s");
  CHECK(slow.step_time > fast.step_time * 4);
  CHECK(slow.breakdown.bubble < fast.breakdown.bubble * 1.05);
  CHECK(slow.breakdown.communication_exposed > slow.step_time * 0.8);
}

TEST_CASE("predict: copies of key heads under Ulysses are said", "[unit][whatif]") {
  const auto said = [](const char* ranks, const char* tensor) {
    const auto p =
        asked(overrides("model llama_3_1_8b; node dgx-h100; nodes 4; precision bf16; batch 1; parallel.tensor {}; "
                        "parallel.context {}; parallel.context_by ulysses",
                        tensor, ranks));
    return std::any_of(p.notes.begin(), p.notes.end(),
                       [](const std::string& note) { return note.starts_with("Ulysses: "); });
  };
  CHECK(said("16", "1"));  // of 8 key heads
  CHECK_FALSE(said("8", "1"));
  CHECK(said("8", "2"));  // 4 of a tensor rank
}

TEST_CASE("predict: offloading takes memory as fast as the host link's time had it, where nobody says",
          "[unit][whatif]") {
  const auto job = [](const char* node) {
    const std::vector<Override> settings = overrides(
        "model llama_3_1_8b; node {}; precision bf16; batch 1; parallel.zero 1; parallel.states mixed; "
        "parallel.offload_activations yes",
        node);
    return resolve(catalog(), settings).value();
  };
  const auto moves = [&](const char* node) { return plan::host_memory_rate(job(node)).in(gigabytes_per_second); };
  CHECK(moves("dgx-h100") == Approx(0.7 * 2 * 307.2));  // its processors'
  CHECK(moves("dgx-b200") == Approx(0.7 * 2 * 8 * 38.4));
  CHECK(moves("pcie-8xa40") == Approx(0.7 * 2 * 8 * 25.6));
  CHECK(moves("pcie-4xt4") == Approx(0.7 * 2 * 6 * 21.328));
  CHECK(moves("gb200-nvl72") == Approx(0.7 * 72 * 256));
  // A server's parameter servers are what they were.
  Scenario servers = job("pcie-8xa40");
  servers.parallel = {};
  CHECK(plan::host_memory_rate(servers) == plan::kDefaultServerMemory);
  // It is that memory, not PCIe, which bounds a server whose GPUs all copy at once.
  Scenario slow = job("mi300x-8gpu");
  slow.server_memory = gigabytes_per_second(60);
  CHECK(predict(slow).value().bottleneck == "server memory");
}

TEST_CASE("predict: what is not the same training says so", "[unit][whatif]") {
  const auto said = [](std::vector<Override> settings, const char* begin) {
    const auto p = asked(std::move(settings));
    return std::any_of(p.notes.begin(), p.notes.end(), [&](const std::string& n) { return n.starts_with(begin); });
  };
  const auto dropping = [&](const char* capacity) {
    return said(overrides("model mixtral_8x7b; node dgx-h100; batch 1; parallel.expert 8; parallel.expert_capacity {}",
                          capacity),
                "experts: a capacity of ");
  };
  CHECK(dropping("0.25"));
  CHECK_FALSE(dropping("1.25"));
  CHECK_FALSE(dropping("0"));
  const auto one_kernel = [&](const char* model, const char* fusion) {
    return said(overrides("model {}; node dgx-h100; batch 1; fusion {}", model, fusion), "attention: ");
  };
  CHECK(one_kernel("deepseek_v2_lite", "none"));  // values are narrower than keys
  CHECK_FALSE(one_kernel("deepseek_v2_lite", "all"));
  CHECK_FALSE(one_kernel("gpt_oss_20b", "none"));  // sinks and windows come apart
  CHECK_FALSE(one_kernel("llama_2_7b", "none"));
  // Where keys go round it is one, in time and in what it keeps.
  const auto round = [](const char* ways, const char* fusion) {
    return asked(
        overrides("model llama_2_7b; node dgx-h100; batch 1; fusion {}; parallel.context 8; parallel.context_by {}",
                  fusion, ways));
  };
  const auto none = round("ring", "none");
  const auto one = round("ring", "attention");
  CHECK(none.step_time == one.step_time);
  CHECK(none.memory.activations == one.memory.activations);
  CHECK(std::any_of(none.notes.begin(), none.notes.end(),
                    [](const std::string& note) { return note.starts_with("attention: "); }));
  CHECK(round("ulysses", "none").memory.activations > round("ulysses", "attention").memory.activations);
  CHECK_FALSE(one_kernel("opt_6_7b", "none"));
}

TEST_CASE("predict: copies of whole experts sum beside kernels, which they slow", "[unit][whatif]") {
  const auto slowed = [](const char* expert) {
    const auto p =
        asked(overrides("model mixtral_8x7b; node dgx-h100; batch 1; global_batch 8; parallel.tensor 8; "
                        "parallel.sequence yes; parallel.expert {}; parallel.expert_tensor 1",
                        expert));
    Time sum;
    for (const answer::Segment& part : p.critical_path) {
      if (part.name == "kernels slowed by collectives") sum += part.time;
    }
    return sum;
  };
  CHECK(slowed("1") > Time::zero());
  CHECK(slowed("8") == Time::zero());  // nobody has copies
}
