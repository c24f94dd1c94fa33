// Models of images of another size than their file's.
#include <catch2/catch.hpp>
#include <string>

#include "catalog.h"
#include "ddlsim/io/catalog.h"
#include "ddlsim/io/model_file.h"

using namespace ddlsim;
using Catch::Matchers::Contains;

namespace {

workload::Model of_images(const std::string& id, const io::Dimensions& sides) {
  const auto model = test::catalog().model(id, sides);
  if (!model) FAIL(to_string(model.error()));
  return **model;
}

std::string refused(const std::string& id, const io::Dimensions& sides) {
  const auto model = test::catalog().model(id, sides);
  return model ? "" : model.error().message;
}

}  // namespace

TEST_CASE("image resize: a ResNet's maps are those of its images, its weights the same", "[unit][io]") {
  const workload::Model own = of_images("resnet50", {});
  const workload::Model twice = of_images("resnet50", {{"image", 448}});
  CHECK(twice.name == "ResNet-50 v1.5 at 448 x 448");
  CHECK(twice.parameters() == own.parameters());
  CHECK(twice.input_per_sample == 4.0 * own.input_per_sample);
  CHECK_FALSE(twice.published.forward_flops);
  REQUIRE(twice.layers.size() == own.layers.size());
  // Four times the work of all but the classifier.
  CHECK(twice.totals.forward_work / own.totals.forward_work == Approx(4).epsilon(1e-3));
  // By hand: 160 x 160 is 80 x 80 behind the first convolution, 40 x 40 behind the pool, and a branch reads that too.
  const workload::Model less = of_images("resnet50", {{"image", 160}});
  CHECK(less.layers[1].in == workload::Shape{64, 80, 80});
  CHECK(less.layers[4].in == workload::Shape{64, 40, 40});
  for (const workload::Layer& layer : less.layers) {
    if (layer.name == "layer1_downsample") CHECK(layer.in == workload::Shape{64, 40, 40});
  }
  // Each side by itself.
  const workload::Model wide = of_images("resnet50", {{"image_height", 224}, {"image_width", 448}});
  CHECK(wide.layers[1].in == workload::Shape{64, 112, 224});
  CHECK(of_images("resnet50", {{"image", 224}}).name == own.name);
}

TEST_CASE("image resize: patches, their class and their positions follow", "[unit][io]") {
  const workload::Model resized = of_images("vit_base", {{"image", 384}});
  const workload::Model shipped = of_images("vit_base_384", {});
  CHECK(resized.parameters() == shipped.parameters());
  CHECK(resized.totals.forward_work == shipped.totals.forward_work);
  CHECK(resized.totals.saved_elements == shipped.totals.saved_elements);
  // Back again.
  CHECK(of_images("vit_base_384", {{"image", 224}}).totals.forward_work ==
        of_images("vit_base", {}).totals.forward_work);
  // A text beside the images stays as it is: four times the patches, less than four times the work.
  const double times = of_images("clip_vit_b16", {{"image", 448}}).totals.forward_work /
                       of_images("clip_vit_b16", {}).totals.forward_work;
  CHECK(times > 3.5);
  CHECK(times < 4.5);
}

TEST_CASE("image resize: rows of a map are as many as it has places", "[unit][io]") {
  const auto work = [](std::int64_t side) { return of_images("convnext_base", {{"image", side}}).totals.forward_work; };
  CHECK(work(448) / work(224) == Approx(4).epsilon(1e-3));
}

TEST_CASE("image resize: what is enlarged again is so of other sizes", "[unit][io]") {
  const workload::Model own = of_images("deeplabv3_resnet50", {});
  const workload::Model twice = of_images("deeplabv3_resnet50", {{"image", 1040}});
  CHECK(twice.totals.forward_work / own.totals.forward_work == Approx(4).epsilon(1e-3));
  // A U-Net without padding: each of its ways up begins at twice the map below it.
  const workload::Model less = of_images("unet_medical", {{"image", 316}});
  CHECK(less.parameters() == of_images("unet_medical", {}).parameters());
  std::int64_t enlarged = 0;
  for (std::size_t i = 1; i < less.layers.size(); ++i) {
    const workload::Shape& before = less.layers[i - 1].in;
    const workload::Shape& here = less.layers[i].in;
    if (before.size() == 3 && here.size() == 3 && here[1] > before[1] && here[1] == 2 * before[1]) ++enlarged;
  }
  CHECK(enlarged > 0);
}

TEST_CASE("image resize: what a classifier flattens keeps its size", "[unit][io]") {
  const workload::Model own = of_images("vgg16", {});
  const workload::Model twice = of_images("vgg16", {{"image", 448}});
  CHECK(twice.parameters() == own.parameters());
  CHECK(twice.totals.forward_work > 3.9 * own.totals.forward_work);
}

TEST_CASE("image resize: a detector's predictions are as many as its maps have places", "[unit][io]") {
  const workload::Model yolo = of_images("yolov3", {});
  const workload::Model larger = of_images("yolov3", {{"image", 832}});
  CHECK(larger.parameters() == yolo.parameters());
  CHECK(larger.totals.forward_work / yolo.totals.forward_work == Approx(4).epsilon(1e-6));
  // 3 (160^2 + 80^2 + 40^2) of 1280 pixels; of 640, 3 (80^2 + 40^2 + 20^2) = 25,200.
  const workload::Model boxes = of_images("yolov5s", {{"image", 1280}});
  CHECK(boxes.layers.back().in == workload::Shape{100800, 85});
  CHECK(of_images("retinanet_resnet50_fpn", {{"image_height", 640}, {"image_width", 800}}).totals.forward_work <
        of_images("retinanet_resnet50_fpn", {}).totals.forward_work);
  CHECK(refused("fasterrcnn_resnet50_fpn", {{"image", 640}}) == "the model is known for images of its own size alone");
  CHECK(refused("detr_resnet50", {{"image", 640}}) == "the model is known for images of its own size alone");
}

TEST_CASE("image resize: sizes that no layer takes are refused", "[unit][io]") {
  CHECK_THAT(refused("inception_v3", {{"image", 64}}), Contains("the model takes no images of that size: layer '"));
  CHECK_THAT(refused("swin_b", {{"image", 384}}), Contains("reads a map of a size that nothing before it has"));
  CHECK(refused("ssd300_vgg16", {{"image", 512}}) == "the model is known for images of its own size alone");
  CHECK(refused("bert_large", {{"image", 224}}) == "the model is known for images of its own size alone");
  CHECK(refused("resnet50", {{"image", 0}}) == "images of 0 x 0 pixels");
  CHECK(refused("resnet50", {{"image", 1 << 20}}) == "images of 1048576 x 1048576 pixels");
}
