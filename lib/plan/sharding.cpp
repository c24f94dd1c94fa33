// Weights, gradients and states that data-parallel ranks share: ZeRO, FSDP, HSDP.
#include <algorithm>
#include <string>

#include "ddlsim/plan/memory.h"
#include "ddlsim/plan/messages.h"
#include "splits.h"

namespace ddlsim::plan {
namespace {

using primitives::CollectiveOp;

bool is_sixteen(const Job& job) { return job.parallel.states && *job.parallel.states != States::kFp32; }

/// Layers that are gathered, and whose gradients are scattered, as one.
struct Unit {
  std::size_t first = 0;
  std::size_t last = 0;  // inclusive
  double trained = 0;    // elements of those that a row is about: experts or all others
  double elements = 0;   // and frozen ones
};

class Sharding {
 public:
  Sharding(const Job& job, const StepPlan& plan, const SplitModel& split, std::size_t rank_class, const Chunk& chunk)
      : job_(job), plan_(plan), split_(split), chunk_(chunk), rank_class_(rank_class), strategy_(as_sent(job)) {}

  std::vector<Row> rows() {
    for (const bool experts : {false, true}) {
      experts_ = experts;
      if (experts && split_.experts.empty()) continue;
      auto found = group_of(plan_, experts ? GroupRole::kExpertShards : GroupRole::kShards);
      if (experts && !found) found = group_of(plan_, GroupRole::kExpertGradients);
      if (experts && !found) continue;  // every rank has experts of its own
      group_ = found.value_or(0);
      ranks_ = static_cast<double>(plan_.groups[group_].ranks);
      if (ranks_ == 1 && !copies() && !job_.parallel.offload_weights) continue;
      if (job_.parallel.zero >= 3) {
        by_units();
      } else {
        by_messages();
      }
    }
    return std::move(rows_);
  }

 private:
  [[nodiscard]] bool mine(std::size_t i) const { return split_.is(split_.experts, chunk_.first + i) == experts_; }

  Row& add(CollectiveOp op, DataSize share, Point ready, Point needed) {
    rows_.push_back({.op = op,
                     .size = share,
                     .ready = ready,
                     .needed = needed,
                     .rank_class = rank_class_,
                     .needed_by = rank_class_,
                     .group = group_});
    return rows_.back();
  }

  /// Of the shard (HSDP).
  [[nodiscard]] std::optional<std::size_t> copies() const {
    return group_of(plan_, experts_ ? GroupRole::kExpertCopies : GroupRole::kCopies);
  }

  /// A scattered sum, where several ranks share, and the same of the shard's copies.
  void scatter(DataSize share, std::int64_t count, Point ready, bool every_pass) {
    std::size_t scattered = kNoRow;
    if (ranks_ > 1) {
      Row& row = add(CollectiveOp::kReduceScatter, share, ready, {Moment::kUpdate, 0});
      row.every_pass = every_pass;
      row.count = count;
      scattered = rows_.size() - 1;
    }
    const auto others = copies();
    if (!others) return;
    Row& sum = add(CollectiveOp::kAllReduce, share, ready, {Moment::kUpdate, 0});
    sum.every_pass = every_pass;
    sum.count = count;
    sum.group = *others;
    sum.after = scattered;
  }

  /// Gradients as the strategy groups them; what a rank has updated goes to the others before the next forward pass, or
  /// beside it.
  void by_messages() {
    const bool every_pass = job_.parallel.zero >= 2;
    const DataSize gradient = gradient_size(strategy_.gradients);
    const Which which = experts_ ? Which::kChosen : split_.experts.empty() ? Which::kAll : Which::kOthers;
    const std::vector<Row> sums =
        messages(chunk_, strategy_, 1, {.which = which, .chosen = &split_.experts, .whole_tables = true});
    for (const Row& sum : sums) scatter(sum.size / ranks_, sum.count, sum.ready, every_pass);
    for (auto sum = sums.rbegin(); sum != sums.rend() && ranks_ > 1; ++sum) {
      const DataSize share = gathered_weight(job_, false) * (sum->size / gradient / ranks_);
      const bool beside = job_.parallel.overlap_gather;
      Row& row = beside
                     ? add(CollectiveOp::kAllGather, share, {Moment::kBegin, 0}, {Moment::kForward, sum->ready.layer})
                     : add(CollectiveOp::kAllGather, share, {Moment::kUpdate, 0}, {});
      row.in_the_way = !beside;
      row.count = sum->count;
    }
  }

