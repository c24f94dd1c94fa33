// What holds between a model and its split over ranks, on models of the catalog: FLOPs, weights and volumes.
#include <fmt/core.h>
#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "catalog.h"
#include "ddlsim/cost/price.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/step/schedule.h"
#include "ddlsim/whatif/predict.h"
#include "ddlsim/workload/blocks.h"
#include "ddlsim/workload/shard.h"
#include "property/random_scenario.h"
#include "sanitized.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using ddlsim::test::model;
using primitives::CollectiveOp;

namespace {

plan::Job job_of(const std::string& id, std::int64_t nodes, std::int64_t gpus_per_node) {
  plan::Job job;
  job.model = model(id);
  job.cluster.node = catalog().node("dgx-a100").value();
  job.cluster.nodes = nodes;
  job.cluster.gpus_per_node = gpus_per_node;
  return job;
}

double elements_of(const workload::Layer& layer) {
  double all = 0;
  for (const std::int64_t tensor : layer.parameters) all += static_cast<double>(tensor);
  return all;
}

double weights_of(const workload::Model& of) {
  double all = 0;
  for (const workload::Layer& layer : of.layers) all += elements_of(layer);
  return all;
}

bool near(double a, double b, double share) { return std::abs(a - b) <= share * std::max(std::abs(a), std::abs(b)); }

/// Bytes of the whole buffers of an operation's rows in one pass.
double sent(const plan::StepPlan& plan, CollectiveOp op, plan::GroupRole role) {
  double all = 0;
  for (const plan::Row& row : plan.rows) {
    if (row.kind != plan::RowKind::kCollective || row.op != op || plan.groups[row.group].role != role) continue;
    const bool shares = op != CollectiveOp::kAllReduce && op != CollectiveOp::kSendRecv;
    const double ranks = shares ? static_cast<double>(plan.groups[row.group].ranks) : 1.0;
    all += row.size.in(bytes)*ranks * static_cast<double>(row.count);
  }
  return all;
}

std::string any_language_model() {
  return *rc::gen::element<std::string>("gpt2", "llama_3_1_8b", "qwen3_8b", "bert_large", "gpt3_175b");
}

/// Of the catalog: those that look up tokens and attend.
std::vector<std::string> language_models() {
  std::vector<std::string> ids;
  for (const std::string& id : catalog().ids(io::Kind::kModels)) {
    const auto& layers = model(id)->layers;
    const bool tokens =
        !layers.empty() && layers.front().op && std::holds_alternative<workload::Embedding>(*layers.front().op);
    if (tokens && std::any_of(layers.begin(), layers.end(), workload::is_attention)) ids.push_back(id);
  }
  return ids;
}

}  // namespace

TEST_CASE("law: context ranks execute no less than their model's FLOPs, and are no faster than one GPU each",
          "[property]") {
  // Every so many-th of models and ways, so that each way meets some models.
  constexpr std::size_t kEvery = ddlsim::test::kSanitized ? 83 : 11;
  std::size_t number = 0;
  std::size_t compared = 0;
  for (const std::string& id : language_models()) {
    for (const char* fusion : {"none", "all"}) {
      for (const char* way : {"ring", "ulysses"}) {
        for (const char* recompute : {"none", "full"}) {
          if (number++ % kEvery != 0) continue;
          const std::vector<whatif::Override> settings{{"model", id, {}},
                                                       {"node", "dgx-h100", {}},
                                                       {"gpus_per_node", "2", {}},
                                                       {"batch", "1", {}},
                                                       {"precision", "bf16", {}},
                                                       {"fusion", fusion, {}},
                                                       {"parallel.context", "2", {}},
                                                       {"parallel.context_by", way, {}},
                                                       {"parallel.recompute", recompute, {}}};
          const auto scenario = whatif::resolve(catalog(), settings);
          if (!scenario) continue;
          const auto p = whatif::predict(*scenario);
          if (!p) continue;
          INFO(id << " fusion " << fusion << " " << way << " recompute " << recompute);
          CHECK(p->hfu >= p->mfu * (1 - 1e-9));
          CHECK(p->scaling_efficiency <= 1 + 1e-9);
          ++compared;
        }
      }
    }
  }
  CHECK(compared > 5);
}

