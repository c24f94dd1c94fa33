// Measured kernels from CSV and JSON lines.
#include "ddlsim/io/kernel_file.h"

#include <catch2/catch.hpp>
#include <sstream>
#include <string>

namespace {

using namespace ddlsim;
using namespace ddlsim::io;
using Catch::Matchers::Contains;

const KernelFileOptions kT4{"t4", [](std::string_view name) { return name == "t4" || name == "Tesla T4"; }};
const std::string kContext = R"({"schema":"ddlsim/measurement/1","context":{"gpu":"Tesla T4","driver":"550.54",)"
                             R"("clocks_mhz":{"sm":1590,"memory":5001}}})"
                             "\n";

Expected<KernelFile> csv(const std::string& text) {
  std::istringstream stream(text);
  return read_kernels_csv(stream, "f", kT4);
}

Expected<KernelFile> json(const std::string& rows, const std::string& context = kContext) {
  std::istringstream stream(context + rows);
  return read_kernels_json(stream, "f", kT4);
}

std::string fault(const Expected<KernelFile>& read) {
  if (read) return "none";
  const Error& error = read.error();
  return std::to_string(error.where.line) + ":" + std::to_string(error.where.column) + " " + error.message;
}

}  // namespace

TEST_CASE("kernel file: the header's example") {
  const auto read = csv("gpu,op,kind,bytes,time_us\nt4,memory_bound,elementwise,3200000,14\n");
  REQUIRE(read.has_value());
  REQUIRE(read->rows.size() == 1);
  const auto& kernel = std::get<primitives::TimedMemoryBound>(read->rows[0].what);
  CHECK(kernel.kind == primitives::MemoryBoundKind::kElementwise);
  CHECK(kernel.traffic == megabytes(3.2));
  CHECK(read->rows[0].time.in(microseconds) == Approx(14));
  CHECK(read->rows[0].line == 2);
}

TEST_CASE("kernel file: public tables call kernels bound by memory sweeps") {
  const auto read = csv("gpu,op,precision,kind,bytes,row,series,time_us\nt4,sweep,bf16,norm,4227328,128,rms,3.456\n");
  REQUIRE(read.has_value());
  const auto& kernel = std::get<primitives::TimedMemoryBound>(read->rows[0].what);
  CHECK(kernel.kind == primitives::MemoryBoundKind::kNorm);
  CHECK(kernel.row == 128);
}

TEST_CASE("kernel file: every op, in either format") {
  const auto read =
      csv("op,gpu,precision,batch_count,m,n,k,pass,batch,in,out,input_height,input_width,output_height,output_width,"
          "kernel_height,kernel_width,kind,bytes,row,taken,slowdown,time_ms,series\n"
          "gemm,t4,fp16,2,16,32,64,,,,,,,,,,,,,,,,1.5,a\n"
          "convolution,Tesla T4,fp32,,,,,input-gradient,8,64,128,56,56,28,28,3,3,,,,,,2,\n"
          "memory_bound,t4,,,,,,,,,,,,,,,,softmax,8192,1024,,,0.01,\n"
          "launch,t4,,,,,,,,,,,,,,,,,,,,,0.002,\n"
          "copy,t4,,,,,,,,,,,,,,,,d2h,1024,,,,1,\n"
          "overlap,t4,,,,,,,,,,,,,,,,gemm,,,24,1.3,1,\n");
  REQUIRE(read.has_value());
  REQUIRE(read->rows.size() == 6);
  const auto& gemm = std::get<primitives::Gemm>(read->rows[0].what);
  CHECK(gemm.batch_count == 2);
  CHECK(gemm.k == 64);
  CHECK(read->rows[0].precision == Precision::kFp16);
  CHECK(read->rows[0].time.in(microseconds) == Approx(1500));
  CHECK(read->rows[0].series == "a");
  const auto& convolution = std::get<primitives::TimedConvolution>(read->rows[1].what);
  CHECK(convolution.batch == 8);
  CHECK(convolution.shape.pass == primitives::ConvolutionPass::kInputGradient);
  CHECK(convolution.shape.output == std::array<std::int64_t, 2>{28, 28});
  CHECK(convolution.shape.groups == 1);
  CHECK(std::get<primitives::TimedMemoryBound>(read->rows[2].what).row == 1024);
  CHECK(std::holds_alternative<primitives::TimedLaunch>(read->rows[3].what));
  CHECK(std::get<primitives::TimedCopy>(read->rows[4].what).kind == primitives::CopyKind::kDeviceToHost);
  CHECK(std::get<primitives::TimedOverlap>(read->rows[5].what).taken == 24);

  const auto lines = json(
      R"({"bench":"gemm","op":"gemm","precision":"fp16","m":16,"n":32,"k":64,"time_s":1.5e-3,"mad_s":1e-6,"samples":40})"
      "\n\n"
      R"({"op":"memory_bound","kind":"norm","bytes":8192,"row":512,"time_us":10,"throttled":true})"
      "\n"
      R"({"op":"launch","time_s":2e-6,"cold":false})");
  REQUIRE(lines.has_value());
  REQUIRE(lines->rows.size() == 3);
  CHECK(lines->context == "gpu Tesla T4; driver 550.54; clocks_mhz memory 5001, sm 1590");
  CHECK(std::get<primitives::Gemm>(lines->rows[0].what).batch_count == 1);
  CHECK(lines->rows[0].series == "gemm");
  CHECK_FALSE(lines->rows[0].left_out);
  CHECK(lines->rows[1].left_out);
  CHECK(lines->rows[1].line == 4);
  CHECK_FALSE(lines->rows[2].left_out);
}

