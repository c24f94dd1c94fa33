#include "ddlsim/importers/log_file.h"

#include <fmt/core.h>
#include <unistd.h>
#include <zlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "log_lines.h"

using namespace ddlsim;
using namespace ddlsim::test;
using importers::LogFormat;
using importers::TrainingLog;

TEST_CASE("log: Megatron-LM's iterations, and what its start says of the job", "[unit][importers]") {
  const auto log = read(
      "using world size: 16, data-parallel size: 4, context-parallel size: 1, tensor-model-parallel size: 4\n"
      "  micro_batch_size ................................ 2\n"
      "  world_size ...................................... 16\n"
      " iteration        1/     50 | consumed samples:          32 | elapsed time per iteration (ms): 9100.5 | "
      "learning rate: 9.1E-06 | global batch size:    32 | lm loss: 2.5E+00 |\n"
      "saving checkpoint\n"
      " iteration        2/     50 | consumed samples:          64 | elapsed time per iteration (ms): 2100.0 | "
      "learning rate: 9.1E-06 | global batch size:    32 | lm loss: 2.5E+00 |\n");
  REQUIRE(log);
  CHECK(log->format == LogFormat::kMegatron);
  CHECK(in_seconds(*log) == std::vector<double>{9.1005, 2.1});
  CHECK(log->gpus == 16);
  CHECK(log->replicas == 4);
  CHECK(log->tensor == 4);
  CHECK(log->context == 1);
  CHECK_FALSE(log->pipeline);
  CHECK(log->step().in(seconds) == Approx(2.1));  // the first of two is a start
  CHECK(log->batch == 2);
  CHECK(log->global_batch == 32);
}

TEST_CASE("log: a file may be packed with gzip", "[unit][importers]") {
  const std::string text =
      " iteration 10/ 20 | elapsed time per iteration (ms): 100.0 |\n"
      " iteration 20/ 20 | elapsed time per iteration (ms): 200.0 |\n";
  const auto path = std::filesystem::temp_directory_path() / fmt::format("ddlsim_log_{}.gz", getpid());
  const gzFile packed = gzopen(path.c_str(), "wb");
  REQUIRE(gzwrite(packed, text.data(), static_cast<unsigned>(text.size())) > 0);
  REQUIRE(gzclose(packed) == Z_OK);
  const auto log = importers::load_log(path);
  REQUIRE(log);
  CHECK(in_seconds(*log) == std::vector<double>{0.1, 0.2});
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 12);
  const auto cut = importers::load_log(path);
  REQUIRE_FALSE(cut);
  CHECK(cut.error().message.find("cut short") != std::string::npos);
  std::filesystem::remove(path);
}

