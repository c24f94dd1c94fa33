#include "ddlsim/io/case_file.h"

#include <catch2/catch.hpp>
#include <sstream>

using namespace ddlsim;
using namespace ddlsim::io;

namespace {

const std::string kHeader =
    "id,group,source,model,framework,precision,gpu,gpus_per_node,nodes,total_gpus,intra_interconnect,inter_network,"
    "batch_per_gpu,architecture,extra,metric,value,notes\n";
const std::string kRow =
    "a1,g,paper,ResNet-50,PyTorch,FP32,V100,8,2,16,NVLink,25 Gb/s,64,ddp,\"{\"\"dp\"\": 8}\",images_per_s,5000.5,\n";

Expected<std::vector<Case>> read(const std::string& rows) {
  std::istringstream stream(kHeader + rows);
  return read_cases(stream, "cases.csv");
}

std::string error_of(const std::string& rows) {
  const auto cases = read(rows);
  return cases ? std::string() : to_string(cases.error());
}

}  // namespace

TEST_CASE("cases: a row is read as it stands", "[unit][io]") {
  const auto cases = read(kRow);
  REQUIRE(cases);
  const Case& one = cases->front();
  CHECK(one.id == "a1");
  CHECK(one.total_gpus == 16);
  CHECK(one.batch_per_gpu == 64);
  CHECK(one.metric == CaseMetric::kImagesPerSecond);
  CHECK(one.value == 5000.5);
  CHECK(one.said("dp") == "8");
  CHECK_FALSE(one.said("pp"));
  CHECK(one.where.line == 2);
}

TEST_CASE("cases: what is empty is not stated", "[unit][io]") {
  const auto cases = read("a1,,,ResNet-50,,,V100,1,1,1,,,,single,,step_ms,10,\n");
  REQUIRE(cases);
  CHECK_FALSE(cases->front().batch_per_gpu);
  CHECK(cases->front().group == "a1");  // a group of its own
  CHECK(cases->front().extra.empty());
}

TEST_CASE("cases: other names of what is said, and whole numbers with a zero behind", "[unit][io]") {
  const auto cases = read(
      "a1,g,paper,BERT,PyTorch,FP32,V100,8.0,2.0,16.0,NVLink,25 Gb/s,64.0,ddp,"
      "\"{\"\"TP\"\": 8, \"\"max_seq_length\"\": 512, \"\"seq_len\"\": 384, \"\"GBS\"\": 2, \"\"Odd Key\"\": "
      "1}\",images_per_s,5,\n");
  REQUIRE(cases);
  const Case& one = cases->front();
  CHECK(one.total_gpus == 16);
  CHECK(one.batch_per_gpu == 64);
  CHECK(one.said("tp") == "8");
  CHECK(one.said("seq_len") == "384");  // in this project's own words
  CHECK(one.said("global_batch") == "2");
  CHECK(one.said("odd_key") == "1");
  const auto spelt = read(
      "a1,g,paper,GPT,PyTorch,FP32,V100,8,2,16,NVLink,25 Gb/s,64,ddp,"
      "\"{\"\"num_hidden_layers\"\": 24, \"\"d_model\"\": 1024, \"\"intermediate_size\"\": 4096, \"\"year\"\": 2021, "
      "\"\"num_key_value_heads\"\": 8, \"\"gradient_checkpointing\"\": true}\",images_per_s,5,\n");
  REQUIRE(spelt);
  CHECK(spelt->front().said("layers") == "24");
  CHECK(spelt->front().said("hidden") == "1024");
  CHECK(spelt->front().said("ffn") == "4096");
  CHECK(spelt->front().said("date") == "2021");
  CHECK(spelt->front().said("kv_heads") == "8");
  CHECK(spelt->front().said("activation_checkpointing") == "true");
  const auto short_form =
      read("a1,g,paper,GPT,PyTorch,FP32,V100,8,2,16,,,64,ddp,\"{\"\"ac\"\": \"\"Recompute\"\"}\",images_per_s,5,\n");
  CHECK(short_form->front().said("activation_checkpointing") == "Recompute");
  const auto tokens = [&](const std::string& said) {
    const auto row = read("a1,g,paper,GPT,PyTorch,FP32,V100,8,2,16,,,64,ddp,\"{\"\"seq-length\"\": \"\"" + said +
                          "\"\"}\",images_per_s,5,\n");
    return row->front().said("seq_len");
  };
  CHECK(tokens("64K") == "65536");
  CHECK(tokens("0.5k") == "512");
  CHECK(tokens("4096") == "4096");
  CHECK(tokens("OK") == "OK");
  CHECK(error_of("a1,,,ResNet-50,,,V100,1,1,1.5,,,,single,,step_ms,10,\n").find("'1.5'") != std::string::npos);
}

