// What frameworks are started with: what each key becomes, and that nothing is guessed or passed over.
#include "ddlsim/importers/launch_file.h"

#include <catch2/catch.hpp>
#include <string>

#include "ddlsim/io/model_file.h"
#include "launch_text.h"

namespace {

using namespace ddlsim;
using namespace ddlsim::importers;
using namespace ddlsim::test;
using Catch::Matchers::Contains;

/// A small Llama: 4 blocks of 64, 4 heads, 2 groups, ffn 96, sequence 32.
const std::string kModel =
    "--num-layers 4 --hidden-size 64 --ffn-hidden-size 96 --num-attention-heads 4 --group-query-attention "
    "--num-query-groups 2 --seq-length 32 --position-embedding-type rope --normalization RMSNorm --swiglu "
    "--hidden-dropout 0 --untie-embeddings-and-output-weights --disable-bias-linear --vocab-size 1000 ";

std::int64_t parameters(const std::string& arguments) {
  const LaunchImport launch = megatron("--micro-batch-size 1 " + arguments);
  REQUIRE(launch.model);
  const auto model = io::build_model(*launch.model);
  if (!model) FAIL(to_string(model.error()));
  return model->parameters();
}

}  // namespace

TEST_CASE("launch: megatron, degrees and batches", "[unit][io][launch]") {
  const LaunchImport launch = megatron(
      "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 --num-layers 32\\\n"
      " --num-layers-per-virtual-pipeline-stage 2 --context-parallel-size 2 --micro-batch-size 2\n"
      "--global-batch-size=512 --sequence-parallel --bf16 --use-distributed-optimizer --overlap-grad-reduce");
  CHECK(value(launch, "parallel.tensor") == "8");
  CHECK(value(launch, "parallel.pipeline") == "4");
  CHECK(value(launch, "parallel.context") == "2");
  // 32 layers on 4 stages, 2 in each virtual one.
  CHECK(value(launch, "parallel.virtual_stages") == "4");
  CHECK(value(launch, "parallel.schedule") == "interleaved");
  CHECK(value(launch, "parallel.overlap_p2p") == "yes");
  CHECK(value(launch, "parallel.sequence") == "yes");
  CHECK(value(launch, "parallel.zero") == "1");
  CHECK(value(launch, "parallel.states") == "mixed");
  CHECK(value(launch, "batch") == "2");
  CHECK(value(launch, "global_batch") == "512");
  CHECK(value(launch, "precision") == "bf16");
  CHECK(value(launch, "overlap") == "backward");
  // Nobody says on what, nor with which model: asked for, not guessed.
  CHECK(value(launch, "node") == "?");
  CHECK(value(launch, "nodes") == "?");
  CHECK(value(launch, "model") == "?");
}

TEST_CASE("launch: megatron, what tensor ranks send between stages", "[unit][io][launch]") {
  const auto sent = [](const std::string& more) {
    return value(megatron("--tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 --num-layers 32 "
                          "--micro-batch-size 2 --bf16 " +
                          more),
                 "parallel.scatter_gather");
  };
  CHECK(sent("") == "-");
  CHECK(sent("--scatter-gather-tensors-in-pipeline") == "yes");
  CHECK(sent("--no-scatter-gather-tensors-in-pipeline") == "no");
  CHECK(sent("--deepspeed --zero-stage 1") == "yes");
  // Releases print the variable that do nothing with it.
  CHECK(sent("--scatter-gather-tensors-in-pipeline True") == "-");
  CHECK(sent("--scatter-gather-tensors-in-pipeline True --deepspeed --zero-stage 1") == "yes");
}

