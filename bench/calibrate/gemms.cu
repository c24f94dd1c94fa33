// GEMMs by cuBLAS, as frameworks call it: one algorithm by its heuristic, 32 MiB of workspace.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>

#include "benches.h"

namespace ddlsim::measure {
namespace {

// cuBLAS's headers overload these, so their types are written out.
using Gemm = cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const void*,
                                const void*, cudaDataType, int, const void*, cudaDataType, int, const void*, void*,
                                cudaDataType, int, cublasComputeType_t, cublasGemmAlgo_t);
using GemmStrided = cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const void*,
                                       const void*, cudaDataType, int, long long, const void*, cudaDataType, int,
                                       long long, const void*, void*, cudaDataType, int, long long, int,
                                       cublasComputeType_t, cublasGemmAlgo_t);
constexpr std::size_t kWorkspace = std::size_t{32} << 20;

void check_blas(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const std::string text = std::string(what) + ": cuBLAS status " + std::to_string(static_cast<int>(status));
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
      status == CUBLAS_STATUS_ARCH_MISMATCH || status == CUBLAS_STATUS_ALLOC_FAILED) {
    throw Unavailable(text);
  }
  throw GpuError(text);
}

}  // namespace

class Cublas {
 public:
  explicit Cublas(const std::string& folders)
      : library_({"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"}, folders) {
    if (!library_.loaded()) throw std::runtime_error(library_.error());
    cublasStatus_t (*create)(cublasHandle_t*) = nullptr;
    library_.need(create, "cublasCreate_v2");
    library_.need(set_stream, "cublasSetStream_v2");
    library_.need(set_workspace, "cublasSetWorkspace_v2");
    library_.need(get_version, "cublasGetVersion_v2");
    library_.need(gemm, "cublasGemmEx");
    library_.need(gemm_strided, "cublasGemmStridedBatchedEx");
    check_blas(create(&handle), "cublasCreate");
    check(cudaMalloc(&workspace_, kWorkspace), "cudaMalloc");
  }
  ~Cublas() {
    const auto destroy = library_.find<cublasStatus_t (*)(cublasHandle_t)>("cublasDestroy_v2");
    if (destroy != nullptr && handle != nullptr) (void)destroy(handle);
    if (workspace_ != nullptr) (void)cudaFree(workspace_);
  }
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  void use(cudaStream_t stream) {
    if (stream == stream_) return;
    check_blas(set_stream(handle, stream), "cublasSetStream");
    check_blas(set_workspace(handle, workspace_, kWorkspace), "cublasSetWorkspace");  // setting a stream takes it away
    stream_ = stream;
  }

  cublasHandle_t handle = nullptr;
  cublasStatus_t (*set_stream)(cublasHandle_t, cudaStream_t) = nullptr;
  cublasStatus_t (*set_workspace)(cublasHandle_t, void*, std::size_t) = nullptr;
  cublasStatus_t (*get_version)(cublasHandle_t, int*) = nullptr;
  Gemm gemm = nullptr;
  GemmStrided gemm_strided = nullptr;

