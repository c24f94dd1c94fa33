// Reads models/*.yaml (schema: models/README.md).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ddlsim/io/yaml.h"
#include "ddlsim/support/error.h"
#include "ddlsim/workload/model.h"

namespace ddlsim::io {

/// Values for a model's named dimensions in place of the file's ("sequence" -> 512).
using Dimensions = std::vector<std::pair<std::string, std::int64_t>>;

/// Most layers a model may have once its repeats are written out.
inline constexpr std::size_t kMaxLayers = 100'000;
/// Most gradient tensors of a model: every expert of a mixture has its own.
inline constexpr std::size_t kMaxTensors = 4'000'000;

/// Dimensions of any model of images, in pixels a side: both sides, or each.
inline constexpr std::array<std::string_view, 3> kImageSides{"image", "image_height", "image_width"};

/// Elaborates a model document. An unknown name in `dimensions` is an error that lists the model's own. With
/// kImageSides its layers are those of such images (models/README.md). Errors then: kUnsupported for a model that takes
/// none of that size.
[[nodiscard]] Expected<workload::Model> read_model(const Node& document, const Dimensions& dimensions = {});

}  // namespace ddlsim::io
