// A predicted step as a Chakra trace, and back as a model.
#include "ddlsim/report/chakra.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <string>

#include "catalog.h"
#include "ddlsim/plan/messages.h"
#include "unit/importers/trace_text.h"

using namespace ddlsim;
using ddlsim::test::catalog;

namespace {

importers::ChakraTrace written_and_read(const importers::ChakraTrace& trace) {
  const test::TraceFile file(importers::write_chakra(trace), "step.et");
  auto read = importers::read_chakra(file.path());
  if (!read) FAIL(to_string(read.error()));
  return std::move(*read);
}

/// Two layers, a and b: forward 10 and 20 us, backward 0.2 and 40; a message after each.
plan::Chunk two_layers() {
  workload::Model model;
  model.layers = {{.name = "a", .forward_work = flops(7), .forward_elements = 3, .parameters = {100}},
                  {.name = "b", .parameters = {50}}};
  return plan::chunk_of(std::make_shared<const workload::Model>(std::move(model)));
}
answer::Timeline record_of_two() {
  answer::Timeline record;
  record.forward_kernels = {{microseconds(10), Time::zero(), 1}, {microseconds(20), Time::zero(), 1}};
  record.backward_kernels = {{microseconds(40), Time::zero(), 1}, {microseconds(0.2), Time::zero(), 1}};  // b, then a
  record.update = microseconds(5);
  record.ready = {{1, Time::zero()}, {2, Time::zero()}};
  record.sent = {{.last = 0, .alone = microseconds(7), .size = bytes(200), .layer = 1},
                 {.last = 1, .alone = microseconds(9), .size = bytes(400), .layer = 0}};
  return record;
}

}  // namespace

TEST_CASE("chakra: a step of two layers, written and read back") {
  const importers::ChakraTrace trace =
      report::chakra_of(two_layers(), record_of_two(), {.batch = 2, .updated = bytes(64)});
  REQUIRE(trace.nodes.size() == 7);
  CHECK(report::chakra_nodes(record_of_two(), 1) == 7);
  CHECK(trace.nodes[0].work == flops(14));
  CHECK(trace.nodes[0].tensor == bytes(24));  // 3 elements of 4 bytes, twice
  CHECK(trace.nodes[2].name == "b backward");
  CHECK(trace.nodes[3].collective == primitives::CollectiveOp::kAllReduce);
  CHECK(trace.nodes[3].sent == bytes(200));
  CHECK(trace.nodes[3].duration == microseconds(7));
  CHECK(trace.nodes[3].data == std::vector<std::int64_t>{2});
  CHECK(trace.nodes[4].duration == microseconds(1));  // 0.2 us: some time
  CHECK(trace.nodes[4].data == std::vector<std::int64_t>{2});
  CHECK(trace.nodes[6].data == std::vector<std::int64_t>{4, 3, 5});
  CHECK(trace.nodes[6].duration == microseconds(4));  // 5 us less 0.8 us that came early
  CHECK(trace.nodes[6].work == flops(1));             // none, but no division by it
  CHECK(trace.nodes[6].tensor == bytes(64));

  const importers::ChakraTrace read = written_and_read(trace);
  CHECK(read == trace);
  const auto description = importers::describe(read, catalog().gpu("v100-sxm2-16gb").value(), {.id = "m"});
  REQUIRE(description);
  const auto again = io::build_model(*description);
  REQUIRE(again);
  // Forward a, b and the update; backward a, b from the back, each with its gradients.
  REQUIRE(again->layers.size() == 5);
  CHECK(again->layers[3].name == "a backward");
  CHECK(again->layers[3].parameters == std::vector<std::int64_t>{100});
  CHECK(again->layers[4].parameters == std::vector<std::int64_t>{50});
  CHECK(again->layers[4].measured->backward == microseconds(40));
}

TEST_CASE("chakra: messages fused, in pieces, gathered, and copied first") {
  answer::Timeline record = record_of_two();
  record.ready[1].encoding = microseconds(3);
  // Both messages leave as one, after the second; a gather of two pieces follows.
  record.sent = {{.last = 1, .alone = microseconds(15), .size = bytes(600)},
                 {.last = 1, .alone = microseconds(8), .count = 2, .size = bytes(40), .gathered = true}};
  const importers::ChakraTrace trace = report::chakra_of(two_layers(), record);
  REQUIRE(trace.nodes.size() == 9);
  CHECK(report::chakra_nodes(record, 1) == 9);
  CHECK(trace.nodes[4].name == "gradient copies, backward");
  CHECK(trace.nodes[4].data == std::vector<std::int64_t>{3});
  CHECK(trace.nodes[5].data == std::vector<std::int64_t>{4});
  CHECK(trace.nodes[5].sent == bytes(600));
  CHECK(trace.nodes[7].collective == primitives::CollectiveOp::kAllGather);
  CHECK(trace.nodes[7].duration == microseconds(4));
  CHECK(trace.nodes[8].data == std::vector<std::int64_t>{4, 5, 6, 7});
  CHECK(written_and_read(trace) == trace);
}

TEST_CASE("chakra: several passes, on a slow GPU") {
  const importers::ChakraTrace trace = report::chakra_of(two_layers(), record_of_two(), {.passes = 3, .slowness = 2});
  REQUIRE(trace.nodes.size() == 3 * 4 + 2 + 1);
  CHECK(report::chakra_nodes(record_of_two(), 3) == 15);
  Time compute;
  for (const importers::ChakraNode& node : trace.nodes) {
    if (node.type == importers::ChakraType::kCompute) compute += *node.duration;
  }
  // (3 * 70.2 + 5) * 2 = 431.2 us, though every 0.4 us was written as 1.
  CHECK(std::round(compute.in(nanoseconds)) == 431'000);
  CHECK(trace.nodes[4].name == "a forward");
  CHECK(trace.nodes[4].data == std::vector<std::int64_t>{3});
  CHECK(trace.nodes[11].duration == microseconds(7));  // the network is no slower
}
