// A pipeline's stages: where the model is cut, who has which part, what crosses.
//
// A model of alike blocks is cut between blocks: what stands before the first belongs to the first stage, what follows
// the last (head and loss) to the last. Where the parts divide the blocks every part gets as many (Megatron-LM). Else,
// and where a model has no alike blocks, the parts are contiguous and the one with the most work has as little as
// possible: forward and backward FLOPs, bytes read and written where FLOPs are alike. Models with residual sums are cut
// behind them. Among cuts that are equally good the first stages have less, as they keep the most micro-batches.
#include <algorithm>
#include <string>

#include "ddlsim/plan/order.h"
#include "splits.h"

namespace ddlsim::plan {
namespace {

using primitives::CollectiveOp;
using workload::Layer;
using Layers = std::vector<Layer>;
using Starts = std::vector<std::size_t>;

bool alike(const Layer& a, const Layer& b) {
  return a.forward_work == b.forward_work && a.backward_work == b.backward_work &&
         a.forward_elements == b.forward_elements && a.backward_elements == b.backward_elements &&
         a.output_elements == b.output_elements && a.saved_elements == b.saved_elements &&
         a.measured.has_value() == b.measured.has_value() && a.parameters == b.parameters &&
         (a.op ? a.op->index() : 0) == (b.op ? b.op->index() : 0);
}

/// A sum of two tensors: nothing else is on its way past it.
bool is_sum(const Layer& layer) {
  if (!layer.op) return false;
  const auto* combine = std::get_if<workload::Combine>(&*layer.op);
  return combine != nullptr && !combine->product;
}

/// A layer of one tensor that only follows up.
bool is_pointwise(const Layer& layer) { return layer.op && std::holds_alternative<workload::Pointwise>(*layer.op); }

/// Alike blocks: where each starts, and how long most of them are.
struct Blocks {
  Starts starts{};
  std::size_t length = 0;
};

/// Layers that repeat every `length`, as far as they do.
struct Repeats {
  std::size_t from = 0;
  std::size_t until = 0;
};

Repeats longest_repeats(const Layers& layers, std::size_t length) {
  Repeats best;
  std::size_t from = 0;
  for (std::size_t i = 0; i + length < layers.size(); ++i) {
    if (!alike(layers[i], layers[i + length])) {
      from = i + 1;
    } else if (i + 1 + length - from > best.until - best.from) {
      best = {from, i + 1 + length};
    }
  }
  return best;
}

/// Where in the repeats the first block begins: behind a sum if there is one.
std::size_t first_of(const Layers& layers, const Repeats& repeats, std::size_t length) {
  const std::size_t spare = (repeats.until - repeats.from) % length;
  for (std::size_t i = repeats.from; i <= repeats.from + spare; ++i) {
    if (i > 0 && is_sum(layers[i - 1])) return i;
  }
  return repeats.from;
}

/// Empty where less than half of the layers are alike blocks.
Blocks blocks_of(const Layers& layers) {
  constexpr std::size_t kSeen = 3;  // layers by which a block is known again
  for (std::size_t length = 1; 2 * length <= layers.size(); ++length) {
    const Repeats repeats = longest_repeats(layers, length);
    if (2 * (repeats.until - repeats.from) < layers.size() || repeats.until - repeats.from < 2 * length) continue;
    Blocks blocks{.length = length};
    const std::size_t first = first_of(layers, repeats, length);
    // Blocks whose inside differs begin alike (dense and expert layers of one model).
    const std::size_t seen = std::min(kSeen, length);
    for (std::size_t i = 0; i < first && length >= kSeen; ++i) {
      bool same = i + seen <= first;
      for (std::size_t k = 0; same && k < seen; ++k) same = alike(layers[i + k], layers[first + k]);
      if (same) blocks.starts.push_back(i);
    }
    for (std::size_t i = first; i + length <= repeats.until; i += length) blocks.starts.push_back(i);
    return blocks;
  }
  return {};
}

/// Where parts may begin; the first is 0.
Starts behind_sums(const Layers& layers) {
  Starts starts{0};
  for (std::size_t i = 0; i + 1 < layers.size(); ++i) {
    if (!is_sum(layers[i])) continue;
    std::size_t next = i + 1;
    while (next < layers.size() && is_pointwise(layers[next])) ++next;
    if (next < layers.size()) starts.push_back(next);
  }
  return starts;
}

Starts everywhere(std::size_t layers) {
  Starts starts(layers);
  for (std::size_t i = 0; i < layers; ++i) starts[i] = i;
  return starts;
}

/// What each piece between two starts weighs: its share of the FLOPs; of bytes and of layers so much less that they
/// decide between equals alone.
std::vector<double> weights_of(const Layers& layers, const Starts& starts, double batch) {
  constexpr double kTie = 1e-6;
  Work work;
  double elements = 0;
  const auto elements_of = [&](const Layer& layer) {
    return static_cast<double>(layer.forward_elements + layer.backward_elements) * batch +
           static_cast<double>(layer.forward_weight_elements + layer.backward_weight_elements);
  };
  for (const Layer& layer : layers) {
    work += layer.forward_work + layer.backward_work;
    elements += elements_of(layer);
  }
  std::vector<double> weights(starts.size());
  for (std::size_t u = 0; u < starts.size(); ++u) {
    const std::size_t end = u + 1 < starts.size() ? starts[u + 1] : layers.size();
    for (std::size_t i = starts[u]; i < end; ++i) {
      if (work > Work::zero()) weights[u] += (layers[i].forward_work + layers[i].backward_work) / work;
      if (elements > 0) weights[u] += elements_of(layers[i]) / elements * kTie;
      weights[u] += kTie * kTie / static_cast<double>(layers.size());
    }
  }
  return weights;
}

/// The first piece of each of so many parts of which none weighs more than `most`, filled from the end; empty: they do
/// not fit.
Starts filled(const std::vector<double>& weights, std::size_t parts, double most) {
  Starts starts(parts);
  std::size_t end = weights.size();
  for (std::size_t part = parts; part-- > 0;) {
    double sum = 0;
    std::size_t first = end;
    // Every part before it needs a piece.
    while (first > part && (first == end || sum + weights[first - 1] <= most)) sum += weights[--first];
    if (sum > most) return {};
    starts[part] = end = first;
  }
  return end == 0 ? starts : Starts{};
}

/// Contiguous parts, the heaviest as light as possible.
Starts balanced(const std::vector<double>& weights, std::size_t parts) {
  double low = 0;
  double high = 0;
  for (const double one : weights) high += one;
  high *= 1 + 1e-9;
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (low + high);
    (filled(weights, parts, middle).empty() ? low : high) = middle;
  }
  return filled(weights, parts, high);
}

Starts by_work(const Layers& layers, std::size_t parts, double batch) {
  Blocks blocks = blocks_of(layers);
  const std::size_t count = blocks.starts.size();
  Starts starts = blocks.starts;
  const bool whole = count > 0 && blocks.starts.front() < 2 * blocks.length;  // nothing but an embedding before them
  if (whole && count >= parts) {
    starts.front() = 0;
    if (count % parts == 0) {
      Starts even;
      for (std::size_t part = 0; part < parts; ++part) even.push_back(starts[part * (count / parts)]);
      return even;
    }
  } else {
    starts = behind_sums(layers);
    if (starts.size() < 2 * parts) starts = everywhere(layers.size());
  }
  Starts picked = balanced(weights_of(layers, starts, batch), parts);
  for (std::size_t& one : picked) one = starts[one];
  return picked;
}

/// The layers of several parts one after the other: themselves where they already follow each other.
Chunk joined(const std::shared_ptr<const Layers>& layers, std::vector<Part>& parts) {
  Chunk chunk{layers, parts.front().layer, 0};
  bool follow = true;
  for (Part& part : parts) {
    part.first = chunk.count;
    follow = follow && part.layer == chunk.first + chunk.count;
    chunk.count += part.count;
  }
  if (follow) return chunk;
  auto copy = std::make_shared<Layers>();
  copy->reserve(chunk.count);
  for (const Part& part : parts) {
    const auto first = layers->begin() + static_cast<std::ptrdiff_t>(part.layer);
    copy->insert(copy->end(), first, first + static_cast<std::ptrdiff_t>(part.count));
  }
  chunk.layers = std::move(copy);
  chunk.first = 0;
  return chunk;
}

/// What one micro-batch leaves of a part until its backward.
double kept_of(const Chunk& chunk, const Part& part) {
  double elements = 0;
  for (std::size_t i = 0; i < part.count; ++i) elements += static_cast<double>(chunk[part.first + i].saved_elements);
  return std::max(elements, 1.0);
}

}  // namespace

