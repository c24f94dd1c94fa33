#include "cases/case_images.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cases/case_degrees.h"
#include "cases/case_text.h"
#include "ddlsim/support/quantity_io.h"

namespace ddlsim::whatif {
namespace {

constexpr std::int64_t kWidest = 65536;  // more is a number of images: MLPerf's input_size

/// Sides of images, or of volumes, as a case says them: "256", "512x512", "64 x 64 x 64"; none in other words ("short
/// side 640 to 800").
std::vector<std::int64_t> sides_of(const io::Case& one) {
  for (const char* key : {"image_size", "resolution"}) {
    if (const auto both = count_of(one, key)) {
      if (*both > kWidest) continue;
      return {*both, *both};
    }
    std::vector<std::int64_t> sides;
    const std::string said = lower_case(one.said(key).value_or(""));
    for (std::size_t begin = 0; begin <= said.size();) {
      const std::size_t end = std::min(said.find('x', begin), said.size());
      std::string_view text = std::string_view(said).substr(begin, end - begin);
      text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
      text.remove_suffix(text.size() - (text.find_last_not_of(' ') + 1));
      const auto side = parse_count(text, {1, 1 << 20});
      if (!side) {
        sides.clear();
        break;
      }
      sides.push_back(*side);
      begin = end + 1;
    }
    if (sides.size() == 2 || sides.size() == 3) return sides;
  }
  return {};
}

}  // namespace

Expected<void> add_image_size(const io::Case& one, const workload::Model& model, std::vector<Override>& settings) {
  const std::vector<std::int64_t> said = sides_of(one);
  if (said.empty()) return {};
  const std::int64_t height = said[0];
  const std::int64_t width = said[1];
  const auto refuse = [&](const std::string& known) {
    const bool square = said.size() == 2 && height == width;
    const std::string size = square ? fmt::format("{}", height) : fmt::format("{}", fmt::join(said, " x "));
    return fail(ErrorCode::kUnsupported,
                fmt::format("images of {} pixels a side; '{}' is known for {}", size, model.name, known));
  };
  const auto& dimensions = model.dimensions;
  const auto latent = std::find_if(dimensions.begin(), dimensions.end(),
                                   [](const auto& dimension) { return dimension.first == "latent"; });
  if (latent != dimensions.end()) {
    constexpr std::int64_t kPixels = 8;  // the encoder's, a side
    if (height != width || height % kPixels != 0) return refuse("squares of a multiple of 8");
    if (height / kPixels != latent->second) {
      settings.push_back({"model.latent", std::to_string(height / kPixels), one.where});
    }
    return {};
  }
  // The first layer may be of something else: a time, a class.
  const auto first = std::find_if(model.layers.begin(), model.layers.end(),
                                  [](const workload::Layer& layer) { return layer.in.size() == 3; });
  if (first == model.layers.end()) {
    return model.layers.empty() || !has(model.sample, "image") ? Expected<void>() : refuse("one size that nobody says");
  }
  const workload::Shape& shape = first->in;
  if (said.size() == 3) {  // a volume, whose layers see it as a map
    const bool as_many = shape[1] * shape[2] == said[0] * said[1] * said[2];
    return as_many ? Expected<void>() : refuse(fmt::format("{} voxels", to_text(shape[1] * shape[2])));
  }
  const bool same = height == width
                        ? height == shape[1] || height == shape[2]
                        : (height == shape[1] && width == shape[2]) || (height == shape[2] && width == shape[1]);
  if (same) return {};
  // Networks for small images have another first convolution, and no pooling behind it (He et al., CVPR 2016, 4.2).
  constexpr std::int64_t kSmall = 64;
  if (std::min(height, width) < kSmall) return refuse(fmt::format("{} x {}", shape[1], shape[2]));
  settings.push_back({"model.image_height", std::to_string(height), one.where});
  settings.push_back({"model.image_width", std::to_string(width), one.where});
  return {};
}

}  // namespace ddlsim::whatif
