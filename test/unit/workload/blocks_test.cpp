#include "ddlsim/workload/blocks.h"

#include <catch2/catch.hpp>
#include <string>

using namespace ddlsim;
using namespace ddlsim::workload;

namespace {

class List {
 public:
  List& add(const Op& op, const Shape& in) {
    layers_.push_back(layer_of(op, in, "layer " + std::to_string(layers_.size())).value().layer);
    return *this;
  }
  List& block() {
    return add(RmsNorm{}, kRows)
        .add(Linear{.out = 192, .bias = false}, kRows)
        .add(Attention{.heads = 4}, kRows)
        .add(Linear{.out = 64, .bias = false}, kRows)
        .add(Combine{}, kRows);
  }
  [[nodiscard]] std::vector<Block> blocks() const { return blocks_of(layers_); }

  static inline const Shape kRows{16, 64};

 private:
  std::vector<Layer> layers_;
};

using Blocks = std::vector<Block>;

}  // namespace

TEST_CASE("blocks: what repeats and has attention, the header's example", "[unit][workload]") {
  List list;
  list.add(Embedding{.rows = 100, .width = 64, .lookups = 16}, {16}).block().block();
  list.add(RmsNorm{}, List::kRows).add(Linear{.out = 100, .bias = false}, List::kRows);
  CHECK(list.blocks() == Blocks{{0, 1, false}, {1, 5}, {6, 5}, {11, 2, false}});
}

TEST_CASE("blocks: sums before the first block are none of it", "[unit][workload]") {
  // As BERT lists it: two sums, alike, are no block without attention; nor does a block begin with what stands before.
  List list;
  list.add(Combine{}, List::kRows).add(Combine{}, List::kRows).add(Combine{}, List::kRows).block().block().block();
  CHECK(list.blocks() == Blocks{{0, 3, false}, {3, 5}, {8, 5}, {13, 5}});
}

TEST_CASE("blocks: two kinds of blocks", "[unit][workload]") {
  // They begin alike, as DeepSeek's dense blocks and those with experts do.
  List list;
  list.block().block();
  for (int i = 0; i < 2; ++i) {
    list.add(RmsNorm{}, List::kRows).add(Linear{.out = 192, .bias = false}, List::kRows);
    list.add(Attention{.heads = 4}, List::kRows).add(Linear{.out = 64}, List::kRows);
    list.add(Pointwise{}, List::kRows).add(Combine{}, List::kRows);
  }
  CHECK(list.blocks() == Blocks{{0, 5}, {5, 5}, {10, 6}, {16, 6}});
}

TEST_CASE("blocks: of a network of sums, to each sum and its activation", "[unit][workload]") {
  const Shape image{8, 4, 4};
  const Convolution same{.out = 8, .kernel = {3, 3}, .pad = {1, 1}};
  List list;
  list.add(same, image).add(Pointwise{.reads = Reads::kOutput}, image);  // stem
  list.add(same, image)
      .add(Combine{}, image)
      .add(Pointwise{.reads = Reads::kOutput}, image);  // with the stem up to a sum
  list.add(same, image).add(BatchNorm{}, image).add(Combine{}, image).add(Pointwise{.reads = Reads::kOutput}, image);
  list.add(GlobalPool{}, image).add(Linear{.out = 10}, {8});
  CHECK(list.blocks() == Blocks{{0, 5}, {5, 5}, {10, 1}});
}

TEST_CASE("blocks: without sums, one for each layer with weights", "[unit][workload]") {
  List list;
  list.add(Flatten{}, {4, 4})
      .add(Linear{.out = 8}, {16})
      .add(Pointwise{.reads = Reads::kOutput}, {8})
      .add(Linear{.out = 2}, {8});
  CHECK(list.blocks() == Blocks{{0, 3}, {3, 1}});
  CHECK(blocks_of({}).empty());
}

TEST_CASE("blocks: every layer is in one", "[unit][workload]") {
  List list;
  list.block().add(RmsNorm{}, List::kRows).block().block();
  std::size_t next = 0;
  for (const Block& block : list.blocks()) {
    CHECK(block.first == next);
    next += block.count;
  }
  CHECK(next == 16);
}
