// DeepSpeed and torchtitan: what each key becomes; what is stated beside their files.
#include <fmt/core.h>

#include <catch2/catch.hpp>
#include <string>

#include "catalog.h"
#include "ddlsim/importers/launch_file.h"
#include "ddlsim/importers/training_way.h"
#include "launch_text.h"

using namespace ddlsim;
using namespace ddlsim::importers;
using namespace ddlsim::test;
using Catch::Matchers::Contains;

TEST_CASE("launch: weights gathered in 8 bits", "[unit][io][launch]") {
  const std::string shares = "--micro-batch-size 1 --bf16 --fp8-param-gather ";
  const LaunchImport eight = megatron(shares + "--fp8-format hybrid --use-distributed-optimizer");
  CHECK(value(eight, "parallel.gather_fp8") == "yes");
  CHECK(left_out(eight).empty());
  const LaunchImport sixteen = megatron(shares + "--use-distributed-optimizer");
  CHECK(value(sixteen, "parallel.gather_fp8") == "-");
  CHECK_THAT(left_out(sixteen), Contains("--fp8-param-gather: of no effect without --fp8-format"));
  CHECK(value(megatron(shares + "--fp8-format hybrid"), "parallel.gather_fp8") == "-");
  // The list that Megatron prints has it where nobody asked for it.
  CHECK(left_out(megatron("micro_batch_size ...... 1\nnum_layers ..... 2\nfp8_param_gather ...... False\n")).empty());

  const auto titan = [](const std::string& converters, const std::string& section) {
    return taken(LaunchFormat::kTorchtitan, "[training]\nlocal_batch_size = 1\n[model]\nconverters = [" + converters +
                                                "]\n[" + section + "]\nenable_fsdp_float8_all_gather = true\n");
  };
  CHECK(value(titan("\"quantize.linear.float8\"", "quantize.linear.float8"), "parallel.gather_fp8") == "yes");
  CHECK(value(titan("\"float8\"", "float8"), "parallel.gather_fp8") == "yes");
  CHECK(value(titan("", "float8"), "parallel.gather_fp8") == "-");
  CHECK_THAT(left_out(titan("", "float8")), Contains("of no effect without float8 in model.converters"));
}

TEST_CASE("launch: deepspeed", "[unit][io][launch]") {
  const auto read = [](const std::string& text) { return taken(LaunchFormat::kDeepSpeed, text, {}, "ds.json"); };
  const LaunchImport launch = read(R"({
    "train_batch_size": 512, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4,
    "bf16": {"enabled": true}, "gradient_clipping": 1.0,
    "zero_optimization": {"stage": 2, "overlap_comm": true, "reduce_bucket_size": 5e8,
                          "offload_optimizer": {"device": "cpu", "pin_memory": true}, "zero_quantized_weights": true}})");
  CHECK(value(launch, "batch") == "2");
  CHECK(value(launch, "global_batch") == "512");
  // 512 / 2 / 4
  CHECK(value(launch, "parallel.data") == "64");
  CHECK(value(launch, "parallel.zero") == "2");
  CHECK(value(launch, "parallel.offload_optimizer") == "yes");
  CHECK(value(launch, "parallel.states") == "mixed-16");
  // 5e8 gradients of 2 bytes
  CHECK(value(launch, "strategy.bucket") == "1000000000 B");
  CHECK(value(launch, "overlap") == "backward");
  CHECK_THAT(left_out(launch), Contains("ds.json:5") && Contains("zero_quantized_weights"));

  const LaunchImport automatic = read(R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto", "fp16": {"enabled": "auto"}, "zero_optimization": {"stage": 3}})");
  CHECK(value(automatic, "batch") == "?");
  CHECK(value(automatic, "strategy.accumulation") == "?");
  // A step's samples say the passes.
  const LaunchImport counted = taken(LaunchFormat::kDeepSpeed, R"({"train_batch_size": "auto",
    "gradient_accumulation_steps": "auto"})",
                                     {.stated = {{"global_batch", "64"}, {"batch", "1"}}}, "ds.json");
  CHECK(value(counted, "global_batch") == "64");
  CHECK(value(counted, "strategy.accumulation") == "-");
  CHECK(value(automatic, "precision") == "?");
  CHECK(value(automatic, "parallel.zero") == "3");
  // DeepSpeed's own: stage 3 overlaps, 1 and 2 do not.
  CHECK(value(automatic, "overlap") == "backward");
  CHECK(value(read(R"({"train_batch_size": 8, "zero_optimization": {"stage": 1}})"), "overlap") == "none");

  const auto fault = [](const std::string& text) { return refused(LaunchFormat::kDeepSpeed, text, "ds.json"); };
  CHECK_THAT(fault(R"({"zero_optimization": {"stage": 4}})"), Contains("ds.json:1") && Contains("valid: 0, 1, 2, 3"));
  CHECK_THAT(
      fault(R"({"train_batch_size": 10, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2})"),
      Contains("no multiple of 4 x 2"));
  CHECK_THAT(fault(R"({"fp16": {"enabled": true}, "bf16": {"enabled": true}})"), Contains("keep one"));
  CHECK_THAT(fault(R"({"train_batch_size": -4})"), Contains("whole number from 1"));
  CHECK_THAT(fault(R"({"name": "x"})"), Contains("no DeepSpeed configuration"));
  CHECK_THAT(fault(R"({"train_batch_size": 4,}  )"), Contains("is not JSON"));
}

