// A model file's layers for images of another size. Private to the room.
//
// Convolutions and pools say kernels, strides and pads, not sizes: those of their outputs follow. What a file has in
// full ("in: [64, 56, 56]", "concat: {out: [197, 768]}") is of its own size of images, and becomes what that size
// became: 56 x 56 of 224 x 224 is 40 x 40 of 160 x 160, and 196 patches and a class 100 and a class. Learned positions
// are as many as there are patches, a detector's predictions as many as its maps have places.
// A map of a size that nothing before it has, but twice, four times, ... of one, was enlarged (a U-Net's way up).
// A map that is flattened for linear layers keeps the file's size, as torchvision's adaptive pooling makes it.
// Limits: maps of three sizes (channels, height, width), so no volumes; a size that two paths make two sizes of, and
// windows that do not divide the new size, are refused.
//
// Worked example: [3, 224, 224] to 160 x 160 under a convolution of stride 2: 112 x 112 becomes 80 x 80, wherever the
// file writes it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "ddlsim/workload/op.h"

namespace ddlsim::io {

class ImageResize {
 public:
  /// `input`: the file's, of three sizes. `detects`: rows that are of no map are predictions for all of them.
  ImageResize(const workload::Shape& input, std::int64_t height, std::int64_t width, bool detects)
      : file_(input[1], input[2]), other_(height, width), detects_(detects), sizes_{{file_, other_}} {}

  /// A shape that the file writes out. Nothing: a map of a size that nothing before it has.
  [[nodiscard]] std::optional<workload::Shape> of(workload::Shape shape) const;
  /// An operator, its shapes as above.
  [[nodiscard]] std::optional<workload::Op> of(workload::Op op) const;
  /// What an operator made of a map of the file's size, and of the other one. False: it made something else before.
  [[nodiscard]] bool follow(const workload::Op& op, const workload::Shape& file, const workload::Shape& other);

 private:
  [[nodiscard]] std::int64_t tokens(std::int64_t count) const;
  [[nodiscard]] std::int64_t rows(std::int64_t count) const;

  using Size = std::pair<std::int64_t, std::int64_t>;
  [[nodiscard]] std::optional<Size> map_of(Size file) const;

  Size file_;
  Size other_;
  bool detects_;
  std::map<Size, Size> sizes_;
  std::optional<Size> patches_;  // of the file's size, and of the other
};

}  // namespace ddlsim::io