TEST_CASE("log: Megatron-LM's arguments say how the model ran", "[unit][importers]") {
  const std::string steps =
      " iteration 10/ 20 | elapsed time per iteration (ms): 100.0 |\n"
      " iteration 20/ 20 | elapsed time per iteration (ms): 100.0 |\n";
  const auto said = [&](const std::string& arguments) { return read(arguments + steps).value(); };
  const auto all = said(
      "  bf16 ............ True\n  fp16 ............ False\n  fp8 ............. hybrid\n"
      "  num_layers ...... 32\n  num_layers_per_virtual_pipeline_stage ... 2\n  pipeline_model_parallel_size ... 4\n"
      "  recompute_granularity ... full\n  sequence_parallel ... True\n  use_distributed_optimizer ... False\n"
      "  expert_model_parallel_size ... 8\n");
  CHECK(all.precision == "fp8");
  CHECK(all.virtual_stages == 4);
  CHECK(all.schedule == "interleaved");
  // As `import megatron` reads the same arguments.
  const std::string four = "  num_layers ... 80\n  pipeline_model_parallel_size ... 4\n";
  const std::string none = "  virtual_pipeline_model_parallel_size ... None\n";
  CHECK(said(four + none).schedule == "1f1b");
  CHECK_FALSE(said(four + none).virtual_stages);
  const auto five = said(four + none + "  num_virtual_stages_per_pipeline_rank ... 5\n");
  CHECK(five.schedule == "interleaved");
  CHECK(five.virtual_stages == 5);
  CHECK(said(four + "  virtual_pipeline_model_parallel_size ... 5\n").virtual_stages == 5);
  // Embedding and loss count as layers: 80 of 78 blocks.
  CHECK(said("  num_layers ... 78\n  pipeline_model_parallel_size ... 4\n"
             "  num_layers_per_virtual_pipeline_stage ... 10\n  account_for_embedding_in_pipeline_split ... True\n"
             "  account_for_loss_in_pipeline_split ... True\n")
            .virtual_stages == 2);
  // One stage has no schedule; without the list of arguments nobody says.
  CHECK(said("  pipeline_model_parallel_size ... 1\n" + none).schedule.empty());
  CHECK(said("using world size: 8, pipeline-model-parallel size: 4\n").schedule.empty());
  CHECK(all.recompute == "full");
  CHECK(all.sequence == true);
  CHECK(all.shards == false);
  CHECK(all.expert == 8);
  CHECK_FALSE(all.expert_tensor);
  const std::string experts = "  tensor_model_parallel_size ... 4\n  expert_model_parallel_size ... 8\n";
  CHECK(said(experts + "  expert_tensor_parallel_size ... 1\n").expert_tensor == 1);
  CHECK_FALSE(said(experts + "  expert_tensor_parallel_size ... None\n").expert_tensor);
  CHECK_FALSE(said("  tensor_model_parallel_size ... 4\n  expert_tensor_parallel_size ... 4\n").expert_tensor);
  CHECK(said("  recompute_granularity ... None\n").recompute == "none");
  CHECK(said("  bf16 ... True\n  fp8 ... None\n").precision == "bf16");
  CHECK(said("  bf16 ... False\n  fp16 ... False\n").precision == "fp32");
  CHECK(said("  bf16 ... False\n").precision.empty());
  CHECK(said("").recompute.empty());
  CHECK_FALSE(said("").sequence);
}

TEST_CASE("log: Megatron-LM's iterations that begin again are another job's", "[unit][importers]") {
  const auto line = [](const std::string& iteration) {
    return " iteration " + iteration + "/ 50 | elapsed time per iteration (ms): 2100.0 | global batch size: 32 |\n";
  };
  CHECK(read(line("100") + line("200")));
  CHECK(error_of(line("100") + line("200") + line("100")) == "the log is of several jobs: its iterations begin again");
  CHECK(error_of(" tensor_model_parallel_size .................... 4\n" + line("1") +
                 " tensor_model_parallel_size .................... 8\n" + line("2")) ==
        "the log is of several jobs: the tensor-parallel size changes from 4 to 8");
}

TEST_CASE("log: Megatron-DeepSpeed's iterations are in seconds", "[unit][importers]") {
  const auto log = read(
      "using world size: 384, data-parallel-size: 8, tensor-model-parallel size: 4, pipeline-model-parallel size: 12\n"
      " [default7]: iteration    12695/  115311 | consumed samples:      9841584 | consumed tokens:  20155564032 | "
      "elapsed time per iteration (s): 105.22 | learning rate: 5.969E-05 | global batch size:  2048 |\n");
  REQUIRE(log);
  CHECK(log->format == LogFormat::kMegatron);
  CHECK(in_seconds(*log) == std::vector<double>{105.22});
  CHECK(log->replicas == 8);
  CHECK(log->global_batch == 2048);
}

TEST_CASE("log: NeMo's timing, with either sign", "[unit][importers]") {
  const auto log = read(
      "Training epoch 0, iteration 1/9 | lr: 3e-05 | global_batch_size: 128 | global_step: 1 | "
      "train_step_timing in s: 2.345\n"
      "Epoch 0: 1%| 2/9 [00:07<1:01, reduced_train_loss=3.0, train_step_timing in s=2.250, consumed_samples=256]\n");
  REQUIRE(log);
  CHECK(log->format == LogFormat::kNemo);
  CHECK(in_seconds(*log) == std::vector<double>{2.345, 2.25});
  CHECK(log->global_batch == 128);
  CHECK_FALSE(log->gpus);
}

