// What bad launch files get: a clear error, an exit status, in little time and memory.
#include <catch2/catch.hpp>
#include <string>

#include "hostile/run_program.h"

namespace {

using namespace ddlsim::test;
using Catch::Matchers::Contains;

std::string megatron(const std::string& file, const Words& more = {}, int status = 1) {
  return refused_import("megatron", file, more, status);
}

}  // namespace

TEST_CASE("hostile: launch files that are none say so") {
  const TempFolder folder;
  for (const char* format : {"megatron", "deepspeed", "torchtitan", "accelerate"}) {
    CHECK_THAT(refused_import(format, folder.file("empty", " \n"), {}, 1), Contains("is empty"));
    CHECK_THAT(refused_import(format, (folder.path() / "none").string(), {}, 1), Contains("none"));
    CHECK_THAT(refused_import(format, folder.path().string(), {}, 1), Contains("error"));
    CHECK_THAT(refused_import(format, "/dev/zero", {}, 1), Contains("error"));
    CHECK_THAT(refused_import(format, folder.file("binary", std::string("a\0b", 3)), {}, 1), Contains("zero byte"));
  }
  CHECK_THAT(megatron(folder.file("a.sh", "#!/bin/sh\nls -l\n")), Contains("no Megatron-LM arguments found"));
  CHECK_THAT(refused_import("deepspeed", folder.file("a.json", "{\"a\": \"\xFF\"}"), {}, 1), Contains("is not JSON"));
  CHECK_THAT(refused_import("torchtitan", folder.file("a.toml", "[training]\nx = \"\xFF\"\n"), {}, 1),
             Contains("a.toml:2"));
}

