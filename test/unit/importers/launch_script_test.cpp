// Scripts that leave something to others: to Slurm, to a further shell, to whoever calls them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "ddlsim/importers/launch_file.h"
#include "launch_text.h"

using namespace ddlsim;
using namespace ddlsim::importers;
using namespace ddlsim::test;
using Catch::Matchers::Contains;

namespace {

const std::string kSmall =
    "--micro-batch-size 1 --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
    "--max-position-embeddings 32 --vocab-size 100 ";

std::string reason(const LaunchImport& launch, const std::string& path) {
  for (const LaunchSetting& setting : launch.settings) {
    if (setting.path == path) return setting.reason;
  }
  return {};
}

}  // namespace

TEST_CASE("launch: what is not known behind a switch is more options", "[unit][io][launch]") {
  for (const char* unknown : {"\"$@\"", "$EXTRA_ARGS", "${EXTRA[@]}", "$(python extra.py --all)", "${A} $B"}) {
    CAPTURE(unknown);
    const LaunchImport launch = megatron(kSmall + "--use-distributed-optimizer --bf16 " + unknown);
    CHECK(value(launch, "precision") == "bf16");
    CHECK(value(launch, "parallel.states") == "mixed");
    CHECK(value(launch, "parallel.zero") == "1");
    CHECK_THAT(left_out(launch), Contains("not known, and so are the options in it"));
    CHECK_THAT(reason(launch, "precision"), Contains("--bf16") && !Contains("$"));
  }
  const auto gated = [](const std::string& text) {
    const LaunchImport launch = megatron(text);
    REQUIRE(launch.model);
    const auto& layers = launch.model->layers;
    return std::any_of(layers.begin(), layers.end(), [](const auto& layer) { return layer.word == "swiglu"; });
  };
  CHECK(gated(kSmall + "--swiglu \"$@\""));
  CHECK(gated("AC=$1\nif [ $AC = full ]; then MORE=--recompute; fi\nOPTS=\"" + kSmall + "--swiglu\"\n" +
              "eval pretrain.py ${OPTS} ${MORE}\n"));
  // A switch that nobody reads has no value either.
  CHECK_THAT(left_out(megatron(kSmall + "--no-load-optim $MORE")),
             Contains("$MORE: not known, and so are the options"));
  CHECK(left_out(megatron(kSmall + "--save $WHERE")).empty());
}

TEST_CASE("launch: a switch's own value that is not known is not off", "[unit][io][launch]") {
  const LaunchImport joined = megatron(kSmall + "--bf16=$BF16 --overlap-grad-reduce=$OVERLAP");
  CHECK(value(joined, "precision") == "?");
  CHECK(value(joined, "parallel.states") == "?");
  CHECK_THAT(left_out(joined), Contains("--overlap-grad-reduce $OVERLAP: not known: taken as off"));
  const LaunchImport stated = megatron(kSmall + "--bf16=$BF16", {.stated = {{"precision", "bf16"}}});
  CHECK(value(stated, "parallel.states") == "mixed");
  const LaunchImport shape = megatron(kSmall + "--swiglu=$GATE --normalization $NORM");
  CHECK_FALSE(shape.model);
  CHECK_THAT(reason(shape, "model"), Contains("--swiglu $GATE") && Contains("--normalization $NORM"));
  CHECK_THAT(reason(megatron(kSmall + "--window-size $WINDOW"), "model"), Contains("--window-size $WINDOW"));
  const LaunchImport alike = megatron(kSmall + "--transformer-impl $IMPL --hidden-dropout $DROPOUT");
  CHECK(alike.model);
  CHECK_THAT(left_out(alike), Contains("--transformer-impl $IMPL: not known: attention is one kernel") &&
                                  Contains("--hidden-dropout $DROPOUT: not known: dropout is there"));
}

