#include "ddlsim/whatif/fitting.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <tuple>

#include "catalog.h"
#include "ddlsim/whatif/predict.h"
#include "ddlsim/whatif/predictor.h"
#include "overrides.h"

using namespace ddlsim;
using namespace ddlsim::whatif;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using ddlsim::test::catalog;
using ddlsim::test::joined;
using ddlsim::test::overrides;

namespace {

using Settings = std::vector<Override>;

answer::Prediction predicted(const Settings& settings) { return predict(resolve(catalog(), settings).value()).value(); }

/// The note about what makes a job fit; empty: it has none.
std::string ways(const Settings& settings) {
  const std::string start = "what makes it fit: ";
  for (const std::string& note : predicted(settings).notes) {
    if (note.starts_with(start)) return note.substr(start.size());
  }
  return {};
}

Settings with(Settings settings, Settings more) {
  settings = joined(settings, more);
  return settings;
}

const Settings kLlama = overrides("model llama_3_1_70b; node dgx-h100; precision bf16");
const Settings kShared =
    overrides("parallel.tensor 8; parallel.sequence yes; parallel.zero 3; parallel.recompute full");

}  // namespace

TEST_CASE("fitting: the smallest cluster holds the job, and a server less does not", "[unit][whatif]") {
  CHECK_THAT(ways(kLlama), StartsWith("parallel.zero=3, parallel.tensor=8, parallel.sequence=yes, "
                                      "parallel.offload_optimizer=yes (67.2") &&
                               Contains("; the smallest cluster found: 2 servers (16 GPUs) with parallel.zero=3 "
                                        "and parallel.recompute=full"));
  CHECK(predicted(with(with(kLlama, kShared), overrides("parallel.states mixed-16; parallel.offload_optimizer yes")))
            .fits == true);
  const Settings sharded = overrides("parallel.zero 3; parallel.recompute full");
  CHECK(predicted(with(with(kLlama, sharded), overrides("nodes 2"))).fits == true);
  CHECK(predicted(with(with(kLlama, sharded), overrides("nodes 1"))).fits == false);
  CHECK(predicted(with(with(kLlama, kShared), overrides("nodes 2"))).fits == true);
  CHECK(predicted(with(with(kLlama, kShared), overrides("nodes 1"))).fits == false);
}

TEST_CASE("fitting: a tensor degree that somebody stated shares its sequence too", "[unit][whatif]") {
  const Settings job = overrides(
      "model llama_3_1_405b; node dgx-h100; nodes 8; precision bf16; batch 1; parallel.states mixed; parallel.tensor "
      "8; parallel.pipeline 8; parallel.zero 1; strategy.accumulation 64");
  CHECK_THAT(ways(job),
             Contains("the smallest cluster found: 16 servers (128 GPUs) with ") && Contains("parallel.sequence=yes"));
  CHECK_THAT(ways(job), Contains("parallel.sequence=yes, parallel.offload_optimizer=yes (85.03 GB, tightly)"));
  const Settings all = overrides("parallel.zero 3; parallel.recompute full; parallel.sequence yes");
  CHECK(predicted(with(with(job, all), overrides("nodes 16"))).fits == true);
  CHECK(predicted(with(with(job, all), overrides("nodes 8"))).fits == false);
  // Nor is it said where it is stated already.
  CHECK_THAT(ways(with(job, overrides("parallel.sequence yes"))),
             Contains("the smallest cluster found: 16 servers") && !Contains("sequence"));
}

TEST_CASE("fitting: a job that leaves the allocator less than it usually holds is said to fit tightly",
          "[unit][whatif]") {
  const Settings bert = overrides("model bert_large; node dgx1-v100; batch 8");
  const answer::MemoryLedger all = predicted(bert).memory;
  const auto on = [&](double slack) {
    const DataSize size = all.tensors() * (1 + slack) + all.context;
    return predicted(with(bert, overrides("gpu.memory_size {}", std::to_string(size.in(bytes)) + " B")));
  };
  const auto says = [](const answer::Prediction& prediction, const std::string& words) {
    return std::any_of(prediction.notes.begin(), prediction.notes.end(),
                       [&](const std::string& note) { return note.find(words) != std::string::npos; });
  };
  CHECK(on(0.04).fits == true);
  CHECK(on(0.04).memory.tight);
  CHECK(says(on(0.04), "fits tightly: "));
  CHECK(says(on(0.04),
             "the allocator usually holds 6 % of tensors, here 4.0 % are left: expandable_segments, or a "
             "smaller batch, is safer"));
  for (const double other : {0.02, 0.07}) {  // too large; as much as it usually holds
    CHECK_FALSE(on(other).memory.tight);
    CHECK_FALSE(says(on(other), "fits tightly"));
  }
}

