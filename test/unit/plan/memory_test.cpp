#include "ddlsim/plan/memory.h"

#include <catch2/catch.hpp>

#include "by_hand.h"
#include "ddlsim/plan/lower.h"

using namespace ddlsim;
using namespace ddlsim::plan;
using workload::Layer;
using workload::Op;
using workload::Shape;

namespace {

/// Layers one after the other, each with its name, operator and input.
class List {
 public:
  List& add(const char* name, const Op& op, const Shape& in) {
    layers_.push_back(workload::layer_of(op, in, name).value().layer);
    return *this;
  }
  [[nodiscard]] const std::vector<Layer>& layers() const { return layers_; }

 private:
  std::vector<Layer> layers_;
};

/// A block of a GPT as Korthikanti et al. count it, dropout and all: s rows of h, a heads.
List gpt_block(std::int64_t s, std::int64_t h, std::int64_t a) {
  List list;
  list.add("ln_1", workload::LayerNorm{}, {s, h})
      .add("c_attn", workload::Linear{.out = 3 * h}, {s, h})
      .add("attention", workload::Attention{.heads = a}, {s, h})
      .add("c_proj", workload::Linear{.out = h}, {s, h})
      .add("attention_dropout", workload::pointwise("dropout"), {s, h})
      .add("attention_residual", workload::Combine{}, {s, h})
      .add("ln_2", workload::LayerNorm{}, {s, h})
      .add("intermediate", workload::Linear{.out = 4 * h}, {s, h})
      .add("activation", workload::pointwise("gelu"), {s, 4 * h})
      .add("output", workload::Linear{.out = h}, {s, 4 * h})
      .add("output_dropout", workload::pointwise("dropout"), {s, h})
      .add("output_residual", workload::Combine{}, {s, h});
  return list;
}

double kept_in(const List& list, const ActivationCut& cut, bool core = true) {
  double sum = 0;
  for (const KeptActivations& one : kept_activations(list.layers(), cut)) {
    sum += one.always.in(bytes) + (core ? one.core.in(bytes) : 0);
  }
  return sum;
}

}  // namespace

TEST_CASE("memory: a busier rank's experts keep as many rows more", "[unit][plan]") {
  // 16 rows of 8, 2 of 4 experts each, 32 inside, gated: 2 x 16 x (8 + 3 x 32) values of 2 bytes.
  List list;
  list.add("experts", workload::Experts{.experts = 4, .active = 2, .width = 32}, {16, 8});
  CHECK(kept_in(list, {.precision = Precision::kBf16}) == 2 * 2 * 16 * (8 + 3 * 32));
  CHECK(kept_in(list, {.precision = Precision::kBf16, .expert_load = 1.5}) == 1.5 * 2 * 2 * 16 * (8 + 3 * 32));
}

TEST_CASE("memory: a GPT's block keeps what Korthikanti et al. count", "[unit][plan]") {
  // Table 2 of Korthikanti et al. 2023; beside it 8 bytes a row for each of two norms, which the paper leaves out.
  const std::int64_t s = 128;
  const std::int64_t h = 512;
  const std::int64_t a = 8;
  const double sbh = 128.0 * 512 * 4;
  const double scores = 5.0 * 8 * 128 * 128 * 4;
  const double norms = 2.0 * 8 * 128 * 4;
  const List block = gpt_block(s, h, a);
  ActivationCut cut{.batch = 4, .precision = Precision::kFp16};
  CHECK(kept_in(block, cut) == Approx(sbh * 34 + scores + norms));
  cut.tensor = 4;
  CHECK(kept_in(block, cut) == Approx(sbh * (10 + 24.0 / 4) + scores / 4 + norms));
  cut.sequence = true;
  CHECK(kept_in(block, cut) == Approx((sbh * 34 + scores + norms) / 4));
  CHECK(kept_in(block, cut, false) == Approx((sbh * 34 + norms) / 4));  // selective recomputation
  cut.context = 2;
  CHECK(kept_in(block, cut, false) == Approx((sbh * 34 + norms) / 8));
}