TEST_CASE("cases: keys in any spelling, and lists", "[unit][io]") {
  const auto cases = read(
      "a1,g,paper,GPT,PyTorch,FP32,V100,8,2,16,,,,tp,\"{\"\"Gradient Accum.\"\": 4, \"\"global bs\"\": 64, \"\"Image "
      "size\"\": 256, \"\"lora_target_modules\"\": [\"\"q_proj\"\", \"\"v_proj\"\"], \"\"times_ms\"\": [1, 2.5], "
      "\"\"runs\"\": [[1], {}], \"\"none\"\": [], \"\"Flash-Attention-2\"\": true, \"\"NCCL_P2P_DISABLE\"\": 1, "
      "\"\"num_ckpt_layers\"\": 20, \"\"Tuning method\"\": "
      "\"\"LoRA\"\"}\",step_ms,5,\n");
  REQUIRE(cases);
  const Case& one = cases->front();
  CHECK(one.said("grad_accum") == "4");
  CHECK(one.said("global_batch") == "64");
  CHECK(one.said("image_size") == "256");
  CHECK(one.said("lora_targets") == "q_proj, v_proj");
  CHECK(one.said("times_ms") == "1, 2.5");
  CHECK(one.said("runs") == "[[1],{}]");
  CHECK(one.said("none") == "");
  CHECK(one.said("flash_attention") == "true");
  CHECK(one.said("p2p_disabled") == "1");
  CHECK(one.said("recompute_layers") == "20");
  CHECK(one.said("tuning") == "LoRA");
}

TEST_CASE("cases: words of papers' tables, and their gigabytes", "[unit][io]") {
  const auto cases = read(
      "a1,g,paper,GPT,PyTorch,FP32,V100,8,2,16,,,,pp,\"{\"\"attention heads\"\": 24, \"\"number of microbatches\"\": "
      "32, "
      "\"\"pipeline stages\"\": 8, \"\"total sequence length\"\": \"\"64K\"\", \"\"memory (GB)\"\": "
      "30.5}\",step_ms,5,\n"
      "a2,g,paper,GPT,PyTorch,FP32,V100,8,2,16,,,,pp,\"{\"\"memory (GB)\"\": 30.5, \"\"memory_bytes_per_gpu\"\": "
      "7}\",step_ms,5,\n"
      "a3,g,paper,GPT,PyTorch,FP32,V100,8,2,16,,,,pp,\"{\"\"memory (GB)\"\": \"\"about 30\"\"}\",step_ms,5,\n");
  REQUIRE(cases);
  const Case& one = cases->front();
  CHECK(one.said("heads") == "24");
  CHECK(one.said("grad_accum") == "32");
  CHECK(one.said("pp") == "8");
  CHECK(one.said("seq_len") == "65536");
  CHECK(one.said("memory_bytes_per_gpu") == "30500000000");
  CHECK(cases->at(1).said("memory_bytes_per_gpu") == "7");
  CHECK_FALSE(cases->at(2).said("memory_bytes_per_gpu"));
}

