// Kernels bound by memory: 16 bytes a thread and access, coalesced, four in flight.
#include <cuda_fp16.h>

#include <cmath>

#include "benches.h"

namespace ddlsim::measure {
namespace {

constexpr int kUnroll = 4;
constexpr std::int64_t kRow = 1024;  // elements of a looked-up row, and of a batch norm's image
constexpr int kChannels = 64;

template <typename T>
struct alignas(16) Pack {
  T values[16 / sizeof(T)];
};

struct Copy {
  __device__ float operator()(float a, float) const { return a; }
};
struct Triad {
  __device__ float operator()(float a, float b) const { return a + 2.0F * b; }
};
struct Gelu {
  __device__ float operator()(float a, float) const { return 0.5F * a * (1.0F + erff(a * 0.70710678F)); }
};

template <typename T, typename F, bool kTwo>
__global__ void map_kernel(const Pack<T>* a, const Pack<T>* b, Pack<T>* out, std::int64_t packs, F f) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads * kUnroll + threadIdx.x;
  Pack<T> x[kUnroll];
  Pack<T> y[kUnroll];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const std::int64_t i = first + u * kThreads;
    if (i >= packs) continue;
    x[u] = a[i];
    if (kTwo) y[u] = b[i];
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const std::int64_t i = first + u * kThreads;
    if (i >= packs) continue;
    Pack<T> result;
#pragma unroll
    for (int j = 0; j < static_cast<int>(16 / sizeof(T)); ++j) {
      const float second = kTwo ? static_cast<float>(y[u].values[j]) : 0.0F;
      result.values[j] = static_cast<T>(f(static_cast<float>(x[u].values[j]), second));
    }
    out[i] = result;
  }
}

__global__ void read_kernel(const uint4* in, std::int64_t packs, unsigned* never) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads * kUnroll + threadIdx.x;
  uint4 x[kUnroll];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const std::int64_t i = first + u * kThreads;
    x[u] = i < packs ? in[i] : make_uint4(0, 0, 0, 0);
  }
  unsigned all = 0;
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) all += x[u].x ^ x[u].y ^ x[u].z ^ x[u].w;
  if (all == 0xdeadbeefU) *never = all;  // as good as never; keeps the reads
}

__global__ void write_kernel(uint4* out, std::int64_t packs) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads * kUnroll + threadIdx.x;
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const std::int64_t i = first + u * kThreads;
    if (i < packs) out[i] = make_uint4(1, 2, 3, 4);
  }
}

__global__ void adam_kernel(const float4* gradient, float4* weights, float4* mean, float4* square, std::int64_t packs) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= packs) return;
  const float4 g = gradient[i];
  float4 w = weights[i];
  float4 m = mean[i];
  float4 v = square[i];
  const auto step = [](float gradient_of, float& weight, float& m_of, float& v_of) {
    m_of = 0.9F * m_of + 0.1F * gradient_of;
    v_of = 0.999F * v_of + 0.001F * gradient_of * gradient_of;
    weight -= 1e-3F * m_of / (sqrtf(v_of) + 1e-8F);
  };
  step(g.x, w.x, m.x, v.x);
  step(g.y, w.y, m.y, v.y);
  step(g.z, w.z, m.z, v.z);
  step(g.w, w.w, m.w, v.w);
  weights[i] = w;
  mean[i] = m;
  square[i] = v;
}

/// A block copies a row of kRow floats from anywhere in the table.
__global__ void gather_kernel(const float4* table, std::int64_t rows, float4* out, unsigned turn) {
  const std::uint64_t z = (blockIdx.x + 1ULL + turn * 0x9e3779b9ULL) * 0xbf58476d1ce4e5b9ULL;
  const std::int64_t row = static_cast<std::int64_t>((z >> 20) % static_cast<std::uint64_t>(rows));
  out[static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x] = table[row * kThreads + threadIdx.x];
}

/// The greatest of 2 x 2, of images 128 wide.
template <typename T>
__global__ void pool_kernel(const T* in, T* out, std::int64_t count) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  const T* corner = in + i / 64 * 256 + i % 64 * 2;
  const float above = fmaxf(static_cast<float>(corner[0]), static_cast<float>(corner[1]));
  const float below = fmaxf(static_cast<float>(corner[128]), static_cast<float>(corner[129]));
  out[i] = static_cast<T>(fmaxf(above, below));
}