TEST_CASE("launch: megatron, who shares states, and what gradients are sent in", "[unit][io][launch]") {
  const std::string two =
      "--micro-batch-size 1 --bf16 --use-distributed-optimizer --num-distributed-optimizer-instances 2 ";
  LaunchOptions options;
  options.stated = {{"parallel.data", "4"}};
  CHECK(value(taken(LaunchFormat::kMegatron, two, options), "parallel.shard_ranks") == "2");
  // Context ranks are replicas, too.
  CHECK(value(taken(LaunchFormat::kMegatron, two + "--context-parallel-size 2", options), "parallel.shard_ranks") ==
        "4");
  // Elements of 4 bytes, of fp16 2; buckets are alike.
  const std::string bucket = "--micro-batch-size 1 --ddp-bucket-size 1000 ";
  CHECK(value(megatron(bucket + "--bf16"), "strategy.bucket") == "4000 B");
  CHECK(value(megatron(bucket + "--bf16"), "strategy.first_bucket") == "4000 B");
  CHECK(value(megatron(bucket + "--fp16"), "strategy.bucket") == "2000 B");
  // FSDP2 has its own streams.
  CHECK(value(megatron("--micro-batch-size 1 --bf16 --use-torch-fsdp2"), "overlap") == "backward");
  CHECK(value(megatron("--micro-batch-size 1 --bf16"), "overlap") == "none");
}

TEST_CASE("launch: megatron, updated weights that are gathered beside the next forward pass", "[unit][io][launch]") {
  const std::string shares = "--micro-batch-size 1 --bf16 --use-distributed-optimizer ";
  CHECK(value(megatron(shares + "--overlap-grad-reduce --overlap-param-gather"), "parallel.overlap_gather") == "yes");
  CHECK(value(megatron(shares + "--overlap-grad-reduce"), "parallel.overlap_gather") == "-");
}

TEST_CASE("launch: megatron's own defaults are written out", "[unit][io][launch]") {
  const LaunchImport launch = megatron("--pipeline-model-parallel-size 2 --micro-batch-size 1 --fp16");
  CHECK(value(launch, "overlap") == "none");
  CHECK(value(launch, "parallel.schedule") == "1f1b");
  CHECK(value(launch, "parallel.overlap_p2p") == "no");
  CHECK(value(launch, "strategy.accumulation") == "1");
  CHECK(value(launch, "parallel.states") == "mixed-16");
  CHECK(value(megatron("--micro-batch-size 1 --num-layers 2"), "precision") == "fp32");
  CHECK(value(megatron("--micro-batch-size 1 --fp8-format hybrid --bf16"), "precision") == "fp8");
  CHECK(value(megatron("--micro-batch-size 1 --fp4-format e2m1 --bf16"), "precision") == "fp4");
  const std::string experts = "--micro-batch-size 1 --expert-model-parallel-size 8 ";
  const auto dispatch = [&](const std::string& way) {
    return value(megatron(experts + way), "parallel.expert_dispatch");
  };
  CHECK(dispatch("--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend hybridep") == "once");
  CHECK(dispatch("--moe-token-dispatcher-type alltoall") == "copies");
  CHECK(dispatch("--moe-token-dispatcher-type allgather") == "?");  // asked for
  CHECK(value(megatron("--micro-batch-size 1 --moe-token-dispatcher-type flex"), "parallel.expert_dispatch") == "-");
  // Experts are cut over the tensor group where nobody says that they are whole.
  const auto cut = [&](const std::string& words) { return value(megatron(experts + words), "parallel.expert_tensor"); };
  CHECK(cut("--tensor-model-parallel-size 2 --expert-tensor-parallel-size 1") == "1");
  CHECK(cut("--tensor-model-parallel-size 2 --expert-tensor-parallel-size 2") == "-");
  CHECK(cut("--tensor-model-parallel-size 2") == "-");
  CHECK(cut("--expert-tensor-parallel-size 1") == "-");
  CHECK(cut("--tensor-model-parallel-size 4 --expert-tensor-parallel-size 2") == "?");
  CHECK(value(megatron("--micro-batch-size 1 --num-experts 8 --tensor-model-parallel-size 2 "
                       "--expert-tensor-parallel-size 1"),
              "parallel.expert_tensor") == "1");
  CHECK(value(megatron("--micro-batch-size 1 --bf16 --grad-reduce-in-bf16"), "parallel.states") == "mixed-16");
  CHECK(value(megatron("--micro-batch-size 1 --recompute-activations"), "parallel.recompute") == "selective");
  const LaunchImport in_blocks = megatron(
      "--micro-batch-size 1 --recompute-granularity full --recompute-method block --recompute-num-layers 3 "
      "--num-layers 32 --pipeline-model-parallel-size 4");
  CHECK(value(in_blocks, "parallel.recompute_every") == "8");
  CHECK(value(in_blocks, "parallel.recompute_first") == "3");
  // So many of every virtual stage: of five all of them, of ten half.
  const std::string virtually =
      "--micro-batch-size 1 --recompute-granularity full --recompute-method block --recompute-num-layers 5 "
      "--num-layers 80 --pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage ";
  CHECK(value(megatron(virtually + "5"), "parallel.recompute") == "full");
  CHECK(value(megatron(virtually + "5"), "parallel.recompute_every") == "-");
  CHECK(value(megatron(virtually + "10"), "parallel.recompute_every") == "10");
  CHECK(value(megatron(virtually + "10"), "parallel.recompute_first") == "5");
  CHECK(value(megatron("--micro-batch-size 1 --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params"),
              "parallel.zero") == "3");
  CHECK(value(megatron("--micro-batch-size 1 --use-tp-pp-dp-mapping"), "parallel.order") == "tp-cp-ep-pp-dp");
}

