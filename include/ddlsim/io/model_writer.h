// Writes models/*.yaml (schema: models/README.md): what `read_model` reads, the other way round.
//
// A ModelDescription is a model before its costs are worked out: operators in forward order. `write_model` gives its
// text, `build_model` the Model; reading the text gives the same Model, which a property test holds. A layer's input
// shape is written only where it differs from the output of the layer before; keys at their defaults are left out.
// Lines that come again and again, in the same order, are written once under `repeat`. One size may have a name: the
// first of the input's shape, as of a sequence, and of the layers that say so.
// Limits: one dimension, no nested `repeat`, no `published` or `features`.
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
  workload::Shape in{};     // of one sample; empty: as the layer before leaves it
  bool named_rows = false;  // the first size of `in`, and an embedding's lookups, are the description's `rows_name`
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
  std::vector<Source> sources;  // of layers, input, batch and optimizer; of dimensions with `rows_name`
  std::string rows_name{};  // of the first size of `input_shape`, where it can be changed: "sequence"; empty: a number
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
