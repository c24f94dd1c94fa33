// A predicted step as a Chakra trace, and back as a model.
#include "ddlsim/report/chakra.h"

#include <catch2/catch.hpp>
#include <string>

#include "catalog.h"
#include "unit/io/trace_text.h"

using namespace ddlsim;
using ddlsim::test::catalog;

TEST_CASE("chakra: a step of two layers, written and read back") {
  workload::Model model;
  model.layers = {{.name = "a", .parameters = {100}}, {.name = "b", .parameters = {50}}};
  sim::StepRecord record;
  record.forward = {{microseconds(10), Time::zero(), 1}, {microseconds(20), Time::zero(), 1}};
  record.backward = {{microseconds(40), Time::zero(), 1}, {microseconds(0.2), Time::zero(), 1}};  // b, then a
  record.update = microseconds(5);
  const std::vector<plan::Message> messages{{.size = bytes(200), .after = 1}, {.size = bytes(400), .after = 0}};
  const io::ChakraTrace trace = report::chakra_of(model, messages, record);
  REQUIRE(trace.nodes.size() == 7);
  CHECK(trace.nodes[2].name == "b backward");
  CHECK(trace.nodes[3].collective == CollectiveOp::kAllReduce);
  CHECK(trace.nodes[3].sent == bytes(200));
  CHECK(trace.nodes[3].data == std::vector<std::int64_t>{2});
  CHECK(trace.nodes[4].duration == microseconds(1));  // 0.2 us: some time
  CHECK(trace.nodes[4].data == std::vector<std::int64_t>{2});
  CHECK(trace.nodes[6].data == std::vector<std::int64_t>{4, 3, 5});

  const test::TraceFile file(io::write_chakra(trace), "step.et");
  const auto read = io::read_chakra(file.path());
  REQUIRE(read);
  CHECK(*read == trace);
  const auto description = io::describe(*read, catalog().gpu("v100-sxm2-16gb").value(), {.id = "m"});
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
