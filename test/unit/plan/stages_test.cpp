// Where a pipeline cuts a model, and who gets what.
#include <algorithm>
#include <catch2/catch.hpp>

#include "ddlsim/plan/lower.h"
#include "ddlsim/plan/messages.h"
#include "ddlsim/plan/order.h"

using namespace ddlsim;
using namespace ddlsim::plan;
using namespace ddlsim::workload;

namespace {

class Builder {
 public:
  Builder& add(const Op& op, const Shape& in) {
    model_.layers.push_back(layer_of(op, in, "layer").value().layer);
    return *this;
  }
  /// A norm, attention with its products, and the residual sum: 0.59 MFLOP.
  Builder& block(bool longer = false) {
    add(RmsNorm{}, {16, 64}).add(Linear{.out = 192}, {16, 64}).add(Attention{.heads = 4}, {16, 64});
    add(Linear{.out = 64}, {16, 64});
    if (longer) add(Pointwise{}, {16, 64});
    return add(Combine{}, {16, 64});
  }
  /// A product of so many columns and one back, and the sum.
  Builder& bottleneck(std::int64_t inside) {
    return add(Linear{.out = inside}, {16, 64}).add(Linear{.out = 64}, {16, inside}).add(Combine{}, {16, 64});
  }
  Builder& blocks(int count) {
    for (int i = 0; i < count; ++i) block();
    return *this;
  }
  Job job(std::int64_t stages, std::int64_t micro_batches = 16) {
    model_.totals = total(model_.layers).value();
    Job job;
    job.model = std::make_shared<const Model>(model_);
    job.cluster.gpus_per_node = job.cluster.node.gpus = stages;
    job.parallel.pipeline = stages;
    job.strategy.accumulation = micro_batches;
    return job;
  }

 private:
  Model model_;
};

/// The layers where parts begin, in a micro-batch's order.
std::vector<std::size_t> starts(const Job& job) {
  const StepPlan plan = lower(job).value();
  const Pipeline pipeline = pipeline_of(plan);
  std::vector<std::size_t> list;
  for (std::size_t q = 0; q < positions_of(pipeline); ++q) {
    const Place at = place_of(pipeline, q);
    list.push_back(plan.classes[at.stage].parts[at.part].layer);
  }
  return list;
}

using Starts = std::vector<std::size_t>;

Builder transformer(int blocks) {
  Builder model;
  model.add(Embedding{.rows = 1000, .width = 64, .lookups = 16}, {16}).blocks(blocks).add(RmsNorm{}, {16, 64});
  model.add(Linear{.out = 576}, {16, 64});  // as much as two blocks
  return model;
}

}  // namespace

TEST_CASE("stages: as many blocks for each, the head with the last", "[unit][plan]") {
  CHECK(starts(transformer(4).job(2)) == Starts{0, 11});
  CHECK(starts(transformer(4).job(4)) == Starts{0, 6, 11, 16});
  Job job = transformer(8).job(2);
  job.parallel.schedule = PipelineSchedule::kInterleaved;
  job.parallel.virtual_stages = 2;
  CHECK(starts(job) == Starts{0, 11, 21, 31});
  job.parallel.schedule = PipelineSchedule::kZeroBubbleV;
  CHECK(starts(job) == Starts{0, 11, 21, 31});
}

TEST_CASE("stages: where blocks do not divide, the heaviest is as light as possible", "[unit][plan]") {
  // 1, 1, 1 and 3 blocks' work for three stages: the last has one block and the head; the first has less.
  CHECK(starts(transformer(4).job(3)) == Starts{0, 6, 16});
  // Five blocks and the head, 7 in all, for two: 3 and 4 (and not 4 and 3: the first keeps more micro-batches).
  CHECK(starts(transformer(5).job(2)) == Starts{0, 16});
  // Blocks of two kinds: still cut between blocks, 2 and 3.
  Builder mixed;
  mixed.add(Embedding{.rows = 1000, .width = 64, .lookups = 16}, {16}).block().block();
  mixed.block(true).block(true).block(true).add(RmsNorm{}, {16, 64});
  CHECK(starts(mixed.job(2)) == Starts{0, 11});
}

