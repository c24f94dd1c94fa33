// NCCL's collectives among the GPUs of this machine, one process, where NCCL is installed.
//
// `bytes` as nccl-tests counts them: of all-gather the result, of reduce-scatter the input, of the others one GPU's
// buffer. A sample is the host's time for 20 calls on every GPU (5 from 16 MB), by their number; all-to-all is sends
// and receives in one group.
#include "benches.h"

#if __has_include(<nccl.h>)
#include <nccl.h>
#define DDLSIM_HAVE_NCCL 1
#endif

namespace ddlsim::measure {

#ifndef DDLSIM_HAVE_NCCL

Bench make_collectives(Gpu&, std::string&) {
  throw Unavailable("built without nccl.h (add -I and its folder to the compiler's command)");
}

#else

namespace {

constexpr std::size_t kMost = std::size_t{1} << 30;

struct Rank {
  int device = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  float* in = nullptr;
  float* out = nullptr;
};

class Nccl {
 public:
  explicit Nccl(Gpu& gpu)
      : library_({"libnccl.so.2", "libnccl.so"}, gpu.libraries), ranks_(static_cast<std::size_t>(gpu.facts.gpus)) {
    if (ranks_.size() < 2) throw Unavailable("one GPU has nobody to talk to");
    if (!library_.loaded()) throw Unavailable(library_.error());
    load();
    check(cudaGetDevice(&home_), "cudaGetDevice");
    std::vector<ncclComm_t> comms(ranks_.size());
    check_nccl(init_(comms.data(), static_cast<int>(ranks_.size()), nullptr), "ncclCommInitAll");
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      Rank& rank = ranks_[i];
      rank.device = static_cast<int>(i);
      rank.comm = comms[i];
      check(cudaSetDevice(rank.device), "cudaSetDevice");
      check(cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking), "cudaStreamCreate");
      check(cudaMalloc(reinterpret_cast<void**>(&rank.in), kMost), "cudaMalloc");
      check(cudaMalloc(reinterpret_cast<void**>(&rank.out), kMost), "cudaMalloc");
      check(cudaMemsetAsync(rank.in, 0, kMost, rank.stream), "cudaMemset");
    }
    check(cudaSetDevice(home_), "cudaSetDevice");
  }
  ~Nccl() {
    for (Rank& rank : ranks_) {
      (void)cudaSetDevice(rank.device);
      if (rank.comm != nullptr) (void)destroy_(rank.comm);
      if (rank.stream != nullptr) (void)cudaStreamDestroy(rank.stream);
      if (rank.in != nullptr) (void)cudaFree(rank.in);
      if (rank.out != nullptr) (void)cudaFree(rank.out);
    }
    (void)cudaSetDevice(home_);
  }
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  [[nodiscard]] std::string version() const {
    int number = 0;
    return version_(&number) == ncclSuccess ? std::to_string(number) : "";
  }

  double once(const Point& point) {
    const int calls = point.bytes >= (16 << 20) ? 5 : 20;
    wait();
    const double start = seconds_now();
    for (int i = 0; i < calls; ++i) {
      check_nccl(group_start_(), "ncclGroupStart");
      for (std::size_t r = 0; r < ranks_.size(); ++r) enqueue(r, point.kind, static_cast<std::size_t>(point.bytes) / 4);
      check_nccl(group_end_(), "ncclGroupEnd");
    }
    wait();
    return (seconds_now() - start) / calls;
  }

 private:
  void load() {
    library_.need(init_, "ncclCommInitAll");
    library_.need(destroy_, "ncclCommDestroy");
    library_.need(version_, "ncclGetVersion");
    library_.need(error_, "ncclGetErrorString");
    library_.need(group_start_, "ncclGroupStart");
    library_.need(group_end_, "ncclGroupEnd");
    library_.need(all_reduce_, "ncclAllReduce");
    library_.need(all_gather_, "ncclAllGather");
    library_.need(reduce_scatter_, "ncclReduceScatter");
    library_.need(send_, "ncclSend");
    library_.need(receive_, "ncclRecv");
  }

  void check_nccl(ncclResult_t result, const char* what) {
    if (result != ncclSuccess) throw Unavailable(std::string(what) + ": " + error_(result));
  }

  void wait() {
    for (Rank& rank : ranks_) check(cudaStreamSynchronize(rank.stream), "collective");
  }

  void enqueue(std::size_t r, const std::string& kind, std::size_t count) {
    const Rank& rank = ranks_[r];
    const auto n = ranks_.size();
    const std::size_t part = count / n;
    if (kind == "all-reduce") {
      check_nccl(all_reduce_(rank.in, rank.out, count, ncclFloat, ncclSum, rank.comm, rank.stream), "ncclAllReduce");
    } else if (kind == "all-gather") {
      check_nccl(all_gather_(rank.in, rank.out, part, ncclFloat, rank.comm, rank.stream), "ncclAllGather");
    } else if (kind == "reduce-scatter") {
      check_nccl(reduce_scatter_(rank.in, rank.out, part, ncclFloat, ncclSum, rank.comm, rank.stream),
                 "ncclReduceScatter");
    } else if (kind == "all-to-all") {
      for (std::size_t peer = 0; peer < n; ++peer) {
        check_nccl(send_(rank.in + peer * part, part, ncclFloat, static_cast<int>(peer), rank.comm, rank.stream),
                   "ncclSend");
        check_nccl(receive_(rank.out + peer * part, part, ncclFloat, static_cast<int>(peer), rank.comm, rank.stream),
                   "ncclRecv");
      }
    } else {
      check_nccl(send_(rank.in, count, ncclFloat, static_cast<int>((r + 1) % n), rank.comm, rank.stream), "ncclSend");
      check_nccl(receive_(rank.out, count, ncclFloat, static_cast<int>((r + n - 1) % n), rank.comm, rank.stream),
                 "ncclRecv");
    }
  }

  Library library_;
  std::vector<Rank> ranks_;
  int home_ = 0;
  decltype(&::ncclCommInitAll) init_ = nullptr;
  decltype(&::ncclCommDestroy) destroy_ = nullptr;
  decltype(&::ncclGetVersion) version_ = nullptr;
  decltype(&::ncclGetErrorString) error_ = nullptr;
  decltype(&::ncclGroupStart) group_start_ = nullptr;
  decltype(&::ncclGroupEnd) group_end_ = nullptr;
  decltype(&::ncclAllReduce) all_reduce_ = nullptr;
  decltype(&::ncclAllGather) all_gather_ = nullptr;
  decltype(&::ncclReduceScatter) reduce_scatter_ = nullptr;
  decltype(&::ncclSend) send_ = nullptr;
  decltype(&::ncclRecv) receive_ = nullptr;
};

}  // namespace

Bench make_collectives(Gpu& gpu, std::string& version) {
  auto nccl = std::make_shared<Nccl>(gpu);
  version = nccl->version();
  return [&gpu, nccl](const Point& point) { return gpu.time_host([&] { return nccl->once(point); }); };
}

#endif

}  // namespace ddlsim::measure
