// A workload: what one training step of one GPU has to do, whatever the hardware.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ddlsim/support/choices.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/precision.h"
#include "ddlsim/support/source.h"
#include "ddlsim/support/units.h"
#include "ddlsim/workload/op.h"

namespace ddlsim::workload {

enum class Optimizer { kSgd, kSgdMomentum, kAdagrad, kAdam };

inline constexpr Choices<Optimizer, 4> kOptimizers{{
    {"sgd", Optimizer::kSgd},
    {"sgd-momentum", Optimizer::kSgdMomentum},
    {"adagrad", Optimizer::kAdagrad},
    {"adam", Optimizer::kAdam},
}};

/// fp32 values kept per parameter beside weight and gradient.
[[nodiscard]] constexpr int state_values(Optimizer optimizer) {
  return optimizer == Optimizer::kSgd ? 0 : optimizer == Optimizer::kAdam ? 2 : 1;
}
/// fp32 values read and written per parameter by one update: weight in and out, gradient in, each state in and out.
[[nodiscard]] constexpr int update_accesses(Optimizer optimizer) { return 3 + 2 * state_values(optimizer); }

/// The update of a tensor where every operation is a kernel of its own, which reads and writes all it works on:
/// torch.optim's code without `fused` (1.8: _functional.py; weight decay among it), e.g. SGD with momentum: decay
/// (gradient, weight -> gradient: 3 accesses), momentum *= (2), += (3), weight -= (3).
struct SingleOperations {
  int kernels = 0;
  int accesses = 0;  // fp32 values per parameter
};
[[nodiscard]] constexpr SingleOperations single_operations(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::kSgd: return {2, 6};
    case Optimizer::kSgdMomentum: return {4, 11};
    case Optimizer::kAdagrad: return {5, 14};
    case Optimizer::kAdam: return {9, 22};
  }
  return {};
}

/// The architectures of Wang et al. (IISWC 2019): where parameters live and which links carry them.
enum class Architecture { k1w1g, k1wng, kPsWorker, kAllReduceLocal, kAllReduceCluster, kPearl };

inline constexpr Choices<Architecture, 6> kArchitectures{{
    {"1w1g", Architecture::k1w1g},
    {"1wng", Architecture::k1wng},
    {"ps-worker", Architecture::kPsWorker},
    {"allreduce-local", Architecture::kAllReduceLocal},
    {"allreduce-cluster", Architecture::kAllReduceCluster},
    {"pearl", Architecture::kPearl},
}};

/// The features of one step of one cNode (a GPU and its worker), as Wang et al. (IISWC 2019) define them.
struct StepFeatures {
  Work flops{};               // of compute-bound operators, forward and backward
  DataSize memory_access{};   // of memory-bound operators
  DataSize input{};           // copied from host to GPU
  DataSize weight_traffic{};  // weights and gradients that cross the architecture's links
  DataSize dense_weights{};
  DataSize embedding_weights{};
};

/// An embedding whose gradient holds only the rows it touched.
struct SparseTable {
  std::int64_t elements = 0;             // of the whole table
  std::int64_t elements_per_sample = 0;  // of the rows one sample touches
};

/// Sums over a model's layers, per sample unless stated, so that a closed form need not walk them.
struct Totals {
  Work forward_work{};
  Work backward_work{};
  Work computed_again{};  // of backward: what fused attention does not keep, which is no work of the model (MFU)
  std::int64_t memory_bound_elements = 0;  // forward and backward, of layers without FLOPs
  std::int64_t saved_elements = 0;
  std::int64_t dense_parameters = 0;       // per model
  std::int64_t sparse_parameters = 0;      // per model: embeddings with sparse gradients
  std::int64_t frozen_parameters = 0;      // per model: weights that are not trained
  std::vector<SparseTable> sparse_tables;  // the layers behind sparse_parameters
  std::int64_t gradient_tensors = 0;       // per model
  std::int64_t kernels = 0;                // launched in a forward and a backward pass
  bool attention = false;                  // whether some layer is one
  bool recurrent = false;
  bool convolutional = false;  // whether most FLOPs are convolutions'
  bool depthwise = false;      // whether some convolution has a group of every channel
};

