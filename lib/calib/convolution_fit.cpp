#include "ddlsim/calib/convolution_fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ddlsim/cost/convolution_time.h"
#include "row_fit.h"
#include "tile_search.h"

namespace ddlsim::calib {
namespace {

using hardware::ConvolutionCurve;
using hardware::DeviceSpec;
using hardware::ProductSize;

constexpr double kScale = 0.15;  // of residuals: the choice among algorithms is not the model's to know

Expected<void> check(std::span<const ConvolutionRow> rows, const DeviceSpec& spec) {
  const auto bad = [](std::string what) { return fail(ErrorCode::kInvalidArgument, std::move(what)); };
  if (auto sound = check_spec(spec); !sound) return sound;
  std::set<std::uint64_t> shapes;
  std::size_t forward = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const ConvolutionShape& s = rows[i].shape;
    for (const std::int64_t x : {rows[i].batch, s.in, s.out, s.groups, s.input[0], s.input[1], s.output[0], s.output[1],
                                 s.kernel[0], s.kernel[1], s.stride[0], s.stride[1], s.dilation[0], s.dilation[1]}) {
      if (x < 1) return bad("row " + std::to_string(i + 1) + ": a size is not at least 1");
    }
    const double time = rows[i].time.in(seconds);
    if (!std::isfinite(time) || time <= 0) return bad("row " + std::to_string(i + 1) + ": the time is not positive");
    if (s.pass != ConvolutionPass::kForward) continue;
    ++forward;
    shapes.insert(shape_hash(shape_of(rows[i], 0)));
  }
  if (auto enough = check_count(forward, "forward convolutions"); !enough) return enough;
  if (shapes.size() < 2) return bad("all forward rows have one shape: a one-point curve; a fit needs several");
  return {};
}

/// Of the two Winograd algorithms, after the product's.
std::vector<Parameter> parameters_of(double least_time) {
  std::vector<Parameter> all = product_parameters(least_time);
  // A library that chooses an algorithm takes its time, so that most rows have more overhead than the fastest.
  all.front() = in_logarithm({least_time * 1e-2, least_time, least_time * 1.5});
  for (int algorithm = 0; algorithm < 2; ++algorithm) {
    all.push_back(in_logarithm({0.3, 1, 5}));         // rate
    all.push_back(in_logarithm({0.1, 1, 8}));         // moved
    all.push_back(in_logarithm({1e-7, 5e-6, 2e-5}));  // start: of up to three kernels
  }
  return all;
}

ConvolutionCurve curve_at(const std::vector<double>& x, const std::vector<Tile>& tiles, Precision precision) {
  ConvolutionCurve curve;
  curve.precision = precision;
  curve.product.precision = precision;
  const std::size_t shared = parameters_of(1).size();
  put_parameters(x, shared, tiles, curve.product);
  curve.product.far = 0;  // k runs over channels or over pixels, never along one long row
  std::size_t i = shared - 6;
  for (auto* winograd : {&curve.winograd2, &curve.winograd4}) {
    winograd->rate = e_to(x[i++]);
    winograd->moved = e_to(x[i++]);
    winograd->start = seconds(e_to(x[i++]));
  }
  return curve;
}

bool is_forward(const ConvolutionRow& row) { return row.shape.pass == ConvolutionPass::kForward; }

/// The median of what rows of this pass took, overhead apart, relative to the curve.
double ratio_of(const ConvolutionCurve& curve, const DeviceSpec& spec, const std::vector<ConvolutionRow>& rows,
                ConvolutionPass pass) {
  std::vector<double> ratios;
  for (const ConvolutionRow& row : rows) {
    const Time net = row.time - curve.product.overhead;
    if (row.shape.pass != pass || net <= Time::zero() || row.time <= curve.product.floor) continue;
    const auto batch = static_cast<double>(row.batch);
    ratios.push_back(net / cost::convolution_time(curve, spec, row.shape, batch, activation_size(curve.precision)));
  }
  return ratios.empty() ? 1 : quantile(std::move(ratios), 0.5);
}

struct Fitted {
  ConvolutionCurve curve;
  TileFit tiles;
};

/// Fits to rows, which have an order by now: with tiles of the options, or with those of `from` where there. Requires
/// a forward row.
Fitted fit_to(const std::vector<ConvolutionRow>& rows, const DeviceSpec& spec, Precision precision,
              const ProductFitOptions& options, const TileFit* from) {
  std::vector<ConvolutionRow> seen = rows_where(std::span<const ConvolutionRow>(rows), is_forward);
  const auto most = static_cast<std::size_t>(std::max<std::int64_t>(options.most_rows, 1));
  if (seen.size() > most) seen.resize(most);
  const LogTimes times = log_times(seen);
  TileProblem problem;
  problem.shared = parameters_of(times.least);
  problem.rows = seen.size();
  problem.scale = kScale;
  problem.residuals = [&](const std::vector<double>& x, const std::vector<Tile>& tiles, std::vector<double>& out) {
    const ConvolutionCurve tried = curve_at(x, tiles, precision);
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = ln(as_measured(tried, spec, seen[i].shape, seen[i].batch).in(seconds)) - times.logs[i];
    }
  };
  Fitted fitted;
  fitted.tiles = from != nullptr ? refitted(problem, *from) : best_tiles(problem, options.tiles);
  fitted.curve = curve_at(fitted.tiles.result.x, fitted.tiles.tiles, precision);
  fitted.curve.input_gradient = ratio_of(fitted.curve, spec, rows, ConvolutionPass::kInputGradient);
  fitted.curve.weight_gradient = ratio_of(fitted.curve, spec, rows, ConvolutionPass::kWeightGradient);
  return fitted;
}

}  // namespace

