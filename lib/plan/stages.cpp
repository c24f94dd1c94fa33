// A pipeline's stages: who has which part, what crosses.
#include <algorithm>
#include <span>
#include <string>

#include "ddlsim/plan/order.h"
#include "ddlsim/workload/blocks.h"
#include "memo.h"
#include "splits.h"

namespace ddlsim::plan {
namespace {

using primitives::CollectiveOp;
using Starts = std::vector<std::size_t>;

/// The layers of several parts one after the other.
Chunk joined_chunk(const std::shared_ptr<const Layers>& layers, std::vector<Part>& parts) {
  Chunk chunk{layers, parts.front().layer, 0};
  bool follow = true;
  for (Part& part : parts) {
    part.first = chunk.count;
    follow = follow && part.layer == chunk.first + chunk.count;
    chunk.count += part.count;
  }
  if (follow) return chunk;
  auto which = std::make_shared<std::vector<std::size_t>>();
  which->reserve(chunk.count);
  for (const Part& part : parts) {
    for (std::size_t i = 0; i < part.count; ++i) which->push_back(part.layer + i);
  }
  chunk.which = std::move(which);
  return chunk;
}

/// What one micro-batch leaves of a part until its backward.
double kept_of(const Chunk& chunk, const Part& part) {
  double elements = 0;
  for (std::size_t i = 0; i < part.count; ++i) elements += static_cast<double>(chunk[part.first + i].saved_elements);
  return std::max(elements, 1.0);
}

void keep_in_flight(const Pipeline& pipeline, std::size_t stage, RankClass& one, Memo& memo) {
  std::vector<double> kept;
  for (const Part& part : one.parts) kept.push_back(kept_of(one.chunk, part));
  if (kept.size() == 1) {
    one.parts.front().in_flight = in_flight(pipeline, stage, kept).front();
    return;
  }
  auto& most = memo.in_flight[{pipeline.schedule, pipeline.stages, pipeline.virtual_stages, pipeline.micro_batches,
                               stage, kept}];
  if (most.empty()) most = in_flight(pipeline, stage, kept);
  for (std::size_t part = 0; part < one.parts.size(); ++part) one.parts[part].in_flight = most[part];
}

}  // namespace

Pipeline pipeline_of(const Job& job) {
  return {.schedule = job.parallel.schedule,
          .stages = job.parallel.pipeline,
          .virtual_stages = job.parallel.virtual_stages,
          .micro_batches = job.strategy.accumulation};
}

Work work_per_element(const Job& job) {
  const hardware::Gpu& gpu = job.cluster.node.gpu;
  if (!(gpu.memory_bandwidth > Bandwidth{})) return {};
  return gpu.peak.at(job.precision).value_or(gpu.peak.fp32) * (activation_size(job.precision) / gpu.memory_bandwidth);
}

LayerLoads loads_on(const Job& job, std::span<const workload::Layer> layers) {
  LayerLoads loads = loads_of(layers);
  loads.per_element = work_per_element(job);
  return loads;
}

namespace {

Expected<StageStarts> made_starts(const Job& job, const std::shared_ptr<const Layers>& layers, Memo& memo) {
  const std::size_t parts = positions_of(pipeline_of(job));
  const auto& cuts = job.parallel.cuts;
  const std::string named = parts == static_cast<std::size_t>(job.parallel.pipeline) ? "stage" : "part";
  if (cuts.empty()) {
    const auto [known, added] = memo.cut_places.try_emplace({layers.get(), work_per_element(job)});
    CutPlaces& places = known->second;
    if (added) {
      places = {.most = most_parts(*layers), .loads = loads_on(job, *layers), .points = {}};
      places.points = cut_points_of(workload::blocks_of(*layers), places.loads);
    }
    const std::size_t most = places.most;
    if (parts <= most || counts_ends(places.points, layers->size(), parts)) {
      return balanced_starts(places.points, places.loads, static_cast<double>(job.batch), parts);
    }
    const bool blocks = most < layers->size();
    return fail(ErrorCode::kInvalidArgument,
                std::to_string(parts) + " " + named + "s of " + std::to_string(most) + (blocks ? " blocks" : " layers"),
                {},
                {blocks ? "no framework cuts within a block: at most " + std::to_string(most) +
                              (counts_ends(places.points, layers->size(), most + 2)
                                   ? " (" + std::to_string(most + 2) + ": with embedding and head as one each)"
                                   : "") +
                              ", or state the cuts (parallel.layers_per_stage)"
                        : "every " + named + " needs a layer: at most " + std::to_string(most)});
  }
  Starts starts{0};
  starts.insert(starts.end(), cuts.begin(), cuts.end());
  if (starts.size() != parts) {
    return fail(ErrorCode::kInvalidArgument, std::to_string(cuts.size()) + " cuts for " + std::to_string(parts) + " " +
                                                 named + "s: one fewer than " + named + "s are needed");
  }
  for (std::size_t s = 0; s < parts; ++s) {
    const std::size_t end = s + 1 < parts ? starts[s + 1] : layers->size();
    if (starts[s] < end) continue;
    return fail(ErrorCode::kInvalidArgument, named + " " + std::to_string(s) + " has no layer", {},
                {"at most " + std::to_string(layers->size()) + " " + named + "s, each beginning after the one before"});
  }
  starts.push_back(layers->size());
  return StageStarts{std::move(starts), true};
}

}  // namespace

Expected<StageStarts> stage_starts(const Job& job, const std::shared_ptr<const Layers>& layers, Memo& memo) {
  const std::tuple key{layers.get(), work_per_element(job), positions_of(pipeline_of(job)), job.batch,
                       job.parallel.cuts};
  const auto known = memo.starts.find(key);
  if (known != memo.starts.end()) return known->second;
  auto made = made_starts(job, layers, memo);
  if (!made) return made;
  memo.starts.emplace(key, *made);
  return made;
}

Expected<void> add_stages(const Job& job, const std::shared_ptr<const Layers>& layers, Lowered how, StepPlan& plan,
                          Memo& memo) {
  const Pipeline pipeline = pipeline_of(job);
  const auto starts = stage_starts(job, layers, memo);
  if (!starts) return tl::unexpected<Error>(starts.error());
  const Starts& first = starts->first;
  plan.virtual_stages = pipeline.virtual_stages;
  for (std::size_t s = 0; s < static_cast<std::size_t>(pipeline.stages); ++s) {
    RankClass one;
    one.role = "stage " + std::to_string(s);
    one.ranks = job.cluster.gpus() / job.parallel.pipeline;
    one.stage = static_cast<std::int64_t>(s);
    for (std::size_t part = 0; part < static_cast<std::size_t>(parts_of(pipeline)); ++part) {
      const std::size_t q = position_of(pipeline, {s, part});
      one.parts.push_back({.count = first[q + 1] - first[q], .position = q, .layer = first[q]});
    }
    if (has_passes(how)) {
      one.chunk = joined_chunk(layers, one.parts);
    } else {
      one.chunk = {layers, 0, layers->size()};
      for (Part& part : one.parts) part.first = part.layer;
    }
    if (has_memory(how)) keep_in_flight(pipeline, s, one, memo);
    one.weight_versions = weight_versions(pipeline, s);
    plan.classes.push_back(std::move(one));
  }
  return {};
}

std::vector<PartChunk> part_chunks(const RankClass& one, const SplitModel& split) {
  if (one.parts.empty()) return {{one.chunk, 0}};
  std::vector<PartChunk> chunks;
  for (std::size_t i = one.parts.size(); i-- > 0;) {
    const Part& part = one.parts[i];
    chunks.push_back({{split.layers, part.layer, part.count}, part.first});
  }
  return chunks;
}

namespace {

std::span<const workload::Layer> layers_of(const RankClass& one, const Part& part) {
  return std::span(*one.chunk.layers).subspan(part.layer, part.count);
}

/// What a residual sum reads from before a cut within its block, beside the output of the last layer there. Blocks with
/// attention are not cut within.
double beside_output(std::span<const workload::Layer> before, std::span<const workload::Layer> behind) {
  const auto has_attention = [](std::span<const workload::Layer> layers) {
    return std::any_of(layers.begin(), layers.end(), workload::is_attention);
  };
  if (has_attention(before) || has_attention(behind)) return 0;
  for (std::size_t i = before.size(); i-- > 0;) {
    if (workload::is_residual(before[i])) return 0;  // a block ends there, but for what follows element by element
    if (!before[i].parameters.empty()) break;
  }
  const auto sum = std::find_if(behind.begin(), behind.end(), workload::is_residual);
  return sum == behind.end() ? 0 : static_cast<double>(sum->output_elements);
}

}  // namespace

std::vector<Row> boundary_rows(const Job& job, const StepPlan& plan) {
  const Pipeline pipeline = pipeline_of(job);
  const DataSize element = activation_size(job.precision);
  // Rows that are cut already are so in the layers' sizes. The gather over NVLink, some percent of a stage's pass, is
  // not counted.
  const bool scatters = job.parallel.scatter_gather && !job.parallel.sequence;
  const auto batch = static_cast<double>(job.batch) / static_cast<double>(scatters ? job.parallel.tensor : 1);
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
      const double sent = static_cast<double>(before.chunk[last].output_elements) +
                          beside_output(layers_of(before, left), layers_of(plan.classes[to.stage], right));
      Row row{.op = CollectiveOp::kSendRecv,
              .size = element * (sent * batch),
              .ready = {Moment::kForward, last},
              .needed = {Moment::kForward, right.first},
              .in_the_way = !job.parallel.overlap_p2p || blocks_launches(job),
              .rank_class = from.stage,
              .needed_by = to.stage,
              .group = boundary_group(plan, static_cast<std::int64_t>(from.stage), static_cast<std::int64_t>(to.stage)),
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
