// accelerate: what each key becomes.
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

TEST_CASE("launch: accelerate", "[unit][io][launch]") {
  const auto read = [](const std::string& text) { return taken(LaunchFormat::kAccelerate, text, {}, "a.yaml"); };
  const std::string head =
      "distributed_type: FSDP\nmixed_precision: bf16\nnum_machines: 4\nnum_processes: 32\nfsdp_config:\n";
  const LaunchImport hybrid =
      read(head + "  fsdp_sharding_strategy: HYBRID_SHARD\n  fsdp_activation_checkpointing: true\n");
  CHECK(value(hybrid, "nodes") == "4");
  CHECK(value(hybrid, "gpus_per_node") == "8");
  CHECK(value(hybrid, "parallel.zero") == "3");
  CHECK(value(hybrid, "parallel.shard_ranks") == "8");
  CHECK(value(hybrid, "parallel.recompute") == "full");
  CHECK(value(hybrid, "parallel.recompute_stops") == "yes");
  CHECK(value(hybrid, "batch") == "?");
  CHECK(value(read(head + "  fsdp_sharding_strategy: 2\n"), "parallel.reshard") == "no");
  CHECK(value(read(head + "  fsdp_sharding_strategy: NO_SHARD\n"), "parallel.zero") == "0");
  CHECK(value(read(head + "  fsdp_version: 2\n  fsdp_reshard_after_forward: false\n"), "parallel.reshard") == "no");
  CHECK(value(read("distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 2\n"), "parallel.zero") == "2");
  const auto fault = [](const std::string& text) { return refused(LaunchFormat::kAccelerate, text, "a.yaml"); };
  CHECK_THAT(fault(head + "  fsdp_sharding_strategy: SOME\n"), Contains("a.yaml:6") && Contains("FULL_SHARD"));
  CHECK_THAT(fault("distributed_type: MEGATRON_LM\n"), Contains("ddlsim import megatron"));
  CHECK_THAT(fault("distributed_type: DEEPSPEED\ndeepspeed_config: {deepspeed_config_file: x.json}\n"),
             Contains("import that one"));
  CHECK_THAT(fault("a: 1\n"), Contains("no accelerate configuration"));
}

TEST_CASE("launch: accelerate's degrees", "[unit][io][launch]") {
  const auto read = [](const std::string& type, const std::string& processes, const std::string& degrees) {
    return taken(LaunchFormat::kAccelerate,
                 "distributed_type: " + type + "\nmixed_precision: bf16\nnum_machines: 1\nnum_processes: " + processes +
                     "\nfsdp_config: {fsdp_version: 2}\nparallelism_config:\n" + degrees,
                 {}, "a.yaml");
  };
  const std::string key = "  parallelism_config_";
  const LaunchImport mesh =
      read("FSDP", "16",
           key + "cp_size: 2\n" + key + "tp_size: 2\n" + key + "dp_replicate_size: 2\n" + key + "dp_shard_size: 2\n");
  CHECK(value(mesh, "parallel.context") == "2");
  CHECK(value(mesh, "parallel.context_by") == "ring");
  CHECK(value(mesh, "parallel.tensor") == "2");
  CHECK(value(mesh, "parallel.data") == "4");
  CHECK(value(mesh, "parallel.shard_ranks") == "4");  // 2 that share, times 2 context ranks
  CHECK(left_out(mesh).empty());
  const LaunchImport ring = read("FSDP", "2",
                                 key + "dp_replicate_size: 1\n" + key + "dp_shard_size: 1\n" + key + "cp_size: 2\n" +
                                     key + "cp_comm_strategy: allgather\n");
  CHECK(value(ring, "parallel.context") == "2");
  CHECK(value(ring, "parallel.data") == "1");
  CHECK(value(ring, "parallel.shard_ranks") == "-");
  CHECK_THAT(left_out(ring), Contains("go round in a ring"));
  const LaunchImport heads = read("DEEPSPEED", "8", key + "sp_size: 4\n" + key + "sp_backend: deepspeed\n");
  CHECK(value(heads, "parallel.context") == "4");
  CHECK(value(heads, "parallel.context_by") == "ulysses");
  const auto result =
      parse_launch(LaunchFormat::kAccelerate,
                   "distributed_type: FSDP\nnum_processes: 8\nparallelism_config: {dp_shard_size: 4}\n", "a.yaml", {});
  REQUIRE_FALSE(result);
  CHECK_THAT(to_string(result.error()), Contains("is of 4 ranks, num_processes is 8"));
}
