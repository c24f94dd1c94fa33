// What gradients and the update of weights move of a GPU's memory, worked by hand.
#include <catch2/catch.hpp>

#include "by_hand.h"

using namespace ddlsim;
using namespace ddlsim::plan;
using namespace ddlsim::test;

namespace {

/// 3,000 parameters, momentum.
std::shared_ptr<const workload::Model> one_product() {
  return model_of({made_layer(workload::Linear{.out = 60, .bias = false}, {50}, "fc")}, "product");
}

}  // namespace

TEST_CASE("lower: what adding up gradients moves", "[unit][plan]") {
  Job job = job_on(one_product(), 1, 4);
  CHECK(accumulated_per_parameter(job) == DataSize::zero());  // one pass
  job.strategy.accumulation = 8;
  CHECK(accumulated_per_parameter(job).in(bytes) == 12);
  job.parallel.states = States::kMixed;
  CHECK(accumulated_per_parameter(job).in(bytes) == 3);
  job.parallel.states = States::kMixedSixteen;
  CHECK(accumulated_per_parameter(job).in(bytes) == 6);
  job.parallel.zero = 1;
  CHECK(accumulated_per_parameter(job).in(bytes) == 6);
  job.parallel.zero = 2;  // of four replicas each keeps a quarter
  CHECK(accumulated_per_parameter(job).in(bytes) == 1.5);
  job.parallel.shard_ranks = 2;
  CHECK(accumulated_per_parameter(job).in(bytes) == 3);
  job.parallel.shard_ranks = 0;
  job.parallel.context = 2;  // two replicas of two ranks
  CHECK(accumulated_per_parameter(job).in(bytes) == 1.5);
  job.parallel.context = 1;
  job.parallel.pipeline = 2;  // two replicas, and two copies of each stage
  job.parallel.schedule = PipelineSchedule::kDualPipe;
  CHECK(accumulated_per_parameter(job).in(bytes) == 1.5);
}

TEST_CASE("lower: Megatron's update passes over all gradients and the rank's share of states", "[unit][plan]") {
  Job job = job_on(one_product(), 1, 4);
  job.parallel.states = States::kMixed;
  // Momentum: gradient 4, weight 2, master 8, momentum 8; norm and clipping 12; buffers 16: of 3,000 parameters.
  CHECK(lower(job).value().classes[0].updated.in(bytes) == Approx(3000 * (4 + 2 + 8 + 8 + 12 + 16)));
  job.parallel.zero = 1;
  CHECK(lower(job).value().classes[0].updated.in(bytes) == Approx(750 * (4 + 2 + 8 + 8 + 12) + 3000 * 16));
  job.parallel.states = States::kMixedSixteen;
  CHECK(lower(job).value().classes[0].updated.in(bytes) == Approx(750 * (2 + 2 + 8 + 8)));
}
