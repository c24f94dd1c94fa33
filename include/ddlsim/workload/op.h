// Operators as a model file lists them, and what each one costs per sample.
//
// `layer_of(op, input shape)` turns an operator into a Layer: FLOPs, tensor elements read and written, elements kept
// for the backward pass, and its gradient tensors. Rules (per sample, forward; models/README.md has the same table):
//   convolution   2 * C/g * kh * kw * out * Ho * Wo FLOPs       linear    2 * rows * in * out
//   attention     4 * rows * keys * width (scores and context)  lstm      directions * steps * 8h * (in + h)
// Backward FLOPs are twice the forward ones: one GEMM for the input's gradient, one for the weights'.
// Elements (E = input, O = output): each operator reads its input and writes its output once, except
//   frozen batch norm (a Pointwise of constants)  forward 2E, backward 2E; nothing is kept for it, its input neither
//   batchnorm     forward 3E (statistics, then normalise), backward 5E: x and dy are read twice, dx written
//   attention     unfused: scores S = heads * rows * keys are written, read and written by scale, mask, softmax and
//                 dropout, and read again: 10S; backward 11S
//   linear        with a bias, backward reads the output's gradient once more
//   add/multiply  two inputs; the gradient of a fork is summed, 3E
// Transformers of today (heads h of width w, values of width v, pairs p of query and key):
//   grouped_attention  one kernel: 2 p h (w + v) FLOPs, backward 2 p h (3w + 2v), as it makes the scores again; p is
//                      rows^2, causal rows (rows + 1) / 2, with a window or in chunks less; with `pooled` n query t has
//                      min(floor(t / n), pooled_keep) more (DeepSeek-V4's compressed keys, transformers' deepseek_v4)
//   experts            2 * rows * active * 3 * in * width (2 when not gated); all experts' weights are gradient tensors
//   index_scores       2 h w p, p the sum of floor(t / pooled): rows (rows + 1) / 2 of single rows; scores are written
//                      and read by the choice
//   linear_attention   per chunk of c rows, n = width, v = value_width: Mamba-2 (Dao and Gu 2024, arXiv 2405.21060, 6):
//                      2 c c n per key head (queries by keys), and per head 2 c c v (by values), 2 c n v twice (state
//                      made, state read). The delta rule (Yang et al. 2024, arXiv 2412.06464), per head: 2 c c n twice
//                      (keys by keys, queries by keys), c^3 / 3 (a triangle inverted), 2 c c n + 2 c c v (it by keys,
//                      by values), 2 c c v (by values), 2 c n v three times (state read by keys and by queries, made).
//                      Backward is twice that, and all but what ends in the output (2 c c v, 2 c n v) once more, as
//                      both implementations make it again.
// `forward` and `backward` list the kernels of a pass by their shapes (primitives/kernel.h), for GPUs that are
// calibrated; their FLOPs are the layer's, and so are the elements of layers without FLOPs. Limits: operators are
// separate kernels (no fusion), attention is not flash attention, and a layer's workspace is not counted. Worked
// example: linear {out: 1000, bias} on [2048]: 2 * 2048 * 1000 = 4.096 MFLOP forward, 8.192 backward, gradient tensors
// of 2,048,000 and 1,000 elements.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ddlsim/primitives/kernel.h"
#include "ddlsim/support/choices.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"

namespace ddlsim::workload {

using Shape = std::vector<std::int64_t>;
using Pair = std::array<std::int64_t, 2>;  // height, width

struct Convolution {
  std::int64_t out = 0;
  Pair kernel{1, 1};
  Pair stride{1, 1};
  Pair pad{0, 0};
  Pair dilation{1, 1};  // kernel elements are this far apart
  std::int64_t groups = 1;
  bool bias = false;
  bool tied = false;  // the weight is another layer's: no parameter of its own
};
struct Linear {
  std::int64_t out = 0;
  bool bias = true;
  bool tied = false;        // the weight is another layer's: no parameter of its own
  std::int64_t groups = 1;  // so many parts of the input, each with the same share of the outputs of its own
  bool whole = false;       // no framework cuts it over tensor ranks: each makes all of it
};
struct BatchNorm {};
struct LayerNorm {};
/// What a framework without a kernel for it makes of kernels of single operations (workload/fusion.h).
enum class Composite : std::uint8_t { kNo, kGelu, kGeluNew, kQuickGelu, kDropout, kRotary };
/// What backward reads beside the gradient, and so what is kept for it (tools/autograd/derivatives.yaml of PyTorch).
enum class Reads : std::uint8_t { kNothing, kMask, kInput, kOutput };
/// One tensor in, one out.
struct Pointwise {
  Reads reads = Reads::kNothing;
  bool over_rows = false;  // softmax: the last size is reduced
  bool constant = false;   // scaled and shifted by constants
  Composite composite = Composite::kNo;