TEST_CASE("launch: a script is read as a shell would", "[unit][io][launch]") {
  const std::string script = R"(#!/bin/bash
#SBATCH --nodes=4
#SBATCH --gres=gpu:8
TP=${TP:-4}   # overridden from outside
GPUS=$((2 * TP * (1 + 1)))
NAME='a b'"c"
MODEL=8B
if [ "$MODEL" = "70B" ]; then
  PP=8
elif [[ $MODEL == "8B" && -n "$NAME" ]]; then PP=2; else PP=1; fi
ARGS=(
  --tensor-model-parallel-size $TP  # how many
  # --micro-batch-size 7
  --pipeline-model-parallel-size ${PP}
)
ARGS+=("--micro-batch-size 3")
MORE="--global-batch-size ${GPUS} \
      --bf16"
[ -z "$MODEL" ] && MORE="$MORE --fp16"
cat <<EOF
--tensor-model-parallel-size 99
EOF
CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun --nproc_per_node=8 train.py ${ARGS[@]} $MORE 2>&1 | tee log
)";
  const LaunchImport launch = megatron(script);
  CHECK(value(launch, "parallel.tensor") == "4");
  CHECK(value(launch, "parallel.pipeline") == "2");
  CHECK(value(launch, "batch") == "3");
  CHECK(value(launch, "global_batch") == "16");
  CHECK(value(launch, "precision") == "bf16");
  CHECK(value(launch, "nodes") == "4");
  CHECK(value(launch, "gpus_per_node") == "8");
  CHECK(value(megatron(script, {.variables = {{"TP", "2"}}}), "parallel.tensor") == "2");
  CHECK(value(megatron(script, {.variables = {{"MODEL", "70B"}}}), "parallel.pipeline") == "8");
}

TEST_CASE("launch: what a script does not say is asked for", "[unit][io][launch]") {
  const LaunchImport launch = megatron(
      "if [ -f big ]; then TP=8; else TP=4; fi\n"
      "for PP in 1 2 4; do :; done\n"
      "train.py --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP --micro-batch-size $(nproc) "
      "$EXTRA\n");
  CHECK(value(launch, "parallel.tensor") == "?");
  CHECK(value(launch, "parallel.pipeline") == "?");
  CHECK(value(launch, "batch") == "?");
  CHECK_THAT(left_out(launch), Contains("$EXTRA") && Contains("--define NAME=VALUE"));
  const std::string text = write_scenario(launch, "t", "");
  CHECK_THAT(text, Contains("tensor: \"?\"") && Contains("line 1 sets it under a condition"));
}

