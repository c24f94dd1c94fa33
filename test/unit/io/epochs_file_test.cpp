#include "ddlsim/io/epochs_file.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

using namespace ddlsim;
using namespace ddlsim::io;
using Catch::Matchers::Contains;

namespace {

Expected<std::vector<EpochsAtBatch>> read(const std::string& text) {
  const auto path = std::filesystem::temp_directory_path() / "ddlsim_epochs_test.csv";
  std::ofstream(path) << text;
  return load_epochs_by_batch(path);
}

std::string refusal(const std::string& text) {
  const auto table = read(text);
  REQUIRE_FALSE(table);
  return to_string(table.error());
}

}  // namespace

TEST_CASE("epochs file: batches with their epochs, sorted", "[unit][io]") {
  const auto table = read("epochs,global_batch\n96.5,8192\n90,256\n");
  REQUIRE(table);
  REQUIRE(table->size() == 2);
  CHECK(table->front().global_batch == 256);
  CHECK(table->front().epochs == 90);
  CHECK(table->back().epochs == 96.5);
}

TEST_CASE("epochs file: what is no table is refused, with its place", "[unit][io]") {
  CHECK_THAT(refusal("global_batch\n256\n"), Contains("'epochs' is missing"));
  CHECK_THAT(refusal("global_batch,epochs,colour\n256,90,blue\n"), Contains("unknown column 'colour'"));
  CHECK_THAT(refusal("global_batch,epochs\n0,90\n"), Contains(":2:1") && Contains("out of range"));
  CHECK_THAT(refusal("global_batch,epochs\n256,0\n"), Contains(":2:5") && Contains("not above 0"));
  CHECK_THAT(refusal("global_batch,epochs\n256,ninety\n"), Contains("is not a number"));
  CHECK_THAT(refusal("global_batch,epochs\n256,90\n256,91\n"), Contains(":3:1") && Contains("stands twice"));
  CHECK_THAT(refusal("global_batch,epochs\n"), Contains("no global batch"));
  CHECK_FALSE(load_epochs_by_batch("/no/such/file.csv"));
}
