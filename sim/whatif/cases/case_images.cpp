#include "cases/case_images.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cases/case_degrees.h"
#include "cases/case_text.h"
#include "ddlsim/support/quantity_io.h"

namespace ddlsim::whatif {
namespace {

/// Sides of images as a case says them: "256", "512x512"; nothing in other words ("short side 640 to 800").
std::optional<std::pair<std::int64_t, std::int64_t>> image_sides_of(const io::Case& one) {
  for (const char* key : {"image_size", "resolution"}) {
    if (const auto both = count_of(one, key)) return std::pair{*both, *both};
    const std::string said = lower_case(one.said(key).value_or(""));
    const std::size_t by = said.find('x');
    if (by == std::string::npos) continue;
    const auto side = [](std::string_view text) {
      text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
      text.remove_suffix(text.size() - (text.find_last_not_of(' ') + 1));
      return parse_count(text, {1, 1 << 20});
    };
    const auto height = side(std::string_view(said).substr(0, by));
    const auto width = side(std::string_view(said).substr(by + 1));
    if (height && width) return std::pair{*height, *width};
  }
  return std::nullopt;
}

}  // namespace

Expected<void> add_image_size(const io::Case& one, const workload::Model& model, std::vector<Override>& settings) {
  const auto said = image_sides_of(one);
  if (!said) return {};
  const auto [height, width] = *said;
  const auto refuse = [&, taller = height, wider = width](const std::string& known) {
    const std::string size = taller == wider ? fmt::format("{}", taller) : fmt::format("{} x {}", taller, wider);
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