TEST_CASE("launch: the list that Megatron prints, and YAML", "[unit][io][launch]") {
  const LaunchImport launch = megatron(
      "using world size: 64\n[rank0]: ------------------------ arguments ------------------------\n"
      "  add_bias_linear ................................. False\n"
      "  bf16 ............................................ True\n"
      "  data_parallel_sharding_strategy ................. no_shard\n"
      "  expert_tensor_parallel_size ..................... 8\n"
      "  fp8_e4m3 ........................................ False\n"
      "  hybrid_attention_ratio .......................... 0.0\n"
      "  optimizer_offload_fraction ...................... 1.0\n"
      "  use_distributed_optimizer ....................... True\n"
      "  data_parallel_size .............................. 4\n"
      "  fp16 ............................................ False\n"
      "  global_batch_size ............................... 256\n"
      "  micro_batch_size ................................ 2\n"
      "  overlap_grad_reduce ............................. True\n"
      "0:   pipeline_model_parallel_size .................... 2\n"
      "  recompute_granularity ........................... None\n"
      "  tensor_model_parallel_size ...................... 8\n"
      "  tensorboard_dir ................................. runs\n"
      "  world_size ...................................... 64\n");
  CHECK(value(launch, "parallel.tensor") == "8");
  CHECK(value(launch, "parallel.pipeline") == "2");
  CHECK(value(launch, "parallel.data") == "4");
  CHECK(value(launch, "parallel.recompute") == "-");
  // What the list has where nobody stated anything changes nothing.
  CHECK(value(launch, "parallel.zero") == "1");
  CHECK(left_out(launch).empty());
  CHECK(value(launch, "precision") == "bf16");
  CHECK(value(launch, "nodes") == "?");
  CHECK(launch.passed_by > 0);

  const LaunchImport nemo = taken(LaunchFormat::kMegatron,
                                  "trainer: {num_nodes: 4, devices: 8, precision: bf16-mixed}\n"
                                  "model:\n  tensor_model_parallel_size: 4\n  micro_batch_size: 1\n"
                                  "  global_batch_size: 128\n  seq_length: ${model.encoder_seq_length}\n",
                                  {}, "conf.yaml");
  CHECK(value(nemo, "nodes") == "4");
  CHECK(value(nemo, "gpus_per_node") == "8");
  CHECK(value(nemo, "parallel.tensor") == "4");
  CHECK(value(nemo, "precision") == "bf16");
}

TEST_CASE("launch: megatron, the model by hand", "[unit][io][launch]") {
  // Vocabulary 1000 -> 1024 = 8 * 128. Block: qkv 64 * (4 + 2 * 2) * 16, proj 64 * 64, fc1 64 * 192, fc2 96 * 64,
  // two norms of 64. Table and head 1024 * 64 each, last norm 64.
  constexpr std::int64_t kBlock = 64 * 128 + 64 * 64 + 64 * 192 + 96 * 64 + 2 * 64;
  constexpr std::int64_t kPlain = 4 * kBlock + 2 * 1024 * 64 + 64;
  CHECK(parameters(kModel) == kPlain);
  // Two tensor ranks: 1000 -> 1024, a multiple of 256; eight: the same; 16 at 128 each: 2048.
  CHECK(parameters(kModel + "--tensor-model-parallel-size 16") == kPlain + 2 * 1024 * 64);
  // The null tokenizer has one more token: 1024 -> 1025 -> 1152.
  CHECK(parameters(kModel + "--vocab-size 1024 --tokenizer-type NullTokenizer") == kPlain + 2 * 128 * 64);
  CHECK(parameters(kModel + "--qk-layernorm") == kPlain + 4 * 2 * 16);
  CHECK(parameters(kModel + "--add-qkv-bias") == kPlain + 4 * 128);
  // 4 experts of 3 * 64 * 40 and a router in place of every MLP; then in every second block; with a shared expert.
  constexpr std::int64_t kSparse = 4 * 3 * 64 * 40 + 64 * 4 - 3 * 64 * 96;
  const std::string moe = kModel + "--num-experts 4 --moe-ffn-hidden-size 40 ";
  CHECK(parameters(moe) == kPlain + 4 * kSparse);
  CHECK(parameters(moe + "--moe-layer-freq 2") == kPlain + 2 * kSparse);
  CHECK(parameters(moe + "--moe-layer-freq '([0]*3+[1]*1)'") == kPlain + kSparse);
  // As logged commands have it, without its quotes; what stands behind it is read too.
  for (const char* list :
       {"--moe-layer-freq ([0]*3+[1]*1)", "--moe-layer-freq=([0] * 3 + [1])", "--moe-layer-freq [0,0,0,1]"}) {
    CAPTURE(list);
    CHECK(parameters(moe + list + " --qk-layernorm") == kPlain + kSparse + 4 * 2 * 16);
    CHECK(parameters(moe + "\n" + list + "\n--qk-layernorm") == kPlain + kSparse + 4 * 2 * 16);
  }
  CHECK(parameters(moe + "--moe-shared-expert-intermediate-size 40") == kPlain + 4 * (kSparse + 3 * 64 * 40));
  // GPT-2's way: biases, positions, tied, 4 h wide; 64 * (4 + 2 * 4) * 16 of QKV.
  constexpr std::int64_t kOld = 64 * 192 + 192 + 64 * 64 + 64 + 64 * 256 + 256 + 256 * 64 + 64 + 4 * 64;
  CHECK(parameters("--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
                   "--max-position-embeddings 48 --vocab-size 1000") == 4 * kOld + 1024 * 64 + 48 * 64 + 2 * 64);
  // Latent attention: q 64 -> 24 -> 4 * 12, kv 64 -> 16 + 4 and 16 -> 4 * (8 + 8), proj 32 -> 64, norms of 24 and 16.
  CHECK(parameters(kModel + "--multi-latent-attention --q-lora-rank 24 --kv-lora-rank 16 --qk-head-dim 8 "
                            "--qk-pos-emb-head-dim 4 --v-head-dim 8") ==
        kPlain + 4 * (64 * 24 + 24 + 24 * 48 + 64 * 20 + 16 + 16 * 64 + 32 * 64 - 64 * 128 - 64 * 64));
}

