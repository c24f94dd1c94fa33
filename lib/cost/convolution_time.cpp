#include "ddlsim/cost/convolution_time.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ddlsim/cost/gemm_time.h"

namespace ddlsim::cost {
namespace {

using hardware::ConvolutionCurve;
using hardware::DeviceSpec;
using hardware::GemmSize;
using hardware::MeasuredConvolution;

constexpr double kDepthwise = 4;             // channels per group, at most
constexpr double kDepthwiseBandwidth = 0.5;  // assumed: share of the memory's bandwidth that such kernels reach
constexpr double kMostSplitsOfK = 256;       // of the long k of a weights' gradient

constexpr std::int64_t kTensorChannels = 8;  // tensor cores take channels by so many
constexpr double kTensorBytes = 4;           // of elements narrower than this

// F(2 x 2, 3 x 3) in one kernel: a block makes 8 x 16 outputs of 32 channels, so that its 32 places are multiplied in
// 16 GEMMs of 32 x 32.
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
  [[nodiscard]] double activations() const { return input + output; }
  [[nodiscard]] double all() const { return activations() + weights; }
};

/// A convolution with what all of its algorithms ask for.
struct Request {
  const ConvolutionCurve& curve;
  const DeviceSpec& spec;
  const primitives::ConvolutionShape& shape;
  double batch = 1;
  DataSize element{};
  Elements elements{};
  // The input's gradient is the convolution of the output's gradient with the weights turned around.
  double channels_in = 1;
  double channels_out = 1;
  std::array<std::int64_t, 2> produced{};

  [[nodiscard]] Time moving(double moved) const {
    return moved * element / (spec.memory * curve.implicit_gemm.memory_efficiency);
  }
};

Request request_of(const ConvolutionCurve& curve, const DeviceSpec& spec, const primitives::ConvolutionShape& shape,
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
          .channels_in = back ? out : in,
          .channels_out = back ? in : out,
          .produced = back ? shape.input : shape.output};
}

bool is_strided(const primitives::ConvolutionShape& shape) { return shape.stride[0] != 1 || shape.stride[1] != 1; }

/// Whether Winograd's algorithms know this kernel: 0, 3 or 5.
std::int64_t winograd_taps(const primitives::ConvolutionShape& shape) {
  const bool dilated = shape.dilation[0] != 1 || shape.dilation[1] != 1;
  const std::int64_t taps = shape.kernel[0];
  const bool known = (taps == 3 || taps == 5) && shape.kernel[1] == taps;
  return known && !is_strided(shape) && !dilated && shape.groups == 1 ? taps : 0;
}

Time fused_time(const Request& request) {
  const auto& fused = request.curve.winograd_fused;
  const hardware::GemmCurve::Tile tile{
      .m = kBlockRows, .n = kBlockChannels, .efficiency = fused.efficiency, .tiles_to_fill = 1};
  const GemmSize size{.m = kBlockRows * request.batch * blocks(request.produced, kBlock),
                      .n = request.channels_out,
                      .k = request.channels_in};
  const double weights = request.channels_in * request.channels_out;
  const Time gemm =
      gemm_time(request.curve.implicit_gemm, {.tiles = {&tile, 1}, .prologue_steps = fused.prologue_steps},
                request.spec, size, request.element * (request.elements.activations() + 16 * weights));
  return gemm + request.moving(fused.weight_passes * (9 + 16) * weights);
}

/// 36 GEMMs of the transformed places.
Time nonfused_time(const Request& request, std::int64_t taps) {
  const auto& nonfused = request.curve.winograd_nonfused;
  const std::int64_t side = 7 - taps;
  const double places = request.batch * blocks(request.produced, {side, side});
  const bool weights_gradient = request.shape.pass == primitives::ConvolutionPass::kWeightGradient;
  GemmSize size{.batch_count = 36, .m = places, .n = request.channels_out, .k = request.channels_in};
  if (weights_gradient) size = {.batch_count = 36, .m = request.channels_out, .n = request.channels_in, .k = places};
  const double ends = 36 * places * (request.channels_in + request.channels_out);
  const double weights = request.channels_in * request.channels_out;
  const Time gemm =
      gemm_time(request.curve.implicit_gemm, {.tiles = nonfused.tiles, .prologue_steps = nonfused.prologue_steps},
                request.spec, size, request.element * (ends + 36 * weights));
  const double taps_and_gemms = static_cast<double>(taps * taps + 36);
  const Time time = gemm + nonfused.extra_launches +
                    request.moving(nonfused.activation_passes * (request.elements.activations() + ends) +
                                   nonfused.weight_passes * taps_and_gemms * weights);
  return weights_gradient ? request.curve.weight_winograd * time : time;
}