TEST_CASE("memory: a Llama's block, worked by hand", "[unit][plan]") {
  // h 8192, 64 heads of 128, 8 of keys and values, inner 28672, 4096 rows, bf16. In units of 2 s h = 64 MiB: norm's
  // input 1, products' input 1, queries 1, keys and values 1/4, output 1, norm 1, products' input 1, gate and up 7,
  // their product 3.5: 16.75. Row sums 64 x 4096 x 4 = 1 MiB; norms 2 x 4 x 4096.
  const std::int64_t s = 4096;
  List block;
  block.add("norm", workload::RmsNorm{}, {s, 8192})
      .add("q_proj", workload::Linear{.out = 8192, .bias = false}, {s, 8192})
      .add("k_proj", workload::Linear{.out = 1024, .bias = false}, {s, 8192})
      .add("v_proj", workload::Linear{.out = 1024, .bias = false}, {s, 8192})
      .add("rotary", workload::pointwise("rotary"), {s, 9216})
      .add("attention", workload::GroupedAttention{.heads = 64, .kv_heads = 8, .width = 128, .causal = true}, {s, 8192})
      .add("o_proj", workload::Linear{.out = 8192, .bias = false}, {s, 8192})
      .add("add", workload::Combine{}, {s, 8192})
      .add("norm", workload::RmsNorm{}, {s, 8192})
      .add("gate", workload::Linear{.out = 28672, .bias = false}, {s, 8192})
      .add("up", workload::Linear{.out = 28672, .bias = false}, {s, 8192})
      .add("act", workload::Combine{.product = true, .gated = true}, {s, 28672})
      .add("down", workload::Linear{.out = 8192, .bias = false}, {s, 28672})
      .add("add", workload::Combine{}, {s, 8192});
  const double mib = 1024.0 * 1024.0;
  const double expected = 16.75 * 64 * mib + 1 * mib + 2.0 * 4 * 4096;
  CHECK(kept_in(block, {.precision = Precision::kBf16}) == Approx(expected));
  CHECK(kept_in(block, {.tensor = 8, .sequence = true, .precision = Precision::kBf16}) == Approx(expected / 8));
  // 16 ranks, 8 heads of keys: each has one, twice as much as a sixteenth of all.
  const double more = 64 * mib * 0.25 / 16;
  CHECK(kept_in(block, {.tensor = 16, .sequence = true, .precision = Precision::kBf16}) ==
        Approx(expected / 16 + more));
  // Products of 8 bits keep copies of 1 byte: 0.5 twice, of attention's output too, 1.75 of the last; in 4 bits half of
  // that. What the gate reads in 8 bits: 3.5 instead of 7.
  const double others = 1 * mib + 2.0 * 4 * 4096;
  ActivationCut eight{.precision = Precision::kFp8, .quantised = true};
  CHECK(kept_in(block, eight) == Approx(14.5 * 64 * mib + others));
  eight.gated_fp8 = true;
  CHECK(kept_in(block, eight) == Approx(11 * 64 * mib + others));
  CHECK(kept_in(block, {.precision = Precision::kFp4, .quantised = true}) == Approx(12.875 * 64 * mib + others));
  CHECK(kept_in(block, {.precision = Precision::kFp8}) == Approx(expected));
}

TEST_CASE("memory: experts keep rows in their products' 8 bits, the head and routing their own", "[unit][plan]") {
  // 16 rows of 8, 2 of 4 experts each, 32 inside, gated: rows and the last product's input 1 byte, gate and up 2 each.
  List list;
  list.add("experts", workload::Experts{.experts = 4, .active = 2, .width = 32}, {16, 8});
  ActivationCut cut{.precision = Precision::kFp8, .quantised = true};
  CHECK(kept_in(list, cut) == 2 * 16 * (8 + 32 + 2 * 2 * 32));
  cut.gated_fp8 = true;
  CHECK(kept_in(list, cut) == 2 * 16 * (8 + 32 + 2 * 32));
  List head;
  head.add("head", workload::Linear{.out = 1000, .bias = false}, {16, 8})
      .add("softmax", workload::pointwise("softmax"), {16, 1000});
  CHECK(kept_activations(head.layers(), cut)[0].always.in(bytes) == 2 * 16 * 8);
  List router;
  router.add("router", workload::Linear{.out = 4, .bias = false}, {16, 8})
      .add("routing", workload::pointwise("softmax"), {16, 4})
      .add("experts", workload::Experts{.experts = 4, .active = 2, .width = 32}, {16, 8});
  CHECK(kept_activations(router.layers(), cut)[0].always.in(bytes) == 2 * 16 * 8);
}

