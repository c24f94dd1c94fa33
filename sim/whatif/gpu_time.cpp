#include "gpu_time.h"

#include "ddlsim/whatif/predict.h"

namespace ddlsim::whatif {

DataSize updated_bytes(const StepQuestion& question) {
  const Scenario& scenario = question.scenario;
  const workload::Model& model = *scenario.model;
  return bytes(4) * workload::gradient_elements(model, scenario.batch * scenario.strategy.accumulation) *
         update_accesses(model.optimizer);
}

std::shared_ptr<const cost::CalibratedTimes> calibrate(const StepQuestion& question, const cost::DeviceRates& assumed) {
  const Scenario& scenario = question.scenario;
  cost::Calibration calibration{.profiles = {},
                                .gpu = scenario.cluster.node.gpu,
                                .assumed = assumed,
                                .assumed_interval = {kInterval90Low, kInterval90High}};
  for (const ChosenProfile& chosen : scenario.profiles) {
    calibration.profiles.push_back({chosen.profile.get(), chosen.borrowed});
  }
  return std::make_shared<const cost::CalibratedTimes>(cost::calibrated_times(
      *scenario.model, calibration, static_cast<double>(scenario.batch), scenario.precision, updated_bytes(question)));
}

std::vector<cost::LayerTimes> varied_times(const cost::CalibratedTimes& times, double compute, double memory) {
  std::vector<cost::LayerTimes> layers = times.layers;
  if (compute == 1 && memory == 1) return layers;
  for (cost::LayerTimes& layer : layers) {
    for (cost::LayerTime* pass : {&layer.forward, &layer.backward}) {
      pass->compute = pass->compute * compute;
      pass->memory = pass->memory * memory;
    }
  }
  return layers;
}

}  // namespace ddlsim::whatif