/// How many more input channels the arithmetic sees than there are.
double padding(const Request& request) {
  if (request.element.in(bytes) >= kTensorBytes) return 1;
  const std::int64_t channels = request.shape.in / request.shape.groups;
  const std::int64_t padded = (channels + kTensorChannels - 1) / kTensorChannels * kTensorChannels;
  return static_cast<double>(padded) / static_cast<double>(std::max<std::int64_t>(channels, 1));
}

Time implicit_time(const Request& request) {
  const ConvolutionCurve& curve = request.curve;
  const double padded = padding(request);
  GemmSize size = implicit_gemm(request.shape, request.batch);
  const DataSize moved =
      request.element * (padded * (request.elements.input + request.elements.weights) + request.elements.output);
  GemmVariant variant{.tiles = curve.implicit_gemm.tiles, .prologue_steps = curve.implicit_gemm.prologue_steps};
  switch (request.shape.pass) {
    case primitives::ConvolutionPass::kForward: size.k *= padded; break;
    case primitives::ConvolutionPass::kInputGradient: break;
    case primitives::ConvolutionPass::kWeightGradient:
      size.n *= padded;
      variant.prologue_steps = curve.implicit_gemm.prologue_steps + curve.weight_reduction_steps;
      variant.most_splits = kMostSplitsOfK;
      variant.either_orientation = true;
      return gemm_time(curve.implicit_gemm, variant, request.spec, size, moved) * curve.weight_gradient;
  }
  return gemm_time(curve.implicit_gemm, variant, request.spec, size, moved);
}

}  // namespace

GemmSize implicit_gemm(const primitives::ConvolutionShape& shape, double batch) {
  const auto groups = static_cast<double>(shape.groups);
  const double in = static_cast<double>(shape.in) / groups;
  const double out = static_cast<double>(shape.out) / groups;
  const double taps = area(shape.kernel);
  const double produced = batch * area(shape.output);
  switch (shape.pass) {
    case primitives::ConvolutionPass::kForward: return {.batch_count = groups, .m = produced, .n = out, .k = in * taps};
    case primitives::ConvolutionPass::kInputGradient:
      if (!is_strided(shape)) {
        return {.batch_count = groups, .m = batch * area(shape.input), .n = in, .k = out * taps};
      }
      // Every output is sent to the inputs it came from.
      return {.batch_count = groups, .m = produced, .n = in * taps, .k = out};
    case primitives::ConvolutionPass::kWeightGradient:
      return {.batch_count = groups, .m = out, .n = in * taps, .k = produced};
  }
  return {};
}

ConvolutionChoice convolution_choice(const ConvolutionCurve& curve, const DeviceSpec& spec,
                                     const primitives::ConvolutionShape& shape, double batch, DataSize element) {
  const Request request = request_of(curve, spec, shape, batch, element);
  ConvolutionChoice best{implicit_time(request), 1};
  const auto offer = [&](Time time, double arithmetic) {
    if (time < best.time) best = {time, arithmetic};
  };
  if (const std::int64_t taps = winograd_taps(shape); taps > 0) {
    const bool fused =
        curve.winograd_fused.efficiency > 0 && taps == 3 && shape.pass != primitives::ConvolutionPass::kWeightGradient;
    if (fused) offer(fused_time(request), 4.0 / 9.0);
    if (!curve.winograd_nonfused.tiles.empty()) offer(nonfused_time(request, taps), taps == 3 ? 1.0 / 4.0 : 9.0 / 25.0);
  }
  const auto narrow = static_cast<double>(std::min(shape.in, shape.out)) / static_cast<double>(shape.groups);
  if (shape.groups > 1 && narrow <= kDepthwise) {
    offer(element * request.elements.all() / (spec.memory * kDepthwiseBandwidth), 1);
  }
  if (shape.pass == primitives::ConvolutionPass::kInputGradient) {
    best.time = best.time * (is_strided(shape) ? curve.strided_gradient : curve.input_gradient);
  }
  return best;
}

Time convolution_time(const ConvolutionCurve& curve, const DeviceSpec& spec, const primitives::ConvolutionShape& shape,
                      double batch, DataSize element) {
  return convolution_choice(curve, spec, shape, batch, element).time;
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
