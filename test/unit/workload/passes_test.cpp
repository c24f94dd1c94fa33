#include "ddlsim/workload/passes.h"

#include <catch2/catch.hpp>

using namespace ddlsim;
using namespace ddlsim::workload;

namespace {

Layer layer(const Op& op, const Shape& in) { return layer_of(op, in, "a layer").value().layer; }

}  // namespace

TEST_CASE("passes: a layer that is computed again", "[unit][workload]") {
  const Layer kept = layer(Linear{.out = 64}, {8, 32});
  Layer again = kept;
  recompute(again);
  CHECK(again.backward_work == kept.backward_work + kept.forward_work);
  CHECK(again.backward_elements == kept.backward_elements + kept.forward_elements);
  CHECK(again.backward_kernels == kept.backward_kernels + kept.forward_kernels);
  CHECK(again.backward.size() == kept.backward.size() + 1);
  CHECK(again.forward_work == kept.forward_work);
  CHECK(again.parameters == kept.parameters);
}

TEST_CASE("passes: an adapter, the header's example", "[unit][workload]") {
  const Shape rows{8, 1024};
  std::vector<Layer> layers{layer(LayerNorm{}, rows), layer(Linear{.out = 1024, .bias = false}, rows),
                            layer(Attention{.heads = 8}, rows), layer(Linear{.out = 1024, .bias = false}, rows),
                            layer(LayerNorm{}, rows)};
  const std::vector<Layer> before = layers;
  REQUIRE(adapt(layers, 4));
  for (const std::size_t i : {1U, 3U}) {
    CHECK(layers[i].forward_work.in(flops) == 2.0 * 8 * 1024 * 1024 + 2.0 * 8 * 4 * 2048);
    CHECK(layers[i].backward_work.in(flops) == 2.0 * 8 * 1024 * 1024 + 2 * 2.0 * 8 * 4 * 2048);
    CHECK(layers[i].parameters == std::vector<std::int64_t>{4096, 4096});
    CHECK(layers[i].frozen_elements == 1'048'576);
    CHECK(layers[i].saved_elements == before[i].saved_elements + 8 * 4);
    // Its own product and its input's gradient; two products of the adapter, four gradients; the sum and its own.
    CHECK(layers[i].forward.size() == 1 + 2 + 1);
    CHECK(layers[i].backward.size() == 1 + 4 + 1);
    CHECK(layers[i].backward_kernels == 6);
  }
  // Nothing before the first adapter is asked for a gradient; a norm after it passes its input's on.
  CHECK(layers[0].backward.empty());
  CHECK(layers[0].backward_elements == 0);
  CHECK(layers[4].backward.size() == 1);
  CHECK(layers[4].parameters.empty());
  CHECK(layers[4].frozen_elements == 2048);
  CHECK(layers[2].backward_work == before[2].backward_work);
}

TEST_CASE("passes: without attention nothing is adapted", "[unit][workload]") {
  std::vector<Layer> layers{layer(Linear{.out = 8}, {8, 32})};
  CHECK(adapt(layers, 4).error().code == ErrorCode::kUnsupported);
}