TEST_CASE("launch: megatron, what torchrun starts is no value of torchrun's last option", "[unit][io][launch]") {
  const LaunchImport launch = megatron("torchrun --nproc_per_node 8 --nnodes 8 pretrain_gpt.py --micro-batch-size 1 " +
                                       std::string("--tensor-model-parallel-size 8 ") + kModel);
  CHECK(value(launch, "nodes") == "8");
  CHECK(value(launch, "gpus_per_node") == "8");
  CHECK(value(launch, "parallel.tensor") == "8");
}

TEST_CASE("launch: megatron's stages are written as layers of the model file", "[unit][io][launch]") {
  const std::string two = "--micro-batch-size 1 --pipeline-model-parallel-size 2 " + kModel;
  // A block is 10 layers (norm, qkv, rotary, attention, proj, add, norm, fc1, swiglu, fc2, add: 11), the table one, the
  // end three.
  const LaunchImport even = megatron(two);
  CHECK(value(even, "parallel.layers_per_stage") == "23-25");
  CHECK(value(megatron(two + "--decoder-first-pipeline-num-layers 1"), "parallel.layers_per_stage") == "12-36");
  CHECK_THAT(refused(LaunchFormat::kMegatron, "--micro-batch-size 1 --pipeline-model-parallel-size 3 " + kModel),
             Contains("4 blocks on 3 stages leave a remainder"));
  const auto text = io::write_model(*even.model);
  REQUIRE(text);
  const auto read = io::parse_yaml(*text, "m.yaml").and_then([](const io::Node& node) { return io::read_model(node); });
  REQUIRE(read);
  CHECK(read->layers.size() == 48);
}

TEST_CASE("launch: megatron counts embedding and loss as blocks of the stages", "[unit][io][launch]") {
  // 6 blocks of 11 layers, one before them, three behind: 8 on 4 stages are 2 each, 1 of them the embedding, 1 the
  // loss.
  std::string six = kModel;
  six.replace(six.find("--num-layers 4"), 14, "--num-layers 6");
  const std::string counted =
      "--micro-batch-size 1 --account-for-embedding-in-pipeline-split "
      "--account-for-loss-in-pipeline-split " +
      six;
  const LaunchImport four = megatron(counted + "--pipeline-model-parallel-size 4");
  CHECK(value(four, "parallel.layers_per_stage") == "12-22-22-14");
  CHECK(left_out(four).empty());
  // Two parts a rank with a block each: the first has the embedding alone, the last norm, head and loss.
  const LaunchImport parts =
      megatron(counted + "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 1");
  CHECK(value(parts, "parallel.virtual_stages") == "2");
  CHECK(value(parts, "parallel.layers_per_stage") == "1-11-11-11-11-11-11-3");
  // One of a stage's two is computed again.
  CHECK(
      value(megatron(counted + "--pipeline-model-parallel-size 4 --recompute-granularity full --recompute-method block "
                               "--recompute-num-layers 1"),
            "parallel.recompute_every") == "2");
  const std::string one = "--micro-batch-size 1 --account-for-loss-in-pipeline-split " + six;
  CHECK(value(megatron(one + "--pipeline-model-parallel-size 7"), "parallel.layers_per_stage") ==
        "12-11-11-11-11-11-3");
  CHECK_THAT(refused(LaunchFormat::kMegatron, one + "--pipeline-model-parallel-size 2"),
             Contains("6 blocks, 7 with embedding or loss counted, on 2 parts leave a remainder"));
}