TEST_CASE("log: bars of progress that are drawn over each other are as many lines", "[unit][importers]") {
  const auto bar = [](int step, const char* time) {
    return fmt::format("\rEpoch 0: {}%| {}/9 [00:07<1:01, v_num=0, global_step={}.0, train_step_timing in s={}]", step,
                       step, step, time);
  };
  const std::string start = "All distributed processes registered. Starting with 16 processes\r\n";
  const auto log = read(start + bar(1, "19.1") + bar(2, "2.25") + bar(2, "2.25") + bar(3, "2.5") + "\r\n");
  REQUIRE(log);
  CHECK(in_seconds(*log) == std::vector<double>{19.1, 2.25, 2.5});
  CHECK(log->gpus == 16);
  CHECK(error_of(bar(5, "2.5") + bar(4, "2.5")) == "the log is of several jobs: its steps begin again");
}

TEST_CASE("log: torchtitan's lines are timed by their clocks, once a step, over midnight too", "[unit][importers]") {
  const auto log = read(
      "[rank0]:[titan] 2024-02-29 23:59:50,500 - root - INFO - step: 10  loss:  6.1  memory: 9.4GiB  tps: 7,282\n"
      "[rank1]:[titan] 2024-02-29 23:59:50,501 - root - INFO - step: 10  loss:  6.1  memory: 9.4GiB  tps: 7,282\n"
      "[rank0]:[titan] 2024-02-29 23:59:55,000 - root - INFO - Dumping profiler traces at step 20\n"
      "[rank0]:[titan] 2024-03-01 00:00:10,500 - root - INFO - step: 20  loss:  6.0  memory: 9.4GiB  tps: 7,282\n"
      "[rank0]:[titan] 2024-03-01 00:00:12,600 - root - INFO - step: 21  loss:  6.0  memory: 9.4GiB  tps: 7,282\n");
  REQUIRE(log);
  CHECK(log->format == LogFormat::kTorchtitan);
  REQUIRE(log->steps.size() == 2);
  CHECK(log->steps[0].in(seconds) == Approx(2));
  CHECK(log->steps[1].in(seconds) == Approx(2.1));
}

TEST_CASE("log: where torchtitan's clock goes back, neither the time before nor after counts", "[unit][importers]") {
  const auto line = [](const char* time, int step) {
    return fmt::format("2025-03-12 11:{},511 - root - INFO - step: {:2}  loss: 12.2\n", time, step);
  };
  const auto log =
      read(line("10:11", 1) + line("10:21", 11) + line("10:31", 21) + line("10:01", 31) + line("10:51", 41));
  REQUIRE(log);
  CHECK(in_seconds(*log) == std::vector<double>{1, 1});
  CHECK(log->step().in(seconds) == Approx(1));
  REQUIRE(log->notes.size() == 1);
  CHECK(log->notes.front().starts_with("line 4: the clock goes back"));
  const auto later = read(line("10:11", 1) + line("10:01", 11) + line("10:51", 21) + line("11:01", 31));
  CHECK(in_seconds(*later) == std::vector<double>{1});
  CHECK(error_of(line("10:11", 1) + line("10:01", 11) + line("10:51", 21)) == "no step in this log");
}