TEST_CASE("cases: thousands, millions of tokens, and empty cells of tables", "[unit][io]") {
  const auto said = [](const std::string& extra, const char* key) {
    const auto cases = read("a1,g,paper,GPT,PyTorch,FP32,V100,8,2,16,,,,tp,\"{" + extra + "}\",step_ms,5,\n");
    return cases ? cases->front().said(key) : std::optional<std::string>("refused");
  };
  CHECK(said("\"\"vocab\"\": \"\"256k\"\"", "vocab") == "256000");
  CHECK(said("\"\"ep\"\": \"\"-\"\"", "ep") == std::nullopt);
  CHECK(said("\"\"vp\"\": \"\"n/a\"\"", "vp") == std::nullopt);
  CHECK(said("\"\"dp_shard\"\": -1", "dp") == std::nullopt);
  CHECK(said("\"\"dp_shard\"\": 4", "dp") == "4");
  const std::string length = "\"\"seq_len\"\": 4096, ";
  CHECK(said(length + "\"\"gbs\"\": \"\"2.95M tokens\"\"", "global_batch") == "720");
  CHECK(said(length + "\"\"gbs\"\": \"\"32768 tokens\"\"", "global_batch") == "8");
  CHECK(said(length + "\"\"gbs\"\": \"\"64K tokens\"\"", "global_batch") == "16");
  CHECK(said(length + "\"\"gbs\"\": \"\"tokens\"\"", "global_batch") == "tokens");
  CHECK(said(length + "\"\"gbs\"\": \"\"many tokens\"\"", "global_batch") == "many tokens");
  CHECK(said("\"\"gbs\"\": \"\"2M tokens\"\"", "global_batch") == "2M tokens");
}

TEST_CASE("cases: samples that several GPUs share", "[unit][io]") {
  const auto of = [](const std::string& batch, const std::string& extra) {
    return read("a1,g,paper,GPT,PyTorch,FP32,V100,8,2,16,,," + batch + ",tp," + extra + ",step_ms,5,\n");
  };
  const auto shared = of("0.25", "");
  REQUIRE(shared);
  CHECK_FALSE(shared->front().batch_per_gpu);
  CHECK(shared->front().said("global_batch") == "4");
  CHECK(of("0.25", "\"{\"\"gbs\"\": 8}\"")->front().said("global_batch") == "8");  // as it is stated
  CHECK(of("1.5", "")->front().said("global_batch") == "24");
  CHECK(of("8.0", "")->front().batch_per_gpu == 8);
  // 256 on six GPUs: all wait for those that have one more.
  CHECK(of("42.67", "")->front().batch_per_gpu == 43);
  for (const char* wrong : {"0.3", "0.01", "-0.25", "nan", "1e400", "0.0"}) {
    CAPTURE(wrong);
    CHECK_FALSE(of(wrong, ""));
  }
}

TEST_CASE("cases: faults are named with their place", "[unit][io]") {
  CHECK(error_of("").find("no rows") != std::string::npos);
  CHECK(error_of(kRow + kRow).find("cases.csv:3:1: error: the id 'a1' stands twice") != std::string::npos);
  const auto with = [](const std::string& from, const std::string& to) {
    std::string row = kRow;
    return row.replace(row.find(from), from.size(), to);
  };
  CHECK(error_of(with("images_per_s", "images")).find("unknown metric 'images'") != std::string::npos);
  CHECK(error_of(with("images_per_s", "images")).find("did you mean 'images_per_s'") != std::string::npos);
  CHECK(error_of(with("5000.5", "-1")).find("must be above zero") != std::string::npos);
  CHECK(error_of(with("5000.5", "nan")) != "");
  CHECK(error_of(with(",16,", ",0,")) != "");
  CHECK(error_of(with("\"{\"\"dp\"\": 8}\"", "dp=8")).find("not a JSON object") != std::string::npos);
  CHECK(error_of(with("\"{\"\"dp\"\": 8}\"", "\"{\"\"dp\"\": {}}\"")).find("'dp' in 'extra' is not a plain value") !=
        std::string::npos);
  CHECK(error_of(with("ResNet-50", "")).find("'model' is empty") != std::string::npos);
}
