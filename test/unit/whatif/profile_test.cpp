// Which profile answers for a GPU, and what that says of the prediction.
#include <algorithm>
#include <catch2/catch.hpp>

#include "catalog.h"
#include "ddlsim/cost/price.h"
#include "ddlsim/hardware/gpu_profile.h"
#include "ddlsim/whatif/predict.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using namespace ddlsim::whatif;

namespace {

Expected<Scenario> scenario(std::vector<Override> more) {
  std::vector<Override> settings{{"model", "bert_large", {}}, {"node", "dgx1-v100", {}}, {"gpus_per_node", "1", {}}};
  settings.insert(settings.end(), more.begin(), more.end());
  return resolve(catalog(), settings);
}

const std::vector<hardware::MeasuredProfile>& profiles(const Scenario& scenario) {
  return scenario.cluster.node.gpu.profiles;
}

bool borrowed(const Scenario& scenario, std::size_t i) {
  return cost::is_borrowed(scenario.cluster.node.gpu, profiles(scenario)[i]);
}

bool noted(const answer::Prediction& prediction, std::string_view text) {
  return std::any_of(prediction.notes.begin(), prediction.notes.end(),
                     [&](const std::string& note) { return note.find(text) != std::string::npos; });
}

}  // namespace

TEST_CASE("profile: a GPU's own comes first, its architecture's help out", "[unit][whatif]") {
  const auto own = scenario({{"gpu", "v100-pcie-32gb", {}}}).value();
  REQUIRE(profiles(own).size() >= 2);
  CHECK(profiles(own).front().profile->gpu == "v100-pcie-32gb");
  CHECK_FALSE(borrowed(own, 0));
  CHECK(borrowed(own, 1));
  const auto other = scenario({{"gpu", "v100s-pcie-32gb", {}}}).value();
  REQUIRE_FALSE(profiles(other).empty());
  CHECK(borrowed(other, 0));
  CHECK(profiles(scenario({{"gpu", "k80", {}}}).value()).empty());
}

TEST_CASE("profile: another datasheet than the measured one lends", "[unit][whatif]") {
  const auto faster = scenario({{"gpu", "v100-pcie-32gb", {}}, {"gpu.peak.fp32", "28 TFLOP/s", {}}}).value();
  REQUIRE_FALSE(profiles(faster).empty());
  CHECK(borrowed(faster, 0));
}

TEST_CASE("profile: a stated share or choice wins", "[unit][whatif]") {
  CHECK(profiles(scenario({{"gpu.calibration", "none", {}}}).value()).empty());
  CHECK_FALSE(cost::by_profiles(scenario({{"efficiency.compute", "45 %", {}}}).value()));
  CHECK(cost::by_profiles(scenario({{"efficiency.network", "90 %", {}}}).value()));
  const auto named = scenario({{"gpu.calibration", "t4", {}}}).value();
  REQUIRE(profiles(named).size() == 1);
  CHECK(profiles(named).front().profile->gpu == "t4");
  CHECK(borrowed(named, 0));
  const auto unknown = scenario({{"gpu.calibration", "v100-pice-32gb", {}}});
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().code == ErrorCode::kNotFound);
}

TEST_CASE("profile: provenance and interval follow from what was measured", "[unit][whatif]") {
  const auto ratio = [](const answer::Prediction& p) { return p.interval_90.second / p.interval_90.first; };
  const auto own = predict(scenario({{"gpu", "v100-pcie-32gb", {}}}).value()).value();
  const auto borrowed = predict(scenario({{"gpu", "v100s-pcie-32gb", {}}}).value()).value();
  const auto none = predict(scenario({{"gpu.calibration", "none", {}}}).value()).value();
  CHECK(own.provenance == Provenance::kExtrapolated);  // the weight update has no curve of its own
  CHECK(borrowed.provenance == Provenance::kExtrapolated);
  CHECK(none.provenance == Provenance::kAssumed);
  CHECK(ratio(own) < ratio(borrowed));
  CHECK(ratio(borrowed) < ratio(none));
  CHECK(noted(own, "within what was measured"));
  CHECK(noted(borrowed, "(borrowed)"));
  CHECK_FALSE(noted(own, "assumed: 70 %"));
}

TEST_CASE("profile: a precision without a curve is assumed", "[unit][whatif]") {
  const auto p = predict(scenario({{"gpu", "a100-pcie-40gb", {}}, {"precision", "tf32", {}}}).value()).value();
  CHECK(p.provenance == Provenance::kAssumed);
}

TEST_CASE("fusion: fewer bytes, fewer launches, the same FLOPs", "[unit][whatif]") {
  const auto plain = predict(scenario({}).value()).value();
  const auto fused = predict(scenario({{"fusion", "all", {}}}).value()).value();
  CHECK(fused.step_time < plain.step_time);
  CHECK(fused.memory_per_gpu < plain.memory_per_gpu);
  const auto slow = scenario({{"batch", "1", {}}, {"launch_interval", "50 us", {}}}).value();
  const auto graphs =
      scenario({{"batch", "1", {}}, {"launch_interval", "50 us", {}}, {"cuda_graphs", "yes", {}}}).value();
  CHECK(predict(graphs).value().breakdown.launch < microseconds(1));
  CHECK(predict(slow).value().breakdown.launch > milliseconds(1));
}

TEST_CASE("profile: one changed number scales the profile that answered, and never drops it", "[unit][whatif]") {
  const auto step = [](const std::string& model, const std::string& node, const std::string& bandwidth) {
    std::vector<Override> settings{{"model", model, {}}, {"node", node, {}}, {"gpus_per_node", "1", {}}};
    if (!bandwidth.empty()) settings.push_back({"gpu.memory_bandwidth", bandwidth, {}});
    return predict(resolve(catalog(), settings).value()).value().step_time;
  };
  // A 2080 Ti (616 GB/s) borrows from a T4 (320 GB/s): at 1000 GB/s it is over three times away, by what was changed.
  const Time close = step("gpt2", "pcie-4x2080ti", "940 GB/s");
  const Time beyond = step("gpt2", "pcie-4x2080ti", "1000 GB/s");
  CHECK(beyond < close);
  CHECK(beyond > close * 0.98);
  // A V100's own table of measured convolutions (900 GB/s) moves with its curve.
  const Time own = step("vgg16", "dgx1-v100", "");
  const Time faster = step("vgg16", "dgx1-v100", "901 GB/s");
  CHECK(faster < own);
  CHECK(faster > own * 0.999);
}
