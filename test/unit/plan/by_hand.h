// Models and jobs of the tests of plan/lower.h, small enough to work out by hand.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "ddlsim/plan/lower.h"

namespace ddlsim::test {

inline std::shared_ptr<const workload::Model> model_of(std::vector<workload::Layer> layers, std::string id) {
  workload::Model model;
  model.id = std::move(id);
  model.layers = std::move(layers);
  model.totals = workload::total(model.layers).value();
  return std::make_shared<const workload::Model>(std::move(model));
}

inline workload::Layer made_layer(const workload::Op& op, const workload::Shape& in, std::string name) {
  return workload::layer_of(op, in, std::move(name)).value().layer;
}

/// A block of Llama's kind on 32 rows of 512: 8 query heads and 2 key heads of 64, an MLP of 1024. 14 layers.
inline void add_block(std::vector<workload::Layer>& layers) {
  using namespace workload;
  const Shape rows{32, 512};
  const Shape inside{32, 1024};
  const auto add = [&](const Op& op, const Shape& in, std::string name) {
    layers.push_back(made_layer(op, in, std::move(name)));
  };
  const auto product = [](std::int64_t out) { return Linear{.out = out, .bias = false}; };
  add(RmsNorm{}, rows, "norm");
  add(product(512), rows, "q");
  add(product(128), rows, "k");
  add(product(128), rows, "v");
  add(Pointwise{}, {32, 640}, "rotary");
  add(GroupedAttention{.heads = 8, .kv_heads = 2, .width = 64, .causal = true}, rows, "attention");
  add(product(512), rows, "o");
  add(Combine{}, rows, "residual");
  add(RmsNorm{}, rows, "norm 2");
  add(product(1024), rows, "gate");
  add(product(1024), rows, "up");
  add(Combine{.product = true, .gated = true}, inside, "swiglu");
  add(product(512), inside, "down");
  add(Combine{}, rows, "residual 2");
}

/// A table, blocks, a norm and the head over 1000 tokens. Blocks begin at layer 1.
inline std::shared_ptr<const workload::Model> decoder(int blocks) {
  using namespace workload;
  std::vector<Layer> layers{made_layer(Embedding{.rows = 1000, .width = 512, .lookups = 32}, {32}, "tokens")};
  for (int i = 0; i < blocks; ++i) add_block(layers);
  layers.push_back(made_layer(RmsNorm{}, {32, 512}, "last norm"));
  layers.push_back(made_layer(Linear{.out = 1000, .bias = false}, {32, 512}, "head"));
  layers.push_back(made_layer(Pointwise{.reads = Reads::kOutput, .over_rows = true}, {32, 1000}, "loss"));
  return model_of(std::move(layers), "decoder");
}

/// Weights of such a block: norms, queries and output, keys and values, three of the MLP.
inline constexpr double kBlockWeights = 2 * 512 + 2 * 512 * 512 + 2 * 512 * 128 + 3 * 512 * 1024;

/// 32 rows of 512 through 8 experts of 256, 2 of them each, after their router.
inline std::shared_ptr<const workload::Model> mixture() {
  using namespace workload;
  return model_of(
      {made_layer(RmsNorm{}, {32, 512}, "norm"), made_layer(Linear{.out = 8, .bias = false}, {32, 512}, "router"),
       made_layer(Pointwise{.reads = Reads::kOutput, .over_rows = true}, {32, 8}, "routing"),
       made_layer(Experts{.experts = 8, .active = 2, .width = 256}, {32, 512}, "experts"),
       made_layer(Combine{}, {32, 512}, "residual")},
      "mixture");
}

inline plan::Job job_on(std::shared_ptr<const workload::Model> model, std::int64_t nodes, std::int64_t gpus_per_node) {
  plan::Job job;
  job.model = std::move(model);
  job.cluster.nodes = nodes;
  job.cluster.gpus_per_node = job.cluster.node.gpus = gpus_per_node;
  return job;
}

inline std::vector<plan::Row> rows_in(const plan::StepPlan& plan, plan::GroupRole role) {
  std::vector<plan::Row> found;
  for (const plan::Row& row : plan.rows) {
    if (row.kind == plan::RowKind::kCollective && plan.groups[row.group].role == role) found.push_back(row);
  }
  return found;
}

inline plan::RankGroup group_of_role(const plan::StepPlan& plan, plan::GroupRole role) {
  const auto found =
      std::find_if(plan.groups.begin(), plan.groups.end(), [&](const auto& g) { return g.role == role; });
  REQUIRE(found != plan.groups.end());
  return *found;
}

inline std::vector<plan::Row> rows_of_kind(const plan::StepPlan& plan, plan::RowKind kind) {
  std::vector<plan::Row> found;
  std::copy_if(plan.rows.begin(), plan.rows.end(), std::back_inserter(found),
               [&](const plan::Row& row) { return row.kind == kind; });
  return found;
}

/// Of one operation that goes on around a pass of a layer.
inline std::vector<plan::Row> around(const std::vector<plan::Row>& rows, primitives::CollectiveOp op,
                                     plan::Point needed) {
  std::vector<plan::Row> found;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(found),
               [&](const plan::Row& row) { return row.op == op && row.needed == needed; });
  return found;
}

inline constexpr plan::Point forward(std::size_t layer) { return {plan::Moment::kForward, layer}; }
inline constexpr plan::Point backward(std::size_t layer) { return {plan::Moment::kBackward, layer}; }
inline constexpr plan::Point kBegin{plan::Moment::kBegin, 0};
inline constexpr plan::Point kUpdate{plan::Moment::kUpdate, 0};

inline Error refused(const plan::Job& job) {
  const auto plan = plan::lower(job);
  REQUIRE_FALSE(plan);
  return plan.error();
}

/// Of all ranks' layers.
inline Work work_of(const plan::StepPlan& plan, bool forward) {
  Work all;
  for (const plan::RankClass& one : plan.classes) {
    for (std::size_t i = 0; i < one.chunk.count; ++i) {
      all += forward ? one.chunk[i].forward_work : one.chunk[i].backward_work;
    }
  }
  return all;
}

}  // namespace ddlsim::test
