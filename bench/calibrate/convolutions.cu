// Convolutions by cuDNN where it is installed: the algorithm its heuristic puts first within 1 GiB of workspace, as
// frameworks do without auto-tuning. fp32 without tensor cores; tf32, fp16 and bf16 with them, fp32 inside.
#include "benches.h"

#if __has_include(<cudnn.h>)
#include <cudnn.h>
#define DDLSIM_HAVE_CUDNN 1
#endif

namespace ddlsim::measure {

#ifndef DDLSIM_HAVE_CUDNN

Bench make_convolutions(Gpu&, std::string&) {
  throw Unavailable("built without cudnn.h (add -I and its folder to the compiler's command)");
}

#else

#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // since cuDNN 9; still there, and alike since 7
#endif
#pragma nv_diag_suppress 1444

namespace {

constexpr std::size_t kWorkspace = std::size_t{1} << 30;
constexpr int kAlgorithms = 10;

void check_dnn(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  const std::string text = std::string(what) + ": cuDNN status " + std::to_string(static_cast<int>(status));
  // What went wrong on the GPU shows there; the rest is a shape or type that cuDNN does not take.
  check(cudaDeviceSynchronize(), text.c_str());
  throw Unavailable(text);
}

struct Functions {
  Library library;
#define DDLSIM_CUDNN(name) decltype(&::name) name = nullptr
  DDLSIM_CUDNN(cudnnCreate);
  DDLSIM_CUDNN(cudnnDestroy);
  DDLSIM_CUDNN(cudnnSetStream);
  DDLSIM_CUDNN(cudnnGetVersion);
  DDLSIM_CUDNN(cudnnCreateTensorDescriptor);
  DDLSIM_CUDNN(cudnnDestroyTensorDescriptor);
  DDLSIM_CUDNN(cudnnSetTensor4dDescriptor);
  DDLSIM_CUDNN(cudnnCreateFilterDescriptor);
  DDLSIM_CUDNN(cudnnDestroyFilterDescriptor);
  DDLSIM_CUDNN(cudnnSetFilter4dDescriptor);
  DDLSIM_CUDNN(cudnnCreateConvolutionDescriptor);
  DDLSIM_CUDNN(cudnnDestroyConvolutionDescriptor);
  DDLSIM_CUDNN(cudnnSetConvolution2dDescriptor);
  DDLSIM_CUDNN(cudnnSetConvolutionGroupCount);
  DDLSIM_CUDNN(cudnnSetConvolutionMathType);
  DDLSIM_CUDNN(cudnnGetConvolutionForwardAlgorithm_v7);
  DDLSIM_CUDNN(cudnnGetConvolutionBackwardDataAlgorithm_v7);
  DDLSIM_CUDNN(cudnnGetConvolutionBackwardFilterAlgorithm_v7);
  DDLSIM_CUDNN(cudnnConvolutionForward);
  DDLSIM_CUDNN(cudnnConvolutionBackwardData);
  DDLSIM_CUDNN(cudnnConvolutionBackwardFilter);
#undef DDLSIM_CUDNN

