// What was measured on a GPU, as curves: hardware/calibration/*.yaml in memory.
//
// Rates are shares of the datasheet's, so that a what-if on the datasheet (more bandwidth, a higher clock, more
// multiprocessors) moves the curves with it, and a profile can stand in for a GPU of the same architecture that nobody
// measured (which the answer marks as extrapolated).
//
// The equation of each curve: cost/gemm_time.h, cost/convolution_time.h, cost/memory_bound_time.h,
// cost/attention_time.h. Fitted by
// calib/fit.h; written to and read from hardware/calibration by io/profile_file.h (keys: hardware/README.md).
#pragma once

#include <array>
#include <cmath>
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
  std::vector<Range> fitted_ranges;  // of the rows fitted
  struct StandardError {
    std::string parameter;
    double relative = 0;  // to the parameter's value
  };
  std::vector<StandardError> standard_errors;
  std::string measured;  // where the rows come from: data set, harness, clocks where known
  /// What else was measured on such a GPU, at other clocks: how long its kernels took, as a share of what the curve
  /// says. Nobody knows which of the two a step runs at: predictions take the geometric mean of both, and their
  /// interval has both in it.
  struct AnotherRun {
    double time = 1;
    std::int64_t rows = 0;
    std::string measured;
  };
  std::optional<AnotherRun> another_run;
  /// On the curve's times, in predictions.
  [[nodiscard]] double of_all_runs() const { return another_run ? std::sqrt(another_run->time) : 1.0; }
};

/// C[m, n] = A[m, k] B[k, n], `batch_count` of them, batch included.
struct GemmSize {
  double batch_count = 1;
  double m = 1;
  double n = 1;
  double k = 1;
};

/// cost/gemm_time.h
struct GemmCurve {
  struct Tile {
    double m = 128;
    double n = 128;
    double efficiency = 0.8;   // of a multiprocessor's peak once it is full, prologue_steps apart
    double tiles_to_fill = 1;  // that a multiprocessor needs to be full
  };
  Precision precision = Precision::kFp32;
  bool batched = false;            // of GEMMs that come many at once: libraries choose among other tiles for them
  bool grouped = false;            // of experts, whose rows come sorted by expert to one kernel
  Time overhead{};                 // of the measurement: in every measured row, in no prediction of a step
  Time floor{};                    // of the measurement likewise: no row is measured below it
  double memory_efficiency = 0.8;  // share of the memory's bandwidth
  double left_operand_cost = 1;    // how many times as long the left operand's bytes take
  double left_operand_passes = 0;  // over it through memory before the product: its cast to fp8
  Time overhead_per_row{};         // of the measurement too: what its cast's search for the scale takes per row of A
  double routing_passes = 1;       // grouped: over what sorts, activates and sums rows; of measurements, not of GEMMs
  double not_overlapped = 0.2;     // share of the shorter of computing and moving that the longer does not hide
  double prologue_steps = 8;       // what filling and emptying a tile takes, in steps of k
  double partial_wave_cost = 0.7;  // share of a last wave's empty places that costs like full ones
  Time split_k_launch{};           // of the kernel that sums the parts of a split k
  double split_k_passes = 2;       // of the parts through memory
  double sustained_slowdown = 0;   // how much longer work takes once clocks have fallen under lasting load
  Time slowdown_half_time{};       // the length of kernel at which half of that is reached
  double long_k = 8192;            // rows of k longer than this slow tiles down,
  double long_k_slowdown = 0;      // by this share per doubling
  std::vector<Tile> tiles;
  CurveReport report;
};

/// What a way of measuring does to kernels: it shows max(floor, overhead + the kernel's time).
struct MeasuringOverhead {
  std::string series;  // rows measured the same way
  Time overhead{};
  Time floor{};
};

/// cost/memory_bound_time.h
struct MemoryBoundCurve {
  primitives::MemoryBoundKind kind = primitives::MemoryBoundKind::kElementwise;
  std::int64_t row_from = 0;  // rows of this length and longer, up to the next curve of the kind
  /// From this multiple of the L2 on, a byte takes this share of 1 / bandwidth more (less: negative).
  std::vector<std::pair<double, double>> slope_changes;
  /// Rows of this length and longer take this many times as long.
  std::vector<std::pair<std::int64_t, double>> row_length_factors;
  Time time_per_row{};                       // of one multiprocessor, for every row
  std::vector<MeasuringOverhead> overheads;  // in every measured row, in no prediction of a step
  CurveReport report;
};