 private:
  Library library_;
  void* workspace_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

std::shared_ptr<Cublas> open_cublas(Gpu& gpu, std::string& why) {
  try {
    auto cublas = std::make_shared<Cublas>(gpu.libraries);
    cublas->use(gpu.stream);
    return cublas;
  } catch (const std::runtime_error& problem) {
    why = problem.what();
    return nullptr;
  }
}

std::string cublas_version(const Cublas& cublas) {
  int version = 0;
  if (cublas.get_version(cublas.handle, &version) != CUBLAS_STATUS_SUCCESS) return {};
  return std::to_string(version);
}

namespace {

struct Types {
  cudaDataType data;
  cublasComputeType_t compute;
};

Types types_of(const std::string& precision) {
  if (precision == "tf32") return {CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32};
  if (precision == "fp16") return {CUDA_R_16F, CUBLAS_COMPUTE_32F};
  if (precision == "bf16") return {CUDA_R_16BF, CUBLAS_COMPUTE_32F};
  return {CUDA_R_32F, CUBLAS_COMPUTE_32F};
}

/// Row-major C = A B is column-major C' = B' A': the operands change places.
struct Operands {
  cublasOperation_t a = CUBLAS_OP_N;
  cublasOperation_t b = CUBLAS_OP_N;
  int lda = 1;
  int ldb = 1;
};

Operands operands_of(const Point& p) {
  Operands o;
  o.lda = static_cast<int>(p.layout == "tn" ? p.m : p.k);
  o.ldb = static_cast<int>(p.layout == "nt" ? p.k : p.n);
  if (p.layout == "tn") o.a = CUBLAS_OP_T;
  if (p.layout == "nt") o.b = CUBLAS_OP_T;
  return o;
}

std::int64_t padded(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

Launch gemm_launch(Gpu& gpu, std::shared_ptr<Cublas> cublas, const Point& p) {
  const Types types = types_of(p.precision);
  const Operands o = operands_of(p);
  const std::int64_t size = element_size(p.precision);
  const std::int64_t a_bytes = padded(p.batch_count * p.m * p.k * size);
  const std::int64_t b_bytes = padded(p.batch_count * p.k * p.n * size);
  const std::int64_t c_bytes = p.batch_count * p.m * p.n * size;
  return [=, &gpu](cudaStream_t stream) {
    static constexpr float kOne = 1;
    static constexpr float kZero = 0;
    cublas->use(stream);
    char* a = gpu.inputs.take(a_bytes + b_bytes, p.cold);
    char* b = a + a_bytes;
    char* c = gpu.outputs.take(c_bytes, p.cold);
    const int m = static_cast<int>(p.m);
    const int n = static_cast<int>(p.n);
    const int k = static_cast<int>(p.k);
    if (p.batch_count == 1) {
      check_blas(cublas->gemm(cublas->handle, o.b, o.a, n, m, k, &kOne, b, types.data, o.ldb, a, types.data, o.lda,
                              &kZero, c, types.data, n, types.compute, CUBLAS_GEMM_DEFAULT),
                 "cublasGemmEx");
      return;
    }
    check_blas(cublas->gemm_strided(cublas->handle, o.b, o.a, n, m, k, &kOne, b, types.data, o.ldb, p.k * p.n, a,
                                    types.data, o.lda, p.m * p.k, &kZero, c, types.data, n, p.m * p.n,
                                    static_cast<int>(p.batch_count), types.compute, CUBLAS_GEMM_DEFAULT),
               "cublasGemmStridedBatchedEx");
  };
}

Bench make_gemms(Gpu& gpu, std::shared_ptr<Cublas> cublas) {
  if (cublas == nullptr) throw Unavailable("cuBLAS was not found");
  return [&gpu, cublas](const Point& point) { return gpu.time(gemm_launch(gpu, cublas, point)); };
}

namespace {

double value_at(const std::vector<char>& memory, std::int64_t at, const std::string& precision) {
  if (precision == "fp16")
    return static_cast<double>(static_cast<float>(reinterpret_cast<const __half*>(memory.data())[at]));
  if (precision == "bf16") {
    return static_cast<double>(static_cast<float>(reinterpret_cast<const __nv_bfloat16*>(memory.data())[at]));
  }
  return static_cast<double>(reinterpret_cast<const float*>(memory.data())[at]);
}

std::vector<char> bytes_at(const char* memory, std::int64_t bytes) {
  std::vector<char> values(static_cast<std::size_t>(bytes));
  check(cudaMemcpy(values.data(), memory, values.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
  return values;
}

/// |C - reference| / |reference|, both as vectors.
double error_of(const Point& p, const std::vector<char>& a, const std::vector<char>& b, const std::vector<char>& c) {
  double wrong = 0;
  double whole = 0;
  for (std::int64_t batch = 0; batch < p.batch_count; ++batch) {
    for (std::int64_t i = 0; i < p.m; ++i) {
      for (std::int64_t j = 0; j < p.n; ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < p.k; ++l) {
          const std::int64_t at_a = batch * p.m * p.k + (p.layout == "tn" ? l * p.m + i : i * p.k + l);
          const std::int64_t at_b = batch * p.k * p.n + (p.layout == "nt" ? j * p.k + l : l * p.n + j);
          sum += value_at(a, at_a, p.precision) * value_at(b, at_b, p.precision);
        }
        const double difference = value_at(c, batch * p.m * p.n + i * p.n + j, p.precision) - sum;
        wrong += difference * difference;
        whole += sum * sum;
      }
    }
  }
  return std::sqrt(wrong / whole);
}

}  // namespace

std::string check_gemms(Gpu& gpu, std::shared_ptr<Cublas> cublas) {
  for (const char* precision : {"fp32", "tf32", "fp16", "bf16"}) {
    const std::string name = precision;
    if (gpu.facts.capability < 80 && (name == "tf32" || name == "bf16")) continue;
    gpu.fill(name);
    for (const char* layout : {"nn", "nt", "tn"}) {
      for (const std::int64_t batch_count : {1, 3}) {
        Point p;
        p.op = "gemm";
        p.precision = name;
        p.layout = layout;
        p.batch_count = batch_count;
        p.m = 48;
        p.n = 40;
        p.k = 72;
        const std::int64_t size = element_size(name);
        check(cudaMemsetAsync(gpu.outputs.base(), 0xff, static_cast<std::size_t>(batch_count * p.m * p.n * size),
                              gpu.stream),
              "cudaMemset");
        gemm_launch(gpu, cublas, p)(gpu.stream);
        check(cudaStreamSynchronize(gpu.stream), "gemm");
        const std::int64_t a_bytes = batch_count * p.m * p.k * size;
        const double error = error_of(p, bytes_at(gpu.inputs.base(), a_bytes),
                                      bytes_at(gpu.inputs.base() + padded(a_bytes), batch_count * p.k * p.n * size),
                                      bytes_at(gpu.outputs.base(), batch_count * p.m * p.n * size));
        // float64 beside it: fp32 is under 1e-5, tf32 and fp16 near 5e-4, bf16 near 4e-3.
        const double most = name == "fp32" ? 1e-5 : name == "bf16" ? 1e-2 : 2e-3;
        if (!(error < most)) return "GEMMs in " + name + ", " + layout + ", are off by " + number(error);
      }
    }
  }
  return {};
}

}  // namespace ddlsim::measure
