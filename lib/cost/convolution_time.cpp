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

double area(const std::array<std::int64_t, 2>& size) {
  return static_cast<double>(size[0]) * static_cast<double>(size[1]);
}

double blocks(const std::array<std::int64_t, 2>& size, std::int64_t of) {
  const std::int64_t high = (size[0] + of - 1) / of;
  const std::int64_t wide = (size[1] + of - 1) / of;
  return static_cast<double>(high * wide);
}

struct Elements {
  double input = 0;
  double output = 0;
  double weights = 0;
  [[nodiscard]] double all() const { return input + output + weights; }
};

Elements elements_of(const ConvolutionShape& shape, double batch) {
  const auto in = static_cast<double>(shape.in);
  const auto out = static_cast<double>(shape.out);
  return {.input = batch * in * area(shape.input),
          .output = batch * out * area(shape.output),
          .weights = in / static_cast<double>(shape.groups) * out * area(shape.kernel)};
}

bool minimal_filtering(const ConvolutionShape& shape) {
  constexpr std::array<std::int64_t, 2> kOne{1, 1};
  constexpr std::array<std::int64_t, 2> kThree{3, 3};
  return shape.kernel == kThree && shape.stride == kOne && shape.dilation == kOne && shape.groups == 1;
}

/// F(side x side, 3 x 3) in (side + 2)^2 products. `fused`: only the weights' transform is a kernel of its own.
Time winograd_time(const ConvolutionCurve& curve, const ConvolutionCurve::Winograd& winograd, const DeviceSpec& spec,
                   const ConvolutionShape& shape, double batch, DataSize element) {
  const bool fused = &winograd == &curve.winograd2;
  const std::int64_t side = fused ? 2 : 4;
  const auto products = static_cast<double>((side + 2) * (side + 2));
  const bool forward = shape.pass != ConvolutionPass::kInputGradient;
  // The input's gradient is the convolution of the output's gradient with the weights turned around.
  const auto& produced = forward ? shape.output : shape.input;
  const auto from = static_cast<double>(forward ? shape.in : shape.out);
  const auto to = static_cast<double>(forward ? shape.out : shape.in);
  const Elements elements = elements_of(shape, batch);
  const double places = batch * blocks(produced, side);
  ProductSize size{.products = products, .m = places, .n = to, .k = from};
  if (shape.pass == ConvolutionPass::kWeightGradient) size = {.products = products, .m = to, .n = from, .k = places};
  double transformed = elements.weights + products * from * to;
  double read = elements.all() - elements.weights + products * from * to;
  if (!fused) {
    transformed += elements.input + elements.output + products * places * (from + to);
    read = products * (places * (from + to) + from * to);
  }
  const Time product = product_time(curve.product, spec, size, element, element * read);
  return winograd.rate * product + winograd.moved * transformed * element / (spec.memory * curve.product.memory) +
         winograd.start;
}

/// The weights' gradient splits its long k as plain products do, which forward rows cannot tell.
hardware::ProductCurve splitting(const hardware::ProductCurve& fitted) {
  hardware::ProductCurve curve;
  curve.memory = fitted.memory;
  curve.exposed = fitted.exposed;
  curve.k_start = fitted.k_start;
  curve.quantised = fitted.quantised;
  curve.slowdown = fitted.slowdown;
  curve.settle = fitted.settle;
  curve.tiles = fitted.tiles;
  for (auto& tile : curve.tiles) tile.resident = 1;
  return curve;
}

Time pass_ratio(const ConvolutionCurve& curve, ConvolutionPass pass, Time forward) {
  switch (pass) {
    case ConvolutionPass::kForward: return forward;
    case ConvolutionPass::kInputGradient: return forward * curve.input_gradient;
    case ConvolutionPass::kWeightGradient: return forward * curve.weight_gradient;
  }
  return forward;
}

bool same(const ConvolutionShape& a, const ConvolutionShape& b) {
  return a.pass == b.pass && a.in == b.in && a.out == b.out && a.groups == b.groups && a.input == b.input &&
         a.output == b.output && a.kernel == b.kernel && a.stride == b.stride && a.dilation == b.dilation;
}

}  // namespace

ProductSize implicit_product(const ConvolutionShape& shape, double batch) {
  const auto groups = static_cast<double>(shape.groups);
  const double in = static_cast<double>(shape.in) / groups;
  const double out = static_cast<double>(shape.out) / groups;
  const double taps = area(shape.kernel);
  const double produced = batch * area(shape.output);
  switch (shape.pass) {
    case ConvolutionPass::kForward: return {.products = groups, .m = produced, .n = out, .k = in * taps};
    case ConvolutionPass::kInputGradient: {
      // Every output reaches `taps` inputs: with strides an input is reached by fewer.
      const double reached = std::max(1.0, out * taps * area(shape.output) / area(shape.input));
      return {.products = groups, .m = batch * area(shape.input), .n = in, .k = reached};
    }
    case ConvolutionPass::kWeightGradient: return {.products = groups, .m = out, .n = in * taps, .k = produced};
  }
  return {};
}

Time convolution_time(const ConvolutionCurve& curve, const DeviceSpec& spec, const ConvolutionShape& shape,
                      double batch, DataSize element) {
  const Elements elements = elements_of(shape, batch);
  const ProductSize size = implicit_product(shape, batch);
  const DataSize moved = element * elements.all();
  const bool weights = shape.pass == ConvolutionPass::kWeightGradient;
  Time best = weights ? product_time(splitting(curve.product), spec, size, element, moved)
                      : product_time(curve.product, spec, size, element, moved);
  if (minimal_filtering(shape)) {
    for (const auto* winograd : {&curve.winograd2, &curve.winograd4}) {
      if (winograd->rate > 0) best = min(best, winograd_time(curve, *winograd, spec, shape, batch, element));
    }
  }
  const auto narrow = static_cast<double>(std::min(shape.in, shape.out)) / static_cast<double>(shape.groups);
  if (shape.groups > 1 && narrow <= kDepthwise) best = min(best, moved / (spec.memory * kDepthwiseBandwidth));
  return pass_ratio(curve, shape.pass, best);
}

std::optional<ConvolutionAnswer> measured_convolution(std::span<const MeasuredConvolution> table,
                                                      const ConvolutionCurve* curve, const DeviceSpec& spec,
                                                      Precision precision, const ConvolutionShape& shape,
                                                      double batch) {
  const MeasuredConvolution* nearest = nullptr;
  double least = 0;
  for (const MeasuredConvolution& row : table) {
    if (row.precision != precision || !same(row.shape, shape)) continue;
    const auto measured = static_cast<double>(row.batch);
    const double away = std::max(measured / batch, batch / measured);
    if (nearest == nullptr || away < least) {
      nearest = &row;
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
