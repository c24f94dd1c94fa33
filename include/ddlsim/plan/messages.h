// The gradient messages of one step: what is sent, and after which layer's backward it may start.
//
// Backward visits the layers from last to first; a layer's tensors are ready when its backward ends. Strategy::grouping
// says how tensors become messages:
//   buckets      consecutive tensors until a bucket is full; the first holds `first_bucket`, the others `bucket`. A
//                tensor is never split, so a bucket may overshoot. (PyTorch DDP; Li et al., VLDB 2020) Models that are
//                split, or whose states are sharded, have buckets of max(40e6, 1e6 per rank that shares the gradients)
//                elements unless told otherwise, or one where nothing overlaps: 25 MiB over 256 ranks is all latency
//                (NVIDIA/Megatron-LM megatron/core/distributed/distributed_data_parallel.py)
//                A bucket is full by the bytes of the gradients that parameters have (2 of 16-bit states, else 4): sent
//                in another format (strategy.gradients, a communication hook) it is as many elements
//   fusion       one message per tensor; they are fused when the schedule is known: FusionQueue
//   per-tensor   one message per tensor
//   flat         one message, ready after backward
//   partitions   every tensor in equal pieces of at most `partition` (BytePS, OSDI 2020)
// Buckets and the flat message are memory of their own: gradients are copied in and, summed, out again, which reads and
// writes each of them twice (torch/csrc/distributed/c10d/reducer.cpp: mark_variable_ready_dense,
// finalize_bucket_dense). A tensor with a sparse gradient sends the rows it touched (workload/model.h). Workers touch
// different rows, so all-reduce becomes an all-gather of them, one per table and never fused with others (as Horovod
// does).
//
// Compression changes a dense message of S bytes, n elements of m x k matrices, and costs GPU work:
//   top-k      density * n values and indices of 4 bytes, gathered; encoding reads the gradient 3 times (select) and
//              decoding adds every GPU's share
//   powersgd   P of m * rank, then Q of k * rank of every matrix, all-reduced: those of a bucket in one message each,
//              in a third what is sent whole, vectors and what is not made half as small; 6 m k rank FLOP, and the
//              columns of every P are made orthogonal, matrix by matrix
//              (torch/distributed/algorithms/ddp_comm_hooks/powerSGD_hook.py)
//   sign       n bits, gathered; encoding reads the gradient once, decoding adds every GPU's bits
// Of parameter servers, workers push what is compressed. Servers that update send whole weights back; those that only
// sum compress their sums again (BytePS docs/gradient-compression.md, two-way compression).
// Sources: Agarwal et al., MLSys 2022 (cost model); Vogels et al., NeurIPS 2019. m is a tensor's
// first size where its operator says it (convolution, linear, embedding, LSTM), else its square root. Sparse gradients
// are sent as they are.
//
// Worked example: tensors of 1, 20, 10 MiB in backward order, 25 MiB buckets -> {1}, {20 + 10}.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "ddlsim/plan/step_plan.h"
#include "ddlsim/plan/strategy.h"
#include "ddlsim/support/units.h"

namespace ddlsim::plan {

/// Which layers' gradients.
enum class Which { kAll, kChosen, kOthers };

struct Selection {
  Which which = Which::kAll;
  const std::vector<bool>* chosen = nullptr;  // by layer of the list that chunks are of; beyond its end: not chosen
  bool whole_tables = false;                  // sparse gradients are sent as dense ones
};

/// The gradients of a chunk's layers as rows ready after their backward, in the order of readiness. `batch` samples
/// decide how many rows of a table a sparse gradient touches.
[[nodiscard]] std::vector<Row> messages(const Chunk& chunk, const Strategy& strategy, std::int64_t batch,
                                        const Selection& selection = {});

/// `messages` of all layers of a chunk, for who asks the same often: kept, the oldest going first. Serves one thread.
class KeptMessages {
 public:
  [[nodiscard]] const std::vector<Row>& of(const Chunk& chunk, const Strategy& strategy, std::int64_t batch);

 private:
  static constexpr std::size_t kKept = 8;

  struct Asked {
    Chunk chunk;  // keeps the layers, so that their address stays theirs
    Strategy strategy;
    std::int64_t batch = 1;
    std::vector<Row> rows;
  };
  std::deque<Asked> kept_;
};

/// A gradient buffer on its own: a whole model's layers as one chunk.
[[nodiscard]] Chunk chunk_of(std::shared_ptr<const workload::Model> model);

/// Horovod's coordinator: wakes every cycle and sends what is ready, up to the buffer's size a message. The one rule of
/// fusion; who schedules says when tensors are ready and what sending does.
class FusionQueue {
 public:
  /// A message that goes out at a wake.
  struct Fused {
    Row row{};             // ready, needed and sizes of all that is in it
    std::size_t last = 0;  // the number of the tensor that was ready last
    Time wait{};           // since then
    bool alone = true;     // one tensor: nothing is copied into the buffer
  };

  /// It wakes first at `phase` cycles.
  FusionQueue(FusionRule rule, double phase) : rule_(rule), next_wake_(rule.cycle * phase) {}

  /// Ready times must not fall.
  void push(Time ready, const Row& row, std::size_t number) { waiting_.push_back({ready, row, number}); }

  /// Wakes before `now`. `send(wake, fused)` returns when the coordinator may go on: at once, or when a library that
  /// blocks it (MPI) is done.
  template <typename Send>
  void wake_until(Time now, Send send) {
    while (next_ < waiting_.size() && next_wake_ < now) {
      skip_idle_wakes();
      if (next_wake_ < now) wake(send);
    }
  }
  /// Sends what is left.
  template <typename Send>
  void finish(Send send) {
    while (next_ < waiting_.size()) {
      skip_idle_wakes();
      wake(send);
    }
  }

 private:
  struct Waiting {
    Time ready;
    Row row;
    std::size_t number = 0;
  };

  /// Wakes at which nothing is ready change nothing.
  void skip_idle_wakes() {
    const Time ready = waiting_[next_].ready;
    if (next_wake_ < ready) next_wake_ += rule_.cycle * std::ceil((ready - next_wake_) / rule_.cycle);
  }
  template <typename Send>
  void wake(Send send) {
    const Time now = next_wake_;
    Time free = Time::zero();
    while (next_ < waiting_.size() && waiting_[next_].ready <= now) free = send(now, take(now));
    next_wake_ = max(now + rule_.cycle, free);
  }
  [[nodiscard]] Fused take(Time now);

  FusionRule rule_;
  Time next_wake_;
  std::vector<Waiting> waiting_;
  std::size_t next_ = 0;
};

}  // namespace ddlsim::plan
