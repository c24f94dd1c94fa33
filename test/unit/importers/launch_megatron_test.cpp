// Megatron's arguments as others start it: Slurm, NeMo's YAML, Megatron-DeepSpeed.
#include <catch2/catch.hpp>
#include <string>

#include "ddlsim/importers/launch_file.h"
#include "launch_text.h"

using namespace ddlsim;
using namespace ddlsim::importers;
using namespace ddlsim::test;
using Catch::Matchers::Contains;

TEST_CASE("launch: whose count of GPUs counts", "[unit][io][launch]") {
  const auto gpus = [](const std::string& head, const std::string& launcher) {
    const LaunchImport launch = megatron("#SBATCH --nodes=4\n" + head + launcher + " --micro-batch-size 1\n");
    CHECK(value(launch, "nodes") == "4");
    return value(launch, "gpus_per_node");
  };
  const std::string torchrun = "srun torchrun --nproc-per-node 8 --nnodes $SLURM_NNODES pretrain_gpt.py";
  const std::string one = "#SBATCH --ntasks-per-node=1\n";
  // torchrun starts a server's processes, of one task.
  CHECK(gpus("#SBATCH --gpus-per-node=4\n" + one, torchrun) == "8");
  CHECK(gpus("#SBATCH --ntasks-per-node=16\n", torchrun) == "8");
  const std::string bare = "srun python pretrain_gpt.py";
  CHECK(gpus("#SBATCH --gpus-per-node=8\n" + one, bare) == "8");
  CHECK(gpus("#SBATCH --gpus-per-node=h100:8\n" + one, bare) == "8");
  CHECK(gpus("#SBATCH --gres=gpu:8\n" + one, bare) == "8");
  CHECK(gpus(one + "#SBATCH --gres=gpu:h100:4\n", bare) == "4");
  CHECK(gpus("#SBATCH --ntasks-per-node=8\n", bare) == "8");
  CHECK(gpus(one, bare) == "-");
  // The launcher's count is not known, the tasks are not it.
  const std::string unknown = "srun torchrun --nproc-per-node $GPUS pretrain_gpt.py";
  CHECK(gpus("#SBATCH --ntasks-per-node=2\n", unknown) == "?");
  CHECK(gpus("#SBATCH --gpus-per-node=8\n", unknown) == "8");
}

TEST_CASE("launch: null in YAML states nothing", "[unit][io][launch]") {
  const LaunchImport launch = taken(LaunchFormat::kMegatron,
                                    "micro_batch_size: 1\nbf16: true\nfp8: null\nnum_layers: 2\nhidden_size: 64\n"
                                    "num_attention_heads: 4\nseq_length: 32\nvocab_size: 100\nkv_channels: null\n"
                                    "num_query_groups: ~\nmax_position_embeddings: 32\nrecompute_granularity:\n",
                                    {}, "conf.yaml");
  CHECK(value(launch, "precision") == "bf16");
  CHECK(value(launch, "parallel.recompute") == "-");
  CHECK(launch.model);
  CHECK(left_out(launch).empty());
}

TEST_CASE("launch: Megatron-DeepSpeed's stages, heads and GPUs", "[unit][io][launch]") {
  const auto read = [](const std::string& more) { return megatron("--micro-batch-size 1 --deepspeed " + more); };
  const LaunchImport second = read("--bf16 --zero-stage 2 --deepspeed_config ds.json");
  CHECK(value(second, "parallel.zero") == "2");
  CHECK(value(second, "parallel.states") == "mixed-16");
  CHECK(value(second, "overlap") == "none");
  CHECK_THAT(left_out(second), Contains("overlap_comm and buckets"));
  CHECK(value(read("--fp16 --zero-stage 3"), "overlap") == "backward");
  // BLOOM: bf16 without ZeRO is BF16_Optimizer, which shares states and sums in fp32.
  const LaunchImport bloom = read("--bf16 --zero-stage=0");
  CHECK(value(bloom, "parallel.zero") == "1");
  CHECK(value(bloom, "parallel.states") == "mixed");
  CHECK(value(read("--fp16 --zero-stage 0"), "parallel.zero") == "0");
  CHECK(value(read("--bf16"), "parallel.zero") == "?");
  CHECK(value(megatron("micro_batch_size ..... 1\nnum_layers ..... 2\nzero_stage ..... 1.0\ndeepspeed ..... True\n"),
              "parallel.zero") == "1");
  CHECK(value(megatron("micro_batch_size ..... 1\nnum_layers ..... 2\nzero_stage ..... 1.0\ndeepspeed ..... False\n"),
              "parallel.zero") == "-");
  CHECK_THAT(refused(LaunchFormat::kMegatron, "--micro-batch-size 1 --deepspeed --zero-stage 5", "a.sh"),
             Contains("valid: 0, 1, 2, 3"));

  const LaunchImport started = megatron("deepspeed --num_gpus 4 --num_nodes 2 pretrain_gpt.py --micro-batch-size 1");
  CHECK(value(started, "nodes") == "2");
  CHECK(value(started, "gpus_per_node") == "4");

  const std::string model =
      "--micro-batch-size 1 --num-layers 1 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
      "--max-position-embeddings 32 --vocab-size 100 ";
  const auto parameters = [&](const std::string& more) {
    const LaunchImport launch = megatron(model + more);
    REQUIRE(launch.model);
    const auto built = io::build_model(*launch.model);
    REQUIRE(built);
    return built->parameters();
  };
  // Two groups instead of four heads: 2 (keys, values) * 2 heads * 16 * (64 + 1 of the bias) fewer.
  CHECK(parameters("") - parameters("--num-key-value-heads 2") == 2 * 2 * 16 * 65);
  CHECK(parameters("--num-key-value-heads 2") == parameters("--group-query-attention --num-query-groups 2"));
}