TEST_CASE("log: MLPerf's numbers in quotes are read, and what is none is refused at its line", "[unit][importers]") {
  const auto said = [](const char* key, const char* value, long long when) {
    return fmt::format(":::MLLOG {{\"key\": \"{}\", \"value\": {}, \"time_ms\": {}}}\n", key, value, when);
  };
  const std::string samples = said("train_samples", "\"4096\"", 1);
  const std::string epoch = said("epoch_start", "null", 1000) + said("epoch_stop", "null", 5000);
  const auto log = read(said("global_batch_size", "\"2048\"", 1) + samples + epoch);
  REQUIRE(log);
  CHECK(log->global_batch == 2048);
  CHECK(in_seconds(*log) == std::vector<double>{2});
  const std::string stats = ":::MLLOG {\"key\": \"tracked_stats\", \"value\": {\"throughput\": \"1024.0\"}}\n";
  CHECK(in_seconds(*read(said("global_batch_size", "2048", 1) + stats)) == std::vector<double>{2});
  for (const char* bad : {"\"many\"", "\"2048 images\"", "0", "-4", "1e300", "[2048]", "\"\"", "\"nan\""}) {
    CAPTURE(bad);
    const auto refused = read("\n" + said("global_batch_size", bad, 1) + samples + epoch);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().where.line == 2);
    CHECK(refused.error().message.find("global_batch_size: ") == 0);
  }
  // An epoch that stops before it starts is left out, and said.
  const auto turned = read(said("global_batch_size", "2048", 1) + samples + said("epoch_start", "null", 9000) +
                           said("epoch_stop", "null", 5000) + epoch);
  REQUIRE(turned);
  CHECK(in_seconds(*turned) == std::vector<double>{2});
  REQUIRE(turned->notes.size() == 1);
  CHECK(turned->notes.front().starts_with("line 4: epoch_stop is no later than"));
}

TEST_CASE("log: colours of a terminal are no part of a line", "[unit][importers]") {
  const auto log = read(
      "[rank0]:[titan] 2024-02-29 23:00:50,500 - root - INFO - \x1b[31mstep: 10 \x1b[32m loss:  6.1\x1b[0m tps: 7,282\n"
      "[rank0]:[titan] 2024-02-29 23:01:10,500 - root - INFO - \x1b[31mstep: 20 \x1b[32m loss:  6.0\x1b[0m tps: 7,282\n"
      "\x1b[31");
  REQUIRE(log);
  REQUIRE(log->steps.size() == 1);
  CHECK(log->steps[0].in(seconds) == Approx(2));
}

TEST_CASE("log: MLPerf's statistics, else its epochs", "[unit][importers]") {
  const std::string batch = ":::MLLOG {\"key\": \"global_batch_size\", \"value\": 2048, \"time_ms\": 1}\n";
  const std::string epochs =
      "0: :::MLLOG {\"key\": \"train_samples\", \"value\": 1281167, \"time_ms\": 1}\n"
      ":::MLLOG {\"key\": \"epoch_start\", \"value\": null, \"time_ms\": 1000000, \"metadata\": {\"epoch_num\": 1}}\n"
      ":::MLLOG {\"key\": \"epoch_stop\", \"value\": null, \"time_ms\": 1100000, \"metadata\": {\"epoch_num\": 1}}\n";
  const auto by_epoch = read(batch + epochs);
  REQUIRE(by_epoch);
  CHECK(by_epoch->format == LogFormat::kMlperf);
  CHECK(by_epoch->global_batch == 2048);
  // 100 s for 1,281,167 images in batches of 2,048: 625 whole ones and a part of one.
  REQUIRE(by_epoch->steps.size() == 1);
  CHECK(by_epoch->steps.front().in(seconds) == Approx(100 / 626.0));
  const std::string drops = ":::MLLOG {\"key\": \"drop_last\", \"value\": true, \"time_ms\": 1}\n";
  CHECK(read(batch + drops + epochs)->steps.front().in(seconds) == Approx(100 / 625.0));
  // Less than a batch, left out, is no step.
  const std::string large = ":::MLLOG {\"key\": \"global_batch_size\", \"value\": 2000000, \"time_ms\": 1}\n";
  CHECK(read(large + epochs)->steps.front().in(seconds) == Approx(100));
  CHECK(error_of(large + drops + epochs) == "no step in this log");
  const auto by_stats =
      read(batch + epochs +
           ":::MLLOG {\"key\": \"tracked_stats\", \"value\": {\"throughput\": 4096.0}, \"time_ms\": 5}\n"
           ":::MLLOG {\"key\": \"tracked_stats\", \"value\": {\"train_step_time\": 0.4}, \"time_ms\": 5}\n");
  REQUIRE(by_stats);
  CHECK(in_seconds(*by_stats) == std::vector<double>{0.5, 0.4});
}