TEST_CASE("fitting: of servers whose GPUs a job does not all use, the idle ones are named", "[unit][whatif]") {
  const Settings one = with(kLlama, overrides("gpus_per_node 1"));
  CHECK_THAT(ways(one), Contains("the smallest cluster found: 16 servers (16 GPUs, 7 more of each server idle: "
                                 "gpus_per_node=8 may need fewer servers)"));
  CHECK_THAT(ways(kLlama), !Contains("idle"));
}

TEST_CASE("fitting: a setting in the way is named, not taken for what does not fit", "[unit][whatif]") {
  const Settings llama = overrides("model llama_3_1_8b; node dgx-h100; nodes 2; batch 1");
  CHECK_THAT(ways(llama), StartsWith("parallel.zero=3 (57"));
  for (const auto& [setting, value, left] : {std::tuple{"parallel.gather_fp8", "yes", "parallel.gather_fp8=no"},
                                             std::tuple{"overlap", "ideal", "overlap=backward"},
                                             std::tuple{"strategy.sync_every", "4", "strategy.sync_every=1"},
                                             std::tuple{"strategy", "horovod", "strategy.grouping=buckets"}}) {
    const std::string said = ways(with(llama, {{setting, value, {}}}));
    INFO(said);
    CHECK_THAT(said, StartsWith(std::string(left) + ", parallel.zero=3 (57"));
    CHECK_THAT(said, Contains("the smallest cluster found: 1 server (8 GPUs) with " + std::string(left) +
                              " and parallel.zero=3"));
  }
  CHECK_THAT(ways(with(llama, overrides("strategy ps"))), StartsWith("parallel.recompute=full ("));
  CHECK(predicted(with(llama, overrides("strategy ps; parallel.recompute full"))).fits == true);
  CHECK_THAT(ways(with(llama, overrides("strategy byteps"))), StartsWith("strategy=allreduce, parallel.zero=3 ("));
}

TEST_CASE("fitting: what fits on these servers is no less than the smallest cluster found", "[unit][whatif]") {
  // PipeDream keeps versions of whole weights: no ZeRO, but a tensor group.
  const Settings stages = overrides(
      "model llama_3_1_8b; node dgx-h100; nodes 2; batch 1; parallel.pipeline 2; parallel.schedule pipedream; "
      "global_batch 16");
  CHECK_THAT(ways(stages), StartsWith("parallel.tensor=2 (74") &&
                               Contains("the smallest cluster found: 2 servers (16 GPUs) with parallel.tensor=8"));
  // Three stages are on three servers, or on six.
  const Settings thirds = overrides("model llama_3_1_70b; node dgx-h100; nodes 3; batch 1; parallel.pipeline 3");
  CHECK_THAT(ways(thirds), StartsWith("parallel.tensor=8 (") && Contains("the smallest cluster found: 3 servers"));
}

TEST_CASE("fitting: the change that is named makes it fit", "[unit][whatif]") {
  const Settings bert = overrides("model bert_large; node dgx1-v100; batch 64");
  CHECK_THAT(ways(bert), StartsWith("parallel.recompute=full (9.14"));
  CHECK(predicted(with(bert, overrides("parallel.recompute selective"))).fits == false);
  CHECK(predicted(with(bert, overrides("parallel.recompute full"))).fits == true);
  // Of a batch, the most samples of a pass that fit.
  const Settings images = overrides("model resnet50; node dgx1-v100; batch 10000");
  CHECK_THAT(ways(images), StartsWith("batch="));
  CHECK_THAT(ways(images), Contains("the smallest cluster found: 1 server (8 GPUs) with batch=1"));
  // What costs the least time comes first.
  const Settings gpt = overrides("model gpt2_xl; node dgx1-v100; gpu v100-sxm2-32gb; precision fp16; batch 1");
  CHECK_THAT(ways(gpt), StartsWith("parallel.zero=1 ("));
  const Settings clicks = overrides("model dlrm; node dgx-a100");
  CHECK_THAT(ways(clicks), StartsWith("strategy=pearl ("));
  CHECK(predicted(with(clicks, overrides("strategy pearl"))).fits == true);
  const Settings experts = overrides(
      "model deepseek_v3; node dgx-h100; nodes 32; precision bf16; parallel.zero 3; parallel.recompute full; "
      "parallel.states mixed-16");
  CHECK_THAT(ways(experts), StartsWith("parallel.expert=4 ("));
  CHECK(predicted(with(experts, overrides("parallel.expert 2"))).fits == false);
  CHECK(predicted(with(experts, overrides("parallel.expert 4"))).fits == true);
}

TEST_CASE("fitting: a change that leaves fewer replicas takes more passes of a stated global batch", "[unit][whatif]") {
  const Settings neox =
      overrides("model gpt_neox_20b; node p4d.24xlarge; nodes 2; parallel.tensor 2; batch 2; global_batch 32");
  const std::string named = ways(neox);
  const std::string change = named.substr(0, named.find(" ("));
  Settings changed = neox;
  for (std::size_t at = 0; at < change.size();) {
    const std::size_t end = std::min(change.find(", ", at), change.size());
    const std::size_t equals = change.find('=', at);
    changed.push_back({change.substr(at, equals - at), change.substr(equals + 1, end - equals - 1), {}});
    at = end + 2;
  }
  INFO(named);
  CHECK(predicted(changed).fits == true);
}

