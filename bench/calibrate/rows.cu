// Softmax and layer norm over rows. Rows of up to 1024 elements: a warp each, the row in registers, read once; longer
// ones: a block each, read twice (the second time mostly from cache). Frameworks change kernels there too.
#include <cuda_fp16.h>

#include <cmath>

#include "benches.h"

namespace ddlsim::measure {
namespace {

constexpr int kWarps = kThreads / 32;
constexpr int kShort = 1024;

template <typename T>
struct alignas(16) Pack {
  static constexpr int kSize = 16 / sizeof(T);
  T values[kSize];
};

/// Softmax: x = greatest, y = sum of exp(value - greatest). Norm: sum, sum of squares.
template <bool kSoftmax>
__device__ float2 joined(float2 a, float2 b) {
  if (!kSoftmax) return make_float2(a.x + b.x, a.y + b.y);
  const float most = fmaxf(a.x, b.x);
  if (most == -INFINITY) return make_float2(most, 0.0F);
  return make_float2(most, a.y * __expf(a.x - most) + b.y * __expf(b.x - most));
}

template <bool kSoftmax>
__device__ float2 of_value(float value) {
  return kSoftmax ? make_float2(value, 1.0F) : make_float2(value, value * value);
}

template <bool kSoftmax>
__device__ float2 of_nothing() {
  return make_float2(kSoftmax ? -INFINITY : 0.0F, 0.0F);
}

template <bool kSoftmax>
__device__ float2 over_warp(float2 part) {
  for (int lane = 16; lane > 0; lane /= 2) {
    const float2 other =
        make_float2(__shfl_xor_sync(0xffffffffU, part.x, lane), __shfl_xor_sync(0xffffffffU, part.y, lane));
    part = joined<kSoftmax>(part, other);
  }
  return part;
}

template <bool kSoftmax>
__device__ float result(float value, float2 total, float inverse, float scale) {
  if (kSoftmax) return __expf(value - total.x) * inverse;
  return (value - total.x * inverse) * scale;
}

/// inverse: softmax 1 / sum, norm 1 / length. scale: norm 1 / deviation.
template <bool kSoftmax>
__device__ float2 factors(float2 total, int length) {
  if (kSoftmax) return make_float2(1.0F / total.y, 0.0F);
  const float inverse = 1.0F / static_cast<float>(length);
  const float mean = total.x * inverse;
  return make_float2(inverse, rsqrtf(fmaxf(total.y * inverse - mean * mean, 0.0F) + 1e-5F));
}

template <typename T, bool kSoftmax>
__global__ void short_rows(const T* in, T* out, std::int64_t rows, int length) {
  constexpr int kSteps = kShort / 32 / Pack<T>::kSize;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (row >= rows) return;
  const int lane = threadIdx.x % 32;
  Pack<T> packs[kSteps];
  float2 part = of_nothing<kSoftmax>();
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const int at = (step * 32 + lane) * Pack<T>::kSize;
    if (at < length) packs[step] = *reinterpret_cast<const Pack<T>*>(in + row * length + at);
  }
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    if ((step * 32 + lane) * Pack<T>::kSize >= length) continue;
#pragma unroll
    for (int j = 0; j < Pack<T>::kSize; ++j) {
      part = joined<kSoftmax>(part, of_value<kSoftmax>(static_cast<float>(packs[step].values[j])));
    }
  }
  const float2 total = over_warp<kSoftmax>(part);
  const float2 f = factors<kSoftmax>(total, length);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const int at = (step * 32 + lane) * Pack<T>::kSize;
    if (at >= length) continue;
    Pack<T> done;
#pragma unroll
    for (int j = 0; j < Pack<T>::kSize; ++j) {
      done.values[j] = static_cast<T>(result<kSoftmax>(static_cast<float>(packs[step].values[j]), total, f.x, f.y));
    }
    *reinterpret_cast<Pack<T>*>(out + row * length + at) = done;
  }
}