TEST_CASE("log: the worked example: warm-up is left out, the median counts", "[unit][importers]") {
  TrainingLog log;
  for (const double step : {9.0, 9.0, 2.0, 2.1, 2.2}) log.steps.push_back(seconds(step));
  CHECK(log.warm_up() == 2);
  CHECK(log.step().in(seconds) == Approx(2.1));
  CHECK(log.spread().first.in(seconds) == Approx(2.01));
  CHECK(log.spread().second.in(seconds) == Approx(2.19));
  log.steps.resize(2);
  log.steps.back() = seconds(8);
  CHECK(log.warm_up() == 1);
  CHECK(log.step().in(seconds) == Approx(8));
  log.steps.resize(1);
  CHECK(log.warm_up() == 0);
  CHECK(log.step().in(seconds) == Approx(9));
  log.steps.assign(40, seconds(1));
  CHECK(log.warm_up() == 4);
}

TEST_CASE("log: without steps, of several jobs or programs, with steps that are no times", "[unit][importers]") {
  const std::string step = " iteration 1/ 50 | elapsed time per iteration (ms): 910.5 | global batch size:    32 |\n";
  CHECK(error_of("nothing\nto see\n") == "no step in this log");
  CHECK(error_of("") == "no step in this log");
  CHECK(error_of("using world size: 16\n" + step + "using world size: 32\n").find("several jobs") != std::string::npos);
  CHECK(error_of(step + " iteration 2/ 50 | elapsed time per iteration (ms): 910.5 | global batch size:    48 |\n")
            .find("from 32 to 48") != std::string::npos);
  CHECK(error_of(step + "train_step_timing in s: 2.3\n") == "the log is of several programs");
  CHECK(error_of(" iteration 1/ 50 | elapsed time per iteration (ms): nan |\n").find("is no step time") !=
        std::string::npos);
  CHECK(error_of("train_step_timing in s: 0.0\n").find("is no step time") != std::string::npos);
  CHECK(error_of(":::MLLOG not json\n").find("JSON") != std::string::npos);
  CHECK(error_of("2024-02-29 10:00:00,000 - INFO - step: 5 loss: 1\n2024-02-29 10:00:01,000 - INFO - step: 1 loss: 1\n")
            .find("begin again") != std::string::npos);
  // No global batch, whatever the number; no step takes a nanosecond or a month.
  for (const char* count : {"1e19", "0", "0.5", "-8"}) {
    CAPTURE(count);
    CHECK_THAT(error_of(std::string(":::MLLOG {\"key\": \"global_batch_size\", \"value\": ") + count + "}\n"),
               Catch::Contains("is no number of samples"));
  }
  for (const char* time : {"1e-320", "1e12"}) {
    CHECK_THAT(error_of(std::string(" iteration 1/ 50 | elapsed time per iteration (ms): ") + time + " |\n"),
               Catch::Contains("is no step time"));
  }
  const std::string batch = ":::MLLOG {\"key\": \"global_batch_size\", \"value\": 32}\n";
  CHECK_THAT(error_of(batch + ":::MLLOG {\"key\": \"tracked_stats\", \"value\": {\"throughput\": 1e-300}}\n"),
             Catch::Contains("is no step time"));
  const auto where = read("a\nb\n" + step + "train_step_timing in s: 2.3\n");
  REQUIRE_FALSE(where);
  CHECK(where.error().where.line == 4);
}

TEST_CASE("log: torchtitan's device mesh says how many GPUs there are", "[unit][importers]") {
  const auto gpus = [](const std::string& mesh) {
    const std::string line = "[titan] 2025-03-12 11:10:21,511 - root - INFO - ";
    return read(line + mesh + "\n" + line + "step: 1  loss: 12.2\n[titan] 2025-03-12 11:10:22,511 - root - INFO - " +
                "step: 2  loss: 12.2\n")
        .value()
        .gpus;
  };
  CHECK(gpus("Building 1-D device mesh with ['dp_shard'], [16]") == 16);
  CHECK(gpus("Building 3-D device mesh with ['pp', 'dp_shard', 'tp'], [2, 4, 8]") == 64);
  CHECK(gpus("Building 0-D device mesh with [], []") == 1);
  // Ranks of experts are among those of the replicas.
  CHECK(gpus("Building device mesh with parallelism: pp=2, dp_replicate=1, dp_shard=8, cp=2, tp=4, ep=8, etp=1") ==
        128);
  CHECK_FALSE(gpus("Building device mesh with dimensions:"));
  CHECK_FALSE(gpus("Building 1-D device mesh with ['dp_shard'], [many]"));
}