TEST_CASE("stages: without alike blocks by work, behind residual sums where there are enough", "[unit][plan]") {
  // Products of 1, 2, 3, 4, 5: 6 and 9.
  Builder plain;
  for (const std::int64_t out : {100, 200, 300, 400, 500}) plain.add(Linear{.out = out}, {16, 64});
  CHECK(starts(plain.job(2)) == Starts{0, 3});
  // Bottlenecks as heavy as their insides, 1 to 6: cut behind their sums alone.
  Builder residual;
  for (const std::int64_t inside : {100, 200, 300, 400, 500, 600}) residual.bottleneck(inside);
  CHECK(starts(residual.job(2)) == Starts{0, 12});     // 10 and 11
  CHECK(starts(residual.job(3)) == Starts{0, 9, 15});  // 6, 9, 6
}

TEST_CASE("stages: alike layers without FLOPs go by their bytes, and by their number", "[unit][plan]") {
  Builder pointwise;
  pointwise.add(Pointwise{}, {600}).add(Pointwise{}, {100}).add(Pointwise{}, {200}).add(Pointwise{}, {300});
  CHECK(starts(pointwise.job(2)) == Starts{0, 1});
  Builder alike;
  for (int i = 0; i < 7; ++i) alike.add(Pointwise{}, {100});
  CHECK(starts(alike.job(4)) == Starts{0, 1, 3, 5});
}

TEST_CASE("stages: a rank of several parts has their layers one after the other", "[unit][plan]") {
  Job job = transformer(8).job(2);
  job.parallel.schedule = PipelineSchedule::kInterleaved;
  job.parallel.virtual_stages = 2;
  const StepPlan plan = lower(job).value();
  REQUIRE(plan.classes.size() == 2);
  const RankClass& last = plan.classes[1];
  CHECK(last.chunk.count == 10 + 12);
  REQUIRE(last.parts.size() == 2);
  CHECK(last.parts[0].position == 1);
  CHECK(last.parts[1].position == 3);
  CHECK(last.parts[1].first == 10);
  CHECK(last.parts[1].layer == 31);
  CHECK(last.chunk[21].output_elements == 16 * 576);
  // The turn of a V is one stretch of the model's own layers.
  job.parallel.schedule = PipelineSchedule::kZeroBubbleV;
  const StepPlan vee = lower(job).value();
  CHECK(vee.classes[1].chunk.layers == chunk_of(vee.model).layers);
  CHECK(vee.classes[1].chunk.first == 11);
  CHECK(vee.classes[0].parts[1].position == 3);
  // Gradients leave part by part; DualPipe's ranks mirror each other.
  job.parallel.schedule = PipelineSchedule::kDualPipe;
  job.parallel.virtual_stages = 1;
  const StepPlan dual = lower(job).value();
  CHECK(dual.classes[0].chunk.count == dual.classes[1].chunk.count);
  CHECK(dual.classes[0].parts[1].layer == dual.classes[1].parts[0].layer);
  CHECK(dual.groups.front().ranks == 2);
  CHECK(dual.classes[0].memory.weights == dual.classes[1].memory.weights);
}

TEST_CASE("stages: a cut within a block sends what its residual sum reads as well", "[unit][plan]") {
  const auto sent = [](Builder model, std::size_t cut) {
    Job job = model.job(2);
    job.parallel.cuts = {cut};
    const StepPlan plan = lower(job).value();
    const auto row = std::find_if(plan.rows.begin(), plan.rows.end(), [](const Row& one) {
      return one.op == primitives::CollectiveOp::kSendRecv && one.ready.at == Moment::kForward;
    });
    return row->size.in(bytes) / activation_size(job.precision).in(bytes) / static_cast<double>(job.batch);
  };
  const Builder two = Builder().bottleneck(16).bottleneck(16);
  CHECK(sent(two, 3) == 16 * 64);            // between blocks
  CHECK(sent(two, 1) == 16 * 16 + 16 * 64);  // behind the narrow product
  CHECK(sent(two, 4) == 16 * 16 + 16 * 64);
  Builder plain;  // nothing is added up
  plain.add(Linear{.out = 16}, {16, 64}).add(Linear{.out = 64}, {16, 16});
  CHECK(sent(plain, 1) == 16 * 16);
}

