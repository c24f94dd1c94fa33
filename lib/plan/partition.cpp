#include "ddlsim/plan/partition.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace ddlsim::plan {
namespace {

/// The best way to lay the first layers over the first workers.
struct Best {
  Time slowest = Time::infinity();
  std::size_t before = 0;   // layers of the stages before the last one; 0: there are none
  std::size_t workers = 0;  // of the last stage
};

class Chain {
 public:
  Chain(std::span<const ChainLayer> layers, const Workers& workers) : workers_(workers), weights_(layers.size() + 1) {
    std::size_t kinds = 0;
    for (const std::size_t kind : workers.kinds) kinds = std::max(kinds, kind + 1);
    times_.assign(kinds, std::vector<Time>(layers.size() + 1));
    for (std::size_t i = 0; i < layers.size(); ++i) {
      weights_[i + 1] = weights_[i] + layers[i].weights;
      for (std::size_t kind = 0; kind < kinds; ++kind) {
        times_[kind][i + 1] = times_[kind][i] + layers[i].times[kind];
      }
    }
  }

  /// Layers [first, end) on workers [from, to).
  [[nodiscard]] Time stage(std::size_t first, std::size_t end, std::size_t from, std::size_t to) const {
    Time work;
    for (std::size_t w = from; w < to; ++w) {
      const auto& times = times_[workers_.kinds[w]];
      work = max(work, times[end] - times[first]);
      if (times_.size() == 1) break;
    }
    const auto replicas = static_cast<double>(to - from);
    const DataSize sent = (weights_[end] - weights_[first]) * (4.0 * (replicas - 1.0));
    const Time sum = sent / (workers_.bandwidth * replicas) / static_cast<double>(workers_.per_machine);
    return (work + sum) / replicas;
  }

  [[nodiscard]] std::size_t layers() const { return weights_.size() - 1; }

 private:
  const Workers& workers_;
  std::vector<std::vector<Time>> times_;  // by kind: sums over the layers before
  std::vector<DataSize> weights_;
};

/// Whether stages that end so are taken instead.
bool better(Time slowest, std::size_t before, std::size_t workers, const Best& than) {
  if (slowest != than.slowest) return slowest < than.slowest;
  if (than.before == 0 || before < than.before) return false;
  return before > than.before || workers < than.workers;
}

/// Of the first `end` layers on the first `used` workers, where all that is shorter is known.
Best best_of(const Chain& chain, const std::vector<std::vector<Best>>& known, std::size_t end, std::size_t used) {
  Best best{.slowest = chain.stage(0, end, 0, used), .before = 0, .workers = used};
  for (std::size_t last = 1; last < used; ++last) {
    for (std::size_t before = end - 1; before > 0; --before) {
      const Time own = chain.stage(before, end, used - last, used);
      // A longer stage takes no less.
      if (own > best.slowest) break;
      const Time slowest = max(known[before][used - last].slowest, own);
      if (better(slowest, before, last, best)) best = {slowest, before, last};
    }
  }
  return best;
}

Expected<void> check_chain(std::span<const ChainLayer> layers, const Workers& workers) {
  const auto bad = [](std::string what) { return fail(ErrorCode::kInvalidArgument, std::move(what)); };
  if (layers.empty()) return bad("a chain without a layer has no stages");
  if (workers.kinds.empty()) return bad("stages need a worker");
  if (workers.bandwidth <= Bandwidth::zero() || workers.per_machine < 1) {
    return bad("workers need a bandwidth, and a machine one worker");
  }
  const std::size_t kind = *std::max_element(workers.kinds.begin(), workers.kinds.end());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].times.size() <= kind) return bad("layer " + std::to_string(i) + " has no time on a kind of worker");
  }
  const auto n = static_cast<double>(layers.size());
  const auto m = static_cast<double>(workers.kinds.size());
  if (n * n * m * m > std::exp2(34)) {
    return bad(std::to_string(layers.size()) + " layers on " + std::to_string(workers.kinds.size()) +
               " workers are too many partitions to compare");
  }
  return {};
}

}  // namespace

Expected<StagePartition> partition(std::span<const ChainLayer> layers, const Workers& workers) {
  if (auto sound = check_chain(layers, workers); !sound) return tl::unexpected<Error>(sound.error());
  const Chain chain(layers, workers);
  const std::size_t all = workers.kinds.size();
  std::vector<std::vector<Best>> known(layers.size() + 1, std::vector<Best>(all + 1));
  for (std::size_t used = 1; used <= all; ++used) {
    for (std::size_t end = 1; end <= layers.size(); ++end) known[end][used] = best_of(chain, known, end, used);
  }
  StagePartition result{.stages = {},
                        .slowest = known[layers.size()][all].slowest,
                        .data_parallel = chain.stage(0, layers.size(), 0, all),
                        .alone = Time::infinity()};
  for (std::size_t w = 0; w < all; ++w) result.alone = min(result.alone, chain.stage(0, layers.size(), w, w + 1));
  std::size_t end = layers.size();
  std::size_t used = all;
  while (end > 0) {
    const Best& best = known[end][used];
    result.stages.push_back({.first = best.before,
                             .count = end - best.before,
                             .replicas = static_cast<std::int64_t>(best.workers),
                             .time = chain.stage(best.before, end, used - best.workers, used)});
    end = best.before;
    used -= best.workers;
  }
  std::reverse(result.stages.begin(), result.stages.end());
  return result;
}

}  // namespace ddlsim::plan