TEST_CASE("launch: what DeepSpeed keeps follows from format and stage", "[unit][io][launch]") {
  LaunchOptions options;
  const auto read = [&](const std::string& keys) {
    return taken(LaunchFormat::kDeepSpeed, R"({"train_micro_batch_size_per_gpu": 1, )" + keys + "}", options,
                 "ds.json");
  };
  const std::string automatic =
      R"("bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 2, "reduce_bucket_size": 1000})";
  CHECK(value(read(automatic), "parallel.states") == "?");
  CHECK(value(read(automatic), "strategy.bucket") == "?");
  options.stated = {{"precision", "bf16"}};
  CHECK(value(read(automatic), "parallel.states") == "mixed-16");
  CHECK(value(read(automatic), "strategy.bucket") == "2000 B");
  options.stated = {{"precision", "fp32"}};
  CHECK(value(read(automatic), "parallel.states") == "fp32");
  CHECK(value(read(automatic), "strategy.bucket") == "4000 B");
  options.stated.clear();

  // Without ZeRO states are whole and gradients are reduced after backward, whatever overlap_comm says.
  const LaunchImport sixteen = read(R"("fp16": {"enabled": true}, "zero_optimization": {"overlap_comm": true})");
  CHECK(value(sixteen, "parallel.states") == "mixed-16");
  CHECK(value(sixteen, "parallel.zero") == "-");
  CHECK(value(sixteen, "overlap") == "none");
  CHECK_THAT(left_out(sixteen), Contains("of no effect without a stage of ZeRO"));
  const LaunchImport brain = read(R"("bf16": {"enabled": true})");
  CHECK(value(brain, "parallel.states") == "mixed-16");
  CHECK(value(brain, "overlap") == "none");
  CHECK_THAT(left_out(brain), Contains("before that they are shared: state parallel.zero 1"));
  // BF16_Optimizer alone sums in fp32 without ZeRO.
  const LaunchImport wide = read(
      R"("bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"}, "zero_optimization": {"stage": 0})");
  CHECK(value(wide, "parallel.zero") == "1");
  CHECK(value(wide, "parallel.states") == "mixed");
  CHECK(value(wide, "strategy.gradients") == "bf16");
  CHECK(value(wide, "overlap") == "none");

  const auto accelerated = [](const std::string& text) {
    return taken(LaunchFormat::kAccelerate, "distributed_type: DEEPSPEED\n" + text, {}, "a.yaml");
  };
  const LaunchImport second = accelerated("mixed_precision: bf16\ndeepspeed_config: {zero_stage: 2}\n");
  CHECK(value(second, "overlap") == "none");
  CHECK(value(second, "parallel.states") == "mixed-16");
  CHECK(value(accelerated("deepspeed_config: {zero_stage: 3}\n"), "overlap") == "backward");
  CHECK(value(accelerated("deepspeed_config: {zero_stage: 3}\n"), "parallel.states") == "fp32");
  CHECK(value(accelerated("mixed_precision: fp16\n"), "parallel.zero") == "2");
}