TEST_CASE("law: who computes nothing again holds the most", "[property]") {
  // But for a block's input, which full recomputation keeps and counts once more with what it computes again. Of that
  // attention's core stands while the layers behind it run backward, where selective recomputation has none: either of
  // the two may hold more.
  constexpr double kInput = 1e-3;
  std::size_t compared = 0;
  for (const std::string& id : language_models()) {
    for (const std::int64_t batch : {1, 4, 16}) {
      for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
        for (const std::int64_t gpus : {1, 4}) {
          plan::Job job = job_of(id, 1, gpus);
          job.batch = batch;
          job.precision = precision;
          INFO(id << " batch " << batch << " " << name_of(kPrecisions, precision) << " on " << gpus);
          DataSize none = DataSize::infinity();
          for (const auto how :
               {plan::Recompute::kNone, plan::Recompute::kSelective, plan::Recompute::kFull, plan::Recompute::kStage}) {
            job.parallel.recompute = how;
            const auto plan = plan::lower(job);
            if (!plan) continue;
            const DataSize held = plan->classes.front().memory.total();
            CHECK(held <= none * (1 + kInput));
            if (how == plan::Recompute::kNone) none = held;
            ++compared;
          }
        }
      }
    }
  }
  CHECK(compared > 1000);
}

TEST_CASE("law: the FLOPs of all shards are those of the whole", "[property]") {
  CHECK(rc::check("flops", [] {
    const std::string id = any_language_model();
    workload::Cut cut;
    cut.tensor = *rc::gen::element<std::int64_t>(1, 2, 4);
    cut.sequence = *rc::gen::arbitrary<bool>();
    cut.context = *rc::gen::element<std::int64_t>(1, 2, 4);
    cut.ulysses = *rc::gen::arbitrary<bool>();
    RC_LOG(fmt::format("{} tensor {} sequence {} context {} ulysses {}", id, cut.tensor, cut.sequence, cut.context,
                       cut.ulysses));
    const auto whole = model(id);
    const auto shards = workload::shard(whole->layers, cut);
    if (!shards) {  // heads that the degrees together do not divide
      RC_ASSERT(shards.error().code == ErrorCode::kInvalidArgument);
      return;
    }
    RC_ASSERT(shards->size() == whole->layers.size());
    const auto ranks = static_cast<double>(cut.tensor * cut.context);
    double forward = 0;
    double backward = 0;
    for (const workload::Shard& one : *shards) {
      forward += one.layer.forward_work.in(flops);
      backward += one.layer.backward_work.in(flops);
    }
    // Vocabularies are padded; a head of two outputs, and one before a norm of its own (BERT), are whole.
    const double slack = id == "bert_large" ? 0.03 : 1e-3;
    RC_ASSERT(near(forward * ranks, whole->totals.forward_work.in(flops), slack));
    RC_ASSERT(near(backward * ranks, whole->totals.backward_work.in(flops), slack));
  }));
}

TEST_CASE("law: a tensor group sums 4 b s h per block, and as much in halves where rows are cut", "[property]") {
  CHECK(rc::check("tensor", [] {
    const std::string id = *rc::gen::element<std::string>("gpt2", "gpt3_175b", "llama_3_1_8b", "qwen3_8b");
    const auto ranks = *rc::gen::element<std::int64_t>(2, 4);
    plan::Job job = job_of(id, 1, ranks);
    job.batch = *rc::gen::inRange<std::int64_t>(1, 9);
    job.parallel.tensor = ranks;
    RC_LOG(fmt::format("{} over {}, batch {}", id, ranks, job.batch));
    const auto& layers = job.model->layers;
    const auto blocks = workload::blocks_of(layers);
    const auto bodies = std::count_if(blocks.begin(), blocks.end(), [](const auto& block) { return block.body; });
    const workload::Layer& table = layers.front();
    const auto rows = static_cast<double>(std::get<workload::Embedding>(*table.op).lookups);
    const double tensor = static_cast<double>(table.output_elements * job.batch) * 4;
    // Four sums in a block, the table's and the head's; the loss has three numbers per row.
    const double sums = (4 * static_cast<double>(bodies) + 2) * tensor;
    const double loss = 3 * rows * static_cast<double>(job.batch) * 4;
    const plan::StepPlan whole_rows = plan::lower(job).value();
    RC_ASSERT(near(sent(whole_rows, CollectiveOp::kAllReduce, plan::GroupRole::kTensor), sums + loss, 1e-12));
    job.parallel.sequence = true;
    const plan::StepPlan cut_rows = plan::lower(job).value();
    RC_ASSERT(near(sent(cut_rows, CollectiveOp::kReduceScatter, plan::GroupRole::kTensor), sums, 1e-12));
    // Inputs of two products in a block and of the head are gathered once more.
    const double again = (2 * static_cast<double>(bodies) + 1) * tensor;
    RC_ASSERT(near(sent(cut_rows, CollectiveOp::kAllGather, plan::GroupRole::kTensor), sums + again, 1e-12));
  }));
}