  explicit Functions(const std::string& folders)
      : library({"libcudnn.so.9", "libcudnn.so.8", "libcudnn.so.7", "libcudnn.so"}, folders) {
    if (!library.loaded()) throw Unavailable(library.error());
    library.need(cudnnCreate, "cudnnCreate");
    library.need(cudnnDestroy, "cudnnDestroy");
    library.need(cudnnSetStream, "cudnnSetStream");
    library.need(cudnnGetVersion, "cudnnGetVersion");
    library.need(cudnnCreateTensorDescriptor, "cudnnCreateTensorDescriptor");
    library.need(cudnnDestroyTensorDescriptor, "cudnnDestroyTensorDescriptor");
    library.need(cudnnSetTensor4dDescriptor, "cudnnSetTensor4dDescriptor");
    library.need(cudnnCreateFilterDescriptor, "cudnnCreateFilterDescriptor");
    library.need(cudnnDestroyFilterDescriptor, "cudnnDestroyFilterDescriptor");
    library.need(cudnnSetFilter4dDescriptor, "cudnnSetFilter4dDescriptor");
    library.need(cudnnCreateConvolutionDescriptor, "cudnnCreateConvolutionDescriptor");
    library.need(cudnnDestroyConvolutionDescriptor, "cudnnDestroyConvolutionDescriptor");
    library.need(cudnnSetConvolution2dDescriptor, "cudnnSetConvolution2dDescriptor");
    library.need(cudnnSetConvolutionGroupCount, "cudnnSetConvolutionGroupCount");
    library.need(cudnnSetConvolutionMathType, "cudnnSetConvolutionMathType");
    library.need(cudnnGetConvolutionForwardAlgorithm_v7, "cudnnGetConvolutionForwardAlgorithm_v7");
    library.need(cudnnGetConvolutionBackwardDataAlgorithm_v7, "cudnnGetConvolutionBackwardDataAlgorithm_v7");
    library.need(cudnnGetConvolutionBackwardFilterAlgorithm_v7, "cudnnGetConvolutionBackwardFilterAlgorithm_v7");
    library.need(cudnnConvolutionForward, "cudnnConvolutionForward");
    library.need(cudnnConvolutionBackwardData, "cudnnConvolutionBackwardData");
    library.need(cudnnConvolutionBackwardFilter, "cudnnConvolutionBackwardFilter");
  }
};

class Cudnn : public Functions {
 public:
  explicit Cudnn(Gpu& gpu) : Functions(gpu.libraries) {
    check_dnn(cudnnCreate(&handle), "cudnnCreate");
    check_dnn(cudnnSetStream(handle, gpu.stream), "cudnnSetStream");
    check(cudaMalloc(&workspace, kWorkspace), "cudaMalloc");
  }
  ~Cudnn() {
    if (handle != nullptr) (void)cudnnDestroy(handle);
    if (workspace != nullptr) (void)cudaFree(workspace);
  }
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;
  cudnnHandle_t handle = nullptr;
  void* workspace = nullptr;
};

struct Descriptors {
  Cudnn& dnn;
  cudnnTensorDescriptor_t x = nullptr;
  cudnnTensorDescriptor_t y = nullptr;
  cudnnFilterDescriptor_t w = nullptr;
  cudnnConvolutionDescriptor_t conv = nullptr;

