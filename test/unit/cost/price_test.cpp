// What a plan costs on a catalogue's server, where no other test pins it by hand.
#include "ddlsim/cost/price.h"

#include <catch2/catch.hpp>
#include <memory>

#include "catalog.h"
#include "ddlsim/plan/lower.h"

using namespace ddlsim;
using ddlsim::test::catalog;

TEST_CASE("price: what a running collective takes from its GPU", "[unit][cost]") {
  plan::Job job;
  job.model = catalog().model("resnet50").value();
  job.cluster.node = catalog().node("dgx1-v100").value();
  job.cluster.gpus_per_node = 8;
  job.batch = 64;
  const auto plan = std::make_shared<const plan::StepPlan>(plan::lower(job).value());
  const cost::LayerPrices layers = cost::price_layers(job, *plan, {1, 1}).value();
  const cost::PricedStep step = cost::price(job, plan, layers).value();
  // Written where it arrives, read, and stored: 3 bytes of the 900 GB/s for each over a link.
  CHECK(step.memory_per_wire_byte.in(seconds) == Approx(3 / 900e9));
  // 12 channels of a mesh on 80 multiprocessors.
  CHECK(step.sm_share == Approx(12.0 / 80));
  CHECK(step.groups.front()->communicator().gpus == 8);
}
