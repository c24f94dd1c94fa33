// What is measured: the points of every bench, in random but seeded order. Host only.
//
//   launches      an event, an empty kernel, a graph; on the GPU and on the CPU
//   streams       copy, triad, GELU, Adam, look-up, pooling, batch norm: 4 KB to 2 GB by sqrt 2, by 2^(1/4) near the L2
//   rows          softmax and layer norm: rows 1 to 64 Ki of 64 to 16 Ki elements
//   gemms         see plan_gemms.h
//   convolutions  ResNet-50, VGG-16 and depthwise shapes, three passes
//   copies, collectives, overlap, host
// A GPU's numbers decide the dense part of the streams and the waves of GEMMs and overlaps.
#pragma once

#include <cmath>

#include "options.h"
#include "plan_gemms.h"
#include "point.h"

namespace ddlsim::measure {

inline double spread(double from, double step, int i) { return from * std::pow(step, i); }

/// Sizes in bytes.
inline std::vector<std::int64_t> stream_sizes(const Device& device, bool dense_too, bool quick) {
  std::vector<std::int64_t> sizes;
  const double step = quick ? 2.0 : std::sqrt(2.0);
  const double most = std::min(2147483648.0, 0.2 * static_cast<double>(device.memory));
  for (int i = 0; spread(4096, step, i) <= most * 1.001; ++i) sizes.push_back(std::llround(spread(4096, step, i)));
  if (!dense_too) return sizes;
  const double dense = quick ? std::sqrt(2.0) : std::pow(2.0, 0.25);
  const auto l2 = static_cast<double>(device.l2);
  for (int i = 0; spread(l2 / 4, dense, i) <= l2 * 8.001; ++i) sizes.push_back(std::llround(spread(l2 / 4, dense, i)));
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

/// A kernel of the streams; `streams` arrays of one size are read or written.
struct StreamKernel {
  const char* what;
  const char* kind;
  int streams;
  bool half;   // fp16 as well
  bool dense;  // near the L2
  bool extra;  // not for the fit: nothing asks for it, or libraries have other kernels
};

inline constexpr StreamKernel kStreamKernels[] = {
    {"copy", "copy", 2, true, true, false},         {"triad", "elementwise", 3, true, true, false},
    {"gelu", "elementwise", 2, true, false, false}, {"adam", "update", 7, false, false, false},
    {"gather", "lookup", 2, false, false, false},   {"max2x2", "pool", 5, true, false, true},
    {"stats", "batchnorm", 3, true, false, true},   {"read", "read", 1, true, false, true},
    {"write", "write", 1, true, false, true},
};

inline void add_streams(const StreamKernel& kernel, const std::string& precision, const Device& device, bool quick,
                        std::vector<Point>& points) {
  std::int64_t before = 0;
  for (const std::int64_t size : stream_sizes(device, kernel.dense, quick)) {
    // Arrays of whole 4 KB, so that every kernel reads 16 bytes a thread without a tail.
    const std::int64_t array = std::max<std::int64_t>(1, size / kernel.streams / 4096) * 4096;
    if (array == before) continue;
    before = array;
    Point point;
    point.bench = "streams";
    point.what = kernel.what;
    point.op = "memory_bound";
    point.kind = kernel.kind;
    point.precision = precision;
    point.bytes = array * kernel.streams;
    point.extra = kernel.extra;
    points.push_back(point);
    point.cold = true;
    if (point.bytes <= 8 * device.l2) points.push_back(point);
  }
}

inline Block plan_streams(const std::string& precision, const Device& device, bool quick) {
  Block block{"streams " + precision, "streams", precision, 5, {}};
  for (const StreamKernel& kernel : kStreamKernels) {
    if (precision == "fp32" || kernel.half) add_streams(kernel, precision, device, quick, block.points);
  }
  return block;
}

inline Block plan_rows(const std::string& precision, const Device& device, bool quick) {
  Block block{"rows " + precision, "rows", precision, 4, {}};
  for (std::int64_t rows = 1; rows <= 65536; rows *= quick ? 16 : 4) {
    for (const std::int64_t length : {64, 128, 256, 512, 768, 1024, 1536, 2048, 4096, 8192, 16384}) {
      const std::int64_t bytes = 2 * rows * length * element_size(precision);
      if (bytes > std::min<std::int64_t>(std::int64_t{2} << 30, device.memory / 5)) continue;
      for (const char* kind : {"softmax", "norm"}) {
        Point point;
        point.bench = "rows";
        point.what = kind;
        point.op = "memory_bound";
        point.kind = kind;
        point.precision = precision;
        point.bytes = bytes;
        point.row = length;
        point.extra = true;  // this program's kernels: libraries' are others
        block.points.push_back(point);
      }
    }
  }
  return block;
}

/// in, out, size, kernel, stride, groups
using ConvolutionShape = std::vector<std::int64_t>;

inline const std::vector<ConvolutionShape>& convolution_shapes() {
  static const std::vector<ConvolutionShape> shapes = {
      // ResNet-50 (He et al. 2015, table 1; stride on the 3x3)
      {3, 64, 224, 7, 2, 1},
      {64, 64, 56, 1, 1, 1},
      {64, 64, 56, 3, 1, 1},
      {64, 256, 56, 1, 1, 1},
      {256, 64, 56, 1, 1, 1},
      {256, 128, 56, 1, 1, 1},
      {128, 128, 56, 3, 2, 1},
      {128, 512, 28, 1, 1, 1},
      {256, 512, 56, 1, 2, 1},
      {512, 128, 28, 1, 1, 1},
      {128, 128, 28, 3, 1, 1},
      {512, 256, 28, 1, 1, 1},
      {256, 256, 28, 3, 2, 1},
      {256, 1024, 14, 1, 1, 1},
      {512, 1024, 28, 1, 2, 1},
      {1024, 256, 14, 1, 1, 1},
      {256, 256, 14, 3, 1, 1},
      {1024, 512, 14, 1, 1, 1},
      {512, 512, 14, 3, 2, 1},
      {512, 2048, 7, 1, 1, 1},
      {1024, 2048, 14, 1, 2, 1},
      {2048, 512, 7, 1, 1, 1},
      {512, 512, 7, 3, 1, 1},
      // VGG-16 (Simonyan and Zisserman 2014, table 1, D)
      {3, 64, 224, 3, 1, 1},
      {64, 64, 224, 3, 1, 1},
      {64, 128, 112, 3, 1, 1},
      {128, 128, 112, 3, 1, 1},
      {128, 256, 56, 3, 1, 1},
      {256, 256, 56, 3, 1, 1},
      {256, 512, 28, 3, 1, 1},
      {512, 512, 28, 3, 1, 1},
      {512, 512, 14, 3, 1, 1},
      // Depthwise, as in MobileNet-v2 (Sandler et al. 2018, table 2), and a ViT's patches
      {96, 96, 112, 3, 2, 96},
      {144, 144, 56, 3, 1, 144},
      {384, 384, 14, 3, 1, 384},
      {960, 960, 7, 3, 1, 960}};
  return shapes;
}

inline void add_passes(Convolution conv, const std::string& precision, std::vector<Point>& points) {
  for (const char* pass : {"forward", "input-gradient", "weight-gradient"}) {
    if (conv.in == 3 && std::string(pass) == "input-gradient") continue;  // nobody asks for an image's gradient
    Point point;
    point.bench = "convolutions";
    point.what = conv.channels_last ? "nhwc" : "nchw";
    point.op = "convolution";
    point.kind = pass;
    point.precision = precision;
    point.conv = conv;
    // The fit's rows have their kernels' own layout (what turning images costs is software's), and kernels that
    // frameworks run: cuDNN's depthwise ones in fp16 alone.
    const bool native = conv.channels_last == (element_size(precision) == 2);
    point.extra = !native || (conv.groups > 1 && precision != "fp16");
    points.push_back(point);
  }
}

inline Block plan_convolutions(const std::string& precision, bool quick) {
  Block block{"convolutions " + precision, "convolutions", precision, 4, {}};
  const bool half = element_size(precision) == 2;
  for (const ConvolutionShape& s : convolution_shapes()) {
    for (const std::int64_t batch : quick ? std::vector<std::int64_t>{32} : std::vector<std::int64_t>{16, 64}) {
      Convolution conv{batch, s[0], s[1], s[5], s[2], s[3], s[4], false};
      add_passes(conv, precision, block.points);
      conv.channels_last = true;
      if (half) add_passes(conv, precision, block.points);
    }
  }
  return block;
}

inline Point simple_point(const char* bench, const char* what, const char* op, const char* kind, std::int64_t bytes) {
  Point point;
  point.bench = bench;
  point.what = what;
  point.op = op;
  point.kind = kind;
  point.bytes = bytes;
  return point;
}

inline Block plan_launches() {
  Block block{"launches", "launches", "", 1, {}};
  block.points.push_back(simple_point("launches", "launch", "launch", "", 0));
  for (const char* what : {"event", "gated", "cpu", "graph", "graph-cpu", "round-trip", "cublas-cpu"}) {
    block.points.push_back(simple_point("launches", what, "launch", what, 0));
    block.points.back().extra = true;
  }
  return block;
}

inline Block plan_copies(const Device& device, bool quick) {
  Block block{"copies", "copies", "", 3, {}};
  for (std::int64_t bytes = 1024; bytes <= std::int64_t{512} << 20; bytes *= quick ? 16 : bytes < 65536 ? 4 : 2) {
    for (const char* kind : {"h2d", "d2h", "d2d"}) {
      block.points.push_back(simple_point("copies", "pinned", "copy", kind, bytes));
    }
    for (const char* kind : {"h2d", "d2h"}) {
      block.points.push_back(simple_point("copies", "pageable", "copy", kind, bytes));
      block.points.back().extra = true;
    }
    block.points.push_back(simple_point("copies", "both-ways", "copy", "both", bytes));
    block.points.back().extra = true;
    if (device.gpus < 2) continue;
    block.points.push_back(simple_point("copies", "peer", "copy", "p2p", bytes));
    block.points.back().extra = true;
  }
  return block;
}

inline Block plan_collectives(const Device& device, bool quick) {
  Block block{"collectives", "collectives", "", 8, {}};
  if (device.gpus < 2) return block;
  std::vector<std::int64_t> sizes;
  for (std::int64_t bytes = 8; bytes <= std::int64_t{1} << 30; bytes *= quick ? 8 : 2) {
    sizes.push_back(bytes);
    if (!quick && bytes >= 4096 && bytes < (4 << 20)) sizes.push_back(bytes + bytes / 2);  // protocols change here
  }
  for (const char* kind : {"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "send-receive"}) {
    for (const std::int64_t bytes : sizes) {
      // Whole elements for every GPU.
      const std::int64_t unit = 4 * device.gpus;
      block.points.push_back(
          simple_point("collectives", "nccl", "collective", kind, std::max<std::int64_t>(1, bytes / unit) * unit));
      block.points.back().extra = true;
    }
  }
  return block;
}

/// A GEMM of `waves` times the multiprocessors' tiles of 128 x 128, or a triad, beside blocks that hold `taken`.
inline Block plan_overlap(const Device& device, bool quick) {
  Block block{"overlap", "overlap", "bf16", 4, {}};
  if (device.capability < 80) block.precision = "fp16";
  const std::vector<double> waves =
      quick ? std::vector<double>{1.0, 8.0} : std::vector<double>{0.9, 1.0, 1.1, 2.0, 8.0};
  for (const std::int64_t taken : {0, 2, 4, 8, 16, 24, 32}) {
    if (taken * 2 > device.multiprocessors) continue;
    for (const double wave : waves) {
      const auto tiles = std::max<std::int64_t>(1, std::llround(wave * static_cast<double>(device.multiprocessors)));
      Point point = simple_point("overlap", "", "overlap", "gemm", 0);
      point.precision = block.precision;
      // As square as its tiles allow.
      auto across = static_cast<std::int64_t>(std::sqrt(static_cast<double>(tiles)));
      while (tiles % across != 0) --across;
      point.m = tiles / across * 128;
      point.n = across * 128;
      point.k = 4096;
      point.taken = taken;
      point.what =
          "overlap " + number(wave) + " waves, " + std::to_string(point.m) + "x" + std::to_string(point.n) + "x4096";
      block.points.push_back(point);
    }
    Point triad = simple_point("overlap", "overlap triad", "overlap", "memory_bound", std::int64_t{384} << 20);
    triad.precision = "fp32";
    triad.taken = taken;
    block.points.push_back(triad);
  }
  for (const char* kind : {"h2d", "d2h", "d2d"}) {
    block.points.push_back(simple_point("overlap", "triad-beside-copy", "overlap", kind, std::int64_t{384} << 20));
    block.points.back().extra = true;
  }
  return block;
}

inline Block plan_host(std::int64_t cores) {
  Block block{"host", "host", "", 2, {}};
  for (const char* kind : {"memcpy", "sum", "adam"}) {
    for (std::int64_t bytes = 16 << 20; bytes <= (256 << 20); bytes *= 16) {
      for (const std::int64_t threads : {std::int64_t{1}, std::max<std::int64_t>(1, cores / 2), cores}) {
        Point point = simple_point("host", "host", "host", kind, bytes);
        point.threads = std::max<std::int64_t>(1, threads);
        point.extra = true;
        if (!block.points.empty() && block.points.back().keys() == point.keys()) continue;
        block.points.push_back(point);
      }
    }
  }
  return block;
}

/// Rough, for the plan's length and the time left: half the datasheet's rates.
inline double expected_seconds(const Point& point, const Device& device) {
  const bool tensor = !point.precision.empty() && point.precision != "fp32";
  const double per_clock = !tensor ? 256 : device.capability >= 90 ? 4096 : device.capability == 80 ? 2048 : 1024;
  const double tf32 = point.precision == "tf32" ? 0.5 : 1;
  const double peak = static_cast<double>(device.multiprocessors) * device.clock * per_clock * tf32;
  double memory = device.bandwidth;
  if (point.op == "copy" || point.op == "collective" || point.op == "host") memory = 2e10;
  return 4e-6 + std::max(point.flops() / peak, point.traffic() / memory) / 0.5;
}

/// Everything that `options` wants, empty blocks left out.
inline std::vector<Block> make_plan(const Options& options, const Device& device, std::int64_t cores) {
  std::vector<Block> all;
  all.push_back(plan_launches());
  for (const char* precision : {"fp32", "fp16"}) all.push_back(plan_streams(precision, device, options.quick));
  for (const char* precision : {"fp32", "fp16"}) all.push_back(plan_rows(precision, device, options.quick));
  for (const char* precision : {"fp32", "tf32", "fp16", "bf16"}) {
    const bool known =
        device.capability >= 80 || (precision != std::string("tf32") && precision != std::string("bf16"));
    if (!known) continue;
    all.push_back(plan_gemms(precision, device, options.quick, options.seed));
    all.push_back(plan_convolutions(precision, options.quick));
  }
  all.push_back(plan_copies(device, options.quick));
  all.push_back(plan_overlap(device, options.quick));
  all.push_back(plan_collectives(device, options.quick));
  all.push_back(plan_host(cores));
  std::vector<Block> plan;
  std::uint64_t salt = 0;
  for (Block& block : all) {
    Random random(options.seed * 1000 + ++salt);
    if (block.bench != "overlap")
      random.shuffle(block.points);  // overlap: the kernel alone comes before it is disturbed
    if (!block.points.empty() && options.wants(block.bench)) plan.push_back(block);
  }
  return plan;
}

}  // namespace ddlsim::measure
