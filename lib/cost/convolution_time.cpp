#include "ddlsim/cost/convolution_time.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ddlsim/cost/product_time.h"

namespace ddlsim::cost {
namespace {

using hardware::ConvolutionCurve;
using hardware::DeviceSpec;
using hardware::MeasuredConvolution;
using hardware::ProductSize;

constexpr double kDepthwise = 4;             // channels per group, at most
constexpr double kDepthwiseBandwidth = 0.5;  // assumed: share of the memory's bandwidth that such kernels reach
constexpr double kMostParts = 256;           // of the long k of a weights' gradient

constexpr std::int64_t kTensorChannels = 8;  // tensor cores take channels by so many
constexpr double kTensorBytes = 4;           // of elements narrower than this

// F(2 x 2, 3 x 3) in one kernel: a block makes 8 x 16 outputs of 32 channels, so that its 32 places are multiplied in
// 16 products of 32 x 32.
constexpr std::array<std::int64_t, 2> kBlock{8, 16};
constexpr double kBlockChannels = 32;
constexpr double kBlockRows = 512;

double area(const std::array<std::int64_t, 2>& size) {
  return static_cast<double>(size[0]) * static_cast<double>(size[1]);
}

double blocks(const std::array<std::int64_t, 2>& size, const std::array<std::int64_t, 2>& of) {
  const std::int64_t high = (size[0] + of[0] - 1) / of[0];
  const std::int64_t wide = (size[1] + of[1] - 1) / of[1];
  return static_cast<double>(high * wide);
}

struct Elements {
  double input = 0;
  double output = 0;
  double weights = 0;
  [[nodiscard]] double ends() const { return input + output; }
  [[nodiscard]] double all() const { return ends() + weights; }
};

/// A convolution with what all of its algorithms ask for.
struct Asked {
  const ConvolutionCurve& curve;
  const DeviceSpec& spec;
  const primitives::ConvolutionShape& shape;
  double batch = 1;
  DataSize element{};
  Elements elements{};
  // The input's gradient is the convolution of the output's gradient with the weights turned around.
  double from = 1;
  double to = 1;
  std::array<std::int64_t, 2> produced{};