TEST_CASE("launch: Megatron-DeepSpeed counts the layers that its method names", "[unit][io][launch]") {
  // Embedding, dropout; 10 blocks of 11 layers and a dropout's more; norm, head, loss.
  const std::string bloom =
      "--micro-batch-size 1 --position-embedding-type alibi --num-layers 10 --hidden-size 64 --num-attention-heads 4 "
      "--seq-length 32 --pad-vocab-size-to 1000 --bf16 ";
  const LaunchImport counted =
      megatron(bloom + "--pp-partition-method 'type:transformer|embedding' --pipeline-model-parallel-size 4");
  CHECK(value(counted, "parallel.layers_per_stage") == "26-36-36-27");
  CHECK(left_out(counted).empty());
  // No rows of positions: ALiBi has no table, and needs no --max-position-embeddings.
  REQUIRE(counted.model);
  CHECK(std::none_of(counted.model->layers.begin(), counted.model->layers.end(),
                     [](const auto& layer) { return layer.name.find("position") != std::string::npos; }));
  // A head of its own is no embedding: 11 on 11 stages.
  CHECK(value(megatron(bloom + "--untie-embeddings-and-output-weights --pp-partition-method "
                               "'type:transformer|embedding' --pipeline-model-parallel-size 11"),
              "parallel.layers_per_stage")
            .starts_with("2-12-12-"));
  const LaunchImport blocks =
      megatron(bloom + "--pp-partition-method type:transformer --pipeline-model-parallel-size 2");
  CHECK(value(blocks, "parallel.layers_per_stage") == "62-63");
  CHECK(left_out(blocks).empty());
  CHECK_THAT(left_out(megatron(bloom + "--pp-partition-method parameters --pipeline-model-parallel-size 2")),
             Contains("--pp-partition-method parameters") && Contains("parallel.layers_per_stage"));
}

TEST_CASE("launch: megatron, a model that is not all there is asked for", "[unit][io][launch]") {
  const LaunchImport launch = megatron(
      "--micro-batch-size 1 --num-layers 4 --hidden-size 64 --num-attention-heads 4 "
      "--seq-length 32 --max-position-embeddings 32 --tokenizer-type GPT2BPETokenizer");
  CHECK_FALSE(launch.model);
  CHECK(value(launch, "model") == "?");
  CHECK_THAT(write_scenario(launch, "t", ""), Contains("--vocab-size N at the import"));
  LaunchOptions options;
  options.vocabulary = 50257;
  CHECK(megatron("--micro-batch-size 1 --num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
                 "--max-position-embeddings 32 --tokenizer-type GPT2BPETokenizer",
                 options)
            .model);
}

