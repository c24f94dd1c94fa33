#include "image_resize.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <variant>

namespace ddlsim::io {

using workload::Shape;

/// Patches, and the class and register tokens beside them.
std::int64_t ImageResize::tokens(std::int64_t count) const {
  constexpr std::int64_t kMostBeside = 8;
  if (!patches_ || count < patches_->first || count > patches_->first + kMostBeside) return count;
  return count - patches_->first + patches_->second;
}

/// Places of a map side by side: rows of linear layers and norms. A detector's predictions for those of several maps
/// are as many more as the image has pixels.
std::int64_t ImageResize::rows(std::int64_t count) const {
  const auto area = [](const Size& size) { return size.first * size.second; };
  const auto map =
      std::find_if(sizes_.begin(), sizes_.end(), [&](const auto& size) { return area(size.first) == count; });
  if (map != sizes_.end()) return area(map->second);
  if (!detects_ || patches_) return tokens(count);
  const double pixels = static_cast<double>(area(other_)) / static_cast<double>(area(file_));
  return std::max<std::int64_t>(std::llround(static_cast<double>(count) * pixels), 1);
}

/// Of a map: that of the same size, or of one that it was enlarged from.
std::optional<ImageResize::Size> ImageResize::map_of(Size file) const {
  constexpr std::int64_t kMostTimes = 32;
  for (std::int64_t times = 1; times <= kMostTimes; times *= 2) {
    if (file.first % times != 0 || file.second % times != 0) break;
    const auto size = sizes_.find({file.first / times, file.second / times});
    if (size != sizes_.end()) return Size{size->second.first * times, size->second.second * times};
  }
  return std::nullopt;
}

std::optional<Shape> ImageResize::of(Shape shape) const {
  if (shape.size() == 3) {
    const auto size = map_of({shape[1], shape[2]});
    if (!size) return std::nullopt;
    std::tie(shape[1], shape[2]) = *size;
  } else if (shape.size() == 2) {
    shape[0] = rows(shape[0]);
  } else if (!shape.empty()) {
    shape[0] = tokens(shape[0]);
  }
  return shape;
}

std::optional<workload::Op> ImageResize::of(workload::Op op) const {
  if (auto* concat = std::get_if<workload::Concat>(&op)) {
    const auto out = of(concat->out);
    if (!out) return std::nullopt;
    concat->out = *out;
  } else if (auto* table = std::get_if<workload::Embedding>(&op)) {
    table->rows = tokens(table->rows);
    table->lookups = tokens(table->lookups);
    if (!table->out.empty()) {
      const auto out = of(table->out);
      if (!out) return std::nullopt;
      table->out = *out;
    }
  }
  return op;
}

bool ImageResize::follow(const workload::Op& op, const Shape& file, const Shape& other) {
  if (file.size() != 3 || other.size() != 3) return true;
  const Size became{other[1], other[2]};
  const auto [known, added] = sizes_.try_emplace({file[1], file[2]}, became);
  if (!added && known->second != became) return false;
  // Patches: kernels that do not overlap, of eight pixels a side and more.
  constexpr std::int64_t kPatch = 8;
  const auto* convolution = std::get_if<workload::Convolution>(&op);
  const bool cuts = convolution != nullptr && convolution->kernel == convolution->stride &&
                    std::min(convolution->kernel[0], convolution->kernel[1]) >= kPatch;
  if (cuts) patches_ = {file[1] * file[2], other[1] * other[2]};
  return true;
}

}  // namespace ddlsim::io
