// What was measured on a GPU, as curves: hardware/calibration/*.yaml in memory. The equations are in the headers of
// each curve (cost/product_time.h, cost/convolution_time.h, cost/sweep_time.h), the fit in calib/.
//
// Rates are shares of the datasheet's, so that a what-if on the datasheet (more bandwidth, a higher clock, more
// multiprocessors) moves the curves with it, and a profile can stand in for a GPU of the same architecture that nobody
// measured (which the answer marks as extrapolated).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ddlsim/hardware/gpu.h"
#include "ddlsim/primitives/kernel.h"
#include "ddlsim/support/precision.h"
#include "ddlsim/support/units.h"

namespace ddlsim::hardware {

/// The datasheet's part of a curve's equation, for one precision.
struct DeviceSpec {
  double multiprocessors = 1;
  ComputeRate peak{};
  Bandwidth memory{};
  DataSize l2{};
};

/// The peak of a precision the GPU does not have is 0.
[[nodiscard]] DeviceSpec device_spec(const Gpu& gpu, Precision precision);

/// How a curve did on rows its fit never saw, and what it may be asked. Errors compare whole measurements: what the
/// measurement itself adds is in both.
struct CurveReport {
  std::int64_t fitted = 0;  // rows
  std::int64_t held_out = 0;
  double mean = 0;  // of |predicted / measured - 1| over the rows held out
  double median = 0;
  double p95 = 0;
  double worst = 0;
  double bias = 0;                           // mean of predicted / measured - 1
  double coverage = 0;                       // of `interval`, over the rows held out
  std::pair<double, double> interval{1, 1};  // measured / predicted: 90 % of rows lie between
  /// Rows held out that show the kernel, and not only the measurement's floor, and their `mean`.
  std::int64_t above_floor = 0;
  double above_floor_mean = 0;
  struct Range {
    std::string feature;  // "m", "bytes"
    double least = 0;
    double most = 0;
  };
  std::vector<Range> hull;  // of the rows fitted
  struct StandardError {
    std::string parameter;
    double relative = 0;  // to the parameter's value
  };
  std::vector<StandardError> standard_errors;
  std::string measured;  // where the rows come from: data set, harness, clocks where known
};

/// C[m, n] = A[m, k] B[k, n], `products` times, batch included.
struct ProductSize {
  double products = 1;
  double m = 1;
  double n = 1;
  double k = 1;
};

/// cost/product_time.h
struct ProductCurve {
  struct Tile {
    double m = 128;
    double n = 128;
    double efficiency = 0.8;  // of a multiprocessor's peak once it is full, k_start apart
    double resident = 1;      // tiles a multiprocessor needs to be full
  };
  Precision precision = Precision::kFp32;
  bool batched = false;     // of products that come many at once: libraries choose among other tiles for them
  Time overhead{};          // of the measurement: in every measured row, in no prediction of a step
  Time floor{};             // of the measurement likewise: no row is measured below it
  double memory = 0.8;      // share of the memory's bandwidth
  double left = 1;          // how many times as long the left operand's bytes take
  double exposed = 0.2;     // share of the shorter of computing and moving that the longer does not hide
  double k_start = 8;       // what filling and emptying a tile takes, in steps of k
  double quantised = 0.7;   // share of a last wave's empty places that costs like full ones
  Time split_start{};       // of the kernel that sums the parts of a split k
  double split_passes = 2;  // of the parts through memory
  double slowdown = 0;      // how much longer work takes once clocks have settled under load
  Time settle{};            // the length of kernel at which half of that is reached
  double far_k = 8192;      // rows of k longer than this slow tiles down,
  double far = 0;           // by this share per doubling
  std::vector<Tile> tiles;
  CurveReport report;
};

/// What a way of measuring does to kernels: it shows max(floor, overhead + the kernel's time).
struct MeasuringOverhead {
  std::string series;  // rows measured the same way
  Time overhead{};
  Time floor{};
};

/// cost/sweep_time.h
struct SweepCurve {
  primitives::SweepKind kind = primitives::SweepKind::kElementwise;
  std::int64_t row_from = 0;                      // rows of this length and longer, up to the next curve of the kind
  std::vector<std::pair<double, double>> hinges;  // from this multiple of the L2, time grows by this share of
                                                  // 1/bandwidth more (less: negative)
  std::vector<std::pair<std::int64_t, double>> lengths;  // rows of this length and longer take this many times as long
  Time per_row{};                                        // of one multiprocessor, for every row
  std::vector<MeasuringOverhead> overheads;              // in every measured row, in no prediction of a step
  CurveReport report;
};

/// cost/convolution_time.h
struct ConvolutionCurve {
  /// Winograd's minimal filtering in one kernel.
  struct Fused {
    double efficiency = 0;  // of a multiprocessor's peak, in the arithmetic that is left; 0: not used
    double k_start = 20;    // what filling and emptying a block takes, in channels
    double moved = 1.5;     // passes over the weights before and after their transform
  };
  /// The same as products between kernels that transform.
  struct Transformed {
    double k_start = 8;
    double moved = 2;                       // passes over inputs and outputs, before and after their transforms
    double weights = 4;                     // likewise over the weights
    Time start{};                           // of its further kernels
    std::vector<ProductCurve::Tile> tiles;  // none: not used
  };
  Precision precision = Precision::kFp32;
  ProductCurve product{};   // the implicit matrix product; its overhead and floor are those of the rows
  Time drift{};             // of the overhead: times order^1.5, the rows that were measured before
  Fused winograd2{};        // F(2 x 2, 3 x 3)
  Transformed winograd4{};  // F(4 x 4, 3 x 3), F(2 x 2, 5 x 5)
  // Times relative to the products' of cost/convolution_time.h. Where a fit saw no gradients these stand: the geometric
  // means of what the fp32 rows of DeepBench's T4 and V100 ask for.
  std::int64_t gradient_rows = 0;  // that a fit saw
  double input_gradient = 1;
  double strided_gradient = 1.7;  // the input's, of strides
  double weight_gradient = 1.1;
  double weight_start = 330;  // steps of k that a part of the weights' gradient takes to be added up
  double weight_winograd = 0.72;
  CurveReport report;
};

/// A convolution that was measured at exactly this shape and batch.
struct MeasuredConvolution {
  Precision precision = Precision::kFp32;
  primitives::ConvolutionShape shape{};
  std::int64_t batch = 1;
  Time time{};
};

/// The order of a profile's table, in which a shape is found by halving.
struct ByShape {
  bool operator()(const MeasuredConvolution& a, const MeasuredConvolution& b) const {
    return std::tie(a.precision, a.shape) < std::tie(b.precision, b.shape);
  }
};

struct GpuProfile {
  std::string id;                                          // the file's name
  std::string gpu;                                         // of hardware/gpus
  std::string date;                                        // of the fit
  std::vector<ProductCurve> products;                      // by precision
  std::vector<ConvolutionCurve> convolutions;              // by precision
  std::vector<MeasuredConvolution> measured_convolutions;  // ByShape
  std::vector<SweepCurve> sweeps;                          // by kind, then row_from
  std::optional<Time> launch_interval;
  std::string notes;
};

}  // namespace ddlsim::hardware