TEST_CASE("memory: what kernels of attention and of experts make and give back", "[unit][plan]") {
  // Operands and results with their gradients, of 2 bytes: 16 rows of 32 each, for three samples.
  const auto working = [](const Op& op, const Shape& in, std::int64_t tensor) {
    List list;
    list.add("layer", op, in);
    const ActivationCut cut{.tensor = tensor, .batch = 3, .precision = Precision::kBf16};
    return kept_activations(list.layers(), cut).front().working.in(bytes);
  };
  CHECK(working(workload::Attention{.heads = 4}, {16, 32}, 1) == 3 * 2 * 2 * (16 * 32 + 16 * 32));
  CHECK(working(workload::Attention{.heads = 4}, {16, 32}, 2) == 3 * 2 * (16 * 32 + 16 * 32));
  CHECK(working(workload::GroupedAttention{.heads = 4, .width = 8}, {16, 32}, 1) == 3 * 2 * 2 * (16 * 32 + 16 * 32));
  CHECK(working(workload::GroupedAttention{.heads = 4, .width = 8}, {16, 32}, 2) == 3 * 2 * (16 * 32 + 16 * 32));
  // 32 rows of 8 go in and come out; inside 32, where gated twice.
  CHECK(working(workload::Experts{.experts = 4, .active = 2, .width = 32}, {16, 8}, 1) ==
        3 * 2 * (2 * 32 * 8 + 2 * 32 * 32));
  CHECK(working(workload::Experts{.experts = 4, .active = 2, .width = 32, .gated = false}, {16, 8}, 1) ==
        3 * 2 * (2 * 32 * 8 + 32 * 32));
  // Scores of four experts, in fp32.
  List routing;
  routing.add("routing", workload::pointwise("softmax"), {16, 4})
      .add("experts", workload::Experts{.experts = 4, .active = 2, .width = 32}, {16, 8});
  CHECK(kept_activations(routing.layers(), {.precision = Precision::kBf16}).front().always.in(bytes) == 4 * 16 * 4);
}

TEST_CASE("memory: beside adapters frozen products keep no input", "[unit][plan]") {
  // Of the Llama's block above: without gate's and up's input (1) and down's (3.5), in units of 2 s h.
  const std::int64_t s = 64;
  List block;
  block.add("norm", workload::RmsNorm{}, {s, 256})
      .add("qkv", workload::Linear{.out = 768, .bias = false}, {s, 256})
      .add("attention", workload::GroupedAttention{.heads = 4, .width = 64, .causal = true}, {s, 256})
      .add("o_proj", workload::Linear{.out = 256, .bias = false}, {s, 256})
      .add("add", workload::Combine{}, {s, 256})
      .add("norm", workload::RmsNorm{}, {s, 256})
      .add("gate", workload::Linear{.out = 1024, .bias = false}, {s, 256})
      .add("up", workload::Linear{.out = 1024, .bias = false}, {s, 256})
      .add("act", workload::Combine{.product = true, .gated = true}, {s, 1024})
      .add("down", workload::Linear{.out = 256, .bias = false}, {s, 1024});
  const double all = kept_in(block, {.precision = Precision::kBf16});
  const double adapters =
      kept_in(block, {.precision = Precision::kBf16, .adapters = workload::AdaptedProducts::kAttention});
  CHECK(all - adapters == Approx(2.0 * s * (256 + 1024)));
  List experts;
  experts.add("experts", workload::Experts{.experts = 8, .active = 2, .width = 512}, {s, 256});
  CHECK(kept_in(experts, {.precision = Precision::kBf16}) == Approx(2.0 * s * 2 * (256 + 3 * 512)));
  List mixture;
  mixture.add("qkv", workload::Linear{.out = 768, .bias = false}, {s, 256})
      .add("attention", workload::GroupedAttention{.heads = 4, .width = 64}, {s, 256})
      .add("o_proj", workload::Linear{.out = 256, .bias = false}, {s, 256})
      .add("experts", workload::Experts{.experts = 8, .active = 2, .width = 512}, {s, 256});
  CHECK(kept_activations(mixture.layers(),
                         {.precision = Precision::kBf16, .adapters = workload::AdaptedProducts::kAttention})
            .back()
            .always.in(bytes) == Approx(2.0 * s * 2 * 2 * 512));
}