TEST_CASE("log: torchtitan says how the model was split, and its batches", "[unit][importers]") {
  const std::string line = "[titan] 2025-03-12 11:10:21,511 - root - INFO - ";
  const std::string steps =
      line + "step: 1  loss: 12.2\n[titan] 2025-03-12 11:10:22,511 - root - INFO - step: 2  loss: 12.2\n";
  const std::string batches =
      line + "Trainer is initialized with local batch size 8, global batch size 64, gradient accumulation steps 1\n";
  const auto log = read(line +
                        "Building device mesh with parallelism: pp=1, dp_replicate=2, dp_shard=2, cp=2, tp=4, "
                        "ep=1, etp=1\n" +
                        batches + steps);
  REQUIRE(log);
  CHECK(log->tensor == 4);
  CHECK(log->pipeline == 1);
  CHECK(log->context == 2);
  CHECK(log->replicas == 4);
  CHECK(log->expert == 1);
  CHECK_FALSE(log->expert_tensor);
  CHECK(log->batch == 8);
  CHECK(log->global_batch == 64);
  // Stages cut the local batch in as many micro-batches as nobody says. What a mesh does not name is not split.
  const auto staged =
      read(line + "Building 3-D device mesh with ['pp', 'dp_shard', 'tp'], [2, 4, 8]\n" + batches + steps);
  REQUIRE(staged);
  CHECK(staged->gpus == 64);
  CHECK(staged->pipeline == 2);
  CHECK(staged->replicas == 4);
  CHECK(staged->tensor == 8);
  CHECK(staged->context == 1);
  CHECK_FALSE(staged->batch);
  CHECK(staged->global_batch == 64);
  const auto experts =
      read(line + "Building device mesh with parallelism: pp=1, dp_replicate=1, dp_shard=8, cp=1, tp=2, ep=8, etp=1\n" +
           steps);
  CHECK(experts->expert == 8);
  CHECK(experts->expert_tensor == 1);
}