TEST_CASE("law: replicas send two weights, three where weights are shared too", "[property]") {
  CHECK(rc::check("zero", [] {
    const std::string id = *rc::gen::element<std::string>("gpt2", "llama_3_1_8b", "resnet50", "vgg16", "gnmt");
    plan::Job job = job_of(id, *rc::gen::element<std::int64_t>(1, 2), *rc::gen::element<std::int64_t>(2, 8));
    job.strategy.grouping = *rc::gen::element(plan::Grouping::kBuckets, plan::Grouping::kFlat,
                                              plan::Grouping::kPerTensor, plan::Grouping::kPartitions);
    job.parallel.overlap_gather = *rc::gen::arbitrary<bool>();
    const double weights = 4 * weights_of(*job.model);
    const auto scattered = [&] {
      return sent(plan::lower(job).value(), CollectiveOp::kReduceScatter, plan::GroupRole::kGradients);
    };
    const auto gathered = [&] {
      return sent(plan::lower(job).value(), CollectiveOp::kAllGather, plan::GroupRole::kGradients);
    };
    RC_LOG(fmt::format("{} over {}", id, job.cluster.gpus()));
    for (const int stage : {1, 2}) {
      job.parallel.zero = stage;
      RC_ASSERT(near(scattered(), weights, 1e-9));
      RC_ASSERT(near(gathered(), weights, 1e-9));
    }
    job.parallel.zero = 3;
    RC_ASSERT(near(scattered(), weights, 1e-9));
    const auto blocks = workload::blocks_of(job.model->layers);
    double last = 0;  // backward begins with them
    for (auto block = blocks.rbegin(); block != blocks.rend() && last == 0; ++block) {
      for (std::size_t i = 0; i < block->count; ++i) last += 4 * elements_of(job.model->layers[block->first + i]);
    }
    RC_ASSERT(near(gathered(), 2 * weights - last, 1e-9));
    job.parallel.reshard = false;
    RC_ASSERT(near(gathered(), weights, 1e-9));
  }));
}

TEST_CASE("law: experts over ranks compute and hold what they did together", "[property]") {
  CHECK(rc::check("experts", [] {
    const std::string id = *rc::gen::element<std::string>("mixtral_8x7b", "deepseek_v3");
    const auto ranks = *rc::gen::element<std::int64_t>(2, 4, 8);
    plan::Job job = job_of(id, 1, 8);
    job.parallel.expert = ranks;
    RC_LOG(fmt::format("{} over {}", id, ranks));
    const plan::StepPlan plan = plan::lower(job).value();
    double held = 0;
    double work = 0;
    double dispatched = 0;
    for (std::size_t i = 0; i < job.model->layers.size(); ++i) {
      const workload::Layer& before = job.model->layers[i];
      const workload::Layer& after = plan.layer(0, i);
      const auto* experts = std::get_if<workload::Experts>(&*before.op);
      held += elements_of(after) * (experts != nullptr ? static_cast<double>(ranks) : 1.0);
      work += after.forward_work.in(flops);
      // Dispatch and combine, forward and backward: 4 rows active h.
      if (experts != nullptr) dispatched += 4.0 * static_cast<double>(before.output_elements * experts->active);
    }
    RC_ASSERT(near(held, weights_of(*job.model), 1e-12));
    RC_ASSERT(near(work, job.model->totals.forward_work.in(flops), 1e-12));
    RC_ASSERT(near(sent(plan, CollectiveOp::kAllToAll, plan::GroupRole::kExperts), 4 * dispatched, 1e-12));
  }));
}

TEST_CASE("law: whole experts over tensor ranks compute and hold what they did together", "[property]") {
  CHECK(rc::check("whole experts", [] {
    const std::string id = *rc::gen::element<std::string>("mixtral_8x7b", "qwen3_30b_a3b");
    const auto tensor = *rc::gen::element<std::int64_t>(2, 4);
    const auto ranks = *rc::gen::element<std::int64_t>(4, 8);
    plan::Job job = job_of(id, 1, 8);
    job.parallel = {.tensor = tensor, .expert = ranks, .expert_tensor = 1, .sequence = true};
    RC_LOG(fmt::format("{} over {} of tensor {}", id, ranks, tensor));
    const plan::StepPlan plan = plan::lower(job).value();
    double dispatched = 0;
    for (std::size_t i = 0; i < job.model->layers.size(); ++i) {
      const workload::Layer& before = job.model->layers[i];
      const workload::Layer& after = plan.layer(0, i);
      const auto* experts = std::get_if<workload::Experts>(&*before.op);
      if (experts == nullptr) continue;
      RC_ASSERT(near(elements_of(after) * static_cast<double>(ranks), elements_of(before), 1e-12));
      RC_ASSERT(near(after.forward_work.in(flops) * static_cast<double>(tensor), before.forward_work.in(flops), 1e-12));
      dispatched += 4.0 * static_cast<double>(before.output_elements * experts->active / tensor);
    }
    RC_ASSERT(dispatched > 0);
    RC_ASSERT(near(sent(plan, CollectiveOp::kAllToAll, plan::GroupRole::kExperts), 4 * dispatched, 1e-12));
  }));
}