std::vector<std::int64_t> shape_of(const ConvolutionRow& row, std::int64_t salt) {
  const ConvolutionShape& shape = row.shape;
  return {salt,
          static_cast<std::int64_t>(shape.pass),
          row.batch,
          shape.in,
          shape.out,
          shape.groups,
          shape.input[0],
          shape.input[1],
          shape.output[0],
          shape.output[1],
          shape.kernel[0],
          shape.kernel[1],
          shape.stride[0],
          shape.stride[1],
          shape.dilation[0],
          shape.dilation[1]};
}

ProductSize size_of(const ConvolutionRow& row) {
  return cost::implicit_product(row.shape, static_cast<double>(row.batch));
}

bool held_out(const ConvolutionShape& shape, std::int64_t batch) {
  return fold_of_row(ConvolutionRow{shape, batch, {}}) == kReportFold;
}

Time as_measured(const ConvolutionCurve& curve, const DeviceSpec& spec, const ConvolutionShape& shape,
                 std::int64_t batch) {
  const Time net =
      cost::convolution_time(curve, spec, shape, static_cast<double>(batch), activation_size(curve.precision));
  return max(curve.product.floor, curve.product.overhead + net);
}

Expected<ConvolutionCurve> fit_convolutions(std::span<const ConvolutionRow> rows, const DeviceSpec& spec,
                                            Precision precision, const ProductFitOptions& options) {
  if (auto sound = check(rows, spec); !sound) return tl::unexpected<Error>(sound.error());
  ProductFitOptions search = options;
  if (search.tiles.empty()) search.tiles = candidate_tiles(precision);
  const auto out = [](const ConvolutionRow& row) { return held_out(row.shape, row.batch); };
  const std::vector<ConvolutionRow> judged = rows_where(rows, out);
  const auto fitted = shuffled<ConvolutionRow>(rows_where(rows, std::not_fn(out)));
  if (std::none_of(fitted.begin(), fitted.end(), is_forward)) {
    return fail(ErrorCode::kInvalidArgument, "all forward rows are held out; a fit needs more shapes");
  }
  Fitted best = fit_to(fitted, spec, precision, search, nullptr);
  const bool anew = fitted.size() < kFewRows;
  best.curve.report = report_of(
      best.curve, fitted, judged,
      [&](const std::vector<ConvolutionRow>& some) {
        const bool forward = std::any_of(some.begin(), some.end(), is_forward);
        return forward ? fit_to(some, spec, precision, search, anew ? nullptr : &best.tiles).curve : best.curve;
      },
      [&](const ConvolutionCurve& curve, const ConvolutionRow& row) {
        const Time kernel =
            cost::convolution_time(curve, spec, row.shape, static_cast<double>(row.batch), activation_size(precision));
        return Judged{kernel.in(seconds), row.time.in(seconds), curve.product.overhead.in(seconds),
                      curve.product.floor.in(seconds)};
      });
  best.curve.report.measured = options.measured;
  return best.curve;
}

}  // namespace ddlsim::calib