TEST_CASE("kernel file: attention and experts") {
  const auto read = csv(
      "op,gpu,precision,pass,batch,queries,keys,heads,kv_heads,width,value_width,window,causal,tokens,routed,experts,"
      "inner,gated,time_us\n"
      "attention,t4,bf16,backward,2,512,1024,32,8,128,64,256,1,,,,,,50\n"
      "attention,t4,bf16,forward,1,512,,16,,64,,,,,,,,,50\n"
      "experts,t4,bf16,,,,,,,4096,,,,1024,2048,8,14336,0,90\n");
  REQUIRE(read.has_value());
  const auto& attention = std::get<primitives::TimedAttention>(read->rows[0].what);
  CHECK(attention.batch == 2);
  CHECK(attention.shape ==
        primitives::AttentionShape{primitives::AttentionPass::kBackward, 512, 1024, 32, 8, 128, 64, 256, true});
  CHECK(std::get<primitives::TimedAttention>(read->rows[1].what).shape ==
        primitives::AttentionShape{primitives::AttentionPass::kForward, 512, 512, 16, 16, 64, 64, 0, false});
  const auto& experts = std::get<primitives::TimedExperts>(read->rows[2].what);
  CHECK(experts.routed == 2048);
  CHECK(experts.inner == 14336);
  CHECK_FALSE(experts.gated);
  const std::string header = "op,gpu,precision,pass,batch,queries,heads,kv_heads,width,time_us\n";
  CHECK(fault(csv(header + "attention,t4,bf16,forward,1,512,6,4,64,1\n")) == "2:35 4 kv_heads do not divide 6 heads");
  CHECK(fault(csv(header + "attention,t4,bf16,forward,1,,6,2,64,1\n")) ==
        "2:29 'queries' is missing, and 'attention' needs it");
  CHECK(fault(csv(header + "attention,t4,bf16,sideways,1,8,6,2,64,1\n")).rfind("2:19", 0) == 0);
  CHECK(fault(csv(header + "attention,t4,,forward,1,8,6,2,64,1\n")) ==
        "2:14 'precision' is missing, and 'attention' needs it");
}

