// One thing to time, and what is known of the GPU before it is timed. Host only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "json_line.h"

namespace ddlsim::measure {

/// The GPU, as far as the plan depends on it; without one, an H200 stands in.
struct Device {
  std::string name = "NVIDIA H200";
  int capability = 90;
  int gpus = 1;
  std::int64_t multiprocessors = 132;
  std::int64_t l2 = std::int64_t{60} << 20;
  std::int64_t memory = std::int64_t{141} * 1000 * 1000 * 1000;
  double bandwidth = 4.8e12;  // byte/s
  double clock = 1.98e9;      // Hz
};

struct Convolution {
  std::int64_t batch = 1;
  std::int64_t in = 1;
  std::int64_t out = 1;
  std::int64_t groups = 1;
  std::int64_t size = 1;  // height and width of the input
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  bool channels_last = false;
  /// Padding keeps the size but for the stride.
  [[nodiscard]] std::int64_t padding() const { return (kernel - 1) / 2; }
  [[nodiscard]] std::int64_t output() const { return (size + 2 * padding() - kernel) / stride + 1; }
};

struct Point {
  std::string bench;  // of kBenches
  std::string what;   // which kernel of the bench
  std::string op;
  std::string kind;
  std::string precision;
  std::string layout = "nt";
  std::int64_t batch_count = 1;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t bytes = 0;
  std::int64_t row = 0;
  std::int64_t taken = 0;  // multiprocessors
  std::int64_t threads = 0;
  Convolution conv;
  bool cold = false;
  bool extra = false;  // not for the fit: to the second file

  [[nodiscard]] double flops() const;
  [[nodiscard]] double traffic() const;  // bytes
  [[nodiscard]] std::string keys() const;
};

inline std::int64_t element_size(const std::string& precision) {
  return precision == "fp32" || precision == "tf32" ? 4 : 2;
}

inline double Point::flops() const {
  const double macs = op == "convolution"
                          ? static_cast<double>(conv.batch * conv.output() * conv.output()) *
                                static_cast<double>(conv.out * conv.in / conv.groups) *
                                static_cast<double>(conv.kernel * conv.kernel)
                          : static_cast<double>(batch_count * m) * static_cast<double>(n) * static_cast<double>(k);
  return 2 * macs;
}

inline double Point::traffic() const {
  double elements = 0;
  if (op == "convolution") {
    elements =
        static_cast<double>(conv.batch * (conv.in * conv.size * conv.size + conv.out * conv.output() * conv.output())) +
        static_cast<double>(conv.out * conv.in / conv.groups * conv.kernel * conv.kernel);
  } else {
    elements = static_cast<double>(batch_count) * static_cast<double>(m * k + k * n + m * n);
  }
  return static_cast<double>(bytes) + elements * static_cast<double>(element_size(precision));
}

inline void add_convolution(Line& line, const Point& p) {
  const Convolution& c = p.conv;
  line.add("pass", p.kind).add("batch", c.batch).add("in", c.in).add("out", c.out).add("groups", c.groups);
  line.add("input_height", c.size).add("input_width", c.size);
  line.add("output_height", c.output()).add("output_width", c.output());
  line.add("kernel_height", c.kernel).add("kernel_width", c.kernel);
  line.add("stride_height", c.stride).add("stride_width", c.stride);
}

/// What names the point in a row, everything but what was measured; `--resume` compares it.
inline std::string Point::keys() const {
  Line line;
  line.add("bench", what).add("op", op);
  if (op != "convolution" && !kind.empty()) line.add("kind", kind);
  if (!precision.empty() && op != "overlap") line.add("precision", precision);
  if (op == "gemm") {
    line.add("batch_count", batch_count).add("m", m).add("n", n).add("k", k).add("layout", layout);
  } else if (op == "convolution") {
    add_convolution(line, *this);
  } else if (op == "overlap") {
    line.add("taken", taken);
  }
  if (bytes > 0 && op != "overlap") line.add("bytes", bytes);
  if (row > 0) line.add("row", row);
  if (threads > 0) line.add("threads", threads);
  if (op == "gemm" || op == "memory_bound") line.add("cold", cold);
  return line.keys();
}

/// Points measured together, in the order given.
struct Block {
  std::string name;
  std::string bench;
  std::string precision;  // of what memory is filled with; empty: any
  double share = 1;       // of the budget
  std::vector<Point> points;
};

}  // namespace ddlsim::measure