TEST_CASE("launch: torchtitan", "[unit][io][launch]") {
  const auto read = [](const std::string& text) { return taken(LaunchFormat::kTorchtitan, text, {}, "t.toml"); };
  const LaunchImport launch = read(
      "[model]\nname = \"llama3\"\nflavor = \"70B\"\nconverters = [\"float8\"]\n[training]\nlocal_batch_size = 16\n"
      "seq_len = 8192\n[parallelism]\ndata_parallel_shard_degree = 8\ndata_parallel_replicate_degree = 2\n"
      "tensor_parallel_degree = 8\npipeline_parallel_degree = 4\npipeline_parallel_microbatch_size = 2\n"
      "pipeline_parallel_schedule = \"Interleaved1F1B\"\nenable_async_tensor_parallel = true\n"
      "[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"3\"\n");
  CHECK(value(launch, "model") == "llama_3_1_70b");
  CHECK(value(launch, "model.sequence") == "8192");
  CHECK(value(launch, "parallel.zero") == "3");
  CHECK(value(launch, "parallel.data") == "16");
  CHECK(value(launch, "parallel.shard_ranks") == "8");
  // Unless told otherwise, weights stay gathered where there is a pipeline.
  CHECK(value(launch, "parallel.reshard") == "no");
  CHECK(value(launch, "parallel.no_sync") == "yes");
  CHECK(value(launch, "parallel.schedule") == "interleaved");
  CHECK(value(launch, "parallel.overlap_tensor") == "yes");
  CHECK(value(launch, "parallel.recompute") == "full");
  CHECK(value(launch, "parallel.recompute_every") == "3");
  CHECK(value(launch, "precision") == "fp8");
  CHECK(value(launch, "batch") == "2");
  // 16 samples in micro-batches of 2.
  CHECK(value(launch, "strategy.accumulation") == "8");
  CHECK_THAT(write_scenario(launch, "t", ""), Contains("model:\n  name: llama_3_1_70b"));

  const auto experts = [&](const std::string& degrees) {
    return value(read("[training]\nlocal_batch_size = 1\n[parallelism]\nexpert_parallel_degree = 8\n" + degrees),
                 "parallel.expert_tensor");
  };
  CHECK(experts("tensor_parallel_degree = 2\n") == "1");  // whole where nobody says otherwise
  CHECK(experts("tensor_parallel_degree = 2\nexpert_tensor_parallel_degree = 2\n") == "2");
  CHECK(experts("tensor_parallel_degree = 4\nexpert_tensor_parallel_degree = 2\n") == "?");
  CHECK(experts("") == "-");

  const LaunchImport small = read(
      "[model]\nname = \"llama3\"\nflavor = \"debugmodel\"\n[training]\nbatch_size = 8\n"
      "[parallelism]\ndata_parallel_replicate_degree = 2\n");
  CHECK(value(small, "model") == "?");
  CHECK(value(small, "batch") == "8");
  CHECK(value(small, "parallel.shard_ranks") == "?");
  CHECK(value(small, "parallel.reshard") == "yes");
  // A schedule without a pipeline is known, and does nothing.
  const LaunchImport plain =
      read("[training]\nlocal_batch_size = 1\n[parallelism]\npipeline_parallel_schedule = \"1F1B\"\n");
  CHECK_THAT(left_out(plain), Contains("of no effect without a pipeline") && !Contains("did you mean"));
  CHECK(value(small, "parallel.no_sync") == "-");
  CHECK(value(small, "precision") == "bf16");
  CHECK(value(read("[training]\nlocal_batch_size = 1\n[parallelism]\ndata_parallel_shard_degree = 1\n"),
              "parallel.zero") == "0");

  const auto fault = [](const std::string& text) { return refused(LaunchFormat::kTorchtitan, text, "t.toml"); };
  CHECK_THAT(fault("[training]\nlocal_batch_size = \n"), Contains("t.toml:2") && Contains("is not TOML"));
  CHECK_THAT(fault("[training]\nlocal_batch_size = \"many\"\n"), Contains("t.toml:2:20") && Contains("whole number"));
  CHECK_THAT(fault("[training]\nlocal_batch_size = 1\n[activation_checkpoint]\nmode = \"some\"\n"),
             Contains("valid: none, selective, full"));
  CHECK_THAT(fault("[tool]\nx = 1\n"), Contains("no torchtitan configuration"));
  const LaunchImport by_operator = read(
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[activation_checkpoint]\nmode = \"selective\"\n"
      "selective_ac_option = \"op\"\n");
  CHECK(value(by_operator, "parallel.recompute") == "per-op");
  CHECK(value(by_operator, "parallel.recompute_stops") == "yes");
}

