// The gradient messages of one step: what is sent, and after which layer's backward it may start.
//
// Backward visits the layers from last to first; a layer's tensors are ready when its backward ends.
// - buckets (all-reduce): consecutive tensors are fused until a bucket reaches its size; the first bucket is 1 MiB, the
//   others `Strategy::bucket`. A tensor is never split, so a bucket may overshoot. (PyTorch DDP; Li et al., VLDB 2020)
// - pieces (PS): every tensor is cut into pieces of at most `Strategy::partition`. (BytePS, OSDI 2020)
// A tensor with a sparse gradient sends the rows it touched (workload/model.h). Workers touch different rows, so
// all-reduce becomes an all-gather of them, one per table and never fused with others (as Horovod does).
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
  bool gathered = false;  // every GPU's share goes to all others, instead of being summed
};

[[nodiscard]] std::vector<Message> buckets(const workload::Model& model, const Strategy& strategy, std::int64_t batch);
[[nodiscard]] std::vector<Message> pieces(const workload::Model& model, const Strategy& strategy, std::int64_t batch);

}  // namespace ddlsim::plan