  Descriptors(Cudnn& of, const Point& point) : dnn(of) {
    const Convolution& c = point.conv;
    const auto i = [](std::int64_t value) { return static_cast<int>(value); };
    const auto format = c.channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    if (point.precision == "fp16") type = CUDNN_DATA_HALF;
    if (point.precision == "bf16") type = CUDNN_DATA_BFLOAT16;
    check_dnn(dnn.cudnnCreateTensorDescriptor(&x), "descriptor");
    check_dnn(dnn.cudnnCreateTensorDescriptor(&y), "descriptor");
    check_dnn(dnn.cudnnCreateFilterDescriptor(&w), "descriptor");
    check_dnn(dnn.cudnnCreateConvolutionDescriptor(&conv), "descriptor");
    check_dnn(dnn.cudnnSetTensor4dDescriptor(x, format, type, i(c.batch), i(c.in), i(c.size), i(c.size)), "input");
    check_dnn(dnn.cudnnSetTensor4dDescriptor(y, format, type, i(c.batch), i(c.out), i(c.output()), i(c.output())),
              "output");
    check_dnn(dnn.cudnnSetFilter4dDescriptor(w, type, format, i(c.out), i(c.in / c.groups), i(c.kernel), i(c.kernel)),
              "filter");
    check_dnn(dnn.cudnnSetConvolution2dDescriptor(conv, i(c.padding()), i(c.padding()), i(c.stride), i(c.stride), 1, 1,
                                                  CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
              "convolution");
    check_dnn(dnn.cudnnSetConvolutionGroupCount(conv, i(c.groups)), "groups");
    set_math(point.precision == "fp32"   ? CUDNN_FMA_MATH
             : point.precision == "tf32" ? CUDNN_DEFAULT_MATH
                                         : CUDNN_TENSOR_OP_MATH);
  }
  ~Descriptors() {
    if (conv != nullptr) (void)dnn.cudnnDestroyConvolutionDescriptor(conv);
    if (w != nullptr) (void)dnn.cudnnDestroyFilterDescriptor(w);
    if (y != nullptr) (void)dnn.cudnnDestroyTensorDescriptor(y);
    if (x != nullptr) (void)dnn.cudnnDestroyTensorDescriptor(x);
  }
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;
  void set_math(cudnnMathType_t math) { check_dnn(dnn.cudnnSetConvolutionMathType(conv, math), "math"); }
};

/// The first that works within the workspace.
template <typename Results>
auto best(Descriptors& d, const Results& results, int count) {
  for (int i = 0; i < count; ++i) {
    if (results[i].status != CUDNN_STATUS_SUCCESS || results[i].memory > kWorkspace) continue;
    d.set_math(results[i].mathType);
    return results[i].algo;
  }
  throw Unavailable("cuDNN has no algorithm for it");
}

/// Bytes of a point's tensors, each from a multiple of 256.
struct Sizes {
  std::int64_t x, y, w;
  explicit Sizes(const Point& p) {
    const Convolution& c = p.conv;
    const auto padded = [&p](std::int64_t elements) {
      return (elements * element_size(p.precision) + 255) / 256 * 256;
    };
    x = padded(c.batch * c.in * c.size * c.size);
    y = padded(c.batch * c.out * c.output() * c.output());
    w = padded(c.out * c.in / c.groups * c.kernel * c.kernel);
  }
};

constexpr float kOne = 1;
constexpr float kZero = 0;

Launch forward(Gpu& gpu, const std::shared_ptr<Cudnn>& dnn, const std::shared_ptr<Descriptors>& d, const Sizes& s) {
  cudnnConvolutionFwdAlgoPerf_t found[kAlgorithms];
  int count = 0;
  check_dnn(
      dnn->cudnnGetConvolutionForwardAlgorithm_v7(dnn->handle, d->x, d->w, d->conv, d->y, kAlgorithms, &count, found),
      "forward algorithms");
  const auto algorithm = best(*d, found, count);
  return [=, &gpu](cudaStream_t) {
    char* in = gpu.inputs.take(s.x + s.w, false);
    char* out = gpu.outputs.take(s.y, false);
    check_dnn(dnn->cudnnConvolutionForward(dnn->handle, &kOne, d->x, in, d->w, in + s.x, d->conv, algorithm,
                                           dnn->workspace, kWorkspace, &kZero, d->y, out),
              "forward");
  };
}

Launch input_gradient(Gpu& gpu, const std::shared_ptr<Cudnn>& dnn, const std::shared_ptr<Descriptors>& d,
                      const Sizes& s) {
  cudnnConvolutionBwdDataAlgoPerf_t found[kAlgorithms];
  int count = 0;
  check_dnn(dnn->cudnnGetConvolutionBackwardDataAlgorithm_v7(dnn->handle, d->w, d->y, d->conv, d->x, kAlgorithms,
                                                             &count, found),
            "input gradient's algorithms");
  const auto algorithm = best(*d, found, count);
  return [=, &gpu](cudaStream_t) {
    char* in = gpu.inputs.take(s.y + s.w, false);
    char* out = gpu.outputs.take(s.x, false);
    check_dnn(dnn->cudnnConvolutionBackwardData(dnn->handle, &kOne, d->w, in + s.y, d->y, in, d->conv, algorithm,
                                                dnn->workspace, kWorkspace, &kZero, d->x, out),
              "input gradient");
  };
}

Launch weight_gradient(Gpu& gpu, const std::shared_ptr<Cudnn>& dnn, const std::shared_ptr<Descriptors>& d,
                       const Sizes& s) {
  cudnnConvolutionBwdFilterAlgoPerf_t found[kAlgorithms];
  int count = 0;
  check_dnn(dnn->cudnnGetConvolutionBackwardFilterAlgorithm_v7(dnn->handle, d->x, d->y, d->conv, d->w, kAlgorithms,
                                                               &count, found),
            "weight gradient's algorithms");
  const auto algorithm = best(*d, found, count);
  return [=, &gpu](cudaStream_t) {
    char* in = gpu.inputs.take(s.x + s.y, false);
    char* out = gpu.outputs.take(s.w, false);
    check_dnn(dnn->cudnnConvolutionBackwardFilter(dnn->handle, &kOne, d->x, in, d->y, in + s.x, d->conv, algorithm,
                                                  dnn->workspace, kWorkspace, &kZero, d->w, out),
              "weight gradient");
  };
}

}  // namespace

Bench make_convolutions(Gpu& gpu, std::string& version) {
  auto dnn = std::make_shared<Cudnn>(gpu);
  version = std::to_string(dnn->cudnnGetVersion());
  return [&gpu, dnn](const Point& point) {
    auto d = std::make_shared<Descriptors>(*dnn, point);
    const Sizes sizes(point);
    // Fewer in a row: some algorithms are many kernels.
    if (point.kind == "forward") return gpu.time(forward(gpu, dnn, d, sizes), {}, 64);
    if (point.kind == "input-gradient") return gpu.time(input_gradient(gpu, dnn, d, sizes), {}, 64);
    return gpu.time(weight_gradient(gpu, dnn, d, sizes), {}, 64);
  };
}

#endif

}  // namespace ddlsim::measure
