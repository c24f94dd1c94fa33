// The gradient messages of one step: what is sent, and after which layer's backward it may start.
//
// Backward visits the layers from last to first; a layer's tensors are ready when its backward ends. Strategy::grouping
// says how tensors become messages:
//   buckets      consecutive tensors until a bucket is full; the first holds `first_bucket`, the others `bucket`. A
//                tensor is never split, so a bucket may overshoot. (PyTorch DDP; Li et al., VLDB 2020)
//   fusion       one message per tensor; they are fused when the schedule is known (step/step.h)
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
//   powersgd   P of m * rank, then Q of k * rank per matrix, all-reduced; vectors are sent whole; 6 m k rank FLOP
//   sign       n bits, gathered; encoding reads the gradient once, decoding adds every GPU's bits
// Sources: Agarwal et al., MLSys 2022 (cost model); Vogels et al., NeurIPS 2019. A matrix is taken to be square, m = k,
// which is what minimises its factors: a bound in PowerSGD's favour. Sparse gradients are sent as they are.
//
// Worked example: tensors of 1, 20, 10 MiB in backward order, 25 MiB buckets -> {1}, {20 + 10}.
#pragma once

#include <cstdint>
#include <vector>

#include "ddlsim/plan/strategy.h"
#include "ddlsim/support/units.h"
#include "ddlsim/workload/model.h"

namespace ddlsim::plan {

/// `count` messages of `size` bytes each that may start when backward of layer `after` has ended.
struct Message {
  DataSize size{};
  std::int64_t count = 1;
  std::size_t after = 0;
  bool gathered = false;     // every GPU's share goes to all others, instead of being summed
  std::int64_t server = -1;  // that holds it; -1: spread over all
  DataSize coded{};          // GPU memory traffic of copying, encoding and decoding it
  DataSize coded_per_gpu{};  // and of decoding, for every GPU that takes part
  Work coding{};             // arithmetic of encoding and decoding
};

/// In the order of readiness.
[[nodiscard]] std::vector<Message> messages(const workload::Model& model, const Strategy& strategy, std::int64_t batch);

}  // namespace ddlsim::plan
