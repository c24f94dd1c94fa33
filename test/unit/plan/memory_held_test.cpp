// What a GPU and its server hold of a job: states, gradients that stand, buffers, contexts.
#include "ddlsim/plan/memory.h"

#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "by_hand.h"
#include "ddlsim/plan/lower.h"

using namespace ddlsim;
using namespace ddlsim::plan;

namespace {

/// Products of 1000 x 1000 one after the other on four GPUs that share their states: 4 MB of weights each, in fp32.
Job products(int count, std::int64_t rows) {
  workload::Model model;
  model.id = "products";
  model.optimizer = workload::Optimizer::kAdam;
  for (int i = 0; i < count; ++i) {
    model.layers.push_back(
        workload::layer_of(workload::Linear{.out = 1000, .bias = false}, {rows, 1000}, "a" + std::to_string(i))
            .value()
            .layer);
  }
  model.totals = workload::total(model.layers).value();
  Job job;
  job.model = std::make_shared<const workload::Model>(std::move(model));
  job.cluster.gpus_per_node = job.cluster.node.gpus = 4;
  job.parallel.zero = 3;
  return job;
}

MemoryFootprint held_by(const Job& job) { return lower(job).value().classes.front().memory; }

}  // namespace

TEST_CASE("memory: gradients that are made in turn stand beside what is left of activations", "[unit][plan]") {
  const Job job = products(2, 100);
  // During backward of the first: its input, 0.4 MB; gradients of input, output and weight, 4.8; a share of the second.
  const MemoryFootprint in_turn = held_by(job);
  CHECK(in_turn.activations.in(megabytes) == Approx(0.4));
  CHECK(in_turn.working.in(megabytes) == Approx(4.8));
  CHECK(in_turn.gradients.in(megabytes) == Approx(1));
  CHECK(in_turn.gradients_later.in(megabytes) == Approx(1));
  const auto all = [&](auto change) {
    Job other = job;
    change(other);
    const MemoryFootprint memory = held_by(other);
    CHECK(memory.gradients_later == DataSize::zero());
    return memory.gradients.in(megabytes);
  };
  CHECK(all([](Job& one) { one.strategy.accumulation.set(2); }) == Approx(2));
  CHECK(all([](Job& one) { one.software_year = std::optional(2022.0); }) == Approx(2));  // PyTorch 1
  CHECK(all([](Job& one) { one.parallel.states = States::kMixed; }) == Approx(2));
  CHECK(all([](Job& one) { one.parallel.zero = 1; }) == Approx(8));
}

TEST_CASE("memory: operations over lists of tensors make a value of each parameter", "[unit][plan]") {
  Job job = products(8, 1);
  const MemoryFootprint fused = held_by(job);
  CHECK(fused.working.in(megabytes) == Approx(4.008));  // gradients of a weight, its input and output
  job.software_optimizer = by_default(UpdateKernels::kForeach);
  const MemoryFootprint lists = held_by(job);
  // Before the update all gradients are there, and 4 bytes of each of a rank's 2 M parameters.
  CHECK(lists.gradients.in(megabytes) == Approx(8));
  CHECK((lists.working + lists.activations).in(megabytes) == Approx(8));
}

TEST_CASE("memory: an offloaded optimizer holds its states on the host, and gradients leave", "[unit][plan]") {
  Job job = products(8, 1);  // 8 M parameters, a quarter of each on a rank
  job.parallel.offload_optimizer = true;
  const MemoryFootprint shared = held_by(job);
  CHECK(shared.optimizer_state == DataSize::zero());
  CHECK(shared.host.in(megabytes) == Approx(2 * 16));  // weight, gradient and two states
  CHECK(shared.gradients.in(megabytes) == Approx(2));  // of two layers, a quarter
  job.parallel.zero = 1;
  CHECK(held_by(job).gradients.in(megabytes) == Approx(32));
  // Replicas that share nothing sum theirs on the GPU as well, as Megatron's buffers; one GPU has nothing to sum.
  job.parallel.zero = 0;
  CHECK(held_by(job).gradients.in(megabytes) == Approx(32));
  CHECK(held_by(job).gradients_later == DataSize::zero());
  Job alone = job;
  alone.cluster.gpus_per_node = 1;
  CHECK(held_by(alone).gradients.in(megabytes) < 32);
  job.parallel.zero = 1;
  // What waits between forward and backward is on the host too, but for the last block; two more are on their way.
  job.model = ddlsim::test::decoder(6);
  job.batch = 64;
  job.parallel = {};
  const MemoryFootprint kept = held_by(job);
  job.parallel.offload_activations = true;
  const MemoryFootprint waiting = held_by(job);
  CHECK(waiting.host < kept.activations);
  CHECK(waiting.host > kept.activations * 0.9);
  CHECK(waiting.activations < kept.activations * 0.4);
  // Of one server with all stages the mean of them, of several the most.
  job.parallel.pipeline = 2;
  job.strategy.accumulation.set(8);
  const StepPlan stages = lower(job).value();
  const DataSize sum = stages.classes[0].memory.host + stages.classes[1].memory.host;
  CHECK(needed_by(job, stages).host.in(bytes) == Approx(sum.in(bytes)*2));
  CHECK(needed_by(job, stages).host_fits());  // nobody says what the server has
  job.cluster.node.gpu.memory_size = gigabytes(80);
  job.cluster.node.host.memory = sum * 1.9;
  const Needed needed = needed_by(job, stages);
  CHECK(needed.gpu_fits());
  CHECK_FALSE(needed.host_fits());
  CHECK_FALSE(needed.fits());
  CHECK(needed.times() == Approx(2 / 1.9));
  // What is done after the pass never needs more than what stays.
  Job network = job;
  network.parallel = {};
  const MemoryFootprint stays = held_by(network);
  network.parallel.offload_activations = true;
  CHECK(held_by(network).total() <= stays.total());
}

