// Chakra execution traces: both writings, orders, and what cannot be one.
#include "ddlsim/importers/chakra_file.h"

#include <catch2/catch.hpp>
#include <string>

#include "catalog.h"
#include "unit/importers/trace_text.h"

namespace {

using namespace ddlsim;
using namespace ddlsim::importers;
using namespace ddlsim::io;
using namespace ddlsim::test;
using Catch::Matchers::Contains;

Expected<ChakraTrace> read_bytes(const std::string& bytes) {
  const TraceFile file(bytes, "made.et");
  return read_chakra(file.path());
}

std::string error_of(const std::string& bytes) {
  const auto trace = read_bytes(bytes);
  return trace ? std::string() : to_string(trace.error());
}

ChakraNode compute(std::int64_t id, std::vector<std::int64_t> data, std::string name = "k") {
  ChakraNode node;
  node.id = id;
  node.name = std::move(name);
  node.data = std::move(data);
  node.duration = microseconds(3);
  return node;
}

std::string described(const ChakraTrace& trace) {
  const auto description = describe(trace, catalog().gpu("v100-sxm2-16gb").value(), {.id = "m"});
  if (!description) return to_string(description.error());
  const auto text = write_model(*description);
  return text ? *text : to_string(text.error());
}

}  // namespace

TEST_CASE("chakra: the microbenchmark of ASTRA-sim, byte for byte") {
  // examples/workload/microbenchmarks/all_reduce/4npus_1MB/all_reduce.1.et
  std::string encoded =
      "\x07\x0a\x05"
      "0.0.4"
      "\x4a\x08\x01\x12\x14"
      "all_reduce_4npus_1MB"
      "\x18\x07";
  encoded +=
      "\x52\x0e\x0a\x09"
      "is_cpu_op"
      "\xd8\x01";
  encoded += '\0';
  encoded +=
      "\x52\x0d\x0a\x09"
      "comm_type"
      "\x48";
  encoded += '\0';
  encoded +=
      "\x52\x0f\x0a\x09"
      "comm_size"
      "\x48\x80\x80\x40";
  const auto trace = read_bytes(encoded);
  if (!trace) FAIL(to_string(trace.error()));
  CHECK(trace->version == "0.0.4");
  REQUIRE(trace->nodes.size() == 1);
  const ChakraNode& node = trace->nodes.front();
  CHECK(node.id == 1);
  CHECK(node.type == ChakraType::kCollective);
  CHECK(node.collective == primitives::CollectiveOp::kAllReduce);
  CHECK(node.sent == mebibytes(1));
  CHECK_FALSE(node.on_cpu);
  CHECK_FALSE(node.duration);
  CHECK_THAT(described(*trace), Contains("measured: {name: \"gradients\", gradients: [262144]}"));
}

TEST_CASE("chakra: dependencies come first, then the lowest id") {
  const ChakraTrace trace{.version = "x", .nodes = {compute(5, {9}), compute(2, {}), compute(9, {}), compute(1, {5})}};
  const auto read = read_bytes(write_chakra(trace));
  REQUIRE(read);
  std::vector<std::int64_t> ids;
  for (const ChakraNode& node : read->nodes) ids.push_back(node.id);
  CHECK(ids == std::vector<std::int64_t>{2, 9, 5, 1});
}

TEST_CASE("chakra: circles, twins, and what is left out") {
  CHECK_THAT(error_of(write_chakra({.version = "x", .nodes = {compute(1, {2}), compute(2, {1})}})),
             Contains("the dependencies of the node") && Contains("lead back to it"));
  CHECK_THAT(error_of(write_chakra({.version = "x", .nodes = {compute(1, {}), compute(1, {}, "twin")}})),
             Contains("two nodes of the id 1") && Contains("twin"));
  const auto cut = read_bytes(write_chakra({.version = "x", .nodes = {compute(1, {7, 8})}}));
  REQUIRE(cut);
  CHECK(cut->dangling == 2);
  // A caller that comes after what it called: data alone decides.
  ChakraNode called = compute(1, {});
  called.control = {2};
  const auto calls = read_bytes(write_chakra({.version = "x", .nodes = {called, compute(2, {1})}}));
  REQUIRE(calls);
  CHECK(calls->nodes.front().id == 1);
}

TEST_CASE("chakra: JSON") {
  const auto trace = read_bytes(
      R"({"workload_graph": [{"Id": 3, "Name": "aten::mm_backward", "NodeType": 4, "runtime": 9, "is_cpu_op": true},
          {"Id": 4, "Name": "volta_sgemm", "NodeType": 4, "data_deps": [3], "runtime": 7, "is_cpu_op": false}]})");
  if (!trace) FAIL(to_string(trace.error()));
  REQUIRE(trace->nodes.size() == 2);
  CHECK(trace->nodes[0].on_cpu);
  CHECK(trace->nodes[1].duration == microseconds(7));
  CHECK_THAT(described(*trace), Contains("- measured: {name: \"volta_sgemm\", backward: 7 us, bound: compute}"));
  CHECK_THAT(error_of(R"({"traceEvents": []})"), Contains("has no workload_graph"));
  CHECK_THAT(error_of(R"({"workload_graph": [{"Id": 3, "NodeType": 44}]})"), Contains("type 44"));
  CHECK_THAT(error_of(R"({"workload_graph": [{"Id": 3, "NodeType": 4, "runtime": -4}]})"), Contains("cannot be -4"));
  CHECK_THAT(error_of(R"({"workload_graph": [{"Id": 3)"), Contains("JSON"));
}

TEST_CASE("chakra: nodes without a duration") {
  ChakraNode node = compute(1, {});
  node.duration.reset();
  node.work = gigaflops(15.7);
  node.tensor = megabytes(9);
  // 15.7 GFLOP at 15.7 TFLOP/s is 1 ms, 9 MB at 900 GB/s 10 us.
  CHECK_THAT(described({.version = "x", .nodes = {node}}), Contains("forward: 1000 us, bound: compute"));
  node.type = ChakraType::kSend;
  node.sent = megabytes(1);
  CHECK_THAT(described({.version = "x", .nodes = {node}}), Contains("COMM_SEND_NODE") && Contains("has no duration"));
}

TEST_CASE("chakra: a file cut anywhere, or of another kind") {
  const std::string whole = write_chakra({.version = "x", .nodes = {compute(1, {}), compute(2, {1})}});
  for (std::size_t kept = 1; kept < whole.size(); ++kept) {
    const std::string error = error_of(whole.substr(0, kept));
    // Cut between two messages, it is a shorter trace; after the metadata, one without nodes.
    if (!error.empty()) CHECK_THAT(error, Contains("at byte") || Contains("without nodes"));
  }
  CHECK_THAT(error_of("version https://git-lfs.github.com/spec/v1\n"), Contains("Git LFS pointer"));
  CHECK_THAT(error_of("model: resnet50\nname: x\n"), Contains("at byte"));
}