TEST_CASE("hostile: scripts that grow, nest or never end") {
  const TempFolder folder;
  const std::string end = "\nx --num-layers $A --micro-batch-size 1\n";
  CHECK_THAT(megatron(folder.file("double.sh", "A=aaaaaaaaaaaaaaaa\n", "A=$A$A\n", 60, end)),
             Contains("more than 4 MiB"));
  CHECK_THAT(megatron(folder.file("list.sh", "A=(a a a a a a a a)\n", "A=(${A[@]} ${A[@]})\n", 60, end)),
             Contains("more than 4 MiB"));
  CHECK_THAT(megatron(folder.file("default.sh", "A=", "${B:-", 100'000, end)), Contains("is not closed"));
  std::string deep = "A=";
  for (int i = 0; i < 1000; ++i) deep += "${B:-";
  deep += "1" + std::string(1000, '}') + end;
  CHECK_THAT(megatron(folder.file("deep.sh", deep)), Contains("32 levels"));
  CHECK_THAT(megatron(folder.file("if.sh", "", "if true; then\n", 20'000)), Contains("32 levels"));
  const Outcome appended =
      run_program({"import", "megatron", folder.file("append.sh", "A=(1)\n", "A+=(1)\n", 90'000, end)});
  CHECK(appended.status == 0);
  CHECK(appended.seconds < kMostSeconds);
  CHECK_THAT(megatron(folder.file("words.sh", "x --num-layers 1 ", "a ", 200'000)), Contains("over 100000 words"));
  CHECK_THAT(megatron(folder.file("large.sh", "# ", "x", 2'000'000)), Contains("over 1 MiB"));
  CHECK_THAT(megatron(folder.file("brackets.sh", "A=$(( ", "(", 100'000)), Contains("is not closed"));
  const std::string sums = "A=$(( " + std::string(5000, '(') + "1" + std::string(5000, ')') + " ))" + end;
  // Arithmetic that is not understood leaves its variable unknown.
  const Outcome unknown = run_program({"import", "megatron", folder.file("sums.sh", sums)});
  CHECK(unknown.status == 0);
  CHECK_THAT(unknown.err, Contains("asked for: model"));
}

TEST_CASE("hostile: numbers of launch files beyond all measure") {
  const TempFolder folder;
  const auto fault = [&](const std::string& arguments) {
    return megatron(folder.file("n.sh", "x --micro-batch-size 1 " + arguments));
  };
  CHECK_THAT(fault("--tensor-model-parallel-size 99999999999999999999"), Contains("n.sh:1:24"));
  CHECK_THAT(fault("--num-layers 1000000 --hidden-size 8 --num-attention-heads 1 --seq-length 8"),
             Contains("from 1 to 1000"));
  CHECK_THAT(fault("--num-layers 1000 --hidden-size 2147483648 --num-attention-heads 1 --seq-length 2147483648 "
                   "--vocab-size 2147483647 --no-position-embedding"),
             Contains("error"));
  CHECK_THAT(fault("--num-layers 4 --hidden-size 8 --num-attention-heads 3 --seq-length 8 --vocab-size 8 "
                   "--max-position-embeddings 8"),
             Contains("3 attention heads do not divide"));
  CHECK_THAT(fault("--num-layers 4 --hidden-size 8 --num-attention-heads 4 --seq-length 8 --vocab-size 8 "
                   "--max-position-embeddings 8 --num-experts 4 --moe-layer-freq '([0]*9999999+[1]*9)'"),
             Contains("--moe-layer-freq"));
  CHECK_THAT(refused_import("deepspeed", folder.file("d.json", R"({"train_batch_size": 1e300})"), {}, 1),
             Contains("d.json:1") && Contains("whole number"));
  CHECK_THAT(refused_import("torchtitan", folder.file("deep.toml", "x = ", "[", 100'000), {}, 1),
             Contains("deep.toml"));
}

TEST_CASE("hostile: wrong usage of import megatron") {
  const TempFolder folder;
  const std::string good = folder.file("good.sh", "x --micro-batch-size 1 --num-layers 4\n");
  CHECK_THAT(megatron(good, {"--set", "parallel.tenor=4"}, 2), Contains("parallel.tensor"));
  megatron(good, {"--set", "batch"}, 2);
  megatron(good, {"--define", "TP"}, 2);
  megatron(good, {"--model-file", "m.txt"}, 2);
  megatron(good, {"--vocab-size", "0"}, 2);
  const Outcome fine = run_program({"import", "megatron", good, "--set", "node=dgx-h100"});
  CHECK(fine.status == 0);
  CHECK_THAT(fine.out, Contains("node: dgx-h100") && Contains("nodes: \"?\""));
  CHECK_THAT(fine.err, Contains("asked for: nodes"));
}

TEST_CASE("hostile: servers follow from GPUs, a log's global batch goes with its run") {
  const TempFolder folder;
  const std::string list =
      folder.file("list.txt", "micro_batch_size ...... 1\nnum_layers ...... 4\nworld_size ...... 16\n");
  const Outcome known = run_program({"import", "megatron", list, "--set", "node=dgx-h100"});
  CHECK_THAT(known.out, Contains("nodes: 2 "));
  CHECK_THAT(run_program({"import", "megatron", list, "--set", "node=no-such"}).out, Contains("nodes: \"?\""));
  const std::string log =
      folder.file("t.log",
                  "using world size: 64, data-parallel size: 8\n micro_batch_size ...... 1\n iteration 1/ 9 | elapsed "
                  "time per iteration (ms): 9100.5 | global batch size: 128 |\n");
  CHECK_THAT(run_program({"import", "log", log, "--nodes", "8"}).out,
             Contains("batch,passes,global_batch,") && Contains("64,8,9100.5 ms,1,16,128,"));
  refused(1, {"import", "log", log, "--nodes", "8", "--global-batch", "256"}, {"--global-batch 256", "128"});
  refused(1, {"import", "log", log, "--nodes", "3"}, {"64 GPUs in 3 servers: as many in each?"});
  // A clock's differences have digits that are rounding.
  const auto at = [](const std::string& clock, const std::string& step) {
    return "[titan] 2025-03-12 " + clock + " - root - INFO - step: " + step + "  loss:  6.1\n";
  };
  const std::string titan =
      folder.file("titan.log", "Building 1-D device mesh with ['dp_shard'], [16]\n" + at("11:10:21,511", "1") +
                                   at("11:10:22,141", "2") + at("11:10:22,771", "3"));
  // Logs of several sizes: servers of so many GPUs, never as many servers for all.
  const Outcome both = run_program({"import", "log", log, titan, "--gpus-per-node", "8"});
  CHECK_THAT(both.out, Contains("\n64,8,") && Contains("\n16,2,630 ms,"));
  CHECK_THAT(run_program({"import", "log", titan, "--gpus-per-node", "32"}).out, Contains("\n16,1,630 ms,"));
  refused(1, {"import", "log", titan, "--gpus-per-node", "3"}, {"16 GPUs in servers of 3: as many in each?"});
  refused(1, {"import", "log", log, titan, "--nodes", "8"}, {"16 GPUs, and 64 in", "--gpus-per-node"});
  refused(2, {"import", "log", log, "--nodes", "8", "--gpus-per-node", "8"}, {"give one of them"});
  CHECK_THAT(run_program({"import", "log", titan, "--nodes", "2"}).out, Contains("\n16,2,630 ms,"));
}

TEST_CASE("hostile: a scenario with questions is no scenario") {
  const TempFolder folder;
  const std::string script =
      folder.file("a.sh", "x --micro-batch-size 1 --num-layers 4 --tensor-model-parallel-size $TP\n");
  const std::string out = (folder.path() / "job.yaml").string();
  CHECK(
      run_program({"import", "megatron", script, "-o", out, "--set", "node=dgx-h100", "--set", "model=gpt2"}).status ==
      0);
  refused(1, {"predict", "-f", out, "--nodes", "1"},
          {"job.yaml", "fill in '?': parallel.tensor", "--set parallel.tensor=VALUE"});
  const Outcome said = run_program({"predict", "-f", out, "--nodes", "1", "--set", "parallel.tensor=2"});
  CHECK_THAT(said.err, !Contains("'?'"));
}