  [[nodiscard]] Unit unit_of(std::size_t first, std::size_t last) const {
    Unit unit{first, last};
    for (std::size_t i = first; i <= last; ++i) {
      if (!mine(i)) continue;
      double trained = 0;
      for (const std::int64_t tensor : chunk_[i].parameters) trained += static_cast<double>(tensor);
      unit.trained += trained;
      unit.elements += trained + static_cast<double>(chunk_[i].frozen_elements);
    }
    return unit;
  }

  [[nodiscard]] bool runs_backward(const Unit& unit) const {
    for (std::size_t i = unit.first; i <= unit.last; ++i) {
      if (!workload::runs_forward_alone(chunk_[i])) return true;
    }
    return false;
  }
  /// Of a unit's weights, in a format, but for those that are quantised.
  [[nodiscard]] DataSize weights(const Unit& unit, DataSize format) const {
    double quantised = 0;
    for (std::size_t i = unit.first; i <= unit.last && job_.parallel.frozen_bits > 0; ++i) {
      if (mine(i)) quantised += static_cast<double>(chunk_[i].quantised_elements);
    }
    return format * (unit.elements - quantised) + workload::quantised_weight(job_.parallel.frozen_bits) * quantised;
  }
  /// As every use gathers them.
  [[nodiscard]] DataSize gathered(const Unit& unit) const { return weights(unit, gathered_weight(job_, true)); }
  /// As they wait on the host: FSDP casts what it has copied.
  [[nodiscard]] DataSize kept(const Unit& unit) const {
    const States states = job_.parallel.states.value_or(States::kFp32);
    const DataSize trained = state_sizes(states, plan_.model->optimizer).weight;
    const DataSize frozen = frozen_weight(job_, trained);
    return weights(unit, frozen) + (trained - frozen) * unit.trained;
  }

  [[nodiscard]] std::vector<Unit> units() const {
    std::vector<Unit> units;
    const std::size_t end = chunk_.first + chunk_.count;
    for (const workload::Block& block : split_.blocks) {
      const std::size_t first = std::max(block.first, chunk_.first);
      const std::size_t last = std::min(block.first + block.count, end);
      if (first >= last) continue;
      const Unit unit = unit_of(first - chunk_.first, last - 1 - chunk_.first);
      if (unit.elements > 0) units.push_back(unit);
    }
    return units;
  }

  void by_units() {
    const std::vector<Unit> all = units();
    const auto ahead = static_cast<std::size_t>(job_.parallel.prefetch);
    const bool once = keeps_gradients_whole(job_.parallel, job_.strategy.accumulation);
    const bool every_pass = !once || job_.parallel.reshard;
    const auto gather = [&](const Unit& unit, Point ready, Point needed) {
      std::size_t copied = kNoRow;
      if (job_.parallel.offload_weights) {
        rows_.push_back({.kind = RowKind::kCopyBack,
                         .size = kept(unit) / ranks_,
                         .ready = ready,
                         .needed = needed,
                         .rank_class = rank_class_,
                         .needed_by = rank_class_,
                         .every_pass = every_pass});
        copied = rows_.size() - 1;
      }
      if (ranks_ == 1) return;
      Row& row = add(CollectiveOp::kAllGather, gathered(unit) / ranks_, ready, needed);
      row.every_pass = every_pass;
      row.after = copied;
    };
    for (std::size_t n = 0; n < all.size(); ++n) {
      // A unit's weights are asked for when the one `ahead` units before it starts.
      const Point start = n < ahead + 1 ? Point{Moment::kBegin, 0} : Point{Moment::kForward, all[n - ahead - 1].last};
      gather(all[n], start, {Moment::kForward, all[n].first});
    }
    // Backward begins with the last unit, whose weights are still there.
    for (std::size_t n = all.size(); job_.parallel.reshard && n-- > 1;) {
      const Unit& unit = all[n - 1];
      if (!runs_backward(unit)) continue;
      const std::size_t after = n + ahead;
      const Point start =
          after < all.size() ? Point{Moment::kBackward, all[after].first} : Point{Moment::kForward, chunk_.count - 1};
      gather(unit, start, {Moment::kBackward, unit.last});
    }
    const DataSize gradient = gradient_size(strategy_.gradients);
    for (std::size_t n = all.size(); n-- > 0;) {
      const Unit& unit = all[n];
      if (unit.trained > 0) scatter(gradient * (unit.trained / ranks_), 1, {Moment::kBackward, unit.first}, !once);
    }
  }