TEST_CASE("memory: whole models that compute again have DDP's buckets too", "[unit][plan]") {
  Job job = products(4, 10);
  job.model = ddlsim::test::decoder(6);
  job.parallel = {};
  const DataSize plain = held_by(job).buffers;
  CHECK(plain.in(bytes) == Approx(4.0 * static_cast<double>(job.model->totals.dense_parameters)));
  job.parallel.recompute = Recompute::kFull;
  CHECK(held_by(job).buffers.in(bytes) == Approx(plain.in(bytes)));
}

TEST_CASE("memory: what products make is a rank's part, or what ranks have yet to add up", "[unit][plan]") {
  const auto model = ddlsim::test::decoder(1);
  const auto made = [&](std::size_t layer, std::int64_t tensor) {
    return kept_activations(model->layers, {.tensor = tensor, .precision = Precision::kBf16})[layer].output.in(bytes);
  };
  CHECK(made(2, 1) == 2 * 32 * 512);  // q
  CHECK(made(2, 2) == 32 * 512);
  CHECK(made(13, 1) == 2 * 32 * 512);  // down: whole rows on each rank
  CHECK(made(13, 2) == 2 * 32 * 512);
  CHECK(made(6, 2) == 32 * (512 + 2 * 8));  // attention and its row sums
  CHECK(made(1, 1) == 0);
}

TEST_CASE("memory: per operator a block keeps its input and the outputs that do not run again", "[unit][plan]") {
  Job job = products(4, 10);
  job.parallel = {};
  job.batch = 256;                   // enough for activations to be most,
  job.strategy.accumulation.set(2);  // and gradients stand throughout
  job.parallel.recompute = Recompute::kPerOp;
  const auto of_a_block = [&](Precision precision) {
    job.precision = precision;
    const auto held = [&](int blocks) {
      job.model = ddlsim::test::decoder(blocks);
      return held_by(job).activations.in(bytes) / static_cast<double>(job.batch);
    };
    return (held(12) - held(6)) / 6;
  };
  // Of 32 rows: the input 512; q 512, v 128, attention 512 and 4 bytes of row sums for each of 8 heads, gate 1024,
  // down 512.
  CHECK(of_a_block(Precision::kBf16) == Approx(32 * (2 * (512 + 512 + 128 + 512 + 1024 + 512) + 4 * 8)));
  CHECK(of_a_block(Precision::kFp8) == Approx(32 * (2 * (512 + 512) + 4 * 8)));
}