TEST_CASE("fitting: formats of states are tried, alone and with recomputation", "[unit][whatif]") {
  // LoRA on a 24 GB card: 8 G frozen parameters take 32 GB where fp32 is stated, 16 GB in the mixed format.
  const Settings lora = overrides(
      "model llama_3_1_8b; node pcie-8x4090; gpus_per_node 1; precision bf16; batch 1; model.sequence 2048; "
      "parallel.lora_rank 16; parallel.states fp32");
  CHECK_THAT(ways(lora), StartsWith("parallel.states=mixed, parallel.recompute=full (19.96 GB)"));
  CHECK_THAT(ways(lora), Contains("the smallest cluster found: 1 server (1 GPU) with parallel.states=mixed and "
                                  "parallel.recompute=full"));
  CHECK(predicted(with(lora, overrides("parallel.states mixed"))).fits == false);
  CHECK(predicted(with(lora, overrides("parallel.states mixed; parallel.recompute full"))).fits == true);
  // Where nobody states a format they are in bf16, as they are computed with.
  const Settings loaded(lora.begin(), lora.end() - 1);
  CHECK_THAT(ways(loaded), StartsWith("parallel.recompute=full (19.87"));
  // Of 70 G, 141 GB in 16 bits, 4 bits leave 40.
  const Settings large = overrides(
      "model llama_3_1_70b; node dgx-h100; gpus_per_node 1; precision bf16; batch 1; model.sequence 4096; "
      "parallel.lora_rank 16");
  CHECK_THAT(ways(large), StartsWith("parallel.recompute=full, parallel.frozen_bits=4 ("));
  CHECK(predicted(with(large, overrides("parallel.recompute full; parallel.frozen_bits 4"))).fits == true);
  // Adam's states of 8 bits: 10 bytes a parameter where fp32 takes 16.
  const Settings gpt = overrides("model gpt2_xl; node pcie-8x4090; gpus_per_node 1; precision bf16; batch 1");
  CHECK_THAT(ways(gpt), StartsWith("parallel.states=adam-8bit"));
  // Products of fp32 need weights of fp32.
  CHECK_THAT(ways(with(gpt, overrides("precision fp32"))), !Contains("parallel.states"));
}

TEST_CASE("fitting: every setting that is named is needed", "[unit][whatif]") {
  // 4 bits of 70 G frozen parameters: recomputation alone is enough, and one GPU shares nothing.
  const Settings lora = overrides(
      "model llama_3_1_70b; node dgx-a100-80gb; gpus_per_node 1; batch 1; precision bf16; parallel.lora_rank 16; "
      "parallel.frozen_bits 4");
  CHECK_THAT(ways(lora), StartsWith("parallel.recompute=full (") &&
                             Catch::Matchers::EndsWith("1 server (1 GPU) with parallel.recompute=full"));
  // Eight tensor ranks of eight GPUs are one replica.
  const Settings small =
      overrides("model llama_3_1_8b; node pcie-8x4090; global_batch 64; batch 1; precision bf16; parallel.zero 3");
  CHECK_THAT(ways(small), Contains("parallel.tensor=8") && !Contains("parallel.zero"));
}

TEST_CASE("fitting: nothing is said where a job fits, or nobody can know", "[unit][whatif]") {
  CHECK(ways(overrides("model resnet50; node dgx-h100")).empty());
  CHECK(ways(overrides("model pai_multi_interests; node dgx1-v100; strategy ps")).empty());
  // A predictor answers many questions, and leaves it to who asks.
  Predictor predictor;
  const auto plain = predictor.predict(resolve(catalog(), kLlama).value()).value();
  for (const std::string& note : plain.notes) CHECK_THAT(note, !Contains("what makes it fit"));
}

TEST_CASE("fitting: stages share gradients and weights in FSDP alone, which comes late and is said", "[unit][whatif]") {
  const std::string fsdp = "zero 2 and 3 with stages: FSDP has it (torchtitan)";
  const Settings stages = with(kLlama, overrides("nodes 2; parallel.tensor 4; parallel.sequence yes; parallel.pipeline "
                                                 "2; parallel.zero 1; parallel.states mixed; strategy.accumulation 8"));
  const std::string said = ways(stages);
  const bool shares = said.find("zero=2") != std::string::npos || said.find("zero=3") != std::string::npos;
  CHECK(shares == (said.find(fsdp) != std::string::npos));
  CHECK_THAT(said, !StartsWith("parallel.zero"));
  CHECK_THAT(ways(kLlama), !Contains(fsdp));
}
