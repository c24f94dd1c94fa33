// One process of one server that shares out batch and weights, and collects outputs and gradients, on GPU 0:
// torch.nn.DataParallel (torch/nn/parallel/data_parallel.py: scatter, replicate, parallel_apply, gather).
#include <algorithm>
#include <cmath>
#include <string>

#include "ddlsim/plan/messages.h"
#include "splits.h"
#include "update.h"

namespace ddlsim::plan {
namespace {

using primitives::CollectiveOp;

/// buffer_size of torch.cuda.comm.broadcast_coalesced and reduce_add_coalesced.
constexpr DataSize kCoalesced = bytes(10'485'760);

/// What goes out for a pass, and what comes back of it.
struct Exchanged {
  DataSize weights;
  DataSize gradients;
};

/// replicate() sends every parameter, frozen ones too, in the format it is kept in; reduce_add_coalesced those
/// gradients that there are.
Exchanged exchanged_of(const Job& job, const StepPlan& plan, const Chunk& chunk) {
  if (!splits_model(job.parallel)) {
    const DataSize all = bytes(4) * workload::gradient_elements(*plan.model, job.batch);
    return {all, all};
  }
  const States states = job.parallel.states.value_or(States::kFp32);
  const StateSizes sizes = state_sizes(states, plan.model->optimizer);
  const DataSize weight = min(sizes.weight, states == States::kFp32 ? bytes(4) : bytes(2));
  const DataSize frozen = frozen_weight(job, weight);
  Exchanged all;
  for (std::size_t i = 0; i < chunk.count; ++i) {
    const workload::Layer& layer = chunk[i];
    double trained = 0;
    for (const std::int64_t tensor : layer.parameters) {
      trained += layer.sparse_gradient ? workload::touched_elements({tensor, layer.sparse_elements}, job.batch)
                                       : static_cast<double>(tensor);
    }
    const auto quantised = static_cast<double>(layer.quantised_elements);
    all.weights += weight * trained + frozen * (static_cast<double>(layer.frozen_elements) - quantised) +
                   workload::quantised_weight(job.parallel.frozen_bits) * quantised;
    all.gradients += sizes.gradient * trained;
  }
  return all;
}

class SharedOut {
 public:
  SharedOut(const Job& job, StepPlan& plan) : job_(job), plan_(plan), peers_(plan.groups.front().ranks - 1) {}

  void add_rows() {
    const Strategy& strategy = job_.strategy;
    const Chunk& chunk = plan_.classes.front().chunk;
    const Point begin{Moment::kBegin, 0};
    const Point end{Moment::kForward, chunk.count - 1};
    if (!strategy.split_on_host || !strategy.preload) add_input(begin);
    if (!strategy.split_on_host) send(plan_.input, begin);
    const Exchanged exchanged = exchanged_of(job_, plan_, chunk);
    broadcast(exchanged.weights, begin);
    const Layer& last = chunk[chunk.count - 1];
    const DataSize output =
        activation_size(job_.precision) * (static_cast<double>(last.output_elements) * static_cast<double>(job_.batch));
    send(output, end);  // outputs to GPU 0, and back their gradients
    send(output, end);
    coalesced(CollectiveOp::kReduce, exchanged.gradients, {Moment::kBackward, 0});
    if (!strategy.split_on_host || !strategy.preload) plan_.input = DataSize::zero();
  }

 private:
  using Layer = workload::Layer;

  Row& add(const Row& row) {
    plan_.rows.push_back(row);
    plan_.rows.back().in_the_way = true;
    plan_.rows.back().every_pass = true;
    return plan_.rows.back();
  }
  /// The batch from the host: all of it to GPU 0, or to every GPU its part.
  void add_input(Point begin) {
    const double parts = job_.strategy.split_on_host ? 1.0 : static_cast<double>(peers_ + 1);
    Row& row = add({.kind = RowKind::kCopyBack, .size = plan_.input * parts, .ready = begin, .needed = begin});
    row.alone = !job_.strategy.split_on_host;
    if (!job_.strategy.preload) return;
    row.in_the_way = false;
    row.needed = {Moment::kUpdate, 0};
  }
  /// To or from every other GPU in turn, over GPU 0's own link.
  void send(DataSize size, Point at) {
    add({.op = CollectiveOp::kSendRecv, .size = size, .count = peers_, .ready = at, .needed = at});
  }
  Row& coalesced(CollectiveOp op, DataSize size, Point at) {
    const double count = std::max(std::ceil(size / kCoalesced), 1.0);
    Row& row =
        add({.op = op, .size = size / count, .count = static_cast<std::int64_t>(count), .ready = at, .needed = at});
    row.encoded = size * 2.0;  // into the buffer
    return row;
  }
  void broadcast(DataSize weights, Point begin) {
    const double ratio = job_.strategy.parameter_compression;
    Row& row = coalesced(CollectiveOp::kBroadcast, weights / ratio, begin);
    // Read whole and written small, and the other way round.
    if (ratio > 1) row.encoded += (weights + weights / ratio) * 2.0;
  }

  const Job& job_;
  StepPlan& plan_;
  std::int64_t peers_;
};

}  // namespace

Expected<StepPlan> lower_data_parallel(const Job& job, const SplitModel& split, StepPlan plan, Memo& memo) {
  if (job.cluster.nodes > 1) {
    return fail(ErrorCode::kUnsupported,
                "data-parallel is one process of one server; the job has " + std::to_string(job.cluster.nodes), {},
                {"use strategy allreduce"});
  }
  if (job.straggler > 1) return fail(ErrorCode::kUnsupported, "data-parallel on GPUs of two speeds");
  if (job.overlap == Overlap::kIdeal) {
    return fail(ErrorCode::kUnsupported, "data-parallel sends before and after, beside nothing", {},
                {"leave overlap out"});
  }
  const Chunk all{split.layers, 0, split.layers->size()};
  const bool splits = splits_model(job.parallel);
  RankClass one{.role = "replica", .ranks = job.cluster.gpus(), .chunk = all};
  one.updated = splits ? updated_by(job, plan, split, all)
                       : bytes(4) * workload::gradient_elements(*plan.model, job.batch) * accesses_of_update(job);
  one.update_launches = launches_of_update(job, all);
  one.updates_on_gpu = !(plan.model->measured && plan.model->measured->update);
  plan.classes.push_back(one);
  plan.exchange.overlap = Overlap::kNone;
  plan.folds = false;
  if (job.cluster.gpus() > 1) SharedOut(job, plan).add_rows();
  if (job.parallel.offload_activations) {
    const std::size_t before = plan.rows.size();
    for (Row& row : activation_rows(job, plan, split, 0, all, memo)) {
      if (row.after != kNoRow) row.after += before;
      plan.rows.push_back(row);
    }
  }
  add_memory(job, split, plan, memo);
  return plan;
}

}  // namespace ddlsim::plan