/// Sums of a channel's images and of their squares.
template <typename T>
__global__ void statistics_kernel(const T* in, float* sums) {
  const T* image = in + static_cast<std::int64_t>(blockIdx.x) * kRow;
  float sum = 0;
  float squares = 0;
  for (int i = threadIdx.x; i < kRow; i += kThreads) {
    const auto x = static_cast<float>(image[i]);
    sum += x;
    squares += x * x;
  }
  for (int lane = 16; lane > 0; lane /= 2) {
    sum += __shfl_down_sync(0xffffffffU, sum, lane);
    squares += __shfl_down_sync(0xffffffffU, squares, lane);
  }
  if (threadIdx.x % 32 != 0) return;
  atomicAdd(sums + blockIdx.x % kChannels, sum);
  atomicAdd(sums + kChannels + blockIdx.x % kChannels, squares);
}

template <typename T>
__global__ void normalise_kernel(const T* in, T* out, const float* sums, float count) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kRow;
  const float mean = sums[blockIdx.x % kChannels] / count;
  const float scale = rsqrtf(fmaxf(sums[kChannels + blockIdx.x % kChannels] / count - mean * mean, 0.0F) + 1e-5F);
  for (int i = threadIdx.x; i < kRow; i += kThreads) {
    out[at + i] = static_cast<T>((static_cast<float>(in[at + i]) - mean) * scale);
  }
}

unsigned blocks_for(std::int64_t items) { return static_cast<unsigned>((items + kThreads - 1) / kThreads); }
unsigned packed_blocks(std::int64_t packs) { return blocks_for((packs + kUnroll - 1) / kUnroll); }

struct Arrays {
  Gpu& gpu;
  std::int64_t bytes;  // of one
  bool cold;
  char* in(std::int64_t count) const { return gpu.inputs.take(count * bytes, cold); }
  char* out(std::int64_t count) const { return gpu.outputs.take(count * bytes, cold); }
};

template <typename T, typename F, bool kTwo>
Launch map_launch(const Arrays& arrays) {
  return [arrays](cudaStream_t stream) {
    const std::int64_t packs = arrays.bytes / 16;
    const char* in = arrays.in(kTwo ? 2 : 1);
    map_kernel<T, F, kTwo><<<packed_blocks(packs), kThreads, 0, stream>>>(
        reinterpret_cast<const Pack<T>*>(in), reinterpret_cast<const Pack<T>*>(in + arrays.bytes),
        reinterpret_cast<Pack<T>*>(arrays.out(1)), packs, F());
    check_launch("map");
  };
}

template <typename T>
Launch pool_launch(const Arrays& arrays) {
  return [arrays](cudaStream_t stream) {
    const auto count = arrays.bytes / static_cast<std::int64_t>(sizeof(T));
    pool_kernel<T><<<blocks_for(count), kThreads, 0, stream>>>(reinterpret_cast<const T*>(arrays.in(4)),
                                                               reinterpret_cast<T*>(arrays.out(1)), count);
    check_launch("pool");
  };
}

template <typename T>
Launch batchnorm_launch(const Arrays& arrays, std::shared_ptr<void> sums) {
  return [arrays, sums](cudaStream_t stream) {
    const auto images = std::max<std::int64_t>(1, arrays.bytes / static_cast<std::int64_t>(sizeof(T)) / kRow);
    const auto count = static_cast<float>(images * kRow) / kChannels;
    auto* of_channels = static_cast<float*>(sums.get());
    const auto* in = reinterpret_cast<const T*>(arrays.in(1));
    check(cudaMemsetAsync(of_channels, 0, 2 * kChannels * sizeof(float), stream), "cudaMemset");
    statistics_kernel<T><<<static_cast<unsigned>(images), kThreads, 0, stream>>>(in, of_channels);
    check_launch("batch norm's statistics");
    normalise_kernel<T><<<static_cast<unsigned>(images), kThreads, 0, stream>>>(in, reinterpret_cast<T*>(arrays.out(1)),
                                                                                of_channels, count);
    check_launch("batch norm");
  };
}

Launch adam_launch(const Arrays& arrays) {
  return [arrays](cudaStream_t stream) {
    const std::int64_t packs = arrays.bytes / 16;
    char* state = arrays.out(3);
    adam_kernel<<<blocks_for(packs), kThreads, 0, stream>>>(
        reinterpret_cast<const float4*>(arrays.in(1)), reinterpret_cast<float4*>(state),
        reinterpret_cast<float4*>(state + arrays.bytes), reinterpret_cast<float4*>(state + 2 * arrays.bytes), packs);
    check_launch("adam");
  };
}

Launch gather_launch(const Arrays& arrays) {
  auto turn = std::make_shared<unsigned>(0);
  return [arrays, turn](cudaStream_t stream) {
    constexpr std::int64_t kBytes = kRow * 4;
    // Cold rows come from all the memory there is, warm ones from a table as large as what is looked up.
    const std::int64_t table = arrays.cold ? arrays.gpu.inputs.size() : arrays.bytes;
    gather_kernel<<<static_cast<unsigned>(arrays.bytes / kBytes), kThreads, 0, stream>>>(
        reinterpret_cast<const float4*>(arrays.gpu.inputs.base()), table / kBytes,
        reinterpret_cast<float4*>(arrays.out(1)), ++*turn);
    check_launch("gather");
  };
}