/// cost/convolution_time.h
struct ConvolutionCurve {
  /// Winograd's minimal filtering in one kernel (cuDNN's WINOGRAD).
  struct FusedWinograd {
    double efficiency = 0;       // of a multiprocessor's peak, in the arithmetic that is left; 0: not used
    double prologue_steps = 20;  // what filling and emptying a block takes, in channels
    double weight_passes = 1.5;  // over the weights, before and after their transform
  };
  /// The same as GEMMs between kernels that transform (cuDNN's WINOGRAD_NONFUSED).
  struct NonfusedWinograd {
    double prologue_steps = 8;
    double activation_passes = 2;        // over inputs and outputs, before and after their transforms
    double weight_passes = 4;            // likewise over the weights
    Time extra_launches{};               // of its further kernels
    std::vector<GemmCurve::Tile> tiles;  // none: not used
  };
  Precision precision = Precision::kFp32;
  GemmCurve implicit_gemm{};             // its overhead and floor are those of the rows
  Time overhead_growth{};                // of the overhead: times rows_before^1.5, the rows measured before
  FusedWinograd winograd_fused{};        // F(2 x 2, 3 x 3)
  NonfusedWinograd winograd_nonfused{};  // F(4 x 4, 3 x 3), F(2 x 2, 5 x 5)
  // Times relative to the GEMMs' of cost/convolution_time.h. Where a fit saw no gradients these stand: the geometric
  // means of what the fp32 rows of DeepBench's T4 and V100 ask for.
  std::int64_t gradient_rows = 0;  // that a fit saw
  double input_gradient = 1;
  double strided_gradient = 1.7;  // the input's, of strides
  double weight_gradient = 1.1;
  double weight_reduction_steps = 330;  // steps of k that a part of the weights' gradient takes to be added up
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

/// cost/attention_time.h
struct AttentionCurve {
  struct Width {
    double width = 128;        // mean of a head's key and value width
    double rows = 128;         // of a tile: queries in the forward pass, keys in the backward pass
    double efficiency = 0.6;   // of a multiprocessor's peak once it is full
    double tiles_to_fill = 1;  // that a multiprocessor needs to be full
  };
  Precision precision = Precision::kBf16;
  primitives::AttentionPass pass = primitives::AttentionPass::kForward;
  /// What a way of measuring adds, beside its `MeasuringOverhead`: passes over keys and values, into a cache of them.
  struct Overhead {
    MeasuringOverhead adds{};
    double copied_passes = 0;
  };
  std::vector<Overhead> overheads;  // in every measured row, in no prediction of a step
  double memory_efficiency = 0.8;   // share of the memory's bandwidth
  double not_overlapped = 0.2;      // share of the shorter of computing and moving that the longer does not hide
  double prologue_steps = 64;       // what filling and emptying a tile takes, in keys
  double masked_steps = 0;          // more where a mask cuts through tiles, in keys
  double partial_wave_cost = 0.5;   // share of a last wave's empty places that costs like full ones
  double sustained_slowdown = 0;    // as of GEMMs
  Time slowdown_half_time{};        // likewise
  std::vector<Width> widths;        // rising
  CurveReport report;
};

struct GpuProfile {
  std::string id;                                          // the file's name
  std::string gpu;                                         // of hardware/gpus
  std::string date;                                        // of the fit
  std::vector<GemmCurve> gemms;                            // by precision
  std::vector<ConvolutionCurve> convolutions;              // by precision
  std::vector<MeasuredConvolution> measured_convolutions;  // ByShape
  std::vector<MemoryBoundCurve> memory_bound;              // by kind, then row_from
  std::vector<AttentionCurve> attention;                   // by precision and pass
  std::optional<Time> launch_interval;
  std::string notes;
};

}  // namespace ddlsim::hardware