TEST_CASE("memory: weights that wait on the host are copied for every use, and gathered", "[unit][plan]") {
  Job job = products(4, 10);
  job.parallel.offload_optimizer = true;
  const StepPlan stay = lower(job).value();
  job.parallel.offload_weights = true;
  const StepPlan plan = lower(job).value();
  // 4 MB of each product; a quarter on each of four GPUs; in backward all but the last, which is still there.
  const auto copies = [](const StepPlan& of) {
    std::vector<Row> found;
    for (const Row& row : of.rows) {
      if (row.kind == RowKind::kCopyBack) found.push_back(row);
    }
    return found;
  };
  REQUIRE(copies(stay).size() == 1);  // what was updated
  REQUIRE(copies(plan).size() == 4 + 3);
  for (const Row& row : copies(plan)) {
    CHECK(row.size.in(megabytes) == Approx(1));
    CHECK(row.every_pass);
  }
  for (const Row& row : plan.rows) {
    if (!row.gathered()) continue;
    REQUIRE(row.after != kNoRow);
    CHECK(plan.rows[row.after].needed == row.needed);
  }
  CHECK(stay.classes[0].memory.weights.in(megabytes) == Approx(4));
  CHECK(plan.classes[0].memory.weights == DataSize::zero());
  // The host updates weights of 4 bytes already; of 16 bits it has copies.
  CHECK(plan.classes[0].memory.host == stay.classes[0].memory.host);
  Job mixed = job;
  mixed.parallel.states = States::kMixed;
  const DataSize both = held_by(mixed).host;
  mixed.parallel.offload_weights = false;
  CHECK((both - held_by(mixed).host).in(megabytes) == Approx(2));
  CHECK(plan.classes[0].memory.buffers == stay.classes[0].memory.buffers);
  // One GPU gathers nothing, and holds what it copies.
  job.cluster.gpus_per_node = job.cluster.node.gpus = 1;
  const StepPlan alone = lower(job).value();
  CHECK(copies(alone).size() == 7);
  CHECK(alone.classes[0].memory.buffers.in(megabytes) == Approx(2 * 4 + 4));  // two products, the gradients of one
  job.parallel.offload_optimizer = false;
  CHECK_THAT(lower(job).error().message, Catch::Contains("offload_weights"));
  job.parallel.offload_optimizer = true;
  job.parallel.zero = 2;
  CHECK_THAT(lower(job).error().message, Catch::Contains("offload_weights"));
}

TEST_CASE("memory: a stage that is computed again keeps what enters it, once a micro-batch", "[unit][plan]") {
  Job job = products(4, 10);
  job.model = ddlsim::test::decoder(4);
  job.parallel = {.pipeline = 2, .schedule = PipelineSchedule::kGpipe};
  job.cluster.gpus_per_node = 2;
  job.batch = 1;
  job.strategy.accumulation.set(6);
  const auto held = [&](std::size_t stage) {
    const StepPlan plan = lower(job).value();
    return plan.classes[stage].memory;
  };
  const MemoryFootprint plain = held(1);
  const double whole = plain.activations.in(bytes) / 6;
  job.parallel.recompute = Recompute::kStage;
  // What entered, 32 rows of 512, of each of the six; all of the stage besides while the head runs backward.
  CHECK(held(1).activations.in(bytes) == Approx(6 * 4.0 * 32 * 512));
  CHECK((held(1).working - plain.working).in(bytes) == Approx(whole));
  // What enters the first is the batch as it was copied.
  CHECK(held(0).activations.in(bytes) == Approx(6 * job.model->input_per_sample.in(bytes)));
  job.parallel.offload_activations = true;
  CHECK_THAT(lower(job).error().message, Catch::Contains("recompute stage"));
}

TEST_CASE("memory: frozen weights beside adapters are held as they are computed with", "[unit][plan]") {
  Job job = products(4, 10);
  job.model = ddlsim::test::decoder(6);
  job.parallel = {.lora_rank = 2};
  job.cluster.gpus_per_node = 1;
  const auto all = static_cast<double>(job.model->totals.dense_parameters);
  const auto weights = [&](Precision precision, std::optional<States> states) {
    Job other = job;
    other.precision = precision;
    other.parallel.states = states;
    return held_by(other).weights.in(bytes);
  };
  // Adapters stay in fp32 (PEFT's cast_adapter_dtype), and so do their gradients and momentum.
  job.precision = Precision::kBf16;
  const MemoryFootprint held = held_by(job);
  const double adapters = (held.gradients + held.gradients_later).in(bytes);
  CHECK(held.weights.in(bytes) == Approx(2 * all + adapters));
  CHECK(held.optimizer_state.in(bytes) == Approx(adapters));
  CHECK(weights(Precision::kFp8, {}) == held.weights.in(bytes));
  CHECK(weights(Precision::kFp32, {}) == Approx(4 * all + adapters));
  CHECK(weights(Precision::kBf16, States::kFp32) == Approx(4 * all + adapters));  // as stated
  CHECK(weights(Precision::kBf16, States::kPureSixteen) == Approx(2 * all + adapters / 2));
}

TEST_CASE("memory: bytes of a parameter by format", "[unit][plan]") {
  const auto all = [](States states) {
    const StateSizes sizes = state_sizes(states, workload::Optimizer::kAdam);
    return (sizes.weight + sizes.gradient + sizes.master + sizes.optimizer).in(bytes);
  };
  CHECK(all(States::kFp32) == 16);
  CHECK(all(States::kMixed) == 18);         // Megatron-LM
  CHECK(all(States::kMixedSixteen) == 16);  // ZeRO, section 3.1
  CHECK(all(States::kPureSixteen) == 8);
  CHECK(all(States::kFp8) == 19);
  CHECK(all(States::kAdam8bit) == 10);
  CHECK(all(States::kFp8Primary) == 17);
}