  const Job& job_;
  const StepPlan& plan_;
  const SplitModel& split_;
  const Chunk& chunk_;
  std::size_t rank_class_;
  Strategy strategy_;
  bool experts_ = false;
  std::size_t group_ = 0;
  double ranks_ = 1;
  std::vector<Row> rows_;
};

/// Who splits a model or shards its states sends buckets of Megatron's size (plan/messages.h), unless told otherwise.
void enlarge_buckets(Strategy& strategy, const Job& job) {
  constexpr double kFewest = 40e6;  // elements
  constexpr double kPerRank = 1e6;
  const auto model_ranks = static_cast<double>(job.parallel.tensor * job.parallel.pipeline);
  const double ranks = static_cast<double>(job.cluster.gpus()) / model_ranks;
  const bool whole = overlap_of(job) == Overlap::kNone;
  const DataSize full =
      whole ? DataSize::infinity() : gradient_size(strategy.gradients) * std::max(kFewest, kPerRank * ranks);
  strategy.bucket.set(full);
  if (strategy.first_bucket.origin() == Origin::kDefault) strategy.first_bucket.set(full);
}

/// Buckets are full by the bytes of the gradients that parameters have: what a hook sends in another format is as many
/// elements (torch/csrc/distributed/c10d/reducer.cpp, compute_bucket_assignment_by_size; fp16_compress_hook casts a
/// bucket's buffer).
void fill_before_sending(Strategy& strategy, const Job& job) {
  if (grouping_of(strategy) != Grouping::kBuckets) return;
  const DataSize own =
      job.parallel.states ? state_sizes(*job.parallel.states, job.model->optimizer).gradient : bytes(4);
  const double sent = gradient_size(strategy.gradients) / own;
  for (Stated<DataSize>* size : {&strategy.first_bucket, &strategy.bucket}) *size = by_default(size->get() * sent);
}

}  // namespace

DataSize gathered_weight(const Job& job, bool by_every_use) {
  if (job.parallel.gather_fp8) return bytes(1);
  if (is_sixteen(job)) return bytes(2);
  return by_every_use ? activation_size(job.precision) : gradient_size(job.strategy.gradients);
}

Strategy as_sent(const Job& job) {
  Strategy strategy = job.strategy;
  const bool sixteen = job.parallel.states && sums_sixteen(*job.parallel.states);
  if (sixteen && !strategy.gradients.stated()) strategy.gradients = by_default(Precision::kBf16);
  const bool by_ranks = takes_ranks(job.parallel) && strategy.bucket.origin() == Origin::kDefault;
  by_ranks ? enlarge_buckets(strategy, job) : fill_before_sending(strategy, job);
  return strategy;
}

std::vector<Row> sharded_rows(const Job& job, const StepPlan& plan, const SplitModel& split, std::size_t rank_class,
                              const Chunk& chunk) {
  return Sharding(job, plan, split, rank_class, chunk).rows();
}

}  // namespace ddlsim::plan