TEST_CASE("kernel file: faults of CSV have a place") {
  const std::string header = "op,gpu,kind,bytes,row,time_us\n";
  CHECK(fault(csv("")) == "1:1 the file is empty");
  CHECK(fault(csv(header)) == "1:1 the file has no rows");
  CHECK(fault(csv("op,gpu,kind,bytes,time\n")) == "1:19 unknown column 'time'");
  CHECK_THAT(csv("op,gpu,kind,bytes,time\n").error().notes.back(), Contains("time_us, time_ms or time_s"));
  CHECK(fault(csv("op,gpu,kind,bytes\nmemory_bound,t4,copy,1\n")) == "1:1 no column holds the time");
  CHECK(fault(csv("gpu,kind,bytes,time_us\n")) == "1:23 the column 'op' is missing");
  CHECK(fault(csv(header + "memory_bound,v100,copy,1,,1\n")) == "2:14 measured on 'v100', which is not t4");
  CHECK(fault(csv(header + "memory_bound,,copy,1,,1\n")) == "2:14 the row does not name its gpu");
  CHECK(fault(csv(header + "memory_bound,t4,copy,1,,1\nmemory_bound,t4,copy,1,,nan\n")) != "none");
  CHECK(fault(csv(header + "memory_bound,t4,copy,1,,-1\n")) == "2:25 'time_us' is -1, but must be above 0");
  CHECK(fault(csv(header + "memory_bound,t4,copy,1,,0\n")) == "2:25 'time_us' is 0, but must be above 0");
  CHECK_THAT(fault(csv(header + "memory_bound,t4,copy,1,,inf\n")), Contains("2:25"));
  CHECK(fault(csv(header + "memory_bound,t4,copy,1,,\n")) == "2:1 the row has no time");
  CHECK(fault(csv(header + "memory_bound,t4,soft,1,,1\n")) == "2:17 unknown kind 'soft'");
  CHECK(fault(csv(header + "wipe,t4,copy,1,,1\n")) == "2:1 unknown op 'wipe'");
  CHECK(fault(csv(header + "memory_bound,t4,softmax,1,,1\n")) == "2:27 'row' is missing, and 'memory_bound' needs it");
  CHECK(fault(csv(header + "gemm,t4,,,,1\n")) == "2:1 'm' is missing, and 'gemm' needs it");
  CHECK(fault(csv(header + "memory_bound,t4,copy,1\n")) == "2:1 4 fields, but the header names 6 columns");
  CHECK(fault(csv("op,gpu,kind,bytes,time_us,time_s\nmemory_bound,t4,copy,1,1,1\n")) ==
        "2:1 the row has more than one time");
  CHECK(fault(csv("op,gpu,m,n,k,time_us\ngemm,t4,1,1,1,1\n")) == "2:1 'precision' is missing, and 'gemm' needs it");
  CHECK(fault(csv("op,gpu,precision,m,n,k,time_us\ngemm,t4,fp32,0,1,1,1\n")).substr(0, 5) == "2:14 ");
}

TEST_CASE("kernel file: faults of JSON lines have a place") {
  const std::string good = R"({"op":"launch","time_us":2})";
  CHECK(fault(json("", "")) == "1:1 the file is empty");
  CHECK(fault(json("")) == "1:1 the file has no rows");
  CHECK(fault(json(good, "{\"schema\":\"x/1\"}\n")) == "1:2 the schema is 'x/1', not 'ddlsim/measurement/1'");
  CHECK(fault(json("", "{\"schema\":\"ddlsim/measurement/1\"}\n")) == "1:1 'context' is missing, or no object");
  CHECK(fault(json("", "{\"schema\":\"ddlsim/measurement/1\",\"context\":{\"gpu\":\"H100\"}}\n")) ==
        "1:45 measured on 'H100', which is not t4");
  CHECK(fault(json(good + "\n" + good.substr(0, 20))) == "3:21 the line is cut short");
  CHECK(fault(json("{\"op\" \"launch\"}\n" + good)) == "2:14 not JSON");
  CHECK(fault(json("[1]\n")) == "2:1 a line of JSON must be an object: {...}");
  CHECK(fault(json(R"({"op":"launch","time":2})")) == "2:16 unknown key 'time'");
  CHECK(fault(json(R"({"op":"launch"})")) == "2:2 the row has no time");
  CHECK(fault(json(R"({"op":"launch","time_us":1,"time_us":2})")) == "2:1 duplicate key 'time_us'");
  CHECK(fault(json(R"({"op":"launch","time_us":[1]})")) == "2:16 'time_us' is not a plain value");
  CHECK(fault(json(R"({"op":"launch","time_us":null})")) == "2:2 the row has no time");
  CHECK(fault(json(R"({"op":"launch","gpu":"K80","time_us":1})")) == "2:16 measured on 'K80', which is not t4");
  CHECK(fault(json(R"({"op":"launch","time_us":1,"throttled":"maybe"})")) ==
        "2:28 'throttled' is maybe, neither true nor false");
  CHECK_THAT(fault(json("{\"op\":" + std::string(50, '[') + std::string(50, ']') + "}")), Contains("nested deeper"));
  CHECK_THAT(fault(json(std::string(70'000, ' '))), Contains("2:1 a line of over 65536 characters"));
}