  [[nodiscard]] Time moving(double moved) const { return moved * element / (spec.memory * curve.product.memory); }
};

Asked asked_of(const ConvolutionCurve& curve, const DeviceSpec& spec, const primitives::ConvolutionShape& shape,
               double batch, DataSize element) {
  const bool back = shape.pass == primitives::ConvolutionPass::kInputGradient;
  const auto in = static_cast<double>(shape.in);
  const auto out = static_cast<double>(shape.out);
  return {.curve = curve,
          .spec = spec,
          .shape = shape,
          .batch = batch,
          .element = element,
          .elements = {.input = batch * in * area(shape.input),
                       .output = batch * out * area(shape.output),
                       .weights = in / static_cast<double>(shape.groups) * out * area(shape.kernel)},
          .from = back ? out : in,
          .to = back ? in : out,
          .produced = back ? shape.input : shape.output};
}

bool stepping(const primitives::ConvolutionShape& shape) { return shape.stride != std::array<std::int64_t, 2>{1, 1}; }

/// Whether Winograd's algorithms know this kernel: 0, 3 or 5.
std::int64_t minimal_filtering(const primitives::ConvolutionShape& shape) {
  const bool dilated = shape.dilation != std::array<std::int64_t, 2>{1, 1};
  const std::int64_t taps = shape.kernel[0];
  const bool known = (taps == 3 || taps == 5) && shape.kernel[1] == taps;
  return known && !stepping(shape) && !dilated && shape.groups == 1 ? taps : 0;
}

Time fused_time(const Asked& asked) {
  const auto& fused = asked.curve.winograd2;
  const hardware::ProductCurve::Tile tile{
      .m = kBlockRows, .n = kBlockChannels, .efficiency = fused.efficiency, .resident = 1};
  const ProductSize size{
      .m = kBlockRows * asked.batch * blocks(asked.produced, kBlock), .n = asked.to, .k = asked.from};
  const double weights = asked.from * asked.to;
  const Time product = product_time(asked.curve.product, {.tiles = {&tile, 1}, .k_start = fused.k_start}, asked.spec,
                                    size, asked.element * (asked.elements.ends() + 16 * weights));
  return product + asked.moving(fused.moved * (9 + 16) * weights);
}

/// 36 products of the transformed places.
Time transformed_time(const Asked& asked, std::int64_t taps) {
  const auto& way = asked.curve.winograd4;
  const std::int64_t side = 7 - taps;
  const double places = asked.batch * blocks(asked.produced, {side, side});
  const bool weights_gradient = asked.shape.pass == primitives::ConvolutionPass::kWeightGradient;
  ProductSize size{.products = 36, .m = places, .n = asked.to, .k = asked.from};
  if (weights_gradient) size = {.products = 36, .m = asked.to, .n = asked.from, .k = places};
  const double ends = 36 * places * (asked.from + asked.to);
  const double weights = asked.from * asked.to;
  const Time product = product_time(asked.curve.product, {.tiles = way.tiles, .k_start = way.k_start}, asked.spec, size,
                                    asked.element * (ends + 36 * weights));
  const double taps_and_products = static_cast<double>(taps * taps + 36);
  const Time time =
      product + way.start +
      asked.moving(way.moved * (asked.elements.ends() + ends) + way.weights * taps_and_products * weights);
  return weights_gradient ? asked.curve.weight_winograd * time : time;
}

/// How many more input channels the arithmetic sees than there are.
double padding(const Asked& asked) {
  if (asked.element.in(bytes) >= kTensorBytes) return 1;
  const std::int64_t channels = asked.shape.in / asked.shape.groups;
  const std::int64_t padded = (channels + kTensorChannels - 1) / kTensorChannels * kTensorChannels;
  return static_cast<double>(padded) / static_cast<double>(std::max<std::int64_t>(channels, 1));
}

Time implicit_time(const Asked& asked) {
  const ConvolutionCurve& curve = asked.curve;
  const double padded = padding(asked);
  ProductSize size = implicit_product(asked.shape, asked.batch);
  const DataSize moved =
      asked.element * (padded * (asked.elements.input + asked.elements.weights) + asked.elements.output);
  ProductWay way{.tiles = curve.product.tiles, .k_start = curve.product.k_start};
  switch (asked.shape.pass) {
    case primitives::ConvolutionPass::kForward: size.k *= padded; break;
    case primitives::ConvolutionPass::kInputGradient: break;
    case primitives::ConvolutionPass::kWeightGradient:
      size.n *= padded;
      way.k_start = curve.product.k_start + curve.weight_start;
      way.most_parts = kMostParts;
      way.turned = true;
      return product_time(curve.product, way, asked.spec, size, moved) * curve.weight_gradient;
  }
  return product_time(curve.product, way, asked.spec, size, moved);
}

}  // namespace

ProductSize implicit_product(const primitives::ConvolutionShape& shape, double batch) {
  const auto groups = static_cast<double>(shape.groups);
  const double in = static_cast<double>(shape.in) / groups;
  const double out = static_cast<double>(shape.out) / groups;
  const double taps = area(shape.kernel);
  const double produced = batch * area(shape.output);
  switch (shape.pass) {
    case primitives::ConvolutionPass::kForward: return {.products = groups, .m = produced, .n = out, .k = in * taps};
    case primitives::ConvolutionPass::kInputGradient:
      if (!stepping(shape)) {
        return {.products = groups, .m = batch * area(shape.input), .n = in, .k = out * taps};
      }
      // Every output is sent to the inputs it came from.
      return {.products = groups, .m = produced, .n = in * taps, .k = out};
    case primitives::ConvolutionPass::kWeightGradient:
      return {.products = groups, .m = out, .n = in * taps, .k = produced};
  }
  return {};
}

Time convolution_time(const ConvolutionCurve& curve, const DeviceSpec& spec, const primitives::ConvolutionShape& shape,
                      double batch, DataSize element) {
  const Asked asked = asked_of(curve, spec, shape, batch, element);
  Time best = implicit_time(asked);
  if (const std::int64_t taps = minimal_filtering(shape); taps > 0) {
    const bool fused =
        curve.winograd2.efficiency > 0 && taps == 3 && shape.pass != primitives::ConvolutionPass::kWeightGradient;
    if (fused) best = min(best, fused_time(asked));
    if (!curve.winograd4.tiles.empty()) best = min(best, transformed_time(asked, taps));
  }
  const auto narrow = static_cast<double>(std::min(shape.in, shape.out)) / static_cast<double>(shape.groups);
  if (shape.groups > 1 && narrow <= kDepthwise) {
    best = min(best, element * asked.elements.all() / (spec.memory * kDepthwiseBandwidth));
  }
  if (shape.pass != primitives::ConvolutionPass::kInputGradient) return best;
  return best * (stepping(shape) ? curve.strided_gradient : curve.input_gradient);
}

std::optional<ConvolutionAnswer> measured_convolution(std::span<const MeasuredConvolution> table,
                                                      const ConvolutionCurve* curve, const DeviceSpec& spec,
                                                      Precision precision, const primitives::ConvolutionShape& shape,
                                                      double batch) {
  const MeasuredConvolution* nearest = nullptr;
  double least = 0;
  const auto [from, to] =
      std::equal_range(table.begin(), table.end(), MeasuredConvolution{precision, shape, 1, {}}, hardware::ByShape{});
  for (auto row = from; row != to; ++row) {
    const auto measured = static_cast<double>(row->batch);
    const double away = std::max(measured / batch, batch / measured);
    if (nearest == nullptr || away < least) {
      nearest = &*row;
      least = away;
    }
  }
  if (nearest == nullptr) return std::nullopt;
  const auto measured = static_cast<double>(nearest->batch);
  if (measured == batch) return ConvolutionAnswer{nearest->time, Provenance::kMeasured};
  double ratio = batch / measured;
  if (curve != nullptr) {
    const DataSize element = activation_size(precision);
    ratio = convolution_time(*curve, spec, shape, batch, element) /
            convolution_time(*curve, spec, shape, measured, element);
  }
  return ConvolutionAnswer{nearest->time * ratio, Provenance::kInterpolated};
}

}  // namespace ddlsim::cost