TEST_CASE("launch: torchtitan's schedules, and what is nearest to others", "[unit][io][launch]") {
  LaunchOptions options;
  const auto read = [&](const std::string& schedule, const std::string& more = "") {
    return taken(LaunchFormat::kTorchtitan,
                 "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 8\n[parallelism]\n"
                 "pipeline_parallel_degree = 4\npipeline_parallel_schedule = \"" +
                     schedule + "\"\n" + more,
                 options, "t.toml");
  };
  CHECK(value(read("1F1B"), "parallel.schedule") == "1f1b");
  CHECK(value(read("ZBVZeroBubble"), "parallel.schedule") == "zbv");
  CHECK(value(read("FlexibleInterleaved1F1B"), "parallel.schedule") == "interleaved");
  CHECK(value(read("Interleaved1F1B"), "parallel.virtual_stages") == "2");
  const auto why = [&](const std::string& schedule) {
    for (const LaunchSetting& setting : read(schedule).settings) {
      if (setting.path == "parallel.schedule" && setting.value == "?") return setting.reason;
    }
    return std::string();
  };
  CHECK_THAT(why("DualPipeV"), Contains("zbv has") && Contains("dualpipe has"));
  CHECK_THAT(why("InterleavedZeroBubble"), Contains("interleaved has") && Contains("zb-h1 has"));
  CHECK_THAT(why("LoopedBFS"), Contains("interleaved has") && Contains("gpipe keeps"));
  CHECK_THAT(why("PipelineScheduleMulti"), Contains("CSV") && Contains("interleaved or zbv"));
  CHECK_THAT(why("Fastest"), Contains("not modelled: 1f1b, gpipe"));

  // 32 blocks, 4 a stage, on 4 ranks: 8 stages. Embedding and head count in newer releases: 34 / 3 is 12 rounded up.
  const auto chunks = [&](int layers, const std::string& more = "") {
    return value(read("Interleaved1F1B", fmt::format("pipeline_parallel_layers_per_stage = {}\n{}", layers, more)),
                 "parallel.virtual_stages");
  };
  CHECK(chunks(4) == "2");
  CHECK(chunks(3) == "3");
  CHECK(chunks(5) == "?");                                                     // 7 stages, on 4 ranks
  CHECK(chunks(9) == "?");                                                     // one of each rank
  CHECK(chunks(4, "pipeline_parallel_first_stage_less_layers = 1\n") == "?");  // 9 stages
  CHECK(chunks(4, "pipeline_parallel_first_stage_less_layers = 0\npipeline_parallel_last_stage_less_layers = 0\n") ==
        "2");
  // Stated at the import: another model's blocks, a schedule without chunks, one with them.
  options.stated = {{"model", "llama_3_1_70b"}};
  CHECK(chunks(10) == "2");
  options.stated = {{"model", "my_model"}};
  CHECK(chunks(4) == "?");
  options.stated = {{"parallel.schedule", "zb-h1"}};
  CHECK(value(read("Interleaved1F1B"), "parallel.virtual_stages") == "-");
  options.stated = {{"parallel.schedule", "interleaved"}};
  CHECK(value(read("InterleavedZeroBubble"), "parallel.virtual_stages") == "2");
}