template <typename T, bool kSoftmax>
__global__ void long_rows(const T* in, T* out, int length) {
  __shared__ float2 parts[kWarps];
  const T* row = in + static_cast<std::int64_t>(blockIdx.x) * length;
  T* to = out + static_cast<std::int64_t>(blockIdx.x) * length;
  float2 part = of_nothing<kSoftmax>();
  for (int at = threadIdx.x * Pack<T>::kSize; at < length; at += kThreads * Pack<T>::kSize) {
    const Pack<T> pack = *reinterpret_cast<const Pack<T>*>(row + at);
#pragma unroll
    for (int j = 0; j < Pack<T>::kSize; ++j) {
      part = joined<kSoftmax>(part, of_value<kSoftmax>(static_cast<float>(pack.values[j])));
    }
  }
  part = over_warp<kSoftmax>(part);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = part;
  __syncthreads();
  float2 total = parts[0];
  for (int w = 1; w < kWarps; ++w) total = joined<kSoftmax>(total, parts[w]);
  const float2 f = factors<kSoftmax>(total, length);
  for (int at = threadIdx.x * Pack<T>::kSize; at < length; at += kThreads * Pack<T>::kSize) {
    const Pack<T> pack = *reinterpret_cast<const Pack<T>*>(row + at);
    Pack<T> done;
#pragma unroll
    for (int j = 0; j < Pack<T>::kSize; ++j) {
      done.values[j] = static_cast<T>(result<kSoftmax>(static_cast<float>(pack.values[j]), total, f.x, f.y));
    }
    *reinterpret_cast<Pack<T>*>(to + at) = done;
  }
}

template <typename T, bool kSoftmax>
void launch_rows(const char* in, char* out, std::int64_t rows, int length, cudaStream_t stream) {
  const auto* from = reinterpret_cast<const T*>(in);
  auto* to = reinterpret_cast<T*>(out);
  if (length <= kShort) {
    const auto blocks = static_cast<unsigned>((rows + kWarps - 1) / kWarps);
    short_rows<T, kSoftmax><<<blocks, kThreads, 0, stream>>>(from, to, rows, length);
  } else {
    long_rows<T, kSoftmax><<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(from, to, length);
  }
  check_launch("rows");
}

template <typename T>
Launch rows_launch(Gpu& gpu, const Point& point) {
  return [&gpu, point](cudaStream_t stream) {
    const std::int64_t bytes = point.bytes / 2;
    const std::int64_t rows = bytes / static_cast<std::int64_t>(sizeof(T)) / point.row;
    const char* in = gpu.inputs.take(bytes, point.cold);
    char* out = gpu.outputs.take(bytes, point.cold);
    const auto length = static_cast<int>(point.row);
    if (point.kind == "softmax") {
      launch_rows<T, true>(in, out, rows, length, stream);
    } else {
      launch_rows<T, false>(in, out, rows, length, stream);
    }
  };
}

std::string check_row(Gpu& gpu, const char* kind, int length) {
  constexpr int kRows = 11;
  const std::size_t count = static_cast<std::size_t>(kRows) * length;
  Point point;
  point.kind = kind;
  point.row = length;
  point.bytes = static_cast<std::int64_t>(2 * count * sizeof(float));
  check(cudaMemsetAsync(gpu.outputs.base(), 0xff, count * 4, gpu.stream), "cudaMemset");
  rows_launch<float>(gpu, point)(gpu.stream);
  check(cudaStreamSynchronize(gpu.stream), kind);
  std::vector<float> in(count);
  std::vector<float> out(count);
  check(cudaMemcpy(in.data(), gpu.inputs.base(), count * 4, cudaMemcpyDeviceToHost), "cudaMemcpy");
  check(cudaMemcpy(out.data(), gpu.outputs.base(), count * 4, cudaMemcpyDeviceToHost), "cudaMemcpy");
  for (int row = 0; row < kRows; ++row) {
    const float* x = in.data() + static_cast<std::size_t>(row) * length;
    double sum = 0;
    double squares = 0;
    double exponentials = 0;
    for (int i = 0; i < length; ++i) {
      sum += x[i];
      squares += static_cast<double>(x[i]) * x[i];
      exponentials += std::exp(static_cast<double>(x[i]));
    }
    const double mean = sum / length;
    const double deviation = std::sqrt(squares / length - mean * mean + 1e-5);
    for (int i = 0; i < length; ++i) {
      const double wanted =
          point.kind == "softmax" ? std::exp(static_cast<double>(x[i])) / exponentials : (x[i] - mean) / deviation;
      const double got = out[static_cast<std::size_t>(row) * length + i];
      if (!(std::abs(got - wanted) <= 1e-3 * std::abs(wanted) + 1e-4 / length)) {
        return std::string(kind) + " of rows of " + std::to_string(length) + " is wrong";
      }
    }
  }
  return {};
}

}  // namespace

Bench make_rows(Gpu& gpu) {
  return [&gpu](const Point& point) {
    return gpu.time(point.precision == "fp16" ? rows_launch<__half>(gpu, point) : rows_launch<float>(gpu, point));
  };
}

std::string check_rows(Gpu& gpu) {
  gpu.fill("fp32");
  for (const int length : {64, 768, 1024, 4096}) {
    for (const char* kind : {"softmax", "norm"}) {
      std::string wrong = check_row(gpu, kind, length);
      if (!wrong.empty()) return wrong;
    }
  }
  return {};
}

}  // namespace ddlsim::measure