TEST_CASE("memory: under autocast norms and softmax are in fp32", "[unit][plan]") {
  List block;
  block.add("norm", workload::LayerNorm{}, {10, 100}).add("attention", workload::Attention{.heads = 4}, {10, 100});
  const double plain = kept_in(block, {.precision = Precision::kFp16});
  const double autocast = kept_in(block, {.precision = Precision::kFp16, .autocast = true});
  // Of 1,000 elements of the norm and 400 scores two bytes more; the scores once more as the product reads them.
  CHECK(autocast - plain == Approx(2 * 1000 + 2 * 400 + 2 * 400));
  CHECK(kept_in(block, {.precision = Precision::kFp32, .autocast = true}) ==
        Approx(kept_in(block, {.precision = Precision::kFp32})));
}

TEST_CASE("memory: under autocast every product that reads a norm's output keeps a copy of it", "[unit][plan]") {
  const auto kept = [](bool autocast, bool dropped) {
    List block;
    block.add("norm", workload::LayerNorm{}, {10, 100});
    if (dropped) block.add("dropout", workload::pointwise("dropout"), {10, 100});
    for (const char* name : {"q", "k", "v"}) block.add(name, workload::Linear{.out = 100}, {10, 100});
    block.add("attention", workload::GroupedAttention{.heads = 4, .width = 25}, {10, 100})
        .add("out", workload::Linear{.out = 100}, {10, 100});
    return kept_in(block, {.precision = Precision::kBf16, .autocast = autocast});
  };
  // The norm's input in fp32, and two copies more.
  CHECK(kept(true, false) - kept(false, false) == Approx(2 * 1000 + 2 * 2 * 1000));
  CHECK(kept(true, true) - kept(false, true) == Approx(2 * 1000 + 2 * 2 * 1000));
}

TEST_CASE("memory: what an activation made stays where dropout makes another tensor of it", "[unit][plan]") {
  const auto kept = [](const char* activation, bool dropped) {
    List mlp;
    mlp.add("wi", workload::Linear{.out = 400}, {10, 100}).add("act", workload::pointwise(activation), {10, 400});
    if (dropped) mlp.add("dropout", workload::pointwise("dropout"), {10, 400});
    mlp.add("wo", workload::Linear{.out = 100}, {10, 400});
    return kept_in(mlp, {.precision = Precision::kFp32});
  };
  CHECK(kept("relu", true) - kept("relu", false) == Approx(4 * 4000 + 4000));  // its output, and the mask
  CHECK(kept("gelu", true) - kept("gelu", false) == Approx(4000));
}

TEST_CASE("memory: attention with a trained bias is in fp32 where PyTorch composes it", "[unit][plan]") {
  const auto kept = [](bool composed, Precision precision) {
    List block;
    block.add("attention", workload::Attention{.heads = 2, .biased = true, .wide = true}, {10, 64})
        .add("dropout", workload::pointwise("dropout"), {10, 64});
    return kept_in(block, {.precision = precision, .single = true, .composed = composed});
  };
  // Queries, keys and values, and the scores after their dropout: 4 bytes where they had 2.
  CHECK(kept(true, Precision::kBf16) - kept(false, Precision::kBf16) == Approx(2 * (3 * 640 + 2 * 10 * 10)));
  CHECK(kept(true, Precision::kFp32) == Approx(kept(false, Precision::kFp32)));
}

TEST_CASE("memory: CLIP's GELU of single operations keeps both factors", "[unit][plan]") {
  List activation;
  activation.add("gelu", workload::pointwise("quick_gelu"), {10, 64});
  CHECK(kept_in(activation, {.precision = Precision::kBf16}) == Approx(640 * 2));
  CHECK(kept_in(activation, {.precision = Precision::kBf16, .single = true}) == Approx(640 * 2 * 2));
}