TEST_CASE("launch: torchtitan's mixed precision is FSDP's, or autocast's", "[unit][io][launch]") {
  LaunchOptions options;
  const auto read = [&](const std::string& training, const std::string& degrees, const std::string& more = "") {
    return taken(LaunchFormat::kTorchtitan,
                 "[training]\nlocal_batch_size = 1\n" + training + "[parallelism]\n" + degrees + more, options,
                 "t.toml");
  };
  const std::string one = "data_parallel_shard_degree = 1\n";
  const std::string tensor = "tensor_parallel_degree = 8\n";
  const LaunchImport split = read("", one + tensor);
  CHECK(value(split, "parallel.zero") == "0");
  CHECK(value(split, "precision") == "fp32");
  CHECK(value(split, "parallel.states") == "fp32");
  CHECK(value(split, "strategy.gradients") == "-");
  CHECK(value(read("", one + "pipeline_parallel_degree = 2\n"), "precision") == "fp32");
  CHECK(value(read("dtype = \"bfloat16\"\n", one + tensor), "precision") == "bf16");
  CHECK_THAT(left_out(read("mixed_precision_param = \"bfloat16\"\n", one + tensor)),
             Contains("of no effect without FSDP"));
  const LaunchImport copies = read("", one + "data_parallel_replicate_degree = 8\n");
  CHECK(value(copies, "precision") == "bf16");
  CHECK(value(copies, "parallel.states") == "fp32");
  CHECK(value(copies, "software.operators") == "autocast");
  // Context ranks share.
  CHECK(value(read("", one + tensor + "context_parallel_degree = 2\n"), "precision") == "bf16");
  // -1: of 8 GPUs tensor ranks leave none, of 16 two.
  CHECK(value(read("", tensor), "parallel.zero") == "3");
  options.stated = {{"nodes", "1"}};
  options.gpus_of_node = 8;
  CHECK(value(read("", tensor), "parallel.zero") == "0");
  CHECK(value(read("", tensor), "precision") == "fp32");
  options.stated = {{"nodes", "2"}};
  CHECK(value(read("", tensor), "parallel.zero") == "3");
  CHECK(value(read("", tensor), "precision") == "bf16");
}

TEST_CASE("launch: torchtitan's switches that change a step", "[unit][io][launch]") {
  const auto read = [](const std::string& text) {
    return taken(LaunchFormat::kTorchtitan, "[training]\nlocal_batch_size = 1\n" + text, {}, "t.toml");
  };
  CHECK(value(read("[compile]\nenable = true\ncomponents = [\"model\", \"loss\"]\n"), "fusion") == "all");
  const LaunchImport loss = read("[compile]\nenable = true\ncomponents = [\"loss\"]\n");
  CHECK(value(loss, "fusion") == "-");
  CHECK_THAT(left_out(loss), Contains("compile.components"));
  CHECK(value(read("[float8]\nenable_float8_linear = true\n"), "precision") == "fp8");
  CHECK(value(read("[float8]\nenable_float8_linear = false\n"), "precision") == "bf16");
  const std::string gathers = "disable_loss_parallel = true\n";
  CHECK_THAT(left_out(read("[parallelism]\ntensor_parallel_degree = 2\n" + gathers)),
             Contains("disable_loss_parallel"));
  CHECK(left_out(read("[parallelism]\n" + gathers)).empty());
  CHECK_THAT(left_out(read("[optimizer]\nearly_step_in_backward = true\n")), Contains("early_step_in_backward"));
}