TEST_CASE("log: MLPerf's blocks and epochs count the samples that they say", "[unit][importers]") {
  const auto said = [](const std::string& key, const std::string& value, int when, const std::string& metadata = "{}") {
    return fmt::format(":::MLLOG {{\"key\": \"{}\", \"value\": {}, \"time_ms\": {}, \"metadata\": {}}}\n", key, value,
                       when, metadata);
  };
  const auto samples = [](int count) { return fmt::format("{{\"samples_count\": {}}}", count); };
  const auto epoch = [](double number) { return fmt::format("{{\"epoch_num\": {}}}", number); };
  const std::string job = said("global_batch_size", "32", 1) + said("train_samples", "1574207408", 1) +
                          said("micro_batch_size", "2", 1) + said("tensor_parallelism", "4", 1) +
                          said("expert_parallelism", "\"none\"", 1);
  const std::string begin = said("epoch_start", "null", 10'000, samples(0));
  const std::string end = said("epoch_stop", "null", 820'000, samples(24'576));
  const std::string blocks =
      said("block_start", "null", 10'000, samples(0)) + said("block_stop", "null", 410'000, samples(12'288)) +
      said("block_start", "null", 420'000, samples(12'288)) + said("block_stop", "null", 820'000, samples(24'576));
  // The evaluation between blocks is in the epoch: 810 s of 768 steps; 400 s of 384 without.
  const auto by_epoch = read(job + begin + end);
  REQUIRE(by_epoch);
  CHECK(by_epoch->steps.front().in(seconds) == Approx(810.0 / 768));
  CHECK(by_epoch->batch == 2);
  CHECK(by_epoch->tensor == 4);
  CHECK_FALSE(by_epoch->expert);
  CHECK(by_epoch->notes == std::vector<std::string>{"line 5: expert_parallelism: \"none\" is no count"});
  const auto by_block = read(job + begin + blocks + end);
  REQUIRE(by_block->steps.size() == 2);
  CHECK(by_block->step().in(seconds) == Approx(400.0 / 384));
  // Among the steps of a program that counts each of them, before or after.
  const std::string steps =
      " iteration 1/ 9 | elapsed time per iteration (ms): 1000.0 | global batch size: 32 |\n"
      " iteration 2/ 9 | elapsed time per iteration (ms): 1030.0 | global batch size: 32 |\n";
  for (const std::string& mixed : {job + steps + begin + blocks + end, job + begin + blocks + steps + end}) {
    const auto counted = read(mixed);
    REQUIRE(counted);
    CHECK(counted->format == LogFormat::kMegatron);
    CHECK(in_seconds(*counted) == std::vector<double>{1, 1.03});
    CHECK(counted->tensor == 4);
  }
  // Three quarters of an epoch, one that is numbered by its start and its end, and numbers that may be samples.
  const auto from_to = [&](double first, double last) {
    return said("global_batch_size", "100", 1) + said("train_samples", "4000", 1) +
           said("epoch_start", "null", 1000, epoch(first)) + said("epoch_stop", "null", 31'000, epoch(last));
  };
  CHECK(in_seconds(*read(from_to(0, 0.75))) == std::vector<double>{1});
  CHECK(in_seconds(*read(from_to(7, 7))) == std::vector<double>{0.75});
  CHECK(in_seconds(*read(from_to(0, 1))) == std::vector<double>{0.75});
  const auto unknown = read(from_to(1, 2'320'253));
  REQUIRE_FALSE(unknown);
  CHECK_THAT(unknown.error().notes.front(), Catch::Contains("line 4: of how many samples this epoch is"));
}

TEST_CASE("log: Hugging Face's Trainer says how many steps a second it took", "[unit][importers]") {
  const std::string end =
      "{'train_runtime': 100.0, 'train_samples_per_second': 64.0, 'train_steps_per_second': 2.0, 'train_loss': 1.2}\n";
  const auto log = read("{'loss': 1.2, 'epoch': 0.5}\n" + end);
  REQUIRE(log);
  CHECK(log->format == LogFormat::kTrainer);
  CHECK(in_seconds(*log) == std::vector<double>{0.5});
  CHECK(log->notes.empty());
  CHECK(in_seconds(*read("{'train_runtime': '1196', 'train_steps_per_second': '0.25', 'epoch': '3'}\n")) ==
        std::vector<double>{4});
  // The same again, as all_results.json has it.
  CHECK(in_seconds(*read(end + "  \"train_steps_per_second\": 2.0\n")) == std::vector<double>{0.5});
  // As it prints them in a table, without quotes.
  CHECK(in_seconds(*read("***** train metrics *****\n  train_runtime            = 1:00:00.50\n"
                         "  train_steps_per_second   =      0.25\n")) == std::vector<double>{4});
  CHECK(error_of(end + "{'train_steps_per_second': 3.0}\n") == "the log is of several jobs: it trains twice");
  CHECK(error_of("{'train_steps_per_second': 0.0}\n") == "train_steps_per_second: no rate above zero");
  CHECK(error_of("{'train_steps_per_second': '...'}\n") == "train_steps_per_second: no rate above zero");
  // Of two digits the second is half a unit off at most: 0.0005 of 0.025.
  CHECK(read("{'train_steps_per_second': 0.025}\n")->notes ==
        std::vector<std::string>{"line 1: train_steps_per_second is rounded: the step is known to 2 %"});
  // Steps that another program prints one by one say more.
  CHECK(in_seconds(*read("train_step_timing in s: 2.5\n" + end)) == std::vector<double>{2.5});
}