TEST_CASE("stages: versions of weights and micro-batches in flight are in memory", "[unit][plan]") {
  Job job = transformer(4).job(4);
  const StepPlan plain = lower(job).value();
  job.parallel.schedule = PipelineSchedule::kPipeDream;
  const StepPlan stashed = lower(job).value();
  CHECK(stashed.classes[0].weight_versions == 4);
  CHECK(stashed.classes[3].weight_versions == 1);
  CHECK(stashed.classes[0].memory.weights.in(bytes) == Approx(4 * plain.classes[0].memory.weights.in(bytes)));
  CHECK(stashed.classes[0].memory.activations == plain.classes[0].memory.activations);
  job.parallel.schedule = PipelineSchedule::kZeroBubbleH2;
  const StepPlan twice = lower(job).value();
  CHECK(plain.classes[0].memory.micro_batches == Approx(4));
  CHECK(twice.classes[0].memory.micro_batches == Approx(7));
  CHECK(twice.classes[0].memory.activations > plain.classes[0].memory.activations);
}

TEST_CASE("stages: buffers of what neighbours sent", "[unit][plan]") {
  // 16 x 64 elements of 4 bytes: activations from the stage before, gradients from the one after.
  Job job = transformer(4).job(4);
  job.batch = 3;
  const StepPlan plan = lower(job).value();
  const double edge = 3 * 16 * 64 * 4;
  std::vector<double> buffers;
  for (const RankClass& one : plan.classes) buffers.push_back(one.memory.buffers.in(bytes));
  CHECK(buffers == std::vector<double>{edge, 2 * edge, 2 * edge, edge});
}

TEST_CASE("stages: what contradicts a schedule is refused", "[unit][plan]") {
  const auto refused = [](const Job& job) {
    const auto plan = lower(job);
    REQUIRE_FALSE(plan);
    return plan.error().message;
  };
  Job job = transformer(8).job(2);
  job.parallel.schedule = PipelineSchedule::kPipeDream;
  job.parallel.zero = 1;
  CHECK(refused(job) == "schedule pipedream keeps versions of whole weights, and zero shares them");
  job.parallel.zero = 0;
  job.parallel.offload_optimizer = true;
  CHECK(refused(job) == "schedule pipedream with an optimizer on the host");
  job = transformer(8).job(1);
  job.parallel.virtual_stages = 2;
  CHECK(refused(job) == "parts of a rank without a pipeline");
  job.parallel.virtual_stages = 0;
  CHECK(refused(job) == "parallel.virtual_stages 0");
  job = transformer(8).job(2);
  job.parallel.schedule = PipelineSchedule::kInterleaved;
  job.parallel.virtual_stages = 2;
  job.parallel.cuts = {1, 2};
  CHECK(refused(job) == "2 cuts for 4 parts: one fewer than parts are needed");
  job.parallel.cuts = {1, 2, 2};
  CHECK(refused(job) == "part 2 has no layer");
  job.parallel.cuts.clear();
  job.parallel.virtual_stages = 30;
  CHECK(refused(job) == "60 parts of 8 blocks");
  job = Builder()
            .add(Measured{.time = {milliseconds(1), milliseconds(2)}}, {100})
            .add(Measured{.time = {milliseconds(1), milliseconds(2)}}, {100})
            .job(2);
  auto traced = std::make_shared<Model>(*job.model);
  traced->measured = MeasuredOn{};
  job.model = traced;
  job.parallel.schedule = PipelineSchedule::kZeroBubbleH1;
  CHECK(refused(job) == "schedule zb-h1: measured layers do not say how much of their backward is the weights'");
  job.parallel.schedule = PipelineSchedule::kGpipe;
  CHECK(lower(job));
}