TEST_CASE("launch: software is that of the framework's published runs", "[unit][io][launch]") {
  const auto titan = [](const std::string& text) {
    return taken(LaunchFormat::kTorchtitan, "[training]\nlocal_batch_size = 1\n" + text, {}, "t.toml");
  };
  const LaunchImport plain = titan("");
  const TrainingWay& way = way_of("torchtitan (pytorch fsdp2)");
  CHECK(value(plain, "software.fused") == "no");
  CHECK(value(plain, "software.attention") == way.attention);
  CHECK(value(plain, "parallel.states") == way.states);
  CHECK(value(plain, "strategy.gradients") == way.gradients);
  CHECK(value(plain, "fusion") == "-");
  const LaunchImport compiled = titan("[compile]\nenable = true\n");
  CHECK(value(compiled, "fusion") == "all");
  // As published runs that were compiled are read, and not said to be single operators.
  CHECK(value(compiled, "software.fused") == "no");
  CHECK_THAT(write_scenario(compiled, "", ""), Catch::Contains("no fused kernels of its own beside what is compiled"));
  CHECK_THAT(write_scenario(plain, "", ""), Catch::Contains("single operators unless compiled"));
  CHECK(value(titan("dtype = \"bfloat16\"\n"), "parallel.states") == "pure-16");
  CHECK(value(titan("mixed_precision_param = \"float32\"\n"), "parallel.states") == "fp32");
  CHECK(value(titan("mixed_precision_reduce = \"bfloat16\"\n"), "strategy.gradients") == "bf16");
  CHECK(value(titan("[optimizer]\nimplementation = \"foreach\"\n"), "software.optimizer") == "foreach");
  CHECK(value(titan("[optimizer]\nname = \"AdamW\"\n"), "software.optimizer") == "-");

  const auto trainer = [](const std::string& text) { return taken(LaunchFormat::kAccelerate, text, {}, "a.yaml"); };
  const LaunchImport whole = trainer("distributed_type: MULTI_GPU\nmixed_precision: bf16\n");
  CHECK(value(whole, "software.fused") == "no");
  CHECK(value(whole, "software.operators") == "autocast");
  CHECK(value(whole, "software.optimizer") == "foreach");
  CHECK(value(trainer("distributed_type: FSDP\nmixed_precision: bf16\n"), "software.operators") == "-");
  CHECK(value(trainer("distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 2}\n"), "software.optimizer") ==
        "-");

  CHECK(value(megatron("--micro-batch-size 1"), "software.fused") == "yes");
  // DeepSpeed's engine runs either.
  CHECK(value(taken(LaunchFormat::kDeepSpeed, R"({"train_batch_size": 8})", {}, "ds.json"), "software.fused") == "-");
}