TEST_CASE("launch: a script whose launches wait for their kernels", "[unit][io][launch]") {
  const auto blocks = [](const std::string& head, const std::string& before = "") {
    return value(megatron(head + "\n" + before + "torchrun --nproc-per-node 8 pretrain.py " + kSmall),
                 "launch_blocking");
  };
  CHECK(blocks("") == "-");
  CHECK(blocks("export CUDA_LAUNCH_BLOCKING=1") == "yes");
  CHECK(blocks("export CUDA_LAUNCH_BLOCKING=0") == "-");
  CHECK(blocks("", "CUDA_LAUNCH_BLOCKING=1 ") == "yes");
  CHECK(blocks("export CUDA_LAUNCH_BLOCKING=0", "CUDA_LAUNCH_BLOCKING=1 ") == "yes");
  CHECK(blocks("export CUDA_LAUNCH_BLOCKING=1\nexport CUDA_LAUNCH_BLOCKING=") == "-");
  CHECK(blocks("if [ $DEBUG = yes ]; then export CUDA_LAUNCH_BLOCKING=1; fi") == "?");
}

TEST_CASE("launch: settings beside a degree that is not known are kept", "[unit][io][launch]") {
  const LaunchImport tensor =
      megatron(kSmall +
               "--tensor-model-parallel-size $TP --sequence-parallel --tp-comm-overlap --num-experts 2 "
               "--expert-tensor-parallel-size 1");
  CHECK(value(tensor, "parallel.tensor") == "?");
  CHECK(value(tensor, "parallel.sequence") == "yes");
  CHECK(value(tensor, "parallel.overlap_tensor") == "yes");
  CHECK(value(tensor, "parallel.expert_tensor") == "1");
  CHECK_THAT(left_out(tensor), Contains("--tensor-model-parallel-size $TP: the vocabulary is padded"));
  CHECK(value(megatron(kSmall + "--sequence-parallel"), "parallel.sequence") == "-");

  const auto stages = [](const std::string& more) {
    return megatron(kSmall + "--pipeline-model-parallel-size $PP " + more);
  };
  CHECK(value(stages("--num-virtual-stages-per-pipeline-rank 2"), "parallel.virtual_stages") == "2");
  CHECK(value(stages("--num-virtual-stages-per-pipeline-rank 2"), "parallel.schedule") == "interleaved");
  CHECK(value(stages("--num-layers-per-virtual-pipeline-stage 1"), "parallel.virtual_stages") == "?");
  CHECK(value(stages("--pipeline-model-parallel-layout 'Et|tL'"), "parallel.virtual_stages") == "?");
  CHECK(value(stages(""), "parallel.schedule") == "1f1b");
}

TEST_CASE("launch: Slurm's variables follow from what is asked of it", "[unit][io][launch]") {
  const std::string head =
      "#!/bin/bash\n#SBATCH -J x -N 4 # four\n#SBATCH --gpus-per-node=h100:8 --ntasks-per-node 2\n"
      "#SBATCH --cpus-per-task=12\n";
  const LaunchImport launch =
      megatron(head + "WORLD=$((SLURM_NNODES * SLURM_GPUS_PER_NODE))\n" +
               "torchrun --nnodes $SLURM_JOB_NUM_NODES --nproc-per-node ${SLURM_GPUS_ON_NODE:-1} pretrain.py "
               "--micro-batch-size $SLURM_NTASKS_PER_NODE --global-batch-size $((WORLD * 2)) "
               "--tensor-model-parallel-size $SLURM_NTASKS --num-layers $SLURM_CPUS_PER_TASK\n");
  CHECK(value(launch, "nodes") == "4");
  CHECK(value(launch, "gpus_per_node") == "8");
  CHECK(value(launch, "batch") == "2");
  CHECK(value(launch, "global_batch") == "64");
  CHECK(value(launch, "parallel.tensor") == "8");
  const std::string use = "torchrun --nproc-per-node $SLURM_GPUS_ON_NODE pretrain.py --micro-batch-size 1\n";
  CHECK(value(megatron("#SBATCH --gres=gpu:a100:4,nvme:1\n" + use), "gpus_per_node") == "4");
  // The script's own word, and --define's, come later.
  CHECK(value(megatron(head + "SLURM_GPUS_ON_NODE=6\n" + use), "gpus_per_node") == "6");
  CHECK(value(megatron(head + use, {.variables = {{"SLURM_GPUS_ON_NODE", "5"}}}), "gpus_per_node") == "5");
  CHECK(value(megatron("#SBATCH --nodes=2-4\ntorchrun --nnodes $SLURM_NNODES x.py --micro-batch-size 1\n"), "nodes") ==
        "?");
}

