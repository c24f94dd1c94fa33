// Writes models/*.yaml (schema: models/README.md): what `read_model` reads, the other way round.
//
// A ModelDescription is a model before its costs are worked out: operators in forward order. `write_model` gives its
// text, `build_model` the Model; reading the text gives the same Model, which a property test holds. A layer's input
// shape is written only where it differs from the output of the layer before; keys at their defaults are left out.
// Limits: no `repeat`, `dimensions`, `published` or `features`; sizes are numbers.
// Example: a layer {"conv", Convolution{.out = 64, .kernel = {7, 7}, .stride = {2, 2}, .pad = {3, 3}}, "conv1"} becomes
//   - conv: {name: "conv1", out: 64, kernel: 7, stride: 2, pad: 3}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ddlsim/support/error.h"
#include "ddlsim/support/source.h"
#include "ddlsim/support/units.h"
#include "ddlsim/workload/model.h"
#include "ddlsim/workload/op.h"

namespace ddlsim::io {

/// One operator of a model file.
struct DescribedLayer {
  std::string word;  // the operator's key in models/README.md: "conv", "relu"
  workload::Op op;
  std::string name;
  workload::Shape in{};  // of one sample; empty: as the layer before leaves it
};

struct ModelDescription {
  std::string id;
  std::string name;
  std::string task;
  std::string sample;
  std::int64_t batch = 1;
  workload::Optimizer optimizer = workload::Optimizer::kSgdMomentum;
  workload::Shape input_shape{};  // of one sample
  DataSize input_per_sample{};    // whole bytes
  std::vector<DescribedLayer> layers;
  std::optional<workload::MeasuredOn> measured{};  // of measured layers
  Sources sources;                                 // of layers, input, batch and optimizer
  std::string notes;
};

/// The words of a model file that stand for `op`, the first being the usual one: a Pool is "maxpool" or "avgpool".
[[nodiscard]] std::vector<std::string> words_for(const workload::Op& op);

/// The text of the model file. Errors: kInvalidArgument, naming the layer, where an operator does not fit its input or
/// its word; or where the description breaks a limit of the model file.
[[nodiscard]] Expected<std::string> write_model(const ModelDescription& description);

/// The model that the file would describe. Errors as `write_model`.
[[nodiscard]] Expected<workload::Model> build_model(const ModelDescription& description);

}  // namespace ddlsim::io
