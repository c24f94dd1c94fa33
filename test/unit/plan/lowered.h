// Models and jobs of the tests of plan/lower.h whose rows are counted by hand.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ddlsim/plan/lower.h"

namespace ddlsim::test {

using namespace plan;
using primitives::CollectiveOp;
using workload::Layer;

/// Layers that have so many parameters each, in forward order.
inline std::shared_ptr<const workload::Model> model_of(std::vector<std::int64_t> parameters) {
  workload::Model model;
  model.id = "by-hand";
  for (const std::int64_t elements : parameters) {
    Layer layer;
    layer.name = "layer " + std::to_string(model.layers.size());
    layer.forward_work = gigaflops(1);
    layer.backward_work = gigaflops(2);
    layer.parameters = {elements};
    layer.output_elements = 1000;
    layer.saved_elements = 1000;
    model.layers.push_back(layer);
  }
  model.totals = workload::total(model.layers).value();
  return std::make_shared<const workload::Model>(std::move(model));
}

/// One block of a transformer: queries, keys and values, attention, its output; the MLP's two products.
inline std::shared_ptr<const workload::Model> block() {
  using namespace workload;
  const Shape rows{32, 512};
  const Shape inside{32, 2048};
  workload::Model model;
  model.id = "block";
  const auto add = [&](const Op& op, const Shape& in, std::string name) {
    model.layers.push_back(layer_of(op, in, std::move(name)).value().layer);
  };
  add(LayerNorm{}, rows, "norm");
  add(Linear{.out = 1536}, rows, "qkv");
  add(Attention{.heads = 8}, rows, "attention");
  add(Linear{.out = 512}, rows, "attention output");
  add(Combine{}, rows, "residual");
  add(Linear{.out = 2048}, rows, "up");
  add(Pointwise{.reads = Reads::kOutput}, inside, "gelu");
  add(Linear{.out = 512}, inside, "down");
  model.totals = workload::total(model.layers).value();
  return std::make_shared<const workload::Model>(std::move(model));
}

inline Job job_of(std::shared_ptr<const workload::Model> model, std::int64_t nodes, std::int64_t gpus_per_node) {
  Job job;
  job.model = std::move(model);
  job.cluster.nodes = nodes;
  job.cluster.gpus_per_node = job.cluster.node.gpus = gpus_per_node;
  return job;
}

inline std::vector<Row> rows_of(const StepPlan& plan, RowKind kind, CollectiveOp op = CollectiveOp::kAllReduce) {
  std::vector<Row> found;
  std::copy_if(plan.rows.begin(), plan.rows.end(), std::back_inserter(found),
               [&](const Row& row) { return row.kind == kind && (kind != RowKind::kCollective || row.op == op); });
  return found;
}

constexpr Point forward(std::size_t layer) { return {Moment::kForward, layer}; }
constexpr Point backward(std::size_t layer) { return {Moment::kBackward, layer}; }
constexpr Point kUpdate{Moment::kUpdate, 0};
constexpr Point kNobody{};

inline std::vector<Row> all_rows(const Job& job) { return lower(job).value().rows; }

inline Error refused(const Job& job) {
  const auto plan = lower(job);
  REQUIRE_FALSE(plan);
  return plan.error();
}

}  // namespace ddlsim::test