TEST_CASE("launch: NeMo's optimizer and overlaps", "[unit][io][launch]") {
  const auto read = [](const std::string& optim, const std::string& more = "") {
    return taken(LaunchFormat::kMegatron,
                 "trainer: {precision: bf16}\nmodel:\n  micro_batch_size: 1\n  tensor_model_parallel_size: 2\n" + more +
                     "  optim:\n" + optim + "    sched: {name: CosineAnnealing}\n",
                 {}, "conf.yaml");
  };
  const LaunchImport apex =
      read("    name: distributed_fused_adam\n    overlap_grad_sync: True\n    overlap_param_sync: True\n",
           "  ub_tp_comm_overlap: True\n");
  CHECK(value(apex, "parallel.zero") == "1");
  CHECK(value(apex, "overlap") == "backward");
  CHECK(value(apex, "parallel.overlap_gather") == "yes");
  CHECK(value(apex, "parallel.overlap_tensor") == "yes");
  CHECK(value(read("    name: distributed_fused_adam\n    overlap_grad_sync: False\n"), "overlap") == "none");
  CHECK(value(read("    name: distributed_fused_adam\n"), "overlap") == "backward");
  const LaunchImport core = read("    name: mcore_distributed_optim\n    grad_sync_dtype: bf16\n");
  CHECK(value(core, "parallel.zero") == "1");
  CHECK(value(core, "overlap") == "none");
  CHECK(value(core, "parallel.states") == "mixed-16");
  CHECK(value(read("    name: fused_adam\n    overlap_param_sync: True\n"), "parallel.zero") == "-");
}

TEST_CASE("launch: every option without a rule is named", "[unit][io][launch]") {
  std::string options = "--micro-batch-size 1";
  for (int i = 0; i < 30; ++i) options += " --own-option-" + std::to_string(i) + " x";
  CHECK_THAT(left_out(megatron(options)), Contains("30 options") && Contains("--own-option-29"));
}

TEST_CASE("launch: megatron's gradients of 16 bits beside products of 8", "[unit][io][launch]") {
  const std::string eight = "--micro-batch-size 1 --bf16 --fp8-format hybrid ";
  const LaunchImport sixteen = megatron(eight + "--grad-reduce-in-bf16");
  CHECK(value(sixteen, "parallel.states") == "fp8");
  CHECK(value(sixteen, "strategy.gradients") == "bf16");
  CHECK_THAT(left_out(sixteen), Contains("stand in 32 in memory"));
  CHECK(value(megatron(eight), "strategy.gradients") == "-");
  CHECK(value(megatron("--micro-batch-size 1 --bf16 --fp4-format e2m1 --grad-reduce-in-bf16"), "parallel.states") ==
        "mixed-16");
}

TEST_CASE("launch: megatron, experts without a dispatcher and other optimizers", "[unit][io][launch]") {
  const std::string experts = "--micro-batch-size 1 --expert-model-parallel-size ";
  // Megatron's own, allgather, is asked for as if it were spelt out.
  CHECK(value(megatron(experts + "2"), "parallel.expert_dispatch") == "?");
  CHECK(value(megatron(experts + "2 --moe-token-dispatcher-type allgather"), "parallel.expert_dispatch") == "?");
  CHECK(value(megatron(experts + "2 --moe-token-dispatcher-type alltoall"), "parallel.expert_dispatch") == "copies");
  CHECK(value(megatron(experts + "1"), "parallel.expert_dispatch") == "-");
  CHECK_THAT(left_out(megatron("--micro-batch-size 1 --optimizer muon")), Contains("--optimizer muon"));
  for (const char* known : {"adam", "sgd"}) {
    CHECK(left_out(megatron(std::string("--micro-batch-size 1 --optimizer ") + known)).empty());
  }
}

TEST_CASE("launch: a command that is shown before it runs is one command", "[unit][io][launch]") {
  const std::string set = "CMD=\"torchrun pretrain_gpt.py --num-layers 2 --micro-batch-size 3\"\n";
  CHECK(value(megatron(set + "echo $CMD\neval $CMD\n"), "batch") == "3");
  CHECK(value(megatron(set + "printf '%s' \"$CMD\"\n$CMD\n"), "batch") == "3");
  CHECK(value(megatron(set + "$CMD\n$CMD\n"), "batch") == "3");
  // Shown alone, it is still what the file has.
  CHECK(value(megatron(set + "echo $CMD\n"), "batch") == "3");
  CHECK_THAT(refused(LaunchFormat::kMegatron, set + "eval $CMD\neval $CMD --micro-batch-size 4\n", "a.sh"),
             Contains("2 commands"));
}