Launch read_launch(const Arrays& arrays) {
  return [arrays](cudaStream_t stream) {
    const std::int64_t packs = arrays.bytes / 16;
    read_kernel<<<packed_blocks(packs), kThreads, 0, stream>>>(reinterpret_cast<const uint4*>(arrays.in(1)), packs,
                                                               reinterpret_cast<unsigned*>(arrays.gpu.outputs.base()));
    check_launch("read");
  };
}

Launch write_launch(const Arrays& arrays) {
  return [arrays](cudaStream_t stream) {
    const std::int64_t packs = arrays.bytes / 16;
    write_kernel<<<packed_blocks(packs), kThreads, 0, stream>>>(reinterpret_cast<uint4*>(arrays.out(1)), packs);
    check_launch("write");
  };
}

template <typename T>
Launch typed_launch(const Point& point, const Arrays& arrays, const std::shared_ptr<void>& sums) {
  if (point.what == "copy") return map_launch<T, Copy, false>(arrays);
  if (point.what == "triad") return map_launch<T, Triad, true>(arrays);
  if (point.what == "gelu") return map_launch<T, Gelu, false>(arrays);
  if (point.what == "max2x2") return pool_launch<T>(arrays);
  if (point.what == "stats") return batchnorm_launch<T>(arrays, sums);
  throw Unavailable("no stream '" + point.what + "'");
}

std::int64_t streams_of(const std::string& what) {
  if (what == "triad" || what == "stats") return 3;
  if (what == "adam") return 7;
  if (what == "max2x2") return 5;
  return what == "read" || what == "write" ? 1 : 2;
}

Launch stream_launch(Gpu& gpu, const Point& point, const std::shared_ptr<void>& sums) {
  const Arrays arrays{gpu, point.bytes / streams_of(point.what), point.cold};
  if (point.what == "adam") return adam_launch(arrays);
  if (point.what == "gather") return gather_launch(arrays);
  if (point.what == "read") return read_launch(arrays);
  if (point.what == "write") return write_launch(arrays);
  return point.precision == "fp16" ? typed_launch<__half>(point, arrays, sums)
                                   : typed_launch<float>(point, arrays, sums);
}

std::shared_ptr<void> device_memory(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "cudaMalloc");
  return {memory, [](void* m) { (void)cudaFree(m); }};
}

std::vector<float> floats_at(const char* memory, std::size_t count) {
  std::vector<float> values(count);
  check(cudaMemcpy(values.data(), memory, count * sizeof(float), cudaMemcpyDeviceToHost), "cudaMemcpy");
  return values;
}

}  // namespace

Launch triad_launch(Gpu& gpu, std::int64_t bytes) {
  return map_launch<float, Triad, true>({gpu, bytes / 3 / 4096 * 4096, false});
}

Bench make_streams(Gpu& gpu) {
  const auto sums = device_memory(2 * kChannels * sizeof(float));
  return [&gpu, sums](const Point& point) { return gpu.time(stream_launch(gpu, point, sums)); };
}

std::string check_streams(Gpu& gpu) {
  constexpr std::size_t kCount = 5120;  // 20 KB: blocks that are full and one that is not
  gpu.fill("fp32");
  check(cudaMemsetAsync(gpu.outputs.base(), 0xff, kCount * 4, gpu.stream),
        "cudaMemset");  // NaN: what is not written shows
  triad_launch(gpu, 3 * kCount * 4)(gpu.stream);
  check(cudaStreamSynchronize(gpu.stream), "triad");
  const std::vector<float> in = floats_at(gpu.inputs.base(), 2 * kCount);
  const std::vector<float> out = floats_at(gpu.outputs.base(), kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    if (!(std::abs(out[i] - (in[i] + 2 * in[kCount + i])) < 1e-5F)) return "the triad is wrong at " + std::to_string(i);
  }
  const auto sums = device_memory(2 * kChannels * sizeof(float));
  Point pool;
  pool.what = "max2x2";
  pool.precision = "fp32";
  pool.bytes = 5 * 4096;
  stream_launch(gpu, pool, sums)(gpu.stream);
  check(cudaStreamSynchronize(gpu.stream), "pool");
  const std::vector<float> pooled = floats_at(gpu.outputs.base(), 1024);
  for (std::size_t i = 0; i < 1024; ++i) {
    const float* corner = in.data() + i / 64 * 256 + i % 64 * 2;
    const float most = std::max(std::max(corner[0], corner[1]), std::max(corner[128], corner[129]));
    if (pooled[i] != most) return "the pooling is wrong at " + std::to_string(i);
  }
  return {};
}

}  // namespace ddlsim::measure