TEST_CASE("launch: weights that wait on the host", "[unit][io][launch]") {
  const auto engine = [](const std::string& stage, const std::string& optimizer, const std::string& weights) {
    return taken(LaunchFormat::kDeepSpeed,
                 R"({"train_batch_size": 8, "zero_optimization": {"stage": )" + stage +
                     R"(, "offload_optimizer": {"device": ")" + optimizer + R"("}, "offload_param": {"device": ")" +
                     weights + R"(", "pin_memory": true}}})",
                 {}, "ds.json");
  };
  CHECK(value(engine("3", "cpu", "cpu"), "parallel.offload_weights") == "yes");
  CHECK(left_out(engine("3", "cpu", "cpu")).empty());
  CHECK(value(engine("3", "cpu", "none"), "parallel.offload_weights") == "-");
  CHECK(value(engine("3", "cpu", "nvme"), "parallel.offload_weights") == "?");
  CHECK(value(engine("3", "none", "cpu"), "parallel.offload_weights") == "-");
  CHECK_THAT(left_out(engine("3", "none", "cpu")), Contains("with an optimizer there alone"));
  CHECK_THAT(left_out(engine("2", "cpu", "cpu")), Contains("of stage 3 alone"));

  const auto fsdp = [](const std::string& strategy) {
    return taken(LaunchFormat::kAccelerate,
                 "distributed_type: FSDP\nmixed_precision: bf16\nnum_machines: 1\nnum_processes: 8\nfsdp_config:\n"
                 "  fsdp_offload_params: true\n  fsdp_sharding_strategy: " +
                     strategy + "\n",
                 {}, "a.yaml");
  };
  CHECK(value(fsdp("FULL_SHARD"), "parallel.offload_optimizer") == "yes");
  CHECK(value(fsdp("FULL_SHARD"), "parallel.offload_weights") == "yes");
  CHECK(value(fsdp("NO_SHARD"), "parallel.offload_weights") == "-");
  CHECK_THAT(left_out(fsdp("NO_SHARD")), Contains("are taken to stay on the GPUs"));
  const LaunchImport config = taken(LaunchFormat::kAccelerate,
                                    "distributed_type: DEEPSPEED\nnum_machines: 1\nnum_processes: 8\n"
                                    "deepspeed_config:\n  zero_stage: 3\n  offload_optimizer_device: cpu\n"
                                    "  offload_param_device: cpu\n",
                                    {}, "a.yaml");
  CHECK(value(config, "parallel.offload_weights") == "yes");
  const LaunchImport titan =
      taken(LaunchFormat::kTorchtitan, "[training]\nlocal_batch_size = 1\nenable_cpu_offload = true\n");
  CHECK(value(titan, "parallel.offload_optimizer") == "yes");
  CHECK(value(titan, "parallel.offload_weights") == "yes");
}

TEST_CASE("launch: DeepSpeed's micro-batch follows from a step's samples and passes", "[unit][io][launch]") {
  const std::string text = R"({"train_batch_size": 256, "gradient_accumulation_steps": 4,
    "tensor_parallel": {"autotp_size": 4}})";
  const LaunchImport asked = taken(LaunchFormat::kDeepSpeed, text, {}, "ds.json");
  CHECK(value(asked, "batch") == "?");
  CHECK_THAT(write_scenario(asked, "t", ""), Contains("train_batch_size = 256 in 4 passes"));
  // 32 GPUs are 8 replicas of 4: 256 / 4 / 8.
  LaunchOptions options;
  options.stated = {{"nodes", "4"}};
  options.gpus_of_node = 8;
  CHECK(value(taken(LaunchFormat::kDeepSpeed, text, options, "ds.json"), "batch") == "8");
  CHECK(value(taken(LaunchFormat::kDeepSpeed, R"({"train_batch_size": 256})", options, "ds.json"), "batch") == "8");
  options.stated = {{"parallel.data", "3"}};
  CHECK(value(taken(LaunchFormat::kDeepSpeed, text, options, "ds.json"), "batch") == "?");
}

TEST_CASE("launch: what is stated wins, and models that files name exist", "[unit][io][launch]") {
  LaunchOptions options;
  options.stated = {{"batch", "7"}, {"node", "dgx-h100"}};
  const LaunchImport launch = megatron("--micro-batch-size 2 --num-layers 4", options);
  CHECK(value(launch, "batch") == "7");
  CHECK(value(launch, "node") == "dgx-h100");
  for (const auto& [name, flavour] :
       {std::pair{"llama3", "8B"}, {"llama3", "70B"}, {"deepseek_v3", "671B"}, {"qwen3", "8B"}}) {
    const LaunchImport titan =
        taken(LaunchFormat::kTorchtitan, std::string("[model]\nname = \"") + name + "\"\nflavor = \"" + flavour +
                                             "\"\n[training]\nlocal_batch_size = 1\n");
    CHECK(test::catalog().knows(io::Kind::kModels, value(titan, "model")));
  }
}