TEST_CASE("launch: megatron's faults have their place", "[unit][io][launch]") {
  const auto fault = [](const std::string& text) { return refused(LaunchFormat::kMegatron, text, "train.sh"); };
  CHECK_THAT(fault("echo hello"), Contains("no Megatron-LM arguments found"));
  CHECK_THAT(fault("a.py --micro-batch-size 1 \\\n  --tensor-model-parallel-size four"),
             Contains("train.sh:2:3: error: '--tensor-model-parallel-size four'") && Contains("whole number from 1"));
  CHECK_THAT(fault("a.py --micro-batch-size -1"), Contains("--micro-batch-size -1"));
  CHECK_THAT(fault("a.py --micro-batch-size 0"), Contains("from 1 to"));
  CHECK_THAT(fault("a.py --micro-batch-size 1 --num-layers 2\nb.py --micro-batch-size 2 --num-layers 4\n"),
             Contains("2 commands with Megatron-LM arguments") && Contains("train.sh:2:1"));
  CHECK_THAT(fault("A=(--micro-batch-size 1\n"), Contains("train.sh:1:3") && Contains("is not closed"));
  CHECK_THAT(fault("a.py --num-layers \"4\n"), Contains("train.sh:1:19") && Contains("is not closed"));
  CHECK_THAT(fault("if [ 1 = 1 ]; then\na.py --num-layers 4 --micro-batch-size 1\n"), Contains("'fi' is missing"));
  CHECK_THAT(fault("a.py --micro-batch-size 1 --fp16 --bf16"), Contains("both --bf16 and --fp16"));
  CHECK_THAT(fault("a.py --micro-batch-size 1 --hybrid-override-pattern M-M*"), Contains("hybrid (Mamba)"));
  CHECK_THAT(fault("a.py --micro-batch-size 1 --num-layers 30 --pipeline-model-parallel-size 4 "
                   "--num-layers-per-virtual-pipeline-stage 4"),
             Contains("30 layers on 4 stages"));
  CHECK_THAT(fault("a.py --micro-batch-size 1 --recompute-granularity most"), Contains("valid: selective, full"));
}

TEST_CASE("launch: a slip of an option is told from one without a rule", "[unit][io][launch]") {
  const auto out = [](const LaunchImport& launch) {
    std::string all;
    for (const std::string& line : launch.left_out) all += line + "\n";
    return all;
  };
  CHECK_THAT(out(megatron("--micro-batch-size 2 --num-layers 4 --tensor-model-paralel-size 8")),
             Contains("--tensor-model-paralel-size (did you mean 'tensor-model-parallel-size'?)"));
  CHECK_THAT(out(taken(LaunchFormat::kDeepSpeed, "{\"zero_optimization\": {\"stgae\": 3}}")),
             Contains("did you mean 'zero_optimization.stage'?"));
  CHECK_THAT(out(taken(LaunchFormat::kDeepSpeed, "{\"zero_optimization\": {\"stage\": 1}, \"unheard_of\": 3}")),
             !Contains("did you mean"));
}

TEST_CASE("launch: megatron's switches of single kernels", "[unit][io][launch]") {
  const auto fused = [](const std::string& arguments) {
    return value(megatron("--micro-batch-size 1 " + arguments), "software.fused");
  };
  // The softmax is a kernel of its own where attention is several.
  CHECK(fused("--no-masked-softmax-fusion") == "yes");
  CHECK(fused("--no-masked-softmax-fusion --attention-backend unfused") == "-");
  CHECK(fused("--swiglu --no-bias-swiglu-fusion") == "-");
  CHECK(fused("--swiglu --no-bias-gelu-fusion") == "yes");
  CHECK(fused("--no-bias-swiglu-fusion") == "yes");
  CHECK(fused("--no-bias-gelu-fusion") == "-");
  CHECK(value(megatron("micro_batch_size ... 1\nnum_layers ... 2\nbias_gelu_fusion ... False\nswiglu ... True\n"),
              "software.fused") == "yes");
  CHECK_THAT(left_out(megatron("--micro-batch-size 1 --swiglu --no-bias-swiglu-fusion")),
             Contains("software.fused is left open"));
}

TEST_CASE("launch: megatron's modules that are computed again", "[unit][io][launch]") {
  const auto read = [](const std::string& modules) {
    return megatron("--micro-batch-size 1 --recompute-granularity selective " + modules);
  };
  CHECK(value(read(""), "parallel.recompute") == "selective");
  CHECK(value(read("--recompute-modules core_attn"), "parallel.recompute") == "selective");
  const LaunchImport both = read("--recompute-modules core_attn mlp");
  CHECK(value(both, "parallel.recompute") == "selective");
  CHECK_THAT(left_out(both), Contains("mlp: no rule"));
  const LaunchImport others = read("--recompute-modules mla_up_proj moe_act layernorm");
  CHECK(value(others, "parallel.recompute") == "none");
  CHECK_THAT(left_out(others), Contains("mla_up_proj, moe_act, layernorm: no rule"));
}