TEST_CASE("law: keys and values go around the ring once, twice as much comes back", "[property]") {
  CHECK(rc::check("ring", [] {
    const std::string id = *rc::gen::element<std::string>("llama_3_1_8b", "qwen3_8b", "gpt2");
    const auto ranks = *rc::gen::element<std::int64_t>(2, 4, 8);
    plan::Job job = job_of(id, 1, 8);
    job.parallel.context = ranks;
    double keys = 0;
    for (const workload::Layer& layer : job.model->layers) {
      if (const auto* grouped = std::get_if<workload::GroupedAttention>(&*layer.op)) {
        keys += static_cast<double>(layer.in[0] * grouped->kv_heads * 2 * grouped->width);
      } else if (std::holds_alternative<workload::Attention>(*layer.op)) {
        keys += 2.0 * static_cast<double>(layer.in[0] * layer.in[1]);
      }
    }
    const plan::StepPlan plan = plan::lower(job).value();
    const auto hops = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
    RC_ASSERT(near(sent(plan, CollectiveOp::kSendRecv, plan::GroupRole::kContext), 3 * 4 * keys * hops, 1e-12));
  }));
}

TEST_CASE("law: a rank more of nothing changes nothing", "[property]") {
  // Settings that need a degree above one, at one.
  for (const std::string id : {"gpt2", "resnet50", "mixtral_8x7b"}) {
    plan::Job job = job_of(id, 1, 4);
    job.parallel.zero = 1;
    const plan::StepPlan plain = plan::lower(job).value();
    job.parallel.sequence = true;
    job.parallel.context_by = plan::ContextBy::kUlysses;
    job.parallel.expert_imbalance = 2;
    job.parallel.shard_ranks = 4;
    job.parallel.reshard = false;
    job.parallel.recompute_every = 3;
    const plan::StepPlan same = plan::lower(job).value();
    REQUIRE(same.rows.size() == plain.rows.size());
    for (std::size_t r = 0; r < same.rows.size(); ++r) {
      CHECK(same.rows[r].size == plain.rows[r].size);
      CHECK(same.rows[r].ready == plain.rows[r].ready);
      CHECK(same.rows[r].group == plain.rows[r].group);
    }
    CHECK(same.classes[0].chunk.layers == plain.classes[0].chunk.layers);
    CHECK(same.classes[0].updated == plain.classes[0].updated);
  }
}

TEST_CASE("law: of one process, what the host splits and copies ahead saves time, and no more than was copied",
          "[property]") {
  CHECK(rc::check("one process", [] {
    plan::Job job = job_of(*rc::gen::element<std::string>("resnet50", "vgg16", "bert_large"), 1,
                           *rc::gen::element<std::int64_t>(2, 4, 8));
    job.cluster.node = catalog().node(*rc::gen::element<std::string>("dgx1-v100", "dgx-a100")).value();
    job.batch = *rc::gen::inRange<std::int64_t>(1, 65);
    job.strategy.kind = plan::StrategyKind::kDataParallel;
    const auto took = [&] {
      const auto plan = std::make_shared<const plan::StepPlan>(plan::lower(job).value());
      const cost::LayerPrices prices = cost::price_layers(job, *plan, {1, 1}).value();
      return step::schedule(cost::price(job, plan, prices).value()).value().step;
    };
    RC_LOG(fmt::format("{} batch {} on {}", job.model->id, job.batch, job.cluster.gpus_per_node));
    const Time naive = took();
    job.strategy.split_on_host = true;
    const Time split = took();
    job.strategy.preload = true;
    const Time ahead = took();
    RC_ASSERT(split <= naive);
    RC_ASSERT(ahead <= split);
    const DataSize all = job.model->input_per_sample * static_cast<double>(job.batch * job.cluster.gpus());
    const Bandwidth slowest = min(job.cluster.node.host_link.bandwidth, job.cluster.node.pcie.bandwidth) * 0.5;
    RC_ASSERT(naive - ahead <= all / slowest * 2.0 + milliseconds(1));
    // Half the weights on the way, and twice through them at both ends.
    job.strategy.parameter_compression = 2.0;
    const double weights = 4 * weights_of(*job.model);
    RC_ASSERT(took() <= ahead + bytes(4 * weights) / (job.cluster.node.gpu.memory_bandwidth * 0.5));
  }));
}