TEST_CASE("launch: servers and shares that follow are not asked for", "[unit][io][launch]") {
  const std::string list = "micro_batch_size ...... 1\nnum_layers ...... 4\nworld_size ...... 16\n";
  LaunchOptions options;
  CHECK(value(megatron(list, options), "nodes") == "?");
  options.stated = {{"node", "dgx-h100"}};
  options.gpus_of_node = 8;
  CHECK(value(megatron(list, options), "nodes") == "2");
  CHECK(value(megatron(list, options), "gpus_per_node") == "-");
  const auto of = [&](const std::string& world) {
    return megatron("micro_batch_size ...... 1\nnum_layers ...... 4\nworld_size ...... " + world + "\n", options);
  };
  CHECK(value(of("4"), "nodes") == "1");
  CHECK(value(of("4"), "gpus_per_node") == "4");
  CHECK(value(of("12"), "nodes") == "?");  // one and a half

  // Megatron-LM: of 32 GPUs, tensor 2 and pipeline 2, 8 replicas in 2 copies; context ranks share as well.
  const auto copies = [](const std::string& more, const LaunchOptions& with) {
    return value(megatron("--micro-batch-size 1 --use-distributed-optimizer --num-distributed-optimizer-instances 2 "
                          "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 " +
                              more,
                          with),
                 "parallel.shard_ranks");
  };
  CHECK(copies("", {}) == "?");
  CHECK(copies("", {.gpus_of_node = 8, .stated = {{"nodes", "4"}}}) == "4");
  CHECK(copies("--nnodes 4 --nproc-per-node 8", {}) == "4");
  CHECK(copies("--nnodes 4 --nproc-per-node 8 --context-parallel-size 2", {}) == "4");
  CHECK(copies("--world-size 32", {}) == "4");
  CHECK(copies("--world-size 32 --context-parallel-size $CP", {}) == "?");
  CHECK(copies("--world-size 12", {}) == "?");  // three replicas
  CHECK(value(megatron("#SBATCH --nodes=4\n#SBATCH --gpus-per-node=8\npython pretrain_gpt.py --micro-batch-size 1 "
                       "--num-distributed-optimizer-instances 2\n"),
              "parallel.shard_ranks") == "16");

  // torchtitan: 32 GPUs / tensor 2 / 4 copies leave 4 that share.
  const std::string titan =
      "[training]\nlocal_batch_size = 1\n[parallelism]\ndata_parallel_replicate_degree = 4\n"
      "tensor_parallel_degree = 2\n";
  CHECK(value(taken(LaunchFormat::kTorchtitan, titan, options), "parallel.shard_ranks") == "?");
  options.stated.emplace_back("nodes", "4");
  CHECK(value(taken(LaunchFormat::kTorchtitan, titan, options), "parallel.shard_ranks") == "4");
  LaunchOptions replicas;
  replicas.stated = {{"parallel.data", "8"}};
  CHECK(value(taken(LaunchFormat::kTorchtitan, titan, replicas), "parallel.shard_ranks") == "2");
  // Context ranks share as well: dp_shard_cp.
  const std::string ring = "context_parallel_degree = 2\n";
  CHECK(value(taken(LaunchFormat::kTorchtitan, titan + ring, options), "parallel.shard_ranks") == "4");
  CHECK(value(taken(LaunchFormat::kTorchtitan, titan + ring + "data_parallel_shard_degree = 2\n", options),
              "parallel.shard_ranks") == "4");
  // accelerate shares within a server.
  const std::string hybrid = "distributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: HYBRID_SHARD\n";
  CHECK(value(taken(LaunchFormat::kAccelerate, hybrid), "parallel.shard_ranks") == "?");
  CHECK(value(taken(LaunchFormat::kAccelerate, hybrid, options), "parallel.shard_ranks") == "8");
}