  friend bool operator==(const Pointwise&, const Pointwise&) = default;
};
/// Two tensors in, one out.
struct Combine {
  bool product = false;  // a product's backward reads both inputs; a sum's does not
  bool gated = false;    // one of its factors is activated first
};
struct Pool {
  Pair kernel{1, 1};
  Pair stride{1, 1};
  Pair pad{0, 0};
  bool ceil = false;
  bool average = false;
};
struct GlobalPool {};
struct Flatten {};
struct Concat {
  Shape out{};
};
struct Embedding {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::int64_t lookups = 0;
  bool sparse_gradient = false;
  Shape out{};  // empty: [lookups, width]
};
/// Attention in separate kernels, which compute every score.
struct Attention {
  std::int64_t heads = 1;
  std::int64_t keys = 0;  // 0: as many as the input has rows
  bool causal = false;    // a query looks at no key after its own: one kernel spares these (workload/fusion.h)
  bool biased = false;    // something is added to the scores, which no one kernel does: it stays as it is
  bool wide = false;      // its softmax is in fp32, whatever the rest is
};
struct Lstm {
  std::int64_t hidden = 0;
  std::int64_t directions = 1;
};
struct MatMul {
  std::int64_t rows = 0;
  std::int64_t inner = 0;
  std::int64_t columns = 0;
  std::int64_t products = 1;  // independent ones of these sizes, as of attention's heads
  Shape out{};
};
/// A norm without mean and shift: one gradient tensor.
struct RmsNorm {};
/// Attention in one kernel, whose scores stay on the chip; query heads may share key and value heads.
struct GroupedAttention {
  std::int64_t heads = 1;
  std::int64_t kv_heads = 0;     // 0: as many as heads
  std::int64_t width = 0;        // of a head's queries and keys
  std::int64_t value_width = 0;  // 0: as wide as the keys
  std::int64_t window = 0;       // most keys a query looks at; 0: all
  bool causal = false;           // a query looks at no key after its own
  std::int64_t chunk = 0;        // rows in blocks of so many, which look at nothing outside their own; 0: one block
  bool sinks = false;            // a trained logit per head beside the scores
  std::int64_t pooled = 0;       // causal: beside these a key for each so many rows up to the query's; 0: none
  std::int64_t pooled_keep = 0;  // of those a query looks at so many; 0: at all
};
/// Mixture of experts: each row goes through `active` of the experts; the router is a linear layer of its own.
struct Experts {
  std::int64_t experts = 1;
  std::int64_t active = 1;
  std::int64_t width = 0;  // of one expert's inside
  bool gated = true;       // gate, up and down; otherwise up and down
  bool bias = false;       // one per matrix
};
/// A convolution along the sequence that looks at a row and the ones before it, every column by itself, and its
/// activation, in one kernel (causal_conv1d of Mamba).
struct CausalConv {
  std::int64_t kernel = 4;
  bool bias = false;
};
/// Attention whose state is a matrix per head: a state-space layer (Mamba-2) or, with `delta`, a gated delta rule.
/// Works chunk by chunk of the sequence, as products (see the header's equations). Its input has queries, keys and
/// values side by side.
struct LinearAttention {
  std::int64_t heads = 1;
  std::int64_t key_heads = 0;    // of queries and keys (Mamba's groups); 0: as many as heads
  std::int64_t width = 0;        // of a head's queries and keys: the state's first size
  std::int64_t value_width = 0;  // the state's second size
  std::int64_t chunk = 64;       // rows
  bool delta = false;
};

/// The scores by which a query chooses the keys that sparse attention looks at (DeepSeek's lightning indexer): of every
/// query by every key before it, in every one of its own heads.
struct IndexScores {
  std::int64_t heads = 1;
  std::int64_t width = 0;   // of a head
  std::int64_t keep = 0;    // keys that a query chooses
  std::int64_t pooled = 1;  // rows that a key stands for
};

/// What the CPU does with every sample, in forward, while the GPU waits: proposals sorted out, targets drawn. It takes
/// the same time beside every GPU and in every precision. Its shape is that of its input.
struct HostWork {
  Time time{};  // per sample
};

/// What limits kernels that were timed, and so what their time grows with on another GPU (cost/wave_scaling.h).
enum class Bound { kMemory, kCompute, kFixed };

inline constexpr Choices<Bound, 3> kBounds{{
    {"memory", Bound::kMemory},
    {"compute", Bound::kCompute},
    {"fixed", Bound::kFixed},  // nothing of the GPU: taken as it was measured
}};

/// Times that somebody measured, of a step of the model's own batch.
struct MeasuredTime {
  Time forward{};
  Time backward{};
  Bound bound = Bound::kMemory;
};
/// Kernels as a profiler saw them. Its shape is that of its input.
struct Measured {
  MeasuredTime time{};
  std::int64_t kernels = 1;               // of each pass that takes time
  std::vector<std::int64_t> gradients{};  // elements of the gradient tensors ready with its backward
};

using Op = std::variant<Convolution, Linear, BatchNorm, LayerNorm, Pointwise, Combine, Pool, GlobalPool, Flatten,
                        Concat, Embedding, Attention, Lstm, MatMul, RmsNorm, GroupedAttention, Experts, Measured,
                        CausalConv, LinearAttention, IndexScores, HostWork>;

/// What one operator costs. Elements are counted per sample; weight elements per step, whatever the batch.
struct Layer {
  std::string name;
  Work forward_work{};  // per sample; zero for an operator bound by memory
  Work backward_work{};
  std::int64_t forward_elements = 0;  // activations read and written
  std::int64_t backward_elements = 0;
  std::int64_t output_elements = 0;
  std::int64_t scores = 0;                   // of attention that is not fused, per sample
  std::int64_t saved_elements = 0;           // kept from forward to backward
  std::int64_t forward_weight_elements = 0;  // weights read
  std::int64_t backward_weight_elements = 0;
  std::int64_t forward_rewritten = 0;  // of these, moved by a kernel that does nothing else (QLoRA's dequantisation)
  std::int64_t backward_rewritten = 0;
  int forward_kernels = 1;
  int backward_kernels = 1;
  std::vector<primitives::Kernel> forward{};
  std::vector<primitives::Kernel> backward{};
  std::vector<std::int64_t> parameters{};  // elements of each gradient tensor, in the order of the framework's list
  std::int64_t frozen_elements = 0;        // weights that are not trained: held, without gradient or state
  std::int64_t quantised_elements = 0;     // of these, held in 4 or 8 bits
  bool sparse_gradient = false;
  std::int64_t sparse_elements = 0;        // of the gradient, per sample, when it is sparse
  Time host{};                             // of forward, per sample: the GPU waits for the CPU
  std::optional<MeasuredTime> measured{};  // instead of the counts above
  std::optional<Op> op{};                  // what it is, on `in`; none: made by hand, or changed by fusion
  Shape in{};                              // of one sample; empty without `op`
};

struct LayerAndShape {
  Layer layer;
  Shape out{};
};

/// Words of models/README.md whose operator is a Pointwise.
struct PointwiseWord {
  std::string_view word;
  Pointwise op;
};
inline constexpr std::array<PointwiseWord, 15> kPointwiseWords{{
    {"relu", {.reads = Reads::kOutput}},
    {"gelu", {.reads = Reads::kInput, .composite = Composite::kGelu}},
    {"gelu_new", {.reads = Reads::kInput, .composite = Composite::kGeluNew}},
    {"quick_gelu", {.reads = Reads::kInput, .composite = Composite::kQuickGelu}},
    {"silu", {.reads = Reads::kInput}},
    {"hardswish", {.reads = Reads::kInput}},
    {"relu6", {.reads = Reads::kInput}},
    {"tanh", {.reads = Reads::kOutput}},
    {"sigmoid", {.reads = Reads::kOutput}},
    {"lrn", {.reads = Reads::kOutput}},
    {"softmax", {.reads = Reads::kOutput, .over_rows = true}},
    {"dropout", {.reads = Reads::kMask, .composite = Composite::kDropout}},
    {"scale", {}},
    {"rotary", {.composite = Composite::kRotary}},
    {"frozen_batchnorm", {.constant = true}},
}};
/// The operator of a word of that table; "scale" of another.
[[nodiscard]] constexpr Pointwise pointwise(std::string_view word) {
  for (const PointwiseWord& one : kPointwiseWords) {
    if (one.word == word) return one.op;
  }
  return {};
}

/// What `op` on an input of shape `in` costs, and its output's shape; the layer keeps both.
/// Errors: kInvalidArgument when the shape does not fit the operator, or a count of elements exceeds 2^53; FLOPs
/// have no limit (rounded to 53 bits).
[[nodiscard]] Expected<LayerAndShape> layer_of(const Op& op, const Shape& in, std::string name);

/// "[3, 224, 224]"
[[nodiscard]] std::string to_string(const Shape& shape);

}  // namespace ddlsim::workload