Pipeline pipeline_of(const Job& job) {
  return {.schedule = job.parallel.schedule,
          .stages = job.parallel.pipeline,
          .virtual_stages = job.parallel.virtual_stages,
          .micro_batches = job.strategy.accumulation};
}

Expected<Starts> stage_starts(const Job& job, const Layers& layers) {
  const std::size_t parts = positions_of(pipeline_of(job));
  const auto& cuts = job.parallel.cuts;
  const std::string named = parts == static_cast<std::size_t>(job.parallel.pipeline) ? "stage" : "part";
  if (cuts.empty()) {
    if (parts <= layers.size()) return by_work(layers, parts, static_cast<double>(job.batch));
    return fail(ErrorCode::kInvalidArgument,
                std::to_string(parts) + " " + named + "s of " + std::to_string(layers.size()) + " layers", {},
                {"every " + named + " needs a layer: at most " + std::to_string(layers.size())});
  }
  Starts starts{0};
  starts.insert(starts.end(), cuts.begin(), cuts.end());
  if (starts.size() != parts) {
    return fail(ErrorCode::kInvalidArgument, std::to_string(cuts.size()) + " cuts for " + std::to_string(parts) + " " +
                                                 named + "s: one fewer than " + named + "s are needed");
  }
  for (std::size_t s = 0; s < parts; ++s) {
    const std::size_t end = s + 1 < parts ? starts[s + 1] : layers.size();
    if (starts[s] < end) continue;
    return fail(ErrorCode::kInvalidArgument, named + " " + std::to_string(s) + " has no layer", {},
                {"at most " + std::to_string(layers.size()) + " " + named + "s, each beginning after the one before"});
  }
  return starts;
}