/// What a layer's backward computes again of its forward: fused attention keeps no scores (Dao et al. 2022), and makes
/// them anew, one product of the five.
[[nodiscard]] Work computed_again(const Layer& layer);

/// Errors: kInvalidArgument when a sum exceeds 2^62.
[[nodiscard]] Expected<Totals> total(const std::vector<Layer>& layers);

/// What a published description says; compared with the layers by a test.
struct Published {
  std::optional<std::int64_t> parameters;
  std::optional<Work> forward_flops;
};

/// Where the times of measured layers come from: the GPU's datasheet, and what else of the step is known.
struct MeasuredOn {
  std::string gpu;                         // its id
  Precision precision = Precision::kFp32;  // of the matrix products
  ComputeRate peak{};                      // at that precision
  Bandwidth memory{};
  std::optional<Time> launch_interval{};  // between two kernels that the CPU issued
  bool update = false;                    // whether the weights' update is among the layers
};

/// A validated model. Exactly one of `layers` (not empty) and `features` describes it.
struct Model {
  std::string id;
  std::string name;
  std::string task;
  std::string sample;
  std::int64_t batch = 1;                      // samples per GPU and step, the default
  std::optional<std::int64_t> global_batch{};  // samples of a step of the published recipe, over all GPUs
  Optimizer optimizer = Optimizer::kSgdMomentum;
  DataSize input_per_sample{};
  std::vector<std::pair<std::string, std::int64_t>> dimensions;
  std::vector<Layer> layers;
  Totals totals;
  std::optional<StepFeatures> features;  // at `batch`
  std::optional<Architecture> architecture;
  std::optional<MeasuredOn> measured{};  // when a layer is a measured one
  Published published;
  Sources sources;
  std::vector<std::string> recalled;  // feature keys whose figure nobody checked against the paper's text
  std::string notes;

  [[nodiscard]] bool has_layers() const { return !layers.empty(); }
  /// Trained or not.
  [[nodiscard]] std::int64_t parameters() const {
    return totals.dense_parameters + totals.sparse_parameters + totals.frozen_parameters;
  }
};

/// Tokens of a sample, of a model whose samples are sequences of them.
[[nodiscard]] std::optional<std::int64_t> tokens_of(const Model& model);

/// Whether some layer is a mixture of experts.
[[nodiscard]] bool has_experts(const Model& model);

/// The features of one step of `batch` samples.
///
/// From layers: FLOPs and input scale with the batch; memory access is that of layers without FLOPs plus the
/// optimizer's update; weight traffic is every gradient pushed and every weight pulled once (2 x gradient bytes; a ring
/// all-reduce moves 2 (n-1)/n of it, which this rounds up). Stated features: FLOPs, memory access and input scale with
/// batch / model.batch; weights and their traffic do not.
[[nodiscard]] StepFeatures features_at(const Model& model, std::int64_t batch, Precision precision);

/// Elements of a sparse gradient after `batch` samples: the rows touched, as if no two samples touched the same, and at
/// most the table.
[[nodiscard]] inline double touched_elements(const SparseTable& table, std::int64_t batch) {
  const double touched = static_cast<double>(table.elements_per_sample) * static_cast<double>(batch);
  return std::min(touched, static_cast<double>(table.elements));
}

/// Elements of all sparse gradients one GPU makes in a step of `batch` samples.
[[nodiscard]] double sparse_gradient_elements(const Model& model, std::int64_t batch);

/// Elements of all gradients one GPU makes in a step of `batch` samples, dense and sparse.
[[nodiscard]] double gradient_elements(const Model& model, std::int64_t batch);

}  // namespace ddlsim::workload
