// What ranks of a split model hold and send: shares of experts, of activations, of what nobody else has.
#include <algorithm>
#include <catch2/catch.hpp>

#include "overrides.h"
#include "unit/whatif/asked.h"

using namespace ddlsim;
using ddlsim::test::asked;
using namespace ddlsim::whatif;
using ddlsim::test::overrides;

TEST_CASE("predict: experts that no other rank has are no less with stated shards", "[unit][whatif]") {
  std::vector<Override> settings = overrides(
      "model mixtral_8x7b; node hgx-h200; precision bf16; batch 1; global_batch 8; parallel.expert 8; parallel.zero 1");
  const auto all = asked(settings).memory;
  settings.push_back({"parallel.shard_ranks", "8", {}});
  CHECK(asked(settings).memory.optimizer_state == all.optimizer_state);
}

TEST_CASE("predict: of an expert's copies those of a shard group share it", "[unit][whatif]") {
  // 1.54e9 weights beside experts of 29e9, these over 8 of 32 ranks: a shard group of 8 has one of each.
  const auto with = [](const char* zero, const char* ranks) {
    return asked(
        overrides("model qwen3_30b_a3b; node dgx-h100; nodes 4; batch 1; parallel.expert 8; parallel.recompute full; "
                  "parallel.states mixed; parallel.zero {}; parallel.shard_ranks {}",
                  zero, ranks));
  };
  const auto whole = with("1", "0").memory;
  CHECK(with("3", "1").memory.weights == whole.weights);
  CHECK(with("3", "1").memory.optimizer_state.in(bytes) ==
        Approx(with("3", "8").memory.optimizer_state.in(bytes) + 8 * 1.541e9 * 7 / 8).epsilon(2e-3));
  CHECK(with("3", "8").memory.weights.in(bytes) / 1e9 == Approx(7.63).epsilon(2e-3));
  // Of 16 ranks two have the same experts.
  CHECK(with("3", "16").memory.weights.in(bytes) == Approx(2 * (1.541e9 / 16 + 28.99e9 / 8 / 2)).epsilon(2e-3));
  CHECK(with("3", "32").memory.weights == with("3", "0").memory.weights);
  // What no other rank of the group has is not gathered, and its copies are summed all the same: fp32 gradients
  // of 28.99e9 / 8 weights over 4 servers, 2 x 3 / 4 of them from each of 8 GPUs; beside them a shard of the others',
  // or all.
  const auto network = [&](const char* ranks) {
    const auto traffic = with("3", ranks).traffic;
    const auto link =
        std::find_if(traffic.begin(), traffic.end(), [](const auto& one) { return one.link == "network"; });
    return link->bytes.in(bytes);
  };
  const double experts = 8 * 1.5 * 4 * 28.99e9 / 8;
  CHECK(network("8") == Approx(experts + 8 * 1.5 * 4 * 1.541e9 / 8).epsilon(2e-3));
  CHECK(network("1") == Approx(experts + 2 * 4 * 1.541e9).epsilon(2e-3));
}

TEST_CASE("predict: halves that one product made are a part of the ranks'", "[unit][whatif]") {
  // Phi-3 mini has gate and up as one product. Of a block's 4,096 tokens in bf16 queries, keys, values and attention's
  // output (4 x 3,072), 4 bytes a head, gate, up and the last product's input (3 x 8,192) are apart.
  const auto kept = [](const char* tensor) {
    return asked(overrides("model phi_3_mini; node dgx-h100; precision bf16; batch 1; parallel.states mixed; "
                           "software.fused yes; parallel.tensor {}",
                           tensor))
        .memory.activations.in(bytes);
  };
  const double apart = 32 * 4096.0 * (2 * (4 * 3072 + 3 * 8192) + 4 * 32);
  CHECK(kept("1") - kept("8") == Approx(apart * 7 / 8).epsilon(1e-9));
}

TEST_CASE("predict: weights that no other rank shares are not gathered", "[unit][whatif]") {
  const auto buffers = [](const char* zero) {
    return asked(overrides("model llama_3_1_8b; node dgx-h100; batch 1; parallel.tensor 8; parallel.states mixed; "
                           "parallel.zero {}",
                           zero))
        .memory.buffers;
  };
  CHECK(buffers("3") == buffers("0"));
}

TEST_CASE("predict: ranks that end a step by themselves wait less by events, and work as much", "[unit][whatif]") {
  const auto by = [](const char* fidelity) {
    return asked({{"model", "bert_large", {}},
                  {"node", "dgx-h100", {}},
                  {"nodes", "2", {}},
                  {"network", "25 Gb/s", {}},
                  {"batch", "2", {}},
                  {"strategy.accumulation", "16", {}},
                  {"parallel.tensor", "2", {}},
                  {"parallel.pipeline", "4", {}},
                  {"parallel.zero", "2", {}},
                  {"parallel.schedule", "zb-h2", {}},
                  {"fidelity", fidelity, {}}});
  };
  const auto recurrence = by("analytic");
  const auto events = by("event");
  CHECK(events.step_time <= recurrence.step_time);
  CHECK(events.breakdown.compute == recurrence.breakdown.compute);
  CHECK(events.breakdown.memory == recurrence.breakdown.memory);
  for (const auto& p : {recurrence, events}) {
    CHECK(p.breakdown.step().in(seconds) == Approx(p.step_time.in(seconds)));
    Time path;
    for (const auto& segment : p.critical_path) {
      CHECK(segment.time >= Time::zero());
      path += segment.time;
    }
    CHECK(path.in(seconds) == Approx(p.step_time.in(seconds)));
    CHECK(p.breakdown.bubble >= Time::zero());
    CHECK(p.breakdown.communication_exposed >= Time::zero());
  }
}