Expected<void> add_stages(const Job& job, const std::shared_ptr<const Layers>& layers, StepPlan& plan) {
  const Pipeline pipeline = pipeline_of(job);
  const auto starts = stage_starts(job, *layers);
  if (!starts) return tl::unexpected<Error>(starts.error());
  plan.virtual_stages = pipeline.virtual_stages;
  for (std::size_t s = 0; s < static_cast<std::size_t>(pipeline.stages); ++s) {
    RankClass one;
    one.role = "stage " + std::to_string(s);
    one.ranks = job.cluster.gpus() / job.parallel.pipeline;
    one.stage = static_cast<std::int64_t>(s);
    for (std::size_t part = 0; part < static_cast<std::size_t>(parts_of(pipeline)); ++part) {
      const std::size_t q = position_of(pipeline, {s, part});
      const std::size_t end = q + 1 < starts->size() ? (*starts)[q + 1] : layers->size();
      one.parts.push_back({.count = end - (*starts)[q], .position = q, .layer = (*starts)[q]});
    }
    one.chunk = joined(layers, one.parts);
    std::vector<double> kept;
    for (const Part& part : one.parts) kept.push_back(kept_of(one.chunk, part));
    const auto most = in_flight(pipeline, s, kept);
    for (std::size_t part = 0; part < one.parts.size(); ++part) one.parts[part].in_flight = most[part];
    one.weight_versions = weight_versions(pipeline, s);
    plan.classes.push_back(std::move(one));
  }
  return {};
}

std::vector<PartChunk> part_chunks(const RankClass& one) {
  if (one.parts.empty()) return {{one.chunk, 0}};
  std::vector<PartChunk> chunks;
  for (std::size_t i = one.parts.size(); i-- > 0;) {
    const Part& part = one.parts[i];
    chunks.push_back({{one.chunk.layers, one.chunk.first + part.first, part.count}, part.first});
  }
  return chunks;
}

std::vector<Row> boundary_rows(const Job& job, const StepPlan& plan) {
  const Pipeline pipeline = pipeline_of(job);
  std::size_t group = 0;
  while (plan.groups[group].along != Axis::kPipeline) ++group;
  const DataSize element = activation_size(job.precision);
  const auto batch = static_cast<double>(job.batch);
  std::vector<Row> rows;
  for (std::int64_t direction = 0; direction < directions_of(pipeline.schedule); ++direction) {
    for (std::size_t q = 0; q + 1 < positions_of(pipeline); ++q) {
      const Place from = place_of(pipeline, q, direction);
      const Place to = place_of(pipeline, q + 1, direction);
      if (from.stage == to.stage) continue;  // the turn of a V
      const RankClass& before = plan.classes[from.stage];
      const Part& left = before.parts[from.part];
      const Part& right = plan.classes[to.stage].parts[to.part];
      const std::size_t last = left.first + left.count - 1;
      Row row{.op = CollectiveOp::kSendRecv,
              .size = element * (static_cast<double>(before.chunk[last].output_elements) * batch),
              .ready = {Moment::kForward, last},
              .needed = {Moment::kForward, right.first},
              .in_the_way = !job.parallel.overlap_p2p,
              .rank_class = from.stage,
              .needed_by = to.stage,
              .group = group,
              .every_pass = true};
      rows.push_back(row);
      row.ready = {Moment::kBackward, right.first};
      row.needed = {Moment::kBackward, last};
      std::swap(row.rank_class, row.needed_by);
      rows.push_back(row);
    }
  }
  return rows;
}

}  // namespace ddlsim::plan
