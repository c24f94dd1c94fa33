// Megatron's arguments as others start it: Slurm, NeMo's YAML, Megatron-DeepSpeed.
#include <catch2/catch.hpp>
#include <string>

#include "ddlsim/importers/launch_file.h"
#include "ddlsim/io/model_file.h"
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
