#include <catch2/catch.hpp>
#include <string>

#include "case_row.h"
#include "cases/case_scenario.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using ddlsim::test::row;
using namespace ddlsim::whatif;

namespace {

std::string model_or_error(const io::Case& one) {
  const auto scenario = CaseReader(catalog()).scenario_of(one, 8);
  return scenario ? scenario->model->name : "error: " + scenario.error().message;
}

}  // namespace

TEST_CASE("case: images of another size have layers of other sizes", "[unit][whatif]") {
  io::Case one = row();
  const auto images = [&](const char* size) {
    one.extra["image_size"] = size;
    return model_or_error(one);
  };
  CHECK(images("224") == "ResNet-50 v1.5");
  CHECK(images("224x224") == "ResNet-50 v1.5");
  CHECK(images("448") == "ResNet-50 v1.5 at 448 x 448");
  CHECK(images("1281167") == "ResNet-50 v1.5");  // how many there are: MLPerf's input_size
  CHECK(images("360 x 720") == "ResNet-50 v1.5 at 360 x 720");
  // Networks for small images are others.
  CHECK(images("32") == "error: images of 32 pixels a side; 'ResNet-50 v1.5' is known for 224 x 224");
  one.model = "unet3d";
  CHECK(images("128x128x128").starts_with("U-Net 3D"));
  CHECK(images("64 x 64 x 64") ==
        "error: images of 64 x 64 x 64 pixels a side; 'U-Net 3D' is known for 2,097,152 voxels");
  one.model = "ssd300_vgg16";
  CHECK_THAT(images("512"), Catch::Matchers::Contains("of its own size alone"));
}

TEST_CASE("case: a name that the source gives to a model of another size is no name of ours", "[unit][whatif]") {
  io::Case one = row();
  const auto of_parameters = [&](const char* count) {
    one.extra["params"] = count;
    return model_or_error(one);
  };
  for (const char* const count : {"25.6M", "~25 million", "25557032", "0.0256B", "unknown", ""}) {
    CAPTURE(count);
    CHECK(of_parameters(count) == "ResNet-50 v1.5");
  }
  CHECK(of_parameters("~90M") ==
        "error: the source's 'ResNet-50 v1.5' has 9e+07 parameters, 'ResNet-50 v1.5' has 2.56e+07");
  CHECK(of_parameters("11.7 million").starts_with("error: the source's 'ResNet-50 v1.5' has 1.17e+07"));
}