TEST_CASE("memory: weights that are gathered once stay until backward", "[unit][plan]") {
  workload::Model model;
  model.id = "two";
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
    model.layers.push_back(
        workload::layer_of(workload::Linear{.out = 1000, .bias = false}, {1000}, name).value().layer);
  }
  model.totals = workload::total(model.layers).value();
  Job job;
  job.model = std::make_shared<const workload::Model>(std::move(model));
  job.cluster.gpus_per_node = job.cluster.node.gpus = 4;
  job.parallel.zero = 3;
  const auto buffers = [](const Job& one) { return lower(one).value().classes.front().memory.buffers.in(megabytes); };
  const double again = buffers(job);
  job.parallel.reshard = false;
  CHECK(buffers(job) >= 32 + 4);  // 8 layers of 4 MB, and the gradients of one at least
  CHECK(again < buffers(job));
  // Gradients that add up over the passes of a step are whole.
  const auto gradients = [](const Job& one) {
    return lower(one).value().classes.front().memory.gradients.in(megabytes);
  };
  job.strategy.accumulation = 2;
  CHECK(gradients(job) == Approx(32 / 4.0));
  job.parallel.no_sync = true;
  CHECK(gradients(job) == Approx(32));
}

TEST_CASE("memory: a server's host has what all its ranks keep there", "[unit][plan]") {
  Job job;
  job.cluster.gpus_per_node = 8;
  StepPlan plan;
  plan.classes.resize(2);
  plan.classes[0].ranks = 6;
  plan.classes[0].memory.host = gigabytes(1);
  plan.classes[1].ranks = 2;
  plan.classes[1].memory.host = gigabytes(3);
  CHECK(needed_by(job, plan).host.in(gigabytes) == Approx(12));
  job.cluster.nodes = 2;  // one of them may have the fullest alone
  CHECK(needed_by(job, plan).host.in(gigabytes) == Approx(24));
}

TEST_CASE("memory: the context and the allocator stand beside tensors", "[unit][plan]") {
  MemoryFootprint footprint;
  footprint.weights = gigabytes(10);
  CHECK(device_overhead(footprint, 1, false).context == kCudaContext);
  CHECK(device_overhead(footprint, 1, false).slack.in(gigabytes) == Approx(0.6));
  CHECK(device_overhead(footprint, 8, true).context.in(mebibytes) == Approx(3520));
  // Where less is left the allocator holds less, down to what it cannot give back.
  const auto slack = [&](double left) {
    return device_overhead(footprint, 1, false, kCudaContext, gigabytes(10 + left) + kCudaContext).slack.in(gigabytes);
  };
  CHECK(slack(0.7) == Approx(0.6));
  CHECK(slack(0.3) == Approx(0.3));
  CHECK(slack(0.1) == Approx(0.24));
  Job job;
  job.cluster.node.gpu.memory_size = gigabytes(10.3) + kCudaContext;
  CHECK(needed_by(job, footprint).fits());
  CHECK(needed_by(job, footprint).is_tight());
  job.cluster.node.gpu.memory_size = gigabytes(10.7) + kCudaContext;
  CHECK_FALSE(needed_by(job, footprint).is_tight());
  job.cluster.node.gpu.memory_size = gigabytes(10.2) + kCudaContext;
  CHECK_FALSE(needed_by(job, footprint).fits());
  CHECK_FALSE(needed_by(job, footprint).is_tight());
  CHECK(device_overhead(footprint, job).context == kCudaContext);
  job.software_year = std::optional(2021.5);  // every kernel is loaded
  CHECK(device_overhead(footprint, job).context == megabytes(1000));
  // States that are shared, adapters and offload open no communicators of a split model.
  job.cluster.gpus_per_node = 8;
  const DataSize replicas = device_overhead(footprint, job).context;
  job.parallel = {.zero = 3, .offload_optimizer = true, .lora_rank = 8};
  CHECK(device_overhead(footprint, job).context == replicas);
  job.parallel.tensor = 2;
  CHECK(device_overhead(footprint, job).context > replicas);
}

TEST_CASE("memory: copies in 16 bits of fp32 weights stand wherever their optimizer is", "[unit][plan]") {
  // 8 M parameters, 2 bytes each; with states of 16 bits the weights are read as they are.
  Job job = products(8, 1);
  job.precision = Precision::kBf16;
  for (const int zero : {0, 1, 2}) {
    job.parallel = {.zero = zero, .offload_optimizer = true};
    CHECK(held_by(job).weights.in(megabytes) == Approx(32));
    CHECK(held_by(job).weight_casts.in(megabytes) == Approx(16));
    job.parallel.states = States::kMixedSixteen;
    CHECK(held_by(job).weights.in(megabytes) == Approx(16));
    CHECK(held_by(job).weight_casts == DataSize::zero());
  }
}