TEST_CASE("memory: units that are gathered stand in a row", "[unit][plan]") {
  const auto unit = [](double weights, double gradients) {
    return GatheredUnit{megabytes(weights), megabytes(gradients)};
  };
  const std::vector<GatheredUnit> units{unit(8, 8), unit(1, 1), unit(2, 2), unit(9, 0)};
  CHECK(most_gathered(units, 0) == megabytes(16));  // the first, at work in backward
  CHECK(most_gathered(units, 1) == megabytes(16));
  CHECK(most_gathered(units, 2) == megabytes(16));
  CHECK(most_gathered(units, 3) == megabytes(20));  // all of them, in front of forward
  CHECK(most_gathered({}, 1) == DataSize::zero());
}

TEST_CASE("memory: relu keeps nothing of its own, and without dropout attention keeps its softmax", "[unit][plan]") {
  List block;
  block.add("fc1", workload::Linear{.out = 400}, {10, 100})
      .add("relu", workload::Pointwise{.reads = workload::Reads::kOutput}, {10, 400})
      .add("fc2", workload::Linear{.out = 100}, {10, 400});
  CHECK(kept_in(block, {.precision = Precision::kFp32}) == Approx(4 * (1000 + 4000)));
  List attention;
  attention.add("attention", workload::Attention{.heads = 4}, {10, 100});
  CHECK(kept_in(attention, {.precision = Precision::kFp32}) == Approx(4 * (4000 + 400)));
}

TEST_CASE("memory: logits count in 16 bits and once more in 32", "[unit][plan]") {
  List head;
  head.add("lm_head", workload::Linear{.out = 1000, .bias = false}, {10, 64})
      .add("loss", workload::Pointwise{.reads = workload::Reads::kOutput, .over_rows = true}, {10, 1000});
  const auto kept = kept_activations(head.layers(), {.tensor = 2, .batch = 3, .precision = Precision::kBf16});
  CHECK(kept[0].loss.in(bytes) == Approx(3 * 10 * 500 * 6));
  CHECK(kept[0].always.in(bytes) == Approx(3 * 10 * 64 * 2));
  CHECK(kept[1].always == DataSize::zero());
}

TEST_CASE("memory: a loss of single operations keeps three values of each logit in fp32", "[unit][plan]") {
  List head;
  head.add("lm_head", workload::Linear{.out = 1000, .bias = false}, {10, 64})
      .add("loss", workload::Pointwise{.reads = workload::Reads::kOutput, .over_rows = true}, {10, 1000});
  const ActivationCut cut{.batch = 3, .precision = Precision::kBf16, .single = true};
  CHECK(kept_activations(head.layers(), cut)[0].loss.in(bytes) == Approx(3 * 10 * 1000 * 12));
}

TEST_CASE("memory: single operations keep norms in fp32, and what gates read", "[unit][plan]") {
  List block;
  block.add("norm", workload::RmsNorm{}, {10, 64})
      .add("gated", workload::Combine{.product = true, .gated = true}, {10, 64});
  const ActivationCut fused{.precision = Precision::kBf16};
  CHECK(kept_in(block, fused) == Approx(640 * 2 + 10 * 4 + 2 * 640 * 2));
  const ActivationCut single{.precision = Precision::kBf16, .single = true};
  CHECK(kept_in(block, single) == Approx(640 * (4 + 2) + 10 * 4 + 3 * 640 * 2));
  const ActivationCut autocast{.precision = Precision::kBf16, .single = true, .autocast = true};
  CHECK(kept_in(block, autocast) == Approx(640 * (4 + 4) + 10 * 4 + 3 * 640 * 2));
}

TEST_CASE("memory: GPT-2's GELU of single operations keeps a power's base, its tanh and two factors", "[unit][plan]") {
  List activation;
  activation.add("gelu", workload::pointwise("gelu_new"), {10, 64});
  const auto kept = [&](Precision precision, bool single, bool autocast) {
    return kept_in(activation, {.precision = precision, .single = single, .autocast = autocast});
  };
  CHECK(kept(Precision::kBf16, false, false) == Approx(640 * 2));
  CHECK(kept(Precision::kBf16, true, false) == Approx(640 * 4 * 2));
  CHECK(kept(Precision::kFp32, true, false) == Approx(640 * 4 * 4));
  CHECK(kept(Precision::kBf16, true, true) == Approx(640 * (3 * 4 + 2)));
}