TEST_CASE("launch: megatron's options of DeepSeek-V3", "[unit][io][launch]") {
  const std::string eight = "--micro-batch-size 1 --bf16 --fp8-format e4m3 --fp8-param-gather ";
  CHECK(value(megatron(eight + "--use-distributed-optimizer"), "parallel.states") == "fp8-primary");
  CHECK(value(megatron(eight), "parallel.states") == "fp8");
  const auto routed = [](const std::string& way, const std::string& ranks) {
    return megatron("--micro-batch-size 1 --nproc-per-node 8 --expert-model-parallel-size " + ranks +
                    " --moe-router-num-groups 8 --moe-router-group-topk 4 --moe-token-dispatcher-type " + way);
  };
  CHECK(value(routed("flex", "64"), "parallel.expert_servers") == "4");
  CHECK(value(routed("flex", "128"), "parallel.expert_servers") == "8");
  CHECK(value(routed("flex", "32"), "parallel.expert_servers") == "-");
  CHECK_THAT(left_out(routed("flex", "32")), Contains("no whole servers"));
  CHECK(value(routed("alltoall", "64"), "parallel.expert_servers") == "-");
  CHECK_THAT(left_out(megatron("--micro-batch-size 1 --exp-avg-dtype bf16")), Contains("4 bytes a parameter"));
  CHECK(left_out(megatron("--micro-batch-size 1 --exp-avg-dtype fp32 --moe-grouped-gemm --cross-entropy-loss-fusion "
                          "--fp8-amax-history-len 1024 --use-precision-aware-optimizer"))
            .empty());
}

TEST_CASE("launch: megatron's layout of a pipeline", "[unit][io][launch]") {
  const auto laid = [](const std::string& layout, const std::string& stages) {
    return megatron("--micro-batch-size 1 --pipeline-model-parallel-size " + stages +
                    " --pipeline-model-parallel-layout '" + layout + "' " + kModel);
  };
  // A table, four blocks of 11 layers, three behind them: E t | t t | t | L.
  const LaunchImport four = laid("Et|t*2,|t|L", "2");
  CHECK(value(four, "parallel.schedule") == "interleaved");
  CHECK(value(four, "parallel.virtual_stages") == "2");
  CHECK(value(four, "parallel.layers_per_stage") == "12-22-11-3");
  CHECK(value(laid("E(t|)*4L", "5"), "parallel.layers_per_stage") == "12-11-11-11-3");
  CHECK(value(laid("E|tt|tt|L", "4"), "parallel.layers_per_stage") == "1-22-22-3");
  // The multi-token prediction is in no model here: its part has the final norm.
  CHECK(value(laid("Et|(tt|)*1t|m|L", "5"), "parallel.layers_per_stage") == "12-22-11-1-2");
  CHECK(value(laid("Ett||tt|L", "2"), "parallel.layers_per_stage") == "?");
  CHECK(value(laid("Ett|xt|L", "2"), "parallel.layers_per_stage") == "?");
  const auto fault = [](const std::string& layout) {
    return refused(LaunchFormat::kMegatron,
                   "--micro-batch-size 1 --pipeline-model-parallel-size 2 "
                   "--pipeline-model-parallel-layout '" +
                       layout + "' " + kModel);
  };
  CHECK_THAT(fault("Ett|t|tL"), Contains("3 parts on 2 stages"));
  CHECK_THAT(fault("Ett|ttt|t|L"), Contains("has 6 blocks"));
  // With virtual stages the first stage's blocks are dealt to its parts.
  CHECK(value(megatron("--micro-batch-size 1 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 1 "
                       "--decoder-first-pipeline-num-layers 1 " +
                       kModel),
              "parallel.layers_per_stage") == "12-36");
  std::string eight = kModel;
  eight.replace(eight.find("--num-layers 4"), 14, "--num-layers 8");
  CHECK(value(megatron("--micro-batch-size 1 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 "
                       "--decoder-first-pipeline-num-layers 2 " +
                       eight),
              "parallel.layers_per_stage") == "12-33-11-36");
}