TEST_CASE("launch: text for a further shell is expanded as that would", "[unit][io][launch]") {
  const std::string head = "#SBATCH --nodes=2\n#SBATCH --gpus-per-node=8\nexport TP=4 ARGS=\"--bf16 --seed $SEED\"\n";
  for (const char* command :
       {"srun bash -c 'torchrun --nnodes $SLURM_NNODES --nproc_per_node ${SLURM_GPUS_ON_NODE} x.py $ARGS "
        "--micro-batch-size 1 --tensor-model-parallel-size $TP --rdzv-id $RANDOM'",
        "srun bash -c \"torchrun --nnodes \\$SLURM_NNODES --nproc_per_node \\$SLURM_GPUS_ON_NODE x.py $ARGS "
        "--micro-batch-size 1 --tensor-model-parallel-size \\$TP --node-rank \\$SLURM_NODEID\"",
        "CMD='torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 x.py $ARGS --micro-batch-size 1 "
        "--tensor-model-parallel-size $TP'\neval $CMD"}) {
    CAPTURE(command);
    const LaunchImport launch = megatron(head + command + "\n");
    CHECK(value(launch, "nodes") == "2");
    CHECK(value(launch, "gpus_per_node") == "8");
    CHECK(value(launch, "parallel.tensor") == "4");
    CHECK(value(launch, "precision") == "bf16");
  }
  // Asked for as it is without quotes; a variable that stands for itself ends somewhere.
  CHECK(value(megatron("srun bash -c 'x.py --micro-batch-size $MBS --num-layers 2'\n"), "batch") == "?");
  CHECK_THAT(refused(LaunchFormat::kMegatron, "MBS='$MBS'\nx.py --micro-batch-size $MBS\n"), Contains("whole number"));
}

TEST_CASE("launch: case on what is known is decided", "[unit][io][launch]") {
  const std::string script =
      "SIZE=${SIZE:-7B}\ncase \"$SIZE\" in\n  7B|7b) B=1; S=256;;\n  (1?B) B=2\n     S=512 ;;\n  big*) "
      "if [ $SIZE = big1 ]; then B=3; else B=4; fi; S=1 ;;\n  *) B=9; S=9\nesac\n"
      "x.py --micro-batch-size $B --global-batch-size $S --num-layers 2\n";
  const auto of = [&](const std::string& size) {
    const LaunchImport launch = megatron(script, {.variables = {{"SIZE", size}}});
    return value(launch, "batch") + "/" + value(launch, "global_batch");
  };
  CHECK(value(megatron(script), "batch") == "1");
  CHECK(of("7b") == "1/256");
  CHECK(of("13B") == "2/512");
  CHECK(of("big1") == "3/1");
  CHECK(of("big22") == "4/1");
  CHECK(of("other") == "9/9");
  CHECK(value(megatron("case $1 in a) B=1;; *) B=2;; esac\nx.py --micro-batch-size $B --num-layers 2\n"), "batch") ==
        "?");
  CHECK(value(megatron("case x in [xy]) B=1;; *) B=1;; esac\nx.py --micro-batch-size $B --num-layers 2\n"), "batch") ==
        "?");
  CHECK(value(megatron("B=3\ncase x in y) B=1;; esac\nx.py --micro-batch-size $B --num-layers 2\n"), "batch") == "3");
  CHECK_THAT(refused(LaunchFormat::kMegatron, "case x in\n x) x.py --micro-batch-size 1 ;;\n"),
             Contains("'esac' is missing"));
}