TEST_CASE("memory: a softmax in fp32 keeps 4 bytes of each score", "[unit][plan]") {
  const auto kept = [](bool wide) {
    List layers;
    layers.add("attention", workload::Attention{.heads = 2, .wide = wide}, {10, 64});
    return kept_in(layers, {.precision = Precision::kBf16});
  };
  // 4 bytes, and a copy in 16 bits for the product with the values.
  CHECK(kept(true) - kept(false) == Approx(2 * 10 * 10 * (4 + 2 - 2)));
}

TEST_CASE("memory: products of one width keep what comes out of each activation between them", "[unit][plan]") {
  List chain;
  for (int i = 0; i < 3; ++i) {
    chain.add("product", workload::Linear{.out = 64}, {10, 64}).add("tanh", workload::pointwise("tanh"), {10, 64});
  }
  CHECK(kept_in(chain, {.precision = Precision::kFp32}) == Approx(3 * 4 * 640));
}

TEST_CASE("memory: capped logits are a loss as others are", "[unit][plan]") {
  List head;
  head.add("lm_head", workload::Linear{.out = 1000, .bias = false}, {10, 64})
      .add("cap", workload::pointwise("tanh"), {10, 1000})
      .add("loss", workload::pointwise("softmax"), {10, 1000});
  const auto kept = kept_activations(head.layers(), {.precision = Precision::kBf16});
  CHECK(kept[0].loss.in(bytes) == Approx(10 * 1000 * (6 + 2)));  // and what the cap made
}

TEST_CASE("memory: of single operations a product that is no gate keeps its two factors", "[unit][plan]") {
  List block;
  block.add("scaled", workload::Combine{.product = true}, {10, 64});
  CHECK(kept_in(block, {.precision = Precision::kBf16, .single = true}) == Approx(2 * 640 * 2));
}

TEST_CASE("memory: an encoder's loss of single operations is in its own format", "[unit][plan]") {
  List encoder;
  encoder.add("attention", workload::Attention{.heads = 4}, {10, 64})
      .add("norm", workload::LayerNorm{}, {10, 64})
      .add("head", workload::Linear{.out = 1000, .bias = false}, {10, 64})
      .add("loss", workload::Pointwise{.reads = workload::Reads::kOutput, .over_rows = true}, {10, 1000});
  const auto loss = [&](const ActivationCut& cut) { return kept_activations(encoder.layers(), cut)[2].loss.in(bytes); };
  CHECK(loss({.precision = Precision::kBf16, .single = true}) == Approx(10 * 1000 * 6));
  CHECK(loss({.precision = Precision::kBf16, .single = true, .autocast = true}) == Approx(10 * 1000 * (4 + 4 + 2)));
  CHECK(loss({.precision = Precision::kFp32, .single = true}) == Approx(10 * 1000 * 12));
}

TEST_CASE("memory: stages of 1F1B keep as many micro-batches as follow them", "[unit][plan]") {
  const List block = gpt_block(128, 512, 8);
  workload::Model model;
  model.id = "blocks";
  for (int i = 0; i < 4; ++i) model.layers.insert(model.layers.end(), block.layers().begin(), block.layers().end());
  model.totals = workload::total(model.layers).value();
  Job job;
  job.model = std::make_shared<const workload::Model>(std::move(model));
  job.cluster.nodes = 1;
  job.cluster.gpus_per_node = 4;
  job.parallel.pipeline = 4;
  job.strategy.accumulation = 8;
  const StepPlan plan = lower(job).value();
  REQUIRE(plan.classes.size() == 4);
  for (std::size_t s = 0; s < 4; ++s) {
    CAPTURE(s);
    CHECK(plan.classes[s].memory.micro_batches == Approx(4.0 - static_cast<double>(s)));
    CHECK(plan.classes[s].memory.weights == plan.classes[0].memory.weights);
  }
  CHECK(plan.classes[0].memory.activations > plan.classes[1].memory.activations * 1.25);
}
